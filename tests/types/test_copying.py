"""Copies of records: equal, of the same type, and sharing nothing that can be changed."""

import collections
import copy
import datetime
import decimal
import enum
import pickle
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken import Row
from funken.errors import RecordNotCopied
from funken.types.copying import can_change, copied, copied_block


class Colour(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Order:
    items: Any
    price: int = 1


@dataclass(frozen=True)
class Key:
    value: Any


@dataclass(slots=True)
class Slots:
    value: Any


class Attributed(tuple):
    """A tuple with attributes."""


class Closed:
    """Its copies are made by a method."""

    def __init__(self, items):
        self.items = items

    def __eq__(self, other):
        return isinstance(other, Closed) and self.items == other.items

    __hash__ = None

    def __repr__(self):
        return f"Closed({self.items})"

    def __reduce__(self):
        return Closed, (self.items,)


FIXED = [
    1, True, 1.5, 1j, "a", b"b", None, ..., Colour.RED, range(3), (), (1, ("a", (None,))), frozenset({1}), Pair(1, "a"),
    datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), datetime.timedelta(1), decimal.Decimal(1), len, int,
    np.float64(1.5), np.int64(3),
]  # fmt: skip
CHANGEABLE = [
    [], {}, set(), bytearray(b"a"), [1, "a"], {"a": 1}, {"a": [1]}, [[1]], ([1], 1), (1, (2, [3])), Pair([1], 2), {1, 2},
    Order(1), Order([1]), Key([1]), Slots([1]), Closed([1]), Row(a=1, b="x"), Row(a=[1]), Row(1, 2), Attributed((1, 2)),
    collections.Counter("aab"), collections.deque([1]), collections.OrderedDict(a=1), np.array([1, 2]).tolist(),
]  # fmt: skip


@pytest.mark.parametrize("record", FIXED, ids=repr)
def test_what_cannot_be_changed_is_its_own_copy(record):
    assert copied(record) is record
    assert not can_change([record])
    block = [record, record]
    assert copied_block(block) is block


@pytest.mark.parametrize("record", CHANGEABLE, ids=repr)
def test_what_can_be_changed_is_copied(record):
    for made in (copied(record), copied_block([1, record])[1]):
        assert made is not record
        assert type(made) is type(record)
        assert made == record
        assert repr(made) == repr(record)
    assert can_change(["a", record])


def test_a_frozen_dataclass_of_what_cannot_be_changed_is_its_own_copy():
    key = Key((1, 2) and 3)
    assert copied(key) is key


def shared(one, other):
    """Whether two values of the same shape share something that can be changed."""
    if isinstance(one, list):
        return one is other or any(map(shared, one, other))
    if isinstance(one, dict):
        return one is other or any(map(shared, one.values(), other.values()))
    if isinstance(one, tuple):
        return any(map(shared, one, other))
    if isinstance(one, Row | Order):
        return one is other or any(map(shared, vars_of(one), vars_of(other)))
    return False


def vars_of(record):
    return list(record) if isinstance(record, Row) else list(vars(record).values())


scalars = st.none() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False)
records = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.builds(Pair, inner, inner)
        | st.builds(Order, inner)
        | st.lists(inner, max_size=3).map(lambda values: Row(*values))
    ),
    max_leaves=12,
)


@given(st.lists(records, max_size=5))
def test_copies_share_nothing_that_can_be_changed(block):
    before = pickle.dumps(block)
    for made in (copied_block(block), [copied(record) for record in block]):
        assert made == block
        assert not any(map(shared, block, made))
    assert pickle.dumps(block) == before


def test_what_is_shared_or_circular_within_a_record_stays_so():
    part = [1]
    made = copied([part, part])
    assert made[0] is made[1]
    circle = []
    circle.append(circle)
    made = copied(circle)
    assert made is not circle
    assert made[0] is made


def test_records_of_classes_that_cannot_be_imported():
    @dataclass
    class Local:
        items: list[int]

    made = copied({"key": [Local([1])]})
    assert made == {"key": [Local([1])]}
    (again,) = copied_block([Local([2])])
    assert again == Local([2])


def test_a_class_with_a_hook_is_copied_by_it():
    class Hooked:
        def __deepcopy__(self, memo):
            return "a copy"

        def __reduce__(self):
            raise TypeError("not by pickle")

    assert copied(Hooked()) == copy.deepcopy(Hooked())


def test_what_cannot_be_copied():
    with pytest.raises(
        RecordNotCopied, match="'generator' can be changed.*Emit plain data, or set pipeline.object-reuse"
    ):
        copied(x for x in [1])
    with pytest.raises(RecordNotCopied, match="'dict'"):
        copied_block([{"key": (x for x in [1])}])
