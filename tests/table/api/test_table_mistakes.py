"""The mistakes of a first day with tables: each message ends with a remedy, and none is silent."""

import re
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

import funken
import funken.dataframe as ff
from funken.errors import FunkenError, InvalidProgram
from funken.plan.advice import advise
from funken.table import EnvironmentSettings, TableEnvironment, col
from funken.table.sql.statements import InvalidQuery, InvalidStatement
from funken.table.udf import udaf, udf, udtf


def tables(streaming=False):
    settings = EnvironmentSettings.in_streaming_mode() if streaming else EnvironmentSettings.in_batch_mode()
    made = TableEnvironment.create(settings)
    made.get_config().set("execution.target", "local").set("parallelism.default", 1)
    orders = made.from_elements([("tea", 3), ("milk", 2)], ["item", "quantity"])
    made.create_temporary_view("orders", orders)
    made.execute_sql("CREATE TABLE sink (n INT, m INT) WITH ('connector' = 'blackhole')")
    made.execute_sql("CREATE TABLE named (item STRING, quantity INT) WITH ('connector' = 'blackhole')")
    made.execute_sql("CREATE TABLE endless (n INT) WITH ('connector' = 'datagen')")
    made.execute_sql(
        "CREATE TABLE timed (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'number-of-rows' = '3')"
    )
    made.create_temporary_system_function("text", udf(lambda value: value, result_type="INT"))
    return made


