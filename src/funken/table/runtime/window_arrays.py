"""The rows of open windows as columns: batches by pane or of sessions, which are put together when a window is over.

A pane is a stretch of time whose rows are in the same windows; overlapping windows share its batches. A batch has the columns of
the key, a mark that says whether a row is in a snapshot and has changed since, and then whatever there is to keep. In snapshots
all of it is keyed state: of each key, what it has by window. That is the form in which operators keep windows as objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.keyed.groups import Groups, Stretches
from funken.state.delta_tables import StateRow, TableSnapshot
from funken.table.runtime.aggregates import RowRuns, joined
from funken.table.runtime.block import INSERT, UPDATE_AFTER, BlockSchema, TableBlock
from funken.table.runtime.exchange import key_tuples
from funken.table.runtime.keyed_blocks import codes_of, dense, firsts_of, joint_codes, numbered
from funken.table.runtime.operator import millis_array
from funken.table.runtime.windows import Window

Array = Any
Tuple = tuple[Any, ...]
NEW, SAVED = 1, 2
"""Bits of the mark of a row: it has changed since the last snapshot; it is in one."""
_AT_ONCE = 1024
_NEVER = 1 << 62


class PaneContents:
    """The contents of batches besides key and mark."""

    width: int
    """Number of columns of the key."""

    def merge(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of one window with what need not be kept apart put together."""
        return batch

    def stored(self, batch: pa.RecordBatch) -> list[Any]:
        """Return what each row is as plain data."""
        raise NotImplementedError

    def collected(self, stored: list[Any]) -> Any:
        """Return what a key has in a window, of its rows."""
        return stored[0]

    def loaded(self, stored: list[Any]) -> pa.RecordBatch:
        """Return batches, with marks, of what keys had in a window."""
        raise NotImplementedError


