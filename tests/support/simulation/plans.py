"""Random SQL plans for the simulation: the rows that the changes of some queries leave are the same whatever happens.

A plan is three random queries over random changes of tables, as ``tests/table/random_queries.py`` makes them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from funken import DataGeneratorSource, DataStream, KeyedProcessFunction, StreamExecutionEnvironment, WatermarkStrategy
from tests.support.simulation.scenario_functions import COUNT
from tests.table.random_queries import AFTER, INSERT, TABLES, History, Queries, create_looked_up, rendered

Wide = Callable[[], int]
_PLANS, _QUERIES = 60, 3
_END = 2**63 - 2
"""A time after that of every row: with the end of input comes the last watermark."""


class Left(KeyedProcessFunction):
    """Counts how often a row is there, and says so at the end."""

    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(COUNT)

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[Any]:
        self._count.update(self._count.value() + value[1])
        ctx.timer_service().register_event_time_timer(_END)
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if self._count.value():
            yield ctx.get_current_key(), self._count.value()


def _signed(row: Any) -> tuple[str, int]:
    return str(tuple(row)), 1 if row.get_row_kind() in (INSERT, AFTER) else -1


def plan(number: int, env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Return what the queries of a plan leave."""
    from funken.table.environment import EnvironmentSettings, StreamTableEnvironment

    rng = random.Random(number)
    tables = StreamTableEnvironment.create(env, EnvironmentSettings.in_streaming_mode())
    config = tables.get_config().set("table.exec.resource.default-parallelism", str(wide()))
    if rng.random() < 0.3:
        config.set("table.exec.mini-batch.enabled", "true").set("table.exec.mini-batch.allow-latency", "10 ms")
        config.set("table.exec.mini-batch.size", "5")
    queries = Queries(rng)
    texts = [rendered(queries.query(), 0) for _ in range(_QUERIES)]
    for table in TABLES:
        history = History(table, rng)
        history.go_on(max(2, records // 4))
        changes = history.changes
        source = DataGeneratorSource(lambda i, changes=changes: changes[i], len(changes))
        stream: Any = env.from_source(source, WatermarkStrategy.no_watermarks(), table.name).set_parallelism(1)
        named = tables.from_changelog_stream(stream.uid(table.name), table.schema(), table.mode)
        tables.create_temporary_view(table.name, named)
    create_looked_up(tables)
    found = []
    for place, text in enumerate(texts):
        signed = tables.to_changelog_stream(tables.sql_query(text)).map(_signed).uid(f"signed {place}")
        left = signed.key_by(lambda pair: pair[0]).process(Left()).set_parallelism(wide()).uid(f"left {place}")
        found.append(left)
    return found


PLANS: dict[str, Callable[[StreamExecutionEnvironment, int, Wide], list[DataStream]]] = {
    f"plan {number}": partial(plan, number) for number in range(_PLANS)
}

__all__ = ["PLANS"]
