"""How the records of a stream are spread over the subtasks of the next operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from funken.api.functions.base import as_user_function
from funken.api.streams.family import family
from funken.plan.nodes import Broadcast, Custom, Forward, Global, Partitioning, Rebalance, Rescale, Shuffle
from funken.types.generics import Generic, S, T_co

if TYPE_CHECKING:
    from collections.abc import Callable

    from funken.api.functions.base import KeySelector, Partitioner
    from funken.api.streams.connected import BroadcastStream
    from funken.api.streams.stream import DataStream
    from funken.state.descriptors import MapStateDescriptor


class StreamPartitioning(Generic[T_co]):
    """The part of ``DataStream`` that says which subtasks of the next operator get its records.

    >>> from funken import MapFunction, NumberSequenceSource, StreamExecutionEnvironment
    >>> from funken.testing import local
    >>> class Place(MapFunction):
    ...     def open(self, runtime_context):
    ...         self.subtask = runtime_context.get_index_of_this_subtask()
    ...     def map(self, value):
    ...         return self.subtask, value
    >>> def placed(stream):
    ...     return sorted(stream.map(Place()).set_parallelism(2).execute_and_collect(limit=4))
    >>> placed(local([1, 2, 3, 4]).rebalance())
    [(0, 1), (0, 3), (1, 2), (1, 4)]
    >>> placed(local([1, 2, 3, 4]).global_())
    [(0, 1), (0, 2), (0, 3), (0, 4)]
    >>> placed(local([1, 2]).broadcast())
    [(0, 1), (0, 2), (1, 1), (1, 2)]
    >>> placed(local([1, 2, 3, 4]).partition_custom(lambda key, subtasks: key * subtasks // 5, lambda number: number))
    [(0, 1), (0, 2), (1, 3), (1, 4)]
    >>> [number for subtask, number in sorted(placed(local([1, 2]).shuffle()), key=lambda place: place[1])]
    [1, 2]
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    >>> halves = env.from_source(NumberSequenceSource(1, 4))  # subtask 0 has 1 and 2, subtask 1 has 3 and 4
    >>> sorted(halves.rescale().map(Place()).set_parallelism(4).execute_and_collect(limit=4))
    [(0, 1), (1, 2), (2, 3), (3, 4)]
    """

    def _spread(self, partitioning: Partitioning) -> DataStream[T_co]:
        raise NotImplementedError

    def rebalance(self) -> DataStream[T_co]:
        """Deal records round robin to all subtasks of the next operator, so that each has as much to do."""
        return self._spread(Rebalance())

    def rescale(self) -> DataStream[T_co]:
        """Deal records round robin to a share of the next operator's subtasks: fewer connections than ``rebalance`` makes."""
        return self._spread(Rescale())

    def shuffle(self) -> DataStream[T_co]:
        """Send each record to a random subtask of the next operator."""
        return self._spread(Shuffle())

    def forward(self) -> DataStream[T_co]:
        """Send records to the subtask of the same index; raises ``InvalidProgram`` (at ``execute``) if parallelisms differ.

        >>> from funken.testing import local
        >>> stream = local([1]).map(abs).forward().map(str).rebalance().map(len)
        >>> [vertex.name for vertex in stream.get_execution_environment().compile().vertices]
        ['collection -> map -> map', 'map']
        """
        return self._spread(Forward())

    def global_(self) -> DataStream[T_co]:
        """Send all records to the first subtask of the next operator."""
        return self._spread(Global())

    @overload
    def broadcast(self) -> DataStream[T_co]: ...
    @overload
    def broadcast(self, *map_state_descriptors: MapStateDescriptor[Any, Any]) -> BroadcastStream[T_co]: ...
    def broadcast(
        self, *map_state_descriptors: MapStateDescriptor[Any, Any]
    ) -> DataStream[T_co] | BroadcastStream[T_co]:
        """Send every record to every subtask of the next operator; with descriptors: fill broadcast state with them."""
        BroadcastStream = family("BroadcastStream")
        spread = self._spread(Broadcast())
        return BroadcastStream(spread, map_state_descriptors) if map_state_descriptors else spread

    def partition_custom(
        self,
        partitioner: Callable[[S, int], int] | Partitioner[S],
        key_selector: Callable[[T_co], S] | KeySelector[T_co, S],
    ) -> DataStream[T_co]:
        """Send each record to subtask ``partitioner(key_selector(record), parallelism of the next operator)``."""
        partition = as_user_function(partitioner, "partition", "partition_custom()")
        return self._spread(Custom(partition, as_user_function(key_selector, "get_key", "partition_custom()")))
