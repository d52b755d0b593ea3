"""Programs of the Table API as PyFlink 1.9 to 1.13 had it."""

import warnings

import pytest

import funken.compat.pyflink  # noqa: F401 - makes `import pyflink` mean the layer
from funken.compat.pyflink.older_expressions import expression_of, expressions_of
from funken.errors import InvalidProgram


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
    source.write_text("a|1\nb|2\na|3\n")
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
    assert written(first) == ["A,30", "B,20"]
    assert written(second) == ["a,1", "a,3", "b,2"]


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
        ("'it''s' as q", 'as("it\'s", \'q\')'),
        ("a.in(1, 2)", "in(a, 1, 2)"),
        ("max(b) over w", "over(max(b), w)"),
        ("b.count.distinct as d", "as(distinct(count(b)), 'd')"),
        ("my_function(a, 'x,y')", "my_function(a, x,y)"),
        ("-a + 1.5", "plus(minusPrefix(a), 1.5)"),
    ],
)
def test_expressions_as_texts(text, shown):
    assert str(expression_of(text)).replace("'it's'", "it's").replace("'x,y'", "x,y") == shown


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
        t_env.from_elements([(1,)], ["n"]).select("n")  # the name of a column is no older expression
