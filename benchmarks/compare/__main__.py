"""``make bench-compare``: Funken and the alternatives, side by side on the same cores, in turn; every figure is a ratio first.

usage: python benchmarks/compare [--only NAME,...] [--systems NAME,...] [--quick] [--rounds N] [--seconds S] [--fresh] [--docs]

It goes on where it was interrupted: a measurement that is there for this commit and these parameters is not made again,
unless ``--fresh``. ``--quick`` measures throughput once, for 3 s, into ``results/quick``. ``--docs`` also puts the plots and
tables into the documentation. ``--report`` measures nothing.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import environments
import report
from experiments import EXPERIMENTS, MAIN
from protocol import Spec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rounds import Rounds, Run, load
from systems import SYSTEMS

RESULTS = environments.HERE.parent / "results"
GUIDE = environments.ROOT / "docs" / "guide"
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def names(text: str, known: object) -> list[str]:
    """Return names that are separated by commas or blanks; refuse unknown ones."""
    found = text.replace(",", " ").split()
    assert hasattr(known, "__contains__")
    for name in found:
        if name not in known:
            raise SystemExit(f"{name!r} is unknown; there are: {', '.join(known)}")  # type: ignore[attr-defined]
    return found


def shown(run: Run) -> str:
    """Return a run as a line."""
    figures = run["figures"]
    if "failed" in figures:
        return f"[red]failed: {figures['failed']}[/red]"
    if "unsupported" in figures:
        return f"[dim]left out: {figures['unsupported']}[/dim]"
    parts = [f"{figures['records_per_s'] / 1e6:.3f} M records/s"] if "records_per_s" in figures else []
    parts += [f"{name} {figures[name]:.1f} ms" for name in ("p50", "p99") if name in figures]
    return ", ".join(parts) or "done"


def stop(number: int, frame: object) -> NoReturn:
    """End in order when asked to; asked again while that goes on, finish it first."""
    for each in STOPS:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def run(args: argparse.Namespace, console: Console, folder: Path) -> None:
    """Build what is needed and run what is missing."""
    wanted = names(args.only, EXPERIMENTS) or list(MAIN if args.quick else EXPERIMENTS)
    systems = set(names(args.systems, SYSTEMS))
    base = Spec(seconds=args.seconds, warmup=args.warmup)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    ) as progress:
        broken: dict[str, str] = {}
        for name in wanted:
            experiment = EXPERIMENTS[name]
            rounds = Rounds(experiment, folder / f"{name}.json", base, args.fresh, console.print)
            todo = rounds.plan(experiment.rounds or args.rounds, systems)
            task = progress.add_task(name, total=len(todo))
            for number, case in todo:
                environment = SYSTEMS[case.system].environment
                progress.update(task, description=f"{name}: {case.label}")
                if environment not in broken:
                    try:
                        environments.build(environment, lambda text: console.print(f"  {text}"))
                    except environments.CannotBuild as error:
                        broken[environment] = str(error)
                        console.print(f"[red]{error}[/red]")
                if environment not in broken:
                    done = rounds.run(number, case)
                    console.print(f"  {name:<12} {number + 1}  {case.label:<38} {shown(done)}")
                progress.advance(task)
            progress.update(task, description=name)


def main() -> None:
    """Run, report, plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"experiments: {', '.join(EXPERIMENTS)}")
    parser.add_argument("--systems", default="", help=f"systems: {', '.join(SYSTEMS)}")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--warmup", type=float)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    args.rounds = args.rounds or (1 if args.quick else 3)
    args.seconds = args.seconds or (3 if args.quick else 10)
    args.warmup = args.warmup if args.warmup is not None else (3 if args.quick else 5)
    for each in STOPS:
        signal.signal(each, stop)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    folder = RESULTS / "quick" if args.quick else RESULTS
    if not args.report:
        run(args, console, folder)
    documents = {name: load(folder / f"{name}.json") for name in EXPERIMENTS if (folder / f"{name}.json").exists()}
    if not documents:
        raise SystemExit(f"there are no results in {folder}")
    text = report.markdown(documents)
    (folder / "README.md").write_text(text)
    console.print(report.plain(report.verdicts(documents)))
    console.print(f"{folder / 'README.md'}")
    environments.build("plots", console.print)
    plots = [str(environments.python("plots")), str(environments.HERE / "plots.py"), str(folder), str(folder)]
    if args.docs:
        plots.append(str(GUIDE / "images"))
    done = subprocess.run(plots, timeout=180, check=False)
    if done.returncode:
        raise SystemExit("the plots could not be drawn")
    if args.docs:
        report.into_page(GUIDE / "performance.md", documents)


if __name__ == "__main__":
    main()
