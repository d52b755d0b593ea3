"""Triangles, clustering, similarity and generators against networkx and the tables of the reference."""

import math

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from funken.graph import (
    AdamicAdar,
    AverageClusteringCoefficient,
    ConnectedComponents,
    EdgeMetrics,
    EdgeMetricsResult,
    GlobalClusteringCoefficient,
    Graph,
    GraphGenerator,
    GraphMetrics,
    JaccardIndex,
    LocalClusteringCoefficient,
    RMatGraph,
    TriangleCount,
    TriangleListing,
)
from funken.graph.columns import triads as columns
from tests.dataset.programs import environment
from tests.graph.examples import asm, odd, rmat, spread

PARALLELISMS = [1, 2, 4]


@pytest.mark.parametrize("parallelism", PARALLELISMS)
@pytest.mark.parametrize("shape", [odd(1), odd(2), rmat(), spread()], ids=["odd", "odd 2", "R-MAT", "random"])
def test_triangles_and_similarity_are_those_of_networkx(shape, parallelism):
    vertices, edges = shape
    edges = edges + [(target + 1, source) for source, target in edges]
    vertices = [*vertices, "alone"]
    peer = networkx.Graph((source, target) for source, target in edges if source != target)
    peer.add_nodes_from(vertices)
    graph = Graph.from_collection(
        environment(parallelism), [(*edge, None) for edge in edges], [(vertex, None) for vertex in vertices]
    )

    triangles = networkx.triangles(peer)
    local = graph.run(LocalClusteringCoefficient()).collect()
    assert {vertex: (degree, count) for vertex, degree, count in local} == {
        vertex: (peer.degree(vertex), triangles[vertex]) for vertex in peer
    }
    assert sum(triangles.values()) > 30
    assert graph.run(TriangleCount()).execute() == sum(triangles.values()) // 3
    listed = graph.run(TriangleListing()).collect()
    assert len(set(listed)) == len(listed) == sum(triangles.values()) // 3
    assert all(peer.has_edge(a, b) and peer.has_edge(b, c) and peer.has_edge(a, c) for a, b, c in listed)
    assert math.isclose(graph.run(AverageClusteringCoefficient()).execute(), networkx.average_clustering(peer))
    assert math.isclose(graph.run(GlobalClusteringCoefficient()).execute(), networkx.transitivity(peer))

    known = [vertex for vertex in peer if vertex != "alone"]
    pairs = [(a, b) for a in known for b in known if a < b and set(peer[a]) & set(peer[b])]
    jaccard = {(a, b): shared / distinct for a, b, shared, distinct in graph.run(JaccardIndex()).collect()}
    assert jaccard == pytest.approx({(a, b): score for a, b, score in networkx.jaccard_coefficient(peer, pairs)})
    adamic = {(a, b): score for a, b, score in graph.run(AdamicAdar()).collect()}
    assert adamic == pytest.approx({(a, b): score for a, b, score in networkx.adamic_adar_index(peer, pairs)})


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_the_tables_of_the_small_graph(parallelism):
    graph = asm(parallelism, undirected=True)

    expected = [(0, 2, 1), (1, 3, 2), (2, 3, 2), (3, 4, 1), (4, 1, 0), (5, 1, 0)]
    assert sorted(graph.run(LocalClusteringCoefficient()).collect()) == expected
    assert sorted(graph.run(TriangleListing()).collect()) == [(0, 1, 2), (1, 2, 3)]
    assert graph.run(AverageClusteringCoefficient()).execute() == pytest.approx(0.4166667, abs=1e-7)
    assert graph.run(GlobalClusteringCoefficient()).execute() == pytest.approx(6 / 13)
    metrics = graph.run(GraphMetrics()).execute()
    assert (metrics.vertices, metrics.edges, metrics.triplets) == (6, 7, 13)
    assert (metrics.maximum_degree, metrics.maximum_triplets) == (4, 6)
    jaccard = ["014", "024", "034", "124", "136", "143", "153", "236", "243", "253", "451"]
    shared = [1, 1, 2, 2, 1, 1, 1, 1, 1, 1, 1]
    table = [(int(a), int(b), each, int(of)) for (a, b, of), each in zip(jaccard, shared, strict=True)]
    assert sorted(graph.run(JaccardIndex()).collect()) == table
    half = JaccardIndex().set_minimum_score(1, 2)
    assert sorted(graph.run(half).collect()) == [(0, 3, 2, 4), (1, 2, 2, 4), (4, 5, 1, 1)]
    ln2, ln3, ln4 = (1 / math.log(degree) for degree in (2, 3, 4))
    scores = {(0, 1): ln3, (0, 2): ln3, (0, 3): 2 * ln3, (1, 2): ln2 + ln4, (1, 3): ln3, (2, 3): ln3}
    scores |= dict.fromkeys([(1, 4), (1, 5), (2, 4), (2, 5), (4, 5)], ln4)
    assert {(a, b): score for a, b, score in graph.run(AdamicAdar()).collect()} == pytest.approx(scores)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_tables_of_the_generated_graph(parallelism):
    graph = RMatGraph(environment(parallelism), 8, 8, 42).generate()

    metrics = graph.run(GraphMetrics()).execute()
    assert (metrics.vertices, metrics.edges, metrics.triplets, metrics.maximum_degree) == (226, 1290, 42610, 128)
    assert graph.run(TriangleCount()).execute() == 3591
    assert graph.run(AverageClusteringCoefficient()).execute() == pytest.approx(0.3825223416)
    assert sum(score for _, _, score in graph.run(AdamicAdar()).collect()) == pytest.approx(11445.708610)
    pairs = graph.run(JaccardIndex()).collect()
    assert len(pairs) == 14566
    assert sum(shared / distinct for _, _, shared, distinct in pairs) == pytest.approx(1710.297987)


