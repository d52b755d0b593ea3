"""Each rule alone on small plans: what it changes, what it leaves, and what it notes."""

from dataclasses import dataclass

import pytest

from funken import (
    AggregateFunction,
    DataGeneratorSource,
    DiscardingSink,
    InvalidProgram,
    MapFunction,
    OutputTag,
    RuntimeExecutionMode,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    Types,
    WatermarkStrategy,
)
from funken.compat.pyflink.dependencies import Dependencies, ShippedPlan, shipped
from funken.operators.base import Operator
from funken.operators.user_functions import BatchInput, OperatorTraits
from funken.operators.window.spec import Strategy
from funken.operators.wrappers import Converting, SortedInput
from funken.plan.physical import RuleContext
from funken.plan.rules import operators
from funken.plan.rules.stage import rewrite
from funken.testing import local

SIDE = OutputTag("side", Types.STRING())


def applied(rule, stream, **context):
    """Return the plan that a rule alone makes of a program, and its notes as ``(operator or vertex, text)``."""
    compiled = stream.get_execution_environment()._submission(None).compiled()
    plan = rewrite(compiled, RuleContext(**context), [rule])
    names = {node.id: node.name for node in plan.nodes}
    assert {note.rule for note in plan.notes} <= {rule.name}
    assert unchanged(compiled, plan), "a rule changes no operator's id, name, inputs or parallelism"
    return plan, [(names.get(note.operator, note.vertex), note.text) for note in plan.notes]


def unchanged(before, after):
    """Whether two plans have the same operators, whatever their specs."""
    fields = [[(n.id, n.name, n.inputs, n.parallelism, n.keyed) for n in plan.nodes] for plan in (before, after)]
    return fields[0] == fields[1] and before.stable_ids == after.stable_ids


def spec_of(plan, name):
    return next(node.spec for node in plan.nodes if node.name == name)


class Rich(MapFunction):
    def open(self, runtime_context):
        pass

    def map(self, value):
        return value


@dataclass(frozen=True)
class Keyless:
    """On a keyed stream, without keys."""

    def build(self):
        return Operator()


@dataclass(frozen=True)
class Unsorted:
    """Does not see the order."""

    traits = OperatorTraits(batch_input=BatchInput.ANY_ORDER)

    def build(self):
        return Operator()


# ---- chaining


@pytest.mark.parametrize(
    ("build", "vertices", "note"),
    [
        (lambda s: s.map(str), ["collection -> abs -> map"], None),
        (lambda s: s.map(str).start_new_chain(), ["collection -> abs", "map"], "start_new_chain()"),
        (lambda s: s.map(str).disable_chaining(), ["collection -> abs", "map"], "disable_chaining()"),
        (
            lambda s: s.disable_chaining().map(str).set_parallelism(1),
            ["collection", "abs", "map"],
            "disable_chaining() of 'abs'",
        ),
        (
            lambda s: s.map(str).slot_sharing_group("text"),
            ["collection -> abs", "map"],
            "slot sharing group 'text', 'abs' has 'default'",
        ),
        (
            lambda s: s.map(str).set_max_parallelism(7),
            ["collection -> abs", "map"],
            "max parallelism 7, 'abs' has 128",
        ),
        (
            lambda s: s.union(s.map(str).name("text")).map(len),
            ["collection -> abs -> text", "map"],
            "has several inputs",
        ),
        (lambda s: s.rebalance().map(str), ["collection -> abs", "map"], None),
    ],
)
def test_chaining_joins_forward_edges_and_says_what_objects(build, vertices, note):
    stream = build(local([1]).map(abs).name("abs"))
    plan, notes = applied(operators.CHAINING, stream)

    assert [vertex.name for vertex in plan.vertices] == vertices
    assert [text for name, text in notes if name == "map"] == ([f"not chained: {note}"] if note else [])


def test_chaining_can_be_off():
    plan, notes = applied(operators.CHAINING, local([1]).map(abs), chaining=False)

    assert [vertex.name for vertex in plan.vertices] == ["collection", "map"]
    assert notes == [(None, "off: pipeline.operator-chaining.enabled is false")]


def test_chaining_keeps_what_a_subclass_of_the_plan_carries():
    compiled = local([1]).map(abs).get_execution_environment()._submission(None).compiled()
    plan = rewrite(shipped(compiled, Dependencies()), RuleContext())

    assert isinstance(plan, ShippedPlan)
    assert [vertex.name for vertex in plan.vertices] == ["collection -> map"]


