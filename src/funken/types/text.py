"""Records as text, in Flink's form, which follows from the declared type.

Without a declaration a record is written as Python writes it. ``print()`` and the sinks differ in one place only: a row
is ``+I[a,1]`` when printed, its values as Python writes them, and ``+I[a, 1]`` in a file, its values as Java does.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import functools
import math
import numbers
import operator
import re
import struct
import typing
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from funken import extras
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.types.info import (
    BasicType,
    BasicTypeInfo,
    DecimalTypeInfo,
    JavaTimeTypeInfo,
    MapTypeInfo,
    OfElements,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TimeType,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from funken.types.row import Instant

Show = Callable[[Any], str]

_FLOAT = struct.Struct("f")


def plain_text(value: Any) -> str:
    """Return the text of a record without a declared type.

    >>> plain_text(("a", 1)), plain_text("a"), plain_text(None)
    ("('a', 1)", 'a', 'null')
    """
    return "null" if value is None else str(value)


def printed(type_info: TypeInformation | None) -> Show:
    """Return the writer of ``print()`` for records of a type.

    >>> from funken.types import Row, Types
    >>> printed(Types.TUPLE([Types.STRING(), Types.BOOLEAN()]))(("a", True))
    '(a,true)'
    >>> printed(Types.ROW([Types.STRING(), Types.BOOLEAN()]))(Row("a", True))
    '+I[a,True]'
    """
    if type_info is None:
        return plain_text
    if isinstance(type_info, RowTypeInfo):
        return lambda row: f"{row.get_row_kind()}[{','.join(map(str, row))}]"
    return written(type_info)


def written(type_info: TypeInformation | None) -> Show:
    """Return the writer of sinks for records of a type as text.

    >>> from funken.types import Row, Types
    >>> written(Types.ROW([Types.FLOAT(), Types.LIST(Types.INT()), Types.STRING()]))(Row(0.10000000149011612, [1], None))
    '+I[0.1, [1], null]'
    """
    match type_info:
        case BasicTypeInfo(BasicType.FLOAT):
            show: Show = _float
        case BasicTypeInfo(BasicType.DOUBLE):
            show = _double
        case SqlTimeTypeInfo(TimeType.TIMESTAMP):
            show = _timestamp
        case JavaTimeTypeInfo():
            show = java_time
        case TupleTypeInfo(fields):
            show = _joined([written(field) for field in fields], ",")
        case RowTypeInfo(fields):
            inner = _joined([written(field) for field in fields], ", ")
            show = lambda row: f"{row.get_row_kind()}[{inner(row)[1:-1]}]"  # noqa: E731
        case OfElements(element):
            one = written(element)
            show = lambda values: f"[{', '.join(map(one, values))}]"  # noqa: E731
        case MapTypeInfo(keys, values):
            key, item = written(keys), written(values)
            show = lambda entries: f"{{{', '.join(f'{key(k)}={item(v)}' for k, v in entries.items())}}}"  # noqa: E731
        case _:
            show = _java
    return lambda value: "null" if value is None else show(value)


def _joined(fields: list[Show], separator: str) -> Show:
    return lambda values: f"({separator.join(show(v) for show, v in zip(fields, values, strict=False))})"


def _java(value: Any) -> str:
    """Write a value whose Python type says enough."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray):
        return f"[{', '.join(str(byte - 256 if byte > 127 else byte) for byte in value)}]"
    if isinstance(value, Instant):
        return value.to_datetime().isoformat().replace("+00:00", "Z")
    return str(value)


def java_time(value: Any) -> str:
    """Write a date, time or interval as ``java.time`` does.

    >>> java_time(datetime.datetime(2024, 2, 3, 4, 5)), java_time(datetime.time(4, 5, 6))
    ('2024-02-03T04:05', '04:05:06')
    """
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            return f"{value.date().isoformat()}T{_clock(value.time())}"
        utc = value.astimezone(datetime.UTC)
        return f"{utc:%Y-%m-%dT%H:%M:%S}{_fraction(utc.microsecond)}Z"
    if isinstance(value, datetime.time):
        return _clock(value)
    if isinstance(value, datetime.timedelta):
        return _duration(value)
    return str(value)


