"""The operator: time, late events, time-outs, checkpoints, and what is left of a key."""

from __future__ import annotations

import pytest

from funken import (
    DataStream,
    InvalidProgram,
    OutputTag,
    RuntimeExecutionMode,
    WatermarkGenerator,
    WatermarkStrategy,
)
from funken.cep import (
    CEP,
    AfterMatchSkipStrategy,
    Pattern,
    PatternProcessFunction,
    TimedOutPartialMatchHandler,
    WithinType,
)
from funken.cep.operator import MatchPattern, Settings
from funken.errors import FunkenError, JobExecutionError, MalformedPattern, StateTooLarge
from funken.ids import MAX_WATERMARK
from funken.state.keygroups import key_group_of, key_groups_of
from funken.testing import OperatorHarness, local

LATE, EXPIRED = OutputTag("late"), OutputTag("expired")
GAP = WithinType.PREVIOUS_AND_CURRENT


class Report(PatternProcessFunction, TimedOutPartialMatchHandler):
    """Emits ``"s1 m2"`` for a match, and with the time of the match for what timed out."""

    def process_match(self, match, ctx):
        yield text(match)

    def process_timed_out_match(self, match, ctx):
        yield EXPIRED, (text(match), ctx.timestamp())


def text(match):
    return " ".join(event.split(":")[-1] for events in match.values() for event in events)


def letters(names: str, append=Pattern.followed_by, **settings) -> Pattern:
    """Return the pattern of events that begin with these letters; an event is ``"key:letter..."``."""
    pattern = None
    for name in names:
        pattern = Pattern.begin(name, **settings) if pattern is None else append(pattern, name)
        pattern = pattern.where(lambda event, name=name: event.split(":")[-1][0] == name)
    return pattern


def spec_of(pattern: Pattern, **settings) -> MatchPattern:
    return MatchPattern(Report(), pattern, Settings(**settings))


def key_of(event: str) -> str:
    return event.split(":", maxsplit=1)[0]


def harness_of(pattern: Pattern, now: int = 0, **settings) -> OperatorHarness:
    return OperatorHarness(spec_of(pattern, **settings), keys=[key_of], now=now)


def feed(harness: OperatorHarness, events: str) -> OperatorHarness:
    """Feed events ``key:name@time``."""
    for each in events.split():
        event, _, timestamp = each.partition("@")
        harness.feed(event, int(timestamp))
    return harness


def kept(harness: OperatorHarness) -> list[str]:
    """Return the names of the states that hold something, and of the clocks that have timers."""
    snapshot = harness.snapshot()
    groups = [*snapshot["keyed"].groups.values(), *snapshot["timers"].groups.values()]
    return sorted(name for group in groups for name, rows in group.items() if rows)


# ---- event time


def test_events_are_sorted_before_they_are_matched(backend):
    harness = harness_of(letters("sme", Pattern.followed_by_any))
    for event, at in [("s1", 5), ("m2", 1), ("e3", 3), ("e4", 10), ("m5", 7), ("m5", 100)]:
        harness.feed(f"k:{event}", at)
        harness.watermark(at - 5)
    harness.end_input()
    assert harness.output == ["s1 m5 e4"]


def test_each_key_has_its_own_matches():
    events = "1:s@5 1:m@1 2:m@4 2:s@3 1:e@3 3:s@5 1:e@10 2:e@8 1:m@7 3:m@9 3:e@7"
    harness = feed(harness_of(letters("sme", Pattern.followed_by_any)), events)
    harness.end_input()
    assert sorted(harness.output_with_timestamps) == [("s m e", 8), ("s m e", 10)]


def test_a_comparator_orders_events_of_one_timestamp():
    by_number = lambda one, other: int(other[3:]) - int(one[3:])  # noqa: E731
    harness = harness_of(letters("sme", Pattern.followed_by_any), comparator=by_number)
    feed(harness, "k:s1@5 k:m5@7 k:m6@7 k:e9@7 k:e4@10").end_input()
    assert harness.output == ["s1 m6 e4", "s1 m5 e4"]


