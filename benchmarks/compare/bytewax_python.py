"""Runner: Bytewax, as one process with one worker for each of the parallel subtasks (threads would share Python's lock).

What comes out is the measure, in records that went in: one result is one record, or a thousand, or a window's count.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
import oracle
from bytewax._bytewax import cli_main
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from protocol import ENDLESS, Reading, Spec, answer, bucket_of, spec, watch

BATCH = 1000
SECOND = timedelta(seconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PORT = 26_000


class Numbers(DynamicSource):
    """The numbers of a worker, in batches; with stamps (us) if wanted, paced if there is a rate."""

    def __init__(self, wanted: Spec, count: int) -> None:
        self.wanted, self.count = wanted, count

    def build(self, step_id: str, worker_index: int, worker_count: int) -> NumbersPartition:
        return NumbersPartition(self.wanted, self.count, worker_index, worker_count)


class NumbersPartition(StatelessSourcePartition):
    """The numbers ``index``, ``index + step``, ..."""

    def __init__(self, wanted: Spec, count: int, index: int, step: int) -> None:
        self.wanted, self.count, self.index, self.step = wanted, count, index, step
        self.made, self.start = 0, time.time()
        self.rate = wanted.rate / step if count == ENDLESS else 0

    def next_batch(self) -> list[Any]:
        due = min(int((time.time() - self.start) * self.rate) - self.made, BATCH) if self.rate else BATCH
        first, self.made = self.made, self.made + due
        numbers = range(first * self.step + self.index, min(self.made * self.step, self.count), self.step)
        if not numbers and self.made * self.step >= self.count:
            raise StopIteration
        if not self.wanted.stamped:
            return [oracle.line(i) for i in numbers] if self.wanted.program == "grep" else list(numbers)
        if not self.rate:
            now = int(time.time() * 1e6)
            return [(i, now) for i in numbers]
        return [(i, int((self.start + n / self.rate) * 1e6)) for n, i in enumerate(numbers, first)]

    def next_awake(self) -> datetime | None:
        return datetime.now(UTC) + timedelta(milliseconds=1) if self.rate else None


class Count(DynamicSink):
    """Counts what comes, and how late it is, and writes that down several times a second."""

    def __init__(
        self, path: str, weight: Callable[[list[Any]], int], late: Callable[[Any], int] | None, every: int
    ) -> None:
        self.path, self.weight, self.late, self.every = path, weight, late, every

    def build(self, step_id: str, worker_index: int, worker_count: int) -> CountPartition:
        return CountPartition(self, worker_index)


class CountPartition(StatelessSinkPartition):
    """The part of a worker."""

    def __init__(self, sink: Count, index: int) -> None:
        self.sink, self.count, self.written = sink, 0, 0.0
        self.latency: dict[int, int] = {}
        self.file = Path(f"{sink.path}-{index}").open("w")  # noqa: SIM115 - open as long as the worker

    def write_batch(self, items: list[Any]) -> None:
        self.count += self.sink.weight(items)
        if self.sink.late is not None:
            now = int(time.time() * 1e6)
            for item in items[:: self.sink.every]:
                bucket = bucket_of(now - self.sink.late(item))
                self.latency[bucket] = self.latency.get(bucket, 0) + 1
        if time.time() - self.written > 0.05:
            self.written = time.time()
            print(json.dumps([self.written, self.count, self.latency]), file=self.file, flush=True)


class Write(DynamicSink):
    """Writes results into files, to be checked."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def build(self, step_id: str, worker_index: int, worker_count: int) -> WritePartition:
        return WritePartition(f"{self.folder}/{worker_index}")


class WritePartition(StatelessSinkPartition):
    """The part of a worker."""

    def __init__(self, path: str) -> None:
        self.file = Path(path).open("w")  # noqa: SIM115 - open as long as the worker

    def write_batch(self, items: list[Any]) -> None:
        self.file.writelines(json.dumps(item) + "\n" for item in items)

    def close(self) -> None:
        self.file.close()


def reduce(state: int | None, value: int) -> tuple[int, int]:
    """Keep and give the running sum."""
    state = value if state is None else state + value
    return state, state


def stamped_reduce(state: int | None, value: tuple[int, int]) -> tuple[int, tuple[int, int]]:
    """Do so, and hand the stamp on."""
    state = value[0] if state is None else state + value[0]
    return state, (state, value[1])


