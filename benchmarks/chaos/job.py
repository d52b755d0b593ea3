"""The job that is attacked: a state machine per address, RocksDB state, checkpoints, an exactly-once file sink.

A paced generator makes events of many addresses; each address goes through the states 0, 1, 2, 3, 0, ... in order. A keyed
function keeps the last state of each address and emits an alert for any other step, which a lost or doubled record would
cause. All is written by a file sink. The job is a process of its own: ``python job.py FOLDER DRIVER COUNT RATE``.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from funken import (
    Configuration,
    DataGeneratorSource,
    Encoder,
    FileSink,
    Function,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.connectors.files.sink import BucketAssigner

ADDRESSES = 1000
STATES = 4
BEAT_SECONDS = 0.1
JOB_ID = "chaos"
HEARTBEAT_SECONDS = 2.0


def event(index: int) -> tuple[int, int]:
    """Return the address and the step of an event: an address is always made by the same subtask, in order."""
    return index % ADDRESSES, index // ADDRESSES


class StateMachine(KeyedProcessFunction):
    """Passes events on; an illegal transition becomes an alert."""

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value, ctx):
        address, step = value
        last, state = self.last.value(), step % STATES
        self.last.update(state)
        if state != (0 if last is None else (last + 1) % STATES):
            yield f"ALERT {address} {last} -> {state} at step {step}"
        yield f"{address} {step}"


class Beat(Function):
    """Records which process works, when the first output of an attempt came, and the output of each ``BEAT_SECONDS``."""

    def __init__(self, folder: str, driver: int) -> None:
        self.folder, self.driver = folder, driver

    def open(self, runtime_context):
        Path(self.folder, f"pid-{os.getpid()}").touch()
        attempt = f"{self.driver}-{runtime_context.get_attempt_number()}"
        self.file = Path(self.folder, f"beat-{attempt}")
        subtask = runtime_context.get_index_of_this_subtask()
        self.rates = Path(self.folder, f"rates-{attempt}-{subtask}").open("a")  # noqa: SIM115 - open as long as the task
        self.count, self.since = 0, 0.0

    def map_block(self, block):
        if not self.file.exists():
            self.file.write_text(str(time.time()))
        self.count += len(block)
        now = time.time()
        if now - self.since >= BEAT_SECONDS:
            print(now, self.count, file=self.rates, flush=True)
            self.count, self.since = 0, now
        return block

    def close(self):
        self.rates.close()


def run(folder: Path, driver: int, count: int, rate: float) -> None:
    """Run the job; a driver that starts again resumes from the newest checkpoint."""
    conf = Configuration(
        {
            "execution.target": "continuous",
            "execution.job-id": JOB_ID,
            "execution.checkpointing.interval": "500 ms",
            "execution.checkpointing.dir": str(folder / "storage" / "checkpoints"),
            "state.backend.type": "rocksdb",
            "state.backend.rocksdb.localdir": str(folder / "rocksdb"),
            "state.backend.rocksdb.min-free-space": 4 * 2**20,
            "heartbeat.interval": f"{HEARTBEAT_SECONDS / 4} s",
            "heartbeat.timeout": f"{HEARTBEAT_SECONDS} s",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 1000,
            "restart-strategy.fixed-delay.delay": "10 ms",
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(conf).set_parallelism(2)
    source = DataGeneratorSource(event, count, rate)
    events = env.from_source(source, WatermarkStrategy.no_watermarks(), "events").uid("events")
    checked = events.key_by(lambda pair: pair[0]).process(StateMachine()).uid("machine")
    sink = FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
    buckets = BucketAssigner.base_path_bucket_assigner()
    checked.map_block(Beat(str(folder), driver)).sink_to(sink.with_bucket_assigner(buckets).build()).uid("sink")
    env.execute("chaos")


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