def test_time_outs_come_with_their_own_timestamps(backend):
    harness = feed(harness_of(letters("sme", Pattern.followed_by_any).within(3)), "k:s1@1 k:m@5 k:s2@4 k:e@6")
    harness.end_input()
    assert harness.output_with_timestamps == [("s2 m e", 6)]
    expired = harness.side_output_with_timestamps(EXPIRED)
    assert sorted(expired) == [(("s1", 4), 4), (("s2", 7), 7), (("s2 m", 7), 7)]


def test_a_window_between_events_has_its_timer_too():
    harness = harness_of(letters("sme", Pattern.followed_by_any).within(3, GAP))
    feed(harness, "k:s1@1 k:m@5 k:s2@4 k:e@6").watermark(8)
    assert sorted(harness.output) == ["s1 m e", "s2 m e"]
    assert harness.side_output(EXPIRED) == [("s1 m", 8), ("s2 m", 8)]


def test_a_match_has_the_time_of_its_last_event_and_a_time_out_that_of_its_deadline():
    harness = feed(harness_of(Pattern.begin("1").followed_by("2").within(10)), "k:A@5 k:C@20 k:B@3")
    harness.watermark(22)
    assert harness.output_with_timestamps == [("B A", 5)]
    assert harness.side_output(EXPIRED) == [("A", 15)]


def test_a_time_out_needs_no_further_event_and_comes_before_the_watermark():
    harness = feed(harness_of(letters("se").within(10)), "k:s@3")
    harness.watermark(5)
    assert harness.side_output(EXPIRED) == []
    harness.watermark(13)
    assert harness.side_output(EXPIRED) == [("s", 13)]
    assert harness.watermarks == [5, 13]


def test_a_terminal_not_matches_when_its_window_ends():
    harness = harness_of(letters("s").not_followed_by("m").where(lambda e: ":m" in e).within(5))
    feed(harness, "k:s1@1 k:m1@4 k:s2@5 k:s3@11 k:m2@18").watermark(30)
    assert harness.output_with_timestamps == [("s2", 10), ("s3", 16)]


def test_a_match_that_waits_is_emitted_when_the_older_one_times_out():
    skip = AfterMatchSkipStrategy.skip_past_last_event()
    pattern = Pattern.begin("a", skip).where(lambda e: ":a" in e).followed_by("b")
    pattern = pattern.where(lambda e, ctx: e[-1] == ctx.get_events_for_pattern("a")[0][-1]).within(10)
    harness = feed(harness_of(pattern), "k:a1@1 k:a2@2 k:b2@3")
    harness.watermark(10)
    assert harness.output == []
    harness.watermark(11)
    assert harness.output == ["a2 b2"]


def test_late_events_go_to_the_side_output_or_are_counted():
    harness = harness_of(letters("a"), late=LATE)
    harness.watermark(6)
    feed(harness, "k:a@4 k:a@6 k:a@7").end_input()
    assert harness.side_output_with_timestamps(LATE) == [("k:a", 4), ("k:a", 6)]
    assert harness.output_with_timestamps == [("a", 7)]
    counting = harness_of(letters("a"))
    counting.watermark(2)
    feed(counting, "k:a@1 k:a@3").watermark(4)
    feed(counting, "k:a@3")
    assert counting.operator._dropped.get_count() == 2


def test_records_without_timestamps_are_refused():
    with pytest.raises(FunkenError, match="needs timestamps, but a record has none"):
        harness_of(letters("a")).feed("k:a")


def test_a_window_that_had_ended_when_it_was_entered_times_out_at_once():
    pattern = letters("a").one_or_more().consecutive().followed_by("b").where(lambda e: ":b" in e).within(10, GAP)
    harness = feed(harness_of(pattern), "k:a@1 k:x@50")
    harness.watermark(50)
    assert harness.side_output(EXPIRED) == [("a", 11)]


# ---- processing time


