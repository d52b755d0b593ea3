"""Grouping, joining and sorting of columns, and which consumer a key belongs to.

Keys are columns of int or str: of those, equal keys are equal objects; orders are by any column. Sorting is Arrow's, whose
sort is stable, and so is grouping where a table of the keys (``groups.py``) would be too wide. What would not be exactly
Python's result (a sum that may overflow, an order of NaN) raises ``FallBackToRows``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from funken.columnar.declared import FIRST, LAST, MIN, SUM
from funken.columnar.kernels.columns import Array, Column, Columns, FallBackToRows, Lists, joined, values_of_leaves
from funken.columnar.keyed.groups import DENSE, NumberedGroups, other_than_negative_zero
from funken.columnar.keyed.keys import CompositeKey, hashes_of_column
from funken.expr.types import ARRAYS, BOOL, FLOAT, HIGHEST, INT, KEY_TYPES, STR, Tuple

_KINDS = {
    **{kind: (INT, np.int64) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16())},
    pa.uint32(): (INT, np.int64),
    pa.float32(): (FLOAT, np.float64),
    pa.float64(): (FLOAT, np.float64),
    pa.bool_(): (BOOL, np.bool_),
}


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
    return Columns(Tuple(leaf.kind for leaf in leaves), leaves, length)


def size_of(block: Columns) -> int:
    """Return the bytes of the arrays of a block."""
    size = 64
    for leaf in block.leaves:
        if isinstance(leaf, Lists):
            size += leaf.offsets.nbytes + size_of(leaf.content())
        else:
            size += 16 if leaf.constant else leaf.array(block.length).nbytes
    return size


def whole_numbers(first: int, last: int) -> Columns:
    """Return the ints from ``first`` to ``last``, both included, as a block."""
    return Columns(INT, [Column(INT, np.arange(first, last + 1, dtype=np.int64), False, first, last)], last - first + 1)


def targets_of(keys: Sequence[Column], length: int, consumers: int) -> Array:
    """Return the consumer of each record: ``stable_hash`` of its key (of a tuple, if there are several), modulo.

    >>> from funken.columnar.kernels.columns import columns_of
    >>> from funken.state.keygroups import stable_hash
    >>> block = columns_of([(7, "a"), (-1, "b"), (2**40, "a")], Tuple((INT, STR)))
    >>> targets_of(block.leaves, 3, 5).tolist() == [stable_hash(record) % 5 for record in block.to_list()]
    True
    >>> targets_of(block.leaves[:1], 3, 5).tolist() == [stable_hash(record[0]) % 5 for record in block.to_list()]
    True
    """
    return hashes_of(keys, length) % np.uint64(consumers)


def hashes_of(keys: Sequence[Column], length: int) -> Array:
    """Return ``stable_hash`` of each record's key, as 64-bit unsigned numbers."""
    return hashes_of_column(keys[0] if len(keys) == 1 else CompositeKey([*keys]), length)


def partitions_of(keys: Sequence[Column], length: int, level: int) -> Array:
    """Return one of 16 partitions for each record, by other bits of the hash at each level, and than its consumer.

    >>> from funken.columnar.kernels.columns import columns_of
    >>> numbers = columns_of(list(range(1000)), INT).leaves
    >>> one, other = (partitions_of(numbers, 1000, level) for level in (0, 1))
    >>> len(set(one.tolist())), len(set(zip(one.tolist(), other.tolist())))
    (16, 254)
    """
    mixed = (hashes_of(keys, length) ^ np.uint64(0x9E3779B9)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(36 + 4 * level)) & np.uint64(15)


def cut_up(block: Columns, targets: Array, consumers: int) -> list[Columns | None]:
    """Cut a block by the consumer of each record; None for a consumer without records."""
    parts: list[Columns | None] = []
    for consumer in range(consumers):
        positions = np.flatnonzero(targets == consumer)
        parts.append(block.take(positions) if len(positions) else None)
    return parts


def _arrow(column: Column, length: int) -> Any:
    array = column.array(length)
    return array if column.kind == STR else pa.array(array)


def can_aggregate(block: Columns, keys: Sequence[int], hows: Sequence[str]) -> bool:
    """Return True if the types of the fields have kernels."""
    leaves = block.leaves
    return all(leaves[key].kind in KEY_TYPES and hows[key] in (FIRST, LAST) for key in keys) and all(
        how in (FIRST, LAST) or leaf.kind in (INT, FLOAT) for leaf, how in zip(leaves, hows, strict=True)
    )


def _check_exact(column: Column, how: str, length: int) -> None:
    if column.kind == INT and how == SUM and max(map(abs, column.bounds())) * length > HIGHEST:
        raise FallBackToRows("a sum may overflow")
    if column.kind == FLOAT and how != SUM and bool(np.isnan(column.array(length)).any()):
        raise FallBackToRows("NaN has no place in an order")


