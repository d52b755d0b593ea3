"""Sub-queries of all kinds against SQLite, over rows with NULLs and duplicates: in streams and in batches."""

import sqlite3
from collections import Counter

import pytest

from funken.errors import FunkenError
from funken.table.environment import EnvironmentSettings, StreamTableEnvironment

LEFT = [(1, "x", 10), (2, "y", None), (3, "x", 20), (4, None, 30), (5, "z", 10), (6, "x", 10)]
RIGHT = [(1, "x", 10), (2, "y", None), (3, None, 30), (4, "x", 20), (5, "w", 50), (6, "x", 10)]
THIRD = [(2, "x"), (3, None), (4, "y")]
TABLES = [("a", "id, k, v", LEFT), ("b", "bid, bk, bv", RIGHT), ("c", "cid, ck", THIRD)]

QUERIES = """
SELECT id FROM a WHERE (k, v) IN (SELECT bk, bv FROM b)
SELECT id FROM a WHERE v IN (VALUES (10), (20))
SELECT id FROM a WHERE (id, v) IN (VALUES (1, 10), (3, 10))
SELECT id FROM a x WHERE v = (SELECT MIN(v) FROM a y WHERE y.k = x.k)
SELECT id FROM a x WHERE EXISTS (SELECT 1 FROM a y WHERE y.id <> x.id AND y.v = x.v)
SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE bv > v)
SELECT id, (SELECT COUNT(*) FROM b WHERE bk = k) FROM a
SELECT id, (SELECT COUNT(*) + 1 FROM b WHERE bk = k) FROM a
SELECT id, (SELECT COALESCE(SUM(bv), -1) FROM b WHERE bk = k) FROM a
SELECT id, (SELECT CASE WHEN COUNT(*) > 1 THEN MAX(bv) ELSE 0 END FROM b WHERE bk = k) FROM a
SELECT id, (SELECT COUNT(*) FROM b WHERE bk = k HAVING COUNT(*) > 1) FROM a
SELECT id, (SELECT COUNT(*) FROM b WHERE bk = k GROUP BY bk) FROM a
SELECT id, (SELECT COUNT(DISTINCT bv) FROM b WHERE bk = k AND bv > 5) FROM a
SELECT id, (SELECT MAX(bv) FROM b WHERE bid < id) FROM a
SELECT id, (SELECT COUNT(*) FROM b WHERE bid < id) FROM a
SELECT id, (SELECT MAX(bv + v) FROM b WHERE bk = k) FROM a
SELECT id, (SELECT bv + v FROM b WHERE bid = id) FROM a
SELECT id, (SELECT COALESCE(bv, v, 0) FROM b WHERE bid = id + 2) FROM a
SELECT id, (SELECT COALESCE(bv, k) FROM (SELECT bid, bk AS bv FROM b) WHERE bid = id) FROM a
SELECT id FROM a WHERE EXISTS (SELECT COUNT(*) FROM b WHERE bk = k)
SELECT id FROM a WHERE EXISTS (SELECT MAX(bv) FROM b WHERE bk = k GROUP BY bk)
SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE EXISTS (SELECT 1 FROM c WHERE ck = a.k))
SELECT id FROM a WHERE v IN (SELECT bv FROM b WHERE bk = a.k AND bid IN (SELECT cid FROM c WHERE ck = a.k))
SELECT id FROM a WHERE (SELECT COUNT(*) FROM b WHERE bk = k AND bid NOT IN (SELECT cid FROM c WHERE cid < a.id)) > 0
SELECT k, SUM(CASE WHEN v IN (SELECT bv FROM b WHERE bid > 3) THEN 1 ELSE 0 END) FROM a GROUP BY k
SELECT SUM(v) FILTER (WHERE v IN (SELECT bv FROM b)), MAX((SELECT MIN(bv) FROM b)) FROM a
SELECT k, MAX((SELECT MAX(bv) FROM b WHERE bk = k)) FROM a GROUP BY k
SELECT id AS v FROM a ORDER BY v + 1 LIMIT 2
""".strip().splitlines()

