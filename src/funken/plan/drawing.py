"""A plan as a picture: SVG with nothing in it that is elsewhere, for notebooks and pages.

A column per stage, a box per vertex with its chained operators, an arrow per edge with how its records are spread.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from funken.plan.physical import Edge, PhysicalPlan, Vertex

_BOX, _GAP, _LINE, _PAD, _BETWEEN = 210, 120, 17, 10, 24
_LETTERS = 29
"""What fits into a box."""
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
    """An arrow from box to box, in a curve below or above what is between."""
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
