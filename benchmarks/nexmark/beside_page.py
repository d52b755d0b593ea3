"""What is compared with Flink SQL, how many times as fast Funken is, and the table and the picture of the guide."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import environments
from queries.catalogue import QUERIES
from report import BEGIN, BUSY, END, table

HERE = Path(__file__).parent
FLINK = "flink-sql"
MINI_BATCHES = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
}
"""As in Nexmark's own configuration for Flink."""

MINI_BATCHED = ("q3", "q4", "q9", "q15", "q16", "q17", "q18", "q20", "q23")
"""Queries with groups, joins or the last row of a key; windows and the first rows of a key know no mini-batches."""


@dataclass(frozen=True)
class System:
    """A column: a script, in an environment, with options."""

    title: str
    script: str
    environment: str
    options: dict[str, str] = field(default_factory=dict)
    queries: tuple[str, ...] | None = None

    def differs(self, query: str) -> bool:
        """Return whether a query has to be run on it."""
        return self.queries is None or query in self.queries

    @property
    def flink(self) -> bool:
        """Return whether it is Flink."""
        return self.environment == "pyflink"

    @property
    def sql(self) -> bool:
        """Return whether it runs the statements of ``flink_queries.py``."""
        return self.script != "on_funken.py"


SYSTEMS = {
    FLINK: System("Flink SQL", "on_flink.py", "pyflink"),
    "flink-sql-mini-batches": System("Flink SQL, mini-batches", "on_flink.py", "pyflink", MINI_BATCHES, MINI_BATCHED),
    "funken": System("Funken", "on_funken.py", "funken", {"execution.target": "continuous"}),
    "funken-batch": System("Funken, batch", "on_funken.py", "funken", {"execution.target": "batch"}),
    "funken-local": System("Funken, one process", "on_funken.py", "funken", {"execution.target": "local"}),
    "funken-sql": System("Funken SQL", "on_funken_sql.py", "funken", {"execution.target": "continuous"}),
    "funken-sql-local": System("Funken SQL, one process", "on_funken_sql.py", "funken", {"execution.target": "local"}),
}

FLINKS = tuple(name for name, system in SYSTEMS.items() if system.flink)
"""Of these, the better one counts."""

PICTURE = "![Events per second of Funken over those of Flink SQL, a bar per query](images/nexmark-{}.png)\n"

Document = dict[str, Any]


def ratios(
    document: Document, over: str, under: tuple[str, ...] = FLINKS, figure: str = "events_per_s"
) -> dict[str, float]:
    """Return, of each query, how many times the best figure of some systems that of another one is, where there are both."""
    found = {}
    for query, figures in document["queries"].items():
        above = figures.get(over, {}).get(figure)
        below = max((figures.get(name, {}).get(figure) or 0.0 for name in under), default=0.0)
        if above and below:
            found[query] = above / below
    return found


def mean(values: dict[str, float]) -> float:
    """Return the geometric mean.

    >>> mean({"q0": 0.5, "q1": 2.0})
    1.0
    """
    return math.exp(statistics.fmean(map(math.log, values.values())))


def comparison(document: Document) -> str:
    """Return the table of the guide, and whence its figures are."""
    names = [
        name for name in SYSTEMS if any("events_per_s" in each.get(name, {}) for each in document["queries"].values())
    ]
    ours = [name for name in names if not SYSTEMS[name].flink]
    rows = []
    for query, figures in document["queries"].items():
        cells = [_cell(figures.get(name)) for name in names]
        found = [ratios({"queries": {query: figures}}, name).get(query) for name in ours]
        rows.append((f"{query} {QUERIES[query].title}", *cells, *(f"{each:.2f}" if each else "-" for each in found)))
    means = [f"**{mean(all_of):.2f}**" if (all_of := ratios(document, name)) else "-" for name in ours]
    rows.append(("geometric mean", *("" for _ in names), *means))
    spent = [mean(found) for name in ours if (found := ratios(document, name, FLINKS, "events_per_cpu_s"))]
    steady = [
        (mean(found), len(found)) for name in ours if (found := ratios(document, name, FLINKS, "steady_events_per_s"))
    ]
    without = ""
    if steady:
        told = ", ".join(f"{each:.2f} over {count} queries" for each, count in steady)
        without = f"without the start of jobs (their seconds less those of jobs over a quarter) the mean is {told}; "
    if spent:
        without += "of the same by events per second of CPU, all processes and compilers of a system included, "
        without += f"{', '.join(f'{each:.2f}' for each in spent)}; "
    flink = "better Flink" if len(names) > len(ours) + 1 else "Flink"
    titles = (*(SYSTEMS[name].title for name in names), *(f"{SYSTEMS[name].title} / {flink}" for name in ours))
    text = table(("events/s", *titles), rows)
    measured = [
        figures[name]
        for figures in document["queries"].values()
        for name in names
        if "events_per_s" in figures.get(name, {})
    ]
    told = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    sizes = sorted({(each["many"], each["few"]) for each in measured})
    together = max(each["together"] for each in measured)
    jobs = " or ".join(f"{many:,}" for many, _ in sizes)
    commits = ", ".join(sorted({each["commit"] for each in measured}))
    days = sorted(each["at"][:10] for each in measured)
    text += (
        f"\n{document['machine']}; parallelism {document['parallelism']}; up to {together} queries in one process; "
        f"jobs over {jobs} events; {without}"
        f"commit {commits}, {' to '.join(dict.fromkeys((days[0], days[-1])))}; {told}."
    )
    busy = {name: statistics.median(_of(document, name, "others")) for name in names}
    if max(busy.values()) > BUSY:
        shares = ", ".join(f"{share:.0%} of those beside {SYSTEMS[name].title}" for name, share in busy.items())
        text += f" **Other programs used the cores meanwhile, {shares}: these figures mean little.**"
    left = {
        query: each["cannot"]
        for query, all_of in document["queries"].items()
        for each in all_of.values()
        if "cannot" in each
    }
    failed = [
        f"{query} on {SYSTEMS[name].title}"
        for query, each in document["queries"].items()
        for name in each
        if "failed" in each[name]
    ]
    notes = [f"{query} has no figure: {why}." for query, why in left.items()]
    notes += [f"Failed: {', '.join(failed)}."] if failed else []
    return text + "\n" + "".join(f"\n* {note}" for note in notes) + ("\n" if notes else "")


def _of(document: Document, name: str, fact: str) -> list[float]:
    """Return a fact of all measurements of a system."""
    return [each[name][fact] for each in document["queries"].values() if "events_per_s" in each.get(name, {})]


def _cell(figures: dict[str, Any] | None) -> str:
    if figures is None or "cannot" in figures:
        return "-"
    return f"{figures['events_per_s']:,.0f}" if "events_per_s" in figures else "**failed**"


def into_page(page: Path, document: Document, stem: str) -> None:
    """Put the table into the guide, between its marks, and the picture beside it."""
    before, mark, rest = page.read_text().partition(BEGIN.format(stem))
    if mark and END in rest:
        text = f"{PICTURE.format(stem)}\n{comparison(document)}"
        page.write_text(f"{before}{mark}\n{text}{END}{rest.partition(END)[2]}")
    ours = next(name for name in SYSTEMS if not SYSTEMS[name].flink and ratios(document, name))
    environments.build("plots", print)
    picture = page.parent / "images" / f"nexmark-{stem}.png"
    command = [environments.python("plots"), HERE / "ratios.py", picture]
    subprocess.run(command, input=json.dumps(ratios(document, ours)), text=True, check=True, timeout=180)
