"""Which results are converted: those of operators with a declared type, which are wrapped in ``Converting``."""

from __future__ import annotations

from dataclasses import replace

from funken.operators.wrappers import Converting
from funken.plan.nodes import Node
from funken.plan.physical import PhysicalPlan, RuleNote
from funken.plan.rules.base import Rewritten, Rule, RuleContext, with_nodes

_NAME = "declared types"


def _apply(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
    notes: list[RuleNote] = []

    def convert(node: Node) -> Node:
        if not node.declares_types:
            return node
        outputs = [] if node.output_type is None else [f"results to {node.output_type!r}"]
        outputs += [f"side output {tag!r} to {type_info!r}" for tag, type_info in node.side_types]
        notes.append(RuleNote(_NAME, f"converts {', '.join(outputs)}", node.id))
        return replace(node, spec=Converting(node.spec, node.output_type, node.side_types))

    return with_nodes(plan, convert), notes


RULE = Rule(_NAME, _apply)
