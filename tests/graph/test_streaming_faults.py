"""Streams of edges in jobs that fail: every result comes exactly once, whatever crashes and however wide the next attempt is."""

import logging

import pytest

from funken import DataGeneratorSource, WatermarkStrategy
from funken.graph import (
    BipartitenessCheck,
    EdgeDirection,
    EdgeStream,
    ExactTriangleCount,
    Spanner,
    StreamingConnectedComponents,
    StreamingTriangles,
    TriangleEstimate,
    WindowTriangleCount,
)
from tests.support.simulation.run import Simulation
from tests.support.simulation.scenarios import PROGRAMS

STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda edge, _: edge[2])


def edge(n):
    return (n * 7919 % 17, n * 31 % 13 + n % 3, n * 7)


def edges_of(env, count, wide, name):
    source = env.from_source(DataGeneratorSource(edge, count), STAMPED, name)
    return source.set_parallelism(wide()).uid(name)


def plain(components):
    return tuple((root, tuple(vertices)) for root, vertices in components.items())


def summaries(env, count, wide):
    """Summaries of panes, by one task and by a tree; all edges of a pane come before it ends, so they are always the same."""
    edges = EdgeStream.from_stream(edges_of(env, count, wide, "edges"))
    sides = edges.filter_edges(lambda e: (e.source + e.target) % 2 or e.value > 400).run(BipartitenessCheck(100))
    return [
        edges.run(StreamingConnectedComponents(70)).map(plain),
        edges.run(StreamingConnectedComponents(150, degree=2)).map(plain),
        sides.map(lambda found: (found.bipartite, tuple(found.sides.items()))),
        edges.run(Spanner(100, 2)).map(tuple),
    ]


def triangles(env, count, wide):
    """Triangles, each once; windows of them; what one task samples."""
    edges = EdgeStream.from_stream(edges_of(env, count, wide, "edges"))
    one = EdgeStream.from_stream(
        env.from_source(DataGeneratorSource(edge, count), STAMPED, "one").set_parallelism(1).uid("one")
    )
    return [
        edges.run(StreamingTriangles(2)),
        edges.run(ExactTriangleCount(3)),
        edges.run(WindowTriangleCount(140, 2)),
        one.run(TriangleEstimate(12, every=5)),
    ]


def properties(env, count, wide):
    """Degrees, counts, distinct edges, slices."""
    edges = EdgeStream.from_stream(edges_of(env, count, wide, "edges"))
    return [
        edges.get_degrees(),
        edges.number_of_vertices(),
        edges.number_of_edges(),
        edges.distinct().get_edges().map(lambda e: (e.source, e.target)),
        edges.slice(100, EdgeDirection.ALL).reduce_on_edges(max),
        edges.slice(100).apply_on_neighbors(lambda v, pairs: [(v, tuple(sorted(pairs)))]),
    ]


MADE = {"graph summaries": summaries, "graph triangles": triangles, "graph properties": properties}


@pytest.fixture(params=MADE)
def program(request, monkeypatch):
    monkeypatch.setitem(PROGRAMS, request.param, MADE[request.param])
    logging.disable(logging.WARNING)
    yield request.param
    logging.disable(logging.NOTSET)


def test_results_survive_crashes_and_rescaling(program):
    conditions = {"interval": 20, "timeout": 600_000, "tolerable": 1, "task_crashes": 4, "driver_crashes": 2}
    conditions |= {"storage_faults": 0.01, "lost_acks": 0.0, "commit_faults": 0.0, "records": 90, "calm_after": 2500}
    run = Simulation(7, program=program, rescales=True, exactly_once=True, **conditions).run()

    assert run.violation == ""
    assert min(run.attempts, run.checkpoints) > 1


@pytest.mark.simulation
def test_every_result_comes_once_whatever_fails(program):
    violations = {
        seed: Simulation(seed, program=program, exactly_once=True, records=80).run().violation for seed in range(12)
    }
    assert {seed: found for seed, found in violations.items() if found} == {}
