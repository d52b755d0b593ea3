"""The optimizer: a logical plan in, the cheapest physical plan out, with those that were rejected."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from funken.dataset.optimizer import costs
from funken.dataset.optimizer.alternatives import Context, alternatives
from funken.dataset.optimizer.costs import (
    ANYWHERE,
    FREE,
    Costs,
    DriverStrategy,
    Estimates,
    GlobalProperties,
    Interests,
    Ship,
    Spread,
    Temp,
)
from funken.dataset.optimizer.physical import PhysicalNode, PlanChannel, everything, walk
from funken.dataset.plan import nodes
from funken.dataset.plan.keys import Key
from funken.dataset.plan.nodes import Node

# ---- The enumeration: from sources to sinks, the alternatives of every operator over those of its inputs.
#
# Of alternatives that leave their records alike (same partitioning and order, same choices for what other operators
# read too) only the cheapest stays. What several operators read is computed once: their alternatives are only
# combined if they agree on it, and its costs count once.


MOST_ALTERNATIVES = 24
"""Alternatives of one operator that are followed, the cheapest ones."""


Loops = Callable[["Enumeration", nodes.Iteration, Sequence[PhysicalNode]], Iterator[PhysicalNode]]
"""Plans an iteration over plans of its inputs."""


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
        """Plan anew, with one plan for shared inputs of operators: their best alternatives did not agree on any."""
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
            context = Context(node, parallelism, self.estimates, self.interests, self.weight_of, self.weight)
            broadcasts = tuple(
                (name, PlanChannel(source, Ship.BROADCAST))
                for (name, _), source in zip(node.broadcasts, inputs[count:], strict=True)
            )
            extra = FREE
            for _, channel in broadcasts:
                extra += costs.broadcast(channel.source.estimate.size, parallelism) * self.weight_of(
                    channel.source.node
                )
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

    def weight_of(self, node: Node) -> float:
        """Return the number of times that a node is computed."""
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
    """Add its operator's broadcast sets to a combiner: it has the same function."""
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
    """Return the costs of plans together; shared parts count once."""
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


# ---- The plans of iterations: how the partial solution or workset lies, how its next version gets back, what is
# cached.
#
# The step is planned once for each way its start may be partitioned (at random, or by a key that the step wishes
# for). A start that is partitioned costs one shuffle before the loop, and one on the way back unless the step keeps
# the partitioning. What depends on the loop costs as often as the loop is expected to run.


EXPECTED_SUPERSTEPS = 100
"""A loop is not expected to run longer than this, whatever its maximum is."""

_BUILDS_FIRST = DriverStrategy.HYBRIDHASH_BUILD_FIRST_CACHED
_BUILDS_SECOND = DriverStrategy.HYBRIDHASH_BUILD_SECOND_CACHED


def iterations(outer: Enumeration, node: nodes.Iteration, inputs: Sequence[PhysicalNode]) -> Iterator[PhysicalNode]:
    """Return the cheapest plan of an iteration over these plans of its inputs."""
    parallelism = node.parallelism or outer.parallelism
    context = Context(node, parallelism, outer.estimates, outer.interests, outer.weight_of, outer.weight)
    count = len(node.inputs)
    fixed = {id(static): [plan] for static, plan in zip(node.statics, inputs[count:], strict=True)}
    statics = [PlanChannel(plan, Ship.FORWARD) for plan in inputs[count:]]
    best: PhysicalNode | None = None
    dropped: list[PhysicalNode] = []
    for plan in _plans(context, node, inputs[:count], fixed, outer):
        costs = plan.own_costs
        for inner in walk(plan.step, {id(source) for source in inputs[count:]}):
            costs += inner.own_costs
        plan = replace(plan, inputs=(*plan.inputs, *statics), own_costs=costs)  # noqa: PLW2901 - completed here
        if best is None or plan.own_costs < best.own_costs:
            best, plan = plan, best  # noqa: PLW2901 - the one that lost
        if plan is not None:
            dropped.append(plan)
    assert best is not None
    yield replace(best, step=_with_caches(best.step, node.dynamic))
    yield from dropped[:0]


