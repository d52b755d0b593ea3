"""The three iterations over graphs: vertex-centric, scatter-gather, gather-sum-apply.

What the three iterations have in common: their options, and what their functions can ask for.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from funken.dataset import DataSet, DataSetRuntimeContext, JoinHint
from funken.errors import InvalidProgram
from funken.graph.core import EdgeDirection, GraphBase, GraphEdge, GraphVertex
from funken.types.callables import Generic, K, M, T, V


class IterationConfiguration:
    """Options of a graph iteration; every method returns the configuration.

    >>> from funken.dataset import LongSumAggregator
    >>> options = IterationConfiguration().set_name("spread").set_direction(EdgeDirection.IN).set_parallelism(2)
    >>> options = options.set_opt_degrees().set_opt_num_vertices().register_aggregator("sent", LongSumAggregator())
    >>> options = options.set_convergence("changed", LongSumAggregator(), lambda superstep, changed: changed < 5)
    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment()
    >>> options = options.add_broadcast_set("compute", "limits", env.from_elements(1))
    >>> options.name, options.direction
    ('spread', <EdgeDirection.IN: 'in'>)
    """

    def __init__(self) -> None:
        self.name = ""
        self.direction = EdgeDirection.OUT
        self.parallelism: int | None = None
        self.number_of_vertices = False
        self.degrees = False
        self.aggregators: dict[str, Any] = {}
        self.convergence: tuple[str, Any, Any] | None = None
        self.broadcasts: list[tuple[str, str, DataSet]] = []

    def set_name(self, name: str) -> IterationConfiguration:
        """Name the iteration, for plans and errors."""
        self.name = name
        return self

    def set_parallelism(self, parallelism: int) -> IterationConfiguration:
        """Set the number of subtasks that call the functions."""
        self.parallelism = parallelism
        return self

    def set_direction(self, direction: EdgeDirection) -> IterationConfiguration:
        """Set which way values travel along an edge: OUT from source to target, IN back, ALL both ways."""
        if not isinstance(direction, EdgeDirection):
            raise InvalidProgram(f"the direction {direction!r} is no EdgeDirection: use EdgeDirection.IN, OUT or ALL.")
        self.direction = direction
        return self

    def set_opt_num_vertices(self, wanted: bool = True) -> IterationConfiguration:
        """Let functions ask for the number of vertices."""
        self.number_of_vertices = wanted
        return self

    def set_opt_degrees(self, wanted: bool = True) -> IterationConfiguration:
        """Let functions ask for a vertex's degrees."""
        self.degrees = wanted
        return self

    def register_aggregator(self, name: str, aggregator: Any) -> IterationConfiguration:
        """Let functions find an aggregator with ``get_iteration_aggregator(name)``."""
        self.aggregators[name] = aggregator
        return self

    def set_convergence(self, name: str, aggregator: Any, criterion: Any) -> IterationConfiguration:
        """End the iteration when ``criterion(superstep, value of the aggregator)`` is true after a superstep."""
        self.convergence = (name, aggregator, criterion)
        return self

    def add_broadcast_set(self, function: str, name: str, data_set: DataSet) -> IterationConfiguration:
        """Pass a data set's records to a function: ``"compute"``, ``"scatter"``, ``"gather"``, ``"sum"`` or ``"apply"``."""
        if function not in {"compute", "scatter", "gather", "sum", "apply"}:
            raise InvalidProgram(
                f"add_broadcast_set(): there is no function {function!r}; use compute, scatter, gather, sum or apply."
            )
        self.broadcasts.append((function, name, data_set))
        return self

    def _register(self, iteration: Any) -> None:
        """Register the aggregators with a delta iteration."""
        for name, aggregator in self.aggregators.items():
            iteration.register_aggregator(name, aggregator)
        if self.convergence is not None:
            iteration.register_aggregation_convergence_criterion(*self.convergence)

    def _finish(self, function: str, operator: Any, count: DataSet | None) -> Any:
        """Set name, parallelism and broadcast sets of the operator that calls a function."""
        operator = operator.name(f"{self.name or 'graph iteration'}: {function}")
        if self.parallelism is not None:
            operator = operator.set_parallelism(self.parallelism)
        for owner, name, data_set in self.broadcasts:
            if owner == function:
                operator = operator.with_broadcast_set(data_set, name)
        return operator if count is None else operator.with_broadcast_set(count, COUNT)


