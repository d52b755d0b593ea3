"""Generated graphs. Ids are whole numbers from 0; the same parameters give the same graph at any parallelism.

All but ``RMatGraph`` and ``RandomGraph`` are undirected: they have each edge in both directions. Values are None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import prod
from typing import Any, NamedTuple

from funken.dataset import DataSet, ExecutionEnvironment
from funken.errors import InvalidProgram
from funken.graph.core import at_least
from funken.graph.graph import Graph


def _graph(env: ExecutionEnvironment, vertices: int, neighbors: Callable[[int], Iterable[int]]) -> Graph:
    ids = env.generate_sequence(0, vertices - 1)
    edges = ids.flat_map(lambda vertex: [(vertex, neighbor, None) for neighbor in neighbors(vertex)])
    return Graph.from_data_set(edges, ids.map(lambda vertex: (vertex, None)))


class GraphGenerator:
    """Makes graphs of regular shapes.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graphs = GraphGenerator(env)
    >>> def size(graph):
    ...     return graph.number_of_vertices(), graph.number_of_edges()
    >>> size(graphs.complete(4)), size(graphs.cycle(10)), size(graphs.path(10)), size(graphs.star(6))
    ((4, 12), (10, 20), (10, 18), (6, 10))
    >>> size(graphs.hypercube(3)), size(graphs.grid((2, False), (3, False))), size(graphs.grid((3, True)))
    ((8, 24), (6, 14), (3, 6))
    >>> size(graphs.empty(3)), size(graphs.singleton_edges(10)), size(graphs.circulant(10, (1, 2)))
    ((3, 0), (20, 20), (10, 40))
    """

    def __init__(self, env: ExecutionEnvironment) -> None:
        self._env = env

    def complete(self, vertices: int) -> Graph:
        """Connect each vertex with every other one."""
        count = at_least(2, vertices, "complete(): the number of vertices")
        return _graph(self._env, count, lambda vertex: (other for other in range(count) if other != vertex))

    def circulant(self, vertices: int, *ranges: tuple[int, int]) -> Graph:
        """Connect each vertex with those at the distances ``offset`` to ``offset + length - 1`` on a ring."""
        count = at_least(2, vertices, "circulant(): the number of vertices")
        distances = {offset + more for offset, length in ranges for more in range(length)}
        if not distances or min(distances) < 1 or max(distances) > count // 2:
            raise InvalidProgram(
                f"circulant(): distances have to be from 1 to {count // 2}, but are {sorted(distances)}."
            )
        both = sorted({distance % count for each in distances for distance in (each, -each)})
        return _graph(self._env, count, lambda vertex: ((vertex + distance) % count for distance in both))

    def cycle(self, vertices: int) -> Graph:
        """Connect each vertex with the next one, and the last with the first."""
        at_least(3, vertices, "cycle(): the number of vertices")
        return self.circulant(vertices, (1, 1))

    def empty(self, vertices: int) -> Graph:
        """Connect nothing."""
        return _graph(self._env, at_least(1, vertices, "empty(): the number of vertices"), lambda vertex: ())

    def grid(self, *dimensions: tuple[int, bool]) -> Graph:
        """Connect neighbours in a grid; a dimension is its size, and whether its ends are connected."""
        if not dimensions:
            raise InvalidProgram("grid() needs a dimension (size, whether its ends are connected) or more.")
        for size, _ in dimensions:
            at_least(2, size, "grid(): the size of a dimension")

        def neighbors(vertex: int) -> Iterator[int]:
            step = prod(size for size, _ in dimensions)
            for size, wrap in dimensions:
                step //= size
                place = vertex // step % size
                moved = {(place + way) % size for way in (-1, 1) if wrap or 0 <= place + way < size} - {place}
                yield from (vertex + (other - place) * step for other in sorted(moved))

        return _graph(self._env, prod(size for size, _ in dimensions), neighbors)

    def hypercube(self, dimensions: int) -> Graph:
        """Connect vertices whose ids differ in one of so many bits."""
        count = at_least(1, dimensions, "hypercube(): the number of dimensions")
        return _graph(self._env, 1 << count, lambda vertex: (vertex ^ (1 << bit) for bit in range(count)))

    def path(self, vertices: int) -> Graph:
        """Connect each vertex with the next one."""
        at_least(2, vertices, "path(): the number of vertices")
        return self.grid((vertices, False))

    def singleton_edges(self, pairs: int) -> Graph:
        """Connect vertices in pairs."""
        return _graph(
            self._env, 2 * at_least(1, pairs, "singleton_edges(): the number of pairs"), lambda vertex: [vertex ^ 1]
        )

    def star(self, vertices: int) -> Graph:
        """Connect vertex 0 with all others."""
        count = at_least(2, vertices, "star(): the number of vertices")
        return _graph(self._env, count, lambda vertex: [0] if vertex else range(1, count))


class RMatGraph:
    """A random graph with few large and many small degrees: ``2 ** scale`` possible ids, ``edge_factor`` edges for each.

    Directed, with loops and repeated edges; vertices without edges are absent. Any task can make any edge.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = RMatGraph(env, 8, 8, 42).generate()
    >>> graph.number_of_edges(), graph.get_edge_ids().first(2).set_parallelism(1).collect()
    (2048, [(71, 73), (22, 16)])
    """

    constants = (0.57, 0.19, 0.19)

    def __init__(self, env: ExecutionEnvironment, scale: int, edge_factor: int = 16, seed: int = 42) -> None:
        self._env = env
        self._scale = at_least(1, scale, "RMatGraph: the scale")
        self._edges = at_least(1, edge_factor, "RMatGraph: the edge factor") << self._scale
        self._seed = seed

    def set_constants(self, a: float, b: float, c: float) -> RMatGraph:
        """Set the shares of edges without a bit, with the target's, and with the source's; the rest has both.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> RMatGraph(env, 4, 1).set_constants(1.0, 0.0, 0.0).generate().get_edge_ids().distinct().collect()
        [(0, 0)]
        """
        if min(a, b, c) < 0 or a + b + c > 1.0 + 1e-9:
            raise InvalidProgram(f"RMatGraph: the shares {(a, b, c)} have to be 0 or more, and 1 or less together.")
        self.constants = (a, b, c)
        return self

    def generate(self) -> Graph:
        """Return the graph."""
        from funken.graph.columns.parts import chunk_count, rmat_chunk

        make = partial(rmat_chunk, self._edges, self._scale, self._seed, self.constants)
        return Graph.from_chunks(self._env.generate_sequence(0, chunk_count(self._edges) - 1).map(make))


class RandomGraph:
    """A random graph whose edges have any two vertices, each with the same probability; directed, with loops and repeated edges.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = RandomGraph(env, 100, 500, 1).generate()
    >>> graph.number_of_edges(), graph.number_of_vertices()
    (500, 100)
    """

    def __init__(self, env: ExecutionEnvironment, vertices: int, edges: int, seed: int = 42) -> None:
        self._env = env
        self._vertices = at_least(1, vertices, "RandomGraph: the number of vertices")
        self._edges = at_least(1, edges, "RandomGraph: the number of edges")
        self._seed = seed

    def generate(self) -> Graph:
        """Return the graph."""
        from funken.graph.columns.parts import chunk_count, uniform_chunk

        make = partial(uniform_chunk, self._edges, self._vertices, self._seed)
        chunks = self._env.generate_sequence(0, chunk_count(self._edges) - 1).map(make)
        ids = self._env.generate_sequence(0, self._vertices - 1)
        return Graph.from_chunks(chunks, ids.map(lambda vertex: (vertex, None)))


# ---- Bipartite graphs: two kinds of vertices, and edges between them; projections make graphs of one kind.


class BipartiteProjection(NamedTuple):
    """The value of an edge of a full projection: the common part of both ends, and the values on the way.

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
