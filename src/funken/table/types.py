"""Types of columns: those of ``funken.expr.sql.types``, and ``DataTypes``, which makes them by PyFlink's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funken.expr.sql.types import (
    BYTES,
    INTEGERS,
    MAX_LENGTH,
    MAX_PRECISION,
    PROCTIME,
    ROWTIME,
    STRING,
    ArrayType,
    BigIntType,
    BinaryType,
    BitmapType,
    BooleanType,
    CharType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DescriptorType,
    DoubleType,
    FloatType,
    IntegralType,
    IntType,
    InvalidType,
    LocalZonedTimestampType,
    LogicalType,
    MapType,
    MultisetType,
    NullType,
    NumericType,
    PreciseTimeType,
    RawType,
    RowField,
    RowType,
    SizedType,
    SmallIntType,
    StructuredType,
    SymbolType,
    TimeOfDayType,
    TimestampType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
    VariantType,
    YearMonthIntervalType,
    adjusted_decimal,
    arrow_schema,
    arrow_type,
    common_type,
    decimal_of,
    is_bytes,
    is_numeric,
    is_text,
    is_timestamp,
    logical_type,
    parse_type,
    quoted,
)

__all__ = [
    "BYTES",
    "INTEGERS",
    "MAX_LENGTH",
    "MAX_PRECISION",
    "PROCTIME",
    "ROWTIME",
    "STRING",
    "ArrayType",
    "BigIntType",
    "BinaryType",
    "BitmapType",
    "BooleanType",
    "CharType",
    "DataTypes",
    "DateType",
    "DayTimeIntervalType",
    "DecimalType",
    "DescriptorType",
    "DoubleType",
    "FloatType",
    "IntType",
    "IntegralType",
    "IntervalField",
    "InvalidType",
    "LocalZonedTimestampType",
    "LogicalType",
    "MapType",
    "MultisetType",
    "NullType",
    "NumericType",
    "PreciseTimeType",
    "RawType",
    "RowField",
    "RowType",
    "SizedType",
    "SmallIntType",
    "StructuredType",
    "SymbolType",
    "TimeOfDayType",
    "TimestampType",
    "TinyIntType",
    "VarBinaryType",
    "VarCharType",
    "VariantType",
    "YearMonthIntervalType",
    "adjusted_decimal",
    "arrow_schema",
    "arrow_type",
    "common_type",
    "decimal_of",
    "is_bytes",
    "is_numeric",
    "is_text",
    "is_timestamp",
    "logical_type",
    "parse_type",
    "quoted",
]


def _type(given: Any, factory: str) -> Any:
    """Return a type; raises ``TypeError`` for anything else."""
    if not isinstance(given, LogicalType):
        raise TypeError(f"DataTypes.{factory}() takes types such as DataTypes.INT(), but got {given!r}.")
    return given


def _length(given: Any, factory: str) -> int:
    """Return the length of a type; raises ``InvalidType`` unless it is a number from 1."""
    if not isinstance(given, int) or given < 1:
        raise InvalidType(f"DataTypes.{factory}() takes a length from 1 to {MAX_LENGTH}, but got {given!r}.")
    return given


class IntervalField:
    """A field of an interval, with its digits: ``DataTypes.DAY(2)``."""

    def __init__(self, name: str, precision: int | None = None) -> None:
        self.name = name
        self.precision = precision


class DataTypes:
    """The types of columns, by PyFlink's names as the Table API has them.

    >>> DataTypes.ROW([DataTypes.FIELD("item", DataTypes.STRING()), DataTypes.FIELD("n", DataTypes.BIGINT(False))])
    ROW<`item` STRING, `n` BIGINT NOT NULL>
    >>> DataTypes.INTERVAL(DataTypes.DAY(2), DataTypes.SECOND(3))
    INTERVAL DAY(2) TO SECOND(3)
    """

    @staticmethod
    def NULL() -> NullType:
        """Return the type of NULL."""
        return NullType()

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> CharType:
        """Return the type CHAR."""
        return CharType(_length(length, "CHAR"), is_nullable=nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> VarCharType:
        """Return the type VARCHAR."""
        return VarCharType(_length(length, "VARCHAR"), is_nullable=nullable)

    @staticmethod
    def STRING(nullable: bool = True) -> VarCharType:
        """Return the type STRING."""
        return VarCharType(MAX_LENGTH, is_nullable=nullable)

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> BooleanType:
        """Return the type BOOLEAN."""
        return BooleanType(is_nullable=nullable)

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> BinaryType:
        """Return the type BINARY."""
        return BinaryType(_length(length, "BINARY"), is_nullable=nullable)

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> VarBinaryType:
        """Return the type VARBINARY."""
        return VarBinaryType(_length(length, "VARBINARY"), is_nullable=nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> VarBinaryType:
        """Return the type BYTES."""
        return VarBinaryType(MAX_LENGTH, is_nullable=nullable)

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> DecimalType:
        """Return the type DECIMAL."""
        return DecimalType(precision, scale, is_nullable=nullable)

    @staticmethod
    def TINYINT(nullable: bool = True) -> TinyIntType:
        """Return the type TINYINT."""
        return TinyIntType(is_nullable=nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> SmallIntType:
        """Return the type SMALLINT."""
        return SmallIntType(is_nullable=nullable)

    @staticmethod
    def INT(nullable: bool = True) -> IntType:
        """Return the type INT."""
        return IntType(is_nullable=nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> BigIntType:
        """Return the type BIGINT."""
        return BigIntType(is_nullable=nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> FloatType:
        """Return the type FLOAT."""
        return FloatType(is_nullable=nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> DoubleType:
        """Return the type DOUBLE."""
        return DoubleType(is_nullable=nullable)

    @staticmethod
    def DATE(nullable: bool = True) -> DateType:
        """Return the type DATE."""
        return DateType(is_nullable=nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> TimeOfDayType:
        """Return the type TIME."""
        return TimeOfDayType(precision, is_nullable=nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> TimestampType:
        """Return the type TIMESTAMP."""
        return TimestampType(precision, is_nullable=nullable)

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> LocalZonedTimestampType:
        """Return the type TIMESTAMP_LTZ."""
        return LocalZonedTimestampType(precision, is_nullable=nullable)

    TIMESTAMP_WITH_LOCAL_TIME_ZONE = TIMESTAMP_LTZ

    @staticmethod
    def VARIANT(nullable: bool = True) -> VariantType:
        """Return the type VARIANT."""
        return VariantType(is_nullable=nullable)

    @staticmethod
    def BITMAP(nullable: bool = True) -> BitmapType:
        """Return the type BITMAP."""
        return BitmapType(is_nullable=nullable)

    @staticmethod
    def ARRAY(element_type: LogicalType, nullable: bool = True) -> ArrayType:
        """Return the type ARRAY."""
        return ArrayType(_type(element_type, "ARRAY"), is_nullable=nullable)

    @staticmethod
    def LIST_VIEW(element_type: LogicalType) -> ArrayType:
        """Return the type LIST_VIEW."""
        return ArrayType(_type(element_type, "LIST_VIEW"))

    @staticmethod
    def MAP(key_type: LogicalType, value_type: LogicalType, nullable: bool = True) -> MapType:
        """Return the type MAP."""
        return MapType(_type(key_type, "MAP"), _type(value_type, "MAP"), is_nullable=nullable)

    @staticmethod
    def MAP_VIEW(key_type: LogicalType, value_type: LogicalType) -> MapType:
        """Return the type MAP_VIEW."""
        return MapType(_type(key_type, "MAP_VIEW"), _type(value_type, "MAP_VIEW"))

    @staticmethod
    def MULTISET(element_type: LogicalType, nullable: bool = True) -> MultisetType:
        """Return the type MULTISET."""
        return MultisetType(_type(element_type, "MULTISET"), is_nullable=nullable)

    @staticmethod
    def FIELD(name: str, data_type: LogicalType, description: str | None = None) -> RowField:
        """Return a field of a row."""
        if not isinstance(name, str):
            raise TypeError(f"DataTypes.FIELD() takes the name of a field first, but got {name!r}.")
        return RowField(name, _type(data_type, "FIELD"), description)

    @staticmethod
    def ROW(row_fields: Sequence[RowField | LogicalType] = (), nullable: bool = True) -> RowType:
        """Return the type ROW."""
        if isinstance(row_fields, LogicalType | RowField | str):
            raise TypeError(f"DataTypes.ROW() takes a list of fields, but got {row_fields!r}. Write [{row_fields!r}].")
        fields = (
            each if isinstance(each, RowField) else RowField(f"f{position}", _type(each, "ROW"))
            for position, each in enumerate(row_fields)
        )
        return RowType(tuple(fields), is_nullable=nullable)

    @staticmethod
    def SECOND(precision: int = 6) -> IntervalField:
        """Return the unit SECOND of an interval."""
        return IntervalField("SECOND", precision)

    @staticmethod
    def MINUTE() -> IntervalField:
        """Return the unit MINUTE of an interval."""
        return IntervalField("MINUTE")

    @staticmethod
    def HOUR() -> IntervalField:
        """Return the unit HOUR of an interval."""
        return IntervalField("HOUR")

    @staticmethod
    def DAY(precision: int = 2) -> IntervalField:
        """Return the unit DAY of an interval."""
        return IntervalField("DAY", precision)

    @staticmethod
    def MONTH() -> IntervalField:
        """Return the unit MONTH of an interval."""
        return IntervalField("MONTH")

    @staticmethod
    def YEAR(precision: int = 2) -> IntervalField:
        """Return the unit YEAR of an interval."""
        return IntervalField("YEAR", precision)

    @staticmethod
    def INTERVAL(upper_resolution: IntervalField, lower_resolution: IntervalField | None = None) -> LogicalType:
        """Return the type of intervals between two units."""
        units = [each for each in (upper_resolution, lower_resolution) if each is not None]
        unlike = len({getattr(each, "name", "") in ("YEAR", "MONTH") for each in units}) > 1
        if unlike or any(not isinstance(each, IntervalField) for each in units):
            raise InvalidType(
                "DataTypes.INTERVAL() takes YEAR and MONTH, or units from DAY to SECOND, the larger one first: "
                "DataTypes.INTERVAL(DataTypes.DAY(), DataTypes.SECOND())."
            )
        texts = [each.name if each.precision is None else f"{each.name}({each.precision})" for each in units]
        return parse_type("INTERVAL " + " TO ".join(texts))
