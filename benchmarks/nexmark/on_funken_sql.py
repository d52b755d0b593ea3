"""Runs a query on Funken's SQL, from Parquet files or Kafka: as ``on_flink.py``, the same statements, arguments and answers.

``options`` are Funken's, with ``execution.target``.
"""

from __future__ import annotations

import datetime
import json
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checking import without_clock
from flink_queries import LOG, QUERIES, REPLACED, definitions, left, logged

from funken import Configuration, FunkenError
from funken.table.environment import EnvironmentSettings, TableEnvironment
from funken.table.udf import udf

EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - as the columns have it
MILLISECOND = datetime.timedelta(milliseconds=1)
WITHOUT = 7
FUNCTIONS = {
    "count_char": udf(lambda text, char: text.count(char), result_type="BIGINT"),
    "side_input": udf(lambda key: None if key % WITHOUT == 0 else f"value-{key}", result_type="STRING"),
}
"""What SQL has no function for; the side input of q13 has nothing for every seventh key."""


def environment(
    options: dict[str, Any], query: str, servers: str, events: str, batch: bool = False
) -> TableEnvironment:
    """Return an environment with the tables of a query."""
    conf = Configuration({"table.local-time-zone": "UTC"} | options)
    settings = EnvironmentSettings.new_instance().with_configuration(conf)
    tables = TableEnvironment.create((settings.in_batch_mode() if batch else settings.in_streaming_mode()).build())
    for statement in definitions(query, servers, events):
        tables.execute_sql(statement)
    for name, function in FUNCTIONS.items():
        tables.create_temporary_function(name, function)
    return tables


def plain(value: Any) -> Any:
    """Return a value as DuckDB's answer has it: times are ms."""
    return (value.replace(tzinfo=None) - EPOCH) // MILLISECOND if isinstance(value, datetime.datetime) else value


def rows(options: dict[str, Any], query: str, servers: str, events: str, log: str) -> list[tuple[Any, ...]]:
    """Return the result of a query, as its changelog leaves it; that of q10 is in files."""
    if query == "q10":
        insertion(options, query, servers, events, log)()
        return logged(Path(log))
    begin = time.time_ns() // 1_000_000
    # In streaming mode, windows that the clock has not closed when the input ends never fire.
    tables = environment(options, query, servers, events, batch=query == "q12")
    changes = tables.sql_query(QUERIES[query]).execute().collect()
    found = left(((str(row.get_row_kind()), tuple(map(plain, row))) for row in changes), REPLACED.get(query, 0))
    return without_clock(query, found, begin, time.time_ns() // 1_000_000) if query == "q12" else found


def insertion(options: dict[str, Any], query: str, servers: str, events: str, log: str) -> Callable[[], None]:
    """Return what runs a job into a sink that drops all; of q10, into files."""
    tables = environment(options, query, servers, events)
    if query == "q10":
        tables.execute_sql(LOG.format(log))
        return lambda: tables.execute_sql(f"INSERT INTO log {QUERIES[query]}").wait()
    columns = tables.sql_query(QUERIES[query]).get_resolved_schema().get_column_data_types()
    names = ", ".join(f"c{number} {kind}" for number, kind in enumerate(columns))
    tables.execute_sql(f"CREATE TABLE nowhere ({names}) WITH ('connector' = 'blackhole')")
    return lambda: tables.execute_sql(f"INSERT INTO nowhere {QUERIES[query]}").wait()


def done(wanted: dict[str, Any], what: str, query: str, events: str, log: str) -> dict[str, Any]:
    """Do a task."""
    options = {"parallelism.default": wanted["parallelism"]} | wanted["options"]
    if what == "rows":
        found = rows(options, query, wanted["servers"], events, log)
        Path(wanted["folder"], f"{query}.pickle").write_bytes(pickle.dumps(found))
        return {"seconds": 0.0, "rows": len(found)}
    execute = insertion(options, query, wanted["servers"], events, log)
    begin = time.perf_counter()
    execute()
    return {"seconds": time.perf_counter() - begin, "rows": 0}


def main() -> None:
    """Do what is asked for, one task for each line of input."""
    wanted = json.loads(sys.argv[1])
    for number, task in enumerate(wanted["tasks"]):
        sys.stdin.readline()
        try:
            answer = done(wanted, *task, f"{wanted['folder']}/log-{number}")
        except (FunkenError, ValueError) as error:
            answer = {"failed": f"{type(error).__name__}: {error}"[:3000]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
