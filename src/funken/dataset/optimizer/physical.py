"""The physical plan: an operator with its driver, and a channel per input with its ship and local strategy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from funken.dataset.optimizer.costs import (
    ANYWHERE,
    FREE,
    NEEDS_MEMORY,
    UNORDERED,
    Costs,
    DriverStrategy,
    GlobalProperties,
    Local,
    LocalOrder,
    Ship,
    Temp,
)
from funken.dataset.plan.keys import Key, Ordering
from funken.dataset.plan.nodes import UNKNOWN_SIZE, Node, Statistics, walk_up


@dataclass(frozen=True, eq=False)
class PlanChannel:
    """An input of an operator in a plan. ``cached``: kept over the supersteps of an iteration."""

    source: PhysicalNode
    ship: Ship
    key: Key | None = None
    partition: Any = None
    local: Local = Local.NONE
    sort_key: Key | None = None
    ordering: Ordering = ()
    temp: Temp = Temp.NONE

    def __str__(self) -> str:
        ship = f"{self.ship.value}({self.key})" if self.key is not None else self.ship.value
        order = ", ".join(filter(None, [str(self.sort_key or ""), *map(str, self.ordering)]))
        local = "" if self.local is Local.NONE else f", {self.local.value}({order})"
        return ship + local + ("" if self.temp is Temp.NONE else f", {self.temp.value}")


@dataclass(frozen=True, eq=False)
class PhysicalNode:
    """One operator with its strategy. A combiner is a node of its own, of the operator that it combines for."""

    node: Node
    driver: DriverStrategy
    inputs: tuple[PlanChannel, ...] = ()
    broadcasts: tuple[tuple[str, PlanChannel], ...] = ()
    parallelism: int = 1
    spread: GlobalProperties = ANYWHERE
    order: LocalOrder = UNORDERED
    own_costs: Costs = FREE
    estimate: Statistics = UNKNOWN_SIZE
    dynamic: bool = False
    step: tuple[PhysicalNode, ...] = ()
    combiner: bool = False
    choices: dict[int, PhysicalNode] = field(default_factory=dict)
    costs: Costs = FREE

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"choices": {}}  # the rejected plans stay where they were made

    @property
    def name(self) -> str:
        """Return the operator's name."""
        return f"combine ({self.node.name})" if self.combiner else self.node.name

    @property
    def channels(self) -> tuple[PlanChannel, ...]:
        """Return all inputs, broadcast sets included."""
        return (*self.inputs, *(channel for _, channel in self.broadcasts))

    def with_input(self, place: int, **changes: Any) -> PhysicalNode:
        """Return the node with another strategy for an input."""
        inputs = list(self.inputs)
        inputs[place] = replace(inputs[place], **changes)
        return replace(self, inputs=tuple(inputs))


def walk(roots: Iterable[PhysicalNode], outside: Iterable[int] = ()) -> Iterator[PhysicalNode]:
    """Return every node above the roots once, producers before consumers; stop at those that are outside."""
    return walk_up(roots, lambda node: [channel.source for channel in node.channels], outside)


def everything(roots: Iterable[PhysicalNode]) -> Iterator[PhysicalNode]:
    """Return every node above the roots, those of the steps of iterations included."""
    for node in walk(roots):
        yield from everything_of(node)


def everything_of(node: PhysicalNode) -> Iterator[PhysicalNode]:
    """Return the nodes of an iteration's step, and the node itself."""
    outside = {id(channel.source) for channel in node.inputs}
    for inner in walk(node.step, outside):
        yield from everything_of(inner)
    yield node


def memory_consumers(roots: Iterable[PhysicalNode], outside: Iterable[int] = ()) -> int:
    """Count the structures of one subtask that keep records: each has an equal share of one half of the managed memory."""
    roots = list(roots)
    plan = list(walk(roots, outside))
    readers: dict[int, int] = {}
    for root in roots:
        readers[id(root)] = readers.get(id(root), 0) + 1
    for node in plan:
        for channel in node.channels:
            readers[id(channel.source)] = readers.get(id(channel.source), 0) + 1
    count = sum(max(0, number - 1) for number in readers.values())
    for node in plan:
        count += node.driver in NEEDS_MEMORY
        if node.step:
            # Beside the step: the solution, the next one, and for each constant input its readers' queues.
            statics = {id(channel.source) for channel in node.inputs}
            count += memory_consumers(node.step, statics) + 3
        for channel in node.channels:
            count += (channel.ship is not Ship.FORWARD) + (channel.local is not Local.NONE)
            count += channel.ship is Ship.PARTITION_RANGE
            count += channel.temp is Temp.CACHED
    return count
