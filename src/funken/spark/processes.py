"""Killing the worker processes of this machine, and Spark's daemon that forks them if it is stopped too.

A stopped process receives no signal but SIGKILL. Spark waits a minute for a daemon that does not answer before it starts
another one; for one that is gone it does so at once. What is stopped is read from ``/proc``: where there is none, only the
worker is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

_STOPPED = "T"
_DAEMONS = ("pyspark.daemon", "funken.spark.daemon")


def kill_worker(pid: int) -> None:
    """Kill a worker, and the daemon that it comes from if that is stopped."""
    parent = _parent(pid)
    _kill(pid)
    if parent is not None and _state(parent) == _STOPPED and any(name in _command(parent) for name in _DAEMONS):
        _kill(parent)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _stat(pid: int) -> list[str]:
    """Return the fields of the process behind its name: its state, its parent, and others."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return []


def _state(pid: int) -> str:
    return "".join(_stat(pid)[:1])


def _parent(pid: int) -> int | None:
    stat = _stat(pid)
    return int(stat[1]) if stat else None


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""
