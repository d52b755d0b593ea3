"""``make bench-against COMMIT=...``: is Funken slower than it was? This tree and an earlier commit take turns in one go.

The earlier commit is unpacked into a temporary folder; each tree runs its own ``benchmarks/keyed.py`` and its own queries of
``benchmarks/nexmark``, whose results are checked first: the programs must not differ, the names that they import may. Every
other round goes the other way round. What is printed are medians of the ratios of neighbouring runs, this tree over the earlier
one. The options in the environment's ``BENCH_OPTIONS`` are for this tree, but not for the queries.

usage: against.py COMMIT [--runs N] [--seconds S] [--allowed FRACTION] [--only TEXT] [--with FOLDER]; ``--only`` runs the programs
whose name contains the text, ``--with`` compares another tree than this one; ends with 1 if a throughput fell by more
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from run import HERE, RATE, ratio

PROGRAMS = {
    "keyed, full load": ["keyed"],
    f"keyed, {RATE:,}/s": ["keyed", "--rate", str(RATE)],
    "grep, full load": ["grep"],
    "windows, full load": ["windows"],
}
QUERIES = {f"nexmark {name}": name for name in ("q0", "q5", "q8", "q16")}
"""Run in one process, without Spark: a pass through, windows, a join, reports with state."""


def command_of(name: str, tree: Path, seconds: float, old: Path) -> list[str]:
    """Return the command of a program, with the scripts of a tree; both trees read what the old one can."""
    length = ["--seconds", str(seconds)]
    if name in QUERIES:
        generated = [] if (old / "benchmarks/nexmark/files.py").exists() else ["--generated"]
        return [str(HERE / "nexmark_query.py"), QUERIES[name], str(tree), *length, *generated]
    return [str(tree / "benchmarks/keyed.py"), *PROGRAMS[name], *length]


def run(command: list[str], source: Path, options: str) -> dict[str, float]:
    """Run a script on the package below ``source``; return its figures."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(source), "BENCH_OPTIONS": options}
    command = [sys.executable, "-W", "ignore", *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[3:])} with {source} failed:\n{done.stderr[-3000:]}")
    figures: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--allowed", type=float, default=0.05)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--with", type=Path, default=HERE.parent, dest="tree", help="the tree that is compared")
    args = parser.parse_args()
    root: Path = args.tree.resolve()
    rows: list[tuple[str, float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        command = ["git", "archive", args.commit, "src", "benchmarks"]
        archive = subprocess.run(command, cwd=HERE.parent, capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        options = os.environ.get("BENCH_OPTIONS", "")
        for name in (name for name in (*PROGRAMS, *QUERIES) if args.only in name):
            now, then = [], []
            for number in range(args.runs):
                turns = [("then", Path(folder), "", then), ("now", root, options, now)]
                for which, tree, given, found in turns if number % 2 == 0 else reversed(turns):
                    found.append(run(command_of(name, tree, args.seconds, Path(folder)), tree / "src", given))
                    shown = ", ".join(f"{key} {value:,.1f}" for key, value in found[-1].items())
                    print(f"  {name} {number + 1}/{args.runs} {which:<5} {shown}", flush=True)
            latency = ratio(now, then, "p99") if all(figures["p99"] for figures in then) else float("nan")
            rows.append((name, ratio(now, then, "records_per_s"), latency))
    print(f"\n{'now / ' + args.commit:<24}{'throughput':>12}{'p99':>8}")
    for name, speed, p99 in rows:
        print(f"{name:<24}{speed:>12.2f}{p99:>8.2f}")
    if any(speed < 1 - args.allowed for _, speed, _ in rows):
        raise SystemExit(f"a throughput fell by more than {args.allowed:.0%}")


if __name__ == "__main__":
    main()
