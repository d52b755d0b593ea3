"""The classes of data types with PyFlink's names, for ``isinstance``; ``DataTypes`` makes the types."""

from __future__ import annotations

from funken.table.types import (
    LogicalType,
    TimeOfDayType,
)

DataType = LogicalType
TimeType = TimeOfDayType

PASSED_ON = {
    "funken.table.types": (
        "ArrayType BigIntType BinaryType BooleanType CharType DateType DayTimeIntervalType DecimalType DoubleType "
        "FloatType IntType IntegralType LocalZonedTimestampType MapType MultisetType NullType NumericType RawType "
        "RowField RowType SmallIntType TimestampType TinyIntType VarBinaryType VarCharType YearMonthIntervalType"
    ),
}
__all__ = ["DataType", "TimeType"]
