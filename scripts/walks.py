"""Count the files that a record, a block of columns, a watermark, a barrier and a lambda go through.

python scripts/walks.py [--files]

A small job runs here under a profiler, which notes the file of each of Funken's functions that is called: for records and
columns below the turns of tasks, for watermarks and barriers below a function that has one of them in its name, for lambdas while
the plan is made. So figures of two versions can be compared; ``--files`` names the files.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from inspect import CO_OPTIMIZED
from pathlib import Path
from typing import Any

import funken
from funken import (
    Configuration,
    DataGeneratorSource,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)

ROOT = str(Path(funken.__file__).parent) + "/"


class Walk:
    """The files in which functions ran, all of them or those below functions of some names."""

    def __init__(self, below: tuple[str, ...] = ()) -> None:
        self.files: set[str] = set()
        self._below = below
        self._depth = 0

    def __call__(self, frame: Any, event: str, _: Any) -> None:
        """Note a call; Python's profiler calls this."""
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(ROOT) or not code.co_flags & CO_OPTIMIZED:
            return
        if self._below and not set(code.co_name.split("_")).isdisjoint(self._below):
            self._depth += 1 if event == "call" else -1
        if event == "call" and (self._depth > 0 or not self._below):
            self.files.add(code.co_filename[len(ROOT) :])


def job(opaque: bool, checkpoints: str | None = None) -> StreamExecutionEnvironment:
    """Return a job: sums by key in windows; ``opaque`` functions cannot be read."""
    options: dict[str, Any] = {"execution.target": "local"}
    if checkpoints:
        options |= {"execution.checkpointing.interval": "50 ms", "execution.checkpointing.dir": f"file://{checkpoints}"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(options))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[1])
    source = DataGeneratorSource(lambda number: (number % 5, number), 20_000)
    add: Callable[[Any, Any], Any] = lambda one, other: (one[0], one[1] + other[1])  # noqa: E731
    double: Callable[[Any], Any] = lambda pair: (pair[0], pair[1] * 2)  # noqa: E731
    if opaque:
        double, add = _hidden(double), _hidden(add)
    pairs = env.from_source(source, strategy, "pairs")
    stream = pairs.map(double).key_by(lambda pair: pair[0])
    stream.window(TumblingEventTimeWindows.of(1000)).reduce(add).for_each(lambda pair: None)
    return env


def _hidden(function: Callable[..., Any]) -> Callable[..., Any]:
    class Hidden:
        def __call__(self, *arguments: Any) -> Any:
            return vars(self).get("other", function)(*arguments)

    return Hidden()


WALKS: dict[str, tuple[tuple[str, ...], bool]] = {
    "records": (("turn",), True), "columns": (("turn",), False), "watermark": (("watermark",), True),
    "barrier": (("barrier",), True), "lambda": ((), False),
}  # fmt: skip
"""Below which functions files are counted, and whether the functions of the job are opaque."""
RUNS = 3


def walk(name: str) -> set[str]:
    """Run a job under the profiler, and return the files."""
    below, opaque = WALKS[name]
    with tempfile.TemporaryDirectory() as folder:
        env = job(opaque, folder if name == "barrier" else None)
        noted = Walk(below)
        sys.setprofile(noted)
        try:
            env.explain() if name == "lambda" else env.execute()
        finally:
            sys.setprofile(None)
    return noted.files


def main() -> None:
    """Print a line per walk, each made by a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="name the files")
    given = parser.parse_args()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        for name in WALKS:
            files = set.intersection(*pool.map(walk, [name] * RUNS))
            print(f"{name:10} {len(files):4} files")
            if given.files:
                print("   " + "\n   ".join(sorted(files)))


if __name__ == "__main__":
    main()