COUNT = "number of vertices"
"""The broadcast set with the number of vertices."""


class GraphFunction:
    """The base of the functions of graph iterations. Derive from one of its subclasses instead.

    >>> from funken.dataset import ExecutionEnvironment, LongSumAggregator
    >>> from funken.graph import ComputeFunction, Graph
    >>> class Facts(ComputeFunction):
    ...     def pre_superstep(self):
    ...         self.calls = self.get_iteration_aggregator("calls")
    ...         (self.last,) = self.get_broadcast_set("last")
    ...     def compute(self, vertex, messages):
    ...         self.calls.aggregate(1)
    ...         if self.get_superstep_number() < self.last:
    ...             self.send_message_to_all_neighbors("go on")
    ...         calls_before = self.get_previous_iteration_aggregate("calls")
    ...         degrees = self.get_in_degree(), self.get_out_degree()
    ...         self.set_new_vertex_value((calls_before, *degrees, self.get_number_of_vertices()))
    ...     def post_superstep(self):
    ...         del self.calls
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> options = IterationConfiguration().set_opt_degrees().set_opt_num_vertices()
    >>> options = options.register_aggregator("calls", LongSumAggregator())
    >>> options = options.add_broadcast_set("compute", "last", env.from_elements(2))
    >>> graph = Graph.from_collection(env, [(1, 2, None), (1, 3, None), (2, 3, None)])
    >>> sorted(graph.run_vertex_centric_iteration(Facts(), None, 10, options).get_vertices().collect())
    [(1, (None, 0, 2, 3)), (2, (3, 1, 1, 3)), (3, (3, 2, 0, 3))]
    """

    _runtime: DataSetRuntimeContext
    _degrees: tuple[int, int] = (-1, -1)

    def pre_superstep(self) -> None:
        """Prepare for a superstep; called once per subtask and superstep."""

    def post_superstep(self) -> None:
        """Clean up behind a superstep."""

    def get_superstep_number(self) -> int:
        """Return the number of the superstep, from 1."""
        return self._runtime.get_superstep_number()

    def get_iteration_aggregator(self, name: str) -> Any:
        """Return an aggregator of the configuration."""
        return self._runtime.get_iteration_aggregator(name)

    def get_previous_iteration_aggregate(self, name: str) -> Any:
        """Return the value of an aggregator after the superstep before; None in the first one."""
        return self._runtime.get_previous_iteration_aggregate(name)

    def get_broadcast_set(self, name: str) -> list[Any]:
        """Return the records of a broadcast set of the configuration."""
        return self._runtime.get_broadcast_variable(name)

    def get_number_of_vertices(self) -> int:
        """Return the number of vertices; -1 without ``set_opt_num_vertices``."""
        if not self._runtime.has_broadcast_variable(COUNT):
            return -1
        (count,) = self._runtime.get_broadcast_variable(COUNT)
        return int(count)

    def get_in_degree(self) -> int:
        """Return the number of edges that end at the vertex; -1 without ``set_opt_degrees``."""
        return self._degrees[0]

    def get_out_degree(self) -> int:
        """Return the number of edges that begin at the vertex; -1 without ``set_opt_degrees``."""
        return self._degrees[1]


