"""``make nexmark-sql``: Nexmark in SQL beside Funken's DataStream programs, of the same Parquet files, in this process.

usage: nexmark_sql.py [--query q5,q7] [--events N] [--runs N] [--checked N] [--width N] [--seed N] [--folder FOLDER]
                      [--check] [--only sql|streams] [--mini-batch]

The queries are those that ``nexmark/flink_queries.py`` has for Flink's SQL, over tables of the filesystem connector. Each
result is compared with DuckDB's, every field of every row, at a rate at which no two events have the same time; only then is it
measured: SQL and the DataStream program take turns, and the median of each counts. ``--folder`` keeps the events for the next
call.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "compare"))
sys.path.insert(0, str(Path(__file__).parent / "nexmark"))

import environments
from checking import WrongResult, compare
from duck import NoAnswer, Oracle
from events import Nexmark
from files import write_events
from flink_queries import CANNOT, QUERIES
from on_funken_sql import insertion, rows
from queries.catalogue import QUERIES as PROGRAMS
from streams import ParquetStreams

from funken import Configuration, DiscardingSink, FunkenError, StreamExecutionEnvironment

CHECKED_RATE = 200
MINI_BATCHES = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
}
"""As in Nexmark's own configuration for Flink."""


def options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a job."""
    found = {"execution.target": "local", "parallelism.default": args.width}
    return found | (MINI_BATCHES if args.mini_batch else {})


def checked(query: str, args: argparse.Namespace, oracle: Oracle, folder: Path) -> int:
    """Compare the result of a query with DuckDB's; return the number of rows."""
    nexmark = Nexmark(args.seed, CHECKED_RATE)
    right = oracle.rows(query, nexmark)
    events = str(folder / f"{nexmark.rate}-a-second")
    return compare(query, rows(options(args), query, "", events, f"{folder}/log"), right)


def timed(execute: Callable[[], Any]) -> tuple[float, float]:
    """Return the seconds that a job takes, and those of CPU: all of it runs in this process."""
    began, before = time.perf_counter(), time.process_time()
    execute()
    return time.perf_counter() - began, time.process_time() - before


def of_sql(query: str, args: argparse.Namespace, events: Path) -> tuple[float, float]:
    """Run a query whose rows are dropped."""
    with tempfile.TemporaryDirectory() as folder:
        return timed(insertion(options(args), query, "", str(events), f"{folder}/log"))


def of_streams(query: str, args: argparse.Namespace, events: Path) -> tuple[float, float]:
    """Run a DataStream program whose records are dropped."""
    conf = Configuration({"execution.target": "local", "parallelism.default": args.width})
    env = StreamExecutionEnvironment.get_execution_environment(conf)
    with tempfile.TemporaryDirectory() as folder:
        program = PROGRAMS[query]
        sink = program.sink(folder) if program.sink else DiscardingSink()
        program.program(ParquetStreams(env, events, folder, whole=True)).sink_to(sink)
        return timed(lambda: env.execute(query))


SYSTEMS = {"sql": of_sql, "streams": of_streams}


def measured(query: str, args: argparse.Namespace, events: Path) -> dict[str, float]:
    """Return the events per second of each system, and per second of CPU."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in args.systems}
    for _ in range(args.runs):
        for name in args.systems:
            gc.collect()
            found[name].append(SYSTEMS[name](query, args, events))
    figures: dict[str, float] = {}
    for name, runs in found.items():
        figures[name] = round(args.events / statistics.median(seconds for seconds, _ in runs))
        figures[f"{name}_cpu"] = round(args.events / statistics.median(spent for _, spent in runs))
    return figures


def run(query: str, args: argparse.Namespace, oracle: Oracle | None, folder: Path) -> dict[str, Any]:
    """Check and measure a query."""
    try:
        rows = 0 if oracle is None else checked(query, args, oracle, Path(oracle._folder))
        figures = {} if args.check else measured(query, args, folder)
        return {"rows": rows, **figures}
    except (
        WrongResult,
        NoAnswer,
        FunkenError,
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
    ) as error:
        if args.verbose:
            raise
        return {"failed": f"{type(error).__name__}: {error}"[:600]}


def told(figures: dict[str, Any]) -> str:
    """Return figures as a line."""
    if "failed" in figures:
        return str(figures["failed"])
    parts = [f"{figures['rows']:7,} rows"]
    for name in filter(figures.__contains__, SYSTEMS):
        parts += [f"{name} {figures[name]:10,} events/s, {figures[f'{name}_cpu']:10,} per CPU second"]
    parts += [f"{title} {found:.2f} x" for title, found in compared(figures).items()]
    return "  ".join(parts)


def compared(figures: dict[str, Any]) -> dict[str, float]:
    """Return how many times as fast SQL is, by the clock and per second of CPU."""
    if not all(name in figures for name in SYSTEMS):
        return {}
    return {title: figures["sql" + of] / figures["streams" + of] for title, of in (("time", ""), ("CPU", "_cpu"))}


def main() -> None:
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--query", default="", help=f"some of {', '.join(QUERIES)}; all by default")
    parser.add_argument("--events", type=int, default=500_000, help="how many to measure with")
    parser.add_argument("--runs", type=int, default=3, help="the median of how many counts")
    parser.add_argument("--checked", type=int, default=20_000, help="how many events to check with; 0: do not check")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--width", type=int, default=2, help="the parallelism")
    parser.add_argument("--folder", type=Path, help="where events are kept")
    parser.add_argument("--check", action="store_true", help="measure nothing")
    parser.add_argument("--only", choices=SYSTEMS, help="measure one system")
    parser.add_argument("--mini-batch", action="store_true", help="with mini-batches, as Nexmark sets them for Flink")
    parser.add_argument("--json", type=Path, help="where figures are written")
    parser.add_argument("--verbose", action="store_true", help="let errors through")
    args = parser.parse_args()
    args.systems = [args.only] if args.only else list(SYSTEMS)
    wanted = args.query.replace(",", " ").split() or list(QUERIES)
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as own:
        folder = args.folder or Path(own)
        oracle = None
        if args.checked:
            environments.build("duckdb", print)
            checks = folder / f"checked-{args.seed}-{args.checked}"
            checks.mkdir(parents=True, exist_ok=True)
            oracle = Oracle(environments.python("duckdb"), checks, args.checked)
        events = folder / f"events-{args.seed}-{args.events}-{args.width}"
        if not args.check and not events.exists():
            write_events(Nexmark(args.seed), args.events, events, args.width)
        for query in wanted:
            found[query] = {"failed": CANNOT[query]} if query in CANNOT else run(query, args, oracle, events)
            print(f"{query:4} {told(found[query])}", flush=True)
    ratios = [ratio for figures in found.values() if (ratio := compared(figures))]
    for title in ratios[0] if ratios else ():
        mean = math.exp(statistics.fmean(math.log(ratio[title]) for ratio in ratios))
        print(f"SQL / DataStream, {title}: {mean:.2f} (geometric mean of {len(ratios)} queries)")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
