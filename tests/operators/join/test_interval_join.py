"""Interval joins: pairs of one key whose timestamps are at most so far apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.errors import InvalidProgram
from funken.operators.base import OutputTag
from funken.operators.join import IntervalJoinSpec, within
from funken.operators.user_functions import UserFunction
from funken.state.keygroups import key_group_of, subtask_of
from funken.testing import OperatorHarness

KEY = UserFunction(lambda record: record[0])


def pair(left, right, ctx):
    yield left, right, ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp()


def spec_of(lower, upper, function=pair, **late):
    return IntervalJoinSpec(UserFunction(function), KEY, KEY, lower, upper, **late)


def harness(lower, upper, function=pair, late=None, **options):
    return OperatorHarness(spec_of(lower, upper, function, **(late or {})), keyed=True, name="join", **options)


def kept(op):
    """How many records the state holds."""
    rows = [row for group in op.snapshot()["keyed"].groups.values() for state in group.values() for row in state]
    return sum(len(bucket) for _, _, buckets in rows for bucket in buckets.values())


record = st.tuples(st.sampled_from("ab"), st.integers(-10, 20))
block = st.lists(record, max_size=6)
timeline = st.lists(
    st.one_of(st.tuples(st.just("left"), block), st.tuples(st.just("right"), block), st.integers(-15, 25)), max_size=15
)
bounds = st.tuples(st.integers(-8, 8), st.integers(-8, 8)).map(sorted)


def play(op, timeline):
    number, watermark = 0, -(2**63)
    for event in timeline:
        if isinstance(event, int):
            if event > watermark:
                watermark = event
                op.watermark(watermark)
            continue
        side, block = event
        values = [(key, number + i) for i, (key, _) in enumerate(block)]
        (op.feed_block if side == "left" else op.feed_second_block)(values, [at for _, at in block])
        number += len(block)
    return op


def oracle(timeline, lower, upper):
    """Keep every record until the first watermark at or past the time of its last possible partner."""
    pairs, late, live = [], {"left": [], "right": []}, []
    number, watermark = 0, -(2**63)
    for event in timeline:
        if isinstance(event, int):
            if event > watermark:
                watermark = event
                live = [r for r in live if r[2] + (max(upper, 0) if r[0] == "left" else max(-lower, 0)) > watermark]
            continue
        side, block = event
        for key, at in block:
            value, number = (key, number), number + 1
            if at < watermark:
                late[side].append((value, at))
                continue
            for other, there, its in [(r[1], r[2], r[0]) for r in live]:
                left, right = ((value, at), (other, there)) if side == "left" else ((other, there), (value, at))
                if its != side and other[0] == key and lower <= right[1] - left[1] <= upper:
                    pairs.append(((left[0], right[0], left[1], right[1], max(at, there)), max(at, there)))
            live.append((side, value, at))
    return pairs, late, live


@given(bounds, timeline)
def test_an_interval_join_gives_the_pairs_that_are_close_enough(bounds, timeline):
    pairs, late, live = oracle(timeline, *bounds)
    op = play(harness(*bounds, late={"left_late": "left", "right_late": "right"}), timeline)
    assert sorted(op.output_with_timestamps) == sorted(pairs)
    assert op.side_output_with_timestamps("left") == late["left"]
    assert op.side_output_with_timestamps("right") == late["right"]
    assert kept(op) == len(live)
    op.end_input()
    assert kept(op) == 0


@given(bounds, timeline, st.integers(0, 15))
def test_an_interval_join_goes_on_after_a_restore(bounds, timeline, cut):
    """Without watermarks before the cut: a restored operator knows none until the next one."""
    before = [event for event in timeline[:cut] if not isinstance(event, int)]
    after = [e if isinstance(e, int) else (e[0], [(key, at) for key, at in e[1]]) for e in timeline[cut:]]
    whole = play(harness(*bounds), before + after)
    first = play(harness(*bounds), before)
    snapshot = first.snapshot()
    seconds = [
        OperatorHarness.restored(spec_of(*bounds), snapshot, keyed=True, subtask=i, parallelism=2) for i in range(2)
    ]
    number = sum(len(block) for _, block in before)
    watermark = -(2**63)
    for event in after:
        if isinstance(event, int):
            if event > watermark:
                watermark = event
                for op in seconds:
                    op.watermark(watermark)
            continue
        side, block = event
        for key, at in block:
            op = seconds[subtask_of(key_group_of(key, 128), 128, 2)]
            (op.feed if side == "left" else op.feed_second)((key, number), at)
            number += 1
    found = first.output + seconds[0].output + seconds[1].output
    assert sorted(found) == sorted(whole.output)


def test_bounds_are_inclusive_and_relative_to_the_left_record():
    op = harness(-1, 2)
    op.feed(("a", "left"), 10)
    for at in (8, 9, 10, 11, 12, 13):
        op.feed_second(("a", at), at)
    assert [right[1] for _, right, *_ in op.output] == [9, 10, 11, 12]
    assert [at for _, at in op.output_with_timestamps] == [10, 10, 11, 12]


def test_partners_come_in_the_order_of_their_timestamps():
    op = harness(-100, 100)
    op.feed_second_block([("a", 1), ("a", 2), ("a", 3)], [30, 10, 20])
    op.feed(("a", "left"), 15)
    assert [right[1] for _, right, *_ in op.output] == [2, 3, 1]


def test_only_records_of_one_key_join():
    op = harness(0, 0)
    op.feed(("a", 1), 5)
    op.feed_second(("b", 1), 5)
    assert op.output == []


def test_a_record_at_the_watermark_is_not_late_but_its_partner_at_the_bound_is_gone():
    """As in Flink: a watermark *t* says that no timestamp up to *t* follows; a record at *t* breaks that promise."""
    op = harness(0, 5)
    op.feed(("a", 1), 10)
    op.watermark(14)
    op.feed_second(("a", 2), 15)
    op.watermark(15)
    op.feed_second(("a", 3), 15)
    assert [right[1] for _, right, *_ in op.output] == [2]
    assert op.context.metrics.counter("numLateRecordsDropped").get_count() == 0


@pytest.mark.parametrize(
    ("lower", "upper", "left_gone", "right_gone"),
    [(-3, 5, 15, 13), (2, 5, 15, 10), (-5, -2, 10, 15), (0, 0, 10, 10)],
)
def test_state_is_dropped_when_no_partner_can_come_any_more(lower, upper, left_gone, right_gone):
    for feed, gone in (("feed", left_gone), ("feed_second", right_gone)):
        op = harness(lower, upper)
        getattr(op, feed)(("a", 1), 10)
        op.watermark(gone - 1)
        assert kept(op) == 1
        op.watermark(gone)
        assert kept(op) == 0
        assert op.snapshot()["timers"].groups == {}


def test_late_records_are_counted_and_join_nothing():
    op = harness(-10, 10)
    op.feed_second(("a", 1), 20)
    op.watermark(15)
    op.feed(("a", 2), 14)
    assert op.output == []
    assert op.context.metrics.counter("numLateRecordsDropped").get_count() == 1


def test_a_function_may_give_nothing_or_use_side_outputs():
    def function(left, right, ctx):
        if left[1] == 0:
            return None
        ctx.output(OutputTag("by call"), right)
        return [(OutputTag("by pair"), left), "main"]

    op = harness(0, 10, function)
    op.feed_block([("a", 0), ("a", 1)], [1, 2])
    op.feed_second(("a", "r"), 4)
    assert op.output_with_timestamps == [("main", 4)]
    assert op.side_output_with_timestamps("by call") == [(("a", "r"), 4)]
    assert op.side_output_with_timestamps("by pair") == [(("a", 1), 4)]


def test_many_pairs_leave_in_several_blocks():
    op = harness(0, 10, lambda left, right, ctx: [1])
    blocks = []
    op.operator.output.emit = lambda values, timestamps: blocks.append(len(values))
    op.feed_block([("a", 0)] * 100, [5] * 100)
    op.feed_second_block([("a", 0)] * 100, [5] * 100)
    assert sum(blocks) == 10_000
    assert len(blocks) > 1


@pytest.mark.parametrize("timestamp", [None, -(2**63)])
def test_a_record_without_a_timestamp_is_refused(timestamp):
    op = harness(0, 10)
    with pytest.raises(InvalidProgram, match=r"Long\.MIN_VALUE timestamp"):
        op.feed(("a", 1), timestamp)


def test_in_batch_nothing_is_late_and_all_is_kept_to_the_end():
    op = harness(0, 5, batch=True)
    op.feed(("a", 1), 10)
    op.watermark(100)
    op.feed_second(("a", 2), 12)
    assert len(op.output) == 1
    assert kept(op) == 2
    op.end_input()
    assert kept(op) == 0


@given(st.dictionaries(st.integers(-50, 50), st.just([0]), max_size=20), st.integers(-60, 60), st.integers(0, 60))
def test_within_finds_the_same_by_asking_and_by_looking(buckets, low, width):
    assert list(within(buckets, low, low + width)) == sorted(at for at in buckets if low <= at <= low + width)