# ---- state backend


def windowed(stream, name="window"):
    return stream.key_by(lambda n: n % 2).window(SlidingEventTimeWindows.of(4, 2)).reduce(max).name(name)


def test_windows_stay_in_their_fast_logic_in_memory():
    plan, notes = applied(operators.STATE_BACKEND, windowed(local([1])))

    assert spec_of(plan, "window").strategy is Strategy.ALIGNED
    assert notes == [("window", "aligned windows")]


def test_windows_are_keyed_state_where_state_is_in_files():
    plan, notes = applied(operators.STATE_BACKEND, windowed(local([1])), state_in_files=True)

    assert spec_of(plan, "window").strategy is Strategy.GENERAL
    assert notes == [("window", "general windows, in keyed state: state is in files")]


def test_only_windows_that_are_restored_from_keyed_state_go_on_with_it():
    numbers = local([1])
    windowed(numbers, "fresh")
    stream = windowed(numbers.map(abs), "restored").uid("restored")
    plan, notes = applied(operators.STATE_BACKEND, stream, restored_in_keyed_state=frozenset({"restored"}))

    assert spec_of(plan, "fresh").strategy is not Strategy.GENERAL
    assert spec_of(plan, "restored").strategy is Strategy.GENERAL
    assert notes[1] == ("restored", "general windows, in keyed state: restored from keyed state")


def test_a_join_is_its_windows():
    numbers = local([1])
    joined = numbers.join(numbers.map(abs)).where(abs).equal_to(abs).window(TumblingEventTimeWindows.of(4))
    plan, notes = applied(operators.STATE_BACKEND, joined.apply(lambda a, b: a).name("join"), state_in_files=True)

    assert spec_of(plan, "join").window.strategy is Strategy.GENERAL
    assert notes == [("join", "general windows, in keyed state: state is in files")]


@pytest.mark.parametrize("names", [[], ["_windows.panes"], ["mine"]])
def test_states_of_other_operators_are_no_windows_in_keyed_state(names):
    assert operators.saved_in_keyed_state([("a", dict.fromkeys(names))]) == frozenset()


# ---- fusion


def test_fusion_makes_loops_of_neighbours_and_the_key_behind_them():
    stream = local([1]).rebalance().map(lambda n: n + 1).name("a").filter(lambda n: n > 1).name("b")
    plan, notes = applied(operators.FUSION, stream.key_by(lambda n: n).sum())

    assert [[len(run.operators) for run in vertex.fused] for vertex in plan.vertices] == [[], [1], [1], []]
    assert notes == [
        (1, "one loop: a (inlined)"),
        (2, "one loop: b (inlined) + key_by (inlined)"),
        (3, "one loop: key (inlined) + sum"),
    ]

    chained = rewrite(
        stream.get_execution_environment()._submission(None).compiled(),
        RuleContext(),
        [operators.CHAINING, operators.FUSION],
    )
    (run,) = chained.vertices[1].fused
    assert [[node.name for node in chained.nodes if node.id == number] for number in run.operators] == [["a"], ["b"]]
    assert chained.edges[run.edge].target_stage == 2


def test_fusion_leaves_what_converts_its_results():
    stream = local([1]).map(lambda n: n, Types.INT()).name("typed")
    plan, notes = applied(operators.FUSION, stream)

    assert [vertex.fused for vertex in plan.vertices] == [(), ()]
    assert notes == [(1, "no loop: typed, its results are converted to a declared type")]


def test_windows_have_a_loop_where_it_holds_a_function():
    def called(a, b):
        return a + b if a else b

    def windows(key=lambda n: n):
        return local([1]).key_by(key).window(TumblingEventTimeWindows.of(5))

    def notes(stream):
        return applied(operators.FUSION, stream)[1]

    class Count(AggregateFunction):
        def create_accumulator(self):
            return 0

        def add(self, value, accumulator):
            return accumulator + 1

        def get_result(self, accumulator):
            return accumulator

    key = (0, "one loop: key_by (inlined)")
    assert notes(windows().reduce(lambda a, b: a + b).name("sum")) == [
        key,
        (1, "one loop: key (inlined) + sum (inlined)"),
    ]
    assert notes(windows().reduce(called).name("sum")) == [key, (1, "one loop: key (inlined) + sum")]
    assert notes(windows(abs).reduce(called).name("sum")) == []
    assert notes(windows(abs).aggregate(Count()).name("count")) == [(1, "one loop: key + count (inlined)")]
    assert notes(windows().apply(lambda key, window, values: values)) == [key, (1, "one loop: key (inlined)")]
    everything = local([1]).window_all(TumblingEventTimeWindows.of(5)).reduce(lambda a, b: a + b)
    assert notes(everything) == []


