"""A fault of the reader or of a kernel fails no program: the function runs in rows, ``explain()`` and the log say so once."""

import logging
from dataclasses import dataclass, replace

import pytest

from funken import (
    AggregateFunction,
    Configuration,
    DataGeneratorSource,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.columnar import expressions as faults
from funken.columnar.kernels.evaluation import ExpressionEvaluation
from funken.columnar.stack import Stack
from funken.columnar.typed.inference import Inference
from funken.dataset import ExecutionEnvironment
from funken.plan.rules import stage, vectorize

RECORDS = 40


@pytest.fixture(autouse=True)
def in_production(monkeypatch):
    monkeypatch.delenv("FUNKEN_RAISE_FAULTS", raising=False)
    monkeypatch.setattr(faults, "_said", set())


def fails(*_):
    raise IndexError("pop from\nempty list")


class Twice(MapFunction):
    def map(self, pair):
        return pair[0], pair[1] * 2


class Doubled(ProcessFunction):
    def process_element(self, pair, ctx):
        yield pair[0], pair[1] * 2


class Counted(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, pair, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield pair[0], count


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, pair, total):
        return total + pair[1]

    def get_result(self, total):
        return total

    def merge(self, one, other):
        return one + other


class Whole(ProcessWindowFunction):
    def process(self, key, context, records):
        return [(key, len(list(records)))]


def windowed(pairs):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[1])
    stamped = pairs.assign_timestamps_and_watermarks(strategy)
    return stamped.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(7))


def joined(pairs):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[1])
    stamped = pairs.assign_timestamps_and_watermarks(strategy)
    window = TumblingEventTimeWindows.of(7)
    by_key = lambda pair: pair[0]  # noqa: E731
    return stamped.join(stamped).where(by_key).equal_to(by_key).window(window).apply(lambda a, b: (a[1], b[1]))


WAYS_IN = {
    "map": lambda pairs: pairs.map(lambda pair: (pair[0], pair[1] + 1)),
    "MapFunction": lambda pairs: pairs.map(Twice()),
    "filter": lambda pairs: pairs.filter(lambda pair: pair[1] % 3 == 0).map(lambda pair: (pair[1], 1)),
    "flat_map": lambda pairs: pairs.flat_map(lambda pair: [pair, (pair[0], 0)]),
    "key_by": lambda pairs: pairs.map(lambda pair: pair).key_by(lambda pair: pair[0] % 2).map(lambda pair: pair[1]),
    "reduce": lambda pairs: pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])),
    "process": lambda pairs: pairs.process(Doubled()),
    "keyed process": lambda pairs: pairs.key_by(lambda pair: pair[0]).process(Counted()),
    "window reduce": lambda pairs: windowed(pairs).reduce(lambda a, b: (a[0], a[1] + b[1])),
    "aggregate": lambda pairs: windowed(pairs).aggregate(Sum()),
    "window function": lambda pairs: windowed(pairs).process(Whole()),
    "join": joined,
    "timestamps": lambda pairs: windowed(pairs).reduce(lambda a, b: b),
}


def pairs_of(vectorized):
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
    source = DataGeneratorSource(lambda number: (number % 4, number), RECORDS)
    return env, env.from_source(source, WatermarkStrategy.no_watermarks(), "pairs")


def results(way, vectorized):
    _, pairs = pairs_of(vectorized)
    return sorted(WAYS_IN[way](pairs).execute_and_collect(limit=500), key=repr)


@pytest.mark.parametrize("place", [(Stack, "step"), (Inference, "of")])
@pytest.mark.parametrize("way", WAYS_IN)
def test_a_fault_of_the_reader_is_a_refusal(way, place, monkeypatch, caplog):
    expected = results(way, False)
    monkeypatch.setattr(*place, fails)
    caplog.set_level(logging.WARNING, "funken.columns")
    env, pairs = pairs_of(True)
    WAYS_IN[way](pairs).print()
    plan = env.explain()

    assert "could not be read (internal: IndexError: pop from empty list)" in plan
    assert results(way, True) == expected
    texts = [record.getMessage() for record in caplog.records if record.name == "funken.columns"]
    assert texts
    assert len(texts) == len(set(texts))
    assert all("defect of Funken" in text for text in texts)


