"""The alternatives of one operator over given plans of its inputs: ship strategies, local strategies, drivers, costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from funken.dataset.optimizer import costs
from funken.dataset.optimizer.costs import FREE, Costs
from funken.dataset.optimizer.estimates import Estimates
from funken.dataset.optimizer.interests import Interests
from funken.dataset.optimizer.joins import co_groups, crosses, joins
from funken.dataset.optimizer.physical import Channel, PhysicalNode
from funken.dataset.optimizer.properties import Global, LocalOrder, Spread, ascending
from funken.dataset.optimizer.strategies import Driver, Local, Ship
from funken.dataset.plan import nodes
from funken.dataset.plan.keys import Key, Ordering
from funken.dataset.plan.nodes import CombineHint, Kind, Node, PartitionMethod, Statistics
from funken.errors import InvalidProgram


class Weights(Protocol):
    """How often a node is computed: once, or once per superstep."""

    weight: float

    def weight_of(self, node: Node) -> float:
        """Return the expected number of times."""
        ...


@dataclass(frozen=True)
class Context:
    """What the alternatives of one operator depend on, beside its inputs."""

    node: Node
    parallelism: int
    estimates: Estimates
    interests: Interests
    weights: Weights

    def plan(
        self,
        driver: Driver,
        inputs: Sequence[Channel],
        work: Costs = FREE,
        spread: Global | None = None,
        order: LocalOrder = LocalOrder(),  # noqa: B008 - immutable
        **fields: Any,
    ) -> PhysicalNode:
        """Make a plan; the costs are those of its channels and ``work``, times the number of supersteps."""
        single = Global(Spread.SINGLE) if self.parallelism == 1 else None
        own = work * self.weights.weight_of(self.node)
        for channel in inputs:
            own += self.channel_costs(channel)
        return PhysicalNode(
            self.node,
            driver,
            tuple(inputs),
            parallelism=self.parallelism,
            spread=single or spread or Global(),
            order=order,
            own_costs=own,
            estimate=self.estimates.of(self.node),
            **fields,
        )

    def channel_costs(self, channel: Channel) -> Costs:
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
        return found * self.weights.weight_of(channel.source.node)

    def ship(self, source: PhysicalNode, key: Key | None = None) -> Channel:
        """Return the cheapest channel that brings equal keys together; without a key, any."""
        if source.parallelism == self.parallelism and (
            self.parallelism == 1 or key is None or source.spread.keeps_together(key)
        ):
            return Channel(source, Ship.FORWARD)
        if key is None or self.parallelism == 1:
            return Channel(source, Ship.PARTITION_RANDOM)
        return Channel(source, Ship.PARTITION_HASH, key)

    def spread_of(self, channel: Channel) -> Global:
        """Return how records lie behind a channel."""
        match channel.ship:
            case Ship.FORWARD:
                return channel.source.spread
            case Ship.PARTITION_HASH:
                return Global(Spread.HASH, channel.key)
            case Ship.PARTITION_RANGE:
                return Global(Spread.RANGE, channel.key)
            case Ship.PARTITION_CUSTOM:
                return Global(Spread.CUSTOM, channel.key, channel.partition.partitioner.target)
            case Ship.BROADCAST:
                return Global(Spread.REPLICATED)
        return Global()

    def order_of(self, channel: Channel) -> LocalOrder:
        """Return the order of the records of a task behind a channel."""
        if channel.local is not Local.NONE:
            key = channel.sort_key
            if key is not None and not key.transparent:
                return LocalOrder(grouped=key)
            return LocalOrder((*(ascending(key) if key else ()), *channel.ordering))
        return channel.source.order if channel.ship is Ship.FORWARD else LocalOrder()

    def sorted(self, channel: Channel, key: Key | None, ordering: Ordering = (), combining: bool = False) -> Channel:
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
        case nodes.Source():
            yield context.plan(Driver.SOURCE, ())
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
                yield context.plan(Driver.ALL_GROUP_COMBINE, [channel])
            else:
                channel = context.sorted(channel, node.key, node.ordering)
                yield context.plan(Driver.SORTED_GROUP_COMBINE, [channel])
        case nodes.Join():
            yield from joins(context, node, inputs)
        case nodes.CoGroup():
            yield from co_groups(context, node, inputs)
        case nodes.Cross():
            yield from crosses(context, node, inputs)
        case nodes.Union():
            channels = [context.ship(source) for source in inputs]
            spreads = {context.spread_of(channel) for channel in channels}
            yield context.plan(Driver.UNION, channels, spread=spreads.pop() if len(spreads) == 1 else None)
            for key in context.interests.of(node):
                if context.parallelism > 1 and key.transparent:
                    channels = [_exactly(context, source, key) for source in inputs]
                    yield context.plan(Driver.UNION, channels, spread=Global(Spread.HASH, key))
        case nodes.Partition():
            yield _partition(context, node, inputs[0])
        case nodes.SortPartition():
            channel = context.sorted(context.ship(inputs[0]), None, node.ordering)
            yield context.plan(
                Driver.NO_OP, [channel], spread=context.spread_of(channel), order=context.order_of(channel)
            )
        case nodes.Sink():
            channel = context.ship(inputs[0])
            if node.ordering:
                channel = context.sorted(channel, None, node.ordering)
            yield context.plan(Driver.SINK, [channel])
        case nodes.Placeholder():
            raise InvalidProgram(
                f"the {node.role.value} of an iteration is read outside of its step. Read what close_with() returned instead."
            )
        case _:
            raise NotImplementedError(type(node).__name__)


def _exactly(context: Context, source: PhysicalNode, key: Key) -> Channel:
    if source.parallelism == context.parallelism and source.spread == Global(Spread.HASH, key):
        return Channel(source, Ship.FORWARD)
    return Channel(source, Ship.PARTITION_HASH, key)


_APPLY = {
    Kind.MAP: Driver.MAP,
    Kind.FLAT_MAP: Driver.FLAT_MAP,
    Kind.FILTER: Driver.FILTER,
    Kind.MAP_PARTITION: Driver.MAP_PARTITION,
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


def _combiner(context: Context, node: Node, source: PhysicalNode, driver: Driver, channel: Channel) -> PhysicalNode:
    """Return the half of an operator that runs where its input is."""
    given = source.estimate
    reduced = context.estimates.of(node)
    records = None if reduced.records is None else reduced.records * source.parallelism
    size = None if reduced.size is None else reduced.size * source.parallelism
    if given.size is not None and size is not None and size > given.size:
        records, size = given.records, given.size
    before = replace(context, parallelism=source.parallelism)
    work = costs.hash_aggregation(given.size) if driver is Driver.HASHED_PARTIAL_REDUCE else FREE
    made = before.plan(driver, [channel], work, combiner=True)
    return replace(made, estimate=Statistics(records, size), dynamic=source.dynamic)


def _all(context: Context, node: nodes.Reduce | nodes.GroupReduce, source: PhysicalNode) -> Iterator[PhysicalNode]:
    reduce = isinstance(node, nodes.Reduce)
    if source.parallelism > 1 and (isinstance(node, nodes.Reduce) or node.combiner is not None):
        driver = Driver.ALL_REDUCE if reduce else Driver.ALL_GROUP_COMBINE
        source = _combiner(context, node, source, driver, Channel(source, Ship.FORWARD))
    driver = Driver.ALL_REDUCE if reduce else Driver.ALL_GROUP_REDUCE
    yield context.plan(driver, [context.ship(source)])


def _reduce(context: Context, node: nodes.Reduce, source: PhysicalNode) -> Iterator[PhysicalNode]:
    assert node.key is not None
    for choice in _reduce_channels(context, node, source):
        spread = context.spread_of(choice)
        spread = spread if spread.key is not None and spread.keeps_together(node.key) else Global()
        ordered = context.sorted(choice, node.key)
        if ordered.local is Local.NONE:
            yield context.plan(
                Driver.SORTED_REDUCE, [ordered], spread=spread, order=context.order_of(ordered).after(node.forwarded)
            )
            continue
        if node.hint is not CombineHint.SORT:
            yield context.plan(
                Driver.HASHED_REDUCE, [choice], costs.hash_aggregation(choice.source.estimate.size), spread=spread
            )
        if node.hint is not CombineHint.HASH:
            ordered = replace(ordered, local=Local.COMBININGSORT)
            order = context.order_of(ordered)
            yield context.plan(Driver.SORTED_REDUCE, [ordered], spread=spread, order=order)


def _reduce_channels(context: Context, node: nodes.Reduce, source: PhysicalNode) -> Iterator[Channel]:
    assert node.key is not None
    channel = context.ship(source, node.key)
    if channel.ship is Ship.FORWARD or node.hint is CombineHint.NONE:
        yield channel
    else:
        here = Channel(source, Ship.FORWARD)
        driver = Driver.HASHED_PARTIAL_REDUCE
        if node.hint is CombineHint.SORT:
            driver = Driver.SORTED_PARTIAL_REDUCE
            here = replace(here, local=Local.COMBININGSORT, sort_key=node.key)
        yield context.ship(_combiner(context, node, source, driver, here), node.key)


def _group_reduce(context: Context, node: nodes.GroupReduce, source: PhysicalNode) -> Iterator[PhysicalNode]:
    assert node.key is not None
    channel = context.ship(source, node.key)
    combinable = node.combiner is not None
    if channel.ship is not Ship.FORWARD and combinable:
        here = replace(Channel(source, Ship.FORWARD), local=Local.SORT, sort_key=node.key, ordering=node.ordering)
        channel = context.ship(_combiner(context, node, source, Driver.SORTED_GROUP_COMBINE, here), node.key)
    channel = context.sorted(channel, node.key, node.ordering, combinable)
    yield context.plan(
        Driver.SORTED_GROUP_REDUCE,
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
    channel = Channel(source, ships[node.method], node.key, partition=node)
    same = source.parallelism == context.parallelism
    if same and (context.parallelism == 1 or (source.spread == context.spread_of(channel) and node.key is not None)):
        channel = Channel(source, Ship.FORWARD)
    return context.plan(Driver.NO_OP, [channel], spread=context.spread_of(channel), order=context.order_of(channel))
