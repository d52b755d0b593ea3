"""Joins by time: of intervals, of versions, of windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.keyed.groups import JoinIndex
from funken.expr.ir import Node, input_refs
from funken.ids import MAX_WATERMARK
from funken.operators.base import OperatorContext, Output
from funken.state.descriptors import StateKind
from funken.table.logical import JoinType
from funken.table.runtime.block import TableBlock
from funken.table.runtime.joins import JoinBase
from funken.table.runtime.keyed_blocks import codes_of, joint_codes
from funken.table.runtime.operator import is_accumulate, rowtimes
from funken.table.runtime.stateless import NANOS, Expressions
from funken.table.runtime.window_arrays import RowsOfWindows, WaitingRows
from funken.table.runtime.window_rows import TimedOperator
from funken.table.runtime.windows import Window

Tuple = tuple[Any, ...]
_PAIRS = 1 << 14
"""About so many pairs are computed at a time."""


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

    def open(self) -> None:
        """Open the state: lists of rows, each with whether it had a partner, by time."""
        super().open()
        self._rows = (self.map_state("left"), self.map_state("right"))

    def side(self, block: TableBlock, index: int) -> None:
        """Join the rows of a block with those of the other side."""
        reached = self.reached()
        times = rowtimes(block, self._times[index]) if self.rowtime else [reached] * len(block)
        for (key, row, kind), time in zip(self.keyed_rows(block, self._keys[index], index), times, strict=True):
            if not is_accumulate(kind):
                continue
            self.store.current_key = key
            met = self._meet(row, time, index) if self.has_partners(key) else False
            low, high = time + self._reach[index][0], time + self._reach[index][1]
            if reached < high and self.has_partners(key) and low <= high:
                rows = self._rows[index]
                rows.put(time, [*(rows.get(time) or ()), [row, met]])
                self.wait(key, (index, time), high + 1)
            elif not met and self.is_outer(index):
                self.collect(self.padded(row, index))

    def _meet(self, row: Tuple, time: int, index: int) -> bool:
        low, high = time + self._reach[index][0], time + self._reach[index][1]
        other = self._rows[1 - index]
        met = False
        for at, entries in sorted(other.items()):
            if not low <= at <= high:
                continue
            mask = self.matching(row, [entry[0] for entry in entries], index)
            if not any(mask):
                continue
            met = True
            for entry, matches in zip(entries, mask, strict=True):
                if matches:
                    self.collect(self.pair(row, entry[0], index))
            if self.is_outer(1 - index):
                other.put(at, [[entry[0], entry[1] or matches] for entry, matches in zip(entries, mask, strict=True)])
        return met

    def on_event_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Let the rows of a time go."""
        index, time = namespace
        entries = self._rows[index].get(time) or ()
        if self.is_outer(index):
            for row, met in entries:
                if not met:
                    self.collect(self.padded(row, index))
        self._rows[index].remove(time)

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
            for row, kind in rows:
                self._emit(row, kind, version, self.has_partners(key))
            self._left.remove(time)
        for at, _ in [each for each in versions if each[0] <= reached][:-1]:
            self._right.remove(at)

    def _emit(self, row: Tuple, kind: int, version: Tuple | None, has: bool) -> None:
        if has and version is not None and self.matching(row, [version], 0)[0]:
            self.collect(self.pair(row, version, 0), kind)
        elif self._kind is JoinType.LEFT:
            self.collect(self.padded(row, 0), kind)


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
            if self._condition is not None:
                self._kept = Expressions([self._condition], self, self._parameters)
            self._read = set() if self._condition is None else input_refs(self._condition)
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
        left, right = (list(rows.get(namespace) or ()) for rows in self._rows)
        for rows, some in zip(self._rows, (left, right), strict=True):
            if some:
                rows.remove(namespace)
        if self._kind is JoinType.INNER and (not left or not right or self.predicate is not None):
            matches = self.predicate
            if left and right and matches is not None and self.has_partners(key):
                self.collect_rows([(*row, *other) for row in left for other in right if matches(row, other)])
            return
        met = [False] * len(right)
        has = self.has_partners(key)
        for row in left:
            mask = self.matching(row, right, 0) if has else [False] * len(right)
            self._emit(row, right, mask)
            met = [one or other for one, other in zip(met, mask, strict=True)]
        if self._kind.pads_left:
            self.collect_all(self.padded(row, 1) for row, found in zip(right, met, strict=True) if not found)

    def _emit(self, row: Tuple, right: list[Tuple], mask: list[bool]) -> None:
        if self._kind is JoinType.SEMI or self._kind is JoinType.ANTI:
            if any(mask) is (self._kind is JoinType.SEMI):
                self.collect(row)
        elif any(mask):
            self.collect_all(self.pair(row, other, 0) for other, matches in zip(right, mask, strict=True) if matches)
        elif self._kind.pads_right:
            self.collect(self.padded(row, 0))

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
        left, right = (rows.table for rows in self._arrays)
        for window, batch in left.due(limit):
            self._join(batch, right.take(window))
        for _, batch in right.due(limit):
            self._join(None, batch)

    def _join(self, *given: pa.RecordBatch | None) -> None:
        """Join the rows of a window."""
        left, right = (
            None if batch is None else rows.contents.rows(batch)
            for batch, rows in zip(given, self._arrays, strict=True)
        )
        met = [np.zeros(0 if rows is None else rows.num_rows, np.bool_) for rows in (left, right)]
        exists = self._kind in (JoinType.SEMI, JoinType.ANTI)
        if left is not None and right is not None:
            for pairs in self._pairs(left, right):
                for side, places in zip(met, pairs, strict=True):
                    side[places] = True
                if not exists:
                    self._emit_rows(self._columns(left, pairs[0], 0) + self._columns(right, pairs[1], 1))
        if exists and left is not None:
            wanted = np.flatnonzero(met[0] if self._kind is JoinType.SEMI else ~met[0])
            self._emit_rows(self._columns(left, wanted, 0))
        for index, rows in enumerate((left, right)):
            if rows is not None and self.is_outer(index):
                alone = np.flatnonzero(~met[index])
                pads = [pa.nulls(len(alone), field.type) for field in self.inputs[1 - index].arrow]
                own = self._columns(rows, alone, index)
                self._emit_rows(own + pads if index == 0 else pads + own)

    def _emit_rows(self, columns: list[pa.Array]) -> None:
        if len(columns[0]):
            self.emit(TableBlock(pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow)))

    def _columns(self, rows: pa.RecordBatch, places: Any, index: int, read: set[int] | None = None) -> list[pa.Array]:
        """Return the columns of some rows; those that are not read are NULL."""
        at, first = pa.array(places), 0 if index == 0 else len(self.inputs[0])
        return [
            column.take(at) if read is None or first + place in read else pa.nulls(len(at), column.type)
            for place, column in enumerate(rows.columns)
        ]

    def _pairs(self, left: pa.RecordBatch, right: pa.RecordBatch) -> Iterator[tuple[Any, Any]]:
        """Yield the places of the rows that meet."""
        lefts, rights = self._codes(left, right)
        read = self._read
        for pairs in JoinIndex(rights).find(lefts).pairs(_PAIRS):
            if self._kept is None:
                yield pairs
                continue
            columns = self._columns(left, pairs[0], 0, read) + self._columns(right, pairs[1], 1, read)
            mask = self._kept.mask(pa.RecordBatch.from_arrays(columns, schema=self._both.arrow))
            fit = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
            yield pairs[0].take(fit), pairs[1].take(fit)

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
