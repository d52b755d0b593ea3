"""From a program to stages: what is chained, what is exchanged, what is relayed, what is refused."""

import os
from pathlib import Path

import pytest

from funken import (
    CoMapFunction,
    InvalidProgram,
    NumberSequenceSource,
    OutputTag,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def env():
    return StreamExecutionEnvironment.create_local_environment(parallelism=2)


def numbers(env, name="numbers"):
    return env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), name)


def shape(env):
    """Each vertex as ``stage: names x parallelism``."""
    return [f"{v.stage}: {v.name} x{v.parallelism}" for v in env.compile().vertices]


def edges(env):
    plan = env.compile()
    return [(e.source, e.target, e.partitioning.label, "local" if e.local else "exchange") for e in plan.edges]


def add(a, b):
    return a + b


# ---- chaining


def test_forward_edges_of_equal_parallelism_are_chained(env):
    numbers(env).map(str).filter(bool).print()

    assert shape(env) == ["0: numbers -> map -> filter -> print x2"]


def test_another_parallelism_is_an_exchange(env):
    numbers(env).map(str).set_parallelism(3).print()

    assert shape(env) == ["0: numbers x2", "1: map x3", "2: print x2"]
    assert edges(env) == [(0, 1, "REBALANCE", "exchange"), (1, 2, "REBALANCE", "exchange")]


def test_a_key_is_an_exchange_even_at_parallelism_one(env):
    env.set_parallelism(1)
    numbers(env).key_by(str).reduce(add).print()

    assert shape(env) == ["0: numbers x1", "1: reduce -> print x1"]


def test_a_fork_is_chained_as_a_tree(env):
    head = numbers(env)
    head.map(str).print()
    head.filter(bool)

    assert shape(env) == ["0: numbers -> map -> print -> filter x2"]


def test_two_inputs_are_never_chained(env):
    class Both(CoMapFunction):
        def map1(self, value):
            return value

        def map2(self, value):
            return value

    one, two = numbers(env, "one"), numbers(env, "two")
    one.connect(two).map(Both()).print()
    one.union(two).map(str)

    assert shape(env) == ["0: one x2", "0: two x2", "0: co_map -> print x2", "0: map x2"]
    assert set(edges(env)) == {(source, target, "FORWARD", "local") for source in (0, 1) for target in (2, 3)}


@pytest.mark.parametrize(
    ("change", "vertices"),
    [
        (lambda stream: stream.start_new_chain(), ["numbers", "middle -> last"]),
        (lambda stream: stream.disable_chaining(), ["numbers", "middle", "last"]),
        (lambda stream: stream.slot_sharing_group("other"), ["numbers", "middle -> last"]),
        (lambda stream: stream.set_max_parallelism(64), ["numbers", "middle", "last"]),
    ],
)
def test_what_breaks_a_chain_does_not_raise_the_level(env, change, vertices):
    change(numbers(env).map(str).name("middle")).map(str).name("last")

    plan = env.compile()
    assert [vertex.name for vertex in plan.vertices] == vertices
    assert {vertex.stage for vertex in plan.vertices} == {0}
    assert all(edge.local for edge in plan.edges)


def groups(env):
    """The slot sharing group of each vertex; one that is chained has one."""
    return {vertex.name: {node.slot_sharing_group for node in vertex.nodes} for vertex in env.compile().vertices}


def test_a_slot_sharing_group_is_that_of_the_input_until_another_is_named(env):
    heavy = numbers(env).map(str).name("heavy").slot_sharing_group("heavy")
    heavy.key_by(str).reduce(add).name("keyed").filter(bool).name("kept")
    heavy.map(len).name("light").slot_sharing_group("default").print()

    assert groups(env) == {
        "numbers": {"default"},
        "heavy": {"heavy"},
        "keyed -> kept": {"heavy"},
        "light -> print": {"default"},
    }


def test_what_reads_from_several_slot_sharing_groups_is_in_the_default_one(env):
    one, two = (numbers(env, name).slot_sharing_group("a") for name in ("one", "two"))
    one.union(two).map(str).name("same")
    one.union(two, numbers(env, "three").slot_sharing_group("b")).map(str).name("mixed")

    found = groups(env)
    assert (found["same"], found["mixed"]) == ({"a"}, {"default"})


def test_naming_the_default_slot_sharing_group_is_naming_none(env):
    numbers(env).map(str).slot_sharing_group("default").print()

    assert shape(env) == ["0: numbers -> map -> print x2"]


def test_a_group_that_is_named_later_counts_for_what_was_added_before(env):
    middle = numbers(env).map(str).name("middle")
    middle.print()
    middle.slot_sharing_group("late")

    assert groups(env) == {"numbers": {"default"}, "middle -> print": {"late"}}


def test_chaining_can_be_turned_off(env):
    env.disable_operator_chaining()
    numbers(env).map(str).print()

    assert not env.is_chaining_enabled()
    assert shape(env) == ["0: numbers x2", "0: map x2", "0: print x2"]


def test_a_side_output_is_chained_like_any_other(env):
    tag = OutputTag("side")
    numbers(env).process(lambda value, ctx: [(tag, value)]).get_side_output(tag).map(str)

    assert shape(env) == ["0: numbers -> process -> map x2"]


