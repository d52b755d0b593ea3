"""A slice of a stream of edges: windows over the neighbourhood of each vertex."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from funken import AggregateFunction, DataStream, TumblingEventTimeWindows, WindowAssigner, WindowedStream
from funken.graph.records import GraphEdge


class EdgeSlice:
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

    def __init__(self, edges: DataStream[GraphEdge], window: Any) -> None:
        self._edges = edges
        self._window: Any = window if isinstance(window, WindowAssigner) else TumblingEventTimeWindows.of(window)

    def _windows(self, edges: DataStream[Any]) -> WindowedStream[Any, Any, Any]:
        return edges.key_by(lambda edge: edge[0]).window(self._window)

    def reduce_on_edges(self, function: Callable[[Any, Any], Any]) -> DataStream[tuple[Any, Any]]:
        """Reduce the values of a vertex's edges, two at a time, to ``(id, value)``."""
        values = self._edges.map(lambda edge: (edge[0], edge[2]))
        return self._windows(values).reduce(_Reduced(function)).name("reduce on edges")

    def fold_neighbors(self, initial: Any, function: Callable[[Any, Any, Any, Any], Any]) -> DataStream[Any]:
        """Fold a vertex's neighbours, as they come: ``function(so far, id, neighbour, edge value)``, from ``initial`` on.

        The initial value is not to be changed by the function.
        """
        return self._windows(self._edges).aggregate(_Folded(initial, function)).name("fold neighbours")

    def apply_on_neighbors(self, function: Callable[[Any, list[tuple[Any, Any]]], Iterable[Any]]) -> DataStream[Any]:
        """Call ``function(id, [(neighbour, edge value), ...])`` for each vertex; it returns or yields any records."""
        return self._windows(self._edges).apply(_Applied(function)).name("apply on neighbours")


class _Reduced:
    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self._function = function

    def __call__(self, one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
        """Reduce two values of a vertex."""
        return one[0], self._function(one[1], other[1])


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
        """Return what was folded."""
        return accumulator


class _Applied:
    def __init__(self, function: Callable[[Any, list[tuple[Any, Any]]], Iterable[Any]]) -> None:
        self._function = function

    def __call__(self, key: Any, window: Any, edges: list[GraphEdge]) -> Iterable[Any]:
        """Apply the function to the neighbours of one vertex."""
        return self._function(key, [(edge[1], edge[2]) for edge in edges])
