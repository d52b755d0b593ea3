"""``make bench``: Funken's speed as ratios to the same job by hand on bare Spark, measured in turn in one go.

Each figure is the median of several runs; the two programs take turns, so that a machine that drifts drifts for both.
Funken checks its result against an oracle before every run. The functions are called for every record, as on bare Spark:
the vectorized path is switched off. The last column is the aim of the project.

usage: run.py [--runs N] [--seconds S] [--only keyed|rate|grep]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RATE = 100_000


def run(script: str, *arguments: str) -> dict[str, float]:
    """Run a script in a process of its own and return the figures of its last line."""
    command = [sys.executable, "-W", "ignore", str(HERE / script), *arguments]
    options = f"{os.environ.get('BENCH_OPTIONS', '')} pipeline.vectorized=false"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "BENCH_OPTIONS": options}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{script} {' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    figures: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def series(runs: int, programs: dict[str, list[str]]) -> dict[str, list[dict[str, float]]]:
    """Run programs in turn, ``runs`` times."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in programs}
    for number in range(runs):
        for name, command in programs.items():
            figures = run(*command)
            found[name].append(figures)
            shown = ", ".join(f"{key} {value:,.1f}" for key, value in figures.items())
            print(f"  run {number + 1}/{runs} {name:<12} {shown}", flush=True)
    return found


def ratio(over: list[dict[str, float]], under: list[dict[str, float]], key: str) -> float:
    """Return the median of the ratios of neighbouring runs."""
    return statistics.median(a[key] / b[key] for a, b in zip(over, under, strict=True))


def main() -> None:
    """Measure, print, and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", choices=["keyed", "rate", "grep"])
    args = parser.parse_args()
    length = ["--seconds", str(args.seconds)]
    rows: list[tuple[str, float, str]] = []
    raw: dict[str, object] = {}

    if args.only in (None, "keyed"):
        print("keyed running reduce at full load")
        found = series(args.runs, {"bare spark": ["bare_spark.py", *length], "funken": ["keyed.py", "keyed", *length]})
        raw["keyed"] = found
        rows.append(
            ("keyed: throughput / bare", ratio(found["funken"], found["bare spark"], "records_per_s"), ">= 0.9")
        )
        rows.append(("keyed: p99 latency / bare", ratio(found["funken"], found["bare spark"], "p99"), "<= 1.3"))
    if args.only in (None, "rate"):
        print(f"keyed running reduce at {RATE:,} records/s")
        paced = [*length, "--rate", str(RATE)]
        found = series(args.runs, {"bare spark": ["bare_spark.py", *paced], "funken": ["keyed.py", "keyed", *paced]})
        raw["rate"] = found
        rows.append(
            ("at 100,000/s: rate / bare", ratio(found["funken"], found["bare spark"], "records_per_s"), ">= 0.9")
        )
        rows.append(("at 100,000/s: p50 latency / bare", ratio(found["funken"], found["bare spark"], "p50"), ""))
        rows.append(("at 100,000/s: p99 latency / bare", ratio(found["funken"], found["bare spark"], "p99"), "<= 1.3"))
    if args.only in (None, "grep"):
        print("grep (filter on a string) and the keyed job")
        found = series(args.runs, {"keyed": ["keyed.py", "keyed", *length], "grep": ["keyed.py", "grep", *length]})
        raw["grep"] = found
        rows.append(("grep: throughput / keyed", ratio(found["grep"], found["keyed"], "records_per_s"), ">= 3"))

    print(f"\n{'figure':<36}{'measured':>10}   aim")
    for name, value, aim in rows:
        print(f"{name:<36}{value:>10.2f}   {aim}")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    document = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "commit": commit.stdout.strip(),
        "ratios": {name: value for name, value, _ in rows},
        "runs": raw,
    }
    (results / f"{args.only or 'speed'}.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
