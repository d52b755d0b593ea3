"""Order of rows: sort keys with direction and place of NULLs, over plain values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import total_ordering
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from funken.table.logical import SortKey

Tuple = tuple[Any, ...]


@total_ordering
class Reversed:
    """A value that comes before smaller ones."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reversed) and self.value == other.value

    def __lt__(self, other: Any) -> bool:
        return bool(other.value < self.value)

    __hash__ = None  # type: ignore[assignment]


def _comparable(value: Any) -> Any:
    """Return a value that is ordered as SQL orders it: NaN is greatest, texts go by their bytes, items of ROWs may be NULL."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, list | tuple):
        return tuple((item is not None, None if item is None else _comparable(item)) for item in value)
    return value


def sort_key(order: Sequence[SortKey]) -> Callable[[Tuple], Tuple]:
    """Return what gives the sort key of a row.

    >>> rows = [(2, "a"), (None, "b"), (3, "c")]
    >>> sorted(rows, key=sort_key([SortKey(0, ascending=False, nulls_first=False)]))
    [(3, 'c'), (2, 'a'), (None, 'b')]
    """

    def key_of(row: Tuple) -> Tuple:
        found: list[Any] = []
        for key in order:
            value = row[key.index]
            if value is None:
                found.append((0 if key.nulls_first else 2,))
            elif type(value) is int:
                found.append((1, value if key.ascending else -value))
            else:
                comparable = _comparable(value)
                found.append((1, comparable if key.ascending else Reversed(comparable)))
        return tuple(found)

    return key_of


def places_of(columns: Sequence[pa.Array], order: Sequence[SortKey]) -> Any:
    """Return the place of each row in the order of some columns of numbers, times or texts; equal rows have one place.

    >>> columns = [pa.array([2, None, 3, 2]), pa.array(["a", "b", "c", "a"])]
    >>> places_of(columns, [SortKey(0, ascending=False, nulls_first=False), SortKey(1)]).tolist()
    [1, 2, 0, 1]
    """
    parts: list[Any] = []
    for column, key in zip(columns, order, strict=True):
        missing = None
        if column.null_count:
            missing = column.is_null().to_numpy(zero_copy_only=False)
            parts.append(missing if not key.nulls_first else ~missing)
        if pa.types.is_integer(column.type):
            values = pc.fill_null(column, 0).to_numpy().astype(np.int64)
        elif pa.types.is_temporal(column.type):
            bits = pa.int64() if column.type.bit_width == 64 else pa.int32()
            values = pc.fill_null(column.view(bits), 0).to_numpy().astype(np.int64)
        else:
            encoded = column.dictionary_encode("mask")
            ranks = pc.rank(encoded.dictionary, tiebreaker="dense").to_numpy().astype(np.int64)
            codes = pc.fill_null(encoded.indices, 0).to_numpy()
            values = ranks.take(codes) if len(ranks) else np.zeros(len(column), np.int64)
        values = values if key.ascending else ~values  # a number and its complement are in opposite orders
        parts.append(values if missing is None else np.where(missing, 0, values))
    length = len(columns[0]) if columns else 0
    by_order = np.lexsort(parts[::-1]) if parts else np.arange(length)
    begins = np.zeros(length, np.bool_)
    for part in parts:
        ordered = part.take(by_order)
        begins[1:] |= ordered[1:] != ordered[:-1]
    found = np.empty(length, np.int64)
    found[by_order] = np.cumsum(begins)
    return found


__all__ = ["Reversed", "places_of", "sort_key"]
