"""Types of aggregates, windows over numbers and names of clocks as PyFlink 2.3 has them."""

import datetime

import pytest

from funken.errors import FunkenError
from funken.table import DataTypes, EnvironmentSettings, TableEnvironment
from funken.table.expressions import col, lit, row_interval
from funken.table.logical import AggregateCall
from funken.table.physical import described
from funken.table.types import IntType
from funken.table.window import Over, Session, Slide, Tumble


def made(batch=False):
    settings = EnvironmentSettings.in_batch_mode() if batch else EnvironmentSettings.in_streaming_mode()
    tables = TableEnvironment.create(settings)
    tables.get_config().set("execution.target", "local").set("parallelism.default", 1)
    return tables


def numbers(batch=False):
    tables = made(batch)
    tables.execute_sql(
        "CREATE TABLE n (id INT NOT NULL, v INT NOT NULL, d DOUBLE NOT NULL, m DECIMAL(10, 2) NOT NULL, s STRING NOT NULL, "
        "z INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'number-of-rows' = '2')"
    )
    return tables


def types(table):
    return [str(type_) for type_ in table.get_resolved_schema().get_column_data_types()]


CALLS = {
    "SUM(v)": "INT",
    "AVG(d)": "DOUBLE",
    "MIN(v)": "INT",
    "MAX(s)": "STRING",
    "SUM(m)": "DECIMAL(38, 2)",
    "AVG(m)": "DECIMAL(38, 6)",
    "FIRST_VALUE(v)": "INT",
    "LAST_VALUE(v)": "INT",
    "STDDEV_POP(d)": "DOUBLE",
    "VAR_POP(d)": "DOUBLE",
    "LISTAGG(s)": "STRING",
    "ARRAY_AGG(v)": "ARRAY<INT NOT NULL>",
    "SUM(DISTINCT v)": "INT",
}
WINDOW = "TABLE(TUMBLE(TABLE n, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    "grouped",
    [
        "FROM n GROUP BY id",
        "FROM n GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)",
        f"FROM {WINDOW} GROUP BY window_start, window_end",
        "FROM n GROUP BY CUBE (id)",
        "FROM n GROUP BY ROLLUP (id)",
        "FROM n GROUP BY GROUPING SETS ((id), ())",
    ],
)
def test_the_result_of_a_group_may_not_be_null_if_no_value_may(grouped, batch):
    tables = numbers(batch)
    assert types(tables.sql_query(f"SELECT {', '.join(CALLS)} {grouped}")) == [f"{t} NOT NULL" for t in CALLS.values()]
    assert types(tables.sql_query(f"SELECT SUM(v + 1) + 1, COALESCE(MAX(v), 0) {grouped}")) == ["INT NOT NULL"] * 2


@pytest.mark.parametrize(
    "query",
    [
        "SELECT SUM(v) FROM n",
        "SELECT SUM(v) FROM n GROUP BY ()",
        "SELECT SUM(v) FROM n HAVING COUNT(*) > 1",
        "SELECT SUM(v) FILTER (WHERE v > 1) FROM n GROUP BY id",
        "SELECT SUM(z) FROM n GROUP BY id",
        "SELECT (SELECT MAX(v) FROM n GROUP BY id LIMIT 1)",
        "SELECT b.m FROM n LEFT JOIN (SELECT id, MAX(v) m FROM n GROUP BY id) b ON n.id = b.id",
    ],
)
def test_a_result_without_values_is_null(query):
    assert types(numbers().sql_query(query)) == ["INT"]


@pytest.mark.parametrize("batch", [False, True])
def test_the_variance_of_one_value_is_null(batch):
    tables = made(batch)
    found = tables.sql_query("SELECT VAR_SAMP(v), STDDEV_SAMP(v) FROM (VALUES (1, 2e0)) AS t(k, v) GROUP BY k")
    assert [tuple(row) for row in found.execute().collect()] == [(None, None)]


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("(20), (21)", (0, 0, 0, 0)),
        ("(1), (1), (3)", (0, 0, 1, 1)),
        ("(1), (2), (4), (9)", (9, 3, 12, 3)),
        ("(-1), (-1), (-3), (7), (8)", (20, 4, 26, 5)),
        ("(CAST(3000000000 AS BIGINT)), (3000000001), (2999999990)", (24, 4, 37, 6)),
    ],
)
def test_the_variance_of_whole_numbers_is_cut_at_the_end_only(batch, values, expected):
    query = f"SELECT VAR_POP(v), STDDEV_POP(v), VAR_SAMP(v), STDDEV_SAMP(v) FROM (VALUES {values}) AS t(v)"
    with made(batch).execute_sql(query).collect() as found:
        assert tuple([*found][-1]) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT k, v > 5, COUNT(*) FROM t GROUP BY CUBE (k, v > 5)", 8),
        ("SELECT COUNT(*) FROM t GROUP BY ROLLUP (v IS NULL OR v > 5)", 3),
        ("SELECT COUNT(*) FROM t GROUP BY GROUPING SETS ((k, v > 5), UPPER(k), ())", 6),
    ],
)
def test_grouping_sets_take_conditions(query, expected):
    tables = made(batch=True)
    tables.execute_sql("CREATE VIEW t AS SELECT * FROM (VALUES ('a', 1), ('a', 9), ('b', 2)) AS t(k, v)")
    with tables.execute_sql(query).collect() as found:
        assert len([*found]) == expected


