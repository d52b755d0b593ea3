"""Rows of windows: Top-N and the first or last row of a window, and sessions as a table function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from funken.operators.base import OperatorContext, Output
from funken.state.backend import slots_of
from funken.state.keyed import NO_KEY
from funken.table.logical import SortKey, WindowKind, WindowShape
from funken.table.runtime.block import TableBlock
from funken.table.runtime.keyed_blocks import sort_key
from funken.table.runtime.operator import KeyedTableOperator, TableOperator, is_accumulate, rowtimes
from funken.table.runtime.stateless import NANOS, WindowTable
from funken.table.runtime.window_arrays import windows_of_columns
from funken.table.runtime.windows import WallTime, Window, united

Tuple = tuple[Any, ...]


class TimedOperator(KeyedTableOperator):
    """Base of the operators that keep something by key until a window ends, in event time (``rowtime``) or processing time.

    Bounds of windows are wall times of ``zone`` (``None``: UTC).
    """

    rowtime: bool
    zone: str | None = None

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self.wall = WallTime(self.zone)
        self.late = context.metrics.counter("numLateRecordsDropped")

    def reached(self) -> int:
        """Return how far time has come."""
        return self.current_watermark if self.rowtime else self.now()

    def fires(self, window: Window) -> int:
        """Return when a window is over."""
        return self.wall.instant(window[1] - 1)

    def wait(self, key: Tuple, namespace: Any, at: int) -> None:
        """Have ``on_event_time`` called at a time, in either time."""
        timers = self.timers
        register = timers.register_event_time_timer if self.rowtime else timers.register_processing_time_timer
        register(key, namespace, at)

    def wait_no_more(self, key: Tuple, namespace: Any, at: int) -> None:
        """Take ``wait`` back."""
        timers = self.timers
        delete = timers.delete_event_time_timer if self.rowtime else timers.delete_processing_time_timer
        delete(key, namespace, at)

    def expect(self, key: Tuple, window: Window) -> None:
        """Wait for the end of a window."""
        self.wait(key, window, self.fires(window))

    def expect_all(self, *states: Any) -> None:
        """Wait for the windows that were restored."""
        for state in states:
            self.expect_restored(state, lambda window: self.expect(self.store.current_key, window))

    def expect_restored(self, state: Any, expect: Callable[[Any], None]) -> None:
        """Call ``expect`` with all names of a restored map state, with their keys current: names in arrays have no timers."""
        if not self.context.restored:
            return
        keys: list[Any] = list(slots_of(state.table))
        for key in keys:
            self.store.current_key = key
            for name in list(state.keys()):
                expect(name)
        self.store.current_key = NO_KEY

    def on_processing_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Do as in event time."""
        self.on_event_time(timestamp, key, namespace)


class WindowExtremes(TableOperator):
    """Drops rows behind another row of their window, where only its greatest or least are needed.

    An operator without state: after a restore it passes on more rows. A row that is late here may be late where the extreme
    is computed, so it takes no other one's place.
    """

    def __init__(self, column: int, greatest: bool, window_columns: tuple[int, int], local: bool, zone: str) -> None:
        self._column, self._greatest, self._columns = column, greatest, window_columns
        self._zone = zone if local else None

    def open(self) -> None:
        """Begin without windows."""
        self._wall = WallTime(self._zone)
        #: of each window that is not over: its extreme so far
        self._best: dict[Window, int] = {}

    def block(self, block: TableBlock) -> None:
        """Pass on the rows that are not behind."""
        column = block.batch.column(self._column)
        if column.null_count:  # equal to nothing
            block = block.take(np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)))
            column = block.batch.column(self._column)
        if not len(block):
            return
        width = pa.int64() if column.type.bit_width == 64 else pa.int32()
        whole = column if pa.types.is_integer(column.type) else column.view(width)
        values = whole.to_numpy().astype(np.int64, copy=False)
        values = values if self._greatest else ~values  # a number and its complement are in opposite orders
        codes, windows = windows_of_columns(block.batch, self._columns)
        bests = np.full(len(windows), np.iinfo(np.int64).min)
        np.maximum.at(bests, codes, values)
        for number, window in enumerate(windows):
            best = self._best.get(window, np.iinfo(np.int64).min)
            if self._wall.instant(window[1] - 1) > self.current_watermark:
                best = self._best[window] = max(best, int(bests[number]))
            bests[number] = best
        kept = np.flatnonzero(values >= bests.take(codes))
        self.emit(block.take(kept) if len(kept) < len(block) else block)

    def watermark(self, watermark: int) -> None:
        """Forget the windows that are over."""
        over = [window for window in self._best if self._wall.instant(window[1] - 1) <= watermark]
        for window in over:
            del self._best[window]
        super().watermark(watermark)


