"""Draws what was measured; runs in an environment that has matplotlib. usage: plots.py RESULTS FOLDER..."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

MAIN = ("grep", "keyed", "windows")
TIMEOUTS = (0, 5, 10, 50, 100)


def medians(runs: list[Any], figure: str = "records_per_s") -> dict[str, float]:
    """Return the median of a figure, by case."""
    found: dict[str, list[float]] = {}
    for run in runs:
        if figure in run["figures"]:
            found.setdefault(run["case"], []).append(run["figures"][figure])
    return {case: statistics.median(values) for case, values in found.items()}


def throughput(documents: dict[str, Any]) -> Any:
    """Draw a bar per system and program, on a scale that shows ratios."""
    names = [name for name in MAIN if name in documents]
    if not names:
        return None
    figure, axes = plt.subplots(1, len(names), figsize=(4.2 * len(names), 3.6), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        found = sorted(medians(documents[name]["runs"]).items(), key=lambda pair: pair[1])
        colours = ["#c0392b" if case.startswith("funken") else "#7f8c8d" for case, _ in found]
        bars = axis.barh([case for case, _ in found], [speed / 1e6 for _, speed in found], color=colours)
        axis.bar_label(bars, [f"{speed / 1e6:.3g}" for _, speed in found], padding=2, fontsize=7)
        axis.set_xscale("log")
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("million records/s", fontsize=8)
        axis.tick_params(labelsize=7)
        axis.margins(x=0.2)
    return figure


def latency(documents: dict[str, Any]) -> Any:
    """Draw the percentiles of every system, a panel per load."""
    if "latency" not in documents:
        return None
    runs = documents["latency"]["runs"]
    quantiles = ("p50", "p90", "p99", "p99.9")
    by_quantile = {q: medians(runs, q) for q in quantiles}
    loads = list(dict.fromkeys(case.partition(", ")[2] for case in by_quantile["p50"]))
    if not loads:
        return None
    figure, axes = plt.subplots(1, len(loads), figsize=(3.4 * len(loads), 3.4), squeeze=False, sharey=True)
    for axis, load in zip(axes[0], loads, strict=True):
        for case in by_quantile["p50"]:
            system, _, its = case.partition(", ")
            if its == load:
                values = [by_quantile[q].get(case) for q in quantiles]
                axis.plot(quantiles, values, "o-", label=system, lw=2.5 if system == "funken" else 1, ms=4)
        axis.set_yscale("log")
        axis.set_title(load, fontsize=9)
        axis.legend(fontsize=7)
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("ms")
    return figure


def timeouts(documents: dict[str, Any]) -> Any:
    """Draw throughput and latency over the buffer timeout."""
    if "buffer-timeout" not in documents:
        return None
    runs = documents["buffer-timeout"]["runs"]
    panels = (
        ("full load", "records_per_s", "million records/s, full load"),
        ("full load", "p99", "p99 (ms), full load"),
        ("at 100,000/s", "p50", "p50 (ms), at 100,000/s"),
        ("at 100,000/s", "p99", "p99 (ms), at 100,000/s"),
    )
    figure, axes = plt.subplots(1, len(panels), figsize=(13, 3.2))
    for axis, (load, name, title) in zip(axes, panels, strict=True):
        found = medians(runs, name)
        for system in ("funken", "flink-java"):
            points = [(str(t), found.get(f"{system}, {t} ms, {load}")) for t in TIMEOUTS]
            points = [(t, value) for t, value in points if value is not None]
            values = [value / 1e6 if name == "records_per_s" else value for _, value in points]
            axis.plot([t for t, _ in points], values, "o-", label=system)
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("buffer timeout (ms)", fontsize=8)
        axis.set_ylim(bottom=0)
        axis.legend(fontsize=7)
        axis.grid(alpha=0.3)
    return figure


def bars(documents: dict[str, Any], name: str, split: str = "") -> Any:
    """Draw an experiment's cases: throughput, and beside it latency where it was measured."""
    if name not in documents:
        return None
    runs = documents[name]["runs"]
    speeds = {case: v / 1e6 for case, v in medians(runs).items() if not split or case.endswith("full load")}
    lags = {case: v for case, v in medians(runs, "p50").items() if split and case.endswith(split)}
    panels = [
        (found, label)
        for found, label in ((speeds, "million records/s"), (lags, "median lag of a result (ms)"))
        if found
    ]
    if not panels:
        return None
    figure, axes = plt.subplots(1, len(panels), figsize=(5.5 * len(panels), 0.4 * len(speeds) + 1.2), squeeze=False)
    for axis, (found, label) in zip(axes[0], panels, strict=True):
        cases = list(reversed(found))
        drawn = axis.barh(
            [case.removesuffix(f", {split}").removesuffix(", full load") for case in cases], [found[c] for c in cases]
        )
        axis.bar_label(drawn, [f"{found[case]:.3g}" for case in cases], padding=2, fontsize=7)
        axis.set_xlabel(label, fontsize=8)
        axis.tick_params(labelsize=7)
        axis.margins(x=0.15)
    return figure


def recovery(documents: dict[str, Any]) -> Any:
    """Draw throughput over time, with a line where something was killed."""
    runs = documents.get("recovery", {}).get("runs", [])
    runs = [run for run in runs if "timeline" in run["figures"]]
    if not runs:
        return None
    figures = runs[-1]["figures"]
    figure, axis = plt.subplots(figsize=(9, 3))
    axis.plot([t for t, _ in figures["timeline"]], [rate / 1e3 for _, rate in figures["timeline"]], lw=1)
    for at, what in figures["kills"]:
        axis.axvline(at, color="#c0392b" if what == "driver" else "#e67e22", ls="--", lw=1)
        axis.text(at, axis.get_ylim()[1], what, rotation=90, va="top", ha="right", fontsize=7)
    axis.set_xlabel("seconds")
    axis.set_ylabel("thousand records/s")
    axis.set_ylim(bottom=0)
    return figure


def enrichment(documents: dict[str, Any]) -> Any:
    """Draw the latencies of the three programs."""
    runs = [run for run in documents.get("async", {}).get("runs", []) if "latencies" in run["figures"]]
    if not runs:
        return None
    figure, axis = plt.subplots(figsize=(5, 3))
    for program, found in runs[-1]["figures"]["latencies"].items():
        axis.plot(["p50", "p90", "p99"], [found[q] for q in ("p50", "p90", "p99")], "o-", label=program)
    axis.set_yscale("log")
    axis.set_ylabel("ms")
    axis.legend(fontsize=8)
    axis.grid(alpha=0.3)
    return figure


def main() -> None:
    """Draw everything there are figures for."""
    results, folders = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
    known = {path.stem: json.loads(path.read_text()) for path in results.glob("*.json")}
    documents = {name: document for name, document in known.items() if "experiment" in document}
    figures = {
        "throughput": throughput(documents),
        "latency": latency(documents),
        "buffer-timeout": timeouts(documents),
        "windowing": bars(documents, "windowing", "at 20,000/s"),
        "checkpoints": bars(documents, "checkpoints"),
        "incremental": bars(documents, "incremental"),
        "recovery": recovery(documents),
        "async": enrichment(documents),
    }
    for name, figure in figures.items():
        if figure is not None:
            figure.tight_layout()
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
                # Without the time of day, a plot of the same figures is the same file.
                figure.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
