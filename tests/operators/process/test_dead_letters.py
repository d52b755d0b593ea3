"""Records whose function raises: they fail the job, are skipped and counted, or go to a side output."""

import pytest

from funken import (
    Configuration,
    DeadLetter,
    InvalidProgram,
    JobClient,
    JobExecutionError,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.runtime.driver.local_runner import LocalRunner
from funken.testing import local

DEAD = OutputTag("dead")
WORDS = ["1", "two", "3", "four", "5"]


def both(stream):
    """The results of a stream, and what became of the rest, each in its order."""
    results = stream.map(lambda value: ("main", value))
    letters = stream.get_side_output(DEAD).map(lambda letter: ("dead", letter.record))
    with results.union(letters).execute_and_collect() as found:
        pairs = list(found)
    return [value for where, value in pairs if where == "main"], [value for where, value in pairs if where == "dead"]


def some(text):
    yield "before"
    yield int(text)


class Number(MapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def map(self, value):
        self.count.update(self.count.value() + 1)
        return int(value), self.count.value()


class Sum(KeyedProcessFunction):
    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", default=0))

    def process_element(self, value, ctx):
        self.sum.update(self.sum.value() + int(value))
        yield self.sum.value()


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda s: s.map(int), [1, 3, 5]),
        (lambda s: s.filter(lambda text: int(text) > 1), ["3", "5"]),
        (lambda s: s.flat_map(lambda text: [int(text)] * 2), [1, 1, 3, 3, 5, 5]),
        (lambda s: s.flat_map(some), ["before", 1, "before", 3, "before", 5]),
        (lambda s: s.process(lambda text, ctx: [int(text)]), [1, 3, 5]),
        (lambda s: s.key_by(lambda text: 0).map(int), [1, 3, 5]),
        (lambda s: s.key_by(lambda text: 0).map(Number()), [(1, 1), (3, 3), (5, 5)]),
        (lambda s: s.key_by(lambda text: 0).process(Sum()), [1, 4, 9]),
    ],
    ids=["map", "filter", "flat_map", "generator", "process", "keyed", "keyed with state", "keyed process"],
)
def test_records_whose_function_raises_go_to_a_side_output(build, expected):
    assert both(build(local(WORDS)).on_error(DEAD)) == (expected, ["two", "four"])
    with build(local(WORDS)).on_error("skip").execute_and_collect() as found:
        assert list(found) == expected
    with pytest.raises(JobExecutionError, match="'two'"):
        build(local(WORDS)).execute_and_collect(limit=9)


def test_a_dead_letter_has_record_time_place_and_traceback():
    def parse(record):
        return record["n"] / record["of"]

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record["n"])
    stamped = local([{"n": 7, "of": 0}]).assign_timestamps_and_watermarks(strategy)
    shares = stamped.map(parse).name("share").on_error(DEAD)
    (letter,) = shares.get_side_output(DEAD).execute_and_collect(limit=1)

    assert letter == DeadLetter(
        {"n": 7, "of": 0}, 7, "share", 0, "ZeroDivisionError", "division by zero", letter.traceback
    )
    assert 'record["n"] / record["of"]' in letter.traceback
    assert "funken/operators" not in letter.traceback


def test_a_record_without_a_timestamp_has_none():
    (letter,) = local(["x"]).map(int).on_error(DEAD).get_side_output(DEAD).execute_and_collect(limit=1)
    assert letter.timestamp is None


def test_skipped_records_are_counted_and_warned_of():
    stream = local(WORDS).map(int).name("parse").on_error("skip")
    stream.for_each(lambda n: None)
    client = JobClient(stream.get_execution_environment().job("parse"), LocalRunner())
    client.run()

    assert client.warnings[0].startswith("operator 'parse': skips records whose function raises (2 so far)")
    assert client.warnings[1].startswith(
        "operator 'parse': 2 records skipped because the function raised in all, 40% of the 5 that it was given. The operator is "
        "in test_dead_letters.py, line "
    )


def test_what_goes_to_a_side_output_is_counted_but_not_warned_of():
    stream = local(WORDS).map(int).on_error(DEAD)
    stream.for_each(lambda n: None)
    client = JobClient(stream.get_execution_environment().job("parse"), LocalRunner())
    client.run()

    (vertex,) = client.snapshot().vertices
    (counted,) = vertex.subtasks[0].metrics.user.values()
    assert (counted["numDeadLetters"], client.warnings) == (2, ())


def test_a_job_may_skip_by_default_and_an_operator_may_not():
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"execution.on-error": "skip"}))
    assert env.from_collection(WORDS).map(int).execute_and_collect(limit=5) == [1, 3, 5]
    with pytest.raises(JobExecutionError):
        env.from_collection(WORDS).map(int).on_error("fail").execute_and_collect(limit=5)


def test_mistakes_of_the_program_fail_the_job_all_the_same():
    class NoKey(MapFunction):
        def open(self, runtime_context):
            self.context = runtime_context

        def map(self, value):
            return self.context.get_state(ValueStateDescriptor("x")).value()

    with pytest.raises(JobExecutionError, match="call key_by"):
        local(WORDS).map(NoKey()).on_error("skip").execute_and_collect(limit=1)


def test_what_calls_no_function_per_record_cannot_have_a_policy():
    with pytest.raises(InvalidProgram, match=r"'collection' cannot have on_error\(\)"):
        local(WORDS).on_error("skip")
    with pytest.raises(InvalidProgram, match="give 'fail', 'skip' or the OutputTag"):
        local(WORDS).map(int).on_error("ignore")


def test_explain_says_what_becomes_of_them():
    stream = local(WORDS).map(int).on_error(DEAD)
    assert "errors: map: records whose function raises go to side output 'dead'" in (
        stream.get_execution_environment().explain()
    )
