"""Which operators handle records whose function raises: those that ``on_error()`` names, and the others by the job's default.

Their specs are replaced by ones that call the function record by record under the policy, before a rule looks for columns or
loops. A default applies where it can; a policy of an operator that cannot have one was refused when it was set.
"""

from __future__ import annotations

from dataclasses import replace

from funken.operators.process.one_input import ErrorPolicy
from funken.operators.traits import traits_of
from funken.plan.nodes import Node
from funken.plan.physical import PhysicalPlan, RuleNote
from funken.plan.rules.base import Rewritten, Rule, RuleContext, with_nodes

_NAME = "errors"


def _apply(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
    default = None if context.on_error == "fail" else ErrorPolicy.of(context.on_error)
    notes: list[RuleNote] = []

    def guard(node: Node) -> Node:
        policy = node.on_error or default
        catching = traits_of(node.spec).catching
        if policy is None or policy.fails or catching is None:
            return node
        where = "are skipped and counted" if policy.side_output is None else f"go to side output {policy.side_output!r}"
        notes.append(RuleNote(_NAME, f"records whose function raises {where}", node.id))
        return replace(node, spec=catching(), on_error=policy)

    return with_nodes(plan, guard), notes


RULE = Rule(_NAME, _apply)
