"""Joining two streams: in windows (``join``, ``co_group``) and by the distance of timestamps (``interval_join``).

The clauses return new objects and add nothing to the program; ``apply`` and ``process`` add the operator.
"""

from __future__ import annotations

import inspect
from copy import copy
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from funken.api.functions import FlatJoinFunction, as_user_function
from funken.api.streams.connected import join_two, two_inputs
from funken.api.streams.family import OfStreams, family
from funken.api.streams.settings import typed
from funken.errors import InvalidProgram
from funken.io.durations import duration_ms
from funken.operators.join import TAGGED_KEY, CoGroup, IntervalJoinSpec, JoinPairs, WindowJoin
from funken.operators.user_functions import UserFunction
from funken.operators.window.spec import CallStyle, Elements, WindowCall, WindowSpec
from funken.types.callables import T1, T2, Generic, K, NAME_co, R, S, T1_co, T2_co, W

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from funken.api.functions import CoGroupFunction, JoinFunction, KeySelector, ProcessJoinFunction
    from funken.api.streams.keyed import KeyedStream
    from funken.api.streams.stream import DataStream
    from funken.io.durations import DurationLike
    from funken.operators.base import OutputTag, SideOutput
    from funken.operators.join import JoinContext, TaggedUnion
    from funken.types.info import TypeInformation
    from funken.windowing.assigners import WindowAssigner
    from funken.windowing.evictors import Evictor
    from funken.windowing.windows import Trigger


class _Clauses(OfStreams):
    """A join of which something is not said yet."""

    _to_streams = "where(), equal_to(), window() and apply(), in this order, make one of the two"
    _in_order = True


class CoGroupedStreams(_Clauses, Generic[T1_co, T2_co]):
    """Two streams that are to be grouped together, by key and window; see ``DataStream.co_group``.

    Every key of a window counts, also one that occurs in one stream only.

    >>> from funken import StreamExecutionEnvironment, TumblingEventTimeWindows, WatermarkStrategy
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e[1])
    >>> orders = env.from_collection([("ann", 1), ("bob", 2)]).assign_timestamps_and_watermarks(strategy)
    >>> payments = env.from_collection([("ann", 4), ("ann", 12)]).assign_timestamps_and_watermarks(strategy)
    >>> grouped = (
    ...     orders.co_group(payments)
    ...     .where(lambda order: order[0])
    ...     .equal_to(lambda payment: payment[0])
    ...     .window(TumblingEventTimeWindows.of(10))
    ...     .apply(lambda orders, payments: [(orders, payments)])
    ... )
    >>> sorted(grouped.execute_and_collect(limit=3))
    [([], [('ann', 12)]), ([('ann', 1)], [('ann', 4)]), ([('bob', 2)], [])]
    """

    def __init__(self, first: DataStream[T1_co], second: DataStream[T2_co]) -> None:
        self._streams = _Streams("co_group", first, second)

    def where(
        self, key_selector: Callable[[T1_co], S] | KeySelector[T1_co, S], key_type: TypeInformation | None = None
    ) -> Where[T1_co, T2_co, S, Literal["co_group"]]:
        """Take the key of a record of the first stream from ``key_selector(record)`` or a ``KeySelector``."""
        return Where(self._streams, as_user_function(key_selector, "get_key", "where()"))


class JoinedStreams(_Clauses, Generic[T1_co, T2_co]):
    """Two streams that are to be joined, by key and window; see ``DataStream.join``.

    Only pairs of one key and window count; records without a partner there are left out.

    >>> from funken import StreamExecutionEnvironment, TumblingEventTimeWindows, WatermarkStrategy
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e[1])
    >>> orders = env.from_collection([("ann", 1), ("bob", 2), ("ann", 11)]).assign_timestamps_and_watermarks(strategy)
    >>> payments = env.from_collection([("ann", 4), ("ann", 12)]).assign_timestamps_and_watermarks(strategy)
    >>> keyed = orders.join(payments).where(lambda order: order[0]).equal_to(lambda payment: payment[0])
    >>> pairs = keyed.window(TumblingEventTimeWindows.of(10)).apply(lambda order, payment: (order, payment))
    >>> pairs.execute_and_collect(limit=2)
    [(('ann', 1), ('ann', 4)), (('ann', 11), ('ann', 12))]
    """

    def __init__(self, first: DataStream[T1_co], second: DataStream[T2_co]) -> None:
        self._streams = _Streams("join", first, second)

    def where(
        self, key_selector: Callable[[T1_co], S] | KeySelector[T1_co, S], key_type: TypeInformation | None = None
    ) -> Where[T1_co, T2_co, S, Literal["join"]]:
        """Take the key of a record of the first stream from ``key_selector(record)`` or a ``KeySelector``."""
        return Where(self._streams, as_user_function(key_selector, "get_key", "where()"))


