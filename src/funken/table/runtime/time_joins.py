"""Joins by time: of intervals, of versions, of windows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.keyed.groups import JoinIndex
from funken.expr.ir import Node
from funken.ids import MAX_WATERMARK
from funken.operators.base import OperatorContext, Output
from funken.state.descriptors import StateKind
from funken.table.logical import JoinType
from funken.table.runtime.block import INSERT, UPDATE_AFTER, TableBlock
from funken.table.runtime.join_rows import TimedRows
from funken.table.runtime.joins import JoinBase, columns_of, padded_columns
from funken.table.runtime.keyed_blocks import KeyedRows, codes_of, joint_codes
from funken.table.runtime.operator import checked_rowtime, is_accumulate, millis_array, rowtimes
from funken.table.runtime.stateless import NANOS
from funken.table.runtime.window_arrays import RowsOfWindows, WaitingRows
from funken.table.runtime.window_rows import TimedOperator
from funken.table.runtime.windows import Window

Array = Any
Tuple = tuple[Any, ...]
_PAIRS = 1 << 14
"""About so many pairs are computed at a time."""
_NAMES = ("left", "right")


class TableIntervalJoin(JoinBase, TimedOperator):
    """Rows meet if ``right time + lower <= left time <= right time + upper`` (ms); a row is kept as long as partners may come.

    A row without a partner is padded when it goes.
    """

    def __init__(
        self,
        kind: JoinType,
        keys: tuple[Sequence[int], Sequence[int]],
        times: tuple[int, int],
        bounds: tuple[int, int],
        rowtime: bool,
        null_safe: Sequence[bool] = (),
        condition: Node | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(kind, keys, null_safe, condition, parameters)
        self._times, self.rowtime = times, rowtime
        lower, upper = bounds
        #: for each side, how much earlier and later (ms) the times of its partners are
        self._reach = ((-upper, -lower), (lower, upper))

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Declare the state of both sides."""
        super().setup(context, output)
        #: how long after its time a row of a side is kept
        self._keep = [high + 1 for _, high in self._reach]
        self._rows: list[TimedRows] = []
        for index, (name, schema) in enumerate(zip(_NAMES, self.inputs, strict=True)):
            rows = TimedRows(schema, self._keys[index], self._keep[index], partial(self._expect, index))
            self._rows.append(self.keep_side(name, rows, schema))

    def open(self) -> None:
        """Open the state: lists of rows, each with whether it had a partner, by time."""
        super().open()
        self.open_kept()
        for rows in self._rows:
            rows.expire(self.reached())
        if self.in_files:
            self._states = [self.map_state(name) for name in _NAMES]
            for index, state in enumerate(self._states):
                self.expect_restored(state, partial(self._expect_again, index))

    def _expect_again(self, index: int, time: int) -> None:
        self._expect(index, self.store.current_key, time)

    def _expect(self, index: int, key: Tuple, time: int) -> None:
        self.wait(key, (index, time), time + self._keep[index])

    def side(self, block: TableBlock, index: int) -> None:
        """Join the rows of a block with those of the other side."""
        now = self.context.next_time()
        times = np.full(len(block), now)
        if self.rowtime and len(block):
            times = millis_array(checked_rowtime(block, self._times[index]))
        if block.kinds is not None:
            adds = np.flatnonzero((block.kinds == INSERT) | (block.kinds == UPDATE_AFTER))
            block, times = block.take(adds), times.take(adds)
        for rows in self._rows:
            rows.make_room()
        self._join(block.batch, times, self.current_watermark if self.rowtime else now, index)

    def _join(self, batch: pa.RecordBatch, times: Array, reached: int, index: int) -> None:
        there = self.joinable(batch, index)
        if there is not None:
            if self.is_outer(index):
                left_out = np.ones(batch.num_rows, np.bool_)
                left_out[there] = False
                self.send_alone(columns_of(batch, np.flatnonzero(left_out)), index)
            batch, times = batch.take(pa.array(there)), times.take(there)
        if not batch.num_rows:
            return
        others, rows = self._rows[1 - index], KeyedRows(batch, self._keys[index])
        low, high = (times + each for each in self._reach[index])
        met = np.zeros(len(times), np.bool_)
        for probed, places in self.pairs(others, batch, rows, index, (low, high)):
            met[probed] = True
            self.send(columns_of(batch, probed), others.columns(places), None, index)
            if self.is_outer(1 - index):
                others.had_partners(places)
        waits = (reached < high) & (low <= high)
        if waits.all():
            self._rows[index].add(rows, batch, met, times)
            return
        if self.is_outer(index):
            self.send_alone(columns_of(batch, np.flatnonzero(~met & ~waits)), index)
        left = np.flatnonzero(waits)
        if len(left):
            batch = batch.take(pa.array(left))
            self._rows[index].add(KeyedRows(batch, self._keys[index]), batch, met.take(left), times.take(left))

    # ---- rows that go

    def watermark(self, watermark: int) -> None:
        """Let the rows go that no partner can come for any more."""
        if self.rowtime:
            self._let_go(watermark)
        super().watermark(watermark)

    def next_tick(self) -> int | None:
        """Return when the next row goes in processing time."""
        waits = super().next_tick()
        if self.rowtime:
            return waits
        due = [rows.first + keep for rows, keep in zip(self._rows, self._keep, strict=True) if len(rows)]
        return min(due if waits is None else [*due, waits], default=None)

    def tick(self, now: int) -> None:
        """Let the rows go that no partner can come for any more."""
        if not self.rowtime:
            self._let_go(now)
        super().tick(now)

    def _let_go(self, now: int) -> None:
        for index, rows in enumerate(self._rows):
            if self.is_outer(index) or not self.rowtime:
                alone = rows.let_go(now)
                if self.is_outer(index):
                    self.send_alone(alone.columns, index)
            else:
                rows.expire(now)

    def on_event_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Let the rows of a time go that only the state in files has."""
        if not self.in_files:
            return  # a timer of a savepoint in which rows were objects
        index, time = namespace
        if self.is_outer(index) and not self._rows[index].knows(key):
            pads = (None,) * len(self.inputs[1 - index])
            alone = [row for row, met in self._states[index].get(time) or () if not met]
            self.collect_rows([(*row, *pads) if index == 0 else (*pads, *row) for row in alone])
        self._states[index].remove(time)

    def watermark_after(self, watermark: int) -> int:
        """Return the watermark of what follows: rows that are joined later may be as old as they are kept."""
        if watermark == MAX_WATERMARK or not self.rowtime:
            return watermark
        return watermark - max(0, *(high for _, high in self._reach))


class TemporalJoin(JoinBase):
    """Each left row meets the version of the right row of its key that holds at its time, when the watermark has passed that."""

    def __init__(
        self,
        kind: JoinType,
        keys: tuple[Sequence[int], Sequence[int]],
        times: tuple[int, int],
        null_safe: Sequence[bool] = (),
        condition: Node | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(kind, keys, null_safe, condition, parameters)
        self._times = times
        self._met: list[tuple[Tuple, int, Tuple | None]] = []

    def open(self) -> None:
        """Open the state: left rows in the order of arrival by time, and versions of the right row by time."""
        super().open()
        self._left = self.map_state("left")
        self._right = self.map_state("right")

    def side(self, block: TableBlock, index: int) -> None:
        """Keep the rows of a block until the watermark."""
        times = rowtimes(block, self._times[index])
        for (key, row, kind), time in zip(self.keyed_rows(block, self._keys[index], index), times, strict=True):
            self.store.current_key = key
            if index == 0:
                self._left.put(time, [*(self._left.get(time) or ()), (row, kind)])
                self.timers.register_event_time_timer(key, None, max(time, self.current_watermark))
            else:
                before = self._right.get(time)
                if is_accumulate(kind) or before is None or not before[1] or before[0] == row:
                    self._right.put(time, (row, is_accumulate(kind)))
                self.timers.register_event_time_timer(key, None, max(time, self.current_watermark))

    def on_event_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Join the left rows up to the watermark, and forget versions that none of them can see any more."""
        versions = sorted(self._right.items())
        reached = self.timers.current_watermark if self.timers.current_watermark > timestamp else timestamp
        for time, rows in sorted(self._left.items()):
            if time > reached:
                break
            version = None
            for at, (row, holds) in versions:
                if at > time:
                    break
                version = row if holds else None
            if any(key[place] is None for place in self._not_null):
                version = None
            self._met += [(row, kind, version) for row, kind in rows]
            self._left.remove(time)
        for at, _ in [each for each in versions if each[0] <= reached][:-1]:
            self._right.remove(at)
        if len(self._met) >= _PAIRS:
            self.flush()

    def flush(self) -> None:
        """Send the left rows on with the versions that hold for them."""
        found, self._met = self._met, []
        if found:
            rows, kinds, versions = zip(*found, strict=True)
            there = np.array([version is not None for version in versions])
            left = partial(columns_of, self.inputs[0].batch(rows))
            right = partial(columns_of, self.inputs[1].batch([version for version in versions if version is not None]))
            at, places = self.fitting(left, right, np.flatnonzero(there), np.arange(np.count_nonzero(there)), 0)
            if self._kind is JoinType.LEFT:
                of_rows = np.full(len(rows), -1)
                of_rows[at] = places
                at, places = np.arange(len(rows)), of_rows
            self.send(left(at), padded_columns(right, places), np.array(kinds).take(at), 0)
        super().flush()


