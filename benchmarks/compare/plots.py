"""Draws a plot of each experiment; runs in an environment that has matplotlib. usage: plots.py RESULTS FOLDER..."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from experiments import CEP_WINDOWS, MAIN, TIMEOUTS
from systems import SYSTEMS

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

PLAIN = FuncFormatter(lambda value, _: f"{value:g}")
COLOURS = {
    "funken": "#c0392b",
    "funken-vectorised": "#e67e22",
    "funken-mixed": "#d35400",
    "flink-java": "#2c3e50",
    "flink-java-reuse": "#5d6d7e",
    "flink-sql": "#2980b9",
    "pyflink-process": "#16a085",
    "pyflink-thread": "#58b99f",
    "bytewax": "#8e44ad",
    "python": "#f1c40f",
    "spark": "#7f8c8d",
    "spark-transform": "#b2babb",
}
QUANTILES = ("p50", "p90", "p99", "p99.9")
Documents = dict[str, Any]


def medians(runs: list[Any], figure: str = "records_per_s") -> dict[str, float]:
    """Return the median of a figure, by case."""
    found: dict[str, list[float]] = {}
    for run in runs:
        if figure in run["figures"]:
            found.setdefault(run["case"], []).append(run["figures"][figure])
    return {case: statistics.median(values) for case, values in found.items()}


def titled(system: str) -> str:
    """Return a system's name as a reader knows it."""
    return "Flink DataStream, object reuse" if system == "flink-java-reuse" else SYSTEMS[system].title


def short(number: float) -> str:
    """Write a number with two digits, or more if it is large."""
    return f"{number:.2g}" if number < 100 else f"{number:,.0f}"


def log_scale(axis: Any, values: Iterable[float]) -> None:
    """Have room around values on a logarithmic scale, and plain numbers on it."""
    known = [value for value in values if value]
    if not known:
        return
    few = max(known) < 200 * min(known)
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
    axis.set_major_formatter(PLAIN)
    axis.set_minor_formatter(NullFormatter())
    axis.set_view_interval(min(known) / 2, max(known) * 2, ignore=True)


def lines(axis: Any, marks: Iterable[str], found: dict[str, list[float | None]]) -> None:
    """Draw one line per system."""
    for system, values in found.items():
        style = {"lw": 2.5, "zorder": 3} if system.startswith("funken") else {"lw": 1.3}
        axis.plot(list(marks), values, "o-", label=titled(system), color=COLOURS[system], ms=4, **style)
    axis.set_yscale("log")
    log_scale(axis.yaxis, [value or 0 for values in found.values() for value in values])
    axis.grid(alpha=0.3, which="both")
    axis.tick_params(labelsize=8)


def below(figure: Any, axes: Iterable[Any]) -> None:
    """Put one legend below all panels."""
    known = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(known.values(), known.keys(), loc="upper center", bbox_to_anchor=(0.5, 0), ncols=5, fontsize=8)


