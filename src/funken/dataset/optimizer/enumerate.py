"""The enumeration: from sources to sinks, the alternatives of every operator over those of its inputs.

Of alternatives that leave their records alike (same partitioning and order, same choices for what other operators read
too) only the cheapest stays. What several operators read is computed once: their alternatives are only combined if they
agree on it, and its costs count once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from funken.dataset.optimizer import costs
from funken.dataset.optimizer.context import Context
from funken.dataset.optimizer.costs import FREE, Costs
from funken.dataset.optimizer.estimates import Estimates
from funken.dataset.optimizer.interests import Interests
from funken.dataset.optimizer.operators import alternatives
from funken.dataset.optimizer.physical import PhysicalNode, PlanChannel, walk
from funken.dataset.optimizer.properties import GlobalProperties
from funken.dataset.optimizer.strategies import Ship
from funken.dataset.plan import nodes
from funken.dataset.plan.nodes import Node

MOST_ALTERNATIVES = 24
"""Alternatives of one operator that are followed, the cheapest ones."""


Loops = Callable[["Enumeration", nodes.Iteration, Sequence[PhysicalNode]], Iterator[PhysicalNode]]
"""Plans an iteration over plans of what it reads."""


class Enumeration:
    """The alternatives of all nodes of a program."""

    def __init__(
        self,
        roots: Sequence[Node],
        parallelism: int,
        estimates: Estimates,
        interests: Interests,
        fixed: dict[int, list[PhysicalNode]] | None = None,
        dynamic: frozenset[int] = frozenset(),
        weight: float = 1.0,
        loops: Loops | None = None,
    ) -> None:
        self.parallelism = parallelism
        self.estimates = estimates
        self.interests = interests
        self.dynamic = dynamic
        self.weight = weight
        self.loops = loops
        self.rejected: dict[int, list[PhysicalNode]] = {}
        self._fixed = dict(fixed or {})
        self._found = dict(self._fixed)
        self._decided = False
        self._readers: dict[int, int] = {}
        for root in roots:
            self._readers[id(root)] = self._readers.get(id(root), 0) + 1
        for node in nodes.walk(roots, self._found):
            for parent in node.parents:
                self._readers[id(parent)] = self._readers.get(id(parent), 0) + 1

    def of(self, node: Node) -> list[PhysicalNode]:
        """Return the alternatives of a node, the cheapest first."""
        for each in nodes.walk([node], self._found):
            if id(each) not in self._found:
                found = self._pruned(each, list(self._alternatives(each)))
                if not found:
                    return self._without_choice(node)
                self._found[id(each)] = found
        return self._found[id(node)]

    def _without_choice(self, node: Node) -> list[PhysicalNode]:
        """Plan anew, with one plan for what several operators read: their best alternatives did not agree on any."""
        assert not self._decided
        self._decided = True
        self._found = dict(self._fixed)
        return self.of(node)

    def _alternatives(self, node: Node) -> Iterator[PhysicalNode]:
        dynamic = id(node) in self.dynamic
        for inputs in product(*(self.of(parent) for parent in node.parents)):
            if (shared := agreed(inputs)) is None:
                continue
            if isinstance(node, nodes.Iteration):
                assert self.loops is not None
                for made in self.loops(self, node, inputs):
                    yield self._costed(node, replace(made, choices=shared))
                continue
            count = len(node.inputs)
            parallelism = self._parallelism(node, inputs)
            context = Context(node, parallelism, self.estimates, self.interests, self)
            broadcasts = tuple(
                (name, PlanChannel(source, Ship.BROADCAST))
                for (name, _), source in zip(node.broadcasts, inputs[count:], strict=True)
            )
            extra = FREE
            for _, channel in broadcasts:
                extra += costs.broadcast(channel.source.estimate.size, parallelism) * self._weight_of(channel.source)
            for made in alternatives(context, inputs[:count]):
                plan = replace(
                    _for_combiners(made, broadcasts),
                    broadcasts=broadcasts,
                    own_costs=made.own_costs + extra,
                    dynamic=dynamic,
                    choices=shared,
                )
                yield self._costed(node, plan)

    def _costed(self, node: Node, plan: PhysicalNode) -> PhysicalNode:
        plan = replace(plan, costs=total([plan]), choices=dict(plan.choices))
        if self._readers.get(id(node), 0) > 1:
            plan.choices[id(node)] = plan
        return plan

    def _parallelism(self, node: Node, inputs: Sequence[PhysicalNode]) -> int:
        if node.single:
            return 1
        if isinstance(node, nodes.SinkNode) and not node.format.travels and node.parallelism is None:
            return inputs[0].parallelism  # what is collected has the order of its partitions
        return node.parallelism or self.parallelism

    def _weight_of(self, plan: PhysicalNode) -> float:
        return self.weight if id(plan.node) in self.dynamic else 1.0

    def weight_of(self, node: Node) -> float:
        """Return how often a node is computed."""
        return self.weight if id(node) in self.dynamic else 1.0

    def _pruned(self, node: Node, plans: list[PhysicalNode]) -> list[PhysicalNode]:
        wishes = self.interests.of(node)
        best: dict[object, PhysicalNode] = {}
        dropped: list[PhysicalNode] = []
        for plan in plans:
            useful = plan.spread if any(plan.spread.keeps_together(key) for key in wishes) else GlobalProperties()
            choices = frozenset((of, id(choice)) for of, choice in plan.choices.items() if of != id(node))
            signature = (useful, plan.order, choices)
            other = best.get(signature)
            if other is None:
                best[signature] = plan
            elif plan.costs < other.costs:
                best[signature] = plan
                dropped.append(other)
            else:
                dropped.append(plan)
        kept = sorted(best.values(), key=_by_costs)
        dropped += kept[MOST_ALTERNATIVES:]
        self.rejected[id(node)] = dropped + kept[1:]
        return kept[: 1 if self._decided and self._readers.get(id(node), 0) > 1 else MOST_ALTERNATIVES]


def _for_combiners(plan: PhysicalNode, broadcasts: tuple[tuple[str, PlanChannel], ...]) -> PhysicalNode:
    """Give a combiner the broadcast sets of its operator: it has the same function."""
    for place, channel in enumerate(plan.inputs if broadcasts else ()):
        if channel.source.combiner and channel.source.node is plan.node:
            plan = plan.with_input(place, source=replace(channel.source, broadcasts=broadcasts))
    return plan


def _by_costs(plan: PhysicalNode) -> tuple[float, float, float]:
    return plan.costs.network, plan.costs.disk, plan.costs.cpu


def agreed(plans: Iterable[PhysicalNode]) -> dict[int, PhysicalNode] | None:
    """Return the choices of all plans together; None if two of them chose otherwise for the same node."""
    shared: dict[int, PhysicalNode] = {}
    for plan in plans:
        for of, choice in plan.choices.items():
            if shared.setdefault(of, choice) is not choice:
                return None
    return shared


def total(plans: Sequence[PhysicalNode]) -> Costs:
    """Return the costs of plans together; what they share counts once."""
    result = FREE
    for node in walk(plans):
        result += node.own_costs
    return result


def cheapest(
    enumeration: Enumeration, roots: Sequence[Node]
) -> tuple[list[PhysicalNode], list[tuple[PhysicalNode, ...]]]:
    """Return the cheapest plan for all roots together, and the ones that were not chosen."""
    combinations: list[tuple[PhysicalNode, ...]] = [()]
    for root in roots:
        longer = [
            (*plans, plan)
            for plans, plan in product(combinations, enumeration.of(root))
            if agreed([*plans, plan]) is not None
        ]
        longer.sort(key=lambda plans: _by_costs(replace(plans[0], costs=total(plans))))
        combinations = longer[:MOST_ALTERNATIVES]
    return list(combinations[0]), combinations[1:]
