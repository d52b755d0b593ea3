"""More typical programs with streams, state, windows and inputs of several kinds; see ``typical.py``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar, assert_type

from funken import (
    AggregateFunction,
    AggregatingStateDescriptor,
    AllWindowFunction,
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    Boundedness,
    BroadcastProcessFunction,
    CheckpointedFunction,
    CoFlatMapFunction,
    CoGroupFunction,
    ContinuousEventTimeTrigger,
    CoProcessFunction,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountWindow,
    DataStream,
    DataStreamSink,
    DeadLetter,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    FlatJoinFunction,
    FlatMapFunction,
    FunctionSnapshotContext,
    GlobalWindow,
    GlobalWindows,
    JoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    KeySelector,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    OperatorListState,
    OutputTag,
    Partitioner,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    PurgingTrigger,
    ReduceFunction,
    ReducingStateDescriptor,
    RuntimeContext,
    SessionWindowTimeGapExtractor,
    Sink,
    SinkWriter,
    SlidingEventTimeWindows,
    Source,
    SourceReader,
    StateTtlConfig,
    TimestampAssigner,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
    WindowAssigner,
    WindowedStream,
    WindowFunction,
    blocking,
    cached,
)
from funken.connectors import ConnectorContext
from funken.sdk import Operator, Timestamps, Values
from funken.state.handles import AggregatingState, ListState, MapState, ReducingState, ValueState
from funken.testing import local
from funken.windowing.evictors import TimestampedValue

PROGRAMS: list[Callable[[], None]] = []


def program(run: Callable[[], None]) -> Callable[[], None]:
    PROGRAMS.append(run)
    return run


class Kind(Enum):
    VIEW = "view"
    BUY = "buy"


@dataclass(frozen=True)
class Event:
    user: str
    kind: Kind
    at: int
    amount: float = 0.0


class Profile(NamedTuple):
    user: str
    city: str
    at: int


class Visit(TypedDict):
    page: str
    seconds: int


EVENTS = [Event("ann", Kind.VIEW, 1_000), Event("bob", Kind.BUY, 2_000, 3.5), Event("ann", Kind.BUY, 9_000, 2.0)]
PROFILES = [Profile("ann", "Rome", 500), Profile("bob", "Oslo", 700)]


def events() -> DataStream[Event]:
    by_time = WatermarkStrategy[Event].for_bounded_out_of_orderness(timedelta(seconds=1))
    return local(EVENTS).assign_timestamps_and_watermarks(by_time.with_timestamp_assigner(lambda event, _: event.at))


def by_user() -> KeyedStream[Event, str]:
    return events().key_by(lambda event: event.user)


def profiles(of: DataStream[Event]) -> DataStream[Profile]:
    by_time = WatermarkStrategy[Profile].for_monotonous_timestamps().with_timestamp_assigner(lambda each, _: each.at)
    return of.get_execution_environment().from_collection(PROFILES).assign_timestamps_and_watermarks(by_time)


# ---- Transformations, keys and records of each kind


@program
def typed_dicts() -> None:
    visits: list[Visit] = [{"page": "/a", "seconds": 3}, {"page": "/b", "seconds": 5}]
    stream = local(visits)
    assert_type(stream, DataStream[Visit])
    assert_type(stream.key_by(lambda visit: visit["page"]).sum("seconds"), DataStream[Visit])
    assert_type(stream.map(lambda visit: visit["seconds"] / 60).execute_and_collect(limit=1), list[float])


@program
def replaced_fields_of_a_dataclass() -> None:
    doubled = events().map(lambda event: dataclasses.replace(event, amount=event.amount * 2))
    assert_type(doubled, DataStream[Event])
    assert_type(doubled.key_by(lambda event: (event.user, event.kind)), KeyedStream[Event, tuple[str, Kind]])


T = TypeVar("T")


class Keep(MapFunction[T, tuple[str, T]], Generic[T]):
    def __init__(self, name: str) -> None:
        self.name = name

    def map(self, value: T) -> tuple[str, T]:
        return self.name, value


@program
def functions_over_any_records() -> None:
    def dropped_repeats(stream: DataStream[T], key: Callable[[T], str]) -> DataStream[T]:
        return stream.key_by(key).reduce(lambda first, _: first)

    def tagged(stream: DataStream[T], name: str) -> DataStream[tuple[str, T]]:
        return stream.map(Keep[T](name))

    once = dropped_repeats(events(), lambda event: event.user)
    assert_type(once, DataStream[Event])
    assert_type(tagged(once, "once"), DataStream[tuple[str, Event]])


class Amounts(FlatMapFunction[Event, float]):
    def flat_map(self, value: Event) -> Iterable[float]:
        return [value.amount] if value.amount else []


class User(KeySelector[Event, str]):
    def get_key(self, value: Event) -> str:
        return value.user


@program
def key_selectors_of_each_kind() -> None:
    def city(profile: Profile) -> str:
        return profile.city

    stream = events()
    assert_type(stream.key_by(User()), KeyedStream[Event, str])
    assert_type(profiles(stream).key_by(city), KeyedStream[Profile, str])
    assert_type(stream.key_by(User(), Types.STRING()).flat_map(Amounts()), DataStream[float])
    assert_type(stream.key_by(User()).reduce({"amount": "sum"}), DataStream[Event])


@program
def partitions_of_each_kind() -> None:
    class Even(Partitioner[int]):
        def partition(self, key: int, num_partitions: int) -> int:
            return key % num_partitions

    stream = events()
    assert_type(stream.partition_custom(Even(), lambda event: event.at), DataStream[Event])
    assert_type(stream.partition_custom(lambda user, count: len(user) % count, lambda e: e.user), DataStream[Event])
    assert_type(stream.shuffle().rescale().forward().global_(), DataStream[Event])
    assert_type(stream.broadcast(), DataStream[Event])


@program
def union_of_subclasses() -> None:
    ints = local([1])
    assert_type(ints.union(ints.map(float)).map(lambda number: number / 2), DataStream[float])
    assert_type(ints.map(lambda number: [number]).flat_map(lambda numbers: numbers), DataStream[int])


@program
def projections_and_blocks() -> None:
    pairs = local([("a", 1), ("b", 2)])
    blocks = pairs.map_block(lambda block: [number for _, number in block])
    assert_type(blocks, DataStream[int])
    assert_type(blocks.execute_and_collect(limit=2), list[int])

    def doubled(block: Any) -> Any:
        return block * 2

    assert_type(blocks.map_batches(doubled, output_type=int), DataStream[int])


@program
def count_per_user_with_state() -> None:
    def counted(count: int, event: Event) -> tuple[int, tuple[str, int]]:
        return count + 1, (event.user, count + 1)

    assert_type(by_user().map_with_state(0, counted), DataStream[tuple[str, int]])

    def seen(users: set[str], event: Event) -> tuple[set[str] | None, bool]:
        return users | {event.user}, event.user in users

    assert_type(by_user().map_with_state(set[str](), seen).execute_and_collect(limit=2), list[bool])


@program
def several_keyed_streams() -> None:
    stream = events()
    users = stream.key_by(lambda event: event.user)
    cities = profiles(stream).key_by(lambda profile: profile.user)
    joined = users.join_all(cities)
    assert_type(joined, DataStream[tuple[str, Event, Profile]])
    assert_type(joined.map(lambda found: f"{found[0]} {found[1].amount} {found[2].city}"), DataStream[str])
    either = users.join_all(cities, emit="every", keep="1 h")
    assert_type(either, DataStream[tuple[str, Event | None, Profile | None]])
    assert_type(users.join_all(cities, users), DataStream[tuple[str, Event, Profile, Event]])


# ---- State of each kind


class Activity(KeyedProcessFunction[str, Event, tuple[str, float, int]]):
    last: ValueState[int | None]
    amounts: ListState[float]
    kinds: MapState[Kind, int]
    total: ReducingState[float]
    mean: AggregatingState[float, float]

    def open(self, runtime_context: RuntimeContext) -> None:
        ttl = StateTtlConfig.new_builder("1 h").update_ttl_on_create_and_write().never_return_expired().build()
        last = ValueStateDescriptor[int | None]("last", int)
        last.enable_time_to_live(ttl)
        self.last = runtime_context.get_state(last)
        self.amounts = runtime_context.get_list_state(ListStateDescriptor("amounts", float))
        self.kinds = runtime_context.get_map_state(MapStateDescriptor("kinds", Kind, int))
        self.total = runtime_context.get_reducing_state(
            ReducingStateDescriptor("total", lambda one, other: one + other, float)
        )
        mean = AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.DOUBLE(), Types.LONG()]))
        self.mean = runtime_context.get_aggregating_state(mean)

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context[str]) -> Iterator[tuple[str, float, int]]:
        self.amounts.add(value.amount)
        self.kinds[value.kind] = (self.kinds.get(value.kind) or 0) + 1
        self.total.add(value.amount)
        self.mean.add(value.amount)
        last = self.last.value()
        self.last.update(value.at if last is None else max(last, value.at))
        for kind, count in self.kinds.items():
            assert_type((kind, count), tuple[Kind, int])
        yield ctx.get_current_key(), self.mean.get() or 0.0, len(list(self.amounts))


class Mean(AggregateFunction[float, tuple[float, int], float]):
    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: float, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[float, int], acc_b: tuple[float, int]) -> tuple[float, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


@program
def state_of_every_kind() -> None:
    found = by_user().process(Activity())
    assert_type(found, DataStream[tuple[str, float, int]])
    assert len(found.execute_and_collect(limit=3)) == 3


@program
def state_of_records() -> None:
    class Latest(KeyedProcessFunction[str, Event, Event]):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.latest = runtime_context.get_state(ValueStateDescriptor("latest", Event))
            self.visits = runtime_context.get_list_state(ListStateDescriptor("visits", Profile))
            self.times = runtime_context.get_map_state(MapStateDescriptor("times", Types.STRING(), Types.LONG()))

        def process_element(self, value: Event, ctx: KeyedProcessFunction.Context[str]) -> Iterator[Event]:
            assert_type(self.latest, ValueState[Event])
            assert_type(self.visits, ListState[Profile])
            assert_type(self.times, MapState[str, int])
            self.latest.update(value)
            self.times.put(value.user, value.at)
            yield self.latest.value()

    assert_type(by_user().process(Latest()), DataStream[Event])


@program
def state_of_containers() -> None:
    class Pages(MapFunction[Event, int]):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.seen = runtime_context.get_state(ValueStateDescriptor("seen", set[str]))
            self.pairs = runtime_context.get_list_state(ListStateDescriptor("pairs", tuple[str, int]))
            self.lists = runtime_context.get_map_state(MapStateDescriptor("lists", str, list[float]))

        def map(self, value: Event) -> int:
            assert_type(self.seen.value(), set[str])
            assert_type(self.pairs.get(), list[tuple[str, int]])
            assert_type(self.lists.get(value.user), list[float] | None)
            return value.at

    assert_type(by_user().map(Pages()), DataStream[int])


@program
def declared_types_of_state() -> None:
    class Typed(KeyedProcessFunction[str, Event, float]):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.flag = runtime_context.get_state(ValueStateDescriptor("flag", Types.BOOLEAN()))
            self.when = runtime_context.get_state(ValueStateDescriptor("when", Types.SQL_TIMESTAMP()))
            self.raw = runtime_context.get_state(ValueStateDescriptor("raw", Types.PICKLED_BYTE_ARRAY()))
            self.names = runtime_context.get_state(ValueStateDescriptor("names", Types.LIST(Types.STRING())))
            self.counts = runtime_context.get_state(
                ValueStateDescriptor("counts", Types.MAP(Types.STRING(), Types.LONG()))
            )

        def process_element(self, value: Event, ctx: KeyedProcessFunction.Context[str]) -> Iterator[float]:
            assert_type(self.flag, ValueState[bool])
            assert_type(self.when, ValueState[datetime])
            assert_type(self.names, ValueState[list[str]])
            assert_type(self.counts, ValueState[dict[str, int]])
            yield value.amount

    assert_type(by_user().process(Typed()), DataStream[float])


@program
def operator_state() -> None:
    class Buffer(MapFunction[Event, int], CheckpointedFunction):
        state: OperatorListState[Event]

        def initialize_state(self, context: FunctionSnapshotContext) -> None:
            descriptor = ListStateDescriptor("buffer", Event)
            self.state = context.get_operator_state_store().get_list_state(descriptor)
            self.buffer = list(self.state)

        def snapshot_state(self, context: FunctionSnapshotContext) -> None:
            self.state.update(self.buffer)

        def map(self, value: Event) -> int:
            self.buffer.append(value)
            return len(self.buffer)

    assert_type(events().map(Buffer()), DataStream[int])


# ---- Timers, side outputs and contexts


@program
def timers_of_both_domains() -> None:
    class Alert(KeyedProcessFunction[str, Event, str]):
        def process_element(self, value: Event, ctx: KeyedProcessFunction.Context[str]) -> None:
            timers = ctx.timer_service()
            assert_type(timers.current_watermark(), int)
            timers.register_processing_time_timer(timers.current_processing_time() + 1_000)
            timers.register_event_time_timer((ctx.timestamp() or 0) + 1_000)

        def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[str]) -> Iterable[str]:
            return [f"{ctx.get_current_key()} {ctx.time_domain().name} {timestamp}"]

    assert_type(by_user().process(Alert()), DataStream[str])


@program
def side_outputs_by_context() -> None:
    bought = OutputTag("bought", Event)
    numbers = OutputTag("numbers", Types.LONG())

    class Split(ProcessFunction[Event, Event]):
        def process_element(self, value: Event, ctx: ProcessFunction.Context) -> Iterator[Event]:
            if value.kind is Kind.BUY:
                ctx.output(bought, value)
                ctx.output(numbers, value.at)
            else:
                yield value

    views = events().process(Split())
    assert_type(views.get_side_output(bought), DataStream[Event])
    assert_type(views.get_side_output(numbers).map(lambda number: number + 1), DataStream[int])


@program
def functions_instead_of_classes() -> None:
    late: OutputTag[Event] = OutputTag("late")

    def split(event: Event, ctx: ProcessFunction.Context) -> Iterator[float | tuple[OutputTag[Event], Event]]:
        if ctx.timestamp() is None:
            yield late, event
        yield event.amount

    assert_type(events().process(split), DataStream[float])
    assert_type(events().process(lambda event, ctx: [event.user]), DataStream[str])
    assert_type(by_user().process(lambda event, ctx: [(ctx.get_current_key(), event.at)]), DataStream[tuple[str, int]])


# ---- Windows of each kind


class Spread(ProcessWindowFunction[Event, tuple[str, int, float], str, TimeWindow]):
    fired: ValueState[int]

    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Event]
    ) -> Iterable[tuple[str, int, float]]:
        fired = context.window_state().get_state(ValueStateDescriptor("fired", default=0))
        fired.update(fired.value() + 1)
        amounts = [event.amount for event in elements]
        yield key, context.window().start, max(amounts) - min(amounts)

    def clear(self, context: ProcessWindowFunction.Context[TimeWindow]) -> None:
        context.global_state().get_state(ValueStateDescriptor("all", int)).update(0)


@program
def windows_with_settings() -> None:
    late: OutputTag[Event] = OutputTag("late")
    windows = (
        by_user()
        .window(SlidingEventTimeWindows.of(timedelta(minutes=1), timedelta(seconds=10), timedelta(0)))
        .trigger(PurgingTrigger.of(ContinuousEventTimeTrigger.of("5 s")))
        .evictor(CountEvictor.of(100))
        .allowed_lateness("1 min")
        .side_output_late_data(late)
    )
    assert_type(windows, WindowedStream[Event, str, TimeWindow])
    spreads = windows.process(Spread())
    assert_type(spreads, DataStream[tuple[str, int, float]])
    assert_type(spreads.get_side_output(late), DataStream[Event])


class Gap(SessionWindowTimeGapExtractor[Event]):
    def extract(self, element: Event) -> int:
        return 1_000 if element.kind is Kind.VIEW else 60_000


@program
def sessions_of_each_kind() -> None:
    fixed = by_user().window(EventTimeSessionWindows.with_gap(timedelta(minutes=5)))
    assert_type(fixed, WindowedStream[Event, str, TimeWindow])
    dynamic = by_user().window(EventTimeSessionWindows.with_dynamic_gap(Gap()))
    assert_type(dynamic, WindowedStream[Event, str, TimeWindow])
    by_lambda = by_user().window(EventTimeSessionWindows.with_dynamic_gap(lambda event: event.at))
    assert_type(by_lambda.count(), DataStream[tuple[str, int]])


@program
def windows_by_count() -> None:
    counted = by_user().count_window(2)
    assert_type(counted, WindowedStream[Event, str, GlobalWindow])
    assert_type(counted.sum("amount"), DataStream[Event])
    sliding = by_user().window(CountSlidingWindowAssigner.of(4, 2))
    assert_type(sliding, WindowedStream[Event, str, CountWindow])
    assert_type(events().count_window_all(3).max_by("amount"), DataStream[Event])
    deltas = by_user().window(GlobalWindows.create()).trigger(DeltaTrigger.of(5.0, lambda a, b: b.amount - a.amount))
    assert_type(deltas.reduce(lambda one, other: other), DataStream[Event])


@program
def aggregates_and_window_functions() -> None:
    class Total(AggregateFunction[Event, float, float]):
        def create_accumulator(self) -> float:
            return 0.0

        def add(self, value: Event, accumulator: float) -> float:
            return accumulator + value.amount

        def get_result(self, accumulator: float) -> float:
            return round(accumulator, 2)

    class Named(ProcessWindowFunction[float, tuple[str, float], str, TimeWindow]):
        def process(
            self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[float]
        ) -> Iterable[tuple[str, float]]:
            return [(key, total) for total in elements]

    windows = by_user().window(TumblingEventTimeWindows.of("10 s"))
    assert_type(windows.aggregate(Total()), DataStream[float])
    assert_type(windows.aggregate(Total(), Named()), DataStream[tuple[str, float]])
    assert_type(
        windows.aggregate(Total(), lambda user, window, totals: [(window.end, user, max(totals))]),
        DataStream[tuple[int, str, float]],
    )
    assert_type(windows.aggregate(Total(), output_type=Types.DOUBLE()), DataStream[float])


@program
def window_functions_by_class() -> None:
    class Sizes(WindowFunction[Event, tuple[str, int], str, TimeWindow]):
        def apply(self, key: str, window: TimeWindow, inputs: Iterable[Event]) -> Iterable[tuple[str, int]]:
            return [(key, len(list(inputs)))]

    class Ends(AllWindowFunction[Event, int, TimeWindow]):
        def apply(self, window: TimeWindow, inputs: Iterable[Event]) -> Iterable[int]:
            yield window.end

    class Users(ProcessAllWindowFunction[Event, set[str], TimeWindow]):
        def process(
            self, context: ProcessAllWindowFunction.Context[TimeWindow], elements: Iterable[Event]
        ) -> Iterable[set[str]]:
            yield {event.user for event in elements}

    windows = by_user().window(TumblingProcessingTimeWindows.of("10 s"))
    assert_type(windows.apply(Sizes()), DataStream[tuple[str, int]])
    whole = events().window_all(TumblingEventTimeWindows.of("1 min"))
    assert_type(whole.apply(Ends()), DataStream[int])
    assert_type(whole.process(Users()), DataStream[set[str]])
    assert_type(whole.apply(lambda window, found: [(window.max_timestamp(), len(found))]), DataStream[tuple[int, int]])


@program
def an_own_trigger() -> None:
    class Dear(Trigger[Event, TimeWindow]):
        def on_element(
            self, element: Event, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
        ) -> TriggerResult:
            count = ctx.get_partitioned_state(ValueStateDescriptor("count", default=0))
            count.update(count.value() + 1)
            ctx.register_event_time_timer(window.max_timestamp())
            return TriggerResult.FIRE if element.amount > 2 else TriggerResult.CONTINUE

        def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
            return TriggerResult.CONTINUE

        def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
            return TriggerResult.FIRE_AND_PURGE

        def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
            ctx.register_event_time_timer(window.max_timestamp())

        def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
            ctx.delete_event_time_timer(window.max_timestamp())

    windows = by_user().window(TumblingEventTimeWindows.of("10 s")).trigger(Dear())
    assert_type(windows.reduce(lambda one, other: one), DataStream[Event])


@program
def an_own_assigner() -> None:
    class Days(WindowAssigner[Event, TimeWindow]):
        def assign_windows(
            self, element: Event, timestamp: int, context: WindowAssigner.WindowAssignerContext
        ) -> list[TimeWindow]:
            start = timestamp - timestamp % 86_400_000
            return [TimeWindow(start, start + 86_400_000)]

        def get_default_trigger(self, env: object = None) -> Trigger[Event, TimeWindow]:
            return EventTimeTrigger.create()

        def is_event_time(self) -> bool:
            return True

    assert_type(by_user().window(Days()), WindowedStream[Event, str, TimeWindow])
    assert_type(by_user().window(Days()).trigger(CountTrigger.of(2)).count(), DataStream[tuple[str, int]])


# ---- Watermarks


class At(TimestampAssigner[Event]):
    def extract_timestamp(self, value: Event, record_timestamp: int) -> int:
        return value.at


class AtOnce(WatermarkGenerator[Event]):
    def on_event(self, event: Event, event_timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(event.at - 1)


@program
def strategies_of_each_kind() -> None:
    assigned = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    assert_type(local(EVENTS).assign_timestamps_and_watermarks(assigned), DataStream[Event])
    own = WatermarkStrategy.for_generator(AtOnce).with_timestamp_assigner(At()).with_idleness("1 min")
    assert_type(own, WatermarkStrategy[Event])
    assert_type(own.with_watermark_alignment("group", timedelta(seconds=20)), WatermarkStrategy[Event])
    times = WatermarkStrategy[Event].for_monotonous_timestamps()
    by_datetime = times.with_timestamp_assigner(lambda event, _: datetime.fromtimestamp(event.at / 1000, UTC))
    assert_type(local(EVENTS).assign_timestamps_and_watermarks(by_datetime), DataStream[Event])


# ---- Two inputs


@program
def connected_streams_with_state() -> None:
    class Enrich(KeyedCoProcessFunction[str, Event, Profile, tuple[str, float]]):
        city: ValueState[str]

        def open(self, runtime_context: RuntimeContext) -> None:
            self.city = runtime_context.get_state(ValueStateDescriptor("city", str))

        def process_element1(
            self, value: Event, ctx: KeyedCoProcessFunction.Context[str]
        ) -> Iterator[tuple[str, float]]:
            yield self.city.value() or "?", value.amount

        def process_element2(self, value: Profile, ctx: KeyedCoProcessFunction.Context[str]) -> None:
            self.city.update(value.city)
            ctx.timer_service().register_event_time_timer(value.at + 5)

        def on_timer(
            self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext[str]
        ) -> Iterator[tuple[str, float]]:
            yield ctx.get_current_key(), float(timestamp)

    stream = events()
    both = stream.connect(profiles(stream)).key_by(lambda event: event.user, lambda profile: profile.user)
    assert_type(both.process(Enrich()), DataStream[tuple[str, float]])


@program
def connected_streams_without_keys() -> None:
    class Names(CoFlatMapFunction[Event, Profile, str]):
        def flat_map1(self, value: Event) -> Iterable[str]:
            return [value.user]

        def flat_map2(self, value: Profile) -> Iterable[str]:
            yield value.city

    class Times(CoProcessFunction[Event, Profile, int]):
        def process_element1(self, value: Event, ctx: CoProcessFunction.Context) -> Iterator[int]:
            yield ctx.timestamp() or value.at

        def process_element2(self, value: Profile, ctx: CoProcessFunction.Context) -> Iterator[int]:
            yield value.at

    stream = events()
    both = stream.connect(profiles(stream))
    assert_type(both.flat_map(Names()), DataStream[str])
    assert_type(both.process(Times()), DataStream[int])


RULES = MapStateDescriptor("rules", str, float)


@program
def broadcast_state() -> None:
    class Above(BroadcastProcessFunction[Event, tuple[str, float], Event]):
        def process_element(self, value: Event, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Event]:
            limit = ctx.get_broadcast_state(RULES).get(value.user)
            assert_type(limit, float | None)
            if limit is None or value.amount > limit:
                yield value

        def process_broadcast_element(self, value: tuple[str, float], ctx: BroadcastProcessFunction.Context) -> None:
            ctx.get_broadcast_state(RULES).put(*value)

    stream = events()
    rules = stream.get_execution_environment().from_collection([("ann", 1.5)]).broadcast(RULES)
    assert_type(stream.connect(rules).process(Above()), DataStream[Event])


@program
def broadcast_state_and_keys() -> None:
    class Above(KeyedBroadcastProcessFunction[str, Event, tuple[str, float], str]):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

        def process_element(
            self, value: Event, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext[str]
        ) -> Iterator[str]:
            self.count.update(self.count.value() + 1)
            for user, limit in ctx.get_broadcast_state(RULES).items():
                yield f"{user} {limit:.1f}"

        def process_broadcast_element(
            self, value: tuple[str, float], ctx: KeyedBroadcastProcessFunction.Context
        ) -> None:
            ctx.get_broadcast_state(RULES).put(value[0], value[1])

    keyed = by_user()
    rules = keyed.get_execution_environment().from_collection([("ann", 1.5)]).broadcast(RULES)
    assert_type(keyed.connect(rules).process(Above()), DataStream[str])


@program
def joins_by_class() -> None:
    class City(JoinFunction[Event, Profile, tuple[str, float]]):
        def join(self, first: Event, second: Profile) -> tuple[str, float]:
            return second.city, first.amount

    class Twice(FlatJoinFunction[Event, Profile, str]):
        def join(self, first: Event, second: Profile) -> Iterable[str]:
            return [first.user, second.city]

    class Counts(CoGroupFunction[Event, Profile, tuple[int, int]]):
        def co_group(self, first: Iterable[Event], second: Iterable[Profile]) -> Iterable[tuple[int, int]]:
            yield len(list(first)), len(list(second))

    stream = events()
    windows = TumblingEventTimeWindows.of("10 s")
    keyed = stream.join(profiles(stream)).where(User()).equal_to(lambda profile: profile.user)
    assert_type(keyed.window(windows).apply(City()), DataStream[tuple[str, float]])
    assert_type(keyed.window(windows).allowed_lateness("1 s").apply(Twice()), DataStream[str])
    grouped = stream.co_group(profiles(stream)).where(User()).equal_to(lambda profile: profile.user)
    assert_type(grouped.window(windows).apply(Counts()), DataStream[tuple[int, int]])


@program
def interval_joins_by_class() -> None:
    class Near(ProcessJoinFunction[Event, Profile, tuple[str, int]]):
        def process_element(
            self, left: Event, right: Profile, ctx: ProcessJoinFunction.Context
        ) -> Iterator[tuple[str, int]]:
            yield right.city, ctx.get_timestamp() - ctx.get_left_timestamp()

    late: OutputTag[Event] = OutputTag("late")
    stream = events()
    left, right = stream.key_by(User()), profiles(stream).key_by(lambda profile: profile.user)
    joined = left.interval_join(right).between(timedelta(seconds=-5), timedelta(seconds=5))
    near = joined.lower_bound_exclusive().side_output_left_late_data(late).process(Near())
    assert_type(near, DataStream[tuple[str, int]])


# ---- Asynchronous calls and loops


class Lookup(AsyncFunction[Event, tuple[str, str]]):
    async def async_invoke(self, value: Event) -> list[tuple[str, str]]:
        return [(value.user, "Rome")]

    def timeout(self, value: Event) -> list[tuple[str, str]]:
        return []


@program
def lookups_with_retries_and_a_cache() -> None:
    def slow(event: Event) -> list[float]:
        return [event.amount]

    stream = events()
    retries = AsyncRetryStrategy.fixed_delay(3, 10)
    assert_type(AsyncDataStream.ordered_wait_with_retry(stream, Lookup(), "5 s", retries), DataStream[tuple[str, str]])
    assert_type(AsyncDataStream.unordered_wait(stream, blocking(slow), timedelta(seconds=5)), DataStream[float])
    once = cached(Lookup(), "1 min", key=lambda event: event.user)
    assert_type(AsyncDataStream.unordered_wait(stream, once, 5_000), DataStream[tuple[str, str]])


@program
def a_loop_with_close_with() -> None:
    loop = local([5, 8]).iterate()
    less = loop.map(lambda number: number - 3)
    loop.close_with(less.filter(lambda number: number > 0))
    assert_type(less, DataStream[int])
    assert sorted(less.execute_and_collect(limit=5)) == [-1, -1, 2, 2, 5]


@program
def a_longest_session() -> None:
    class Longest(ReduceFunction[tuple[str, int]]):
        def reduce(self, value1: tuple[str, int], value2: tuple[str, int]) -> tuple[str, int]:
            return max(value1, value2, key=lambda pair: pair[1])

    pairs = by_user().window(EventTimeSessionWindows.with_gap("2 s")).count()
    assert_type(pairs.key_by(lambda pair: pair[0]).reduce(Longest()), DataStream[tuple[str, int]])


@program
def streams_in_containers() -> None:
    by_name: dict[str, DataStream[Event]] = {"events": events()}
    by_name["twice"] = by_name["events"].union(by_name["events"])
    counts = {name: stream.map(lambda event: event.amount) for name, stream in by_name.items()}
    assert_type(counts, dict[str, DataStream[float]])


@program
def methods_as_functions() -> None:
    class Prices:
        def __init__(self, rate: float) -> None:
            self.rate = rate

        def converted(self, event: Event) -> float:
            return event.amount * self.rate

        def __call__(self, event: Event) -> list[str]:
            return [event.user] * int(self.rate)

    prices = Prices(2.0)
    assert_type(events().map(prices.converted), DataStream[float])
    assert_type(events().flat_map(prices), DataStream[str])


@program
def nested_containers() -> None:
    grouped = by_user().count_window(2).apply(lambda user, window, found: [{user: [event.at for event in found]}])
    assert_type(grouped, DataStream[dict[str, list[int]]])
    assert_type(grouped.flat_map(lambda each: each.items()), DataStream[tuple[str, list[int]]])


@program
def reduce_then_name() -> None:
    class Latest(ProcessWindowFunction[Event, tuple[int, Event], str, TimeWindow]):
        def process(
            self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Event]
        ) -> Iterable[tuple[int, Event]]:
            return [(context.current_watermark(), event) for event in elements]

    windows = by_user().window(TumblingEventTimeWindows.of(10_000))
    latest = windows.reduce(lambda one, other: max(one, other, key=lambda event: event.at), Latest())
    assert_type(latest, DataStream[tuple[int, Event]])
    assert_type(latest.map(lambda pair: pair[1].user), DataStream[str])


@program
def assigners_in_context() -> None:
    stream = local(EVENTS).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda event, _: event.at)
    )
    assert_type(stream, DataStream[Event])


@dataclass(frozen=True)
class Countdown(Source[int]):
    start: int
    boundedness = Boundedness.BOUNDED

    def list_splits(self) -> Sequence[str]:
        return ["only"]

    def reader(self, context: ConnectorContext) -> CountdownReader:
        return CountdownReader(self.start)


class CountdownReader(SourceReader):
    def __init__(self, start: int) -> None:
        self.left = start


class Lines(Sink[str]):
    def writer(self, context: ConnectorContext) -> LinesWriter:
        return LinesWriter()


class LinesWriter(SinkWriter):
    def write(self, values: list[str], timestamps: list[int] | None, now: int) -> None:
        print(*values)  # noqa: T201


class Doubling(Operator):
    def process(self, values: Values, timestamps: Timestamps) -> None:
        self.output.emit([2 * value for value in values], timestamps)


class Positive(Evictor[Event, TimeWindow]):
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: TimeWindow, ctx: object
    ) -> list[TimestampedValue] | None:
        return [element for element in elements if element.timestamp > window.start]


@program
def connectors_and_operators_of_ones_own() -> None:
    stream = events()
    assert_type(stream.get_execution_environment().from_source(Countdown(3)), DataStream[int])
    assert_type(stream.map(lambda event: event.user).sink_to(Lines()), DataStreamSink)
    doubled: DataStream[int] = stream.map(lambda event: event.at).transform("doubled", Doubling)
    assert_type(doubled, DataStream[int])
    windows = by_user().window(TumblingEventTimeWindows.of("1 min")).evictor(Positive())
    assert_type(windows.count(), DataStream[tuple[str, int]])


@program
def records_that_fail() -> None:
    dead = OutputTag[DeadLetter]("dead")
    numbers = events().map(lambda event: int(event.user)).on_error(dead)
    assert_type(numbers, DataStream[int])
    assert_type(numbers.get_side_output(dead).map(lambda letter: str(letter.error)), DataStream[str])
