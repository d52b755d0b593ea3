"""Iterations: a step that is repeated on its own result, in one running program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

from funken.dataset.api.dataset import DataSet
from funken.dataset.plan import nodes
from funken.dataset.plan.keys import UNKNOWN, Key
from funken.dataset.plan.nodes import Aggregators, Node, Role, dynamic_nodes, static_nodes
from funken.errors import InvalidProgram
from funken.types.callables import Generic, R, S, T1_co, T2_co, T_co, T_contra

if TYPE_CHECKING:
    from collections.abc import Callable

    from funken.dataset.runtime.context import Aggregator


class _Aggregating:
    """The aggregators of an iteration."""

    def __init__(self) -> None:
        self.made: dict[str, Any] = {}
        self.convergence: tuple[str, Any] | None = None

    def register(self, name: str, aggregator: Any) -> None:
        if name in self.made:
            raise InvalidProgram(f"the iteration has an aggregator {name!r} already. Choose another name.")
        if not all(hasattr(aggregator, method) for method in ("aggregate", "get_aggregate", "reset")):
            raise InvalidProgram(
                f"register_aggregator({name!r}): {aggregator!r} lacks aggregate(), get_aggregate() or reset(). "
                "Derive from Aggregator, or use LongSumAggregator or its like."
            )
        self.made[name] = aggregator

    def converge(self, name: str, aggregator: Any, criterion: Any) -> None:
        if self.convergence is not None:
            raise InvalidProgram(f"the iteration converges by {self.convergence[0]!r} already; it has one criterion.")
        if not callable(getattr(criterion, "is_converged", criterion)):
            raise InvalidProgram(
                f"the convergence criterion {criterion!r} is no function (superstep, value) -> bool, "
                "nor has it a method is_converged()."
            )
        self.register(name, aggregator)
        self.convergence = (name, criterion)

    def node(self) -> Aggregators:
        return Aggregators(tuple(self.made.items()), self.convergence)


class Converges(Protocol[T_contra]):
    """An object that ends an iteration."""

    def is_converged(self, superstep: int, value: T_contra, /) -> object:
        """Return True if there is to be no further superstep."""


def _check_maximum(maximum: int, method: str) -> None:
    if isinstance(maximum, bool) or not isinstance(maximum, int) or maximum < 1:
        raise InvalidProgram(f"{method}({maximum!r}): the number of iterations has to be a whole number above 0.")


def _check_step(step: list[Node], dynamic: frozenset[int]) -> None:
    for node in nodes.walk(step):
        if id(node) in dynamic and isinstance(node, nodes.Iteration):
            raise InvalidProgram(
                f"operator {node.name!r} is an iteration that depends on another one around it. Iterations cannot be nested: "
                "make it part of the step, or run it before."
            )


class IterativeDataSet(DataSet[T_co], Generic[T_co]):
    """The partial solution of a bulk iteration, as its step reads it; ``close_with`` ends the step.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> start = env.from_elements(1, 2, 3, 4, 5).iterate(10)
    >>> start.close_with(start.map(lambda n: n + 1)).collect()
    [11, 12, 13, 14, 15]

    It ends earlier if the second argument of ``close_with`` is empty after a superstep, or an aggregator says so:

    >>> start = env.from_elements(1, 2, 3, 4, 5).iterate(5)
    >>> step = start.map(lambda n: n + 1).reduce(lambda a, b: a + b)
    >>> start.close_with(step, step.filter(lambda n: n < 22)).collect()
    [22]
    >>> from funken import MapFunction
    >>> from funken.dataset import LongSumAggregator
    >>> class Double(MapFunction):
    ...     def open(self, runtime_context):
    ...         self.total = runtime_context.get_iteration_aggregator("total")
    ...     def map(self, value):
    ...         self.total.aggregate(value * 2)
    ...         return value * 2
    >>> start = env.from_elements(1, 2).iterate(100).register_aggregator("unused", LongSumAggregator())
    >>> _ = start.register_aggregation_convergence_criterion("total", LongSumAggregator(), lambda step, total: total > 50)
    >>> start.close_with(start.map(Double())).collect()
    [32, 64]
    """

    def __init__(self, data_set: DataSet[T_co], maximum: int) -> None:
        _check_maximum(maximum, "iterate")
        self._initial = data_set._read("iterate")
        self._maximum = maximum
        self._aggregating = _Aggregating()
        environment = data_set.get_execution_environment()
        self._partial = nodes.Placeholder(
            id=environment._next_id(),
            name="partial solution",
            type=self._initial.type,
            role=Role.PARTIAL_SOLUTION,
        )
        super().__init__(environment, self._partial)
        self._read_by = "iterate"

    def register_aggregator(self, name: str, aggregator: Aggregator[Any, Any]) -> Self:
        """Let functions of the step find an aggregator with ``get_iteration_aggregator(name)``."""
        self._aggregating.register(name, aggregator)
        return self

    def register_aggregation_convergence_criterion(
        self, name: str, aggregator: Aggregator[Any, R], criterion: Callable[[int, R], object] | Converges[R]
    ) -> Self:
        """End the iteration when ``criterion(superstep, value)``, or its ``is_converged``, is true after a superstep."""
        self._aggregating.converge(name, aggregator, criterion)
        return self

    def close_with(self, result: DataSet[T_co], termination: DataSet[Any] | None = None) -> DataSet[T_co]:
        """End the step: ``result`` is the next partial solution; an empty ``termination`` ends the iteration."""
        self._same_environment(result, "close_with")
        step = result._read("close_with")
        ending = None
        if termination is not None:
            self._same_environment(termination, "close_with")
            ending = termination._read("close_with")
        roots = [step, *([ending] if ending is not None else [])]
        dynamic = dynamic_nodes(roots, [self._partial])
        _check_step(roots, dynamic)
        if id(step) not in dynamic:
            raise InvalidProgram(
                f"close_with(): operator {step.name!r} does not depend on the result of iterate(), so every superstep makes the "
                "same. Build the step on that: start = data.iterate(n), then start.close_with(start.map(...))."
            )
        made = nodes.BulkIteration(
            id=self._environment._next_id(),
            name="iteration",
            inputs=(self._initial,),
            type=self._initial.type if self._initial.type == step.type else UNKNOWN,
            maximum=self._maximum,
            dynamic=dynamic,
            statics=static_nodes(roots, dynamic),
            aggregators=self._aggregating.node(),
            partial=self._partial,
            step=step,
            termination=ending,
        )
        return DataSet(self._environment, made)


class DeltaIteration(Generic[T1_co, T2_co]):
    """A delta iteration whose step is to be built from ``get_workset()`` and ``get_solution_set()``.

    In every superstep, records of the first argument of ``close_with`` replace or add entries of the solution set; the
    second one is the next workset. The iteration ends when that is empty.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> edges = env.from_elements((1, 2), (2, 1), (2, 3), (3, 2), (4, 5), (5, 4))
    >>> vertices = env.from_collection((n, n) for n in range(1, 6))
    >>> iteration = vertices.iterate_delta(vertices, 10, 0)
    >>> candidates = iteration.get_workset().join(edges).where(0).equal_to(0).using(lambda v, e: (e[1], v[1]))
    >>> least = candidates.group_by(0).min(1)
    >>> found = least.join(iteration.get_solution_set()).where(0).equal_to(0)
    >>> changed = found.using(lambda new, old: (yield from [new] if new[1] < old[1] else []))
    >>> sorted(iteration.close_with(changed, changed).collect())
    [(1, 1), (2, 1), (3, 1), (4, 4), (5, 4)]

    An aggregator may end it earlier:

    >>> from funken.dataset import LongSumAggregator
    >>> iteration = vertices.iterate_delta(vertices, 10, 0).register_aggregator("changed", LongSumAggregator())
    >>> _ = iteration.register_aggregation_convergence_criterion("n", LongSumAggregator(), lambda step, n: step == 2)
    >>> _ = iteration.close_with(iteration.get_workset(), iteration.get_workset()).collect()
    >>> env.get_last_job_execution_result().iterations[0][1:3]
    (2, "the aggregator 'n' has converged")
    """

    def __init__(self, solution: DataSet[T1_co], workset: DataSet[T2_co], maximum: int, key: Key) -> None:
        _check_maximum(maximum, "iterate_delta")
        self._environment = solution.get_execution_environment()
        self._key = key
        self._maximum = maximum
        self._inputs = solution._read("iterate_delta"), workset._read("iterate_delta")
        self._aggregating = _Aggregating()
        self._solution, self._workset = (
            nodes.Placeholder(id=self._environment._next_id(), name=role.value, type=node.type, role=role)
            for role, node in zip((Role.SOLUTION_SET, Role.WORKSET), self._inputs, strict=True)
        )

    def get_solution_set(self) -> DataSet[T1_co]:
        """Return the solution set; it can only be joined or co-grouped, on its key."""
        return _fixed(DataSet(self._environment, self._solution))

    def get_workset(self) -> DataSet[T2_co]:
        """Return the workset."""
        return _fixed(DataSet(self._environment, self._workset))

    def register_aggregator(self, name: str, aggregator: Aggregator[Any, Any]) -> Self:
        """Let functions of the step find an aggregator with ``get_iteration_aggregator(name)``."""
        self._aggregating.register(name, aggregator)
        return self

    def register_aggregation_convergence_criterion(
        self, name: str, aggregator: Aggregator[Any, R], criterion: Callable[[int, R], object] | Converges[R]
    ) -> Self:
        """End the iteration when ``criterion(superstep, value)``, or its ``is_converged``, is true after a superstep."""
        self._aggregating.converge(name, aggregator, criterion)
        return self

    def close_with(self, delta: DataSet[T1_co], next_workset: DataSet[T2_co]) -> DataSet[T1_co]:
        """End the step: ``delta`` changes the solution set when the superstep ends. The result is the solution set."""
        for each in (delta, next_workset):
            if not isinstance(each, DataSet) or each._environment is not self._environment:
                raise InvalidProgram("close_with() needs two data sets of the environment of the iteration.")
        changes, workset = delta._read("close_with"), next_workset._read("close_with")
        roots = [workset, changes]
        dynamic = dynamic_nodes(roots, [self._solution, self._workset])
        _check_step(roots, dynamic)
        for node in nodes.walk(roots):
            self._check_use(node)
        if not {id(workset), id(changes)} & dynamic:
            raise InvalidProgram(
                f"close_with(): operators {changes.name!r} and {workset.name!r} do not depend on the iteration, so every "
                "superstep makes the same. Build the step on get_workset() of it, joined with get_solution_set()."
            )
        if self._solution in roots:
            raise InvalidProgram(
                "close_with(): the solution set itself can be neither the delta nor the next workset. Join the workset with it."
            )
        made = nodes.DeltaIterationNode(
            id=self._environment._next_id(),
            name="delta iteration",
            inputs=self._inputs,
            type=self._inputs[0].type,
            maximum=self._maximum,
            dynamic=dynamic,
            statics=static_nodes(roots, dynamic),
            aggregators=self._aggregating.node(),
            key=self._key,
            solution=self._solution,
            workset=self._workset,
            delta=changes,
            next_workset=workset,
        )
        return DataSet(self._environment, made)

    def _check_use(self, node: Node) -> None:
        sides = [side for side, parent in enumerate(node.parents) if parent is self._solution]
        if not sides:
            return
        if not isinstance(node, nodes.Join | nodes.CoGroupNode):
            raise InvalidProgram(
                f"operator {node.name!r} reads the solution set, which can only be joined or co-grouped. "
                "Join the workset with it."
            )
        if len(sides) > 1:
            raise InvalidProgram(f"operator {node.name!r} has the solution set on both sides; it can be on one.")
        if isinstance(node, nodes.Join) and node.kind is not nodes.JoinKind.INNER:
            raise InvalidProgram(
                f"operator {node.name!r} is an outer join with the solution set. Use join(): a record without an entry is "
                "paired with None."
            )
        if not _same_key(node.keys[sides[0]], self._key):
            raise InvalidProgram(
                f"operator {node.name!r} uses the key {node.keys[sides[0]]} of the solution set. The solution can only be joined "
                f"or co-grouped with the same keys as the elements are identified with: {self._key}."
            )


def _same_key(one: Key, other: Key) -> bool:
    if one.selector is not None and other.selector is not None:
        return bool(one.selector.target == other.selector.target)
    return one == other


def _fixed(data_set: DataSet[S]) -> DataSet[S]:
    data_set._read("iterate_delta")
    return data_set
