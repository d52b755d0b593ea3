"""What a declared type makes of columns is what its converter makes of their records, or the block goes through in rows."""

import datetime
import decimal
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.columnar.block import RowBlock
from funken.columnar.declared import Conversion, conversion_of
from funken.columnar.expressions import NotVectorizable
from funken.columnar.kernels.columns import BlocksConverted, Column, Columns, columns_of, converted
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.records import fits, made_of_fields
from funken.errors import ValueDoesNotFit
from funken.expr.types import (
    BOOL,
    DATACLASS,
    DICT,
    FLOAT,
    HIGHEST,
    INT,
    LOWEST,
    NAMED_TUPLE,
    NONE,
    NUMBER,
    ROW,
    STR,
    Atomic,
    ListOf,
    Object,
    Optional,
    Record,
    Tuple,
)
from funken.types import Row, Types
from funken.types.convert import converter
from funken.types.info import BasicTypeInfo

Pair = namedtuple("Pair", "a b")


@dataclass
class Point:
    a: Any
    b: Any


@dataclass(slots=True)
class Slotted:
    a: Any
    b: Any


INTS = st.one_of(
    st.integers(LOWEST, HIGHEST),
    st.integers(-300, 300),
    st.sampled_from([s * (1 << b) + d for b in (7, 8, 15, 31, 32, 53) for d in (-1, 0, 1) for s in (-1, 1)]),
)
VALUES: dict[Atomic, st.SearchStrategy[Any]] = {
    INT: INTS,
    FLOAT: st.floats(),
    BOOL: st.booleans(),
    STR: st.text(alphabet="aé0", max_size=3),
    NONE: st.none(),
    Optional(INT): st.none() | INTS | st.just(2**70),
    Optional(FLOAT): st.none() | st.floats(),
    Optional(STR): st.none() | st.text(alphabet="a", max_size=2),
    Optional(BOOL): st.none() | st.booleans(),
    NUMBER: INTS | st.floats(),
    Object("Decimal"): st.decimals(allow_nan=False),
    Object("date"): st.dates(),
    Object("datetime"): st.datetimes() | st.datetimes(timezones=st.just(datetime.UTC)),
    Object("bytes"): st.binary(max_size=2),
}
BASIC = [
    Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.FLOAT(), Types.DOUBLE(), Types.BOOLEAN(), Types.STRING(),
    Types.CHAR(), Types.BIG_INT(), Types.BIG_DEC(), Types.SQL_DATE(), Types.SQL_TIMESTAMP(), Types.SQL_TIME(),
    Types.INSTANT(), Types.PICKLED_BYTE_ARRAY(), Types.PRIMITIVE_ARRAY(Types.BYTE()),
]  # fmt: skip
TYPES = st.recursive(
    st.sampled_from(BASIC),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(Types.ROW),
        st.lists(inner, min_size=1, max_size=3).map(Types.TUPLE),
        st.lists(inner, min_size=2, max_size=2).map(lambda two: Types.ROW_NAMED(["b", "a"], two)),
        inner.map(Types.LIST),
        inner.map(Types.PRIMITIVE_ARRAY),
        inner.map(lambda one: Types.MAP(Types.STRING(), one)),
    ),
    max_leaves=4,
)


def named(two: list[Any], form: str, cls: type | None = None) -> Record:
    return Record(two, form, ("a", "b"), cls)


SCHEMAS = st.recursive(
    st.sampled_from(sorted(VALUES, key=str)),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(Tuple),
        st.lists(inner, min_size=2, max_size=2).map(lambda two: named(two, ROW)),
        st.lists(inner, min_size=2, max_size=2).map(lambda two: named(two, DICT)),
        st.lists(inner, min_size=2, max_size=2).map(lambda two: named(two, NAMED_TUPLE, Pair)),
        st.lists(inner, min_size=2, max_size=2).map(lambda two: named(two, DATACLASS, Point)),
        inner.map(ListOf),
    ),
    max_leaves=4,
)


def records(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, ListOf):
        return st.lists(records(schema.element), max_size=3)
    if isinstance(schema, Atomic):
        return VALUES[schema]
    fields = st.tuples(*map(records, schema))
    if not isinstance(schema, Record):
        return fields
    return fields.map(lambda values: made_of_fields(schema, [[value] for value in values])[0])


def type_of_schema(schema: Any) -> Any:
    """Return a type that fits most values of a schema."""
    if isinstance(schema, ListOf):
        return Types.LIST(type_of_schema(schema.element))
    if isinstance(schema, Record) and schema.form != NAMED_TUPLE:
        return Types.ROW_NAMED(list(schema.names), list(map(type_of_schema, schema)))
    if not isinstance(schema, Atomic):
        return Types.ROW(list(map(type_of_schema, schema)))
    found = {INT: Types.INT(), FLOAT: Types.FLOAT(), BOOL: Types.BOOLEAN(), STR: Types.STRING()}
    return found.get(schema.required, Types.PICKLED_BYTE_ARRAY())


def exact(value: Any) -> Any:
    """Return what tells values of other types apart, and each number that is none from others."""
    if isinstance(value, Row):
        return ("Row", value._fields, [exact(each) for each in value], value.get_row_kind())
    if isinstance(value, dict):
        return (type(value), [(key, exact(each)) for key, each in value.items()])
    if isinstance(value, tuple | list):
        return (type(value), [exact(each) for each in value])
    return (type(value), repr(value))


