"""``make nexmark``: each query is compared with DuckDB over the same events; only then is it measured.

usage: run.py [--query q5,q7] [--events N] [--mode local|batch|continuous] [--seconds S] [--checked N] [--seed N] [--width N]

``local`` and ``batch`` take the time that a job over N events needs from beginning to end; on Spark that includes some
seconds until its tasks run, so N should be large. ``continuous`` watches a job without end for S seconds. The source
makes its events in the same tasks, so q0 is what that costs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "compare"))

import environments
from checking import WrongResult, check
from duck import Oracle
from events import Nexmark
from protocol import Reading, Spec, Stalled, watch
from queries.catalogue import QUERIES
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rounds import machine
from streams import Query, Streams

from funken import Configuration, DiscardingSink, FunkenError, JobClient, StreamExecutionEnvironment

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results" / "nexmark.json"
MODES = ("local", "batch", "continuous")
EVENTS = {"local": 100_000, "batch": 2_000_000}


def environment(mode: str, width: int) -> StreamExecutionEnvironment:
    """Return an environment that runs in a mode."""
    conf = Configuration({"execution.target": mode, "parallelism.default": width})
    return StreamExecutionEnvironment.get_execution_environment(conf)


def program(query: Query, env: StreamExecutionEnvironment, count: int | None, seed: int, folder: str) -> None:
    """Add a query, with its sink, at the event rate of the specification."""
    stream = query.program(Streams(env, Nexmark(seed).source(count), folder))
    stream.sink_to(query.sink(folder) if query.sink else DiscardingSink())


def timed(query: Query, args: argparse.Namespace, folder: str) -> dict[str, float]:
    """Return the speed of a job over a number of events: the median of several."""
    seconds = []
    for turn in range(args.runs):
        env = environment(args.mode, args.width)
        place = Path(folder) / str(turn)
        place.mkdir()
        program(query, env, args.events, args.seed, str(place))
        begin = time.perf_counter()
        env.execute(query.name)
        seconds.append(time.perf_counter() - begin)
    return {"events_per_s": args.events / statistics.median(seconds), "events": args.events, "runs": args.runs}


def read(client: JobClient, sources: list[int]) -> Reading:
    """Return how many events a running job has read."""
    if client.get_job_execution_result().done():
        client.get_job_execution_result().result()
    tasks = list(client.metrics().values())
    count = sum(task.vertices[source].records_in for task in tasks for source in sources if source in task.vertices)
    return time.monotonic(), count, {}


def watched(query: Query, args: argparse.Namespace, folder: str) -> dict[str, float]:
    """Return the speed of a job without end."""
    env = environment(args.mode, args.width)
    program(query, env, None, args.seed, folder)
    client = env.execute_async(query.name)
    sources = [vertex.id for vertex in client.plan.vertices if vertex.source]
    try:
        figures = watch(lambda: read(client, sources), Spec(seconds=args.seconds))
    finally:
        client.cancel().result(60)
    return {"events_per_s": figures["records_per_s"], "seconds": figures["seconds"]}


def run(query: Query, args: argparse.Namespace, oracle: Oracle) -> dict[str, Any]:
    """Check a query, then measure it; without a figure if the result is wrong."""
    measure = watched if args.mode == "continuous" else timed
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        try:
            rows = check(query, lambda: environment(args.mode, args.width), args.seed, oracle, Path(first))
            return {"rows_checked": rows, **({} if args.check else measure(query, args, second))}
        except (WrongResult, Stalled, FunkenError) as error:
            return {"failed": f"{type(error).__name__}: {error}"}


def commit() -> str:
    """Return the newest commit, with a ``+`` if the working tree differs from it."""
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return git.stdout.strip() or "unknown"


def keep(args: argparse.Namespace, name: str, figures: dict[str, Any]) -> None:
    """Put the figures of a query into the results."""
    document: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    document |= {"machine": machine(), "duckdb": environments.PACKAGES["duckdb"]}
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    told = {**figures, "parallelism": args.width, "events_checked": args.checked, "commit": commit(), "at": at}
    document.setdefault("modes", {}).setdefault(args.mode, {})[name] = told
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")


def main() -> None:
    """Check, measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--query", default="", help=f"some of {', '.join(QUERIES)}; all by default")
    parser.add_argument("--mode", default="local", choices=MODES)
    parser.add_argument("--events", type=int, default=0, help="how many to measure with, in local and batch mode")
    parser.add_argument("--seconds", type=float, default=10, help="how long to measure, in continuous mode")
    parser.add_argument("--runs", type=int, default=3, help="the median of how many, in local and batch mode")
    parser.add_argument("--checked", type=int, default=20_000, help="how many events to check with")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--width", type=int, default=2, help="the parallelism")
    parser.add_argument("--check", action="store_true", help="measure nothing, and keep nothing")
    args = parser.parse_args()
    args.events = args.events or EVENTS.get(args.mode, 0)
    names = args.query.replace(",", " ").split() or list(QUERIES)
    if unknown := [name for name in names if name not in QUERIES]:
        parser.error(f"{', '.join(unknown)} is no query; there are {', '.join(QUERIES)}")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    environments.build("duckdb", console.print)
    os.environ["PYTHONPATH"] = str(HERE)  # Spark's workers find the programs' modules by it
    table = Table("query", "", "rows checked", "events/s", title=f"Nexmark, {args.mode}, parallelism {args.width}")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        oracle = Oracle(environments.python("duckdb"), Path(folder), args.checked)
        for name in names:
            figures = run(QUERIES[name], args, oracle)
            failed |= "failed" in figures
            speed = f"{figures['events_per_s']:,.0f}" if "events_per_s" in figures else ""
            told = escape(figures.get("failed", speed))
            table.add_row(name, QUERIES[name].title, f"{figures.get('rows_checked', '')}", told)
            console.print(f"{name}: {figures.get('rows_checked', 'no')} rows checked  {told}")
            if not args.check:
                keep(args, name, figures)
    console.print(table)
    sys.exit(failed)


if __name__ == "__main__":
    main()
