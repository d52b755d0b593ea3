"""From a Python function to an expression, by reading its bytecode: nothing of the function runs.

The function is followed instruction by instruction with expressions on the stack (``stack.py``), both ways at a branch, and into
functions of the program that it calls. Everything that is not on a short list of instructions is refused with the reason that
``explain()`` prints, so what gets through has no effect, always ends, and depends on its arguments and on constants alone. A
global or a variable of an enclosing function counts as a constant if it is one; ``Traced.holds`` checks later whether it still
has that value (``dependencies.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from types import CodeType, FunctionType
from typing import Any, Self, TypeVar

from funken.columnar.bytecode import catches, is_followed
from funken.columnar.calling import Marker, Steps, constant_of, known_target
from funken.columnar.dependencies import Dependency, InlinedFunction, default_argument, fingerprint, still_holds
from funken.columnar.expressions import Argument, Expression, NotVectorizable, Unary
from funken.columnar.faults import reads
from funken.columnar.lists.calls import FIRST_ITEM
from funken.columnar.lists.comprehensions import VariablesReader, cells_of, operations_of
from funken.columnar.stack import Stack, State
from funken.columnar.typed.inference import typed_and_read
from funken.columnar.walk import Walk
from funken.dataclass import dataclass
from funken.expr.types import Type

_Read = TypeVar("_Read")

_DEEPEST = 10
"""Functions that call each other are read so deep."""


@dataclass(frozen=True)
class Traced:
    """A function, and what it computes."""

    result: Expression
    dependencies: tuple[Dependency, ...] = ()
    #: of a typed one, the paths of the fields of the first argument that it looks at, also if the result does not show them
    read: frozenset[tuple[int, ...]] = field(default=frozenset(), compare=False)
    catches: bool = False
    """Whether it handles exceptions: that a record raises one is nothing unusual."""

    def holds(self, target: Any, method: str | None = None) -> bool:
        """Whether everything the function uses is still what it was when it was traced."""
        return still_holds(self.dependencies, target, method)

    @reads
    def typed(self, *schemas: Type) -> tuple[Traced, Type]:
        """Return it for arguments of these schemas, as kernels compute it, and the schema of its results.

        Raises ``NotVectorizable``.
        """
        (result, schema), read = typed_and_read(self.result, *schemas)
        return replace(self, result=result, read=read), schema

    @reads
    def condition(self, schema: Type) -> Traced:
        """Return where it is true of records of a schema, as kernels compute it; raise ``NotVectorizable``."""
        (result, _), read = typed_and_read(Unary("bool", self.result), schema)
        return replace(self, result=result, read=read)


@reads
def trace(target: Any, method: str | None, arguments: int, changes: bool = False, schema: Type | None = None) -> Traced:
    """Return what a function of ``arguments`` arguments computes; raise ``NotVectorizable`` with the reason.

    ``method`` names a method of the object ``target``, which may use attributes that ``__init__`` has set. ``changes``: nobody
    but the function has its arguments from then on, so it may change them. ``schema``: that of the first argument, if what is
    read holds for records of that schema only.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> trace(lambda pair: (pair[0], 1), None, 1).typed(Tuple((STR, INT)))[0].result
    Make(items=(Argument(argument=0, path=(0,)), Constant(value=1)))
    >>> trace(lambda line: print(line), None, 1)
    Traceback (most recent call last):
        ...
    funken.columnar.expressions.NotVectorizable: calls print()
    """
    known = known_target(target) if method is None and arguments == 1 else None
    if known is not None:
        return Traced(known)
    function = function_of(target, method)
    tracer = Tracer(function, [*map(Argument, range(arguments))], method is not None, target=target)
    return with_method(tracer.of(schema, changes).run(), function, method)


def with_method(traced: _Read, function: FunctionType, method: str | None) -> _Read:
    """Return what was read of a function; of a ``method``, it holds as long as the object has that one."""
    if method is None:
        return traced
    made: Any = traced
    known = Dependency("method", method, fingerprint(function.__code__))
    found: _Read = replace(made, dependencies=(*made.dependencies, known))
    return found


def function_of(target: Any, method: str | None) -> FunctionType:
    """Return a function, or that of a method; raise ``NotVectorizable`` if it is no plain one."""
    return plain_function(target) if method is None else function_of_method(target, method)


def plain_function(target: Any) -> FunctionType:
    """Return a function; raise ``NotVectorizable`` if it is anything else that can be called."""
    if type(target) is not FunctionType:
        raise NotVectorizable(f"{getattr(target, '__qualname__', type(target).__qualname__)} is no Python function")
    return target


def function_of_method(target: Any, method: str) -> FunctionType:
    """Return the function of a method; raise ``NotVectorizable`` if it is no plain one."""
    kind = type(target)
    found = getattr(kind, method, None)
    plain: Any = object.__getattribute__
    if type(found) is not FunctionType or kind.__getattribute__ is not plain:
        raise NotVectorizable(f"{kind.__qualname__}.{method} is no plain method")
    if method in getattr(target, "__dict__", {}):
        raise NotVectorizable(f"{kind.__qualname__}.{method} is replaced on the object")
    return found


class Tracer(VariablesReader):
    """Follows one function, which is called with ``given``."""

    def __init__(
        self, function: FunctionType, given: Sequence[Any], bound: bool, steps: Steps | None = None, target: Any = None
    ) -> None:  # fmt: skip
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        self._check(code)
        self._function, self._code = function, code
        self._dependencies: dict[tuple[str, str], Dependency] = {}
        self._steps = Steps() if steps is None else steps
        self._steps.catches |= catches(code)
        count = len(given) + bound
        if not len(names) - len(function.__defaults__ or ()) <= count <= len(names):
            raise NotVectorizable(f"takes {len(names) - bound} arguments, not {len(given)}")
        self._operations = operations_of(code)
        self._cells = cells_of(code, self._operations)
        own = [Marker("self", name, target) for name in names[:bound]]
        self._start: dict[str, Any] = dict(zip(names, [*own, *given], strict=False))
        for name in names[count:]:
            self._start[name] = self._default(name)

    @staticmethod
    def _check(code: CodeType) -> None:
        if not is_followed(code):
            raise NotVectorizable("is a generator, or has variable arguments")

    def _default(self, name: str) -> Expression:
        found = default_argument(self._function, name)
        assert found is not None
        constant = constant_of(found[0])
        self._dependencies["default", name] = Dependency("default", name, found[0])
        return constant

    def of(self, schema: Type | None, changes: bool) -> Self:
        """Return it, as one that knows the schema of its first argument, and may change its arguments if ``changes``."""
        self._steps.schema = schema
        if changes:
            self._steps.own += [each for each in self._start.values() if isinstance(each, Argument)]
        return self

    def run(self, called: bool = False) -> Traced:
        """Follow the function from its beginning; if it is ``called`` by another one, what it is given is evaluated before."""
        begin = State(0, Stack(self), self._start)
        for each in list(self._start.values()) if called else ():
            begin.drop(each)
        result = self._follow(begin)
        return Traced(result, tuple(self._dependencies.values()), catches=self._steps.catches)

    # ---- what the stack asks for

    def function(self) -> FunctionType:
        """Return the function that is read."""
        return self._function

    def depend(self, dependency: Dependency) -> None:
        """Note what the function uses."""
        self._dependencies[dependency.kind, dependency.name] = dependency

    def inlined(self, kind: str, name: str, function: FunctionType, given: tuple[Expression, ...]) -> Expression:
        """Return what a function of the program makes of arguments."""
        self._steps.depth += 1
        if self._steps.depth > _DEEPEST:
            raise NotVectorizable(f"calls {name}(), which calls others too deep")
        with self._steps.within(function.__code__, name):
            traced = self._called(function, given, f"calls {name}(), which")
        self._steps.depth -= 1
        self.depend(Dependency(kind, name, InlinedFunction(fingerprint(function.__code__), traced.dependencies)))
        return traced.result

    def new_item(self) -> int:
        """Return the number of an argument that stands for the items of a list."""
        self._steps.loops += 1
        number: int = FIRST_ITEM + self._steps.loops
        return number

    def inner(self, function: FunctionType, given: tuple[Expression, ...]) -> Expression:
        """Return what a function that the function itself makes, without variables of its own, makes of arguments."""
        with self._steps.inside():
            traced = self._called(function, given, "calls an inner function, which")
        for each in traced.dependencies:  # of names that mean the same in both
            self.depend(each)
        return traced.result

    def _called(self, function: FunctionType, given: Sequence[Any], what: str, bound: bool = False) -> Traced:
        """Read another function; a refusal begins with ``what``."""
        try:
            return Tracer(function, given, bound, self._steps).run(called=True)
        except NotVectorizable as refused:
            raise NotVectorizable(f"{what} {refused}") from None

    # ---- the way through

    def _follow(self, state: State, at: int | None = None, carried: tuple[str, ...] | None = None) -> Expression:
        """Follow the function from a state to its returns, or the body of the loop ``at`` to its end.

        ``carried`` are the variables that a loop, which is no comprehension, carries from one item to the next.
        """
        if at is None:
            return Walk(self, at, carried).run(state)
        with self._steps.inside():
            return Walk(self, at, carried).run(state)


__all__ = ["Dependency", "Traced", "Tracer", "function_of", "function_of_method", "trace", "with_method"]
