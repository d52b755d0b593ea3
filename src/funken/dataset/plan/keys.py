"""Keys: which fields of a record, or what function of it, and how they are extracted from a block.

A key by fields is transparent: the optimizer sees which fields it has, so it can reuse a partitioning. A key selector is
opaque. The value of a key of one field is the field's, that of several is a tuple.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from functools import partial
from itertools import repeat
from operator import attrgetter, contains, itemgetter
from typing import Any

from funken import Row
from funken.dataset.memory.blocks import Block
from funken.dataset.memory.order import Order
from funken.dataset.plan.functions import DataSetFunction, user_function
from funken.dataset.plan.record_type import Path, RecordType, Step, field_names
from funken.errors import InvalidProgram, KeyNotHashable
from funken.state.keys.normal import ordered_keys

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
        """Whether the fields are known."""
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
    """Turn what ``group_by`` and its like were given into a key.

    >>> from funken.dataset.plan.record_type import type_of
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
    """Return what gets a field from records of the class of this one."""
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
    """Extracts fields from blocks: one path gives the values, several give tuples.

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

    def __call__(self, block: Block) -> list[Any]:
        """Return the keys of a block, to look up and to sort by."""
        try:
            keys = ordered_keys(self._of(block), strictly=True)
        except KeyNotHashable as error:
            raise KeyNotHashable(f"operator {self._operator!r}: {error}") from None
        self._check(keys, block)
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
