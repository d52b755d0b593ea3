"""Formats of Java: those of ``DateTimeFormatter`` for times, and of ``String.format`` for PRINTF."""

from __future__ import annotations

import calendar
import datetime
import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from funken.config.configuration import warn
from funken.expr.rules import EvaluationError
from funken.expr.sql.saying import say_once
from funken.expr.sql.texts import DAY_NS, timestamp_text
from funken.expr.sql.types import (
    DecimalType,
    FloatType,
    IntegralType,
    LocalZonedTimestampType,
    LogicalType,
    TimestampType,
)
from funken.expr.sql.values import days_of, shortest_single

_FIRST = datetime.date(1970, 1, 1).toordinal()
_PART = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|\[|\]|.", re.DOTALL)
_MONTHS, _DAYS = list(calendar.month_name)[1:], list(calendar.day_name)
_EN_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_EN_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_QUARTERS = ["1st quarter", "2nd quarter", "3rd quarter", "4th quarter"]
_MODIFIED_JULIAN = 678576
"""The ordinal of the day 0 of modified Julian days, 1858-11-17."""


class PrintableMoment:
    """The fields of a local time, for the letters of a format."""

    def __init__(self, nanos: int, zone: Any = None) -> None:
        days, self.nano_of_day = divmod(nanos, DAY_NS)
        try:
            self.date = datetime.date.fromordinal(days + _FIRST)
        except (ValueError, OverflowError):
            raise EvaluationError(f"a time {days} days from 1970 is outside of the years 1 to 9999") from None
        seconds, self.nano = divmod(self.nano_of_day, 10**9)
        self.hour, self.minute, self.second = seconds // 3600, seconds // 60 % 60, seconds % 60
        self.zone = zone

    def offset(self) -> datetime.timedelta:
        """Return the offset of the zone."""
        local = datetime.datetime.combine(self.date, datetime.time(self.hour, self.minute, self.second))
        found = local.replace(tzinfo=self.zone or datetime.UTC).utcoffset()
        assert found is not None
        return found


def _number(read: Callable[[PrintableMoment], int]) -> Callable[[PrintableMoment, int], str]:
    return lambda moment, width: f"{read(moment):0{width}}"


def _year(moment: PrintableMoment, width: int) -> str:
    return _year_text(moment.date.year, width)


def _year_text(year: int, width: int) -> str:
    return f"{year % 100:02}" if width == 2 else f"{year:0{width}}"


def _week(day: datetime.date, first: datetime.date) -> int:
    """Return the number of the week of a day: weeks begin on Sunday, and the first one has the day ``first``."""
    return (day.toordinal() - first.toordinal() + first.isoweekday() % 7) // 7 + 1


def _week_of_year(date: datetime.date) -> tuple[int, int]:
    """Return year and week of a day; the last days of December may be in week 1 of the next year.

    >>> _week_of_year(datetime.date(2020, 12, 26)), _week_of_year(datetime.date(2020, 12, 27))
    ((2020, 52), (2021, 1))
    """
    saturday = date.toordinal() + 6 - date.isoweekday() % 7
    year = date.year + (saturday > datetime.date(date.year, 12, 31).toordinal())
    return (year, 1) if year > date.year else (year, _week(date, datetime.date(year, 1, 1)))


def _local_day(moment: PrintableMoment, width: int) -> str:
    number = moment.date.isoweekday() % 7 + 1
    return f"{number:0{width}}" if width < 3 else _day_name(moment, width)


def _quarter(moment: PrintableMoment, width: int) -> str:
    number = (moment.date.month + 2) // 3
    return f"{number:0{width}}" if width < 3 else f"Q{number}" if width == 3 else _QUARTERS[number - 1]


def _day_period(moment: PrintableMoment, width: int) -> str:
    if moment.nano_of_day == 0:
        return "midnight"
    if moment.nano_of_day == DAY_NS // 2:
        return "noon"
    bounds = (
        (6, "at night"),
        (12, "in the morning"),
        (18, "in the afternoon"),
        (21, "in the evening"),
        (24, "at night"),
    )
    return next(name for end, name in bounds if moment.hour < end)


