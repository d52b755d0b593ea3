"""Records of a block grouped by key, and what a running fold gives for each of them.

The records are sorted by slot, stably, so that those of a key stand together in their order; a fold then is a scan with a
new beginning at every key; and its results go back to where their records stood.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funken.columnar.kernels.columns import Array

_NARROW = 1 << 16
_SIDE_BY_SIDE = 128
"""About the root of a block's size, so that neither the scans nor the steps side by side are many."""


class Groups:
    """The records of a block by slot; slots that occur are ``slots``, in the order of the groups."""

    __slots__ = ("begins", "counts", "ends", "length", "order", "slots")

    def __init__(self, numbers: Array, slots: int) -> None:
        self.length = len(numbers)
        numbers_in_block = numbers
        if slots > _NARROW:
            import pyarrow as pa  # noqa: PLC0415 - takes 0.1 s, and is needed for many keys only

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

    def back(self, by_group: Array) -> Array:
        """Bring sorted values into the order of the block."""
        result = np.empty_like(by_group)
        result[self.order] = by_group
        return result


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


__all__ = ["Groups", "running_float_sum", "running_most", "running_sum"]
