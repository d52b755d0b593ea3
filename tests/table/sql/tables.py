"""Tables for tests of the binder and the planner: a, a2 append with rowtime, c changes without key, cp with key, u upserts."""

from __future__ import annotations

from funken.table.environment import EnvironmentSettings, StreamTableEnvironment

TABLES = """
CREATE TABLE a (id INT, k STRING, v INT, ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector' = 'values');
CREATE TABLE a2 (id INT, k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
    WITH ('connector' = 'values');
CREATE TABLE c (id INT, k STRING, v INT) WITH ('connector' = 'values', 'changelog-mode' = 'I,UB,UA,D');
CREATE TABLE cp (id INT PRIMARY KEY NOT ENFORCED, k STRING, v INT)
    WITH ('connector' = 'values', 'changelog-mode' = 'I,UB,UA,D');
CREATE TABLE u (id INT PRIMARY KEY NOT ENFORCED, k STRING, v INT) WITH ('connector' = 'values', 'changelog-mode' = 'I,UA,D');
CREATE TABLE r (k STRING PRIMARY KEY NOT ENFORCED, rate INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'values', 'disable-lookup' = 'false');
CREATE TABLE ru (k STRING PRIMARY KEY NOT ENFORCED, rate INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'values', 'changelog-mode' = 'I,UA,D');
CREATE VIEW versions AS
    SELECT k, rate, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS rn FROM r) WHERE rn = 1;
CREATE TABLE n (id INT, r ROW<x INT, y ROW<z STRING>>, arr ARRAY<INT>, m MAP<STRING, INT>, ltz TIMESTAMP_LTZ(3), d DECIMAL(10, 2))
    WITH ('connector' = 'values');
CREATE TABLE plain (k STRING, n BIGINT) WITH ('connector' = 'values', 'sink-insert-only' = 'true');
CREATE TABLE keyed (k STRING PRIMARY KEY NOT ENFORCED, n BIGINT) WITH ('connector' = 'values');
CREATE TABLE anything (k STRING, n BIGINT) WITH ('connector' = 'values')
"""


def session(batch: bool = False) -> StreamTableEnvironment:
    """Return a session that has the tables."""
    settings = EnvironmentSettings.in_batch_mode() if batch else EnvironmentSettings.in_streaming_mode()
    tables = StreamTableEnvironment.create(environment_settings=settings)
    for statement in TABLES.strip().split(";"):
        tables.execute_sql(statement)
    return tables


def physical(tables: StreamTableEnvironment, text: str) -> list[str]:
    """Return the operators of a statement with their modes, top down, as EXPLAIN has them."""
    explained = tables.explain_sql(text, "CHANGELOG_MODE")
    part = explained.split("== Optimized Physical Plan ==\n")[1].split("\n\n==")[0]
    return [line.lstrip(" :+-") for line in part.splitlines() if line.strip()]


def modes(tables: StreamTableEnvironment, text: str) -> list[str]:
    """Return ``Operator [mode]`` for each operator, without exchanges and projections that change nothing."""
    found = []
    for line in physical(tables, text):
        name = line.split("(")[0]
        if name not in {"Exchange", "Calc", "WatermarkAssigner"}:
            found.append(f"{name} {line.rsplit('changelogMode=', 1)[1][:-1]}")
    return found
