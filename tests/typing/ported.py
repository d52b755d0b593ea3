"""Typical PyFlink programs, which the stubs of ``funken stubs`` give types: as ``typical.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import assert_type

import funken.compat.pyflink  # noqa: F401 - for programs that run

# isort: split

from pyflink.common import Configuration, Duration, Encoder, Row, Time, Types, WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    BroadcastProcessFunction,
    BroadcastStream,
    CheckpointingMode,
    CoMapFunction,
    ConnectedStreams,
    DataStream,
    DataStreamSink,
    KeyedProcessFunction,
    KeyedStream,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    WindowedStream,
)
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pyflink.datastream.formats.csv import CsvSchema
from pyflink.datastream.formats.json import JsonRowDeserializationSchema
from pyflink.datastream.state import (
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    StateTtlConfig,
    ValueState,
    ValueStateDescriptor,
)
from pyflink.datastream.window import TimeWindow, TumblingEventTimeWindows
from pyflink.table import DataTypes, EnvironmentSettings, Schema, StreamTableEnvironment, Table, TableEnvironment
from pyflink.table.expressions import col
from pyflink.table.udf import udf, udtf

PROGRAMS: list[Callable[[], None]] = []


def program(run: Callable[[], None]) -> Callable[[], None]:
    PROGRAMS.append(run)
    return run


PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.create_local_environment(1)


def pairs() -> DataStream[tuple[str, int]]:
    return environment().from_collection([("a", 1_000), ("b", 2_000), ("a", 11_000)], type_info=PAIR)


class Second(TimestampAssigner[tuple[str, int]]):
    def extract_timestamp(self, value: tuple[str, int], record_timestamp: int) -> int:
        return value[1]


def stamped() -> DataStream[tuple[str, int]]:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(Second())
    return pairs().assign_timestamps_and_watermarks(strategy)


@program
def functions_that_take_and_return_streams() -> None:
    def words(stream: DataStream[tuple[str, int]]) -> DataStream[str]:
        return stream.map(lambda pair: pair[0], output_type=Types.STRING())

    def highest(stream: KeyedStream[tuple[str, int], str]) -> DataStream[tuple[str, int]]:
        return stream.max(1)

    def anything(stream: DataStream) -> DataStream:
        return stream.filter(lambda record: record is not None).rebalance().union(stream)

    assert_type(words(pairs()), DataStream[str])
    keyed = pairs().key_by(lambda pair: pair[0], key_type=Types.STRING())
    assert_type(keyed, KeyedStream[tuple[str, int], str])
    assert_type(highest(keyed).print().name("out"), DataStreamSink)
    anything(words(pairs()))


@program
def settings_of_a_job() -> None:
    env = environment().set_parallelism(1).set_runtime_mode(RuntimeExecutionMode.BATCH)
    assert_type(env.enable_checkpointing(10_000, CheckpointingMode.EXACTLY_ONCE), StreamExecutionEnvironment)
    env.get_checkpoint_config().set_min_pause_between_checkpoints(500)
    config = env.get_config().set_latency_tracking_interval(5).enable_force_kryo()
    assert_type(config.get_latency_tracking_interval(), int)
    assert_type(config.is_force_kryo_enabled(), bool)
    assert_type(Configuration().set_string("a.b", "c"), Configuration)


@program
def windows_of_pyflink() -> None:
    class Sizes(ProcessWindowFunction[tuple[str, int], tuple[str, int], str, TimeWindow]):
        def process(
            self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[tuple[str, int]]
        ) -> Iterable[tuple[str, int]]:
            return [(key, len(list(elements)))]

    class Total(AggregateFunction[tuple[str, int], int, int]):
        def create_accumulator(self) -> int:
            return 0

        def add(self, value: tuple[str, int], accumulator: int) -> int:
            return accumulator + value[1]

        def get_result(self, accumulator: int) -> int:
            return accumulator

    windows = stamped().key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(Time.seconds(10)))
    assert_type(windows, WindowedStream[tuple[str, int], str, TimeWindow])
    assert_type(windows.process(Sizes(), PAIR), DataStream[tuple[str, int]])
    assert_type(windows.aggregate(Total(), output_type=Types.INT()), DataStream[int])
    assert sorted(windows.process(Sizes(), PAIR).execute_and_collect(limit=3)) == [("a", 1), ("a", 1), ("b", 1)]


@program
def state_and_timers_of_pyflink() -> None:
    class Remember(KeyedProcessFunction[str, tuple[str, int], tuple[str, float]]):
        total: ValueState[float]
        counts: MapState[str, int]
        seen: ListState[int]

        def open(self, runtime_context: RuntimeContext) -> None:
            ttl = StateTtlConfig.new_builder(Time.seconds(60))
            described = ValueStateDescriptor("total", Types.FLOAT())
            described.enable_time_to_live(ttl.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite).build())
            self.total = runtime_context.get_state(described)
            self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.STRING(), Types.LONG()))
            self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.INT()))

        def process_element(
            self, value: tuple[str, int], ctx: KeyedProcessFunction.Context[str]
        ) -> Iterator[tuple[str, float]]:
            self.total.update((self.total.value() or 0) + value[1])
            self.seen.add(value[1])
            ctx.timer_service().register_event_time_timer(value[1] + 5)
            yield ctx.get_current_key(), self.total.value()

        def on_timer(
            self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[str]
        ) -> Iterator[tuple[str, float]]:
            yield ctx.get_current_key(), float(timestamp)

    found = stamped().key_by(lambda pair: pair[0]).process(Remember(), Types.TUPLE([Types.STRING(), Types.FLOAT()]))
    assert_type(found, DataStream[tuple[str, float]])


@program
def side_outputs_of_pyflink() -> None:
    wrong = OutputTag("wrong", Types.STRING())

    class Split(ProcessFunction[tuple[str, int], int]):
        def process_element(
            self, value: tuple[str, int], ctx: ProcessFunction.Context
        ) -> Iterator[int | tuple[OutputTag[str], str]]:
            yield value[1] if value[1] > 1_000 else (wrong, value[0])

    split = pairs().process(Split(), Types.INT())
    assert_type(split, DataStream[int])
    assert_type(split.get_side_output(wrong), DataStream[str])


@program
def two_streams_of_pyflink() -> None:
    class Texts(CoMapFunction[tuple[str, int], int, str]):
        def map1(self, value: tuple[str, int]) -> str:
            return value[0]

        def map2(self, value: int) -> str:
            return str(value)

    class Known(BroadcastProcessFunction[tuple[str, int], int, str]):
        def process_element(
            self, value: tuple[str, int], ctx: BroadcastProcessFunction.ReadOnlyContext
        ) -> Iterator[str]:
            yield value[0]

        def process_broadcast_element(self, value: int, ctx: BroadcastProcessFunction.Context) -> None:
            ctx.get_broadcast_state(described).put("last", value)

    described = MapStateDescriptor("rules", Types.STRING(), Types.INT())
    stream = pairs()
    numbers = stream.map(lambda pair: pair[1], Types.INT())
    assert_type(stream.connect(numbers), ConnectedStreams[tuple[str, int], int])
    assert_type(stream.connect(numbers).map(Texts(), Types.STRING()), DataStream[str])
    rules = numbers.broadcast(described)
    assert_type(rules, BroadcastStream[int])
    assert_type(stream.connect(rules).process(Known()), DataStream[str])


@program
def sources_of_pyflink() -> None:
    builder = KafkaSource.builder().set_bootstrap_servers("localhost:9092").set_topics("lines").set_group_id("g")
    kafka = builder.set_starting_offsets(KafkaOffsetsInitializer.earliest())
    lines = kafka.set_value_only_deserializer(SimpleStringSchema()).build()
    env = environment()
    assert_type(env.from_source(lines, WatermarkStrategy.no_watermarks(), "lines"), DataStream[str])
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "in").process_static_file_set().build()
    assert_type(env.from_source(files, WatermarkStrategy.for_monotonous_timestamps(), "files"), DataStream[str])
    assert_type(Encoder.simple_string_encoder("UTF-8"), Encoder[object])


@program
def formats_and_options_of_pyflink() -> None:
    row = Types.ROW_NAMED(["a"], [Types.INT()])
    json = JsonRowDeserializationSchema.builder().type_info(row).ignore_parse_errors().build()
    assert_type(json, JsonRowDeserializationSchema)
    csv = CsvSchema.builder().add_string_column("a").set_column_separator("|").set_use_header().build()
    assert_type(csv, CsvSchema)
    connection = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:sqlite:a.db").with_user_name("ada")
    assert_type(connection.build().get_db_url(), str)
    execution = JdbcExecutionOptions.builder().with_batch_interval_ms(1000).with_batch_size(200).build()
    assert_type(execution.get_batch_size(), int)


@program
def tables_of_pyflink() -> None:
    @udf(result_type=DataTypes.BIGINT())
    def plus_one(number: int) -> int:
        return number + 1

    @udtf(result_types=[DataTypes.STRING()])
    def words(text: str) -> Iterator[Row]:
        yield from map(Row, text.split())

    env = environment()
    tables = StreamTableEnvironment.create(env)
    stream = env.from_collection([("to be", 1)], PAIR)
    table = tables.from_data_stream(stream).alias("text", "n")
    assert_type(table.select(plus_one(col("n")).alias("m")).filter(col("m") > 1), Table)
    assert_type(table.flat_map(words(col("text")).alias("word")).group_by(col("word")).select(col("word")), Table)
    assert_type(tables.to_data_stream(table), DataStream[Row])
    assert_type(tables.to_data_stream(table).map(len), DataStream[int])
    schema = Schema.new_builder().column("a", DataTypes.INT()).build()
    assert_type(schema, Schema)
    batch = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    with batch.execute_sql("SELECT 1").collect() as rows:
        assert_type(list(rows), list[Row])


@program
def classes_without_type_arguments() -> None:
    class Double(MapFunction):
        def map(self, value: int) -> int:
            return value * 2

    class Last(KeyedProcessFunction):
        def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
            yield value

    numbers = environment().from_collection([1, 2], Types.INT())
    numbers.map(Double(), Types.INT()).key_by(lambda number: number % 2).process(Last()).print()
