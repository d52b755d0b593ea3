"""The common part of reading functions: arguments, constants, markers on the stack, calls that are followed.

What calls of some functions are given: numbers of a range, patterns, iterators, keywords.
"""

from __future__ import annotations

import abc
import builtins
import copy
import dataclasses
import operator
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, cast

from funken.columnar.bytecode import instructions
from funken.columnar.expressions import (
    Argument,
    Choose,
    Constant,
    Expression,
    GetItem,
    Invoke,
    Listed,
    Loop,
    Make,
    MakeRecord,
    NotVectorizable,
    TypeTest,
    Unpacked,
    attribute_of_record,
    is_text,
)
from funken.columnar.records import default_of, form_of
from funken.columnar.typed.calls import table_schema
from funken.columnar.typed.operations import DISTINCT, FIRST_ITEM, VIEWS, by_format, names_of, view_of
from funken.columnar.typed.values import REPLACE, REPLACE_TUPLE, call_of, options_of
from funken.dataclass import dataclass
from funken.expr.python.table import DUMPS, PATTERN, TABLE, JsonOptions, is_pattern, is_table, kind_of_object
from funken.expr.types import DICT, HIGHEST, LOWEST, ROW, UNNAMED_ROW, Type
from funken.types.row import Row

# ---- What a traced function uses besides its arguments, what that was when it was read, and whether it still is
# the same.


_NONE: Any = object()
CONSTANT, LIBRARY, CLASS, FUNCTION = "constant", "library", "class", "function"
_COMPILED = {BuiltinFunctionType, ClassMethodDescriptorType, MethodDescriptorType, WrapperDescriptorType}


@dataclass(frozen=True)
class Dependency:
    """Something a function uses: ``kind`` is ``global``, ``builtin``, ``closure``, ``default``, ``attribute``, or a method.

    ``method``: it is one itself; ``own method``: it calls one of its object.

    ``name`` has dots where attributes follow. By ``how``, ``value`` is the constant, the name of a function of the library, a
    class whose objects are made or asked for, or the code of a function that was read as well, with its dependencies.
    """

    kind: str
    name: str
    value: Any
    how: str = CONSTANT

    @property
    def may_change(self) -> bool:
        """True if the program may assign another value."""
        return self.kind not in ("method", "own method", "builtin")


def holds(function: Any, dependencies: Iterable[Dependency], owner: Any = None) -> bool:
    """Return True if all dependencies of a function are unchanged; ``owner``: the object whose method it is."""
    return type(function) is FunctionType and all(_holds(function, each, owner) for each in dependencies)


def still_holds(dependencies: Sequence[Dependency], target: Any, method: str | None) -> bool:
    """Return True if all dependencies of a function, or of a method of an object, are as they were when it was read."""
    if not dependencies:
        return True
    if method is None:
        return holds(target, dependencies)
    return holds(getattr(getattr(target, method, None), "__func__", None), dependencies, target)


def _holds(function: FunctionType, known: Dependency, owner: Any) -> bool:
    if known.kind == "method":
        return bool(fingerprint(function.__code__) == known.value)
    if known.kind == "own method":
        called = getattr(type(owner), known.name, None)
        return type(called) is FunctionType and bool(fingerprint(called.__code__) == known.value)
    if known.kind == "builtin":
        return known.name not in function.__globals__ and is_builtin(function, known.name)
    of_owner = known.kind == "attribute"
    found = attribute_of(owner, known.name) if of_owner else _found(function, known.kind, known.name)
    if found is None:
        return False
    (value,) = found
    match known.how:
        case "library":
            return bool(TABLE.name_of(value) == known.value)
        case "class":
            return value is known.value
        case "function":
            code, dependencies = known.value
            return type(value) is FunctionType and fingerprint(value.__code__) == code and holds(value, dependencies)
    return same(value, known.value)


def _found(function: FunctionType, kind: str, name: str) -> tuple[Any] | None:
    root, *attributes = name.split(".")
    if kind == "global":
        if root not in function.__globals__:
            return None
        value = function.__globals__[root]
    else:
        cell = cell_of(function, root) if kind == "closure" else default_argument(function, root)
        if cell is None:
            return None
        (value,) = cell
    for attribute in attributes:
        inner = attribute_in(value, attribute) if is_namespace(value) else None
        if inner is None:
            return None
        (value,) = inner
    return (value,)


