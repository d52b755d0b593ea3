"""Runs a query on Flink's SQL, from Parquet files or Kafka; in an environment with PyFlink, which submits it and sees no record.

usage: on_flink.py JSON; with ``parallelism``, ``options`` (Flink's), ``jars``, ``folder``, ``servers`` (of Kafka; "": there are
files) and ``tasks``. A task is "run" or "rows", a query, and a folder of events or how the names of topics begin; for each there
is a line of input, and a line of output: the ``seconds`` of a job from its submission to its end, and of "rows" how many there
are; they are in ``folder``/QUERY.pickle. If it fails, the line says why. All jobs share a JVM: the first ones warm it up.
"""

from __future__ import annotations

import csv
import json
import pickle
import sys
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from flink_queries import FUNCTIONS, QUERIES, REPLACED, TABLES, TIME, TIMES
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment, Table, TableDescriptor

LOG = (
    "CREATE TABLE log (auction BIGINT, bidder BIGINT, price BIGINT, date_time BIGINT, extra STRING, dt STRING, hm STRING) "
    "PARTITIONED BY (dt, hm) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv')"
)
GONE = ("-U", "-D")


def files(folder: str) -> str:
    """Return the options of a table of Parquet files."""
    return f"'connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = 'parquet'"


def topic(servers: str, name: str) -> str:
    """Return the options of a table of what a topic has when the job starts."""
    place = (
        f"'connector' = 'kafka', 'topic' = '{name}', 'properties.bootstrap.servers' = '{servers}', 'format' = 'json'"
    )
    return f"{place}, 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'"


def environment(wanted: dict[str, Any], query: str, events: str) -> StreamTableEnvironment:
    """Return an environment with the tables."""
    conf = Configuration()
    options = {
        "parallelism.default": str(wanted["parallelism"]),
        "taskmanager.numberOfTaskSlots": str(wanted["parallelism"]),
        "table.local-time-zone": "UTC",
        "pipeline.jars": ";".join(f"file://{path}" for path in wanted["jars"]),
        "pipeline.global-job-parameters": f"side.input:{wanted['folder']}/side_input.csv",
    }
    if query == "q10":  # files are finished by a checkpoint, the last ones by the one at the end
        options["execution.checkpointing.interval"] = "1 s"
    for key, value in (options | wanted["options"]).items():
        conf.set_string(key, value)
    tables = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment(conf))
    times = ", ".join(filter(None, (TIME, TIMES.get(query))))
    for name, columns in TABLES.items():
        place = topic(wanted["servers"], f"{events}-{name}") if wanted["servers"] else files(f"{events}/{name}")
        tables.execute_sql(f"CREATE TABLE {name} ({columns}, {times}) WITH ({place})")
    for name, function in FUNCTIONS.items():
        tables.execute_sql(f"CREATE TEMPORARY FUNCTION {name} AS '{function}' LANGUAGE JAVA")
    return tables


def run(wanted: dict[str, Any], query: str, events: str, log: str) -> float:
    """Return the seconds that a job takes into a sink that drops all; of q10, into files."""
    tables = environment(wanted, query, events)
    table = tables.sql_query(QUERIES[query])
    begin = time.perf_counter()
    if query == "q10":
        tables.execute_sql(LOG.format(log))
        table.execute_insert("log").wait()
    else:
        table.execute_insert(TableDescriptor.for_connector("blackhole").build()).wait()
    return time.perf_counter() - begin


def rows(query: Table, key: int, place: Path) -> list[tuple[Any, ...]]:
    """Return what a changelog says in the end; with a key, a change replaces the row with the same leading fields."""
    changes = query.execute()._j_table_result.collect()  # PyFlink takes a millisecond for each row
    get_gateway().jvm.bench.Rows.write(changes, str(place))
    found: Counter[tuple[Any, ...]] = Counter()
    last: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    with place.open() as lines:
        for line in lines:
            kind, *fields = json.loads(line, parse_float=Decimal)
            row, gone = tuple(fields), kind in GONE
            if key and gone:
                last.pop(row[:key])
            elif key:
                last[row[:key]] = row
            else:
                found[row] += -1 if gone else 1
    if any(count < 0 for count in found.values()):
        raise SystemExit("the changelog takes back what it never said")
    return [*found.elements(), *last.values()]


def logged(log: Path) -> list[tuple[Any, ...]]:
    """Return what is in the files that are finished."""
    found: list[tuple[Any, ...]] = []
    for path in log.glob("dt=*/hm=*/part-*"):
        partition = [unquote(part.partition("=")[2]) for part in path.relative_to(log).parts[:2]]
        with path.open(newline="") as file:
            found += [(*map(int, numbers), extra, *partition) for *numbers, extra in csv.reader(file)]
    return found


def done(wanted: dict[str, Any], what: str, query: str, events: str, log: str) -> dict[str, Any]:
    """Do a task."""
    found, seconds = list[Any](), 0.0
    if what == "run" or query == "q10":
        seconds = run(wanted, query, events, log)
    if what == "rows":
        if query == "q10":
            found = logged(Path(log))
        else:
            table = environment(wanted, query, events).sql_query(QUERIES[query])
            found = rows(table, REPLACED.get(query, 0), Path(wanted["folder"], f"{query}.json"))
        Path(wanted["folder"], f"{query}.pickle").write_bytes(pickle.dumps(found))
    return {"seconds": seconds, "rows": len(found)}


def main() -> None:
    """Do what is asked for, one task for each line of input."""
    wanted = json.loads(sys.argv[1])
    for number, task in enumerate(wanted["tasks"]):
        sys.stdin.readline()
        try:
            answer = done(wanted, *task, f"{wanted['folder']}/log-{number}")
        except Exception as error:  # noqa: BLE001 - of Java; the next query may do better
            answer = {"failed": f"{type(error).__name__}: {error}"[:3000]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
