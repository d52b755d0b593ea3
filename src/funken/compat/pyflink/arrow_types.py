"""Data types as Arrow has them, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funken.compat.pyflink.atomic_types import (
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    NullType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from funken.compat.pyflink.data_types import ArrayType, MapType, RowField, RowType, data_type_of
from funken.errors import InvalidProgram
from funken.table.types import InvalidType, logical_type


class NoDataType(InvalidType, TypeError):
    """An Arrow type without a data type, or the other way round."""


def to_arrow_type(data_type: DataType) -> Any:
    """Return the Arrow type of a data type; raises ``ValueError`` or ``TypeError`` for one that PyFlink does not convert.

    >>> str(to_arrow_type(ArrayType(TimeType(3))))
    'list<item: time32[ms]>'
    """
    import pyarrow as pa  # noqa: PLC0415 - not every program of tables needs it

    match data_type:
        case TimeType() | TimestampType() | LocalZonedTimestampType():
            unit = ("s", "ms", "us", "ns")[(data_type.precision + 2) // 3]
            if not isinstance(data_type, TimeType):
                return pa.timestamp(unit)
            return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        case MapType():
            return pa.map_(to_arrow_type(data_type.key_type), to_arrow_type(data_type.value_type))
        case ArrayType():
            _flat(data_type.element_type, InvalidProgram)
            return pa.list_(to_arrow_type(data_type.element_type))
        case RowType():
            for each in data_type:
                _flat(each.data_type, NoDataType)
            return pa.struct(list(create_arrow_schema(data_type.names, data_type.field_types())))
        case BinaryType():
            return pa.binary(data_type.length)
        case DecimalType():
            return pa.decimal128(data_type.precision, data_type.scale)
    found = _ARROW.get(type(data_type))
    if found is None:
        raise InvalidProgram(f"{data_type!r} has no Arrow type. Cast the column.")
    return pa.type_for_alias(found)


_ARROW: dict[type[DataType], str] = {
    BooleanType: "bool", TinyIntType: "int8", SmallIntType: "int16", IntType: "int32", BigIntType: "int64", NullType: "null",
    FloatType: "float32", DoubleType: "float64", CharType: "string", VarCharType: "string", VarBinaryType: "binary",
    DateType: "date32",
}  # fmt: skip


def _flat(part: DataType, error: type[Exception]) -> None:
    if isinstance(part, LocalZonedTimestampType | RowType):
        raise error(
            f"a part of type {part!r} has no Arrow type. Make it a column, and cast TIMESTAMP_LTZ to TIMESTAMP."
        )


def create_arrow_schema(field_names: Sequence[str], field_types: Sequence[DataType]) -> Any:
    """Return the Arrow schema of names and data types.

    >>> create_arrow_schema(["a"], [IntType(False)]).field(0).nullable
    False
    """
    import pyarrow as pa  # noqa: PLC0415 - not every program of tables needs it

    pairs = zip(field_names, field_types, strict=False)
    return pa.schema([pa.field(name, to_arrow_type(each), each._nullable) for name, each in pairs])


def from_arrow_type(arrow_type: Any, nullable: bool = True) -> DataType:
    """Return the data type of an Arrow type.

    >>> import pyarrow
    >>> from_arrow_type(pyarrow.list_(pyarrow.int32()), nullable=False)
    ArrayType(IntType(true), false)
    """
    import pyarrow as pa  # noqa: PLC0415 - not every program of tables needs it

    if pa.types.is_timestamp(arrow_type):  # its zone is not looked at
        arrow_type = pa.timestamp(arrow_type.unit)
    if pa.types.is_struct(arrow_type):
        if any(pa.types.is_struct(each.type) for each in arrow_type):
            raise NoDataType(f"{arrow_type} has a row in a row, which PyFlink does not convert. Flatten the column.")
        return RowType([RowField(each.name, from_arrow_type(each.type, each.nullable)) for each in arrow_type])
    if pa.types.is_map(arrow_type):
        return MapType(from_arrow_type(arrow_type.key_type), from_arrow_type(arrow_type.item_type), nullable)
    try:
        found: DataType = data_type_of(logical_type(arrow_type))
    except InvalidType as error:
        raise NoDataType(str(error)) from None
    return found.nullable() if nullable else found.not_null()


__all__ = ["create_arrow_schema", "from_arrow_type", "to_arrow_type"]
