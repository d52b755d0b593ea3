"""The contents of one window in columns, by the number of a key: values in arrays, or lists of records.

Lists keep all records, or those that are greatest or least. Records are put behind each other as they come; those that no list
keeps leave when there are twice as many as were kept last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, Protocol

import numpy as np

from funken.columnar.folds import FIRST, LAST, MAX, SUM
from funken.columnar.kernels.columns import Array, Column, Columns, columns_of, joined, lists_with
from funken.columnar.kernels.evaluation import FallBackToRows, evaluate
from funken.columnar.keyed.groups import ranks
from funken.columnar.keyed.kept import objects
from funken.columnar.keyed.keys import Slots, column_of_keys
from funken.columnar.lists.folds import ADD, ALL, GREATEST, KEEP, ListFold
from funken.columnar.records import fits
from funken.dataclass import dataclass
from funken.expr.types import FLOAT, HIGHEST, INT, LOWEST, Type
from funken.operators.columnar.keyed_arrays import KeyedArrays
from funken.operators.window.contents import Pane

_FEWEST = 4096
"""So many records a list pane has at least before some leave."""


@dataclass(frozen=True)
class Contribution:
    """What a block adds to one leaf of the contents.

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


class ColumnPane(Protocol):
    """One window, in columns: with values by key, or with lists of records."""

    def check(self, contributions: list[Any], length: int) -> None:
        """Raise ``FallBackToRows`` if what a block adds cannot be added, before anything is changed."""
        ...

    def add(self, key: Column, contributions: list[Any], length: int) -> None:
        """Add the records of a block, in order."""
        ...

    def load(self, stored: Pane) -> None:
        """Take contents over; raise ``FallBackToRows`` if they are not of the shape, or keys are of other types."""
        ...

    def stored(self) -> Pane:
        """Return the contents by key, in the order of the keys' first records."""
        ...

    def copied(self) -> Iterator[tuple[Any, Any]]:
        """Return what gives out the contents by key, as they are now, in that order."""
        ...

    def columns(self) -> Columns:
        """Return the contents as columns, in that order."""
        ...

    def keys(self) -> list[Any]:
        """Return the keys, in that order."""
        ...

    def __len__(self) -> int: ...


class ArrayPane:
    """Values by key."""

    def __init__(self, schema: Type) -> None:
        self.schema = schema
        self._arrays = KeyedArrays(schema)

    def check(self, contributions: list[Contribution], length: int) -> None:
        """Raise ``FallBackToRows`` if a sum may overflow, before anything is changed."""
        for number, contribution in enumerate(contributions):
            if self._arrays.leaves[number][1] == INT and contribution.how == SUM:
                reach(self._arrays, number, contribution, length)

    def add(self, key: Column, contributions: list[Contribution], length: int) -> None:
        """Add the records of a block, in order."""
        arrays, known = self._arrays, len(self._arrays)
        numbers = arrays.find(key, length)
        count = len(arrays)
        firsts = np.empty(0, np.int64)
        if count > known:
            new = np.flatnonzero(numbers >= known)
            firsts = new.take(np.unique(numbers.take(new), return_index=True)[1])
        for number, contribution in enumerate(contributions):
            if arrays.leaves[number][1] == INT and length:
                arrays.bounds[number] = reach(arrays, number, contribution, length)
            joined_leaf(arrays.state[number], contribution, numbers, slice(known, count), firsts, length)
            if contribution.bits < 64 and length:
                arrays.wrap(number, contribution.bits)

    def load(self, stored: Pane) -> None:
        """Take contents over; raise ``FallBackToRows`` if they are not of the shape, or keys are of other types."""
        if stored:
            self._arrays.find(column_of_keys(list(stored)), len(stored))
        self._arrays.put(range(len(stored)), list(stored.values()))

    def stored(self) -> Pane:
        """Return the contents by key, in the order of the keys' first records."""
        return dict(self.copied())

    def copied(self) -> Iterator[tuple[Any, Any]]:
        """Return what gives out the contents by key, as they are now, in that order."""
        return self._arrays.entries(np.arange(len(self._arrays)))

    def columns(self) -> Columns:
        """Return the contents as columns, in that order."""
        return self._arrays.columns()

    def keys(self) -> list[Any]:
        """Return the keys, in that order."""
        return self._arrays.slots.keys

    def __len__(self) -> int:
        return len(self._arrays)


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


# ---- lists


@dataclass(frozen=True)
class ListedRecords:
    """The records of a block, and by what they compare (``None``: it does not matter)."""

    records: Columns
    by: Column | None

    def keep(self, mask: Array) -> ListedRecords:
        """Return those where a mask is true."""
        return ListedRecords(self.records.keep(mask), None if self.by is None else self.by.keep(mask))


def listed_records(fold: ListFold, block: Columns) -> ListedRecords:
    """Return the records of a block; raise ``FallBackToRows`` if they have no order."""
    if fold.by is None:
        return ListedRecords(block.stamped(None), None)
    by = evaluate(fold.by, block.length, block)
    assert isinstance(by, Column)
    if by.kind == FLOAT and np.isnan(by.data).any():
        raise FallBackToRows("a number that is none")
    return ListedRecords(block.stamped(None), by)


class ListPane:
    """One window; ``schema`` is that of the records."""

    def __init__(self, fold: ListFold, schema: Type) -> None:
        self.schema = schema
        self._fold = fold
        self._slots = Slots()
        self._parts: list[tuple[Array, ListedRecords]] = []
        self._length = self._kept = 0

    def check(self, contributions: list[ListedRecords], length: int) -> None:
        """Nothing can fail."""

    def add(self, key: Column, contributions: list[ListedRecords], length: int) -> None:
        """Add the records of a block, in order."""
        (some,) = contributions
        self._parts.append((self._slots.find(key, length), some))
        self._length += length
        if self._length > _FEWEST and self._length > 2 * self._kept and self._fold.how != ALL:
            self._prune()

    def load(self, stored: Pane) -> None:
        """Take contents over; raise ``FallBackToRows`` if they are not of the shape, or keys are of other types."""
        if not stored:
            return
        records = list(chain.from_iterable(stored.values()))
        if any(type(each) is not list for each in stored.values()) or not all(
            fits(each, self.schema) for each in records
        ):
            raise FallBackToRows("a record of another type")
        slots = self._slots.find(column_of_keys(list(stored)), len(stored))
        block = columns_of(records, self.schema)
        if block.length:
            numbers = np.repeat(slots, np.array(list(map(len, stored.values()))))
            self._parts.append((numbers, listed_records(self._fold, block)))
        self._length = block.length

    def stored(self) -> Pane:
        """Return the contents by key, in the order of the keys' first records."""
        return dict(self.copied())

    def copied(self) -> Iterator[tuple[Any, Any]]:
        """Return what gives out the contents by key, as they are now, in that order."""
        contents = self.columns()
        return zip(list(self.keys()), contents.to_list(), strict=True)

    def columns(self) -> Columns:
        """Return the contents as columns, in that order."""
        numbers, some = self._prune()
        counts = np.bincount(numbers, minlength=len(self))
        lists = lists_with(self.schema, counts, some.records.take(np.argsort(numbers, kind="stable")))
        return Columns(lists.kind, [lists], len(self))

    def keys(self) -> list[Any]:
        """Return the keys, in that order."""
        return self._slots.keys

    def __len__(self) -> int:
        return len(self._slots)

    def _prune(self) -> tuple[Array, ListedRecords]:
        """Return the records that are kept, and of which key each is."""
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
        places = places if self._fold.how == GREATEST else -places
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