def attribute_of(target: Any, name: str) -> tuple[Any] | None:
    """Return the value of an attribute of an object, or of its class, in a tuple; ``None`` if it is computed, or there is none.

    >>> class Limit:
    ...     most = 3
    ...     least = property(lambda self: 1)
    >>> attribute_of(Limit(), "most"), attribute_of(Limit(), "other")
    ((3,), None)
    """
    cls = type(target)
    plain: Any = object.__getattribute__
    if cls.__getattribute__ is not plain:
        return None
    of_class = next((vars(each)[name] for each in cls.__mro__ if name in vars(each)), _NONE)
    kind = type(of_class)
    if hasattr(kind, "__set__") or hasattr(kind, "__delete__"):  # it goes before what the object has
        slot = isinstance(of_class, MemberDescriptorType) and hasattr(target, name)
        return (of_class.__get__(target, cls),) if slot else None
    own = _attributes(target)
    if own is None:
        return None
    if name in own:
        return (own[name],)
    return None if of_class is _NONE or hasattr(kind, "__get__") else (of_class,)


def _attributes(target: Any) -> dict[str, Any] | None:
    """Return the attributes that an object has itself; ``None`` if its class defines them otherwise."""
    for cls in type(target).__mro__:
        if "__dict__" in vars(cls):
            found = vars(cls)["__dict__"]
            return found.__get__(target) if isinstance(found, GetSetDescriptorType) else None
    return {}


def attribute_in(namespace: Any, name: str) -> tuple[Any] | None:
    """Return an attribute of a module or of a plain class, in a tuple; ``None`` if it is computed, or there is none.

    >>> import math
    >>> attribute_in(math, "pi"), attribute_in(math, "no"), attribute_in(int, "from_bytes") is None
    ((3.141592653589793,), None, False)
    """
    if isinstance(namespace, ModuleType):
        return (vars(namespace)[name],) if name in vars(namespace) else None
    found = next((vars(each)[name] for each in namespace.__mro__ if name in vars(each)), _NONE)
    if found is _NONE:
        return None
    kind = type(found)
    if isinstance(found, staticmethod):
        return (found.__func__,)
    if kind is FunctionType or not hasattr(kind, "__get__"):
        return (found,)
    # What is compiled, such as ``datetime.fromtimestamp``, has no code of the program.
    return (getattr(namespace, name),) if kind in _COMPILED else None


def is_namespace(value: Any) -> bool:
    """Return True if attributes of a value are looked up as names: of a module, or of a class without a metaclass."""
    return type(value) in (ModuleType, type)


def is_builtin(function: FunctionType, name: str) -> bool:
    """Return True if a name that is no global of a function is the built-in object, and functions with it are read."""
    row, found = TABLE.find(name), function.__globals__.get("__builtins__", builtins)
    space = found if isinstance(found, dict) else vars(found)
    is_read = name in LOWERED or (row is not None and row.builtin)
    return is_read and space.get(name) is getattr(builtins, name)


def cell_of(function: FunctionType, name: str) -> tuple[Any] | None:
    """Return the value of a variable of an enclosing function, in a tuple; ``None`` if it has none."""
    try:
        return ((function.__closure__ or ())[function.__code__.co_freevars.index(name)].cell_contents,)
    except (ValueError, IndexError):
        return None


def default_argument(function: FunctionType, name: str) -> tuple[Any] | None:
    """Return the default of an argument, in a tuple; ``None`` if it has none."""
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    if name not in names:
        return None
    place = names.index(name) - len(names) + len(defaults)
    return (defaults[place],) if place >= 0 else None


def fingerprint(code: CodeType) -> tuple[Any, ...]:
    """Return a fingerprint that is equal, in every process, for code that does the same.

    >>> fingerprint((lambda a: a.lower()).__code__) == fingerprint((lambda a: a.upper()).__code__)
    False
    """
    constants = tuple(fingerprint(each) if isinstance(each, CodeType) else _constant(each) for each in code.co_consts)
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def _constant(value: Any) -> Any:
    if isinstance(value, frozenset):
        return "frozenset", tuple(sorted(map(repr, value)))
    return type(value).__name__, repr(value)


def same(value: Any, known: Any) -> bool:
    """Return True if two constants are alike in value and type, also inside.

    >>> same(1, 1), same(1, 1.0), same(0.0, -0.0), same({"a": 1}, {"a": True}), same(float("nan"), float("nan"))
    (True, False, False, False, True)
    """
    if type(value) is not type(known):
        return False
    if isinstance(value, float):
        return repr(value) == repr(known)
    if isinstance(value, tuple | list):
        return len(value) == len(known) and all(map(same, value, known))
    if isinstance(value, dict):
        return len(value) == len(known) and all(
            same(one, other) and same(value[one], known[other]) for one, other in zip(value, known, strict=True)
        )
    if isinstance(value, set | frozenset):
        return value == known and sorted(map(repr, value)) == sorted(map(repr, known))
    if isinstance(value, Row):
        return same(value.comparable(), known.comparable())
    return bool(value == known)


