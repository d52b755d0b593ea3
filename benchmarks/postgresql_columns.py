"""A million rows of PostgreSQL, read in this process: ``SqlSource``, psycopg alone, and ADBC, which gives columns of Arrow.

``python benchmarks/postgresql_columns.py`` starts a server of its own. It needs ``adbc-driver-manager`` and
``adbc-driver-postgresql``.
See decision 0044.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import psycopg
from adbc_driver_postgresql import dbapi  # type: ignore[import-not-found, unused-ignore]
from psycopg.conninfo import conninfo_to_dict

from funken import DiscardingSink, StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors.postgresql import PostgresDatabase
from funken.connectors.sql import SqlSource
from tests.support.postgres import PostgresServer, postgres_binaries

ROWS, PAGE = 1_000_000, 10_000
TABLE = f"""CREATE TABLE t AS SELECT n::bigint AS id, 'user-' || (n % 1000) AS who, n / 4.0::float8 AS price,
now()::timestamp + n * interval '1 s' AS at FROM generate_series(1, {ROWS}) n"""


def measure(name: str, read: Callable[[], object]) -> None:
    """Print rate and CPU of one way."""
    wall, cpu = time.perf_counter(), time.process_time()
    read()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name:32} {ROWS / wall:12,.0f} rows/s {cpu / ROWS * 1e6:6.2f} us of CPU here a row", flush=True)


def by_source(conninfo: str) -> None:
    """Read by the source, in a job."""
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    source = SqlSource(PostgresDatabase(conninfo), "SELECT * FROM t", "id", page_size=PAGE)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").sink_to(DiscardingSink())
    env.execute()


def by_psycopg(conninfo: str, binary: bool) -> None:
    """Read all rows at once."""
    with psycopg.connect(conninfo) as connection, connection.cursor(binary=binary) as cursor:
        assert len(cursor.execute("SELECT * FROM t").fetchall()) == ROWS


def by_adbc(uri: str) -> None:
    """Read pages as columns."""
    with dbapi.connect(uri) as connection, connection.cursor() as cursor:
        for start in range(0, ROWS, PAGE):
            cursor.execute(f"SELECT * FROM t WHERE id > {start} AND id <= {start + PAGE} ORDER BY id")
            assert cursor.fetch_arrow_table().num_rows == PAGE


def main() -> None:
    """Measure all, twice."""
    folder, missing = postgres_binaries()
    if folder is None:
        sys.exit(missing)
    server = PostgresServer(folder).start()
    try:
        for statement in (TABLE, "CREATE UNIQUE INDEX ON t (id)", "ANALYZE t"):
            server.execute(statement)
        parts = conninfo_to_dict(server.conninfo)
        uri = "postgresql:///?" + "&".join(f"{key}={value}" for key, value in parts.items())
        for _ in range(2):
            measure("SqlSource", lambda: by_source(server.conninfo))
            measure("psycopg", lambda: by_psycopg(server.conninfo, binary=False))
            measure("psycopg, binary", lambda: by_psycopg(server.conninfo, binary=True))
            measure("ADBC", lambda: by_adbc(uri))
    finally:
        server.remove()


if __name__ == "__main__":
    main()
