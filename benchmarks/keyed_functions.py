"""What functions with keyed state cost per record in columns and in rows: the operators alone, with the same blocks.

usage: keyed_functions.py [--records N] [--keys N] [--block N] [--rounds N] [--only TEXT] [--rocksdb] [--results FOLDER]

Prints nanoseconds per record, the medians of the rounds, in which columns and rows take turns. Each round begins without state.
Before, both forms run once: they have to give the same results and keep the same state, else there is no figure and the script
fails. Rows are lists of Python objects that are there already, and the results in columns stay columns, whose values are made:
the ways between both, which a program pays where they meet, are left out. ``--rocksdb`` keeps state in RocksDB. ``--results``
writes ``keyed-functions.json`` into a folder.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from funken import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Row,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from funken.columnar.kernels.columns import Columns, columns_of
from funken.expr.types import INT, STR, Tuple
from funken.operators.base import OperatorSpec
from funken.operators.process.one_input import KeyedProcess
from funken.operators.process.two_inputs import KeyedCoProcess
from funken.operators.user_functions import UserFunction
from funken.plan.columns import columnar_of_two, columnar_process
from funken.state.rocksdb.backend import RocksDBBackend, TaskDatabases
from funken.testing import OperatorHarness

SCHEMA = Tuple((INT, INT, STR))
WORDS = 100
_GROUPS = 128
ONE_IN = 4
"""Of the blocks of a join, one in so many is of the first input."""
STEP = 100
"""By so many ms the watermark advances with a block, of a function with timers."""


class Count(KeyedProcessFunction):
    """Counts."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        yield ctx.get_current_key(), self.count.value()


class Last(KeyedProcessFunction):
    """Keeps the last record, and tells how the next one differs."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        before = self.last.value()
        self.last.update(value)
        if before is not None:
            yield value[0], value[1] - before[1], before[2]


class Seen(KeyedProcessFunction):
    """Gives the first record of each key and word."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if not self.seen.contains(value[2]):
            self.seen.put(value[2], True)
            yield value


