"""Programs of the Table API as PyFlink 1.9 to 1.13 had it."""

import warnings

import pytest

import funken.compat.pyflink  # noqa: F401 - makes `import pyflink` mean the layer
from funken.compat.pyflink.older_expressions import expression_of, expressions_of
from funken.errors import InvalidProgram, JobExecutionError
from funken.table.catalog import InvalidTable


@pytest.fixture
def t_env():
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.table import EnvironmentSettings, StreamTableEnvironment

    env = StreamExecutionEnvironment.create_local_environment(1)
    with pytest.warns(DeprecationWarning, match="one planner"):
        settings = EnvironmentSettings.new_instance().in_streaming_mode().use_blink_planner().build()
    return StreamTableEnvironment.create(env, environment_settings=settings)


def written(folder):
    return sorted(line for path in folder.rglob("*") if path.is_file() for line in path.read_text().splitlines())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_descriptors_sinks_and_execute(t_env, tmp_path):
    from pyflink.table import CsvTableSink, DataTypes
    from pyflink.table.descriptors import FileSystem, OldCsv, Schema
    from pyflink.table.udf import udf

    source, first, second = tmp_path / "in.csv", tmp_path / "first", tmp_path / "second"
    source.write_text("a, b|1\nb|2\na, b|3\n")
    schema = Schema().field("word", DataTypes.STRING()).field("n", DataTypes.INT())
    t_env.connect(FileSystem().path(str(source))).with_format(OldCsv().field_delimiter("|")).with_schema(
        schema
    ).create_temporary_table("words")
    for name, folder in (("first", first), ("second", second)):
        sink = CsvTableSink(["word", "n"], [DataTypes.STRING(), DataTypes.BIGINT()], str(folder))
        t_env.register_table_sink(name, sink)
    t_env.register_function("up", udf(lambda word: word.upper(), DataTypes.STRING(), DataTypes.STRING()))

    large = t_env.scan("words").filter("n > 1 && word !== 'z'").select("up(word) as word, (n * 10).cast(BIGINT) as n")
    large.insert_into("first")
    t_env.sql_update("INSERT INTO second SELECT word, CAST(n AS BIGINT) FROM words")
    assert not first.exists()
    assert t_env.execute("both") is not None
    assert written(first) == ["A, B,30", "B,20"]  # Flink's older CSV has no quotes
    assert written(second) == ["a, b,1", "a, b,3", "b,2"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_pipeline_that_was_executed_is_not_executed_again(t_env, tmp_path):
    from pyflink.table import CsvTableSink, DataTypes

    folder = tmp_path / "out"
    t_env.register_table_sink("out", CsvTableSink(["n"], [DataTypes.BIGINT()], str(folder)))
    numbers = t_env.from_elements([(1,), (2,)], ["n"])
    numbers.execute_insert("out").wait()
    statements = t_env.create_statement_set()
    statements.add(numbers.insert_into("out"))
    statements.execute().wait()
    with pytest.raises(InvalidProgram, match="No operators"):
        t_env.execute("nothing is left")
    assert written(folder) == ["1", "1", "2", "2"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_groups_windows_and_joins_as_texts(t_env):
    from pyflink.table.window import Tumble

    t_env.execute_sql(
        "CREATE TABLE numbers (n BIGINT, ts AS TO_TIMESTAMP_LTZ(n * 1000, 3), WATERMARK FOR ts AS ts) "
        "WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '19')"
    )
    numbers = t_env.scan("numbers")
    windows = numbers.window(Tumble.over("10.seconds").on("ts").alias("w")).group_by("w")
    with windows.select("n.sum as s, count(1) as c").execute().collect() as rows:
        assert sorted(tuple(row) for row in rows) == [(45, 10), (145, 10)]
    left, right = t_env.from_elements([(1, "a")], ["x", "y"]), t_env.from_elements([(1, "b")], ["u", "v"])
    with left.join(right).where("x = u").select("y, v").execute().collect() as rows:
        assert [tuple(row) for row in rows] == [("a", "b")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a.isNull || !(b >= 2)", "or(isNull(a), not(greaterThanOrEqual(b, 2)))"),
        ("'it''s' as q", "as('it''s', 'q')"),
        ("a.in(1, 2)", "in(a, 1, 2)"),
        ("max(b) over w", "over(max(b), w)"),
        ("b.count.distinct as d", "as(distinct(count(b)), 'd')"),
        ("my_function(a, 'x,y')", "my_function(a, x,y)"),
        ("-a + 1.5", "plus(minusPrefix(a), 1.5)"),
    ],
)
def test_expressions_as_texts(text, shown):
    assert str(expression_of(text)).replace("'it's'", "it's").replace("'x,y'", "x,y") == shown


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_rows_without_a_key_go_to_a_sink_with_one(t_env):
    insert = "INSERT INTO kept SELECT n % 2, n FROM numbers"
    t_env.execute_sql(
        "CREATE TABLE kept (k BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'values')"
    )
    t_env.create_temporary_view("numbers", t_env.from_elements([(1,), (2,), (3,)], ["n"]))
    t_env.execute_sql(insert).wait()
    t_env.get_config().set("table.exec.sink.require-on-conflict", "true")
    with pytest.raises(InvalidTable, match="upsert key that differs"):
        t_env.execute_sql(insert)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_registered_functions_go_before_those_of_flink(t_env):
    from pyflink.table import DataTypes
    from pyflink.table.udf import udf

    t_env.register_function("split", udf(lambda a, b, c: f"{a}{b}{c}", result_type=DataTypes.STRING()))
    t_env.register_function("upper", udf(lambda a: f"<{a}>", result_type=DataTypes.STRING()))
    table = t_env.from_elements([("a", "b", "c")], ["x", "y", "z"])
    for shown, wanted in (("split(x, y, z) as s", "abc"), ("x.upper()", "<a>"), ("lower(upper(x))", "<a>")):
        with table.select(shown).execute().collect() as rows:
            assert [tuple(row) for row in rows] == [(wanted,)]


def test_a_text_that_is_no_expression_is_shown():
    with pytest.raises(InvalidProgram, match=r"'a \+' cannot be read: .* Write it with funken's expressions"):
        expressions_of("b, a +")
    with pytest.raises(InvalidProgram, match="2 expressions, but one is needed"):
        expression_of("a, b")


def test_older_names_say_what_to_use(t_env):
    with pytest.warns(DeprecationWarning, match=r"use from_path\(\)"), pytest.raises(Exception, match="nothing"):
        t_env.scan("nothing")
    with pytest.raises(InvalidProgram, match="Write it in Python"):
        t_env.register_java_function("f", "org.example.F")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _ = t_env.from_elements([(1,)], ["n"]).select("n")  # the name of a column is no older expression


def test_the_batch_environment_of_the_data_set_api():
    from pyflink.dataset import ExecutionEnvironment
    from pyflink.table import BatchTableEnvironment, TableConfig

    with pytest.warns(DeprecationWarning, match="pyflink.dataset was removed"):
        env = ExecutionEnvironment.get_execution_environment()
    with pytest.warns(DeprecationWarning, match="in_batch_mode"):
        t_env = BatchTableEnvironment.create(env.set_parallelism(1), TableConfig())
    t_env.get_config().set("execution.target", "local")
    table = t_env.from_elements([("a", 1), ("b", 2), ("a", 3)], ["w", "n"])
    with pytest.warns(DeprecationWarning, match="as a text"):
        sums = table.group_by("w").select("w, n.sum as s")
    with sums.execute().collect() as rows:
        assert sorted(tuple(row) for row in rows) == [("a", 4), ("b", 2)]


def test_options_of_flink_1_10(t_env, tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("a;1\nb;2\n")
    t_env.execute_sql(
        f"CREATE TABLE words (w STRING, n INT) WITH ('connector.type' = 'filesystem', 'connector.path' = '{source}', "
        "'format.type' = 'csv', 'format.field-delimiter' = ';', 'update-mode' = 'append')"
    )
    with pytest.warns(DeprecationWarning, match="'csv.field-delimiter' = ';'"):
        rows = t_env.from_path("words").execute()
    with rows.collect() as found:
        assert sorted(tuple(row) for row in found) == [("a", 1), ("b", 2)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_files_of_csv_of_flink_1_10_have_no_quotes_and_may_have_more_fields(t_env, tmp_path):
    from pyflink.table import CsvTableSource, DataTypes
    from pyflink.table.descriptors import FileSystem, OldCsv, Schema

    (tmp_path / "in.csv").write_text('say "hi",1,x\n"b,2\n')
    path, columns = str(tmp_path / "in.csv"), (["w", "n"], [DataTypes.STRING(), DataTypes.INT()])
    t_env.execute_sql(
        f"CREATE TABLE one (w STRING, n INT) WITH ('connector.type' = 'filesystem', 'connector.path' = '{path}', "
        "'format.type' = 'csv')"
    )
    schema = Schema().field("w", DataTypes.STRING()).field("n", DataTypes.INT())
    t_env.connect(FileSystem().path(path)).with_format(OldCsv()).with_schema(schema).create_temporary_table("two")
    t_env.register_table_source("three", CsvTableSource(path, *columns))
    for name in ("one", "two", "three"):
        with t_env.from_path(name).execute().collect() as rows:
            assert sorted(tuple(row) for row in rows) == [('"b', 2), ('say "hi"', 1)]


def test_options_of_kafka_of_flink_1_10():
    from funken.table.connectors.options import todays_options

    older = {
        "connector.type": "kafka", "connector.version": "universal", "connector.topic": "orders",
        "connector.properties.0.key": "bootstrap.servers", "connector.properties.0.value": "host:9092",
        "connector.properties.group.id": "g", "connector.startup-mode": "earliest-offset",
        "format.type": "json", "format.derive-schema": "true", "format.fail-on-missing-field": "false",
    }  # fmt: skip
    with pytest.warns(DeprecationWarning, match="Table 't' has options of Flink 1.10"):
        found = todays_options("t", older)
    assert found == {
        "connector": "kafka", "topic": "orders", "properties.bootstrap.servers": "host:9092", "properties.group.id": "g",
        "scan.startup.mode": "earliest-offset", "format": "json", "json.fail-on-missing-field": "false",
    }  # fmt: skip
    assert todays_options("t", found) is found


def test_a_timestamp_ltz_of_a_stream_is_an_instant(t_env):
    from pyflink.common import Instant

    t_env.execute_sql(
        "CREATE TABLE numbers (n BIGINT, ts AS TO_TIMESTAMP_LTZ(n * 1000, 3)) "
        "WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '2')"
    )
    with t_env.to_data_stream(t_env.from_path("numbers")).execute_and_collect() as rows:
        found = list(rows)
    assert [row.ts.to_epoch_milli() for row in found] == [1000, 2000]
    assert all(isinstance(row.ts, Instant) for row in found)


def test_a_stream_of_a_table_is_printed_as_pyflink_does(t_env, capfd):
    from pyflink.common import Types

    table = t_env.sql_query("SELECT * FROM (VALUES (1, 'a', CAST(NULL AS INT), ROW(2, 'b'))) AS t(n, w, e, r)")
    t_env.to_data_stream(table).print()
    counts = t_env.sql_query("SELECT w, COUNT(*) AS n FROM (VALUES ('a'), ('a')) AS t(w) GROUP BY w")
    t_env.to_retract_stream(counts, Types.ROW([Types.STRING(), Types.LONG()])).print()
    t_env.stream_environment.execute()
    assert sorted(capfd.readouterr().out.splitlines()) == [
        "(False, Row(f0='a', f1=1))",
        "(True, Row(f0='a', f1=1))",
        "(True, Row(f0='a', f1=2))",
        "+I[1,a,None,Row(EXPR$0=2, EXPR$1='b')]",
    ]


def test_values_that_are_collected_are_those_of_pyflink(t_env):
    table = t_env.sql_query("SELECT CAST(1.23 AS FLOAT), ARRAY[ROW(1, 'x')], MAP['k', CAST(0.1 AS FLOAT)]")
    with table.execute().collect() as rows:
        assert repr(list(rows)) == "[<Row(1.23, [<Row(1, 'x')>], {'k': 0.1})>]"


def test_a_schema_of_metadata_keeps_the_fields_of_the_stream(t_env):
    from pyflink.common import Types
    from pyflink.table import Schema
    from pyflink.table.expressions import col

    numbers = t_env.stream_environment.from_collection(
        [(1, "a", True)], Types.ROW_NAMED(["n", "w", "b"], [Types.LONG(), Types.STRING(), Types.BOOLEAN()])
    )
    schema = Schema.new_builder().column_by_metadata("at", "TIMESTAMP_LTZ(3)", "rowtime").build()
    assert t_env.from_data_stream(numbers, schema).names == ["n", "w", "b", "at"]
    chosen = t_env.from_data_stream(numbers, col("b"), col("n"))
    with chosen.execute().collect() as rows:
        assert [tuple(row) for row in rows] == [(True, 1)]


def test_a_row_type_grows_by_fields():
    from pyflink.table.types import DataTypes, RowType

    row = RowType().add("a", DataTypes.INT()).add("b", DataTypes.STRING())
    assert row.field_names() == ["a", "b"]
    assert row.field_types() == [DataTypes.INT(), DataTypes.STRING()]
    with pytest.raises(ValueError, match="'c' has no type"):
        row.add("c")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_table_of_a_stream_takes_texts_and_a_table_in_an_expression(t_env):
    from pyflink.common import Types

    pairs = t_env.stream_environment.from_collection([(1, "a"), (2, "b")], Types.TUPLE([Types.LONG(), Types.STRING()]))
    table = t_env.from_data_stream(pairs).alias("n, w")
    assert table.names == ["n", "w"]
    t_env.register_table("Few", t_env.from_elements([(2,)], ["x"]))
    with table.where("n.in(Few)").select("w").execute().collect() as rows:
        assert [tuple(row) for row in rows] == [("b",)]


def test_the_event_time_of_a_descriptor_has_milliseconds():
    from pyflink.table.descriptors import Rowtime, Schema
    from pyflink.table.types import DataTypes

    time = Rowtime().timestamps_from_field("at").watermarks_periodic_bounded(60_000)
    text = str(Schema().field("rowtime", DataTypes.TIMESTAMP(6)).rowtime(time).field("a", DataTypes.INT()).columns())
    assert "`at` TIMESTAMP(3)" in text
    assert "WATERMARK FOR `rowtime` AS [`rowtime` - INTERVAL '60.000' SECOND]" in text


def test_a_star_import_of_expressions_leaves_modules_usable():
    import pickle

    names: dict = {}
    exec("import json, uuid, array\nfrom pyflink.table.expressions import *", names)
    assert names["json"].loads('{"a": 1}') == {"a": 1}
    assert names["uuid"].UUID(int=1).int == 1
    assert names["array"].array("d", [1.0])[0] == 1.0
    assert str(names["array"](1, 2)) == "array(1, 2)"
    assert pickle.loads(pickle.dumps(names["json"])).dumps([1]) == "[1]"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = names["json"].nothing


def test_a_state_backend_may_be_the_class_of_its_factory():
    from pyflink.common import Configuration

    factory = "org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory"
    assert Configuration().set_string("state.backend", factory).to_dict() == {"state.backend.type": "rocksdb"}


def test_options_of_tables_in_the_configuration_take_effect(t_env):
    configuration = t_env.get_config().get_configuration()
    configuration.set_string("table.exec.state.ttl", "1 h").set_string("table.local-time-zone", "Europe/Vienna")
    assert t_env.get_config().option("table.exec.state.ttl") == 3_600_000
    assert t_env.get_config().get_local_timezone() == "Europe/Vienna"
    assert t_env.get_config().get("table.exec.state.ttl", "") == "1 h"
    t_env.get_config().set("table.exec.state.ttl", "2 h")
    assert t_env.get_config().option("table.exec.state.ttl") == 7_200_000
    t_env.get_config().reset("table.exec.state.ttl")
    assert t_env.get_config().option("table.exec.state.ttl") == 0


def test_the_rows_of_an_append_stream_have_the_names_of_their_type(t_env):
    from pyflink.common import Types

    table = t_env.from_elements([(1, "tea")], ["number", "item"])
    unnamed = t_env.to_append_stream(table, Types.ROW([Types.LONG(), Types.STRING()]))
    named = t_env.to_append_stream(table, Types.ROW_NAMED(["n", "i"], [Types.LONG(), Types.STRING()]))

    with unnamed.map(lambda row: (row.f0, row.f1)).execute_and_collect() as found:
        assert list(found) == [(1, "tea")]
    with named.map(lambda row: (row.n, row.i)).execute_and_collect() as found:
        assert list(found) == [(1, "tea")]


def test_serializers_of_java_and_formats_of_ones_own_are_taken():
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.table.descriptors import CustomFormatDescriptor

    config = StreamExecutionEnvironment.create_local_environment(1).get_config()
    with pytest.warns(UserWarning, match=r"add_default_kryo_serializer\(\) has no effect: records are Python's"):
        assert config.add_default_kryo_serializer("a.Type", "a.Serializer") is config
    form = CustomFormatDescriptor("json", 1).property("format.json.fail-on-missing-field", "true")
    assert (form.name, form._properties) == ("json", {"fail-on-missing-field": "true"})


def test_the_header_of_a_file_is_left_out(t_env, tmp_path):
    from pyflink.table import CsvTableSource, DataTypes

    (tmp_path / "in.csv").write_text("name|n\nann|1\nbob|x\n")
    columns = ["name", "n"], [DataTypes.STRING(), DataTypes.INT()]
    for lenient, expected in ((True, [("ann", 1), ("bob", None)]), (None, None)):
        given = {"field_delim": "|", "ignore_first_line": True, "lenient": lenient}
        source = CsvTableSource(str(tmp_path / "in.csv"), *columns, **given)
        with pytest.warns(DeprecationWarning, match="from_table_source"):
            table = t_env.from_table_source(source)
        if expected is None:
            with pytest.raises(JobExecutionError, match="field 'n'"), table.execute().collect() as rows:
                list(rows)
        else:
            with table.execute().collect() as rows:
                assert [tuple(row) for row in rows] == expected


def test_times_of_a_stream_of_a_table_are_written_as_java_does(t_env):
    from pyflink.datastream.tests.test_util import DataStreamTestSinkFunction

    sink = DataStreamTestSinkFunction()
    table = t_env.sql_query("SELECT DATE '1970-01-02', TIME '03:04:00', TIMESTAMP '1970-01-02 03:04:05'")
    t_env.to_data_stream(table).add_sink(sink)
    t_env.stream_environment.execute()
    assert sink.get_results() == ["+I[1970-01-02, 03:04, 1970-01-02T03:04:05]"]


def test_names_around_tables(t_env):
    from pyflink.shell import s_env, st_env
    from pyflink.table import DataTypes, StreamTableEnvironment, TableConfig, TableSchema
    from pyflink.table.module import ModuleEntry

    assert isinstance(st_env, StreamTableEnvironment)
    assert st_env.stream_environment is s_env
    assert t_env.list_full_modules() == [ModuleEntry("core", True)]
    assert t_env.list_full_modules()[0].name() == "core"
    assert TableConfig.get_default().set("k1", "v1").get("k1", "") == "v1"
    result = t_env.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'print')")
    assert result.get_table_schema().get_field_names() == ["result"]
    schema = TableSchema(["a"], [DataTypes.INT()])
    assert schema.to_row_data_type() == DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())], nullable=False)


