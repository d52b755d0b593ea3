"""Degrees beside vertices and edges, and graphs without hubs, against sets of neighbours."""

import pytest

from funken.errors import InvalidProgram
from funken.graph import (
    Degrees,
    EdgeDegreesPair,
    EdgeSourceDegrees,
    EdgeTargetDegrees,
    Graph,
    MaximumDegree,
    VertexDegrees,
)
from tests.dataset.programs import environment
from tests.graph.examples import odd, rmat, spread

SHAPES = {
    "odd": odd(3),
    "R-MAT": rmat(5, 90),
    "random": spread(),
    "texts": (["a", "b", "c", "d"], [("a", "b"), ("c", "a")]),
}


@pytest.fixture(params=[(shape, parallelism) for shape in SHAPES for parallelism in (1, 2, 4)], ids=str)
def case(request):
    """Return a graph, its vertices and edges, and the degrees of each vertex."""
    shape, parallelism = request.param
    vertices, edges = SHAPES[shape]
    graph = Graph.from_collection(
        environment(parallelism),
        [(*edge, number) for number, edge in enumerate(edges)],
        [(vertex, None) for vertex in vertices],
    )
    out = {vertex: {target for source, target in edges if source == vertex} for vertex in vertices}
    into = {vertex: {source for source, target in edges if target == vertex} for vertex in vertices}
    degrees = {v: Degrees(len(out[v] | into[v]), len(out[v]), len(into[v])) for v in vertices}
    return graph, edges, degrees


def test_degrees_of_vertices(case):
    graph, _, degrees = case

    assert dict(graph.run(VertexDegrees(include_zero_degree_vertices=True)).collect()) == degrees
    some = dict(graph.run(VertexDegrees()).collect())
    assert some == {vertex: each for vertex, each in degrees.items() if each.degree}


def test_degrees_beside_edges(case):
    graph, edges, degrees = case

    def by_number(algorithm):
        return {value[0]: (source, target, *value[1:]) for source, target, value in graph.run(algorithm).collect()}

    pairs = by_number(EdgeDegreesPair())
    assert pairs == {n: (source, target, degrees[source], degrees[target]) for n, (source, target) in enumerate(edges)}
    assert by_number(EdgeSourceDegrees()) == {n: found[:3] for n, found in pairs.items()}
    assert by_number(EdgeTargetDegrees()) == {n: (*found[:2], found[3]) for n, found in pairs.items()}


@pytest.mark.parametrize("most", [1, 3, 100])
def test_a_graph_without_hubs(case, most):
    graph, edges, degrees = case
    kept = {vertex for vertex, each in degrees.items() if each.degree <= most}

    found = graph.run(MaximumDegree(most))

    assert {vertex for vertex, _ in found.get_vertices().collect()} == kept
    assert sorted(number for *_, number in found.get_edges().collect()) == [
        number for number, (source, target) in enumerate(edges) if {source, target} <= kept
    ]


@pytest.mark.parametrize("most", [0, -1, True, 2.5, None])
def test_a_maximum_that_is_no_number_of_neighbours(most):
    with pytest.raises(InvalidProgram, match="a whole number, 1 or more"):
        MaximumDegree(most)