class TableWindowJoin(JoinBase, TimedOperator):
    """Joins the rows of equal windows, when the watermark has passed their end."""

    def __init__(
        self,
        kind: JoinType,
        keys: tuple[Sequence[int], Sequence[int]],
        windows: tuple[tuple[int, int], tuple[int, int]],
        rowtime: bool,
        zone: str,
        local: bool,
        null_safe: Sequence[bool] = (),
        condition: Node | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(kind, keys, null_safe, condition, parameters)
        self._windows, self.rowtime, self.zone = windows, rowtime, zone if local else None

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Choose arrays or objects."""
        super().setup(context, output)
        #: from files: the rows of both sides of windows that are over, and how many there are
        self._due: dict[Window, tuple[list[Tuple], list[Tuple]]] = {}
        self._waiting = 0
        self._arrays: list[RowsOfWindows] = []
        if not self.in_files:
            for name, schema, keys, columns in zip(
                ("left", "right"), self.inputs, self._keys, self._windows, strict=True
            ):
                rows = RowsOfWindows(WaitingRows(keys, schema), columns, self.fires)
                self._arrays.append(rows)
                self.store.register(name, StateKind.MAP, rows.table)

    def open(self) -> None:
        """Open the state: the rows of both sides by the end of their window."""
        super().open()
        if self._arrays:
            return
        self._rows = (self.map_state("left"), self.map_state("right"))
        self.expect_all(*self._rows)

    def side(self, block: TableBlock, index: int) -> None:
        """Keep the rows of a block until their window ends."""
        if self._arrays:
            self.context.next_time()
            late = self._arrays[index].add(block, self.reached())
            if late:
                self.late.inc(late)
            return
        found: dict[tuple[Tuple, Window], list[Tuple]] = {}
        reached = self.reached()
        for key, row, kind in self.keyed_rows(block, self._keys[index], index):
            if not is_accumulate(kind):
                continue
            start, end = (row[column] // NANOS for column in self._windows[index])
            if self.fires((start, end)) <= reached:
                self.late.inc()
                continue
            found.setdefault((key, (start, end)), []).append(row)
        for (key, window), rows in found.items():
            self.store.current_key = key
            before = self._rows[index].get(window)
            self._rows[index].put(window, rows if before is None else [*before, *rows])
            if before is None:
                self.expect(key, window)

    def on_event_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Join the rows of a window."""
        if self._arrays:
            return  # a timer of a savepoint in which windows were objects
        for rows, waiting in zip(self._rows, self._due.setdefault(namespace, ([], [])), strict=True):
            some = rows.get(namespace)
            if some:
                waiting.extend(some)
                rows.remove(namespace)
                self._waiting += len(some)
        if self._waiting >= _PAIRS:
            self.flush()

    def flush(self) -> None:
        """Join the rows from files whose windows are over, and send on what was collected."""
        due, self._due, self._waiting = self._due, {}, 0
        for waiting in due.values():
            sides = zip(waiting, self.inputs, strict=True)
            self._join(*(schema.batch(rows) if rows else None for rows, schema in sides))
        super().flush()

    # ---- in arrays

    def watermark(self, watermark: int) -> None:
        """Join the windows that are over."""
        if self._arrays and self.rowtime:
            self._join_due(watermark)
        super().watermark(watermark)

    def next_tick(self) -> int | None:
        """Return when the next window of processing time is over."""
        if not self._arrays or self.rowtime:
            return super().next_tick()
        return min((due for rows in self._arrays if (due := rows.table.next()) is not None), default=None)

    def tick(self, now: int) -> None:
        """Join the windows that are over."""
        if self._arrays and not self.rowtime:
            self._join_due(now)
        super().tick(now)

    def _join_due(self, limit: int) -> None:
        self.context.next_time()
        left, right = self._arrays
        for window, batch in left.table.due(limit):
            others = right.table.take(window)
            self._join(left.contents.rows(batch), None if others is None else right.contents.rows(others))
        for _, batch in right.table.due(limit):
            self._join(None, right.contents.rows(batch))

    def _join(self, left: pa.RecordBatch | None, right: pa.RecordBatch | None) -> None:
        """Join the rows of a window."""
        met = [np.zeros(0 if rows is None else rows.num_rows, np.bool_) for rows in (left, right)]
        exists = self._kind in (JoinType.SEMI, JoinType.ANTI)
        if left is not None and right is not None:
            columns = partial(columns_of, left), partial(columns_of, right)
            lefts, rights = self._codes(left, right)
            for pairs in JoinIndex(rights).find(lefts).pairs(_PAIRS):
                fit = self.fitting(*columns, *pairs, 0)
                for side, places in zip(met, fit, strict=True):
                    side[places] = True
                if not exists:
                    self.send(columns[0](fit[0]), columns[1](fit[1]), None, 0)
        if exists and left is not None:
            wanted = np.flatnonzero(met[0] if self._kind is JoinType.SEMI else ~met[0])
            self.send(columns_of(left, wanted), [], None, 0)
        for index, rows in enumerate((left, right)):
            if rows is not None and self.is_outer(index):
                self.send_alone(columns_of(rows, np.flatnonzero(~met[index])), index)

    def _codes(self, left: pa.RecordBatch, right: pa.RecordBatch) -> tuple[Any, Any]:
        """Return numbers of the keys of both sides; those that equal nothing have numbers of their own."""
        keys = [
            pa.concat_arrays([left.column(one), right.column(other).cast(left.column(one).type)])
            for one, other in zip(*self._keys, strict=True)
        ]
        codes, _ = joint_codes([codes_of(each) for each in keys], left.num_rows + right.num_rows)
        lefts, rights = codes[: left.num_rows], codes[left.num_rows :]
        for place in self._not_null:
            if keys[place].null_count:
                nothing = keys[place].is_null().to_numpy(zero_copy_only=False)
                lefts = np.where(nothing[: left.num_rows], -1, lefts)
                rights = np.where(nothing[left.num_rows :], -2, rights)
        return lefts, rights
