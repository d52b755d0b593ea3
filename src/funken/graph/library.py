"""The algorithms of the graph library, by iterations.

Values of a whole graph, which are computed when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from funken import FilterFunction
from funken.dataset import DataSet, DataSetRuntimeContext
from funken.errors import InvalidProgram
from funken.graph.core import GraphBase, at_least
from funken.lazy import LoadedLater
from funken.types.callables import Generic, K, OUT_co, T, V

if TYPE_CHECKING:
    from funken.graph.columns import supersteps, triads
else:  # which need NumPy and SciPy
    supersteps, triads = (LoadedLater(f"funken.graph.columns.{name}") for name in ("supersteps", "triads"))


class GraphAnalytic(Generic[OUT_co]):
    """A value of a graph that is still to be computed; ``Graph.run`` returns one for such algorithms.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> GraphAnalytic(env.from_elements(1, 2), sum).execute()
    3
    """

    def __init__(self, records: DataSet, finish: Callable[[list[Any]], OUT_co]) -> None:
        self._records, self._finish = records, finish

    def execute(self) -> OUT_co:
        """Run the program, and return the value."""
        return self._finish(self._records.collect())


@dataclass(frozen=True)
class GraphMetricsResult:
    """The result of ``GraphMetrics``.

    >>> GraphMetricsResult(3, 3, 3, 2, 1).triplets
    3
    """

    vertices: int
    edges: int
    triplets: int
    maximum_degree: int
    maximum_triplets: int


def ordered(one: Any, other: Any) -> tuple[Any, Any]:
    """Return two ids in their order, if they have one.

    >>> ordered(2, 1), ordered(2, "a")
    ((1, 2), (2, 'a'))
    """
    try:
        return (other, one) if other < one else (one, other)
    except TypeError:
        return one, other


# ---- What can be reached from where: components, shortest paths, levels.


class ConnectedComponents:
    """Computes ``(id, component)``: the least vertex value of the weakly connected component.

    After ``max_iterations`` a value has travelled so many edges; edges are used both ways.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (3, 2, None), (5, 4, None)], lambda id: id)
    >>> sorted(graph.run(ConnectedComponents(10)).collect())
    [(1, 1), (2, 1), (3, 1), (4, 4), (5, 4)]
    """

    def __init__(self, max_iterations: int) -> None:
        self._iterations = at_least(1, max_iterations, f"{type(self).__name__}: the number of iterations")

    def run(self, graph: GraphBase[K, Any, Any]) -> DataSet[tuple[K, K]]:
        """Return the components."""
        return supersteps.run_program(graph, supersteps.LeastValue(), self._iterations + 1, "connected components")


class SingleSourceShortestPaths:
    """Computes ``(id, distance)`` from a source, where edge values are lengths; infinite where there is no way.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [("a", "b", 5), ("b", "c", 1), ("a", "c", 9), ("d", "a", 1)])
    >>> sorted(graph.run(SingleSourceShortestPaths("a", 10)).collect())
    [('a', 0.0), ('b', 5.0), ('c', 6.0), ('d', inf)]
    """

    def __init__(self, source: Any, max_iterations: int) -> None:
        self._source = source
        self._iterations = at_least(1, max_iterations, f"{type(self).__name__}: the number of iterations")

    def run(self, graph: GraphBase[K, Any, Any]) -> DataSet[tuple[K, float]]:
        """Return the distances."""
        return supersteps.run_program(graph, supersteps.Distance(self._source), self._iterations + 1, "shortest paths")


class BreadthFirstSearch(SingleSourceShortestPaths):
    """Computes ``(id, level)``: the least number of edges from a source, for the vertices that can be reached.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (2, 3, None), (1, 3, None), (4, 1, None)])
    >>> sorted(graph.run(BreadthFirstSearch(1, 10)).collect())
    [(1, 0), (2, 1), (3, 1)]
    """

    def run(self, graph: GraphBase[K, Any, Any]) -> DataSet[tuple[K, int]]:
        """Return the levels."""
        return supersteps.run_program(
            graph, supersteps.Level(self._source), self._iterations + 1, "breadth-first search"
        )


# ---- Triangles, and what follows from them. Loops and repeated edges do not count, and directions only where
# ``directed`` is set.


class TriangleListing:
    """Lists each triangle once, as ``(id, id, id)``; in order, if ids have one.

    ``directed``: as ``(a, b, c, directions)``, where the number has two bits for each of ab, ac and bc, from the highest on:
    1 for an edge in this direction, 2 in the other one, 3 for both. ``permute_results``: each triangle in all six orders of its
    vertices, so that a join by the first of them has all triangles of a vertex.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (2, 3, None), (1, 3, None), (3, 4, None)])
    >>> graph.run(TriangleListing()).collect()
    [(1, 2, 3)]
    >>> [(*ids, f"{ways:06b}") for *ids, ways in graph.run(TriangleListing(directed=True)).collect()]
    [(1, 2, 3, '010101')]
    """

    def __init__(self, directed: bool = False, permute_results: bool = False) -> None:
        self._directed = directed
        self._permutes = permute_results

    def run(self, graph: GraphBase[K, Any, Any]) -> DataSet[tuple[K, K, K]]:
        """Return the triangles."""
        layout = triads.WITH_WAYS if self._directed else triads.UNDIRECTED
        found = triads.resolved(graph, triads.triangle_numbers(graph, layout), 3, layout)
        found = found.map(triads.triangles_in_order if self._directed else _sorted)
        return found.flat_map(triads.in_all_orders) if self._permutes else found


class TriangleCount:
    """Counts the triangles.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import GraphGenerator
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> GraphGenerator(env).complete(5).run(TriangleCount()).execute()
    10
    """

    def run(self, graph: GraphBase) -> GraphAnalytic[int]:
        """Return the number, still to be computed."""
        return GraphAnalytic(triads.triangle_count(graph), sum)


class LocalClusteringCoefficient:
    """Computes ``(id, degree, triangles)``; the coefficient is ``triangles / (degree * (degree - 1) / 2)``.

    ``directed``: ``(id, neighbours, edges between neighbours)``; the coefficient is ``edges / (neighbours * (neighbours - 1))``.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import GraphGenerator
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> sorted(GraphGenerator(env).complete(3).run(LocalClusteringCoefficient()).collect())
    [(0, 2, 1), (1, 2, 1), (2, 2, 1)]
    """

    def __init__(self, include_zero_degree_vertices: bool = True, directed: bool = False) -> None:
        self._all = include_zero_degree_vertices
        self._directed = directed

    def run(self, graph: GraphBase[K, Any, Any]) -> DataSet[tuple[K, int, int]]:
        """Return degrees and triangles."""
        found = triads.triangles_per_vertex(graph, triads.WITH_WAYS if self._directed else triads.UNDIRECTED)
        return found if self._all else found.filter(lambda record: record[1] > 0)


class AverageClusteringCoefficient:
    """Computes the mean of the local coefficients; a vertex with less than two neighbours counts as 0.

    ``directed``: of the directed local coefficients.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import GraphGenerator
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> GraphGenerator(env).complete(4).run(AverageClusteringCoefficient()).execute()
    1.0
    """

    def __init__(self, directed: bool = False) -> None:
        self._directed = directed

    def run(self, graph: GraphBase) -> GraphAnalytic[float]:
        """Return the mean, still to be computed."""
        coefficient = _directed_coefficient if self._directed else _coefficient
        local = LocalClusteringCoefficient(directed=self._directed).run(graph).map(coefficient)
        summed = local.reduce(lambda one, other: (one[0] + other[0], one[1] + other[1]))
        return GraphAnalytic(summed, lambda found: found[0][0] / found[0][1] if found else 0.0)


class GlobalClusteringCoefficient:
    """Computes the share of paths of two edges that are part of a triangle.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import GraphGenerator
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> GraphGenerator(env).star(4).run(GlobalClusteringCoefficient()).execute()
    0.0
    """

    def run(self, graph: GraphBase) -> GraphAnalytic[float]:
        """Return the share, still to be computed."""
        local = LocalClusteringCoefficient().run(graph).map(lambda each: (each[2], each[1] * (each[1] - 1) // 2))
        summed = local.reduce(lambda one, other: (one[0] + other[0], one[1] + other[1]))
        return GraphAnalytic(summed, lambda found: found[0][0] / found[0][1] if found and found[0][1] else 0.0)


class GraphMetrics:
    """Counts vertices, edges and paths of two edges, and finds the greatest degree.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import GraphGenerator
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> GraphGenerator(env).star(4).run(GraphMetrics()).execute()
    GraphMetricsResult(vertices=4, edges=3, triplets=3, maximum_degree=3, maximum_triplets=3)
    """

    def run(self, graph: GraphBase) -> GraphAnalytic[GraphMetricsResult]:
        """Return the numbers, still to be computed."""
        return GraphAnalytic(triads.undirected_parts(graph).map(_metrics), _metrics_of_all)


def _sorted(triangle: Any) -> Any:
    ids = triangle[:3]  # degrees follow
    try:
        return tuple(sorted(ids))
    except TypeError:
        return tuple(ids)


def _coefficient(record: Any) -> tuple[float, int]:
    _, degree, triangles = record
    return (triangles / (degree * (degree - 1) / 2) if degree > 1 else 0.0, 1)


def _directed_coefficient(record: Any) -> tuple[float, int]:
    _, degree, edges = record
    return (edges / (degree * (degree - 1)) if degree > 1 else 0.0, 1)


def _metrics(part: Any) -> tuple[int, int, int, int]:
    degrees = part[1].out_degree
    return len(degrees), int(degrees.sum()), int((degrees * (degrees - 1) // 2).sum()), int(degrees.max(initial=0))


def _metrics_of_all(found: list[Any]) -> GraphMetricsResult:
    vertices, ends, triplets = (sum(each[place] for each in found) for place in range(3))
    greatest = max((each[3] for each in found), default=0)
    return GraphMetricsResult(vertices, ends // 2, triplets, greatest, greatest * (greatest - 1) // 2)


# ---- The triadic census, and the numbers of a directed graph and of its edges.


class TriadicCensus:
    """Counts the sets of three vertices by the edges between them; loops and repeated edges do not count.

    ``directed``: by the 16 types of triads, with the names of Holland and Leinhardt (``030T``: three pairs are connected one way,
    and not in a circle). Otherwise by the number of edges, 0 to 3.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (2, 3, None), (3, 1, None), (3, 2, None), (3, 4, None)])
    >>> graph.run(TriadicCensus(directed=False)).execute()
    {0: 0, 1: 1, 2: 2, 3: 1}
    >>> {name: count for name, count in graph.run(TriadicCensus()).execute().items() if count}
    {'012': 1, '021D': 1, '111U': 1, '120C': 1}
    """

    def __init__(self, directed: bool = True) -> None:
        self._directed = directed

    def run(self, graph: GraphBase) -> GraphAnalytic:
        """Return the counts, still to be computed."""
        return GraphAnalytic(triads.census_records(graph), triads.census_of_ways if self._directed else triads.census)


@dataclass(frozen=True)
class DirectedMetricsResult:
    """The result of ``DirectedMetrics``. Degrees and paths are those of neighbours in any direction.

    >>> DirectedMetricsResult(2, 0, 1, 0, 1, 1, 1, 0).bidirectional_edges
    1
    """

    vertices: int
    unidirectional_edges: int
    bidirectional_edges: int
    triplets: int
    maximum_degree: int
    maximum_out_degree: int
    maximum_in_degree: int
    maximum_triplets: int


class DirectedMetrics:
    """Counts vertices, pairs connected one way or both ways, paths of two edges, and finds the greatest degrees.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (2, 1, None), (1, 3, None)])
    >>> metrics = graph.run(DirectedMetrics()).execute()
    >>> metrics.unidirectional_edges, metrics.bidirectional_edges, metrics.maximum_out_degree, metrics.maximum_in_degree
    (1, 1, 2, 1)
    """

    def run(self, graph: GraphBase) -> GraphAnalytic[DirectedMetricsResult]:
        """Return the numbers, still to be computed."""
        return GraphAnalytic(triads.metrics_records(graph), _of_all)


def _of_all(found: list[Any]) -> DirectedMetricsResult:
    vertices, single, ends, triplets = (sum(each[place] for each in found) for place in range(4))
    degree, out, into = (max((each[place] for each in found), default=0) for place in (4, 5, 6))
    return DirectedMetricsResult(vertices, single, ends // 2, triplets, degree, out, into, degree * (degree - 1) // 2)


@dataclass(frozen=True)
class EdgeMetricsResult:
    """The result of ``EdgeMetrics``.

    >>> EdgeMetricsResult(2, 6, 1, 3).triangle_triplets
    2
    """

    triangle_triplets: int
    rectangle_triplets: int
    maximum_triangle_triplets: int
    maximum_rectangle_triplets: int


class EdgeMetrics:
    """Counts the paths of two edges that are candidates for triangles and for rectangles, and the most of a vertex.

    Edges lead to the end with more neighbours, or the greater id of two with as many. For triangles it is enough to look at
    pairs of edges that leave a vertex; for rectangles, at those and at pairs of which one leaves. So these numbers tell what
    such a search costs. Directions, loops and repeated edges of the graph do not count.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import GraphGenerator
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> GraphGenerator(env).complete(4).run(EdgeMetrics()).execute().triangle_triplets
    4
    """

    def run(self, graph: GraphBase) -> GraphAnalytic[EdgeMetricsResult]:
        """Return the numbers, still to be computed."""
        return GraphAnalytic(triads.edge_metrics_records(graph), _edges_of_all)


def _edges_of_all(found: list[Any]) -> EdgeMetricsResult:
    triangles, rectangles = (sum(each[place] for each in found) for place in (0, 1))
    return EdgeMetricsResult(
        triangles, rectangles, *(max((each[place] for each in found), default=0) for place in (2, 3))
    )


# ---- Which vertices are important: PageRank and HITS.


def _limits(algorithm: str, iterations: int | None, threshold: float | None) -> int:
    if iterations is None and threshold is None:
        raise InvalidProgram(f"{algorithm} needs a number of iterations, a threshold, or both.")
    if threshold is not None and not threshold > 0:
        raise InvalidProgram(f"{algorithm}: the threshold has to be above 0, but is {threshold!r}.")
    return at_least(1, 1_000 if iterations is None else iterations, f"{algorithm}: the number of iterations")


class PageRank:
    """Computes ``(id, score)``; scores sum to 1. Vertices without out-edges pass their score to all.

    It ends after ``iterations``, or when the changes of an iteration sum to less than ``threshold``. Vertices without edges are
    left out unless ``include_zero_degree_vertices``.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (3, 2, None), (2, 1, None)])
    >>> [(id, round(score, 3)) for id, score in sorted(graph.run(PageRank(0.85, 100, 1e-9)).collect())]
    [(1, 0.464), (2, 0.486), (3, 0.05)]
    """

    def __init__(
        self,
        damping: float = 0.85,
        iterations: int | None = None,
        threshold: float | None = None,
        include_zero_degree_vertices: bool = False,
    ) -> None:
        if not (isinstance(damping, float | int) and 0 < damping < 1):
            raise InvalidProgram(f"PageRank: the damping factor has to be between 0 and 1, but is {damping!r}.")
        self._iterations = _limits("PageRank", iterations, threshold)
        self._parameters = damping, threshold, include_zero_degree_vertices

    def run(self, graph: GraphBase[K, Any, Any]) -> DataSet[tuple[K, float]]:
        """Return the scores."""
        return supersteps.run_program(graph, supersteps.Ranks(*self._parameters), self._iterations + 2, "PageRank")


class HITS:
    """Computes ``(id, hub score, authority score)``; the squares of each sum to 1.

    It ends after ``iterations``, or when the changes of an iteration sum to less than ``threshold``.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (3, 2, None)])
    >>> [(id, round(hub, 3), round(authority, 3)) for id, hub, authority in sorted(graph.run(HITS(10)).collect())]
    [(1, 0.707, 0.0), (2, 0.0, 1.0), (3, 0.707, 0.0)]
    """

    def __init__(self, iterations: int | None = None, threshold: float | None = None) -> None:
        self._iterations = _limits("HITS", iterations, threshold)
        self._threshold = threshold

    def run(self, graph: GraphBase[K, Any, Any]) -> DataSet[tuple[K, float, float]]:
        """Return the scores."""
        return supersteps.run_program(
            graph, supersteps.HubsAndAuthorities(self._threshold), 2 * self._iterations + 2, "HITS"
        )


# ---- Degrees of vertices, also beside the edges, as the input of other algorithms; and a graph without its hubs.
#
# Repeated edges count once: the degree is the number of neighbours. An edge of a vertex with itself counts as a
# neighbour.


class Degrees(NamedTuple):
    """Numbers of neighbours of a vertex: all, those that an edge leads to, and those from which an edge comes.

    >>> Degrees(degree=2, out_degree=2, in_degree=1).degree
    2
    """

    degree: int
    out_degree: int
    in_degree: int


class VertexDegrees:
    """Computes ``(id, Degrees)``; vertices without edges are left out unless ``include_zero_degree_vertices``.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (2, 1, None), (1, 3, None)])
    >>> sorted(graph.run(VertexDegrees()).collect())[0]
    (1, Degrees(degree=2, out_degree=2, in_degree=1))
    """

    def __init__(self, include_zero_degree_vertices: bool = False) -> None:
        self._all = include_zero_degree_vertices

    def run(self, graph: GraphBase[K, Any, Any]) -> DataSet[tuple[K, Degrees]]:
        """Return the degrees."""
        ways = graph.get_edges().flat_map(_ways).group_by("f0").reduce(_either)
        counts = ways.map(_counted)
        if self._all:
            counts = counts.union(graph.get_vertices().map(lambda vertex: (vertex[0], 0, 0, 0)))
        return counts.group_by(0).reduce(_added).map(lambda found: (found[0], Degrees(*found[1:])))


class EdgeSourceDegrees:
    """Computes ``(source, target, (value, degrees of the source))`` for each edge.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, "a"), (1, 3, "b")])
    >>> sorted(graph.run(EdgeSourceDegrees()).collect())[0]
    (1, 2, ('a', Degrees(degree=2, out_degree=2, in_degree=0)))
    """

    def run(self, graph: GraphBase[K, Any, T]) -> DataSet[tuple[K, K, tuple[T, Degrees]]]:
        """Return the edges."""
        return _beside(graph.get_edges().map(_in_tuple), VertexDegrees().run(graph), 0)


class EdgeTargetDegrees:
    """Computes ``(source, target, (value, degrees of the target))`` for each edge.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, "a"), (1, 3, "b")])
    >>> sorted(graph.run(EdgeTargetDegrees()).collect())[0]
    (1, 2, ('a', Degrees(degree=1, out_degree=0, in_degree=1)))
    """

    def run(self, graph: GraphBase[K, Any, T]) -> DataSet[tuple[K, K, tuple[T, Degrees]]]:
        """Return the edges."""
        return _beside(graph.get_edges().map(_in_tuple), VertexDegrees().run(graph), 1)


class EdgeDegreesPair:
    """Computes ``(source, target, (value, degrees of the source, degrees of the target))`` for each edge.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, "a"), (1, 3, "b")])
    >>> [(value, one.degree, other.degree) for _, _, (value, one, other) in sorted(graph.run(EdgeDegreesPair()).collect())]
    [('a', 2, 1), ('b', 2, 1)]
    """

    def run(self, graph: GraphBase[K, Any, T]) -> DataSet[tuple[K, K, tuple[T, Degrees, Degrees]]]:
        """Return the edges."""
        degrees = VertexDegrees().run(graph)
        return _beside(_beside(graph.get_edges().map(_in_tuple), degrees, 0), degrees, 1)


class MaximumDegree:
    """Returns the graph without the vertices that have more than ``most`` neighbours, and without their edges.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (1, 3, None), (1, 4, None), (2, 3, None)])
    >>> sorted(graph.run(MaximumDegree(2)).get_edge_ids().collect())
    [(2, 3)]
    """

    def __init__(self, most: int) -> None:
        self._most = at_least(1, most, "MaximumDegree: the most neighbours")

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


# ---- How similar vertices are by their common neighbours. The graph is taken as undirected and simple.


class JaccardIndex:
    """Computes ``(id, id, shared, distinct)`` for pairs with common neighbours; the index is ``shared / distinct``.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import GraphGenerator
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> star = GraphGenerator(env).star(4)
    >>> sorted(star.run(JaccardIndex()).collect())
    [(1, 2, 1, 1), (1, 3, 1, 1), (2, 3, 1, 1)]
    >>> star.run(JaccardIndex().set_minimum_score(1, 2).set_maximum_score(1, 1)).collect()
    []
    """

    _least: tuple[int, int] = (0, 1)
    _bound: tuple[int, int] | None = None

    def set_minimum_score(self, numerator: int, denominator: int) -> JaccardIndex:
        """Leave out pairs with an index below this."""
        self._least = _fraction(numerator, denominator)
        return self

    def set_maximum_score(self, numerator: int, denominator: int) -> JaccardIndex:
        """Leave out pairs with this index or a greater one."""
        self._bound = _fraction(numerator, denominator)
        return self

    def run(self, graph: GraphBase) -> DataSet:
        """Return the pairs."""
        least, bound = self._least, self._bound
        pairs = supersteps.common_neighbors(graph, by_degree=False).map(_jaccard)
        kept = pairs.filter(lambda pair: pair[2] * least[1] >= pair[3] * least[0])
        return kept if bound is None else kept.filter(lambda pair: pair[2] * bound[1] < pair[3] * bound[0])


class AdamicAdar:
    """Computes ``(id, id, score)`` for pairs with common neighbours, each of which counts 1 / ln(its degree).

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import GraphGenerator
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> star = GraphGenerator(env).star(3)
    >>> [(one, other, round(score, 3)) for one, other, score in star.run(AdamicAdar()).collect()]
    [(1, 2, 1.443)]
    >>> star.run(AdamicAdar().set_minimum_score(2.0)).count(), star.run(AdamicAdar().set_minimum_ratio(1.0)).count()
    (0, 1)
    """

    _least = 0.0
    _ratio = 0.0

    def set_minimum_score(self, score: float) -> AdamicAdar:
        """Leave out pairs with a score below this."""
        self._least = _not_negative(score)
        return self

    def set_minimum_ratio(self, ratio: float) -> AdamicAdar:
        """Leave out pairs with a score below so many times the average."""
        self._ratio = _not_negative(ratio)
        return self

    def run(self, graph: GraphBase[K, Any, Any]) -> DataSet[tuple[K, K, float]]:
        """Return the pairs."""
        least = self._least
        pairs = supersteps.common_neighbors(graph, by_degree=True).map(
            lambda found: (*ordered(found[0], found[1]), found[2])
        )
        kept = pairs.filter(lambda pair: pair[2] >= least)
        if not self._ratio:
            return kept
        total = pairs.map(lambda pair: (pair[2], 1)).reduce(lambda one, other: (one[0] + other[0], one[1] + other[1]))
        return kept.filter(_AboveAverage(self._ratio)).with_broadcast_set(total, "total")


class _AboveAverage(FilterFunction[Any]):
    def __init__(self, ratio: float) -> None:
        self._ratio = ratio

    def open(self, context: DataSetRuntimeContext) -> None:
        """Learn the average."""
        total = context.get_broadcast_variable("total")
        self._least = self._ratio * total[0][0] / total[0][1] if total else 0.0

    def filter(self, pair: Any) -> bool:
        """Return True if the score is high enough; sums in another order differ in the last digits."""
        return bool(pair[2] >= self._least * (1 - 1e-12))


def _jaccard(found: Any) -> tuple[Any, Any, int, int]:
    one, other, shared, degree, other_degree = found
    return (*ordered(one, other), int(shared), degree + other_degree - int(shared))


def _fraction(numerator: int, denominator: int) -> tuple[int, int]:
    if numerator < 0 or denominator < 1:
        raise InvalidProgram(f"JaccardIndex: the score {numerator}/{denominator} has to be 0 or more.")
    return numerator, denominator


def _not_negative(value: float) -> float:
    if not value >= 0:
        raise InvalidProgram(f"AdamicAdar: {value!r} has to be 0 or more.")
    return value


# ---- Which vertices belong together: label propagation, community detection, and graphs of groups.


class LabelPropagation:
    """Computes ``(id, label)``: each vertex takes the label, at first its value, that most of the messages to it have.

    A vertex sends its label along its out-edges when that is new. Of equally frequent labels the greatest is taken; if each came
    once, the greatest of them and its own.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 3, None), (2, 3, None), (4, 3, None)], [(1, "a"), (2, "a"), (3, "c"), (4, "b")])
    >>> sorted(graph.run(LabelPropagation(5)).collect())
    [(1, 'a'), (2, 'a'), (3, 'a'), (4, 'b')]
    """

    def __init__(self, max_iterations: int) -> None:
        self._iterations = at_least(1, max_iterations, f"{type(self).__name__}: the number of iterations")

    def run(self, graph: GraphBase[K, V, Any]) -> DataSet[tuple[K, V]]:
        """Return the labels."""
        return supersteps.run_program(graph, supersteps.MostFrequent(), self._iterations + 1, "label propagation")


class CommunityDetection:
    """Returns the graph with labels as vertex values: labels with scores, which get weaker by ``delta`` when new.

    Edge values are weights, vertex values the first labels; edges are used both ways. Of equally strong labels
    the least is taken.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, 1.0), (1, 3, 1.0)], lambda id: id)
    >>> sorted(graph.run(CommunityDetection(1, 0.5)).get_vertices().collect())
    [(1, 2), (2, 1), (3, 1)]
    """

    def __init__(self, max_iterations: int, delta: float = 0.5) -> None:
        self._iterations = at_least(1, max_iterations, f"{type(self).__name__}: the number of iterations")
        self._delta = delta

    def run(self, graph: GraphBase) -> Any:
        """Return a graph with the labels."""
        labels = supersteps.run_program(
            graph, supersteps.StrongestLabel(self._delta), self._iterations + 1, "community detection"
        )
        return graph._new(labels, graph.get_edges())


class Summarization:
    """Returns the graph of groups: vertices with the same value become one, with the value ``(value, count)``.

    Its id is the least id of the group. Edges between two groups with the same value become one, with ``(value, count)``.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 3, "to"), (2, 3, "to"), (1, 2, "is")], [(1, "a"), (2, "a"), (3, "b")])
    >>> groups = graph.run(Summarization())
    >>> sorted(groups.get_vertices().collect()), sorted(groups.get_edges().collect())
    ([(1, ('a', 2)), (3, ('b', 1))], [(1, 1, ('is', 1)), (1, 3, ('to', 2))])
    """

    def run(self, graph: GraphBase) -> Any:
        """Return the graph of groups."""
        members = graph.get_vertices().map(lambda vertex: ((vertex[1],), vertex[0])).group_by(lambda pair: pair[0])
        groups = members.reduce_group(_group)
        edges = graph.get_edges()
        for place in (0, 1):
            edges = edges.join(groups).where(place).equal_to(1).using(_moved(place))
        counted = (
            edges.map(lambda edge: (edge[0], edge[1], (edge[2],), 1)).group_by(lambda edge: edge[:3]).reduce(_sum_of)
        )
        vertices = groups.filter(lambda group: group[0] == group[1]).map(lambda group: (group[0], (group[2], group[3])))
        return graph._new(vertices, counted.map(lambda edge: (edge[0], edge[1], (edge[2][0], edge[3]))))


def _group(pairs: Iterable[Any]) -> Iterator[Any]:
    """Yield (id of the group, member, value, size) per member."""
    found = list(pairs)
    least = min(member for _, member in found)
    for (value,), member in found:
        yield least, member, value, len(found)


def _moved(place: int) -> Any:
    def move(edge: Any, group: Any) -> Any:
        return (group[0], edge[1], edge[2]) if place == 0 else (edge[0], group[0], edge[2])

    return move


def _sum_of(one: Any, other: Any) -> Any:
    return (*one[:3], one[3] + other[3])
