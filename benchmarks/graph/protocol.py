"""What a system's process prints: a line of JSON per algorithm, with the seconds of the whole job.

That is from the file to the value of every vertex in the driver's memory. Each algorithm has run on a small graph before, so the
start of a session, of a JVM and of workers, and what they load, do not count.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from workload import small, write_answer


def measure(programs: dict[str, Callable[[str], Any]], algorithms: list[str], path: str, folder: str) -> None:
    """Run each of the algorithms, first on a small graph; write its answer and print its seconds."""
    for name in algorithms:
        programs[name](small(path))
        sys.stdin.readline()  # nothing else runs from here on
        began = time.perf_counter()
        found = programs[name](path)
        seconds = time.perf_counter() - began
        write_answer(folder, name, found)
        del found
        sys.stdout.write(json.dumps({"algorithm": name, "seconds": round(seconds, 4)}) + "\n")
        sys.stdout.flush()