def test_texts_of_several_orders_and_of_frames(t_env):
    from pyflink.table.window import Over

    numbers = t_env.from_elements([(1, "a"), (2, "b"), (2, "a")], ["n", "k"])
    with pytest.warns(DeprecationWarning, match="expressions as a text"):
        assert "orderBy=[n DESC, k ASC]" in numbers.order_by("n.desc, k.asc").fetch(3).explain()
    assert str(expressions_of("n, k.count over w as c")[1]) == "as(over(count(k), w), 'c')"
    with pytest.warns(DeprecationWarning):
        window = Over.partition_by("k").order_by("n").preceding("unbounded_range").alias("w")
        assert numbers.over_window(window).select("k, n.sum over w as s").names == ["k", "s"]


def test_an_event_time_of_a_stream_has_a_name_of_its_own(t_env):
    from pyflink.common import Types
    from pyflink.table.expressions import col

    numbers = t_env.stream_environment.from_collection(
        [(1, "a", 5)], Types.ROW_NAMED(["n", "k", "at"], [Types.LONG(), Types.STRING(), Types.LONG()])
    )
    table = t_env.from_data_stream(numbers, col("n"), col("k"), col("at").rowtime.alias("ts"))
    assert table.names == ["n", "k", "ts"]


def test_a_connector_of_ones_own_takes_older_keys():
    from pyflink.table.descriptors import CustomConnectorDescriptor

    found = CustomConnectorDescriptor("jdbc", 1, False).property("connector.table", "t").property("connector.url", "u")
    found.property("connector.write.flush.max-rows", "1")
    assert found.options() == {"table-name": "t", "url": "u", "sink.buffer-flush.max-rows": "1"}


