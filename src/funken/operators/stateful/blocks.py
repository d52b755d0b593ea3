"""One block on its way through a function with state: the states before each record, what is given, and the states after.

Nothing is kept before all of it is computed: ``BlockOfStates.keep`` does that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funken.columnar.expressions import FLOAT, INT, STR, Constant, Expression, RecordSchema, leaves_of
from funken.columnar.flat_maps.emissions import Emission, paths_of
from funken.columnar.kernels.arithmetic import as_float
from funken.columnar.kernels.columns import Array, Column, Columns, column_of, columns_of, joined, joined_columns
from funken.columnar.kernels.evaluation import FallBackToRows, computed_of, evaluate
from funken.columnar.keyed.changes import Participants, added, check_sums, most, toggled, united
from funken.columnar.keyed.groups import Groups
from funken.columnar.stateful.steps import (
    ADD,
    KEEP,
    LEAST,
    MOST,
    SET,
    UNITE,
    Appends,
    Presence,
    Rounds,
    Scan,
    StateChange,
    Step,
    Unit,
)
from funken.operators.columnar.flat_map import Made, combined, made_of
from funken.operators.stateful.arrays import StateArrays, column_from
from funken.operators.stateful.lists import ListsBefore, StateLists

Path = tuple[int, ...]
_HOWS = {KEEP: 0, SET: 1, ADD: 2, MOST: 3, LEAST: 4, UNITE: 5}
_RECORDS_PER_ROUND = 200
"""A round costs what so many records cost that are handled one by one."""
_FEW_ROUNDS = 4


class BlockOfStates:
    """A block of the records of ``columnar/stateful/traced.py``; ``where`` has the arrays and groups of each state."""

    def __init__(self, block: Columns, where: Sequence[tuple[StateArrays | StateLists, Groups]]) -> None:
        self._block = block
        self._where = where
        self._leaves = {path: number for number, (path, _) in enumerate(leaves_of(block.schema))}
        self._guarded: dict[tuple[int, ...], Array | None] = {}
        self._after: list[tuple[int, Path, Array, Array]] = []
        self._lists: list[tuple[int, Array, Array, Array, Columns]] = []

    # ---- expressions

    def _subset(self, positions: Array | None, used: list[Expression]) -> Columns:
        """Return the records at some positions, as far as expressions use them; ``None``: all records."""
        return self._block if positions is None else subset(self._block, positions, used)

    def _positions(self, guards: Sequence[Expression]) -> Array | None:
        """Return where guards hold, one after the other; ``None``: everywhere."""
        positions: Array | None = None
        key: tuple[int, ...] = ()
        for guard in guards:
            key = (*key, id(guard))
            if key not in self._guarded:
                self._guarded[key] = self._narrowed(positions, guard)
            positions = self._guarded[key]
        return positions

    def _narrowed(self, positions: Array | None, guard: Expression) -> Array | None:
        if positions is not None and not len(positions):
            return positions
        block = self._subset(positions, [guard])
        truth: Any = evaluate(guard, block.length, block)
        if truth.constant:
            return positions if truth.data else np.empty(0, np.int64)
        if truth.data.all():
            return positions
        found = np.flatnonzero(truth.data)
        return found if positions is None else positions.take(found)

    # ---- steps

    def run(self, steps: Sequence[Step]) -> None:
        """Compute the states before each record, and after the block."""
        for step in steps:
            if isinstance(step, Scan):
                self._scan(step.unit)
            elif isinstance(step, Presence):
                self._presence(step)
            elif isinstance(step, Appends):
                self._appends(step.unit)
            else:
                self._rounds(step)

    def _solved(self, unit: Unit, some: Participants, initial: Array, left: Array | Column) -> None:
        """Note what a unit is before each record and after each group: of what there was, and what participants leave."""
        _, groups = self._where[unit.state]
        column: Column
        if unit.kind == STR:
            begin = column_from(initial, STR)
            assert isinstance(left, Column)
            both = joined_columns([begin, left], [len(initial), len(some.positions)]) if len(some.positions) else begin
            column = both.take(some.before)
            after = np.array(both.take(some.after).to_list(len(some.after)), np.object_)
        else:
            values: Any = np.concatenate((initial, left))  # type: ignore[arg-type]
            column, after = Column(unit.kind, values.take(some.before)), values.take(some.after)
        self._block.leaves[self._leaves[unit.path]] = column
        if len(some.changed):
            slots = groups.slots.take(some.changed)
            self._after.append((unit.state, unit.path, slots, after.take(some.changed)))

    def _scan(self, unit: Unit) -> None:
        arrays, groups = self._of(unit)
        at, hows, operands = self._changed(unit.changes, unit.kind)
        some = Participants(groups, at >= 0)
        initial = arrays.at(unit.path, groups.slots)
        if operands is None:
            self._solved(unit, some, initial, column_of([], STR) if unit.kind == STR else initial[:0])
            return
        column = operands.take(at.take(some.positions))
        if unit.kind == STR:
            self._solved(unit, some, initial, _whole(column, len(some.positions)))
            return
        values, how = column.array(len(some.positions)), hows.take(some.positions)
        sets = how == _HOWS[SET]
        if not sets.all():
            of = int(how[~sets][0])
            if of == _HOWS[ADD]:
                if unit.kind == INT:
                    check_sums(values, sets, initial)
                values = added(some, values, sets, initial, unit.kind)
            elif of == _HOWS[UNITE]:
                values = united(some, values, sets, initial)
            else:
                values = most(some, values, sets, initial, of == _HOWS[MOST])
        self._solved(unit, some, initial, values)

    def _of(self, unit: Unit) -> tuple[StateArrays, Groups]:
        arrays, groups = self._where[unit.state]
        assert isinstance(arrays, StateArrays)
        return arrays, groups

    def _changed(self, changes: Sequence[StateChange], kind: str) -> tuple[Array, Array, Column | None]:
        """Return for each record which operand its change has (-1: it has none), how it changes, and all operands."""
        at = np.full(self._block.length, -1, np.int64)
        hows = np.zeros(self._block.length, np.int8)
        columns: list[Column] = []
        lengths: list[int] = []
        for change in changes:
            positions = self._positions(change.guards)
            count = self._block.length if positions is None else len(positions)
            if not count:
                continue
            place: Any = slice(None) if positions is None else positions
            if change.how == KEEP:
                at[place] = -1
                continue
            block = self._subset(positions, [change.of])
            column: Any = evaluate(change.of, count, block)
            at[place] = np.arange(count) + sum(lengths)
            hows[place] = _HOWS[change.how]
            columns.append(as_float(column) if kind == FLOAT else column)
            lengths.append(count)
        if not columns:
            return at, hows, None
        return at, hows, columns[0] if len(columns) == 1 else joined_columns(columns, lengths)

    def _presence(self, step: Presence) -> None:
        arrays, groups = self._of(step.unit)
        there, not_there = (self._bools(step.where_held, True), self._bools(step.where_not, False))
        some = Participants(groups, ~(there & ~not_there))
        initial = arrays.at(step.unit.path, groups.slots)
        values, toggles = there.take(some.positions), (~there & not_there).take(some.positions)
        if toggles.any():
            values = toggled(some, values, toggles, initial)
        self._solved(step.unit, some, initial, values)

    def _bools(self, changes: Sequence[StateChange], begin: bool) -> Array:
        found = np.full(self._block.length, begin)
        for change in changes:
            positions = self._positions(change.guards)
            assert isinstance(change.of, Constant)
            found[slice(None) if positions is None else positions] = change.of.value
        return found

    # ---- lists

    def _added(self, changes: Sequence[StateChange], schema: RecordSchema) -> tuple[Array, Columns]:
        """Return for each record which of the items it adds (-1: none), and all items."""
        at = np.full(self._block.length, -1, np.int64)
        found: list[Columns] = []
        for change in changes:
            positions = self._positions(change.guards)
            count = self._block.length if positions is None else len(positions)
            if count:
                at[slice(None) if positions is None else positions] = np.arange(count) + sum(map(len, found))
                found.append(computed_of(change.of, schema, self._subset(positions, [change.of])).stamped(None))
        return at, joined(found) if found else columns_of([], schema)

    def _appends(self, unit: Unit) -> None:
        lists, groups = self._where[unit.state]
        assert isinstance(lists, StateLists)
        adds = [each for each in unit.changes if each.how == ADD]
        at, items = self._added(adds, lists.kind.element)
        emptied = np.zeros(self._block.length, np.bool_)
        for each in unit.changes:
            if each.how == SET:
                positions = self._positions(each.guards)
                emptied[slice(None) if positions is None else positions] = True
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
            self._block.leaves[self._leaves[unit.path]] = column
        ends = groups.ends
        at_end = last.take(ends) >= groups.begins
        begin = so_far.take(np.where(at_end, last.take(ends), groups.begins))
        end = so_far.take(ends) + is_added.take(ends)
        self._lists.append((unit.state, at_end, begin, end, added))

    # ---- rounds

    def _rounds(self, step: Rounds) -> None:
        """Compute units that depend on themselves: the first record of each key, then the second ..."""
        groups = self._where[-1][1]
        most_rounds = max(_FEW_ROUNDS, self._block.length // _RECORDS_PER_ROUND)
        if int(groups.counts.max()) > most_rounds:
            raise FallBackToRows("too many records of a key")
        rank = np.arange(groups.length) - groups.spread(groups.begins)
        by_round = groups.order.take(np.argsort(rank, kind="stable"))
        bounds = np.cumsum(np.bincount(rank))
        now, of_record, before, changed = {}, {}, {}, {}
        for unit in step.units:
            arrays, own = self._of(unit)
            now[unit.path] = arrays.at(unit.path, own.slots)
            of_record[unit.path] = own.back(own.spread(np.arange(len(own.slots))))
            before[unit.path] = np.empty(groups.length, now[unit.path].dtype)
            changed[unit.path] = np.zeros(len(own.slots), np.bool_)
        used = [part for unit in step.units for each in unit.changes for part in (*each.guards, each.of)]
        start = 0
        for stop in bounds.tolist():
            positions = by_round[start:stop]
            start = stop
            part = subset(self._block, positions, used)
            for unit in step.units:
                values = now[unit.path].take(of_record[unit.path].take(positions))
                before[unit.path][positions] = values
                part.leaves[self._leaves[unit.path]] = column_from(values, unit.kind)
            inner = BlockOfStates(part, self._where)
            for unit in step.units:
                at, _, operands = inner._changed(unit.changes, unit.kind)
                own_groups = of_record[unit.path].take(positions)
                there = np.flatnonzero(at >= 0)
                if operands is None or not len(there):
                    continue
                left = operands.take(at.take(there))
                places = own_groups.take(there)
                now[unit.path][places] = _kept(left, len(there))
                changed[unit.path][places] = True
        for unit in step.units:
            _, own = self._where[unit.state]
            self._block.leaves[self._leaves[unit.path]] = column_from(before[unit.path], unit.kind)
            which = np.flatnonzero(changed[unit.path])
            if len(which):
                self._after.append((unit.state, unit.path, own.slots.take(which), now[unit.path].take(which)))

    # ---- results

    def given(self, emissions: Sequence[Emission], schema: RecordSchema) -> Columns:
        """Return what the function gives, in the order of the records."""
        made: list[Made | None] = []
        for each in emissions:
            if each.items is not None:
                made.append(made_of(each, schema, self._block))
                continue
            positions = self._positions(each.guards)
            length = self._block.length if positions is None else len(positions)
            if not length:
                continue
            part = self._subset(positions, [each.result])
            if not each.emits:
                evaluate(each.result, length, part)
                continue
            results = computed_of(each.result, schema, part).stamped(None)
            origins = np.arange(length) if positions is None else positions
            made.append(Made(results, origins, np.zeros(length, np.int64), each.segment))
        return combined(made, schema, self._block)

    def keep(self) -> None:
        """Put the states after the block into the arrays."""
        for state, path, slots, values in self._after:
            arrays, _ = self._where[state]
            assert isinstance(arrays, StateArrays)
            arrays.put(path, slots, values)
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


def subset(block: Columns, positions: Array, used: list[Expression]) -> Columns:
    """Return the records at some positions, as far as expressions use their fields."""
    paths = paths_of(used, 0)
    leaves = [
        leaf.take(positions) if any(path[: len(each)] == each for each in paths) else Column(kind, None, True)
        for (path, kind), leaf in zip(leaves_of(block.schema), block.leaves, strict=True)
    ]
    return Columns(block.schema, leaves, len(positions))


def _whole(column: Column, length: int) -> Column:
    return Column(column.kind, column.array(length)) if column.constant else column


def _kept(column: Column, length: int) -> Array:
    return np.array(column.to_list(length), np.object_) if column.kind == STR else column.array(length)


__all__ = ["BlockOfStates", "subset"]
