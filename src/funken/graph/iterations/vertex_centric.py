"""Vertex-centric iterations (Pregel): a vertex gets messages, changes its value, and sends messages for the next superstep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from funken.dataset import DataSet, JoinHint
from funken.errors import InvalidProgram
from funken.graph.core import GraphBase
from funken.graph.iterations.adjacency import adjacency, count_of, entries, neighbors, values
from funken.graph.iterations.configuration import GraphFunction, IterationConfiguration, SuperstepCall, checked
from funken.graph.records import GraphEdge, GraphVertex

_VERTEX, _MESSAGE = 0, 1


class MessagingFunction(GraphFunction):
    """What ``ComputeFunction`` and ``ScatterFunction`` share: sending messages, to all neighbours or one by one.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> class Greet(ComputeFunction):
    ...     def compute(self, vertex, messages):
    ...         if messages:
    ...             self.set_new_vertex_value(sorted(messages))
    ...         elif vertex.id == 1:
    ...             self.send_message_to_all_neighbors("hello")
    ...         else:
    ...             for edge in self.get_edges():
    ...                 self.send_message_to(edge.target, edge.value)
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, "a"), (1, 3, "b"), (2, 3, "c")])
    >>> sorted(graph.run_vertex_centric_iteration(Greet(), None, 5).get_vertices().collect())
    [(1, None), (2, ['hello']), (3, ['c', 'hello'])]
    """

    _sent: list[Any]
    _neighbors: tuple[Any, ...]
    _edges: tuple[GraphEdge, ...]
    _way: str = ""

    def _use(self, way: str) -> None:
        if self._way not in ("", way):
            raise InvalidProgram(
                f"{type(self).__name__} calls send_message_to_all_neighbors() and also get_edges() or send_message_to() for the "
                "same vertex. Use one of the two ways."
            )
        self._way = way

    def send_message_to(self, target: Any, message: Any) -> None:
        """Send a message to a vertex by its id."""
        self._use("one by one")
        self._sent.append((target, message, _MESSAGE))

    def send_message_to_all_neighbors(self, message: Any) -> None:
        """Send a message along all edges of the vertex."""
        self._use("all")
        self._sent += [(target, message, _MESSAGE) for target in self._neighbors]

    def get_edges(self) -> tuple[GraphEdge, ...]:
        """Return the edges of the vertex; in an iteration with the direction IN, those that end there."""
        self._use("one by one")
        return self._edges

    def _begin(self, vertex_neighbors: tuple[Any, ...], edges: tuple[GraphEdge, ...], degrees: tuple[int, int]) -> None:
        self._sent = []
        self._way = ""
        self._neighbors, self._edges, self._degrees = vertex_neighbors, edges, degrees


class ComputeFunction(MessagingFunction):
    """A vertex program. In superstep 1 all vertices compute, later those that got a message.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> class Distance(ComputeFunction):
    ...     def compute(self, vertex, messages):
    ...         if self.get_superstep_number() == 1:
    ...             nearest = 0 if vertex.id == "a" else float("inf")
    ...         else:
    ...             nearest = min(messages)
    ...         if nearest < vertex.value:
    ...             self.set_new_vertex_value(nearest)
    ...             for edge in self.get_edges():
    ...                 self.send_message_to(edge.target, nearest + edge.value)
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> roads = Graph.from_collection(env, [("a", "b", 5), ("b", "c", 1), ("a", "c", 9)], lambda id: float("inf"))
    >>> sorted(roads.run_vertex_centric_iteration(Distance(), min, 10).get_vertices().collect())
    [('a', 0), ('b', 5), ('c', 6)]
    """

    def compute(self, vertex: GraphVertex, messages: list[Any]) -> None:
        """Read the messages to a vertex, perhaps change its value and send messages."""
        raise NotImplementedError

    def set_new_vertex_value(self, value: Any) -> None:
        """Change the value of the vertex; once per superstep."""
        if self._changed:
            raise InvalidProgram(f"{type(self).__name__} has set the value of a vertex twice in a superstep.")
        self._changed = [value]

    _changed: list[Any] = []  # noqa: RUF012 - replaced, never changed


class MessageCombiner:
    """Puts several messages to the same vertex together before they are sent; a function of a list will do, too.

    >>> class Total(MessageCombiner):
    ...     def combine_messages(self, messages):
    ...         return sum(messages)
    >>> Total().combine_messages([1, 2])
    3
    """

    def combine_messages(self, messages: list[Any]) -> Any:
        """Return one message that stands for several."""
        raise NotImplementedError


class _Inbox:
    """Groups of messages, and the entry of the vertex."""

    def __call__(self, received: Iterable[Any], entry: Iterable[Any]) -> Iterator[Any]:
        first, *others = received
        found = next(iter(entry), None)
        if found is None:
            raise InvalidProgram(f"Target vertex '{first[0]}' does not exist! A message was sent to this id.")
        yield (*found, [message[1] for message in (first, *others) if len(message) == 2])


class _Compute(SuperstepCall):
    def join(self, called: Any, adjacent: Any) -> Iterator[Any]:
        """Call the user's function for one vertex; yield its new entry, and its messages."""
        function: ComputeFunction = self.function
        vertex_id, value, inward, outward, messages = called
        function._begin(adjacent[1], adjacent[2], (inward, outward))
        function._changed = []
        function.compute(GraphVertex(vertex_id, value), messages)
        for new in function._changed:
            yield vertex_id, (new, inward, outward), _VERTEX
        yield from function._sent


class Combining:
    """Messages to one vertex, combined."""

    def __init__(self, combiner: Any) -> None:
        self._combine = combiner.combine_messages if hasattr(combiner, "combine_messages") else combiner

    def __call__(self, messages: Iterable[Any]) -> Iterator[Any]:
        """Yield one message for several."""
        found = list(messages)
        yield (found[0][0], self._combine([message for _, message in found]))


def vertex_centric(
    graph: GraphBase, compute: Any, combiner: Any, maximum: int, configuration: IterationConfiguration | None
) -> DataSet:
    """Return the vertices after a vertex-centric iteration."""
    checked(compute, ComputeFunction, "run_vertex_centric_iteration()")
    options = configuration or IterationConfiguration()
    adjacent = adjacency(graph, options)
    solution = entries(adjacent)
    begun = solution.map(lambda entry: (entry[0],)).with_forwarded_fields("f0")
    iteration = solution.iterate_delta(begun, maximum, 0)
    options._register(iteration)
    delivered = iteration.get_workset().co_group(iteration.get_solution_set()).where(0).equal_to(0).using(_Inbox())
    inbox: DataSet = delivered.with_forwarded_fields_first("f0").name(f"{options.name or 'graph iteration'}: messages")
    joined = inbox.join(neighbors(adjacent), JoinHint.REPARTITION_HASH_SECOND).where(0).equal_to(0)
    calls = options._finish("compute", joined.using(_Compute(compute)), count_of(graph, options))
    delta = calls.filter(lambda made: made[2] == _VERTEX).map(lambda made: (made[0], *made[1]))
    messages = calls.filter(lambda made: made[2] == _MESSAGE).map(lambda made: made[:2])
    if combiner is not None:
        messages = messages.group_by(0).reduce_group(Combining(combiner), Combining(combiner))
    return values(iteration.close_with(delta, messages))