def _plans(
    context: Context,
    node: nodes.Iteration,
    inputs: Sequence[PhysicalNode],
    fixed: dict[int, list[PhysicalNode]],
    outer: Enumeration,
) -> Iterator[PhysicalNode]:
    if isinstance(node, nodes.BulkIteration):
        start, roots = node.partial, [node.step, *([node.termination] if node.termination else [])]
        initial = inputs[0]
    else:
        assert isinstance(node, nodes.DeltaIterationNode)
        start, roots = node.workset, [node.next_workset, node.delta]
        initial = inputs[1]
        solution = _placeholder(context, node.solution, inputs[0], node.key)
        fixed = fixed | {id(node.solution): [solution]}
        context.estimates.set(node.solution, inputs[0].estimate)
    context.estimates.set(start, initial.estimate)
    wishes = Interests(roots)
    weight = float(min(node.maximum, EXPECTED_SUPERSTEPS))
    keys: list[Key | None] = [None]
    if context.parallelism > 1:
        keys += wishes.of(start)
        if isinstance(node, nodes.DeltaIterationNode) and node.key not in keys:
            keys.append(node.key)
    for key in keys:
        placeholder = _placeholder(context, start, initial, key)
        inner = Enumeration(
            roots,
            context.parallelism,
            context.estimates,
            wishes,
            fixed | {id(start): [placeholder]},
            node.dynamic,
            weight,
        )
        inside = Context(node, context.parallelism, context.estimates, wishes, inner.weight_of, inner.weight)
        first = _brought(context, initial, key)
        for steps in _together(inner, roots):
            feedback = _back(inside, steps[0], key, "feedback")
            if isinstance(node, nodes.BulkIteration):
                yield context.plan(DriverStrategy.BULK_ITERATION, [first], step=(feedback, *steps[1:]), dynamic=False)
            else:
                delta = _back(inside, steps[1], node.key, "solution delta")
                before = _brought(context, inputs[0], node.key)
                spread = GlobalProperties(Spread.HASH, node.key)
                yield context.plan(
                    DriverStrategy.DELTA_ITERATION,
                    [before, first],
                    spread=spread,
                    step=(feedback, delta),
                    dynamic=False,
                )
        for of, plans in inner.rejected.items():
            outer.rejected.setdefault(of, []).extend(plans)


def _together(inner: Enumeration, roots: Sequence[Node]) -> list[tuple[PhysicalNode, ...]]:
    found: list[tuple[PhysicalNode, ...]] = [()]
    for root in roots:
        found = [(*plans, plan) for plans in found for plan in inner.of(root) if agreed([*plans, plan]) is not None][
            :MOST_ALTERNATIVES
        ]
    return found


def _placeholder(context: Context, node: Node, initial: PhysicalNode, key: Key | None) -> PhysicalNode:
    spread = (
        GlobalProperties(Spread.SINGLE)
        if context.parallelism == 1
        else GlobalProperties(Spread.HASH, key)
        if key
        else ANYWHERE
    )
    return PhysicalNode(
        node,
        DriverStrategy.PLACEHOLDER,
        parallelism=context.parallelism,
        spread=spread,
        estimate=initial.estimate,
        dynamic=True,
        own_costs=FREE,
    )


def _brought(context: Context, source: PhysicalNode, key: Key | None) -> PlanChannel:
    if key is None or context.parallelism == 1:
        return context.ship(source)
    if source.parallelism == context.parallelism and source.spread == GlobalProperties(Spread.HASH, key):
        return PlanChannel(source, Ship.FORWARD)
    return PlanChannel(source, Ship.PARTITION_HASH, key)


def _back(context: Context, source: PhysicalNode, key: Key | None, name: str) -> PhysicalNode:
    """Return a plan that collects the result of a superstep where the next one reads it."""
    made = context.plan(DriverStrategy.NO_OP, [_brought(context, source, key)])
    return replace(made, node=nodes.Union(id=source.node.id, name=name, inputs=(source.node,)), dynamic=True)


def _with_caches(roots: tuple[PhysicalNode, ...], dynamic: frozenset[int]) -> tuple[PhysicalNode, ...]:
    """Mark the constant inputs that are kept over supersteps; a cached hash table keeps its own."""
    changed: dict[int, PhysicalNode] = {}
    outside = {
        id(channel.source)
        for node in walk(roots)
        for channel in node.channels
        if id(channel.source.node) not in dynamic and not channel.source.dynamic
    }
    for node in walk(roots, outside):
        inputs = list(node.inputs)
        for place, channel in enumerate(inputs):
            if id(channel.source) not in outside:
                inputs[place] = replace(channel, source=changed[id(channel.source)])
            elif (node.driver, place) not in {(_BUILDS_FIRST, 0), (_BUILDS_SECOND, 1)}:
                inputs[place] = replace(channel, temp=Temp.CACHED)
        broadcasts = tuple(
            (name, channel if id(channel.source) in outside else replace(channel, source=changed[id(channel.source)]))
            for name, channel in node.broadcasts
        )
        changed[id(node)] = replace(node, inputs=tuple(inputs), broadcasts=broadcasts)
    return tuple(changed.get(id(root), root) for root in roots)


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


