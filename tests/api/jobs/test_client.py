"""A job's client when it is interrupted: whoever waits for the job hears of its end, and nothing runs on unseen."""

import logging
import threading
import time
from contextlib import contextmanager

import pytest

from funken import (
    Configuration,
    DataGeneratorSource,
    FileSource,
    JobStatus,
    MapFunction,
    StreamExecutionEnvironment,
    StreamFormat,
    SuppressRestarts,
    WatermarkStrategy,
)
from funken.api.jobs import client as job
from funken.api.jobs.client import JobClient
from funken.api.jobs.results import watch_jobs
from funken.errors import JobCancelled, JobExecutionError, OperatorFailed, SourceNotReadable
from funken.runtime.driver.local_runner import JobExecution, LocalRunner
from funken.testing import local
from tests.support.blocking import LET_GO, REACHED, reach, wait_outside_of_python
from tests.support.files import file_sink

BOUND = 30  # seconds; what is waited for takes a fraction of one


def client_of(runner):
    stream = local(["to", "be"])
    stream.for_each(len)
    return JobClient(stream.get_execution_environment().job("interrupted"), runner)


class Failing:
    def run(self, job):
        raise JobExecutionError("boom")


@pytest.mark.parametrize("again", [KeyboardInterrupt(), OSError("no disk")])
def test_a_job_whose_end_is_interrupted_has_a_result_all_the_same(monkeypatch, again):
    client = client_of(Failing())

    def stopped(outcome):
        raise again

    monkeypatch.setattr(JobExecution, "_stopped", lambda self, outcome: stopped(outcome))

    with pytest.raises((KeyboardInterrupt, JobExecutionError)) as raised:
        client.run()

    assert str(client.get_job_execution_result().exception(timeout=1)) == "boom"
    assert isinstance(raised.value, KeyboardInterrupt) or "no disk" in raised.value.__notes__[0]


class Waiting:
    """Runs until the job is cancelled."""

    def run(self, job):
        assert job.cancelled.wait(BOUND)


def test_an_interrupted_start_leaves_no_job_behind(monkeypatch):
    client = client_of(Waiting())

    class Interrupted:
        def set(self):
            pass

        def is_set(self):
            raise KeyboardInterrupt

    monkeypatch.setattr(client, "_begun", Interrupted())

    with pytest.raises(KeyboardInterrupt):
        client.start()

    with pytest.raises(JobCancelled):
        client.get_job_execution_result().result(timeout=BOUND)
    assert client.get_job_status().result() is JobStatus.SUSPENDED


def test_a_watcher_that_does_not_return_ends_the_start(monkeypatch):
    returned = threading.Event()
    monkeypatch.setattr(job, "_BEGIN_SECONDS", 0.01)
    client = client_of(LocalRunner())

    @contextmanager
    def waiting(client):
        returned.wait(5)
        yield

    try:
        with (
            watch_jobs(waiting),
            pytest.raises(JobExecutionError, match=r"'interrupted' did not begin .* \(watch_jobs\)"),
        ):
            client.start()
    finally:
        returned.set()
    with pytest.raises(JobCancelled):
        client.get_job_execution_result().result(timeout=20)


# ---- user code that does not come back


def environment(options=None):
    conf = Configuration({"execution.target": "local", "parallelism.default": 1} | (options or {}))
    return StreamExecutionEnvironment.get_execution_environment(conf)


def running(function, close=None):
    """A job whose function has been reached; ``close`` is what its ``close()`` does."""

    class Function(MapFunction):
        def map(self, value):
            reach()
            return function(value)

        def close(self):
            if close is not None:
                reach()
                close()

    REACHED.clear()
    env = environment({"task.cancellation.timeout": "10 ms"})
    env.from_collection([1]).map(Function()).print()
    client = env.execute_async("stuck")
    assert REACHED.wait(BOUND)
    return client


def loop(value=None):
    while True:
        pass


def loop_and_catch(value=None):
    for _ in range(3):
        try:
            loop()
        except KeyboardInterrupt:
            continue


def test_an_endless_loop_is_ended_by_cancel():
    client = running(loop)

    client.cancel().result(BOUND)

    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobCancelled):
        client.get_job_execution_result().result(BOUND)


def test_an_endless_loop_that_catches_the_interruption_is_interrupted_again():
    client = running(loop_and_catch)

    client.cancel().result(BOUND)

    assert isinstance(client.get_job_execution_result().exception(), JobCancelled)


