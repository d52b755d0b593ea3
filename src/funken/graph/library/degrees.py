"""Degrees of vertices, also beside the edges, as the input of other algorithms; and a graph without its hubs.

Repeated edges count once: the degree is the number of neighbours. An edge of a vertex with itself counts as a neighbour.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from funken.dataset import DataSet
from funken.errors import InvalidProgram
from funken.graph.core import GraphBase


class Degrees(NamedTuple):
    """How many neighbours a vertex has, and to how many of them, and from how many, an edge leads.

    >>> Degrees(degree=2, out_degree=2, in_degree=1).degree
    2
    """

    degree: int
    out_degree: int
    in_degree: int


class VertexDegrees:
    """Gives ``(id, Degrees)``; vertices without edges are left out unless ``include_zero_degree_vertices``.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (2, 1, None), (1, 3, None)])
    >>> sorted(graph.run(VertexDegrees()).collect())[0]
    (1, Degrees(degree=2, out_degree=2, in_degree=1))
    """

    def __init__(self, include_zero_degree_vertices: bool = False) -> None:
        self._all = include_zero_degree_vertices

    def run(self, graph: GraphBase) -> DataSet:
        """Return the degrees."""
        ways = graph.get_edges().flat_map(_ways).group_by("f0").reduce(_either)
        counts = ways.map(_counted)
        if self._all:
            counts = counts.union(graph.get_vertices().map(lambda vertex: (vertex[0], 0, 0, 0)))
        return counts.group_by(0).reduce(_added).map(lambda found: (found[0], Degrees(*found[1:])))


class EdgeSourceDegrees:
    """Gives ``(source, target, (value, degrees of the source))`` for each edge.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, "a"), (1, 3, "b")])
    >>> sorted(graph.run(EdgeSourceDegrees()).collect())[0]
    (1, 2, ('a', Degrees(degree=2, out_degree=2, in_degree=0)))
    """

    def run(self, graph: GraphBase) -> DataSet:
        """Return the edges."""
        return _beside(graph.get_edges().map(_in_tuple), VertexDegrees().run(graph), 0)


class EdgeTargetDegrees:
    """Gives ``(source, target, (value, degrees of the target))`` for each edge.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, "a"), (1, 3, "b")])
    >>> sorted(graph.run(EdgeTargetDegrees()).collect())[0]
    (1, 2, ('a', Degrees(degree=1, out_degree=0, in_degree=1)))
    """

    def run(self, graph: GraphBase) -> DataSet:
        """Return the edges."""
        return _beside(graph.get_edges().map(_in_tuple), VertexDegrees().run(graph), 1)


class EdgeDegreesPair:
    """Gives ``(source, target, (value, degrees of the source, degrees of the target))`` for each edge.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, "a"), (1, 3, "b")])
    >>> [(value, one.degree, other.degree) for _, _, (value, one, other) in sorted(graph.run(EdgeDegreesPair()).collect())]
    [('a', 2, 1), ('b', 2, 1)]
    """

    def run(self, graph: GraphBase) -> DataSet:
        """Return the edges."""
        degrees = VertexDegrees().run(graph)
        return _beside(_beside(graph.get_edges().map(_in_tuple), degrees, 0), degrees, 1)


class MaximumDegree:
    """Gives the graph without the vertices that have more than ``most`` neighbours, and without their edges.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (1, 3, None), (1, 4, None), (2, 3, None)])
    >>> sorted(graph.run(MaximumDegree(2)).get_edge_ids().collect())
    [(2, 3)]
    """

    def __init__(self, most: int) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise InvalidProgram(f"MaximumDegree: the most neighbours are a whole number above 0, not {most!r}.")
        self._most = most

    def run(self, graph: GraphBase) -> Any:
        """Return the graph."""
        most = self._most
        hubs = VertexDegrees().run(graph).filter(lambda found: found[1].degree > most)
        vertices = graph.get_vertices().co_group(hubs).where(0).equal_to(0).using(_unless)
        edges = graph.get_edges().co_group(hubs).where(0).equal_to(0).using(_unless)
        return graph._new(vertices, edges.co_group(hubs).where(1).equal_to(0).using(_unless))


_OUT, _IN = 1, 2


def _ways(edge: Any) -> list[Any]:
    return [((edge[0], edge[1]), _OUT), ((edge[1], edge[0]), _IN)]


def _either(one: Any, other: Any) -> Any:
    return one[0], one[1] | other[1]


def _counted(found: Any) -> tuple[Any, int, int, int]:
    (vertex, _), way = found
    return vertex, 1, way & _OUT, way >> 1


def _added(one: Any, other: Any) -> Any:
    return one[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]


def _in_tuple(edge: Any) -> Any:
    return edge[0], edge[1], (edge[2],)


def _beside(edges: DataSet, degrees: DataSet, end: int) -> DataSet:
    joined: DataSet = edges.join(degrees).where(end).equal_to(0).using(_appended)
    return joined


def _appended(edge: Any, found: Any) -> Any:
    return edge[0], edge[1], (*edge[2], found[1])


def _unless(records: Any, hubs: Any) -> Any:
    return [] if next(iter(hubs), None) is not None else records
