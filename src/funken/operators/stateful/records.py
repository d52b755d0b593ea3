"""Records that are kept as they came: before each record of a block, one that there was, or one that the block has brought."""

from __future__ import annotations

from typing import Any

import numpy as np

from funken.columnar.expressions import RecordSchema, leaves_of
from funken.columnar.kernels.columns import Array, Column, Columns, MadeLater, joined, joined_columns
from funken.columnar.kernels.rowwise import flattened
from funken.columnar.keyed.columns_log import ColumnsLog
from funken.columnar.stateful.changes import KEEP
from funken.columnar.stateful.steps import Unit
from funken.operators.stateful.evaluating import BlockEvaluation
from funken.operators.stateful.units import ChangeLayout


class RecordsAround:
    """The records that groups had, by number, and behind them those that a block has brought, which ``index`` numbers.

    Nothing is taken out of either before it is looked at.
    """

    def __init__(self, log: ColumnsLog, places: Array, brought: Columns | None) -> None:
        self._log, self._places, self._brought = log, places, brought

    def leaf(self, number: int, index: Array) -> Column:
        """Return a leaf of some of them."""
        count, brought = len(self._places), self._brought
        if brought is None:
            return self._log.leaf(number, self._places.take(index))
        is_new = index >= count
        if is_new.all():
            return brought.leaves[number].take(index - count)
        if not is_new.any():
            return self._log.leaf(number, self._places.take(index))
        old, new = np.flatnonzero(~is_new), np.flatnonzero(is_new)
        columns = [
            self._log.leaf(number, self._places.take(index.take(old))),
            brought.leaves[number].take(index.take(new) - count),
        ]
        order = np.empty(len(index), np.int64)
        order[old], order[new] = np.arange(len(old)), np.arange(len(old), len(index))
        return joined_columns(columns, [len(old), len(new)]).take(order)

    def brought(self, index: Array) -> Columns:
        """Return some of those that the block has brought."""
        assert self._brought is not None
        return self._brought.take(index - len(self._places))


class LeafAround(MadeLater):
    """One leaf of such records."""

    __slots__ = ("_index", "_number", "_of")

    def __init__(self, kind: str, of: RecordsAround, number: int, index: Array) -> None:
        super().__init__(kind)
        self._of, self._number, self._index = of, number, index

    def _data(self) -> Array:
        return self._of.leaf(self._number, self._index).array(len(self._index))

    def take(self, positions: Array) -> Column:
        """Return the values at some positions of these."""
        return self._of.leaf(self._number, self._index.take(positions))


def brought_by(layout: ChangeLayout, values: BlockEvaluation, unit: Unit) -> Columns | None:
    """Return the records that changes of a state bring, as ``layout.at`` numbers them; ``None``: there are none."""
    found = []
    for change in unit.changes:
        where = values.where(change.guards)
        if change.how != KEEP and where.length:
            found.append(Columns(unit.kind, flattened(where.of(change.of)), where.length))
    return joined(found) if found else None


def set_leaves(values: BlockEvaluation, unit: Unit, of: RecordsAround, index: Array) -> None:
    """Let expressions find the leaves of a state."""
    kind: RecordSchema = unit.kind
    for number, (path, leaf) in enumerate(leaves_of(kind)):
        values.set((*unit.path, *path), LeafAround(leaf, of, number, index))


def kept_leaves(log: ColumnsLog, unit: Unit, places: Array) -> dict[tuple[int, ...], Column]:
    """Return the leaves of the records that groups have."""
    source: Any = RecordsAround(log, places, None)
    every = np.arange(len(places))
    return {
        (*unit.path, *path): LeafAround(leaf, source, number, every)
        for number, (path, leaf) in enumerate(leaves_of(unit.kind))
    }


__all__ = ["LeafAround", "RecordsAround", "brought_by", "kept_leaves", "set_leaves"]
