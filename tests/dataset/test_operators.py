"""Operators of one data set, against plain Python."""

import dataclasses
from collections import Counter, defaultdict
from itertools import groupby, pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken import Row
from funken.dataset import Aggregations, CombineHint
from tests.dataset.programs import PARALLELISM, TINY, environment, pairs, same

parallelisms = st.sampled_from(PARALLELISM)
numbers = st.lists(st.integers(-50, 50), max_size=40)
records = st.lists(st.tuples(st.integers(0, 6), st.integers(-9, 9), st.integers(0, 3)), max_size=40)


def by_key(data):
    found = defaultdict(list)
    for record in data:
        found[record[0]].append(record)
    return found


@given(numbers, parallelisms)
def test_records_go_through_functions_in_order(data, parallelism):
    env = environment(parallelism)

    found = env.from_collection(data).map(lambda n: n + 1).filter(lambda n: n % 2).flat_map(lambda n: [n] * (n % 3))

    assert found.collect() == [n for m in data for n in [m + 1] * ((m + 1) % 3) if n % 2]


@given(records, parallelisms)
def test_a_projection_orders_and_repeats_fields(data, parallelism):
    found = environment(parallelism).from_collection(data).project(2, 0, 2)

    assert found.collect() == [(c, a, c) for a, _, c in data]


@given(numbers, parallelisms)
def test_a_partition_function_is_called_once_per_partition(data, parallelism):
    found = environment(parallelism).from_collection(data).map_partition(lambda part: [sorted(part)])

    result = found.collect()

    assert len(result) == parallelism
    assert sorted(n for part in result for n in part) == sorted(data)


@given(records, parallelisms, st.sampled_from(CombineHint))
def test_a_grouped_reduce(data, parallelism, hint):
    env = environment(parallelism)

    found = env.from_collection(data).group_by(0).reduce(lambda a, b: (a[0], a[1] + b[1], max(a[2], b[2])), hint)

    expected = [(k, sum(r[1] for r in g), max(r[2] for r in g)) for k, g in by_key(data).items()]
    assert same(found.collect(), expected)


@given(records, parallelisms)
def test_aggregates_of_groups_and_of_all(data, parallelism):
    env = environment(parallelism)
    grouped = env.from_collection(data).project(0, 1, 2).group_by(0)

    found = grouped.aggregate(Aggregations.SUM, 1).and_(Aggregations.MIN, 2).collect()
    extremes = grouped.min_by(1, 2).collect(), grouped.max_by(1, 2).collect()
    whole = env.from_collection(data).project(1, 2).sum(0).and_(Aggregations.MAX, 1).collect()

    groups = by_key(data)
    assert same(found, [(k, sum(r[1] for r in g), min(r[2] for r in g)) for k, g in groups.items()])
    assert same(extremes[0], [min(g, key=lambda r: r[1:]) for g in groups.values()])
    assert same(extremes[1], [max(g, key=lambda r: r[1:]) for g in groups.values()])
    assert whole == ([(sum(r[1] for r in data), max(r[2] for r in data))] if data else [])


@given(numbers, parallelisms)
def test_the_whole_set(data, parallelism):
    def numbers_of():
        return environment(parallelism).from_collection(data)

    assert numbers_of().reduce(lambda a, b: a + b).collect() == ([sum(data)] if data else [])
    assert numbers_of().reduce_group(lambda part: [sorted(part)]).collect() == ([sorted(data)] if data else [])
    assert numbers_of().reduce_group(lambda part: [max(part)], lambda part: [max(part)]).collect() == (
        [max(data)] if data else []
    )
    assert numbers_of().count() == len(data)
    assert sorted(numbers_of().distinct().collect()) == sorted(set(data))
    assert len(numbers_of().first(3).collect()) == min(3, len(data))


@given(records, parallelisms, st.booleans())
def test_groups_are_seen_whole_and_in_order(data, parallelism, descending):
    env = environment(parallelism)

    grouped = env.from_collection(data).group_by(0).sort_group(1, descending).sort_group(2)

    def expected(size):
        for group in by_key(data).values():
            group.sort(key=lambda r: r[2])
            group.sort(key=lambda r: r[1], reverse=descending)
            yield group[:size]

    assert same(grouped.reduce_group(lambda group: [list(group)]).collect(), list(expected(None)))
    assert same(grouped.first(2).collect(), [record for group in expected(2) for record in group])


