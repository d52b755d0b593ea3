"""Wrong PyFlink programs, for mypy and pyright, by the stubs; see ``mistakes.py``."""

from __future__ import annotations

from collections.abc import Iterable

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.datastream import DataStream, KeyedStream, MapFunction, StreamExecutionEnvironment, WindowFunction
from pyflink.datastream.connectors.jdbc import JdbcExecutionOptions
from pyflink.datastream.connectors.kafka import KafkaSource
from pyflink.datastream.formats.csv import CsvSchema
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import TimeWindow, TumblingEventTimeWindows
from pyflink.table import StreamTableEnvironment, Table
from pyflink.table.expressions import col


class OfTimes(WindowFunction[str, int, str, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[str]) -> Iterable[int]:
        return [window.end]


class Length(MapFunction[str, int]):
    def map(self, value: str) -> int:
        return len(value)


def streams(env: StreamExecutionEnvironment, numbers: DataStream[int], words: KeyedStream[str, str]) -> None:
    env.set_parallelism("2")  # type: ignore[arg-type]
    env.set_paralelism(2)  # type: ignore[attr-defined]
    env.enable_checkpointing("soon", 5, 6)  # type: ignore[call-arg]
    env.from_source("lines", WatermarkStrategy.no_watermarks(), "lines")  # type: ignore[arg-type]
    numbers.map(Length())  # type: ignore[arg-type]
    numbers.key_by(str.upper)  # type: ignore[arg-type]
    numbers.map(str).map(len).map(str.upper)  # type: ignore[arg-type]
    numbers.mapp(str)  # type: ignore[attr-defined]
    words.window(Time.seconds(5))  # type: ignore[arg-type]
    words.window(TumblingEventTimeWindows.of(None))  # type: ignore[arg-type]
    words.reduce(lambda one, other: len(one))  # type: ignore[arg-type, return-value]
    texts: DataStream[str] = numbers.filter(lambda number: number > 1)  # type: ignore[assignment]
    texts.add_sink()  # type: ignore[call-arg]
    texts.add_sink(5)  # type: ignore[arg-type]
    env.add_source([1])  # type: ignore[arg-type]
    words.count_window(2).apply(OfTimes())  # type: ignore[arg-type]


def settings(env: StreamExecutionEnvironment) -> None:
    env.get_config().set_latency_tracking_interval("5")  # type: ignore[call-overload]
    env.get_config().enable_force_cryo()  # type: ignore[attr-defined]
    CsvSchema.builder().add_string_column("a").set_column_separator(5)  # type: ignore[call-overload]
    JdbcExecutionOptions.builder().with_batch_size("200")  # type: ignore[call-overload]
    KafkaSource.builder().set_topic("lines")  # type: ignore[attr-defined]
    ValueStateDescriptor("count", Types.INT(), 0, 1)  # type: ignore[call-arg]
    ValueStateDescriptor("count", 0)  # type: ignore[arg-type]
    Types.STRNG()  # type: ignore[attr-defined]


def of_tables(environment: StreamTableEnvironment, table: Table) -> None:
    environment.execut_sql("SELECT 1")  # type: ignore[attr-defined]
    table.filter("a > 1")  # type: ignore[arg-type]
    table.select(col("a")).order_by("a")  # type: ignore[arg-type]
    environment.to_data_stream(table).map(str.upper)  # type: ignore[arg-type]
