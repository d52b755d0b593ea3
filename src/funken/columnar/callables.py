"""What a traced function may call, and what it may use from outside of it."""

from __future__ import annotations

import dataclasses
import re
from dis import get_instructions
from types import FunctionType
from typing import Any, Protocol

from funken.columnar.dependencies import Dependency, KnownClass, LibraryFunction, attribute_of
from funken.columnar.expressions import (
    HIGHEST,
    LOWEST,
    Argument,
    Choose,
    Compare,
    Constant,
    Expression,
    GetItem,
    Invoke,
    Listed,
    Loop,
    Make,
    NotVectorizable,
    Record,
    TypeTest,
    Unpacked,
    is_text,
)
from funken.columnar.library import FUNCTIONS, PATTERN_METHODS, is_pattern, is_table, kind_of_object, name_of
from funken.columnar.lists.calls import DISTINCT
from funken.columnar.records import DICT, ROW, UNNAMED_ROW, default_of, form_of
from funken.columnar.typed.values import REPLACE, REPLACE_TUPLE
from funken.types.row import Row

_COUNTS = {
    "abs": (1,), "all": (1,), "any": (1,), "bool": (1,), "chr": (1,), "float": (1,), "format": (2,), "int": (1, 2), "len": (1,),
    "list": (1,), "max": range(1, 9), "min": range(1, 9), "ord": (1,), "repr": (1,), "round": (1, 2), "sorted": (1,), "str": (1,),
    "sum": (1, 2), "tuple": (1,),
}  # fmt: skip
_OVER_ITEMS = {"all", "any", "list", "max", "min", "sorted", "sum", "tuple"}
CLASSES: dict[str, type] = {
    "int": int, "str": str, "float": float, "bool": bool, "tuple": tuple, "dict": dict, "list": list, "object": object,
}  # fmt: skip


class Marker:
    """What is on the stack besides expressions."""

    def __init__(self, kind: str, name: str = "", value: Any = None) -> None:
        self.kind = kind
        self.name = name
        self.value = value


class Outside(Marker):
    """A value from outside of the function: ``kind`` and ``name`` are those of the dependency that it becomes when used."""


class FunctionReader(Protocol):
    """What the stack needs to know of the function that is read."""

    def function(self) -> FunctionType:
        """Return the function."""
        ...

    def depend(self, dependency: Dependency) -> None:
        """Note what the function uses."""

    def inlined(self, kind: str, name: str, function: FunctionType, given: tuple[Expression, ...]) -> Expression:
        """Return what a function of the program makes of arguments."""
        ...

    def new_item(self) -> int:
        """Return the number of an argument that stands for the items of a list."""
        ...

    def inner(self, function: FunctionType, given: tuple[Expression, ...]) -> Expression:
        """Return what a function that the function itself makes, without variables of its own, makes of arguments."""
        ...


