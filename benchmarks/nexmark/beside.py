"""``make nexmark BESIDE=flink-sql``: the queries on Flink's SQL and on Funken, of the same files or topics, one after the other.

usage: beside.py [--source parquet|kafka] [--query q5,q7] [--systems NAMES] [--events N] [--fewer N] [--rounds N] [--together N]
                 [--parallelism N] [--seconds S] [--seed N] [--folder FOLDER] [--results FOLDER] [--check] [--resume]
                 [--minutes M] [--docs]

A system has a process of its own for a query, or for several with ``--together``. A result is compared with DuckDB's first,
every field of every row; a wrong one has no figure. Then jobs over few and over many events take turns, after one over many that
warms the process up, its JVM and its Python workers. Events per second are those of the longer jobs, from the submission of a
job to its end; the steady figure is what the longer jobs have more, over what they need more, where that is enough to tell. Each
kind of event has as many files, or partitions of a topic, as there are subtasks, and each of them one reader. Figures go to
``benchmarks/results/nexmark-beside.json``, with ``-kafka`` and ``-sql`` in its name for those, query by query; ``--resume``
leaves out what is there, of the same commit and numbers of events; after ``--minutes`` no query is begun; ``--docs`` puts
figures into the guide.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "compare"))

import book
import environments
import flink_queries
import sessions
from beside_page import FLINK, FLINKS, SYSTEMS, Document, into_page, mean, ratios
from checking import WrongResult, compare
from duck import NoAnswer, Oracle
from events import Nexmark
from queries.catalogue import QUERIES
from queries.joins import side_input
from rounds import machine
from sources import STEMS, Events, Place, provided

HERE = Path(__file__).parent
CHECKED, CHECKED_RATE = 20_000, 200
TELLING = 1.25
"""Jobs over many events that take less than so many times as long as those over few tell only what the start of a job costs."""


def tasks(query: str, places: dict[str, str], rounds: int) -> list[tuple[str, str, str]]:
    """Return what a process does for a query, in order: the result, a job that warms up, then few and many events in turn."""
    turns = ["many", *["few", "many"] * rounds] if rounds else []
    return [("rows", query, places["checked"]), *(("run", query, places[which]) for which in turns)]


def answers(
    name: str, wanted: list[tuple[str, str, str]], place: Place, args: argparse.Namespace, folder: str
) -> Iterator[Any]:
    """Run tasks on a system; give a line for each."""
    system = SYSTEMS[name]
    side_input(folder)
    spec: dict[str, Any] = {
        "parallelism": args.parallelism,
        "options": system.options,
        "tasks": wanted,
        "folder": folder,
        "servers": place.servers,
    }
    if system.flink:
        spec["jars"] = [str(path) for path in place.jars]
    command = [
        str(environments.python(system.environment)),
        "-W",
        "ignore",
        str(HERE / system.script),
        json.dumps(spec),
    ]
    return sessions.run(command, folder, len(wanted), args.seconds, place.process)


def together(
    name: str, queries: list[str], place: Place, oracle: Oracle, args: argparse.Namespace
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Check and measure queries on a system in one process; give the figures of each as soon as they are known."""
    cannot = flink_queries.CANNOT if SYSTEMS[name].sql else {}
    yield from ((query, {"cannot": cannot[query]}) for query in queries if query in cannot)
    left = [query for query in queries if query not in cannot]
    rounds = 0 if args.check else args.rounds
    of_one = tasks("", place.events, rounds)
    wanted = [task for query in left for task in tasks(query, place.events, rounds)]
    if not wanted:
        return
    with tempfile.TemporaryDirectory(prefix="funken-nexmark-") as folder:
        lines, before = answers(name, wanted, place, args, folder), 0.0
        try:
            while left:
                of_query = []
                for _ in of_one:
                    line = next(lines)
                    of_query.append(line | {"spent": line["cpu"] - before})
                    before = line["cpu"]
                yield left[0], judged(name, left[0], of_query, Path(folder), oracle, args)
                left.pop(0)
        except sessions.SystemFailed as error:
            yield left[0], {"failed": f"SystemFailed: {str(error).strip()[:1500]}"}
            if left[1:]:
                yield from together(name, left[1:], place, oracle, args)


