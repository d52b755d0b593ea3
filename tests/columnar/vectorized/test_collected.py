"""Lists of records as columns: what they give back is what was given, to the type of the last value; or they are refused."""

import collections
import dataclasses
import datetime
import decimal
import enum
import math
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken import Row
from funken.columnar.expressions import NotVectorizable
from funken.columnar.vectorized.results import columns_of_alike
from funken.expr.types import FLOAT, INT, NONE, STR, ListOf, Tuple


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class Visit:
    user: Any
    at: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    user: Any


class Colour(enum.Enum):
    RED = 1


class Text(str):
    __slots__ = ()


_SINGLE = [
    st.integers(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans(), st.text(max_size=3), st.none(),
    st.binary(max_size=3), st.dates(), st.datetimes(), st.datetimes(timezones=st.just(datetime.UTC)), st.timedeltas(),
    st.decimals(), st.sampled_from(Colour), st.just(Text("t")), st.characters(codec=None).map(str),
]  # fmt: skip


@st.composite
def alike(draw: Any, depth: int = 2) -> Any:
    """A strategy of records that are alike; or nearly."""
    if depth == 0 or draw(st.booleans()):
        return st.one_of(draw(st.lists(st.sampled_from(_SINGLE), min_size=1, max_size=2)))
    fields = draw(st.lists(alike(depth - 1), min_size=2, max_size=2))
    form = draw(st.integers(0, 6))
    if form == 0:
        return st.tuples(*fields)
    if form == 1:
        return st.fixed_dictionaries(dict(zip("ab", fields, strict=True)))
    if form == 2:
        return st.builds(Pair, *fields)
    if form == 3:
        return st.builds(Visit, *fields)
    if form == 4:
        return st.builds(Slotted, fields[0])
    if form == 5:
        return st.builds(lambda a, b: Row(a=a, b=b), *fields)
    return st.lists(fields[0], max_size=3)


def shown(value: Any) -> Any:
    """A value with the types of all that is in it; fields of a Row have names that ``repr`` shows."""
    if isinstance(value, tuple | list):
        return type(value), [shown(each) for each in value]
    if isinstance(value, dict):
        return dict, [(name, shown(each)) for name, each in value.items()]
    if isinstance(value, Row):
        return Row, value._fields, [shown(each) for each in value._values]
    if dataclasses.is_dataclass(value):
        return type(value), [shown(getattr(value, each.name)) for each in dataclasses.fields(value)]
    return type(value), repr(value)


@given(alike().flatmap(lambda records: st.lists(records, min_size=1, max_size=6)))
def test_records_come_back_as_they_were(records):
    try:
        block = columns_of_alike(records)
    except NotVectorizable as reason:
        assert str(reason).startswith("has elements with ")
    else:
        assert shown(block.to_list()) == shown(records)
        assert shown(block[1:3].to_list()) == shown(records[1:3])


@pytest.mark.parametrize(
    ("records", "schema"),
    [
        ([1, -(2**63)], INT),
        ([1, 2.5], "int or float"),
        ([math.nan, -0.0], FLOAT),
        ([None, None], NONE),
        ([("a", None), ("b", 1.5)], "(str, float?)"),
        ([{"x": [1], "y": {"z": b""}}, {"x": [], "y": {"z": b"1"}}], "{x: list of int, y: {z: bytes}}"),
        ([Row(a=1, b=decimal.Decimal("1.0"))], "Row(a: int, b: Decimal)"),
        ([Visit("ann", datetime.date(2026, 1, 1))], "Visit(user: str, at: date)"),
        ([[("a", 1)], [], [("b", 2)]], ListOf(Tuple((STR, INT)))),
    ],
)
def test_the_schema_is_exact(records, schema):
    block = columns_of_alike(records)

    assert str(block.schema) == str(schema)
    assert shown(block.to_list()) == shown(records)


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([1, True], "values of the types bool, int in the same place"),
        ([1, 2**63], "ints of more than 64 bits"),
        ([None, 2**63], "ints of more than 64 bits"),
        ([1, None, 2.0], "values of the types NoneType, float, int in the same place"),
        (["a", "\ud800"], "text that has no encoding"),
        ([(1,), (1, 2)], "different fields"),
        ([(), ()], "no fields"),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], "different fields"),
        ([{1: 2}], "values of the type dict, of which there are no columns"),
        ([Row(1, 2)], "values of the type Row, of which there are no columns"),
        ([Row(a=1), Row(b=1)], "different fields"),
        ([Text("t")], "values of the type Text, of which there are no columns"),
        ([Colour.RED], "values of the type Colour, of which there are no columns"),
        ([collections.Counter("a")], "values of the type Counter, of which there are no columns"),
        ([[], []], "lists, and no value in them shows their type"),
        ([{"a": (1, 2)}, {"a": None}], "values of the types NoneType, tuple in the same place"),
    ],
)
def test_other_records_are_refused(records, reason):
    with pytest.raises(NotVectorizable, match=f"^has elements with {reason}"):
        columns_of_alike(records)


def test_an_object_with_more_attributes_than_its_class_is_refused():
    visit = Visit("ann", 1)
    visit.other = 2

    with pytest.raises(NotVectorizable, match="different fields"):
        columns_of_alike([Visit("bob", 2), visit])
