"""Windowed streams: how records are grouped in time, when a group is computed, and what of.

``trigger``, ``evictor``, ``allowed_lateness`` and ``side_output_late_data`` return a changed copy; ``reduce``,
``aggregate``, ``apply`` and ``process`` add the operator.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from funken.api.functions.base import as_user_function
from funken.api.streams.declared_types import type_of, typed
from funken.api.streams.family import family
from funken.config import duration_ms
from funken.errors import InvalidProgram
from funken.operators.converting import converted_reduce
from funken.operators.tags import OutputTag
from funken.operators.user_functions import UserFunction
from funken.operators.window.contents import Aggregated, Contents, Elements, Reduced
from funken.operators.window.functions import CallStyle, WindowCall
from funken.operators.window.spec import ONE_KEY, WindowSpec
from funken.plan.nodes import Global, NodeInput
from funken.windowing.evictors import CountEvictor
from funken.windowing.triggers import CountTrigger, PurgingTrigger

if TYPE_CHECKING:
    from funken.api.streams.keyed import KeyedStream
    from funken.api.streams.stream import DataStream


class WindowedStream:
    """The windows of a keyed stream.

    >>> from datetime import timedelta
    >>> from funken import TumblingEventTimeWindows, WatermarkStrategy
    >>> from funken.testing import local
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e[1])
    >>> def windows(*events):
    ...     keyed = local(events).assign_timestamps_and_watermarks(strategy).key_by(lambda e: e[0])
    ...     return keyed.window(TumblingEventTimeWindows.of(timedelta(milliseconds=10)))
    >>> counts = windows(("a", 1), ("b", 2), ("a", 3), ("a", 12)).apply(lambda key, window, events: [(key, len(events))])
    >>> counts.execute_and_collect(limit=3)
    [('a', 2), ('b', 1), ('a', 1)]

    A window that has fired can wait for late records, and those that are later still are not lost:

    >>> from funken import OutputTag, WatermarkGenerator
    >>> class AtOnce(WatermarkGenerator):  # event time is where the newest record is
    ...     def on_event(self, event, event_timestamp, output):
    ...         output.emit_watermark(event_timestamp)
    >>> strategy = WatermarkStrategy.for_generator(AtOnce).with_timestamp_assigner(lambda e, _: e[1])
    >>> late = OutputTag("late")
    >>> waiting = windows(("a", 1), ("a", 12), ("a", 2), ("a", 30), ("a", 3)).allowed_lateness(5)
    >>> counts = waiting.side_output_late_data(late).apply(lambda key, window, events: [(window.start, len(events))])
    >>> too_late = counts.get_side_output(late).map(lambda event: f"too late: {event}")
    >>> sorted(counts.union(too_late).execute_and_collect(limit=5), key=str)
    [(0, 1), (0, 2), (10, 1), (30, 1), "too late: ('a', 3)"]
    """

    _all = False

    def __init__(self, stream: KeyedStream, assigner: Any) -> None:
        self._stream: DataStream = stream
        self._key = stream.key
        self._assigner = assigner
        self._trigger: Any = None
        self._evictor: Any = None
        self._lateness = 0
        self._late_tag: str | None = None

    def _with(self, **fields: Any) -> Any:
        changed = copy(self)
        changed.__dict__.update(fields)
        return changed

    def trigger(self, trigger: Any) -> Any:
        """Compute windows when ``trigger`` says so, instead of the assigner's own trigger.

        >>> from funken import CountTrigger, GlobalWindows
        >>> from funken.testing import local
        >>> everything = local([1, 2, 3, 4]).key_by(lambda _: "all").window(GlobalWindows.create())
        >>> everything.trigger(CountTrigger.of(2)).reduce(lambda x, y: x + y).execute_and_collect(limit=2)
        [3, 10]
        """
        return self._with(_trigger=trigger)

    def evictor(self, evictor: Any) -> Any:
        """Drop elements before or after the function runs; every element is kept until then.

        >>> from funken import CountEvictor, CountTrigger, GlobalWindows
        >>> from funken.testing import local
        >>> everything = local([1, 2, 3, 4]).key_by(lambda _: "all").window(GlobalWindows.create())
        >>> last_three = everything.trigger(CountTrigger.of(2)).evictor(CountEvictor.of(3))
        >>> last_three.apply(lambda key, window, numbers: [list(numbers)]).execute_and_collect(limit=2)
        [[1, 2], [2, 3, 4]]
        """
        return self._with(_evictor=evictor)

    def allowed_lateness(self, time_ms: Any) -> Any:
        """Keep windows this much longer (ms or ``timedelta``), and compute them again for each late record.

        What comes later still is dropped, or goes to the side output of ``side_output_late_data``; the class's example
        shows both. Raises ``InvalidProgram`` for a negative time.
        """
        lateness = duration_ms(time_ms)
        if lateness < 0:
            raise InvalidProgram(f"allowed lateness must not be negative, but is {lateness} ms")
        return self._with(_lateness=lateness)

    def side_output_late_data(self, output_tag: OutputTag) -> Any:
        """Send records that are too late to a side output, instead of dropping them."""
        return self._with(_late_tag=output_tag.tag_id)

    def reduce(self, reduce_function: Any, window_function: Any = None, output_type: Any = None) -> DataStream:
        """Join the records of a window two by two; keeps one record per window.

        With a ``window_function``, that sees the one result: a ``ProcessWindowFunction``, a ``WindowCall``, or
        ``f(key, window, results)``.

        >>> from funken import TumblingEventTimeWindows, WatermarkStrategy
        >>> from funken.testing import local
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e[1])
        >>> events = local([("a", 1), ("a", 7), ("a", 12)]).assign_timestamps_and_watermarks(strategy)
        >>> windows = events.key_by(lambda e: e[0]).window(TumblingEventTimeWindows.of(10))
        >>> windows.reduce(max, lambda key, window, last: [(window.start, *last)]).execute_and_collect(limit=2)
        [(0, ('a', 7)), (10, ('a', 12))]
        """
        contents = Reduced(
            converted_reduce(as_user_function(reduce_function, "reduce", "reduce()"), type_of(self._stream))
        )
        return typed(self._add("window reduce", contents, window_function), output_type)

    def aggregate(
        self,
        aggregate_function: Any,
        window_function: Any = None,
        accumulator_type: Any = None,
        output_type: Any = None,
    ) -> DataStream:
        """Aggregate the records of a window in an accumulator, with an ``AggregateFunction``; keeps only that.

        The ``window_function`` is as for ``reduce``. Raises ``TypeError`` for what is no ``AggregateFunction`` object.

        >>> from funken import AggregateFunction, TumblingEventTimeWindows, WatermarkStrategy
        >>> from funken.testing import local
        >>> class Count(AggregateFunction):
        ...     def create_accumulator(self):
        ...         return 0
        ...     def add(self, value, accumulator):
        ...         return accumulator + 1
        ...     def get_result(self, accumulator):
        ...         return accumulator
        ...     def merge(self, a, b):
        ...         return a + b
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda at, _: at)
        >>> times = local([1, 2, 11]).assign_timestamps_and_watermarks(strategy).key_by(lambda at: "all")
        >>> counts = times.window(TumblingEventTimeWindows.of(10)).aggregate(
        ...     Count(), lambda key, window, counts: [(window.start, count) for count in counts]
        ... )
        >>> counts.execute_and_collect(limit=2)
        [(0, 2), (10, 1)]
        """
        methods = ("create_accumulator", "add", "get_result")
        if isinstance(aggregate_function, type) or not all(hasattr(aggregate_function, name) for name in methods):
            raise TypeError(f"aggregate() needs an AggregateFunction object, but got {aggregate_function!r}")
        rich = hasattr(aggregate_function, "open") and hasattr(aggregate_function, "close")
        contents = Aggregated(UserFunction(aggregate_function, None, rich))
        return typed(self._add("window aggregate", contents, window_function), output_type)

    def apply(self, window_function: Any, output_type: Any = None) -> DataStream:
        """Hand all records of a window to ``window_function(key, window, records)``, or a ``WindowCall``.

        It returns an iterable or ``None``. ``AllWindowedStream`` leaves out the key. The class's example shows it.
        """
        return typed(self._add("window apply", Elements(), window_function), output_type)

    def process(self, process_window_function: Any, output_type: Any = None) -> DataStream:
        """Hand all records of a window to a ``ProcessWindowFunction``; raises ``TypeError`` for anything else.

        >>> from funken import ProcessWindowFunction, TumblingEventTimeWindows, WatermarkStrategy
        >>> from funken.testing import local
        >>> class Middle(ProcessWindowFunction):
        ...     def process(self, key, context, elements):
        ...         yield key, context.window().end, sorted(value for _, value, _ in elements)[len(elements) // 2]
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e[2])
        >>> readings = local([("a", 20, 0), ("a", 99, 3), ("a", 21, 7)]).assign_timestamps_and_watermarks(strategy)
        >>> windows = readings.key_by(lambda e: e[0]).window(TumblingEventTimeWindows.of(10))
        >>> windows.process(Middle()).execute_and_collect(limit=1)
        [('a', 10, 21)]
        """
        if not hasattr(process_window_function, "process"):
            raise TypeError(f"process() needs a ProcessWindowFunction, but got {process_window_function!r}")
        return typed(self._add("window process", Elements(), process_window_function), output_type)

    def _shaped(self, function: Any) -> WindowCall | None:
        if function is None:
            return None
        process, apply = (
            (CallStyle.PROCESS_ALL, CallStyle.APPLY_ALL) if self._all else (CallStyle.PROCESS, CallStyle.APPLY)
        )
        if hasattr(function, "process") and not hasattr(function, "apply"):
            return WindowCall(as_user_function(function, "process", "the window function"), process)
        return WindowCall(as_user_function(function, "apply", "the window function"), apply)

    def _add(self, name: str, contents: Contents, function: Any) -> DataStream:
        spec = WindowSpec(
            key=self._key,
            assigner=self._assigner,
            trigger=self._trigger,
            evictor=self._evictor,
            allowed_lateness_ms=self._lateness,
            late_tag=self._late_tag,
            contents=contents,
            function=self._shaped(function),
        )
        node = self._stream._apply(name, spec, keyed=True, **({"parallelism": 1} if self._all else {}))
        DataStream = family("DataStream")
        return DataStream(self._stream._environment, (NodeInput(node.id),))


class AllWindowedStream(WindowedStream):
    """The windows of a stream that has no key: one subtask sees everything.

    >>> from funken.testing import local
    >>> from funken import CountTumblingWindowAssigner
    >>> local([1, 2, 3, 4]).window_all(CountTumblingWindowAssigner.of(2)).reduce(
    ...     lambda x, y: x + y
    ... ).execute_and_collect(limit=2)
    [3, 7]
    """

    _all = True

    def __init__(self, stream: DataStream, assigner: Any) -> None:
        self._stream = stream._spread(Global())
        self._key = ONE_KEY
        self._assigner = assigner
        self._trigger = None
        self._evictor = None
        self._lateness = 0
        self._late_tag = None


def count_windows(windowed: Any, size: int, slide: int) -> Any:
    """Return count windows as Flink's Java API has them: every ``slide`` records the last ``size``; 0 means tumbling."""
    if size < 1 or slide < 0:
        raise InvalidProgram(f"a count window needs a size from 1 on and a slide from 0 on, not {size} and {slide}")
    if slide:
        return windowed.trigger(CountTrigger.of(slide)).evictor(CountEvictor.of(size))
    return windowed.trigger(PurgingTrigger.of(CountTrigger.of(size)))
