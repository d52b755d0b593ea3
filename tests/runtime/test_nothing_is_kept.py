"""A process that runs one job after the other keeps nothing of those that are over."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from funken import (
    DataStream,
    DiscardingSink,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.errors import FunkenError
from funken.table import EnvironmentSettings, TableEnvironment


class Opaque(MapFunction):
    """A function that is called for each record."""

    def map(self, value: int) -> int:
        try:
            return int(str(value))
        except ValueError:
            return 0


class Counting(KeyedProcessFunction):
    """A function with state and timers."""

    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count", int))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value + 1)
        yield value

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[int]:
        yield timestamp


def by_time(stream: DataStream) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    return stream.assign_timestamps_and_watermarks(strategy)


def in_windows(stream: DataStream) -> DataStream:
    pairs = by_time(stream).map(lambda n: (n % 3, n)).key_by(lambda pair: pair[0])
    return pairs.window(TumblingEventTimeWindows.of(timedelta(milliseconds=10))).reduce(
        lambda a, b: (a[0], a[1] + b[1])
    )


def joined(stream: DataStream) -> DataStream:
    left, right = by_time(stream), by_time(stream.map(Opaque()))
    both = left.join(right).where(lambda n: n % 3).equal_to(lambda n: n % 3)
    return both.window(TumblingEventTimeWindows.of(timedelta(milliseconds=10))).apply(lambda a, b: (a, b))


STREAMS: dict[str, Callable[[DataStream], DataStream]] = {
    "a generated loop": lambda stream: stream.map(lambda n: n + 1).filter(lambda n: n > 1),
    "calls": lambda stream: stream.map(Opaque()).filter(lambda n: bool(str(n))),
    "a reduce": lambda stream: (
        stream.map(lambda n: (n % 3, n)).key_by(lambda p: p[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    ),
    "state and timers": lambda stream: by_time(stream).key_by(lambda n: n % 3).process(Counting()),
    "windows": in_windows,
    "a join": joined,
    "a failure": lambda stream: stream.map(lambda n: 1 // n),
}


def stream_job(program: Callable[[DataStream], DataStream]) -> None:
    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    program(env.from_collection(list(range(30)))).sink_to(DiscardingSink())
    try:
        env.execute()
    except FunkenError:
        assert program is STREAMS["a failure"]


def query() -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("execution.target", "local")
    with tables.execute_sql("SELECT a, COUNT(*) FROM (VALUES (1), (2), (1)) AS t (a) GROUP BY a").collect() as rows:
        assert len(list(rows)) >= 2


JOBS: dict[str, Callable[[], None]] = {
    **{name: (lambda program=program: stream_job(program)) for name, program in STREAMS.items()},
    "a query": query,
}


CACHED = ("ReferenceType", "builtin_function_or_method")
"""Kinds of objects in the caches of abstract classes, which fill for a while."""


@pytest.mark.parametrize("name", JOBS)
def test_nothing_is_kept_of_jobs_that_are_over(name):
    for _ in range(3):  # caches fill
        JOBS[name]()
    gc.collect()
    before = Counter(type(each).__name__ for each in gc.get_objects())

    for _ in range(5):
        JOBS[name]()
    gc.collect()

    kept = Counter(type(each).__name__ for each in gc.get_objects()) - before
    assert not [kind for kind, count in kept.items() if count >= 5 and kind not in CACHED], kept