_LOOKED_INTO = (float, tuple, list, dict, set, frozenset, Row)
"""Types of which equal values need not be alike."""


def all_same(values: Sequence[Any], known: Sequence[Any]) -> bool:
    """Return True if two lists of records are alike, record by record, in the sense of ``same``.

    Fields are compared one after the other: 256 records of seven take 230 us then, and one by one 900.

    >>> all_same([(1, "a"), (2, None)], [(1, "a"), (2, None)]), all_same([(1,), (2,)], [(1,), (2.0,)])
    (True, False)
    """
    types = list(map(type, values))
    if types != list(map(type, known)):
        return False
    different = set(types)
    if not any(issubclass(each, _LOOKED_INTO) for each in different):
        return values == known
    if different == {float} and array("d", values).tobytes() == array("d", known).tobytes():
        return True
    if len(different) == 1 and issubclass(types[0], tuple):
        lengths = list(map(len, values))
        if lengths != list(map(len, known)):
            return False
        if len(set(lengths)) == 1:
            return all(map(all_same, map(list, zip(*values, strict=True)), map(list, zip(*known, strict=True))))
    return all(map(same, values, known))


# ---- Values from outside of a function that is read, as the constants that they are.


def constant_of(value: Any) -> Expression:
    """Return a constant as an expression; raise ``NotVectorizable`` if there is none for it."""
    if type(value) in (tuple, frozenset):
        return Make(tuple(constant_of(item) for item in value))
    if type(value) in (int, float, bool, str):
        if (type(value) is int and not LOWEST <= value <= HIGHEST) or (type(value) is str and not is_text(value)):
            raise NotVectorizable(f"uses {value!r}, which no column can hold")
        return Constant(value)
    if type(value) in (list, set) and all(type(item) in (int, str) for item in value) and len(value) <= 1000:
        return Constant(value.copy())  # to look something up in it
    if kind_of_object(value) is not None or is_pattern(value):
        return Constant(value)
    if is_table(value):
        return Constant(dict(value))
    if table_schema(value) is not None:
        return Constant(copy.deepcopy(value))
    raise NotVectorizable(f"uses {article(value)}")


