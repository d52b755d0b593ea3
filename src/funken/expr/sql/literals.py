"""Constants of SQL: their texts, and the types that they have."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from itertools import pairwise
from typing import Any

from funken.expr.ir import Literal
from funken.expr.rules import InvalidCall
from funken.expr.sql.types import (
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    IntType,
    LocalZonedTimestampType,
    LogicalType,
    NullType,
    SymbolType,
    TimeOfDayType,
    TimestampType,
    YearMonthIntervalType,
)

SECONDS = DayTimeIntervalType("SECOND", 2, 3)
"""The type of every interval of days and times in an expression."""
MONTHS = YearMonthIntervalType("MONTH")
"""The type of every interval of years and months in an expression."""
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_EPOCH_TIME = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a TIMESTAMP has no zone
_DAY = 86_400_000_000_000
_DATE = re.compile(r"\s*(\d{1,9})-(\d{1,2})-(\d{1,2})\s*")
_TIME = re.compile(r"\s*(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?\s*")
MILLIS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}


def days_of(year: int, month: int, day: int) -> int:
    """Return the days since 1970; a date that does not exist raises ``ValueError``."""
    return datetime.date(year, month, day).toordinal() - _EPOCH


def null(type_: LogicalType | None = None) -> Literal:
    """Return NULL, of a type if one is known."""
    return Literal(None, type=(type_ or NullType()).as_nullable())


def symbol(word: str) -> Literal:
    """Return a word of the syntax, as the unit of EXTRACT is."""
    return Literal(word.upper(), type=SymbolType(nullable=False))


def number_literal(text: str) -> Literal:
    """Return the constant of a number as it is written.

    >>> [str(number_literal(text).type) for text in ("5", "3000000000", "1.50", "1e3")]
    ['INT NOT NULL', 'BIGINT NOT NULL', 'DECIMAL(3, 2) NOT NULL', 'DOUBLE NOT NULL']
    """
    if re.search("[eE]", text):
        return Literal(float(text), type=DoubleType(nullable=False))
    if "." in text:
        whole, fraction = text.split(".")
        digits = len(whole.lstrip("-")) + len(fraction)
        if digits > 38:
            raise InvalidCall(f"Numeric literal '{text}' out of range: DECIMAL has 38 digits")
        return Literal(Decimal(text), type=DecimalType(digits, len(fraction), nullable=False))
    value = int(text)
    if -(2**31) <= value < 2**31:
        return Literal(value, type=IntType(nullable=False))
    if -(2**63) <= value < 2**63:
        return Literal(value, type=BigIntType(nullable=False))
    digits = len(text.lstrip("-"))
    if digits > 38:
        raise InvalidCall(f"Numeric literal '{text}' out of range: DECIMAL has 38 digits")
    return Literal(Decimal(text), type=DecimalType(digits, 0, nullable=False))


def literal(value: Any) -> Literal:
    """Return the constant of a Python value, as ``lit`` of the Table API does.

    >>> [str(literal(value).type) for value in (1, 2**40, "abc", True, None, Decimal("1.5"))]
    ['INT NOT NULL', 'BIGINT NOT NULL', 'CHAR(3) NOT NULL', 'BOOLEAN NOT NULL', 'NULL', 'DECIMAL(2, 1) NOT NULL']
    """
    match value:
        case None:
            return null()
        case bool():
            return Literal(value, type=BooleanType(nullable=False))
        case int():
            return number_literal(str(value))
        case float():
            return Literal(value, type=DoubleType(nullable=False))
        case str():
            return Literal(value, type=CharType(len(value), nullable=False))
        case bytes() | bytearray():
            return Literal(bytes(value), type=BinaryType(len(value), nullable=False))
        case Decimal():
            exponent = -int(value.as_tuple().exponent)
            scale = max(exponent, 0)
            precision = max(len(value.as_tuple().digits) - min(exponent, 0), scale, 1)
            return Literal(
                value.quantize(Decimal(1).scaleb(-scale)), type=DecimalType(precision, scale, nullable=False)
            )
        case _:
            return _time_value(value)


def _time_value(value: Any) -> Literal:
    match value:
        case datetime.datetime():
            aware = value.tzinfo is not None
            naive = value.astimezone(datetime.UTC).replace(tzinfo=None) if aware else value
            span = naive - _EPOCH_TIME
            nanos = (span.days * 86_400_000_000 + span.seconds * 1_000_000 + span.microseconds) * 1000
            kind: LogicalType = (
                LocalZonedTimestampType(6, nullable=False) if aware else TimestampType(6, nullable=False)
            )
            return Literal(nanos, type=kind)
        case datetime.date():
            return Literal(value.toordinal() - _EPOCH, type=DateType(nullable=False))
        case datetime.time():
            millis = (value.hour * 3600 + value.minute * 60 + value.second) * 1000 + value.microsecond // 1000
            return Literal(millis, type=TimeOfDayType(3 if value.microsecond else 0, nullable=False))
        case datetime.timedelta():
            return Literal(value // datetime.timedelta(milliseconds=1), type=SECONDS.not_null())
        case _:
            raise InvalidCall(f"a {type(value).__name__} is no constant of SQL: {value!r}")


def date_literal(text: str) -> Literal:
    """Return ``DATE '2020-01-31'``."""
    match = _DATE.fullmatch(text)
    try:
        if match:
            return Literal(days_of(*map(int, match.groups())), type=DateType(nullable=False))
    except ValueError:
        pass
    raise InvalidCall(f"Illegal DATE literal '{text}': not in format 'yyyy-MM-dd'")


def _time_of(match: re.Match[str]) -> tuple[int, int]:
    """Return nanoseconds of the day and the digits of the fraction."""
    hour, minute, second = (int(each) for each in match.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(match.group())
    fraction = match.group(4) or ""
    return (hour * 3600 + minute * 60 + second) * 10**9 + int(fraction.ljust(9, "0") or 0), len(fraction)


def time_literal(text: str) -> Literal:
    """Return ``TIME '10:00:00'``; its precision is that of its digits."""
    match = _TIME.fullmatch(text)
    try:
        if match:
            nanos, digits = _time_of(match)
            return Literal(nanos // 1_000_000, type=TimeOfDayType(digits, nullable=False))
    except ValueError:
        pass
    raise InvalidCall(f"Illegal TIME literal '{text}': not in format 'HH:mm:ss'")


def timestamp_literal(text: str) -> Literal:
    """Return ``TIMESTAMP '2020-01-31 10:00:00.123'``; its precision is that of its digits."""
    day, _, time = text.strip().replace("T", " ").partition(" ")
    match, clock = _DATE.fullmatch(day), _TIME.fullmatch(time)
    try:
        if match and clock:
            nanos, digits = _time_of(clock)
            return Literal(
                days_of(*map(int, match.groups())) * _DAY + nanos, type=TimestampType(digits, nullable=False)
            )
    except ValueError:
        pass
    raise InvalidCall(f"Illegal TIMESTAMP literal '{text}': not in format 'yyyy-MM-dd HH:mm:ss'")


_SEPARATORS = {("YEAR", "MONTH"): "-", ("DAY", "HOUR"): " ", ("HOUR", "MINUTE"): ":", ("MINUTE", "SECOND"): ":"}
_CHAIN = ("DAY", "HOUR", "MINUTE", "SECOND")


def interval_literal(text: str, first: str, last: str | None = None, negative: bool = False) -> Literal:
    """Return ``INTERVAL '10 00:00:00.004' DAY TO SECOND``.

    >>> interval_literal("1-2", "YEAR", "MONTH").value, interval_literal("1 02:03:04.5", "DAY", "SECOND").value
    (14, 93784500)
    """
    first, last = first.upper().removesuffix("S"), (last or first).upper().removesuffix("S")
    body = text.strip()
    sign = -1 if negative else 1
    if body[:1] in {"-", "+"}:
        sign, body = sign * (-1 if body[0] == "-" else 1), body[1:].strip()
    units: tuple[str, ...] = ("YEAR", "QUARTER", "MONTH") if first in {"YEAR", "MONTH", "QUARTER"} else _CHAIN
    if first == "WEEK":
        return Literal(sign * int(body) * 7 * MILLIS["DAY"], type=SECONDS.not_null())
    if first in {"YEAR", "MONTH", "QUARTER"} and last in {"YEAR", "MONTH", "QUARTER"}:
        named = ["YEAR", "MONTH"] if first != last else [first]
        parts = body.split("-") if len(named) == 2 else [body]
        factors = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
        if len(parts) == len(named) and all(part.strip().isdigit() for part in parts):
            months = sum(int(part) * factors[unit] for part, unit in zip(parts, named, strict=True))
            return Literal(sign * months, type=MONTHS.not_null())
        raise InvalidCall(f"Illegal interval literal format '{text}' for INTERVAL {first} TO {last}")
    if first not in units or last not in units:
        raise InvalidCall(f"Illegal interval qualifier {first} TO {last}")
    chain = _CHAIN[_CHAIN.index(first) : _CHAIN.index(last) + 1]
    pattern = r"(\d+)" + "".join(_SEPARATORS[pair].replace(" ", r"\s+") + r"(\d+)" for pair in pairwise(chain))
    match = re.fullmatch(pattern + (r"(?:\.(\d+))?" if last == "SECOND" else ""), body)
    if match is None:
        raise InvalidCall(f"Illegal interval literal format '{text}' for INTERVAL {first} TO {last}")
    millis = sum(int(part) * MILLIS[unit] for part, unit in zip(match.groups(), chain, strict=False))
    fraction = (match.group(len(chain) + 1) or "") if last == "SECOND" else ""
    return Literal(sign * (millis + int(fraction[:3].ljust(3, "0") or 0)), type=SECONDS.not_null())
