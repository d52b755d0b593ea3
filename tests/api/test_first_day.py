"""The mistakes of a first day: each is refused where it is made or said while the job runs, with the fact and the remedy."""

import re
import subprocess
import sys

import pytest

import funken
from funken import (
    Configuration,
    FilterFunction,
    InvalidProgram,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
    Types,
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


def remember(value, seen=[]):  # noqa: B006 - the mistake
    seen.append(value)
    return value


tallies = {}


def tally(value):
    tallies[value] = tallies.get(value, 0) + 1
    return value


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
    "a text for a tag": (
        lambda env: env.from_collection([1]).process(lambda x, ctx: [x]).get_side_output("late"),
        r"get_side_output\(\) needs an OutputTag, but got .late.. Give OutputTag\(.late.\)",
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
            r"'sum' needs field 3, but 1 \(int\) is a single value, which has field 0 only",
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


def test_a_method_that_is_not_called_is_no_record(env):
    env.from_collection(["a"]).map(lambda word: word.upper).print()
    with pytest.raises(OperatorFailed, match=r"returned a builtin_function_or_method, which is no record. Call it"):
        env.execute()


@pytest.mark.parametrize(
    ("take", "message"),
    [
        (lambda env: env.form_collection, "Did you mean from_collection"),
        (lambda env: env.from_collection([1]).fliter, "Did you mean filter"),
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
        (lambda stream: stream.map(count), "'count' .* assigns 'counted', of which each worker has a copy"),
        (
            lambda stream: stream.filter(lambda x: "False"),
            "returned the str 'False', not True or False: every str but the empty",
        ),
        (
            lambda stream: stream.map(str).filter(lambda x: x.isdigit),
            "a builtin_function_or_method is always true. Call it",
        ),
        (lambda stream: stream.key_by(str).filter(TextFilter()), "'filter' .* returned the str 'no'"),
        (lambda stream: stream.flat_map(keep_large), "'keep_large' .* returns nothing, so no record comes of it"),
        (lambda stream: stream.map(remember), "'remember' .* changes 'seen', of which"),
        (lambda stream: stream.map(tally), "'tally' .* changes 'tallies', of which"),
        (lambda stream: stream.process(lambda x, ctx: [gathered.append(x)]), "changes 'gathered', of which"),
        (lambda stream: stream.map(gather), "'gather' .* changes 'gathered', of which each worker has a copy"),
    ],
)
def test_it_is_said_while_the_job_runs(env, build, warning, caplog):
    build(env.from_collection([1, 2, 3])).print()
    env.execute()

    assert re.search(warning, caplog.text)
