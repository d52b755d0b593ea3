"""The job that is attacked: Kafka to Kafka on Spark, counts and sums per key in windows of event time, exactly once.

``python job.py FOLDER SERVERS FROM TO RATE``. Partition ``p`` of the input holds the numbers ``p``, ``p + 4``, ... in order. A
process dies where a file ``die-WHEN-N`` in FOLDER asks for it: a worker that has prepared its transactions, the driver that is
about to commit, or has committed a part.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from funken import (
    AggregateFunction,
    Configuration,
    Function,
    ProcessWindowFunction,
    SinkWriter,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from funken.connectors import DeliveryGuarantee, JsonSchema, RateLimitedSource, SimpleStringSchema, Sink
from funken.connectors.kafka import KafkaOffsetsInitializer, KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from funken.connectors.sink import Committer

PARTITIONS = 4
KEYS = 1000
PER_MS = 100
WINDOW_MS = 100
BROKER_SECONDS = 60.0


def results(count: int) -> Iterator[str]:
    """Give what has to come out for the numbers 0 to ``count`` - 1; ``count`` is a multiple of a window's records."""
    each = PER_MS * WINDOW_MS
    for start in range(0, count, each):
        for key in range(KEYS):
            there = range(start + key, start + each, KEYS)
            yield f"{key} {start // PER_MS} {len(there)} {sum(there)}"


def asked(folder: str, when: str) -> bool:
    """Whether something is to happen now; the first that asks gets it."""
    for marker in sorted(Path(folder).glob(f"die-{when}-*")):
        try:
            marker.unlink()
        except FileNotFoundError:
            continue
        return True
    return False


def die() -> None:
    """End this process as a power cut does."""
    os.kill(os.getpid(), signal.SIGKILL)


class Totals(AggregateFunction):
    """The number and the sum."""

    def create_accumulator(self) -> Any:
        """Begin."""
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        """Add a number."""
        return accumulator[0] + 1, accumulator[1] + value["n"]

    def get_result(self, accumulator: Any) -> Any:
        """Return both."""
        return accumulator


class Named(ProcessWindowFunction):
    """Makes the text of a result."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        """Add key and window."""
        for count, total in elements:
            yield f"{key} {context.window().start} {count} {total}"


class Beat(Function):
    """Records which processes work, and that an attempt has given output."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, runtime_context: Any) -> None:
        """Leave the process id."""
        Path(self.folder, f"pid-{os.getpid()}").touch()
        self.file = Path(self.folder, f"beat-{os.getpid()}-{runtime_context.get_attempt_number()}")

    def map_block(self, block: list[Any]) -> list[Any]:
        """Pass the block on."""
        if block and not self.file.exists():
            self.file.touch()
        return block


@dataclass(frozen=True)
class DyingSink(Sink[str]):
    """Another sink, whose processes die between prepare and commit when they are asked to."""

    sink: Sink[str]
    folder: str

    def check(self) -> None:
        """Check the sink."""
        self.sink.check()

    def writer(self, context: Any) -> SinkWriter:
        """Make a writer."""
        return DyingWriter(self.sink.writer(context), self.folder)

    def committer(self, context: Any) -> Committer | None:
        """Make a committer."""
        made = self.sink.committer(context)
        assert made is not None
        return DyingCommitter(made, self.folder)


class DyingWriter(SinkWriter):
    """A writer whose worker may die when it has prepared transactions."""

    def __init__(self, writer: SinkWriter, folder: str) -> None:
        self.writer, self.folder = writer, folder
        self.open, self.write, self.flush, self.close = writer.open, writer.write, writer.flush, writer.close  # type: ignore[method-assign]

    def prepare_commit(self, checkpoint_id: int | None, end_of_input: bool) -> list[Any]:
        """Prepare, and perhaps die."""
        prepared = self.writer.prepare_commit(checkpoint_id, end_of_input)
        if prepared and asked(self.folder, "prepared"):
            die()
        return prepared


class DyingCommitter(Committer):
    """A committer whose driver may die, or whose broker may, when a checkpoint is complete and not committed."""

    def __init__(self, committer: Committer, folder: str) -> None:
        self.committer, self.folder = committer, folder
        self.open, self.close = committer.open, committer.close  # type: ignore[method-assign]
        self.recover, self.abort = committer.recover, committer.abort  # type: ignore[method-assign]

    def commit(self, requests: Any) -> None:
        """Commit one transaction after the other."""
        if requests and asked(self.folder, "commit"):
            die()
        if requests and asked(self.folder, "broker"):
            Path(self.folder, "broker-now").touch()
            end = time.monotonic() + BROKER_SECONDS
            while Path(self.folder, "broker-now").exists() and time.monotonic() < end:
                time.sleep(0.01)
        for number, request in enumerate(requests):
            if number and asked(self.folder, "partly"):
                die()
            self.committer.commit([request])


def run(folder: str, servers: str, source_topic: str, sink_topic: str, rate: float) -> None:
    """Run the job; a driver that starts again resumes from the newest checkpoint."""
    conf = Configuration(
        {
            "execution.target": "continuous",
            "execution.job-id": f"exactly-once-{sink_topic}",
            "execution.checkpointing.interval": "500 ms",
            "execution.checkpointing.dir": f"{folder}/checkpoints",
            "heartbeat.interval": "1 s",
            "heartbeat.timeout": "8 s",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 1000,
            "restart-strategy.fixed-delay.delay": "200 ms",
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(conf).set_parallelism(2)
    builder = KafkaSource.builder().set_bootstrap_servers(servers).set_topics(source_topic).set_group_id(sink_topic)
    numbers = builder.set_value_only_deserializer(JsonSchema()).set_bounded(KafkaOffsetsInitializer.latest()).build()
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value["n"] // PER_MS)
    keyed = (
        env.from_source(RateLimitedSource(numbers, rate), timed, "numbers")
        .uid("numbers")
        .key_by(lambda v: v["n"] % KEYS)
    )
    windows = keyed.window(TumblingEventTimeWindows.of(WINDOW_MS)).aggregate(Totals(), Named()).uid("windows")
    serializer = KafkaRecordSerializationSchema.builder().set_topic(sink_topic)
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_record_serializer(serializer.set_value_serialization_schema(SimpleStringSchema()).build())
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(f"job-{sink_topic}")
        .build()
    )
    windows.map_block(Beat(folder)).sink_to(DyingSink(sink, folder)).uid("results")
    env.execute("exactly once")


if __name__ == "__main__":
    run(*sys.argv[1:5], float(sys.argv[5]))