def judged(
    name: str, query: str, lines: list[dict[str, Any]], folder: Path, oracle: Oracle, args: argparse.Namespace
) -> dict[str, Any]:
    """Return the figures of a query; without a speed if a job failed or the result is wrong."""
    figures: dict[str, Any] = {"memory": max(line["memory"] for line in lines), "others": lines[-1]["others"]}
    try:
        if failed := [line["failed"] for line in lines if "failed" in line]:
            return figures | {"failed": failed[0]}
        rows = pickle.loads((folder / f"{query}.pickle").read_bytes())
        figures["rows_checked"] = right(name, query, rows, oracle, Nexmark(args.seed, CHECKED_RATE))
    except (WrongResult, NoAnswer) as error:
        return figures | {"failed": f"{type(error).__name__}: {str(error).strip()[:1500]}"}
    if args.check:
        return figures
    few, many = lines[2::2], lines[3::2]  # the first one warms up
    shorter, longer = (statistics.median(line["seconds"] for line in of) for of in (few, many))
    spent = statistics.median(line["spent"] for line in many) - statistics.median(line["spent"] for line in few)
    more = args.events - args.fewer
    figures |= {
        "together": args.together,
        "few": args.fewer,
        "many": args.events,
        "few_s": round(shorter, 3),
        "many_s": round(longer, 3),
    }
    figures["events_per_s"] = round(args.events / longer)
    if longer >= TELLING * shorter:
        figures["steady_events_per_s"] = round(more / (longer - shorter))
        figures |= {"events_per_cpu_s": round(more / spent)} if spent > 0 else {}
    return figures


def right(name: str, query: str, rows: list[Any], oracle: Oracle, checked: Nexmark) -> int:
    """Compare a result with DuckDB's."""
    if SYSTEMS[name].flink and query in flink_queries.UNCHECKED:
        return 0
    return compare(query, rows, oracle.rows(query, checked))


def kept(args: argparse.Namespace) -> Document:
    """Return what was measured so far on this machine, with these versions and this parallelism."""
    here = {"machine": machine(), "versions": book.versions() | {"flink": environments.PACKAGES["pyflink"][0]}}
    here["parallelism"] = args.parallelism
    document: Document = json.loads(args.file.read_text()) if args.file.exists() else {}
    same = all(document.get(fact) == value for fact, value in here.items())
    return document if same else {**here, "queries": {}}


def keep(query: str, name: str, figures: dict[str, Any], args: argparse.Namespace) -> None:
    """Put the figures of a query and a system into the document."""
    document = kept(args)
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    document["queries"].setdefault(query, {})[name] = figures | {"commit": book.commit(), "at": at}
    document["queries"] = {each: document["queries"][each] for each in QUERIES if each in document["queries"]}
    partial = args.file.with_suffix(".partial")
    partial.write_text(json.dumps(document, indent=1) + "\n")
    partial.replace(args.file)


def is_kept(document: Document, query: str, name: str, args: argparse.Namespace) -> bool:
    """Return whether a query was measured on a system, at this commit and over as many events, or cannot be."""
    figures = document["queries"].get(query, {}).get(name, {})
    same = (figures.get("few"), figures.get("many"), figures.get("commit")) == (args.fewer, args.events, book.commit())
    return "cannot" in figures or (same and "events_per_s" in figures)


def left_of(queries: list[str], systems: list[str], args: argparse.Namespace) -> dict[str, list[str]]:
    """Return the systems that each query is to run on: not those whose figures are kept, nor for which it makes no difference."""
    document = kept(args) if args.resume else {"queries": {}}
    found = {
        query: [name for name in systems if SYSTEMS[name].differs(query) and not is_kept(document, query, name, args)]
        for query in queries
    }
    return {query: names for query, names in found.items() if names}


