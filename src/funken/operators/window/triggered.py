"""Windows of any kind: whatever the assigner, the trigger and the evictor do (Flink's ``WindowOperator``).

Everything is filed under the key and the window: contents, trigger state and timers. A window ends with its *cleanup
timer*, at its largest timestamp plus the allowed lateness (event time), and until then its trigger may fire it as often
as it wants. Windows that merge keep their contents under the name of one of the windows they grew from.

Order, as in Flink: a merge notifies the trigger first, then clears the merged windows, then merges contents, and
then the record that caused it is added; a timer calls the trigger first and cleans up after.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

from funken.errors import InvalidProgram
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.metrics.registry import MetricGroup
from funken.operators.base import OperatorContext, RuntimeContext, Timestamps, Values
from funken.operators.user_functions import FEW, MANY, Stride
from funken.operators.window.driver import WindowDriver, Windows
from funken.operators.window.spec import Strategy
from funken.state.delta_tables import StateRow, TableSnapshot
from funken.state.descriptors import ListStateDescriptor, StateDescriptor, StateKind, ValueStateDescriptor
from funken.state.keygroups import PLAIN, normal_key
from funken.timing.instants import checked_time
from funken.timing.timers import InternalTimerService
from funken.windowing.assigners import (
    TUMBLING_COUNT,
    CountTumblingWindowAssigner,
    MergingWindowAssigner,
    MergingWindowSet,
)
from funken.windowing.evictors import TimestampedValue
from funken.windowing.triggers import COUNT, PurgingTrigger
from funken.windowing.windows import WINDOW_STATE, CountWindow, GlobalWindow, TimeWindow, TriggerResult

# ---- The contexts of assigners, triggers and evictors in the general window logic.
#
# One object of each kind serves an operator; ``window`` (and the store's current key) is written before each call.


class OperatorAssignerContext:
    """The context of an assigner."""

    __slots__ = ("_runtime_context", "get_current_processing_time")

    def __init__(self, context: OperatorContext) -> None:
        self.get_current_processing_time = context.processing_time
        self._runtime_context = RuntimeContext(context)

    def get_runtime_context(self) -> RuntimeContext:
        """Return the runtime context; its keyed state is that of the record's key."""
        return self._runtime_context


