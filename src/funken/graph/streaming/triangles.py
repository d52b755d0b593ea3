"""Triangles of a stream of edges: each as it closes, their number per window, an estimate from a sample.

As in the batch library, vertices have parts, and the parts of the three vertices of a triangle, sorted, are its *job*, a
key: an edge goes to every job that has the parts of both its ends, and each triangle is found in exactly one. So a vertex with
many edges is not the work of one task, and an edge is sent as often as there are parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from funken import (
    DataStream,
    KeyedProcessFunction,
    MapStateDescriptor,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
)
from funken.errors import InvalidProgram
from funken.graph.streaming.edge_stream import EdgeStream
from funken.graph.streaming.running import EstimatedTriangles, EstimateTrianglesSpec, RunningCount
from funken.graph.streaming.summaries import in_order
from funken.sdk import stable_hash

Job: TypeAlias = tuple[int, int, int]
Sent: TypeAlias = tuple[Job, int, Any, int, Any, int]
"""The job, the part that closes its triangles, and two vertices, each with its part."""


PIECE = 32
"""How many neighbours are one value of the state."""


class StreamingTriangles:
    """Gives each triangle once, as ``(id, id, id)``, in order if ids have one, when the last of its edges comes.

    Directions, loops and repeated edges do not count. The state holds every edge ``parts`` times; None: a number of parts
    that keeps all tasks busy.

    >>> from funken.testing import local
    >>> edges = EdgeStream.from_stream(local([(1, 2), (2, 3), (3, 1), (3, 4), (4, 2)]))
    >>> edges.run(StreamingTriangles()).execute_and_collect(limit=2)
    [(1, 2, 3), (2, 3, 4)]
    """

    def __init__(self, parts: int | None = None) -> None:
        self._parts = _checked(parts)

    def run(self, edges: EdgeStream) -> DataStream[tuple[Any, Any, Any]]:
        """Return the triangles."""
        return _sent(edges, self._parts).key_by(_job).process(CloseTriangles()).name("triangles")


class ExactTriangleCount:
    """Gives the number of triangles so far, each time it rises; one task counts what ``StreamingTriangles`` finds.

    >>> from funken.testing import local
    >>> edges = EdgeStream.from_stream(local([(1, 2), (2, 3), (3, 1), (3, 4), (4, 2)]))
    >>> edges.run(ExactTriangleCount()).execute_and_collect(limit=2)
    [1, 2]
    """

    def __init__(self, parts: int | None = None) -> None:
        self._parts = _checked(parts)

    def run(self, edges: EdgeStream) -> DataStream[int]:
        """Return the numbers."""
        triangles = edges.run(StreamingTriangles(self._parts))
        counts: DataStream[int] = triangles.transform("number of triangles", RunningCount).force_non_parallel()
        return counts


class WindowTriangles(NamedTuple):
    """The number of triangles of the edges of a window, which begins at ``start`` and ends before ``end`` (ms).

    >>> WindowTriangles(0, 400, 2).triangles
    2
    """

    start: int
    end: int
    triangles: int


class WindowTriangleCount:
    """Gives the number of triangles among the edges of each tumbling window of event time, late edges left out.

    >>> from funken import WatermarkStrategy
    >>> from funken.testing import local
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda edge, _: edge[2])
    >>> timed = local([(1, 2, 10), (2, 3, 20), (3, 1, 30), (3, 4, 40), (4, 2, 100)]).assign_timestamps_and_watermarks(strategy)
    >>> EdgeStream.from_stream(timed).run(WindowTriangleCount(100)).execute_and_collect(limit=2)
    [WindowTriangles(start=0, end=100, triangles=1), WindowTriangles(start=100, end=200, triangles=0)]
    """

    def __init__(self, window: Any, parts: int | None = None) -> None:
        self._window: Any = TumblingEventTimeWindows.of(window)
        self._parts = _checked(parts)

    def run(self, edges: EdgeStream) -> DataStream[WindowTriangles]:
        """Return the number of each window in which there were edges."""
        counts = _sent(edges, self._parts).key_by(_job).window(self._window).apply(_count_job)
        return counts.name("triangles of jobs").window_all(self._window).apply(_total).name("triangles of windows")


class TriangleEstimate:
    """Estimates the number of triangles so far from a sample of edges, after every ``every`` edges and at the end.

    Edges count as different: call ``distinct()`` before, if they may come twice. One task samples. The same edges in the
    same order, and the same seed, give the same estimates.

    >>> from funken.testing import local
    >>> edges = EdgeStream.from_stream(local([(a, b) for a in range(8) for b in range(a)]))
    >>> edges.run(TriangleEstimate(100)).execute_and_collect(limit=1)
    [EstimatedTriangles(edges=28, triangles=56.0)]
    """

    def __init__(self, sample_size: int, *, seed: int = 0, every: int = 1000) -> None:
        for name, value, lowest in (("sample_size", sample_size, 2), ("every", every, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
                raise InvalidProgram(
                    f"TriangleEstimate: {name} has to be a whole number, {lowest} or more, but is {value!r}."
                )
        self._spec = EstimateTrianglesSpec(sample_size, seed, every)

    def run(self, edges: EdgeStream) -> DataStream[EstimatedTriangles]:
        """Return the estimates."""
        return edges.get_edges().transform("estimate triangles", self._spec).force_non_parallel()


def _checked(parts: int | None) -> int | None:
    if parts is not None and (isinstance(parts, bool) or not isinstance(parts, int) or parts < 1):
        raise InvalidProgram(f"triangles: the number of parts has to be a whole number above 0, but is {parts!r}.")
    return parts


def _parts_for(env: StreamExecutionEnvironment) -> int:
    """Return the least number of parts that makes two jobs per task, or one for a single task."""
    tasks, parts = env.get_parallelism(), 1
    while tasks > 1 and parts * (parts + 1) * (parts + 2) // 6 < 2 * tasks:
        parts += 1
    return parts


def _sent(edges: EdgeStream, parts: int | None) -> DataStream[Sent]:
    chosen = _parts_for(edges.get_context()) if parts is None else parts
    return edges.get_edges().flat_map(_Jobs(chosen)).name("edges to jobs")


def _job(sent: Sent) -> Job:
    return sent[0]


class _Jobs:
    def __init__(self, parts: int) -> None:
        self._parts = parts

    def __call__(self, edge: Any) -> Iterator[Sent]:
        """Send an edge to its jobs."""
        one, other = edge[0], edge[1]
        if one != other:
            parts = self._parts
            part, another = stable_hash(one) % parts, stable_hash(other) % parts
            for third in range(parts):
                first, second, last = sorted((part, another, third))
                yield (first, second, last), third, one, part, other, another


class CloseTriangles(KeyedProcessFunction):
    """Keeps the edges of a job, and finds the triangles that a new one closes.

    It goes through the neighbours of the end that has fewer of them, in the part that a third vertex has to be in. They are in
    the state in pieces of ``PIECE``, so that a new neighbour costs the same however many there are.
    """

    def open(self, runtime_context: Any) -> None:
        """Find the state."""
        self._edges = runtime_context.get_map_state(MapStateDescriptor("edges"))
        self._counts = runtime_context.get_map_state(MapStateDescriptor("counts"))
        self._pieces = runtime_context.get_map_state(MapStateDescriptor("neighbors"))

    def process_element(self, value: Sent, ctx: Any) -> Iterator[tuple[Any, Any, Any]]:
        """Take an edge."""
        _, third, one, part, other, another = value
        edges, counts, pieces = self._edges, self._counts, self._pieces
        if edges.contains((one, other)) or edges.contains((other, one)):
            return
        closed: list[Any] = []
        fewer = counts.get((one, third)) or 0
        count = counts.get((other, third)) or 0
        if fewer and count:
            walked, far = (one, other) if fewer <= count else (other, one)
            for number in range(-(-min(fewer, count) // PIECE)):
                closed += [
                    vertex
                    for vertex in pieces.get((walked, third, number))
                    if edges.contains((far, vertex)) or edges.contains((vertex, far))
                ]
        edges.put((one, other), True)
        for vertex, neighbor, of in ((one, other, another), (other, one, part)):
            place = counts.get((vertex, of)) or 0
            counts.put((vertex, of), place + 1)
            piece = vertex, of, place // PIECE
            pieces.put(piece, (*pieces.get(piece), neighbor) if place % PIECE else (neighbor,))
        for vertex in closed:
            first, second, last = in_order([one, other, vertex])
            yield first, second, last


def _count_job(key: Job, window: Any, sent: list[Sent]) -> Iterable[int]:
    """Count the triangles of a job: each edge leads from the vertex with fewer edges to the other one."""
    thirds: dict[tuple[Any, Any], int] = {}
    parts: dict[Any, int] = {}
    degrees: dict[Any, int] = {}
    for _, third, one, part, other, another in sent:
        if (one, other) not in thirds and (other, one) not in thirds:
            thirds[one, other] = third
            parts[one], parts[other] = part, another
            degrees[one] = degrees.get(one, 0) + 1
            degrees[other] = degrees.get(other, 0) + 1
    places = {vertex: place for place, vertex in enumerate(sorted(degrees, key=degrees.__getitem__))}
    beyond: dict[tuple[Any, int], set[Any]] = {}
    turned = [
        (one, other, third) if places[one] < places[other] else (other, one, third)
        for (one, other), third in thirds.items()
    ]
    for one, other, _ in turned:
        beyond.setdefault((one, parts[other]), set()).add(other)
    nothing: set[Any] = set()
    yield sum(
        len(beyond.get((one, third), nothing) & beyond.get((other, third), nothing)) for one, other, third in turned
    )


def _total(window: Any, counts: list[int]) -> Iterable[WindowTriangles]:
    yield WindowTriangles(window.start, window.end, sum(counts))