def test_an_aggregate_takes_its_order_within_parentheses_or_behind():
    tables = made(batch=True)
    tables.execute_sql("CREATE VIEW t AS SELECT * FROM (VALUES ('a', 1), ('b', 2)) AS t(k, v)")
    for call in ("LISTAGG(k, '-' ORDER BY k, v DESC)", "LISTAGG(k, '-') WITHIN GROUP (ORDER BY k, v DESC)"):
        with tables.execute_sql(f"SELECT {call}, {call} FILTER (WHERE v > 1) FROM t").collect() as found:
            assert [tuple(row) for row in found] == [("a-b", "b")]


def test_aggregates_of_the_table_api():
    table = numbers().from_path("n")
    calls = [col("v").sum, col("v").min, col("s").max, col("d").avg, col("v").first_value, col("v").sum + 1]
    plain = ["INT", "INT", "STRING", "DOUBLE", "INT", "INT"]
    assert types(table.group_by(col("id")).select(*calls)) == [f"{type_} NOT NULL" for type_ in plain]
    assert types(table.select(*calls)) == plain
    windowed = table.window(Tumble.over(lit(1).minutes).on(col("ts")).alias("w"))
    assert types(windowed.group_by(col("w")).select(*calls)) == plain
    assert types(windowed.group_by(col("w"), col("id")).select(*calls)) == plain
    over = table.over_window(Over.order_by(col("ts")).alias("o"))
    assert types(over.select(col("v").sum.over(col("o")), col("s").max.over(col("o")))) == ["INT", "STRING"]


def stamped(tables, type_=DataTypes.BIGINT):
    row = DataTypes.ROW([DataTypes.FIELD(*each) for each in (("id", DataTypes.INT()), ("t", type_()))])
    return tables.from_elements([(1, 1), (2, 2), (3, 4), (4, 7), (5, 8)], row)


def instant(millis):
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=millis)  # noqa: DTZ001 - a time without zone


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Tumble.over(lit(4).millis), [(0, 4, 3), (4, 8, 7), (8, 12, 5)]),
        (Slide.over(lit(4).millis).every(lit(2).millis), [(-2, 2, 1), (0, 4, 3), (2, 6, 5), (4, 8, 7), (6, 10, 9), (8, 12, 5)]),
        (Session.with_gap(lit(2).millis), [(1, 6, 6), (7, 10, 9)]),
    ],
)  # fmt: skip
def test_a_batch_has_windows_over_milliseconds(window, expected, zone):
    tables = made(batch=True)
    tables.get_config().set_local_timezone(zone)
    grouped = stamped(tables).window(window.on(col("t")).alias("w")).group_by(col("w"))
    found = grouped.select(col("w").start, col("w").end, col("id").sum).execute().collect()
    assert sorted(tuple(row) for row in found) == [(instant(start), instant(end), n) for start, end, n in expected]


