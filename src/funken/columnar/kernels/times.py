"""Datetimes and dates as microseconds since 1970, for as long as no one needs the objects.

``Times`` is a column of them. What is asked of them (an hour, a weekday, a timestamp, a text) is arithmetic on arrays then, and
so is reading them: from numbers, and from texts that are all written alike. Only UTC and datetimes without a time zone are known
here; what else Python knows, and all that is out of bounds, is left to its own functions, which make objects.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import repeat
from typing import Any

import numpy as np

from funken.columnar.kernels.arrow import pa, pc
from funken.columnar.kernels.columns import Array, Column, MadeLater
from funken.columnar.kernels.text import parts_of
from funken.expr.python.objects import DATE, DATETIME
from funken.expr.types import INT, Atomic

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


__all__ = ["CLOCK", "DAY", "ISO", "SECOND", "Times", "template", "times_of"]
