"""Window joins with the extreme of a window: only candidates are sent, and the result is the same."""

import random
from datetime import datetime, timedelta

import pytest

from funken import StreamExecutionEnvironment
from funken.expr.sql.types import BigIntType, TimestampType
from funken.table import StreamTableEnvironment, physical
from funken.table.connectors.values import register_rows
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.window_rows import WindowExtremes
from tests.table.runtime.changelogs import Run

HOP = "TABLE(HOP(TABLE b, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND))"
TUMBLE = "TABLE(TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '4' SECOND))"
BOUNDS = "window_start, window_end"
SAME = "x.window_start = m.window_start AND x.window_end = m.window_end"


def query(windows, extreme, condition="", where="", kind="JOIN", having="", argument="v"):
    inner = f"SELECT {extreme}({argument}) AS best, {BOUNDS} FROM {windows} {where} GROUP BY {BOUNDS} {having}"
    return f"""
        SELECT x.k, x.v, x.window_end FROM (SELECT * FROM {windows} {condition}) x
        {kind} ({inner}) m ON {SAME} AND x.v = m.best"""


def made(sql):
    """Return the result of a query, and how many operators leave rows out."""
    chance, begin = random.Random(5), datetime(2024, 1, 1)  # noqa: DTZ001 - a TIMESTAMP has no zone
    rows = []
    for number in range(200):
        at = begin + timedelta(milliseconds=100 * number + chance.randrange(1500) * (chance.random() < 0.3))
        rows.append((number, None if chance.random() < 0.1 else chance.randrange(30), at))
    env = StreamExecutionEnvironment.create_local_environment(2)
    tables = StreamTableEnvironment.create(env)
    tables.execute_sql(
        "CREATE TABLE b (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) "
        f"WITH ('connector' = 'values', 'data-id' = '{register_rows(rows)}')"
    )
    stream = tables.to_data_stream(tables.sql_query(sql))
    extremes = sum(node.name == "extremes" for node in env.graph)
    return sorted(map(tuple, stream.execute_and_collect(limit=10_000))), extremes


@pytest.mark.parametrize(
    "sql",
    [
        query(TUMBLE, "MAX"), query(TUMBLE, "MIN"), query(HOP, "MAX"), query(HOP, "MIN", "WHERE k > 20"),
        query(TUMBLE, "MAX", having="HAVING MAX(v) > 25"),
        f"""SELECT x.k, x.v, x.window_end FROM (SELECT MAX(v) AS best, {BOUNDS} FROM {TUMBLE} GROUP BY {BOUNDS}) m
            JOIN {TUMBLE} x ON {SAME} AND x.v = m.best""",
    ],
)  # fmt: skip
def test_only_candidates_are_sent(monkeypatch, sql):
    found, extremes = made(sql)
    monkeypatch.setattr(physical, "extreme_of", lambda *_: None)
    whole, none = made(sql)
    assert (extremes, none) == (1, 0)
    assert found == whole
    assert found


@pytest.mark.parametrize(
    "sql",
    [
        query(TUMBLE, "MAX", where="WHERE k > 20"),  # of fewer rows than are joined
        query(TUMBLE, "COUNT"),
        query(TUMBLE, "MAX", kind="LEFT JOIN"),
        query(TUMBLE, "MAX", argument="k"),
        f"SELECT x.k FROM {TUMBLE} x JOIN (SELECT MAX(v) AS best, {BOUNDS} FROM {HOP} GROUP BY {BOUNDS}) m ON x.v = m.best",
    ],
)  # fmt: skip
def test_others_are_sent_whole(sql):
    assert made(sql)[1] == 0


def test_a_late_row_takes_no_other_rows_place():
    source = BlockSchema(["v", "start", "end"], [BigIntType(), TimestampType(3), TimestampType(3)])
    run = Run(WindowExtremes, [source], source, column=0, greatest=True, window_columns=(1, 2), local=False, zone="UTC")

    def passed(*values, end=10):
        run.harness.operator.process_block(source.block([(value, 0, end * 10**9) for value in values]))
        found, run.changes = [row[0] for _, row in run.changes], []
        return found

    assert passed(3, None, 5, 4) == [5]
    assert passed(4, 5) == [5]
    assert passed(1, 2, end=20) == [2]
    run.watermark(10_000)
    assert passed(9) == [9]
    assert passed(5, 1) == [5, 1]
    assert passed(1, 2, end=20) == [2]