QUANTIFIED = {
    "v > SOME (SELECT bv FROM b)": "EXISTS (SELECT 1 FROM b WHERE v > bv)",
    "v <= ANY (SELECT bv FROM b WHERE bk = k)": "EXISTS (SELECT 1 FROM b WHERE bk = k AND v <= bv)",
    "v = ANY (SELECT bv FROM b)": "v IN (SELECT bv FROM b)",
    "v <> ALL (SELECT bv FROM b WHERE bv > 10)": "v NOT IN (SELECT bv FROM b WHERE bv > 10)",
    "v <> SOME (SELECT bv FROM b WHERE bv = 10)": "v <> 10",
    "v = ALL (SELECT bv FROM b WHERE bv = 10)": "v = 10",
    "v > ALL (SELECT bv FROM b)": "FALSE",
    "v >= ALL (SELECT bv FROM b WHERE bk = k AND bv < 20)": "v >= 20 OR NOT EXISTS (SELECT 1 FROM b WHERE bk = k AND bv < 20)"
    " OR (v >= 10 AND k = 'x')",
    "v > ALL (SELECT bv FROM b WHERE bv > 100)": "TRUE",
    "NOT (v > SOME (SELECT bv FROM b WHERE bv < 20))": "v <= 10",
    "v > ANY (10, 20)": "v > 10",
    "v = SOME (10, 30) AND id < ALL (4, 5)": "v IN (10, 30) AND id < 4",
    "id > ANY (VALUES (3), (5))": "id > 3",
}
VALUES = {
    "v > ALL (SELECT bv FROM b WHERE bv < 20)": "v > 10",
    "v < SOME (SELECT bv FROM b)": "CASE WHEN v < 50 THEN TRUE END",
    "v <> ANY (SELECT bv FROM b WHERE bv IS NOT NULL)": "v IS NOT NULL OR NULL",
    "v >= SOME (SELECT bv FROM b WHERE bv > 100)": "FALSE",
    "v <= ALL (SELECT bv FROM b WHERE bv > 100)": "TRUE",
    "v = ALL (SELECT bv FROM b WHERE bv = 10)": "v = 10",
}


CONDITIONS = [
    f"{form} FROM b WHERE {where})"
    for form in ("EXISTS (SELECT 1", "v IN (SELECT bv", "v NOT IN (SELECT bv", "id IN (SELECT bid")
    for where in (
        "bk = k",
        "bid > id",
        "bk = k AND bid > id",
        "ABS(bv) = v",
        "bv + 10 = v AND bk <> k",
        "bid < 4",
        "bid > 9",
    )
]
"""Sub-queries with conditions that several rows, none, or rows with NULL fulfil; each is used as a value."""


def literal(value, kind):
    if value is None:
        return "CAST(NULL AS INT)" if kind is int else "CAST(NULL AS STRING)"
    return repr(value)


@pytest.fixture(scope="module")
def sqlite():
    connection = sqlite3.connect(":memory:")
    for name, columns, rows in TABLES:
        connection.execute(f"CREATE TABLE {name} ({columns})")
        connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    yield connection
    connection.close()


@pytest.fixture(scope="module", params=["streaming", "batch"])
def tables(request):
    settings = (
        EnvironmentSettings.in_batch_mode() if request.param == "batch" else EnvironmentSettings.in_streaming_mode()
    )
    tables = StreamTableEnvironment.create(environment_settings=settings)

    for name, columns, rows in TABLES:
        lines = ", ".join(f"({', '.join(map(literal, row, (int, str, int)))})" for row in rows)
        tables.execute_sql(f"CREATE TEMPORARY VIEW {name} AS SELECT * FROM (VALUES {lines}) AS t({columns})")
    return tables


def final(tables, query):
    """Return the rows that are left after all changes, with their numbers."""
    counts = Counter()
    with tables.execute_sql(query).collect() as rows:
        for row in rows:
            counts[tuple(row)] += 1 if row.get_row_kind().name in ("INSERT", "UPDATE_AFTER") else -1
    assert min(counts.values(), default=0) >= 0
    return +counts


def expected(sqlite, query):
    return Counter(sqlite.execute(query).fetchall())


