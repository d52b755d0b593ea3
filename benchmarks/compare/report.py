"""Tables of what was measured, and whether the project's aims are met.

A figure is the median over the rounds; a ratio is the median of the ratios of runs of the same round and
commit, which were neighbours.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments import EXPERIMENTS, MAIN
from systems import SYSTEMS

Documents = Mapping[str, Mapping[str, Any]]
BUSY = 0.1
"""The share of the cores that other programs may use before the report warns."""

BEGIN, END = "<!-- measured: {} -->", "<!-- end -->"


def rounds_of(documents: Documents, experiment: str, case: str, figure: str) -> dict[tuple[int, str], float]:
    """Return a figure of a case, by round and commit: what another commit measured is no neighbour."""
    runs = documents.get(experiment, {}).get("runs", [])
    return {
        (run["round"], run["commit"]): float(run["figures"][figure])
        for run in runs
        if run["case"] == case and figure in run["figures"]
    }


def value(documents: Documents, experiment: str, case: str, figure: str = "records_per_s") -> float | None:
    """Return the median of a figure; ``None`` if it was not measured."""
    found = rounds_of(documents, experiment, case, figure)
    return statistics.median(found.values()) if found else None


def ratios(documents: Documents, experiment: str, over: str, under: str) -> list[float]:
    """Return the ratios of throughput, round by round."""
    above = rounds_of(documents, experiment, over, "records_per_s")
    below = rounds_of(documents, experiment, under, "records_per_s")
    return [above[turn] / below[turn] for turn in above if turn in below]


def ratio(documents: Documents, experiment: str, over: str, under: str) -> float | None:
    """Return the median of the ratios."""
    found = ratios(documents, experiment, over, under)
    return statistics.median(found) if found else None


@dataclass(frozen=True)
class Verdict:
    """One line of the table of aims; ``each`` round's figure, ``measured`` is their median."""

    title: str
    floor: float
    aim: float
    unit: str
    each: Sequence[float]

    @property
    def measured(self) -> float | None:
        """Return what counts, ``None`` if it was not measured."""
        return statistics.median(self.each) if self.each else None

    @property
    def rounds(self) -> str:
        """Say how many rounds there were, and how far apart."""
        if len(self.each) < 2:
            return str(len(self.each))
        return f"{len(self.each)}: {_number(min(self.each))} to {_number(max(self.each))}"

    @property
    def met(self) -> str:
        """Say what is met."""
        if self.measured is None:
            return "not measured"
        less = self.unit == "ms"
        for limit, word in ((self.aim, "aim"), (self.floor, "floor")):
            if (self.measured <= limit) if less else (self.measured >= limit):
                return word
        return "**no**"


