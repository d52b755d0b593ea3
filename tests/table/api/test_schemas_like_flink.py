"""Schemas and NULLs of results as PyFlink 2.3 has them."""

import pytest

from funken import StreamExecutionEnvironment, Types
from funken.errors import FunkenError
from funken.table import (
    DataTypes,
    EnvironmentSettings,
    Schema,
    StreamTableEnvironment,
    TableDescriptor,
    TableEnvironment,
)
from funken.table.expressions import col, lit
from funken.table.udf import udf, udtf
from funken.table.window import Session, Slide, Tumble


def made(batch=False):
    settings = EnvironmentSettings.in_batch_mode() if batch else EnvironmentSettings.in_streaming_mode()
    tables = TableEnvironment.create(settings)
    tables.get_config().set("execution.target", "local").set("parallelism.default", 1)
    return tables


def with_times(batch=False, time="TIMESTAMP(3)"):
    tables = made(batch)
    tables.execute_sql(
        f"CREATE TABLE l (id INT, k STRING, v INT, ts {time}, pt AS PROCTIME(), WATERMARK FOR ts AS ts) "
        "WITH ('connector' = 'datagen', 'number-of-rows' = '2')"
    )
    return tables


def types(table):
    return [str(column) for column in table.get_resolved_schema().get_columns()]


