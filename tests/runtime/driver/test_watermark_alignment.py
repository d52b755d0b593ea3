"""Watermark alignment, in a whole job under virtual time."""

from funken import DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.testing import SimulatedJob


def sources(env, drift, limit=None):
    """A slow and a fast source whose records are their own event times (ms)."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[1])
    if drift is not None:
        strategy = strategy.with_watermark_alignment("group", drift, 100)
    slow = env.from_source(DataGeneratorSource(lambda i: ("slow", i * 10), limit, 100), strategy, "slow")
    fast = env.from_source(DataGeneratorSource(lambda i: ("fast", i * 10), limit, 10_000), strategy, "fast")
    return slow.union(fast)


def furthest(records):
    return {name: max(at for of, at in records if of == name) for name in ("slow", "fast")}


def test_a_source_that_is_too_far_ahead_waits_for_the_slowest_of_its_group():
    env = StreamExecutionEnvironment.create_local_environment(1)
    with SimulatedJob(sources(env, drift=1000)) as job:
        at = furthest(job.advance("10 s"))

    assert 9_000 <= at["slow"] <= 10_000
    # The fast one learns of its limit every 100 ms, in which it makes 10 s of event time at most.
    assert at["fast"] <= at["slow"] + 1000 + 2 * 10_000


def test_without_alignment_it_runs_away():
    env = StreamExecutionEnvironment.create_local_environment(1)
    with SimulatedJob(sources(env, drift=None)) as job:
        at = furthest(job.advance("10 s"))

    assert at["fast"] > 900_000


def test_a_source_that_has_ended_holds_nobody_back():
    env = StreamExecutionEnvironment.create_local_environment(1)

    assert len(SimulatedJob(sources(env, drift=1000, limit=300)).run()) == 600
