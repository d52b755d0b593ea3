"""Records in arrays, in the order of arrival: other structures keep only their positions.

Texts are Python objects there: records of keys are taken a few at a time from anywhere, which costs 25 us of a column of Arrow
however few they are, and less than 1 us of objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from funken.columnar.kernels.columns import Array, Column, Columns, column_of, columns_of, joined
from funken.columnar.keyed.groups import each_once
from funken.expr.types import BOOL, FLOAT, INT, STR, Atomic, Type, atomic_fields

# ---- Leaves of records as they are kept by key: arrays that grow, in which texts are Python objects.


LEAF_TYPES: dict[Atomic, Any] = {INT: np.int64, FLOAT: np.float64, BOOL: np.bool_, STR: np.object_}
"""The type of the array of a field, by the field's type."""


def grown(array: Array, size: int) -> Array:
    """Return an array with room for more; the new room is zero."""
    larger = np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger


def objects(column: Column, length: int) -> Array:
    """Return the values of a column as they are kept: text as Python objects."""
    return np.array(column.to_list(length), np.object_) if column.kind == STR else column.array(length)


def column_from(values: Array, kind: Atomic) -> Column:
    """Return a stored field as a column.

    >>> column_from(objects(column_of(["a", "b"], STR), 2), STR).to_list(2)
    ['a', 'b']
    """
    return column_of(values.tolist(), STR) if kind == STR else Column(kind, values)


_FEWEST = 64


class RecordLog:
    """A log of records of one schema.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> from funken.columnar.kernels.columns import columns_of
    >>> log = RecordLog(Tuple((STR, INT)))
    >>> log.append(columns_of([("a", 1), ("b", 2)], Tuple((STR, INT)))), log.append(columns_of([("c", 3)], Tuple((STR, INT))))
    (0, 2)
    >>> log.take(np.array([2, 0])).to_list(), log.leaf(1, np.array([1, 2])).to_list(2), len(log)
    ([('c', 3), ('a', 1)], [2, 3], 3)
    """

    def __init__(self, schema: Type) -> None:
        self._schema = schema
        self._kinds = [kind for _, kind in atomic_fields(schema)]
        self._leaves: list[Array] = [np.empty(0, LEAF_TYPES[kind]) for kind in self._kinds]
        self._room = self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, records: Columns) -> int:
        """Add records; return the place of the first one."""
        begin, end = self._length, self._length + records.length
        if end > self._room:
            self._room = max(_FEWEST, 2 * end)
            self._leaves = [grown(leaf, self._room) for leaf in self._leaves]
        for leaf, column in zip(self._leaves, records.leaves, strict=True):
            leaf[begin:end] = objects(column, records.length)
        self._length = end
        return begin

    def leaf(self, number: int, places: Array) -> Column:
        """Return a field of the records at some places."""
        return column_from(self._leaves[number].take(places), self._kinds[number])

    def keep(self, places: Array) -> None:
        """Drop all records but those at some places, which are in order; these move up."""
        self._leaves = [leaf.take(places) for leaf in self._leaves]
        self._length = self._room = len(places)

    def take(self, places: Array) -> Columns:
        """Return the records at some places."""
        return Columns(self._schema, [self.leaf(number, places) for number in range(len(self._kinds))], len(places))


# ---- Places by slot: those that are added together to a slot stand together; such a *run* knows the one before it of its
# slot. So adding a block costs a concatenation, and all of a slot are found by going back from its last run.


class FoundPlaces(NamedTuple):
    """Places by the number of their slot, and the runs that have them: of each its number, and whose it is.

    ``depth``: how many runs a slot has at most.
    """

    owners: Array
    places: Array
    runs: Array
    owners_of_runs: Array
    depth: int


