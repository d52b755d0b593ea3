"""Records of a block grouped by key, and running aggregates of each group.

The records are sorted by slot, stably, so that those of a key stand together in their order; a fold then is a scan with a
new beginning at every key; and its results go back to where their records stood. Of folds of which only the end counts, and
keys in a narrow range, ``NumberedGroups`` needs no sort: a key's place in a table is the key. ``JoinIndex`` finds the records
of a key.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np

from funken.columnar.declared import FIRST, LAST, MAX, MIN, SUM
from funken.columnar.kernels.columns import Array, Column, Columns, FallBackToRows, joined, rounded
from funken.columnar.kernels.text import places_in_order
from funken.columnar.keyed.keys import numbered
from funken.expr.types import FLOAT, HIGHEST, INT, LOWEST, STR, Atomic, Type

DENSE = 4
"""Ints are looked up in a table if their range is at most so many times their number."""

_DIGIT = 16
"""So many bits are sorted at a time."""
_SIDE_BY_SIDE = 128
"""About the root of a block's size, so that neither the scans nor the steps side by side are many."""


def order_of(numbers: Array, count: int, order: Array | None = None) -> Array:
    """Return the places of numbers from 0 to below ``count``, sorted; equal ones in the order given, or as they stand.

    >>> order_of(np.array([70000, 1, 70000, 0]), 70001).tolist(), order_of(np.array([1, 0, 1]), 2, np.array([2, 1, 0])).tolist()
    ([3, 1, 0, 2], [1, 2, 0])
    """
    # Hot: NumPy sorts 16-bit numbers by radix: 2.5 ns a record, where 64-bit ones take 50, or 200.
    for shift in range(0, max(1, (count - 1).bit_length()), _DIGIT):
        digits = (numbers >> shift if shift else numbers).astype(np.uint16)
        order = (
            np.argsort(digits, kind="stable")
            if order is None
            else order.take(np.argsort(digits.take(order), kind="stable"))
        )
    assert order is not None
    return order


class Groups:
    """The records of a block by slot; slots that occur are ``slots``, in the order of the groups."""

    __slots__ = ("_of_records", "begins", "counts", "ends", "length", "order", "slots")

    def __init__(self, numbers: Array, slots: int) -> None:
        self.length = len(numbers)
        self._of_records: Array | None = None
        self.order: Array = order_of(numbers, slots)
        by_group = numbers.take(self.order) if slots > 1 << _DIGIT else numbers.astype(np.uint16).take(self.order)
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
            found: Array = np.bincount(self._codes, values, self._span).take(self._present)
            others = None if found.all() else other_than_negative_zero(values)
            if others is not None:
                found[np.bincount(self._codes, others, self._span).take(self._present) == 0] = -0.0
            return found
        if how == SUM:
            table = np.zeros(self._span, np.int64)
            np.add.at(table, self._codes, values)
        else:
            table = np.empty(self._span, values.dtype)
            table[self._codes] = values  # any of the group, to begin with
            (np.minimum if how == MIN else np.maximum).at(table, self._codes, values)
            zeros = np.flatnonzero(values == 0)[::-1] if values.dtype == np.float64 else ()
            if len(zeros) and np.ptp(np.signbit(values[zeros]).view(np.int8)):
                # Python keeps the first of 0.0 and -0.0, which are equal; NumPy keeps any.
                first = table.copy()
                first[self._codes[zeros]] = values[zeros]
                table = np.where(table == 0, first, table)
        return table.take(self._present)


def other_than_negative_zero(values: Array) -> Array | None:
    """Return a mask of values that are not -0.0; ``None``: all. Kernels add to 0.0, but a sum of only -0.0 is -0.0.

    >>> other_than_negative_zero(np.array([0.0, -0.0])).tolist(), other_than_negative_zero(np.array([0.0, -1.5, 2]))
    ([True, False], None)
    """
    if values.dtype != np.float64:
        return None
    others: Array = (values != 0) | ~np.signbit(values)
    return None if others.all() else others


