"""Keys to key groups to subtasks: stable over processes, machines, restarts and parallelism.

Invariants: equal keys have equal hashes (``1 == 1.0 == True``), in every process (``hash(str)`` has not that property), as a
hash is that of the key's form (``key_forms.py``). A key group never moves between keys, only between subtasks. Flink's
``KeyGroupRangeAssignment``. Tables keep keys in their normal form, in which no part is a NaN that differs from another.
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
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from itertools import chain
from operator import attrgetter, ne
from typing import Any
from zlib import crc32

from funken.errors import CheckpointIncompatible, KeyNotHashable, StateError
from funken.ids import KeyGroup
from funken.state.key_forms import EXACT, NAN, NAT, NO_TIME, Named, form_of, key_fields
from funken.types.row import Row

# ---- One key for NaN: a key with a NaN in it is replaced by one whose NaN is always the same object.
#
# ``NaN != NaN``, so no dict finds a NaN that it has under another object. Dicts, tuples and frozen sets look at the identity of
# objects first. So Funken gives every key through ``normal_key`` before it looks the key up, and after it unpickled the key: all
# real NaN are then ``math.nan``, all NaT one NaT. NumPy's numbers become Python's, since ``Decimal(1) != np.int64(1)``, and its
# times get a unit in which they are equal to ``datetime``.
#
# Keys of a class in ``PLAIN`` are normal, which callers ask first: that costs 15 ns and no call.


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
    from funken.state.key_forms import attoseconds, microseconds  # noqa: PLC0415 - NumPy's times only

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


# ---- Keys to key groups to subtasks.


_MASK = 0xFFFFFFFF
_NEVER_MOVED = frozenset({str, int, bytes, bool, type(None)})
_NUMBERS = EXACT - {str, bytes, tuple, frozenset, type(None)}


def _mix(h: int) -> int:
    """Spread a 32-bit value over all its bits (the finalizer of MurmurHash3)."""
    h ^= h >> 16
    h = (h * 0x85EBCA6B) & _MASK
    h ^= h >> 13
    h = (h * 0xC2B2AE35) & _MASK
    return h ^ (h >> 16)


def stable_hash(key: Any) -> int:
    """Hash a key to 32 bits, the same in every process; equal keys have equal hashes.

    Takes numbers, strings, bytes, ``None``, tuples, frozen sets, enums, frozen dataclasses, dates and times, UUIDs, addresses,
    paths, rows, classes, their like of NumPy and pandas, and any object with a method ``__stable_hash__() -> int``. Every NaN is
    one key. Raises ``KeyNotHashable`` for anything else.

    >>> stable_hash(1) == stable_hash(1.0) == stable_hash(True)
    True
    >>> stable_hash(("a", 1)), stable_hash("a")
    (2784500181, 3320656311)
    """
    kind = type(key)
    if kind is str:
        return _mix(crc32(key.encode("utf-8", "surrogatepass")))
    if kind is int:
        number = hash(key)
        return _mix((number ^ (number >> 32)) & _MASK)
    if kind is tuple:
        return _hash_items(key)
    return _hash_form(form_of(key))


def _hash_items(items: tuple[Any, ...]) -> int:
    h = 0x345678 + len(items)
    for item in items:
        h = _mix((h * 31 + stable_hash(item)) & _MASK)
    return h


def _hash_form(form: Any) -> int:
    kind = type(form)
    if kind is Named:
        return _hash_items(form.hashed)
    if kind in _NUMBERS:  # Python's own hash of numbers is fixed and honours equality, but for NaN
        number = hash(form)
        return _mix((number ^ (number >> 32)) & _MASK)
    if kind is str or kind is tuple:
        return stable_hash(form)
    if form is None:
        return 0x9E3779B9
    if kind is bytes:
        return _mix(crc32(form) ^ 0x5BD1E995)
    if kind is frozenset:
        h, items = 0, one_nan(form)
        for item in items:
            h = (h + stable_hash(item)) & _MASK
        return _mix(h ^ len(items))
    if form is NAN:
        return 0x7FC00000
    return _mix(int(form.__stable_hash__()) & _MASK)


def key_group_of(key: Any, max_parallelism: int) -> KeyGroup:
    """Return the key group of a key.

    >>> key_group_of("word", 128) == key_group_of("word", 128)
    True
    """
    return KeyGroup(stable_hash(key) % max_parallelism)


def subtask_of(key_group: KeyGroup, max_parallelism: int, parallelism: int) -> int:
    """Return the subtask that owns a key group.

    >>> [subtask_of(KeyGroup(g), 4, 2) for g in range(4)]
    [0, 0, 1, 1]
    """
    return key_group * parallelism // max_parallelism


def key_groups_of(subtask: int, max_parallelism: int, parallelism: int) -> range:
    """Return the key groups that a subtask owns.

    >>> key_groups_of(1, 128, 3)
    range(43, 86)
    """
    start = -(-subtask * max_parallelism // parallelism)
    return range(start, -(-(subtask + 1) * max_parallelism // parallelism))


def check_max_parallelism(then: int, now: int) -> None:
    """Raise ``StateError`` if a snapshot has other key groups than the operator that is to take it."""
    if then != now:
        raise StateError(
            f"the snapshot was taken with a maximum parallelism of {then}, but the operator has {now}: it cannot be changed, "
            "set it to the old value."
        )


def owned_groups(max_parallelism: int, key_groups: range) -> Callable[[Any], int]:
    """Return a function from a key to its key group, which raises ``StateError`` for a key of another subtask."""
    group_of = KeyRouter(max_parallelism, max_parallelism, lambda group: group)

    def owned_group(key: Any) -> int:
        group: int = group_of[key]
        if group not in key_groups:
            raise StateError(
                f"state of key {key!r} was written by a subtask that does not own the key: its record came here under another "
                "key. A key selector must give equal keys for one record each time, in every process, and a key must not "
                "change after that."
            )
        return group

    return owned_group


def restored_key(key: Any, group: int, max_parallelism: int) -> Any:
    """Return a key that was saved in a key group, to look up from now on.

    Raises ``CheckpointIncompatible`` if it belongs to another group by now.

    >>> restored_key("a", key_group_of("a", 128), 128)
    'a'
    """
    if type(key) in _NEVER_MOVED:
        return key
    key = normal_key(key)
    now = key_group_of(key, max_parallelism)
    if now != group:
        raise CheckpointIncompatible(
            f"the state of key {key!r} was saved in key group {group}, but the key belongs to group {now}: the version of Funken "
            "that saved it hashed such keys differently from others that are equal to them (docs/decisions/0076), or the "
            "class's __stable_hash__ has changed. Start without the state of this operator, or read it with `funken state show`."
        )
    return key


def rows_by_key(rows: Iterable[tuple[Any, ...]], group: int, max_parallelism: int) -> Collection[tuple[Any, ...]]:
    """Return the rows of a key group that was saved, each with the key to look up; the key comes first.

    Raises ``CheckpointIncompatible`` for a key of another group.
    """
    saved = list(rows)
    if _NEVER_MOVED.issuperset(type(row[0]) for row in saved):
        return saved
    return [(restored_key(row[0], group, max_parallelism), *row[1:]) for row in saved]


class KeyRouter:
    """A cache from key to the result of ``choose(subtask)`` for the subtask that owns it.

    A lookup of a known key costs one dict access instead of a stable hash (about 0.4 us);
    forgets everything beyond ``limit`` keys, so that unbounded key spaces do not grow it.

    >>> router = KeyRouter(128, 2, lambda subtask: f"to {subtask}")
    >>> router["a"], router.known
    ('to 0', {'a': 'to 0'})
    """

    __slots__ = ("_by_group", "_limit", "_max_parallelism", "cleared", "known")

    def __init__(
        self, max_parallelism: int, parallelism: int, choose: Callable[[int], Any], limit: int = 200_000
    ) -> None:
        choices = [choose(subtask) for subtask in range(parallelism)]
        groups = map(KeyGroup, range(max_parallelism))
        self._by_group = [choices[subtask_of(group, max_parallelism, parallelism)] for group in groups]
        self._max_parallelism = max_parallelism
        self._limit = limit
        self.known: dict[Any, Any] = {}
        """The choices so far: hot loops look here first, and call ``find`` for a key that is not there.

        A plain dict is looked up in 5 ns less than one of a subclass with ``__missing__``.
        """
        self.cleared = 0
        """Number of times that it has forgotten everything."""

    def __getitem__(self, key: Any) -> Any:
        try:
            return self.known[key]
        except (KeyError, TypeError):
            return self.find(key)

    def of(self, keys: Iterable[Any]) -> list[Any]:
        """Return the choice of each key, known or new.

        >>> KeyRouter(128, 2, lambda subtask: subtask).of(["a", "b", "a"])
        [0, 0, 0]
        """
        known, find = self.known, self.find
        return [known[key] if key in known else find(key) for key in keys]

    def find(self, key: Any) -> Any:
        """Choose for an unknown key; every NaN comes here, and is known as one key."""
        if type(key) not in PLAIN:
            key = normal_key(key)
            if key in self.known:
                return self.known[key]
        if len(self.known) >= self._limit:
            self.known.clear()
            self.cleared += 1
        self.known[key] = choice = self.choice(key)
        return choice

    def choice(self, key: Any) -> Any:
        """Return the choice for the owner of a key."""
        kind = type(key)
        # Hot where there are more keys than the cache holds: as ``stable_hash``, whose three calls would add 180 ns to 390.
        if kind is int:
            h = hash(key)
            h = (h ^ (h >> 32)) & _MASK
        elif kind is str:
            h = crc32(key.encode("utf-8", "surrogatepass"))
        else:
            return self._by_group[key_group_of(key, self._max_parallelism)]
        h ^= h >> 16
        h = (h * 0x85EBCA6B) & _MASK
        h ^= h >> 13
        h = (h * 0xC2B2AE35) & _MASK
        return self._by_group[(h ^ (h >> 16)) % self._max_parallelism]
