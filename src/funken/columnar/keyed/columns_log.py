"""Records in columns, in the order in which they came: what is kept of them elsewhere is their places.

Parts of the log are joined when they are of about one size, so adding a block costs about a concatenation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funken.columnar.expressions import RecordSchema
from funken.columnar.kernels.columns import Array, Column, Columns, columns_of, joined, joined_columns

_MOST_JOINED = 1 << 22
"""Parts with more records are not joined: texts of a column are 2 GiB at most."""


class ColumnsLog:
    """A log of records of one schema.

    >>> log = ColumnsLog(("str", "int"))
    >>> log.append(columns_of([("a", 1), ("b", 2)], ("str", "int"))), log.append(columns_of([("c", 3)], ("str", "int")))
    (0, 2)
    >>> log.take(np.array([2, 0])).to_list(), log.leaf(1, np.array([1, 2])).to_list(2), len(log)
    ([('c', 3), ('a', 1)], [2, 3], 3)
    """

    def __init__(self, schema: RecordSchema) -> None:
        self._schema = schema
        self._parts: list[Columns] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, items: Columns) -> int:
        """Add records; return the place of the first one."""
        begin, self._length = self._length, self._length + items.length
        self._parts.append(items.stamped(None))
        while len(self._parts) > 1:
            one, other = self._parts[-2:]
            if one.length > 2 * other.length or one.length + other.length > _MOST_JOINED:
                break
            self._parts[-2:] = [joined([one, other])]
        return begin

    def take(self, places: Array) -> Columns:
        """Return the records at some places."""
        if len(self._parts) == 1:
            return self._parts[0].take(places)
        found, order = self._found(places)
        if not found:
            return columns_of([], self._schema)
        return joined([part.take(some) for part, some in found]).take(order)

    def leaf(self, number: int, places: Array) -> Column:
        """Return a leaf of the records at some places."""
        if len(self._parts) == 1:
            return self._parts[0].leaves[number].take(places)
        found, order = self._found(places)
        if not found:
            return columns_of([], self._schema).leaves[number]
        columns = [part.leaves[number].take(some) for part, some in found]
        return joined_columns(columns, [len(some) for _, some in found]).take(order)

    def _found(self, places: Array) -> tuple[list[tuple[Columns, Array]], Array]:
        """Return of each part which of its records are wanted, and where these belong."""
        ends = np.cumsum([part.length for part in self._parts])
        parts = np.searchsorted(ends, places, "right")
        found: list[tuple[Columns, Array]] = []
        where: list[Any] = []
        for number, part in enumerate(self._parts):
            of_part = np.flatnonzero(parts == number)
            if len(of_part):
                found.append((part, places.take(of_part) - (ends[number] - part.length)))
                where.append(of_part)
        order = np.empty(len(places), np.int64)
        if where:
            order[np.concatenate(where)] = np.arange(len(places))
        return found, order


__all__ = ["ColumnsLog"]
