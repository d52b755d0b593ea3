"""What joins of two streams cost per record in columns and in rows: the operators alone, with the same blocks.

usage: joins_on_columns.py [--records N] [--keys N] [--rounds N] [--backend hashmap|rocksdb] [--blocks N,N]

Prints nanoseconds per record, the medians of the rounds, in which columns and rows take turns, for some sizes of blocks and
numbers of partners: interval joins, and one in tumbling windows. Before, both forms run once, and have to give the same. Both
sides have records of each key in turn, one every ms; behind two blocks comes a watermark.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from funken.columnar.kernels.columns import columns_of
from funken.expr.types import INT, STR, Tuple
from funken.operators.columnar import path as watch
from funken.operators.join import TAGGED_KEY, IntervalJoinSpec, JoinPairs, WindowJoin
from funken.operators.user_functions import UserFunction
from funken.operators.window.spec import CallStyle, Elements, WindowCall, WindowSpec
from funken.plan.columns import columnar_interval_join, columnar_window_join
from funken.state.rocksdb.backend import RocksDBBackend, TaskDatabases
from funken.testing import OperatorHarness
from funken.windowing.assigners import TumblingEventTimeWindows

SCHEMA = Tuple((INT, INT, STR))
BLOCKS = (50, 100, 300, 1000, 8000)
PARTNERS = (0.5, 5)


def numbers(left: Any, right: Any, ctx: Any) -> Any:
    """Give numbers of both records."""
    yield left[0], left[1], right[1]


def texts(left: Any, right: Any, ctx: Any) -> Any:
    """Give texts of both records, and a time."""
    yield left[2], right[2], ctx.get_left_timestamp()


def in_window(left: Any, right: Any) -> Any:
    """Give numbers of both records."""
    return left[0], left[1], right[1]


def first_field(record: Any) -> Any:
    """Return the key."""
    return record[0]


def specs(function: Callable[..., Any], apart: int, in_files: bool) -> tuple[Any, Any]:
    """Return the operator on columns, and the one on rows."""
    key = UserFunction(first_field)
    if function is in_window:
        call = WindowCall(UserFunction(JoinPairs(UserFunction(function)), "apply", rich=True), CallStyle.APPLY)
        window = WindowSpec(TAGGED_KEY, TumblingEventTimeWindows.of(2 * apart), Elements(), call)
        join = WindowJoin(key, key, window.in_keyed_state() if in_files else window)
        return columnar_window_join(join, [SCHEMA, SCHEMA])[0], join
    rows = IntervalJoinSpec(UserFunction(function), key, key, -apart, apart)
    return columnar_interval_join(rows, [SCHEMA, SCHEMA])[0], rows


def run(spec: Any, blocks: list[Any], in_files: bool, given: list[Any] | None = None) -> float:
    """Give an operator all blocks, each of both sides; return how long that took."""
    with ExitStack() as opened:
        backend = None
        if in_files:
            folder = opened.enter_context(TemporaryDirectory())
            databases = TaskDatabases(256 * 2**20, 0.5, folder)
            backend = RocksDBBackend(databases, 128, range(128))
            opened.callback(databases.close)
            opened.callback(backend.close)
        return timed(OperatorHarness(spec, keyed=True, backend=backend).operator, blocks, given)


def timed(operator: Any, blocks: list[Any], given: list[Any] | None) -> float:
    """Return the seconds of the CPU that blocks take."""
    take: Callable[[Any], None] = (lambda block: None) if given is None else given.append
    operator.output.emit = lambda values, stamps: take((values, stamps))
    operator.output.emit_block = lambda block: take(block.rows() if given is not None else block)
    gc.collect()
    begin = time.process_time()
    for block in blocks:
        if isinstance(block, tuple):
            operator.process(*block)
            operator.process_second(*block)
            last = block[1][-1]
        else:
            operator.process_block(block)
            operator.process_second_block(block)
            last = int(block.timestamps[-1])
        operator.watermark(last)
    return time.process_time() - begin


def flat(given: list[Any]) -> list[Any]:
    """Return all results with their timestamps."""
    return [pair for values, stamps in given for pair in zip(values, stamps, strict=True)]


def same(one: list[Any], other: list[Any], in_files: bool) -> bool:
    """Return True if results are alike; timers of windows in files fire in an order of their own."""
    return sorted(one) == sorted(other) if in_files else one == other


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000, help="of both sides")
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--backend", choices=["hashmap", "rocksdb"], default="hashmap")
    parser.add_argument("--blocks", default=",".join(map(str, BLOCKS)), help="sizes of blocks")
    args = parser.parse_args()
    in_files = args.backend == "rocksdb"
    watch.FEW = 0
    count = args.records // 2
    records = [(number % args.keys, number, f"w{number % 100}") for number in range(count)]
    stamps = list(range(count))
    table = Table("ns per record", "partners", "block", "columns", "rows", "rows / columns")
    for function in (numbers, texts, in_window):
        for partners in PARTNERS:
            two = specs(function, int(partners * args.keys), in_files)
            for size in map(int, args.blocks.split(",")):
                rows = [(records[at : at + size], stamps[at : at + size]) for at in range(0, count, size)]
                blocks = [columns_of(values, SCHEMA, times) for values, times in rows]
                found: list[list[Any]] = [[], []]
                for spec, form, given in zip(two, (blocks, rows), found, strict=True):
                    run(spec, form, in_files, given)
                if not same(*map(flat, found), in_files):
                    raise SystemExit("columns and rows give what is not the same")
                del found
                spent: list[list[float]] = [[], []]
                for _ in range(args.rounds):
                    for spec, form, times in zip(two, (blocks, rows), spent, strict=True):
                        times.append(run(spec, form, in_files) / (2 * count) * 1e9)
                columns, in_rows = map(median, spent)
                ratio = f"{in_rows / columns:.1f}"
                table.add_row(
                    function.__name__, str(partners), f"{size:,}", f"{columns:,.0f}", f"{in_rows:,.0f}", ratio
                )
    Console().print(table)


if __name__ == "__main__":
    main()
