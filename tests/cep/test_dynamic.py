"""Patterns that change while the job runs: rules come, are replaced and withdrawn, and others' partial matches stay."""

from __future__ import annotations

import pytest

from funken import InvalidProgram, OutputTag, WatermarkStrategy
from funken.cep import (
    CEP,
    AfterMatchSkipStrategy,
    Pattern,
    PatternProcessFunction,
    PatternRule,
    TimedOutPartialMatchHandler,
)
from funken.errors import FunkenError
from funken.ids import MAX_WATERMARK
from funken.testing import OperatorHarness, local

EXPIRED, LATE = OutputTag("expired"), OutputTag("late")


class Report(PatternProcessFunction, TimedOutPartialMatchHandler):
    def process_match(self, match, ctx):
        yield f"{ctx.rule_id()}: {text(match)}"

    def process_timed_out_match(self, match, ctx):
        yield EXPIRED, (f"{ctx.rule_id()}: {text(match)}", ctx.timestamp())


def text(match):
    return " ".join(event for events in match.values() for event in events)


def build(definition: str) -> Pattern:
    """Make a pattern of letters that follow one another, ``"ab"``, maybe with a window, ``"ab 10"``."""
    letters, _, window = definition.partition(" ")
    pattern = None
    for letter in letters:
        pattern = Pattern.begin(letter) if pattern is None else pattern.followed_by(letter)
        pattern = pattern.where(lambda event, letter=letter: event[0] == letter)
    return pattern.within(int(window)) if window else pattern


def key_of(event: str) -> str:
    return event[-1]


def spec_of(**settings):
    events = local(["x"])
    rules = events.get_execution_environment().from_collection([PatternRule("r", 1, "ab")])
    stream = CEP.dynamic_patterns(events.key_by(key_of), rules, build, settings.get("comparator"))
    stream = stream.side_output_late_data(LATE) if settings.get("late") else stream
    stream = stream if settings.get("event_time", True) else stream.in_processing_time()
    env = events.get_execution_environment()
    if "most" in settings:
        env.get_configuration().set_string("pipeline.cep.max-partial-matches", str(settings["most"]))
    stream.process(Report())
    return env.compile().vertices[-1].nodes[-1].spec


def harness_of(**settings) -> OperatorHarness:
    return OperatorHarness(spec_of(**settings), keyed=True, now=settings.get("now", 0))


def rule(harness: OperatorHarness, *rules: tuple) -> OperatorHarness:
    for each in rules:
        harness.feed_second(PatternRule(*each))
    return harness


def feed(harness: OperatorHarness, events: str, first: int = 0) -> OperatorHarness:
    for at, event in enumerate(events.split(), first):
        harness.feed(event, at)
    harness.watermark(first + len(events.split()) - 1)
    return harness


def test_every_rule_finds_its_own_matches_in_each_key():
    harness = rule(harness_of(), ("one", 1, "ab"), ("two", 1, "ac"))
    feed(harness, "a1 b2 a2 b1 c1 c2 b2")
    assert sorted(harness.output) == ["one: a1 b1", "one: a2 b2", "two: a1 c1", "two: a2 c2"]


def test_a_rule_that_is_replaced_loses_its_partial_matches_and_others_do_not():
    harness = rule(harness_of(), ("one", 1, "abx"), ("two", 1, "abx"))
    feed(harness, "a1 b1")
    rule(harness, ("one", 2, "bx"))
    feed(harness, "x1 b1 x1", first=2)
    assert harness.output == ["two: a1 b1 x1", "one: b1 x1"]


def test_a_rule_that_is_withdrawn_leaves_nothing():
    harness = feed(rule(harness_of(), ("one", 1, "ab")), "a1")
    feed(rule(harness, ("one", 2, None)), "b1", first=1)
    assert harness.output == []
    assert not [rows for group in harness.snapshot()["keyed"].groups.values() for rows in group.values() if rows]
    feed(rule(harness, ("one", 1, "b")), "b1", first=2)
    assert harness.output == [], "an older version does not come back"
    feed(rule(harness, ("one", 3, "b")), "b1", first=3)
    assert harness.output == ["one: b1"]


def test_a_rule_that_comes_again_changes_nothing():
    harness = feed(rule(harness_of(), ("one", 1, "ab")), "a1")
    feed(rule(harness, ("one", 1, "ab")), "b1", first=1)
    assert harness.output == ["one: a1 b1"]


def test_windows_end_by_rule():
    harness = rule(harness_of(), ("one", 1, "ab 10"), ("two", 1, "ab 3"))
    feed(harness, "a1")
    harness.watermark(5)
    assert harness.side_output(EXPIRED) == [("two: a1", 3)]
    harness.watermark(10)
    assert harness.side_output(EXPIRED) == [("two: a1", 3), ("one: a1", 10)]


