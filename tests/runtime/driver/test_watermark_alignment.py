"""Watermark alignment, in a whole job under virtual time."""

from dataclasses import dataclass

import pytest

from funken import DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors import NEED_SPLITS, Batch, Boundedness, Source, SourceReader, StaticSplits, Wait
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


@dataclass(frozen=True)
class Line:
    id: str
    pace: int
    """How many ms of event time there are in a ms."""
    at: int = 0


@dataclass(frozen=True)
class Lines(Source):
    """One reader that reads all splits at a time, if it is not told to pause some."""

    pauses: bool
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED

    def enumerator(self, parallelism):
        return StaticSplits([Line("slow", 1), Line("fast", 100)], parallelism)

    def reader(self, context):
        return LinesReader(self.pauses)


class LinesReader(SourceReader):
    def __init__(self, pauses):
        self.pauses_splits, self.lines, self.paused, self.read, self.last = pauses, {}, set(), {}, {}

    def add_splits(self, splits):
        self.lines.update({line.id: line for line in splits})

    def poll(self, limit, now):
        if not self.lines:
            return NEED_SPLITS
        for line in self.lines.values():
            came = (now - self.last.setdefault(line.id, now)) * line.pace // 100
            if line.id in self.paused:
                self.last[line.id] = now  # it is read at its pace when it is resumed
            elif came > 0:
                self.last[line.id], done = now, self.read.get(line.id, 0)
                self.read[line.id] = done + 100 * came
                return Batch([(line.id, done + 100 * n) for n in range(came)], split=line.id)
        return Wait(10)

    def pause_or_resume_splits(self, pause, resume):
        assert self.pauses_splits
        assert not set(pause) & self.paused, "it is paused"
        assert set(resume) <= self.paused, "it is not paused"
        self.paused = (self.paused | set(pause)) - set(resume)

    def snapshot_state(self, checkpoint_id):
        return list(self.lines.values())


@pytest.mark.parametrize("pauses", [True, False])
def test_of_the_splits_of_one_reader_those_that_are_too_far_ahead_are_paused(pauses):
    env = StreamExecutionEnvironment.create_local_environment(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[1])
    strategy = strategy.with_watermark_alignment("group", 1000, 100).with_idleness("1 s")
    with SimulatedJob(env.from_source(Lines(pauses), strategy, "lines")) as job:
        at = furthest(job.advance("60 s"))

    assert at["slow"] >= 59_000
    if pauses:  # between two looks at it, of 100 ms each, the fast one makes 10 s of event time
        assert at["slow"] <= at["fast"] <= at["slow"] + 1000 + 3 * 10_000
    else:
        assert at["fast"] > 5_000_000
