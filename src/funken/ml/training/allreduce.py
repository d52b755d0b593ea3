"""All-reduce on an iteration: every task adds up over its blocks, the sums of all tasks make the next state of the solver.

The blocks are a constant input of the loop, so each task reads its own, kept in managed memory. The partial solution is one
record, the state; it is all that a checkpoint of the loop holds. Every task computes the next state from the same sums, which
the driver merged in the order of the tasks: no server of parameters, and the same bits in every run of one parallelism.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from funken.dataset import Aggregator, MapPartitionFunction
from funken.errors import InvalidProgram
from funken.ml.data.blocks import FeatureBlock
from funken.ml.data.sources import BlockSet

_SUMS, _STATE = "sums", "state"

Sums = dict[str, Any]
Place = tuple[int, int]
"""The task of a block, and its number there: what random choices are seeded with."""


class Solver(Protocol):
    """An algorithm in passes over the data. Its methods are pure: they change neither state nor block."""

    @property
    def steps(self) -> int:
        """Return the most passes that it takes."""

    def start(self) -> Any:
        """Return the state before the first pass: a small object that can be pickled, and that says when it is ``done``."""

    def local(self, state: Any, block: FeatureBlock, place: Place) -> Sums:
        """Return what is to be added up of a block: numbers, arrays and lists; sets are united."""

    def update(self, state: Any, sums: Sums) -> Any:
        """Return the next state."""


def merged(one: Sums | None, other: Sums | None) -> Sums | None:
    """Add two results of ``local``; None is that of no block.

    >>> merged({"n": 1, "kinds": {"a"}}, {"n": 2, "kinds": {"b"}})["n"]
    3
    """
    if one is None or other is None:
        return other if one is None else one
    return {name: _added(one[name], other[name]) for name in one}


def _added(one: Any, other: Any) -> Any:
    return one | other if isinstance(one, set) else one + other


class SumAggregator(Aggregator):
    """Merges sums."""

    def __init__(self) -> None:
        self._sums: Sums | None = None

    def aggregate(self, value: Sums | None) -> None:
        """Add."""
        self._sums = merged(self._sums, value)

    def get_aggregate(self) -> Sums | None:
        """Return the sums; None if there was nothing."""
        return self._sums

    def reset(self) -> None:
        """Begin anew."""
        self._sums = None


class Pass(MapPartitionFunction):
    """A pass of a solver over the blocks of a task; the first task emits the state."""

    def __init__(self, solver: Solver) -> None:
        self._solver = solver

    def open(self, runtime_context: Any) -> None:
        """Find the state, and make the next one of the sums of the superstep before."""
        self._task = runtime_context.get_index_of_this_subtask()
        self._sums = runtime_context.get_iteration_aggregator(_SUMS)
        (self._state,) = runtime_context.get_broadcast_variable(_STATE)
        if runtime_context.get_superstep_number() > 1:
            reduced = runtime_context.get_previous_iteration_aggregate(_SUMS)
            if reduced is None:
                raise InvalidProgram("fit(): the data has no record. Give one or more.")
            self._state = self._solver.update(self._state, reduced)

    def map_partition(self, values: Iterable[FeatureBlock]) -> Iterator[Any]:
        """Add up."""
        if not self._state.done:
            for number, block in enumerate(values):
                self._sums.aggregate(self._solver.local(self._state, block, (self._task, number)))
        if self._task == 0:
            yield self._state


def solve(blocks: BlockSet, solver: Solver) -> Any:
    """Run a solver until it is done, and return its last state."""
    environment = blocks.data_set.get_execution_environment()
    loop = environment.from_elements(solver.start()).set_parallelism(1).iterate(solver.steps + 1)
    loop.register_aggregator(_SUMS, SumAggregator())
    states = blocks.data_set.map_partition(Pass(solver)).with_broadcast_set(loop, _STATE)
    (state,) = loop.close_with(states, states.filter(lambda each: not each.done)).collect()
    return state
