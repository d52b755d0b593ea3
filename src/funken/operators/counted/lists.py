"""Lists of records by key, in columns: what count windows keep that need all their records.

A key has a *slot* from its first record on, as in ``operators/columnar/keyed_arrays.py``; the records are in a log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from funken.columnar.kernels.columns import Array, Column, Columns, columns_of, lists_with
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.keys import Slots
from funken.columnar.keyed.list_log import ListLog
from funken.columnar.records import fits
from funken.expr.types import Type

_FEWEST = 64
_AT_ONCE = 1024
"""Of how many keys lists of Python objects are made at a time."""


class KeyedLists:
    """A list per key; ``schema`` is that of the records.

    >>> from funken.expr.types import INT, STR
    >>> from funken.columnar.kernels.columns import column_of
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


__all__ = ["KeyedLists", "listed"]
