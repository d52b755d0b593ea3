"""``make bench-compare``: Funken and the alternatives, side by side on the same cores, in turn; every figure is a ratio first.

usage: python benchmarks/compare [--only NAME,...] [--systems NAME,...] [--cases TEXT] [--aims] [--quick] [--rounds N]
       [--seconds S] [--warmup S] [--fresh] [--docs] [--report] [--results FOLDER]

It goes on where it was interrupted: a measurement that is there for this commit and these parameters is not made again,
unless ``--fresh``. ``--aims`` is for the cases that the table of aims needs. ``--quick`` measures throughput for 3 s,
into ``results/quick``. ``--docs`` also puts the plots and tables into the documentation. ``--report`` measures nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import broker
import environments
import json_common
import report
from experiments import AIMED, EXPERIMENTS, MAIN, Case, elsewhere
from protocol import Spec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rounds import Rounds, Run, load
from systems import SYSTEMS

RESULTS = environments.HERE.parent / "results"
GUIDE = environments.ROOT / "docs" / "guide"
INPUTS = {"kafka": broker, "json": json_common}
"""What makes the input of an experiment, for all its runs, and removes it."""
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


def planned(args: argparse.Namespace, folder: Path, console: Console) -> list[tuple[Rounds, list[tuple[int, Case]]]]:
    """Return what is to be run, by experiment, and say how long that takes."""
    wanted = names(args.only, EXPERIMENTS) or list(AIMED if args.aims else MAIN if args.quick else EXPERIMENTS)
    systems, found, expected = set(names(args.systems, SYSTEMS)), [], 0.0
    for name in wanted:
        experiment = EXPERIMENTS[name]

        def chosen(case: Case, aimed: tuple[str, ...] = AIMED.get(name, ())) -> bool:
            of_aims = not args.aims or case.label in aimed
            return of_aims and (not systems or case.system in systems) and args.cases in case.label

        base = Spec(
            seconds=experiment.seconds if args.seconds is None else args.seconds,
            warmup=experiment.warmup if args.warmup is None else args.warmup,
        )
        rounds = Rounds(experiment, folder / f"{name}.json", base, args.fresh, console.print)
        todo = rounds.plan(experiment.rounds or args.rounds, chosen)
        expected += sum(elsewhere(name, case) + base.seconds + base.warmup for _, case in todo)
        found.append((rounds, todo))
    console.print(f"{sum(len(todo) for _, todo in found)} runs, about {expected / 60:.0f} min on two idle cores")
    return found


def run(args: argparse.Namespace, console: Console, folder: Path) -> None:
    """Build what is needed and run what is missing."""
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    ) as progress:
        broken: dict[str, str] = {}
        for rounds, todo in planned(args, folder, console):
            name = rounds.experiment.name
            with contextlib.ExitStack() as inputs:
                if name in INPUTS and todo:
                    inputs.callback(INPUTS[name].stop)  # also when this is asked to end
                    if not INPUTS[name].start(console.print):
                        continue
                task = progress.add_task(name, total=len(todo))
                for number, case in todo:
                    progress.update(task, description=f"{name}: {case.label}")
                    if ready(name, case, broken, console):
                        done = rounds.run(number, case)
                        line = f"  {name:<14} {number + 1}  {case.label:<40} {done['took']:>4.0f} s  {shown(done)}"
                        console.print(line)
                    progress.advance(task)
                progress.update(task, description=name)


def ready(name: str, case: Case, broken: dict[str, str], console: Console) -> bool:
    """Build what a case needs, if that did not fail before; tell whether it is there."""
    environment = SYSTEMS[case.system].environment
    if environment in broken:
        return False
    try:
        environments.build(environment, lambda text: console.print(f"  {text}"))
    except environments.CannotBuild as error:
        broken[environment] = str(error)
        console.print(f"[red]{error}[/red]")
        return False
    if name == "kafka" and not broker.connector(case.system, console.print):
        broken[environment] = "no connector"
        return False
    return True


def main() -> None:
    """Run, report, plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"experiments: {', '.join(EXPERIMENTS)}")
    parser.add_argument("--systems", default="", help=f"systems: {', '.join(SYSTEMS)}")
    parser.add_argument("--cases", default="", help="only cases whose name has this in it")
    parser.add_argument("--aims", action="store_true", help="only cases that the table of aims needs")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--warmup", type=float)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--results", type=Path, help="a folder other than benchmarks/results")
    args = parser.parse_args()
    if args.quick:
        args.seconds, args.warmup = args.seconds or 3.0, 3.0 if args.warmup is None else args.warmup
    for each in STOPS:
        signal.signal(each, stop)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    folder = args.results or (RESULTS / "quick" if args.quick else RESULTS)
    if not args.report:
        run(args, console, folder)
    documents = {name: load(folder / f"{name}.json") for name in EXPERIMENTS if (folder / f"{name}.json").exists()}
    if not documents:
        raise SystemExit(f"there are no results in {folder}")
    (folder / "README.md").write_text(report.markdown(documents))
    drawn = draw([folder, GUIDE / "images"] if args.docs else [folder], folder, console)
    if args.docs:
        for page in ("performance.md", "comparison.md", "cep.md"):
            report.into_page(GUIDE / page, documents)
    console.print(report.plain(report.verdicts(documents)))
    console.print(f"{folder / 'README.md'}")
    sys.exit(not drawn)


def draw(targets: list[Path], folder: Path, console: Console) -> bool:
    """Draw what a folder of results has, into other folders; tell whether that went well."""
    try:
        environments.build("plots", console.print)
        command = [environments.python("plots"), environments.HERE / "plots.py", folder, *targets]
        done = subprocess.run([str(part) for part in command], timeout=180, check=False)
    except (environments.CannotBuild, subprocess.TimeoutExpired) as error:
        console.print(f"[red]the plots could not be drawn: {error}[/red]")
        return False
    return not done.returncode


if __name__ == "__main__":
    main()
