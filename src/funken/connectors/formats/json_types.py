"""Declared types in JSON: values of documents to values of the type and back, as in Flink's row schemas.

A whole number may be text, a decimal has all its digits, times are ISO 8601, bytes are base64. What a type has no place for is
refused with ``ValueError``: 2147483648 or 1.5 as ``INT``, a time with another offset than UTC as ``SQL_TIMESTAMP``. So is a value
that would be read as another one. ``None`` fits every type.

``record_types.py`` asks for the conversion of single values, and calls it for those within lists, maps and records.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import importlib
import json
import math
import operator
import types
import typing
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Annotated, Any

from funken import extras
from funken.connectors.formats.record_types import Leaves
from funken.types import text as parsing
from funken.types.info import (
    BasicType,
    BasicTypeInfo,
    MapTypeInfo,
    OfElements,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TimeType,
    TupleTypeInfo,
    TypeInformation,
)
from funken.types.row import Instant
from funken.types.text import shown, written

Convert = Callable[[Any], Any]

_BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}
_NAMES = {
    BasicType.STRING: "text", BasicType.CHAR: "text", BasicType.BOOLEAN: "boolean", BasicType.FLOAT: "single",
    BasicType.DOUBLE: "double", BasicType.BIG_INT: "whole", BasicType.BIG_DEC: "decimal", BasicType.INSTANT: "instant",
}  # fmt: skip
_TIMES = {TimeType.DATE: "date", TimeType.TIME: "time", TimeType.TIMESTAMP: "timestamp"}
_PYTHON = {
    str: "text", bool: "boolean", int: "whole", float: "double", decimal.Decimal: "decimal", bytes: "binary",
    datetime.datetime: "datetime", datetime.date: "date", datetime.time: "time", Instant: "instant",
}  # fmt: skip
_ARROW = (
    ("is_string", "text"), ("is_large_string", "text"), ("is_boolean", "boolean"), ("is_float32", "single"),
    ("is_float64", "double"), ("is_decimal", "decimal"), ("is_date", "date"), ("is_time", "time"), ("is_binary", "binary"),
)  # fmt: skip
_MOST_DIGITS = 4000
_WHOLE = ("int8", "int16", "int32", "int64", "whole")
_WITHOUT = ("text", "boolean", "double", *_WHOLE)
"""Single values that documents have as they are."""


def single_of(declared: Any) -> str:
    """Return the name of a declared single type; nothing if it is none, or nothing is known of it.

    >>> from funken import Types
    >>> single_of(Types.INT()), single_of(int | None), single_of(Types.PRIMITIVE_ARRAY(Types.BYTE())), single_of(list[int])
    ('int32', 'whole', 'binary', '')
    """
    match declared:
        case BasicTypeInfo(kind):
            return f"int{_BITS[kind]}" if kind in _BITS else _NAMES[kind]
        case SqlTimeTypeInfo(kind):
            return _TIMES[kind]
        case PrimitiveArrayTypeInfo(BasicTypeInfo(BasicType.BYTE)):
            return "binary"
        case type():
            return _PYTHON.get(declared, "")
    if typing.get_origin(declared) in (types.UnionType, typing.Union):
        there = [each for each in typing.get_args(declared) if each is not type(None)]
        return single_of(there[0]) if len(there) == 1 else ""
    if not isinstance(declared, TypeInformation) and type(declared).__module__.startswith("pyarrow"):
        return _single_of_arrow(declared)
    return ""


def _single_of_arrow(kind: Any) -> str:
    of = extras.load("pyarrow").types
    if of.is_timestamp(kind):
        return "zoned" if kind.tz is not None else "timestamp"
    if of.is_integer(kind):
        return str(kind) if of.is_signed_integer(kind) else "whole"
    return next((name for test, name in _ARROW if getattr(of, test)(kind)), "")


def has_decimals(declared: Any) -> bool:
    """Return True if a type, or one within it, has digits that a ``float`` would lose."""
    if single_of(declared) == "decimal":
        return True
    match declared:
        case OfElements(element):
            return has_decimals(element)
        case MapTypeInfo(_, values):
            return has_decimals(values)
        case RowTypeInfo(fields) | TupleTypeInfo(fields):
            return any(map(has_decimals, fields))
    return not isinstance(declared, TypeInformation) and "Decimal" in _names_within(declared, ())


def _names_within(declared: Any, around: tuple[Any, ...]) -> set[str]:
    """Return the names of the classes in annotations, and in those of the records within."""
    if isinstance(declared, type) and not typing.get_args(declared):
        if declared in around or not (is_dataclass(declared) or hasattr(declared, "_fields")):
            return {declared.__name__}
        try:
            hints = typing.get_type_hints(declared)
        except (NameError, TypeError):
            return set()
        return set().union(*(_names_within(each, (*around, declared)) for each in hints.values()))
    if isinstance(declared, TypeInformation):
        return {"Decimal"} if has_decimals(declared) else set()
    return set().union(*(_names_within(each, around) for each in typing.get_args(declared)))


# ---- documents are parsed


def parsed_exactly(message: bytes | str) -> Any:
    """Parse a document whose numbers with a point are decimals, with all their digits; raises ``ValueError``.

    >>> parsed_exactly(b'{"price": 1234567890123456789.10}')
    {'price': Decimal('1234567890123456789.10')}
    """
    text = message if isinstance(message, str) else message.decode()
    return json.loads(text.removeprefix("\ufeff"), parse_float=decimal.Decimal)


def without_decimals(value: Any) -> Any:
    """Return the result of ``json.loads`` for a part of a document that was parsed exactly."""
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, list):
        return [without_decimals(each) for each in value]
    if isinstance(value, dict):
        return {key: without_decimals(each) for key, each in value.items()}
    return value


class Moment(int):
    """A number of a document that is a date or time, and its text; types of numbers take the number."""

    text: str

    def __new__(cls, number: int, text: str) -> Moment:
        """Make one."""
        made = super().__new__(cls, number)
        made.text = text
        return made


# ---- what a value of a document becomes


def reader_of(declared: Any) -> Convert | None:
    """Return a converter from documents to a declared type, ``None`` apart; ``None``: it is no single value.

    >>> from funken import Types
    >>> reader_of(Types.INT())("5"), reader_of(Types.STRING())(5), reader_of(Types.BIG_DEC())("1.50")
    (5, '5', Decimal('1.50'))
    >>> reader_of(Types.INT())(2**31)
    Traceback (most recent call last):
    ...
    ValueError: 2147483648 is beyond whole numbers of 32 bits
    """
    return _READERS.get(single_of(declared))


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    if isinstance(value, decimal.Decimal):
        return str(value)
    return json.dumps(without_decimals(value))


def _boolean(value: Any) -> bool:
    if type(value) is bool:
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in ("true", "false"):
        raise ValueError(f"{shown(value)} is neither true nor false")
    return word == "true"


def _whole(bits: int | None) -> Convert:
    of_text = parsing.whole_number(bits)
    low, high = (0, 0) if bits is None else parsing.limits(bits)

    def convert(value: Any) -> int:
        if isinstance(value, str):
            return of_text(value)
        if isinstance(value, Moment) or (isinstance(value, float | decimal.Decimal) and _is_whole(value)):
            value = int(value)
        if type(value) is not int:
            raise ValueError(f"{shown(value)} is no whole number")
        if bits is not None and not low <= value <= high:
            raise ValueError(f"{value} is beyond whole numbers of {bits} bits")
        return value

    return convert


def _is_whole(value: float | decimal.Decimal) -> bool:
    if isinstance(value, decimal.Decimal) and value.is_finite() and value.adjusted() > _MOST_DIGITS:
        return False  # the number would take that much memory
    return math.isfinite(value) and value == int(value)


def _double(value: Any) -> float:
    if isinstance(value, str):
        return parsing.real_number(value)
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        raise ValueError(f"{shown(value)} is no number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number) and not isinstance(value, float):
        raise ValueError(f"{shown(value)} is beyond numbers of 64 bits")
    return number


def _decimal(value: Any) -> decimal.Decimal:
    if isinstance(value, str):
        return parsing.decimal_number(value)
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal) or not math.isfinite(value):
        raise ValueError(f"{shown(value)} is no decimal number")
    return value if isinstance(value, decimal.Decimal) else decimal.Decimal(str(value))


def _of_text(parse: Callable[[str], Any]) -> Convert:
    def convert(value: Any) -> Any:
        text = value.text if isinstance(value, Moment) else value
        if not isinstance(text, str):
            raise ValueError(f"{shown(value)} is no text")
        return parse(text)

    return convert


def zoned(text: str) -> datetime.datetime:
    """Return a time in UTC; one without an offset is in UTC."""
    value = parsing.datetime_of(text)
    return value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value.astimezone(datetime.UTC)


_READERS: dict[str, Convert] = {
    "text": _text, "boolean": _boolean, "double": _double, "single": lambda value: parsing.single(_double(value)),
    "int8": _whole(8), "int16": _whole(16), "int32": _whole(32), "int64": _whole(64), "whole": _whole(None),
    "decimal": _decimal, "date": _of_text(parsing.date_of), "time": _of_text(parsing.time_of),
    "timestamp": _of_text(parsing.timestamp_of), "datetime": _of_text(parsing.datetime_of), "zoned": _of_text(zoned),
    "instant": _of_text(parsing.instant_of), "binary": _of_text(lambda text: base64.b64decode(text, validate=True)),
}  # fmt: skip


# ---- what is written of a value


def writer_of(declared: Any) -> Convert | None:
    """Return a converter from a declared type to documents, ``None`` apart; ``None``: it is no single value.

    Raises ``ValueError`` for a value that would be read as another one.

    >>> import datetime
    >>> from funken import Types
    >>> writer_of(Types.SQL_TIMESTAMP())(datetime.datetime(2024, 3, 10, 2, 30)), writer_of(Types.FLOAT())(0.10000000149011612)
    ('2024-03-10T02:30:00Z', 0.1)
    """
    return _WRITERS.get(single_of(declared))


def _instance(kind: type | tuple[type, ...], name: str, show: Convert, but: type | tuple[type, ...] = ()) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, kind) or isinstance(value, but):
            raise ValueError(f"{shown(value)} is no {name}")
        return show(value)

    return convert


def _same(value: Any) -> Any:
    return value


def _whole_written(bits: int | None) -> Convert:
    low, high = (0, 0) if bits is None else parsing.limits(bits)

    def convert(value: Any) -> int:
        if type(value) is int and (bits is None or low <= value <= high):
            return value
        try:
            number = None if isinstance(value, bool) else operator.index(value)
        except TypeError:
            number = None
        if number is None or (bits is not None and not low <= number <= high):
            raise ValueError(f"{shown(value)} is no whole number{f' of {bits} bits' if bits else ''}")
        return number

    return convert


def real_written(value: Any) -> Any:
    """Return a number as JSON has it; infinities and NaN as the text that Java writes."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{shown(value)} is no number")
    return value if math.isfinite(value) else _DOUBLE_TEXT(float(value))


