"""Streams of edges against networkx, plain loops and the tables of the reference, at several parallelisms."""

import random
from collections import Counter, defaultdict
from itertools import combinations

import networkx
import pytest

from funken import InvalidProgram, SlidingEventTimeWindows
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
from funken.testing import OperatorHarness, SimulatedJob, local
from tests.graph.streams import drawn, stream

PARALLELISMS = [1, 2, 4]
NAMES = {"numbers": lambda n: n, "texts": str, "mixed": lambda n: n if n % 2 else f"v{n}", "tuples": lambda n: (n, "x")}


def collected(data_stream):
    return SimulatedJob(data_stream).run()


def timed(records):
    """Return records with their timestamps, in the order of these."""
    found = collected(records.process(lambda value, ctx: [(ctx.timestamp(), value)]))
    return sorted(found, key=lambda each: each[0])


# ---- the tables of the reference


def test_the_table_of_degrees():
    edges = EdgeStream.from_stream(local([(1, 2), (1, 3), (2, 3)]))

    assert collected(edges.get_degrees()) == [(1, 1), (2, 1), (1, 2), (3, 1), (2, 2), (3, 2)]


def test_the_tables_of_components_and_sides():
    edges = [(1, 2), (1, 3), (2, 3), (1, 5), (6, 7), (8, 9)]
    (found,) = collected(EdgeStream.from_stream(local(edges)).run(StreamingConnectedComponents()))
    assert found == {1: [1, 2, 3, 5], 6: [6, 7], 8: [8, 9]}

    (sides,) = collected(stream([(1, 2), (1, 3), (1, 4), (4, 5), (4, 7), (4, 9)]).run(BipartitenessCheck()))
    assert sides.bipartite
    assert {v for v, side in sides.sides.items() if side == 0} == {1, 5, 7, 9}
    (none,) = collected(stream([(1, 2), (2, 3), (3, 1), (4, 5)]).run(BipartitenessCheck()))
    assert none == (False, {})


def test_the_table_of_window_triangles():
    """Gelly's example: the counts of its windows of 400 ms are 2, 3 and 2."""
    edges = [
        (1, 2, 100), (1, 3, 150), (3, 2, 200), (2, 4, 250), (3, 4, 300), (3, 5, 350), (4, 5, 400), (4, 6, 450),
        (6, 5, 500), (5, 7, 550), (6, 7, 600), (8, 6, 650), (7, 8, 700), (7, 9, 750), (8, 9, 800), (10, 8, 850),
        (9, 10, 900), (9, 11, 950), (10, 11, 1000),
    ]  # fmt: skip
    counts = stream(edges, times=[at for *_, at in edges]).run(WindowTriangleCount(400))

    assert timed(counts) == [(399, (0, 400, 2)), (799, (400, 800, 3)), (1199, (800, 1200, 2))]


# ---- properties and transformations


@pytest.mark.parametrize("parallelism", PARALLELISMS)
@pytest.mark.parametrize("name", NAMES)
def test_running_properties(name, parallelism):
    edges = drawn(120, 15, 3, NAMES[name])
    degrees = {
        "get_in_degrees": [target for _, target, _ in edges],
        "get_out_degrees": [source for source, _, _ in edges],
        "get_degrees": [end for source, target, _ in edges for end in (source, target)],
    }

    for method, ends in degrees.items():
        expected = {(v, n) for v, most in Counter(ends).items() for n in range(1, most + 1)}
        found = collected(getattr(stream(edges, parallelism), method)())
        assert set(found) == expected, method
        assert len(found) == len(expected), method
    vertices = {end for edge in edges for end in edge[:2]}
    found = collected(stream(edges, parallelism).get_vertices())
    assert sorted(map(repr, found)) == sorted(f"GraphVertex(id={v!r}, value=None)" for v in vertices)
    assert sorted(collected(stream(edges, parallelism).number_of_vertices())) == list(range(1, len(vertices) + 1))
    assert sorted(collected(stream(edges, parallelism).number_of_edges())) == list(range(1, 121))


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_transformations(parallelism):
    edges = drawn(80, 12, 5)

    def found(change):
        return sorted(map(tuple, collected(change(stream(edges, parallelism)).get_edges())))

    assert found(lambda s: s.map_edges(lambda e: e.source + e.value)) == sorted((a, b, a + v) for a, b, v in edges)
    assert found(lambda s: s.filter_edges(lambda e: e.value > 4)) == sorted(e for e in edges if e[2] > 4)
    assert found(lambda s: s.filter_vertices(lambda v: v % 3)) == sorted(e for e in edges if e[0] % 3 and e[1] % 3)
    assert found(lambda s: s.reverse()) == sorted((b, a, v) for a, b, v in edges)
    assert found(lambda s: s.undirected()) == sorted(edges + [(b, a, v) for a, b, v in edges])
    assert found(lambda s: s.union(s.reverse())) == sorted(edges + [(b, a, v) for a, b, v in edges])
    distinct = found(lambda s: s.distinct())
    assert sorted(e[:2] for e in distinct) == sorted({e[:2] for e in edges})
    assert set(distinct) <= set(edges)


