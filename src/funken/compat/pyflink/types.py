"""Types and rows with PyFlink's names; ``DataTypes``, which its file formats are described with, is all of the Table API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from funken.compat.pyflink.refusals import refuse
from funken.types.info import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DecimalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from funken.types.row import Row, RowKind


class RowField(NamedTuple):
    """A field of a row; ``DataTypes.FIELD`` makes one."""

    name: str
    data_type: TypeInformation
    description: str | None = None


def _refused(name: str) -> Any:
    refuse(f"DataTypes.{name}()", "No file has values of this type; declare another one.")


class DataTypes:
    """Where the types of a table's columns come from; each is one of ``Types``, and all may be ``None``.

    >>> DataTypes.ROW([DataTypes.FIELD("item", DataTypes.STRING()), DataTypes.FIELD("n", DataTypes.BIGINT())])
    RowTypeInfo(item: String, n: Long)
    >>> DataTypes.MAP(DataTypes.STRING(False), DataTypes.ARRAY(DataTypes.DOUBLE()))
    MapTypeInfo<String, ListTypeInfo<Double>>
    >>> DataTypes.ROW([DataTypes.INT(), DataTypes.TIMESTAMP(3)])
    RowTypeInfo(Integer, TimestampTypeInfo)
    """

    @staticmethod
    def NULL() -> Any:
        """Raise ``NotInFunken``."""
        _refused("NULL")

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> TypeInformation:
        """Return the type of text."""
        return Types.STRING()

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> TypeInformation:
        """Return the type of text."""
        return Types.STRING()

    @staticmethod
    def STRING(nullable: bool = True) -> TypeInformation:
        """Return the type of text."""
        return Types.STRING()

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> TypeInformation:
        """Return the type of truth values."""
        return Types.BOOLEAN()

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> TypeInformation:
        """Return the type of bytes."""
        return Types.PRIMITIVE_ARRAY(Types.BYTE())

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> TypeInformation:
        """Return the type of bytes."""
        return Types.PRIMITIVE_ARRAY(Types.BYTE())

    @staticmethod
    def BYTES(nullable: bool = True) -> TypeInformation:
        """Return the type of bytes."""
        return Types.PRIMITIVE_ARRAY(Types.BYTE())

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> TypeInformation:
        """Return the type of decimal numbers; CSV rounds them to ``scale``, elsewhere they keep the digits that they have."""
        return DecimalTypeInfo(BasicType.BIG_DEC, precision, scale)

    @staticmethod
    def TINYINT(nullable: bool = True) -> TypeInformation:
        """Return the type of 8-bit integers."""
        return Types.BYTE()

    @staticmethod
    def SMALLINT(nullable: bool = True) -> TypeInformation:
        """Return the type of 16-bit integers."""
        return Types.SHORT()

    @staticmethod
    def INT(nullable: bool = True) -> TypeInformation:
        """Return the type of 32-bit integers."""
        return Types.INT()

    @staticmethod
    def BIGINT(nullable: bool = True) -> TypeInformation:
        """Return the type of 64-bit integers."""
        return Types.LONG()

    @staticmethod
    def FLOAT(nullable: bool = True) -> TypeInformation:
        """Return the type of 32-bit floating point numbers."""
        return Types.FLOAT()

    @staticmethod
    def DOUBLE(nullable: bool = True) -> TypeInformation:
        """Return the type of ``float``."""
        return Types.DOUBLE()

    @staticmethod
    def DATE(nullable: bool = True) -> TypeInformation:
        """Return the type of dates."""
        return Types.SQL_DATE()

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> TypeInformation:
        """Return the type of times of day."""
        return Types.SQL_TIME()

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> TypeInformation:
        """Return the type of ``datetime``."""
        return Types.SQL_TIMESTAMP()

    @staticmethod
    def TIMESTAMP_WITH_LOCAL_TIME_ZONE(precision: int = 6, nullable: bool = True) -> TypeInformation:
        """Return the type of ``Instant``."""
        return Types.INSTANT()

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> TypeInformation:
        """Return the type of ``Instant``."""
        return Types.INSTANT()

    @staticmethod
    def ARRAY(element_type: TypeInformation, nullable: bool = True) -> TypeInformation:
        """Return the type of lists."""
        return Types.LIST(element_type)

    @staticmethod
    def LIST_VIEW(element_type: TypeInformation) -> Any:
        """Raise ``NotInFunken``."""
        _refused("LIST_VIEW")

    @staticmethod
    def MAP(key_type: TypeInformation, value_type: TypeInformation, nullable: bool = True) -> TypeInformation:
        """Return the type of dicts."""
        return Types.MAP(key_type, value_type)

    @staticmethod
    def MAP_VIEW(key_type: TypeInformation, value_type: TypeInformation) -> Any:
        """Raise ``NotInFunken``."""
        _refused("MAP_VIEW")

    @staticmethod
    def MULTISET(element_type: TypeInformation, nullable: bool = True) -> TypeInformation:
        """Return the type of dicts that say how often each element is there."""
        return Types.MAP(element_type, Types.INT())

    @staticmethod
    def ROW(row_fields: Sequence[Any] = (), nullable: bool = True) -> TypeInformation:
        """Return the type of rows, of fields or of types alone."""
        if not all(isinstance(each, RowField) for each in row_fields):
            return Types.ROW(list(row_fields))
        return Types.ROW_NAMED([each.name for each in row_fields], [each.data_type for each in row_fields])

    @staticmethod
    def FIELD(name: str, data_type: TypeInformation, description: str | None = None) -> RowField:
        """Return a field of a row."""
        return RowField(name, data_type, description)

    @staticmethod
    def SECOND(precision: int = 6) -> Any:
        """Raise ``NotInFunken``."""
        _refused("SECOND")

    @staticmethod
    def MINUTE() -> Any:
        """Raise ``NotInFunken``."""
        _refused("MINUTE")

    @staticmethod
    def HOUR() -> Any:
        """Raise ``NotInFunken``."""
        _refused("HOUR")

    @staticmethod
    def DAY(precision: int = 2) -> Any:
        """Raise ``NotInFunken``."""
        _refused("DAY")

    @staticmethod
    def MONTH() -> Any:
        """Raise ``NotInFunken``."""
        _refused("MONTH")

    @staticmethod
    def YEAR(precision: int = 2) -> Any:
        """Raise ``NotInFunken``."""
        _refused("YEAR")

    @staticmethod
    def INTERVAL(upper_resolution: Any, lower_resolution: Any = None) -> Any:
        """Raise ``NotInFunken``."""
        _refused("INTERVAL")


__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DataTypes",
    "ListTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "Row",
    "RowKind",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
]