class OpenRows:
    """An ``OperatorTable``: per key a dict by window. ``settle`` is called before all is looked at."""

    def __init__(self, contents: PaneContents, settle: Callable[[], None]) -> None:
        self.contents, self._settle = contents, settle
        self._gone: list[pa.RecordBatch] = []

    # ---- to be overridden

    def parts(self) -> Iterator[tuple[pa.RecordBatch, Array, Array]]:
        """Yield all rows, with the starts and ends of their windows."""
        raise NotImplementedError

    def restore(self, window: Window, batch: pa.RecordBatch) -> None:
        """Add rows of a window."""
        raise NotImplementedError

    def all_runs(self) -> Iterable[RowRuns]:
        """Return where all rows are."""
        raise NotImplementedError

    # ----

    def forget(self, batch: pa.RecordBatch) -> None:
        """Remember rows that are gone, and were in a snapshot."""
        width = self.contents.width
        saved = np.flatnonzero(batch.column(width).to_numpy() & SAVED)
        if len(saved):
            kept = batch.select(range(width + 1)).take(pa.array(saved))
            self._gone.append(_marked(kept, width, NEW))

    def begin_snapshot(self, complete: bool, before_write: Callable[[StateRow], None]) -> TableSnapshot:
        """Begin a snapshot of everything, or of the keys that have changed since the last one."""
        self._settle()
        width = self.contents.width
        parts = list(self.parts())
        gone, self._gone = self._gone, []
        heads = [batch.select(range(width + 1)) for batch, _, _ in parts] + ([] if complete else gone)
        if not heads:
            return TableSnapshot(iter(()), iter(()))
        keys = joined(heads)
        codes, count = joint_codes([codes_of(keys.column(place)) for place in range(width)], keys.num_rows)
        wanted = np.full(count, complete)
        if not complete:
            wanted[codes[np.flatnonzero(keys.column(width).to_numpy() & NEW)]] = True
        rows = sum(batch.num_rows for batch, _, _ in parts)
        absent = wanted.copy()
        absent[codes[:rows]] = False
        for runs in self.all_runs():
            runs.replace(_marked(runs.whole(), width, SAVED))
        at = np.flatnonzero(absent.take(codes))
        removed = dict.fromkeys(key_tuples(keys.take(pa.array(at)), range(width)))
        return TableSnapshot(self._written(parts, codes[:rows], wanted), ((key, None) for key in removed))

    def _written(
        self, parts: list[tuple[pa.RecordBatch, Array, Array]], codes: Array, wanted: Array
    ) -> Iterator[StateRow]:
        if not parts:
            return
        batch = joined([batch for batch, _, _ in parts])
        starts, ends = (np.concatenate([part[place] for part in parts]) for place in (1, 2))
        chosen = np.flatnonzero(wanted.take(codes))
        chosen = chosen.take(np.argsort(codes.take(chosen), kind="stable"))
        last, key = -1, None
        windows: dict[Window, list[Any]] = {}
        for at in range(0, len(chosen), _AT_ONCE):
            places = chosen[at : at + _AT_ONCE]
            some = batch.take(pa.array(places))
            for code, name, start, end, stored in zip(
                codes.take(places).tolist(), key_tuples(some, range(self.contents.width)), starts.take(places).tolist(),
                ends.take(places).tolist(), self.contents.stored(some), strict=True,
            ):  # fmt: skip
                if code != last and windows:
                    yield key, None, self._entry(windows)
                    windows = {}
                last, key = code, name
                windows.setdefault((start, end), []).append(stored)
        if windows:
            yield key, None, self._entry(windows)

    def _entry(self, windows: dict[Window, list[Any]]) -> dict[Window, Any]:
        return {window: self.contents.collected(stored) for window, stored in windows.items()}

    def load(self, rows: Iterable[StateRow]) -> None:
        """Add rows of a snapshot."""
        found: dict[Window, list[Any]] = {}
        for _, _, windows in rows:
            for window, stored in windows.items():
                found.setdefault(window, []).append(stored)
        for window, some in found.items():
            self.restore(window, _marked(self.contents.loaded(some), self.contents.width, SAVED))

    def __len__(self) -> int:
        return sum(map(len, self.all_runs()))


def _marked(batch: pa.RecordBatch, width: int, mark: int) -> pa.RecordBatch:
    columns = batch.columns
    columns[width] = pa.array(np.full(batch.num_rows, mark, np.int8))
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def marks(count: int) -> pa.Array:
    """Return the marks of new rows."""
    return pa.array(np.full(count, NEW, np.int8))


class _Pane:
    """The rows of a stretch of time, and the windows around it that are not over."""

    __slots__ = ("runs", "windows")

    def __init__(self, runs: RowRuns, windows: list[Window]) -> None:
        self.runs, self.windows = runs, windows