def barred(axis: Any, found: list[tuple[str, float, str, str]], label: str) -> None:
    """Draw horizontal bars, the first on top: name, value, colour and what is written beside it."""
    found = found[::-1]
    drawn = axis.barh(
        [name for name, *_ in found], [value for _, value, *_ in found], color=[c for _, _, c, _ in found]
    )
    axis.bar_label(drawn, [text for *_, text in found], padding=3, fontsize=8)
    axis.set_xlabel(label, fontsize=9)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def throughput(documents: Documents) -> Any:
    """Draw a bar per system and program."""
    names = [name for name in MAIN if name in documents and medians(documents[name]["runs"])]
    if not names:
        return None
    figure, axes = plt.subplots(1, len(names), figsize=(5 * len(names), 3.8), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        found = sorted(medians(documents[name]["runs"]).items(), key=lambda pair: -pair[1])
        barred(
            axis,
            [(titled(case), speed / 1e6, COLOURS[case], short(speed / 1e6)) for case, speed in found],
            "million records/s, logarithmic",
        )
        axis.set_xscale("log")
        log_scale(axis.xaxis, [speed / 1e6 for _, speed in found])
        axis.set_title(name, fontsize=11)
    return figure


def latency(documents: Documents) -> Any:
    """Draw the percentiles of every system, a panel per load."""
    runs = documents.get("latency", {}).get("runs", [])
    by_quantile = {q: medians(runs, q) for q in QUANTILES}
    loads = list(dict.fromkeys(case.partition(", ")[2] for case in by_quantile["p50"]))
    if not loads:
        return None
    figure, axes = plt.subplots(1, len(loads), figsize=(3.5 * len(loads), 3.6), squeeze=False)
    for axis, load in zip(axes[0], loads, strict=True):
        cases = [case for case in by_quantile["p50"] if case.partition(", ")[2] == load]
        found = {case.partition(", ")[0]: [by_quantile[q].get(case) for q in QUANTILES] for case in cases}
        lines(axis, QUANTILES, found)
        axis.set_title(load, fontsize=10)
    axes[0][0].set_ylabel("latency (ms), logarithmic", fontsize=9)
    below(figure, axes[0])
    return figure


def timeouts(documents: Documents) -> Any:
    """Draw throughput and latency over the buffer timeout."""
    runs = documents.get("buffer-timeout", {}).get("runs", [])
    panels = (
        ("full load", "records_per_s", "million records/s, full load"),
        ("full load", "p99", "p99 (ms), full load"),
        ("at 100,000/s", "p50", "p50 (ms), at 100,000/s"),
        ("at 100,000/s", "p99", "p99 (ms), at 100,000/s"),
    )
    if not runs:
        return None
    speeds = medians(runs)
    figure, axes = plt.subplots(1, len(panels), figsize=(14, 3.4))
    for axis, (load, name, title) in zip(axes, panels, strict=True):
        found, unit = medians(runs, name), 1e6 if name == "records_per_s" else 1
        by_system: dict[str, list[float | None]] = {}
        for system in ("funken", "flink-java"):
            values = [found.get(f"{system}, {timeout} ms, {load}") for timeout in TIMEOUTS]
            by_system[system] = [None if value is None else value / unit for value in values]
        lines(axis, [str(timeout) for timeout in TIMEOUTS], by_system)
        for system, values in by_system.items():  # a fixed rate that was not kept
            kept = [speeds.get(f"{system}, {timeout} ms, {load}", 0) > 95_000 for timeout in TIMEOUTS]
            late = [(at, v) for at, (ok, v) in enumerate(zip(kept, values, strict=True)) if v and not ok]
            if late and load != "full load":
                axis.plot(*zip(*late, strict=True), "x", color=COLOURS[system], ms=10, label="less than the rate")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("buffer timeout (ms)", fontsize=9)
    below(figure, axes)
    return figure


def windowing(documents: Documents) -> Any:
    """Draw throughput and latency of the window job as it is, and with one setting changed."""
    runs = documents.get("windowing", {}).get("runs", [])
    panels = (
        ("full load", "records_per_s", 1e6, "million records/s, full load"),
        ("at 20,000/s", "p50", 1, "p50 (ms) from a window's end to its result, at 20,000/s"),
        ("at 20,000/s", "p99", 1, "p99 (ms), at 20,000/s"),
    )
    if not medians(runs):
        return None
    figure, axes = plt.subplots(1, len(panels), figsize=(14, 3.6), sharey=True)
    for axis, (load, name, unit, label) in zip(axes, panels, strict=True):
        found = {case: value / unit for case, value in medians(runs, name).items() if case.endswith(load)}
        base = found.get(f"as it is, {load}")
        rows = []
        for case, value in found.items():
            note = f"{value:.3g}" + (f"  ({value / base:.2f} x)" if base and not case.startswith("as it is") else "")
            rows.append((case.removesuffix(f", {load}"), value, COLOURS["funken"], note))
        barred(axis, rows, label)
        if base:
            axis.axvline(base, color="#2c3e50", lw=0.8, ls=":")
        axis.margins(x=0.3)
    return figure


def pairs(documents: Documents, name: str, first: str) -> Any:
    """Draw throughput of cases whose names end in what differs; each has its ratio to that whose name ends in ``first``."""
    speeds = medians(documents.get(name, {}).get("runs", []))
    if not speeds:
        return None
    figure, axis = plt.subplots(figsize=(8, 0.38 * len(speeds) + 0.9))
    rows = []
    for case, speed in speeds.items():
        system, _, rest = case.partition(", ")
        what, base = rest.rpartition(", "), speeds.get(f"{case.rpartition(', ')[0]}, {first}")
        note = f"{speed / 1e6:.3g}" + (f"  ({speed / base:.3f} x)" if base and what[2] != first else "")
        rows.append((f"{titled(system)}: {rest}", speed / 1e6, COLOURS[system], note))
    barred(axis, rows, "million records/s")
    axis.margins(x=0.2)
    return figure


def recovery(documents: Documents) -> Any:
    """Draw throughput over time, with a line where something was killed."""
    runs = [run for run in documents.get("recovery", {}).get("runs", []) if "timeline" in run["figures"]]
    if not runs:
        return None
    found = runs[-1]["figures"]
    figure, axis = plt.subplots(figsize=(10, 3.2))
    times, rates = [at for at, _ in found["timeline"]], [rate / 1e3 for _, rate in found["timeline"]]
    axis.fill_between(times, rates, step="post", alpha=0.25, color=COLOURS["flink-sql"])
    axis.step(times, rates, where="post", lw=1, color=COLOURS["flink-sql"], label="events written")
    labelled = set()
    for at, what in found["kills"]:
        label = None if what in labelled else f"{what} killed"
        style = (
            {"color": COLOURS["funken"], "ls": "-", "lw": 1.8} if what == "driver" else {"color": "#e67e22", "ls": "--"}
        )
        axis.axvline(at, label=label, **style)
        labelled.add(what)
    axis.set_xlabel("time (s)", fontsize=9)
    axis.set_ylabel("thousand events/s", fontsize=9)
    axis.set_ylim(bottom=0)
    axis.margins(x=0.01)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8, loc="upper right")
    return figure


