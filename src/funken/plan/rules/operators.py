"""Rules about operators: which share a vertex, a loop or a worker, and those that replace the spec of each by itself.

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

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from types import BuiltinFunctionType
from typing import Any

from funken import config
from funken.columnar.expressions import Expression, Invoke, NotVectorizable
from funken.columnar.flat_maps import trace_flat_map
from funken.columnar.tracing import trace
from funken.errors import InvalidProgram
from funken.expr.python.table import TABLE
from funken.ids import OperatorId
from funken.operators.base import OperatorSpec
from funken.operators.codegen import OuterVariables, expression_of
from funken.operators.process.one_input import ErrorPolicy
from funken.operators.user_functions import BatchInput, LoopCall, UserFunction, traits_of
from funken.operators.wrappers import Converting, SortedInput
from funken.plan.nodes import Chaining, Custom, Forward, Hash, Node
from funken.plan.physical import (
    Edge,
    FusedRun,
    PhysicalPlan,
    Rewritten,
    Rule,
    RuleContext,
    RuleNote,
    Vertex,
    plan_of_chains,
    with_nodes,
)
from funken.windowing.windows import WINDOW_STATE

# ---- Which operators share a vertex: one input, forward, the same parallelism, and neither side objects (Flink's rule).


def _chain(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
    if not context.chaining:
        return plan, [RuleNote("chaining", f"off: {config.CHAINING.key} is false")]
    nodes = {node.id: node for node in plan.nodes}
    chain_of: dict[OperatorId, list[Node]] = {}
    chains: list[list[Node]] = []
    notes: list[RuleNote] = []
    for node in nodes.values():
        forward = [given for given in node.inputs if isinstance(given.partitioning, Forward)]
        if forward:
            objection = _why_unchained(node, nodes[forward[0].upstream])
            if objection is None:
                chain = chain_of[node.id] = chain_of[forward[0].upstream]
                chain.append(node)
                continue
            notes.append(RuleNote("chaining", f"not chained: {objection}", node.id))
        chain_of[node.id] = [node]
        chains.append(chain_of[node.id])
    joined = plan_of_chains(plan.name, chains, plan.stable_ids)
    return replace(plan, vertices=joined.vertices, edges=joined.edges, widths=joined.widths), notes


def _why_unchained(node: Node, upstream: Node) -> str | None:
    """Return the reason against chaining a node to its input by a forward edge; ``None``: it is chained."""
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


CHAINING = Rule("chaining", _chain)


# ---- Which operators of a vertex run as one loop: neighbours that map, filter and flat_map, and the key_by behind them.
#
# ``runtime/chain/fused.py`` generates the loops. Operators with a declared type, whose results are converted a block at a time,
# are not fused.


def _fuse(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
    notes: list[RuleNote] = []
    vertices = []
    for vertex in plan.vertices:
        leaving = [edge for edge in plan.edges if edge.source == vertex.id]
        runs = fused_runs(vertex, leaving)
        vertices.append(replace(vertex, fused=tuple(runs)))
        notes += [RuleNote("fusion", text, vertex=vertex.id) for text in _loop_notes(vertex, runs, plan.edges, context)]
    return replace(plan, vertices=tuple(vertices)), notes


def fused_runs(vertex: Vertex, leaving: Iterable[Edge]) -> list[FusedRun]:
    """Return the runs of a vertex, which the edges ``leaving`` leave.

    A run goes on as long as each operator has exactly one reader; it may be a single operator.
    """
    edges = list(leaving)
    runs: list[FusedRun] = []
    taken: set[int] = set()
    for first in vertex.nodes:
        if first.id in taken or not _fusable(first):
            continue
        run = [first]
        while True:
            last = run[-1]
            readers = [node for node in vertex.nodes if node.inputs and node.inputs[0].upstream == last.id]
            out = [edge for edge in edges if edge.source_node == last.id]
            if len(readers) != 1 or out or readers[0].inputs[0].side or not _fusable(readers[0]):
                break
            run.append(readers[0])
        by_key = not readers and len(out) == 1 and out[0].side is None and _by_key(out[0])
        runs.append(FusedRun(tuple(node.id for node in run), out[0].id if by_key else None))
        taken.update(node.id for node in run)
    return runs


def _fusable(node: Node) -> bool:
    return traits_of(node.spec).fusable and not node.declares_types


def _by_key(edge: Edge) -> bool:
    return not edge.local and isinstance(edge.partitioning, Hash)


def inlined(call: UserFunction, arguments: int = 1) -> bool:
    """Return True if a function's body can stand in the loop instead of a call."""
    return (
        expression_of(call.bind(), [f"value{position}" for position in range(arguments)], OuterVariables()) is not None
    )


