"""Which columns of a block a key or an order is, and how blocks are dealt out by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from funken.dataset.columns.block import block_of, columns_in
from funken.dataset.memory.blocks import Block
from funken.dataset.memory.order import Descending, Order
from funken.dataset.plan.keys import Key, KeyColumn
from funken.dataset.plan.record_type import Path
from funken.expr.types import BOOL, FLOAT, INT, STR, Atomic, atomic_fields

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Columns

OrderLeaves = list[tuple[int, bool]]
"""Numbers of columns, and whether each is descending."""

_TYPES: dict[Atomic, type] = {INT: int, FLOAT: float, BOOL: bool, STR: str}


def leaf_at(block: Any, path: Path) -> int | None:
    """Return the number of the column that a path leads to; None if it leads to none.

    >>> from funken.expr.types import Tuple
    >>> from funken.columnar.kernels.columns import columns_of
    >>> leaf_at(columns_of([(1, ("a", 2.0))], Tuple((INT, Tuple((STR, FLOAT))))), (1, 0))
    1
    """
    return next((leaf for leaf, (own, _) in enumerate(atomic_fields(block.schema)) if own == path), None)


def key_leaves(block: Any, key: Key) -> list[int] | None:
    """Return the numbers of the columns of a key; None unless all are ints or texts."""
    if not key.transparent:
        return None
    found = []
    for path in key.paths:
        leaf = leaf_at(block, path)
        if leaf is None or block.leaves[leaf].kind not in (INT, STR):
            return None
        found.append(leaf)
    return found


def order_leaves(block: Any, fields: Sequence[tuple[Path, bool]] | None) -> OrderLeaves | None:
    """Return the columns of a block that an order compares, one after the other; None if it needs the records.

    >>> from funken.expr.types import Tuple
    >>> from funken.columnar.kernels.columns import columns_of
    >>> pairs = columns_of([(1, ("a", 2.0)), (2, ("b", float("nan")))], Tuple((INT, Tuple((STR, FLOAT)))))
    >>> order_leaves(pairs, [((1,), True), ((0,), False)]), order_leaves(pairs[:1], [((1,), True), ((0,), False)])
    (None, [(1, True), (2, True), (0, False)])
    """
    found: OrderLeaves = []
    for path, descending in fields or ():
        inside = [leaf for leaf, (own, _) in enumerate(atomic_fields(block.schema)) if own[: len(path)] == path]
        if not inside:
            return None
        found += [(leaf, descending) for leaf in inside]
    if not found:
        return None
    from funken.columnar.kernels.arithmetic import FallBackToRows  # noqa: PLC0415 - loads NumPy
    from funken.columnar.keyed.relational import check_order  # noqa: PLC0415 - loads NumPy

    try:
        check_order(block, [leaf for leaf, _ in found])
    except FallBackToRows:
        return None
    return found


def ordered_columns(block: Block, order: Order) -> tuple[Columns, OrderLeaves] | None:
    """Return the columns of a block, and which of them an order compares; None if it needs the records."""
    columns = columns_in(block)
    leaves = None if columns is None else order_leaves(columns, order.fields())
    return None if columns is None or leaves is None else (columns, leaves)


def dealt_out(block: Block, column: Any, consumers: int, level: int | None = None) -> Sequence[Block] | None:
    """Cut a block of columns into one part per consumer, by the hash of a key; None if that needs its records.

    ``level``: other bits of the hash decide, as in ``partitions.py``.
    """
    columns = columns_in(block)
    if columns is None or not isinstance(column, KeyColumn):
        return None
    leaves = key_leaves(columns, column.key)
    if not leaves:
        return None
    from funken.columnar.keyed.relational import cut_up, partitions_of, targets_of  # noqa: PLC0415 - loads NumPy

    keys, length = [columns.leaves[leaf] for leaf in leaves], columns.length
    targets = targets_of(keys, length, consumers) if level is None else partitions_of(keys, length, level)
    return _parts(cut_up(columns, targets, consumers))


def dealt_by_range(block: Block, order: Order, bounds: Sequence[Any], consumers: int) -> Sequence[Block] | None:
    """Cut a block of columns by the ranges of an order; None if that needs its records."""
    found = ordered_columns(block, order)
    if found is None:
        return None
    columns, leaves = found
    kinds = [_TYPES[columns.leaves[leaf].kind] for leaf, _ in leaves]
    plain = [_values(bound) for bound in bounds]
    if any(list(map(type, values)) != kinds for values in plain):
        return None  # the bounds are from records of other types
    from funken.columnar.keyed.relational import cut_up, ranges_of  # noqa: PLC0415 - loads NumPy

    return _parts(cut_up(columns, ranges_of(columns, leaves, plain), consumers))


def _values(bound: Any) -> list[Any]:
    """Return the values of a key as ``Order.keys`` has it."""
    if isinstance(bound, Descending):
        return _values(bound.key)
    return [value for part in bound for value in _values(part)] if type(bound) is tuple else [bound]


def _parts(parts: Sequence[Columns | None]) -> Sequence[Block]:
    return [[] if part is None else block_of(part) for part in parts]
