"""The bottleneck of a job: found on random graphs as its definition says, and shown by a job that has one."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken import JobClient, StreamExecutionEnvironment
from funken.errors import JobCancelled
from funken.runtime.driver.local_runner import LocalRunner
from funken.runtime.job.states import FlowGraph

_SHARES = st.sampled_from([0.0, 0.05, 0.1, 0.4, 0.9, 1.0])


@st.composite
def _graphs(draw):
    count = draw(st.integers(2, 8))
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True))
    sources = [vertex for vertex in range(count) if all(target != vertex for _, target in edges)]
    return (
        count,
        edges,
        {vertex: draw(_SHARES) for vertex in sources},
        {vertex: draw(_SHARES) for vertex in range(count) if vertex not in sources},
    )


def _leads(edges: list[tuple[int, int]], start: int, end: int) -> bool:
    return any(a == start and (b == end or _leads(edges, b, end)) for a, b in edges)


@given(_graphs())
def test_the_bottleneck_is_the_busiest_vertex_behind_a_source_that_is_held_back(graph):
    count, edges, sources, busy = graph
    expected: dict[int, tuple[float, set[int]]] = {}
    for source, held in sources.items():
        behind = [vertex for vertex in range(count) if _leads(edges, source, vertex)]
        if held >= 0.1 and behind and max(busy[vertex] for vertex in behind) >= 0.3:
            worst = max(behind, key=lambda vertex: (busy[vertex], vertex))
            share, between = expected.get(worst, (0.0, set()))
            on_the_way = {vertex for vertex in behind if _leads(edges, vertex, worst)}
            expected[worst] = max(share, held), between | on_the_way | {source}
    found = FlowGraph(range(count), edges).pressure(sources, busy)
    assert found == {vertex: (held, tuple(sorted(between))) for vertex, (held, between) in expected.items()}


def test_every_vertex_between_a_slow_operator_and_its_source_is_back_pressured():
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)

    def enrich(value):
        time.sleep(0.002)
        return value

    numbers = env.from_collection(range(10**8)).name("numbers").rebalance().map(lambda value: (value % 7, str(value)))
    keyed = numbers.name("parse").key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], b[1])).name("newest")
    keyed.rebalance().map(enrich).name("enrich").filter(lambda pair: False).print()
    client = JobClient(env.job("pressed"), LocalRunner())

    def run() -> None:
        with contextlib.suppress(JobCancelled):
            client.run()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            job = client.snapshot()
            found = [each.name for each in job.bottlenecks]
            if found == ["enrich -> filter -> print"] and job.bottlenecks[0].held_back > 0.5:
                break
            time.sleep(0.1)
        else:
            pytest.fail(f"no bottleneck was found: {job.to_json()}")
        metrics = {vertex.name: vertex.subtasks[0].metrics for vertex in job.vertices}
        assert metrics["enrich -> filter -> print"].busy_ms_per_second > 500
        assert metrics["enrich -> filter -> print"].true_processing_rate == pytest.approx(450, rel=0.6)
        pressed = [metrics[name].back_pressured_ms_per_second for name in ("parse", "newest")]
        assert min(pressed) > 300, pressed
        assert all(0 <= each.idle_ms_per_second <= 1000 for each in metrics.values())
    finally:
        client.cancel()
        thread.join(30)
    assert not thread.is_alive()