def aggregated(block: Columns, keys: Sequence[int], hows: Sequence[str]) -> Columns:
    """Return one record per key; ``hows`` names each field's aggregate: first, last, least, greatest, or sum.

    >>> from funken.columnar.kernels.columns import columns_of
    >>> block = columns_of([("a", 1, 1), ("b", 5, 2), ("a", 2, 3)], Tuple((STR, INT, INT)))
    >>> aggregated(block, [0], ["last", "sum", "first"]).to_list()
    [('a', 3, 1), ('b', 5, 2)]
    """
    numbered = _numbered(block, keys)
    if numbered is not None:
        return _folded(block, numbered, hows)
    length = block.length
    arrays = {f"k{leaf}": _arrow(block.leaves[leaf], length) for leaf in keys}
    arrays["at"] = pa.array(np.arange(length))
    wanted: list[tuple[str, str]] = [("at", "min"), ("at", "max")]
    for leaf, how in enumerate(hows):
        if how not in (FIRST, LAST):
            _check_exact(block.leaves[leaf], how, length)
            arrays[f"v{leaf}"] = _arrow(block.leaves[leaf], length)
            wanted.append((f"v{leaf}", how))
            others = other_than_negative_zero(block.leaves[leaf].array(length)) if how == SUM else None
            if others is not None:
                arrays[f"o{leaf}"] = pa.array(others)
                wanted.append((f"o{leaf}", "any"))
    found = pa.table(arrays).group_by([f"k{leaf}" for leaf in keys], use_threads=False).aggregate(wanted)
    places = {FIRST: found.column("at_min").to_numpy(), LAST: found.column("at_max").to_numpy()}
    leaves = []
    for leaf, (old, how) in enumerate(zip(block.leaves, hows, strict=True)):
        if how in (FIRST, LAST):
            leaves.append(old.take(places[how]))
        else:
            values = found.column(f"v{leaf}_{how}").to_numpy()
            if f"o{leaf}" in arrays:
                values = np.where(found.column(f"o{leaf}_any").to_numpy(), values, -0.0)
            leaves.append(_fold_of(old, how, values))
    return Columns(block.schema, leaves, len(places[FIRST]))


def _fold_of(old: Column, how: str, values: Array) -> Column:
    low, high = (None, None) if how == SUM else (old.low, old.high)
    return Column(old.kind, values.astype(np.int64 if old.kind == INT else np.float64, copy=False), False, low, high)


def _numbered(block: Columns, keys: Sequence[int]) -> NumberedGroups | None:
    """Return the groups of a key that is one column of ints in a narrow range."""
    key = block.leaves[keys[0]]
    if len(keys) > 1 or key.kind != INT or key.constant or not block.length:
        return None
    low, high = int(key.data.min()), int(key.data.max())
    span = high - low + 1
    return NumberedGroups(key.data, low, span) if span <= max(1024, DENSE * block.length) else None


def _folded(block: Columns, groups: NumberedGroups, hows: Sequence[str]) -> Columns:
    leaves = []
    for old, how in zip(block.leaves, hows, strict=True):
        if how in (FIRST, LAST):
            leaves.append(old.take(groups.firsts if how == FIRST else groups.lasts()))
        else:
            _check_exact(old, how, block.length)
            leaves.append(_fold_of(old, how, groups.folded(old.array(block.length), how)))
    return Columns(block.schema, leaves, len(groups.firsts))


def total(block: Columns, hows: Sequence[str], so_far: Any = None) -> Any:
    """Return one record of all, as a Python object, behind ``so_far`` (a record of the same schema) if there is one.

    >>> from funken.columnar.kernels.columns import columns_of
    >>> total(columns_of([("a", 1), ("b", 5)], Tuple((STR, INT))), ["last", "sum"], ("z", 4))
    ('b', 10)
    """
    length = block.length
    before = None if so_far is None else [values[0] for values in values_of_leaves([so_far], block.schema)]
    leaves = []
    for leaf, (column, how) in enumerate(zip(block.leaves, hows, strict=True)):
        old = None if before is None else before[leaf]
        if how in (FIRST, LAST):
            at = 0 if how == FIRST else length - 1
            value = old if how == FIRST and before is not None else column.cut(slice(at, at + 1)).to_list(1)[0]
        else:
            _check_exact(column, how, length)
            if old != old and how != SUM:  # noqa: PLR0124
                raise FallBackToRows("NaN has no place in an order")
            value = _total_of_leaf(column.array(length), how, old)
        leaves.append(Column(column.kind, value, True))
    return Columns(block.schema, leaves, 1).to_list()[0]


def _total_of_leaf(values: Array, how: str, old: Any) -> Any:
    if how == SUM:
        if values.dtype == np.int64:
            return int(values.sum()) + (old or 0)
        # One addition after the other, as Python does them.
        terms = values if old is None else np.concatenate(([old], values))
        return float(np.add.accumulate(terms)[-1])
    found = values[values.argmin() if how == MIN else values.argmax()].item()
    if old is None:
        return found
    return found if (found < old if how == MIN else found > old) else old


Combine = Callable[[Columns, Columns], Columns]
"""Makes one block of two, record by record."""


