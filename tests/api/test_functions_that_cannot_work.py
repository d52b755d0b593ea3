# ruff: noqa: E501 - a table
"""Functions, collections and results that would give nonsense are refused: when the program is built, or at the first record."""

import asyncio
import functools
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from funken import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    Row,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from funken.cep import CEP, Pattern, PatternProcessFunction
from funken.dataset import ExecutionEnvironment
from funken.errors import InvalidProgram, JobExecutionError


def numbers():
    return StreamExecutionEnvironment.create_local_environment(1).from_collection([1, 2, 3])


def data():
    return ExecutionEnvironment.create_local_environment(parallelism=1).from_elements(1, 2, 3)


def stamped():
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    return numbers().assign_timestamps_and_watermarks(strategy)


def two(keyed=False):
    env = StreamExecutionEnvironment.create_local_environment(1)
    one, other = (env.from_collection([1]) for _ in range(2))
    return one.key_by(str).connect(other.key_by(str)) if keyed else one.connect(other)


def windowed():
    return stamped().key_by(lambda n: 0).window(TumblingEventTimeWindows.of(10))


# ---- generators and coroutines


def yields(*_):
    yield 1


async def waits(*_):
    await asyncio.sleep(0)


async def both(*_):
    yield 1


class Generating:
    def __call__(self, *_):
        yield 1


class Method:
    def generate(self, *_):
        yield 1


class GeneratingMap(MapFunction):
    def map(self, value):
        yield value


class WaitingProcess(ProcessFunction):
    async def process_element(self, value, ctx):
        return [value]


ONE_RESULT = {
    "map": lambda f: numbers().map(f),
    "filter": lambda f: numbers().filter(f),
    "key_by": lambda f: numbers().key_by(f),
    "reduce": lambda f: numbers().key_by(lambda n: n).reduce(f),
    "keyed map": lambda f: numbers().key_by(lambda n: n).map(f),
    "timestamps": lambda f: WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(f),
    "partition": lambda f: numbers().partition_custom(f, lambda n: n),
    "for_each": lambda f: numbers().for_each(f),
    "window reduce": lambda f: windowed().reduce(f),
    "DataSet map": lambda f: data().map(f),
    "DataSet filter": lambda f: data().filter(f),
    "DataSet reduce": lambda f: data().reduce(f),
    "DataSet key": lambda f: data().group_by(f),
    "select": lambda f: CEP.pattern(stamped(), Pattern.begin("a")).select(f),
}
FUNCTIONS = [yields, functools.partial(yields, 1), Generating(), Method().generate, lambda *_: (yield 1)]


@pytest.mark.parametrize("place", ONE_RESULT)
def test_generators_where_one_value_is_wanted(place):
    for function in FUNCTIONS:
        with pytest.raises(InvalidProgram, match="is a generator function"):
            ONE_RESULT[place](function)


SEVERAL_RESULTS = {
    "flat_map": lambda f: numbers().flat_map(f),
    "process": lambda f: numbers().process(f),
    "keyed process": lambda f: numbers().key_by(lambda n: n).process(f),
    "window apply": lambda f: windowed().apply(f),
    "DataSet flat_map": lambda f: data().flat_map(f),
    "DataSet map_partition": lambda f: data().map_partition(f),
    "DataSet reduce_group": lambda f: data().reduce_group(f),
    "flat_select": lambda f: CEP.pattern(stamped(), Pattern.begin("a")).flat_select(f),
}


@pytest.mark.parametrize("place", [*ONE_RESULT, *SEVERAL_RESULTS])
def test_coroutines_are_refused_everywhere(place):
    for function in (waits, functools.partial(waits, 1), both):
        with pytest.raises(InvalidProgram, match="is a coroutine function"):
            (ONE_RESULT | SEVERAL_RESULTS)[place](function)


@pytest.mark.parametrize("place", SEVERAL_RESULTS)
def test_generators_where_several_values_are_wanted(place):
    SEVERAL_RESULTS[place](yields)


