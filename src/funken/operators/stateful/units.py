"""What the steps of a block need of a unit: which records change it, and, round by round, what it is for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funken.columnar.expressions import Argument, Expression
from funken.columnar.flat_maps.emissions import paths_of
from funken.columnar.kernels.arithmetic import as_float
from funken.columnar.kernels.columns import Array, Column, Columns, Lists, MadeLater, joined_columns, lists_of
from funken.columnar.kernels.evaluation import ExpressionEvaluation, FallBackToRows
from funken.columnar.kernels.rowwise import Value, value_of
from funken.columnar.keyed.groups import Groups, Participants
from funken.columnar.keyed.logs import column_from, objects
from funken.columnar.recurrence import KEEP, SET
from funken.columnar.stateful.changes import StateChange
from funken.columnar.stateful.steps import Unit
from funken.expr.types import FLOAT, Atomic, Type, atomic_fields
from funken.operators.stateful.arrays import StateArrays, StateLists

# ---- Many expressions over one block: what they share is computed once, also for the records that fulfil the same
# conditions.


class BlockEvaluation(ExpressionEvaluation):
    """Expressions over the one argument that a block is; leaves of it may be set before they are used."""

    def __init__(self, block: Columns) -> None:
        super().__init__(block.length, {})
        self.block = block
        self._leaves = {path: number for number, (path, _) in enumerate(atomic_fields(block.schema))}
        self._where: dict[tuple[int, ...], RecordsWhere] = {(): RecordsWhere(None, self)}

    def set(self, path: tuple[int, ...], column: Column) -> None:
        """Set a leaf."""
        self.block.leaves[self._leaves[path]] = column

    def where(self, guards: Sequence[Expression]) -> RecordsWhere:
        """Return the records for which guards hold, one after the other."""
        key: tuple[int, ...] = ()
        found = self._where[key]
        for guard in guards:
            key = (*key, id(guard))
            known = self._where.get(key)
            if known is None:
                known = self._where[key] = self._narrowed(found, guard)
            found = known
        return found

    def _narrowed(self, before: RecordsWhere, guard: Expression) -> RecordsWhere:
        if before.positions is not None and not len(before.positions):
            return before
        truth: Any = before.of(guard)
        if truth.constant:
            return before if truth.data else RecordsWhere(np.empty(0, np.int64), self)
        if truth.data.all():
            return before
        found = np.flatnonzero(truth.data)
        positions = found if before.positions is None else before.positions.take(found)
        return RecordsWhere(positions, self.at(positions))

    def _compute(self, expression: Expression) -> Value:
        if isinstance(expression, Argument) and expression.argument == 0:
            schema: Any = self.block.schema
            for index in expression.path:
                schema = schema[index]
            return self._value(expression.path, schema)
        return super()._compute(expression)

    def _value(self, path: tuple[int, ...], schema: Type) -> Value:
        if isinstance(schema, Atomic):
            return self.block.leaves[self._leaves[path]]
        return tuple(self._value((*path, index), inner) for index, inner in enumerate(schema))


class RecordsWhere:
    """Some records of a block, and expressions over them; ``positions`` is ``None``: all records."""

    __slots__ = ("_evaluation", "positions")

    def __init__(self, positions: Array | None, evaluation: ExpressionEvaluation) -> None:
        self.positions = positions
        self._evaluation = evaluation

    def of(self, expression: Expression) -> Value:
        """Compute an expression; there is one record at least."""
        with np.errstate(all="ignore"):
            return self._evaluation.of(expression)

    def items(self, items: Expression, number: int, conditions: Sequence[Expression]) -> tuple[Array, Array, Any]:
        """Go over to the items of lists, which are an argument: of which record each is, which item of it, and what computes.

        Only to those for which conditions hold, one after the other.
        """
        column: Any = self.of(items)
        lists = lists_of(column, self.length)
        counts, content = lists.counts(), lists.content()
        owners = np.repeat(np.arange(self.length), counts)
        numbers = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        inner: Any = self._evaluation.at(owners, {number: value_of(content)})
        for condition in conditions:
            if not len(owners):
                break
            with np.errstate(all="ignore"):
                truth = inner.truth(inner.of(condition))
            if truth.constant and truth.data:
                continue
            kept = np.flatnonzero(truth.array(len(owners)))
            owners, numbers, inner = owners.take(kept), numbers.take(kept), inner.at(kept, {})
        return owners, numbers, inner

    @property
    def place(self) -> Any:
        """What takes the records out of an array."""
        return slice(None) if self.positions is None else self.positions

    @property
    def length(self) -> int:
        """How many records there are."""
        return self._evaluation.length if self.positions is None else len(self.positions)


class ChangeLayout:
    """Which records change a unit: ``at`` is the number of each one's operand among all (-1: it changes nothing)."""

    def __init__(self, values: BlockEvaluation, changes: Sequence[StateChange], groups: Groups | None) -> None:
        length = values.block.length
        self.at: Array = np.full(length, -1, np.int64)
        self.how = next((each.how for each in changes if each.how not in (SET, KEEP)), SET)
        sets = np.ones(length, np.bool_)
        count = 0
        for change in changes:
            where = values.where(change.guards)
            if change.how == KEEP or not where.length:
                self.at[where.place] = -1
                continue
            self.at[where.place] = np.arange(count, count + where.length)
            sets[where.place] = change.how == SET
            count += where.length
        if groups is not None:
            self.some = Participants(groups, self.at >= 0)
            self.sets: Array = sets.take(self.some.positions)

    def operand(self, values: BlockEvaluation, unit: Unit, positions: Array) -> Column | None:
        """Return the operands of a unit for some records, all of which have one; ``None``: there are none."""
        columns: list[Column] = []
        lengths: list[int] = []
        for change in unit.changes:
            where = values.where(change.guards)
            if change.how != KEEP and where.length:
                column: Any = where.of(change.of)
                columns.append(as_float(column) if unit.kind == FLOAT else column)
                lengths.append(where.length)
        if not columns or not len(positions):
            return None
        return joined_columns(columns, lengths).take(self.at.take(positions))


