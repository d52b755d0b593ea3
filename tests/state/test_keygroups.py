"""Keys to key groups to subtasks: the same everywhere, and equal keys together."""

import dataclasses
import enum
import ipaddress
import subprocess
import sys
import uuid
from collections import namedtuple
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.errors import KeyNotHashable
from funken.state.keygroups import KeyRouter, key_group_of, key_groups_of, stable_hash, subtask_of


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = dataclasses.field(compare=False, default=0)


Pair = namedtuple("Pair", "a b")

KEYS = [
    "word", "", "\ud800", 0, -1, 1 << 70, 1.5, float("inf"), True, None, b"bytes", ("a", 1), (), ("a", ("b", None)),
    frozenset({1, "a"}), Colour.RED, Point(1), Pair(1, 2), date(2024, 2, 29), datetime(2024, 2, 29, tzinfo=UTC),
    timedelta(seconds=1), uuid.UUID(int=5), PurePosixPath("/a"), ipaddress.ip_address("::1"), Decimal("1.1"), Fraction(1, 3),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=lambda key: "set" if isinstance(key, frozenset) else repr(key))
def test_a_hash_is_32_bits(key):
    assert 0 <= stable_hash(key) < 1 << 32


def test_hashes_do_not_depend_on_the_process():
    keys = [key for key in KEYS if type(key).__module__ not in (__name__,)]
    program = (
        "import datetime, decimal, fractions, ipaddress, pathlib, uuid\n"
        "from funken.state.keygroups import stable_hash\nimport pickle, sys\n"
        "print([stable_hash(key) for key in pickle.load(sys.stdin.buffer)])"
    )
    import pickle

    done = [
        subprocess.run(
            [sys.executable, "-c", program],
            input=pickle.dumps(keys),
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert done[0] == done[1] == f"{[stable_hash(key) for key in keys]}\n".encode()


@pytest.mark.parametrize(
    "equal",
    [
        [1, 1.0, True, Decimal(1), Fraction(1)],
        [0, 0.0, -0.0, False],
        [("a", 1), ("a", True), Pair("a", 1.0)],
        [Point(1), Point(1, 5)],
        [frozenset({1, 2}), frozenset({2.0, 1})],
        [datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 13, tzinfo=timezone(timedelta(hours=1)))],
    ],
)
def test_equal_keys_have_equal_hashes(equal):
    assert len(set(equal)) == 1
    assert len({stable_hash(key) for key in equal}) == 1


@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.text(), st.tuples(st.integers(), st.text())))
def test_any_two_equal_keys_have_equal_hashes(key):
    import copy

    assert stable_hash(key) == stable_hash(copy.deepcopy(key))
    if isinstance(key, float) and key.is_integer():
        assert stable_hash(key) == stable_hash(int(key))


@pytest.mark.parametrize("key", [object(), lambda: 1, type("Plain", (), {})()])
def test_a_key_without_a_stable_hash_is_refused(key):
    with pytest.raises(KeyNotHashable, match="no hash that is equal in every process"):
        stable_hash(key)


def test_a_key_may_bring_its_own_hash():
    class Own:
        def __stable_hash__(self):
            return 42

    assert stable_hash(Own()) == stable_hash(Own())


@given(st.integers(1, 200), st.data())
def test_key_groups_are_shared_out_completely_and_evenly(limit, data):
    width = data.draw(st.integers(1, limit))
    shares = [key_groups_of(subtask, limit, width) for subtask in range(width)]

    assert [group for share in shares for group in share] == list(range(limit))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    for subtask, share in enumerate(shares):
        assert all(subtask_of(group, limit, width) == subtask for group in share)


@given(st.text(), st.integers(1, 300))
def test_a_key_group_is_in_range(key, limit):
    assert 0 <= key_group_of(key, limit) < limit


def test_keys_are_spread_evenly():
    groups = [key_group_of(f"user-{number}", 128) for number in range(12_800)]

    counts = [groups.count(group) for group in range(128)]
    assert 50 < min(counts) <= max(counts) < 160


def test_a_router_remembers_and_forgets():
    router = KeyRouter(128, 4, lambda subtask: subtask, limit=10)

    for number in range(100):
        assert router[number] == subtask_of(key_group_of(number, 128), 128, 4)
        assert len(router.known) <= 10


@given(
    st.integers() | st.text() | st.booleans() | st.floats(allow_nan=False) | st.tuples(st.integers(), st.text()),
    st.integers(1, 300),
    st.integers(1, 40),
)
def test_a_router_sends_every_key_to_the_owner_of_its_group(key, most, parallelism):
    parallelism = min(parallelism, most)
    owner = subtask_of(key_group_of(key, most), most, parallelism)
    assert KeyRouter(most, parallelism, lambda subtask: subtask)[key] == owner
