"""``DataType``: the types of columns, with Arrow's names."""

from __future__ import annotations

import array
import datetime
import types
import typing
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from funken.table.schema import as_type, engine_type
from funken.table.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataTypes,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    LogicalType,
    MapType,
    NullType,
    RowType,
    SmallIntType,
    TimeOfDayType,
    TimestampType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from funken.table.values import type_of_annotation
from funken.types.row import Row

_FieldsLike = Mapping[str, "DataType"] | Sequence[tuple[str, "DataType"]]


class DataType:
    """The type of a column: ``DataType.int64()``, ``DataType.list(DataType.string())``.

    >>> DataType.struct({"name": DataType.string(), "age": DataType.int32().not_null()})
    DataType(ROW<`name` STRING, `age` INT NOT NULL>)
    >>> DataType.int64() == DataType.of("BIGINT") == DataType.of(int)
    True
    """

    def __init__(self, logical_type: LogicalType) -> None:
        self.logical_type = logical_type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataType) and self.logical_type == other.logical_type

    def __hash__(self) -> int:
        return hash(self.logical_type)

    def __repr__(self) -> str:
        return f"DataType({self.logical_type})"

    def _to_table_data_type(self) -> LogicalType:
        return self.logical_type

    @classmethod
    def of(cls, given: Any) -> DataType:
        """Return a type by its SQL, by a type of Python or Arrow, or a ``TypedDict``; raises ``TypeError`` for anything else."""
        if isinstance(given, DataType):
            return given
        if isinstance(engine_type(given), str | LogicalType):
            return cls(as_type(given))
        found = type_of_hint(given)
        return cls(as_type(given) if found is None else found)

    @classmethod
    def null(cls) -> DataType:
        """Return the type of NULL."""
        return cls(DataTypes.NULL())

    @classmethod
    def bool(cls) -> DataType:
        """Return BOOLEAN."""
        return cls(DataTypes.BOOLEAN())

    @classmethod
    def int8(cls) -> DataType:
        """Return TINYINT."""
        return cls(DataTypes.TINYINT())

    @classmethod
    def int16(cls) -> DataType:
        """Return SMALLINT."""
        return cls(DataTypes.SMALLINT())

    @classmethod
    def int32(cls) -> DataType:
        """Return INT."""
        return cls(DataTypes.INT())

    @classmethod
    def int64(cls) -> DataType:
        """Return BIGINT."""
        return cls(DataTypes.BIGINT())

    @classmethod
    def float32(cls) -> DataType:
        """Return FLOAT."""
        return cls(DataTypes.FLOAT())

    @classmethod
    def float64(cls) -> DataType:
        """Return DOUBLE."""
        return cls(DataTypes.DOUBLE())

    @classmethod
    def decimal(cls, precision: int, scale: int = 0) -> DataType:
        """Return DECIMAL of some digits, of which ``scale`` are behind the point."""
        return cls(DataTypes.DECIMAL(precision, scale))

    @classmethod
    def string(cls) -> DataType:
        """Return STRING."""
        return cls(DataTypes.STRING())

    @classmethod
    def fixed_size_string(cls, length: int) -> DataType:
        """Return CHAR of a length."""
        return cls(DataTypes.CHAR(length))

    @classmethod
    def binary(cls) -> DataType:
        """Return BYTES."""
        return cls(DataTypes.BYTES())

    @classmethod
    def fixed_size_binary(cls, length: int) -> DataType:
        """Return BINARY of a length."""
        return cls(DataTypes.BINARY(length))

    @classmethod
    def date(cls) -> DataType:
        """Return DATE."""
        return cls(DataTypes.DATE())

    @classmethod
    def time(cls, precision: int = 0) -> DataType:
        """Return TIME with some digits of a second."""
        return cls(DataTypes.TIME(precision))

    @classmethod
    def timestamp(cls, precision: int = 6) -> DataType:
        """Return TIMESTAMP, which has no time zone, with some digits of a second."""
        return cls(DataTypes.TIMESTAMP(precision))

    @classmethod
    def timestamp_ltz(cls, precision: int = 6) -> DataType:
        """Return TIMESTAMP_LTZ, an instant, with some digits of a second."""
        return cls(DataTypes.TIMESTAMP_LTZ(precision))

    @classmethod
    def list(cls, dtype: DataType) -> DataType:
        """Return ARRAY of a type."""
        return cls(DataTypes.ARRAY(dtype.logical_type))

    @classmethod
    def map(cls, key_type: DataType, value_type: DataType) -> DataType:
        """Return MAP."""
        return cls(DataTypes.MAP(key_type.logical_type, value_type.logical_type))

    @classmethod
    def struct(cls, fields: _FieldsLike) -> DataType:
        """Return ROW of named fields, in their order."""
        pairs = fields.items() if isinstance(fields, Mapping) else fields
        return cls(RowType.of(*((name, dtype.logical_type) for name, dtype in pairs)))

    def not_null(self) -> DataType:
        """Return the type without NULL."""
        if isinstance(self.logical_type, NullType):
            raise ValueError("the type NULL cannot be NOT NULL, since NULL is its only value.")
        return DataType(self.logical_type.not_null())

    def nullable(self) -> DataType:
        """Return the type with NULL."""
        return DataType(self.logical_type.nullable())


