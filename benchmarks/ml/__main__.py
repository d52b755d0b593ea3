"""Logistic regression, k-means and ALS with funken.ml, Spark MLlib and scikit-learn on one core.

usage: benchmarks/ml [--rows 1000000] [--rounds 1] [--parallelism 2] [--systems NAMES] [--algorithms NAMES]. All learn from the
same Parquet files of generated rows (``workload.py``). The seconds are from the file to the fitted model.
No figure is printed before what was learned was found as good as what the best system has learned. Results go to
``benchmarks/results/ml.json``, by the number of rows: a system that is measured again replaces its figures.
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

from workload import ALGORITHMS, Judge, WrongAnswer, few, write_points, write_ratings

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
sys.path.insert(0, str(HERE.parent / "compare"))

import environments  # noqa: E402 - a folder of scripts beside this one
import sessions  # noqa: E402

SYSTEMS = {"funken": "funken.ml on Spark", "mllib": "Spark MLlib", "sklearn": "scikit-learn, one core"}
UNKNOWN = {("sklearn", "als")}


def commit() -> str:
    """Return the commit that is measured."""
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20).stdout.strip()


def measured(name: str, arguments: argparse.Namespace, points: str, ratings: str, judge: Judge) -> dict[str, Any]:
    """Return the figures of a system: the median of the seconds of each algorithm, how good it is, and the memory."""
    algorithms = [each for each in arguments.algorithms if (name, each) not in UNKNOWN]
    seconds: dict[str, list[float]] = {}
    figures: dict[str, tuple[str, float]] = {}
    memory, others = 0, 0.0
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            script = [sys.executable, "-W", "ignore", str(HERE / f"on_{name}.py")]
            command = [*script, points, ratings, str(arguments.parallelism), folder, *algorithms]
            for line in sessions.run(command, folder, len(algorithms), arguments.seconds):
                if "memory" in line:
                    memory, others = max(memory, line["memory"]), max(others, line["others"])
                    continue
                algorithm, took = line["algorithm"], line["seconds"]
                figures[algorithm] = what, value = judge.figure(folder, algorithm)
                seconds.setdefault(algorithm, []).append(took)
                print(f"  {SYSTEMS[name]:24} {algorithm:10} {took:8.2f} s, {what} {value:.6f}", flush=True)
    print(
        f"  {SYSTEMS[name]:24} {'memory':10} {memory / 1e9:8.2f} GB; other programs had {others:.0%} of the cores",
        flush=True,
    )
    medians = {algorithm: round(statistics.median(found), 3) for algorithm, found in seconds.items()}
    return {"seconds": medians, "figures": figures, "rounds": arguments.rounds, "memory": memory, "others": others}


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--parallelism", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--systems", default="")
    parser.add_argument("--algorithms", default="")
    parser.add_argument("--seconds", type=float, default=1800, help="the most that a system may take")
    parser.add_argument("--results", default=str(RESULTS))
    arguments = parser.parse_args()
    names = sessions.chosen(arguments.systems, SYSTEMS, "system", parser)
    arguments.algorithms = sessions.chosen(arguments.algorithms, ALGORITHMS, "algorithm", parser)
    file = Path(arguments.results, "ml.json")
    document = json.loads(file.read_text()) if file.exists() else {}
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        points, ratings = f"{folder}/points.parquet", f"{folder}/ratings.parquet"
        write_points(arguments.rows, Path(points))
        write_ratings(arguments.rows, Path(ratings))
        write_points(2000, Path(few(points)))
        write_ratings(2000, Path(few(ratings)))
        print(f"{arguments.rows:,} rows, parallelism {arguments.parallelism}")
        judge = Judge(points, ratings)
        entry = document.setdefault(str(arguments.rows), {"systems": {}})
        entry |= {"parallelism": arguments.parallelism, "machine": f"{platform.machine()}, {os.cpu_count()} cores"}
        for name in names:
            try:
                found = measured(name, arguments, points, ratings, judge)
            except (WrongAnswer, sessions.SystemFailed) as error:
                print(f"  {name}: {type(error).__name__}: {error}", file=sys.stderr)
                failed = True
                continue
            known = entry["systems"].get(name, {"seconds": {}, "figures": {}})
            found["seconds"] = known["seconds"] | found["seconds"]
            found["figures"] = known["figures"] | found["figures"]
            entry["systems"][name] = found | {"commit": commit(), "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
            file.write_text(json.dumps(document, indent=1) + "\n")
    environments.build("plots", print)
    folders = [arguments.results]
    if Path(arguments.results) == RESULTS:
        folders.append(str(RESULTS.parent.parent / "docs" / "guide" / "images"))
    command = [environments.python("plots"), HERE.parent / "compare" / "bars.py", file, "rows", *folders]
    subprocess.run(command, check=True, timeout=300)
    sys.exit(failed)


if __name__ == "__main__":
    main()
