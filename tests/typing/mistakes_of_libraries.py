"""Wrong programs with the libraries and connectors, for mypy and pyright; see ``mistakes.py``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import funken.dataframe as frames
from funken import (
    DataStream,
    Encoder,
    FileSink,
    FileSource,
    MapFunction,
    RuntimeContext,
    StreamFormat,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.cep import CEP, ConditionContext, IterativeCondition, Pattern, PatternContext, PatternProcessFunction
from funken.connectors import DeserializationSchema, SerializationSchema, SimpleStringSchema
from funken.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from funken.dataset import (
    Accumulator,
    Aggregations,
    CrossFunction,
    DataSet,
    DataSetRuntimeContext,
    ExecutionEnvironment,
    GroupReduceFunction,
    LongSumAggregator,
    MapPartitionFunction,
)
from funken.graph import Graph
from funken.ml import LogisticRegression, StandardScaler
from funken.table import Over, StreamTableEnvironment, Table, TableEnvironment, Tumble, col
from funken.table.udf import udf, udtf


class Sale(NamedTuple):
    item: str
    price: int


class Total(GroupReduceFunction[Sale, int]):
    def reduce(self, values: Iterable[Sale]) -> Iterator[int]:
        yield sum(sale.price for sale in values)


class Longest(MapPartitionFunction[str, int]):
    def map_partition(self, values: Iterable[str]) -> Iterator[int]:
        yield max(values, key=len)  # type: ignore[misc]


def upper(sale: Sale, word: str) -> str:
    return word.upper()


class Times(CrossFunction[int, int, int]):
    def cross(self, first: int, second: int) -> int:
        return first * second


# ---- Batch programs


def records_of_data_sets(words: DataSet[str], sales: DataSet[Sale]) -> None:
    words.map(len).map(str.upper)  # type: ignore[arg-type]
    words.flat_map(len)  # type: ignore[arg-type]
    words.filter(lambda word: word.isdigits())  # type: ignore[attr-defined]
    words.reduce(lambda one, other: len(one))  # type: ignore[arg-type, return-value]
    words.map_partition(Total())  # type: ignore[arg-type]
    words.group_by("*").reduce_group(Total())  # type: ignore[arg-type]
    words.map(MapFunction)  # type: ignore[arg-type]
    sales.group_by(1.5)  # type: ignore[arg-type]
    sales.group_by(0).summ(1)  # type: ignore[attr-defined]
    sales.aggregate("sum", 1)  # type: ignore[arg-type]
    sales.aggregate(Aggregations.SUM)  # type: ignore[call-arg]
    totals: list[str] = sales.group_by(0).reduce_group(Total()).collect()  # type: ignore[assignment]
    sales.union(totals)  # type: ignore[arg-type]
    sales.first("2")  # type: ignore[arg-type]
    sales.write_as_text(1)  # type: ignore[arg-type]
    sales.collect().map(len)  # type: ignore[attr-defined]


def two_data_sets(words: DataSet[str], sales: DataSet[Sale]) -> None:
    joined = sales.join(words).where(0).equal_to("*")
    joined.using(lambda sale, word: sale.prise)  # type: ignore[attr-defined]
    joined.map(str.upper)  # type: ignore[arg-type]
    sales.join(words).where(str.upper)  # type: ignore[arg-type]
    sales.left_outer_join(words).where(0).equal_to("*").collect()  # type: ignore[attr-defined]
    sales.left_outer_join(words).where(0).equal_to("*").using(upper)  # type: ignore[arg-type]
    sales.cross(words).using(Times())  # type: ignore[arg-type]
    sales.join([("tea", "Tea")])  # type: ignore[arg-type]


def iterations(env: ExecutionEnvironment) -> None:
    start = env.from_elements(1, 2).iterate(5)
    start.close_with(start.map(str))  # type: ignore[arg-type]
    start.register_aggregator("sum", LongSumAggregator)  # type: ignore[arg-type]
    env.from_elements(1).iterate("5")  # type: ignore[arg-type]


class Count(MapFunction[str, int]):
    def open(self, runtime_context: DataSetRuntimeContext) -> None:
        self.seen = runtime_context.get_int_counter("seen")

    def map(self, value: str) -> int:
        self.seen.add(value)  # type: ignore[arg-type]
        return len(value)


class Shortest(Accumulator[str, str]):
    def add(self, value: int) -> None:  # type: ignore[override]
        """Take a value of another type."""


def graphs(graph: Graph[str, int, float]) -> None:
    graph.map_vertices(lambda vertex: vertex.valeu)  # type: ignore[attr-defined]
    graph.filter_on_edges(str.upper)  # type: ignore[arg-type]
    graph.map_edges(lambda edge: str(edge.value)).get_edges().map(lambda edge: edge[2] + 1)  # type: ignore[operator]
    graph.add_vertex("d")  # type: ignore[arg-type]
    graph.run("pagerank")  # type: ignore[arg-type]


# ---- Patterns


class Report(PatternProcessFunction[Sale, str]):
    def process_match(self, match: dict[str, list[Sale]], ctx: PatternContext) -> Iterator[str]:
        yield match["dear"][0].price  # type: ignore[misc]


class Rising(IterativeCondition[Sale]):
    def filter(self, event: Sale, ctx: ConditionContext[Sale]) -> bool:
        earlier: list[int] = ctx.get_events_for_pattern("up")  # type: ignore[assignment]
        return event.price > earlier[0]


def patterns(sales: DataStream[Sale], words: DataStream[str]) -> None:
    dear = Pattern[Sale].begin("dear").where(lambda sale: sale.price > 4)
    dear.where(lambda sale: sale.prise > 4)  # type: ignore[attr-defined]
    dear.where(5)  # type: ignore[call-overload]
    dear.followed_bye("cheap")  # type: ignore[attr-defined]
    dear.times("2")  # type: ignore[arg-type]
    dear.within(None)  # type: ignore[arg-type]
    CEP.pattern(words, Pattern.begin("word")).process(Report())  # type: ignore[arg-type]
    CEP.pattern(sales, dear).process(Report()).map(len).map(str.upper)  # type: ignore[arg-type]
    CEP.pattern(sales, dear).select(lambda match: match["dear"].price)  # type: ignore[attr-defined]
    CEP.pattern(sales, "dear")  # type: ignore[arg-type]


# ---- Sources and sinks


class Lengths(DeserializationSchema[int]):
    def deserialize(self, message: bytes) -> str:  # type: ignore[override]
        return message.decode()


class OfNumbers(SerializationSchema[int]):
    def serialize(self, value: int) -> bytes:
        return b"%d" % value


def connectors(words: DataStream[str]) -> None:
    KafkaSource.builder().set_bootstrap_server("localhost:9092")  # type: ignore[attr-defined]
    KafkaSource.builder().set_value_only_deserializer("UTF-8")  # type: ignore[arg-type]
    KafkaSource.builder().set_topics(["lines"])  # type: ignore[arg-type]
    numbers = (
        KafkaRecordSerializationSchema.builder().set_topic("n").set_value_serialization_schema(OfNumbers()).build()
    )
    words.sink_to(KafkaSink.builder().set_record_serializer(numbers).build())  # type: ignore[arg-type]
    words.sink_to(KafkaSink.builder())  # type: ignore[arg-type]
    FileSource.for_record_stream_format("in", StreamFormat.text_line_format())  # type: ignore[arg-type]
    FileSink.for_row_format("out", SimpleStringSchema())  # type: ignore[arg-type]
    FileSink.for_row_format("out", Encoder.simple_string_encoder()).with_rolling_policy(5)  # type: ignore[arg-type]
    WatermarkStrategy.for_bounded_out_of_orderness([5])  # type: ignore[arg-type]
    TumblingEventTimeWindows.of(None)  # type: ignore[arg-type]
    ValueStateDescriptor(5)  # type: ignore[arg-type]


class Opened(MapFunction[str, str]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.group = runtime_context.get_metric_group()  # type: ignore[attr-defined]

    def map(self, value: str) -> str:  # type: ignore[empty-body]
        pass


# ---- Tables, frames and learners


def of_tables(table: Table, environment: TableEnvironment, streams: StreamTableEnvironment) -> None:
    table.select(5)  # type: ignore[arg-type]
    table.filter("n > 1")  # type: ignore[arg-type]
    table.order_by("n")  # type: ignore[arg-type]
    table.limit("5")  # type: ignore[arg-type]
    table.join("other")  # type: ignore[arg-type]
    table.window(Tumble.over("10 minutes"))  # type: ignore[arg-type]
    table.window(Over.partition_by(col("n")))  # type: ignore[arg-type]
    environment.execute_sequel("SELECT 1")  # type: ignore[attr-defined]
    environment.from_path(["sales"])  # type: ignore[arg-type]
    streams.to_data_stream(table).map(str.upper)  # type: ignore[arg-type]
    udf(result_type="INT")(5)  # type: ignore[arg-type]
    udtf(result_type="INT")  # type: ignore[call-overload]


def first(frame: frames.DataFrame, n: int) -> frames.DataFrame:
    return frame.limit(n)


def of_frames(frame: frames.DataFrame) -> None:
    frame.select(5)  # type: ignore[arg-type]
    frame.with_column(frame["n"], frame["n"])  # type: ignore[arg-type]
    frame.sort(5)  # type: ignore[arg-type]
    frame.tumble(on="at", size="10 minutes")  # type: ignore[arg-type]
    frame.pipe(first, "1")  # type: ignore[arg-type]
    frames.from_records([{"n": 1}]).collect().limit(1)  # type: ignore[attr-defined]


def learners(points: DataSet[tuple[float, str]]) -> None:
    StandardScaler().fit(points).transform(points).map(str.upper)  # type: ignore[arg-type]
    LogisticRegression().fit(points, y=1).predict(points).map(str.upper)  # type: ignore[arg-type]