def article(value: Any) -> str:
    """Return the type of a value as a message names it."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def tests_bases(cls: type) -> bool:
    """Return True if ``isinstance`` looks for a class among the bases of a value's class, and asks nobody.

    >>> import collections.abc
    >>> tests_bases(int), tests_bases(collections.abc.Sized), tests_bases(abc.ABC)
    (True, True, False)
    """
    if type(cls) is type:
        return True
    # A class of the program may have a hook, or be registered later.
    return type(cls) is abc.ABCMeta and cls.__module__ in ("collections.abc", "numbers")


def kept_attribute(target: Any, name: str) -> Any:
    """Return an attribute of an object that no method but ``__init__`` sets; raise ``NotVectorizable`` if it is no such thing."""
    found = None if target is None else attribute_of(target, name)
    if found is None:
        raise NotVectorizable(f"uses self.{name}")
    for cls in type(target).__mro__:
        for method, function in vars(cls).items():
            if method == "__init__" or not isinstance(function, FunctionType) or name not in function.__code__.co_names:
                continue
            if any(each.opname == "STORE_ATTR" and each.argval == name for each in instructions(function.__code__)):
                raise NotVectorizable(f"uses self.{name}, which {method}() sets")
    return found[0]


# ---- What is on the stack of a function that is read, besides expressions.


class Marker:
    """An item of the stack that is no expression."""

    def __init__(self, kind: str, name: str = "", value: Any = None) -> None:
        self.kind = kind
        self.name = name
        self.value = value
        #: a list as an expression: the same one each time, as it is one object
        self.listed: Expression | None = None


class Method(Marker):
    """A method of a marker that does something: readers of its calls know its ``kind``."""


class Outside(Marker):
    """A value from outside of the function: ``kind`` and ``name`` are those of the dependency that it becomes when used."""


def said(found: Outside) -> str:
    """Return the name of a value in messages."""
    if found.kind == "attribute":
        return f"self.{found.name}"
    if found.kind == "global":
        return f"the global {found.name!r}"
    return f"the variable {found.name!r} of an enclosing function"


def expression_on(found: Any) -> Expression:
    """Return an item of the stack as an expression; raise ``NotVectorizable`` if it is none."""
    if isinstance(found, Expression):
        return found
    if isinstance(found, Marker) and found.kind == "list":
        if found.listed is None:
            items = tuple(found.value)
            unpacks = any(isinstance(each, Unpacked) for each in items)
            found.listed = Invoke("display", items) if unpacks else Listed(items)
        return found.listed
    if isinstance(found, Marker) and found.name:
        raise NotVectorizable(f"uses {found.name}")
    raise NotVectorizable("calls a function")


DISPLAY = "display"
"""The kind of a marker for the iterator of a display: its value are the items that are left."""


def dropping(dropped: tuple[Expression, ...], value: Any) -> tuple[Expression, ...]:
    """Return the dropped expressions with one more value; of a list or set with its items."""
    if isinstance(value, Marker) and value.kind == "list":
        for each in value.value:
            dropped = dropping(dropped, Invoke("display", (each,)) if isinstance(each, Unpacked) else each)
    if isinstance(value, Marker) and value.kind == "set":
        value = value.value
    if not isinstance(value, Expression) or is_pure(value) or any(value is each for each in dropped):
        return dropped
    return (*dropped, value)


def is_pure(expression: Expression) -> bool:
    """Return True if evaluating an expression does nothing, whatever its arguments are."""
    return isinstance(expression, Argument | Constant)


_MOST_NUMBERS = 16
"""A loop over so many constant numbers is followed for each of them."""


def numbers_of(bounds: list[Expression]) -> Marker:
    """Return the numbers of a range; few constant ones as a display."""
    constants = [each.value for each in bounds if isinstance(each, Constant) and type(each.value) is int]
    if len(constants) == len(bounds) and (len(constants) < 3 or constants[2]):
        numbers = range(*constants)
        if len(numbers) <= _MOST_NUMBERS:
            return Marker("generator", "a range", Make(tuple(map(Constant, numbers))))
    return Marker("generator", "a range", Invoke("range", tuple(bounds)))


def pattern_of(given: Expression) -> Expression:
    """Return a regular expression as the constant that it is."""
    if isinstance(given, Constant) and type(given.value) is str:
        try:
            return Constant(re.compile(given.value))
        except re.error as error:
            raise NotVectorizable(f"uses the regular expression {given.value!r}: {error}") from error
    if isinstance(given, Constant) and is_pattern(given.value):
        return given
    raise NotVectorizable("uses a regular expression that is not constant")


def iterated(name: str, given: Any) -> Any:
    """Return an iterator of a list, or the item that is the first of it: it is taken once at most."""
    if name == "iter" and isinstance(given, Marker) and given.kind == "list" and len(given.value) == 1:
        return Marker("items", "an iterator", given.value[0])
    if name == "iter" and isinstance(given, Argument):
        return Marker("items", "an iterator", GetItem(given, 0))
    if name == "next" and isinstance(given, Marker) and given.kind == "items" and isinstance(given.value, Expression):
        found, given.value = given.value, None
        if not isinstance(found, Unpacked):
            return found
    raise NotVectorizable(f"calls {name}()")


def in_order(
    function: FunctionType, given: tuple[Expression, ...], names: tuple[str, ...], name: str
) -> tuple[Expression, ...]:
    """Return the arguments of a call in the order of the parameters."""
    if not names:
        return given
    code = function.__code__
    parameters = code.co_varnames[code.co_posonlyargcount : code.co_argcount]
    positional = len(given) - len(names)
    wanted = code.co_varnames[positional : len(given)]
    if set(wanted) != set(names) or not set(names) <= set(parameters):
        raise NotVectorizable(f"calls {name}() with keywords that leave out others")
    by_name = dict(zip(names, given[positional:], strict=True))
    return (*given[:positional], *(by_name[each] for each in wanted))


# ---- What the functions that are read, and call each other, share: how far they were followed, and what they may
# change.


_INNER = "calls an inner function, which"
_DEEPEST = 10
"""Functions that call each other are read so deep."""
_MOST_STEPS = 2000
_MOST_PATHS = 128
"""A function of ``flat_map`` has so many ways through it: each is compared with all that came before it."""


class Steps:
    """The number of instructions that were followed, in a function and all it calls."""

    def __init__(self) -> None:
        self.taken = 0
        self.paths = 0
        #: the code of the functions that are being followed
        self.codes: list[CodeType] = []
        self.loops = 0
        self.catches = False
        #: the records that the function alone has, so that it may change them
        self.own: list[Expression] = []
        #: arguments that are never ``None`` where they are read
        self.present: frozenset[Expression] = frozenset()
        #: that of the first argument, if it is known
        self.schema: Type | None = None

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Go into a loop, or a function: nothing that was made outside is changed there."""
        outer, self.own = self.own, []
        try:
            yield
        finally:
            self.own = outer

    def count(self, steps: int = 1) -> None:
        """Count steps; raise ``NotVectorizable`` if there are too many."""
        self.taken += steps
        if self.taken > _MOST_STEPS:
            raise NotVectorizable("branches too often")

    def end(self) -> None:
        """Count a way through the function; raise ``NotVectorizable`` if there are too many."""
        self.paths += 1
        if self.paths > _MOST_PATHS:
            raise NotVectorizable("branches too often")

    @contextmanager
    def within(self, code: CodeType, name: str) -> Iterator[None]:
        """Go into a function that is called; raise ``NotVectorizable`` if it is being followed: it may call itself for ever."""
        if code in self.codes:
            raise NotVectorizable(f"calls {name}(), which calls itself")
        if len(self.codes) >= _DEEPEST:
            raise NotVectorizable(f"calls {name}(), which calls others too deep")
        self.codes.append(code)
        try:
            with self.inside():
                yield
        finally:
            self.codes.pop()