def verdicts(documents: Documents) -> list[Verdict]:
    """Return the aims with what was measured."""

    def against(experiment: str, over: str, under: str) -> list[float]:
        return ratios(documents, experiment, over, under)

    def figures(case: str, figure: str) -> list[float]:
        return list(rounds_of(documents, "latency", case, figure).values())

    full, fixed = "funken, keyed, full load", "funken, keyed, at 100,000/s"
    # The ratio to the better of two modes is the smaller of the two ratios.
    modes = [against("keyed", "funken", f"pyflink-{mode}") for mode in ("process", "thread")]
    pyflink = min(modes, key=statistics.median) if all(modes) else []
    of_kafka = [
        against("kafka", "keyed count, funken", f"keyed count, pyflink-{mode}") for mode in ("process", "thread")
    ]
    kafka_pyflink = min(of_kafka, key=statistics.median) if all(of_kafka) else []
    kept = [against("checkpoints", f"funken, {p}, every 5 s", f"funken, {p}, none") for p in ("keyed", "grep")]
    return [
        Verdict("keyed, opaque lambdas / PyFlink's better mode", 40, 100, "x", pyflink),
        Verdict("keyed, opaque lambdas / Bytewax", 4, 8, "x", against("keyed", "funken", "bytewax")),
        Verdict("windows, opaque lambdas / Bytewax", 2, 4, "x", against("windows", "funken", "bytewax")),
        Verdict("keyed, opaque lambdas / Flink SQL", 1, 1.5, "x", against("keyed", "funken", "flink-sql")),
        Verdict("keyed, an opaque reduce / Flink SQL", 1, 1.5, "x", against("keyed", "funken-mixed", "flink-sql")),
        Verdict("grep, opaque lambdas / Flink SQL", 2, 3, "x", against("grep", "funken", "flink-sql")),
        Verdict("grep, an opaque filter / Flink SQL", 2, 3, "x", against("grep", "funken-mixed", "flink-sql")),
        Verdict("keyed, vectorized / Flink Java", 0.5, 1.5, "x", against("keyed", "funken-vectorised", "flink-java")),
        Verdict(
            "windows, vectorized / Flink Java", 0.5, 1.5, "x", against("windows", "funken-vectorised", "flink-java")
        ),
        Verdict("grep, vectorized / Flink Java", 0.5, 1, "x", against("grep", "funken-vectorised", "flink-java")),
        Verdict("Kafka, opaque lambdas / PyFlink's better mode", 20, 20, "x", kafka_pyflink),
        Verdict(
            "JSON lines, opaque lambdas / Flink SQL",
            1,
            2,
            "x",
            against("json", "sliding count, funken", "sliding count, flink-sql"),
        ),
        Verdict(
            "JSON lines, vectorized / Flink SQL",
            1,
            2,
            "x",
            against("json", "sliding count, funken-vectorised", "sliding count, flink-sql"),
        ),
        Verdict(
            "Kafka, opaque lambdas / Bytewax",
            1,
            1,
            "x",
            against("kafka", "keyed count, funken", "keyed count, bytewax"),
        ),
        Verdict(
            "Kafka, vectorized / Flink SQL",
            1,
            1,
            "x",
            against("kafka", "keyed count, funken-vectorised", "keyed count, flink-sql"),
        ),
        Verdict("p99, keyed, full load", 100, 50, "ms", figures(full, "p99")),
        Verdict("p50, keyed, at 100,000/s, buffer timeout 5 ms", 3, 2, "ms", figures(fixed, "p50")),
        Verdict("p99, keyed, at 100,000/s, buffer timeout 5 ms", 8, 5, "ms", figures(fixed, "p99")),
        Verdict("keyed, a checkpoint every 5 s / none", 0.97, 0.99, "x", kept[0]),
        Verdict("grep, a checkpoint every 5 s / none", 0.97, 0.99, "x", kept[1]),
    ]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; all columns but the first are numbers."""
    titles = list(head)
    lines = [titles, ["---", *["---:"] * (len(titles) - 1)], *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _number(found: float | None, unit: str = "") -> str:
    if found is None:
        return "-"
    text = f"{found:.3g}" if abs(found) < 100 else f"{found:,.0f}"
    return f"{text} {unit}".strip()


def aims(documents: Documents) -> str:
    """Return the table of aims."""
    rows = [
        (v.title, _number(v.floor, v.unit), _number(v.aim, v.unit), _number(v.measured, v.unit), v.rounds, v.met)
        for v in verdicts(documents)
    ]
    return table(("experiment", "floor", "aim", "measured", "rounds", "met"), rows)


def plain(found: list[Verdict]) -> str:
    """Return the aims for a terminal."""
    lines = [f"{'experiment':<50}{'floor':>9}{'aim':>9}{'measured':>11}   met"]
    for v in found:
        limits = f"{_number(v.floor, v.unit):>9}{_number(v.aim, v.unit):>9}"
        lines.append(f"{v.title:<50}{limits}{_number(v.measured, v.unit):>11}   {v.met.strip('*')}")
    return "\n".join(lines)


def throughput(documents: Documents) -> str:
    """Return the main table: millions of records per second, and Funken's ratio to each."""
    rows = []
    for name, system in SYSTEMS.items():
        cells = []
        for experiment in MAIN:
            found = value(documents, experiment, name)
            over = ratio(documents, experiment, "funken", name)
            note = f" ({_number(over)} x)" if over is not None and name != "funken" else ""
            cells.append("-" if found is None else f"{found / 1e6:.3g}{note}")
        if any(cell != "-" for cell in cells):
            rows.append((system.title, *cells))
    return table(("M records/s (Funken's opaque lambdas / this)", *MAIN), rows)


def memory(documents: Documents) -> str:
    """Return what the processes of the keyed job have together, by system."""
    found = [(system.title, value(documents, "keyed", name, "memory")) for name, system in SYSTEMS.items()]
    rows = [(title, f"{size / 1e6:,.0f}") for title, size in found if size]
    return table(("keyed job, 1,000 keys, full load", "MB, all processes"), rows) if rows else ""


QUANTILES = ("p50", "p90", "p99", "p99.9")
BASES = {
    "cep": "flink",
    "kafka": "funken",
    "json": "funken",
    "checkpoints": "none",
    "incremental": "aggregate",
    "windowing": "as it is",
}
"""What the other cases of an experiment are compared with; the last part of a case's name, or, by load, the first."""

KEPT = 0.95
"""A fixed rate of which less arrives was not kept, and its latencies grow as long as it lasts."""


def cases(documents: Documents, experiment: str) -> str:
    """Return an experiment's cases with their medians, without columns that none of them has."""
    rows = []
    for case in EXPERIMENTS[experiment].cases:
        speed, *latencies = (value(documents, experiment, case.label, name) for name in ("records_per_s", *QUANTILES))
        if speed is not None:
            base = f"{case.label.rpartition(', ')[0]}, {BASES.get(experiment)}"
            over = None if base == case.label else ratio(documents, experiment, case.label, base)
            rows.append((case.label, _number(speed / 1e6), _number(over, "x"), *map(_number, latencies)))
    head = ("case", "M records/s", f"to {BASES.get(experiment)!r}", *(f"{name} ms" for name in QUANTILES))
    used = [column for column in range(len(head)) if any(row[column] != "-" for row in rows)]
    return table([head[c] for c in used], [[row[c] for c in used] for row in rows]) if rows else ""


