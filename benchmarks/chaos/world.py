"""What surrounds the job under attack: its processes, its small disks, and its output as it comes.

The folder of a run:

    storage/   a small disk of its own with the checkpoints     rocksdb/   a small disk of its own with the local state
    out/       what the job writes                              pid-*, beat-*, rates-*   what ``job.Beat`` records

The disks are tmpfs mounts in a mount namespace that ends with the run. Where none can be made, ``disks`` is False.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from job import BEAT_SECONDS, JOB_ID

_DISK = "64m"
_LIMIT_SECONDS = 120.0
_FLOWING_BEATS = 5


class World:
    """One run of the job, over several drivers."""

    def __init__(self, folder: Path, count: int, rate: float) -> None:
        self.folder = folder
        self.count, self.rate = count, rate
        self.driver = -1
        self.disks = all(self._mount(name) for name in ("storage", "rocksdb"))
        self.begin = time.time()
        self.start_driver()

    def _mount(self, name: str) -> bool:
        place = self.folder / name
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", str(place)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def remount(self, name: str, how: str) -> None:
        """Make a disk read-only (``ro``) or writable (``rw``)."""
        subprocess.run(["mount", "-o", f"remount,{how}", str(self.folder / name)], check=True)

    def unmount(self) -> None:
        """Let go of the disks."""
        for name in ("storage", "rocksdb"):
            if self.disks:
                subprocess.run(["umount", "-l", str(self.folder / name)], check=False)

    # ---- processes

    def start_driver(self) -> None:
        """Start the next driver of the job."""
        self.driver += 1
        command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("job.py"))]
        command += [str(self.folder), str(self.driver), str(self.count), str(self.rate)]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    @property
    def log(self) -> Path:
        """What the driver of now prints."""
        return self.folder / f"driver-{self.driver}.log"

    @property
    def over(self) -> bool:
        """Whether the driver has ended."""
        return self.process.poll() is not None

    def end_driver(self, how: signal.Signals) -> None:
        """End the driver by a signal and wait for it."""
        self.process.send_signal(how)
        self.process.wait(_LIMIT_SECONDS)

    def workers(self) -> list[int]:
        """Return the pids of the workers with an operator that writes output."""
        pids = [int(path.name[4:]) for path in self.folder.glob("pid-*")]
        return [pid for pid in pids if _state(pid) not in ("", "Z")]

    def jvm(self) -> int:
        """Return the pid of the driver's JVM."""
        for place in Path("/proc").iterdir():
            if place.name.isdigit() and _parent(int(place.name)) == self.process.pid and _is_java(place):
                return int(place.name)
        raise SystemExit(f"driver {self.process.pid} has no JVM")

    # ---- checkpoints

    @property
    def checkpoints(self) -> Path:
        """The folder of the job's checkpoints."""
        return self.folder / "storage" / "checkpoints" / JOB_ID

    def complete(self) -> list[Path]:
        """Return the folders of the complete checkpoints, the newest last."""
        found = [path.parent for path in self.checkpoints.glob("chk-*/_metadata")]
        return sorted(found, key=lambda path: int(path.name[4:]))

    # ---- output

    def beats(self) -> set[str]:
        """Return which attempts have given output."""
        return {path.name for path in self.folder.glob("beat-*")}

    def wait_for_attempt(self, before: set[str]) -> float | None:
        """Wait for the first output of a new attempt, and return when it came; ``None`` if the driver ended first."""
        came: list[float] = []

        def new_attempt() -> bool:
            texts = [(self.folder / name).read_text() for name in self.beats() - before]
            came.extend(float(text) for text in texts if text)
            return bool(came)

        return came[0] if self._wait(new_attempt, "output of a new attempt") else None

    def wait_for_output(self, since: float) -> bool:
        """Wait until output flows: some beats after ``since``, by any attempt; False if the driver ended first."""
        return self._wait(lambda: len(self.output_after(since)) >= _FLOWING_BEATS, "output")

    def wait_for_checkpoint(self, newer: int = -1) -> bool:
        """Wait until a checkpoint newer than the given one is complete; False if the driver ended first."""
        return self._wait(lambda: any(int(path.name[4:]) > newer for path in self.complete()), "a checkpoint")

    def output_after(self, since: float) -> list[float]:
        """Return when output came after a time, in order."""
        times = []
        for path in self.folder.glob("rates-*"):
            if path.stat().st_mtime >= since:
                lines = path.read_text().splitlines()
                times += [float(line.split()[0]) for line in lines if len(line.split()) == 2]
        return sorted(at for at in times if at > since)

    def timeline(self) -> list[tuple[float, float]]:
        """Return how many records came out per second, over the time since the begin (s)."""
        buckets: Counter[int] = Counter()
        width = 2 * BEAT_SECONDS
        for path in self.folder.glob("rates-*"):
            for line in path.read_text().splitlines():
                at, count = line.split()
                buckets[int((float(at) - self.begin) / width)] += int(count)
        return [(round(n * width, 3), buckets[n] / width) for n in range(max(buckets, default=-1) + 1)]

    def _wait(self, condition: Callable[[], bool], what: str) -> bool:
        deadline = time.time() + _LIMIT_SECONDS
        while time.time() < deadline:
            if condition():
                return True
            if self.over:
                return False
            time.sleep(0.01)
        raise SystemExit(f"no {what} within {_LIMIT_SECONDS:.0f} s; see {self.folder}")


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _state(pid: int) -> str:
    return (_stat(pid) or [""])[0]


def _parent(pid: int) -> int:
    found = _stat(pid)
    return int(found[1]) if found else 0


def _is_java(place: Path) -> bool:
    try:
        return b"java" in (place / "cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return False
