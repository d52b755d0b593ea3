"""One block in a function with state: the states before each record, the emitted records, and the states after.

Nothing is kept before all of it is computed: ``BlockOfStates.keep`` does that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from funken.columnar.expressions import Argument, Constant, Expression
from funken.columnar.kernels.columns import (
    Array,
    Column,
    Columns,
    Lists,
    MadeLater,
    as_float,
    column_of,
    columns_of,
    joined,
    joined_columns,
    lists_of,
)
from funken.columnar.kernels.evaluation import ExpressionEvaluation, FallBackToRows
from funken.columnar.kernels.rowwise import Value, flattened, value_of
from funken.columnar.keyed.groups import (
    Groups,
    Participants,
    Runs,
    added,
    added_rounded,
    check_sums,
    most,
    ranks,
    toggled,
    united,
)
from funken.columnar.keyed.logs import RecordLog, column_from, objects
from funken.columnar.recurrence import ADD, ADD_ROUNDED, KEEP, MOST, SET, UNITE
from funken.columnar.stateful.changes import Effect, Guards, StateChange
from funken.columnar.stateful.typed import Appends, Best, BestChanges, Presence, Rounds, Scan, Step, Unit
from funken.columnar.typed.inference import Emission, paths_of
from funken.expr.types import ARRAYS, BOOL, FLOAT, INT, STR, Atomic, ListOf, Type, atomic_fields
from funken.operators.columnar.stateless import Made, combined
from funken.operators.stateful.arrays import ListsBefore, StateArrays, StateLists

# ---- What the steps of a block need of a unit: which records change it, and, round by round, what it is for each
# of them.


# ---- Many expressions over one block: what they share is computed once, also for the records that fulfil the same
# conditions.


class BlockEvaluation(ExpressionEvaluation):
    """Expressions over a block as their one argument; fields of it may be set before they are used."""

    def __init__(self, block: Columns) -> None:
        super().__init__(block.length, {})
        self.block = block
        self._leaves = {path: number for number, (path, _) in enumerate(atomic_fields(block.schema))}
        self._where: dict[tuple[int, ...], RecordsWhere] = {(): RecordsWhere(None, self)}

    def set(self, path: tuple[int, ...], column: Column) -> None:
        """Set a field."""
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
        """Go over to the items of lists, which are an argument: the record of each, its number, and the evaluation.

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
        """The index that selects the records from an array."""
        return slice(None) if self.positions is None else self.positions

    @property
    def length(self) -> int:
        """Number of records."""
        return self._evaluation.length if self.positions is None else len(self.positions)


class ChangeLayout:
    """The records that change a state field: ``at`` numbers each one's operand among all (-1: it changes nothing)."""

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
        """Return the operands of a state field for some records, all of which have one; ``None``: there are none."""
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
    """Raise ``FallBackToRows`` if a state field is to keep values that it does not keep as they are."""
    half = 1 << unit.bits - 1
    if unit.bits < 64 and (int(values.min()) < -half or int(values.max()) >= half):
        raise FallBackToRows("an int that is converted")
    check_zeros(unit, values)


def check_zeros(unit: Unit, values: Any) -> None:
    """Raise ``FallBackToRows`` for a zero of which ``or 0`` makes another one."""
    if unit.or_zero and bool((np.signbit(values) & (values == 0)).any()):
        raise FallBackToRows("a zero with a sign")


class UnitOfValues:
    """A state field that is computed round by round."""

    def __init__(self, unit: Unit, arrays: StateArrays | StateLists, groups: Groups) -> None:
        assert isinstance(arrays, StateArrays)
        self.unit, self._arrays, self._groups = unit, arrays, groups
        self._now = arrays.at(unit.path, groups.slots)
        check_zeros(unit, self._now)
        self._group_of: Array = groups.of_records()
        self._before: Array = np.empty(groups.length, self._now.dtype)
        self._changed: Array = np.zeros(len(groups.slots), np.bool_)

    def before(self, positions: Array) -> Column:
        """Return its values before the records of a round, each of another key."""
        values = self._now.take(self._group_of.take(positions))
        self._before[positions] = values
        return column_from(values, self.unit.leaf)

    def change(self, positions: Array, left: Column) -> None:
        """Set it to the values that some of these records leave."""
        values = objects(left, len(positions))
        check_kept(self.unit, values)
        places = self._group_of.take(positions)
        self._now[places] = values
        self._changed[places] = True

    def column(self) -> Column:
        """Return its value before each record."""
        return column_from(self._before, self.unit.leaf)

    def keep(self) -> None:
        """Put its new values into the arrays."""
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
        """Return its values before the records of a round, each of another key."""
        if self._positions:
            self._after.append(self._now)
        groups = self._group_of.take(positions)
        self._now = self._now.take(self._row_of.take(groups))
        self._row_of[groups] = np.arange(len(positions))
        self._before.append(self._now)
        self._positions.append(positions)
        return self._now

    def change(self, positions: Array, left: Column) -> None:
        """Set it to the values that some of these records leave."""
        # Hot: what is put together are the lists of this round, not those of all keys.
        groups, count = self._group_of.take(positions), len(self._positions[-1])
        order = np.arange(count)
        order[self._row_of.take(groups)] = np.arange(count, count + len(groups))
        self._now = joined_columns([self._now, lists_of(left, len(groups))], [count, len(groups)]).take(order)
        self._changed[groups] = True

    def column(self) -> Column:
        """Return its value before each record."""
        order = np.empty(self._groups.length, np.int64)
        order[np.concatenate(self._positions)] = np.arange(self._groups.length)
        return joined_columns(self._before, list(map(len, self._positions))).take(order)

    def keep(self) -> None:
        """Put its new values into the log."""
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