def running_sum(values: Array, groups: Groups) -> Array:
    """Return the sum so far within each group; ``values`` are sorted, former sums are in the first of a group.

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
    """The partners of probed keys: those from ``first`` to ``end`` in ``order``."""

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


# ---- Values by key that change with records: what each is before every record of a block, and after the last one
# of its key.
#
# The records that change a value are *participants*, in the order of the groups (``groups.py``). The values that
# they leave are computed by scans over segments, which begin with each group, and wherever a value is set. A
# record's value before it is what the last participant before it in its group has left, or what was there before
# the block.


_MOST_BITS = 16


class Runs:
    """Records that change a value, group behind group: the input of the scans below."""

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
    """Parts of an array, one after the other: the groups of the scans of ``groups.py``."""

    def __init__(self, begins: Array, length: int) -> None:
        self.begins = self.slots = begins
        self.counts: Array = np.diff(np.append(begins, length))
        self.ends: Array = begins + self.counts - 1

    def spread(self, per_segment: Array) -> Array:
        """Repeat one value per segment for each of its items."""
        return np.repeat(per_segment, self.counts)


class Stretches:
    """Intervals of numbered keys, of which those that overlap or touch become one.

    ``order`` is that of key and start, and ``begins`` says where in it each stretch does; of each there are key, start and end.

    >>> found = Stretches(np.array([0, 1, 0, 0]), np.array([5, 0, 0, 20]), np.array([9, 9, 5, 21]))
    >>> found.of_intervals().tolist(), found.keys.tolist(), found.starts.tolist(), found.ends.tolist()
    ([0, 2, 0, 1], [0, 0, 1], [0, 20, 0], [9, 21, 9])
    """

    def __init__(self, keys: Array, starts: Array, ends: Array) -> None:
        self.order: Array = order_of(keys, int(keys.max()) + 1, np.argsort(starts, kind="stable"))
        of_keys, first, last = (each.take(self.order) for each in (keys, starts, ends))
        begins = np.ones(len(keys), np.bool_)
        begins[1:] = of_keys[1:] != of_keys[:-1]
        segments: Any = Segments(np.flatnonzero(begins), len(keys))
        reach = running_most(last, segments, int(last.min()), int(last.max()))
        if reach is None:  # too far apart to be lifted: their places are not
            different, places = np.unique(last, return_inverse=True)
            most: Any = running_most(places, segments, 0, len(different))
            reach = different.take(most)
        begins[1:] |= first[1:] > reach[:-1]
        self.begins: Array = np.flatnonzero(begins)
        self.keys, self.starts = of_keys.take(self.begins), first.take(self.begins)
        self.ends = reach.take(np.append(self.begins[1:], len(keys)) - 1)

    def of_intervals(self) -> Array:
        """Return the number of each interval's stretch."""
        begins: Array = np.zeros(len(self.order), np.int64)
        begins[self.begins] = 1
        found = np.empty_like(begins)
        found[self.order] = np.cumsum(begins) - 1
        return found


def added(some: Participants, values: Array, sets: Array, initial: Array, kind: Atomic) -> Array:
    """Return the sums that participants leave: ``values`` are added, or, where ``sets`` is true, replace the sum."""
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
    """Return values, of which the first ones of groups are joined with the former values, unless they are set."""
    joins = ~sets.take(some.firsts)
    values, firsts = values.copy(), some.firsts[joins]
    values[firsts] = join(initial.take(some.changed[joins]), values.take(firsts))
    return values


# ---- Records folded before an exchange: one partial stands for all records of a key and pane in a block.
#
# A partial is a record, in columns like any other, with a weight: how many records it stands for. It means what so
# many records would, one after the other, of which the first is the partial itself, and the others are like it but
# for zeros in the leaves that are added up. So a consumer of records is given records, and one that supports
# weights saves the work.
#
# The combiner of a pre-aggregated window makes them of a block before it is spread over an exchange. It keeps
# nothing between two blocks but a guess whether the next is worth it, so there is nothing to save, restore or
# rescale. A block that has too many keys, or too few records, or whose sums might not fit, goes on as it is.
# benchmarks/pre_aggregation.py has the measurements behind the numbers here.


