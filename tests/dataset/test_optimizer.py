"""Which plan is chosen, and that what is reused is right."""

import json

import pytest

from funken.dataset import CombineHint, DiscardingOutput, JoinHint
from funken.dataset.optimizer.physical import walk
from tests.dataset.programs import environment, same


class Chosen(list):
    """The physical operators of a program; one that has its name for itself is found by it."""

    def __getitem__(self, name):
        (found,) = (node for node in self if node.name == name)
        return found

    def get(self, name):
        return next((node for node in self if node.name == name), None)


def plan(data_set):
    data_set.output(DiscardingOutput())
    return Chosen(walk(data_set.get_execution_environment()._plan().sinks))


def ships(node):
    return [str(channel) for channel in node.inputs]


def shuffles(chosen):
    return [channel for node in chosen for channel in node.inputs if channel.ship.value not in {"FORWARD", "BROADCAST"}]


def sorts(chosen):
    return [channel for node in chosen for channel in node.inputs if channel.local.value != "NONE"]


def tuples(parallelism=4, count=1000, fields=3):
    return environment(parallelism).from_collection([(n,) * fields for n in range(count)])


@pytest.mark.parametrize(
    ("hint", "combine", "reduce"),
    [
        (CombineHint.OPTIMIZER_CHOOSES, "HASHED_PARTIAL_REDUCE FORWARD", "HASHED_REDUCE PARTITION_HASH(0)"),
        (CombineHint.HASH, "HASHED_PARTIAL_REDUCE FORWARD", "HASHED_REDUCE PARTITION_HASH(0)"),
        (
            CombineHint.SORT,
            "SORTED_PARTIAL_REDUCE FORWARD, COMBININGSORT(0)",
            "SORTED_REDUCE PARTITION_HASH(0), COMBININGSORT(0)",
        ),
        (CombineHint.NONE, None, "HASHED_REDUCE PARTITION_HASH(0)"),
    ],
)
def test_word_count(hint, combine, reduce):
    lines = environment(4).from_elements("to be or not to be")
    words = lines.flat_map(str.split).map(lambda word: (word, 1)).group_by(0)

    chosen = plan(words.reduce(lambda a, b: (a[0], a[1] + b[1]), hint))

    assert ships(chosen["flat_map"]) == ships(chosen["map"]) == ships(chosen["sink"]) == ["FORWARD"]
    assert f"{chosen['reduce'].driver.value} {ships(chosen['reduce'])[0]}" == reduce
    before = chosen.get("combine (reduce)")
    assert combine == (f"{before.driver.value} {ships(before)[0]}" if before else None)


@pytest.mark.parametrize("statistics", [None, (100_000, 2_000_000)])
def test_one_step_of_k_means(statistics):
    class Nearest:
        def open(self, context):
            self.centroids = context.get_broadcast_variable("centroids")

        def map(self, point):
            return (0, *point)

        def close(self):
            pass

    def mean(points):
        return list(points)[:1]

    env = environment(4)
    points, centroids = env.from_elements((1.0, 2.0)), env.from_elements((0, 1.0, 1.0))
    if statistics:
        points.with_statistics(*statistics)
    nearest = points.map(Nearest()).with_broadcast_set(centroids, "centroids")

    chosen = plan(nearest.group_by(0).reduce_group(mean, mean))

    assert ships(chosen["map"]) == ["FORWARD"]
    assert [(name, str(channel)) for name, channel in chosen["map"].broadcasts] == [("centroids", "BROADCAST")]
    assert chosen["combine (reduce_group)"].driver.value == "SORTED_GROUP_COMBINE"
    assert ships(chosen["reduce_group"]) == ["PARTITION_HASH(0), COMBININGSORT(0)"]


def test_a_partitioning_by_some_of_the_key_is_reused():
    def total(data_set, *key):
        return data_set.group_by(*key).reduce(lambda a, b: b)

    one = plan(total(total(tuples(), 0).name("first"), 0, 1))
    two = plan(total(total(tuples(), 0, 1).name("first"), 0))

    assert [str(channel.key) for channel in shuffles(one)] == ["0"]
    assert [str(channel.key) for channel in shuffles(two)] == ["0, 1", "0"]
    assert not any(node.combiner for node in one if node.node.name == "reduce")  # there is nothing to save


def test_an_order_by_more_fields_serves_a_group_by_fewer():
    def first(group):
        return list(group)[:1]

    wide = tuples().partition_by_hash(0).group_by(0, 1).reduce_group(first).with_forwarded_fields("f0; f1")

    chosen = plan(wide.name("wide").group_by(0).reduce_group(first))

    assert len(shuffles(chosen)) == 1
    assert [str(channel) for channel in sorts(chosen)] == ["FORWARD, SORT(0, 1)"]


