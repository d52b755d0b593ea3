"""Keys of every kind in data sets: equal ones are grouped and joined, NaN is one key and the greatest, at any parallelism."""
# ruff: noqa: DTZ001 - times of no zone are keys as well

import datetime as dt
import math
import pickle
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from funken.dataset import ExecutionEnvironment, JoinHint
from funken.dataset.columns.sorting import ExternalSorter
from funken.dataset.memory.manager import MemoryManager
from funken.dataset.plan.keys import Order as MemoryOrder
from funken.errors import FunkenError
from funken.io.spill import SpillSpace
from funken.state.key_forms import NAN, NO_TIME
from tests.state.key_table import EQUAL, OWN, Caseless, Point

ALL = [keys for keys in EQUAL + OWN if None not in keys]
RECORDS = [(key, number, 1) for number, keys in enumerate(ALL) for key in keys]
OTHERS = [(keys[-1], number, 1) for number, keys in enumerate(ALL) if number % 3]
SIZES = {number: len(keys) for number, keys in enumerate(ALL)}
HASHED = [JoinHint.REPARTITION_HASH_FIRST, JoinHint.REPARTITION_HASH_SECOND, JoinHint.BROADCAST_HASH_SECOND]
WIDTHS = pytest.mark.parametrize("width", [1, 2, 3, 4])


def nan():
    return float("nan")


SORTED = {
    "numbers": [[-math.inf, Decimal("-inf")], [-1, -1.0], [0, False, -0.0], [Fraction(1, 2), 0.5, np.float32(0.5)],
                [1, True, np.int8(1)],
                [Decimal("1.5"), 1.5], [2**70, Decimal(2**70)], [math.inf],
                [nan(), nan(), Decimal("nan"), np.float32("nan"), math.nan]],
    "floats": [[-1.5], [2.5, 2.5], [nan(), nan(), -nan()]],
    "decimals": [[Decimal(1)], [Decimal("1.5"), Decimal("1.50")], [Decimal("NaN"), Decimal("-NaN")]],
    "times": [[dt.datetime(2024, 1, 1), pd.Timestamp("2024-01-01")], [dt.datetime(2024, 1, 2)], [pd.NaT, pd.NaT]],
    "NumPy's times": [[np.datetime64("2024-01-01"), np.datetime64("2024-01-01T00", "h")],
                      [np.datetime64("NaT"), np.datetime64("NaT", "s")]],
    "tuples": [[("a", 1.0), ("a", 1)], [("a", nan()), ("a", Decimal("nan"))], [("b", -1.0)], [("b", nan())]],
}  # fmt: skip


@WIDTHS
def test_equal_keys_are_one_group(width):
    env = ExecutionEnvironment.create_local_environment(width)
    records = env.from_collection(RECORDS).rebalance()

    counts = records.group_by(0).sum(2).map(lambda record: record[1:]).collect()
    of_function = records.group_by(lambda record: (record[0],)).reduce(lambda a, b: (b[0], b[1], a[2] + b[2])).collect()
    distinct = records.distinct(0).map(lambda record: record[1]).collect()

    assert Counter(counts) == Counter(SIZES.items())
    assert Counter(record[1:] for record in of_function) == Counter(SIZES.items())
    assert sorted(distinct) == [*range(len(ALL))]


@WIDTHS
@pytest.mark.parametrize("hint", HASHED)
def test_equal_keys_are_joined(width, hint):
    env = ExecutionEnvironment.create_local_environment(width)
    records, others = env.from_collection(RECORDS).rebalance(), env.from_collection(OTHERS).rebalance()

    pairs = records.join(others, hint).where(0).equal_to(0).using(lambda one, other: (one[1], other[1])).collect()
    outer = records.left_outer_join(others).where(0).equal_to(0).using(lambda one, other: (one[1], other and other[1]))

    assert Counter(pairs) == Counter({(number, number): size for number, size in SIZES.items() if number % 3})
    assert Counter(outer.collect()) == Counter({(n, n if n % 3 else None): size for n, size in SIZES.items()})


