"""Loops of a plan: which vertices are in one, and how what they feed back is spread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from funken.errors import InvalidProgram
from funken.ids import OperatorId
from funken.operators.traits import traits_of
from funken.plan.nodes import Broadcast, Forward, Node, NodeInput, Rebalance


def components(arcs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return the loop that each vertex of a graph is in: its strongly connected component, if there is a cycle in it.

    >>> components([(0, 1), (1, 2), (2, 1), (2, 3)])
    {1: 1, 2: 1}
    """
    after: dict[int, set[int]] = {}
    for source, target in arcs:
        after.setdefault(source, set()).add(target)
    reached = {vertex: _reached(vertex, after) for vertex in after}
    return {v: min(w for w in found if v in reached.get(w, ())) for v, found in sorted(reached.items()) if v in found}


def _reached(vertex: int, after: Mapping[int, set[int]]) -> set[int]:
    """Return what can be reached from a vertex by at least one arc."""
    found: set[int] = set()
    left = [vertex]
    while left:
        for following in after.get(left.pop(), set()) - found:
            found.add(following)
            left.append(following)
    return found


def check_closed(nodes: Iterable[Node]) -> None:
    """Raise ``InvalidProgram`` for a loop without a feedback edge."""
    for node in nodes:
        if traits_of(node.spec).loop_head and not node.feedback:
            raise InvalidProgram(
                f"operator {node.name!r} begins a loop that was never closed: call close_with(feedback) on the stream that "
                "iterate() returned, with what is to enter the loop again."
            )


def resolved_feedback(node: Node, nodes: Mapping[OperatorId, Node]) -> tuple[NodeInput, ...]:
    """Fill in how the records of the feedback edges of a head are spread."""
    found = []
    for given in node.feedback:
        tail, how = nodes[given.upstream], given.partitioning
        same = tail.parallelism == node.parallelism
        if isinstance(how, Broadcast):
            raise InvalidProgram(
                f"the loop of {node.name!r} is closed by broadcast(): copies that are on their way could not be told apart "
                "when it goes on with another parallelism. Close it with the stream itself, and broadcast() in the loop."
            )
        if isinstance(how, Forward) and not same:
            raise InvalidProgram(
                f"the loop of {node.name!r} (parallelism {node.parallelism}) is closed by forward() from {tail.name!r} "
                f"(parallelism {tail.parallelism}). Give both the same parallelism, or close it with rebalance()."
            )
        found.append(replace(given, partitioning=how or (Forward() if same else Rebalance())))
    return tuple(found)


__all__ = ["check_closed", "components", "resolved_feedback"]