def test_forwarded_fields_carry_a_partitioning_and_renamed_ones_too():
    def program(*forwarded):
        parts = tuples().partition_by_hash(0)
        return plan(parts.map(lambda r: (r[2], r[0])).with_forwarded_fields(*forwarded).group_by(1).sum(0))

    assert len(shuffles(program("f0->f1"))) == 1
    assert len(shuffles(program())) == 2


def test_partition_map_and_two_groupings_need_one_shuffle_and_one_sort():
    def first(group):
        return list(group)[:1]

    kept = tuples().partition_by_hash(0).map(lambda r: r).with_forwarded_fields("0", "1", "2")
    grouped = kept.group_by(0, 1).reduce_group(first).with_forwarded_fields("0", "1", "2").name("one")

    chosen = plan(grouped.group_by(0).reduce_group(first))

    assert (len(shuffles(chosen)), len(sorts(chosen))) == (1, 1)


def joined(first, second, *keys, hint=JoinHint.OPTIMIZER_CHOOSES):
    return first.join(second, hint).where(*keys).equal_to(*keys)


@pytest.mark.parametrize(
    ("first", "second", "driver", "expected"),
    [
        (1_000_000, 10, "HYBRIDHASH_BUILD_SECOND", ["FORWARD", "BROADCAST"]),
        (10, 1_000_000, "HYBRIDHASH_BUILD_FIRST", ["BROADCAST", "FORWARD"]),
        (1000, 900, "HYBRIDHASH_BUILD_SECOND", ["PARTITION_HASH(0)", "PARTITION_HASH(0)"]),
        (None, None, "HYBRIDHASH_BUILD_FIRST", ["PARTITION_HASH(0)", "PARTITION_HASH(0)"]),
    ],
)
def test_a_join_is_planned_by_sizes(first, second, driver, expected):
    env = environment(4)

    def sized(records):
        made = env.from_elements((1, 2))
        return (
            made.with_statistics(records, records * 10) if records else made.flat_map(lambda r: [r]).with_statistics()
        )

    def unknown():
        class Unknown(type(env.from_elements(1)._current.format)):
            def statistics(self):
                return type(env.from_elements(1)._current.statistics)()

        return env.create_input(Unknown([(1, 2)]))

    one, other = (sized(first), sized(second)) if first else (unknown(), unknown())

    node = plan(joined(one, other, 0))["join"]

    assert (node.driver.value, ships(node)) == (driver, expected)


@pytest.mark.parametrize(
    ("hint", "driver", "expected"),
    [
        (JoinHint.BROADCAST_HASH_FIRST, "HYBRIDHASH_BUILD_FIRST", ["BROADCAST", "FORWARD"]),
        (JoinHint.BROADCAST_HASH_SECOND, "HYBRIDHASH_BUILD_SECOND", ["FORWARD", "BROADCAST"]),
        (JoinHint.REPARTITION_HASH_FIRST, "HYBRIDHASH_BUILD_FIRST", ["PARTITION_HASH(0)"] * 2),
        (JoinHint.REPARTITION_HASH_SECOND, "HYBRIDHASH_BUILD_SECOND", ["PARTITION_HASH(0)"] * 2),
        (JoinHint.REPARTITION_SORT_MERGE, "MERGE", ["PARTITION_HASH(0), SORT(0)"] * 2),
    ],
)
def test_a_hint_forces_a_strategy(hint, driver, expected):
    env = environment(4)

    node = plan(joined(env.from_elements((1, 2)), env.from_elements((1, 3)), 0, hint=hint))["join"]

    assert (node.driver.value, ships(node)) == (driver, expected)


REUSE = [
    # partitioned by, joined on, the ships of the join
    ((0,), None, (0,), ["FORWARD", "PARTITION_HASH(0)"]),
    (None, (0,), (0,), ["PARTITION_HASH(0)", "FORWARD"]),
    ((0,), (0,), (0,), ["FORWARD", "FORWARD"]),
    ((0,), None, (0, 1), ["FORWARD", "PARTITION_HASH(0)"]),
    ((0,), (0,), (0, 1), ["FORWARD", "FORWARD"]),
    ((1,), (1,), (0, 1), ["FORWARD", "FORWARD"]),
    ((0, 1), (0, 1), (0, 1), ["FORWARD", "FORWARD"]),
    ((0,), (1,), (0, 1), None),  # one of the two has to move
    ((1, 0), (0, 1), (0, 1), None),
    ((2,), (2,), (0, 1), ["PARTITION_HASH(0, 1)", "PARTITION_HASH(0, 1)"]),
    ((0, 1), (0, 1), (0,), ["PARTITION_HASH(0)", "PARTITION_HASH(0)"]),
]