class SuperstepCall:
    """An operator's function: ``call`` gets a function of the user, which knows the superstep, and the operator's arguments."""

    def __init__(self, function: Any, call: Callable[..., Any]) -> None:
        self.function = function
        self.join = self.co_group = self.reduce = partial(call, function)

    if TYPE_CHECKING:

        def __call__(self, *records: Any) -> Any:
            """Stand for any of the three methods."""

    def open(self, context: DataSetRuntimeContext) -> None:
        """Set the context of the user's function; begin a superstep."""
        if isinstance(self.function, GraphFunction):
            self.function._runtime = context
            self.function.pre_superstep()

    def close(self) -> None:
        """End the superstep."""
        if isinstance(self.function, GraphFunction):
            self.function.post_superstep()


def checked(function: Any, kind: type, what: str) -> Any:
    """Return the function; raise ``InvalidProgram`` if it is not of the type."""
    if isinstance(function, type) and issubclass(function, kind):
        raise InvalidProgram(f"{what} got the class {function.__name__}; give an object: {function.__name__}().")
    if not isinstance(function, kind):
        raise InvalidProgram(f"{what} needs a {kind.__name__}, but got {function!r}. Derive from {kind.__name__}.")
    return function


# ---- The neighbours of every vertex as one record, and the solution set of a graph iteration.


def adjacency(graph: GraphBase, options: IterationConfiguration) -> DataSet:
    """Return ``(id, value, in degree, out degree, neighbours, edges)`` of every vertex, in the chosen direction."""
    forth = options.direction is not EdgeDirection.IN
    back = options.direction is not EdgeDirection.OUT

    def sides(edge: Any) -> Iterator[Any]:
        """Yield (id, neighbour, edge, whether it is an in-edge, whether values travel this way)."""
        if forth or options.degrees:
            yield edge[0], edge[1], edge, False, forth
        if back or options.degrees:
            yield edge[1], edge[0], edge, True, back

    ends = graph.get_edges().flat_map(sides)
    return (
        graph.get_vertices()
        .co_group(ends)
        .where(0)
        .equal_to(0)
        .using(partial(_adjacent, options.degrees))
        .with_forwarded_fields_first("f0; f1")
        .name("adjacency")
    )


def _adjacent(with_degrees: bool, vertices: Iterable[Any], ends: Iterable[Any]) -> Iterator[Any]:
    """Put a vertex and its edges together; edges of no vertex are left out."""
    vertex = next(iter(vertices), None)
    if vertex is None:
        return
    found = list(ends)
    travelled = [end for end in found if end[4]]
    inward = sum(end[3] for end in found)
    degrees = (inward, len(found) - inward) if with_degrees else (-1, -1)
    edges = tuple(GraphEdge(*end[2]) for end in travelled)
    yield (vertex[0], vertex[1], *degrees, tuple(end[1] for end in travelled), edges)


def entries(adjacent: DataSet) -> DataSet:
    """Return the solution set: ``(id, value, in degree, out degree)``."""
    return adjacent.map(lambda vertex: vertex[:4]).with_forwarded_fields("f0; f1; f2; f3")


def neighbors(adjacent: DataSet) -> DataSet:
    """Return ``(id, neighbours, edges)``."""
    return adjacent.map(lambda vertex: (vertex[0], vertex[4], vertex[5])).with_forwarded_fields("f0")


def values(solution: DataSet) -> DataSet:
    """Return the vertices of a solution set."""
    return solution.map(lambda entry: (entry[0], entry[1]))


def count_of(graph: GraphBase, options: IterationConfiguration) -> DataSet | None:
    """Return the number of vertices as a data set, if it is wanted."""
    if not options.number_of_vertices:
        return None
    return graph.get_vertices().map(lambda _: 1).reduce(lambda one, other: one + other)


# ---- Vertex-centric iterations (Pregel): a vertex gets messages, changes its value, and sends messages for the
# next superstep.


_VERTEX, _MESSAGE = 0, 1


