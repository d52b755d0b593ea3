"""A job that fails goes on from its newest checkpoint: state counts each record once, files have each result once."""

import time
from collections import Counter
from pathlib import Path

import pytest

from funken import (
    DataGeneratorSource,
    KeyedProcessFunction,
    MapFunction,
    NumberSequenceSource,
    SlidingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.checkpoint.store.completed import CompletedCheckpointStore
from funken.errors import JobExecutionError
from tests.support.files import file_sink, written

COUNT = 40_000


class Fail(MapFunction):
    """Raises once per marker file that it can take away, at a record that is far enough."""

    def __init__(self, folder, every):
        self.folder = folder
        self.every = every

    def map(self, value):
        if value and value % self.every == 0:
            for marker in sorted(Path(self.folder).glob("fail-*")):
                try:
                    marker.unlink()
                except FileNotFoundError:
                    continue
                raise RuntimeError(f"as planned, at {value}")
        return value


def with_checkpoints(env, folder, failures):
    for number in range(failures):
        (folder / f"fail-{number}").touch()
    for key, value in {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": failures,
        "restart-strategy.fixed-delay.delay": "1 ms",
    }.items():
        env.get_configuration().set(key, value)
    return env


class Count(KeyedProcessFunction):
    """Counts the records of a key in state."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        yield ctx.get_current_key(), self.count.value()


@pytest.mark.ways("local", "continuous")
def test_files_hold_each_result_once_whatever_fails(env, folder):
    numbers = env.from_source(
        DataGeneratorSource(lambda i: i, COUNT, 40_000), WatermarkStrategy.no_watermarks(), "numbers"
    )
    counts = numbers.map(Fail(str(folder), 9_973)).key_by(lambda n: n % 10).process(Count())
    counts.map(lambda pair: f"{pair[0]} {pair[1]}").sink_to(file_sink(folder))

    with_checkpoints(env, folder, failures=2).execute()

    assert not list(folder.glob("fail-*")), "it failed as often as planned"
    assert written(folder) == Counter(f"{key} {n}" for key in range(10) for n in range(1, COUNT // 10 + 1))


@pytest.mark.ways("local", "continuous")
def test_windows_and_reduce_go_on_where_they_were(env, folder):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    source = DataGeneratorSource(lambda i: i, 20_000, 40_000)
    numbers = env.from_source(source, strategy, "numbers").map(Fail(str(folder), 4_999))
    sums = numbers.key_by(lambda n: n % 3).window(SlidingEventTimeWindows.of(1000, 500)).reduce(lambda a, b: a + b)
    sums.map(str).sink_to(file_sink(folder))

    with_checkpoints(env, folder, failures=2).execute()

    expected = [
        str(sum(n for n in range(max(0, start), min(20_000, start + 1000)) if n % 3 == key))
        for start in range(-500, 20_000, 500)
        for key in range(3)
    ]
    assert written(folder) == Counter(expected)


@pytest.mark.ways("local")
def test_more_failures_than_the_strategy_allows_fail_the_job_and_leave_the_last_checkpoint(env, folder):
    numbers = env.from_source(NumberSequenceSource(1, 10**9), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(Fail(str(folder), 200_003)).key_by(lambda n: n % 10).reduce(lambda a, b: a + b).for_each(lambda n: None)
    with_checkpoints(env, folder, failures=1)
    (folder / "fail-more").touch()

    with pytest.raises(JobExecutionError, match="as planned"):
        env.execute()


@pytest.mark.ways("local")
def test_a_driver_that_starts_again_with_the_same_id_goes_on(mode, environment, folder):
    def program(failing):
        env = environment()
        numbers = env.from_source(
            DataGeneratorSource(lambda i: i, COUNT, 40_000), WatermarkStrategy.no_watermarks(), "numbers"
        )
        counts = numbers.map(Fail(str(folder), 19_997)).key_by(lambda n: n % 10).process(Count())
        counts.map(lambda pair: f"{pair[0]} {pair[1]}").sink_to(file_sink(folder))
        with_checkpoints(env, folder, failures=0)
        if failing:
            (folder / "fail-0").touch()
        env.get_configuration().set("restart-strategy.type", "none").set("execution.job-id", "one").set(
            "execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION"
        )
        return env

    with pytest.raises(JobExecutionError):
        program(failing=True).execute()
    lines = written(folder).total()
    assert 0 < lines < COUNT

    program(failing=False).execute()

    assert written(folder) == Counter(f"{key} {n}" for key in range(10) for n in range(1, COUNT // 10 + 1))


class Slow(MapFunction):
    """Takes its time, so that records queue before it."""

    def map(self, value):
        if value % 100 == 0:
            time.sleep(0.02)
        return value


@pytest.mark.ways("continuous")
def test_unaligned_checkpoints_overtake_what_queues_and_count_it_once(env, folder, monkeypatch):
    numbers = env.from_source(
        DataGeneratorSource(lambda i: i, 10_000, 40_000), WatermarkStrategy.no_watermarks(), "numbers"
    )
    slow = numbers.rebalance().map(Slow()).map(Fail(str(folder), 2_999))
    counts = slow.key_by(lambda n: n % 10).process(Count())
    counts.map(lambda pair: f"{pair[0]} {pair[1]}").sink_to(file_sink(folder))
    with_checkpoints(env, folder, failures=2)
    env.get_configuration().set("execution.checkpointing.unaligned.enabled", True).set("execution.job-id", "one").set(
        "execution.checkpointing.interval", "100 ms"
    )
    in_flight = []
    store = CompletedCheckpointStore.store
    monkeypatch.setattr(
        CompletedCheckpointStore,
        "store",
        lambda self, manifest: (store(self, manifest), in_flight.append(manifest.in_flight)),
    )

    env.execute()

    assert not list(folder.glob("fail-*")), "it failed as often as planned"
    assert written(folder) == Counter(f"{key} {n}" for key in range(10) for n in range(1, 1_001))
    assert max(in_flight) > 0
