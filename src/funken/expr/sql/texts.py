"""The text of a value, and the value of a text, as CAST has them."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

from funken.expr.rules import EvaluationError
from funken.expr.sql.types import (
    ArrayType,
    BinaryType,
    BitmapType,
    BooleanType,
    CharType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    LocalZonedTimestampType,
    LogicalType,
    MapType,
    MultisetType,
    RowType,
    SizedType,
    StructuredType,
    TimeOfDayType,
    TimestampType,
    VarBinaryType,
    VariantType,
    YearMonthIntervalType,
)
from funken.expr.sql.values import VariantValue, days_of, shortest_single

DAY_MS, DAY_NS = 86_400_000, 86_400_000_000_000
_FIRST = datetime.date(1970, 1, 1).toordinal()
_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a TIMESTAMP has no zone


def zone_of(name: str) -> ZoneInfo | datetime.timezone:
    """Return a time zone by name or offset: ``Europe/Berlin``, ``UTC``, ``GMT-08:00``, ``+02:00``.

    >>> zone_of("GMT-08:30").utcoffset(None)
    datetime.timedelta(days=-1, seconds=55800)
    """
    match = re.fullmatch(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?", name.strip())
    if match:
        minutes = int(match.group(2)) * 60 + int(match.group(3) or 0)
        return datetime.timezone(datetime.timedelta(minutes=-minutes if match.group(1) == "-" else minutes))
    if name in {"Z", "GMT", "UT", "UTC"}:
        return datetime.UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        wrong = (
            "Unknown time-zone ID"
            if re.fullmatch(r"[A-Za-z][\w~/.+-]+", name)
            else ("Invalid ID for region-based ZoneId, invalid format")
        )
        raise EvaluationError(f"{wrong}: {name}; give a name such as 'Europe/Berlin' or 'GMT+02:00'") from None


def local_nanos(instant: int, zone: Any) -> int:
    """Return the local time of a point in time, both in nanoseconds."""
    seconds, rest = divmod(instant, 10**9)
    if zone is datetime.UTC:
        return instant
    try:
        utc = (_EPOCH + datetime.timedelta(seconds=seconds)).replace(tzinfo=datetime.UTC)
        shift = utc.astimezone(zone).utcoffset()
    except (OverflowError, ValueError):
        shift = datetime.datetime(2000, 1, 1, tzinfo=zone).utcoffset()
    assert shift is not None
    return (seconds + shift // datetime.timedelta(seconds=1)) * 10**9 + rest


def instant_nanos(local: int, zone: Any) -> int:
    """Return the point in time of a local time: of an ambiguous one the first, of a skipped one Java's."""
    if zone is datetime.UTC:
        return local
    seconds, rest = divmod(local, 10**9)
    try:
        shift = (_EPOCH + datetime.timedelta(seconds=seconds)).replace(tzinfo=zone).utcoffset()
    except (OverflowError, ValueError):
        shift = datetime.datetime(2000, 1, 1, tzinfo=zone).utcoffset()
    assert shift is not None
    return (seconds - shift // datetime.timedelta(seconds=1)) * 10**9 + rest


# -- value to text


def double_text(value: float, digits: str | None = None) -> str:
    """Return the text of a number as Java writes it.

    >>> [double_text(each) for each in (1.0, 1e7, 0.001, 1e-4, -0.0, float("inf"))]
    ['1.0', '1.0E7', '0.001', '1.0E-4', '-0.0', 'Infinity']
    """
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return repr(value)
    number = Decimal(digits or repr(value))
    sign, figures, exponent = number.as_tuple()
    text = "".join(map(str, figures)).rstrip("0") or "0"
    power = len(figures) + int(exponent) - 1
    head = "-" if sign else ""
    if -3 <= power < 7:
        if power < 0:
            return f"{head}0.{'0' * (-power - 1)}{text}"
        text = text.ljust(power + 1, "0")
        return f"{head}{text[: power + 1]}.{text[power + 1 :] or '0'}"
    return f"{head}{text[0]}.{text[1:] or '0'}E{power}"


def float_text(value: float) -> str:
    """Return the text of a number of 32 bits."""
    return double_text(value, shortest_single(value))


def date_text(days: int) -> str:
    """Return ``2020-01-31``."""
    try:
        return datetime.date.fromordinal(days + _FIRST).isoformat()
    except (ValueError, OverflowError):
        raise EvaluationError(f"a DATE of {days} days since 1970 is outside of the years 1 to 9999") from None


def time_text(millis: int, precision: int) -> str:
    """Return ``10:00:00``, with as many digits of a second as there are, but at least ``precision``."""
    seconds, rest = divmod(millis, 1000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text + fraction_text(rest * 10**6, min(precision, 3), 3) if precision else text


def fraction_text(nanos: int, least: int, most: int = 9) -> str:
    """Return a point and digits: those that are not trailing zeros, but ``least`` at least."""
    digits = f"{nanos:09}"[:most]
    while len(digits) > least and digits.endswith("0"):
        digits = digits[:-1]
    return f".{digits}" if digits else ""


def timestamp_text(nanos: int, precision: int) -> str:
    """Return ``2020-01-31 10:00:00.123``."""
    days, rest = divmod(nanos, DAY_NS)
    seconds, fraction = divmod(rest, 10**9)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{date_text(days)} {clock}{fraction_text(fraction, precision)}"


def interval_text(millis: int) -> str:
    """Return ``+1 02:03:04.500``."""
    sign, rest = ("-", -millis) if millis < 0 else ("+", millis)
    days, rest = divmod(rest, DAY_MS)
    seconds, part = divmod(rest, 1000)
    return f"{sign}{days} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{part:03}"


def months_text(months: int) -> str:
    """Return ``+1-02``."""
    sign, rest = ("-", -months) if months < 0 else ("+", months)
    return f"{sign}{rest // 12}-{rest % 12:02}"


def bitmap_text(runs: tuple[tuple[int, int], ...]) -> str:
    """Return ``{1,2,5}``; a very large one is cut short."""
    shown: list[str] = []
    size = 0
    for first, last in runs:
        for number in range(first, last + 1):
            size += len(str(number)) + 1
            if size > 0x80000:
                return "{" + ",".join(shown) + ",...}"
            shown.append(str(number))
    return "{" + ",".join(shown) + "}"


def variant_json(value: VariantValue) -> str:
    """Return a variant as JSON."""
    if value.type == "OBJECT":
        return (
            "{"
            + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{variant_json(each)}" for key, each in value.value)
            + "}"
        )
    if value.type == "ARRAY":
        return "[" + ",".join(map(variant_json, value.value)) + "]"
    if value.type == "NULL":
        return "null"
    if value.type in {"STRING", "DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "BYTES"}:
        return json.dumps(_variant_text(value), ensure_ascii=False)
    return _variant_text(value)


def _variant_text(value: VariantValue) -> str:
    plain = value.value
    match value.type:
        case "BOOLEAN":
            return "true" if plain else "false"
        case "DOUBLE":
            return double_text(plain)
        case "FLOAT":
            return float_text(plain)
        case "DATE":
            return date_text(plain)
        case "TIMESTAMP":
            return timestamp_text(plain, 6).replace(" ", "T")
        case "TIMESTAMP_LTZ":
            return timestamp_text(plain, 6).replace(" ", "T") + "+00:00"
        case "BYTES":
            import base64

            return base64.b64encode(plain).decode()
        case _:
            return f"{plain:f}" if isinstance(plain, Decimal) else str(plain)


def writer(type_: LogicalType, zone: Any) -> Callable[[Any], str]:
    """Return the function from a value of a type to its text."""
    match type_:
        case BooleanType():
            return lambda value: "TRUE" if value else "FALSE"
        case DoubleType():
            return double_text
        case FloatType():
            return float_text
        case DecimalType():
            return lambda value: f"{value:f}"
        case DateType():
            return date_text
        case TimeOfDayType(precision=precision):
            return lambda value: time_text(value, precision)
        case TimestampType(precision=precision):
            return lambda value: timestamp_text(value, precision)
        case LocalZonedTimestampType(precision=precision):
            return lambda value: timestamp_text(local_nanos(value, zone), precision)
        case DayTimeIntervalType():
            return interval_text
        case YearMonthIntervalType():
            return months_text
        case BinaryType() | VarBinaryType():
            return lambda value: value.decode("utf-8", "replace")
        case BitmapType():
            return bitmap_text
        case VariantType():
            return variant_json
        case _:
            return _nested_writer(type_, zone)


def _nested_writer(type_: LogicalType, zone: Any) -> Callable[[Any], str]:
    def part(of: LogicalType) -> Callable[[Any], str]:
        write = writer(of, zone)
        return lambda value: "NULL" if value is None else write(value)

    match type_:
        case ArrayType(element=element):
            each = part(element)
            return lambda value: f"[{', '.join(map(each, value))}]"
        case MapType(key=key, value=item):
            left, right = part(key), part(item)
            return lambda value: "{" + ", ".join(f"{left(k)}={right(v)}" for k, v in value) + "}"
        case MultisetType(element=element):
            each = part(element)
            return lambda value: "{" + ", ".join(f"{each(k)}={count}" for k, count in value) + "}"
        case StructuredType(fields=fields):
            named = [(field.name, part(field.type)) for field in fields]
            return lambda value: (
                "(" + ", ".join(f"{name}={of(v)}" for (name, of), v in zip(named, value, strict=True)) + ")"
            )
        case RowType(fields=fields):
            parts = [part(field.type) for field in fields]
            return lambda value: "(" + ", ".join(of(v) for of, v in zip(parts, value, strict=True)) + ")"
        case _:
            return str


def sized_text(text: str, type_: SizedType) -> str:
    """Return a text cut, and for CHAR padded, to a type's length."""
    if len(text) > type_.length:
        return text[: type_.length]
    return text.ljust(type_.length) if isinstance(type_, CharType) else text


def sized_bytes(data: bytes, type_: SizedType) -> bytes:
    """Return bytes cut, and for BINARY padded, to a type's length."""
    if len(data) > type_.length:
        return data[: type_.length]
    return data.ljust(type_.length, b"\0") if isinstance(type_, BinaryType) else data


# -- text to value

_TRUE, _FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}
_WHOLE = re.compile(r"([+-]?\d*)(?:\.(\d*))?")
_JAVA_FLOAT = re.compile(r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)")
_STAMP = re.compile(r"([+-]?\d{4,9})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?")
_CLOCK = re.compile(r"\s*(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d+))?)?)?\s*")


def read_boolean(text: str) -> bool:
    """Return the truth value that a text stands for."""
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise EvaluationError(f"Cannot parse '{text}' as BOOLEAN.")


def read_integer(text: str, low: int, high: int) -> int:
    """Return an integer; a fraction is cut off."""
    body = text.strip()
    if not body:
        raise EvaluationError(f"For input string: '{text}'. Input is empty.")
    match = _WHOLE.fullmatch(body)
    if match is None or (match.group(1).strip("+-") == "" and not match.group(2)):
        raise EvaluationError(f"For input string: '{text}'. Invalid character found. TRY_CAST() gives NULL instead.")
    digits = match.group(1)
    value = int(digits) if digits.strip("+-") else 0
    if not low <= value <= high:
        raise EvaluationError(f"For input string: '{text}'. Overflow: the value is outside of {low} to {high}.")
    return value


def read_double(text: str) -> float:
    """Return the floating point number of a text."""
    body = text.strip()
    if not _JAVA_FLOAT.fullmatch(body):
        raise EvaluationError(f'For input string: "{text}"' if body else "empty String")
    return float(body if body[-1] in "yN" or body[-1].isdigit() else body.rstrip("fFdD."))


def read_decimal(text: str) -> Decimal:
    """Return the decimal of a text."""
    body = text.strip()
    try:
        if "_" in body or not re.fullmatch(r"[+-]?[\d.]+(?:[eE][+-]?\d+)?", body):
            raise InvalidOperation
        return Decimal(body)
    except InvalidOperation:
        raise EvaluationError(
            f"For input string: '{text}'. Invalid character found. TRY_CAST() gives NULL instead."
        ) from None


def read_date(text: str) -> int:
    """Return the days of ``2020-1-31``; a time of day behind it is ignored."""
    body = text.split(" ", maxsplit=1)[0] if text.find(" ") > 0 else text
    parts = [part.strip() for part in body.split("-")]
    if 1 <= len(parts) <= 3 and all(part.isdigit() for part in parts):
        try:
            return days_of(*map(int, [*parts, "1", "1"][:3] if len(parts) < 3 else parts))
        except (ValueError, OverflowError):
            pass
    raise EvaluationError(f"For input string: '{text}'. Invalid date: 'yyyy-MM-dd' is expected.")


def read_time(text: str) -> int:
    """Return the milliseconds of ``10:00:00.123``."""
    match = _CLOCK.fullmatch(text)
    if match:
        hour, minute, second = (int(each or 0) for each in match.groups()[:3])
        if hour < 24 and minute < 60 and second < 60:
            return (hour * 3600 + minute * 60 + second) * 1000 + int((match.group(4) or "")[:3].ljust(3, "0"))
    raise EvaluationError(f"For input string: '{text}'. Invalid time: 'HH:mm:ss' is expected.")


def read_timestamp(text: str) -> int:
    """Return the nanoseconds of ``2020-01-31 10:00:00.123``; the time of day may be left out as a whole."""
    match = _STAMP.fullmatch(text.strip())
    if match:
        year, month, day, hour, minute, second = (int(each or 0) for each in match.groups()[:6])
        try:
            days = days_of(year, month, day)
            if hour < 24 and minute < 60 and second < 60:
                fraction = int((match.group(7) or "").ljust(9, "0"))
                return days * DAY_NS + (hour * 3600 + minute * 60 + second) * 10**9 + fraction
        except (ValueError, OverflowError):
            pass
    raise EvaluationError(f"For input string: '{text}'. Invalid timestamp: 'yyyy-MM-dd HH:mm:ss[.SSS]' is expected.")


def truncated(nanos: int, precision: int) -> int:
    """Return a time with so many digits of a second."""
    step: int = 10 ** (9 - precision)
    return nanos // step * step
