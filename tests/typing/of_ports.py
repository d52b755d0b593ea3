"""More typical PyFlink programs, with the stubs of ``funken stubs``: as ``ported.py``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, assert_type

import funken.compat.pyflink  # noqa: F401  # pyright: ignore[reportUnusedImport] - for programs that run

# isort: split

from pyflink.common import Configuration, JobExecutionResult, Row, Time, Types, WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.common.typeinfo import TypeInformation
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    CoFlatMapFunction,
    ConnectedStreams,
    CoProcessFunction,
    DataStream,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    KeySelector,
    MapFunction,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    WindowFunction,
)
from pyflink.datastream.connectors.file_system import FileSink, OutputFileConfig, RollingPolicy
from pyflink.datastream.connectors.kafka import (
    DeliveryGuarantee,
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.connectors.kinesis import FlinkKinesisConsumer
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.functions import AggregateFunction
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from pyflink.datastream.window import (
    CountWindow,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from pyflink.table import (
    AggregateFunction as TableAggregate,
)
from pyflink.table import (
    DataTypes,
    EnvironmentSettings,
    Schema,
    StatementSet,
    StreamTableEnvironment,
    Table,
    TableDescriptor,
    TableEnvironment,
    TableResult,
)
from pyflink.table.expressions import call, col, lit
from pyflink.table.udf import ScalarFunction, TableFunction, udaf, udf, udtf
from pyflink.table.window import Over, Slide, Tumble

PROGRAMS: list[Callable[[], None]] = []
UNRUN: list[Callable[[], None]] = []
"""Programs that need a server."""


def program(run: Callable[[], None]) -> Callable[[], None]:
    PROGRAMS.append(run)
    return run


def unrun(run: Callable[[], None]) -> Callable[[], None]:
    UNRUN.append(run)
    return run


class Event(NamedTuple):
    user: str
    amount: int
    at: int


EVENTS = [Event("ann", 3, 1_000), Event("bob", 5, 2_000), Event("ann", 2, 12_000)]


def environment() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration().set_string("execution.target", "local"))
    env.set_parallelism(1)
    return env


class At(TimestampAssigner[Event]):
    def extract_timestamp(self, value: Event, record_timestamp: int) -> int:
        return value.at


def events() -> DataStream[Event]:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    return environment().from_collection(EVENTS).assign_timestamps_and_watermarks(strategy)


def by_user() -> KeyedStream[Event, str]:
    return events().key_by(lambda event: event.user, key_type=Types.STRING())


@program
def words_of_the_tutorial() -> None:
    env = environment()
    lines = env.from_collection(["to be or", "not to be"], Types.STRING())
    assert_type(lines, DataStream[str])

    def split(line: str) -> Iterator[str]:
        yield from line.split()

    counts = (
        lines.flat_map(split, output_type=Types.STRING())
        .map(lambda word: (word, len(word)), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0])
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
    )
    assert_type(counts, DataStream[tuple[str, int]])
    assert len(list(counts.execute_and_collect())) == 6


class Length(MapFunction[Event, int]):
    def map(self, value: Event) -> int:
        return len(value.user)


class Twice(FlatMapFunction[Event, Event]):
    def flat_map(self, value: Event) -> Iterable[Event]:
        return [value, value]


class Dear(FilterFunction[Event]):
    def filter(self, value: Event) -> bool:
        return value.amount > 2


class User(KeySelector[Event, str]):
    def get_key(self, value: Event) -> str:
        return value.user


class Most(ReduceFunction[Event]):
    def reduce(self, value1: Event, value2: Event) -> Event:
        return value1 if value1.amount > value2.amount else value2


@program
def functions_by_class() -> None:
    stream = events()
    assert_type(stream.map(Length(), Types.INT()), DataStream[int])
    assert_type(stream.flat_map(Twice()).filter(Dear()), DataStream[Event])
    assert_type(stream.key_by(User()), KeyedStream[Event, str])
    assert_type(stream.key_by(User()).reduce(Most()), DataStream[Event])
    assert_type(stream.key_by(User()).map(Length()), DataStream[int])
    assert_type(stream.union(stream.filter(Dear())), DataStream[Event])
    assert_type(stream.rebalance().shuffle().forward().rescale(), DataStream[Event])
    assert_type(stream.disable_chaining().name("events").uid("events").set_parallelism(1), DataStream[Event])


@program
def sums_and_fields_of_a_key() -> None:
    assert_type(by_user().sum("amount"), DataStream[Event])
    assert_type(by_user().max_by("amount"), DataStream[Event])
    assert_type(by_user().min(1), DataStream[Event])
    assert_type(events().project(1, 0), DataStream[tuple[Any, ...]])


class Counts(KeyedProcessFunction[str, Event, tuple[str, int]]):
    count: ValueState[int]
    amounts: ListState[int]
    kinds: MapState[str, int]
    total: ReducingState[int]

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))
        self.amounts = runtime_context.get_list_state(ListStateDescriptor("amounts", Types.INT()))
        self.kinds = runtime_context.get_map_state(MapStateDescriptor("kinds", Types.STRING(), Types.INT()))
        self.total = runtime_context.get_reducing_state(
            ReducingStateDescriptor("total", lambda one, other: one + other, Types.INT())
        )
        self.parts = runtime_context.get_metrics_group().counter("parts")

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context[str]) -> Iterator[tuple[str, int]]:
        self.count.update((self.count.value() or 0) + 1)
        self.amounts.add(value.amount)
        self.total.add(value.amount)
        self.kinds.put(value.user, value.amount)
        self.parts.inc()
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 1_000)
        for amount in self.amounts:
            assert_type(amount, int)
        yield from self.kinds.items()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[str]) -> Iterator[tuple[str, int]]:
        yield ctx.get_current_key(), self.total.get() or 0


@program
def state_of_each_kind() -> None:
    counts = by_user().process(Counts(), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
    assert_type(counts, DataStream[tuple[str, int]])
    assert_type(counts.key_by(lambda pair: pair[0]).sum(1).map(lambda pair: pair[1]), DataStream[int])


class Mean(AggregateFunction[Event, tuple[int, int], float]):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Event, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value.amount, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Named(ProcessWindowFunction[float, tuple[str, int, float], str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[float]
    ) -> Iterable[tuple[str, int, float]]:
        yield key, context.window().end, next(iter(elements))


@program
def windows_of_each_kind() -> None:
    tumbling = by_user().window(TumblingEventTimeWindows.of(Time.seconds(10)))
    assert_type(tumbling.aggregate(Mean(), output_type=Types.DOUBLE()), DataStream[float])
    assert_type(tumbling.aggregate(Mean(), Named()), DataStream[tuple[str, int, float]])
    assert_type(tumbling.reduce(Most()), DataStream[Event])
    sliding = by_user().window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5)))
    late: OutputTag[Event] = OutputTag("late")
    result = sliding.allowed_lateness(1_000).side_output_late_data(late).reduce(lambda one, other: one)
    assert_type(result.get_side_output(late), DataStream[Event])
    sessions = by_user().window(EventTimeSessionWindows.with_gap(Time.seconds(5)))
    assert_type(sessions.aggregate(Mean()), DataStream[float])
    by_time = by_user().window(TumblingProcessingTimeWindows.of(Time.minutes(1)))
    assert_type(by_time.reduce(Most()), DataStream[Event])


@program
def window_functions_of_each_kind() -> None:
    class Sizes(WindowFunction[Event, tuple[str, int], str, CountWindow]):
        def apply(self, key: str, window: CountWindow, inputs: Iterable[Event]) -> Iterable[tuple[str, int]]:
            return [(key, len(list(inputs)))]

    class All(ProcessAllWindowFunction[Event, int, TimeWindow]):
        def process(
            self, context: ProcessAllWindowFunction.Context[TimeWindow], elements: Iterable[Event]
        ) -> Iterable[int]:
            yield sum(event.amount for event in elements)

    counted = by_user().count_window(2).apply(Sizes(), Types.TUPLE([Types.STRING(), Types.INT()]))
    assert_type(counted, DataStream[tuple[str, int]])
    whole = events().window_all(TumblingEventTimeWindows.of(Time.seconds(10))).process(All(), Types.INT())
    assert_type(whole, DataStream[int])


@program
def a_trigger_of_ones_own() -> None:
    class AtOnce(Trigger[Event, TimeWindow]):
        def on_element(
            self, element: Event, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
        ) -> TriggerResult:
            return TriggerResult.FIRE

        def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
            return TriggerResult.CONTINUE

        def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
            return TriggerResult.CONTINUE

        def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
            """Keep no state."""

        def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
            """Keep no state."""

    windows = by_user().window(TumblingEventTimeWindows.of(Time.seconds(10))).trigger(AtOnce())
    assert_type(windows.reduce(Most()), DataStream[Event])


@program
def side_outputs() -> None:
    dear = OutputTag("dear", Types.STRING())

    class Split(ProcessFunction[Event, int]):
        def process_element(
            self, value: Event, ctx: ProcessFunction.Context
        ) -> Iterator[int | tuple[OutputTag[str], str]]:
            if value.amount > 2:
                yield dear, value.user
            else:
                yield value.amount

    split = events().process(Split(), Types.INT())
    assert_type(split, DataStream[int])
    assert_type(split.get_side_output(dear), DataStream[str])


@program
def two_inputs() -> None:
    class Both(CoFlatMapFunction[Event, int, str]):
        def flat_map1(self, value: Event) -> Iterable[str]:
            yield value.user

        def flat_map2(self, value: int) -> Iterable[str]:
            return [str(value)]

    class Timed(CoProcessFunction[Event, int, int]):
        def process_element1(self, value: Event, ctx: CoProcessFunction.Context) -> Iterator[int]:
            yield value.at

        def process_element2(self, value: int, ctx: CoProcessFunction.Context) -> Iterator[int]:
            yield value

    class Keyed(KeyedCoProcessFunction[int, Event, int, Event]):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.least = runtime_context.get_state(ValueStateDescriptor("least", Types.INT()))

        def process_element1(self, value: Event, ctx: KeyedCoProcessFunction.Context[int]) -> Iterator[Event]:
            if value.amount > (self.least.value() or 0):
                yield value

        def process_element2(self, value: int, ctx: KeyedCoProcessFunction.Context[int]) -> Iterator[Event]:
            self.least.update(value)
            yield from ()

    stream = events()
    numbers = stream.map(Length(), Types.INT())
    assert_type(stream.connect(numbers).flat_map(Both(), Types.STRING()), DataStream[str])
    assert_type(stream.connect(numbers).process(Timed()), DataStream[int])
    keyed = stream.connect(numbers).key_by(lambda event: event.amount, lambda number: number)
    assert_type(keyed.process(Keyed()), DataStream[Event])


@program
def broadcast_of_rules() -> None:
    rules = MapStateDescriptor("rules", Types.STRING(), Types.INT())

    class Above(KeyedBroadcastProcessFunction[str, Event, tuple[str, int], Event]):
        def process_element(
            self, value: Event, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext[str]
        ) -> Iterator[Event]:
            limit = ctx.get_broadcast_state(rules).get(value.user)
            assert_type(limit, int | None)
            if limit is None or value.amount > limit:
                yield value

        def process_broadcast_element(self, value: tuple[str, int], ctx: KeyedBroadcastProcessFunction.Context) -> None:
            ctx.get_broadcast_state(rules).put(value[0], value[1])

    keyed = by_user()
    limits = keyed.get_execution_environment().from_collection([("ann", 2)]).broadcast(rules)
    assert_type(keyed.connect(limits).process(Above()), DataStream[Event])


@unrun
def kafka_to_kafka() -> None:
    env = environment()
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers("localhost:9092")
        .set_topics("in")
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    assert_type(lines.map(json.loads).map(lambda document: str(document["user"]), Types.STRING()), DataStream[str])
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic("out")
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers("localhost:9092")
        .set_record_serializer(serializer)
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .build()
    )
    lines.sink_to(sink).name("out")
    assert_type(env.execute("copy"), JobExecutionResult)


@unrun
def connectors_of_older_programs() -> None:
    env = environment()
    consumer = FlinkKafkaConsumer("in", SimpleStringSchema(), {"bootstrap.servers": "localhost:9092"})
    lines = env.add_source(consumer.set_start_from_earliest())
    assert_type(lines, DataStream[str])
    assert_type(lines.map(len, output_type=Types.INT()), DataStream[int])
    lines.add_sink(FlinkKafkaProducer("out", SimpleStringSchema(), {"bootstrap.servers": "localhost:9092"}))
    kinesis = FlinkKinesisConsumer("orders", SimpleStringSchema(), {"aws.region": "eu-central-1"})
    assert_type(env.add_source(kinesis), DataStream[str])


@program
def keyed_streams_of_several_inputs() -> None:
    stream = events()
    names = stream.map(lambda event: (event.user, event.user.title()))
    keyed = stream.key_by(User())
    assert_type(keyed.connect(names.key_by(lambda pair: pair[0])), ConnectedStreams[Event, tuple[str, str]])
    assert_type(keyed.filter(Dear()), DataStream[Event])
    assert_type(keyed.process(lambda event, ctx: [(ctx.get_current_key(), event.at)]), DataStream[tuple[str, int]])


@program
def records_of_a_stream_as_a_list() -> None:
    with events().map(lambda event: event.amount, output_type=Types.INT()).execute_and_collect() as found:
        assert_type(sum(found), int)
    assert_type(events().execute_and_collect(limit=1), list[Event])


@program
def files_and_settings() -> None:
    env = environment()
    env.configure(Configuration().set_string("restart-strategy.type", "fixed-delay"))
    numbers = env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    assert_type(numbers, DataStream[int])
    policy = RollingPolicy.default_rolling_policy(part_size=1024, rollover_interval=1_000, inactivity_interval=1_000)
    files = OutputFileConfig.builder().with_part_prefix("p").with_part_suffix(".txt").build()
    assert_type(files, OutputFileConfig)
    assert policy is not None and FileSink is not None
    types: list[TypeInformation] = [Types.STRING(), Types.ROW([Types.INT()])]
    assert len(types) == 2


# ---- Tables


def tables() -> TableEnvironment:
    return TableEnvironment.create(EnvironmentSettings.in_batch_mode())


@program
def functions_of_tables() -> None:
    class Hash(ScalarFunction):
        def eval(self, text: str) -> int:
            return len(text)

    class Split(TableFunction):
        def eval(self, text: str) -> Iterator[str]:
            yield from text.split(",")

    class Sum(TableAggregate):
        def create_accumulator(self) -> list[int]:
            return [0]

        def get_value(self, accumulator: list[int]) -> int:
            return accumulator[0]

        def accumulate(self, accumulator: list[int], number: int) -> None:
            accumulator[0] += number

    @udf(result_type=DataTypes.STRING())
    def upper(text: str) -> str:
        return text.upper()

    hashed = udf(Hash(), result_type=DataTypes.BIGINT())
    split = udtf(Split(), result_types=[DataTypes.STRING()])
    total = udaf(Sum(), result_type=DataTypes.BIGINT(), accumulator_type=DataTypes.ARRAY(DataTypes.BIGINT()))
    environment = tables()
    environment.create_temporary_function("hashed", hashed)
    table = environment.from_elements([("a,b", 1), ("c", 2)], ["text", "n"])
    assert_type(table.select(upper(col("text")), hashed(col("text")), call("hashed", col("text"))), Table)
    assert_type(table.join_lateral(split(col("text")).alias("part")).select(col("part"), col("n")), Table)
    assert_type(table.group_by(col("text")).select(col("text"), total(col("n")).alias("total")), Table)


@program
def windows_of_tables() -> None:
    environment = tables()
    schema = Schema.new_builder().column("item", DataTypes.STRING()).column("at", DataTypes.TIMESTAMP(3))
    descriptor = TableDescriptor.for_connector("datagen").schema(schema.watermark("at", "at").build())
    environment.create_temporary_table("sales", descriptor.option("number-of-rows", "3").build())
    sales = environment.from_path("sales")
    tumbling = sales.window(Tumble.over(lit(10).minutes).on(col("at")).alias("w")).group_by(col("w"), col("item"))
    assert_type(tumbling.select(col("item"), col("w").start, col("w").end, lit(1).count), Table)
    sliding = sales.window(Slide.over(lit(10).minutes).every(lit(1).minutes).on(col("at")).alias("w"))
    assert_type(sliding.group_by(col("w")).select(lit(1).count), Table)
    over = Over.partition_by(col("item")).order_by(col("at")).preceding(lit(5).minutes).alias("o")
    assert_type(sales.over_window(over).select(col("item"), col("item").count.over(col("o"))), Table)


@program
def statements_of_tables() -> None:
    environment = tables()
    environment.execute_sql("CREATE TEMPORARY TABLE out (n BIGINT) WITH ('connector' = 'blackhole')")
    statements = environment.create_statement_set()
    statements.add_insert_sql("INSERT INTO out SELECT 1")
    assert_type(statements, StatementSet)
    assert_type(statements.execute(), TableResult)
    result = environment.sql_query("SELECT 1 AS n, 'a' AS t").execute()
    assert_type(result, TableResult)
    with result.collect() as rows:
        for row in rows:
            assert_type(row, Row)
    environment.get_config().set("parallelism.default", "1")


@program
def tables_of_streams() -> None:
    env = environment()
    environment_of_tables = StreamTableEnvironment.create(env)
    row = Types.ROW_NAMED(["user", "amount"], [Types.STRING(), Types.INT()])
    stream = env.from_collection([("ann", 3)], type_info=row)
    environment_of_tables.create_temporary_view("payments", environment_of_tables.from_data_stream(stream))
    sums = environment_of_tables.sql_query("SELECT `user`, SUM(amount) AS total FROM payments GROUP BY `user`")
    assert_type(environment_of_tables.to_changelog_stream(sums), DataStream[Row])
    named = environment_of_tables.to_changelog_stream(sums).map(lambda each: str(each[0]), output_type=Types.STRING())
    assert_type(named, DataStream[str])
    retracted = environment_of_tables.to_retract_stream(sums, row)
    assert_type(retracted.filter(lambda pair: pair[0]), DataStream[tuple[bool, Row]])


@program
def rows_as_records() -> None:
    row = Types.ROW_NAMED(["user", "amount"], [Types.STRING(), Types.INT()])
    rows = events().map(lambda event: Row(user=event.user, amount=event.amount), output_type=row)
    assert_type(rows, DataStream[Row])
    state = ValueStateDescriptor("last", row)
    assert_type(state, ValueStateDescriptor[Row])
    mean = AggregatingStateDescriptor("mean", Mean())
    assert_type(mean, AggregatingStateDescriptor[Event, tuple[int, int], float])
