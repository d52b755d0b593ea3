"""The mistakes of a first day: each is refused where it is made or said while the job runs, with the fact and the remedy."""

import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import pytest

import funken
from funken import (
    AggregateFunction,
    AsyncDataStream,
    BroadcastProcessFunction,
    Configuration,
    CountTrigger,
    DataGeneratorSource,
    Encoder,
    FileSink,
    FilterFunction,
    GlobalWindows,
    InvalidProgram,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    Row,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.cep import CEP, Pattern
from funken.connectors import SimpleStringSchema
from funken.connectors.kafka import KafkaSource
from funken.dataset import ExecutionEnvironment
from funken.errors import InvalidConfiguration, OperatorFailed
from funken.plan.advice import advise
from funken.runtime.driver.diagnosis import JobDiagnosis

counted = 0
gathered = []


class WithCollector(ProcessFunction):
    def process_element(self, value, ctx, out):
        out.collect(value)


class KeyedWithCollector(KeyedProcessFunction):
    def process_element(self, value, ctx, out):
        out.collect(value)


def keep_large(value):
    value > 1  # noqa: B015 - the mistake


def keep_large_at(value, before):
    value > 1  # noqa: B015 - the mistake


def kafka(servers):
    builder = KafkaSource.builder().set_bootstrap_servers(servers).set_topics("orders")
    return builder.set_value_only_deserializer(SimpleStringSchema()).build()


def count(value):
    global counted  # noqa: PLW0603 - the mistake
    counted += 1
    return value


def gather(value):
    gathered.append(value)
    return value


def remember(value, seen=[]):  # noqa: B006 - the mistake
    seen.append(value)
    return value


class WrongTimer(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value

    def on_timer(self, ctx):
        yield ctx


class Silent(ProcessFunction):
    def process_element(self, value, ctx):
        value + 1


class Timers(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(5)
        yield value


class Counter(KeyedProcessFunction):
    def __init__(self):
        self.count = 0

    def process_element(self, value, ctx):
        self.count += 1
        yield self.count


class Reads(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value, ctx):
        yield self.seen.value()


class Seen(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value, ctx):
        seen = self.seen.value() or []
        seen.append(value)
        yield len(seen)


def stamped(stream, at):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: at + value)
    return stream.assign_timestamps_and_watermarks(strategy)


def unread(stream):
    stream.filter(bool)
    return stream


def in_a_loop(stream):
    for step in (1, 2):
        later = stream.map(lambda value: value + step)  # noqa: B023 - the mistake
        if step == 1:
            first = later
    return first.union(later)


tallies = {}


def tally(value):
    tallies[value] = tallies.get(value, 0) + 1
    return value


class Mean(AggregateFunction):
    """Never made: the class itself is given."""


class Rules(BroadcastProcessFunction):
    """Never run."""


class Lost(ProcessFunction):
    def process_element(self, value, ctx):
        if value > 1:
            return [value]
        yield value


def lost(value):
    if value > 1:
        return [value]
    yield value


class Append(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen"))

    def process_element(self, value, ctx):
        self.seen.append(value)


class Described(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = ValueStateDescriptor("seen")

    def process_element(self, value, ctx):
        yield self.seen.value()


class State(KeyedProcessFunction):
    """Calls a method of a state of a kind."""

    def __init__(self, descriptor, call):
        self.descriptor, self.call = descriptor, call

    def open(self, runtime_context):
        kind = "map_" if isinstance(self.descriptor, MapStateDescriptor) else ""
        kind = "list_" if isinstance(self.descriptor, ListStateDescriptor) else kind
        self.state = getattr(runtime_context, f"get_{kind}state")(self.descriptor)

    def process_element(self, value, ctx):
        yield self.call(self.state)


class AtTimer(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer("10 s")

    def on_timer(self, timestamp, ctx):
        yield timestamp


class AccumulatorFirst(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, accumulator, value):
        return accumulator + value[1]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, one, other):
        return one + other


@dataclass
class Mutable:
    name: str


def nap(value):
    time.sleep(0)
    return value


async def scalar(value):
    return value


async def sleepy(value):
    time.sleep(0)
    return [value]


class TextFilter(FilterFunction):
    def filter(self, value):
        return "no"


@pytest.fixture
def env():
    made = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": "local"}))
    return made.set_parallelism(1)


REFUSED = {
    "a map of two parameters": (
        lambda env: env.from_collection([("a", 1)]).map(lambda key, value: value),
        r"map\(\) calls its function with 1 argument \(the record\), but '<lambda>' takes \(key, value\). Take one parameter",
    ),
    "a filter without parameters": (
        lambda env: env.from_collection([1]).filter(lambda: True),
        r"filter\(\) calls its function with 1 argument \(the record\), but '<lambda>' takes \(\)",
    ),
    "a reduce of one parameter": (
        lambda env: env.from_collection([1]).key_by(lambda x: x).reduce(lambda x: x),
        r"reduce\(\) calls its function with 2 arguments \(the result so far, the record\), but '<lambda>' takes \(x\)",
    ),
    "a process function with a collector": (
        lambda env: env.from_collection([1]).process(WithCollector()),
        r"takes \(value, ctx, out\). There is no collector: yield the results",
    ),
    "a keyed process function with a collector": (
        lambda env: env.from_collection([1]).key_by(lambda x: x).process(KeyedWithCollector()),
        r"takes \(value, ctx, out\). There is no collector: yield the results",
    ),
    "a flat map with a collector": (
        lambda env: env.from_collection(["a b"]).flat_map(lambda line, out: out.collect(line)),
        "there is no collector: yield the results",
    ),
    "records for a list of the program": (
        lambda env: env.from_collection([1]).for_each(gathered.append),
        r"for_each\(\) got list.append: it would fill a copy in each worker.*execute_and_collect\(\)",
    ),
    "a union with a list": (
        lambda env: env.from_collection([1]).union([2]),
        r"union\(\) takes streams, but got \[2\] \(list\). Make one of it with from_collection\(\)",
    ),
    "a stream connected with a text": (
        lambda env: env.from_collection([1]).connect("words"),
        r"connect\(\) takes streams, but got 'words' \(str\)",
    ),
    "a loop over a stream": (
        lambda env: [value for value in env.from_collection([1])],
        r"<DataStream of 'collection'> has no records here.*execute_and_collect\(\) returns them",
    ),
    "the length of a stream": (lambda env: len(env.from_collection([1])), "has no records here.* it has no length"),
    "a record by its number": (lambda env: env.from_collection([1])[0], "has no records here.* no items"),
    "a stream as a condition": (lambda env: not env.from_collection([1]), "has no records here.* no truth value"),
    "streams that are added": (
        lambda env: env.from_collection([1]) + env.from_collection([2]),
        r"union\(\) puts the records",
    ),
    "a key selector without return": (
        lambda env: env.from_collection([1]).key_by(keep_large),
        r"key_by\(\): its function 'keep_large' \(test_first_day.py, line \d+\) returns nothing. Return the key",
    ),
    "a builder that was not built": (
        lambda env: env.from_source(KafkaSource.builder().set_topics("orders")),
        r"from_source\(\) needs a Source, but got KafkaSourceBuilder.* Call build\(\) at its end",
    ),
    "a text for offsets": (
        lambda env: KafkaSource.builder().set_starting_offsets("earliest"),
        r"set_starting_offsets\(\) needs a KafkaOffsetsInitializer, but got 'earliest'",
    ),
    "a list for a source": (
        lambda env: env.from_source([1]),
        r"needs a Source, but got \[1\]. from_collection\(\) reads a list",
    ),
    "a path for a sink": (lambda env: env.from_collection([1]).sink_to("out"), "needs a Sink, but got 'out'.*FileSink"),
    "a strategy that is not called": (
        lambda env: env.from_collection([1]).assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks),
        "needs a WatermarkStrategy.* It is a method that was not called",
    ),
    "a function for a strategy": (
        lambda env: env.from_collection([1]).assign_timestamps_and_watermarks(lambda record: record),
        "needs a WatermarkStrategy, but got <function.* Give WatermarkStrategy.for_monotonous_timestamps",
    ),
    "a timestamp assigner of one parameter": (
        lambda env: WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda record: record),
        r"calls its function with 2 arguments \(the record, its timestamp so far\), but '<lambda>' takes \(record\)",
    ),
    "the class of windows": (
        lambda env: env.from_collection([1]).key_by(str).window(TumblingEventTimeWindows),
        r"window\(\) needs a WindowAssigner.* That is the class",
    ),
    "the class of an aggregate": (
        lambda env: env.from_collection([1]).key_by(str).count_window(1).aggregate(Mean),
        r"aggregate\(\) needs an AggregateFunction object, but got .*Give an object: Mean\(\)",
    ),
    "a function for a window function object": (
        lambda env: env.from_collection([1]).key_by(str).count_window(1).process(lambda records: records),
        r"needs a ProcessWindowFunction, .*apply\(\) takes a function of the key, the window and the records",
    ),
    "one function for two streams": (
        lambda env: env.from_collection([1]).connect(env.from_collection([2])).map(lambda value: value),
        "a CoMapFunction with the methods .* is needed, .*Define a subclass of CoMapFunction",
    ),
    "a broadcast without states": (
        lambda env: env.from_collection([1]).connect(env.from_collection([2]).broadcast()).process(Rules()),
        r"Give the stream beside it its states: broadcast\(MapStateDescriptor",
    ),
    "a text for the count of a trigger": (lambda env: CountTrigger.of("3"), "CountTrigger needs an int, but got '3'"),
    "a number for an evictor": (
        lambda env: env.from_collection([1]).key_by(str).count_window(2).evictor(5),
        r"evictor\(\) needs an Evictor, but got 5. Give CountEvictor",
    ),
    "a text for the tag of late records": (
        lambda env: env.from_collection([1]).key_by(str).window(GlobalWindows.create()).side_output_late_data("late"),
        r"side_output_late_data\(\) needs an OutputTag, but got 'late'. Give OutputTag\('late'\)",
    ),
    "a text for a time to live": (
        lambda env: ValueStateDescriptor("seen").enable_time_to_live("1 h"),
        r"needs a StateTtlConfig, but got '1 h'. Give StateTtlConfig.new_builder\('1 h'\).build\(\)",
    ),
    "a delay that is negative": (
        lambda env: WatermarkStrategy.for_bounded_out_of_orderness("-5 s"),
        r"for_bounded_out_of_orderness\(\) needs a delay from 0 ms on, but got -5000 ms",
    ),
    "a function for a collection": (
        lambda env: env.from_collection(keep_large),
        r"needs a list or another collection, .*Call the function: put \(\)",
    ),
    "a pattern's condition without return": (
        lambda env: Pattern.begin("large").where(keep_large),
        r"pattern 'large': its function 'keep_large' \(.*\) returns nothing. Return the condition",
    ),
    "a function of a match with two parameters": (
        lambda env: CEP.pattern(env.from_collection([1]), Pattern.begin("one")).select(lambda one, two: one),
        r"select\(\) calls its function with 1 argument \(the match\), but '<lambda>' takes \(one, two\)",
    ),
    "a function of a match without return": (
        lambda env: CEP.pattern(env.from_collection([1]), Pattern.begin("one")).select(keep_large),
        r"select\(\): its function 'keep_large' .* returns nothing. Return the result",
    ),
    "a function for an output of a batch program": (
        lambda env: ExecutionEnvironment.create_local_environment().from_elements(1).output(print),
        r"output\(\) needs an OutputFormat, .*write_as_text\(\)",
    ),
    "a number for windows": (
        lambda env: env.from_collection([1]).key_by(str).window(5),
        r"window\(\) needs a WindowAssigner, but got 5. Give TumblingEventTimeWindows.of\('5 s'\)",
    ),
    "the class of a trigger": (
        lambda env: env.from_collection([1]).key_by(str).window(GlobalWindows.create()).trigger(CountTrigger),
        r"trigger\(\) needs a Trigger.* That is the class",
    ),
    "a text for a count": (
        lambda env: env.from_collection([1]).key_by(str).count_window("2"),
        "a count window needs a size from 1 on and a slide from 0 on, not '2' and 0",
    ),
    "windows without a length": (lambda env: TumblingEventTimeWindows.of(0.5), "a size is 1 ms or more"),
    "a window function of one parameter": (
        lambda env: env.from_collection([1]).key_by(str).count_window(1).apply(lambda records: records),
        r"apply\(\) calls its function with 3 arguments \(the key, the window, the records\), but '<lambda>' takes \(records\)",
    ),
    "a timer function of one parameter": (
        lambda env: env.from_collection([1]).key_by(str).process(WrongTimer()),
        r"whose on_timer\(\) takes \(self, ctx\), but Funken calls it with \(self, timestamp, ctx\)",
    ),
    "a key by its name": (
        lambda env: env.from_collection([{"a": 1}]).key_by("a"),
        r"Write lambda record: record\['a'\]",
    ),
    "the result of a function": (lambda env: env.from_collection([1]).map("A".lower()), "and do not call it"),
    "a number for a collection": (lambda env: env.from_collection(5), r"needs a list or another collection, but got 5"),
    "a number for a path": (lambda env: env.read_text_file(5), r"read_text_file\(\) needs a path"),
    "a number for a name": (lambda env: env.from_collection([1]).map(str).name(5), r"name\(\) needs a str, but got 5"),
    "a number for a uid": (lambda env: env.from_collection([1]).map(str).uid(5), r"uid\(\) needs a str, but got 5"),
    "a text for a mode": (
        lambda env: env.set_runtime_mode("BATCH"),
        "needs a RuntimeExecutionMode, but got 'BATCH'. Give",
    ),
    "no time between checkpoints": (
        lambda env: env.enable_checkpointing(0),
        "Pass the time between two checkpoints",
    ),
    "a type that is not called": (lambda env: env.from_collection(["a"], Types.STRING), r"Call it: Types.STRING\(\)"),
    "a union with another environment": (
        lambda env: env.from_collection([1]).union(
            StreamExecutionEnvironment.create_local_environment().from_collection([2])
        ),
        "streams of one environment only: read the other source with the same env",
    ),
    "a text for a tag": (
        lambda env: env.from_collection([1]).process(lambda x, ctx: [x]).get_side_output("late"),
        r"get_side_output\(\) needs an OutputTag, but got .late.. Give OutputTag\(.late.\)",
    ),
    "a timestamp assigner without return": (
        lambda env: env.from_collection([1]).assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(keep_large_at)
        ),
        r"with_timestamp_assigner\(\): its function 'keep_large_at' \(.*\) returns nothing. Return the time of the record",
    ),
    "a timestamp assigner without return, of a source": (
        lambda env: env.from_source(
            DataGeneratorSource(str, 1),
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(keep_large_at),
        ),
        "returns nothing. Return the time of the record",
    ),
    "a condition of three parameters": (
        lambda env: Pattern.begin("one").where(lambda event, context, more: True),
        r"but '<lambda>' \(test_first_day.py, line \d+\) takes 3 parameters. Take the event, and ask the context",
    ),
    "a plain function for asynchronous requests": (
        lambda env: AsyncDataStream.ordered_wait(env.from_collection([1]), keep_large, "5 s"),
        r"but got 'keep_large' \(test_first_day.py, line \d+\). For a function that blocks, give blocking\(function\)",
    ),
    "a URL for brokers": (
        lambda env: kafka("http://localhost:9092"),
        "'http://localhost:9092' is a URL of 'http'; brokers are named by 'host:port,host:port'",
    ),
    "a list for brokers": (
        lambda env: kafka(["localhost:9092"]),
        r"\['localhost:9092'\] is no text; brokers are named by",
    ),
    "a topic of bytes": (
        lambda env: KafkaSource.builder().set_topics(b"orders"),
        "b'orders' is no name of a topic; give a text such as 'orders'",
    ),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_it_is_refused_where_it_is_made(env, mistake):
    program, message = REFUSED[mistake]
    with pytest.raises((InvalidProgram, InvalidConfiguration, TypeError), match=message):
        program(env)


def test_a_program_is_executed_once(env):
    env.from_collection([1]).print()
    env.execute()
    with pytest.raises(
        InvalidProgram, match=r"Cannot execute. An execute\(\) takes the program with it: build the streams"
    ):
        env.execute()


def test_a_function_cannot_use_the_environment(env):
    env.from_collection([1]).map(lambda x: (x, env.get_parallelism())).name("wide").print()
    with pytest.raises(
        InvalidProgram, match="function of operator 'wide' refers to the StreamExecutionEnvironment; take"
    ):
        env.execute()


def test_a_function_cannot_use_a_stream(env):
    names = env.from_collection(["a", "b"]).name("names")
    env.from_collection([1]).map(lambda x: (x, names)).name("named").print()
    with pytest.raises(
        InvalidProgram, match="function of operator 'named' refers to <DataStream of 'names'>, a stream of the"
    ):
        env.execute()


def test_an_operator_without_side_outputs_is_asked_for_one(env):
    env.from_collection([1]).map(lambda x: x).name("plain").get_side_output(OutputTag("late")).print()
    with pytest.raises(
        InvalidProgram, match=r"operator 'plain' has no side output 'late'.*yield \(output_tag, record\)"
    ):
        env.execute()


late = OutputTag("late", Types.INT())


class Late(ProcessFunction):
    def process_element(self, value, ctx):
        yield late, value


@pytest.mark.parametrize(
    ("function", "tag", "message"),
    [
        (
            Late(),
            OutputTag("latest"),
            r"no side output 'latest'.*test_first_day.py, line \d+.*writes to 'late'. Did you mean 'late'",
        ),
        (
            Late(),
            OutputTag("late", Types.STRING()),
            "writes Integer to its side output 'late', but it is read as String",
        ),
        (
            lambda value, ctx: [("late", value)],
            OutputTag("late"),
            "'late', which is read .* its function writes to none",
        ),
    ],
)
def test_a_side_output_that_nobody_writes_is_refused(env, function, tag, message):
    env.from_collection([1]).process(function).get_side_output(tag).print()
    with pytest.raises(InvalidProgram, match=message):
        env.execute()


@pytest.mark.parametrize(
    ("records", "aggregate", "message"),
    [
        (
            [1, 2],
            lambda keyed: keyed.sum(3),
            r"'sum' needs field 3, but 1 \(int\) is a single value: the position must be 0 on a basic type",
        ),
        (
            [("a", 1)],
            lambda keyed: keyed.max(2),
            r"'max' needs field 2, but \('a', 1\) \(tuple\) has the fields 0 to 1",
        ),
        ([{"n": 1}], lambda keyed: keyed.sum("m"), r"'sum' needs field 'm', but {'n': 1} \(dict\) has the field 'n'"),
        ([{"n": "1"}], lambda keyed: keyed.sum("n"), "'sum' adds numbers, but field 'n' of {'n': '1'} is the str '1'"),
        ([1, 2], lambda keyed: keyed.count_window(1).min_by(3), "'min_by' needs field 3"),
    ],
)
def test_the_first_record_shows_that_a_field_is_missing(env, records, aggregate, message):
    aggregate(env.from_collection(records).key_by(str)).print()
    with pytest.raises(OperatorFailed, match=message):
        env.execute()


class WrongState(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ListStateDescriptor("seen"))

    def process_element(self, value, ctx):
        yield value


class StateAsNumber(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        yield self.count + 1


class NoState(KeyedProcessFunction):
    def opne(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        yield self.count.value()


@pytest.mark.parametrize(
    ("records", "build", "hint"),
    [
        ([{"name": "ann"}], lambda stream: stream.map(lambda d: d.name), r"an item: write record\['name'\]"),
        ([{"name": "ann"}], lambda stream: stream.map(lambda d: d["nmae"]), "The record has the field 'name'"),
        ([("a", 1)], lambda stream: stream.map(lambda p: p[2]), "The record has the fields 0 to 1"),
        ([("a", 1)], lambda stream: stream.map(lambda p: p["a"]), "The record has the fields 0 to 1"),
        (["a"], lambda stream: stream.map(lambda word: word.uper()), r"Did you mean upper\?"),
        (["a"], lambda stream: stream.map(lambda word: word.upper.strip()), r"upper is a method: call it, with \(\)"),
        ([None], lambda stream: stream.map(lambda word: word.upper()), "None may be a state that was never updated"),
        (
            [1],
            lambda stream: stream.process(lambda value, ctx: [ctx.timestamp() + 1]),
            r"ctx.timestamp\(\) of a record without",
        ),
        (
            [1],
            lambda stream: stream.process(lambda value, ctx: ctx.collect(1)),
            "There is no collector: yield the results",
        ),
        ([1], lambda stream: stream.key_by(str).process(StateAsNumber()), r"A state is read with value\(\)"),
        (
            [1],
            lambda stream: stream.key_by(str).process(NoState()),
            r"Set self.count in open.* It defines opne\(\), not open",
        ),
        (
            [("a", 1)] * 3,
            lambda stream: stream.key_by(len).reduce(lambda a, b: a[1] + b[1]),
            "The result so far is the int 2, and the record a tuple: a reduce function returns a whole record",
        ),
        (
            [Row(1)],
            lambda stream: stream.map(lambda row: row["n"]),
            r"no field 'n'.* Write row\[0\], or make it with names",
        ),
        (
            [1],
            lambda stream: stream.process(lambda n, ctx: ctx.output("late", n)),
            r"needs an OutputTag, but got 'late'",
        ),
        ([1], lambda stream: stream.key_by(str).process(Append()), r"Use add\(\)"),
        (
            [1],
            lambda stream: stream.key_by(str).process(State(ListStateDescriptor("seen"), lambda seen: seen.value())),
            r"A ListState has no value: get\(\) reads all items, add\(value\) appends one",
        ),
        (
            [1],
            lambda stream: stream.key_by(str).process(State(ValueStateDescriptor("seen"), lambda seen: seen.get("a"))),
            r"A ValueState has no get: value\(\) reads it, update\(value\) writes it",
        ),
        (
            [1],
            lambda stream: stream.key_by(str).process(State(MapStateDescriptor("seen"), lambda seen: seen.get("a", 0))),
            r"It is MapState.get\(key\): get\(key\) reads a value or None, put\(key, value\) writes one",
        ),
        (
            [1],
            lambda stream: stream.key_by(str).process(State(ValueStateDescriptor("seen"), lambda seen: seen.update())),
            r"It is ValueState.update\(value\): ",
        ),
        (
            [1],
            lambda stream: stream.key_by(str).process(AtTimer()),
            r"a duration is no time; add it to one, as in ctx.timer_service\(\).current_processing_time\(\) \+ 10000",
        ),
        (
            [("a", 1)],
            lambda stream: stream.key_by(len).count_window(1).aggregate(AccumulatorFirst()),
            r"add\(\) is called with \(value, accumulator\), in this order: swap its parameters",
        ),
        (
            [[1, 2]],
            lambda stream: stream.map(lambda n: n + 1),
            r"The record is a list: from_collection\(\[...\]\) makes",
        ),
        (
            [{"n": 1}],
            lambda stream: (
                CEP.pattern(stream, Pattern.begin("one")).in_processing_time().select(lambda match: match["one"]["n"])
            ),
            r"A match has a list of events for each name: write match\[name\]\[0\] for the first",
        ),
        ([1], lambda stream: stream.key_by(str).process(Described()), "A descriptor only describes a state"),
        (
            [1],
            lambda stream: stream.key_by(str).process(lambda n, ctx: ctx.get_state("seen")),
            r"The runtime context has get_state\(\): open\(self, runtime_context\) gets it",
        ),
        ([1], lambda stream: stream.map(lambda n: n + timedelta(1)), "Timestamps and times of timers are milliseconds"),
        (
            [1],
            lambda stream: (
                CEP.pattern(stream, Pattern.begin("one")).in_processing_time().select(lambda match: match["once"])
            ),
            "The record has the field 'one'",
        ),
        (
            [1],
            lambda stream: AsyncDataStream.ordered_wait(stream, scalar, "5 s"),
            "should be of list type, but is 1. Please check the function 'scalar': return a list",
        ),
        (
            [1],
            lambda stream: stream.key_by(str).process(WrongState()),
            "needs a ValueStateDescriptor, but got ListStateD",
        ),
    ],
)
def test_a_failing_function_gets_a_hint(env, records, build, hint):
    build(env.from_collection(records)).print()
    with pytest.raises(OperatorFailed, match=hint):
        env.execute()


def test_a_dataclass_that_may_change_is_no_key(env):
    env.from_collection([Mutable("a")]).key_by(lambda record: record).reduce(lambda one, other: one).print()
    with pytest.raises(
        OperatorFailed,
        match=r"Declare Mutable with @dataclass\(frozen=True\), or return a field",
    ):
        env.execute()


lock = threading.Lock()


class WithLock:
    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, value):
        return value, self.lock.locked()


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda value: (value, lock.locked()), "'lock', a lock"),
        (WithLock(), "'self.lock', a lock"),
        (partial(lambda held, value: (value, held[0].lock), [WithLock()]), "'self.lock', a lock"),
    ],
)
def test_what_cannot_travel_is_named(env, function, name):
    stream = env.from_collection([1]).map(function).name("locked")
    with pytest.raises(
        InvalidProgram, match=f"operator 'locked': .* A function refers to {name} that cannot be pickled"
    ):
        stream.print()
        env.execute()