class WindowRows(OpenRows):
    """The rows of windows that keys have in common. ``fires`` says when a window is over."""

    def __init__(self, contents: PaneContents, settle: Callable[[], None], fires: Callable[[Window], int]) -> None:
        super().__init__(contents, settle)
        self._fires = fires
        self._panes: dict[Any, _Pane] = {}
        self._open: dict[Window, list[Any]] = {}
        self._waiting: list[tuple[int, Window]] = []

    def add(self, name: Any, windows: Sequence[Window], batch: pa.RecordBatch) -> None:
        """Add rows of a pane, which is in some windows that are not over."""
        pane = self._panes.get(name)
        if pane is None:
            pane = self._panes[name] = _Pane(RowRuns(self.contents.merge), list(windows))
            for window in windows:
                self.expect(window)
                self._open[window].append(name)
        pane.runs.add(batch)

    def expect(self, window: Window) -> None:
        """Wait for the end of a window."""
        if window not in self._open:
            self._open[window] = []
            heappush(self._waiting, (self._fires(window), window))

    def next(self) -> int | None:
        """Return when the next window is over."""
        return self._waiting[0][0] if self._waiting else None

    def due(self, limit: int) -> Iterator[tuple[Window, pa.RecordBatch]]:
        """Remove the windows that are over, and yield their rows."""
        if not self._waiting or self._waiting[0][0] > limit:
            return
        self._settle()
        while self._waiting and self._waiting[0][0] <= limit:
            window = self._waiting[0][1]
            batch = self.take(window)
            if batch is not None:
                yield window, batch

    def take(self, window: Window) -> pa.RecordBatch | None:
        """Remove a window, and return its rows, if it has some."""
        names = self._open.pop(window, None)
        while self._waiting and self._waiting[0][1] not in self._open:
            heappop(self._waiting)
        if not names:
            return None
        batch = self._rows(names)
        for name in names:
            windows = self._panes[name].windows
            windows.remove(window)
            if not windows:
                del self._panes[name]
        self.forget(batch)
        return batch

    def _rows(self, names: list[Any]) -> pa.RecordBatch:
        batches = [self._panes[name].runs.whole() for name in names]
        return batches[0] if len(batches) == 1 else self.contents.merge(joined(batches))

    def parts(self) -> Iterator[tuple[pa.RecordBatch, Array, Array]]:
        """Yield the rows of each window."""
        for window, names in self._open.items():
            if names:
                batch = self._rows(names)
                yield batch, *(np.full(batch.num_rows, each) for each in window)

    def restore(self, window: Window, batch: pa.RecordBatch) -> None:
        """Add rows of a window as a pane of its own."""
        self.add(window, [window], batch)

    def all_runs(self) -> Iterable[RowRuns]:
        """Return the rows of each pane."""
        return [pane.runs for pane in self._panes.values()]


class SessionRows(OpenRows):
    """The rows of sessions: start and end are columns behind the mark. ``instants`` are those of an array of local times."""

    def __init__(self, contents: PaneContents, settle: Callable[[], None], instants: Callable[[Array], Array]) -> None:
        super().__init__(contents, settle)
        self._instants = instants
        self._runs = RowRuns(contents.merge)
        self._next = _NEVER

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self._runs.add(batch)

    def expect(self, first_end: int) -> None:
        """Wait for a session."""
        self._next = min(self._next, first_end)

    def next(self) -> int | None:
        """Return before when no session is over."""
        return None if self._next == _NEVER else self._next

    def due(self, limit: int) -> pa.RecordBatch | None:
        """Remove the sessions that are over, and return them, if there are any."""
        if self._next == _NEVER or self._next > limit:
            return None
        self._settle()
        batch, width = self._runs.whole(), self.contents.width
        fires = self._instants(batch.column(width + 2).to_numpy() - 1)
        over = fires <= limit
        left = batch.filter(pa.array(~over))
        self._next = int(fires[~over].min()) if left.num_rows else _NEVER
        if left.num_rows:
            self._runs.replace(left)
        else:
            self._runs = RowRuns(self.contents.merge)
        done = np.flatnonzero(over)
        if not len(done):
            return None
        found = batch.take(pa.array(done.take(np.argsort(fires.take(done), kind="stable"))))
        self.forget(found)
        return found

    def parts(self) -> Iterator[tuple[pa.RecordBatch, Array, Array]]:
        """Yield all rows."""
        if len(self._runs):
            batch, width = self._runs.whole(), self.contents.width
            yield batch, batch.column(width + 1).to_numpy(), batch.column(width + 2).to_numpy()

    def restore(self, window: Window, batch: pa.RecordBatch) -> None:
        """Add rows of sessions."""
        width = self.contents.width
        bounds = [pa.array(np.full(batch.num_rows, each)) for each in window]
        columns = [*batch.columns[: width + 1], *bounds, *batch.columns[width + 1 :]]
        self._runs.add(named(columns))
        self.expect(int(self._instants(np.array([window[1] - 1]))[0]))

    def all_runs(self) -> Iterable[RowRuns]:
        """Return where the rows are."""
        return [self._runs] if len(self._runs) else []


