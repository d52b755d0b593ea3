"""What a record costs in the kernels, in one process and without a job.

usage: columns.py [--records N] [--blocks N] [--only text,groups,lifted]; prints nanoseconds per record, the median over blocks.
``text``: grep on columns, with text that is made and text that stays in parts. ``groups``: sums of floats by a whole number, by
Arrow and by a table. ``lifted``: sums over tuples that a function has made, in a table of records, which are pickled to know
their weight, and in columns that are made of them.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.declared import SUM
from funken.columnar.kernels.columns import Column, Columns
from funken.columnar.kernels.evaluation import computed, mask_of
from funken.columnar.keyed.groups import NumberedGroups
from funken.columnar.tracing import trace
from funken.dataset.api.aggregations import Aggregations, FieldAggregator
from funken.dataset.columns.aggregation import column_aggregation, combined
from funken.dataset.memory.manager import MemoryManager
from funken.dataset.plan.functions import DataSetFunction
from funken.dataset.plan.keys import Key, KeyColumn
from funken.expr.types import INT, STR
from funken.io.spill import SpillSpace

LINE = trace(lambda i: "line " + str(i) + " of the text", None, 1).typed(INT)[0].result
FOUND = trace(lambda line: "999 " in line, None, 1).condition(STR).result

SUMS = [("v", "sum"), ("at", "min")]


def numbers(first: int, count: int) -> Columns:
    """Return a block as the source makes it."""
    return Columns(INT, [Column(INT, np.arange(first, first + count), False, first, first + count - 1)], count)


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


def lifted_sums(timed: Callable[[str, Callable[[], Any]], Any], count: int, blocks: int) -> None:
    """Combine pairs of an int (or a text) and a float, as an opaque function emits them; the results are compared."""
    chance, key = random.Random(1), Key(((0,),))
    for named, make in (("ints", int), ("texts", "w{}".format)):
        numbers = [chance.randrange(count // 2) for _ in range(count)]
        for _ in range(max(1, blocks // 10)):
            given = [[(make(each), 0.25) for each in numbers[at : at + 1024]] for at in range(0, count, 1024)]
            function = DataSetFunction(FieldAggregator(((Aggregations.SUM, (1,)),), "sum"))
            found = {}
            for how, lifts in (("records", False), ("lifted", True)):
                share = MemoryManager(2**28, 1, SpillSpace()).share("sum")
                columns = column_aggregation(share, key, function, lifts=lifts)
                blocks_made = combined(given, share, KeyColumn(key, "sum"), function.bind(), columns)
                made = timed(f"sums by {named}, {how}", lambda found=blocks_made: list(found))
                found[how] = sorted(record for block in made for record in block)
            assert found["records"] == found["lifted"], "wrong result: the sums differ"


def _summed(keys: np.ndarray, values: np.ndarray, span: int) -> np.ndarray:
    return NumberedGroups(keys, 0, span).folded(values, SUM)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=16_000, help="of a block")
    parser.add_argument("--blocks", type=int, default=300)
    parser.add_argument("--only", default="text,groups,lifted")
    args = parser.parse_args()
    spent: dict[str, list[float]] = {}

    def timed(what: str, call: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        made = call()
        spent.setdefault(what, []).append((time.perf_counter() - begin) * 1e9 / args.records)
        return made

    if "lifted" in args.only.split(","):
        lifted_sums(timed, args.records, args.blocks)
    if "groups" in args.only.split(","):
        groups(timed, args.records, args.blocks)
    for number in range(args.blocks if "text" in args.only.split(",") else 0):
        block = timed("source", lambda at=number: numbers(10_000_000 + at * args.records, args.records))
        lines = timed("map", lambda block=block: computed(LINE, STR, block))
        mask = timed("search in the parts", lambda lines=lines: mask_of(FOUND, lines))
        timed("keep the parts", lambda lines=lines, mask=mask: lines.keep(mask))
        timed("make the text", lambda lines=lines: lines.leaves[0].data)
        again = timed("search in the text", lambda lines=lines: mask_of(FOUND, lines))
        timed("keep the text", lambda lines=lines, mask=mask: lines.keep(mask))
        assert (again == mask).all(), "wrong result: the parts tell something else than the text"
    for what, found in spent.items():
        print(f"{what:24} {median(found):6.2f} ns")


if __name__ == "__main__":
    main()
