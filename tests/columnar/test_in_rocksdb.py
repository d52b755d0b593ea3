"""Operators on columns while state is in RocksDB: their arrays are a cache of it, of a size that is bounded."""

import random
from collections import Counter
from typing import Any

import pytest

from funken import (
    Configuration,
    DataStream,
    KeyedProcessFunction,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.columnar.kernels.columns import columns_of
from funken.expr.types import INT, Tuple
from funken.operators.columnar import rolling
from funken.operators.rolling import RollingReduce
from funken.operators.stateful import logic
from funken.operators.user_functions import UserFunction
from funken.plan.columns import columnar_reduce
from funken.state.rocksdb.backend import RocksDBBackend, TaskDatabases
from funken.testing import OperatorHarness
from tests.support.streams import collected

SCHEMA = Tuple((INT, INT))


class Databases:
    """Backends that a test opens, and closes at its end."""

    def __init__(self, shared: TaskDatabases) -> None:
        self._shared = shared
        self._opened: list[RocksDBBackend] = []

    def new(self) -> RocksDBBackend:
        self._opened.append(RocksDBBackend(self._shared, 128, range(128)))
        return self._opened[-1]

    def close(self) -> None:
        for each in self._opened:
            each.close()


@pytest.fixture
def backends(databases: TaskDatabases) -> Any:
    opened = Databases(databases)
    yield opened
    opened.close()


def test_a_running_reduce_gives_and_keeps_what_rows_do(backends: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "_MOST_IN_FILES", 5)
    spec = RollingReduce(UserFunction(lambda r: r[0]), UserFunction(lambda a, b: (a[0], a[1] + b[1])))
    on_columns = columnar_reduce(spec, SCHEMA, False, None)
    harnesses = [OperatorHarness(each, keyed=True, backend=backends.new()) for each in (on_columns, spec)]
    dice = random.Random(5)
    for number in range(12):
        block = [(dice.randrange(30), dice.randrange(-9, 9)) for _ in range(40)]
        as_columns = dice.random() < 0.8
        columns, rows = harnesses
        if as_columns:
            columns.operator.process_block(columns_of(block, SCHEMA))
            assert len(columns.operator._arrays) <= 5 + len(block)
        else:
            columns.feed_block(block)
        rows.feed_block(block)
        assert columns.output == rows.output
        if number % 4 == 3:
            harnesses = [
                OperatorHarness.restored(each, harness.snapshot(), keyed=True, backend=backends.new())
                for each, harness in zip((on_columns, spec), harnesses, strict=True)
            ]


class Changes(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", default=0))

    def process_element(self, value: Any, ctx: Any) -> Any:
        before = self.last.value()
        self.last.update(value[1])
        yield value[0], value[1] - before


def program() -> DataStream:
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration(
            {
                "execution.target": "local",
                "state.backend.type": "rocksdb",
                "parallelism.default": 2,
                "execution.checkpointing.interval": "100 ms",
            }
        )
    )
    numbers = env.from_source(NumberSequenceSource(1, 30_000), WatermarkStrategy.no_watermarks(), "numbers")
    pairs = numbers.set_parallelism(1).map(lambda i: (i * 7919 % 1009, i)).set_parallelism(1)
    keyed = pairs.key_by(lambda r: r[0])
    changed = keyed.process(Changes()).name("changes").key_by(lambda r: r[0])
    return changed.reduce(lambda a, b: (a[0], a[1] + b[1])).name("sums")


@pytest.mark.parametrize("most", [1 << 17, 100])
def test_a_job_on_columns_gives_every_record_what_its_key_has(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(logic, "_MOST_SLOTS", most)
    monkeypatch.setattr(rolling, "_MOST_IN_FILES", most)
    explained = program().get_execution_environment().explain()

    assert "columns: changes: vectorized" in explained
    assert "columns: sums: vectorized" in explained
    # The changes of a number add up to it.
    assert Counter(collected(program())) == Counter((i * 7919 % 1009, i) for i in range(1, 30_001))