def by_load(documents: Documents, experiment: str) -> str:
    """Return an experiment whose cases come at full load and at a fixed rate, one row for both."""
    rows: dict[str, list[str]] = {}
    base = f"{BASES.get(experiment)}, full load"
    for case in EXPERIMENTS[experiment].cases:
        name = case.label.rpartition(", ")[0]
        speed, *found = (value(documents, experiment, case.label, q) for q in ("records_per_s", *QUANTILES))
        row = rows.setdefault(name, ["-"] * 3)
        latencies = " / ".join(map(_number, found)) if any(found) else "-"
        rate = case.spec.get("rate")
        if speed is None:
            continue
        if not rate:
            over = None if base == case.label else ratio(documents, experiment, case.label, base)
            row[:2] = [_number(speed / 1e6) + (f" ({_number(over)} x)" if over else ""), latencies]
        else:
            row[2] = latencies + (f" (only {speed:,.0f}/s)" if speed < KEPT * rate else "")
    fixed = next(case.label.rpartition(", ")[2] for case in EXPERIMENTS[experiment].cases if case.spec.get("rate"))
    names = " / ".join(QUANTILES)
    head = ("", "M records/s, full load", f"{names} ms, full load", f"{names} ms, {fixed}")
    shown = [(name, *row) for name, row in rows.items() if any(cell != "-" for cell in row)]
    used = [column for column in range(4) if not column or any(row[column] != "-" for row in shown)]
    return table([head[c] for c in used], [[row[c] for c in used] for row in shown]) if shown else ""


def _details(documents: Documents, experiment: str) -> str:
    """Return what an experiment with figures of its own found."""
    runs = [run for run in documents.get(experiment, {}).get("runs", []) if "details" in run["figures"]]
    return "".join(f"{line}\n" for run in runs for line in run["figures"]["details"])


def problems(documents: Documents) -> str:
    """Return what has no figure, and why."""
    found = [
        f"* {name}, {run['case']}: {run['figures'].get('failed') or run['figures'].get('unsupported')}"
        for name, document in documents.items()
        for run in document["runs"]
        if "failed" in run["figures"] or "unsupported" in run["figures"]
    ]
    return "\n".join(dict.fromkeys(found)) + "\n" if found else "Nothing.\n"


def origin(documents: Documents) -> str:
    """Say where, when and of what the figures are."""
    runs = [run for document in documents.values() for run in document["runs"]]
    first = next(iter(documents.values()))
    versions = "; ".join(f"{name}: {text}" for name, text in first.get("versions", {}).items())
    commits = ", ".join(sorted({run["commit"] for run in runs}))
    days = sorted({run["at"][:10] for run in runs})
    shares = [run["figures"]["others"] for run in runs if "others" in run["figures"]]
    busy = statistics.median(shares) if shares else 0.0
    warning = f"**Other programs used {busy:.0%} of the cores meanwhile: these figures mean little.** "
    warning = warning if busy > BUSY else ""
    return f"{warning}{first.get('machine')}. Commit {commits}, {' to '.join(dict.fromkeys((days[0], days[-1])))}. {versions}.\n"


SECTIONS: dict[str, Callable[[Documents], str]] = {
    "origin": origin,
    "aims": aims,
    "throughput": throughput,
    "memory": memory,
    **{name: (lambda documents, name=name: cases(documents, name)) for name in EXPERIMENTS if name not in MAIN},
    **{name: (lambda documents, name=name: by_load(documents, name)) for name in ("buffer-timeout", "windowing")},
    **{name: (lambda documents, name=name: _details(documents, name)) for name in ("async", "recovery")},
}


def markdown(documents: Documents) -> str:
    """Return the whole report."""
    parts = ["# Measured\n", "Written by `make bench-compare`.\n", origin(documents), "## Aims\n", aims(documents)]
    parts += ["## Throughput\n", throughput(documents)]
    for name, experiment in EXPERIMENTS.items():
        text = SECTIONS[name](documents) if name not in MAIN else ""
        if text:
            parts += [f"## {experiment.title}\n", text]
    parts += ["## Without a figure\n", problems(documents)]
    return "\n".join(parts)


def into_page(page: Path, documents: Documents) -> None:
    """Replace what stands between the marks of a page by what was measured, with the plot if there is one."""
    text = page.read_text()
    for name, section in SECTIONS.items():
        begin = BEGIN.format(name)
        if begin in text:
            before, _, rest = text.partition(begin)
            found = section(documents)
            if (page.parent / "images" / f"{name}.png").exists():
                title = EXPERIMENTS[name].title if name in EXPERIMENTS else "Throughput"
                found = f"![{title}](images/{name}.png)\n\n{found}"
            if found:
                text = f"{before}{begin}\n{found}{END}{rest.partition(END)[2]}"
    page.write_text(text)