class Picked(MadeLater):
    """The values of a column at some positions, which are taken when they are looked at."""

    __slots__ = ("_of", "_positions")

    def __init__(self, of: Column, positions: Array) -> None:
        super().__init__(of.kind)
        self._of, self._positions = of, positions

    def _data(self) -> Array:
        return self._of.take(self._positions).array(len(self._positions))

    def take(self, positions: Array) -> Column:
        """Return the values at some positions of these."""
        return self._of.take(self._positions.take(positions))


def subset(block: Columns, positions: Array, used: Sequence[Expression]) -> Columns:
    """Return the records at some positions, as far as expressions use their fields."""
    paths = paths_of(used, 0)
    leaves = [
        leaf.take(positions) if any(path[: len(each)] == each for each in paths) else Column(kind, None, True)
        for (path, kind), leaf in zip(atomic_fields(block.schema), block.leaves, strict=True)
    ]
    return Columns(block.schema, leaves, len(positions))


def check_kept(unit: Unit, values: Any) -> None:
    """Raise ``FallBackToRows`` if a unit is to keep what it does not keep as it is."""
    half = 1 << unit.bits - 1
    if unit.bits < 64 and (int(values.min()) < -half or int(values.max()) >= half):
        raise FallBackToRows("an int that is converted")
    check_zeros(unit, values)


def check_zeros(unit: Unit, values: Any) -> None:
    """Raise ``FallBackToRows`` for a zero of which ``or 0`` makes another one."""
    if unit.or_zero and bool((np.signbit(values) & (values == 0)).any()):
        raise FallBackToRows("a zero with a sign")


