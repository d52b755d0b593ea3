"""Runner: Flink's JVM through SQL, from the generator of ``java/Numbers.java`` into ``blackhole``; no mini-batches.

Python only submits the statements. Flink's own ``datagen`` is not the source because its sequences are made in memory
beforehand, and its random numbers have no event time that could be checked.
"""

from __future__ import annotations

from datetime import UTC
from typing import Any

import flink
import oracle
from protocol import ENDLESS, Spec, answer, spec, unsupported, watch
from pyflink.common import Configuration, Types
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.table import Schema, StreamTableEnvironment

COLUMNS = {
    "grep": {"line": "CONCAT('line ', CAST(f0 AS STRING), ' of the text')"},
    "keyed": {"k": "MOD(f0, {keys})"},
    "windows": {"k": "MOD(f0, {keys})", "ts": "TO_TIMESTAMP_LTZ(f0 / {per_ms}, 3)"},
}
QUERIES = {
    "grep": "SELECT line FROM numbers WHERE line LIKE '%999 %'",
    "keyed": "SELECT k, COUNT(*) AS n FROM numbers GROUP BY k",
    "windows": "SELECT k, COUNT(*) AS n, window_end FROM "
    "TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end",
}
SINKS = {"grep": "line STRING", "keyed": "k BIGINT, n BIGINT", "windows": "k BIGINT, n BIGINT, window_end TIMESTAMP(3)"}


def tables(wanted: Spec, count: int, per_ms: int, metrics: str = "") -> StreamTableEnvironment:
    """Return an environment with the table of numbers."""
    conf = Configuration()
    for key, value in flink.options(wanted, metrics).items():
        conf.set_string(key, value)
    conf.set_string("table.local-time-zone", "UTC")
    env = StreamExecutionEnvironment.get_execution_environment(conf)
    tables = StreamTableEnvironment.create(env)
    made = get_gateway().jvm.bench.Numbers.plain(count, 0.0)
    long = Types.LONG().get_java_type_info()
    numbers = DataStream(env._j_stream_execution_environment.addSource(made, "numbers", long))
    schema = Schema.new_builder().column("f0", "BIGINT")
    for name, expression in COLUMNS[wanted.program].items():
        schema = schema.column_by_expression(name, expression.format(keys=wanted.keys, per_ms=per_ms))
    if wanted.program == "windows":
        schema = schema.watermark("ts", "ts")
    tables.create_temporary_view("numbers", numbers, schema.build())
    return tables


def row(program: str, values: Any) -> Any:
    """Return a result as the oracle has it."""
    if program == "grep":
        return values[0]
    return (*values[:2], *(round(end.replace(tzinfo=UTC).timestamp() * 1000) for end in values[2:]))


def main() -> None:
    """Check, then measure."""
    wanted = spec()
    if wanted.program not in QUERIES or wanted.stamped:
        unsupported("this program is not written in SQL")
    env = tables(wanted, oracle.CHECKED, oracle.CHECKED_PER_MS)
    query = env.execute_sql(QUERIES[wanted.program])
    kinds = ("INSERT", "UPDATE_AFTER")
    with query.collect() as found:
        results = [row(wanted.program, r) for r in found if r.get_row_kind().name in kinds]
    number = oracle.check(wanted.program, results, wanted.keys)
    metrics = f"{wanted.folder}/metrics.jsonl"
    env = tables(wanted, ENDLESS, wanted.per_ms, metrics)
    env.execute_sql(f"CREATE TABLE nowhere ({SINKS[wanted.program]}) WITH ('connector' = 'blackhole')")
    running = env.execute_sql(f"INSERT INTO nowhere {QUERIES[wanted.program]}")
    try:
        answer({"checked": number, **watch(flink.Metrics(metrics), wanted)})
    finally:
        client = running.get_job_client()
        if client is not None:
            client.cancel()


if __name__ == "__main__":
    main()