def named(columns: Sequence[pa.Array]) -> pa.RecordBatch:
    """Return columns as a batch."""
    return pa.RecordBatch.from_arrays(list(columns), [str(place) for place in range(len(columns))])


class WaitingRows(PaneContents):
    """Rows as they came, behind their key and mark."""

    def __init__(self, keys: Sequence[int], schema: BlockSchema) -> None:
        self.width = len(keys)
        self.keys, self._schema = keys, schema

    def batch(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return new rows with key and mark."""
        return named([*(rows.column(place) for place in self.keys), marks(rows.num_rows), *rows.columns])

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch."""
        return pa.RecordBatch.from_arrays(batch.columns[self.width + 1 :], schema=self._schema.arrow)

    def stored(self, batch: pa.RecordBatch) -> list[Any]:
        """Return rows as tuples."""
        return self._schema.tuples(self.rows(batch))

    def collected(self, stored: list[Any]) -> Any:
        """Return the rows of a key."""
        return stored

    def loaded(self, stored: list[Any]) -> pa.RecordBatch:
        """Return rows that were tuples."""
        return self.batch(self._schema.batch([row for rows in stored for row in rows]))


class RowsOfWindows:
    """Insertions that wait for the end of the window whose bounds are in two of their columns; ``fires`` says when that is."""

    def __init__(self, contents: WaitingRows, columns: tuple[int, int], fires: Callable[[Window], int]) -> None:
        self.contents, self._columns, self._fires = contents, columns, fires
        self.table = WindowRows(contents, lambda: None, fires)

    def add(self, block: TableBlock, reached: int) -> int:
        """Take the rows of a block; return how many are late."""
        if block.kinds is not None:
            block = block.take(np.flatnonzero((block.kinds == INSERT) | (block.kinds == UPDATE_AFTER)))
        if not len(block):
            return 0
        codes, windows = windows_of_columns(block.batch, self._columns)
        late = 0
        batch = self.contents.batch(block.batch)
        for number, window in enumerate(windows):
            some = batch
            if len(windows) > 1:
                some = batch.take(pa.array(np.flatnonzero(codes == number)))
            if self._fires(window) <= reached:
                late += some.num_rows
            else:
                self.table.add(window, [window], some)
        return late


def windows_of_columns(batch: pa.RecordBatch, columns: tuple[int, int], size: int = 0) -> tuple[Array, list[Window]]:
    """Return the windows whose bounds are in columns (-1: it is the other bound that is there), and the number of each row's."""
    bounds: list[Any] = [None if place < 0 else millis_array(batch.column(place)) for place in columns]
    start, end = bounds
    if start is None:
        start = end - size
    if end is None:
        end = start + size
    if (start == start[0]).all() and (end == end[0]).all():
        return np.zeros(len(start), np.int64), [(int(start[0]), int(end[0]))]
    codes, count = dense(joint_codes([numbered(start), numbered(end)], len(start))[0])
    firsts = firsts_of(codes, count)
    return codes, list(zip(start.take(firsts).tolist(), end.take(firsts).tolist(), strict=True))


def stretches(codes: Array, starts: Array, ends: Array) -> tuple[Groups, Array, Array]:
    """Return rows of numbered keys by session, whose parts touch each other, and the bounds of each session.

    >>> groups, starts, ends = stretches(np.array([0, 1, 0, 0]), np.array([5, 0, 0, 20]), np.array([9, 9, 5, 21]))
    >>> groups.of_records().tolist(), starts.tolist(), ends.tolist()
    ([0, 2, 0, 1], [0, 20, 0], [9, 21, 9])
    """
    found = Stretches(codes, starts, ends)
    groups = Groups(found.of_intervals(), len(found.keys))
    return groups, found.starts.take(groups.slots), found.ends.take(groups.slots)