def test_processing_time_handles_events_at_once_and_times_out_by_the_clock(backend):
    harness = harness_of(letters("se").within(10), now=100, event_time=False)
    harness.feed("k:s1")
    harness.processing_time(105)
    harness.feed("k:e1")
    harness.feed("k:s2")
    assert harness.output == ["s1 e1"]
    harness.processing_time(115)
    assert harness.side_output(EXPIRED) == []
    harness.processing_time(116)
    assert harness.side_output(EXPIRED) == [("s2", 115)]


def test_a_comparator_in_processing_time_waits_for_a_millisecond():
    harness = harness_of(
        letters("ab"), now=100, event_time=False, comparator=lambda one, other: (one > other) - (one < other)
    )
    harness.feed("k:b")
    harness.feed("k:a")
    assert harness.output == []
    harness.processing_time(101)
    assert harness.output == ["a b"]


# ---- state


def test_matches_survive_checkpoints(backend):
    pattern = letters("sme", Pattern.followed_by_any).within(100)
    first = feed(harness_of(pattern), "k:s@1 k:x@2")
    second = feed(OperatorHarness.restored(spec_of(pattern), first.snapshot(), keys=[key_of]), "k:n@3")
    second.watermark(2)
    feed(second, "k:m@3 k:s@4 k:e@5")
    third = OperatorHarness.restored(spec_of(pattern), second.snapshot(), keys=[key_of])
    third.watermark(MAX_WATERMARK)
    assert first.output == second.output == []
    assert third.output_with_timestamps == [("s m e", 5)]


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2)])
def test_matches_survive_rescaling(before, after, backend):
    pattern, keys = letters("ab").within(50), [f"key{n}" for n in range(12)]

    def started(parallelism, *snapshots):
        return [
            OperatorHarness(spec_of(pattern), keys=[key_of], subtask=n, parallelism=parallelism, snapshots=snapshots)
            for n in range(parallelism)
        ]

    def send(harnesses, name, at, watermark):
        for key in keys:
            owner = next(h for h in harnesses if _owns(h, key))
            owner.feed(f"{key}:{name}", at)
        for each in harnesses:
            each.watermark(watermark)

    olds = started(before)
    send(olds, "a1", 1, 5)
    send(olds, "a2", 7, 5)  # still buffered
    news = started(after, *(each.snapshot() for each in olds))
    send(news, "b", 9, 20)
    assert sorted(out for each in news for out in each.output) == sorted(["a1 b", "a2 b"] * len(keys))
    assert all(each.output == [] for each in olds)


def _owns(harness: OperatorHarness, key: str) -> bool:
    context = harness.context
    groups = key_groups_of(context.subtask, context.max_parallelism, context.parallelism)
    return key_group_of(key, context.max_parallelism) in groups


def test_events_that_waited_in_a_checkpoint_come_before_later_ones_of_their_timestamp(backend):
    first = feed(harness_of(letters("ab", Pattern.next)), "k:a1@5 k:x@4")
    assert "cep-events" in kept(first)
    second = feed(
        OperatorHarness.restored(spec_of(letters("ab", Pattern.next)), first.snapshot(), keys=[key_of]), "k:b@5"
    )
    second.watermark(5)
    assert second.output_with_timestamps == [("a1 b", 5)]
    assert kept(second) == []
    feed(first, "k:b2@5").watermark(5)
    assert first.output == ["a1 b2"]


def test_many_events_wait_in_files_where_state_is_in_files(backend, monkeypatch):
    monkeypatch.setattr("funken.cep.operator._MOST_WAITING", 2)
    harness = feed(harness_of(letters("ab", Pattern.next)), "k:b3@9 k:a2@4 k:x@6 k:b2@5 k:a1@1 k:b1@2")
    assert len(harness.operator._waiting) == (6 if backend == "hashmap" else 0)
    harness.watermark(9)
    assert harness.output_with_timestamps == [("a1 b1", 2), ("a2 b2", 5)]
    assert kept(harness) == []


