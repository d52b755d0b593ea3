"""Records that are kept as they came: before each record of a block, one that there was, or one that the block has brought."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from funken.columnar.expressions import Argument
from funken.columnar.kernels.columns import Array, Column, Columns, MadeLater, joined, joined_columns
from funken.columnar.kernels.rowwise import flattened
from funken.columnar.keyed.record_log import RecordLog
from funken.columnar.recurrence import KEEP
from funken.columnar.stateful.steps import Unit
from funken.expr.types import Atomic, Type, atomic_fields
from funken.operators.stateful.evaluating import BlockEvaluation
from funken.operators.stateful.units import ChangeLayout


class _Whence(NamedTuple):
    """Where records are: those of the log, those of the block, and in which order these come (``None``: only of one of both)."""

    old: Any
    new: Any
    order: Any


class RecordsAround:
    """The records that groups had, by number, and behind them those that a block has brought, which ``index`` numbers.

    Nothing is taken out of either before it is looked at.
    """

    def __init__(self, log: RecordLog, places: Array, brought: Columns | None) -> None:
        self._log, self._places, self._brought = log, places, brought
        self._last: tuple[Array, Array | None, _Whence] | None = None

    def leaf(self, number: int, index: Array, positions: Array | None = None) -> Column:
        """Return a leaf of those at ``index``, or of some of these."""
        of = self._whence(index, positions)
        if of.old is None:
            assert self._brought is not None
            return self._brought.leaves[number].take(of.new)
        stored = self._log.leaf(number, of.old)
        if of.new is None:
            return stored
        assert self._brought is not None
        columns = [stored, self._brought.leaves[number].take(of.new)]
        return joined_columns(columns, [len(of.old), len(of.new)]).take(of.order)

    def _whence(self, index: Array, positions: Array | None) -> _Whence:
        # Hot: all leaves of a record are asked for at the same places.
        last = self._last
        if last is not None and last[0] is index and last[1] is positions:
            return last[2]
        wanted, count = index if positions is None else index.take(positions), len(self._places)
        is_new = wanted >= count
        if not is_new.any():
            found = _Whence(self._places.take(wanted), None, None)
        elif is_new.all():
            found = _Whence(None, wanted - count, None)
        else:
            old, new = np.flatnonzero(~is_new), np.flatnonzero(is_new)
            order = np.empty(len(wanted), np.int64)
            order[old], order[new] = np.arange(len(old)), np.arange(len(old), len(wanted))
            found = _Whence(self._places.take(wanted.take(old)), wanted.take(new) - count, order)
        self._last = index, positions, found
        return found

    def brought(self, index: Array) -> Columns:
        """Return some of those that the block has brought."""
        assert self._brought is not None
        return self._brought.take(index - len(self._places))


class LeafAround(MadeLater):
    """One leaf of such records."""

    __slots__ = ("_index", "_number", "_of")

    def __init__(self, kind: Atomic, of: RecordsAround, number: int, index: Array) -> None:
        super().__init__(kind)
        self._of, self._number, self._index = of, number, index

    def _data(self) -> Array:
        return self._of.leaf(self._number, self._index).array(len(self._index))

    def take(self, positions: Array) -> Column:
        """Return the values at some positions of these."""
        return self._of.leaf(self._number, self._index, positions)


def brought_by(layout: ChangeLayout, values: BlockEvaluation, unit: Unit) -> tuple[Columns | None, Array]:
    """Return the records that changes of a state bring (``None``: none), and which of them each participant brings."""
    changes = [each for each in unit.changes if each.how != KEEP and values.where(each.guards).length]
    positions = layout.some.positions
    if not changes:
        return None, positions
    first = changes[0].of
    if isinstance(first, Argument) and all(each.of == first for each in changes):
        # Hot: the block has the records, and only those that are kept at its end are taken out of it.
        whole = values.where(())
        return Columns(unit.kind, flattened(whole.of(first)), whole.length), positions
    found = []
    for change in changes:
        where = values.where(change.guards)
        found.append(Columns(unit.kind, flattened(where.of(change.of)), where.length))
    return joined(found), layout.at.take(positions)


def set_leaves(values: BlockEvaluation, unit: Unit, of: RecordsAround, index: Array) -> None:
    """Let expressions find the leaves of a state."""
    kind: Type = unit.kind
    for number, (path, leaf) in enumerate(atomic_fields(kind)):
        values.set((*unit.path, *path), LeafAround(leaf, of, number, index))


def kept_leaves(log: RecordLog, unit: Unit, places: Array) -> dict[tuple[int, ...], Column]:
    """Return the leaves of the records that groups have."""
    source = RecordsAround(log, places, None)
    every = np.arange(len(places))
    return {
        (*unit.path, *path): LeafAround(leaf, source, number, every)
        for number, (path, leaf) in enumerate(atomic_fields(unit.kind))
    }


__all__ = ["LeafAround", "RecordsAround", "brought_by", "kept_leaves", "set_leaves"]
