"""Which operators of a vertex run as one loop: neighbours that map, filter and flat_map, and the key_by behind them.

``runtime/chain/fused.py`` generates the loops. Operators with a declared type, whose results are converted a block at a time,
are not fused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from funken.operators.codegen.inlining import OuterVariables, expression_of
from funken.operators.traits import LoopCall, OperatorTraits, traits_of
from funken.operators.user_functions import UserFunction
from funken.plan.nodes import Hash, Node
from funken.plan.physical import Edge, FusedRun, PhysicalPlan, RuleNote, Vertex
from funken.plan.rules.base import Rewritten, Rule, RuleContext

_NAME = "fusion"


def _apply(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
    notes: list[RuleNote] = []
    vertices = []
    for vertex in plan.vertices:
        leaving = [edge for edge in plan.edges if edge.source == vertex.id]
        runs = fused_runs(vertex, leaving)
        vertices.append(replace(vertex, fused=tuple(runs)))
        notes += [RuleNote(_NAME, text, vertex=vertex.id) for text in _notes(vertex, runs, plan.edges, context)]
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
    """Whether a function's body can stand in the loop instead of a call."""
    return (
        expression_of(call.bind(), [f"value{position}" for position in range(arguments)], OuterVariables()) is not None
    )


def _notes(vertex: Vertex, runs: list[FusedRun], edges: tuple[Edge, ...], context: RuleContext) -> Iterable[str]:
    nodes = {node.id: node for node in vertex.nodes}
    for run in runs:
        calls = [(nodes[number], call) for number in run.operators for call in traits_of(nodes[number].spec).loop]
        parts = [_part(call, node, context) for node, call in calls]
        if run.edge is not None:
            partitioning = edges[run.edge].partitioning
            assert isinstance(partitioning, Hash)
            parts.append(_part(LoopCall(partitioning.key, label="key_by"), nodes[run.operators[-1]], context))
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
            yield f"one loop: {' + '.join(_part(call, node, context) for call in traits.loop)}"


def _has_loop(traits: OperatorTraits, context: RuleContext) -> bool:
    found = [_stands(call, context) for call in traits.loop]
    return all(found) if traits.loop_if_read else any(found)


def _stands(call: LoopCall, context: RuleContext) -> bool:
    return context.inlining and inlined(call.function, call.arguments)


def _part(call: LoopCall, node: Node, context: RuleContext) -> str:
    name = call.label or node.name
    return f"{name} (inlined)" if _stands(call, context) else name


RULE = Rule(_NAME, _apply)
