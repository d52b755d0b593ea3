"""The forms of keys: equal keys have equal forms, different keys have different ones, in every process.

Python compares a key by the ``__eq__`` and ``__hash__`` of its class. A class that inherits both from a class that is known
here has the form of that class: a text enum and a ``str`` with a ``__str__`` of its own are texts, a named tuple is a tuple.
A class with a comparison of its own has no form: it brings ``__stable_hash__``, or its keys are refused.

A form is *plain*: ``None``, an exact ``str``, ``bytes``, ``int``, ``bool``, ``float``, ``complex``, ``Decimal``, ``Fraction``,
``tuple`` or ``frozenset``, or it is ``Named``, ``NAN``, or an object with ``__stable_hash__``. Parts of a form are keys.
``library_forms.py`` has those of NumPy's and pandas' classes.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import ipaddress
import numbers
import os
import pathlib
import re
import types
import uuid
import zoneinfo
from typing import Any

from funken.state.keys.data_classes import has_generated_eq, key_fields
from funken.state.keys.form import (
    EXACT,
    NAN,
    NAT,
    Form,
    Greatest,
    Named,
    alone,
    complex_form,
    float_form,
    refusal,
    unhashable,
)
from funken.state.keys.library_forms import library_form
from funken.state.keys.times import date_form, datetime_form, time_form, timedelta_form
from funken.types.row import Row

_forms: dict[type, Form] = {}
_object_eq: Any = object.__eq__
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
    """Return what gives the form of keys of the class of this one."""
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


def _text(key: Any) -> str:
    return str.__str__(key)


def _bytes(key: Any) -> bytes:
    return bytes.__add__(key, b"")


def _int(key: Any) -> int:
    return int.__add__(key, 0)


def _float_subclass(key: Any) -> Any:
    return float_form(float.__add__(key, 0.0))


def _decimal(key: Any) -> Any:
    if not key.is_nan():
        return decimal.Decimal(key)
    if key.is_snan():
        raise refusal(key, "Python cannot hash a signaling NaN")
    return NAN


def _fraction(key: Any) -> fractions.Fraction:
    return fractions.Fraction(key.numerator, key.denominator)


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


def _tuple(key: Any) -> tuple[Any, ...]:
    return tuple(tuple.__iter__(key))


def _set(key: Any) -> frozenset[Any]:
    return frozenset(frozenset.__iter__(key))


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


def _row(key: Any) -> Named:
    parts = key.comparable()
    return Named(parts, ("row", parts))


def _singleton(key: Any) -> Named:
    return alone("singleton", repr(key))


def _timezone(key: Any) -> Named:
    return alone("timezone", key.utcoffset(None))


def _zone_info(key: Any) -> Named:
    if key.key is None or zoneinfo.ZoneInfo(key.key) is not key:
        raise refusal(key)
    return alone("ZoneInfo", key.key)


def _pattern(key: Any) -> Named:
    return alone("pattern", key.pattern, key.flags)


def _uuid(key: Any) -> Named:
    return alone("UUID", uuid.UUID.__str__(key))


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
    (str, _text),
    (int, _int),
    (float, _float_subclass),
    (complex, complex_form),
    (bytes, _bytes),
    (tuple, _tuple),
    (frozenset, _set),
    (decimal.Decimal, _decimal),
    (fractions.Fraction, _fraction),
    (Row, _row),
    (datetime.datetime, datetime_form),
    (datetime.date, date_form),
    (datetime.time, time_form),
    (datetime.timedelta, timedelta_form),
    (datetime.timezone, _timezone),
    (uuid.UUID, _uuid),
    (pathlib.PurePath, _path),
    (ipaddress.IPv4Interface, _address("IPv4Interface")),
    (ipaddress.IPv4Address, _address("IPv4Address")),
    (ipaddress.IPv4Network, _address("IPv4Network")),
    (ipaddress.IPv6Interface, _address6("IPv6Interface")),
    (ipaddress.IPv6Address, _address6("IPv6Address")),
    (ipaddress.IPv6Network, _address("IPv6Network")),
    (range, _range),
    (re.Pattern, _pattern),
    (zoneinfo.ZoneInfo, _zone_info),
    (types.EllipsisType, _singleton),
    (types.NotImplementedType, _singleton),
)
"""Classes, and what gives the form of keys that are compared as theirs; a class before those it derives from."""

_forms.update({kind: _itself for kind in EXACT - {float, complex, decimal.Decimal}})
_forms[float] = float_form
_forms[Greatest] = lambda key: key if key is NAN else NAT