@given(records, parallelisms)
def test_a_group_reduce_with_a_combiner(data, parallelism):
    def total(group):
        group = list(group)
        return [(group[0][0], sum(r[1] for r in group), 0)]

    found = environment(parallelism).from_collection(data).group_by(0).reduce_group(total, total).collect()

    assert same(found, [(k, sum(r[1] for r in g), 0) for k, g in by_key(data).items()])


def test_a_combined_group_is_that_of_one_task():
    found = environment(2).from_elements("a", "b", "a", "a").group_by("*").combine_group(lambda g: [len(list(g))])

    assert sorted(found.collect()) == [1, 1, 2]


@given(records, parallelisms, st.sampled_from(["partition_by_hash", "partition_by_range", "partition_custom"]))
def test_partitioning_keeps_equal_keys_together(data, parallelism, method):
    env = environment(parallelism)
    source = env.from_collection(data)
    arguments = [lambda key, n: key % n] if method == "partition_custom" else []

    parts = getattr(source, method)(*arguments, lambda r: r[0]).map_partition(lambda part: [list(part)]).collect()

    keys = [{record[0] for record in part} for part in parts]
    assert same([record for part in parts for record in part], data)
    assert sum(map(len, keys)) == len(set().union(*keys))
    if method == "partition_by_range":
        assert all(max(one) < min(other) for one, other in pairwise(keys) if one and other) or any(
            not part for part in keys
        )


@given(records, parallelisms, st.booleans())
def test_a_range_partitioning_and_a_sort_are_a_total_order(data, parallelism, descending):
    source = environment(parallelism).from_collection(data)

    ranges = source.partition_by_range(1, 2, descending=[descending, False])

    found = ranges.sort_partition(1, descending).sort_partition(2).collect()
    expected = sorted(sorted(data, key=lambda r: r[2]), key=lambda r: r[1], reverse=descending)
    assert [r[1:] for r in found] == [r[1:] for r in expected]
    assert same(found, data)


@given(numbers, parallelisms)
def test_rebalancing_deals_records_out(data, parallelism):
    parts = environment(parallelism).from_collection(data).rebalance().count_elements_per_partition().collect()

    counts = [count for _, count in sorted(parts)]
    assert sum(counts) == len(data)
    assert max(counts) - min(counts) <= parallelism


@given(numbers, parallelisms)
def test_numbers_of_records(data, parallelism):
    env = environment(parallelism)

    assert env.from_collection(data).zip_with_index().collect() == list(enumerate(data))
    unique = env.from_collection(data).zip_with_unique_id().collect()
    assert [record for _, record in unique] == data
    assert len({number for number, _ in unique}) == len(data)


def test_samples():
    env = environment(2)
    data = list(range(2000))

    some = env.from_collection(data).sample(False, 0.3, seed=1)
    assert 450 < len(some.collect()) < 750
    assert some.collect() == some.collect()
    assert set(some.collect()) < set(data)
    again = env.from_collection(data).sample(True, 1.5, seed=1).collect()
    assert 2700 < len(again) < 3300
    assert max(Counter(again).values()) > 2
    assert len(set(env.from_collection(data).sample_with_size(False, 50, seed=3).collect())) == 50
    assert len(env.from_collection(data[:20]).sample_with_size(True, 50, seed=3).collect()) == 50
    assert sorted(env.from_collection(data[:20]).sample_with_size(False, 50).collect()) == data[:20]
    assert env.from_collection([]).sample_with_size(True, 5).collect() == []


@given(numbers, numbers, parallelisms)
def test_a_union_is_a_bag(first, second, parallelism):
    env = environment(parallelism)
    one = env.from_collection(first)

    assert same(one.union(env.from_collection(second), one).collect(), first + second + first)


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass(frozen=True)
class User:
    name: str
    zip: int


@dataclasses.dataclass(frozen=True)
class Order:
    user: User
    total: int


