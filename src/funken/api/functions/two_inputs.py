"""Function objects for two streams: connected ones, a broadcast one beside another, and joined ones.

They are opened and closed as all functions are (``base.py``). The two inputs of one share its state, and on keyed
streams its timers; nothing is said about the order in which their records come.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from funken.api.functions.base import Function
from funken.operators.join.interval_join import JoinContext
from funken.operators.process.broadcast import BroadcastContext, KeyedReadOnlyContext, ReadOnlyOnTimerContext
from funken.operators.process.broadcast import ReadOnlyContext as ReadOnly
from funken.operators.process.contexts import KeyedContext, ProcessContext
from funken.operators.process.contexts import OnTimerContext as TimerContext
from funken.operators.tags import SideOutput
from funken.types.generics import T1, T2, Generic, IN1_contra, IN2_contra, K_contra, OUT_co, S


class CoMapFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Maps the records of two connected streams.

    >>> from funken import StreamExecutionEnvironment
    >>> class Celsius(CoMapFunction):
    ...     def map1(self, value):
    ...         return value
    ...     def map2(self, value):
    ...         return (value - 32) * 5 / 9
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> celsius, fahrenheit = env.from_collection([21.5]), env.from_collection([32, 50])
    >>> sorted(celsius.connect(fahrenheit).map(Celsius()).execute_and_collect(limit=3))
    [0.0, 10.0, 21.5]
    """

    def map1(self, value: IN1_contra) -> OUT_co | None:
        """Map a record of the first stream; ``None`` is dropped."""
        raise NotImplementedError

    def map2(self, value: IN2_contra) -> OUT_co | None:
        """Map a record of the second stream; ``None`` is dropped."""
        raise NotImplementedError


class CoFlatMapFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Any number of records for each record of two connected streams.

    >>> from funken import StreamExecutionEnvironment
    >>> class Words(CoFlatMapFunction):
    ...     def flat_map1(self, value):
    ...         return value.split()
    ...     def flat_map2(self, value):
    ...         yield from value["words"]
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> texts, documents = env.from_collection(["to be"]), env.from_collection([{"words": ["or", "not"]}])
    >>> sorted(texts.connect(documents).flat_map(Words()).execute_and_collect(limit=4))
    ['be', 'not', 'or', 'to']
    """

    def flat_map1(self, value: IN1_contra) -> Iterable[OUT_co] | None:
        """Return or yield records for one of the first stream; ``None`` is none."""
        raise NotImplementedError

    def flat_map2(self, value: IN2_contra) -> Iterable[OUT_co] | None:
        """Return or yield records for one of the second stream; ``None`` is none."""
        raise NotImplementedError


class CoProcessFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Sees the records of two connected streams, with their timestamps; may emit to side outputs.

    >>> from funken import OutputTag, StreamExecutionEnvironment
    >>> errors = OutputTag("errors")
    >>> class Merge(CoProcessFunction):
    ...     def process_element1(self, value, ctx):
    ...         yield value, ctx.timestamp()
    ...     def process_element2(self, value, ctx):
    ...         ctx.output(errors, f"error: {value}")
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> merged = env.from_collection(["up"]).connect(env.from_collection(["disk"])).process(Merge())
    >>> sorted(merged.map(str).union(merged.get_side_output(errors)).execute_and_collect(limit=2))
    ["('up', None)", 'error: disk']
    """

    Context: TypeAlias = ProcessContext

    def process_element1(self, value: IN1_contra, ctx: ProcessContext) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a record of the first stream: return or yield records, ``(OutputTag, record)`` to a side output."""
        raise NotImplementedError

    def process_element2(self, value: IN2_contra, ctx: ProcessContext) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a record of the second stream: return or yield records, ``(OutputTag, record)`` to a side output."""
        raise NotImplementedError