def test_methods_that_yield_or_wait():
    with pytest.raises(InvalidProgram, match=r"'GeneratingMap.map' is a generator function"):
        numbers().map(GeneratingMap())
    with pytest.raises(InvalidProgram, match=r"'WaitingProcess.process_element' is a coroutine function"):
        numbers().process(WaitingProcess())


# ---- methods with other names


def class_with(base, *methods):
    return type("Mine", (base,), {name: lambda self, *_: None for name in methods})()


MISNAMED = [
    (lambda f: numbers().map(f), class_with(MapFunction, "Map"), "Map", "map"),
    (lambda f: numbers().filter(f), class_with(FilterFunction, "Filter"), "Filter", "filter"),
    (lambda f: numbers().flat_map(f), class_with(FlatMapFunction, "flatMap"), "flatMap", "flat_map"),
    (lambda f: numbers().key_by(f), class_with(KeySelector, "getKey"), "getKey", "get_key"),
    (lambda f: numbers().process(f), class_with(ProcessFunction, "processElement"), "processElement", "process_element"),
    (lambda f: numbers().key_by(str).process(f), class_with(KeyedProcessFunction, "processElement"), "processElement", "process_element"),
    (
        lambda f: numbers().key_by(str).process(f),
        class_with(KeyedProcessFunction, "process_element", "onTimer"),
        "onTimer",
        "on_timer",
    ),
    (lambda f: windowed().reduce(f), class_with(ReduceFunction, "Reduce"), "Reduce", "reduce"),
    (lambda f: windowed().process(f), class_with(ProcessWindowFunction, "Process"), "Process", "process"),
    (
        lambda f: windowed().aggregate(f),
        class_with(AggregateFunction, "createAccumulator", "add", "get_result"),
        "createAccumulator",
        "create_accumulator",
    ),
    (lambda f: two().map(f), class_with(CoMapFunction, "map1", "map_2"), "map_2", "map2"),
    (lambda f: two().flat_map(f), class_with(CoFlatMapFunction, "flatMap1", "flat_map2"), "flatMap1", "flat_map1"),
    (
        lambda f: two(keyed=True).process(f),
        class_with(KeyedCoProcessFunction, "process_element1", "processElement2"),
        "processElement2",
        "process_element2",
    ),
    (
        lambda f: CEP.pattern(stamped(), Pattern.begin("a")).process(f),
        class_with(PatternProcessFunction, "processMatch"),
        "processMatch",
        "process_match",
    ),
    (
        lambda f: AsyncDataStream.unordered_wait(numbers(), f, 1000),
        class_with(AsyncFunction, "asyncInvoke"),
        "asyncInvoke",
        "async_invoke",
    ),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(MISNAMED)))
def test_a_method_with_another_spelling(number):
    build, function, found, wanted = MISNAMED[number]
    with pytest.raises(InvalidProgram, match=rf"a Mine, which defines {found}\(\); Funken calls {wanted}\(\)"):
        build(function)


def test_a_method_that_is_not_there():
    with pytest.raises(InvalidProgram, match=r"does not define process_element\(\), only process_elements\(\)"):
        numbers().process(class_with(ProcessFunction, "process_elements"))
    with pytest.raises(InvalidProgram, match=r"a Mine, which does not define map\(\). Define map\(\)"):
        numbers().map(class_with(MapFunction))


def test_methods_that_come_from_elsewhere_are_there():
    class Base:
        def map(self, value):
            return value + 1

    class Mixed(Base, MapFunction):
        pass

    replaced = class_with(MapFunction)
    replaced.map = lambda value: value + 2

    assert numbers().map(Mixed()).execute_and_collect(limit=1) == [2]
    assert numbers().map(replaced).execute_and_collect(limit=1) == [3]


# ---- collections


class Pair(NamedTuple):
    a: int
    b: int


NO_COLLECTIONS = [
    (pd.DataFrame({"a": [1]}), "to_dict"),
    (pd.Series([1]), "tolist"),
    (pl.DataFrame({"a": [1]}), "to_dicts"),
    (pl.LazyFrame({"a": [1]}), "collect"),
    (pa.table({"a": [1]}), "to_pylist"),
    ({"a": 1}, "items"),
    ("text", "split"),
    (b"bytes", "one record"),
    (Row(a=1), "one record"),
    (Pair(1, 2), "one record"),
]


