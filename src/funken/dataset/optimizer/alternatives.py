"""The alternatives of one operator over given plans of its inputs: ship strategies, local strategies, drivers, costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from funken.dataset.optimizer import costs
from funken.dataset.optimizer.costs import (
    FREE,
    Costs,
    DriverStrategy,
    Estimates,
    GlobalProperties,
    Interests,
    Local,
    LocalOrder,
    Ship,
    Spread,
    Temp,
    ascending,
)
from funken.dataset.optimizer.physical import PhysicalNode, PlanChannel
from funken.dataset.plan import nodes
from funken.dataset.plan.keys import Key, Ordering
from funken.dataset.plan.nodes import (
    CombineHint,
    CrossHint,
    JoinHint,
    JoinKind,
    Kind,
    Node,
    PartitionMethod,
    Statistics,
    backward_key,
)
from funken.errors import InvalidProgram

# ---- The alternatives of operators with two inputs: which side travels how, which side is built, sorted or
# replicated.


Pair = tuple[PlanChannel, PlanChannel]

_FIRST_SURVIVES = {JoinKind.INNER, JoinKind.LEFT}
_SECOND_SURVIVES = {JoinKind.INNER, JoinKind.RIGHT}


def joins(context: Context, node: nodes.Join, inputs: Sequence[PhysicalNode]) -> Iterator[PhysicalNode]:
    """Return the plans of a join; with a hint only those that follow it."""
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
    """Return the ways of the side that is not replicated: as it is, or to where a consumer wishes to have it."""
    yield context.ship(source)
    for wish in context.interests.of(node) if context.parallelism > 1 else ():
        key = backward_key(wish, node.forwarded, side)
        if key is not None and context.ship(source, key).ship is not Ship.FORWARD:
            yield context.ship(source, key)


def _looked_up(inputs: Sequence[PhysicalNode]) -> tuple[int] | None:
    """Return the side that is the solution set of a delta iteration, if there is one."""
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
    """Return True if both sides are sorted by the same fields of the key in the same direction, not just grouped."""
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
    static = context.weight_of(node) > 1 and context.weight_of(sides[build].source.node) == 1
    weight = context.weight if static else 1.0
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
        static = context.weight_of(node) > 1 and context.weight_of(inputs[replicated].node) == 1
        if static:
            channels[replicated] = PlanChannel(inputs[replicated], channels[replicated].ship, temp=Temp.CACHED)
        spread = context.spread_of(channels[streamed]).after(node.forwarded, streamed)
        yield context.plan(driver, channels, work, spread=spread)


# ---- What the alternatives of an operator depend on, and how a plan of one is priced.


@dataclass(frozen=True)
class Context:
    """The surroundings on which the alternatives of one operator depend, beside its inputs."""

    node: Node
    parallelism: int
    estimates: Estimates
    interests: Interests
    weight_of: Callable[[Node], float]
    """The expected number of times that a node is computed: once, or once per superstep."""
    weight: float
    """That of the nodes that are computed in each superstep."""

    def plan(
        self,
        driver: DriverStrategy,
        inputs: Sequence[PlanChannel],
        work: Costs = FREE,
        spread: GlobalProperties | None = None,
        order: LocalOrder = LocalOrder(),  # noqa: B008 - immutable
        **fields: Any,
    ) -> PhysicalNode:
        """Make a plan; the costs are those of its channels and ``work``, times the number of supersteps."""
        single = GlobalProperties(Spread.SINGLE) if self.parallelism == 1 else None
        own = work * self.weight_of(self.node)
        for channel in inputs:
            own += self.channel_costs(channel)
        return PhysicalNode(
            self.node,
            driver,
            tuple(inputs),
            parallelism=self.parallelism,
            spread=single or spread or GlobalProperties(),
            order=order,
            own_costs=own,
            estimate=self.estimates.of(self.node),
            **fields,
        )

    def channel_costs(self, channel: PlanChannel) -> Costs:
        """Return the costs of shipping and sorting one input."""
        size = channel.source.estimate.size
        match channel.ship:
            case Ship.FORWARD:
                found = FREE
            case Ship.BROADCAST:
                found = costs.broadcast(size, self.parallelism)
            case Ship.PARTITION_RANGE:
                found = costs.range_partition(size)
            case _:
                found = costs.partition(size)
        if channel.local is not Local.NONE:
            found += costs.sort(size)
        return found * self.weight_of(channel.source.node)

    def ship(self, source: PhysicalNode, key: Key | None = None) -> PlanChannel:
        """Return the cheapest channel that brings equal keys together; without a key, any."""
        if source.parallelism == self.parallelism and (
            self.parallelism == 1 or key is None or source.spread.keeps_together(key)
        ):
            return PlanChannel(source, Ship.FORWARD)
        if key is None or self.parallelism == 1:
            return PlanChannel(source, Ship.PARTITION_RANDOM)
        return PlanChannel(source, Ship.PARTITION_HASH, key)

    def spread_of(self, channel: PlanChannel) -> GlobalProperties:
        """Return the distribution of records behind a channel."""
        match channel.ship:
            case Ship.FORWARD:
                return channel.source.spread
            case Ship.PARTITION_HASH:
                return GlobalProperties(Spread.HASH, channel.key)
            case Ship.PARTITION_RANGE:
                return GlobalProperties(Spread.RANGE, channel.key)
            case Ship.PARTITION_CUSTOM:
                return GlobalProperties(Spread.CUSTOM, channel.key, channel.partition.partitioner.target)
            case Ship.BROADCAST:
                return GlobalProperties(Spread.REPLICATED)
        return GlobalProperties()

    def order_of(self, channel: PlanChannel) -> LocalOrder:
        """Return the order of the records of a task behind a channel."""
        if channel.local is not Local.NONE:
            key = channel.sort_key
            if key is not None and not key.transparent:
                return LocalOrder(grouped=key)
            return LocalOrder((*(ascending(key) if key else ()), *channel.ordering))
        return channel.source.order if channel.ship is Ship.FORWARD else LocalOrder()

    def sorted(
        self, channel: PlanChannel, key: Key | None, ordering: Ordering = (), combining: bool = False
    ) -> PlanChannel:
        """Return the channel with a sort behind it, unless the records are in that order anyway."""
        at = self.order_of(channel)
        if key is not None and not ordering and at.groups(key) and channel.ship is Ship.FORWARD:
            return channel
        if key is not None and at.sorted_by(key, ordering):
            return channel
        if key is None and at.fields[: len(ordering)] == ordering:
            return channel
        local = Local.COMBININGSORT if combining else Local.SORT
        return replace(channel, local=local, sort_key=key, ordering=ordering)


def alternatives(context: Context, inputs: Sequence[PhysicalNode]) -> Iterator[PhysicalNode]:
    """Return the plans of an operator over these plans of its inputs."""
    node = context.node
    match node:
        case nodes.SourceNode():
            yield context.plan(DriverStrategy.SOURCE, ())
        case nodes.Apply():
            yield from _apply(context, node, inputs[0])
        case nodes.Reduce(key=None) | nodes.GroupReduce(key=None):
            yield from _all(context, node, inputs[0])
        case nodes.Reduce():
            yield from _reduce(context, node, inputs[0])
        case nodes.GroupReduce():
            yield from _group_reduce(context, node, inputs[0])
        case nodes.GroupCombine():
            channel = context.ship(inputs[0])
            if node.key is None:
                yield context.plan(DriverStrategy.ALL_GROUP_COMBINE, [channel])
            else:
                channel = context.sorted(channel, node.key, node.ordering)
                yield context.plan(DriverStrategy.SORTED_GROUP_COMBINE, [channel])
        case nodes.Join():
            yield from joins(context, node, inputs)
        case nodes.CoGroupNode():
            yield from co_groups(context, node, inputs)
        case nodes.Cross():
            yield from crosses(context, node, inputs)
        case nodes.Union():
            channels = [context.ship(source) for source in inputs]
            spreads = {context.spread_of(channel) for channel in channels}
            yield context.plan(DriverStrategy.UNION, channels, spread=spreads.pop() if len(spreads) == 1 else None)
            for key in context.interests.of(node):
                if context.parallelism > 1 and key.transparent:
                    channels = [_exactly(context, source, key) for source in inputs]
                    yield context.plan(DriverStrategy.UNION, channels, spread=GlobalProperties(Spread.HASH, key))
        case nodes.Partition():
            yield _partition(context, node, inputs[0])
        case nodes.SortPartition():
            channel = context.sorted(context.ship(inputs[0]), None, node.ordering)
            yield context.plan(
                DriverStrategy.NO_OP, [channel], spread=context.spread_of(channel), order=context.order_of(channel)
            )
        case nodes.SinkNode():
            channel = context.ship(inputs[0])
            if node.ordering:
                channel = context.sorted(channel, None, node.ordering)
            yield context.plan(DriverStrategy.SINK, [channel])
        case nodes.Placeholder():
            raise InvalidProgram(
                f"the {node.role.value} of an iteration is read outside of its step. Read the result of close_with() instead."
            )
        case _:
            raise NotImplementedError(type(node).__name__)


def _exactly(context: Context, source: PhysicalNode, key: Key) -> PlanChannel:
    if source.parallelism == context.parallelism and source.spread == GlobalProperties(Spread.HASH, key):
        return PlanChannel(source, Ship.FORWARD)
    return PlanChannel(source, Ship.PARTITION_HASH, key)


_APPLY = {
    Kind.MAP: DriverStrategy.MAP,
    Kind.FLAT_MAP: DriverStrategy.FLAT_MAP,
    Kind.FILTER: DriverStrategy.FILTER,
    Kind.MAP_PARTITION: DriverStrategy.MAP_PARTITION,
}


def _apply(context: Context, node: nodes.Apply, source: PhysicalNode) -> Iterator[PhysicalNode]:
    channels = [context.ship(source)]
    # A wish of a consumer that passes through the function may as well be met in front of it.
    for key in context.interests.of(node.inputs[0]) if node.forwarded and node.kind is not Kind.MAP_PARTITION else ():
        channel = context.ship(source, key)
        if channel.ship is Ship.PARTITION_HASH:
            channels.append(channel)
    for channel in channels:
        yield context.plan(
            _APPLY[node.kind],
            [channel],
            spread=context.spread_of(channel).after(node.forwarded),
            order=context.order_of(channel).after(node.forwarded),
        )


def _combiner(
    context: Context, node: Node, source: PhysicalNode, driver: DriverStrategy, channel: PlanChannel
) -> PhysicalNode:
    """Return the half of an operator that runs where its input is."""
    given = source.estimate
    reduced = context.estimates.of(node)
    records = None if reduced.records is None else reduced.records * source.parallelism
    size = None if reduced.size is None else reduced.size * source.parallelism
    if given.size is not None and size is not None and size > given.size:
        records, size = given.records, given.size
    before = replace(context, parallelism=source.parallelism)
    work = costs.hash_aggregation(given.size) if driver is DriverStrategy.HASHED_PARTIAL_REDUCE else FREE
    made = before.plan(driver, [channel], work, combiner=True)
    return replace(made, estimate=Statistics(records, size), dynamic=source.dynamic)


def _all(context: Context, node: nodes.Reduce | nodes.GroupReduce, source: PhysicalNode) -> Iterator[PhysicalNode]:
    reduce = isinstance(node, nodes.Reduce)
    if source.parallelism > 1 and (isinstance(node, nodes.Reduce) or node.combiner is not None):
        driver = DriverStrategy.ALL_REDUCE if reduce else DriverStrategy.ALL_GROUP_COMBINE
        source = _combiner(context, node, source, driver, PlanChannel(source, Ship.FORWARD))
    driver = DriverStrategy.ALL_REDUCE if reduce else DriverStrategy.ALL_GROUP_REDUCE
    yield context.plan(driver, [context.ship(source)])


def _reduce(context: Context, node: nodes.Reduce, source: PhysicalNode) -> Iterator[PhysicalNode]:
    assert node.key is not None
    for choice in _reduce_channels(context, node, source):
        spread = context.spread_of(choice)
        spread = spread if spread.key is not None and spread.keeps_together(node.key) else GlobalProperties()
        ordered = context.sorted(choice, node.key)
        if ordered.local is Local.NONE:
            yield context.plan(
                DriverStrategy.SORTED_REDUCE,
                [ordered],
                spread=spread,
                order=context.order_of(ordered).after(node.forwarded),
            )
            continue
        if node.hint is not CombineHint.SORT:
            yield context.plan(
                DriverStrategy.HASHED_REDUCE,
                [choice],
                costs.hash_aggregation(choice.source.estimate.size),
                spread=spread,
            )
        if node.hint is not CombineHint.HASH:
            ordered = replace(ordered, local=Local.COMBININGSORT)
            order = context.order_of(ordered)
            yield context.plan(DriverStrategy.SORTED_REDUCE, [ordered], spread=spread, order=order)


def _reduce_channels(context: Context, node: nodes.Reduce, source: PhysicalNode) -> Iterator[PlanChannel]:
    assert node.key is not None
    channel = context.ship(source, node.key)
    if channel.ship is Ship.FORWARD or node.hint is CombineHint.NONE:
        yield channel
    else:
        here = PlanChannel(source, Ship.FORWARD)
        driver = DriverStrategy.HASHED_PARTIAL_REDUCE
        if node.hint is CombineHint.SORT:
            driver = DriverStrategy.SORTED_PARTIAL_REDUCE
            here = replace(here, local=Local.COMBININGSORT, sort_key=node.key)
        yield context.ship(_combiner(context, node, source, driver, here), node.key)


def _group_reduce(context: Context, node: nodes.GroupReduce, source: PhysicalNode) -> Iterator[PhysicalNode]:
    assert node.key is not None
    channel = context.ship(source, node.key)
    combinable = node.combiner is not None
    if channel.ship is not Ship.FORWARD and combinable:
        here = replace(PlanChannel(source, Ship.FORWARD), local=Local.SORT, sort_key=node.key, ordering=node.ordering)
        channel = context.ship(_combiner(context, node, source, DriverStrategy.SORTED_GROUP_COMBINE, here), node.key)
    channel = context.sorted(channel, node.key, node.ordering, combinable)
    yield context.plan(
        DriverStrategy.SORTED_GROUP_REDUCE,
        [channel],
        spread=context.spread_of(channel).after(node.forwarded),
        order=context.order_of(channel).after(node.forwarded),
    )


def _partition(context: Context, node: nodes.Partition, source: PhysicalNode) -> PhysicalNode:
    ships = {
        PartitionMethod.HASH: Ship.PARTITION_HASH,
        PartitionMethod.RANGE: Ship.PARTITION_RANGE,
        PartitionMethod.CUSTOM: Ship.PARTITION_CUSTOM,
        PartitionMethod.REBALANCE: Ship.PARTITION_FORCED_REBALANCE,
    }
    channel = PlanChannel(source, ships[node.method], node.key, partition=node)
    same = source.parallelism == context.parallelism
    if same and (context.parallelism == 1 or (source.spread == context.spread_of(channel) and node.key is not None)):
        channel = PlanChannel(source, Ship.FORWARD)
    return context.plan(
        DriverStrategy.NO_OP, [channel], spread=context.spread_of(channel), order=context.order_of(channel)
    )
