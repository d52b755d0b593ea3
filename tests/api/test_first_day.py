"""The mistakes of a first day: each is refused where it is made or said while the job runs, with the fact and the remedy."""

import re

import pytest

from funken import (
    Configuration,
    InvalidProgram,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from funken.connectors.kafka import KafkaSource
from funken.errors import InvalidConfiguration, OperatorFailed

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


def count(value):
    global counted  # noqa: PLW0603 - the mistake
    counted += 1
    return value


def gather(value):
    gathered.append(value)
    return value


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
        (lambda stream: stream.map(count), "'count' .* assigns 'counted', of which each worker has a copy"),
        (lambda stream: stream.map(gather), "'gather' .* appends to 'gathered', of which each worker has a copy"),
    ],
)
def test_it_is_said_while_the_job_runs(env, build, warning, caplog):
    build(env.from_collection([1, 2, 3])).print()
    env.execute()

    assert re.search(warning, caplog.text)
