"""Between streams and tables."""

import datetime
from decimal import Decimal

import pytest

from funken import Row, RowKind, StreamExecutionEnvironment, Types, WatermarkStrategy
from funken.errors import InvalidProgram, JobExecutionError
from funken.table.catalog import InvalidTable
from funken.table.changelog import ChangelogMode
from funken.table.environment import StreamTableEnvironment, TableEnvironment
from funken.table.expressions import col, lit
from funken.table.schema import Schema
from funken.table.types import RowField, RowType, parse_type
from funken.table.window import Tumble


@pytest.fixture
def env():
    return StreamExecutionEnvironment.create_local_environment(1)


@pytest.fixture
def tables(env):
    made = StreamTableEnvironment.create(env)
    made.get_config().set("table.local-time-zone", "UTC")
    return made


PEOPLE = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


def collected(stream):
    with stream.execute_and_collect() as records:
        return list(records)


def test_the_declared_type_of_a_stream_is_its_columns(env, tables):
    people = tables.from_data_stream(env.from_collection([("ann", 3), ("bob", 5)], PEOPLE))
    numbers = tables.from_data_stream(env.from_collection([1, 2], Types.LONG()))
    untyped = tables.from_data_stream(env.from_collection([1, 2]))

    assert str(people.plan.row_type) == "(name STRING, age INT)"
    assert str(numbers.plan.row_type) == "(f0 BIGINT NOT NULL)"
    assert untyped.names == ["f0"]
    assert tables.from_data_stream(env.from_collection([("ann", 3)], PEOPLE), col("who"), col("years")).names == [
        "who",
        "years",
    ]


def test_a_schema_adds_columns_and_time(env, tables):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda person, _: person[1] * 1000)
    stream = env.from_collection([("ann", 3), ("bob", 5)], PEOPLE).assign_timestamps_and_watermarks(strategy)
    schema = (
        Schema.new_builder()
        .column("name", "STRING")
        .column("age", "INT")
        .column_by_expression("double", "age * 2")
        .column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)")
        .watermark("rowtime", "SOURCE_WATERMARK()")
        .build()
    )
    table = tables.from_data_stream(stream, schema)

    assert str(table.plan.row_type) == "(name STRING, age INT, double INT, rowtime TIMESTAMP_LTZ(3) *ROWTIME*)"
    first = collected(tables.to_data_stream(table))[0]
    assert tuple(first) == ("ann", 3, 6, datetime.datetime(1970, 1, 1, 0, 0, 3, tzinfo=datetime.UTC))


def test_a_table_that_grows_is_a_stream(env, tables):
    tables.create_temporary_view("people", env.from_collection([("ann", 3), ("bob", 5)], PEOPLE))
    stream = tables.to_data_stream(tables.sql_query("SELECT UPPER(name) AS n FROM people WHERE age > 3"))

    assert [row.n for row in collected(stream)] == ["BOB"]


def test_a_table_that_changes_is_a_stream_of_changes(env, tables):
    people = tables.from_data_stream(env.from_collection([("ann", 3), ("ann", 5)], PEOPLE))
    ages = people.group_by(col("name")).select(col("name"), col("age").max.alias("age"))

    with pytest.raises(InvalidProgram, match="doesn't support consuming update changes .* Use to_changelog_stream"):
        tables.to_data_stream(ages)
    changes = collected(tables.to_changelog_stream(ages))
    assert [(str(row.get_row_kind()), row.age) for row in changes] == [("+I", 3), ("-U", 3), ("+U", 5)]
    upserts = collected(tables.to_changelog_stream(ages, None, ChangelogMode.upsert()))
    assert [str(row.get_row_kind()) for row in upserts] == ["+I", "+U"]
    pairs = collected(tables.to_retract_stream(ages))
    assert [(added, row[1]) for added, row in pairs] == [(True, 3), (False, 3), (True, 5)]


