"""Dates, times, differences of times."""

from __future__ import annotations

import datetime as dates
import operator
from collections.abc import Callable
from typing import Any

from funken.expr.python.objects import DATE, DATETIME, TIMEDELTA, TIMEZONE
from funken.expr.python.operation import OperationRule, Signatures
from funken.expr.types import FLOAT, INT, NONE, STR, Atomic

_CLASSES: dict[Atomic, Any] = {DATETIME: dates.datetime, DATE: dates.date, TIMEDELTA: dates.timedelta}
_ATTRIBUTES = {
    DATETIME: ("year", "month", "day", "hour", "minute", "second", "microsecond"),
    DATE: ("year", "month", "day"),
    TIMEDELTA: ("days", "seconds", "microseconds"),
}
_FORMATS = {1: ("%Y-%m-%d %H:%M:%S", "%d.%m.%y", "%H:%M:%S.%f", "%j %A", "", "%Y")}
_WRITTEN = {0: ("2024-02-29", "2024-02-29T23:59:59.999999", "1969-12-31T23:00:00Z", "2024-02-30", "")}


def _attribute(kind: Atomic, name: str) -> OperationRule:
    kernel = "" if kind == TIMEDELTA else f"kernels.times.{name}"
    written = f"{{0}}.{name}"
    return OperationRule(
        f"@{kind}.{name}", operator.attrgetter(name), {(kind,): INT}, times=kernel, written=written, group="times"
    )


def _method(kind: Atomic, name: str, result: Atomic, kernel: str = "", *given: Atomic, **more: Any) -> OperationRule:
    function = getattr(_CLASSES[kind], name)
    return OperationRule(f"{kind}.{name}", function, {(kind, *given): result}, times=kernel, group="times", **more)


def _function(name: str, function: Callable[..., Any], signatures: Signatures, **more: Any) -> OperationRule:
    return OperationRule(name, function, signatures, target=function, group="times", **more)


def _in_zone(time: dates.datetime, zone: dates.tzinfo | None) -> dates.datetime:
    return time.replace(tzinfo=zone)


OPERATIONS = [
    *(_attribute(kind, name) for kind, names in _ATTRIBUTES.items() for name in names),
    *(
        _method(kind, name, INT, f"kernels.times.{name}")
        for kind in (DATETIME, DATE)
        for name in ("weekday", "isoweekday", "toordinal")
    ),
    *(_method(kind, "isoformat", STR, "kernels.times.isoformat") for kind in (DATETIME, DATE)),
    *(_method(kind, "strftime", STR, "kernels.times.strftime", STR, constants=_FORMATS) for kind in (DATETIME, DATE)),
    _method(DATETIME, "timestamp", FLOAT, "kernels.times.timestamp"),
    _method(DATETIME, "date", DATE, "kernels.times.day_of"),
    OperationRule(
        "datetime.replace tzinfo", _in_zone, {(DATETIME, TIMEZONE): DATETIME, (DATETIME, NONE): DATETIME}, group="times",
        times="kernels.times.in_zone", written="{0}.replace(tzinfo={1})", constants={1: (dates.UTC, None)},
    ),
    _method(TIMEDELTA, "total_seconds", FLOAT),
    _function(
        "datetime.fromtimestamp", dates.datetime.fromtimestamp,
        {(kind, *zone): DATETIME for kind in (INT, FLOAT) for zone in ((), (TIMEZONE,))},
        numbers="kernels.times.from_timestamp", constants={1: (dates.UTC, dates.timezone(dates.timedelta(hours=-3)))},
    ),
    _function(
        "datetime.fromisoformat", dates.datetime.fromisoformat, {(STR,): DATETIME}, texts="kernels.times.from_iso",
        constants=_WRITTEN,
    ),
    _function(
        "datetime.strptime", dates.datetime.strptime, {(STR, STR): DATETIME}, texts="kernels.times.parsed", constants=_FORMATS
    ),
    _function("date.fromisoformat", dates.date.fromisoformat, {(STR,): DATE}, texts="kernels.times.date_from_iso"),
]  # fmt: skip

__all__ = ["OPERATIONS"]