@WIDTHS
@pytest.mark.parametrize("kind", SORTED)
def test_sorted_keys_are_one_group_and_in_order(width, kind):
    keys = SORTED[kind]
    records = [(key, number) for number, equal in enumerate(keys) for key in equal]
    records = records[1::2] + records[::2]
    env = ExecutionEnvironment.create_local_environment(width)
    given = env.from_collection(records).rebalance()
    others = env.from_collection([(equal[0], number) for number, equal in enumerate(keys)][:-1]).rebalance()

    def numbers(group):
        found = [record[1] for record in group]
        return [(found[0], len(found), len(set(found)))]

    sizes = sorted((number, len(equal), 1) for number, equal in enumerate(keys))
    assert sorted(given.group_by(0).reduce_group(numbers).collect()) == sizes
    both = given.co_group(others).where(0).equal_to(0)
    found = both.using(lambda one, other: [([r[1] for r in one], [r[1] for r in other])]).collect()
    assert sorted(found) == [([n] * len(equal), [n] * (n < len(keys) - 1)) for n, equal in enumerate(keys)]
    merge = given.join(others, JoinHint.REPARTITION_SORT_MERGE).where(0).equal_to(0)
    joined = merge.using(lambda one, other: (one[1], other[1])).collect()
    assert Counter(joined) == Counter({(n, n): len(equal) for n, equal in enumerate(keys[:-1])})
    for descending in (False, True):
        whole = [record[1] for record in given.sort_partition(0, descending).set_parallelism(1).collect()]
        ranges = given.partition_by_range(0, descending=descending).sort_partition(0, descending)
        parts = ranges.map_partition(lambda part: [[record[1] for record in part]]).collect()
        assert whole == sorted(whole, reverse=descending)
        assert sorted(number for part in parts for number in part) == sorted(whole)
        assert all(part == sorted(part, reverse=descending) for part in parts)
        assert max(Counter(number for part in parts for number in set(part)).values()) == 1


@WIDTHS
@pytest.mark.parametrize(
    "values", [[nan(), 2.0, 1.0, nan()], [1.0, nan(), 2.0], [2, 1.0, Decimal("nan"), Decimal("1.5")], [nan()]]
)
def test_nan_is_the_greatest(width, values):
    env = ExecutionEnvironment.create_local_environment(width)
    least = min((value for value in values if not math.isnan(value)), default=nan())
    for given in (values, values[::-1], values * 2000):
        records = env.from_collection([("a", value) for value in given]).rebalance()
        for one in (records, records.group_by(0)):
            for found in (one.min(1), one.min_by(1)):
                assert repr(float(found.collect()[0][1])) == repr(float(least))
            for found in (one.max(1), one.max_by(1)):
                assert math.isnan(found.collect()[0][1]) == any(map(math.isnan, values))


def test_the_greatest_key_stays_what_it_is_in_other_processes():
    assert pickle.loads(pickle.dumps([NAN, NO_TIME, NAN])) == [NAN, NO_TIME, NAN]


def test_runs_on_disk_are_merged_in_order():
    memory = MemoryManager(8192, 1, SpillSpace())
    sorter = ExternalSorter(memory.share("sort"), MemoryOrder([lambda block: block], [False]))
    for start in range(50):
        sorter.add([float(number) for number in range(start, 5_000, 50)] + [nan()])

    found = [number for block in sorter.blocks() for number in block]

    assert memory.space.files
    assert found[:5_000] == [float(number) for number in range(5_000)]
    assert len(found) == 5_050
    assert all(map(math.isnan, found[5_000:]))


def test_a_partitioner_is_given_the_key_of_the_record():
    env = ExecutionEnvironment.create_local_environment(2)
    seen = env.from_collection([(nan(),), (Decimal("nan"),), (Point(nan()),)])

    def partition(key, consumers):
        assert type(key) in {float, Decimal, Point}
        return 0

    assert len(seen.partition_custom(partition, 0).collect()) == 3


@pytest.mark.parametrize("key", [Caseless("a"), [1], ("a", [1]), object()], ids=lambda key: type(key).__name__)
@WIDTHS
def test_what_is_no_key_is_refused_at_any_parallelism(width, key):
    records = ExecutionEnvironment.create_local_environment(width).from_collection([(key, 1), (key, 2)])
    for made in (
        records.group_by(lambda record: record[0]).reduce(lambda a, b: a),
        records.group_by(0).sum(1),
        records.distinct(0),
    ):
        with pytest.raises(FunkenError, match="operator .*(unhashable type|no hash that is equal)"):
            made.collect()