def test_a_function_cannot_change_events_that_are_kept():
    class Change(PatternProcessFunction):
        def process_match(self, match, ctx):
            match["a"][0]["name"] += "!"
            yield match["a"][0]["name"] + match["b"][0]["name"]

    pattern = (
        Pattern.begin("a").where(lambda e: e["name"] == "a").followed_by_any("b").where(lambda e: e["name"] == "b")
    )
    spec = MatchPattern(Change(), pattern, Settings())
    harness = OperatorHarness(spec, keys=[lambda e: 0])
    for at, name in enumerate("abb"):
        harness.feed({"name": name}, at)
    harness.watermark(9)
    assert harness.output == ["a!b", "a!b"]


@pytest.mark.parametrize("event_time", [True, False])
def test_windows_end_with_the_input_in_batch(event_time):
    harness = OperatorHarness(spec_of(letters("sme").within(10), event_time=event_time), keys=[key_of], batch=True)
    feed(harness, "k:s1@1 k:m@3 j:s2@2")
    harness.watermark(MAX_WATERMARK)
    assert sorted(text for text, _ in harness.side_output(EXPIRED)) == ["s1 m", "s2"]
    assert kept(harness) == []


@pytest.mark.parametrize("events", ["k:b@1", "k:a@1 k:b@2"])
def test_a_condition_that_fails_names_the_event(events):
    def fails(event):
        return event != "k:b" or 1 / 0

    pattern = Pattern.begin("a").where(fails).next("b").where(fails)
    with pytest.raises(ZeroDivisionError) as caught:
        feed(harness_of(pattern), events).watermark(9)
    assert caught.value.__notes__ == ["A condition of a pattern failed at the event 'k:b'."]


def test_nothing_is_left_of_a_key_without_partial_matches(backend):
    harness = feed(harness_of(letters("ab").within(100)), "k:x@1 k:a@2")
    harness.watermark(3)
    assert kept(harness) == ["cep-matches", "event"]
    feed(harness, "k:b@4").watermark(4)
    assert kept(harness) == ["event"]  # the deadline that the match did not need
    harness.watermark(102)
    assert kept(harness) == []


def test_the_state_is_written_only_when_it_changed():
    harness = harness_of(letters("ab"))
    writes = harness.operator._states = Recording()
    feed(harness, "k:x@1 k:a@2 k:x@3 k:x@4 k:a@5").watermark(9)
    assert writes.log == ["set k", "set k"]
    feed(harness, "k:b@10 k:x@11").end_input()
    assert writes.log[2:] == ["delete k"]


class Recording(dict):
    """A table that notes what is done to it."""

    def __init__(self):
        super().__init__()
        self.log = []

    def __setitem__(self, key, stored):
        self.log.append(f"set {key}")
        super().__setitem__(key, stored)

    def __delitem__(self, key):
        self.log.append(f"delete {key}")
        super().__delitem__(key)


def test_too_many_partial_matches_fail_with_the_key_and_the_remedy():
    pattern = letters("a", Pattern.next).one_or_more().allow_combinations().followed_by("b").where(lambda e: False)
    harness = feed(harness_of(pattern, max_partial_matches=10), "k:a@1 k:a@2 k:a@3 k:a@4 k:a@5")
    with pytest.raises(FunkenError, match="more than the bound of 10. Add within") as caught:
        harness.watermark(9)
    assert isinstance(caught.value.__cause__ or caught.value, StateTooLarge)


def test_the_bound_is_an_option():
    stream = timed("k:a@1 k:a@2 k:a@3")
    stream.get_execution_environment().get_configuration().set_string("pipeline.cep.max-partial-matches", "3")
    endless = letters("a").one_or_more().allow_combinations().next("b").where(lambda e: False)
    found = CEP.pattern(stream.key_by(key_of), endless).process(Report())
    with pytest.raises(JobExecutionError, match=r"bound of 3. .* raise pipeline.cep.max-partial-matches"):
        found.execute_and_collect(limit=9)


# ---- the pattern stream


class AtEveryRecord(WatermarkGenerator):
    def on_event(self, event, event_timestamp, output):
        output.emit_watermark(event_timestamp)


