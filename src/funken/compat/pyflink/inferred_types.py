"""Data types of values, of several values together, and of Arrow; checks of a value against a data type.

The names with an underscore are those that programs import from ``pyflink.table.types``.
"""

from __future__ import annotations

import array
import datetime
import decimal
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import count, islice
from typing import Any

from funken.compat.pyflink.atomic_types import (
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
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
    ZonedTimestampType,
)
from funken.compat.pyflink.data_types import (
    ArrayType,
    DataTypes,
    MapType,
    MultisetType,
    RowField,
    RowType,
    UserDefinedType,
    data_type_of,
)
from funken.errors import InvalidProgram
from funken.table.types import InvalidType, logical_type
from funken.types.row import Row


class NoDataType(InvalidType, TypeError):
    """A value, or several values together, without a data type."""


class WrongClass(InvalidProgram, TypeError):
    """A value of a class that its data type does not take."""


# ---- of values

_OF_CLASSES: dict[type, Callable[[], DataType]] = {
    bool: DataTypes.BOOLEAN,
    int: DataTypes.BIGINT,
    float: DataTypes.DOUBLE,
    str: DataTypes.STRING,
    bytearray: DataTypes.BYTES,
    decimal.Decimal: lambda: DataTypes.DECIMAL(38, 18),
    datetime.date: DataTypes.DATE,
    datetime.datetime: DataTypes.TIMESTAMP_LTZ,
    datetime.time: DataTypes.TIME,
}
_INTEGERS = ((8, TinyIntType), (16, SmallIntType), (32, IntType), (64, BigIntType))


def _integer_of(bits: int) -> DataType | None:
    return next((kind() for size, kind in _INTEGERS if bits <= size), None)


def _of_typecodes() -> dict[str, DataType]:
    """Return the types of an array's elements; an unsigned integer needs a bit more, one of 64 bits has no type."""
    found = {code: _integer_of(8 * array.array(code).itemsize + code.isupper()) for code in "bhilBHIL"}
    known: dict[str, DataType] = {code: each for code, each in found.items() if each is not None}
    return known | {"f": DataTypes.FLOAT(), "d": DataTypes.DOUBLE(), "u": DataTypes.CHAR(array.array("u").itemsize)}


_array_type_mappings = _of_typecodes()


def _infer_type(obj: Any) -> DataType:
    """Return the data type of a value.

    >>> _infer_type({"a": [1, None]})
    MapType(VarCharType(2147483647, false), ArrayType(BigIntType(true), true), true)
    """
    if obj is None:
        return NullType()
    if hasattr(obj, "__UDT__"):
        own: DataType = obj.__UDT__
        return own
    if type(obj) in _OF_CLASSES:
        return _OF_CLASSES[type(obj)]()
    if isinstance(obj, dict):
        pairs = ((key, value) for key, value in obj.items() if key is not None and value is not None)
        key, value = next(pairs, (None, None))
        return MapType(_infer_type(key) if key is None else _infer_type(key).not_null(), _infer_type(value))
    if isinstance(obj, list):
        return ArrayType(_infer_type(next((each for each in obj if each is not None), None)))
    if isinstance(obj, array.array) and obj.typecode in _array_type_mappings:
        return ArrayType(_array_type_mappings[obj.typecode].not_null())
    return _infer_schema(obj)


def _infer_schema(row: Any, names: Sequence[str] | None = None) -> RowType:
    """Return the ROW type of a row: a tuple, a ``Row``, a dict or an object.

    >>> _infer_schema((1, "a"), ["n"]).field_names()
    ['n', '_2']
    """
    fields: Iterable[tuple[str, Any]]
    if isinstance(row, dict):
        fields = sorted(row.items())
    elif isinstance(row, Row | tuple | list):
        given = [*(getattr(row, "_fields", None) or names or ())]
        more = (f"_{place}" for place in count(len(given) + 1))
        fields = zip([*given, *islice(more, max(0, len(row) - len(given)))], row, strict=False)
    elif hasattr(row, "__dict__"):
        fields = sorted(vars(row).items())
    else:
        raise NoDataType(f"{row!r} is {type(row).__name__}, which has no data type. Convert the value.")
    return RowType([RowField(name, _infer_type(value)) for name, value in fields])


