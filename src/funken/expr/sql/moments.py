"""The calendar: months and spans added to times, months between them, times cut to a unit; all in the proleptic calendar."""

from __future__ import annotations

import calendar
import datetime
from collections.abc import Callable
from typing import Any

from funken.expr.rules import EvaluationError
from funken.expr.sql.texts import DAY_MS, DAY_NS
from funken.expr.sql.types import DateType, LogicalType, TimeOfDayType, YearMonthIntervalType
from funken.expr.sql.values import MILLIS

_FIRST = datetime.date(1970, 1, 1).toordinal()
SPANS = {"WEEK": 7 * DAY_MS, **MILLIS, "MILLISECOND": 1}
MONTHS_OF = {"MILLENNIUM": 12000, "CENTURY": 1200, "DECADE": 120, "YEAR": 12, "QUARTER": 3, "MONTH": 1}


def nanos_of(type_: LogicalType) -> Callable[[int], int]:
    """Return the function from a time of a type to nanoseconds."""
    if isinstance(type_, DateType):
        return lambda value: value * DAY_NS
    if isinstance(type_, TimeOfDayType):
        return lambda value: value * 10**6
    return lambda value: value


def date_of(days: int) -> datetime.date:
    """Return the date so many days from 1970."""
    try:
        return datetime.date.fromordinal(days + _FIRST)
    except (ValueError, OverflowError):
        raise EvaluationError(f"a time {days} days from 1970 is outside of the years 1 to 9999") from None


def add_months(days: int, months: int) -> int:
    """Return a day so many months later, the last one of the month if it has no such day."""
    date = datetime.date.fromordinal(days + _FIRST)
    year, month = divmod(date.year * 12 + date.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise EvaluationError(f"a date of the year {year} is outside of the years 1 to 9999")
    day = min(date.day, calendar.monthrange(year, month + 1)[1])
    return datetime.date(year, month + 1, day).toordinal() - _FIRST


def plus_interval(sign: int, moment: LogicalType, interval: LogicalType, result: LogicalType) -> Callable[..., Any]:
    """Return the function from a time and an interval to the time later (``sign`` 1) or earlier (-1)."""
    if isinstance(interval, YearMonthIntervalType):
        if isinstance(moment, DateType):
            return lambda days, months: add_months(days, sign * months)
        if isinstance(moment, TimeOfDayType):
            return lambda millis, months: millis

        def later(nanos: int, months: int) -> int:
            days, rest = divmod(nanos, DAY_NS)
            return add_months(days, sign * months) * DAY_NS + rest

        return later
    if isinstance(moment, DateType):
        if isinstance(result, DateType):
            return lambda days, millis: days + sign * int(millis / DAY_MS)
        return lambda days, millis: days * DAY_NS + sign * millis * 10**6
    if isinstance(moment, TimeOfDayType):
        return lambda millis, span: (millis + sign * span) % DAY_MS
    step = 10 ** (9 - getattr(result, "precision", 9))
    if step > 10**6:  # a type of fewer than three digits
        return lambda nanos, millis: (nanos + sign * millis * 10**6) // step * step
    return lambda nanos, millis: nanos + sign * millis * 10**6


def months_between(earlier: int, later: int) -> int:
    """Return the whole months from one time to another, both in nanoseconds, as Calcite counts them.

    Days decide, and the times of day only where whole months lead from one day to the other.
    """
    (days, rest), (other_days, other_rest) = divmod(earlier, DAY_NS), divmod(later, DAY_NS)
    first, last = sorted((days, other_days))
    one, other = date_of(first), date_of(last)
    months = (other.year - one.year) * 12 + other.month - one.month
    if add_months(first, months) > last:
        months -= 1
    if first != days:
        months = -months
    return months - (add_months(days, months) == other_days and other_rest < rest)


def floor_time(nanos: int, unit: str) -> int:
    """Return a local time cut to a unit; weeks begin on Sunday."""
    span = SPANS.get(unit)
    if unit == "WEEK":
        days = nanos // DAY_NS
        return (days - (days + 4) % 7) * DAY_NS
    if span is not None:
        return nanos // (span * 10**6) * (span * 10**6)
    if unit in {"MICROSECOND", "NANOSECOND"}:
        return nanos // 1000 * 1000 if unit == "MICROSECOND" else nanos
    return _floor_months(nanos, unit)


def _floor_months(nanos: int, unit: str) -> int:
    date = date_of(nanos // DAY_NS)
    year, month = date.year, 1
    if unit == "MONTH":
        month = date.month
    elif unit == "QUARTER":
        month = (date.month - 1) // 3 * 3 + 1
    elif unit == "DECADE":
        year = year // 10 * 10
    elif unit in {"CENTURY", "MILLENNIUM"}:
        size = 100 if unit == "CENTURY" else 1000
        year = (year - 1) // size * size + 1
    return (datetime.date(year, month, 1).toordinal() - _FIRST) * DAY_NS


def ceil_time(nanos: int, unit: str) -> int:
    """Return a local time, or the next one that is whole in a unit."""
    floor = floor_time(nanos, unit)
    if floor == nanos:
        return nanos
    if unit in MONTHS_OF:
        if floor // DAY_NS == nanos // DAY_NS:  # Flink does not look at the time of the first day
            return floor
        return add_months(floor // DAY_NS, MONTHS_OF[unit]) * DAY_NS
    return floor + SPANS.get(unit, 0) * 10**6 + (1000 if unit == "MICROSECOND" else 0)
