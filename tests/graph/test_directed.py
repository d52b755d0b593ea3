"""Directed triangles, clustering, metrics and the triadic census against networkx, plain loops and the reference's tables."""

from itertools import combinations, permutations

import networkx
import pytest

from funken.graph import (
    AverageClusteringCoefficient,
    ConnectedComponents,
    DirectedMetrics,
    Graph,
    LocalClusteringCoefficient,
    TriadicCensus,
    TriangleListing,
)
from tests.dataset.programs import environment
from tests.graph.examples import asm, odd

PARALLELISMS = [1, 2, 4]


@pytest.fixture(params=[(seed, parallelism) for seed in (1, 2, 5) for parallelism in PARALLELISMS], ids=str)
def case(request):
    """Return a graph with loops, repeated edges, edges both ways, and the same one of networkx."""
    seed, parallelism = request.param
    vertices, edges = odd(seed)
    edges = edges + [(target + 1, source) for source, target in edges] + [(b, a) for a, b in edges[::3]]
    vertices = [*vertices, "alone"] if seed == 2 else vertices
    peer = networkx.DiGraph((a, b) for a, b in edges if a != b)
    peer.add_nodes_from(vertices)
    graph = Graph.from_collection(environment(parallelism), [(*e, None) for e in edges], [(v, None) for v in vertices])
    return graph, peer


def way(peer, a, b):
    return peer.has_edge(a, b) + 2 * peer.has_edge(b, a)


def test_the_census_is_that_of_networkx(case):
    graph, peer = case

    found = graph.run(TriadicCensus()).execute()

    assert found == networkx.triadic_census(peer)
    assert sum(map(bool, found.values())) > 10
    both = peer.to_undirected()
    expected = dict.fromkeys(range(4), 0)
    for triad in combinations(both, 3):
        expected[both.subgraph(triad).number_of_edges()] += 1
    assert graph.run(TriadicCensus(directed=False)).execute() == expected


def test_directions_of_triangles_and_what_is_between_neighbours(case):
    graph, peer = case
    both = peer.to_undirected()

    found = {tuple(ids): ways for *ids, ways in graph.run(TriangleListing(directed=True)).collect()}
    assert found == {
        (a, b, c): way(peer, a, b) << 4 | way(peer, a, c) << 2 | way(peer, b, c)
        for a, b, c in combinations(sorted(v for v in peer if v != "alone"), 3)
        if both.has_edge(a, b) and both.has_edge(b, c) and both.has_edge(a, c)
    }
    assert len(found) > 15
    permuted = graph.run(TriangleListing(directed=True, permute_results=True)).collect()
    assert len(permuted) == 6 * len(found)
    assert {tuple(ids): ways for *ids, ways in permuted} == {
        order: way(peer, order[0], order[1]) << 4 | way(peer, order[0], order[2]) << 2 | way(peer, order[1], order[2])
        for triangle in found
        for order in permutations(triangle)
    }
    plain = graph.run(TriangleListing(permute_results=True)).collect()
    assert sorted(plain) == sorted(tuple(ids) for *ids, _ in permuted)
    local = {v: (both.degree(v), sum(peer.has_edge(a, b) for a, b in permutations(both[v], 2))) for v in both}
    assert {v: rest for v, *rest in graph.run(LocalClusteringCoefficient(directed=True)).collect()} == {
        v: list(rest) for v, rest in local.items()
    }
    mean = sum(between / (degree * (degree - 1)) for degree, between in local.values() if degree > 1) / len(local)
    assert graph.run(AverageClusteringCoefficient(directed=True)).execute() == pytest.approx(mean)


def test_metrics(case):
    graph, peer = case
    both = peer.to_undirected()
    degrees = dict(both.degree())
    mutual = sum(peer.has_edge(b, a) for a, b in peer.edges()) // 2

    found = graph.run(DirectedMetrics()).execute()

    assert (found.vertices, found.unidirectional_edges) == (len(peer), peer.number_of_edges() - 2 * mutual)
    assert found.bidirectional_edges == mutual > 0
    assert found.triplets == sum(d * (d - 1) // 2 for d in degrees.values())
    greatest = max(degrees.values())
    assert (found.maximum_degree, found.maximum_triplets) == (greatest, greatest * (greatest - 1) // 2)
    assert found.maximum_out_degree == max(d for _, d in peer.out_degree())
    assert found.maximum_in_degree == max(d for _, d in peer.in_degree())


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_the_tables_of_the_small_graph(parallelism):
    directed = asm(parallelism)

    assert list(asm(parallelism, undirected=True).run(TriadicCensus(False)).execute().values()) == [3, 8, 7, 2]
    assert list(directed.run(TriadicCensus()).execute().values()) == [3, 8, 0, 1, 2, 4, 0, 0, 2, *[0] * 7]
    metrics = directed.run(DirectedMetrics()).execute()
    assert (metrics.vertices, metrics.unidirectional_edges, metrics.bidirectional_edges) == (6, 7, 0)
    assert (metrics.triplets, metrics.maximum_degree, metrics.maximum_out_degree) == (13, 4, 2)
    assert (metrics.maximum_in_degree, metrics.maximum_triplets) == (3, 6)


def test_the_census_of_a_graph_without_edges_and_of_a_large_one():
    env = environment()
    empty = Graph.from_collection(env, [(0, 0, None)], [(n, None) for n in range(5)])
    assert empty.run(TriadicCensus()).execute()["003"] == 10
    assert empty.run(DirectedMetrics()).execute().maximum_out_degree == 0
    star = Graph.from_collection(env, [(0, n, None) for n in range(1, 3001)])
    census = star.run(TriadicCensus()).execute()
    assert {name: count for name, count in census.items() if count} == {"003": 4495501000, "021D": 4498500}


@pytest.mark.parametrize("ids", [lambda n: n, lambda n: f"v{n:02}"], ids=["numbers", "texts"])
def test_values_of_a_function_are_made_of_each_vertex_once(ids):
    seen = []

    def value(vertex):
        seen.append(vertex)
        return vertex

    edges = [(ids(a), ids(b), None) for a, b in odd(1)[1]]
    graph = Graph.from_collection(environment(), edges, value)
    found = dict(graph.run(ConnectedComponents(50)).collect())

    assert sorted(seen) == sorted(found) == sorted({end for edge in edges for end in edge[:2]})
    peer = networkx.Graph(edge[:2] for edge in edges)
    for component in networkx.connected_components(peer):
        assert {found[vertex] for vertex in component} == {min(component)}
