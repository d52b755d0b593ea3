"""Records by key in arrays, one per leaf of their schema: what the running reduce and the windows over columns keep.

A key has a *slot*, its place in every array, from its first record on. Of every int that is kept there are bounds, which show
that a sum cannot overflow before anything is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from funken.columnar.kernels.columns import Array, Column, Columns, column_of, values_of_leaves
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.kept import LEAF_TYPES, column_from, grown
from funken.columnar.keyed.keys import Slots
from funken.columnar.loops.converting import wrapped
from funken.columnar.records import fits
from funken.expr.types import INT, Atomic, Type, atomic_fields

_FEWEST = 64
_AT_ONCE = 1024
"""How many records are made of arrays at a time."""


class KeyedArrays:
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

    def __len__(self) -> int:
        return len(self.slots)

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
        if not all(fits(record, self.schema) for record in records):
            raise FallBackToRows("a record of another type")
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


def leaf_columns(leaves: Sequence[tuple[tuple[int, ...], Atomic]], arrays: Sequence[Array]) -> list[Column]:
    """Return leaves as they are kept as columns."""
    return [column_from(array, kind) for (_, kind), array in zip(leaves, arrays, strict=True)]


__all__ = ["KeyedArrays", "leaf_columns"]
