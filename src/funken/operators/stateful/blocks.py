"""One block on its way through a function with state: the states before each record, what is given, and the states after.

Nothing is kept before all of it is computed: ``BlockOfStates.keep`` does that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funken.columnar.expressions import Constant
from funken.columnar.flat_maps.emissions import Emission
from funken.columnar.kernels.columns import Array, Column, Columns, Lists, column_of, columns_of, joined, joined_columns
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.kernels.rowwise import Value, flattened
from funken.columnar.keyed.groups import Groups, Participants, added, added_rounded, check_sums, most, toggled, united
from funken.columnar.keyed.logs import column_from, objects
from funken.columnar.recurrence import ADD, ADD_ROUNDED, MOST, SET, UNITE
from funken.columnar.stateful.changes import Guards, StateChange, TimerChange
from funken.columnar.stateful.steps import Appends, Best, Presence, Rounds, Scan, Step, Unit
from funken.expr.types import ARRAYS, INT, STR, Atomic, ListOf, Type, atomic_fields
from funken.operators.columnar.stateless import Made, combined
from funken.operators.stateful.arrays import ListsBefore, StateArrays, StateLists
from funken.operators.stateful.records import RecordsAround, brought_by, kept_records, set_leaves
from funken.operators.stateful.units import (
    BlockEvaluation,
    ChangeLayout,
    Picked,
    RecordsWhere,
    UnitOfLists,
    UnitOfValues,
    check_kept,
    check_zeros,
    subset,
)

Path = tuple[int, ...]
_ROUNDS = {False: (4, 200), True: (1, 1000)}
"""How many rounds there may be in any case, and for how many records one more: a round costs what these cost one by one.

