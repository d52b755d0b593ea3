"""Restart strategies, as timelines of failures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.checkpoint.machine import Outcome
from funken.checkpoint.restart_strategy import ExponentialDelay, FailureRate, FixedDelay, NoRestart, restart_strategy
from funken.checkpoint.settings import CheckpointSettings
from funken.config import Configuration
from funken.errors import InvalidConfiguration


def test_without_checkpoints_there_is_no_restart():
    assert restart_strategy(Configuration()) == NoRestart()
    assert NoRestart().failed(0) is None


def test_with_checkpoints_the_wait_grows_from_a_second_to_a_minute():
    strategy = restart_strategy(Configuration({"execution.checkpointing.interval": "5 s"}))
    at, waits = 0, []
    for _ in range(13):
        waits.append(strategy.failed(at))
        at += waits[-1] + 10
    assert waits[:4] == [1000, 1500, 2250, 3375]
    assert waits[-1] == 60_000


def test_there_are_no_more_restarts_than_allowed():
    strategy = FixedDelay(attempts=2, delay=50)

    assert [strategy.failed(0) for _ in range(4)] == [50, 50, None, None]


@pytest.mark.parametrize("name", ["none", "off", "disable", "NONE"])
def test_a_restart_can_be_ruled_out(name):
    options = {"execution.checkpointing.interval": 5000, "restart-strategy.type": name}
    assert restart_strategy(Configuration(options)) == NoRestart()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"restart-strategy": "fixeddelay", "restart-strategy.fixed-delay.attempts": "3"},
            FixedDelay(3, 1000),
        ),
        (
            {
                "restart-strategy.type": "failure-rate",
                "restart-strategy.failure-rate.max-failures-per-interval": 2,
                "restart-strategy.failure-rate.failure-rate-interval": "5 min",
                "restart-strategy.failure-rate.delay": "10 s",
            },
            FailureRate(2, 300_000, 10_000),
        ),
        (
            {
                "restart-strategy.type": "exponential-delay",
                "restart-strategy.exponential-delay.initial-backoff": "10 s",
                "restart-strategy.exponential-delay.max-backoff": "2 min",
                "restart-strategy.exponential-delay.backoff-multiplier": "1.4",
                "restart-strategy.exponential-delay.reset-backoff-threshold": "10 min",
                "restart-strategy.exponential-delay.jitter-factor": "0.2",
                "restart-strategy.exponential-delay.attempts-before-reset-backoff": 10,
            },
            ExponentialDelay(10_000, 120_000, 1.4, 600_000, 0.2, 10),
        ),
    ],
)
def test_the_options_are_flinks(options, expected):
    assert restart_strategy(Configuration(options)) == expected


def test_a_longest_wait_shorter_than_the_first_is_refused():
    key = "restart-strategy.exponential-delay.max-backoff"
    configuration = Configuration({"restart-strategy.type": "exponential-delay", key: "999 ms"})
    with pytest.raises(InvalidConfiguration, match=f"{key}' is 999; it must be the initial backoff, 1000, or more"):
        restart_strategy(configuration)


def test_a_rate_forgets_old_failures():
    strategy = FailureRate(failures=2, interval=100, delay=1)
    assert [strategy.failed(at) for at in (0, 50, 101, 152)] == [1, 1, 1, 1]
    assert strategy.failed(200) is None


def test_the_wait_starts_over_after_a_long_run():
    strategy = ExponentialDelay(100, 1000, 2.0, reset_after=500, attempts=3)
    assert [strategy.failed(at) for at in (0, 200, 500)] == [100, 200, 400]
    assert strategy.failed(900 + 499) is None  # 499 ms after the restart at 900, and the fourth
    strategy = ExponentialDelay(100, 1000, 2.0, reset_after=500, attempts=3)
    assert [strategy.failed(at) for at in (0, 200, 500, 1400)] == [100, 200, 400, 100]


@given(st.lists(st.tuples(st.integers(0, 100_000), st.floats(-1, 1)), max_size=30))
def test_a_wait_is_never_longer_than_the_longest_nor_negative(failures):
    strategy, now = ExponentialDelay(100, 5000, 1.5, 20_000, 0.5), 0
    for after, jitter in failures:
        now += after
        assert 50 <= strategy.failed(now, jitter) <= 5000


# ---- the settings of checkpoints


def test_settings_are_flinks_and_have_their_older_names():
    settings = CheckpointSettings.of(
        Configuration(
            {
                "execution.checkpointing.interval": "10 s",
                "execution.checkpointing.mode": "AT_LEAST_ONCE",
                "execution.checkpointing.min-pause": "1 s",
                "execution.checkpointing.max-concurrent-checkpoints": 2,
                "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
                "execution.checkpointing.data-inline-threshold": "1kb",
                "execution.checkpointing.unaligned.enabled": "true",
                "state.checkpoints.dir": "s3://bucket/checkpoints",
                "state.checkpoints.num-retained": 3,
                "state.backend.incremental": "false",
            }
        )
    )
    assert settings.policy.interval == 10_000
    assert settings.policy.concurrent == 1  # a pause allows one at a time
    assert settings.policy.retained == 3
    assert settings.policy.kept_after == set(Outcome) - {Outcome.FINISHED}
    assert settings.directory == settings.savepoint_directory == "s3://bucket/checkpoints"
    assert (settings.snapshots.incremental, settings.snapshots.inline_below) == (False, 1024)
    assert (settings.exactly_once, settings.unaligned) == (False, False)


def test_without_an_interval_there_are_checkpoints_only_on_request():
    settings = CheckpointSettings.of(Configuration({"execution.checkpointing.savepoint-dir": "/s"}))
    assert settings.policy.interval is None
    assert (settings.directory, settings.savepoint_directory) == ("", "/s")
