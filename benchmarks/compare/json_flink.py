"""Runner: Flink SQL from lines of JSON, by its file system connector and its JSON format, into ``blackhole``; no mini-batches."""

from __future__ import annotations

import flink
import json_common
from protocol import Spec, answer, spec, watch
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

COLUMNS = "id BIGINT, `user` STRING, price DOUBLE, `at` BIGINT, note STRING, ts AS TO_TIMESTAMP_LTZ(`at`, 3)"
WINDOWS = "HOP(TABLE dear, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND)"
QUERY = f"SELECT `user`, COUNT(*) AS n FROM TABLE({WINDOWS}) GROUP BY `user`, window_start, window_end"


def tables(wanted: Spec, which: str, metrics: str = "") -> StreamTableEnvironment:
    """Return an environment with the orders that are counted."""
    conf = Configuration()
    for key, value in flink.options(wanted, metrics).items():
        conf.set_string(key, value)
    conf.set_string("table.local-time-zone", "UTC")
    tables = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment(conf))
    options = f"'connector' = 'filesystem', 'path' = 'file://{json_common.folder(which)}', 'format' = 'json'"
    tables.execute_sql(f"CREATE TABLE orders ({COLUMNS}, WATERMARK FOR ts AS ts) WITH ({options})")
    tables.execute_sql(
        f"CREATE TEMPORARY VIEW dear AS SELECT `user`, ts FROM orders WHERE price >= {json_common.PRICE}"
    )
    return tables


def main() -> None:
    """Check, then measure."""
    wanted = spec()
    with tables(wanted, json_common.CHECKED).execute_sql(QUERY).collect() as found:
        number = json_common.check([(row[0], row[1]) for row in found])
    metrics = f"{wanted.folder}/metrics.jsonl"
    env = tables(wanted, json_common.MEASURED, metrics)
    env.execute_sql("CREATE TABLE nowhere (k STRING, n BIGINT) WITH ('connector' = 'blackhole')")
    running = env.execute_sql(f"INSERT INTO nowhere {QUERY}")
    try:
        answer({"checked": number, **watch(flink.Metrics(metrics, "orders"), wanted, json_common.total())})
    finally:
        client = running.get_job_client()
        if client is not None:
            client.cancel()


if __name__ == "__main__":
    main()
