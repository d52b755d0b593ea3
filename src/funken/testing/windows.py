"""The surroundings of one window, for testing triggers, evictors and assigners by hand.

State and timers are the real ones; nothing fires by itself: the test calls the rule, and looks at what it answers and
at the timers that it waits for.
"""

from __future__ import annotations

import copy
from typing import Any

from funken.ids import DEFAULT_MAX_PARALLELISM, MIN_TIMESTAMP
from funken.metrics.registry import MetricGroup
from funken.operators.base import OperatorContext, RuntimeContext
from funken.state.descriptors import StateDescriptor
from funken.state.keyed import KeyedStateStore
from funken.timing.clock import ManualClock
from funken.timing.instants import checked_time
from funken.timing.timers import InternalTimerService
from funken.windowing.windows import GlobalWindow


class WindowContext:
    """The context of a trigger, an evictor or a window assigner, for one window of one key.

    ``watermark`` and ``now`` (processing time) are in ms, and may be set in between. Timers that are due then are gone,
    as they are in a job when the trigger is called for them.

    >>> from funken import EventTimeTrigger, TimeWindow
    >>> trigger, window = EventTimeTrigger.create(), TimeWindow(0, 10)
    >>> ctx = WindowContext(window)
    >>> trigger.on_element("record", 5, window, ctx).name, ctx.event_time_timers
    ('CONTINUE', [9])
    >>> ctx.watermark = 9
    >>> trigger.on_element("a late record", 5, window, ctx).name
    'FIRE'

    A trigger of one's own, that fires after 50 ms without a record, sees the context from the other side:

    >>> from funken import ReducingStateDescriptor, Trigger, TriggerResult
    >>> LAST = ReducingStateDescriptor("last", max)
    >>> class WhenQuiet(Trigger):
    ...     def on_element(self, element, timestamp, window, ctx):
    ...         last = ctx.get_partitioned_state(LAST)
    ...         ctx.delete_processing_time_timer((last.get() or 0) + 50)
    ...         last.add(ctx.get_current_processing_time())
    ...         ctx.register_processing_time_timer(last.get() + 50)
    ...         return TriggerResult.CONTINUE
    >>> for ctx.now in (100, 120):
    ...     _ = WhenQuiet().on_element("record", 5, window, ctx)
    >>> ctx.processing_time_timers
    [170]
    """

    def __init__(self, window: Any = None, *, watermark: int = MIN_TIMESTAMP, now: int = 0) -> None:
        self.window: Any = GlobalWindow.get() if window is None else window
        self._merged: tuple[Any, ...] = ()
        self._clock = ManualClock(now)
        self._store = KeyedStateStore(DEFAULT_MAX_PARALLELISM, range(DEFAULT_MAX_PARALLELISM), self._clock.now)
        self._store.current_key = "key"
        self._timers = InternalTimerService(self._clock.now)
        self._timers.current_watermark = watermark
        self._context = OperatorContext(
            operator="window",
            subtask=0,
            parallelism=1,
            max_parallelism=DEFAULT_MAX_PARALLELISM,
            processing_time=self._clock.now,
            keyed=self._store,
            timers=self._timers,
        )

    def of(self, window: Any, *merged: Any) -> WindowContext:
        """Return the context of another window of the key, into which those in ``merged`` have gone.

        >>> from funken import CountTrigger, TimeWindow
        >>> trigger, one, two = CountTrigger.of(3), TimeWindow(0, 10), TimeWindow(5, 15)
        >>> ctx = WindowContext(one)
        >>> trigger.on_element("a", 0, one, ctx).name, trigger.on_element("b", 5, two, ctx.of(two)).name
        ('CONTINUE', 'CONTINUE')
        >>> session = one.cover(two)
        >>> trigger.on_merge(session, ctx.of(session, one, two))
        >>> trigger.on_element("c", 7, session, ctx.of(session)).name
        'FIRE'
        """
        other = copy.copy(self)
        other.window, other._merged = window, merged
        return other

    # ---- what the test sets and sees

    @property
    def watermark(self) -> int:
        """The watermark (ms).

        >>> ctx = WindowContext(watermark=8)
        >>> ctx.watermark += 1
        >>> ctx.get_current_watermark()
        9
        """
        return self._timers.current_watermark

    @watermark.setter
    def watermark(self, watermark: int) -> None:
        self._timers.advance_watermark(watermark, _drop)

    @property
    def now(self) -> int:
        """Processing time (ms).

        >>> ctx = WindowContext(now=100)
        >>> ctx.now += 50
        >>> ctx.get_current_processing_time()
        150
        """
        return self._clock.now()

    @now.setter
    def now(self, now: int) -> None:
        self._clock.set(now)
        self._timers.advance_processing_time(now - 1, _drop)  # due when the ms has passed

    @property
    def event_time_timers(self) -> list[int]:
        """The event times (ms) that the window waits for, earliest first."""
        return self._waiting("event")

    @property
    def processing_time_timers(self) -> list[int]:
        """The processing times (ms) that the window waits for, earliest first.

        >>> from funken import ProcessingTimeTrigger, TimeWindow
        >>> ctx = WindowContext(TimeWindow(0, 10))
        >>> _ = ProcessingTimeTrigger.create().on_element("record", 0, ctx.window, ctx)
        >>> ctx.processing_time_timers
        [9]
        >>> ctx.now = 10
        >>> ctx.processing_time_timers
        []
        """
        return self._waiting("processing")

    def _waiting(self, domain: str) -> list[int]:
        groups = self._timers.snapshot().groups.values()
        return sorted(at for timers in groups for at, _, window in timers.get(domain, ()) if window == self.window)

    # ---- what the rule asks

    def get_current_processing_time(self) -> int:
        """Return ``now``."""
        return self.now

    def get_current_watermark(self) -> int:
        """Return ``watermark``; ``MIN_TIMESTAMP`` before there is one.

        >>> WindowContext().get_current_watermark()
        -9223372036854775808
        """
        return self.watermark

    def get_metric_group(self) -> MetricGroup:
        """Return the operator's metrics.

        >>> ctx = WindowContext()
        >>> ctx.get_metric_group().counter("early").inc()
        >>> ctx.get_metric_group().counter("early").get_count()
        1
        """
        return self._context.metrics

    def get_runtime_context(self) -> RuntimeContext:
        """Return the runtime context; its keyed state is that of the key, for all windows.

        >>> from funken import CountTumblingWindowAssigner  # counts in keyed state
        >>> pairs, ctx = CountTumblingWindowAssigner.of(2), WindowContext()
        >>> [pairs.assign_windows("record", 0, ctx)[0].id for _ in range(4)]
        [0, 0, 1, 1]
        >>> ctx.get_runtime_context().get_task_name()
        'window'
        """
        return RuntimeContext(self._context)

    def register_event_time_timer(self, time: int) -> None:
        """Add to ``event_time_timers``.

        >>> ctx = WindowContext()
        >>> ctx.register_event_time_timer(9)
        >>> ctx.watermark = 8
        >>> ctx.event_time_timers
        [9]
        >>> ctx.watermark = 9
        >>> ctx.event_time_timers
        []
        """
        self._timers.register_event_time_timer(self._store.current_key, self.window, checked_time(time))

    def register_processing_time_timer(self, time: int) -> None:
        """Add to ``processing_time_timers``."""
        self._timers.register_processing_time_timer(self._store.current_key, self.window, checked_time(time))

    def delete_event_time_timer(self, time: int) -> None:
        """Take out of ``event_time_timers``.

        >>> ctx = WindowContext()
        >>> ctx.register_event_time_timer(9)
        >>> ctx.delete_event_time_timer(9)
        >>> ctx.event_time_timers
        []
        """
        self._timers.delete_event_time_timer(self._store.current_key, self.window, checked_time(time))

    def delete_processing_time_timer(self, time: int) -> None:
        """Take out of ``processing_time_timers``."""
        self._timers.delete_processing_time_timer(self._store.current_key, self.window, checked_time(time))

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """Return the state of the key and the window."""
        handle = self._store.namespaced(state_descriptor)
        handle.namespace = self.window
        return handle

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the state of the windows given to ``of`` into that of this one.

        >>> from funken import ReducingStateDescriptor
        >>> count, ctx = ReducingStateDescriptor("count", lambda a, b: a + b), WindowContext("first")
        >>> for window in ("first", "second"):
        ...     ctx.of(window).get_partitioned_state(count).add(1)
        >>> merged = ctx.of("both", "first", "second")
        >>> merged.merge_partitioned_state(count)
        >>> merged.get_partitioned_state(count).get()
        2
        """
        self._store.merge_namespaces(state_descriptor, self.window, self._merged)


def _drop(timestamp: int, key: Any, window: Any) -> None:
    """Take a due timer away: the test calls the trigger."""