class MessagingFunction(GraphFunction, Generic[K, T, M]):
    """The base of ``ComputeFunction`` and ``ScatterFunction``: it sends messages, to all neighbours or one by one.

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

    def send_message_to(self, target: K, message: M) -> None:
        """Send a message to a vertex by its id."""
        self._use("one by one")
        self._sent.append((target, message, _MESSAGE))

    def send_message_to_all_neighbors(self, message: M) -> None:
        """Send a message along all edges of the vertex."""
        self._use("all")
        self._sent += [(target, message, _MESSAGE) for target in self._neighbors]

    def get_edges(self) -> tuple[GraphEdge[K, T], ...]:
        """Return the edges of the vertex; in an iteration with the direction IN, those that end there."""
        self._use("one by one")
        return self._edges

    def _begin(self, vertex_neighbors: tuple[Any, ...], edges: tuple[GraphEdge, ...], degrees: tuple[int, int]) -> None:
        self._sent = []
        self._way = ""
        self._neighbors, self._edges, self._degrees = vertex_neighbors, edges, degrees


class ComputeFunction(MessagingFunction[K, T, M], Generic[K, V, T, M]):
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

    def compute(self, vertex: GraphVertex[K, V], messages: list[M]) -> None:
        """Read the messages to a vertex, perhaps change its value and send messages."""
        raise NotImplementedError

    def set_new_vertex_value(self, value: V) -> None:
        """Change the value of the vertex; once per superstep."""
        if self._changed:
            raise InvalidProgram(f"{type(self).__name__} has set the value of a vertex twice in a superstep.")
        self._changed = [value]

    _changed: list[Any] = []  # noqa: RUF012 - replaced, never changed


class MessageCombiner(Generic[M]):
    """Puts several messages to the same vertex together before they are sent; a function of a list will do, too.

    >>> class Total(MessageCombiner):
    ...     def combine_messages(self, messages):
    ...         return sum(messages)
    >>> Total().combine_messages([1, 2])
    3
    """

    def combine_messages(self, messages: list[M]) -> M:
        """Return one message that stands for several."""
        raise NotImplementedError


def _inbox(received: Iterable[Any], entry: Iterable[Any]) -> Iterator[Any]:
    """Put a group of messages and the entry of the vertex together."""
    messages = list(received)
    yield (*_entry_of(messages, entry), [message[1] for message in messages if len(message) == 2])


def _entry_of(messages: list[Any], entry: Iterable[Any]) -> Any:
    found = next(iter(entry), None)
    if found is None:
        raise InvalidProgram(f"Target vertex '{messages[0][0]}' does not exist! A message was sent to this id.")
    return found


def _compute(function: ComputeFunction, called: Any, adjacent: Any) -> Iterator[Any]:
    """Call the user's function for one vertex; yield its new entry, and its messages."""
    vertex_id, value, inward, outward, messages = called
    function._begin(adjacent[1], adjacent[2], (inward, outward))
    function._changed = []
    function.compute(GraphVertex(vertex_id, value), messages)
    for new in function._changed:
        yield vertex_id, (new, inward, outward), _VERTEX
    yield from function._sent


def _combined(combine: Callable[[list[Any]], Any], messages: Iterable[Any]) -> Iterator[Any]:
    """Yield one message for several to one vertex."""
    found = list(messages)
    yield (found[0][0], combine([message for _, message in found]))


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
    delivered = iteration.get_workset().co_group(iteration.get_solution_set()).where(0).equal_to(0).using(_inbox)
    inbox: DataSet = delivered.with_forwarded_fields_first("f0").name(f"{options.name or 'graph iteration'}: messages")
    joined = inbox.join(neighbors(adjacent), JoinHint.REPARTITION_HASH_SECOND).where(0).equal_to(0)
    calls = options._finish("compute", joined.using(SuperstepCall(compute, _compute)), count_of(graph, options))
    delta = calls.filter(lambda made: made[2] == _VERTEX).map(lambda made: (made[0], *made[1]))
    messages = calls.filter(lambda made: made[2] == _MESSAGE).map(lambda made: made[:2])
    if combiner is not None:
        combine = partial(_combined, getattr(combiner, "combine_messages", combiner))
        messages = messages.group_by(0).reduce_group(combine, combine)
    return values(iteration.close_with(delta, messages))


