"""The effect of a declared type on a value: narrow it, make it a row or a tuple, or refuse it.

Numbers wrap and round as those of a fixed width do. Where Flink's coders would fail, ``ValueDoesNotFit`` is raised;
where they leave something out (fields beyond the declared ones, high bits of a number), so does this, and says so once. A
value that fits comes back as it is, and is never changed in place.
"""

from __future__ import annotations

import datetime
import decimal
import operator
import struct
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeAlias

from funken.errors import ValueDoesNotFit
from funken.types.info import (
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    OfElements,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TimeType,
    TupleTypeInfo,
    TypeInformation,
)
from funken.types.row import Instant, Row, RowKind, make_row

Convert = Callable[[Any], Any]
Notice = Callable[[str], object]
"""Gets the first case of a field or of bits that are left out, as a sentence."""

_BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}
_FLOAT = struct.Struct("f")
_NULLABLE = {BasicType.STRING, BasicType.BIG_INT, BasicType.BIG_DEC, BasicType.INSTANT}


def converter(type_info: TypeInformation, notice: Notice | None = None) -> Convert:
    """Return the function that converts a value to a declared type; ``notice`` gets the first value that loses a part.

    >>> from funken.types.info import Types
    >>> converter(Types.SHORT())(43878), converter(Types.FLOAT())(0.1)
    (-21658, 0.10000000149011612)
    >>> converter(Types.ROW([Types.INT(), Types.STRING()]))((1, "hi"))
    Row(f0=1, f1='hi')
    """
    match type_info:
        case BasicTypeInfo(BasicType.BYTE | BasicType.SHORT | BasicType.INT | BasicType.LONG as kind):
            return _integer(_BITS[kind], type_info, notice)
        case BasicTypeInfo(kind):
            return _or_none(_BASIC[kind](type_info)) if kind in _NULLABLE else _BASIC[kind](type_info)
        case SqlTimeTypeInfo(kind):
            return _or_none(_temporal(kind, type_info))
        case TupleTypeInfo(fields):
            return _tuple([converter(one, notice) for one in fields], type_info, notice)
        case RowTypeInfo(fields):
            return _row([_or_none(converter(one, notice)) for one in fields], type_info, notice)
        case MapTypeInfo(keys, values):
            return _map(converter(keys, notice), _or_none(converter(values, notice)), type_info)
        case PrimitiveArrayTypeInfo(BasicTypeInfo(BasicType.BYTE) as element):
            return _bytes(_list(converter(element), type_info))
        case PrimitiveArrayTypeInfo(element):
            return _list(converter(element), type_info)
        case OfElements(element):
            whole = _list(_or_none(converter(element, notice)), type_info)
            return _or_none(whole) if isinstance(type_info, ListTypeInfo) else whole
        case PickledBytesTypeInfo():
            return _same
        case _:
            return _same


def _same(value: Any) -> Any:
    return value


def _misfit(value: Any, type_info: TypeInformation, why: str = "") -> ValueDoesNotFit:
    text = repr(value)
    shown = text if len(text) <= 100 else text[:97] + "..."
    return ValueDoesNotFit(
        f"{shown} does not fit the declared type {type_info!r}{why and ': ' + why}. Return a value of that type, or "
        "declare another type (none at all keeps any Python object)."
    )


def _too_many(value: Any, type_info: TypeInformation, width: int) -> str:
    return (
        f"{value!r:.100} has {len(value)} fields, and its declared type {type_info!r} has {width}: the fields beyond are left "
        "out. Declare their types too, or return them no more."
    )


def _not_named(value: Any, type_info: TypeInformation, names: Iterable[str]) -> str:
    return (
        f"{value!r:.100} has fields that its declared type {type_info!r} lacks: {', '.join(map(repr, names))}. They are left "
        "out, and fields that are not there are None. Give both the same names."
    )


def _or_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _integer(bits: int, type_info: TypeInformation, notice: Notice | None) -> Convert:
    half, mask = 1 << (bits - 1), (1 << bits) - 1
    low, high = -half, half - 1

    def convert(value: Any) -> int:
        nonlocal notice
        if type(value) is int and low <= value <= high:
            return value
        try:
            number = int(operator.index(value))
        except TypeError:
            raise _misfit(value, type_info, "it is no whole number") from None
        wrapped = ((number + half) & mask) - half
        if notice is not None and wrapped != number:
            notice(
                f"{number} has more bits than its declared type {type_info!r} and becomes {wrapped}. Declare a wider type, such "
                "as Types.LONG() or Types.BIG_INT()."
            )
            notice = None
        return wrapped

    return convert