@pytest.mark.parametrize("way", WAYS_IN)
def test_a_fault_of_a_kernel_falls_back(way, monkeypatch, caplog):
    expected = results(way, False)
    monkeypatch.setattr(ExpressionEvaluation, "_compute", fails)
    caplog.set_level(logging.WARNING, "funken.columns")

    assert results(way, True) == expected
    texts = [record.getMessage() for record in caplog.records if record.name == "funken.columns"]
    assert len(texts) == len(set(texts))


def test_a_fault_of_planning_leaves_columns_out(monkeypatch):
    def broken(plan, context):
        return fails() if context.vectorized else vectorize.PROJECTION.apply(plan, context)

    rules = [replace(rule, apply=broken) if rule is vectorize.PROJECTION else rule for rule in stage.RULES]
    monkeypatch.setattr(stage.rewrite, "__defaults__", (rules,))
    env, pairs = pairs_of(True)
    pairs.map(lambda pair: (pair[0], 1)).print()

    assert "columns: off: could not be planned (internal: IndexError: pop from empty list)" in env.explain()


@pytest.mark.parametrize("place", [(Stack, "step"), (Inference, "of"), (ExpressionEvaluation, "_compute")])
def test_datasets_fall_back_too(place, monkeypatch):
    def run():
        env = ExecutionEnvironment.get_execution_environment()
        numbers = (
            env.from_collection(list(range(20)))
            .map(lambda number: (number % 3, number))
            .filter(lambda pair: pair[1] > 2)
        )
        return sorted(numbers.group_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).collect())

    expected = run()
    monkeypatch.setattr(*place, fails)
    assert run() == expected


def test_own_tests_raise_faults(monkeypatch):
    monkeypatch.setenv("FUNKEN_RAISE_FAULTS", "1")
    monkeypatch.setattr(Stack, "step", fails)
    env, pairs = pairs_of(True)
    pairs.map(lambda pair: pair[0] + 1).print()

    with pytest.raises(IndexError):
        env.explain()


# ---- functions that were faults


def returns_out_of_two_loops(record):
    for port in (80, 443):
        for uri in record["uris"]:
            if uri == record["host"]:
                return port
    return 0


def leaves_the_inner_loop(record):
    total = 0
    for port in (80, 443):
        for uri in record["uris"]:
            if uri == record["host"]:
                break
            total += port
    return total


def goes_on_with_the_outer_loop(record):
    total = 0
    for port in (80, 443):
        for uri in record["uris"]:
            if uri == record["host"]:
                continue
            total += port
            if total > 1000:
                break
        else:
            total += 1
    return total


TABLE = {1: 3, 2: 4}


def looks_up_a_record(record):
    return TABLE.get((record["n"], 1), 0)


@pytest.mark.parametrize(
    "function", [returns_out_of_two_loops, leaves_the_inner_loop, goes_on_with_the_outer_loop, looks_up_a_record]
)
def test_functions_that_were_faults(function, monkeypatch):
    monkeypatch.setenv("FUNKEN_RAISE_FAULTS", "1")

    def run(vectorized):
        env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
        source = DataGeneratorSource(lambda n: {"host": f"h{n % 3}", "uris": ["h1", "h2"], "n": n}, 9)
        return (
            env.from_source(source, WatermarkStrategy.no_watermarks(), "records")
            .map(function)
            .execute_and_collect(limit=9)
        )

    assert run(True) == run(False)


@dataclass
class Point:
    x: int


@pytest.mark.parametrize("elements", [[[1, 2]] * 200_000, [()] * 200_000, [{}] * 200_000, [Point(1)] * 200_000])
def test_large_collections_of_anything(elements, monkeypatch):
    monkeypatch.setenv("FUNKEN_RAISE_FAULTS", "1")
    env = StreamExecutionEnvironment.create_local_environment(1)

    assert env.from_collection(elements).map(lambda value: str(value)[:5]).execute_and_collect(limit=1) == [
        str(elements[0])[:5]
    ]
