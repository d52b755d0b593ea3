"""Kafka to Kafka: each result once for a ``read_committed`` reader, whoever is killed."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from funken import Configuration, SinkWriter, SourceReader, StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors import (
    DeliveryGuarantee,
    JsonSchema,
    RateLimitedSource,
    SimpleStringSchema,
    Sink,
    Source,
)
from funken.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
COUNT, KEYS, PER_SECOND = 6000, 7, 1000


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
    """Another source, whose readers die after a checkpoint is complete."""

    source: Source
    folder: str
    kills: bool

    def enumerator(self, parallelism):
        return self.source.enumerator(parallelism)

    def reader(self, context):
        return DyingReader(self.source.reader(context), self.folder, self.kills)


class DyingReader(SourceReader):
    def __init__(self, reader, folder, kills):
        self.reader, self.where, self.complete = reader, (folder, "complete", kills), False
        self.open, self.add_splits, self.split_finished = reader.open, reader.add_splits, reader.split_finished
        self.snapshot_state, self.close = reader.snapshot_state, reader.close

    def poll(self, limit, now):
        if self.complete:
            self.complete = False
            die(*self.where)
        return self.reader.poll(limit, now)

    def notify_checkpoint_complete(self, checkpoint_id):
        self.complete = True
        self.reader.notify_checkpoint_complete(checkpoint_id)


@dataclass(frozen=True)
class DyingSink(Sink):
    """Another sink, whose writers die when they have prepared a transaction, or when it is committed."""

    sink: Sink
    folder: str
    kills: bool

    def check(self):
        self.sink.check()

    def committer(self, context):
        return self.sink.committer(context)

    def writer(self, context):
        return DyingWriter(self.sink.writer(context), self.folder, self.kills)


class DyingWriter(SinkWriter):
    def __init__(self, writer, folder, kills):
        self.writer, self.folder, self.kills = writer, folder, kills
        self.open, self.write, self.flush, self.close = writer.open, writer.write, writer.flush, writer.close

    def prepare_commit(self, checkpoint_id, end_of_input):
        prepared = self.writer.prepare_commit(checkpoint_id, end_of_input)
        if prepared and checkpoint_id is not None and checkpoint_id > 1:
            die(self.folder, "prepared", self.kills)
        return prepared

    def notify_checkpoint_complete(self, checkpoint_id):
        die(self.folder, "committed", self.kills)


def source_of(servers, topic):
    builder = KafkaSource.builder().set_bootstrap_servers(servers).set_topics(topic).set_group_id(f"g-{topic}")
    builder = builder.set_value_only_deserializer(JsonSchema()).set_bounded(KafkaOffsetsInitializer.latest())
    return builder.build()


def sink_of(servers, topic):
    serializer = KafkaRecordSerializationSchema.builder().set_topic(topic)
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_record_serializer(serializer.set_value_serialization_schema(SimpleStringSchema()).build())
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(f"job-{topic}")
        .build()
    )


def program(env, source, sink):
    """Count per key: a result that is doubled or lost is seen, and so is a count that is wrong."""
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counts = numbers.map(lambda number: (number % KEYS, 1)).key_by(lambda pair: pair[0])
    counts = counts.reduce(lambda one, other: (one[0], one[1] + other[1])).uid("counts")
    counts.map(lambda pair: f"{pair[0]}:{pair[1]}").sink_to(sink).uid("results")


def expected():
    return Counter(f"{key}:{n}" for key in range(KEYS) for n in range(1, len(range(key, COUNT, KEYS)) + 1))


def differences(kafka, topic):
    there = Counter(kafka.values(topic))
    return {"lost": (expected() - there).total(), "doubled": (there - expected()).total()}


@pytest.fixture
def topics(kafka):
    come, go = kafka.topic(partitions=3), kafka.topic(partitions=2)
    kafka.produce(come, [str(number) for number in range(COUNT)])
    return come, go


@pytest.mark.ways("local", "continuous")
def test_each_result_is_there_once_whoever_is_killed(env, mode, kafka, topics, tmp_path):
    for when in ("complete", "prepared", "committed"):
        (tmp_path / f"{when}-1").touch()
    for key, value in {
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 8,
        "restart-strategy.fixed-delay.delay": "1 ms",
    }.items():
        env.get_configuration().set(key, value)
    kills = mode == "continuous"
    source = RateLimitedSource(source_of(kafka.servers, topics[0]), PER_SECOND)
    program(
        env,
        DyingSource(source, str(tmp_path), kills),
        DyingSink(sink_of(kafka.servers, topics[1]), str(tmp_path), kills),
    )
    env.execute()

    assert not list(tmp_path.glob("*-1")), "it died as often as planned"
    assert differences(kafka, topics[1]) == {"lost": 0, "doubled": 0}


@pytest.mark.timeout(480)  # 70 to 195 s were seen
@pytest.mark.parametrize("per_second", [PER_SECOND, PER_SECOND // 4])
def test_each_result_is_there_once_although_the_broker_is_killed(own_kafka, tmp_path, per_second):
    come, go = own_kafka.topic(partitions=3), own_kafka.topic(partitions=2)
    own_kafka.produce(come, [str(number) for number in range(COUNT)])
    settings = {
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 200,  # a busy machine starts a broker in half a minute
        "restart-strategy.fixed-delay.delay": "1 s",
    }
    env = StreamExecutionEnvironment.create_local_environment(2, Configuration(settings))
    program(env, RateLimitedSource(source_of(own_kafka.servers, come), per_second), sink_of(own_kafka.servers, go))
    job = env.execute_async()
    over, kills = job.get_job_execution_result(), 0
    for _ in range(2):
        seen = len(own_kafka.values(go))
        while len(own_kafka.values(go)) <= seen and not over.done():
            threading.Event().wait(0.05)
        if over.done():  # on a busy machine, where looking for output twice takes as long as the job
            break
        own_kafka.kill()
        own_kafka.start()
        kills += 1
    assert kills, over.result()
    over.result(timeout=330)

    found = differences(own_kafka, go)
    held = own_kafka.what_readers_wait_for(go)
    assert (found, held["transactions"]) == ({"lost": 0, "doubled": 0}, {}), held


DRIVER = """
import sys
from funken import StreamExecutionEnvironment
from funken.connectors import RateLimitedSource
from tests.services.test_kafka_exactly_once import PER_SECOND, program, sink_of, source_of
servers, come, go = sys.argv[1:]
env = StreamExecutionEnvironment.get_execution_environment()
program(env, RateLimitedSource(source_of(servers, come), PER_SECOND), sink_of(servers, go))
env.execute()
"""


def test_each_result_is_there_once_although_the_driver_is_killed(kafka, topics, tmp_path):
    (tmp_path / "job.py").write_text(DRIVER)
    given = {
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": tmp_path / "checkpoints",
        "execution.job-id": f"job-{topics[1]}",
    }
    options = [f"-D{key}={value}" for key, value in given.items()]
    command = [sys.executable, "-m", "funken", "run", "--target", "local", "-p", "2", *options, tmp_path / "job.py"]
    seen = kills = 0
    for kill in (True, True, True, False):
        job = subprocess.Popen(
            [*command, kafka.servers, *topics],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            while kill and job.poll() is None:
                now = len(kafka.values(topics[1]))
                if now > seen:
                    seen = now
                    break
                threading.Event().wait(0.05)
            if kill:
                job.kill()
            out = job.communicate(timeout=120)
            assert job.returncode in ((0, -signal.SIGKILL) if kill else (0,)), out
            kills += job.returncode != 0
            if job.returncode == 0:
                break
        finally:
            job.kill()
    assert kills
    assert differences(kafka, topics[1]) == {"lost": 0, "doubled": 0}
