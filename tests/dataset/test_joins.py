"""Joins, co-groups and crosses: every strategy gives what nested loops give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken import FlatJoinFunction
from funken.dataset import ExecutionEnvironment, JoinHint
from funken.dataset.api.two_inputs import ALLOWED_HINTS
from funken.dataset.plan.nodes import JoinKind
from tests.dataset.programs import PARALLELISM, TINY, environment, pairs, same

METHODS = {
    JoinKind.INNER: "join",
    JoinKind.LEFT: "left_outer_join",
    JoinKind.RIGHT: "right_outer_join",
    JoinKind.FULL: "full_outer_join",
}
CASES = [
    pytest.param(kind, hint, id=f"{kind.value}-{hint.name}")
    for kind in JoinKind
    for hint in JoinHint
    if hint in ALLOWED_HINTS[kind]
]


def joined(first, second, kind):
    """The oracle: nested loops."""
    found = [(one, other) for one in first for other in second if one[0] == other[0]]
    if kind in {JoinKind.LEFT, JoinKind.FULL}:
        found += [(one, None) for one in first if all(one[0] != other[0] for other in second)]
    if kind in {JoinKind.RIGHT, JoinKind.FULL}:
        found += [(None, other) for other in second if all(one[0] != other[0] for one in first)]
    return found


def run(env, first, second, kind, hint):
    join = getattr(env.from_collection(first), METHODS[kind])(env.from_collection(second), hint)
    return join.where(0).equal_to(0).using(lambda one, other: (one, other)).collect()


records = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=25)


@pytest.mark.parametrize(("kind", "hint"), CASES)
@given(first=records, second=records, parallelism=st.sampled_from(PARALLELISM))
def test_a_join_pairs_equal_keys(kind, hint, first, second, parallelism):
    assert same(run(environment(parallelism), first, second, kind, hint), joined(first, second, kind))


@pytest.mark.parametrize(("kind", "hint"), CASES)
@pytest.mark.parametrize("keys", [3000, 40])
def test_a_join_that_spills_gives_the_same(kind, hint, keys):
    # With 40 keys, each partition is a few keys with many records; the sides have 25 % of their keys to themselves.
    count, width = (3000, 30) if keys > 100 else (600, 300)
    first = pairs(count, keys, seed=1, width=width)
    second = [(key + keys // 4, number, text) for key, number, text in pairs(count, keys, seed=2, width=width)]
    env = environment(2, TINY)

    found = run(env, first, second, kind, hint)

    result = env.get_last_job_execution_result()
    unlimited = run(environment(2), first, second, kind, hint)
    assert same(found, unlimited)
    assert result.spill_files > 0
    assert result.peak_managed_memory <= TINY * 1.2


def test_one_key_that_is_larger_than_the_memory_is_joined_in_pieces():
    first = [(1, number, f"{number:050}") for number in range(1500)]
    second = [(1, number, "y") for number in range(3)] + [(2, 0, "z")]
    for hint in (JoinHint.REPARTITION_HASH_FIRST, JoinHint.REPARTITION_SORT_MERGE):
        for kind in JoinKind:
            env = environment(2, TINY)

            found = run(env, first, second, kind, hint)

            assert same(found, joined(first, second, kind))
            assert env.get_last_job_execution_result().peak_managed_memory <= TINY * 1.2
            assert env.get_last_job_execution_result().spill_files > 0


@pytest.mark.parametrize("parallelism", PARALLELISM)
def test_the_clauses_of_a_join(parallelism):
    env = environment(parallelism)
    users, orders = env.from_elements((1, "ann"), (2, "bob")), env.from_elements((10, 1), (11, 1))

    class Twice(FlatJoinFunction):
        def join(self, first, second):
            yield first[1]
            yield second[0]

    keyed = users.join(orders).where("f0").equal_to(lambda order: order[1])
    assert sorted(keyed.using(lambda user, order: (user[1], order[0])).collect()) == [("ann", 10), ("ann", 11)]
    assert same(users.join(orders).where(0).equal_to(1).using(Twice()).collect(), ["ann", 10, "ann", 11])
    projected = users.join(orders).where(0).equal_to(1).project_second(0).project_first(1, 1)
    assert sorted(projected.collect()) == [(10, "ann", "ann"), (11, "ann", "ann")]
    tiny = users.join_with_tiny(orders).where(0).equal_to(1)
    huge = users.join_with_huge(orders).where(0).equal_to(1)
    assert same(tiny.collect(), huge.collect())


def test_the_reference_cases():
    def sets():
        env = environment(2)
        return env.from_elements((1, "a"), (2, "b"), (2, "c")), env.from_elements((2, "x"), (3, "y"))

    def values(one, other):
        return one and one[1], other and other[1]

    left, right = sets()
    assert same(
        left.left_outer_join(right).where(0).equal_to(0).using(values).collect(), [("a", None), ("b", "x"), ("c", "x")]
    )
    left, right = sets()
    assert same(
        left.full_outer_join(right).where(0).equal_to(0).using(values).collect(),
        [("a", None), ("b", "x"), ("c", "x"), (None, "y")],
    )
    left, right = sets()

    def sizes(ones, others):
        ones, others = list(ones), list(others)
        yield (ones or others)[0][0], len(ones), len(others)

    assert sorted(left.co_group(right).where(0).equal_to(0).using(sizes).collect()) == [(1, 1, 0), (2, 2, 1), (3, 0, 1)]


@given(first=records, second=records, parallelism=st.sampled_from(PARALLELISM), descending=st.booleans())
def test_a_co_group_sees_each_key_once_and_its_groups_in_order(first, second, parallelism, descending):
    env = environment(parallelism)
    grouped = env.from_collection(first).co_group(env.from_collection(second)).where(0).equal_to(0)
    grouped = grouped.sort_first_group(1, descending).sort_second_group(1)

    found = grouped.using(lambda ones, others: [(list(ones), list(others))]).collect()

    expected = [
        (
            sorted([one for one in first if one[0] == key], key=lambda one: one[1], reverse=descending),
            sorted([other for other in second if other[0] == key]),
        )
        for key in {record[0] for record in first + second}
    ]
    assert same(found, expected)


def test_a_co_group_that_spills_gives_the_same():
    first, second = pairs(3000, 200, 1, 30), pairs(3000, 200, 2, 30)

    def run(env):
        sets = env.from_collection(first).co_group(env.from_collection(second)).where(0).equal_to(0)
        return sets.sort_first_group(1, True).using(lambda a, b: [([r[1] for r in a], len(list(b)))]).collect()

    env = environment(2, TINY)
    assert same(run(env), run(environment(2)))
    assert env.get_last_job_execution_result().spill_files > 0
    assert env.get_last_job_execution_result().peak_managed_memory <= TINY * 1.2


@given(
    first=st.lists(st.integers(), max_size=12),
    second=st.lists(st.integers(), max_size=12),
    method=st.sampled_from(["cross", "cross_with_tiny", "cross_with_huge"]),
    parallelism=st.sampled_from(PARALLELISM),
)
def test_a_cross_makes_all_pairs(first, second, method, parallelism):
    env = environment(parallelism)

    found = getattr(env.from_collection(first), method)(env.from_collection(second)).using(lambda a, b: (a, b))

    assert same(found.collect(), [(one, other) for one in first for other in second])


def test_a_cross_of_a_side_that_is_larger_than_the_memory():
    env = environment(2, TINY)
    texts = env.from_collection([f"{number:060}" for number in range(2000)])

    pairs_of_both = env.from_elements(1, 2, 3).cross_with_tiny(texts).project_first().project_second()

    assert pairs_of_both.count() == 6000
    assert env.get_last_job_execution_result().spill_files > 0


def test_default_environments_take_the_cores():
    assert ExecutionEnvironment.create_local_environment().get_parallelism() >= 1
