"""Joins and aggregations of more columns than their share of memory holds: they stay columns, and are right."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.columnar.kernels.columns import columns_of
from funken.dataset import JoinHint
from funken.dataset.api.aggregations import Aggregations, FieldAggregator
from funken.dataset.columns.aggregation import ColumnAggregation, ColumnReduce, HashAggregation, HashTable
from funken.dataset.columns.block import block_of
from funken.dataset.columns.joins import ColumnTable, HashJoin, PiecewiseMerge, RowTable
from funken.dataset.memory.manager import MemoryManager, Share
from funken.dataset.plan.functions import DataSetFunction
from funken.dataset.plan.keys import Key, KeyColumn
from funken.expr.types import INT, Tuple
from funken.io.spill import SpillSpace
from tests.dataset.programs import TINY, rows_made
from tests.dataset.test_columns import environment

KEY = Key(((0,),))
COLUMNS = KeyColumn(KEY, "join"), KeyColumn(KEY, "join")
SCHEMA = Tuple((INT, INT))
KINDS = {"inner": (False, False), "left": (False, True), "right": (True, False), "full": (True, True)}

few = st.integers(-3, 3)
many = st.integers(-200, 200)
sides = st.lists(st.one_of(few, many), max_size=250)


def block(records):
    return block_of(columns_of(records, SCHEMA))


def blocks(records, size):
    return [block(records[at : at + size]) for at in range(0, len(records), size)]


def numbered(keys):
    return [(key, at) for at, key in enumerate(keys)]


def nested_loops(build, probe, keep_probe, keep_build):
    found = [(one, other) for one, other in itertools.product(build, probe) if one[0] == other[0]]
    if keep_probe:
        own = {one[0] for one in build}
        found += [(None, other) for other in probe if other[0] not in own]
    if keep_build:
        own = {other[0] for other in probe}
        found += [(one, None) for one in build if one[0] not in own]
    return sorted(found, key=repr)


def records(pairs):
    found = []
    for each in pairs:
        if isinstance(each, list):
            found += [(built, probed) for probed, built in each]
            continue
        built, probed = each
        length = (built if built is not None else probed).length
        ones, others = ([None] * length if side is None else side.to_list() for side in (built, probed))
        found += zip(ones, others, strict=True)
    return found


def probed(join, given_blocks):
    return sorted(records(join.probe(given_blocks)), key=repr)


some_records = st.integers(0, 300)
"""So many records are columns, the others are not, among them keys that are no ints."""


def mixed(keys, columns, size):
    plain = numbered(keys)
    rest = [(key if key % 3 else float(key), at, None) for key, at in plain[columns:]]
    return plain[:columns] + rest, [*blocks(plain[:columns], size), *([rest[::2], rest[1::2]] if rest else [])]


@settings(deadline=None, max_examples=200)
@given(
    sides, sides, sides, st.sampled_from(sorted(KINDS)), st.integers(1, 60), st.sampled_from([1, 1500, 6000]),
    some_records, some_records,
)  # fmt: skip
def test_a_hash_join_is_that_of_nested_loops(build, probe, again, kind, size, limit, columns_built, columns_probed):
    memory = MemoryManager(2**20, 1, SpillSpace())
    keeps = KINDS[kind]
    built, of_built = mixed(build, columns_built, size)
    join = HashJoin(Share(memory, "join", limit), *COLUMNS, *keeps, reusable=True)
    for each in of_built:
        join.build(each)

    for keys in (probe, again):
        side, of_side = mixed(keys, columns_probed, size)
        assert probed(join, of_side) == nested_loops(built, side, *keeps)

    join.close()
    assert memory.used == 0


@pytest.mark.parametrize("kind", KINDS)
def test_one_key_that_no_hash_can_cut_is_joined_in_pieces(kind):
    memory = MemoryManager(2**20, 1, SpillSpace())
    build, probe = [(7, n) for n in range(400)] + [(8, 0)], [(7, n) for n in range(30)] + [(9, 1)]
    join = HashJoin(Share(memory, "join", 2000), *COLUMNS, *KINDS[kind])
    join.build(block(build))

    assert probed(join, [block(probe)]) == nested_loops(build, probe, *KINDS[kind])
    assert memory.space.files > 0
    assert memory.peak < 2 * 2000  # of which a block of 32 pairs is the least


class Sorted:
    """Records in order, as blocks that are columns or not."""

    def __init__(self, keys, cuts, kinds):
        self.records = numbered(sorted(keys))
        self.cuts, self.kinds = cuts, kinds

    def blocks(self):
        at = 0
        for length, columns in zip(itertools.cycle(self.cuts), itertools.cycle(self.kinds)):
            if at >= len(self.records):
                return
            part = self.records[at : at + length]
            yield block(part) if columns else part
            at += length


sorted_sides = st.builds(
    Sorted,
    sides,
    st.lists(st.integers(1, 50), min_size=1, max_size=4),
    st.one_of(st.just([True]), st.lists(st.booleans(), min_size=1, max_size=9)),
)


@settings(deadline=None, max_examples=200)
@given(sorted_sides, sorted_sides, st.sampled_from([1, 1500, 6000]))
def test_a_merge_is_that_of_nested_loops(build, probe, limit):
    memory = MemoryManager(2**20, 1, SpillSpace())
    merge = PiecewiseMerge(
        build.blocks(), probe.blocks(), COLUMNS, Share(memory, "m", limit), Share(memory, "m", limit // 4 + 1)
    )
    found = records(merge.pairs())

    assert [one[0] for one, _ in found] == sorted(one[0] for one, _ in found)
    assert sorted(found, key=repr) == nested_loops(build.records, probe.records, False, False)

    merge.drop()
    merge.close()
    assert memory.used == 0


def sums(share, level=0):
    function = DataSetFunction(FieldAggregator(((Aggregations.SUM, (1,)),), "sum"))
    columns = ColumnAggregation(share, KEY, ColumnReduce(function))
    return HashAggregation(share, KeyColumn(KEY, "sum"), lambda a, b: (b[0], a[1] + b[1]), level, columns)


@settings(deadline=None, max_examples=100)
@given(sides, st.integers(1, 60), st.sampled_from([256, 1500]), st.sampled_from([0, 5, 6]), st.integers(0, 300))
def test_an_aggregation_of_columns_is_that_of_a_table(keys, size, limit, level, columns):
    given_records = numbered(keys)
    memory = MemoryManager(2**20, 1, SpillSpace())
    table = sums(Share(memory, "sum", limit), level)
    for each in blocks(given_records[:columns], size):
        table.add(each)
    if given_records[columns:]:
        table.add(given_records[columns:])

    expected = {}
    for key, number in given_records:
        expected[key] = expected.get(key, 0) + number
    assert sorted(record for each in table.blocks() for record in each) == sorted(expected.items())
    table.close()
    assert memory.used == 0


def test_an_aggregation_beyond_memory_makes_no_records(monkeypatch):
    monkeypatch.setattr(HashTable, "add", None)
    memory = MemoryManager(64 * 1024, 1, SpillSpace())
    table = sums(memory.share("sum"))
    for at in range(10):
        table.add(block([(key * 7919 % 20_011, at) for key in range(20_011)]))
        assert memory.used < 1.2 * 64 * 1024

    found = [(len(each), each.columns) for each in table.blocks()]

    assert sum(length for length, _ in found) == 20_011
    assert all((columns.leaves[1].array(length) == 45).all() for length, columns in found)
    assert memory.space.files > 0
    assert memory.peak < 1.2 * 64 * 1024


def sides_of(env):
    left = env.generate_sequence(1, 30_000).map(lambda n: (n * 7919 % 9973, n, n))
    return left, env.generate_sequence(-5000, 25_000).map(lambda n: (n, -n, n))


HINTS = [JoinHint.REPARTITION_HASH_FIRST, JoinHint.REPARTITION_HASH_SECOND, JoinHint.REPARTITION_SORT_MERGE]


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize("kind", ["inner", "left", "right", "full"])
def test_a_join_beyond_memory_makes_no_records(kind, hint, monkeypatch):
    if hint is JoinHint.REPARTITION_SORT_MERGE and kind != "inner":
        pytest.skip("outer joins that merge work by record")
    monkeypatch.setattr(RowTable, "append", None)
    env = environment(True, 2, 8 * TINY)
    left, right = sides_of(env)
    method = left.join if kind == "inner" else getattr(left, f"{kind}_outer_join")
    both = method(right, hint).where(0).equal_to(0)
    found = both.using(lambda a, b: (a[0] if a is not None else -1, b[0] if b is not None else -1))
    made = rows_made(monkeypatch)

    # 9973 keys on the left, all of which are on the right.
    assert found.count() == {"inner": 30_000, "left": 30_000, "right": 50_028, "full": 50_028}[kind]
    assert not made
    result = env.get_last_job_execution_result()
    assert result.spilled_bytes > 0
    assert result.peak_managed_memory < 1.2 * 8 * TINY


@pytest.mark.parametrize("hint", HINTS)
def test_the_constant_side_of_an_iteration_that_is_beyond_memory_stays_columns(hint, monkeypatch):
    def program(env):
        constant = env.generate_sequence(0, 12_000).map(lambda n: (n % 3000, n, 1.0))
        start = env.generate_sequence(0, 2999).map(lambda n: (n, 0)).iterate(3)
        step = start.join(constant, hint).where(0).equal_to(0).using(lambda a, b: (b[1] % 3000, a[1] + 1))
        return start.close_with(step.group_by(0).max(1))

    monkeypatch.setattr(RowTable, "append", None)
    env = environment(True, 2, 5 * TINY)
    made = rows_made(monkeypatch)

    total = program(env).map(lambda pair: (0, pair[0], pair[1], 1)).group_by(0)
    found = total.reduce(lambda a, b: (0, a[1] + b[1], a[2] + b[2], a[3] + b[3])).collect()

    assert found == [(0, sum(range(3000)), 3 * 3000, 3000)]
    assert sum(made) <= 2
    result = env.get_last_job_execution_result()
    assert result.spilled_bytes > 0
    assert result.peak_managed_memory < 1.2 * 5 * TINY


def test_a_merge_by_record_with_many_equal_keys_spills_them():
    env = environment(False, 1, TINY)
    left = env.from_collection([(n % 3, n) for n in range(30)])
    right = env.from_collection([(n % 3, "x" * 50) for n in range(9000)])
    pairs = left.join(right, JoinHint.REPARTITION_SORT_MERGE).where(0).equal_to(0)

    found = pairs.using(lambda a, b: (a[1], 1)).group_by(0).sum(1).collect()

    assert sorted(found) == [(n, 3000) for n in range(30)]
    assert env.get_last_job_execution_result().spill_files > 0


def test_few_records_that_wait_for_a_partition_on_disk_are_joined_without_an_index_of_it(monkeypatch):
    indexed = []
    made = ColumnTable._made
    monkeypatch.setattr(ColumnTable, "_made", lambda table: indexed.append(table.records) or made(table))
    memory = MemoryManager(65536, 1, SpillSpace())
    join = HashJoin(memory.share("join"), *COLUMNS, reusable=True)
    for each in blocks([(n % 20_000, n) for n in range(40_000)], 1000):
        join.build(each)
    assert memory.space.files > 0
    for wanted in ([7, 19_999, 30_000], list(range(0, 20_000, 100)), []):
        indexed.clear()
        pairs = list(join.probe([block([(n, -n) for n in wanted])] if wanted else []))

        found = [pair for one, other in pairs for pair in zip(one.to_list(), other.to_list(), strict=True)]
        assert sorted(found) == [((n, at), (n, -n)) for n in wanted if n < 20_000 for at in (n, n + 20_000)]
        assert all(records < 500 for records in indexed)
    join.close()
    assert memory.used == 0


def test_records_that_wait_for_a_larger_partition_are_indexed_in_pieces_that_fit(monkeypatch):
    sizes = []
    made = ColumnTable._made
    monkeypatch.setattr(ColumnTable, "_made", lambda table: sizes.append(table.size) or made(table))
    memory = MemoryManager(32768, 1, SpillSpace())
    join = HashJoin(memory.share("join"), *COLUMNS, reusable=True)
    for each in blocks([(n % 20_000, n) for n in range(400_000)], 1000):
        join.build(each)
    sizes.clear()
    pairs = join.probe(blocks([(n, -n) for n in range(0, 20_000, 2)], 1000))

    found = {pair for one, other in pairs for pair in zip(one.to_list(), other.to_list(), strict=True)}
    assert found == {((n % 20_000, n), (n % 20_000, -(n % 20_000))) for n in range(0, 400_000, 2)}
    assert max(sizes) <= 32768
    join.close()
