"""Measures systems case by case: a bound for each, and the figures are written as soon as they are known.

A system has a process of its own for as many algorithms as it answers. One that is late, ends early or answers wrong loses this
algorithm only: the others run in another process. The document of a bench has an entry per size, of figures per system.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import environments
import sessions

RESULTS = Path(__file__).parent.parent / "results"
PICTURES = RESULTS.parent.parent / "docs" / "guide" / "images"
BARS = Path(__file__).parent / "bars.py"
CONDITIONS = ("parallelism", "machine", "seconds_at_most")


def add_arguments(parser: ArgumentParser, seconds: float) -> None:
    """Add what all benches ask."""
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--parallelism", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--systems", default="")
    parser.add_argument("--algorithms", default="")
    parser.add_argument(
        "--seconds", type=float, default=seconds, help="the most that an algorithm of a system may take"
    )
    parser.add_argument("--results", default=str(RESULTS))
    parser.add_argument("--folder", default="", help="where the data stay for other calls; by default they are removed")
    parser.add_argument("--prepare", action="store_true", help="make the data in --folder, and measure nothing")


def folder_of(arguments: Namespace, own: str, size: int) -> Path:
    """Return the folder of the data of a size: one of ``--folder``, or ``own``."""
    folder = Path(arguments.folder, str(size)) if arguments.folder else Path(own)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def commit() -> str:
    """Return the commit that is measured."""
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20).stdout.strip()


class Document:
    """The figures of a bench, in a file: those of a size and a system are replaced algorithm by algorithm.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> document = Document(Path(folder.name, "graph.json"), 1000, {"parallelism": 2})
    >>> document.put("funken", "sssp", seconds=1.5)
    >>> document.put("funken", "sssp", failed="no answer within 600 s")
    >>> {name: document.figures("funken")[name] for name in ("seconds", "failed")}
    {'seconds': {}, 'failed': {'sssp': 'no answer within 600 s'}}
    >>> folder.cleanup()
    """

    def __init__(self, file: Path, size: int, conditions: dict[str, Any]) -> None:
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        self._document = json.loads(file.read_text()) if file.exists() else {}
        self._entry = self._document.setdefault(str(size), {"systems": {}})
        self._entry |= conditions

    def figures(self, system: str) -> dict[str, Any]:
        """Return what is known of a system."""
        found: dict[str, Any] = self._entry["systems"].setdefault(system, {"seconds": {}})
        return found

    def put(self, system: str, algorithm: str, **found: Any) -> None:
        """Take the figures of an algorithm, each in a table of its own, and write the file."""
        known = self.figures(system)
        for table in ("seconds", "failed", *found):
            if not isinstance(known.get(table), dict):  # a figure of all algorithms together, of an older bench
                known[table] = {}
            known[table].pop(algorithm, None)
        for table, value in found.items():
            known[table][algorithm] = value
        known |= {"commit": commit(), "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
        self.file.write_text(json.dumps(self._document, indent=1) + "\n")


Line = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """What is measured.

    ``start(system, folder, algorithms, seconds)`` gives the lines of a process. ``judge(system, folder, line)`` says how good an
    answer is, in words and as figures by name, or raises ``sessions.WrongAnswer``. ``titles`` are the names of the systems.
    """

    titles: dict[str, str]
    start: Callable[[str, str, Sequence[str], float], Iterator[Line]]
    judge: Callable[[str, str, Line], tuple[str, dict[str, Any]]]

    def measure(self, system: str, algorithms: Sequence[str], arguments: Namespace, document: Document) -> bool:
        """Measure a system; return whether all its algorithms gave right answers in time."""
        left = list(algorithms) * arguments.rounds
        seconds: dict[str, list[float]] = {}
        failed: set[str] = set()
        while left := [each for each in left if each not in failed]:
            with tempfile.TemporaryDirectory() as folder:
                waiting = list(dict.fromkeys(left))
                try:
                    for line in self.start(system, folder, tuple(waiting), arguments.seconds):
                        self._judged(system, folder, line, seconds, document)
                        waiting.remove(line["algorithm"])
                        left.remove(line["algorithm"])
                except (sessions.WrongAnswer, sessions.SystemFailed, environments.CannotBuild) as error:
                    failed.add(waiting[0])
                    document.put(system, waiting[0], failed=str(error).splitlines()[0])
                    print(f"  {self.titles[system]:24} {waiting[0]:12} failed: {error}", file=sys.stderr, flush=True)
        return not failed

    def _judged(
        self, system: str, folder: str, line: Line, seconds: dict[str, list[float]], document: Document
    ) -> None:
        said, figures = self.judge(system, folder, line)
        algorithm, took, memory, others = (line[name] for name in ("algorithm", "seconds", "memory", "others"))
        seconds.setdefault(algorithm, []).append(took)
        figures |= {"seconds": round(statistics.median(seconds[algorithm]), 3), "rounds": len(seconds[algorithm])}
        document.put(system, algorithm, memory=memory, others=others, **figures)
        text = f"{took:8.2f} s, {said}, {memory / 1e9:.2f} GB; other programs had {others:.0%} of the cores"
        print(f"  {self.titles[system]:24} {algorithm:12} {text}", flush=True)


def conditions(arguments: Namespace) -> dict[str, Any]:
    """Return under which conditions a size is measured."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    return dict(zip(CONDITIONS, (arguments.parallelism, machine, arguments.seconds), strict=True))


def draw(file: Path, unit: str, results: str) -> None:
    """Draw the bars of a document beside it; if it is that of the repository, for the guide too."""
    environments.build("plots", print)
    folders = [results, *([str(PICTURES)] if Path(results) == RESULTS else [])]
    subprocess.run([environments.python("plots"), BARS, file, unit, *folders], check=True, timeout=300)