_DOUBLE_TEXT = written(BasicTypeInfo(BasicType.DOUBLE))
_FLOAT_TEXT = written(BasicTypeInfo(BasicType.FLOAT))


def _single_written(value: Any) -> Any:
    number = real_written(value)
    return number if isinstance(number, str) else float(_FLOAT_TEXT(parsing.single(float(number))))


def _decimal_written(value: Any) -> decimal.Decimal:
    if isinstance(value, bool) or not isinstance(value, decimal.Decimal | int) or not math.isfinite(value):
        raise ValueError(f"{shown(value)} is no decimal number")
    return decimal.Decimal(value)


def _shortest(text: str) -> str:
    return text.rstrip("0") if "." in text else text


def _time_written(value: datetime.time) -> str:
    if value.tzinfo is not None:
        raise ValueError(f"{value!r} has a zone, and times of day have none; leave it out")
    return f"{_shortest(value.isoformat())}Z"


def _instant_written(value: Any) -> str:
    return parsing.instant_text(value if isinstance(value, Instant) else parsing.instant_of_datetime(value))


_WRITERS: dict[str, Convert] = {
    "text": _instance(str, "text", _same), "boolean": _instance(bool, "truth value", _same),
    "double": real_written, "single": _single_written,
    "int8": _whole_written(8), "int16": _whole_written(16), "int32": _whole_written(32), "int64": _whole_written(64),
    "whole": _whole_written(None), "decimal": _decimal_written,
    "date": _instance(datetime.date, "date", datetime.date.isoformat, but=datetime.datetime),
    "time": _instance(datetime.time, "time of day", _time_written),
    "timestamp": _instance(
        datetime.datetime, "datetime", lambda value: f"{_shortest(parsing.without_zone(value).isoformat())}Z"
    ),
    "datetime": _instance(datetime.datetime, "datetime", datetime.datetime.isoformat),
    "zoned": _instance(datetime.datetime, "datetime", _instant_written),
    "instant": _instance((Instant, datetime.datetime), "Instant", _instant_written),
    "binary": _instance((bytes, bytearray, memoryview), "bytes", lambda value: base64.b64encode(value).decode()),
}  # fmt: skip


