"""Micro-batches without Spark: whatever the batches are, state and windows go on from one to the next."""

import tempfile
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import (
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkGenerator,
    WatermarkStrategy,
)
from funken.checkpoint.machine import Outcome
from funken.checkpoint.settings import CheckpointSettings
from funken.config import Configuration
from funken.connectors.dataframe import RowsSource
from funken.errors import JobExecutionError
from funken.operators.sink import CollectSink
from funken.plan.nodes import portable
from funken.runtime.driver.job_checkpoints import JobCheckpoints
from funken.runtime.driver.local_runner import LocalLoop
from funken.runtime.exchange.gate import InputGate
from funken.timing.clock import SystemClock

JOB = "ab" * 16
IN_ORDER = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row.at)


class Sums(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, sum(row.n for row in elements)


def running(rows):
    return rows.map(lambda row: (row.k, row.n)).key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))


def windows(rows):
    return rows.key_by(lambda row: row.k).window(TumblingEventTimeWindows.of(10)).process(Sums())


def restamped_windows(rows):
    return windows(rows.map(lambda row: row).assign_timestamps_and_watermarks(IN_ORDER))


class Fed(LocalLoop):
    """Tasks that are given rows, as Spark gives them: subtask ``i`` every ``parallelism``-th block of two."""

    def feed(self, rows):
        sources = [task for task in self.tasks if task.id.stage == 0]
        for number, start in enumerate(range(0, len(rows), 2)):
            columns = [pa.array(column) for column in zip(*rows[start : start + 2], strict=True)]
            sources[number % len(sources)].feed(columns, lambda: None)
        for task in sources:
            task.feed(None, lambda: None)


def run_batch(build, strategy, parallelism, folder, number, rows):
    """Run one batch as a runner does; return what came out, ``None`` if the batch had been run before."""
    env = StreamExecutionEnvironment.create_local_environment(parallelism)
    build(env.from_source(RowsSource(("k", "n", "at"), streaming=True), strategy))._apply("out", CollectSink("out"))
    job = env.job()
    settings = CheckpointSettings.of(Configuration({"execution.checkpointing.dir": folder}))
    checkpoints = job.checkpoints = JobCheckpoints.of_micro_batch(job.plan, settings, JOB)
    try:
        job.begin_attempt(number + 1)
        if not job.master.begin_micro_batch(number, own=bool(checkpoints.completed)):
            return None
        job.master.check()
        job.settings = replace(job.settings, pausing=True)
        job.master.collectors["out"].limit = float("inf")
        loop = Fed(job, portable(job.plan), SystemClock(), lambda seconds: None)
        loop.open()
        loop.feed(rows)
        while not loop.over:
            loop.turn()
        loop.close()
        job.master.collectors.end()
        return [record for block in iter(job.master.collectors["out"].get, None) for record in block]
    finally:
        checkpoints.stopped(Outcome.FINISHED)


def run_batches(build, batches, parallelism, strategy=IN_ORDER):
    """Run batches one after the other; return everything that came out."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            record
            for number, rows in enumerate(batches)
            for record in run_batch(build, strategy, parallelism, folder, number, rows)
        ]


ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-9, 9), st.integers(0, 40)), max_size=20)
CUTS = st.lists(st.integers(0, 20), max_size=3)


def cut(rows, at):
    places = [0, *sorted(min(place, len(rows)) for place in at), len(rows)]
    return [rows[a:b] for a, b in pairwise(places)]


@settings(max_examples=8)
@given(ROWS, CUTS, st.sampled_from([1, 2]))
def test_state_goes_on_from_batch_to_batch(rows, at, parallelism):
    found = run_batches(running, cut(rows, at), parallelism)
    assert Counter(key for key, _ in found) == Counter(key for key, *_ in rows)
    last = {}
    for key, n, _ in rows:
        last[key] = last.get(key, 0) + n
    batches = cut(rows, at)
    assert last.items() <= set(found)
    assert sum(map(len, batches)) == len(found)


@settings(max_examples=8)
@given(ROWS, CUTS, st.sampled_from([1, 2]), st.sampled_from([windows, restamped_windows]))
def test_windows_fire_at_the_end_of_the_batch_that_completes_them(rows, at, parallelism, build):
    rows = sorted(rows, key=lambda row: row[2])
    strategy = IN_ORDER if build is windows else WatermarkStrategy.no_watermarks()
    sums = defaultdict(int)
    for key, n, moment in rows:
        sums[key, moment // 10 * 10] += n
    found = run_batches(build, [*cut(rows, at), [("end", 0, 1000)] * 4], parallelism, strategy)
    assert sorted(found) == sorted((key, start, total) for (key, start), total in sums.items())


class AtOnes(WatermarkGenerator):
    """Only some rows say how far event time is."""

    def on_event(self, event, event_timestamp, output):
        if event.n == 1:
            output.emit_watermark(event_timestamp)

    def on_periodic_emit(self, output):
        pass


def test_a_subtask_whose_rows_told_no_time_holds_it_back_and_one_without_rows_does_not():
    strategy = WatermarkStrategy.for_generator(AtOnes).with_timestamp_assigner(lambda row, _: row.at)
    told, untold = [("b", 1, 50), ("b", 1, 51)], [("a", 0, 1), ("a", 0, 2)]
    assert run_batches(windows, [untold + told], 2, strategy) == []
    assert run_batches(windows, [untold, [], told], 1, strategy) == [("a", 0, 0)]
    assert run_batches(windows, [told, [("b", 1, 75)]], 2, strategy) == [("b", 50, 2)]


def test_a_batch_that_is_given_again_is_not_run_again(tmp_path):
    run = lambda number, rows: run_batch(running, IN_ORDER, 1, str(tmp_path), number, rows)  # noqa: E731
    assert run(0, [("a", 1, 0)]) == [("a", 1)]
    assert run(0, [("a", 1, 0)]) is None
    assert run(1, [("a", 2, 0)]) == [("a", 3)]


def test_a_batch_that_does_not_follow_the_checkpoint_is_refused(tmp_path):
    run_batch(running, IN_ORDER, 1, str(tmp_path), 0, [("a", 1, 0)])
    with pytest.raises(JobExecutionError, match="micro-batch 2, but its newest checkpoint is of batch 0.*job-id"):
        run_batch(running, IN_ORDER, 1, str(tmp_path), 2, [("a", 1, 0)])


def test_a_gate_that_pauses_neither_raises_the_watermark_nor_ends_its_inputs():
    told = []

    class Receiver:
        def __getattr__(self, name):
            return lambda *arguments: told.append((name, *arguments))

    gate = InputGate(Receiver(), [((0, 0), 0), ((0, 1), 0)])
    gate.watermark((0, 0), 5)
    gate.watermark((0, 1), 7)
    del told[:]
    gate.end((0, 0), True)
    assert not gate.finished
    gate.end((0, 1), True)
    assert gate.finished
    assert told == [("pause",)]