def test_components_of_the_larger_generated_graph():
    graph = RMatGraph(environment(), 10, 16, 42).generate()
    with_ids = Graph.from_data_set(graph.get_edges(), lambda vertex: vertex)

    found = with_ids.run(ConnectedComponents(20)).collect()

    assert len(found) == 879
    assert {component for _, component in found} == {0}
    assert graph.run(TriangleCount()).execute() == 76484


def test_regular_graphs_are_those_of_networkx():
    graphs = GraphGenerator(environment())
    peers = [
        (graphs.complete(5), networkx.complete_graph(5)),
        (graphs.hypercube(3), networkx.convert_node_labels_to_integers(networkx.hypercube_graph(3), ordering="sorted")),
        (graphs.grid((3, False), (4, False)), networkx.convert_node_labels_to_integers(networkx.grid_2d_graph(3, 4))),
        (
            graphs.grid((3, True), (4, True)),
            networkx.convert_node_labels_to_integers(networkx.grid_2d_graph(3, 4, True)),
        ),
        (graphs.circulant(8, (1, 1), (3, 2)), networkx.circulant_graph(8, [1, 3, 4])),
        (graphs.star(6), networkx.star_graph(5)),
    ]
    for graph, peer in peers:
        assert sorted(graph.get_edge_ids().collect()) == sorted(peer.to_directed().edges()), peer


@given(
    st.integers(0, 2**32 - 1),
    st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 300)),
    st.floats(0, 1),
    st.sampled_from([0, 30, 10**9]),
)
@settings(deadline=None, max_examples=150)
def test_bits_and_products_count_each_triangle_once(seed, sizes, density, cost):
    random = np.random.default_rng(seed)
    u, v, w = sizes
    dense = [(random.random(shape) < density).astype(np.int64) for shape in ((u, v), (v, w), (u, w))]
    dense[1] *= random.random(w) < random.random()  # some end many paths, others none
    first, second, closing = map(sparse.csr_array, dense)
    before = columns.BITS, columns.EDGE_COST
    columns.BITS, columns.EDGE_COST = 64, cost
    try:
        found, left = columns._by_bits(first, second, closing)
    finally:
        columns.BITS, columns.EDGE_COST = before

    by_column = ((dense[0] @ dense[1]) * dense[2]).sum(axis=0)
    assert found + by_column[left].sum() == by_column.sum()
    if cost == 0 and first.nnz:
        assert not left.any()
    if cost == 10**9 and first.nnz:
        assert found == 0
    kept = columns._of_columns(second, left)
    assert (kept.toarray() == dense[1] * left).all()


def test_triangles_of_a_graph_whose_hubs_are_bits(monkeypatch):
    monkeypatch.setattr(columns, "BITS", 64)
    monkeypatch.setattr(columns, "EDGE_COST", 20)
    graph = RMatGraph(environment(2), scale=8, edge_factor=8, seed=42).generate()

    assert graph.run(TriangleCount()).execute() == 3591


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_edge_metrics(parallelism):
    assert asm(parallelism).run(EdgeMetrics()).execute() == EdgeMetricsResult(2, 6, 1, 3)
    assert GraphGenerator(environment(parallelism)).empty(3).run(EdgeMetrics()).execute() == EdgeMetricsResult(
        0, 0, 0, 0
    )
    graph = RMatGraph(environment(parallelism), scale=6, edge_factor=4, seed=3).generate()
    peer = networkx.Graph((source, target) for source, target, _ in graph.get_edges().collect() if source != target)

    low = {v: sum((peer.degree(w), w) > (peer.degree(v), v) for w in peer[v]) for v in peer}
    triangles = [math.comb(low[v], 2) for v in peer]
    rectangles = [math.comb(low[v], 2) + low[v] * (peer.degree(v) - low[v]) for v in peer]
    right = EdgeMetricsResult(sum(triangles), sum(rectangles), max(triangles), max(rectangles))
    assert graph.run(EdgeMetrics()).execute() == right
    assert graph.get_undirected().run(EdgeMetrics()).execute() == right