def test_rules_and_partial_matches_survive_a_checkpoint_and_rescaling():
    first = feed(rule(harness_of(), ("one", 1, "ab"), ("two", 1, "cb")), "a1 a2 c1 c2")
    first.feed("b1", 9)  # waits
    halves = [
        OperatorHarness(spec_of(), keyed=True, subtask=n, parallelism=2, snapshots=[first.snapshot()]) for n in range(2)
    ]
    for each in halves:
        each.watermark(20)
    assert sorted(found for each in halves for found in each.output) == ["one: a1 b1", "two: c1 b1"]


def test_processing_time_and_late_events():
    harness = rule(harness_of(event_time=False, now=100), ("one", 1, "ab 10"))
    harness.feed("a1")
    harness.processing_time(105)
    harness.feed("b1")
    harness.feed("a1")
    assert harness.output == ["one: a1 b1"]
    harness.processing_time(116)
    assert harness.side_output(EXPIRED) == [("one: a1", 115)]
    late = rule(harness_of(late=True), ("one", 1, "a"))
    late.watermark(5)
    late.feed("a1", 5)
    assert late.side_output(LATE) == ["a1"]


def test_a_comparator_orders_events_of_one_time():
    harness = rule(harness_of(comparator=lambda a, b: (a > b) - (a < b)), ("one", 1, "ab"))
    harness.feed_block(["b1", "a1"], [1, 1])
    harness.watermark(1)
    assert harness.output == ["one: a1 b1"]


def test_too_many_partial_matches_name_the_rule():
    harness = rule(harness_of(most=2), ("one", 1, "ab"))
    with pytest.raises(FunkenError, match=r"rule 'one' has 3 partial matches for the key '1'.*max-partial-matches"):
        feed(harness, "a1 a1 a1")


@pytest.mark.parametrize("event_time", [True, False])
def test_windows_end_with_the_input_in_batch(event_time, caplog):
    harness = OperatorHarness(spec_of(event_time=event_time), keyed=True, batch=True)
    rule(harness, ("one", 1, "ab 10"), ("two", 1, "ac 3"))
    for at, event in enumerate(["a1", "b1", "a1", "a2"]):
        harness.feed(event, at)
    harness.watermark(MAX_WATERMARK)
    assert harness.output == ["one: a1 b1"]
    assert sorted(text for text, _ in harness.side_output(EXPIRED)) == ["one: a1", "one: a2"] + ["two: a1"] * 2 + [
        "two: a2"
    ]
    assert caplog.text == ""


def test_what_is_no_rule_is_refused():
    with pytest.raises(FunkenError, match="consists of PatternRule"):
        harness_of().feed_second(("one", "ab"))
    events = local([1])
    stream = CEP.dynamic_patterns(events, events, lambda definition: "ab").process(Report())
    operator = stream.get_execution_environment().compile().vertices[-1].nodes[-1].spec
    with pytest.raises(FunkenError, match="has made no Pattern of 'x', but 'ab'"):
        OperatorHarness(operator, keyed=True).feed_second(PatternRule("one", 1, "x"))
    with pytest.raises(InvalidProgram, match="needs a function"):
        CEP.dynamic_patterns(events, events, "ab")
    with pytest.raises(InvalidProgram, match="needs a PatternProcessFunction"):
        CEP.dynamic_patterns(events, events, build).process(text)


def test_a_job():
    events = local(["a1", "b1", "c1"]).map(lambda event: event)
    rules = events.get_execution_environment().from_collection(
        [PatternRule("one", 1, "ab"), PatternRule("two", 1, "c")]
    )
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda event, _: ord(event[0]))
    stream = CEP.dynamic_patterns(events.assign_timestamps_and_watermarks(by_time), rules, build)
    assert stream.explain() == "not keyed: one task handles all events\npatterns of rules"
    assert stream.process(Report()).execute_and_collect(limit=9) == ["one: a1 b1", "two: c1"]
    assert stream.select(text).execute_and_collect(limit=9) == ["a1 b1", "c1"]


def test_a_skip_strategy_is_part_of_a_pattern():
    def once(definition):
        skip = AfterMatchSkipStrategy.skip_past_last_event()
        return Pattern.begin("a", skip).where(lambda event: event[0] == definition).times(2)

    events = local(["x"])
    rules = events.get_execution_environment().from_collection([PatternRule("r", 1, "a")])
    CEP.dynamic_patterns(events, rules, once).process(Report())
    spec = events.get_execution_environment().compile().vertices[-1].nodes[-1].spec
    harness = feed(rule(OperatorHarness(spec, keyed=True), ("r", 1, "a")), "a1 a2 a3 a4")
    assert harness.output == ["r: a1 a2", "r: a3 a4"]
