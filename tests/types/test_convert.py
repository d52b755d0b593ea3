"""What declared types do to values: statements 89 and 90 of the semantics."""

import datetime
import decimal
import math
import struct
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.errors import ValueDoesNotFit
from funken.types import Instant, Row, RowKind, Types
from funken.types.convert import converter


def convert(info, value):
    return converter(info)(value)


@dataclass
class Point:
    x: int
    y: int


def test_s89_row_typed_values_arrive_as_rows_with_names():
    pair = Types.ROW([Types.INT(), Types.STRING()])
    named = Types.ROW_NAMED(["n", "word"], [Types.INT(), Types.STRING()])

    assert repr(convert(pair, (1, "hi"))) == "Row(f0=1, f1='hi')"
    assert convert(named, [1, "hi"]) == Row(n=1, word="hi")
    assert convert(named, Row(1, "hi")) == Row(n=1, word="hi")
    assert convert(named, Row(word="hi", n=1)) == Row(n=1, word="hi")
    assert convert(named, {"n": 1}) == Row(n=1, word=None)
    assert convert(Types.ROW_NAMED(["x", "y"], [Types.INT()] * 2), Point(1, 2)) == Row(x=1, y=2)


def test_s89_tuple_typed_values_arrive_as_tuples():
    pair = Types.TUPLE([Types.INT(), Types.STRING()])

    assert convert(pair, [1, "hi"]) == (1, "hi")
    assert convert(pair, Row(1, "hi")) == (1, "hi")
    assert convert(pair, (1, "hi", "more than was declared")) == (1, "hi")


def test_s89_nested_types_are_followed():
    nested = Types.TUPLE([Types.ROW([Types.BYTE()]), Types.LIST(Types.SHORT()), Types.MAP(Types.STRING(), Types.INT())])

    assert convert(nested, ((300,), (40_000,), {"a": 2**31})) == (Row(f0=44), [-25536], {"a": -(2**31)})


def test_s90_numbers_are_narrowed():
    assert convert(Types.SHORT(), 43878) == -21658
    assert convert(Types.INT(), 9147483648) == 557549056
    assert convert(Types.BYTE(), 128) == -128
    assert convert(Types.LONG(), 2**63) == -(2**63)
    assert convert(Types.FLOAT(), 0.1) == 0.10000000149011612
    assert convert(Types.FLOAT(), 1e300) == float("inf")
    assert convert(Types.SQL_TIME(), datetime.time(11, 2, 2, 234500)) == datetime.time(11, 2, 2)
    assert convert(Types.BIG_INT(), 2**100) == 2**100


@given(
    st.integers(), st.sampled_from([("b", Types.BYTE()), ("h", Types.SHORT()), ("i", Types.INT()), ("q", Types.LONG())])
)
def test_integers_wrap_as_those_of_a_fixed_width_do(number, width):
    code, info = width
    size = struct.calcsize(code)
    expected = struct.unpack(code, (number & ((1 << (8 * size)) - 1)).to_bytes(size, "little"))[0]

    assert convert(info, number) == expected


@given(st.floats(width=64))
def test_a_float_rounded_once_stays_as_it_is(number):
    once = convert(Types.FLOAT(), number)

    assert convert(Types.FLOAT(), once) == once or math.isnan(once)


@pytest.mark.parametrize(
    ("info", "value", "expected"),
    [
        (Types.INT(), True, 1),
        (Types.BOOLEAN(), 1, True),
        (Types.DOUBLE(), 1, 1.0),
        (Types.DOUBLE(), decimal.Decimal("1.5"), 1.5),
        (Types.BIG_DEC(), 1, decimal.Decimal(1)),
        (Types.STRING(), None, None),
        (Types.ROW([Types.INT()]), Row.of_kind(RowKind.DELETE, 1), Row.of_kind(RowKind.DELETE, f0=1)),
        (Types.ROW([Types.INT()]), (None,), Row(f0=None)),
        (Types.SQL_DATE(), datetime.datetime(2020, 1, 2, 3, tzinfo=datetime.UTC), datetime.date(2020, 1, 2)),
        (Types.INSTANT(), Instant(1), Instant(1)),
        (Types.OBJECT_ARRAY(Types.STRING()), ["a", None], ["a", None]),
        (Types.LIST(Types.INT()), None, None),
        (Types.PICKLED_BYTE_ARRAY(), object, object),
    ],
)
def test_what_fits_is_kept(info, value, expected):
    converted = convert(info, value)

    assert converted == expected
    assert type(converted) is type(expected)


@pytest.mark.parametrize(
    ("info", "value", "why"),
    [
        (Types.INT(), "1", "'1' does not fit the declared type Integer: it is no whole number"),
        (Types.INT(), 1.5, "no whole number"),
        (Types.INT(), None, "no whole number"),
        (Types.STRING(), 1, "it is no str"),
        (Types.DOUBLE(), "1", "it is no number"),
        (Types.DOUBLE(), None, "it is no number"),
        (Types.BOOLEAN(), "true", "does not fit the declared type Boolean"),
        (Types.BIG_DEC(), "x", "no decimal number"),
        (Types.BIG_INT(), "x", "no whole number"),
        (Types.INSTANT(), 0, "no Instant"),
        (Types.SQL_DATE(), "2020", "no date"),
        (Types.SQL_TIME(), "1", "no time of day"),
        (Types.SQL_TIMESTAMP(), datetime.date(2020, 1, 1), "no datetime"),
        (Types.TUPLE([Types.INT(), Types.INT()]), (1,), "it has 1 of 2 fields"),
        (Types.TUPLE([Types.INT()]), 1, "no tuple"),
        (Types.ROW([Types.INT(), Types.INT()]), (1,), "it has 1 of 2 fields"),
        (Types.ROW([Types.INT()]), 1, "no row"),
        (Types.ROW_NAMED(["a"], [Types.INT()]), Row(b=1), r"\['a'\] do not exist"),
        (Types.PRIMITIVE_ARRAY(Types.INT()), [1, None], "no whole number"),
        (Types.LIST(Types.STRING()), "ab", "no list"),
        (Types.MAP(Types.STRING(), Types.INT()), [1], "no dict"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_type_and_the_reason(info, value, why):
    with pytest.raises(ValueDoesNotFit, match=why):
        convert(info, value)


def test_a_long_value_is_shown_in_part():
    with pytest.raises(ValueDoesNotFit, match=r"a{50,}\.\.\. does not fit"):
        convert(Types.INT(), "a" * 1000)


def test_values_are_not_changed_in_place():
    given_list = [1, 2]

    assert convert(Types.LIST(Types.INT()), given_list) is not given_list
