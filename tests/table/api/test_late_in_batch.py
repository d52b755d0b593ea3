"""A batch has all of its rows before its end: rows out of order are not late, whatever the watermark of the table says."""

import pytest

from funken.table import EnvironmentSettings, TableEnvironment
from funken.table.expressions import col, lit
from funken.table.window import Tumble

ROWS = [
    "1,a,10,00:00:01",
    "2,b,20,00:00:03",
    "3,a,30,00:00:14",
    "4,a,40,00:00:02",
    "5,b,50,00:00:25",
    "6,b,60,00:00:04",
]


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "rows.csv").write_text("".join(f"{row[:-8]}2024-01-01 {row[-8:]}\n" for row in ROWS))
    env = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    env.get_config().set("parallelism.default", "1").set("pipeline.auto-watermark-interval", "0")
    env.execute_sql(
        "CREATE TABLE t (id INT, k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ("
        f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    return env


def rows_of(result):
    with result.collect() as rows:
        return sorted(tuple(row) for row in rows)


WINDOW = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
SUMS = [("a", 30), ("a", 50), ("b", 50), ("b", 80)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"SELECT k, SUM(v) FROM {WINDOW} GROUP BY k, window_start, window_end", SUMS),
        ("SELECT k, SUM(v) FROM t GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)", SUMS),
        (
            "SELECT k, SUM(v) FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) "
            "GROUP BY k, window_start, window_end",
            SUMS,
        ),
        (
            "SELECT k, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY ts DESC) AS n "
            f"FROM {WINDOW}) WHERE n = 1",
            [("a", 3), ("a", 4), ("b", 5), ("b", 6)],
        ),
        (
            f"SELECT l.id, r.id FROM (SELECT * FROM {WINDOW}) l JOIN (SELECT * FROM {WINDOW}) r ON l.k = r.k AND "
            "l.window_start = r.window_start AND l.window_end = r.window_end WHERE l.id < r.id",
            [(1, 4), (2, 6)],
        ),
        (
            "SELECT l.id, r.id FROM t l JOIN t r ON l.k = r.k AND l.id < r.id AND "
            "l.ts BETWEEN r.ts - INTERVAL '2' SECOND AND r.ts + INTERVAL '2' SECOND",
            [(1, 4), (2, 6)],
        ),
        ("SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY ts) FROM t WHERE k = 'a'", [(1, 10), (3, 80), (4, 50)]),
    ],
)
def test_rows_out_of_order_count(tables, query, expected):
    assert rows_of(tables.execute_sql(query)) == expected


def test_rows_out_of_order_count_in_windows_of_the_table_api(tables):
    windows = tables.from_path("t").window(Tumble.over(lit(10).seconds).on(col("ts")).alias("w"))

    assert rows_of(windows.group_by(col("w"), col("k")).select(col("k"), col("v").sum).execute()) == SUMS
