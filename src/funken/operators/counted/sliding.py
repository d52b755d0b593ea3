"""Sliding count windows over columns: the last records of each key are kept, and all windows of a block are made at once.

A window is a copy of its records, so what it costs is what it has, as in the record path, which folds the records of each window
one after the other. ``entries.py`` says where what is kept of a key is, and when it goes back to the record path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from funken.columnar.block import Block
from funken.columnar.kernels.columns import Array, Columns, joined
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.groups import Groups
from funken.columnar.keyed.kept import LEAF_TYPES
from funken.columnar.keyed.keys import key_of
from funken.columnar.loops.converting import wrapped
from funken.expr.types import atomic_fields
from funken.ids import MAX_WATERMARK
from funken.operators.columnar.keyed_arrays import KeyedArrays, leaf_columns
from funken.operators.columnar.panes import joined_leaf, reach
from funken.operators.columnar.specs import ColumnarWindow
from funken.operators.columnar.window import contribution_of
from funken.operators.counted.entries import CountsInArrays
from funken.operators.counted.lists import KeyedLists, listed
from funken.operators.window.counts import SlidingCounts
from funken.windowing.windows import GlobalWindow

_AT_ONCE = 1 << 16
"""So many records the windows have, mostly, that are computed together."""

Fired = tuple[list[Any], Array, Columns]
"""The keys of some windows, how many records each has, and all these records, one window after the other."""


class ColumnarSlidingCounts(CountsInArrays, SlidingCounts):
    """The last records of each key in columns."""

    _arrays: Any

    def __init__(self, spec: ColumnarWindow, size: int, slide: int) -> None:
        super().__init__(spec, size, slide)
        self._begin(spec)
        self._listed = spec.aggregate is not None and spec.aggregate.listed is not None

    def _empty(self) -> KeyedArrays | KeyedLists:
        return KeyedLists(self._vector.schema)

    def _check_counts(self, counts: list[int]) -> None:
        if any(count >= self._slide for count in counts):
            raise FallBackToRows("counts of another slide, which never fire")

    def process_block(self, block: Block) -> None:
        """Count off a block."""
        fired = self._taken(block)
        if fired is None:
            self.process(*block.rows())
            return
        made: list[Columns] = []
        for keys, counts, records in fired:
            results = self._made(keys, counts, records, made)
            if results is not None and results.length:
                made.append(results)
        self._emit(made)

    def _take_columns(self, block: Columns) -> Iterator[Fired]:
        """Return the windows that fire, in the order of their last records."""
        key = key_of(self._vector.traced_key.result, block)
        numbers = self._found(key, block.length)
        # Nothing has changed so far, and nothing can fail from here on.
        groups = Groups(numbers, len(self._arrays))
        slots, before = groups.slots, self._counts.take(groups.slots)
        fires = (before + groups.counts) // self._slide
        records = block.stamped(None).take(groups.order)
        firing = np.flatnonzero(fires)
        last = _Last(self._arrays.log.lists(slots.take(firing)), records, groups, firing)
        self._keep(groups, fires, records, last)
        self._counts[slots] = (before + groups.counts) % self._slide
        self._filled[slots] = self._touched[slots] = True
        return self._windows(groups, fires.take(firing), before.take(firing), firing, last)

    def _keep(self, groups: Groups, fires: Array, records: Columns, last: _Last) -> None:
        """Keep the last records of each key that has some in the block, or a few more."""
        log, size = self._arrays.log, self._size
        firing = groups.slots[fires > 0]
        ends = last.kept + last.added
        counts = np.minimum(ends, size)
        log.empty(firing)
        log.append(firing, counts, last.records(np.arange(len(firing)), ends, counts))
        waiting = fires == 0
        log.append(groups.slots[waiting], groups.counts[waiting], records.keep(groups.spread(waiting)))
        long = groups.slots[waiting]
        long = long[log.lengths(long) > 2 * size]
        if len(long):
            lengths, kept = log.lists(long)
            places = np.arange(kept.length) - np.repeat(np.cumsum(lengths) - size, lengths)
            log.empty(long)
            log.append(long, np.full(len(long), size), kept.take(np.flatnonzero(places >= 0)))

    def _windows(self, groups: Groups, fires: Array, before: Array, firing: Array, last: _Last) -> Iterator[Fired]:
        owner = np.repeat(np.arange(len(firing)), fires)
        number = np.arange(len(owner)) - np.repeat(np.cumsum(fires) - fires, fires)
        #: which of the new records of its key is the last one
        newest = (number + 1) * self._slide - before.take(owner) - 1
        order = np.argsort(groups.order.take(groups.begins.take(firing.take(owner)) + newest))
        owner, newest = owner.take(order), newest.take(order)
        ends = last.kept.take(owner) + newest + 1
        counts = np.minimum(ends, self._size)
        known = self._arrays.slots.keys
        keys = [known[slot] for slot in groups.slots.take(firing.take(owner)).tolist()]
        begin, reached = 0, np.cumsum(counts)
        while begin < len(keys):
            done = int(reached[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(reached, done + _AT_ONCE, "right")))
            part = slice(begin, end)
            yield keys[part], counts[part], last.records(owner[part], ends[part], counts[part])
            begin = end

    def _emit(self, made: list[Columns]) -> None:
        """Emit results, as one block."""
        if made:
            self.output.emit_block(joined(made))
            made.clear()

    def _made(self, keys: list[Any], counts: Array, records: Columns, before: list[Columns]) -> Columns | None:
        """Return the results of windows; ``None``: they are emitted one by one, after those that were made before."""
        try:
            contents = self._contents(counts, records)
        except FallBackToRows:
            contents = None
        if self._results is not None and contents is not None:
            made = self._results(contents, keys, 0, MAX_WATERMARK + 1)
            if made is not None:
                return made
        self._emit(before)
        window, compute = GlobalWindow.get(), self.contents.compute
        if contents is None:
            each = [compute(values) for values in listed(self._vector.schema, counts, records).to_list()]
        else:
            each = contents.to_list()
        for key, stored in zip(keys, each, strict=True):
            if stored is not None:
                self.store.current_key = key
                self.emitter.fire(key, window, stored)
        self._flush_results()
        return None

    def _contents(self, counts: Array, records: Columns) -> Columns:
        """Return what the records of each window become."""
        if self._listed:
            return listed(self._vector.schema, counts, records)
        count, length, most = len(counts), records.length, int(counts.max())
        of_record, firsts = np.repeat(np.arange(count), counts), np.cumsum(counts) - counts
        bounds, leaves, states = KeyedArrays(self._schema), atomic_fields(self._schema), []
        for number, (_, kind) in enumerate(leaves):
            contribution = contribution_of(self._vector, records, number)
            reach(bounds, number, contribution, most)
            state: Array = np.zeros(count, LEAF_TYPES[kind])
            joined_leaf(state, contribution, of_record, slice(0, count), firsts, length)
            states.append(wrapped(state, contribution.bits) if contribution.bits < 64 else state)
        return Columns(self._schema, leaf_columns(leaves, states), count)


class _Last:
    """The records of the keys of which windows fire: those that were kept, and behind them those of the block."""

    def __init__(self, lists: tuple[Array, Columns], records: Columns, groups: Groups, firing: Array) -> None:
        self.kept, before = lists
        self.added = groups.counts.take(firing)
        self._all = joined([before, records]) if before.length else records
        self._kept_begin = np.cumsum(self.kept) - self.kept
        #: what has to be added to the place of a record of the block, among those of its key, to find it
        self._shift = before.length + groups.begins.take(firing) - self.kept

    def records(self, owner: Array, ends: Array, counts: Array) -> Columns:
        """Return so many records before each end, one after the other; ``owner`` are the numbers of the keys."""
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        places, owner = np.repeat(ends - counts, counts) + within, np.repeat(owner, counts)
        shift = np.where(places < self.kept.take(owner), self._kept_begin.take(owner), self._shift.take(owner))
        return self._all.take(places + shift)


__all__ = ["ColumnarSlidingCounts"]