class Best(KeyedProcessFunction):
    """Gives a record that is better than all before it."""

    def open(self, runtime_context: Any) -> None:
        self.best = runtime_context.get_state(ValueStateDescriptor("best"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        best = self.best.value()
        if best is None or value[1] > best[1]:
            self.best.update(value)
            yield value


class Turns(KeyedProcessFunction):
    """Opens with one record, and closes with the next."""

    def open(self, runtime_context: Any) -> None:
        self.opened = runtime_context.get_state(ValueStateDescriptor("opened"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        since = self.opened.value()
        if since is None:
            self.opened.update((value[1], value[2]))
        else:
            self.opened.clear()
            yield value[0], since[1], value[1] - since[0]


class Mean(KeyedProcessFunction):
    """Gives the mean of all records so far."""

    def open(self, runtime_context: Any) -> None:
        self.sums = runtime_context.get_state(ValueStateDescriptor("sums"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count, total = self.sums.value() or (0, 0)
        count, total = count + 1, total + value[1]
        self.sums.update((count, total))
        yield value[0], total / count


class Budget(KeyedProcessFunction):
    """Spends what is left, and begins anew when it is not enough: what is kept depends on what was kept, so it goes by rounds."""

    def open(self, runtime_context: Any) -> None:
        self.left = runtime_context.get_state(ValueStateDescriptor("left", default=1000))

    def process_element(self, value: Any, ctx: Any) -> Any:
        left = self.left.value()
        if value[1] <= left:
            self.left.update(left - value[1])
        else:
            self.left.update(1000)
            yield value[0], left


class Top(KeyedProcessFunction):
    """Keeps the three highest, and gives them: by rounds, of lists."""

    def open(self, runtime_context: Any) -> None:
        self.top = runtime_context.get_list_state(ListStateDescriptor("top"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        top = sorted([*self.top, value[1]], reverse=True)[:3]
        self.top.update(top)
        yield value[0], top


class Places(KeyedProcessFunction):
    """Keeps the five highest records, and tells the places of one that is among them."""

    def open(self, runtime_context: Any) -> None:
        self.top = runtime_context.get_list_state(ListStateDescriptor("top"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        top = sorted([*self.top, value], key=lambda row: (-row[1], row[2]))[:5]
        self.top.update(top)
        for place, row in enumerate(top, 1):
            if row == value:
                yield place, *row


class Dearest(KeyedProcessFunction):
    """Gives a record that is better than all before it, by three fields."""

    def open(self, runtime_context: Any) -> None:
        self.best = runtime_context.get_state(ValueStateDescriptor("best"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        best = self.best.value()
        if best is None or (-value[1], value[2], value[0]) < (-best[1], best[2], best[0]):
            self.best.update(value)
            yield value


class Silence(KeyedProcessFunction):
    """Gives a key that has had no record for some time, with timers; there is a watermark behind each block."""

    def open(self, runtime_context: Any) -> None:
        self.due = runtime_context.get_state(ValueStateDescriptor("due"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        timers, due = ctx.timer_service(), self.due.value()
        if due is not None:
            timers.delete_event_time_timer(due)
        due = timers.current_watermark() + 2 * STEP + value[1]
        self.due.update(due)
        timers.register_event_time_timer(due)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        self.due.clear()
        yield ctx.get_current_key(), timestamp


class Rounded(KeyedProcessFunction):
    """Adds up in floats of 32 bits, as the declared type of its state has it."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.FLOAT()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        total = self.total.value()
        if total is None:
            total = 0.0
        total += value[1] / 7
        self.total.update(total)
        yield value[0], total


class Expires(Rounded):
    """Does the same with a state that expires, if it is neither read nor written: PyFlink's example."""

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("total", Types.FLOAT())
        config = StateTtlConfig.new_builder(timedelta(seconds=1)).update_ttl_on_read_and_write().build()
        descriptor.enable_time_to_live(config)
        self.total = runtime_context.get_state(descriptor)


class SeenLately(Seen):
    """Gives the first record of each key and word in an hour."""

    def open(self, runtime_context: Any) -> None:
        descriptor = MapStateDescriptor("seen", Types.STRING(), Types.BOOLEAN())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(timedelta(hours=1)).build())
        self.seen = runtime_context.get_map_state(descriptor)


class LastRow(KeyedProcessFunction):
    """Keeps the last record as a row."""

    def open(self, runtime_context: Any) -> None:
        row = Types.ROW_NAMED(["number", "word"], [Types.LONG(), Types.STRING()])
        self.last = runtime_context.get_state(ValueStateDescriptor("last", row))

    def process_element(self, value: Any, ctx: Any) -> Any:
        before = self.last.value()
        self.last.update(Row(value[1], value[2]))
        if before is not None:
            yield value[0], value[1] - before[0], before[1]


class Waiting(KeyedCoProcessFunction):
    """Joins the last record of the first input with those of the second, whichever comes first."""

    def open(self, runtime_context: Any) -> None:
        self.one = runtime_context.get_state(ValueStateDescriptor("one"))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting"))

    def process_element1(self, value: Any, ctx: Any) -> Any:
        self.one.update(value)
        for other in self.waiting:
            yield value, other
        self.waiting.clear()

    def process_element2(self, value: Any, ctx: Any) -> Any:
        one = self.one.value()
        if one is None:
            self.waiting.add(value)
        else:
            yield one, value


CASES: dict[str, Callable[[], Any]] = {
    "counter": Count,
    "last value": Last,
    "seen keys": Seen,
    "best so far": Best,
    "opened, closed": Turns,
    "running mean": Mean,
    "budget": Budget,
    "sum in 32 bits": Rounded,
    "the same, expires": Expires,
    "seen keys, expire": SeenLately,
    "last value, a row": LastRow,
    "best of three fields": Dearest,
    "silence, with timers": Silence,
    "top 3": Top,
    "places of 5": Places,
    "join of two": Waiting,
}


def first_field(record: Any) -> Any:
    """Return the key."""
    return record[0]


def specs(function: Callable[[], Any]) -> tuple[OperatorSpec, OperatorSpec]:
    """Return the operator on columns, and the one on rows."""
    key = UserFunction(first_field)
    calls = [UserFunction(function(), rich=True) for _ in range(2)]  # each has an object of its own
    if function is Waiting:
        two, other = (KeyedCoProcess(call, key, key) for call in calls)
        return columnar_of_two(two, [SCHEMA, SCHEMA])[0], other
    one, in_rows = (KeyedProcess(call, key) for call in calls)
    return columnar_process(one, SCHEMA)[0], in_rows


class Run:
    """An operator without state; ``given`` is what it gives, if that is kept."""

    def __init__(self, spec: OperatorSpec, two: bool, databases: TaskDatabases | None, keeps: bool = False) -> None:
        self._backend = None if databases is None else RocksDBBackend(databases, _GROUPS, range(_GROUPS))
        self._harness = OperatorHarness(spec, keyed=True, backend=self._backend)
        self.operator: Any = self._harness.operator
        self._two, self._keeps = two, keeps
        inner: Any = getattr(spec, "spec", spec)  # that for records
        self._timed = isinstance(inner.function.target, Silence)
        self.given: list[Any] = []
        self.operator.output.emit_block = self._take_block
        self.operator.output.emit = lambda values, _: self._take(values)

    def _take_block(self, block: Any) -> None:
        if isinstance(block, Columns):
            for leaf in block.leaves:
                _ = leaf.data  # text, and what is taken from others, is made when it is needed
        self._take(block)

    def _take(self, block: Any) -> None:
        if self._keeps:
            self.given.append(block)

    def seconds(self, blocks: Sequence[Any]) -> float:
        """Give it all blocks, as columns or as rows; return how long that took."""
        first, second = self.operator.process, getattr(self.operator, "process_second", None)
        if isinstance(blocks[0], Columns):
            first, second = self.operator.process_block, self.operator.process_second_block
        else:
            blocks = [(values, None) for values in blocks]
        if self._timed:
            self.operator.watermark(0)
        gc.collect()
        begin = time.perf_counter()
        for number, block in enumerate(blocks):
            process = second if self._two and number % ONE_IN else first
            process(block) if isinstance(block, Columns) else process(*block)
            if self._timed:
                self.operator.watermark((number + 1) * STEP)
        return time.perf_counter() - begin

    def close(self) -> None:
        """Close the database."""
        if self._backend is not None:
            self._backend.close()

    def results(self) -> list[Any]:
        """Return the records it has given."""
        found: list[Any] = []
        for given in self.given:
            found += given.to_list() if isinstance(given, Columns) else given
        return found

    def kept(self) -> list[Any]:
        """Return all state."""
        for store in self._harness.context.before_snapshot:
            store()
        assert self._harness.context.keyed is not None
        groups = self._harness.context.keyed.snapshot().groups.values()
        return sorted(
            repr((name, key, sorted(stored.items()) if isinstance(stored, dict) else stored))
            for states in groups
            for name, rows in states.items()
            for key, _, stored in rows
        )


def compare(
    name: str, function: Callable[[], Any], rows: list[list[Any]], databases: TaskDatabases | None
) -> bool:  # fmt: skip
    """Run both forms once; fail if they differ; return whether no block of columns went to the function."""
    two = function is Waiting
    on_columns, in_rows = (Run(spec, two, databases, keeps=True) for spec in specs(function))
    on_columns.seconds(as_columns(rows))
    in_rows.seconds(rows)
    returns = on_columns.operator._states.gate.returns
    if on_columns.results() != in_rows.results() or on_columns.kept() != in_rows.kept():
        raise SystemExit(f"{name}: columns and rows give, or keep, what is not the same")
    on_columns.close()
    in_rows.close()
    if not in_rows.given:
        raise SystemExit(f"{name}: gives nothing")
    return not returns


def as_columns(rows: list[list[Any]]) -> list[Columns]:
    """Return the blocks as columns, made anew: what a column remembers of itself is of one round."""
    return [columns_of(block, SCHEMA) for block in rows]


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--block", type=int, default=16_384, help="records of a block")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose names have this")
    parser.add_argument("--rocksdb", action="store_true", help="keep state in RocksDB")
    parser.add_argument("--results", type=Path, help="a folder for keyed-functions.json")
    args = parser.parse_args()
    dice = random.Random(1)
    records = [
        (dice.randrange(args.keys), dice.randrange(400), f"w{dice.randrange(WORDS)}") for _ in range(args.records)
    ]
    rows = [records[at : at + args.block] for at in range(0, len(records), args.block)]
    gc.collect()
    gc.freeze()  # the records are no work of the operators
    table = Table(
        "ns per record",
        "columns",
        "rows",
        "rows / columns",
        title=f"{args.records:,} records in blocks of {args.block:,}, {args.keys:,} keys",
    )
    figures: dict[str, Any] = {}
    databases = TaskDatabases(128 * 2**20, 0.5, tempfile.gettempdir()) if args.rocksdb else None
    for name, function in CASES.items():
        if args.only not in name:
            continue
        if not compare(name, function, rows, databases):
            table.add_row(name, "the function is called: a block has too many records of a key", "", "")
            continue
        found: tuple[list[float], list[float]] = ([], [])
        for _ in range(args.rounds):
            for blocks, spec, spent in zip((as_columns(rows), rows), specs(function), found, strict=True):
                run = Run(spec, function is Waiting, databases)
                spent.append(run.seconds(blocks) / args.records * 1e9)
                run.close()
        columns, in_rows = map(median, found)
        figures[name] = {"columns_ns": round(columns), "rows_ns": round(in_rows)}
        table.add_row(name, f"{columns:,.0f}", f"{in_rows:,.0f}", f"{in_rows / columns:.1f}")
    if databases is not None:
        databases.close()
    Console().print(table)
    if args.results:
        keep(args, figures)


def keep(args: argparse.Namespace, figures: dict[str, Any]) -> None:
    """Write the results down."""
    document = {
        "records": args.records,
        "keys": args.keys,
        "rounds": args.rounds,
        "block": args.block,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "cases": figures,
    }
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "keyed-functions.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
