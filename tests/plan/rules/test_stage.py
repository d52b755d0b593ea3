"""The rewrite stage: its rules in their order, what reaches ``explain()``, and the one decision of an attempt."""

import json
from dataclasses import replace

import pytest

from funken import (
    Configuration,
    DataGeneratorSource,
    DiscardingSink,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    Types,
    WatermarkStrategy,
)
from funken.operators.columnar.specs import ColumnarWindow
from funken.plan.physical import Rule, RuleContext, RuleNote
from funken.plan.rules.stage import RULES, RewriteStage, rewrite
from funken.testing import local

NAMES = ["chaining", "errors", "state backend", "columns", "projection", "pre-aggregation", "fusion", "declared types"]
NAMES += ["batch order", "workers"]


def sums(**options):
    """A window over columns, of which the blocks are folded before the exchange."""
    configuration = Configuration({name.replace("__", "-").replace("_", "."): value for name, value in options.items()})
    env = StreamExecutionEnvironment.create_local_environment(2, configuration)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, at: pair[1])
    pairs = env.from_source(DataGeneratorSource(lambda i: (i % 3, i), 100), strategy, "pairs")
    windows = pairs.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(10))
    windows.reduce(lambda a, b: (a[0], a[1] + b[1])).name("sum").sink_to(DiscardingSink())
    return env


def decisions(plan):
    """What was decided, as ``(rule, operator or vertex, text)``."""
    names = {node.id: node.name for node in plan.nodes}
    return [(note.rule, names.get(note.operator, note.vertex), note.text) for note in plan.notes]


def test_rules_are_applied_in_one_order_that_is_printed():
    assert [rule.name for rule in RULES] == NAMES
    assert list(sums().compile().rules) == NAMES
    assert "\nrules, in this order: " + ", ".join(NAMES) in sums().explain()


def test_a_rule_is_given_the_plan_that_the_one_before_it_made():
    seen = []

    def renaming(name):
        def apply(plan, context):
            seen.append((plan.name, context))
            return replace(plan, name=name), [RuleNote(name, "renamed")]

        return Rule(name, apply)

    context = RuleContext(batch=True)
    plan = rewrite(sums().compile("begin"), context, [renaming("one"), renaming("two")])

    assert seen == [("begin", context), ("one", context)]
    assert (plan.name, plan.rules, plan.notes) == (
        "two", ("one", "two"), (RuleNote("one", "renamed"), RuleNote("two", "renamed")),
    )  # fmt: skip


def test_explain_has_the_decisions_about_each_operator_rule_by_rule():
    assert [line.strip() for line in sums().explain().splitlines() if " sum: " in line] == [
        "state backend: sum: aligned windows",
        "columns: sum: vectorized",
        "pre-aggregation: sum: before the exchange",
    ]


def test_explain_says_what_is_off():
    off = sums(pipeline_vectorized=False, pipeline_pre__aggregation=False, pipeline_operator__chaining_enabled=False)

    assert off.explain().splitlines()[-3:] == [
        "  chaining: off: pipeline.operator-chaining.enabled is false",
        "  columns: off: pipeline.vectorized is false",
        "  pre-aggregation: off: pipeline.pre-aggregation is false",
    ]


def test_explain_says_what_works_on_columns_while_state_is_in_files():
    lines = [line.strip() for line in sums(state_backend_type="rocksdb").explain().splitlines()]

    assert "columns: pairs: vectorized" in lines
    assert "state backend: sum: general windows, in keyed state: state is in files" in lines
    assert "columns: sum: vectorized" in lines
    assert "pre-aggregation: sum: before the exchange" in lines


def test_the_decisions_are_in_the_json():
    document = json.loads(sums().explain("json"))

    assert document["rules"] == NAMES
    number = document["vertices"][1]["operators"][0]["id"]
    assert {"rule": "columns", "operator": number, "vertex": None, "text": "vectorized"} in document["decisions"]


def test_nothing_is_decided_before_the_stage():
    env = sums()
    compiled = env._submission(None).compiled()

    assert [vertex.name for vertex in compiled.vertices] == ["pairs", "sum", "sink"]
    assert (compiled.rules, compiled.notes) == ((), ())


def test_the_attempt_decides_for_windows_that_are_restored_from_keyed_state():
    env = sums()
    stage = RewriteStage(env._submission(None).compiled(), RuleContext())
    fresh = stage.plan()
    window = fresh.vertices[1].nodes[0]
    restored = stage.plan(frozenset({fresh.stable_ids[window.id]}))

    assert isinstance(window.spec, ColumnarWindow)
    assert [text for _, name, text in decisions(restored) if name == "sum"] == [
        "general windows, in keyed state: restored from keyed state",
        "vectorized",
        "before the exchange",
    ]
    folds = [plan.edges[0].partitioning.pre_aggregation is not None for plan in (fresh, restored)]
    assert folds == [True, True], "a window of one firing takes partials in either logic"
    assert stage.plan(frozenset({"another"})).notes == fresh.notes


def test_no_rule_looks_at_a_wrapped_spec():
    """Declared types hid the operator from BATCH once, and from the choice of the backend."""
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"execution.runtime-mode": "BATCH"}))
    keyed = env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks()).key_by(lambda n: n % 2)
    keyed.window(TumblingEventTimeWindows.of(5)).reduce(max, output_type=Types.INT()).name("largest").print()

    assert [(rule, text) for rule, name, text in decisions(env.compile()) if name == "largest"] == [
        ("state backend", "aligned windows"),
        ("columns", "per record: max is no Python function"),
        ("declared types", "converts results to Integer"),
        ("batch order", "key after key, each in the order of time"),
    ]


@pytest.mark.parametrize("batch", [False, True])
def test_state_is_in_files_only_where_it_outlives_a_task(batch):
    configuration = Configuration({"state.backend.type": "rocksdb"})

    assert RuleContext.of(configuration, batch).state_in_files is not batch


def test_a_stream_can_be_compiled_again():
    stream = local([1]).map(lambda x: x, output_type=Types.INT())
    env = stream.get_execution_environment()

    assert env.compile().notes == env.compile().notes
