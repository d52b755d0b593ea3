"""Columns that queries write to sinks, the options of sinks, and printed tables: as by Flink 2.3."""

import json

import pytest

from funken.errors import FunkenError, InvalidConfiguration, InvalidProgram
from funken.table import EnvironmentSettings, TableEnvironment


@pytest.fixture
def tables():
    made = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    made.get_config().set("execution.target", "local")
    return made


def sink(tables, folder, columns):
    tables.execute_sql(
        f"CREATE TABLE target ({columns}) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json')"
    )


def written(tables, folder, columns, query):
    sink(tables, folder, columns)
    tables.execute_sql(f"INSERT INTO target {query}").wait()
    [file] = folder.glob("*.json")
    return json.loads(file.read_text())["a"]


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("ROW<x INT, y STRING>", "ROW(1, 'a')", {"x": 1, "y": "a"}),
        ("ROW<x CHAR(3)>", "ROW('abcdef')", {"x": "abc"}),
        ("ARRAY<CHAR(3)>", "ARRAY['abcdef']", ["abc"]),
        ("VARCHAR(2)", "'abc'", "ab"),
        ("CHAR(4)", "'ab'", "ab  "),
        ("BINARY(4)", "X'0102'", "AQIAAA=="),
        ("VARBINARY(1)", "X'0304'", "Aw=="),
        ("ROW<x ROW<y INT>>", "ROW(ROW(1))", {"x": {"y": 1}}),
        ("ARRAY<ROW<x INT>>", "ARRAY[ROW(1)]", [{"x": 1}]),
        ("MAP<STRING, ROW<x INT>>", "MAP['k', ROW(1)]", {"k": {"x": 1}}),
        ("ROW<y INT, x INT>", "CAST(ROW(1, 2) AS ROW<x INT, y INT>)", {"y": 1, "x": 2}),
        ("ROW<x BIGINT>", "ROW(1)", {"x": 1}),
    ],
)
def test_values_are_cast_to_columns_and_fields_of_rows_are_written_by_position(
    tables, tmp_path, type_, value, expected
):
    assert written(tables, tmp_path / "out", f"a {type_}", f"SELECT {value}") == expected


def test_texts_of_any_length_need_a_cast_to_a_fixed_one(tables, tmp_path):
    sink(tables, tmp_path, "a CHAR(5)")
    with pytest.raises(FunkenError, match="Column types of query result and sink .* do not match"):
        tables.execute_sql("INSERT INTO target SELECT CAST('ab' AS STRING)")


def test_metadata_that_a_connector_cannot_write_are_refused(tables, tmp_path):
    sink(tables, tmp_path, "a INT, `file.path` STRING NOT NULL METADATA")
    with pytest.raises(InvalidProgram, match=r"declares persistable metadata .* declare its column VIRTUAL"):
        tables.execute_sql("INSERT INTO target SELECT 1, 'x'")


@pytest.mark.parametrize(
    "key",
    [
        "table.exec.sink.not-null-enforcer",
        "table.exec.sink.type-length-enforcer",
        "table.exec.sink.nested-constraint-enforcer",
        "table.exec.sink.upsert-materialize",
    ],
)
def test_a_word_that_an_option_does_not_have(tables, key):
    with pytest.raises(InvalidConfiguration, match=f"{key}.*'MAYBE' is none of "):
        tables.get_config().set(key, "MAYBE")


def test_options_that_come_with_the_job_are_checked_by_the_statement(tables, tmp_path):
    sink(tables, tmp_path, "a INT NOT NULL")
    tables.get_config().set("table.exec.sink.not-null-enforcer", "drop")
    tables.execute_sql("INSERT INTO target SELECT CAST(NULL AS INT)").wait()
    tables.get_config().set("table.exec.sink.not-null-enforcer", "error")
    with pytest.raises(FunkenError, match="null value is being written"):
        tables.execute_sql("INSERT INTO target SELECT CAST(NULL AS INT)").wait()


def test_wide_characters_in_printed_tables(tables, capsys):
    tables.execute_sql(f"SELECT '{'中' * 22}' AS a, 'é\U0001f600' AS b").print()
    row = capsys.readouterr().out.splitlines()[3]
    assert row == f"|  {'中' * 13}... | {' ' * 26}é\U0001f600 |"


def test_widths_of_timestamps_are_those_of_three_six_or_nine_digits(tables, capsys):
    tables.execute_sql("SELECT TIMESTAMP '2024-01-02 03:04:05.1' AS a").print()
    assert capsys.readouterr().out.splitlines()[3] == "|   2024-01-02 03:04:05.1 |"
