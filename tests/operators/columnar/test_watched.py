"""A function that is watched: a difference gives its columns up, and a way that costs more is left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from funken.columnar.block import Block, RowBlock
from funken.columnar.kernels.columns import Columns, columns_of
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.tracing import trace
from funken.expr.types import INT
from funken.metrics.registry import MetricGroup
from funken.operators.columnar.path import ColumnPath, WayCounts
from funken.operators.columnar.specs import ColumnarMap
from funken.operators.stateless import Filter, Map
from funken.operators.user_functions import UserFunction
from funken.testing import OperatorHarness

NUMBERS = list(range(1000))


class Hands:
    """A clock: each reading is a second later, unless it stands still."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.now = 0.0
        self.seconds = seconds

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


class Watched:
    """An operator, the blocks that it emits, and what it warns of."""

    def __init__(self, spec: Any, clock: Hands | None = None, takes_columns: bool = True) -> None:
        harness = OperatorHarness(spec)
        self.operator: Any = harness.operator
        self.blocks: list[Block] = []
        self.warnings: list[str] = []
        harness.context.warn = lambda kind, text: self.warnings.append(text)
        harness.context.monotonic = clock or Hands()
        self.operator.output.takes_columns = takes_columns
        self.operator.output.emit_block = self.blocks.append
        self.operator.output.emit = lambda values, timestamps: self.blocks.append(RowBlock(list(values), timestamps))

    def feed(self, values: list[Any]) -> None:
        self.operator.process_block(columns_of(values, INT))

    def values(self) -> list[Any]:
        return [value for block in self.blocks for value in block.rows()[0]]


def mapped(function: Any, read: Any = None) -> ColumnarMap:
    """Return a map, as if ``read`` had been read instead of the function."""
    traced, schema = trace(read or function, None, 1).typed(INT)
    return ColumnarMap(Map(UserFunction(function)), traced, schema)


@pytest.fixture(autouse=True)
def told(monkeypatch):
    """Funken's own tests raise what a program is only told."""
    monkeypatch.delenv("FUNKEN_RAISE_FAULTS", raising=False)


def test_results_that_differ_give_the_columns_up_and_are_told():
    watched = Watched(mapped(lambda n: n + 2, read=lambda n: n + 1))

    watched.feed(NUMBERS)
    watched.feed(NUMBERS)

    assert watched.values()[-1000:] == [n + 2 for n in NUMBERS]
    (warning,) = watched.warnings
    assert "no longer vectorized" in warning
    assert "the function gives 2, and the columns 1" in warning


def test_an_exception_that_the_columns_do_not_see_gives_them_up():
    def divided(n: int) -> int:
        return n + 0 * (1 // (n - 5))

    watched = Watched(mapped(divided, read=lambda n: n))

    with pytest.raises(ZeroDivisionError):
        watched.feed(NUMBERS[:64])

    assert "raises an exception" in watched.warnings[0]


def test_types_that_differ_are_a_difference():
    watched = Watched(mapped(lambda n: n == 1, read=lambda n: 1 if n == 1 else 0))

    watched.feed([0, 1])

    assert "the function gives False, and the columns 0" in watched.warnings[0]


def test_timestamps_that_differ_are_a_difference(monkeypatch):
    attempt = ColumnPath.attempt

    def later(self: Any, block: Any) -> Any:
        found = attempt(self, block)
        return None if found is None else found.stamped(found.timestamps + 1)

    monkeypatch.setattr(ColumnPath, "attempt", later)
    watched = Watched(mapped(lambda n: n + 1))

    watched.operator.process_block(columns_of(NUMBERS, INT).stamped(np.arange(1000)))

    assert "the function gives 'another one', and the columns 'a timestamp'" in watched.warnings[0]
    assert [stamp for block in watched.blocks for stamp in block.rows()[1] or ()] == NUMBERS


def test_what_is_alike_is_never_told():
    watched = Watched(mapped(lambda n: n * 2 if n > 3 else -n))

    for _ in range(20):
        watched.feed(NUMBERS)

    assert watched.warnings == []
    assert all(isinstance(block, Columns) for block in watched.blocks)
    assert watched.values() == [n * 2 if n > 3 else -n for n in NUMBERS] * 20


class Slow:
    """Sees which way blocks go: a call of the function costs nothing, and the columns a second."""

    def __init__(self) -> None:
        self.called = 0

    def __call__(self, n: int) -> int:
        self.called += 1
        return n + 1


@pytest.mark.parametrize("takes_columns", [True, False])
def test_columns_that_cost_more_are_left_and_results_stay_columns_for_who_takes_them(takes_columns, monkeypatch):
    clock = Hands()
    watched = Watched(mapped(lambda n: n + 1), clock, takes_columns)
    path: Any = watched.operator.path
    computed = path._path._compute

    def slow(block: Columns) -> Any:
        clock.now += 0.1 * block.length
        return computed(block)

    monkeypatch.setattr(path._path, "_compute", slow)
    called = path._called

    def fast(block: Columns) -> Any:
        clock.now += 0.0001 * block.length
        return called(block)

    monkeypatch.setattr(path, "_called", fast)
    for _ in range(6):
        watched.feed(NUMBERS)

    assert watched.values() == [n + 1 for n in NUMBERS] * 6
    assert watched.warnings == []
    assert isinstance(watched.blocks[0], Columns)
    assert isinstance(watched.blocks[-1], Columns) is takes_columns
    assert watched.operator.context.metrics.snapshot() == {
        "numRecordsVectorized": 3000,
        "reason.columns cost more.numRecordsPerRecord": 3000,
    }


def test_a_filter_that_calls_its_function_keeps_columns(monkeypatch):
    traced = trace(lambda n: n % 3 == 0, None, 1).condition(INT)
    watched = Watched(ColumnarMap(Filter(UserFunction(lambda n: n % 3 == 0)), traced))
    path: Any = watched.operator.path

    def refused(block: Columns) -> Any:
        raise FallBackToRows("not today")

    monkeypatch.setattr(path._path, "_compute", refused)

    watched.feed(NUMBERS)

    assert isinstance(watched.blocks[0], Columns)
    assert watched.values() == [n for n in NUMBERS if n % 3 == 0]
    assert watched.operator.context.metrics.snapshot() == {"reason.not today.numRecordsPerRecord": 1000}


def test_records_are_counted_by_the_way_they_take():
    watched = Watched(mapped(lambda n: n * 2))

    watched.feed([1, 2])
    watched.feed([5, 2**62])
    watched.operator.process_block(RowBlock([4, 5]))

    assert watched.operator.context.metrics.snapshot() == {
        "numRecordsVectorized": 2,
        "reason.an overflow.numRecordsPerRecord": 2,
        "reason.single records arrive.numRecordsPerRecord": 2,
    }


def test_reasons_are_bounded():
    metrics = MetricGroup()
    counts = WayCounts(metrics)

    for number in range(40):
        counts.rows(1, f"reason {number}")

    found = metrics.snapshot()
    assert len(found) == 17
    assert found["reason.others.numRecordsPerRecord"] == 24
