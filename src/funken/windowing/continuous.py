"""Triggers that fire again and again while a window is open, for early results.

They fire at the multiples of an interval, so that the windows of all keys fire together. The time a window waits for is
in its trigger state: of merged windows, the earliest counts (Flink's ``ContinuousEventTimeTrigger`` and
``ContinuousProcessingTimeTrigger``).
"""

from __future__ import annotations

from typing import Any

from funken.errors import InvalidProgram
from funken.ids import MAX_WATERMARK
from funken.io.durations import DurationLike, duration_ms
from funken.state.descriptors import ReducingStateDescriptor
from funken.windowing.firing import Trigger, TriggerResult

_FIRE_TIME = ReducingStateDescriptor("_trigger.fire-time", min)


class _Continuous(Trigger):
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

    def _next(self, time: int, window: Any) -> int:
        """Return when to fire after ``time``: at the end of the window, if that is ahead and comes first."""
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

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
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

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
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

    def on_merge(self, window: Any, ctx: Any) -> None:
        """Keep the earliest of the times that the merged windows waited for."""
        ctx.merge_partitioned_state(_FIRE_TIME)
        at = ctx.get_partitioned_state(_FIRE_TIME).get()
        if at is not None:
            ctx.register_event_time_timer(at)

    def clear(self, window: Any, ctx: Any) -> None:
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

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        """Wait for the next multiple of the interval."""
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        if fire_time.get() is None:
            now = ctx.get_current_processing_time()
            at = self._next(now - now % self.interval, window)
            fire_time.add(at)
            ctx.register_processing_time_timer(at)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        """Fire, and wait for the next multiple."""
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        if fire_time.get() != time:
            return TriggerResult.CONTINUE
        fire_time.clear()
        at = self._next(time, window)
        fire_time.add(at)
        ctx.register_processing_time_timer(at)
        return TriggerResult.FIRE

    def on_merge(self, window: Any, ctx: Any) -> None:
        """Keep the earliest of the times that the merged windows waited for."""
        ctx.merge_partitioned_state(_FIRE_TIME)
        at = ctx.get_partitioned_state(_FIRE_TIME).get()
        if at is not None:
            ctx.register_processing_time_timer(at)

    def clear(self, window: Any, ctx: Any) -> None:
        """Stop waiting."""
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        at = fire_time.get()
        if at is not None:
            ctx.delete_processing_time_timer(at)
            fire_time.clear()
