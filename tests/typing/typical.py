"""Forty typical programs, as a newcomer writes them: each checker infers them without ``Any`` in the chain; all of them run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, assert_type

import funken.dataframe as frames
from funken import (
    AggregateFunction,
    AsyncDataStream,
    CloseableIterator,
    CoMapFunction,
    CountTrigger,
    DataStream,
    EventTimeSessionWindows,
    FilterFunction,
    FlatMapFunction,
    GlobalWindows,
    KeyedProcessFunction,
    KeyedStream,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    NumberSequenceSource,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    ReducingStateDescriptor,
    Row,
    RuntimeContext,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TimeWindow,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.cep import CEP, Pattern
from funken.connectors import DeserializationSchema, SimpleStringSchema
from funken.connectors.schemas import Document
from funken.state.handles import ListState, MapState, ReducingState, ValueState
from funken.table import EnvironmentSettings, Table, TableEnvironment, col
from funken.table.expression import Expression
from funken.testing import local

PROGRAMS: list[Callable[[], None]] = []


def program(run: Callable[[], None]) -> Callable[[], None]:
    PROGRAMS.append(run)
    return run


class Order(NamedTuple):
    shop: str
    price: float
    at: int


@dataclass
class Reading:
    sensor: str
    degrees: float


ORDERS = [Order("tea", 2.5, 1_000), Order("jam", 4.0, 2_000), Order("tea", 1.5, 61_000)]
READINGS = [Reading("a", 20.0), Reading("b", 35.5), Reading("a", 21.0)]


def orders() -> DataStream[Order]:
    by_time = WatermarkStrategy[Order].for_monotonous_timestamps().with_timestamp_assigner(lambda order, _: order.at)
    return local(ORDERS).assign_timestamps_and_watermarks(by_time)


def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.create_local_environment(parallelism=1)


@program
def count_words() -> None:
    def counted(word: str) -> tuple[str, int]:  # of a lambda, pyright keeps the type of the literal
        return word, 1

    words = local(["to be", "or not to be"]).flat_map(str.split).map(counted)
    counts = words.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1]))
    assert_type(counts, DataStream[tuple[str, int]])
    assert len(counts.execute_and_collect(limit=6)) == 6


@program
def filter_numbers() -> None:
    even = environment().from_source(NumberSequenceSource(1, 10)).filter(lambda number: number % 2 == 0)
    assert_type(even.execute_and_collect(limit=3), list[int])


@program
def parse_lines() -> None:
    def parse(line: str) -> Reading:
        sensor, degrees = line.split(",")
        return Reading(sensor, float(degrees))

    hot = local(["a,20.5", "b,35"]).map(parse).filter(lambda reading: reading.degrees > 30)
    assert_type(hot.map(lambda reading: reading.sensor).execute_and_collect(limit=1), list[str])


@program
def sum_by_shop() -> None:
    totals = orders().map(lambda order: (order.shop, order.price)).key_by(lambda pair: pair[0]).sum(1)
    assert_type(totals, DataStream[tuple[str, float]])
    totals.execute_and_collect(limit=1)


@program
def highest_by_field() -> None:
    assert_type(orders().key_by(lambda order: order.shop).max_by("price"), DataStream[Order])


@program
def map_with_a_class() -> None:
    class Price(MapFunction[Order, float]):
        def map(self, value: Order) -> float:
            return value.price

    assert_type(orders().map(Price()).execute_and_collect(limit=1), list[float])


@program
def split_with_a_class() -> None:
    class Words(FlatMapFunction[str, str]):
        def flat_map(self, value: str) -> Iterator[str]:
            yield from value.split()

    assert_type(local(["to be"]).flat_map(Words()).execute_and_collect(limit=2), list[str])


@program
def keep_with_a_class() -> None:
    class Dear(FilterFunction[Order]):
        def filter(self, value: Order) -> bool:
            return value.price > 2

    assert_type(orders().filter(Dear()).execute_and_collect(limit=2), list[Order])


@program
def reduce_with_a_class() -> None:
    class Dearest(ReduceFunction[Order]):
        def reduce(self, value1: Order, value2: Order) -> Order:
            return max(value1, value2, key=lambda order: order.price)

    assert_type(orders().key_by(lambda order: order.shop).reduce(Dearest()), DataStream[Order])


@program
def sum_per_minute() -> None:
    windows = orders().key_by(lambda order: order.shop).window(TumblingEventTimeWindows.of("1 min"))
    sums = windows.reduce(lambda one, other: Order(one.shop, one.price + other.price, other.at))
    assert_type(sums.execute_and_collect(limit=3), list[Order])


@program
def average_in_sliding_windows() -> None:
    class Average(AggregateFunction[Order, tuple[int, float], float]):
        def create_accumulator(self) -> tuple[int, float]:
            return 0, 0.0

        def add(self, value: Order, accumulator: tuple[int, float]) -> tuple[int, float]:
            return accumulator[0] + 1, accumulator[1] + value.price

        def get_result(self, accumulator: tuple[int, float]) -> float:
            return accumulator[1] / accumulator[0]

        def merge(self, acc_a: tuple[int, float], acc_b: tuple[int, float]) -> tuple[int, float]:
            return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]

    windows = orders().key_by(lambda order: order.shop).window(SlidingEventTimeWindows.of("1 min", "30 s"))
    assert_type(windows.aggregate(Average()).execute_and_collect(limit=1), list[float])


@program
def sessions_with_a_class() -> None:
    class Sizes(ProcessWindowFunction[Order, tuple[str, int, int], str, TimeWindow]):
        def process(
            self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: list[Order]
        ) -> Iterator[tuple[str, int, int]]:
            yield key, context.window().end, len(elements)

    sessions = orders().key_by(lambda order: order.shop).window(EventTimeSessionWindows.with_gap("5 s"))
    assert_type(sessions.process(Sizes()).execute_and_collect(limit=2), list[tuple[str, int, int]])


@program
def every_two_records() -> None:
    pairs = local(["a", "a", "b"]).key_by(lambda word: word).window(GlobalWindows.create()).trigger(CountTrigger.of(2))
    assert_type(pairs.reduce(lambda one, other: one + other), DataStream[str])


@program
def apply_a_function_to_windows() -> None:
    windows = orders().key_by(lambda order: order.shop).window(TumblingEventTimeWindows.of("1 min"))
    ends = windows.apply(lambda shop, window, found: [(shop, window.end, len(found))])
    assert_type(ends, DataStream[tuple[str, int, int]])


@program
def windows_of_all_records() -> None:
    dearest = orders().window_all(TumblingEventTimeWindows.of("1 min")).reduce(max)
    assert_type(dearest.execute_and_collect(limit=2), list[Order])


class Changes(KeyedProcessFunction[str, Reading, tuple[str, float]]):
    last: ValueState[float]

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", float))

    def process_element(self, value: Reading, ctx: KeyedProcessFunction.Context[str]) -> Iterator[tuple[str, float]]:
        before = self.last.value() or value.degrees
        yield ctx.get_current_key(), value.degrees - before
        self.last.update(value.degrees)


@program
def state_of_a_value() -> None:
    changes = local(READINGS).key_by(lambda reading: reading.sensor).process(Changes())
    assert changes.execute_and_collect(limit=1) == [("a", 0.0)]
    assert_type(changes, DataStream[tuple[str, float]])


@program
def state_of_a_list() -> None:
    class Lasts(KeyedProcessFunction[str, Order, list[float]]):
        prices: ListState[float]

        def open(self, runtime_context: RuntimeContext) -> None:
            self.prices = runtime_context.get_list_state(ListStateDescriptor("prices", Types.DOUBLE()))

        def process_element(self, value: Order, ctx: KeyedProcessFunction.Context[str]) -> Iterator[list[float]]:
            self.prices.add(value.price)
            yield list(self.prices.get())

    assert_type(
        orders().key_by(lambda order: order.shop).process(Lasts()).execute_and_collect(limit=1), list[list[float]]
    )


@program
def state_of_a_map() -> None:
    class Seen(KeyedProcessFunction[str, Order, int]):
        times: MapState[float, int]

        def open(self, runtime_context: RuntimeContext) -> None:
            self.times = runtime_context.get_map_state(MapStateDescriptor("times", float, int))

        def process_element(self, value: Order, ctx: KeyedProcessFunction.Context[str]) -> Iterator[int]:
            self.times.put(value.price, (self.times.get(value.price) or 0) + 1)
            yield len(list(self.times.keys()))

    assert_type(orders().key_by(lambda order: order.shop).process(Seen()), DataStream[int])


@program
def state_that_adds_up() -> None:
    class Total(KeyedProcessFunction[str, Order, float]):
        total: ReducingState[float]

        def open(self, runtime_context: RuntimeContext) -> None:
            descriptor = ReducingStateDescriptor("total", lambda one, other: one + other, float)
            self.total = runtime_context.get_reducing_state(descriptor)

        def process_element(self, value: Order, ctx: KeyedProcessFunction.Context[str]) -> Iterator[float]:
            self.total.add(value.price)
            yield self.total.get() or 0.0

    assert_type(orders().key_by(lambda order: order.shop).process(Total()), DataStream[float])


@program
def a_timer() -> None:
    class Later(KeyedProcessFunction[str, Order, str]):
        def process_element(self, value: Order, ctx: KeyedProcessFunction.Context[str]) -> None:
            ctx.timer_service().register_event_time_timer(value.at + 10)

        def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[str]) -> Iterator[str]:
            yield f"{ctx.get_current_key()} {timestamp}"

    assert_type(orders().key_by(lambda order: order.shop).process(Later()).execute_and_collect(limit=1), list[str])


@program
def a_side_output() -> None:
    wrong: OutputTag[str] = OutputTag("wrong")

    class Numbers(ProcessFunction[str, int]):
        def process_element(
            self, value: str, ctx: ProcessFunction.Context
        ) -> Iterator[int | tuple[OutputTag[str], str]]:
            yield int(value) if value.isdigit() else (wrong, value)

    numbers = local(["1", "x"]).process(Numbers())
    assert_type(numbers, DataStream[int])
    assert_type(numbers.get_side_output(wrong), DataStream[str])


@program
def late_records() -> None:
    late: OutputTag[Order] = OutputTag("late")
    windows = orders().key_by(lambda order: order.shop).window(TumblingEventTimeWindows.of("1 min"))
    result = windows.side_output_late_data(late).reduce(max)
    assert_type(result.get_side_output(late), DataStream[Order])


@program
def two_streams_as_one() -> None:
    ones = local([1])
    assert_type(ones.union(ones.map(lambda number: number + 1)).execute_and_collect(limit=2), list[int])


@program
def two_types_as_one() -> None:
    ones = local([1])
    both = ones.map(str).union(ones.map(lambda number: "a" * number))
    assert_type(both, DataStream[str])


@program
def join_in_windows() -> None:
    prices = orders()
    joined = (
        prices.join(prices.filter(lambda order: order.price > 1))
        .where(lambda order: order.shop)
        .equal_to(lambda order: order.shop)
    )
    pairs = joined.window(TumblingEventTimeWindows.of("1 min")).apply(lambda one, other: (one.price, other.at))
    assert_type(pairs, DataStream[tuple[float, int]])


@program
def co_group_in_windows() -> None:
    prices = orders()
    grouped = prices.co_group(prices).where(lambda order: order.shop).equal_to(lambda order: order.shop)
    sizes = grouped.window(TumblingEventTimeWindows.of("1 min")).apply(lambda ones, others: [len(list(ones))])
    assert_type(sizes, DataStream[int])


@program
def highest_so_far() -> None:
    words = local(["a", "b", "a"]).key_by(lambda word: word)
    assert_type(words, KeyedStream[str, str])
    assert_type(words.max(), DataStream[str])


@program
def connect_two_streams() -> None:
    class Texts(CoMapFunction[int, str, str]):
        def map1(self, value: int) -> str:
            return str(value)

        def map2(self, value: str) -> str:
            return value

    ones = local([1])
    assert_type(ones.connect(ones.map(str)).map(Texts()), DataStream[str])


@program
def rebalance_and_map() -> None:
    assert_type(local([1, 2]).rebalance().map(lambda number: number / 2), DataStream[float])


@program
def keys_of_two_fields() -> None:
    assert_type(orders().key_by(lambda order: (order.shop, order.at)), KeyedStream[Order, tuple[str, int]])


@program
def declared_output_type() -> None:
    declared = local(["1"]).map(int, output_type=Types.LONG())
    assert_type(declared, DataStream[int])


@program
def iterate_over_results() -> None:
    with local([1, 2]).map(lambda number: number + 1).execute_and_collect() as results:
        assert_type(results, CloseableIterator[int])
        assert sum(results) == 5


@program
def an_asynchronous_call() -> None:
    async def ask(shop: str) -> list[int]:
        return [len(shop)]

    shops = orders().map(lambda order: order.shop)
    assert_type(AsyncDataStream.ordered_wait(shops, ask, timeout=5), DataStream[int])


@program
def names_and_parallelism() -> None:
    named = local(["a"]).map(str.upper).name("upper").uid("upper").set_parallelism(1)
    assert_type(named, DataStream[str])


@program
def watermarks_with_delay() -> None:
    strategy = (
        WatermarkStrategy[Order].for_bounded_out_of_orderness("5 s").with_timestamp_assigner(lambda order, _: order.at)
    )
    assert_type(local(ORDERS).assign_timestamps_and_watermarks(strategy), DataStream[Order])


@program
def print_and_execute() -> None:
    env = environment()
    env.from_collection([1, 2]).map(lambda number: number * 2).filter(lambda number: number > 9).print()
    env.execute("doubles")


@program
def an_iterator_in_a_function() -> None:
    def pairs(order: Order) -> Iterator[tuple[str, float]]:
        yield order.shop, order.price
        yield "all", order.price

    assert_type(orders().flat_map(pairs).key_by(lambda pair: pair[0]).sum(1), DataStream[tuple[str, float]])


@program
def optional_fields() -> None:
    names = local(["a", ""]).map(lambda name: name or None)
    assert_type(names, DataStream[str | None])
    assert_type(names.filter(lambda name: name is not None).map(lambda name: len(name or "")), DataStream[int])


@program
def dicts_by_name() -> None:
    rows = local([{"n": 1}, {"n": 2}]).map(lambda row: row["n"])
    assert_type(rows.execute_and_collect(limit=2), list[int])


@program
def count_in_windows() -> None:
    counts = orders().key_by(lambda order: order.shop).window(TumblingEventTimeWindows.of("1 min")).count()
    counts.execute_and_collect(limit=1)


@program
def tables_and_frames() -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    sales = tables.from_elements([("tea", 1)], ["item", "n"])
    totals = sales.group_by(col("item")).select(col("item"), col("n").sum.alias("total"))
    assert_type(totals.order_by(col("total").desc).limit(3), Table)

    frame = frames.from_table(sales)
    assert_type(frame["n"], Expression)
    assert_type(frame[["item"]], frames.DataFrame)
    assert_type(frame.filter(frame["n"] > 1).group_by("item").agg(total=frame["n"].sum), frames.DataFrame)


# ---- Short ways to read, and patterns


@program
def read_files_of_a_record_type() -> None:
    env = environment()
    with TemporaryDirectory() as folder:
        Path(folder, "a.csv").write_text("sensor,degrees\na,20.5\n")
        Path(folder, "a.json").write_text('{"sensor": "a", "degrees": 20.5}\n')
        for stream in (env.read_csv(f"{folder}/*.csv", Reading), env.read_json(f"{folder}/*.json", Reading)):
            assert_type(stream, DataStream[Reading])
            assert_type(stream.map(lambda reading: reading.degrees), DataStream[float])
            assert stream.execute_and_collect(limit=1) == [Reading("a", 20.5)]


@program
def read_files_without_a_record_type() -> None:
    env = environment()
    with TemporaryDirectory() as folder:
        Path(folder, "a.csv").write_text("sensor,degrees\na,20.5\n")
        Path(folder, "a.json").write_text('{"sensor": "a", "degrees": 20.5}\n')
        rows, documents = env.read_csv(f"{folder}/*.csv"), env.read_json(f"{folder}/*.json")
        assert_type(rows, DataStream[Row])
        assert_type(documents, DataStream[Document])
        assert_type(environment().read_parquet(folder), DataStream[Document])
        assert_type(documents.map(lambda document: len(document) + 1), DataStream[int])
        assert_type(documents.key_by(lambda document: str(document["sensor"])), KeyedStream[Document, str])
        assert rows.execute_and_collect(limit=1) == [Row(sensor="a", degrees=20.5)]


class Lengths(DeserializationSchema[int]):
    def deserialize(self, message: bytes) -> int:
        return len(message)


@program
def read_topics() -> None:
    env = environment()
    assert_type(env.read_kafka("orders", "localhost:9092"), DataStream[Document])
    assert_type(env.read_kafka("orders", "localhost:9092", SimpleStringSchema()), DataStream[str])
    lengths = env.read_kafka("orders", "localhost:9092", Lengths(), group_id="billing")
    assert_type(lengths, DataStream[int])
    assert_type(lengths.map(lambda length: length / 2), DataStream[float])


@program
def select_matches() -> None:
    twice = Pattern.begin("low").where(lambda n: n < 3).next("high").where(lambda n: n > 5)
    found = CEP.pattern(local([1, 9, 2, 8]), twice).in_processing_time()
    sizes = found.select(lambda match: len(match) + 1)
    assert_type(sizes, DataStream[int])
    assert_type(found.flat_select(lambda match: [f"{name}!" for name in match]), DataStream[str])
    assert sizes.execute_and_collect(limit=2) == [3, 3]
