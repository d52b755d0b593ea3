"""When windows fire, and what becomes of late records; where two logics can run it, in both."""

from __future__ import annotations

import pytest

from funken.errors import InvalidProgram
from funken.operators.user_functions import UserFunction
from funken.operators.window.spec import (
    CallStyle,
    Elements,
    WindowCall,
    WindowSpec,
)
from funken.testing.harness import OperatorHarness
from funken.windowing.assigners import (
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from funken.windowing.triggers import (
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from funken.windowing.windows import TimeWindow
from tests.support.windows import SUM, TEN, both, harness, one, parity

END = 2**63 - 1


def late_dropped(h):
    return h.context.metrics.counter("numLateRecordsDropped").get_count()


@both
def test_s1_the_end_of_the_input_fires_every_event_time_window(general):
    seen = []
    watch = WindowCall(UserFunction(lambda c, elements: seen.append(c.current_watermark())), CallStyle.PROCESS_ALL)
    h = harness(TEN, Elements(), watch, general=general)
    h.feed(1, 1)
    h.end_input()
    assert seen == [END]


@both
def test_s2_the_watermark_before_any_is_the_smallest_number(general):
    class Watch(Trigger):
        def on_element(self, element, timestamp, window, ctx):
            seen.append(ctx.get_current_watermark())
            return TriggerResult.CONTINUE

    seen = []
    harness(TEN, SUM, trigger=Watch(), general=general).feed(1, 1)
    assert seen == [-(2**63)]


@both
def test_s14_results_carry_the_largest_timestamp_of_their_window(general):
    h = harness(TEN, SUM, general=general)
    h.feed_block([1, 2, 4], [3, 12, 5])
    h.watermark(25)
    assert h.output_with_timestamps == [(5, 9), (2, 19)]
    assert h.watermarks == [25]


@both
def test_s14_windows_without_end_carry_the_end_of_time(general):
    options = {"trigger": PurgingTrigger(CountTrigger(2)), "general": general}
    h = harness(GlobalWindows.create(), SUM, **options)
    h.feed_block([1, 2], [3, 4])
    assert h.output_with_timestamps == [(3, END)]


@both
def test_windows_fire_in_the_order_of_their_ends_and_keys_in_the_order_of_arrival(general):
    h = harness(TEN, SUM, key=parity, general=general)
    h.feed_block([7, 4, 1, 2], [15, 16, 5, 6])
    h.feed_block([8, 3], [17, 7])
    h.watermark(100)
    assert h.output == [4, 2, 7, 12]


@both
def test_one_block_of_output_for_a_block_of_input_and_for_a_watermark(general):
    h = harness(TEN, SUM, key=parity, general=general)
    blocks = []
    h.operator.output.emit = lambda values, timestamps: blocks.append((values, timestamps))
    h.feed_block([1, 2, 3, 4], [1, 2, 13, 14])
    h.watermark(50)
    assert blocks == [([1, 2, 3, 4], [9, 9, 19, 19])]


@both
def test_s21_processing_time_windows_fire_by_the_clock_and_not_at_the_end_of_the_input(general):
    h = harness(TumblingProcessingTimeWindows.of(10), SUM, general=general, now=3)
    h.feed_block([1, 2])
    h.processing_time(9)
    assert h.output == [], "the last millisecond of the window is not over yet"
    h.feed(4)
    h.processing_time(10)
    h.feed(8)
    h.end_input()
    assert h.output_with_timestamps == [(7, 9)]


@both
def test_a_tick_in_the_last_millisecond_of_a_window_does_not_fire_it(general):
    h = harness(TumblingProcessingTimeWindows.of(10), SUM, general=general)
    h.feed(1)
    h.now = 9
    h.operator.tick(9)
    h.feed(2)
    h.processing_time(10)
    assert h.output == [3]


@both
def test_s22_in_batch_nothing_is_late_and_everything_fires_at_the_end(general):
    for assigner, timestamps in ((TEN, [1, 12]), (TumblingProcessingTimeWindows.of(10), None)):
        h = OperatorHarness(WindowSpec(UserFunction(one), assigner, SUM, general=general), keyed=True, batch=True)
        h.feed_block([1, 2], timestamps)
        h.watermark(50)
        h.feed_block([4], timestamps and [3])
        assert h.operator.next_tick() is None
        assert h.output == []
        h.end_input()
        assert sorted(h.output) == ([2, 5] if timestamps else [7])


def test_continuous_processing_time_fires_while_the_window_fills():
    h = harness(TumblingProcessingTimeWindows.of(100), SUM, trigger=ContinuousProcessingTimeTrigger.of(30))
    h.feed(1)
    h.processing_time(31)
    h.feed(2)
    h.processing_time(61)
    h.processing_time(200)
    assert h.output == [1, 3, 3, 3], "at 30, 60, 90 and at the end of the window"
    assert h.operator.next_tick() is None


@both
def test_s28_a_record_is_in_all_its_sliding_windows(general):
    h = harness(SlidingEventTimeWindows.of(5, 2), general=general)
    h.feed(7, 1)
    h.end_input()
    assert h.output == [(TimeWindow(-2, 3), [7]), (TimeWindow(0, 5), [7])]


@both
def test_s29_records_in_gaps_vanish_without_being_late(general):
    h = harness(SlidingEventTimeWindows.of(2, 5), general=general, late_tag="late")
    h.feed_block([1, 2], [4, 5])
    h.watermark(7)
    h.feed_block([3, 4], [9, 10])
    h.end_input()
    assert h.output == [(TimeWindow(5, 7), [2]), (TimeWindow(10, 12), [4])]
    assert late_dropped(h) == 0
    assert h.side_output("late") == []


@both
def test_s31_a_record_without_timestamp_cannot_be_placed_in_event_time(general):
    h = harness(TEN, SUM, general=general)
    with pytest.raises(InvalidProgram, match=r"Record has Java Long\.MIN_VALUE timestamp"):
        h.feed(1)
    with pytest.raises(InvalidProgram, match=r"assign_timestamps_and_watermarks"):
        h.feed_block([1, 2], [5, -(2**63)])


def test_s32_a_record_within_the_lateness_fires_at_once_with_everything():
    h = harness(TEN, allowed_lateness_ms=5)
    h.feed(1, 1)
    h.watermark(8)
    assert h.output == []
    h.watermark(9)
    h.feed_block([2, 3], [2, 3])
    window = TimeWindow(0, 10)
    assert h.output == [(window, [1]), (window, [1, 2]), (window, [1, 2, 3])]


def test_s33_fire_keeps_the_contents_and_purge_drops_only_them():
    cleared = []

    class Steps(Trigger):
        def on_element(self, element, timestamp, window, ctx):
            return {1: TriggerResult.FIRE, 2: TriggerResult.PURGE, 3: TriggerResult.FIRE_AND_PURGE}.get(
                element, TriggerResult.CONTINUE
            )

        def on_event_time(self, time, window, ctx):
            return TriggerResult.FIRE

        def clear(self, window, ctx):
            cleared.append(window)

    class Function:
        def process(self, context, elements):
            return [list(elements)]

        def clear(self, context):
            cleared.append(("function", context.window()))

    h = harness(
        TEN, Elements(), WindowCall(UserFunction(Function(), "process"), CallStyle.PROCESS_ALL), trigger=Steps()
    )
    h.feed_block([1, 1], [1, 1])
    assert h.output == [[1], [1, 1]]
    h.feed_block([2, 4, 3], [1, 1, 1])
    assert h.output == [[1], [1, 1], [4, 3]]
    assert cleared == []
    h.watermark(9)
    assert h.output == [[1], [1, 1], [4, 3]], "the window is empty"
    assert cleared == [TimeWindow(0, 10), ("function", TimeWindow(0, 10))]
    assert h.context.keyed.snapshot().groups == {}


def test_s34_a_window_is_cleaned_up_when_the_lateness_is_over():
    h = harness(TEN, allowed_lateness_ms=5)
    h.feed(1, 1)
    h.watermark(13)
    h.feed(2, 2)
    h.watermark(14)
    h.feed(3, 3)
    h.end_input()
    assert h.output == [(TimeWindow(0, 10), [1]), (TimeWindow(0, 10), [1, 2])]
    assert late_dropped(h) == 1
    assert h.context.keyed.snapshot().groups == {}
    assert h.context.timers.snapshot().groups == {}


@both
def test_s35_late_records_go_to_the_side_output_or_are_counted(general):
    for tag in (None, "late"):
        h = harness(TEN, SUM, late_tag=tag, general=general)
        h.feed(1, 1)
        h.watermark(9)
        h.feed_block([2, 3, 4], [2, 11, 9])
        h.end_input()
        assert h.output == [1, 3]
        assert h.side_output_with_timestamps("late") == ([(2, 2), (4, 9)] if tag else [])
        assert late_dropped(h) == (0 if tag else 2)


@both
def test_s35_a_record_that_is_in_one_window_still_is_not_late(general):
    h = harness(SlidingEventTimeWindows.of(10, 5), late_tag="late", general=general)
    h.watermark(9)
    h.feed(1, 7)
    h.end_input()
    assert h.output == [(TimeWindow(5, 15), [1])]
    assert h.side_output("late") == []