def test_neighbourhoods_so_far():
    edges = drawn(40, 8, 1)
    expected, neighbors = [], defaultdict(list)
    for a, b, _ in edges:
        for source, target in ((a, b), (b, a)):
            if target not in neighbors[source]:
                neighbors[source].append(target)
            expected.append((source, target, tuple(neighbors[source])))

    assert collected(stream(edges).build_neighborhood()) == expected


# ---- slices


@pytest.mark.parametrize("parallelism", PARALLELISMS)
@pytest.mark.parametrize("direction", EdgeDirection)
def test_slices(direction, parallelism):
    edges = drawn(100, 9, 7)
    windows = defaultdict(list)
    for at, (a, b, value) in enumerate(edges):
        if direction is not EdgeDirection.IN:
            windows[at // 25, a].append((b, value))
        if direction is not EdgeDirection.OUT:
            windows[at // 25, b].append((a, value))

    def slice_():
        return stream(edges, parallelism).slice(25, direction)

    reduced = timed(slice_().reduce_on_edges(lambda one, other: one + other))
    assert sorted((at // 25, *found) for at, found in reduced) == sorted(
        (pane, v, sum(value for _, value in pairs)) for (pane, v), pairs in windows.items()
    )
    folded = timed(slice_().fold_neighbors((None, 0), lambda far, v, n, value: (v, far[1] + n * 10 + value)))
    assert sorted((at // 25, *found) for at, found in folded) == sorted(
        (pane, v, sum(n * 10 + value for n, value in pairs)) for (pane, v), pairs in windows.items()
    )
    applied = timed(slice_().apply_on_neighbors(lambda v, pairs: [(v, sorted(pairs))]))
    assert sorted((at // 25, *found) for at, found in applied) == sorted(
        (pane, v, sorted(pairs)) for (pane, v), pairs in windows.items()
    )


def test_slices_of_sliding_windows():
    edges = drawn(60, 6, 2)
    slices = stream(edges).slice(SlidingEventTimeWindows.of(20, 10))

    found = timed(slices.reduce_on_edges(max))

    expected = defaultdict(list)
    for at, (a, _, value) in enumerate(edges):
        for end in (at // 10 * 10 + 10, at // 10 * 10 + 20):
            expected[end - 1, a].append(value)
    assert sorted(found) == sorted((at, (a, max(values))) for (at, a), values in expected.items())


# ---- summaries


def panes(edges, size):
    """Return the greatest timestamp of each pane, and the edges till then."""
    for end in range(size, len(edges) + size, size):
        yield end - 1, [edge[:2] for edge in edges[:end]]


@pytest.mark.parametrize("degree", [None, 2])
@pytest.mark.parametrize("parallelism", PARALLELISMS)
@pytest.mark.parametrize("name", NAMES)
def test_components_after_each_window_are_those_of_networkx(name, parallelism, degree):
    edges = drawn(60, 80, 11, NAMES[name])
    found = timed(stream(edges, parallelism).run(StreamingConnectedComponents(16, degree=degree)))

    for (at, components), (end, so_far) in zip(found, panes(edges, 16), strict=True):
        assert at == end
        assert all(root == vertices[0] for root, vertices in components.items())
        peer = {frozenset(each) for each in networkx.connected_components(networkx.Graph(so_far))}
        assert {frozenset(each) for each in components.values()} == peer
        if name in ("numbers", "texts", "tuples"):
            assert all(vertices == sorted(vertices) for vertices in components.values())


@pytest.mark.parametrize("parallelism", PARALLELISMS)
@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_edges_is_of_no_importance_within_the_bound(seed, parallelism):
    chance = random.Random(seed)
    edges = drawn(90, 70, seed)
    times = list(range(90))
    shuffled = sorted(range(90), key=lambda place: place + chance.randrange(20))
    mixed = stream([edges[n] for n in shuffled], parallelism, [times[n] for n in shuffled], slack=20 * parallelism)

    assert timed(mixed.run(StreamingConnectedComponents(25))) == timed(
        stream(edges).run(StreamingConnectedComponents(25))
    )


@pytest.mark.parametrize("parallelism", PARALLELISMS)
@pytest.mark.parametrize("seed", range(8))
def test_bipartiteness_after_each_window_is_that_of_networkx(seed, parallelism):
    chance = random.Random(seed)
    edges = [(chance.randrange(0, 30, 2), chance.randrange(1, 31, 2)) for _ in range(60)]
    if seed % 4:
        edges.insert(12 * seed, (chance.randrange(0, 30, 2), chance.randrange(0, 30, 2)))
    found = timed(stream(edges, parallelism).run(BipartitenessCheck(10)))

    assert len(found) == -(-len(edges) // 10)
    for (_, check), (_, so_far) in zip(found, panes(edges, 10), strict=True):
        peer = networkx.Graph(so_far)
        assert check.bipartite == networkx.is_bipartite(peer)
        assert set(check.sides) == (set(peer) if check.bipartite else set())
        assert all(check.sides[a] != check.sides[b] for a, b in so_far if check.bipartite)
        roots = [min(each) for each in networkx.connected_components(peer)]
        assert not check.bipartite or all(check.sides[root] == 0 for root in roots)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_no_distance_in_a_spanner_is_too_long(parallelism, k):
    edges = drawn(250, 40, k)
    found = timed(stream(edges, parallelism).run(Spanner(50, k)))

    before = []
    for (_, kept), (_, so_far) in zip(found, panes(edges, 50), strict=True):
        assert kept[: len(before)] == before
        before = kept
        peer = networkx.Graph((a, b) for a, b in so_far if a != b)
        spanner = networkx.Graph(kept)
        assert set(spanner.edges()) <= {edge for a, b in peer.edges() for edge in ((a, b), (b, a))}
        far = dict(networkx.all_pairs_shortest_path_length(spanner))
        assert all(far[a].get(b, k + 1) <= k for a, b in peer.edges())
        assert k > 1 or len(kept) == peer.number_of_edges()
    assert k == 1 or len(before) < peer.number_of_edges() * 0.7


def test_a_tree_and_one_task_give_the_same_and_windows_alone_are_not_running():
    from funken import AggregateFunction

    class Values(AggregateFunction):
        def create_accumulator(self):
            return []

        def add(self, value, accumulator):
            accumulator.append(value.value)
            return accumulator

        def merge(self, a, b):
            a += b
            return a

        def get_result(self, accumulator):
            return sorted(accumulator)

    edges = drawn(100, 9, 4)
    values = [value for *_, value in edges]
    for parallelism, degree in ((1, None), (4, None), (4, 2), (4, 3)):
        found = timed(stream(edges, parallelism).aggregate(Values(), 40, degree=degree, running=False))
        assert found == [(39, sorted(values[:40])), (79, sorted(values[40:80])), (119, sorted(values[80:]))]
        found = timed(stream(edges, parallelism).aggregate(Values(), 40, degree=degree))
        assert [each for _, each in found] == [sorted(values[:end]) for end in (40, 80, 100)]


def test_a_late_edge_counts_in_the_next_window():
    edges = stream([])
    running = edges.aggregate(_Pairs(), 10)
    fold = OperatorHarness.of(_before(running))
    fold.feed_block([("a", "b", 0), ("c", "d", 0)], [3, 14])
    fold.watermark(10)
    fold.feed_block([("late", "x", 0), ("e", "f", 0)], [4, 16])
    fold.watermark(100)
    assert [record[1:] for record in fold.output] == [(10, ["a"]), (20, ["c", "late", "e"])]
    assert [at for _, at in fold.output_with_timestamps] == [9, 19]

    dropping = OperatorHarness.of(_before(edges.aggregate(_Pairs(), 10, running=False)))
    dropping.watermark(10)
    dropping.feed_block([("late", "x", 0), ("e", "f", 0), ("late", "x", 0)], [4, 16, 5])
    dropping.watermark(100)
    assert [record[1:] for record in dropping.output] == [(20, ["e"])]
    assert dropping.context.metrics.counter("numLateRecordsDropped").get_count() == 2


def test_a_result_stays_what_it_was_when_the_accumulator_grows():
    class All(_Pairs):
        def add(self, value, accumulator):
            accumulator.append(value[0])
            return accumulator

        def merge(self, a, b):
            a += b
            return a

    found = collected(stream([(n, 0, 0) for n in range(30)]).aggregate(All(), 10))

    assert sorted(map(len, found)) == [10, 20, 30]


class _Pairs:
    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        return [*accumulator, value[0]]

    def merge(self, a, b):
        return a + b

    def get_result(self, accumulator):
        return accumulator


def _before(summaries):
    """Return the stream of what folds."""
    from dataclasses import replace

    from funken import DataStream

    graph = summaries.get_execution_environment().graph
    (summary,) = summaries._inputs
    (fold,) = graph[summary.upstream].inputs
    return DataStream(summaries.get_execution_environment(), (replace(fold, partitioning=None),))


def test_panes_are_dealt_out_to_other_tasks():
    spec = _before(stream([]).aggregate(_Pairs(), 10))
    halves = [OperatorHarness.of(spec, subtask=place, parallelism=3) for place in range(3)]
    for place, half in enumerate(halves):
        half.feed_block([(f"{place}a", "x", 0), (f"{place}b", "x", 0)], [3, 14])
    after = OperatorHarness.of(spec, snapshots=[half.snapshot() for half in halves])
    after.watermark(50)

    assert [(end, sorted(found)) for _, end, found in after.output] == [
        (10, ["0a", "1a", "2a"]),
        (20, ["0b", "1b", "2b"]),
    ]


# ---- triangles


@pytest.mark.parametrize("parts", [None, 1, 3])
@pytest.mark.parametrize("parallelism", PARALLELISMS)
@pytest.mark.parametrize("name", NAMES)
def test_each_triangle_comes_once(name, parallelism, parts):
    edges = drawn(140, 18, 6, NAMES[name])
    peer = networkx.Graph((a, b) for a, b, _ in edges if a != b)
    expected = {frozenset(t) for t in combinations(peer, 3) if all(peer.has_edge(*pair) for pair in combinations(t, 2))}

    found = collected(stream(edges, parallelism).run(StreamingTriangles(parts)))

    assert len(expected) > 50
    assert len(found) == len(expected)
    assert set(map(frozenset, found)) == expected
    counts = collected(stream(edges, parallelism).run(ExactTriangleCount(parts)))
    assert sorted(counts) == list(range(1, len(found) + 1))


def test_a_vertex_with_many_neighbours():
    edges = [(0, n) for n in range(1, 200)] + [(n, n + 1) for n in range(1, 199, 3)] + [(0, 5)]

    assert len(collected(stream(edges, 2).run(StreamingTriangles()))) == 66


@pytest.mark.parametrize("parts", [None, 1, 3])
@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_triangles_of_windows(parallelism, parts):
    edges = drawn(200, 14, 9)
    expected = []
    for begin in range(0, 200, 60):
        peer = networkx.Graph((a, b) for a, b, _ in edges[begin : begin + 60] if a != b)
        expected.append((begin, begin + 60, sum(networkx.triangles(peer).values()) // 3))

    assert sorted(collected(stream(edges, parallelism).run(WindowTriangleCount(60, parts)))) == expected
    assert sum(count for _, _, count in expected) > 30


def test_the_estimate_is_exact_while_all_edges_fit_and_unbiased_after_that():
    edges = sorted({(min(a, b), max(a, b)) for a, b, _ in drawn(900, 60, 8) if a != b}, key=lambda e: e[0] * 7 % 13)
    exact = sum(networkx.triangles(networkx.Graph(edges)).values()) // 3

    all_fit = collected(stream(edges).run(TriangleEstimate(len(edges), every=100)))
    assert [each.edges for each in all_fit] == [*range(100, len(edges), 100), len(edges)]
    assert all_fit[-1].triangles == exact
    estimates = [
        collected(stream(edges).run(TriangleEstimate(len(edges) // 4, seed=seed, every=10_000)))[-1].triangles
        for seed in range(60)
    ]
    assert len(set(estimates)) > 40
    assert sum(estimates) / 60 == pytest.approx(exact, rel=0.06)
    assert max(estimates) < 2.5 * exact


# ---- refusals


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: stream([]).aggregate(lambda edge: edge), "needs an AggregateFunction"),
        (lambda: stream([]).aggregate(_Pairs(), degree=1), "has to be a whole number, 2 or more"),
        (lambda: stream([]).slice(10, "out"), "has to be an EdgeDirection"),
        (lambda: stream([]).run(StreamingTriangles), "needs an object with a method run"),
        (lambda: EdgeStream([(1, 2)]), "needs a DataStream"),
        (lambda: Spanner(k=0), "1 or more"),
        (lambda: StreamingTriangles(0), "1 or more"),
        (lambda: TriangleEstimate(1), "2 or more"),
        (lambda: collected(stream([(1, 2, 3, 4)]).get_edges()), "is no edge"),
        (
            lambda: collected(EdgeStream.from_stream(local([(1, 2)])).aggregate(_Pairs(), 10)),
            "has no timestamp, which a window needs",
        ),
    ],
)
def test_what_is_wrong_is_named(wrong, message):
    with pytest.raises(Exception, match=message):
        wrong()
    if "timestamp" not in message and "no edge" not in message:
        with pytest.raises(InvalidProgram):
            wrong()
