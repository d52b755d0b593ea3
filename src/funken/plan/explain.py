"""The plan as text for people and as JSON for programs (the web UI draws it)."""

from __future__ import annotations

import json
from typing import Any

from funken.plan.physical import Edge, PhysicalPlan, RuleNote, Vertex


def explain_text(plan: PhysicalPlan) -> str:
    """Return the stages, their vertices, what was decided about these, and where their records go; at last the rules."""
    stages = len(plan.widths)
    lines = [f"{plan.name}: {stages} stage{'s' * (stages > 1)}, {plan.slots} task slot{'s' * (plan.slots > 1)}"]
    for stage, (width, workers) in enumerate(zip(plan.widths, plan.workers, strict=True)):
        shared = f" in {workers} worker{'s' * (workers > 1)}" if workers < width else ""
        lines.append(f"stage {stage} (width {width}{shared})")
        for vertex in plan.at(stage):
            times = f"  x{vertex.parallelism}" if vertex.parallelism > 1 else ""
            lines.append(f"  [{vertex.id}] {vertex.name}{times}")
            lines += [f"      {_decision(plan, note)}" for note in _about(plan, vertex)]
            lines += [f"      {_arrow(edge)}" for edge in plan.edges if edge.source == vertex.id]
    lines += ["rules, in this order: " + ", ".join(plan.rules)] if plan.rules else []
    lines += [f"  {_decision(plan, note)}" for note in plan.notes if note.operator is None and note.vertex is None]
    return "\n".join(lines)


def _about(plan: PhysicalPlan, vertex: Vertex) -> list[RuleNote]:
    """Return what rules decided about a vertex and its operators, rule by rule."""
    operators = {node.id for node in vertex.nodes}
    return [note for note in plan.notes if note.operator in operators or note.vertex == vertex.id]


def _decision(plan: PhysicalPlan, note: RuleNote) -> str:
    name = next((node.name for node in plan.nodes if node.id == note.operator), None)
    return f"{note.rule}: {note.text}" if name is None else f"{note.rule}: {name}: {note.text}"


def _arrow(edge: Edge) -> str:
    notes = [f"by {edge.label}"]
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
        "workers": plan.workers,
        "vertices": [
            {
                "id": vertex.id,
                "name": vertex.name,
                "stage": vertex.stage,
                "parallelism": vertex.parallelism,
                "max_parallelism": vertex.max_parallelism,
                "operators": [
                    {"id": n.id, "uid": n.uid, "state_id": plan.stable_ids.get(n.id), "name": n.name, "kind": n.kind,
                     "description": n.description, "path": plan.decided("columns", n.id)}
                    for n in vertex.nodes
                ],
                "notes": [note.text for note in plan.notes if note.vertex == vertex.id],
            }
            for vertex in plan.vertices
        ],
        "edges": [
            {"id": e.id, "from": e.source, "to": e.target, "input": e.index, "side": e.side, "local": e.local,
             "partitioning": e.label}
            for e in plan.edges
        ],
        "rules": list(plan.rules),
        "decisions": [
            {"rule": note.rule, "operator": note.operator, "vertex": note.vertex, "text": note.text} for note in plan.notes
        ],
    }  # fmt: skip
    return json.dumps(document, indent=2)
