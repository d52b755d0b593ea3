"""One key for NaN: a key with a NaN in it is replaced by one whose NaN is always the same object.

``NaN != NaN``, so no dict finds a NaN that it has under another object. Dicts, tuples and frozen sets look at the identity of
objects first. So Funken gives every key through ``normal_key`` before it looks the key up, and after it unpickled the key: all
real NaN are then ``math.nan``, all NaT one NaT. NumPy's numbers become Python's, since ``Decimal(1) != np.int64(1)``, and its
times get a unit in which they are equal to ``datetime``.

Keys of a class in ``PLAIN`` are normal, which callers ask first: that costs 15 ns and no call.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import fractions
import math
import sys
import uuid
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import chain
from operator import attrgetter, ne
from typing import Any

from funken.errors import KeyNotHashable
from funken.state.keys.forms import NAN, NAT, NO_TIME, Named, form_of, key_fields
from funken.types.row import Row

PLAIN: frozenset[type] = frozenset(
    {
        str, int, bytes, bool, type(None), datetime.date, datetime.datetime, datetime.time, datetime.timedelta, uuid.UUID,
        fractions.Fraction,
    }
)  # fmt: skip
"""Classes of keys that have a form and no NaN in them."""

Each = Callable[[Any], Any]
Change = Callable[[Any, Each], Any]

_changes: dict[type, Change | None] = {}
"""Functions that normalize keys of a class; ``None``: they are normal."""
_one: dict[Any, Any] = {}
"""The one object for equal keys that are not equal to themselves, by their form."""
_one_while_used: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
"""The same, for as long as there is state or a timer of it."""


def normal_key(key: Any) -> Any:
    """Return the key to look up for a key; raises ``KeyNotHashable`` if its class has no form.

    >>> nan = float("nan")
    >>> {normal_key(nan): 1}[normal_key(float("nan"))], normal_key(("a", 1)), normal_key(decimal.Decimal("NaN"))
    (1, ('a', 1), nan)
    """
    kind = type(key)
    if kind is tuple:
        for item in key:
            kind = type(item)
            if kind not in PLAIN and (kind is not float or item != item):  # noqa: PLR0124
                return _tuple(key, normal_key)
        return key
    if kind is float:
        return key if key == key else math.nan  # noqa: PLR0124 - this is what NaN is
    if kind in PLAIN:
        return key
    if kind not in _changes:
        _changes[kind] = _change_of(key)
    change = _changes[kind]
    return key if change is None else change(key, normal_key)


def normal_keys(keys: list[Any]) -> list[Any]:
    """Return the keys to look up for keys.

    >>> normal_keys([1, float("nan")])[1] is math.nan
    True
    """
    return keys if _are_plain(keys) else list(map(normal_key, keys))


def _are_plain(keys: list[Any]) -> bool:
    """Return True if keys are normal at a glance: that takes 20 ns a key, of floats 50, of pairs 120, in place of 100 and 200."""
    kinds = set(map(type, keys))
    if kinds <= PLAIN:
        return True
    if kinds == {float}:
        return not any(map(ne, keys, keys))
    return kinds == {tuple} and PLAIN.issuperset(map(type, chain.from_iterable(keys)))


def ordered_key(key: Any) -> Any:
    """Return a key to look up and to sort by: NaN is equal to itself, and greatest. A value that is no key is returned as it is.

    >>> sorted(map(ordered_key, [float("nan"), 2.0, decimal.Decimal("nan"), 1.0]))
    [1.0, 2.0, nan, nan]
    """
    if type(key) is list:
        return list(map(ordered_key, key))
    try:
        return _ordered(key, ordered_key)
    except KeyNotHashable:
        return key


def _ordered_strictly(key: Any) -> Any:
    return _ordered(key, _ordered_strictly)


def _ordered(key: Any, each: Each) -> Any:
    kind = type(key)
    if kind is float:
        return key if key == key else NAN  # noqa: PLR0124
    if kind in PLAIN:
        return key
    if kind not in _changes:
        _changes[kind] = _change_of(key)
    change = _changes[kind]
    if change is None:
        return key
    changed = change(key, each)
    if changed is math.nan:  # noqa: PLW0177
        return NAN
    return NO_TIME if NAT in _one and changed is _one[NAT] else changed


def ordered_keys(keys: list[Any], strictly: bool = False) -> list[Any]:
    """Return the keys to look up and to sort by for keys; ``strictly``: raise ``KeyNotHashable`` for a value that is no key."""
    return keys if _are_plain(keys) else list(map(_ordered_strictly if strictly else ordered_key, keys))


def one_nan(key: Any) -> Any:
    """Return a key as ``normal_key`` does, and itself if its class has no form: where no other process looks it up.

    >>> one_nan(float("nan")) is math.nan, one_nan(print) is print
    (True, True)
    """
    if type(key) is tuple and PLAIN.issuperset(map(type, key)):
        return key
    try:
        return normal_key(key)
    except KeyNotHashable:
        return key


def with_one_nan(entries: Mapping[Any, Any]) -> Any:
    """Return the entries of a map that was unpickled under normal keys; the map itself if they are.

    >>> entries = with_one_nan({float("nan"): 1, "a": 2})
    >>> entries[math.nan], with_one_nan(entries) is entries
    (1, True)
    """
    if PLAIN.issuperset(map(type, entries)):
        return entries
    if all(one_nan(key) is key for key in entries):
        return entries
    return {one_nan(key): value for key, value in entries.items()}


def _change_of(key: Any) -> Change | None:
    """Return a function that normalizes keys of the class of this one; raises ``KeyNotHashable`` without a form."""
    form = form_of(key)
    if isinstance(key, tuple):
        return _tuple
    if isinstance(key, frozenset):
        return _set
    if isinstance(key, Row):
        return _row
    if isinstance(form, Named) and form.identity[0] == "class":
        return _data_class
    if isinstance(key, decimal.Decimal):
        return _decimal
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if pandas is not None and isinstance(key, type(pandas.NaT)):
        return _no_time
    if numpy is not None and isinstance(key, numpy.datetime64 | numpy.timedelta64):
        return _time
    if isinstance(key, float | complex) and type(key).__module__ != "numpy":
        return _number
    if numpy is not None and isinstance(key, numpy.integer | numpy.bool_):
        return lambda key, each: key.item()
    if numpy is not None and isinstance(key, numpy.inexact):
        return _of_numpy
    return None


def _number(key: Any, each: Each) -> Any:
    if key == key:  # noqa: PLR0124
        return key
    form = form_of(key)
    return math.nan if form is NAN else _one.setdefault(_plain(form.identity), key)


def _of_numpy(key: Any, each: Each) -> Any:
    form = form_of(key)
    return _number(complex(key), each) if form is NAN or isinstance(form, Named) else form


def _decimal(key: decimal.Decimal, each: Each) -> Any:
    return math.nan if form_of(key) is NAN else key


def _plain(parts: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(map(normal_key, parts))


def _no_time(key: Any, each: Each) -> Any:
    return _one.setdefault(NAT, key)


def _time(key: Any, each: Each) -> Any:
    from funken.state.keys.forms import attoseconds, microseconds  # noqa: PLC0415 - NumPy's times only

    if attoseconds(key) is None:
        return _no_time(key, each)
    micros = microseconds(key)
    if micros is None or sys.modules["numpy"].datetime_data(key.dtype) == ("us", 1):
        return key
    return type(key)(micros, "us")


def _tuple(key: Any, each: Each) -> Any:
    if _has_plain(key):
        return key
    items, kind = tuple(map(each, key)), type(key)
    if all(map(_is, items, key)):
        return key
    if kind is tuple:
        return items
    try:
        made = tuple.__new__(kind, items)
    except TypeError:  # a structure of C, which is equal to the tuple
        return items
    if hasattr(key, "__dict__"):
        made.__dict__.update(key.__dict__)
    return made


def _has_plain(items: Iterable[Any]) -> bool:
    """Return True for parts of a key that are normal at a glance."""
    for item in items:
        kind = type(item)
        if kind not in PLAIN and (kind is not float or item != item):  # noqa: PLR0124
            return False
    return True


def _is(one: Any, other: Any) -> bool:
    return one is other


def _set(key: Any, each: Each) -> Any:
    if _has_plain(key):
        return key
    items = list(map(each, key))
    return key if all(map(_is, items, key)) else frozenset(items)


def _row(key: Row, each: Each) -> Row:
    if _has_plain(key):
        return key
    values = list(map(each, key))
    if all(map(_is, values, key)):
        return key
    made = copy.copy(key)
    made[:] = values
    return made


def _data_class(key: Any, each: Each) -> Any:
    kind: Any = type(key)
    names, read = _fields_of(kind)
    found = read(key)
    if _has_plain(found):
        return key
    values = dict(zip(names, found, strict=True))
    changed = {name: new for name, old in values.items() if (new := each(old)) is not old}
    made = key
    if changed:
        made = copy.copy(key)
        for name, value in changed.items():
            object.__setattr__(made, name, value)
    fields = tuple((values | changed).values())
    if not any(map(_is_nan, fields)) or made == copy.copy(made):
        return made
    # Where fields are compared one by one (Python 3.13, attrs), an object with NaN in it is equal to no other one.
    try:
        return _one_while_used.setdefault((kind, fields), made)
    except TypeError:  # it has slots, and none for weak references
        return _one.setdefault((kind, fields), made)


@cache
def _fields_of(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """Return the fields of a data class that make it a key, and a function that reads them."""
    hashed, compared = key_fields(kind)
    names = tuple(dict.fromkeys((*hashed, *compared)))
    if len(names) > 1:
        return names, attrgetter(*names)
    return names, lambda key: tuple(getattr(key, name) for name in names)


def _is_nan(value: Any) -> bool:
    """Return True for a field, in its normal form, that is not equal to itself."""
    kind = type(value)
    if kind is float or kind is complex or _changes.get(kind) is _data_class:
        return bool(value != value)  # noqa: PLR0124
    return NAT in _one and value is _one[NAT]
