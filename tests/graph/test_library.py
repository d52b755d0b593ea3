"""The library's algorithms against networkx and the tables of the reference, at several parallelisms."""

import math

import networkx
import numpy as np
import pytest

from funken.dataset import ExecutionEnvironment
from funken.errors import FunkenError, InvalidProgram
from funken.graph import (
    HITS,
    BreadthFirstSearch,
    CommunityDetection,
    ConnectedComponents,
    Graph,
    LabelPropagation,
    PageRank,
    SingleSourceShortestPaths,
    Summarization,
)
from tests.dataset.programs import environment
from tests.graph.examples import asm, default, odd, rmat, spread

PARALLELISMS = [1, 2, 4]
SHAPES = {
    "odd": odd(3),
    "R-MAT": rmat(),
    "random": spread(),
    "star": (range(9), [(0, n) for n in range(1, 9)]),
    "grid": (range(12), [(n, n + 1) for n in range(12) if n % 4 < 3] + [(n, n + 4) for n in range(8)]),
    "texts": (["a", "b", "c", "d", ("e", 1)], [("a", "b"), ("b", "c"), ("c", "a"), (("e", 1), "a"), ("b", "b")]),
    "mixed ids": ([1, "1", 2.5, 1 << 70], [(1, "1"), (2.5, 1), (True, 1 << 70), (1.0, "1")]),
    "one vertex": ([5], []),
}


def close(found, expected):
    assert dict(found).keys() == dict(expected).keys()
    for vertex, value in found:
        assert math.isclose(value, dict(expected)[vertex], abs_tol=1e-9), vertex


@pytest.fixture(params=[(shape, parallelism) for shape in SHAPES for parallelism in PARALLELISMS], ids=str)
def case(request):
    """Return a graph, and the same one of networkx."""
    shape, parallelism = request.param
    vertices, edges = SHAPES[shape]
    order = {vertex: number for number, vertex in enumerate(vertices)}
    weighted = [(source, target, 1 + (3 * order[source] + order[target]) % 5) for source, target in edges]
    env = environment(parallelism)
    graph = Graph.from_collection(env, weighted, [(vertex, order[vertex]) for vertex in vertices])
    peer = networkx.MultiDiGraph()
    peer.add_nodes_from(vertices)
    peer.add_weighted_edges_from(weighted)
    return graph, peer, order


def test_pagerank(case):
    graph, peer, _ = case

    found = graph.run(PageRank(0.85, 200, 1e-12, include_zero_degree_vertices=True)).collect()

    close(found, networkx.pagerank(peer, 0.85, max_iter=500, tol=1e-13, weight=None))


def test_components(case):
    graph, peer, order = case

    found = dict(graph.run(ConnectedComponents(50)).collect())

    for component in networkx.weakly_connected_components(peer):
        assert {found[vertex] for vertex in component} == {min(order[vertex] for vertex in component)}
    assert found.keys() == set(peer)


def test_shortest_paths_and_levels(case):
    graph, peer, order = case
    start = next(iter(order))

    lengths = networkx.single_source_dijkstra_path_length(peer, start)
    close(graph.run(SingleSourceShortestPaths(start, 50)).collect(), {v: lengths.get(v, math.inf) for v in order})
    levels = networkx.single_source_shortest_path_length(peer, start)
    assert dict(graph.run(BreadthFirstSearch(start, 50)).collect()) == dict(levels)


def propagated(peer, labels, steps, choose):
    """Label propagation as a plain loop: ``choose(own label, labels that came)``."""
    active = set(peer)
    for _ in range(steps):
        came = {}
        for source, target in peer.edges():
            if source in active:
                came.setdefault(target, []).append(labels[source])
        new = {vertex: choose(labels[vertex], found) for vertex, found in came.items()}
        active = {vertex for vertex, label in new.items() if label != labels[vertex]}
        labels = labels | new
    return labels


def most_frequent(own, came):
    most = max(map(came.count, came))
    best = max(label for label in came if came.count(label) == most)
    return best if most > 1 else max(best, own)


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_label_propagation(case, steps):
    graph, peer, order = case

    found = dict(graph.run(LabelPropagation(steps)).collect())

    assert found == propagated(peer, order, steps, most_frequent)


def test_hits(case):
    graph, peer, order = case
    names = list(order)
    adjacent = np.zeros((len(names), len(names)))
    for source, target in peer.edges():
        adjacent[order[source], order[target]] += 1
    hubs = np.ones(len(names))
    for _ in range(40):
        authorities = adjacent.T @ hubs
        authorities /= np.linalg.norm(authorities) or 1.0
        hubs = adjacent @ authorities
        hubs /= np.linalg.norm(hubs) or 1.0

    found = graph.run(HITS(40)).collect()

    close([(vertex, hub) for vertex, hub, _ in found], dict(zip(names, hubs, strict=True)))
    close([(vertex, score) for vertex, _, score in found], dict(zip(names, authorities, strict=True)))


# ---- the tables of the reference


