"""The operator of all windows: one driver for every assigner, trigger and form of a block.

``Windows`` know which windows records are in, keep their contents as objects, and know which are over. Where the plan has read
the program's functions, ``WindowArrays`` (``operators/columnar``) do the same for blocks of columns, in front of them. The driver
gives each block to one of both, owns the clocks, the late records and the results, and is all that the task sees.

In ``BATCH`` no record is late and time stands still until the input has ended; then everything fires, processing-time windows
too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from math import gcd
from typing import TYPE_CHECKING, Any

from funken.columnar.block import Block, TupleBlock
from funken.errors import StateError, StateNotKeyed
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.io.durations import FEW_MS, in_ms, in_words
from funken.operators.base import Operator, OperatorContext, Output, Timestamps, Values
from funken.operators.user_functions import KIND, MANY, Stride, check_of_first
from funken.operators.window.contents import PaneLoops, WindowEmitter
from funken.operators.window.spec import Strategy, length_of, one_key
from funken.state.delta_tables import DeltaTable, KeyedDeltaTable, PaneTable
from funken.state.descriptors import StateKind
from funken.state.keyed import NO_KEY, KeyedStateStore
from funken.state.keygroups import normal_keys
from funken.timing.instants import BlockBounds
from funken.windowing.assigners import (
    CountTumblingWindowAssigner,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    no_timestamp,
)
from funken.windowing.triggers import NeverTrigger
from funken.windowing.windows import CountWindow, GlobalWindow, TimeWindow

if TYPE_CHECKING:
    from funken.operators.window.spec import WindowSpec


class Windows:
    """The open windows of one operator, of one kind: a subclass per kind of assigner, and one for any trigger."""

    def __init__(self, driver: WindowDriver) -> None:
        self.driver = driver
        self.contents = driver.contents

    def setup(self) -> None:
        """Register what is saved, before anything is restored."""

    def open(self) -> None:
        """Go on with what was restored."""

    def add(self, values: Values, timestamps: Timestamps) -> None:
        """Assign records to windows, add them to their contents, and fire what that makes due."""
        raise NotImplementedError

    def add_fields(self, block: TupleBlock) -> bool:
        """Add tuples that came field by field; ``False``: they have to be made first."""
        return False

    def close(self, watermark: int) -> None:
        """Fire the event-time windows that end at or before ``watermark``."""

    def close_at(self, time: int) -> None:
        """Fire the processing-time windows that end at or before ``time``."""

    def close_all(self) -> None:
        """Fire everything that waits for a time (``BATCH``)."""

    def finish(self) -> None:
        """Say what the end of the input leaves open."""

    def next_time(self) -> int | None:
        """Return when the next processing-time window ends."""
        return None


class WindowDriver(Operator):
    """Gives blocks to windows, and their results to the output."""

    store: KeyedStateStore

    def __init__(self, spec: WindowSpec) -> None:
        self.spec = spec
        self.contents = spec.contents.build()
        self.key = spec.key.bind()
        merging = isinstance(spec.assigner, MergingWindowAssigner)
        self.emitter = WindowEmitter(self, self.contents, spec.contents.many, spec.function, merging)
        self.windows = spec.windows(self)
        self.use(spec.arrays(self))
        function = getattr(spec.contents, "function", None)
        self._check = None if function is None else check_of_first(function)

    def use(self, arrays: Any) -> None:
        """Take blocks of columns with ``arrays`` (``WindowArrays``), if there are some."""
        self.arrays = arrays
        self.columnar = arrays is not None
        self.takes_fields = type(self.windows).add_fields is not Windows.add_fields

    def without_timestamps(self, values: Values) -> list[int]:
        """Return the timestamps of records for sessions that have none, which Flink takes too, with a warning."""
        self.context.warn(
            "timestamps",
            f"its {self.spec.assigner!r} gets records without timestamps: all count as of one moment before all times, so each "
            "key has one session. Call assign_timestamps_and_watermarks(...) with a timestamp assigner before the window, or use "
            "processing-time sessions.",
        )
        return [MIN_TIMESTAMP] * len(values)

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        if context.keyed is None:
            raise StateNotKeyed(
                f"operator {context.operator!r} is a window without keyed state: its node must be keyed, "
                "with ONE_KEY for windows over all records."
            )
        self.store = context.keyed
        self.emitter.results.configure(context)
        self._late = context.metrics.counter("numLateRecordsDropped")
        self.windows.setup()

    def restore(self, snapshot: Any) -> None:
        """Refuse it: all that windows save is keyed state."""
        raise StateError(
            f"operator {self.context.operator!r} is a window, but its saved state is not that of a "
            "window of this version. Give it another uid, and allow state that is not restored."
        )

    def open(self) -> None:
        """Go on with the windows that were restored, and open the user's functions."""
        self.windows.open()
        if self.arrays is not None:
            self.arrays.open()
        self.spec.contents.open(self.context)
        self.emitter.open()
        if isinstance(self.spec.chosen_trigger(), NeverTrigger):
            self.context.warn(
                KIND,
                "its windows never fire, because GlobalWindows have no trigger of their own. Give one, as in "
                "trigger(PurgingTrigger.of(CountTrigger.of(100))).",
            )
        length, slide = length_of(self.spec.assigner), getattr(self.spec.assigner, "slide", 0)
        if length is not None and slide > length:
            self.context.warn(
                "gaps",
                f"its windows of {in_words(length)} begin every {in_words(slide)}, so records between two windows are in none. "
                "The size comes first: of(size, slide).",
            )
        if length is not None and 0 < length <= FEW_MS and not self.spec.assigner.is_event_time():
            self.context.warn("units", in_ms("its windows last", length))

    def finish(self) -> None:
        """Warn of windows whose time does not come any more."""
        if self.next_tick() is not None:
            self.context.warn(
                "open windows",
                "the input ended before its processing-time windows did, so their records are in no result. Use windows by event "
                "time for input that ends, or RuntimeExecutionMode.BATCH.",
            )
        self.windows.finish()

    def close(self) -> None:
        """Close the user's functions."""
        try:
            self.emitter.close()
        finally:
            self.spec.contents.close()

    # ---- records

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Add records one by one."""
        if self._check is not None and len(values):
            check, self._check = self._check, None
            check(values[0])
        if self.arrays is not None:
            self.arrays.give_back()
        self.windows.add(values, timestamps)

    def process_block(self, block: Block) -> None:
        """Add a block in the form in which it came, if it can be."""
        if self.arrays is None:
            self._in_rows(block)
        else:
            self.arrays.take(block, self._in_rows)

    def _in_rows(self, block: Block) -> None:
        if self.arrays is not None:
            self.arrays.give_back()
        by_record = self._check is not None or type(block) is not TupleBlock
        if by_record or not self.windows.add_fields(block):
            self.process(*block.rows())

    def keys(self, values: Values) -> list[Any]:
        """Return the keys of records."""
        if self.spec.key.target is one_key:
            return [0] * len(values)
        key_of = self.key
        rest = iter(values)  # a failure names the record at which it stands
        return normal_keys([key_of(value) for value in rest])

    def late(self, values: Values, timestamps: list[int]) -> None:
        """Take records that came too late for every window: to the side output, or out of the stream and counted."""
        if not values:
            return
        if self.spec.late_tag is None:
            self._late.inc(len(values))
        else:
            self.output.emit_side(self.spec.late_tag, values, timestamps)

    def flush(self) -> None:
        """Emit the results so far."""
        self.store.current_key = NO_KEY
        self.emitter.flush()

    # ---- time

    def watermark(self, watermark: int) -> None:
        """Fire what is due, emit it, pass the watermark on."""
        if not self.context.batch:
            self.current_watermark = watermark
            if self.arrays is not None:
                self.arrays.close(watermark)
            self.windows.close(watermark)
            self.flush()
        elif watermark == MAX_WATERMARK:
            self.current_watermark = watermark
            self.windows.close_all()
            if self.arrays is not None:
                self.arrays.close(watermark)
            self.flush()
        self.output.watermark(watermark)

    def next_tick(self) -> int | None:
        """Return the end of the next processing-time window: a timer for ms *t* is due when *t* has passed, as in Flink."""
        if self.context.batch:
            return None
        due = self.windows.next_time()
        waits = None if self.arrays is None else self.arrays.next_time()
        due = waits if due is None else due if waits is None else min(due, waits)
        return None if due is None else due + 1

    def tick(self, now: int) -> None:
        """Fire what is due, emit it."""
        if self.arrays is not None:
            self.arrays.close_at(now - 1)
        self.windows.close_at(now - 1)
        self.flush()


# ---- Windows whose bounds are multiples of a length: tumbling and sliding, with the default trigger and no
# lateness.
#
# All keys share their windows here, so there is no timer per key: what is in flight is a dict from a window's start
# to its pane, and a window fires for all keys at once, in the order of their first records. That equals the general
# logic, for a window that can neither fire early nor be entered after it fired.
#
# A block is cut once, by *slice*: the greatest length that both size and slide are multiples of, so that all
# records of a slice are in the same windows. Most blocks are one slice.


_FEWEST_OF_SLICE = 16
"""To cut a slice out of a block takes 2 us, to put a record where it belongs 0.15."""
_FLUSH = 16_384
"""Maximal number of results that are held back before they are emitted (between windows)."""


class AlignedWindows(Windows):
    """Tumbling and sliding windows, in event time or processing time.

    ``panes`` may hold panes in arrays, which fire by themselves, and are turned into objects when records come for them.
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
        self._bounds = BlockBounds()
        #: what adds records of one slice to panes
        self._loops = PaneLoops(driver, driver.key, self.contents.adding())

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
        earliest, latest = self._bounds.of(timestamps)
        if earliest < self.open_from:
            values, timestamps = self._in_time(values, timestamps)
            if not values:
                return
            earliest, latest = self._bounds.of(timestamps)
        if latest < self._slice_of(earliest) + self.slice:
            self._file(self._slice_of(earliest), values)
        elif self._in_runs(earliest, latest, len(values)):
            for start, part in self._runs(timestamps):
                self._file(start, values[part])
        else:
            self._file_cut(values, timestamps)

    def add_fields(self, block: TupleBlock) -> bool:
        """Add tuples that came field by field to their panes; ``False``: they have to be made."""
        stamps = block.timestamps
        if not self.event_time or not stamps:
            return False
        earliest, latest = self._bounds.of(stamps)
        one = latest < self._slice_of(earliest) + self.slice
        if earliest < self.open_from or not (one or self._in_runs(earliest, latest, len(stamps))):
            return False
        runs = [(self._slice_of(earliest), slice(None))] if one else [*self._runs(stamps)]
        found = [([self._pane(place) for place in self.starts_around(start)], part) for start, part in runs]
        if not all(self._loops.takes_fields(len(panes), block.form) for panes, _ in found):
            return False
        for panes, part in found:
            self._loops.add_fields(panes, block if one else block[part])
        return True

    def _slice_of(self, at: int) -> int:
        """Return the start of the slice that a time is in."""
        return at - (at - self.offset) % self.slice

    def _in_runs(self, earliest: int, latest: int, records: int) -> bool:
        """Return True if the block of ``_bounds`` is in order and has few slices: these are cut out of it."""
        return self._bounds.in_order and (latest - earliest) // self.slice * _FEWEST_OF_SLICE < records

    def _runs(self, timestamps: list[int]) -> Iterator[tuple[int, slice]]:
        """Yield the slices of a block in order, each with its part of the block."""
        begin = 0
        while begin < len(timestamps):
            start = self._slice_of(timestamps[begin])
            end = bisect_left(timestamps, start + self.slice, begin)
            yield start, slice(begin, end)
            begin = end

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
        self._loops.add([self._pane(place) for place in self.starts_around(start)], values)

    def _file_cut(self, values: Values, timestamps: list[int]) -> None:
        """Add records of several slices, each pane's in the order of the block."""
        offset, length = self.offset, self.slice
        parts: dict[int, list[Any]] = {}
        parts_of: dict[int, list[list[Any]]] = {}
        targets: list[list[Any]] = []
        start, end = 0, 0
        for value, at in zip(values, timestamps, strict=True):
            if not start <= at < end:
                start = at - (at - offset) % length
                end = start + length
                if start not in parts_of:
                    parts_of[start] = [parts.setdefault(place, []) for place in self.starts_around(start)]
                targets = parts_of[start]
            for part in targets:
                part.append(value)
        for place, part in parts.items():
            self._loops.add([self._pane(place)], part)

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
        due = self.last_time_of(start)
        if self._next_due is None or due < self._next_due:
            self._next_due = due

    def window_at(self, start: int) -> TimeWindow:
        """Return the window that begins at ``start``."""
        return TimeWindow(start, self.last_time_of(start) + 1)

    def last_time_of(self, start: int) -> int:
        """Return the last time of the window that begins at ``start``."""
        return min(start + self.size, MAX_WATERMARK) - 1

    # ---- time

    def close(self, watermark: int) -> None:
        """Fire what ends at or before the watermark."""
        if self.event_time:
            self._close_until(watermark)
            self.fire_until(watermark)

    def _close_until(self, watermark: int) -> None:
        """Remember where the first window begins that is not over at the watermark."""
        last_over = watermark + 1 - self.size
        self.open_from = max(MIN_TIMESTAMP + 1, last_over - (last_over - self.offset) % self.slide + self.slide)

    def close_at(self, time: int) -> None:
        """Fire what ends at or before a time."""
        self.fire_until(time)

    def close_all(self) -> None:
        """Fire all windows."""
        self.fire_until(MAX_WATERMARK)

    def next_time(self) -> int | None:
        """Return when the next window ends."""
        return None if self.event_time else self._next_due

    def fire_until(self, time: int) -> None:
        """Fire the windows that end at or before a time, in the order of their starts."""
        if self._next_due is None or self._next_due > time:
            return
        emitter = self.driver.emitter
        for start in sorted(self.panes):
            due = self.last_time_of(start)
            if due > time:
                self._next_due = due
                return
            window = self.window_at(start)
            if type(self.panes[start]) is DeltaTable or not self.driver.arrays.fire(start, window):
                emitter.fire_pane(window, self.table.pop(start).whole(), self.slide < self.size)
            if len(emitter.results.values) >= _FLUSH:
                emitter.flush()
        self._next_due = None


