"""Columns: exactly the Python objects they were made of, on the wire too; keys to subtasks as on the record path."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.columnar.kernels.columns import Column, Columns, column_of, columns_of, joined
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.kernels.text import concatenated, contains, joined_text
from funken.columnar.keyed.codec import TAG, decode_block, encode_block
from funken.columnar.keyed.groups import Groups, running_sum
from funken.columnar.keyed.keys import KeyTargets, Slots, column_of_keys
from funken.expr.types import BOOL, FLOAT, INT, STR, Tuple
from funken.runtime.exchange.gate import COLUMNS
from funken.state.keygroups import key_group_of, subtask_of

INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200) | st.sampled_from([2**61 - 1, -(2**61), 2**32])
TEXTS = st.text("ab\u00e9\U0001f600", max_size=3)
RECORDS = st.lists(st.tuples(INTS, st.floats(), TEXTS, st.booleans()), min_size=1, max_size=8)
SHAPE = Tuple((INT, FLOAT, STR, BOOL))


@settings(max_examples=40, deadline=None)
@given(RECORDS, RECORDS, st.integers(0, 8))
def test_columns_are_the_records_they_were_made_of(records: list[Any], more: list[Any], cut: int) -> None:
    block = columns_of(records, SHAPE)
    stamps = np.array([number for number, *_ in records])
    both = joined([block, columns_of(more, SHAPE)])[cut:]
    assert repr(block.to_list()) == repr(records)
    assert repr(both.to_list()) == repr([*records, *more][cut:])
    kept = np.array([record[3] for record in records])
    assert repr(block.keep(kept).to_list()) == repr([record for record in records if record[3]])
    for each, times in ((block, None), (block, stamps), (both, None)):
        if len(each):
            payload = encode_block(each.stamped(times))
            assert payload[0] == TAG == COLUMNS
            found = decode_block(payload)
            found_times = found.timestamps
            assert repr(found.to_list()) == repr(each.to_list())
            assert times is None if found_times is None else found_times.tolist() == times.tolist()


def test_records_that_are_alike_cost_nothing_on_the_wire() -> None:
    block = Columns(Tuple((INT, STR)), [Column(INT, 1, True), Column(STR, "a", True)], 10_000)
    payload = encode_block(block)
    assert len(payload) < 200
    assert decode_block(payload).to_list() == [(1, "a")] * 10_000


@settings(max_examples=40, deadline=None)
@given(
    st.lists(INTS, min_size=1) | st.lists(TEXTS, min_size=1) | st.lists(st.tuples(INTS, TEXTS), min_size=1),
    st.integers(1, 5),
    st.sampled_from([4, 128, 1000]),
)
def test_keys_belong_to_the_subtasks_of_the_record_path(keys: list[Any], parallelism: int, limit: int) -> None:
    targets = KeyTargets(limit, parallelism)
    for part in (keys, keys[::-1], keys[:1]):
        owners = targets.of(column_of_keys(part), len(part))
        found = [owners] * len(part) if isinstance(owners, int) else owners.tolist()
        assert found == [subtask_of(key_group_of(key, limit), limit, parallelism) for key in part]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(INTS | st.integers(0, 9), min_size=1), min_size=1, max_size=4))
def test_slots_number_keys_by_their_first_record(blocks: list[list[int]]) -> None:
    slots, seen = Slots(), {}
    for keys in blocks:
        expected = [seen.setdefault(key, len(seen)) for key in keys]
        assert slots.find(column_of(keys, INT), len(keys)).tolist() == expected
    assert slots.keys == list(seen)


PAIRS = st.lists(st.tuples(INTS | st.integers(0, 3), st.sampled_from(["", "a", "b"]), st.integers(0, 2)), min_size=1)


@settings(max_examples=40, deadline=None)
@given(st.lists(PAIRS, min_size=1, max_size=4))
def test_tuples_are_numbered_by_their_first_record(blocks: list[list[Any]]) -> None:
    slots, seen = Slots(), {}
    for keys in blocks:
        expected = [seen.setdefault(key, len(seen)) for key in keys]
        column = column_of_keys(keys)
        assert slots.find(column, len(keys)).tolist() == expected
        assert column.keep(np.array([number > 0 for number in expected])).to_list(sum(map(bool, expected))) == [
            key for key in keys if seen[key] > 0
        ]
    assert slots.keys == list(seen)
    assert {type(item) for key in slots.keys for item in key} == {int, str}


def test_keys_of_other_shapes_are_refused() -> None:
    for keys in ([1.5], [(1, 2.5)], [((1, 2), 3)], [1, "a"], [(1,), (1, 2)], [()], [True], [2**63]):
        with pytest.raises(FallBackToRows):
            column_of_keys(keys)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["", "a", "b-"]), st.lists(INTS | st.integers(0, 9), min_size=1)), max_size=4)
)
def test_texts_with_numbers_are_numbered_and_sent_as_any_others(blocks: list[tuple[str, list[int]]]) -> None:
    slots, targets, seen = Slots(), KeyTargets(128, 3), {}
    for prefix, numbers in blocks:
        count = len(numbers)
        texts = concatenated([Column(STR, prefix, True), column_of(numbers, INT)], count)
        for column in (texts, column_of([f"{prefix}{number}" for number in numbers], STR)):
            expected = [seen.setdefault(f"{prefix}{number}", len(seen)) for number in numbers]
            assert slots.find(column, count).tolist() == expected
            owners = [subtask_of(key_group_of(f"{prefix}{number}", 128), 128, 3) for number in numbers]
            assert np.asarray(targets.of(column, count)).tolist() == owners
    assert slots.keys == list(seen)


@pytest.mark.parametrize("slots", [10, 100_000])
def test_sums_run_within_their_group(slots: int) -> None:
    numbers = np.array([7, 3, 7, 7, 3, 9]) * (slots // 10)
    groups = Groups(numbers, slots)
    values = np.array([1, 10, 2, 3, 20, 100])
    assert groups.back(running_sum(values.take(groups.order), groups)).tolist() == [1, 10, 3, 6, 30, 100]


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=1), TEXTS.filter(bool), st.integers(0, 3), TEXTS)
def test_text_kernels_give_what_python_gives(texts: list[str], part: str, cut: int, other: str) -> None:
    array, rest = pa.array(texts, pa.string())[cut:], texts[cut:]
    if rest:
        assert contains(array, part).tolist() == [part in text for text in rest]
        column = Column(STR, array)
        assert joined_text([other, column, part, column], len(rest)).to_pylist() == [
            f"{other}{text}{part}{text}" for text in rest
        ]
