"""Where the contents of windows are: in objects of a fast logic, or in keyed state.

The fast logics of ``operators/window/spec.py`` keep their contents as plain objects; the general one keeps everything
in keyed state, and gives the same results. So it runs where state is in files, which hold more than memory does. It can start
from what a fast one has saved (``operators/window/spec.py``); the other way round is not possible, so windows that are
restored from the general logic's state go on with it, in all subtasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from funken.operators.base import OperatorSpec
from funken.operators.traits import traits_of
from funken.plan.nodes import Node
from funken.plan.physical import PhysicalPlan, RuleNote
from funken.plan.rules.base import Rewritten, Rule, RuleContext, with_nodes
from funken.windowing.windows import WINDOW_STATE

_NAME = "state backend"


def _apply(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
    notes: list[RuleNote] = []

    def choose(node: Node) -> Node:
        traits = traits_of(node.spec)
        if traits.logic is None or traits.in_keyed_state is None:
            return node
        reason = None
        if context.state_in_files:
            reason = "state is in files"
        elif plan.stable_ids[node.id] in context.restored_in_keyed_state:
            reason = "restored from keyed state"
        spec = node.spec if reason is None else traits.in_keyed_state()
        logic = traits_of(spec).logic
        notes.append(RuleNote(_NAME, f"{logic}, in keyed state: {reason}" if reason else f"{logic}", node.id))
        return replace(node, spec=spec)

    return with_nodes(plan, choose), notes


def in_keyed_state(spec: OperatorSpec) -> OperatorSpec:
    """Return an operator that keeps all that grows with its keys in keyed state."""
    make = traits_of(spec).in_keyed_state
    return spec if make is None else make()


def saved_in_keyed_state(restores: Iterable[tuple[str, Mapping[str, Any]]]) -> frozenset[str]:
    """Return the operators whose windows were saved by the general logic.

    ``restores`` has the stable id and the saved states, by name, of every subtask.

    >>> sorted(saved_in_keyed_state([("a", {}), ("a", {"_window.contents": ...}), ("b", {"_windows.panes": ...})]))
    ['a']
    """
    return frozenset(operator for operator, states in restores if any(name.startswith(WINDOW_STATE) for name in states))


RULE = Rule(_NAME, _apply)
