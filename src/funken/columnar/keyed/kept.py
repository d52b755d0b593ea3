"""Leaves of records as they are kept by key: arrays that grow, in which texts are Python objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from funken.columnar.kernels.columns import Array, Column, column_of
from funken.expr.types import BOOL, FLOAT, INT, STR, Atomic

LEAF_TYPES: dict[Atomic, Any] = {INT: np.int64, FLOAT: np.float64, BOOL: np.bool_, STR: np.object_}
"""What a leaf is kept in, by its kind."""


def grown(array: Array, size: int) -> Array:
    """Return an array with room for more; what is new is zero."""
    larger = np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger


def objects(column: Column, length: int) -> Array:
    """Return the values of a column as they are kept: text as Python objects."""
    return np.array(column.to_list(length), np.object_) if column.kind == STR else column.array(length)


def column_from(values: Array, kind: Atomic) -> Column:
    """Return a leaf as it is kept as a column.

    >>> column_from(objects(column_of(["a", "b"], STR), 2), STR).to_list(2)
    ['a', 'b']
    """
    return column_of(values.tolist(), STR) if kind == STR else Column(kind, values)


__all__ = ["LEAF_TYPES", "column_from", "grown", "objects"]