class KeyedCoProcessFunction(Function, Generic[K_contra, IN1_contra, IN2_contra, OUT_co]):
    """Sees the records of two connected keyed streams, with timers and state that a key shares between them.

    This one tells which orders were not paid for within 10 ms of event time:

    >>> from funken import StreamExecutionEnvironment, ValueStateDescriptor, WatermarkStrategy
    >>> class Unpaid(KeyedCoProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.paid = runtime_context.get_state(ValueStateDescriptor("paid"))
    ...     def process_element1(self, order, ctx):
    ...         ctx.timer_service().register_event_time_timer(order["at"] + 10)
    ...     def process_element2(self, payment, ctx):
    ...         self.paid.update(True)
    ...     def on_timer(self, timestamp, ctx):
    ...         if not self.paid.value():
    ...             yield ctx.get_current_key(), timestamp
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e["at"])
    >>> orders = env.from_collection([{"id": 1, "at": 0}, {"id": 2, "at": 5}]).assign_timestamps_and_watermarks(strategy)
    >>> payments = env.from_collection([{"id": 1, "at": 7}]).assign_timestamps_and_watermarks(strategy)
    >>> both = orders.connect(payments).key_by(lambda order: order["id"], lambda payment: payment["id"])
    >>> both.process(Unpaid()).execute_and_collect(limit=1)
    [(2, 15)]
    """

    Context = KeyedContext[S]
    OnTimerContext = TimerContext[S]

    def process_element1(self, value: IN1_contra, ctx: KeyedContext[K_contra]) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a record of the first stream: return or yield records, ``(OutputTag, record)`` to a side output."""
        raise NotImplementedError

    def process_element2(self, value: IN2_contra, ctx: KeyedContext[K_contra]) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a record of the second stream: return or yield records, ``(OutputTag, record)`` to a side output."""
        raise NotImplementedError

    def on_timer(self, timestamp: int, ctx: TimerContext[K_contra]) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a timer of the current key that was set for ``timestamp`` (ms); return or yield records."""


class BroadcastProcessFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Sees a stream, and a broadcast stream that fills broadcast state.

    In ``BATCH`` mode, as here, the whole broadcast stream comes first; otherwise the two interleave.

    >>> from funken import MapStateDescriptor, RuntimeExecutionMode, StreamExecutionEnvironment
    >>> names = MapStateDescriptor("names")
    >>> class Name(BroadcastProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         yield value, ctx.get_broadcast_state(names).get(value)
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(names).put(value["code"], value["name"])
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> countries = env.set_runtime_mode(RuntimeExecutionMode.BATCH).from_collection([{"code": "fi", "name": "Finland"}])
    >>> visits = env.from_collection(["fi", "xx"]).connect(countries.broadcast(names))
    >>> visits.process(Name()).execute_and_collect(limit=2)
    [('fi', 'Finland'), ('xx', None)]
    """

    Context: TypeAlias = BroadcastContext
    ReadOnlyContext: TypeAlias = ReadOnly

    def process_element(self, value: IN1_contra, ctx: ReadOnly) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a record; ``ctx.get_broadcast_state(descriptor)`` is read-only here."""
        raise NotImplementedError

    def process_broadcast_element(
        self, value: IN2_contra, ctx: BroadcastContext
    ) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a broadcast record; runs in every subtask, and must do the same to the state in each of them."""
        raise NotImplementedError


