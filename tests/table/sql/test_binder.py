"""Queries to typed plans: what names mean, types of results, and the errors of what does not fit."""

import pytest

from funken.table.catalog import InvalidTable
from funken.table.logical import LogicalJoin, LogicalTemporalJoin, TimeAttribute, walk
from funken.table.sql.binder import Binder
from funken.table.sql.parser import parse_query
from tests.table.sql.tables import session

pytestmark = pytest.mark.filterwarnings("ignore:SQL query")


@pytest.fixture(scope="module")
def tables():
    return session()


def plan(tables, text):
    return Binder(tables.catalogs, tables.get_config()).query(parse_query(text))


def columns(tables, text):
    return [str(column) for column in plan(tables, text).row_type]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT * FROM a",
            ["id INT", "k STRING", "v INT", "ts TIMESTAMP(3) *ROWTIME*", "p TIMESTAMP_LTZ(3) *PROCTIME*"],
        ),
        ("SELECT a.id, a2.id FROM a, a2", ["id INT", "id0 INT"]),
        ("SELECT v + 1, k FROM a", ["EXPR$0 INT", "k STRING"]),
        ("SELECT x.* FROM c AS x JOIN cp ON x.id = cp.id", ["id INT", "k STRING", "v INT"]),
        ("SELECT cp.k FROM a LEFT JOIN cp ON a.id = cp.id", ["k STRING"]),
        ("SELECT cp.id FROM cp", ["id INT NOT NULL"]),
        ("SELECT cp.id FROM a LEFT JOIN cp ON a.id = cp.id", ["id INT"]),
        ("SELECT * FROM cp JOIN u USING (id)", ["id INT NOT NULL", "k STRING", "v INT", "k0 STRING", "v0 INT"]),
        ("SELECT * FROM cp NATURAL JOIN u", ["id INT NOT NULL", "k STRING", "v INT"]),
        ("SELECT r.y.z, n.r.x, arr[1], m['a'] FROM n", ["z STRING", "x INT", "EXPR$2 INT", "EXPR$3 INT"]),
        ("SELECT x FROM n", ["x INT"]),
        ("SELECT d FROM n AS x WHERE EXISTS (SELECT 1 FROM n AS y WHERE y.id > x.id)", ["d DECIMAL(10, 2)"]),
        ("SELECT id FROM c JOIN cp USING (id)", ["id INT NOT NULL"]),
        (
            "SELECT TUMBLE_END(a.ts, INTERVAL '1' DAYS) AS e FROM a GROUP BY TUMBLE(ts, INTERVAL '1' DAY)",
            ["e TIMESTAMP(3) NOT NULL"],
        ),
        ("SELECT default_catalog.default_database.cp.v FROM cp", ["v INT"]),
        ("SELECT COUNT(*), SUM(d), MAX(id) AS m FROM n", ["EXPR$0 BIGINT NOT NULL", "EXPR$1 DECIMAL(38, 2)", "m INT"]),
        ("SELECT k FROM a GROUP BY k HAVING COUNT(*) > 1", ["k STRING"]),
        ("SELECT k, v FROM a GROUP BY GROUPING SETS ((k), (v))", ["k STRING", "v INT"]),
        ("SELECT t.b FROM (SELECT id, v FROM c) AS t(a, b)", ["b INT"]),
        ("WITH q(x) AS (SELECT id FROM c) SELECT * FROM q UNION ALL SELECT 2", ["x INT"]),
        ("SELECT id FROM c UNION SELECT CAST(1 AS BIGINT)", ["id BIGINT"]),
        ("VALUES (1, 'a'), (2.5, 'bcd')", ["EXPR$0 DECIMAL(11, 1) NOT NULL", "EXPR$1 VARCHAR(3) NOT NULL"]),
        ("SELECT e, o FROM n CROSS JOIN UNNEST(arr) WITH ORDINALITY AS t(e, o)", ["e INT", "o INT NOT NULL"]),
        ("SELECT x, y FROM n, UNNEST(m) AS t(x, y)", ["x STRING", "y INT"]),
        ("SELECT (SELECT MAX(v) FROM c) FROM a", ["EXPR$0 INT"]),
        ("SELECT k, CASE WHEN id IN (SELECT id FROM c) THEN 1 ELSE 2 END FROM a", ["k STRING", "EXPR$1 INT NOT NULL"]),
        (
            "SELECT window_start, window_time FROM TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' DAY)",
            ["window_start TIMESTAMP(3) NOT NULL", "window_time TIMESTAMP(3) *ROWTIME*"],
        ),
        (
            "SELECT TUMBLE_START(ts, INTERVAL '1' DAY), TUMBLE_ROWTIME(ts, INTERVAL '1' DAY) FROM a "
            "GROUP BY TUMBLE(ts, INTERVAL '1' DAY)",
            ["EXPR$0 TIMESTAMP(3) NOT NULL", "EXPR$1 TIMESTAMP(3) *ROWTIME*"],
        ),
        ("SELECT ts + INTERVAL '0' SECOND FROM a", ["EXPR$0 TIMESTAMP(3)"]),
        (
            "SELECT * FROM a MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES LAST(B.v) AS last, A.ts AS at "
            "PATTERN (A B) DEFINE B AS B.v > A.v) AS m",
            ["k STRING", "last INT", "at TIMESTAMP(3)"],
        ),
        ("SELECT * FROM TO_CHANGELOG(input => TABLE c)", ["op STRING", "id INT", "k STRING", "v INT"]),
        (
            "SELECT * FROM TO_CHANGELOG(input => TABLE c PARTITION BY v)",
            ["v INT", "op STRING", "id INT", "k STRING"],
        ),
        (
            "SELECT * FROM TO_CHANGELOG(input => TABLE cp, produces_full_deletes => FALSE)",
            ["op STRING", "id INT", "k STRING", "v INT"],
        ),
    ],
)
def test_the_columns_of_a_query(tables, query, expected):
    assert columns(tables, query) == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT nope FROM a", "From line 1, column 8 to line 1, column 11: Column 'nope' not found in any table"),
        ("SELECT K FROM a", "Column 'K' not found in any table; did you mean 'k'?"),
        ("SELECT x.K FROM a AS x", "Column 'K' not found in table 'x'; did you mean 'k'?"),
        ("SELECT\n  b.k FROM a", "From line 2, column 3 to line 2, column 5: Table 'b' not found"),
        ("SELECT * FROM nope", "Object 'nope' not found"),
        ("SELECT * FROM A", "Object 'A' not found within 'default_catalog.default_database'; did you mean 'a'?"),
        ("SELECT id FROM a, a2", "Column 'id' is ambiguous"),
        ("SELECT 1 FROM a, c AS a", "Duplicate relation name 'a' in FROM clause"),
        ("SELECT k, COUNT(*) FROM a", "Expression 'k' is not being grouped"),
        ("SELECT SUM(COUNT(*)) FROM a", "Aggregate expressions cannot be nested"),
        ("SELECT k FROM a WHERE COUNT(*) > 1", "Aggregates and windows are not allowed in WHERE"),
        ("SELECT k FROM a WHERE v", "WHERE clause must be a condition, but it is of type INT"),
        ("SELECT nope(k) FROM a", "No match found for function signature nope(<STRING>)"),
        ("SELECT nope(a => k, b => v) FROM a", "No match found for function signature nope(a => <STRING>, b => <INT>)"),
        ("SELECT UPER(k) FROM a", "Did you mean UPPER?"),
        ("SELECT id FROM a UNION ALL SELECT id, k FROM c", "Column count mismatch in UNION ALL"),
        ("SELECT id FROM a UNION ALL SELECT k FROM c", "Type mismatch in column 1 of UNION ALL"),
        ("SELECT k FROM a ORDER BY 2", "Ordinal out of range: 2 of 1"),
        ("SELECT DISTINCT k FROM a ORDER BY v", "is not in the select clause of SELECT DISTINCT"),
        ("SELECT * FROM (SELECT 1) AS t(a, b)", "List of column aliases must have same degree as table"),
        ("SELECT * FROM TUMBLE(TABLE a, DESCRIPTOR(v), INTERVAL '1' DAY)", "requires the timecol to be TIMESTAMP"),
        ("SELECT * FROM TUMBLE(TABLE a, DESCRIPTOR(nope), INTERVAL '1' DAY)", "Unknown identifier 'nope'"),
        ("SELECT * FROM TUMBLE(TABLE a, DESCRIPTOR(ts))", "SIZE is missing"),
        ("SELECT * FROM TUMBLE(TABLE a, DESCRIPTOR(ts), v)", "From line 1, column"),
        (
            "SELECT * FROM CUMULATE(TABLE a, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '10' SECOND)",
            "integral multiple of step",
        ),
        ("SELECT k FROM a GROUP BY TUMBLE(v, INTERVAL '1' DAY), k", "time attribute"),
        ("SELECT HOP_START(ts, INTERVAL '1' DAY) FROM a GROUP BY k", "matching call to group function 'HOP'"),
        ("SELECT HOP_START(ts, INTERVAL '1' DAY) FROM a", "matching call to group function 'HOP'"),
        (
            "SELECT TUMBLE_END(ts, INTERVAL '1' DAY) FROM a GROUP BY TUMBLE(ts, INTERVAL '2' DAY)",
            "'TUMBLE_END' must have matching call to group function 'TUMBLE' in GROUP BY clause",
        ),
        (
            "SELECT MAX(TUMBLE_END(ts, INTERVAL '1' DAY)) FROM a GROUP BY TUMBLE(ts, INTERVAL '1' DAY)",
            "cannot be arguments of an aggregate",
        ),
        ("SELECT SUM(v) OVER (ORDER BY TUMBLE_END(ts, INTERVAL '1' DAY)) FROM a", "matching call to group function"),
        ("SELECT TUMBLE(ts, INTERVAL '1' DAY) FROM a", "only allowed in the GROUP BY clause"),
        ("SELECT * FROM a JOIN r FOR SYSTEM_TIME AS OF a.v ON a.k = r.k", "time attribute"),
        ("SELECT SUM(v) OVER w FROM a", "Window 'w' not found"),
        ("SELECT LAG(v, 1, 'none') OVER (ORDER BY ts) FROM a", "The default, a CHAR(4) NOT NULL, is none"),
        ("SELECT JSON_ARRAYAGG(BITMAP_BUILD(ARRAY[v])) FROM a", "A value of BITMAP NOT NULL has no JSON"),
        ("SELECT NTILE(0) OVER (ORDER BY ts) FROM a", "NTILE needs at least 1 part"),
        ("SELECT * FROM a PIVOT (SUM(v) FOR k IN ('x'))", "SQL parse failed"),
        ("SELECT v, FROM a", 'Encountered "," at line 1, column 9. Expected an item behind the comma'),
        ("SELECT v FROM a,", 'Encountered "," at line 1, column 16. Expected a table behind the comma'),
        ("SELECT ARRAY[v,] FROM a", "Expected an item behind the comma"),
        ("SELECT SUM(v) FILTER (v > 1) FROM a", 'Encountered "v" at line 1, column 23. Expected WHERE'),
        ("SELECT v == 1 FROM a", "SQL parse failed"),
        ("SELECT v AS 'x' FROM a", "SQL parse failed"),
        (
            "SELECT * FROM TUMBEL(TABLE a, DESCRIPTOR(ts), INTERVAL '1' DAY)",
            "there is no table function of this name. Did you mean TUMBLE?",
        ),
        ("SELECT x FROM (SELECT k AS x, v AS x FROM a)", "Column 'x' is ambiguous"),
        ("SELECT t.x FROM (SELECT k AS x, v AS x FROM a) AS t", "Column 'x' is ambiguous"),
        ("SELECT DISTINCT ON (k) v FROM a", "DISTINCT ON is not supported"),
        (
            "SELECT CAST(v AS NOPE) FROM a",
            "expected a type, such as STRING, BIGINT, DOUBLE or TIMESTAMP(3), found 'NOPE'",
        ),
        ("SELECT * FROM a WHERE id IN (SELECT id, k FROM c)", "1 and 2 columns"),
        ("SELECT a.k FROM a, (SELECT * FROM c WHERE c.id = a.id) AS t", "Table 'a' not found"),
        ("SELECT * FROM TO_CHANGELOG(input => TABLE c, op_mapping => MAP['X', 'Y'])", "Unknown change operation: 'X'"),
        (
            "SELECT * FROM FROM_CHANGELOG(input => TABLE a, op => DESCRIPTOR(k), error_handling => 'NO')",
            "Argument 'error_handling' must be one of 'FAIL', 'SKIP', but is 'NO'",
        ),
        (
            "SELECT * FROM a, LATERAL TABLE(nope(input => TABLE c, v))",
            "No match found for function signature nope(input => TABLE, <INT>)",
        ),
        (
            "SELECT * FROM TUMBLE(TABLE a, DESCRIPTOR(ts + INTERVAL '1' DAY), INTERVAL '1' DAY)",
            "A DESCRIPTOR names columns, but this is an expression",
        ),
        (
            "SELECT SUM(v) FROM a GROUP BY TUMBLE(CAST(ts AS TIMESTAMP(3)), INTERVAL '1' DAY)",
            "Window aggregate can only be defined over a time attribute column, but TIMESTAMP(3) encountered",
        ),
    ],
)
def test_what_does_not_fit_is_refused_at_its_place(tables, query, message):
    with pytest.raises(InvalidTable) as raised:
        plan(tables, query)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("SELECT * FROM a WHERE k IN (SELECT k FROM c)", ["SEMI"]),
        ("SELECT * FROM a WHERE k NOT IN (SELECT k FROM c)", ["ANTI"]),
        ("SELECT * FROM a WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.k = a.k)", ["ANTI"]),
        ("SELECT * FROM a WHERE v > (SELECT MAX(v) FROM c)", ["LEFT"]),
        ("SELECT * FROM a WHERE v > (SELECT COUNT(*) FROM c WHERE c.k = a.k)", ["LEFT"]),
        ("SELECT * FROM a, LATERAL (SELECT v FROM c WHERE c.k = a.k ORDER BY v LIMIT 2) AS t", ["INNER"]),
        ("SELECT * FROM (a JOIN c ON a.id = c.id), u", ["INNER", "INNER"]),
    ],
)
def test_sub_queries_are_joins(tables, query, kinds):
    joins = [node for node in walk(plan(tables, query)) if isinstance(node, LogicalJoin)]
    assert [node.kind.name for node in joins] == kinds


