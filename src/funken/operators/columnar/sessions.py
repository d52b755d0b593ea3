"""Sessions over columns: a block's records and the sessions of their keys are sorted by key and start, and merged in one scan.

Only where neither the bounds nor the contents of a session depend on the order of its records: none of them is late, and its
aggregates may be regrouped (``plan/rules/vectorize.py``). All sessions are in arrays here, or all are in the lists of the record
path (``operators/window/driver.py``), which takes over before a block that the kernels cannot compute.

The sessions of a key are a list of columns: start, end, order, and contents, which are fields, or the number of the list that
has the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify
from itertools import chain
from typing import Any

import numpy as np

from funken.columnar.declared import MAX, MIN, SUM
from funken.columnar.kernels.columns import Array, Column, Columns, columns_of, joined_columns, wrapped
from funken.columnar.kernels.evaluation import FallBackToRows, evaluate
from funken.columnar.keyed.groups import Groups, Stretches, each_once, running_most
from funken.columnar.keyed.keys import Slots, column_of_keys, key_of
from funken.columnar.keyed.logs import ListLog
from funken.columnar.records import fits
from funken.expr.types import INT, Tuple, Type
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.columnar.contents import Contribution, listed
from funken.operators.columnar.windows import KeyedWindowArrays
from funken.operators.window.driver import OpenSession, Saved, SessionWindows
from funken.windowing.windows import TimeWindow

_FEWEST = 64
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
        self._open = SessionTable(self._contents.schema)
        self.slots = self._open.slots

    def present(self) -> Array:
        """Return the slots that have a session."""
        return self._open.present()

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
        numbers = self._found(key, block.length)
        slots = each_once(numbers)
        of, kept = self._open.of(slots)
        start, end, order = bounds_of(kept)
        scan = SessionScan(
            np.append(of, numbers),
            np.append(start, stamps),
            np.append(end, ends),
            np.append(order, windows.opened + 1 + np.arange(block.length)),
        )
        # Nothing has changed so far, and nothing does before all that may be unfit is computed.
        leaves = self._contents.merged(scan, kept.leaves[_BOUNDS:], contributions, block)
        self._open.replace(slots, scan.slot, self._open.sessions(scan.start, scan.end, scan.orders(), leaves))
        self.touched[slots] = True
        windows.opened += block.length
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
        slots = self._open.due(watermark)
        if not len(slots):
            return
        known = self.slots.keys
        slot, over = self._open.take_over(slots, watermark)
        starts, ends, _ = bounds_of(over)
        contents = self._contents.columns(over.leaves[_BOUNDS:], over.length)
        self._contents.forget(over.leaves[_BOUNDS:], over.length)
        self.touched[slots] = True
        self.forget(slots[self._open.lengths(slots) == 0])
        keys = [known[each] for each in slot.tolist()]
        results = self.results(contents, keys, starts, ends)
        if results is not None:
            self.emit(results)
        else:
            windows = map(TimeWindow, starts.tolist(), ends.tolist())
            self.fire_each(keys, windows, contents.to_list(), over=True)
        if len(known) > _MANY and len(self.present()) < len(known) // 4:
            self.store()  # keys without sessions are forgotten

    # ---- between arrays and lists

    def _found(self, key: Column, length: int) -> Array:
        """Return the slot of each record, whose sessions are in the arrays."""
        self._load()
        return self._slots_of(key, length)

    def _slots_of(self, key: Column, length: int) -> Array:
        numbers = self.slots.find(key, length)
        self.reserve(self._open.reserve())
        return numbers

    def _load(self) -> None:
        """Take all sessions over from the lists."""
        windows, lists = self.windows, self.table
        if not windows.ends:
            return
        base = lists.finish_snapshot()
        entries = sorted((order, key, each) for _, order, key, each in windows.ends if each.end != MIN_TIMESTAMP)
        keys, contents = [key for _, key, _ in entries], [each.contents for _, _, each in entries]
        self._contents.check(contents)
        slot = self._slots_of(column_of_keys(keys), len(keys))
        self._put(slot, [(each.start, each.end, order) for order, _, each in entries], contents)
        for number, key in enumerate(self.slots.keys):
            self.touched[number], self.saved[number] = key in lists.delta, key in base
        lists.delta, lists.base = {}, {}
        windows.ends.clear()

    def _put(self, slot: Array, bounds: list[tuple[int, int, int]], contents: list[Any]) -> None:
        """Put sessions, by start, end and order, into slots that have none."""
        start, end, order = np.array(bounds, np.int64).T
        by_key = np.lexsort((start, slot))
        sessions = self._open.sessions(start, end, order, self._contents.load(contents)).take(by_key)
        self._open.replace(each_once(slot), slot.take(by_key), sessions)

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
        known = self.slots.keys
        slot, kept = self._open.of(slots)
        start, end, order = (each.tolist() for each in bounds_of(kept))
        contents = self._contents.columns(kept.leaves[_BOUNDS:], kept.length).to_list() if kept.length else []
        by_slot: dict[int, list[tuple[int, tuple[int, int, Any]]]] = {slot: [] for slot in slots.tolist()}
        for of, *session in zip(slot.tolist(), order, zip(start, end, contents, strict=True), strict=True):
            by_slot[of].append((session[0], session[1]))
        return ((known[of], sessions) for of, sessions in by_slot.items())


class FoldedSessions:
    """Contents of sessions, in columns of this ``schema``: one value per field."""

    def __init__(self, arrays: ArraySessions) -> None:
        self._arrays = arrays
        self.schema = arrays.spec.contents_schema

    def records(self) -> int:
        """Return the number of records in memory: they are folded."""
        return 0

    def contributions(self, block: Columns) -> list[Contribution]:
        """Return what a block adds; raise ``FallBackToRows``."""
        return self._arrays.contributions(block)

    def merged(
        self, scan: SessionScan, kept: list[Column], contributions: list[Contribution], block: Columns
    ) -> list[Column]:  # fmt: skip
        """Return the fields of each session; raise ``FallBackToRows`` before anything is changed."""
        lengths = [scan.count - block.length, block.length]
        return [
            scan.folded(joined_columns([old, _alone(each, block.length)], lengths), each.how, each.bits)
            for old, each in zip(kept, contributions, strict=True)
        ]

    def columns(self, leaves: list[Column], count: int) -> Columns:
        """Return the contents of some sessions."""
        return Columns(self.schema, leaves, count)

    def forget(self, leaves: list[Column], count: int) -> None:
        """Do nothing: all is in the table."""

    def check(self, contents: list[Any]) -> None:
        """Raise ``FallBackToRows`` unless contents can be in the table."""
        if not all(fits(each, self.schema) for each in contents):
            raise FallBackToRows("contents of another type")

    def load(self, contents: list[Any]) -> list[Column]:
        """Return the fields of contents."""
        return columns_of(contents, self.schema).leaves


def _alone(each: Contribution, length: int) -> Column:
    """Return what a field of the contents would be for each record alone."""
    if each.own is not None:
        return each.own
    if each.how == SUM:
        return Column(each.of.kind, each.of.array(length) + each.beginning)
    if each.how in (MIN, MAX):
        most = np.minimum if each.how == MIN else np.maximum
        return Column(each.of.kind, most(each.of.array(length), each.beginning))
    return each.of


class ListedSessions:
    """All records, in the order in which they came: the table has the numbers of lists.

    Only where two sessions become one that order is another, that of the record path: then that takes over.
    """

    schema: Type = INT

    def __init__(self, arrays: ArraySessions) -> None:
        self._records = arrays.spec.schema
        self._log = ListLog(self._records)
        self._free: Array = np.empty(0, np.int64)
        self._numbers = 0

    def records(self) -> int:
        """Return the number of records in memory."""
        return len(self._log)

    def contributions(self, block: Columns) -> list[Contribution]:
        """Return nothing: records are added as they are."""
        return []

    def merged(
        self, scan: SessionScan, kept: list[Column], contributions: list[Contribution], block: Columns
    ) -> list[Column]:  # fmt: skip
        """Return the number of the list of each session, which has the new records."""
        count = scan.count - block.length
        scan.check_order(count)
        none = Column(INT, np.full(block.length, -1))
        lists = scan.folded(joined_columns([*kept, none], [count, block.length]), MAX).data
        new = np.flatnonzero(lists < 0)
        lists[new] = self._numbered(len(new))
        of_records = lists.take(scan.of_each()[count:])
        order = np.argsort(of_records, kind="stable")
        slots, counts = np.unique(of_records, return_counts=True)
        self._log.append(slots, counts, block.take(order))
        return [Column(INT, lists)]

    def _numbered(self, count: int) -> Array:
        """Return numbers of lists that are empty."""
        reused, self._free = self._free[:count], self._free[count:]
        begin, self._numbers = self._numbers, self._numbers + count - len(reused)
        return np.append(reused, np.arange(begin, self._numbers))

    def columns(self, leaves: list[Column], count: int) -> Columns:
        """Return the lists of some sessions."""
        return listed(self._records, *self._log.lists(leaves[0].array(count)))

    def forget(self, leaves: list[Column], count: int) -> None:
        """Empty the lists of sessions that are over."""
        self._log.empty(leaves[0].array(count))
        self._free = np.append(self._free, leaves[0].array(count))

    def check(self, contents: list[Any]) -> None:
        """Raise ``FallBackToRows`` unless contents are lists of such records."""
        schema = self._records
        if not all(type(each) is list and all(fits(record, schema) for record in each) for each in contents):
            raise FallBackToRows("records of another type")

    def load(self, contents: list[Any]) -> list[Column]:
        """Return the numbers of new lists."""
        lists = self._numbered(len(contents))
        counts = np.array(list(map(len, contents)), np.int64)
        order = np.argsort(lists, kind="stable")
        records = list(chain.from_iterable(contents[place] for place in order.tolist()))
        self._log.append(lists.take(order), counts.take(order), columns_of(records, self._records))
        return [Column(INT, lists)]


_BOUNDS = 3
"""Start, end and order of sessions are before their contents."""


def bounds_of(sessions: Columns) -> list[Array]:
    """Return starts, ends and orders; the order tells which was opened first, of two with one end."""
    return [leaf.array(sessions.length) for leaf in sessions.leaves[:_BOUNDS]]


def places_of_ends(sessions: Columns, places: Array) -> Array:
    """Return the places of some sessions in the order of their ends."""
    _, ends, orders = bounds_of(sessions)
    return places.take(np.lexsort((orders.take(places), ends.take(places))))


class SessionTable:
    """The sessions of all keys, by slot, in the order of their starts; their contents are of a schema."""

    def __init__(self, contents: Type) -> None:
        self.slots = Slots()
        self._schema = Tuple((INT, INT, INT, contents))
        self._log = ListLog(self._schema)
        #: by slot, when the first session ends
        self._ends: Array = np.empty(0, np.int64)

    def reserve(self) -> int:
        """Make room for new slots; return for how many there is room."""
        known, room = len(self.slots), len(self._ends)
        if known > room:
            room = max(_FEWEST, 2 * known)
            self._ends = np.append(self._ends, np.full(room - len(self._ends), MAX_WATERMARK))
        return room

    def lengths(self, slots: Array) -> Array:
        """Return how many sessions some keys have."""
        return self._log.lengths(slots)

    def present(self) -> Array:
        """Return the slots that have a session."""
        return np.flatnonzero(self.lengths(np.arange(len(self.slots))))

    def of(self, slots: Array) -> tuple[Array, Columns]:
        """Return the sessions of some keys, each key once, and the slot of each."""
        counts, sessions = self._log.lists(slots)
        return np.repeat(slots, counts), sessions

    def sessions(self, start: Array, end: Array, order: Array, contents: list[Column]) -> Columns:
        """Return sessions as columns."""
        return Columns(self._schema, [*(Column(INT, each) for each in (start, end, order)), *contents], len(start))

    def replace(self, slots: Array, of: Array, sessions: Columns) -> None:
        """Put sessions, sorted by slot and start, in place of all that some keys have."""
        begins = np.flatnonzero(np.diff(of, prepend=-1))
        there = of.take(begins)
        self._log.empty(slots)
        self._log.append(there, np.diff(begins, append=len(of)), sessions)
        self._ends[slots] = MAX_WATERMARK
        self._ends[there] = bounds_of(sessions)[1].take(begins)

    def due(self, watermark: int) -> Array:
        """Return the slots with a session that ends at or before a watermark."""
        slots = np.flatnonzero(self._ends[: len(self.slots)] - 1 <= watermark)
        return slots[self.lengths(slots) > 0]

    def take_over(self, slots: Array, watermark: int) -> tuple[Array, Columns]:
        """Remove the sessions of some keys that end at or before a watermark; return them by their ends, and their slots."""
        of, sessions = self.of(slots)
        over = bounds_of(sessions)[1] - 1 <= watermark
        left, done = np.flatnonzero(~over), places_of_ends(sessions, np.flatnonzero(over))
        self.replace(slots, of.take(left), sessions.take(left))
        return of.take(done), sessions.take(done)


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
    """Sessions and records of some keys, in this order; ``slot``, ``start`` and ``end`` are of what they become."""

    def __init__(self, slot: Array, start: Array, end: Array, order: Array) -> None:
        self._start, self._end, self._order = start, end, order
        self._stretches = found = Stretches(slot, start, end)
        self.count = len(slot)
        self.slot, self.start, self.end = found.keys, found.starts, found.ends

    def of_each(self) -> Array:
        """Return in which of the sessions each of what was given is."""
        return self._stretches.of_intervals()

    def check_order(self, sessions: int) -> None:
        """Raise ``FallBackToRows`` unless each record touches what came before it in its session.

        ``sessions`` were given before the records. Then two sessions never become one, at no time.
        """
        of_each = self.of_each()
        if sessions and int(np.bincount(of_each[:sessions]).max()) > 1:
            raise FallBackToRows("two sessions become one")
        # The order in which they came: what was given first, the sessions, is there before all records.
        groups = Groups(of_each, len(self.slot))
        starts, ends = self._start.take(groups.order), self._end.take(groups.order)
        least, greatest = int(starts.min()), int(ends.max())
        latest = running_most(ends, groups, least, greatest)
        earliest = running_most(-starts, groups, -greatest, -least)
        if latest is None or earliest is None:
            raise FallBackToRows("a range too wide")
        apart = (starts[1:] > latest[:-1]) | (ends[1:] < -earliest[:-1])
        apart[groups.begins[1:] - 1] = False
        if apart.any():
            raise FallBackToRows("two sessions become one")

    def folded(self, column: Column, how: str, bits: int = 64) -> Column:
        """Return a leaf of the contents of each session; ints only are added or compared; sums wrap to so many bits."""
        order, begins = self._stretches.order, self._stretches.begins
        if how not in (SUM, MIN, MAX):
            return column.take(order.take(begins))  # alike in all of them
        values = column.array(self.count).take(order)
        if how != SUM:
            return Column(column.kind, (np.minimum if how == MIN else np.maximum).reduceat(values, begins))
        if float(np.add.reduceat(np.abs(values.astype(np.float64)), begins).max()) >= _SURE:
            raise FallBackToRows("an overflow")
        summed = np.add.reduceat(values, begins)
        return Column(column.kind, summed if bits == 64 else wrapped(summed, bits))

    def orders(self) -> Array:
        """Return which place each session has among those with its end: that of the one that was there first, mostly."""
        order, begins = self._stretches.order, self._stretches.begins
        by_start = self._order.take(order)
        found = by_start.take(begins)
        ends = np.append(begins[1:], self.count)
        for number in np.flatnonzero(np.minimum.reduceat(by_start, begins) != found).tolist():
            part = order[begins[number] : ends[number]]
            several = (each.take(part).tolist() for each in (self._order, self._start, self._end))
            found[number] = merged_order((start, end, at) for at, start, end in sorted(zip(*several, strict=True)))
        return found
