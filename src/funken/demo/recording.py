"""A run as a picture that moves: frames of a terminal in one SVG, which plays by itself and needs nothing from elsewhere.

The frames are drawn when the run is over, from what was noted of it. The last one stays for a while, and is what a viewer shows
that does not play.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from rich.console import Console, RenderableType

WIDTH = 94
STAYS_SECONDS = 5.0
_WEB_FONT = re.compile(r"@font-face \{.*?\}", re.DOTALL)
_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')


def frame(shown: Sequence[RenderableType], title: str, name: str) -> str:
    """Draw what a terminal shows as SVG; ``name`` keeps its styles apart from those of other frames."""
    console = Console(highlight=False, record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for each in shown:
        console.print(each)
    return _WEB_FONT.sub("", console.export_svg(title=title, unique_id=name))


def moving(frames: Sequence[str], seconds: float) -> str:
    """Return one SVG that shows the frames one after the other, each for so long, over and over.

    >>> picture = moving([frame(["one"], "t", "a"), frame(["two"], "t", "b")], 0.5)
    >>> picture.count("<svg"), picture.count("@keyframes"), "url(http" in picture
    (3, 2, False)
    """
    sizes = [tuple(map(float, found.groups())) for each in frames if (found := _SIZE.search(each))]
    width, height = max(size[0] for size in sizes), max(size[1] for size in sizes)
    total = len(frames) * seconds + STAYS_SECONDS
    styles, parts = [], []
    for number, each in enumerate(frames):
        begin, last = 100 * number * seconds / total, number == len(frames) - 1
        end = 100.0 if last else 100 * (number + 1) * seconds / total
        hidden = "" if last else f"{end:.2f}%{{visibility:hidden}}"
        first = "" if number == 0 else "0%{visibility:hidden}"
        styles.append(f"@keyframes s{number}{{{first}{begin:.2f}%{{visibility:visible}}{hidden}}}")
        rest = "visible" if last else "hidden"
        parts.append(f'<g style="visibility:{rest};animation:s{number} {total:.2f}s step-end infinite">{each}</g>')
    style = f"<style>{''.join(styles)}</style>"
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">{style}{"".join(parts)}</svg>'
