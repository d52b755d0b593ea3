"""What functions that are read have in common: arguments, constants, markers on the stack, how far calls are followed.

What calls of some functions are given: numbers of a range, patterns, iterators, keywords.
"""

from __future__ import annotations

import abc
import builtins
import copy
import operator
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dis import get_instructions
from functools import reduce
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType
from typing import Any, cast

from funken.columnar.dependencies import attribute_of
from funken.columnar.expressions import (
    Argument,
    Attribute,
    Constant,
    Expression,
    GetItem,
    Invoke,
    Listed,
    Make,
    NotVectorizable,
    Unpacked,
    is_text,
)
from funken.columnar.typed.calls import table_schema
from funken.columnar.writing.json_texts import call_of
from funken.expr.python.objects import is_pattern, is_table, kind_of_object
from funken.expr.python.table import DUMPS, TABLE
from funken.expr.python.texts import JsonOptions
from funken.expr.types import HIGHEST, LOWEST, Type

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
            if any(each.opname == "STORE_ATTR" and each.argval == name for each in get_instructions(function)):
                raise NotVectorizable(f"uses self.{name}, which {method}() sets")
    return found[0]


# ---- What is on the stack of a function that is read, besides expressions.


class Marker:
    """What is on the stack besides expressions."""

    def __init__(self, kind: str, name: str = "", value: Any = None) -> None:
        self.kind = kind
        self.name = name
        self.value = value
        #: a list as an expression: the same one each time, as it is one object
        self.listed: Expression | None = None


class Method(Marker):
    """A method of a marker that does something: what calls it, is read by who knows its ``kind``."""


class Outside(Marker):
    """A value from outside of the function: ``kind`` and ``name`` are those of the dependency that it becomes when used."""


def said(found: Outside) -> str:
    """Return how a message names a value."""
    if found.kind == "attribute":
        return f"self.{found.name}"
    if found.kind == "global":
        return f"the global {found.name!r}"
    return f"the variable {found.name!r} of an enclosing function"


def expression_on(found: Any) -> Expression:
    """Return what is on a stack as an expression; raise ``NotVectorizable`` if it is none."""
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
    """Return what was evaluated and dropped, with one more value; of a list or set with its items."""
    if isinstance(value, Marker) and value.kind == "list":
        for each in value.value:
            dropped = dropping(dropped, Invoke("display", (each,)) if isinstance(each, Unpacked) else each)
    if isinstance(value, Marker) and value.kind == "set":
        value = value.value
    if not isinstance(value, Expression) or is_pure(value) or any(value is each for each in dropped):
        return dropped
    return (*dropped, value)


def is_pure(expression: Expression) -> bool:
    """Whether evaluating an expression does nothing, whatever its arguments are."""
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


_MOST_STEPS = 2000
_MOST_PATHS = 128
"""A function of ``flat_map`` has so many ways through it: each is compared with all that came before it."""


class Steps:
    """How many instructions were followed, in a function and all it calls."""

    def __init__(self) -> None:
        self.taken = 0
        self.paths = 0
        #: the code of the functions that are being followed
        self.codes: list[CodeType] = []
        self.depth = 0
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
        self.codes.append(code)
        try:
            with self.inside():
                yield
        finally:
            self.codes.pop()


# ---- Functions that are none of Python, and are known by what they are: ``str.lower``, ``itemgetter("user")``,
# ``len``.


def known_target(target: Any) -> Expression | None:
    """Return what a function computes of its one argument; ``None`` if it is not known, or one of Python.

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
        return _one_or_all([reduce(Attribute, str(name).split("."), cast("Any", record)) for name in names])
    library = TABLE.name_of(target)
    if library == DUMPS:
        return call_of(record, JsonOptions())
    row = None if library is None else TABLE[library]
    return Invoke(row.name, (record,)) if row is not None and (1 in row.counts() or not row.signatures) else None


def _one_or_all(found: list[Any]) -> Expression:
    first: Expression = found[0]
    return first if len(found) == 1 else Make(tuple(found))


__all__ = [
    "DISPLAY",
    "Marker",
    "Method",
    "Outside",
    "Steps",
    "article",
    "constant_of",
    "dropping",
    "expression_on",
    "in_order",
    "iterated",
    "kept_attribute",
    "known_target",
    "numbers_of",
    "pattern_of",
    "said",
]
