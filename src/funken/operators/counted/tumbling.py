"""Tumbling count windows over columns: each block is cut into the windows of its keys, and every window is filled at once.

``entries.py`` says where what is kept of a key is, and when it goes back to the record path.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funken.columnar.block import Block
from funken.columnar.kernels.columns import Array, Columns, joined
from funken.columnar.keyed.groups import Groups
from funken.columnar.keyed.keys import key_of
from funken.columnar.loops.converting import wrapped
from funken.expr.types import INT
from funken.ids import MAX_WATERMARK
from funken.operators.columnar.keyed_arrays import KeyedArrays, leaf_columns
from funken.operators.columnar.panes import Contribution, joined_leaf, reach
from funken.operators.columnar.specs import ColumnarWindow
from funken.operators.columnar.window import contribution_of
from funken.operators.counted.entries import CountsInArrays
from funken.operators.counted.lists import KeyedLists, listed
from funken.operators.window.counts import TumblingCounts
from funken.windowing.windows import CountWindow, GlobalWindow

_MANY = 1 << 16


class ColumnarCounts(CountsInArrays, TumblingCounts):
    """Windows whose contents are one value per leaf: what records were folded to."""

    _arrays: Any

    def __init__(self, spec: ColumnarWindow, size: int) -> None:
        super().__init__(spec, size)
        self._begin(spec)

    def _empty(self) -> KeyedArrays | KeyedLists:
        return KeyedArrays(self._schema)

    def _present(self) -> Array:
        return (self._counts[: len(self._arrays)] > 0) if self._numbered else super()._present()

    def process_block(self, block: Block) -> None:
        """Count off a block."""
        fired = self._taken(block)
        if fired is None:
            self.process(*block.rows())
        else:
            self._fire(*fired)
            if len(self._arrays) > _MANY and int(np.count_nonzero(self._counts)) < len(self._arrays) // 4:
                self._store()  # keys whose windows are all full are forgotten

    def _take_columns(self, block: Columns) -> tuple[list[Any], Array, Columns]:
        """Return the keys, numbers and contents of the windows that are full, in the order of their last records."""
        key = key_of(self._vector.traced_key.result, block)
        contributions = [contribution_of(self._vector, block, number) for number in range(len(self._vector.folds))]
        arrays = self._arrays
        numbers = self._found(key, block.length)
        for number, contribution in enumerate(contributions):
            reach(arrays, number, contribution, min(block.length, self._size))
        groups = Groups(numbers, len(arrays))
        cut = _Windows(groups, self._counts.take(groups.slots), self._filled.take(groups.slots), self._size)
        # Nothing has changed so far.
        full = np.flatnonzero(cut.full)
        full = full.take(np.argsort(cut.last.take(full), kind="stable"))
        slots = groups.slots.take(cut.group)
        contents = self._filled_up(block, cut, slots, full, contributions)
        self._counts[groups.slots] += groups.counts
        self._filled[groups.slots] = False
        self._filled[slots.take(np.flatnonzero(~cut.full))] = True
        self._touched[groups.slots] = True
        known = arrays.slots.keys
        keys = [known[slot] for slot in slots.take(full).tolist()]
        if not self._numbered:
            self._forget(groups.slots[~self._filled.take(groups.slots)], groups.slots)
        return keys, cut.number.take(full), contents

    def _filled_up(
        self, block: Columns, cut: _Windows, slots: Array, full: Array, contributions: list[Contribution]
    ) -> Columns:
        """Return the contents of windows that are full, and keep those of the others; ``slots`` are those of the windows."""
        arrays = self._arrays
        leaves = [self._folded(cut, number, contribution) for number, contribution in enumerate(contributions)]
        open_ones = np.flatnonzero(~cut.full)
        for number, (_, kind) in enumerate(arrays.leaves):
            kept = leaves[number].take(open_ones)
            arrays.state[number][slots.take(open_ones)] = kept
            if kind == INT:
                low, high = reach(arrays, number, contributions[number], min(block.length, self._size))
                arrays.widen(number, low, high)
        made = leaf_columns(arrays.leaves, [leaf.take(full) for leaf in leaves])
        return Columns(self._schema, made, len(full))

    def _folded(self, cut: _Windows, number: int, contribution: Contribution) -> Array:
        """Return what one leaf of the contents of each window is."""
        array = self._arrays.state[number]
        folded = np.zeros(cut.count, array.dtype)
        old = cut.groups.slots.take(cut.group.take(np.arange(cut.old)))
        folded[: cut.old] = array.take(old)
        joined_leaf(
            folded,
            contribution,
            cut.of_record,
            slice(cut.old, cut.count),
            cut.first.take(np.arange(cut.old, cut.count)),
            cut.groups.length,
        )
        return wrapped(folded, contribution.bits) if contribution.bits < 64 else folded

    def _forget(self, empty: Array, seen: Array) -> None:
        """Remove keys without contents; where windows have no numbers, the count begins anew with each."""
        for slot in empty[self._saved.take(empty)].tolist():
            self._gone.append(self._arrays.slots.keys[slot])
        self._counts[seen] %= self._size
        self._touched[empty] = False
        self._saved[empty] = False

    def _fire(self, keys: list[Any], numbers: Array, contents: Columns) -> None:
        """Emit the results of windows."""
        if not keys:
            return
        made = None if self._results is None else self._results(contents, keys, 0, MAX_WATERMARK + 1)
        if made is not None:
            if made.length:
                self.output.emit_block(made)
            return
        every = GlobalWindow.get()
        for key, number, stored in zip(keys, numbers.tolist(), contents.to_list(), strict=True):
            self.store.current_key = key
            self.emitter.fire(key, CountWindow(number) if self._numbered else every, stored)
        self._flush_results()


class ListCounts(ColumnarCounts):
    """Windows that hand all their records to a function, in the order in which they came."""

    def _empty(self) -> KeyedArrays | KeyedLists:
        return KeyedLists(self._vector.schema)

    def _filled_up(
        self, block: Columns, cut: _Windows, slots: Array, full: Array, contributions: list[Contribution]
    ) -> Columns:
        log, records = self._arrays.log, block.stamped(None)
        rank = np.full(cut.count, -1)
        rank[full] = np.arange(len(full))
        # Of windows that are full: what was there before, then what the block has.
        went_on = np.flatnonzero(cut.full[: cut.old])
        counts, before = log.lists(slots.take(went_on))
        window = rank.take(cut.of_record)
        is_full = window >= 0
        owners = np.append(np.repeat(rank.take(went_on), counts), window[is_full])
        both = joined([before, records.keep(is_full)]) if before.length else records.keep(is_full)
        contents = both.take(np.argsort(owners, kind="stable"))
        log.empty(slots.take(went_on))
        left = np.flatnonzero(~is_full)
        of_left = slots.take(cut.of_record.take(left))
        open_slots, open_counts = np.unique(of_left, return_counts=True)
        log.append(open_slots, open_counts, records.take(left.take(np.argsort(of_left, kind="stable"))))
        return listed(self._vector.schema, np.bincount(owners, minlength=len(full)), contents)


class _Windows:
    """The windows that the records of a block are in: first those that have contents already, then the others.

    Of each: ``group``, its ``number`` within the key, its ``first`` and ``last`` record in the block, and whether it is ``full``.
    """

    def __init__(self, groups: Groups, counts: Array, filled: Array, size: int) -> None:
        place = np.arange(groups.length) - groups.spread(groups.begins) + groups.spread(counts)
        begins = place % size == 0
        begins[groups.begins] = True
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], groups.length) - 1
        in_group = np.cumsum(np.bincount(groups.begins, minlength=groups.length)[: groups.length])[starts] - 1
        goes_on = (starts == groups.begins.take(in_group)) & filled.take(in_group)
        order = np.argsort(~goes_on, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        self.groups = groups
        self.old, self.count = int(np.count_nonzero(goes_on)), len(starts)
        self.group = in_group.take(order)
        self.number = (place.take(starts) // size).take(order)
        self.first = groups.order.take(starts).take(order)
        self.last = groups.order.take(ends).take(order)
        self.full = (place.take(ends) % size == size - 1).take(order)
        self.of_record: Array = groups.back(rank.take(np.cumsum(begins) - 1))


__all__ = ["ColumnarCounts", "ListCounts"]
