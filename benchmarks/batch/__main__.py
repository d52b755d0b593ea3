"""Batch programs on Spark: PageRank, connected components, an empty superstep, a killed worker, WordCount, TPC-H Q3 and Q10.

usage: benchmarks/batch [--edges 1000000] [--words 2000000] [--scale 1] [--parallelism 2] [--only NAMES] [--target batch]; prints
one JSON line per measurement. The graph is an R-MAT graph, the same in every run. Every answer is checked: against NumPy or
union-find, a plain count, or DuckDB. The session is started before anything is measured; ``seconds`` is a whole job, with reading
its files and collecting the result. ``lost_seconds``: from the kill until the same superstep begins again, with the second that
the restart strategy waits. Names that end in ``-rdd``, ``-frame`` and ``-udf`` are the same programs in PySpark; those that begin
with ``flink-`` are Flink's own DataSet programs in Java (``flink.py``), which need ``javac``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
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
    killing = {"execution.checkpointing.interval": 1, "restart-strategy.type": "fixed-delay"}
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


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--words", type=int, default=2_000_000)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--only", default=",".join(ONLY + MORE))
    parser.add_argument("--target", default="batch", choices=["batch", "local"])
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    if unknown := set(chosen) - {*ONLY, *MORE}:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(ONLY + MORE)}")
    environment(arguments).from_elements(1).count()  # starts the session
    with tempfile.TemporaryDirectory() as folder:
        graph: Graph | None = None
        for name in chosen:
            if name == "empty":
                empty(arguments)
            elif name.startswith("words"):
                words.run(name, arguments, environment, show, folder)
            elif name in tpch.PROGRAMS:
                tpch.run(name, arguments, environment, show, folder)
            else:
                graph = graph or graphs.Graph(arguments.edges, folder)
                on_graph(name, arguments, graph, folder)


if __name__ == "__main__":
    main()
