"""Scatter-gather iterations: active vertices send messages, which change their receivers in the same superstep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from funken.dataset import DataSet, JoinHint
from funken.errors import InvalidProgram
from funken.graph.core import GraphBase
from funken.graph.iterations.adjacency import adjacency, count_of, entries, neighbors, values
from funken.graph.iterations.configuration import GraphFunction, IterationConfiguration, SuperstepCall, checked
from funken.graph.iterations.vertex_centric import MessagingFunction
from funken.graph.records import GraphVertex


class ScatterFunction(MessagingFunction):
    """Sends messages of a vertex that is active: all in superstep 1, later those whose value was set.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> class Offer(ScatterFunction):
    ...     def send_messages(self, vertex):
    ...         self.send_message_to_all_neighbors(vertex.value)
    >>> class Least(GatherFunction):
    ...     def update_vertex(self, vertex, messages):
    ...         if min(messages) < vertex.value:
    ...             self.set_new_vertex_value(min(messages))
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (2, 3, None), (5, 4, None)], lambda id: id)
    >>> sorted(graph.run_scatter_gather_iteration(Offer(), Least(), 10).get_vertices().collect())
    [(1, 1), (2, 1), (3, 1), (4, 4), (5, 5)]
    """

    def send_messages(self, vertex: GraphVertex) -> None:
        """Send messages of an active vertex."""
        raise NotImplementedError


class GatherFunction(GraphFunction):
    """Changes a vertex by the messages of this superstep.

    >>> class Total(GatherFunction):
    ...     def update_vertex(self, vertex, messages):
    ...         self.set_new_vertex_value(vertex.value + sum(messages))
    >>> total = Total()
    >>> total.update_vertex(GraphVertex("a", 1), [2, 3])
    """

    _changed: list[Any] = []  # noqa: RUF012 - replaced, never changed

    def update_vertex(self, vertex: GraphVertex, messages: list[Any]) -> None:
        """Read the messages to a vertex, and perhaps set its value."""
        raise NotImplementedError

    def set_new_vertex_value(self, value: Any) -> None:
        """Change the value of the vertex, which is active in the next superstep."""
        self._changed = [value]


class _Scatter(SuperstepCall):
    def join(self, active: Any, adjacent: Any) -> Iterator[Any]:
        """Call the user's function for one vertex; yield its messages."""
        function: ScatterFunction = self.function
        vertex_id, value, inward, outward = active
        function._begin(adjacent[1], adjacent[2], (inward, outward))
        function.send_messages(GraphVertex(vertex_id, value))
        yield from ((target, message) for target, message, _ in function._sent)


class _Gather(SuperstepCall):
    def co_group(self, received: Iterable[Any], entry: Iterable[Any]) -> Iterator[Any]:
        """Call the user's function for one vertex; yield its new entry, if it has one."""
        function: GatherFunction = self.function
        messages = list(received)
        found = next(iter(entry), None)
        if found is None:
            raise InvalidProgram(f"Target vertex '{messages[0][0]}' does not exist! A message was sent to this id.")
        vertex_id, value, inward, outward = found
        function._degrees, function._changed = (inward, outward), []
        function.update_vertex(GraphVertex(vertex_id, value), [message for _, message in messages])
        for new in function._changed:
            yield vertex_id, new, inward, outward


def scatter_gather(
    graph: GraphBase, scatter: Any, gather: Any, maximum: int, configuration: IterationConfiguration | None
) -> DataSet:
    """Return the vertices after a scatter-gather iteration."""
    checked(scatter, ScatterFunction, "run_scatter_gather_iteration()")
    checked(gather, GatherFunction, "run_scatter_gather_iteration()")
    options = configuration or IterationConfiguration()
    adjacent, count = adjacency(graph, options), count_of(graph, options)
    solution = entries(adjacent)
    iteration = solution.iterate_delta(solution, maximum, 0)
    options._register(iteration)
    active = iteration.get_workset().join(neighbors(adjacent), JoinHint.REPARTITION_HASH_SECOND).where(0).equal_to(0)
    messages = options._finish("scatter", active.using(_Scatter(scatter)), count)
    updated = messages.co_group(iteration.get_solution_set()).where(0).equal_to(0).using(_Gather(gather))
    delta = options._finish("gather", updated.with_forwarded_fields_first("f0"), count)
    return values(iteration.close_with(delta, delta))
