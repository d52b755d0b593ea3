"""The common part of graphs: two data sets, and the questions about them.

A graph is directed, and immutable: every method returns a data set or a new graph. Several edges between two vertices and
edges of a vertex with itself are allowed. Nothing runs before a result is collected.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from funken.dataset import DataSet, ExecutionEnvironment
from funken.errors import InvalidProgram
from funken.types.callables import Generic, K, T, V

if TYPE_CHECKING:
    from typing import Self


def at_least(least: int, value: Any, what: str) -> int:
    """Return a parameter; raise ``InvalidProgram`` unless it is a whole number, and not too small."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidProgram(f"{what} has to be a whole number, {least} or more, but is {value!r}.")
    return value


# ---- What functions of a graph program see: a vertex, an edge, a triplet, and the direction of edges.
#
# In data sets, vertices are ``(id, value)`` and edges ``(source, target, value)``: any tuple will do.


class GraphVertex(NamedTuple, typing.Generic[K, V]):
    """A vertex: its id and its value.

    >>> GraphVertex(1, "a").value
    'a'
    """

    id: K
    value: V


class GraphEdge(NamedTuple, typing.Generic[K, T]):
    """A directed edge and its value.

    >>> GraphEdge(1, 2, 0.5).target
    2
    """

    source: K
    target: K
    value: T


class Triplet(NamedTuple, typing.Generic[K, V, T]):
    """An edge with the values of both its vertices.

    >>> Triplet(1, 2, "a", "b", 0.5).source_value
    'a'
    """

    source: K
    target: K
    source_value: V
    target_value: V
    edge_value: T


class EdgeDirection(enum.Enum):
    """The edges of a vertex that are meant.

    >>> EdgeDirection.IN
    <EdgeDirection.IN: 'in'>
    """

    IN = "in"
    OUT = "out"
    ALL = "all"


