"""``make nexmark``: each query is compared with DuckDB over the same events; only then is it measured.

usage: run.py [--query q5,q7] [--mode local,local-parquet,batch,batch-parquet,continuous | all] [--events N] [--seconds S]
              [--runs N] [--checked N] [--seed N] [--width N] [--check | --golden] [--docs]

``local`` and ``batch`` take the time that a job over N events needs from beginning to end; on Spark that includes some
seconds until its tasks run, so N should be large. ``continuous`` watches a job without end for S seconds. The source
makes its events in the same tasks, so q0 is what that costs; ``local-parquet`` and ``batch-parquet`` read them from files,
which are written before. ``--docs`` puts what is kept into the guide, ``--golden`` what
DuckDB finds in few events into the tests.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "compare"))

import book
import environments
import golden
from checking import WrongResult, check
from duck import NoAnswer, Oracle
from events import Nexmark
from files import write_events
from protocol import Reading, Spec, Stalled, watch
from queries.catalogue import ALL
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from streams import GeneratedStreams, ParquetStreams, Query, Streams

from funken import Configuration, DiscardingSink, FunkenError, JobClient, StreamExecutionEnvironment

HERE = Path(__file__).parent
EVENTS = {"local": 100_000, "batch": 2_000_000, "local-parquet": 1_000_000, "batch-parquet": 2_000_000}
LIMIT = 900
"""How long a query may take beyond the seconds it is measured (s): one that hangs must not hold up the others."""

CANCEL_SECONDS = 120


def environment(mode: str, width: int) -> StreamExecutionEnvironment:
    """Return an environment that runs in a mode."""
    conf = Configuration({"execution.target": mode.partition("-")[0], "parallelism.default": width})
    return StreamExecutionEnvironment.get_execution_environment(conf)


def generated(env: StreamExecutionEnvironment, nexmark: Nexmark, count: int | None, folder: str) -> Streams:
    """Return streams whose events are made in the job."""
    return GeneratedStreams(env, nexmark.source(count), folder)


class FromParquet:
    """Makes streams of events in files, which are written when they are first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, env: StreamExecutionEnvironment, nexmark: Nexmark, count: int | None, folder: str) -> Streams:
        assert count is not None
        events = self._folder / f"{nexmark.seed}-{nexmark.rate}-{count}"
        if not events.exists():
            write_events(nexmark, count, events)
        return ParquetStreams(env, events, folder)


def program(query: Query, env: StreamExecutionEnvironment, streams: Streams) -> None:
    """Add a query, with its sink."""
    query.program(streams).sink_to(query.sink(streams.folder) if query.sink else DiscardingSink())


New = Callable[[], StreamExecutionEnvironment]


def timed(query: Query, args: argparse.Namespace, new: New, folder: str) -> dict[str, float]:
    """Return the speed of a job over a number of events: the median of several."""
    seconds = []
    for turn in range(args.runs):
        env = new()
        place = Path(folder) / str(turn)
        place.mkdir()
        program(query, env, args.streams(env, Nexmark(args.seed), args.events, str(place)))
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


def watched(query: Query, args: argparse.Namespace, new: New, folder: str) -> dict[str, float]:
    """Return the speed of a job without end."""
    env = new()
    program(query, env, args.streams(env, Nexmark(args.seed), None, folder))
    client = env.execute_async(query.name)
    sources = [vertex.id for vertex in client.plan.vertices if vertex.source]
    try:
        figures = watch(lambda: read(client, sources), Spec(seconds=args.seconds))
    finally:
        client.cancel().result(CANCEL_SECONDS)
    return {"events_per_s": figures["records_per_s"], "seconds": round(figures["seconds"], 3)}


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise ``TimeoutError`` in the midst of a block that takes longer."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"it took more than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def measured(query: Query, args: argparse.Namespace, new: New) -> dict[str, Any]:
    """Measure a query, and how busy the machine was with something else."""
    with tempfile.TemporaryDirectory() as folder, book.beside() as others:
        figures = (watched if args.mode == "continuous" else timed)(query, args, new, folder)
    return figures | others


