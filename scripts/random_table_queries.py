"""Run random queries over random changelogs, and compare their rows with a database's: see ``tests/table/random_runs.py``.

python scripts/random_table_queries.py [--seeds 1000] [--first 0] [--queries 6] [--seconds 100] [--batch]
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.table.random_runs import Case


def main() -> int:
    """Run seeds, and show what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--queries", type=int, default=12, help="how many queries a seed has")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no seed after so long")
    parser.add_argument("--batch", action="store_true", help="as batches over the last rows")
    given = parser.parse_args()
    began, queries, wrong, done = time.monotonic(), 0, 0, 0
    for seed in range(given.first, given.first + given.seeds):
        if time.monotonic() - began > given.seconds:
            break
        case = Case(seed, given.queries)
        done += 1
        queries += case.count
        try:
            for text in case.batch_differences() if given.batch else case.differences():
                wrong += 1
                print(f"seed {seed} [{case.options}, {case.backend}] {text}", flush=True)
        except Exception as error:  # noqa: BLE001 - the next seed
            wrong += 1
            print(f"seed {seed} failed: {type(error).__name__}: {error}", flush=True)
            print("".join(traceback.format_tb(error.__traceback__)[-3:]), flush=True)
    print(f"{done} seeds, {queries} queries, {wrong} differences, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