@pytest.mark.parametrize("number", range(len(NO_COLLECTIONS)))
def test_what_is_no_collection(number):
    collection, remedy = NO_COLLECTIONS[number]
    for environment in (StreamExecutionEnvironment, ExecutionEnvironment):
        with pytest.raises(InvalidProgram, match=remedy):
            environment.create_local_environment(1).from_collection(collection)


@pytest.mark.parametrize(
    "collection", [(1, 2), range(2), {1}, iter([1]), {"a": 1}.items(), pd.Series([1]).tolist(), frozenset([1])]
)
def test_collections(collection):
    StreamExecutionEnvironment.create_local_environment(1).from_collection(collection)


# ---- one record where several are wanted


@dataclass
class Point:
    x: int = 1


ONE_RECORD = ["text", b"bytes", {"a": 1}, Pair(1, 2), Point(), 5]
FLATTENING = {
    "flat_map": lambda f: numbers().flat_map(f),
    "flat_map of a chain": lambda f: numbers().map(lambda n: n).flat_map(f).map(str),
    "keyed flat_map": lambda f: numbers().key_by(lambda n: n).flat_map(f),
    "process": lambda f: numbers().process(lambda n, ctx: f(n)),
    "window apply": lambda f: windowed().apply(lambda key, window, records: f(key)),
    "flat_select": lambda f: CEP.pattern(stamped(), Pattern.begin("a")).flat_select(f),
}


@pytest.mark.parametrize("place", FLATTENING)
def test_one_record_is_not_spread(place):
    for record in ONE_RECORD:
        with pytest.raises(JobExecutionError, match="returned .*Return a list of results"):
            FLATTENING[place](lambda _: record).execute_and_collect(limit=1)  # noqa: B023 - used at once


@pytest.mark.parametrize("place", [place for place in FLATTENING if place != "flat_select"])
def test_a_row_is_spread_as_in_pyflink(place, caplog):
    found = FLATTENING[place](lambda _: Row("a", "b")).execute_and_collect(limit=2)
    assert found == ["a", "b"]
    assert "returned the Row <Row('a', 'b')>, which is taken for 2 results" in caplog.text


def test_a_row_is_no_result_of_flat_select():
    with pytest.raises(JobExecutionError, match="returned .*Return a list of results"):
        FLATTENING["flat_select"](lambda _: Row(a=1)).execute_and_collect(limit=1)


def test_tuples_are_several_results_of_flat_map():
    assert numbers().flat_map(lambda n: (n, -n)).execute_and_collect(limit=2) == [1, -1]
    assert numbers().flat_map(lambda n: None if n < 3 else {n}).execute_and_collect(limit=2) == [3]


GROUPS = {
    "reduce_group": lambda f: data().reduce_group(f),
    "grouped reduce_group": lambda f: data().group_by(lambda n: n).reduce_group(f),
    "map_partition": lambda f: data().map_partition(f),
}


@pytest.mark.parametrize("place", GROUPS)
def test_groups_give_lists(place):
    for record in (*ONE_RECORD, (1, 2)):
        with pytest.raises(JobExecutionError, match="returned .*Return a list of results"):
            GROUPS[place](lambda _: record).collect()  # noqa: B023 - used at once
    assert sorted(GROUPS[place](lambda group: [len(list(group))]).collect())


def test_matches_give_lists():
    class Report(PatternProcessFunction):
        def __init__(self, made):
            self.made = made

        def process_match(self, match, ctx):
            return self.made

    for record in (*ONE_RECORD, (1, 2)):
        with pytest.raises(JobExecutionError, match="returned .*Return a list of results"):
            CEP.pattern(stamped(), Pattern.begin("a")).process(Report(record)).execute_and_collect(limit=1)
    assert CEP.pattern(stamped(), Pattern.begin("a")).process(Report([5])).execute_and_collect(limit=1) == [5]
