"""Keys to key groups to subtasks: stable over processes, machines, restarts and parallelism.

Invariants: equal keys have equal hashes (``1 == 1.0 == True``), in every process (``hash(str)`` has not that property), as a
hash is that of the key's form (``keys/forms.py``). A key group never moves between keys, only between subtasks. Flink's
``KeyGroupRangeAssignment``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any
from zlib import crc32

from funken.errors import CheckpointIncompatible, StateError
from funken.ids import KeyGroup
from funken.state.keys.forms import EXACT, NAN, Named, form_of
from funken.state.keys.normal import PLAIN, normal_key, one_nan

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