# ---- Functions that are none of Python, and are known by what they are: ``str.lower``, ``itemgetter("user")``,
# ``len``.


def known_target(target: Any) -> Expression | None:
    """Return the result of a function of one argument; ``None`` if it is not known, or one of Python.

    >>> known_target(operator.itemgetter("user")), known_target(str.lower), known_target(print)
    (GetItem(record=Argument(argument=0, path=()), index='user', of=None),
     Invoke(name='.lower', arguments=(Argument(argument=0, path=()),)), None)
    """
    record = Argument(0)
    if type(target) in (type, BuiltinFunctionType):
        name = target.__name__
        row = TABLE.find(name) if getattr(builtins, name, None) is target else None
        if row is not None and row.builtin and 1 in row.counts():
            return Invoke(name, (record,))
    if type(target) is MethodDescriptorType and target.__objclass__ is str:
        return Invoke(f".{target.__name__}", (record,))
    if type(target) is operator.itemgetter:
        keys = target.__reduce__()[1]
        if all(type(key) in (int, str) for key in keys):
            return _one_or_all([GetItem(record, key) for key in keys])
    if type(target) is operator.attrgetter:
        names = target.__reduce__()[1]
        return _one_or_all(
            [reduce(attribute_of_record, str(name).split("."), cast("Expression", record)) for name in names]
        )
    library = TABLE.name_of(target)
    if library == DUMPS:
        return call_of(record, JsonOptions())
    row = None if library is None else TABLE[library]
    return Invoke(row.name, (record,)) if row is not None and (1 in row.counts() or not row.signatures) else None


def _one_or_all(found: list[Any]) -> Expression:
    first: Expression = found[0]
    return first if len(found) == 1 else Make(tuple(found))


# ---- What a traced function may call, and what it may use from outside of it.