class SlotRuns:
    """Runs of places by slot.

    >>> runs = SlotRuns()
    >>> runs.add(np.array([0, 2]), np.array([10, 20]), np.array([2, 1])), runs.add(np.array([0]), np.array([30]), np.array([1]))
    (slice(0, 2, None), slice(2, 3, None))
    >>> found = runs.find(np.array([2, -1, 0]))
    >>> found.owners.tolist(), found.places.tolist(), found.runs.tolist()
    ([0, 2, 2, 2], [20, 10, 11, 30], [1, 0, 2])
    """

    def __init__(self) -> None:
        self._count = 0
        #: of each run: its first place, how many it has, the run before it (-1: none)
        self._starts, self._counts, self._before = (np.empty(0, np.int64) for _ in range(3))
        #: of each slot, its last run (-1: none)
        self._last: Array = np.empty(0, np.int64)

    def __len__(self) -> int:
        """Return the number of runs, with those of slots that were emptied."""
        return self._count

    def reserve(self, slots: int) -> None:
        """Make room for so many slots."""
        known = len(self._last)
        if slots > known:
            self._last = grown(self._last, max(_FEWEST, 2 * slots))
            self._last[known:] = -1

    def add(self, slots: Array, starts: Array, counts: Array) -> slice:
        """Add a run to slots, each of which comes once; return the numbers of the runs."""
        begin, self._count = self._count, self._count + len(slots)
        new = slice(begin, self._count)
        if not len(slots):
            return new
        self.reserve(int(slots.max()) + 1)
        if self._count > len(self._starts):
            room = max(_FEWEST, 2 * self._count)
            self._starts, self._counts, self._before = (
                grown(each, room) for each in (self._starts, self._counts, self._before)
            )
        self._starts[new], self._counts[new], self._before[new] = starts, counts, self._last.take(slots)
        self._last[slots] = np.arange(begin, self._count)
        return new

    def empty(self, slots: Array) -> None:
        """Forget the runs of slots."""
        if len(slots):
            self.reserve(int(slots.max()) + 1)
            self._last[slots] = -1

    def find(self, slots: Array, stop: Array | None = None) -> FoundPlaces:
        """Return the places of slots (-1: it has none), in the order of slots, and of arrival; without runs up to a ``stop``."""
        owners, runs = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        if len(slots):
            self.reserve(int(slots.max()) + 1)
        owner = np.flatnonzero(slots >= 0)
        run = self._last.take(slots.take(owner))
        while True:
            there = run >= 0
            if stop is not None:
                there[there] = ~stop.take(run[there])
            if not there.all():
                owner, run = owner[there], run[there]
            if not len(owner):
                break
            owners.append(owner)
            runs.append(run)
            run = self._before.take(run)
        of, found = (np.concatenate(each[::-1]) for each in (owners, runs))
        if len(runs) > 2:  # several runs of a slot, of which the last ones were found first
            order = np.argsort(of, kind="stable")
            of, found = of.take(order), found.take(order)
        lengths = self._counts.take(found)
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        places = np.arange(total) + np.repeat(self._starts.take(found) - ends + lengths, lengths)
        return FoundPlaces(np.repeat(of, lengths), places, found, of, len(runs) - 1)


# ---- Lists by slot, that grow: their items are columns in a log, in the order in which they came. Parts of the log are
# joined when they are of about one size, and items of lists that were emptied leave it when they are half of it.


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
        self._runs = SlotRuns()
        #: of each run, whether it is stored elsewhere too
        self._stored: Array = np.empty(0, np.bool_)
        #: of each slot, how many items it has
        self._lengths: Array = np.empty(0, np.int64)

    def __len__(self) -> int:
        """Return the number of items, with those of lists that were emptied."""
        return self._items

    def append(self, slots: Array, counts: Array, items: Columns, stored: bool = False) -> None:
        """Add ``counts`` items to the lists at ``slots``, each of which comes once."""
        if not len(slots):
            return
        new = self._runs.add(slots, self._items + np.cumsum(counts) - counts, counts)
        if new.stop > len(self._stored):
            self._stored = grown(self._stored, 2 * new.stop)
        self._stored[new] = stored
        self._reserve(slots)
        self._lengths[slots] += counts
        self._items += items.length
        self._parts.append(items.stamped(None))
        while len(self._parts) > 1 and self._parts[-2].length <= 2 * self._parts[-1].length:
            self._parts[-2:] = [joined(self._parts[-2:])]

    def empty(self, slots: Array) -> None:
        """Empty the lists at some slots."""
        self._runs.empty(slots)
        self._reserve(slots)
        self._lengths[slots] = 0
        if self._items > _FEW_ITEMS and 2 * int(self._lengths.sum()) < self._items:
            self._compact()

    def lengths(self, slots: Array) -> Array:
        """Return the number of items of the lists at some slots."""
        self._reserve(slots)
        return self._lengths.take(slots)

    def lists(self, slots: Array, new: bool = False) -> tuple[Array, Columns]:
        """Return the numbers of items of the lists at some slots, and all items; only the ``new`` ones, not stored."""
        found = self._runs.find(slots, self._stored if new else None)
        return np.bincount(found.owners, minlength=len(slots)), self._at(found.places)

    def mark_stored(self, slots: Array) -> None:
        """Remember that all items of the lists at some slots are stored elsewhere."""
        self._stored[self._runs.find(slots, self._stored).runs] = True

    def _reserve(self, slots: Array) -> None:
        most = int(slots.max()) + 1 if len(slots) else 0
        if most > len(self._lengths):
            self._lengths = grown(self._lengths, max(_FEWEST, 2 * most))

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
        """Leave out the items of no list; a run becomes one for each list, of stored items, and one of the others."""
        slots = np.flatnonzero(self._lengths > 0)
        counts, items = self.lists(slots)
        new = np.bincount(self._runs.find(slots, self._stored).owners, minlength=len(slots))
        old, lengths = counts - new, self._lengths
        begins = np.cumsum(counts) - counts
        position = np.arange(items.length) - np.repeat(begins, counts)
        is_old = position < np.repeat(old, counts)
        self.__init__(self._schema)  # type: ignore[misc]
        self._lengths = np.zeros(len(lengths), np.int64)
        for which, of, stored in ((is_old, old, True), (~is_old, new, False)):
            some = np.flatnonzero(of)
            if len(some):
                self.append(slots.take(some), of.take(some), items.take(np.flatnonzero(which)), stored)


