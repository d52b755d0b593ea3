"""PageRank, connected components, shortest paths and triangles with Funken, GraphX, DataFrames, igraph and networkx.

usage: benchmarks/graph [--edges 1000000] [--rounds 1] [--parallelism 2] [--systems NAMES] [--algorithms NAMES]. The graph is an
R-MAT graph (``workload.py``); its seconds are from the Parquet file to the value of every vertex in the driver, without the start
of a session. No figure is printed before the answer was compared with that of NumPy and SciPy. Results go to
``benchmarks/results/graph.json``, by size: a system that is measured again replaces its figures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import systems
from workload import ALGORITHMS, Oracle, WrongAnswer, check, read_answer, small, write_graph

RESULTS = Path(__file__).parent.parent / "results"
PLOT = Path(__file__).parent.parent / "compare" / "bars.py"


def commit() -> str:
    """Return the commit that is measured."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False, timeout=20
    )
    return done.stdout.strip()


def measured(name: str, arguments: argparse.Namespace, path: str, oracle: Oracle) -> dict[str, Any]:
    """Return the figures of a system: the median of the seconds of each algorithm, and its memory."""
    system = systems.SYSTEMS[name]
    seconds: dict[str, list[float]] = {}
    memory, others = 0, 0.0
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            run = systems.run(name, path, arguments.parallelism, folder, arguments.algorithms, arguments.seconds)
            for line in run:
                if "memory" in line:
                    memory, others = max(memory, line["memory"]), max(others, line["others"])
                    continue
                algorithm = line["algorithm"]
                right = system.oracle_of(algorithm)
                check(read_answer(folder, algorithm), oracle, right, system.tolerance_of(algorithm))
                seconds.setdefault(algorithm, []).append(line["seconds"])
                print(f"  {system.title:24} {algorithm:12} {line['seconds']:8.2f} s, the answer is right", flush=True)
    medians = {algorithm: round(statistics.median(found), 3) for algorithm, found in seconds.items()}
    print(
        f"  {system.title:24} {'memory':12} {memory / 1e9:8.2f} GB; other programs had {others:.0%} of the cores",
        flush=True,
    )
    return {"seconds": medians, "rounds": arguments.rounds, "memory": memory, "others": others}


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--parallelism", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--systems", default="")
    parser.add_argument("--algorithms", default="")
    parser.add_argument("--seconds", type=float, default=1800, help="the most that a system may take")
    parser.add_argument("--results", default=str(RESULTS))
    arguments = parser.parse_args()
    names = systems.sessions.chosen(arguments.systems, systems.SYSTEMS, "system", parser)
    arguments.algorithms = systems.sessions.chosen(arguments.algorithms, ALGORITHMS, "algorithm", parser)
    file = Path(arguments.results, "graph.json")
    document = json.loads(file.read_text()) if file.exists() else {}
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/edges.parquet"
        size = write_graph(arguments.edges, Path(path))
        write_graph(2000, Path(small(path)))
        print(f"{size['vertices']:,} vertices, {size['edges']:,} edges, parallelism {arguments.parallelism}")
        oracle = Oracle(path)
        entry = document.setdefault(str(arguments.edges), {"systems": {}})
        entry |= size | {
            "parallelism": arguments.parallelism,
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        }
        for name in names:
            if arguments.edges > systems.SYSTEMS[name].most_edges and name not in arguments.systems.split(","):
                continue
            try:
                figures = measured(name, arguments, path, oracle)
            except (WrongAnswer, systems.sessions.SystemFailed, systems.environments.CannotBuild) as error:
                print(f"  {name}: {type(error).__name__}: {error}", file=sys.stderr)
                failed = True
                continue
            known = entry["systems"].get(name, {"seconds": {}})
            figures["seconds"] = known["seconds"] | figures["seconds"]
            entry["systems"][name] = figures | {"commit": commit(), "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
            file.write_text(json.dumps(document, indent=1) + "\n")
    systems.environments.build("plots", print)
    subprocess.run(
        [systems.environments.python("plots"), PLOT, file, "edges", *_folders(arguments)], check=True, timeout=300
    )
    sys.exit(failed)


def _folders(arguments: argparse.Namespace) -> list[str]:
    folders = [arguments.results]
    if Path(arguments.results) == RESULTS:
        folders.append(str(RESULTS.parent.parent / "docs" / "guide" / "images"))
    return folders


if __name__ == "__main__":
    main()
