"""Aggregates of windows in columns: what ``WindowAggregate`` has in place of objects where functions and backend allow it.

Rows wait until there are many, or a window is over. Then those of each key and pane become accumulators, which are columns too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.keyed.groups import Groups
from funken.table.logical import AggregateCall, WindowKind, WindowShape
from funken.table.runtime.aggregates import PartialCalls, joined
from funken.table.runtime.block import INSERT, UPDATE_AFTER, BlockSchema, TableBlock
from funken.table.runtime.keyed_blocks import codes_of, joint_codes, numbered
from funken.table.runtime.window_arrays import (
    PaneContents,
    SessionRows,
    WindowRows,
    marks,
    named,
    stretches,
    windows_of_columns,
)
from funken.table.runtime.windows import WallTime, Window, panes_of, windows_of

Array = Any
Tuple = tuple[Any, ...]
_MANY = 4096
"""So many rows are waited for."""


class Accumulators(PaneContents):
    """Accumulators of keys; of sessions, start and end come first."""

    def __init__(self, keys: Sequence[int], calls: PartialCalls, schema: BlockSchema, sessions: bool) -> None:
        self.width = len(keys)
        self._keys, self.calls, self._schema, self._sessions = keys, calls, schema, sessions
        self._at = self.width + (3 if sessions else 1)

    def merge(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add the accumulators of equal keys, or of sessions that touch, to each other."""
        codes, count = self.codes(batch, range(self.width))
        bounds: list[Array] = []
        if self._sessions:
            starts, ends = (batch.column(self.width + place).to_numpy() for place in (1, 2))
            groups, *bounds = stretches(codes, starts, ends)
        else:
            groups = Groups(codes, count)
        if len(groups.slots) == batch.num_rows:
            return batch
        at = pa.array(groups.order.take(groups.begins))
        columns = [batch.column(place).take(at) for place in range(self.width)]
        seen = batch.column(self.width).to_numpy().take(groups.order)
        columns.append(pa.array(np.bitwise_or.reduceat(seen, groups.begins)))
        columns += map(pa.array, bounds)
        columns += self.calls.together(batch.columns[self._at :], groups)
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def codes(self, batch: pa.RecordBatch, places: Sequence[int]) -> tuple[Array, int]:
        """Return a number of each row's key."""
        return joint_codes([codes_of(batch.column(place)) for place in places], batch.num_rows)

    def of_rows(
        self, batch: pa.RecordBatch, groups: Groups, signs: Array | None, bounds: Sequence[Array] = ()
    ) -> pa.RecordBatch:
        """Return the accumulators of the rows of each group."""
        at = pa.array(groups.order.take(groups.begins))
        columns = [batch.column(place).take(at) for place in self._keys]
        columns += [marks(len(at)), *map(pa.array, bounds), *self.calls.of_rows(batch, groups, signs)]
        return named(columns)

    def accumulators(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Return the columns of accumulators."""
        return list(batch.columns[self._at :])

    def stored(self, batch: pa.RecordBatch) -> list[Any]:
        """Return accumulators as plain data: those of a window as an object."""
        values = [self._schema.values(batch.column(at), place) for at, place in enumerate(self._keys)]
        names: Any = zip(*values, strict=True) if values else [()] * batch.num_rows
        found = self.calls.stored(self.accumulators(batch))
        return [
            (name, accumulators, count, False, None) for name, (count, accumulators) in zip(names, found, strict=True)
        ]

    def loaded(self, stored: list[Any]) -> pa.RecordBatch:
        """Return accumulators that were plain data."""
        columns = [self._schema.array([each[0][at] for each in stored], place) for at, place in enumerate(self._keys)]
        columns.append(marks(len(stored)))
        return named([*columns, *self.calls.loaded([(each[2], each[1]) for each in stored])])


class AggregateArrays:
    """The open windows of ``WindowAggregate``."""

    def __init__(
        self,
        keys: Sequence[int],
        calls: Sequence[AggregateCall],
        schema: BlockSchema,
        window: WindowShape,
        columns: tuple[int, int] | None,
        wall: WallTime,
    ) -> None:
        self._keys, self._window, self._columns, self._wall = keys, window, columns, wall
        #: the watermark at which windows were looked for last; ``None``: no row is late
        self.reached: int | None = None
        sessions = window.kind is WindowKind.SESSION and columns is None
        self._contents = Accumulators(keys, PartialCalls(calls, schema), schema, sessions)
        self.table: Any
        if sessions:
            self.table = SessionRows(self._contents, self.settle, wall.instants)
        else:
            self.table = WindowRows(self._contents, self.settle, self._fires)
        self._sessions = sessions
        self._given: list[tuple[TableBlock, Array]] = []
        self._rows = 0
        #: of windows that come as columns, their numbers
        self._numbers: dict[Window, int] = {}
        self._windows: list[Window] = []

    def _fires(self, window: Window) -> int:
        return self._wall.instant(window[1] - 1)

    # ---- rows

    def add(self, block: TableBlock, times: Array | None) -> int:
        """Take the rows of a block; return the number of late ones."""
        if self._sessions:
            assert times is not None
            late = self._keep(block, times, self._in_session(times))
        elif self._columns is None:
            late = self._keep(block, panes_of(self._window, times), None)
        else:
            late = self._keep(block, self._numbered(block), None)
        if self._rows >= _MANY:
            self.settle()
        return late

    def _in_session(self, times: Array) -> Array | None:
        """Return the rows that begin a session that is not over; wait for its end."""
        fires = self._wall.instants(times + (self._window.gap - 1))
        reached = self.reached
        there = None if reached is None or int(fires.min()) > reached else fires > reached
        if there is None or there.any():
            self.table.expect(int((fires if there is None else fires[there]).min()))
        return there

    def _keep(self, block: TableBlock, places: Array, there: Array | None) -> int:
        if not self._sessions:
            for each in _different(places):
                windows = self._open(each)
                if not windows:
                    there = (np.ones(len(block), np.bool_) if there is None else there) & (places != each)
                for window in windows:
                    self.table.expect(window)
        late = 0
        if there is not None and not there.all():
            at = np.flatnonzero(there)
            late, block, places = len(block) - len(at), block.take(at), places.take(at)
        if len(block):
            self._given.append((block, places))
            self._rows += len(block)
        return late

    def _open(self, place: int) -> list[Window]:
        """Return the windows around a pane, or that of a number, that are not over."""
        windows = windows_of(self._window, place) if self._columns is None else (self._windows[place],)
        reached = self.reached
        return [window for window in windows if reached is None or self._fires(window) > reached]

    def _numbered(self, block: TableBlock) -> Array:
        """Return the numbers of the windows that rows come with."""
        assert self._columns is not None
        if len(self._windows) > _MANY and not self._given:
            self._numbers, self._windows = {}, []
        codes, windows = windows_of_columns(block.batch, self._columns, self._window.size)
        numbers = []
        for window in windows:
            number = self._numbers.get(window)
            if number is None:
                number = self._numbers[window] = len(self._windows)
                self._windows.append(window)
            numbers.append(number)
        return np.array(numbers, np.int64).take(codes)

    def settle(self) -> None:
        """Make accumulators of the rows that wait."""
        if not self._given:
            return
        given, self._given, self._rows = self._given, [], 0
        batch = joined([block.batch for block, _ in given])
        places = given[0][1] if len(given) == 1 else np.concatenate([each for _, each in given])
        signs = None
        if any(block.kinds is not None for block, _ in given):
            kinds = np.concatenate(
                [np.zeros(len(block), np.int8) if block.kinds is None else block.kinds for block, _ in given]
            )
            signs = np.where((kinds == INSERT) | (kinds == UPDATE_AFTER), 1, -1)
        if self._sessions:
            codes, _ = self._contents.codes(batch, self._keys)
            groups, *bounds = stretches(codes, places, places + self._window.gap)
            self.table.add(self._contents.of_rows(batch, groups, signs, bounds))
        else:
            self._file(batch, places, signs)

    def _file(self, batch: pa.RecordBatch, places: Array, signs: Array | None) -> None:
        """Add rows to their panes."""
        parts = [codes_of(batch.column(place)) for place in self._keys]
        one = bool((places == places[0]).all())
        groups = Groups(*joint_codes(parts if one else [numbered(places), *parts], batch.num_rows))
        found = self._contents.of_rows(batch, groups, signs)
        of_groups = places.take(groups.order.take(groups.begins))
        begins = np.append(0, np.flatnonzero(of_groups[1:] != of_groups[:-1]) + 1).tolist()
        if len(begins) > len(_different(of_groups)):
            order = np.argsort(of_groups, kind="stable")
            found, of_groups = found.take(pa.array(order)), of_groups.take(order)
            begins = np.append(0, np.flatnonzero(of_groups[1:] != of_groups[:-1]) + 1).tolist()
        for begin, end in zip(begins, [*begins[1:], len(of_groups)], strict=True):
            place = int(of_groups[begin])
            name = place if self._columns is None else self._windows[place]
            self.table.add(name, self._open(place), found.slice(begin, end - begin))

    # ---- windows that are over

    def next(self) -> int | None:
        """Return the time of the next look for windows that are over."""
        due: int | None = self.table.next()
        return due

    def pass_watermark(self, watermark: int) -> list[tuple[list[pa.Array], Array, Array]]:
        """Do as ``due``; rows of windows that are over are late from now on."""
        found = self.due(watermark)
        self.reached = watermark
        return found

    def due(self, limit: int) -> list[tuple[list[pa.Array], Array, Array]]:
        """Remove the windows that are over; return numbers of rows, keys and results, and the bounds of the windows."""
        found: list[tuple[list[pa.Array], Array, Array]] = []
        if self._sessions:
            batch, width = self.table.due(limit), self._contents.width
            if batch is not None:
                bounds = [batch.column(width + place).to_numpy() for place in (1, 2)]
                found.append((self._results(batch), bounds[0], bounds[1]))
            return found
        for (start, end), batch in self.table.due(limit):
            rows = batch.num_rows
            found.append((self._results(batch), np.full(rows, start), np.full(rows, end)))
        return found

    def _results(self, batch: pa.RecordBatch) -> list[pa.Array]:
        accumulators = self._contents.accumulators(batch)
        keys = batch.columns[: self._contents.width]
        return [accumulators[0], *keys, *self._contents.calls.results(accumulators)]


def _different(places: Array) -> list[int]:
    """Return the different numbers of an array, which are few."""
    first = places[0]
    if (places == first).all():
        return [int(first)]
    return list(map(int, np.unique(places)))
