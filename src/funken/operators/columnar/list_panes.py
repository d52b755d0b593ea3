"""The contents of one window as lists of records by the number of a key: all of them, or those that are greatest or least.

Records are put behind each other as they come; those that no list keeps leave when there are twice as many as were kept last.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from funken.columnar.expressions import FLOAT, RecordSchema
from funken.columnar.kernels.columns import Array, Column, Columns, columns_of, joined, lists_with
from funken.columnar.kernels.evaluation import FallBackToRows, evaluate
from funken.columnar.keyed.groups import ranks
from funken.columnar.keyed.keys import Slots, column_of_keys
from funken.columnar.lists.folds import ADD, ALL, GREATEST, KEEP, ListFold
from funken.columnar.records import fits
from funken.dataclass import dataclass
from funken.operators.window.contents import Pane

_FEWEST = 4096


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

    def __init__(self, fold: ListFold, schema: RecordSchema) -> None:
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


__all__ = ["ListPane", "ListedRecords", "listed_records"]
