"""Draws how many times as fast Funken is as Flink SQL, a bar per query; in an environment with matplotlib.

usage: ratios.py PICTURE, with a JSON object of query and ratio on the standard input.
"""

from __future__ import annotations

import json
import sys

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

MORE, LESS = "#c0392b", "#7f8c8d"


def main() -> None:
    """Draw."""
    found = json.load(sys.stdin)
    figure, axis = plt.subplots(figsize=(8, 3.2))
    bars = axis.bar(list(found), list(found.values()), color=[MORE if ratio >= 1 else LESS for ratio in found.values()])
    axis.bar_label(bars, [f"{ratio:.2g}" for ratio in found.values()], padding=2, fontsize=8)
    axis.axhline(1, color="black", linewidth=0.8)
    axis.set_yscale("log")
    axis.set_ylabel("events/s, Flink SQL = 1", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(sys.argv[1], dpi=110)


if __name__ == "__main__":
    main()
