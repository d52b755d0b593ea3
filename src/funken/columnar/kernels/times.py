"""Datetimes and dates as microseconds since 1970, for as long as no one needs the objects.

``Times`` is a column of them. What is asked of them (an hour, a weekday, a timestamp, a text) is arithmetic on arrays then, and
so is reading them: from numbers, and from texts that are all written alike. Only UTC and datetimes without a time zone are known
here; what else Python knows, and all that is out of bounds, is left to its own functions, which make objects.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import repeat
from typing import Any

import numpy as np

from funken.columnar.kernels.columns import COMPARE, Array, Column, MadeLater, pa, pc
from funken.columnar.kernels.text import concatenated, parts_of
from funken.expr.python.table import DATE, DATETIME
from funken.expr.types import BOOL, FLOAT, INT, STR, Atomic

SECOND, DAY = 10**6, 86_400 * 10**6
_FIRST = int((datetime(1, 1, 2, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
_LAST = int((datetime(9999, 12, 30, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
_EXACT = 2**32
"""Seconds up to this, as a float, are exact to less than half of a microsecond."""
_ALWAYS = 28
"""Days that each month has."""


class Times(MadeLater):
    """Datetimes in a time zone, or without one, or dates: the objects are made when they are read, once."""

    __slots__ = ("micros", "zone")

    def __init__(self, kind: Atomic, micros: Array, zone: Any) -> None:
        super().__init__(kind)
        self.micros = micros
        self.zone = zone

    def _data(self) -> Array:
        return np.fromiter(self._objects(), np.object_, len(self.micros))

    def _objects(self) -> list[Any]:
        if self.kind == DATE:
            days: list[Any] = (self.micros // DAY).view("M8[D]").tolist()
            return days
        if self.zone is None:
            naive: list[Any] = self.micros.view("M8[us]").tolist()
            return naive
        if len(self.micros) and int(np.abs(self.micros).max()) < _EXACT * SECOND:
            # Hot: 150 ns; to give a time zone to one without takes 510.
            return list(map(datetime.fromtimestamp, (self.micros / SECOND).tolist(), repeat(self.zone)))
        return [each.replace(tzinfo=self.zone) for each in self.micros.view("M8[us]").tolist()]

    def take(self, positions: Array) -> Column:
        """Return the values at some positions."""
        return Times(self.kind, self.micros.take(positions), self.zone)

    def keep(self, mask: Array) -> Column:
        """Return the values where a mask is true."""
        return Times(self.kind, self.micros[mask], self.zone)

    def cut(self, part: slice) -> Column:
        """Return a slice."""
        return Times(self.kind, self.micros[part], self.zone)

    def begin(self, columns: list[Column], lengths: list[int]) -> Column:
        """Put columns together, of which this is the first."""
        alike = [column for column in columns if isinstance(column, Times) and column.zone is self.zone]
        if len(alike) < len(columns):
            return super().begin(columns, lengths)
        return Times(self.kind, np.concatenate([column.micros for column in alike]), self.zone)


# ---- from arrays, numbers and texts; all forms return ``None`` where the result may not be Python's


def times_of(array: Any) -> Times | None:
    """Return timestamps or dates of Arrow, none of them null; ``None`` for a time zone other than UTC, and far from now.

    >>> import pyarrow as pa
    >>> from datetime import date
    >>> times_of(pa.array([date(2024, 2, 29)])).to_list(1)
    [datetime.date(2024, 2, 29)]
    """
    if pa.types.is_date(array.type):
        days = array.cast(pa.date32()).view(pa.int32()).to_numpy(zero_copy_only=False)
        return _within(Times(DATE, days.astype(np.int64) * DAY, None))
    if array.type.tz not in (None, "UTC"):
        return None
    try:
        micros = array.cast(pa.timestamp("us", array.type.tz)).view(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # an overflow
        return None
    times = _within(Times(DATETIME, micros, None))
    if times is not None and array.type.tz and len(array):
        times.zone = array[0].as_py().tzinfo  # that of the objects that Arrow makes
    return times


def _within(times: Times) -> Times | None:
    """Return times that Python has dates for."""
    seconds = times.micros // SECOND
    return times if not len(seconds) or (int(seconds.min()) >= _FIRST and int(seconds.max()) <= _LAST) else None


def from_timestamp(number: Column, *zone: Column) -> Column | None:
    if not (zone and zone[0].constant and zone[0].data is UTC) or number.constant:
        return None
    if number.kind == INT:
        low, high = number.bounds()
        return Times(DATETIME, number.data * SECOND, UTC) if low >= _FIRST and high <= _LAST else None
    if not bool(((number.data >= _FIRST) & (number.data <= _LAST)).all()):
        return None
    rest, whole = np.modf(number.data)  # as Python does: the rest is rounded to microseconds, half to even
    return Times(DATETIME, whole.astype(np.int64) * SECOND + np.rint(rest * 1e6).astype(np.int64), UTC)


_WIDTHS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "f": 6}


def template(written: str) -> list[str] | None:
    """Return a format as directives (``"%Y"``) and other letters; ``None`` if it has a directive that is not known here.

    >>> template("%H:%M")
    ['%H', ':', '%M']
    """
    parts, at = [], 0
    while at < len(written):
        step = 2 if written[at] == "%" else 1
        part = written[at : at + step]
        if not part.isascii() or (step == 2 and part[1:] not in (*_WIDTHS, "%")):
            return None
        parts.append("%" if part == "%%" else part)
        at += step
    return parts


def _read(texts: Any, parts: list[str]) -> Array | None:
    """Return the microseconds of texts that are all written as a template says, to the letter."""
    offsets, content = parts_of(texts)
    widths = [_WIDTHS[part[1]] if len(part) > 1 else 1 for part in parts]
    total = sum(widths)
    if not total or not bool((np.diff(offsets) == total).all()):
        return None
    # Letter by letter for all texts: rows of bytes, which are next to each other.
    letters = np.ascontiguousarray(content[offsets[0] : offsets[-1]].reshape(-1, total).T)
    found: dict[str, Array] = {}
    at = 0
    for part, width in zip(parts, widths, strict=True):
        rows = letters[at : at + width]
        at += width
        if len(part) == 1:
            if not bool((rows == ord(part)).all()):
                return None
            continue
        digits = rows - 48
        if part in found or bool((digits > 9).any()):
            return None
        found[part] = _number_of(digits)
    return _counted(found)


def _number_of(digits: Array) -> Array:
    """Return the numbers of rows of digits; of two digits each, for as long as they fit into a byte."""
    pairs = digits[::2] * 10 + digits[1::2]
    number = pairs[0].astype(np.int64)
    for pair in pairs[1:]:
        number = number * 100 + pair
    return number


def _counted(found: dict[str, Array]) -> Array | None:
    """Return the microseconds of the parts of a time, each of which has to be one."""
    if not {"%Y", "%m", "%d"} <= found.keys():
        return None
    year, month, day = found["%Y"], found["%m"], found["%d"]
    if not bool(((year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)).all()):
        return None
    months = (year - 1970) * 12 + (month - 1)
    begins = _begin_of(months)
    late = np.flatnonzero(day > _ALWAYS)
    if bool((day[late] > _begin_of(months[late] + 1) - begins[late]).any()):
        return None
    micros = (begins + (day - 1)) * DAY
    for part, limit, size in (
        ("%H", 24, 3600 * SECOND),
        ("%M", 60, 60 * SECOND),
        ("%S", 60, SECOND),
        ("%f", SECOND, 1),
    ):
        if part in found:
            if bool((found[part] >= limit).any()):
                return None
            micros += found[part] * size
    return micros


def _begin_of(months: Array) -> Array:
    """Return the days on which months begin, both counted since 1970."""
    return months.view("M8[M]").astype("M8[D]").view(np.int64)


def parsed(text: Column, written: Column) -> Column | None:
    parts = template(written.data) if written.constant and isinstance(written.data, str) else None
    if parts is None or text.constant or any(part.isspace() and part != " " for part in parts):
        return None
    micros = _read(text.data, parts)
    return None if micros is None else Times(DATETIME, micros, None)


ISO = ["%Y", "-", "%m", "-", "%d"]
CLOCK = ["%H", ":", "%M", ":", "%S"]
_MOST_LENGTHS = 3


def from_iso(text: Column) -> Column | None:
    if text.constant:
        return None
    lengths = np.diff(parts_of(text.data)[0])
    known = np.flatnonzero(np.bincount(lengths)).tolist()
    if len(known) == 1:
        found = _iso_times(text.data)
        return None if found is None else Times(DATETIME, *found)
    micros, zones = np.empty(len(lengths), np.int64), []
    for length in known if len(known) <= _MOST_LENGTHS else ():
        places = np.flatnonzero(lengths == length)
        found = _iso_times(text.data.take(places))
        if found is None:
            return None
        micros[places] = found[0]
        zones.append(found[1])
    return Times(DATETIME, micros, zones[0]) if zones and all(zone is zones[0] for zone in zones) else None


def _iso_times(texts: Any) -> tuple[Array, Any] | None:
    """Return the microseconds of ISO 8601 in one way of writing, and the time zone."""
    sample = texts[0].as_py()
    date_and_time, zone, end = sample, None, ""
    for each in ("+00:00", "Z"):
        if sample.endswith(each):
            date_and_time, zone, end = sample[: -len(each)], UTC, each
    fraction = date_and_time[19:]
    if len(date_and_time) not in (19, 23, 26) or sample[10] not in "T " or fraction[:1] not in ("", "."):
        return None
    letters = [*ISO, sample[10], *CLOCK]
    if len(fraction) == 7:
        return _with(_read(texts, [*letters, ".", "%f", *end]), zone)
    if len(fraction) == 4:  # three digits: as if three zeros came after them
        texts = pc.binary_replace_slice(texts, start=23, stop=23, replacement="000")
        return _with(_read(texts, [*letters, ".", "%f", *end]), zone)
    return _with(_read(texts, [*letters, *end]), zone)


def _with(micros: Array | None, zone: Any) -> tuple[Array, Any] | None:
    return None if micros is None else (micros, zone)


def date_from_iso(text: Column) -> Column | None:
    micros = None if text.constant else _read(text.data, ISO)
    return None if micros is None else Times(DATE, micros, None)


# ---- What is asked of datetimes and dates that are microseconds: numbers, texts, comparisons, other times.
#
# A form gets the columns of the arguments, of which the first that is no constant is ``Times``. It returns ``None``
# where the result may not be Python's; then the objects are made, and asked.


_FOUR_DIGITS = 1000
_REPEATED = 2
"""A property of days is computed once for each of a range, if there are so many times as many values."""
_EPOCH_DAY = date(1970, 1, 1).toordinal()


def _by_day(how: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a property of days, as a function of microseconds: computed once per day, if these are few."""

    def number(micros: Array) -> Array:
        days = micros // DAY
        low, high = int(days.min()), int(days.max())
        if (high - low) * _REPEATED > len(days):
            return how(days.view("M8[D]"))
        # Hot: 2 ns a value in place of 7 to 14.
        return how(np.arange(low, high + 1).view("M8[D]")).take(days - low)

    return number


