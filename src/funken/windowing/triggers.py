"""Triggers: when a window's contents are computed on, and when they are thrown away.

The rules that come with Funken, each over the contract in ``windows.py`` and with the behaviour of the Flink class of its
name. Names of trigger states begin with ``_trigger.``, so that they never
meet a user's. ``funken.testing.WindowContext`` is what their examples run in.
"""

from __future__ import annotations

from typing import Any

from funken.errors import InvalidProgram
from funken.ids import MAX_WATERMARK
from funken.io.durations import DurationLike, duration_ms
from funken.state.descriptors import ReducingStateDescriptor, ValueStateDescriptor
from funken.types.callables import D, Delta, Generic, R, S, T_contra, W_contra, check_kind
from funken.windowing.windows import OnMergeContext, Trigger, TriggerContext, TriggerResult, Window

# ---- Triggers that fire again and again while a window is open, for early results.
#
# They fire at the multiples of an interval, so that the windows of all keys fire together. The time a window waits
# for is in its trigger state: of merged windows, the earliest counts (Flink's ``ContinuousEventTimeTrigger`` and
# ``ContinuousProcessingTimeTrigger``).


_FIRE_TIME = ReducingStateDescriptor("_trigger.fire-time", min)


class _Continuous(Trigger[object, Window]):
    """A trigger that fires every ``interval`` milliseconds, in step with the multiples of it."""

    def __init__(self, interval: DurationLike) -> None:
        self.interval = int(duration_ms(interval))
        if self.interval <= 0:
            raise InvalidProgram(f"{type(self).__name__} needs an interval above 0 ms, but got {self.interval}.")

    def can_merge(self) -> bool:
        """Return True: sessions may use it.

        >>> ContinuousEventTimeTrigger.of(1000).can_merge()
        True
        """
        return True

    def _next(self, time: int, window: Window) -> int:
        """Return the next firing time after ``time``: the end of the window, if that is ahead and comes first."""
        at, end = time + self.interval, window.max_timestamp()
        return int(end if time < end < at else at)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.interval})"


