"""The structures that summarise a graph: sets of connected vertices, sides of a bipartite graph, a spanner.

Each is the accumulator of an ``AggregateFunction``. Two of them merged are what one would be that had
seen the edges of both, in whatever order; so results are the same for every parallelism and every order of the edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cmp_to_key, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from funken import (
    AggregateFunction,
    DataStream,
    KeyedProcessFunction,
    MapStateDescriptor,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
)
from funken.graph.core import at_least
from funken.graph.streaming.edge_stream import EdgeStream, EstimatedTriangles, EstimateTriangles, RunningCount
from funken.sdk import OperatorCall, stable_hash
from funken.types.callables import K

if TYPE_CHECKING:
    from funken.io.durations import DurationLike


def least(one: Any, other: Any) -> Any:
    """Return the lesser of two ids; those without an order are ordered by their types, and then by their hashes.

    >>> least(2, 1), least("b", "a"), least(1, "a"), least("a", 1)
    (1, 'a', 1, 1)
    """
    try:
        return other if other < one else one
    except TypeError:
        return min(one, other, key=_of_kind)


def _of_kind(vertex: Any) -> tuple[str, int]:
    return "" if isinstance(vertex, int | float) else type(vertex).__name__, stable_hash(vertex)


def in_order(ids: list[Any]) -> list[Any]:
    """Sort ids, in the order of ``least``.

    >>> in_order([2, 1]), in_order(["b", 2, "a", 1])
    ([1, 2], [1, 2, 'a', 'b'])
    """
    try:
        return sorted(ids)
    except TypeError:
        return sorted(ids, key=cmp_to_key(lambda one, other: -1 if least(one, other) is one else 1))


class DisjointSet:
    """Sets of connected vertices (union-find); the representative of a set is its least vertex.

    >>> sets = DisjointSet()
    >>> for edge in [(1, 2), (1, 3), (2, 3), (1, 5), (6, 7), (8, 9)]:
    ...     sets.union(*edge)
    >>> sets.components()
    {1: [1, 2, 3, 5], 6: [6, 7], 8: [8, 9]}
    >>> other = DisjointSet()
    >>> other.union(7, 9)
    >>> sets.merge(other)
    >>> sets.components(), sets.find(9), len(sets)
    ({1: [1, 2, 3, 5], 6: [6, 7, 8, 9]}, 6, 8)
    """

    __slots__ = ("_parent",)

    def __init__(self) -> None:
        self._parent: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self._parent)

    def find(self, vertex: Any) -> Any:
        """Return the representative of a vertex, which is added if it is new."""
        parent = self._parent
        above = parent.setdefault(vertex, vertex)
        while above is not vertex and above != vertex:
            further = parent[above]
            parent[vertex] = further
            vertex, above = above, further
        return above

    def union(self, one: Any, other: Any) -> None:
        """Connect two vertices."""
        root, another = self.find(one), self.find(other)
        if root != another:
            kept = least(root, another)
            self._parent[another if kept is root else root] = kept

    def merge(self, other: DisjointSet) -> None:
        """Connect the vertices that another one connects; the smaller is merged into the larger: drop the other."""
        parents = other._parent
        if len(parents) > len(self):
            self._parent, parents = parents, self._parent
        for vertex, parent in parents.items():
            self.union(vertex, parent)

    def components(self) -> dict[Any, list[Any]]:
        """Return the vertices of each set, in order, by its least."""
        found: dict[Any, list[Any]] = {}
        for vertex in list(self._parent):
            found.setdefault(self.find(vertex), []).append(vertex)
        return {root: in_order(found[root]) for root in in_order(list(found))}


class TwoSides:
    """Vertices on two sides, so that each edge goes from one to the other, for as long as that is possible.

    >>> sides = TwoSides()
    >>> for edge in [(1, 2), (1, 3), (1, 4), (4, 5), (4, 7), (4, 9)]:
    ...     sides.connect(*edge)
    >>> sides.possible, sides.colors()
    (True, {1: 0, 2: 1, 3: 1, 4: 1, 5: 0, 7: 0, 9: 0})
    >>> sides.connect(2, 3)
    >>> sides.possible, sides.colors()
    (False, {})
    """

    __slots__ = ("_parent", "possible")

    def __init__(self) -> None:
        self._parent: dict[Any, tuple[Any, int]] = {}
        self.possible = True

    def _find(self, vertex: Any) -> tuple[Any, int]:
        """Return the least vertex that is connected, and whether it is on the other side (1)."""
        parent = self._parent
        path = []
        above, side = parent.setdefault(vertex, (vertex, 0))
        while above != vertex:
            path.append((vertex, side))
            vertex = above
            above, side = parent[vertex]
        side = 0
        for below, step in reversed(path):
            side ^= step
            parent[below] = (vertex, side)
        return vertex, side

    def connect(self, one: Any, other: Any, different: int = 1) -> None:
        """Have two vertices on different sides, or on the same one (0); after a contradiction nothing matters any more."""
        if not self.possible:
            return
        (root, side), (another, other_side) = self._find(one), self._find(other)
        across = side ^ other_side ^ different
        if root == another:
            if across:
                self.possible = False
                self._parent.clear()
            return
        if least(root, another) is root:
            self._parent[another] = (root, across)
        else:
            self._parent[root] = (another, across)

    def merge(self, other: TwoSides) -> None:
        """Connect the vertices that another one connects."""
        if not other.possible:
            self.possible = False
            self._parent.clear()
        for vertex, (parent, side) in other._parent.items():
            self.connect(vertex, parent, side)

    def colors(self) -> dict[Any, int]:
        """Return the side of each vertex, 0 for the least of each component, in order; nothing if there are no two sides."""
        return {vertex: self._find(vertex)[1] for vertex in in_order(list(self._parent))}


class SpannerEdges:
    """Edges of which each is needed: without it, its ends would be more than ``k`` edges apart.

    New edges wait until ``settle``, which takes them in an order that depends on nothing but the edges. So only one summary
    leaves edges out, and no distance grows by more than ``k`` times, however many were merged before.

    >>> spanner = SpannerEdges(3)
    >>> for edge in [(1, 2), (2, 3), (3, 4), (4, 1)]:
    ...     spanner.add(*edge)
    >>> spanner.settle(), len(spanner.edges())
    (1, 3)
    """

    __slots__ = ("_k", "_kept", "_neighbors", "_waiting")

    def __init__(self, k: int) -> None:
        self._k = k
        self._kept: list[tuple[Any, Any]] = []
        self._neighbors: dict[Any, set[Any]] = {}
        self._waiting: set[tuple[Any, Any]] = set()

    def add(self, source: Any, target: Any) -> None:
        """Let an edge wait, without its direction; a loop is left out."""
        if source != target:
            self._waiting.add((source, target) if least(source, target) is source else (target, source))

    def merge(self, other: SpannerEdges) -> None:
        """Let the edges of another one wait."""
        self._waiting |= other._waiting
        self._waiting.update(other._kept)

    def settle(self) -> int:
        """Take needed edges; return the number of the others."""
        before = len(self._kept)
        waiting = in_order(list(self._waiting))
        for source, target in waiting:
            if not self._near(source, target):
                self._kept.append((source, target))
                self._neighbors.setdefault(source, set()).add(target)
                self._neighbors.setdefault(target, set()).add(source)
        self._waiting.clear()
        return len(waiting) - (len(self._kept) - before)

    def _near(self, source: Any, target: Any) -> bool:
        """Return True if two vertices are ``k`` edges apart or less: a search from both ends."""
        neighbors = self._neighbors
        if source not in neighbors or target not in neighbors:
            return False
        here, there = {source}, {target}
        seen_here, seen_there = {source}, {target}
        for _ in range(self._k):
            if len(here) > len(there):
                here, there, seen_here, seen_there = there, here, seen_there, seen_here
            here = {further for vertex in here for further in neighbors[vertex]} - seen_here
            if not here:
                return False
            if not here.isdisjoint(seen_there):
                return True
            seen_here |= here
        return False

    def edges(self) -> list[tuple[Any, Any]]:
        """Return the edges that were taken, in the order of their taking."""
        return list(self._kept)


# ---- Algorithms on streams of edges that keep a summary: ``edges.run(algorithm)``, a result per window or one at
# the end.


class StreamingConnectedComponents:
    """Computes the vertices of each connected component of all edges so far, by the least of them.

    ``window`` and ``degree`` are those of ``EdgeStream.aggregate``.

    >>> from funken.testing import local
    >>> edges = EdgeStream.from_stream(local([(1, 2), (1, 3), (2, 3), (1, 5), (6, 7), (8, 9)]))
    >>> edges.run(StreamingConnectedComponents()).execute_and_collect(limit=1)
    [{1: [1, 2, 3, 5], 6: [6, 7], 8: [8, 9]}]
    """

    def __init__(self, window: DurationLike | None = None, *, degree: int | None = None) -> None:
        self._window, self._degree = window, degree

    def run(self, edges: EdgeStream[K, Any]) -> DataStream[dict[K, list[K]]]:
        """Return the components after each window."""
        summary = _Summarized(DisjointSet, DisjointSet.union, DisjointSet.components)
        return edges.aggregate(summary, self._window, degree=self._degree).name("connected components")


class Bipartiteness(NamedTuple):
    """The result of the test for two sides; if there are two, each vertex's side: 0 for its component's least vertex.

    >>> Bipartiteness(True, {1: 0, 2: 1}).bipartite
    True
    """

    bipartite: bool
    sides: dict[Any, int]


class BipartitenessCheck:
    """Tells whether all edges so far go between two sides; once they do not, never again.

    >>> from funken.testing import local
    >>> edges = EdgeStream.from_stream(local([(1, 2), (2, 3), (3, 4)]))
    >>> edges.run(BipartitenessCheck()).execute_and_collect(limit=1)
    [Bipartiteness(bipartite=True, sides={1: 0, 2: 1, 3: 0, 4: 1})]
    """

    def __init__(self, window: DurationLike | None = None, *, degree: int | None = None) -> None:
        self._window, self._degree = window, degree

    def run(self, edges: EdgeStream) -> DataStream[Bipartiteness]:
        """Return a ``Bipartiteness`` after each window."""
        summary = _Summarized(TwoSides, TwoSides.connect, lambda found: Bipartiteness(found.possible, found.colors()))
        return edges.aggregate(summary, self._window, degree=self._degree).name("bipartiteness")


class Spanner:
    """Selects some of the edges so far, as pairs, in which no distance is more than ``k`` times the one with all edges.

    Directions do not count. An edge, once taken, stays.

    >>> from funken.testing import local
    >>> edges = EdgeStream.from_stream(local([(1, 2), (2, 3), (1, 3), (3, 4)]))
    >>> edges.run(Spanner(k=2)).execute_and_collect(limit=1)
    [[(1, 2), (1, 3), (3, 4)]]
    """

    def __init__(self, window: DurationLike | None = None, k: int = 3, *, degree: int | None = None) -> None:
        self._window, self._k, self._degree = window, at_least(1, k, "Spanner: k"), degree

    def run(self, edges: EdgeStream[K, Any]) -> DataStream[list[tuple[K, K]]]:
        """Return the edges of the spanner after each window."""
        summary = _Summarized(partial(SpannerEdges, self._k), SpannerEdges.add, _settled)
        return edges.aggregate(summary, self._window, degree=self._degree).name("spanner")


class _Summarized(AggregateFunction):
    """Keeps a summary: ``make`` begins one, ``add`` adds the ends of an edge, ``result`` returns its result."""

    def __init__(self, make: Callable[[], Any], add: Callable[..., Any], result: Callable[[Any], Any]) -> None:
        self._make, self._add, self._result = make, add, result

    def create_accumulator(self) -> Any:
        """Begin."""
        return self._make()

    def add(self, value: Any, accumulator: Any) -> Any:
        """Take an edge."""
        self._add(accumulator, value[0], value[1])
        return accumulator

    def merge(self, a: Any, b: Any) -> Any:
        """Merge two."""
        a.merge(b)
        return a

    def get_result(self, accumulator: Any) -> Any:
        """Return the result of the summary."""
        return self._result(accumulator)


def _settled(spanner: SpannerEdges) -> list[tuple[Any, Any]]:
    """Take needed edges, and return all edges taken so far."""
    spanner.settle()
    return spanner.edges()


# ---- Triangles of a stream of edges: each as it closes, their number per window, an estimate from a sample.
#
# As in the batch library, vertices have parts, and the parts of the three vertices of a triangle, sorted, are its
# *job*, a key: an edge goes to every job that has the parts of both its ends, and each triangle is found in exactly
# one. So a vertex with many edges is not the work of one task, and an edge is sent as often as there are parts.


Job: TypeAlias = tuple[int, int, int]
Sent: TypeAlias = tuple[Job, int, Any, int, Any, int]
"""The job, the part that closes its triangles, and two vertices, each with its part."""


PIECE = 32
"""Number of neighbours in one value of the state."""


class StreamingTriangles:
    """Lists each triangle once, as ``(id, id, id)``, in order if ids have one, when the last of its edges comes.

    Directions, loops and repeated edges do not count. The state holds every edge ``parts`` times; None: a number of parts
    that keeps all tasks busy.

    >>> from funken.testing import local
    >>> edges = EdgeStream.from_stream(local([(1, 2), (2, 3), (3, 1), (3, 4), (4, 2)]))
    >>> edges.run(StreamingTriangles()).execute_and_collect(limit=2)
    [(1, 2, 3), (2, 3, 4)]
    """

    def __init__(self, parts: int | None = None) -> None:
        self._parts = _checked(parts)

    def run(self, edges: EdgeStream[K, Any]) -> DataStream[tuple[K, K, K]]:
        """Return the triangles."""
        return _sent(edges, self._parts).key_by(_job).process(CloseTriangles()).name("triangles")


class ExactTriangleCount:
    """Counts the triangles so far, each time the number rises; one task counts the results of ``StreamingTriangles``.

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
    """Counts the triangles among the edges of each tumbling window of event time, late edges left out.

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
        at_least(2, sample_size, "TriangleEstimate: sample_size")
        at_least(1, every, "TriangleEstimate: every")
        self._spec = OperatorCall(EstimateTriangles, (sample_size, seed, every))

    def run(self, edges: EdgeStream) -> DataStream[EstimatedTriangles]:
        """Return the estimates."""
        return edges.get_edges().transform("estimate triangles", self._spec).force_non_parallel()


def _checked(parts: int | None) -> int | None:
    return None if parts is None else at_least(1, parts, "triangles: the number of parts")


def _parts_for(env: StreamExecutionEnvironment) -> int:
    """Return the least number of parts that makes two jobs per task, or one for a single task."""
    tasks, parts = env.get_parallelism(), 1
    while tasks > 1 and parts * (parts + 1) * (parts + 2) // 6 < 2 * tasks:
        parts += 1
    return parts


def _sent(edges: EdgeStream, parts: int | None) -> DataStream[Sent]:
    chosen = _parts_for(edges.get_context()) if parts is None else parts

    def to_jobs(edge: Any) -> Iterator[Sent]:
        one, other = edge[0], edge[1]
        if one != other:
            part, another = stable_hash(one) % chosen, stable_hash(other) % chosen
            for third in range(chosen):
                first, second, last = sorted((part, another, third))
                yield (first, second, last), third, one, part, other, another

    return edges.get_edges().flat_map(to_jobs).name("edges to jobs")


def _job(sent: Sent) -> Job:
    return sent[0]


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