@pytest.mark.parametrize(
    ("condition", "key", "expected"),
    [
        ("TRUE", "name", ["+I 3", "+U 5"]),
        ("age < 5", "name", ["+I 3", "-D 3"]),  # nothing takes the place of the row that was there
        ("TRUE", "age", ["+I 3", "-D 3", "+U 5"]),
        ("TRUE", "", ["+I 3", "+U 5"]),
    ],
)
def test_a_stream_of_upserts_leaves_the_rows_of_its_table(env, tables, condition, key, expected):
    tables.create_temporary_view("people", env.from_collection([("ann", 3), ("ann", 5)], PEOPLE))
    oldest = tables.sql_query(
        f"SELECT * FROM (SELECT name, MAX(age) AS age FROM people GROUP BY name) AS p WHERE {condition}"
    )
    schema = Schema.new_builder().primary_key(key).build() if key else None
    rows = collected(tables.to_changelog_stream(oldest, schema, ChangelogMode.upsert()))
    assert [f"{row.get_row_kind()} {row.age}" for row in rows] == expected


@pytest.mark.parametrize("name", ["to_retract_stream", "to_changelog_stream"])
def test_changes_of_one_task_stay_in_their_order_in_a_stream(name):
    env = StreamExecutionEnvironment.create_local_environment(3)
    tables = StreamTableEnvironment.create(env)
    tables.create_temporary_view("people", env.from_collection([("ann", age) for age in range(100)], PEOPLE))
    oldest = tables.sql_query("SELECT * FROM (SELECT MAX(age) AS age FROM people) AS p WHERE age < 200")
    more = () if name == "to_retract_stream" else (None, ChangelogMode.upsert())
    changes = collected(getattr(tables, name)(oldest, *more).map(lambda change: change).set_parallelism(1))
    ages = [change[1][0] if name == "to_retract_stream" else change[0] for change in changes]
    assert ages == sorted(ages)
    assert ages[-1] == 99


def test_the_key_of_a_stream_of_upserts_is_of_columns_that_there_are(env, tables):
    people = tables.from_data_stream(env.from_collection([("ann", 3)], PEOPLE))
    schema = Schema.new_builder().primary_key("title").build()
    with pytest.raises(InvalidProgram, match="the primary key of the schema has 'title', but the table has name, age"):
        tables.to_changelog_stream(people, schema, ChangelogMode.upsert())


def test_a_stream_of_changes_is_a_table(env, tables):
    changes = [
        Row.of_kind(RowKind.INSERT, "ann", 3),
        Row.of_kind(RowKind.UPDATE_AFTER, "ann", 5),
        Row.of_kind(RowKind.INSERT, "bob", 1),
        Row.of_kind(RowKind.DELETE, "bob", 1),
    ]
    schema = Schema.new_builder().column("name", "STRING").column("age", "INT").primary_key("name").build()
    table = tables.from_changelog_stream(env.from_collection(changes, PEOPLE), schema, ChangelogMode.upsert())

    assert table.select(col("age").sum.alias("s")).to_pandas()["s"].tolist() == [5]
    with pytest.raises(InvalidProgram, match="needs a key"):
        tables.from_changelog_stream(env.from_collection(changes, PEOPLE), None, ChangelogMode.upsert())


def test_a_statement_set_may_run_with_the_program(env, tables, capsys):
    tables.execute_sql("CREATE TABLE out (name STRING) WITH ('connector' = 'print')")
    people = env.from_collection([("ann", 3)], PEOPLE)
    statements = tables.create_statement_set()
    statements.add_insert("out", tables.from_data_stream(people).select(col("name")))
    statements.attach_as_datastream()
    people.map(lambda person: person[1]).print()
    env.execute()

    assert sorted(capsys.readouterr().out.split("\n")) == ["", "+I[ann]", "3"]