class FunctionReader:
    """The reader of a function: its calls, and the values from outside that it uses."""

    def __init__(self, function: FunctionType, steps: Steps | None) -> None:
        self._function = function
        self._dependencies: dict[tuple[str, str], Dependency] = {}
        self._steps = Steps() if steps is None else steps

    def function(self) -> FunctionType:
        """Return the function that is read."""
        return self._function

    def depend(self, kind: str, name: str, value: Any, how: str = CONSTANT) -> None:
        """Note a dependency of the function."""
        self._dependencies[kind, name] = Dependency(kind, name, value, how)

    def _called(self, function: FunctionType, given: Sequence[Any], what: str, bound: bool = False) -> Any:
        """Read another function; a refusal begins with ``what``."""
        raise NotImplementedError

    def inlined(self, kind: str, name: str, function: FunctionType, given: tuple[Expression, ...]) -> Expression:
        """Return the result of a function of the program for arguments."""
        with self._steps.within(function.__code__, name):
            traced = self._called(function, given, f"calls {name}(), which")
        self.depend(kind, name, (fingerprint(function.__code__), traced.dependencies), FUNCTION)
        found: Expression = traced.result
        return found

    def inner(
        self, function: FunctionType, given: tuple[Expression, ...], what: str = _INNER, bound: bool = False
    ) -> Expression:
        """Return the result for arguments of a function in which names mean the same."""
        with self._steps.inside():
            traced = self._called(function, given, what, bound)
        self._dependencies |= {(each.kind, each.name): each for each in traced.dependencies}
        found: Expression = traced.result
        return found

    def _new_item(self) -> Argument:
        """Return an argument that stands for the items of a list."""
        self._steps.loops += 1
        return Argument(FIRST_ITEM + self._steps.loops)

    def names_of(self, found: Any) -> tuple[str, ...] | None:
        """Return the names of a dict; ``None`` if they are not known."""
        return names_of(found, self._steps.schema)

    def used(self, value: Any) -> Any:
        """Return an item of the stack; a value from outside as the constant it is."""
        if not isinstance(value, Outside):
            return value
        return self.depended(value)

    def depended(self, found: Outside, container: bool = False) -> Expression:
        """Return a value from outside as the constant it is; ``container``: something is looked up in it."""
        value = found.value
        inside = type(value) in (dict, list, set) or is_pattern(value)
        if callable(value):
            raise NotVectorizable(f"calls {found.name}()")
        if inside and not container:
            raise NotVectorizable(f"uses {said(found)}, {article(value)}")
        try:
            constant = constant_of(value)
        except NotVectorizable as refused:
            if type(value) in (int, str):  # a column could hold another one
                raise
            raise NotVectorizable(f"uses {said(found)}, {article(value)}") from refused
        kept = copy.deepcopy(value) if type(value) in (dict, list, set) else value
        self.depend(found.kind, found.name, kept)
        return constant

    def looked_into(self, found: Any) -> Expression:
        """Return the container of a lookup."""
        if isinstance(found, Outside):
            return self.depended(found, container=True)
        return self.as_tuple(found)

    def as_tuple(self, value: Any) -> Expression:
        """Return an argument; a display of a list as a tuple, where that makes no difference."""
        if isinstance(value, Marker) and value.kind == "list":
            return Make(tuple(value.value))
        if isinstance(value, Marker) and value.kind == "generator":
            found: Expression = value.value
            value.value, value.kind = None, "spent"  # it gives its items once
            return found
        return expression_on(self.used(value))

    def class_of(self, found: Any) -> type:
        """Return a class that a value is tested for."""
        if isinstance(found, Marker) and found.kind == "builtin" and found.value is not None:
            cls: type = found.value
            return cls
        if isinstance(found, Outside) and isinstance(found.value, type):
            if not tests_bases(found.value):
                raise NotVectorizable(f"tests the type {found.name}, which has an isinstance() hook of its own")
            self.depend(found.kind, found.name, found.value, CLASS)
            return found.value
        raise NotVectorizable("tests a type that is not known")

    def method_called(self, name: str, owner: Expression, given: list[Any], names: tuple[str, ...]) -> Any:
        """Return a call of a method; ``names`` are those of the last arguments."""
        if name in VIEWS and not given:
            fields = self.names_of(owner)
            if fields is not None:
                return Marker("generator", "a view of a dict", view_of(owner, fields, name))
        if name == REPLACE_TUPLE and len(names) == len(given):
            return MakeRecord(REPLACE_TUPLE, (None, *names), (Unpacked(owner), *map(self.expression, given)))
        if name == "replace" and names == ("tzinfo",) and len(given) == 1:
            return Invoke(".replace tzinfo", (owner, self.expression(given[0])))
        if name == "format" and isinstance(owner, Constant) and type(owner.value) is str:
            return by_format(owner.value, [self.expression(each) for each in given], names)
        if names:
            raise NotVectorizable(f"calls {name}() with keywords")
        taken = self.as_tuple if name == "join" else lambda each: expression_on(self.used(each))
        return Invoke(f".{name}", (owner, *map(taken, given)))

    def builtin_called(self, name: str, given: list[Any], names: tuple[str, ...]) -> Any:
        """Return a call of a built-in function."""
        lower = LOWERED.get(name)
        lowered = None if lower is None else lower(self, name, given, names)
        if lowered is not None:
            return lowered
        if names:
            raise NotVectorizable(f"calls {name}() with keywords")
        row = TABLE.find(name)
        counts = () if row is None else row.counts()
        if row is None or len(given) not in counts:
            raise NotVectorizable(f"calls {name}() with {len(given)} arguments" if counts else f"calls {name}()")
        if row.items and (len(given) == 1 or name == "sum"):
            return Invoke(name, (self._items(given[0], name), *map(self.expression, given[1:])))
        return Invoke(name, tuple(map(self.expression, given)))

    def expression(self, value: Any) -> Expression:
        """Return an item of the stack as an expression."""
        return expression_on(self.used(value))

    def _tested(self, _: str, given: list[Any], names: tuple[str, ...]) -> Any:
        if len(given) != 2 or names:
            return None
        tested = given[1].value if isinstance(given[1], Marker) and given[1].kind == "classes" else (given[1],)
        return TypeTest(self.expression(given[0]), tuple(map(self.class_of, tested)))

    def _iterated(self, name: str, given: list[Any], names: tuple[str, ...]) -> Any:
        return iterated(name, given[0]) if len(given) == 1 and not names else None

    def _type(self, _: str, given: list[Any], names: tuple[str, ...]) -> Any:
        return Marker("type", "type()", self.expression(given[0])) if len(given) == 1 and not names else None

    def _extreme(self, name: str, given: list[Any], names: tuple[str, ...]) -> Any:
        if names != ("key",) or len(given) not in (2, 3):
            return None
        if len(given) == 3:
            return self._by_key(name, given)
        items = self._items(given[0], "list")
        return GetItem(items, Invoke(f"{name} at", (self._keys(items, given[1], name),)))

    def _set(self, _: str, given: list[Any], names: tuple[str, ...]) -> Any:
        return (
            Marker("set", "a set", Invoke("list", (self._items(given[0], "list"),)))
            if len(given) == 1 and not names
            else None
        )

    def _of_set(self, name: str, given: list[Any], names: tuple[str, ...]) -> Any:
        if len(given) == 1 and not names and getattr(given[0], "kind", "") == "set":
            return Invoke(DISTINCT[name], (given[0].value,))
        if name == "sorted" and names and set(names) <= {"key", "reverse"} and len(given) == len(names) + 1:
            return self._sorted(given[0], dict(zip(names, given[1:], strict=True)))
        return None

    def _range(self, _: str, given: list[Any], names: tuple[str, ...]) -> Any:
        return numbers_of(list(map(self.expression, given))) if 1 <= len(given) <= 3 and not names else None

    def _mapped(self, name: str, given: list[Any], names: tuple[str, ...]) -> Any:
        return self._over(name, given[0], self._items(given[1], name)) if len(given) == 2 and not names else None

    def _divided(self, _: str, given: list[Any], names: tuple[str, ...]) -> Any:
        if len(given) != 2 or names:
            return None
        one, other = map(self.expression, given)
        return Make((Invoke("//", (one, other)), Invoke("%", (one, other))))

    def _numbered(self, name: str, given: list[Any], names: tuple[str, ...]) -> Any:
        if len(given) not in (1, 2) or names not in ((), ("start",)):
            return None
        start = Constant(0) if len(given) == 1 else self.expression(given[1])
        return Marker("generator", "an iterator", Invoke(name, (self.expression(given[0]), start)))

    def _dict(self, _: str, given: list[Any], names: tuple[str, ...]) -> Any:
        if not given or len(given) > len(names) + 1:
            return None
        parts = tuple(map(self.expression, given))
        if len(names) < len(given):
            return MakeRecord(DICT, (None, *names), (Unpacked(parts[0]), *parts[1:]))
        return MakeRecord(DICT, names, parts)

    def _items(self, value: Any, name: str) -> Expression:
        """Return the items of a function's argument; a display as a tuple, unless lists are in it, or come of it."""
        if isinstance(value, Marker) and value.kind == "list" and value.value:
            unpacks = any(isinstance(each, Unpacked) for each in value.value)
            if unpacks or name in ("list", "sorted"):
                return expression_on(value)
        return self.as_tuple(value)

    def _sorted(self, given: Any, how: dict[str, Any]) -> Expression:
        """Return a sorted list; ``how`` may have a key, and whether it is reversed."""
        items, reverse = self._items(given, "sorted"), expression_on(self.used(how.get("reverse", Constant(False))))
        key, keys = how.get("key"), items
        if key is not None:
            keys = self._keys(items, key, "sorted")
        return Invoke("sorted by", (items, keys, reverse))

    def _over(self, name: str, function: Any, items: Expression) -> Marker:
        """Return the result of ``map`` or ``filter`` for the items of a list."""
        if isinstance(items, Make) and name == "map":
            return Marker("generator", "a map", Make(tuple(self._of_key(function, each, name) for each in items.items)))
        item = self._new_item()
        nothing = name == "filter" and isinstance(function, Constant) and function.value is None
        made = item if nothing else self._of_key(function, item, name)
        loop = Loop(items, item.argument, (), made) if name == "map" else Loop(items, item.argument, (made,), item)
        return Marker("generator", f"a {name}", loop)

    def _keys(self, items: Expression, key: Any, name: str) -> Expression:
        """Return a key function's results for the items of a list."""
        item = self._new_item()
        return Loop(items, item.argument, (), self._of_key(key, item, name))

    def _of_key(self, key: Any, item: Expression, name: str) -> Expression:
        """Return a key function's result for an item."""
        if isinstance(key, Outside) and type(key.value) is FunctionType:
            return self.inlined(key.kind, key.name, key.value, (item,))
        if isinstance(key, Marker) and key.kind == "inner":
            return self.inner(key.value, (item,))
        if isinstance(key, Marker) and key.kind == "builtin":
            return expression_on(self.builtin_called(key.name, [item], ()))
        raise NotVectorizable(f"calls {name}() with a function that is none of the program")

    def _by_key(self, name: str, given: list[Any]) -> Expression:
        """Return the first or the second value, by a function's results for them; of equal ones the first."""
        key = given.pop()
        one, other = (self.expression(each) for each in given)
        by = [self._of_key(key, each, name) for each in (one, other)]
        return Choose(Invoke(">" if name == "max" else "<", (by[1], by[0])), other, one)

    def outside_called(self, called: Outside, given: list[Any], names: tuple[str, ...]) -> Expression:
        """Return a call of something from outside of the function."""
        value = called.value
        library = TABLE.name_of(value)
        if library == DUMPS and len(given) == len(names) + 1:
            self.depend(called.kind, called.name, library, LIBRARY)
            return call_of(self.expression(given[0]), options_of(names, given[1:]))
        arguments = tuple(map(self.expression, given))
        row = None if library is None else TABLE[library]
        if row is not None:
            if row.name == "datetime.fromtimestamp" and names == ("tz",):
                names = ()
            takes_pattern = any(PATTERN in types for types in row.signatures)
            if names or (takes_pattern and len(arguments) not in row.counts()) or row.name == DUMPS:
                raise NotVectorizable(f"calls {called.name}() with keywords")
            self.depend(called.kind, called.name, row.name, LIBRARY)
            if takes_pattern:
                return Invoke(f".{row.name}", (pattern_of(arguments[0]), *arguments[1:]))
            return Invoke(row.name, arguments)
        if value is dataclasses.replace and len(names) == len(arguments) - 1:
            self.depend(called.kind, called.name, value, CLASS)
            return MakeRecord(REPLACE, (None, *names), (Unpacked(arguments[0]), *arguments[1:]))
        if isinstance(value, type):
            return self._record(called, value, arguments, names)
        if type(value) is not FunctionType:
            raise NotVectorizable(f"calls {called.name}()")
        return self.inlined(called.kind, called.name, value, in_order(value, arguments, names, called.name))

    def _record(self, called: Outside, cls: type, given: tuple[Expression, ...], names: tuple[str, ...]) -> Expression:
        if cls is Row and given and len(names) == len(given) and not any(name.startswith("_") for name in names):
            self.depend(called.kind, called.name, cls, CLASS)
            return MakeRecord(ROW, names, given)
        if cls is Row and given and not names:
            self.depend(called.kind, called.name, cls, CLASS)
            return MakeRecord(UNNAMED_ROW, (None,) * len(given), given)
        form = form_of(cls)
        if form is None:
            raise NotVectorizable(f"calls {called.name}()")
        kind, fields = form
        positional = len(given) - len(names)
        found = dict(zip(fields, given[:positional], strict=False)) | dict(zip(names, given[positional:], strict=True))
        for name in fields:
            default = default_of(cls, name)
            if name not in found and default is not None:
                found[name] = constant_of(default[0])
        if set(found) != set(fields) or positional > len(fields) or set(fields[:positional]) & set(names):
            raise NotVectorizable(f"calls {called.name}() with other arguments than its fields")
        self.depend(called.kind, called.name, cls, CLASS)
        return MakeRecord(kind, fields, tuple(found[name] for name in fields), cls)


LOWERED: dict[str, Callable[[Any, str, list[Any], tuple[str, ...]], Any]] = {
    "isinstance": FunctionReader._tested,
    **dict.fromkeys(("iter", "next"), FunctionReader._iterated),
    "type": FunctionReader._type,
    **dict.fromkeys(("max", "min"), FunctionReader._extreme),
    "set": FunctionReader._set,
    **dict.fromkeys(("len", "sorted"), FunctionReader._of_set),
    "range": FunctionReader._range,
    **dict.fromkeys(("map", "filter"), FunctionReader._mapped),
    "divmod": FunctionReader._divided,
    "enumerate": FunctionReader._numbered,
    "dict": FunctionReader._dict,
    "object": lambda *_: None,  # a class that is asked for
}
"""Calls that become other expressions, or objects on the stack; a call that returns ``None`` goes by its row."""
