"""A program on the parts of a graph, superstep by superstep, as a bulk iteration.

Each superstep is one co-group by part: the part, which stays where it is, with the state of the superstep before and the
messages to the part. So a superstep has one exchange, of arrays, and a checkpoint has the states and the messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from funken.dataset import DataSet, DataSetRuntimeContext, DoubleSumAggregator
from funken.errors import InvalidProgram
from funken.graph.columns.parts import GraphPart, PartLayout, Route, keys_of, parts
from funken.graph.core import GraphBase

_STATE, _MESSAGE = 0, 1

Message = tuple[int, tuple[Any, ...]]
"""The number of a part, and arrays for it."""


@dataclass(frozen=True)
class SuperstepView:
    """Where the iteration stands, and its sums over all parts."""

    number: int
    runtime: DataSetRuntimeContext

    def add(self, name: str, value: float) -> None:
        """Add to a sum of this superstep."""
        self.runtime.get_iteration_aggregator(name).aggregate(float(value))

    def before(self, name: str) -> float:
        """Return a sum of the superstep before."""
        found = self.runtime.get_previous_iteration_aggregate(name)
        return 0.0 if found is None else float(found)


class PartProgram:
    """What is done to each part in a superstep. It must not keep anything of its own between supersteps."""

    layout = PartLayout()
    sums: tuple[str, ...] = ()
    """The names of sums over all parts."""
    converges = "active"
    """The sum that ends the iteration when it is ``below`` or less."""
    below = 0.0

    def step(
        self, part: GraphPart, state: Any, messages: list[tuple[Any, ...]], view: SuperstepView
    ) -> tuple[Any, list[Message]]:
        """Return the new state and messages; the state is None in superstep 1."""
        raise NotImplementedError

    def results(self, part: GraphPart, state: Any) -> Iterable[Any]:
        """Return the records of a part at the end."""
        raise NotImplementedError

    def ended(self, superstep: int, total: float) -> bool:
        """Whether the iteration has converged."""
        return total <= self.below


def check_iterations(maximum: Any, algorithm: str) -> None:
    """Raise ``InvalidProgram`` unless this is a whole number above 0."""
    if isinstance(maximum, bool) or not isinstance(maximum, int) or maximum < 1:
        raise InvalidProgram(
            f"{algorithm}: the number of iterations has to be a whole number above 0, but is {maximum!r}."
        )


def run_program(graph: GraphBase, program: PartProgram, supersteps: int, name: str) -> DataSet:
    """Return the results of a program after its last superstep."""
    made = parts(graph, program.layout)
    begun = made.map(_begin).with_forwarded_fields("f0")
    iteration = begun.iterate(supersteps)
    for sum_name in program.sums:
        iteration.register_aggregator(sum_name, DoubleSumAggregator())
    iteration.register_aggregation_convergence_criterion(program.converges, DoubleSumAggregator(), program.ended)
    step = made.co_group(iteration).where(0).equal_to(0).using(_Step(program, name)).name(name)
    states = iteration.close_with(step).filter(_is_state)
    return made.co_group(states).where(0).equal_to(0).using(_Results(program)).name(f"{name}: results")


def _begin(part: Any) -> Any:
    return part[0], _STATE, None


def _is_state(record: Any) -> bool:
    return bool(record[1] == _STATE)


class _Step:
    def __init__(self, program: PartProgram, name: str) -> None:
        self._program, self._name = program, name

    def open(self, context: DataSetRuntimeContext) -> None:
        """Learn which superstep it is."""
        self._view = SuperstepView(context.get_superstep_number(), context)

    def close(self) -> None:
        """Have nothing to close."""

    def co_group(self, found: Iterable[Any], came: Iterable[Any]) -> Iterator[Any]:
        """Run a superstep of one part."""
        ((key, part),) = found
        state, messages = None, []
        for record in came:
            if record[1] == _STATE:
                state = record[2]
            else:
                messages.append(record[2])
        try:
            state, outgoing = self._program.step(part, state, messages, self._view)
        except TypeError as error:
            if "not supported between instances" not in str(error):
                raise
            raise InvalidProgram(
                f"{self._name}: the values of two vertices cannot be compared: {error}. Give all vertices values of one type."
            ) from error
        yield key, _STATE, state
        keys = keys_of(part.parts)
        for target, arrays in outgoing:
            yield keys[target], _MESSAGE, arrays


class _Results:
    def __init__(self, program: PartProgram) -> None:
        self._program = program

    def __call__(self, found: Iterable[Any], states: Iterable[Any]) -> Iterator[Any]:
        """Return the records of one part."""
        ((_, part),) = found
        ((_, _, state),) = states
        yield from self._program.results(part, state)


# ---- what programs are made of


def pushed(routes: list[Route], values: Any, reduce: Any, weigh: Any = None, active: Any = None) -> list[Message]:
    """Send the values of vertices along routes, reduced per target.

    ``reduce`` is a ufunc, ``weigh`` one that puts the value and the weight of an edge together. With ``active``, only the
    edges of those vertices count.

    >>> route = Route(0, np.array([4, 9]), np.array([0, 2]), np.array([0, 1, 1]), None)
    >>> [(part, [array.tolist() for array in arrays]) for part, arrays in pushed([route], np.array([5, 3]), np.minimum)]
    [(0, [[4, 9], [3, 3]])]
    >>> only = pushed([route], np.array([5, 3]), np.minimum, active=np.array([True, False]))
    >>> [array.tolist() for array in only[0][1]]
    [[4], [5]]
    """
    messages: list[Message] = []
    for route in routes:
        source, weight, targets, starts = route.source, route.weight, route.targets, route.starts
        if active is not None:
            chosen = active[source]
            counts = np.add.reduceat(chosen, starts, dtype=np.int64)
            filled = counts > 0
            if not filled.any():
                continue
            if not chosen.all():
                source, targets = source[chosen], targets[filled]
                weight = None if weight is None else weight[chosen]
                starts = np.concatenate([[0], np.cumsum(counts[filled])[:-1]])
        carried = values[source]
        if weigh is not None:
            carried = weigh(carried, weight)
        messages.append((route.part, (targets, reduce.reduceat(carried, starts))))
    return messages


def received(messages: list[tuple[Any, ...]], into: Any, reduce: Any) -> Any:
    """Reduce messages into an array, which is changed; a message has each target once.

    >>> received([(np.array([0, 2]), np.array([1, 2])), (np.array([2]), np.array([5]))], np.zeros(3, int), np.add).tolist()
    [1, 0, 7]
    """
    for targets, values in messages:
        into[targets] = reduce(into[targets], values)
    return into