def test_results_of_aggregate_functions_are_chosen_by_texts(t_env):
    from pyflink.common import Row
    from pyflink.table import DataTypes
    from pyflink.table.udf import TableAggregateFunction, udtaf

    class Twice(TableAggregateFunction):
        def create_accumulator(self):
            return [0]

        def accumulate(self, accumulator, value):
            accumulator[0] += value

        def emit_value(self, accumulator):
            yield Row(accumulator[0], "once")
            yield Row(2 * accumulator[0], "twice")

    names = DataTypes.ROW([DataTypes.FIELD("a", DataTypes.BIGINT()), DataTypes.FIELD("b", DataTypes.STRING())])
    numbers = t_env.from_elements([(1, "x"), (2, "x")], ["n", "k"])
    grouped = numbers.group_by(numbers.k).flat_aggregate(udtaf(Twice(), result_type=names)(numbers.n))
    with pytest.warns(DeprecationWarning, match="expressions as a text, 'b, a'"):
        chosen = grouped.select("b, a")
    found = chosen.to_pandas()
    assert sorted(zip(found["b"], found["a"], strict=True)) == [("once", 3), ("twice", 6)]


def test_execute_has_nothing_to_do_behind_the_job_of_a_table(t_env):
    from pyflink.common import Types

    env = t_env.stream_environment
    numbers = env.from_collection([1, 2], Types.LONG()).map(lambda n: 2 * n, Types.LONG())
    assert sorted(t_env.from_data_stream(numbers).to_pandas()["f0"]) == [2, 4]
    with pytest.warns(UserWarning, match="the streams have run in the job of their table"):
        assert env.execute("again").get_net_runtime() == 0


def test_the_older_schema_shows_times_definitions_watermarks_and_keys(t_env):
    t_env.execute_sql(
        "CREATE TABLE shown (id INT, at TIMESTAMP(3), size AS id * 2, WATERMARK FOR at AS at - INTERVAL '5' SECOND, "
        "CONSTRAINT k PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'blackhole')"
    )

    assert str(t_env.from_path("shown").get_schema()) == (
        "root\n |-- id: INT NOT NULL\n |-- at: TIMESTAMP(3) *ROWTIME*\n |-- size: INT NOT NULL AS `id` * 2\n"
        " |-- WATERMARK FOR at: TIMESTAMP(3) AS `at` - INTERVAL '5' SECOND\n |-- CONSTRAINT k PRIMARY KEY (id)\n"
    )