class _Streams(OfStreams):
    """Two streams, and the operator that is to put them together."""

    def __init__(self, name: Literal["join", "co_group"], first: DataStream[Any], second: DataStream[Any]) -> None:
        two_inputs(first, second)
        self.name = name
        # A keyed stream is keyed anew: its first shuffle would be for nothing.
        self.first: DataStream[Any] = getattr(first, "_origin", first)
        self.second: DataStream[Any] = getattr(second, "_origin", second)

    def window_function(self, function: object) -> WindowCall:
        """Return the function of the windows that calls the user's function."""
        call: CoGroup
        if self.name == "co_group":
            call = CoGroup(as_user_function(function, "co_group", "apply()"))
        else:
            yields = inspect.isgeneratorfunction(getattr(function, "join", function))
            flat = yields or isinstance(function, FlatJoinFunction)
            call = JoinPairs(as_user_function(function, "join", "apply()"), flat)
        return WindowCall(UserFunction(call, "apply", rich=True), CallStyle.APPLY)


class Where(_Clauses, Generic[T1_co, T2_co, K, NAME_co]):
    """Two streams, the first with its key; ``CoGroupedStreams`` and ``JoinedStreams`` show all clauses together."""

    def __init__(self, streams: _Streams, key1: UserFunction) -> None:
        self._streams = streams
        self._key1 = key1

    def equal_to(
        self, key_selector: Callable[[T2_co], K] | KeySelector[T2_co, K], key_type: TypeInformation | None = None
    ) -> EqualTo[T1_co, T2_co, NAME_co]:
        """Take the key of a record of the second stream from ``key_selector(record)`` or a ``KeySelector``."""
        return EqualTo(self._streams, self._key1, as_user_function(key_selector, "get_key", "equal_to()"))


class EqualTo(_Clauses, Generic[T1_co, T2_co, NAME_co]):
    """Two streams with their keys."""

    def __init__(self, streams: _Streams, key1: UserFunction, key2: UserFunction) -> None:
        self._streams = streams
        self._keys = key1, key2

    def window(self, window_assigner: WindowAssigner[TaggedUnion, W]) -> WithWindow[T1_co, T2_co, W, NAME_co]:
        """Group the records of both streams into windows; only those of one window meet."""
        return WithWindow(self._streams, *self._keys, window_assigner)


