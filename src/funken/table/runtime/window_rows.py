"""Rows of windows: Top-N and the first or last row of a window, and sessions as a table function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funken.table.logical import SortKey, WindowKind, WindowShape
from funken.table.runtime.block import TableBlock
from funken.table.runtime.keyed_blocks import sort_key
from funken.table.runtime.operator import KeyedTableOperator, TableOperator, is_accumulate, rowtimes
from funken.table.runtime.stateless import NANOS, WindowTable
from funken.table.runtime.windows import WallTime, Window

Tuple = tuple[Any, ...]


class _WindowRows(KeyedTableOperator):
    """Base: rows wait by window, and ``result`` says which of them are emitted at its end."""

    def __init__(
        self, window_columns: tuple[int, int], keys: Sequence[int], rowtime: bool, zone: str, local: bool
    ) -> None:
        self._columns, self._keys, self._rowtime, self._zone = window_columns, keys, rowtime, zone if local else None

    def open(self) -> None:
        """Open the state."""
        self._rows = self.map_state("rows")
        self._wall = WallTime(self._zone)
        self._late = self.context.metrics.counter("numLateRecordsDropped")

    def result(self, rows: list[Tuple], final: bool) -> list[Tuple]:
        """Return the rows that are needed, of a window that is over those that are emitted."""
        raise NotImplementedError

    def block(self, block: TableBlock) -> None:
        """Keep the rows of a block until their window ends."""
        known: dict[Any, list[Tuple]] = {}
        for key, row, kind in self.keyed_rows(block, self._keys):
            start, end = (row[column] // NANOS for column in self._columns)
            fires = self._wall.instant(end - 1)
            if fires <= (self.current_watermark if self._rowtime else self.now()):
                self._late.inc()
                continue
            if not is_accumulate(kind):
                continue
            window = (start, end)
            rows = known.get((key, window))
            if rows is None:
                self.store.current_key = key
                rows = known[key, window] = list(self._rows.get(window) or ())
                register = self.timers.register_event_time_timer
                if not self._rowtime:
                    register = self.timers.register_processing_time_timer
                register(key, window, fires)
            rows.append(row)
        for (key, window), rows in known.items():
            self.store.current_key = key
            self._rows.put(window, self.result(rows, False))

    def on_event_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Emit the rows of a window."""
        self.collect_all(self.result(list(self._rows.get(namespace) or ()), True))
        self._rows.remove(namespace)

    def on_processing_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Emit the rows of a window."""
        self.on_event_time(timestamp, key, namespace)


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
        self._key_of, self._start, self._end, self._number = None, start, end, number
        self._order = order

    def result(self, rows: list[Tuple], final: bool) -> list[Tuple]:
        """Return the first rows."""
        best = sorted(rows, key=sort_key(self._order))[: self._end]
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


class SessionWindowTable(KeyedTableOperator):
    """SESSION as a table function: rows with the session that they are in, when it is over."""

    def __init__(self, window: WindowShape, rowtime: bool, local: bool, zone: str) -> None:
        self._window, self._rowtime, self._zone = window, rowtime, zone if local else None

    def open(self) -> None:
        """Open the state."""
        self._sessions = self.map_state("sessions")
        self._wall = WallTime(self._zone)
        self._late = self.context.metrics.counter("numLateRecordsDropped")

    def block(self, block: TableBlock) -> None:
        """Keep the rows of a block until their session is over."""
        times = rowtimes(block, self._window.time) if self._rowtime else [self.now()] * len(block)
        for (key, row, kind), time in zip(self.keyed_rows(block, self._window.partition), times, strict=True):
            start = self._wall.local(time)
            window = (start, start + self._window.gap)
            if self._rowtime and self._wall.instant(window[1] - 1) <= self.current_watermark:
                self._late.inc()
                continue
            self.store.current_key = key
            self._add(key, window, row, kind)

    def _add(self, key: Tuple, window: Window, row: Tuple, kind: int) -> None:
        rows: list[Any] = []
        start, end = window
        for other in sorted(self._sessions.keys()):
            if other[0] <= window[1] and window[0] <= other[1]:
                rows += self._sessions.get(other)
                self._sessions.remove(other)
                self._timer(key, other, False)
                start, end = min(start, other[0]), max(end, other[1])
        self._sessions.put((start, end), [*rows, (row, kind)])
        self._timer(key, (start, end), True)

    def _timer(self, key: Tuple, window: Window, sets: bool) -> None:
        at, timers = self._wall.instant(window[1] - 1), self.timers
        if self._rowtime:
            (timers.register_event_time_timer if sets else timers.delete_event_time_timer)(key, window, at)
        else:
            (timers.register_processing_time_timer if sets else timers.delete_processing_time_timer)(key, window, at)

    def on_event_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Emit the rows of a session."""
        start, end = namespace
        last = self._wall.instant(end - 1)
        for row, kind in self._sessions.get(namespace) or ():
            self.collect((*row, start * NANOS, end * NANOS, last * NANOS), kind)
        self._sessions.remove(namespace)

    def on_processing_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Emit the rows of a session."""
        self.on_event_time(timestamp, key, namespace)


def session_or_table(window: WindowShape) -> type[TableOperator]:
    """Return the logic of a window table function."""
    return SessionWindowTable if window.kind is WindowKind.SESSION else WindowTable
