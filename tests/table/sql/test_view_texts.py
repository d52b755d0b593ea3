"""The text of views as SHOW CREATE VIEW of Flink 2.3 has it.

``SHOWN`` has a query and Flink's text for it, in two lines: ``@`` is the path of the database, `` | `` a new line.
"""

import pytest

from funken.table import EnvironmentSettings, TableEnvironment

PATH = "`default_catalog`.`default_database`."
SHOWN = """
select a from t
SELECT `t`.`a` | FROM @`t` AS `t`

SELECT * FROM t
SELECT `t`.`a`, `t`.`b`, `t`.`r`, `t`.`ts` | FROM @`t` AS `t`

SELECT a, a+1 AS n FROM t WHERE a > 1 AND b = 'x'
SELECT `t`.`a`, `t`.`a` + 1 AS `n` | FROM @`t` AS `t` | WHERE `t`.`a` > 1 AND `t`.`b` = 'x'

SELECT t.a, u.c FROM t JOIN u ON t.a = u.a
SELECT `t`.`a`, `u`.`c` | FROM @`t` AS `t` | INNER JOIN @`u` AS `u` ON `t`.`a` = `u`.`a`

SELECT b, COUNT(*) AS c, SUM(a) s FROM t GROUP BY b HAVING COUNT(*) > 1
SELECT `t`.`b`, COUNT(*) AS `c`, SUM(`t`.`a`) AS `s` | FROM @`t` AS `t` | GROUP BY `t`.`b` | HAVING COUNT(*) > 1

SELECT r.x FROM t
SELECT `t`.`r`.`x` | FROM @`t` AS `t`

SELECT CASE WHEN a > 1 THEN 'x' ELSE 'y' END AS k FROM t
SELECT CASE WHEN `t`.`a` > 1 THEN 'x' ELSE 'y' END AS `k` | FROM @`t` AS `t`

SELECT CAST(a AS BIGINT) AS k, UPPER(b) FROM t
SELECT CAST(`t`.`a` AS BIGINT) AS `k`, UPPER(`t`.`b`) | FROM @`t` AS `t`

SELECT a FROM t ORDER BY a LIMIT 3
SELECT `t`.`a` | FROM @`t` AS `t` | ORDER BY `a` | FETCH NEXT 3 ROWS ONLY

SELECT a FROM t UNION ALL SELECT a FROM u
SELECT `t`.`a` | FROM @`t` AS `t` | UNION ALL | SELECT `u`.`a` | FROM @`u` AS `u`

SELECT DISTINCT a FROM t
SELECT DISTINCT `t`.`a` | FROM @`t` AS `t`

SELECT ts + INTERVAL '5' SECOND AS x FROM t
SELECT `t`.`ts` + INTERVAL '5' SECOND AS `x` | FROM @`t` AS `t`

WITH q AS (SELECT a FROM t) SELECT * FROM q
WITH `q` AS (SELECT `t`.`a` | FROM @`t` AS `t`) SELECT `q`.`a` | FROM `q` AS `q`

SELECT a FROM t WHERE a IN (SELECT a FROM u)
SELECT `t`.`a` | FROM @`t` AS `t` | WHERE `t`.`a` IN (SELECT `u`.`a` | FROM @`u` AS `u`)

SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY ts) AS n FROM t
SELECT `t`.`a`, ROW_NUMBER() OVER (PARTITION BY `t`.`b` ORDER BY `t`.`ts`) AS `n` | FROM @`t` AS `t`

SELECT a FROM t AS q WHERE NOT (a IS NULL OR b LIKE 'a%')
SELECT `q`.`a` | FROM @`t` AS `q` | WHERE NOT (`q`.`a` IS NULL OR `q`.`b` LIKE 'a%')

SELECT t.* FROM t LEFT JOIN u ON t.a=u.a
SELECT `t`.`a`, `t`.`b`, `t`.`r`, `t`.`ts` | FROM @`t` AS `t` | LEFT JOIN @`u` AS `u` ON `t`.`a` = `u`.`a`

SELECT (a + 1) * 2 AS k FROM t
SELECT (`t`.`a` + 1) * 2 AS `k` | FROM @`t` AS `t`

SELECT a FROM t WHERE b IS NOT NULL AND a IN (1, 2)
SELECT `t`.`a` | FROM @`t` AS `t` | WHERE `t`.`b` IS NOT NULL AND `t`.`a` IN (1, 2)

SELECT q.a FROM (SELECT a FROM t) AS q
SELECT `q`.`a` | FROM (SELECT `t`.`a` | FROM @`t` AS `t`) AS `q`

SELECT q.a FROM (SELECT a FROM t) q, u WHERE q.a = u.a
SELECT `q`.`a` | FROM (SELECT `t`.`a` | FROM @`t` AS `t`) AS `q`, | @`u` AS `u` | WHERE `q`.`a` = `u`.`a`

SELECT COUNT(DISTINCT a) AS n FROM t
SELECT COUNT(DISTINCT `t`.`a`) AS `n` | FROM @`t` AS `t`

SELECT COALESCE(a, 0) AS n, b || 'x' AS m FROM t
SELECT COALESCE(`t`.`a`, 0) AS `n`, `t`.`b` || 'x' AS `m` | FROM @`t` AS `t`

SELECT EXTRACT(YEAR FROM ts) AS y FROM t
SELECT EXTRACT(YEAR FROM `t`.`ts`) AS `y` | FROM @`t` AS `t`

SELECT a AS `x y` FROM t
SELECT `t`.`a` AS `x y` | FROM @`t` AS `t`

SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a)
SELECT `t`.`a` | FROM @`t` AS `t` | WHERE EXISTS (SELECT 1 | FROM @`u` AS `u` | WHERE `u`.`a` = `t`.`a`)

SELECT t.a FROM t CROSS JOIN u
SELECT `t`.`a` | FROM @`t` AS `t` | CROSS JOIN @`u` AS `u`

SELECT DATE '2020-01-01' AS d, TIMESTAMP '2020-01-01 00:00:00' AS e
SELECT DATE '2020-01-01' AS `d`, TIMESTAMP '2020-01-01 00:00:00' AS `e`

SELECT ARRAY[1, 2] AS r, MAP['a', 1] AS m
SELECT ARRAY[1, 2] AS `r`, MAP['a', 1] AS `m`

SELECT CAST(a AS DECIMAL(5, 2)) AS d FROM t
SELECT CAST(`t`.`a` AS DECIMAL(5, 2)) AS `d` | FROM @`t` AS `t`

SELECT b, SUM(a) FILTER (WHERE a > 1) AS s FROM t GROUP BY b
SELECT `t`.`b`, SUM(`t`.`a`) FILTER (WHERE `t`.`a` > 1) AS `s` | FROM @`t` AS `t` | GROUP BY `t`.`b`

SELECT TIMESTAMPDIFF(MINUTE, ts, ts) AS m FROM t
SELECT TIMESTAMPDIFF(MINUTE, `t`.`ts`, `t`.`ts`) AS `m` | FROM @`t` AS `t`

SELECT t.r.x, r FROM t
SELECT `t`.`r`.`x`, `t`.`r` | FROM @`t` AS `t`

SELECT a FROM t WHERE b LIKE 'a%' ESCAPE '!'
SELECT `t`.`a` | FROM @`t` AS `t` | WHERE `t`.`b` LIKE 'a%' ESCAPE '!'

SELECT a, b FROM t ORDER BY b DESC, a
SELECT `t`.`a`, `t`.`b` | FROM @`t` AS `t` | ORDER BY `b` DESC, `a`

SELECT CURRENT_TIMESTAMP AS c, PROCTIME() AS p FROM t
SELECT CURRENT_TIMESTAMP AS `c`, PROCTIME() AS `p` | FROM @`t` AS `t`

SELECT a FROM t EXCEPT SELECT a FROM u
SELECT `t`.`a` | FROM @`t` AS `t` | EXCEPT | SELECT `u`.`a` | FROM @`u` AS `u`

SELECT a FROM t OFFSET 2 ROWS
SELECT `t`.`a` | FROM @`t` AS `t` | OFFSET 2 ROWS

SELECT a FROM t FETCH FIRST 2 ROWS ONLY
SELECT `t`.`a` | FROM @`t` AS `t` | FETCH NEXT 2 ROWS ONLY

SELECT a % 2 AS m, MOD(a, 2) AS n FROM t
SELECT `t`.`a` % 2 AS `m`, MOD(`t`.`a`, 2) AS `n` | FROM @`t` AS `t`

SELECT a FROM t WHERE NOT a = 1
SELECT `t`.`a` | FROM @`t` AS `t` | WHERE NOT `t`.`a` = 1

SELECT LOWER(UPPER(b)) FROM t
SELECT LOWER(UPPER(`t`.`b`)) | FROM @`t` AS `t`

SELECT b AS `value`, a AS day_ FROM t
SELECT `t`.`b` AS `value`, `t`.`a` AS `day_` | FROM @`t` AS `t`

SELECT a FROM t /* note */ WHERE a > 1
SELECT `t`.`a` | FROM @`t` AS `t` | WHERE `t`.`a` > 1
"""


