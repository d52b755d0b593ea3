"""Subtasks share workers by themselves only on one machine, with more of them than cores, and where nothing can wait."""

import operator
import re
import time

import pytest

from funken import (
    CollectionSource,
    Configuration,
    DataGeneratorSource,
    DiscardingSink,
    FileSource,
    MapFunction,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    StreamFormat,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from funken.api.submission import shared_cores
from funken.connectors import ByteArraySchema, JsonSchema
from funken.connectors.formats.registry import ConfluentAvroSchema, SchemaRegistryClient
from funken.connectors.kafka import KafkaSource
from funken.errors import InvalidConfiguration
from funken.operators.user_functions import UserFunction
from funken.plan.rules.operators import waits
from funken.plan.rules.stage import RewriteStage
from funken.timing.clock import usable_cores
from tests.support.functions import Sum

UNTIMED = WatermarkStrategy.no_watermarks()
FACTOR = 3


class Lookup(MapFunction):
    def __init__(self):
        self.known = {}

    def map(self, value):
        return self.known.get(value)


class Double(MapFunction):
    def map(self, value):
        return value * 2


class Slow(Sum):
    def get_result(self, accumulator):
        time.sleep(1)
        return accumulator


class Asking(JsonSchema):
    def deserialize(self, message):
        time.sleep(1)
        return super().deserialize(message)


def environment(**options):
    options = {"execution.target": "continuous", "pipeline.vectorized": False, **options}
    return StreamExecutionEnvironment.get_execution_environment(Configuration(options)).set_parallelism(16)


def workers(env, cores=2):
    """Return how many workers the stages have, and what is said of each."""
    compiled = env._submission(None).compiled()
    plan = RewriteStage.of(compiled, env.get_configuration(), False, cores).plan()
    return plan.workers, [note.text for note in plan.notes if note.rule == "workers"]


def numbers(env, function=lambda i: i, strategy=UNTIMED):
    return env.from_source(DataGeneratorSource(function, 10**6), strategy, "numbers")


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_stage_that_only_computes_has_a_worker_per_core(vectorized):
    env = environment(**{"pipeline.vectorized": vectorized})
    pairs = numbers(env).map(lambda i: (i % 1000, FACTOR)).filter(lambda pair: pair[1] > 0)
    pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).sink_to(DiscardingSink())

    assert workers(env) == ((2, 2), ["2: nothing in this stage waits"] * 2)
    assert workers(env, cores=16) == ((16, 16), [])
    assert workers(env, cores=6) == ((6, 6), ["6: nothing in this stage waits"] * 2)  # three each, but for the last
    assert workers(env, cores=None) == ((16, 16), [])
    plan = env.explain()
    assert ("workers: " in plan) is (usable_cores() < 16)


@pytest.mark.parametrize(("given", "found"), [(1, (16, 16)), (3, (6, 6)), ("auto", (2, 2)), (" AUTO ", (2, 2))])
def test_what_the_option_says_is_done(given, found):
    env = environment(**{"execution.subtasks-per-worker": given})
    numbers(env).rebalance().map(lambda i: i).sink_to(DiscardingSink())
    assert workers(env)[0] == found


def test_the_option_takes_no_other_text():
    with pytest.raises(InvalidConfiguration, match=r"execution.subtasks-per-worker': 'many'"):
        environment(**{"execution.subtasks-per-worker": "many"})


STAMPS = WatermarkStrategy.for_monotonous_timestamps()


