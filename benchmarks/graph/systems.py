"""The systems that are compared: how each is started, and how near its answers have to be.

Each runs all algorithms in a process of its own, a session apart, so that its memory can be told and everything it started ended.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workload import ITERATIONS, write_edges

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "compare"))

import environments  # noqa: E402 - a folder of scripts beside this one
import sessions  # noqa: E402

OPENS = ("java.lang", "java.lang.invoke", "java.io", "java.net", "java.nio", "java.util", "java.util.concurrent")
OPENS += ("java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.util.calendar", "sun.security.action")
HEAP = "6g"


@dataclass(frozen=True)
class System:
    """A system: ``command(arguments)`` with the path, the parallelism, the folder and the algorithms."""

    title: str
    command: Callable[[list[str]], list[str]]
    converged: bool = False  # its PageRank goes on until nothing changes
    most_edges: int = 1 << 62
    needs: str = "funken"

    def oracle_of(self, algorithm: str) -> str:
        """Return which right answer is meant."""
        return "pagerank-converged" if self.converged and algorithm == "pagerank" else algorithm

    def tolerance_of(self, algorithm: str) -> float:
        """Return how far off a value may be, relatively: sums of fractions differ in their last digits."""
        return (1e-6 if self.converged else 1e-9) if algorithm == "pagerank" else 0.0


def _script(name: str, first: str, environment: str = "funken") -> Callable[[list[str]], list[str]]:
    return lambda given: [str(environments.python(environment)), "-W", "ignore", str(HERE / name), first, *given]


def _classes(name: str, jars: str) -> Path:
    """Compile the class of a system, once."""
    source = HERE / "java" / f"{name}.java"
    classes = environments.ENVS / name.lower() / hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    if not classes.exists():
        command = ["javac", "-nowarn", "-d", str(classes), "-cp", jars, str(source)]
        done = subprocess.run(command, check=False, timeout=300, capture_output=True, text=True)
        if done.returncode:
            raise environments.CannotBuild(f"{name}: javac failed.\n{done.stderr[-2000:]}")
    return classes


def _java(name: str, heap: str, jars: str, given: list[str]) -> list[str]:
    path, parallelism, folder, *algorithms = given
    opens = [f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in OPENS]
    arguments = [path, parallelism, str(ITERATIONS), folder, *algorithms]
    return ["java", f"-Xmx{heap}", *opens, "-cp", f"{_classes(name, jars)}:{jars}", f"bench.{name}", *arguments]


def _graphx(given: list[str]) -> list[str]:
    import pyspark  # noqa: PLC0415

    return _java("OnGraphX", HEAP, f"{Path(pyspark.__file__).parent}/jars/*", given)


def _gelly(given: list[str]) -> list[str]:
    """Gelly reads the edges from a file of numbers, which is faster than Parquet; 2 GB of its 6 are managed memory."""
    for path in (given[0], f"{given[0]}.small"):
        write_edges(path)
    jar = environments.jars("gelly", lambda text: print(text, file=sys.stderr))
    flink = next((environments.ENVS / "flink-dataset").glob("lib/python*/site-packages/pyflink/lib"))
    return _java("OnGelly", "4g", f"{jar}/*:{flink}/*", given)


SYSTEMS = {
    "funken": System("Funken on Spark", _script("on_funken.py", "batch")),
    "funken-local": System("Funken, one process", _script("on_funken.py", "local")),
    "graphx": System("GraphX (JVM)", _graphx),
    "gelly": System("Gelly (JVM)", _gelly, needs="flink-dataset"),
    "frames": System("Spark DataFrames", _script("on_frames.py", "frames"), most_edges=1_000_000),
    "igraph": System(
        "igraph (C), one core", _script("on_igraph.py", "igraph", "igraph"), converged=True, needs="igraph"
    ),
    "networkx": System(
        "networkx, one core", _script("on_igraph.py", "networkx"), converged=True, most_edges=200_000, needs="funken"
    ),
}


def run(
    name: str, path: str, parallelism: int, folder: str, algorithms: list[str], seconds: float
) -> Iterator[dict[str, Any]]:
    """Run a system; give the seconds of each algorithm, then its memory."""
    system = SYSTEMS[name]
    environments.build(system.needs, lambda text: print(text, file=sys.stderr))
    command = system.command([path, str(parallelism), folder, *algorithms])
    yield from sessions.run(command, folder, len(algorithms), seconds)
