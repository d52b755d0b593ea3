"""Contents of windows and running aggregates in columns: values, or lists of records, by the *slot* of a key.

``KeyedArrays`` has one array per field: what records are folded to. ``ListPane`` keeps the lists of one window that is closed as
a whole: records are put behind each other as they come, and those that no list keeps leave when there are twice as many as were
kept last. ``KeyedLists`` keeps lists that are emptied one by one. Of every int that is kept there are bounds, which show that a
sum cannot overflow before anything is changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from funken.columnar.declared import FIRST, LAST, MAX, SUM, Aggregate, Fold
from funken.columnar.expressions import Constant
from funken.columnar.kernels.columns import (
    Array,
    Column,
    Columns,
    column_of,
    columns_of,
    joined,
    lists_with,
    values_of_leaves,
    wrapped,
)
from funken.columnar.kernels.evaluation import FallBackToRows, evaluate
from funken.columnar.keyed.groups import Partials, ranks
from funken.columnar.keyed.keys import Slots, column_of_keys
from funken.columnar.keyed.logs import LEAF_TYPES, ListLog, column_from, grown, objects
from funken.columnar.records import fits
from funken.columnar.recurrence import ADD, ALL, KEEP, MOST, ListFold
from funken.dataclass import dataclass
from funken.expr.types import FLOAT, HIGHEST, INT, LOWEST, Atomic, Type, atomic_fields
from funken.operators.window.contents import Pane
from funken.state.delta_tables import DeltaTable

_FEWEST = 64
_AT_ONCE = 1024
"""Number of records, or lists, that are made of columns at a time."""
_FEWEST_RECORDS = 4096
"""So many records a list pane has at least before some leave."""


@dataclass(frozen=True)
class Contribution:
    """The contribution of a block to one field of the contents.

    Of a key's first record that is ``own``, the leaf of the record itself; if that is ``None``, the contents are there
    before it, and are ``beginning``.
    """

    how: str
    of: Column
    own: Column | None
    beginning: Any = None
    bits: int = 64
    """To how many bits a sum of ints wraps."""

    def keep(self, mask: Array) -> Contribution:
        """Return the part of the records where a mask is true."""
        of = self.of.keep(mask)
        own = self.own if self.own is None else of if self.own is self.of else self.own.keep(mask)
        return replace(self, of=of, own=own)


def contributions_of(
    folds: Sequence[Fold], block: Columns, aggregate: Aggregate | None = None
) -> list[Contribution]:  # fmt: skip
    """Return what a block adds to each leaf of the contents; ``aggregate``: how these begin, if not with the first record."""
    found = []
    for number, fold in enumerate(folds):
        beginning = None if aggregate is None else aggregate.beginnings[number]
        if aggregate is not None and fold.how == FIRST:  # nothing of a record is added to what stays as it was
            found.append(Contribution(FIRST, Column(fold.kind, beginning, True), None, beginning))
            continue
        of = evaluate(fold.of, block.length, block)
        assert isinstance(of, Column)
        if aggregate is None:
            found.append(Contribution(fold.how, of.cast(fold.kind), block.leaves[number], bits=fold.bits))
            continue
        if fold.how == SUM and isinstance(fold.of, Constant) and isinstance(block, Partials):
            of = Column(of.kind, block.weights * of.data)  # once for each record that a partial stands for
        found.append(Contribution(fold.how, of.cast(fold.kind), None, beginning))
    return found


class ArrayPane:
    """A window in arrays, as a table of a ``PaneTable``: if it got a record since the last snapshot, it is written whole."""

    changed = False
    saved = 0
    """How many keys are in a snapshot: the first ones."""
    touched: Array | None = None
    """If it is in front of keyed state, the slots that have changed since they were put there."""

    def touch(self, slots: Array) -> None:
        """Remember that some slots change, if that is asked for."""
        if self.touched is not None:
            if len(self) > len(self.touched):
                self.touched = grown(self.touched, max(_FEWEST, 2 * len(self)))
            self.touched[slots] = True

    @property
    def size(self) -> int:
        """The number of keys and records that are kept."""
        return len(self)

    def take_touched(self) -> Iterator[tuple[Any, Any]]:
        """Return what gives out the contents that have changed, by key; from now on they have not."""
        assert self.touched is not None
        slots = np.flatnonzero(self.touched)
        self.touched[:] = False
        return self.entries(slots) if len(slots) else iter(())

    def entries(self, slots: Array) -> Iterator[tuple[Any, Any]]:
        """Return what gives out keys and contents at some slots, as they are now."""
        raise NotImplementedError

    def load(self, stored: Pane) -> None:
        """Take over contents of other keys; raise ``FallBackToRows``, and take none, if they or their keys do not fit."""
        raise NotImplementedError

    @property
    def keys(self) -> list[Any]:
        """The keys, in the order of their first records."""
        raise NotImplementedError

    def copied(self) -> Iterator[tuple[Any, Any]]:
        """Return what gives out the contents by key, as they are now, in that order."""
        return self.entries(np.arange(len(self)))

    def __len__(self) -> int:
        return len(self.keys)

    def whole(self) -> Pane:
        """Return the contents by key."""
        return dict(self.copied())

    def saved_keys(self) -> tuple[Any, ...]:
        """Return the keys that are in a snapshot."""
        return tuple(self.keys[: self.saved])

    def snapshot_entries(self, before_write: Any, complete: bool = False) -> Iterator[tuple[Any, Any]]:
        """Begin a snapshot: arrays are copied."""
        if not (complete or self.changed):
            return iter(())
        self.changed, self.saved = False, len(self)
        return self.copied()

    def in_objects(self) -> DeltaTable:
        """Return the contents as objects."""
        layers, stored = DeltaTable(), self.whole()
        if self.saved:
            layers.base = stored
        if self.changed:
            layers.delta = dict(stored)
        return layers


class KeyedArrays(ArrayPane):
    """One record per key; a leaf that is the key itself (``is_key``) is not kept.

    >>> from funken.expr.types import STR, Tuple
    >>> kept = KeyedArrays(Tuple((STR, INT)), is_key=(True, False))
    >>> slots = kept.find(column_of(["a", "b", "a"], STR), 3)
    >>> kept.put([0, 1], [("a", 5), ("b", -7)])
    >>> slots.tolist(), len(kept), kept.bounds[1], dict(kept.entries(np.array([1, 0])))
    ([0, 1, 0], 2, (-7, 5), {'b': ('b', -7), 'a': ('a', 5)})
    """

    def __init__(self, schema: Type, is_key: Sequence[bool] | None = None) -> None:
        self.schema = schema
        self.leaves = atomic_fields(schema)
        self.is_key = [False] * len(self.leaves) if is_key is None else is_key
        self.slots = Slots()
        self.state: list[Array] = [np.empty(0, LEAF_TYPES[kind]) for _, kind in self.leaves]
        """The values of each leaf by slot; there is room for more keys than there are."""
        self.bounds: list[tuple[int, int]] = [(0, 0)] * len(self.leaves)
        """Of a leaf of ints: none is below or above."""

    @property
    def keys(self) -> list[Any]:
        """The keys by slot."""
        return self.slots.keys

    @property
    def room(self) -> int:
        """For how many keys there is room."""
        return len(self.state[0])

    def find(self, key: Column, length: int) -> Array:
        """Return the slot of each record; new keys get new ones."""
        numbers = self.slots.find(key, length)
        if len(self.slots) > self.room:
            size = max(_FEWEST, 2 * len(self.slots))
            self.state = [grown(array, size) for array in self.state]
        return numbers

    def put(self, slots: Sequence[int], records: Sequence[Any]) -> None:
        """Store a record at each slot; raise ``FallBackToRows``, and store none, if one is not of the schema."""
        self._check_records(records)
        self._put(slots, records)

    def _check_records(self, records: Iterable[Any]) -> None:
        if not all(fits(record, self.schema) for record in records):
            raise FallBackToRows("a record of another type")

    def _put(self, slots: Any, records: Sequence[Any]) -> None:
        if not records:
            return
        columns = values_of_leaves(list(records), self.schema)
        for number, ((_, kind), values) in enumerate(zip(self.leaves, columns, strict=True)):
            self.state[number][slots] = values
            if kind == INT:
                self.widen(number, min(values), max(values))

    def widen(self, number: int, low: int, high: int) -> None:
        """Let the bounds of a leaf include two values."""
        lowest, highest = self.bounds[number]
        self.bounds[number] = min(lowest, low), max(highest, high)

    def wrap(self, number: int, bits: int) -> None:
        """Let a leaf of ints wrap to so many bits, if it may be beyond them."""
        low, high = self.bounds[number]
        if low < -1 << (bits - 1) or high >= 1 << (bits - 1):
            values = self.state[number][: len(self)]
            values[:] = wrapped(values, bits)
            self.bounds[number] = int(values.min()), int(values.max())

    def entries(self, slots: Array) -> Iterator[tuple[Any, Any]]:
        """Return what gives out keys and records at some slots, as they are now."""
        state = [None if is_key else array.take(slots) for array, is_key in zip(self.state, self.is_key, strict=True)]
        return self._records(slots, self.slots.keys, state)

    def columns(self) -> Columns:
        """Return the records of all keys, in the order of their slots; each of their leaves has to be kept."""
        count = len(self)
        return Columns(self.schema, leaf_columns(self.leaves, [array[:count] for array in self.state]), count)

    def _records(self, slots: Array, known: list[Any], state: list[Array | None]) -> Iterator[tuple[Any, Any]]:
        for start in range(0, len(slots), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            keys = [known[slot] for slot in slots[part].tolist()]
            leaves = []
            for (_, kind), array in zip(self.leaves, state, strict=True):
                if array is None:
                    leaves.append(column_of(keys, kind))
                else:
                    leaves.append(column_from(array[part], kind))
            yield from zip(keys, Columns(self.schema, leaves, len(keys)).to_list(), strict=True)

    # ---- as the contents of a window

    def check(self, contributions: list[Contribution], length: int) -> None:
        """Raise ``FallBackToRows`` if a sum may overflow, before anything is changed."""
        for number, contribution in enumerate(contributions):
            if contribution.how == SUM:
                reach(self, number, contribution, length)

    def add(self, key: Column, contributions: list[Contribution], length: int) -> None:
        """Add the records of a block, in order."""
        known, numbers = len(self), self.find(key, length)
        self.touch(numbers)
        count = len(self)
        firsts = np.empty(0, np.int64)
        if count > known:
            new = np.flatnonzero(numbers >= known)
            firsts = new.take(np.unique(numbers.take(new), return_index=True)[1])
        for number, contribution in enumerate(contributions):
            if self.leaves[number][1] == INT and length:
                self.bounds[number] = reach(self, number, contribution, length)
            joined_leaf(self.state[number], contribution, numbers, slice(known, count), firsts, length)
            if contribution.bits < 64 and length:
                self.wrap(number, contribution.bits)

    def load(self, stored: Pane) -> None:
        """Take over contents of other keys; raise ``FallBackToRows``, and take none, if they or their keys do not fit."""
        if stored:
            self._check_records(stored.values())
            self._put(self.find(column_of_keys(list(stored)), len(stored)), list(stored.values()))


def leaf_columns(leaves: Sequence[tuple[tuple[int, ...], Atomic]], arrays: Sequence[Array]) -> list[Column]:
    """Return leaves as they are kept as columns."""
    return [column_from(array, kind) for (_, kind), array in zip(leaves, arrays, strict=True)]


def reach(arrays: KeyedArrays, number: int, contribution: Contribution, length: int) -> tuple[int, int]:
    """Return bounds of a leaf of ints after a block, of which ``length`` records at most are of one key.

    Raises ``FallBackToRows`` if a sum may overflow.
    """
    if arrays.leaves[number][1] != INT:
        return 0, 0
    bounds = [arrays.bounds[number], contribution.of.bounds()]
    bounds.append((contribution.beginning,) * 2 if contribution.own is None else contribution.own.bounds())
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    if contribution.how == SUM:
        least, most = contribution.of.bounds()
        low, high = low + length * min(0, least), high + length * max(0, most)
        if low < LOWEST or high > HIGHEST:
            raise FallBackToRows("an overflow")
    return low, high


def joined_leaf(
    state: Array, contribution: Contribution, numbers: Array, new: slice, firsts: Array, length: int
) -> None:  # fmt: skip
    """Join a block with one leaf of the contents; ``new`` are the new keys' places, ``firsts`` their first records."""
    how, of, own = contribution.how, contribution.of, contribution.own
    beginning = own.take(firsts) if own is not None else Column(of.kind, contribution.beginning, True)
    if len(firsts):
        if how == SUM and own is not None:
            # What is added to gives the first value unchanged, also if that is -0.0.
            state[new] = -0.0 if of.kind == FLOAT else 0
        else:
            state[new] = objects(beginning, len(firsts))
    if how == FIRST or (how == SUM and of.constant and of is own and of.kind == INT):
        if how == SUM:
            state[: new.stop] += of.data * np.bincount(numbers, minlength=new.stop)
        return
    values = objects(of, length)
    if own is not None and of is not own and len(firsts):
        values = values.copy()
        values[firsts] = objects(beginning, len(firsts))
    if how == SUM:
        np.add.at(state, numbers, values)
    elif how == LAST:
        state[numbers] = values  # of several for one place the last one stays
    else:
        (np.maximum if how == MAX else np.minimum).at(state, numbers, values)


