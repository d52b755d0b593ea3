"""Programs with types, for mypy and pyright: each ``assert_type`` is what a checker must infer; all of them also run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple, assert_type

from funken import (
    AggregateFunction,
    AllWindowedStream,
    AllWindowFunction,
    AsyncDataStream,
    AsyncFunction,
    BroadcastConnectedStream,
    BroadcastProcessFunction,
    BroadcastStream,
    CloseableIterator,
    CoFlatMapFunction,
    CoMapFunction,
    ConnectedStreams,
    CoProcessFunction,
    CountTrigger,
    CountWindow,
    DataGeneratorSource,
    DataStream,
    DataStreamSink,
    DiscardingSink,
    EventTimeSessionWindows,
    FilterFunction,
    FlatMapFunction,
    GlobalWindow,
    GlobalWindows,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    KeySelector,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    NumberSequenceSource,
    OutputTag,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    ReducingStateDescriptor,
    RuntimeContext,
    RuntimeExecutionMode,
    Sink,
    Source,
    StreamExecutionEnvironment,
    TimestampAssigner,
    TimeWindow,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
    WindowedStream,
    WindowFunction,
    blocking,
    cached,
)
from funken.state.descriptors import AggregatingStateDescriptor
from funken.state.handles import AggregatingState, ListState, MapState, ReducingState, ValueState
from funken.testing import local


class Sale(NamedTuple):
    item: str
    price: int
    at: int


SALES = [Sale("tea", 3, 1), Sale("jam", 5, 4), Sale("tea", 2, 12)]


def sales() -> DataStream[Sale]:
    strategy = WatermarkStrategy[Sale].for_monotonous_timestamps().with_timestamp_assigner(lambda sale, _: sale.at)
    assert_type(strategy, WatermarkStrategy[Sale])
    return local(SALES).assign_timestamps_and_watermarks(strategy)


def item(sale: Sale) -> str:
    return sale.item


# ---- sources and sinks


def sources_and_sinks() -> None:
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    assert_type(env.from_collection(["a", "b"]), DataStream[str])
    assert_type(env.from_source(NumberSequenceSource(1, 3)), DataStream[int])
    squares = DataGeneratorSource(lambda index: float(index * index), 3)
    assert_type(squares, DataGeneratorSource[float])
    source: Source[float] = squares
    assert_type(env.from_source(source), DataStream[float])
    sink: Sink[Any] = DiscardingSink()
    assert_type(env.from_source(squares).sink_to(sink).name("nothing"), DataStreamSink)
    env.execute()


def results() -> None:
    assert_type(local([1, 2]).execute_and_collect(limit=2), list[int])
    with local([1, 2]).execute_and_collect("numbers") as records:
        assert_type(records, CloseableIterator[int])
        assert_type(next(records), int)


# ---- one input, no key


class Length(MapFunction[str, int]):
    def map(self, value: str) -> int:
        return len(value)


class Letters(FlatMapFunction[str, str]):
    def flat_map(self, value: str) -> Iterator[str]:
        yield from value


class Long(FilterFunction[str]):
    def filter(self, value: str) -> bool:
        return len(value) > 2


def stateless() -> None:
    words = local(["to be", "or not"])
    assert_type(words.map(len), DataStream[int])
    assert_type(words.map(lambda line: line.upper()), DataStream[str])
    assert_type(words.map(Length()), DataStream[int])
    assert_type(words.map(lambda line: float(len(line)), output_type=Types.DOUBLE()), DataStream[float])
    assert_type(words.flat_map(str.split), DataStream[str])
    assert_type(words.flat_map(lambda line: [len(line)] if line else None), DataStream[int])
    assert_type(words.flat_map(Letters()), DataStream[str])
    assert_type(words.filter(lambda line: "be" in line), DataStream[str])
    assert_type(words.filter(Long()), DataStream[str])
    assert_type(words.map_block(lambda block: [len(line) for line in block]), DataStream[int])
    lengths = words.flat_map(str.split).filter(Long()).map(len).name("lengths").set_parallelism(1)
    assert_type(lengths, DataStream[int])
    assert lengths.execute_and_collect(limit=1) == [3]


def partitioning() -> None:
    numbers = local([1, 2])
    assert_type(numbers.rebalance(), DataStream[int])
    assert_type(numbers.shuffle().map(str), DataStream[str])
    assert_type(numbers.broadcast(), DataStream[int])
    assert_type(numbers.partition_custom(lambda key, count: key % count, lambda number: number), DataStream[int])


def unions() -> None:
    numbers = local([1])
    assert_type(numbers.union(numbers.map(lambda number: number + 1)), DataStream[int])
    assert_type(numbers.union(numbers.map(str)), DataStream[int | str])


bad: OutputTag[str] = OutputTag("bad")


class Parse(ProcessFunction[str, int]):
    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Iterator[int | tuple[OutputTag[str], str]]:
        assert_type(ctx.timestamp(), int | None)
        if value.isdigit():
            yield int(value)
        elif value:
            yield bad, value
        else:
            ctx.output(bad, "nothing")


def side_outputs() -> None:
    parsed = local(["1", "x"]).process(Parse())
    assert_type(parsed, DataStream[int])
    assert_type(parsed.get_side_output(bad), DataStream[str])
    assert_type(local(["1"]).process(lambda value, ctx: [ctx.timestamp()]), DataStream[int | None])
    assert parsed.get_side_output(bad).execute_and_collect(limit=1) == ["x"]


# ---- keys and state


class Initial(KeySelector[str, str]):
    def get_key(self, value: str) -> str:
        return value[0]


class Cheapest(ReduceFunction[Sale]):
    def reduce(self, value1: Sale, value2: Sale) -> Sale:
        return min(value1, value2, key=lambda sale: sale.price)


def keys() -> None:
    by_item = sales().key_by(item)
    assert_type(by_item, KeyedStream[Sale, str])
    assert_type(local(["tea"]).key_by(Initial()), KeyedStream[str, str])
    assert_type(local(["tea"]).key_by(len), KeyedStream[str, int])
    assert_type(by_item.key_by(lambda sale: sale.price), KeyedStream[Sale, int])
    assert_type(by_item.map(lambda sale: sale.price), DataStream[int])
    assert_type(by_item.reduce(max), DataStream[Sale])
    assert_type(by_item.reduce(Cheapest()), DataStream[Sale])
    assert_type(by_item.sum("price"), DataStream[Sale])
    assert_type(by_item.min_by(1), DataStream[Sale])


class Mean(AggregateFunction[int, tuple[int, int], float]):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Everything(KeyedProcessFunction[str, Sale, str]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))
        self.last = runtime_context.get_state(ValueStateDescriptor[int | None]("last"))
        self.seen = runtime_context.get_list_state(ListStateDescriptor[Sale]("seen"))
        self.prices = runtime_context.get_map_state(MapStateDescriptor[str, int]("prices"))
        self.highest = runtime_context.get_reducing_state(ReducingStateDescriptor[int]("highest", max))
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean()))

        self.total = runtime_context.get_state(ValueStateDescriptor("total", int))
        self.text = runtime_context.get_state(ValueStateDescriptor("text", Types.STRING()))
        self.times = runtime_context.get_list_state(ListStateDescriptor("times", Types.SQL_TIMESTAMP()))
        self.by_item = runtime_context.get_map_state(MapStateDescriptor("by item", str, Types.LIST(Types.LONG())))
        self.least = runtime_context.get_reducing_state(ReducingStateDescriptor("least", min, int))

    def process_element(self, value: Sale, ctx: KeyedProcessFunction.Context[str]) -> None:
        assert_type(self.total, ValueState[int])
        assert_type(self.text.value(), str)
        assert_type(self.times, ListState[datetime])
        assert_type(self.by_item, MapState[str, list[int]])
        assert_type(self.least, ReducingState[int])
        assert_type(OutputTag("late", Sale), OutputTag[Sale])
        assert_type(OutputTag("late", Types.DOUBLE()), OutputTag[float])
        assert_type(self.count, ValueState[int])
        assert_type(self.last.value(), int | None)
        assert_type(self.seen, ListState[Sale])
        assert_type(self.prices, MapState[str, int])
        assert_type(self.prices.get("tea"), int | None)
        assert_type(list(self.prices.items()), list[tuple[str, int]])
        assert_type(self.highest, ReducingState[int])
        assert_type(self.mean, AggregatingState[int, float])
        assert_type(self.mean.get(), float | None)
        assert_type(ctx.get_current_key(), str)
        self.count.update(self.count.value() + 1)
        self.last.update(value.price)
        self.seen.add(value)
        self.prices.put(value.item, value.price)
        self.highest.add(value.price)
        self.mean.add(value.price)
        ctx.timer_service().register_event_time_timer(value.at + 10)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[str]) -> Iterator[str]:
        yield f"{ctx.get_current_key()} {self.count.value()} {self.mean.get()} {self.highest.get()}"


def state() -> None:
    processed = sales().key_by(item).process(Everything())
    assert_type(processed, DataStream[str])
    assert sorted(processed.execute_and_collect(limit=3)) == ["jam 1 5.0 5", "tea 2 2.5 3", "tea 2 2.5 3"]


# ---- windows


class Spread(WindowFunction[Sale, tuple[str, int], str, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[Sale]) -> Iterator[tuple[str, int]]:
        prices = [sale.price for sale in inputs]
        yield key, max(prices) - min(prices)


class Ends(ProcessWindowFunction[Sale, int, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: list[Sale]
    ) -> Iterator[int]:
        assert_type(context.window(), TimeWindow)
        assert_type(context.global_state().get_state(ValueStateDescriptor("count", default=0)), ValueState[int])
        yield context.window().end


class Sorted(AllWindowFunction[int, int, CountWindow]):
    def apply(self, window: CountWindow, inputs: list[int]) -> list[int]:
        return sorted(inputs)


class Prices(AggregateFunction[Sale, list[int], str]):
    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Sale, accumulator: list[int]) -> list[int]:
        return [*accumulator, value.price]

    def get_result(self, accumulator: list[int]) -> str:
        return ", ".join(map(str, accumulator))


def with_end(key: str, window: TimeWindow, results: Iterable[str]) -> list[tuple[int, str]]:
    return [(window.end, result) for result in results]


def windows() -> None:
    tumbling = sales().key_by(item).window(TumblingEventTimeWindows.of(timedelta(milliseconds=10)))
    assert_type(tumbling, WindowedStream[Sale, str, TimeWindow])
    assert_type(tumbling.allowed_lateness(5), WindowedStream[Sale, str, TimeWindow])
    assert_type(tumbling.reduce(max), DataStream[Sale])
    assert_type(tumbling.reduce(Cheapest(), Spread()), DataStream[tuple[str, int]])
    assert_type(tumbling.reduce(Cheapest(), Ends()), DataStream[int])
    assert_type(tumbling.aggregate(Prices()), DataStream[str])
    assert_type(tumbling.aggregate(Prices(), with_end), DataStream[tuple[int, str]])
    assert_type(tumbling.apply(lambda key, window, found: [window.end + len(found)]), DataStream[int])
    assert_type(tumbling.apply(Spread()), DataStream[tuple[str, int]])
    assert_type(tumbling.process(Ends()), DataStream[int])
    late: OutputTag[Sale] = OutputTag("late")
    counted = tumbling.side_output_late_data(late).process(Ends())
    assert_type(counted.get_side_output(late), DataStream[Sale])
    sessions = sales().key_by(item).window(EventTimeSessionWindows.with_gap(5))
    assert_type(sessions, WindowedStream[Sale, str, TimeWindow])
    everything = sales().key_by(item).window(GlobalWindows.create()).trigger(CountTrigger.of(2))
    assert_type(everything, WindowedStream[Sale, str, GlobalWindow])
    assert_type(sales().key_by(item).count_window(2), WindowedStream[Sale, str, GlobalWindow])
    assert sorted(tumbling.aggregate(Prices(), with_end).execute_and_collect(limit=3)) == [
        (10, "3"),
        (10, "5"),
        (20, "2"),
    ]


def windows_without_keys() -> None:
    all_sales = sales().window_all(TumblingEventTimeWindows.of(10))
    assert_type(all_sales, AllWindowedStream[Sale, TimeWindow])
    assert_type(all_sales.aggregate(Prices()), DataStream[str])
    assert_type(all_sales.apply(lambda window, found: [window.start + len(found)]), DataStream[int])
    assert_type(local([3, 1]).count_window_all(2), AllWindowedStream[int, GlobalWindow])


# ---- two inputs


class AsText(CoMapFunction[int, str, str]):
    def map1(self, value: int) -> str:
        return str(value)

    def map2(self, value: str) -> str | None:
        return value or None


class Words(CoFlatMapFunction[int, str, str]):
    def flat_map1(self, value: int) -> list[str]:
        return ["number"] * value

    def flat_map2(self, value: str) -> Iterator[str]:
        yield from value.split()


class Merge(CoProcessFunction[int, str, float]):
    def process_element1(self, value: int, ctx: CoProcessFunction.Context) -> Iterator[float]:
        yield float(value)

    def process_element2(self, value: str, ctx: CoProcessFunction.Context) -> None:
        ctx.output(bad, value)


class Both(KeyedCoProcessFunction[str, int, str, str]):
    def process_element1(self, value: int, ctx: KeyedCoProcessFunction.Context[str]) -> Iterator[str]:
        yield ctx.get_current_key()

    def process_element2(self, value: str, ctx: KeyedCoProcessFunction.Context[str]) -> list[str]:
        return [ctx.get_current_key(), value]


def connected() -> None:
    numbers = local([1, 2])
    connected = numbers.connect(numbers.map(str))
    assert_type(connected, ConnectedStreams[int, str])
    assert_type(connected.map(AsText()), DataStream[str])
    assert_type(connected.flat_map(Words()), DataStream[str])
    assert_type(connected.process(Merge()), DataStream[float])
    keyed = connected.key_by(str, lambda text: text)
    assert_type(keyed, ConnectedStreams[int, str])
    assert_type(keyed.process(Both()), DataStream[str])
    assert sorted(keyed.process(Both()).execute_and_collect(limit=6)) == ["1", "1", "1", "2", "2", "2"]


names = MapStateDescriptor[int, str]("names")


class Named(BroadcastProcessFunction[int, tuple[int, str], str]):
    def process_element(self, value: int, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[str]:
        name = ctx.get_broadcast_state(names).get(value)
        assert_type(name, str | None)
        yield name or "?"

    def process_broadcast_element(self, value: tuple[int, str], ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(names).put(value[0], value[1])


class NamedByKey(KeyedBroadcastProcessFunction[str, int, tuple[int, str], str]):
    def process_element(self, value: int, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext[str]) -> Iterator[str]:
        assert_type(ctx.get_current_key(), str)
        yield ctx.get_broadcast_state(names).get(value) or ctx.get_current_key()

    def process_broadcast_element(self, value: tuple[int, str], ctx: KeyedBroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(names).put(value[0], value[1])


def broadcast() -> None:
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    spread = env.from_collection([(1, "one")]).broadcast(names)
    assert_type(spread, BroadcastStream[tuple[int, str]])
    numbers = env.from_collection([1, 2])
    assert_type(numbers.connect(spread), BroadcastConnectedStream[int, tuple[int, str]])
    assert_type(numbers.connect(spread).process(Named()), DataStream[str])
    keyed = numbers.key_by(str).connect(spread).process(NamedByKey())
    assert_type(keyed, DataStream[str])
    assert keyed.execute_and_collect(limit=2) == ["one", "2"]


# ---- joins


class Gap(ProcessJoinFunction[Sale, Sale, int]):
    def process_element(self, left: Sale, right: Sale, ctx: ProcessJoinFunction.Context) -> Iterator[int]:
        yield ctx.get_right_timestamp() - ctx.get_left_timestamp()


def pairs(left: Sale, right: str) -> Iterator[tuple[int, str]]:
    yield left.price, right


def joins() -> None:
    sold = sales()
    other = sold.map(item)
    joined = sold.join(other).where(item).equal_to(lambda name: name).window(TumblingEventTimeWindows.of(10))
    assert_type(joined.apply(lambda sale, name: f"{name}: {sale.price}"), DataStream[str])
    assert_type(joined.apply(pairs), DataStream[tuple[int, str]])
    grouped = sold.co_group(other).where(item).equal_to(lambda name: name).window(TumblingEventTimeWindows.of(10))
    assert_type(grouped.apply(lambda found, texts: [len(found) + len(texts)]), DataStream[int])
    by_item = sold.key_by(item)
    assert_type(by_item.interval_join(by_item).between(0, timedelta(seconds=1)).process(Gap()), DataStream[int])


# ---- asynchronous functions


class Lookup(AsyncFunction[str, int]):
    async def open(self, runtime_context: RuntimeContext) -> None:
        self.prices = {"tea": 3}

    async def async_invoke(self, value: str) -> list[int]:
        return [self.prices[value]]


async def ask(value: str) -> list[float]:
    return [float(len(value))]


def look_up(value: str) -> list[int]:
    return [len(value)]


def asynchronous() -> None:
    words = local(["tea"])
    assert_type(AsyncDataStream.ordered_wait(words, Lookup(), timeout=timedelta(seconds=5)), DataStream[int])
    assert_type(AsyncDataStream.unordered_wait(words, ask, timeout=5000), DataStream[float])
    assert_type(AsyncDataStream.unordered_wait(words, blocking(look_up), timeout=5000), DataStream[int])
    assert_type(AsyncDataStream.unordered_wait(words, cached(ask, 1000), timeout=5000), DataStream[float])
    assert AsyncDataStream.ordered_wait(words, Lookup(), timeout=5000).execute_and_collect(limit=1) == [3]


# ---- timestamps


class At(TimestampAssigner[Sale]):
    def extract_timestamp(self, value: Sale, record_timestamp: int) -> int:
        return value.at


def timestamps() -> None:
    strategy: WatermarkStrategy[Sale] = WatermarkStrategy.for_monotonous_timestamps()
    assert_type(strategy.with_timestamp_assigner(At()), WatermarkStrategy[Sale])
    assert_type(local(SALES).assign_timestamps_and_watermarks(strategy), DataStream[Sale])
    loose = WatermarkStrategy.for_bounded_out_of_orderness(5).with_timestamp_assigner(lambda event, _: event.at)
    assert_type(local(SALES).assign_timestamps_and_watermarks(loose), DataStream[Sale])


# ---- without type arguments


class Untyped(MapFunction):
    def map(self, value: Any) -> Any:
        return value


def gradual(stream: DataStream) -> DataStream:
    return stream.map(Untyped()).key_by(lambda value: value).reduce(lambda one, other: one)


PROGRAMS = [
    sources_and_sinks,
    results,
    stateless,
    partitioning,
    unions,
    side_outputs,
    keys,
    state,
    windows,
    windows_without_keys,
    connected,
    broadcast,
    joins,
    asynchronous,
    timestamps,
]
