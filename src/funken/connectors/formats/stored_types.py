"""Values of declared types whose form in files is another: points in time and whole numbers without bounds.

Parquet, ORC and Avro have ``Types.INSTANT()`` as a timestamp in UTC, in microseconds, and ``Types.BIG_INT()`` as a decimal.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

from funken.connectors.formats.record_types import Leaves
from funken.types.info import PrimitiveArrayTypeInfo, Types
from funken.types.instants import Instant
from funken.types.parsing import datetime_of_instant, instant_of_datetime, limits, shown

Convert = Callable[[Any], Any]


class StoredLeaves(Leaves):
    """The conversions of single values, as ``record_types.py`` asks for them."""

    def into(self, declared: Any) -> Convert | None:
        """Return what makes values of the type of those in files."""
        return {Types.INSTANT(): _instant, Types.BIG_INT(): _whole}.get(_hashed(declared))

    def out(self, declared: Any) -> Convert | None:
        """Return what makes values for files of those of the type."""
        if declared == PrimitiveArrayTypeInfo(Types.BYTE()):
            return _bytes
        if declared in (Types.BYTE(), Types.SHORT()):
            return _BYTE if declared == Types.BYTE() else _SHORT  # Avro has neither
        return {Types.INSTANT(): _datetime, Types.BIG_INT(): _decimal}.get(_hashed(declared))


def has_other_values(record_type: Any) -> bool:
    """Whether fields of records have other values in files, those of records within included."""
    text = repr(record_type)
    return any(repr(each) in text for each in (Types.INSTANT(), Types.BIG_INT()))


def _hashed(declared: Any) -> Any:
    return declared if declared in (Types.INSTANT(), Types.BIG_INT()) else None


def _instant(value: Any) -> Any:
    return instant_of_datetime(value) if isinstance(value, datetime.datetime) else value


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, decimal.Decimal) else value


def _datetime(value: Any) -> Any:
    if isinstance(value, Instant):
        return datetime_of_instant(value)
    if not isinstance(value, datetime.datetime):
        raise ValueError(f"{shown(value)} is no Instant")
    return value


def _decimal(value: Any) -> Any:
    if type(value) is not int:
        raise ValueError(f"{shown(value)} is no whole number")
    return decimal.Decimal(value)


def _whole_of(bits: int) -> Convert:
    low, high = limits(bits)

    def check(value: Any) -> Any:
        if isinstance(value, int) and not low <= value <= high:
            raise ValueError(f"{value} is beyond whole numbers of {bits} bits")
        return value

    return check


_BYTE, _SHORT = _whole_of(8), _whole_of(16)


def _bytes(value: Any) -> Any:
    return bytes(each & 0xFF for each in value) if isinstance(value, list | tuple) else value


__all__ = ["StoredLeaves", "has_other_values"]
