"""Draws what ``scale.py`` measured; runs in an environment that has matplotlib.

usage: scale_plot.py RESULTS IMAGE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

TITLES = {
    "widths": "subtasks, on two cores",
    "alone": "subtasks, a worker each",
    "keys": "keys",
    "operators": "map operators before the exchange",
}


def main() -> None:
    """Draw a panel for each fact: what a record costs, to the first case."""
    results, image = map(Path, sys.argv[1:])
    found: dict[str, dict[str, float]] = json.loads(results.read_text())["records_per_s"]
    figure, axes = plt.subplots(1, len(found), figsize=(4 * len(found), 3.4))
    for axis, (fact, speeds) in zip(axes, found.items(), strict=True):
        first = next(iter(found.get("widths" if fact == "alone" else fact, speeds).values()))
        costs = [first / speed for speed in speeds.values()]
        drawn = axis.bar([f"{int(value):,}" for value in speeds], costs, color="#c0392b", width=0.6)
        axis.bar_label(drawn, [f"{cost:.2f} x" for cost in costs], fontsize=8)
        axis.set_xlabel(TITLES[fact], fontsize=9)
        axis.set_ylim(0, 1.15 * max(costs))
        axis.tick_params(labelsize=8)
    axes[0].set_ylabel("cost of a record", fontsize=9)
    figure.tight_layout()
    figure.savefig(image, dpi=110, metadata={"Software": None}, bbox_inches="tight")


if __name__ == "__main__":
    main()
