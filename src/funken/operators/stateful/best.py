"""Which record is kept where better ones replace it: by the places of all of them in the order of what decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from funken.columnar.expressions import BOOL, FLOAT, INT, STR, Expression, leaves_of
from funken.columnar.kernels.columns import Array, Column, Columns, joined_columns
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.changes import Participants, most
from funken.columnar.keyed.groups import Groups, ranks
from funken.columnar.stateful.changes import LEAST, MOST
from funken.columnar.stateful.steps import Best, Unit
from funken.operators.stateful.arrays import StateArrays, column_from
from funken.operators.stateful.evaluating import BlockEvaluation
from funken.operators.stateful.records import kept_leaves
from funken.operators.stateful.units import ChangeLayout


def kept_records(
    step: Best, layout: ChangeLayout, values: BlockEvaluation, arrays: StateArrays, groups: Groups
) -> Array:  # fmt: skip
    """Return which record each participant leaves: below the number of groups that which a group had, then participants'."""
    some, best, count = layout.some, step.best, len(groups.slots)
    places = _places(step, layout, values, arrays, groups)
    initial, own = places[:count], places[count:]
    so_far = most(some, own, layout.sets, initial, best.how == MOST)
    before = np.empty(len(own), np.int64)
    before[1:] = so_far[:-1]
    before[some.firsts] = initial.take(some.changed)
    if best.how == LEAST:
        better = own < before if best.strict else own <= before
    else:
        better = own > before if best.strict else own >= before
    numbers = np.arange(len(own)) * 2
    marks = np.where(layout.sets | better, numbers, -1)
    firsts = marks.take(some.firsts)
    marks[some.firsts] = np.where(firsts < 0, numbers.take(some.firsts) + 1, firsts)
    # An odd number says that it is the record that the group of this first participant had.
    found: Array = np.maximum.accumulate(marks)
    group_of = np.zeros(len(own), np.int64)
    group_of[some.firsts] = some.changed
    return np.where(found & 1, group_of.take(found >> 1), count + (found >> 1))


def _places(step: Best, layout: ChangeLayout, values: BlockEvaluation, arrays: StateArrays, groups: Groups) -> Array:
    """Return the places of the records that groups have, and of those of participants, in the order of what decides."""
    slots, schema = groups.slots, values.block.schema
    kept: dict[tuple[int, ...], Column] = {}
    for unit in step.units:
        values_there = arrays.at(unit.path, slots)
        if isinstance(unit.kind, str):
            kept[unit.path] = column_from(values_there, unit.kind)
        else:
            kept |= kept_leaves(arrays.logs[unit.state], unit, values_there)
    leaves = [kept.get(path, Column(kind, None, True)) for path, kind in leaves_of(schema)]
    of_groups = BlockEvaluation(Columns(schema, leaves, len(slots)))
    columns = []
    for number, own in enumerate(step.best.own):
        initial: Any = of_groups.where(()).of(own)
        new = layout.operand(values, _deciding(step, number, initial.kind), layout.some.positions)
        assert new is not None
        columns.append(joined_columns([initial, new], [len(slots), len(layout.some.positions)]))
    return ranks([_comparable(each) for each in columns], len(slots) + len(layout.some.positions))


def _deciding(step: Best, number: int, kind: str) -> Unit:
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