def folded_leaf(before: Array, contribution: Contribution, numbers: Array, firsts: Array, length: int) -> Array:
    """Return one leaf of the contents of windows: those that there were ``before``, and behind them new ones."""
    count = len(before) + len(firsts)
    state = grown(before, count)
    joined_leaf(state, contribution, numbers, slice(len(before), count), firsts, length)
    return wrapped(state, contribution.bits) if contribution.bits < 64 else state


# ---- lists


@dataclass(frozen=True)
class ListedRecords:
    """The records of a block, by what they compare (``None``: it does not matter), and the input that they come from."""

    records: Columns
    by: Column | None
    side: int = 0

    def keep(self, mask: Array) -> ListedRecords:
        """Return those where a mask is true."""
        return ListedRecords(self.records.keep(mask), None if self.by is None else self.by.keep(mask), self.side)


def listed_records(fold: ListFold, block: Columns) -> ListedRecords:
    """Return the records of a block; raise ``FallBackToRows`` if they have no order."""
    if fold.by is None:
        return ListedRecords(block.stamped(None), None)
    by = evaluate(fold.by, block.length, block)
    assert isinstance(by, Column)
    if by.kind == FLOAT and np.isnan(by.data).any():
        raise FallBackToRows("a number that is none")
    return ListedRecords(block.stamped(None), by)