def _infer_schema_from_data(elements: Sequence[Any], names: Sequence[str] | None = None) -> RowType:
    """Return the ROW type of rows together.

    >>> _infer_schema_from_data([(1, None), (2, "a")]).field_types()
    [BigIntType(true), VarCharType(2147483647, true)]
    """
    if not elements:
        raise InvalidProgram("there are no rows to infer a schema from. Pass a ROW type.")
    found: RowType = reduce(_merge_type, (_infer_schema(each, names) for each in elements))
    if _has_nulltype(found):
        raise InvalidProgram(f"some columns of {', '.join(found.names)} are NULL in every row. Pass a ROW type.")
    return found


def _has_nulltype(dt: DataType) -> bool:
    """Return True if a type, or one of its parts, is NULL.

    >>> _has_nulltype(DataTypes.ARRAY(DataTypes.NULL()))
    True
    """
    match dt:
        case RowType():
            return any(map(_has_nulltype, dt.field_types()))
        case ArrayType() | MultisetType():
            return _has_nulltype(dt.element_type)
        case MapType():
            return _has_nulltype(dt.key_type) or _has_nulltype(dt.value_type)
    return isinstance(dt, NullType)


def _merge_type(a: Any, b: Any, name: str | None = None) -> Any:
    """Return the type of values of two types, of which NULL fits to any.

    >>> _merge_type(DataTypes.ARRAY(DataTypes.NULL()), DataTypes.ARRAY(DataTypes.INT()))
    ArrayType(IntType(true), true)
    """
    if isinstance(a, NullType):
        return b
    if isinstance(b, NullType):
        return a
    where = f"{name}: " if name else ""
    if type(a) is not type(b):
        raise NoDataType(f"{where}values are of the types {a!r} and {b!r}, which have none in common. Pass a ROW type.")
    within = f" of {name}" if name else ""
    match a:
        case RowType():
            others = dict(zip(b.names, b.field_types(), strict=True))
            fields = [
                RowField(one.name, _merge_type(one.data_type, others.get(one.name), f"field {one.name}{within}"))
                for one in a
            ]
            return RowType([*fields, *(each for each in b if each.name not in a.names)])
        case ArrayType() | MultisetType():
            return type(a)(_merge_type(a.element_type, b.element_type, f"elements{within}"))
        case MapType():
            key = _merge_type(a.key_type, b.key_type, f"keys{within}")
            return MapType(key, _merge_type(a.value_type, b.value_type, f"values{within}"))
    return a


# ---- checks

_ACCEPTED: dict[type[DataType], tuple[type, ...]] = {
    BooleanType: (bool,),
    **dict.fromkeys((TinyIntType, SmallIntType, IntType, BigIntType), (int,)),
    **dict.fromkeys((FloatType, DoubleType), (float,)),
    DecimalType: (decimal.Decimal,),
    **dict.fromkeys((CharType, VarCharType), (str,)),
    **dict.fromkeys((BinaryType, VarBinaryType), (bytearray,)),
    DateType: (datetime.date, datetime.datetime),
    TimeType: (datetime.time,),
    **dict.fromkeys((TimestampType, LocalZonedTimestampType, ZonedTimestampType), (datetime.datetime,)),
    DayTimeIntervalType: (datetime.timedelta,),
    ArrayType: (list, tuple, array.array),
    MapType: (dict,),
}
_BITS: dict[type[DataType], int] = {TinyIntType: 8, SmallIntType: 16, IntType: 32}