# ---- A plan as text and as JSON.


MOST_REJECTED = 4


def text(plan: Plan) -> str:
    """Return one line per operator, its inputs, and the alternatives that would have cost more."""
    numbers = {id(node): number for number, node in enumerate(everything(plan.sinks), 1)}
    lines = [f"Plan, costs: {plan.costs}"]
    for node in walk(plan.sinks):
        lines += _lines(node, numbers, "")
    lines += _rejected(plan)
    return "\n".join(lines)


def _lines(node: PhysicalNode, numbers: dict[int, int], indent: str) -> Iterator[str]:
    yield f"{indent}{numbers[id(node)]}: {head(node)}"
    for name, channel in (*(("", channel) for channel in node.inputs), *node.broadcasts):
        what = f"broadcast set {name!r} " if name else ""
        yield f"{indent}     <- {what}{numbers[id(channel.source)]} {channel}"
    if node.own_costs.network or node.own_costs.disk or node.own_costs.cpu:
        yield f"{indent}     costs: {node.own_costs}"
    if node.step:
        yield f"{indent}     in every superstep:"
        for inner in walk(node.step, {id(channel.source) for channel in node.inputs}):
            yield from _lines(inner, numbers, f"{indent}       ")


def head(node: PhysicalNode) -> str:
    """Return an operator, its driver, its parallelism and its estimates."""
    estimate = node.estimate
    records = "?" if estimate.records is None else f"{estimate.records:,.0f}"
    size = "?" if estimate.size is None else f"{estimate.size:,.0f}"
    details = f" ({node.node.details})" if node.node.details else ""
    return (
        f"{node.name}{details} {node.driver.value} x{node.parallelism} [{node.spread}] ~{records} records, {size} bytes"
    )


def _rejected(plan: Plan) -> list[str]:
    lines = []
    for node in everything(plan.sinks):
        others = [] if node.combiner else sorted(plan.rejected.get(id(node.node), []), key=_costs)
        seen = {_choice(node)}
        for other in others:
            if len(other.inputs) and _choice(other) not in seen and len(seen) <= MOST_REJECTED:
                seen.add(_choice(other))
                lines.append(f"     {node.name}: {_choice(other)}; up to here {other.costs}, not {node.costs}")
    return ["Rejected:", *lines] if lines else []


def _choice(node: PhysicalNode) -> str:
    return " and ".join([node.driver.value, *map(str, node.inputs)])


def _costs(node: PhysicalNode) -> tuple[float, float, float]:
    return node.costs.network, node.costs.disk, node.costs.cpu


def json_text(plan: Plan) -> str:
    """Return the plan in the form of Flink's plan dump."""
    numbers = {id(node): number for number, node in enumerate(everything(plan.sinks), 1)}

    def predecessor(channel: PlanChannel, side: int) -> dict[str, Any]:
        found: dict[str, Any] = {"id": numbers[id(channel.source)], "ship_strategy": channel.ship.value}
        if channel.key is not None:
            found["key"] = str(channel.key)
        found |= {"local_strategy": channel.local.value, "temp_mode": channel.temp.value, "exchange_mode": "PIPELINED"}
        return found | {"side": ("first", "second")[min(side, 1)]}

    def described(node: PhysicalNode) -> dict[str, Any]:
        step = walk(node.step, {id(channel.source) for channel in node.inputs}) if node.step else ()
        return {
            "id": numbers[id(node)],
            "pact": node.name,
            "contents": node.node.details,
            "parallelism": node.parallelism,
            "driver_strategy": node.driver.value,
            "step_function": [described(inner) for inner in step],
            "predecessors": [
                *(predecessor(channel, side) for side, channel in enumerate(node.inputs)),
                *(predecessor(channel, 0) | {"side": f"broadcast {name}"} for name, channel in node.broadcasts),
            ],
            "global_properties": [{"name": "Partitioning", "value": str(node.spread)}],
            "local_properties": [{"name": "Order", "value": str(node.order)}],
            "estimates": {"records": node.estimate.records, "size": node.estimate.size},
            "costs": {"network": node.own_costs.network, "disk": node.own_costs.disk, "cpu": node.own_costs.cpu},
        }

    return json.dumps({"nodes": [described(node) for node in walk(plan.sinks)]}, indent=2)