class OperatorTriggerContext:
    """The context of a trigger, also for its ``on_merge``, and of an evictor."""

    __slots__ = ("_operator", "_store", "_timers", "merged", "window")

    def __init__(self, operator: WindowDriver, timers: InternalTimerService) -> None:
        self._operator = operator
        self._store = operator.store
        self._timers = timers
        self.window: Any = None
        self.merged: list[Any] = []

    def get_current_processing_time(self) -> int:
        """Return the processing time."""
        return self._operator.context.processing_time()

    def get_current_watermark(self) -> int:
        """Return the watermark."""
        return self._operator.current_watermark

    def get_metric_group(self) -> MetricGroup:
        """Return the operator's metrics."""
        return self._operator.context.metrics

    def register_processing_time_timer(self, time: int) -> None:
        """Register a timer for ``on_processing_time``."""
        self._timers.register_processing_time_timer(self._store.current_key, self.window, checked_time(time))

    def register_event_time_timer(self, time: int) -> None:
        """Register a timer for ``on_event_time``."""
        self._timers.register_event_time_timer(self._store.current_key, self.window, checked_time(time))

    def delete_processing_time_timer(self, time: int) -> None:
        """Take a timer back."""
        self._timers.delete_processing_time_timer(self._store.current_key, self.window, checked_time(time))

    def delete_event_time_timer(self, time: int) -> None:
        """Take a timer back."""
        self._timers.delete_event_time_timer(self._store.current_key, self.window, checked_time(time))

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """Return the state of the current key and window."""
        handle = self._store.namespaced(state_descriptor)
        handle.namespace = self.window
        return handle

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the state of the merged windows into that of the current one."""
        self._store.merge_namespaces(state_descriptor, self.window, self.merged)


_MERGING = ValueStateDescriptor(f"{WINDOW_STATE}merging")
_EVICTABLE = ListStateDescriptor(f"{WINDOW_STATE}elements")


class TriggeredWindows(Windows):
    """All windows that have no faster form: their trigger is called for each record and timer."""

    def __init__(self, driver: WindowDriver) -> None:
        super().__init__(driver)
        spec = driver.spec
        self._assigner = spec.assigner
        self._merging = spec.assigner if isinstance(spec.assigner, MergingWindowAssigner) else None
        self._trigger = spec.chosen_trigger()
        self._evictor = spec.evictor
        self._event_time = spec.assigner.is_event_time()
        self._lateness = spec.allowed_lateness_ms if self._event_time else 0
        self._stride = Stride()

    def setup(self) -> None:
        """Have the rows kept that another form of these windows has saved."""
        self._saved = register_former_states(self)

    def open(self) -> None:
        """Find the state."""
        context, store = self.driver.context, self.driver.store
        assert context.timers is not None
        self._timers = context.timers
        self._due: Sequence[int] = () if context.batch else self._timers.processing_times
        self._trigger_context = OperatorTriggerContext(self.driver, self._timers)
        self._assigner_context = OperatorAssignerContext(context)
        self._descriptor = _EVICTABLE if self._evictor else self.contents.descriptor
        self.table = store.namespaced(self._descriptor).table
        if self._merging is not None:
            self.mappings = store.state(_MERGING).table
        migrate(self, self._saved)

    @property
    def count(self) -> int:
        """Number of records that a count trigger waits for."""
        trigger: Any = self._trigger.nested_trigger if isinstance(self._trigger, PurgingTrigger) else self._trigger
        count: int = trigger.window_size
        return count

    # ---- records

    def add(self, values: Values, timestamps: Timestamps) -> None:
        """Handle a block, record by record; fire in between what is due."""
        due, stride, next_time, done = self._due, self._stride, self.driver.context.next_time, 0
        now = next_time()
        while done < len(values):
            if due and now > due[0]:  # as in next_tick()
                self.driver.tick(now)
            end = done + stride.records
            self._take(values[done:end], None if timestamps is None else timestamps[done:end])
            end = min(end, len(values))
            before, now = now, next_time()
            stride.took(end - done, now - before, FEW if due else MANY)
            done = end
        self.driver.flush()
        if due and now > due[0]:
            self.driver.tick(now)

    def _take(self, values: Values, timestamps: Timestamps) -> None:
        late: tuple[Values, list[int]] = ([], [])
        store, key_of, assign, context = (
            self.driver.store,
            self.driver.key,
            self._assigner.assign_windows,
            self._assigner_context,
        )
        add = self._add if self._merging is None else self._add_merging
        horizon = self.driver.current_watermark - self._lateness if self._event_time else None
        if timestamps is None and self._merging is not None and self._event_time:
            timestamps = self.driver.without_timestamps(values)
        stamps = repeat(MIN_TIMESTAMP, len(values)) if timestamps is None else timestamps
        for value, at in zip(values, stamps, strict=True):
            key = key_of(value)
            store.current_key = key = key if type(key) in PLAIN else normal_key(key)
            entered = False
            for window in assign(value, at, context):
                if add(key, window, value, at):
                    entered = True
            if not entered and horizon is not None and at <= horizon:
                late[0].append(value)
                late[1].append(at)
        if late[0]:  # behind the results of the records before them
            self.driver.flush()
            self.driver.late(*late)

    def _add(self, key: Any, window: Any, value: Any, at: int) -> bool:
        """Add a record to a window; return whether the window still takes any."""
        cleanup = self._cleanup_time(window)
        if self._event_time and cleanup <= self.driver.current_watermark:
            return False
        self._put(key, window, window, value, at)
        self._expect_cleanup(key, window, cleanup)
        return True

    def expect_cleanup(self, key: Any, window: Any) -> None:
        """Wait for the end of a window."""
        self._expect_cleanup(key, window, self._cleanup_time(window))

    def forget_cleanup(self, key: Any, window: Any) -> None:
        """Do not wait for the end of a window any more."""
        timers, cleanup = self._timers, self._cleanup_time(window)
        delete = timers.delete_event_time_timer if self._event_time else timers.delete_processing_time_timer
        delete(key, window, cleanup)

    def _add_merging(self, key: Any, window: Any, value: Any, at: int) -> bool:
        """Add a record to the window that its own one becomes part of."""
        windows = self._window_set(key)
        became = windows.add(window, self._merged)
        cleanup = self._cleanup_time(became)
        entered = not self._event_time or cleanup > self.driver.current_watermark
        if entered:
            self._put(key, became, windows.state_window(became), value, at)
            self._expect_cleanup(key, became, cleanup)
        else:
            windows.retire(became)
        self._store_set(key, windows)
        return entered

    def _put(self, key: Any, window: Any, state_window: Any, value: Any, at: int) -> None:
        table, contents, slot = self.table, self.contents, (key, state_window)
        stored = table.get(slot)
        if self._evictor is not None:
            stored = stored or []
            stored.append(TimestampedValue(value, at))
            table[slot] = stored
        else:
            table[slot] = contents.start(value) if stored is None else contents.fold(stored, value)
        context = self._trigger_context
        context.window = window
        result = self._trigger.on_element(value, at, window, context)
        if result is not TriggerResult.CONTINUE:
            self._act(result, key, window, slot)

    def _expect_cleanup(self, key: Any, window: Any, cleanup: int) -> None:
        if cleanup < MAX_WATERMARK:
            if self._event_time:
                self._timers.register_event_time_timer(key, window, cleanup)
            else:
                self._timers.register_processing_time_timer(key, window, cleanup)

    def _cleanup_time(self, window: Any) -> int:
        """Return when a window ends for good: with time at the latest."""
        cleanup: int = window.max_timestamp() + self._lateness
        return cleanup if cleanup < MAX_WATERMARK else MAX_WATERMARK

    # ---- firing

    def _act(self, result: TriggerResult, key: Any, window: Any, slot: tuple[Any, Any]) -> None:
        """Apply a trigger result."""
        if result.is_fire():
            stored = self.table.get(slot)
            if stored is not None:
                if self._evictor is not None:
                    self._fire_evicting(key, window, slot, list(stored))
                else:
                    self.driver.emitter.fire(key, window, list(stored) if self.driver.spec.contents.many else stored)
        if result.is_purge():
            self.table.pop(slot, None)

    def _fire_evicting(self, key: Any, window: Any, slot: tuple[Any, Any], elements: list[TimestampedValue]) -> None:
        assert self._evictor is not None
        kept = self._evictor.evict_before(elements, len(elements), window, self._trigger_context)
        kept = elements if kept is None else list(kept)
        stored = self.contents.compute([element.value for element in kept])
        if stored is not None:
            self.driver.emitter.fire(key, window, stored)
        after = self._evictor.evict_after(kept, len(kept), window, self._trigger_context)
        kept = kept if after is None else list(after)
        if kept:
            self.table[slot] = kept
        else:
            self.table.pop(slot, None)

    def close(self, watermark: int) -> None:
        """Fire the event-time timers that are due."""
        self._timers.advance_watermark(watermark, self._on_event_time)

    def close_at(self, time: int) -> None:
        """Fire the processing-time timers that are due."""
        self._timers.advance_processing_time(time, self._on_processing_time)

    def next_time(self) -> int | None:
        """Return when the next processing-time timer is due."""
        return self._timers.next_processing_time()

    def take_due(self, time: int, take: Callable[[int, Any, Any], None]) -> None:
        """Give the timers of windows that end at or before ``time`` to another form of these windows, which fires them."""
        advance = self._timers.advance_watermark if self._event_time else self._timers.advance_processing_time
        advance(time, take)

    @property
    def due_times(self) -> Sequence[int]:
        """The times at which windows end, and maybe some at which none does any more."""
        return self._timers.event_times if self._event_time else self._timers.processing_times

    def may_have(self, key: Any, window: Any) -> bool:
        """Return False if a window of a key has no contents: those that end have a timer."""
        cleanup = self._cleanup_time(window)
        return cleanup >= MAX_WATERMARK or (key, window) in self._timers.slots_at(cleanup, self._event_time)

    def close_all(self) -> None:
        """Fire all timers, key by key."""
        self._timers.drain(self._on_event_time, self._on_processing_time)

    def _on_event_time(self, timestamp: int, key: Any, window: Any) -> None:
        self._on_timer(timestamp, key, window, self._trigger.on_event_time, self._event_time)

    def _on_processing_time(self, timestamp: int, key: Any, window: Any) -> None:
        self._on_timer(timestamp, key, window, self._trigger.on_processing_time, not self._event_time)

    def _on_timer(
        self, timestamp: int, key: Any, window: Any, ask: Callable[[int, Any, Any], TriggerResult], cleans_up: bool
    ) -> None:
        self.driver.store.current_key = key
        state_window = window
        if self._merging is not None:
            state_window = self._window_set(key).state_window(window)
            if state_window is None:  # a timer of a window that was merged away, and that its trigger left behind
                return
        context = self._trigger_context
        context.window = window
        result = ask(timestamp, window, context)
        slot = (key, state_window)
        if result is not TriggerResult.CONTINUE:
            self._act(result, key, window, slot)
        if cleans_up and timestamp == self._cleanup_time(window):
            self.table.pop(slot, None)
            self._trigger.clear(window, context)
            self.driver.emitter.clear(window)
            if self._merging is not None:
                windows = self._window_set(key)
                windows.retire(window)
                self._store_set(key, windows)

    # ---- merging

    def _window_set(self, key: Any) -> MergingWindowSet:
        assert self._merging is not None
        return MergingWindowSet(self._merging, self.mappings.get(key) or {})

    def _store_set(self, key: Any, windows: MergingWindowSet) -> None:
        if not windows.changed:
            return
        if windows.mapping:
            self.mappings[key] = windows.mapping
        else:
            self.mappings.pop(key, None)

    def _merged(self, result: Any, windows: list[Any], state_window: Any, others: list[Any]) -> None:
        """Carry trigger, timers and contents of ``windows`` over to ``result``."""
        self._refuse_late(result)
        sources = [window for window in windows if window != result]
        context, key = self._trigger_context, self.driver.store.current_key
        context.window, context.merged = result, sources
        self._trigger.on_merge(result, context)
        for window in sources:
            context.window = window
            self._trigger.clear(window, context)
            self.forget_cleanup(key, window)
        if others:
            self.driver.store.merge_namespaces(self._descriptor, state_window, others)

    def _refuse_late(self, result: Any) -> None:
        now = self.driver.context.processing_time()
        if self._event_time and self._cleanup_time(result) <= self.driver.current_watermark:
            time, current, at = "an event-time", "watermark", self.driver.current_watermark
        elif not self._event_time and result.max_timestamp() < now:
            time, current, at = "a processing-time", "processing time", now
        else:
            return
        raise InvalidProgram(
            f"The end timestamp of {time} window cannot become earlier than the current {current} by merging: "
            f"{self._assigner!r} made {result!r} at {at}. Merge windows into one that covers them."
        )


# ---- Windows of any trigger seen as the fast logics have them: a pane's contents, sessions or a count per key.
#
# A fast logic saves one keyed state of its own (``state/delta_tables.py``). Windows of any trigger (``triggered.py``) keep
# contents, timers and the state of triggers. They take over the rows of a fast logic when they are restored. Arrays in front of
# their tables (``operators/columnar/stored.py``) read and write them in the same form. ``windows`` are
# ``TriggeredWindows`` everywhere.


Sessions = list[tuple[int, int, Any]]
"""The sessions of a key: start, end and contents."""


class SavedRows:
    """An ``OperatorTable`` that has nothing of its own, and keeps the rows it is restored with."""

    def __init__(self) -> None:
        self.found: list[StateRow] = []

    def begin_snapshot(self, complete: bool, touched: Callable[[StateRow], None]) -> TableSnapshot:
        """Return nothing."""
        return TableSnapshot(iter(()), iter(()))

    def load(self, rows: Iterable[StateRow]) -> None:
        """Keep rows."""
        self.found += rows

    def __len__(self) -> int:
        return 0


def register_former_states(windows: Any) -> SavedRows:
    """Have the rows kept that the fast logic of these windows may have saved; before anything is restored."""
    saved = SavedRows()
    strategy = windows.driver.spec.layout
    if strategy in _ENTRIES:
        kind = windows.contents.descriptor.kind if strategy is Strategy.ALIGNED else StateKind.VALUE
        windows.driver.store.register(strategy.state_name, kind, saved)
    return saved


def migrate(windows: Any, saved: SavedRows) -> None:
    """Put what a fast logic has saved where the general one finds it; its tables are open."""
    if saved.found:
        entries = _ENTRIES[windows.driver.spec.layout](windows)
        for row in saved.found:
            entries.put(*row)
        saved.found = []


class PaneEntries:
    """The contents of tumbling and sliding windows, by key and start."""

    def __init__(self, windows: Any) -> None:
        self._windows = windows
        assigner: Any = windows.driver.spec.assigner
        self._size: int = assigner.size

    def put(self, key: Any, start: int, contents: Any) -> None:
        """Store contents."""
        window = TimeWindow(start, min(start + self._size, MAX_WATERMARK))
        self._windows.table[key, window] = contents
        self._windows.expect_cleanup(key, window)


class SessionEntries:
    """The sessions of keys, as the tables have them: windows by name, contents by the name, and timers."""

    def __init__(self, windows: Any) -> None:
        self._windows = windows

    def get(self, key: Any) -> Sessions | None:
        """Return the sessions of a key, in the order of their starts."""
        mapping, table = self._windows.mappings.get(key), self._windows.table
        if not mapping:
            return None
        return [(*window, table.get((key, mapping[window]))) for window in sorted(mapping)]

    def put(self, key: Any, _: Any, sessions: Sessions) -> None:
        """Replace the sessions of a key; those that contain former ones keep the name of the first."""
        windows = self._windows
        former, mapping = dict(windows.mappings.get(key) or {}), {}
        for start, end, contents in sessions:
            window = TimeWindow(start, end)
            inside = [each for each in sorted(former) if start <= each.start and each.end <= end]
            names = [former[each] for each in inside] or [window]
            mapping[window] = names[0]
            for each in inside:
                if each == window or former[each] == names[0]:
                    del former[each]
                if each != window:
                    windows.forget_cleanup(key, each)
            windows.table[key, names[0]] = contents
            windows.expect_cleanup(key, window)
        for window, name in former.items():
            windows.table.pop((key, name), None)
            windows.forget_cleanup(key, window)
        if mapping:
            windows.mappings[key] = mapping
        else:
            windows.mappings.pop(key, None)


class CountEntries:
    """The counts and contents of keys."""

    def __init__(self, windows: Any) -> None:
        self._windows = windows
        spec = windows.driver.spec
        self._numbered = isinstance(spec.assigner, CountTumblingWindowAssigner)
        self._last: int | None = getattr(spec.evictor, "max_count", None)
        store = windows.driver.store
        self._totals = store.state(TUMBLING_COUNT).table if self._numbered else {}
        self._counts = store.namespaced(COUNT).table

    def is_empty(self) -> bool:
        """Return False: a look is needed."""
        return False

    def get(self, key: Any) -> list[Any] | None:
        """Return the count and the contents of a key."""
        total = self._totals.get(key)
        window = self._window(total)
        contents = self._windows.table.get((key, window))
        if contents is None and total is None:
            return None
        count = (self._counts.get((key, window)) or 0) if total is None else total
        if contents is not None and self._last is not None:
            contents = deque((each.value for each in contents), maxlen=self._last)
        return [count, contents]

    def take_out(self, key: Any) -> tuple[bool, bool]:
        """Return that the entry of a key has not changed, and is saved."""
        return False, True

    def put(self, key: Any, _: Any, entry: tuple[int, Any]) -> None:
        """Replace the count and the contents of a key."""
        total, contents = entry
        former, window = self._window(self._totals.get(key)), self._window(total)
        if former != window:
            self._set(key, former, 0, None)
        if self._numbered:
            self._totals[key] = total
        if contents is not None and self._last is not None:
            contents = [TimestampedValue(value, MIN_TIMESTAMP) for value in contents] or None
        self._set(key, window, total % self._windows.count, contents)

    def _window(self, total: int | None) -> Any:
        return CountWindow((total or 0) // self._windows.count) if self._numbered else GlobalWindow.get()

    def _set(self, key: Any, window: Any, count: int, contents: Any) -> None:
        for table, value in ((self._counts, count or None), (self._windows.table, contents)):
            if value is None:
                table.pop((key, window), None)
            else:
                table[key, window] = value


_ENTRIES: dict[Strategy, Callable[[Any], Any]] = {
    Strategy.ALIGNED: PaneEntries, Strategy.SESSIONS: SessionEntries, Strategy.COUNTS: CountEntries
}  # fmt: skip
