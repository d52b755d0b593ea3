"""Stopping a job, whoever stops it and whatever its code does: soon, and with nothing left behind."""

import os
import re
import signal
import sys
import time

import pytest

from funken import (
    DataGeneratorSource,
    JobCancelled,
    JobExecutionError,
    JobStatus,
    MapFunction,
    NumberSequenceSource,
    SplitEnumerator,
    WatermarkStrategy,
)
from funken.errors import OperatorFailed, SourceNotReadable, TaskLost

pytestmark = [pytest.mark.spark, pytest.mark.ways("batch", "continuous")]

BOUND = 60


@pytest.fixture
def parallelism():
    return 1


def endless(env, mode):
    """A source that outlives every test: very long for a batch job, else without end."""
    source = NumberSequenceSource(0, 10**12) if mode == "batch" else DataGeneratorSource(lambda index: index)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "endless")


def stop(client):
    client.cancel().result(BOUND)
    with pytest.raises(JobCancelled):
        client.get_job_execution_result().result(1)
    assert client.get_job_status().result() is JobStatus.CANCELED


# ---- cancelled


@pytest.mark.parametrize("parallelism", [2])
def test_a_job_at_full_speed(mode, env, watch):
    endless(env, mode).map(lambda index: (index % 10, index)).key_by(lambda pair: pair[0]).sum(1)
    client = env.execute_async()
    watch.wait_for_tasks(2)

    stop(client)

    watch.nothing_is_left(mode)


def test_a_job_that_has_not_begun(mode, env, watch):
    endless(env, mode).print()

    stop(env.execute_async())

    watch.nothing_is_left(mode)


@pytest.mark.ways("continuous")
def test_a_source_that_waits_for_room(mode, env, watch, blocked):
    """A slow operator fills every buffer up to the source; stopping does not wait until they are empty."""
    path = blocked.path

    def slow(index):
        path.write_text("here")
        time.sleep(0.05)

    endless(env, mode).rebalance().map(slow)
    client = env.execute_async()
    blocked.wait()

    stop(client)

    watch.nothing_is_left(mode)


def test_a_reader_that_is_slow(mode, env, watch):
    """Nobody reads what was collected: the tasks wait for room, and the job still stops."""
    last = 10**12 if mode == "continuous" else 300_000
    source = NumberSequenceSource(1, last)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(lambda n: [n])
    records = stream.execute_and_collect()
    assert records.next() == [1]

    records.close()

    watch.nothing_is_left(mode)


@pytest.mark.ways("batch")
def test_a_reader_that_is_slow_gets_everything(mode, env, watch):
    """What a task collected is delivered when Spark has long forgotten the task."""
    stream = env.from_source(NumberSequenceSource(1, 300_000), WatermarkStrategy.no_watermarks(), "numbers")
    records = stream.execute_and_collect()
    assert records.next() == 1
    with pytest.raises(TimeoutError):
        records.get_job_client().get_job_execution_result().result(3)

    assert sum(records) == 300_000 * 300_001 // 2 - 1

    watch.nothing_is_left(mode)


def test_a_limit(mode, env, watch):
    stream = env.from_source(NumberSequenceSource(1, 300_000), WatermarkStrategy.no_watermarks(), "numbers")

    assert stream.execute_and_collect(limit=3) == [1, 2, 3]

    watch.nothing_is_left(mode)


# ---- code that does not come back


def sleep():
    time.sleep(3600)


def loop():
    while True:
        pass


def keep_the_interpreter():
    """Backtracking inside ``re`` lets no other thread of its process run."""
    re.match("(a+)+b", "a" * 60)


class Reaching(MapFunction):
    """Says which of its methods is called."""

    def reach(self, method):
        raise NotImplementedError

    def open(self, runtime_context):
        self.reach("open")

    def map(self, value):
        self.reach("map")
        return value

    def close(self):
        self.reach("close")


class Blocks(Reaching):
    """Blocks in one of its methods."""

    def __init__(self, path, method, block):
        self.path, self.method, self.block = path, method, block

    def reach(self, method):
        if method == self.method:
            self.path.write_text(str(os.getpid()))
            self.block()


@pytest.mark.parametrize(
    ("stage", "method", "block"),
    [
        (0, "map", sleep),
        (1, "map", sleep),
        (1, "map", loop),
        (0, "map", keep_the_interpreter),
        (0, "open", sleep),
        (1, "close", sleep),
    ],
)
def test_code_that_blocks(mode, environment, watch, blocked, stage, method, block):
    env = environment({"task.cancellation.timeout": "300 ms"})
    stream = env.from_collection([1])
    (stream.rebalance() if stage else stream).map(Blocks(blocked.path, method, block)).print()
    client = env.execute_async()
    blocked.wait()

    stop(client)

    watch.nothing_is_left(mode)
    blocked.worker_is_gone()


@pytest.mark.ways("continuous")
def test_code_that_blocks_until_the_start_is_given_up(mode, environment, watch, blocked):
    env = environment({"task.cancellation.timeout": "300 ms", "execution.start-timeout": "1 s"})
    env.from_collection([1]).rebalance().map(Blocks(blocked.path, "open", sleep))

    with pytest.raises(JobExecutionError, match="of 2 tasks did not start in time .*stage 1, task 0.*start-timeout"):
        env.execute()

    watch.nothing_is_left(mode)


