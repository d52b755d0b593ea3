"""GROUP BY over a changelog: per input row the change of its group, or per bundle of rows one change of each group.

State per key: how many rows the group has (if rows may be taken back), and the accumulators. A row that takes back what no group
has is ignored and counted. Where the functions allow it, a block is handled at once (``running.py``), with the same changes in
the same order; state in memory is in arrays then (``group_arrays.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from funken.ids import MAX_WATERMARK
from funken.operators.base import OperatorContext, Output
from funken.state.descriptors import StateKind
from funken.table.logical import AggregateCall
from funken.table.runtime.aggregates import AggregateCalls
from funken.table.runtime.block import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, TableBlock
from funken.table.runtime.group_arrays import GroupArrays
from funken.table.runtime.keyed_blocks import KeyedRows
from funken.table.runtime.operator import KeyedTableOperator, is_accumulate
from funken.table.runtime.running import GroupedRows, RunningCalls

Tuple = tuple[Any, ...]
_FEW = 32
"""Blocks of fewer rows are handled row by row."""
_STATE = "acc"


class Bundle:
    """The rule for gathering rows: ``size`` at most, or for ``latency`` ms; with neither, all of the input.

    A barrier or the end of the input ends a bundle, too.
    """

    def __init__(self, size: int, latency: int) -> None:
        self.size, self.latency = size, latency


class Bundled(KeyedTableOperator):
    """Base of operators that may handle rows in bundles: ``one`` handles a row, ``many`` the rows of a key."""

    bundle: Bundle | None = None

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._gathered: dict[Any, list[tuple[Tuple, int]]] = {}
        self._count = 0
        self._due: int | None = None
        if self.bundle is not None:
            context.before_snapshot.append(self.finish_bundle)

    def gather(self, key: Tuple, row: Tuple, kind: int) -> None:
        """Keep a row until its bundle is full."""
        assert self.bundle is not None
        if not self._count and self.bundle.latency:
            self._due = self.now() + self.bundle.latency
        self._gathered.setdefault(key, []).append((row, kind))
        self._count += 1
        if 0 < self.bundle.size <= self._count:
            self.finish_bundle()

    def finish_bundle(self) -> None:
        """Handle the rows that were gathered."""
        gathered, self._gathered, self._count, self._due = self._gathered, {}, 0, None
        self.context.next_time()
        for key, rows in gathered.items():
            self.store.current_key = key
            self.many(key, rows)
        self.flush()

    def many(self, key: Tuple, rows: list[tuple[Tuple, int]]) -> None:
        """Handle the rows of a key, which is current."""
        raise NotImplementedError

    def watermark(self, watermark: int) -> None:
        """End the bundle."""
        if self.bundle is not None and (self.bundle.size or self.bundle.latency or watermark == MAX_WATERMARK):
            self.finish_bundle()
        super().watermark(watermark)

    def next_tick(self) -> int | None:
        """Return the time at which the bundle is due, or a timer."""
        due = [at for at in (super().next_tick(), self._due) if at is not None]
        return min(due) if due else None

    def tick(self, now: int) -> None:
        """End the bundle, and fire timers."""
        if self._due is not None and self._due <= now:
            self.finish_bundle()
        super().tick(now)

    def pause(self) -> None:
        """A micro-batch has come to its end."""
        if self.bundle is not None:
            self.finish_bundle()


class GroupAggregate(Bundled):
    """Results per key, as a changelog."""

    def __init__(
        self,
        keys: Sequence[int],
        calls: Sequence[AggregateCall],
        retracts: bool,
        update_before: bool,
        ttl: int = 0,
        bundle: Bundle | None = None,
        result_of_nothing: bool = False,
    ) -> None:
        self._keys, self._calls, self._retracts, self._before, self._ttl = keys, calls, retracts, update_before, ttl
        self.bundle = bundle
        self._nothing = result_of_nothing

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Choose arrays or objects."""
        super().setup(context, output)
        schema = self.inputs[0]
        self._running: RunningCalls | None = None
        self._groups: GroupArrays | None = None
        if self.bundle is None and not self._ttl and RunningCalls.serve(self._calls, schema, self._retracts):
            self._running = RunningCalls(self._calls, schema)
            if not self.in_files:
                create = AggregateCalls(self._calls, schema, context, self._retracts).create
                self._groups = GroupArrays(self._calls, schema, create)
                self.store.register(_STATE, StateKind.VALUE, self._groups)

    def open(self) -> None:
        """Open the functions."""
        self._aggregates = AggregateCalls(self._calls, self.inputs[0], self.context, self._retracts)
        if self._groups is None:
            self._state = self.value_state(_STATE, self._ttl)
        self._ignored = self.context.metrics.counter("numRetractionsOfUnknownRows")
        self._any = False

    def block(self, block: TableBlock) -> None:
        """Handle the rows of a block; accumulators are read and written once per key."""
        if self.bundle is not None:
            for key, row, kind in self.keyed_rows(block, self._keys):
                self.gather(key, row, kind)
            return
        if self._running is not None and len(block) >= _FEW and self._whole(block, self._running):
            return
        known: dict[Any, list[Any]] = {}
        for key, row, kind in self.keyed_rows(block, self._keys):
            group = known.get(key)
            if group is None:
                group = known[key] = self._load(key)
            self._one(key, group, row, kind)
        for key, group in known.items():
            self._save(key, group)

    def _whole(self, block: TableBlock, running: RunningCalls) -> bool:
        """Handle a block at once; return False if a row takes back one that its group does not have."""
        rows = KeyedRows(block.batch, self._keys)
        signs = (
            None if block.kinds is None else np.where((block.kinds == INSERT) | (block.kinds == UPDATE_AFTER), 1, -1)
        )
        scan = GroupedRows(block.batch, rows.groups, signs)
        slots, stored = None, list[Any]()
        if self._groups is not None:
            slots = self._groups.slots(rows.keys)
            before = self._groups.counts.take(slots)
        else:
            table = self._state.table
            stored = [table.get(key) for key in rows.keys]
            before = np.array([0 if each is None else each[0] for each in stored], np.int64)
        counts = scan.summed(before, np.ones(len(block), np.int64) if signs is None else signs.astype(np.int64))
        if signs is not None and counts.min() < 0:
            return False
        if self._groups is not None:
            results = self._groups.states(scan, slots)
            self._groups.set_counts(slots, scan.last(counts), self._retracts)
        else:
            create = self._aggregates.create
            results, left = running.states(scan, [create() if each is None else each[1] for each in stored])
            for key, count, accumulators in zip(rows.keys, scan.last(counts).tolist(), left, strict=True):
                if count or not self._retracts:
                    table[key] = count, accumulators
                else:
                    table.pop(key, None)
        self._changes(block, scan, counts, results)
        return True

    def _changes(self, block: TableBlock, scan: GroupedRows, counts: Any, results: list[pa.Array]) -> None:
        """Emit the changes of groups behind each row, in the order of the rows."""
        groups, length = scan.groups, len(block)
        after = groups.back(np.arange(length) + len(groups.slots))
        before = np.arange(length) + len(groups.slots) - 1
        before[groups.begins] = np.arange(len(groups.slots))
        before = groups.back(before)
        existed, exists = counts.take(before) > 0, counts.take(after) > 0
        changed = ~(existed & exists) | self._differ(results, before, after)
        replaced = changed & existed & (exists & self._before | ~exists)
        # of each row first what is taken back, then what comes
        states = np.stack((before, after), 1).ravel()
        wanted = np.flatnonzero(np.stack((replaced, changed & exists), 1).ravel())
        if not len(wanted):
            return
        kinds = np.stack((np.where(exists, UPDATE_BEFORE, DELETE), np.where(existed, UPDATE_AFTER, INSERT)), 1).ravel()
        of_rows, of_states = pa.array(wanted // 2), pa.array(states.take(wanted))
        arrays = [block.batch.column(place).take(of_rows) for place in self._keys]
        arrays += [each.take(of_states) for each in results]
        marks = kinds.take(wanted).astype(np.int8)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow)
        self.emit(TableBlock(batch, marks if marks.any() else None))

    @staticmethod
    def _differ(results: list[pa.Array], before: Any, after: Any) -> Any:
        """Return a mask of rows behind which a result is another one than before."""
        found = np.zeros(len(before), np.bool_)
        one, other = pa.array(before), pa.array(after)
        for each in results:
            if found.all():
                break
            old, new = each.take(one), each.take(other)
            differs = pc.fill_null(pc.not_equal(old, new), False).to_numpy(zero_copy_only=False)
            if each.null_count:
                differs = differs | (old.is_null().to_numpy(False) != new.is_null().to_numpy(False))
            found |= differs
        return found

    def _load(self, key: Tuple) -> list[Any]:
        """Return a group: number of rows, accumulators (``None``: there is no group), last results."""
        self.store.current_key = key
        stored = self._state.value() if self._groups is None else self._groups.load_group(key)
        if stored is None:
            return [0, None, None]
        return [stored[0], stored[1], self._aggregates.values(stored[1])]

    def _save(self, key: Tuple, group: list[Any]) -> None:
        self.store.current_key = key
        if self._groups is not None:
            self._groups.save_group(key, None if group[1] is None else (group[0], group[1]))
        elif group[1] is None:
            self._state.clear()
        else:
            self._state.update((group[0], group[1]))

    def _add(self, key: Tuple, group: list[Any], row: Tuple, kind: int) -> bool:
        """Change a group by a row; return False if there is nothing to take it back from."""
        adds = is_accumulate(kind)
        if group[1] is None:
            if not adds:
                self._ignored.inc()
                return False
            group[0], group[1] = 0, self._aggregates.create() if self._groups is None else self._groups.create(key)
        if adds:
            group[0] += 1
            self._aggregates.accumulate(group[1], row)
        else:
            group[0] -= 1
            self._aggregates.retract(group[1], row)
        return True

    def _one(self, key: Tuple, group: list[Any], row: Tuple, kind: int) -> None:
        first = group[1] is None
        if self._add(key, group, row, kind):
            self._emit(group, tuple(row[place] for place in self._keys), first)

    def _emit(self, group: list[Any], key: Tuple, first: bool) -> None:
        old = group[2]
        if self._retracts and group[0] == 0:
            group[1] = group[2] = None
            if not first:
                self.collect((*key, *old), DELETE)
            return
        new = group[2] = self._aggregates.values(group[1])
        if first:
            self.collect((*key, *new), INSERT)
        elif old != new or self._ttl:
            if self._before:
                self.collect((*key, *old), UPDATE_BEFORE)
            self.collect((*key, *new), UPDATE_AFTER)

    def many(self, key: Tuple, rows: list[tuple[Tuple, int]]) -> None:
        """Change a group by the rows of a bundle, and emit the change."""
        group = self._load(key)
        first = group[1] is None
        changed = False
        for row, kind in rows:
            changed |= self._add(key, group, row, kind)
        if changed:
            self._emit(group, tuple(rows[0][0][place] for place in self._keys), first)
            self._save(key, group)

    def process_block(self, block: Any) -> None:
        """Note that there is input."""
        self._any = self._any or len(block) > 0
        super().process_block(block)

    def before_end(self) -> None:
        """Emit the result of no rows, which a bounded query without GROUP BY has."""
        if self._nothing and not self._any:
            self.collect(self._aggregates.values(self._aggregates.create()), INSERT)

    def close(self) -> None:
        """Close the functions."""
        if hasattr(self, "_aggregates"):
            self._aggregates.close()