def test_columns_and_times_named_by_expressions():
    """``from_data_stream`` with expressions: fields by name, and times that are none of the record's fields."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    tables = StreamTableEnvironment.create(env)
    records = [("a", 1, 1000), ("b", 2, 2000), ("a", 3, 12000)]
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[2])
    kind = Types.ROW_NAMED(["k", "v", "t"], [Types.STRING(), Types.INT(), Types.LONG()])
    stream = env.from_collection(records, kind).assign_timestamps_and_watermarks(times)
    table = tables.from_data_stream(stream, col("k"), col("v"), col("rt").rowtime, col("pt").proctime)
    windows = table.window(Tumble.over(lit(10).seconds).on(col("rt")).alias("w")).group_by(col("w"), col("k"))

    assert str(table.get_resolved_schema()).splitlines()[3:5] == [
        "  `rt` TIMESTAMP(3) *ROWTIME*,", "  `pt` TIMESTAMP_LTZ(3) *PROCTIME*",
    ]  # fmt: skip
    found = [
        (row[0], row[1].second, row[2])
        for row in windows.select(col("k"), col("w").start, col("v").sum).execute().collect()
    ]
    assert sorted(found) == [("a", 0, 1), ("a", 10, 3), ("b", 0, 2)]
    by_place = tables.from_data_stream(stream, col("x"), col("y"), col("z"), col("rt").rowtime)
    assert [tuple(row)[:3] for row in by_place.execute().collect()] == records
    with pytest.raises(InvalidProgram, match="4 names of fields are given, but the stream declares 3"):
        tables.from_data_stream(stream, col("x"), col("y"), col("z"), col("q"), col("rt").rowtime)


@pytest.mark.parametrize(("kind", "value"), [("INT", "1"), ("STRING", 1), ("DOUBLE", "x"), ("BIGINT", 1.5)])
def test_a_value_of_another_type_is_named(kind, value):
    schema = RowType((RowField("x", parse_type(kind)),))

    with pytest.raises(InvalidProgram, match=f"column 'x' is {kind}, but a row has {value!r} there"):
        TableEnvironment.create().from_elements([(value,)], schema)


def test_the_first_fields_of_a_stream_may_be_named(env, tables):
    three = Types.ROW([Types.STRING(), Types.INT(), Types.DOUBLE()])
    table = tables.from_data_stream(env.from_collection([("a", 1, 1.5)], three), col("x"), col("y"))
    assert table.names == ["x", "y"]
    assert [tuple(row) for row in table.execute().collect()] == [("a", 1)]
    with pytest.raises(InvalidProgram, match="4 names are given, but the stream has 3 fields"):
        tables.from_data_stream(env.from_collection([("a", 1, 1.5)], three), *map(col, "abcd"))


def test_a_stream_that_only_grows_has_insertions_only(env, tables):
    changes = [Row.of_kind(RowKind.INSERT, "ann", 3), Row.of_kind(RowKind.DELETE, "ann", 3)]
    for table in (
        tables.from_data_stream(env.from_collection(changes, PEOPLE)),
        tables.from_changelog_stream(env.from_collection(changes, PEOPLE), None, ChangelogMode.insert_only()),
    ):
        with pytest.raises(JobExecutionError, match="is no insertion, but DELETE: .* Read its changes"):
            list(table.execute().collect())
    assert len(list(tables.from_changelog_stream(env.from_collection(changes, PEOPLE)).execute().collect())) == 2


def test_a_stream_with_a_schema_shows_what_it_declares(env, tables):
    schema = (
        Schema.new_builder()
        .column("name", "STRING")
        .column("age", "INT")
        .column_by_expression("double", "age * 2")
        .column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)")
        .column_by_metadata("at", "TIMESTAMP_LTZ(3)", "rowtime", True)
        .watermark("rowtime", "SOURCE_WATERMARK()")
        .primary_key("name")
        .build()
    )
    table = tables.from_data_stream(env.from_collection([("ann", 3)], PEOPLE), schema)
    assert str(table.get_resolved_schema()).splitlines()[1:-1] == [
        "  `name` STRING NOT NULL,",
        "  `age` INT,",
        "  `double` INT AS age * 2,",
        "  `rowtime` TIMESTAMP_LTZ(3) *ROWTIME* METADATA,",
        "  `at` TIMESTAMP_LTZ(3) METADATA FROM 'rowtime' VIRTUAL,",
        "  WATERMARK FOR `rowtime`: TIMESTAMP_LTZ(3) AS SOURCE_WATERMARK(),",
        "  CONSTRAINT `PK_name` PRIMARY KEY (`name`) NOT ENFORCED",
    ]


def test_columns_of_a_schema_are_fields_of_the_stream(env, tables):
    schema = Schema.new_builder().column("name", "STRING").column("years", "INT").build()
    with pytest.raises(InvalidProgram, match="the schema has a column 'years', but .* the fields name, age"):
        tables.from_data_stream(env.from_collection([("ann", 3)], PEOPLE), schema)
    for schema, what in (
        (Schema.new_builder().column("name", "STRING").primary_key("id"), "primary key"),
        (Schema.new_builder().watermark("id", "SOURCE_WATERMARK()"), "watermark"),
    ):
        with pytest.raises(
            InvalidProgram, match=f"the {what} of the schema has the column 'id', but there are: name, age"
        ):
            tables.from_data_stream(env.from_collection([("ann", 3)], PEOPLE), schema.build())


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"who": "STRING", "old": "BIGINT"}, Row(who="ann", old=3)),
        ({"who": "STRING", "old": "DECIMAL(5, 1)"}, Row(who="ann", old=Decimal("3.0"))),
        ({"age": "INT", "name": "STRING"}, "do not match.*Columns go by their position"),
        ({"name": "STRING"}, "do not match.*Different number of columns"),
        ({}, Row(name="ann", age=3)),
    ],
)
def test_changes_have_the_columns_of_the_schema(env, tables, columns, expected):
    builder = Schema.new_builder()
    for name, type_ in columns.items():
        builder.column(name, type_)
    people = tables.from_data_stream(env.from_collection([("ann", 3)], PEOPLE))
    if isinstance(expected, str):
        with pytest.raises(InvalidTable, match=f"(?s){expected}"):
            tables.to_changelog_stream(people, builder.build())
    else:
        assert collected(tables.to_changelog_stream(people, builder.build())) == [expected]


@pytest.mark.parametrize("names", [["f1", "f0"], ["f0", "f1"], ["f1"], ["f0"]])
@pytest.mark.parametrize("of", [Types.TUPLE, Types.ROW])
def test_columns_of_a_schema_are_fields_in_any_order(env, tables, names, of):
    types, values = {"f0": "STRING", "f1": "DECIMAL(5, 2)"}, {"f0": "a", "f1": Decimal("3.00")}
    builder = Schema.new_builder()
    for name in names:
        builder.column(name, types[name])
    stream = env.from_collection([("a", 3)], of([Types.STRING(), Types.INT()]))
    table = tables.from_data_stream(stream, builder.build())
    assert table.names == names
    assert [tuple(row) for row in table.execute().collect()] == [tuple(values[name] for name in names)]


STAMPED = {
    "all": Schema.new_builder()
    .column("n", "STRING")
    .column("s", "INT")
    .column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)"),
    "time alone": Schema.new_builder().column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)"),
    "by key": Schema.new_builder().column_by_metadata("at", "TIMESTAMP_LTZ(3)", "rowtime"),
}


@pytest.mark.parametrize("schema", STAMPED)
@pytest.mark.parametrize("mark", ["", ", WATERMARK FOR ts AS ts"])
def test_a_column_by_metadata_is_the_timestamp_of_rows(env, tables, schema, mark, tmp_path):
    (tmp_path / "rows.csv").write_text("x,1,1970-01-01 00:00:01Z\ny,2,1970-01-01 00:00:02Z\n")
    tables.execute_sql(
        f"CREATE TABLE t (name STRING, score INT, ts TIMESTAMP_LTZ(3){mark}) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    changes = tables.to_changelog_stream(tables.from_path("t"), STAMPED[schema].build())
    first, second = ("n", "s") if schema == "all" else ("name", "score")
    stamped = changes.process(lambda row, ctx: [(row, ctx.timestamp())])
    assert collected(stamped) == [(Row(**{first: "x", second: 1}), 1000), (Row(**{first: "y", second: 2}), 2000)]


@pytest.mark.parametrize("more", [["offset"], ["rowtime", "offset"]])
def test_a_stream_has_no_other_metadata(tables, more):
    builder = Schema.new_builder()
    for name in more:
        builder.column_by_metadata(name, "TIMESTAMP_LTZ(3)")
    with pytest.raises(
        InvalidProgram, match="a stream has one column of metadata, 'rowtime', but the schema has .*'offset'"
    ):
        tables.to_changelog_stream(tables.from_elements([(1, 2)], ["a", "b"]), builder.build())