# ---- Records that are kept as they came: before each record of a block, one that there was, or one that the block
# has brought.


class _Whence(NamedTuple):
    """The places of records: in the log, in the block, and the order of both (``None``: only of one of them)."""

    old: Any
    new: Any
    order: Any


class RecordsAround:
    """The records that groups had, by number, and behind them those of a block, which ``index`` numbers.

    Nothing is taken out of either before it is looked at.
    """

    def __init__(self, log: RecordLog, places: Array, brought: Columns | None) -> None:
        self._log, self._places, self._brought = log, places, brought
        self._last: tuple[Array, Array | None, _Whence] | None = None

    def leaf(self, number: int, index: Array, positions: Array | None = None) -> Column:
        """Return a field of those at ``index``, or of some of these."""
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
        """Return some of those of the block."""
        assert self._brought is not None
        return self._brought.take(index - len(self._places))


class LeafAround(MadeLater):
    """One field of such records."""

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
    """Let expressions find the fields of a state."""
    kind: Type = unit.kind
    for number, (path, leaf) in enumerate(atomic_fields(kind)):
        values.set((*unit.path, *path), LeafAround(leaf, of, number, index))


def kept_leaves(log: RecordLog, unit: Unit, places: Array) -> dict[tuple[int, ...], Column]:
    """Return the fields of the records that groups have."""
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
        """Return the best of the records before each participant; ``initial`` is that of its group."""
        found = np.empty(len(own), np.int64)
        found[1:] = most(self, own, sets, initial, greatest)[:-1]
        found[self.firsts] = initial
        return found


class _Deciding:
    """The values that decide between the records of groups and of participants: one column of each for each value."""

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
    """Return the record that each participant leaves: a group's former one by its number, then participants'."""
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
    """Return the participants that are better than those before them, if they are not set in any case."""
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
    """Return the same, by places in the order of deciding values; ``which``: of some groups and participants."""
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
    """Return the deciding values as if they were a state field of their own."""
    new: Sequence[Expression] = [each[number] for each in step.best.new]
    changes = tuple(replace(each, of=of) for each, of in zip(step.best.changes, new, strict=True))
    return replace(step.units[0], kind=kind, changes=changes)


def _comparable(column: Column) -> Column:
    if column.kind not in (INT, STR, FLOAT, BOOL):
        raise FallBackToRows("values without an order")
    if column.kind == FLOAT and np.isnan(column.data).any():
        raise FallBackToRows("a number that is none")  # which is neither less nor greater
    return column


Path = tuple[int, ...]
_ROUNDS = {False: (4, 200), True: (1, 1000)}
"""Number of rounds in any case, and the records for one more: a round costs as much as these one by one.

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
        """Note a state field's value before each record and after each group: the former, and those of participants."""
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
        """Note the value of a state field that no record changes."""
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
        """Note the record before each record, and after each group; ``leaves``: the ones that participants leave."""
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
        """Return the records that change a state field, and how; changes under the same conditions share that."""
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
        """Compute state fields that depend on themselves: the first record of each key, then the second ..."""
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
        """Return the function's results, in the order of the records."""
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
        """Return a loop's results for some records; the lists are computed once for all that loop over them."""
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

    def timers(self, changes: Sequence[Effect]) -> tuple[Array, list[int], list[bool]]:
        """Return the changes of timers, in order: the records, the times, and whether each is deleted."""
        found: list[tuple[Array, Array, Array]] = []
        for each in changes:
            where = self._values.where(each.guards)
            if where.length:
                assert each.value is not None
                at: Any = where.of(each.value)
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
