"""Keys of every kind: equal ones have one hash, one encoding and one place in a dict, and different ones have not."""
# ruff: noqa: DTZ001 - times of no zone are keys as well

import dataclasses
import datetime as dt
import ipaddress
import itertools
import pathlib
import pickle
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import Row
from funken.errors import KeyNotHashable
from funken.state.keygroups import normal_key, stable_hash
from funken.state.rocksdb.layout import encode_key
from tests.state.key_table import (
    EQUAL,
    HOUR,
    KEYS,
    REFUSED,
    Colour,
    Folded,
    Level,
    Noted,
    Owned,
    Pair,
    Point,
    Right,
)


def is_nan(key):
    """Return True for a key that is not equal to a copy of itself: it has a NaN in it."""
    return not equal(key, pickle.loads(pickle.dumps(key)))


def equal(one, other):
    try:
        return hash(one) == hash(other) and bool(one == other)
    except (
        TypeError,
        ValueError,
        OverflowError,
    ):  # NA of pandas; NumPy: times without a common unit, ints of many digits
        return one is other


def leads_on(one, other):
    """Return True if Python's ``==`` of two keys agrees with that of all others: NumPy's does not, of these."""
    kinds = (type(one), type(other))
    times = any(issubclass(kind, np.datetime64 | np.timedelta64) for kind in kinds)
    exact = any(issubclass(kind, Decimal | Fraction) for kind in kinds) and any(
        issubclass(k, np.generic) for k in kinds
    )
    return not times and not exact


def test_the_table_agrees_with_python():
    assert len({type(key) for _, key in KEYS}) >= 60
    whole = [(number, key) for number, key in KEYS if not is_nan(key)]
    for (one, key), (other, another) in itertools.combinations(whole, 2):
        if leads_on(key, another):
            assert equal(key, another) == (one == other), (key, another)


def test_equal_keys_have_equal_hashes_and_bytes():
    for keys in EQUAL:
        assert len({stable_hash(key) for key in keys}) == 1, keys
        assert len({encode_key(key) for key in keys}) == 1, keys


def test_different_keys_have_different_bytes():
    by_bytes = {}
    for number, key in KEYS:
        assert by_bytes.setdefault(encode_key(key), number) == number, (key, EQUAL[by_bytes[encode_key(key)]])


@pytest.mark.parametrize("copied", [False, True])
def test_a_dict_finds_equal_keys_and_no_others(copied):
    normal = [(number, normal_key(pickle.loads(pickle.dumps(key)) if copied else key)) for number, key in KEYS]
    for (one, key), (other, another) in itertools.product(normal, repeat=2):
        assert ((key, 0) in {(another, 0): None}) == (one == other), (key, another)


def test_keys_inside_keys_are_compared_as_they_are_alone():
    for number, key in KEYS:
        first = EQUAL[number][0]
        assert stable_hash(("in", key)) == stable_hash(("in", first))
        assert encode_key(frozenset({key})) == encode_key(frozenset({first}))
        assert normal_key(("in", key)) == normal_key(("in", first))


def leaf(drawn):
    number, one, other = drawn
    keys = EQUAL[number]
    return number, keys[one % len(keys)], keys[other % len(keys)]


def branch(make, unordered=False):
    """Put parts together: what tells the branch apart, and two keys that are equal."""

    def joined(parts):
        names, ones, others = zip(*parts, strict=True)
        name = frozenset(names) if unordered else names
        try:
            return (make.__name__, name), make(*ones), make(*others)
        except TypeError:  # Python's own set of NumPy's ints and decimals
            return (make.__name__, name[:0] if isinstance(name, tuple) else frozenset()), make(), make()

    return joined


def items(*parts):
    return ("items", *parts)


def row(*parts):
    return Row(**{f"field {place}": part for place, part in enumerate(parts)}, row=True)


def members(*parts):
    return frozenset({"members", *parts})


@dataclasses.dataclass(frozen=True)
class Branch:
    one: Any = None
    other: Any = "none"