class Calls:
    """The calls of one function that is read."""

    def __init__(self, reader: FunctionReader) -> None:
        self._reader = reader

    def used(self, value: Any) -> Any:
        """Return what is on the stack; a value from outside as the constant it is."""
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
            raise NotVectorizable(f"uses {_said(found)}, {article(value)}")
        try:
            constant = constant_of(value)
        except NotVectorizable as refused:
            if type(value) in (int, str):  # a column could hold another one
                raise
            raise NotVectorizable(f"uses {_said(found)}, {article(value)}") from refused
        kept = value.copy() if type(value) in (dict, list, set) else value
        self._reader.depend(Dependency(found.kind, found.name, kept))
        return constant

    def looked_into(self, found: Any) -> Expression:
        """Return what something is looked up in."""
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
            return CLASSES[found.name]
        if isinstance(found, Outside) and isinstance(found.value, type):
            self._reader.depend(Dependency(found.kind, found.name, KnownClass(found.value)))
            return found.value
        raise NotVectorizable("tests a type that is not known")

    def method_called(self, name: str, owner: Expression, given: list[Any], names: tuple[str, ...]) -> Expression:
        """Return a call of a method; ``names`` are those of the last arguments."""
        if name == REPLACE_TUPLE and len(names) == len(given):
            return Record(REPLACE_TUPLE, (None, *names), (Unpacked(owner), *map(expression_on, map(self.used, given))))
        if name == "replace" and names == ("tzinfo",) and len(given) == 1:
            return Invoke(".replace tzinfo", (owner, expression_on(self.used(given[0]))))
        if names:
            raise NotVectorizable(f"calls {name}() with keywords")
        taken = self.as_tuple if name == "join" else lambda each: expression_on(self.used(each))
        return Invoke(f".{name}", (owner, *map(taken, given)))

    def builtin_called(self, name: str, given: list[Any], names: tuple[str, ...]) -> Any:
        """Return a call of a built-in function."""
        if name == "isinstance" and len(given) == 2 and not names:
            tested = given[1].value if isinstance(given[1], Marker) and given[1].kind == "classes" else (given[1],)
            return TypeTest(expression_on(self.used(given[0])), tuple(map(self.class_of, tested)))
        if name in ("iter", "next") and len(given) == 1 and not names:
            return _iterated(name, given[0])
        if name == "type" and len(given) == 1:
            return Marker("type", "type()", expression_on(self.used(given[0])))
        if name in ("max", "min") and names == ("key",) and len(given) == 3:
            return self._by_key(name, given)
        if name in ("max", "min") and names == ("key",) and len(given) == 2:
            items = self._items(given[0], "list")
            return GetItem(items, Invoke(f"{name} at", (self._keys(items, given[1], name),)))
        if name == "set" and len(given) == 1 and not names:
            return Marker("set", "a set", Invoke("list", (self._items(given[0], "list"),)))
        if name in DISTINCT and len(given) == 1 and not names and getattr(given[0], "kind", "") == "set":
            return Invoke(DISTINCT[name], (given[0].value,))
        if name == "sorted" and names and set(names) <= {"key", "reverse"} and len(given) == len(names) + 1:
            return self._sorted(given[0], dict(zip(names, given[1:], strict=True)))
        if name == "enumerate" and len(given) in (1, 2) and names in ((), ("start",)):
            start = Constant(0) if len(given) == 1 else expression_on(self.used(given[1]))
            return Marker("generator", "an iterator", Invoke(name, (expression_on(self.used(given[0])), start)))
        if name == "dict" and given and len(names) == len(given):
            return Record(DICT, names, tuple(map(expression_on, map(self.used, given))))
        if names:
            raise NotVectorizable(f"calls {name}() with keywords")
        if len(given) not in _COUNTS.get(name, ()):
            raise NotVectorizable(
                f"calls {name}() with {len(given)} arguments" if name in _COUNTS else f"calls {name}()"
            )
        if name in _OVER_ITEMS and len(given) == 1:
            return Invoke(name, (self._items(given[0], name),))
        if name == "sum":
            return Invoke(name, (self.as_tuple(given[0]), expression_on(self.used(given[1]))))
        return Invoke(name, tuple(expression_on(self.used(each)) for each in given))

    def _items(self, value: Any, name: str) -> Expression:
        """Return what a function goes through; a display as a tuple, unless lists are in it, or come of it."""
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

    def _keys(self, items: Expression, key: Any, name: str) -> Expression:
        """Return what a key function makes of the items of a list."""
        number = self._reader.new_item()
        return Loop(items, number, (), self._of_key(key, Argument(number), name))

    def _of_key(self, key: Any, item: Expression, name: str) -> Expression:
        """Return what a key function makes of an item."""
        if isinstance(key, Outside) and type(key.value) is FunctionType:
            return self._reader.inlined(key.kind, key.name, key.value, (item,))
        if isinstance(key, Marker) and key.kind == "inner":
            return self._reader.inner(key.value, (item,))
        raise NotVectorizable(f"calls {name}() with a key that is no function of the program")

    def _by_key(self, name: str, given: list[Any]) -> Expression:
        """Return the first or the second value, by what a function makes of them; of equal ones the first."""
        key = given.pop()
        one, other = (expression_on(self.used(each)) for each in given)
        by = [self._of_key(key, each, name) for each in (one, other)]
        return Choose(Compare(">" if name == "max" else "<", by[1], by[0]), other, one)

    def outside_called(self, called: Outside, given: list[Any], names: tuple[str, ...]) -> Expression:
        """Return a call of something from outside of the function."""
        value = called.value
        arguments = tuple(expression_on(self.used(each)) for each in given)
        library = name_of(value)
        if library is not None:
            if library == "datetime.fromtimestamp" and names == ("tz",):
                names = ()
            if library.startswith("re.") and not names and len(arguments) == PATTERN_METHODS[library[3:]][0] + 1:
                self._reader.depend(Dependency(called.kind, called.name, LibraryFunction(library)))
                return Invoke(f".{library[3:]}", (_pattern_of(arguments[0]), *arguments[1:]))
            if names or library not in FUNCTIONS:
                raise NotVectorizable(f"calls {called.name}() with keywords")
            self._reader.depend(Dependency(called.kind, called.name, LibraryFunction(library)))
            return Invoke(library, arguments)
        if value is dataclasses.replace and len(names) == len(arguments) - 1:
            self._reader.depend(Dependency(called.kind, called.name, KnownClass(value)))
            return Record(REPLACE, (None, *names), (Unpacked(arguments[0]), *arguments[1:]))
        if isinstance(value, type):
            return self._record(called, value, arguments, names)
        if type(value) is not FunctionType:
            raise NotVectorizable(f"calls {called.name}()")
        return self._reader.inlined(called.kind, called.name, value, _in_order(value, arguments, names, called.name))

    def _record(self, called: Outside, cls: type, given: tuple[Expression, ...], names: tuple[str, ...]) -> Expression:
        if cls is Row and given and len(names) == len(given) and not any(name.startswith("_") for name in names):
            self._reader.depend(Dependency(called.kind, called.name, KnownClass(cls)))
            return Record(ROW, names, given)
        if cls is Row and given and not names:
            self._reader.depend(Dependency(called.kind, called.name, KnownClass(cls)))
            return Record(UNNAMED_ROW, (None,) * len(given), given)
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
        self._reader.depend(Dependency(called.kind, called.name, KnownClass(cls)))
        return Record(kind, fields, tuple(found[name] for name in fields), cls)


