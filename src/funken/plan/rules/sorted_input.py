"""BATCH: in which order operators on keyed streams get their records.

An operator that sees the order gets key after key, each in the order of time: its spec is wrapped in ``SortedInput``.
"""

from __future__ import annotations

from dataclasses import replace

from funken.errors import InvalidProgram
from funken.operators.traits import BatchInput, traits_of
from funken.operators.wrappers import SortedInput
from funken.plan.nodes import Node
from funken.plan.physical import PhysicalPlan, RuleNote
from funken.plan.rules.base import Rewritten, Rule, RuleContext, with_nodes

_NAME = "batch order"


def _apply(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
    notes: list[RuleNote] = []

    def sort(node: Node) -> Node:
        traits = traits_of(node.spec)
        if not (node.keyed or traits.keys):
            return node
        order = traits.batch_input
        sorts = order is not BatchInput.ANY_ORDER
        if sorts and not traits.keys:
            raise InvalidProgram(
                f"operator {node.name!r} ({type(node.spec).__name__}) is on a keyed stream, but its spec declares no keys, which "
                "BATCH sorts by. Declare them in its traits (OperatorTraits.keys), or use STREAMING."
            )
        records = ", as single records" if sorts and traits.columnar else ""
        notes.append(RuleNote(_NAME, order.value + records, node.id))
        return replace(node, spec=SortedInput(node.spec)) if sorts else node

    return (with_nodes(plan, sort), notes) if context.batch else (plan, notes)


RULE = Rule(_NAME, _apply)