# ---- stages


def test_an_exchange_raises_the_level_and_a_forward_edge_does_not(env):
    one = numbers(env, "one").rebalance().map(str)
    two = numbers(env, "two")
    one.union(two).filter(bool).key_by(str).reduce(add)

    assert shape(env) == ["0: one x2", "1: map x2", "0: two x2", "1: filter x2", "2: reduce x2"]


def test_a_level_is_as_wide_as_its_widest_vertex(env):
    numbers(env).rebalance().map(str).set_parallelism(5)
    numbers(env, "again").rebalance().map(str).set_parallelism(3)

    plan = env.compile()
    assert plan.widths == (2, 5)
    assert plan.slots == 7


def test_an_edge_that_skips_levels(env):
    low = numbers(env)
    high = low.rebalance().map(str).rebalance().map(int)
    low.union(high).print()

    plan = env.compile()
    skipping = next(edge for edge in plan.edges if edge.target_stage - edge.source_stage == 2)
    assert (skipping.source, skipping.partitioning.label, skipping.local) == (0, "FORWARD", False)
    assert "relayed over 1 stage(s)" in env.explain()


def test_sources_and_boundedness(env):
    numbers(env).print()
    plan = env.compile()

    assert plan.bounded
    assert plan.vertices[0].source.name == "numbers"
    assert [v.source for v in plan.vertices[1:]] == []


# ---- ids


def test_stable_ids_do_not_depend_on_names_or_parallelism(env):
    def build(name, width):
        numbers(env).map(str).name(name).key_by(len).reduce(add).set_parallelism(width).uid("total")
        plan = env.compile()
        env.graph.take()
        return [*plan.stable_ids.values()]

    first = build("a", 1)
    assert first == build("b", 4)
    assert first[2] == "total"
    assert len(set(first)) == 3


def test_twins_have_different_ids(env):
    stream = numbers(env)
    stream.map(str)
    stream.map(str)

    ids = [*env.compile().stable_ids.values()]
    assert len(set(ids)) == 3


# ---- what is refused


def refused(env, message):
    with pytest.raises(InvalidProgram, match=message):
        env.compile()


def test_an_empty_program(env):
    refused(env, "No operators defined in streaming topology. Cannot execute.")


def test_forward_between_unequal_parallelisms(env):
    numbers(env).forward().map(str).set_parallelism(3)

    refused(env, r"'map' \(parallelism 3\) is joined by forward\(\) to 'numbers' \(parallelism 2\)")


def test_a_collection_in_parallel(env):
    env.from_collection([1]).set_parallelism(2)

    refused(env, "'collection' has parallelism 2, but cannot run with more than 1")


def test_more_subtasks_than_key_groups(env):
    numbers(env).key_by(str).reduce(add).set_max_parallelism(4).set_parallelism(5)

    refused(env, "'reduce' has parallelism 5, more than its maximum 4")


def test_more_subtasks_than_the_environment_has_key_groups(env):
    env.set_max_parallelism(3)
    numbers(env).key_by(str).reduce(add).set_parallelism(4)

    refused(env, "'reduce' has parallelism 4, more than its maximum 3")


def test_one_uid_for_two_operators(env):
    numbers(env).uid("same").map(str).uid("same")

    refused(
        env,
        r"uid 'same' is used by 'numbers' \(test_physical.py, line \d+\) and 'map' \(test_physical.py, line \d+\); a uid",
    )


# ---- explain


def program(env):
    """A bit of everything."""
    tag = OutputTag("late")
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    words = numbers(env, "words").flat_map(str).name("split").uid("split")
    sums = words.key_by(str).window(TumblingEventTimeWindows.of(1000)).side_output_late_data(tag).reduce(add)
    sums.get_side_output(tag).broadcast().map(str).set_parallelism(3).print("late")
    sums.union(words).rescale().assign_timestamps_and_watermarks(strategy).set_parallelism(1).print()
    words.connect(env.from_collection([1])).process(_Pass()).set_description("joins them").shuffle().map(str)


class _Pass:
    def process_element1(self, value, ctx):
        return None

    def process_element2(self, value, ctx):
        return None


@pytest.mark.parametrize("format", ["text", "json"])
def test_explain_is_as_agreed(env, format):
    """The agreed text is in tests/golden; UPDATE_GOLDEN=1 writes it anew."""
    program(env)
    found = env.explain(format)
    path = GOLDEN / f"explain.{'txt' if format == 'text' else format}"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(found + "\n")

    assert found + "\n" == path.read_text()


def test_explaining_runs_nothing_and_changes_nothing(env):
    program(env)

    assert env.explain() == env.explain()
    assert env.get_execution_plan() == env.explain("json")


def test_subtasks_may_share_workers(env):
    env.get_configuration().set("execution.subtasks-per-worker", 2)
    numbers(env, "words").map(str).set_parallelism(5).rebalance().map(str).set_parallelism(1)
    plan = env.compile()

    assert plan.workers == tuple((width + 1) // 2 for width in plan.widths)
    assert plan.slots == sum(plan.workers)
    assert "(width 5 in 3 workers)" in env.explain() and "(width 1)" in env.explain()