def _pattern_of(given: Expression) -> Expression:
    if isinstance(given, Constant) and type(given.value) is str:
        try:
            return Constant(re.compile(given.value))
        except re.error as error:
            raise NotVectorizable(f"uses the regular expression {given.value!r}: {error}") from error
    if isinstance(given, Constant) and is_pattern(given.value):
        return given
    raise NotVectorizable("uses a regular expression that is not constant")


def _iterated(name: str, given: Any) -> Any:
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


def _in_order(
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


def expression_on(found: Any) -> Expression:
    """Return what is on a stack as an expression; raise ``NotVectorizable`` if it is none."""
    if isinstance(found, Expression):
        return found
    if isinstance(found, Marker) and found.kind == "list":
        if any(isinstance(each, Unpacked) for each in found.value):
            return Invoke("display", tuple(found.value))
        return Listed(tuple(found.value))
    if isinstance(found, Marker) and found.name:
        raise NotVectorizable(f"uses {found.name}")
    raise NotVectorizable("calls a function")


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
    raise NotVectorizable(f"uses {article(value)}")


def article(value: Any) -> str:
    """Return the type of a value as a message names it."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def kept_attribute(target: Any, name: str) -> Any:
    """Return an attribute of an object that no method but ``__init__`` sets; raise ``NotVectorizable`` if it is no such thing."""
    found = None if target is None else attribute_of(target, name)
    if found is None or (name not in getattr(target, "__dict__", {}) and hasattr(type(found[0]), "__get__")):
        raise NotVectorizable(f"uses self.{name}")
    for cls in type(target).__mro__:
        for method, function in vars(cls).items():
            if method != "__init__" and isinstance(function, FunctionType) and name in function.__code__.co_names:
                _check_sets(name, method, function)
    return found[0]


def _check_sets(name: str, method: str, function: FunctionType) -> None:
    if any(each.opname == "STORE_ATTR" and each.argval == name for each in get_instructions(function)):
        raise NotVectorizable(f"uses self.{name}, which {method}() sets")


def _said(found: Outside) -> str:
    if found.kind == "attribute":
        return f"self.{found.name}"
    if found.kind == "global":
        return f"the global {found.name!r}"
    return f"the variable {found.name!r} of an enclosing function"


__all__ = [
    "CLASSES",
    "Calls",
    "FunctionReader",
    "Marker",
    "Outside",
    "article",
    "constant_of",
    "expression_on",
    "kept_attribute",
]
