"""From a Python function to an expression, by reading its bytecode: nothing of the function runs.

The function is followed instruction by instruction with expressions on the stack (``stack.py``), both ways at a branch, and into
functions of the program that it calls. Everything that is not on a short list of instructions is refused with the reason that
``explain()`` prints, so what gets through has no effect, always ends, and depends on its arguments and on constants alone. A
global or a variable of an enclosing function counts as a constant if it is one; ``Traced.holds`` checks later whether it still
has that value (``dependencies.py``).
"""

from __future__ import annotations

import inspect
from collections import Counter, abc
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import field, replace
from functools import partial
from types import CodeType, FunctionType
from typing import Any, Self, TypeVar

from funken.columnar.bytecode import (
    Operation,
    UnknownBytecode,
    always_raises,
    catches,
    ends_loops_twice,
    is_followed,
    is_generator,
    operations,
)
from funken.columnar.calling import (
    DISPLAY,
    Dependency,
    FunctionReader,
    Marker,
    Method,
    Steps,
    constant_of,
    default_argument,
    expression_on,
    fingerprint,
    known_target,
    still_holds,
)
from funken.columnar.expressions import (
    Argument,
    Choose,
    Constant,
    Expression,
    Invoke,
    Loop,
    Make,
    MakeRecord,
    NotVectorizable,
    Raises,
    Sequence,
    Unpacked,
    nodes_of,
    pruned,
    reads,
)
from funken.columnar.recurrence import (
    NOTHING,
    appended_of,
    conditions_of,
    fold_of,
    is_never,
    result_of,
)
from funken.columnar.stack import Agenda, Stack, State, changed, is_made, labels_of
from funken.columnar.typed.inference import typed_and_read
from funken.columnar.typed.operations import FIRST_ITEM, dict_of, view_of
from funken.dataclass import dataclass
from funken.expr.types import Type

# ---- Variables and comprehensions of a function that is followed instruction by instruction.
#
# A comprehension is a function of its own up to Python 3.11, and a loop from 3.12 on; a generator expression is
# always a function. Its body is followed once, for any item of a list (``Loop``), or for each item of a display.


UNSET = Marker("unset")
_ONCE = ("a generator", "a map", "a filter")
_CLOSURE = 8
_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ITERABLE_COROUTINE
_MADE = {"<setcomp>": "BUILD_SET", "<dictcomp>": "BUILD_MAP"}
"""What the functions of comprehensions make, but for lists."""
_BEGINS = [["SWAP", made, "SWAP"] for made in ("BUILD_LIST", "BUILD_SET", "BUILD_MAP")]


def items_displayed(iterator: Any) -> list[Any] | None:
    """Return the items that an iterator of a display has left; ``None`` if it is that of something else."""
    items = iterator.value if isinstance(iterator, Marker) else None
    if isinstance(iterator, Marker) and iterator.kind == DISPLAY:
        return list(iterator.value)
    if isinstance(items, Marker) and items.kind in ("list", "generator"):
        items = Make(tuple(items.value)) if items.kind == "list" else items.value
    if not isinstance(items, Make) or any(isinstance(each, Unpacked) for each in items.items):
        return None
    return list(items.items)


def spend(items: Any, variables: dict[str, Any]) -> None:
    """Note, on this path, that an iterable yields its items once: a generator, a map or a filter."""
    if isinstance(items, Marker) and items.kind == "generator" and items.name in _ONCE:
        for name, found in variables.items():
            if found is items:
                variables[name] = Marker("spent", items.name)


def a_set(items: Any) -> Marker:
    """Return a set, as the list that it is made of."""
    return Marker("set", "a set", Invoke("list", (expression_on(items),)))


def operations_of(code: CodeType) -> list[Operation]:
    """Return the operations of a function; raise ``NotVectorizable`` if this Python is not known."""
    try:
        return operations(code)
    except UnknownBytecode as unknown:
        raise NotVectorizable(str(unknown)) from None


def cells_of(code: CodeType, found: list[Operation]) -> frozenset[str]:
    """Return the variables of a function that its comprehensions use, and that are assigned once at most."""
    stored = Counter(each.argument for each in found if each.name in ("STORE_FAST", "STORE_DEREF"))
    stored.update(code.co_varnames[: code.co_argcount])
    return frozenset(name for name in code.co_cellvars if stored[name] <= 1)


