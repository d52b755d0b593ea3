"""Aggregates of blocks by key: by a table of numbers, or by Arrow, what a loop over the records gives."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.columnar.kernels.columns import FallBackToRows, columns_of
from funken.columnar.keyed.groups import NumberedGroups
from funken.columnar.keyed.relational import aggregated
from funken.expr.types import FLOAT, INT, STR, Tuple

FOLDS = {
    "first": lambda one, other: one,
    "last": lambda one, other: other,
    "sum": lambda one, other: one + other,
    "min": min,
    "max": max,
}
SCHEMA = Tuple((INT, INT, FLOAT, STR))


def by_loop(records, hows):
    found = {}
    for record in records:
        so_far = found.get(record[0])
        fields = (
            record if so_far is None else [FOLDS[how](*both) for how, *both in zip(hows, so_far, record, strict=True)]
        )
        found[record[0]] = tuple(fields)
    return sorted(found.values())


numbers = st.integers(-50, 50)
records = st.tuples(
    st.one_of(numbers, st.integers(-(2**40), 2**40)), numbers, st.floats(-1e6, 1e6).map(lambda x: x + 0.0), st.text(max_size=2)
)  # fmt: skip


@settings(deadline=None, max_examples=150)
@given(
    st.lists(records, min_size=1, max_size=60),
    st.tuples(*map(st.sampled_from, (["first", "last"], sorted(FOLDS), sorted(FOLDS), ["first", "last"]))),
)
def test_aggregates_are_those_of_a_loop(given_records, hows):
    found = aggregated(columns_of(given_records, SCHEMA), [0], hows)

    assert sorted(found.to_list()) == by_loop(given_records, hows)


@pytest.mark.parametrize("spread", [1, 1 << 30])
def test_many_records_have_the_sums_of_a_loop(spread):
    chance = random.Random(3)
    given_records = [(chance.randrange(9000) * spread, 1, chance.random(), "") for _ in range(70_000)]
    hows = ("first", "sum", "sum", "last")

    found = aggregated(columns_of(given_records, SCHEMA), [0], hows).to_list()

    assert sorted(found) == by_loop(given_records, hows)


def test_a_narrow_range_is_a_table_whose_groups_keep_their_order(monkeypatch):
    made = []
    init = NumberedGroups.__init__
    monkeypatch.setattr(NumberedGroups, "__init__", lambda self, *given: made.append(given[1:]) or init(self, *given))
    narrow = [(key, 1, 0.5, "") for key in (9, 4, 9, 7)]

    found = aggregated(columns_of(narrow, SCHEMA), [0], ("last", "sum", "max", "first")).to_list()
    aggregated(columns_of([(key << 40, *rest) for key, *rest in narrow], SCHEMA), [0], ("last", "sum", "max", "first"))

    assert found == [(9, 2, 0.5, ""), (4, 1, 0.5, ""), (7, 1, 0.5, "")]
    assert made == [(4, 6)]


@pytest.mark.parametrize("spread", [1, 1 << 40])
@pytest.mark.parametrize("seed", range(20))
def test_of_equal_zeros_the_first_is_the_least_and_the_greatest(spread, seed):
    chance = random.Random(seed)
    numbers = [chance.choice((0.0, -0.0, 0.0, -0.0, 1.5, -1.5)) for _ in range(30)]
    given_records = [(chance.randrange(9) * spread, 1, number, "") for number in numbers]
    for how in ("min", "max", "sum"):
        hows = ("first", "sum", how, "last")
        found = aggregated(columns_of(given_records, SCHEMA), [0], hows).to_list()
        assert list(map(repr, sorted(found))) == list(map(repr, by_loop(given_records, hows)))


@pytest.mark.parametrize("how", ["min", "max"])
def test_nan_has_no_place_in_an_order(how):
    given_records = [(1, 1, 0.5, ""), (1, 1, float("nan"), ""), (1 << 40, 1, 0.5, "")]
    for some in (given_records[:2], given_records):  # a table, and Arrow
        with pytest.raises(FallBackToRows, match="NaN"):
            aggregated(columns_of(some, SCHEMA), [0], ("first", "sum", how, "last"))


@pytest.mark.parametrize("spread", [1, 1 << 40])
def test_a_sum_of_nothing_but_negative_zeros_is_one(spread):
    given_records = [
        (key * spread, 1, value, "") for key, value in ((1, -0.0), (2, 0.0), (1, -0.0), (2, -0.0), (3, -1.5))
    ]

    found = aggregated(columns_of(given_records, SCHEMA), [0], ("last", "sum", "sum", "first")).to_list()

    assert {key // spread: repr(total) for key, _, total, _ in found} == {1: "-0.0", 2: "0.0", 3: "-1.5"}
