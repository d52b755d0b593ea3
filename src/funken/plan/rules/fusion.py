"""Which operators of a vertex run as one loop: neighbours that map, filter and flat_map, and the key_by behind them.

The runtime reads here what to fuse (``runtime/chain/fused.py``), and ``explain()`` what to print; so they agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from funken.operators.codegen.inlining import expression_of
from funken.operators.rolling import RollingReduce
from funken.operators.stateless import Filter, FlatMap, Map
from funken.operators.user_functions import UserFunction
from funken.plan.nodes import Hash, Node
from funken.plan.physical import Edge, Vertex

FUSABLE = (Map, Filter, FlatMap)


@dataclass(frozen=True)
class FusedRun:
    """Nodes that are one loop, and the exchange whose key and appends are in it too."""

    nodes: tuple[Node, ...]
    edge: Edge | None = None


def fused_runs(vertex: Vertex, edges: Iterable[Edge]) -> list[FusedRun]:
    """Return the runs of a vertex; ``edges`` are those of the plan.

    A run goes on as long as each operator has exactly one reader; it may be a single operator.
    """
    leaving = [edge for edge in edges if edge.source == vertex.id]
    runs: list[FusedRun] = []
    taken: set[int] = set()
    for first in vertex.nodes:
        if first.id in taken or type(first.spec) not in FUSABLE:
            continue
        run = [first]
        while True:
            last = run[-1]
            children = [node for node in vertex.nodes if node.inputs and node.inputs[0].upstream == last.id]
            out = [edge for edge in leaving if edge.source_node == last.id]
            if len(children) != 1 or out or children[0].inputs[0].side or type(children[0].spec) not in FUSABLE:
                break
            run.append(children[0])
        tail = out[0] if not children and len(out) == 1 and out[0].side is None and _by_key(out[0]) else None
        runs.append(FusedRun(tuple(run), tail))
        taken.update(node.id for node in run)
    return runs


def _by_key(edge: Edge) -> bool:
    return not edge.local and isinstance(edge.partitioning, Hash)


def inlined(call: UserFunction, arguments: int = 1) -> bool:
    """Whether a function's body can stand in the loop instead of a call."""
    return expression_of(call.bind(), [f"value{position}" for position in range(arguments)]) is not None


def notes(vertex: Vertex, edges: Iterable[Edge]) -> list[str]:
    """Return what ``explain()`` prints about a vertex."""
    said = []
    for run in fused_runs(vertex, edges):
        parts = [(node.name, node.spec.function) for node in run.nodes]  # type: ignore[attr-defined]
        if run.edge is not None:
            assert isinstance(run.edge.partitioning, Hash)
            parts.append(("key_by", run.edge.partitioning.key))
        if len(parts) > 1 or inlined(parts[0][1]):
            text = " + ".join(_part(name, inlined(call)) for name, call in parts)
            said.append(f"one loop: {text}")
    for node in vertex.nodes:
        if type(node.spec) is RollingReduce and not node.spec.function.rich:
            keys, reduces = inlined(node.spec.key), inlined(node.spec.function, 2)
            if keys or reduces:
                said.append(f"one loop: {_part('key', keys)} + {_part(node.name, reduces)}")
    return said


def _part(name: str, read: bool) -> str:
    return f"{name} (inlined)" if read else name
