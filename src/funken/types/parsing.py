"""Values out of text and back, for formats that are text (CSV, JSON): the forms that Java's parsers take, which Flink calls.

Python's constructors take more: ``12_34``, ``nan``, ``inf``, spaces of other alphabets. A number that its type has no place for
is refused, and so is a time with an offset where the type has none. All raise ``ValueError``.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
import struct
from collections.abc import Callable
from typing import Any

from funken.types.instants import Instant

_BLANKS = "".join(map(chr, range(33)))
"""What Java's ``trim`` takes off."""
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
    """Return what makes whole numbers of text; of so many bits (``None``: any).

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
    """Return what ``true``, ``false``, ``1`` and ``0`` mean, in any case.

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


__all__ = [
    "boolean", "date_of", "datetime_of", "datetime_of_instant", "decimal_number", "decimal_text", "instant_of",
    "instant_of_datetime", "instant_text", "limits", "real_number", "shown", "single", "single_number", "time_of", "timestamp_of",
    "whole_number", "without_zone",
]  # fmt: skip
