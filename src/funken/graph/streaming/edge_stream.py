"""``EdgeStream``: a stream of the edges of a graph, and what can be said of the graph while they come.

The edges are additions, and the graph itself is kept nowhere: each operator keeps what its own result needs, in keyed or
operator state. An edge that comes twice counts twice, except where a method says otherwise. Results do not depend on the
parallelism, and those of windows not on the order of the edges either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from funken import AggregateFunction, DataStream, KeySelector, StreamExecutionEnvironment
from funken.errors import InvalidProgram
from funken.graph.records import EdgeDirection, GraphEdge, GraphVertex
from funken.graph.streaming.aggregation import aggregated
from funken.graph.streaming.neighborhoods import CollectNeighbors, FirstOfKey, Neighborhood
from funken.graph.streaming.running import RunningCount
from funken.graph.streaming.slices import EdgeSlice


class EdgeStream:
    """A stream of edges: ``GraphEdge(source, target, value)``.

    >>> from funken import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> edges = EdgeStream.from_collection(env, [(1, 2, 12), (1, 3, 13), (2, 3, 23)])
    >>> edges.get_degrees().execute_and_collect(limit=6)
    [(1, 1), (2, 1), (1, 2), (3, 1), (2, 2), (3, 2)]

    What is made of it is another stream of edges, or a ``DataStream`` of results:

    >>> from funken.testing import local
    >>> pairs = local([("a", "b"), ("b", "a"), ("a", "b"), ("c", "d")])
    >>> edges = EdgeStream.from_stream(pairs)
    >>> new = edges.distinct().filter_edges(lambda edge: edge.source != "b").filter_vertices(lambda id: id != "d")
    >>> new.map_edges(lambda edge: edge.source + edge.target).get_edges().execute_and_collect(limit=1)
    [GraphEdge(source='a', target='b', value='ab')]
    >>> edges.get_context() is pairs.get_execution_environment()
    True
    """

    def __init__(self, edges: DataStream[GraphEdge]) -> None:
        if not isinstance(edges, DataStream):
            raise InvalidProgram(f"EdgeStream needs a DataStream of GraphEdge, but got {edges!r}. Call from_stream().")
        self._edges = edges

    # ---- creation

    @classmethod
    def from_stream(cls, stream: DataStream[Any], edge: Callable[[Any], Any] | None = None) -> EdgeStream:
        """Make edges of tuples ``(source, target)`` or ``(source, target, value)``, or of what ``edge(record)`` returns.

        Timestamps and watermarks are those of the stream.

        >>> from funken.testing import local
        >>> calls = local([{"from": "ann", "to": "bob", "seconds": 9}])
        >>> edges = EdgeStream.from_stream(calls, lambda call: (call["from"], call["to"], call["seconds"]))
        >>> edges.get_edges().execute_and_collect(limit=1)
        [GraphEdge(source='ann', target='bob', value=9)]
        """
        made = stream if edge is None else stream.map(edge)
        return cls(made.map(_edge).name("edges"))

    @classmethod
    def from_collection(cls, env: StreamExecutionEnvironment, edges: Iterable[Any]) -> EdgeStream:
        """Make a stream of a list of tuples ``(source, target)`` or ``(source, target, value)``."""
        return cls.from_stream(env.from_collection(list(edges)))

    # ---- properties

    def get_context(self) -> StreamExecutionEnvironment:
        """Return the environment of the stream."""
        return self._edges.get_execution_environment()

    def get_edges(self) -> DataStream[GraphEdge]:
        """Return the edges."""
        return self._edges

    def get_vertices(self) -> DataStream[GraphVertex]:
        """Return each vertex once, when the first edge of it comes; its value is None.

        >>> from funken.testing import local
        >>> EdgeStream.from_stream(local([(1, 2), (2, 3), (1, 3)])).get_vertices().execute_and_collect(limit=3)
        [GraphVertex(id=1, value=None), GraphVertex(id=2, value=None), GraphVertex(id=3, value=None)]
        """
        vertices = self._edges.flat_map(_vertices)
        return vertices.key_by(_Field(0)).filter(FirstOfKey()).name("vertices")

    def get_degrees(self) -> DataStream[tuple[Any, int]]:
        """Return ``(id, number of edges so far)`` of both ends after each edge; a loop counts twice."""
        return _counted(self._edges.flat_map(_both_ends), "degrees")

    def get_in_degrees(self) -> DataStream[tuple[Any, int]]:
        """Return ``(id, number of edges so far that end there)`` after each edge.

        >>> from funken.testing import local
        >>> EdgeStream.from_stream(local([(1, 3), (2, 3)])).get_in_degrees().execute_and_collect(limit=2)
        [(3, 1), (3, 2)]
        """
        return _counted(self._edges.map(lambda edge: (edge[1], 1)), "in-degrees")

    def get_out_degrees(self) -> DataStream[tuple[Any, int]]:
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

    def _new(self, edges: DataStream[GraphEdge]) -> EdgeStream:
        return type(self)(edges)

    def map_edges(self, function: Callable[[GraphEdge], Any]) -> EdgeStream:
        """Replace each edge's value by ``function(edge)``."""
        return self._new(self._edges.map(_Valued(function)).name("map edges"))

    def filter_edges(self, function: Callable[[GraphEdge], object]) -> EdgeStream:
        """Keep the edges for which ``function(edge)`` is true."""
        return self._new(self._edges.filter(function).name("filter edges"))

    def filter_vertices(self, function: Callable[[Any], object]) -> EdgeStream:
        """Keep the edges for both of whose ends ``function(id)`` is true."""
        return self._new(self._edges.filter(_BothEnds(function)).name("filter vertices"))

    def distinct(self) -> EdgeStream:
        """Keep the first edge of each source and target; the state holds every pair of them."""
        return self._new(self._edges.key_by(_Ends()).filter(FirstOfKey()).name("distinct edges"))

    def reverse(self) -> EdgeStream:
        """Turn each edge round.

        >>> from funken.testing import local
        >>> EdgeStream.from_stream(local([(1, 2, "x")])).reverse().get_edges().execute_and_collect(limit=1)
        [GraphEdge(source=2, target=1, value='x')]
        """
        return self._new(self._edges.map(_reversed).name("reversed edges"))

    def undirected(self) -> EdgeStream:
        """Have each edge in both directions.

        >>> from funken.testing import local
        >>> both = EdgeStream.from_stream(local([(1, 2)])).undirected().get_edges()
        >>> [edge[:2] for edge in both.execute_and_collect(limit=2)]
        [(1, 2), (2, 1)]
        """
        return self._new(self._edges.flat_map(_both_directions).name("edges both ways"))

    def union(self, other: EdgeStream) -> EdgeStream:
        """Put two streams of edges of one environment together.

        >>> from funken.testing import local
        >>> one = EdgeStream.from_stream(local([(1, 2)]))
        >>> both = one.union(one.reverse()).get_edges().execute_and_collect(limit=2)
        >>> sorted(edge[:2] for edge in both)
        [(1, 2), (2, 1)]
        """
        return self._new(self._edges.union(other._edges))

    # ---- neighbourhoods and summaries

    def build_neighborhood(self, directed: bool = False) -> DataStream[Neighborhood]:
        """Return ``(source, target, neighbours of the source so far)`` after each edge; if undirected, for both ends.

        The neighbours are in the order in which they came, each once. The work for an edge grows with their number.

        >>> from funken.testing import local
        >>> edges = EdgeStream.from_stream(local([(1, 2), (1, 3)]))
        >>> edges.build_neighborhood(directed=True).execute_and_collect(limit=2)
        [Neighborhood(source=1, target=2, neighbors=(2,)), Neighborhood(source=1, target=3, neighbors=(2, 3))]
        """
        edges = self if directed else self.undirected()
        return edges._edges.key_by(_Field(0)).process(CollectNeighbors()).name("neighbourhoods")

    def slice(self, window: Any, direction: EdgeDirection = EdgeDirection.OUT) -> EdgeSlice:
        """Window the edges of each vertex: a length of event time (tumbling windows), or any ``WindowAssigner``.

        The direction says which edges are a vertex's own: those that begin there, end there, or both.

        >>> from funken import WatermarkStrategy
        >>> from funken.testing import local
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda edge, _: edge[2])
        >>> timed = local([(1, 2, 100), (1, 3, 150), (2, 3, 450)]).assign_timestamps_and_watermarks(strategy)
        >>> EdgeStream.from_stream(timed).slice(400).reduce_on_edges(max).execute_and_collect(limit=2)
        [(1, 150), (2, 450)]
        """
        sides: dict[EdgeDirection, Callable[[], EdgeStream]] = {
            EdgeDirection.OUT: lambda: self,
            EdgeDirection.IN: self.reverse,
            EdgeDirection.ALL: self.undirected,
        }
        if direction not in sides:
            raise InvalidProgram(f"slice(): the direction has to be an EdgeDirection, but is {direction!r}.")
        return EdgeSlice(sides[direction]()._edges, window)

    def aggregate(
        self,
        function: AggregateFunction[GraphEdge, Any, Any],
        window: Any = None,
        *,
        degree: int | None = None,
        running: bool = True,
    ) -> DataStream[Any]:
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

    def run(self, algorithm: Any) -> Any:
        """Return what ``algorithm.run(edges)`` returns.

        >>> from funken.graph import StreamingConnectedComponents
        >>> from funken.testing import local
        >>> edges = EdgeStream.from_stream(local([(1, 2), (3, 4), (3, 2)]))
        >>> edges.run(StreamingConnectedComponents()).execute_and_collect(limit=1)
        [{1: [1, 2, 3, 4]}]
        """
        if not callable(getattr(algorithm, "run", None)) or isinstance(algorithm, type):
            raise InvalidProgram(f"run() needs an object with a method run(edges), but got {algorithm!r}.")
        return algorithm.run(self)


class _Field(KeySelector):
    def __init__(self, place: int) -> None:
        self._place = place

    def get_key(self, value: Any) -> Any:
        """Return a field."""
        return value[self._place]


class _Ends(KeySelector):
    def get_key(self, value: Any) -> Any:
        """Return source and target."""
        return value[0], value[1]


class _Valued:
    def __init__(self, function: Callable[[GraphEdge], Any]) -> None:
        self._function = function

    def __call__(self, edge: GraphEdge) -> GraphEdge:
        """Return the edge with another value."""
        return GraphEdge(edge[0], edge[1], self._function(edge))


class _BothEnds:
    def __init__(self, function: Callable[[Any], object]) -> None:
        self._function = function

    def __call__(self, edge: GraphEdge) -> bool:
        """Whether both ends are kept."""
        return bool(self._function(edge[0]) and self._function(edge[1]))


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
    return ends.key_by(_Field(0)).sum(1).name(name)
