"""Pairs of numbers as numbers from 0 on, in the order in which they first came: a hash table that takes a step for all at once.

The table has open addresses, and at most half of its places are taken. A pair that is not at its place is looked for at the next
one, with all others that were not found; that takes a few passes over ever fewer pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funken.columnar.kernels.arrow import pa
from funken.columnar.kernels.columns import Array

_FEWEST = 1 << 10
_BITS = 32
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: Knuth, The Art of Computer Programming, 6.4


class PairSlots:
    """Numbers pairs of ints from 0 to 2**31.

    >>> slots = PairSlots()
    >>> slots.find(np.array([0, 7, 0]), np.array([1, 1, 1])).tolist(), slots.find(np.array([7, 1]), np.array([1, 0])).tolist()
    ([0, 1, 0], [1, 2])
    >>> slots.pair(1), len(slots)
    ((7, 1), 3)
    """

    def __init__(self) -> None:
        self._known: Array = np.empty(_FEWEST, np.int64)
        """The pairs by their numbers; there is room for more."""
        self._count = 0
        self._clear(_FEWEST)

    def _clear(self, places: int) -> None:
        self._pairs: Array = np.full(places, -1, np.int64)
        self._slots: Array = np.empty(places, np.int64)
        self._shift = np.uint64(64 - places.bit_length() + 1)

    def __len__(self) -> int:
        return self._count

    def pair(self, slot: int) -> tuple[int, int]:
        """Return the pair of a number."""
        pair = int(self._known[slot])
        return pair >> _BITS, pair & ((1 << _BITS) - 1)

    def firsts(self, slots: Array) -> Array:
        """Return the first numbers of the pairs of some numbers."""
        return self._known.take(slots) >> _BITS

    def find(self, firsts: Array, seconds: Array) -> Array:
        """Return the number of each pair; new pairs get new numbers."""
        pairs = (firsts << _BITS) | seconds
        found, missing = self._look_up(pairs)
        if len(missing):
            each = pa.array(pairs.take(missing)).dictionary_encode()
            found[missing] = each.indices.to_numpy() + self._count
            self._add(each.dictionary.to_numpy())
        return found

    def _places(self, pairs: Array) -> Array:
        return ((pairs.astype(np.uint64) * _MULTIPLIER) >> self._shift).astype(np.int64)

    def _look_up(self, pairs: Array) -> tuple[Array, Array]:
        """Return the numbers of pairs, and the positions of those that have none."""
        found: Array = np.empty(len(pairs), np.int64)
        missing: list[Array] = []
        places, left, last = self._places(pairs), np.arange(len(pairs)), len(self._pairs) - 1
        while len(left):
            there = self._pairs.take(places)
            is_it, is_free = there == pairs, there < 0
            found[left[is_it]] = self._slots.take(places[is_it])
            missing.append(left[is_free])
            on = ~(is_it | is_free)
            places, pairs, left = (places[on] + 1) & last, pairs[on], left[on]
        return found, np.sort(np.concatenate(missing)) if missing else left

    def _add(self, pairs: Array) -> None:
        """Give numbers to pairs that have none, each of which is given once."""
        begin, self._count = self._count, self._count + len(pairs)
        if self._count > len(self._known):
            larger: Any = np.empty(2 * self._count, np.int64)
            larger[:begin] = self._known[:begin]
            self._known = larger
        self._known[begin : self._count] = pairs
        if 2 * self._count > len(self._pairs):
            self._clear(1 << (4 * self._count - 1).bit_length())
            begin, pairs = 0, self._known[: self._count]
        self._insert(pairs, np.arange(begin, self._count))

    def _insert(self, pairs: Array, slots: Array) -> None:
        places, last = self._places(pairs), len(self._pairs) - 1
        while len(pairs):
            free = self._pairs.take(places) < 0
            self._pairs[places[free]] = pairs[free]  # of several for one place the last one stays
            is_there = self._pairs.take(places) == pairs
            self._slots[places[is_there]] = slots[is_there]
            on = ~is_there
            places, pairs, slots = (places[on] + 1) & last, pairs[on], slots[on]


__all__ = ["PairSlots"]