class GraphBase(Generic[K, V, T]):
    """The data sets of a graph; ``Graph`` has everything else.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> edges = [(1, 2, 12), (1, 3, 13), (2, 3, 23), (3, 1, 31)]
    >>> graph = Graph.from_collection(env, edges, lambda id: id * 10)
    >>> sorted(graph.get_vertices().collect()), sorted(graph.get_edge_ids().collect())
    ([(1, 10), (2, 20), (3, 30)], [(1, 2), (1, 3), (2, 3), (3, 1)])
    >>> graph.get_edges().count(), graph.number_of_vertices(), graph.number_of_edges(), sorted(graph.get_vertex_ids().collect())
    (4, 3, 4, [1, 2, 3])
    >>> sorted(graph.out_degrees().collect()), sorted(graph.in_degrees().collect())
    ([(1, 2), (2, 1), (3, 1)], [(1, 1), (2, 1), (3, 2)])
    >>> sorted(graph.get_degrees().collect()), sorted(graph.get_triplets().collect())[0]
    ([(1, 3), (2, 2), (3, 3)], Triplet(source=1, target=2, source_value=10, target_value=20, edge_value=12))
    >>> graph.validate(), graph.get_context() is env
    (True, True)
    """

    def __init__(
        self, vertices: DataSet | None, edges: DataSet | None, chunks: DataSet | None = None, initializer: Any = None
    ) -> None:
        if edges is None and chunks is None:
            raise InvalidProgram("a graph needs a data set of edges.")
        self._given_vertices = vertices
        self._initializer = initializer
        self._given_edges = edges
        self._given_chunks = chunks
        self._made: dict[Any, Any] = {}

    def _once(self, name: Any, make: Any) -> Any:
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    @property
    def _vertices(self) -> DataSet:
        found: DataSet = self._once("vertices", self._make_vertices)
        return found

    @property
    def _edges(self) -> DataSet:
        found: DataSet = self._once("edges", self._make_edges)
        return found

    def _make_edges(self) -> DataSet:
        if self._given_edges is not None:
            return self._given_edges
        assert self._given_chunks is not None
        return self._given_chunks.flat_map(_edges_of_chunk).name("edges of columns")

    def _make_vertices(self) -> DataSet:
        if self._given_vertices is not None:
            return self._given_vertices
        ids = self._edges.flat_map(_ends).distinct(0)
        return ids.map(partial(_initialized, self._initializer)).with_forwarded_fields("f0").name("vertices of edges")

    def _new(self, vertices: DataSet | None, edges: DataSet) -> Self:
        return type(self)(vertices, edges)

    def get_context(self) -> ExecutionEnvironment:
        """Return the environment of the graph's data sets."""
        known = self._given_edges if self._given_edges is not None else self._given_chunks
        assert known is not None
        return known.get_execution_environment()

    # ---- properties

    def get_vertices(self) -> DataSet[tuple[K, V]]:
        """Return ``(id, value)`` of every vertex."""
        return self._vertices

    def get_edges(self) -> DataSet[tuple[K, K, T]]:
        """Return ``(source, target, value)`` of every edge."""
        return self._edges

    def get_vertex_ids(self) -> DataSet[K]:
        """Return the ids of the vertices."""
        return self._vertices.map(_first)

    def get_edge_ids(self) -> DataSet[tuple[K, K]]:
        """Return ``(source, target)`` of every edge."""
        return self._edges.map(_pair)

    def number_of_vertices(self) -> int:
        """Count the vertices; runs the program."""
        return self._vertices.count()

    def number_of_edges(self) -> int:
        """Count the edges; runs the program."""
        return self._edges.count()

    def in_degrees(self) -> DataSet[tuple[K, int]]:
        """Return ``(id, number of edges that end there)``."""
        return self._degrees(lambda edge: [(edge[1], 1)])

    def out_degrees(self) -> DataSet[tuple[K, int]]:
        """Return ``(id, number of edges that begin there)``."""
        return self._degrees(lambda edge: [(edge[0], 1)])

    def get_degrees(self) -> DataSet[tuple[K, int]]:
        """Return ``(id, number of edges)``; an edge of a vertex with itself counts twice."""
        return self._degrees(lambda edge: [(edge[0], 1), (edge[1], 1)])

    def _degrees(self, ends: Any) -> DataSet:
        none = self._vertices.map(lambda vertex: (vertex[0], 0))
        degrees: DataSet = self._edges.flat_map(ends).union(none).group_by(0).sum(1)
        return degrees

    def get_triplets(self) -> DataSet[Triplet[K, V, T]]:
        """Return every edge with the values of its vertices, as ``Triplet``."""
        with_source = (
            self._edges.join(self._vertices).where(0).equal_to(0).using(lambda edge, vertex: (edge, vertex[1]))
        )
        triplets: DataSet = with_source.join(self._vertices).where("f0.f1").equal_to(0).using(_triplet)
        return triplets

    def validate(self, validator: Any = None) -> bool:
        """Check the graph; runs the program. The default checks that both ends of every edge are vertices."""
        made = validator if validator is not None else InvalidVertexIdsValidator()
        return bool(made.validate(self))


class InvalidVertexIdsValidator:
    """Accepts a graph if both ends of each of its edges are vertices.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (2, 3, None)], [(1, "a"), (2, "b")])
    >>> InvalidVertexIdsValidator().validate(graph)
    False
    """

    def validate(self, graph: GraphBase) -> bool:
        """Return True if every end of an edge is a vertex; runs the program."""
        ends = graph.get_edges().flat_map(_ends)
        missing = ends.co_group(graph.get_vertices()).where(0).equal_to(0).using(_unknown)
        return missing.first(1).count() == 0


def _initialized(initializer: Any, end: Any) -> Any:
    """Return a vertex for an id."""
    return (end[0], None if initializer is None else initializer(end[0]))


def _ends(edge: Any) -> list[tuple[Any]]:
    return [(edge[0],), (edge[1],)]


def _first(record: Any) -> Any:
    return record[0]


def _pair(edge: Any) -> tuple[Any, Any]:
    return (edge[0], edge[1])


def _triplet(begun: Any, vertex: Any) -> Triplet:
    edge, source_value = begun
    return Triplet(edge[0], edge[1], source_value, vertex[1], edge[2])


def _unknown(ends: Iterable[Any], vertices: Iterable[Any]) -> Iterator[Any]:
    if not any(True for _ in vertices):
        yield next(iter(ends))


def _edges_of_chunk(chunk: Any) -> Iterator[Any]:
    source, target, values = chunk
    yield from zip(
        source.tolist(), target.tolist(), values.tolist() if values is not None else [None] * len(source), strict=True
    )
