"""The alternatives of operators with two inputs: which side travels how, which side is built, sorted or replicated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from funken.dataset.optimizer import costs
from funken.dataset.optimizer.physical import PhysicalNode, PlanChannel
from funken.dataset.optimizer.properties import GlobalProperties, LocalOrder, Spread, ascending
from funken.dataset.optimizer.strategies import DriverStrategy, Ship, Temp
from funken.dataset.plan import nodes
from funken.dataset.plan.forwarding import backward_key
from funken.dataset.plan.keys import Key
from funken.dataset.plan.nodes import CrossHint, JoinHint, JoinKind

if TYPE_CHECKING:
    from funken.dataset.optimizer.context import Context

Pair = tuple[PlanChannel, PlanChannel]

_FIRST_SURVIVES = {JoinKind.INNER, JoinKind.LEFT}
_SECOND_SURVIVES = {JoinKind.INNER, JoinKind.RIGHT}


def joins(context: Context, node: nodes.Join, inputs: Sequence[PhysicalNode]) -> Iterator[PhysicalNode]:
    """Return the plans of a join; a hint leaves only those that follow it."""
    hint, kind = node.hint, node.kind
    if looked_up := _looked_up(inputs):
        yield _look_up(context, node, inputs, *looked_up)
        return
    for first, second in _partitioned(context, node.keys, inputs):
        if hint in {JoinHint.OPTIMIZER_CHOOSES, JoinHint.REPARTITION_HASH_FIRST}:
            yield _hashed(context, node, first, second, build=0)
        if hint in {JoinHint.OPTIMIZER_CHOOSES, JoinHint.REPARTITION_HASH_SECOND}:
            yield _hashed(context, node, first, second, build=1)
        if hint in {JoinHint.OPTIMIZER_CHOOSES, JoinHint.REPARTITION_SORT_MERGE}:
            ones, others = context.sorted(first, node.keys[0]), context.sorted(second, node.keys[1])
            if not _same_order(context, node.keys, ones, others):
                continue
            order = LocalOrder()
            if kind is JoinKind.INNER and node.keys[0].transparent:
                order = LocalOrder(ascending(node.keys[0])).after(node.forwarded, 0)
            spread = _spread(context, node, ones, others)
            yield context.plan(DriverStrategy.MERGE, [ones, others], spread=spread, order=order)
    for build, wanted, survivors in (
        (0, JoinHint.BROADCAST_HASH_FIRST, _SECOND_SURVIVES),
        (1, JoinHint.BROADCAST_HASH_SECOND, _FIRST_SURVIVES),
    ):
        chosen = hint is JoinHint.OPTIMIZER_CHOOSES and context.parallelism > 1
        if (chosen or hint is wanted) and kind in survivors:
            for streamed in _streamed(context, node, inputs[1 - build], 1 - build):
                # One task has everything anyway.
                ship = Ship.BROADCAST if context.parallelism > 1 else context.ship(inputs[build]).ship
                sides = [streamed, streamed]
                sides[build] = PlanChannel(inputs[build], ship)
                yield _hashed(context, node, sides[0], sides[1], build=build)


def _streamed(context: Context, node: nodes.Join, source: PhysicalNode, side: int) -> Iterator[PlanChannel]:
    """Return how the side that is not replicated may travel: as it is, or to where a consumer wishes to have it."""
    yield context.ship(source)
    for wish in context.interests.of(node) if context.parallelism > 1 else ():
        key = backward_key(wish, node.forwarded, side)
        if key is not None and context.ship(source, key).ship is not Ship.FORWARD:
            yield context.ship(source, key)


def _looked_up(inputs: Sequence[PhysicalNode]) -> tuple[int] | None:
    """Return which side is the solution set of a delta iteration, if one is."""
    for side, source in enumerate(inputs):
        if isinstance(source.node, nodes.Placeholder) and source.node.role is nodes.Role.SOLUTION_SET:
            return (side,)
    return None


_LOOK_UPS = {
    nodes.Join: (DriverStrategy.SOLUTION_SET_LOOKUP_FIRST, DriverStrategy.SOLUTION_SET_LOOKUP_SECOND),
    nodes.CoGroupNode: (DriverStrategy.SOLUTION_SET_CO_GROUP_FIRST, DriverStrategy.SOLUTION_SET_CO_GROUP_SECOND),
}


def _look_up(
    context: Context, node: nodes.Join | nodes.CoGroupNode, inputs: Sequence[PhysicalNode], side: int
) -> PhysicalNode:
    """Return the plan that looks the records of the other side up in the solution set."""
    probe, key = inputs[1 - side], node.keys[1 - side]
    if probe.parallelism == context.parallelism and (
        context.parallelism == 1 or probe.spread == GlobalProperties(Spread.HASH, key)
    ):
        channel = PlanChannel(probe, Ship.FORWARD)
    else:
        channel = PlanChannel(probe, Ship.PARTITION_HASH, key)
    spread = context.spread_of(channel).after(node.forwarded, 1 - side)
    if isinstance(node, nodes.CoGroupNode):
        channel = context.sorted(channel, key, node.orderings[1 - side])
    channels = [channel, channel]
    channels[side] = PlanChannel(inputs[side], Ship.FORWARD)
    return context.plan(_LOOK_UPS[type(node)][side], channels, spread=spread)


def _same_order(context: Context, keys: tuple[Key, Key], first: PlanChannel, second: PlanChannel) -> bool:
    """Whether both sides are sorted by the same fields of the key in the same direction, not just grouped."""
    for channel, key in zip((first, second), keys, strict=True):
        order = context.order_of(channel)
        if key.transparent and not order.sorted_by(key, ()):
            return False
        if not key.transparent and channel.sort_key != key:
            return False
    return True


def _hashed(context: Context, node: nodes.Join, first: PlanChannel, second: PlanChannel, build: int) -> PhysicalNode:
    sides = (first, second)
    sizes = [channel.source.estimate.size for channel in sides]
    static = context.weights.weight_of(node) > 1 and context.weights.weight_of(sides[build].source.node) == 1
    weight = context.weights.weight if static else 1.0
    work = costs.cached_hash(sizes[build], sizes[1 - build], weight)
    plain = (DriverStrategy.HYBRIDHASH_BUILD_FIRST, DriverStrategy.HYBRIDHASH_BUILD_SECOND)
    cached = (DriverStrategy.HYBRIDHASH_BUILD_FIRST_CACHED, DriverStrategy.HYBRIDHASH_BUILD_SECOND_CACHED)
    spread = _spread(context, node, first, second)
    return context.plan((cached if static else plain)[build], sides, work, spread=spread)


def _spread(
    context: Context, node: nodes.Join | nodes.CoGroupNode, first: PlanChannel, second: PlanChannel
) -> GlobalProperties:
    kind = node.kind if isinstance(node, nodes.Join) else JoinKind.FULL
    for side, channel, survives in ((0, first, _FIRST_SURVIVES), (1, second, _SECOND_SURVIVES)):
        if kind in survives or isinstance(node, nodes.CoGroupNode):
            spread = context.spread_of(channel)
            if spread.spread is not Spread.REPLICATED:
                left = spread.after(node.forwarded, side)
                if left.key is not None:
                    return left
    return GlobalProperties()


def _partitioned(context: Context, keys: tuple[Key, Key], inputs: Sequence[PhysicalNode]) -> list[Pair]:
    """Return the ways to bring equal keys of both inputs to the same task: one side as it is, or both anew."""
    first, second = inputs
    if context.parallelism == 1:
        return [(context.ship(first), context.ship(second))]
    pairs: list[Pair] = []
    for here, there, flipped in ((0, 1, False), (1, 0, True)):
        source, other = inputs[here], inputs[there]
        if source.parallelism != context.parallelism or source.spread.spread is not Spread.HASH:
            continue
        counterpart = _counterpart(source.spread.key, keys[here], keys[there])
        if counterpart is None:
            continue
        stays = PlanChannel(source, Ship.FORWARD)
        same = other.parallelism == context.parallelism and other.spread == GlobalProperties(Spread.HASH, counterpart)
        comes = PlanChannel(other, Ship.FORWARD) if same else PlanChannel(other, Ship.PARTITION_HASH, counterpart)
        pairs.append((comes, stays) if flipped else (stays, comes))
    if not pairs or all(first.ship is not second.ship for first, second in pairs):
        pairs.append(
            (PlanChannel(first, Ship.PARTITION_HASH, keys[0]), PlanChannel(second, Ship.PARTITION_HASH, keys[1]))
        )
    return pairs


def _counterpart(partitioned: Key | None, own: Key, other: Key) -> Key | None:
    """Return the key of the other side that hashes as this side is partitioned; None if there is none."""
    if partitioned is None:
        return None
    if partitioned == own:
        return other
    if not (partitioned.transparent and own.transparent and other.transparent):
        return None
    partners = dict(zip(own.paths, other.paths, strict=True))
    if not set(partitioned.paths) <= set(partners):
        return None
    return Key(tuple(partners[path] for path in partitioned.paths))


def co_groups(context: Context, node: nodes.CoGroupNode, inputs: Sequence[PhysicalNode]) -> Iterator[PhysicalNode]:
    """Return the plans of a co-group: both sides are partitioned and sorted."""
    if looked_up := _looked_up(inputs):
        yield _look_up(context, node, inputs, *looked_up)
        return
    for first, second in _partitioned(context, node.keys, inputs):
        ones = context.sorted(first, node.keys[0], node.orderings[0])
        others = context.sorted(second, node.keys[1], node.orderings[1])
        if _same_order(context, node.keys, ones, others):
            yield context.plan(DriverStrategy.CO_GROUP, [ones, others], spread=_spread(context, node, ones, others))


def crosses(context: Context, node: nodes.Cross, inputs: Sequence[PhysicalNode]) -> Iterator[PhysicalNode]:
    """Return the plans of a cross: one side is sent to all tasks, and read there once per block of the other."""
    first, second = inputs
    sides = [0, 1] if node.hint is CrossHint.OPTIMIZER_CHOOSES else [2 - node.hint.value]
    for replicated in sides:
        streamed = 1 - replicated
        channels = [context.ship(source) for source in (first, second)]
        if context.parallelism > 1:
            channels[replicated] = PlanChannel(inputs[replicated], Ship.BROADCAST)
        driver = (
            DriverStrategy.NESTEDLOOP_BLOCKED_OUTER_FIRST
            if replicated == 1
            else DriverStrategy.NESTEDLOOP_BLOCKED_OUTER_SECOND
        )
        records = inputs[streamed].estimate.records
        blocks = (1e6 if records is None else records) / 1024 + 1
        work = costs.nested_loops(blocks, inputs[replicated].estimate.size)
        static = context.weights.weight_of(node) > 1 and context.weights.weight_of(inputs[replicated].node) == 1
        if static:
            channels[replicated] = PlanChannel(inputs[replicated], channels[replicated].ship, temp=Temp.CACHED)
        spread = context.spread_of(channels[streamed]).after(node.forwarded, streamed)
        yield context.plan(driver, channels, work, spread=spread)