WINDOWS = {
    "tumble": lambda time: Tumble.over(lit(5).minutes).on(col(time)),
    "slide": lambda time: Slide.over(lit(10).minutes).every(lit(5).minutes).on(col(time)),
    "session": lambda time: Session.with_gap(lit(5).minutes).on(col(time)),
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(("time", "batch"), [("ts", False), ("pt", False), ("ts", True)])
def test_the_bounds_of_a_group_window_are_nullable(window, time, batch):
    tables = with_times(batch)
    grouped = tables.from_path("l").window(WINDOWS[window](time).alias("w")).group_by(col("w"), col("k"))
    found = types(grouped.select(col("w").start.alias("s"), col("w").end.alias("e"), col("v").sum.alias("n")))
    assert found == ["`s` TIMESTAMP(3)", "`e` TIMESTAMP(3)", "`n` INT"]
    name = {"tumble": "TUMBLE", "slide": "HOP", "session": "SESSION"}[window]
    arguments = ", ".join([time, *["INTERVAL '5' MINUTE"] * (2 if name == "HOP" else 1)])
    query = f"SELECT {name}_START({arguments}) AS s FROM l GROUP BY {name}({arguments})"
    assert types(tables.sql_query(query)) == ["`s` TIMESTAMP(3) NOT NULL"]  # of SQL they are not


@pytest.mark.parametrize(
    "type_", ["BIGINT", "STRING", "DECIMAL(5, 2)", "BOOLEAN", "TIMESTAMP(3)", "ARRAY<BIGINT>", "ROW<a INT>"]
)
@pytest.mark.parametrize("batch", [False, True])
def test_a_result_that_may_not_be_null_is_checked_where_it_leaves(type_, batch):
    tables = made(batch)
    tables.create_temporary_function("f", udf(lambda i: None, result_type=f"{type_} NOT NULL"))
    query = tables.sql_query("SELECT f(1) AS x")
    with pytest.raises(FunkenError, match="Column 'x' is NOT NULL, however, a null value is being written"):
        list(query.execute().collect())
    tables.get_config().set("table.exec.sink.not-null-enforcer", "DROP")
    assert list(query.execute().collect()) == []


def test_some_rows_with_null_are_dropped():
    tables = made()
    tables.create_temporary_function("f", udf(lambda i: i if i % 2 else None, result_type="BIGINT NOT NULL"))
    tables.get_config().set("table.exec.sink.not-null-enforcer", "DROP")
    query = tables.sql_query("SELECT f(n) AS x, n FROM (VALUES (1), (2), (3), (4)) AS t(n)")
    assert [tuple(row) for row in query.execute().collect()] == [(1, 1), (3, 3)]


def test_the_columns_of_a_table_function_are_counted():
    row = DataTypes.ROW([DataTypes.FIELD("p", DataTypes.BIGINT()), DataTypes.FIELD("q", DataTypes.STRING())])
    tables = made()
    source = tables.from_elements([(1,)], ["a"])
    function = udtf(lambda i: [(i, "x")], result_types=row)
    assert types(source.join_lateral(function(col("a")))) == ["`a` BIGINT", "`f0` BIGINT", "`f1` STRING"]
    tables.create_temporary_function("f", function)
    named = tables.sql_query("SELECT p, q FROM (SELECT CAST(1 AS BIGINT) AS a), LATERAL TABLE(f(a)) AS t(p, q)")
    assert [tuple(each) for each in named.execute().collect()] == [(1, "x")]
    nested = udtf(lambda i: [(i, (i, "x"))], result_types=DataTypes.ROW([DataTypes.BIGINT(), row]))
    assert types(source.join_lateral(nested(col("a"))).select(col("f1")))[0] == "`f1` ROW<`p` BIGINT, `q` STRING>"


@pytest.mark.parametrize("time", ["TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)"])
def test_a_batch_has_no_event_time(time):
    query = "SELECT ts FROM l"
    shown = time.replace("(0)", "(3)")  # a stream's event time has milliseconds
    assert types(with_times(False, time).sql_query(query)) == [f"`ts` {shown} *ROWTIME*"]
    assert types(with_times(True, time).sql_query(query)) == types(
        with_times(True, time).from_path("l").select(col("ts"))
    )
    assert types(with_times(True, time).sql_query(query)) == [f"`ts` {time}"]
    windows = "SELECT window_time FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
    assert types(with_times(True, time).sql_query(windows)) == [f"`window_time` {time} NOT NULL"]


@pytest.mark.parametrize(
    ("constant", "expected"),
    [
        ("CAST(1.05 AS DECIMAL)", "1.05"),
        ("CAST(1.55 AS DECIMAL(10, 1))", "1.55"),
        ("1.05", "1.05"),
        ("CAST('1.05' AS DECIMAL)", "1"),
        ("CAST(n AS DECIMAL)", "2"),
    ],
)
def test_a_function_gets_the_digits_of_a_decimal_constant(constant, expected):
    tables = made()
    tables.create_temporary_function("f", udf(lambda value: f"{value}", result_type="STRING"))
    [row] = tables.execute_sql(f"SELECT f({constant}), {constant} FROM (VALUES (1.5)) AS t(n)").collect()
    assert row[0] == expected


def test_the_mode_is_one_of_the_options_and_none_of_the_jobs():
    settings = EnvironmentSettings.new_instance().in_batch_mode().build()
    assert settings.get_configuration().get_string("execution.runtime-mode", "") == "BATCH"
    assert not TableEnvironment.create(settings).is_streaming
    assert made(batch=True).get_config().get("execution.runtime-mode", "unset") == "unset"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT COALESCE(d, ts), COALESCE(ts, tm) FROM v", [("2020-01-02", "05:06:07"), ("2021-03-04", "05:06:07")]),
        ("SELECT IF(g = 1, ts, tz) FROM v", [("2021-03-04 05:06:07.123",), ("2021-03-04 05:06:07.123",)]),
        ("SELECT s = d FROM v WHERE g = 1", [(None,)]),
    ],
)
def test_values_of_mixed_times(query, expected):
    tables = made(batch=True)
    tables.get_config().set("table.local-time-zone", "UTC")
    tables.execute_sql(
        "CREATE TEMPORARY VIEW v AS SELECT *, CAST(at AS TIMESTAMP(3)) AS ts, CAST(at AS TIMESTAMP_LTZ(3)) AS tz FROM (VALUES "
        "(1, DATE '2020-01-02', TIMESTAMP '2021-03-04 05:06:07.123', TIME '10:11:12', 'x'), "
        "(2, CAST(NULL AS DATE), TIMESTAMP '2021-03-04 05:06:07.123', CAST(NULL AS TIME), 'y')) AS t(g, d, at, tm, s)"
    )
    wanted = sorted(expected, key=str)
    found = [tuple(None if each is None else str(each) for each in row) for row in tables.execute_sql(query).collect()]
    assert sorted([tuple(each and each[:23] for each in row) for row in found], key=str) == wanted


def test_a_text_that_is_no_date_has_no_place_before_or_behind_one():
    tables = made()
    with pytest.raises(FunkenError, match="For input string: 'x'"):
        list(tables.execute_sql("SELECT s < d FROM (VALUES ('x', DATE '2020-01-02')) AS t(s, d)").collect())


KEPT = {
    "where": lambda table: table.where(col("v") > 1),
    "filters": lambda table: table.filter(col("v") > 1).filter(col("v") > 2),
    "limit": lambda table: table.limit(5, 1),
    "fetch": lambda table: table.fetch(5),
    "offset": lambda table: table.offset(1),
    "order_by": lambda table: table.order_by(col("ts")).fetch(2),
    "distinct": lambda table: table.distinct(),
    "view": lambda table: _as_view(table).where(col("v") > 1),
}
LOST = {
    "select": lambda table: table.select(col("*")),
    "union_all": lambda table: table.union_all(table),
    "alias": lambda table: table.alias("id", "v", "ts", "n"),
    "add_columns": lambda table: table.add_columns(lit(1).alias("q")).drop_columns(col("q")),
}


