"""Vertex-centric, scatter-gather and gather-sum-apply: active vertices, directions, aggregators, errors; all three agree."""

import pytest

from funken.dataset import LongSumAggregator
from funken.errors import InvalidProgram, OperatorFailed
from funken.graph import (
    ApplyFunction,
    ComputeFunction,
    EdgeDirection,
    GatherFunction,
    Graph,
    IterationConfiguration,
    ScatterFunction,
    SingleSourceShortestPaths,
)
from tests.dataset.programs import environment
from tests.graph.examples import DEFAULT, default, odd

INFINITE = float("inf")


class Ways(ComputeFunction):
    def __init__(self, source):
        self.source = source

    def compute(self, vertex, messages):
        self.get_iteration_aggregator("received").aggregate(len(messages))
        first = self.get_superstep_number() == 1
        nearest = (0 if vertex.id == self.source else INFINITE) if first else min(messages)
        if nearest < vertex.value:
            self.set_new_vertex_value(nearest)
            for edge in self.get_edges():
                self.send_message_to(edge.target, nearest + edge.value)


class Offer(ScatterFunction):
    def send_messages(self, vertex):
        if vertex.value < INFINITE:
            for edge in self.get_edges():
                self.send_message_to(edge.target, vertex.value + edge.value)


class Take(GatherFunction):
    def update_vertex(self, vertex, messages):
        if min(messages) < vertex.value:
            self.set_new_vertex_value(min(messages))


class Lower(ApplyFunction):
    def apply(self, new_value, current_value):
        if new_value < current_value:
            self.set_result(new_value)


def vertex_centric(graph, combiner=None, **_):
    options = IterationConfiguration().register_aggregator("received", LongSumAggregator())
    graph = graph.map_vertices(lambda _: INFINITE)
    return graph.run_vertex_centric_iteration(Ways(0), combiner, 50, options)


def from_zero(graph):
    return graph.map_vertices(lambda vertex: 0 if vertex.id == 0 else INFINITE)


WAYS = {
    "vertex-centric": vertex_centric,
    "combined": lambda graph: vertex_centric(graph, min),
    "scatter-gather": lambda graph: from_zero(graph).run_scatter_gather_iteration(Offer(), Take(), 50),
    "gather-sum-apply": lambda graph: from_zero(graph).run_gather_sum_apply_iteration(
        lambda near: near.neighbor_value + near.edge_value, min, Lower(), 50
    ),
}


def weighted(seed, parallelism):
    vertices, edges = odd(seed)
    made = [(source, target, (source * 31 + target) % 10 + 1) for source, target in edges]
    return Graph.from_collection(environment(parallelism), made, [(vertex, None) for vertex in vertices])


@pytest.mark.parametrize("parallelism", [1, 2, 4])
@pytest.mark.parametrize("way", WAYS)
def test_shortest_paths_of_users_are_those_of_the_library(way, parallelism):
    graph = weighted(7, parallelism)

    mine = WAYS[way](graph).get_vertices().collect()

    assert sorted(mine) == sorted(graph.run(SingleSourceShortestPaths(0, 50)).collect())
    assert len({distance for _, distance in mine}) > 4


def test_a_combiner_sends_fewer_messages():
    counts = []
    for combiner in (None, min):
        received = []
        options = IterationConfiguration().set_convergence(
            "received", LongSumAggregator(), lambda step, count, received=received: bool(received.append(count))
        )
        star = Graph.from_collection(environment(), [(n, 9, n) for n in range(9)], lambda _: INFINITE)

        class All(Ways):
            def compute(self, vertex, messages):
                self.get_iteration_aggregator("received").aggregate(len(messages))
                if self.get_superstep_number() == 1:
                    self.send_message_to_all_neighbors(vertex.id)
                elif vertex.id == 9:
                    self.set_new_vertex_value(min(messages))
                    self.send_message_to(0, "the end")  # what happens in the last superstep is not in the list

        found = star.run_vertex_centric_iteration(All(0), combiner, 5, options).get_vertices().collect()
        assert dict(found)[9] == 0
        counts.append(sum(received))

    assert counts == [9, 1]


class Sum(ComputeFunction):
    """Sends its id once, and keeps the sum of what came."""

    def compute(self, vertex, messages):
        if self.get_superstep_number() == 1:
            self.send_message_to_all_neighbors(vertex.id)
        else:
            self.set_new_vertex_value(sum(messages))


class SendId(ScatterFunction):
    def send_messages(self, vertex):
        self.send_message_to_all_neighbors(vertex.id)


class Total(GatherFunction):
    def update_vertex(self, vertex, messages):
        self.set_new_vertex_value(sum(messages))


class Result(ApplyFunction):
    def apply(self, new_value, current_value):
        self.set_result(new_value)


@pytest.mark.parametrize(
    ("direction", "sums"), [("OUT", (5, 1, 3, 3, 7)), ("IN", (5, 3, 9, 5, 1)), ("ALL", (10, 4, 12, 8, 8))]
)
def test_directions(direction, sums):
    options = IterationConfiguration().set_direction(EdgeDirection[direction])
    expected = list(enumerate(sums, 1))

    graph = default()
    assert sorted(graph.run_vertex_centric_iteration(Sum(), None, 2, options).get_vertices().collect()) == expected
    assert (
        sorted(graph.run_scatter_gather_iteration(SendId(), Total(), 1, options).get_vertices().collect()) == expected
    )
    applied = graph.run_gather_sum_apply_iteration(lambda near: near.neighbor_value, int.__add__, Result(), 1, options)
    assert sorted(applied.get_vertices().collect()) == expected


