"""Programs that are wrong, for mypy and pyright: every ``type: ignore`` is an error that a checker must find.

Both report an ``ignore`` that nothing needs, so a mistake that is no longer noticed fails the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from funken import (
    AggregateFunction,
    AsyncDataStream,
    CoMapFunction,
    DataStream,
    KeyedProcessFunction,
    KeyedStream,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    Sink,
    StreamExecutionEnvironment,
    TimeWindow,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
    WindowedStream,
)
from funken.cep import CEP, Pattern
from funken.connectors import SimpleStringSchema
from funken.testing import local


class Sale(NamedTuple):
    item: str
    price: int


class Length(MapFunction[str, int]):
    def map(self, value: str) -> int:
        return len(value)


class Longest(ReduceFunction[str]):
    def reduce(self, value1: str, value2: str) -> str:
        return max(value1, value2, key=len)


def half(number: int) -> float:
    return number / 2


late: OutputTag[Sale] = OutputTag("late")


def a_function_for_other_records(words: DataStream[str], numbers: DataStream[int]) -> None:
    numbers.map(Length())  # type: ignore[arg-type]
    words.map(half)  # type: ignore[arg-type]
    words.flat_map(half)  # type: ignore[arg-type]
    numbers.filter(str.isdigit)  # type: ignore[arg-type]
    numbers.key_by(str.upper)  # type: ignore[arg-type]
    numbers.for_each(str.upper)  # type: ignore[arg-type]
    words.map(lambda word: word.no_such_method())  # type: ignore[attr-defined]
    words.map(Length)  # type: ignore[arg-type]


def what_a_stream_gives(words: DataStream[str]) -> None:
    lengths: DataStream[str] = words.map(len)  # type: ignore[arg-type]
    texts: list[str] = words.map(Length()).execute_and_collect(limit=1)  # type: ignore[assignment]
    words.execute_and_collect(limit="1")  # type: ignore[call-overload]
    lengths.union(texts)  # type: ignore[arg-type]


def keys(sales: KeyedStream[Sale, str]) -> None:
    sales.reduce(Longest())  # type: ignore[arg-type]
    sales.reduce(lambda one, other: one.price)  # type: ignore[arg-type, return-value]
    sales.process(PerUser())  # type: ignore[arg-type]
    sales.sum(1.5)  # type: ignore[arg-type]


class PerUser(KeyedProcessFunction[int, Sale, str]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))
        self.prices = runtime_context.get_map_state(MapStateDescriptor[str, int]("prices"))
        self.last = runtime_context.get_state(ValueStateDescriptor("last", int))
        self.names = runtime_context.get_map_state(MapStateDescriptor("names", str, Types.STRING()))
        self.zero = runtime_context.get_state(ValueStateDescriptor("zero", 0))  # type: ignore[arg-type]

    def process_element(self, value: Sale, ctx: KeyedProcessFunction.Context[int]) -> Iterator[str]:
        self.last.update("one")  # type: ignore[arg-type]
        self.names.put("tea", 3)  # type: ignore[arg-type]
        self.count.update("one")  # type: ignore[arg-type]
        self.prices.put(value.price, value.price)  # type: ignore[arg-type]
        total: int = self.prices.get("tea")  # type: ignore[assignment]
        ctx.get_current_key().upper()  # type: ignore[attr-defined]
        ctx.output(late, "not a sale")  # type: ignore[misc]
        yield total  # type: ignore[misc]


class WrongMap(MapFunction[str, int]):
    def map(self, value: str) -> str:  # type: ignore[override]
        return value


class WrongContext(ProcessFunction[str, int]):
    def process_element(self, value: str, ctx: KeyedProcessFunction.Context[str]) -> Iterator[int]:  # type: ignore[override]
        yield 1


class Count(AggregateFunction[Sale, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Sale, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator


class Ends(ProcessWindowFunction[Sale, int, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: list[Sale]
    ) -> Iterator[int]:
        yield context.window().id  # type: ignore[attr-defined]


def windows(sales: WindowedStream[Sale, str, TimeWindow], words: KeyedStream[str, str]) -> None:
    words.window(TumblingEventTimeWindows.of(10)).aggregate(Count())  # type: ignore[arg-type]
    words.window(TumblingEventTimeWindows.of(10)).process(Ends())  # type: ignore[arg-type]
    sales.aggregate(Count(), Ends())  # type: ignore[arg-type]
    sales.side_output_late_data(OutputTag[str]("late"))  # type: ignore[arg-type]
    sales.apply(lambda key, window, found: window.end)  # type: ignore[arg-type, return-value]
    sales.trigger(TumblingEventTimeWindows.of(10))  # type: ignore[arg-type]
    words.window("ten minutes")  # type: ignore[arg-type]


class AsText(CoMapFunction[int, str, str]):
    def map1(self, value: int) -> str:
        return str(value)

    def map2(self, value: str) -> str:
        return value


def two_inputs(words: DataStream[str], numbers: DataStream[int]) -> None:
    words.connect(numbers).map(AsText())  # type: ignore[arg-type]
    words.connect("words")  # type: ignore[call-overload]
    joined = words.join(numbers).where(len)
    joined.equal_to(str)  # type: ignore[arg-type]


async def ask(value: str) -> list[int]:
    return [len(value)]


def asynchronous(numbers: DataStream[int]) -> None:
    AsyncDataStream.ordered_wait(numbers, ask, timeout=5)  # type: ignore[arg-type]
    AsyncDataStream.ordered_wait(numbers, half, timeout=5)  # type: ignore[arg-type]


def sources_and_sinks(env: StreamExecutionEnvironment, words: DataStream[str], sink: Sink[int]) -> None:
    env.from_source([1, 2])  # type: ignore[arg-type]
    numbers: DataStream[int] = env.from_collection(["a"])  # type: ignore[list-item]
    words.sink_to(sink)  # type: ignore[arg-type]
    strategy: WatermarkStrategy[Sale] = WatermarkStrategy.for_monotonous_timestamps()
    numbers.assign_timestamps_and_watermarks(strategy)  # type: ignore[arg-type]
    local(5)  # type: ignore[arg-type]


def short_ways_to_read(env: StreamExecutionEnvironment) -> None:
    env.read_json("sales", Sale).map(lambda sale: sale.cost)  # type: ignore[attr-defined]
    env.read_csv("sales", Sale).map(half)  # type: ignore[arg-type]
    prices: DataStream[str] = env.read_parquet("sales")  # type: ignore[assignment]
    env.read_kafka("sales", "localhost:9092").map(half)  # type: ignore[arg-type]
    env.read_kafka("sales", "localhost:9092", SimpleStringSchema()).map(half)  # type: ignore[arg-type]
    prices.key_by(len).sum("price", 1)  # type: ignore[call-arg]


def patterns(sales: DataStream[Sale]) -> None:
    found = CEP.pattern(sales, Pattern.begin("sale"))
    lengths = found.select(len)
    lengths.map(str.upper)  # type: ignore[arg-type]
    found.flat_select(lambda match: [str(match)]).map(half)  # type: ignore[arg-type]
