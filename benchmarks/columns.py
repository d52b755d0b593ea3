"""What a record costs in the kernels, in one process and without a job.

usage: columns.py [--records N] [--blocks N] [--only text,groups]; prints nanoseconds per record, the median over blocks: of grep
on columns, with text that is made and text that stays in parts; of sums of floats by a whole number, by Arrow and by a table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.folds import SUM
from funken.columnar.kernels.columns import Column, Columns
from funken.columnar.kernels.evaluation import computed, mask_of
from funken.columnar.kernels.groups import NumberedGroups
from funken.columnar.tracing import trace

LINE = trace(lambda i: "line " + str(i) + " of the text", None, 1).typed("int")[0].result
FOUND = trace(lambda line: "999 " in line, None, 1).condition("str").result

SUMS = [("v", "sum"), ("at", "min")]


def numbers(first: int, count: int) -> Columns:
    """Return a block as the source makes it."""
    return Columns("int", [Column("int", np.arange(first, first + count), False, first, first + count - 1)], count)


def groups(timed: Callable[[str, Callable[[], Any]], Any], count: int, blocks: int) -> None:
    """Add floats up by keys of which each comes about twice."""
    chance = np.random.default_rng(1)
    for _ in range(blocks):
        keys, values = chance.integers(0, count // 2, count), chance.random(count)
        table = pa.table({"k": keys, "v": values, "at": np.arange(count)})
        by_arrow = timed("sums by Arrow", lambda t=table: t.group_by("k", use_threads=False).aggregate(SUMS))
        found = timed("sums by a table", lambda k=keys, v=values: _summed(k, v, count // 2))
        right = by_arrow.sort_by("at_min").column("v_sum").to_numpy()
        assert (right == found).all(), "wrong result: the sums differ"


def _summed(keys: np.ndarray, values: np.ndarray, span: int) -> np.ndarray:
    return NumberedGroups(keys, 0, span).folded(values, SUM)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=16_000, help="of a block")
    parser.add_argument("--blocks", type=int, default=300)
    parser.add_argument("--only", default="text,groups")
    args = parser.parse_args()
    spent: dict[str, list[float]] = {}

    def timed(what: str, call: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        made = call()
        spent.setdefault(what, []).append((time.perf_counter() - begin) * 1e9 / args.records)
        return made

    if "groups" in args.only.split(","):
        groups(timed, args.records, args.blocks)
    for number in range(args.blocks if "text" in args.only.split(",") else 0):
        block = timed("source", lambda at=number: numbers(10_000_000 + at * args.records, args.records))
        lines = timed("map", lambda block=block: computed(LINE, "str", block))
        mask = timed("search in the parts", lambda lines=lines: mask_of(FOUND, lines))
        timed("keep the parts", lambda lines=lines, mask=mask: lines.keep(mask))
        timed("make the text", lambda lines=lines: lines.leaves[0].data)
        again = timed("search in the text", lambda lines=lines: mask_of(FOUND, lines))
        timed("keep the text", lambda lines=lines, mask=mask: lines.keep(mask))
        assert (again == mask).all(), "wrong result: the parts tell something else than the text"
    for what, found in spent.items():
        print(f"{what:20} {median(found):6.2f} ns")


if __name__ == "__main__":
    main()
