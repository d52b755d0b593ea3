"""How records are written: statement 69 of the semantics."""

import datetime
import decimal

import pytest

from funken.types import Instant, Row, RowKind, Types
from funken.types.text import printed, written


def test_s69_print_writes_untyped_records_as_python_does():
    assert printed(None)(("a", 1)) == "('a', 1)"
    assert printed(None)(None) == "null"


def test_s69_print_writes_tuples_and_rows_as_flink_does():
    assert printed(Types.TUPLE([Types.STRING(), Types.INT()]))(("a", 1)) == "(a,1)"
    assert printed(Types.ROW([Types.STRING(), Types.INT()]))(Row("a", 1)) == "+I[a,1]"
    assert printed(Types.ROW([Types.INT()]))(Row.of_kind(RowKind.DELETE, 1)) == "-D[1]"
    assert printed(Types.BOOLEAN())(True) == "true"


def test_s69_sinks_write_rows_with_a_space():
    assert written(Types.ROW([Types.STRING(), Types.INT()]))(Row("a", 1)) == "+I[a, 1]"
    assert written(Types.STRING())(None) == "null"


@pytest.mark.parametrize(
    ("info", "value", "text"),
    [
        (Types.FLOAT(), 1.2300000190734863, "1.23"),
        (Types.FLOAT(), 3.4028234663852886e38, "3.4028235E38"),
        (Types.DOUBLE(), 1.0, "1.0"),
        (Types.DOUBLE(), 1e7, "1.0E7"),
        (Types.DOUBLE(), 12345678.9, "1.23456789E7"),
        (Types.DOUBLE(), 0.0001, "1.0E-4"),
        (Types.DOUBLE(), -0.0, "-0.0"),
        (Types.DOUBLE(), float("nan"), "NaN"),
        (Types.DOUBLE(), float("-inf"), "-Infinity"),
        (Types.BIG_DEC(), decimal.Decimal("1.50"), "1.50"),
        (Types.SQL_DATE(), datetime.date(2021, 1, 9), "2021-01-09"),
        (Types.SQL_TIME(), datetime.time(12, 0), "12:00:00"),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2021, 1, 9, 12, 0, 0, 11000, datetime.UTC), "2021-01-09 12:00:00.011"),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2021, 1, 9, tzinfo=datetime.UTC), "2021-01-09 00:00:00.0"),
        (Types.INSTANT(), Instant(0), "1970-01-01T00:00:00Z"),
        (Types.PICKLED_BYTE_ARRAY(), bytearray(b"a\xff"), "[97, -1]"),
        (Types.PRIMITIVE_ARRAY(Types.FLOAT()), [1.100000023841858], "[1.1]"),
        (Types.BASIC_ARRAY(Types.STRING()), [None, "hi"], "[null, hi]"),
        (Types.MAP(Types.STRING(), Types.INT()), {"a": 1, "b": None}, "{a=1, b=null}"),
        (Types.TUPLE([Types.ROW([Types.INT(), Types.INT()]), Types.LIST(Types.INT())]), (Row(1, 2), [3]), "(+I[1, 2],[3])"),
    ],
)  # fmt: skip
def test_values_are_written_as_java_writes_them(info, value, text):
    assert written(info)(value) == text
