"""A queue of RabbitMQ into files: each message's result is there once, whoever is killed."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from funken import Configuration, SourceReader, StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors import JsonSchema, RateLimitedSource, Source
from funken.connectors.rabbitmq import RMQConnectionConfig, RMQSource
from tests.support.files import file_sink, written

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
COUNT, KEYS, PER_SECOND = 4000, 7, 1000
WAIT_S = 120


def die(folder, when, kills):
    """End this process, or fail, where a marker file says so."""
    for marker in sorted(Path(folder).glob(f"{when}-*")):
        with contextlib.suppress(FileNotFoundError):
            marker.unlink()
            if kills:
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("as planned")


@dataclass(frozen=True)
class DyingSource(Source):
    """Another source, whose reader dies amid a checkpoint, and when one is complete, before and after it acknowledges."""

    source: Source
    folder: str
    kills: bool

    def __post_init__(self):
        object.__setattr__(self, "boundedness", self.source.boundedness)
        object.__setattr__(self, "max_parallelism", self.source.max_parallelism)

    def enumerator(self, parallelism):
        return self.source.enumerator(parallelism)

    def reader(self, context):
        return DyingReader(self.source.reader(context), self.folder, self.kills)


class DyingReader(SourceReader):
    def __init__(self, reader, folder, kills):
        self.reader, self.folder, self.kills = reader, folder, kills
        self.number = self.polls = 0
        self.complete = False
        self.open, self.add_splits, self.split_finished = reader.open, reader.add_splits, reader.split_finished
        self.close = reader.close

    def snapshot_state(self, checkpoint_id):
        self.number += 1
        state = self.reader.snapshot_state(checkpoint_id)
        if self.number > 2:
            die(self.folder, "begun", self.kills)
        return state

    def poll(self, limit, now):
        if self.complete:
            self.polls += 1
            if self.polls > 20:
                die(self.folder, "acknowledged", self.kills)
        return self.reader.poll(limit, now)

    def notify_checkpoint_complete(self, checkpoint_id):
        if self.number > 1:
            die(self.folder, "complete", self.kills)
        self.complete = True
        self.reader.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id):
        self.reader.notify_checkpoint_aborted(checkpoint_id)


def source_of(url, queue):
    # A job with few messages at hand needs the server to come to its end, and so has acknowledged them by then.
    config = RMQConnectionConfig(uri=url, network_recovery_interval=500, prefetch_count=500)
    return RateLimitedSource(RMQSource(config, queue, True, JsonSchema()), PER_SECOND)


def program(env, source, folder):
    """Count per key: a result that is doubled or lost is seen, and so is a count that is wrong."""
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counts = numbers.map(lambda number: (number % KEYS, 1)).key_by(lambda pair: pair[0])
    counts = counts.reduce(lambda one, other: (one[0], one[1] + other[1])).uid("counts")
    counts.map(lambda pair: f"{pair[0]}:{pair[1]}").sink_to(file_sink(Path(folder))).uid("results")


def differences(folder):
    wanted = Counter(f"{key}:{n}" for key in range(KEYS) for n in range(1, len(range(key, COUNT, KEYS)) + 1))
    there = written(folder)
    return {"lost": (wanted - there).total(), "doubled": (there - wanted).total()}


def all_written(folder, over=lambda: False, count=COUNT):
    """Wait until so many results are committed."""
    waited = threading.Event()
    for _ in range(20 * WAIT_S):
        if written(folder).total() >= count or over():
            return
        waited.wait(0.05)
    raise AssertionError(f"{written(folder).total()} of {count} results within {WAIT_S} s")


def settings(folder):
    return {
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 200,
        "restart-strategy.fixed-delay.delay": "1 ms",
    }


def filled(process):
    """A queue with the numbers, durable, each with its id."""
    import pika

    queue = f"t-{uuid.uuid4().hex[:8]}"
    with process.client() as channel:
        channel.queue_declare(queue, durable=True)
        channel.confirm_delivery()
        for number in range(COUNT):
            properties = pika.BasicProperties(correlation_id=f"m{number}", delivery_mode=2)
            channel.basic_publish("", queue, str(number).encode(), properties)
    return queue


def left(process, queue):
    with process.client() as channel:
        return channel.queue_declare(queue, passive=True).method.message_count


def finish(job, folder):
    """Wait for all results, and for what might be one too many; then end the job."""
    over = job.get_job_execution_result()
    all_written(folder, over.done)
    threading.Event().wait(1)
    if not over.done():
        job.cancel().result(timeout=WAIT_S)
    else:
        over.result()


@pytest.mark.ways("local", "continuous")
def test_each_result_is_there_once_whoever_is_killed(env, mode, rabbitmq_process, tmp_path):
    queue = filled(rabbitmq_process)
    for when in ("begun", "complete", "acknowledged"):
        (tmp_path / f"{when}-1").touch()
        (tmp_path / f"{when}-2").touch()
    for key, value in settings(tmp_path).items():
        env.get_configuration().set(key, value)
    program(env, DyingSource(source_of(rabbitmq_process.url(), queue), str(tmp_path), mode == "continuous"), tmp_path)
    finish(env.execute_async(), tmp_path)
    assert not [*tmp_path.glob("*-1"), *tmp_path.glob("*-2")], "it died as often as planned"
    assert differences(tmp_path) == {"lost": 0, "doubled": 0}
    assert left(rabbitmq_process, queue) == 0


def test_each_result_is_there_once_although_the_server_is_killed(own_rabbitmq, tmp_path):
    queue = filled(own_rabbitmq)
    env = StreamExecutionEnvironment.create_local_environment(2, Configuration(settings(tmp_path)))
    program(env, source_of(own_rabbitmq.url(), queue), tmp_path)
    job = env.execute_async()
    for count in (700, 2000):
        all_written(tmp_path, job.get_job_execution_result().done, count)
        own_rabbitmq.kill()
        own_rabbitmq.start()
    finish(job, tmp_path)
    assert differences(tmp_path) == {"lost": 0, "doubled": 0}
    assert left(own_rabbitmq, queue) == 0


DRIVER = """
import sys
from pathlib import Path
from funken import StreamExecutionEnvironment
from tests.services.test_rabbitmq_exactly_once import program, source_of
url, queue, folder = sys.argv[1:]
env = StreamExecutionEnvironment.get_execution_environment()
program(env, source_of(url, queue), Path(folder))
env.execute()
"""


def test_each_result_is_there_once_although_the_driver_is_killed(rabbitmq_process, tmp_path):
    queue = filled(rabbitmq_process)
    (tmp_path / "job.py").write_text(DRIVER)
    given = settings(tmp_path) | {"execution.job-id": f"job-{queue}"}
    options = [f"-D{key}={value}" for key, value in given.items()]
    command = [sys.executable, "-m", "funken", "run", "--target", "local", "-p", "2", *options, tmp_path / "job.py"]
    for count in (500, 1500, 2500, COUNT):
        job = subprocess.Popen(
            [*command, rabbitmq_process.url(), queue, tmp_path],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            all_written(tmp_path, lambda job=job: job.poll() is not None, count)
            threading.Event().wait(1 if count == COUNT else 0)
        finally:
            job.kill()
            out = job.communicate(timeout=120)
        assert job.returncode == -signal.SIGKILL, out
    assert differences(tmp_path) == {"lost": 0, "doubled": 0}
    assert left(rabbitmq_process, queue) == 0
