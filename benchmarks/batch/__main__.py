"""Batch programs on Spark: PageRank, connected components, an empty superstep, a killed worker, WordCount, TPC-H Q3 and Q10.

usage: benchmarks/batch [--edges 1000000] [--words 2000000] [--scale 1] [--parallelism 2] [--only NAMES] [--target batch]
[--seconds 300]; prints one JSON line per measurement, and keeps it in ``benchmarks/results/batch.json``, where a case that is
measured again replaces its figures (``--results ''`` keeps nothing). ``table.py`` makes a table of them, ``plot.py`` a picture.

Each case runs in a process and a Spark session of its own, for at most ``--seconds``: one that does not end costs its own
figure only. The graph is an R-MAT graph, the same in every run. Every answer is checked: against NumPy or union-find, a plain
count, or DuckDB. The session is started, and the program run on a small graph or text, before anything is measured;
``seconds`` is a whole job, with reading its files and collecting the result; ``memory`` the most bytes that the processes of
the case had, ``others`` the share of the cores that other programs used. ``lost_seconds``: from the kill until the same
superstep begins again, with the second that the restart strategy waits. Names that end in ``-rdd``, ``-frame`` and ``-udf``
are the same programs in PySpark; those that begin with ``flink-`` are Flink's own DataSet programs in Java (``flink.py``),
which need ``javac``.

GraphFrames is no peer here: Maven could not get its jar for Spark 4. Its PageRank is GraphX's: see ``make bench-graph``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import flink
import graphs
import numpy as np
import pyspark_programs
import tpch
import words
from graphs import SUPERSTEPS, Graph, bulk_components, delta_components, page_rank, page_rank_columns

from funken import Configuration
from funken.dataset import DataSet, ExecutionEnvironment

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "compare"))

import sessions  # noqa: E402 - a folder of scripts beside this one

RESULTS = HERE.parent / "results" / "batch.json"
SMALL = 2000
GRAPHS: dict[str, Callable[..., Any]] = {
    "delta": delta_components,
    "bulk": bulk_components,
    "pagerank": page_rank,
    "pagerank-columns": page_rank_columns,
}
ONLY = ("empty", *GRAPHS, "kill", "words", "words-rdd", *tpch.PROGRAMS)
MORE = ("pagerank-frame", "components-frame", "flink-pagerank", "flink-bulk", "flink-delta")


def environment(arguments: argparse.Namespace, **options: Any) -> ExecutionEnvironment:
    """Return an environment of the benchmark."""
    chosen = {"execution.target": arguments.target, "parallelism.default": arguments.parallelism}
    return ExecutionEnvironment.get_execution_environment(Configuration(chosen | options))


def show(what: str, **figures: Any) -> None:
    """Print a line."""
    sys.stdout.write(json.dumps({"benchmark": what} | figures) + "\n")
    sys.stdout.flush()


def measured(env: ExecutionEnvironment, data_set: DataSet) -> tuple[float, list[Any]]:
    """Return the seconds of a job, and its result in the order of its first field."""
    began = time.perf_counter()
    found = data_set.collect()
    return time.perf_counter() - began, sorted(found)


def check(found: list[Any], expected: np.ndarray, tolerance: float = 0.0) -> None:
    """Raise unless the answer is right."""
    assert [vertex for vertex, _ in found] == list(range(len(expected))), "vertices are missing"
    difference = np.abs(np.array([value for _, value in found]) - expected).max()
    assert difference <= tolerance, f"an answer is off by {difference}"


def empty(arguments: argparse.Namespace) -> None:
    """Measure supersteps that do nothing but exchange one record: the difference of two numbers of them."""
    seconds = []
    for count in (10, 210):
        env = environment(arguments)
        start = env.from_elements((0, 0)).iterate(count)
        step = start.partition_by_hash(0).map(lambda pair: (pair[0], pair[1] + 1))
        took, found = measured(env, start.close_with(step))
        assert found == [(0, count)], found
        seconds.append(took)
    show("empty superstep", ms=round((seconds[1] - seconds[0]) / 200 * 1000, 2), job_seconds=round(seconds[0], 2))


def on_graph(name: str, arguments: argparse.Namespace, graph: Graph, folder: str) -> None:
    """Measure a program on the graph."""
    size = {"vertices": graph.vertices, "edges": len(graph.source), "parallelism": arguments.parallelism}
    if name in MORE:
        run = flink.run if name.startswith("flink-") else pyspark_programs.run_graph
        seconds, found = run(name, graph, SUPERSTEPS, arguments.parallelism, folder)
        check(found, graph.ranks(SUPERSTEPS) if "pagerank" in name else graph.components(), 1e-12)
        show(name, **size, seconds=round(seconds, 2))
        return
    killing = {"execution.checkpointing.interval": "1 ms", "restart-strategy.type": "fixed-delay"}
    env = environment(arguments, **(killing if name == "kill" else {}))
    program = page_rank(env, graph, f"{folder}/killed") if name == "kill" else GRAPHS[name](env, graph)
    seconds, found = measured(env, program)
    check(found, *((graph.components(),) if name in ("delta", "bulk") else (graph.ranks(SUPERSTEPS), 1e-12)))
    result = env.get_last_job_execution_result()
    ((_, supersteps, _, worksets),) = result.iterations
    (shown,) = result.progress.iterations
    more: dict[str, Any] = {"superstep_ms": [round(each.seconds * 1000, 1) for each in shown.supersteps]}
    if worksets:
        more["worksets"] = worksets
    if name == "kill":
        # The supersteps before the checkpoint are those of the first attempt.
        killed, again = (os.stat(f"{folder}/killed{end}").st_mtime for end in ("", ".again"))
        more |= {"restarts": result.restarts, "lost_seconds": round(again - killed, 2)}
    show(
        name, **size, seconds=round(seconds, 2), supersteps=supersteps,
        seconds_per_superstep=round(seconds / supersteps, 3), spilled=result.spilled_bytes, **more,
    )  # fmt: skip


def warm(name: str, arguments: argparse.Namespace, folder: str) -> None:
    """Start the session and the workers, and let them load what the case needs."""
    if not name.startswith("flink-"):
        environment(arguments).from_elements(1).count()
    if name in GRAPHS or name.endswith("-frame"):
        small = graphs.Graph(SMALL, folder)
        if name in GRAPHS:
            measured(environment(arguments), GRAPHS[name](environment(arguments), small))
        else:
            pyspark_programs.run_graph(name, small, 2, arguments.parallelism, folder)
    if name.startswith("words"):
        few = argparse.Namespace(**vars(arguments) | {"words": SMALL})
        words.run(name, few, environment, lambda *_, **figures: None, folder)


def case(name: str, arguments: argparse.Namespace, folder: str) -> None:
    """Run one case in this process."""
    with tempfile.TemporaryDirectory() as own:
        warm(name, arguments, own)
    if name == "empty":
        empty(arguments)
    elif name.startswith("words"):
        words.run(name, arguments, environment, show, folder)
    elif name in tpch.PROGRAMS:
        tpch.run(name, arguments, environment, show, folder)
    else:
        on_graph(name, arguments, graphs.Graph(arguments.edges, folder), folder)


def keep(figures: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Print the figures of a case, and put them into the file of results."""
    show(figures.pop("benchmark"), **figures)
    if not arguments.results:
        return
    file = Path(arguments.results)
    document = json.loads(file.read_text()) if file.exists() else {"cases": {}}
    document["machine"] = f"{platform.machine()}, {os.cpu_count()} cores"
    describe = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(describe, capture_output=True, text=True, check=False, timeout=20).stdout.strip()
    named = f"{arguments.case}, local" if arguments.target == "local" else arguments.case
    document["cases"][named] = figures | {"commit": commit, "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    file.write_text(json.dumps(document, indent=1) + "\n")


def measure(name: str, arguments: argparse.Namespace, folder: str) -> bool:
    """Run a case in a process of its own; return whether it gave its figures."""
    given = ["edges", "words", "scale", "parallelism", "target"]
    options = [part for option in given for part in (f"--{option}", str(getattr(arguments, option)))]
    command = [sys.executable, "-W", "ignore", str(HERE), *options, "--folder", folder, "--case", name]
    arguments.case = name
    lines: list[dict[str, Any]] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as own:
        try:
            lines += sessions.run(command, own, 1, arguments.seconds)
        except sessions.SystemFailed as error:
            took = time.monotonic() - began
            why = f"not ended after {arguments.seconds:g} s" if took >= arguments.seconds else str(error)[-1500:]
            keep({"benchmark": name, "failed": why}, arguments)
            return False
    keep({key: value for line in lines for key, value in line.items()}, arguments)
    return True


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--words", type=int, default=2_000_000)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--only", default=",".join(ONLY + MORE))
    parser.add_argument("--target", default="batch", choices=["batch", "local"])
    parser.add_argument("--seconds", type=float, default=300, help="the most that a case may take, with its start")
    parser.add_argument("--results", default=str(RESULTS))
    parser.add_argument(
        "--folder", default="", help="where files are that several cases read; a new one, if none is given"
    )
    parser.add_argument("--case", default="", help="run this case in this process")
    arguments = parser.parse_args()
    if arguments.case:
        case(arguments.case, arguments, arguments.folder)
        return
    chosen = arguments.only.split(",")
    if unknown := set(chosen) - {*ONLY, *MORE}:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(ONLY + MORE)}")
    with tempfile.TemporaryDirectory() as folder:
        ended = [measure(name, arguments, arguments.folder or folder) for name in chosen]
    sys.exit(not all(ended))


if __name__ == "__main__":
    main()