class WithWindow(_Clauses, Generic[T1_co, T2_co, W, NAME_co]):
    """Two streams with their keys and windows.

    Assigners, triggers and evictors of your own see each record as a ``TaggedUnion``.

    >>> from funken import CountEvictor, CountTrigger, GlobalWindows
    >>> from funken.testing import local
    >>> numbers = local([1, 2, 3])
    >>> keyed = numbers.co_group(numbers.map(lambda n: n * 10)).where(lambda n: "all").equal_to(lambda n: "all")
    >>> windows = keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(6)).evictor(CountEvictor.of(6))
    >>> windows.allowed_lateness(0).apply(lambda ones, tens: [(sum(ones), sum(tens))]).execute_and_collect(limit=1)
    [(6, 60)]
    """

    def __init__(
        self,
        streams: _Streams,
        key1: UserFunction,
        key2: UserFunction,
        assigner: WindowAssigner[TaggedUnion, W],
    ) -> None:
        self._streams = streams
        self._keys = key1, key2
        self._assigner = assigner
        self._trigger: Trigger[TaggedUnion, W] | None = None
        self._evictor: Evictor | None = None
        self._lateness = 0

    def _with(self, **fields: Any) -> Self:
        changed = copy(self)
        changed.__dict__.update(fields)
        return changed

    def trigger(self, trigger: Trigger[TaggedUnion, W]) -> Self:
        """Compute windows when ``trigger`` says so, instead of the assigner's own trigger."""
        return self._with(_trigger=trigger)

    def evictor(self, evictor: Evictor[TaggedUnion, W]) -> Self:
        """Drop elements before or after the function runs."""
        return self._with(_evictor=evictor)

    def allowed_lateness(self, time_ms: DurationLike) -> Self:
        """Keep windows this much longer (ms or ``timedelta``), and compute them again for each late record.

        Raises ``InvalidProgram`` for a negative time.
        """
        lateness = duration_ms(time_ms)
        if lateness < 0:
            raise InvalidProgram(f"allowed lateness must not be negative, but is {lateness} ms")
        return self._with(_lateness=lateness)

    @overload
    def apply(
        self: WithWindow[T1, T2, W, Literal["join"]],
        function: Callable[[T1, T2], Iterator[R]] | FlatJoinFunction[T1, T2, R],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...
    @overload
    def apply(
        self: WithWindow[T1, T2, W, Literal["join"]],
        function: Callable[[T1, T2], R] | JoinFunction[T1, T2, R],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...
    @overload
    def apply(
        self: WithWindow[T1, T2, W, Literal["co_group"]],
        function: Callable[[list[T1], list[T2]], Iterable[R] | None] | CoGroupFunction[T1, T2, R],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...
    def apply(self, function: object, output_type: TypeInformation | None = None) -> DataStream[Any]:
        """Call a function for each window of each key.

        For a join it is ``function(left, right)``, which returns one record for a pair, or a ``JoinFunction``, or a
        ``FlatJoinFunction`` (also a function with ``yield``), which give any number. For a co-group it is
        ``function(first, second)``, which gets two lists and returns an iterable or ``None``, or a ``CoGroupFunction``.
        Results carry the largest timestamp of the window.
        """
        streams = self._streams
        window = WindowSpec(
            key=TAGGED_KEY,
            assigner=self._assigner,
            trigger=self._trigger,
            evictor=self._evictor,
            allowed_lateness_ms=self._lateness,
            contents=Elements(),
            function=streams.window_function(function),
        )
        KeyedStream = family("KeyedStream")
        first, second = (
            KeyedStream(s, key) for s, key in zip((streams.first, streams.second), self._keys, strict=True)
        )
        joined = join_two(first, second, streams.name, WindowJoin(*self._keys, window), keyed=True)
        return typed(joined, output_type)


class IntervalJoin(OfStreams, Generic[T1_co, T2_co]):
    """Two keyed streams that are to be joined by the distance of timestamps; see ``KeyedStream.interval_join``.

    >>> from datetime import timedelta
    >>> from funken import WatermarkStrategy
    >>> from funken.testing import local
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda at, _: at)
    >>> times = local([1000, 1500, 2600]).assign_timestamps_and_watermarks(strategy).key_by(lambda at: "all")
    >>> within_a_second = times.interval_join(times).between(timedelta(0), timedelta(seconds=1))
    >>> gaps = within_a_second.process(lambda left, right, ctx: [right - left] if left < right else [])
    >>> gaps.execute_and_collect(limit=1)
    [500]
    """

    _to_streams = "between() and process() make one of the two"

    def __init__(self, left: KeyedStream[T1_co, object], right: KeyedStream[T2_co, object]) -> None:
        if getattr(right, "key", None) is None:
            raise TypeError(f"interval_join() needs two keyed streams, but got {right!r}: call key_by() on both.")
        two_inputs(left, right)
        self._streams = left, right

    def between(self, lower_bound: DurationLike, upper_bound: DurationLike) -> IntervalJoined[T1_co, T2_co]:
        """Join a left record with the right ones from ``lower_bound`` to ``upper_bound`` after it, both included.

        Bounds are durations (ms or ``timedelta``); a negative one is before the left record. Raises ``InvalidProgram`` if
        the lower one is above the upper one.
        """
        lower, upper = duration_ms(lower_bound), duration_ms(upper_bound)
        if lower > upper:
            raise InvalidProgram(
                f"an interval join needs lower bound <= upper bound, but got {lower} and {upper} ms. Swap them in between()."
            )
        return IntervalJoined(*self._streams, lower, upper)


class IntervalJoined(OfStreams, Generic[T1_co, T2_co]):
    """Two keyed streams with the interval of an interval join.

    >>> from funken import WatermarkStrategy
    >>> from funken.testing import local
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda at, _: at)
    >>> def joined(*times):
    ...     stamped = local(times).assign_timestamps_and_watermarks(strategy).key_by(lambda at: "all")
    ...     return stamped.interval_join(stamped).between(0, 4)
    >>> def pairs(interval, count):
    ...     found = interval.process(lambda left, right, ctx: [(left, right)])
    ...     return sorted(found.execute_and_collect(limit=count))
    >>> pairs(joined(1, 4, 5), 6)
    [(1, 1), (1, 4), (1, 5), (4, 4), (4, 5), (5, 5)]
    >>> pairs(joined(1, 4, 5).lower_bound_exclusive().upper_bound_exclusive(), 2)
    [(1, 4), (4, 5)]

    Records behind the watermark can be had from a side output of the result of ``process``:

    >>> from funken import OutputTag, WatermarkGenerator
    >>> class AtOnce(WatermarkGenerator):  # event time is where the newest record is
    ...     def on_event(self, event, event_timestamp, output):
    ...         output.emit_watermark(event_timestamp)
    >>> strategy = WatermarkStrategy.for_generator(AtOnce).with_timestamp_assigner(lambda at, _: at)
    >>> left, right = OutputTag("late on the left"), OutputTag("late on the right")
    >>> late = joined(10, 2).side_output_left_late_data(left).side_output_right_late_data(right)
    >>> processed = late.process(lambda left, right, ctx: [])
    >>> processed.get_side_output(left).union(processed.get_side_output(right)).execute_and_collect(limit=2)
    [2, 2]
    """

    _to_streams = "process() makes one of the two"

    def __init__(
        self, left: KeyedStream[T1_co, object], right: KeyedStream[T2_co, object], lower: int, upper: int
    ) -> None:
        self._streams = left, right
        self._lower = lower
        self._upper = upper
        self._exclusive = False, False
        self._late: tuple[str | None, str | None] = None, None

    def _with(self, **fields: Any) -> Self:
        changed = copy(self)
        changed.__dict__.update(fields)
        return changed

    def lower_bound_exclusive(self) -> Self:
        """Leave out pairs that are exactly the lower bound apart."""
        return self._with(_exclusive=(True, self._exclusive[1]))

    def upper_bound_exclusive(self) -> Self:
        """Leave out pairs that are exactly the upper bound apart."""
        return self._with(_exclusive=(self._exclusive[0], True))

    def side_output_left_late_data(self, output_tag: OutputTag[T1_co]) -> Self:
        """Send left records behind the watermark to a side output, instead of dropping them."""
        return self._with(_late=(output_tag.tag_id, self._late[1]))

    def side_output_right_late_data(self, output_tag: OutputTag[T2_co]) -> Self:
        """Send right records behind the watermark to a side output, instead of dropping them."""
        return self._with(_late=(self._late[0], output_tag.tag_id))

    def process(
        self,
        process_join_function: Callable[[T1_co, T2_co, JoinContext], Iterable[R | SideOutput] | None]
        | ProcessJoinFunction[T1_co, T2_co, R],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Call ``function(left, right, ctx)``, or a ``ProcessJoinFunction``, for each pair.

        It returns an iterable or ``None``. Results carry the larger one of the two timestamps.
        """
        left, right = self._streams
        spec = IntervalJoinSpec(
            as_user_function(process_join_function, "process_element", "process()"),
            left.key,
            right.key,
            self._lower + self._exclusive[0],
            self._upper - self._exclusive[1],
            *self._late,
        )
        return typed(join_two(left, right, "interval_join", spec, keyed=True), output_type)
