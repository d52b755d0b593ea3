"""Conditions with ``open`` and ``close``: opened before the first event, and closed with the operator."""

import pytest

from funken import InvalidProgram, StreamExecutionEnvironment
from funken.cep import (
    CEP,
    IterativeCondition,
    Pattern,
    PatternRule,
    RichIterativeCondition,
    SimpleCondition,
    matches_of,
)


class Above(SimpleCondition):
    def __init__(self, name="above", bound=10, log=None):
        self.name = name
        self.given = bound
        self.log = log

    def note(self, what):
        if self.log is not None:  # the functions of a job are copies
            with self.log.open("a") as file:
                file.write(f"{what} {self.name}\n")

    def open(self, runtime_context):
        self.note("open")
        self.bound = self.given

    def filter(self, price):
        return price > self.bound

    def close(self):
        self.note("close")


class Rising(IterativeCondition):
    def open(self, runtime_context):
        self.least = 1

    def filter(self, price, ctx):
        return all(price >= earlier + self.least for earlier in ctx.get_events_for_pattern("high"))


class Counting(RichIterativeCondition):
    def open(self, runtime_context):
        self.seen = runtime_context.get_metrics_group().counter("seen")

    def filter(self, price, ctx):
        self.seen.inc()
        return self.get_runtime_context().get_index_of_this_subtask() == 0


class Plain:
    """No class of Funken's, as ported code has them."""

    def open(self, runtime_context):
        self.bound = 5

    def filter(self, price):
        return price < self.bound

    def close(self):
        del self.bound


def run(stream, pattern):
    matches = CEP.pattern(stream, pattern).in_processing_time().select(lambda match: match)
    with matches.execute_and_collect() as found:
        return list(found)


@pytest.fixture
def prices():
    return StreamExecutionEnvironment.create_local_environment(1).from_collection([9, 12, 15, 3])


def test_conditions_are_opened_and_closed_around_a_trial(tmp_path):
    log = tmp_path / "log"
    pattern = Pattern.begin("high").where(Above(log=log)).next("higher").where(Above("more", 14, log)).where(Rising())

    assert matches_of(pattern, [9, 12, 15]) == [{"high": [12], "higher": [15]}]
    assert log.read_text().splitlines() == ["open above", "open more", "close more", "close above"]


def test_a_stream_opens_them_once_per_subtask(prices, tmp_path):
    above = Above(log=tmp_path / "log")
    pattern = Pattern.begin("high").where(above).next("higher").where(above).where(Rising())

    assert run(prices, pattern) == [{"high": [12], "higher": [15]}]
    assert (tmp_path / "log").read_text().splitlines() == ["open above", "close above"]


def test_conditions_of_loops_and_of_any_class_are_opened(prices):
    pattern = Pattern.begin("high").where(Above()).one_or_more().greedy().until(Plain()).consecutive()

    assert run(prices, pattern)


def test_a_rich_condition_has_its_runtime_context(prices):
    pattern = Pattern.begin("any").where(Counting())

    assert len(run(prices, pattern)) == 4
    with pytest.raises(AttributeError):  # there is no context to try it with
        matches_of(pattern, [1])
    with pytest.raises(InvalidProgram, match="Counting has no runtime context"):
        Counting().get_runtime_context()


def test_the_conditions_of_a_rule_live_as_long_as_the_rule(tmp_path):
    log = tmp_path / "log"
    env = StreamExecutionEnvironment.create_local_environment(1)
    rules = env.from_collection([PatternRule("r", 1, 10), PatternRule("r", 2, 11)])
    found = CEP.dynamic_patterns(
        env.from_collection([12]).key_by(abs),
        rules,
        lambda bound: Pattern.begin("high").where(Above(str(bound), bound, log)),
    )
    with found.in_processing_time().select(lambda match: match).execute_and_collect() as matches:
        list(matches)

    assert log.read_text().split("\n")[:4] == ["open 10", "close 10", "open 11", "close 11"]


def test_all_are_closed_if_one_fails(tmp_path):
    log = tmp_path / "log"

    class Failing(Above):
        def close(self):
            raise OSError("closed twice")

    pattern = Pattern.begin("a").where(Above("first", log=log)).next("b").where(Failing("second", log=log))
    with pytest.raises(OSError, match="closed twice"):
        matches_of(pattern, [1])
    assert log.read_text().splitlines() == ["open first", "open second", "close first"]
