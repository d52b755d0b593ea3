"""The job that is attacked: from Kafka, on Spark, counts and sums per key in windows of event time, written exactly once.

``python job.py FOLDER SERVERS TOPIC RATE EXPIRES KIND WHERE NAME``; the last three are the target's (``targets.py``), EXPIRES is
how long its transactions may be open (ms). Partition ``p`` of the input holds the numbers ``p``, ``p + 4``, ... in order. A
process dies where a file ``die-WHEN-N`` in FOLDER asks for it: a worker that has prepared its transactions, the driver that is
about to commit, or has committed a part. ``die-expired-N`` asks a worker to wait, when its records are acknowledged, until its
transaction has expired.
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
from funken.connectors import JsonSchema, RateLimitedSource, Sink
from funken.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from funken.connectors.sink import Committer

sys.path.insert(0, str(Path(__file__).parent))
from targets import sink_of, takes_rows

PARTITIONS = 4
KEYS = 1000
PER_MS = 100
WINDOW_MS = 100
SERVER_SECONDS = 60.0
LATE_S = 3.0


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
    expires_ms: int

    def check(self) -> None:
        """Check the sink."""
        self.sink.check()

    def writer(self, context: Any) -> SinkWriter:
        """Make a writer."""
        return DyingWriter(self.sink.writer(context), self.folder, self.expires_ms / 1000 + LATE_S)

    def committer(self, context: Any) -> Committer | None:
        """Make a committer."""
        made = self.sink.committer(context)
        assert made is not None
        return DyingCommitter(made, self.folder)


class DyingWriter(SinkWriter):
    """A writer whose worker may die when it has prepared transactions, or stop for longer than they may be open."""

    def __init__(self, writer: SinkWriter, folder: str, stopped_s: float) -> None:
        self.writer, self.folder, self.stopped_s = writer, folder, stopped_s
        self.written = False
        for name in vars(SinkWriter):
            if name not in ("write", "flush", "prepare_commit") and not name.startswith("_"):
                setattr(self, name, getattr(writer, name))

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Write."""
        self.written = True
        self.writer.write(values, timestamps, now)

    def flush(self, end_of_input: bool) -> None:
        """Wait for acknowledgements, and perhaps until the transaction has expired."""
        self.writer.flush(end_of_input)
        if self.written and asked(self.folder, "expired"):
            time.sleep(self.stopped_s)

    def prepare_commit(self, checkpoint_id: int | None, end_of_input: bool) -> list[Any]:
        """Prepare, and perhaps die."""
        prepared = self.writer.prepare_commit(checkpoint_id, end_of_input)
        self.written = False
        if prepared and asked(self.folder, "prepared"):
            die()
        return prepared


class DyingCommitter(Committer):
    """A committer whose driver may die, or whose server may, when a checkpoint is complete and not committed."""

    def __init__(self, committer: Committer, folder: str) -> None:
        self.committer, self.folder = committer, folder
        self.open, self.close = committer.open, committer.close  # type: ignore[method-assign]
        self.recover, self.abort = committer.recover, committer.abort  # type: ignore[method-assign]

    def commit(self, requests: Any) -> None:
        """Commit; what is asked for comes before, or when a part is done."""
        if requests and asked(self.folder, "commit"):
            die()
        if requests and asked(self.folder, "server"):
            Path(self.folder, "server-now").touch()
            end = time.monotonic() + SERVER_SECONDS
            while Path(self.folder, "server-now").exists() and time.monotonic() < end:
                time.sleep(0.01)
        if len(requests) > 1 and asked(self.folder, "partly"):
            self.committer.commit(requests[:1])
            die()
        self.committer.commit(requests)


def run(
    folder: str, servers: str, source_topic: str, rate: float, expires_ms: int, kind: str, where: str, name: str
) -> None:
    """Run the job; a driver that starts again resumes from the newest checkpoint."""
    conf = Configuration(
        {
            "execution.target": "continuous",
            "execution.job-id": f"exactly-once-{name}",
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
    builder = KafkaSource.builder().set_bootstrap_servers(servers).set_topics(source_topic).set_group_id(name)
    numbers = builder.set_value_only_deserializer(JsonSchema()).set_bounded(KafkaOffsetsInitializer.latest()).build()
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value["n"] // PER_MS)
    keyed = (
        env.from_source(RateLimitedSource(numbers, rate), timed, "numbers")
        .uid("numbers")
        .key_by(lambda v: v["n"] % KEYS)
    )
    windows = keyed.window(TumblingEventTimeWindows.of(WINDOW_MS)).aggregate(Totals(), Named()).uid("windows")
    rows = takes_rows(kind)
    results = windows.map_block(Beat(folder)).map(lambda result: (result,) if rows else result)
    results.sink_to(DyingSink(sink_of(kind, where, name, expires_ms), folder, expires_ms)).uid("results")
    env.execute("exactly once")


if __name__ == "__main__":
    run(*sys.argv[1:4], float(sys.argv[4]), int(sys.argv[5]), *sys.argv[6:9])
