"""The plan as text for people and as JSON for programs (the web UI draws it)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from funken.ids import OperatorId
from funken.plan.physical import Edge, PhysicalPlan, RuleNote, Vertex


def explain_text(plan: PhysicalPlan, ways: Mapping[OperatorId, str] | None = None) -> str:
    """Return the stages, their vertices, what was decided about these, and where their records go; at last the rules.

    ``ways`` says of operators of a job that runs which way their records took (``ways_taken``).
    """
    stages = len(plan.widths)
    lines = [f"{plan.name}: {stages} stage{'s' * (stages > 1)}, {plan.slots} task slot{'s' * (plan.slots > 1)}"]
    for stage, (width, workers) in enumerate(zip(plan.widths, plan.workers, strict=True)):
        shared = f" in {workers} worker{'s' * (workers > 1)}" if workers < width else ""
        lines.append(f"stage {stage} (width {width}{shared})")
        for vertex in plan.at(stage):
            times = f"  x{vertex.parallelism}" if vertex.parallelism > 1 else ""
            lines.append(f"  [{vertex.id}] {vertex.name}{times}")
            for note in _about(plan, vertex):
                lines.append(f"      {_decision(plan, note)}")
                if ways and note.rule == "columns" and note.operator is not None and note.operator in ways:
                    lines.append(f"        so far {ways[note.operator]}")
            lines += [f"      {_arrow(edge)}" for edge in plan.edges if edge.source == vertex.id]
    lines += ["rules, in this order: " + ", ".join(plan.rules)] if plan.rules else []
    lines += [f"  {_decision(plan, note)}" for note in plan.notes if note.operator is None and note.vertex is None]
    return "\n".join(lines)


def ways_taken(plan: PhysicalPlan, metrics: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[OperatorId, str]:
    """Return which way the records of operators took, by the metrics that subtasks have of each operator's stable id."""
    on_columns, in_rows = Counter[str](), dict[str, Counter[str]]()
    for of_subtask in metrics:
        for stable, found in of_subtask.items():
            on_columns[stable] += found.get("numRecordsVectorized", 0)
            for name, count in found.items():
                if name.startswith("reason.") and name.endswith(".numRecordsPerRecord"):
                    why = name.removeprefix("reason.").removesuffix(".numRecordsPerRecord")
                    in_rows.setdefault(stable, Counter())[why] += count
    ways = {}
    for operator, stable in plan.stable_ids.items():
        if on_columns[stable] or stable in in_rows:
            reasons = in_rows.get(stable, Counter())
            parts = [f"{on_columns[stable]:,} records on columns", f"{reasons.total():,} record by record"]
            told = ", ".join(f"{why}: {count:,}" for why, count in reasons.most_common())
            ways[operator] = ", ".join(parts) + (f" ({told})" if told else "")
    return ways


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
