"""The running reduce over columns: one array per field of the aggregates, and one scan per field and block.

The aggregates are in arrays here (``contents.py``), by *slot*. Before a block that the kernels cannot compute, and
for a snapshot if state is in files, they go back into the tables of the record path (``operators/rolling.py``), in the
form they have there. Else a snapshot has them from copies of the arrays: a snapshot of one path is a snapshot of the
other. The first record of a key that is not in the arrays looks for an aggregate in the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import numpy as np

from funken.columnar.block import Block
from funken.columnar.declared import EXTREME, FIRST, LAST, MAX, ORDERED, SUM, Fold
from funken.columnar.expressions import Argument, Make
from funken.columnar.kernels.columns import Array, Column, Columns, column_of, joined_columns, narrowed, wrapped
from funken.columnar.kernels.evaluation import FallBackToRows, evaluate
from funken.columnar.keyed.groups import Groups, ranks, running_float_sum, running_most, running_sum
from funken.columnar.keyed.keys import key_of
from funken.columnar.keyed.logs import grown, objects
from funken.columnar.typed.inference import paths_of
from funken.expr.types import FLOAT, HIGHEST, INT, LOWEST, STR, Tuple, atomic_fields
from funken.ids import MIN_TIMESTAMP
from funken.operators.base import Timestamps, Values
from funken.operators.columnar.contents import Contribution, KeyedArrays, contributions_of, leaf_columns
from funken.operators.columnar.path import BlockGate, ColumnPath, TracedFunction
from funken.operators.columnar.specs import ColumnarReduce
from funken.operators.rolling import RollingReduceLogic
from funken.state.delta_tables import ExtendedDeltaTable

_MOST_IN_FILES = 1 << 17
"""If state is in files, arrays are emptied before a block once they have more keys than this."""
_MISSING = object()


class ColumnarReduceLogic(RollingReduceLogic):
    """Arrays in front of the tables."""

    columnar = True

    def __init__(self, spec: ColumnarReduce) -> None:
        super().__init__(spec.spec.key, spec.spec.function)
        self._layers = self._table = ExtendedDeltaTable(self)
        self._spec = spec
        self._shape = spec.schema
        functions = TracedFunction(spec.spec.function, spec.traced), TracedFunction(spec.spec.key, spec.traced_key)
        self._path = ColumnPath(self._reduced, *functions, changes=True, of=self)
        self._leaves = atomic_fields(spec.schema)
        key = spec.traced_key.result
        #: whether a leaf of the aggregate is the key, and need not be kept
        self._is_key = [
            fold.how in (FIRST, LAST) and fold.of == Argument(0, path) == key
            for fold, (path, _) in zip(spec.folds, self._leaves, strict=True)
        ]
        self.gate = BlockGate(self)
        self._clear()

    def _clear(self) -> None:
        self._arrays = KeyedArrays(self._shape, self._is_key)
        #: slots below this were looked for in the tables
        self._looked = 0
        #: by slot: whether there is an aggregate, and whether it has changed since the last time
        self._has: Array = np.empty(0, np.bool_)
        self._touched: Array = np.empty(0, np.bool_)

    def process_block(self, block: Block) -> None:
        """Reduce a block."""
        self.gate.take(block, self._path, self._in_rows, self.output.emit_block)

    def _in_rows(self, block: Block) -> None:
        self._leave()
        super().process_block(block)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Reduce rows."""
        self._leave()
        super().process(values, timestamps)

    def _reduced(self, block: Columns) -> Columns:
        key = key_of(self._spec.traced_key.result, block)
        if self._in_files is not None and len(self._arrays) > _MOST_IN_FILES:
            self._keep()
            self._clear()
        arrays = self._arrays
        numbers = arrays.find(key, block.length)
        if len(self._has) < arrays.room:
            self._has, self._touched = grown(self._has, arrays.room), grown(self._touched, arrays.room)
        self._load()
        groups = Groups(numbers, len(arrays))
        step = _Step(block, groups, ~self._has.take(groups.slots))
        # Nothing is changed before every leaf is computed: any of them may be unfit.
        made = [self._leaf(step, number, fold) for number, fold in enumerate(self._spec.folds)]
        for number, (_, kept) in enumerate(made):
            if kept is not None:
                arrays.state[number][groups.slots] = kept
                if arrays.leaves[number][1] == INT:
                    arrays.widen(number, int(kept.min()), int(kept.max()))
        self._has[groups.slots] = True
        self._touched[groups.slots] = True
        return Columns(self._shape, [column for column, _ in made], block.length, block.timestamps)

    def _leaf(self, step: _Step, number: int, fold: Fold) -> tuple[Column, Array | None]:
        """Return a leaf of the results, and what the aggregates of the groups have there after the block."""
        own = step.block.leaves[number]
        if self._is_key[number]:
            return own, None
        arrays, slots = self._arrays, step.groups.slots
        state, bounds = arrays.state[number], arrays.bounds[number]
        if fold.how in ORDERED:
            return step.best(own, state.take(slots), partial(self._kept_records, fold), fold)
        of = evaluate(fold.of, step.block.length, step.block)
        assert isinstance(of, Column)
        if fold.how in EXTREME:
            decides = [path for path, _ in arrays.leaves].index(cast(Argument, fold.of).path)
            best = arrays.state[decides].take(slots)
            return step.extreme(own, of, state.take(slots), best, arrays.bounds[decides], fold.how == "max_by")
        if fold.how == LAST:
            return step.last(own, of)
        if fold.how == FIRST:
            return step.first(own, state.take(slots))
        if fold.how == SUM:
            column, kept = step.sum(own, of, state.take(slots), bounds)
            return (column, kept) if fold.bits == 64 else (narrowed(column, fold.bits), wrapped(kept, fold.bits))
        return step.most(own, of, state.take(slots), bounds, fold.how == MAX)

    def _kept_records(self, fold: Fold, slots: Array) -> Columns:
        """Return the aggregates at some slots, as far as a fold looks at them."""
        arrays, used = self._arrays, paths_of([fold.of], 0)
        leaves = [
            leaf_columns([leaf], [state.take(slots)])[0] if leaf[0] in used else Column(leaf[1], None, True)
            for leaf, state in zip(arrays.leaves, arrays.state, strict=True)
        ]
        return Columns(self._shape, leaves, len(slots))

    # ---- between arrays and tables

    def _load(self) -> None:
        """Take the aggregates of new keys out of the tables, if they are there."""
        keys, begin = self._arrays.slots.keys, self._looked
        self._looked = len(keys)
        if begin == len(keys) or not (self._new or self._in_files is not None or self._kept):
            return
        found = {slot: self._stored(keys[slot]) for slot in range(begin, len(keys))}
        stored = {slot: record for slot, record in found.items() if record is not _MISSING}
        slots = list(stored)
        self._arrays.put(slots, list(stored.values()))
        self._has[slots] = True
        if self._in_files is None:  # else what is in files is overwritten
            for slot in slots:
                self._touched[slot], _ = self._table.take_out(keys[slot])

    def _stored(self, key: Any) -> Any:
        value = self._new.get(key, _MISSING)
        return self._kept.get(key, _MISSING) if value is _MISSING else value

    def take_written(self, complete: bool) -> tuple[Iterator[tuple[Any, Any]], list[Any]]:
        """Return what gives out the aggregates that changed since the last time, or all, as they are now; none are gone."""
        slots = np.flatnonzero(self._has if complete else self._touched)
        self._touched[slots] = False
        return self._arrays.entries(slots), []

    def kept(self) -> int:
        """Return how many aggregates are in the arrays."""
        return len(self._arrays)

    def _keep(self) -> None:
        self._store()
        super()._keep()

    def _store(self) -> None:
        """Write what changed since the last time into the table of the record path."""
        touched = np.flatnonzero(self._touched)
        self._new.update(self._arrays.entries(touched))
        self._touched[touched] = False

    def _leave(self) -> None:
        """Go over to the record path: it finds everything in its tables."""
        if len(self._arrays):
            self.gate.leave(len(self._arrays))
            if self._in_files is None:  # else what did not change is there
                self._layers.finish_snapshot().update(self._arrays.entries(np.flatnonzero(self._has & ~self._touched)))
            self._store()
            self._clear()