def _clock(time: datetime.time) -> str:
    """Return ``LocalTime.toString()``: seconds only if there are any, the fraction in groups of three digits."""
    if time.microsecond or time.second:
        return f"{time:%H:%M:%S}{_fraction(time.microsecond)}"
    return f"{time:%H:%M}"


def _fraction(microsecond: int) -> str:
    if not microsecond:
        return ""
    return f".{microsecond // 1000:03d}" if microsecond % 1000 == 0 else f".{microsecond:06d}"


def _duration(value: datetime.timedelta) -> str:
    """Return ``Duration.toString()``.

    >>> _duration(datetime.timedelta(days=1, seconds=61)), _duration(datetime.timedelta(0))
    ('PT24H1M1S', 'PT0S')
    """
    micros = value // datetime.timedelta(microseconds=1)
    sign = -1 if micros < 0 else 1
    seconds, rest = divmod(abs(micros), 1_000_000)
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    parts = f"{sign * hours}H" if hours else ""
    parts += f"{sign * minutes}M" if minutes else ""
    if seconds or rest or not parts:
        fraction = f".{rest:06d}".rstrip("0") if rest else ""
        parts += f"{'-' if sign < 0 and (seconds or rest) else ''}{seconds}{fraction}S"
    return f"PT{parts}"


def _timestamp(value: datetime.datetime) -> str:
    fraction = f"{value.microsecond:06d}".rstrip("0") or "0"
    return f"{value:%Y-%m-%d %H:%M:%S}.{fraction}"


def _double(value: float) -> str:
    """Write a number as ``Double.toString`` does.

    >>> _double(1e10), _double(0.001), _double(1.0), _double(1.5e-7)
    ('1.0E10', '0.001', '1.0', '1.5E-7')
    """
    return _scientific(value, repr(float(value)))


def _float(value: float) -> str:
    """Write a number as ``Float.toString`` does: as few digits as tell it from its neighbours."""
    for digits in range(1, 10):
        short = f"{value:.{digits}g}"
        if _same_float(float(short), value):
            return _scientific(value, short)
    return _scientific(value, repr(value))


def _same_float(a: float, b: float) -> bool:
    try:
        return _FLOAT.pack(a) == _FLOAT.pack(b)
    except OverflowError:
        return False


def _scientific(value: float, digits: str) -> str:
    if math.isnan(value):
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    number = Decimal(digits).normalize()
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = f"{number:f}"
        return text if "." in text else f"{text}.0"
    sign, figures, exponent = number.as_tuple()
    head, tail = str(figures[0]), "".join(map(str, figures[1:])) or "0"
    assert isinstance(exponent, int)
    return f"{'-' if sign else ''}{head}.{tail}E{exponent + len(figures) - 1}"


# ---- Values out of text and back, for formats that are text (CSV, JSON): the forms that Java's parsers take, which
# Flink calls.
#
# Python's constructors take more: ``12_34``, ``nan``, ``inf``, spaces of other alphabets. A number that its type
# has no place for is refused, and so is a time with an offset where the type has none. All raise ``ValueError``.


_BLANKS = "".join(map(chr, range(33)))
"""The characters that Java's ``trim`` takes off."""
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}
_WHOLE = re.compile(r"[+-]?\d+")
_REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NO_NUMBERS = {
    f"{sign}{name}": float(f"{sign}{name}") for sign in ("", "+", "-") for name in ("NaN", "Infinity")
}  # fmt: skip
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_SINGLE = struct.Struct("<f")
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)", re.ASCII)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NANOS = 9