# ---- Count windows: a key's records in groups of so many, in the order of arrival. No time, hence no timers.
#
# What a key has is a count and its contents; a full group fires within the block that filled it. An incomplete last
# group never fires. Sliding windows keep the last ``size`` records and fire after every ``slide`` of them.
# Snapshots have ``(count, contents)`` of each key as keyed state.


class CountWindows(Windows):
    """Entries ``[count, contents]`` by key, changed in place.

    Tumbling windows (``slide`` ``None``) fold their records, and are purged when they are full; their count goes on if they are
    numbered, else starts anew. Of sliding ones the contents are a deque of the last records.
    """

    def __init__(self, driver: WindowDriver, size: int, slide: int | None = None) -> None:
        super().__init__(driver)
        self.size, self.slide = size, slide
        self.every = size if slide is None else slide
        self.numbered = isinstance(driver.spec.assigner, CountTumblingWindowAssigner)
        self.table = KeyedDeltaTable(self.save, self.revive)

    def setup(self) -> None:
        """Register the table."""
        self.driver.store.register(Strategy.COUNTS.state_name, StateKind.VALUE, self.table)

    @staticmethod
    def save(entry: list[Any]) -> tuple[int, Any]:
        """Return an entry as it is in snapshots."""
        return entry[0], entry[1]

    def revive(self, key: Any, saved: tuple[int, Any]) -> list[Any]:
        """Return an entry as it was."""
        return [saved[0], self.contents_of(saved[1])]

    def finish(self) -> None:
        """Warn of the records in groups that are not full: they are in no result."""
        left = sum(entry[0] % self.every for entry in self.table.whole().values()) if self.slide is None else 0
        if left:
            self.driver.context.warn(
                "open windows",
                f"the input ended with {left:,} records in windows that are not full, so they are in no result: a window of "
                f"{self.size} records waits for all of them. Take a smaller count; for groups by time, take windows by time.",
            )

    def contents_of(self, saved: Any) -> Any:
        """Return contents as they were."""
        return saved if self.slide is None else deque(saved, maxlen=self.size)

    def add(self, values: Values, timestamps: Timestamps) -> None:
        """Count off a block."""
        new, old, every, sliding = self.table.delta, self.table.base.get, self.every, self.slide is not None
        size = self.size
        start, fold, compute = self.contents.start, self.contents.fold, self.contents.compute
        fire, store, numbered, remove = self.driver.emitter.fire, self.driver.store, self.numbered, self.table.remove
        window: Any = GlobalWindow.get()
        # Hot: a lookup, the user's function or an append.
        for key, value in zip(self.driver.keys(values), values, strict=True):
            entry = new.get(key)
            if entry is None:
                entry = new[key] = old(key) or [0, deque(maxlen=size) if sliding else None]
            entry[0] = count = entry[0] + 1
            if sliding:
                entry[1].append(value)
            else:
                stored = entry[1]
                entry[1] = start(value) if stored is None else fold(stored, value)
            if count != every if sliding else count % every:  # beyond a slide are counts of another program only
                continue
            stored = compute(list(entry[1])) if sliding else entry[1]
            if sliding:
                entry[0] = 0
            elif numbered:
                entry[1], window = None, CountWindow(count // every - 1)
            else:
                remove(key)
            if stored is not None:
                store.current_key = key
                fire(key, window, stored)
        self.driver.flush()


# ---- Sessions in event time, with the default trigger and no lateness: a short list of sessions per key.
#
# A record nearly always extends the last session of its key, which needs one lookup and two comparisons. Ends are
# kept in a heap that is not updated when a session grows: an entry that is due too early is put back with the
# session's true end.
#
# Invariants: the sessions of a key are sorted and neither overlap nor touch; each has one entry in the heap, at or
# before its true end; none is over, as seen from the current watermark. Snapshots have the sessions of each key, as
# ``(start, end, contents)``, as keyed state.


Saved = list[tuple[int, int, Any]]
"""The sessions of a key in snapshots: start, end and contents."""


class OpenSession:
    """One session and its contents; ``end`` is exclusive, and ``MIN_TIMESTAMP`` once it was merged away."""

    __slots__ = ("contents", "end", "start")

    def __init__(self, start: int, end: int, contents: Any) -> None:
        self.start = start
        self.end = end
        self.contents = contents


class SessionWindows(Windows):
    """Event-time sessions, with a fixed or dynamic gap."""

    def __init__(self, driver: WindowDriver) -> None:
        super().__init__(driver)
        assigner: Any = driver.spec.assigner
        self.gap: int | None = getattr(assigner, "gap", None)
        self._gap_of = assigner.gap_of
        self.table = KeyedDeltaTable(self.save, self.revive)  # a list per key
        #: a heap of ends, of each the session, its number and its key
        self.ends: list[tuple[int, int, Any, OpenSession]] = []
        self.opened = 0
        """Number of sessions opened so far: of sessions that end together, the one that was opened first fires first."""

    def setup(self) -> None:
        """Register the table."""
        self.driver.store.register(Strategy.SESSIONS.state_name, StateKind.VALUE, self.table)

    def add(self, values: Values, timestamps: Timestamps) -> None:
        """Handle a block."""
        late: tuple[Values, list[int]] = ([], [])
        if timestamps is None:
            timestamps = self.driver.without_timestamps(values)
        new, old, fold = self.table.delta, self.table.base, self.contents.fold
        get, gap, gap_of = new.get, self.gap, self._gap_of
        # Hot: a lookup, two comparisons, the user's function.
        for key, value, at in zip(self.driver.keys(values), values, timestamps, strict=True):
            end = at + (gap_of(value) if gap is None else gap)
            sessions = get(key)
            if sessions is None and key in old:
                sessions = new[key] = old[key]
            if sessions is not None:
                session = sessions[-1]
                if session.start <= at <= session.end and session.contents is not None:
                    if end > session.end:
                        session.end = end if end < MAX_WATERMARK else MAX_WATERMARK
                    session.contents = fold(session.contents, value)
                    continue
            if not self._add(key, value, at, min(end, MAX_WATERMARK)):
                late[0].append(value)
                late[1].append(at)
        self.driver.late(*late)

    def _add(self, key: Any, value: Any, start: int, end: int) -> bool:
        """Add a record that opens, joins or bridges sessions; return whether it was in time."""
        if start == MIN_TIMESTAMP:
            self.driver.without_timestamps([value])
        sessions: list[OpenSession] = self.table.get(key) or []
        touched = [session for session in sessions if session.start <= end and start <= session.end]
        if not touched:
            if end - 1 <= self.driver.current_watermark:
                return False
            self.table.delta[key] = sessions
            self._insert(sessions, key, OpenSession(start, end, self.contents.start(value)))
            return True
        first = touched[0]
        first.start = min(first.start, start)
        first.end = max(end, touched[-1].end)
        for other in touched[1:]:
            first.contents = self._merge(first.contents, other.contents)
            other.end = MIN_TIMESTAMP
            sessions.remove(other)
        first.contents = (
            self.contents.start(value) if first.contents is None else self.contents.fold(first.contents, value)
        )
        return True

    def _merge(self, stored: Any, other: Any) -> Any:
        if stored is None or other is None:
            return other if stored is None else stored
        return self.contents.merge(stored, other)

    def _insert(self, sessions: list[OpenSession], key: Any, session: OpenSession) -> None:
        sessions.append(session)
        sessions.sort(key=_start)
        self.opened += 1
        heappush(self.ends, (session.end, self.opened, key, session))

    def close(self, watermark: int) -> None:
        """Fire the sessions that end at or before the watermark, in the order of their ends."""
        ends = self.ends
        over: list[tuple[int, int, Any, OpenSession]] = []
        while ends and ends[0][0] - 1 <= watermark:
            _, order, key, session = heappop(ends)
            if session.end - 1 <= watermark and session.end != MIN_TIMESTAMP:
                over.append((session.end, order, key, session))
            elif session.end != MIN_TIMESTAMP:
                heappush(ends, (session.end, order, key, session))
        over.sort()
        for _, _, key, session in over:
            self._fire(key, session)

    def close_all(self) -> None:
        """Fire all sessions."""
        self.close(MAX_WATERMARK)

    def _fire(self, key: Any, session: OpenSession) -> None:
        sessions: list[OpenSession] = self.table.get(key)
        if len(sessions) == 1:
            self.table.remove(key)
        else:
            sessions.remove(session)
            self.table.delta[key] = sessions
        self.driver.store.current_key = key
        window = TimeWindow(session.start, session.end)
        if session.contents is not None:
            self.driver.emitter.fire(key, window, session.contents)
        self.driver.emitter.clear(window)

    @staticmethod
    def save(sessions: list[OpenSession]) -> Saved:
        """Return the sessions of a key as they are in snapshots."""
        return [(session.start, session.end, session.contents) for session in sessions]

    def revive(self, key: Any, saved: Saved) -> list[OpenSession]:
        """Return them as they were."""
        sessions: list[OpenSession] = []
        for start, end, contents in saved:
            self._insert(sessions, key, OpenSession(start, end, contents))
        return sessions


def _start(session: OpenSession) -> int:
    return session.start