class _WindowRows(TimedOperator):
    """Base: rows wait by window, and ``result`` says which of them are emitted at its end."""

    def __init__(
        self, window_columns: tuple[int, int], keys: Sequence[int], rowtime: bool, zone: str, local: bool
    ) -> None:
        self._columns, self._keys, self.rowtime, self.zone = window_columns, keys, rowtime, zone if local else None

    def open(self) -> None:
        """Open the state."""
        self._rows = self.map_state("rows")

    def result(self, rows: list[Tuple], final: bool) -> list[Tuple]:
        """Return the rows that are needed, of a window that is over those that are emitted."""
        raise NotImplementedError

    def block(self, block: TableBlock) -> None:
        """Keep the rows of a block until their window ends."""
        known: dict[Any, list[Tuple]] = {}
        for key, row, kind in self.keyed_rows(block, self._keys):
            start, end = (row[column] // NANOS for column in self._columns)
            window = (start, end)
            if self.fires(window) <= self.reached():
                self.late.inc()
                continue
            if not is_accumulate(kind):
                continue
            rows = known.get((key, window))
            if rows is None:
                self.store.current_key = key
                rows = known[key, window] = list(self._rows.get(window) or ())
                self.expect(key, window)
            rows.append(row)
        for (key, window), rows in known.items():
            self.store.current_key = key
            self._rows.put(window, self.result(rows, False))

    def on_event_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Emit the rows of a window."""
        self.collect_all(self.result(list(self._rows.get(namespace) or ()), True))
        self._rows.remove(namespace)


class WindowRank(_WindowRows):
    """Top-N of each window and partition."""

    def __init__(
        self,
        window_columns: tuple[int, int],
        partition: Sequence[int],
        order: Sequence[SortKey],
        start: int,
        end: int,
        number: bool,
        rowtime: bool,
        zone: str,
        local: bool,
    ) -> None:
        super().__init__(window_columns, partition, rowtime, zone, local)
        self._key_of, self._start, self._end, self._number = sort_key(order), start, end, number

    def result(self, rows: list[Tuple], final: bool) -> list[Tuple]:
        """Return the first rows."""
        best = sorted(rows, key=self._key_of)[: self._end]
        if not final:
            return best
        some = best[self._start - 1 :]
        return [(*row, self._start + place) for place, row in enumerate(some)] if self._number else some


class WindowDeduplicate(_WindowRows):
    """The first or last row by time of each window and key."""

    def __init__(
        self,
        window_columns: tuple[int, int],
        keys: Sequence[int],
        time: int,
        last: bool,
        rowtime: bool,
        zone: str,
        local: bool,
    ) -> None:
        super().__init__(window_columns, keys, rowtime, zone, local)
        self._time, self._last = time, last

    def result(self, rows: list[Tuple], final: bool) -> list[Tuple]:
        """Return the row that is kept: of equal times the first, or the last."""
        if not rows:
            return []
        if not self._last:
            return [min(rows, key=lambda row: row[self._time])]
        return [max(reversed(rows), key=lambda row: row[self._time])]


class SessionWindowTable(TimedOperator):
    """SESSION as a table function: rows with the session that they are in, when it is over."""

    def __init__(self, window: WindowShape, rowtime: bool, local: bool, zone: str) -> None:
        self._window, self.rowtime, self.zone = window, rowtime, zone if local else None

    def open(self) -> None:
        """Open the state."""
        self._sessions = self.map_state("sessions")

    def block(self, block: TableBlock) -> None:
        """Keep the rows of a block until their session is over."""
        times = rowtimes(block, self._window.time) if self.rowtime else [self.now()] * len(block)
        for (key, row, kind), time in zip(self.keyed_rows(block, self._window.partition), times, strict=True):
            start = self.wall.local(time)
            window = (start, start + self._window.gap)
            if self.rowtime and self.fires(window) <= self.current_watermark:
                self.late.inc()
                continue
            self.store.current_key = key
            self._add(key, window, row, kind)

    def _add(self, key: Tuple, window: Window, row: Tuple, kind: int) -> None:
        rows: list[Any] = []
        session, touched = united(window, self._sessions.keys())
        for other in touched:
            rows += self._sessions.get(other)
            self._sessions.remove(other)
            self.wait_no_more(key, other, self.fires(other))
        self._sessions.put(session, [*rows, (row, kind)])
        self.expect(key, session)

    def on_event_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Emit the rows of a session."""
        start, end = namespace
        last = self.fires(namespace)
        for row, kind in self._sessions.get(namespace) or ():
            self.collect((*row, start * NANOS, end * NANOS, last * NANOS), kind)
        self._sessions.remove(namespace)


def session_or_table(window: WindowShape) -> type[TableOperator]:
    """Return the logic of a window table function."""
    return SessionWindowTable if window.kind is WindowKind.SESSION else WindowTable
