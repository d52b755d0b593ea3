"""Sorting, dealing out by ranges and sampling of columns, against the same of records."""

from functools import cmp_to_key

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.columnar.kernels.columns import columns_of
from funken.dataset.columns.block import ColumnBlock, block_of
from funken.dataset.columns.sorting import ExternalSorter
from funken.dataset.exchange import Sample, by_bounds
from funken.dataset.memory.manager import MemoryManager
from funken.dataset.plan.keys import SortField, order_of
from funken.expr.types import BOOL, FLOAT, INT, STR, Tuple
from funken.io.spill import SpillSpace
from tests.dataset.programs import rows_made
from tests.dataset.test_columns import environment

SCHEMA = Tuple((INT, Tuple((FLOAT, STR)), BOOL, INT))
PATHS = [(0,), (1, 0), (1, 1), (2,), (1,), ()]

texts = st.text(st.characters(codec="utf-8"), max_size=3)
floats = st.one_of(st.sampled_from([0.0, -0.0, 1.5, float("inf"), float("-inf")]), st.floats(allow_nan=False))
ints = st.one_of(st.integers(-2, 2), st.integers(-(2**63), 2**63 - 1))
plain = st.tuples(ints, st.tuples(floats, texts), st.booleans())
fields = st.lists(st.builds(SortField, st.sampled_from(PATHS), st.booleans()), min_size=1, max_size=3)


def numbered(records):
    return [(*record, number) for number, record in enumerate(records)]


def cut(records, sizes):
    """Cut into blocks of these sizes, the last one as long as it has to be."""
    at = 0
    for size in sizes:
        if at < len(records):
            yield records[at : at + size]
            at += size
    if at < len(records):
        yield records[at:]


def field(record, path):
    for step in path:
        record = record[step]
    return record


def oracle(records, ordering):
    """Sort by comparing field after field; ``sorted`` keeps equal ones in order."""

    def compare(one, other):
        for each in ordering:
            a, b = field(one, each.path), field(other, each.path)
            if a != b:
                return (-1 if a < b else 1) * (-1 if each.descending else 1)
        return 0

    return sorted(records, key=cmp_to_key(compare))


@settings(deadline=None, max_examples=150)
@given(
    st.lists(plain, max_size=80),
    st.lists(st.integers(1, 20), max_size=6),
    fields,
    st.sampled_from([4096, 2**20]),
    st.integers(-1, 6),
)
def test_columns_are_sorted_as_records_are(records, sizes, ordering, budget, as_list):
    records = numbered(records)
    space = SpillSpace()
    memory = MemoryManager(budget, 1, space)
    sorter = ExternalSorter(memory.share("sort"), order_of(tuple(ordering), "sort"))
    for number, block in enumerate(cut(records, sizes)):
        sorter.add(block if number == as_list else block_of(columns_of(block, SCHEMA)))

    found = [record for block in sorter.blocks() for record in block]
    sorter.close()

    assert repr(found) == repr(oracle(records, ordering))
    assert memory.used == 0


@pytest.mark.parametrize("last", [None, (1, "x", float("nan"))])
def test_what_does_not_fit_is_spilled_as_columns_and_merged(last):
    space = SpillSpace()
    memory = MemoryManager(64 * 1024, 1, space)
    records = [((n * 7919) % 20_011, f"text {n % 100}", float(n)) for n in range(20_000)]
    sorter = ExternalSorter(memory.share("sort"), order_of((SortField((0,)), SortField((2,), True)), "sort"))
    for at in range(0, len(records), 1000):
        sorter.add(block_of(columns_of(records[at : at + 1000], Tuple((INT, STR, FLOAT)))))
    if last is not None:  # an order that Python has in its own way: all of it is sorted by record
        sorter.add(block_of(columns_of([last], Tuple((INT, STR, FLOAT)))))
    blocks = list(sorter.blocks())

    assert [record for block in blocks for record in block if record[2] == record[2]] == sorted(records)
    assert all(isinstance(block, ColumnBlock) for block in blocks) is (last is None)
    assert space.files == 1
    assert memory.peak < 1.2 * 64 * 1024


@settings(deadline=None, max_examples=100)
@given(st.lists(plain, min_size=1, max_size=60), st.lists(plain, max_size=5), fields)
def test_ranges_of_columns_are_those_of_records(records, bounds, ordering):
    order = order_of(tuple(ordering), "range")
    bounds = order.keys(order.sorted(numbered(bounds)))
    route = by_bounds(len(bounds) + 1, order, bounds)

    by_column = route(block_of(columns_of(numbered(records), SCHEMA)))

    assert repr([list(part) for part in by_column]) == repr(route(numbered(records)))
    assert all(isinstance(part, ColumnBlock) for part in by_column if part)


def test_a_sample_is_uniform_and_the_same_of_columns_and_records():
    numbers = list(range(100_000))
    of_records, of_columns = Sample(500, list), Sample(500, list)
    for at in range(0, len(numbers), 999):
        of_records.add(numbers[at : at + 999])
    for block in cut(numbers, [1, 3, 10_000, 77]):
        of_columns.add(block_of(columns_of(block, INT)))

    assert of_columns.keys == of_records.keys
    assert of_records.seen == len(numbers)
    assert len(set(of_records.keys)) == 500
    quarters = [sum(key * 4 // len(numbers) == quarter for key in of_records.keys) for quarter in range(4)]
    assert min(quarters) > 90  # 125 each, more or less: 3 standard deviations are 29


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("descending", [False, True])
def test_a_sort_of_columns_makes_no_records(parallelism, descending, monkeypatch):
    env = environment(True, parallelism)
    pairs = env.generate_sequence(1, 30_000).map(lambda n: (n * 7919 % 30_011, n))
    ordered = pairs.partition_by_range(0, descending=descending).sort_partition(0, descending)
    made = rows_made(monkeypatch)

    count = ordered.count()

    assert count == 30_000
    assert sum(made) <= 1000 * parallelism  # the first records, as a sample
    assert ordered.project(0).collect() == sorted(((n * 7919 % 30_011,) for n in range(1, 30_001)), reverse=descending)
