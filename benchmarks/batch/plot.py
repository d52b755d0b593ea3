"""Draws the time per superstep of bulk and delta iterations, and the worksets of the latter, as SVG.

usage: plot.py RESULTS.json PICTURE.svg; the results are those that ``benchmarks/batch --only bulk,delta`` keeps.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 380, 64, 70, 36, 44
COLOURS = {"bulk": "#c0392b", "delta": "#2980b9"}


def scale(value: float, most: float, logarithmic: bool = False) -> float:
    """Return where a value is between the lower and the upper edge."""
    share = math.log10(1 + value) / math.log10(1 + most) if logarithmic else value / most
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def picture(measured: dict[str, dict[str, Any]]) -> str:
    """Return the picture."""
    count = max(len(each["superstep_ms"]) for each in measured.values())
    slowest = max(max(each["superstep_ms"]) for each in measured.values())
    step = (WIDTH - LEFT - RIGHT) / count
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">'
    ]
    parts.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>')
    worksets = measured.get("delta", {}).get("worksets", ())
    most = max(worksets, default=1)
    for place, size in enumerate(worksets):
        top = scale(size, most, logarithmic=True)
        shape = f'x="{LEFT + place * step + step * 0.2:.1f}" y="{top:.1f}" width="{step * 0.6:.1f}"'
        parts.append(
            f'<rect {shape} height="{HEIGHT - BOTTOM - top:.1f}" fill="#d6e6f2"><title>{size:,}</title></rect>'
        )
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = scale(share * slowest, slowest)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share * slowest:,.0f} ms</text>')
        size = (1 + most) ** share - 1
        parts.append(f'<text x="{WIDTH - RIGHT + 6}" y="{y + 4:.1f}" fill="#7fa8c9">{size:,.0f}</text>')
    for row, (name, each) in enumerate(measured.items()):
        colour = COLOURS.get(name, "#555")
        points = [
            f"{LEFT + (place + 0.5) * step:.1f},{scale(ms, slowest):.1f}"
            for place, ms in enumerate(each["superstep_ms"])
        ]
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        whole = sum(each["superstep_ms"]) / 1000
        text = f"{name}: {len(points)} supersteps, {whole:.2f} s"
        parts.append(f'<text x="{LEFT + 8 + 260 * row}" y="22" fill="{colour}">{text}</text>')
    parts += [
        f'<text x="{LEFT + (place + 0.5) * step:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{place + 1}</text>'
        for place in range(count)
    ]
    parts.append(
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">superstep; bars: workset (logarithmic)</text>'
    )
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    """Draw what was measured last of each kind."""
    cases = json.loads(Path(sys.argv[1]).read_text())["cases"]
    measured = {name: cases[name] for name in COLOURS if "superstep_ms" in cases.get(name, {})}
    Path(sys.argv[2]).write_text(picture(measured))


if __name__ == "__main__":
    main()
