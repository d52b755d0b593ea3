"""``make bench-turns``: systems side by side, one running at a time, for seconds: ratios on machines that change by the minute.

A system is started after the other, checks its result and runs on; then all but one are stopped (``SIGSTOP``), and each is let
run for ``--slice`` seconds in turn, forwards and backwards. What passes in the first ``--settle`` of them does not count: queues
are long and sockets full. All run at full load: what has a rate would make up for the time in which it was stopped. A ratio is
the median over the rounds, of slices that are seconds apart, not minutes. To Funken's flow control the records of a system that
was stopped are late; it needs 4 seconds to settle.

usage: in_turns.py PROGRAM SYSTEM... [--rounds N] [--slice S] [--settle S] [--stamped] [--threads]

``SYSTEM`` is one of ``systems.py``, as ``funken``; ``funken@FOLDER`` runs the package of another tree, ``funken:KEY=VALUE,...``
sets options. The last one is what the others are compared with.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import environments
from processes import end_session, members
from protocol import ENDLESS, PATIENCE, Spec, percentiles
from systems import SYSTEMS
from threads import Use, threads_of, used_between

CHECKS = 200.0
"""How long (s) a system may take to check its result, beyond the patience for a first record."""
LISTENS = {"heartbeat.timeout": "3600 s", "heartbeat.interval": "600 s"}
"""Flink's options: who is stopped for a while is not lost."""


class Turn:
    """A system that runs in its turn."""

    def __init__(self, name: str, program: str, folder: str, stamped: bool, by_thread: bool) -> None:
        self.name = name
        self._by_thread = by_thread
        self.figures: list[dict[str, float]] = []
        #: what the kinds of threads used per record in each slice
        self.threads: list[dict[str, Use]] = []
        self._progress = Path(folder, "progress")
        known, _, given = name.partition(":")
        known, _, tree = known.partition("@")
        system = SYSTEMS[known]
        options = dict(pair.split("=", 1) for pair in given.split(",") if pair)
        if system.environment == "pyflink":
            options = LISTENS | options
        timeout = 5 if stamped else None
        spec = Spec(
            program=program, variant=system.variant, seconds=ENDLESS, folder=folder, progress=str(self._progress),
            options=options, stamped=stamped, buffer_timeout=timeout,
        )  # fmt: skip
        variables = {**environments.variables(system.environment), "TMPDIR": folder}
        if tree:
            variables["PYTHONPATH"] = str(Path(tree).resolve() / "src")
        script = str(environments.HERE / system.script)
        command = [str(environments.python(system.environment)), "-W", "ignore", script, spec.dump()]
        self._errors = Path(folder, "errors")
        with Path(folder, "output").open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=errors, stdin=subprocess.DEVNULL, cwd=folder, env=variables,
                start_new_session=True,
            )  # fmt: skip

    def begin(self) -> None:
        """Wait for the first records, and stop."""
        deadline = time.monotonic() + PATIENCE + CHECKS
        while not self._readings():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{self.name} does not run:\n{self._errors.read_text(errors='replace')[-3000:]}")
            time.sleep(0.2)
        time.sleep(3)
        self._signal(signal.SIGSTOP)

    def run(self, seconds: float, settle: float) -> dict[str, float]:
        """Run for so long; return the figures of the time after what it took to ``settle``."""
        self._signal(signal.SIGCONT)
        time.sleep(settle)
        before = self._threads()
        begin, used = time.monotonic(), self._used()
        time.sleep(seconds - settle)
        used, passed = self._used() - used, time.monotonic() - begin
        after = self._threads()
        self._signal(signal.SIGSTOP)
        readings = [reading for reading in self._readings() if reading[0] >= begin]
        if len(readings) < 2:
            raise SystemExit(f"{self.name} made no progress:\n{self._errors.read_text(errors='replace')[-3000:]}")
        first, last = readings[0], readings[-1]
        rate = (last[2] - first[2]) / (last[1] - first[1])
        latency = {int(bucket): n - first[3].get(bucket, 0) for bucket, n in last[3].items()}
        kinds = used_between(before, after)
        records = rate * passed
        self.threads.append({kind: Use(use.cpu / records, use.switches / records) for kind, use in kinds.items()})
        self.figures.append({"rate": rate, "cpu": used / passed / rate, **percentiles(latency)})
        return self.figures[-1]

    def end(self) -> None:
        """End all of its processes."""
        self._signal(signal.SIGCONT)
        end_session(self._process.pid)
        self._process.wait(30)

    def _readings(self) -> list[Any]:
        if not self._progress.exists():
            return []
        lines = self._progress.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def _used(self) -> float:
        return sum(seconds for _, seconds in members(self._process.pid))

    def _threads(self) -> dict[tuple[str, Path], Use]:
        return threads_of(self._process.pid) if self._by_thread else {}

    def _signal(self, which: signal.Signals) -> None:
        for pid, _ in members(self._process.pid):
            try:
                os.kill(pid, which)
            except ProcessLookupError:
                continue


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("systems", nargs="+")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--slice", type=float, default=8.0)
    parser.add_argument("--settle", type=float, default=4.0)
    parser.add_argument(
        "--stamped", action="store_true", help="records with the time at which they were made: latencies"
    )
    parser.add_argument("--threads", action="store_true", help="what a record costs in each kind of thread")
    args = parser.parse_args()
    for name in args.systems:
        if name.partition(":")[0].partition("@")[0] not in SYSTEMS:
            parser.error(f"there is no system {name!r}; there are {', '.join(SYSTEMS)}")
    if not 0 < args.settle < args.slice:
        parser.error("--settle has to be shorter than --slice")
    turns: list[Turn] = []
    with tempfile.TemporaryDirectory(prefix="funken-turns-", ignore_cleanup_errors=True) as folder:
        try:
            for number, name in enumerate(args.systems):
                own = Path(folder, str(number))
                own.mkdir()
                turns.append(Turn(name, args.program, str(own), args.stamped, args.threads))
                turns[-1].begin()
            for number in range(args.rounds):
                for turn in turns if number % 2 == 0 else turns[::-1]:
                    turn.run(args.slice, args.settle)
                rates = [turn.figures[-1]["rate"] for turn in turns]
                print(f"{number + 1:>3}", *(f"{rate / 1e6:7.3f}" for rate in rates), "M records/s", flush=True)
        finally:
            for turn in turns:
                turn.end()
    report(turns)
    if args.threads:
        report_threads(turns)


