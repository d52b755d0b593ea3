"""Every algorithm of the library on Spark: the same as in one process."""

import pytest

from funken import Configuration
from funken.dataset import ExecutionEnvironment
from funken.graph import (
    HITS,
    AdamicAdar,
    AverageClusteringCoefficient,
    BreadthFirstSearch,
    CommunityDetection,
    ConnectedComponents,
    DirectedMetrics,
    EdgeDegreesPair,
    EdgeMetrics,
    GlobalClusteringCoefficient,
    Graph,
    GraphMetrics,
    JaccardIndex,
    LabelPropagation,
    LocalClusteringCoefficient,
    PageRank,
    SingleSourceShortestPaths,
    Summarization,
    TriadicCensus,
    TriangleCount,
    TriangleListing,
    VertexDegrees,
)
from tests.dataset.programs import environment
from tests.graph.examples import rmat

pytestmark = pytest.mark.spark

VERTICES, EDGES = rmat()
RECORDS = {
    "PageRank": PageRank(0.85, 30, 1e-9, True),
    "HITS": HITS(20),
    "components": ConnectedComponents(50),
    "shortest paths": SingleSourceShortestPaths(0, 50),
    "levels": BreadthFirstSearch(0, 50),
    "labels": LabelPropagation(7),
    "triangles": TriangleListing(),
    "directed triangles": TriangleListing(directed=True),
    "local clustering": LocalClusteringCoefficient(),
    "Jaccard": JaccardIndex(),
    "Adamic-Adar": AdamicAdar(),
    "degrees": VertexDegrees(True),
    "degrees beside edges": EdgeDegreesPair(),
}
GRAPHS = {"communities": CommunityDetection(5, 0.5), "groups": Summarization()}
NUMBERS = {
    "triangle count": TriangleCount(),
    "average clustering": AverageClusteringCoefficient(),
    "directed average clustering": AverageClusteringCoefficient(directed=True),
    "global clustering": GlobalClusteringCoefficient(),
    "census": TriadicCensus(),
    "undirected census": TriadicCensus(directed=False),
    "metrics": GraphMetrics(),
    "directed metrics": DirectedMetrics(),
    "edge metrics": EdgeMetrics(),
}


def graph(env):
    edges = [(source, target, 1 + (3 * source + target) % 5) for source, target in EDGES]
    return Graph.from_collection(env, edges, [(vertex, vertex % 9) for vertex in VERTICES])


def on_spark():
    return graph(ExecutionEnvironment.get_execution_environment(Configuration({"parallelism.default": 2})))


def assert_same(found, expected):
    """Compare records, whatever their order; sums of fractions may differ in their last digits."""
    assert len(found) == len(expected) > 0
    for one, other in zip(sorted(found), sorted(expected), strict=True):
        assert one == (
            pytest.approx(other, rel=1e-9) if all(isinstance(each, (int, float)) for each in other) else other
        )


@pytest.mark.parametrize("name", RECORDS)
def test_records_of_an_algorithm(name):
    assert_same(on_spark().run(RECORDS[name]).collect(), graph(environment(4)).run(RECORDS[name]).collect())


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_of_an_algorithm(name):
    found, expected = (given.run(GRAPHS[name]) for given in (on_spark(), graph(environment(4))))

    assert sorted(found.get_vertices().collect()) == sorted(expected.get_vertices().collect())
    assert sorted(found.get_edges().collect()) == sorted(expected.get_edges().collect())


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_an_algorithm(name):
    found = on_spark().run(NUMBERS[name]).execute()
    expected = graph(environment(4)).run(NUMBERS[name]).execute()

    assert found == (pytest.approx(expected, rel=1e-12) if isinstance(expected, float) else expected)