@pytest.mark.parametrize("query", QUERIES)
def test_sub_queries_have_the_results_of_sqlite(tables, sqlite, query):
    assert final(tables, query) == expected(sqlite, query)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_sub_query_as_a_value_gives_each_row_once(tables, sqlite, condition):
    query = f"SELECT id, v > 10 OR {condition}, CASE WHEN NOT ({condition}) THEN 'no' ELSE 'yes' END FROM a"
    assert final(tables, query) == expected(sqlite, query)


@pytest.mark.parametrize(("condition", "other"), QUANTIFIED.items())
def test_comparisons_with_some_and_all_are_conditions(tables, sqlite, condition, other):
    assert final(tables, f"SELECT id FROM a WHERE {condition}") == expected(sqlite, f"SELECT id FROM a WHERE {other}")


@pytest.mark.parametrize(("value", "other"), VALUES.items())
def test_comparisons_with_some_and_all_are_values(tables, sqlite, value, other):
    assert final(tables, f"SELECT id, {value} FROM a") == expected(sqlite, f"SELECT id, {other} FROM a")


def test_lateral_sub_queries_compute_with_columns_around(tables, sqlite):
    for condition in ("bk = k", "bid < id"):
        query = f"SELECT id, m FROM a CROSS JOIN LATERAL (SELECT bv + v AS m FROM b WHERE {condition}) AS l"
        assert final(tables, query) == expected(sqlite, f"SELECT id, bv + v FROM a JOIN b ON {condition}")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT ARRAY(SELECT bv FROM b)", "ARRAY of a sub-query is not supported; use an aggregate"),
        ("SELECT id, v > SOME (SELECT bv FROM b WHERE bk = k) FROM a", "belong into WHERE"),
        ("SELECT id FROM a WHERE v > SOME (SELECT bv, bk FROM b)", "1 and 2 columns"),
        ("SELECT id, (SELECT COUNT(*) FROM b WHERE bk = k HAVING COUNT(*) < 2) FROM a", "must not hold for no rows"),
        ("SELECT FROM a", "Expected an expression behind SELECT"),
    ],
)
def test_what_has_no_meaning_is_refused(tables, query, message):
    with pytest.raises(FunkenError, match=message):
        tables.sql_query(query)


@pytest.mark.parametrize(
    ("query", "names", "rows"),
    [
        ("VALUES 1, 2", ["EXPR$0"], [(1,), (2,)]),
        ("TABLE c", ["cid", "ck"], THIRD),
        ("TABLE c UNION ALL VALUES (9, 'z')", ["cid", "ck"], [*THIRD, (9, "z")]),
        ("SELECT x + 1 AS y FROM (VALUES 1, 2) AS x", ["y"], [(2,), (3,)]),
        ("SELECT * FROM (VALUES ROW(1, 'a'), ROW(2, 'b')) AS t(x, y)", ["x", "y"], [(1, "a"), (2, "b")]),
        ("SELECT e, t.e AS f FROM UNNEST(ARRAY[1, 2]) AS t(e)", ["e", "f"], [(1, 1), (2, 2)]),
        ("SELECT e FROM UNNEST(ARRAY[1, 2]) AS e WHERE e > 1", ["e"], [(2,)]),
        ("SELECT x, y FROM UNNEST(ARRAY[ROW(1, 2), CAST(NULL AS ROW<a INT, b INT>)]) AS t(x, y)", ["x", "y"], [(1, 2)]),
    ],
)
def test_rows_without_a_table(tables, query, names, rows):
    assert list(tables.sql_query(query).get_resolved_schema().get_column_names()) == names
    assert final(tables, query) == Counter(rows)


def test_the_type_of_a_scalar_sub_query_is_nullable(tables):
    query = "SELECT (SELECT COUNT(*) FROM b WHERE bk = k) AS n, EXISTS (SELECT MAX(bv) FROM b) AS e FROM a"
    types = tables.sql_query(query).get_resolved_schema().get_column_data_types()
    assert [str(each) for each in types] == ["BIGINT", "BOOLEAN NOT NULL"]
