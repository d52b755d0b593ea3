"""Funken's library of algorithms: on Spark (``batch``), or in one process (``local``)."""

from __future__ import annotations

import sys
from typing import Any

from protocol import measure
from workload import ITERATIONS

from funken import Configuration
from funken.dataset import ExecutionEnvironment
from funken.graph import ConnectedComponents, Graph, PageRank, SingleSourceShortestPaths, TriangleCount

MANAGED = "2g"
"""Of each of the tasks; each of the other systems has 6 GB, which is all of its tasks."""


def main(target: str, path: str, parallelism: int, folder: str, algorithms: list[str]) -> None:
    """Run the algorithms."""
    options = {"execution.target": target, "parallelism.default": parallelism, "execution.memory.managed": MANAGED}
    configuration = Configuration(options)

    def environment() -> ExecutionEnvironment:
        return ExecutionEnvironment.get_execution_environment(configuration)

    def graph(path: str, **options: Any) -> Graph:
        return Graph.from_parquet(environment(), path, **options)

    programs = {
        "pagerank": lambda path: graph(path).run(PageRank(0.85, ITERATIONS)).collect(),
        "components": lambda path: graph(path, vertices=int).run(ConnectedComponents(1000)).collect(),
        "sssp": lambda path: graph(path, value="weight").run(SingleSourceShortestPaths(0, 1000)).collect(),
        "triangles": lambda path: [(0, graph(path).run(TriangleCount()).execute())],
    }
    measure(programs, algorithms, path, folder)


if __name__ == "__main__":
    target, path, parallelism, folder, *algorithms = sys.argv[1:]
    main(target, path, int(parallelism), folder, algorithms)