def test_windows_over_numbers_that_are_refused():
    over_rows = Tumble.over(row_interval(2)).on(col("t")).alias("w")
    grouped = stamped(made(batch=True)).window(over_rows).group_by(col("w"))
    counted = grouped.select(col("id").sum)  # Flink refuses it when it runs, too
    with pytest.raises(FunkenError, match="Event-time grouping windows on row intervals are currently not supported"):
        counted.execute()
    refused = "can only be defined over a time attribute column, but"
    for batch, type_ in ((False, DataTypes.BIGINT), (True, DataTypes.INT)):
        window = Tumble.over(lit(4).millis).on(col("t")).alias("w")
        with pytest.raises(FunkenError, match=refused):
            stamped(made(batch), type_).window(window).group_by(col("w")).select(col("id").sum)
    tables = made(batch=True)
    tables.create_temporary_view("b", stamped(tables))
    with pytest.raises(FunkenError, match=refused):
        tables.sql_query("SELECT SUM(id) FROM b GROUP BY TUMBLE(t, INTERVAL '2' SECOND)")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT CURRENT_TIMESTAMP, CURRENT_DATE, LOCALTIME", ["CURRENT_TIMESTAMP", "CURRENT_DATE", "LOCALTIME"]),
        ("SELECT LOCALTIMESTAMP, CURRENT_TIME", ["LOCALTIMESTAMP", "CURRENT_TIME"]),
        ("SELECT current_timestamp, Current_Date", ["current_timestamp", "Current_Date"]),
        ("SELECT CURRENT_TIMESTAMP, CURRENT_TIMESTAMP", ["CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP0"]),
        ("SELECT NOW(), PI()", ["EXPR$0", "EXPR$1"]),
        ("SELECT CURRENT_DATE + INTERVAL '1' DAY, (CURRENT_DATE)", ["EXPR$0", "CURRENT_DATE"]),
        ("SELECT * FROM (SELECT CURRENT_DATE) AS t", ["CURRENT_DATE"]),
        ("SELECT `current_date` FROM (SELECT current_date) AS t", ["current_date"]),
        ("SELECT CURRENT_DATE AS d", ["d"]),
    ],
)
def test_a_column_of_a_clock_has_its_word_as_name(query, names):
    assert made().sql_query(query).get_resolved_schema().get_column_names() == names


def test_the_uid_of_an_aggregate_does_not_depend_on_null():
    for function, same in (("SUM", True), ("MAX", True), ("VAR_SAMP", False), ("COUNT", False)):
        texts = {described(AggregateCall(function, (0,), IntType(is_nullable=nullable))) for nullable in (True, False)}
        assert len(texts) == (1 if same else 2)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ("", "INT NOT NULL"),
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "INT NOT NULL"),
        ("ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", "INT"),
        ("RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND CURRENT ROW", "INT"),
    ],
)
def test_a_frame_that_always_has_a_row_gives_no_null(frame, expected):
    tables = numbers()
    query = f"SELECT SUM(v) OVER (ORDER BY ts {frame}), SUM(z) OVER (ORDER BY ts {frame}) FROM n"
    assert types(tables.sql_query(query)) == [expected, "INT"]
    window = Over.order_by(col("ts")).alias("w")
    assert types(tables.from_path("n").over_window(window).select(col("v").sum.over(col("w")))) == ["INT"]


def test_text_lists_of_the_table_api_are_nullable():
    table = numbers().from_path("n").group_by(col("id"))
    assert types(table.select(col("s").list_agg(), col("s").list_agg("|").distinct, col("s").max)) == [
        "STRING", "STRING", "STRING NOT NULL",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "expected", "value"),
    [
        ("CAST(10000000001 AS BIGINT) % 3", "INT NOT NULL", 2),
        ("7 % CAST(4 AS BIGINT)", "BIGINT NOT NULL", 3),
        ("-7 % CAST(4 AS TINYINT)", "TINYINT NOT NULL", -3),
        ("MOD(CAST(7 AS BIGINT), 4)", "INT NOT NULL", 3),
        ("CAST(-7 AS DECIMAL(10, 0)) % 4", "INT NOT NULL", -3),
        ("MOD(CAST(7 AS DECIMAL(10, 0)), CAST(4 AS DECIMAL(5, 0)))", "DECIMAL(5, 0) NOT NULL", 3),
        ("7 % 0.5", "DECIMAL(2, 1) NOT NULL", 0),
        ("ELEMENT(ARRAY[7])", "INT", 7),
    ],
)
def test_a_remainder_has_the_type_of_the_divisor_and_an_element_may_be_none(expression, expected, value):
    table = made().sql_query(f"SELECT {expression}")
    assert types(table) == [expected]
    assert [row[0] for row in table.execute().collect()] == [value]


@pytest.mark.parametrize("batch", [False, True])
def test_an_object_of_json_has_each_key_once(batch):
    tables = made(batch)
    rows = "(VALUES ('a', 1), ('b', 2), ('a', 3)) AS t(k, v)"
    with pytest.raises(
        FunkenError, match="Key 'a' is already present. Duplicate keys are not allowed in JSON_OBJECTAGG"
    ):
        list(tables.execute_sql(f"SELECT JSON_OBJECTAGG(KEY k VALUE v) FROM {rows}").collect())
    grouped = f"SELECT JSON_OBJECTAGG(KEY k VALUE s) FROM (SELECT k, SUM(v) AS s FROM {rows} GROUP BY k)"
    assert [row[0] for row in tables.execute_sql(grouped).collect()][-1] in ('{"a":4,"b":2}', '{"b":2,"a":4}')