def shown(value: Any) -> str:
    """Return a value as errors show it."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def limits(bits: int, signed: bool = True) -> tuple[int, int]:
    """Return the lowest and the highest whole number of so many bits.

    >>> limits(8), limits(8, signed=False)
    ((-128, 127), (0, 255))
    """
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def whole_number(bits: int | None, signed: bool = True) -> Callable[[str], int]:
    """Return a converter of text to whole numbers; of so many bits (``None``: any).

    >>> whole_number(8)(" +12 ")
    12
    >>> whole_number(8)("128")
    Traceback (most recent call last):
    ...
    ValueError: '128' is beyond whole numbers of 8 bits
    >>> whole_number(None)("12_34")
    Traceback (most recent call last):
    ...
    ValueError: '12_34' is no whole number
    """
    low, high = (0, 0) if bits is None else limits(bits, signed)

    def parse(text: str) -> int:
        # Hot: of ASCII without underscores, Python takes what Java takes; the expression costs four times as much.
        if text.isascii() and "_" not in text:
            try:
                value = int(text)
            except ValueError:
                pass
            else:
                if bits is None or low <= value <= high:
                    return value
        number = text.strip(_BLANKS)
        if _WHOLE.fullmatch(number) is None:
            raise ValueError(f"{shown(text)} is no whole number")
        value = int(number)
        if bits is not None and not low <= value <= high:
            raise ValueError(f"{shown(text)} is beyond whole numbers of {bits} bits")
        return value

    return parse


def real_number(text: str) -> float:
    """Return the number of 64 bits that is nearest.

    >>> real_number(" -1.5e3 "), real_number("-Infinity"), real_number("NaN")
    (-1500.0, -inf, nan)
    >>> real_number("inf")
    Traceback (most recent call last):
    ...
    ValueError: 'inf' is no number
    """
    # Hot: of ASCII without underscores, Python takes the finite numbers that Java takes.
    if text.isascii() and "_" not in text:
        try:
            value = float(text)
        except ValueError:
            pass
        else:
            if math.isfinite(value):
                return value
    number = text.strip(_BLANKS)
    if _REAL.fullmatch(number) is None:
        if number in _NO_NUMBERS:
            return _NO_NUMBERS[number]
        raise ValueError(f"{shown(text)} is no number")
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"{shown(text)} is beyond numbers of 64 bits")
    return value


def single(value: float) -> float:
    """Return the number of 32 bits that is nearest, as ``FLOAT`` has it.

    >>> single(0.1), single(1e39)
    Traceback (most recent call last):
    ...
    ValueError: 1e+39 is beyond numbers of 32 bits
    """
    try:
        rounded: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
    except OverflowError:
        raise ValueError(f"{value!r} is beyond numbers of 32 bits") from None
    return rounded


def single_number(text: str) -> float:
    """Return the number of 32 bits that is nearest.

    >>> single_number("0.1")
    0.10000000149011612
    """
    return single(real_number(text))


def boolean(text: str) -> bool:
    """Return the meaning of ``true``, ``false``, ``1`` and ``0``, in any case.

    >>> boolean("TRUE"), boolean("0")
    (True, False)
    """
    found = _BOOLEANS.get(text.strip(_BLANKS).lower())
    if found is None:
        raise ValueError(f"{shown(text)} is neither true nor false")
    return found


def decimal_number(text: str) -> decimal.Decimal:
    """Return a decimal with all its digits.

    >>> decimal_number("1234567890123456789.10")
    Decimal('1234567890123456789.10')
    """
    number = text.strip(_BLANKS)
    if _DECIMAL.fullmatch(number) is None:
        raise ValueError(f"{shown(text)} is no decimal number")
    try:
        return decimal.Decimal(number)
    except decimal.InvalidOperation:
        raise ValueError(f"{shown(text)} is beyond decimal numbers") from None


def decimal_text(value: decimal.Decimal) -> str:
    """Return a decimal as text; Java's have no NaN and no infinity.

    >>> decimal_text(decimal.Decimal("1.50"))
    '1.50'
    """
    if not value.is_finite():
        raise ValueError(f"{value!r} is no number, and decimals are")
    return str(value)


def date_of(text: str) -> datetime.date:
    """Return a date.

    >>> date_of("2026-11-22")
    datetime.date(2026, 11, 22)
    """
    return datetime.date.fromisoformat(text)


def time_of(text: str) -> datetime.time:
    """Return a time of day; one in UTC loses that, one of another offset is refused.

    >>> time_of("10:30:00Z")
    datetime.time(10, 30)
    """
    value = datetime.time.fromisoformat(_in_micros(text))
    if value.tzinfo is not None:
        if value.utcoffset():
            raise ValueError(f"{shown(text)} has an offset, and times of day have none")
        value = value.replace(tzinfo=None)
    return value


def timestamp_of(text: str) -> datetime.datetime:
    """Return a time without a zone; one in UTC loses that, one of another offset is refused.

    >>> timestamp_of("2024-03-10T02:30:00Z"), timestamp_of("2024-03-10 02:30:00")
    (datetime.datetime(2024, 3, 10, 2, 30), datetime.datetime(2024, 3, 10, 2, 30))
    >>> timestamp_of("2024-03-10T02:30:00+01:00")
    Traceback (most recent call last):
    ...
    ValueError: '2024-03-10T02:30:00+01:00' has an offset, and timestamps have none; declare Types.INSTANT()
    """
    value = datetime.datetime.fromisoformat(_in_micros(text))
    if value.tzinfo is not None:
        if value.utcoffset():
            raise ValueError(f"{shown(text)} has an offset, and timestamps have none; declare Types.INSTANT()")
        value = value.replace(tzinfo=None)
    return value


def datetime_of(text: str) -> datetime.datetime:
    """Return a ``datetime`` with the zone that the text has, or without.

    >>> datetime_of("2024-03-10T02:30:00+01:00").isoformat()
    '2024-03-10T02:30:00+01:00'
    """
    return datetime.datetime.fromisoformat(_in_micros(text))


_FINER = re.compile(r"[.,]\d{6}(\d+)", re.ASCII)


def _in_micros(text: str) -> str:
    """Return a text of a time; raise ``ValueError`` for digits that Python would cut off."""
    finer = _FINER.search(text)
    if finer is not None and finer[1].strip("0"):
        raise ValueError(f"{shown(text)} is finer than microseconds; declare Types.INSTANT()")
    return text


def instant_of(text: str) -> Instant:
    """Return a point in time, in nanoseconds; a text without an offset is none.

    >>> instant_of("1970-01-01T01:00:01.000000002+01:00")
    Instant<1, 2>
    """
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise ValueError(f"{shown(text)} is no point in time, such as '2024-03-10T02:30:00Z'")
    day, time, fraction, zone = found.groups()
    since = datetime.datetime.fromisoformat(f"{day}T{time}{zone}") - _EPOCH
    return Instant(since.days * 86_400 + since.seconds, int((fraction or "").ljust(_NANOS, "0")))


def instant_text(value: Instant) -> str:
    """Return a point in time as ISO 8601 has it, in UTC.

    >>> instant_text(Instant(1, 500_000_000)), instant_text(Instant(-1))
    ('1970-01-01T00:00:01.5Z', '1969-12-31T23:59:59Z')
    """
    try:
        begin = _EPOCH + datetime.timedelta(seconds=value.seconds)
    except OverflowError:
        raise ValueError(f"{value!r} is beyond the years 1 to 9999") from None
    fraction = f".{value.nanos:09d}".rstrip("0").rstrip(".") if value.nanos else ""
    return f"{begin.replace(tzinfo=None).isoformat()}{fraction}Z"


def instant_of_datetime(value: datetime.datetime) -> Instant:
    """Return the point in time of a ``datetime``; one without a zone is in UTC.

    >>> instant_of_datetime(datetime.datetime(1970, 1, 1, 0, 0, 1, 5, datetime.UTC))
    Instant<1, 5000>
    """
    since = (value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)) - _EPOCH
    return Instant(since.days * 86_400 + since.seconds, since.microseconds * 1000)


def datetime_of_instant(value: Instant) -> datetime.datetime:
    """Return a point in time as a ``datetime`` in UTC; raises ``ValueError`` if it is finer than microseconds.

    >>> datetime_of_instant(Instant(1, 5000)).isoformat()
    '1970-01-01T00:00:01.000005+00:00'
    """
    if value.nanos % 1000:
        raise ValueError(f"{value!r} is finer than the microseconds that are kept")
    try:
        return _EPOCH + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    except OverflowError:
        raise ValueError(f"{value!r} is beyond the years 1 to 9999") from None


def without_zone(value: datetime.datetime) -> datetime.datetime:
    """Return a ``datetime`` for a type without a zone; raises ``ValueError`` for one that has a zone.

    >>> without_zone(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))
    Traceback (most recent call last):
    ...
    ValueError: 2026-01-01T00:00:00+00:00 has a zone, and the declared type has none; declare Types.INSTANT(), or write
    value.astimezone(UTC).replace(tzinfo=None)
    """
    if value.tzinfo is not None:
        raise ValueError(
            f"{value.isoformat()} has a zone, and the declared type has none; declare Types.INSTANT(), or write "
            "value.astimezone(UTC).replace(tzinfo=None)"
        )
    return value


# ---- How values become the fields of delimited text, as Flink (Jackson) writes them, and back; `csv_schema.py`
# makes lines of them.
#
# A value that its type has no place for, or that would be read as another one, is refused with ``ValueError``.


@dataclass(frozen=True)
class TextColumn:
    """A column of text: its type of Arrow, and its declared type (``None``: no more than that).

    >>> import pyarrow as pa
    >>> TextColumn(pa.list_(pa.int64()), list[int]).parts
    {'item': TextColumn(kind=DataType(int64), declared=<class 'int'>)}
    """

    kind: Any
    declared: Any = None

    @property
    def is_list(self) -> bool:
        """True if values are lists."""
        return bool(extras.load("pyarrow.types").is_list(self.kind))

    @property
    def parts(self) -> dict[str, TextColumn]:
        """The columns within: of a list its elements, of a row its fields; none of a single value."""
        if not (self.is_list or extras.load("pyarrow.types").is_struct(self.kind)):
            return {}
        fields = [self.kind.field(number) for number in range(self.kind.num_fields)]
        declared = _declared_within(self.declared) or [None] * len(fields)
        return {each.name: TextColumn(each.type, of) for each, of in zip(fields, declared, strict=True)}

    @functools.cached_property
    def single(self) -> str:
        """The type of its single value: ``instant``, ``zoned``, or Arrow's name; empty if it has no such."""
        if self.declared in (BasicTypeInfo(BasicType.INSTANT), Instant):
            return "instant"
        of = extras.load("pyarrow.types")
        names = ("string", "boolean", "integer", "floating", "decimal", "timestamp", "date", "time", "binary")
        found = next((name for name in names if getattr(of, f"is_{name}")(self.kind)), "")
        if found == "decimal" and self.declared == BasicTypeInfo(BasicType.BIG_INT):
            return "integer"
        return "zoned" if found == "timestamp" and self.kind.tz is not None else found

    @property
    def limits(self) -> tuple[int, int] | None:
        """The lowest and the highest whole number; ``None``: there are none."""
        of = extras.load("pyarrow.types")
        if self.declared is int or not of.is_integer(self.kind):
            return None
        return limits(self.kind.bit_width, of.is_signed_integer(self.kind))

    @property
    def digits(self) -> int | None:
        """Number of digits of decimals after the point, if that is declared."""
        if isinstance(self.declared, DecimalTypeInfo):
            return self.declared.scale
        of_arrow = self.declared is None and extras.load("pyarrow.types").is_decimal(self.kind)
        return self.kind.scale if of_arrow and (self.kind.precision, self.kind.scale) != (38, 18) else None