STATEMENTS = {
    'SELECT item FROM orders WHERE item = "tea"': "Text is in single quotes, 'tea'; a name in backticks, `tea`",
    "SELECT item FROM orders WHERE item = 'tea": "A text has no closing '",
    "SELECT CURRENT_TIMESTAMP + INTERVAL 5 SECOND": "The value of an interval is in quotes: INTERVAL '5' SECOND",
    "SELECT item, quantity, COUNT(*) FROM orders GROUP BY item": r"Add it to GROUP BY, or aggregate it, as MAX\(quantity\)",
    "SELECT item FROM orders a JOIN orders b ON a.item = b.item": "Write it with its table, as a.item",
    "SELECT zzzzz(item) FROM orders": r"One of your own is created with create_temporary_system_function\(\)",
    "INSERT INTO nowhere SELECT item FROM orders": "create it with CREATE TABLE",
    "INSERT INTO sink SELECT item, item FROM orders": r"Cast the columns that differ: CAST\(column AS TYPE\)",
    "INSERT INTO named SELECT 1 AS quantity, 'tea' AS item": r"by their position, .*INTO table \(quantity, item\)",
    "CREATE TABLE a (n INT) WITH ('connector' = 'print' 'topic' = 'x')": "Expected a comma or \\)",
    "INSERT INTO sink SELECT item FROM orders": "Select as many columns, or name those that the query gives",
    "CREATE TABLE a (x INTT) WITH ('connector' = 'print')": "expected a type, such as INT",
    "CREATE TABLE a (t STRING, WATERMARK FOR t AS t) WITH ('connector' = 'print')": r"ts AS TO_TIMESTAMP\(t\)",
    "SELECT CAST(item AS INT) FROM orders": r"TRY_CAST\(\) gives NULL instead",
    "SELECT text(item) FROM orders": "is declared to return INT, but a result does not fit",
    "SELECT * FROM endless": "The table source is unbounded. Bound it, as 'number-of-rows'",
    "SELECT item FROM orders WHERE quantity == 3": 'Encountered "==" at line 1, column 40. SQL compares with a single =',
    "SELECT TOP 3 item FROM orders": "Write LIMIT 3 at the end of the query instead",
    "SELECT item + 'x' FROM orders": r"\|\| joins texts",
    "SELECT item FROM orders UNION ALL SELECT item, quantity FROM orders": "1 and 2 columns; select as many on both sides",
    "SELECT other FROM orders": "Column 'other' not found in any table; there are: item, quantity",
    "SELECT CURRENT_TIMESTAMP + INTERVAL '5 SECONDS'": "Expected the unit of the interval .* INTERVAL '5' SECOND.$",
    "CREATE TABLE a (n INT,) WITH ('connector' = 'print')": "Expected a name; leave out the comma before it",
    'CREATE TABLE a (n INT) WITH ("connector" = "print")': "Expected a text in single quotes, as in 'kafka'",
    "SELECT TO_TIMESTAMP('1', 'yyyy-bb')": "character 'b' .* Formats are Java's, as in 'yyyy-MM-dd HH:mm:ss'",
    "SELECT * FROM TUMBLE(orders, item, INTERVAL '1' MINUTE)": r"write TABLE\(TUMBLE\(TABLE orders, DESCRIPTOR\(ts\)",
    "SELEC 1": "Did you mean SELECT",
    "SELECT * FORM orders": "Did you mean FROM instead of FORM",
    "SELECT item FROM orders GRUP BY item": "Did you mean GROUP instead of GRUP",
    "SELECT item FROM orders WEHRE quantity = 1": "Did you mean WHERE instead of WEHRE",
    "SELECT UPPER(item) AS up, COUNT(*) FROM orders GROUP BY up": r"it is an alias of SELECT, .*: write UPPER\(item\), or select",
    "SELECT ROW_NUMBER() OVER (ORDER BY item) AS rn FROM orders WHERE rn = 1": "alias of SELECT, .*: select from a sub-query",
    "SELECT PI FROM orders": r"PI is a function: write PI\(\)",
    "SELECT `item, quantity` FROM orders": "a name has no comma: give each column by itself, as 'item' and 'quantity'",
    "SELECT item FROM orders UNION ALL SELECT quantity FROM orders": "'item' is .*STRING and 'quantity' is BIGINT.*position",
    "SELECT 1 / 0": r"Division by zero. Where a divisor may be 0, write NULLIF\(divisor, 0\)",
    "SELECT CURRENT_TIMESTAMP - 5": "a length of time is an interval, such as INTERVAL '5' SECOND",
    "DROP TABLE nowhere": "does not exist. Correct the name, or write DROP TABLE IF EXISTS",
    "CREATE TABLE a (ts TIMESTAMP(3), WATERMARK FOR tss AS tss) WITH ('connector' = 'print')": "Did you mean 'ts'",
    "SELECT * FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(ts), '1 MINUTE'))": "days to seconds, such as INTERVAL '1' MINUTE",
    "SELECT * FROM TABLE(CUMULATE(TABLE timed, DESCRIPTOR(ts), INTERVAL '7' MINUTE, INTERVAL '1' MINUTE))": "step comes first",
    "SELECT NVL(item, 'x') FROM orders": "Did you mean COALESCE",
    "SELECT LEN(item) FROM orders": "Did you mean CHAR_LENGTH",
    "SELECT DATEDIFF('day', item, item) FROM orders": "Did you mean TIMESTAMPDIFF",
    "CREATE TABLE a (n INT m INT) WITH ('connector' = 'print')": "column 'n' at line 1, column 17: .*two columns is a comma",
    "CREATE TABLE a (m INT, t TEXT) WITH ('connector' = 'print')": "column 't' at line 1, column 24: type 'TEXT'",
    "INSERT INTO named VALUES (a, 1)": "'a' not found in any table; a text is in single quotes: 'a'",
    'INSERT INTO named VALUES ("a", 1)': "Text is in single quotes, as in 'text'",
    "SELECT 1 SELECT 2": "Another statement begins behind a semicolon",
    "SELECT * FROM <Table>": "Expected table name.$",
    "SELECT item, SUM(quantity) FROM orders GROUP BY item WHERE quantity > 1": "WHERE stands before GROUP BY",
    "SELECT item FROM orders LIMIT 5 ORDER BY quantity": "ORDER BY stands before LIMIT",
    "SELECT item FROM orders WHERE quantity IN ()": r"IN \(\) has no values. Give one",
    "SELECT item FROM orders WHERE quantity > 2 && quantity < 5": 'Encountered "&&" .*Write AND',
    "SELECT item FROM orders WHERE item ILIKE 'T%'": r"Write UPPER\(text\) LIKE",
    "SELECT item FROM orders WHERE item RLIKE 't.*'": r"Write REGEXP\(text",
    "SELECT item FROM {name}": "is an f-string",
    "# a comment": "A comment begins with --",
    "SELECT 1 /* a comment": r"A comment has no closing \*/",
    "SELECT COUNT(* FROM orders": r"Expecting \)\.$",
    "SELECT orders.item FROM orders o": "Table 'orders' not found; FROM has: o",
    "SELECT item FROM orders WHERE item IS 'NULL'": "write IS NULL, IS TRUE or IS FALSE, and = for another value",
    "SELECT item FROM orders HAVING quantity > 1": "a condition on each row goes to WHERE",
    "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(tss), INTERVAL '1' MINUTE))": "columns of time: ts",
    "SELECT TUMBLE_START(ts, INTERVAL '1' MINUTE) FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
    "GROUP BY window_start, window_end": "write window_start, window_end or window_time instead",
    "SELECT COUNT(*) FROM orders GROUP BY TUMBLE(quantity, INTERVAL '1' MINUTE)": "Declare one in its table: WATERMARK FOR ts",
    "CREATE TABLE a (id, n INT) WITH ('connector' = 'print')": "column 'id' at line 1, column 17 has no type",
    "CREATE TABLE a (p AS PROCTIME(), WATERMARK FOR p AS p) WITH ('connector' = 'print')": "processing-time attribute column",
    "CREATE TABLE a (n LONG) WITH ('connector' = 'print')": "such as BIGINT",
    "CREATE TABLE a (n SERIAL) WITH ('connector' = 'print')": "such as BIGINT",
    "CREATE TABLE a (n DATETIME) WITH ('connector' = 'print')": r"such as TIMESTAMP\(3\)",
    "CREATE TABLE a (n INT[]) WITH ('connector' = 'print')": "An array of INT is ARRAY<INT>",
    "CREATE TABLE a (n STRING(10)) WITH ('connector' = 'print')": r"With a length it is VARCHAR\(10\)",
    "USE CATALOG other": "There are: default_catalog",
    "DROP VIEW sink": "Write DROP TABLE",
    "DROP VIEW orders": "Write DROP TEMPORARY VIEW",
    "SELECT * FROM orders WHERE 'quantity > 1'": r"A text is a value here: write col\('n'\) > 1",
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_is_refused_with_a_remedy(statement):
    with pytest.raises(FunkenError, match=STATEMENTS[statement]):
        tables().execute_sql(statement).print()


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda t: t.from_path("orders").selct, r"Did you mean select\(\)\? Its columns are: item, quantity"),
        (lambda t: t.from_path("orders").itme, "Did you mean item"),
        (
            lambda t: t.from_path("orders")[0],
            r"is a query and has no rows here.*execute\(\).collect\(\) returns the rows",
        ),
        (lambda t: len(t.from_path("orders")), "is a query and has no rows here: it has no length"),
        (lambda t: list(t.from_path("orders")), "is a query and has no rows here"),
        (lambda t: not t.from_path("orders"), "no truth value"),
        (lambda t: t.from_path("orders").select("item, quantity"), "a name has no comma"),
        (lambda t: t.from_elements([("a", 1), ("b",)], ["item", "n"]), "Give each row a value for each column"),
        (lambda t: t.from_path("orders").show, r"execute\(\).print\(\) prints the rows"),
        (lambda t: ff.from_table(t.from_path("orders")).itme, "Did you mean item"),
        (lambda t: t.from_elements([(1,), ("a",)], ["n"]), "column 'n': values of the types BIGINT, STRING"),
        (
            lambda t: t.from_pandas([{"n": 1}]),
            r"needs a DataFrame of pandas, but got a list. from_elements\(\) reads a list",
        ),
        (lambda t: t.from_path("orders").select(col("quantity").summ).execute(), "did you mean 'sum'"),
        (lambda t: ff.read_csv, "There are read_.*read_json"),
        (lambda t: TableEnvironment.create("batch"), r"Give EnvironmentSettings.in_batch_mode\(\)"),
        (lambda t: t.create_temporary_view("orders", t.from_path("orders")), "already exists. Drop it before"),
    ],
)
def test_a_call_is_refused_with_a_remedy(mistake, message):
    with pytest.raises((FunkenError, AttributeError, TypeError), match=message):
        mistake(tables())


