"""The forms of keys: equal keys have equal forms, different keys have different ones, in every process.

Python compares a key by the ``__eq__`` and ``__hash__`` of its class. A class that inherits both from a class that is known
here has the form of that class: a text enum and a ``str`` with a ``__str__`` of its own are texts, a named tuple is a tuple.
A class with a comparison of its own has no form: it brings ``__stable_hash__``, or its keys are refused.

A form is *plain*: ``None``, an exact ``str``, ``bytes``, ``int``, ``bool``, ``float``, ``complex``, ``Decimal``, ``Fraction``,
``tuple`` or ``frozenset``, or it is ``Named``, ``NAN``, or an object with ``__stable_hash__``. Parts of a form are keys.
``library_form`` gives those of NumPy's and pandas' classes.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import ipaddress
import numbers
import os
import pathlib
import re
import sys
import types
import uuid
import zoneinfo
from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import Any, NamedTuple, TypeAlias

from funken.dataclass import dataclass
from funken.errors import KeyNotHashable
from funken.types.row import Row

# ---- What a form is: equal keys have equal forms, different keys have different ones. And the errors for keys
# without one.


_object_eq: Any = object.__eq__


class Named(NamedTuple):
    """The form of keys that are equal to keys of their own type only.

    ``hashed`` is hashed as a tuple of keys; ``identity`` begins with the name of the kind and tells all its keys apart.
    """

    hashed: tuple[Any, ...]
    identity: tuple[Any, ...]


class Greatest:
    """A key that is equal to itself only, and greater than all others: NaN where keys are sorted, as in Java.

    >>> sorted([NAN, 2.0, 1.0]), max([(1, NAN), (1, 5)]), NAN < NAN, NAN == NAN
    ([1.0, 2.0, nan], (1, nan), False, True)
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return other is not self

    def __le__(self, other: object) -> bool:
        return other is self

    def __ge__(self, other: object) -> bool:
        return True

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return "NAN" if self is NAN else "NO_TIME"


NAN = Greatest("nan")
"""The form of every real number that is not a number."""
NO_TIME = Greatest("NaT")
NAT = Named(("dt", "NaT"), ("NaT",))
"""The form of every time, and every duration, that is none."""

Form: TypeAlias = Callable[[Any], Any]
"""Returns the form of a key of one class."""

EXACT = frozenset(
    {str, int, bytes, bool, tuple, frozenset, decimal.Decimal, fractions.Fraction, float, complex, type(None)}
)
"""The classes of plain forms. Numbers among them may still be NaN, or complex with a real value."""


def alone(*identity: Any) -> Named:
    """Return the form of a key whose hash is that of all that tells it apart."""
    return Named(identity, identity)


def float_form(key: Any) -> Any:
    """Return the form of a float."""
    return key if key == key else NAN  # noqa: PLR0124 - this is what NaN is


def complex_form(key: Any) -> Any:
    """Return the form of a complex number: of its real part, if that is all."""
    key = complex(key)
    if key.imag == 0:
        return float_form(key.real)
    if key == key:  # noqa: PLR0124
        return key
    return alone("complex", key.real, key.imag)


def refusal(key: Any, why: str = "") -> KeyNotHashable:
    """Return the error for a key that has no form."""
    kind: Any = type(key)
    if not why:
        own = kind.__eq__ is not _object_eq
        why = (
            "its class has an __eq__ or __hash__ of its own, which only this process can ask"
            if own
            else "it is equal to nothing but itself, so only this process knows it"
        )
    return KeyNotHashable(
        f"a key of type {kind.__qualname__!r} ({short(key)}) has no hash that is equal in every process: {why}. Return a "
        "str, number, tuple, enum or frozen dataclass from the key selector, or give the class a method "
        "__stable_hash__() -> int."
    )


def unhashable(key: Any) -> KeyNotHashable:
    """Return the error for a key that Python cannot hash."""
    remedy = "Return something hashable from the key selector, for example a tuple instead of a list."
    if dataclasses.is_dataclass(key):
        remedy = f"Declare {type(key).__qualname__} with @dataclass(frozen=True), or return a field of it as the key."
    return KeyNotHashable(
        f"unhashable type: {type(key).__qualname__!r}. The value of {short(key)} may change, so it is no key. {remedy}"
    )


