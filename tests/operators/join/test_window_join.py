"""Window joins and co-groups: the records of two inputs in the windows of one operator."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.errors import InvalidProgram
from funken.operators.base import OutputTag
from funken.operators.join import TAGGED_KEY, CoGroup, JoinPairs, TaggedUnion, WindowJoin, sides
from funken.operators.user_functions import UserFunction
from funken.operators.window.spec import CallStyle, Elements, Strategy, WindowCall, WindowSpec
from funken.state.keygroups import key_group_of, subtask_of
from funken.testing import OperatorHarness
from funken.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from funken.windowing.evictors import CountEvictor
from funken.windowing.triggers import CountTrigger

few = settings(max_examples=60, deadline=None)

LEFT, RIGHT = UserFunction(lambda record: record[0]), UserFunction(lambda record: record[1])
"""A left record is ``(key, number)``, a right one ``(number, key)``."""


def spec_of(assigner, function, **options):
    call = WindowCall(UserFunction(function, "apply", rich=True), CallStyle.APPLY)
    window = WindowSpec(key=TAGGED_KEY, assigner=assigner, contents=Elements(), function=call, **options)
    return WindowJoin(LEFT, RIGHT, window)


def join(assigner, function=lambda left, right: (left, right), flat=False, **options):
    return spec_of(assigner, JoinPairs(UserFunction(function), flat), **options)


def co_group(assigner, function=lambda first, second: [(first, second)], **options):
    return spec_of(assigner, CoGroup(UserFunction(function)), **options)


def harness(spec, **options):
    return OperatorHarness(spec, keyed=True, name="join", **options)


TEN = TumblingEventTimeWindows.of(10)

keys = st.sampled_from("abc")
stamped = st.lists(st.tuples(keys, st.integers(-20, 40)), min_size=1, max_size=8)
timeline = st.lists(
    st.one_of(st.tuples(st.just("left"), stamped), st.tuples(st.just("right"), stamped), st.integers(-25, 45)),
    max_size=12,
)
"""Blocks of (key, timestamp) of one side, and watermarks."""

tumbling = st.integers(1, 12).map(TumblingEventTimeWindows)
sliding = st.builds(SlidingEventTimeWindows, st.integers(1, 15), st.integers(1, 8))


def arrivals(timeline):
    """Yield (side, key, record, timestamp, watermark at arrival); records are numbered, so that each is unique."""
    number, watermark = 0, -(2**63)
    for event in timeline:
        if isinstance(event, int):
            watermark = max(watermark, event)
            continue
        side, block = event
        for key, at in block:
            yield side, key, (key, number) if side == "left" else (number, key), at, watermark
            number += 1


def play(op, timeline, *, end=True):
    """Run a timeline."""
    records = arrivals(timeline)
    watermark = -(2**63)
    for event in timeline:
        if isinstance(event, int):
            watermark = max(watermark, event)
            op.watermark(watermark)
            continue
        side, block = event
        values = [next(records)[2] for _ in block]
        (op.feed_block if side == "left" else op.feed_second_block)(values, [at for _, at in block])
    if end:
        op.end_input()
    return op


def groups_of(assigner, timeline):
    """Return by key and window the left and the right records that came in time."""
    groups = {}
    for side, key, record, at, watermark in arrivals(timeline):
        for window in assigner.assign_windows(record, at, None):
            if watermark < window.max_timestamp():
                groups.setdefault((key, window), ([], []))[side == "right"].append(record)
    return groups


@few
@given(st.one_of(tumbling, sliding), timeline)
def test_a_join_gives_every_pair_of_a_key_and_window(assigner, timeline):
    expected = []
    for (_, window), (left, right) in groups_of(assigner, timeline).items():
        expected += [(pair, window.max_timestamp()) for pair in product(left, right)]
    op = play(harness(join(assigner)), timeline)
    assert sorted(op.output_with_timestamps) == sorted(expected)


@few
@given(st.one_of(tumbling, sliding), timeline)
def test_a_co_group_sees_each_key_and_window_once_with_both_sides_in_order(assigner, timeline):
    expected = [(both, window.max_timestamp()) for (_, window), both in groups_of(assigner, timeline).items()]
    op = play(harness(co_group(assigner)), timeline)
    assert sorted(op.output_with_timestamps) == sorted(expected)


@few
@given(st.integers(1, 8), timeline)
def test_sessions_of_both_sides_merge(gap, timeline):
    """No watermark comes before the end, so nothing is late and the order of arrival does not matter."""
    blocks = [event for event in timeline if not isinstance(event, int)]
    expected = []
    for key in "abc":
        run, last = ([], []), None
        mine = [(at, side, record) for side, of, record, at, _ in arrivals(blocks) if of == key]
        for at, side, record in sorted(mine):
            if last is not None and at > last + gap:
                expected.append(run)
                run = ([], [])
            run[side == "right"].append(record)
            last = at
        expected += [run] if last is not None else []
    op = play(harness(co_group(EventTimeSessionWindows.with_gap(gap))), blocks)
    found = [(sorted(first), sorted(second)) for first, second in op.output]
    assert sorted(found) == sorted((sorted(first), sorted(second)) for first, second in expected)


@few
@given(st.one_of(tumbling, sliding), timeline)
def test_the_fast_and_the_general_windows_join_alike(assigner, timeline):
    fast, general = co_group(assigner), co_group(assigner, general=True)
    assert (fast.window.strategy, general.window.strategy) == (Strategy.ALIGNED, Strategy.GENERAL)
    assert (
        play(harness(fast), timeline).output_with_timestamps == play(harness(general), timeline).output_with_timestamps
    )


@few
@given(tumbling, timeline, timeline, st.integers(1, 3), st.integers(1, 3))
def test_a_join_goes_on_after_a_restore_at_another_parallelism(assigner, before, after, old, new):
    def part(timeline, subtask, parallelism):
        mine = [k for k in "abc" if subtask_of(key_group_of(k, 128), 128, parallelism) == subtask]
        parts = [e if isinstance(e, int) else (e[0], [r for r in e[1] if r[0] in mine]) for e in timeline]
        return [e for e in parts if isinstance(e, int) or e[1]]

    def stripped(ops):
        """Numbers depend on the part; what counts is how many records of a key met how many."""
        pairs = [
            (k, len(f), len(s), at) for op in ops for (f, s), at in op.output_with_timestamps for k in key_of(f, s)
        ]
        return sorted(pairs)

    def key_of(first, second):
        return {r[0] for r in first} | {r[1] for r in second}

    # After a restore the watermark begins anew: the second half must not depend on that of the first.
    before = [e for e in before if not isinstance(e, int)]
    spec = co_group(assigner)
    whole = [play(harness(spec), before + after)]
    firsts = [harness(spec, subtask=i, parallelism=old) for i in range(old)]
    snapshots = [play(op, part(before, i, old), end=False).snapshot() for i, op in enumerate(firsts)]
    seconds = [
        play(OperatorHarness.restored(spec, *snapshots, keyed=True, subtask=i, parallelism=new), part(after, i, new))
        for i in range(new)
    ]
    assert stripped(firsts + seconds) == stripped(whole)


def test_results_have_the_largest_timestamp_of_their_window():
    op = harness(join(TEN))
    op.feed(("a", 1), 3)
    op.feed_second((2, "a"), 5)
    op.watermark(8)
    assert op.output == []
    op.watermark(9)
    assert op.output_with_timestamps == [((("a", 1), (2, "a")), 9)]


def test_a_late_record_within_the_lateness_joins_again():
    op = harness(join(TEN, allowed_lateness_ms=5))
    op.feed(("a", 1), 3)
    op.feed_second((2, "a"), 5)
    op.watermark(12)
    op.clear_output()
    op.feed_second((3, "a"), 5)
    assert op.output == [(("a", 1), (2, "a")), (("a", 1), (3, "a"))]
    op.watermark(14)
    op.feed(("a", 4), 5)
    assert op.context.metrics.counter("numLateRecordsDropped").get_count() == 1


def test_a_flat_join_gives_any_number_of_records_and_side_outputs():
    def both(left, right):
        if left[1] == 0:
            return None
        return [left[1], (OutputTag("right"), right[0])]

    op = harness(join(TEN, both, flat=True))
    op.feed_block([("a", 0), ("a", 1), ("a", 2)], [1, 2, 3])
    op.feed_second((7, "a"), 4)
    op.end_input()
    assert op.output_with_timestamps == [(1, 9), (2, 9)]
    assert op.side_output_with_timestamps("right") == [(7, 9), (7, 9)]


def test_a_join_function_may_give_none():
    op = harness(join(TEN, lambda left, right: None))
    op.feed(("a", 1), 1)
    op.feed_second((1, "a"), 1)
    op.end_input()
    assert op.output == [None]


def test_a_co_group_may_give_nothing():
    op = harness(co_group(TEN, lambda first, second: None))
    op.feed(("a", 1), 1)
    op.end_input()
    assert op.output == []


def test_triggers_and_evictors_see_tagged_records():
    class Odd(CountTrigger):
        def on_element(self, element, timestamp, window, ctx):
            seen.append(element)
            return super().on_element(element, timestamp, window, ctx)

    seen = []
    op = harness(co_group(GlobalWindows.create(), trigger=Odd(2), evictor=CountEvictor.of(2)))
    op.feed(("a", 1))
    op.feed_second((2, "a"))
    op.feed_second((3, "a"))
    op.feed(("a", 4))
    assert op.output == [([("a", 1)], [(2, "a")]), ([("a", 4)], [(3, "a")])]
    assert seen[:2] == [TaggedUnion(1, ("a", 1), "a"), TaggedUnion(2, (2, "a"), "a")]


def test_processing_time_windows_join():
    op = harness(join(TumblingProcessingTimeWindows.of(10)), now=3)
    op.feed(("a", 1))
    op.feed_second((2, "a"))
    op.processing_time(9)
    assert op.output == []
    op.processing_time(10)
    assert op.output == [(("a", 1), (2, "a"))]


def test_in_batch_nothing_is_late():
    op = harness(join(TEN), batch=True)
    op.feed(("a", 1), 3)
    op.watermark(100)
    op.feed_second((2, "a"), 5)
    assert op.output == []
    op.end_input()
    assert op.output == [(("a", 1), (2, "a"))]


def test_a_record_without_a_timestamp_is_refused():
    op = harness(join(TEN))
    with pytest.raises(InvalidProgram, match=r"Long\.MIN_VALUE timestamp"):
        op.feed_second((1, "a"))


def test_the_users_function_is_opened_and_closed():
    class Function:
        def open(self, runtime_context):
            self.name = runtime_context.get_task_name()

        def join(self, first, second):
            return self.name

        def close(self):
            self.name = None

    function = Function()
    with harness(spec_of(TEN, JoinPairs(UserFunction(function, "join", rich=True)))) as op:
        op.feed(("a", 1), 1)
        op.feed_second((1, "a"), 1)
        op.end_input()
        assert op.output == ["join"]
    assert function.name is None


def test_sides_keep_the_order_of_arrival():
    tagged = [TaggedUnion(2, "x", 0), TaggedUnion(1, "y", 0), TaggedUnion(2, "z", 0)]
    assert sides(tagged) == (["y"], ["x", "z"])
    assert (tagged[0].get_one(), tagged[0].get_two(), tagged[1].get_one(), tagged[1].get_two()) == (
        None,
        "x",
        "y",
        None,
    )
