"""What the three iterations have in common: their options, and what their functions can ask for."""

from __future__ import annotations

from typing import Any

from funken.dataset import DataSet, DataSetRuntimeContext
from funken.errors import InvalidProgram
from funken.graph.records import EdgeDirection


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
        """Set how many subtasks call the functions."""
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
        """Give all records of a data set to a function: ``"compute"``, ``"scatter"``, ``"gather"``, ``"sum"`` or ``"apply"``."""
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
    """What the functions of graph iterations can override and ask for. Derive from one of those instead.

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
        """Return how many edges end at the vertex; -1 without ``set_opt_degrees``."""
        return self._degrees[0]

    def get_out_degree(self) -> int:
        """Return how many edges begin at the vertex; -1 without ``set_opt_degrees``."""
        return self._degrees[1]


class SuperstepCall:
    """An operator's function that calls a function of the user, which knows the superstep."""

    def __init__(self, function: Any, arity: int = 0) -> None:
        self.function = function
        self.arity = arity

    def open(self, context: DataSetRuntimeContext) -> None:
        """Give the user's function its context; begin a superstep."""
        if isinstance(self.function, GraphFunction):
            self.function._runtime = context
            self.function.pre_superstep()

    def close(self) -> None:
        """End the superstep."""
        if isinstance(self.function, GraphFunction):
            self.function.post_superstep()


def checked(function: Any, kind: type, what: str) -> Any:
    """Return the function; raise ``InvalidProgram`` if it is not of the kind."""
    if isinstance(function, type) and issubclass(function, kind):
        raise InvalidProgram(f"{what} got the class {function.__name__}; give an object: {function.__name__}().")
    if not isinstance(function, kind):
        raise InvalidProgram(f"{what} needs a {kind.__name__}, but got {function!r}. Derive from {kind.__name__}.")
    return function
