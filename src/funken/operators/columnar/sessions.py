"""Sessions over columns: a block's records and the sessions of their keys are sorted by key and start, and merged in one scan.

Only where neither the bounds nor the contents of a session depend on the order of its records: none of them is late, and its
folds may be regrouped (``plan/rules/vectorize.py``). All sessions are in arrays here, or all are in the lists of the record path
(``operators/window/sessions.py``), which takes over before a block that the kernels cannot compute. A snapshot of one path is a
snapshot of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify
from itertools import chain
from typing import Any

import numpy as np

from funken.columnar.block import Block
from funken.columnar.folds import MAX, MIN, SUM
from funken.columnar.kernels.columns import Array, Column, Columns, columns_of, lists_with, values_of_leaves
from funken.columnar.kernels.evaluation import FallBackToRows, evaluate
from funken.columnar.keyed.groups import each_once
from funken.columnar.keyed.kept import LEAF_TYPES, objects
from funken.columnar.keyed.keys import column_of_keys, key_of
from funken.columnar.keyed.list_log import ListLog
from funken.columnar.records import fits
from funken.expr.types import INT, Type, atomic_fields
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Timestamps, Values
from funken.operators.columnar.keyed_arrays import leaf_columns
from funken.operators.columnar.panes import Contribution
from funken.operators.columnar.path import ColumnPath
from funken.operators.columnar.session_table import SessionScan, SessionTable
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
        self._schema = self._contents_schema(spec)
        self._lists = ExtendedDeltaTable(self, saved_sessions, self._revive)
        self._sessions = self._lists
        self._path = ColumnPath(self._take_columns, *functions_of(spec), changes=True)
        self._results = None if spec.results is None else WindowResults(spec)
        self._returns = 0
        self._clear()

    @staticmethod
    def _contents_schema(spec: ColumnarWindow) -> Type:
        """Return the schema of what the table has of a session."""
        return spec.schema if spec.aggregate is None else spec.aggregate.schema

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
        stamps = block.timestamps
        gaps, longest = self._gaps(block)
        if stamps is None or int(stamps.min()) == MIN_TIMESTAMP or int(stamps.max()) + longest >= MAX_WATERMARK:
            raise FallBackToRows("timestamps at the end of time")
        ends = stamps + gaps
        if int(ends.min()) - 1 <= self.current_watermark:
            raise FallBackToRows("records that may be late: their order matters")
        key = key_of(self._vector.traced_key.result, block)
        contributions = self._contributions(block)
        self._load()
        table = self._table
        numbers = table.slots.find(key, block.length)
        table.reserve()
        seen = each_once(numbers)
        rows = table.of(seen)
        scan = SessionScan(
            np.append(table.field("slot", rows), numbers),
            np.append(table.field("start", rows), stamps),
            np.append(table.field("end", rows), ends),
            np.append(table.field("order", rows), self._pushes + 1 + np.arange(block.length)),
        )
        # Nothing has changed so far, and nothing does before all that may be unfit is computed.
        leaves = self._folded(scan, table.leaves(rows), contributions, block)
        table.replace(seen, rows, scan.slot, scan.start, scan.end, scan.orders(), leaves)
        self._pushes += block.length
        self._first_end = min(self._first_end, int(scan.end.min()))
        return True

    def _gaps(self, block: Columns) -> tuple[Array | int, int]:
        """Return how long a session stays open after each record, and the longest gap."""
        if self._gap is not None:
            return self._gap, self._gap
        assert self._vector.gap is not None
        _, traced = self._vector.gap
        gaps = evaluate(traced.result, block.length, block)
        assert isinstance(gaps, Column)
        least, most = gaps.measured()
        if least <= 0:
            raise FallBackToRows("a gap that is not above zero")  # the record path raises it
        return gaps.array(block.length), most

    def _contributions(self, block: Columns) -> list[Contribution]:
        """Return what a block adds to the leaves of the contents."""
        return [contribution_of(self._vector, block, number) for number in range(len(self._vector.folds))]

    def _folded(
        self, scan: SessionScan, kept: list[Array], contributions: list[Contribution], block: Columns
    ) -> list[Array]:  # fmt: skip
        """Return the leaves of the contents of each session."""
        return [
            scan.folded(np.append(old, _alone(each, block.length)), each.how, LEAF_TYPES[kind], each.bits)
            for old, each, (_, kind) in zip(kept, contributions, atomic_fields(self._schema), strict=True)
        ]

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
        contents = self._contents(rows)
        self._forget(rows)
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

    def _contents(self, rows: Array) -> Columns:
        """Return the contents of some sessions."""
        return Columns(self._schema, leaf_columns(atomic_fields(self._schema), self._table.leaves(rows)), len(rows))

    def _forget(self, rows: Array) -> None:
        """Give up what is kept of sessions that are over besides the table."""

    # ---- between arrays and lists

    def _load(self) -> None:
        """Take all sessions over from the lists."""
        lists = self._lists
        if not self._ends:
            return
        base = lists.finish_snapshot()
        entries = sorted((order, key, each) for _, order, key, each in self._ends if each.end != MIN_TIMESTAMP)
        keys, contents = [key for _, key, _ in entries], [each.contents for _, _, each in entries]
        self._check(contents)
        table = self._table
        slot = table.slots.find(column_of_keys(keys), len(keys))
        table.reserve()
        start = np.array([each.start for _, _, each in entries], np.int64)
        end = np.array([each.end for _, _, each in entries], np.int64)
        order = np.array([order for order, _, _ in entries], np.int64)
        by_key = np.lexsort((start, slot))
        leaves = [leaf.take(by_key) for leaf in self._loaded(contents)]
        slots, nothing = each_once(slot), np.empty(0, np.int64)
        slot, start, order = slot.take(by_key), start.take(by_key), order.take(by_key)
        table.replace(slots, nothing, slot, start, end.take(by_key), order, leaves)
        self._first_end = int(end.min())
        for number, key in enumerate(table.slots.keys):
            table.touched[number], table.saved[number] = key in lists.delta, key in base
        lists.delta, lists.base = {}, {}
        self._ends.clear()

    def _check(self, contents: list[Any]) -> None:
        """Raise ``FallBackToRows`` unless contents can be in the table."""
        if not all(fits(each, self._schema) for each in contents):
            raise FallBackToRows("contents of another type")

    def _loaded(self, contents: list[Any]) -> list[Array]:
        """Return the leaves of contents."""
        leaves = []
        for (_, leaf), values in zip(
            atomic_fields(self._schema), values_of_leaves(contents, self._schema), strict=True
        ):
            array = np.empty(len(values), LEAF_TYPES[leaf])
            array[:] = values
            leaves.append(array)
        return leaves

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
        contents = self._contents(rows).to_list() if len(rows) else []
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


class ListSessions(ColumnarSessions):
    """Sessions that hand all their records to a function: the table has the number of a session's list.

    The records of a session are in the order in which they came. Only where two sessions become one it is another, that of the
    record path: then that takes over.
    """

    @staticmethod
    def _contents_schema(spec: ColumnarWindow) -> Type:
        return INT

    def _clear(self) -> None:
        super()._clear()
        self._log = ListLog(self._vector.schema)
        self._free: Array = np.empty(0, np.int64)
        self._numbers = 0

    def _contributions(self, block: Columns) -> list[Contribution]:
        return []

    def _folded(
        self, scan: SessionScan, kept: list[Array], contributions: list[Contribution], block: Columns
    ) -> list[Array]:  # fmt: skip
        (old,) = kept
        groups = scan.groups()
        scan.check_order(groups, len(old))
        lists = scan.folded(np.append(old, np.full(block.length, -1)), MAX, np.int64, 0)
        new = np.flatnonzero(lists < 0)
        lists[new] = self._numbered(len(new))
        of_records = lists.take(groups[len(old) :])
        order = np.argsort(of_records, kind="stable")
        slots, counts = np.unique(of_records, return_counts=True)
        self._log.append(slots, counts, block.take(order))
        return [lists]

    def _numbered(self, count: int) -> Array:
        """Return numbers of lists that are empty."""
        reused, self._free = self._free[:count], self._free[count:]
        begin, self._numbers = self._numbers, self._numbers + count - len(reused)
        return np.append(reused, np.arange(begin, self._numbers))

    def _contents(self, rows: Array) -> Columns:
        (lists,) = self._table.leaves(rows)
        counts, records = self._log.lists(lists)
        column = lists_with(self._vector.schema, counts, records)
        return Columns(column.kind, [column], len(rows))

    def _forget(self, rows: Array) -> None:
        (lists,) = self._table.leaves(rows)
        self._log.empty(lists)
        self._free = np.append(self._free, lists)

    def _check(self, contents: list[Any]) -> None:
        schema = self._vector.schema
        if not all(type(each) is list and all(fits(record, schema) for record in each) for each in contents):
            raise FallBackToRows("records of another type")

    def _loaded(self, contents: list[Any]) -> list[Array]:
        lists = self._numbered(len(contents))
        counts = np.array(list(map(len, contents)), np.int64)
        order = np.argsort(lists, kind="stable")
        records = list(chain.from_iterable(contents[place] for place in order.tolist()))
        self._log.append(lists.take(order), counts.take(order), columns_of(records, self._vector.schema))
        return [lists]
