"""The neighbours of every vertex as one record, and the solution set of a graph iteration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from funken.dataset import DataSet
from funken.graph.core import GraphBase
from funken.graph.iterations.configuration import IterationConfiguration
from funken.graph.records import EdgeDirection, GraphEdge


def adjacency(graph: GraphBase, options: IterationConfiguration) -> DataSet:
    """Return ``(id, value, in degree, out degree, neighbours, edges)`` of every vertex, in the chosen direction."""
    forth = options.direction is not EdgeDirection.IN
    back = options.direction is not EdgeDirection.OUT

    def sides(edge: Any) -> Iterator[Any]:
        """Yield (id, neighbour, edge, whether it is an in-edge, whether values travel this way)."""
        if forth or options.degrees:
            yield edge[0], edge[1], edge, False, forth
        if back or options.degrees:
            yield edge[1], edge[0], edge, True, back

    ends = graph.get_edges().flat_map(sides)
    return (
        graph.get_vertices()
        .co_group(ends)
        .where(0)
        .equal_to(0)
        .using(_Adjacent(options.degrees))
        .with_forwarded_fields_first("f0; f1")
        .name("adjacency")
    )


class _Adjacent:
    def __init__(self, degrees: bool) -> None:
        self._degrees = degrees

    def __call__(self, vertices: Iterable[Any], ends: Iterable[Any]) -> Iterator[Any]:
        """Put a vertex and its edges together; edges of no vertex are left out."""
        vertex = next(iter(vertices), None)
        if vertex is None:
            return
        found = list(ends)
        travelled = [end for end in found if end[4]]
        inward = sum(end[3] for end in found)
        degrees = (inward, len(found) - inward) if self._degrees else (-1, -1)
        edges = tuple(GraphEdge(*end[2]) for end in travelled)
        yield (vertex[0], vertex[1], *degrees, tuple(end[1] for end in travelled), edges)


def entries(adjacent: DataSet) -> DataSet:
    """Return the solution set: ``(id, value, in degree, out degree)``."""
    return adjacent.map(lambda vertex: vertex[:4]).with_forwarded_fields("f0; f1; f2; f3")


def neighbors(adjacent: DataSet) -> DataSet:
    """Return ``(id, neighbours, edges)``."""
    return adjacent.map(lambda vertex: (vertex[0], vertex[4], vertex[5])).with_forwarded_fields("f0")


def values(solution: DataSet) -> DataSet:
    """Return the vertices of a solution set."""
    return solution.map(lambda entry: (entry[0], entry[1]))


def count_of(graph: GraphBase, options: IterationConfiguration) -> DataSet | None:
    """Return the number of vertices as a data set, if it is wanted."""
    if not options.number_of_vertices:
        return None
    return graph.get_vertices().map(lambda _: 1).reduce(lambda one, other: one + other)