def test_an_endless_loop_in_close_is_ended_by_cancel():
    client = running(lambda value: value, close=loop)

    client.cancel().result(BOUND)

    assert isinstance(client.get_job_execution_result().exception(), JobCancelled)


def test_a_function_that_waits_outside_of_python_is_named_and_left(monkeypatch):
    monkeypatch.setattr(job, "_INTERRUPT_SECONDS", 0.1)
    monkeypatch.setattr(job, "_INTERRUPT_AGAIN_SECONDS", 0.01)
    LET_GO.clear()
    client = running(wait_outside_of_python)
    try:
        with pytest.raises(JobExecutionError, match=r"job 'stuck' was cancelled, but .* blocked in .*wait") as raised:
            client.cancel().result(BOUND)

        assert "wait_outside_of_python" in raised.value.traceback_text
        assert client.get_job_status().result() is JobStatus.CANCELED
        assert client.get_job_execution_result().exception() is raised.value
    finally:
        LET_GO.set()
        client._thread.join(BOUND)
    assert not client._thread.is_alive()


# ---- what is tried again


class Opens(MapFunction):
    """Raises in ``open``, or at a record, what the test has chosen for the attempt."""

    def __init__(self, *errors, at_record=False):
        self.errors = errors
        self.at_record = at_record

    def open(self, runtime_context):
        self.attempt = runtime_context.get_attempt_number()
        if not self.at_record:
            self.fail()

    def fail(self):
        if self.attempt < len(self.errors) and self.errors[self.attempt] is not None:
            raise self.errors[self.attempt]

    def map(self, value):
        if self.at_record:
            self.fail()
        return value


def restarting(tmp_path, *functions):
    env = environment(
        {
            "execution.checkpointing.interval": "10 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "restart-strategy.exponential-delay.initial-backoff": "1 ms",
        }
    )
    stream = env.from_source(
        DataGeneratorSource(lambda i: i, 100, 10_000), WatermarkStrategy.no_watermarks(), "numbers"
    )
    for function in functions:
        stream = stream.map(function)
    stream.for_each(lambda value: None)
    return env


def test_a_path_that_does_not_exist_fails_at_once(tmp_path, caplog):
    env = restarting(tmp_path)
    missing = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "missing")).build()
    env.from_source(missing, WatermarkStrategy.no_watermarks(), "lines").print()
    client = env.execute_async()

    assert isinstance(client.get_job_execution_result().exception(BOUND), SourceNotReadable)

    assert client.restarts == 0


def test_a_sink_that_cannot_be_written_fails_at_once(tmp_path):
    (tmp_path / "out").write_text("not a folder")
    env = restarting(tmp_path)
    env.from_collection([1]).map(str).sink_to(file_sink(tmp_path))
    client = env.execute_async()

    assert client.get_job_execution_result().exception(BOUND) is not None
    assert client.restarts == 0


def test_a_path_that_vanishes_later_is_tried_again(tmp_path, caplog):
    path = tmp_path / "lines"
    path.write_text("one\n")

    class Vanishes(MapFunction):
        """Takes the file away in the first attempt, and brings it back when its absence has failed another."""

        def open(self, runtime_context):
            self.attempt = runtime_context.get_attempt_number()

        def map(self, value):
            if self.attempt == 0:
                path.unlink()
                raise RuntimeError("as planned")
            return value

    env = restarting(tmp_path)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()
    env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").map(Vanishes()).print()
    client = env.execute_async()
    limit = time.monotonic() + BOUND
    while client.restarts < 3:
        assert time.monotonic() < limit
        assert not client.get_job_execution_result().done(), client.get_job_execution_result().exception()
        threading.Event().wait(0.001)
    path.write_text("one\n")

    client.get_job_execution_result().result(BOUND)

    assert "SourceNotReadable" in caplog.text or "does not exist" in caplog.text


@pytest.mark.parametrize("error", [FileNotFoundError("model.bin"), ModuleNotFoundError("torch"), TypeError("no")])
def test_what_does_not_go_away_fails_a_job_that_never_ran(tmp_path, error):
    client = restarting(tmp_path, Opens(*[error] * 3)).execute_async()

    with pytest.raises(OperatorFailed, match=type(error).__name__):
        client.get_job_execution_result().result(BOUND)
    assert client.restarts == 0


