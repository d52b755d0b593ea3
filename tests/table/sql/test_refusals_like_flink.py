"""Queries that Flink 2.3 refuses, beside those near them that it takes, and the types that it gives them."""

import pytest

from funken.errors import FunkenError
from funken.table.sql.binder import Binder
from funken.table.sql.parser import parse_query
from tests.table.sql.tables import session

COLUMNS = (
    "i INT, j BIGINT, s STRING, c CHAR(3), d DATE, tm TIME(0), ts TIMESTAMP(3), tz TIMESTAMP_LTZ(3), b BOOLEAN, f FLOAT, "
    "db DOUBLE, de DECIMAL(3, 2), byt BYTES, a ARRAY<INT>, m MAP<STRING, INT>, r ROW<x INT, y STRING>"
)


@pytest.fixture(scope="module")
def tables():
    made = session()
    made.execute_sql(f"CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'datagen')")
    interval = "CASE WHEN i = 1 THEN INTERVAL '1' SECOND END AS span, CAST(NULL AS MULTISET<INT>) AS mu"
    made.execute_sql(f"CREATE TEMPORARY VIEW v AS SELECT *, {interval} FROM t")
    return made


def plan(tables, text):
    return Binder(tables.catalogs, tables.get_config()).query(parse_query(text))


def columns(tables, text):
    return ", ".join(str(column) for column in plan(tables, text).row_type)


UNTYPED = (
    "NULL + 1; i * NULL; NULL % 2; -NULL; -(NULL); NOT NULL; b AND NULL; NULL OR b; NULL IS TRUE; s LIKE NULL; NULL LIKE s; "
    "s || NULL; NULL IN (NULL); CASE WHEN b THEN NULL END; CASE i WHEN 1 THEN NULL ELSE NULL END; COALESCE(NULL, NULL); "
    "IFNULL(NULL, NULL); NULLIF(NULL, 1); IF(b, NULL, 1); IF(b, 1, NULL); IF(NULL, 1, 2); GREATEST(i, NULL); "
    "LEAST(NULL, NULL); ARRAY[NULL]; ARRAY[ARRAY[NULL]]; ROW(NULL); ROW(1, NULL); (NULL, 1); a[NULL]; "
    "EXTRACT(YEAR FROM NULL); TIMESTAMPADD(DAY, NULL, ts); FLOOR(NULL TO DAY); NULL + INTERVAL '1' DAY; "
    "SUBSTRING(s FROM NULL); TRIM(NULL); POSITION(NULL IN s); OVERLAY(s PLACING NULL FROM 1); s SIMILAR TO NULL; "
    "JSON_OBJECT('a' VALUE NULL); JSON_ARRAY(NULL); JSON_VALUE(NULL, '$.a'); CONCAT(s, NULL); CONCAT_WS(',', NULL, s); "
    "ABS(NULL); ROUND(f, NULL); MD5(NULL); UPPER(NULL); ELT(NULL, 'a', 'b'); ARRAY_APPEND(NULL, 3); ARRAY_CONCAT(a, NULL); "
    "COUNT(NULL); SUM(NULL); COUNT(DISTINCT NULL); SUM(i) FILTER (WHERE NULL); LISTAGG(s, NULL); PERCENTILE(i, NULL); "
    "LAG(i, 1, NULL) OVER (ORDER BY i); LEAD(NULL) OVER (ORDER BY i); MAX(NULL) OVER (ORDER BY i); HASH_CODE(NULL)"
)
TYPED = (
    "NULL; (NULL); NULL = 1; i <> NULL; NULL < i; NULL = NULL; NULL IS NULL; NULL IS NOT NULL; NULL BETWEEN 1 AND 2; "
    "i BETWEEN NULL AND 2; i IN (NULL); i IN (1, NULL); NULL IN (1, 2); i IS DISTINCT FROM NULL; CASE WHEN b THEN 1 END; "
    "CASE WHEN b THEN NULL ELSE 1 END; CASE WHEN NULL THEN 1 ELSE 2 END; CASE NULL WHEN 1 THEN 2 END; CAST(NULL AS INT); "
    "TRY_CAST(NULL AS INT); COALESCE(NULL, 1); COALESCE(i, NULL); COALESCE(NULL, NULL, 1); IFNULL(NULL, 1); NULLIF(i, NULL); "
    "ARRAY[1, NULL]; MAP[s, 1, 'b', NULL]; (i, NULL) = (1, 2); TYPEOF(NULL); UNHEX(NULL); BTRIM(NULL, NULL); SPLIT(s, NULL); "
    "STARTSWITH(NULL, s); REGEXP_COUNT(s, NULL); JSON_QUOTE(NULL); URL_DECODE(NULL); INET_ATON(NULL); PARSE_JSON(NULL); "
    "ELT(2, 'a', NULL); ARRAY_APPEND(a, NULL); ARRAY_CONTAINS(a, NULL); ARRAY_SLICE(a, NULL, 3); ARRAY_JOIN(ARRAY['a'], NULL); "
    "PERCENTILE(NULL, 0.5); BITMAP_BUILD_AGG(NULL); JSON_OBJECT('a' VALUE i NULL ON NULL); nope(NULL); nope(a => NULL)"
)