class ContinuousEventTimeTrigger(_Continuous):
    """Fires each time the watermark passes another multiple of the interval (ms), and at the end of the window.

    Raises ``InvalidProgram`` if the interval is not above 0.

    >>> from funken import TimeWindow
    >>> from funken.testing import WindowContext
    >>> trigger, window = ContinuousEventTimeTrigger.of(1000), TimeWindow(0, 60_000)
    >>> ctx = WindowContext(window)
    >>> trigger.on_element("record", 1200, window, ctx).name, ctx.event_time_timers
    ('CONTINUE', [2000, 59999])
    >>> ctx.watermark = 2000
    >>> trigger.on_event_time(2000, window, ctx).name, ctx.event_time_timers
    ('FIRE', [3000, 59999])

    Two windows that become one go on with the earlier time of both, and a window that is done waits for nothing:

    >>> session = TimeWindow(-5, 60_000)
    >>> trigger.on_merge(session, ctx.of(session, window))
    >>> ctx.of(session).event_time_timers
    [3000]
    >>> trigger.clear(session, ctx.of(session))
    >>> ctx.of(session).event_time_timers
    []
    """

    @staticmethod
    def of(interval: DurationLike) -> ContinuousEventTimeTrigger:
        """Return the trigger for an interval."""
        return ContinuousEventTimeTrigger(interval)

    def on_element(self, element: object, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire if the end has passed, else wait for the next multiple and for the end."""
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        if fire_time.get() is None:
            at = self._next(timestamp - timestamp % self.interval, window)
            fire_time.add(at)
            ctx.register_event_time_timer(at)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire, and wait for the next multiple."""
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        if fire_time.get() != time:
            return TriggerResult.CONTINUE
        fire_time.clear()
        if window.max_timestamp() == MAX_WATERMARK <= ctx.get_current_watermark():
            return TriggerResult.CONTINUE  # the end of time has come for an endless window: its own timer is next
        at = self._next(time, window)
        fire_time.add(at)
        ctx.register_event_time_timer(at)
        return TriggerResult.FIRE

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Keep the earliest of the times that the merged windows waited for."""
        ctx.merge_partitioned_state(_FIRE_TIME)
        at = ctx.get_partitioned_state(_FIRE_TIME).get()
        if at is not None:
            ctx.register_event_time_timer(at)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Stop waiting."""
        ctx.delete_event_time_timer(window.max_timestamp())
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        at = fire_time.get()
        if at is not None:
            ctx.delete_event_time_timer(at)
            fire_time.clear()


class ContinuousProcessingTimeTrigger(_Continuous):
    """Fires at every multiple of the interval (ms) of the clock while the window has contents, and at the window's end.

    Raises ``InvalidProgram`` if the interval is not above 0.

    >>> from funken import TimeWindow
    >>> from funken.testing import WindowContext
    >>> trigger, window = ContinuousProcessingTimeTrigger.of(1000), TimeWindow(0, 60_000)
    >>> ctx = WindowContext(window, now=1200)
    >>> trigger.on_element("record", 0, window, ctx).name, ctx.processing_time_timers
    ('CONTINUE', [2000])
    >>> ctx.now = 2001
    >>> trigger.on_processing_time(2000, window, ctx).name, ctx.processing_time_timers
    ('FIRE', [3000])

    Two windows that become one go on with the earlier time of both, and a window that is done waits for nothing:

    >>> session = TimeWindow(-5, 60_000)
    >>> trigger.on_merge(session, ctx.of(session, window))
    >>> ctx.of(session).processing_time_timers
    [3000]
    >>> trigger.clear(session, ctx.of(session))
    >>> ctx.of(session).processing_time_timers
    []
    """

    @staticmethod
    def of(interval: DurationLike) -> ContinuousProcessingTimeTrigger:
        """Return the trigger for an interval."""
        return ContinuousProcessingTimeTrigger(interval)

    def on_element(self, element: object, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Wait for the next multiple of the interval."""
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        if fire_time.get() is None:
            now = ctx.get_current_processing_time()
            at = self._next(now - now % self.interval, window)
            fire_time.add(at)
            ctx.register_processing_time_timer(at)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire, and wait for the next multiple."""
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        if fire_time.get() != time:
            return TriggerResult.CONTINUE
        fire_time.clear()
        at = self._next(time, window)
        fire_time.add(at)
        ctx.register_processing_time_timer(at)
        return TriggerResult.FIRE

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Keep the earliest of the times that the merged windows waited for."""
        ctx.merge_partitioned_state(_FIRE_TIME)
        at = ctx.get_partitioned_state(_FIRE_TIME).get()
        if at is not None:
            ctx.register_processing_time_timer(at)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Stop waiting."""
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        at = fire_time.get()
        if at is not None:
            ctx.delete_processing_time_timer(at)
            fire_time.clear()


class EventTimeTrigger(Trigger[object, Window]):
    """Fires when the watermark passes the end of the window, and at once for each record after that.

    The default of windows in event time.

    >>> from funken import TimeWindow
    >>> from funken.testing import WindowContext
    >>> trigger, window = EventTimeTrigger.create(), TimeWindow(0, 10)
    >>> ctx = WindowContext(window, watermark=5)
    >>> trigger.on_element("record", 7, window, ctx).name, ctx.event_time_timers
    ('CONTINUE', [9])
    >>> trigger.on_event_time(9, window, ctx).name
    'FIRE'

    Sessions may use it: a merged one waits for its own end. A window that is done waits for nothing.

    >>> session = TimeWindow(0, 30)
    >>> trigger.can_merge(), trigger.on_merge(session, ctx.of(session)), ctx.of(session).event_time_timers
    (True, None, [29])
    >>> trigger.clear(session, ctx.of(session))
    >>> ctx.of(session).event_time_timers
    []
    """

    @staticmethod
    def create() -> EventTimeTrigger:
        """Return the trigger."""
        return EventTimeTrigger()

    def on_element(self, element: object, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire if the end has passed, else wait for it."""
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire at the end."""
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Wait for the end of the merged window."""
        end = window.max_timestamp()
        if end > ctx.get_current_watermark():
            ctx.register_event_time_timer(end)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Stop waiting."""
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(Trigger[object, Window]):
    """Fires when the clock passes the end of the window.

    The default of windows in processing time.

    >>> from funken import TimeWindow
    >>> from funken.testing import WindowContext
    >>> trigger, window = ProcessingTimeTrigger.create(), TimeWindow(0, 10)
    >>> ctx = WindowContext(window, now=5)
    >>> trigger.on_element("record", 0, window, ctx).name, ctx.processing_time_timers
    ('CONTINUE', [9])
    >>> trigger.on_processing_time(9, window, ctx).name
    'FIRE'

    Sessions may use it: a merged one waits for its own end. A window that is done waits for nothing.

    >>> session = TimeWindow(0, 30)
    >>> trigger.can_merge(), trigger.on_merge(session, ctx.of(session)), ctx.of(session).processing_time_timers
    (True, None, [29])
    >>> trigger.clear(session, ctx.of(session))
    >>> ctx.of(session).processing_time_timers
    []
    """

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """Return the trigger."""
        return ProcessingTimeTrigger()

    def on_element(self, element: object, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Wait for the end."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire."""
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Wait for the end of the merged window."""
        end = window.max_timestamp()
        if end > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(end)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Stop waiting."""
        ctx.delete_processing_time_timer(window.max_timestamp())


def _add(a: int, b: int) -> int:
    return a + b


COUNT = ReducingStateDescriptor("_trigger.count", _add)


class CountTrigger(Trigger[object, object]):
    """Fires at every ``window_size``-th record of the window; the contents stay (see ``PurgingTrigger``).

    Raises ``InvalidProgram`` if the count is not above 0.

    >>> from funken import GlobalWindows
    >>> from funken.testing import WindowContext, local
    >>> everything = local([1, 2, 3, 4, 5]).key_by(lambda n: "all").window(GlobalWindows.create())
    >>> everything.trigger(CountTrigger.of(2)).reduce(lambda a, b: a + b).execute_and_collect(limit=9)
    [3, 10]

    Counts of windows that become one are added, and forgotten when the window goes:

    >>> trigger, ctx = CountTrigger.of(3), WindowContext("first")
    >>> [trigger.on_element(n, 0, "first", ctx).name for n in (1, 2)]
    ['CONTINUE', 'CONTINUE']
    >>> trigger.can_merge(), trigger.on_merge("merged", ctx.of("merged", "first"))
    (True, None)
    >>> trigger.on_element(3, 0, "merged", ctx.of("merged")).name
    'FIRE'
    >>> trigger.clear("merged", ctx.of("merged"))
    """

    def __init__(self, window_size: int) -> None:
        check_kind(window_size, int, "CountTrigger", "Give a number of records.")
        if window_size <= 0:
            raise InvalidProgram(f"CountTrigger needs a count above 0, but got {window_size}.")
        self.window_size = window_size

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """Return the trigger for a count."""
        return CountTrigger(window_size)

    def on_element(self, element: object, timestamp: int, window: object, ctx: TriggerContext) -> TriggerResult:
        """Count, and fire if it is the one."""
        count = ctx.get_partitioned_state(COUNT)
        count.add(1)
        if (count.get() or 0) < self.window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: object, ctx: OnMergeContext) -> None:
        """Add the counts."""
        ctx.merge_partitioned_state(COUNT)

    def clear(self, window: object, ctx: TriggerContext) -> None:
        """Forget the count."""
        ctx.get_partitioned_state(COUNT).clear()

    def __repr__(self) -> str:
        return f"CountTrigger({self.window_size})"


_LAST = ValueStateDescriptor("_trigger.last-element")


class DeltaTrigger(Trigger[T_contra, object], Generic[T_contra]):
    """Fires when a record is further than ``threshold`` from the one that fired last (at first: from the first one).

    ``delta_function`` is a callable ``(old, new) -> number``, or an object with a method ``get_delta(old, new)``. It
    cannot be used with sessions, as in Flink: there is no telling which of two last records counts.

    >>> from funken.testing import WindowContext
    >>> trigger, ctx = DeltaTrigger.of(2.5, lambda old, new: abs(new - old)), WindowContext("window")
    >>> [trigger.on_element(degrees, 0, "window", ctx).name for degrees in (20, 22, 23, 24)]
    ['CONTINUE', 'CONTINUE', 'FIRE', 'CONTINUE']
    >>> trigger.clear("window", ctx)
    >>> trigger.on_element(30, 0, "window", ctx).name  # the first again
    'CONTINUE'
    """

    def __init__(self, threshold: float, delta_function: Delta[T_contra]) -> None:
        self.threshold = threshold
        self.delta: Any = getattr(delta_function, "get_delta", delta_function)

    @staticmethod
    def of(threshold: float, delta_function: Delta[D]) -> DeltaTrigger[D]:
        """Return the trigger for a threshold."""
        return DeltaTrigger(threshold, delta_function)

    def on_element(self, element: T_contra, timestamp: int, window: object, ctx: TriggerContext) -> TriggerResult:
        """Measure, and fire if it is far enough."""
        last = ctx.get_partitioned_state(_LAST)
        held = last.value()
        if held is None:
            last.update((element,))
            return TriggerResult.CONTINUE
        if self.delta(held[0], element) <= self.threshold:
            return TriggerResult.CONTINUE
        last.update((element,))
        return TriggerResult.FIRE

    def clear(self, window: object, ctx: TriggerContext) -> None:
        """Forget the element."""
        ctx.get_partitioned_state(_LAST).clear()

    def __repr__(self) -> str:
        return f"DeltaTrigger({self.threshold})"


_PURGING = {
    TriggerResult.CONTINUE: TriggerResult.CONTINUE,
    TriggerResult.FIRE: TriggerResult.FIRE_AND_PURGE,
    TriggerResult.PURGE: TriggerResult.PURGE,
    TriggerResult.FIRE_AND_PURGE: TriggerResult.FIRE_AND_PURGE,
}


class PurgingTrigger(Trigger[T_contra, W_contra], Generic[T_contra, W_contra]):
    """Fires when another trigger does, and then drops the contents.

    >>> from funken import GlobalWindows, TimeWindow
    >>> from funken.testing import WindowContext, local
    >>> everything = local([1, 2, 3, 4, 5]).key_by(lambda n: "all").window(GlobalWindows.create())
    >>> pairs = everything.trigger(PurgingTrigger.of(CountTrigger.of(2)))
    >>> pairs.reduce(lambda a, b: a + b).execute_and_collect(limit=9)
    [3, 7]

    All questions go to the other trigger; only ``FIRE`` becomes ``FIRE_AND_PURGE``:

    >>> trigger, window, ctx = PurgingTrigger.of(EventTimeTrigger.create()), TimeWindow(0, 10), WindowContext()
    >>> trigger.on_element("record", 5, window, ctx).name, trigger.on_event_time(9, window, ctx).name
    ('CONTINUE', 'FIRE_AND_PURGE')
    >>> trigger.on_processing_time(9, window, ctx).name, trigger.can_merge()
    ('CONTINUE', True)
    >>> trigger.on_merge(window, ctx), trigger.clear(window, ctx), ctx.event_time_timers
    (None, None, [])
    """

    def __init__(self, nested_trigger: Trigger[T_contra, W_contra]) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[S, R]) -> PurgingTrigger[S, R]:
        """Return the purging variant of a trigger."""
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: T_contra, timestamp: int, window: W_contra, ctx: TriggerContext) -> TriggerResult:
        """Ask the nested trigger."""
        return _PURGING[self.nested_trigger.on_element(element, timestamp, window, ctx)]

    def on_processing_time(self, time: int, window: W_contra, ctx: TriggerContext) -> TriggerResult:
        """Ask the nested trigger."""
        return _PURGING[self.nested_trigger.on_processing_time(time, window, ctx)]

    def on_event_time(self, time: int, window: W_contra, ctx: TriggerContext) -> TriggerResult:
        """Ask the nested trigger."""
        return _PURGING[self.nested_trigger.on_event_time(time, window, ctx)]

    def can_merge(self) -> bool:
        """Ask the nested trigger."""
        return self.nested_trigger.can_merge()

    def on_merge(self, window: W_contra, ctx: OnMergeContext) -> None:
        """Tell the nested trigger."""
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: W_contra, ctx: TriggerContext) -> None:
        """Tell the nested trigger."""
        self.nested_trigger.clear(window, ctx)

    def __repr__(self) -> str:
        return f"PurgingTrigger({self.nested_trigger!r})"


class NeverTrigger(Trigger[object, object]):
    """Never fires, not even at the end of the input; the default of ``GlobalWindows``.

    >>> from funken import GlobalWindows
    >>> from funken.testing import WindowContext, local
    >>> everything = local([1, 2, 3]).key_by(lambda n: "all").window(GlobalWindows.create())
    >>> everything.reduce(lambda a, b: a + b).execute_and_collect(limit=9)
    []
    >>> trigger, ctx = NeverTrigger(), WindowContext()
    >>> trigger.on_element("record", 0, ctx.window, ctx).name, trigger.can_merge(), trigger.on_merge(ctx.window, ctx)
    ('CONTINUE', True, None)
    """

    def on_element(self, element: object, timestamp: int, window: object, ctx: TriggerContext) -> TriggerResult:
        """Go on."""
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return True: there is nothing to merge."""
        return True

    def on_merge(self, window: object, ctx: OnMergeContext) -> None:
        """Do nothing."""


__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountTrigger",
    "DeltaTrigger",
    "EventTimeTrigger",
    "NeverTrigger",
    "OnMergeContext",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "Trigger",
    "TriggerContext",
    "TriggerResult",
]
