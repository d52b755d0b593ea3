"""What the threads of a session use: CPU time and switches, by the kind of thread. Linux only."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from processes import members


class Use(NamedTuple):
    """Seconds of CPU, and how often a thread gave its core up, or lost it."""

    cpu: float
    switches: int


def threads_of(leader: int) -> dict[tuple[str, Path], Use]:
    """Return what every thread of a session has used: by its kind and its folder in ``/proc``."""
    found = {}
    for pid, _ in members(leader):
        process = Path("/proc", str(pid))
        for thread in process.glob("task/*"):
            try:
                kind = _kind(process, thread)
                ran = int(thread.joinpath("schedstat").read_text().split()[0])
                switches = re.findall(r"ctxt_switches:\s*(\d+)", thread.joinpath("status").read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue
            found[kind, thread] = Use(ran / 1e9, sum(map(int, switches)))
    return found


def _kind(process: Path, thread: Path) -> str:
    name = re.sub(r"[0-9#]+", "", thread.joinpath("comm").read_text().strip()) or "unnamed"
    command = process.joinpath("cmdline").read_text()
    if "java" in command.partition("\0")[0]:
        return f"JVM {name}"
    which = "worker" if ".daemon" in command else "driver"
    return f"Python {which}, {'main' if thread.name == process.name else 'other'}"


def used_between(before: dict[tuple[str, Path], Use], after: dict[tuple[str, Path], Use]) -> dict[str, Use]:
    """Return what each kind of thread has used between two looks."""
    cpu: Counter[str] = Counter()
    switches: Counter[str] = Counter()
    for key, use in after.items():
        begin = before.get(key, Use(0.0, 0))
        cpu[key[0]] += use.cpu - begin.cpu
        switches[key[0]] += use.switches - begin.switches
    return {kind: Use(seconds, switches[kind]) for kind, seconds in cpu.items()}