def test_degrees_and_number_of_vertices_are_there_if_wanted():
    class Ask(GatherFunction):
        def update_vertex(self, vertex, messages):
            self.set_new_vertex_value((self.get_in_degree(), self.get_out_degree(), self.get_number_of_vertices()))

    plain = default().run_scatter_gather_iteration(SendId(), Ask(), 1)
    assert dict(plain.get_vertices().collect())[3] == (-1, -1, -1)
    options = IterationConfiguration().set_opt_degrees().set_opt_num_vertices()
    asked = default().run_scatter_gather_iteration(SendId(), Ask(), 1, options)
    assert sorted(asked.get_vertices().collect()) == list(
        enumerate([(1, 2, 5), (1, 1, 5), (2, 2, 5), (1, 1, 5), (2, 1, 5)], 1)
    )


def test_only_receivers_compute_after_the_first_superstep():
    class Forward(ComputeFunction):
        def compute(self, vertex, messages):
            self.get_iteration_aggregator("calls").aggregate(1)
            if vertex.id == 0 or messages:
                self.send_message_to_all_neighbors(1)

    calls = []
    options = IterationConfiguration().set_convergence(
        "calls", LongSumAggregator(), lambda step, count: bool(calls.append(count))
    )
    path = Graph.from_collection(environment(), [(n, n + 1, None) for n in range(4)], lambda _: 0)
    path.run_vertex_centric_iteration(Forward(), None, 10, options).get_vertices().collect()

    assert calls == [5, 1, 1, 1]  # the last superstep ends the iteration without the criterion


def test_the_maximum_ends_the_iteration():
    class Count(ComputeFunction):
        def compute(self, vertex, messages):
            self.set_new_vertex_value(self.get_superstep_number())
            self.send_message_to_all_neighbors(None)

    assert {
        value for _, value in default().run_vertex_centric_iteration(Count(), None, 7).get_vertices().collect()
    } == {7}


class Lost(ComputeFunction):
    def compute(self, vertex, messages):
        self.send_message_to(77, "hello")


class LostScatter(ScatterFunction):
    def send_messages(self, vertex):
        self.send_message_to(77, "hello")


@pytest.mark.parametrize(
    "run",
    [
        lambda graph: graph.run_vertex_centric_iteration(Lost(), None, 3),
        lambda graph: graph.run_scatter_gather_iteration(LostScatter(), Total(), 3),
    ],
)
def test_a_message_to_nobody_is_an_error(run):
    with pytest.raises(InvalidProgram, match="Target vertex '77' does not exist!"):
        run(default()).get_vertices().collect()


def test_the_two_ways_to_send_do_not_mix_and_a_value_is_set_once():
    class Mixed(ComputeFunction):
        def compute(self, vertex, messages):
            self.send_message_to_all_neighbors(1)
            self.get_edges()

    class Twice(ComputeFunction):
        def compute(self, vertex, messages):
            self.set_new_vertex_value(1)
            self.set_new_vertex_value(2)

    with pytest.raises(InvalidProgram, match="Use one of the two ways"):
        default().run_vertex_centric_iteration(Mixed(), None, 3).get_vertices().collect()
    with pytest.raises(InvalidProgram, match="twice in a superstep"):
        default().run_vertex_centric_iteration(Twice(), None, 3).get_vertices().collect()


def test_an_error_of_a_vertex_program_keeps_its_traceback():
    class Wrong(ComputeFunction):
        def compute(self, vertex, messages):
            return 1 // (vertex.id - vertex.id)

    with pytest.raises(OperatorFailed, match="spread: compute") as failure:
        default().run_vertex_centric_iteration(
            Wrong(), None, 3, IterationConfiguration().set_name("spread")
        ).get_vertices().collect()

    assert isinstance(failure.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    "run",
    [
        lambda graph: graph.run_vertex_centric_iteration(Ways, None, 3),
        lambda graph: graph.run_vertex_centric_iteration(lambda vertex: None, None, 3),
        lambda graph: graph.run_scatter_gather_iteration(Take(), Take(), 3),
        lambda graph: graph.run_gather_sum_apply_iteration(5, min, Lower(), 3),
        lambda graph: graph.run_vertex_centric_iteration(Sum(), None, 0),
    ],
)
def test_wrong_functions_are_refused_at_once(run):
    with pytest.raises(InvalidProgram):
        run(Graph.from_collection(environment(), DEFAULT))


def test_a_path_is_walked_one_edge_per_superstep():
    path = Graph.from_collection(environment(), [(n, n + 1, 1) for n in range(199)], lambda n: n)
    got = path.run_gather_sum_apply_iteration(lambda near: near.neighbor_value, min, Lower(), 50)

    assert sorted(got.get_vertices().collect()) == [(n, max(0, n - 50)) for n in range(200)]