WORTH = 4
"""So many records per partial are worth the work."""
_ROOM = 2
"""Tables have this many times the places that a block has records."""
_MOST_SKIPPED = 64


class Partials(Columns):
    """A block of partials; ``sums`` are the numbers of the fields that are added up, all of them ints.

    >>> from funken.expr.types import STR, Tuple
    >>> leaves = [Column(STR, "a", True), Column(INT, np.array([7, 5]))]
    >>> block = Partials(Tuple((STR, INT)), leaves, 2, np.array([3, 1]), (1,))
    >>> len(block), block.records, block.to_list()
    (2, 4, [('a', 7), ('a', 0), ('a', 0), ('a', 5)])
    """

    __slots__ = ("_records", "sums", "weights")

    def __init__(
        self, schema: Type, leaves: list[Column], length: int, weights: Array, sums: tuple[int, ...],
        timestamps: Array | None = None,
    ) -> None:  # fmt: skip
        super().__init__(schema, leaves, length, timestamps)
        self.weights = weights
        self.sums = sums
        self._records: int | None = None

    @property
    def records(self) -> int:
        """Number of records that the block stands for."""
        if self._records is None:  # each operator and writer on the way asks
            self._records = int(self.weights.sum())
        return self._records

    def __getitem__(self, part: slice) -> Partials:
        return self._like(super().__getitem__(part), self.weights[part])

    def take(self, positions: Array) -> Partials:
        """Return the partials at some positions."""
        return self._like(super().take(positions), self.weights.take(positions))

    def keep(self, mask: Array) -> Partials:
        """Return the partials where a mask is true."""
        return self._like(super().keep(mask), self.weights[mask])

    def stamped(self, timestamps: Array | None) -> Partials:
        """Return the same partials with other timestamps."""
        return self._like(super().stamped(timestamps), self.weights)

    def each(self) -> Columns:
        """Return the records that the block stands for."""
        positions = np.repeat(np.arange(self.length), self.weights)
        follows = np.ones(len(positions), np.bool_)
        follows[np.cumsum(self.weights) - self.weights] = False
        block = super().take(positions)
        leaves = list(block.leaves)
        for number in self.sums:
            data = np.array(leaves[number].array(block.length))
            data[follows] = 0
            leaves[number] = Column(INT, data)
        return Columns(self.schema, leaves, block.length, block.timestamps)

    def to_list(self) -> list[Any]:
        """Return the records that the block stands for."""
        return self.each().to_list()

    def _like(self, block: Columns, weights: Array) -> Partials:
        return Partials(block.schema, block.leaves, block.length, weights, self.sums, block.timestamps)


def joined_alike(blocks: list[Columns]) -> Columns:
    """Put blocks of one shape together: all of them partials of the same sums, or none."""
    whole, first = joined(blocks), blocks[0]
    if not isinstance(first, Partials) or len(blocks) == 1:
        return whole
    weights = np.concatenate([each.weights for each in blocks if isinstance(each, Partials)])
    return Partials(whole.schema, whole.leaves, whole.length, weights, first.sums, whole.timestamps)


