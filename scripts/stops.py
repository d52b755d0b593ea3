"""Start small programs, send them signals at random moments, and see that each ends: in time, as it should, and whole.

``make stops SEEDS=300 FIRST_SEED=1000 TARGET=local``. A seed draws a program, the way it is started, its options, and one
signal or two. A program has to end with its exit code, and to leave no process, no traceback and no half-written checkpoint. One
that does not end is shown by its threads, if py-spy is on the PATH. Run a failed seed alone with ``SEEDS=1``: the moment of the
signal is the same, but for the speed of the machine.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BOUND = 30.0
"""The time (s) in which a program has to end."""
CHILDREN_SECONDS = 15.0

HEAD = """\
import asyncio, signal, sys, time
from funken import *

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda index: index, None, RATE)
times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number * 10)
numbers = env.from_source(source, times, "numbers").uid("numbers")
by_three = numbers.key_by(lambda number: number % 3)
"""
PROGRAMS = {
    "sums": HEAD + "by_three.sum().uid('sums').print()\nenv.execute()\n",
    "windows": HEAD
    + "by_three.window(TumblingEventTimeWindows.of(100)).reduce(max).uid('max').print()\nenv.execute()\n",
    "timers": HEAD
    + """
class Count(KeyedProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 50)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value()

by_three.process(Count()).uid("count").print()
env.execute()
""",
    "restarts": HEAD + "numbers.map(lambda number: 1 // (number % 40 - 39)).print()\nenv.execute()\n",
    "sleeps": HEAD + "numbers.map(lambda number: time.sleep(0.2) or number).print()\nenv.execute()\n",
    "greedy": HEAD
    + """
def greedy(number):
    try:
        time.sleep(0.05)
    except BaseException:
        pass
    return number

numbers.map(greedy).print()
env.execute()
""",
    "requests": HEAD
    + """
AsyncDataStream.unordered_wait(numbers, blocking(lambda number: time.sleep(3600)), 3_600_000, 20).print()
env.execute()
""",
    "collected": HEAD
    + "with by_three.sum().uid('sums').execute_and_collect() as sums:\n    for each in sums:\n        print(each)\n",
    "asynchronous": HEAD + "by_three.sum().uid('sums').print()\nenv.execute_async()\ntime.sleep(3600)\n",
    "handler": HEAD
    + "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\nby_three.sum().uid('sums').print()\nenv.execute()\n",
    "query": """
from funken.table import EnvironmentSettings, TableEnvironment

tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
tables.execute_sql("CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100')")
tables.execute_sql("SELECT n % 5, COUNT(*) FROM numbers GROUP BY n % 5").print()
""",
}


@dataclass
class Case:
    """A program, its start, and the signals for it."""

    seed: int
    program: str
    launched: bool
    """True for ``funken run``, else ``python``."""
    options: dict[str, object]
    signals: list[tuple[float, signal.Signals]]
    ignores_hangup: bool
    faults: list[str] = field(default_factory=list)

    @staticmethod
    def of(seed: int, target: str) -> Case:
        """Draw a case."""
        draw = random.Random(seed)
        options: dict[str, object] = {
            "execution.target": target,
            "parallelism.default": draw.choice([1, 2, 4] if target == "local" else [1, 2]),
            "task.cancellation.timeout": "1 s",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 1_000_000,
            "restart-strategy.fixed-delay.delay": draw.choice(["0 ms", "300 ms", "10 s"]),
            "state.backend.type": draw.choice(["hashmap", "hashmap", "rocksdb"]),
        }
        if draw.random() < 0.7 and target != "batch":
            options |= {"execution.checkpointing.interval": "100 ms", "execution.job-id": "orders"}
        span = 3.0 if target == "local" else 15.0
        signals = [(draw.uniform(0, span), draw.choice(SIGNALS))]
        if draw.random() < 0.2:
            signals.append((draw.choice([0.0, 0.05, 1.0]), draw.choice(SIGNALS)))
        return Case(
            seed, draw.choice(list(PROGRAMS)), draw.random() < 0.7, options, signals, ignores_hangup=draw.random() < 0.1
        )

    def command(self, folder: Path) -> list[str]:
        """Write the program, and return the command that starts it."""
        script, options = folder / "job.py", dict(self.options)
        if "execution.checkpointing.interval" in options:
            options["execution.checkpointing.dir"] = folder / "checkpoints"
        source = PROGRAMS[self.program].replace("RATE", "1000")
        if self.launched:
            script.write_text(source)
            pairs = [f"-D{key}={value}" for key, value in options.items()]
            return [sys.executable, "-m", "funken", "run", "--no-progress", *pairs, str(script)]
        given = {key: str(value) for key, value in options.items()}
        script.write_text(
            "from funken import Configuration\nfrom funken.config import set_default_configuration\n"
            f"set_default_configuration(Configuration({given!r}))\n{source}"
        )
        return [sys.executable, str(script)]

    def expected(self, sent: list[signal.Signals]) -> set[int]:
        """Return the exit codes that are right: before Funken takes a signal, Python has its own way."""
        codes = {-int(each) for each in sent} | ({128 + each for each in sent} if self.launched else set())
        return codes | {7} if self.program == "handler" else codes


def processes_with(variable: str) -> Iterator[int]:
    """Yield the processes with a variable in their environment."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if variable.encode() in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)
        except OSError:
            continue


