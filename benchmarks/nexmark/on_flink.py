"""Runs a query on Flink's SQL, from Parquet files or Kafka; in an environment with PyFlink, which submits it and sees no record.

usage: on_flink.py JSON; with ``parallelism``, ``options`` (Flink's), ``jars``, ``folder``, ``servers`` (of Kafka; "": there are
files) and ``tasks``. A task is "run" or "rows", a query, and a folder of events or how the names of topics begin; for each there
is a line of input, and a line of output: the ``seconds`` of a job from its submission to its end, and of "rows" how many there
are; they are in ``folder``/QUERY.pickle. If it fails, the line says why. All jobs share a JVM: the first ones warm it up.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

from flink_queries import FUNCTIONS, LOG, QUERIES, REPLACED, definitions, left, logged
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment, Table, TableDescriptor


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
    for statement in definitions(query, wanted["servers"], events):
        tables.execute_sql(statement)
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
    """Return what a changelog says in the end."""
    changes = query.execute()._j_table_result.collect()  # PyFlink takes a millisecond for each row
    get_gateway().jvm.bench.Rows.write(changes, str(place))
    with place.open() as lines:
        read = (json.loads(line, parse_float=Decimal) for line in lines)
        return left(((kind, tuple(fields)) for kind, *fields in read), key)


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