By whether it is one of lists.
"""


class BlockOfStates:
    """A block of the records of ``columnar/stateful/changes.py``; ``where`` has the arrays and groups of each state."""

    def __init__(self, block: Columns, where: Sequence[tuple[StateArrays | StateLists, Groups]]) -> None:
        self._block = block
        self._where = where
        self._values = BlockEvaluation(block)
        self._layouts: dict[Any, ChangeLayout] = {}
        self._everyone: dict[int, Participants] = {}
        self._after: list[tuple[int, Path, Array, Array]] = []
        self._lists: list[tuple[int, Array, Array, Array, Columns]] = []
        self._records: list[tuple[int, Array, Columns]] = []
        self._kept: list[Callable[[], None]] = []

    # ---- steps

    def run(self, steps: Sequence[Step]) -> None:
        """Compute the states before each record, and after the block."""
        for step in steps:
            if not isinstance(step, Rounds | Best) and not step.unit.changes:
                self._unchanged(step.unit)
            elif isinstance(step, Scan):
                self._scan(step.unit)
            elif isinstance(step, Presence):
                self._presence(step)
            elif isinstance(step, Appends):
                self._appends(step.unit)
            elif isinstance(step, Best):
                self._best(step)
            else:
                self._rounds(step)

    def _solved(
        self, unit: Unit, groups: Groups, some: Participants, initial: Array, left: Array | Column
    ) -> None:  # fmt: skip
        """Note what a unit is before each record and after each group: of what there was, and what participants leave."""
        if unit.kind == STR:
            both = column_from(initial, STR)
            if isinstance(left, Column) and len(some.positions):
                both = joined_columns([both, left], [len(initial), len(some.positions)])
            if unit.used:
                self._values.set(unit.path, Picked(both, some.before))
            after = objects(both.take(some.after.take(some.changed)), len(some.changed))
        else:
            check_zeros(unit, initial)
            values: Any = np.concatenate((initial, left)) if len(some.positions) else initial  # type: ignore[arg-type]
            if unit.used:
                self._values.set(unit.path, Column(unit.leaf, values.take(some.before)))
            after = values.take(some.after.take(some.changed))
            if len(some.positions):
                check_kept(unit, left)
        if len(some.changed):
            self._after.append((unit.state, unit.path, groups.slots.take(some.changed), after))

    def _unchanged(self, unit: Unit) -> None:
        """Note what a unit is that no record changes."""
        where, groups = self._where[unit.state]
        group_of = groups.of_records()
        if isinstance(where, StateLists):
            counts, items = where.log.lists(groups.slots)
            lists = Lists(where.kind, np.concatenate(([0], np.cumsum(counts))), items)
            self._values.set(unit.path, lists.take(group_of))
            return
        initial = where.at(unit.path, groups.slots)
        check_zeros(unit, initial)
        if not isinstance(unit.kind, Atomic):
            set_leaves(self._values, unit, RecordsAround(where.logs[unit.state], initial, None), group_of)
        else:
            self._values.set(unit.path, Picked(column_from(initial, unit.kind), group_of))

    def _scan(self, unit: Unit) -> None:
        arrays, groups = self._of(unit)
        layout = self._layout(unit.changes, groups)
        some = layout.some
        if not isinstance(unit.kind, Atomic):
            brought, which = brought_by(layout, self._values, unit)
            self._replaced(unit, layout, brought, len(groups.slots) + which)
            return
        initial = arrays.at(unit.path, groups.slots)
        column = layout.operand(self._values, unit, some.positions)
        if column is None:
            self._solved(unit, groups, some, initial, initial[:0])
            return
        if unit.kind == STR:
            self._solved(unit, groups, some, initial, column)
            return
        values, sets = column.array(len(some.positions)), layout.sets
        if layout.how == ADD:
            if unit.kind == INT:
                check_sums(values, sets, initial)
            values = added(some, values, sets, initial, unit.kind)
        elif layout.how == ADD_ROUNDED:
            values = added_rounded(some, values, sets, initial)
        elif layout.how == UNITE:
            values = united(some, values, sets, initial)
        elif layout.how != SET:
            values = most(some, values, sets, initial, layout.how == MOST)
        self._solved(unit, groups, some, initial, values)

    def _replaced(self, unit: Unit, layout: ChangeLayout, brought: Columns | None, leaves: Array) -> None:
        """Note which record there is before each record, and after each group; ``leaves``: which each participant leaves."""
        arrays, groups = self._of(unit)
        some, count = layout.some, len(groups.slots)
        around = RecordsAround(arrays.logs[unit.state], arrays.at(unit.path, groups.slots), brought)
        if unit.used:
            index = np.concatenate((np.arange(count), leaves)).take(some.before)
            set_leaves(self._values, unit, around, index)
        after = leaves.take(some.after.take(some.changed) - count)
        is_new = np.flatnonzero(after >= count)
        if len(is_new):
            slots, records = groups.slots.take(some.changed.take(is_new)), around.brought(after.take(is_new))
            self._records.append((unit.state, slots, records))

    def _best(self, step: Best) -> None:
        arrays, groups = self._of(step.units[0])
        layout = self._layout(step.units[0].changes, groups)
        some = layout.some
        found = kept_records(step, layout, self._values, arrays, groups) if len(some.positions) else some.positions
        count = len(groups.slots)
        for unit in step.units:
            if not isinstance(unit.kind, Atomic):
                brought, which = brought_by(layout, self._values, unit)
                self._replaced(unit, layout, brought, np.concatenate((np.arange(count), count + which)).take(found))
                continue
            initial = arrays.at(unit.path, groups.slots)
            column = layout.operand(self._values, unit, some.positions)
            if column is None:
                self._solved(unit, groups, some, initial, initial[:0])
                continue
            length = len(some.positions)
            both = joined_columns([column_from(initial, unit.kind), column], [count, length]).take(found)
            self._solved(unit, groups, some, initial, both if unit.kind == STR else both.array(length))

    def _layout(self, changes: Sequence[StateChange], groups: Groups) -> ChangeLayout:
        """Return which records change a unit, and how: those that change under the same conditions share that."""
        key = id(groups), *((each.how, *map(id, each.guards)) for each in changes)
        found = self._layouts.get(key)
        if found is None:
            found = self._layouts[key] = ChangeLayout(self._values, changes, groups)
        return found

    def _of(self, unit: Unit) -> tuple[StateArrays, Groups]:
        arrays, groups = self._where[unit.state]
        assert isinstance(arrays, StateArrays)
        return arrays, groups

    def _presence(self, step: Presence) -> None:
        arrays, groups = self._of(step.unit)
        there, not_there = (self._bools(step.where_held, True), self._bools(step.where_not, False))
        if not step.where_held and not_there.all():
            if id(groups) not in self._everyone:
                self._everyone[id(groups)] = Participants(groups, not_there)
            some = self._everyone[id(groups)]
        else:
            some = Participants(groups, ~(there & ~not_there))
        initial = arrays.at(step.unit.path, groups.slots)
        values, toggles = there.take(some.positions), (~there & not_there).take(some.positions)
        if toggles.any():
            values = toggled(some, values, toggles, initial)
        self._solved(step.unit, groups, some, initial, values)

    def _bools(self, changes: Sequence[StateChange], begin: bool) -> Array:
        found = np.full(self._block.length, begin)
        for change in changes:
            assert isinstance(change.of, Constant)
            found[self._values.where(change.guards).place] = change.of.value
        return found

    # ---- lists

    def _added(self, changes: Sequence[StateChange], schema: Type) -> tuple[Array, Columns]:
        """Return for each record which of the items it adds (-1: none), and all items."""
        at = np.full(self._block.length, -1, np.int64)
        found: list[Columns] = []
        for change in changes:
            where = self._values.where(change.guards)
            if where.length:
                at[where.place] = np.arange(where.length) + sum(map(len, found))
                found.append(Columns(schema, flattened(where.of(change.of)), where.length))
        return at, joined(found) if found else columns_of([], schema)

    def _appends(self, unit: Unit) -> None:
        lists, groups = self._where[unit.state]
        assert isinstance(lists, StateLists)
        adds = [each for each in unit.changes if each.how == ADD]
        at, items = self._added(adds, lists.kind.element)
        emptied = np.zeros(self._block.length, np.bool_)
        for each in unit.changes:
            if each.how == SET:
                emptied[self._values.where(each.guards).place] = True
        order = groups.order
        is_added, is_emptied = (at >= 0).take(order), emptied.take(order)
        added = items.take(at.take(order[is_added]))
        # In the order of groups: how many were added so far, and how many when the list was emptied last.
        so_far = np.cumsum(is_added) - is_added
        numbers = np.arange(self._block.length)
        last = np.maximum.accumulate(np.where(is_emptied, numbers, -1))
        begins = groups.spread(groups.begins)
        before = np.concatenate(([-1], last[:-1]))
        was_emptied = before >= begins
        firsts = so_far.take(np.where(was_emptied, before, begins))
        if unit.used:
            back = groups.back
            column = ListsBefore(
                lists.kind, lists.log, groups.back(groups.spread(groups.slots)), back(~was_emptied), added, back(firsts),
                back(so_far),
            )  # fmt: skip
            self._values.set(unit.path, column)
        ends = groups.ends
        at_end = last.take(ends) >= groups.begins
        begin = so_far.take(np.where(at_end, last.take(ends), groups.begins))
        end = so_far.take(ends) + is_added.take(ends)
        self._lists.append((unit.state, at_end, begin, end, added))

    # ---- rounds

    def _rounds(self, step: Rounds) -> None:
        """Compute units that depend on themselves: the first record of each key, then the second ..."""
        groups = self._where[-1][1]
        of_lists = any(isinstance(unit.kind, ListOf) for unit in step.units)
        few, records = _ROUNDS[of_lists]
        if int(groups.counts.max()) > max(few, self._block.length // records):
            raise FallBackToRows("too many records of a key")
        rank = np.arange(groups.length) - groups.spread(groups.begins)
        by_round = groups.order.take(np.argsort(rank, kind="stable"))
        bounds = np.cumsum(np.bincount(rank))
        units = [
            (UnitOfLists if isinstance(unit.kind, ListOf) else UnitOfValues)(unit, *self._where[unit.state])
            for unit in step.units
        ]
        used = [part for unit in step.units for each in unit.changes for part in (*each.guards, each.of)]
        start = 0
        for stop in bounds.tolist():
            positions = by_round[start:stop]
            start = stop
            inner = BlockEvaluation(subset(self._block, positions, used))
            for each in units:
                inner.set(each.unit.path, each.before(positions))
            made = []
            for each in units:
                layout = ChangeLayout(inner, each.unit.changes, None)
                there = np.flatnonzero(layout.at >= 0)
                left = layout.operand(inner, each.unit, there)
                made.append((each, positions.take(there), left))
            for each, places, left in made:
                if left is not None:
                    each.change(places, left)
        for each in units:
            self._values.set(each.unit.path, each.column())
            self._kept.append(each.keep)

    # ---- results

    def given(self, emissions: Sequence[Emission], schema: Type) -> Columns:
        """Return what the function gives, in the order of the records."""
        made: list[Made | None] = []
        for each in emissions:
            where = self._values.where(each.guards)
            if not where.length:
                continue
            if each.items is not None:
                made.append(self._of_items(each, schema, where))
                continue
            value = where.of(each.result)
            if each.emits:
                results = _results(value, schema, where.length)
                origins = np.arange(where.length) if where.positions is None else where.positions
                made.append(Made(results, origins, np.zeros(where.length, np.int64), each.segment))
        return combined(made, schema, self._block)

    def _of_items(self, emission: Emission, schema: Type, where: RecordsWhere) -> Made | None:
        """Return what a loop gives for some records; the lists are computed once for all that loop over them."""
        assert emission.items is not None
        owners, numbers, inner = where.items(emission.items, 1, emission.conditions)
        if not len(owners):
            return None
        with np.errstate(all="ignore"):
            value = inner.of(emission.result)
        if not emission.emits:
            return None
        origins = owners if where.positions is None else where.positions.take(owners)
        return Made(_results(value, schema, len(owners)), origins, numbers, emission.segment)

    def timers(self, changes: Sequence[TimerChange]) -> tuple[Array, list[int], list[bool]]:
        """Return what is done with timers, in order: for which records, at which times, and whether one is deleted."""
        found: list[tuple[Array, Array, Array]] = []
        for each in changes:
            where = self._values.where(each.guards)
            if where.length:
                at: Any = where.of(each.at)
                of = np.arange(where.length) if where.positions is None else where.positions
                found.append((of, at.array(where.length), np.full(where.length, each.deletes)))
        if not found:
            return np.empty(0, np.int64), [], []
        records, times, deletes = (np.concatenate(each) for each in zip(*found, strict=True))
        order = np.argsort(records, kind="stable")
        return records.take(order), times.take(order).tolist(), deletes.take(order).tolist()

    def renewed(self, renewals: Sequence[tuple[int, Sequence[Guards]]]) -> list[tuple[StateArrays, int, Array]]:
        """Return of states that expire the slots whose lives begin anew."""
        found = []
        for state, places in renewals:
            arrays, groups = self._where[state]
            assert isinstance(arrays, StateArrays)
            some = np.zeros(len(groups.slots), np.bool_)
            for guards in places:
                some[groups.of_records()[self._values.where(guards).place] if guards else slice(None)] = True
            found.append((arrays, state, groups.slots[some]))
        return found

    def keep(self) -> None:
        """Put the states after the block into the arrays."""
        for state, path, slots, values in self._after:
            arrays, _ = self._where[state]
            assert isinstance(arrays, StateArrays)
            arrays.put(path, slots, values)
            arrays.touch(state, slots)
        for state, slots, records in self._records:
            arrays, _ = self._where[state]
            assert isinstance(arrays, StateArrays)
            arrays.put_records(state, slots, records)
            arrays.touch(state, slots)
        for state, emptied, begin, end, items in self._lists:
            lists, groups = self._where[state]
            assert isinstance(lists, StateLists)
            counts = end - begin
            places = (
                np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(begin, counts)
            )
            some = np.flatnonzero(counts)
            lists.change(groups.slots[emptied], groups.slots.take(some), counts.take(some), items.take(places))
        for keep in self._kept:
            keep()


def _results(value: Value, schema: Type, length: int) -> Columns:
    """Return results as columns of a schema in which others may be ``None``."""
    leaves = [
        leaf if leaf.kind == kind or kind in ARRAYS else column_of(leaf.to_list(length), kind)
        for leaf, (_, kind) in zip(flattened(value), atomic_fields(schema), strict=True)
    ]
    return Columns(schema, leaves, length)


__all__ = ["BlockOfStates"]
