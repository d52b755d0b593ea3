"""Keys to key groups to subtasks: stable over processes, machines, restarts and parallelism.

Invariants: equal keys have equal hashes (``1 == 1.0 == True``), in every process (``hash(str)`` has not that property);
a key group never moves between keys, only between subtasks. Flink's ``KeyGroupRangeAssignment``.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import ipaddress
import numbers
import pathlib
import uuid
from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

from funken.errors import KeyNotHashable, StateError
from funken.ids import KeyGroup
from funken.types.row import Row

_MASK = 0xFFFFFFFF


def _mix(h: int) -> int:
    """Spread a 32-bit value over all its bits (the finalizer of MurmurHash3)."""
    h ^= h >> 16
    h = (h * 0x85EBCA6B) & _MASK
    h ^= h >> 13
    h = (h * 0xC2B2AE35) & _MASK
    return h ^ (h >> 16)


def stable_hash(key: Any) -> int:
    """Hash a key to 32 bits, the same in every process; equal keys have equal hashes.

    Takes numbers, strings, bytes, ``None``, tuples, frozen sets, enums, dataclasses, dates, UUIDs, paths, rows, and any
    object with a method ``__stable_hash__() -> int``. Raises ``KeyNotHashable`` for anything else.

    >>> stable_hash(1) == stable_hash(1.0) == stable_hash(True)
    True
    >>> stable_hash(("a", 1)), stable_hash("a")
    (2784500181, 3320656311)
    """
    kind = type(key)
    if kind is str:
        return _mix(crc32(key.encode("utf-8", "surrogatepass")))
    if kind is int or isinstance(key, numbers.Number):  # Python's own hash of numbers is fixed and honours equality
        number = hash(key)
        return _mix((number ^ (number >> 32)) & _MASK)
    if key is None:
        return 0x9E3779B9
    if isinstance(key, tuple):
        h = 0x345678 + len(key)
        for item in key:
            h = _mix((h * 31 + stable_hash(item)) & _MASK)
        return h
    return _hash_other(key)


def _hash_other(key: Any) -> int:
    if isinstance(key, Row):
        return stable_hash(key.comparable())
    own = getattr(key, "__stable_hash__", None)
    if own is not None:
        return _mix(int(own()) & _MASK)
    if isinstance(key, enum.Enum):
        return stable_hash((type(key).__qualname__, key.name))
    if isinstance(key, str):
        return stable_hash(str(key))
    if isinstance(key, bytes):
        return _mix(crc32(key) ^ 0x5BD1E995)
    if isinstance(key, frozenset):
        h = 0
        for item in key:
            h = (h + stable_hash(item)) & _MASK
        return _mix(h ^ len(key))
    if isinstance(key, datetime.datetime):
        return stable_hash(("dt", key.timestamp() if key.tzinfo else key.isoformat()))
    if isinstance(
        key,
        datetime.date | datetime.time | pathlib.PurePath | uuid.UUID | ipaddress.IPv4Address | ipaddress.IPv6Address,
    ):
        return stable_hash((type(key).__name__, str(key)))
    if isinstance(key, datetime.timedelta):
        return stable_hash(("td", key.days, key.seconds, key.microseconds))
    if dataclasses.is_dataclass(key) and type(key).__hash__ not in (None, object.__hash__):
        fields = (f for f in dataclasses.fields(key) if (f.compare if f.hash is None else f.hash))
        return stable_hash((type(key).__qualname__, *(getattr(key, f.name) for f in fields)))
    raise KeyNotHashable(
        f"a key of type {type(key).__qualname__!r} ({_short(key)}) has no hash that is equal in every process. Return a "
        "str, number, tuple, enum or frozen dataclass from the key selector, or give the type a method "
        "__stable_hash__() -> int."
    ) from None  # it is asked for when a lookup has failed, of which nobody needs to know


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


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
                f"state of key {key!r} was written by a subtask that does not own the key: a key selector must give "
                "the same key for the same record each time."
            )
        return group

    return owned_group


class KeyRouter:
    """A cache from key to whatever ``choose(subtask)`` gave for the subtask that owns it.

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
        """What was found: hot loops look here first, and call ``find`` for a key that is not there.

        A plain dict is looked up in 5 ns less than one of a subclass with ``__missing__``.
        """
        self.cleared = 0
        """How often it has forgotten everything."""

    def __getitem__(self, key: Any) -> Any:
        try:
            return self.known[key]
        except KeyError:
            return self.find(key)

    def of(self, keys: Iterable[Any]) -> list[Any]:
        """Return what is known of keys, or found.

        >>> KeyRouter(128, 2, lambda subtask: subtask).of(["a", "b", "a"])
        [0, 0, 0]
        """
        known, find = self.known, self.find
        return [known[key] if key in known else find(key) for key in keys]

    def find(self, key: Any) -> Any:
        """Find what is not known of a key."""
        if len(self.known) >= self._limit:
            self.known.clear()
            self.cleared += 1
        self.known[key] = choice = self.choice(key)
        return choice

    def choice(self, key: Any) -> Any:
        """Return what was chosen for the owner of a key."""
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
