"""Sessions over columns: a block's records and the sessions of their keys are sorted by key and start, and merged in one scan.

Only where neither the bounds nor the contents of a session depend on the order of its records: none of them is late, and its
aggregates may be regrouped (``plan/rules/vectorize.py``). All sessions are in arrays here, or all are in the lists of the record
path (``operators/window/driver.py``), which takes over before a block that the kernels cannot compute.

Open sessions have a row each, linked by key from the newest to the oldest. The contents of a row are fields, or the number of
the list that has its records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify
from itertools import chain
from typing import Any

import numpy as np

from funken.columnar.declared import MAX, MIN, SUM
from funken.columnar.kernels.columns import Array, Column, Columns, columns_of, values_of_leaves
from funken.columnar.kernels.converting import wrapped
from funken.columnar.kernels.evaluation import FallBackToRows, evaluate
from funken.columnar.keyed.groups import each_once
from funken.columnar.keyed.keys import Slots, column_of_keys, key_of
from funken.columnar.keyed.logs import LEAF_TYPES, ListLog, grown, objects
from funken.columnar.records import fits
from funken.expr.types import INT, Atomic, atomic_fields
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.columnar.contents import Contribution, leaf_columns, listed
from funken.operators.columnar.windows import KeyedWindowArrays
from funken.operators.window.driver import OpenSession, Saved, SessionWindows
from funken.windowing.windows import TimeWindow

_FEWEST = 64
_NONE = -1
_MANY = 1 << 16
"""From so many slots on keys without sessions are forgotten."""
_SURE = 2.0**62


class ArraySessions(KeyedWindowArrays):
    """Sessions in arrays, or in the lists of the record path."""

    windows: SessionWindows

    def clear(self) -> None:
        """Forget all that is in the arrays."""
        super().clear()
        self._contents: FoldedSessions | ListedSessions = (
            ListedSessions(self) if self.spec.lists else FoldedSessions(self)
        )
        self._rows = SessionTable(self._contents.kinds)
        self.slots = self._rows.slots
        #: no session in the arrays ends before
        self._first_end = MAX_WATERMARK

    def present(self) -> Array:
        """Return the slots that have a session."""
        return self._rows.present()

    # ---- a block

    def _add(self, block: Columns) -> bool:
        stamps, windows = block.timestamps, self.windows
        gaps, longest = self._gaps(block)
        if stamps is None or int(stamps.min()) == MIN_TIMESTAMP or int(stamps.max()) + longest >= MAX_WATERMARK:
            raise FallBackToRows("timestamps at the end of time")
        ends = stamps + gaps
        if int(ends.min()) - 1 <= self.driver.current_watermark:
            raise FallBackToRows("records that may be late: their order matters")
        key = key_of(self.spec.traced_key.result, block)
        contributions = self._contents.contributions(block)
        self._load()
        table = self._rows
        numbers = self.slots.find(key, block.length)
        self.reserve(table.reserve())
        seen = each_once(numbers)
        rows = table.of(seen)
        scan = SessionScan(
            np.append(table.field("slot", rows), numbers),
            np.append(table.field("start", rows), stamps),
            np.append(table.field("end", rows), ends),
            np.append(table.field("order", rows), windows.opened + 1 + np.arange(block.length)),
        )
        # Nothing has changed so far, and nothing does before all that may be unfit is computed.
        leaves = self._contents.merged(scan, table.leaves(rows), contributions, block)
        table.replace(seen, rows, scan.slot, scan.start, scan.end, scan.orders(), leaves)
        self.touched[seen] = True
        windows.opened += block.length
        self._first_end = min(self._first_end, int(scan.end.min()))
        return True

    def _gaps(self, block: Columns) -> tuple[Array | int, int]:
        """Return how long a session stays open after each record, and the longest gap."""
        if self.windows.gap is not None:
            return self.windows.gap, self.windows.gap
        assert self.spec.gap is not None
        _, traced = self.spec.gap
        gaps = evaluate(traced.result, block.length, block)
        assert isinstance(gaps, Column)
        least, most = gaps.measured()
        if least <= 0:
            raise FallBackToRows("a gap that is not above zero")  # the record path raises it
        return gaps.array(block.length), most

    # ---- time

    def close(self, watermark: int) -> None:
        """Fire the sessions that end at or before the watermark, in the order of their ends."""
        table = self._rows
        if not table.count or self._first_end - 1 > watermark:
            return
        rows = table.due(watermark)
        if len(rows):
            self._fire(rows)
        left = self._rows.all()
        self._first_end = int(self._rows.field("end", left).min()) if len(left) else MAX_WATERMARK

    def _fire(self, rows: Array) -> None:
        table, known = self._rows, self.slots.keys
        starts, ends, slots = (table.field(name, rows) for name in ("start", "end", "slot"))
        leaves = table.leaves(rows)
        contents = self._contents.columns(leaves, len(rows))
        self._contents.forget(leaves)
        self.touched[slots] = True
        self.forget(table.remove(rows))
        keys = [known[slot] for slot in slots.tolist()]
        results = self.results(contents, keys, starts, ends)
        if results is not None:
            self.emit(results)
        else:
            windows = map(TimeWindow, starts.tolist(), ends.tolist())
            self.fire_each(keys, windows, contents.to_list(), over=True)
        if len(known) > _MANY and table.count < len(known) // 4:
            self.store()  # keys without sessions are forgotten

    # ---- between arrays and lists

    def _load(self) -> None:
        """Take all sessions over from the lists."""
        windows, lists = self.windows, self.table
        if not windows.ends:
            return
        base = lists.finish_snapshot()
        entries = sorted((order, key, each) for _, order, key, each in windows.ends if each.end != MIN_TIMESTAMP)
        keys, contents = [key for _, key, _ in entries], [each.contents for _, _, each in entries]
        self._contents.check(contents)
        table = self._rows
        slot = self.slots.find(column_of_keys(keys), len(keys))
        self.reserve(table.reserve())
        start = np.array([each.start for _, _, each in entries], np.int64)
        end = np.array([each.end for _, _, each in entries], np.int64)
        order = np.array([order for order, _, _ in entries], np.int64)
        by_key = np.lexsort((start, slot))
        leaves = [leaf.take(by_key) for leaf in self._contents.load(contents)]
        slots, nothing = each_once(slot), np.empty(0, np.int64)
        slot, start, order = slot.take(by_key), start.take(by_key), order.take(by_key)
        table.replace(slots, nothing, slot, start, end.take(by_key), order, leaves)
        self._first_end = int(end.min())
        for number, key in enumerate(self.slots.keys):
            self.touched[number], self.saved[number] = key in lists.delta, key in base
        lists.delta, lists.base = {}, {}
        windows.ends.clear()

    def saved_entries(self, slots: Array) -> Iterator[tuple[Any, Saved]]:
        """Return keys and their sessions as they are in snapshots."""
        return ((key, [session for _, session in sessions]) for key, sessions in self._sessions(slots))

    def table_entries(self, slots: Array) -> Iterator[tuple[Any, list[OpenSession]]]:
        """Return keys and their sessions as the lists have them, whose ends are waited for."""
        ends = self.windows.ends
        for key, sessions in self._sessions(slots):
            entry = []
            for order, (start, end, contents) in sessions:
                session = OpenSession(start, end, contents)
                entry.append(session)
                ends.append((end, order, key, session))
            yield key, entry
        heapify(ends)

    def _sessions(self, slots: Array) -> Iterator[tuple[Any, list[tuple[int, tuple[int, int, Any]]]]]:
        """Return what gives out keys and their sessions, each after its order."""
        table, known = self._rows, self.slots.keys
        rows = table.of(slots)
        rows = rows.take(np.lexsort((table.field("start", rows), table.field("slot", rows))))
        slot, start, end, order = (table.field(name, rows).tolist() for name in ("slot", "start", "end", "order"))
        contents = self._contents.columns(table.leaves(rows), len(rows)).to_list() if len(rows) else []
        by_slot: dict[int, list[tuple[int, tuple[int, int, Any]]]] = {slot: [] for slot in slots.tolist()}
        for of, *session in zip(slot, order, zip(start, end, contents, strict=True), strict=True):
            by_slot[of].append((session[0], session[1]))
        return ((known[of], sessions) for of, sessions in by_slot.items())


class FoldedSessions:
    """What sessions keep of their records, in fields of the table of these ``kinds``: one value per field."""

    def __init__(self, arrays: ArraySessions) -> None:
        self._arrays = arrays
        self._schema = arrays.spec.contents_schema
        self._leaves = atomic_fields(self._schema)
        self.kinds: list[Atomic] = [kind for _, kind in self._leaves]

    def contributions(self, block: Columns) -> list[Contribution]:
        """Return what a block adds; raise ``FallBackToRows``."""
        return self._arrays.contributions(block)

    def merged(
        self, scan: SessionScan, kept: list[Array], contributions: list[Contribution], block: Columns
    ) -> list[Array]:  # fmt: skip
        """Return the fields of each session; raise ``FallBackToRows`` before anything is changed."""
        return [
            scan.folded(np.append(old, _alone(each, block.length)), each.how, LEAF_TYPES[kind], each.bits)
            for old, each, kind in zip(kept, contributions, self.kinds, strict=True)
        ]

    def columns(self, leaves: list[Array], count: int) -> Columns:
        """Return the contents of some sessions."""
        return Columns(self._schema, leaf_columns(self._leaves, leaves), count)

    def forget(self, leaves: list[Array]) -> None:
        """Do nothing: all is in the table."""

    def check(self, contents: list[Any]) -> None:
        """Raise ``FallBackToRows`` unless contents can be in the table."""
        if not all(fits(each, self._schema) for each in contents):
            raise FallBackToRows("contents of another type")

    def load(self, contents: list[Any]) -> list[Array]:
        """Return the fields of contents."""
        arrays = []
        for kind, values in zip(self.kinds, values_of_leaves(contents, self._schema), strict=True):
            array = np.empty(len(values), LEAF_TYPES[kind])
            array[:] = values
            arrays.append(array)
        return arrays


def _alone(each: Contribution, length: int) -> Array:
    """Return what a field of the contents would be for each record alone."""
    if each.own is not None:
        return objects(each.own, length)
    if each.how == SUM:
        return objects(each.of, length) + each.beginning
    values = objects(each.of, length)
    if each.how in (MIN, MAX):
        return (np.minimum if each.how == MIN else np.maximum)(values, each.beginning)
    return values


class ListedSessions:
    """All records, in the order in which they came: the table has the numbers of lists.

    Only where two sessions become one that order is another, that of the record path: then that takes over.
    """

    def __init__(self, arrays: ArraySessions) -> None:
        self.kinds: list[Atomic] = [INT]
        self._schema = arrays.spec.schema
        self._log = ListLog(self._schema)
        self._free: Array = np.empty(0, np.int64)
        self._numbers = 0

    def contributions(self, block: Columns) -> list[Contribution]:
        """Return nothing: records are added as they are."""
        return []

    def merged(
        self, scan: SessionScan, kept: list[Array], contributions: list[Contribution], block: Columns
    ) -> list[Array]:  # fmt: skip
        """Return the number of the list of each session, which has the new records."""
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

    def columns(self, leaves: list[Array], count: int) -> Columns:
        """Return the lists of some sessions."""
        return listed(self._schema, *self._log.lists(leaves[0]))

    def forget(self, leaves: list[Array]) -> None:
        """Empty the lists of sessions that are over."""
        self._log.empty(leaves[0])
        self._free = np.append(self._free, leaves[0])

    def check(self, contents: list[Any]) -> None:
        """Raise ``FallBackToRows`` unless contents are lists of such records."""
        schema = self._schema
        if not all(type(each) is list and all(fits(record, schema) for record in each) for each in contents):
            raise FallBackToRows("records of another type")

    def load(self, contents: list[Any]) -> list[Array]:
        """Return the numbers of new lists."""
        lists = self._numbered(len(contents))
        counts = np.array(list(map(len, contents)), np.int64)
        order = np.argsort(lists, kind="stable")
        records = list(chain.from_iterable(contents[place] for place in order.tolist()))
        self._log.append(lists.take(order), counts.take(order), columns_of(records, self._schema))
        return [lists]


class SessionTable:
    """The sessions of all keys; ``order`` tells which was opened first, of two with one end."""

    def __init__(self, kinds: list[Atomic]) -> None:
        self.slots = Slots()
        self.count = 0
        self._next_row = 0
        self._free: Array = np.empty(0, np.int64)
        self._columns: dict[str, Array] = {
            "slot": np.empty(0, np.int64), "start": np.empty(0, np.int64), "end": np.empty(0, np.int64),
            "order": np.empty(0, np.int64), "before": np.empty(0, np.int64), "open": np.empty(0, np.bool_),
        }  # fmt: skip
        self._leaves = [np.empty(0, LEAF_TYPES[kind]) for kind in kinds]
        #: by slot, the newest session
        self._newest: Array = np.empty(0, np.int64)

    def reserve(self) -> int:
        """Make room for new slots; return for how many there is room."""
        known, room = len(self.slots), len(self._newest)
        if known > room:
            room = max(_FEWEST, 2 * known)
            self._newest = np.append(self._newest, np.full(room - len(self._newest), _NONE))
        return room

    def present(self) -> Array:
        """Return the slots that have a session."""
        return np.flatnonzero(self._newest[: len(self.slots)] != _NONE)

    def of(self, slots: Array) -> Array:
        """Return the rows of the sessions of some keys, each key once."""
        found, rows = [], self._newest.take(slots)
        while len(rows := rows[rows != _NONE]):
            found.append(rows)
            rows = self._columns["before"].take(rows)
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def field(self, name: str, rows: Array) -> Array:
        """Return ``slot``, ``start``, ``end`` or ``order`` of some rows."""
        return self._columns[name].take(rows)

    def leaves(self, rows: Array) -> list[Array]:
        """Return the contents of some rows, leaf by leaf."""
        return [leaf.take(rows) for leaf in self._leaves]

    def all(self) -> Array:
        """Return the rows of all sessions."""
        return np.flatnonzero(self._columns["open"])

    def due(self, watermark: int) -> Array:
        """Return the rows of the sessions that end at or before a watermark, in the order of their ends."""
        rows = self.all()
        rows = rows[self._columns["end"].take(rows) - 1 <= watermark]
        return rows.take(np.lexsort((self.field("order", rows), self.field("end", rows))))

    def replace(
        self, slots: Array, rows: Array, slot: Array, start: Array, end: Array, order: Array, leaves: list[Array]
    ) -> None:
        """Put sessions, sorted by slot and start, in place of all (``rows``) that some keys have."""
        taken = self._allocate(rows, len(slot))
        for name, values in (("slot", slot), ("start", start), ("end", end), ("order", order)):
            self._columns[name][taken] = values
        self._columns["open"][taken] = True
        for kept, values in zip(self._leaves, leaves, strict=True):
            kept[taken] = values
        before = np.full(len(slot), _NONE)
        before[1:] = np.where(slot[1:] == slot[:-1], taken[:-1], _NONE)
        self._columns["before"][taken] = before
        self._newest[slots] = _NONE
        self._newest[slot] = taken  # of several for one key the last one stays
        self.count += len(slot) - len(rows)

    def _allocate(self, rows: Array, wanted: int) -> Array:
        """Return as many rows as are wanted, first those that are replaced."""
        self._columns["open"][rows] = False
        free = np.append(rows, self._free)
        missing = wanted - len(free)
        if missing > 0:
            free = np.append(free, np.arange(self._next_row, self._next_row + missing))
            self._next_row += missing
            if self._next_row > len(self._columns["slot"]):
                size = max(_FEWEST, 2 * self._next_row)
                self._columns = {name: grown(values, size) for name, values in self._columns.items()}
                self._leaves = [grown(leaf, size) for leaf in self._leaves]
        self._free = free[wanted:]
        return free[:wanted]

    def remove(self, rows: Array) -> Array:
        """Remove the oldest sessions of keys; return the slots of which none is left."""
        columns = self._columns
        columns["open"][rows] = False
        slots = each_once(columns["slot"].take(rows))
        newest = self._newest.take(slots)
        gone = ~columns["open"].take(newest)
        self._newest[slots[gone]] = _NONE
        left = newest[~gone]
        while len(left):
            before = columns["before"].take(left)
            ends = (before == _NONE) | ~columns["open"].take(before)
            columns["before"][left[ends]] = _NONE
            left = before[~ends]
        self._free = np.append(self._free, rows)
        self.count -= len(rows)
        return slots[gone]


def merged_order(constituents: Iterable[tuple[int, int, int]]) -> int:
    """Return which of the sessions and records (start, end, order) that become one session gives it its order.

    They come in their order; a record joins the first session that it touches, and merges the others into it.

    >>> merged_order([(10, 20, 1), (30, 40, 2), (20, 30, 3)]), merged_order([(30, 40, 1), (20, 30, 2), (10, 20, 3)])
    (1, 1)
    """
    sessions: list[tuple[int, int, int]] = []
    for start, end, order in constituents:
        touched = [each for each in sessions if each[0] <= end and start <= each[1]]
        if not touched:
            sessions = sorted([*sessions, (start, end, order)])
            continue
        merged = min(start, touched[0][0]), max(end, touched[-1][1]), touched[0][2]
        sessions = sorted([*(each for each in sessions if each not in touched), merged])
    return sessions[0][2]


class SessionScan:
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

    def groups(self) -> Array:
        """Return in which of the sessions each of what was given is."""
        begins: Array = np.zeros(len(self._sorted), np.int64)
        begins[self._begins] = 1
        found: Array = np.empty(len(self._sorted), np.int64)
        found[self._sorted] = np.cumsum(begins) - 1
        return found

    def check_order(self, groups: Array, sessions: int) -> None:
        """Raise ``FallBackToRows`` unless each record touches what came before it in its session.

        ``sessions`` were given before the records. Then two sessions never become one, at no time.
        """
        if sessions and int(np.bincount(groups[:sessions]).max()) > 1:
            raise FallBackToRows("two sessions become one")
        # The order in which they came: what was given first, the sessions, is there before all records.
        order = np.argsort(groups, kind="stable")
        of, back = groups.take(order), np.empty(len(groups), np.int64)
        back[self._sorted] = np.arange(len(groups))
        starts, ends = (each.take(back.take(order)) for each in (self._start, self._end))
        least, greatest = int(starts.min()), int(ends.max())
        width = greatest - least + 1
        if float(width) * (int(of[-1]) + 1) >= _SURE:
            raise FallBackToRows("a range too wide")
        # A later session begins above all ends, and below all starts, of those before it.
        base = of * width
        latest = np.maximum.accumulate(ends - least + base)
        earliest = np.maximum.accumulate(greatest - starts + base)
        apart = (starts - least + base)[1:] > latest[:-1]
        apart |= (greatest - ends + base)[1:] > earliest[:-1]
        if bool((apart & (of[1:] == of[:-1])).any()):
            raise FallBackToRows("two sessions become one")

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
