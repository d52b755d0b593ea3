"""Which columns of a block a key is, and how blocks are dealt out by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funken.columnar.expressions import INT, STR, leaves_of
from funken.dataset.columns.block import block_of, columns_in
from funken.dataset.memory.blocks import Block
from funken.dataset.plan.keys import Key, KeyColumn
from funken.dataset.plan.record_type import Path


def leaf_at(block: Any, path: Path) -> int | None:
    """Return the number of the column that a path leads to; None if it leads to none.

    >>> from funken.columnar.kernels.columns import columns_of
    >>> leaf_at(columns_of([(1, ("a", 2.0))], ("int", ("str", "float"))), (1, 0))
    1
    """
    return next((leaf for leaf, (own, _) in enumerate(leaves_of(block.schema)) if own == path), None)


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


def dealt_out(block: Block, column: Any, consumers: int) -> Sequence[Block] | None:
    """Cut a block of columns into one part per consumer, by the hash of a key; None if that needs its records."""
    columns = columns_in(block)
    if columns is None or not isinstance(column, KeyColumn):
        return None
    leaves = key_leaves(columns, column.key)
    if not leaves:
        return None
    from funken.columnar.kernels.relational import dealt  # noqa: PLC0415 - loads NumPy

    parts = dealt(columns, [columns.leaves[leaf] for leaf in leaves], consumers)
    return [[] if part is None else block_of(part) for part in parts]
