"""Algorithms of the library and programs of users on Spark, where a worker is killed in a superstep."""

import os
import signal

import networkx
import numpy as np
import pytest

from funken import Configuration
from funken.dataset import ExecutionEnvironment
from funken.graph import (
    ApplyFunction,
    ComputeFunction,
    ConnectedComponents,
    GatherFunction,
    Graph,
    PageRank,
    ScatterFunction,
)
from tests.dataset.programs import environment
from tests.graph.examples import rmat

pytestmark = pytest.mark.spark

SOURCE = np.arange(60)
INFINITE = float("inf")


def path(env):
    """Return a path, which takes a superstep per edge, and a vertex of its own."""
    return Graph.from_collection(env, [(n, n + 1, None) for n in SOURCE.tolist()] + [(99, 99, None)], lambda n: n)


def checkpointed():
    """Return an environment whose iterations have a checkpoint after each superstep, and go on after a failure."""
    options = {
        "parallelism.default": 2,
        "execution.checkpointing.interval": "1 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": 0,
    }
    return ExecutionEnvironment.get_execution_environment(Configuration(options))


class KilledOnce:
    """Kills this process when a superstep begins, unless that has happened; tells in which supersteps the next attempt was."""

    def __init__(self, folder, superstep):
        self._folder, self._superstep = folder, superstep

    def at(self, superstep):
        marker = self._folder / "killed"
        if marker.exists():
            (self._folder / f"again {superstep}").touch()
        elif superstep == self._superstep:
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def seen(self):
        return sorted(int(file.name.split()[1]) for file in self._folder.glob("again *"))


def test_components_survive_a_worker_that_is_killed_in_a_superstep(tmp_path):
    from funken.graph.columns.supersteps import LeastValue, run_program

    killed = KilledOnce(tmp_path, 12)

    class Killed(LeastValue):
        def step(self, part, state, messages, view):
            if part.part == 1:
                killed.at(view.number)
            return super().step(part, state, messages, view)

    env = checkpointed()

    found = run_program(path(env), Killed(), 100, "components").collect()

    assert sorted(found) == [*((n, 0) for n in range(61)), (99, 99)]
    assert sorted(found) == sorted(path(environment(2)).run(ConnectedComponents(99)).collect())
    assert env.get_last_job_execution_result().restarts == 1
    assert killed.seen()[0] > 1, "the second attempt began with the first superstep"


def test_ranks_survive_a_worker_that_is_killed_in_a_superstep(tmp_path):
    from funken.graph.columns.supersteps import Ranks, run_program

    killed = KilledOnce(tmp_path, 9)

    class Killed(Ranks):
        def step(self, part, state, messages, view):
            if part.part == 0:
                killed.at(view.number)
            return super().step(part, state, messages, view)

    vertices, edges = rmat()

    def graph(env):
        return Graph.from_collection(env, [(*edge, None) for edge in edges], [(vertex, None) for vertex in vertices])

    env = checkpointed()
    found = run_program(graph(env), Killed(0.85, None, True), 22, "ranks").collect()

    expected = graph(environment(1)).run(PageRank(0.85, 20, include_zero_degree_vertices=True)).collect()
    assert dict(found) == pytest.approx(dict(expected), rel=1e-12)
    assert env.get_last_job_execution_result().restarts == 1
    assert killed.seen()[0] > 1
    assert killed.seen()[-1] == 22


class Nearest(ComputeFunction):
    """Keeps the length of the shortest way, in a process that is killed once."""

    def __init__(self, killed):
        self.killed = killed

    def pre_superstep(self):
        self.killed.at(self.get_superstep_number())

    def compute(self, vertex, messages):
        nearest = min([0 if vertex.id == 0 and self.get_superstep_number() == 1 else INFINITE, *messages])
        if nearest < vertex.value:
            self.set_new_vertex_value(nearest)
            for edge in self.get_edges():
                self.send_message_to(edge.target, nearest + edge.value)


class Offer(ScatterFunction):
    def __init__(self, killed):
        self.killed = killed

    def pre_superstep(self):
        self.killed.at(self.get_superstep_number())

    def send_messages(self, vertex):
        if vertex.value < INFINITE:
            for edge in self.get_edges():
                self.send_message_to(edge.target, vertex.value + edge.value)


class Take(GatherFunction):
    def update_vertex(self, vertex, messages):
        if min(messages) < vertex.value:
            self.set_new_vertex_value(min(messages))


class Lower(ApplyFunction):
    def __init__(self, killed):
        self.killed = killed

    def pre_superstep(self):
        self.killed.at(self.get_superstep_number())

    def apply(self, new_value, current_value):
        if new_value < current_value:
            self.set_result(new_value)


PROGRAMS = {
    "vertex-centric": lambda graph, killed: graph.map_vertices(lambda _: INFINITE).run_vertex_centric_iteration(
        Nearest(killed), min, 50
    ),
    "scatter-gather": lambda graph, killed: graph.run_scatter_gather_iteration(Offer(killed), Take(), 50),
    "gather-sum-apply": lambda graph, killed: graph.run_gather_sum_apply_iteration(
        lambda near: near.neighbor_value + near.edge_value, min, Lower(killed), 50
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_users_survive_a_worker_that_is_killed_in_a_superstep(name, tmp_path):
    env, killed = checkpointed(), KilledOnce(tmp_path, 7)
    edges = [(n, n + 1, n % 3 + 1) for n in range(12)] + [(0, 5, 30), (4, 9, 1), (20, 0, 1)]
    graph = Graph.from_collection(env, edges, lambda vertex: 0 if vertex == 0 else INFINITE)

    found = dict(PROGRAMS[name](graph, killed).get_vertices().collect())

    peer = networkx.DiGraph()
    peer.add_weighted_edges_from(edges)
    lengths = networkx.single_source_dijkstra_path_length(peer, 0)
    assert found == {vertex: lengths.get(vertex, INFINITE) for vertex in peer}
    assert env.get_last_job_execution_result().restarts == 1
    assert killed.seen()[0] > 1, "the second attempt began with the first superstep"
