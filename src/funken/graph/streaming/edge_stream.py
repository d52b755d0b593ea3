"""``EdgeStream``: a stream of the edges of a graph, and properties of the graph so far.

The edges are additions, and the graph itself is kept nowhere: each operator keeps what its own result needs, in keyed or
operator state. An edge that comes twice counts twice, except where a method says otherwise. Results do not depend on the
parallelism, and those of windows not on the order of the edges either.
"""

from __future__ import annotations

import pickle
import random
import typing
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias, overload

from funken import (
    MAX_WATERMARK,
    MIN_TIMESTAMP,
    AggregateFunction,
    DataStream,
    FilterFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WindowAssigner,
    WindowedStream,
)
from funken.errors import InvalidProgram
from funken.graph.core import EdgeDirection, GraphEdge, GraphVertex, at_least
from funken.sdk import Operator, OperatorCall, Timestamps, UserFunction, Values, check_kind, copied_block, load_state
from funken.types.callables import A, Generic, K, OUT_co, R, S, T

if TYPE_CHECKING:
    from funken.io.durations import DurationLike

# ---- Summaries of a stream of edges: folded in every task, merged pane by pane, kept in one task.
#
# A *pane* is a window of event time, the same for all tasks. A task folds its edges into one accumulator per pane,
# and hands it on when the watermark has passed the pane, before that watermark. So what merges has all of a pane
# when its own watermark passes, and a result depends neither on the parallelism nor on the order of the edges, as
# long as the function's does not. No accumulator is ever in two places: it is in the state of one task, or on the
# way.


AT_END = MAX_WATERMARK + 1
"""The end of the only pane, where there is no window."""

Partial: TypeAlias = tuple[int, int, Any]
"""The number of the task that merges it, modulo its parallelism; the end of the pane; the accumulator."""


