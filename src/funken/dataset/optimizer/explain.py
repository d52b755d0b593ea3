"""A plan as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from funken.dataset.optimizer.optimizer import Plan
from funken.dataset.optimizer.physical import PhysicalNode, PlanChannel, everything, walk

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
    """Return an operator, its driver, its parallelism and what is expected of it."""
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
