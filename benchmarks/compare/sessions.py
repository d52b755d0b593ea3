"""Runs a system's script in a session of its own: lines of JSON as it prints them, its memory, and nothing left of it."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import processes


class WrongAnswer(Exception):
    """What a system has found is not right, or not good enough; its time is worth nothing."""


class SystemFailed(Exception):
    """A system ended without all its answers."""


def run(
    command: list[str], folder: str, answers: int, seconds: float, server: int | None = None
) -> Iterator[dict[str, Any]]:
    """Give each line of JSON that the command prints, with ``memory``, ``others``, ``cpu``, and end it after so many ``answers``.

    These are the most bytes that the session has had since the line before, the share of all cores that everything else on the
    machine has used since the start, and the seconds of CPU that the session has; a ``server`` that it reads from counts for
    neither. The command gets a line of input before each
    answer: the next one only when this one has been dealt with, so that nothing else runs while an answer is looked at.

    Raises ``SystemFailed`` if it ends with fewer answers, or gives none for ``seconds``.
    """
    output, errors = Path(folder, "output"), Path(folder, "errors")
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with output.open("w") as to, errors.open("w") as wrong:
        started = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=to, stderr=wrong, start_new_session=True, env=environment
        )
    others = processes.Others(started.pid, server)
    try:
        found, most = 0, 0
        begun = _next(started)
        while found < answers:
            ended = started.poll() is not None
            others.sample()
            most = max(most, processes.memory_of(started.pid))
            written = [line for line in output.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
            for line in written[found:]:
                yield json.loads(line) | {
                    "memory": most,
                    "others": round(others.share(), 2),
                    "cpu": round(others.used, 2),
                }
                found, most, begun = found + 1, 0, _next(started)
            late = time.monotonic() > begun + seconds
            if found < answers and (ended or late):
                why = f"no answer within {seconds:g} s" if late else f"{found} of {answers} answers"
                said = errors.read_text()[-2000:]
                raise SystemFailed(": ".join([why, *said.splitlines()[-1:]]) + f"\n{said}")
            time.sleep(0.2)
    finally:
        processes.end_session(started.pid)
        started.wait(60)
        with contextlib.suppress(BrokenPipeError):
            started.stdin.close()  # type: ignore[union-attr]


def _next(started: subprocess.Popen[bytes]) -> float:
    """Ask for the next answer; return the time."""
    assert started.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended
        started.stdin.write(b"\n")
        started.stdin.flush()
    return time.monotonic()


def chosen(text: str, known: Any, what: str, parser: argparse.ArgumentParser) -> list[str]:
    """Return the names that were given, or all."""
    names = [name for name in text.split(",") if name] or list(known)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"there is no {what} {unknown[0]!r}; there are {', '.join(known)}")
    return names