def aggregated(
    edges: DataStream[Any], function: AggregateFunction[Any, Any, Any], window: Any, degree: int | None, running: bool
) -> DataStream[Any]:
    """Return the summaries of a stream, one per pane."""
    for method in ("create_accumulator", "add", "get_result", "merge"):
        if not callable(getattr(function, method, None)) or isinstance(function, type):
            raise InvalidProgram(f"aggregate() needs an AggregateFunction with merge(), but got {function!r}.")
    if degree is not None:
        at_least(2, degree, "aggregate(): the degree of the tree")
    size = AT_END if window is None else TumblingEventTimeWindows.of(window).size
    rich = hasattr(function, "open") and hasattr(function, "close")
    user = UserFunction(function, None, rich)
    partials = edges.transform("fold edges", OperatorCall(FoldEdges, (user, size, running)))
    width = edges.get_execution_environment().get_parallelism()
    while degree is not None and width > degree:
        width = -(-width // degree)
        tree = partials.partition_custom(_owner, lambda partial: partial[0] // degree)
        partials = tree.transform("merge summaries", OperatorCall(MergeSummaries, (user,))).set_parallelism(width)
    merged = partials.global_().transform("summary", OperatorCall(Summarize, (user, running)))
    return merged.force_non_parallel()


def _owner(number: int, tasks: int) -> int:
    return number % tasks


class PaneOperator(Operator):
    """Keeps an accumulator per pane, and hands over those that the watermark has passed."""

    state = "panes"

    def __init__(self, user: UserFunction) -> None:
        self._user = user
        self._function = user.target
        self._panes: dict[int, Any] = {}

    def open(self) -> None:
        """Open the function, and take over the panes of a snapshot: of several tasks, if there were more."""
        self._user.open(self.context)
        for end, accumulator in map(load_state, self.context.operator_state.split.get(self.state, ())):
            self._merge(end, accumulator)
        self.context.before_snapshot.append(self._save)

    def _save(self) -> None:
        saved = [pickle.dumps(pane, pickle.HIGHEST_PROTOCOL) for pane in self._panes.items()]
        self.context.operator_state.split[self.state] = saved

    def _merge(self, end: int, accumulator: Any) -> None:
        known = self._panes.get(end)
        self._panes[end] = accumulator if known is None else self._function.merge(known, accumulator)

    def watermark(self, watermark: int) -> None:
        """Hand over complete panes, then pass the watermark on."""
        ends = sorted(end for end in self._panes if end - 1 <= watermark)
        if ends:
            found = [self.complete(end, self._panes.pop(end)) for end in ends]
            self.output.emit(found, [end - 1 for end in ends])
        super().watermark(watermark)

    def complete(self, end: int, accumulator: Any) -> Any:
        """Return the record of a complete pane."""
        return self.context.subtask, end, accumulator

    def close(self) -> None:
        """Close the function."""
        self._user.close()


class FoldEdges(PaneOperator):
    """Adds edges to the accumulators of their panes."""

    def __init__(self, user: UserFunction, size: int, running: bool) -> None:
        super().__init__(user)
        self._size, self._running = size, running

    def open(self) -> None:
        """Have a counter for late edges."""
        super().open()
        self._late = self.context.metrics.counter("numLateRecordsDropped")

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Add a block; the pane is looked up when it changes."""
        panes, add = self._panes, self._function.add
        if self._size == AT_END:
            accumulator = panes.pop(AT_END, None)
            accumulator = self._function.create_accumulator() if accumulator is None else accumulator
            for edge in values:
                accumulator = add(edge, accumulator)
            panes[AT_END] = accumulator
            return
        if timestamps is None:
            raise self._no_timestamp(values[0])
        begin = end = current = MIN_TIMESTAMP
        accumulator = None
        for edge, at in zip(values, timestamps, strict=True):
            if not begin <= at < end:
                if current != MIN_TIMESTAMP:
                    panes[current] = accumulator
                if at <= MIN_TIMESTAMP:
                    raise self._no_timestamp(edge)
                begin = at - at % self._size
                end = current = begin + self._size
                if end - 1 <= self.current_watermark:
                    begin = end  # the next edge is looked at again
                    if not self._running:
                        self._late.inc()
                        current = MIN_TIMESTAMP
                        continue
                    horizon = self.current_watermark + 1
                    current = min(horizon - horizon % self._size + self._size, AT_END)
                accumulator = panes.get(current)
                if accumulator is None:
                    accumulator = self._function.create_accumulator()
            accumulator = add(edge, accumulator)
        if current != MIN_TIMESTAMP:
            panes[current] = accumulator

    def _no_timestamp(self, edge: Any) -> InvalidProgram:
        return InvalidProgram(
            f"{self.context.operator}: the edge {edge!r} has no timestamp, which a window needs. Call "
            "assign_timestamps_and_watermarks() on the stream, or aggregate without a window."
        )


class MergeSummaries(PaneOperator):
    """Merges partial accumulators of the same pane."""

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Merge new summaries."""
        for _, end, accumulator in values:
            self._merge(end, accumulator)


class Summarize(MergeSummaries):
    """Merges the panes in their order, if it is running, and emits the result."""

    def __init__(self, user: UserFunction, running: bool) -> None:
        super().__init__(user)
        self._running = running
        self._so_far: Any = None
        self._begun = False

    def complete(self, end: int, accumulator: Any) -> Any:
        """Return the result after a pane."""
        if self._running:
            if self._begun:
                accumulator = self._function.merge(self._so_far, accumulator)
            self._so_far, self._begun = accumulator, True
        result = self._function.get_result(accumulator)
        return copied_block([result])[0] if result is accumulator else result

    def snapshot(self) -> bytes:
        """Return the summary of all panes that are complete, as it is now."""
        return pickle.dumps((self._so_far, self._begun), pickle.HIGHEST_PROTOCOL)

    def restore(self, snapshot: bytes) -> None:
        """Go on."""
        self._so_far, self._begun = load_state(snapshot)


# ---- A slice of a stream of edges: windows over the neighbourhood of each vertex.


class EdgeSlice(Generic[K, T]):
    """The edges of each vertex, in windows; a vertex without edges in a window is not in its results.

    >>> from funken import WatermarkStrategy
    >>> from funken.graph import EdgeDirection, EdgeStream
    >>> from funken.testing import local
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda edge, _: edge[2])
    >>> edges = [(1, 2, 10), (1, 3, 20), (2, 3, 30), (4, 1, 120)]
    >>> stream = EdgeStream.from_stream(local(edges).assign_timestamps_and_watermarks(strategy))
    >>> sorted(stream.slice(100).reduce_on_edges(lambda one, other: one + other).execute_and_collect(limit=3))
    [(1, 30), (2, 30), (4, 120)]
    >>> nearest = stream.slice(100, EdgeDirection.ALL).apply_on_neighbors(lambda id, pairs: [(id, sorted(n for n, _ in pairs))])
    >>> sorted(nearest.execute_and_collect(limit=5))
    [(1, [2, 3]), (1, [4]), (2, [1, 3]), (3, [1, 2]), (4, [1])]
    >>> counts = stream.slice(100).fold_neighbors((None, 0), lambda so_far, id, neighbor, value: (id, so_far[1] + 1))
    >>> sorted(counts.execute_and_collect(limit=3))
    [(1, 2), (2, 1), (4, 1)]
    """

    def __init__(self, edges: DataStream[GraphEdge[K, T]], window: DurationLike | WindowAssigner[Any, Any]) -> None:
        self._edges = edges
        self._window: Any = window if isinstance(window, WindowAssigner) else TumblingEventTimeWindows.of(window)

    def _windows(self, edges: DataStream[Any]) -> WindowedStream[Any, Any, Any]:
        return edges.key_by(lambda edge: edge[0]).window(self._window)

    def reduce_on_edges(self, function: Callable[[T, T], T]) -> DataStream[tuple[K, T]]:
        """Reduce the values of a vertex's edges, two at a time, to ``(id, value)``."""
        values = self._edges.map(lambda edge: (edge[0], edge[2]))
        return (
            self._windows(values)
            .reduce(lambda one, other: (one[0], function(one[1], other[1])))
            .name("reduce on edges")
        )

    def fold_neighbors(self, initial: S, function: Callable[[S, K, K, T], S]) -> DataStream[S]:
        """Fold a vertex's neighbours, as they come: ``function(so far, id, neighbour, edge value)``, from ``initial`` on.

        The initial value is not to be changed by the function.
        """
        return self._windows(self._edges).aggregate(_Folded(initial, function)).name("fold neighbours")

    def apply_on_neighbors(self, function: Callable[[K, list[tuple[K, T]]], Iterable[R]]) -> DataStream[R]:
        """Call ``function(id, [(neighbour, edge value), ...])`` for each vertex; it returns or yields any records."""

        def apply(key: Any, window: Any, edges: list[GraphEdge]) -> Iterable[Any]:
            return function(key, [(edge[1], edge[2]) for edge in edges])

        return self._windows(self._edges).apply(apply).name("apply on neighbours")


class _Folded(AggregateFunction):
    def __init__(self, initial: Any, function: Callable[[Any, Any, Any, Any], Any]) -> None:
        self._initial, self._function = initial, function

    def create_accumulator(self) -> Any:
        """Begin."""
        return self._initial

    def add(self, value: GraphEdge, accumulator: Any) -> Any:
        """Fold a neighbour."""
        return self._function(accumulator, *value)

    def get_result(self, accumulator: Any) -> Any:
        """Return the accumulator."""
        return accumulator


# ---- What is kept per vertex or edge while edges come, in keyed state.


class Neighborhood(NamedTuple, typing.Generic[K]):
    """An edge, and the neighbours that its source has by then.

    >>> Neighborhood(1, 3, (2, 3)).neighbors
    (2, 3)
    """

    source: K
    target: K
    neighbors: tuple[K, ...]


class FirstOfKey(FilterFunction):
    """Keeps the first record of a key."""

    def open(self, runtime_context: Any) -> None:
        """Find the state."""
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def filter(self, value: Any) -> bool:
        """Return True if the value is the first one of its key."""
        if self._seen.value():
            return False
        self._seen.update(True)
        return True


class CollectNeighbors(KeyedProcessFunction):
    """Adds the target of an edge to the neighbours of its source, the key."""

    def open(self, runtime_context: Any) -> None:
        """Find the state."""
        self._neighbors = runtime_context.get_map_state(MapStateDescriptor("neighbors"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Neighborhood]:
        """Add one, and emit all."""
        if not self._neighbors.contains(value[1]):
            self._neighbors.put(value[1], True)
        yield Neighborhood(value[0], value[1], tuple(self._neighbors.keys()))


# ---- What one task computes over all edges: a count of records, and an estimate of the number of triangles.
#
# The estimate is TRIÈST-IMPR (De Stefani, Epasto, Riondato and Upfal, "TRIÈST: Counting Local and Global Triangles
# in Fully-dynamic Streams with Fixed Memory Size", 2016): a sample of fixed size, in which every edge so far is
# with the same probability; the triangles that a new edge closes in the sample are counted before the sample
# changes, each with the inverse of the probability that its other two edges are there. The estimate is unbiased,
# and exact while all edges fit into the sample.


class RunningCount(Operator):
    """Emits the number of records so far, for each record."""

    def __init__(self) -> None:
        self._count = 0

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Count a block."""
        before, self._count = self._count, self._count + len(values)
        self.output.emit(list(range(before + 1, self._count + 1)), timestamps)

    def snapshot(self) -> int:
        """Return the count."""
        return self._count

    def restore(self, snapshot: int) -> None:
        """Go on."""
        self._count = snapshot


class EdgeSample:
    """A sample of at most ``size`` edges, and the estimate of the number of triangles.

    >>> sample = EdgeSample(10, seed=1)
    >>> for edge in [(1, 2), (2, 3), (1, 3), (3, 4), (2, 4), (4, 4)]:
    ...     sample.add(*edge)
    >>> sample.edges, sample.estimate
    (5, 2.0)
    """

    def __init__(self, size: int, seed: int) -> None:
        self._size = size
        self._chance = random.Random(seed)
        self._sample: list[tuple[Any, Any]] = []
        self._neighbors: defaultdict[Any, set[Any]] = defaultdict(set)
        self.edges = 0
        self.estimate = 0.0

    def add(self, source: Any, target: Any) -> None:
        """Count the triangles that an edge closes in the sample, then perhaps take it; a loop is left out."""
        if source == target:
            return
        self.edges += 1
        seen, size, neighbors = self.edges, self._size, self._neighbors
        near, far = neighbors.get(source), neighbors.get(target)
        if near and far:
            closed = len(near & far)
            if closed:
                self.estimate += closed * max(1.0, (seen - 1) * (seen - 2) / (size * (size - 1)))
        if seen > size:
            place = int(self._chance.random() * seen)
            if place >= size:
                return
            self._leave(*self._sample[place])
            self._sample[place] = (source, target)
        else:
            self._sample.append((source, target))
        neighbors[source].add(target)
        neighbors[target].add(source)

    def _leave(self, source: Any, target: Any) -> None:
        for one, other in ((source, target), (target, source)):
            left = self._neighbors[one]
            left.discard(other)
            if not left:
                del self._neighbors[one]


class EstimatedTriangles(NamedTuple):
    """The number of edges so far, loops left out, and the estimated number of triangles that they make.

    >>> EstimatedTriangles(5, 2.0).triangles
    2.0
    """

    edges: int
    triangles: float


class EstimateTriangles(Operator):
    """Emits the estimate after every ``every`` edges and at the end."""

    def __init__(self, size: int, seed: int, every: int) -> None:
        self._sample, self._every = EdgeSample(size, seed), every
        self._emitted = 0

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Add a block of edges."""
        sample, every = self._sample, self._every
        add = sample.add
        found: list[EstimatedTriangles] = []
        times: Timestamps = None if timestamps is None else []
        for place, edge in enumerate(values):
            add(edge[0], edge[1])
            if sample.edges >= self._emitted + every:
                found.append(self._now())
                if times is not None and timestamps is not None:
                    times.append(timestamps[place])
        if found:
            self.output.emit(found, times)

    def _now(self) -> EstimatedTriangles:
        self._emitted = self._sample.edges
        return EstimatedTriangles(self._sample.edges, self._sample.estimate)

    def finish(self) -> None:
        """Emit the last estimate."""
        if self._sample.edges > self._emitted:
            self.output.emit([self._now()], None)

    def snapshot(self) -> bytes:
        """Return the sample as it is now."""
        return pickle.dumps((self._sample, self._emitted), pickle.HIGHEST_PROTOCOL)

    def restore(self, snapshot: bytes) -> None:
        """Go on."""
        self._sample, self._emitted = load_state(snapshot)


class RunsOnEdges(Protocol[K, T, OUT_co]):
    """An algorithm."""

    def run(self, edges: EdgeStream[K, T], /) -> OUT_co:
        """Return the result for a stream of edges."""
        ...


class EdgeStream(Generic[K, T]):
    """A stream of edges: ``GraphEdge(source, target, value)``.

    >>> from funken import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> edges = EdgeStream.from_collection(env, [(1, 2, 12), (1, 3, 13), (2, 3, 23)])
    >>> edges.get_degrees().execute_and_collect(limit=6)
    [(1, 1), (2, 1), (1, 2), (3, 1), (2, 2), (3, 2)]

    Its methods return another stream of edges, or a ``DataStream`` of results:

    >>> from funken.testing import local
    >>> pairs = local([("a", "b"), ("b", "a"), ("a", "b"), ("c", "d")])
    >>> edges = EdgeStream.from_stream(pairs)
    >>> new = edges.distinct().filter_edges(lambda edge: edge.source != "b").filter_vertices(lambda id: id != "d")
    >>> new.map_edges(lambda edge: edge.source + edge.target).get_edges().execute_and_collect(limit=1)
    [GraphEdge(source='a', target='b', value='ab')]
    >>> edges.get_context() is pairs.get_execution_environment()
    True
    """

    def __init__(self, edges: DataStream[GraphEdge[K, T]]) -> None:
        if not isinstance(edges, DataStream):
            raise InvalidProgram(f"EdgeStream needs a DataStream of GraphEdge, but got {edges!r}. Call from_stream().")
        self._edges = edges

    # ---- creation

    @overload
    @staticmethod
    def from_stream(stream: DataStream[tuple[S, S]]) -> EdgeStream[S, None]: ...
    @overload
    @staticmethod
    def from_stream(stream: DataStream[tuple[S, S, A]]) -> EdgeStream[S, A]: ...
    @overload
    @staticmethod
    def from_stream(stream: DataStream[R], edge: Callable[[R], tuple[S, S, A]]) -> EdgeStream[S, A]: ...
    @staticmethod
    def from_stream(stream: DataStream[Any], edge: Callable[[Any], Any] | None = None) -> EdgeStream[Any, Any]:
        """Make edges of tuples ``(source, target)`` or ``(source, target, value)``, or of results of ``edge(record)``.

        Timestamps and watermarks are those of the stream.

        >>> from funken.testing import local
        >>> calls = local([{"from": "ann", "to": "bob", "seconds": 9}])
        >>> edges = EdgeStream.from_stream(calls, lambda call: (call["from"], call["to"], call["seconds"]))
        >>> edges.get_edges().execute_and_collect(limit=1)
        [GraphEdge(source='ann', target='bob', value=9)]
        """
        check_kind(stream, DataStream, "EdgeStream.from_stream()", "env.from_collection(edges) makes one.")
        made = stream if edge is None else stream.map(edge)
        return EdgeStream(made.map(_edge).name("edges"))

    @overload
    @staticmethod
    def from_collection(env: StreamExecutionEnvironment, edges: list[tuple[S, S]]) -> EdgeStream[S, None]: ...
    @overload
    @staticmethod
    def from_collection(env: StreamExecutionEnvironment, edges: list[tuple[S, S, A]]) -> EdgeStream[S, A]: ...
    @overload
    @staticmethod
    def from_collection(env: StreamExecutionEnvironment, edges: Iterable[Any]) -> EdgeStream[Any, Any]: ...
    @staticmethod
    def from_collection(env: StreamExecutionEnvironment, edges: Iterable[Any]) -> EdgeStream[Any, Any]:
        """Make a stream of a list of tuples ``(source, target)`` or ``(source, target, value)``."""
        made: DataStream[Any] = env.from_collection(list(edges))
        return EdgeStream.from_stream(made)

    # ---- properties

    def get_context(self) -> StreamExecutionEnvironment:
        """Return the environment of the stream."""
        return self._edges.get_execution_environment()

    def get_edges(self) -> DataStream[GraphEdge[K, T]]:
        """Return the edges."""
        return self._edges

    def get_vertices(self) -> DataStream[GraphVertex[K, None]]:
        """Return each vertex once, when the first edge of it comes; its value is None.

        >>> from funken.testing import local
        >>> EdgeStream.from_stream(local([(1, 2), (2, 3), (1, 3)])).get_vertices().execute_and_collect(limit=3)
        [GraphVertex(id=1, value=None), GraphVertex(id=2, value=None), GraphVertex(id=3, value=None)]
        """
        vertices = self._edges.flat_map(_vertices)
        return vertices.key_by(itemgetter(0)).filter(FirstOfKey()).name("vertices")

    def get_degrees(self) -> DataStream[tuple[K, int]]:
        """Return ``(id, number of edges so far)`` of both ends after each edge; a loop counts twice."""
        return _counted(self._edges.flat_map(_both_ends), "degrees")

    def get_in_degrees(self) -> DataStream[tuple[K, int]]:
        """Return ``(id, number of edges so far that end there)`` after each edge.

        >>> from funken.testing import local
        >>> EdgeStream.from_stream(local([(1, 3), (2, 3)])).get_in_degrees().execute_and_collect(limit=2)
        [(3, 1), (3, 2)]
        """
        return _counted(self._edges.map(lambda edge: (edge[1], 1)), "in-degrees")

    def get_out_degrees(self) -> DataStream[tuple[K, int]]:
        """Return ``(id, number of edges so far that begin there)`` after each edge.

        >>> from funken.testing import local
        >>> EdgeStream.from_stream(local([(1, 3), (2, 3)])).get_out_degrees().execute_and_collect(limit=2)
        [(1, 1), (2, 1)]
        """
        return _counted(self._edges.map(lambda edge: (edge[0], 1)), "out-degrees")

    def number_of_edges(self) -> DataStream[int]:
        """Return the number of edges so far, after each edge; one task counts.

        >>> from funken.testing import local
        >>> EdgeStream.from_stream(local([(1, 2), (1, 2)])).number_of_edges().execute_and_collect(limit=2)
        [1, 2]
        """
        return self._edges.transform("number of edges", RunningCount).force_non_parallel()

    def number_of_vertices(self) -> DataStream[int]:
        """Return the number of different vertices so far, after each new one; one task counts.

        >>> from funken.testing import local
        >>> EdgeStream.from_stream(local([(1, 2), (1, 2), (2, 3)])).number_of_vertices().execute_and_collect(limit=3)
        [1, 2, 3]
        """
        return self.get_vertices().transform("number of vertices", RunningCount).force_non_parallel()

    # ---- transformations

    def _new(self, edges: DataStream[Any]) -> Self:
        return type(self)(edges)

    def map_edges(self, function: Callable[[GraphEdge[K, T]], R]) -> EdgeStream[K, R]:
        """Replace each edge's value by ``function(edge)``."""
        mapped: Any = self._new(
            self._edges.map(lambda edge: GraphEdge(edge[0], edge[1], function(edge))).name("map edges")
        )
        made: EdgeStream[K, R] = mapped
        return made

    def filter_edges(self, function: Callable[[GraphEdge[K, T]], object]) -> Self:
        """Keep the edges for which ``function(edge)`` is true."""
        return self._new(self._edges.filter(function).name("filter edges"))

    def filter_vertices(self, function: Callable[[K], object]) -> Self:
        """Keep the edges for both of whose ends ``function(id)`` is true."""
        return self._new(
            self._edges.filter(lambda edge: bool(function(edge[0]) and function(edge[1]))).name("filter vertices")
        )

    def distinct(self) -> Self:
        """Keep the first edge of each source and target; the state holds every pair of them."""
        return self._new(self._edges.key_by(itemgetter(0, 1)).filter(FirstOfKey()).name("distinct edges"))

    def reverse(self) -> Self:
        """Turn each edge round.

        >>> from funken.testing import local
        >>> EdgeStream.from_stream(local([(1, 2, "x")])).reverse().get_edges().execute_and_collect(limit=1)
        [GraphEdge(source=2, target=1, value='x')]
        """
        return self._new(self._edges.map(_reversed).name("reversed edges"))

    def undirected(self) -> Self:
        """Have each edge in both directions.

        >>> from funken.testing import local
        >>> both = EdgeStream.from_stream(local([(1, 2)])).undirected().get_edges()
        >>> [edge[:2] for edge in both.execute_and_collect(limit=2)]
        [(1, 2), (2, 1)]
        """
        return self._new(self._edges.flat_map(_both_directions).name("edges both ways"))

    def union(self, other: EdgeStream[K, T]) -> Self:
        """Put two streams of edges of one environment together.

        >>> from funken.testing import local
        >>> one = EdgeStream.from_stream(local([(1, 2)]))
        >>> both = one.union(one.reverse()).get_edges().execute_and_collect(limit=2)
        >>> sorted(edge[:2] for edge in both)
        [(1, 2), (2, 1)]
        """
        return self._new(self._edges.union(other._edges))

    # ---- neighbourhoods and summaries

    def build_neighborhood(self, directed: bool = False) -> DataStream[Neighborhood[K]]:
        """Return ``(source, target, neighbours of the source so far)`` after each edge; if undirected, for both ends.

        The neighbours are in the order in which they came, each once. The work for an edge grows with their number.

        >>> from funken.testing import local
        >>> edges = EdgeStream.from_stream(local([(1, 2), (1, 3)]))
        >>> edges.build_neighborhood(directed=True).execute_and_collect(limit=2)
        [Neighborhood(source=1, target=2, neighbors=(2,)), Neighborhood(source=1, target=3, neighbors=(2, 3))]
        """
        edges = self if directed else self.undirected()
        return edges._edges.key_by(itemgetter(0)).process(CollectNeighbors()).name("neighbourhoods")

    def slice(
        self, window: DurationLike | WindowAssigner[Any, Any], direction: EdgeDirection = EdgeDirection.OUT
    ) -> EdgeSlice[K, T]:
        """Window the edges of each vertex: a length of event time (tumbling windows), or any ``WindowAssigner``.

        The direction says which edges are a vertex's own: those that begin there, end there, or both.

        >>> from funken import WatermarkStrategy
        >>> from funken.testing import local
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda edge, _: edge[2])
        >>> timed = local([(1, 2, 100), (1, 3, 150), (2, 3, 450)]).assign_timestamps_and_watermarks(strategy)
        >>> EdgeStream.from_stream(timed).slice(400).reduce_on_edges(max).execute_and_collect(limit=2)
        [(1, 150), (2, 450)]
        """
        sides: dict[EdgeDirection, Callable[[], EdgeStream[K, T]]] = {
            EdgeDirection.OUT: lambda: self,
            EdgeDirection.IN: self.reverse,
            EdgeDirection.ALL: self.undirected,
        }
        if direction not in sides:
            raise InvalidProgram(f"slice(): the direction has to be an EdgeDirection, but is {direction!r}.")
        return EdgeSlice(sides[direction]()._edges, window)

    def aggregate(
        self,
        function: AggregateFunction[GraphEdge[K, T], A, R],
        window: DurationLike | None = None,
        *,
        degree: int | None = None,
        running: bool = True,
    ) -> DataStream[R]:
        """Keep a summary of the graph: return it after each window of event time in which there were edges.

        ``window`` is a length of time; ``None``: the summary of all edges, when the stream ends. Each task adds its edges of a
        window to an accumulator; these are merged in one task, or with a ``degree`` by a tree in which a task merges so many. The
        function's ``merge`` may change its first argument; what ``get_result`` returns is the accumulator itself, of which a copy
        is emitted, or shares nothing with it that changes later.

        If it is ``running``, the summary is of all edges up to the end of the window, and a late edge counts in the next one;
        otherwise of the edges of the window, and late edges are dropped, and counted in ``numLateRecordsDropped``.

        >>> from funken import AggregateFunction
        >>> from funken.testing import local
        >>> class Heaviest(AggregateFunction):
        ...     def create_accumulator(self):
        ...         return 0
        ...     def add(self, value, accumulator):
        ...         return max(value.value, accumulator)
        ...     def merge(self, a, b):
        ...         return max(a, b)
        ...     def get_result(self, accumulator):
        ...         return accumulator
        >>> EdgeStream.from_stream(local([(1, 2, 7), (2, 3, 9)])).aggregate(Heaviest()).execute_and_collect(limit=1)
        [9]
        """
        return aggregated(self._edges, function, window, degree, running)

    def run(self, algorithm: RunsOnEdges[K, T, R]) -> R:
        """Return the result of ``algorithm.run(edges)``.

        >>> from funken.graph import StreamingConnectedComponents
        >>> from funken.testing import local
        >>> edges = EdgeStream.from_stream(local([(1, 2), (3, 4), (3, 2)]))
        >>> edges.run(StreamingConnectedComponents()).execute_and_collect(limit=1)
        [{1: [1, 2, 3, 4]}]
        """
        if not callable(getattr(algorithm, "run", None)) or isinstance(algorithm, type):
            raise InvalidProgram(f"run() needs an object with a method run(edges), but got {algorithm!r}.")
        return algorithm.run(self)


def _edge(record: Any) -> GraphEdge:
    if type(record) is GraphEdge:
        return record
    if not isinstance(record, tuple | list) or not 2 <= len(record) <= 3:
        raise InvalidProgram(
            f"EdgeStream: {record!r} is no edge (source, target) or (source, target, value). "
            "Say how to make one: from_stream(stream, lambda record: ...)."
        )
    return GraphEdge(*record) if len(record) == 3 else GraphEdge(record[0], record[1], None)


def _vertices(edge: GraphEdge) -> tuple[GraphVertex, GraphVertex]:
    return GraphVertex(edge[0], None), GraphVertex(edge[1], None)


def _both_ends(edge: GraphEdge) -> tuple[tuple[Any, int], tuple[Any, int]]:
    return (edge[0], 1), (edge[1], 1)


def _reversed(edge: GraphEdge) -> GraphEdge:
    return GraphEdge(edge[1], edge[0], edge[2])


def _both_directions(edge: GraphEdge) -> tuple[GraphEdge, GraphEdge]:
    return edge, GraphEdge(edge[1], edge[0], edge[2])


def _counted(ends: DataStream[tuple[Any, int]], name: str) -> DataStream[tuple[Any, int]]:
    return ends.key_by(itemgetter(0)).sum(1).name(name)
