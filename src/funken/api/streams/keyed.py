"""``KeyedStream``: a stream whose equal keys meet in one subtask, where they have state, timers and windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

from funken.api.functions import (
    ExtremeField,
    ExtremeRecord,
    ReduceFields,
    SumField,
    as_user_function,
    check_position,
    vectorized_call,
)
from funken.api.stateful_functions import JoinAll, MapWithState, OfSide, key_of_side
from funken.api.streams.family import family
from funken.api.streams.settings import type_of, typed
from funken.api.streams.stream import DataStream
from funken.api.streams.windowed import WindowedStream, count_windows
from funken.operators.base import OperatorSpec
from funken.operators.mistakes import warn_of_changed
from funken.operators.process.keyed_operator import KeyedTransform
from funken.operators.process.one_input import KeyedProcess
from funken.operators.rolling import RollingReduce
from funken.operators.stateless import KeyedMap, ResultKind
from funken.operators.user_functions import UserFunction, converted_reduce
from funken.plan.nodes import Hash, NodeInput
from funken.types.callables import Generic, K_co, R, S, T_co, W, check_arguments
from funken.windowing.assigners import GlobalWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from funken.api.functions import (
        FilterFunction,
        FlatMapFunction,
        Folds,
        KeyedProcessFunction,
        KeySelector,
        MapFunction,
        ReduceFunction,
    )
    from funken.api.streams.joins import IntervalJoin
    from funken.io.durations import DurationLike
    from funken.operators.base import SideOutput
    from funken.operators.process.keyed_operator import KeyedContext
    from funken.plan.nodes import Partitioning
    from funken.types.info import TypeInformation
    from funken.windowing.assigners import WindowAssigner
    from funken.windowing.windows import GlobalWindow


class KeyedStream(DataStream[T_co], Generic[T_co, K_co]):
    """A stream partitioned by key: its operators have state, timers and windows per key.

    >>> from funken.testing import local
    >>> sales = [("tea", 3, "mon"), ("jam", 5, "mon"), ("tea", 1, "tue"), ("tea", 4, "wed")]
    >>> def last(aggregate):  # the first field is the key
    ...     rolling = aggregate(local(sales).key_by(lambda sale: sale[0])).execute_and_collect(limit=4)
    ...     return [result for result in rolling if result[0] == "tea"][-1]
    >>> last(lambda keyed: keyed.sum(1))
    ('tea', 8, 'mon')
    >>> last(lambda keyed: keyed.min(1)), last(lambda keyed: keyed.min_by(1))
    (('tea', 1, 'mon'), ('tea', 1, 'tue'))
    >>> last(lambda keyed: keyed.max(1)), last(lambda keyed: keyed.max_by(1))
    (('tea', 4, 'mon'), ('tea', 4, 'wed'))
    """

    def __init__(self, origin: DataStream[T_co], key: UserFunction) -> None:
        spread = tuple(replace(i, partitioning=Hash(key)) for i in origin._inputs)
        super().__init__(origin._environment, spread)
        self._origin = origin
        self.key = key

    def key_by(
        self, key_selector: Callable[[T_co], S] | KeySelector[T_co, S], key_type: TypeInformation | None = None
    ) -> KeyedStream[T_co, S]:
        """Key the original records anew: the former key is forgotten.

        >>> from funken.testing import local
        >>> local(["to", "be"]).key_by(len).key_by(lambda word: word[0]).reduce(max).execute_and_collect(limit=2)
        ['to', 'be']
        """
        return self._origin.key_by(key_selector, key_type)

    def _keyed(self, name: str, spec: Any) -> DataStream[Any]:
        return DataStream(self._environment, (NodeInput(self._apply(name, spec, keyed=True).id),))

    def _calls(self, func: object, shape: ResultKind) -> DataStream[Any] | None:
        """Return the operator for a function that may have state; ``None``: for one that cannot."""
        if vectorized_call(func, shape.value) is not None:
            return None  # records of many keys at once
        call = as_user_function(func, shape.value, f"{shape.value}()")
        return self._keyed(shape.value, KeyedMap(call, self.key, shape)) if call.rich else None

    def map(
        self, func: Callable[[T_co], R] | MapFunction[T_co, R], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Turn each record into one; a ``MapFunction`` may use keyed state.

        >>> from funken import MapFunction, ValueStateDescriptor
        >>> from funken.testing import local
        >>> class Number(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        ...     def map(self, value):
        ...         self.count.update((self.count.value() or 0) + 1)
        ...         return f"{value} {self.count.value()}"
        >>> local(["a", "b", "a"]).key_by(lambda letter: letter).map(Number()).execute_and_collect(limit=3)
        ['a 1', 'b 1', 'a 2']
        """
        keyed = self._calls(func, ResultKind.MAP)
        return super().map(func, output_type) if keyed is None else typed(keyed, output_type)

    def flat_map(
        self,
        func: Callable[[T_co], Iterable[R] | None] | FlatMapFunction[T_co, R],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Turn each record into any number; a ``FlatMapFunction`` may use keyed state.

        >>> from funken import FlatMapFunction, ListStateDescriptor
        >>> from funken.testing import local
        >>> class Pairs(FlatMapFunction):
        ...     def open(self, runtime_context):
        ...         self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting"))
        ...     def flat_map(self, value):
        ...         self.waiting.add(value)
        ...         if len(pair := list(self.waiting.get())) == 2:
        ...             self.waiting.clear()
        ...             yield pair
        >>> local([1, 2, 3, 4]).key_by(lambda number: number % 2).flat_map(Pairs()).execute_and_collect(limit=2)
        [[1, 3], [2, 4]]
        """
        keyed = self._calls(func, ResultKind.FLAT_MAP)
        return super().flat_map(func, output_type) if keyed is None else typed(keyed, output_type)

    def filter(self, func: Callable[[T_co], object] | FilterFunction[T_co]) -> DataStream[T_co]:
        """Keep some records; a ``FilterFunction`` may use keyed state. The result has no key.

        >>> from funken import FilterFunction, ValueStateDescriptor
        >>> from funken.testing import local
        >>> class Rising(FilterFunction):
        ...     def open(self, runtime_context):
        ...         self.highest = runtime_context.get_state(ValueStateDescriptor("highest"))
        ...     def filter(self, value):
        ...         rises = value > (self.highest.value() or 0)
        ...         if rises:
        ...             self.highest.update(value)
        ...         return rises
        >>> local([1, 3, 2, 4]).key_by(lambda _: "all").filter(Rising()).execute_and_collect(limit=3)
        [1, 3, 4]
        """
        keyed = self._calls(func, ResultKind.FILTER)
        return super().filter(func) if keyed is None else keyed

    def reduce(self, func: Callable[[T_co, T_co], T_co] | ReduceFunction[T_co] | Folds) -> DataStream[T_co]:
        """Join the records of a key, ``func(so_far, record)``; emits the result so far for each record.

        A dict names fields with their folds instead: ``sum``, ``min``, ``max``, ``first`` or ``last``. All other fields are
        those of the key's first record. Under ``RuntimeExecutionMode.BATCH`` it emits one result per key, at the end.

        >>> from funken.testing import local
        >>> local(["a", "b", "c"]).key_by(lambda _: 0).reduce(lambda x, y: x + y).execute_and_collect(limit=3)
        ['a', 'ab', 'abc']
        >>> orders = local([("tea", 3, "mon"), ("tea", 4, "tue")]).key_by(lambda order: order[0])
        >>> orders.reduce({1: "sum", 2: "last"}).execute_and_collect(limit=2)
        [('tea', 3, 'mon'), ('tea', 7, 'tue')]
        """
        if isinstance(func, Mapping):
            func = ReduceFields.of(func)
        warn_of_changed("reduce()", getattr(func, "reduce", func))
        function = converted_reduce(as_user_function(func, "reduce", "reduce()"), type_of(self))
        return self._keyed("reduce", RollingReduce(self.key, function))

    def _rolling(self, name: str, function: SumField | ExtremeField | ExtremeRecord) -> DataStream[T_co]:
        check_position(function.position)
        return self._keyed(name, RollingReduce(self.key, converted_reduce(UserFunction(function), type_of(self))))

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T_co]:
        """Add up a field (by position or name); the others are those of the key's first record."""
        return self._rolling("sum", SumField(position_to_sum))

    def min(self, position_to_min: int | str = 0) -> DataStream[T_co]:
        """Keep the smallest value of a field; the other fields are those of the key's first record."""
        return self._rolling("min", ExtremeField(position_to_min, largest=False))

    def max(self, position_to_max: int | str = 0) -> DataStream[T_co]:
        """Keep the largest value of a field; the other fields are those of the key's first record."""
        return self._rolling("max", ExtremeField(position_to_max, largest=True))

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T_co]:
        """Keep the whole record with the smallest value of a field, the first one on ties."""
        return self._rolling("min_by", ExtremeRecord(position_to_min_by, largest=False))

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T_co]:
        """Keep the whole record with the largest value of a field, the first one on ties.

        >>> from funken.testing import local
        >>> best = local([("a", 1, "x"), ("a", 3, "y"), ("a", 3, "z")]).key_by(lambda r: r[0]).max_by(1)
        >>> best.execute_and_collect(limit=3)
        [('a', 1, 'x'), ('a', 3, 'y'), ('a', 3, 'y')]
        """
        return self._rolling("max_by", ExtremeRecord(position_to_max_by, largest=True))

    def process(  # type: ignore[override]  # a keyed stream takes another function
        self,
        func: Callable[[T_co, KeyedContext[K_co]], Iterable[R | SideOutput] | None]
        | KeyedProcessFunction[K_co, T_co, R],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Handle each record with keyed state and timers: a ``KeyedProcessFunction``.

        >>> from funken import KeyedProcessFunction, ValueStateDescriptor
        >>> from funken.testing import local
        >>> class Count(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        ...     def process_element(self, value, ctx):
        ...         count = (self.count.value() or 0) + 1
        ...         self.count.update(count)
        ...         yield ctx.get_current_key(), count
        >>> local(["x", "y", "x"]).key_by(lambda word: word).process(Count()).execute_and_collect(limit=3)
        [('x', 1), ('y', 1), ('x', 2)]
        """
        if not callable(func) and not hasattr(func, "process_element"):
            raise TypeError("KeyedProcessFunction is required for KeyedStream.process()")
        function = as_user_function(func, "process_element", "process()")
        check_arguments(func, "process_element", "process()")
        return typed(self._keyed("process", KeyedProcess(function, self.key)), output_type)

    def transform(self, name: str, spec: OperatorSpec, output_type: Any = None) -> DataStream[Any]:
        """Run an operator of one's own for the records of each key: a ``KeyedOperator``.

        >>> from funken.sdk import KeyedOperator
        >>> from funken.testing import local
        >>> class Initials(KeyedOperator):
        ...     def process_element(self, value, timestamp):
        ...         self.emit((self.current_key, value))
        >>> local(["to", "be"]).key_by(lambda word: word[0]).transform("initials", Initials).execute_and_collect(limit=2)
        [('t', 'to'), ('b', 'be')]
        """
        return typed(self._keyed(name, KeyedTransform(spec, self.key)), output_type)

    def window(self, window_assigner: WindowAssigner[T_co, W]) -> WindowedStream[T_co, K_co, W]:
        """Group the records of each key into windows.

        >>> from datetime import timedelta
        >>> from funken import TumblingEventTimeWindows, WatermarkStrategy
        >>> from funken.testing import local
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e[1])
        >>> stream = local([("a", 1), ("a", 2), ("a", 11)]).assign_timestamps_and_watermarks(strategy)
        >>> windowed = stream.key_by(lambda e: e[0]).window(TumblingEventTimeWindows.of(timedelta(milliseconds=10)))
        >>> windowed.reduce(lambda x, y: (x[0], x[1] + y[1])).execute_and_collect(limit=2)
        [('a', 3), ('a', 11)]
        """
        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[T_co, K_co, GlobalWindow]:
        """Group the records of each key ``size`` at a time; a short last group is dropped.

        With a ``slide``: every ``slide`` records, the last ``size`` of them at most (Flink's Java API; PyFlink's differs).

        >>> from funken.testing import local
        >>> pairs = local([1, 2, 3, 4, 5]).key_by(lambda _: 0).count_window(2).reduce(lambda x, y: x + y)
        >>> pairs.execute_and_collect(limit=2)
        [3, 7]
        """
        return count_windows(self.window(GlobalWindows.create()), size, slide)

    def map_with_state(
        self,
        initial: S | Callable[[], S],
        func: Callable[[S, T_co], tuple[S | None, R]],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Turn each record into one, with a state per key: ``func(state, record)`` returns the next state and the result.

        A key begins with ``initial`` (a copy of it), or with ``initial()`` if that is a class or function. The next state
        ``None`` forgets the key.

        >>> from funken.testing import local
        >>> payments = local([("ann", 5), ("bob", 2), ("ann", 7)]).key_by(lambda payment: payment[0])
        >>> def balance(total, payment):
        ...     total += payment[1]
        ...     return total, (payment[0], total)
        >>> payments.map_with_state(0, balance).execute_and_collect(limit=3)
        [('ann', 5), ('bob', 2), ('ann', 12)]
        """
        if not callable(func):
            raise TypeError(f"map_with_state() needs a function of a state and a record, but got {func!r}")
        return self.map(MapWithState(initial, func), output_type).name("map_with_state")

    @overload
    def join_all(
        self,
        other: KeyedStream[S, K_co],
        /,
        *,
        emit: Literal["complete"] = "complete",
        keep: DurationLike | None = None,
    ) -> DataStream[tuple[K_co, T_co, S]]: ...
    @overload
    def join_all(
        self,
        first: KeyedStream[S, K_co],
        second: KeyedStream[R, K_co],
        /,
        *,
        emit: Literal["complete"] = "complete",
        keep: DurationLike | None = None,
    ) -> DataStream[tuple[K_co, T_co, S, R]]: ...
    @overload
    def join_all(
        self, other: KeyedStream[S, K_co], /, *, emit: Literal["every"], keep: DurationLike | None = None
    ) -> DataStream[tuple[K_co, T_co | None, S | None]]: ...
    @overload
    def join_all(
        self,
        *others: KeyedStream[object, K_co],
        emit: Literal["complete", "every"] = "complete",
        keep: DurationLike | None = None,
    ) -> DataStream[tuple[Any, ...]]: ...
    def join_all(
        self,
        *others: KeyedStream[object, K_co],
        emit: Literal["complete", "every"] = "complete",
        keep: DurationLike | None = None,
    ) -> DataStream[Any]:
        """Join any number of keyed streams by key: ``(key, record, record, ...)``, in the order of the streams.

        Of each stream the newest record of a key counts. ``emit="complete"`` emits once all streams have a record of the key,
        and then forgets them; ``"every"`` emits for each record, with ``None`` for streams without one. ``keep`` (a duration)
        drops records that wait for longer. No record may be ``None``. Raises ``TypeError`` for a stream without a key.

        >>> from funken import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> def by_user(*records):
        ...     return env.from_collection(records).key_by(lambda record: record[0])
        >>> joined = by_user(("ann", 33), ("bob", 29)).join_all(by_user(("ann", "Rome")), by_user(("ann", "tea")))
        >>> joined.execute_and_collect(limit=1)
        [('ann', ('ann', 33), ('ann', 'Rome'), ('ann', 'tea'))]
        """
        streams = (self, *others)
        for stream in others:
            if not isinstance(stream, KeyedStream):
                raise TypeError(f"join_all() needs keyed streams, but got {stream!r}: call key_by() on it.")
        joined = JoinAll(len(streams), emit, keep)
        first, *rest = (each._origin.map(OfSide(place, each.key.bind())) for place, each in enumerate(streams))
        return first.union(*rest).key_by(key_of_side).process(joined).name("join_all")

    def interval_join(self, other: KeyedStream[S, K_co]) -> IntervalJoin[T_co, S]:
        """Join with another keyed stream by distance in time: ``.between(lower, upper).process(function)``.

        Raises ``TypeError`` if the other stream has no key.

        >>> from funken import StreamExecutionEnvironment, WatermarkStrategy
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e["at"])
        >>> views = env.from_collection([{"ad": 1, "at": 2}, {"ad": 2, "at": 3}]).assign_timestamps_and_watermarks(strategy)
        >>> clicks = env.from_collection([{"ad": 1, "at": 5}, {"ad": 2, "at": 50}]).assign_timestamps_and_watermarks(strategy)
        >>> by_ad = views.key_by(lambda view: view["ad"]).interval_join(clicks.key_by(lambda click: click["ad"]))
        >>> soon = by_ad.between(0, 10).process(lambda view, click, ctx: [(view["ad"], click["at"] - view["at"])])
        >>> soon.execute_and_collect(limit=1)
        [(1, 3)]
        """
        IntervalJoin = family("IntervalJoin")
        return IntervalJoin(self, other)

    def _refuse(self, what: str) -> NoReturn:
        raise TypeError(f"{what} has no meaning on a KeyedStream; call it before key_by(), or after the next operator.")

    def _spread(self, partitioning: Partitioning) -> NoReturn:
        self._refuse(f"{type(partitioning).__name__.lower()}()")

    def _node(self, what: str) -> NoReturn:
        self._refuse(what)
