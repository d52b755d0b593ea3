"""Queries of batches: operators that give each result once, and plans that only batches have."""

from decimal import Decimal

import pytest

from funken.table import EnvironmentSettings, TableEnvironment

ROWS = """(VALUES ('a', 1, 1.50), ('a', 1, 2.25), ('b', CAST(NULL AS INT), -0.75), ('b', 3, CAST(NULL AS DECIMAL(5, 2))),
    (CAST(NULL AS STRING), 3, 9.99)) AS t(k, n, d)"""


@pytest.fixture(scope="module")
def tables():
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.get_config().set("execution.target", "local").set("parallelism.default", "2")
    tables.execute_sql(f"CREATE TEMPORARY VIEW t AS SELECT * FROM {ROWS}")
    return tables


QUERIES = {
    "SELECT k, COUNT(DISTINCT n), SUM(DISTINCT n) FROM t GROUP BY k": [("a", 1, 1), ("b", 1, 3), (None, 1, 3)],
    "SELECT n, COUNT(DISTINCT n) FROM t GROUP BY n": [(1, 1), (3, 1), (None, 0)],
    "SELECT COUNT(DISTINCT k), MIN(n), COUNT(*) FROM t": [(2, 1, 5)],
    "SELECT COUNT(DISTINCT n) FROM t WHERE n > 9": [(0,)],
    "SELECT k, SUM(d), AVG(d), MIN(d), MAX(d) FROM t GROUP BY k": [
        ("a", Decimal("3.75"), Decimal("1.875000"), Decimal("1.50"), Decimal("2.25")),
        ("b", *[Decimal("-0.75")] * 4),
        (None, *[Decimal("9.99")] * 4),
    ],
    "SELECT a.k, b.n FROM t AS a LEFT JOIN (SELECT * FROM t WHERE n = 1) AS b ON a.k = b.k": [
        *[("a", 1)] * 4, *[("b", None)] * 2, (None, None),
    ],
    "SELECT d FROM t WHERE k NOT IN (SELECT k FROM t WHERE k = 'a')": [(Decimal("-0.75"),), (None,)],
    "SELECT k, d FROM t ORDER BY d DESC LIMIT 2 OFFSET 1": [("a", Decimal("2.25")), ("a", Decimal("1.50"))],
    "SELECT x.k, y.k FROM t AS x JOIN t AS y ON x.d = y.d AND x.n = y.n": [("a", "a")] * 2 + [(None, None)],
}  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_rows_of_a_batch(tables, query):
    rows = [tuple(row) for row in tables.execute_sql(query).collect()]

    assert sorted(rows, key=repr) == sorted(QUERIES[query], key=repr)
    if "ORDER BY" in query:
        assert rows == QUERIES[query]


def test_rows_of_a_batch_are_only_inserted(tables):
    plan = tables.explain_sql(
        "SELECT k, COUNT(*) FROM (SELECT t.k FROM t LEFT JOIN t AS o ON t.k = o.k) GROUP BY k", "CHANGELOG_MODE"
    )

    assert "changelogMode=[I]" in plan
    assert "changelogMode=[I," not in plan
