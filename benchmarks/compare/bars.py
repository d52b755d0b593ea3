"""Draws the seconds of graph and learning algorithms, in an environment with matplotlib. usage: bars.py FILE UNIT FOLDER...

A row per size, a panel per algorithm, a bar per system. The picture is called after the file: graph-speed.png.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

TITLES = {
    "pagerank": "PageRank, 20 iterations",
    "components": "connected components",
    "sssp": "shortest paths",
    "logistic": "logistic regression",
    "kmeans": "k-means",
    "als": "ALS",
}
LABELS = {
    "funken": ("Funken on Spark", "#c0392b"),
    "funken-local": ("Funken, one process", "#e67e22"),
    "graphx": ("GraphX", "#2c3e50"),
    "gelly": ("Gelly", "#16a085"),
    "mllib": ("Spark MLlib", "#2c3e50"),
    "frames": ("Spark DataFrames", "#7f8c8d"),
    "igraph": ("igraph, one core", "#2980b9"),
    "networkx": ("networkx, one core", "#8e44ad"),
    "sklearn": ("scikit-learn, one core", "#2980b9"),
}


def main() -> None:
    """Draw."""
    file, unit, *folders = sys.argv[1:]
    document = json.loads(Path(file).read_text())
    sizes = sorted((size for size in document if document[size]["systems"]), key=int)
    if not sizes:
        return
    algorithms = list(dict.fromkeys(a for s in sizes for e in document[s]["systems"].values() for a in e["seconds"]))
    figure, axes = plt.subplots(
        len(sizes), len(algorithms), figsize=(3.8 * len(algorithms), 2.0 * len(sizes) + 0.4), squeeze=False
    )
    for row, size in zip(axes, sizes, strict=True):
        for axis, algorithm in zip(row, algorithms, strict=True):
            found = {name: each["seconds"].get(algorithm) for name, each in document[size]["systems"].items()}
            bars = [(*LABELS[name], found[name]) for name in LABELS if found.get(name)][::-1]
            drawn = axis.barh([b[0] for b in bars], [b[2] for b in bars], color=[b[1] for b in bars])
            axis.bar_label(
                drawn, [f"{b[2]:.2g} s" if b[2] < 100 else f"{b[2]:.0f} s" for b in bars], padding=3, fontsize=8
            )
            axis.set_xlim(0, 1.25 * max((b[2] for b in bars), default=1.0))
            axis.tick_params(labelsize=8)
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_title(f"{TITLES.get(algorithm, algorithm)}, {int(size) / 1e6:g} M {unit}", fontsize=9)
    figure.supxlabel("seconds", fontsize=8)
    figure.tight_layout()
    for folder in folders:
        figure.savefig(Path(folder, f"{Path(file).stem}-speed.png"), dpi=110)


if __name__ == "__main__":
    main()