@pytest.mark.parametrize("operator", ["join", "co_group"])
@pytest.mark.parametrize(("first", "second", "key", "expected"), REUSE)
def test_two_inputs_reuse_a_partitioning_if_it_fits_on_both_sides(operator, first, second, key, expected):
    def program(count=200):
        env = environment(4)
        sets = [env.from_collection([(n % 7, n % 5, n) for n in range(count)]) for _ in range(2)]
        sets = [one.partition_by_hash(*by) if by else one for one, by in zip(sets, (first, second), strict=True)]
        if operator == "join":
            return joined(*sets, *key, hint=JoinHint.REPARTITION_HASH_FIRST)
        both = sets[0].co_group(sets[1]).where(*key).equal_to(*key)
        return both.using(lambda ones, others: [(sorted(ones), sorted(others))])

    found = [channel.partition(",")[0] if operator == "co_group" and "(0, 1)" not in channel else channel
             for channel in ships(plan(program())[operator])]  # fmt: skip
    found = [channel.removesuffix(", SORT(0, 1)").removesuffix(", SORT(0)") for channel in found]
    if expected is None:
        assert sorted(channel.partition("(")[0] for channel in found) == ["FORWARD", "PARTITION_HASH"]
    else:
        assert found == expected

    # And the result is that of one task, where nothing has to be partitioned.
    again = program()
    alone = program()
    alone.get_execution_environment().set_parallelism(1)
    assert same(again.collect(), alone.collect())


def test_a_custom_partitioning_is_only_reused_for_the_same_partitioner():
    def one(key, n):
        return key % n

    def other(key, n):
        return -key % n

    once = tuples().partition_custom(one, 0)

    assert len(shuffles(plan(once.partition_custom(one, 0)))) == 1
    assert len(shuffles(plan(tuples().partition_custom(one, 0).partition_custom(other, 0)))) == 2
    assert len(shuffles(plan(tuples().partition_custom(one, 0).group_by(0).first(1)))) == 1


def test_what_is_read_twice_is_planned_once():
    source = tuples(4, 1000)
    totals = source.group_by(0).sum(1)

    chosen = plan(joined(totals, totals.map(lambda r: r).with_forwarded_fields("*"), 0))

    assert len(shuffles(chosen)) == 1
    assert len([node for node in chosen if node.driver.value == "SOURCE"]) == 1


def test_one_task_needs_no_shuffle():
    source = tuples(1)

    assert shuffles(plan(joined(source.group_by(0).sum(1), source, 0))) == []


def test_explain_shows_chosen_and_rejected_plans_with_costs():
    env = environment(4)
    large = env.from_elements((1, 2)).with_statistics(1_000_000, 10_000_000)
    joined(large, env.from_elements((1, 2)).with_statistics(10, 100), 0).output(DiscardingOutput())

    text = env.explain()

    assert text.startswith("Plan, costs: network 400, disk 10,000,200")
    assert "join (inner: 0 = 0) HYBRIDHASH_BUILD_SECOND x4" in text
    assert "<- 2 BROADCAST" in text
    assert "Rejected:" in text
    assert (
        "join: HYBRIDHASH_BUILD_SECOND and PARTITION_HASH(0) and PARTITION_HASH(0); up to here network 10,000,100"
        in text
    )
    nodes = json.loads(env.get_execution_plan())["nodes"]
    (join,) = [node for node in nodes if node["pact"] == "join"]
    assert [each["ship_strategy"] for each in join["predecessors"]] == ["FORWARD", "BROADCAST"]
    assert join["driver_strategy"] == "HYBRIDHASH_BUILD_SECOND"


def diamond(parallelism=2, depth=4):
    data = environment(parallelism).from_collection([(n % 5, n) for n in range(20)])
    for _ in range(depth):
        totals = data.group_by(0).max(1)
        data = data.join(totals).where(0).equal_to(0).project_first(0).project_second(1)
    return data.distinct()


@pytest.mark.parametrize("most", [1, 24])
def test_a_plan_is_found_however_few_alternatives_are_followed(most, monkeypatch):
    monkeypatch.setattr("funken.dataset.optimizer.optimizer.MOST_ALTERNATIVES", most)

    assert sorted(diamond().collect()) == [(0, 15), (1, 16), (2, 17), (3, 18), (4, 19)]