def test_records_that_are_read_no_more_are_said(env, caplog):
    numbers = env.from_source(DataGeneratorSource(str), WatermarkStrategy.no_watermarks(), "numbers")
    for record in numbers.execute_and_collect("endless"):
        assert record == "0"
        break  # and the iterator goes with the loop
    assert "job 'endless': its records are read no more, but it runs on" in caplog.text


def test_a_column_that_is_almost_numbers_is_warned_of(env, tmp_path, caplog):
    (tmp_path / "sales.csv").write_text("item,n,code\ntea,3,007\njam,4,008\nmilk,many,x\n")
    env.read_csv(str(tmp_path / "sales.csv"))

    found = re.findall(
        r"column '(\w+)' is read as text: (\d of \d) values are numbers, but '(\w+)' is none", caplog.text
    )
    assert found == [("n", "2 of 3", "many")]


def test_a_method_that_is_not_called_is_no_record(env):
    env.from_collection(["a"]).map(lambda word: word.upper).print()
    with pytest.raises(OperatorFailed, match=r"returned a builtin_function_or_method, which is no record. Call it"):
        env.execute()


@pytest.mark.parametrize(
    ("take", "message"),
    [
        (lambda env: env.form_collection, "Did you mean from_collection"),
        (lambda env: env.from_collection([1]).fliter, "Did you mean filter"),
        (lambda env: env.from_collection([1]).reduceByKey, r"use key_by\(\) and reduce\(\)"),
        (lambda env: env.from_collection([1]).peek, r"map\(\) with a function that returns its record"),
        (lambda env: env.from_collection([1]).turn, "It has, for example: "),
        (lambda env: env.from_collection([1]).print().nmae, "Did you mean name"),
        (lambda env: env.from_collection([1]).key_by(str).count_window(2).agregate, "Did you mean aggregate"),
        (lambda env: env.from_collection([1]).key_by(str).count_window(2).print, "streams have it, and reduce"),
        (
            lambda env: env.from_collection([1]).connect(env.from_collection([2])).filter,
            r"process\(\) makes one of the two",
        ),
        (lambda env: env.from_collection([1]).print().map, "a sink ends one"),
        (lambda env: env.map, r"from_collection\(\), from_source\(\)"),
        (lambda env: funken.StreamExecutionEnviroment, "Did you mean StreamExecutionEnvironment"),
    ],
)
def test_a_misspelt_name_is_guessed(env, take, message):
    with pytest.raises(AttributeError, match=message):
        take(env)


