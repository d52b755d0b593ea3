"""Windowed streams: the assigner, trigger and evictor of a window, and the function over its records.

``trigger``, ``evictor``, ``allowed_lateness`` and ``side_output_late_data`` return a changed copy; ``reduce``,
``aggregate``, ``apply`` and ``process`` add the operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from funken.api.functions import (
    CountRecords,
    ExtremeField,
    ExtremeRecord,
    Function,
    ReduceFields,
    SumField,
    as_user_function,
    check_beginning,
    check_position,
    check_result,
)
from funken.api.streams.family import OfStreams, family
from funken.api.streams.settings import type_of, typed
from funken.errors import InvalidProgram
from funken.io.durations import duration_ms
from funken.operators.base import OutputTag
from funken.operators.mistakes import warn_of_changed
from funken.operators.user_functions import UserFunction, converted_reduce
from funken.operators.window.contents import Aggregated, CallStyle, Contents, Elements, Reduced, WindowCall
from funken.operators.window.spec import ONE_KEY, WindowSpec
from funken.plan.nodes import Global, NodeInput
from funken.types.callables import (
    A,
    Generic,
    K_co,
    R,
    S,
    T_co,
    W,
    check_arguments,
    check_function,
    check_kind,
    check_methods,
)
from funken.windowing.assigners import WindowAssigner
from funken.windowing.evictors import CountEvictor, Evictor
from funken.windowing.triggers import CountTrigger, PurgingTrigger
from funken.windowing.windows import Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from funken.api.functions import (
        AggregateFunction,
        AllWindowFunction,
        Folds,
        ProcessAllWindowFunction,
        ProcessWindowFunction,
        ReduceFunction,
        WindowFunction,
    )
    from funken.api.streams.keyed import KeyedStream
    from funken.api.streams.stream import DataStream
    from funken.io.durations import DurationLike
    from funken.operators.base import SideOutput
    from funken.types.info import TypeInformation


# ---- The clauses of windows: trigger, evictor, lateness; and the operator that windows become.
#
# ``WindowedStream`` and ``AllWindowedStream`` derive from ``WindowSettings``, and say what functions they take.


Windows = TypeVar("Windows", bound="WindowSettings[Any, Any]")


class WindowSettings(OfStreams, Generic[T_co, W]):
    """The base of windows of keyed streams and of whole streams: the clauses, and the operator.

    A window that has fired can wait for late records, and those that are later still are not lost:

    >>> from funken import OutputTag, TumblingEventTimeWindows, WatermarkGenerator, WatermarkStrategy
    >>> from funken.testing import local
    >>> class AtOnce(WatermarkGenerator):  # event time is where the newest record is
    ...     def on_event(self, event, event_timestamp, output):
    ...         output.emit_watermark(event_timestamp)
    >>> strategy = WatermarkStrategy.for_generator(AtOnce).with_timestamp_assigner(lambda e, _: e[1])
    >>> late = OutputTag("late")
    >>> events = local([("a", 1), ("a", 12), ("a", 2), ("a", 30), ("a", 3)]).assign_timestamps_and_watermarks(strategy)
    >>> windows = events.key_by(lambda e: e[0]).window(TumblingEventTimeWindows.of(10))
    >>> waiting = windows.allowed_lateness(5)
    >>> counts = waiting.side_output_late_data(late).apply(lambda key, window, events: [(window.start, len(events))])
    >>> too_late = counts.get_side_output(late).map(lambda event: f"too late: {event}")
    >>> sorted(counts.union(too_late).execute_and_collect(limit=5), key=str)
    [(0, 1), (0, 2), (10, 1), (30, 1), "too late: ('a', 3)"]

    One field of the records decides, or is aggregated:

    >>> windows = local([("tea", 3, "mon"), ("tea", 7, "tue"), ("tea", 1, "wed")]).key_by(lambda sale: sale[0]).count_window(3)
    >>> windows.min(1).execute_and_collect(limit=1), windows.max(1).execute_and_collect(limit=1)
    ([('tea', 1, 'mon')], [('tea', 7, 'mon')])
    >>> windows.min_by(1).execute_and_collect(limit=1), windows.max_by(1).execute_and_collect(limit=1)
    ([('tea', 1, 'wed')], [('tea', 7, 'tue')])
    """

    _to_streams = "reduce(), aggregate(), apply() or process() makes one of the windows"

    _all = False

    def __init__(self, stream: DataStream[T_co], key: UserFunction, assigner: WindowAssigner[T_co, W]) -> None:
        check_kind(assigner, WindowAssigner, "window()", "Give TumblingEventTimeWindows.of('5 s'), say.")
        self._stream = stream
        self._key = key
        self._assigner = assigner
        self._trigger: Trigger[T_co, W] | None = None
        self._evictor: Evictor | None = None
        self._lateness = 0
        self._late_tag: str | None = None

    def _with(self, **fields: Any) -> Self:
        changed = copy(self)
        changed.__dict__.update(fields)
        return changed

    def trigger(self, trigger: Trigger[T_co, W]) -> Self:
        """Compute windows when ``trigger`` says so, instead of the assigner's own trigger.

        >>> from funken import CountTrigger, GlobalWindows
        >>> from funken.testing import local
        >>> everything = local([1, 2, 3, 4]).key_by(lambda _: "all").window(GlobalWindows.create())
        >>> everything.trigger(CountTrigger.of(2)).reduce(lambda x, y: x + y).execute_and_collect(limit=2)
        [3, 10]
        """
        check_kind(trigger, Trigger, "trigger()", "Give CountTrigger.of(100), say.")
        return self._with(_trigger=trigger)

    def evictor(self, evictor: Evictor[T_co, W]) -> Self:
        """Drop elements before or after the function runs; every element is kept until then.

        >>> from funken import CountEvictor, CountTrigger, GlobalWindows
        >>> from funken.testing import local
        >>> everything = local([1, 2, 3, 4]).key_by(lambda _: "all").window(GlobalWindows.create())
        >>> last_three = everything.trigger(CountTrigger.of(2)).evictor(CountEvictor.of(3))
        >>> last_three.apply(lambda key, window, numbers: [list(numbers)]).execute_and_collect(limit=2)
        [[1, 2], [2, 3, 4]]
        """
        check_kind(evictor, Evictor, "evictor()", "Give CountEvictor.of(100), say.")
        return self._with(_evictor=evictor)

    def allowed_lateness(self, time_ms: DurationLike) -> Self:
        """Keep windows this much longer (ms or ``timedelta``), and compute them again for each late record.

        Later records are dropped, or go to the side output of ``side_output_late_data``; the class's example
        shows both. Raises ``InvalidProgram`` for a negative time.
        """
        lateness = duration_ms(time_ms)
        if lateness < 0:
            raise InvalidProgram(f"allowed lateness must not be negative, but is {lateness} ms")
        return self._with(_lateness=lateness)

    def side_output_late_data(self, output_tag: OutputTag[T_co]) -> Self:
        """Send records that are too late to a side output, instead of dropping them."""
        check_kind(output_tag, OutputTag, "side_output_late_data()", f"Give OutputTag({output_tag!r}).")
        return self._with(_late_tag=output_tag.tag_id)

    # ---- rolling one field

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T_co]:
        """Add up a field (by position or name) per window; the other fields are those of the first record.

        >>> from funken.testing import local
        >>> sales = local([("tea", 3), ("jam", 5), ("tea", 1), ("jam", 2)]).key_by(lambda sale: sale[0]).count_window(2)
        >>> sales.sum(1).execute_and_collect(limit=2)
        [('tea', 4), ('jam', 7)]
        """
        return self._rolled("sum", SumField(position_to_sum))

    def min(self, position_to_min: int | str = 0) -> DataStream[T_co]:
        """Keep the smallest value of a field per window; the other fields are those of the first record."""
        return self._rolled("min", ExtremeField(position_to_min, largest=False))

    def max(self, position_to_max: int | str = 0) -> DataStream[T_co]:
        """Keep the largest value of a field per window; the other fields are those of the first record."""
        return self._rolled("max", ExtremeField(position_to_max, largest=True))

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T_co]:
        """Keep the record of a window with the smallest value of a field, the first one on ties."""
        return self._rolled("min_by", ExtremeRecord(position_to_min_by, largest=False))

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T_co]:
        """Keep the record of a window with the largest value of a field, the first one on ties.

        >>> from funken.testing import local
        >>> sales = [("tea", 3, "mon"), ("tea", 7, "tue"), ("tea", 1, "wed")]
        >>> windows = local(sales).key_by(lambda sale: sale[0]).count_window(3)
        >>> windows.max_by(1).execute_and_collect(limit=1)
        [('tea', 7, 'tue')]
        """
        return self._rolled("max_by", ExtremeRecord(position_to_max_by, largest=True))

    def _rolled(self, name: str, function: SumField | ExtremeField | ExtremeRecord) -> DataStream[T_co]:
        check_position(function.position)
        reduce = converted_reduce(UserFunction(function), type_of(self._stream))
        return self._add(f"window {name}", Reduced(reduce), None)

    def _reduce(self, function: object, window_function: object) -> DataStream[Any]:
        if isinstance(function, Mapping):
            function = ReduceFields.of(function)
        reduce = converted_reduce(as_user_function(function, "reduce", "reduce()"), type_of(self._stream))
        return self._add("window reduce", Reduced(reduce), window_function)

    def _aggregate(self, function: object, window_function: object) -> DataStream[Any]:
        methods = ("create_accumulator", "add", "get_result")
        if isinstance(function, type) or not all(hasattr(function, name) for name in methods):
            kind = (
                f"Give an object: {function.__name__}()" if isinstance(function, type) else "reduce() takes a function"
            )
            raise TypeError(f"aggregate() needs an AggregateFunction object, but got {function!r:.100}. {kind}.")
        check_methods(function, Function, "aggregate()")
        for name in methods:
            check_function(getattr(function, name), name, "aggregate()")
            check_result(getattr(function, name), name, "aggregate()")
        check_beginning(function)
        warn_of_changed("aggregate()", getattr(function, "add", None))
        rich = hasattr(function, "open") and hasattr(function, "close")
        return self._add("window aggregate", Aggregated(UserFunction(function, None, rich)), window_function)

    def _process(self, function: object) -> DataStream[Any]:
        if not hasattr(function, "process"):
            remedy = "apply() takes a function of the key, the window and the records"
            raise TypeError(f"process() needs a ProcessWindowFunction, but got {function!r:.100}. {remedy}.")
        return self._add("window process", Elements(), function)

    def _shaped(self, function: object) -> WindowCall | None:
        if function is None:
            return None
        process, apply = (
            (CallStyle.PROCESS_ALL, CallStyle.APPLY_ALL) if self._all else (CallStyle.PROCESS, CallStyle.APPLY)
        )
        if hasattr(function, "process") and not hasattr(function, "apply"):
            return WindowCall(as_user_function(function, "process", "the window function"), process)
        if not hasattr(function, "apply"):
            check_arguments(function, "apply_all" if self._all else "apply_keyed", "apply()")
        return WindowCall(as_user_function(function, "apply", "the window function"), apply)

    def _add(self, name: str, contents: Contents, function: object) -> DataStream[Any]:
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


def count_windows(windowed: Windows, size: int, slide: int) -> Windows:
    """Return count windows as Flink's Java API has them: every ``slide`` records the last ``size``; 0 means tumbling."""
    if not all(isinstance(each, int) for each in (size, slide)) or size < 1 or slide < 0:
        raise InvalidProgram(f"a count window needs a size from 1 on and a slide from 0 on, not {size!r} and {slide!r}")
    if slide:
        return windowed.trigger(CountTrigger.of(slide)).evictor(CountEvictor.of(size))
    return windowed.trigger(PurgingTrigger.of(CountTrigger.of(size)))


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

        The ``window_function`` is as for ``reduce``. Raises ``TypeError`` for an object that is no ``AggregateFunction``.

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
