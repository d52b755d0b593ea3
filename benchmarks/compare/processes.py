"""The processes of a run, which are a session of their own: ending them all, and telling them from everything else.

Reads ``/proc``; elsewhere than on Linux only the leader is ended, and nothing is known of others.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def members(leader: int) -> Iterator[tuple[int, float]]:
    """Give the living processes of a session, with the seconds of CPU that each has used."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # pid (name) state ppid pgrp session ...; the name may hold anything, so from its end on
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            yield int(path.parent.name), (int(fields[11]) + int(fields[12])) / TICKS


def end_session(leader: int) -> None:
    """End every process of a session that this process started: JVMs and workers do not all end with their parent."""
    if not Path("/proc").exists():
        os.kill(leader, signal.SIGKILL)
    for _ in range(20):
        left = [pid for pid, _ in members(leader)]
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if not left:
            return
        time.sleep(0.1)


def proportional(pid: int) -> int:
    """Return the bytes of a process; what processes share, each has a share of."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def memory_of(leader: int) -> int:
    """Return the bytes of all processes of a session."""
    return sum(proportional(pid) for pid, _ in members(leader))


def used_by(process: int) -> float:
    """Return the seconds of CPU that a process has used."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


class Others:
    """What everything else on the machine used of the cores while a session ran; ``server`` is a process that it works with.

    ``memory`` is the most bytes that the session was seen to have, once in ``LOOK`` samples: a look takes milliseconds.
    """

    LOOK = 4

    def __init__(self, leader: int, server: int | None = None) -> None:
        self._leader, self._server = leader, server
        self._served = self._served_before = used_by(server) if server else 0.0
        self._used: dict[int, float] = {}
        self._begin = self._end = self._machine()
        self._samples = self.memory = 0

    @staticmethod
    def _machine() -> tuple[float, float]:
        """Return the seconds since the start of the machine, of all cores together, and how many of them were busy."""
        path = Path("/proc/stat")
        if not path.exists():
            return time.monotonic(), 0.0
        times = [int(field) / TICKS for field in path.read_text().splitlines()[0].split()[1:9]]
        return sum(times), sum(times) - times[3] - times[4]  # idle, and waiting for a disk

    def sample(self) -> None:
        """Take note of what was used so far; what a process uses after the last sample before its end counts as others'."""
        self._used.update(members(self._leader))
        self._samples += 1
        if self._samples % self.LOOK == 0:
            self.memory = max(self.memory, memory_of(self._leader))
        self._served = used_by(self._server) if self._server else 0.0
        self._end = self._machine()

    @property
    def used(self) -> float:
        """Return the seconds of CPU that the session has used, up to the last sample."""
        return sum(self._used.values())

    def share(self) -> float:
        """Return the share of all cores that others used, from 0 to 1, up to the last sample."""
        passed, busy = (end - begin for begin, end in zip(self._begin, self._end, strict=True))
        return max(0.0, busy - self.used - (self._served - self._served_before)) / passed if passed else 0.0
