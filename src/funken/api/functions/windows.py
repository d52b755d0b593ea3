"""Function objects for windows: they see a whole window at once, or the one result of ``reduce`` or ``aggregate``.

What they return carries the largest timestamp of the window; ``(OutputTag, record)`` goes to a side output.
"""

from __future__ import annotations

from collections.abc import Iterable

from funken.api.functions.base import Function
from funken.operators.tags import SideOutput
from funken.operators.window.functions import ProcessWindowContext
from funken.types.generics import Generic, IN_contra, K_contra, OUT_co, S, W_contra


class WindowFunction(Function, Generic[IN_contra, OUT_co, K_contra, W_contra]):
    """Sees all elements of a window of a key.

    >>> from funken import TumblingEventTimeWindows, WatermarkStrategy
    >>> from funken.testing import local
    >>> class Spread(WindowFunction):
    ...     def apply(self, key, window, inputs):
    ...         values = [value for _, value, _ in inputs]
    ...         yield key, window.start, max(values) - min(values)
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e[2])
    >>> readings = local([("a", 20, 0), ("a", 23, 8), ("a", 21, 12)]).assign_timestamps_and_watermarks(strategy)
    >>> windows = readings.key_by(lambda e: e[0]).window(TumblingEventTimeWindows.of(10))
    >>> windows.apply(Spread()).execute_and_collect(limit=2)
    [('a', 0, 3), ('a', 10, 0)]
    """

    def apply(self, key: K_contra, window: W_contra, inputs: list[IN_contra]) -> Iterable[OUT_co | SideOutput] | None:
        """Return or yield results; ``None`` is none."""
        raise NotImplementedError


class AllWindowFunction(Function, Generic[IN_contra, OUT_co, W_contra]):
    """Sees all elements of a window of a stream without keys.

    >>> from funken.testing import local
    >>> class Sort(AllWindowFunction):
    ...     def apply(self, window, inputs):
    ...         yield from sorted(inputs)
    >>> local([3, 1, 2, 9, 8, 7]).count_window_all(3).apply(Sort()).execute_and_collect(limit=6)
    [1, 2, 3, 7, 8, 9]
    """

    def apply(self, window: W_contra, inputs: list[IN_contra]) -> Iterable[OUT_co | SideOutput] | None:
        """Return or yield results; ``None`` is none."""
        raise NotImplementedError


class ProcessWindowFunction(Function, Generic[IN_contra, OUT_co, K_contra, W_contra]):
    """Sees all elements of a window of a key, with a context: the window, the time, and state.

    State of the window lives as long as the window, also when late records fire it again; it is freed in ``clear``:

    >>> from funken import TumblingEventTimeWindows, ValueStateDescriptor, WatermarkStrategy
    >>> from funken.testing import local
    >>> firings = ValueStateDescriptor("firings")
    >>> class Count(ProcessWindowFunction):
    ...     def process(self, key, context, elements):
    ...         count = context.window_state().get_state(firings)
    ...         count.update((count.value() or 0) + 1)
    ...         yield key, context.window().start, len(elements), f"firing {count.value()}"
    ...     def clear(self, context):
    ...         context.window_state().get_state(firings).clear()
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e[1])
    >>> events = local([("a", 1), ("a", 2), ("b", 11)]).assign_timestamps_and_watermarks(strategy)
    >>> windows = events.key_by(lambda e: e[0]).window(TumblingEventTimeWindows.of(10))
    >>> windows.process(Count()).execute_and_collect(limit=2)
    [('a', 0, 2, 'firing 1'), ('b', 10, 1, 'firing 1')]
    """

    Context = ProcessWindowContext[S]

    def process(
        self, key: K_contra, context: ProcessWindowContext[W_contra], elements: list[IN_contra]
    ) -> Iterable[OUT_co | SideOutput] | None:
        """Return or yield results; ``None`` is none.

        ``context`` has ``window()``, ``current_processing_time()`` and ``current_watermark()`` (ms), ``window_state()``,
        ``global_state()`` (that of the key) and ``output(tag, record)``.
        """
        raise NotImplementedError

    def clear(self, context: ProcessWindowContext[W_contra]) -> None:
        """Drop per-window state; runs when the window is cleaned up, once its allowed lateness is over."""


class ProcessAllWindowFunction(Function, Generic[IN_contra, OUT_co, W_contra]):
    """Sees all elements of a window of a stream without keys, with a context.

    >>> from funken import TumblingEventTimeWindows, WatermarkStrategy
    >>> from funken.testing import local
    >>> class Top(ProcessAllWindowFunction):
    ...     def process(self, context, elements):
    ...         yield context.window().end, max(elements)
    ...     def clear(self, context):
    ...         pass  # no state of the window to free
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda at, _: at)
    >>> times = local([3, 7, 12]).assign_timestamps_and_watermarks(strategy)
    >>> times.window_all(TumblingEventTimeWindows.of(10)).process(Top()).execute_and_collect(limit=2)
    [(10, 7), (20, 12)]
    """

    Context = ProcessWindowContext[S]

    def process(
        self, context: ProcessWindowContext[W_contra], elements: list[IN_contra]
    ) -> Iterable[OUT_co | SideOutput] | None:
        """Return or yield results; ``None`` is none. The context is that of a ``ProcessWindowFunction``."""
        raise NotImplementedError

    def clear(self, context: ProcessWindowContext[W_contra]) -> None:
        """Drop per-window state; runs when the window is cleaned up, once its allowed lateness is over."""
