"""The classes of data types with PyFlink's names and attributes, and the values that PyFlink's runtime keeps of them.

``DataTypes`` makes the types. A value of PyFlink's runtime is plain: the days of a date, the microseconds of a time.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

from funken.table.types import (
    ArrayType,
    DataTypes,
    DateType,
    DayTimeIntervalType,
    LocalZonedTimestampType,
    LogicalType,
    MapType,
    MultisetType,
    RowField,
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


def type_name(cls: type) -> str:
    """Return PyFlink's name of a class of types.

    >>> type_name(RowType), type_name(TimeOfDayType)
    ('ROW', 'TIME')
    """
    return "TIME" if cls is TimeOfDayType else cls.__name__.removesuffix("Type").upper()


def need_conversion(self: LogicalType) -> bool:
    """Return True if PyFlink's runtime keeps other values of a type.

    >>> need_conversion(DateType()), need_conversion(ArrayType(DateType())), need_conversion(RowType())
    (True, True, True)
    """
    match self:
        case ArrayType() | MultisetType():
            return need_conversion(self.element)
        case MapType():
            return need_conversion(self.key) or need_conversion(self.value)
    return isinstance(
        self, DateType | TimeOfDayType | TimestampType | LocalZonedTimestampType | DayTimeIntervalType | RowType
    )


def field_of(self: RowType, key: str | int | slice) -> Any:
    """Return a field of a row by name or place, or the row of some fields.

    >>> row = RowType.of(("a", DateType()), ("b", TimeOfDayType()))
    >>> field_of(row, "a").name, field_of(row, 1).name, field_of(row, slice(1)).names
    ('a', 'b', ['a'])
    """
    if isinstance(key, slice):
        return RowType(self.fields[key])
    if isinstance(key, int):
        if not -len(self.fields) <= key < len(self.fields):
            raise IndexError(f"the row has {len(self.fields)} fields, but no field {key}: {', '.join(self.names)}.")
        return self.fields[key]
    if not isinstance(key, str):
        raise ValueError(f"a field of a row has a name, a place or a slice, but got {key!r}.")
    if key not in self.names:
        raise KeyError(f"the row has no field {key!r}, but {', '.join(self.names)}.")
    return self.fields[self.index(key)]


def fields_of(self: RowType) -> Iterator[RowField]:
    """Iterate over the fields of a row."""
    return iter(self.fields)


def _like_pyflink() -> None:
    """Give the classes the attributes that PyFlink's have."""

    def part(name: str) -> Any:
        return property(lambda self: getattr(self, name))

    for cls, attributes in (
        (LogicalType, {
            "to_sql_type": to_sql_type, "from_sql_type": from_sql_type, "need_conversion": need_conversion,
            "type_name": classmethod(type_name), "_nullable": part("nullable"),
        }),
        (ArrayType, {"element_type": part("element")}),
        (MultisetType, {"element_type": part("element")}),
        (MapType, {"key_type": part("key"), "value_type": part("value")}),
        (RowField, {"data_type": part("type")}),
        (RowType, {"__getitem__": field_of, "__iter__": fields_of, "__len__": lambda self: len(self.fields)}),
    ):  # fmt: skip
        for name, attribute in attributes.items():
            setattr(cls, name, attribute)


_like_pyflink()

PASSED_ON = {
    "funken.table.types": (
        "ArrayType BigIntType BinaryType BooleanType CharType DateType DayTimeIntervalType DecimalType DoubleType "
        "FloatType IntType IntegralType LocalZonedTimestampType MapType MultisetType NullType NumericType RawType "
        "RowField RowType SmallIntType TimestampType TinyIntType VarBinaryType VarCharType YearMonthIntervalType"
    ),
}
__all__ = ["DataType", "DataTypes", "TimeType"]
