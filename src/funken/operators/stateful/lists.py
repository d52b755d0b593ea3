"""A list by key in columns, in front of the table that its handle has."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from funken.columnar.kernels.columns import Array, Column, Columns, Lists, columns_of, joined
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.list_log import ListLog
from funken.columnar.records import fits
from funken.expr.types import ListOf
from funken.operators.stateful.arrays import StateArrays
from funken.state.backend import Table, may_hold


class StateLists:
    """A state that is a list; its slots are those of the operator's keys."""

    def __init__(self, kind: ListOf, keys: StateArrays) -> None:
        self.kind = kind
        self._keys = keys
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.log = ListLog(self.kind.element)
        self._looked = 0
        self._touched, self._emptied = np.zeros(0, np.bool_), np.zeros(0, np.bool_)

    def load(self, table: Table) -> None:
        """Take the lists of new keys out of the table; raises ``FallBackToRows`` if it has what no column can."""
        begin, end = self._looked, len(self._keys)
        if end > len(self._touched):
            self._touched, self._emptied = (
                np.concatenate((each, np.zeros(end, np.bool_))) for each in (self._touched, self._emptied)
            )
        self._looked = end
        if begin == end or not may_hold(table):
            return
        found = {slot: stored for slot in range(begin, end) if (stored := table.get(self._keys.key(slot)))}
        items = [item for stored in found.values() for item in stored]
        if not all(fits(item, self.kind.element) for item in items):
            self._looked = begin
            raise FallBackToRows("a state of another type")
        if found:
            counts = np.array(list(map(len, found.values())))
            self.log.append(np.array(list(found)), counts, columns_of(items, self.kind.element), stored=True)

    def change(self, emptied: Array, slots: Array, counts: Array, items: Columns) -> None:
        """Empty the lists at ``emptied``, then add items to those at ``slots``."""
        self.log.empty(emptied)
        self._emptied[emptied] = True
        self.log.append(slots, counts, items)
        self._touched[emptied] = True
        self._touched[slots] = True

    def __len__(self) -> int:
        """Return how many items are in memory."""
        return len(self.log)

    def mark_live(self, keys: Array) -> None:
        """Mark the slots of keys that have items."""
        keys |= self.log.lengths(np.arange(len(keys))) > 0

    def store(self, handle: Any, set_key: Any) -> None:
        """Hand what has changed to the handle; ``set_key`` is called with each key before."""
        slots = np.flatnonzero(self._touched)
        for anew in (True, False):
            some = slots[self._emptied.take(slots) == anew]
            counts, items = self.log.lists(some, new=not anew)
            values, ends = items.to_list(), accumulate(counts.tolist(), initial=0)
            for slot, (start, stop) in zip(some.tolist(), pairwise(ends), strict=True):
                set_key(self._keys.key(slot))
                (handle.update if anew else handle.add_all)(values[start:stop])
        self.log.mark_stored(slots)
        self._touched[slots] = self._emptied[slots] = False


class ListsBefore(Lists):
    """A list before each record of a block: what there was, unless it was emptied, and what the block has added since.

    They are put together for those records only that are asked for.
    """

    __slots__ = ("_added", "_firsts", "_kept", "_lasts", "_log", "_slots")

    def __init__(
        self, kind: ListOf, log: ListLog, slots: Array, kept: Array, added: Columns, firsts: Array, lasts: Array
    ) -> None:  # fmt: skip
        """``kept``: whether it was not emptied; ``firsts`` and ``lasts``: where what is added begins and ends in ``added``."""
        self.kind, self.constant = kind, False
        self.low = self.high = None
        self._log, self._slots, self._kept = log, slots, kept
        self._added, self._firsts, self._lasts = added, firsts, lasts

    def __getattr__(self, name: str) -> Any:
        if name not in ("offsets", "items"):
            return super().__getattr__(name)
        whole = self._made(np.arange(len(self._slots)))
        self.offsets, self.items = whole.offsets, whole.items
        return getattr(self, name)

    def take(self, positions: Array) -> Column:
        """Return the lists of some records."""
        return self._made(positions)

    def _made(self, positions: Array) -> Lists:
        kept = self._kept.take(positions)
        stored, items = self._log.lists(self._slots.take(positions)[kept])
        before = np.zeros(len(positions), np.int64)
        before[kept] = stored
        firsts = self._firsts.take(positions)
        since = self._lasts.take(positions) - firsts
        counts = before + since
        offsets = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        assert isinstance(self.kind, ListOf)
        if not since.any():
            return Lists(self.kind, offsets, items)
        # First all that there was, then all that was added; and of each record one after the other.
        places = np.arange(int(since.sum())) - np.repeat(np.cumsum(since) - since, since) + np.repeat(firsts, since)
        both = joined([items, self._added.take(places)]) if items.length else self._added.take(places)
        owners = np.concatenate((np.repeat(np.arange(len(counts)), before), np.repeat(np.arange(len(counts)), since)))
        return Lists(self.kind, offsets, both.take(np.argsort(owners, kind="stable")))


__all__ = ["ListsBefore", "StateLists"]
