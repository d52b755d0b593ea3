"""The structures that spill: right results, within the budget, and errors that say what to do."""

import random
import resource

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.dataset.columns.aggregation import HashAggregation, combined
from funken.dataset.columns.joins import HashJoin
from funken.dataset.columns.sorting import ExternalSorter
from funken.dataset.memory.manager import BlockCache, BlockQueue, MemoryManager, weight
from funken.dataset.plan.keys import Order
from funken.errors import DiskFull, InvalidConfiguration
from funken.io.spill import SpillSpace, dump
from tests.dataset.programs import environment, same

BUDGETS = (4096, 16 * 1024, 10**9)


def memory(budget=4096):
    return MemoryManager(budget, 1, SpillSpace())


def first(block):
    return [record[0] for record in block]


def second(block):
    return [record[1] for record in block]


def blocks(records, size):
    return [records[at : at + size] for at in range(0, len(records), size)]


def flat(found):
    return [record for block in found for record in block]


records = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.text(max_size=40)), max_size=400)


@given(records, st.sampled_from(BUDGETS), st.integers(1, 100), st.booleans(), st.booleans())
def test_a_sort_is_stable_in_any_memory(data, budget, size, down, other_down):
    manager = memory(budget)
    sorter = ExternalSorter(manager.share("sort"), Order([first, second], [down, other_down]))
    for block in blocks(data, size):
        sorter.add(block)

    found = flat(sorter.blocks())
    sorter.close()

    assert found == sorted(sorted(data, key=lambda r: r[1], reverse=other_down), key=lambda r: r[0], reverse=down)
    assert manager.peak <= budget * 1.2
    assert manager.used == 0


def test_a_sort_of_many_runs_merges_in_passes():
    manager = memory()
    chance = random.Random(1)
    data = [(chance.randrange(10**6), "x" * 10) for _ in range(20_000)]
    sorter = ExternalSorter(manager.share("sort"), Order([first], [False]))
    for block in blocks(data, 100):
        sorter.add(block)
    once = weight(data)

    assert flat(sorter.blocks()) == sorted(data, key=lambda r: r[0])
    assert manager.space.spilled > 2 * once  # more than one pass
    assert manager.peak <= 4096 * 1.2


@pytest.mark.parametrize("seed", range(5))
def test_a_sort_of_runs_with_few_keys_is_stable(seed):
    manager, chance = memory(), random.Random(seed)
    data = [(chance.randrange(1 + seed), n, "x" * 20) for n in range(3000)]
    sorter = ExternalSorter(manager.share("sort"), Order([first], [False]))
    for block in blocks(data, 100):
        sorter.add(block)

    assert flat(sorter.blocks()) == sorted(data, key=lambda r: r[0])
    assert manager.space.files == 1


@given(records, st.sampled_from(BUDGETS), st.integers(1, 100))
def test_an_aggregation_in_any_memory(data, budget, size):
    manager = memory(budget)
    table = HashAggregation(manager.share("sum"), first, lambda a, b: (a[0], a[1] + b[1], max(a[2], b[2])))
    for block in blocks(data, size):
        table.add(block)

    found = flat(table.blocks())
    table.close()

    groups = {}
    for record in data:
        groups.setdefault(record[0], []).append(record)
    assert same(found, [(k, sum(r[1] for r in g), max(r[2] for r in g)) for k, g in groups.items()])
    assert manager.peak <= budget * 1.2
    assert manager.used == 0


def test_partitions_that_do_not_fit_are_cut_again():
    manager = memory()
    table = HashAggregation(manager.share("sum"), first, lambda a, b: (a[0], a[1] + b[1]))
    for block in blocks([(f"{n % 4000:040}", 1) for n in range(8000)], 100):
        table.add(block)

    assert sorted(flat(table.blocks())) == [(f"{n:040}", 2) for n in range(4000)]
    assert manager.peak <= 4096 * 1.2