# ---- The way through a function, from one operation to the next, and from one place where paths meet to the next.
#
# What follows an ``if`` is read once, and the expressions grow with the length of the function, not with the number
# of paths.


class Walk:
    """Follows a function to its returns, or the body of the loop ``at`` to its end.

    ``carried``: the loop is no comprehension, and carries variables from one item to the next.
    """

    def __init__(
        self, reader: Tracer, at: int | None = None, carried: bool = False, agenda: Agenda | None = None
    ) -> None:
        self.agenda = Agenda(reader._steps) if agenda is None else agenda
        self._reader = reader
        self.operations: list[Operation] = reader._operations
        self._at = at
        self._carried = carried
        self._labels = labels_of(self.operations)
        self._ends: list[tuple[State, Expression]] = []

    def run(self, begin: State) -> Expression:
        """Return the results of the function, chosen by the conditions of their paths."""
        self.follow(begin)
        return self.value(_given)

    def value(self, of: Callable[[State, Expression], Expression]) -> Expression:
        """Return a value of the states where paths end, and of their results, chosen by the conditions of the paths."""
        found = ((state, of(state, result)) for state, result in self._ends)
        paths = [(end.when, Sequence(end.dropped, value) if end.dropped else value) for end, value in found]
        return pruned(self.agenda.conditions.choose(paths, Choose), self.agenda.key)

    def gives_several(self) -> bool:
        """Return True if paths give lists, from an inner loop; raise ``NotVectorizable`` if only some of them do."""
        found = {end.several for end, _ in self._ends if end.given is not None}
        if len(found) > 1:
            raise NotVectorizable("has a loop in a loop, and gives something beside it")
        return True in found

    def follow(self, begin: State) -> None:
        """Follow all paths from a state on."""
        self.agenda.add(begin, begin.number)
        while states := self.agenda.take():
            for state in states:
                self._go(state)

    # ---- where paths end

    def _ends_at(self, number: int) -> bool:
        return number == self._at

    def _end(self, state: State, result: Expression) -> None:
        self._ends.append((state, result))

    def _end_body(self, state: State) -> None:
        """End with the body of a loop."""
        self._end(state, NOTHING if state.given is None else state.given)

    def _raise(self, state: State) -> None:
        """End with an exception, unless it is one for an item of a loop."""
        state.dropped = ()
        self._end(state, Raises())

    def _return(self, state: State) -> None:
        if self._at is not None:
            raise NotVectorizable("leaves a loop early")
        self._end(state, expression_on(state.stack.pop()))

    # ---- from one place to the next

    def _go(self, state: State) -> None:
        """Follow a state to the next branch, to where paths meet, or to the end."""
        if self._raises_at(state.number):
            self._raise(state)
            return
        first = True
        while True:
            if self._ends_at(state.number):
                self._end_body(state)
                return
            if state.number in self._labels and not first:
                self.agenda.add(state, state.number)
                return
            first = False
            self._reader._steps.count()
            operation = self.operations[state.number]
            name, argument = operation.name, operation.argument
            state.number += 1
            if name == "RETURN_VALUE":
                self._return(state)
                return
            if name == "FOR_ITER":
                self._begin_loop(state.number - 1, argument, state)
                return
            if "JUMP" in name:
                self._check_jump(name, argument, state)
            if name.startswith(("POP_JUMP", "JUMP_IF")):
                self._branch(name, argument, state)
                return
            if name in ("JUMP", "JUMP_BACKWARD"):
                state.number = argument
            elif name == "END_FOR":  # the loop has taken what it would
                state.number += ends_loops_twice()
            elif name == "POP_TOP":
                state.drop(state.stack.pop())
            elif self._gives(operation, state.stack):
                self._give(operation, state)
            elif name == "CALL" and argument == 0 and state.stack.peek(2, "function"):
                self._comprehend(state)
            elif self._leaves(operation, state):
                return
            else:
                self._reader._step(operation, state)

    def _raises_at(self, number: int) -> bool:
        return self._reader.raises and self._at is None and always_raises(self.operations, number)

    def _leaves(self, operation: Operation, state: State) -> bool:
        """Do an operation from which paths part that the agenda has then; return whether it is one."""
        return False

    def _check_jump(self, name: str, there: int, state: State) -> None:
        """Raise ``NotVectorizable`` for a jump back that is not to the next item of a loop: ``while`` may go on for ever."""
        if there >= state.number and "BACKWARD" not in name:
            return
        over_display = self.operations[there].name == "FOR_ITER" and state.stack.peek(
            1 + (name != "JUMP_BACKWARD"), DISPLAY
        )
        if there != self._at and not over_display:
            raise NotVectorizable("has a loop")

    def _branch(self, name: str, there: int, state: State) -> None:
        self.agenda.branch(name, state.number, there, state)

    # ---- loops, and what they give

    def _gives(self, operation: Operation, stack: Stack) -> bool:
        """Return True if an operation of the body of a loop emits a result for the item."""
        if operation.name == "CALL" and operation.argument == 1 and stack.peek(2, "append"):
            return True
        return self._at is not None and (operation.name == "YIELD_VALUE" or _appends(operation, stack))

    def _give(self, operation: Operation, state: State) -> None:
        """Note an operation's result for the item, which had none before."""
        appends, stack = operation.name == "CALL", state.stack
        if state.given is not None or (appends and not self._carried):
            raise NotVectorizable("makes a list" if appends else "has a loop in a loop")
        value = expression_on(stack.pop())
        if operation.name == "MAP_ADD":
            value = Make((expression_on(stack.pop()), value))
        if appends:
            stack.pop()
            stack.pop()
        if appends or operation.name == "YIELD_VALUE":
            stack.push(Constant(None))
        state.given = value

    def _comprehend(self, state: State) -> None:
        """Call the function that a comprehension is."""
        iterator, function = state.stack.pop(), state.stack.pop()
        code: CodeType = function.value
        found = operations_of(code)
        given = self._is_given(state.number, found, _MADE.get(code.co_name, "BUILD_LIST"))
        state.stack.push(self._reader.comprehended(code, found, iterator, state.variables, given))

    def _is_given(self, number: int, loop: list[Operation], makes: str) -> bool:
        """Return True if what a comprehension makes is the result of the function, and has no other use."""
        return False

    def _begin_loop(self, here: int, stop: int, state: State) -> None:
        """Begin a loop, or go on with the next item of a display."""
        iterator = state.stack.pop()
        if self._reader.is_comprehension(here) and not state.stack.peek(1, "comprehension"):
            state.stack.pop()
            self._comprehend_loop(here, stop, iterator, state)
            self.agenda.add(state, stop)
            return
        shown = self._shown(iterator)
        if shown and not (isinstance(iterator, Marker) and iterator.kind == DISPLAY):
            for each in shown:  # all of them are evaluated before the loop, which may leave some out
                state.drop(each)
        if shown:
            state.stack.push(Marker(DISPLAY, "an iterator", shown[1:]))
            state.stack.push(shown[0])
            inside = any(start == here for start, _, _ in state.loops)
            loops = state.loops if inside else (*state.loops, (here, stop, 0))
            self.agenda.add(replace(state, loops=loops), here + 1)
            return
        if shown is None:
            self._loop_over(here, stop, iterator, state)
        self.agenda.add(state, stop)

    def _shown(self, iterator: Marker) -> list[Expression] | None:
        """Return the items that a loop is followed for one by one; ``None``: it is followed once for any item."""
        return None if self._at is not None and not self._carried else items_displayed(iterator)

    def _comprehend_loop(self, here: int, stop: int, iterator: Marker, state: State) -> None:
        """Push the result of a comprehension that is a loop."""
        makes = self.operations[here - 2].name
        given = self._is_given(stop, self.operations[here:stop], makes)
        loop = self._reader.loop_over(here, iterator, state.variables, given=given)
        state.stack.push(self._reader.of_comprehension(makes, loop))

    def _loop_over(self, here: int, stop: int, iterator: Marker, state: State) -> None:
        """Follow a loop over a list."""
        if self._at is None:
            self._carry(here, stop, iterator, state)
            return
        if state.given is not None or self._carried:
            raise NotVectorizable("has a loop in a loop")
        loop = expression_on(self._reader.loop_over(here, iterator, state.variables, state.stack))
        state.given, state.several = loop, True

    def _carry(self, here: int, stop: int, iterator: Marker, state: State) -> None:
        evaluated = self._reader.carry(here, stop, iterator, state.variables, state.stack.depth())
        state.dropped = (*state.dropped, *evaluated)