class ListPane(ArrayPane):
    """One window; ``schema`` is that of the records. Several panes may share their ``slots``."""

    def __init__(self, fold: ListFold, schema: Type, slots: Slots | None = None) -> None:
        self.schema = schema
        self._fold = fold
        self.slots = Slots() if slots is None else slots
        self._parts: list[tuple[Array, ListedRecords]] = []
        self._length = self._kept = 0

    def check(self, contributions: list[ListedRecords], length: int) -> None:
        """Nothing can fail."""

    def add(self, key: Column, contributions: list[ListedRecords], length: int) -> None:
        """Add the records of a block, in order."""
        numbers = self.slots.find(key, length)
        self.touch(numbers)
        self.put(numbers, contributions[0])

    def put(self, numbers: Array, some: ListedRecords) -> None:
        """Add records to the lists at some slots."""
        self._parts.append((numbers, some))
        self._length += len(numbers)
        if self._length > _FEWEST_RECORDS and self._length > 2 * self._kept and self._fold.how != ALL:
            self.records()

    def load(self, stored: Pane) -> None:
        """Take over contents of other keys; raise ``FallBackToRows``, and take none, if they or their keys do not fit."""
        if not stored:
            return
        records = list(chain.from_iterable(stored.values()))
        if any(type(each) is not list for each in stored.values()) or not all(
            fits(each, self.schema) for each in records
        ):
            raise FallBackToRows("a record of another type")
        slots = self.slots.find(column_of_keys(list(stored)), len(stored))
        if records:
            numbers = np.repeat(slots, np.array(list(map(len, stored.values()))))
            self.put(numbers, listed_records(self._fold, columns_of(records, self.schema)))

    def entries(self, slots: Array) -> Iterator[tuple[Any, Any]]:
        """Return what gives out keys and lists at some slots, as they are now."""
        return zip([self.keys[slot] for slot in slots.tolist()], self.columns().take(slots).to_list(), strict=True)

    @property
    def size(self) -> int:
        """The number of keys and records that are kept."""
        return len(self) + self._length

    def columns(self) -> Columns:
        """Return the contents as columns, in that order."""
        numbers, some = self.records()
        counts = np.bincount(numbers, minlength=len(self))
        return listed(self.schema, counts, some.records.take(np.argsort(numbers, kind="stable")))

    @property
    def keys(self) -> list[Any]:
        """The keys, in that order."""
        return self.slots.keys

    def records(self) -> tuple[Array, ListedRecords]:
        """Return the records that are kept, in the order of arrival, and of which key each is."""
        if not self._parts:
            return np.empty(0, np.int64), ListedRecords(columns_of([], self.schema), None)
        numbers, some = self._whole()
        if self._fold.how != ALL and self._length > self._kept:
            kept = self._best(numbers, some)
            numbers, some = (
                numbers.take(kept),
                ListedRecords(some.records.take(kept), None if some.by is None else some.by.take(kept)),
            )
        self._parts = [(numbers, some)]
        self._length = self._kept = len(numbers)
        return numbers, some

    def _whole(self) -> tuple[Array, ListedRecords]:
        if len(self._parts) == 1:
            return self._parts[0]
        records = joined([some.records for _, some in self._parts])
        by = [some.by for _, some in self._parts if some.by is not None]
        kept = by[0].begin(by, [len(numbers) for numbers, _ in self._parts]) if by else None
        return np.concatenate([numbers for numbers, _ in self._parts]), ListedRecords(records, kept)

    def _best(self, numbers: Array, some: ListedRecords) -> Array:
        """Return which records are kept, in order."""
        assert some.by is not None
        places = ranks([some.by], len(numbers))
        places = places if self._fold.how == MOST else -places
        most = np.full(len(self), np.iinfo(np.int64).min)
        np.maximum.at(most, numbers, places)
        kept = np.flatnonzero(places == most.take(numbers))
        if self._fold.alike == ADD:
            return kept
        one: Array = np.empty(len(self), np.int64)
        ordered = kept[::-1] if self._fold.alike == KEEP else kept
        one[numbers.take(ordered)] = ordered  # of several for one place the last one stays
        there: Array = np.zeros(len(self), np.bool_)
        there[numbers.take(kept)] = True
        return np.sort(one[there])