def main() -> None:
    """Check, measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", choices=STEMS, default="parquet", help="where the events come from")
    parser.add_argument("--query", default="", help=f"some of {', '.join(QUERIES)}; all by default")
    parser.add_argument("--systems", default=f"{FLINK},funken", help=f"some of {', '.join(SYSTEMS)}")
    parser.add_argument("--events", type=int, default=2_000_000, help="how many the longer jobs have")
    parser.add_argument("--fewer", type=int, default=500_000, help="how many the shorter jobs have")
    parser.add_argument("--rounds", type=int, default=2, help="so many jobs of either length; medians count")
    parser.add_argument("--together", type=int, default=1, help="so many queries share a process of a system")
    parser.add_argument("--parallelism", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=240, help="how long a job may take")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the events stay for the next call")
    parser.add_argument("--results", type=Path, default=book.RESULTS, help="where figures are kept")
    parser.add_argument("--check", action="store_true", help="measure nothing, and keep nothing")
    parser.add_argument("--resume", action="store_true", help="leave out what was measured at this commit")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin with no query after so long")
    parser.add_argument("--docs", action="store_true", help="also put all that is kept into the guide")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # what runs ends with this process
    queries = sessions.chosen(args.query, QUERIES, "query", parser)
    systems = sessions.chosen(args.systems, SYSTEMS, "system", parser)
    stem = STEMS[args.source] + (
        "-sql" if any(SYSTEMS[name].sql and not SYSTEMS[name].flink for name in systems) else ""
    )
    args.file = args.results / f"nexmark-{stem}.json"
    end = time.monotonic() + 60 * args.minutes
    for name in {SYSTEMS[name].environment for name in systems} | {"duckdb"}:
        environments.build(name, print)
    failed, left = False, left_of(queries, systems, args)
    with tempfile.TemporaryDirectory() as own:
        oracle = Oracle(environments.python("duckdb"), Path(own), CHECKED)
        with provided(args.source, events(args) if left else {}, (args.folder or Path(own)).resolve()) as place:
            for number, chunk in enumerate(batched(list(left), max(1, args.together))):
                if time.monotonic() > end:
                    print(f"not begun: {', '.join(list(left)[number * max(1, args.together) :])}; go on with --resume")
                    break
                for name in systems if number % 2 else systems[::-1]:
                    of_system = [query for query in chunk if name in left[query]]
                    for query, figures in together(name, of_system, place, oracle, args):
                        failed |= "failed" in figures
                        print(f"{query:4} {SYSTEMS[name].title:24} {told(figures)}", flush=True)
                        if not args.check:
                            keep(query, name, figures, args)
    if args.file.exists():
        document = json.loads(args.file.read_text())
        for line in compared(document):
            print(line)
        if args.docs:
            into_page(book.GUIDE, document, stem)
    sys.exit(failed)


def events(args: argparse.Namespace) -> dict[str, Events]:
    """Return which events there have to be."""
    checked = {"checked": Events(args.seed, CHECKED_RATE, CHECKED, args.parallelism)}
    if args.check:
        return checked
    few, many = (Events(args.seed, 10_000, count, args.parallelism) for count in (args.fewer, args.events))
    return checked | {"few": few, "many": many}


def compared(document: Document) -> Iterator[str]:
    """Give a line for each of our systems: how it compares with Flink's better one."""
    for name, system in SYSTEMS.items():
        if system.flink or not (found := ratios(document, name, FLINKS)):
            continue
        text = f"{mean(found):.2f} over {len(found)} queries"
        if steady := ratios(document, name, FLINKS, "steady_events_per_s"):
            text += f"; without the start of jobs {mean(steady):.2f} over {len(steady)}"
        if spent := ratios(document, name, FLINKS, "events_per_cpu_s"):
            text += f", per second of CPU {mean(spent):.2f}"
        yield f"{system.title} / Flink: {text}"


def batched(names: list[str], size: int) -> Iterator[list[str]]:
    """Give so many names at a time."""
    return (names[start : start + size] for start in range(0, len(names), size))


def told(figures: dict[str, Any]) -> str:
    """Return figures as a line."""
    if why := figures.get("failed") or figures.get("cannot"):
        return str(why)
    rows = f"{figures['rows_checked']:,} rows are right"
    if "events_per_s" not in figures:
        return rows
    seconds = f"{figures['few_s']:.2f} and {figures['many_s']:.2f} s"
    return f"{figures['events_per_s']:12,.0f} events/s; {rows}; {seconds}, {figures['memory'] / 1e9:.1f} GB"


if __name__ == "__main__":
    main()
