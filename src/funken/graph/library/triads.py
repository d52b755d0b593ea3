"""The triadic census, and the numbers of a directed graph and of its edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from funken.graph.core import GraphBase
from funken.graph.library.analytics import GraphAnalytic


class TriadicCensus:
    """Gives how many of all sets of three vertices have which edges between them; loops and repeated edges do not count.

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
        from funken.graph.columns.triads import census, census_of_ways, census_records

        return GraphAnalytic(census_records(graph), census_of_ways if self._directed else census)


@dataclass(frozen=True)
class DirectedMetricsResult:
    """What ``DirectedMetrics`` finds. Degrees and paths are those of neighbours, whatever the direction.

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
    """Gives the numbers of vertices, of pairs connected one way or both ways, of paths of two edges, and the greatest degrees.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (2, 1, None), (1, 3, None)])
    >>> metrics = graph.run(DirectedMetrics()).execute()
    >>> metrics.unidirectional_edges, metrics.bidirectional_edges, metrics.maximum_out_degree, metrics.maximum_in_degree
    (1, 1, 2, 1)
    """

    def run(self, graph: GraphBase) -> GraphAnalytic:
        """Return the numbers, still to be computed."""
        from funken.graph.columns.triads import metrics_records

        return GraphAnalytic(metrics_records(graph), _of_all)


def _of_all(found: list[Any]) -> DirectedMetricsResult:
    vertices, single, ends, triplets = (sum(each[place] for each in found) for place in range(4))
    degree, out, into = (max((each[place] for each in found), default=0) for place in (4, 5, 6))
    return DirectedMetricsResult(vertices, single, ends // 2, triplets, degree, out, into, degree * (degree - 1) // 2)


@dataclass(frozen=True)
class EdgeMetricsResult:
    """What ``EdgeMetrics`` finds.

    >>> EdgeMetricsResult(2, 6, 1, 3).triangle_triplets
    2
    """

    triangle_triplets: int
    rectangle_triplets: int
    maximum_triangle_triplets: int
    maximum_rectangle_triplets: int


class EdgeMetrics:
    """Gives how many paths of two edges are to be looked at for triangles and for rectangles, and the most of a vertex.

    Edges lead to the end with more neighbours, or the greater id of two with as many. For triangles it is enough to look at
    pairs of edges that leave a vertex; for rectangles, at those and at pairs of which one leaves. So these numbers tell what
    such a search costs. Directions, loops and repeated edges of the graph do not count.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import GraphGenerator
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> GraphGenerator(env).complete(4).run(EdgeMetrics()).execute().triangle_triplets
    4
    """

    def run(self, graph: GraphBase) -> GraphAnalytic:
        """Return the numbers, still to be computed."""
        from funken.graph.columns.triads import edge_metrics_records

        return GraphAnalytic(edge_metrics_records(graph), _edges_of_all)


def _edges_of_all(found: list[Any]) -> EdgeMetricsResult:
    triangles, rectangles = (sum(each[place] for each in found) for place in (0, 1))
    return EdgeMetricsResult(
        triangles, rectangles, *(max((each[place] for each in found), default=0) for place in (2, 3))
    )
