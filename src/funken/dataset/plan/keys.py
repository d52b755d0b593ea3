"""Keys: which fields of a record, or what function of it, and how they are extracted from a block.

A key by fields is transparent: the optimizer sees which fields it has, so it can reuse a partitioning. A key selector is
opaque. The value of a key of one field is the field's, that of several is a tuple.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from operator import attrgetter, contains, itemgetter
from typing import Any

from funken import Row
from funken.dataset.memory.manager import Block
from funken.dataset.plan.functions import DataSetFunction, user_function
from funken.errors import InvalidProgram, KeyNotHashable
from funken.state.keygroups import ordered_keys

# ---- Orders of records: by keys, ascending or descending, for sorting in memory and for merging sorted runs.


Column = Callable[[Block], list[Any]]
"""Extracts one key per record of a block."""


class Descending:
    """A key that compares the other way round.

    >>> Descending(2) < Descending(1), Descending(1) == Descending(1)
    (True, True)
    """

    __slots__ = ("key",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: Descending) -> bool:
        less: bool = other.key < self.key
        return less

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and bool(self.key == other.key)


class Order:
    """An order by columns, the first one first; ``descending`` has a flag for each. NaN is greatest, as in Java.

    >>> order = Order([lambda block: [r[0] for r in block], lambda block: [r[1] for r in block]], [False, True])
    >>> order.sorted([(2, 1), (1, 1), (1, 2)])
    [(1, 2), (1, 1), (2, 1)]
    """

    def __init__(self, columns: Sequence[Column], descending: Sequence[bool]) -> None:
        self._columns = list(columns)
        self._descending = list(descending)

    def sorted(self, records: Block) -> Block:
        """Return the records in order; those with equal keys keep theirs."""
        positions = list(range(len(records)))
        for column, descending in reversed(list(zip(self._columns, self._descending, strict=True))):
            positions.sort(key=ordered_keys(column(records)).__getitem__, reverse=descending)
        return list(map(records.__getitem__, positions))

    def fields(self) -> list[tuple[tuple[int | str, ...], bool]] | None:
        """Return the paths of the fields, and whether each is descending; None if a column is computed by a function."""
        found = []
        for column, descending in zip(self._columns, self._descending, strict=True):
            paths = getattr(column, "paths", None)
            if paths is None:
                return None
            found += [(path, descending) for path in paths]
        return found

    def keys(self, block: Block) -> list[Any]:
        """Return keys that compare as the records do."""
        columns = [
            list(map(Descending, keys)) if descending else keys
            for column, descending in zip(self._columns, self._descending, strict=True)
            for keys in (ordered_keys(column(block)),)
        ]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


# ---- What is known of the records of a data set before it is computed: enough to check fields, and to name them
# one way.
#
# A type is inferred from the elements of a collection, or declared; behind an opaque function it is ``UNKNOWN``,
# and then fields are only checked when records are there.


Step = int | str
Path = tuple[Step, ...]
"""The way to a field: one step per level; the empty path is the whole record."""


@dataclasses.dataclass(frozen=True)
class RecordType:
    """A tuple (``fields``), a record with named fields (``names`` too), a value without fields, or something unknown.

    >>> str(type_of((1, "a"))), str(type_of(5)), type_of((1, "a")).arity
    ('(int, str)', 'int', 2)
    """

    name: str = ""
    fields: tuple[RecordType, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """True if anything is known of the records."""
        return bool(self.name)

    @property
    def arity(self) -> int | None:
        """Return the number of fields; None if there are none, or it is not known."""
        return len(self.fields) if self.name and self.fields else None

    def resolve(self, path: Path) -> Path | str:
        """Return the path with one spelling per field, or, as text, why there is no such field."""
        found: list[Step] = []
        at = self
        for step in path:
            if not at.known:
                found.append(_position(step))
                continue
            place = at._find(step)
            if place is None:
                if not at.fields:
                    return f"records of type {at} have no fields"
                choice = ", ".join(at.names) or f"0 to {len(at.fields) - 1}"
                return f"there is no field {step!r} in records of type {at}; there are {choice}"
            found.append(at.names[place] if at.names else place)
            at = at.fields[place]
        return tuple(found)

    def _find(self, step: Step) -> int | None:
        if step in self.names:
            return self.names.index(str(step))
        position = _position(step)
        return position if isinstance(position, int) and 0 <= position < len(self.fields) else None

    def at(self, path: Path) -> RecordType:
        """Return the type of a field."""
        at = self
        for step in path:
            place = at._find(step)
            if place is None:
                return UNKNOWN
            at = at.fields[place]
        return at

    def __str__(self) -> str:
        if not self.name:
            return "unknown"
        if self.names:
            return f"{self.name}({', '.join(self.names)})"
        return f"({', '.join(map(str, self.fields))})" if self.fields else self.name


UNKNOWN = RecordType()


def _position(step: Step) -> Step:
    if isinstance(step, str) and step[:1] == "f" and step[1:].isdigit():
        return int(step[1:])
    return step


def tuple_of(*fields: RecordType) -> RecordType:
    """Return the type of tuples."""
    return RecordType("tuple", fields)


def type_of(record: Any) -> RecordType:
    """Return the type of a record."""
    kind = type(record)
    if names := field_names(record):
        return RecordType(kind.__name__, tuple(type_of(value_of(record, name)) for name in names), names)
    if isinstance(record, tuple):
        return tuple_of(*map(type_of, record)) if record else RecordType("tuple")
    if record is None or (isinstance(record, Row | list) or hasattr(record, "__dict__")):
        return UNKNOWN
    return RecordType(kind.__name__)


def field_names(record: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass, named tuple, named row or dict; none for others."""
    if isinstance(record, tuple):
        return tuple(getattr(record, "_fields", ()))
    if isinstance(record, Row):
        return tuple(record._fields or ())
    if isinstance(record, dict):
        return tuple(record) if all(isinstance(name, str) for name in record) else ()
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return tuple(field.name for field in dataclasses.fields(record))
    return ()


