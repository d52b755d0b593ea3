from datetime import UTC, datetime, timedelta

import pytest

from funken import (
    AsyncRetryStrategy,
    ContinuousEventTimeTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    StateTtlConfig,
    StreamExecutionEnvironment,
    TimeEvictor,
    TumblingEventTimeWindows,
    WatermarkStrategy,
    cached,
)
from funken.connectors.files.part_files import RollingPolicy
from funken.errors import InvalidProgram
from funken.io.durations import duration_ms
from funken.testing import local


class Time:
    """PyFlink's, as far as it matters."""

    def to_milliseconds(self):
        return 5000


class Duration:
    def to_millis(self):
        return 7


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (timedelta(minutes=1), 60_000),
        (timedelta(microseconds=1999), 1),
        (12, 12),
        (1.5, 1),
        ("5 s", 5000),
        (Time(), 5000),
        (Duration(), 7),
    ],
)
def test_every_kind_of_duration_becomes_milliseconds(duration, expected):
    assert duration_ms(duration) == expected


@pytest.mark.parametrize("wrong", ["five", float("inf"), None, True, [5], datetime(2026, 1, 1, tzinfo=UTC)])
def test_what_is_no_duration_is_refused(wrong):
    with pytest.raises(InvalidProgram, match="is no duration.*'5 s', timedelta"):
        duration_ms(wrong)


async def ask(value):
    return [value]


def environment():
    return StreamExecutionEnvironment.create_local_environment()


def checkpoints(name, change):
    env = environment()
    change(env.get_checkpoint_config())
    return env.get_configuration().to_dict()[f"execution.checkpointing.{name}"]


def buffer_timeout(stream):
    return stream.get_execution_environment().graph[stream._node("the test").id].buffer_timeout


@pytest.mark.parametrize(
    "take",
    [
        lambda of: TumblingEventTimeWindows.of(of).size,
        lambda of: TumblingEventTimeWindows.of(60_000, of).offset,
        lambda of: SlidingEventTimeWindows.of(60_000, of).slide,
        lambda of: EventTimeSessionWindows.with_gap(of).gap,
        lambda of: EventTimeSessionWindows.with_dynamic_gap(lambda _: of).gap_of("record"),
        lambda of: ContinuousEventTimeTrigger.of(of).interval,
        lambda of: TimeEvictor.of(of).window_size,
        lambda of: StateTtlConfig.new_builder(of).build().ttl_millis,
        lambda of: WatermarkStrategy.for_monotonous_timestamps().with_idleness(of).idleness,
        lambda of: cached(ask, of).cache.ttl_ms,
        lambda of: RollingPolicy.default_rolling_policy(rollover_interval=of).rollover_interval,
        lambda of: local([1]).key_by(str).window(TumblingEventTimeWindows.of(9)).allowed_lateness(of)._lateness,
        lambda of: (
            environment().enable_checkpointing(of).get_configuration().to_dict()["execution.checkpointing.interval"]
        ),
        lambda of: environment().get_checkpoint_config().set_checkpoint_timeout(of).get_checkpoint_timeout(),
        lambda of: checkpoints("min-pause", lambda given: given.set_min_pause_between_checkpoints(of)),
        lambda of: environment().set_buffer_timeout(of).get_buffer_timeout(),
        lambda of: buffer_timeout(local([1]).map(str).set_buffer_timeout(of)),
        lambda of: AsyncRetryStrategy.fixed_delay(1, of).get_backoff_time_millis(1),
        lambda of: AsyncRetryStrategy.exponential_backoff(3, of, of, 2.0).get_backoff_time_millis(3),
    ],
)
def test_all_that_take_a_duration_take_the_same_spellings(take):
    assert take("5 s") == take(timedelta(seconds=5)) == take(5000) == take(Time()) == 5000
    with pytest.raises(InvalidProgram, match="is no duration"):
        take("soon")