def test_pythons_sum_of_a_column_is_answered():
    with pytest.raises(TypeError) as raised:
        sum(col("quantity"))
    advise(raised.value)

    assert "write col('n').sum" in raised.value.__notes__[0]


def test_all_rows_of_an_endless_table_never_come():
    with pytest.raises(FunkenError, match=r"never ends, so all of its rows never come. Use limit\(\)"):
        tables(streaming=True).from_path("endless").to_pandas()


def test_a_stream_is_not_sorted_without_time():
    with pytest.raises(FunkenError, match="Order by event time first, add LIMIT, or use batch mode"):
        tables(streaming=True).from_path("orders").order_by(col("item")).execute()


@pytest.mark.parametrize(
    ("end", "warning"),
    [
        ("kept = t.sql_query('SELECT 1')", r"job.py built a query that never ran. .*execute\(\).print\(\) prints"),
        ("kept = t.sql_query('SELECT 1').select(col('EXPR$0'))", "built a query that never ran"),
        ("t.sql_query('SELECT 1')", "job.py:4: UserWarning: the result of this line is dropped"),
        ("t.execute_sql('SELECT 1')", r"job.py ran a query and never read its rows. print\(\)"),
        ("t.execute_sql('SELECT 1').wait()", r"job.py ran a query and never read its rows"),
        ("t.execute_sql('SELECT 1').print()", None),
        (
            "t.execute_sql(\"CREATE TABLE s (n INT) WITH ('connector' = 'print')\")\n"
            "t.execute_sql('INSERT INTO s SELECT 1').wait()",
            None,
        ),
        (
            "t.execute_sql(\"CREATE TABLE d (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '9000000')\")\n"
            "t.execute_sql(\"CREATE TABLE s (n INT) WITH ('connector' = 'blackhole')\")\n"
            "t.execute_sql('INSERT INTO s SELECT n FROM d')",
            "job.py ended while its job '.*' ran, and the job ends with it. Wait for the job: call wait()",
        ),
        ("t.create_temporary_view('v', t.sql_query('SELECT 1'))", None),
        ("t.sql_query('SELECT 1').print_schema()", None),
        ("t.execute_sql('SHOW TABLES')", None),
    ],
)
def test_a_query_that_nobody_reads_is_warned_of_at_exit(tmp_path, end, warning):
    script = tmp_path / "job.py"
    script.write_text(
        "from funken.table import EnvironmentSettings, TableEnvironment, col\n"
        "t = TableEnvironment.create(EnvironmentSettings.in_batch_mode())\n"
        f"t.get_config().set('execution.target', 'local')\n{end}\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=100)

    assert ended.returncode == 0
    assert re.search(warning, ended.stderr) if warning else "Warning" not in ended.stderr


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda env, t: t.select([col("n"), col("text")]), r"a list was given: put \* before it"),
        (lambda env, t: t.union_all(5), "UNION ALL needs a Table, but got 5"),
        (lambda env, t: t.join([1], col("n") == 1), r"a join needs a Table, but got \[1\]"),
        (lambda env, t: t.limit("x"), r"fetch\(\) needs an int, but got 'x'"),
        (lambda env, t: t.select(col(5)), r"col\(\) needs a str, but got 5. Columns have names"),
        (lambda env, t: env.sql_query(5), "a statement needs a str, but got 5"),
        (lambda env, t: env.create_temporary_view("v", 5), r"create_temporary_view\(\) needs a Table, but got 5"),
        (lambda env, t: env.create_temporary_table("v", None), "the table needs a TableDescriptor, but got None"),
        (lambda env, t: env.get_config().set(5, 6), "the name of an option needs a str, but got 5"),
    ],
)
def test_an_argument_of_another_kind_is_named(mistake, message):
    env = TableEnvironment.create()
    table = env.from_elements([(1, "a")], ["n", "text"])
    with pytest.raises(TypeError, match=message):
        mistake(env, table)


