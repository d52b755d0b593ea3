"""More typical programs with sources, sinks, formats, tables, batch programs, graphs and learners; see ``typical.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, assert_type

import funken.dataframe as frames
from funken import (
    BucketAssigner,
    Configuration,
    DataGeneratorSource,
    DataStream,
    DataStreamSink,
    FileSink,
    FileSource,
    JobClient,
    JobStatus,
    KeyedProcessFunction,
    OutputTag,
    RollingPolicy,
    Row,
    RuntimeContext,
    RuntimeExecutionMode,
    SocketSource,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.cep import CEP, AfterMatchSkipStrategy, Pattern, PatternStream, match_recognize
from funken.connectors import (
    AvroSchema,
    ByteArraySchema,
    ConfluentAvroSchema,
    ConfluentJsonSchema,
    CsvSchema,
    DebeziumJsonSchema,
    DeliveryGuarantee,
    JsonSchema,
    SchemaRegistryClient,
    SerializationSchema,
)
from funken.connectors.delta import DeltaSource
from funken.connectors.elasticsearch import BulkAction, ElasticsearchServer, ElasticsearchSink
from funken.connectors.files.arrow_files import ParquetFormat
from funken.connectors.files.csv_files import CsvReaderFormat
from funken.connectors.files.sink import BucketContext
from funken.connectors.formats.debezium import ChangeRecord
from funken.connectors.http import HttpSource, WebhookSink, WebSocketSource, json_lines
from funken.connectors.kafka import KafkaOffsetsInitializer, KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from funken.connectors.kinesis import KinesisConnection, KinesisSink, KinesisSource
from funken.connectors.mongodb import MongoServer, MongoSink, MongoSource
from funken.connectors.mysql import MySqlCdcSource, MySqlDatabase
from funken.connectors.postgresql import PostgresCdcSource, PostgresDatabase
from funken.connectors.pulsar import PulsarConnection, PulsarSink, PulsarSource
from funken.connectors.rabbitmq import RMQConnectionConfig, RMQDeserializationSchema, RMQSink, RMQSource
from funken.connectors.redis import RedisServer, RedisSink, RedisStreamSource
from funken.connectors.schemas import Document
from funken.connectors.sql import SqliteDatabase, SqlSource
from funken.dataset import (
    DataSet,
    ExecutionEnvironment,
    GroupCombineFunction,
    GroupedDataSet,
    MapPartitionFunction,
)
from funken.graph import (
    ComputeFunction,
    ConnectedComponents,
    EdgeDirection,
    EdgeStream,
    Graph,
    GraphEdge,
    GraphVertex,
    MessageCombiner,
    PageRank,
    SingleSourceShortestPaths,
    StreamingConnectedComponents,
    TriangleCount,
)
from funken.ml import KMeans, OnlineKMeans, Prediction, StandardScaler, VectorAssembler, train_test_split
from funken.table import (
    DataTypes,
    EnvironmentSettings,
    FunctionContext,
    Over,
    ResolvedSchema,
    ScalarFunction,
    Schema,
    Session,
    Slide,
    StatementSet,
    StreamTableEnvironment,
    Table,
    TableAggregateFunction,
    TableDescriptor,
    TableEnvironment,
    TableFunction,
    TableResult,
    col,
    lit,
    udtaf,
    udtf,
)
from funken.table.catalog import Catalog
from funken.table.expression import Expression
from funken.table.expressions import row_interval
from funken.table.udf import FunctionDefinition, udf
from funken.testing import OperatorHarness, SimulatedJob, local

PROGRAMS: list[Callable[[], None]] = []
UNRUN: list[Callable[[], None]] = []
"""Programs that need a server."""


def program(run: Callable[[], None]) -> Callable[[], None]:
    PROGRAMS.append(run)
    return run


def unrun(run: Callable[[], None]) -> Callable[[], None]:
    UNRUN.append(run)
    return run


@dataclass
class Reading:
    sensor: str
    degrees: float
    at: int


class Sale(NamedTuple):
    item: str
    price: int


READINGS = [Reading("a", 20.0, 1_000), Reading("b", 35.5, 2_000), Reading("a", 21.0, 3_000)]


def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.create_local_environment(parallelism=1)


def batch() -> ExecutionEnvironment:
    return ExecutionEnvironment.create_local_environment(parallelism=1)


# ---- Formats


@program
def records_of_documents() -> None:
    assert_type(JsonSchema(Reading), JsonSchema[Reading])
    assert_type(JsonSchema(Reading).deserialize(b'{"sensor": "a", "degrees": 1.5, "at": 3}'), Reading)
    assert_type(JsonSchema(), JsonSchema[Document])
    assert_type(CsvSchema(Sale), CsvSchema[Sale])
    assert_type(CsvSchema(Types.ROW_NAMED(["n"], [Types.INT()])), CsvSchema[Row])
    assert_type(AvroSchema.of(Sale), AvroSchema[Sale])
    assert JsonSchema(Sale).deserialize(b'{"item": "tea", "price": 3}') == Sale("tea", 3)


@unrun
def topics_of_records() -> None:
    builder = KafkaSource.builder().set_bootstrap_servers("b:9092").set_topics("readings").set_group_id("group")
    builder = builder.set_starting_offsets(KafkaOffsetsInitializer.earliest()).set_property("client.id", "c")
    readings = builder.set_value_only_deserializer(JsonSchema(Reading)).build()
    assert_type(readings, KafkaSource[Reading])
    by_time = WatermarkStrategy[Reading].for_bounded_out_of_orderness("5 s").with_idleness("1 min")
    stream = environment().from_source(readings, by_time.with_timestamp_assigner(lambda each, _: each.at), "readings")
    assert_type(stream.filter(lambda reading: reading.degrees > 30), DataStream[Reading])
    registry = SchemaRegistryClient("http://registry:8081")
    assert_type(ConfluentAvroSchema(registry, "sales-value", record_type=Sale), ConfluentAvroSchema[Sale])
    assert_type(ConfluentJsonSchema(registry), ConfluentJsonSchema[Document])
    changes = environment().read_kafka("shop.public.orders", "b:9092", DebeziumJsonSchema())
    assert_type(changes.map(lambda change: change.kind.name), DataStream[str])
    assert_type(changes, DataStream[ChangeRecord])


class AsLine(SerializationSchema[Reading]):
    def serialize(self, value: Reading) -> bytes:
        return f"{value.sensor},{value.degrees}\n".encode()


@unrun
def keys_and_topics_of_a_kafka_sink() -> None:
    records = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(lambda reading: f"readings-{reading.sensor}")
        .set_key_serialization_schema(ByteArraySchema())
        .set_value_serialization_schema(AsLine())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers("b:9092")
        .set_record_serializer(records)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("readings")
        .build()
    )
    assert_type(local(READINGS).sink_to(sink).name("kafka").uid("kafka"), DataStreamSink)


@program
def files_of_records() -> None:
    csv = CsvReaderFormat.for_schema(CsvSchema(Reading), header=True)
    assert_type(csv, CsvReaderFormat[Reading])
    assert_type(FileSource.for_record_stream_format(csv, "in").build(), FileSource[Reading])
    assert_type(FileSource.for_bulk_file_format(ParquetFormat(Reading), "in").build(), FileSource[Reading])
    assert_type(FileSource.for_format(ParquetFormat(), "in").monitor_continuously("10 s").build(), FileSource[Document])

    class BySensor(BucketAssigner[Reading]):
        def get_bucket_id(self, element: Reading, context: BucketContext) -> str:
            return element.sensor

    with TemporaryDirectory() as folder:
        sink = FileSink.for_bulk_format(folder, ParquetFormat(Reading)).with_bucket_assigner(BySensor())
        policy = RollingPolicy.default_rolling_policy(part_size=1024 * 1024)
        rows = FileSink.for_row_format(folder, csv.encoder()).with_rolling_policy(policy).build()
        stream = local(READINGS)
        assert_type(stream.sink_to(sink.build()), DataStreamSink)
        assert_type(stream.sink_to(rows), DataStreamSink)


# ---- Sources and sinks of other systems


@unrun
def messages_of_queues() -> None:
    env = environment()
    kinesis = KinesisConnection("eu-central-1")
    assert_type(env.from_source(KinesisSource(kinesis, "orders")), DataStream[str])
    readings = KinesisSource(kinesis, ["readings"], JsonSchema(Reading), start="TRIM_HORIZON")
    assert_type(readings, KinesisSource[Reading])
    stream = env.from_source(readings, WatermarkStrategy.no_watermarks(), "readings")
    assert_type(stream.map(lambda reading: reading.degrees), DataStream[float])
    stream.sink_to(KinesisSink(kinesis, "out", AsLine(), partition_key=lambda reading: reading.sensor))
    pulsar = PulsarConnection("pulsar://localhost:6650")
    assert_type(env.from_source(PulsarSource(pulsar, "orders", "totals")), DataStream[str])
    assert_type(PulsarSource(pulsar, ["orders"], "totals", CsvSchema(Sale)), PulsarSource[Sale])
    stream.sink_to(PulsarSink(pulsar, ["out"], AsLine(), key=lambda reading: reading.sensor))
    rabbit = RMQConnectionConfig("localhost")
    assert_type(env.from_source(RMQSource(rabbit, "orders")), DataStream[str])
    routed = RMQDeserializationSchema.of(lambda message: (message.routing_key, len(message.body)))
    assert_type(RMQSource(rabbit, "orders", deserialization_schema=routed), RMQSource[tuple[str, int]])
    env.from_source(RMQSource(rabbit, "orders")).sink_to(RMQSink(rabbit, "copies"))


@unrun
def documents_and_rows_of_databases() -> None:
    env = environment()
    server = MongoServer("mongodb://localhost")
    documents = env.from_source(MongoSource(server, "shop", "orders", {"paid": True}))
    assert_type(documents, DataStream[Document])
    documents.sink_to(MongoSink(server, "shop", "copies"))
    changes = env.from_source(PostgresCdcSource(PostgresDatabase("dbname=shop"), ["public.orders"], slot="s"))
    assert_type(changes.filter(lambda change: change.after is not None).map(lambda each: each.table), DataStream[str])
    items = changes.filter(lambda change: change.after is not None).map(lambda change: str(change.after["item"]))
    assert_type(items, DataStream[str])
    binlog = MySqlCdcSource(MySqlDatabase("localhost", "shop", "ada"), ["shop.orders"], server_id=7)
    assert_type(env.from_source(binlog).map(lambda change: change.timestamp), DataStream[int])
    rows = env.from_source(SqlSource(SqliteDatabase("shop.db"), "SELECT id, item FROM orders", "id"))
    assert_type(rows.map(len), DataStream[int])
    assert_type(env.from_source(DeltaSource("/lake/orders")), DataStream[Document])


@unrun
def requests_and_search() -> None:
    env = environment()

    def page(cursor: str | None) -> str:
        return f"https://shop.example/orders?after={cursor or ''}"

    def orders(body: bytes) -> tuple[list[Sale], str | None]:
        return [Sale(body.decode(), 1)], None

    sales = env.from_source(HttpSource(page, orders, interval="10 s"))
    assert_type(sales, DataStream[Sale])
    sales.sink_to(WebhookSink("https://shop.example/hook", json_lines, batch_size=10))
    assert_type(env.from_source(WebSocketSource("wss://feed.example")), DataStream[str | bytes])
    assert_type(env.from_source(SocketSource("localhost", 9999)), DataStream[str])

    def action(sale: Sale) -> BulkAction:
        return BulkAction.index("sales", {"item": sale.item, "price": sale.price})

    sales.sink_to(ElasticsearchSink(ElasticsearchServer(["localhost:9200"]), action))
    redis = RedisServer("localhost")
    sales.sink_to(RedisSink(redis, lambda sale: ("HINCRBY", "sales", sale.item, sale.price)))
    assert_type(env.from_source(RedisStreamSource(redis, "orders")).map(lambda m: m.id), DataStream[str])


# ---- Jobs and their settings


@program
def settings_of_a_program() -> None:
    env = environment().set_max_parallelism(64).set_runtime_mode(RuntimeExecutionMode.STREAMING)
    assert_type(env.enable_checkpointing("10 s").set_buffer_timeout(5), StreamExecutionEnvironment)
    checkpoints = env.get_checkpoint_config()
    checkpoints.set_min_pause_between_checkpoints(500)
    assert_type(checkpoints.get_checkpoint_interval(), int)
    configuration = Configuration({"parallelism.default": 2})
    configuration.set("state.backend.type", "hashmap")
    assert_type(configuration.to_dict(), dict[str, Any])
    assert_type(env.configure(configuration).get_parallelism(), int)
    env.from_collection([1]).print()
    assert_type(env.explain(), str)


@unrun
def savepoints_of_a_job() -> None:
    env = environment()
    numbers = env.from_source(DataGeneratorSource(lambda index: index, 100))
    numbers.print()
    client = env.execute_async("numbers")
    assert_type(client, JobClient)
    assert_type(client.get_job_status().result(), JobStatus)
    path = client.stop_with_savepoint(False, "/savepoints").result()
    assert_type(path, str)
    assert_type(client.trigger_savepoint().result(), str)
    assert_type(client.rescale(3).result(), int)
    with numbers.execute_and_collect() as found:
        assert_type(found.get_job_client().get_job_id(), str)
        for number in found:
            assert_type(number, int)


# ---- Tests of functions


@program
def a_function_in_a_harness() -> None:
    class Count(KeyedProcessFunction[str, Reading, tuple[str, int]]):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

        def process_element(self, value: Reading, ctx: KeyedProcessFunction.Context[str]) -> Iterator[tuple[str, int]]:
            self.count.update(self.count.value() + 1)
            yield ctx.get_current_key(), self.count.value()

    counts = local(READINGS).key_by(lambda reading: reading.sensor).process(Count())
    harness = OperatorHarness.of(counts)
    harness.feed(READINGS[0], timestamp=1)
    harness.watermark(5)
    assert_type(harness.output, list[tuple[str, int]])
    assert harness.output == [("a", 1)]
    with_time = SimulatedJob(counts)
    assert_type(with_time.advance("1 s"), list[tuple[str, int]])
    assert_type(with_time.now, int)
    with_time.close()


# ---- Patterns


@program
def a_pattern_of_rising_readings() -> None:
    hot: OutputTag[Reading] = OutputTag("late")
    rising = (
        Pattern[Reading]
        .begin("cool", AfterMatchSkipStrategy.skip_past_last_event())
        .where(lambda reading: reading.degrees < 30)
        .followed_by("hot")
        .where(lambda reading, ctx: reading.degrees > ctx.get_events_for_pattern("cool")[0].degrees)
        .one_or_more()
        .greedy()
        .within("10 s")
    )
    stream = local(READINGS).key_by(lambda reading: reading.sensor)
    found = CEP.pattern(stream, rising).in_processing_time().side_output_late_data(hot)
    assert_type(found, PatternStream[Reading])
    assert_type(found.select(lambda match: match["hot"][-1].degrees - match["cool"][0].degrees), DataStream[float])
    assert_type(
        found.flat_select(lambda match: [(name, len(each)) for name, each in match.items()]),
        DataStream[tuple[str, int]],
    )


@program
def match_recognize_of_rows() -> None:
    query = "SELECT * FROM e MATCH_RECOGNIZE (ORDER BY proc MEASURES A.n AS n PATTERN (A B) DEFINE A AS A.n < 3, B AS B.n > 5)"
    assert_type(match_recognize(query, local([{"n": 1}, {"n": 9}]), processing_time=True), DataStream[Row])


# ---- Batch programs


@program
def sort_and_combine() -> None:
    class Partial(GroupCombineFunction[Sale, Sale]):
        def combine(self, values: Iterable[Sale]) -> Iterator[Sale]:
            found = list(values)
            yield Sale(found[0].item, sum(sale.price for sale in found))

    class Longest(MapPartitionFunction[Sale, str]):
        def map_partition(self, values: Iterable[Sale]) -> Iterable[str]:
            return [max((sale.item for sale in values), key=len)]

    sales = batch().from_elements(Sale("tea", 3), Sale("jam", 5), Sale("tea", 2))
    assert_type(sales.group_by("item").combine_group(Partial()), DataSet[Sale])
    assert_type(sales.map_partition(Longest()).collect(), list[str])
    grouped = sales.group_by("item").sort_group("price")
    assert_type(grouped, GroupedDataSet[Sale])
    assert_type(grouped.reduce_group(lambda found: [next(iter(found))]), DataSet[Sale])
    assert_type(sales.max_by(1), DataSet[Sale])
    assert_type(sales.rebalance().partition_by_hash("item").count(), int)


# ---- Graphs


@program
def distances_in_a_graph() -> None:
    class Distance(ComputeFunction[str, float, float, float]):
        def compute(self, vertex: GraphVertex[str, float], messages: list[float]) -> None:
            least = min(messages, default=0.0 if vertex.id == "a" else float("inf"))
            if least < vertex.value:
                self.set_new_vertex_value(least)
                for edge in self.get_edges():
                    self.send_message_to(edge.target, least + edge.value)

    class Least(MessageCombiner[float]):
        def combine_messages(self, messages: list[float]) -> float:
            return min(messages)

    graph = Graph.from_collection(batch(), [("a", "b", 1.5), ("b", "c", 2.0)], lambda vertex: float("inf"))
    assert_type(graph, Graph[str, float, float])
    distances = graph.run_vertex_centric_iteration(Distance(), Least(), 10)
    assert_type(distances, Graph[str, float, float])
    assert_type(distances.get_vertices().collect(), list[tuple[str, float]])


@program
def algorithms_of_the_library() -> None:
    graph = Graph.from_collection(batch(), [("a", "b", 1.5), ("b", "c", 2.0), ("c", "a", 1.0)], lambda vertex: 1)
    assert_type(graph.run(PageRank(iterations=5)), DataSet[tuple[str, float]])
    assert_type(graph.run(SingleSourceShortestPaths("a", 5)), DataSet[tuple[str, float]])
    assert_type(graph.run(ConnectedComponents(5)), DataSet[tuple[str, str]])
    assert_type(graph.run(TriangleCount()).execute(), int)
    dearest = graph.reduce_on_edges(max, EdgeDirection.ALL)
    assert_type(dearest, DataSet[tuple[str, float]])


@program
def edges_that_come() -> None:
    calls = local([("ann", "bob", 3), ("bob", "eve", 5)])
    edges = EdgeStream.from_stream(calls)
    assert_type(edges, EdgeStream[str, int])
    assert_type(edges.map_edges(lambda edge: edge.value / 60).get_edges(), DataStream[GraphEdge[str, float]])
    assert_type(edges.get_degrees(), DataStream[tuple[str, int]])
    longest = edges.slice("1 min").reduce_on_edges(max)
    assert_type(longest, DataStream[tuple[str, int]])
    callers = edges.slice(100).apply_on_neighbors(lambda caller, called: [(caller, len(called))])
    assert_type(callers, DataStream[tuple[str, int]])
    assert_type(edges.run(StreamingConnectedComponents("1 min")), DataStream[dict[str, list[str]]])


# ---- Learners


@program
def clusters_and_vectors() -> None:
    points = batch().from_collection([(0.0, 1.0, "a"), (1.0, 2.0, "b"), (8.0, 9.0, "c"), (9.0, 7.0, "d")])
    train, test = train_test_split(points, test_size=0.5, random_state=1)
    assert_type(train, DataSet[tuple[float, float, str]])
    model = KMeans(n_clusters=2, random_state=0).fit(points, features=[0, 1])
    assert_type(model, KMeans)
    assert_type(model.predict(test).map(lambda pair: pair[0][2]), DataSet[str])
    scaled = StandardScaler().fit(points, features=[0, 1]).transform(points)
    assert_type(scaled.map(lambda pair: pair[0][0] + 1), DataSet[float])
    assert_type(VectorAssembler(), VectorAssembler)


@program
def learning_on_streams() -> None:
    points = local([{"x": 1.0, "y": 2.0}, {"x": 9.0, "y": 8.0}])
    learner = OnlineKMeans(2, features=["x", "y"])
    versions = learner.learn(points)
    assert_type(versions.map(lambda version: version.records), DataStream[int])
    predicted = learner.predict(points, versions)
    assert_type(predicted, DataStream[Prediction[dict[str, float]]])
    assert_type(predicted.map(lambda each: each.record["x"]), DataStream[float])


# ---- Tables


def tables() -> TableEnvironment:
    return TableEnvironment.create(EnvironmentSettings.new_instance().in_batch_mode().build())


@program
def functions_of_classes() -> None:
    class Discount(ScalarFunction):
        def open(self, function_context: FunctionContext) -> None:
            self.rate = float(function_context.get_job_parameter("rate", "0.9"))

        def eval(self, price: int, vip: bool) -> float:
            return price * self.rate if vip else float(price)

    class Letters(TableFunction):
        def eval(self, text: str) -> Iterator[Row]:
            for place, letter in enumerate(text):
                yield Row(letter, place)

    class Top(TableAggregateFunction):
        def create_accumulator(self) -> list[int]:
            return []

        def accumulate(self, accumulator: list[int], price: int) -> None:
            accumulator.append(price)

        def emit_value(self, accumulator: list[int]) -> Iterable[Row]:
            return [Row(price) for price in sorted(accumulator)[-2:]]

    discount = udf(Discount(), result_type=DataTypes.DOUBLE())
    letters = udtf(Letters(), result_types=[DataTypes.STRING(), DataTypes.INT()])
    top = udtaf(Top(), result_type=DataTypes.ROW([DataTypes.FIELD("price", DataTypes.BIGINT())]))
    assert_type(discount, FunctionDefinition)
    environment = tables()
    environment.create_temporary_function("discount", discount)
    sales = environment.from_elements([("tea", 3), ("jam", 5)], ["item", "price"])
    assert_type(sales.select(discount(col("price"), lit(True)).alias("less")), Table)
    assert_type(sales.flat_map(letters(col("item"))).alias("letter", "place"), Table)
    best = sales.group_by(col("item")).flat_aggregate(top(col("price")).alias("best")).select(col("item"), col("best"))
    assert_type(best, Table)


@program
def expressions_of_each_kind() -> None:
    price = col("price")
    assert_type(price + 1, Expression)
    assert_type(1 - price, Expression)
    assert_type((price > 3) & (price <= 5) | ~(price == 4), Expression)
    assert_type(price.between(1, 5).then("cheap", "dear"), Expression)
    assert_type(col("item").upper_case.substring(1, 2).like("T%"), Expression)
    assert_type(price.cast(DataTypes.DOUBLE()).is_not_null, Expression)
    assert_type(price.sum.alias("total").desc, Expression)
    assert_type(col("at").to_date, Expression)
    assert_type(lit(5).minutes, Expression)
    assert_type(col("tags").at(1), Expression)


@program
def windows_over_tables() -> None:
    environment = tables()
    schema = Schema.new_builder().column("item", DataTypes.STRING()).column("price", DataTypes.INT())
    schema = schema.column("at", DataTypes.TIMESTAMP(3)).watermark("at", "at - INTERVAL '5' SECOND")
    descriptor = TableDescriptor.for_connector("datagen").schema(schema.build()).option("number-of-rows", "3").build()
    environment.create_temporary_table("sales", descriptor)
    sales = environment.from_path("sales")
    slides = sales.window(Slide.over(lit(10).minutes).every(lit(5).minutes).on(col("at")).alias("w"))
    assert_type(slides.group_by(col("w")).select(col("w").start, col("price").sum), Table)
    sessions = sales.window(Session.with_gap(lit(10).minutes).on(col("at")).alias("w"))
    assert_type(sessions.group_by(col("w"), col("item")).select(col("item"), col("price").max), Table)
    over = Over.partition_by(col("item")).order_by(col("at")).preceding(row_interval(2)).alias("o")
    assert_type(sales.over_window(over).select(col("item"), col("price").avg.over(col("o"))), Table)


@program
def schemas_catalogs_and_statements() -> None:
    environment = tables()
    environment.execute_sql("CREATE TABLE out (item STRING, n BIGINT) WITH ('connector' = 'blackhole')")
    sales = environment.from_elements([("tea", 1)], ["item", "n"])
    statements = environment.create_statement_set()
    assert_type(statements, StatementSet)
    statements.add_insert("out", sales).add_insert_sql("INSERT INTO out SELECT 'jam', 2")
    assert_type(statements.execute(), TableResult)
    assert_type(sales.get_resolved_schema(), ResolvedSchema)
    assert_type(sales.get_resolved_schema().get_column_names(), list[str])
    result = environment.execute_sql("SELECT 1 AS n")
    assert_type(result.get_resolved_schema(), ResolvedSchema)
    client = result.get_job_client()
    assert_type(client, JobClient | None)
    catalog = environment.get_catalog(environment.get_current_catalog())
    assert_type(catalog, Catalog | None)
    assert_type(environment.list_tables(), list[str])


@program
def streams_and_tables() -> None:
    env = environment()
    streams = StreamTableEnvironment.create(env)
    readings = env.from_collection(
        [("a", 20.0)], Types.ROW_NAMED(["sensor", "degrees"], [Types.STRING(), Types.DOUBLE()])
    )
    schema = Schema.new_builder().column("sensor", "STRING").column("degrees", "DOUBLE").build()
    streams.create_temporary_view("readings", readings, schema)
    hot = streams.sql_query("SELECT sensor, MAX(degrees) AS most FROM readings GROUP BY sensor")
    assert_type(streams.to_changelog_stream(hot).map(lambda row: row.get_row_kind().name), DataStream[str])
    retracted = streams.to_retract_stream(hot, Types.ROW([Types.STRING(), Types.DOUBLE()]))
    assert_type(retracted, DataStream[tuple[bool, Row]])
    assert_type(streams.from_data_stream(readings, schema).select(col("sensor")), Table)


@program
def frames_in_steps() -> None:
    frame = frames.from_dict({"item": ["tea", "jam", "tea"], "n": [3, 5, 2]})
    other = frames.from_records([("tea", "Tea")], schema=["item", "name"])
    joined = frame.join(other, on="item", how="left").with_columns(twice=frame["n"] * 2).fill_null(0, ["n"])
    assert_type(joined, frames.DataFrame)
    assert_type(joined.columns, list[str])
    best = frame.top_n(1, partition_by="item", order_by=["n"], descending=True).rename_columns({"n": "most"})
    assert_type(best.drop_duplicates("item", order_by="most").sort(["item"]), frames.DataFrame)
    for row in frame.iter_rows():
        assert_type(sorted(row), list[str])
    letters = frames.DataType.struct({"letters": frames.DataType.int64()})
    assert_type(frame.map(lambda row: {"letters": len(str(row["item"]))}, return_dtype=letters), frames.DataFrame)