LEAVES = st.tuples(st.integers(0, len(EQUAL) - 1), st.integers(0, 9), st.integers(0, 9)).map(leaf)
NESTED = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(branch(items)),
        st.lists(inner, min_size=1, max_size=3).map(branch(row)),
        st.lists(inner, min_size=2, max_size=2).map(branch(Branch)),
        st.lists(inner, min_size=1, max_size=3).map(branch(members, unordered=True)),
    ),
    max_leaves=6,
)


@settings(max_examples=300)
@given(NESTED, NESTED)
def test_nested_keys_are_equal_if_their_parts_are(one, other):
    (name, key, equal_key), (other_name, other_key, _) = one, other
    key, equal_key, other_key = (normal_key(pickle.loads(pickle.dumps(each))) for each in (key, equal_key, other_key))

    assert stable_hash(key) == stable_hash(equal_key)
    assert encode_key(key) == encode_key(equal_key)
    assert (key, 0) in {(equal_key, 0)}
    assert (encode_key(key) == encode_key(other_key)) == (name == other_name)
    assert ((key, 0) in {(other_key, 0)}) == (name == other_name)


@pytest.mark.parametrize("key", REFUSED, ids=lambda key: type(key).__name__)
@pytest.mark.parametrize("take", [stable_hash, encode_key])
def test_a_key_without_a_form_is_refused(take, key):
    for one in (key, ("in", key)):
        with pytest.raises(KeyNotHashable, match=r"no hash that is equal in every process.*__stable_hash__"):
            take(one)


@pytest.mark.parametrize("key", [[1], {1: 2}, np.array([1])], ids=lambda key: type(key).__name__)
def test_a_key_that_can_change_is_refused(key):
    with pytest.raises(KeyNotHashable, match=rf"unhashable type: '{type(key).__name__}'.*for example a tuple"):
        stable_hash(("a", key))


PINNED = [
    (None, 2654435769),
    (0, 0),
    (-1, 1364076727),
    (1.5, 971452607),
    (1 << 70, 423162214),
    (True, 1364076727),
    (Decimal("0.1"), 1525312521),
    (1 + 2j, 693929214),
    ("", 0),
    ("open", 1006781357),
    ("\ud800", 2956585793),
    (b"open", 3239559674),
    ((), 3430008),
    (("a", (1, None)), 4040094665),
    (Pair("a", 2), 1505536875),
    (frozenset({1, "a"}), 1492552948),
    (Colour.RED, 3138309152),
    (Level.LOW, 1364076727),
    (Right.READ, 4049784941),
    (Point(1, "a"), 691348226),
    (Noted(1), 3251299010),
    (Owned("a"), 1998970719),
    (Row(1, 2), 1342134777),
    (Row(a=1), 3219525391),
    (dt.date(2024, 2, 29), 1339983870),
    (dt.datetime(2024, 2, 29, 12, 0, 0, 5), 1165037954),
    (dt.datetime(2024, 1, 1, 12, 0, 0, 5, tzinfo=HOUR), 654573105),
    (dt.time(12), 1515427296),
    (dt.time(12, tzinfo=dt.UTC), 3838282680),
    (dt.timedelta(1, 2, 3), 2345371193),
    (uuid.UUID(int=5), 3581771970),
    (pathlib.PosixPath("a/b"), 4140844746),
    (ipaddress.ip_address("10.0.0.1"), 4057785776),
    (ipaddress.ip_address("::1"), 1993845191),
    (np.int64(7), 415870660),
    (pd.Timestamp("2024-02-29"), 21341275),
    (pd.Timedelta("1s"), 1614070686),
    (Folded("ab"), 4289324689),
]


@pytest.mark.parametrize(("key", "expected"), PINNED, ids=lambda value: type(value).__name__)
def test_hashes_are_those_of_the_versions_before(key, expected):
    """State that was saved goes where the key is: a hash must never change."""
    assert stable_hash(key) == expected