def rounded(records, digits):
    return [tuple(round(value, digits) for value in record[1:]) for record in sorted(records)]


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_the_tables_of_ranks(parallelism):
    ranks = [score for _, score in sorted(asm(parallelism).run(PageRank(0.85, 20)).collect())]
    assert ranks == pytest.approx([0.0909212, 0.2795161, 0.1295627, 0.2232684, 0.1858104, 0.0909212], abs=2e-7)
    first = [0.2407987942, 0.1323760848, 0.2448635835, 0.1340239910, 0.2479375465]
    assert [score for (score,) in rounded(default(parallelism).run(PageRank(0.85, 20)).collect(), 10)] == first
    scores = rounded(asm(parallelism).run(HITS(20)).collect(), 9)
    # The table has seven digits, and rounds some of them up.
    hubs, authorities = zip(*scores, strict=True)
    assert hubs == pytest.approx((0.5446434, 0, 0.6072271, 0.5446434, 0, 0.1949423), abs=2e-7)
    assert authorities == pytest.approx((0, 0.8363294, 0.2684925, 0.395445, 0.2684925, 0), abs=2e-7)


def test_vertices_without_edges_have_a_rank_if_wanted():
    env = environment()
    empty = Graph.from_collection(env, [(0, 0, None)], [(0, 0), (1, 0), (2, 0)]).remove_edge(0, 0)

    assert empty.run(PageRank(0.85, 5)).collect() == []
    assert rounded(empty.run(PageRank(0.85, 5, None, True)).collect(), 9) == [(round(1 / 3, 9),)] * 3


def test_a_threshold_ends_earlier():
    graph = default()
    graph.run(PageRank(0.85, 100, 1e-6)).collect()
    supersteps = graph.get_context().get_last_job_execution_result().iterations[0][1]

    assert 5 < supersteps < 60


def test_components_of_a_long_path_within_the_maximum():
    path = Graph.from_collection(environment(), [(n, n + 1, None) for n in range(199)], lambda n: n)

    assert sorted(path.run(ConnectedComponents(50)).collect()) == [(n, max(0, n - 50)) for n in range(200)]


def test_the_tables_of_labels():
    vertices = [(1, 10), (2, 10), (3, 30), (4, 40), (5, 40), (6, 40), (7, 40)]
    edges = [(1, 3), (2, 3), (7, 3), (4, 7), (5, 7), (6, 7)]
    graph = Graph.from_collection(environment(), [(*edge, None) for edge in edges], vertices)
    assert dict(graph.run(LabelPropagation(1)).collect()) == dict(vertices) | {3: 10}

    def detected(graph, steps=1):
        return [label for _, label in sorted(graph.run(CommunityDetection(steps, 0.5)).get_vertices().collect())]

    env = environment()
    star = Graph.from_collection(env, [(1, n, 1.0) for n in range(2, 6)], lambda n: n)
    assert detected(star) == [2, 1, 1, 1, 1]
    heavy = [(1, 2, 1), (1, 3, 2), (1, 4, 3), (1, 5, 4), (2, 6, 5), (6, 7, 6), (6, 8, 7), (7, 8, 8)]
    assert detected(Graph.from_collection(env, heavy, lambda n: n)) == [5, 6, 1, 1, 1, 8, 8, 7]
    assert detected(asm(values=lambda source, target: source + target), 10) == [3, 5, 5, 3, 5, 5]


def test_summarization():
    vertices = [(0, 1), (1, 1), (2, 2), (3, 2), (4, 2), (5, 3)]
    edges = [
        (0, 1, 1),
        (1, 0, 1),
        (1, 2, 1),
        (2, 1, 1),
        (2, 3, 2),
        (3, 2, 2),
        (4, 0, 3),
        (4, 1, 3),
        (5, 2, 4),
        (5, 3, 4),
    ]

    groups = Graph.from_collection(environment(), edges, vertices).run(Summarization())

    assert sorted(groups.get_vertices().collect()) == [(0, (1, 2)), (2, (2, 3)), (5, (3, 1))]
    expected = [(0, 0, (1, 2)), (0, 2, (1, 1)), (2, 0, (1, 1)), (2, 0, (3, 2)), (2, 2, (2, 2)), (5, 2, (4, 2))]
    assert sorted(groups.get_edges().collect()) == expected


@pytest.mark.parametrize(
    "wrong", [lambda: PageRank(1.5, 3), lambda: PageRank(0.85), lambda: HITS(0), lambda: HITS(threshold=-1)]
)
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(InvalidProgram):
        wrong()


def test_missing_values_are_named():
    graph = Graph.from_collection(environment(), [(1, 2, "far")])

    with pytest.raises(InvalidProgram, match="needs numbers as edge values, but an edge has 'far'"):
        graph.run(SingleSourceShortestPaths(1, 3)).collect()
    with pytest.raises(InvalidProgram, match="need a value per vertex"):
        graph.run(ConnectedComponents(3)).collect()


@pytest.mark.parametrize("algorithm", [ConnectedComponents(5), LabelPropagation(5), CommunityDetection(5)])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_vertex_without_a_value_is_named(algorithm, parallelism):
    env = ExecutionEnvironment.create_local_environment(parallelism=parallelism)
    edges = [(1, 2, 1.0), (3, 2, 1.0)]

    def run(vertices):
        made = Graph.from_collection(env, edges, vertices).run(algorithm)
        return (made.get_vertices() if hasattr(made, "get_vertices") else made).collect()

    for vertices in ([(1, 1), (2, 2)], [(1, 1), (2, 2), (3, None)]):
        with pytest.raises(FunkenError, match=r"the vertex 3 has None: .* not among the vertices\. Give"):
            run(vertices)
    with pytest.raises(
        FunkenError, match="values of two vertices cannot be compared: .*Give all vertices values of one type"
    ):
        run([(1, 1), (2, "b"), (3, "c")])
