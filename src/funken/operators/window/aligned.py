"""Windows whose bounds are multiples of a length: tumbling and sliding, with the default trigger and no lateness.

All keys share their windows here, so there is no timer per key: what is in flight is a dict from a window's start to
its pane, and a window fires for all keys at once, in the order of their first records. That equals the general logic,
for a window that can neither fire early nor be entered after it fired.

A block is cut once, by *slice*: the greatest length that both size and slide are multiples of, so that all records of
a slice are in the same windows. Most blocks are one slice.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from funken.columnar.block import TupleBlock
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Timestamps, Values
from funken.operators.codegen.loops import rows_of_fields
from funken.operators.results import MANY, Stride
from funken.operators.window.driver import WindowDriver, Windows
from funken.operators.window.spec import Strategy, one_key
from funken.state.delta_tables import DeltaTable, PaneTable
from funken.windowing.assigners import SlidingEventTimeWindows, SlidingProcessingTimeWindows, no_timestamp
from funken.windowing.windows import TimeWindow

_FLUSH = 16_384
"""How many results are held back at most before they are emitted (between windows)."""


class AlignedWindows(Windows):
    """Tumbling and sliding windows, in event time or processing time.

    ``panes`` may hold panes of another representation, which ``table`` turns into objects, and which fire by themselves.
    """

    def __init__(self, driver: WindowDriver) -> None:
        super().__init__(driver)
        assigner: Any = driver.spec.assigner
        self.size: int = assigner.size
        self.offset: int = assigner.offset
        sliding = isinstance(assigner, SlidingEventTimeWindows | SlidingProcessingTimeWindows)
        self.slide: int = assigner.slide if sliding else assigner.size
        self.slice = gcd(self.size, self.slide)
        self.event_time: bool = assigner.is_event_time()
        self.panes: dict[int, Any] = {}
        self.table: PaneTable = PaneTable(self.panes)
        #: the time from which on windows are open
        self.open_from: int = MIN_TIMESTAMP + 1
        self._next_due: int | None = None
        #: how many records the clock is not asked for, in processing time
        self._stride = Stride()
        #: what adds records of one slice to panes where functions can be read
        self._loops = None if driver.spec.key.target is one_key else self.contents.loops(driver, driver.key)

    def setup(self) -> None:
        """Register the panes, whose namespaces are the starts of windows."""
        self.driver.store.register(Strategy.ALIGNED.state_name, self.contents.descriptor.kind, self.table)

    def open(self) -> None:
        """Wait for the windows that were restored."""
        self._close_until(self.driver.current_watermark)
        for start in self.panes:
            self.expect(start)

    # ---- records

    def add(self, values: Values, timestamps: Timestamps) -> None:
        """File a block away."""
        if not values:
            return
        if not self.event_time:
            self._file_by_clock(values)
            return
        if timestamps is None:
            raise no_timestamp(self.driver.spec.assigner)
        earliest = min(timestamps)
        if earliest < self.open_from:
            values, timestamps = self._in_time(values, timestamps)
            if not values:
                return
            earliest = min(timestamps)
        start = earliest - (earliest - self.offset) % self.slice
        if max(timestamps) < start + self.slice:
            self._file(start, values)
        else:
            self._file_cut(values, timestamps)

    def add_fields(self, block: TupleBlock) -> bool:
        """Add tuples that came field by field to their panes; ``False``: they have to be made."""
        stamps = block.timestamps
        if self._loops is None or not self.event_time or not stamps or (earliest := min(stamps)) < self.open_from:
            return False
        start = earliest - (earliest - self.offset) % self.slice
        form, places = block.form, self.starts_around(start)
        if max(stamps) >= start + self.slice or not self._loops.takes(len(places), form):
            return False
        panes = [self._pane(place) for place in places]
        self._loops.collect(panes, rows_of_fields(block), form, block.constants.values())
        return True

    def _file_by_clock(self, values: Values) -> None:
        """Add records to the windows of the moment, a stride at a time; windows that end meanwhile fire in between."""
        next_time, done = self.driver.context.next_time, 0
        now = next_time()
        while done < len(values):
            self._tick_if_due(now)
            some = values[done : done + self._stride.records]
            self._file(now - (now - self.offset) % self.slice, some)
            done += len(some)
            before, now = now, next_time()
            self._stride.took(len(some), now - before, MANY)
        self._tick_if_due(now)

    def _tick_if_due(self, now: int) -> None:
        if self._next_due is not None and self._next_due < now and not self.driver.context.batch:
            self.driver.tick(now)

    def _in_time(self, values: Values, timestamps: list[int]) -> tuple[Values, list[int]]:
        """Sort out the records before the first open window: they are late, or in a gap between windows."""
        late: tuple[Values, list[int]] = ([], [])
        kept: tuple[Values, list[int]] = ([], [])
        for value, at in zip(values, timestamps, strict=True):
            if at >= self.open_from:
                kept[0].append(value)
                kept[1].append(at)
            elif at == MIN_TIMESTAMP:
                raise no_timestamp(self.driver.spec.assigner)
            elif at <= self.driver.current_watermark:
                late[0].append(value)
                late[1].append(at)
        self.driver.late(*late)
        return kept

    def _file(self, start: int, values: Values) -> None:
        """Add records, all of the slice that begins at ``start``, to its panes."""
        places = self.starts_around(start)
        if self._loops is not None and self._loops.takes(len(places)):
            self._loops.collect([self._pane(place) for place in places], values)
        elif len(places) == 1:
            self.contents.collect(self._pane(places[0]), zip(self.driver.keys(values), values, strict=True))
        elif places:
            pairs = list(zip(self.driver.keys(values), values, strict=True))
            for place in places:
                self.contents.collect(self._pane(place), pairs)

    def _file_cut(self, values: Values, timestamps: list[int]) -> None:
        """Add records of several slices, each pane's in the order of the block."""
        offset, length = self.offset, self.slice
        parts: dict[int, list[Any]] = {}
        parts_of: dict[int, list[list[Any]]] = {}
        targets: list[list[Any]] = []
        start, end = 0, 0
        pairs = zip(self.driver.keys(values), values, strict=True)
        for pair, at in zip(pairs, timestamps, strict=True):
            if not start <= at < end:
                start = at - (at - offset) % length
                end = start + length
                if start not in parts_of:
                    parts_of[start] = [parts.setdefault(place, []) for place in self.starts_around(start)]
                targets = parts_of[start]
            for part in targets:
                part.append(pair)
        for place, part in parts.items():
            self.contents.collect(self._pane(place), part)

    def _pane(self, start: int) -> DeltaTable:
        pane = self.panes.get(start)
        if type(pane) is DeltaTable:
            return pane
        if pane is not None:
            objects: DeltaTable = self.driver.arrays.in_objects(start)
            return objects
        pane = self.panes[start] = DeltaTable()
        self.expect(start)
        return pane

    def starts_around(self, start: int) -> range:
        """Return the starts of the windows around a slice that are not over, the newest first."""
        newest = start - (start - self.offset) % self.slide
        stop = start + self.slice - self.size
        if self.event_time and stop < self.open_from:
            stop = self.open_from
        return range(newest, stop - 1, -self.slide)

    def expect(self, start: int) -> None:
        """Remember that a window waits for its end."""
        due = self._window(start).max_timestamp()
        if self._next_due is None or due < self._next_due:
            self._next_due = due

    def _window(self, start: int) -> TimeWindow:
        return TimeWindow(start, min(start + self.size, MAX_WATERMARK))

    # ---- time

    def close(self, watermark: int) -> None:
        """Fire what ends at or before the watermark."""
        if self.event_time:
            self._close_until(watermark)
            self._fire_until(watermark)

    def _close_until(self, watermark: int) -> None:
        """Remember where the first window begins that is not over at the watermark."""
        last_over = watermark + 1 - self.size
        self.open_from = max(MIN_TIMESTAMP + 1, last_over - (last_over - self.offset) % self.slide + self.slide)

    def close_at(self, time: int) -> None:
        """Fire what ends at or before a time."""
        self._fire_until(time)

    def close_all(self) -> None:
        """Fire all windows."""
        self._fire_until(MAX_WATERMARK)

    def next_time(self) -> int | None:
        """Return when the next window ends."""
        return None if self.event_time else self._next_due

    def _fire_until(self, time: int) -> None:
        if self._next_due is None or self._next_due > time:
            return
        emitter = self.driver.emitter
        for start in sorted(self.panes):
            window = self._window(start)
            if window.max_timestamp() > time:
                self._next_due = window.max_timestamp()
                return
            if type(self.panes[start]) is DeltaTable or not self.driver.arrays.fire(start, window):
                emitter.fire_pane(window, self.table.pop(start), self.slide < self.size)
            if len(emitter.results.values) >= _FLUSH:
                emitter.flush()
        self._next_due = None
