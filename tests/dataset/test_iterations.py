"""Iterations: the exact cases of the reference, faults, and what the step keeps."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken import FilterFunction, FlatMapFunction, InvalidProgram, MapFunction
from funken.dataset import DoubleSumAggregator, JoinHint, LongSumAggregator, MaxAggregator
from funken.dataset.optimizer.physical import everything
from funken.dataset.plan.nodes import Aggregators
from funken.dataset.runtime.iterations import IterationCoordinator, Next, Report, StopSupersteps
from funken.errors import OperatorFailed, StateTooLarge
from tests.dataset.programs import PARALLELISM, TINY, environment, same

parallel = pytest.mark.parametrize("parallelism", PARALLELISM)


def outcome(env):
    ((_, supersteps, reason, worksets),) = env.get_last_job_execution_result().iterations
    return supersteps, reason, worksets


# ---- bulk


@parallel
def test_a_fixed_number_of_supersteps(parallelism):
    env = environment(parallelism)
    start = env.from_elements(1, 2, 3, 4, 5).iterate(10)

    assert start.close_with(start.map(lambda n: n + 1)).collect() == [11, 12, 13, 14, 15]
    assert outcome(env) == (10, "the maximum is reached", ())


@parallel
def test_the_termination_criterion_sees_the_result_of_the_superstep(parallelism):
    env = environment(parallelism)
    start = env.from_elements(1, 2, 3, 4, 5).iterate(5)
    step = start.map(lambda n: n + 1).reduce(lambda a, b: a + b)

    assert start.close_with(step, step.filter(lambda n: n < 22)).collect() == [22]
    assert outcome(env)[:2] == (3, "the termination criterion is empty")


@parallel
def test_the_termination_criterion_may_see_the_partial_solution(parallelism):
    env = environment(parallelism)
    start = env.from_elements(1, 2, 3, 4, 5).iterate(5)
    step = start.map(lambda n: n + 1).reduce(lambda a, b: a + b)

    assert start.close_with(step, start.filter(lambda n: n < 21)).collect() == [22]


class Greater(FilterFunction):
    def open(self, runtime_context):
        self.at = max(runtime_context.get_broadcast_variable("partial"))

    def filter(self, value):
        return value > self.at


@parallel
def test_a_broadcast_partial_solution_is_read_anew_in_every_superstep(parallelism):
    env = environment(parallelism)
    data = env.generate_sequence(1, 8)
    start = env.from_elements(1).iterate(10)

    step = data.filter(Greater()).with_broadcast_set(start, "partial").reduce(min)
    result = start.close_with(step, step)

    # The eighth superstep has nothing greater than 8; the one before made 8.
    found = result.collect()
    assert found == [] and outcome(env)[:2] == (8, "the termination criterion is empty")
    start = env.from_elements(1).iterate(7)
    step = data.filter(Greater()).with_broadcast_set(start, "partial").reduce(min)
    assert start.close_with(step).collect() == [8]


class SubtractOne(MapFunction):
    def open(self, runtime_context):
        self.negative = runtime_context.get_iteration_aggregator("negative")

    def map(self, value):
        self.negative.aggregate(value - 1 < 0)
        return value - 1


@parallel
def test_an_aggregator_counts_per_superstep_and_ends_the_iteration(parallelism):
    env = environment(parallelism)
    start = env.from_elements(1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5).iterate(20)
    start.register_aggregation_convergence_criterion(
        "negative", LongSumAggregator(), lambda superstep, count: count > 3
    )

    found = start.close_with(start.map(SubtractOne())).collect()

    assert sorted(found) == [-3, -2, -2, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert outcome(env)[:2] == (4, "the aggregator 'negative' has converged")


class Tell(MapFunction):
    def open(self, runtime_context):
        self.superstep = runtime_context.get_superstep_number()
        self.before = runtime_context.get_previous_iteration_aggregate("sum")
        self.sum = runtime_context.get_iteration_aggregator("sum")
        self.calls = runtime_context.get_int_counter("calls")

    def map(self, value):
        self.calls.add(1)
        self.sum.aggregate(value[0])
        return value[0] + 1, (*value[1], (self.superstep, self.before))


@parallel
def test_a_function_knows_superstep_and_last_aggregate(parallelism):
    env = environment(parallelism)
    start = env.from_elements((1, ()), (10, ())).iterate(3).register_aggregator("sum", LongSumAggregator())

    found = start.close_with(start.map(Tell())).collect()

    history = ((1, None), (2, 11), (3, 13))
    assert found == [(4, history), (13, history)]
    assert env.get_last_job_execution_result().get_accumulator_result("calls") == 6


def page_rank(env, supersteps, hint=JoinHint.OPTIMIZER_CHOOSES, until=None):
    links = env.from_elements((1, (2, 3)), (2, (3,)), (3, (1,)), (4, (3,)))
    ranks = env.from_collection([(page, 0.25) for page in (1, 2, 3, 4)]).iterate(supersteps)

    def spread(page, adjacency):
        yield page[0], 0.15 / 4
        for target in adjacency[1]:
            yield target, 0.85 * page[1] / len(adjacency[1])

    joined = ranks.join(links, hint).where(0).equal_to(0).using(spread)
    step = joined.group_by(0).reduce(lambda a, b: (a[0], a[1] + b[1]))
    if until is None:
        return ranks.close_with(step)
    ranks.register_aggregation_convergence_criterion("change", MaxAggregator(), lambda _, change: change <= until)
    return ranks.close_with(step.join(ranks).where(0).equal_to(0).using(lambda a, b: (a, b)).map(Change()))


class Change(MapFunction):
    def open(self, runtime_context):
        self.change = runtime_context.get_iteration_aggregator("change")

    def map(self, value):
        new, old = value
        self.change.aggregate(abs(new[1] - old[1]))
        return new


@parallel
@pytest.mark.parametrize("hint", list(JoinHint))
@pytest.mark.parametrize(
    ("supersteps", "expected"),
    [
        (1, [0.25, 0.14375, 0.56875, 0.0375]),
        (2, [0.5209375, 0.14375, 0.2978125, 0.0375]),
        (30, [0.3725267557, 0.1958239454, 0.3941492990, 0.0375]),
    ],
)
def test_page_rank(parallelism, supersteps, expected, hint):
    found = dict(page_rank(environment(parallelism), supersteps, hint).collect())

    assert [found[page] for page in (1, 2, 3, 4)] == pytest.approx(expected, abs=1e-9)


@parallel
def test_page_rank_until_it_changes_little(parallelism):
    env = environment(parallelism)

    found = dict(page_rank(env, 100, until=1e-4).collect())

    expected = [0.3724913132, 0.1958088081, 0.3941998786, 0.0375]
    assert [found[page] for page in (1, 2, 3, 4)] == pytest.approx(expected, abs=1e-9)
    assert outcome(env)[0] == 17


def test_a_constant_path_is_computed_once_and_given_to_every_superstep():
    env = environment(2)
    calls = []
    table = env.from_collection([(n, n + 1) for n in range(5)]).map(lambda r: calls.append(r) or r)

    for hint in JoinHint:
        calls.clear()
        start = env.from_elements((0,), (1,)).iterate(4)
        step = start.join(table, hint).where(0).equal_to(0).using(lambda at, entry: (entry[1],))
        assert same(start.close_with(step).collect(), [(4,), (5,)])
        assert len(calls) == 5


def test_a_constant_data_set_may_be_read_in_and_behind_the_loop():
    env = environment(2)
    table = env.from_collection([(n, n + 1) for n in range(9)])
    start = env.from_elements((0,)).iterate(3)
    step = start.join(table).where(0).equal_to(0).using(lambda at, entry: (entry[1],))

    found = start.close_with(step.union(step)).distinct().join(table).where(0).equal_to(0)

    assert found.collect() == [((3,), (3, 4))]


def test_one_iteration_after_another():
    env = environment(2)
    first = env.from_elements(1, 2).iterate(3)
    second = first.close_with(first.map(lambda n: n * 2)).iterate(2)

    assert sorted(second.close_with(second.map(lambda n: n + 1)).collect()) == [10, 18]


# ---- delta


def least(new, old):
    if new[1] < old[1]:
        yield new


def components(env, vertices, edges, maximum=100):
    both = env.from_collection([*edges, *((b, a) for a, b in edges)])
    start = env.from_collection([(vertex, vertex) for vertex in vertices])
    iteration = start.iterate_delta(start, maximum, 0)
    candidates = iteration.get_workset().join(both).where(0).equal_to(0).using(lambda v, e: (e[1], v[1]))
    found = candidates.group_by(0).min(1).join(iteration.get_solution_set()).where(0).equal_to(0)
    changed = found.using(least).with_forwarded_fields_first("*")
    return iteration.close_with(changed, changed)


GRID = [(10 * y + x, 10 * y + x + 1) for y in range(10) for x in range(9)]
GRID += [(10 * y + x, 10 * y + x + 10) for y in range(9) for x in range(10)]


@parallel
@pytest.mark.parametrize(
    ("vertices", "edges", "expected", "worksets"),
    [
        (
            range(1, 8),
            [(1, 2), (2, 3), (2, 4), (3, 4), (5, 6), (5, 7), (6, 7)],
            [1, 1, 1, 1, 5, 5, 5],
            (7, 5, 2),
        ),
        (range(1, 8), [(n, n + 1) for n in range(1, 7)], [1] * 7, (7, 6, 5, 4, 3, 2, 1)),
        (
            range(100),
            GRID,
            [0] * 100,
            (100, 99, 97, 94, 90, 85, 79, 72, 64, 55, 45, 36, 28, 21, 15, 10, 6, 3, 1),
        ),
    ],
    ids=["two triangles", "path", "grid"],
)
def test_connected_components(parallelism, vertices, edges, expected, worksets):
    env = environment(parallelism)

    found = components(env, vertices, edges).collect()

    assert sorted(found) == list(zip(vertices, expected, strict=True))
    assert outcome(env) == (len(worksets), "the workset is empty", worksets)


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), max_size=30), st.sampled_from(PARALLELISM))
def test_connected_components_of_any_graph(edges, parallelism):
    label = list(range(16))
    for _ in range(16):
        for a, b in edges:
            label[a] = label[b] = min(label[a], label[b])

    assert sorted(components(environment(parallelism), range(16), edges).collect()) == list(enumerate(label))


@parallel
def test_duplicates_in_the_solution_set_leave_one_per_key(parallelism):
    env = environment(parallelism)
    data = env.from_collection([(n % 11, n % 11) for n in range(33)])
    iteration = data.iterate_delta(data, 10, 0)

    found = iteration.close_with(iteration.get_workset(), iteration.get_workset()).collect()

    assert sorted(found) == [(n, n) for n in range(11)]


@parallel
def test_an_empty_workset_takes_one_superstep_and_changes_nothing(parallelism):
    env = environment(parallelism)
    data = env.from_elements((1, 2), (3, 4))
    iteration = data.iterate_delta(env.from_collection([]), 10, 0)
    workset = iteration.get_workset().map(lambda r: r)

    assert sorted(iteration.close_with(workset, workset).collect()) == [(1, 2), (3, 4)]
    assert outcome(env) == (1, "the workset is empty", (0,))


@parallel
def test_a_record_without_an_entry_is_paired_with_none(parallelism):
    env = environment(parallelism)
    for flip in (False, True):
        iteration = env.from_elements((1, "old")).iterate_delta(env.from_elements((1, "new"), (2, "new")), 1, 0)
        sets = iteration.get_workset(), iteration.get_solution_set()
        one, other = reversed(sets) if flip else sets

        def both(a, b, flip=flip):
            new, old = (b, a) if flip else (a, b)
            return new[0], (new[1], old and old[1])

        delta = one.join(other).where(0).equal_to(0).using(both)
        assert sorted(iteration.close_with(delta, delta).collect()) == [(1, ("new", "old")), (2, ("new", None))]


@parallel
def test_a_co_group_with_the_solution_set_visits_the_keys_of_the_workset(parallelism):
    env = environment(parallelism)
    for flip in (False, True):
        work = env.from_elements((1, "a"), (1, "b"), (2, "c"))
        iteration = env.from_elements((1, "x"), (3, "y")).iterate_delta(work, 1, 0)
        sets = iteration.get_workset(), iteration.get_solution_set()
        one, other = reversed(sets) if flip else sets

        def sizes(a, b, flip=flip):
            new, old = (list(b), list(a)) if flip else (list(a), list(b))
            yield new[0][0], (len(new), len(old))

        delta = one.co_group(other).where(0).equal_to(0).using(sizes)
        assert sorted(iteration.close_with(delta, delta).collect()) == [(1, (2, 1)), (2, (1, 0)), (3, "y")]


def test_changes_are_visible_in_the_next_superstep():
    env = environment(1)
    iteration = env.from_elements((0, 0)).iterate_delta(env.from_elements((0, 1), (0, 2)), 1, 0)
    joined = iteration.get_workset().join(iteration.get_solution_set()).where(0).equal_to(0)

    found = iteration.close_with(
        joined.using(lambda new, old: (0, (new[1], old[1]))), iteration.get_workset()
    ).collect()

    assert found == [(0, (2, 0))]  # the second record does not see the change of the first


def test_a_solution_set_that_does_not_fit_is_an_error():
    env = environment(2, TINY)
    data = env.from_collection([(n, f"{n:050}") for n in range(3000)])
    iteration = data.iterate_delta(env.from_elements((1, "x")), 2, 0)

    with pytest.raises(StateTooLarge, match=r"the solution set of a subtask has .* Raise execution.memory.managed"):
        iteration.close_with(iteration.get_workset(), iteration.get_workset()).collect()


def test_an_iteration_that_spills_gives_the_same():
    chance = random.Random(5)
    edges = env_edges = [(chance.randrange(400), chance.randrange(400)) for _ in range(4000)]

    def ranks(env):
        links = env.from_collection(env_edges)
        start = env.from_collection([(n, 1.0, "x" * 40) for n in range(400)]).iterate(3)
        step = start.join(links, JoinHint.REPARTITION_HASH_SECOND).where(0).equal_to(0)
        sums = step.using(lambda v, e: (e[1], v[1] / 10, v[2])).group_by(0).sum(1)
        return start.close_with(sums).collect()

    env = environment(2, 96 * 1024)
    little = {key: value for key, value, _ in ranks(env)}

    assert env.get_last_job_execution_result().spill_files > 0
    assert env.get_last_job_execution_result().peak_managed_memory <= 96 * 1024 * 1.2
    assert little == pytest.approx({key: value for key, value, _ in ranks(environment(2))})
    assert len(edges) == 4000


# ---- plans


def steps(env, result):
    plan = env._plan_of(result)
    return {node.name: node for node in everything(plan)}


def plan_of(data_set):
    from funken.dataset import DiscardingOutput

    data_set.output(DiscardingOutput())
    return {node.name: node for node in everything(data_set.get_execution_environment()._plan().sinks)}


def sized_page_rank(ranks, links, hint=JoinHint.OPTIMIZER_CHOOSES, parallelism=4):
    env = environment(parallelism)
    matrix = env.from_elements((1, 2, 0.5)).with_statistics(links, links * 20)
    start = env.from_elements((1, 1.0)).with_statistics(ranks, ranks * 10).iterate(20)
    joined = start.join(matrix, hint).where(0).equal_to(0).using(lambda r, m: (m[1], r[1] * m[2]))
    joined.with_forwarded_fields_second("f1->f0").with_statistics(links, links * 10)
    step = joined.group_by(0).sum(1).with_statistics(ranks, ranks * 10)
    return start.close_with(step)


def test_page_rank_with_a_hint_partitions_the_ranks_before_the_loop_and_forwards_them_inside():
    plan = plan_of(sized_page_rank(1000, 10_000, JoinHint.REPARTITION_HASH_SECOND))

    assert plan["join"].driver.value == "HYBRIDHASH_BUILD_SECOND_CACHED"
    assert [str(channel) for channel in plan["join"].inputs] == ["FORWARD", "PARTITION_HASH(0)"]
    assert str(plan["iteration"].inputs[0]) == "PARTITION_HASH(0)"
    assert str(plan["feedback"].inputs[0]) == "FORWARD"
    assert str(plan["sum"].inputs[0]) == "PARTITION_HASH(0)"


def test_page_rank_changes_from_broadcast_to_repartition_as_the_ranks_grow():
    small, large = plan_of(sized_page_rank(40_000, 1_000_000)), plan_of(sized_page_rank(1_000_000, 2_000_000))

    # Broadcast: the matrix is partitioned by target once, and the sum per target needs no shuffle.
    assert [str(channel) for channel in small["join"].inputs] == ["BROADCAST", "PARTITION_HASH(1), CACHED"]
    assert str(small["sum"].inputs[0]) == "FORWARD"
    # Repartition: ranks and matrix are partitioned by source, contributions are shuffled by target.
    assert [str(channel) for channel in large["join"].inputs] == ["FORWARD", "PARTITION_HASH(0)"]
    assert str(large["sum"].inputs[0]) == "PARTITION_HASH(0)"


def test_a_dynamic_build_side_leaves_the_constant_side_cached():
    plan = plan_of(sized_page_rank(1000, 10_000, JoinHint.REPARTITION_HASH_FIRST))

    assert plan["join"].driver.value == "HYBRIDHASH_BUILD_FIRST"
    assert str(plan["join"].inputs[1]) == "PARTITION_HASH(0), CACHED"


def test_connected_components_need_one_shuffle_per_superstep():
    env = environment(4)
    plan = plan_of(components(env, range(100), [(n, n + 1) for n in range(99)]))

    assert [str(channel) for channel in plan["delta iteration"].inputs[:2]] == ["PARTITION_HASH(0)"] * 2
    join = next(node for node in everything(env._plan().sinks) if node.driver.value == "HYBRIDHASH_BUILD_SECOND_CACHED")
    assert [str(channel) for channel in join.inputs] == ["FORWARD", "PARTITION_HASH(0)"]
    assert str(plan["min"].inputs[0]).startswith("PARTITION_HASH(0)")
    assert str(plan["combine (min)"].inputs[0]) == "FORWARD"
    look_up = next(node for node in everything(env._plan().sinks) if node.driver.value == "SOLUTION_SET_LOOKUP_SECOND")
    assert str(look_up.inputs[0]) == "FORWARD"
    assert str(plan["feedback"].inputs[0]) == str(plan["solution delta"].inputs[0]) == "FORWARD"


# ---- faults


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda d, i, it: d.iterate(0), "whole number above 0"),
        (lambda d, i, it: i.close_with(5), "close_with() needs a DataSet"),
        (lambda d, i, it: i.map(lambda n: n).collect(), "is read outside of its step"),
        (lambda d, i, it: i.name("x"), "was already read by iterate"),
        (lambda d, i, it: i.register_aggregator("a", 5), "lacks aggregate()"),
        (lambda d, i, it: i.register_aggregator("a", LongSumAggregator()).register_aggregator("a", LongSumAggregator()),
         "an aggregator 'a' already"),
        (lambda d, i, it: i.close_with(nested(i)), "Iterations cannot be nested"),
        (lambda d, i, it: closed(it, it.get_solution_set().map(lambda r: r)), "can only be joined or co-grouped"),
        (lambda d, i, it: closed(it, it.get_workset().join(it.get_solution_set()).where(0).equal_to(1)),
         "The solution can only be joined or co-grouped with the same keys as the elements are identified with: 0"),
        (lambda d, i, it: closed(it, it.get_solution_set().join(it.get_solution_set()).where(0).equal_to(0)),
         "the solution set on both sides"),
        (lambda d, i, it: closed(it, it.get_workset().left_outer_join(it.get_solution_set()).where(0).equal_to(0)
                                 .using(lambda a, b: a)), "is an outer join with the solution set"),
        (lambda d, i, it: closed(it, it.get_solution_set()), "the solution set itself"),
        (lambda d, i, it: closed(it, it.get_workset().map_partition(lambda p: p)
                                 .reduce_group(lambda g: g).filter(Greater())
                                 .with_broadcast_set(it.get_solution_set(), "x")), "can only be joined or co-grouped"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused(mistake, message):
    data = environment(2).from_elements((1, 2))

    with pytest.raises(InvalidProgram) as caught:
        mistake(data, data.iterate(3), data.iterate_delta(data, 3, 0))

    assert message in str(caught.value)


def nested(partial):
    inner = partial.map(lambda n: n).iterate(2)
    return inner.close_with(inner.map(lambda n: n))


def closed(iteration, delta):
    return iteration.close_with(delta, delta)


class FailsInSuperstep(FlatMapFunction):
    def open(self, runtime_context):
        self.superstep = runtime_context.get_superstep_number()

    def flat_map(self, value):
        return [value // (self.superstep - 3)]


def test_a_failure_names_the_superstep():
    start = environment(1).from_elements(5).iterate(9)

    with pytest.raises(OperatorFailed) as caught:
        start.close_with(start.flat_map(FailsInSuperstep()).name("divide")).collect()

    assert "operator 'divide' (subtask 0) in superstep 3 failed at the record" in str(caught.value)


def test_a_superstep_is_asked_for_outside_of_an_iteration():
    with pytest.raises(InvalidProgram, match="is not part of an iteration"):
        environment(1).from_elements(1).map(Tell()).collect()


# ---- the coordinator


def test_the_coordinator_waits_for_all_and_merges_their_aggregates():
    made = Aggregators((("sum", DoubleSumAggregator()),), ("sum", lambda superstep, total: superstep > 1 and total < 1))
    coordinator = IterationCoordinator(2, 10, made)

    assert coordinator.report(Report(1, 1, {"sum": 0.5})) is None
    assert coordinator.report(Report(1, 0, {"sum": 0.25})) == Next(2, {"sum": 0.75})
    assert coordinator.report(Report(2, 0, {"sum": 0.5})) is None
    assert coordinator.report(Report(2, 1, {"sum": 0.0})) == StopSupersteps(2, "the aggregator 'sum' has converged")


@pytest.mark.parametrize("report", [Report(2, 0), Report(1, 1)])
def test_the_coordinator_refuses_a_report_that_does_not_belong(report):
    coordinator = IterationCoordinator(2, 10)
    coordinator.report(Report(1, 1))

    with pytest.raises(RuntimeError, match="unexpected Report"):
        coordinator.report(report)
