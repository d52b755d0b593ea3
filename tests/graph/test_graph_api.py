"""The tables of the reference: what is asked of a graph, and graphs made of graphs."""

import networkx
import pytest

from funken.errors import InvalidProgram
from funken.graph import BreadthFirstSearch, EdgeDirection, Graph, PageRank, SingleSourceShortestPaths
from funken.plan.advice import advise
from tests.dataset.programs import environment
from tests.graph.examples import DEFAULT, default


def found(data_set):
    return sorted(data_set.collect())


def numbered(*values):
    return list(enumerate(values, 1))


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_degrees_of_the_default_graph(parallelism):
    graph = default(parallelism)

    assert found(graph.out_degrees()) == numbered(2, 1, 2, 1, 1)
    assert found(graph.in_degrees()) == numbered(1, 1, 2, 1, 2)
    assert found(graph.get_degrees()) == numbered(3, 2, 4, 2, 3)


def test_a_vertex_without_edges_has_degree_0():
    assert found(default().add_vertex((6, 6)).get_degrees())[-1] == (6, 0)


@pytest.mark.parametrize(
    ("direction", "sums"), [("OUT", (5, 3, 9, 5, 1)), ("IN", (5, 1, 3, 3, 7)), ("ALL", (10, 4, 12, 8, 8))]
)
def test_sums_of_neighbours(direction, sums):
    assert found(default().reduce_on_neighbors(int.__add__, EdgeDirection[direction])) == numbered(*sums)


def test_extremes_of_edges():
    assert found(default().reduce_on_edges(min, EdgeDirection.OUT)) == numbered(12, 23, 34, 45, 51)
    assert found(default().reduce_on_edges(max, EdgeDirection.IN)) == numbered(51, 12, 23, 34, 45)


def test_a_loop_counts_twice_in_both_directions():
    loop = Graph.from_collection(environment(), [(1, 1, 5)], lambda _: 7)

    assert found(loop.reduce_on_edges(int.__add__, EdgeDirection.ALL)) == [(1, 10)]
    assert found(loop.reduce_on_neighbors(int.__add__, EdgeDirection.ALL)) == [(1, 14)]
    assert found(loop.get_degrees()) == [(1, 2)]


def test_a_vertex_without_edges_is_seen_only_with_its_value():
    graph = default().add_vertex((6, 60))

    assert 6 not in dict(found(graph.reduce_on_edges(min)))
    with_value = graph.group_reduce_on_edges(
        lambda vertex, edges: [(vertex.id, vertex.value, len(edges))], with_vertex_value=True
    )
    assert found(with_value)[-1] == (6, 60, 0)
    assert found(graph.group_reduce_on_edges(lambda vertex, edges: [(vertex, len(edges))]))[-1] == (5, 1)


def test_parts_of_the_default_graph():
    half = default().filter_on_vertices(lambda vertex: vertex.value > 2)
    assert found(half.get_vertices()) == [(3, 3), (4, 4), (5, 5)]
    assert found(half.get_edges()) == [(3, 4, 34), (3, 5, 35), (4, 5, 45)]

    few = default().filter_on_edges(lambda edge: edge.value > 34)
    assert few.number_of_vertices() == 5
    assert found(few.get_edges()) == [(3, 5, 35), (4, 5, 45), (5, 1, 51)]

    less = default().remove_vertex(5)
    assert found(less.get_edges()) == [(1, 2, 12), (1, 3, 13), (2, 3, 23), (3, 4, 34)]


def test_two_graphs():
    one = default()
    other = Graph.from_data_set(one.get_context().from_collection([(1, 2, 12), (3, 4, 99), (6, 1, 61)]))

    both = one.union(other)
    assert both.number_of_edges() == 10
    assert found(both.get_vertex_ids()) == [1, 2, 3, 4, 5, 6]
    assert found(one.intersect(other).get_edges()) == [(1, 2, 12)]
    assert found(one.difference(other).get_vertices()) == [(5, 5)]
    assert one.difference(other).number_of_edges() == 0


@pytest.mark.parametrize(("distinct", "count"), [(True, 1), (False, 2)])
def test_an_intersection_of_repeated_edges(distinct, count):
    env = environment()
    one = Graph.from_collection(env, [(1, 2, "a")] * 3 + [(1, 2, "b")])
    other = Graph.from_collection(env, [(1, 2, "a")] * 2)

    assert found(one.intersect(other, distinct).get_edges()) == [(1, 2, "a")] * count


