"""Bipartite graphs: two kinds of vertices, and edges between them; projections make graphs of one kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from funken.dataset import DataSet, ExecutionEnvironment
from funken.graph.graph import Graph


class BipartiteProjection(NamedTuple):
    """The value of an edge of a full projection: what both ends have in common, and the values on the way.

    >>> BipartiteProjection(7, "shared", "a", "b", 1, 2).intermediate_id
    7
    """

    intermediate_id: Any
    intermediate_value: Any
    source_value: Any
    target_value: Any
    source_edge_value: Any
    target_edge_value: Any


class BipartiteGraph:
    """Top vertices, bottom vertices ``(id, value)``, and edges ``(top id, bottom id, value)``.

    A projection has an edge for each bottom vertex that two top vertices share (or the other way round), in both directions.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> likes = [("ann", 1, 5), ("bob", 1, 3), ("bob", 2, 4)]
    >>> people, films = [("ann", 31), ("bob", 42)], [(1, "Metropolis"), (2, "Nosferatu")]
    >>> graph = BipartiteGraph.from_collection(env, people, films, likes)
    >>> sorted(graph.projection_top_simple().get_edges().collect())
    [('ann', 'bob', (5, 3)), ('bob', 'ann', (3, 5))]
    >>> sorted(graph.projection_bottom_simple().get_edges().collect())
    [(1, 2, (3, 4)), (2, 1, (4, 3))]
    >>> sorted(edge[2].intermediate_value for edge in graph.projection_top_full().get_edges().collect())
    ['Metropolis', 'Metropolis']
    >>> graph.projection_bottom_full().get_edges().filter(lambda edge: edge[0] == 1).collect()[0][2][:4]
    ('bob', 42, 'Metropolis', 'Nosferatu')
    >>> graph.get_top_vertices().count(), graph.get_bottom_vertices().count(), graph.get_edges().count()
    (2, 2, 3)
    >>> BipartiteGraph.from_data_set(graph.get_top_vertices(), graph.get_bottom_vertices(), graph.get_edges()) is graph
    False
    """

    def __init__(self, top: DataSet, bottom: DataSet, edges: DataSet) -> None:
        self._top, self._bottom, self._edges = top, bottom, edges

    @classmethod
    def from_data_set(cls, top: DataSet, bottom: DataSet, edges: DataSet) -> BipartiteGraph:
        """Make a bipartite graph of data sets."""
        return cls(top, bottom, edges)

    @classmethod
    def from_collection(
        cls, env: ExecutionEnvironment, top: Iterable[Any], bottom: Iterable[Any], edges: Iterable[Any]
    ) -> BipartiteGraph:
        """Make a bipartite graph of lists."""
        return cls(*(env.from_collection(list(each)) for each in (top, bottom, edges)))

    def get_top_vertices(self) -> DataSet:
        """Return the top vertices."""
        return self._top

    def get_bottom_vertices(self) -> DataSet:
        """Return the bottom vertices."""
        return self._bottom

    def get_edges(self) -> DataSet:
        """Return ``(top id, bottom id, value)``."""
        return self._edges

    def projection_top_simple(self) -> Graph:
        """Connect top vertices; the value of an edge is the pair of the values on the way."""
        return self._simple(0)

    def projection_bottom_simple(self) -> Graph:
        """Connect bottom vertices; the value of an edge is the pair of the values on the way."""
        return self._simple(1)

    def projection_top_full(self) -> Graph:
        """Connect top vertices; the value of an edge is a ``BipartiteProjection``."""
        return self._full(0)

    def projection_bottom_full(self) -> Graph:
        """Connect bottom vertices; the value of an edge is a ``BipartiteProjection``."""
        return self._full(1)

    def _pairs(self, own: int) -> DataSet:
        pairs = self._edges.join(self._edges).where(1 - own).equal_to(1 - own)
        different: DataSet = pairs.filter(lambda pair: pair[0][own] != pair[1][own])
        return different

    def _simple(self, own: int) -> Graph:
        edges = self._pairs(own).map(lambda pair: (pair[0][own], pair[1][own], (pair[0][2], pair[1][2])))
        return Graph.from_data_set(edges, (self._top, self._bottom)[own])

    def _full(self, own: int) -> Graph:
        ends, shared = (self._top, self._bottom) if own == 0 else (self._bottom, self._top)
        pairs = self._pairs(own).map(
            lambda pair: (pair[0][own], pair[1][own], pair[0][1 - own], pair[0][2], pair[1][2])
        )
        first = pairs.join(ends).where(0).equal_to(0).using(lambda pair, vertex: (*pair, vertex[1]))
        second = first.join(ends).where(1).equal_to(0).using(lambda pair, vertex: (*pair, vertex[1]))
        edges = (
            second.join(shared)
            .where(2)
            .equal_to(0)
            .using(
                lambda pair, vertex: (
                    pair[0],
                    pair[1],
                    BipartiteProjection(pair[2], vertex[1], pair[5], pair[6], pair[3], pair[4]),
                )
            )
        )
        return Graph.from_data_set(edges, ends)
