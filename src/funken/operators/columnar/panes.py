"""The contents of one window in arrays, by the number of a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from funken.columnar.expressions import FLOAT, HIGHEST, INT, LOWEST, RecordSchema
from funken.columnar.folds import FIRST, LAST, MAX, SUM
from funken.columnar.kernels.columns import Array, Column, Columns
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.keys import column_of_keys
from funken.dataclass import dataclass
from funken.operators.columnar.keyed_arrays import KeyedArrays, objects
from funken.operators.window.contents import Pane


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

    def keep(self, mask: Array) -> Contribution:
        """Return the part of the records where a mask is true."""
        of = self.of.keep(mask)
        own = self.own if self.own is None else of if self.own is self.of else self.own.keep(mask)
        return Contribution(self.how, of, own, self.beginning)


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

    def __init__(self, schema: RecordSchema) -> None:
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