def _appends(operation: Operation, stack: Stack) -> bool:
    depth = {"LIST_APPEND": 1, "SET_ADD": 1, "MAP_ADD": 2}.get(operation.name)
    return depth is not None and stack.peek(operation.argument + depth, "comprehension")


def _given(_: State, result: Expression) -> Expression:
    return result


def _variable(name: str, end: State, _: Expression) -> Expression:
    return expression_on(end.variables[name])


_Read = TypeVar("_Read")


@dataclass(frozen=True)
class Traced:
    """A function, and its result as an expression."""

    result: Expression
    dependencies: tuple[Dependency, ...] = ()
    #: of a typed one, the paths of the fields of the first argument that it looks at, also if the result does not show them
    read: frozenset[tuple[int, ...]] = field(default=frozenset(), compare=False)
    catches: bool = False
    """True if it handles exceptions: that a record raises one is nothing unusual."""

    def holds(self, target: Any, method: str | None = None) -> bool:
        """Return True if everything the function uses is as it was when it was traced."""
        return still_holds(self.dependencies, target, method)

    def uses(self, argument: int) -> bool:
        """Return True if its result depends on an argument."""
        return any(isinstance(each, Argument) and each.argument == argument for each in nodes_of(self.result))

    @reads
    def typed(self, *schemas: Type) -> tuple[Traced, Type]:
        """Return it for arguments of these schemas, as kernels compute it, and the schema of its results.

        Raises ``NotVectorizable``.
        """
        (result, schema), read = typed_and_read(self.result, *schemas)
        return replace(self, result=result, read=read), schema

    @reads
    def condition(self, schema: Type) -> Traced:
        """Return it as a test of records of a schema, as kernels compute it; raise ``NotVectorizable``."""
        (result, _), read = typed_and_read(Invoke("bool", (self.result,)), schema)
        return replace(self, result=result, read=read)


