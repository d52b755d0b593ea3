"""Records of a block grouped by key, and what a running fold gives for each of them.

The records are sorted by slot, stably, so that those of a key stand together in their order; a fold then is a scan with a
new beginning at every key; and its results go back to where their records stood. Of folds of which only the end counts, and
keys in a narrow range, ``NumberedGroups`` needs no sort: a key's place in a table is the key. ``JoinIndex`` finds the records
of a key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from funken.columnar.folds import MIN, SUM
from funken.columnar.kernels.arrow import pa
from funken.columnar.kernels.columns import Array, Column
from funken.columnar.kernels.text import places_in_order
from funken.expr.types import STR

DENSE = 4
"""Ints are looked up in a table if their range is at most so many times their number."""

_NARROW = 1 << 16
_SIDE_BY_SIDE = 128
"""About the root of a block's size, so that neither the scans nor the steps side by side are many."""


class Groups:
    """The records of a block by slot; slots that occur are ``slots``, in the order of the groups."""

    __slots__ = ("_of_records", "begins", "counts", "ends", "length", "order", "slots")

    def __init__(self, numbers: Array, slots: int) -> None:
        self.length = len(numbers)
        self._of_records: Array | None = None
        numbers_in_block = numbers
        if slots > _NARROW:
            numbers_in_block = pa.array(numbers).dictionary_encode().indices.to_numpy()
        # Hot: NumPy sorts 16-bit numbers by radix: 2.5 ns a record, where 64-bit ones take 50.
        narrow = numbers_in_block.astype(np.uint16) if self.length <= _NARROW or slots <= _NARROW else numbers_in_block
        self.order: Array = np.argsort(narrow, kind="stable")
        by_group = narrow.take(self.order)
        changes = np.flatnonzero(by_group[1:] != by_group[:-1]) + 1
        self.begins: Array = np.concatenate(([0], changes))
        self.ends: Array = np.concatenate((changes, [self.length])) - 1
        self.counts: Array = self.ends - self.begins + 1
        self.slots: Array = numbers.take(self.order.take(self.begins))

    def spread(self, per_group: Array) -> Array:
        """Repeat one value per group for each of its records, sorted."""
        return np.repeat(per_group, self.counts)

    def of_records(self) -> Array:
        """Return the number of each record's group, in the order of the block."""
        if self._of_records is None:
            self._of_records = self.back(self.spread(np.arange(len(self.slots))))
        return self._of_records

    def back(self, by_group: Array) -> Array:
        """Bring sorted values into the order of the block."""
        result = np.empty_like(by_group)
        result[self.order] = by_group
        return result


class NumberedGroups:
    """Records by a key of ints from ``low`` on, less than ``span`` above it; groups are in the order of their first records.

    >>> groups = NumberedGroups(np.array([7, 5, 7]), 5, 3)
    >>> groups.firsts.tolist(), groups.lasts().tolist()
    ([0, 1], [2, 1])
    >>> groups.folded(np.array([1, 2, 3]), "sum").tolist(), groups.folded(np.array([0.5, 2.0, 0.25]), "min").tolist()
    ([4, 2], [0.25, 2.0])
    """

    def __init__(self, keys: Array, low: int, span: int) -> None:
        # Hot: see ``benchmarks/columns.py --only groups``.
        self._codes, self._span = keys - low, span
        positions = np.arange(len(keys))
        first = np.full(span, -1, np.int64)
        first[self._codes[::-1]] = positions[::-1]  # what is written last stays: the earliest
        is_first = np.zeros(len(keys), np.bool_)
        is_first[first[first >= 0]] = True
        self.firsts: Array = np.flatnonzero(is_first)
        self._present: Array = self._codes.take(self.firsts)

    def lasts(self) -> Array:
        """Return the positions of the last records."""
        last = np.empty(self._span, np.int64)
        last[self._codes] = np.arange(len(self._codes))
        return last.take(self._present)

    def folded(self, values: Array, how: str) -> Array:
        """Return the sum (of floats one addition after the other), the least or the greatest value of each group."""
        if how == SUM and values.dtype == np.float64:
            return np.bincount(self._codes, values, self._span).take(self._present)
        if how == SUM:
            table = np.zeros(self._span, np.int64)
            np.add.at(table, self._codes, values)
        else:
            table = np.empty(self._span, values.dtype)
            table[self._codes] = values  # any of the group, to begin with
            (np.minimum if how == MIN else np.maximum).at(table, self._codes, values)
        return table.take(self._present)


def running_sum(values: Array, groups: Groups) -> Array:
    """Return the sum so far within each group; ``values`` are sorted, what was there before is in the first of a group.

    Sums over several groups may wrap around; those of one do not, and come out exactly.
    """
    total = np.cumsum(values)
    before = total.take(groups.begins) - values.take(groups.begins)
    total -= groups.spread(before)
    return total