def enrichment(documents: Documents) -> Any:
    """Draw the latencies of the three programs."""
    runs = [run for run in documents.get("async", {}).get("runs", []) if "latencies" in run["figures"]]
    if not runs:
        return None
    figure, axis = plt.subplots(figsize=(6, 3.2))
    found, quantiles = runs[-1]["figures"]["latencies"], QUANTILES[:3]
    for number, (program, values) in enumerate(found.items()):
        at = [place + (number - 1) * 0.27 for place in range(len(quantiles))]
        drawn = axis.bar(at, [values[q] for q in quantiles], 0.25, label=program)
        axis.bar_label(drawn, [f"{values[q]:.3g}" for q in quantiles], fontsize=7)
    axis.set_xticks(range(len(quantiles)), quantiles)
    axis.set_yscale("log")
    log_scale(axis.yaxis, [values[q] for values in found.values() for q in quantiles])
    axis.set_ylabel("latency (ms), logarithmic", fontsize=9)
    below(figure, [axis])
    return figure


def patterns(documents: Documents) -> Any:
    """Draw throughput by pattern, and what an event costs over the length of the window."""
    speeds = medians(documents.get("cep", {}).get("runs", []))
    if not speeds:
        return None
    colours = {
        "funken": COLOURS["funken"],
        "funken opaque": COLOURS["funken-vectorised"],
        "flink": COLOURS["flink-java"],
    }
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.2))
    bars = [(case, speed) for case, speed in speeds.items() if "window" not in case]
    barred(
        left,
        [(case, speed / 1e3, colours[case.rpartition(", ")[2]], f"{speed / 1e3:,.0f}") for case, speed in bars],
        "thousand events/s, whole job",
    )
    left.margins(x=0.15)
    for pattern, style in (("followed", "o-"), ("open", "s--")):
        for system in ("funken", "flink"):
            costs = [speeds.get(f"{pattern}, window of {window} events of a key, {system}") for window in CEP_WINDOWS]
            known = [(window, 1e6 / cost) for window, cost in zip(CEP_WINDOWS, costs, strict=True) if cost]
            if known:
                label = f"{system}, {'each is matched' if pattern == 'followed' else 'none is matched'}"
                right.plot(*zip(*known, strict=True), style, color=colours[system], label=label, ms=4)
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xticks(CEP_WINDOWS, [f"{window}\n({window / 10:g})" for window in CEP_WINDOWS])
    right.set_xlabel("events of a key in a window (open partial matches of a key where none is matched)", fontsize=9)
    right.set_ylabel("microseconds per event, logarithmic", fontsize=9)
    log_scale(right.yaxis, [cost for line in right.lines for cost in line.get_ydata()])
    right.grid(alpha=0.3, which="both")
    if right.lines:
        right.legend(fontsize=8)
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
        "windowing": windowing(documents),
        "checkpoints": pairs(documents, "checkpoints", "none"),
        "incremental": pairs(documents, "incremental", "aggregate"),
        "recovery": recovery(documents),
        "async": enrichment(documents),
        "cep": patterns(documents),
    }
    for name, figure in figures.items():
        if figure is not None:
            title = documents[name]["title"] if name in documents else "Throughput, parallelism 2"
            figure.suptitle(title, fontsize=11)
            figure.tight_layout()
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
                # Without the time of day, a plot of the same figures is the same file.
                figure.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None}, bbox_inches="tight")


if __name__ == "__main__":
    main()
