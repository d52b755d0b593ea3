"""Placement: the operators of a vertex (a chain), the operators of a generated loop, and the subtasks of one worker."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from types import BuiltinFunctionType
from typing import Any

from funken import config
from funken.columnar.expressions import Expression, Invoke, NotVectorizable
from funken.columnar.flat_maps import trace_flat_map
from funken.columnar.tracing import trace
from funken.expr.python.table import TABLE
from funken.ids import OperatorId
from funken.operators.codegen import OuterVariables, expression_of
from funken.operators.user_functions import LoopCall, OperatorTraits, UserFunction, traits_of
from funken.plan.nodes import Chaining, Custom, Forward, Hash, Node
from funken.plan.physical import Edge, FusedRun, PhysicalPlan, RuleNote, Vertex, plan_of_chains
from funken.plan.rules.base import Rewritten, Rule, RuleContext

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
            partitioning = edges[run.edge].partitioning
            assert isinstance(partitioning, Hash)
            parts.append(_part_of_loop(LoopCall(partitioning.key, label="key_by"), nodes[run.operators[-1]], context))
        if len(parts) > 1 or _stands(calls[0][1], context):
            yield f"one loop: {' + '.join(parts)}"
    fused = {number for run in runs for number in run.operators}
    for node in vertex.nodes:
        traits = traits_of(node.spec)
        if node.id in fused or not traits.loop:
            continue
        if traits.fusable:
            yield f"no loop: {node.name}, its results are converted to a declared type"
        elif not context.batch and _has_loop(traits, context):
            yield f"one loop: {' + '.join(_part_of_loop(call, node, context) for call in traits.loop)}"


def _has_loop(traits: OperatorTraits, context: RuleContext) -> bool:
    found = [_stands(call, context) for call in traits.loop]
    return all(found) if traits.loop_if_read else any(found)


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