def _declared_within(declared: Any) -> list[Any]:
    """Return the declared types of the parts of lists and rows; nothing if they are not known."""
    if isinstance(declared, OfElements):
        return [declared.element_type]
    if isinstance(declared, RowTypeInfo | TupleTypeInfo):
        return list(declared.field_types)
    return [typing.get_args(declared)[0]] if typing.get_origin(declared) is list else []


# ---- text as values


def parser_of(column: TextColumn) -> Callable[[str], Any]:
    """Return a converter of text to values; raises ``InvalidProgram`` for a type that no text has.

    >>> import pyarrow as pa
    >>> parser_of(TextColumn(pa.int8()))("7"), parser_of(TextColumn(pa.bool_()))("TRUE"), parser_of(TextColumn(pa.string()))("a")
    (7, True, 'a')
    """
    single = column.single
    if single == "integer":
        if column.limits is None:
            return whole_number(None)
        of = extras.load("pyarrow.types")
        return whole_number(column.kind.bit_width, of.is_signed_integer(column.kind))
    if single == "floating":
        is_double = extras.load("pyarrow.types").is_float64(column.kind)
        return real_number if is_double else single_number
    if single == "decimal" and column.digits is not None:
        of_digits = rounded(column.digits)
        return lambda text: of_digits(decimal_number(text))
    if single == "timestamp" and column.declared is datetime.datetime:
        return datetime_of
    parse: Callable[[str], Any] | None = _PARSERS.get(single)
    if parse is None:
        raise InvalidProgram(
            f"CsvSchema: a field of text cannot be {column.kind}; declare numbers, text, dates, or lists or rows of them."
        )
    return parse


