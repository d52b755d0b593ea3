"""Runner: Flink's JVM through SQL, with the ``datagen`` connector as source and ``blackhole`` as sink; no mini-batches.

Python only submits the statements. The numbers of the measured run are a sequence, as everywhere.
"""

from __future__ import annotations

from datetime import UTC
from typing import Any

import flink
import oracle
from protocol import ENDLESS, Spec, answer, spec, unsupported, watch
from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

COLUMNS = {
    "grep": "line AS CONCAT('line ', CAST(id AS STRING), ' of the text')",
    "keyed": "k AS MOD(id, {keys})",
    "windows": "k AS MOD(id, {keys}), ts AS TO_TIMESTAMP_LTZ(id / {per_ms}, 3), WATERMARK FOR ts AS ts",
}
QUERIES = {
    "grep": "SELECT line FROM numbers WHERE line LIKE '%999 %'",
    "keyed": "SELECT k, COUNT(*) AS n FROM numbers GROUP BY k",
    "windows": "SELECT k, COUNT(*) AS n, window_end FROM "
    "TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end",
}
SINKS = {"grep": "line STRING", "keyed": "k BIGINT, n BIGINT", "windows": "k BIGINT, n BIGINT, window_end TIMESTAMP(3)"}


def tables(wanted: Spec, count: int, per_ms: int, metrics: str = "") -> TableEnvironment:
    """Return an environment with the table of numbers."""
    conf = Configuration()
    for key, value in flink.options(wanted, metrics).items():
        conf.set_string(key, value)
    conf.set_string("table.local-time-zone", "UTC")
    env = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(conf).build()
    )
    columns = COLUMNS[wanted.program].format(keys=wanted.keys, per_ms=per_ms)
    env.execute_sql(
        f"CREATE TABLE numbers (id BIGINT, {columns}) WITH ('connector' = 'datagen', 'rows-per-second' = '{2**62}', "
        f"'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '{count - 1}')"
    )
    return env


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
