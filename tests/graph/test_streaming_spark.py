"""Streams of edges in the three ways to run: every way gives the same."""

import networkx
import pytest

from funken import Configuration, DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.graph import EdgeStream, StreamingConnectedComponents, StreamingTriangles
from tests.graph.streams import drawn

EDGES = drawn(300, 90, 2)
BY_PLACE = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda each, _: each[1])


def edges(mode):
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": mode}))
    env.set_parallelism(2)
    given = EDGES
    source = env.from_source(DataGeneratorSource(lambda n: (given[n], n), len(given)), BY_PLACE, "edges")
    return EdgeStream.from_stream(source, lambda each: each[0])


@pytest.mark.ways("local", "batch", "continuous")
def test_components_and_triangles_are_the_same_in_every_way(mode):
    stream = edges(mode)
    components = stream.run(StreamingConnectedComponents(100)).map(lambda found: (sum(map(len, found.values())), found))
    triangles = stream.run(StreamingTriangles()).map(lambda found: (-1, found))

    with components.union(triangles).execute_and_collect() as results:
        records = list(results)

    found = [each for size, each in sorted((r for r in records if r[0] >= 0), key=lambda pair: pair[0])]
    for each, end in zip(found, (100, 200, 300), strict=True):
        peer = networkx.Graph(edge[:2] for edge in EDGES[:end])
        assert {frozenset(c) for c in each.values()} == {frozenset(c) for c in networkx.connected_components(peer)}
    closed = [each for size, each in records if size < 0]
    peer = networkx.Graph((a, b) for a, b, _ in EDGES if a != b)
    assert len(set(closed)) == len(closed) == sum(networkx.triangles(peer).values()) // 3 > 5