def _as_view(table):
    table._environment.create_temporary_view("view_of_it", table)
    return table._environment.from_path("view_of_it")


@pytest.mark.parametrize("call", [*KEPT, *LOST])
def test_some_rows_of_a_table_have_its_schema(call):
    tables = made()
    tables.execute_sql(
        "CREATE TABLE t (id INT NOT NULL, v BIGINT, ts TIMESTAMP(3), n AS v * 2, PRIMARY KEY (id) NOT ENFORCED, "
        "WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector' = 'datagen')"
    )
    table = tables.from_path("t")
    found = (KEPT | LOST)[call](table).get_resolved_schema()
    lost = ["`id` INT NOT NULL", "`v` BIGINT", "`ts` TIMESTAMP(3) *ROWTIME*", "`n` BIGINT"]
    assert [str(column) for column in found.get_columns()] == (types(table) if call in KEPT else lost)
    assert str(found) == str(table.get_resolved_schema()) or call in LOST


@pytest.mark.parametrize("digits", [0, 1, 2, 3])
@pytest.mark.parametrize("batch", [False, True])
def test_the_event_time_of_a_stream_has_milliseconds(digits, batch, tmp_path):
    (tmp_path / "rows.csv").write_text("1,2020-01-01 00:00:01\n")
    tables = made(batch)
    tables.execute_sql(
        f"CREATE TABLE e (id INT, ts TIMESTAMP({digits}), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    shown = digits if batch else 3
    text = "2020-01-01 00:00:01" + (f".{'0' * shown}" if shown else "")
    query = "SELECT CAST(ts AS STRING), CAST(m AS STRING) FROM (SELECT ts, MAX(ts) AS m FROM e GROUP BY ts)"
    assert [tuple(row) for row in tables.sql_query(query).execute().collect()] == [(text, text)]
    assert types(tables.from_path("e"))[1].startswith(f"`ts` TIMESTAMP({digits})")  # as declared
    tables.execute_sql(f"CREATE TABLE s (ts TIMESTAMP({digits})) WITH ('connector' = 'blackhole')")
    tables.execute_sql("INSERT INTO s SELECT ts FROM e").wait()


NUMBERS = {
    "BOOLEAN": Types.BOOLEAN(), "TINYINT": Types.BYTE(), "SMALLINT": Types.SHORT(), "INT": Types.INT(), "BIGINT": Types.LONG(),
    "FLOAT": Types.FLOAT(), "DOUBLE": Types.DOUBLE(),
}  # fmt: skip
OTHERS = {"STRING": Types.STRING(), "DATE": Types.SQL_DATE(), "DECIMAL(38, 18)": Types.BIG_DEC(), "BYTES": None}
OTHERS["BYTES"] = Types.PRIMITIVE_ARRAY(Types.BYTE())


def of_stream(info, *more):
    env = StreamExecutionEnvironment.create_local_environment(1)
    stream = env.from_collection([1]).map(lambda one: one, output_type=info)
    return types(StreamTableEnvironment.create(env).from_data_stream(stream, *more))


@pytest.mark.parametrize("sql", [*NUMBERS, *OTHERS])
def test_a_number_of_a_stream_is_not_null_unless_it_is_in_a_row(sql):
    info = (NUMBERS | OTHERS)[sql]
    never = " NOT NULL" if sql in NUMBERS else ""
    assert of_stream(info) == [f"`f0` {sql}{never}"]
    assert of_stream(Types.TUPLE([info, Types.STRING()])) == [f"`f0` {sql}{never}", "`f1` STRING"]
    assert of_stream(Types.ROW([info])) == [f"`f0` {sql}"]
    assert of_stream(Types.ROW([Types.TUPLE([info])])) == [f"`f0` ROW<`f0` {sql}{never}>"]


def test_fields_that_a_call_names_are_nullable():
    info = Types.TUPLE([Types.INT(), Types.STRING()])
    assert of_stream(info, col("x"), col("y")) == ["`x` INT", "`y` STRING"]
    assert of_stream(info, col("x"), col("y"), col("p").proctime)[0] == "`x` INT"
    assert of_stream(info, Schema.new_builder().column("f0", "INT").column("f1", "STRING").build())[0] == "`f0` INT"
    computed = Schema.new_builder().column_by_expression("z", "f0 + 1").column_by_expression("p", col("f0") + 1).build()
    assert of_stream(info, computed)[2:] == ["`z` INT NOT NULL AS f0 + 1", "`p` INT NOT NULL AS plus(f0, 1)"]


def test_expressions_of_a_schema_are_shown_as_written():
    schema = (
        Schema.new_builder()
        .column("a", "INT")
        .column("ts", "TIMESTAMP(3)")
        .column_by_expression("b", "a  +  1")
        .column_by_expression("c", col("a") + 1)
        .watermark("ts", "ts - INTERVAL '1' SECOND")
        .build()
    )
    descriptor = TableDescriptor.for_connector("datagen").schema(schema).build()
    tables = made()
    tables.create_temporary_table("t", descriptor)
    shown = ["`b` INT AS a  +  1", "`c` INT AS plus(a, 1)"]
    mark = "WATERMARK FOR `ts`: TIMESTAMP(3) AS ts - INTERVAL '1' SECOND"
    for table in (tables.from_path("t"), tables.from_descriptor(descriptor)):
        assert types(table)[2:] == shown
        assert mark in str(table.get_resolved_schema())
    again = Schema.new_builder().from_resolved_schema(tables.from_path("t").get_resolved_schema()).build()
    tables.create_temporary_table("u", TableDescriptor.for_connector("datagen").schema(again).build())
    assert types(tables.from_path("u"))[2:] == ["`b` INT AS `a` + 1", "`c` INT AS `$PLUS`(`a`, 1)"]
    described = {row[0]: row for row in tables.execute_sql("DESCRIBE t").collect()}
    assert (described["b"][4], described["c"][4]) == ("AS a  +  1", "AS plus(a, 1)")
    assert described["ts"][5] == "ts - INTERVAL '1' SECOND"
    ((created,),) = tables.execute_sql("SHOW CREATE TABLE t").collect()
    assert "`b` AS a  +  1,\n" in created
    assert "WATERMARK FOR `ts` AS `ts` - INTERVAL '1' SECOND" in created
    tables.execute_sql(
        "CREATE TABLE d (a INT, ts TIMESTAMP(3), b AS a  + 1, WATERMARK FOR ts AS ts - interval '1' second) "
        "WITH ('connector' = 'datagen')"
    )
    assert types(tables.from_path("d"))[2:] == ["`b` INT AS `a` + 1"]
    assert "AS `ts` - INTERVAL '1' SECOND" in str(tables.from_path("d").get_resolved_schema())


@pytest.mark.parametrize("digits", [0, 2, 3])
def test_event_time_keeps_its_digits_in_the_table_api_and_has_three_in_sql(digits):
    tables = with_times(time=f"TIMESTAMP({digits})")
    table = tables.from_path("l")
    windows = table.window(Tumble.over(lit(5).minutes).on(col("ts")).alias("w")).group_by(col("w"))
    declared, of_sql = f"`ts` TIMESTAMP({digits}) *ROWTIME*", "`ts` TIMESTAMP(3) *ROWTIME*"

    assert types(table)[3] == declared
    assert types(table.select(col("ts"), col("v"))) == [declared, "`v` INT"]
    assert types(table.filter(col("v") > 1).add_columns(lit(1).alias("one")).select(col("ts"))) == [declared]
    assert types(windows.select(col("w").start.alias("s"), col("w").rowtime.alias("ts"))) == [
        "`s` TIMESTAMP(3)",
        declared,
    ]
    assert types(tables.sql_query("SELECT ts FROM l")) == [of_sql]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["a", "b"], ["`a` INT", "`b` STRING", "`at` TIMESTAMP_LTZ(3) METADATA FROM 'rowtime'"]),
        (["a"], ["`a` INT", "`at` TIMESTAMP_LTZ(3)"]),
        (["b", "a"], ["`b` STRING", "`a` INT", "`at` TIMESTAMP_LTZ(3)"]),
    ],
)
def test_columns_picked_from_records_have_no_definitions(columns, expected):
    env = StreamExecutionEnvironment.create_local_environment()
    stream = env.from_collection([(1, "x")], Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]))
    schema = Schema.new_builder()
    for name in columns:
        schema.column(name, "INT" if name == "a" else "STRING")
    schema.column_by_metadata("at", "TIMESTAMP_LTZ(3)", "rowtime")

    assert types(StreamTableEnvironment.create(env).from_data_stream(stream, schema.build())) == expected