def check(schema: Any, type_info: Any, values: list[Any]) -> None:
    try:
        conversion = conversion_of(schema, type_info)
    except NotVectorizable as reason:
        assert str(reason).startswith("declares ")
        return
    try:
        expected = list(map(converter(type_info), values))
    except ValueDoesNotFit:
        expected = None
    try:
        made = converted(columns_of(values, schema), conversion)
    except FallBackToRows:
        return
    assert expected is not None
    assert exact(made.to_list()) == exact(expected)
    assert made.schema == conversion.schema
    again = conversion_of(made.schema, type_info)
    assert again.schema == conversion.schema


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_columns_of_any_schema_become_what_their_records_become(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    type_info = data.draw(st.one_of(st.just(type_of_schema(schema)), TYPES))
    check(schema, type_info, data.draw(st.lists(records(schema), max_size=4)))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(VALUES, key=str)), st.sampled_from(BASIC), st.booleans(), st.data())
def test_a_column_becomes_what_its_values_become(kind: str, type_info: Any, within: bool, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES[kind], max_size=4))
    if within:
        check(Tuple((kind,)), Types.ROW([type_info]), [(value,) for value in values])
    else:
        check(kind, type_info, values)


def made_of(schema: Any, type_info: Any, values: list[Any]) -> list[Any]:
    return converted(columns_of(values, schema), conversion_of(schema, type_info)).to_list()


def test_ints_wrap_and_others_become_what_was_declared() -> None:
    assert made_of(INT, Types.BYTE(), [127, 128, -129]) == [127, -128, 127]
    assert made_of(Tuple((INT, BOOL)), Types.ROW([Types.INT(), Types.DOUBLE()]), [(2**31, True)]) == [
        Row(f0=-(2**31), f1=1.0)
    ]
    assert made_of(FLOAT, Types.FLOAT(), [0.1, 1e300]) == [0.10000000149011612, float("inf")]
    assert made_of(Optional(INT), Types.LONG(), [2**63]) == [-(2**63)]


@pytest.mark.parametrize("value", [True, 2**31 + 5, -3])
def test_a_value_that_all_records_have_is_converted_once(value: Any) -> None:
    kind = BOOL if type(value) is bool else INT
    for type_info in (Types.INT(), Types.BOOLEAN(), Types.DOUBLE(), Types.FLOAT()):
        try:
            conversion = conversion_of(kind, type_info)
        except NotVectorizable:
            assert (kind, type_info) == (BOOL, None)
        block = converted(Columns(kind, [Column(kind, value, True)], 3), conversion)
        assert block.leaves[0].constant
        assert exact(block.to_list()) == exact([converter(type_info)(value)] * 3)


def test_a_column_within_the_bounds_is_handed_on_as_it_is() -> None:
    block = columns_of([(1, "a"), (2, "b")], Tuple((INT, STR)))

    made = converted(block, conversion_of(block.schema, Types.ROW([Types.INT(), Types.STRING()])))

    assert all(one is other for one, other in zip(made.leaves, block.leaves, strict=True))


def test_a_block_of_no_records_has_the_schema_of_the_type() -> None:
    block = columns_of([], Tuple((INT, INT)))

    made = converted(block, conversion_of(block.schema, Types.TUPLE([Types.INT(), Types.DOUBLE()])))

    assert (made.schema, made.to_list()) == (Tuple((INT, FLOAT)), [])


@pytest.mark.parametrize(
    ("schema", "type_info", "reason"),
    [
        (FLOAT, Types.INT(), "declares Integer, and gives it float"),
        (STR, Types.DOUBLE(), "declares Double, and gives it str"),
        (NONE, Types.INT(), "declares Integer, and gives it None"),
        (Tuple((INT,)), Types.INT(), "declares Integer, and gives it (int,)"),
        (Tuple((INT,)), Types.TUPLE([Types.INT()] * 2), "which has 1 of 2 fields"),
        (named([INT, INT], DICT), Types.TUPLE([Types.INT()]), "and gives it {a: int, b: int}"),
        (named([INT, INT], ROW), Types.ROW([Types.INT()]), "which has no 'f0'"),
        (named([INT, INT], DATACLASS, Slotted), Types.ROW_NAMED(["a"], [Types.INT()]), "gives it Slotted"),
        (Optional(ListOf(INT)), Types.LIST(Types.INT()), "and gives it list of int?"),
    ],
)
def test_what_may_be_something_else_in_rows_is_refused_with_the_reason(
    schema: Any, type_info: Any, reason: str
) -> None:
    with pytest.raises(NotVectorizable) as refused:
        conversion_of(schema, type_info)
    assert reason in str(refused.value)


def test_blocks_that_are_no_columns_or_do_not_fit_are_left_to_the_converter() -> None:
    convert = BlocksConverted(Types.INT())

    assert convert(RowBlock([1])) is None
    assert convert(columns_of([1, None], Optional(INT))) is None
    assert convert(columns_of([1, 2], Optional(INT))).to_list() == [1, 2]  # type: ignore[union-attr]
    assert convert(columns_of(["a"], STR)) is None
    assert convert(columns_of([True], BOOL)).to_list() == [1]  # type: ignore[union-attr]


def test_a_conversion_says_whether_it_keeps_all_values() -> None:
    kept: Conversion = conversion_of(Tuple((STR, INT)), Types.ROW([Types.STRING(), Types.LONG()]))

    assert kept.keeps_values
    assert not conversion_of(INT, Types.INT()).keeps_values
    assert isinstance(kept.leaves[0].type_info, BasicTypeInfo)
    assert fits(Row(f0="a", f1=1), kept.schema)
    assert made_of(Object("Decimal"), Types.DOUBLE(), [decimal.Decimal("0.5")]) == [0.5]