# ---- Scatter-gather iterations: active vertices send messages, which change their receivers in the same superstep.


class ScatterFunction(MessagingFunction[K, T, M], Generic[K, V, M, T]):
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

    def send_messages(self, vertex: GraphVertex[K, V]) -> None:
        """Send messages of an active vertex."""
        raise NotImplementedError


class GatherFunction(GraphFunction, Generic[K, V, M]):
    """Changes a vertex by the messages of this superstep.

    >>> class Total(GatherFunction):
    ...     def update_vertex(self, vertex, messages):
    ...         self.set_new_vertex_value(vertex.value + sum(messages))
    >>> total = Total()
    >>> total.update_vertex(GraphVertex("a", 1), [2, 3])
    """

    _changed: list[Any] = []  # noqa: RUF012 - replaced, never changed

    def update_vertex(self, vertex: GraphVertex[K, V], messages: list[M]) -> None:
        """Read the messages to a vertex, and perhaps set its value."""
        raise NotImplementedError

    def set_new_vertex_value(self, value: V) -> None:
        """Change the value of the vertex, which is active in the next superstep."""
        self._changed = [value]


def _scatter(function: ScatterFunction, active: Any, adjacent: Any) -> Iterator[Any]:
    """Call the user's function for one vertex; yield its messages."""
    vertex_id, value, inward, outward = active
    function._begin(adjacent[1], adjacent[2], (inward, outward))
    function.send_messages(GraphVertex(vertex_id, value))
    yield from ((target, message) for target, message, _ in function._sent)


def _gather(function: GatherFunction, received: Iterable[Any], entry: Iterable[Any]) -> Iterator[Any]:
    """Call the user's function for one vertex; yield its new entry, if it has one."""
    messages = list(received)
    vertex_id, value, inward, outward = _entry_of(messages, entry)
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
    messages = options._finish("scatter", active.using(SuperstepCall(scatter, _scatter)), count)
    updated = messages.co_group(iteration.get_solution_set()).where(0).equal_to(0).using(SuperstepCall(gather, _gather))
    delta = options._finish("gather", updated.with_forwarded_fields_first("f0"), count)
    return values(iteration.close_with(delta, delta))


# ---- Gather-sum-apply iterations: per edge a partial value, summed per vertex, applied to the vertex. Parallel
# over edges.


class Neighbor(NamedTuple, typing.Generic[V, T]):
    """The neighbour of a vertex that is gathered from: its value, and the value of the edge between them.

    >>> Neighbor(10, 0.5).edge_value
    0.5
    """

    neighbor_value: V
    edge_value: T


class NeighborGatherFunction(GraphFunction, Generic[V, T, M]):
    """Makes a partial value of a neighbour; a plain function ``(neighbor)`` will do, too.

    >>> class Offer(NeighborGatherFunction):
    ...     def gather(self, neighbor):
    ...         return neighbor.neighbor_value + neighbor.edge_value
    >>> Offer().gather(Neighbor(1, 2))
    3
    """

    def gather(self, neighbor: Neighbor[V, T]) -> M:
        """Return a partial value."""
        raise NotImplementedError


class SumFunction(GraphFunction, Generic[M]):
    """Puts two partial values together, associatively; a plain function ``(one, other)`` will do, too.

    >>> class Least(SumFunction):
    ...     def sum(self, one, other):
    ...         return min(one, other)
    >>> Least().sum(1, 2)
    1
    """

    def sum(self, one: M, other: M) -> M:
        """Return one partial value for two."""
        raise NotImplementedError


