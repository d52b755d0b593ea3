"""The classes of data types with PyFlink's names, for ``isinstance``, and the values that PyFlink's runtime keeps of them.

``DataTypes`` makes the types. A value of PyFlink's runtime is plain: the days of a date, the microseconds of a time.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from funken.table.types import (
    ArrayType,
    DateType,
    DayTimeIntervalType,
    LocalZonedTimestampType,
    LogicalType,
    MapType,
    MultisetType,
    RowType,
    TimeOfDayType,
    TimestampType,
)

DataType = LogicalType
TimeType = TimeOfDayType

_DAY = datetime.date(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
LocalZonedTimestampType.EPOCH_ORDINAL = 0  # type: ignore[attr-defined]


def to_sql_type(self: LogicalType, obj: Any) -> Any:
    """Return a value as PyFlink's runtime keeps it; a time without a zone is one of this machine's zone.

    >>> to_sql_type(DateType(), datetime.date(1970, 1, 3)), to_sql_type(TimeOfDayType(), datetime.time(0, 0, 1))
    (2, 1000000)
    >>> to_sql_type(ArrayType(DateType()), [datetime.date(1970, 1, 2), None])
    [1, None]
    """
    if obj is None:
        return None
    match self:
        case DateType():
            return (obj - _DAY).days
        case TimeOfDayType():
            clock = datetime.timedelta(
                hours=obj.hour, minutes=obj.minute, seconds=obj.second, microseconds=obj.microsecond
            )
            return (clock - (obj.utcoffset() or datetime.timedelta())) // _MICROSECOND
        case TimestampType() | LocalZonedTimestampType():
            ordinal = getattr(self, "EPOCH_ORDINAL", 0)
            return int(obj.replace(microsecond=0).timestamp()) * 1_000_000 + obj.microsecond + ordinal
        case DayTimeIntervalType():
            return obj // _MICROSECOND
    return _of_parts(self, obj, to_sql_type)


def from_sql_type(self: LogicalType, obj: Any) -> Any:
    """Return the Python object of a value that PyFlink's runtime keeps.

    >>> from_sql_type(DateType(), 2), from_sql_type(DayTimeIntervalType(), 86410000000)
    (datetime.date(1970, 1, 3), datetime.timedelta(days=1, seconds=10))
    """
    if obj is None:
        return None
    match self:
        case DateType():
            return _DAY + datetime.timedelta(days=obj)
        case TimeOfDayType():
            return (datetime.datetime.combine(_DAY, datetime.time()) + obj * _MICROSECOND).time()
        case TimestampType() | LocalZonedTimestampType():
            seconds, micros = divmod(obj - getattr(self, "EPOCH_ORDINAL", 0), 1_000_000)
            moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC).astimezone()
            return moment.replace(tzinfo=None, microsecond=micros)
        case DayTimeIntervalType():
            return obj * _MICROSECOND
    return _of_parts(self, obj, from_sql_type)


def _of_parts(type_: LogicalType, obj: Any, convert: Callable[[LogicalType, Any], Any]) -> Any:
    match type_:
        case ArrayType() | MultisetType():
            return [convert(type_.element, each) for each in obj]
        case MapType():
            return {convert(type_.key, key): convert(type_.value, value) for key, value in obj.items()}
        case RowType():
            return tuple(convert(part, each) for part, each in zip(type_.types, obj, strict=True))
    return obj


LogicalType.to_sql_type = to_sql_type  # type: ignore[attr-defined]
LogicalType.from_sql_type = from_sql_type  # type: ignore[attr-defined]

PASSED_ON = {
    "funken.table.types": (
        "ArrayType BigIntType BinaryType BooleanType CharType DateType DayTimeIntervalType DecimalType DoubleType "
        "FloatType IntType IntegralType LocalZonedTimestampType MapType MultisetType NullType NumericType RawType "
        "RowField RowType SmallIntType TimestampType TinyIntType VarBinaryType VarCharType YearMonthIntervalType"
    ),
}
__all__ = ["DataType", "TimeType"]
