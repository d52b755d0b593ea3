"""The optimizer: a logical plan in, the cheapest physical plan out, with those that were rejected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from funken.dataset.optimizer.costs import Costs
from funken.dataset.optimizer.enumerate import Enumeration, cheapest, total
from funken.dataset.optimizer.estimates import Estimates
from funken.dataset.optimizer.interests import Interests
from funken.dataset.optimizer.iterations import iterations
from funken.dataset.optimizer.physical import PhysicalNode, walk
from funken.dataset.plan.nodes import Node


@dataclass(frozen=True)
class Plan:
    """The chosen plan of every sink, and by operator the alternatives that were not chosen."""

    sinks: list[PhysicalNode]
    costs: Costs
    rejected: dict[int, list[PhysicalNode]] = field(default_factory=dict)


def optimize(sinks: Sequence[Node], parallelism: int) -> Plan:
    """Choose a plan."""
    enumeration = Enumeration(sinks, parallelism, Estimates(), Interests(sinks), loops=iterations)
    chosen, _ = cheapest(enumeration, sinks)
    taken = {id(node) for node in walk(chosen)}
    rejected = {of: [plan for plan in plans if id(plan) not in taken] for of, plans in enumeration.rejected.items()}
    for node in walk(chosen):
        for plan in enumeration.of(node.node) if not node.combiner else ():
            if id(plan) not in taken and all(plan is not other for other in rejected[id(node.node)]):
                rejected[id(node.node)].append(plan)
    return Plan(chosen, total(chosen), rejected)
