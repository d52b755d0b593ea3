"""Triangles, and what follows from them. Loops and repeated edges do not count, and directions only where ``directed`` is set."""

from __future__ import annotations

from typing import Any

from funken.dataset import DataSet
from funken.graph.core import GraphBase
from funken.graph.library.analytics import GraphAnalytic, GraphMetricsResult


class TriangleListing:
    """Gives each triangle once, as ``(id, id, id)``; in order, if ids have one.

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

    def run(self, graph: GraphBase) -> DataSet:
        """Return the triangles."""
        from funken.graph.columns.triads import in_all_orders

        found = self._each_once(graph)
        return found.flat_map(in_all_orders) if self._permutes else found

    def _each_once(self, graph: GraphBase) -> DataSet:
        from funken.graph.columns.triads import triangles_in_order
        from funken.graph.columns.triangles import WITH_WAYS, resolved, triangle_numbers

        if self._directed:
            return resolved(graph, triangle_numbers(graph, WITH_WAYS), 3, WITH_WAYS).map(triangles_in_order)
        return resolved(graph, triangle_numbers(graph), 3).map(_sorted)


class TriangleCount:
    """Gives the number of triangles.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import GraphGenerator
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> GraphGenerator(env).complete(5).run(TriangleCount()).execute()
    10
    """

    def run(self, graph: GraphBase) -> GraphAnalytic:
        """Return the number, still to be computed."""
        from funken.graph.columns.triangles import triangle_count

        return GraphAnalytic(triangle_count(graph), sum)


class LocalClusteringCoefficient:
    """Gives ``(id, degree, triangles)``; the coefficient is ``triangles / (degree * (degree - 1) / 2)``.

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

    def run(self, graph: GraphBase) -> DataSet:
        """Return degrees and triangles."""
        from funken.graph.columns.triangles import UNDIRECTED, WITH_WAYS, triangles_per_vertex

        found = triangles_per_vertex(graph, WITH_WAYS if self._directed else UNDIRECTED)
        return found if self._all else found.filter(lambda record: record[1] > 0)


class AverageClusteringCoefficient:
    """Gives the mean of the local coefficients; a vertex with less than two neighbours counts as 0.

    ``directed``: of the directed local coefficients.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import GraphGenerator
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> GraphGenerator(env).complete(4).run(AverageClusteringCoefficient()).execute()
    1.0
    """

    def __init__(self, directed: bool = False) -> None:
        self._directed = directed

    def run(self, graph: GraphBase) -> GraphAnalytic:
        """Return the mean, still to be computed."""
        coefficient = _directed_coefficient if self._directed else _coefficient
        local = LocalClusteringCoefficient(directed=self._directed).run(graph).map(coefficient)
        summed = local.reduce(lambda one, other: (one[0] + other[0], one[1] + other[1]))
        return GraphAnalytic(summed, lambda found: found[0][0] / found[0][1] if found else 0.0)


class GlobalClusteringCoefficient:
    """Gives the share of paths of two edges that are part of a triangle.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import GraphGenerator
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> GraphGenerator(env).star(4).run(GlobalClusteringCoefficient()).execute()
    0.0
    """

    def run(self, graph: GraphBase) -> GraphAnalytic:
        """Return the share, still to be computed."""
        local = LocalClusteringCoefficient().run(graph).map(lambda each: (each[2], each[1] * (each[1] - 1) // 2))
        summed = local.reduce(lambda one, other: (one[0] + other[0], one[1] + other[1]))
        return GraphAnalytic(summed, lambda found: found[0][0] / found[0][1] if found and found[0][1] else 0.0)


class GraphMetrics:
    """Gives the numbers of vertices, edges and paths of two edges, and the greatest degree.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import GraphGenerator
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> GraphGenerator(env).star(4).run(GraphMetrics()).execute()
    GraphMetricsResult(vertices=4, edges=3, triplets=3, maximum_degree=3, maximum_triplets=3)
    """

    def run(self, graph: GraphBase) -> GraphAnalytic:
        """Return the numbers, still to be computed."""
        from funken.graph.columns.triangles import undirected_parts

        return GraphAnalytic(undirected_parts(graph).map(_metrics), _metrics_of_all)


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