def _create_type_verifier(data_type: DataType, name: str | None = None) -> Callable[[Any], None]:
    """Return a function that raises ``TypeError`` for a value of another class, and ``ValueError`` for one out of range.

    >>> _create_type_verifier(DataTypes.TINYINT(), "n")(128)
    Traceback (most recent call last):
    funken.errors.InvalidProgram: n: 128 does not fit TinyIntType(true). Convert the value, or declare another type.
    """
    known = type(data_type) in _ACCEPTED or isinstance(data_type, RowType | UserDefinedType)
    if not known:
        raise AssertionError(f"{data_type!r} has no check of its values; use a type that values of Python can have.")

    def verify(value: Any) -> None:
        _verify(data_type, value, f"{name}: " if name else "")

    return verify


def _verify(type_: DataType, value: Any, where: str) -> None:
    """Raise for a value, or one within it, that is none of a type."""
    if value is None:
        if not type_._nullable:
            raise InvalidProgram(
                f"{where}{type_!r} has no NULL, but got None. Pass a value, or declare the type nullable."
            )
        return
    if isinstance(type_, UserDefinedType):
        if getattr(value, "__UDT__", None) != type_:
            raise InvalidProgram(f"{where}{value!r} is no value of {type_!r}. Set __UDT__ of its class.")
        stored = type_.to_sql_type(value)
        _verify(type_.sql_type(), stored[1:] if isinstance(type_.sql_type(), RowType) else stored, where)
        return
    if isinstance(type_, RowType):
        for field, each in zip(type_, _row_values(type_, value, where), strict=True):
            _verify(field.data_type, each, f"{where}field {field.name}: ")
        return
    if type(value) not in _ACCEPTED[type(type_)]:
        raise WrongClass(f"{where}{type_!r} takes no {type(value).__name__}, but got {value!r}. Convert the value.")
    if not _fits(type_, value):
        raise InvalidProgram(f"{where}{value!r} does not fit {type_!r}. Convert the value, or declare another type.")
    if isinstance(type_, ArrayType):
        for each in value:
            _verify(type_.element_type, each, f"{where}an element: ")
    elif isinstance(type_, MapType):
        for key, each in value.items():
            _verify(type_.key_type, key, f"{where}a key: ")
            _verify(type_.value_type, each, f"{where}the value of {key!r}: ")


def _row_values(type_: RowType, row: Any, where: str) -> Sequence[Any]:
    if isinstance(row, Row):
        missing = [name for name in type_.names if name not in row._fields] if row._fields else []
        if missing:
            raise InvalidProgram(
                f"{where}{row!r} has no field {missing[0]!r}. Add the field, None where it has no value."
            )
        values: Sequence[Any] = [row[name] for name in type_.names] if row._fields else [*row][: len(type_)]
    elif isinstance(row, tuple | list):
        values = row
    else:
        by_name = row if isinstance(row, Mapping) else getattr(row, "__dict__", None)
        if by_name is None:
            raise WrongClass(f"{where}a row is a tuple, a dict, a Row or an object, but got {row!r}.")
        values = [by_name.get(name) for name in type_.names]
    if len(values) != len(type_):
        raise InvalidProgram(f"{where}a row has {len(values)} values, but the type {len(type_)} fields: {row!r}.")
    return values


def _fits(type_: DataType, value: Any) -> bool:
    """Return True if a value has the range or length of a type."""
    if type(type_) in _BITS:
        limit = 1 << _BITS[type(type_)] - 1
        return bool(-limit <= value < limit)
    if isinstance(type_, CharType | BinaryType):
        return len(value) == type_.length
    return not isinstance(type_, VarCharType | VarBinaryType) or len(value) <= type_.length


# ---- Arrow


def to_arrow_type(data_type: DataType) -> Any:
    """Return the Arrow type of a data type; raises ``ValueError`` or ``TypeError`` for one that PyFlink does not convert.

    >>> str(to_arrow_type(DataTypes.ARRAY(DataTypes.TIME(3))))
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

    >>> create_arrow_schema(["a"], [DataTypes.INT(False)]).field(0).nullable
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


__all__ = [
    "_array_type_mappings",
    "_create_type_verifier",
    "_has_nulltype",
    "_infer_schema",
    "_infer_schema_from_data",
    "_infer_type",
    "_merge_type",
    "create_arrow_schema",
    "from_arrow_type",
    "to_arrow_type",
]
