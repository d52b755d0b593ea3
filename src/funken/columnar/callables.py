"""What a traced function may call, and what it may use from outside of it."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from types import FunctionType
from typing import Any, Protocol

from funken.columnar.calling import (
    Marker,
    Outside,
    article,
    constant_of,
    expression_on,
    in_order,
    iterated,
    numbers_of,
    pattern_of,
    said,
    tests_bases,
)
from funken.columnar.dependencies import BUILTIN_CLASSES, Dependency, KnownClass, LibraryFunction
from funken.columnar.expressions import (
    Argument,
    Binary,
    Choose,
    Compare,
    Constant,
    Expression,
    GetItem,
    Invoke,
    Loop,
    Make,
    MakeRecord,
    NotVectorizable,
    TypeTest,
    Unpacked,
)
from funken.columnar.lists.calls import DISTINCT
from funken.columnar.mutation.names import VIEWS, view_of
from funken.columnar.mutation.typed import REPLACE, REPLACE_TUPLE
from funken.columnar.records import default_of, form_of
from funken.columnar.writing.json_texts import call_of, options_of
from funken.columnar.writing.text_formats import by_format
from funken.expr.python.objects import PATTERN, is_pattern
from funken.expr.python.table import DUMPS, TABLE
from funken.expr.types import DICT, ROW, UNNAMED_ROW
from funken.types.row import Row


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

    def names_of(self, found: Any) -> tuple[str, ...] | None:
        """Return the names of a dict; ``None`` if they are not known."""
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
            raise NotVectorizable(f"uses {said(found)}, {article(value)}")
        try:
            constant = constant_of(value)
        except NotVectorizable as refused:
            if type(value) in (int, str):  # a column could hold another one
                raise
            raise NotVectorizable(f"uses {said(found)}, {article(value)}") from refused
        kept = copy.deepcopy(value) if type(value) in (dict, list, set) else value
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
            return BUILTIN_CLASSES[found.name]
        if isinstance(found, Outside) and isinstance(found.value, type):
            if not tests_bases(found.value):
                raise NotVectorizable(f"tests the type {found.name}, which decides itself what is of it")
            self._reader.depend(Dependency(found.kind, found.name, KnownClass(found.value)))
            return found.value
        raise NotVectorizable("tests a type that is not known")

    def method_called(self, name: str, owner: Expression, given: list[Any], names: tuple[str, ...]) -> Any:
        """Return a call of a method; ``names`` are those of the last arguments."""
        if name in VIEWS and not given:
            fields = self._reader.names_of(owner)
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
        lower = _LOWERED.get(name)
        lowered = None if lower is None else lower(self, name, given, names)
        if lowered is not None:
            return lowered
        if names:
            raise NotVectorizable(f"calls {name}() with keywords")
        row = TABLE[name]
        counts = row.counts()
        if len(given) not in counts:
            raise NotVectorizable(f"calls {name}() with {len(given)} arguments" if counts else f"calls {name}()")
        if row.items and (len(given) == 1 or name == "sum"):
            return Invoke(name, (self._items(given[0], name), *map(self.expression, given[1:])))
        return Invoke(name, tuple(map(self.expression, given)))

    def expression(self, value: Any) -> Expression:
        """Return what is on the stack as an expression."""
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
        return Make((Binary("//", one, other), Binary("%", one, other)))

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

    def _over(self, name: str, function: Any, items: Expression) -> Marker:
        """Return what ``map`` or ``filter`` makes of the items of a list."""
        if isinstance(items, Make) and name == "map":
            return Marker("generator", "a map", Make(tuple(self._of_key(function, each, name) for each in items.items)))
        number = self._reader.new_item()
        item = Argument(number)
        nothing = name == "filter" and isinstance(function, Constant) and function.value is None
        made = item if nothing else self._of_key(function, item, name)
        loop = Loop(items, number, (), made) if name == "map" else Loop(items, number, (made,), item)
        return Marker("generator", f"a {name}", loop)

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
        if isinstance(key, Marker) and key.kind == "builtin":
            return expression_on(self.builtin_called(key.name, [item], ()))
        raise NotVectorizable(f"calls {name}() with a function that is none of the program")

    def _by_key(self, name: str, given: list[Any]) -> Expression:
        """Return the first or the second value, by what a function makes of them; of equal ones the first."""
        key = given.pop()
        one, other = (self.expression(each) for each in given)
        by = [self._of_key(key, each, name) for each in (one, other)]
        return Choose(Compare(">" if name == "max" else "<", by[1], by[0]), other, one)

    def outside_called(self, called: Outside, given: list[Any], names: tuple[str, ...]) -> Expression:
        """Return a call of something from outside of the function."""
        value = called.value
        library = TABLE.name_of(value)
        if library == DUMPS and len(given) == len(names) + 1:
            self._reader.depend(Dependency(called.kind, called.name, LibraryFunction(library)))
            return call_of(self.expression(given[0]), options_of(names, given[1:]))
        arguments = tuple(map(self.expression, given))
        row = None if library is None else TABLE[library]
        if row is not None:
            if row.name == "datetime.fromtimestamp" and names == ("tz",):
                names = ()
            takes_pattern = any(PATTERN in types for types in row.signatures)
            if names or (takes_pattern and len(arguments) not in row.counts()) or row.name == DUMPS:
                raise NotVectorizable(f"calls {called.name}() with keywords")
            self._reader.depend(Dependency(called.kind, called.name, LibraryFunction(row.name)))
            if takes_pattern:
                return Invoke(f".{row.name}", (pattern_of(arguments[0]), *arguments[1:]))
            return Invoke(row.name, arguments)
        if value is dataclasses.replace and len(names) == len(arguments) - 1:
            self._reader.depend(Dependency(called.kind, called.name, KnownClass(value)))
            return MakeRecord(REPLACE, (None, *names), (Unpacked(arguments[0]), *arguments[1:]))
        if isinstance(value, type):
            return self._record(called, value, arguments, names)
        if type(value) is not FunctionType:
            raise NotVectorizable(f"calls {called.name}()")
        return self._reader.inlined(called.kind, called.name, value, in_order(value, arguments, names, called.name))

    def _record(self, called: Outside, cls: type, given: tuple[Expression, ...], names: tuple[str, ...]) -> Expression:
        if cls is Row and given and len(names) == len(given) and not any(name.startswith("_") for name in names):
            self._reader.depend(Dependency(called.kind, called.name, KnownClass(cls)))
            return MakeRecord(ROW, names, given)
        if cls is Row and given and not names:
            self._reader.depend(Dependency(called.kind, called.name, KnownClass(cls)))
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
        self._reader.depend(Dependency(called.kind, called.name, KnownClass(cls)))
        return MakeRecord(kind, fields, tuple(found[name] for name in fields), cls)


_LOWERED: dict[str, Callable[[Calls, str, list[Any], tuple[str, ...]], Any]] = {
    "isinstance": Calls._tested, "iter": Calls._iterated, "next": Calls._iterated, "type": Calls._type, "max": Calls._extreme,
    "min": Calls._extreme, "set": Calls._set, "len": Calls._of_set, "sorted": Calls._of_set, "range": Calls._range,
    "map": Calls._mapped, "filter": Calls._mapped, "divmod": Calls._divided, "enumerate": Calls._numbered, "dict": Calls._dict,
}  # fmt: skip
"""Calls that become other expressions, or objects on the stack; what gives ``None`` is called by its row."""

__all__ = ["Calls", "FunctionReader"]
