"""The plans of iterations: how the partial solution or workset lies, how its next version gets back, what is cached.

The step is planned once for each way its start may be partitioned (at random, or by a key that the step wishes for). A
start that is partitioned costs one shuffle before the loop, and one on the way back unless the step keeps the partitioning. What
depends on the loop costs as often as the loop is expected to run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from funken.dataset.optimizer.context import Context
from funken.dataset.optimizer.costs import FREE
from funken.dataset.optimizer.enumerate import MOST_ALTERNATIVES, Enumeration, agreed
from funken.dataset.optimizer.interests import Interests
from funken.dataset.optimizer.physical import PhysicalNode, PlanChannel, walk
from funken.dataset.optimizer.properties import ANYWHERE, GlobalProperties, Spread
from funken.dataset.optimizer.strategies import DriverStrategy, Ship, Temp
from funken.dataset.plan import nodes
from funken.dataset.plan.keys import Key
from funken.dataset.plan.nodes import Node

EXPECTED_SUPERSTEPS = 100
"""A loop is not expected to run longer than this, whatever its maximum is."""

_BUILDS_FIRST = DriverStrategy.HYBRIDHASH_BUILD_FIRST_CACHED
_BUILDS_SECOND = DriverStrategy.HYBRIDHASH_BUILD_SECOND_CACHED


def iterations(outer: Enumeration, node: nodes.Iteration, inputs: Sequence[PhysicalNode]) -> Iterator[PhysicalNode]:
    """Return the cheapest plan of an iteration over these plans of what it reads."""
    parallelism = node.parallelism or outer.parallelism
    context = Context(node, parallelism, outer.estimates, outer.interests, outer)
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
        inside = Context(node, context.parallelism, context.estimates, wishes, inner)
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
    """Return what collects the result of a superstep where the next one reads it."""
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
