"""Batch programs with iterations on Spark: PageRank, connected components (bulk and delta), an empty superstep, a killed worker.

usage: batch.py [--edges 1000000] [--parallelism 2] [--only pagerank,bulk,delta,empty,kill] [--target batch]; prints one JSON
line per measurement. The graph is an R-MAT graph, the same in every run; each answer is checked against NumPy or union-find. The
session is started before anything is measured; ``seconds`` is a whole job, with reading the graph and collecting the result.
``lost_seconds``: from the kill until the same superstep begins again, with the second that the restart strategy waits.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from funken import Configuration, MapFunction
from funken.dataset import DataSet, ExecutionEnvironment

ONLY = ("empty", "delta", "bulk", "pagerank", "kill")
SUPERSTEPS = 30
KILLED_IN = 12


def rmat(edges: int, seed: int = 1) -> tuple[int, np.ndarray, np.ndarray]:
    """Return the number of vertices, and sources and targets: about eight edges per vertex, no loops, no edge twice."""
    scale = max(1, (edges // 8).bit_length() - 1)
    chance = np.random.default_rng(seed)
    source, target = np.zeros(edges, np.int64), np.zeros(edges, np.int64)
    for _ in range(scale):
        quarter = np.searchsorted(np.array([0.57, 0.76, 0.95]), chance.random(edges), side="right")
        source, target = source * 2 + quarter // 2, target * 2 + quarter % 2
    pairs = np.unique(np.stack([source, target], axis=1)[source != target], axis=0)
    return 1 << scale, pairs[:, 0], pairs[:, 1]


class Graph:
    """The graph, as a Parquet file for the workers and in arrays for the checks."""

    def __init__(self, edges: int, folder: str) -> None:
        self.vertices, self.source, self.target = rmat(edges)
        self.path = f"{folder}/edges.parquet"
        table = pa.table({"source": self.source, "target": self.target})
        parquet.write_table(table, self.path, row_group_size=max(1, len(self.source) // 8))

    def edges(self, env: ExecutionEnvironment) -> DataSet:
        """Return the edges as pairs."""
        return env.read_parquet_file(self.path, ["source", "target"]).with_statistics(
            records=len(self.source), size=8.0 * len(self.source)
        )

    def ranks(self, supersteps: int) -> np.ndarray:
        """Return the ranks that PageRank has to give; the rank of a vertex without links is lost."""
        degree = np.maximum(np.bincount(self.source, minlength=self.vertices), 1)
        rank = np.full(self.vertices, 1 / self.vertices)
        for _ in range(supersteps):
            moved = np.bincount(self.target, (rank / degree)[self.source], self.vertices)
            rank = 0.15 / self.vertices + 0.85 * moved
        return rank

    def components(self) -> np.ndarray:
        """Return the least vertex of the component of each vertex."""
        parent = list(range(self.vertices))

        def root(vertex: int) -> int:
            while parent[vertex] != vertex:
                parent[vertex] = parent[parent[vertex]]
                vertex = parent[vertex]
            return vertex

        for source, target in zip(self.source.tolist(), self.target.tolist(), strict=True):
            one, other = root(source), root(target)
            parent[max(one, other)] = min(one, other)
        return np.array([root(vertex) for vertex in range(self.vertices)])


class Killed(MapFunction):
    """Returns what it gets; the first attempt loses a worker in a superstep.

    Files have the times of the kill, and of when the next attempt is at that superstep again.
    """

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def open(self, context: Any) -> None:
        """Kill this process, if it is the one."""
        last = context.get_index_of_this_subtask() == context.get_number_of_parallel_subtasks() - 1
        if last and context.get_superstep_number() == KILLED_IN:
            if not os.path.exists(self.marker):
                Path(self.marker).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            Path(f"{self.marker}.again").touch()

    def map(self, value: Any) -> Any:
        """Return it."""
        return value


def page_rank(env: ExecutionEnvironment, graph: Graph, marker: str = "") -> DataSet:
    """Return (vertex, rank) after ``SUPERSTEPS`` supersteps."""
    count = graph.vertices
    vertices = env.generate_sequence(0, count - 1).map(lambda vertex: (vertex, 1 / count))
    adjacency = vertices.co_group(graph.edges(env)).where(0).equal_to(0).using(_neighbours)
    iteration = vertices.iterate(SUPERSTEPS)
    moved = iteration.join(adjacency).where(0).equal_to(0).using(_moved).group_by(0).sum(1)
    following = moved.map(lambda found: (found[0], 0.15 / count + 0.85 * found[1])).with_forwarded_fields("f0")
    return iteration.close_with(following.map(Killed(marker)).with_forwarded_fields("*") if marker else following)


def _neighbours(vertices: Iterator[Any], edges: Iterator[Any]) -> Iterator[Any]:
    targets = [edge[1] for edge in edges]
    for vertex in vertices:
        yield vertex[0], targets


def _moved(rank: tuple[int, float], adjacency: tuple[int, list[int]]) -> Iterator[tuple[int, float]]:
    targets = adjacency[1]
    share = rank[1] / len(targets) if targets else 0.0
    yield rank[0], 0.0
    for target in targets:
        yield target, share


def _undirected(env: ExecutionEnvironment, graph: Graph) -> DataSet:
    return graph.edges(env).flat_map(lambda edge: (edge, (edge[1], edge[0])))


def _lower(offer: tuple[int, int], label: tuple[int, int]) -> Iterator[tuple[int, int]]:
    if offer[1] < label[1]:
        yield offer


def delta_components(env: ExecutionEnvironment, graph: Graph) -> DataSet:
    """Return (vertex, component) by a delta iteration."""
    labels = env.generate_sequence(0, graph.vertices - 1).map(lambda vertex: (vertex, vertex))
    iteration = labels.iterate_delta(labels, 1000, 0)
    offers = iteration.get_workset().join(_undirected(env, graph)).where(0).equal_to(0)
    best = offers.using(lambda label, edge: (edge[1], label[1])).group_by(0).min(1)
    changes = best.join(iteration.get_solution_set()).where(0).equal_to(0).using(_lower)
    return iteration.close_with(changes, changes)


def bulk_components(env: ExecutionEnvironment, graph: Graph) -> DataSet:
    """Return (vertex, component) by a bulk iteration."""
    labels = env.generate_sequence(0, graph.vertices - 1).map(lambda vertex: (vertex, vertex))
    iteration = labels.iterate(1000)
    offers = iteration.join(_undirected(env, graph)).where(0).equal_to(0).using(lambda label, edge: (edge[1], label[1]))
    following = iteration.union(offers).group_by(0).min(1)
    changed = following.join(iteration).where(0).equal_to(0).using(_lower)
    return iteration.close_with(following, changed)


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


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--only", default=",".join(ONLY))
    parser.add_argument("--target", default="batch", choices=["batch", "local"])
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    environment(arguments).from_elements(1).count()  # starts the session
    with tempfile.TemporaryDirectory() as folder:
        graph = Graph(arguments.edges, folder)
        size = {"vertices": graph.vertices, "edges": len(graph.source), "parallelism": arguments.parallelism}
        for name in chosen:
            if name == "empty":
                empty(arguments)
                continue
            options = {}
            if name == "kill":
                options = {"execution.checkpointing.interval": 1, "restart-strategy.type": "fixed-delay"}
            env = environment(arguments, **options)
            program = {
                "pagerank": page_rank,
                "bulk": bulk_components,
                "delta": delta_components,
                "kill": lambda env, graph: page_rank(env, graph, f"{folder}/killed"),
            }[name]
            seconds, found = measured(env, program(env, graph))
            if name in ("pagerank", "kill"):
                check(found, graph.ranks(SUPERSTEPS), 1e-12)
            else:
                check(found, graph.components())
            result = env.get_last_job_execution_result()
            ((_, supersteps, _, worksets),) = result.iterations
            more = {"worksets": worksets} if worksets else {}
            if name == "kill":
                killed, again = (os.stat(f"{folder}/killed{end}").st_mtime for end in ("", ".again"))
                more = {"restarts": result.restarts, "lost_seconds": round(again - killed, 2)}
            show(
                name, **size, seconds=round(seconds, 2), supersteps=supersteps,
                seconds_per_superstep=round(seconds / supersteps, 3), spilled=result.spilled_bytes, **more,
            )  # fmt: skip


if __name__ == "__main__":
    main()
