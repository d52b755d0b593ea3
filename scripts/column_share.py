"""Which operators of the Nexmark queries and of the examples run on columns, which record by record, and why.

``make column-share``. Plans are compiled and rewritten as for a job, and nothing runs: the
queries read Parquet files, of which a few are written; an example runs up to its first ``execute()``. What counts is what
``explain()`` says of an operator, sources and sinks included. Behind an operator that gives single records, the reason is that
of the operator where records begin.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from funken import Configuration, StreamExecutionEnvironment
from funken.api.jobs.results import watch_jobs
from funken.cli.run import run_script
from funken.config import set_default_configuration
from funken.plan.columns import VECTORIZED

ROOT = Path(__file__).parents[1]
EVENTS = 200
WIDTH = 2
SECONDS = 120
"""How long an example may take until its plan is known (s)."""

SPARK = "needs Spark"
BATCH = "no streaming program: it has no plan of this kind"


@dataclass(frozen=True)
class Operator:
    """What a plan says of an operator; ``root``: where its records begin, and why, if it is not on columns."""

    name: str
    kind: str
    on_columns: bool
    path: str
    root: str = ""


def operators_of(plan: Any) -> list[Operator]:
    """Return the operators of a plan that the rules were applied to.

    >>> from funken.testing import local
    >>> numbers = local([1])
    >>> _ = numbers.map(lambda n: [n]).print()
    >>> [(each.name, each.on_columns, each.root) for each in operators_of(numbers.get_execution_environment().compile())][1:]
    [('map', False, 'makes a list'), ('print', False, 'makes a list')]
    """
    nodes = {node.id: node for node in plan.nodes}
    paths = {number: plan.decided("columns", number) or "" for number in nodes}
    roots: dict[Any, str] = {}
    found = []
    for number, node in nodes.items():  # in topological order
        on_columns = paths[number].startswith(VECTORIZED)
        reason = paths[number].removeprefix("per record: ").removeprefix(f"{VECTORIZED}; gives records: ")
        given = [nodes[each.upstream].id for each in node.inputs]
        before = [
            roots[each] for each in given if paths[number].endswith(f"{nodes[each].name!r} gives it single records")
        ]
        roots[number] = before[0] if before else reason
        found.append(Operator(node.name, node.kind, on_columns, paths[number], "" if on_columns else roots[number]))
    return found


def nexmark(configuration: dict[str, Any], folder: Path) -> Iterator[tuple[str, list[Operator] | str]]:
    """Yield the operators of each query over Parquet files."""
    sys.path[:0] = [str(ROOT / "benchmarks" / "compare"), str(ROOT / "benchmarks" / "nexmark")]
    events, files, queries, run, streams = map(
        importlib.import_module, ("events", "files", "queries.catalogue", "run", "streams")
    )
    files.write_events(events.Nexmark(1), EVENTS, folder / "events")
    for name, query in queries.QUERIES.items():
        place = folder / name
        place.mkdir()
        env = StreamExecutionEnvironment.get_execution_environment(Configuration(configuration))
        run.program(query, env, streams.ParquetStreams(env, folder / "events", str(place)))
        yield name, operators_of(env.compile(name))


class _Planned(BaseException):
    """Ends a script whose plan is known; no ``except Exception`` of the script may stop it."""


def _of_script(script: str, configuration: dict[str, Any]) -> str:
    """Run a script up to its first ``execute()``, in a process of its own, which it is ``__main__`` of; return JSON."""
    plans: list[Any] = []

    def plan_only(client: Any) -> NoReturn:
        plans.append(client.plan)
        raise _Planned

    set_default_configuration(Configuration(configuration))
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(sys.stderr):
        os.chdir(folder)
        try:
            with watch_jobs(plan_only):
                run_script(script, ())
        except _Planned:
            pass
        except Exception:
            if not plans:  # else: what comes of a job of execute_async() that does not run
                raise
        finally:
            os.chdir("/")
    return json.dumps([*map(asdict, operators_of(plans[0]))] if plans else BATCH)


def examples(configuration: dict[str, Any]) -> Iterator[tuple[str, list[Operator] | str]]:
    """Yield the operators of each example, or why there are none."""
    folder = ROOT / "examples"
    context = multiprocessing.get_context("fork")
    for path in sorted(folder.rglob("*.py")):
        text, name = path.read_text(), path.relative_to(folder).as_posix()
        if "pyspark" in text:
            yield name, SPARK
        elif "Environment" in text:  # anything else is a module of an example
            with context.Pool(1) as pool:
                made = json.loads(pool.apply_async(_of_script, (str(path), configuration)).get(SECONDS))
            yield name, made if isinstance(made, str) else [Operator(**each) for each in made]


def share(operators: list[Operator]) -> str:
    """Return how many are on columns, in words."""
    count = sum(each.on_columns for each in operators)
    return f"{count} of {len(operators)} ({count / len(operators):.0%})" if operators else "none"


def report(found: dict[str, dict[str, list[Operator] | str]], everything: bool) -> str:
    """Return the tables: by program, and by reason."""
    lines: list[str] = []
    whole: list[Operator] = []
    for group, programs in found.items():
        counted = {name: each for name, each in programs.items() if not isinstance(each, str)}
        operators = [operator for each in counted.values() for operator in each]
        whole += operators
        lines += [f"{group}: {share(operators)} operators on columns"]
        for name, each in programs.items():
            if isinstance(each, str):
                lines.append(f"  {name:20} not counted: {each}")
                continue
            records = [operator for operator in each if not operator.on_columns]
            begins = next((f"records at {operator.name!r}: {operator.root}" for operator in records), "")
            lines.append(f"  {name:20} {share(each):16} {begins}".rstrip())
            if everything:
                lines += [f"      {operator.name:24} {operator.path}" for operator in each]
        reasons = Counter(operator.root for operator in operators if not operator.on_columns)
        lines += [f"  {count:4}  {reason}" for reason, count in reasons.most_common()]
    return "\n".join([*lines, f"all: {share(whole)} operators on columns"])


def main() -> None:
    """Compile, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--where", default="nexmark,examples", help="examples, nexmark, or both")
    parser.add_argument("--mode", default="streaming", choices=["streaming", "batch"], help="the runtime mode")
    parser.add_argument("--all", action="store_true", help="print each operator, with what explain() says of it")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    args = parser.parse_args()
    configuration = {
        "execution.target": "local", "execution.runtime-mode": args.mode, "parallelism.default": WIDTH,
    }  # fmt: skip
    found: dict[str, dict[str, list[Operator] | str]] = {}
    wanted = args.where.replace(",", " ").split()
    for group in sorted(wanted):  # the examples are forked before Arrow has threads
        with tempfile.TemporaryDirectory() as folder:
            programs = nexmark(configuration, Path(folder)) if group == "nexmark" else examples(configuration)
            found[group] = dict(programs)
    found = {group: found[group] for group in wanted}
    if args.json:
        document = {
            group: {name: each if isinstance(each, str) else [*map(asdict, each)] for name, each in programs.items()}
            for group, programs in found.items()
        }
        print(json.dumps(document, indent=1))
    else:
        print(report(found, args.all))


if __name__ == "__main__":
    main()