def test_a_combiner_emits_what_does_not_fit():
    manager = memory()
    data = [(n % 2000, 1, "") for n in range(6000)]

    found = flat(combined(iter(blocks(data, 100)), manager.share("sum"), first, lambda a, b: (a[0], a[1] + b[1], "")))

    assert 2000 < len(found) <= 6000
    assert sum(record[1] for record in found) == 6000
    assert manager.space.files == 0
    assert manager.peak <= 4096 * 1.2


@given(
    build=records, probe=records, budget=st.sampled_from(BUDGETS), keep=st.tuples(st.booleans(), st.booleans()),
    size=st.integers(1, 100),
)  # fmt: skip
def test_a_hash_join_in_any_memory(build, probe, budget, keep, size):
    manager = memory(budget)
    join = HashJoin(manager.share("join"), first, first, keep_probe=keep[0], keep_build=keep[1])
    for block in blocks(build, size):
        join.build(block)

    found = flat(join.probe(blocks(probe, size)))
    join.close()

    expected = [(one, other) for one in probe for other in build if one[0] == other[0]]
    if keep[0]:
        expected += [(one, None) for one in probe if one[0] not in set(first(build))]
    if keep[1]:
        expected += [(None, other) for other in build if other[0] not in set(first(probe))]
    assert same(found, expected)
    assert manager.peak <= budget * 1.2
    assert manager.used == 0


@given(records, st.lists(records, min_size=2, max_size=3), st.sampled_from(BUDGETS))
def test_a_build_side_that_stays_is_probed_again(build, probes, budget):
    manager = memory(budget)
    join = HashJoin(manager.share("join"), first, first, keep_probe=True, reusable=True)
    join.build(build)

    for probe in probes:
        found = flat(join.probe([probe] if probe else []))

        expected = [(one, other) for one in probe for other in build if one[0] == other[0]]
        expected += [(one, None) for one in probe if one[0] not in set(first(build))]
        assert same(found, expected)
    join.close()
    assert manager.used == 0


def test_a_build_side_that_stays_does_not_take_more_disk_with_each_probe():
    manager = memory()
    join = HashJoin(manager.share("join"), first, first, reusable=True)
    join.build([(n, f"{n:040}") for n in range(500)])
    list(join.probe([]))  # writes what was gathered
    written = join._share.file()._end

    for _ in range(5):
        assert len(flat(join.probe([[(n, 0) for n in range(500)]]))) == 500

    assert join._share.file()._end == written > 0


def test_the_file_of_a_queue_is_written_anew_when_it_was_read():
    manager = memory()
    queue = BlockQueue(manager.share("exchange"))
    ends = set()
    for _ in range(5):
        for start in range(0, 1000, 100):
            queue.put([f"{start + n:030}" for n in range(100)])
        ends.add(queue._share.file()._end)
        assert len(flat(queue.get() for _ in range(len(queue)))) == 1000

    assert len(ends) == 1


@given(st.lists(st.integers(0, 2)), st.sampled_from(BUDGETS))
def test_a_queue_keeps_the_order_in_any_memory(actions, budget):
    manager = memory(budget)
    queue = BlockQueue(manager.share("exchange"))
    expected, found, number = [], [], 0
    for action in actions:
        if action and len(queue):
            found += queue.get()
            continue
        block = [f"{number + n:030}" for n in range(50)]
        number += 50
        queue.put(block)
        expected += block
    while len(queue):
        found += queue.get()

    assert found == expected
    assert manager.used == 0
    assert manager.peak <= budget


def test_a_cache_is_read_again():
    manager = memory()
    data = [f"{number:030}" for number in range(1000)]
    cache = BlockCache(manager.share("cache"), blocks(data, 100))

    assert flat(cache) == flat(cache) == data
    assert cache.records == 1000
    assert manager.space.files == 1
    cache.close()
    assert manager.used == 0


