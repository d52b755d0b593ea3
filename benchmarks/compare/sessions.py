"""Runs a system's script in a session of its own: lines of JSON as it prints them, its memory, and nothing left of it."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import processes


class SystemFailed(Exception):
    """A system ended without all its answers."""


def proportional(pid: int) -> int:
    """Return the bytes of a process; what processes share, each has a share of."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def run(command: list[str], folder: str, answers: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Give each line of JSON that the command prints, and then ``memory`` and ``others``.

    These are the most bytes that the session had, and the share of all cores that everything else on the machine used.

    Raises ``SystemFailed`` if there are fewer than ``answers``, or after ``seconds``.
    """
    output, errors = Path(folder, "output"), Path(folder, "errors")
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with output.open("w") as to, errors.open("w") as wrong:
        started = subprocess.Popen(command, stdout=to, stderr=wrong, start_new_session=True, env=environment)
    found, most, limit = 0, 0, time.monotonic() + seconds
    others = processes.Others(started.pid)
    try:
        over = False
        while not over:
            over = started.poll() is not None or time.monotonic() > limit  # a JVM may hold the output for longer
            others.sample()
            most = max(most, sum(proportional(pid) for pid, _ in processes.members(started.pid)))
            written = [line for line in output.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
            yield from map(json.loads, written[found:])
            found = len(written)
            time.sleep(0 if over else 0.5)
    finally:
        processes.end_session(started.pid)
        started.wait(60)
    yield {"memory": most, "others": round(others.share(), 2)}
    if found < answers:
        raise SystemFailed(f"{command[-1]}: {found} of {answers} answers.\n{errors.read_text()[-2000:]}")


def chosen(text: str, known: Any, what: str, parser: argparse.ArgumentParser) -> list[str]:
    """Return the names that were given, or all."""
    names = [name for name in text.split(",") if name] or list(known)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"there is no {what} {unknown[0]!r}; there are {', '.join(known)}")
    return names
