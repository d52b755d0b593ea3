"""The alternatives of one operator over given plans of its inputs: ship strategies, local strategies, drivers, costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from funken.dataset.optimizer import costs
from funken.dataset.optimizer.context import Context
from funken.dataset.optimizer.costs import FREE
from funken.dataset.optimizer.joins import co_groups, crosses, joins
from funken.dataset.optimizer.physical import PhysicalNode, PlanChannel
from funken.dataset.optimizer.properties import GlobalProperties, Spread
from funken.dataset.optimizer.strategies import DriverStrategy, Local, Ship
from funken.dataset.plan import nodes
from funken.dataset.plan.keys import Key
from funken.dataset.plan.nodes import CombineHint, Kind, Node, PartitionMethod, Statistics
from funken.errors import InvalidProgram


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
                f"the {node.role.value} of an iteration is read outside of its step. Read what close_with() returned instead."
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