@given(
    st.integers(0, 400_000),
    st.integers(1, 9),
    st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["fits", "release", "close"]), st.integers(0, 90_000))),
)
def test_what_all_shares_may_keep_is_the_budget_at_most(more, consumers, actions):
    memory = MemoryManager(4096 * consumers + more, consumers, SpillSpace())
    shares = [memory.share(str(number)) for number in range(consumers)]
    for number, action, size in actions:
        share = shares[number % consumers]
        if action == "fits":
            before = share.limit
            if share.fits(size):
                share.reserve(size)
            else:
                assert share.limit == before, "something was borrowed, and it is not enough"
                assert share.used + size - share.limit > memory.pool
        elif action == "release":
            share.release(size)
        else:
            share.close()
        assert share.used <= share.limit
        assert memory.used == sum(each.used for each in shares) <= memory.budget
        assert sum(each.limit for each in shares) + memory.pool == memory.budget
        assert all(each.limit >= memory.limit for each in shares)
    for share in shares:
        share.close()
    assert memory.pool == memory.budget - consumers * memory.limit


def test_one_structure_may_have_more_than_its_share_while_others_need_nothing():
    memory = MemoryManager(100_000, 10, SpillSpace())
    cache, other = BlockCache(memory.share("cached")), memory.share("sort")
    kept = [[(n, f"{n} {at} xxxxxxxxxx") for at in range(100)] for n in range(10)]

    for block in kept:
        cache.add(block)

    assert memory.limit < weight(kept[0]) * 9 < memory.used < 50_000
    assert [record for block in cache for record in block] == [record for block in kept for record in block]
    assert memory.space.files == 0, "a part of the cache went to disk"
    other.reserve(5000)  # its own share, which nobody has borrowed
    assert memory.used <= memory.budget
    cache.close()
    assert other.fits(50_000)


def test_a_queue_and_a_part_of_a_share_borrow_nothing():
    memory = MemoryManager(100_000, 10, SpillSpace())
    queue, part = BlockQueue(memory.share("exchange")), memory.share("join").part(2)

    for n in range(20):
        queue.put([(n, f"{n} {at} {n:090}") for at in range(10)])

    assert memory.pool == 50_000
    assert memory.space.files == 1
    assert not part.fits(3000)
    assert part.limit == 2500


def test_a_table_is_measured_before_it_borrows():
    memory = MemoryManager(100_000, 10, SpillSpace())
    sums = HashAggregation(
        memory.share("sum"), lambda block: [key for key, _ in block], lambda one, other: (one[0], one[1] + other[1])
    )

    for _ in range(50):  # every record is counted as if it had a new key
        sums.add([(key, 1) for key in range(20)])

    assert memory.pool == 50_000
    assert sorted(record for block in sums.blocks() for record in block) == [(key, 50) for key in range(20)]


@pytest.mark.parametrize(
    "array", [np.arange(50_000), np.zeros((300, 200), order="F"), np.arange(50_000)[::3], np.array([], int)]
)
def test_an_array_weighs_what_it_takes_on_disk(array):
    block = [(1, array), (2, "x", array[:5])]

    assert len(dump(block)) - 100 <= weight(block) <= len(dump(block))


def test_too_little_memory_for_the_plan_is_refused():
    env = environment(2, 4096)

    with pytest.raises(InvalidConfiguration, match="execution.memory.managed is 4,096 bytes, but the 3 operators"):
        env.from_elements((1, 2)).group_by(0).sum(1).collect()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    env = environment(1, 8192)
    env.get_configuration().set("io.tmp.dirs", str(tmp_path / "missing"))

    with pytest.raises(InvalidConfiguration, match=r"operator 'sort_partition' cannot make a spill file in .*missing"):
        env.from_collection([f"{n:030}" for n in range(1000)]).sort_partition("*").collect()


def test_a_full_disk_names_operator_and_remedy():
    # A limit on the size of files stands for the disk: both refuse a write half-way.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    env = environment(1, 8192)
    data = env.from_collection([f"{n:030}" for n in range(10_000)])
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(DiskFull) as caught:
            data.sort_partition("*").collect()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert "operator 'sort_partition' cannot spill" in str(caught.value)
    assert "raise execution.memory.managed" in str(caught.value)