class Combiner:
    """One per edge writer.

    ``roles`` says what is done with each leaf, ``pane`` and ``offset`` (ms) which panes there are; with ``None`` all records of a
    key are in one, and its partial has the highest of their timestamps. A block of fewer than ``least`` records is left alone,
    and one that has fewer than ``worth`` of them per key and pane.

    >>> from funken.expr.types import STR, Tuple
    >>> block = Columns(Tuple((STR, INT)), [Column(STR, "a", True), Column(INT, np.array([7, 5]))], 2)
    >>> Combiner(("first", "sum"), None, 0, least=2, worth=2).combine(block, block.leaves[0])[0].leaves[1].to_list(1)
    [12]
    """

    def __init__(self, roles: tuple[str, ...], pane: int | None, offset: int, least: int, worth: int = WORTH) -> None:
        self._roles = roles
        self._sums = tuple(number for number, role in enumerate(roles) if role == SUM)
        self._pane = pane
        self._offset = offset
        self._least = least
        self._worth = worth
        #: how many blocks are yet to pass, and how many will if the next one has too many keys again
        self._skips = 0
        self._again = 1
        #: ..., 2, 1, 0, for the longest block so far
        self._backwards: Array = np.empty(0, np.int64)

    def combine(self, block: Columns, key: Column) -> tuple[Columns, Column]:
        """Return a block with its keys: of partials, or as it was."""
        plain, stamps = (block, key), block.timestamps
        if self._skips:
            self._skips -= 1
            return plain
        if block.length < self._least or self._may_overflow(block):
            return plain
        found = self._codes(key, stamps, block.length)
        if found is None:
            return plain
        codes, places = found
        counts = np.bincount(codes, minlength=places)
        present = np.flatnonzero(counts)
        if len(present) * self._worth > block.length:
            self._skips, self._again = self._again, min(_MOST_SKIPPED, 2 * self._again)
            return plain
        self._again = 1
        if block.length > len(self._backwards):
            self._backwards = np.arange(block.length - 1, -1, -1)
        firsts = np.empty(places, np.int64)
        # Of several for one place the last one stays. Made contiguous, 16,000 take 12 us; backwards and as they are, 16.
        firsts[np.ascontiguousarray(codes[::-1])] = self._backwards[-block.length :]
        # Keys come in the order of their first records, as they would one by one.
        present = present.take(np.argsort(firsts.take(present)))
        at = firsts.take(present)
        leaves = [
            _folded(leaf, role, codes, counts, present, at)
            for leaf, role in zip(block.leaves, self._roles, strict=True)
        ]
        if stamps is not None and self._pane is not None:
            stamps = stamps.take(at)
        elif stamps is not None:
            stamps = _folded(Column(INT, stamps), MAX, codes, counts, present, at).data
        return Partials(block.schema, leaves, len(at), counts.take(present), self._sums, stamps), key.take(at)

    def _may_overflow(self, block: Columns) -> bool:
        for number in self._sums:
            low, high = block.leaves[number].bounds()
            if block.length * max(high, -low) > HIGHEST:
                return True
        return False

    def _codes(self, key: Column, stamps: Array | None, length: int) -> tuple[Array, int] | None:
        """Return a number for each record, alike for those of one key and pane, and a bound above all of them.

        ``None``: too many, or a record without a timestamp (the least there is), about which the window complains.
        """
        if self._pane is None:
            return numbered(key, length)
        if stamps is None:
            return None
        earliest, latest = int(stamps.min()), int(stamps.max())
        if earliest < LOWEST // 2:
            return None
        codes, places = numbered(key, length)
        first = (earliest - self._offset) // self._pane
        panes = (latest - self._offset) // self._pane - first + 1
        if panes == 1:
            return codes, places
        if places * panes > _ROOM * length:
            return None
        of = (stamps - (first * self._pane + self._offset)) // self._pane
        return codes + of * places, places * panes


def _folded(leaf: Column, role: str, codes: Array, counts: Array, present: Array, at: Array) -> Column:
    """Return a field of the partials, whose places are ``present`` and whose first records are ``at``."""
    if role == FIRST or (leaf.constant and role != SUM):
        return leaf.take(at)
    if role == LAST:
        lasts = np.empty(len(counts), np.int64)
        lasts[codes] = np.arange(len(codes))
        return leaf.take(lasts.take(present))
    if leaf.constant:
        return Column(INT, counts.take(present) * leaf.data)
    state = np.full(len(counts), 0 if role == SUM else LOWEST if role == MAX else HIGHEST, np.int64)
    (np.add if role == SUM else np.maximum if role == MAX else np.minimum).at(state, codes, leaf.data)
    return Column(INT, state.take(present))
