"""The forms of dates, times and durations: what Python compares of them, whatever their zone and class."""

from __future__ import annotations

import datetime
import fractions
import zoneinfo
from typing import Any

from funken.state.keys.form import Named, alone, refusal

_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - compared with times of no zone
_MICROSECOND = datetime.timedelta(microseconds=1)
_DAY = 86_400_000_000


def date_form(key: Any) -> Named:
    """Return the form of a date."""
    text = datetime.date.isoformat(key)
    return alone("date", text)


def datetime_form(key: Any) -> Named:
    """Return the form of a datetime."""
    if key.utcoffset() is None:
        return naive_datetime(datetime.datetime.isoformat(key.replace(tzinfo=None) if key.tzinfo else key))
    return aware_datetime(key)


def naive_datetime(text: str) -> Named:
    """Return the form of a time of no zone, given in ISO 8601."""
    return Named(("dt", text), ("datetime", text))


def aware_datetime(key: datetime.datetime) -> Named:
    """Return the form of an instant; in an hour that clocks repeat or leave out, that of the time that they show.

    There Python compares times of one zone as they are shown, whatever their ``fold``, and never finds a time equal to one of
    another zone (PEP 495); its hash is that of ``fold=0``.
    """
    shown = key.replace(tzinfo=None, fold=0)
    first, second = key.replace(fold=0).utcoffset(), key.replace(fold=1).utcoffset()
    assert first is not None
    at = (shown - _EPOCH - first) // _MICROSECOND
    if first == second:
        return instant(at)
    return Named(instant(at).hashed, ("wall", shown.isoformat(), _zone(key)))


def instant(microseconds: int, nanoseconds: int = 0) -> Named:
    """Return the form of an instant, in microseconds since 1970, and nanoseconds beyond."""
    exact = fractions.Fraction(microseconds * 1000 + nanoseconds, 10**9)
    return Named(("dt", microseconds / 10**6), ("instant", exact))


def _zone(key: datetime.datetime) -> str:
    """Return the name of the zone of a time that Python compares with times of the very same zone only."""
    zone = key.tzinfo
    if not isinstance(zone, zoneinfo.ZoneInfo) or zone.key is None:
        raise refusal(
            key, "its clocks are changed at that time, and its zone is no ZoneInfo, which is the same in every process"
        )
    return zone.key


def time_form(key: Any) -> Named:
    """Return the form of a time."""
    offset = key.utcoffset()
    if offset is None:
        return alone("time", datetime.time.isoformat(key.replace(tzinfo=None) if key.tzinfo else key))
    shown = datetime.timedelta(
        hours=key.hour, minutes=key.minute, seconds=key.second, microseconds=key.microsecond
    )  # fmt: skip
    at = (shown - offset) // _MICROSECOND
    if 0 <= at < _DAY:
        return alone("time", (_EPOCH + at * _MICROSECOND).time().isoformat() + "+00:00")
    return alone("time", at)


def timedelta_form(key: Any) -> Named:
    """Return the form of a timedelta."""
    return duration(key.days, key.seconds, key.microseconds)


def duration(days: int, seconds: int, microseconds: int, nanoseconds: int = 0) -> Named:
    """Return the form of a duration."""
    parts = (days, seconds, microseconds)
    return Named(("td", *parts), ("timedelta", *parts, nanoseconds) if nanoseconds else ("timedelta", *parts))