_OF_LITERALS: dict[type[LogicalType], tuple[type, ...]] = {
    BooleanType: (bool,),
    TinyIntType: (int,),
    SmallIntType: (int,),
    IntType: (int,),
    BigIntType: (int,),
    FloatType: (int, float),
    DoubleType: (int, float),
    DecimalType: (int, Decimal),
    CharType: (str,),
    VarCharType: (str,),
    BinaryType: (bytes, bytearray),
    VarBinaryType: (bytes, bytearray),
    DateType: (datetime.date,),
    TimeOfDayType: (datetime.time,),
    TimestampType: (datetime.datetime,),
    LocalZonedTimestampType: (datetime.datetime,),
}


def literal_of(value: Any, type_: LogicalType) -> Any:
    """Return a constant that its type can hold without a conversion; raises ``ValueError`` for another.

    >>> literal_of([1, None], DataType.list(DataType.int16()).logical_type)
    [1, None]
    """
    if not _holds(type_, value):
        raise ValueError(
            f"data type {type_} does not support a value literal of class {type(value).__name__}: {value!r}. Name the type of "
            "the value, and cast() to the other one."
        )
    return value


def _holds(type_: LogicalType, value: Any) -> bool:
    if value is None:
        return True
    if isinstance(type_, ArrayType):
        return isinstance(value, list | tuple | array.array) and all(_holds(type_.element, one) for one in value)
    if isinstance(type_, MapType):
        return isinstance(value, Mapping) and all(
            _holds(type_.key, key) and _holds(type_.value, one) for key, one in value.items()
        )
    if isinstance(type_, RowType):
        parts = list(value) if isinstance(value, tuple | list | Row) else []
        return len(parts) == len(type_.fields) and all(map(_holds, [field.type for field in type_.fields], parts))
    kinds = _OF_LITERALS.get(type(type_))
    if kinds is None:
        return True
    if isinstance(value, bool) or (isinstance(value, datetime.datetime) and kinds == (datetime.date,)):
        return kinds == (bool,)
    return isinstance(value, kinds)


def type_of_hint(hint: Any) -> LogicalType | None:
    """Return the type of an annotation, ``TypedDict``s and named tuples included; ``None`` if it says nothing.

    >>> Token = typing.TypedDict("Token", {"word": str, "places": list[int]})
    >>> print(type_of_hint(Token))
    ROW<`word` STRING, `places` ARRAY<BIGINT>>
    """
    if typing.is_typeddict(hint) or hasattr(hint, "_fields"):
        fields = typing.get_type_hints(hint)
        found = {name: type_of_hint(one) for name, one in fields.items()}
        return RowType.of(*((name, one if one is not None else DataTypes.STRING()) for name, one in found.items()))
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        some = [one for one in args if one is not type(None)]
        return type_of_hint(some[0]) if len(some) == 1 else None
    if origin is list and args:
        element = type_of_hint(args[0])
        return None if element is None else DataTypes.ARRAY(element)
    if origin is dict and len(args) == 2:
        key, value = map(type_of_hint, args)
        return None if key is None or value is None else DataTypes.MAP(key, value)
    return type_of_annotation(hint)
