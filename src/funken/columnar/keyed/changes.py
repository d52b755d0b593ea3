"""Values by key that change with records: what each is before every record of a block, and after the last one of its key.

The records that change a value are *participants*, in the order of the groups (``groups.py``). The values that they leave are
computed by scans over segments, which begin with each group, and wherever a value is set. A record's value before it is what the
last participant before it in its group has left, or what was there before the block.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from funken.columnar.kernels.arithmetic import FallBackToRows, rounded
from funken.columnar.kernels.columns import Array
from funken.columnar.keyed.groups import Groups, running_float_sum, running_most, running_sum
from funken.expr.types import FLOAT, HIGHEST, LOWEST, Atomic

_MOST_BITS = 16
_SIDE_BY_SIDE = 128
"""Segments of more records are added up one by one."""


class Runs:
    """Records that change a value, group behind group: what the scans below need of them."""

    def __init__(self, changed: Array, firsts: Array) -> None:
        #: the groups that have any, and of each the first among these records
        self.changed, self.firsts = changed, firsts

    def segments(self, starts: Array) -> Segments:
        """Return the parts of them that begin with a group, or where ``starts`` is true."""
        begins = starts.copy()
        begins[self.firsts] = True
        return Segments(np.flatnonzero(begins), len(begins))


class Participants(Runs):
    """The records of a block where a mask is true.

    >>> groups = Groups(np.array([0, 1, 0, 0]), 2)
    >>> some = Participants(groups, np.array([True, False, True, False]))
    >>> some.positions.tolist(), some.before.tolist(), some.after.tolist()  # 0, 1: as the groups were; 2, 3: by participants
    ([0, 2], [0, 1, 2, 3], [3, 1])
    """

    def __init__(self, groups: Groups, mask: Array) -> None:
        there = mask.take(groups.order)
        counted = np.cumsum(there)
        so_far = counted - there
        begins, ends = so_far.take(groups.begins), counted.take(groups.ends)
        numbers = np.arange(len(groups.slots))
        #: where participants are in the block, in the order of groups
        self.positions: Array = groups.order[there]
        any_before = so_far > groups.spread(begins)
        #: of each record, where its value is: among those of the groups, and behind them those that participants leave
        self.before: Array = groups.back(np.where(any_before, so_far + (len(numbers) - 1), groups.spread(numbers)))
        #: of each group, where the last value is
        self.after: Array = np.where(ends > begins, ends + (len(numbers) - 1), numbers)
        changed = np.flatnonzero(ends > begins)
        super().__init__(changed, begins.take(changed))


class Segments:
    """Parts of an array, one after the other: what the scans of ``groups.py`` need of groups."""

    def __init__(self, begins: Array, length: int) -> None:
        self.begins = self.slots = begins
        self.counts: Array = np.diff(np.append(begins, length))
        self.ends: Array = begins + self.counts - 1

    def spread(self, per_segment: Array) -> Array:
        """Repeat one value per segment for each of its items."""
        return np.repeat(per_segment, self.counts)


def added(some: Participants, values: Array, sets: Array, initial: Array, kind: Atomic) -> Array:
    """Return the sums that participants leave: ``values`` are added, or, where ``sets`` is true, what it is set to."""
    with np.errstate(invalid="ignore", over="ignore"):  # infinite floats
        values = _begun(some, values, sets, initial, np.add)
        segments: Any = some.segments(sets)
        if kind == FLOAT:
            return running_float_sum(values, segments)
        return running_sum(values, segments)


def added_rounded(some: Participants, values: Array, sets: Array, initial: Array) -> Array:
    """Return such sums of floats, each of which is rounded to 32 bits.

    Of floats that have no more than 32 bits, the sum in 32 bits is the sum in 64 bits, rounded: these are more than twice as many
    digits and two. A sum with another one is rounded one by one.
    """
    with np.errstate(all="ignore"):
        values = _begun(some, values, sets, initial, lambda one, other: rounded(one + other))
        segments, total = some.segments(sets), values.copy()
        narrow = values.astype(np.float32)
        many = segments.counts > _SIDE_BY_SIDE
        for number in np.flatnonzero(many).tolist():
            part = slice(int(segments.begins[number]), int(segments.ends[number]) + 1)
            if np.array_equal(narrow[part], values[part], equal_nan=True):
                total[part] = np.add.accumulate(narrow[part])
            else:
                total[part] = list(accumulate(values[part].tolist(), lambda one, other: float(np.float32(one + other))))
        begins, counts = segments.begins[~many], segments.counts[~many]
        for position in range(1, int(counts.max()) if len(counts) else 0):
            begins, counts = begins[counts > position], counts[counts > position]
            total[begins + position] = rounded(total[begins + (position - 1)] + total[begins + position])
    return total


def check_sums(values: Array, sets: Array, initial: Array) -> None:
    """Raise ``FallBackToRows`` if sums may overflow."""
    if not len(values):
        return
    adds, begins = values[~sets], np.concatenate((values[sets], initial, np.zeros(1, np.int64)))
    low, high = (int(adds.min()), int(adds.max())) if len(adds) else (0, 0)
    if int(begins.min()) + len(adds) * min(0, low) < LOWEST or int(begins.max()) + len(adds) * max(0, high) > HIGHEST:
        raise FallBackToRows("an overflow")


def most(some: Runs, values: Array, sets: Array, initial: Array, greatest: bool) -> Array:
    """Return the greatest values, or the least, that participants leave."""
    if not len(values):
        return values
    if not greatest:
        if min(int(values.min()), int(initial.min())) == LOWEST:
            raise FallBackToRows("an overflow")
        return -most(some, -values, sets, -initial, True)
    values = _begun(some, values, sets, initial, np.maximum)
    found = running_most(values, some.segments(sets), int(values.min()), int(values.max()))  # type: ignore[arg-type]
    if found is None:
        raise FallBackToRows("a range too wide")
    return found


def united(some: Participants, values: Array, sets: Array, initial: Array) -> Array:
    """Return the ints that participants leave: the bits of ``values`` are added to theirs, or they are set."""
    values = _begun(some, values, sets, initial, np.bitwise_or)
    all_bits = int(np.bitwise_or.reduce(values)) if len(values) else 0
    if not 0 <= all_bits < 1 << _MOST_BITS:
        raise FallBackToRows("too many bits")
    segments: Any = some.segments(sets)
    found = np.zeros_like(values)
    for bit in range(all_bits.bit_length()):
        one = running_most(values >> bit & 1, segments, 0, 1)
        assert one is not None
        found |= one << bit
    return found


def toggled(some: Participants, values: Array, toggles: Array, initial: Array) -> Array:
    """Return the bools that participants leave: they are inverted where ``toggles`` is true, and else set."""
    numbers = _begun(some, np.where(toggles, 1, values).astype(np.int64), ~toggles, initial.astype(np.int64), np.add)
    segments: Any = some.segments(~toggles)
    return running_sum(numbers, segments) % 2 == 1


def _begun(some: Runs, values: Array, sets: Array, initial: Array, join: Any) -> Array:
    """Return values, of which the first ones of groups are joined with what was there, unless they are set."""
    joins = ~sets.take(some.firsts)
    values, firsts = values.copy(), some.firsts[joins]
    values[firsts] = join(initial.take(some.changed[joins]), values.take(firsts))
    return values


__all__ = ["Participants", "Runs", "Segments", "added", "added_rounded", "check_sums", "most", "toggled", "united"]