@pytest.mark.parametrize(
    ("call", "form"),
    [
        ("STRING_AGG(text, ',')", r"LISTAGG\(text, ','\)"),
        ("len(text)", r"CHAR_LENGTH\(text\)"),
        ("GETDATE()", "CURRENT_TIMESTAMP"),
        ("DATE_TRUNC('day', NOW())", r"FLOOR\(time TO DAY\)"),
        ("UPER(text)", "UPPER"),
    ],
)
def test_functions_of_other_dialects_are_known_by_their_forms_here(call, form):
    env = TableEnvironment.create()
    env.create_temporary_view("t", env.from_elements([(1, "a")], ["n", "text"]))
    with pytest.raises(InvalidQuery, match=rf"No match found for function signature .* Did you mean {form}\?"):
        env.sql_query(f"SELECT {call} FROM t")


@pytest.mark.parametrize("query", ["SELECT 1 FROM", "SELECT 1 +", "SELECT a FROM t WHERE a >"])
def test_a_query_that_breaks_off_names_no_object_of_the_parser(query):
    with pytest.raises(InvalidStatement) as wrong:
        TableEnvironment.create().sql_query(query)
    assert "Expected" in str(wrong.value)
    assert "sqlglot" not in str(wrong.value)
    assert "Token" not in str(wrong.value)


