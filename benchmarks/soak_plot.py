"""Draws what ``soak.py`` measured; runs in an environment that has matplotlib.

usage: soak_plot.py FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

MIB = 2**20
COLOURS = {"driver": "#c0392b", "jvm": "#2c3e50", "daemon": "#7f8c8d", "worker": "#2980b9", "other": "#b2babb"}


def by_process(axis: Any, samples: list[dict[str, Any]], what: str, unit: float = 1) -> None:
    """Draw a line per process."""
    labelled = set()
    for name in sorted({name for sample in samples for name in sample["processes"]}):
        found = [(one["time"], one["processes"][name][what] / unit) for one in samples if name in one["processes"]]
        role = name.split()[0]
        axis.plot(*zip(*found, strict=True), color=COLOURS[role], lw=1.2, label=None if role in labelled else role)
        labelled.add(role)


def line(axis: Any, samples: list[dict[str, Any]], of: Callable[[dict[str, Any]], float | None], label: str) -> None:
    """Draw one line."""
    found = [(sample["time"], of(sample)) for sample in samples]
    axis.plot(*zip(*found, strict=True), lw=1.2, label=label)


def main() -> None:
    """Draw a panel for each kind of figure."""
    folder = Path(sys.argv[1])
    document = json.loads((folder / "soak.json").read_text())
    samples = document["samples"]
    figure, axes = plt.subplots(4, 2, figsize=(13, 12), sharex=True)
    (memory, heap), (threads, descriptors), (files, size), (speed, checkpoints) = axes
    by_process(memory, samples, "memory", MIB)
    by_process(threads, samples, "threads")
    by_process(descriptors, samples, "descriptors")
    for name, label in (("live", "heap after a full collection"), ("outside", "classes and code")):
        line(heap, samples, lambda one, name=name: (one["heap"].get(name) or 0) / MIB, label)
    for name in samples[0]["folders"]:
        line(files, samples, lambda one, name=name: one["folders"][name]["files"], name)
        line(size, samples, lambda one, name=name: one["folders"][name]["bytes"] / MIB, name)
    pairs = pairwise(samples)
    rates = [(b["time"], (b["records"] - a["records"]) / (b["at"] - a["at"]) / 1e3) for a, b in pairs]
    speed.plot(*zip(*rates, strict=True), lw=1.2, label="thousand records/s")
    line(speed, samples, lambda one: one["lag"], "watermark lag (s)")
    line(checkpoints, samples, lambda one: max(one["durations"], default=0) * 1000, "longest checkpoint (ms)")
    titles = ("resident memory (MiB)", "JVM (MiB)", "threads", "open descriptors", "files", "size of files (MiB)")
    for axis, title in zip(axes.flat, (*titles, "progress", "checkpoints"), strict=True):
        axis.set_title(title, fontsize=10)
        axis.axvline(document["settled"], color="#7f8c8d", lw=0.8, ls=":")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
        axis.tick_params(labelsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("time (s)", fontsize=9)
    figure.suptitle(f"{document['rate']:,.0f} records/s for {document['seconds']:,.0f} s", fontsize=11)
    figure.tight_layout()
    figure.savefig(folder / "soak.png", dpi=110, metadata={"Software": None}, bbox_inches="tight")


if __name__ == "__main__":
    main()
