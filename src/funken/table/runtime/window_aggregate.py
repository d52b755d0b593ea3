"""Aggregates of windows: one result per key and window when the watermark has passed its end.

State per key: the accumulators of each window that has rows. A row that comes for a window that has fired is late, and counts for
the other windows that it is in. Legacy windows may fire before their end, and again after it as long as lateness is allowed: then
results are an updating stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from funken.columnar.keyed.groups import Groups
from funken.ids import MAX_WATERMARK
from funken.operators.base import OperatorContext, Output
from funken.state.descriptors import StateKind
from funken.table.logical import AggregateCall, WindowKind, WindowProperty, WindowShape
from funken.table.runtime.aggregate_arrays import AggregateArrays
from funken.table.runtime.aggregates import AggregateCalls, PartialCalls, joined
from funken.table.runtime.block import INSERT, UPDATE_AFTER, UPDATE_BEFORE, TableBlock
from funken.table.runtime.exchange import key_tuples
from funken.table.runtime.keyed_blocks import codes_of, joint_codes
from funken.table.runtime.operator import KeyedTableOperator, checked_rowtime, is_accumulate, millis_array
from funken.table.runtime.running import GroupedRows, RunningCalls
from funken.table.runtime.stateless import NANOS, times_of
from funken.table.runtime.window_arrays import stretches, windows_of_columns
from funken.table.runtime.window_rows import TimedOperator
from funken.table.runtime.windows import Window, panes_of, united, windows_of

Tuple = tuple[Any, ...]
_FEW = 32
"""Blocks of fewer rows are handled row by row."""
_WINDOWS = "windows"
_EARLY, _LATE, _CLEAN = "early", "late", "clean"


class _Contents:
    """The contents of a window: number of rows, accumulators, fired or not, and the last emitted row."""

    __slots__ = ("accumulators", "count", "emitted", "fired", "group")

    def __init__(
        self, group: Tuple, accumulators: list[Any], count: int = 0, fired: bool = False, emitted: Any = None
    ) -> None:
        self.group, self.accumulators, self.count, self.fired, self.emitted = group, accumulators, count, fired, emitted

    def stored(self) -> Tuple:
        """Return it as plain data."""
        return self.group, self.accumulators, self.count, self.fired, self.emitted


class WindowAggregate(TimedOperator):
    """Windows of time, from a time column, or from the columns that a window table function has added."""

    def __init__(
        self,
        keys: Sequence[int],
        calls: Sequence[AggregateCall],
        window: WindowShape,
        rowtime: bool,
        properties: Sequence[WindowProperty],
        local: bool,
        zone: str,
        window_columns: tuple[int, int] | None = None,
        retracts: bool = False,
        early: int | None = None,
        late: int | None = None,
        lateness: int = 0,
        update_before: bool = True,
        bounded: bool = False,
    ) -> None:
        self._bounded = bounded
        self._keys, self._calls, self._window, self.rowtime = keys, calls, window, rowtime
        self._properties, self.zone, self._columns = properties, zone if local else None, window_columns
        self._retracts, self._early, self._late_delay, self._lateness = retracts, early, late, lateness
        self._before = update_before
        self._merges = window.kind is WindowKind.SESSION and window_columns is None

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Choose arrays or objects."""
        super().setup(context, output)
        self._waits = self._early is None and self._late_delay is None and not self._lateness
        self._arrays: AggregateArrays | None = None
        if self._waits and not self.in_files and PartialCalls.serve(self._calls, self.inputs[0], self._retracts):
            self._arrays = AggregateArrays(
                self._keys, self._calls, self.inputs[0], self._window, self._columns, self.wall
            )
            self.store.register(_WINDOWS, StateKind.MAP, self._arrays.table)

    def open(self) -> None:
        """Open the functions."""
        self._aggregates = AggregateCalls(self._calls, self.inputs[0], self.context, self._retracts)
        self._running: RunningCalls | None = None
        if self._waits and RunningCalls.serve(self._calls, self.inputs[0], self._retracts):
            self._running = RunningCalls(self._calls, self.inputs[0])
        if self._arrays is None:
            self._state: Any = self.map_state(_WINDOWS)
            self.expect_all(self._state)
        elif self.rowtime:
            self._arrays.reached = self.current_watermark
        #: by key and window, what was read or written in a block
        self._known: dict[Any, dict[Window, _Contents]] = {}

    # ---- rows

    def block(self, block: TableBlock) -> None:
        """Add the rows of a block to their windows; a window is read and written once."""
        if self._arrays is not None:
            self.context.next_time()
            late = self._arrays.add(block, None if self._columns is not None else self._times(block))
            if late:
                self.late.inc(late)
            return
        if self._running is not None and len(block) >= _FEW:
            self._whole(block, self._running)
        else:
            self._one_by_one(block)
        for key, windows in self._known.items():
            self.store.current_key = key
            for window, contents in windows.items():
                self._state.put(window, contents.stored())
        self._known.clear()

    def _one_by_one(self, block: TableBlock) -> None:
        numbers, windows = self._windows(block)
        for (key, row, kind), number in zip(self.keyed_rows(block, self._keys), numbers.tolist(), strict=True):
            self.store.current_key = key
            alive = False
            for window in windows[number]:
                if self._is_late(window):
                    continue
                alive = True
                if self._merges:
                    window = self._merged(key, window)  # noqa: PLW2901
                self._add(key, window, row, kind)
            if not alive:
                self.late.inc()

    def _whole(self, block: TableBlock, running: RunningCalls) -> None:
        """Add the rows of each key and pane, or stretch of a session, at once."""
        if self._merges:
            times = self._times(block)
            if self.rowtime:
                lasts = self.wall.instants(times + (self._window.gap - 1))
                there = np.flatnonzero(lasts > self.current_watermark)
                if len(there) < len(block):
                    self.late.inc(len(block) - len(there))
                    block, times = block.take(there), times.take(there)
                    if not len(there):
                        return
            groups, windows = self._stretches(block, times)
        else:
            groups, windows = self._panes(block)
        signs = (
            None if block.kinds is None else np.where((block.kinds == INSERT) | (block.kinds == UPDATE_AFTER), 1, -1)
        )
        scan = GroupedRows(block.batch, groups, signs)
        firsts = pa.array(groups.order.take(groups.begins))
        given = [block.batch.column(place).take(firsts) for place in self._keys]
        columns = [self.inputs[0].values(column, place) for column, place in zip(given, self._keys, strict=True)]
        names = list(zip(*columns, strict=True)) if columns else [()] * len(firsts)
        keys = key_tuples(pa.RecordBatch.from_arrays(given, list(map(str, self._keys))), range(len(given)))
        nothing = [self._aggregates.create() for _ in firsts]
        _, parts = running.states(scan, nothing)
        ones = np.ones(len(block), np.int64) if signs is None else signs.astype(np.int64)
        counts = scan.last(scan.summed(np.zeros(len(firsts), np.int64), ones)).tolist()
        rows = groups.counts.tolist()
        for key, group, of_key, part, count, some in zip(
            keys if given else names, names, windows, parts, counts, rows, strict=True
        ):
            self.store.current_key = key
            alive = [window for window in of_key if self._merges or not self._is_late(window)]
            if not alive:
                self.late.inc(some)
            for window in alive:
                self._join(key, self._merged(key, window) if self._merges else window, group, part, count)

    def _join(self, key: Tuple, window: Window, group: Tuple, part: list[Any], count: int) -> None:
        """Add what some rows of a key come to."""
        contents = self._contents(key, window)
        if contents is None:
            contents = self._known[key][window] = _Contents(group, self._aggregates.create())
            self.expect(key, window)
        contents.count += count
        self._aggregates.merge(contents.accumulators, part)

    def _times(self, block: TableBlock) -> Any:
        if self.rowtime:
            return self.wall.locals(millis_array(checked_rowtime(block, self._window.time)))
        return np.full(len(block), self.wall.local(self.now()), np.int64)

    def _windows(self, block: TableBlock) -> tuple[Any, list[list[Window]]]:
        """Return a number for each row, and the windows that the rows of each number are in."""
        if self._columns is not None:
            numbers, found = windows_of_columns(block.batch, self._columns, self._window.size)
            return numbers, [[window] for window in found]
        times = self._times(block)
        panes, numbers = np.unique(times if self._merges else panes_of(self._window, times), return_inverse=True)
        return numbers, [list(windows_of(self._window, pane)) for pane in panes.tolist()]

    def _panes(self, block: TableBlock) -> tuple[Groups, list[list[Window]]]:
        """Return the rows by key and pane, and the windows that each of these is in."""
        numbers, windows = self._windows(block)
        keys = [codes_of(block.batch.column(place)) for place in self._keys]
        groups = Groups(*joint_codes([*keys, (numbers, len(windows))], len(block)))
        return groups, [windows[number] for number in numbers.take(groups.order.take(groups.begins)).tolist()]

    def _stretches(self, block: TableBlock, times: Any) -> tuple[Groups, list[list[Window]]]:
        """Return the rows of each key between which there is no gap, and the window of each stretch."""
        codes, _ = joint_codes([codes_of(block.batch.column(place)) for place in self._keys], len(block))
        groups, starts, ends = stretches(codes, times, times + self._window.gap)
        return groups, [[window] for window in zip(starts.tolist(), ends.tolist(), strict=True)]

    def _is_late(self, window: Window) -> bool:
        if not self.rowtime:
            return False
        return self.fires(window) + self._lateness <= self.current_watermark

    def _add(self, key: Tuple, window: Window, row: Tuple, kind: int) -> None:
        contents = self._contents(key, window)
        if contents is None:
            group = tuple(row[place] for place in self._keys)
            contents = self._known[key][window] = _Contents(group, self._aggregates.create())
            self.expect(key, window)
        if is_accumulate(kind):
            contents.count += 1
            self._aggregates.accumulate(contents.accumulators, row)
        else:
            contents.count -= 1
            self._aggregates.retract(contents.accumulators, row)
        self._fire_on_row(key, window, contents)

    def _contents(self, key: Tuple, window: Window) -> _Contents | None:
        known = self._known.setdefault(key, {})
        contents = known.get(window)
        if contents is None and (stored := self._state.get(window)) is not None:
            contents = known[window] = _Contents(*stored)
        return contents

    def expect(self, key: Tuple, window: Window) -> None:
        """Wait for the end of a window, and of its lateness."""
        fires = self.fires(window)
        if not self.rowtime or fires > self.current_watermark:
            self.wait(key, window, fires)
        if self.rowtime and self._lateness:
            self.wait(key, (*window, _CLEAN), fires + self._lateness)

    # ---- early and late results

    def _fire_on_row(self, key: Tuple, window: Window, contents: _Contents) -> None:
        fires = self.fires(window)
        over = self.rowtime and fires <= self.current_watermark
        delay = self._late_delay if over else self._early
        if over and delay is None and self._lateness:
            delay = 0
        if delay is None:
            return
        if delay == 0:
            self._emit(window, contents)
        else:
            at = self.now() + delay
            self.timers.register_processing_time_timer(key, (*window, _LATE if over else _EARLY), at - at % delay)

    # ---- sessions

    def _merged(self, key: Tuple, window: Window) -> Window:
        """Merge a session of one row with those that it touches; return the session."""
        merged, touched = united(window, {*self._known.get(key, ()), *self._state.keys()})
        if touched == [merged]:
            return merged
        contents = [found for found in (self._contents(key, other) for other in touched) if found is not None]
        for other in touched:
            self._forget(key, other)
        if contents:
            first = contents[0]
            for more in contents[1:]:
                self._aggregates.merge(first.accumulators, more.accumulators)
                first.count += more.count
            self._known[key][merged] = first
            self.expect(key, merged)
        return merged

    def _forget(self, key: Tuple, window: Window) -> None:
        self._known[key].pop(window, None)
        self._state.remove(window)
        fires = self.fires(window)
        self.wait_no_more(key, window, fires)
        if self.rowtime and self._lateness:
            self.wait_no_more(key, (*window, _CLEAN), fires + self._lateness)

    # ---- results

    def watermark(self, watermark: int) -> None:
        """Emit the results of windows that are over."""
        if self._arrays is not None and self.rowtime:
            self._emit_arrays(self._arrays.pass_watermark(watermark))
        if watermark == MAX_WATERMARK and self._bounded and not self.rowtime:
            self.tick(MAX_WATERMARK)  # the clock does not go on where there is no more input
        super().watermark(watermark)

    def next_tick(self) -> int | None:
        """Return when the next window of processing time is over."""
        if self._arrays is None or self.rowtime:
            return super().next_tick()
        return self._arrays.next()

    def tick(self, now: int) -> None:
        """Emit the results of windows that are over."""
        if self._arrays is not None and not self.rowtime:
            self.context.next_time()
            self._emit_arrays(self._arrays.due(now))
        super().tick(now)

    def _emit_arrays(self, found: list[tuple[list[pa.Array], Any, Any]]) -> None:
        batches = []
        for (counts, *columns), starts, ends in found:
            fields = list(self.schema.arrow)[len(columns) :]
            bounds = [
                times_of(self._millis(each, starts, ends), field.type)
                for each, field in zip(self._properties, fields, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays([*columns, *bounds], schema=self.schema.arrow)
            batches.append(batch.filter(pc.not_equal(counts, 0)) if self._retracts else batch)
        if batches:
            self.emit(TableBlock(joined(batches)))

    def _millis(self, each: WindowProperty, starts: Any, ends: Any) -> Any:
        match each:
            case WindowProperty.START:
                return starts
            case WindowProperty.END:
                return ends
            case WindowProperty.ROWTIME:
                return self.wall.instants(ends - 1)
        return np.full(len(starts), self.now(), np.int64)

    def on_event_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Emit the result of a window, or forget it."""
        if self._arrays is not None:
            return  # a timer of a savepoint in which windows were objects
        if namespace[-1] == _CLEAN:
            self._state.remove(namespace[:2])
            return
        self._fire(namespace)

    def on_processing_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Emit the result of a window, final or early."""
        if self._arrays is not None:
            return  # a timer of a savepoint in which windows were objects
        if namespace[-1] in (_EARLY, _LATE):
            stored = self._state.get(namespace[:2])
            if stored is not None and (namespace[-1] == _LATE or not stored[3]):
                contents = _Contents(*stored)
                self._emit(namespace[:2], contents)
                self._state.put(namespace[:2], contents.stored())
            return
        self._fire(namespace)

    def _fire(self, window: Window) -> None:
        stored = self._state.get(window)
        if stored is None:
            return
        contents = _Contents(*stored)
        self._emit(window, contents)
        contents.fired = True
        if self._lateness:
            self._state.put(window, contents.stored())
        else:
            self._state.remove(window)

    def _emit(self, window: Window, contents: _Contents) -> None:
        if self._retracts and contents.count == 0:
            return
        row = (*contents.group, *self._aggregates.values(contents.accumulators), *self._of_window(window))
        before = contents.emitted
        if self._early is None and not self._lateness:
            self.collect(row)
            return
        contents.emitted = row
        if before is None:
            self.collect(row, INSERT)
        elif before != row:
            if self._before:
                self.collect(before, UPDATE_BEFORE)
            self.collect(row, UPDATE_AFTER)

    def _of_window(self, window: Window) -> Iterable[int]:
        for each in self._properties:
            match each:
                case WindowProperty.START:
                    yield window[0] * NANOS
                case WindowProperty.END:
                    yield window[1] * NANOS
                case WindowProperty.ROWTIME:
                    yield self.wall.instant(window[1] - 1) * NANOS
                case WindowProperty.PROCTIME:
                    yield self.now() * NANOS

    def close(self) -> None:
        """Close the functions."""
        if hasattr(self, "_aggregates"):
            self._aggregates.close()


class CountWindowAggregate(KeyedTableOperator):
    """Windows of a number of rows of a key: tumbling, or sliding by ``slide`` rows."""

    def __init__(self, keys: Sequence[int], calls: Sequence[AggregateCall], window: WindowShape, **other: Any) -> None:
        self._keys, self._calls, self._size = keys, calls, window.size
        self._slide = window.slide or window.size

    def open(self) -> None:
        """Open the functions."""
        self._aggregates = AggregateCalls(self._calls, self.inputs[0], self.context)
        self._state = self.value_state("rows")

    def block(self, block: TableBlock) -> None:
        """Add the rows of a block."""
        for key, row, kind in self.keyed_rows(block, self._keys):
            if not is_accumulate(kind):
                continue
            self.store.current_key = key
            seen, rows = self._state.value() or (0, [])
            rows = [*rows, row][-self._size :]
            seen += 1
            if seen >= self._size and (seen - self._size) % self._slide == 0:
                accumulators = self._aggregates.create()
                for each in rows:
                    self._aggregates.accumulate(accumulators, each)
                group = tuple(row[place] for place in self._keys)
                self.collect((*group, *self._aggregates.values(accumulators)))
            self._state.update((seen, rows))

    def close(self) -> None:
        """Close the functions."""
        if hasattr(self, "_aggregates"):
            self._aggregates.close()