def _zoned(text: str) -> datetime.datetime:
    value = datetime_of(text)
    return value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value.astimezone(datetime.UTC)


_PARSERS: dict[str, Callable[[str], Any]] = {
    "string": str, "boolean": boolean, "decimal": decimal_number, "timestamp": timestamp_of,
    "zoned": _zoned, "date": date_of, "time": time_of, "instant": instant_of,
    "binary": lambda text: base64.b64decode(text, validate=True),
}  # fmt: skip


# ---- values as text


@dataclass(frozen=True)
class ValueTexts:
    """The text forms of a column's values: the text between the elements of lists and rows, and the text of ``None``.

    >>> import pyarrow as pa
    >>> prices = ValueTexts(";", "-").writer(TextColumn(pa.list_(pa.float64())), quoted=repr)
    >>> prices([1e10, 0.5, None]), prices(None)
    ("'1.0E10;0.5;-'", '-')
    """

    delimiter: str
    literal: str | None
    reads_empty_lists: bool = False
    """True if an empty text is read as an empty list, where ``None`` has no text of its own."""

    @property
    def null(self) -> str:
        """The text of ``None``."""
        return self.literal or ""

    def writer(self, column: TextColumn, quoted: Callable[[str], str]) -> Callable[[Any], str]:
        """Return a writer of values of a column; numbers, booleans and nulls are never quoted."""
        if column.parts:
            return self._joined(column, quoted)
        single, null = column.single, self.null
        if single == "string":

            def text(value: Any) -> str:
                return quoted(value) if type(value) is str else null if value is None else _as_text(value, quoted)

            return text
        if single == "integer":
            return self._whole(column)
        if single == "floating":
            return self._real(extras.load("pyarrow.types").is_float64(column.kind))
        write = _decimal_writer(column.digits) if single == "decimal" else _WRITERS[single]
        if single == "timestamp" and column.declared is datetime.datetime:
            write = _datetime_text
        if single in ("decimal", "boolean"):
            return lambda value: null if value is None else write(value)
        return lambda value: null if value is None else quoted(write(value))

    def _whole(self, column: TextColumn) -> Callable[[Any], str]:
        null, limits = self.null, column.limits
        low, high = limits or (0, -1)

        def number(value: Any) -> str:
            # Hot: what most values are.
            if type(value) is int and low <= value <= high:
                return str(value)
            if value is None:
                return null
            try:
                whole = None if isinstance(value, bool) else operator.index(value)
            except TypeError:
                whole = None
            if whole is None or not (limits is None or low <= whole <= high):
                raise ValueError(f"{shown(value)} is no whole number of {column.kind}")
            return str(whole)

        return number

    def _real(self, is_double: bool) -> Callable[[Any], str]:
        null, show = self.null, written(Types.DOUBLE() if is_double else Types.FLOAT())

        def number(value: Any) -> str:
            if is_double and type(value) is float and (1e-3 <= value < 1e7 or -1e7 < value <= -1e-3):
                return repr(value)  # as Java's; the others take ten times as long
            if value is None:
                return null
            if isinstance(value, bool) or not isinstance(value, numbers.Real):
                raise ValueError(f"{shown(value)} is no number")
            return show(float(value) if is_double else single(float(value)))

        return number

    def _joined(self, column: TextColumn, quoted: Callable[[str], str]) -> Callable[[Any], str]:
        writers, null, delimiter = [self.writer(each, str) for each in column.parts.values()], self.null, self.delimiter

        def joined(value: Any) -> str:
            if value is None:
                return null
            if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
                raise ValueError(f"{shown(value)} is no list")
            values = list(value.values() if isinstance(value, dict) else value)
            each = writers * len(values) if column.is_list else writers
            texts = [write(one) for write, one in zip(each, values, strict=True)]
            text = delimiter.join(texts)
            if text.count(delimiter) != max(0, len(texts) - 1):
                raise ValueError(
                    f"{shown(value)} has the delimiter {delimiter!r} within a part; choose another array_delimiter"
                )
            if text == null if texts else self.literal == "" or (self.literal is None and not self.reads_empty_lists):
                raise ValueError(f"{shown(value)} would be read as None; set another null_literal")
            return quoted(text)

        return joined


