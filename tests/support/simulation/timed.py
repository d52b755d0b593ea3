"""SQL with event time for the simulation: windows, joins in time, rows in their order, patterns.

As those of ``scenarios.py``, what the programs write is the same multiset whatever happens: rows only come, each at its own time.
The versions are upserts: a view that keeps the last row of a key drops what comes behind it, as Flink's does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from funken import DataGeneratorSource, DataStream, StreamExecutionEnvironment, Types, WatermarkStrategy

Wide = Callable[[], int]

_STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n * 7)
_ROW = Types.ROW_NAMED(["k", "n", "s", "d"], [Types.INT(), Types.LONG(), Types.STRING(), Types.DOUBLE()])
_TVF = "TABLE bids, DESCRIPTOR(ts)"

QUERIES = {
    "windows": (
        f"""SELECT k, window_start, COUNT(*), SUM(n), MIN(s), COUNT(DISTINCT n / 3), AVG(d) FILTER (WHERE n > 9)
            FROM TABLE(TUMBLE({_TVF}, INTERVAL '0.1' SECOND)) GROUP BY k, window_start, window_end""",
        f"""SELECT window_end, COUNT(*), MAX(d), LISTAGG(DISTINCT CAST(k AS STRING))
            FROM TABLE(HOP({_TVF}, INTERVAL '0.05' SECOND, INTERVAL '0.1' SECOND)) WHERE k = 1
            GROUP BY window_start, window_end""",
        f"""SELECT k, window_start, window_end, SUM(n)
            FROM TABLE(CUMULATE({_TVF}, INTERVAL '0.05' SECOND, INTERVAL '0.2' SECOND))
            GROUP BY k, window_start, window_end""",
        """SELECT k, window_start, window_end, COUNT(*), SUM(n)
            FROM TABLE(SESSION(TABLE bids PARTITION BY k, DESCRIPTOR(ts), INTERVAL '0.03' SECOND))
            GROUP BY k, window_start, window_end""",
        """SELECT k, TUMBLE_END(ts, INTERVAL '0.1' SECOND), COUNT(*), MAX(s) FROM bids
            GROUP BY k, TUMBLE(ts, INTERVAL '0.1' SECOND)""",
    ),
    "joins": (
        """SELECT b.n, o.n, o.s FROM bids AS b JOIN others AS o ON b.k = o.k
            AND b.ts BETWEEN o.ts - INTERVAL '0.04' SECOND AND o.ts + INTERVAL '0.06' SECOND""",
        """SELECT b.n, o.n FROM bids AS b LEFT JOIN others AS o ON b.k = o.k AND b.n < o.n
            AND o.ts BETWEEN b.ts AND b.ts + INTERVAL '0.05' SECOND""",
        """SELECT b.n, v.n, v.s FROM bids AS b LEFT JOIN versions FOR SYSTEM_TIME AS OF b.ts AS v ON b.k = v.k""",
        """SELECT l.n, r.n, l.window_start
            FROM (SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '0.1' SECOND))) AS l
            FULL JOIN (SELECT * FROM TABLE(TUMBLE(TABLE others, DESCRIPTOR(ts), INTERVAL '0.1' SECOND))) AS r
            ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end""",
        """SELECT n FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '0.1' SECOND)) AS l WHERE k IN
            (SELECT k FROM TABLE(TUMBLE(TABLE others, DESCRIPTOR(ts), INTERVAL '0.1' SECOND)) AS r
             WHERE l.window_start = r.window_start AND l.window_end = r.window_end)""",
    ),
    "rows": (
        """SELECT k, n, SUM(n) OVER w, COUNT(s) OVER w FROM bids
            WINDOW w AS (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)""",
        """SELECT k, n, MAX(d) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '0.06' SECOND PRECEDING
            AND CURRENT ROW) FROM bids""",
        """SELECT * FROM (SELECT k, n, window_start, ROW_NUMBER() OVER
            (PARTITION BY k, window_start, window_end ORDER BY n DESC) AS place
            FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '0.1' SECOND))) WHERE place <= 2""",
        """SELECT k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, n / 8 ORDER BY ts ASC) AS place FROM bids)
            WHERE place = 1""",
        """SELECT * FROM bids MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
            MEASURES FIRST(a.n) AS first_n, LAST(a.n) AS last_n, b.s AS s ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
            PATTERN (a{2,} b) DEFINE a AS MOD(a.n, 5) <> 0, b AS MOD(b.n, 5) = 0)""",
        "SELECT k, LAG(n) OVER (PARTITION BY k ORDER BY ts), n FROM bids",
    ),
}
"""The queries of each program; their results only add rows."""


def _rows(env: StreamExecutionEnvironment, count: int, wide: Wide, name: str, every: int) -> DataStream:
    """Return rows of a few keys, with gaps in time; ``every``: one number of so many becomes a row."""
    source = DataGeneratorSource(lambda i: i, count)
    numbers = env.from_source(source, _STAMPED, name).set_parallelism(wide()).uid(name)
    some = numbers.filter(lambda n: n % every == 0 and n // 9 % 3 != 1).set_parallelism(wide())
    return some.map(lambda n: (n % 3, n, f"text {n % 11}", n / 4), _ROW).set_parallelism(wide()).uid(f"{name}, made")


def timed(
    queries: tuple[str, ...], batched: bool, env: StreamExecutionEnvironment, records: int, wide: Wide
) -> list[DataStream]:
    """Return what queries give; ``batched``: with mini-batches, and so in two phases."""
    from funken.table import ChangelogMode, Schema
    from funken.table.environment import EnvironmentSettings, StreamTableEnvironment

    tables = StreamTableEnvironment.create(env, EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("table.exec.resource.default-parallelism", str(wide()))
    tables.get_config().set("table.local-time-zone", "UTC")
    if batched:
        options = {"enabled": "true", "allow-latency": "10 ms", "size": "5"}
        for name, value in options.items():
            tables.get_config().set(f"table.exec.mini-batch.{name}", value)

    def schema(key: str) -> Any:
        built = Schema.new_builder().column("k", key).column("n", "BIGINT").column("s", "STRING").column("d", "DOUBLE")
        return built.column_by_metadata("ts", "TIMESTAMP_LTZ(3)", "rowtime").watermark("ts", "SOURCE_WATERMARK()")

    streams: dict[str, Any] = {
        name: _rows(env, records, wide, name, every) for name, every in (("bids", 1), ("others", 2))
    }
    for name, stream in streams.items():
        tables.create_temporary_view(name, stream, schema("INT").build())
    keyed = schema("INT NOT NULL").primary_key("k").build()
    versions = tables.from_changelog_stream(streams["others"], keyed, ChangelogMode.upsert())
    tables.create_temporary_view("versions", versions)
    found = []
    for place, text in enumerate(queries):
        rows = tables.to_data_stream(tables.sql_query(text)).map(lambda row: str(tuple(row)))
        found.append(rows.set_parallelism(wide()).uid(f"text {place}"))
    return found


TIMED: dict[str, Callable[[StreamExecutionEnvironment, int, Wide], list[DataStream]]] = {
    f"{name} of SQL{', batched' * batched}": partial(timed, queries, batched)
    for name, queries in QUERIES.items()
    for batched in (False, True)
}

__all__ = ["TIMED"]
