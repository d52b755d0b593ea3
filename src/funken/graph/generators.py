"""Generated graphs. Ids are whole numbers from 0; the same parameters give the same graph at any parallelism.

All but ``RMatGraph`` and ``RandomGraph`` are undirected: they have each edge in both directions. Values are None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import prod
from typing import Any

from funken.dataset import ExecutionEnvironment
from funken.errors import InvalidProgram
from funken.graph.graph import Graph


def _graph(env: ExecutionEnvironment, vertices: int, neighbors: Callable[[int], Iterable[int]]) -> Graph:
    ids = env.generate_sequence(0, vertices - 1)
    edges = ids.flat_map(lambda vertex: [(vertex, neighbor, None) for neighbor in neighbors(vertex)])
    return Graph.from_data_set(edges, ids.map(lambda vertex: (vertex, None)))


def _at_least(least: int, value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidProgram(f"{what} has to be a whole number, {least} or more, but is {value!r}.")
    return value


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
        count = _at_least(2, vertices, "complete(): the number of vertices")
        return _graph(self._env, count, lambda vertex: (other for other in range(count) if other != vertex))

    def circulant(self, vertices: int, *ranges: tuple[int, int]) -> Graph:
        """Connect each vertex with those at the distances ``offset`` to ``offset + length - 1`` on a ring."""
        count = _at_least(2, vertices, "circulant(): the number of vertices")
        distances = {offset + more for offset, length in ranges for more in range(length)}
        if not distances or min(distances) < 1 or max(distances) > count // 2:
            raise InvalidProgram(
                f"circulant(): distances have to be from 1 to {count // 2}, but are {sorted(distances)}."
            )
        both = sorted({distance % count for each in distances for distance in (each, -each)})
        return _graph(self._env, count, lambda vertex: ((vertex + distance) % count for distance in both))

    def cycle(self, vertices: int) -> Graph:
        """Connect each vertex with the next one, and the last with the first."""
        _at_least(3, vertices, "cycle(): the number of vertices")
        return self.circulant(vertices, (1, 1))

    def empty(self, vertices: int) -> Graph:
        """Connect nothing."""
        return _graph(self._env, _at_least(1, vertices, "empty(): the number of vertices"), lambda vertex: ())

    def grid(self, *dimensions: tuple[int, bool]) -> Graph:
        """Connect neighbours in a grid; a dimension is its size, and whether its ends are connected."""
        if not dimensions:
            raise InvalidProgram("grid() needs a dimension (size, whether its ends are connected) or more.")
        for size, _ in dimensions:
            _at_least(2, size, "grid(): the size of a dimension")

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
        count = _at_least(1, dimensions, "hypercube(): the number of dimensions")
        return _graph(self._env, 1 << count, lambda vertex: (vertex ^ (1 << bit) for bit in range(count)))

    def path(self, vertices: int) -> Graph:
        """Connect each vertex with the next one."""
        _at_least(2, vertices, "path(): the number of vertices")
        return self.grid((vertices, False))

    def singleton_edges(self, pairs: int) -> Graph:
        """Connect vertices in pairs."""
        return _graph(
            self._env, 2 * _at_least(1, pairs, "singleton_edges(): the number of pairs"), lambda vertex: [vertex ^ 1]
        )

    def star(self, vertices: int) -> Graph:
        """Connect vertex 0 with all others."""
        count = _at_least(2, vertices, "star(): the number of vertices")
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
        self._scale = _at_least(1, scale, "RMatGraph: the scale")
        self._edges = _at_least(1, edge_factor, "RMatGraph: the edge factor") << self._scale
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
        from funken.graph.columns.random_edges import chunk_count, rmat_chunk

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
        self._vertices = _at_least(1, vertices, "RandomGraph: the number of vertices")
        self._edges = _at_least(1, edges, "RandomGraph: the number of edges")
        self._seed = seed

    def generate(self) -> Graph:
        """Return the graph."""
        from funken.graph.columns.random_edges import chunk_count, uniform_chunk

        make = partial(uniform_chunk, self._edges, self._vertices, self._seed)
        chunks = self._env.generate_sequence(0, chunk_count(self._edges) - 1).map(make)
        ids = self._env.generate_sequence(0, self._vertices - 1)
        return Graph.from_chunks(chunks, ids.map(lambda vertex: (vertex, None)))
