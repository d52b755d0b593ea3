"""The plan as text for people and as JSON for programs (the web UI draws it)."""

from __future__ import annotations

import json
from typing import Any

from funken.plan.physical import Edge, PhysicalPlan
from funken.plan.rules.fusion import notes


def explain_text(plan: PhysicalPlan) -> str:
    """Return the stages, their vertices, and where their records go."""
    stages = len(plan.widths)
    lines = [f"{plan.name}: {stages} stage{'s' * (stages > 1)}, {plan.slots} task slot{'s' * (plan.slots > 1)}"]
    for stage, width in enumerate(plan.widths):
        lines.append(f"stage {stage} (width {width})")
        for vertex in plan.at(stage):
            times = f"  x{vertex.parallelism}" if vertex.parallelism > 1 else ""
            lines.append(f"  [{vertex.id}] {vertex.name}{times}")
            lines += [f"      {node.name}: {plan.paths[node.id]}" for node in vertex.nodes if node.id in plan.paths]
            lines += [f"      {note}" for note in notes(vertex, plan.edges)]
            lines += [f"      {_arrow(edge)}" for edge in plan.edges if edge.source == vertex.id]
    return "\n".join(lines)


def _arrow(edge: Edge) -> str:
    notes = [f"by {edge.partitioning.label}"]
    if edge.side is not None:
        notes.append(f"side output {edge.side!r}")
    if edge.index:
        notes.append("second input")
    if edge.local:
        notes.append("within the task")
    if edge.target_stage > edge.source_stage + 1:
        notes.append(f"relayed over {edge.target_stage - edge.source_stage - 1} stage(s)")
    return f"-> [{edge.target}] " + ", ".join(notes)


def explain_json(plan: PhysicalPlan) -> str:
    """Return the same as JSON."""
    document: dict[str, Any] = {
        "name": plan.name,
        "slots": plan.slots,
        "widths": plan.widths,
        "vertices": [
            {
                "id": vertex.id,
                "name": vertex.name,
                "stage": vertex.stage,
                "parallelism": vertex.parallelism,
                "max_parallelism": vertex.max_parallelism,
                "operators": [
                    {"id": n.id, "uid": n.uid, "state_id": plan.stable_ids.get(n.id), "name": n.name, "kind": n.kind,
                     "description": n.description, "path": plan.paths.get(n.id)}
                    for n in vertex.nodes
                ],
                "notes": notes(vertex, plan.edges),
            }
            for vertex in plan.vertices
        ],
        "edges": [
            {"id": e.id, "from": e.source, "to": e.target, "input": e.index, "side": e.side, "local": e.local,
             "partitioning": e.partitioning.label}
            for e in plan.edges
        ],
    }  # fmt: skip
    return json.dumps(document, indent=2)
