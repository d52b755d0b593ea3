"""Triggers: when a window's contents are computed on, and when they are thrown away.

The rules that come with Funken, each over the contract in ``firing.py``. Names of trigger states begin with
``_trigger.``, so that they never meet a user's.
"""

from __future__ import annotations

from typing import Any

from funken.errors import InvalidProgram
from funken.ids import MAX_WATERMARK
from funken.state.descriptors import ReducingStateDescriptor, ValueStateDescriptor
from funken.windowing.durations import DurationLike, millis
from funken.windowing.firing import OnMergeContext, Trigger, TriggerContext, TriggerResult


class EventTimeTrigger(Trigger):
    """Fires when the watermark passes the end of the window, and at once for each record after that."""

    @staticmethod
    def create() -> EventTimeTrigger:
        """Return the trigger."""
        return EventTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        """Fire if the end has passed, else wait for it."""
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        """Fire at the end."""
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
        """Wait for the end of the merged window."""
        end = window.max_timestamp()
        if end > ctx.get_current_watermark():
            ctx.register_event_time_timer(end)

    def clear(self, window: Any, ctx: Any) -> None:
        """Stop waiting."""
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(Trigger):
    """Fires when the clock passes the end of the window."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """Return the trigger."""
        return ProcessingTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        """Wait for the end."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        """Fire."""
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
        """Wait for the end of the merged window."""
        end = window.max_timestamp()
        if end > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(end)

    def clear(self, window: Any, ctx: Any) -> None:
        """Stop waiting."""
        ctx.delete_processing_time_timer(window.max_timestamp())


_FIRE_TIME = ReducingStateDescriptor("_trigger.fire-time", min)


class _Continuous(Trigger):
    """A trigger that fires every ``interval`` milliseconds, in step with the multiples of it."""

    def __init__(self, interval: DurationLike) -> None:
        self.interval = int(millis(interval))
        if self.interval <= 0:
            raise InvalidProgram(f"{type(self).__name__} needs an interval above 0 ms, but got {self.interval}.")

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def _next(self, time: int, window: Any) -> int:
        """Return when to fire after ``time``: at the end of the window, if that is ahead and comes first."""
        at, end = time + self.interval, window.max_timestamp()
        return int(end if time < end < at else at)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.interval})"


class ContinuousEventTimeTrigger(_Continuous):
    """Fires each time the watermark passes another multiple of the interval, and at the end of the window.

    >>> ContinuousEventTimeTrigger.of(1000)
    ContinuousEventTimeTrigger(1000)
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
    """Fires every ``interval`` of the clock while the window has contents, and at the end of the window."""

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


def _add(a: int, b: int) -> int:
    return a + b


COUNT = ReducingStateDescriptor("_trigger.count", _add)


class CountTrigger(Trigger):
    """Fires at every ``max_count``-th record of the window; the contents stay (see ``PurgingTrigger``).

    >>> PurgingTrigger.of(CountTrigger.of(3))
    PurgingTrigger(CountTrigger(3))
    """

    def __init__(self, max_count: int) -> None:
        if max_count <= 0:
            raise InvalidProgram(f"CountTrigger needs a count above 0, but got {max_count}.")
        self.max_count = max_count

    @staticmethod
    def of(max_count: int) -> CountTrigger:
        """Return the trigger for a count."""
        return CountTrigger(max_count)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        """Count, and fire if it is the one."""
        count = ctx.get_partitioned_state(COUNT)
        count.add(1)
        if count.get() < self.max_count:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
        """Add the counts."""
        ctx.merge_partitioned_state(COUNT)

    def clear(self, window: Any, ctx: Any) -> None:
        """Forget the count."""
        ctx.get_partitioned_state(COUNT).clear()

    def __repr__(self) -> str:
        return f"CountTrigger({self.max_count})"


_LAST = ValueStateDescriptor("_trigger.last-element")


class DeltaTrigger(Trigger):
    """Fires when a record is further than ``threshold`` from the one that fired last (at first: from the first one).

    ``delta_function`` is a callable ``(old, new) -> number``, or an object with a method ``get_delta(old, new)``.

    >>> DeltaTrigger.of(2.5, lambda old, new: abs(new - old))
    DeltaTrigger(2.5)
    """

    def __init__(self, threshold: float, delta_function: Any) -> None:
        self.threshold = threshold
        self.delta = getattr(delta_function, "get_delta", delta_function)

    @staticmethod
    def of(threshold: float, delta_function: Any) -> DeltaTrigger:
        """Return the trigger for a threshold."""
        return DeltaTrigger(threshold, delta_function)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
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

    def clear(self, window: Any, ctx: Any) -> None:
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


class PurgingTrigger(Trigger):
    """Fires when another trigger does, and then drops the contents."""

    def __init__(self, nested_trigger: Trigger) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger) -> PurgingTrigger:
        """Return the purging variant of a trigger."""
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        """Ask the nested trigger."""
        return _PURGING[self.nested_trigger.on_element(element, timestamp, window, ctx)]

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        """Ask the nested trigger."""
        return _PURGING[self.nested_trigger.on_processing_time(time, window, ctx)]

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        """Ask the nested trigger."""
        return _PURGING[self.nested_trigger.on_event_time(time, window, ctx)]

    def can_merge(self) -> bool:
        """Ask the nested trigger."""
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Any, ctx: Any) -> None:
        """Tell the nested trigger."""
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Any, ctx: Any) -> None:
        """Tell the nested trigger."""
        self.nested_trigger.clear(window, ctx)

    def __repr__(self) -> str:
        return f"PurgingTrigger({self.nested_trigger!r})"


class NeverTrigger(Trigger):
    """Never fires, not even at the end of the input."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        """Go on."""
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return True: there is nothing to merge."""
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
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
