"""Open sessions in arrays: a row each, linked by key from the newest to the oldest; and what a block makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from funken.columnar.folds import MAX, MIN, SUM
from funken.columnar.kernels.columns import Array
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.groups import each_once
from funken.columnar.keyed.kept import LEAF_TYPES, grown
from funken.columnar.keyed.keys import Slots
from funken.columnar.loops.converting import wrapped
from funken.expr.types import Type, atomic_fields

_FEWEST = 64
_NONE = -1
_SURE = 2.0**62


class SessionTable:
    """The sessions of all keys; ``order`` tells which was opened first, of two with one end."""

    def __init__(self, schema: Type) -> None:
        self.schema = schema
        self.slots = Slots()
        self.count = 0
        self._next_row = 0
        self._free: Array = np.empty(0, np.int64)
        self._columns: dict[str, Array] = {
            "slot": np.empty(0, np.int64), "start": np.empty(0, np.int64), "end": np.empty(0, np.int64),
            "order": np.empty(0, np.int64), "before": np.empty(0, np.int64), "open": np.empty(0, np.bool_),
        }  # fmt: skip
        kinds = [kind for _, kind in atomic_fields(schema)]
        self._leaves = [np.empty(0, LEAF_TYPES[kind]) for kind in kinds]
        #: by slot: the newest session, whether the sessions have changed since the last snapshot, and whether they are in one
        self._newest: Array = np.empty(0, np.int64)
        self.touched: Array = np.empty(0, np.bool_)
        self.saved: Array = np.empty(0, np.bool_)

    def reserve(self) -> None:
        """Make room for new slots."""
        known, room = len(self.slots), len(self._newest)
        if known > room:
            size = max(_FEWEST, 2 * known)
            self._newest = np.append(self._newest, np.full(size - room, _NONE))
            self.touched, self.saved = grown(self.touched, size), grown(self.saved, size)

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
        self.touched[slots] = True

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
        self.touched[slots] = True
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


__all__ = ["SessionScan", "SessionTable", "merged_order"]