class KeyedLists:
    """A list per key; ``schema`` is that of the records.

    >>> from funken.columnar.kernels.columns import column_of
    >>> from funken.expr.types import STR
    >>> kept = KeyedLists(INT)
    >>> kept.find(column_of(["a", "b", "a"], STR), 3).tolist()
    [0, 1, 0]
    >>> kept.put([1, 0], [[5, 6], [7]])
    >>> list(kept.entries(np.array([0, 1])))
    [('a', [7]), ('b', [5, 6])]
    """

    def __init__(self, schema: Type) -> None:
        self.schema = schema
        self.slots = Slots()
        self.log = ListLog(schema)
        self.room = 0
        """For how many keys there is room."""

    @property
    def keys(self) -> list[Any]:
        """The keys by slot."""
        return self.slots.keys

    def __len__(self) -> int:
        return len(self.slots)

    def find(self, key: Column, length: int) -> Array:
        """Return the slot of each record; new keys get new ones."""
        numbers = self.slots.find(key, length)
        if len(self.slots) > self.room:
            self.room = max(_FEWEST, 2 * len(self.slots))
        return numbers

    def put(self, slots: Sequence[int], lists: Sequence[Any]) -> None:
        """Store a list at each slot, which has none; raise ``FallBackToRows``, and store none, if one is of other records."""
        schema = self.schema
        if not all(type(each) in (list, deque) and all(fits(record, schema) for record in each) for each in lists):
            raise FallBackToRows("records of another type")
        counts = np.fromiter(map(len, lists), np.int64, len(lists))
        self.log.append(np.array(slots, np.int64), counts, columns_of(list(chain.from_iterable(lists)), schema))

    def entries(self, slots: Array) -> Iterator[tuple[Any, list[Any]]]:
        """Return what gives out keys and lists at some slots, as they are now."""
        counts, records = self.log.lists(slots)
        return self._lists([self.slots.keys[slot] for slot in slots.tolist()], listed(self.schema, counts, records))

    @staticmethod
    def _lists(keys: list[Any], lists: Columns) -> Iterator[tuple[Any, list[Any]]]:
        for start in range(0, len(keys), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            yield from zip(keys[part], lists[part].to_list(), strict=True)


def listed(schema: Type, counts: Array, records: Columns) -> Columns:
    """Return lists of so many records each, one after the other, as a block of values."""
    column = lists_with(schema, counts, records)
    return Columns(column.kind, [column], len(counts))
