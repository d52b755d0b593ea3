"""What a program prints: names, types and texts as Flink 2.3 shows them."""

import datetime

import pytest

from funken.table import DataTypes, EnvironmentSettings, Schema, TableDescriptor, TableEnvironment
from funken.table.catalog import InvalidTable
from funken.table.expressions import col, lit
from funken.table.udf import udaf, udf

KINDS = pytest.mark.parametrize("settings", [EnvironmentSettings.in_batch_mode, EnvironmentSettings.in_streaming_mode])


def lines(capsys):
    return capsys.readouterr().out.splitlines()


@KINDS
def test_instants_and_constants_are_in_the_zone_of_the_session(settings):
    tables = TableEnvironment.create(settings())
    tables.get_config().set_local_timezone("Asia/Shanghai")
    texts = "CAST(TO_TIMESTAMP_LTZ({0}, 3) AS STRING), FROM_UNIXTIME({0}), DATE_FORMAT(TO_TIMESTAMP_LTZ({0}, 3), 'HH')"
    query = f"SELECT {texts}, TO_TIMESTAMP_LTZ({{0}}, 3) = TIMESTAMP '1970-01-01 08:00:00' FROM {{1}}"

    for number, rows in (("0", "(VALUES (1)) AS T(b)"), ("a", "(VALUES (CAST(0 AS BIGINT))) AS T(a)")):
        [row] = tables.execute_sql(query.format(number, rows)).collect()
        assert tuple(row) == ("1970-01-01 08:00:00.000", "1970-01-01 08:00:00", "08", True)


def test_an_instant_is_printed_in_the_zone_of_the_session(capsys):
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.get_config().set_local_timezone("GMT+08:00")
    tables.execute_sql("SELECT TO_TIMESTAMP_LTZ(0, 3) AS at, ARRAY[TO_TIMESTAMP_LTZ(0, 3)] AS all_of_them").print()

    assert lines(capsys)[3] == "| 1970-01-01 08:00:00.000 |      [1970-01-01 08:00:00.000] |"


def test_columns_have_room_for_null(capsys):
    TableEnvironment.create(EnvironmentSettings.in_batch_mode()).execute_sql(
        "SELECT TRUE AS b, CAST(1.5 AS DECIMAL(2, 1)) AS d, CAST(NULL AS DECIMAL(12, 1)) AS e, 'x' AS s"
    ).print()

    assert lines(capsys)[1:4] == [
        "|      b |      d |              e |                              s |",
        "+--------+--------+----------------+--------------------------------+",
        "|   TRUE |    1.5 |         <NULL> |                              x |",
    ]


def test_names_of_aggregates_casts_and_others():
    table = TableEnvironment.create().from_elements([(1, "a", 10.0)], ["id", "k", "v"])
    groups = table.group_by(col("k"))

    def names(of):
        return of.get_resolved_schema().get_column_names()

    assert names(groups.select(col("k"), col("v").sum + 1, col("v").min, col("id").max)) == [
        "k",
        "_c1",
        "EXPR$1",
        "EXPR$2",
    ]
    assert names(groups.select(col("v").sum.alias("s"), col("v").sum)) == ["s", "EXPR$0"]
    assert names(groups.select(col("v").sum.cast(DataTypes.INT()), col("v").avg)) == ["EXPR$0-INT", "EXPR$1"]
    assert names(table.select(col("id").count.distinct)) == ["EXPR$0"]
    assert names(table.select(col("v") + 1, col("id"), lit(3), col("id").cast(DataTypes.STRING()))) == [
        "_c0", "id", "_c2", "id-STRING",
    ]  # fmt: skip