@pytest.fixture(scope="module")
def tables():
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql(
        "CREATE TABLE t (a INT, b STRING, r ROW<x INT, y STRING>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
        "WITH ('connector' = 'datagen')"
    )
    made.execute_sql("CREATE TABLE u (a INT, c STRING) WITH ('connector' = 'datagen')")
    return made


def kept(tables, query):
    tables.execute_sql(f"CREATE VIEW v AS {query}")
    try:
        [(text,)] = tables.execute_sql("SHOW CREATE VIEW v").collect()
        return text.partition("\nAS ")[2].strip()
    finally:
        tables.execute_sql("DROP VIEW v")


@pytest.mark.parametrize("case", SHOWN.strip().split("\n\n"))
def test_a_view_is_shown_as_flink_shows_it(tables, case):
    query, shown = case.split("\n")
    text = kept(tables, query)

    assert text == shown.replace("@", PATH).replace(" | ", "\n")
    assert kept(tables, text) == text


def test_a_query_with_hints_stays_as_it_was_written_but_for_its_tables(tables):
    hint = "/*+ OPTIONS('number-of-rows' = '1') */"

    assert kept(tables, f"SELECT a FROM t {hint} WHERE a > 1") == f"SELECT a FROM {PATH}`t` {hint} WHERE a > 1"


def test_a_text_with_another_plan_is_not_taken(tables, monkeypatch):
    from funken.table.sql import binder

    monkeypatch.setattr(binder, "view_text", lambda *given: f"SELECT b FROM {PATH}`t`")
    assert kept(tables, "SELECT a FROM t") == f"SELECT a FROM {PATH}`t`"