def test_an_unknown_unit_of_time_is_named():
    with pytest.raises(InvalidQuery, match="FOO is no unit of time; there are: CENTURY, DAY, "):
        TableEnvironment.create().sql_query("SELECT EXTRACT(FOO FROM NOW())")


WINDOWED = "TABLE(TUMBLE(TABLE timed, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
DOUBTS = {
    "SELECT item FROM orders WHERE quantity = NULL": "line 1, column 31: a comparison with NULL is never TRUE.*quantity IS NULL",
    "SELECT item FROM orders WHERE NULL <> quantity": "quantity IS NOT NULL",
    "SELECT item FROM orders WHERE quantity NOT IN (1, NULL)": "NOT IN with a NULL in its list is never TRUE",
    "SELECT CASE item WHEN NULL THEN 1 ELSE 2 END FROM orders": "Write CASE WHEN item IS NULL",
    "SELECT item FROM orders WHERE item LIKE 't*'": r"LIKE knows % .*Write LIKE 't%'",
    "SELECT item FROM orders WHERE item LIKE 'te?'": "Write LIKE 'te_'",
    "SELECT item FROM orders WHERE item LIKE '^te.*'": r"reads no regular expressions.*REGEXP\(item, '\^te",
    "SELECT item FROM orders WHERE item LIKE 'tea'": "has no % and no _, so it is =",
    "SELECT item FROM orders WHERE UPPER(item) = 'tea'": r"UPPER\(\) never gives 'tea'.*Write 'TEA'",
    "SELECT item FROM orders WHERE LOWER(item) IN ('tea', 'Milk')": r"LOWER\(\) never gives 'Milk'.*Write 'milk'",
    "SELECT item FROM orders WHERE quantity = quantity": "compares a column with itself.*TRUE unless it is NULL",
    "SELECT item FROM orders WHERE quantity > quantity": "compares a column with itself, so it is never TRUE",
    "SELECT 'item' FROM orders": "'item' is a text, the same for each row, and no column. Write item without quotes",
    "SELECT MAX('item') FROM orders": "'item' is a text",
    "SELECT item FROM orders WHERE 'item' = 'tea'": "line 1, column 31: 'item' is a text",
    "SELECT item FROM orders WHERE quantity BETWEEN 3 AND 1": "quantity >= 3 and quantity <= 1.*the smaller bound first",
    "SELECT item FROM orders WHERE quantity NOT BETWEEN 3 AND 1": "quantity BETWEEN 3 AND 1.* is TRUE for every value",
    "SELECT item FROM orders WHERE quantity > 5 AND quantity < 3": "no row fulfils both quantity > 5 and quantity < 3",
    "SELECT item FROM (SELECT * FROM orders WHERE 5 < quantity) WHERE quantity <= 5": "5 < quantity and quantity <= 5",
    "SELECT item FROM orders WHERE item = 'tea' AND item = 'milk'": "no row fulfils both item = .* and item = ",
    "SELECT item FROM orders WHERE item IS NULL AND item = 'tea'": "no row fulfils both item IS NULL and item = 'tea'",
    "SELECT item FROM orders WHERE quantity IN (1, 2) AND quantity > 5": "no row fulfils both .*quantity IN",
    "SELECT item FROM orders GROUP BY item HAVING SUM(quantity) > 9 AND SUM(quantity) < 5": "no row fulfils both",
    "SELECT a.item FROM orders a JOIN orders b ON a.item = b.item AND a.quantity > 9 AND a.quantity < 5": "no row fulfils both",
    "SELECT ts FROM timed WHERE ts BETWEEN '2024-02-01' AND '2024-01-01'": "no row fulfils both ts >= 2024-02-01",
    "SELECT item FROM orders WHERE item <> 'tea' OR item <> 'milk'": "is TRUE for every value.*with AND",
    "SELECT item FROM orders WHERE quantity > 3 OR quantity < 5": "is TRUE for every value",
    "SELECT a.item FROM orders AS a, orders AS b": "line 1, column 33: no condition compares .*write CROSS JOIN",
    "SELECT a.item FROM orders AS a, orders AS b WHERE a.quantity > 2": "no condition compares",
    "SELECT a.item FROM orders AS a JOIN orders AS b ON a.quantity > 2": "no condition compares",
    "SELECT a.item FROM orders AS a LEFT JOIN orders AS b ON b.quantity > 2": "no condition compares",
    "SELECT a.item FROM orders AS a, orders AS b, timed WHERE a.item = b.item": "with table 'timed'",
    "SELECT 1 / 2 FROM orders": "1 / 2 divides whole numbers, so it is 0. Write 1.0 / 2",
    "SELECT quantity / CHAR_LENGTH(item) * 100 FROM orders": r"quantity / .* divides whole numbers.*CAST\(.. AS DOUBLE\)",
    "SELECT CAST(SUM(quantity) / COUNT(*) AS DOUBLE) FROM orders": "divides whole numbers",
    "SELECT item FROM orders WHERE item IN (SELECT item FROM timed)": "column 'item': it is that of the query around",
    f"SELECT a.window_end FROM {WINDOWED} a JOIN {WINDOWED} b ON a.window_start = b.window_start": "Add a.window_end = b",
    "SELECT 1 AS a, 2 AS b UNION ALL SELECT 3 AS b, 4 AS a": r"by their position, but are \(a, b\) and \(b, a\)",
    "SELECT a.ts FROM timed a, timed b WHERE a.ts BETWEEN b.ts AND b.ts - INTERVAL '1' MINUTE": "never finds a partner",
}
SURE = [
    "SELECT item FROM orders WHERE quantity IS NULL AND item LIKE 't%' AND item LIKE '*_'",
    "SELECT item FROM orders WHERE quantity NOT IN (1, 2) AND quantity BETWEEN -3 AND 1",
    "SELECT item FROM orders WHERE quantity >= 3 AND quantity <= 3 AND item > 'a' AND item < 'b'",
    "SELECT item FROM orders WHERE quantity > 5 OR quantity < 3 OR item <> 'tea' OR item IS NULL",
    "SELECT item FROM orders WHERE item <> 'tea' AND item <> 'milk' AND UPPER(item) <> 'TEA' AND 1 = 1",
    "SELECT item FROM orders WHERE (quantity > 5 AND item = 'tea') OR (quantity < 3 AND item = 'milk')",
    "SELECT item, 'item' AS kind, COUNT('x') FROM orders WHERE item = 'item' GROUP BY item",
    "SELECT a.item FROM orders AS a, orders AS b WHERE a.item = b.item",
    "SELECT a.item FROM orders AS a CROSS JOIN orders AS b",
    "SELECT a.item FROM orders AS a JOIN orders AS b ON TRUE",
    "SELECT a.item FROM orders AS a, orders AS b WHERE a.item = 'tea' AND b.item = 'milk'",
    "SELECT a.item FROM orders AS a, orders AS b, orders AS c WHERE a.item = c.item AND b.item = c.item",
    "SELECT a.item FROM orders AS a LEFT JOIN orders AS b ON a.item = b.item OR a.quantity > b.quantity",
    "SELECT quantity = NULL, NOT (quantity IN (1, NULL)) FROM orders",
    "SELECT item FROM orders, (SELECT MAX(quantity) AS most FROM orders) AS m",
    "SELECT item FROM orders, (VALUES (1), (2)) AS m(x)",
    "SELECT item FROM orders WHERE EXISTS (SELECT 1 FROM orders AS b WHERE b.quantity > 1)",
    "SELECT item, word FROM orders, UNNEST(ARRAY['a', 'b']) AS t(word)",
    "SELECT 1 AS a, 2 AS b UNION ALL SELECT 3, 4",
    "SELECT 'item', COUNT(*) FROM orders WHERE item IS NULL",
    "SELECT 'item', item FROM orders UNION ALL SELECT 'quantity', CAST(quantity AS STRING) FROM orders",
    "SELECT quantity / 2, 10 / 5, quantity / 10 * 10, quantity * 100 / 7, CAST(quantity / 60 AS DOUBLE), 1.0 / 3 FROM orders",
    "SELECT item FROM orders WHERE item IN (SELECT b.item FROM orders b WHERE b.quantity = orders.quantity)",
    f"SELECT a.ts FROM {WINDOWED} a JOIN {WINDOWED} b ON a.window_start = b.window_start AND a.window_end = b.window_end",
    "SELECT a.ts FROM timed a, timed b WHERE a.ts BETWEEN b.ts - INTERVAL '1' MINUTE AND b.ts",
]