def _boolean(type_info: TypeInformation) -> Convert:
    def convert(value: Any) -> bool:
        if value is True or value is False:
            return value
        try:
            return operator.index(value) != 0
        except TypeError:
            raise _misfit(value, type_info) from None

    return convert


def _double(type_info: TypeInformation) -> Convert:
    def convert(value: Any) -> float:
        if type(value) is float:
            return value
        if isinstance(value, str | bytes | bytearray):
            raise _misfit(value, type_info, "it is no number")
        try:
            return float(value)
        except (TypeError, ValueError):
            raise _misfit(value, type_info, "it is no number") from None

    return convert


def _float(type_info: TypeInformation) -> Convert:
    as_double, pack, unpack = _double(type_info), _FLOAT.pack, _FLOAT.unpack

    def convert(value: Any) -> float:
        number: float = as_double(value)
        try:
            rounded: float = unpack(pack(number))[0]
        except OverflowError:
            return float("inf") if number > 0 else float("-inf")
        return rounded

    return convert


def _instance_of(kind: type) -> Callable[[TypeInformation], Convert]:
    def make(type_info: TypeInformation) -> Convert:
        def convert(value: Any) -> Any:
            if type(value) is not kind and not isinstance(value, kind):
                raise _misfit(value, type_info, f"it is no {kind.__name__}")
            return value

        return convert

    return make


def _big_integer(type_info: TypeInformation) -> Convert:
    def convert(value: Any) -> int:
        try:
            return operator.index(value)
        except TypeError:
            raise _misfit(value, type_info, "it is no whole number") from None

    return convert


def _decimal(type_info: TypeInformation) -> Convert:
    def convert(value: Any) -> decimal.Decimal:
        if type(value) is decimal.Decimal:
            return value
        try:
            return decimal.Decimal(str(value))
        except decimal.InvalidOperation:
            raise _misfit(value, type_info, "it is no decimal number") from None

    return convert


_BASIC: dict[BasicType, Callable[[TypeInformation], Convert]] = {
    BasicType.STRING: _instance_of(str),
    BasicType.CHAR: _instance_of(str),
    BasicType.BOOLEAN: _boolean,
    BasicType.FLOAT: _float,
    BasicType.DOUBLE: _double,
    BasicType.BIG_INT: _big_integer,
    BasicType.BIG_DEC: _decimal,
    BasicType.INSTANT: _instance_of(Instant),
}


def _temporal(kind: TimeType, type_info: TypeInformation) -> Convert:
    def date(value: Any) -> datetime.date:
        if not isinstance(value, datetime.date):
            raise _misfit(value, type_info, "it is no date")
        return value.date() if isinstance(value, datetime.datetime) else value

    def time(value: Any) -> datetime.time:
        if not isinstance(value, datetime.time):
            raise _misfit(value, type_info, "it is no time of day")
        return value.replace(microsecond=0, tzinfo=None)

    def timestamp(value: Any) -> datetime.datetime:
        if not isinstance(value, datetime.datetime):
            raise _misfit(value, type_info, "it is no datetime")
        return value.replace(tzinfo=None)

    return {TimeType.DATE: date, TimeType.TIME: time, TimeType.TIMESTAMP: timestamp}[kind]


def _list(convert: Convert, type_info: TypeInformation) -> Convert:
    def convert_list(value: Any) -> list[Any]:
        if isinstance(value, str) or not hasattr(value, "__iter__"):
            raise _misfit(value, type_info, "it is no list")
        return [convert(item) for item in value]

    return convert_list


def _bytes(convert_list: Convert) -> Convert:
    """Bytes are bytes, as PyFlink has it, and not the list of their numbers."""

    def convert(value: Any) -> Any:
        return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else convert_list(value)

    return convert


def _map(key: Convert, item: Convert, type_info: TypeInformation) -> Convert:
    def convert(value: Any) -> dict[Any, Any]:
        if not hasattr(value, "items"):
            raise _misfit(value, type_info, "it is no dict")
        return {key(k): item(v) for k, v in value.items()}

    return convert