@pytest.mark.parametrize(("build", "reason"), [
    (lambda s: s.map(lambda i: time.sleep(i / FACTOR)), "'map' calls time.sleep()"),
    (lambda s: s.map(print), "'map' print is no Python function"),
    (lambda s: s.map(Lookup()), "'map' uses self"),
    (lambda s: s.map(lambda i: i.client.fetch()), "'map' calls the method fetch()"),
    (lambda s: s.flat_map(lambda i: input(f"{i}?")), "'flat_map' calls input()"),
    (lambda s: s.process(lambda i, ctx: [i]), "'process' may wait"),
    (lambda s: s.map_block(lambda block: block), "may wait"),
    (lambda s: s.key_by(input).map(lambda i: i), "the key behind 'numbers' input is no Python function"),
    (lambda s: s.partition_custom(lambda key, n: id(key) % n, lambda i: i).map(lambda i: i),
     "the key behind 'numbers' calls id()"),
    (lambda s: s.assign_timestamps_and_watermarks(STAMPS.with_timestamp_assigner(lambda i, _: time.time_ns())),
     "the timestamp assigner of"),
    (lambda s: s.key_by(lambda i: i).reduce(max), "'reduce' max is no Python function"),
    (lambda s: s.key_by(lambda i: i).window(TumblingEventTimeWindows.of(5)).aggregate(Slow()), "calls time.sleep()"),
    (lambda s: s.key_by(lambda i: i).window(TumblingEventTimeWindows.of(5)).apply(lambda k, w, i: i), "may wait"),
])  # fmt: skip
def test_a_stage_of_which_that_is_not_known_has_a_worker_per_subtask(build, reason):
    env = environment()
    build(numbers(env)).rebalance().map(lambda i: i).sink_to(DiscardingSink())
    found, notes = workers(env)

    assert found[-1] == 2
    assert 16 in found
    told = [note for note in notes if note.startswith("one for each subtask: ")]
    assert len(told) == 1
    assert reason in told[0]


@pytest.mark.parametrize("build", [
    lambda s: s.map(Double()), lambda s: s.map(str), lambda s: s.flat_map(lambda i: [i, i + 1]),
    lambda s: s.flat_map(lambda i: str(i).split(",")), lambda s: s.map(lambda i: {"n": i}).map(operator.itemgetter("n")),
    lambda s: s.key_by(operator.itemgetter(0)).reduce(operator.add),
    lambda s: s.key_by(lambda i: i).window(TumblingEventTimeWindows.of(5)).aggregate(Sum()),
    lambda s: s.key_by(lambda i: i).window(TumblingEventTimeWindows.of(5)).reduce(lambda a, b: a + b),
    lambda s: s.assign_timestamps_and_watermarks(STAMPS.with_timestamp_assigner(lambda i, _: i)),
])  # fmt: skip
def test_what_only_computes_is_recognized(build):
    env = environment()
    build(numbers(env)).sink_to(DiscardingSink())
    found, notes = workers(env)
    assert set(found) == {2}, notes


def test_sinks_and_sources_say_whether_they_wait(tmp_path):
    env = environment()
    (tmp_path / "a").write_text("to be\n")
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).build()
    env.from_source(lines, UNTIMED, "lines").rebalance().map(lambda line: line).print()
    assert workers(env) == ((16, 2), ["one for each subtask: 'lines' may wait", "2: nothing in this stage waits"])

    builder = KafkaSource.builder().set_bootstrap_servers("localhost:9092").set_topics("orders")
    for schema, never in [
        (JsonSchema(), True),
        (ByteArraySchema(), True),
        (Asking(), False),
        (ConfluentAvroSchema(SchemaRegistryClient("http://localhost")), False),
    ]:
        assert builder.set_value_only_deserializer(schema).build().never_waits is never
    assert CollectionSource([1]).never_waits
    assert not lines.never_waits


def test_cores_are_those_of_a_local_session():
    class Session:
        def __init__(self, master):
            self.sparkContext = type("SparkContext", (), {"master": master})

    here = usable_cores()
    given = [("local", here), ("local[4]", here), ("local[*]", here), ("local-cluster[2,1,1024]", None), ("yarn", None)]
    assert [shared_cores(Configuration(), Session(master)) for master, _ in given] == [cores for _, cores in given]
    for target in ("local", "batch"):
        env = environment(**{"execution.target": target})
        env.from_source(NumberSequenceSource(0, 9), UNTIMED, "numbers").print()
        assert env._submission(None).stage().context.cores is None


def test_spark_submit_chooses_the_machine(monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.delitem(__import__("sys").modules, "pyspark", raising=False)
    assert shared_cores(Configuration(), None) is None


def test_why_a_function_may_wait_is_said():
    assert waits(UserFunction(lambda i: i + FACTOR)) is None
    assert re.match("calls", waits(UserFunction(lambda i: sorted(i, reversed=True))) or "")
