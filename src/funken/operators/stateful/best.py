"""Which record is kept where better ones replace it: by the places of all of them in the order of what decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from funken.columnar.expressions import BOOL, FLOAT, INT, STR, Expression, leaves_of
from funken.columnar.kernels.columns import Array, Column, Columns, joined_columns
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.changes import most
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
    segments: Any = some.segments(np.zeros(len(some.positions), np.bool_))
    places = _places(
        step, layout, values, arrays, groups.slots.take(some.changed), segments.spread(np.arange(len(some.changed)))
    )
    initial, own = places[: len(some.changed)], places[len(some.changed) :]
    everyone = np.zeros(count, np.int64)
    everyone[some.changed] = initial
    so_far = most(some, own, layout.sets, everyone, best.how == MOST)
    before = np.empty(len(own), np.int64)
    before[1:] = so_far[:-1]
    before[some.firsts] = initial
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
    return np.where(found & 1, some.changed.take(segments.spread(np.arange(len(some.changed)))), count + (found >> 1))


def _places(
    step: Best, layout: ChangeLayout, values: BlockEvaluation, arrays: StateArrays, slots: Array, group_of: Array
) -> Array:  # fmt: skip
    """Return the places of the records that groups with participants have, and of those of participants.

    They are those in the order of what decides, within the group.
    """
    schema = values.block.schema
    kept: dict[tuple[int, ...], Column] = {}
    for unit in step.units:
        values_there = arrays.at(unit.path, slots)
        if isinstance(unit.kind, str):
            kept[unit.path] = column_from(values_there, unit.kind)
        else:
            kept |= kept_leaves(arrays.logs[unit.state], unit, values_there)
    leaves = [kept.get(path, Column(kind, None, True)) for path, kind in leaves_of(schema)]
    of_groups = BlockEvaluation(Columns(schema, leaves, len(slots)))
    columns = [Column(INT, np.concatenate((np.arange(len(slots)), group_of)))]
    length, lengths = len(slots) + len(group_of), [len(slots), len(group_of)]
    for number, own in enumerate(step.best.own):
        initial: Any = of_groups.where(()).of(own)
        if initial.kind == STR and number:
            # Hot: texts are put in order only if what comes before them leaves two records alike.
            places = ranks(columns, length)
            if int(places.max()) == length - 1:
                return places
        new = layout.operand(values, _deciding(step, number, initial.kind), layout.some.positions)
        assert new is not None
        columns.append(_comparable(joined_columns([initial, new], lengths)))
    return ranks(columns, length)


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