@pytest.mark.parametrize(
    ("mistake", "note"),
    [
        (
            lambda: ExecutionEnvironment.create_local_environment().from_elements(1).key_by,
            r"A data set has group_by\(\)",
        ),
        (lambda: Pattern.begin("a").follow, r"A Pattern has, for example: followed_by\(\)"),
        (lambda: Pattern.start, r"A Pattern has, for example: "),
        (lambda: Mean().get_runtime_context(), r"The runtime context comes to open\(self, runtime_context\)"),
        (
            WatermarkStrategy.for_bounded_out_of_orderness,
            r"for_bounded_out_of_orderness\(max_out_of_orderness\): ",
        ),
        (lambda: GlobalWindows.create(5), r"GlobalWindows.create\(\)"),
        (lambda: SlidingEventTimeWindows.of("5 s"), r"^of\(size, slide, offset=None\): Return windows"),
        (lambda: CountTrigger(size=1), r"^CountTrigger\(window_size\)"),
    ],
)
def test_a_note_has_the_names_or_the_parameters_that_there_are(mistake, note):
    with pytest.raises((AttributeError, TypeError)) as raised:
        mistake()
    advise(raised.value)

    assert re.search(note, "".join(raised.value.__notes__))


def test_errors_of_the_program_get_no_note():
    class GlobalWindows:
        @staticmethod
        def create():
            """Take nothing."""

    for mistake in (lambda: GlobalWindows.create(5), lambda: GlobalWindows.made, lambda: [].add, len):
        with pytest.raises((AttributeError, TypeError)) as raised:
            mistake()
        advise(raised.value)
        assert not hasattr(raised.value, "__notes__")