def _month(moment: PrintableMoment, width: int) -> str:
    name = _EN_MONTHS[moment.date.month - 1]
    return (
        f"{moment.date.month:0{width}}" if width < 3 else (name[:3] if width == 3 else name if width == 4 else name[:1])
    )


def _day_name(moment: PrintableMoment, width: int) -> str:
    name = _EN_DAYS[moment.date.weekday()]
    return name if width == 4 else name[:3] if width < 4 else name[:1]


def _offset_text(moment: PrintableMoment, width: int, colon: bool, zulu: bool) -> str:
    minutes = moment.offset() // datetime.timedelta(minutes=1)
    if zulu and not minutes:
        return "Z"
    sign, rest = ("-", -minutes) if minutes < 0 else ("+", minutes)
    return f"{sign}{rest // 60:02}" + ("" if width == 1 and not rest % 60 else f"{':' if colon else ''}{rest % 60:02}")


_WRITERS: dict[str, Callable[[PrintableMoment, int], str]] = {
    "y": _year,
    "u": _year,
    "M": _month,
    "L": _month,
    "d": _number(lambda moment: moment.date.day),
    "D": _number(lambda moment: moment.date.timetuple().tm_yday),
    "H": _number(lambda moment: moment.hour),
    "k": _number(lambda moment: moment.hour or 24),
    "h": _number(lambda moment: moment.hour % 12 or 12),
    "K": _number(lambda moment: moment.hour % 12),
    "m": _number(lambda moment: moment.minute),
    "s": _number(lambda moment: moment.second),
    "S": lambda moment, width: f"{moment.nano:09}"[:width].ljust(width, "0"),
    "n": _number(lambda moment: moment.nano),
    "A": _number(lambda moment: moment.nano_of_day // 10**6),
    "N": _number(lambda moment: moment.nano_of_day),
    "a": lambda moment, width: "AM" if moment.hour < 12 else "PM",
    "E": _day_name,
    "e": _local_day,
    "c": _local_day,
    "B": _day_period,
    "Q": _quarter,
    "q": _quarter,
    "Y": lambda moment, width: _year_text(_week_of_year(moment.date)[0], width),
    "w": _number(lambda moment: _week_of_year(moment.date)[1]),
    "W": _number(lambda moment: _week(moment.date, moment.date.replace(day=1))),
    "F": _number(lambda moment: (moment.date.day - 1) % 7 + 1),
    "g": _number(lambda moment: moment.date.toordinal() - _MODIFIED_JULIAN),
    "G": lambda moment, width: "Anno Domini" if width == 4 else "A" if width == 5 else "AD",
    "X": lambda moment, width: _offset_text(moment, width, width == 3, True),
    "x": lambda moment, width: _offset_text(moment, width, width == 3, False),
    "Z": lambda moment, width: _offset_text(moment, max(width, 2), width == 5, width == 5),
    "z": lambda moment, width: str(moment.zone or "UTC"),
    "V": lambda moment, width: str(moment.zone or "UTC"),
}


_MOST = dict.fromkeys("HkhKmsdw", 2) | {"D": 3, "S": 9, "W": 1, "F": 1, "a": 1, "B": 1}
"""How often ``DateTimeFormatter`` takes a letter."""


def _illegal(letter: str, pattern: str) -> EvaluationError:
    known = "Formats are Java's, as in 'yyyy-MM-dd HH:mm:ss'; text in them is in quotes."
    return EvaluationError(f"Illegal pattern character '{letter}' in the format '{pattern}'. {known}")


@lru_cache(maxsize=256)
def _parts(pattern: str, strict: bool = True) -> tuple[tuple[str, str, int], ...]:
    """Return the parts of a format: ('letter', letter, width), or ('text', text, 0), or brackets.

    ``strict`` is as ``DateTimeFormatter``, else as ``SimpleDateFormat``, which takes letters as often as they come.
    """
    found: list[tuple[str, str, int]] = []
    for match in _PART.finditer(pattern):
        text = match.group()
        if match.group(1) is not None:
            found.append(("text", match.group(1).replace("''", "'") or "'", 0))
        elif match.group(2):
            if text[0] not in _WRITERS:
                raise _illegal(text[0], pattern)
            most = _MOST.get(text[0])
            if strict and most is not None and len(text) > most:
                shorter = f"Write it {most} times at most." if most > 1 else "Write it once."
                raise EvaluationError(f"Too many pattern letters '{text[0]}' in the format '{pattern}'. {shorter}")
            found.append(("letter", text[0], len(text)))
        elif text in "[]":
            found.append((text, text, 0))
        else:
            found.append(("text", text, 0))
    letters = {text for kind, text, _ in found if kind == "letter"}
    if "m" in letters and "M" not in letters and "d" in letters and letters.isdisjoint("HhKk"):
        warn(f"in the format '{pattern}', m is the minute: the month is M, as in '{pattern.replace('m', 'M')}'.")
    if "M" in letters and "m" not in letters and re.search("[HhKk]:MM", pattern):
        right = re.sub("(?<=[HhKk]:)MM", "mm", pattern)
        warn(f"in the format '{pattern}', M is the month: the minute is m, as in '{right}'.")
    if "Y" in letters and "w" not in letters:
        warn(
            f"in the format '{pattern}', Y is the year of the week: that of the date is y, as in '{pattern.replace('Y', 'y')}'."
        )
    if "D" in letters and "d" not in letters and "M" in letters:
        warn(
            f"in the format '{pattern}', D is the day of the year: that of the month is d, as in '{pattern.replace('D', 'd')}'."
        )
    return tuple(found)


def format_time(nanos: int, pattern: str, zone: Any = None) -> str:
    """Return a local time in a format.

    >>> format_time(0, "yyyy-MM-dd'T'HH:mm:ss.SSS EEE")
    '1970-01-01T00:00:00.000 Thu'
    """
    return _written(_parts(pattern), nanos, zone, _WRITERS)


def _written(parts: Sequence[tuple[str, str, int]], nanos: int, zone: Any, writers: Any) -> str:
    moment = PrintableMoment(nanos, zone)
    return "".join(
        writers[text](moment, width) if kind == "letter" else text if kind == "text" else ""
        for kind, text, width in parts
    )


_SIMPLE = set("GyYMLwWDdFEuaHkKhmsSzZX")
_SIMPLE_WRITERS = _WRITERS | {
    "F": _number(lambda moment: (moment.date.day - 1) // 7 + 1),
    "u": _number(lambda moment: moment.date.isoweekday()),
    "S": _number(lambda moment: moment.nano // 10**6),
}


def format_simply(nanos: int, pattern: str, zone: Any = None) -> str:
    """Return a local time in a format of ``SimpleDateFormat``, which has fewer letters."""
    parts = _parts(pattern, False)
    for kind, letter, _ in parts:
        if kind == "letter" and letter not in _SIMPLE:
            raise _illegal(letter, pattern)
    return _written(parts, nanos, zone, _SIMPLE_WRITERS)


_NAMES = {
    "MMM": "|".join(name[:3] for name in _EN_MONTHS),
    "MMMM": "|".join(_EN_MONTHS),
    "E": "|".join(name[:3] for name in _EN_DAYS),
    "EEEE": "|".join(_EN_DAYS),
}


def _reader(letter: str, width: int, following_digit: bool) -> str:
    if letter in "yuY":
        return r"(\d{4})" if width >= 4 or width == 1 else r"(\d{2})" if width == 2 else rf"(\d{{{width}}})"
    if letter in "ML" and width >= 3:
        return f"({_NAMES['MMM' if width == 3 else 'MMMM']})"
    if letter == "E":
        return f"({_NAMES['E' if width < 4 else 'EEEE']})"
    if letter == "a":
        return "(AM|PM|am|pm)"
    if letter in "XxZ":
        return r"(Z|[+-]\d{2}:?(?:\d{2})?)"
    if letter in "zV":
        return r"([\w/+:-]+)"
    if letter == "S":
        return rf"(\d{{{width}}})"
    return rf"(\d{{{width}}})" if width > 1 else (r"(\d)" if following_digit else r"(\d{1,2})")


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> tuple[re.Pattern[str], str]:
    parts = _parts(pattern)
    text, letters = [], []
    for at, (kind, part, width) in enumerate(parts):
        if kind == "letter":
            following = at + 1 < len(parts) and parts[at + 1][0] == "letter"
            text.append(_reader(part, width, following))
            letters.append(part)
        else:
            text.append({"[": "(?:", "]": ")?"}.get(kind) or re.escape(part))
    return re.compile("".join(text)), "".join(letters)


def parse_time(text: str, pattern: str, zone: Any = None) -> tuple[int, datetime.timedelta | None] | None:
    """Return the local nanoseconds of a text in a format, and the offset if it names one; ``None`` if it does not fit.

    >>> parse_time("2020-01-31 10", "yyyy-MM-dd HH")[0] == 1580464800 * 10**9
    True
    """
    compiled, letters = _compiled(pattern)
    match = compiled.fullmatch(text)
    if match is None:
        return None
    found: dict[str, str] = {letter: value for letter, value in zip(letters, match.groups(), strict=True) if value}
    try:
        return _nanos_of(found), _offset_of(found)
    except (ValueError, OverflowError):
        return None


def misfit(function: str, text: str, pattern: str) -> int | None:
    """Return NULL for a text that does not fit; say so once per function and format, of the first ones."""
    say_once(
        function,
        pattern,
        f"{function}() gives NULL for {text!r:.50}, which is not in the format '{pattern}'. Give the format of the text as the "
        f"second argument: {function}(day, 'dd.MM.yyyy').",
    )
    return None


@lru_cache(maxsize=256)
def _lenient(pattern: str) -> tuple[re.Pattern[str], str]:
    parts = _parts(pattern, False)
    text, letters = [], []
    for (kind, part, width), following in zip(parts, [*parts[1:], ("", "", 0)], strict=True):
        if kind != "letter":
            text.append(re.escape(part))
            continue
        named = part in "EaXxZzVG" or (part in "ML" and width >= 3)
        digits = rf"(\d{{{width}}})" if following[0] == "letter" else r"\s*(\d+)"
        text.append(_reader(part, width, False) if named else digits)
        letters.append(part)
    return re.compile("".join(text)), "".join(letters)


def parse_leniently(text: str, pattern: str) -> tuple[int, datetime.timedelta | None] | None:
    """Return what ``parse_time`` does, as ``SimpleDateFormat`` reads: any number of digits, and what stands behind is ignored.

    >>> parse_leniently("2020-1-31 10:00", "yyyy-MM-dd") == parse_time("2020-01-31", "yyyy-MM-dd")
    True
    """
    compiled, letters = _lenient(pattern)
    match = compiled.match(text)
    if match is None:
        return None
    found = dict(zip(letters, match.groups(), strict=True))
    if "S" in found:  # a number of milliseconds
        found["S"] = f"{int(found['S']) % 1000:03}"
    try:
        return _nanos_of(found), _offset_of(found)
    except (ValueError, OverflowError):
        return None


def _nanos_of(found: dict[str, str]) -> int:
    year = found.get("y") or found.get("u") or "1970"
    month = found.get("M") or found.get("L") or "1"
    names = [name[:3] for name in _EN_MONTHS]
    number = names.index(month[:3]) + 1 if not month.isdigit() else int(month)
    day = int(found.get("d", "1"))
    days = days_of(int(year) + (2000 if len(year) == 2 else 0), number, day)
    if "D" in found:
        days = days_of(int(year), 1, 1) + int(found["D"]) - 1
    hour = int(found.get("H", found.get("k", "0"))) % 24 if int(found.get("H", "0")) < 24 else -1
    if "h" in found or "K" in found:
        hour = int(found.get("h", found.get("K", "0"))) % 12
        hour += 12 if found.get("a", "AM").upper() == "PM" else 0
    minute, second = int(found.get("m", "0")), int(found.get("s", "0"))
    if hour < 0 or minute > 59 or second > 59:
        raise ValueError(found)
    return days * DAY_NS + (hour * 3600 + minute * 60 + second) * 10**9 + int(found.get("S", "0").ljust(9, "0")[:9])


def _offset_of(found: dict[str, str]) -> datetime.timedelta | None:
    text = found.get("X") or found.get("x") or found.get("Z")
    if text is None:
        return None
    if text == "Z":
        return datetime.timedelta()
    digits = text[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return datetime.timedelta(minutes=-minutes if text[0] == "-" else minutes)


# -- String.format

_SPECIFIER = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(<]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")


def java_format(pattern: str, values: Sequence[Any]) -> str | None:
    """Return a text with its specifiers filled in; ``None`` if a value is missing or of the wrong type."""
    found: list[str] = []
    at = taken = 0
    while at < len(pattern):
        start = pattern.find("%", at)
        if start < 0:
            found.append(pattern[at:])
            break
        found.append(pattern[at:start])
        match = _SPECIFIER.match(pattern, start)
        if match is None:
            return None
        position, flags, width, precision, letter = match.groups()
        at = match.end()
        if letter in "%n":
            found.append(("%" if letter == "%" else "\n").rjust(int(width or 0)))
            continue
        if position:
            index = int(position) - 1
        elif "<" in flags:
            index = taken - 1
        else:
            index, taken = taken, taken + 1
        if not 0 <= index < len(values):
            return None
        text = _specified(letter, flags, int(width or 0), None if precision is None else int(precision), values[index])
        if text is None:
            return None
        found.append(text)
    return "".join(found)


def _specified(letter: str, flags: str, width: int, precision: int | None, value: Any) -> str | None:
    kind = letter.lower()
    if value is None:
        text: str | None = "false" if kind == "b" else "null"
    elif kind in "sb":
        text = _plain(value) if kind == "s" else str(value is not False).lower()
        text = text[:precision] if precision is not None else text
    else:
        text = _number_text(kind, flags, width, precision, value)
    if text is None:
        return None
    text = text.upper() if letter.isupper() else text
    return text.ljust(width) if "-" in flags else text.rjust(width)


def java_value(type_: LogicalType) -> Callable[[Any], Any]:
    """Return the function from a value of a type to what ``String.format`` prints: timestamps as ``LocalDateTime`` does."""
    match type_:
        case TimestampType() | LocalZonedTimestampType():
            return lambda value: _iso(timestamp_text(value, 9))
        case FloatType():
            return lambda value: float(shortest_single(value)) if math.isfinite(value) else value
        case IntegralType(bits=bits):
            return lambda value: _Whole(value, bits)
        case DecimalType():  # an object of Flink's, which is no number to a format
            return str
        case _:
            return lambda value: value


class _Whole(int):
    """An integer of so many bits, which matter where a negative one is written to base 8 or 16."""

    bits: int

    def __new__(cls, value: int, bits: int) -> _Whole:
        made = super().__new__(cls, value)
        made.bits = bits
        return made


def _iso(text: str) -> str:
    """Return a local time as Java writes it: without seconds if they are zero, with 3, 6 or 9 digits of them."""
    clock, _, fraction = text.replace(" ", "T").partition(".")
    fraction = fraction.rstrip("0")
    if not fraction:
        return clock.removesuffix(":00") if clock.endswith(":00") else clock
    return f"{clock}.{fraction.ljust(-(-len(fraction) // 3) * 3, '0')}"


def _plain(value: Any) -> str:
    from funken.expr.sql.texts import double_text

    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    return str(value)


def _number_text(kind: str, flags: str, width: int, precision: int | None, value: Any) -> str | None:
    sign = "+" if "+" in flags else " " if " " in flags else ""
    group = "," if "," in flags else ""
    zero = f"0{width}" if "0" in flags and width else ""
    if isinstance(value, bool | str):
        return value[:1] if kind == "c" and isinstance(value, str) else None
    if kind == "c":
        return chr(value) if isinstance(value, int) else None
    if kind == "h":  # the hash code
        folded = value ^ (value >> 32) if isinstance(value, _Whole) and value.bits > 32 else value
        return format(folded & 0xFFFFFFFF, "x") if isinstance(value, _Whole) else None
    if kind in "dxo":
        if not isinstance(value, _Whole):
            return None
        if kind == "d":
            return format(value, f"{sign}{zero}{group}d")
        unsigned = int(value) & ((1 << value.bits) - 1)
        return format(unsigned, f"{'#' if '#' in flags else ''}{zero}{kind}")
    if kind in "feg" and isinstance(value, float):
        digits = 6 if precision is None else precision
        return format(value, f"{sign}{zero}{group}.{digits}{kind}")
    return None