def running_float_sum(values: Array, groups: Groups) -> Array:
    """Return the sum so far within each group, rounded as Python rounds: one addition after the other.

    Groups of few records are added up side by side, one record of each at a time; those of many by a scan of their own.
    """
    total = values.copy()
    many = groups.counts > _SIDE_BY_SIDE
    for group in np.flatnonzero(many).tolist():
        part = slice(int(groups.begins[group]), int(groups.ends[group]) + 1)
        np.add.accumulate(total[part], out=total[part])
    begins, counts = groups.begins[~many], groups.counts[~many]
    for position in range(1, int(counts.max()) if len(counts) else 0):
        begins, counts = begins[counts > position], counts[counts > position]
        total[begins + position] += total[begins + (position - 1)]
    return total


def running_most(values: Array, groups: Groups, low: int, high: int) -> Array | None:
    """Return the greatest value so far within each group; ``None`` if the numbers do not suffice.

    Every group is lifted above the one before it, so that one scan over all serves.
    """
    width = high - low + 1
    if width * len(groups.slots) >= 1 << 62:
        return None
    lift = groups.spread(np.arange(len(groups.slots), dtype=np.int64) * width - low)
    most: Any = np.maximum.accumulate(values + lift)
    most -= lift
    return most


def ranks(columns: list[Column], length: int) -> Array:
    """Return the place of each row in the order of tuples of ints and texts; equal rows have one place.

    >>> from funken.expr.types import INT
    >>> from funken.columnar.kernels.columns import column_of
    >>> ranks([column_of([2, 1, 2, 2], INT), column_of(["b", "z", "a", "b"], STR)], 4).tolist()
    [2, 0, 1, 2]
    """
    codes = [
        places_in_order(column.data) if column.kind == STR else column.data for column in columns if not column.constant
    ]
    if not codes:
        return np.zeros(length, np.int64)
    order = np.lexsort(codes[::-1])
    begins = np.zeros(length, np.bool_)
    for each in codes:
        by_order = each.take(order)
        begins[1:] |= by_order[1:] != by_order[:-1]
    found = np.empty(length, np.int64)
    found[order] = np.cumsum(begins)
    return found


class JoinIndex:
    """The positions of each key of a column of ints.

    >>> index = JoinIndex(np.array([5, 7, 5]))
    >>> found = index.find(np.array([7, 6, 5]))
    >>> [(probed.tolist(), built.tolist()) for probed, built in found.pairs(2)], found.alone().tolist()
    ([([0, 2], [1, 0]), ([2], [2])], [1])
    """

    def __init__(self, keys: Array) -> None:
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        self._low = int(self._keys[0]) if len(keys) else 0
        span = int(self._keys[-1]) - self._low + 1 if len(keys) else 0
        self._starts: Array | None = None
        if span <= max(1024, DENSE * len(keys)):
            counts = np.bincount(keys - self._low, minlength=span)
            self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])

    def marks(self) -> Array:
        """Return a mark per position, none of them set."""
        return np.zeros(len(self._keys), np.bool_)

    def find(self, keys: Array) -> Partners:
        """Look keys up."""
        first: Array
        end: Array
        if self._starts is None:
            first, end = np.searchsorted(self._keys, keys, "left"), np.searchsorted(self._keys, keys, "right")
        else:
            span = len(self._starts) - 1
            inside = (keys >= self._low) & (keys < self._low + span)
            places = np.where(inside, keys, self._low) - self._low
            first = self._starts[places] if span else np.zeros(len(keys), np.int64)
            end = np.where(inside, self._starts[places + 1], first) if span else first
        return Partners(self._order, first, end)


class Partners:
    """Where the partners of probed keys are: from ``first`` to ``end`` in ``order``."""

    def __init__(self, order: Array, first: Array, end: Array) -> None:
        self._order, self._counts, self._end = order, end - first, end

    def pairs(self, most: int) -> Iterator[tuple[Array, Array]]:
        """Return the positions of all pairs, among the probed keys and in the column; at most ``most`` at a time."""
        ends = np.cumsum(self._counts)
        for at in range(0, int(ends[-1]) if len(ends) else 0, most):
            pairs = np.arange(at, min(at + most, int(ends[-1])))
            probed = np.searchsorted(ends, pairs, "right")
            yield probed, self._order[self._end[probed] - ends[probed] + pairs]

    def alone(self) -> Array:
        """Return the positions of the probed keys that have no partner."""
        return np.flatnonzero(self._counts == 0)


def each_once(values: Array) -> Array:
    """Return the values of an array, each once, in order.

    >>> each_once(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    # Hot: ``np.unique`` of NumPy 2.3 and later puts ints into a hash table, which takes 20 times as long as a sort of 16,000 ints
    # that differ, and 140 times as long as one of 2,000,000 (one core).
    ordered = np.sort(values)
    new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


__all__ = [
    "DENSE",
    "Groups",
    "JoinIndex",
    "NumberedGroups",
    "Partners",
    "each_once",
    "ranks",
    "running_float_sum",
    "running_most",
    "running_sum",
]
