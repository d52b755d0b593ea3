"""``make soak``: a continuous job on Spark for an hour, and whether it could go on like that for ever. Linux only (``/proc``).

First the job of ``soak_job.py`` runs at full load, to see what it can do; then a fresh one runs at ``--load`` of that (or at
``--rate``), with a checkpoint each second. Every ``--every`` seconds a sample is taken of every process of the job (driver,
JVM, daemon, workers): resident memory, threads, open descriptors; of the files and bytes of its checkpoints, its temporary
folders and its output; and of records, watermarks and checkpoints as the driver knows them. Output is read, compared with what
it must be (every second of event time, exactly once), and deleted.

After a tenth of an hour, or a third of a shorter run, everything has to stay as it is. Growth is judged twice, by the medians
of the first and the last tenth of the time that counts, and by the median of all slopes (Theil and Sen); of memory 5 % are
allowed. Falling is no fault.

The resident memory of a JVM says little: the collector takes what it may have, up to ``-Xmx``, before it cleans up. So the job's
JVM gets its whole heap at once (``-Xms`` is ``-Xmx``, pages touched at the start), which makes its resident memory a
constant plus what is outside the heap: classes, code, stacks, buffers. That has to be flat. What is alive in the heap is
measured after a full collection, forced every ``--collect`` seconds, and has to be flat as well.

usage: soak.py [--seconds S] [--every S] [--collect S] [--load FRACTION | --rate RECORDS_PER_SECOND] [--results FOLDER]; writes
``soak.json`` and ``soak.png``; ends with 1 if something grew, stood still, was lost or doubled
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "compare"))

import environments  # noqa: E402
import processes  # noqa: E402
from soak_job import PER_MS, STATUS_SECONDS, USERS  # noqa: E402

HEAP = "1g"
WARMUP_SECONDS, CAPACITY_SECONDS = 10.0, 20.0
MEMORY, RATE_KEPT, LAG_SECONDS = 0.05, 0.95, 5.0
SMALL_MEMORY = 2 * 2**20
"""Growth below this many bytes is not told from the noise of an allocator."""
FEW = {"threads": 2, "descriptors": 4, "files": 20}
PAGE = os.sysconf("SC_PAGE_SIZE")


# ---- sampling


def role(pid: int, leader: int) -> str:
    """Return what a process of the job is."""
    if pid == leader:
        return "driver"
    command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    if b"java" in command.split(b" ", 1)[0]:
        return "jvm"
    if any(name in command for name in (b"pyspark.daemon", b"pyspark/daemon", b"funken.spark.daemon")):
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return "daemon" if role(parent, leader) == "jvm" else "worker"
    return "other"


def sample_processes(leader: int) -> dict[str, dict[str, int]]:
    """Return resident memory, threads and descriptors of every process of a session, by role and process id."""
    found = {}
    for pid, _ in processes.members(leader):
        try:
            proc = Path(f"/proc/{pid}")
            found[f"{role(pid, leader)} {pid}"] = {
                "memory": int((proc / "statm").read_text().split()[1]) * PAGE,
                "threads": len(list((proc / "task").iterdir())),
                "descriptors": len(list((proc / "fd").iterdir())),
            }
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
    return found


def size_of(folder: Path) -> dict[str, int]:
    """Return how many files there are below a folder, and their bytes."""
    files = size = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.lstat(os.path.join(root, name)).st_size
            except FileNotFoundError:
                continue
            files += 1
    return {"files": files, "bytes": size}


@dataclass
class Output:
    """Reads what the job has committed, deletes it, and checks that each second of event time is there once."""

    folder: Path
    sums: dict[tuple[str, int], int] = field(default_factory=Counter)
    complete: dict[str, set[int]] = field(default_factory=lambda: {"timers": set(), "windows": set()})
    wrong: list[str] = field(default_factory=list)
    lines: int = 0

    def take(self) -> None:
        """Read and delete what is there."""
        for kind, complete in self.complete.items():
            for path in (self.folder / kind).rglob("*"):
                if path.name.startswith(".") or not path.is_file():
                    continue
                for line in path.read_text().splitlines():
                    second, records = map(int, line.split())
                    if second in complete:
                        self.wrong.append(f"{kind}: second {second} came again")
                    self.sums[kind, second] += records
                    self.lines += 1
                path.unlink()
        for (kind, second), records in list(self.sums.items()):
            if records >= PER_MS * 1000:
                if records > PER_MS * 1000:
                    self.wrong.append(f"{kind}: second {second} has {records:,} records, not {PER_MS * 1000:,}")
                del self.sums[kind, second]
                self.complete[kind].add(second)

    def missing(self) -> list[str]:
        """Return what should have come before the newest complete second."""
        found = []
        for kind, complete in self.complete.items():
            gaps = sorted(set(range(max(complete, default=0))) - complete)
            found += [f"{kind}: second {second} is not complete" for second in gaps]
        return found


# ---- running


class Run:
    """A job in a process, and session, of its own."""

    def __init__(self, folder: Path, rate: float, parallelism: int, collect: float) -> None:
        self.folder = folder
        self.output = Output(folder / "out")
        for name in ("tmp", "spark", "java", "checkpoints"):
            (folder / name).mkdir(parents=True)
        options = f"-Xms{HEAP} -XX:+AlwaysPreTouch -Djava.io.tmpdir={folder / 'java'}"
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": f"--driver-memory {HEAP} --conf 'spark.driver.defaultJavaOptions={options}' pyspark-shell",
            "SPARK_LOCAL_DIRS": str(folder / "spark"),
            "TMPDIR": str(folder / "tmp"),
        }
        wanted = {"folder": str(folder), "rate": rate, "parallelism": parallelism, "gc_every": collect}
        command = [sys.executable, "-W", "ignore", str(HERE / "soak_job.py"), json.dumps(wanted)]
        self._log = (folder / "log").open("wb")
        self._status = folder / "status.jsonl"
        self._read = 0
        self.process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, env=environment, start_new_session=True, cwd=folder
        )

    def statuses(self) -> list[dict[str, Any]]:
        """Return what the driver has told since the last call."""
        if self.process.poll() is not None:
            raise SystemExit(f"the job ended:\n{(self.folder / 'log').read_text()[-3000:]}")
        if not self._status.exists():
            return []
        with self._status.open("rb") as lines:
            lines.seek(self._read)
            found = lines.read().rpartition(b"\n")[0]
        self._read += len(found) + 1 if found else 0
        return [json.loads(line) for line in found.splitlines()]

    def begins(self, timeout: float = 120.0) -> None:
        """Wait for the first records."""
        deadline = time.monotonic() + timeout
        while not any(sum(read for read, _ in status["sources"].values()) for status in self.statuses()):
            if time.monotonic() > deadline:
                raise SystemExit(f"no record within {timeout:.0f} s; see {self.folder}")
            time.sleep(STATUS_SECONDS / 2)

    def end(self) -> None:
        """Stop the job, then whatever is left of it."""
        (self.folder / "stop").touch()
        try:
            self.process.wait(90)
        except subprocess.TimeoutExpired:
            print("the job did not stop within 90 s", file=sys.stderr)
        finally:
            processes.end_session(self.process.pid)
            self._log.close()


def capacity(folder: Path, parallelism: int) -> float:
    """Return how many records per second the job does at full load."""
    run = Run(folder, 0, parallelism, 1e9)
    try:
        run.begins()
        end = time.monotonic() + WARMUP_SECONDS + CAPACITY_SECONDS
        points: list[tuple[float, int]] = []
        while time.monotonic() < end:
            time.sleep(STATUS_SECONDS)
            run.output.take()
            points += [(one["time"], sum(read for read, _ in one["sources"].values())) for one in run.statuses()]
        points = [point for point in points if point[0] > points[-1][0] - CAPACITY_SECONDS]
        (begin, first), (end_at, last) = points[0], points[-1]
        return (last - first) / (end_at - begin)
    finally:
        run.end()


def watch(run: Run, seconds: float, every: float, rate: float) -> list[dict[str, Any]]:
    """Take samples of a job for a time."""
    run.begins()
    begin, samples = time.monotonic(), []
    while time.monotonic() < begin + seconds:
        time.sleep(max(0.0, begin + every * (len(samples) + 1) - time.monotonic()))
        statuses = run.statuses()
        run.output.take()
        if not statuses:
            raise SystemExit(f"the driver told nothing for {every} s; see {run.folder}")
        last = statuses[-1]
        read = sum(found for found, _ in last["sources"].values())
        watermark = min(last["watermarks"].values(), default=0)
        samples.append(
            {
                "time": time.monotonic() - begin,
                "processes": sample_processes(run.process.pid),
                "folders": {
                    name: size_of(run.folder / name) for name in ("checkpoints", "tmp", "spark", "java", "out")
                },
                "at": last["time"],
                "records": read,
                "sources": last["sources"],
                "watermarks": last["watermarks"],
                "lag": (read - max(watermark, 0) * PER_MS) / rate,
                "checkpoints": last["checkpoints"],
                "durations": [taken for status in statuses for taken in status["durations"]],
                "heap": last["heap"],
            }
        )
        print(line(samples), flush=True)
    return samples


def line(samples: Sequence[dict[str, Any]]) -> str:
    """Say where the job is."""
    now, before = samples[-1], samples[-2] if len(samples) > 1 else None
    speed = (now["records"] - before["records"]) / (now["at"] - before["at"]) if before else 0.0
    memory = sum(one["memory"] for one in now["processes"].values()) / 2**20
    longest = max(now["durations"], default=0.0)
    return (
        f"{now['time']:7.0f} s  {speed:10,.0f} records/s  lag {now['lag']:5.1f} s  {memory:7,.0f} MiB in "
        f"{len(now['processes'])} processes  checkpoint {now['checkpoints']}, {longest * 1000:,.0f} ms at most"
    )


# ---- judging


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the median of the slopes between all pairs of points, or of a few hundred of them."""
    step = max(1, len(points) // 200)
    few = points[::step]
    found = [(y2 - y1) / (x2 - x1) for i, (x1, y1) in enumerate(few) for x2, y2 in few[i + 1 :] if x2 > x1]
    return statistics.median(found) if found else 0.0


@dataclass(frozen=True)
class Row:
    """One line of the verdict."""

    what: str
    first: float
    last: float
    grown: float
    allowed: float
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether it is as it should be."""
        return self.grown <= self.allowed


def growth(what: str, points: Sequence[tuple[float, float]], share: float, least: float) -> Row:
    """Judge a series that is to stay as it is: the greater of both measures of its growth."""
    tenth = max(1, len(points) // 10)
    first = statistics.median(value for _, value in points[:tenth])
    last = statistics.median(value for _, value in points[-tenth:])
    grown = max(last - first, slope(points) * (points[-1][0] - points[0][0]))
    return Row(what, first, last, grown, max(share * first, least))


def peaks(what: str, points: Sequence[tuple[float, float]], share: float, least: float) -> Row:
    """Judge a series that goes up and down: its peak in the second half against that in the first."""
    half = max(1, len(points) // 2)
    first, last = max(value for _, value in points[:half]), max(value for _, value in points[half:] or points)
    return Row(what, first, last, last - first, max(share * first, least))


def verdict(samples: Sequence[dict[str, Any]], output: Output, rate: float, seconds: float) -> list[Row]:
    """Judge what comes after the time in which the job settles."""
    settled = min(600.0, seconds / 3)
    steady = [sample for sample in samples if sample["time"] > settled]

    def series(of: Callable[[dict[str, Any]], float]) -> list[tuple[float, float]]:
        return [(sample["time"], of(sample)) for sample in steady]

    rows = []
    names = [set(sample["processes"]) for sample in steady]
    always = set.intersection(*names)
    rows.append(Row("processes that come or go", 0, 0, len(set.union(*names) - always), 0))
    for name in sorted(always):
        for what in ("memory", "threads", "descriptors"):
            found = series(lambda sample, name=name, what=what: sample["processes"][name][what])
            share, least = (MEMORY, SMALL_MEMORY) if what == "memory" else (0.05, FEW[what])
            rows.append(growth(f"{name}, {what}", found, share, least))
    if all(sample["heap"].get("live") for sample in steady):
        rows.append(growth("jvm, heap alive", series(lambda one: one["heap"]["live"]), MEMORY, SMALL_MEMORY))
        rows.append(growth("jvm, classes and code", series(lambda one: one["heap"]["outside"]), MEMORY, SMALL_MEMORY))
    for name in steady[0]["folders"]:
        rows.append(
            peaks(f"{name}, files", series(lambda one, name=name: one["folders"][name]["files"]), 0.1, FEW["files"])
        )
        rows.append(peaks(f"{name}, bytes", series(lambda one, name=name: one["folders"][name]["bytes"]), 0.1, 2**20))
    rows += progress(samples, steady, rate)
    durations = [(sample["time"], max(sample["durations"])) for sample in steady if sample["durations"]]
    rows.append(growth("checkpoint, seconds", durations, 0.5, 0.25) if durations else Row("checkpoint", 0, 0, 1, 0))
    wrong = output.wrong + output.missing()
    rows.append(Row("output lost or doubled", 0, 0, len(wrong), 0, "; ".join(wrong[:3])))
    return rows


def progress(samples: Sequence[dict[str, Any]], steady: Sequence[dict[str, Any]], rate: float) -> list[Row]:
    """Judge whether everything went on in every sample, and the rate was kept."""
    still: Counter[str] = Counter()
    for before, now in pairwise(samples):
        for subtask, (read, watermark) in now["sources"].items():
            then = before["sources"].get(subtask, [-1, -(2**63)])
            still["sources that read nothing"] += read <= then[0]
            still["watermarks of sources that stood still"] += watermark <= then[1]
        for place, watermark in now["watermarks"].items():
            still["watermarks that stood still"] += watermark <= before["watermarks"].get(place, -(2**63))
        still["samples without a checkpoint"] += now["checkpoints"] <= before["checkpoints"]
    names = ("sources that read nothing", "watermarks of sources that stood still", "watermarks that stood still")
    rows = [Row(name, 0, 0, still[name], 0) for name in (*names, "samples without a checkpoint")]
    speed = (steady[-1]["records"] - steady[0]["records"]) / (steady[-1]["at"] - steady[0]["at"] or 1.0)
    rows.append(Row("records/s below the rate", rate, speed, rate - speed, (1 - RATE_KEPT) * rate))
    rows.append(growth("watermark lag, seconds", [(one["time"], one["lag"]) for one in steady], 0.5, LAG_SECONDS))
    return rows


def table(rows: Iterable[Row]) -> str:
    """Return the verdict as text."""

    def shown(row: Row, value: float) -> str:
        big = any(word in row.what for word in ("memory", "heap", "code", "bytes"))
        return f"{value / 2**20:,.1f} MiB" if big else f"{value:,.2f}" if "seconds" in row.what else f"{value:,.0f}"

    lines = [f"{'what':<44}{'first':>14}{'last':>14}{'grown by':>14}{'allowed':>14}"]
    for row in rows:
        values = "".join(f"{shown(row, value):>14}" for value in (row.first, row.last, row.grown, row.allowed))
        lines.append(f"{row.what:<44}{values}{'' if row.holds else '   VIOLATED ' + row.note}")
    return "\n".join(lines)


def main() -> None:
    """Measure, judge, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--every", type=float, default=10)
    parser.add_argument("--collect", type=float, default=30, help="a full collection in the JVM so often (s)")
    parser.add_argument("--load", type=float, default=0.7, help="of what the job can do")
    parser.add_argument("--rate", type=float, default=0, help="records per second, instead of --load")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    args = parser.parse_args()
    if not Path("/proc/self/fd").exists():
        raise SystemExit("soak.py reads /proc, which only Linux has.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # the job is to be stopped, too
    with tempfile.TemporaryDirectory(prefix="funken-soak-", ignore_cleanup_errors=True) as temporary:
        rate, most = args.rate, 0.0
        if not rate:
            most = capacity(Path(temporary) / "capacity", args.parallelism)
            rate = args.load * most
            print(f"at full load {most:,.0f} records/s; now {rate:,.0f}", flush=True)
        rate = max(1.0, rate // USERS * USERS)
        run = Run(Path(temporary) / "soak", rate, args.parallelism, args.collect)
        try:
            samples = watch(run, args.seconds, args.every, rate)
        finally:
            run.end()
        run.output.take()
        rows = verdict(samples, run.output, rate, args.seconds)
    print(table(rows))
    durations = sorted(taken for sample in samples for taken in sample["durations"])
    document = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "seconds": args.seconds,
        "capacity": most,
        "rate": rate,
        "settled": min(600.0, args.seconds / 3),
        "checkpoint": {q: durations[int(q / 100 * (len(durations) - 1))] for q in (50, 99, 100)} if durations else {},
        "verdict": [{**vars(row), "holds": row.holds} for row in rows],
        "samples": samples,
    }
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "soak.json").write_text(json.dumps(document) + "\n")
    draw(args.results)
    violated = [row.what for row in rows if not row.holds]
    raise SystemExit(f"violated: {', '.join(violated)}" if violated else 0)


def draw(results: Path) -> None:
    """Draw the series, with the environment in which the other benchmarks draw theirs."""
    try:
        environments.build("plots", print)
        command = [str(environments.python("plots")), str(HERE / "soak_plot.py"), str(results)]
        subprocess.run(command, timeout=180, check=True)
    except (environments.CannotBuild, subprocess.SubprocessError) as error:
        print(f"the plot could not be drawn: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
