"""``make chaos``: the state-machine job on Spark while its workers, and once its driver, are killed.

A paced generator makes events of many addresses; each address goes through the states 0, 1, 2, 3, 0, ... in order. A keyed
function keeps the last state of each address and raises an alert for any other step, which a lost or doubled record
would cause. Everything is written by an exactly-once file sink. At the end the files must hold every event once and no
alert, against what the generator is known to have made. Prints how long it took from each kill to the first new output.

usage: chaos.py [--seconds S] [--rate R] [--every K] [--seed N] [--json FILE]; FILE gets the throughput over time, too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
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
from funken.connectors.buckets import BucketAssigner

ADDRESSES = 1000
STATES = 4
BEAT_SECONDS = 0.1


def event(index: int) -> tuple[int, int]:
    """Return the address and the step of the event: an address is always made by the same subtask, in order."""
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
    """Notes who works, when the first output of an attempt came, and how much came in each ``BEAT_SECONDS``."""

    def __init__(self, folder: str, driver: int) -> None:
        self.folder, self.driver = folder, driver

    def open(self, runtime_context):
        Path(self.folder, f"pid-{os.getpid()}").touch()
        attempt = f"{self.driver}-{runtime_context.get_attempt_number()}"
        self.file = Path(self.folder, f"beat-{attempt}")
        subtask = runtime_context.get_index_of_this_subtask()
        self.rates = Path(self.folder, f"rates-{attempt}-{subtask}").open("a")  # noqa: SIM115 - as long as the task
        self.count, self.since = 0, time.time()

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


def job(folder: Path, driver: int, count: int, rate: float) -> None:
    """Run the job; a driver that starts again goes on from the newest checkpoint."""
    conf = Configuration(
        {
            "execution.target": "continuous",
            "execution.job-id": "chaos",
            "execution.checkpointing.interval": "500 ms",
            "execution.checkpointing.dir": str(folder / "checkpoints"),
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


def verdict(folder: Path, count: int) -> Counter[str]:
    """Compare the files with what was made: how many events are lost, doubled, and how many alerts there are."""
    expected = Counter(f"{address} {step}" for address, step in map(event, range(count)))
    found: Counter[str] = Counter()
    for path in (folder / "out").rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            found.update(path.read_text().splitlines())
    alerts = sum(n for line, n in found.items() if line.startswith("ALERT"))
    doubled = sum(n - 1 for line, n in found.items() if n > 1)
    return Counter(
        events=count,
        lost=sum((expected - found).values()),
        doubled=doubled,
        alerts=alerts,
        foreign=len(found - expected),
    )


def timeline(folder: Path, begin: float) -> list[tuple[float, float]]:
    """Return how many records came out per second, over the time since ``begin`` (s)."""
    buckets: Counter[int] = Counter()
    for path in folder.glob("rates-*"):
        for line in path.read_text().splitlines():
            at, count = line.split()
            buckets[int((float(at) - begin) / (2 * BEAT_SECONDS))] += int(count)
    width = 2 * BEAT_SECONDS
    return [(round(n * width, 3), buckets[n] / width) for n in range(max(buckets, default=-1) + 1)]


def start(folder: Path, driver: int, args: argparse.Namespace, count: int) -> subprocess.Popen[bytes]:
    """Start a driver."""
    command = [sys.executable, "-W", "ignore", __file__, "--folder", str(folder), "--driver", str(driver)]
    command += ["--count", str(count), "--rate", str(args.rate)]
    log = (folder / f"driver-{driver}.log").open("wb")
    return subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "PYSPARK_PYTHON": sys.executable})


def beats(folder: Path) -> set[str]:
    """Return which attempts have given output."""
    return {path.name for path in folder.glob("beat-*")}


def wait_for_beat(folder: Path, before: set[str], process: subprocess.Popen[bytes]) -> float | None:
    """Wait for the first output of a new attempt and return when it came; ``None`` if the job ended first."""
    deadline = time.time() + 120
    while time.time() < deadline:
        new = beats(folder) - before
        for name in new:
            with contextlib.suppress(ValueError):
                return float((folder / name).read_text())
        if process.poll() is not None:
            return None
        time.sleep(0.01)
    raise SystemExit(f"no output within 120 s; see {folder}")


def main() -> None:
    """Run, kill, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=float, default=20_000)
    parser.add_argument("--every", type=float, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--driver", type=int)
    parser.add_argument("--count", type=int)
    args = parser.parse_args()
    if args.folder is not None:
        job(args.folder, args.driver, args.count, args.rate)
        return
    chance = random.Random(args.seed)
    count = int(args.seconds * args.rate) // ADDRESSES * ADDRESSES
    folder = Path(tempfile.mkdtemp(prefix="funken-chaos-"))
    process, driver = start(folder, 0, args, count), 0
    wait_for_beat(folder, set(), process)
    recoveries, kills, begin, driver_killed = [], [], time.time(), 0.0
    while process.poll() is None:
        time.sleep(chance.uniform(0.5, 1.5) * args.every)
        if process.poll() is not None:
            break
        before = beats(folder)
        if not driver_killed and time.time() - begin > args.seconds / 2:
            process.kill()
            process.wait()
            killed, driver = time.time(), driver + 1
            kills.append((killed - begin, "driver"))
            process = start(folder, driver, args, count)
            came = wait_for_beat(folder, before, process)
            driver_killed = (came or time.time()) - killed
            print(f"driver killed; first new output after {driver_killed:.1f} s", flush=True)
            continue
        pids = [int(path.name[4:]) for path in folder.glob("pid-*")]
        alive = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
        if not alive:
            continue
        victim = chance.choice(alive)
        os.kill(victim, signal.SIGKILL)
        killed = time.time()
        kills.append((killed - begin, "worker"))
        came = wait_for_beat(folder, before, process)
        if came is not None:
            recoveries.append(came - killed)
            print(f"worker {victim} killed; first new output after {came - killed:.1f} s", flush=True)
    log = (folder / f"driver-{driver}.log").read_text()
    if process.returncode:
        raise SystemExit(f"the job failed:\n{log[-3000:]}")
    found = verdict(folder, count)
    print(", ".join(f"{name} {n:,}" for name, n in found.items()))
    if recoveries:
        print(f"{len(recoveries)} workers killed, median {statistics.median(recoveries):.1f} s to new output (aim: 3)")
    if any(found[name] for name in ("lost", "doubled", "alerts", "foreign")):
        raise SystemExit(f"WRONG; see {folder}")
    print("exactly once")
    if args.json is not None:
        document = {"events": count, "rate": args.rate, "workers": recoveries, "driver": driver_killed}
        args.json.write_text(json.dumps(document | {"kills": kills, "timeline": timeline(folder, begin)}))


if __name__ == "__main__":
    main()
