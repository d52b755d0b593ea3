"""Linux's scheduling policy of threads that process records: a worker's, its daemon's, and the executor's JVM.

On its way a block wakes some ten threads. Each may take the core from the thread that woke it, which then waits with its caches
gone; under ``SCHED_BATCH`` it waits until that thread pauses (docs/decisions/0048). The policy needs no rights, and changes no
priority. Where there is none, or a container forbids it, all stays as it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
_ABOVE = 3
"""The JVM starts the daemon, which forks workers: it is at most so many processes above."""
_RESET_ON_FORK = 0x40000000


def schedule(policy: str, proc: Path = _PROC) -> None:
    """Set the policy ``batch`` or ``normal`` of the threads; those that have another than these two keep it.

    Threads to come have that of the thread which starts them.
    """
    if sys.platform != "linux":
        return
    wanted = os.SCHED_BATCH if policy == "batch" else os.SCHED_OTHER
    for process in _processes(proc):
        for thread in _threads(proc, process):
            try:
                now = os.sched_getscheduler(thread) & ~_RESET_ON_FORK
                if now != wanted and now in {os.SCHED_BATCH, os.SCHED_OTHER}:
                    os.sched_setscheduler(thread, wanted, os.sched_param(0))
            except ProcessLookupError:  # it has ended
                continue
            except OSError:  # not allowed here, for any
                return


def _processes(proc: Path) -> list[int]:
    """Return this process and those above it up to Spark's JVM; this one alone if there is no JVM."""
    found = [os.getpid()]
    above = os.getppid()
    for _ in range(_ABOVE):
        try:
            # The name may have any characters, in parentheses; behind it are the state and the parent.
            name, _, rest = (proc / str(above) / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            break
        found.append(above)
        if name == "java":
            return found
        above = int(rest.split()[1])
    return found[:1]


def _threads(proc: Path, process: int) -> Iterator[int]:
    try:
        names = os.listdir(proc / str(process) / "task")
    except OSError:
        return
    yield from map(int, names)