class ColumnarFinalReduceLogic(RollingReduceLogic):
    """The reduce of ``BATCH``, where only the last value of a key counts: records, in any order, are folded into one pane.

    A second field beside the record is the highest timestamp.
    """

    columnar = True

    def __init__(self, spec: ColumnarReduce) -> None:
        super().__init__(spec.spec.key, spec.spec.function)
        self._spec = spec
        functions = TracedFunction(spec.spec.function, spec.traced), TracedFunction(spec.spec.key, spec.traced_key)
        self._path = ColumnPath(self._take, *functions, partials=True, changes=True, of=self)
        self._pane = KeyedArrays(Tuple((spec.schema, INT)))
        self.gate = BlockGate(self, measured=False, in_batch=True)

    def process_block(self, block: Block) -> None:
        """Fold a block."""
        self.gate.take(block, self._path, super().process_block)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Fold rows, with what the columns have come to in the table."""
        if len(self._pane):
            self.gate.leave(len(self._pane))
            for key, (record, at) in self._pane.copied():
                self._new[key] = record
                if at != MIN_TIMESTAMP:
                    self._last[key] = at
            self._pane = KeyedArrays(self._pane.schema)
        super().process(values, timestamps)

    def _take(self, block: Columns) -> bool:
        key = key_of(self._spec.traced_key.result, block)
        stamps = block.timestamps
        at = Column(INT, MIN_TIMESTAMP, True) if stamps is None else Column(INT, stamps)
        contributions = [*contributions_of(self._spec.folds, block), Contribution(MAX, at, at)]
        if self._new:  # rows came before
            pane = KeyedArrays(self._pane.schema)
            pane.load({key: (value, self._last.get(key, MIN_TIMESTAMP)) for key, value in self._new.items()})
            self._pane, self._layers.delta = pane, {}
        self._pane.check(contributions, block.length)
        self._pane.add(key, contributions, block.length)
        return True

    def emit_final(self) -> None:
        """Emit what each key came to."""
        if len(self._pane):
            *leaves, at = self._pane.columns().leaves
            stamps = None if at.bounds()[1] == MIN_TIMESTAMP else at.data
            self.output.emit_block(Columns(self._spec.schema, leaves, len(self._pane), stamps))
        super().emit_final()


class _Step:
    """One block on its way through the folds; ``new`` marks the groups whose first record begins the aggregate."""

    def __init__(self, block: Columns, groups: Groups, new: Array) -> None:
        self.block = block
        self.groups = groups
        self._best: Array | None = None
        #: where records, and the aggregates of the groups, are in the order of what decides
        self._places: tuple[Column, Array] | None = None
        self._any_new = bool(new.any())
        self._new, self._old = np.flatnonzero(new), np.flatnonzero(~new)
        #: where in the block the first records of the new groups are
        self._firsts = groups.order.take(groups.begins.take(self._new))

    def last(self, own: Column, of: Column) -> tuple[Column, Array]:
        """Each record gives its own value."""
        column = of
        if of is not own and self._any_new:
            data = of.array(self.block.length).copy()
            data[self._firsts] = own.array(self.block.length).take(self._firsts)
            column = Column(of.kind, data)
        ends = self.groups.order.take(self.groups.ends)
        return column, objects(column.take(ends), len(ends))

    def first(self, own: Column, before: Array) -> tuple[Column, Array]:
        """The value of the first record stays."""
        before[self._new] = objects(own.take(self._firsts), len(self._firsts))
        values = self.groups.back(self.groups.spread(before))
        return column_of(values.tolist(), STR) if own.kind == STR else Column(own.kind, values), before

    def sum(self, own: Column, of: Column, before: Array, bounds: tuple[int, int]) -> tuple[Column, Array]:
        """Values add up."""
        if own.kind == FLOAT:
            values = self._sorted(own, of.cast(FLOAT) if of is not own else of)
            values[self.groups.begins.take(self._old)] += before.take(self._old)
            by_group = running_float_sum(values, self.groups)
            return Column(FLOAT, self.groups.back(by_group)), by_group.take(self.groups.ends)
        most = int(self.groups.counts.max())
        low, high = self._reach(own, of, bounds)
        if low + most * min(0, low) < LOWEST or high + most * max(0, high) > HIGHEST:
            raise FallBackToRows("an overflow")
        values = self._sorted(own, of)
        values[self.groups.begins.take(self._old)] += before.take(self._old)
        return self._results(running_sum(values, self.groups))

    def most(
        self, own: Column, of: Column, before: Array, bounds: tuple[int, int], greatest: bool
    ) -> tuple[Column, Array]:
        """The greatest value so far, or the smallest: the greatest of the negative values."""
        low, high = self._reach(own, of, bounds)
        if low == LOWEST:
            raise FallBackToRows("an overflow")
        values = self._sorted(own, of)
        if not greatest:
            low, high = -high, -low
            np.negative(values, out=values)
            np.negative(before, out=before)
        at = self.groups.begins.take(self._old)
        values[at] = np.maximum(values.take(at), before.take(self._old))
        found = running_most(values, self.groups, low, high)
        if found is None:
            raise FallBackToRows("a range too wide")
        return self._results(found if greatest else np.negative(found))

    def extreme(
        self, own: Column, of: Column, before: Array, best: Array, bounds: tuple[int, int], greatest: bool
    ) -> tuple[Column, Array]:
        """The leaf is that of the record with the best value so far, the first of them."""
        groups = self.groups
        if self._best is None:
            found, _ = self.most(of, of, best.copy(), bounds, greatest)
            so_far = found.array(self.block.length).take(groups.order)
            # A record is the best so far if it is better than what was there before it.
            better = np.empty(self.block.length, np.bool_)
            better[1:] = so_far[1:] != so_far[:-1]
            better[groups.begins] = True
            old = groups.begins.take(self._old)
            better[old] = so_far.take(old) != best.take(self._old)
            # Where the best record stands; an odd number says that it is older than the block.
            places = np.arange(self.block.length) * 2
            marks = np.where(better, places, -1)
            marks[old] = np.where(better.take(old), places.take(old), places.take(old) + 1)
            self._best = np.maximum.accumulate(marks)
        values = objects(own, self.block.length).take(groups.order).take(self._best >> 1)
        older = np.flatnonzero(self._best & 1)
        values[older] = groups.spread(before).take(older)
        kept = values.take(groups.ends)
        back = groups.back(values)
        return column_of(back.tolist(), STR) if own.kind == STR else Column(own.kind, back), kept

    def best(
        self, own: Column, before: Array, kept: Callable[[Array], Columns], fold: Fold
    ) -> tuple[Column, Array]:  # fmt: skip
        """The leaf is that of the best record so far by several values, the first of them; ``kept``: the aggregates."""
        if self._places is None:
            old = self.groups.slots.take(self._old)
            blocks = [kept(old), self.block] if len(old) else [self.block]
            lengths = [each.length for each in blocks]
            values = [[evaluate(item, each.length, each) for each in blocks] for item in cast(Make, fold.of).items]
            places = ranks([joined_columns(cast(list[Column], each), lengths) for each in values], sum(lengths))
            among = np.zeros(len(before), np.int64)
            among[self._old] = places[: len(old)]
            self._places = Column(INT, places[len(old) :]), among
        of, best = self._places
        most = max(int(of.data.max()), int(best.max()))
        return self.extreme(own, of, before, best, (0, most), ORDERED[fold.how] == MAX)

    def _reach(self, own: Column, of: Column, bounds: tuple[int, int]) -> tuple[int, int]:
        lows, highs = zip(own.bounds(), of.bounds(), bounds, strict=True)
        return min(lows), max(highs)

    def _sorted(self, own: Column, of: Column) -> Array:
        length, groups = self.block.length, self.groups
        if of is own and own.constant:
            return own.array(length)
        values = of.array(length).take(groups.order)
        if of is not own:
            values[groups.begins.take(self._new)] = own.array(length).take(self._firsts)
        return values

    def _results(self, by_group: Array) -> tuple[Column, Array]:
        return Column(INT, self.groups.back(by_group)), by_group.take(self.groups.ends)