@pytest.mark.parametrize("key", [("user.zip",), ("f0.f1",), (lambda order: order.user.zip,), ("user.f1",)])
def test_fields_of_nested_records(key):
    orders = [Order(User("a", 1), 5), Order(User("b", 2), 6), Order(User("c", 1), 7)]

    found = environment(2).from_collection(orders).group_by(*key).sum("total").collect()

    assert sorted((order.user.zip, order.total) for order in found) == [(1, 12), (2, 6)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([Point(1, 2), Point(1, 3)], [Point(1, 5)]),
        ([{"x": 1, "y": 2}, {"x": 1, "y": 3}], [{"x": 1, "y": 5}]),
        ([Row(x=1, y=2), Row(x=1, y=3)], [Row(x=1, y=5)]),
    ],
)
def test_named_fields_of_every_kind_of_record(data, expected):
    env = environment(2)

    assert env.from_collection(data).group_by("x").sum("y").collect() == expected
    assert type(env.from_collection(data).group_by("x").sum("y").collect()[0]) is type(expected[0])
    assert env.from_collection(data).group_by(0).sum(1).collect() == expected


def test_a_key_of_nested_tuples_and_of_the_whole_record():
    data = [((1, 2), 1), ((1, 3), 1), ((1, 2), 1)]

    assert same(environment(2).from_collection(data).group_by(0).sum(1).collect(), [((1, 2), 2), ((1, 3), 1)])
    assert same(environment(2).from_collection(data).group_by("f0.f0").sum(1).collect()[0][1:], (3,))
    assert same(environment(2).from_collection(data).distinct("*").collect(), [((1, 2), 1), ((1, 3), 1)])


def test_empty_inputs():
    env = environment(2)
    empty = env.from_collection([])
    called = []

    def never(group):
        called.append("group")
        return []

    assert empty.reduce(lambda a, b: a).collect() == []
    assert empty.reduce_group(never).collect() == []
    assert called == []
    assert empty.sum(0).collect() == []
    assert empty.group_by(0).sum(1).collect() == []
    assert empty.map_partition(lambda part: [len(list(part))]).collect() == [0, 0]
    assert empty.count() == 0


# ---- beyond the memory


def spilled(program, parallelism=2, budget=TINY):
    """Run a program with little and with much memory; return both results, after checks of the memory."""
    env = environment(parallelism, budget)
    found = program(env)
    result = env.get_last_job_execution_result()
    assert result.spill_files > 0
    assert result.peak_managed_memory <= budget * 1.2
    return found, program(environment(parallelism))


@pytest.mark.parametrize("hint", CombineHint)
def test_a_reduce_that_spills(hint):
    data = pairs(6000, 3000, width=20)

    found, unlimited = spilled(
        lambda env: env.from_collection(data).group_by(0).reduce(lambda a, b: (a[0], a[1] + b[1], ""), hint).collect()
    )

    expected = {key: sum(r[1] for r in group) for key, group in by_key(data).items()}
    assert {key: total for key, total, _ in found} == expected
    assert len(found) == len(expected) == len(unlimited)


def test_accumulated_records_that_grow():
    data = [(number % 5, [f"{number:030}"]) for number in range(4000)]

    found, unlimited = spilled(
        lambda env: env.from_collection(data).group_by(0).reduce(lambda a, b: (a[0], a[1] + b[1])).collect(),
        budget=2**17,
    )

    assert same([(k, sorted(v)) for k, v in found], [(k, sorted(v)) for k, v in unlimited])


def test_a_sort_that_spills():
    data = pairs(6000, 3000, width=20)

    found, unlimited = spilled(
        lambda env: env.from_collection(data).sort_partition(0, descending=True).sort_partition(1).collect()
    )

    assert found == unlimited
    half = [list(part) for part in (found[:3000], found[3000:])]
    assert half == [sorted(part, key=lambda r: (-r[0], r[1])) for part in (data[:3000], data[3000:])]


def test_groups_that_spill():
    data = pairs(6000, 20, width=20)

    found, unlimited = spilled(
        lambda env: env.from_collection(data).group_by(0).sort_group(1).reduce_group(lambda g: [list(g)]).collect()
    )

    assert same(found, unlimited)
    assert same(found, [list(group) for _, group in groupby(sorted(data), key=lambda r: r[0])])


def test_a_data_set_that_is_read_twice_is_computed_once():
    env = environment(2, TINY)
    calls = []
    source = env.from_collection(pairs(3000, 10, width=30)).map(lambda r: calls.append(1) or r)

    totals = source.group_by(0).sum(1)
    joined = source.join(totals).where(0).equal_to(0).project_first(1).project_second(1)

    assert joined.count() == 3000
    assert len(calls) == 3000
    assert env.get_last_job_execution_result().peak_managed_memory <= TINY * 1.2
