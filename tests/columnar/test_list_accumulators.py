"""Accumulators that are lists of records, and attributes of the objects that functions belong to, on columns."""

from typing import Any

import pytest

from funken import (
    AggregateFunction,
    Configuration,
    DataGeneratorSource,
    DiscardingSink,
    EventTimeSessionWindows,
    FlatMapFunction,
    MapFunction,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from funken.columnar.expressions import NotVectorizable
from funken.columnar.kernels.columns import columns_of
from funken.columnar.recurrence import ADD, ALL, BEGIN, KEEP, LEAST, MOST, ListFold, list_fold
from funken.columnar.tracing import trace
from funken.expr.types import FLOAT, INT, STR, ListOf, Tuple
from funken.operators.columnar import contents
from funken.operators.columnar.contents import ListPane, listed_records

SCHEMA = Tuple((INT, FLOAT, STR))


class Largest(AggregateFunction):
    """All records with the largest value."""

    def __init__(self, by: Any) -> None:
        self._by = by

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        if not accumulator:
            return [value]
        new, kept = self._by(value), self._by(accumulator[0])
        if new == kept:
            return [*accumulator, value]
        return [value] if new > kept else accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


def fold_of(add: Any) -> ListFold:
    return list_fold(trace(add, None, 2).typed(SCHEMA, ListOf(SCHEMA))[0].result)


@pytest.mark.parametrize(
    ("add", "how", "alike"),
    [
        (lambda value, kept: [*kept, value], ALL, ADD),
        (lambda value, kept: [value] if not kept or value[0] > kept[0][0] else kept, MOST, KEEP),
        (lambda value, kept: kept if kept and kept[-1][2] < value[2] else [value], LEAST, BEGIN),
        (lambda value, kept: kept if len(kept) > 0 and not -value[0] > -kept[0][0] else [value], MOST, KEEP),
        (lambda value, kept: [value] if not kept or value[0] // 2 >= kept[0][0] // 2 else kept, MOST, BEGIN),
    ],
)
def test_what_becomes_of_a_list_is_read(add: Any, how: str, alike: str) -> None:
    found = fold_of(add)

    assert (found.how, found.alike) == (how, alike)


@pytest.mark.parametrize(
    "add",
    [
        lambda value, kept: [value] if kept and value[0] > kept[0][1] else kept,
        lambda value, kept: [*kept, value] if value[0] > 1 else kept,
        lambda value, kept: [*kept, value, value],
        lambda value, kept: [*kept, value] if not kept or value[0] > kept[0][0] else kept,
        lambda value, kept: [value] if not kept or value[0] > kept[0][0] or value[1] > kept[0][1] else kept,
        lambda value, kept: kept,
    ],
)
def test_a_list_that_is_kept_in_another_way_is_refused(add: Any) -> None:
    with pytest.raises(NotVectorizable):
        fold_of(add)


def test_records_that_no_list_keeps_leave_a_pane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_FEWEST_RECORDS", 64)
    fold = fold_of(lambda value, kept: [value] if not kept or value[0] > kept[0][0] else kept)
    pane = ListPane(fold, SCHEMA)
    for number in range(200):
        block = columns_of([(number * 10 + each, 0.5, "x") for each in range(10)], SCHEMA)
        pane.add(columns_of([each % 3 for each in range(10)], INT).leaves[0], [listed_records(fold, block)], 10)
        assert pane._length <= 64 + 10

    assert dict(pane.copied()) == {0: [(1999, 0.5, "x")], 1: [(1997, 0.5, "x")], 2: [(1998, 0.5, "x")]}


def program(columns: bool, width: int = 1) -> Any:
    env = StreamExecutionEnvironment.create_local_environment(width, Configuration({"pipeline.vectorized": columns}))
    stamped = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    source = DataGeneratorSource(lambda i: i, 5000)
    records = env.from_source(source, stamped).map(lambda n: (n % 7, n * 7919 % 501, n))
    windows = TumblingEventTimeWindows.of(100)
    local = records.key_by(lambda r: r[0]).window(windows).aggregate(Largest(lambda r: r[1]))
    return local.flat_map(lambda found: found).window_all(windows).aggregate(Largest(lambda r: r[1] // 10))


@pytest.mark.parametrize("width", [1, 2])
def test_a_job_with_lists_gives_what_records_give(width: int) -> None:
    given = [program(columns, width).execute_and_collect(limit=9999) for columns in (True, False)]
    found = [sorted(sorted(each) for each in lists) for lists in given]  # records of two subtasks come in any order

    assert found[0] == found[1]
    assert len(found[0]) == 50
    assert "per record" not in explain(program(True, width))


def explain(stream: Any) -> str:
    stream.sink_to(DiscardingSink())
    text: str = stream.get_execution_environment().explain()
    return text


class Everything(Largest):
    """All records."""

    def add(self, value: Any, accumulator: Any) -> Any:
        return [*accumulator, value]


@pytest.mark.parametrize(
    ("windows", "path"),
    [
        (SlidingEventTimeWindows.of(100, 50), "vectorized"),
        (SlidingEventTimeWindows.of(100, 10), "per record: keeps each record in many windows"),
        (EventTimeSessionWindows.with_gap(9), "vectorized"),
    ],
)
def test_lists_of_all_records_are_not_kept_in_many_windows(windows: Any, path: str) -> None:
    env = StreamExecutionEnvironment.create_local_environment(1)
    source = DataGeneratorSource(lambda i: (i % 3, i), 100)
    keyed = env.from_source(source, WatermarkStrategy.no_watermarks()).key_by(lambda r: r[0])

    assert f"window aggregate: {path}" in explain(keyed.window(windows).aggregate(Everything(None)))


def test_a_value_that_is_no_number_goes_by_records() -> None:
    fold = fold_of(lambda value, kept: [value] if not kept or value[1] > kept[0][1] else kept)
    block = columns_of([(1, float("nan"), "x")], SCHEMA)

    with pytest.raises(Exception, match="a number that is none"):
        listed_records(fold, block)


class Scaled(MapFunction):
    """Uses a number and a function that it was given."""

    def __init__(self, factor: int, of: Any) -> None:
        self.factor, self.of, self.names = factor, of, {0: "even", 1: "odd"}

    def map(self, value: Any) -> Any:
        return self.of(value) * self.factor, self.names.get(value % 2, "?")


class Counts(MapFunction):
    def __init__(self) -> None:
        self.seen = 0

    def map(self, value: Any) -> Any:
        self.seen += 1
        return value + self.seen


class Filled(FlatMapFunction):
    def __init__(self) -> None:
        self.names: dict[int, str] = {}

    def open(self, runtime_context: Any) -> None:
        self.names = {1: "one"}

    def flat_map(self, value: Any) -> Any:
        yield self.names.get(value, "")


def mapped(function: Any) -> Any:
    env = StreamExecutionEnvironment.create_local_environment(1)
    numbers = env.from_source(DataGeneratorSource(lambda i: i, 3000), WatermarkStrategy.no_watermarks())
    return numbers.flat_map(function) if isinstance(function, FlatMapFunction) else numbers.map(function)


def test_attributes_that_init_has_set_are_constants() -> None:
    function = Scaled(3, lambda n: n + 1)

    assert "map: vectorized" in explain(mapped(function))
    expected = [((n + 1) * 3, ("even", "odd")[n % 2]) for n in range(3000)]
    assert mapped(function).execute_and_collect(limit=9999) == expected


@pytest.mark.parametrize("change", [{"factor": 5}, {"of": lambda n: n - 1}, {"names": {}}])
def test_an_attribute_that_has_changed_is_noticed(change: dict[str, Any]) -> None:
    function = Scaled(3, lambda n: n + 1)
    traced = trace(function, "map", 1)
    assert traced.holds(function, "map")

    vars(function).update(change)

    assert not traced.holds(function, "map")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (Counts(), "uses self.seen, which map() sets"),
        (Filled(), "uses self.names, which open() sets"),
    ],
)
def test_attributes_that_other_methods_set_are_no_constants(function: Any, reason: str) -> None:
    assert f"per record: {reason}" in explain(mapped(function))
