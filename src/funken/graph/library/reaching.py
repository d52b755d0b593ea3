"""What can be reached from where: components, shortest paths, levels."""

from __future__ import annotations

from typing import Any

from funken.dataset import DataSet
from funken.graph.core import GraphBase


class ConnectedComponents:
    """Gives ``(id, component)``: the least vertex value of the weakly connected component.

    After ``max_iterations`` a value has travelled so many edges; edges are used both ways.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (3, 2, None), (5, 4, None)], lambda id: id)
    >>> sorted(graph.run(ConnectedComponents(10)).collect())
    [(1, 1), (2, 1), (3, 1), (4, 4), (5, 4)]
    """

    def __init__(self, max_iterations: int) -> None:
        from funken.graph.columns.supersteps import check_iterations

        check_iterations(max_iterations, type(self).__name__)
        self._iterations = max_iterations

    def run(self, graph: GraphBase) -> DataSet:
        """Return the components."""
        from funken.graph.columns.propagation import LeastValue
        from funken.graph.columns.supersteps import run_program

        return run_program(graph, LeastValue(), self._iterations + 1, "connected components")


class SingleSourceShortestPaths:
    """Gives ``(id, distance)`` from a source, where edge values are lengths; infinite where there is no way.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [("a", "b", 5), ("b", "c", 1), ("a", "c", 9), ("d", "a", 1)])
    >>> sorted(graph.run(SingleSourceShortestPaths("a", 10)).collect())
    [('a', 0.0), ('b', 5.0), ('c', 6.0), ('d', inf)]
    """

    def __init__(self, source: Any, max_iterations: int) -> None:
        from funken.graph.columns.supersteps import check_iterations

        check_iterations(max_iterations, type(self).__name__)
        self._source, self._iterations = source, max_iterations

    def run(self, graph: GraphBase) -> DataSet:
        """Return the distances."""
        from funken.graph.columns.propagation import Distance
        from funken.graph.columns.supersteps import run_program

        return run_program(graph, Distance(self._source), self._iterations + 1, "shortest paths")


class BreadthFirstSearch(SingleSourceShortestPaths):
    """Gives ``(id, level)``: the least number of edges from a source, for the vertices that can be reached.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (2, 3, None), (1, 3, None), (4, 1, None)])
    >>> sorted(graph.run(BreadthFirstSearch(1, 10)).collect())
    [(1, 0), (2, 1), (3, 1)]
    """

    def run(self, graph: GraphBase) -> DataSet:
        """Return the levels."""
        from funken.graph.columns.propagation import Level
        from funken.graph.columns.supersteps import run_program

        return run_program(graph, Level(self._source), self._iterations + 1, "breadth-first search")
