"""Logistic regression, k-means and ALS with funken.ml, Spark MLlib and scikit-learn on one core.

usage: benchmarks/ml [--rows 1000000] [--rounds 1] [--parallelism 2] [--systems NAMES] [--algorithms NAMES] [--seconds 600]. All
learn from the same Parquet files of generated rows (``workload.py``). The seconds are from the file to the fitted model.
No figure is printed before what was learned was found as good as what the best system has learned. Results go to
``benchmarks/results/ml.json``, by the number of rows: an algorithm that is measured again replaces its figures.

With ``--folder`` the rows stay there for the next call, and the figures of the best models so far, which the others are compared
with; ``--prepare`` makes the rows and measures nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from workload import ALGORITHMS, Judge, few, write_points, write_ratings

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "compare"))

import cases  # noqa: E402 - a folder of scripts beside this one
import sessions  # noqa: E402

SYSTEMS = {"funken": "funken.ml on Spark", "mllib": "Spark MLlib", "sklearn": "scikit-learn, one core"}
UNKNOWN = {("sklearn", "als")}


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    cases.add_arguments(parser, 600)
    arguments = parser.parse_args()
    names = sessions.chosen(arguments.systems, SYSTEMS, "system", parser)
    algorithms = sessions.chosen(arguments.algorithms, ALGORITHMS, "algorithm", parser)
    file = Path(arguments.results, "ml.json")
    with tempfile.TemporaryDirectory() as own:
        data = cases.folder_of(arguments, own, arguments.rows)
        points, ratings = f"{data}/points.parquet", f"{data}/ratings.parquet"
        for count, paths in ((arguments.rows, (points, ratings)), (2000, (few(points), few(ratings)))):
            for write, path in zip((write_points, write_ratings), map(Path, paths), strict=True):
                if not path.exists():
                    write(count, path)
        if arguments.prepare:
            return
        print(f"{arguments.rows:,} rows, parallelism {arguments.parallelism}", flush=True)
        judge = Judge(points, ratings, data / "best.json")

        def start(name: str, folder: str, asked: Sequence[str], seconds: float) -> Iterator[dict[str, Any]]:
            script = [sys.executable, "-W", "ignore", str(HERE / f"on_{name}.py")]
            command = [*script, points, ratings, str(arguments.parallelism), folder, *asked]
            return sessions.run(command, folder, len(asked), seconds)

        def judged(_: str, folder: str, line: dict[str, Any]) -> tuple[str, dict[str, Any]]:
            what, value = judge.figure(folder, line["algorithm"])
            return f"{what} {value:.6f}", {"figures": (what, value)}

        document = cases.Document(file, arguments.rows, cases.conditions(arguments))
        bench = cases.Bench(SYSTEMS, start, judged)
        right = [
            bench.measure(name, [each for each in algorithms if (name, each) not in UNKNOWN], arguments, document)
            for name in names
        ]
    cases.draw(file, "rows", arguments.results)
    sys.exit(not all(right))


if __name__ == "__main__":
    main()