def test_tables_of_a_catalog(capsys):
    tables = TableEnvironment.create()
    tables.execute_sql(
        "CREATE TABLE o (id INT NOT NULL, k STRING COMMENT 'the key', twice AS id * 2, at TIMESTAMP_LTZ(3) METADATA FROM "
        "'timestamp' VIRTUAL, p AS PROCTIME(), WATERMARK FOR at AS at - INTERVAL '5' SECOND, PRIMARY KEY (id) NOT ENFORCED) "
        "COMMENT 'cm' WITH ('connector' = 'kafka', 'topic' = 'x', 'format' = 'json')"
    )
    tables.execute_sql("ALTER TABLE o MODIFY k VARCHAR(3)")
    tables.execute_sql("DESCRIBE o").print()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines(capsys)[3:8]]
    assert rows == [
        ["id", "INT", "FALSE", "PRI(id)", "", "", ""],
        ["k", "VARCHAR(3)", "TRUE", "", "", "", "the key"],
        ["twice", "INT", "FALSE", "", "AS `id` * 2", "", ""],
        [
            "at",
            "TIMESTAMP_LTZ(3) *ROWTIME*",
            "TRUE",
            "",
            "METADATA FROM 'timestamp' VIRTUAL",
            "`at` - INTERVAL '5' SECOND",
            "",
        ],
        ["p", "TIMESTAMP_LTZ(3) *PROCTIME*", "FALSE", "", "AS PROCTIME()", "", ""],
    ]
    tables.execute_sql("SHOW CREATE TABLE o").print()
    text = "\n".join(lines(capsys)[3:-2])
    assert text == (
        "| CREATE TABLE `default_catalog`.`default_database`.`o` (\n  `id` INT NOT NULL,\n  `k` VARCHAR(3) COMMENT 'the key',\n"
        "  `twice` AS `id` * 2,\n  `at` TIMESTAMP(3) WITH LOCAL TIME ZONE METADATA FROM 'timestamp' VIRTUAL,\n"
        "  `p` AS PROCTIME(),\n  WATERMARK FOR `at` AS `at` - INTERVAL '5' SECOND,\n"
        "  CONSTRAINT `PK_id` PRIMARY KEY (`id`) NOT ENFORCED\n)\nCOMMENT 'cm'\n"
        "WITH (\n  'connector' = 'kafka',\n  'format' = 'json',\n  'topic' = 'x'\n)\n |"
    )
    tables.from_path("o").print_schema()
    assert lines(capsys) == [
        "(",
        "  `id` INT NOT NULL,",
        "  `k` VARCHAR(3) COMMENT 'the key',",
        "  `twice` INT NOT NULL AS `id` * 2,",
        "  `at` TIMESTAMP_LTZ(3) *ROWTIME* METADATA FROM 'timestamp' VIRTUAL,",
        "  `p` TIMESTAMP_LTZ(3) NOT NULL *PROCTIME* AS PROCTIME(),",
        "  WATERMARK FOR `at`: TIMESTAMP_LTZ(3) AS `at` - INTERVAL '5' SECOND,",
        "  CONSTRAINT `PK_id` PRIMARY KEY (`id`) NOT ENFORCED",
        ")",
    ]


def test_an_insert_prints_its_count_only(capsys):
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.execute_sql("CREATE TABLE nothing (a INT) WITH ('connector' = 'blackhole')")
    result = tables.execute_sql("INSERT INTO nothing VALUES (1)")
    result.wait()
    result.print()
    print(result.get_result_kind())  # noqa: T201 - as a program does

    assert lines(capsys) == ["-1", "1"]


def test_times_of_pandas_are_in_their_unit():
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    frame = tables.sql_query(
        "SELECT TIMESTAMP '2024-01-01 00:00:00.123' AS a, CAST(NULL AS TIMESTAMP(6)) AS b"
    ).to_pandas()

    assert [str(kind) for kind in frame.dtypes] == ["datetime64[ms]", "datetime64[us]"]
    assert frame.a[0] == datetime.datetime(2024, 1, 1, 0, 0, 0, 123000)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("CAST(a AS FLOAT)", [123456792.0, -1.0]),
        ("CAST(b AS DOUBLE)", [9007199254740992.0, -9.223372036854775807e18]),
        ("b * 1.5e0", [1.3510798882111488e16, -1.3835058055282164e19]),
        ("a + CAST(1 AS FLOAT)", [123456792.0, 0.0]),
        ("b > c", [False, False]),
        ("GREATEST(b, c)", [1e300, -1.9]),
        ("CASE WHEN a > 0 THEN b ELSE c END", [9007199254740992.0, -1.9]),
        ("b BETWEEN 0 AND 1e300", [True, False]),
    ],
)
def test_large_integers_beside_floating_point_numbers_are_rounded(expression, expected):
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    rows = "(VALUES (123456789, 9007199254740993, 1e300), (-1, -9223372036854775807, -1.9e0)) AS T(a, b, c)"

    assert [row[0] for row in tables.execute_sql(f"SELECT {expression} FROM {rows}").collect()] == expected


def test_plus_also_joins_texts():
    table = TableEnvironment.create(EnvironmentSettings.in_batch_mode()).from_elements([(1, "a")], ["id", "k"])
    found = table.select(col("k") + "!", col("id") + col("k"), 1 + col("id"), lit("2024-01-01").to_date + lit(1).days)

    assert [tuple(row) for row in found.execute().collect()] == [("a!", "1a", 2, datetime.date(2024, 1, 2))]