def _loop_notes(vertex: Vertex, runs: list[FusedRun], edges: tuple[Edge, ...], context: RuleContext) -> Iterable[str]:
    nodes = {node.id: node for node in vertex.nodes}
    for run in runs:
        calls = [(nodes[number], call) for number in run.operators for call in traits_of(nodes[number].spec).loop]
        parts = [_part_of_loop(call, node, context) for node, call in calls]
        if run.edge is not None:
            parts.append(_part_of_loop(_key_by(edges[run.edge]), nodes[run.operators[-1]], context))
        if len(parts) > 1 or _stands(calls[0][1], context):
            yield f"one loop: {' + '.join(parts)}"
    fused = {number for run in runs for number in run.operators}
    for node in vertex.nodes:
        traits = traits_of(node.spec)
        if node.id in fused or not traits.loop:
            continue
        if traits.fusable:
            yield f"no loop: {node.name}, its results are converted to a declared type"
        elif not context.batch and any(_stands(call, context) for call in traits.loop):
            yield f"one loop: {' + '.join(_part_of_loop(call, node, context) for call in traits.loop)}"
    written = {run.edge for run in runs}
    own = [
        edge for edge in edges if edge.source == vertex.id and edge.id not in written and edge.partitioning.form is None
    ]
    for edge in filter(_by_key, own):
        if _stands(_key_by(edge), context):
            yield f"one loop: {_part_of_loop(_key_by(edge), nodes[edge.source_node], context)}"


def _key_by(edge: Edge) -> LoopCall:
    assert isinstance(edge.partitioning, Hash)
    return LoopCall(edge.partitioning.key, label="key_by")


def _stands(call: LoopCall, context: RuleContext) -> bool:
    return context.inlining and inlined(call.function, call.arguments)


def _part_of_loop(call: LoopCall, node: Node, context: RuleContext) -> str:
    name = call.label or node.name
    return f"{name} (inlined)" if _stands(call, context) else name


FUSION = Rule("fusion", _fuse)


# ---- How many subtasks of a stage share a worker, and the one thread of it that calls functions.
#
# More workers than cores take caches and cores from each other: with 16 subtasks on two cores a record costs 2.9 times
# as much as with 2, and 1.2 times if two workers share them (decision 0053). But a function that waits makes the other
# subtasks of its worker wait, and waiting at the same time is why many jobs have more subtasks than cores. So, unless
# told how many, subtasks share workers only where nothing in their stage can wait: every function of it can be read to
# its end, and does nothing but compute.


_GETTERS = (operator.itemgetter, operator.attrgetter)
_METHODS = {row.method for row in TABLE if row.method} | {"get", "_asdict", "as_dict"}


def waits(call: UserFunction, arguments: int = 1) -> str | None:
    """Return the reason for which a function may wait, as far as it is known; ``None``: it only computes.

    >>> waits(UserFunction(lambda pair: (pair[0].lower(), 1)))
    >>> waits(UserFunction(lambda line: print(line)))
    'calls print()'
    >>> waits(UserFunction(lambda order: order.customer.load()))
    'calls the method load()'
    """
    target = call.target
    if call.method is None and (type(target) in _GETTERS or _of_operator(target)):
        return None
    try:
        found: Any = trace(target, call.method, arguments)
    except NotVectorizable as reason:
        if arguments != 1:
            return str(reason)
        try:
            found = trace_flat_map(target, call.method)
        except NotVectorizable:
            return str(reason)
    names = {each.name for each in _expressions(found) if isinstance(each, Invoke)}
    unknown = sorted(name[1:] for name in names if name.startswith(".") and name[1:] not in _METHODS)
    return f"calls the method {unknown[0]}()" if unknown else None


def _of_operator(target: Any) -> bool:
    """Return True if an object is a function of the module ``operator``."""
    return type(target) is BuiltinFunctionType and target.__module__ == operator.add.__module__


def _expressions(found: Any) -> Iterator[Expression]:
    """Yield the expressions in a traced function."""
    if isinstance(found, Expression):
        yield found
    parts = [getattr(found, each.name) for each in fields(found)] if is_dataclass(found) else found
    if isinstance(parts, list | tuple):
        for part in parts:
            yield from _expressions(part)


def _share_workers(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
    given, cores = context.subtasks_per_worker, context.cores
    if given is not None or cores is None:
        return replace(plan, subtasks_per_worker=(given or 1,) * len(plan.widths)), []
    shared, notes = [], []
    for stage, width in enumerate(plan.widths):
        most = -(-width // cores)
        reason = _why_alone(plan, stage) if most > 1 else None
        shared.append(1 if reason else most)
        if most > 1:
            text = f"one for each subtask: {reason}" if reason else f"{-(-width // most)}: nothing in this stage waits"
            notes.append(RuleNote("workers", text, vertex=plan.at(stage)[0].id))
    return replace(plan, subtasks_per_worker=tuple(shared)), notes


def _why_alone(plan: PhysicalPlan, stage: int) -> str | None:
    """Return the reason for which a stage may wait."""
    for vertex in plan.at(stage):
        for node in vertex.nodes:
            calls = traits_of(node.spec).calls
            if calls is None:
                return f"{node.name!r} may wait"
            for call in calls:
                reason = waits(call.function, call.arguments)
                if reason is not None:
                    return f"{_named_call(call, node)} {reason}"
    for edge in plan.edges:
        if edge.source_stage == stage and isinstance(edge.partitioning, Hash | Custom):
            partitioning = edge.partitioning
            reason = waits(partitioning.key)
            if reason is None and isinstance(partitioning, Custom):
                reason = waits(partitioning.partitioner, 2)
            if reason is not None:
                return f"the key behind {next(n.name for n in plan.nodes if n.id == edge.source_node)!r} {reason}"
    return None


def _named_call(call: LoopCall, node: Node) -> str:
    return repr(node.name) if call.label is None else f"{call.label} of {node.name!r}"


WORKERS = Rule("workers", _share_workers)


# ---- Rules that decide about each operator by itself.


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