@pytest.mark.ways("continuous")
def test_code_that_blocks_while_another_operator_fails(mode, environment, watch, blocked):
    env = environment({"task.cancellation.timeout": "300 ms"})
    path = blocked.path

    def explode(value):
        if path.exists():
            raise ValueError("boom")

    endless(env, mode).map(explode)
    env.from_collection([1]).rebalance().map(Blocks(path, "map", sleep))

    with pytest.raises(OperatorFailed, match="boom"):
        env.execute()

    watch.nothing_is_left(mode)


# ---- failed


class Fails(Reaching):
    """Raises in one of its methods."""

    def __init__(self, method, error):
        self.method, self.error = method, error

    def reach(self, method):
        if method == self.method:
            raise self.error


@pytest.mark.parametrize(
    ("stage", "method"), [(0, "map"), (1, "map"), (2, "map"), (1, "open"), (0, "open"), (1, "close"), (0, "close")]
)
def test_an_operator_that_raises(mode, env, watch, stage, method):
    stream = env.from_source(NumberSequenceSource(1, 10), WatermarkStrategy.no_watermarks(), "numbers")
    for _ in range(stage):
        stream = stream.rebalance().map(lambda value: value)
    stream.map(Fails(method, ValueError("user boom"))).name("culprit").rebalance().map(lambda value: value).print()

    with pytest.raises(OperatorFailed) as caught:
        env.execute()

    assert "ValueError: user boom" in str(caught.value)
    assert f"in {method}" in str(caught.value)
    if method == "map":
        assert caught.value.operator == "culprit"
    watch.nothing_is_left(mode)


class Strange(Exception):
    """Cannot be pickled, shown, or made again."""

    def __init__(self, one, two):
        super().__init__(lambda: one)
        self.lock = two

    def __str__(self):
        raise RuntimeError("no text")


def test_an_exception_that_can_neither_be_pickled_nor_shown(mode, env, watch):
    def explode(value):
        raise Strange(value, open(os.devnull))  # noqa: SIM115 - it is what makes it strange

    env.from_collection([1]).map(explode).name("culprit").print()

    with pytest.raises(OperatorFailed, match=r"operator 'culprit' \(subtask 0\) failed at the record 1: Strange: "):
        env.execute()

    watch.nothing_is_left(mode)


def test_a_function_that_exits(mode, env, watch):
    env.from_collection([1]).map(lambda value: sys.exit(3)).name("culprit").print()

    with pytest.raises(OperatorFailed, match="'culprit'.*SystemExit: 3"):
        env.execute()

    watch.nothing_is_left(mode)


@pytest.mark.parametrize("parallelism", [2])
@pytest.mark.parametrize("stage", [0, 1])
def test_a_worker_that_is_killed(mode, env, watch, blocked, stage):
    path = blocked.path

    def wait(value):
        path.write_text("here")
        time.sleep(3600)

    stream = env.from_source(NumberSequenceSource(1, 10), WatermarkStrategy.no_watermarks(), "numbers")
    (stream.rebalance() if stage else stream).map(wait)
    client = env.configure(env.get_configuration().set("task.cancellation.timeout", 300)).execute_async()
    blocked.wait()

    os.kill(watch.workers(stage)[0], signal.SIGKILL)

    with pytest.raises(TaskLost, match=f"the worker of stage {stage}, task . ended without a word: it was killed"):
        client.get_job_execution_result().result(BOUND)
    watch.nothing_is_left(mode)


class BrokenEnumerator(SplitEnumerator):
    def __init__(self, error):
        self.error = error

    def next_splits(self, subtask):
        raise self.error


class BrokenSource(NumberSequenceSource):
    def enumerator(self, parallelism):
        return BrokenEnumerator(SourceNotReadable("source 'broken': gone") if self.start else KeyError("no splits"))


@pytest.mark.parametrize(("start", "message"), [(0, "KeyError: 'no splits'"), (1, "source 'broken': gone")])
def test_a_driver_that_fails_at_what_a_task_reports(mode, env, watch, start, message):
    env.from_source(BrokenSource(start, 1), WatermarkStrategy.no_watermarks(), "broken").print()

    with pytest.raises(JobExecutionError, match=message):
        env.execute()

    watch.nothing_is_left(mode)


@pytest.mark.ways("continuous")
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (BrokenPipeError("nobody listens"), "SuppressRestarts: .* its reader has ended"),
        (OSError("no space"), "no space"),
    ],
)
def test_printing_that_fails(mode, env, watch, monkeypatch, error, message):
    class Full:
        def write(self, text):
            raise error

    endless(env, mode).print()
    monkeypatch.setattr(sys, "stdout", Full())

    with pytest.raises(JobExecutionError, match=f"coordinator of operator 'print' failed: .*{message}"):
        env.execute()

    watch.nothing_is_left(mode)


def test_a_job_that_fails_while_nobody_reads(mode, env, watch):
    """The reader of the first records finds the failure when it goes on."""

    def explode(value):
        if value == 250_000:
            raise ValueError("boom")
        return value

    stream = env.from_source(NumberSequenceSource(1, 300_000), WatermarkStrategy.no_watermarks(), "numbers")
    with stream.map(explode).execute_and_collect() as records, pytest.raises(OperatorFailed, match="boom"):
        for _ in records:
            pass

    watch.nothing_is_left(mode)


def test_two_jobs_at_once_and_a_session_that_is_usable_after_all_this(mode, environment, watch):
    streams = [environment().from_collection(list(letters)).rebalance().map(str.upper) for letters in ("abc", "def")]
    results = [stream.execute_and_collect() for stream in streams]
    assert [sorted(records) for records in results] == [["A", "B", "C"], ["D", "E", "F"]]

    watch.nothing_is_left(mode)
