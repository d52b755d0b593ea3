"""Mistakes of newcomers with tables, a row each: a wrong program, and the parts of all that its author is told."""

import pytest

from funken.expr.sql import saying
from funken.plan import unexecuted
from tests.support.mistakes import FILE, said

HEAD = """from funken.table import *
from funken.table.udf import AggregateFunction, udaf, udf
t = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
t.get_config().set('execution.target', 'local').set('parallelism.default', 1)
"""
PAIRS = "tab = t.from_elements([('a', 1), ('b', 2)], ['item', 'n'])\n"
TIMED = (
    "t = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())\n"
    "t.execute_sql(\"CREATE TABLE o (n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector'='datagen')\")\n"
)


def query(text, options="", read="SELECT * FROM o"):
    """Return a program that reads a table with these columns and options."""
    created = f"CREATE TABLE o ({text}) WITH ({options})"
    return f't.execute_sql("{created}")\nt.execute_sql("{read}").print()'


RANKED = 't.execute_sql("SELECT * FROM (SELECT n, ROW_NUMBER() OVER (ORDER BY n) AS rn FROM o) WHERE {}")'
MISTAKES = {
    **{
        f"a row number that no row has: {condition}": (
            TIMED + f"{RANKED.format(condition)}.collect().close()",
            ["job.py, line 7: ROW_NUMBER() begins at 1, and its condition leaves no number", "WHERE rn <= 1"],
        )
        for condition in ("rn < 1", "rn <= 0", "rn = 0")
    },
    "a table that is printed": (
        f"{PAIRS}print(tab)",
        ["job.py, line 6: print() of a table shows the name of its query", "execute().print() shows the rows"],
    ),
    "too few names": (
        "t.from_elements([('a', 1)], ['item'])",
        ["job.py, line 5: from_elements() got 1 names (item) for rows of 2 values", "Give a name for each value"],
    ),
    "too many names": (
        "t.from_elements([('a', 1)], ['item', 'n', 'm'])",
        ["from_elements() got 3 names (item, n, m) for rows of 2 values, such as ('a', 1)"],
    ),
    "a function that is called with values": (
        "@udf(result_type='INT')\ndef plus(x): return x + 1\nplus(3)",
        ["job.py, line 7: plus(3) computes nothing here: it is an expression", "Give columns, as in col('a')"],
    ),
    "an aggregate without an accumulator": (
        "class M(AggregateFunction):\n    def get_value(self, acc): return acc\n    def accumulate(self, acc, v): pass\n"
        "udaf(M())",
        ["M does not define create_accumulator(), which an aggregate function needs"],
    ),
    "a type that is not called": (
        f"@udf(result_type=DataTypes.INT)\ndef plus(x): return x\n{PAIRS}tab.select(plus(col('n')))",
        ["function 'plus': result_type is DataTypes.INT, not called. Write DataTypes.INT()"],
    ),
    "an order by a text": (
        f"{PAIRS}tab.order_by('n desc')",
        ["order_by('n desc'): a text is a value", "Write col('n').desc"],
    ),
    "an order by a text in SQL": (
        "t.execute_sql(\"SELECT x FROM (VALUES (1)) v(x) ORDER BY 'x'\").print()",
        ["job.py, line 5", "ORDER BY 'x' is a text, the same for each row", "Write ORDER BY x"],
    ),
    "a dict of new names": (
        f"{PAIRS}tab.rename_columns({{'n': 'm'}})",
        ["rename_columns() takes columns, but got {'n': 'm'}. Write col('old').alias('new')"],
    ),
    "a function of rows as a condition": (
        f"{PAIRS}tab.where(lambda row: row.n > 1)",
        ["is no constant of SQL; an expression of columns is a condition or a result, as in col('n') > 1"],
    ),
    "a column for a function of Python": (
        f"import math\n{PAIRS}tab.select(math.sqrt(col('n')))",
        ["An expression stands for a column, and has no value here"],
    ),
    "a column that is set": (
        f"{PAIRS}tab.m = 5",
        ["a table does not change, so m cannot be set", "add_or_replace_columns"],
    ),
    "rows of a result": (
        "t.execute_sql('SELECT 1')[0]",
        ["collect() reads the rows of a TableResult"],
    ),
    "a misspelt option of Kafka": (
        query("n INT", "'connector'='kafka','topic'='a','properties.bootstrap.server'='x:1','format'='json'"),
        ["'properties.bootstrap.servers' is missing", "There is 'bootstrap.server': correct its name"],
    ),
    "no values between two bounds": (
        query("n INT", "'connector'='datagen','number-of-rows'='1','fields.n.min'='9','fields.n.max'='1'"),
        ["column 'n' of table", "has no values from 9 to 1: set 'fields.n.max' to 9 at least"],
    ),
    "an empty folder": (
        "import tempfile\nfolder = tempfile.mkdtemp()\n"
        "t.execute_sql(f\"CREATE TABLE o (n INT) WITH ('connector'='filesystem','path'='{folder}','format'='json')\")\n"
        "t.execute_sql('SELECT * FROM o').print()",
        [
            "job.py, line 8: table 'default_catalog.default_database.o'",
            "holds no files, so the table is empty",
            "correct 'path'",
        ],
    ),
    "another delimiter and one column": (
        "import os, tempfile\npath = os.path.join(tempfile.mkdtemp(), 'a.csv')\nopen(path, 'w').write('tea;1\\nmilk;2\\n')\n"
        "t.execute_sql(f\"CREATE TABLE o (item STRING) WITH ('connector'='filesystem','path'='{path}','format'='csv')\")\n"
        "t.execute_sql('SELECT * FROM o').print()",
        ["each of its first 2 rows has a ';' in its only column 'item'", "'csv.field-delimiter' = ';'", "line 9"],
    ),
    "the start of another window": (
        TIMED
        + "t.execute_sql(\"SELECT TUMBLE_START(ts, INTERVAL '5' MINUTE) FROM o GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)\")",
        ["'TUMBLE_START' must have matching call to group function 'TUMBLE'", "give both the same arguments"],
    ),
    "the start of a window of another kind": (
        TIMED + "t.execute_sql(\"SELECT HOP_START(ts, INTERVAL '1' MINUTE, INTERVAL '2' MINUTE) FROM o "
        "GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)\")",
        ["it groups by TUMBLE: write TUMBLE_START(...)"],
    ),
    "a lifetime without a unit": (
        "t.get_config().set('table.exec.state.ttl', '10')",
        ["job.py, line 5: option 'table.exec.state.ttl' is 10 ms: a number is milliseconds"],
    ),
    "too many digits": (
        "t.execute_sql('CREATE TABLE s (a DECIMAL(4, 2)) WITH (\\'connector\\'=\\'blackhole\\')')\n"
        "t.execute_sql('INSERT INTO s VALUES (12345.67)').wait()",
        ["CAST(... AS DECIMAL(4, 2)) gives NULL for 12345.67: the type has 2 digits before the point"],
    ),
    "a wrong path of JSON": (
        "t.execute_sql(\"SELECT JSON_VALUE('{}', 'a')\").print()",
        ["the JSON path 'a' is wrong", "write '$.a'"],
    ),
    "seconds as milliseconds": (
        "t.execute_sql('SELECT TO_TIMESTAMP_LTZ(1700000000, 3)').print()",
        ["TO_TIMESTAMP_LTZ(1700000000, 3) is a day in early 1970", "Write TO_TIMESTAMP_LTZ(number, 0)"],
    ),
    "milliseconds as seconds": (
        "t.execute_sql('SELECT FROM_UNIXTIME(1700000000000)').print()",
        ["FROM_UNIXTIME(1700000000000) is after the year 9999", "Divide milliseconds by 1000"],
    ),
    "a wrong regular expression": (
        "t.execute_sql(\"SELECT REGEXP_EXTRACT('a1', '[0-9', 0)\").print()",
        ["the regular expression '[0-9' is wrong", "so the function gives NULL or FALSE"],
    ),
    "no statement": ("t.execute_sql('')", ["the text has none. Give one, such as SELECT 1"]),
    "names of columns in a list": (
        "from funken import StreamExecutionEnvironment\nenv = StreamExecutionEnvironment.create_local_environment(1)\n"
        "StreamTableEnvironment.create(env).from_data_stream(env.from_collection([('a', 1)]), ['x', 'y'])",
        ["from_data_stream() takes the columns one by one, or a Schema, but got ['x', 'y']"],
    ),
    **{
        f"a dropped result: {call}": (
            f"{PAIRS}{call}\ntab.execute().print()",
            [
                "job.py, line 6: the result of this line is dropped, and a table does not change",
                "table = table.where(...)",
            ],
        )
        for call in (
            "tab.where(col('n') > 1)",
            "tab.select(col('n')).distinct()",
            "t.sql_query('SELECT 1')",
            "tab.limit(1)",
        )
    },
    "a dropped frame": (
        "import funken.dataframe as fd\nframe = fd.from_records([{'a': 1}])\nframe.filter(frame.a > 3)\nframe.collect()",
        ["job.py, line 7: the result of this line is dropped"],
    ),
    **{
        f"a comparison by Python: {condition}": (
            f"{PAIRS}tab.where({condition}).execute().print()",
            ["job.py, line 6: where() got", "Write col('a') == 'b', and is_null for None"],
        )
        for condition in ("'item' == 'tea'", "tab.item is None", "tab.item is not None")
    },
    "filters in a chain": (
        f"{PAIRS}tab.where(tab.n > 5).where(tab.n < 3).execute().print()",
        ["job.py, line 6: no row fulfils both n > 5 and n < 3"],
    ),
    **{
        f"a join without a condition: {join}": (
            f"{PAIRS}other = t.from_elements([('a', 1)], ['k', 'v'])\n{join}.execute().print()",
            [
                "job.py, line 7: SQL query, ",
                "no condition compares the table of item, n with the table of k, v",
                "lit(True)",
            ],
        )
        for join in ("tab.join(other)", "tab.join(other).where(tab.n > 1)", "tab.join(other, tab.n > 1)")
    },
    "a column joined with itself": (
        f"{PAIRS}other = t.from_elements([('a', 1)], ['k', 'v'])\ntab.join(other, tab.item == tab.item).execute().print()",
        ["job.py, line 7", "compares a column with itself"],
    ),
    "a window that no column is computed over": (
        "from funken.table import expressions\n"
        + TIMED
        + "t.from_path('o').over_window(Over.partition_by(col('n')).order_by(col('ts')).preceding(expressions.UNBOUNDED_RANGE)"
        ".alias('w')).select(col('n').sum).execute().collect().close()",
        ["job.py, line 8: no column is computed over the window 'w'", "as in col('a').sum.over(col('w'))"],
    ),
    "rows that are read twice": (
        "r = t.execute_sql('SELECT * FROM (VALUES (1)) AS v(x)')\nr.print()\nr.print()",
        ["job.py, line 7: the rows of this result were read before", "execute the query again"],
    ),
    "a NULL in the query of NOT IN": (
        f"{PAIRS}t.create_temporary_view('tab', tab)\n"
        "t.execute_sql('SELECT n FROM tab WHERE item NOT IN (SELECT * FROM (VALUES (CAST(NULL AS STRING))) v(x))').print()",
        ["the sub-query of NOT IN has a NULL in column 'x'", "WHERE .. IS NOT NULL"],
    ),
    "columns of INSERT in another order": (
        "t.execute_sql(\"CREATE TABLE s (a INT, b INT) WITH ('connector'='blackhole')\")\n"
        "t.execute_sql('INSERT INTO s SELECT 1 AS b, 2 AS a').wait()",
        ["job.py, line 6: INSERT INTO", "gives (b, a) for its columns (a, b)", "write INSERT INTO table (b, a)"],
    ),
    "a table function that yields nothing": (
        f"@udtf(result_types=['INT'])\ndef twice(x): x * 2\n{PAIRS}"
        "tab.join_lateral(twice(col('n')).alias('m')).execute().print()",
        ["its function 'twice' (job.py, line 5) yields nothing, so no row comes of it. Yield the rows"],
    ),
    "a frame's function that returns nothing": (
        "import funken.dataframe as fd\ndef f(r): r['a'] * 2\n"
        "fd.from_records([{'a': 1}]).map(f, return_dtype=fd.DataType.int64()).collect()",
        ["its function 'f' (job.py, line 6) returns nothing, so each result is NULL"],
    ),
    "an accumulator that cannot change": (
        "class Total(AggregateFunction):\n    def create_accumulator(self): return 0\n"
        "    def accumulate(self, acc, v): acc += v\n    def get_value(self, acc): return acc\n"
        f"{PAIRS}tab.select(udaf(Total(), result_type='INT')(col('n'))).execute().print()",
        [
            "create_accumulator() of Total gives 0, which accumulate() cannot change",
            "as in [0], and change accumulator[0]",
        ],
    ),
    "a result that loses its fraction": (
        f"@udf(result_type='INT')\ndef half(x): return x / 2\n{PAIRS}tab.select(half(col('n'))).execute().print()",
        ["function 'half' is declared to return INT, but gave 0.5, whose fraction is cut off", "round(...)"],
    ),
    "Python's type as a result type": (
        f"@udf(result_type=int)\ndef f(x): return x\n{PAIRS}tab.select(f(col('n')))",
        ["function 'f': result_type is Python's int. Write DataTypes.BIGINT()"],
    ),
    "an aggregate as a function of values": (
        "class M(AggregateFunction):\n    def create_accumulator(self): return [0]\n    def accumulate(self, acc, v): pass\n"
        "    def get_value(self, acc): return acc[0]\nudf(M(), result_type='INT')",
        ["M aggregates rows. Make a function of it with udaf()"],
    ),
    "a function before its name": (
        "t.create_temporary_function(udf(lambda x: x, result_type='INT'), 'f')",
        ["create_temporary_function() needs a str", "The name is the first argument"],
    ),
    "rows that are not in a list": ("t.from_elements((1, 'a'), (2, 'b'))", ["from_elements() got 2 names"]),
    "fields in a list": (
        "t.from_elements([(1,)], [DataTypes.FIELD('n', DataTypes.INT())])",
        ["from_elements() takes the rows as one list", "DataTypes.ROW("],
    ),
    "a time as a text": (
        "t.from_elements([('2024-01-01',)], DataTypes.ROW([DataTypes.FIELD('x', DataTypes.TIMESTAMP(3))]))",
        ["column 'x' is TIMESTAMP(3), but a row has '2024-01-01' there, which does not fit"],
    ),
    "a table of another environment": (
        f"{PAIRS}TableEnvironment.create(EnvironmentSettings.in_batch_mode()).create_temporary_view('v', tab)",
        ["view 'v' is of another table environment"],
    ),
    "settings in the place of an environment": (
        "StreamTableEnvironment.create(EnvironmentSettings.in_batch_mode())",
        ["create() needs a StreamExecutionEnvironment", "environment_settings=..."],
    ),
    "a name in the place of a table": (
        "from funken import StreamExecutionEnvironment\nenv = StreamExecutionEnvironment.create_local_environment(1)\n"
        "StreamTableEnvironment.create(env).to_data_stream('orders')",
        ["a stream of a table needs a Table, but got 'orders'", "from_path()"],
    ),
    **{
        f"a method of pandas: {call}": (
            f"{PAIRS}tab.select(tab.n.{call}())",
            ["line 6, in <module>", f"write col('n').{right}"],
        )
        for call, right in {"sum": "sum, without", "mean": "avg.", "upper": "upper_case.", "isnull": "is_null."}.items()
    },
    "a frame of data by its class": (
        "import funken.dataframe as fd\nfd.DataFrame({'a': [1]})",
        ["DataFrame() needs a Table", "from_dict()"],
    ),
    "an attribute of a frame that is set": (
        "import funken.dataframe as fd\nframe = fd.from_records([{'a': 1}])\nframe.b = frame.a",
        ["a frame does not change, so b cannot be set. with_column('b', ...)"],
    ),
    "a column of a frame that is set": (
        "import funken.dataframe as fd\nfd.from_records([{'a': 1}])['b'] = 1",
        ["A frame does not change: frame.with_column('c', frame['a'] + 1) returns another one"],
    ),
}
NOT_IN = (
    f"{PAIRS}t.create_temporary_view('tab', tab)\n"
    "t.execute_sql('SELECT n FROM tab WHERE item NOT IN (SELECT x FROM (VALUES (1, CAST(NULL AS STRING))) v(k, x) WHERE %s)')"
    ".collect().close()"
)
RIGHT = {
    "a NULL for some rows of NOT IN": NOT_IN % "k = n",
    "a NULL for other rows of NOT IN": NOT_IN % "k > n",
    "the name of a query in SQL": (
        f"{PAIRS}t.execute_sql(f'SELECT * FROM {{tab}}').collect()\nt.sql_query('SELECT * FROM %s' % tab)"
    ),
    "a text of one column": (
        "import os, tempfile\npath = os.path.join(tempfile.mkdtemp(), 'a.csv')\nopen(path, 'w').write('tea; black\\nmilk\\n')\n"
        "t.execute_sql(f\"CREATE TABLE o (item STRING) WITH ('connector'='filesystem','path'='{path}','format'='csv')\")\n"
        "t.execute_sql('SELECT * FROM o').print()"
    ),
    "a function of a column and a value": (
        f"@udf(result_type='BIGINT')\ndef plus(x, y): return x + y\n{PAIRS}tab.select(plus(col('n'), 3)).execute().print()"
    ),
    "a kept result, calls in a chain and an error that is caught": (
        f"{PAIRS}kept = tab.where(col('n') > 1)\nkept = kept.select(col('n'))\n"
        "kept.execute().print()\ntab.limit(1).execute().print()\n"
        "try:\n    kept.select(col('missing'))\nexcept Exception:\n    pass\n"
        "def program():\n    return tab.distinct()\nprogram().execute().print()\n"
        "[tab.limit(n) for n in (1, 2)][0].execute().print()"
    ),
    "a product that is meant": (
        f"{PAIRS}other = t.from_elements([('a', 1)], ['k', 'v'])\ntab.join(other, lit(True)).execute().print()\n"
        "tab.join(other).where(tab.item == other.k).execute().print()"
    ),
    "whole numbers, a list as accumulator": (
        "class Total(AggregateFunction):\n    def create_accumulator(self): return [0]\n"
        "    def accumulate(self, acc, v): acc[0] += v\n    def get_value(self, acc): return acc[0]\n"
        f"{PAIRS}tab.select(udaf(Total(), result_type='INT')(col('n'))).execute().print()\n"
        "tab.select(udf(lambda x: x * 2.0, result_type='INT')(col('n'))).execute().print()"
    ),
    "a try": "t.execute_sql(\"SELECT TRY_CAST('12345.67' AS DECIMAL(4, 2))\").print()",
    "a latency": "t.get_config().set('table.exec.mini-batch.allow-latency', '5 ms')",
}


@pytest.fixture(autouse=True)
def _nothing_was_said(monkeypatch):
    monkeypatch.setattr(saying, "_said", set())


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_author_is_told(mistake, caplog, capsys):
    program, parts = MISTAKES[mistake]
    told = said(f"{HEAD}{program}\n", caplog)

    assert [part for part in parts if part not in told] == [], told


@pytest.mark.parametrize("program", RIGHT)
def test_a_right_program_is_told_nothing(program, caplog, capsys):
    told = said(f"{HEAD}{RIGHT[program]}\n", caplog)

    assert (
        "UserWarning" not in told and "operator" not in told and "gives NULL" not in told and "print()" not in told
    ), told


def test_a_statement_set_that_never_ran_is_said(caplog):
    program = "t.execute_sql(\"CREATE TABLE s (a INT) WITH ('connector'='blackhole')\")\n"
    program += "t.create_statement_set().add_insert_sql('INSERT INTO s VALUES (1)')"

    assert "job.py built a statement set that never ran. execute() of the set submits" in said(
        f"{HEAD}{program}\n", caplog
    )
    assert unexecuted.take_warnings(FILE) == []
