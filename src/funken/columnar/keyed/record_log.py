"""Records in arrays, in the order in which they came: what is kept of them elsewhere is their places.

Texts are Python objects there: records of keys are taken a few at a time from anywhere, which costs 25 us of a column of Arrow
however few they are, and less than 1 us of objects.
"""

from __future__ import annotations

import numpy as np

from funken.columnar.kernels.columns import Array, Column, Columns
from funken.columnar.keyed.kept import LEAF_TYPES, column_from, grown, objects
from funken.expr.types import Type, atomic_fields

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
        """Return a leaf of the records at some places."""
        return column_from(self._leaves[number].take(places), self._kinds[number])

    def keep(self, places: Array) -> None:
        """Drop all records but those at some places, which are in order; these move up."""
        self._leaves = [leaf.take(places) for leaf in self._leaves]
        self._length = self._room = len(places)

    def take(self, places: Array) -> Columns:
        """Return the records at some places."""
        return Columns(self._schema, [self.leaf(number, places) for number in range(len(self._kinds))], len(places))


__all__ = ["RecordLog"]