@dataclass(frozen=True)
class Convention:
    """A calling convention: the ``arguments`` of a function, and the meaning of its result.

    It ``gives`` a ``value``; or results: ``several``, ``one``, ``one or none`` (``None`` is none), or its first argument where
    the ``truth`` is so.
    """

    arguments: tuple[Any, ...]
    methods: Mapping[tuple[Any, str], Any] = field(default_factory=dict)
    """The results of methods without arguments, by owner (the kind of a marker, or an argument) and name."""
    gives: str = "value"
    sides: bool = False
    """True if a pair of a tag and a value is a result for a side output."""
    changes: bool = False
    """True if nobody but the function has its arguments from then on, so it may change them."""


@reads
def trace(
    target: Any, method: str | None, arguments: int | Convention, changes: bool = False, schema: Type | None = None
) -> Traced:
    """Return the result of a function of so many arguments, or of a convention; raise ``NotVectorizable`` with the reason.

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
    if isinstance(arguments, int):
        arguments = Convention(tuple(map(Argument, range(arguments))), changes=changes)
    tracer = Tracer(function, arguments, method is not None, target=target)
    return with_method(tracer.of(schema).run(), function, method)


def with_method(traced: _Read, function: FunctionType, method: str | None) -> _Read:
    """Return the reading of a function; of a ``method``, it holds as long as the object has that one."""
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


class Tracer(FunctionReader):
    """Follows one function, or one of its comprehensions."""

    _free: frozenset[str] = frozenset()
    raises = True
    """True if what raises an exception is followed; if not, the function is refused."""
    changes = True
    """True if records that are changed are followed; if not, the function is refused."""

    def __init__(
        self, function: FunctionType, convention: Convention, bound: bool, steps: Steps | None = None, target: Any = None
    ) -> None:  # fmt: skip
        given, self.convention = convention.arguments, convention
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        self._check(code)
        super().__init__(function, steps)
        self._code = code
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
        self.depend("default", name, found[0])
        return constant

    def of(self, schema: Type | None) -> Self:
        """Return it, as one that knows the schema of its first argument."""
        self._steps.schema = schema
        if self.convention.changes:
            self._steps.own += [each for each in self._start.values() if isinstance(each, Argument)]
        return self

    def run(self, called: bool = False) -> Traced:
        """Follow the function from its beginning; if it is ``called``, its arguments are evaluated before."""
        begin = State(0, Stack(self), self._start)
        for each in list(self._start.values()) if called else ():
            begin.drop(each)
        result = Walk(self).run(begin)
        return Traced(result, tuple(self._dependencies.values()), catches=self._steps.catches)

    def _called(self, function: FunctionType, given: abc.Sequence[Any], what: str, bound: bool = False) -> Traced:
        """Read another function; a refusal begins with ``what``."""
        try:
            return Tracer(function, Convention(tuple(given)), bound, self._steps).run(called=True)
        except NotVectorizable as refused:
            raise NotVectorizable(f"{what} {refused}") from None

    # ---- the way through

    def _followed(self, state: State, at: int, carried: bool = False) -> Walk:
        """Follow the body of the loop ``at`` to its end; ``carried`` as in ``Walk``."""
        walk = Walk(self, at, carried)
        with self._steps.inside():
            walk.follow(state)
        return walk

    def _unknown(self, owner: Marker, method: str) -> str:
        """Return the reason for which a method of a marker is not followed."""
        return f"asks its {owner.kind} for {method}()"

    def given(self) -> abc.Sequence[Expression]:
        """Return the results of the function so far, behind which it goes on."""
        return ()

    # ---- variables

    def _step(self, operation: Operation, state: State) -> None:
        """Follow an operation that neither jumps nor emits results."""
        name, argument, stack, variables = operation.name, operation.argument, state.stack, state.variables
        if name in ("STORE_FAST", "STORE_DEREF"):
            if name == "STORE_DEREF" and argument not in self._cells:
                raise NotVectorizable(f"changes the variable {argument!r}, which an inner function uses")
            found = stack.pop()
            if found is UNSET:
                variables.pop(argument, None)
                return
            variables[argument] = found
            state.drop(found)
        elif name in ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF") and (name == "LOAD_FAST" or argument in variables):
            stack.push(self._load(variables, argument))
        elif name == "LOAD_CLOSURE":
            stack.push(Marker("cell", argument))
        elif name == "BUILD_TUPLE" and argument and stack.peek(1, "cell"):
            for _ in range(argument):
                stack.pop()
            stack.push(Marker("cells"))
        elif name == "LOAD_METHOD" and argument == "append" and stack.peek(1, "collected"):
            stack.push(Marker("append"))  # two, as a method that is called has
        elif name == "MAKE_FUNCTION" and stack.is_comprehension():
            self._make_function(stack, argument or 0)
        elif name == "GET_ITER":
            items = stack.pop()
            names = self.names_of(items) if isinstance(items, Expression) else None
            spend(items, variables)
            stack.push(Marker("iterator", value=items if names is None else view_of(items, names, "keys")))
        elif name == "RETURN_GENERATOR":
            stack.push(Constant(None))
        elif name == "LOAD_FAST_AND_CLEAR":
            stack.push(variables.pop(argument, UNSET))
        elif name == "SET_FUNCTION_ATTRIBUTE" and argument == _CLOSURE and stack.peek(1, "function"):
            function = stack.pop()
            stack.pop()
            stack.push(function)
        elif name not in ("MAKE_CELL", "END_SEND") and not (self.convention.methods and self._asked(operation, stack)):
            if self.changes:
                given = self.given()
                evaluated = changed(operation, state, self._steps.own, given)
                if evaluated is not None:
                    self._steps.count(len(given))  # each was looked at
                    state.drop(evaluated)
                    return
            stack.step(operation)
            made = is_made(operation, stack)
            if made is not None:
                self._steps.own.append(made)

    def _asked(self, operation: Operation, stack: Stack) -> bool:
        """Follow an operation that asks a context, or the like, for something; return whether it was such."""
        name, argument, top = operation.name, operation.argument, stack.top()
        if name in ("LOAD_METHOD", "LOAD_ATTR") and isinstance(top, Marker | Argument):
            of = top.kind if isinstance(top, Marker) else top
            found = self.convention.methods.get((of, argument))
            if found is None:
                if isinstance(top, Marker) and any(owner == of for owner, _ in self.convention.methods):
                    raise NotVectorizable(self._unknown(top, argument))
                return False
            stack.pop()
            method = found if isinstance(found, Method) else Method("answer", "a method of its context", found)
            # A call of a method of what has the name of an imported module is one of an attribute, with NULL beside it.
            for _ in range(2 if name == "LOAD_METHOD" else 1):
                stack.push(method)
            return True
        if name == "PUSH_NULL" and isinstance(top, Method) and stack.item(2) is not top:  # above it, from 3.13 on
            stack.push(top)
            return True
        if name == "CALL" and argument == 0 and stack.peek(1, "answer"):
            answer = stack.pop().value
            stack.pop()
            stack.push(answer)
            return True
        return False

    @staticmethod
    def _make_function(stack: Stack, flags: int) -> None:
        code = stack.pop().value
        if flags & ~_CLOSURE:
            raise NotVectorizable("has an inner function")
        if flags:
            stack.pop()
        stack.push(Marker("function", value=code))

    def _load(self, variables: dict[str, Any], name: str) -> Any:
        if name not in variables:
            raise NotVectorizable(f"uses the variable {name!r} before it has a value")
        return variables[name]

    # ---- comprehensions

    def is_comprehension(self, here: int) -> bool:
        """Return True if a loop is a comprehension: from 3.12 on, that is a loop in the function."""
        return [each.name for each in self._operations[max(0, here - 3) : here]] in _BEGINS

    def of_comprehension(self, makes: str, loop: Any) -> Any:
        """Return the result of a comprehension: a list, a set of the same items, or a dict."""
        return a_set(loop) if makes == "BUILD_SET" else self._a_dict(loop) if makes == "BUILD_MAP" else loop

    def _a_dict(self, loop: Any) -> MakeRecord:
        if not isinstance(loop, Marker) or loop.kind != "list":
            raise NotVectorizable("makes a dict of items")
        made = dict_of(loop.value)
        self._steps.own.append(made)
        return made

    def comprehended(
        self, code: CodeType, found: list[Operation], iterator: Marker, variables: Mapping[str, Any], given: bool
    ) -> Any:
        """Return the result of a comprehension's function; of a generator expression, its items."""
        seen = self.seen_by(code, variables)
        if not is_followed(code.replace(co_flags=code.co_flags & ~_GENERATOR)):
            raise NotVectorizable("has an inner function")
        inner = self.reading(found, code)
        here = next(number for number, each in enumerate(found) if each.name == "FOR_ITER")
        loop = inner.loop_over(here, iterator, seen, given=given)
        if is_generator(code) and isinstance(loop, Expression):
            return Marker("generator", "a generator", loop)
        return self.of_comprehension(_MADE.get(code.co_name, "BUILD_LIST"), loop)

    def seen_by(self, code: CodeType, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return the variables that the function of a comprehension uses."""
        seen = {name: found for name, found in variables.items() if name in code.co_freevars}
        for name in seen:
            if name not in self._cells and name not in self._free:
                raise NotVectorizable(f"changes the variable {name!r}, which an inner function uses")
        return seen

    def reading(self, found: list[Operation], code: CodeType) -> Self:
        """Return a reader of the operations behind these, which shares all else."""
        inner = copy(self)
        inner._code, inner._operations, inner._cells = code, found, cells_of(code, found)
        inner._free = frozenset(code.co_freevars)  # of these, the function around it has looked after
        return inner

    def loop_over(
        self, here: int, iterator: Marker, variables: dict[str, Any], around: Stack | None = None, given: bool = False
    ) -> Any:
        """Return the results of a comprehension's loop, which is followed once for any item, or for each of a display.

        ``around`` is the stack of the loop around it. ``given``: the results are those of the function, and no list is made.
        """
        items = iterator.value
        if isinstance(items, Marker) and items.kind == "generator":
            items = items.value
        if isinstance(items, Marker) and items.kind == "list":
            items = Make(tuple(items.value))

        def body(item: Expression) -> tuple[Expression, bool]:
            stack = Stack(self, [Marker("comprehension")]) if around is None else around.copy()
            stack.push(iterator)
            stack.push(item)
            walk = self._followed(State(here + 1, stack, dict(variables)), here)
            return walk.value(_given), walk.gives_several()

        if isinstance(items, Make):
            if any(isinstance(each, Unpacked) for each in items.items):
                raise NotVectorizable("loops over a display with *")
            trees = [(tree, several) for tree, several in map(body, items.items) if not is_never(tree)]
            if any(several or (conditions_of(tree) and not given) for tree, several in trees):
                raise NotVectorizable("makes a list")
            if given:
                return Marker("several", value=[tree for tree, _ in trees])
            return Marker("list", "a list", [result_of(tree) for tree, _ in trees])
        item = self._new_item()
        tree, several = body(item)
        loop = Loop(expression_on(items), item.argument, conditions_of(tree), result_of(tree))
        if several:
            return Invoke("chain", (loop,))
        return Marker("several", value=loop) if given else loop

    # ---- loops that are none

    def carry(self, here: int, stop: int, iterator: Marker, variables: dict[str, Any], depth: int) -> list[Expression]:
        """Follow a loop's body, and assign the values of variables behind it; return the expressions evaluated there.

        ``depth`` is how much the stack holds below the loop: what leaves it early takes that off, too.
        """
        inner = self._operations[here + 1 : stop]
        assigned = {each.argument for each in inner if each.name in ("STORE_FAST", "STORE_DEREF")}
        if isinstance(iterator.value, Marker | Make):
            raise NotVectorizable("has a loop")
        carried = tuple(sorted(name for name in assigned if name in variables))
        collected = [name for name in variables if self._is_appended(name, variables, here, inner)]
        number = FIRST_ITEM + self._steps.loops + 1
        self._steps.loops += 1 + len(carried)
        places = {name: Argument(number + 1 + place) for place, name in enumerate(carried)}
        before = {name: expression_on(variables[name]) for name in carried}
        body = {name: found for name, found in variables.items() if name not in assigned}
        body |= places | {name: Marker("collected", "a list") for name in collected}
        below = [Marker("below", "what is around a loop")] * depth
        stack = Stack(self, [*below, iterator, Argument(number)])
        walk = self._followed(State(here + 1, stack, body), here, carried=True)
        loop = Loop(expression_on(iterator.value), number, (), Constant(None))
        of_variables = frozenset(each.argument for each in places.values())
        for name in assigned:
            variables.pop(name, None)
        for name in carried:
            values = walk.value(partial(_variable, name))
            variables[name] = fold_of(values, places[name], loop, before[name], of_variables)
        for name in collected[:1]:
            found = appended_of(walk.value(_given), loop, of_variables)
            if found is None or len(collected) > 1:
                raise NotVectorizable("makes a list")
            variables[name] = found
        if not carried and not collected:
            raise NotVectorizable("has a loop")
        return [variables[name] for name in (*carried, *collected)]

    def _is_appended(self, name: str, variables: Mapping[str, Any], here: int, inner: list[Operation]) -> bool:
        """Return True if a variable is a new empty list without another reference, and a loop only appends to it."""
        value = variables[name]
        if not isinstance(value, Marker) or value.kind != "list" or value.value:
            return False
        elsewhere = sum(each is value for each in variables.values()) > 1
        if elsewhere or any(
            each.name.startswith("LOAD_") and each.argument == name for each in self._operations[:here]
        ):
            return False
        uses = [at for at, each in enumerate(inner) if each.name.startswith("LOAD_FAST") and each.argument == name]
        return bool(uses) and all(
            (inner[at + 1].name, inner[at + 1].argument) == ("LOAD_METHOD", "append") for at in uses
        )