def _as_text(value: Any, quoted: Callable[[str], str]) -> str:
    """Write a value of a column of text that is none: by its type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.date | datetime.time):
        return quoted(value.isoformat())
    if isinstance(value, bytes | bytearray):
        return quoted(base64.b64encode(value).decode())
    return str(value) if isinstance(value, numbers.Number) else quoted(str(value))


def _decimal_writer(digits: int | None) -> Callable[[Any], str]:
    of_digits = None if digits is None else rounded(digits)

    def number(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, decimal.Decimal | int):
            raise ValueError(f"{shown(value)} is no decimal number")
        found = decimal.Decimal(value)
        return decimal_text(found if of_digits is None or not found.is_finite() else of_digits(found))

    return number


def _of(
    kind: type | tuple[type, ...], show: Callable[[Any], str], but: type | tuple[type, ...] = ()
) -> Callable[[Any], str]:
    """Return a writer of values of a type, which refuses others."""
    name = kind.__name__ if isinstance(kind, type) else kind[0].__name__

    def write(value: Any) -> str:
        if not isinstance(value, kind) or isinstance(value, but):
            raise ValueError(f"{shown(value)} is no {name}")
        return show(value)

    return write


def _time_text(value: datetime.time) -> str:
    if value.tzinfo is not None:
        raise ValueError(f"{value!r} has a zone, and times of day have none; leave it out")
    return value.isoformat()


def _instant_text(value: Any) -> str:
    return instant_text(value if isinstance(value, Instant) else instant_of_datetime(value))


_datetime_text = _of(datetime.datetime, datetime.datetime.isoformat)
_WRITERS: dict[str, Callable[[Any], str]] = {
    "boolean": _of(bool, lambda value: "true" if value else "false"),
    "timestamp": _of(datetime.datetime, lambda value: without_zone(value).isoformat()),
    "zoned": _of(datetime.datetime, _instant_text),
    "date": _of(datetime.date, datetime.date.isoformat, but=datetime.datetime),
    "time": _of(datetime.time, _time_text),
    "instant": _of((Instant, datetime.datetime), _instant_text),
    "binary": _of((bytes, bytearray, memoryview), lambda value: base64.b64encode(value).decode()),
}


def rounded(digits: int) -> Callable[[Any], decimal.Decimal]:
    """Return a converter to decimals with so many digits after the point, which rounds half up.

    >>> rounded(0)("1.5"), rounded(2)(3)
    (Decimal('2'), Decimal('3.00'))
    """
    step = decimal.Decimal(1).scaleb(-digits)
    context = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)

    def quantized(value: Any) -> decimal.Decimal:
        try:
            return decimal.Decimal(value).quantize(step, context=context)
        except decimal.InvalidOperation:
            raise ValueError(f"{shown(value)} is beyond decimal numbers of {digits} digits after the point") from None

    return quantized
