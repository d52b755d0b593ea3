"""Does a record cost the same in wider jobs, with more keys and in longer chains? The keyed job of ``keyed.py`` at full load.

usage: scale.py [--widths 2,4,8,16] [--alone 4,8,16] [--keys 1000,100000,1000000,10000000] [--operators 1,50] [--seconds S]
                [--rounds N] [--results FILE] [--docs]

One number of each is varied, the others stay at 2 subtasks, 1000 keys and 1 ``map``; functions are called for every record.
``--alone`` are subtasks that share no worker; by default, a stage with more of them than cores has a worker per core. What
is printed is how many records a second all subtasks work off on the cores of this machine, and how much more a record costs
than in the first case: medians of the rounds, in each of which every case comes once. ``--docs`` puts a table and a plot of
what is kept into the guide, and ``--docs --widths '' --alone '' --keys '' --operators ''`` does only that. A case has a process
of its own, and its result is checked first. Keys come in the order of their numbers; what is measured begins when each was
seen.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent / "compare"))

import environments
import keyed

from funken import DataStream, DiscardingSink

HERE = Path(__file__).parent
CHECKED = 20_000
PAGE = HERE.parent / "docs" / "guide" / "performance.md"
IMAGE = PAGE.parent / "images" / "scale.png"
NAMES = {"widths": "subtasks", "alone": "subtasks, a worker each", "keys": "keys", "operators": "operators"}
MOST = 240.0
"""How long it may take (s) until every key was seen."""
WARM = 1.5
"""How long (s) a subtask that has begun takes, at most, to be at full speed, while others begin."""


def program(stream: DataStream, keys: int, operators: int) -> DataStream:
    """Map so often, key, count."""
    pairs = stream.map(lambda i: (i % keys, 1))
    for _ in range(operators - 1):
        pairs = pairs.map(lambda pair: (pair[0], pair[1]))
    return pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))


def one(width: int, keys: int, operators: int, alone: int, seconds: float) -> dict[str, float]:
    """Check and measure a case in this process; ``alone``: no subtasks share a worker."""
    options = f"pipeline.vectorized=false execution.subtasks-per-worker={1 if alone else 'auto'}"
    os.environ["BENCH_OPTIONS"] = f"{os.environ.get('BENCH_OPTIONS', '')} {options}"
    keyed.WIDTH = width
    env = keyed.environment(5)
    with program(keyed.numbers(env, 0, CHECKED, dealt=True), keys, operators).execute_and_collect() as records:
        last = Counter[int]()
        for key, count in records:
            last[key] = max(last[key], count)
    assert last == Counter(i % keys for i in range(CHECKED)), "wrong result: counts differ"
    env = keyed.environment(5)
    program(keyed.numbers(env, 0, 10**12, dealt=True), keys, operators).sink_to(DiscardingSink())
    client = env.execute_async("scale")
    try:
        until = time.monotonic() + MOST
        while (
            min(found := worked_off(client, width)) == 0 or sum(found) < 1.2 * keys
        ):  # no two subtasks are at the same place
            if time.monotonic() > until:
                raise SystemExit(f"not all of {keys:,} keys were seen within {MOST:g} s")
            time.sleep(0.1)
        time.sleep(width * WARM)
        return keyed.measure(client, seconds, 1)
    finally:
        client.cancel().result(120)


def worked_off(client: Any, width: int) -> list[int]:
    """Return how many records have come behind the exchange, by subtask."""
    found = [m.vertices[1].records_in for m in client.metrics().values() if 1 in m.vertices]
    return found + [0] * (width - len(found))


def case(numbers: list[int], seconds: float) -> dict[str, float]:
    """Run a case in a process of its own."""
    given = [str(each) for each in (*numbers, seconds)]
    command = [sys.executable, "-W", "ignore", __file__, "--one", *given]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, timeout=MOST + 300, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(given)} failed:\n{done.stderr[-3000:]}")
    figures: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def main() -> None:
    """Measure case by case, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", default="2,4,8,16")
    parser.add_argument("--alone", default="4,8,16")
    parser.add_argument("--keys", default="1000,100000,1000000,10000000")
    parser.add_argument("--operators", default="1,50")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=HERE / "results" / "scale.json")
    parser.add_argument("--one", nargs=5, type=float, help=argparse.SUPPRESS)
    parser.add_argument("--docs", action="store_true", help="also put the results into the guide")
    args = parser.parse_args()
    if args.one:
        *numbers, seconds = args.one
        width, keys, operators, alone = map(int, numbers)
        print(json.dumps(one(width, keys, operators, alone, seconds)))
        return
    wanted = [(fact, int(value)) for fact in NAMES for value in getattr(args, fact).split(",") if value]
    speeds: dict[tuple[str, int], list[float]] = {each: [] for each in wanted}
    for _ in range(args.rounds):
        for fact, value in wanted:
            speeds[fact, value].append(case(case_of(fact, value), args.seconds)["records_per_s"])
            print(f"{fact} {value:>10,} {speeds[fact, value][-1]:14,.0f} records/s", flush=True)
    if wanted:
        found: dict[str, dict[str, float]] = {}
        for (fact, value), several in speeds.items():
            found.setdefault(fact, {})[str(value)] = round(statistics.median(several))
        keep(args.results, found)
        print("\n".join(rows(found)))
    if args.docs:
        into_page(args.results)


def case_of(fact: str, value: int) -> list[int]:
    """Return the numbers of a case: subtasks, keys, operators, and whether no subtasks share a worker."""
    usual = {"widths": 2, "keys": 1000, "operators": 1}
    given = usual | {"widths" if fact == "alone" else fact: value}
    return [*given.values(), int(fact == "alone")]


def rows(found: dict[str, dict[str, float]]) -> list[str]:
    """Return the rows of the table: what a record costs beside the first case of its fact."""
    lines = []
    for fact, speeds in found.items():
        first = next(iter(found.get("widths" if fact == "alone" else fact, speeds).values()))
        lines += [f"| {int(n):,} {NAMES[fact]} | {s / 1e6:.3g} | {first / s:.2f} x |" for n, s in speeds.items()]
    return lines


def keep(results: Path, found: dict[str, dict[str, float]]) -> None:
    """Write the results down."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    document = {"machine": machine, "commit": commit.stdout.strip(), "records_per_s": found}
    results.write_text(json.dumps(document, indent=1) + "\n")


def into_page(results: Path) -> None:
    """Put the results into the guide."""
    document = json.loads(results.read_text())
    lines = ["| | M records/s | cost of a record |", "| --- | ---: | ---: |", *rows(document["records_per_s"])]
    text = "\n".join(
        [
            f"![Cost of a record](images/{IMAGE.name})",
            "",
            *lines,
            "",
            f"{document['machine']}, commit {document['commit']}.",
        ]
    )
    before, begin, rest = PAGE.read_text().partition("<!-- measured: scale -->\n")
    PAGE.write_text(before + begin + text + "\n<!-- end -->" + rest.partition("<!-- end -->")[2])
    environments.build("plots", print)
    command = [environments.python("plots"), HERE / "scale_plot.py", results, IMAGE]
    subprocess.run([str(part) for part in command], timeout=180, check=True)


if __name__ == "__main__":
    main()
