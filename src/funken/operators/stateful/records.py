"""Records that are kept as they came: before each record of a block, one that there was, or one that the block has brought."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from funken.columnar.expressions import Argument, Expression
from funken.columnar.kernels.columns import Array, Column, Columns, MadeLater, joined, joined_columns
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.kernels.rowwise import flattened
from funken.columnar.keyed.groups import Groups, Runs, most, ranks
from funken.columnar.keyed.logs import RecordLog, column_from
from funken.columnar.recurrence import KEEP, MOST
from funken.columnar.stateful.steps import Best, Unit
from funken.columnar.stateful.typed import BestChanges
from funken.expr.types import BOOL, FLOAT, INT, STR, Atomic, Type, atomic_fields
from funken.operators.stateful.arrays import StateArrays
from funken.operators.stateful.units import BlockEvaluation, ChangeLayout


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


# ---- Which record is kept where better ones replace it: by the places of all of them in the order of what decides.


class _Records(Runs):
    """Participants of groups that are numbered one after the other."""

    def __init__(self, counts: Array) -> None:
        super().__init__(np.arange(len(counts)), np.cumsum(counts) - counts)
        self.counts = counts
        self.group_of: Array = np.repeat(self.changed, counts)

    def before(self, own: Array, initial: Array, sets: Array, greatest: bool) -> Array:
        """Return the best of what came before each participant; ``initial`` is what its group had."""
        found = np.empty(len(own), np.int64)
        found[1:] = most(self, own, sets, initial, greatest)[:-1]
        found[self.firsts] = initial
        return found


class _Deciding:
    """What decides between the records that groups have, and those of participants: one column of each for each value."""

    def __init__(
        self, step: Best, layout: ChangeLayout, values: BlockEvaluation, arrays: StateArrays, slots: Array
    ) -> None:  # fmt: skip
        self._step, self._layout, self._values = step, layout, values
        schema = values.block.schema
        kept: dict[tuple[int, ...], Column] = {}
        for unit in step.units:
            there = arrays.at(unit.path, slots)
            if isinstance(unit.kind, Atomic):
                kept[unit.path] = column_from(there, unit.kind)
            else:
                kept |= kept_leaves(arrays.logs[unit.state], unit, there)
        leaves = [kept.get(path, Column(kind, None, True)) for path, kind in atomic_fields(schema)]
        self._of_groups = BlockEvaluation(Columns(schema, leaves, len(slots)))

    def of(self, number: int, which: tuple[Array, Array] | None = None) -> tuple[Column, Column]:
        """Return one of them, of groups and of participants, or of some groups and some participants."""
        initial: Any = self._of_groups.where(()).of(self._step.best.own[number])
        positions = self._layout.some.positions
        if which is not None:
            initial, positions = initial.take(which[0]), positions.take(which[1])
        new = self._layout.operand(self._values, _deciding(self._step, number, initial.kind), positions)
        assert new is not None
        return initial, new


def kept_records(
    step: Best, layout: ChangeLayout, values: BlockEvaluation, arrays: StateArrays, groups: Groups
) -> Array:  # fmt: skip
    """Return which record each participant leaves: below the number of groups that which a group had, then participants'."""
    some, count = layout.some, len(groups.slots)
    runs = _Records(np.diff(np.append(some.firsts, len(some.positions))))
    deciding = _Deciding(step, layout, values, arrays, groups.slots.take(some.changed))
    takes = layout.sets | _better(step.best, deciding, runs, layout.sets)
    numbers = np.arange(len(takes)) * 2
    marks = np.where(takes, numbers, -1)
    firsts = marks.take(some.firsts)
    marks[some.firsts] = np.where(firsts < 0, numbers.take(some.firsts) + 1, firsts)
    # An odd number says that it is the record that the group of this first participant had.
    found: Array = np.maximum.accumulate(marks)
    return np.where(found & 1, some.changed.take(runs.group_of), count + (found >> 1))


def _better(best: BestChanges, deciding: _Deciding, runs: _Records, sets: Array) -> Array:
    """Return which participants are better than what came before them, if they are not set in any case."""
    # Hot: to put 26,000 records in order takes 4 ms. What decides first, if it is an int, needs no order, and often no more.
    first = deciding.of(0)
    greatest, several = best.how == MOST, len(best.own) > 1
    if first[0].kind == INT:
        initial, own = first[0].array(len(runs.counts)), first[1].array(len(sets))
        with suppress(FallBackToRows):  # a range too wide
            before = runs.before(own, initial, sets, greatest)
            if not several:
                return _is_better(own, before, best)
            better = own > before if greatest else own < before
            alike = (own == before) & ~sets
            if not alike.any():
                return better
            with_ties = np.zeros(len(runs.counts), np.bool_)
            with_ties[runs.group_of[alike]] = True
            which, of_groups = np.flatnonzero(with_ties.take(runs.group_of)), np.flatnonzero(with_ties)
            part = _Records(runs.counts.take(of_groups))
            better[which] = _by_order(best, deciding, part, sets.take(which), (of_groups, which))
            return better
    return _by_order(best, deciding, runs, sets, None)


def _by_order(
    best: BestChanges, deciding: _Deciding, runs: _Records, sets: Array, which: tuple[Array, Array] | None
) -> Array:  # fmt: skip
    """Return the same, by the places of all in the order of what decides; ``which``: those of some groups and participants."""
    lengths = [len(runs.counts), len(sets)]
    group = Column(INT, np.concatenate((runs.changed, runs.group_of)))
    values = [joined_columns(list(deciding.of(number, which)), lengths) for number in range(len(best.own))]
    places = ranks([group, *map(_comparable, values)], sum(lengths))
    initial, own = places[: lengths[0]], places[lengths[0] :]
    return _is_better(own, runs.before(own, initial, sets, best.how == MOST), best)


def _is_better(own: Array, before: Array, best: BestChanges) -> Array:
    if best.how == MOST:
        return own > before if best.strict else own >= before
    return own < before if best.strict else own <= before


def _deciding(step: Best, number: int, kind: Atomic) -> Unit:
    """Return what decides as if it were a unit of its own."""
    new: Sequence[Expression] = [each[number] for each in step.best.new]
    changes = tuple(replace(each, of=of) for each, of in zip(step.best.changes, new, strict=True))
    return replace(step.units[0], kind=kind, changes=changes)


def _comparable(column: Column) -> Column:
    if column.kind not in (INT, STR, FLOAT, BOOL):
        raise FallBackToRows("values without an order")
    if column.kind == FLOAT and np.isnan(column.data).any():
        raise FallBackToRows("a number that is none")  # which is neither less nor greater
    return column


__all__ = ["LeafAround", "RecordsAround", "brought_by", "kept_leaves", "kept_records", "set_leaves"]
