"""``tpch_sql.py --batch``: the 22 queries of TPC-H over Parquet files, in batch mode, beside Spark SQL of the same files.

Both run in turns: Funken in this process, or on Spark, and Spark SQL with ``local[N]``, whose JVM is warm. The rows of each are
compared with DuckDB's; the time of a query is from its text to its last row. CPU is that of this process and of the JVM.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import math
import os
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")


def write_files(folder: Path, scale: float) -> tuple[dict[str, str], dict[str, list[Any]]]:
    """Write the tables as Parquet files; return the queries and DuckDB's answers. Run by an interpreter that has dbgen."""
    import duckdb  # noqa: PLC0415 - in an environment of its own
    from duckdb_extensions import import_extension  # noqa: PLC0415

    import_extension("tpch")
    database = duckdb.connect()
    database.execute("LOAD tpch")
    database.execute(f"CALL dbgen(sf = {scale})")
    for (table,) in database.execute("SHOW TABLES").fetchall():
        (folder / table).mkdir()
        database.execute(
            f"COPY {table} TO '{folder / table / 'part-0.parquet'}' (FORMAT parquet, ROW_GROUP_SIZE 122880)"
        )
    queries = {
        f"q{number}": text.strip().rstrip(";") for number, text in database.execute("FROM tpch_queries()").fetchall()
    }
    queries["q15"] = re.sub(r"GROUP BY\s+supplier_no", "GROUP BY l_suppkey", queries["q15"])  # SQL's own knows no alias
    return queries, {name: database.execute(text).fetchall() for name, text in queries.items()}


def funken(folder: Path, tables: dict[str, str], args: argparse.Namespace) -> Callable[[str], list[Any]]:
    """Return what runs a query of Funken."""
    from funken import Configuration  # noqa: PLC0415 - DuckDB's side has no Funken
    from funken.table.environment import EnvironmentSettings, TableEnvironment  # noqa: PLC0415

    options = {"execution.target": args.target, "parallelism.default": args.width}
    settings = EnvironmentSettings.new_instance().in_batch_mode().with_configuration(Configuration(options)).build()
    environment = TableEnvironment.create(settings)
    for name, columns in tables.items():
        place = f"'connector' = 'filesystem', 'path' = 'file://{folder / name}', 'format' = 'parquet'"
        environment.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({place})")

    def run(query: str) -> list[Any]:
        text = re.sub(r"\bvalue\b", "`value`", query)  # a reserved word
        return [tuple(row) for row in environment.execute_sql(text).collect()]

    return run


def spark(folder: Path, tables: dict[str, str], args: argparse.Namespace) -> Callable[[str], list[Any]]:
    """Return what runs a query of Spark SQL."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only beside it

    builder = SparkSession.builder.master(f"local[{args.width}]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", args.width).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for name in tables:
        session.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    return lambda query: [tuple(row) for row in session.sql(query).collect()]


def children(process: int) -> list[int]:
    """Return the processes that a process has started."""
    found: list[int] = []
    for each in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found += map(int, each.read_text().split())
    return found


def cpu_seconds() -> float:
    """Return the CPU seconds of this process, and of all that it has started: the JVM and its workers."""
    found, left = time.process_time(), children(os.getpid())
    while left:
        process = left.pop()
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
            found += sum(map(int, fields[11:15])) / _TICKS  # its own, and of children that have ended
            left += children(process)
    return found


def compare(
    queries: dict[str, str],
    answers: dict[str, list[Any]],
    systems: dict[str, Callable[[str], list[Any]]],
    runs: int,
    difference: Callable[[list[Any], list[Any]], str],
) -> dict[str, Any]:
    """Run the queries in turns; return the median seconds of each system, by the clock and of CPU."""
    found: dict[str, Any] = {}
    for name, query in queries.items():
        spent: dict[str, list[tuple[float, float]]] = {system: [] for system in systems}
        figures: dict[str, Any] = {}
        for turn in range(runs + 1):  # the first warms up, and is checked
            for system, run in systems.items():
                if system in figures:
                    continue
                gc.collect()
                began, before = time.perf_counter(), cpu_seconds()
                try:
                    rows = run(query)
                except Exception as error:  # noqa: BLE001 - reported
                    figures[system] = f"{type(error).__name__}: {error}"[:300]
                    continue
                spent[system].append((time.perf_counter() - began, cpu_seconds() - before))
                if turn == 0 and (problem := difference(rows, answers[name])):
                    figures[system] = f"wrong: {problem}"
        for system, times in spent.items():
            if system not in figures:
                figures[system] = [
                    round(statistics.median(each), 3) for each in zip(*(times[1:] or times), strict=True)
                ]
        found[name] = figures
        print(f"{name:4} {told(figures)}", flush=True)
    return found


def told(figures: dict[str, Any]) -> str:
    """Return the figures of a query as a line."""
    parts = [
        f"{system} {each}" if isinstance(each, str) else f"{system} {each[0]:6.2f} s, {each[1]:6.2f} CPU"
        for system, each in figures.items()
    ]
    if (both := ratios(figures)) is not None:
        parts.append(f"{both[0]:.2f} x, CPU {both[1]:.2f} x")
    return "   ".join(parts)


def ratios(figures: dict[str, Any]) -> tuple[float, float] | None:
    """Return how many times as fast Funken is as Spark, by the clock and by CPU."""
    mine, other = figures.get("funken"), figures.get("spark")
    if not isinstance(mine, list) or not isinstance(other, list):
        return None
    return other[0] / mine[0], other[1] / max(mine[1], 0.001)


def mean(found: dict[str, Any]) -> str:
    """Return the geometric means as a line."""
    each = [both for figures in found.values() if (both := ratios(figures)) is not None]
    if not each:
        return ""
    clock, cpu = (math.exp(statistics.fmean(map(math.log, column))) for column in zip(*each, strict=True))
    return f"Spark / Funken: {clock:.2f} x, CPU {cpu:.2f} x (geometric mean of {len(each)} queries)"
