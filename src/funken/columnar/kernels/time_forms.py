"""What is asked of datetimes and dates that are microseconds: numbers, texts, comparisons, other times.

A form gets the columns of the arguments, of which the first that is no constant is ``Times``. It returns ``None`` where the
result may not be Python's; then the objects are made, and asked.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from funken.columnar.kernels.arithmetic import COMPARE
from funken.columnar.kernels.arrow import pa, pc
from funken.columnar.kernels.columns import Array, Column
from funken.columnar.kernels.ropes import concatenated
from funken.columnar.kernels.times import CLOCK, DAY, ISO, SECOND, Times, template
from funken.expr.python.objects import DATE, DATETIME
from funken.expr.types import BOOL, FLOAT, INT, STR

_FOUR_DIGITS = 1000
_REPEATED = 2
"""What days have is found out once for each of a range, if there are so many times as many values."""
_EPOCH_DAY = date(1970, 1, 1).toordinal()


def _by_day(how: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return what days have, as a function of microseconds: of each day once, if these are few."""

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
    """Return texts as a template says, and what comes after them."""
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
    """Return what datetimes in UTC, or without a time zone, are compared by, and the zone; ``None`` for others."""
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