@pytest.mark.parametrize("statement", DOUBTS)
def test_a_query_that_is_hardly_meant_is_said(statement):
    with pytest.warns(UserWarning, match=DOUBTS[statement]) as said:
        tables().sql_query(statement).explain()

    assert {warning.filename for warning in said} == {__file__}


@pytest.mark.parametrize("statement", SURE)
def test_a_query_without_doubt_gets_no_warning(statement, recwarn):
    tables().sql_query(statement).explain()

    assert [str(warning.message) for warning in recwarn] == []


def test_a_watermark_ahead_of_its_column_is_said():
    with pytest.warns(UserWarning, match="the watermark of 'ts' is ahead of it.*ts - INTERVAL '5' SECOND"):
        tables().execute_sql(
            "CREATE TABLE a (ts TIMESTAMP(3), WATERMARK FOR ts AS ts + INTERVAL '5' SECOND) WITH ('connector' = 'datagen')"
        )


def test_a_function_that_returns_nothing_is_said(caplog, capsys):
    t = tables()
    t.create_temporary_system_function("shown", udf(print, result_type="INT"))
    list(t.execute_sql("SELECT shown(1)").collect())

    assert "returns nothing, so each result is NULL. Return the result." in caplog.text


@pytest.mark.parametrize(
    ("columns", "lines", "options", "message"),
    [
        (
            "item STRING, n INT",
            "item,n\ntea,1\n",
            "",
            "the line names the columns: set 'csv.ignore-first-line' = 'true'",
        ),
        ("item STRING, n INT", "tea;1\n", "", "its delimiter seems to be ';': set 'csv.field-delimiter' = ';'"),
        ("item STRING, n INT", "tea,1,x,y\n", "", "set 'csv.ignore-parse-errors' = 'true' to go on without it"),
        ("item STRING, n STRING", "item,n\ntea,1\n", "", "has the names of the columns, so the file has a header"),
        ("item STRING, n INT", "item,n\ntea,1\n", ", 'csv.ignore-first-line' = 'true'", None),
    ],
)
def test_a_file_of_another_form_is_said(tmp_path, columns, lines, options, message, caplog):
    (tmp_path / "orders.csv").write_text(lines)
    t = tables()
    t.execute_sql(
        f"CREATE TABLE files ({columns}) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/orders.csv', 'format' = 'csv'"
        f"{options})"
    )
    told = ""
    try:
        list(t.execute_sql("SELECT * FROM files").collect())
    except FunkenError as error:
        told = str(error)

    told += caplog.text
    assert told == "" if message is None else message in told