def _year(days: Array) -> Array:
    return days.astype("M8[Y]").view(np.int64) + 1970


def _month(days: Array) -> Array:
    return days.astype("M8[M]").view(np.int64) % 12 + 1


def _day(days: Array) -> Array:
    return (days - days.astype("M8[M]").astype("M8[D]")).view(np.int64) + 1


_NUMBERS: dict[str, Callable[[Array], Array]] = {
    "year": _by_day(_year),
    "month": _by_day(_month),
    "day": _by_day(_day),
    "hour": lambda micros: micros // (3600 * SECOND) % 24,
    "minute": lambda micros: micros // (60 * SECOND) % 60,
    "second": lambda micros: micros // SECOND % 60,
    "microsecond": lambda micros: micros % SECOND,
    "weekday": lambda micros: (micros // DAY + 3) % 7,
    "isoweekday": lambda micros: (micros // DAY + 3) % 7 + 1,
    "toordinal": lambda micros: micros // DAY + _EPOCH_DAY,
}
_DIRECTIVES = {
    "%Y": "year",
    "%m": "month",
    "%d": "day",
    "%H": "hour",
    "%M": "minute",
    "%S": "second",
    "%f": "microsecond",
}


def _number(name: str) -> Callable[[Times], Column]:
    return lambda times: Column(INT, _NUMBERS[name](times.micros))


def _written(times: Times, parts: list[str], more: tuple[Column, ...] = ()) -> Column | None:
    """Return texts by a template, and the columns after them."""
    years = _NUMBERS["year"](times.micros)
    if int(years.min()) < _FOUR_DIGITS:
        return None  # C does not fill them up everywhere
    made = concatenated([_piece(times, years, part) for part in parts], len(years))
    if not more:
        return made
    # Hot: pieces of one length each are put together first, by rows of bytes: ``isoformat`` takes 240 in place of 295 ns.
    return concatenated([Column(STR, made.data), *more], len(years))


def _piece(times: Times, years: Array, part: str) -> Column:
    if len(part) == 1:
        return Column(STR, part, True)
    if part == "%Y":
        return Column(INT, years)
    number = _NUMBERS[_DIRECTIVES[part]](times.micros)
    if part == "%f":
        return Column(STR, _six_digits(number))
    return Column(STR, _two_digits().take(pa.array(number)))


@functools.cache
def _two_digits() -> Any:
    return pa.array([f"{each:02}" for each in range(100)])


def _six_digits(numbers: Array) -> Any:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width=6, padding="0")


def isoformat(times: Times, between: str = "T") -> Column | None:
    """Return ``isoformat()``: microseconds only where there are any."""
    if times.kind == DATE:
        return _written(times, ISO)
    micros = times.micros % SECOND
    more = []
    if micros.any():
        digits = pc.binary_join_element_wise(".", _six_digits(micros), "")
        more.append(Column(STR, pc.if_else(pa.array(micros == 0), "", digits)))
    if times.zone is not None:
        more.append(Column(STR, "+00:00", True))
    return _written(times, [*ISO, between, *CLOCK], tuple(more))


def strftime(times: Times, written: Column) -> Column | None:
    """Return ``time.strftime(written)``."""
    told = written.data if written.constant else None
    if not isinstance(told, str):
        return None
    parts = template(told)
    return None if parts is None or not parts else _written(times, parts)


def formatted(times: Times, spec: Column) -> Column | None:
    """Return ``format(time, spec)``."""
    return text(times) if spec.constant and spec.data == "" else strftime(times, spec)


def text(times: Times) -> Column | None:
    """Return ``str(time)``."""
    return isoformat(times, " ")


def timestamp(times: Times) -> Column | None:
    """Return ``time.timestamp()``."""
    if int(np.abs(times.micros).max()) >= 2**53 or (times.zone is None and time.tzname != ("UTC", "UTC")):
        return None  # without a time zone, that of the machine is meant
    return Column(FLOAT, times.micros / 1e6)


def in_zone(times: Times, zone: Column) -> Column | None:
    """Return ``time.replace(tzinfo=zone)``."""
    known = zone.constant and (zone.data is UTC or zone.data is None)
    return Times(DATETIME, times.micros, zone.data) if known else None


def _compared(op: str) -> Callable[..., Column | None]:
    def form(one: Column, other: Column) -> Column | None:
        left, right = _instants(one), _instants(other)
        if left is None or right is None or (left[1] is None) != (right[1] is None):
            return None  # one with a time zone, one without
        return Column(BOOL, COMPARE[op](left[0], right[0]))

    return form


def _instants(column: Column) -> tuple[Any, Any] | None:
    """Return the order of datetimes in UTC, or without a time zone, and the zone; ``None`` for others."""
    if isinstance(column, Times):
        return (column.micros, column.zone) if column.kind == DATETIME else None
    value = column.data if column.constant else None
    if type(value) is not datetime or value.tzinfo not in (None, UTC):
        return None
    return (value - datetime(1970, 1, 1, tzinfo=value.tzinfo)) // timedelta(microseconds=1), value.tzinfo


def day_of(times: Times) -> Times:
    """Return ``time.date()``."""
    return Times(DATE, times.micros // DAY * DAY, None)


year, month, day = map(_number, ("year", "month", "day"))
hour, minute, second, microsecond = map(_number, ("hour", "minute", "second", "microsecond"))
weekday, isoweekday, toordinal = map(_number, ("weekday", "isoweekday", "toordinal"))
lt, le, eq, ne, gt, ge = map(_compared, ("<", "<=", "==", "!=", ">", ">="))


__all__ = [
    "CLOCK",
    "DAY",
    "ISO",
    "SECOND",
    "Times",
    "day",
    "day_of",
    "eq",
    "formatted",
    "ge",
    "gt",
    "hour",
    "in_zone",
    "isoformat",
    "isoweekday",
    "le",
    "lt",
    "microsecond",
    "minute",
    "month",
    "ne",
    "second",
    "strftime",
    "template",
    "text",
    "times_of",
    "timestamp",
    "toordinal",
    "weekday",
    "year",
]
