"""Grouping, joining and sorting of columns, and which consumer a key belongs to.

Keys are columns of int or str: of those, equal keys are equal objects. Grouping and sorting are Arrow's, whose sort is
stable and whose groups come in the order of their first records; a join looks positions up in a sorted column of ints.
What would not be exactly Python's result (a sum that may overflow, an order of NaN) raises ``FallBackToRows``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from funken.columnar.expressions import BOOL, FLOAT, HIGHEST, INT, STR
from funken.columnar.kernels.arithmetic import FallBackToRows
from funken.columnar.kernels.columns import Array, Column, Columns
from funken.columnar.kernels.keys import KEY_KINDS, hashes, key_codes
from funken.state.keygroups import stable_hash

_KINDS = {
    **{kind: (INT, np.int64) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16())},
    pa.uint32(): (INT, np.int64),
    pa.float32(): (FLOAT, np.float64),
    pa.float64(): (FLOAT, np.float64),
    pa.bool_(): (BOOL, np.bool_),
}
_DENSE = 4
"""A join looks ints up in a table if their range is at most so many times their number."""


def columns_from_arrow(arrays: Sequence[Any], length: int) -> Columns | None:
    """Return Arrow arrays as records of plain values; None if a type has no column, or a value is null.

    >>> columns_from_arrow([pa.array([1, 2]), pa.array(["a", "b"])], 2).to_list()
    [(1, 'a'), (2, 'b')]
    >>> columns_from_arrow([pa.array([1, None])], 2) is None
    True
    """
    leaves = []
    for array in arrays:
        if array.null_count:
            return None
        if pa.types.is_string(array.type):
            leaves.append(Column(STR, array))
        elif array.type in _KINDS:
            kind, stored = _KINDS[array.type]
            leaves.append(Column(kind, array.to_numpy(zero_copy_only=False).astype(stored, copy=False)))
        else:
            return None
    return Columns(tuple(leaf.kind for leaf in leaves), leaves, length)


def size_of(block: Columns) -> int:
    """Return the bytes of the arrays of a block."""
    size = 64
    for leaf in block.leaves:
        size += 16 if leaf.constant else leaf.array(block.length).nbytes
    return size


def whole_numbers(first: int, last: int) -> Columns:
    """Return the ints from ``first`` to ``last``, both included, as a block."""
    return Columns(INT, [Column(INT, np.arange(first, last + 1, dtype=np.int64), False, first, last)], last - first + 1)


def _hashed(column: Column, length: int) -> Array:
    if column.constant:
        return np.full(length, stable_hash(column.data), np.uint64)
    if column.kind == INT:
        return hashes(column.data)
    codes, values = key_codes(column, length)
    return np.array([stable_hash(value) for value in values], np.uint64).take(codes)


def targets_of(keys: Sequence[Column], length: int, consumers: int) -> Array:
    """Return the consumer of each record: ``stable_hash`` of its key (of a tuple, if there are several), modulo.

    >>> from funken.columnar.kernels.columns import columns_of
    >>> block = columns_of([(7, "a"), (-1, "b"), (2**40, "a")], ("int", "str"))
    >>> targets_of(block.leaves, 3, 5).tolist() == [stable_hash(record) % 5 for record in block.to_list()]
    True
    >>> targets_of(block.leaves[:1], 3, 5).tolist() == [stable_hash(record[0]) % 5 for record in block.to_list()]
    True
    """
    if len(keys) == 1:
        return _hashed(keys[0], length) % np.uint64(consumers)
    mask = np.uint64(0xFFFFFFFF)
    h = np.full(length, 0x345678 + len(keys), np.uint64)
    for key in keys:
        h = (h * np.uint64(31) + _hashed(key, length)) & mask
        h ^= h >> np.uint64(16)
        h = (h * np.uint64(0x85EBCA6B)) & mask
        h ^= h >> np.uint64(13)
        h = (h * np.uint64(0xC2B2AE35)) & mask
        h ^= h >> np.uint64(16)
    return h % np.uint64(consumers)


def dealt(block: Columns, keys: Sequence[Column], consumers: int) -> list[Columns | None]:
    """Cut a block by the consumers of its keys; None for a consumer without records."""
    targets = targets_of(keys, block.length, consumers)
    parts: list[Columns | None] = []
    for consumer in range(consumers):
        positions = np.flatnonzero(targets == consumer)
        parts.append(block.take(positions) if len(positions) else None)
    return parts


def _arrow(column: Column, length: int) -> Any:
    array = column.array(length)
    return array if column.kind == STR else pa.array(array)


def aggregated(block: Columns, keys: Sequence[int], parts: Sequence[tuple[str, int]], last: bool) -> Columns:
    """Return one record per key: ``parts`` are (sum, min or max; leaf), other leaves are those of the last or first record.

    >>> from funken.columnar.kernels.columns import columns_of
    >>> block = columns_of([("a", 1, 1), ("b", 5, 2), ("a", 2, 3)], ("str", "int", "int"))
    >>> aggregated(block, [0], [("sum", 1)], last=True).to_list()
    [('a', 3, 3), ('b', 5, 2)]
    """
    length = block.length
    arrays = {f"k{leaf}": _arrow(block.leaves[leaf], length) for leaf in keys}
    wanted: list[tuple[str, str]] = []
    for how, leaf in parts:
        column = block.leaves[leaf]
        if column.kind == INT and how == "sum" and max(map(abs, column.bounds())) * length > HIGHEST:
            raise FallBackToRows("a sum may overflow")
        if column.kind == FLOAT and how != "sum" and bool(np.isnan(column.array(length)).any()):
            raise FallBackToRows("NaN has no place in an order")
        arrays[f"v{leaf}"] = _arrow(column, length)
        wanted.append((f"v{leaf}", how))
    arrays["at"] = pa.array(np.arange(length))
    wanted.append(("at", "max" if last else "min"))
    found = pa.table(arrays).group_by([f"k{leaf}" for leaf in keys], use_threads=False).aggregate(wanted)
    at = found.column(f"at_{wanted[-1][1]}").to_numpy()
    leaves = [leaf.take(at) for leaf in block.leaves]
    for how, leaf in parts:
        values = found.column(f"v{leaf}_{how}").to_numpy()
        old = block.leaves[leaf]
        low, high = (None, None) if how == "sum" else (old.low, old.high)
        leaves[leaf] = Column(old.kind, values.astype(np.int64 if old.kind == INT else np.float64), False, low, high)
    return Columns(block.schema, leaves, len(at))


def can_aggregate(block: Columns, keys: Sequence[int], parts: Sequence[tuple[str, int]]) -> bool:
    """Whether the kinds of the leaves have kernels."""
    leaves = block.leaves
    return all(leaves[key].kind in KEY_KINDS for key in keys) and all(
        leaves[leaf].kind in (INT, FLOAT) for _, leaf in parts
    )


def ordered(block: Columns, keys: Sequence[tuple[int, bool]]) -> Columns:
    """Sort a block by leaves, each ascending or descending (True); equal records keep their order.

    >>> from funken.columnar.kernels.columns import columns_of
    >>> ordered(columns_of([(1, "b"), (2, "a"), (1, "a")], ("int", "str")), [(0, True), (1, False)]).to_list()
    [(2, 'a'), (1, 'a'), (1, 'b')]
    """
    arrays, length = {}, block.length
    for leaf, _ in keys:
        column = block.leaves[leaf]
        if column.kind == FLOAT and bool(np.isnan(column.array(length)).any()):
            raise FallBackToRows("NaN has no place in an order")
        arrays[str(leaf)] = _arrow(column, length)
    by = [(str(leaf), "descending" if descending else "ascending") for leaf, descending in keys]
    positions = pc.sort_indices(pa.table(arrays), sort_keys=by)
    return block.take(positions.to_numpy().astype(np.int64))


class JoinIndex:
    """The positions of each key of a column of ints.

    >>> index = JoinIndex(np.array([5, 7, 5]))
    >>> [(probed.tolist(), built.tolist()) for probed, built in index.pairs(np.array([7, 6, 5]), 2)]
    [([0, 2], [1, 0]), ([2], [2])]
    """

    def __init__(self, keys: Array) -> None:
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        self._low = int(self._keys[0]) if len(keys) else 0
        span = int(self._keys[-1]) - self._low + 1 if len(keys) else 0
        self._starts: Array | None = None
        if span <= max(1024, _DENSE * len(keys)):
            counts = np.bincount(keys - self._low, minlength=span)
            self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])

    def pairs(self, keys: Array, most: int) -> Iterator[tuple[Array, Array]]:
        """Return the positions of all pairs, among the probed keys and in the column; at most ``most`` at a time."""
        first: Array
        end: Array
        if self._starts is None:
            first, end = np.searchsorted(self._keys, keys, "left"), np.searchsorted(self._keys, keys, "right")
        else:
            span = len(self._starts) - 1
            inside = (keys >= self._low) & (keys < self._low + span)
            places = np.where(inside, keys, self._low) - self._low
            first = self._starts[places] if span else np.zeros(len(keys), np.int64)
            end = np.where(inside, self._starts[places + 1], first) if span else first
        ends = np.cumsum(end - first)
        for at in range(0, int(ends[-1]) if len(ends) else 0, most):
            pairs = np.arange(at, min(at + most, int(ends[-1])))
            probed = np.searchsorted(ends, pairs, "right")
            yield probed, self._order[end[probed] - ends[probed] + pairs]


__all__ = [
    "JoinIndex",
    "aggregated",
    "can_aggregate",
    "columns_from_arrow",
    "dealt",
    "ordered",
    "size_of",
    "targets_of",
    "whole_numbers",
]
