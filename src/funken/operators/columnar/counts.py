"""Tumbling count windows over columns: each block is cut into the windows of its keys, and every window is folded at once.

A key is in arrays here, by *slot*, or in the table of the record path (``operators/window/counts.py``), never in both: it is
taken out of the table by its first block of columns, and all go back before a block that the kernels cannot compute. A snapshot
of one path is a snapshot of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from funken.columnar.block import Block
from funken.columnar.kernels.columns import Array, Columns
from funken.columnar.keyed.groups import Groups
from funken.columnar.keyed.kept import grown
from funken.columnar.keyed.keys import key_of
from funken.columnar.loops.converting import wrapped
from funken.ids import MAX_WATERMARK
from funken.operators.base import Timestamps, Values
from funken.operators.columnar.keyed_arrays import KeyedArrays, leaf_columns
from funken.operators.columnar.panes import Contribution, joined_leaf, reach
from funken.operators.columnar.path import ColumnPath
from funken.operators.columnar.specs import ColumnarWindow
from funken.operators.columnar.window import WindowResults, contribution_of, functions_of
from funken.operators.window.counts import TumblingCounts
from funken.state.delta_tables import ExtendedDeltaTable
from funken.windowing.windows import CountWindow, GlobalWindow

_MOST_RETURNS = 8
_MANY = 1 << 16


class ColumnarCounts(TumblingCounts):
    """Arrays in front of the table."""

    columnar = True

    def __init__(self, spec: ColumnarWindow, size: int) -> None:
        super().__init__(spec, size)
        self._vector = spec
        self._schema = spec.schema if spec.aggregate is None else spec.aggregate.schema
        self._mixed = ExtendedDeltaTable(self, tuple, lambda key, saved: [saved[0], saved[1]])
        self._entries = self._mixed
        self._path = ColumnPath(self._take_columns, *functions_of(spec))
        self._results = None if spec.results is None else WindowResults(spec)
        self._returns = 0
        self._gone: list[Any] = []
        self._clear()

    def _clear(self) -> None:
        self._arrays = KeyedArrays(self._schema)
        #: slots below this were looked for in the table
        self._looked = 0
        #: by slot: how many records there were, whether there are contents, whether the key is new since the last
        #: snapshot, and whether it is in one
        self._counts: Array = np.empty(0, np.int64)
        self._filled: Array = np.empty(0, np.bool_)
        self._touched: Array = np.empty(0, np.bool_)
        self._saved: Array = np.empty(0, np.bool_)

    def process_block(self, block: Block) -> None:
        """Count off a block."""
        fired = self._path(block) if self._returns < _MOST_RETURNS else None
        if fired is None:
            self.process(*block.rows())
        else:
            self._fire(*fired)
            if len(self._arrays) > _MANY and int(np.count_nonzero(self._counts)) < len(self._arrays) // 4:
                self._store()  # keys whose windows are all full are forgotten

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Count off records."""
        if len(self._arrays):
            self._returns += 1
            self._store()
        super().process(values, timestamps)

    def _take_columns(self, block: Columns) -> tuple[list[Any], Array, Columns]:
        """Return the keys, numbers and contents of the windows that are full, in the order of their last records."""
        key = key_of(self._vector.traced_key.result, block)
        contributions = [contribution_of(self._vector, block, number) for number in range(len(self._vector.folds))]
        arrays = self._arrays
        numbers = arrays.find(key, block.length)
        if len(self._counts) < arrays.room:
            for name in ("_counts", "_filled", "_touched", "_saved"):
                setattr(self, name, grown(getattr(self, name), arrays.room))
        self._load()
        for number, contribution in enumerate(contributions):
            reach(arrays, number, contribution, min(block.length, self._size))
        groups = Groups(numbers, len(arrays))
        cut = _Windows(groups, self._counts.take(groups.slots), self._filled.take(groups.slots), self._size)
        # Nothing has changed so far.
        leaves = [self._folded(cut, number, contribution) for number, contribution in enumerate(contributions)]
        slots = groups.slots.take(cut.group)
        self._counts[groups.slots] += groups.counts
        open_ones = np.flatnonzero(~cut.full)
        for number, (_, kind) in enumerate(arrays.leaves):
            kept = leaves[number].take(open_ones)
            arrays.state[number][slots.take(open_ones)] = kept
            if kind == "int":
                low, high = reach(arrays, number, contributions[number], min(block.length, self._size))
                arrays.widen(number, low, high)
        self._filled[groups.slots] = False
        self._filled[slots.take(open_ones)] = True
        self._touched[groups.slots] = True
        full = np.flatnonzero(cut.full)
        full = full.take(np.argsort(cut.last.take(full), kind="stable"))
        owners = slots.take(full)
        known = arrays.slots.keys
        keys = [known[slot] for slot in owners.tolist()]
        if not self._numbered:
            self._forget(groups.slots[~self._filled.take(groups.slots)], groups.slots)
        made = leaf_columns(arrays.leaves, [leaf.take(full) for leaf in leaves])
        return keys, cut.number.take(full), Columns(self._schema, made, len(full))

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

    # ---- between arrays and table

    def _load(self) -> None:
        """Take the entries of new keys out of the table, if they are there."""
        keys, begin = self._arrays.slots.keys, self._looked
        table = self._mixed
        if begin == len(keys) or not (table.delta or table.base):
            self._looked = len(keys)
            return
        found = {slot: entry for slot in range(begin, len(keys)) if (entry := table.get(keys[slot])) is not None}
        held = {slot: entry[1] for slot, entry in found.items() if entry[1] is not None}
        self._arrays.put(list(held), list(held.values()))  # falls back if one is of another type
        self._looked = len(keys)
        for slot, (count, contents) in found.items():
            self._counts[slot], self._filled[slot] = count, contents is not None
            self._touched[slot], self._saved[slot] = table.take_out(keys[slot])

    def _present(self) -> Array:
        return (self._counts[: len(self._arrays)] > 0) if self._numbered else self._filled[: len(self._arrays)]

    def rows(self, slots: Array) -> Iterator[tuple[Any, tuple[int, Any]]]:
        """Return what gives out keys and their entries, as they are now."""
        counts, filled = self._counts.take(slots).tolist(), self._filled.take(slots).tolist()
        entries = self._arrays.entries(slots)
        return (
            (key, (count, contents if has else None))
            for (key, contents), count, has in zip(entries, counts, filled, strict=True)
        )

    def take_written(self, complete: bool) -> tuple[Iterator[tuple[Any, tuple[int, Any]]], list[Any]]:
        """Return what gives out the entries that changed since the last time, or all; and keys that are gone."""
        present = self._present()
        slots = np.flatnonzero(present if complete else present & self._touched[: len(present)])
        self._touched[:] = False
        self._saved[slots] = True
        gone, self._gone = self._gone, []
        return self.rows(slots), gone

    def kept(self) -> int:
        """Return how many entries are in the arrays."""
        return int(np.count_nonzero(self._present()))

    def _store(self) -> None:
        """Bring everything back into the table."""
        slots = np.flatnonzero(self._present())
        base = self._entries.finish_snapshot()
        touched, saved = self._touched.take(slots).tolist(), self._saved.take(slots).tolist()
        for (key, (count, contents)), new, old in zip(self.rows(slots), touched, saved, strict=True):
            entry = [count, contents]
            if old:
                base[key] = entry
            if new or not old:
                self._entries.delta[key] = entry
        self._mixed.removed(self._gone)
        self._gone = []
        self._clear()


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