class UnitOfValues:
    """A leaf that is computed round by round."""

    def __init__(self, unit: Unit, arrays: StateArrays | StateLists, groups: Groups) -> None:
        assert isinstance(arrays, StateArrays)
        self.unit, self._arrays, self._groups = unit, arrays, groups
        self._now = arrays.at(unit.path, groups.slots)
        check_zeros(unit, self._now)
        self._group_of: Array = groups.of_records()
        self._before: Array = np.empty(groups.length, self._now.dtype)
        self._changed: Array = np.zeros(len(groups.slots), np.bool_)

    def before(self, positions: Array) -> Column:
        """Return what it is before the records of a round, each of another key."""
        values = self._now.take(self._group_of.take(positions))
        self._before[positions] = values
        return column_from(values, self.unit.leaf)

    def change(self, positions: Array, left: Column) -> None:
        """Set it to what some of these records leave."""
        values = objects(left, len(positions))
        check_kept(self.unit, values)
        places = self._group_of.take(positions)
        self._now[places] = values
        self._changed[places] = True

    def column(self) -> Column:
        """Return what it was before each record."""
        return column_from(self._before, self.unit.leaf)

    def keep(self) -> None:
        """Put what it has become into the arrays."""
        which = np.flatnonzero(self._changed)
        slots = self._groups.slots.take(which)
        self._arrays.put(self.unit.path, slots, self._now.take(which))
        self._arrays.touch(self.unit.state, slots)


class UnitOfLists:
    """A list that is computed round by round: who has a record in a round, has had one in the round before."""

    def __init__(self, unit: Unit, lists: StateArrays | StateLists, groups: Groups) -> None:
        assert isinstance(lists, StateLists)
        self.unit, self._lists, self._groups = unit, lists, groups
        counts, items = lists.log.lists(groups.slots)
        self._group_of: Array = groups.of_records()
        #: what was the last round, at first as if all groups had a record: its lists, and of each group which is its own
        self._now: Column = Lists(lists.kind, np.concatenate(([0], np.cumsum(counts))), items)
        self._row_of: Array = np.arange(len(groups.slots))
        self._before: list[Column] = []
        self._after: list[Column] = []
        self._positions: list[Array] = []
        self._changed: Array = np.zeros(len(groups.slots), np.bool_)

    def before(self, positions: Array) -> Column:
        """Return what it is before the records of a round, each of another key."""
        if self._positions:
            self._after.append(self._now)
        groups = self._group_of.take(positions)
        self._now = self._now.take(self._row_of.take(groups))
        self._row_of[groups] = np.arange(len(positions))
        self._before.append(self._now)
        self._positions.append(positions)
        return self._now

    def change(self, positions: Array, left: Column) -> None:
        """Set it to what some of these records leave."""
        # Hot: what is put together are the lists of this round, not those of all keys.
        groups, count = self._group_of.take(positions), len(self._positions[-1])
        order = np.arange(count)
        order[self._row_of.take(groups)] = np.arange(count, count + len(groups))
        self._now = joined_columns([self._now, lists_of(left, len(groups))], [count, len(groups)]).take(order)
        self._changed[groups] = True

    def column(self) -> Column:
        """Return what it was before each record."""
        order = np.empty(self._groups.length, np.int64)
        order[np.concatenate(self._positions)] = np.arange(self._groups.length)
        return joined_columns(self._before, list(map(len, self._positions))).take(order)

    def keep(self) -> None:
        """Put what it has become into the log."""
        last = np.empty(len(self._changed), np.int64)
        last[self._group_of.take(np.concatenate(self._positions))] = np.arange(
            self._groups.length
        )  # the last one stays
        which = np.flatnonzero(self._changed)
        after = joined_columns([*self._after, self._now], list(map(len, self._positions)))
        lists = lists_of(after.take(last.take(which)), len(which))
        slots, counts = self._groups.slots.take(which), lists.counts()
        some = np.flatnonzero(counts)
        self._lists.change(slots, slots.take(some), counts.take(some), lists.content())


__all__ = [
    "BlockEvaluation",
    "ChangeLayout",
    "Picked",
    "RecordsWhere",
    "UnitOfLists",
    "UnitOfValues",
    "check_kept",
    "check_zeros",
    "subset",
]
