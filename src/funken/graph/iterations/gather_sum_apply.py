"""Gather-sum-apply iterations: per edge a partial value, summed per vertex, applied to the vertex. Parallel over edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from funken.dataset import DataSet, JoinHint
from funken.errors import InvalidProgram
from funken.graph.core import GraphBase
from funken.graph.iterations.adjacency import adjacency, count_of, entries, values
from funken.graph.iterations.configuration import GraphFunction, IterationConfiguration, SuperstepCall, checked
from funken.graph.records import EdgeDirection


class Neighbor(NamedTuple):
    """The neighbour of a vertex that is gathered from: its value, and the value of the edge between them.

    >>> Neighbor(10, 0.5).edge_value
    0.5
    """

    neighbor_value: Any
    edge_value: Any


class NeighborGatherFunction(GraphFunction):
    """Makes a partial value of a neighbour; a plain function ``(neighbor)`` will do, too.

    >>> class Offer(NeighborGatherFunction):
    ...     def gather(self, neighbor):
    ...         return neighbor.neighbor_value + neighbor.edge_value
    >>> Offer().gather(Neighbor(1, 2))
    3
    """

    def gather(self, neighbor: Neighbor) -> Any:
        """Return a partial value."""
        raise NotImplementedError


class SumFunction(GraphFunction):
    """Puts two partial values together, associatively; a plain function ``(one, other)`` will do, too.

    >>> class Least(SumFunction):
    ...     def sum(self, one, other):
    ...         return min(one, other)
    >>> Least().sum(1, 2)
    1
    """

    def sum(self, one: Any, other: Any) -> Any:
        """Return one partial value for two."""
        raise NotImplementedError


class ApplyFunction(GraphFunction):
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

    def apply(self, new_value: Any, current_value: Any) -> None:
        """Compare the sum with the vertex's value, and perhaps set the result."""
        raise NotImplementedError

    def set_result(self, value: Any) -> None:
        """Change the value of the vertex."""
        self._changed = [value]


class _GatherNeighbor(SuperstepCall):
    def join(self, active: Any, edge: Any) -> Iterator[Any]:
        """Yield the partial value that an active vertex gives its neighbour."""
        gather = self.function.gather if isinstance(self.function, NeighborGatherFunction) else self.function
        yield edge[1], gather(Neighbor(active[1], edge[2]))


class _Sum(SuperstepCall):
    def reduce(self, one: Any, other: Any) -> Any:
        """Put two partial values for the same vertex together."""
        add = self.function.sum if isinstance(self.function, SumFunction) else self.function
        return one[0], add(one[1], other[1])


class _Apply(SuperstepCall):
    def join(self, summed: Any, entry: Any) -> Iterator[Any]:
        """Yield the new entry of a vertex, if it has one."""
        if entry is None:
            return  # an edge to a vertex that is not there
        function: ApplyFunction = self.function
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
    travelled = graph.get_edges().flat_map(_Travelled(options.direction))
    active = iteration.get_workset().join(travelled, JoinHint.REPARTITION_HASH_SECOND).where(0).equal_to(0)
    partial = options._finish("gather", active.using(_GatherNeighbor(gather)), count)
    summed = options._finish("sum", partial.group_by(0).reduce(_Sum(sum_)), count)
    applied = summed.join(iteration.get_solution_set()).where(0).equal_to(0).using(_Apply(apply))
    delta = options._finish("apply", applied, count)
    return values(iteration.close_with(delta, delta))


def _plain(graph: GraphBase) -> DataSet:
    return graph.get_vertices().map(lambda vertex: (vertex[0], vertex[1], -1, -1)).with_forwarded_fields("f0; f1")


class _Travelled:
    """Edges as values travel along them: (from, to, value)."""

    def __init__(self, direction: EdgeDirection) -> None:
        self._direction = direction

    def __call__(self, edge: Any) -> Iterator[Any]:
        if self._direction is not EdgeDirection.IN:
            yield edge
        if self._direction is not EdgeDirection.OUT:
            yield edge[1], edge[0], edge[2]
