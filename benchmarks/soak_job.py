"""The job of ``soak.py``, in a process of its own: it runs until its folder has a file ``stop``, or ``soak.py`` is gone.

An endless generator, index by index, with ``PER_MS`` records in a millisecond of event time. Behind the first exchange every
order gets ``ORDER_RECORDS`` records and is then forgotten, by its time to live; behind the second, every user has a timer
and a map entry for each second of event time, and a window of a second. Both write how many records there were through
exactly-once file sinks, so the sum of each second is known.

usage: soak_job.py '{"folder": ..., "rate": ..., "parallelism": ..., "gc_every": ...}'
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from funken import (
    AggregateFunction,
    Configuration,
    DataGeneratorSource,
    Encoder,
    FileSink,
    JobClient,
    KeyedProcessFunction,
    MapStateDescriptor,
    RollingPolicy,
    StateTtlConfig,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.connectors.files.sink import BucketAssigner

USERS = 200
PER_MS = 20
ORDER_RECORDS = 20
ORDER_LIVES = timedelta(seconds=5)
STATUS_SECONDS = 1.0


class Orders(KeyedProcessFunction):
    """Counts the records of each order, in state that expires."""

    def open(self, runtime_context: Any) -> None:
        """Get the state."""
        descriptor = ValueStateDescriptor("records")
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(ORDER_LIVES).build())
        self._records = runtime_context.get_state(descriptor)

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        """Count."""
        self._records.update((self._records.value() or 0) + 1)
        yield value


class Seconds(KeyedProcessFunction):
    """Counts a user's records of each second of event time, and tells when it is over."""

    def open(self, runtime_context: Any) -> None:
        """Get the state."""
        self._counts = runtime_context.get_map_state(MapStateDescriptor("counts"))

    def process_element(self, value: int, ctx: Any) -> None:
        """Count, and be called when the second is over."""
        second = value // (PER_MS * 1000)
        self._counts.put(second, (self._counts.get(second) or 0) + 1)
        ctx.timer_service().register_event_time_timer(second * 1000 + 999)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        """Tell, and forget."""
        second = timestamp // 1000
        yield f"{second} {self._counts.get(second)}"
        self._counts.remove(second)


class Count(AggregateFunction):
    """Counts."""

    def create_accumulator(self) -> int:
        """Begin."""
        return 0

    def add(self, value: int, accumulator: int) -> int:
        """Count one."""
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        """Return the count."""
        return accumulator

    def merge(self, a: int, b: int) -> int:
        """Add two counts."""
        return a + b


def sink(folder: Path) -> FileSink:
    """Return an exactly-once sink whose files close at checkpoints."""
    return (
        FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )


def start(folder: Path, rate: float, parallelism: int) -> JobClient:
    """Start the job."""
    conf = Configuration(
        {
            "execution.target": "continuous",
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": str(folder / "checkpoints"),
            "restart-strategy.type": "none",
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(conf).set_parallelism(parallelism)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda i, _: i // PER_MS)
    events = env.from_source(DataGeneratorSource(lambda i: i, None, rate or None), strategy, "events").uid("events")
    orders = events.key_by(lambda i: i // ORDER_RECORDS).process(Orders()).uid("orders")
    users = orders.key_by(lambda i: i % USERS)
    users.process(Seconds()).uid("seconds").sink_to(sink(folder / "out" / "timers")).uid("timers")
    counts = users.window(TumblingEventTimeWindows.of(timedelta(seconds=1))).aggregate(
        Count(), lambda key, window, counts: [f"{window.start // 1000} {count}" for count in counts]
    )
    counts.uid("windows").sink_to(sink(folder / "out" / "windows")).uid("counts")
    return env.execute_async("soak")


class Checkpoints:
    """How long checkpoints take, from the trigger to the commit, as the driver's coordinator sees them."""

    def __init__(self, client: JobClient) -> None:
        self._begun: dict[int, float] = {}
        self.seconds: deque[float] = deque(maxlen=1000)
        self.complete = 0
        checkpoints: Any = client._job.checkpoints
        trigger, perform = checkpoints.trigger, checkpoints.perform

        def triggered(command: Any) -> Any:
            self._begun[command.checkpoint] = time.perf_counter()
            return trigger(command)

        def performed(command: Any) -> None:
            if type(command).__name__ == "NotifyComplete":
                self.complete += 1
                self.seconds.append(time.perf_counter() - self._begun[command.checkpoint])
                self._begun = {number: at for number, at in self._begun.items() if number > command.checkpoint}
            perform(command)

        checkpoints.trigger, checkpoints.perform = triggered, performed

    def take(self) -> list[float]:
        """Return what the checkpoints since the last call took."""
        return [self.seconds.popleft() for _ in range(len(self.seconds))]


class Heap:
    """The JVM's memory, asked over the driver's connection to it."""

    def __init__(self, every: float) -> None:
        self._every, self._due = every, 0.0
        self.live: int | None = None

    def sample(self) -> dict[str, int | None]:
        """Return bytes; ``live`` is what a full collection left, which is forced every so many seconds."""
        context = SparkContext._active_spark_context
        if context is None or context._jvm is None:
            return {}
        bean = context._jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self._every
            context._jvm.java.lang.System.gc()
            self.live = bean.getHeapMemoryUsage().getUsed()
        return {
            "live": self.live,
            "committed": bean.getHeapMemoryUsage().getCommitted(),
            "outside": bean.getNonHeapMemoryUsage().getUsed(),
        }


def main() -> None:
    """Run the job; write every second where it is."""
    wanted = json.loads(sys.argv[1])
    folder = Path(wanted["folder"])
    client = start(folder, wanted["rate"], wanted["parallelism"])
    checkpoints, heap = Checkpoints(client), Heap(wanted["gc_every"])
    parent = os.getppid()
    while not (folder / "stop").exists() and os.getppid() == parent:
        if client.get_job_execution_result().done():
            client.get_job_execution_result().result()
        tasks = client.metrics()
        status = {
            "time": time.time(),
            "sources": {
                str(task.subtask): [found.vertices[0].records_in, found.vertices[0].watermark]
                for task, found in tasks.items()
                if task.stage == 0
            },
            "watermarks": {
                f"{vertex}/{task.subtask}": metrics.watermark
                for task, found in tasks.items()
                for vertex, metrics in found.vertices.items()
                if task.stage
            },
            "checkpoints": checkpoints.complete,
            "durations": checkpoints.take(),
            "heap": heap.sample(),
        }
        with (folder / "status.jsonl").open("a") as lines:
            print(json.dumps(status), file=lines)
        time.sleep(STATUS_SECONDS)
    client.cancel().result(60)


if __name__ == "__main__":
    main()