def timed(events: str, parallelism: int = 1) -> DataStream:
    records = [(event, int(at)) for event, at in (each.split("@") for each in events.split())]
    by_time = WatermarkStrategy.for_generator(AtEveryRecord).with_timestamp_assigner(lambda record, _: record[1])
    return local(records, parallelism).assign_timestamps_and_watermarks(by_time).map(lambda record: record[0])


def test_a_keyed_stream_is_matched_by_key():
    found = CEP.pattern(timed("1:a@1 2:b@2 1:b@3").key_by(key_of), letters("ab")).process(Report())
    assert found.execute_and_collect(limit=9) == ["a b"]


def test_a_stream_without_keys_is_matched_as_one_in_one_task():
    stream = CEP.pattern(timed("1:a@1 2:b@2"), letters("ab"))
    found = stream.select(text)
    assert found.get_execution_environment().compile().vertices[-1].parallelism == 1
    assert found.execute_and_collect(limit=9) == ["a b"]
    assert stream.explain().startswith("not keyed: one task handles all events")


def test_events_of_one_time_are_compared():
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda event, _: 1)
    stream = local(["k:b", "k:a"]).assign_timestamps_and_watermarks(by_time).key_by(key_of)
    found = CEP.pattern(stream, letters("ab"), lambda one, other: (one > other) - (one < other)).select(text)
    assert found.execute_and_collect(limit=9) == ["a b"]


def test_flat_select_emits_any_number_of_records():
    stream = CEP.pattern(timed("k:a1@1 k:b1@2").key_by(key_of), letters("ab"))
    assert stream.flat_select(lambda match: [*match, "end"]).execute_and_collect(limit=9) == ["a", "b", "end"]


def test_select_sends_what_timed_out_to_a_side_output():
    stream = CEP.pattern(timed("k:a1@1 k:b1@2 k:a2@5 k:x@100").key_by(key_of), letters("ab").within(10))
    found = stream.select(EXPIRED, lambda match, at: (text(match), at), text)
    assert found.get_side_output(EXPIRED).execute_and_collect(limit=9) == [("a2", 15)]
    flat = stream.flat_select(EXPIRED, lambda match, at: [at, at], lambda match: [])
    assert flat.get_side_output(EXPIRED).execute_and_collect(limit=9) == [15, 15]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_batch_finds_the_same(parallelism):
    records = [("k:a1", 5), ("k:b1", 9), ("j:a2", 1), ("j:b2", 3), ("k:a3", 50), ("i:a4", 2)]
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])

    def found(mode):
        stream = local(sorted(records, key=lambda record: record[1]), parallelism).assign_timestamps_and_watermarks(
            by_time
        )
        stream.get_execution_environment().set_runtime_mode(mode)
        keyed = stream.map(lambda record: record[0]).key_by(key_of)
        made = CEP.pattern(keyed, letters("ab").within(10)).process(Report())
        expired = made.get_side_output(EXPIRED).map(str)
        return sorted(made.union(expired).execute_and_collect(limit=9))

    batch = found(RuntimeExecutionMode.BATCH)
    assert batch == ["('a3', 60)", "('a4', 12)", "a1 b1", "a2 b2"]
    assert batch == found(RuntimeExecutionMode.STREAMING)


def test_late_data_and_processing_time_are_settings_of_the_stream():
    stream = CEP.pattern(timed("k:a5@5 k:a1@1 k:a9@9").key_by(key_of), letters("a"))
    late = stream.side_output_late_data(LATE).select(text).get_side_output(LATE)
    assert late.execute_and_collect(limit=9) == ["k:a1"]
    assert stream.in_processing_time().select(text).execute_and_collect(limit=9) == ["a5", "a1", "a9"]
    assert stream.in_processing_time().in_event_time().explain() == stream.explain()


