"""The runner without Spark: everything in one thread, and stopped like any other."""

import signal
import threading

import pytest

from funken import (
    Configuration,
    DataGeneratorSource,
    JobStatus,
    MapFunction,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from funken.api.jobs.results import watch_jobs
from funken.errors import JobExecutionError, OperatorFailed


class Closes(MapFunction):
    """Makes a file when it is closed: functions travel as copies, even here."""

    def __init__(self, path, call=lambda value: value, closing=None):
        self.path = path
        self.call = call
        self.closing = closing

    def map(self, value):
        return self.call(value)

    def close(self):
        self.path.touch(exist_ok=False)
        if self.closing is not None:
            raise self.closing


def endless(env):
    return env.from_source(DataGeneratorSource(lambda index: index), WatermarkStrategy.no_watermarks(), "endless")


@pytest.fixture
def env():
    return StreamExecutionEnvironment.create_local_environment(parallelism=1)


@pytest.fixture
def clients():
    """The jobs that were started."""
    found = []

    class Seen:
        def __init__(self, client):
            found.append(client)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

    with watch_jobs(Seen):
        yield found


def test_ctrl_c_closes_the_operators(env, clients, tmp_path):
    def interrupt(value):
        if value == 1000:
            signal.raise_signal(signal.SIGINT)

    endless(env).map(Closes(tmp_path / "1")).rebalance().map(Closes(tmp_path / "2", interrupt))

    with pytest.raises(KeyboardInterrupt):
        env.execute()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]
    assert clients[0].get_job_status().result() is JobStatus.SUSPENDED


def test_a_failure_closes_the_operators(env, clients, tmp_path):
    endless(env).map(Closes(tmp_path / "1")).rebalance().map(Closes(tmp_path / "2", lambda value: 1 / (50 - value)))

    with pytest.raises(OperatorFailed, match="ZeroDivisionError"):
        env.execute()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]
    assert clients[0].get_job_status().result() is JobStatus.FAILED


@pytest.mark.parametrize(("closing", "told"), [(SystemExit, OperatorFailed), (KeyboardInterrupt, KeyboardInterrupt)])
def test_a_task_whose_close_fails_does_not_keep_others_open(env, tmp_path, closing, told):
    failing = Closes(tmp_path / "2", lambda value: 1 / (50 - value))
    endless(env).map(Closes(tmp_path / "1", closing=closing("in close"))).rebalance().map(failing)

    with pytest.raises(told):
        env.execute()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]


def test_giving_up_waiting_for_a_result_does_not_harm_the_job(env):
    endless(env).filter(lambda index: False)
    client = env.execute_async()
    future = client.get_job_execution_result()

    assert not future.cancel()
    client.cancel().result(30)

    assert client.get_job_status().result() is JobStatus.CANCELED


def test_records_that_nobody_reads_do_not_hold_up_a_job(env):
    """A program that could not be submitted keeps its collecting sink; the next execute() runs it unread."""
    stream = env.from_source(NumberSequenceSource(1, 400_000), WatermarkStrategy.no_watermarks(), "numbers")
    env.get_configuration().set("execution.target", "batch").set("pipeline.max-parallelism", 1)
    with pytest.raises(Exception, match="parallelism"):
        stream.map(str).set_parallelism(2).execute_and_collect()
    env.get_configuration().set("execution.target", "local").set("pipeline.max-parallelism", 8)

    env.execute()


def test_a_reader_in_another_thread_is_woken_by_a_cancel(env):
    from threading import Thread

    records = endless(env).filter(lambda index: index < 5).execute_and_collect()
    ended = []

    def read():
        try:
            ended.extend(records)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            ended.append(type(error).__name__)

    reader = Thread(target=read, daemon=True)
    reader.start()
    records.get_job_client().cancel().result(30)
    reader.join(30)

    assert not reader.is_alive()
    assert ended[-1] == "JobCancelled"


class Blocks(MapFunction):
    """Comes back when there is a file: it looks all the time, so that it can be interrupted."""

    def __init__(self, path):
        self.path = path

    def map(self, value):
        while value == 3 and not self.path.exists():
            threading.Event().wait(0.01)
        return value


def test_a_checkpoint_times_out_while_a_function_blocks(tmp_path, caplog):
    env = StreamExecutionEnvironment.create_local_environment(
        1,
        Configuration(
            {
                "execution.checkpointing.interval": "20 ms",
                "execution.checkpointing.timeout": "50 ms",
                "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
                "restart-strategy.type": "none",
            }
        ),
    )
    source = DataGeneratorSource(lambda index: index, None, 100)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(Blocks(tmp_path / "released")).for_each(
        lambda value: None
    )
    result = env.execute_async().get_job_execution_result()
    try:
        with pytest.raises(JobExecutionError, match="after 50 ms there was no answer from"):
            result.result(30)
    finally:
        (tmp_path / "released").touch()

    assert "a function does not return: " in caplog.text
