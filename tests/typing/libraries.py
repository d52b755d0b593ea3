"""Typical programs with the libraries and connectors: each checker infers them without ``Any`` in the chain; most of them run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from tempfile import TemporaryDirectory
from typing import NamedTuple, assert_type

import funken.dataframe as frames
from funken import (
    AsyncDataStream,
    BroadcastConnectedStream,
    DataGeneratorSource,
    DataStream,
    DataStreamSink,
    Encoder,
    FileSink,
    FileSource,
    HybridSource,
    IterativeStream,
    JobClient,
    JobExecutionResult,
    KeyedCoProcessFunction,
    MapFunction,
    MapStateDescriptor,
    NumberSequenceSource,
    OutputTag,
    ReduceFunction,
    Row,
    RuntimeContext,
    StreamExecutionEnvironment,
    StreamFormat,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.cep import (
    CEP,
    ConditionContext,
    IterativeCondition,
    Pattern,
    PatternContext,
    PatternProcessFunction,
    PatternRule,
    PatternStream,
    SimpleCondition,
    TimedOutPartialMatchHandler,
    matches_of,
)
from funken.connectors import JsonSchema, SimpleStringSchema
from funken.connectors.files import LineFormat
from funken.connectors.kafka import (
    ConsumerRecord,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from funken.connectors.sql import SqliteDatabase, SqlSink
from funken.dataset import (
    Accumulator,
    Aggregations,
    CoGroupDataSet,
    CrossDataSet,
    DataSet,
    DataSetResult,
    DataSetRuntimeContext,
    DeltaIteration,
    ExecutionEnvironment,
    GroupedDataSet,
    GroupReduceFunction,
    IntCounter,
    JoinDataSet,
    LongSumAggregator,
)
from funken.graph import Graph
from funken.ml import LogisticRegression, StandardScaler, make_pipeline
from funken.operators.stateless import Map
from funken.operators.user_functions import UserFunction
from funken.state.handles import MapState, ValueState
from funken.table import (
    DataTypes,
    EnvironmentSettings,
    Schema,
    StreamTableEnvironment,
    Table,
    TableDescriptor,
    TableEnvironment,
    TableResult,
    Tumble,
    col,
    lit,
)
from funken.table.expression import Expression
from funken.table.udf import AggregateFunction, FunctionDefinition, udaf, udf, udtf
from funken.testing import OperatorHarness, local

PROGRAMS: list[Callable[[], None]] = []
UNRUN: list[Callable[[], None]] = []
"""Programs that need a server."""


def program(run: Callable[[], None]) -> Callable[[], None]:
    PROGRAMS.append(run)
    return run


def unrun(run: Callable[[], None]) -> Callable[[], None]:
    UNRUN.append(run)
    return run


class Sale(NamedTuple):
    item: str
    price: int
    at: int


@dataclass
class Point:
    x: float
    label: str


SALES = [Sale("tea", 3, 1_000), Sale("jam", 5, 2_000), Sale("tea", 2, 12_000)]


def sales() -> DataStream[Sale]:
    by_time = WatermarkStrategy[Sale].for_monotonous_timestamps().with_timestamp_assigner(lambda sale, _: sale.at)
    return local(SALES).assign_timestamps_and_watermarks(by_time)


def batch() -> ExecutionEnvironment:
    return ExecutionEnvironment.create_local_environment(parallelism=1)


# ---- Batch programs


@program
def count_words_of_a_data_set() -> None:
    words = batch().from_elements("to be or", "not to be").flat_map(str.split)
    assert_type(words, DataSet[str])
    counts = words.map(lambda word: (word, len(word))).group_by(0).sum(1)
    assert_type(counts.collect(), list[tuple[str, int]])
    assert len(counts.collect()) == 4


@program
def group_and_reduce() -> None:
    found = batch().from_collection(SALES)
    groups = found.group_by(lambda sale: sale.item)
    assert_type(groups, GroupedDataSet[Sale])
    assert_type(groups.reduce(max), DataSet[Sale])
    assert_type(groups.reduce_group(lambda of_item: [sum(sale.price for sale in of_item)]), DataSet[int])
    assert_type(groups.sort_group("price", descending=True).first(1).collect(), list[Sale])
    assert sorted(groups.reduce_group(lambda of_item: [sum(sale.price for sale in of_item)]).collect()) == [5, 5]


@program
def a_group_function_with_a_class() -> None:
    class Total(GroupReduceFunction[Sale, tuple[str, int]]):
        def reduce(self, values: Iterable[Sale]) -> Iterator[tuple[str, int]]:
            found = list(values)
            yield found[0].item, sum(sale.price for sale in found)

    assert_type(batch().from_collection(SALES).group_by("item").reduce_group(Total()), DataSet[tuple[str, int]])


@program
def join_data_sets() -> None:
    env = batch()
    found, names = env.from_collection(SALES), env.from_collection([("tea", "Tea")])
    joined = found.join(names).where("item").equal_to(0)
    assert_type(joined, JoinDataSet[Sale, tuple[str, str], tuple[Sale, tuple[str, str]]])
    named = joined.using(lambda sale, name: (name[1], sale.price))
    assert_type(named.collect(), list[tuple[str, int]])
    assert sorted(named.collect()) == [("Tea", 2), ("Tea", 3)]


@program
def join_data_sets_with_all_of_one() -> None:
    env = batch()
    names = env.from_collection([("tea", "Tea")])
    joined = env.from_collection(SALES).left_outer_join(names).where("item").equal_to(0)
    assert_type(joined.using(lambda sale, name: name[1] if name else sale.item).collect(), list[str])


@program
def yield_of_a_join() -> None:
    def pairs(sale: Sale, name: tuple[str, str]) -> Iterator[str]:
        yield f"{sale.price} {name[1]}"

    env = batch()
    joined = env.from_collection(SALES).join(env.from_collection([("tea", "Tea")])).where(0).equal_to(0)
    assert_type(joined.using(pairs).collect(), list[str])


@program
def co_group_and_cross() -> None:
    env = batch()
    found, numbers = env.from_collection(SALES), env.from_elements(1, 2)
    grouped = found.co_group(numbers).where("price").equal_to("*")
    assert_type(grouped.using(lambda ones, others: [len(list(ones)) + sum(others)]), CoGroupDataSet[int])
    crossed = found.cross(numbers)
    assert_type(crossed, CrossDataSet[Sale, int, tuple[Sale, int]])
    assert_type(crossed.using(lambda sale, number: sale.price * number).collect(), list[int])


@program
def a_bulk_iteration() -> None:
    start = batch().from_elements(1, 2).iterate(5).register_aggregator("sum", LongSumAggregator())
    result = start.close_with(start.map(lambda number: number * 2))
    assert_type(result, DataSet[int])
    assert result.collect() == [32, 64]


@program
def a_delta_iteration() -> None:
    scores = batch().from_collection([("a", 1), ("b", 7)])
    iteration = scores.iterate_delta(scores, 10, 0)
    assert_type(iteration, DeltaIteration[tuple[str, int], tuple[str, int]])
    more = iteration.get_workset().map(lambda score: (score[0], score[1] + 3)).filter(lambda score: score[1] < 10)
    assert_type(iteration.close_with(more, more).collect(), list[tuple[str, int]])


@program
def broadcast_sets_and_accumulators() -> None:
    class Share(MapFunction[Sale, float]):
        total: int
        seen: IntCounter

        def open(self, runtime_context: DataSetRuntimeContext) -> None:
            (self.total,) = runtime_context.get_broadcast_variable("total")
            self.seen = runtime_context.get_int_counter("seen")

        def map(self, value: Sale) -> float:
            self.seen.add(1)
            return value.price / self.total

    class Longest(Accumulator[str, str]):
        def __init__(self) -> None:
            self.value = ""

        def add(self, value: str) -> None:
            self.value = max(self.value, value, key=len)

        def get_local_value(self) -> str:
            return self.value

        def merge(self, other: Longest) -> None:
            self.add(other.value)

    env = batch()
    found = env.from_collection(SALES)
    total = found.map(lambda sale: sale.price).reduce(lambda one, other: one + other)
    shares = found.map(Share()).with_broadcast_set(total, "total").name("shares").set_parallelism(1)
    assert_type(shares, DataSet[float])
    assert sum(shares.collect()) == 1
    assert_type(env.get_last_job_execution_result(), DataSetResult)
    assert_type(Longest().get_local_value(), str)


@program
def files_of_data_sets() -> None:
    env = batch()
    with TemporaryDirectory() as folder:
        env.from_collection(SALES).write_as_csv(f"{folder}/csv").set_parallelism(1)
        env.execute()
        assert_type(env.read_text_file(f"{folder}/csv").map(len), DataSet[int])
        read = env.read_csv_file(f"{folder}/csv", [str, int, int], target=Sale)
        assert_type(read, DataSet[Sale])
        assert sorted(read.collect()) == sorted(SALES)


@program
def numbers_and_samples() -> None:
    env = batch()
    numbers = env.generate_sequence(1, 9)
    assert_type(numbers.zip_with_index().collect(), list[tuple[int, int]])
    assert_type(numbers.sample(False, 0.5).count(), int)
    assert_type(numbers.distinct().sort_partition("*").first(2).collect(), list[int])
    assert_type(numbers.union(numbers.map(str)), DataSet[int | str])
    assert_type(numbers.map_partition(lambda values: [max(values)]).reduce(max).collect(), list[int])
    pairs = env.from_collection([(1, 2)]).aggregate(Aggregations.SUM, 0).and_(Aggregations.MAX, 1)
    assert_type(pairs.collect(), list[tuple[int, int]])


@program
def a_data_set_as_a_stream() -> None:
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    stream = batch().from_elements(1, 2).to_data_stream(env)
    assert_type(stream, DataStream[int])
    assert_type(batch().from_data_stream(stream.map(str)), DataSet[str])


# ---- Graphs


def roads() -> Graph[str, int, float]:
    return Graph.from_collection(batch(), [("a", "b", 1.5), ("b", "c", 2.0)], len)


@program
def values_of_a_graph() -> None:
    graph = roads()
    assert_type(graph.get_vertices(), DataSet[tuple[str, int]])
    assert_type(graph.get_edges(), DataSet[tuple[str, str, float]])
    assert_type(graph.get_triplets().map(lambda each: each.edge_value * each.source_value), DataSet[float])
    named = graph.map_vertices(lambda vertex: vertex.id * vertex.value)
    assert_type(named, Graph[str, str, float])
    assert_type(named.map_edges(lambda edge: edge.value > 1.5).get_edges().collect(), list[tuple[str, str, bool]])
    assert sorted(named.get_vertices().collect()) == [("a", "a"), ("b", "b"), ("c", "c")]


@program
def parts_of_a_graph() -> None:
    graph = roads().subgraph(lambda vertex: vertex.value > 0, lambda edge: edge.value > 1.5)
    assert_type(graph, Graph[str, int, float])
    assert_type(graph.out_degrees().collect(), list[tuple[str, int]])
    bonus = graph.get_context().from_collection([("a", 5)])
    assert_type(graph.join_with_vertices(bonus, lambda value, more: value + more), Graph[str, int, float])


@program
def an_algorithm_of_ones_own() -> None:
    class Longest:
        def run(self, graph: Graph[str, int, float]) -> DataSet[float]:
            return graph.get_edges().map(lambda edge: edge[2]).reduce(max)

    assert_type(roads().run(Longest()).collect(), list[float])


# ---- Patterns


@program
def process_matches() -> None:
    late: OutputTag[str] = OutputTag("late")

    class Report(PatternProcessFunction[Sale, tuple[str, int]], TimedOutPartialMatchHandler[Sale]):
        def process_match(self, match: dict[str, list[Sale]], ctx: PatternContext) -> Iterator[tuple[str, int]]:
            yield match["cheap"][0].item, ctx.timestamp()

        def process_timed_out_match(
            self, match: dict[str, list[Sale]], ctx: PatternContext
        ) -> Iterator[tuple[OutputTag[str], str]]:
            yield late, match["cheap"][0].item

    twice = (
        Pattern[Sale].begin("cheap").where(lambda sale: sale.price < 5).next("dear").where(lambda sale: sale.price > 4)
    )
    assert_type(twice, Pattern[Sale])
    found = CEP.pattern(sales(), twice.within("1 min")).process(Report())
    assert_type(found, DataStream[tuple[str, int]])
    assert_type(found.get_side_output(late), DataStream[str])
    assert found.execute_and_collect(limit=2) == [("tea", 2_000)]


@program
def conditions_with_classes() -> None:
    class Cheap(SimpleCondition[Sale]):
        def filter(self, event: Sale) -> bool:
            return event.price < 4

    class Rising(IterativeCondition[Sale]):
        def filter(self, event: Sale, ctx: ConditionContext[Sale]) -> bool:
            return all(event.price > earlier.price for earlier in ctx.get_events_for_pattern("up"))

    pattern = Pattern.begin("start").where(Cheap()).followed_by("up").where(Rising()).one_or_more()
    found = CEP.pattern(sales(), pattern)
    assert_type(found, PatternStream[Sale])
    prices = found.select(lambda match: match["up"][-1].price)
    assert_type(prices, DataStream[int])
    assert_type(matches_of(Pattern[Sale].begin("cheap").where(Cheap()), SALES), list[dict[str, list[Sale]]])


@program
def time_outs_of_matches() -> None:
    unpaid: OutputTag[str] = OutputTag("unpaid")
    pattern = Pattern[Sale].begin("tea").where(lambda sale: sale.item == "tea").followed_by("jam").within("5 s")
    found = CEP.pattern(sales(), pattern).select(
        unpaid, lambda match, at: f"{match['tea'][0].item} {at}", lambda match: len(match["jam"])
    )
    assert_type(found, DataStream[int])
    assert_type(found.get_side_output(unpaid), DataStream[str])


@program
def patterns_that_change() -> None:
    def above(limit: int) -> Pattern[Sale]:
        return Pattern[Sale].begin("dear").where(lambda sale: sale.price > limit)

    stream = sales()
    rules = stream.get_execution_environment().from_collection([PatternRule("dear", 1, 4)])
    assert_type(rules, DataStream[PatternRule[int]])
    assert_type(CEP.dynamic_patterns(stream, rules, above), PatternStream[Sale])


# ---- Streams of several inputs, loops and jobs


@program
def a_loop() -> None:
    def halve(loop: DataStream[int]) -> tuple[DataStream[int], DataStream[str]]:
        halves = loop.map(lambda number: number // 2)
        return halves.filter(lambda number: number > 0), halves.filter(lambda number: number == 0).map(str)

    numbers = local([9, 2])
    assert_type(numbers.iterate(halve), DataStream[str])
    assert_type(numbers.iterate(), IterativeStream[int])


@program
def keyed_state_of_two_inputs() -> None:
    class Enrich(KeyedCoProcessFunction[str, Sale, tuple[str, str], tuple[str, int]]):
        names: ValueState[str | None]

        def open(self, runtime_context: RuntimeContext) -> None:
            self.names = runtime_context.get_state(ValueStateDescriptor[str | None]("name"))

        def process_element1(self, value: Sale, ctx: KeyedCoProcessFunction.Context[str]) -> Iterator[tuple[str, int]]:
            yield self.names.value() or ctx.get_current_key(), value.price

        def process_element2(self, value: tuple[str, str], ctx: KeyedCoProcessFunction.Context[str]) -> None:
            self.names.update(value[1])

    stream = sales()
    names = stream.map(lambda sale: (sale.item, sale.item.title()))
    enriched = stream.key_by(lambda sale: sale.item).connect(names.key_by(lambda name: name[0])).process(Enrich())
    assert_type(enriched, DataStream[tuple[str, int]])
    assert len(enriched.execute_and_collect(limit=3)) == 3


@program
def rules_for_all_subtasks() -> None:
    limits = MapStateDescriptor[str, int]("limits")
    stream = sales()
    rules = stream.get_execution_environment().from_collection([("tea", 2)]).broadcast(limits)
    assert_type(stream.connect(rules), BroadcastConnectedStream[Sale, tuple[str, int]])


@program
def neighbours_in_time() -> None:
    by_item = sales().key_by(lambda sale: sale.item)
    pairs = by_item.interval_join(by_item).between("0 s", timedelta(seconds=20))
    found = pairs.process(lambda left, right, ctx: [right.price - left.price])
    assert_type(found, DataStream[int])


@program
def state_that_expires() -> None:
    class Seen(ReduceFunction[Sale]):
        times: MapState[str, int]

        def open(self, runtime_context: RuntimeContext) -> None:
            self.times = runtime_context.get_map_state(MapStateDescriptor("times", str, int))

        def reduce(self, value1: Sale, value2: Sale) -> Sale:
            return max(value1, value2)

    assert_type(sales().key_by(lambda sale: sale.item).reduce(Seen()), DataStream[Sale])


@program
def run_in_the_background() -> None:
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.for_monotonous_timestamps(), "numbers").for_each(str)
    client = env.execute_async("numbers")
    assert_type(client, JobClient)
    assert_type(client.get_job_execution_result().result(), JobExecutionResult)


@program
def requests_with_retries() -> None:
    async def ask(sale: Sale) -> list[tuple[str, int]]:
        return [(sale.item, sale.price)]

    found = AsyncDataStream.unordered_wait(sales(), ask, "5 s", capacity=2)
    assert_type(found, DataStream[tuple[str, int]])


# ---- Sources and sinks


@unrun
def from_kafka_to_kafka() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers("localhost:9092")
        .set_topics("lines")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    assert_type(source, KafkaSource[str])
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    assert_type(lines, DataStream[str])
    records = KafkaRecordSerializationSchema.builder().set_topic("words").set_value_serialization_schema(JsonSchema())
    sink = KafkaSink.builder().set_bootstrap_servers("localhost:9092").set_record_serializer(records.build()).build()
    assert_type(lines.flat_map(str.split).sink_to(sink), DataStreamSink)


@unrun
def keys_and_headers_of_kafka() -> None:
    def read(record: ConsumerRecord) -> tuple[str, int]:
        return (record.key or b"").decode(), record.offset

    schema = KafkaRecordDeserializationSchema.of(read)
    source = KafkaSource.builder().set_bootstrap_servers("b").set_topics("t").set_deserializer(schema).build()
    assert_type(source, KafkaSource[tuple[str, int]])


@program
def from_files_to_files() -> None:
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    with TemporaryDirectory() as folder:
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder).build()
        assert_type(source, FileSource[str])
        lines = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "lines")
        assert_type(lines, DataStream[str])
        assert_type(LineFormat(SimpleStringSchema()), LineFormat[str])
        sink = FileSink.for_row_format(f"{folder}/out", Encoder.simple_string_encoder()).build()
        assert_type(lines.map(len).sink_to(sink), DataStreamSink)


@program
def generated_records_behind_others() -> None:
    squares = DataGeneratorSource(lambda index: index * index, 3)
    both = HybridSource.builder(NumberSequenceSource(1, 3)).add_source(squares).build()
    assert_type(both, HybridSource[int])
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    assert_type(env.from_source(both), DataStream[int])


@program
def rows_of_a_database() -> None:
    with TemporaryDirectory() as folder:
        sink = SqlSink(SqliteDatabase(f"{folder}/shop.db"), "INSERT INTO sales VALUES (?, ?, ?)")
        assert_type(sales().sink_to(sink).name("sales"), DataStreamSink)


# ---- Tables and frames


def tables() -> TableEnvironment:
    return TableEnvironment.create(EnvironmentSettings.in_batch_mode())


@program
def functions_of_a_table() -> None:
    @udf(result_type=DataTypes.BIGINT())
    def doubled(number: int) -> int:
        return 2 * number

    @udtf(result_types=["STRING"])
    def words(text: str) -> Iterator[str]:
        yield from text.split()

    class Total(AggregateFunction):
        def create_accumulator(self) -> list[int]:
            return [0]

        def accumulate(self, accumulator: list[int], *args: int) -> None:
            accumulator[0] += args[0]

        def get_value(self, accumulator: list[int]) -> int:
            return accumulator[0]

    assert_type(doubled, FunctionDefinition)
    assert_type(doubled(col("n")), Expression)
    table = tables().from_elements([("to be", 1)], ["text", "n"])
    assert_type(table.select(doubled(col("n")).alias("twice")), Table)
    assert_type(table.join_lateral(words(col("text")).alias("word")).select(col("word")), Table)
    total = udaf(Total(), result_type="BIGINT", name="total")
    assert_type(total, FunctionDefinition)
    assert_type(table.group_by(col("text")).select(col("text"), total(col("n")).alias("sum")), Table)


@program
def windows_of_a_table() -> None:
    schema = Schema.new_builder().column("item", "STRING").column("at", "TIMESTAMP(3)").watermark("at", "at").build()
    environment = tables()
    environment.create_temporary_table(
        "sales", TableDescriptor.for_connector("datagen").schema(schema).option("number-of-rows", "3").build()
    )
    windows = environment.from_path("sales").window(Tumble.over(lit(10).minutes).on(col("at")).alias("w"))
    counts = windows.group_by(col("w"), col("item")).select(col("item"), col("w").start, lit(1).count)
    assert_type(counts, Table)


@program
def joins_of_tables() -> None:
    environment = tables()
    left = environment.from_elements([("tea", 1)], ["item", "n"])
    right = environment.from_elements([("tea", "Tea")], ["key", "name"])
    joined = left.join(right, col("item") == col("key")).filter(col("n") > 0).select("name", col("n"))
    assert_type(joined.order_by(col("n").desc).limit(2).union_all(joined), Table)
    assert_type(joined.execute(), TableResult)


@program
def statements_and_their_rows() -> None:
    result = tables().execute_sql("SELECT 1 AS n")
    assert_type(result, TableResult)
    with result.collect() as rows:
        for row in rows:
            assert_type(row, Row)


@program
def a_stream_as_a_table() -> None:
    stream = sales()
    environment = StreamTableEnvironment.create(stream.get_execution_environment())
    table = environment.from_data_stream(stream.map(lambda sale: (sale.item, sale.price)))
    assert_type(table, Table)
    assert_type(environment.to_data_stream(table), DataStream[Row])
    assert_type(environment.to_changelog_stream(table).map(len), DataStream[int])


@program
def frames_of_records() -> None:
    frame = frames.from_records([{"item": "tea", "n": 3}, {"item": "jam", "n": 5}])
    assert_type(frame, frames.DataFrame)
    assert_type(frame["n"] * 2, Expression)
    totals = frame.filter(frame["n"] > 1).with_column("twice", frame["n"] * 2).group_by("item").agg(n=frame["n"].sum)
    assert_type(totals.sort("item").limit(1), frames.DataFrame)

    @frames.udf(return_dtype=int)
    def length(text: str) -> int:
        return len(text)

    assert_type(frame.select(length(frame["item"]).alias("length")), frames.DataFrame)

    def first(given: frames.DataFrame, n: int) -> frames.DataFrame:
        return given.limit(n)

    assert_type(frame.pipe(first, 1), frames.DataFrame)
    assert_type(frame.collect(), list[Row])


# ---- Learners, and tests of operators


@program
def fit_and_predict() -> None:
    points = batch().from_collection([(0.0, "a"), (1.0, "a"), (8.0, "b"), (9.0, "b")])
    scaler = StandardScaler().fit(points, features=[0])
    assert_type(scaler, StandardScaler)
    model = LogisticRegression().fit(points, y=1)
    assert_type(model, LogisticRegression)
    labels = model.predict(points).map(lambda pair: pair[0][1])
    assert_type(labels, DataSet[str])
    assert_type(model.score(points, y=1), float)
    assert_type(make_pipeline(StandardScaler(), LogisticRegression()).fit(points, y=1).score(points, y=1), float)


@program
def an_operator_by_hand() -> None:
    harness = OperatorHarness(Map(UserFunction(len)))
    harness.feed("to")
    assert harness.output == [2]


@program
def windows_with_two_functions() -> None:
    windows = sales().key_by(lambda sale: sale.item).window(TumblingEventTimeWindows.of("10 s"))
    ends = windows.reduce(max, lambda item, window, found: [(item, window.end, len(list(found)))])
    assert_type(ends, DataStream[tuple[str, int, int]])