def test_what_may_go_away_is_tried_again_before_the_job_ran(tmp_path):
    client = restarting(tmp_path, Opens(ConnectionRefusedError("database"), RuntimeError("driver"))).execute_async()

    client.get_job_execution_result().result(BOUND)

    assert client.restarts == 2


def test_once_the_job_ran_the_strategy_decides_about_everything(tmp_path, caplog):
    at_record = Opens(TypeError("a bad record"), at_record=True)
    in_open = Opens(None, FileNotFoundError("model.bin"), FileNotFoundError("model.bin"))

    with caplog.at_level(logging.WARNING):
        client = restarting(tmp_path, in_open, at_record).execute_async()
        client.get_job_execution_result().result(BOUND)

    assert client.restarts == 3
    warnings = [r.getMessage() for r in caplog.records if "is restarted in" in r.getMessage()]
    assert [name in text for name, text in zip(["TypeError", "model.bin", "model.bin"], warnings, strict=True)] == [
        True
    ] * 3


class FailsOnce(MapFunction):
    """Fails at the record of a number, in the first attempt."""

    def __init__(self, number):
        self.number = number

    def open(self, context):
        self.first = context.get_attempt_number() == 0

    def map(self, value):
        if self.first and value == self.number:
            raise RuntimeError("no answer")
        return value


def collecting(number, **options):
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"}
    numbers = environment(restarts | {"execution.buffer-timeout.interval": "1 ms"} | options)
    stream = numbers.from_source(DataGeneratorSource(int, 300, 3000), WatermarkStrategy.no_watermarks(), "numbers")
    return stream.map(FailsOnce(number)).name("check").execute_and_collect()


def test_a_job_without_checkpoints_does_not_give_a_program_its_records_again():
    found = []
    with pytest.raises(JobExecutionError, match="Call env.enable_checkpointing") as failure, collecting(200) as records:
        found.extend(records)

    assert found == list(range(len(found))) and 0 < len(found) <= 200
    assert isinstance(failure.value.__cause__, OperatorFailed) and "no answer" in str(failure.value)


def test_a_job_whose_program_has_no_record_yet_is_restarted():
    with collecting(0) as records:
        assert list(records) == list(range(300))


def test_with_checkpoints_a_job_is_restarted_whatever_its_program_has(tmp_path):
    checkpoints = {"execution.checkpointing.interval": "10 ms", "execution.checkpointing.dir": str(tmp_path)}
    with collecting(200, **checkpoints) as records:
        assert set(records) == set(range(300))


@pytest.mark.parametrize("at_record", [False, True])
def test_restarts_can_be_suppressed(tmp_path, at_record):
    client = restarting(tmp_path, Opens(SuppressRestarts("no rights"), at_record=at_record)).execute_async()

    with pytest.raises(OperatorFailed, match="SuppressRestarts: no rights"):
        client.get_job_execution_result().result(BOUND)
    assert client.restarts == 0


def test_a_job_that_never_begins_leaves_the_checkpoints_of_one_that_runs_alone(tmp_path):
    def program():
        env = environment(
            {
                "execution.checkpointing.interval": "10 ms",
                "execution.checkpointing.dir": str(tmp_path),
                "execution.job-id": "orders",
            }
        )
        numbers = env.from_source(
            DataGeneratorSource(lambda i: i, None, 1000), WatermarkStrategy.no_watermarks(), "numbers"
        )
        numbers.key_by(lambda n: n % 2).sum().for_each(lambda n: None)
        return env

    @contextmanager
    def refused(client):
        raise KeyboardInterrupt  # as "funken explain" does once it knows the plan
        yield

    def newest():
        return max((int(path.parent.name[4:]) for path in tmp_path.glob("orders/chk-*/_metadata")), default=0)

    def wait_for(checkpoint):
        limit = time.monotonic() + BOUND
        while newest() < checkpoint:
            assert time.monotonic() < limit
            assert not client.get_job_execution_result().done(), client.get_job_execution_result().exception()
            threading.Event().wait(0.001)

    client = program().execute_async()
    wait_for(2)

    with watch_jobs(refused), pytest.raises(KeyboardInterrupt):
        program().execute()

    wait_for(newest() + 2)
    assert client.restarts == 0
    client.cancel().result(BOUND)
    assert newest() > 2, "an id and no retention that says otherwise"
