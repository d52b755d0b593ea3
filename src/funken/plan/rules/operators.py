"""Rules that decide about each operator by itself, and replace its spec.

* *errors*: operators handle records whose function raises: those that ``on_error()`` names, and the others by the job's default.
  Their specs call the function record by record under the policy, before a rule looks for columns or loops. A default applies
  where it can; a policy of an operator that cannot have one was refused when it was set.
* *state backend*: the fast logics of ``operators/window/spec.py`` keep the contents of windows as plain objects; the general one
  keeps everything in keyed state, and gives the same results. So it runs where state is in files, which hold more than memory
  does. It can start from what a fast one has saved; the other way round is not possible, so windows that are restored from the
  general logic's state go on with it, in all subtasks.
* *declared types*: results of operators with a declared type are converted.
* *batch order*: an operator that sees the order of its records gets key after key in BATCH, each in the order of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from funken.errors import InvalidProgram
from funken.operators.base import OperatorSpec
from funken.operators.process.one_input import ErrorPolicy
from funken.operators.user_functions import BatchInput, traits_of
from funken.operators.wrappers import Converting, SortedInput
from funken.plan.nodes import Node
from funken.plan.physical import PhysicalPlan, RuleNote
from funken.plan.rules.base import Rewritten, Rule, RuleContext, with_nodes
from funken.windowing.windows import WINDOW_STATE

Decision = tuple[Node, str]
"""An operator, and the note on the decision; no text: there was none."""


def _rule(name: str, decide: Callable[[Node, PhysicalPlan, RuleContext], Decision]) -> Rule:
    """Return a rule that is asked for every operator."""

    def apply(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
        notes: list[RuleNote] = []

        def rewrite(node: Node) -> Node:
            node, note = decide(node, plan, context)
            if note:
                notes.append(RuleNote(name, note, node.id))
            return node

        return with_nodes(plan, rewrite), notes

    return Rule(name, apply)


def _guarded(node: Node, plan: PhysicalPlan, context: RuleContext) -> Decision:
    policy = node.on_error or (None if context.on_error == "fail" else ErrorPolicy.of(context.on_error))
    catching = traits_of(node.spec).catching
    if policy is None or policy.fails or catching is None:
        return node, ""
    where = "are skipped and counted" if policy.side_output is None else f"go to side output {policy.side_output!r}"
    return replace(node, spec=catching(), on_error=policy), f"records whose function raises {where}"


def _with_state(node: Node, plan: PhysicalPlan, context: RuleContext) -> Decision:
    traits = traits_of(node.spec)
    if traits.logic is None or traits.in_keyed_state is None:
        return node, ""
    reason = "state is in files" if context.state_in_files else ""
    if not reason and plan.stable_ids[node.id] in context.restored_in_keyed_state:
        reason = "restored from keyed state"
    spec = traits.in_keyed_state() if reason else node.spec
    return replace(node, spec=spec), f"{traits_of(spec).logic}{f', in keyed state: {reason}' if reason else ''}"


def _converted(node: Node, plan: PhysicalPlan, context: RuleContext) -> Decision:
    if not node.declares_types:
        return node, ""
    outputs = [] if node.output_type is None else [f"results to {node.output_type!r}"]
    outputs += [f"side output {tag!r} to {type_info!r}" for tag, type_info in node.side_types]
    spec = Converting(node.spec, node.output_type, node.side_types)
    return replace(node, spec=spec), f"converts {', '.join(outputs)}"


def _sorted(node: Node, plan: PhysicalPlan, context: RuleContext) -> Decision:
    traits = traits_of(node.spec)
    if not context.batch or not (node.keyed or traits.keys):
        return node, ""
    order = traits.batch_input
    if order is BatchInput.ANY_ORDER:
        return node, order.value
    if not traits.keys:
        raise InvalidProgram(
            f"operator {node.name!r} ({type(node.spec).__name__}) is on a keyed stream, but its spec declares no keys, which "
            "BATCH sorts by. Declare them in its traits (OperatorTraits.keys), or use STREAMING."
        )
    return replace(node, spec=SortedInput(node.spec)), order.value + (", as single records" if traits.columnar else "")


ERRORS = _rule("errors", _guarded)
STATE_BACKEND = _rule("state backend", _with_state)
DECLARED_TYPES = _rule("declared types", _converted)
BATCH_ORDER = _rule("batch order", _sorted)


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