def run(case: Case, folder: Path) -> None:
    """Run a case, and note its faults."""
    (temporary := folder / "temporary").mkdir()
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
    with open(folder / "output", "wb") as output, open(folder / "errors", "wb") as errors:
        command = ["nohup"] * case.ignores_hangup + case.command(folder)
        child = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
    sent = send(case, child)
    try:
        child.wait(BOUND)
    except subprocess.TimeoutExpired:
        case.faults.append(f"has not ended within {BOUND:g} s\n{threads_of(child.pid)}")
        child.kill()
        child.wait()
    else:
        if child.returncode not in case.expected(sent):
            case.faults.append(f"exit code {child.returncode}, expected {sorted(case.expected(sent))}")
    until = time.monotonic() + CHILDREN_SECONDS
    while (left := list(processes_with(f"TMPDIR={temporary}"))) and time.monotonic() < until:
        time.sleep(0.1)
    if left:
        case.faults.append(f"processes are left: {left}")
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    said = (folder / "errors").read_text(errors="replace")
    if "Exception ignored" in said or (case.launched and "Traceback" in said):
        case.faults.append("a traceback")
    half = [path.name for path in folder.glob("checkpoints/**/chk-*") if not (path / "_metadata").exists()]
    if half and child.returncode > 0 and len(sent) == 1:
        case.faults.append(f"checkpoints are half written: {half}")
    if case.faults:
        case.faults.append(f"it said: {said[-2000:]}")


def send(case: Case, child: subprocess.Popen[bytes]) -> list[signal.Signals]:
    """Send the signals of a case, and SIGTERM after those that it ignores; return those that count."""
    sent = []
    for delay, number in case.signals:
        try:
            child.wait(delay)
        except subprocess.TimeoutExpired:
            child.send_signal(number)
            if not (case.ignores_hangup and number is signal.SIGHUP):
                sent.append(number)
    if not sent and child.poll() is None:
        child.send_signal(signal.SIGTERM)
        sent.append(signal.SIGTERM)
    return sent


def threads_of(pid: int) -> str:
    """Return the stacks of a process, if py-spy can be had."""
    tool = shutil.which("py-spy")
    if tool is None:
        return "install py-spy to see its threads"
    return subprocess.run([tool, "dump", "--pid", str(pid)], capture_output=True, text=True, check=False).stdout


def main() -> None:
    """Run the cases; fail if one has a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--target", default="local")
    given = parser.parse_args()
    failed = 0
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        case = Case.of(seed, given.target)
        with tempfile.TemporaryDirectory(prefix="stops-", ignore_cleanup_errors=True) as folder:
            run(case, Path(folder))
        if case.faults:
            failed += 1
            print(f"seed {seed}: {case.program}, {'funken run' if case.launched else 'python'}, {case.signals}")
            print(*case.faults, sep="\n", flush=True)
    print(f"{given.seeds} programs, {failed} with faults")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
