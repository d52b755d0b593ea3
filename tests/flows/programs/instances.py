"""Programs that use one function object in several operators: each operator has a copy of its own.

The functions accept positive numbers or negative ones, whichever they see first, and fail on the others. Every program
gives the object positive numbers in one operator and negative ones in another.
"""

from dataclasses import dataclass

from funken import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CoMapFunction,
    CoProcessFunction,
    CountTrigger,
    FilterFunction,
    FlatMapFunction,
    GlobalWindows,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    MapStateDescriptor,
    NumberSequenceSource,
    Partitioner,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    Sink,
    SinkWriter,
    Source,
    TimestampAssigner,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from tests.flows.programs.catalogue import numbers, program

LAST = 20
POSITIVE = list(range(1, LAST + 1))
BOTH = [sign * number for number in POSITIVE for sign in (1, -1)]


class OneSign:
    """Fails if it is given numbers of both signs."""

    sign = None

    def check(self, number):
        sign = number > 0
        if self.sign is None:
            self.sign = sign
        assert sign is self.sign, "one instance serves two operators"
        return number


def negative(number):
    return -number


def two(env):
    """Positive numbers, and negative ones."""
    positive = numbers(env, 1, LAST)
    return positive, positive.map(negative)


def always_one(number):
    return 1


# ---- one chain


class Map(OneSign, MapFunction):
    def map(self, value):
        return self.check(value)


@program([-number for number in POSITIVE])
def a_map_function_twice_in_one_chain(env):
    function = Map()
    return numbers(env, 1, LAST).map(function).map(negative).map(function)


class Opened(ProcessFunction):
    opened = 0

    def open(self, runtime_context):
        self.opened += 1

    def process_element(self, value, ctx):
        yield self.opened


@program([1] * LAST + [1] * LAST)
def a_function_is_opened_once_where_it_is_used_twice(env):
    function = Opened()
    positive, minus = two(env)
    return positive.process(function).union(minus.process(function))


@program(BOTH)
def a_function_whose_method_is_given_twice(env):
    function = Map()
    positive, minus = two(env)
    return positive.map(function.map).union(minus.map(function.map))


@program(BOTH)
def a_function_with_a_closure_used_twice(env):
    shared = OneSign()
    positive, minus = two(env)
    return positive.map(lambda number: +shared.check(number)).union(minus.map(lambda number: +shared.check(number)))


# ---- each kind of function


class Filter(OneSign, FilterFunction):
    def filter(self, value):
        return bool(self.check(value))


class FlatMap(OneSign, FlatMapFunction):
    def flat_map(self, value):
        yield self.check(value)


class Process(OneSign, ProcessFunction):
    def process_element(self, value, ctx):
        yield self.check(value)


class Async(OneSign, AsyncFunction):
    async def async_invoke(self, value):
        return [self.check(value)]


@program(BOTH)
def a_filter_function_twice(env):
    function = Filter()
    positive, minus = two(env)
    return positive.filter(function).union(minus.filter(function))


@program(BOTH)
def a_flat_map_function_twice(env):
    function = FlatMap()
    positive, minus = two(env)
    return positive.flat_map(function).union(minus.flat_map(function))


@program(BOTH)
def a_process_function_twice(env):
    function = Process()
    positive, minus = two(env)
    return positive.process(function).union(minus.process(function))


@program(BOTH)
def an_async_function_twice(env):
    function = Async()
    positive, minus = two(env)
    return AsyncDataStream.unordered_wait(positive, function, "20 s").union(
        AsyncDataStream.unordered_wait(minus, function, "20 s")
    )