def value_of(record: Any, name: str) -> Any:
    """Return a field by name."""
    return record[name] if isinstance(record, dict) else getattr(record, name)


def common_type(records: Iterable[Any]) -> RecordType:
    """Return the type of the first record if the others are of the same shape; of numbers and the like, the name may differ.

    >>> str(common_type([(1, 2), (3, 4)])), str(common_type([(1, 2), (1, 2, 3)])), str(common_type([]))
    ('(int, int)', 'unknown', 'unknown')
    """
    found = UNKNOWN
    for record in records:
        own = type_of(record)
        if not found.known:
            found = own
        if not own.known or (own.names, own.arity) != (found.names, found.arity):
            return UNKNOWN
        if own != found:
            found = _merged(found, own)
    return found


def _merged(one: RecordType, other: RecordType) -> RecordType:
    if (one.names, one.arity) != (other.names, other.arity) or not (one.known and other.known):
        return UNKNOWN
    if not one.fields:
        return one if one == other else UNKNOWN
    return RecordType(one.name, tuple(map(_merged, one.fields, other.fields)), one.names)


def declared_type(hint: Any) -> RecordType:
    """Return the type that a class or a generic alias stands for.

    >>> str(declared_type(tuple[int, str])), str(declared_type(int))
    ('(int, str)', 'int')
    """
    if typing.get_origin(hint) is tuple:
        return tuple_of(*map(declared_type, typing.get_args(hint)))
    if hint is Any or not isinstance(hint, type):
        return UNKNOWN
    hints = typing.get_type_hints(hint) if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields") else {}
    if hints:
        return RecordType(hint.__name__, tuple(map(declared_type, hints.values())), tuple(hints))
    return UNKNOWN if hint in {tuple, list, dict, object} else RecordType(hint.__name__)


