"""Lists by slot, that grow: their items are columns in a log, in the order in which they came.

Items that are added together to a list stand together; such a *run* knows the one before it in its list. So adding a block costs
a concatenation, and a list is found by going back from its last run. Parts of the log are joined when they are of about one size,
and items of lists that were emptied leave it when they are half of it.
"""

from __future__ import annotations

import numpy as np

from funken.columnar.kernels.columns import Array, Columns, columns_of, joined
from funken.columnar.keyed.kept import grown
from funken.expr.types import Type

_FEWEST = 64
_FEW_ITEMS = 4096


class ListLog:
    """Lists of records of one schema.

    >>> from funken.expr.types import INT
    >>> log = ListLog(INT)
    >>> log.append(np.array([0, 2]), np.array([2, 1]), columns_of([5, 6, 7], INT))
    >>> log.append(np.array([0]), np.array([1]), columns_of([8], INT))
    >>> counts, items = log.lists(np.array([2, 0, 1, 0]))
    >>> counts.tolist(), items.to_list()
    ([1, 3, 0, 3], [7, 5, 6, 8, 5, 6, 8])
    >>> log.empty(np.array([0]))
    >>> log.lists(np.array([0, 2]))[0].tolist()
    [0, 1]
    """

    def __init__(self, schema: Type) -> None:
        self._schema = schema
        self._parts: list[Columns] = []
        self._items = 0
        self._runs = 0
        #: of each run: its first item, how many it has, the run before it (-1: none), and whether it is stored elsewhere too
        self._starts, self._counts, self._before = (np.empty(0, np.int64) for _ in range(3))
        self._stored: Array = np.empty(0, np.bool_)
        #: of each slot, its last run (-1: none), and how many items it has
        self._last: Array = np.empty(0, np.int64)
        self._lengths: Array = np.empty(0, np.int64)

    def __len__(self) -> int:
        """Return how many items there are, with those of lists that were emptied."""
        return self._items

    def append(self, slots: Array, counts: Array, items: Columns, stored: bool = False) -> None:
        """Add ``counts`` items to the lists at ``slots``, each of which is given once."""
        if not len(slots):
            return
        self._reserve(int(slots.max()) + 1)
        begin, self._runs = self._runs, self._runs + len(slots)
        if self._runs > len(self._starts):
            room = max(_FEWEST, 2 * self._runs)
            self._starts, self._counts, self._before, self._stored = (
                grown(each, room) for each in (self._starts, self._counts, self._before, self._stored)
            )
        new = slice(begin, self._runs)
        self._starts[new] = self._items + np.cumsum(counts) - counts
        self._counts[new] = counts
        self._before[new] = self._last.take(slots)
        self._stored[new] = stored
        self._last[slots] = np.arange(begin, self._runs)
        self._lengths[slots] += counts
        self._items += items.length
        self._parts.append(items.stamped(None))
        while len(self._parts) > 1 and self._parts[-2].length <= 2 * self._parts[-1].length:
            self._parts[-2:] = [joined(self._parts[-2:])]

    def empty(self, slots: Array) -> None:
        """Empty the lists at some slots."""
        if not len(slots):
            return
        self._reserve(int(slots.max()) + 1)
        self._last[slots] = -1
        self._lengths[slots] = 0
        if self._items > _FEW_ITEMS and 2 * int(self._lengths.sum()) < self._items:
            self._compact()

    def lengths(self, slots: Array) -> Array:
        """Return how many items the lists at some slots have."""
        if len(slots):
            self._reserve(int(slots.max()) + 1)
        return self._lengths.take(slots)

    def lists(self, slots: Array, new: bool = False) -> tuple[Array, Columns]:
        """Return how many items the lists at some slots have, and all their items; only those that are ``new``, not stored."""
        counts, positions, _ = self._found(slots, new)
        return counts, self._at(positions)

    def mark_stored(self, slots: Array) -> None:
        """Remember that all items of the lists at some slots are stored elsewhere."""
        self._stored[self._found(slots, True)[2]] = True

    def _reserve(self, slots: int) -> None:
        if slots > len(self._last):
            room, known = max(_FEWEST, 2 * slots), len(self._last)
            self._last, self._lengths = grown(self._last, room), grown(self._lengths, room)
            self._last[known:] = -1

    def _found(self, slots: Array, new: bool) -> tuple[Array, Array, Array]:
        """Return how many items lists have, where all their items are, and the runs that have them."""
        if len(slots):
            self._reserve(int(slots.max()) + 1)
        owners, runs, depths = list[Array](), list[Array](), list[Array]()
        owner, run = np.arange(len(slots)), self._last.take(slots)
        while len(owner):
            there = run >= 0
            if new:
                there &= ~self._stored.take(np.maximum(run, 0)) if len(self._stored) else there
            owner, run = owner[there], run[there]
            owners.append(owner)
            runs.append(run)
            depths.append(np.full(len(owner), len(depths)))
            run = self._before.take(run)
        each, of, depth = (np.concatenate(parts or [np.empty(0, np.int64)]) for parts in (owners, runs, depths))
        order = np.lexsort((-depth, each))
        of, each = of.take(order), each.take(order)
        lengths = self._counts.take(of)
        counts = np.zeros(len(slots), np.int64)
        np.add.at(counts, each, lengths)
        ends = np.cumsum(lengths)
        within: Array = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)
        return counts, within + np.repeat(self._starts.take(of), lengths), of

    def _at(self, positions: Array) -> Columns:
        if len(self._parts) == 1:
            return self._parts[0].take(positions)
        if not self._parts:
            return columns_of([], self._schema)
        ends = np.cumsum([part.length for part in self._parts])
        parts = np.searchsorted(ends, positions, "right")
        found, where = [], []
        for number, part in enumerate(self._parts):
            of_part = np.flatnonzero(parts == number)
            if len(of_part):
                found.append(part.take(positions.take(of_part) - (ends[number] - part.length)))
                where.append(of_part)
        if not found:
            return columns_of([], self._schema)
        order = np.empty(len(positions), np.int64)
        order[np.concatenate(where)] = np.arange(len(positions))
        return joined(found).take(order)

    def _compact(self) -> None:
        """Leave out the items of no list; a run becomes one for each list, of what is stored, and one of what is not."""
        slots = np.flatnonzero(self._lengths > 0)
        counts, items = self.lists(slots)
        new, _, _ = self._found(slots, True)
        old, lengths = counts - new, self._lengths
        begins = np.cumsum(counts) - counts
        position = np.arange(items.length) - np.repeat(begins, counts)
        is_old = position < np.repeat(old, counts)
        self.__init__(self._schema)  # type: ignore[misc]
        self._last, self._lengths = np.full(len(lengths), -1, np.int64), np.zeros(len(lengths), np.int64)
        for which, of, stored in ((is_old, old, True), (~is_old, new, False)):
            some = np.flatnonzero(of)
            if len(some):
                self.append(slots.take(some), of.take(some), items.take(np.flatnonzero(which)), stored)


__all__ = ["ListLog"]
