"""More wrong programs, of every part of the public surface, for mypy and pyright; see ``mistakes.py``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, TypedDict

from funken import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    BroadcastStream,
    BucketAssigner,
    CoGroupFunction,
    Configuration,
    CoProcessFunction,
    CountEvictor,
    CountTrigger,
    DataStream,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    FileSink,
    FileSource,
    FilterFunction,
    JobClient,
    JoinFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    KeySelector,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    Partitioner,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    RuntimeContext,
    SlidingEventTimeWindows,
    StateTtlConfig,
    StreamExecutionEnvironment,
    TimestampAssigner,
    TimeWindow,
    Trigger,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkGenerator,
    WatermarkStrategy,
    WindowedStream,
    WindowFunction,
    blocking,
)
from funken.cep import CEP, Pattern
from funken.connectors import CsvSchema, JsonSchema, SerializationSchema
from funken.connectors.files.arrow_files import ParquetFormat
from funken.connectors.files.sink import BucketContext
from funken.connectors.http import HttpSource
from funken.connectors.kinesis import KinesisConnection, KinesisSink, KinesisSource
from funken.connectors.mongodb import MongoServer, MongoSource
from funken.connectors.postgresql import PostgresCdcSource, PostgresDatabase
from funken.connectors.pulsar import PulsarConnection, PulsarSink, PulsarSource
from funken.connectors.rabbitmq import RMQConnectionConfig, RMQSource
from funken.connectors.redis import RedisServer, RedisSink
from funken.dataset import DataSet
from funken.graph import ComputeFunction, ConnectedComponents, EdgeStream, Graph, GraphVertex, PageRank
from funken.ml import OnlineKMeans, StandardScaler, train_test_split
from funken.table import (
    DataTypes,
    Schema,
    StatementSet,
    StreamTableEnvironment,
    Table,
    TableDescriptor,
    TableEnvironment,
    TableResult,
    col,
)
from funken.testing import OperatorHarness


@dataclass(frozen=True)
class Event:
    user: str
    at: int
    amount: float


class Profile(NamedTuple):
    user: str
    city: str


class Visit(TypedDict):
    page: str
    seconds: int


class User(KeySelector[Event, str]):
    def get_key(self, value: Event) -> str:
        return value.user


class City(JoinFunction[Event, Profile, str]):
    def join(self, first: Event, second: Profile) -> str:
        return second.city


class Total(AggregateFunction[Event, float, float]):
    def create_accumulator(self) -> float:
        return 0.0

    def add(self, value: Event, accumulator: float) -> float:
        return accumulator + value.amount

    def get_result(self, accumulator: float) -> float:
        return accumulator


class AsLine(SerializationSchema[Event]):
    def serialize(self, value: Event) -> bytes:
        return value.user.encode()


# ---- Records and keys


def records(events: DataStream[Event], visits: DataStream[Visit], profiles: DataStream[Profile]) -> None:
    events.map(lambda event: event.amout)  # type: ignore[attr-defined]
    visits.map(lambda visit: visit["pages"])  # type: ignore[typeddict-item]
    events.key_by(lambda event: event.user).sum(["amount"])  # type: ignore[arg-type]
    events.key_by("user")  # type: ignore[arg-type]
    profiles.key_by(User())  # type: ignore[arg-type]
    events.flat_map(lambda event: event.at)  # type: ignore[arg-type, return-value]
    events.partition_custom(User(), lambda event: event.at)  # type: ignore[arg-type]
    events.union(profiles).map(lambda each: each.city)  # type: ignore[union-attr]
    events.map(User())  # type: ignore[arg-type]
    events.filter(Longer())  # type: ignore[arg-type]
    events.map_block(lambda block: block[0])  # type: ignore[arg-type, return-value]
    events.set_parallelism("2")  # type: ignore[arg-type]
    events.name(5)  # type: ignore[arg-type]
    events.project("user")  # type: ignore[arg-type]
    events.print(5)  # type: ignore[arg-type]
    users: KeyedStream[Event, int] = events.key_by(User())  # type: ignore[arg-type]
    users.key_by(User()).map_with_state(0, lambda count, event: count + 1)  # type: ignore[arg-type, return-value]
    users.key_by(User()).map_with_state("", lambda text, event: (text + 1, event))  # type: ignore[operator]
    users.join_all(profiles.key_by(lambda profile: profile.city))  # type: ignore[arg-type, return-value]
    events.key_by(User()).join_all(profiles.key_by(lambda profile: profile.user)).map(lambda found: found[2].amount)  # type: ignore[attr-defined]


class Longer(FilterFunction[str]):
    def filter(self, value: str) -> str:  # type: ignore[override]
        return value


class Even(Partitioner[int]):
    def partition(self, key: int, num_partitions: int) -> str:  # type: ignore[override]
        return str(key)


# ---- State, timers and side outputs


class Stateful(KeyedProcessFunction[str, Event, float]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.events = runtime_context.get_list_state(ListStateDescriptor("events", Event))
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", str, int))
        self.total = runtime_context.get_reducing_state(ReducingStateDescriptor("total", max, float))
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Event))
        runtime_context.get_state(ListStateDescriptor("events", Event))  # type: ignore[arg-type]
        runtime_context.get_map_state(ValueStateDescriptor("last", int))  # type: ignore[arg-type]
        runtime_context.get_list_state("events")  # type: ignore[arg-type]
        MapStateDescriptor("counts", str, 0)  # type: ignore[arg-type]
        ListStateDescriptor("events", Types.STRING)  # type: ignore[arg-type]
        ValueStateDescriptor("last", "int")  # type: ignore[arg-type]
        StateTtlConfig.new_builder([5])  # type: ignore[arg-type]
        StateTtlConfig.new_builder("1 h").update_ttl("read")  # type: ignore[attr-defined]

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context[str]) -> Iterator[float]:
        self.events.add(value.user)  # type: ignore[arg-type]
        self.counts.put(value.at, 1)  # type: ignore[arg-type]
        self.counts[value.user] = "one"  # type: ignore[assignment]
        self.total.add(value.user)  # type: ignore[arg-type]
        str(self.last.value().amout)  # type: ignore[attr-defined]
        self.last.update(value.amount)  # type: ignore[arg-type]
        ctx.timer_service().register_event_time_timer("soon")  # type: ignore[arg-type]
        ctx.timer_service().register_timer(5)  # type: ignore[union-attr]
        ctx.output("late", value)  # type: ignore[arg-type]
        for name, count in self.counts.items():
            yield name + count  # type: ignore[operator]
        yield from self.events.get()  # type: ignore[misc]

    def on_timer(self, timestamp: str, ctx: KeyedProcessFunction.OnTimerContext[str]) -> Iterator[float]:  # type: ignore[override]
        yield float(timestamp)


class Tagged(ProcessFunction[Event, int]):
    def process_element(self, value: Event, ctx: ProcessFunction.Context) -> Iterator[int]:
        ctx.get_current_key()  # type: ignore[attr-defined]
        yield value.amount  # type: ignore[misc]


def outputs(events: DataStream[Event]) -> None:
    tag = OutputTag("users", str)
    events.process(Tagged()).get_side_output(tag).map(lambda user: user + 1)  # type: ignore[operator]
    events.get_side_output("users")  # type: ignore[arg-type]
    events.process(Stateful())  # type: ignore[arg-type]
    events.key_by(lambda event: event.at).process(Stateful())  # type: ignore[arg-type]
    OutputTag(5)  # type: ignore[arg-type]


# ---- Time and windows


class At(TimestampAssigner[Event]):
    def extract_timestamp(self, value: Event, record_timestamp: int) -> str:  # type: ignore[override]
        return value.user


class Sizes(WindowFunction[Event, int, str, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[Event]) -> Iterable[int]:
        return len(list(inputs))  # type: ignore[return-value]


class Names(ProcessWindowFunction[float, str, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[float]) -> str:
        return key


def times(events: DataStream[Event], profiles: DataStream[Profile]) -> None:
    strategy = WatermarkStrategy[Event].for_monotonous_timestamps()
    strategy.with_timestamp_assigner(lambda event, _: event.user)  # type: ignore[arg-type, return-value]
    strategy.with_timestamp_assigner(lambda event: event.at)  # type: ignore[arg-type, misc]
    strategy.with_idleness(None)  # type: ignore[arg-type]
    strategy.with_timestamp_asigner(lambda event, _: event.at)  # type: ignore[attr-defined]
    profiles.assign_timestamps_and_watermarks(strategy)  # type: ignore[arg-type]
    events.assign_timestamps_and_watermarks("ascending")  # type: ignore[arg-type]
    WatermarkStrategy.for_bounded_out_of_orderness()  # type: ignore[call-arg]
    WatermarkStrategy.for_generator(At)  # type: ignore[arg-type]


def windows(keyed: KeyedStream[Event, str], windowed: WindowedStream[Event, str, TimeWindow]) -> None:
    keyed.window(TumblingEventTimeWindows)  # type: ignore[arg-type]
    keyed.window(SlidingEventTimeWindows.of("1 min"))  # type: ignore[call-arg]
    keyed.window(EventTimeSessionWindows.with_gap())  # type: ignore[call-arg]
    keyed.window(CountTrigger.of(5))  # type: ignore[arg-type]
    keyed.count_window("5")  # type: ignore[arg-type]
    windowed.trigger(EventTimeTrigger)  # type: ignore[arg-type]
    windowed.trigger(CountEvictor.of(5))  # type: ignore[arg-type]
    windowed.trigger(DeltaTrigger.of(1.0, lambda old, new: new.amout - old.amount))  # type: ignore[attr-defined]
    windowed.evictor(CountTrigger.of(5))  # type: ignore[arg-type]
    windowed.allowed_lateness(None)  # type: ignore[arg-type]
    windowed.side_output_late_data("late")  # type: ignore[arg-type]
    windowed.reduce(lambda one, other: one.amount + other.amount)  # type: ignore[arg-type, return-value]
    windowed.reduce(Total())  # type: ignore[call-overload]
    windowed.aggregate(lambda one, other: one)  # type: ignore[call-overload]
    windowed.aggregate(Total(), Sizes())  # type: ignore[arg-type]
    windowed.aggregate(Total()).map(lambda total: total.upper())  # type: ignore[attr-defined]
    windowed.apply(lambda key, window: [key])  # type: ignore[arg-type, misc]
    windowed.process(Sizes())  # type: ignore[arg-type]
    windowed.count().map(lambda pair: pair[2])  # type: ignore[misc]


# ---- Two inputs


class Log(CoProcessFunction[Event, Profile, str]):
    def process_element1(self, value: Event, ctx: CoProcessFunction.Context) -> Iterator[str]:
        yield value.at  # type: ignore[misc]

    def process_element2(self, value: Profile, ctx: CoProcessFunction.Context) -> Iterator[str]:
        yield value.city


class Keyed(KeyedCoProcessFunction[str, Event, Profile, str]):
    def process_element1(self, value: Event, ctx: KeyedCoProcessFunction.Context[str]) -> Iterator[str]:
        yield ctx.get_current_key() + 1  # type: ignore[operator]


class Rules(BroadcastProcessFunction[Event, str, Event]):
    def process_element(self, value: Event, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Event]:
        ctx.get_broadcast_state(MapStateDescriptor("rules", str, int)).put("a", 1)  # type: ignore[attr-defined]
        yield value.user  # type: ignore[misc]

    def process_broadcast_element(self, value: str, ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(MapStateDescriptor("rules", str, int)).put(value, value)  # type: ignore[arg-type]


def two_inputs(events: DataStream[Event], profiles: DataStream[Profile], rules: BroadcastStream[int]) -> None:
    profiles.connect(events).process(Log())  # type: ignore[arg-type]
    events.connect(profiles).map(Log())  # type: ignore[arg-type]
    events.connect(profiles).key_by(lambda event: event.user)  # type: ignore[call-arg]
    events.connect(rules).process(Rules())  # type: ignore[arg-type]
    events.broadcast("rules")  # type: ignore[call-overload]
    joined = events.join(profiles).where(User()).equal_to(lambda profile: profile.user)
    joined.apply(City())  # type: ignore[attr-defined]
    windowed = joined.window(TumblingEventTimeWindows.of("1 min"))
    windowed.apply(lambda event, profile: event.city)  # type: ignore[attr-defined]
    windowed.apply(lambda event: event)  # type: ignore[arg-type, misc]
    windowed.apply(Grouped())  # type: ignore[call-overload]
    events.join(profiles).equal_to(User())  # type: ignore[attr-defined]
    keyed = events.key_by(User()).interval_join(profiles.key_by(lambda profile: profile.user))
    keyed.between("0 s").process(Near())  # type: ignore[call-arg]
    keyed.between(timedelta(0), timedelta(1)).process(City())  # type: ignore[arg-type]
    events.key_by(User()).interval_join(profiles)  # type: ignore[arg-type]


class Grouped(CoGroupFunction[Event, Profile, int]):
    def co_group(self, first: Iterable[Event], second: Iterable[Profile]) -> Iterable[int]:
        return [event.user for event in first]  # type: ignore[misc]


class Near(ProcessJoinFunction[Event, Profile, int]):
    def process_element(self, left: Event, right: Profile, ctx: ProcessJoinFunction.Context) -> Iterator[int]:
        yield ctx.get_left_timestamp() + right.city  # type: ignore[operator]


class Ask(AsyncFunction[Event, str]):
    async def async_invoke(self, value: Event) -> str:  # type: ignore[override]
        return value.user


def asynchronous(events: DataStream[Event], profiles: DataStream[Profile]) -> None:
    AsyncDataStream.ordered_wait(profiles, Ask(), "5 s")  # type: ignore[arg-type]
    AsyncDataStream.ordered_wait(events, lambda event: [event.user], "5 s")  # type: ignore[arg-type, return-value]
    AsyncDataStream.unordered_wait(events, Ask())  # type: ignore[call-arg]
    blocking(lambda event: event, threads="many")  # type: ignore[arg-type]


# ---- Connectors and formats


class ByUser(BucketAssigner[Event]):
    def get_bucket_id(self, element: Event, context: BucketContext) -> int:  # type: ignore[override]
        return element.at


def connectors(env: StreamExecutionEnvironment, profiles: DataStream[Profile]) -> None:
    connection = KinesisConnection("eu-central-1")
    env.from_source(KinesisSource(connection, "orders")).map(lambda text: text + 1)  # type: ignore[operator]
    env.from_source(KinesisSource(connection, "orders", JsonSchema(Profile))).map(lambda each: each.town)  # type: ignore[attr-defined]
    KinesisSource(connection, "orders", AsLine())  # type: ignore[arg-type]
    profiles.sink_to(KinesisSink(connection, "orders", AsLine()))  # type: ignore[arg-type]
    pulsar = PulsarConnection("pulsar://localhost:6650")
    env.from_source(PulsarSource(pulsar, "orders", "s", CsvSchema(Profile))).map(lambda each: each.town)  # type: ignore[attr-defined]
    profiles.sink_to(PulsarSink(pulsar, "orders", AsLine()))  # type: ignore[arg-type]
    env.from_source(RMQSource(RMQConnectionConfig("localhost"), "orders")).map(lambda text: text.no_such())  # type: ignore[attr-defined]
    env.from_source(MongoSource(MongoServer("mongodb://localhost"), "shop", "orders")).map(lambda each: each.city)  # type: ignore[attr-defined]
    env.from_source(PostgresCdcSource(PostgresDatabase("dbname=a"), ["a"], slot="s")).map(lambda each: each.row)  # type: ignore[attr-defined]
    profiles.sink_to(RedisSink(RedisServer("localhost"), lambda profile: ("SET", profile.town)))  # type: ignore[attr-defined]
    env.from_source(HttpSource("https://shop.example", len))  # type: ignore[arg-type]
    FileSink.for_bulk_format("out", JsonSchema())  # type: ignore[arg-type]
    FileSource.for_record_stream_format(ParquetFormat(Profile), 5)  # type: ignore[arg-type]
    env.from_source(FileSource.for_format(ParquetFormat(Profile), "in").build()).map(lambda each: each.town)  # type: ignore[attr-defined]
    str(JsonSchema(Profile).deserialize(b"").town)  # type: ignore[attr-defined]
    JsonSchema("Profile")  # type: ignore[arg-type]
    CsvSchema()  # type: ignore[call-arg]


def jobs(env: StreamExecutionEnvironment, client: JobClient) -> None:
    env.set_runtime_mode("BATCH")  # type: ignore[arg-type]
    env.execute(5)  # type: ignore[arg-type]
    env.execute_async().cancle()  # type: ignore[attr-defined]
    env.configure([("a", 1)])  # type: ignore[arg-type]
    client.get_job_status().result().upper()  # type: ignore[attr-defined]
    client.stop_with_savepoint()  # type: ignore[call-arg]
    client.rescale("2")  # type: ignore[arg-type]
    client.trigger_savepoint(5)  # type: ignore[arg-type]
    Configuration().get_integer("a", "b", "c")  # type: ignore[arg-type, call-arg]
    env.add_source([1])  # type: ignore[attr-defined]
    OperatorHarness(5)  # type: ignore[arg-type]


# ---- Libraries


class Distance(ComputeFunction[str, float, float, float]):
    def compute(self, vertex: GraphVertex[str, float], messages: list[float]) -> None:
        self.set_new_vertex_value(vertex.id)  # type: ignore[arg-type]
        self.send_message_to(5, 1.0)  # type: ignore[arg-type]
        self.send_message_to("b", "near")  # type: ignore[arg-type]


def libraries(graph: Graph[str, float, float], numbers: Graph[int, int, int], events: DataStream[Event]) -> None:
    numbers.run_vertex_centric_iteration(Distance(), min, 10)  # type: ignore[arg-type]
    graph.run(PageRank()).map(lambda each: each[1].upper())  # type: ignore[attr-defined]
    graph.run(ConnectedComponents("5"))  # type: ignore[arg-type]
    graph.reduce_on_edges(lambda one, other: str(one))  # type: ignore[arg-type, return-value]
    pattern = Pattern[Event].begin("a").where(lambda event: event.amount > 1)
    pattern.where(lambda event, ctx, more: True)  # type: ignore[arg-type, misc]
    pattern.times("1", "2")  # type: ignore[arg-type]
    CEP.pattern(events, pattern).select(lambda match: match["a"][0].amout)  # type: ignore[attr-defined]
    CEP.pattern(events, pattern).select()  # type: ignore[call-overload]
    learner = OnlineKMeans(2)
    learner.predict(events, learner.learn(events)).map(lambda each: each.record.amout)  # type: ignore[attr-defined]
    learner.predict(events)  # type: ignore[call-arg]


def edges_that_come(edges: EdgeStream[str, int]) -> None:
    edges.filter_edges(lambda edge: edge.valeu > 1)  # type: ignore[attr-defined]
    edges.slice(100).reduce_on_edges(lambda one, other: str(one))  # type: ignore[arg-type, return-value]
    edges.get_degrees().map(lambda pair: pair[2])  # type: ignore[misc]
    edges.run("triangles")  # type: ignore[arg-type]


def batches(events: DataSet[Event]) -> None:
    train, test = train_test_split(events)
    train.map(lambda event: event.amout)  # type: ignore[attr-defined]
    StandardScaler().fit()  # type: ignore[call-arg]
    events.group_by("user").reduce(lambda one, other: one.amount)  # type: ignore[arg-type, return-value]
    events.sort_partition("at", order="down")  # type: ignore[call-arg]
    events.first()  # type: ignore[call-arg]
    test.join(events).where("user").apply(len)  # type: ignore[attr-defined]


# ---- Tables


def tables(env: TableEnvironment, streams: StreamTableEnvironment, table: Table, result: TableResult) -> None:
    env.execute_sql(5)  # type: ignore[arg-type]
    env.create_statement_set().add_insert_sql(table)  # type: ignore[arg-type]
    env.create_statement_set().execute().colect()  # type: ignore[attr-defined]
    statements: StatementSet = env.create_statement_set().execute()  # type: ignore[assignment]
    statements.add_insert("out")  # type: ignore[call-arg]
    result.get_job_client().cancel()  # type: ignore[union-attr]
    str(result.get_resolved_schema().names)  # type: ignore[attr-defined]
    result.collect().close(5)  # type: ignore[call-arg]
    table.group_by(col("a")).filter(col("a") > 1)  # type: ignore[attr-defined]
    table.union("other")  # type: ignore[arg-type]
    table.rename_columns("b")  # type: ignore[arg-type]
    table.get_resolved_schema().get_column_nmaes()  # type: ignore[attr-defined]
    table.select(col("a").substring())  # type: ignore[call-arg]
    table.select(col("a").round(1, 2, 3))  # type: ignore[call-arg]
    table.select(col("a").between(1))  # type: ignore[call-arg]
    table.select(col(5))  # type: ignore[arg-type]
    env.create_temporary_view("sales", "table")  # type: ignore[arg-type]
    env.from_elements(5)  # type: ignore[arg-type]
    table.fetch("5")  # type: ignore[arg-type]
    table.execute_insert(5)  # type: ignore[arg-type]
    Schema.new_builder().column("a")  # type: ignore[call-arg]
    Schema.new_builder().colum("a", "INT")  # type: ignore[attr-defined]
    TableDescriptor.for_connector("a").schema("a INT")  # type: ignore[arg-type]
    DataTypes.VARCHAR("5")  # type: ignore[arg-type]
    DataTypes.NUMBER()  # type: ignore[attr-defined]
    streams.from_data_stream(table)  # type: ignore[arg-type]
    streams.to_retract_stream(table).map(lambda pair: pair[0].upper())  # type: ignore[attr-defined]


class Fires(Trigger[Event, TimeWindow]):
    def on_element(self, element: Event, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> bool:  # type: ignore[override]
        ctx.get_partitioned_state(ValueStateDescriptor("count", int)).update("one")  # type: ignore[arg-type]
        return True


class Late(WatermarkGenerator[Event]):
    def on_event(self, event: Event, event_timestamp: int) -> None:  # type: ignore[override]
        """Forget the output."""
