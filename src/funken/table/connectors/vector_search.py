"""VECTOR_SEARCH: the rows of a table whose vectors are nearest to that of each row, by cosine similarity."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from funken.table.connectors.contract import LookupTable
from funken.table.values import internal_value


@dataclass
class VectorSearch:
    """A search that plans call for each row: a vector and a number in, the nearest rows and their similarity out."""

    table: str
    names: tuple[str, ...]
    column: int
    """The place of the vector among ``names``."""
    lookup: LookupTable = field(repr=False, compare=False)
    """Returns all rows for no keys."""
    kind = "table"
    deterministic = False

    def table_function(self, call: Any, operator_context: Any) -> NearestRows:
        """Return the search, opened."""
        self.lookup.open()
        return NearestRows(self.lookup, self.column, [column.type for column in call.row_type])


class NearestRows:
    """Compares the vector of a row with all those of a table.

    >>> round(cosine([1.0, 0.0], [1.0, 1.0]), 3)
    0.707
    """

    def __init__(self, lookup: LookupTable, column: int, types: Sequence[Any]) -> None:
        self._lookup = lookup
        self._column = column
        self._types = types

    def __call__(self, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Return the nearest rows, the nearest first, each with its similarity."""
        vector, count = args
        if vector is None or count is None:
            return []
        column = self._column
        found = self._lookup.lookup([()])[0]
        rows = {repr(row): row for row in found if row[column] is not None}  # equal rows are one
        scored = ((cosine(vector, row[column]), row) for row in rows.values())
        nearest = heapq.nlargest(count, scored, key=lambda pair: pair[0])
        return [
            tuple(internal_value(value, type_) for value, type_ in zip((*row, score), self._types, strict=True))
            for score, row in nearest
        ]

    def close(self) -> None:
        """Close the table."""
        self._lookup.close()


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors; 0 if one has no length.

    >>> cosine([0.0], [2.0])
    0.0
    """
    if len(one) != len(other):
        raise ValueError(f"VECTOR_SEARCH compares vectors of one length, not of {len(one)} and {len(other)} values.")
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=True)) / lengths if lengths else 0.0
