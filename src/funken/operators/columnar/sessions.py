"""Sessions over columns: a block's records and the sessions of their keys are sorted by key and start, and merged in one scan.

Only where neither the bounds nor the contents of a session depend on the order of its records: none of them is late, and its
folds may be regrouped (``plan/rules/vectorize.py``). All sessions are in arrays here, or all are in the lists of the record path
(``operators/window/sessions.py``), which takes over before a block that the kernels cannot compute. A snapshot of one path is a
snapshot of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify
from typing import Any

import numpy as np

from funken.columnar.block import Block
from funken.columnar.expressions import leaves_of
from funken.columnar.folds import MAX, MIN, SUM
from funken.columnar.kernels.columns import Array, Columns, values_of_leaves
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.groups import each_once
from funken.columnar.keyed.kept import LEAF_TYPES, objects
from funken.columnar.keyed.keys import column_of_keys, key_of
from funken.columnar.loops.converting import wrapped
from funken.columnar.records import fits
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Timestamps, Values
from funken.operators.columnar.keyed_arrays import leaf_columns
from funken.operators.columnar.panes import Contribution
from funken.operators.columnar.path import ColumnPath
from funken.operators.columnar.session_table import SessionTable, merged_order
from funken.operators.columnar.specs import ColumnarWindow
from funken.operators.columnar.window import WindowResults, contribution_of, functions_of
from funken.operators.window.sessions import OpenSession, SessionWindows, saved_sessions
from funken.state.delta_tables import ExtendedDeltaTable
from funken.windowing.windows import TimeWindow

_MOST_RETURNS = 8
_MANY = 1 << 16
_SURE = 2.0**62
Saved = list[tuple[int, int, Any]]


class ColumnarSessions(SessionWindows):
    """Arrays, or the lists of the record path."""

    columnar = True

    def __init__(self, spec: ColumnarWindow) -> None:
        super().__init__(spec)
        self._vector = spec
        self._schema = spec.schema if spec.aggregate is None else spec.aggregate.schema
        self._lists = ExtendedDeltaTable(self, saved_sessions, self._revive)
        self._sessions = self._lists
        self._path = ColumnPath(self._take_columns, *functions_of(spec))
        self._results = None if spec.results is None else WindowResults(spec)
        self._returns = 0
        self._clear()

    def _clear(self) -> None:
        self._table = SessionTable(self._schema)
        #: no session in the arrays ends before
        self._first_end = MAX_WATERMARK
        self._gone: list[Any] = []

    def process_block(self, block: Block) -> None:
        """File a block away."""
        taken = self._path(block) if self._returns < _MOST_RETURNS else None
        if taken is None:
            self.process(*block.rows())

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """File records away."""
        if len(self._table.slots):
            self._returns += 1
            self._store()
        super().process(values, timestamps)

    # ---- a block

    def _take_columns(self, block: Columns) -> bool:
        stamps, gap = block.timestamps, self._gap
        assert gap is not None
        if stamps is None or int(stamps.min()) == MIN_TIMESTAMP or int(stamps.max()) + gap >= MAX_WATERMARK:
            raise FallBackToRows("timestamps at the end of time")
        if int(stamps.min()) + gap - 1 <= self.current_watermark:
            raise FallBackToRows("records that may be late: their order matters")
        key = key_of(self._vector.traced_key.result, block)
        contributions = [contribution_of(self._vector, block, number) for number in range(len(self._vector.folds))]
        self._load()
        table = self._table
        numbers = table.slots.find(key, block.length)
        table.reserve()
        seen = each_once(numbers)
        rows = table.of(seen)
        scan = _Scan(
            np.append(table.field("slot", rows), numbers),
            np.append(table.field("start", rows), stamps),
            np.append(table.field("end", rows), stamps + gap),
            np.append(table.field("order", rows), self._pushes + 1 + np.arange(block.length)),
        )
        kept = table.leaves(rows)
        # Nothing has changed so far, and nothing does before all that may be unfit is computed.
        leaves = [
            scan.folded(np.append(old, _alone(each, block.length)), each.how, LEAF_TYPES[kind], each.bits)
            for old, each, (_, kind) in zip(kept, contributions, leaves_of(self._schema), strict=True)
        ]
        table.replace(seen, rows, scan.slot, scan.start, scan.end, scan.orders(), leaves)
        self._pushes += block.length
        self._first_end = min(self._first_end, int(scan.end.min()))
        return True

    # ---- time

    def advance_event_time(self, watermark: int) -> None:
        """Fire the sessions that end at or before the watermark, in the order of their ends."""
        super().advance_event_time(watermark)
        table = self._table
        if not table.count or self._first_end - 1 > watermark:
            return
        rows = table.due(watermark)
        if len(rows):
            self._fire_rows(rows)
        left = table.all()
        self._first_end = int(table.field("end", left).min()) if len(left) else MAX_WATERMARK

    def _fire_rows(self, rows: Array) -> None:
        table = self._table
        starts, ends, slots = (table.field(name, rows) for name in ("start", "end", "slot"))
        contents = Columns(self._schema, leaf_columns(leaves_of(self._schema), table.leaves(rows)), len(rows))
        empty = table.remove(rows)
        known = table.slots.keys
        for slot in empty[table.saved.take(empty)].tolist():
            self._gone.append(known[slot])
        table.touched[empty] = table.saved[empty] = False
        made = None
        if self._results is not None:
            made = self._results(contents, [known[slot] for slot in slots.tolist()], starts, ends)
        if made is not None:
            self.emitter.flush()
            if made.length:
                self.output.emit_block(made)
        else:
            fired = zip(slots.tolist(), starts.tolist(), ends.tolist(), contents.to_list(), strict=True)
            for slot, start, end, stored in fired:
                self.store.current_key, window = known[slot], TimeWindow(start, end)
                self.emitter.fire(known[slot], window, stored)
                self.emitter.clear(window)
        if len(table.slots) > _MANY and table.count < len(table.slots) // 4:
            self._store()  # keys without sessions are forgotten

    # ---- between arrays and lists

    def _load(self) -> None:
        """Take all sessions over from the lists."""
        lists = self._lists
        if not self._ends:
            return
        base = lists.finish_snapshot()
        entries = sorted((order, key, each) for _, order, key, each in self._ends if each.end != MIN_TIMESTAMP)
        keys, contents = [key for _, key, _ in entries], [each.contents for _, _, each in entries]
        if not all(fits(each, self._schema) for each in contents):
            raise FallBackToRows("contents of another type")
        table = self._table
        slot = table.slots.find(column_of_keys(keys), len(keys))
        table.reserve()
        start = np.array([each.start for _, _, each in entries], np.int64)
        end = np.array([each.end for _, _, each in entries], np.int64)
        order = np.array([order for order, _, _ in entries], np.int64)
        by_key = np.lexsort((start, slot))
        leaves = []
        for (_, leaf), values in zip(leaves_of(self._schema), values_of_leaves(contents, self._schema), strict=True):
            array = np.empty(len(values), LEAF_TYPES[leaf])
            array[:] = values
            leaves.append(array.take(by_key))
        slots, nothing = each_once(slot), np.empty(0, np.int64)
        slot, start, order = slot.take(by_key), start.take(by_key), order.take(by_key)
        table.replace(slots, nothing, slot, start, end.take(by_key), order, leaves)
        self._first_end = int(end.min())
        for number, key in enumerate(table.slots.keys):
            table.touched[number], table.saved[number] = key in lists.delta, key in base
        lists.delta, lists.base = {}, {}
        self._ends.clear()

    def _store(self) -> None:
        """Bring all sessions back into the lists."""
        table, lists = self._table, self._lists
        rows = table.all()
        base = lists.finish_snapshot()
        rows = rows.take(np.argsort(table.field("start", rows)))
        slots, orders = table.field("slot", rows).tolist(), table.field("order", rows).tolist()
        by_key: dict[int, list[OpenSession]] = {}
        for slot, order, (start, end, contents) in zip(slots, orders, self._saved_rows(rows), strict=True):
            session = OpenSession(start, end, contents)
            by_key.setdefault(slot, []).append(session)
            self._ends.append((end, order, table.slots.keys[slot], session))
        heapify(self._ends)
        for slot, sessions in by_key.items():
            key = table.slots.keys[slot]
            if table.saved[slot]:
                base[key] = sessions
            if table.touched[slot] or not table.saved[slot]:
                lists.delta[key] = sessions
        lists.removed(self._gone)
        self._clear()

    def _saved_rows(self, rows: Array) -> Saved:
        table = self._table
        columns = leaf_columns(leaves_of(self._schema), table.leaves(rows))
        contents = Columns(self._schema, columns, len(rows)).to_list() if len(rows) else []
        return list(zip(table.field("start", rows).tolist(), table.field("end", rows).tolist(), contents, strict=True))

    def take_written(self, complete: bool) -> tuple[Iterator[tuple[Any, Saved]], list[Any]]:
        """Return the sessions of keys that changed since the last time, or of all; and keys that are gone."""
        table = self._table
        rows = table.all()
        if not complete:
            rows = rows[table.touched.take(table.field("slot", rows))]
        slots = table.field("slot", rows)
        order = np.lexsort((table.field("start", rows), slots))
        rows, slots = rows.take(order), slots.take(order)
        table.touched[:] = False
        table.saved[slots] = True
        gone, self._gone = self._gone, []
        by_slot: dict[int, Saved] = {}
        for slot, saved in zip(slots.tolist(), self._saved_rows(rows), strict=True):
            by_slot.setdefault(slot, []).append(saved)
        return ((table.slots.keys[slot], saved) for slot, saved in by_slot.items()), gone

    def kept(self) -> int:
        """Return how many sessions are in the arrays."""
        return self._table.count


def _alone(each: Contribution, length: int) -> Array:
    """Return what a leaf of the contents would be for each record alone."""
    if each.own is not None:
        return objects(each.own, length)
    if each.how == SUM:
        return objects(each.of, length) + each.beginning
    values = objects(each.of, length)
    if each.how in (MIN, MAX):
        return (np.minimum if each.how == MIN else np.maximum)(values, each.beginning)
    return values


class _Scan:
    """Sessions and records of some keys, sorted by key and start; ``slot``, ``start`` and ``end`` are of what they become."""

    def __init__(self, slot: Array, start: Array, end: Array, order: Array) -> None:
        self._sorted = np.lexsort((start, slot))
        self._slot, self._start, self._end, self._order = (
            each.take(self._sorted) for each in (slot, start, end, order)
        )
        changes = np.append(False, self._slot[1:] != self._slot[:-1])
        least = int(self._end.min())
        width = int(self._end.max()) - least + 1
        rank = np.cumsum(changes)
        if float(width) * (int(rank[-1]) + 1) >= _SURE:
            raise FallBackToRows("a range too wide")
        base = rank * width
        # How far it reaches so far; a later key begins above all ends of those before it.
        reach = np.maximum.accumulate(base + (self._end - least)) - base + least
        begins = changes.copy()
        begins[0] = True
        begins[1:] |= self._start[1:] > reach[:-1]
        self._begins = np.flatnonzero(begins)
        self._ends = np.append(self._begins[1:], len(begins)) - 1
        self.slot, self.start = self._slot.take(self._begins), self._start.take(self._begins)
        self.end = reach.take(self._ends)

    def folded(self, values: Array, how: str, dtype: Any, bits: int) -> Array:
        """Return a leaf of the contents of each session; ints only are added or compared; sums wrap to so many bits."""
        values = values.take(self._sorted)
        if how == SUM:
            if float(np.add.reduceat(np.abs(values.astype(np.float64)), self._begins).max()) >= _SURE:
                raise FallBackToRows("an overflow")
            summed = np.add.reduceat(values, self._begins)
            return summed if bits == 64 else wrapped(summed, bits)
        if how in (MIN, MAX):
            return (np.minimum if how == MIN else np.maximum).reduceat(values, self._begins)
        return values.take(self._begins).astype(dtype)  # alike in all of them

    def orders(self) -> Array:
        """Return which place each session has among those with its end: that of the one that was there first, mostly."""
        found = self._order.take(self._begins)
        for number in np.flatnonzero(np.minimum.reduceat(self._order, self._begins) != found).tolist():
            part = slice(int(self._begins[number]), int(self._ends[number]) + 1)
            several = zip(self._order[part].tolist(), self._start[part].tolist(), self._end[part].tolist(), strict=True)
            found[number] = merged_order((start, end, order) for order, start, end in sorted(several))
        return found
