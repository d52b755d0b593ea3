"""Parquet to windows to Parquet: Funken beside Spark and DuckDB, on two cores, with the results compared.

usage: files.py [--rows N] [--rounds R] [--systems funken,records,spark,duckdb] [--tasks read,windows,sums]; prints a JSON line
per system and task.

The input is one folder of Parquet files of five columns, of which the tasks use three (``windows``) or two (``sums``). Each
system reads it, aggregates and writes Parquet. What is measured is the wall time of the job in a session that is warm: Spark and
Funken share its JVM, DuckDB measures its statement, and each task runs once before it is measured. The systems take turns.
``records`` is Funken with ``pipeline.vectorized`` off, over a tenth of the input. All results have to be equal, row by row.
What goes on is told on standard error; a step that takes longer than ``--limit`` seconds ends the benchmark with the stacks of
all threads.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import SparkSession, functions

from funken import (
    AggregateFunction,
    BucketAssigner,
    Configuration,
    FileSink,
    FileSource,
    ProcessWindowFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from funken.connectors import Batch, ConnectorContext
from funken.connectors.files.arrow_files import ParquetFormat

sys.path.insert(0, str(Path(__file__).parent / "compare"))
import environments

CORES = 2
FILES = 4
ITEMS = 1000
WINDOW = 10_000
ROWS_PER_MILLI = 20


def generate(folder: Path, rows: int) -> None:
    """Write the input: orders in the order of time, a file after the other."""
    folder.mkdir(parents=True)
    dice = np.random.default_rng(7)
    each = rows // FILES
    notes = pa.array([f"order {number}" for number in range(5000)])
    for number in range(FILES):
        index = np.arange(number * each, (number + 1) * each)
        table = pa.table(
            {
                "moment": pa.array(index // ROWS_PER_MILLI),
                "item": pa.array(dice.integers(0, ITEMS, each)),
                "cents": pa.array(dice.integers(1, 10_000, each)),
                "customer": pa.array(dice.integers(0, 10**9, each)),
                "note": notes.take(pa.array(index % 5000)),
            }
        )
        parquet.write_table(table, folder / f"{number}.parquet", row_group_size=250_000)


class Totals(AggregateFunction):
    """The number and the sum."""

    def create_accumulator(self) -> Any:
        """Begin."""
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        """Add an order."""
        return accumulator[0] + 1, accumulator[1] + value["cents"]

    def get_result(self, accumulator: Any) -> Any:
        """Return both."""
        return accumulator


class Named(ProcessWindowFunction):
    """Adds item and window."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        """Make the row."""
        for count, total in elements:
            yield {"start": context.window().start, "item": key, "count": count, "total": total}


def funken(task: str, into: Path, out: Path, vectorized: bool = True) -> None:
    """Run a task with Funken, as a batch job on Spark."""
    conf = Configuration({"execution.target": "batch", "pipeline.vectorized": vectorized})
    env = StreamExecutionEnvironment.get_execution_environment(conf).set_parallelism(CORES)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    files = FileSource.for_bulk_file_format(ParquetFormat(), str(into)).build()
    if task == "windows":
        timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda order, _: order["moment"])
        windows = env.from_source(files, timed, "orders").key_by(lambda order: order["item"])
        rows = windows.window(TumblingEventTimeWindows.of(WINDOW)).aggregate(Totals(), Named())
    else:
        orders = env.from_source(files, WatermarkStrategy.no_watermarks(), "orders")
        pairs = orders.filter(lambda order: order["cents"] >= 100).map(lambda order: (order["item"], 1, order["cents"]))
        sums = pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2]))
        rows = sums.map(lambda row: {"item": row[0], "count": row[1], "total": row[2]})
    sink = FileSink.for_bulk_format(str(out), ParquetFormat())
    rows.sink_to(sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
    env.execute(task)


def spark(task: str, into: Path, out: Path) -> None:
    """Run a task with Spark SQL."""
    orders = SparkSession.builder.getOrCreate().read.parquet(str(into))
    if task == "windows":
        orders = orders.withColumn("start", (functions.col("moment") / WINDOW).cast("long") * WINDOW)
        grouped = orders.groupBy("start", "item")
    else:
        grouped = orders.where("cents >= 100").groupBy("item")
    grouped.agg(functions.count("*").alias("count"), functions.sum("cents").alias("total")).write.parquet(str(out))


_DUCK = """
import sys, time, duckdb
db = duckdb.connect(config={"threads": int(sys.argv[2])})
began = time.perf_counter()
db.execute(sys.argv[1])
print(time.perf_counter() - began)
"""


def duck(task: str, into: Path, out: Path) -> float:
    """Run a task with DuckDB, in a process of its own; return the seconds that the statement took."""
    out.mkdir()
    keys = f"moment // {WINDOW} * {WINDOW} AS start, item" if task == "windows" else "item"
    where = "" if task == "windows" else "WHERE cents >= 100"
    statement = (
        f"COPY (SELECT {keys}, count(*) AS count, sum(cents)::BIGINT AS total FROM '{into}/*.parquet' {where} GROUP BY ALL) "
        f"TO '{out}/part.parquet' (FORMAT parquet)"
    )
    command = [str(environments.python("duckdb")), "-c", _DUCK, statement, str(CORES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    return float(done.stdout)


RUN: dict[str, Callable[[str, Path, Path], float | None]] = {
    "funken": funken,
    "records": lambda task, into, out: funken(task, into, out, vectorized=False),
    "spark": spark,
    "duckdb": duck,
}


@contextlib.contextmanager
def bounded(what: str, limit: float, folder: Path) -> Iterator[None]:
    """Say what is done and how long it took; if that is longer than the limit (s), show where it is, and end."""

    def give_up() -> None:
        print(f"{what}: not done after {limit:g} s", file=sys.stderr, flush=True)
        faulthandler.dump_traceback()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    timer, began = threading.Timer(limit, give_up), time.monotonic()
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    print(f"{what}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)


def rows_of(out: Path) -> list[Any]:
    """Return the result, sorted."""
    table = pa.concat_tables(parquet.ParquetFile(file).read() for file in out.glob("*.parquet"))
    names = [name for name in ("start", "item", "count", "total") if name in table.column_names]
    return sorted(zip(*(table[name].to_pylist() for name in names), strict=True))


def reading(into: Path) -> None:
    """Print what a record costs a reader (CPU time): as a record, and as columns of all fields, of three, and of one."""
    source = FileSource.for_bulk_file_format(ParquetFormat(), str(into)).build()
    for form, wanted in (("records", None), ("columns", None), ("columns", (0, 1, 2)), ("columns", (0,))):
        splits, reader, count = source.enumerator(1), source.reader(ConnectorContext("orders")), 0
        splits.start()
        if form == "columns":
            reader.read_record_columns(source.record_schema(), wanted)
        began = time.process_time()
        while given := splits.next_splits(0):
            reader.add_splits(given)
            while isinstance(got := reader.poll(16_000, 0), Batch):
                count += len(got.values)
        cost = (time.process_time() - began) / count * 1e9
        fields = 5 if wanted is None else len(wanted)
        print(json.dumps({"task": "read", "as": form, "fields": fields, "cpu_ns_per_record": round(cost)}), flush=True)
        reader.close()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--systems", default="funken,records,spark,duckdb")
    parser.add_argument("--tasks", default="read,windows,sums")
    parser.add_argument("--limit", type=float, default=180)
    given = parser.parse_args()
    systems = given.systems.split(",")
    if "duckdb" in systems:
        environments.build("duckdb", print)
    folder = Path(tempfile.mkdtemp(prefix="bench-files-"))
    try:
        whole, part = (folder / "whole", given.rows), (folder / "part", given.rows // 10)
        for into, rows in (whole, part):
            with bounded(f"{rows:,} rows of input", given.limit, folder):
                generate(into, rows)
        for task in given.tasks.split(","):
            if task == "read":
                with bounded("read", given.limit, folder):
                    reading(part[0])
                continue
            measure(folder, task, systems, whole, part, given.rounds, given.limit)
    finally:
        shutil.rmtree(folder)


def measure(
    folder: Path,
    task: str,
    systems: list[str],
    whole: tuple[Path, int],
    part: tuple[Path, int],
    rounds: int,
    limit: float,
) -> None:
    """Run a task on each system in turn, compare the results, and print the rates."""
    took: dict[str, list[float]] = {system: [] for system in systems}
    results: dict[int, dict[str, list[Any]]] = {}
    for number in range(rounds + 1):
        for system in systems:
            into, rows = part if system == "records" else whole
            out = folder / f"{task}-{system}-{number}"
            with bounded(f"{task}, {system}, round {number}", limit, folder):
                began = time.perf_counter()
                own = RUN[system](task, into, out)
                seconds = own or time.perf_counter() - began
            if number:
                took[system].append(rows / seconds)
            results.setdefault(rows, {})[system] = rows_of(out)
            shutil.rmtree(out)
    if "records" in systems and "duckdb" in systems:
        out = folder / f"{task}-checked"
        duck(task, part[0], out)
        results[part[1]]["duckdb"] = rows_of(out)
    equal = all(found == each["duckdb"] for each in results.values() if "duckdb" in each for found in each.values())
    for system, rates in took.items():
        line = {"task": task, "system": system, "records_per_second": round(statistics.median(rates)), "equal": equal}
        print(json.dumps(line | {"lowest": round(min(rates)), "highest": round(max(rates))}), flush=True)
    if not equal:
        raise SystemExit(f"{task}: the results differ")


if __name__ == "__main__":
    main()