def short(value: Any) -> str:
    """Return the text of a value, or the beginning of it."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - it is for a message only
        return "..."
    return text if len(text) <= 80 else text[:77] + "..."


# ---- Data classes as keys: which of their fields are compared and hashed, and whether that is all that makes them
# equal.
#
# Those of ``dataclasses``, and of the library ``attrs``.


_ATTRS = "__attrs_attrs__"


@cache
def has_generated_eq(kind: Any) -> bool:
    """Return True if objects of a class are equal as ``dataclasses`` says: of one class, with equal fields.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Point:
    ...     x: int
    >>> @dataclasses.dataclass(frozen=True)
    ... class Name:
    ...     text: str
    ...     def __eq__(self, other):
    ...         return self.text.lower() == other.text.lower()
    >>> has_generated_eq(Point), has_generated_eq(Name)
    (True, False)
    """
    owner = next(each for each in kind.__mro__ if "__eq__" in vars(each))
    code = getattr(owner.__eq__, "__code__", None)
    if _ATTRS in vars(owner) and code is not None:
        return code.co_filename.startswith("<attrs generated") and all(a.eq_key is None for a in getattr(owner, _ATTRS))
    if "__dataclass_fields__" not in vars(owner) or code is None:
        return False
    compared = [field.name for field in dataclasses.fields(owner) if field.compare]
    return any(_same(code, example) for example in (_standard(compared), _own()))


@cache
def key_fields(kind: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the fields of a data class that are hashed, and those that are compared."""
    if hasattr(kind, _ATTRS):
        fields = [(field.name, field.eq, field.hash) for field in getattr(kind, _ATTRS)]
    else:
        fields = [(field.name, field.compare, field.hash) for field in dataclasses.fields(kind)]
    return (
        tuple(name for name, compared, hashed in fields if (compared if hashed is None else hashed)),
        tuple(name for name, compared, _ in fields if compared),
    )


def _standard(compared: list[str]) -> CodeType:
    made: Any = dataclasses.make_dataclass("Example", [(name, object) for name in compared])
    code: CodeType = made.__eq__.__code__
    return code


def _own() -> CodeType:
    @dataclass(frozen=True)
    class Example:
        field: int

    example: Any = Example
    code: CodeType = example.__eq__.__code__
    return code


def _same(one: CodeType, other: CodeType) -> bool:
    return one.co_code == other.co_code and one.co_names == other.co_names and one.co_consts == other.co_consts


# ---- The forms of dates, times and durations: what Python compares of them, whatever their zone and class.


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


