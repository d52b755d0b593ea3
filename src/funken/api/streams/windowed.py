"""Windowed streams: how records are grouped in time, when a group is computed, and what of.

``trigger``, ``evictor``, ``allowed_lateness`` and ``side_output_late_data`` return a changed copy; ``reduce``,
``aggregate``, ``apply`` and ``process`` add the operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from funken.api.functions.aggregates import CountRecords
from funken.api.streams.declared_types import typed
from funken.api.streams.window_settings import WindowSettings
from funken.operators.user_functions import UserFunction
from funken.operators.window.contents import Aggregated, Elements
from funken.operators.window.spec import ONE_KEY
from funken.plan.nodes import Global
from funken.types.generics import A, Generic, K_co, R, S, T_co, W

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from funken.api.functions.aggregates import Folds
    from funken.api.functions.base import AggregateFunction, ReduceFunction
    from funken.api.functions.windows import (
        AllWindowFunction,
        ProcessAllWindowFunction,
        ProcessWindowFunction,
        WindowFunction,
    )
    from funken.api.streams.keyed import KeyedStream
    from funken.api.streams.stream import DataStream
    from funken.operators.tags import SideOutput
    from funken.types.info import TypeInformation
    from funken.windowing.assigners import WindowAssigner


class WindowedStream(WindowSettings[T_co, W], Generic[T_co, K_co, W]):
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
    """

    def __init__(self, stream: KeyedStream[T_co, K_co], assigner: WindowAssigner[T_co, W]) -> None:
        super().__init__(stream, stream.key, assigner)

    @overload
    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], T_co] | ReduceFunction[T_co] | Folds,
        window_function: None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[T_co]: ...
    @overload
    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], T_co] | ReduceFunction[T_co] | Folds,
        window_function: Callable[[K_co, W, list[T_co]], Iterable[R | SideOutput] | None]
        | WindowFunction[T_co, R, K_co, W]
        | ProcessWindowFunction[T_co, R, K_co, W],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...
    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], T_co] | ReduceFunction[T_co] | Folds,
        window_function: object = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """Join the records of a window two by two; keeps one record per window.

        Instead of a function it takes folds by field, as ``KeyedStream.reduce`` does. With a ``window_function``, that sees
        the one result: a ``ProcessWindowFunction``, a ``WindowCall``, or ``f(key, window, results)``.

        >>> from funken import TumblingEventTimeWindows, WatermarkStrategy
        >>> from funken.testing import local
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e[1])
        >>> events = local([("a", 1), ("a", 7), ("a", 12)]).assign_timestamps_and_watermarks(strategy)
        >>> windows = events.key_by(lambda e: e[0]).window(TumblingEventTimeWindows.of(10))
        >>> windows.reduce(max, lambda key, window, last: [(window.start, *last)]).execute_and_collect(limit=2)
        [(0, ('a', 7)), (10, ('a', 12))]
        """
        return typed(self._reduce(reduce_function, window_function), output_type)

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T_co, A, R],
        window_function: None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...
    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T_co, A, S],
        window_function: Callable[[K_co, W, list[S]], Iterable[R | SideOutput] | None]
        | WindowFunction[S, R, K_co, W]
        | ProcessWindowFunction[S, R, K_co, W],
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T_co, A, S],
        window_function: object = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
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
        return typed(self._aggregate(aggregate_function, window_function), output_type)

    def apply(
        self,
        window_function: Callable[[K_co, W, list[T_co]], Iterable[R | SideOutput] | None]
        | WindowFunction[T_co, R, K_co, W],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Hand all records of a window to ``window_function(key, window, records)``, or a ``WindowCall``.

        It returns an iterable or ``None``. ``AllWindowedStream`` leaves out the key. The class's example shows it.
        """
        return typed(self._add("window apply", Elements(), window_function), output_type)

    def process(
        self,
        process_window_function: ProcessWindowFunction[T_co, R, K_co, W],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
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
        return typed(self._process(process_window_function), output_type)

    def count(self) -> DataStream[tuple[K_co, int]]:
        """Count the records of each window: ``(key, count)``.

        >>> from funken import TumblingEventTimeWindows, WatermarkStrategy
        >>> from funken.testing import local
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e[1])
        >>> views = local([("/a", 1), ("/b", 2), ("/a", 3), ("/a", 12)]).assign_timestamps_and_watermarks(strategy)
        >>> per_page = views.key_by(lambda view: view[0]).window(TumblingEventTimeWindows.of("10 ms")).count()
        >>> per_page.execute_and_collect(limit=3)
        [('/a', 2), ('/b', 1), ('/a', 1)]
        """
        return self._add("window count", Aggregated(UserFunction(CountRecords())), _with_key)


def _with_key(key: S, window: object, counts: Iterable[int]) -> list[tuple[S, int]]:
    return [(key, count) for count in counts]


class AllWindowedStream(WindowSettings[T_co, W]):
    """The windows of a stream that has no key: one subtask sees everything.

    >>> from funken import AggregateFunction, CountTumblingWindowAssigner, ProcessAllWindowFunction
    >>> from funken.testing import local
    >>> class Mean(AggregateFunction):
    ...     def create_accumulator(self):
    ...         return 0, 0
    ...     def add(self, value, accumulator):
    ...         return accumulator[0] + value, accumulator[1] + 1
    ...     def get_result(self, accumulator):
    ...         return accumulator[0] / accumulator[1]
    >>> class Numbered(ProcessAllWindowFunction):
    ...     def process(self, context, elements):
    ...         yield context.window().id, elements
    >>> pairs = local([1, 2, 3, 4]).window_all(CountTumblingWindowAssigner.of(2))
    >>> pairs.reduce(lambda x, y: x + y).execute_and_collect(limit=2)
    [3, 7]
    >>> pairs.aggregate(Mean()).execute_and_collect(limit=2)
    [1.5, 3.5]
    >>> pairs.apply(lambda window, numbers: [max(numbers)]).execute_and_collect(limit=2)
    [2, 4]
    >>> pairs.process(Numbered()).execute_and_collect(limit=2)
    [(0, [1, 2]), (1, [3, 4])]
    """

    _all = True

    def __init__(self, stream: DataStream[T_co], assigner: WindowAssigner[T_co, W]) -> None:
        super().__init__(stream._spread(Global()), ONE_KEY, assigner)

    @overload
    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], T_co] | ReduceFunction[T_co] | Folds,
        window_function: None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[T_co]: ...
    @overload
    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], T_co] | ReduceFunction[T_co] | Folds,
        window_function: Callable[[W, list[T_co]], Iterable[R | SideOutput] | None]
        | AllWindowFunction[T_co, R, W]
        | ProcessAllWindowFunction[T_co, R, W],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...
    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], T_co] | ReduceFunction[T_co] | Folds,
        window_function: object = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """Join the records of a window two by two; with a function of the window, that sees the one result."""
        return typed(self._reduce(reduce_function, window_function), output_type)

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T_co, A, R],
        window_function: None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...
    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T_co, A, S],
        window_function: Callable[[W, list[S]], Iterable[R | SideOutput] | None]
        | AllWindowFunction[S, R, W]
        | ProcessAllWindowFunction[S, R, W],
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T_co, A, S],
        window_function: object = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """Aggregate the records of a window with an ``AggregateFunction``; else as ``reduce``."""
        return typed(self._aggregate(aggregate_function, window_function), output_type)

    def apply(
        self,
        window_function: Callable[[W, list[T_co]], Iterable[R | SideOutput] | None] | AllWindowFunction[T_co, R, W],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Hand all records of a window to ``window_function(window, records)``, or an ``AllWindowFunction``."""
        return typed(self._add("window apply", Elements(), window_function), output_type)

    def process(
        self, process_window_function: ProcessAllWindowFunction[T_co, R, W], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Hand all records of a window to a ``ProcessAllWindowFunction``; raises ``TypeError`` for anything else."""
        return typed(self._process(process_window_function), output_type)

    def count(self) -> DataStream[int]:
        """Count the records of each window.

        >>> from funken.testing import local
        >>> local(["to", "be", "or"]).count_window_all(3).count().execute_and_collect(limit=1)
        [3]
        """
        return self._add("window count", Aggregated(UserFunction(CountRecords())), None)
