"""What joins of SQL cost per row, with state in memory and in RocksDB: the operators alone.

usage: joins_of_sql.py [--rows N] [--keys N,N] [--blocks N,N] [--rounds N] [--backend hashmap|rocksdb]

Prints nanoseconds of the CPU per row, the least of the rounds: a regular inner join, and a left join by an interval of three
seconds. Both sides have rows in turn, block by block, one every ms.
"""

from __future__ import annotations

import argparse
import random
import time
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from funken.expr.sql.types import BigIntType, TimestampType, VarCharType
from funken.state.rocksdb.backend import RocksDBBackend, TaskDatabases
from funken.table.logical import JoinType
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.joins import RegularJoin
from funken.table.runtime.operator import TableSpec
from funken.table.runtime.time_joins import TableIntervalJoin
from funken.testing import OperatorHarness

SIDE = BlockSchema(["k", "v", "t"], [BigIntType(), VarCharType(9), TimestampType(3)])
BOTH = BlockSchema([f"c{place}" for place in range(6)], [*SIDE.types, *SIDE.types])
BY_KEY: dict[str, Any] = {"keys": ((0,), (0,))}
JOINS: dict[str, tuple[Any, dict[str, Any]]] = {
    "regular": (RegularJoin, {"kind": JoinType.INNER, **BY_KEY}),
    "interval": (
        TableIntervalJoin,
        {"kind": JoinType.LEFT, **BY_KEY, "times": (2, 2), "bounds": (-3000, 3000), "rowtime": True},
    ),
}


def blocks_of(rows: int, keys: int, size: int) -> list[Any]:
    """Return blocks of rows."""
    dice = random.Random(5)
    return [
        SIDE.block([(dice.randrange(keys), f"v{n}", n * 10**6) for n in range(at, at + size)], [0] * size)
        for at in range(0, rows, size)
    ]


def run(name: str, blocks: list[Any], backend: str) -> float:
    """Return the seconds of the CPU that blocks take."""
    logic, arguments = JOINS[name]
    with ExitStack() as opened:
        tables = None
        if backend == "rocksdb":
            databases = TaskDatabases(256 * 2**20, 0.5, opened.enter_context(TemporaryDirectory()))
            tables = RocksDBBackend(databases, 128, range(128))
            opened.callback(tables.close)
        operator = OperatorHarness(TableSpec(logic, (SIDE, SIDE), BOTH, arguments), keyed=True, backend=tables).operator
        operator.output.emit_block = lambda block: None
        begin, reached = time.process_time(), 0
        for number, block in enumerate(blocks):
            (operator.process_second_block if number % 2 else operator.process_block)(block)
            reached += len(block)
            operator.watermark(reached - 1)
        return time.process_time() - begin


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--keys", default="2000,20000")
    parser.add_argument("--blocks", default="200,2000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--backend", choices=["hashmap", "rocksdb"], default="hashmap")
    args = parser.parse_args()
    table = Table("join", "keys", "block", "ns per row")
    for name in JOINS:
        for keys in args.keys.split(","):
            for size in args.blocks.split(","):
                blocks = blocks_of(args.rows, int(keys), int(size))
                least = min(run(name, blocks, args.backend) for _ in range(args.rounds))
                table.add_row(name, keys, size, f"{least / args.rows * 1e9:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
