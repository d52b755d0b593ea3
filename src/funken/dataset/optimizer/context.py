"""What the alternatives of an operator depend on, and how a plan of one is priced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from funken.dataset.optimizer import costs
from funken.dataset.optimizer.costs import FREE, Costs
from funken.dataset.optimizer.estimates import Estimates
from funken.dataset.optimizer.interests import Interests
from funken.dataset.optimizer.physical import PhysicalNode, PlanChannel
from funken.dataset.optimizer.properties import GlobalProperties, LocalOrder, Spread, ascending
from funken.dataset.optimizer.strategies import DriverStrategy, Local, Ship
from funken.dataset.plan.keys import Key, Ordering
from funken.dataset.plan.nodes import Node


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
        driver: DriverStrategy,
        inputs: Sequence[PlanChannel],
        work: Costs = FREE,
        spread: GlobalProperties | None = None,
        order: LocalOrder = LocalOrder(),  # noqa: B008 - immutable
        **fields: Any,
    ) -> PhysicalNode:
        """Make a plan; the costs are those of its channels and ``work``, times the number of supersteps."""
        single = GlobalProperties(Spread.SINGLE) if self.parallelism == 1 else None
        own = work * self.weights.weight_of(self.node)
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
        return found * self.weights.weight_of(channel.source.node)

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
        """Return how records lie behind a channel."""
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