def build(wanted: Spec, count: int, per_ms: int, folder: str = "", metrics: str = "") -> Dataflow:
    """Make the program."""
    keys, every = wanted.keys, 1 if wanted.rate else 16
    flow = Dataflow(wanted.program)
    numbers = op.input("numbers", flow, Numbers(wanted, count))
    weight, late = len, None
    if wanted.program == "grep":
        results = op.filter("grep", numbers, lambda line: "999 " in line)
        weight = lambda items: 1000 * len(items)  # noqa: E731
    elif wanted.program == "keyed" and wanted.stamped:
        pairs = op.map("pairs", numbers, lambda record: (str(record[0] % keys), (1, record[1])))
        results = op.stateful_map("reduce", pairs, stamped_reduce)
        late = lambda item: item[1][1]  # noqa: E731
    elif wanted.program == "keyed":
        results = op.stateful_map("reduce", op.map("pairs", numbers, lambda i: (str(i % keys), 1)), reduce)
    else:
        stamped = wanted.stamped
        if stamped:
            time_of = lambda record: EPOCH + timedelta(microseconds=record[1])  # noqa: E731
            key_of = lambda record: str(record[0] % keys)  # noqa: E731
            clock = win.EventClock(time_of, timedelta(0))
            late = lambda item: (item[1][0] + 1) * 1_000_000  # noqa: E731
        else:
            time_of = lambda i: EPOCH + timedelta(milliseconds=i // per_ms)  # noqa: E731
            key_of = lambda i: str(i % keys)  # noqa: E731
            # Synthetic time passes with the records only, or a slow machine would make them late.
            clock = win.EventClock(time_of, timedelta(0), now_getter=lambda: EPOCH)
        windower = win.TumblingWindower(align_to=EPOCH, length=SECOND)
        results = win.count_window("windows", numbers, clock, windower, key_of).down
        weight = lambda items: sum(item[1][1] for item in items)  # noqa: E731
    op.output("out", results, Write(folder) if folder else Count(metrics, weight, late, every))
    return flow


def as_checked(program: str, item: Any) -> Any:
    """Return a result as the oracle has it."""
    if program == "grep":
        return item
    key, found = item
    if program == "keyed":
        return int(key), found[0] if isinstance(found, list) else found
    return int(key), found[1], (found[0] + 1) * 1000


def workers(wanted: Spec, phase: str, port: int) -> list[subprocess.Popen[bytes]]:
    """Start the processes of the cluster."""
    command = [sys.executable, __file__, wanted.dump(), phase, str(port)]
    return [subprocess.Popen([*command, str(index)], stdout=sys.stderr) for index in range(wanted.parallelism)]


def work(wanted: Spec, phase: str, port: int, index: int) -> None:
    """Be a process of the cluster."""
    if phase == "check":
        flow = build(wanted, oracle.CHECKED, oracle.CHECKED_PER_MS, folder=f"{wanted.folder}/checked")
    else:
        flow = build(wanted, ENDLESS, wanted.per_ms, metrics=f"{wanted.folder}/metrics")
    addresses = [f"127.0.0.1:{port + i}" for i in range(wanted.parallelism)]
    if wanted.parallelism == 1:
        cli_main(flow)
    else:
        cli_main(flow, process_id=index, addresses=addresses, workers_per_process=1)


def main() -> None:
    """Check, then measure."""
    wanted = spec()
    if sys.argv[2:]:
        work(wanted, sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return
    checked = Path(wanted.folder, "checked")
    checked.mkdir()
    by_number = wanted if wanted.program == "keyed" else Spec(**{**wanted.__dict__, "stamped": False})
    for process in workers(by_number, "check", PORT):
        if process.wait(120):
            raise SystemExit("a worker failed")
    lines = [json.loads(line) for path in checked.iterdir() for line in path.read_text().splitlines()]
    number = oracle.check(wanted.program, [as_checked(wanted.program, line) for line in lines], wanted.keys)

    def read() -> Reading | None:
        newest = [path.read_text().rstrip("\n").rsplit("\n", 2)[-1:] for path in Path(wanted.folder).glob("metrics-*")]
        found = [json.loads(text) for lines in newest for text in lines if text.endswith("]")]
        if not found:  # the one number in a thousand that passes grep is odd: all results are of one worker
            return None
        latency: dict[int, int] = {}
        for _, _, counts in found:
            for bucket, n in counts.items():
                latency[int(bucket)] = latency.get(int(bucket), 0) + n
        return max(at for at, _, _ in found), sum(count for _, count, _ in found), latency

    cluster = workers(wanted, "measure", PORT + 10)
    try:
        answer({"checked": number, **watch(read, wanted)})
    finally:
        for process in cluster:
            process.kill()
        for process in cluster:
            process.wait(30)


if __name__ == "__main__":
    main()