class ApplyFunction(GraphFunction, Generic[V, M]):
    """Changes a vertex by the sum over its neighbours; a vertex whose result is set is active in the next superstep.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> class Lower(ApplyFunction):
    ...     def apply(self, new_value, current_value):
    ...         if new_value < current_value:
    ...             self.set_result(new_value)
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, 1.5), (2, 3, 1.0), (1, 3, 4.0)], lambda id: 0.0 if id == 1 else 99.0)
    >>> distances = graph.run_gather_sum_apply_iteration(lambda near: near.neighbor_value + near.edge_value, min, Lower(), 10)
    >>> sorted(distances.get_vertices().collect())
    [(1, 0.0), (2, 1.5), (3, 2.5)]
    """

    _changed: list[Any] = []  # noqa: RUF012 - replaced, never changed

    def apply(self, new_value: M, current_value: V) -> None:
        """Compare the sum with the vertex's value, and perhaps set the result."""
        raise NotImplementedError

    def set_result(self, value: V) -> None:
        """Change the value of the vertex."""
        self._changed = [value]


def _gather_neighbor(function: Any, active: Any, edge: Any) -> Iterator[Any]:
    """Yield an active vertex's partial value for its neighbour."""
    gather = function.gather if isinstance(function, NeighborGatherFunction) else function
    yield edge[1], gather(Neighbor(active[1], edge[2]))


def _sum(function: Any, one: Any, other: Any) -> Any:
    """Put two partial values for the same vertex together."""
    add = function.sum if isinstance(function, SumFunction) else function
    return one[0], add(one[1], other[1])


def _apply(function: ApplyFunction, summed: Any, entry: Any) -> Iterator[Any]:
    """Yield the new entry of a vertex, if it has one."""
    if entry is None:
        return  # an edge to a vertex that is not there
    vertex_id, value, inward, outward = entry
    function._degrees, function._changed = (inward, outward), []
    function.apply(summed[1], value)
    for new in function._changed:
        yield vertex_id, new, inward, outward


def gather_sum_apply(
    graph: GraphBase, gather: Any, sum_: Any, apply: Any, maximum: int, configuration: IterationConfiguration | None
) -> DataSet:
    """Return the vertices after a gather-sum-apply iteration."""
    for function, kind in ((gather, NeighborGatherFunction), (sum_, SumFunction)):
        if not isinstance(function, kind) and not callable(function):
            raise InvalidProgram(
                f"run_gather_sum_apply_iteration() needs a {kind.__name__} or a function, but got {function!r}."
            )
    checked(apply, ApplyFunction, "run_gather_sum_apply_iteration()")
    options = configuration or IterationConfiguration()
    count = count_of(graph, options)
    solution = entries(adjacency(graph, options)) if options.degrees else _plain(graph)
    iteration = solution.iterate_delta(solution, maximum, 0)
    options._register(iteration)
    travelled = graph.get_edges().flat_map(partial(_travelled, options.direction))
    active = iteration.get_workset().join(travelled, JoinHint.REPARTITION_HASH_SECOND).where(0).equal_to(0)
    gathered = options._finish("gather", active.using(SuperstepCall(gather, _gather_neighbor)), count)
    summed = options._finish("sum", gathered.group_by(0).reduce(SuperstepCall(sum_, _sum)), count)
    applied = summed.join(iteration.get_solution_set()).where(0).equal_to(0).using(SuperstepCall(apply, _apply))
    delta = options._finish("apply", applied, count)
    return values(iteration.close_with(delta, delta))


def _plain(graph: GraphBase) -> DataSet:
    return graph.get_vertices().map(lambda vertex: (vertex[0], vertex[1], -1, -1)).with_forwarded_fields("f0; f1")


def _travelled(direction: EdgeDirection, edge: Any) -> Iterator[Any]:
    """Edges as values travel along them: (from, to, value)."""
    if direction is not EdgeDirection.IN:
        yield edge
    if direction is not EdgeDirection.OUT:
        yield edge[1], edge[0], edge[2]