@lru_cache(maxsize=256)
def _fields_maker(checks: tuple[str, ...], shape: str) -> Callable[..., Any]:
    """Generate a converter of so many fields to a list or tuple: with tests for fields kept as they are, or none."""
    names = [f"v{number}" for number in range(len(checks))]
    made = [
        f"{name} if {check.replace('v', name)} else f{number}({name})" if check else f"f{number}({name})"
        for number, (name, check) in enumerate(zip(names, checks, strict=True))
    ]
    functions = ", ".join(f"f{number}" for number in range(len(checks)))
    # Hot: the test in the loop costs a third of a call; checks are the texts of ``_kept_if``, and nothing else.
    maker: Callable[..., Any] = eval(f"lambda {functions}: lambda {', '.join(names)}: {shape.format(', '.join(made))}")
    return maker


def _kept_if(type_info: TypeInformation) -> str:
    """Return a test that a field ``v`` of a type is certainly kept as it is; nothing if the converter decides."""
    match type_info:
        case BasicTypeInfo(BasicType.STRING | BasicType.CHAR):
            return "type(v) is str"
        case BasicTypeInfo(BasicType.DOUBLE):
            return "type(v) is float"
        case BasicTypeInfo(BasicType.BOOLEAN):
            return "type(v) is bool"
        case BasicTypeInfo(kind) if kind in _BITS:
            half = 1 << (_BITS[kind] - 1)
            return f"type(v) is int and {-half} <= v < {half}"
    return ""


def _all_fields(fields: list[Convert], types: tuple[TypeInformation, ...], shape: str) -> Callable[..., Any]:
    """Return a converter of exactly the fields of a row or tuple."""
    made: Callable[..., Any] = _fields_maker(tuple(map(_kept_if, types)), shape)(*fields)
    return made


def _tuple(fields: list[Convert], type_info: TupleTypeInfo, notice: Notice | None) -> Convert:
    width = len(fields)

    def convert(value: Any) -> tuple[Any, ...]:
        nonlocal notice
        if type(value) is not tuple and not isinstance(value, tuple | list | Row):
            raise _misfit(value, type_info, "it is no tuple")
        if len(value) < width:
            raise _misfit(value, type_info, f"it has {len(value)} of {width} fields")
        if notice is not None and len(value) > width:
            notice(_too_many(value, type_info, width))
            notice = None
        return tuple([field(item) for field, item in zip(fields, value)])  # noqa: B905 - the loop is hot

    made = _all_fields(fields, type_info.field_types, "({},)" if fields else "()")

    def convert_tuple(value: Any) -> tuple[Any, ...]:
        if type(value) is tuple and len(value) == width:
            converted: tuple[Any, ...] = made(*value)
            return converted
        return convert(value)

    return convert_tuple


def _row(fields: list[Convert], type_info: RowTypeInfo, notice: Notice | None) -> Convert:
    width, names = len(fields), type_info.get_field_names()
    known = set(names)

    def convert(value: Any) -> Row:
        nonlocal notice
        kind = RowKind.INSERT
        if type(value) is tuple:
            items: Any = value
        elif isinstance(value, Row):
            kind = value.get_row_kind()
            try:
                items = value.get_fields_by_names(names)
            except KeyError as error:
                raise _misfit(value, type_info, str(error.args[0])) from None
        elif isinstance(value, tuple | list):
            items = value
        elif isinstance(value, dict):
            if notice is not None and not value.keys() <= known:
                notice(_not_named(value, type_info, [name for name in value if name not in known]))
                notice = None
            items = [value.get(name) for name in names]
        elif hasattr(value, "__dict__"):
            items = [vars(value).get(name) for name in names]
        else:
            raise _misfit(value, type_info, "it is no row")
        if len(items) < width:
            raise _misfit(value, type_info, f"it has {len(items)} of {width} fields")
        if notice is not None and len(items) > width:
            notice(_too_many(value, type_info, width))
            notice = None
        return make_row(names, [field(item) for field, item in zip(fields, items)], kind)  # noqa: B905 - as above

    made = _all_fields(fields, type_info.field_types, "[{}]")

    def convert_row(value: Any) -> Row:
        # Hot: what most values are; everything else goes the long way.
        cls = type(value)
        if cls is tuple:
            if len(value) == width:
                return make_row(names, made(*value))
        elif cls is Row:
            values = value._values
            if len(values) == width and ((own := value._fields) is None or own == names):
                return make_row(names, made(*values), value._kind)
        return convert(value)

    return convert_row


