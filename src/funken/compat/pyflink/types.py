"""Types and rows with PyFlink's names, and the types of the Table API for file formats."""

from __future__ import annotations

from typing import Any

from funken.compat.pyflink.adoption import refuse
from funken.table.schema import engine_type
from funken.table.types import LogicalType
from funken.types.info import (
    BasicType,
    DecimalTypeInfo,
    Types,
)


def info_of(data_type: Any) -> Any:
    """Return the type of records for a type of the Table API's ``DataTypes``; anything else as it is.

    >>> from funken.table.types import DataTypes
    >>> info_of(DataTypes.ROW([DataTypes.FIELD("item", DataTypes.STRING()), DataTypes.FIELD("n", DataTypes.BIGINT())]))
    RowTypeInfo(item: String, n: Long)
    >>> info_of(DataTypes.MAP(DataTypes.STRING(False), DataTypes.ARRAY(DataTypes.DOUBLE())))
    MapTypeInfo<String, ListTypeInfo<Double>>
    """
    data_type = engine_type(data_type)
    kind = type(data_type).__name__
    if kind in _OF_DATA_TYPE:
        return _OF_DATA_TYPE[kind]()
    if kind == "DecimalType":
        return DecimalTypeInfo(BasicType.BIG_DEC, data_type.precision, data_type.scale)
    if kind == "ArrayType":
        return Types.LIST(info_of(data_type.element))
    if kind == "MapType":
        return Types.MAP(info_of(data_type.key), info_of(data_type.value))
    if kind == "MultisetType":
        return Types.MAP(info_of(data_type.element), Types.INT())
    if kind == "RowType":
        return Types.ROW_NAMED([one.name for one in data_type.fields], [info_of(one.type) for one in data_type.fields])
    if isinstance(data_type, LogicalType):
        refuse(f"DataTypes for {data_type}", "No file has values of this type; declare another one.")
    return data_type


_OF_DATA_TYPE = {
    "CharType": Types.STRING,
    "VarCharType": Types.STRING,
    "BooleanType": Types.BOOLEAN,
    "BinaryType": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "VarBinaryType": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "TinyIntType": Types.BYTE,
    "SmallIntType": Types.SHORT,
    "IntType": Types.INT,
    "BigIntType": Types.LONG,
    "FloatType": Types.FLOAT,
    "DoubleType": Types.DOUBLE,
    "DateType": Types.SQL_DATE,
    "TimeOfDayType": Types.SQL_TIME,
    "TimestampType": Types.SQL_TIMESTAMP,
    "LocalZonedTimestampType": Types.INSTANT,
}


PASSED_ON = {
    "funken.types.info": (
        "BasicArrayTypeInfo BasicType BasicTypeInfo ListTypeInfo MapTypeInfo ObjectArrayTypeInfo PickledBytesTypeInfo "
        "PrimitiveArrayTypeInfo RowTypeInfo SqlTimeTypeInfo TupleTypeInfo TypeInformation Types"
    ),
    "funken.types.row": "Row RowKind",
}