class Running(KeyedProcessFunction):
    """Sums in state, and in the object."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", default=0))
        self.all = 0

    def process_element(self, value, ctx):
        self.sum.update(self.sum.value() + value)
        self.all += value
        assert self.sum.value() == self.all
        yield value


@program(BOTH)
def a_keyed_process_function_twice(env):
    function = Running()
    positive, minus = two(env)
    return positive.key_by(always_one).process(function).union(minus.key_by(always_one).process(function))


class Keyless(ProcessFunction, KeyedProcessFunction):
    """Has state where there is a key."""

    def open(self, runtime_context):
        self.context = runtime_context

    def process_element(self, value, ctx):
        state = None if value < 0 else self.context.get_state(ValueStateDescriptor("seen"))
        if state is not None:
            state.update(True)
        yield value


@program(BOTH)
def a_function_on_a_keyed_stream_and_on_another(env):
    function = Keyless()
    positive, minus = two(env)
    return positive.key_by(always_one).process(function).union(minus.process(function))


class Reduce(OneSign, ReduceFunction):
    def reduce(self, value1, value2):
        return self.check(value2)


@program(BOTH)
def a_reduce_function_twice(env):
    function = Reduce()
    positive, minus = two(env)
    return positive.key_by(always_one).reduce(function).union(minus.key_by(always_one).reduce(function))


class Signs(OneSign, CoMapFunction):
    def map1(self, value):
        return self.check(value)

    def map2(self, value):
        return self.check(value)


class CoSigns(OneSign, CoProcessFunction):
    def process_element1(self, value, ctx):
        yield self.check(value)

    def process_element2(self, value, ctx):
        yield self.check(value)


@program(BOTH + BOTH)
def a_co_map_function_twice(env):
    function = Signs()
    positive, minus = two(env)
    return positive.connect(positive).map(function).union(minus.connect(minus).map(function))


@program(BOTH + BOTH)
def a_co_process_function_twice(env):
    function = CoSigns()
    positive, minus = two(env)
    return positive.connect(positive).process(function).union(minus.connect(minus).process(function))


class Broadcast(OneSign, BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield self.check(value)

    def process_broadcast_element(self, value, ctx):
        self.check(value)


@program(BOTH)
def a_broadcast_function_twice(env):
    function, state = Broadcast(), MapStateDescriptor("rules")
    positive, minus = two(env)
    return (
        positive.connect(positive.broadcast(state))
        .process(function)
        .union(minus.connect(minus.broadcast(state)).process(function))
    )


# ---- windows


class Last(OneSign, AggregateFunction):
    def create_accumulator(self):
        return None

    def add(self, value, accumulator):
        return self.check(value)

    def get_result(self, accumulator):
        return accumulator


class Window(OneSign, ProcessWindowFunction):
    def process(self, key, context, elements):
        return [self.check(element) for element in elements]


@program(BOTH)
def an_aggregate_function_twice(env):
    function = Last()
    positive, minus = two(env)
    return (
        positive.key_by(always_one)
        .count_window(1)
        .aggregate(function)
        .union(minus.key_by(always_one).count_window(1).aggregate(function))
    )


@program(BOTH)
def a_window_function_twice(env):
    function = Window()
    positive, minus = two(env)
    return (
        positive.key_by(always_one)
        .count_window(1)
        .process(function)
        .union(minus.key_by(always_one).count_window(1).process(function))
    )


class EachElement(OneSign, CountTrigger):
    def on_element(self, element, timestamp, window, ctx):
        self.check(element)
        return super().on_element(element, timestamp, window, ctx)


@program(BOTH)
def a_trigger_twice(env):
    trigger = EachElement(1)
    positive, minus = two(env)

    def latest(stream):
        windowed = stream.key_by(always_one).window(GlobalWindows.create()).trigger(trigger)
        return windowed.reduce(lambda old, new: new)

    return latest(positive).union(latest(minus))


# ---- keys, partitions, time


class Key(OneSign, KeySelector):
    def get_key(self, value):
        return abs(self.check(value)) % 3


@program(BOTH)
def a_key_selector_twice(env):
    key = Key()
    positive, minus = two(env)
    return positive.key_by(key).map(abs).union(minus.key_by(key).map(lambda number: -abs(number)))


class Parity(OneSign, Partitioner):
    def partition(self, key, num_partitions):
        return self.check(key) % num_partitions


@program(BOTH)
def a_partitioner_twice(env):
    partitioner, key = Parity(), Map().map
    positive, minus = two(env)
    return (
        positive.partition_custom(partitioner, key)
        .map(abs)
        .union(minus.partition_custom(partitioner, key).map(lambda number: -abs(number)))
    )


class Stamp(OneSign, TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return abs(self.check(value))


@program(BOTH)
def a_watermark_strategy_twice(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
    positive, minus = two(env)
    return positive.assign_timestamps_and_watermarks(strategy).union(minus.assign_timestamps_and_watermarks(strategy))


# ---- sources and sinks


class OneReader(Source):
    """Makes one reader."""

    made = 0
    boundedness = NumberSequenceSource(1, LAST).boundedness

    def enumerator(self, parallelism):
        return NumberSequenceSource(1, LAST).enumerator(parallelism)

    def reader(self, context):
        self.made += 1
        assert self.made == 1, "one instance serves two operators"
        return NumberSequenceSource(1, LAST).reader(context)


@program(BOTH)
def a_source_twice(env):
    source = OneReader()
    first = env.from_source(source, WatermarkStrategy.no_watermarks(), "first")
    second = env.from_source(source, WatermarkStrategy.no_watermarks(), "second")
    return first.union(second.map(negative))


@dataclass
class OneWriter(Sink):
    """Makes one writer, which appends lines to files of its own."""

    folder: str
    made: int = 0

    def writer(self, context):
        self.made += 1
        assert self.made == 1, "one instance serves two operators"
        return Lines(f"{self.folder}/part-{context.operator}-{context.subtask}")


class Lines(SinkWriter):
    def __init__(self, path):
        self.path = path

    def write(self, values, timestamps, now):
        with open(self.path, "a") as file:
            file.writelines(f"{value}\n" for value in values)


@program([str(number) for number in BOTH], writes=True)
def a_sink_twice(env, folder):
    sink = OneWriter(folder)
    positive, minus = two(env)
    positive.sink_to(sink).name("positive")
    minus.sink_to(sink).name("negative")