# ---- Values of Arrow as Python's: a map is a dict, wherever it is within a column.


ArrowTable: TypeAlias = Any
"""A ``pyarrow.Table``. PyArrow has no types, so a strict checker would report every method that names its class."""
ArrowSchema: TypeAlias = Any
"""A ``pyarrow.Schema``."""


def parquet_file(source: Any) -> Any:
    """Open a Parquet file.

    Timestamps of the type INT96 (Hive, Impala, Spark) are read in microseconds, which reach from year 1 to 9999 as Python's do.
    Arrow's nanoseconds end in 1677 and 2262, and those of other years become others without an error.

    >>> import datetime, io
    >>> import pyarrow as pa
    >>> from pyarrow import parquet
    >>> file, never = io.BytesIO(), pa.array([datetime.datetime(9999, 12, 31)])
    >>> parquet.write_table(pa.table({"until": never}), file, use_deprecated_int96_timestamps=True, store_schema=False)
    >>> parquet_file(file).read().to_pylist()
    [{'until': datetime.datetime(9999, 12, 31, 0, 0)}]
    """
    from pyarrow import parquet  # noqa: PLC0415 - who reads Parquet loads it

    return parquet.ParquetFile(source, coerce_int96_timestamp_unit="us")


def in_micros(array: Any) -> Any:
    """Return an array whose times are in microseconds, as Python's are, if it has nanoseconds and none is finer than that.

    >>> import pyarrow as pa
    >>> in_micros(pa.array([1000], pa.timestamp("ns"))).type, in_micros(pa.array([1], pa.timestamp("ns"))).type
    (TimestampType(timestamp[us]), TimestampType(timestamp[ns]))
    """
    import pyarrow as pa  # noqa: PLC0415 - who has an array has loaded it

    if not pa.types.is_timestamp(array.type) or array.type.unit != "ns":
        return array
    try:
        return array.cast(pa.timestamp("us", array.type.tz))
    except pa.ArrowInvalid:
        return array


def python_values(array: Any) -> list[Any]:
    """Return the values of an array or chunked array; where a map has a key twice, the last value counts.

    >>> import pyarrow as pa
    >>> python_values(pa.array([[("to", 1), ("be", 2)], None], pa.map_(pa.string(), pa.int64())))
    [{'to': 1, 'be': 2}, None]
    >>> python_values(pa.array([1, None]))
    [1, None]
    """
    values: list[Any] = in_micros(array).to_pylist()
    convert = _conversion(array.type)
    return values if convert is None else [convert(value) for value in values]


def python_rows(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table or batch as dicts.

    >>> import pyarrow as pa
    >>> counts = pa.array([[("to", 1)]], pa.map_(pa.string(), pa.int64()))
    >>> python_rows(pa.table({"n": [7], "counts": counts}))
    [{'n': 7, 'counts': {'to': 1}}]
    """
    columns = [in_micros(column) for column in table.columns]
    if any(new is not old for new, old in zip(columns, table.columns, strict=True)):
        table = type(table).from_arrays(columns, names=table.schema.names)
    rows: list[dict[str, Any]] = table.to_pylist()
    for field in table.schema:
        convert = _conversion(field.type)
        if convert is not None:
            for row in rows:
                row[field.name] = convert(row[field.name])
    return rows


@lru_cache(1000)
def _conversion(kind: Any) -> Callable[[Any], Any] | None:
    """Return a converter to dicts of the maps in a value of a type, ``None`` if there are none."""
    import pyarrow as pa  # noqa: PLC0415 - who has an array has loaded it

    if pa.types.is_map(kind):
        return _of_map(_conversion(kind.key_type) or _same, _conversion(kind.item_type) or _same)
    if pa.types.is_struct(kind):
        made = {field.name: convert for field in kind if (convert := _conversion(field.type)) is not None}
        return _of_struct(made) if made else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        convert = _conversion(kind.value_type)
        return None if convert is None else _of_list(convert)
    return None


def _of_map(key: Callable[[Any], Any], item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda pairs: None if pairs is None else {key(name): item(value) for name, value in pairs}


def _of_list(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: None if values is None else [convert(value) for value in values]


def _of_struct(made: dict[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if value is not None:
            for name, of_field in made.items():
                value[name] = of_field(value[name])
        return value

    return convert
