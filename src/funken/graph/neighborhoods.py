"""What is computed of a vertex's edges and neighbours, in one step without an iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from funken.dataset import DataSet
from funken.errors import InvalidProgram
from funken.graph.core import GraphBase
from funken.graph.records import EdgeDirection, GraphEdge, GraphVertex


class GraphNeighborhoods(GraphBase):
    """The methods of ``Graph`` that reduce neighbourhoods.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import EdgeDirection, Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> edges = [(1, 2, 12), (1, 3, 13), (2, 3, 23), (3, 1, 31)]
    >>> graph = Graph.from_collection(env, edges, lambda id: id * 10)
    >>> sorted(graph.reduce_on_neighbors(lambda a, b: a + b, EdgeDirection.IN).collect())
    [(1, 30), (2, 10), (3, 30)]
    >>> sorted(graph.reduce_on_edges(min).collect())
    [(1, 12), (2, 23), (3, 31)]
    >>> sorted(graph.group_reduce_on_edges(lambda id, edges: [(id, len(edges))]).collect())
    [(1, 2), (2, 1), (3, 1)]
    >>> sorted(graph.group_reduce_on_neighbors(lambda id, pairs: [(id, sum(n.id for _, n in pairs))]).collect())
    [(1, 5), (2, 3), (3, 1)]
    """

    def reduce_on_edges(self, function: Any, direction: EdgeDirection = EdgeDirection.OUT) -> DataSet:
        """Reduce the values of a vertex's edges, two at a time, to ``(id, value)``; a vertex without edges has none."""
        sides = _sides(direction)
        values = self._edges.flat_map(lambda edge: [(edge[side], edge[2]) for side, _ in sides])
        return values.group_by(0).reduce(lambda one, other: (one[0], function(one[1], other[1])))

    def reduce_on_neighbors(self, function: Any, direction: EdgeDirection = EdgeDirection.OUT) -> DataSet:
        """Reduce the values of a vertex's neighbours, two at a time, to ``(id, value)``."""
        values = self._neighbors(direction).map(lambda found: (found[0], found[2][1]))
        return values.group_by(0).reduce(lambda one, other: (one[0], function(one[1], other[1])))

    def group_reduce_on_edges(
        self, function: Any, direction: EdgeDirection = EdgeDirection.OUT, with_vertex_value: bool = False
    ) -> DataSet:
        """Call ``function(id, edges)`` for each vertex that has edges; it returns or yields any records.

        With ``with_vertex_value`` it is ``function(vertex, edges)``, also for vertices without edges.
        """
        sides = _sides(direction)
        edges = self._edges.flat_map(lambda edge: [(edge[side], GraphEdge(*edge)) for side, _ in sides])
        return self._grouped(edges, function, with_vertex_value)

    def group_reduce_on_neighbors(
        self, function: Any, direction: EdgeDirection = EdgeDirection.OUT, with_vertex_value: bool = False
    ) -> DataSet:
        """As ``group_reduce_on_edges``, with pairs of an edge and the neighbour at its other end."""
        pairs = self._neighbors(direction).map(lambda found: (found[0], (found[1], found[2])))
        return self._grouped(pairs, function, with_vertex_value)

    def _neighbors(self, direction: EdgeDirection) -> DataSet:
        """Return (id, edge, neighbour)."""
        sides = _sides(direction)
        ends = self._edges.flat_map(lambda edge: [(edge[side], edge[other], GraphEdge(*edge)) for side, other in sides])
        joined = ends.join(self._vertices).where(1).equal_to(0)
        found: DataSet = joined.using(lambda end, vertex: (end[0], end[2], GraphVertex(vertex[0], vertex[1])))
        return found

    def _grouped(self, found: DataSet, function: Callable[..., Any], with_vertex_value: bool) -> DataSet:
        if not with_vertex_value:
            return found.group_by(0).reduce_group(_PerId(function))
        return self._vertices.co_group(found).where(0).equal_to(0).using(_PerVertex(function))


def _sides(direction: EdgeDirection) -> list[tuple[int, int]]:
    """Return, per use of an edge, which of its ends owns it, and which is the neighbour."""
    if not isinstance(direction, EdgeDirection):
        raise InvalidProgram(f"the direction {direction!r} is no EdgeDirection: use EdgeDirection.IN, OUT or ALL.")
    return {EdgeDirection.OUT: [(0, 1)], EdgeDirection.IN: [(1, 0)], EdgeDirection.ALL: [(0, 1), (1, 0)]}[direction]


class _PerId:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, group: Iterable[Any]) -> Iterable[Any]:
        """Call the function with the group of an id."""
        found = list(group)
        return self._function(found[0][0], [each for _, each in found]) or ()


class _PerVertex(_PerId):
    def __call__(self, vertices: Iterable[Any], found: Iterable[Any]) -> Iterator[Any]:  # type: ignore[override]
        """Call the function with a vertex and what belongs to it; what belongs to no vertex is left out."""
        own = [each for _, each in found]
        for vertex in vertices:
            yield from self._function(GraphVertex(vertex[0], vertex[1]), own) or ()