Getter = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class Key:
    """Fields, or a selector function.

    >>> str(Key(((0,), ("user", "zip"))))
    '0, user.zip'
    """

    paths: tuple[Path, ...] = ()
    selector: DataSetFunction | None = None

    @property
    def transparent(self) -> bool:
        """True if the key consists of known fields, and not of a selector."""
        return self.selector is None

    def __str__(self) -> str:
        return str(self.selector) if self.selector else ", ".join(map(path_text, self.paths))


WHOLE = Key(((),))


def path_text(path: Path) -> str:
    """Write a path as the user would.

    >>> path_text(("user", "zip")), path_text((0,)), path_text((1, 0)), path_text(())
    ('user.zip', '0', 'f1.f0', '*')
    """
    if len(path) == 1:
        return str(path[0])
    return ".".join(f"f{step}" if isinstance(step, int) else step for step in path) or "*"


def make_key(expressions: tuple[Any, ...], records: RecordType, operator: str) -> Key:
    """Turn the arguments of ``group_by`` and its like into a key.

    >>> from funken.dataset.plan.keys import type_of
    >>> str(make_key((0, "f1.f0"), type_of((1, (2, 3))), "group_by"))
    '0, f1.f0'
    >>> make_key((2,), type_of((1, "a")), "group_by")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: group_by(2): there is no field 2 in records of type (int, str); there are 0 to 1.
    """
    if not expressions:
        raise InvalidProgram(
            f"{operator}() got no key. Give field positions, field names, '*' for the whole record, or one key function."
        )
    if len(expressions) == 1 and not isinstance(expressions[0], int | str):
        return Key(selector=user_function(expressions[0], "get_key", operator))
    return Key(make_paths(expressions, records, operator))


def make_paths(expressions: Iterable[Any], records: RecordType, operator: str) -> tuple[Path, ...]:
    """Turn positions and names into paths, each once."""
    paths: list[Path] = []
    for expression in expressions:
        if isinstance(expression, bool) or not isinstance(expression, int | str):
            raise InvalidProgram(
                f"{operator}({expression!r}): a field is named by a position (int) or an expression (str); "
                "a key function stands alone, and has to be callable."
            )
        if isinstance(expression, int) and expression < 0:
            raise InvalidProgram(f"{operator}({expression}): positions count from 0.")
        steps: Path = () if expression in {"*", "_"} else _steps(expression)
        if any(step == "" for step in steps):
            raise InvalidProgram(f"{operator}({expression!r}) has an empty name; write it as 'user.zip' or 'f0.f1'.")
        found = records.resolve(steps)
        if isinstance(found, str):
            raise InvalidProgram(f"{operator}({expression!r}): {found}.")
        every = records.arity if not steps and not records.names else None
        paths += [(position,) for position in range(every)] if every else [found]
    return tuple(dict.fromkeys(paths))


def _steps(expression: int | str) -> Path:
    return (expression,) if isinstance(expression, int) else tuple(expression.split("."))


def getter_of(path: Path, record: Any, operator: str) -> Getter:
    """Return a function that gets a field from records of the class of this one."""
    getters: list[Getter] = []
    value = record
    for step in path:
        get = _getter(step, value, operator)
        getters.append(get)
        value = get(value)
    if not getters:
        return _itself
    return getters[0] if len(getters) == 1 else partial(_walk, path, operator)


def _itself(record: Any) -> Any:
    return record


def _walk(path: Path, operator: str, record: Any) -> Any:
    for step in path:
        record = _getter(step, record, operator)(record)
    return record


