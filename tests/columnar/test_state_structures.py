"""Lists and pairs that arrays keep for functions with state: the same as lists and a dict of Python, whatever is done to them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.columnar.kernels.columns import columns_of
from funken.columnar.keyed import keys as pairs
from funken.columnar.keyed import logs as list_log
from funken.columnar.keyed.groups import Stretches
from funken.columnar.keyed.keys import PairSlots
from funken.columnar.keyed.logs import ListLog
from funken.expr.types import INT, STR, Tuple

SLOTS = st.integers(0, 9)
SOME = st.lists(SLOTS, unique=True, max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.dictionaries(SLOTS, st.integers(1, 4), max_size=5), st.booleans()),
        st.tuples(st.just("empty"), SOME),
        st.tuples(st.just("mark_stored"), SOME),
    ),
    max_size=40,
)


@pytest.mark.parametrize("few_items", [0, 8, 4096])
@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_a_log_of_lists_has_what_lists_would_have(few_items: int, steps: list[Any]) -> None:
    lists: dict[int, list[tuple[int, str]]] = {slot: [] for slot in range(12)}
    stored = dict.fromkeys(lists, 0)
    log, number = ListLog(Tuple((INT, STR))), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_log, "_FEW_ITEMS", few_items)
        for what, which, *more in steps:
            if what == "append":
                made = {slot: [(number + each, f"t{slot}") for each in range(count)] for slot, count in which.items()}
                is_stored = more[0] and all(stored[slot] == len(lists[slot]) for slot in made)
                items = [item for added in made.values() for item in added]
                number += len(items)
                log.append(
                    np.array([*made], np.int64), np.array([*which.values()], np.int64),
                    columns_of(items, Tuple((INT, STR))), is_stored,
                )  # fmt: skip
                for slot, added in made.items():
                    lists[slot] += added
                    stored[slot] += len(added) * is_stored
            elif what == "empty":
                log.empty(np.array(which, np.int64))
                lists |= {slot: [] for slot in which}
                stored |= dict.fromkeys(which, 0)
            else:
                log.mark_stored(np.array(which, np.int64))
                stored |= {slot: len(lists[slot]) for slot in which}
            slots = [11, *reversed(range(11)), 3]
            for new in (False, True):
                expected = [lists[slot][stored[slot] * new :] for slot in slots]
                counts, found = log.lists(np.array(slots), new=new)
                assert counts.tolist() == [*map(len, expected)]
                assert found.to_list() == [item for each in expected for item in each]
            assert log.lengths(np.array(slots)).tolist() == [len(lists[slot]) for slot in slots]


def test_items_of_emptied_lists_leave_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_log, "_FEW_ITEMS", 100)
    log = ListLog(INT)
    for number in range(1000):
        log.append(np.array([0, 1 + number % 3]), np.array([5, 1]), columns_of([number] * 6, INT))
        log.empty(np.array([0]))

    assert log.lengths(np.arange(4)).tolist() == [0, 334, 333, 333]
    assert log._items <= 2 * 1000 + 6
    assert len(log._parts) < 20
    assert (
        len(log._runs._last) == len(log._lengths) == 64
    )  # it leaves out items hundreds of times, and has as many slots as before


PAIRS = st.tuples(st.integers(0, 3) | st.integers(0, 2**31 - 1), st.integers(0, 3) | st.integers(0, 2**31 - 1))


@settings(max_examples=150, deadline=None)
@given(blocks=st.lists(st.lists(PAIRS, max_size=30), max_size=20))
def test_pairs_are_numbered_in_the_order_in_which_they_came(blocks: list[list[tuple[int, int]]]) -> None:
    known: dict[tuple[int, int], int] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "_FEWEST", 4)
        slots = PairSlots()
        for block in blocks:
            expected = [known.setdefault(pair, len(known)) for pair in block]
            firsts, seconds = (np.array([pair[side] for pair in block], np.int64) for side in (0, 1))

            assert slots.find(firsts, seconds).tolist() == expected
            assert len(slots) == len(known)
            assert [slots.pair(slot) for slot in range(len(slots))] == [*known]


def test_many_pairs_find_their_places() -> None:
    dice = np.random.default_rng(1)
    known: dict[tuple[int, int], int] = {}
    slots = PairSlots()
    for most in (10, 1000, 100_000, 2**31):
        firsts, seconds = dice.integers(0, most, 20_000), dice.integers(0, most, 20_000)
        expected = [known.setdefault(pair, len(known)) for pair in zip(firsts.tolist(), seconds.tolist(), strict=True)]

        assert slots.find(firsts, seconds).tolist() == expected


FAR = st.one_of(st.integers(0, 40), st.integers(-(1 << 61), 1 << 61))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), FAR, st.integers(0, 9)), min_size=1, max_size=20))
def test_intervals_that_touch_become_one(intervals: list[tuple[int, int, int]]) -> None:
    expected: list[list[int]] = []
    for key, start, length in sorted(intervals):
        if expected and expected[-1][0] == key and start <= expected[-1][2]:
            expected[-1][2] = max(expected[-1][2], start + length)
        else:
            expected.append([key, start, start + length])
    keys, starts, lengths = (np.array(each, np.int64) for each in zip(*intervals, strict=True))
    found = Stretches(keys, starts, starts + lengths)
    assert np.column_stack((found.keys, found.starts, found.ends)).tolist() == expected
    for (key, start, length), number in zip(intervals, found.of_intervals().tolist(), strict=True):
        assert expected[number][0] == key
        assert expected[number][1] <= start
        assert start + length <= expected[number][2]
