"""Which record is kept where better ones replace it: by the places of all of them in the order of what decides."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from funken.columnar.expressions import Expression
from funken.columnar.kernels.columns import Array, Column, Columns, joined_columns
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.changes import Runs, most
from funken.columnar.keyed.groups import Groups, ranks
from funken.columnar.keyed.kept import column_from
from funken.columnar.recurrence import MOST
from funken.columnar.stateful.best import BestChanges
from funken.columnar.stateful.steps import Best, Unit
from funken.expr.types import BOOL, FLOAT, INT, STR, Atomic, atomic_fields
from funken.operators.stateful.arrays import StateArrays
from funken.operators.stateful.evaluating import BlockEvaluation
from funken.operators.stateful.records import kept_leaves
from funken.operators.stateful.units import ChangeLayout


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


__all__ = ["kept_records"]
