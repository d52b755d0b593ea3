"""How records are spread over subtasks."""

from collections import Counter

import pytest

from funken import MapFunction, NumberSequenceSource, Partitioner, WatermarkStrategy

COUNT = 1200


class Where(MapFunction):
    """Pairs each record with the subtask that handled it."""

    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value):
        return self.subtask, value


def numbers(env, subtasks=1):
    source = NumberSequenceSource(0, COUNT - 1)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").set_parallelism(subtasks)


class Modulo(Partitioner):
    def partition(self, key, num_partitions):
        return key % num_partitions


def by_subtask(pairs):
    found = {}
    for subtask, value in pairs:
        found.setdefault(subtask, []).append(value)
    return found


def test_all_ways_of_spreading(env, collect):
    """One program with every partitioning, so that a job on Spark is paid once."""
    spread = {
        "rebalance": numbers(env).rebalance(),
        "rescale": numbers(env, 2).rescale(),
        "shuffle": numbers(env, 2).shuffle(),
        "global": numbers(env, 2).global_(),
        "broadcast": numbers(env).broadcast(),
        "custom": numbers(env, 2).partition_custom(Modulo(), lambda number: number + 1),
        "forward": numbers(env, 4).forward(),
    }
    mapped = [
        stream.map(Where()).set_parallelism(4).map(lambda pair, name=name: (name, *pair)).set_parallelism(4)
        for name, stream in spread.items()
    ]
    found = {name: [] for name in spread}
    for name, *pair in collect(mapped[0].union(*mapped[1:])):
        found[name].append(pair)

    everything = Counter(range(COUNT))
    for name, pairs in found.items():
        total = Counter(value for _, value in pairs)
        assert total == (everything if name != "broadcast" else Counter({n: 4 for n in range(COUNT)})), name

    shares = {name: by_subtask(pairs) for name, pairs in found.items()}
    assert {len(share) for share in shares["rebalance"].values()} == {COUNT // 4}
    assert shares["global"].keys() == {0}
    assert shares["broadcast"].keys() == {0, 1, 2, 3}
    assert all((number + 1) % 4 == subtask for subtask, share in shares["custom"].items() for number in share)
    assert all(sorted(share) == list(range(300 * n, 300 * n + 300)) for n, share in shares["forward"].items())
    # rescale: the first half of the numbers was read by subtask 0 and stays with targets 0 and 1
    assert all(
        (number < COUNT // 2) == (subtask < 2) for subtask, share in shares["rescale"].items() for number in share
    )
    assert {len(share) for share in shares["rescale"].values()} == {COUNT // 4}
    assert min(len(share) for share in shares["shuffle"].values()) > COUNT // 8


@pytest.mark.ways("local", "batch")
def test_rescale_to_fewer(env, collect):
    stream = numbers(env, 4).rescale().map(Where()).set_parallelism(2)

    shares = by_subtask(collect(stream))

    assert {subtask: (min(share), max(share)) for subtask, share in shares.items()} == {0: (0, 599), 1: (600, 1199)}


@pytest.mark.ways("local", "batch")
def test_equal_keys_meet_and_stay_in_order(env, collect):
    stream = numbers(env, 1).key_by(lambda number: number % 10).process(lambda value, ctx: [value]).set_parallelism(3)

    found = collect(stream.map(Where()).set_parallelism(3))

    places = {}
    for subtask, number in found:
        places.setdefault(number % 10, set()).add(subtask)
    assert all(len(subtasks) == 1 for subtasks in places.values())
    for digit in range(10):
        mine = [number for _, number in found if number % 10 == digit]
        assert mine == sorted(mine)


@pytest.mark.ways("local")
def test_a_partitioner_is_given_the_parallelism_of_the_next_operator(env, collect):
    asked = numbers(env).partition_custom(lambda key, width: width - 1, lambda number: number)

    assert {subtask for subtask, _ in collect(asked.map(Where()).set_parallelism(3))} == {2}
