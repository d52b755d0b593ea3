"""What a system's process prints: a line of JSON per algorithm, with the seconds from the file to the fitted model.

Each algorithm has run on a few rows before, so the start of a session and of workers, and what they load, do not count.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from workload import few, write_answer

Program = Callable[[str], dict[str, Any]]


def measure(programs: dict[str, Program], algorithms: list[str], points: str, ratings: str, folder: str) -> None:
    """Run each of the algorithms, first on a few rows; write what was learned and print its seconds."""
    for name in algorithms:
        path = ratings if name == "als" else points
        programs[name](few(path))
        sys.stdin.readline()  # nothing else runs from here on
        began = time.perf_counter()
        learned = programs[name](path)
        seconds = time.perf_counter() - began
        write_answer(folder, name, **learned)
        sys.stdout.write(json.dumps({"algorithm": name, "seconds": round(seconds, 4)}) + "\n")
        sys.stdout.flush()