def test_two_sinks_in_one_folder_are_warned_of(env, tmp_path, caplog):
    encoder = Encoder.simple_string_encoder()
    numbers = env.from_collection([1, 2])
    for name, folder in (("all", "out"), ("again", "out/"), ("elsewhere", "other")):
        sink = FileSink.for_row_format(str(tmp_path / folder), encoder).build()
        numbers.sink_to(sink).name(name)
    env.execute()

    found = re.findall(
        "operator '(.*)': it writes to .*out, as does 'all': the folder gets the records of both", caplog.text
    )
    assert found == ["again"]


def test_a_join_without_a_window_names_its_clauses(env):
    one, other = env.from_collection([1]), env.from_collection([2])
    joined = one.join(other).where(abs).equal_to(abs)
    with pytest.raises(AttributeError, match=r"where\(\), equal_to\(\), window\(\) and apply\(\), in this order"):
        joined.apply(max)


def test_a_sink_in_the_folder_of_a_source_is_warned_of(env, tmp_path, caplog):
    (tmp_path / "a.txt").write_text("a\n")
    sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
    env.read_text_file(str(tmp_path)).sink_to(sink)
    env.execute()

    assert re.search("it writes to .*out, which .* reads: the next run takes the results for records", caplog.text)


@pytest.mark.parametrize(
    ("statement", "remedy"),
    [
        ("from funken.datastream import StreamExecutionEnvironment", "from funken import StreamExecutionEnvironment"),
        ("from funken import KafkaSource", "from funken.connectors.kafka import KafkaSource"),
        ("from funken.ml.clustering import (\n    KMeans,\n    load as l,\n)", "from funken.ml import KMeans, load"),
    ],
)
def test_an_import_from_elsewhere_is_written_out(tmp_path, statement, remedy):
    script = tmp_path / "job.py"
    script.write_text(f"{statement}\n")
    command = [sys.executable, "-m", "funken", "run", "--target", "local", script]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert ended.stderr.rstrip().endswith(f"Write: {remedy}")