def run(query: Query, args: argparse.Namespace, oracle: Oracle) -> dict[str, Any]:
    """Check a query, then measure it; without a figure if the result is wrong."""

    def new() -> StreamExecutionEnvironment:
        return environment(args.mode, args.width)

    known: dict[str, Any] = {"parallelism": args.width, "events_checked": args.checked}
    try:
        with tempfile.TemporaryDirectory() as folder, within(LIMIT + args.seconds):
            known["rows_checked"] = check(query, new, args.streams, args.seed, oracle, Path(folder))
            return known if args.check else known | measured(query, args, new)
    except (WrongResult, Stalled, NoAnswer, TimeoutError, FunkenError) as error:
        return known | {"failed": f"{type(error).__name__}: {error}"}


def all_of(mode: str, names: list[str], args: argparse.Namespace, oracle: Oracle, console: Console) -> bool:
    """Run queries in a mode, keep and print their figures; return whether all are right."""
    args.mode, args.events = mode, args.wanted or EVENTS.get(mode, 0)
    args.streams = FromParquet(Path(args.kept) / "parquet") if mode.endswith("-parquet") else generated
    table = Table("query", "", "rows checked", "events/s", title=f"Nexmark, {mode}, parallelism {args.width}")
    right = True
    for name in names:
        figures = run(ALL[name], args, oracle)
        right &= "failed" not in figures
        speed = f"{figures['events_per_s']:,.0f}" if "events_per_s" in figures else ""
        told = escape(figures.get("failed", speed))
        table.add_row(name, ALL[name].title, f"{figures.get('rows_checked', '')}", told)
        console.print(f"{mode} {name}: {figures.get('rows_checked', 'no')} rows checked  {told}")
        if not args.check:
            book.keep(mode, name, figures)
    console.print(table)
    return right


def chosen(text: str, known: list[str] | tuple[str, ...], what: str) -> list[str]:
    """Return names that are separated by commas or blanks, all by default; refuse unknown ones."""
    names = text.replace(",", " ").split()
    names = list(known) if names in ([], ["all"]) else names
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"{', '.join(unknown)} is no {what}; there are {', '.join(known)}")
    return names


def main() -> None:
    """Check, measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--query", default="", help=f"some of {', '.join(ALL)}; all by default")
    parser.add_argument("--mode", default="local", help=f"some of {', '.join(book.MODES)}, or all")
    parser.add_argument("--events", type=int, default=0, dest="wanted", help="how many to measure with, but continuous")
    parser.add_argument("--seconds", type=float, default=10, help="how long to measure, in continuous mode")
    parser.add_argument("--runs", type=int, default=3, help="the median of how many, in local and batch mode")
    parser.add_argument("--checked", type=int, default=20_000, help="how many events to check with")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--width", type=int, default=2, help="the parallelism")
    parser.add_argument("--check", action="store_true", help="measure nothing, and keep nothing")
    parser.add_argument("--golden", action="store_true", help="run nothing; renew what the tests compare with")
    parser.add_argument("--docs", action="store_true", help="also put all that is kept into the guide")
    args = parser.parse_args()
    names, modes = chosen(args.query, list(ALL), "query"), chosen(args.mode, book.MODES, "mode")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    environments.build("duckdb", console.print)
    os.environ["PYTHONPATH"] = str(HERE)  # Spark's workers find the programs' modules by it
    with tempfile.TemporaryDirectory() as folder:
        if args.golden:
            golden.write(lambda count: Oracle(environments.python("duckdb"), Path(folder), count))
            return
        args.kept = folder
        oracle = Oracle(environments.python("duckdb"), Path(folder), args.checked)
        right = [all_of(mode, names, args, oracle, console) for mode in modes]
    if args.docs:
        book.into_page(book.GUIDE, {mode: book.load(mode) for mode in book.MODES})
    sys.exit(not all(right))


if __name__ == "__main__":
    main()
