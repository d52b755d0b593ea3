"""Values as users of tables see them (``datetime``, ``dict``, ``Row``), and columns of Arrow."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterable, Iterator, Mapping, Set
from decimal import Decimal
from typing import Any

from funken.expr.sql.runs import contains, runs_of, size
from funken.expr.sql.texts import bitmap_text
from funken.expr.sql.types import (
    ArrayType,
    BitmapType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    LocalZonedTimestampType,
    LogicalType,
    MapType,
    MultisetType,
    NullType,
    RowType,
    TimeOfDayType,
    TimestampType,
    YearMonthIntervalType,
    is_bytes,
)
from funken.expr.sql.values import from_internal, to_internal
from funken.types.row import Row

_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a TIMESTAMP has no zone
_UTC_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FIRST_DAY = datetime.date(1970, 1, 1).toordinal()


class Bitmap(Set[int]):
    """A value of BITMAP: a set of unsigned 32-bit integers, kept as runs.

    >>> bitmap = Bitmap(((1, 3), (7, 7)))
    >>> len(bitmap), 2 in bitmap, sorted(bitmap), bitmap == {1, 2, 3, 7}, bitmap
    (4, True, [1, 2, 3, 7], True, {1,2,3,7})
    """

    def __init__(self, runs: tuple[tuple[int, int], ...] = ()) -> None:
        self.runs = tuple((first, last) for first, last in runs)

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> Bitmap:  # type: ignore[override]
        return cls(runs_of(it))

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and contains(self.runs, number)

    def __iter__(self) -> Iterator[int]:
        return (number for first, last in self.runs for number in range(first, last + 1))

    def __len__(self) -> int:
        return size(self.runs)

    def __eq__(self, other: object) -> bool:
        return self.runs == other.runs if isinstance(other, Bitmap) else super().__eq__(other)

    def __hash__(self) -> int:
        return self._hash() if len(self) <= 1 << 16 else hash(self.runs)

    def __repr__(self) -> str:
        return bitmap_text(self.runs)


def python_value(value: Any, type_: LogicalType) -> Any:
    """Return what a user sees of an internal value."""
    if value is None:
        return None
    match type_:
        case DateType():
            return datetime.date.fromordinal(value + _FIRST_DAY)
        case TimeOfDayType():
            seconds, millis = divmod(value, 1000)
            return datetime.time(seconds // 3600, seconds // 60 % 60, seconds % 60, millis * 1000)
        case TimestampType():
            return _EPOCH + datetime.timedelta(microseconds=value // 1000)
        case LocalZonedTimestampType():
            return _UTC_EPOCH + datetime.timedelta(microseconds=value // 1000)
        case DayTimeIntervalType():
            return datetime.timedelta(milliseconds=value)
        case ArrayType(element=element):
            return [python_value(each, element) for each in value]
        case MapType(key=key, value=item):
            pairs = [(_hashable(python_value(k, key)), python_value(v, item)) for k, v in value]
            return dict(pairs)
        case MultisetType(element=element):
            return {_hashable(python_value(each, element)): count for each, count in value}
        case RowType(fields=fields):
            parts = [python_value(each, field.type) for each, field in zip(value, fields, strict=True)]
            return Row(*type_.names)(*parts) if fields else Row()
        case BitmapType():
            return Bitmap(value)
        case _:
            return value


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_hashable(each) for each in value)
    if isinstance(value, dict):
        return tuple((key, _hashable(each)) for key, each in value.items())
    return value


def internal_value(value: Any, type_: LogicalType) -> Any:
    """Return the internal value of what a user gave; a value of another kind raises ``TypeError`` or ``ValueError``."""
    if value is None or isinstance(type_, NullType):
        return None
    match type_:
        case DateType():
            return (value.date() if isinstance(value, datetime.datetime) else value).toordinal() - _FIRST_DAY
        case TimeOfDayType():
            if isinstance(value, datetime.timedelta):
                return value // datetime.timedelta(milliseconds=1)
            return (value.hour * 3600 + value.minute * 60 + value.second) * 1000 + value.microsecond // 1000
        case TimestampType() | LocalZonedTimestampType():
            return _nanos(value, type_)
        case DayTimeIntervalType():
            return value if isinstance(value, int) else value // datetime.timedelta(milliseconds=1)
        case YearMonthIntervalType():
            return int(value)
        case DecimalType():
            return value if isinstance(value, Decimal) else Decimal(str(value))
        case DoubleType() | FloatType():
            return float(value)
        case BitmapType():
            return _runs(value)
        case _:
            return _nested_internal(value, type_)


def _nested_internal(value: Any, type_: LogicalType) -> Any:
    match type_:
        case ArrayType(element=element):
            return [internal_value(each, element) for each in value]
        case MapType(key=key, value=item):
            pairs = value.items() if isinstance(value, Mapping) else value
            return [(internal_value(k, key), internal_value(v, item)) for k, v in pairs]
        case MultisetType(element=element):
            pairs = value.items() if isinstance(value, Mapping) else value
            return [(internal_value(each, element), count) for each, count in pairs]
        case RowType(fields=fields):
            return tuple(internal_value(each, of.type) for each, of in zip(_parts(value, type_), fields, strict=True))
        case _:
            return bytes(value) if is_bytes(type_) else value


def _parts(value: Any, type_: RowType) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return [value.get(name) for name in type_.names]
    if isinstance(value, Row):
        return list(value)
    if isinstance(value, tuple | list):
        return value
    return [getattr(value, name) for name in type_.names]


def _nanos(value: Any, type_: LogicalType) -> int:
    if isinstance(value, int):  # nanoseconds already
        return value
    if type(value).__name__ == "Timestamp":  # of pandas, with nanoseconds
        return int(value.value)
    span = value - (_EPOCH if value.tzinfo is None else _UTC_EPOCH)
    return int((span.days * 86_400_000_000 + span.seconds * 1_000_000 + span.microseconds) * 1000)


def _runs(value: Any) -> tuple[tuple[int, int], ...]:
    if isinstance(value, Bitmap):
        return value.runs
    if isinstance(value, bytes):
        return tuple(struct.iter_unpack("<II", value))
    return runs_of(value)


_AS_THEY_ARE = frozenset(
    {
        "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "CHAR", "VARCHAR", "BINARY",
        "VARBINARY", "INTERVAL_YEAR_MONTH",
    }
)  # fmt: skip
"""Types whose internal values are what users see."""


def to_python(array: Any, type_: LogicalType) -> list[Any]:
    """Return the values of a column as users see them."""
    if type_.root in _AS_THEY_ARE:
        return to_internal(array, type_)
    return [python_value(each, type_) for each in to_internal(array, type_)]


_AS_GIVEN = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "CHAR", "VARCHAR"})
"""Types whose internal values are what users give."""


def from_python(values: Iterable[Any], type_: LogicalType) -> Any:
    """Return the column of what users gave."""
    if type_.root in _AS_GIVEN:
        return from_internal(list(values), type_)
    return from_internal([internal_value(each, type_) for each in values], type_)
