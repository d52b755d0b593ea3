"""Results as Flink prints them."""

import datetime
from decimal import Decimal

from funken import Row, RowKind
from funken.table.result import TableResult
from funken.table.types import (
    STRING,
    BigIntType,
    DoubleType,
    FloatType,
    TimestampType,
    YearMonthIntervalType,
    parse_type,
)
from funken.table.values import java_row, java_text, sql_text


def printed(capsys, *args, **options):
    TableResult(*args, **options).print()
    return capsys.readouterr().out.splitlines()


def test_columns_of_a_query_are_as_wide_as_their_types(capsys):
    rows = [Row("a", 1), Row.of_kind(RowKind.UPDATE_BEFORE, None, -1)]

    assert printed(capsys, ["s", "n"], [STRING, BigIntType()], rows, streaming=True, widths_of_types=True) == [
        "+----+--------------------------------+----------------------+",
        "| op |                              s |                    n |",
        "+----+--------------------------------+----------------------+",
        "| +I |                              a |                    1 |",
        "| -U |                         <NULL> |                   -1 |",
        "+----+--------------------------------+----------------------+",
        "2 rows in set",
    ]


def test_long_values_are_cut_and_wide_characters_count_twice(capsys):
    lines = printed(capsys, ["s"], [STRING], [Row("x" * 40), Row("日本")], widths_of_types=True, max_width=10)

    assert lines[3:5] == ["| xxxxxxx... |", "|       日本 |"]


def test_lists_are_as_wide_as_their_values(capsys):
    assert printed(capsys, ["table name"], [STRING], [Row("orders_of_the_day")]) == [
        "+-------------------+",
        "|        table name |",
        "+-------------------+",
        "| orders_of_the_day |",
        "+-------------------+",
        "1 row in set",
    ]
    assert printed(capsys, ["x"], [STRING], []) == ["Empty set"]
    assert printed(capsys, ["x"], [STRING], [Row("a\nbc")])[3:5] == ["| a", "bc |"]


def test_rows_as_java_writes_them():
    moment = datetime.datetime.fromisoformat("2024-02-03T04:05:06.007")
    row = Row(1.0, 1e7, Decimal("1.50"), None, b"\x01\xff", [1], {"k": None}, Row(1), True, moment)

    assert java_row(row) == ("+I[1.0, 1.0E7, 1.50, null, [1, -1], [1], {k=null}, +I[1], true, 2024-02-03T04:05:06.007]")
    assert java_text(moment.replace(tzinfo=datetime.UTC)) == "2024-02-03T04:05:06.007Z"
    assert java_text(datetime.time(4, 5)) == "04:05"
    assert java_text(0.1, DoubleType()) == "0.1"
    assert java_text(0.10000000149011612, FloatType()) == "0.1"
    assert java_text(-0.0) == "-0.0"
    assert java_text(datetime.timedelta(seconds=-1.5)) == "PT-1.5S"


def test_values_as_sql_writes_them():
    moment = datetime.datetime.fromisoformat("2024-02-03T04:05:06.007")

    assert sql_text(moment, TimestampType(3)) == "2024-02-03 04:05:06.007"
    assert sql_text(moment, TimestampType(0)) == "2024-02-03 04:05:06"
    assert sql_text(datetime.timedelta(days=1, hours=2)) == "+1 02:00:00.000"
    assert sql_text(14, YearMonthIntervalType()) == "+1-02"
    assert sql_text(Row(None, "a"), parse_type("ROW<x INT, y STRING>")) == "(NULL, a)"
    assert sql_text({"a": [True]}, parse_type("MAP<STRING, ARRAY<BOOLEAN>>")) == "{a=[TRUE]}"
    assert sql_text(b"\x0a") == "x'0a'"
