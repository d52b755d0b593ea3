"""The plan as text for people and as JSON for programs (the web UI draws it)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from funken.ids import OperatorId
from funken.plan.physical import Edge, PhysicalPlan, RuleNote, Vertex


def explain_text(plan: PhysicalPlan, ways: Mapping[OperatorId, str] | None = None) -> str:
    """Return the stages, their vertices with decisions, and the targets of their records; at last the rules.

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
    """Return the ways of operators' records, by the metrics that subtasks have of each operator's stable id."""
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
    """Return the rules' decisions about a vertex and its operators, rule by rule."""
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


# ---- A plan as a picture: SVG with nothing in it that is elsewhere, for notebooks and pages.
#
# A column per stage, a box per vertex with its chained operators, an arrow per edge with how its records are
# spread.


_BOX, _GAP, _LINE, _PAD, _BETWEEN = 210, 120, 17, 10, 24
_LETTERS = 29
"""Number of letters that fit into a box."""
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1f2937}.head{font-weight:600}.dim{fill:#6b7280;font-size:11px}"
    ".box{fill:#eff6ff;stroke:#3b82f6}.edge{fill:none;stroke:#9ca3af;stroke-width:1.5}.tip{fill:#9ca3af}"
)


def plan_svg(plan: PhysicalPlan, notes: Mapping[int, str] | None = None) -> str:
    """Draw a plan; ``notes`` are added to vertices, by their ids.

    >>> from funken.testing import local
    >>> words = local(["to", "be"])
    >>> _ = words.key_by(len).sum().print()
    >>> picture = plan_svg(words.get_execution_environment().compile())
    >>> picture.startswith("<svg"), picture.count("<rect"), picture.count("<path"), "HASH" in picture
    (True, 2, 1, True)
    """
    notes = notes or {}
    places: dict[int, tuple[int, int, int]] = {}
    for stage in range(len(plan.widths)):
        top = _PAD + _LINE
        for vertex in plan.at(stage):
            height = _PAD * 2 + _LINE * len(_lines(vertex, notes))
            places[vertex.id] = stage * (_BOX + _GAP) + _PAD, top, height
            top += height + _BETWEEN
    width = len(plan.widths) * (_BOX + _GAP) - _GAP + 2 * _PAD
    height = max((top + size for _, top, size in places.values()), default=0) + _PAD
    parts = [f'<text class="dim" x="{stage * (_BOX + _GAP) + _PAD}" y="{_LINE - 3}">stage {stage}</text>'
             for stage in range(len(plan.widths))]  # fmt: skip
    parts += [_edge(edge, places) for edge in plan.edges]
    parts += [_box(vertex, places[vertex.id], notes) for vertex in plan.vertices]
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    title = f"<title>{escape(plan.name)}</title><style>{_STYLE}</style>"
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{title}{"".join(parts)}</svg>'


def _lines(vertex: Vertex, notes: Mapping[int, str]) -> list[tuple[str, str]]:
    """Return the lines in a box, each with its class."""
    lines = [("head", node.name) for node in vertex.nodes]
    lines.append(("dim", f"{vertex.parallelism} subtask{'s' * (vertex.parallelism > 1)}"))
    if vertex.id in notes:
        lines.append(("dim", notes[vertex.id]))
    return lines


def _box(vertex: Vertex, place: tuple[int, int, int], notes: Mapping[int, str]) -> str:
    left, top, height = place
    parts = [f'<rect class="box" x="{left}" y="{top}" width="{_BOX}" height="{height}" rx="6"/>']
    for number, (kind, text) in enumerate(_lines(vertex, notes), 1):
        shown = text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"
        parts.append(
            f'<text class="{kind}" x="{left + _PAD}" y="{top + _PAD + number * _LINE - 4}">{escape(shown)}</text>'
        )
    return "".join(parts)


def _edge(edge: Edge, places: Mapping[int, tuple[int, int, int]]) -> str:
    """Draw an arrow from box to box, in a curve below or above the boxes between."""
    (from_left, from_top, from_height), (to_left, to_top, to_height) = places[edge.source], places[edge.target]
    begin, end = (from_left + _BOX, from_top + from_height / 2), (to_left - 6, to_top + to_height / 2 + 8 * edge.index)
    middle = begin[0] + _GAP / 2
    bend = f"C{middle:.0f} {begin[1]:.0f} {end[0] - _GAP / 2:.0f} {end[1]:.0f}"
    line = f'<path class="edge" d="M{begin[0]:.0f} {begin[1]:.0f}{bend} {end[0]:.0f} {end[1]:.0f}"/>'
    x, y = end
    tip = f'<polygon class="tip" points="{x:.0f},{y - 4:.0f} {x + 6:.0f},{y:.0f} {x:.0f},{y + 4:.0f}"/>'
    label = escape(edge.label + (f" {edge.side}" if edge.side is not None else ""))
    place = f'x="{middle:.0f}" y="{(begin[1] + y) / 2 - 6:.0f}"'
    return f'{line}{tip}<text class="dim" {place} text-anchor="middle">{label}</text>'