def test_a_column_that_a_database_lacks_is_refused(tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute("CREATE TABLE orders (a INT)")
    t = tables()
    t.execute_sql(
        f"CREATE TABLE shop (b INT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{tmp_path}/shop.db', "
        "'table-name' = 'orders')"
    )
    with pytest.raises(FunkenError, match="no such column: b; correct the columns"):
        t.execute_sql("SELECT * FROM shop").print()


@pytest.mark.parametrize("kind", ["AggregateFunction", "MapFunction", "ProcessFunction"])
def test_a_function_of_streams_is_none_of_tables(kind):
    base = getattr(funken, kind)
    mine = type("Mine", (base,), {name: None for name in getattr(base, "__abstractmethods__", ())})
    with pytest.raises(TypeError, match="Mine is a function of streams. Derive it from a class of tables"):
        udaf(mine(), result_type="INT")


KINDS = {
    "scalar": udf(lambda row: row, result_type="INT"),
    "table": udtf(lambda row: [row], result_types="INT"),
    "aggregate": udaf(lambda rows: 1, result_type="INT", func_type="pandas"),
}
WANTED = {
    "map": ("a scalar function, of udf", "scalar"),
    "flat_map": ("a table function, of udtf", "table"),
    "join_lateral": ("a table function, of udtf", "table"),
    "aggregate": ("an aggregate function, of udaf", "aggregate"),
}


@pytest.mark.parametrize("method", WANTED)
@pytest.mark.parametrize("kind", KINDS)
def test_a_method_names_the_kind_of_function_that_it_takes(method, kind):
    wanted, own = WANTED[method]
    call = getattr(tables().from_elements([(1,)], ["n"]), method)
    if kind == own:
        assert call(KINDS[kind]) is not None
    else:
        with pytest.raises(InvalidProgram, match=rf"{method}\(\) takes {wanted}.* but .* is one of kind {kind}"):
            call(KINDS[kind])