def test_a_view_shows_its_times_and_explain_is_no_box(capsys):
    tables = TableEnvironment.create()
    tables.execute_sql(
        "CREATE TABLE s (id INT, r ROW<x INT>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen')"
    )
    tables.execute_sql("CREATE VIEW v AS SELECT ts, r.x, CAST(r AS ROW<y INT>).y FROM s")
    tables.execute_sql("DESCRIBE v").print()
    assert [line.split("|")[1:3] for line in lines(capsys)[3:6]] == [
        ["     ts ", " TIMESTAMP(3) *ROWTIME* "],
        ["      x ", "                    INT "],
        [" EXPR$2 ", "                    INT "],
    ]
    tables.execute_sql("EXPLAIN SELECT id FROM s").print()
    assert lines(capsys)[0] == "== Abstract Syntax Tree =="


@pytest.mark.parametrize(("scientific", "expected"), [("true", "1E+2,1.5,0"), ("false", "100.00,1.50,0.00")])
def test_decimals_in_files_of_csv(tmp_path, scientific, expected):
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    option = f"'csv.write-bigdecimal-in-scientific-notation' = '{scientific}'"
    tables.execute_sql(
        "CREATE TABLE o (a DECIMAL(10, 2), b DECIMAL(10, 2), c DECIMAL(10, 2)) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv', {option})"
    )
    tables.execute_sql("INSERT INTO o VALUES (100, 1.50, 0)").wait()

    [file] = [each for each in tmp_path.rglob("*.csv") if not each.name.startswith(".")]
    assert file.read_text() == expected + "\n"


def test_a_schema_and_a_descriptor_show_what_was_declared():
    schema = (
        Schema.new_builder()
        .column("payload", "ROW<name STRING>")
        .column("n", DataTypes.INT())
        .column_by_expression("m", "n + 1")
        .column_by_expression("o", col("n") + 1)
        .column_by_metadata("at", "TIMESTAMP(3)", "timestamp", True)
        .watermark("at", "at - INTERVAL '5' SECOND")
        .build()
    )
    assert str(schema).splitlines()[1:-1] == [
        "  `payload` [ROW<name STRING>],",
        "  `n` INT,",
        "  `m` AS [n + 1],",
        "  `o` AS plus(n, 1),",
        "  `at` [TIMESTAMP(3)] METADATA FROM 'timestamp' VIRTUAL,",
        "  WATERMARK FOR `at` AS [at - INTERVAL '5' SECOND]",
    ]
    column = Schema.new_builder().column("a", DataTypes.INT()).build()
    descriptor = TableDescriptor.for_connector("print").schema(column).comment("it's").partitioned_by("a").build()
    assert str(descriptor).splitlines() == [
        "(", "  `a` INT", ")", "COMMENT 'it''s'", "PARTITIONED BY (`a`)", "WITH (", "  'connector' = 'print'", ")",
    ]  # fmt: skip


def test_operators_with_functions_of_the_program_have_names_of_their_own():
    tables = TableEnvironment.create()
    plus_one = udf(lambda n: n + 1, result_type="BIGINT", name="plus_one")
    total = udaf(lambda n: n.sum(), result_type="BIGINT", func_type="pandas", name="total")
    numbers = tables.from_elements([(1, "a")], ["n", "k"])

    assert "\nPythonCalc(select=[" in numbers.select(plus_one(col("n"))).explain()
    assert "\nCalc(select=[" in numbers.select(col("n") + 1).explain()
    grouped = numbers.group_by(col("k")).select(col("k"), total(col("n")))
    assert "PythonGroupAggregate(groupBy=[k], " in grouped.explain()


def test_a_table_that_exists_and_modules_are_refused_in_the_words_of_flink():
    tables = TableEnvironment.create()
    ddl = "CREATE TABLE t (a INT) WITH ('connector' = 'print')"
    tables.execute_sql(ddl)
    with pytest.raises(
        InvalidTable, match="Could not execute CreateTable in path `default_catalog`.`default_database`.`t`"
    ):
        tables.execute_sql(ddl)
    for statement, message in (
        ("USE MODULES core, core", "Module 'core' appears more than once"),
        ("USE MODULES core, dummy", "No module with name 'dummy' exists"),
        ("LOAD MODULE core", "A module with name 'core' already exists"),
        ("LOAD MODULE hive", "Module 'hive' is unknown"),
        ("UNLOAD MODULE dummy", "No module with name 'dummy' exists"),
    ):
        with pytest.raises(InvalidTable, match=message):
            tables.execute_sql(statement)
    tables.unload_module("core")
    assert (tables.list_modules(), tables.list_full_modules()) == ([], [])
    with pytest.raises(InvalidTable, match="No module with name 'core' exists"):
        tables.unload_module("core")
    tables.execute_sql("LOAD MODULE core")
    assert tables.list_full_modules() == [("core", True)]