class JsonLeaves(Leaves):
    """The conversions of single values, as ``record_types.py`` asks for them."""

    is_strict = True

    def into(self, declared: Any) -> Convert | None:
        """Return a converter from documents to the type; of an unknown type, one that undoes exact parsing."""
        return reader_of(declared)

    def out(self, declared: Any) -> Convert | None:
        """Return a converter from the type to documents."""
        return writer_of(declared)

    def rest(self, value: Any) -> Any:
        """Return a value of which nothing is declared."""
        return without_decimals(value)

    def key(self, value: Any) -> str:
        """Return a key as documents have it."""
        if isinstance(value, str | decimal.Decimal):
            return str(value)
        return json.dumps(value)


# ---- what the parser checks by itself


class NeedsConversionError(Exception):
    """Values of a type are not in documents as they are."""


def strict_type(declared: Any, of_record: Callable[[Any], Any] | None = None) -> Any:
    """Return, as a type of msgspec, the values of documents that are those of a declared type as they are, or ``None``.

    ``of_record`` returns that of records. Raises ``NeedsConversionError`` for types whose values are others.
    """
    single = single_of(declared)
    if single:
        return scalar_type(single) | None
    match declared:
        case OfElements(element):
            return list[strict_type(element, of_record)] | None  # type: ignore[misc]
        case MapTypeInfo(keys, values) if single_of(keys) == "text":
            return dict[str, strict_type(values, of_record)] | None  # type: ignore[misc]
        case RowTypeInfo() | TupleTypeInfo() if of_record is not None:
            return of_record(declared)
        case RowTypeInfo() | TupleTypeInfo() | MapTypeInfo():
            raise NeedsConversionError
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin is list:
        return list[strict_type(arguments[0], of_record)] | None  # type: ignore[misc]
    if origin is dict and single_of(arguments[0]) == "text":
        return dict[str, strict_type(arguments[1], of_record)] | None  # type: ignore[misc]
    if origin in (types.UnionType, typing.Union):
        there = [each for each in arguments if each is not type(None)]
        return strict_type(there[0], of_record) if len(there) == 1 else Any
    is_record = isinstance(declared, type) and (is_dataclass(declared) or hasattr(declared, "_fields"))
    if is_record and of_record is not None:
        return of_record(declared)
    if is_record or origin is dict or type(declared).__module__.startswith("pyarrow"):
        raise NeedsConversionError
    return Any


def scalar_type(single: str) -> Any:
    """Return the type of msgspec of a single value; raises ``NeedsConversionError`` if it is not in documents as it is."""
    if single not in _WITHOUT:
        raise NeedsConversionError
    if single in _WHOLE[:-1]:
        low, high = parsing.limits(int(single.removeprefix("int")))
        return Annotated[int, importlib.import_module("msgspec").Meta(ge=low, le=high)]
    return {"text": str, "boolean": bool, "double": float, "whole": int}[single]