def reduced_in_pairs(block: Columns, keys: Sequence[int], combine: Combine) -> Columns:
    """Return one record per key (of all, without one), made by an associative function of neighbours, round by round.

    >>> from funken.columnar.kernels.columns import columns_of
    >>> block = columns_of([("b", "x"), ("a", "y"), ("b", "z")], Tuple((STR, STR)))
    >>> reduced_in_pairs(block, [0], lambda one, other: other).to_list()
    [('b', 'z'), ('a', 'y')]
    """
    order, counts = _groups(block, keys)
    firsts = block.take(order.take(np.cumsum(counts) - counts))
    current = block.take(order)
    while int(counts.max()) > 1:
        sizes = np.repeat(counts, counts)
        inside = np.arange(current.length) - np.repeat(np.cumsum(counts) - counts, counts)
        even = inside % 2 == 0
        pairs, alone = np.flatnonzero(even & (inside + 1 < sizes)), np.flatnonzero(even & (inside + 1 == sizes))
        made = combine(current.take(pairs), current.take(pairs + 1))
        if made.schema != block.schema:
            raise FallBackToRows("a result of another type")
        if len(alone):
            places = np.argsort(np.concatenate((pairs, alone)), kind="stable")
            made = joined([made, current.take(alone)]).take(places)
        current, counts = made, (counts + 1) // 2
    for key in keys:
        if not _arrow(current.leaves[key], current.length).equals(_arrow(firsts.leaves[key], current.length)):
            raise FallBackToRows("a result with another key")
    return current


def _groups(block: Columns, keys: Sequence[int]) -> tuple[Array, Array]:
    """Return the positions group by group, and the records of each; groups and records in the order of the block."""
    length = block.length
    if not keys:
        return np.arange(length), np.array([length])
    codes = np.zeros(length, np.int64)
    for key in keys:
        each = _arrow(block.leaves[key], length).dictionary_encode().indices.to_numpy(zero_copy_only=False)
        both = codes * (int(each.max()) + 1) + each
        codes = pa.array(both).dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return np.argsort(codes, kind="stable"), np.bincount(codes)


def check_order(block: Columns, keys: Sequence[int]) -> None:
    """Raise ``FallBackToRows`` if a block cannot be ordered by fields as Python would."""
    for leaf in keys:
        column = block.leaves[leaf]
        if column.kind not in ARRAYS:
            raise FallBackToRows("values of other types")
        if column.kind == FLOAT and bool(np.isnan(column.array(block.length)).any()):
            raise FallBackToRows("NaN has no place in an order")


def ordered(block: Columns, keys: Sequence[tuple[int, bool]]) -> Columns:
    """Sort a block by fields, each ascending or descending (True); equal records keep their order.

    >>> from funken.columnar.kernels.columns import columns_of
    >>> ordered(columns_of([(1, "b"), (2, "a"), (1, "a")], Tuple((INT, STR))), [(0, True), (1, False)]).to_list()
    [(2, 'a'), (1, 'a'), (1, 'b')]
    """
    check_order(block, [leaf for leaf, _ in keys])
    arrays: dict[str, Any] = {}
    by = []
    for leaf, descending in keys:
        if str(leaf) not in arrays:  # what is sorted by already is all equal
            arrays[str(leaf)] = _arrow(block.leaves[leaf], block.length)
            by.append((str(leaf), "descending" if descending else "ascending"))
    positions = pc.sort_indices(pa.table(arrays), sort_keys=by)
    return block.take(positions.to_numpy().astype(np.int64))


def values_at(block: Columns, leaves: Sequence[int], at: int) -> list[Any]:
    """Return the Python values of some fields of one record."""
    return [block.leaves[leaf].cut(slice(at, at + 1)).to_list(1)[0] for leaf in leaves]


def ranges_of(block: Columns, keys: Sequence[tuple[int, bool]], bounds: Sequence[Sequence[Any]]) -> Array:
    """Return per record the number of bounds, which are in order, below it; a bound has a value per field.

    >>> from funken.columnar.kernels.columns import columns_of
    >>> ranges_of(columns_of([(5, "b"), (1, "z"), (5, "a")], Tuple((INT, STR))), [(0, False), (1, False)], [(5, "a")]).tolist()
    [1, 0, 0]
    """
    length, found = block.length, np.zeros(block.length, np.int64)
    columns = [(_arrow(block.leaves[leaf], length), descending) for leaf, descending in keys]
    if len(keys) == 1 and block.leaves[keys[0][0]].kind in (INT, FLOAT) and not keys[0][1]:
        return np.searchsorted(np.array([bound[0] for bound in bounds]), columns[0][0].to_numpy(), "left")
    for bound in bounds:
        beyond, equal = np.zeros(length, np.bool_), np.ones(length, np.bool_)
        for (array, descending), value in zip(columns, bound, strict=True):
            scalar = pa.scalar(value, array.type)
            compare = pc.less if descending else pc.greater
            beyond |= equal & compare(array, scalar).to_numpy(zero_copy_only=False)
            equal &= pc.equal(array, scalar).to_numpy(zero_copy_only=False)
        found += beyond
    return found