def test_an_assigner_and_the_key_behind_it_have_loops():
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    stamped = local([1]).assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(lambda n, _: n))
    notes = applied(operators.FUSION, stamped.key_by(abs).reduce(min).name("least"))[1]

    assert notes == [(1, "one loop: the timestamp assigner (inlined)")]


def test_a_running_reduce_has_a_loop_only_where_it_reduces_record_by_record():
    reduced = local([1]).key_by(lambda n: n).reduce(lambda a, b: a + b).name("sum")
    key = (0, "one loop: key_by (inlined)")

    assert applied(operators.FUSION, reduced)[1] == [key, (1, "one loop: key (inlined) + sum (inlined)")]
    assert applied(operators.FUSION, reduced, batch=True)[1] == [key]


# ---- declared types


def test_declared_types_wrap_the_operators_that_have_one():
    stream = local([1]).map(str).name("plain").process(lambda n, ctx: [n], Types.STRING()).name("typed")
    stream.get_side_output(SIDE)
    plan, notes = applied(operators.DECLARED_TYPES, stream)

    assert not isinstance(spec_of(plan, "plain"), Converting)
    found = spec_of(plan, "typed")
    assert (found.type_info, found.sides) == (Types.STRING(), (("side", Types.STRING()),))
    assert notes == [("typed", "converts results to String, side output 'side' to String")]


def test_the_last_declaration_counts():
    stream = local([1]).process(lambda n, ctx: [n]).name("typed")
    for type_info in (Types.INT(), Types.STRING()):
        stream.get_side_output(OutputTag("side", type_info))
    plan, _ = applied(operators.DECLARED_TYPES, stream)

    assert spec_of(plan, "typed").sides == (("side", Types.STRING()),)


# ---- batch order


def test_batch_sorts_what_keyed_operators_get():
    stream = local([1]).map(abs).key_by(lambda n: n).map(Rich()).name("rich").key_by(lambda n: n).sum()
    plan, notes = applied(operators.BATCH_ORDER, stream, batch=True)

    assert {node.name: isinstance(node.spec, SortedInput) for node in plan.nodes} == {
        "collection": False, "map": False, "rich": True, "sum": True,
    }  # fmt: skip
    assert notes == [("rich", "key after key, each in the order of time"), ("sum", "each key in the order of time")]


def test_streaming_sorts_nothing():
    plan, notes = applied(operators.BATCH_ORDER, local([1]).key_by(lambda n: n).sum())

    assert not any(isinstance(node.spec, SortedInput) for node in plan.nodes)
    assert notes == []


def test_an_operator_that_does_not_see_the_order_is_not_given_one():
    plan, notes = applied(
        operators.BATCH_ORDER, local([1]).key_by(lambda n: n).transform("own", Unsorted()), batch=True
    )

    assert not isinstance(spec_of(plan, "own"), SortedInput)
    assert notes == [("own", "in the order of arrival")]


def test_a_keyed_operator_without_keys_is_rejected_and_named():
    stream = local([1]).key_by(lambda n: n)
    stream._apply("lost", Keyless(), keyed=True)

    with pytest.raises(InvalidProgram, match=r"operator 'lost' \(Keyless\) .* declares no keys.*OperatorTraits.keys"):
        applied(operators.BATCH_ORDER, stream, batch=True)
    applied(operators.BATCH_ORDER, stream)


@pytest.mark.parametrize(
    ("reduce", "order"),
    [
        (lambda a, b: (a[0], b[1]), "each key in the order of time, as single records"),
        (lambda a, b: (a[0], a[1] + b[1]), "in the order of arrival"),
    ],
)
def test_columns_that_become_records_for_the_order_are_noted(reduce, order):
    env = StreamExecutionEnvironment.create_local_environment(1)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    pairs = env.from_source(DataGeneratorSource(lambda i: (i % 3, i), 10), WatermarkStrategy.no_watermarks())
    pairs.key_by(lambda p: p[0]).reduce(reduce).name("sum").sink_to(DiscardingSink())

    assert f"batch order: sum: {order}\n" in f"{env.explain()}\n"
