"""Types are equal by what they are, in every process, and print as ``explain()`` shows them."""

import pickle
from typing import NamedTuple

import pytest

from funken.columnar.keyed.codec import type_of
from funken.expr.types import (
    BOOL,
    DICT,
    FLOAT,
    INT,
    NAMED_TUPLE,
    NONE,
    NUMBER,
    STR,
    ListOf,
    Object,
    Optional,
    Record,
    Tuple,
    Type,
    atomic_fields,
    optional,
)


class Point(NamedTuple):
    """A class of records."""

    x: int


NAMED = Record((INT, Optional(STR)), DICT, ("n", "text"))
SHOWN: list[tuple[Type, str]] = [
    (INT, "int"),
    (NUMBER, "int or float"),
    (Object("datetime"), "datetime"),
    (Optional(BOOL), "bool?"),
    (ListOf(Optional(INT)), "list of (int?)"),
    (Optional(ListOf(NAMED)), "list of {n: int, text: str?}?"),
    (Tuple((STR,)), "(str,)"),
    (Tuple((STR, Tuple((FLOAT, INT)))), "(str, (float, int))"),
    (Record((INT,), NAMED_TUPLE, ("x",), Point), "Point(x: int)"),
]


@pytest.mark.parametrize(("of", "shown"), SHOWN)
def test_a_type_is_shown_and_survives_pickling(of: Type, shown: str) -> None:
    again = pickle.loads(pickle.dumps(of))

    assert str(of) == shown
    assert again == of
    assert hash(again) == hash(of)
    assert [each for each, _ in SHOWN if each == of] == [of]


def test_types_without_parts_are_one_object_each() -> None:
    assert all(pickle.loads(pickle.dumps(each)) is each for each in (INT, FLOAT, BOOL, STR, NONE, NUMBER))


def test_a_record_is_no_tuple_and_neither_is_a_tuple_of_python() -> None:
    assert Record((INT,), DICT, ("x",)) != Tuple((INT,))
    assert Tuple((INT,)) != Record((INT,), DICT, ("x",))
    assert Tuple((INT,)) != (INT,)


def test_only_atomic_types_become_optional_and_none_is_it_already() -> None:
    assert optional(INT) == Optional(INT) == optional(optional(INT))
    assert optional(NONE) is NONE
    assert optional(INT).required is INT
    assert not NAMED.is_optional


def test_fields_are_those_of_records_within_and_keep_the_class_around_them() -> None:
    outer = NAMED.with_fields([FLOAT, INT])

    assert (outer.form, outer.names, tuple(outer)) == (DICT, ("n", "text"), (FLOAT, INT))
    assert atomic_fields(Tuple((INT, NAMED))) == [((0,), INT), ((1, 0), INT), ((1, 1), Optional(STR))]


def test_texts_of_the_version_before_become_types() -> None:
    assert type_of(("int", ("str?", "object"))) == Tuple((INT, Tuple((Optional(STR), Object("object")))))
