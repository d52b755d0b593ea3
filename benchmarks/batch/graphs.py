"""The graph of the benchmarks, the answers that are right, and the programs on it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from funken import MapFunction
from funken.dataset import DataSet, ExecutionEnvironment

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
    changes = (
        best.join(iteration.get_solution_set()).where(0).equal_to(0).using(_lower).with_forwarded_fields_first("*")
    )
    return iteration.close_with(changes, changes)


def bulk_components(env: ExecutionEnvironment, graph: Graph) -> DataSet:
    """Return (vertex, component) by a bulk iteration."""
    labels = env.generate_sequence(0, graph.vertices - 1).map(lambda vertex: (vertex, vertex))
    iteration = labels.iterate(1000)
    offers = iteration.join(_undirected(env, graph)).where(0).equal_to(0).using(lambda label, edge: (edge[1], label[1]))
    following = iteration.union(offers).group_by(0).min(1)
    changed = following.join(iteration).where(0).equal_to(0).using(_lower)
    return iteration.close_with(following, changed)


def page_rank_columns(env: ExecutionEnvironment, graph: Graph) -> DataSet:
    """Return (vertex, rank) after ``SUPERSTEPS`` supersteps, by functions that can be read: the records stay columns."""
    count = graph.vertices
    share, lost = 1 / count, 0.15 / count
    vertices = env.generate_sequence(0, count - 1).map(lambda vertex: (vertex, share))
    degrees = graph.edges(env).map(lambda edge: (edge[0], 1)).group_by(0).sum(1)
    links = graph.edges(env).join(degrees).where(0).equal_to(0)
    weighed = links.using(lambda edge, degree: (edge[0], edge[1], 1 / degree[1])).with_forwarded_fields_first("f0;f1")
    iteration = vertices.iterate(SUPERSTEPS)
    moved = iteration.join(weighed).where(0).equal_to(0).using(lambda rank, edge: (edge[1], rank[1] * edge[2]))
    kept = iteration.map(lambda rank: (rank[0], 0.0)).with_forwarded_fields("f0")
    following = moved.union(kept).group_by(0).sum(1).map(lambda found: (found[0], lost + 0.85 * found[1]))
    return iteration.close_with(following.with_forwarded_fields("f0"))
