"""Which operators share a vertex: one input, forward, the same parallelism, and neither side objects (Flink's rule)."""

from __future__ import annotations

from dataclasses import replace

from funken import config
from funken.ids import OperatorId
from funken.plan.nodes import Chaining, Forward, Node
from funken.plan.physical import PhysicalPlan, RuleNote, plan_of_chains
from funken.plan.rules.base import Rewritten, Rule, RuleContext

_NAME = "chaining"


def _apply(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
    if not context.chaining:
        return plan, [RuleNote(_NAME, f"off: {config.CHAINING.key} is false")]
    nodes = {node.id: node for node in plan.nodes}
    chain_of: dict[OperatorId, list[Node]] = {}
    chains: list[list[Node]] = []
    notes: list[RuleNote] = []
    for node in nodes.values():
        forward = [given for given in node.inputs if isinstance(given.partitioning, Forward)]
        if forward:
            objection = _objection(node, nodes[forward[0].upstream])
            if objection is None:
                chain = chain_of[node.id] = chain_of[forward[0].upstream]
                chain.append(node)
                continue
            notes.append(RuleNote(_NAME, f"not chained: {objection}", node.id))
        chain_of[node.id] = [node]
        chains.append(chain_of[node.id])
    joined = plan_of_chains(plan.name, chains, plan.stable_ids)
    return replace(plan, vertices=joined.vertices, edges=joined.edges, widths=joined.widths), notes


def _objection(node: Node, upstream: Node) -> str | None:
    """Return why a node is not chained to the one it reads by a forward edge; ``None``: it is."""
    if len(node.inputs) > 1:
        return "has several inputs"
    if node.feedback:
        return "is the head of a loop"
    if node.chaining is Chaining.HEAD:
        return "start_new_chain()"
    if node.chaining is Chaining.NEVER:
        return "disable_chaining()"
    if upstream.chaining is Chaining.NEVER:
        return f"disable_chaining() of {upstream.name!r}"
    if upstream.slot_sharing_group != node.slot_sharing_group:
        return f"slot sharing group {node.slot_sharing_group!r}, {upstream.name!r} has {upstream.slot_sharing_group!r}"
    if upstream.max_parallelism != node.max_parallelism:
        return f"max parallelism {node.max_parallelism}, {upstream.name!r} has {upstream.max_parallelism}"
    return None


RULE = Rule(_NAME, _apply)
