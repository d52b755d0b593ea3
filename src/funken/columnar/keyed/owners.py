"""Where keys belong: their hashes, and the subtasks that own them.

Every result here is that of ``state/keygroups.py`` for the Python key, so that both paths agree on which subtask owns a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np

from funken.columnar.kernels.columns import Array, Column
from funken.columnar.keyed.keys import CompositeKey, Slots, key_codes, numbers_in
from funken.expr.types import INT
from funken.state.keygroups import KeyRouter, key_group_of, stable_hash, subtask_of

_DENSE = 1 << 16
"""A range of ints up to this wide is looked up in a table."""
_MOST_TEXTS = 200_000
"""Owners of more texts than this are forgotten, as those of other keys are."""


def hashes(numbers: Array) -> Array:
    """Return ``stable_hash`` of ints, as 64-bit unsigned numbers.

    >>> from funken.state.keygroups import stable_hash
    >>> some = [0, 1, -1, -2, 2**61 - 1, 2**61, -(2**63), 2**63 - 1]
    >>> hashes(np.array(some)).tolist() == [stable_hash(number) for number in some]
    True
    """
    prime = np.uint64((1 << 61) - 1)
    negative = numbers < 0
    unsigned = numbers.astype(np.uint64)
    size = np.where(negative, ~unsigned + np.uint64(1), unsigned) % prime
    hashed = np.where(negative, ~size + np.uint64(1), size)
    hashed = np.where(hashed == ~np.uint64(0), ~np.uint64(1), hashed)  # hash(-1) is -2
    # number >> 32 of a negative number: its sign comes in from the left.
    shifted = (hashed.view(np.int64) >> np.int64(32)).view(np.uint64)
    return _mixed(hashed ^ shifted)


def _mixed(h: Array) -> Array:
    """Spread 32-bit values over all their bits, as ``stable_hash`` does."""
    mask = np.uint64(0xFFFFFFFF)
    h = h & mask
    h ^= h >> np.uint64(16)
    h = (h * np.uint64(0x85EBCA6B)) & mask
    h ^= h >> np.uint64(13)
    h = (h * np.uint64(0xC2B2AE35)) & mask
    return h ^ (h >> np.uint64(16))


def hashes_of_column(column: Column, length: int) -> Array:
    """Return ``stable_hash`` of each record's key, as 64-bit unsigned numbers.

    >>> from funken.columnar.keyed.keys import column_of_keys
    >>> from funken.state.keygroups import stable_hash
    >>> keys = [(1, "a"), (-1, "b"), (2**40, "a")]
    >>> hashes_of_column(column_of_keys(keys), 3).tolist() == [stable_hash(key) for key in keys]
    True
    """
    if column.constant:
        return np.full(length, stable_hash(column.data), np.uint64)
    if column.kind == INT:
        return hashes(column.data)
    if isinstance(column, CompositeKey):
        return combined([hashes_of_column(item, length) for item in column.items], length)
    codes, values = key_codes(column, length)
    return hashes_of(values).take(codes)


def _owners_of(hashed: Array, max_parallelism: int, parallelism: int) -> Array:
    """Return the subtasks that own keys with these hashes."""
    groups = hashed % np.uint64(max_parallelism)
    return (groups * np.uint64(parallelism) // np.uint64(max_parallelism)).astype(np.uint16)


class KeyTargets:
    """The subtask that owns each key of a column."""

    def __init__(self, max_parallelism: int, parallelism: int) -> None:
        self._max_parallelism = max_parallelism
        self._parallelism = parallelism
        self._subtask_of = KeyRouter(max_parallelism, parallelism, lambda subtask: subtask)
        self._low = 0
        self._table: Array = np.empty(0, np.uint16)
        self._texts = Slots()
        self._owners_of_texts: Array = np.empty(0, np.uint16)

    def of(self, column: Column, length: int) -> Array | int:
        """Return the subtasks; one number if there is only one for all records."""
        if self._parallelism == 1:
            return 0
        if column.constant:
            group = key_group_of(column.data, self._max_parallelism)
            return subtask_of(group, self._max_parallelism, self._parallelism)
        if column.kind == INT:
            return self._of_ints(column)
        if isinstance(column, CompositeKey):
            return self._owners(hashes_of_column(column, length))
        owners = self._subtask_of
        if numbers_in(column) is None:
            codes, keys = key_codes(column, length)
            return np.array(owners.of(keys), np.uint16).take(codes)
        if len(self._texts) > _MOST_TEXTS:
            self._texts, self._owners_of_texts = Slots(), np.empty(0, np.uint16)
        slots = self._texts.find(column, length)
        new = owners.of(self._texts.keys[len(self._owners_of_texts) :])
        self._owners_of_texts = np.append(self._owners_of_texts, np.array(new, np.uint16))
        return self._owners_of_texts.take(slots)

    def _of_ints(self, column: Column) -> Array:
        low, high = column.bounds()
        if high - low >= _DENSE:
            return self._owners(hashes(column.data))
        if low < self._low or high >= self._low + len(self._table):
            least, most = low, high
            if len(self._table):
                least, most = min(low, self._low), max(high, self._low + len(self._table) - 1)
            if most - least >= _DENSE:
                least, most = low, high
            self._low, self._table = least, self._owners(hashes(np.arange(least, most + 1, dtype=np.int64)))
        return self._table.take(column.data - self._low if self._low else column.data)

    def _owners(self, hashed: Array) -> Array:
        return _owners_of(hashed, self._max_parallelism, self._parallelism)


def hashes_of(keys: Sequence[Any]) -> Array:
    """Return ``stable_hash`` of keys of any type, as 64-bit unsigned numbers.

    >>> keys = [1, -1, 2**70, "a", ("a", 1), ("b", 2), None]
    >>> [hashes_of(some).tolist() == [stable_hash(key) for key in some] for some in (keys, keys[:2], keys[4:6])]
    [True, True, True]
    """
    kinds = set(map(type, keys))
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is int:
        try:
            return hashes(np.fromiter(keys, np.int64, len(keys)))
        except OverflowError:  # more than 64 bits
            pass
    elif kind is str:
        return _mixed(np.array([crc32(key.encode("utf-8", "surrogatepass")) for key in keys], np.uint64))
    elif kind is tuple and len(set(map(len, keys))) == 1:
        return combined([hashes_of(items) for items in zip(*keys, strict=True)], len(keys))
    return np.array([stable_hash(key) for key in keys], np.uint64)


def combined(parts: Sequence[Array], length: int) -> Array:
    """Return ``stable_hash`` of tuples, by the hashes of each of their items.

    >>> combined([hashes_of([1, 2]), hashes_of(["a", None])], 2).tolist() == [stable_hash((1, "a")), stable_hash((2, None))]
    True
    """
    h = np.full(length, 0x345678 + len(parts), np.uint64)
    for part in parts:
        h = _mixed(h * np.uint64(31) + part)
    return h


class KeyOwners:
    """Deals keys out to the subtasks that own them, and counts how many different ones there are.

    >>> owners = KeyOwners(max_parallelism=128, parallelism=2, bits=1 << 10)
    >>> owners.deal([10, 11, 12, 10]), owners.count()
    ([[0, 1, 3], [2]], 3)
    """

    def __init__(self, max_parallelism: int, parallelism: int, bits: int) -> None:
        self._max_parallelism = max_parallelism
        self._parallelism = parallelism
        self._seen = np.zeros(bits, np.bool_)

    def deal(self, keys: list[Any]) -> list[list[int]]:
        """Return the positions of the keys of each subtask; raises ``KeyNotHashable``."""
        return [positions.tolist() for positions in self.deal_hashed(hashes_of(keys))]

    def deal_hashed(self, hashed: Array) -> list[Array]:
        """Return the positions of the keys of each subtask, by their hashes."""
        self._seen[hashed & np.uint64(len(self._seen) - 1)] = True
        owners = _owners_of(hashed, self._max_parallelism, self._parallelism)
        return [np.flatnonzero(owners == subtask) for subtask in range(self._parallelism)]

    def count(self) -> int:
        """Return about how many different keys there were since the last call; no more than there are bits."""
        count = int(self._seen.sum())
        self._seen[:] = False
        return count


__all__ = ["KeyOwners", "KeyTargets", "combined", "hashes", "hashes_of", "hashes_of_column"]
