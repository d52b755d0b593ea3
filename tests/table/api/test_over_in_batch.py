"""OVER of bounded queries: any order, any frame. The results are what Flink 2.3 gives for the same rows."""

import pytest

from funken.table import EnvironmentSettings, TableEnvironment

ROWS = """(VALUES
    (1, 'a', 10.0, DATE '2024-01-01', TIMESTAMP '2024-01-01 00:00:00'),
    (2, 'b', 20.0, DATE '2024-01-02', TIMESTAMP '2024-01-01 12:00:00'),
    (3, 'a', 30.0, DATE '2024-01-04', TIMESTAMP '2024-01-03 00:00:00'),
    (4, 'c', CAST(NULL AS DECIMAL(3, 1)), CAST(NULL AS DATE), CAST(NULL AS TIMESTAMP)),
    (5, 'a', 10.0, DATE '2024-01-02', TIMESTAMP '2024-01-02 00:00:00')
) AS T(id, k, v, d, ts)"""


@pytest.fixture(scope="module")
def tables():
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.execute_sql(f"CREATE TEMPORARY VIEW O AS SELECT * FROM {ROWS}")
    return tables


def values(tables, call):
    rows = tables.execute_sql(f"SELECT id, {call} FROM O ORDER BY id").collect()
    return [None if row[1] is None else float(row[1]) for row in rows]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("COUNT(*) OVER ()", [5, 5, 5, 5, 5]),
        ("SUM(v) OVER (PARTITION BY k)", [50, 20, 50, None, 50]),
        ("SUM(v) OVER (ORDER BY v)", [20, 40, 70, None, 20]),
        ("ROW_NUMBER() OVER (ORDER BY v DESC, id)", [3, 2, 1, 5, 4]),
        ("DENSE_RANK() OVER (PARTITION BY k ORDER BY v)", [1, 1, 2, 1, 1]),
        ("LEAD(v, 1, 0.0) OVER (ORDER BY id)", [20, 30, None, 10, 0]),
        ("LAG(id, 1, 0) OVER (PARTITION BY k ORDER BY id)", [0, 0, 1, 0, 3]),
        ("AVG(v) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)", [15, 20, 25, 20, 10]),
        ("SUM(id) OVER (ORDER BY id RANGE BETWEEN 2 PRECEDING AND CURRENT ROW)", [1, 3, 6, 9, 12]),
        ("SUM(id) OVER (ORDER BY id DESC RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)", [3, 5, 7, 9, 5]),
        ("MIN(v) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)", [10, 10, 10, 10, 10]),
        ("SUM(id) OVER (ORDER BY id ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING)", [7, 9, 5, None, None]),
        ("SUM(id) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING)", [None, None, 1, 3, 5]),
        ("SUM(id) OVER (ORDER BY d RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW)", [1, 8, 3, 4, 8]),
        (
            "SUM(id) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '12' HOUR PRECEDING AND INTERVAL '1' DAY FOLLOWING)",
            [8, 8, 3, 4, 10],
        ),
        ("MAX(id) OVER (PARTITION BY k) - id", [4, 0, 2, 0, 0]),
    ],
)
def test_frames(tables, call, expected):
    assert values(tables, call) == expected


def test_a_window_over_groups(tables):
    query = "SELECT k, SUM(v) AS s, SUM(SUM(v)) OVER () AS total FROM O GROUP BY k ORDER BY k"

    assert [tuple(row) for row in tables.execute_sql(query).collect()] == [
        ("a", 50, 70),
        ("b", 20, 70),
        ("c", None, 70),
    ]