@pytest.mark.parametrize("expression", UNTYPED.split("; "))
def test_a_null_without_a_type_is_refused(expression):
    with pytest.raises(FunkenError, match="Illegal use of 'NULL'"):
        parse_query(f"SELECT {expression} FROM t")


@pytest.mark.parametrize("expression", TYPED.split("; "))
def test_a_null_whose_place_has_a_type_is_taken(expression):
    parse_query(f"SELECT {expression} FROM t")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT i FROM t MINUS SELECT i FROM t", "MINUS is no set operation here; write EXCEPT"),
        ("SELECT i FROM t MINUS ALL SELECT i FROM t", "MINUS is no set operation"),
        ("SELECT i FROM t UNION BY NAME SELECT i FROM t", "by position"),
        ("SELECT i FROM t ORDER BY i UNION ALL SELECT i FROM t", "stand in parentheses"),
        ("SELECT i FROM t LIMIT 1 UNION ALL SELECT i FROM t", "stand in parentheses"),
        ("SELECT i FROM t LIMIT 1, 2", "LIMIT takes one number"),
        ("SELECT i FROM t FETCH FIRST 10 PERCENT ROWS ONLY", "a number of rows"),
        ("SELECT i FROM t FETCH FIRST 3 ROWS WITH TIES", "a number of rows"),
        ("SELECT i FROM t FOR UPDATE", "no FOR UPDATE"),
        ("SELECT i FROM t CROSS APPLY UNNEST(a)", "APPLY is no join"),
        ("SELECT t.i FROM t CROSS JOIN t AS u ON t.i = u.i", "following CROSS JOIN"),
        ("SELECT t.i FROM t JOIN t AS u", "join requires a condition"),
        ("SELECT t.i FROM t LEFT JOIN t AS u", "join requires a condition"),
        ("SELECT i FROM t TABLESAMPLE SYSTEM (10)", "TABLESAMPLE is not supported"),
        ("SELECT i FROM t AS x TABLESAMPLE BERNOULLI (10)", "TABLESAMPLE is not supported"),
        ("SELECT SUM(i) OVER (ORDER BY i GROUPS 1 PRECEDING) FROM t", "ROWS or RANGE"),
        ("SELECT SUM(i) OVER (ORDER BY i ROWS 1 PRECEDING EXCLUDE CURRENT ROW) FROM t", "without EXCLUDE"),
        ("SELECT SUM(i) OVER (ORDER BY i ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING) FROM t", "ends behind its begin"),
        ("SELECT SUM(i) OVER (ORDER BY s RANGE 1 PRECEDING) FROM t", "prohibits use of RANGE"),
        ("SELECT SUM(i) OVER (ORDER BY i, j RANGE 1 PRECEDING) FROM t", "compound ORDER BY"),
        ("SELECT RANK() OVER () FROM t", "RANK requires ORDER BY"),
        ("SELECT ROW_NUMBER() OVER (PARTITION BY i) FROM t", "ROW_NUMBER requires ORDER BY"),
        ("SELECT ROW_NUMBER() FILTER (WHERE b) OVER (ORDER BY i) FROM t", "OVER must be applied to aggregate function"),
        ("SELECT LAG(i) OVER (ORDER BY i ROWS UNBOUNDED PRECEDING) FROM t", "ROW/RANGE not allowed with LAG"),
        ("SELECT RANK() OVER (ORDER BY i ROWS 1 PRECEDING) FROM t", "ROW/RANGE not allowed with RANK"),
        ("SELECT SUM(i) OVER (ORDER BY i ROWS BETWEEN -1 PRECEDING AND CURRENT ROW) FROM t", "non-negative constant"),
        ("SELECT SUM(i) OVER (ORDER BY ts RANGE 1 PRECEDING) FROM t", "Data Type mismatch"),
        ("SELECT SUM(i) OVER (ORDER BY i RANGE INTERVAL '1' DAY PRECEDING) FROM t", "Data Type mismatch"),
        ("SELECT SUM(i) OVER (PARTITION BY s RANGE 1 PRECEDING) FROM t", "must contain an ORDER BY clause"),
        (
            "SELECT * FROM TABLE(TUMBLE(TABLE a PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
            "Only tables with set semantics",
        ),
        ("SELECT RANK() FROM t", "OVER clause is necessary"),
        ("SELECT LAG(i) FROM t", "OVER clause is necessary"),
        ("SELECT SUM(i) OVER (PARTITION BY s ORDER BY m) FROM t", "values that have an order"),
        ("SELECT COUNT() FROM t", "Was expecting 1 arguments"),
        ("SELECT COUNT(i, j) FROM t", "COUNT"),
        ("SELECT COUNT(DISTINCT i, j) FROM t", "COUNT"),
        ("SELECT MAX(a) FROM t", "MAX"),
        ("SELECT MIN(m) FROM t", "MIN"),
        ("SELECT MAX(r) FROM t", "MAX"),
        ("SELECT MAX(byt) FROM t", "MAX"),
        ("SELECT MAX(span) FROM v", "MAX"),
        ("SELECT MAX(mu) FROM v", "MAX"),
        ("SELECT MAX(a) OVER (ORDER BY i) FROM t", "MAX"),
        ("SELECT r < ROW(1, 'a') FROM t", "have no order"),
        ("SELECT 1e400 FROM t", "out of range"),
        ("SELECT COALESCE(d, span) FROM v", "COALESCE"),
        ("SELECT IF(b, ts, span) FROM v", "IF"),
        ("SELECT CASE WHEN b THEN tm ELSE span END FROM v", "CASE"),
        ("SELECT GREATEST(tz, span) FROM v", "GREATEST"),
        ("SELECT ARRAY[d, span] FROM v", "Parameters must be of the same type"),
        ("SELECT d FROM v UNION ALL SELECT span FROM v", "Type mismatch in column 1"),
        ("SELECT COALESCE(d, tm) FROM t", "COALESCE"),
        ("SELECT COALESCE(d, tz) FROM t", "COALESCE"),
        ("SELECT IF(b, d, ts) FROM t", "IF"),
        ("SELECT d FROM t UNION ALL SELECT ts FROM t", "Type mismatch in column 1"),
    ],
)
def test_what_flink_refuses(tables, query, message):
    with pytest.raises(FunkenError, match=message.replace("(", r"\(")):
        plan(tables, query)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT COALESCE(d, ts) FROM t", "EXPR$0 DATE"),
        ("SELECT COALESCE(ts, ts, d) FROM t", "EXPR$0 DATE"),
        ("SELECT IFNULL(ts, tm) FROM t", "EXPR$0 TIME(0)"),
        ("SELECT COALESCE(ts, tz) FROM t", "EXPR$0 TIMESTAMP_LTZ(3)"),
        ("SELECT COALESCE(de, f) FROM t", "EXPR$0 FLOAT"),
        ("SELECT COALESCE(f, de) FROM t", "EXPR$0 DOUBLE"),
        ("SELECT IF(b, ts, tz) FROM t", "EXPR$0 TIMESTAMP(3)"),
        ("SELECT CASE WHEN b THEN ts ELSE tz END FROM t", "EXPR$0 TIMESTAMP(3)"),
        ("SELECT CASE WHEN b THEN tz ELSE ts END FROM t", "EXPR$0 TIMESTAMP_LTZ(3)"),
        ("SELECT ARRAY[ts, tz] FROM t", "EXPR$0 ARRAY<TIMESTAMP(3)> NOT NULL"),
        ("SELECT ARRAY[tz, ts] FROM t", "EXPR$0 ARRAY<TIMESTAMP_LTZ(3)> NOT NULL"),
        ("SELECT ts FROM t UNION ALL SELECT tz FROM t", "ts TIMESTAMP(3)"),
        ("SELECT tz FROM t UNION ALL SELECT ts FROM t", "tz TIMESTAMP_LTZ(3)"),
        ("SELECT f FROM t INTERSECT SELECT db FROM t", "f FLOAT"),
        ("SELECT IF(b, f, db), IF(b, db, f) FROM t", "EXPR$0 FLOAT, EXPR$1 DOUBLE"),
        ("SELECT * FROM (VALUES (CAST(1 AS FLOAT)), (CAST(1 AS DOUBLE))) AS v(x)", "x FLOAT NOT NULL"),
        ("SELECT N'a', r = r, MAX(b) FROM t GROUP BY r", "EXPR$0 CHAR(1) NOT NULL, EXPR$1 BOOLEAN, EXPR$2 BOOLEAN"),
        ("(SELECT i FROM t LIMIT 1) UNION ALL SELECT i FROM t ORDER BY i LIMIT 1", "i INT"),
        ("SELECT t.i FROM t, t AS u CROSS JOIN UNNEST(u.a) AS w(x)", "i INT"),
        ("SELECT SUM(i) OVER (ORDER BY i ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) FROM t", "EXPR$0 INT"),
        ("SELECT SUM(i) OVER (ORDER BY s, i RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM t", "EXPR$0 INT"),
        ("SELECT NTILE(2) OVER (PARTITION BY s ROWS UNBOUNDED PRECEDING) FROM t", "EXPR$0 BIGINT NOT NULL"),
        ("SELECT SUM(i) OVER (ORDER BY j RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM t", "EXPR$0 INT"),
        ("SELECT SUM(i) OVER (ORDER BY d RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW) FROM t", "EXPR$0 INT"),
    ],
)  # fmt: skip
def test_what_flink_takes(tables, query, expected):
    assert columns(tables, query) == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT t.i FROM t JOIN t AS u ON t.d = u.s",
        "SELECT t.i FROM t JOIN t AS u ON t.i = u.i AND t.s = u.ts",
        "SELECT t.i FROM t LEFT JOIN t AS u ON t.b = u.c",
        "SELECT i FROM t WHERE d IN (SELECT s FROM t)",
        "SELECT i FROM t WHERE EXISTS (SELECT 1 FROM t AS u WHERE u.s = t.tz)",
    ],
)
def test_a_join_of_texts_with_times_is_refused(tables, query):
    with pytest.raises(FunkenError, match="is not supported on join's condition"):
        tables.explain_sql(query)


def test_a_join_with_the_cast_is_taken(tables):
    assert "Join" in tables.explain_sql("SELECT t.i FROM t JOIN t AS u ON t.d = TRY_CAST(u.s AS DATE)")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ANALYZE TABLE t COMPUTE STATISTICS", "ANALYZE TABLE is not supported"),
        ("ANALYZE TABLE t PARTITION(p=1) COMPUTE STATISTICS FOR ALL COLUMNS", "ANALYZE TABLE is not supported"),
        ("CREATE MATERIALIZED TABLE m AS SELECT i FROM t", "MATERIALIZED TABLE is not supported"),
        ("CREATE OR ALTER MATERIALIZED TABLE m AS SELECT i FROM t", "MATERIALIZED TABLE is not supported"),
        ("DROP MATERIALIZED TABLE m", "MATERIALIZED TABLE is not supported"),
        ("ALTER MATERIALIZED TABLE m SUSPEND", "MATERIALIZED TABLE is not supported"),
        ("CALL sys.expire(1)", "CALL is not supported"),
    ],
)
def test_a_statement_that_there_is_not_is_named(tables, statement, message):
    with pytest.raises(FunkenError, match=message):
        tables.execute_sql(statement)