def _getter(step: Step, record: Any, operator: str) -> Getter:
    if isinstance(step, int):
        if isinstance(record, tuple | list | Row) and step < len(record):
            return itemgetter(step)
        names = field_names(record)
        if step < len(names):
            return itemgetter(names[step]) if isinstance(record, dict) else attrgetter(names[step])
    elif isinstance(record, dict) and step in record:
        return itemgetter(step)
    elif hasattr(record, step):
        return attrgetter(step)
    raise InvalidProgram(
        f"operator {operator!r}: the record {_short(record)} of type {type(record).__qualname__!r} has no field {step!r}. "
        "Name a field that every record has, or use a key function."
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


class FieldColumn:
    """Extracts fields from blocks: one path extracts the values, several extract tuples.

    >>> FieldColumn(((1,), (0,)), "group_by")([(1, "a"), (2, "b")])
    [('a', 1), ('b', 2)]
    """

    def __init__(self, paths: tuple[Path, ...], operator: str) -> None:
        self.paths = paths
        self._operator = operator
        self._getters: dict[type, list[Getter]] = {}

    def __call__(self, block: Block) -> list[Any]:
        """Return the values of a block."""
        kinds = set(map(type, block))
        if len(kinds) > 1:
            return [self([record])[0] for record in block]
        if not kinds:
            return []
        try:
            return self._values(block)
        except (IndexError, KeyError, AttributeError):
            # The first record of this class had the fields, another has not: name it.
            for record in block:
                for path in self.paths:
                    _walk(path, self._operator, record)
            raise

    def _values(self, block: Block) -> list[Any]:
        kind = type(block[0])
        getters = self._getters.get(kind)
        if getters is None:
            getters = [getter_of(path, block[0], self._operator) for path in self.paths]
            self._getters[kind] = getters
        if len(getters) == 1:
            return list(map(getters[0], block))
        return list(zip(*(map(get, block) for get in getters), strict=True))


class KeyColumn:
    """Extracts the keys of a block, and refuses None, which equals nothing. Every NaN is one key, and the greatest.

    >>> KeyColumn(Key(((0,),)), "group_by")([(None, 1)])
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: operator 'group_by': the key (0) of the record (None, 1) is None, or has None in it...
    """

    def __init__(self, key: Key, operator: str) -> None:
        self.key = key
        #: the fields, which have no None if a record is one of columns
        self.paths = None if key.selector else key.paths
        self._operator = operator
        self._selector = key.selector.bind() if key.selector else None
        self._fields = None if key.selector else FieldColumn(key.paths, operator)
        self._several = len(key.paths) > 1
        #: the first key, of which joins compare the types
        self.first: Any = None

    def __call__(self, block: Block) -> list[Any]:
        """Return the keys of a block, to look up and to sort by."""
        try:
            keys = ordered_keys(self._of(block), strictly=True)
        except KeyNotHashable as error:
            raise KeyNotHashable(f"operator {self._operator!r}: {error}") from None
        self._check(keys, block)
        if self.first is None and keys:
            self.first = keys[0]
        return keys

    def given(self, block: Block) -> list[Any]:
        """Return the keys of a block as the records have them."""
        keys = self._of(block)
        self._check(keys, block)
        return keys

    def _of(self, block: Block) -> list[Any]:
        if self._fields is not None:
            return self._fields(block)
        assert self._selector is not None
        return list(map(self._selector, block))

    def _check(self, keys: list[Any], block: Block) -> None:
        if None in keys or (self._several and any(map(contains, keys, repeat(None)))):
            record = next(r for r, k in zip(block, keys, strict=True) if k is None or (self._several and None in k))
            raise InvalidProgram(
                f"operator {self._operator!r}: the key ({self.key}) of the record {_short(record)} is None, or has None in it. "
                "Filter such records out before, or give them a value of their own."
            )


@dataclasses.dataclass(frozen=True)
class SortField:
    """One field of an order."""

    path: Path
    descending: bool = False
    selector: DataSetFunction | None = None

    def __str__(self) -> str:
        what = str(self.selector) if self.selector else path_text(self.path)
        return f"{what} {'DESC' if self.descending else 'ASC'}"


Ordering = tuple[SortField, ...]


def order_of(ordering: Ordering, operator: str, first: KeyColumn | None = None) -> Order:
    """Return an order that can sort blocks: by a key first, if given, then by the fields."""
    columns: list[Any] = [] if first is None else [first]
    for field in ordering:
        if field.selector is not None:
            columns.append(partial(_selected, field.selector.bind()))
        else:
            columns.append(FieldColumn((field.path,), operator))
    return Order(columns, [False] * (first is not None) + [field.descending for field in ordering])


def _selected(select: Getter, block: Block) -> list[Any]:
    return list(map(select, block))