def test_what_cannot_work_is_refused_when_the_program_is_built():
    stream = timed("k:a@1").key_by(key_of)
    with pytest.raises(MalformedPattern, match="not supported without windowTime"):
        CEP.pattern(stream, Pattern.begin("a").not_followed_by("b"))
    for refused in (
        lambda: CEP.pattern(stream, "a b"),
        lambda: CEP.pattern(stream, letters("a"), comparator=3),
        lambda: CEP.pattern(stream, letters("a")).process(text),
        lambda: CEP.pattern(stream, letters("a")).process(Report),
        lambda: CEP.pattern(stream, letters("a")).select(),
        lambda: CEP.pattern(stream, letters("a")).select(text, text, text),
    ):
        with pytest.raises(InvalidProgram):
            refused()


def test_a_time_out_has_side_outputs_only():
    class Wrong(Report):
        def process_timed_out_match(self, match, ctx):
            yield "to the main output"

    stream = CEP.pattern(timed("k:a@1").key_by(key_of), letters("ab").within(5)).process(Wrong())
    with pytest.raises(JobExecutionError, match="has side outputs only"):
        stream.execute_and_collect(limit=9)


@pytest.mark.parametrize("value", [None, 3])
def test_a_condition_is_asked_only_where_a_match_asks(value):
    """One that fails at an event is no failure, unless a partial match asks it about that event."""
    pattern = (
        Pattern.begin("a").where(lambda e: e[0] == "a").next("b").where(lambda e: e[0] == "b").next("c")
        .where(lambda e: e[1] > 2)
    )  # fmt: skip
    harness = OperatorHarness(MatchPattern(Lengths(), pattern, Settings()), keys=[lambda e: 0])
    harness.feed_block([("a", value), ("b", None), ("c", 3)], [1, 2, 3])
    harness.watermark(10)

    assert harness.output == [3]


def test_a_condition_that_fails_says_at_which_event():
    pattern = Pattern.begin("a").where(lambda e: e[0] > 1).next("b").where(lambda e: e[1] > 2)
    harness = OperatorHarness(MatchPattern(Lengths(), pattern, Settings()), keys=[lambda e: 0])
    harness.feed_block([(2, 1), (1, None)], [1, 2])

    with pytest.raises(TypeError) as failed:
        harness.watermark(10)
    assert "(1, None)" in str(failed.value.__notes__)


def test_a_variable_of_a_condition_may_change_between_blocks():
    limit = 1

    def raise_limit():
        nonlocal limit
        limit = 5

    pattern = Pattern.begin("a").where(lambda e: e[0] > limit)
    harness = OperatorHarness(MatchPattern(Lengths(), pattern, Settings()), keys=[lambda e: 0])
    harness.feed((3,), 1)
    harness.watermark(1)
    raise_limit()
    harness.feed((3,), 2)
    harness.watermark(2)

    assert harness.output == [1]


class Lengths(PatternProcessFunction):
    def process_match(self, match, ctx):
        yield sum(map(len, match.values()))


def test_the_automaton_is_drawn():
    pattern = letters("ab").not_followed_by('"c"').within(5)
    stream = CEP.pattern(local([1]), pattern)

    assert "take if <lambda> -> " in stream.explain("text")
    drawn = stream.explain("dot").splitlines()
    assert (drawn[0], drawn[-1]) == ("digraph pattern {", "}")
    assert '    1 [label="stop", shape=octagon]' in drawn
    assert sum('label="\\"c\\"", peripheries=2' in line for line in drawn) == 1
    with pytest.raises(InvalidProgram, match="'text' or 'dot'"):
        stream.explain("svg")


@pytest.mark.parametrize("restored", [False, True])
def test_a_comparator_orders_events_on_both_sides_of_a_checkpoint(restored):
    def by_name(one, other):
        return (one > other) - (one < other)

    pattern = letters("abcd", Pattern.next)
    harness = feed(harness_of(pattern, comparator=by_name), "k:c@5 k:a@5 j:b@5 k:x@9")
    snapshot = harness.snapshot()
    if restored:
        harness = OperatorHarness.restored(spec_of(pattern, comparator=by_name), snapshot, keys=[key_of])
    feed(harness, "k:d@5 j:a@5 k:b@5 j:x@9")
    harness.watermark(5)

    assert harness.output == ["a b c d"]
    harness.watermark(9)
    assert kept(harness) == []
