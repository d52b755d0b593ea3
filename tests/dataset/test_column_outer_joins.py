"""Outer joins of columns, of records, and of both in one job, against nested loops."""

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from funken.dataset import JoinHint
from funken.dataset.columns.joins import RowTable
from tests.dataset.programs import TINY, rows_made
from tests.dataset.test_columns import environment

keys = st.lists(st.integers(-4, 12), max_size=30)

FUNCTIONS = {
    "records": lambda a, b: (a, b),
    "tested for None": lambda a, b: (a[1] if a is not None else -1, b[1] if b is not None else -2),
    "by truth": lambda a, b: (a[0] if a else b[0], a and a[1], b and b[1]),
}
JOINS = {"left": (True, False), "right": (False, True), "full": (True, True), "inner": (False, False)}
FIRST, SECOND = JoinHint.REPARTITION_HASH_FIRST, JoinHint.REPARTITION_HASH_SECOND
MERGE = JoinHint.REPARTITION_SORT_MERGE


def expected(kind, function, left, right):
    keep_left, keep_right = JOINS[kind]
    found = [function(a, b) for a, b in itertools.product(left, right) if a[0] == b[0]]
    if keep_left:
        found += [function(a, None) for a in left if all(a[0] != b[0] for b in right)]
    if keep_right:
        found += [function(None, b) for b in right if all(a[0] != b[0] for a in left)]
    return sorted(found, key=repr)


def joined(left, right, kind, hint, function):
    method = left.join if kind == "inner" else getattr(left, f"{kind}_outer_join")
    return method(right, hint).where(0).equal_to(0).using(function)


class Side:
    """A data set of pairs: the first ``columns`` of them as columns, the others as records."""

    def __init__(self, folder, name, pairs, columns):
        self.path = folder / name
        self.pairs, self.columns = pairs, columns
        if pairs[:columns]:
            keys, numbers = zip(*pairs[:columns], strict=True)
            parquet.write_table(pa.table({"key": keys, "number": numbers}), self.path, row_group_size=3)

    def of(self, env):
        rest = env.from_collection(self.pairs[self.columns :])
        if not self.pairs[: self.columns]:
            return rest
        return env.read_parquet_file(self.path, ["key", "number"]).union(rest)


@settings(deadline=None, max_examples=120)
@given(
    keys, keys, st.integers(0, 40), st.integers(0, 40), st.sampled_from(sorted(JOINS)), st.sampled_from(sorted(FUNCTIONS)),
    st.sampled_from([FIRST, SECOND, MERGE]), st.sampled_from([1, 2]),
)  # fmt: skip
def test_a_join_is_that_of_nested_loops(tmp_path_factory, ones, others, first, second, kind, name, hint, parallelism):
    folder = tmp_path_factory.getbasetemp()
    left, right = [(key, at) for at, key in enumerate(ones)], [(key, -at) for at, key in enumerate(others)]
    env = environment(True, parallelism)
    sides = Side(folder, "left", left, first), Side(folder, "right", right, second)

    found = joined(sides[0].of(env), sides[1].of(env), kind, hint, FUNCTIONS[name]).collect()

    assert sorted(found, key=repr) == expected(kind, FUNCTIONS[name], left, right)


@pytest.mark.parametrize("kind", ["left", "right", "full"])
@pytest.mark.parametrize("hint", [FIRST, SECOND])
def test_an_outer_join_of_columns_makes_no_records(kind, hint, monkeypatch):
    monkeypatch.setattr(RowTable, "append", None)
    env = environment(True, 2)
    left = env.generate_sequence(1, 40_000).map(lambda n: (n, 2 * n))
    right = env.generate_sequence(30_001, 50_000).map(lambda n: (n, 3 * n))
    both = joined(left, right, kind, hint, FUNCTIONS["tested for None"])
    made = rows_made(monkeypatch)

    assert both.count() == {"left": 40_000, "right": 20_000, "full": 50_000}[kind]
    assert not made
    alone = both.filter(lambda pair: pair[0] == -1 or pair[1] == -2).count()
    assert alone == {"left": 30_000, "right": 10_000, "full": 40_000}[kind]


def test_a_merge_of_columns_makes_no_records_and_keeps_the_order(monkeypatch):
    env = environment(True, 2)
    left = env.generate_sequence(1, 40_000).map(lambda n: (n * 7919 % 9973, n))
    right = env.generate_sequence(30, 9000).map(lambda n: (n, -n))
    both = joined(left, right, "inner", MERGE, lambda a, b: (a[0], b[1])).with_forwarded_fields_first("f0")
    first = both.map_partition(lambda records: [all(a <= b for a, b in itertools.pairwise(r[0] for r in records))])
    made = rows_made(monkeypatch)

    assert both.count() == sum(30 <= n * 7919 % 9973 <= 9000 for n in range(1, 40_001))
    assert not made
    assert first.collect() == [True, True]


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("budget", [None, TINY])
def test_the_constant_side_of_a_merge_stays_over_supersteps(mixed, budget):
    def program(env):
        constant = env.generate_sequence(0, 2000).map(lambda n: (n, 1))
        if mixed:
            constant = constant.union(env.from_collection([(5000, 1)]))
        start = env.generate_sequence(0, 1500).map(lambda n: (n, 0)).iterate(4)
        step = joined(start, constant, "inner", MERGE, lambda a, b: (a[0] + 1, a[1] + b[1]))
        return start.close_with(step.group_by(0).max(1))

    expected = sorted((n + 4, 4) for n in range(1501) if n + 3 <= 2000)
    assert sorted(program(environment(True, 2, budget)).collect()) == expected


@pytest.mark.parametrize("kind", sorted(JOINS))
@pytest.mark.parametrize("hint", [FIRST, SECOND])
@pytest.mark.parametrize("mixed", [False, True])
def test_a_build_side_beyond_memory(kind, hint, mixed):
    def sides(env):
        left = env.generate_sequence(1, 4000).map(lambda n: (n % 1500, n))
        more = env.from_collection([(n, "record") for n in range(1200, 1400)])
        right = env.generate_sequence(1000, 3000).map(lambda n: (n, -n))
        return (left.union(more), right) if mixed else (left, right)

    by_record = joined(*sides(environment(False)), kind, hint, FUNCTIONS["records"]).collect()
    for budget in (None, TINY):
        found = joined(*sides(environment(True, 2, budget)), kind, hint, FUNCTIONS["records"]).collect()
        assert sorted(found, key=repr) == sorted(by_record, key=repr)


@pytest.mark.parametrize("kind", ["left", "right", "full"])
def test_the_cached_side_of_an_iteration_is_joined_anew_in_each_superstep(kind):
    def program(env):
        constant = env.generate_sequence(0, 40).map(lambda n: (n, 1))
        start = env.generate_sequence(20, 60).map(lambda n: (n, 0)).iterate(4)

        def moved(a, b):
            return (a[0] if a is not None else b[0]) + 1, (a[1] if a is not None else 9) + (
                b[1] if b is not None else 5
            )

        step = joined(start, constant, kind, SECOND, moved)
        return start.close_with(step.group_by(0).max(1))

    assert sorted(program(environment(True)).collect()) == sorted(program(environment(False)).collect())