# ---- The forms of NumPy's and pandas' scalars: those of Python's numbers, texts, times and durations that they are
# equal to.
#
# NumPy compares times in steps of ``==`` that do not lead on: a time in nanoseconds is equal to the same time in
# seconds, which is equal to a ``datetime``, but not itself. Here all of these are one key; so are durations.
# Neither library is imported.


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
    """Return a function to the form of keys of a class of NumPy or pandas; ``None`` if it is none of these."""
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    base: Any
    form: Form
    if pandas is not None:
        for base, form in (
            (type(pandas.NaT), lambda key: NAT),
            (type(pandas.NA), lambda key: Named(("NA",), ("NA",))),
            (pandas.Timestamp, _timestamp),
            (pandas.Timedelta, lambda key: duration(key.days, key.seconds, key.microseconds, key.nanoseconds)),
            (pandas.Period, lambda key: alone("period", key.freqstr, key.ordinal)),
            (pandas.Interval, lambda key: alone("interval", key.closed, key.left, key.right)),
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


_forms: dict[type, Form] = {}
_object_hash: Any = object.__hash__
_member_hash: Any = enum.Enum.__hash__


def form_of(key: Any) -> Any:
    """Return the form of a key; raises ``KeyNotHashable`` for a key without one.

    >>> form_of(datetime.date(2024, 2, 29)).identity
    ('date', '2024-02-29')
    >>> class Colour(str, enum.Enum):
    ...     RED = "red"
    >>> form_of(Colour.RED), form_of(2.0), form_of(float("nan"))
    ('red', 2.0, nan)
    """
    kind = type(key)
    form = _forms.get(kind)
    if form is None:
        form = _forms[kind] = _find(key)
    return form(key)


def _find(key: Any) -> Form:
    """Return a function to the form of keys of the class of this one."""
    kind: Any = type(key)
    eq, hashing = kind.__eq__, kind.__hash__
    if hashing is None:
        raise unhashable(key)
    for base, form in _BASES:
        if issubclass(kind, base) and eq is base.__eq__ and hashing is base.__hash__:
            return form
    if hasattr(kind, "__stable_hash__"):
        return _itself
    if issubclass(kind, enum.Enum) and eq is _object_eq and hashing is _member_hash:
        return _flag if issubclass(kind, enum.Flag) else _member
    if issubclass(kind, type) and eq is _object_eq and hashing is _object_hash:
        return _class
    is_data = hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__attrs_attrs__")
    if is_data and hashing is not _object_hash and has_generated_eq(kind):
        return _data_class
    found = library_form(kind)
    if found is not None:
        return found
    if issubclass(kind, numbers.Number):
        return _number
    raise refusal(key)


# ---- plain keys


def _itself(key: Any) -> Any:
    return key


def _decimal(key: Any) -> Any:
    if not key.is_nan():
        return decimal.Decimal(key)
    if key.is_snan():
        raise refusal(key, "Python cannot hash a signaling NaN")
    return NAN


def _number(key: Any) -> Any:
    """Return the value of a number of a class that is not known, if it is equal to that value and has its hash."""
    try:
        if isinstance(key, numbers.Rational):
            value: Any = fractions.Fraction(int(key.numerator), int(key.denominator))
        elif hasattr(key, "as_integer_ratio") and key == key:  # noqa: PLR0124
            value = fractions.Fraction(*map(int, key.as_integer_ratio()))
        elif isinstance(key, numbers.Complex) and not isinstance(key, numbers.Real):
            value = complex(key)
        else:
            value = float(key)
        if value == key and hash(value) == hash(key):
            return form_of(value)
    except (TypeError, ValueError, ArithmeticError):
        pass
    raise refusal(key)


# ---- kinds of their own


def _member(key: Any) -> Named:
    kind = type(key)
    return Named((kind.__qualname__, key.name), ("enum", kind.__module__, kind.__qualname__, key.name))


def _flag(key: Any) -> Named:
    kind, name = type(key), key.name
    identity: tuple[Any, ...] = ("enum", kind.__module__, kind.__qualname__, name)
    if name is None or "|" in name:  # not one member: what it is, is its value
        identity = (*identity, key.value)
    return Named((kind.__qualname__, name), identity)


def _class(key: Any) -> Named:
    if "<locals>" in key.__qualname__:
        raise refusal(key, "it is a class that was made in a function, so it has no name in other processes")
    return alone("type", key.__module__, key.__qualname__)


def _data_class(key: Any) -> Named:
    kind: Any = type(key)
    hashed, compared = key_fields(kind)
    values = tuple(getattr(key, name) for name in hashed)
    identity = ("class", kind.__module__, kind.__qualname__, values)
    more = tuple(getattr(key, name) for name in compared if name not in hashed)
    for each in more:
        form_of(each)  # which is not hashed, but has to tell keys apart
    return Named((kind.__qualname__, *values), (*identity, more) if more else identity)


def _zone_info(key: Any) -> Named:
    if key.key is None or zoneinfo.ZoneInfo(key.key) is not key:
        raise refusal(key)
    return alone("ZoneInfo", key.key)


def _path(key: Any) -> Named:
    text = pathlib.PurePath.__str__(key)
    windows = isinstance(key, pathlib.PureWindowsPath)
    if windows or (os.name == "nt" and not isinstance(key, pathlib.PurePosixPath)):
        return alone("WindowsPath", text.lower())
    return alone("PosixPath", text)


def _address(name: str) -> Form:
    def form(key: Any) -> Named:
        return alone(name, str(key))

    return form


def _address6(name: str) -> Form:
    def form(key: Any) -> Named:
        text = str(key)
        mapped = key.ipv4_mapped
        if mapped is not None and "." in text:  # Python 3.13 writes these in another way
            text = text.replace(str(mapped), f"{int(mapped) >> 16:x}:{int(mapped) & 0xFFFF:x}")
        return alone(name, text)

    return form


def _range(key: Any) -> Named:
    count = len(key)
    return alone("range", count, key.start if count else None, key.step if count > 1 else None)


_BASES: tuple[tuple[Any, Form], ...] = (
    (str, str.__str__),
    (int, lambda key: int.__add__(key, 0)),
    (float, lambda key: float_form(float.__add__(key, 0.0))),
    (complex, complex_form),
    (bytes, _bytes),
    (tuple, lambda key: tuple(tuple.__iter__(key))),
    (frozenset, lambda key: frozenset(frozenset.__iter__(key))),
    (decimal.Decimal, _decimal),
    (fractions.Fraction, lambda key: fractions.Fraction(key.numerator, key.denominator)),
    (Row, lambda key: Named(parts := key.comparable(), ("row", parts))),
    (datetime.datetime, datetime_form),
    (datetime.date, date_form),
    (datetime.time, time_form),
    (datetime.timedelta, timedelta_form),
    (datetime.timezone, lambda key: alone("timezone", key.utcoffset(None))),
    (uuid.UUID, lambda key: alone("UUID", uuid.UUID.__str__(key))),
    (pathlib.PurePath, _path),
    (ipaddress.IPv4Interface, _address("IPv4Interface")),
    (ipaddress.IPv4Address, _address("IPv4Address")),
    (ipaddress.IPv4Network, _address("IPv4Network")),
    (ipaddress.IPv6Interface, _address6("IPv6Interface")),
    (ipaddress.IPv6Address, _address6("IPv6Address")),
    (ipaddress.IPv6Network, _address("IPv6Network")),
    (range, _range),
    (re.Pattern, lambda key: alone("pattern", key.pattern, key.flags)),
    (zoneinfo.ZoneInfo, _zone_info),
    (types.EllipsisType, lambda key: alone("singleton", repr(key))),
    (types.NotImplementedType, lambda key: alone("singleton", repr(key))),
)
"""Classes, with functions to the form of keys that are compared as theirs; a class before those it derives from."""

_forms.update({kind: _itself for kind in EXACT - {float, complex, decimal.Decimal}})
_forms[float] = float_form
_forms[Greatest] = lambda key: key if key is NAN else NAT
