"""The forms of NumPy's and pandas' scalars: those of Python's numbers, texts, times and durations that they are equal to.

NumPy compares times in steps of ``==`` that do not lead on: a time in nanoseconds is equal to the same time in seconds, which is
equal to a ``datetime``, but not itself. Here all of these are one key; so are durations. Neither library is imported.
"""

from __future__ import annotations

import datetime
import fractions
import sys
from typing import Any

from funken.state.keys.form import NAT, Form, Named, complex_form, float_form, refusal
from funken.state.keys.times import duration, instant, naive_datetime

_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - compared with times of no zone
_STEPS = {
    "W": 604_800 * 10**18, "D": 86_400 * 10**18, "h": 3600 * 10**18, "m": 60 * 10**18, "s": 10**18, "ms": 10**15,
    "us": 10**12, "ns": 10**9, "ps": 10**6, "fs": 10**3, "as": 1,
}  # fmt: skip
"""Units of times, in attoseconds."""
_MICRO = 10**12
_FIRST, _LAST = (
    (limit - _EPOCH) // datetime.timedelta(microseconds=1)
    for limit in (datetime.datetime.min, datetime.datetime.max)  # noqa: DTZ901
)
_LONGEST = datetime.timedelta.max // datetime.timedelta(microseconds=1)


def library_form(kind: type) -> Form | None:
    """Return what gives the form of keys of a class of NumPy or pandas; ``None`` if it is none of these."""
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    base: Any
    form: Form
    if pandas is not None:
        for base, form in (
            (type(pandas.NaT), lambda key: NAT),
            (type(pandas.NA), lambda key: Named(("NA",), ("NA",))),
            (pandas.Timestamp, _timestamp),
            (pandas.Timedelta, _timedelta),
            (pandas.Period, _period),
            (pandas.Interval, _interval),
        ):
            if issubclass(kind, base) and _inherits(kind, base):
                return form
    if numpy is not None and issubclass(kind, numpy.generic):
        for base, form in (
            (numpy.datetime64, _datetime64),
            (numpy.timedelta64, _timedelta64),
            (numpy.bool_, bool),
            (numpy.integer, int),
            (numpy.floating, _floating),
            (numpy.complexfloating, _complex),
            (numpy.str_, str.__str__),
            (numpy.bytes_, _bytes),
        ):
            if issubclass(kind, base) and kind.__module__ == "numpy":
                return form
    return None


def _inherits(kind: type, base: type) -> bool:
    return kind.__eq__ is base.__eq__ and kind.__hash__ is base.__hash__


# ---- NumPy


def _floating(key: Any) -> Any:
    value = float(key)
    if value == key or value != value:  # noqa: PLR0124
        return float_form(value)
    return fractions.Fraction(*map(int, key.as_integer_ratio()))  # a long double


def _complex(key: Any) -> Any:
    value = complex(key)
    if value != key and key == key:  # noqa: PLR0124
        raise refusal(key, "it has more digits than a complex number of Python")
    return complex_form(value)


def _bytes(key: Any) -> bytes:
    return bytes.__add__(key, b"")


def attoseconds(key: Any) -> int | None:
    """Return a time since 1970, or a duration, of NumPy; ``None`` if it is none. Raises ``KeyNotHashable`` without a unit."""
    numpy = sys.modules["numpy"]
    if numpy.isnat(key):
        return None
    unit, count = numpy.datetime_data(key.dtype)
    if unit in {"Y", "M"} and isinstance(key, numpy.datetime64):
        days = key.astype("datetime64[D]")
        unit, count, key = "D", 1, days
    if unit not in _STEPS:
        raise refusal(key, "its unit has no length that is always the same")
    exact: int = int(key.view(numpy.int64)) * count * _STEPS[unit]
    return exact


def microseconds(key: Any) -> int | None:
    """Return a time or duration of NumPy in microseconds, if it is one of Python's as well."""
    exact = attoseconds(key)
    if exact is None or exact % _MICRO:
        return None
    micros = exact // _MICRO
    numpy = sys.modules["numpy"]
    low, high = (_FIRST, _LAST) if isinstance(key, numpy.datetime64) else (-_LONGEST, _LONGEST)
    return micros if low <= micros <= high else None


def _datetime64(key: Any) -> Named:
    exact, micros = attoseconds(key), microseconds(key)
    if exact is None:
        return NAT
    if micros is None:
        return Named(("datetime64", exact), ("datetime64", exact))
    return naive_datetime((_EPOCH + datetime.timedelta(microseconds=micros)).isoformat())


def _timedelta64(key: Any) -> Named:
    exact, micros = attoseconds(key), microseconds(key)
    if exact is None:
        return NAT
    if micros is None:
        return Named(("timedelta64", exact), ("timedelta64", exact))
    same = datetime.timedelta(microseconds=micros)
    return duration(same.days, same.seconds, same.microseconds)


# ---- pandas


def _timestamp(key: Any) -> Named:
    offset = key.utcoffset()
    if offset is None:
        return naive_datetime(key.isoformat())
    shown = datetime.datetime(  # noqa: DTZ001
        key.year, key.month, key.day, key.hour, key.minute, key.second, key.microsecond
    )
    offset = datetime.timedelta(offset.days, offset.seconds, offset.microseconds)
    return instant((shown - _EPOCH - offset) // datetime.timedelta(microseconds=1), key.nanosecond)


def _timedelta(key: Any) -> Named:
    return duration(key.days, key.seconds, key.microseconds, key.nanoseconds)


def _period(key: Any) -> Named:
    identity = ("period", key.freqstr, key.ordinal)
    return Named(identity, identity)


def _interval(key: Any) -> Named:
    identity = ("interval", key.closed, key.left, key.right)
    return Named(identity, identity)