def test_mutations():
    graph = default()

    assert found(graph.add_vertex((1, 99)).get_vertices())[0] == (1, 1), "the old value stays"
    assert graph.add_edges([(1, 5, 15), (1, 7, 17)]).number_of_edges() == 8
    assert graph.add_edge((1, 0), (7, 70), 17).number_of_vertices() == 6
    twice = graph.add_edge((1, 0), (2, 0), 99)
    assert found(twice.remove_edge(1, 2).get_edges()) == DEFAULT[1:]
    assert graph.get_undirected().get_undirected().number_of_edges() == 28


def test_of_several_values_for_an_id_one_counts():
    values = default().get_context()
    graph = Graph.from_collection(values, DEFAULT, [(n, n) for n in range(1, 6)])

    joined = graph.join_with_vertices(values.from_elements((1, 10), (1, 10), (9, 1)), int.__add__)
    assert found(joined.get_vertices()) == numbered(11, 2, 3, 4, 5)


def test_validation():
    env = environment()
    assert default().validate()
    assert not Graph.from_collection(env, DEFAULT, [(1, 1)]).validate()


def test_a_graph_of_networkx_and_back():
    karate = networkx.karate_club_graph()

    graph = Graph.from_networkx(environment(), karate)

    assert graph.number_of_edges() == 2 * karate.number_of_edges()
    assert dict(found(graph.in_degrees())) == dict(karate.degree())
    assert dict(graph.get_vertices().collect())[0] == karate.nodes[0]


def test_csv_files(tmp_path):
    (tmp_path / "edges").write_text("a,b\nb,c\n")
    (tmp_path / "vertices").write_text("a,1\nb,2\nc,3\n")

    graph = Graph.from_csv(environment(), tmp_path / "edges", tmp_path / "vertices", key_type=str, vertex_type=int)

    assert found(graph.get_vertices()) == [("a", 1), ("b", 2), ("c", 3)]
    assert found(graph.get_edges()) == [("a", "b", None), ("b", "c", None)]


def _lengths(env, length):
    return Graph.from_collection(env, [(1, 2, length), (2, 3, length)])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda env: Graph.from_collection(env, [(1, 2)]), "the edge (1, 2) is no tuple (source, target, value)"),
        (lambda env: Graph.from_collection(env, [(1, 2, 3)], [1]), "the vertex 1 is no tuple"),
        (
            lambda env: Graph.from_data_set(env.from_elements((1, 2, 3)), 5),
            "neither a data set of vertices nor a function",
        ),
        (lambda env: default().add_vertices([(1, 2, 3)]), "add_vertices() got (1, 2, 3); give (id, value)"),
        (lambda env: default().reduce_on_edges(min, "in"), "use EdgeDirection.IN, OUT or ALL"),
        (lambda env: default().run(5), "run() needs an object with a method run(graph)"),
        (lambda env: default().run(PageRank), "Make one: graph.run(PageRank(...))"),
        (lambda env: Graph.from_collection(env, [(1, 0)], [(1, 2, 3)]), "Edges come before vertices"),
        (lambda env: PageRank("0.85", 3), "the damping factor has to be between 0 and 1"),
        (
            lambda env: _lengths(env, 1.0).run(SingleSourceShortestPaths("1", 5)).collect(),
            "the source '1' is no vertex of the graph, whose ids are such as ",
        ),
        (lambda env: _lengths(env, 1.0).run(BreadthFirstSearch(7, 5)).collect(), "the source 7 is no vertex"),
        (
            lambda env: _lengths(env, float("nan")).run(SingleSourceShortestPaths(1, 5)).collect(),
            "an edge has NaN. Remove it",
        ),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(InvalidProgram) as failure:
        make(environment())

    assert message in str(failure.value)


def test_another_argument_is_refused_and_a_name_of_networkx_answered():
    graph = default()
    for wrong in (
        lambda: Graph.from_collection([(1, 2, None)], [(1, 2)]),
        lambda: Graph.from_networkx(networkx.path_graph(3), environment()),
    ):
        with pytest.raises(TypeError, match=r"needs an ExecutionEnvironment, but got .* Its arguments are: env"):
            wrong()
    for wrong, remedy in ((lambda: graph.nodes, "get_vertices()"), (lambda: len(graph), "number_of_vertices()")):
        with pytest.raises((AttributeError, TypeError)) as caught:
            wrong()
        advise(caught.value)
        assert remedy in caught.value.__notes__[0]


def test_a_dropped_graph_is_said():
    graph = default()
    graph.add_vertex((99, "x"))
    with pytest.warns(UserWarning, match=r"drops a data set \(graph.add_vertex"):
        assert graph.number_of_vertices() == default().number_of_vertices()
