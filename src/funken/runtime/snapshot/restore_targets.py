"""What a plan looks like to a checkpoint: its operators, how wide they are, and which of them read from which."""

from __future__ import annotations

from funken.checkpoint.restore import RestoreTarget
from funken.plan.physical import PhysicalPlan


def restore_targets(plan: PhysicalPlan) -> tuple[RestoreTarget, ...]:
    """Return the operators of a plan, in topological order."""
    return tuple(
        RestoreTarget(
            plan.stable_ids[node.id],
            node.name,
            vertex.parallelism,
            vertex.max_parallelism,
            node.uid is not None,
            tuple((plan.stable_ids[before], local) for before, local in plan.reads_from(vertex, node)),
        )
        for vertex in plan.vertices
        for node in vertex.nodes
    )


__all__ = ["restore_targets"]
