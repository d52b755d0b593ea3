"""Algorithms on streams of edges that keep a summary: ``edges.run(algorithm)``, a result per window or one at the end."""

from __future__ import annotations

from typing import Any, NamedTuple

from funken import AggregateFunction, DataStream
from funken.errors import InvalidProgram
from funken.graph.streaming.edge_stream import EdgeStream
from funken.graph.streaming.summaries import DisjointSet, SpannerEdges, TwoSides


class StreamingConnectedComponents:
    """Gives the vertices of each connected component of all edges so far, by the least of them.

    ``window`` and ``degree`` are those of ``EdgeStream.aggregate``.

    >>> from funken.testing import local
    >>> edges = EdgeStream.from_stream(local([(1, 2), (1, 3), (2, 3), (1, 5), (6, 7), (8, 9)]))
    >>> edges.run(StreamingConnectedComponents()).execute_and_collect(limit=1)
    [{1: [1, 2, 3, 5], 6: [6, 7], 8: [8, 9]}]
    """

    def __init__(self, window: Any = None, *, degree: int | None = None) -> None:
        self._window, self._degree = window, degree

    def run(self, edges: EdgeStream) -> DataStream[dict[Any, list[Any]]]:
        """Return the components after each window."""
        return edges.aggregate(_Components(), self._window, degree=self._degree).name("connected components")


class Bipartiteness(NamedTuple):
    """Whether the graph is bipartite; if so, the side of each vertex: 0 for the least vertex of each component.

    >>> Bipartiteness(True, {1: 0, 2: 1}).bipartite
    True
    """

    bipartite: bool
    sides: dict[Any, int]


class BipartitenessCheck:
    """Tells whether all edges so far go between two sides; once they do not, never again.

    >>> from funken.testing import local
    >>> edges = EdgeStream.from_stream(local([(1, 2), (2, 3), (3, 4)]))
    >>> edges.run(BipartitenessCheck()).execute_and_collect(limit=1)
    [Bipartiteness(bipartite=True, sides={1: 0, 2: 1, 3: 0, 4: 1})]
    """

    def __init__(self, window: Any = None, *, degree: int | None = None) -> None:
        self._window, self._degree = window, degree

    def run(self, edges: EdgeStream) -> DataStream[Bipartiteness]:
        """Return a ``Bipartiteness`` after each window."""
        return edges.aggregate(_Sides(), self._window, degree=self._degree).name("bipartiteness")


class Spanner:
    """Gives some of the edges so far, as pairs, in which no distance is more than ``k`` times what it is with all edges.

    Directions do not count. An edge, once taken, stays.

    >>> from funken.testing import local
    >>> edges = EdgeStream.from_stream(local([(1, 2), (2, 3), (1, 3), (3, 4)]))
    >>> edges.run(Spanner(k=2)).execute_and_collect(limit=1)
    [[(1, 2), (1, 3), (3, 4)]]
    """

    def __init__(self, window: Any = None, k: int = 3, *, degree: int | None = None) -> None:
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise InvalidProgram(f"Spanner: k has to be a whole number above 0, but is {k!r}.")
        self._window, self._k, self._degree = window, k, degree

    def run(self, edges: EdgeStream) -> DataStream[list[tuple[Any, Any]]]:
        """Return the edges of the spanner after each window."""
        return edges.aggregate(_Spanned(self._k), self._window, degree=self._degree).name("spanner")


class _Components(AggregateFunction):
    def create_accumulator(self) -> DisjointSet:
        """Begin."""
        return DisjointSet()

    def add(self, value: Any, accumulator: DisjointSet) -> DisjointSet:
        """Connect two vertices."""
        accumulator.union(value[0], value[1])
        return accumulator

    def merge(self, a: DisjointSet, b: DisjointSet) -> DisjointSet:
        """Merge the smaller one into the larger one."""
        a, b = (a, b) if len(a) >= len(b) else (b, a)
        a.merge(b)
        return a

    def get_result(self, accumulator: DisjointSet) -> dict[Any, list[Any]]:
        """Return the components."""
        return accumulator.components()


class _Sides(AggregateFunction):
    def create_accumulator(self) -> TwoSides:
        """Begin."""
        return TwoSides()

    def add(self, value: Any, accumulator: TwoSides) -> TwoSides:
        """Put two vertices on different sides."""
        accumulator.connect(value[0], value[1])
        return accumulator

    def merge(self, a: TwoSides, b: TwoSides) -> TwoSides:
        """Merge two."""
        a.merge(b)
        return a

    def get_result(self, accumulator: TwoSides) -> Bipartiteness:
        """Return the sides."""
        return Bipartiteness(accumulator.possible, accumulator.colors())


class _Spanned(AggregateFunction):
    def __init__(self, k: int) -> None:
        self._k = k

    def create_accumulator(self) -> SpannerEdges:
        """Begin."""
        return SpannerEdges(self._k)

    def add(self, value: Any, accumulator: SpannerEdges) -> SpannerEdges:
        """Let an edge wait."""
        accumulator.add(value[0], value[1])
        return accumulator

    def merge(self, a: SpannerEdges, b: SpannerEdges) -> SpannerEdges:
        """Let the edges of the second one wait in the first."""
        a.merge(b)
        return a

    def get_result(self, accumulator: SpannerEdges) -> list[tuple[Any, Any]]:
        """Take what is needed, and return all that was taken."""
        accumulator.settle()
        return accumulator.edges()