def test_a_misspelt_import_is_guessed():
    with pytest.raises(ImportError, match="cannot import name 'OutputTags'. Did you mean OutputTag"):
        from funken import OutputTags  # noqa: F401


def test_a_script_shows_the_line_of_the_program_and_none_of_funkens(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(
        "from funken import OutputTag\n"
        "from funken.testing import local\n"
        "words = local(['to']).process(lambda word, ctx: [word])\n"
        "words.get_side_output(OutputTag('late')).execute_and_collect(limit=1)\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1
    assert ended.stderr.startswith(
        "InvalidProgram: operator 'process' has no side output 'late', which is read (job.py, line 4)"
    )
    assert ended.stderr.rstrip().endswith(
        "in " + str(script) + ", line 4: words.get_side_output(OutputTag('late')).execute_and_collect(limit=1)"
    )
    assert "Traceback" not in ended.stderr


def test_the_records_of_a_failing_map_are_a_side_output(env):
    dead = OutputTag("dead")
    numbers = env.from_collection(["1", "?"]).map(int)
    letters = numbers.get_side_output(dead).map(lambda letter: letter.record)
    numbers.on_error(dead)

    assert letters.execute_and_collect(limit=1) == ["?"]


def test_a_map_gives_no_generator(env):
    env.from_collection(["a b"]).map(lambda line: (word for word in line.split())).name("words").print()
    with pytest.raises(
        OperatorFailed, match=r"(?s)operator 'words'.*returned a generator, which is no record.*flat_map\(\)"
    ):
        env.execute()


@pytest.mark.parametrize(
    ("build", "warning"),
    [
        (
            lambda stream: stream.filter(keep_large),
            "'keep_large' .* returns nothing, so no record is kept. Return the condition",
        ),
        (lambda stream: stream.map(count), "'count' .* changes 'counted', of which each worker has a copy"),
        (
            lambda stream: stream.filter(lambda x: "False"),
            "returned the str 'False', not True or False: every str but the empty",
        ),
        (
            lambda stream: stream.map(str).filter(lambda x: x.isdigit),
            "a builtin_function_or_method is always true. Call it",
        ),
        (lambda stream: stream.key_by(str).filter(TextFilter()), "'filter' .* returned the str 'no'"),
        (
            lambda stream: stream.flat_map(lost),
            "'lost' .* yields, so it is a generator, and what it gives to return is lost",
        ),
        (
            lambda stream: stream.process(Lost()),
            "'process_element' .* what it gives to return is lost. Yield each result",
        ),
        (
            lambda stream: stream.map(nap),
            r"'nap' \(.*\) calls time.sleep\(\): the subtask does nothing else meanwhile.* AsyncDataStream and blocking",
        ),
        (
            lambda stream: AsyncDataStream.ordered_wait(stream, sleepy, "5 s"),
            r"'sleepy' .* calls time.sleep\(\), which stops",
        ),
        (
            lambda stream: (
                stamped(stream, 1_704_067_200_000)
                .key_by(str)
                .window(SlidingEventTimeWindows.of("1 s", "5 s"))
                .reduce(max)
            ),
            "its windows of 1 s begin every 5 s, so records between two windows are in none",
        ),
        (
            lambda stream: (
                stamped(stream, 1_704_067_200_000).key_by(str).window(TumblingEventTimeWindows.of(5)).reduce(max)
            ),
            "its windows last 5 ms: a number is milliseconds. Write a text .* such as '5 s'",
        ),
        (
            lambda stream: stream.key_by(str).window(TumblingProcessingTimeWindows.of(5)).reduce(max),
            "its windows last 5 ms: a number is milliseconds",
        ),
        (lambda stream: stream.flat_map(keep_large), "'keep_large' .* returns nothing, so no record comes of it"),
        (lambda stream: stream.map(remember), "'remember' .* changes 'seen', of which"),
        (lambda stream: stream.map(tally), "'tally' .* changes 'tallies', of which"),
        (lambda stream: stream.process(lambda x, ctx: [gathered.append(x)]), "changes 'gathered', of which"),
        (lambda stream: stream.flat_map(lambda x: (x, "one")), r"the tuple \(1, 'one'\), which is taken for 2 results"),
        (
            lambda stream: stream.process(lambda x, ctx: (x, "one")),
            r"the tuple \(1, 'one'\), which is taken for 2 results",
        ),
        (lambda stream: stream.process(lambda x, ctx: Row(x)), r"the Row <Row\(1\)>, which is taken for 1 result\."),
        (lambda stream: stream.process(Silent()), "'process_element' .* yields nothing, so no record comes of it"),
        (lambda stream: stream.key_by(str).process(Timers()), "registers timers, but there is no on_timer"),
        (lambda stream: stream.key_by(str).process(Counter()), "changes self.count, which all keys of a subtask share"),
        (
            lambda stream: stream.key_by(str).process(Seen()),
            r"changes a value of self.seen in place and does not store it",
        ),
        (lambda stream: stream.key_by(str).process(Reads()), r"reads a state with value\(\) and never writes one"),
        (lambda stream: stream.process(Late()), "writes to its side output 'late', which no stream reads"),
        (in_a_loop, "reads 'step', which was 1 when given and is 2 now"),
        (unread, "'filter': its results go nowhere"),
        (
            lambda stream: stream.key_by(str).window(GlobalWindows.create()).reduce(max),
            "its windows never fire, because",
        ),
        (
            lambda stream: stream.key_by(str).window(TumblingProcessingTimeWindows.of("1 h")).reduce(max),
            "the input ended before its processing-time windows did",
        ),
        (lambda stream: stamped(stream, 1_704_067_200), "the first timestamps look like seconds"),
        (lambda stream: stamped(stream, 1_704_067_200_000_000), "the first timestamps look like micro- or nanoseconds"),
        (lambda stream: stream.map(gather), "'gather' .* changes 'gathered', of which each worker has a copy"),
    ],
)
def test_it_is_said_while_the_job_runs(env, build, warning, caplog):
    build(env.from_collection([1, 2, 3])).print()
    env.execute()

    assert re.search(warning, caplog.text)


@pytest.mark.parametrize(
    ("count", "checkpoints", "kinds"),
    [(None, False, ["no checkpoints"]), (None, True, []), (9, False, [])],
)
def test_files_that_no_checkpoint_makes_visible_are_warned_of(env, tmp_path, count, checkpoints, kinds):
    numbers = env.from_source(DataGeneratorSource(int, count), source_name="numbers")
    numbers.sink_to(FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder()).build())

    warnings = []
    JobDiagnosis(env.compile(), warnings.append, checkpoints=checkpoints)

    assert [warning.kind for warning in warnings] == kinds
    assert all("env.enable_checkpointing('10 s')" in warning.text for warning in warnings)


@pytest.mark.parametrize(
    ("strategy", "kinds"),
    [(WatermarkStrategy.no_watermarks(), ["no watermarks"]), (WatermarkStrategy.for_monotonous_timestamps(), [])],
)
def test_windows_that_no_watermark_reaches_are_warned_of(env, strategy, kinds):
    endless = env.from_source(DataGeneratorSource(int), strategy.with_timestamp_assigner(lambda n, _: n), "endless")
    endless.key_by(str).window(TumblingEventTimeWindows.of("5 s")).reduce(max).name("windows").print()

    warnings = []
    JobDiagnosis(env.compile(), warnings.append)

    assert [warning.kind for warning in warnings] == kinds
    assert all(
        warning.operator == "windows" and "for_bounded_out_of_orderness('5 s')" in warning.text for warning in warnings
    )


def test_looking_for_hints_never_hides_an_exception():
    class Strange(TypeError):
        def __str__(self):
            raise RuntimeError("no text")

    def explode(value):
        raise Strange(value)

    env = StreamExecutionEnvironment.create_local_environment(1)
    env.from_collection([1]).map(explode).name("culprit").print()

    with pytest.raises(OperatorFailed, match=r"operator 'culprit' \(subtask 0\) failed at the record 1: Strange: "):
        env.execute()