def report(turns: list[Turn]) -> None:
    """Print medians, and the ratios to the last system."""
    print(
        f"\n{'':<40}{'M records/s':>12}{'CPU ns':>8}{'ratio':>8}{'least':>7}{'most':>7}{'of CPU':>8}{'p50':>8}{'p99':>8} ms"
    )
    for turn in turns:
        neighbours = list(zip(turn.figures, turns[-1].figures, strict=True))
        pairs = [mine["rate"] / other["rate"] for mine, other in neighbours]
        costs = median(mine["cpu"] / other["cpu"] for mine, other in neighbours)
        rate, cpu = (median(figures[key] for figures in turn.figures) for key in ("rate", "cpu"))
        p50, p99 = (median(figures.get(key, 0.0) for figures in turn.figures) for key in ("p50", "p99"))
        ratios = f"{median(pairs):>8.2f}{min(pairs):>7.2f}{max(pairs):>7.2f}{costs:>8.2f}"
        print(f"{turn.name[-40:]:<40}{rate / 1e6:>12.3f}{cpu * 1e9:>8.0f}{ratios}{p50:>8.1f}{p99:>8.1f}")


def report_threads(turns: list[Turn]) -> None:
    """Print what a record costs in each kind of thread, the dearest first."""
    for turn in turns:
        print(f"\n{turn.name}: CPU ns a record, switches a million records")
        found = []
        for kind in {kind for each in turn.threads for kind in each}:
            uses = [each.get(kind, Use(0.0, 0)) for each in turn.threads]
            found.append((median(use.cpu for use in uses), median(use.switches for use in uses), kind))
        for cpu, switches, kind in sorted(found, reverse=True):
            if cpu > 1e-9:
                print(f"{kind:<40}{cpu * 1e9:>12.0f}{switches * 1e6:>12.0f}")


if __name__ == "__main__":
    main()