# ---- Records by key and time: their places, in sorted runs, of which the later ones are smaller.
#
# A record's *code* is the number of its key, and behind it, in the lower bits, its time within its *epoch*, which is
# a stretch of time of so many bits. New records are a run of each of their epochs, which is put together with the
# run before it until that is four times as long: so there are few runs, and a record is moved a few times only. Who
# is not kept any more leaves when its run is put together with another one, or as a whole run.


_BITS = 32
"""Of the time in a code: 49 days of ms. So there may be more keys than memory has room for."""
_SPAN = 1 << _BITS
_EARLIEST = -(1 << 62)
_TIMES_LARGER = 4


class _Run(NamedTuple):
    """Codes in order, of each the place of its record, and the latest time; alike codes are in the order of arrival.

    ``base`` is where the epoch begins.
    """

    base: int
    codes: Array
    places: Array
    latest: int

    @property
    def stamps(self) -> Array:
        """The times of the records."""
        return (self.codes & (_SPAN - 1)) + self.base


class FoundPairs(NamedTuple):
    """Pairs: which of those that look for partners it is, and the places and times of the partners."""

    probed: Array
    places: Array
    stamps: Array


class KeyedTimes:
    """The records of one side of a join.

    ``keep``: so long after its time a record is kept. Places are given in the order of arrival.

    >>> times = KeyedTimes(keep=10)
    >>> times.add(np.array([0, 1, 0]), np.array([30, 20, 10]), begin=0)
    >>> [found] = times.find(np.array([1, 0]), np.array([0, 0]), np.array([40, 30]), most=10)
    >>> found.probed.tolist(), found.places.tolist(), found.stamps.tolist()
    ([0, 1, 1], [1, 2, 0], [20, 10, 30])
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        #: by where their epochs begin
        self._epochs: dict[int, list[_Run]] = {}
        #: the watermark, and the place of the first record that came after it
        self._watermark: int | None = None
        self._settled = 0

    def __len__(self) -> int:
        return sum(len(run.codes) for run in self._runs())

    def _runs(self) -> list[_Run]:
        return [run for runs in self._epochs.values() for run in runs]

    def _change(self, change: Callable[[_Run], _Run]) -> None:
        self._epochs = {base: list(map(change, runs)) for base, runs in self._epochs.items()}

    # ---- what comes, and what goes

    def add(self, numbers: Array, stamps: Array, begin: int) -> None:
        """Add records by the numbers of their keys, and by time; the place of the first record is ``begin``."""
        codes = (numbers << _BITS) + (stamps & (_SPAN - 1))
        order = np.argsort(codes, kind="stable")
        first, last = int(stamps.min()) >> _BITS, int(stamps.max()) >> _BITS
        if first == last:
            self._add(_Run(first << _BITS, codes.take(order), order + begin, int(stamps.max())))
            return
        epochs = (stamps >> _BITS).take(order)
        for epoch in each_once(epochs).tolist():
            some = order[epochs == epoch]
            self._add(_Run(epoch << _BITS, codes.take(some), some + begin, int(stamps.take(some).max())))

    def _add(self, later: _Run) -> None:
        runs = self._epochs.setdefault(later.base, [])
        while runs and len(runs[-1].codes) < _TIMES_LARGER * len(later.codes):
            earlier, later = self._living(runs.pop()), self._living(later)
            codes = np.concatenate((earlier.codes, later.codes))
            by_code = np.argsort(codes, kind="stable")  # two runs that are in order: they are merged
            places = np.concatenate((earlier.places, later.places)).take(by_code)
            later = _Run(later.base, codes.take(by_code), places, max(earlier.latest, later.latest))
        runs.append(later)

    def settle(self, watermark: int, end: int) -> None:
        """Drop whom no partner can come for any more; who comes from the place ``end`` on, comes after this watermark."""
        self._watermark, self._settled = max(watermark, _EARLIEST), end
        for base, runs in list(self._epochs.items()):
            self._epochs[base] = [run for run in runs if run.latest + self._keep > watermark]
            if not self._epochs[base]:
                del self._epochs[base]

    def _living(self, run: _Run) -> _Run:
        """Return a run without those that are dropped."""
        mask = self._lives(run.places, run.stamps)
        return run if mask is None or mask.all() else run._replace(codes=run.codes[mask], places=run.places[mask])

    def _lives(self, places: Array, stamps: Array) -> Array | None:
        if self._watermark is None:
            return None
        lives = stamps > self._watermark - self._keep
        return lives if self._keep else lives | (places >= self._settled)

    # ---- partners

    def find(self, numbers: Array, low: Array, high: Array, most: int) -> Iterator[FoundPairs]:
        """Return those of each key from ``low`` to ``high``, in the order of time, and of arrival; about ``most`` at a time."""
        if self._watermark is not None:
            low = np.maximum(low, self._watermark - self._keep + (self._keep > 0))
        codes, order, parts = numbers << _BITS, None, []
        for base, runs in self._epochs.items():
            # One that ends before it begins, finds nothing.
            below, above = codes + np.clip(low - base, 0, _SPAN), codes + np.clip(high - base, -1, _SPAN - 1)
            if order is None:  # hot: to look up in order takes less time
                order = np.argsort(below, kind="stable")
            below, above = below.take(order), above.take(order)
            for run in runs:
                firsts, counts = np.empty((2, len(numbers)), np.int64)
                begins = np.searchsorted(run.codes, below, "left")
                firsts[order] = begins
                counts[order] = np.maximum(np.searchsorted(run.codes, above, "right") - begins, 0)
                if counts.any():
                    parts.append((run, firsts, counts))
        if parts:
            yield from self._pairs(parts, most)

    def _pairs(self, parts: list[tuple[_Run, Array, Array]], most: int) -> Iterator[FoundPairs]:
        ends: Any = np.cumsum(np.sum([counts for _, _, counts in parts], axis=0))
        begin, done = 0, 0
        while done < ends[-1]:
            end = max(begin + 1, int(np.searchsorted(ends, done + most, "right")))
            found = self._pairs_of(parts, slice(begin, end))
            for start in range(0, len(found.probed), most):
                yield FoundPairs(*(each[start : start + most] for each in found))
            begin, done = end, int(ends[end - 1])

    def _pairs_of(self, parts: list[tuple[_Run, Array, Array]], part: slice) -> FoundPairs:
        """Return all pairs of some of those that look for partners."""
        probed, places, stamps = [], [], []
        for run, firsts, counts in parts:
            count = counts[part]
            ends = np.cumsum(count)
            at = np.arange(ends[-1]) + np.repeat(firsts[part] - (ends - count), count)
            probed.append(np.repeat(np.arange(part.start, part.stop), count))
            places.append(run.places.take(at))
            stamps.append((run.codes.take(at) & (_SPAN - 1)) + run.base)
        found = FoundPairs(*map(np.concatenate, (probed, places, stamps)))
        if len(parts) > 1:  # earlier runs came before
            if len(self._epochs) > 1:
                in_order = np.lexsort((found.stamps, found.probed))
            else:
                in_order = np.argsort(((found.probed - part.start) << _BITS) + found.stamps - run.base, kind="stable")
            found = FoundPairs(*(each.take(in_order) for each in found))
        if not self._keep and (lives := self._lives(found.places, found.stamps)) is not None and not lives.all():
            found = FoundPairs(*(each[lives] for each in found))
        return found

    # ---- all of them

    def all(self) -> tuple[Array, Array, Array]:
        """Return the numbers, times and places of those kept, in the order of arrival."""
        runs = list(map(self._living, self._runs()))
        if not runs:
            nothing = np.empty(0, np.int64)
            return nothing, nothing, nothing
        codes, stamps, places = (
            np.concatenate(each) for each in zip(*((run.codes, run.stamps, run.places) for run in runs), strict=True)
        )
        order = np.argsort(places)
        return (codes >> _BITS).take(order), stamps.take(order), places.take(order)

    def places(self) -> Array:
        """Return the places of all, in order."""
        return np.sort(np.concatenate([np.empty(0, np.int64), *(run.places for run in self._runs())]))

    def numbers(self) -> Array:
        """Return the numbers of the keys of all, each once, in order."""
        return each_once(np.concatenate([np.empty(0, np.int64), *(run.codes >> _BITS for run in self._runs())]))

    def moved(self, places: Array) -> None:
        """Go on with new places: of each one its number among these, which are in order."""
        self._change(lambda run: run._replace(places=np.searchsorted(places, run.places)))
        self._settled = int(np.searchsorted(places, self._settled))

    def renumbered(self, numbers: Array) -> None:
        """Go on with new numbers of keys: of each one its number among these, which are in order."""

        def change(run: _Run) -> _Run:
            fresh = np.searchsorted(numbers, run.codes >> _BITS)
            return run._replace(codes=(fresh << _BITS) + (run.codes & (_SPAN - 1)))

        self._change(change)
