"""Copies of records: a function may change its input, and emitted records stay unchanged.

Most records cannot be changed: numbers, text, dates, and tuples of them. They are never copied; to find out is all they
cost. A record that can be changed is copied together with everything in it that can be.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import enum
import fractions
import pickle
import types
import uuid
from collections.abc import Iterable
from itertools import chain
from typing import Any, TypeVar

from funken.errors import RecordNotCopied
from funken.types.row import Row, make_row

#: types of objects that cannot be changed; enums and similar types are added when the first is seen
IMMUTABLE: set[type] = {
    type(None), type(...), type(NotImplemented), bool, int, float, complex, str, bytes, range, slice, type,
    datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone,
    decimal.Decimal, fractions.Fraction, uuid.UUID,
    types.FunctionType, types.BuiltinFunctionType, types.ModuleType,
}  # fmt: skip
#: types of objects that cannot be changed unless something in them can; named tuples are added when the first is seen
_FROZEN: set[type] = {tuple, frozenset}
#: other types, and whether a copy of their ``__dict__`` is all there is to a copy
_CHANGEABLE: dict[type, bool] = {dict: False, list: False, set: False, bytearray: False, Row: False}
_Type = TypeVar("_Type", bound=type)
_HOOKS = ("__setstate__", "__copy__", "__deepcopy__", "__getnewargs__", "__getnewargs_ex__")


def immutable(kind: _Type) -> _Type:
    """Declare that objects of a class never change: records and state that hold one are not copied. A class decorator.

    >>> @immutable
    ... class Version:
    ...     pass
    >>> version = Version()
    >>> copied(version) is version
    True
    """
    IMMUTABLE.add(kind)
    return kind


def copied(record: Any) -> Any:
    """Return a record that shares with this one nothing that can be changed; itself, if it cannot be changed.

    Raises ``RecordNotCopied``.

    >>> pair, counts = ("to", 1), {"to": 1}
    >>> copied(pair) is pair, copied(counts) == counts, copied(counts) is counts
    (True, True, False)
    """
    kind = type(record)
    if kind in IMMUTABLE:
        return record
    if kind is dict:
        return record.copy() if IMMUTABLE.issuperset(map(type, record.values())) else _deep(record)
    if kind is list:
        return record.copy() if IMMUTABLE.issuperset(map(type, record)) else _deep(record)
    if kind in _FROZEN:
        for item in record:  # hot: a tuple of named tuples takes half the time that can_change() takes
            if type(item) not in IMMUTABLE and not (type(item) in _FROZEN and _flat(item)):
                return _deep(record) if can_change([record]) else record
        return record
    if kind is Row:
        values = record._values
        return make_row(record._fields, values.copy(), record._kind) if _flat(values) else _deep(record)
    if not can_change([record]):
        return record
    if _CHANGEABLE.get(kind) and _flat(record.__dict__.values()):
        return record if _frozen_dataclass(kind) else _with_state(kind, record.__dict__)
    return _deep(record)


def copied_block(records: list[Any]) -> list[Any]:
    """Return copies of the records of a block; the same list, if none of them can be changed.

    >>> words, counts = ["to", "be"], [{"to": 1}, {"be": 1}]
    >>> copied_block(words) is words, copied_block(counts) == counts, copied_block(counts)[0] is counts[0]
    (True, True, False)
    """
    # Hot: 12 ns per record if none can be changed, 60 if they are tuples; else pickle takes a quarter of a microsecond.
    return copies_of(records) if can_change(records) else records


def copies_of(records: list[Any]) -> list[Any]:
    """Return copies of the records of a block, some of which can be changed."""
    try:
        copies: list[Any] = pickle.loads(pickle.dumps(records, pickle.HIGHEST_PROTOCOL))
    except Exception:  # noqa: BLE001 - classes that cannot be imported, or anything that a user's class raises
        return [copied(record) for record in records]
    return copies


def _flat(items: Iterable[Any]) -> bool:
    return IMMUTABLE.issuperset(map(type, items))


def distinct(records: list[Any]) -> list[Any]:
    """Return the records with a copy of each that can be changed and is in the list before.

    >>> row = [0]
    >>> first, second = distinct([row, row])
    >>> first is row, second == row, second is row
    (True, True, False)
    """
    if len(set(map(id, records))) == len(records) or not can_change(records):
        return records
    seen: set[int] = set()
    found = []
    for record in records:
        found.append(copied(record) if id(record) in seen else record)
        seen.add(id(record))
    return found


def can_change(records: list[Any]) -> bool:
    """Return True if one of the records can be changed, or anything in them.

    >>> can_change([1, "a", ("b", 2.0)]), can_change([("a", [])])
    (False, True)
    """
    while records:
        present = set(map(type, records))
        kinds = present - IMMUTABLE
        if not kinds:
            return False
        if kinds <= _FROZEN:
            # Hot: tuples of numbers and text, 55 ns a pair; a list of what is in them would cost 25 more.
            if len(kinds) == len(present) and IMMUTABLE.issuperset(map(type, chain.from_iterable(records))):
                return False
        else:
            for kind in kinds - _FROZEN:
                if kind in _CHANGEABLE or not _learned(kind):
                    return True
            continue
        records = list(chain.from_iterable(record for record in records if type(record) in _FROZEN))
    return False


def _learned(kind: type) -> bool:
    """Find out about a type that was not seen before; false if its objects can be changed."""
    bare = kind.__dictoffset__ == 0
    of_numpy = any((base.__module__, base.__name__) == ("numpy", "generic") for base in kind.__mro__)
    scalar = issubclass(kind, int | float | str | bytes) or (of_numpy and kind.__name__ != "void")
    if issubclass(kind, enum.Enum | type) or (scalar and bare):
        IMMUTABLE.add(kind)
    elif issubclass(kind, tuple) and bare:
        _FROZEN.add(kind)
    else:
        _CHANGEABLE[kind] = _plain(kind)
        return False
    return True


def _plain(kind: Any) -> bool:
    """Return True if objects of a class are their ``__dict__``, as pickle sees them."""
    return bool(
        kind.__dictoffset__ != 0
        and kind.__new__ is object.__new__
        and kind.__reduce__ is object.__reduce__
        and kind.__reduce_ex__ is object.__reduce_ex__
        and getattr(kind, "__getstate__", None) is getattr(object, "__getstate__", None)
        and not any(hasattr(kind, hook) for hook in _HOOKS)
        and not any(vars(base).get("__slots__") for base in kind.__mro__)
    )


def _frozen_dataclass(kind: type) -> bool:
    parameters = getattr(kind, "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def _with_state(kind: type, state: dict[str, Any]) -> Any:
    made: Any = object.__new__(kind)
    made.__dict__.update(state)
    return made


def _deep(record: Any) -> Any:
    try:
        return pickle.loads(pickle.dumps(record, pickle.HIGHEST_PROTOCOL))
    except Exception:  # noqa: BLE001 - a class that cannot be imported can be copied all the same
        try:
            return copy.deepcopy(record)
        except Exception as error:
            raise RecordNotCopied(
                f"a record of type {type(record).__qualname__!r} can be changed, and cannot be copied for the next "
                f"operator: {type(error).__name__}: {error}. Emit plain data, or set pipeline.object-reuse to have "
                "operators share their records."
            ) from error
