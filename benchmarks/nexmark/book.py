"""Keeps what was measured, a file per mode below ``benchmarks/results``, and puts it as a table into the guide.

The figures of a file were measured on one machine with the same versions: where these change, it begins anew. A query that
gave a wrong result, or none, has its error there and no figure.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import environments
from processes import Others
from queries.catalogue import ALL
from report import BEGIN, BUSY, END, table
from rounds import machine

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
GUIDE = environments.ROOT / "docs" / "guide" / "nexmark.md"
MODES = ("local", "local-parquet", "batch", "batch-parquet", "continuous")
PACKAGES = ("pyspark", "pyarrow", "cloudpickle")
SAMPLE_SECONDS = 1.0

Document = dict[str, Any]


def versions() -> dict[str, str]:
    """Return the versions of all that the figures depend on."""
    found = {"python": platform.python_version(), "duckdb": environments.PACKAGES["duckdb"][0].rpartition("=")[2]}
    found |= {name: importlib.metadata.version(name) for name in PACKAGES}
    try:
        java = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except FileNotFoundError:
        java = ""
    return found | {"java": java.partition("\n")[0] or "none on the path"}


def commit() -> str:
    """Return the newest commit of what is measured, with a ``+`` if the working tree differs from it."""

    def git(*command: str) -> str:
        done = subprocess.run(
            ["git", *command, "--", "src", "benchmarks/nexmark"],
            cwd=environments.ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout.strip()

    return (git("log", "-1", "--format=%h") or "unknown") + ("+" if git("status", "--porcelain") else "")


class Session(Others):
    """What everything but this session used of the cores, from now on."""

    def __init__(self) -> None:
        super().__init__(os.getsid(0))
        self.sample()
        self._before = dict(self._used)

    def share(self) -> float:
        """Return the share of all cores that others used, from 0 to 1."""
        self.sample()
        self._used = {process: used - self._before.get(process, 0.0) for process, used in self._used.items()}
        return super().share()


@contextmanager
def beside() -> Iterator[dict[str, float]]:
    """Watch the machine: what is yielded has the share of ``others`` behind the block."""
    session, found, done = Session(), dict[str, float](), threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLE_SECONDS):
            session.sample()

    sampler = threading.Thread(target=sample, name="nexmark-sampler", daemon=True)
    sampler.start()
    try:
        yield found
    finally:
        done.set()
        sampler.join(60)
        found["others"] = round(session.share(), 3)


def place(mode: str) -> Path:
    """Return the file of a mode."""
    return RESULTS / f"nexmark-{mode}.json"


def load(mode: str) -> Document:
    """Return what is kept of a mode; without queries if there is nothing."""
    path = place(mode)
    document: Document = json.loads(path.read_text()) if path.exists() else {"queries": {}}
    return document


def keep(mode: str, name: str, figures: dict[str, Any]) -> None:
    """Put the figures of a query into the file of its mode."""
    document, here = load(mode), {"mode": mode, "machine": machine(), "versions": versions()}
    if any(document.get(fact) != value for fact, value in here.items()):
        document = {**here, "queries": {}}
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    query = ALL[name]
    kept = {"title": query.title, "note": query.note, **figures, "commit": commit(), "at": at}
    document["queries"] = {
        each: kept if each == name else document["queries"][each]
        for each in ALL
        if each == name or each in document["queries"]
    }
    path = place(mode)
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(document, indent=1) + "\n")
    partial.replace(path)


def _cell(figures: dict[str, Any] | None) -> str:
    if figures is None:
        return "-"
    return f"{figures['events_per_s']:,.0f}" if "events_per_s" in figures else "**failed**"


def results(documents: dict[str, Document]) -> str:
    """Return events per second of each query, a column per mode that was measured."""
    rows = []
    for name, query in ALL.items():
        found = {mode: document["queries"].get(name) for mode, document in documents.items()}
        if any(found.values()):
            checked = [figures.get("rows_checked", 0) for figures in found.values() if figures]
            rows.append((f"{name} {query.title}", *map(_cell, found.values()), f"{max(checked):,}"))
    return table(("events/s", *documents, "rows compared"), rows)


def origin(documents: dict[str, Document]) -> str:
    """Say where, when and of what the figures are, and which query has none."""
    lines = []
    for mode, document in documents.items():
        measured = list(document["queries"].values())
        days = sorted({each["at"][:10] for each in measured})
        told = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
        commits = ", ".join(sorted({each["commit"] for each in measured}))
        line = (
            f"* **{mode}**: {document['machine']}; parallelism {_all(measured, 'parallelism')}; {_amount(measured)}; "
        )
        line += f"commit {commits}, {' to '.join(dict.fromkeys((days[0], days[-1])))}; {told}."
        if (busy := statistics.median(each.get("others", 0.0) for each in measured)) > BUSY:
            line += f" **Other programs used {busy:.0%} of the cores meanwhile: these figures mean little.**"
        lines.append(line)
        lines += [
            f"  * {name} has no figure: {' '.join(each['failed'].split())[:300]}"
            for name, each in document["queries"].items()
            if "failed" in each
        ]
    return "\n".join(lines) + "\n"


def _all(measured: list[dict[str, Any]], fact: str) -> str:
    return ", ".join(sorted({f"{each[fact]:,}" for each in measured if fact in each}))


def _amount(measured: list[dict[str, Any]]) -> str:
    if any("seconds" in each for each in measured):
        seconds = statistics.median(each["seconds"] for each in measured if "seconds" in each)
        return f"about {seconds:.0f} s of a job without end"
    return f"{_all(measured, 'events')} events from the start of the job to its end, the median of {_all(measured, 'runs')}"


def into_page(page: Path, documents: dict[str, Document]) -> None:
    """Replace what stands between the marks of a page; without a figure it stays as it is."""
    documents = {mode: document for mode, document in documents.items() if document["queries"]}
    text = page.read_text()
    for name, section in (("results", results), ("origin", origin)):
        begin = BEGIN.format(name)
        before, mark, rest = text.partition(begin)
        if mark and END in rest and documents:
            text = f"{before}{begin}\n{section(documents)}{END}{rest.partition(END)[2]}"
    page.write_text(text)