class KeyedBroadcastProcessFunction(Function, Generic[K_contra, IN1_contra, IN2_contra, OUT_co]):
    """Sees a keyed stream, with state and timers, and a broadcast stream that fills broadcast state.

    This one compares each key's last value with a limit that a broadcast stream may change, when a timer fires:

    >>> from funken import MapStateDescriptor, StreamExecutionEnvironment, ValueStateDescriptor, WatermarkStrategy
    >>> limits = MapStateDescriptor("limits")
    >>> class TooHigh(KeyedBroadcastProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.last = runtime_context.get_state(ValueStateDescriptor("last"))
    ...     def process_element(self, value, ctx):
    ...         self.last.update(value[1])
    ...         ctx.timer_service().register_event_time_timer(ctx.timestamp())
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(limits).put("limit", value[1])
    ...     def on_timer(self, timestamp, ctx):
    ...         if self.last.value() > ctx.get_broadcast_state(limits).get("limit"):
    ...             yield ctx.get_current_key(), self.last.value()
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: 0)
    >>> changes = env.from_collection([("limit", 20)]).assign_timestamps_and_watermarks(strategy).broadcast(limits)
    >>> values = env.from_collection([("a", 19), ("b", 21)]).assign_timestamps_and_watermarks(strategy)
    >>> values.key_by(lambda e: e[0]).connect(changes).process(TooHigh()).execute_and_collect(limit=1)
    [('b', 21)]
    """

    Context: TypeAlias = BroadcastContext
    ReadOnlyContext = KeyedReadOnlyContext[S]
    OnTimerContext = ReadOnlyOnTimerContext[S]

    def process_element(
        self, value: IN1_contra, ctx: KeyedReadOnlyContext[K_contra]
    ) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a record; ``ctx.get_broadcast_state(descriptor)`` is read-only here."""
        raise NotImplementedError

    def process_broadcast_element(
        self, value: IN2_contra, ctx: BroadcastContext
    ) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a broadcast record; runs in every subtask, and must do the same to the state in each of them."""
        raise NotImplementedError

    def on_timer(self, timestamp: int, ctx: ReadOnlyOnTimerContext[K_contra]) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a timer of the current key that was set for ``timestamp`` (ms); return or yield records."""


class JoinFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Makes one record of a pair (``stream.join``).

    >>> class Price(JoinFunction):
    ...     def join(self, first, second):
    ...         return first["item"], second["price"]
    >>> Price().join({"item": "tea"}, {"price": 3})
    ('tea', 3)
    """

    def join(self, first: IN1_contra, second: IN2_contra) -> OUT_co:
        """Return the record for a pair."""
        raise NotImplementedError


class FlatJoinFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Makes any number of records of a pair (``stream.join``).

    >>> class Better(FlatJoinFunction):
    ...     def join(self, first, second):
    ...         if second["price"] < first["price"]:
    ...             yield second["shop"], first["price"] - second["price"]
    >>> [*Better().join({"price": 5}, {"price": 3, "shop": "a"}), *Better().join({"price": 5}, {"price": 6, "shop": "b"})]
    [('a', 2)]
    """

    def join(self, first: IN1_contra, second: IN2_contra) -> Iterable[OUT_co] | None:
        """Return or yield records; ``None`` is none."""
        raise NotImplementedError


class CoGroupFunction(Function, Generic[T1, T2, OUT_co]):
    """Sees the records of a key and window in both streams (``stream.co_group``); one of the lists may be empty.

    So it can say what has no partner, as an outer join does:

    >>> class Missing(CoGroupFunction):
    ...     def co_group(self, first, second):
    ...         if not second:
    ...             yield from first
    >>> [*Missing().co_group(["order 1"], ["payment"]), *Missing().co_group(["order 2"], [])]
    ['order 2']
    """

    def co_group(self, first: list[T1], second: list[T2]) -> Iterable[OUT_co] | None:
        """Return or yield records; ``None`` is none."""
        raise NotImplementedError


class ProcessJoinFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Sees pairs of records whose timestamps are close (``keyed_stream.interval_join``).

    >>> from funken import WatermarkStrategy
    >>> from funken.testing import local
    >>> class Apart(ProcessJoinFunction):
    ...     def process_element(self, left, right, ctx):
    ...         yield left, right, ctx.get_right_timestamp() - ctx.get_left_timestamp()
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda at, _: at)
    >>> times = local([1, 4, 9]).assign_timestamps_and_watermarks(strategy).key_by(lambda at: "all")
    >>> sorted(times.interval_join(times).between(1, 5).process(Apart()).execute_and_collect(limit=2))
    [(1, 4, 3), (4, 9, 5)]
    """

    Context: TypeAlias = JoinContext

    def process_element(
        self, left: IN1_contra, right: IN2_contra, ctx: JoinContext
    ) -> Iterable[OUT_co | SideOutput] | None:
        """Return or yield records.

        ``ctx`` has ``get_left_timestamp()``, ``get_right_timestamp()``, ``get_timestamp()`` (the larger one; all in ms)
        and ``output(tag, record)``.
        """
        raise NotImplementedError