def test_a_temporal_join_knows_the_time_of_its_left_side(tables):
    found = plan(tables, "SELECT r.rate FROM a AS o LEFT JOIN r FOR SYSTEM_TIME AS OF o.ts ON o.k = r.k")
    (join,) = [node for node in walk(found) if isinstance(node, LogicalTemporalJoin)]
    assert join.left.row_type[join.time].time is TimeAttribute.ROWTIME


def test_a_named_query_that_is_used_twice_is_one_plan(tables):
    found = plan(tables, "WITH q AS (SELECT k FROM c) SELECT * FROM q AS x JOIN q AS y ON x.k = y.k")
    (join,) = [node for node in walk(found) if isinstance(node, LogicalJoin)]
    assert join.left is join.right


@pytest.mark.parametrize(
    ("insert", "message"),
    [
        ("INSERT INTO plain SELECT k FROM a", "Different number of columns"),
        ("INSERT INTO plain SELECT v, v FROM a", "Incompatible types for sink column 'k' at position 0"),
        ("INSERT INTO plain (nope) SELECT k FROM a", "Unknown target column 'nope'"),
        (
            "INSERT INTO keyed (n) SELECT v FROM a",
            "Column 'k' of 'default_catalog.default_database.keyed' has no default",
        ),
        ("INSERT INTO nope SELECT 1", "Object 'nope' not found"),
    ],
)
def test_an_insert_that_does_not_fit_its_table_is_refused(tables, insert, message):
    with pytest.raises(InvalidTable) as raised:
        tables.explain_sql(insert)
    assert message in str(raised.value)
