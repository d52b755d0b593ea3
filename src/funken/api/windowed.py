"""Windowed streams: how records are grouped in time, when a group is computed, and what of.

``trigger``, ``evictor``, ``allowed_lateness`` and ``side_output_late_data`` return a changed copy; ``reduce``,
``aggregate``, ``apply`` and ``process`` add the operator.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from funken.api.functions import as_call
from funken.api.typed import type_of, typed
from funken.config import duration_ms
from funken.errors import InvalidProgram
from funken.operators.calls import Call
from funken.operators.tags import OutputTag
from funken.operators.typed import converted_reduce
from funken.operators.window import ONE_KEY, Window
from funken.operators.window_contents import Aggregated, Contents, Elements, Reduced
from funken.operators.window_functions import Shape, WindowFunction
from funken.plan.nodes import Global, Input
from funken.windowing.evictors import CountEvictor
from funken.windowing.triggers import CountTrigger, PurgingTrigger

if TYPE_CHECKING:
    from funken.api.keyed import KeyedStream
    from funken.api.stream import DataStream


class WindowedStream:
    """The windows of a keyed stream.

    >>> from datetime import timedelta
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
    >>> times.window(TumblingEventTimeWindows.of(timedelta(milliseconds=10))).aggregate(
    ...     Count(), lambda key, window, counts: [(window.start, n) for n in counts]
    ... ).execute_and_collect(limit=2)
    [(0, 2), (10, 1)]
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
        """Compute windows when ``trigger`` says so, instead of the assigner's own trigger."""
        return self._with(_trigger=trigger)

    def evictor(self, evictor: Any) -> Any:
        """Drop elements before or after the function runs; every element is kept until then."""
        return self._with(_evictor=evictor)

    def allowed_lateness(self, time_ms: Any) -> Any:
        """Keep windows this much longer (ms or ``timedelta``), and compute them again for each late record."""
        lateness = duration_ms(time_ms)
        if lateness < 0:
            raise InvalidProgram(f"allowed lateness must not be negative, but is {lateness} ms")
        return self._with(_lateness=lateness)

    def side_output_late_data(self, output_tag: OutputTag) -> Any:
        """Send records that are too late to a side output, instead of dropping them."""
        return self._with(_late_tag=output_tag.tag_id)

    def reduce(self, reduce_function: Any, window_function: Any = None, output_type: Any = None) -> DataStream:
        """Join the records of a window two by two; keeps one record per window.

        With a ``window_function``, that sees the one result: a ``ProcessWindowFunction``, a ``WindowFunction``, or
        ``f(key, window, results)``.
        """
        contents = Reduced(converted_reduce(as_call(reduce_function, "reduce", "reduce()"), type_of(self._stream)))
        return typed(self._add("window reduce", contents, window_function), output_type)

    def aggregate(
        self,
        aggregate_function: Any,
        window_function: Any = None,
        accumulator_type: Any = None,
        output_type: Any = None,
    ) -> DataStream:
        """Aggregate the records of a window in an accumulator, with an ``AggregateFunction``."""
        methods = ("create_accumulator", "add", "get_result")
        if isinstance(aggregate_function, type) or not all(hasattr(aggregate_function, name) for name in methods):
            raise TypeError(f"aggregate() needs an AggregateFunction object, but got {aggregate_function!r}")
        rich = hasattr(aggregate_function, "open") and hasattr(aggregate_function, "close")
        contents = Aggregated(Call(aggregate_function, None, rich))
        return typed(self._add("window aggregate", contents, window_function), output_type)

    def apply(self, window_function: Any, output_type: Any = None) -> DataStream:
        """Hand all records of a window to ``window_function(key, window, records)``, or a ``WindowFunction``."""
        return typed(self._add("window apply", Elements(), window_function), output_type)

    def process(self, process_window_function: Any, output_type: Any = None) -> DataStream:
        """Hand all records of a window to a ``ProcessWindowFunction``."""
        if not hasattr(process_window_function, "process"):
            raise TypeError(f"process() needs a ProcessWindowFunction, but got {process_window_function!r}")
        return typed(self._add("window process", Elements(), process_window_function), output_type)

    def _shaped(self, function: Any) -> WindowFunction | None:
        if function is None:
            return None
        process, apply = (Shape.PROCESS_ALL, Shape.APPLY_ALL) if self._all else (Shape.PROCESS, Shape.APPLY)
        if hasattr(function, "process") and not hasattr(function, "apply"):
            return WindowFunction(as_call(function, "process", "the window function"), process)
        return WindowFunction(as_call(function, "apply", "the window function"), apply)

    def _add(self, name: str, contents: Contents, function: Any) -> DataStream:
        spec = Window(
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
        from funken.api.stream import DataStream

        return DataStream(self._stream._environment, (Input(node.id),))


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
