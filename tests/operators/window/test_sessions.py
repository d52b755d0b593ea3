"""Windows that merge; where two logics can run it, in both."""

from __future__ import annotations

import pytest

from funken.errors import InvalidProgram
from funken.operators.user_functions import UserFunction
from funken.operators.window.spec import (
    Aggregated,
    CallStyle,
    Elements,
    WindowCall,
)
from funken.windowing.assigners import (
    EventTimeSessionWindows,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
)
from funken.windowing.triggers import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
)
from funken.windowing.windows import TimeWindow, Trigger, TriggerResult
from tests.support.windows import SUM, Sum, both, harness, parity


@both
def test_s3_without_watermarks_nothing_is_late(general):
    h = harness(EventTimeSessionWindows.with_gap(5), general=general)
    h.feed_block([1, 2, 3], [0, 8, 4])
    h.end_input()
    assert [(window, sorted(elements)) for window, elements in h.output] == [(TimeWindow(0, 13), [1, 2, 3])]


@both
def test_s37_sessions_merge_when_they_touch(general):
    h = harness(EventTimeSessionWindows.with_gap(5), general=general)
    h.feed_block([1, 2, 3], [0, 5, 11])
    h.end_input()
    assert h.output == [(TimeWindow(0, 10), [1, 2]), (TimeWindow(11, 16), [3])]


@both
def test_sessions_fire_in_the_order_of_their_ends(general):
    h = harness(EventTimeSessionWindows.with_gap(5), SUM, key=parity, general=general)
    h.feed_block([2, 1, 4], [0, 3, 4])
    h.end_input()
    assert h.output_with_timestamps == [(1, 7), (6, 8)]


@both
def test_s37_a_late_record_joins_a_session_that_is_still_open(general):
    h = harness(EventTimeSessionWindows.with_gap(10), general=general, late_tag="late")
    h.feed(1, 20)
    h.watermark(25)
    h.feed_block([2, 3], [10, 14])
    h.feed(4, 3)
    h.end_input()
    assert h.output == [(TimeWindow(3, 30), [1, 2, 3, 4])]
    assert h.side_output("late") == []


def test_s38_on_merge_the_trigger_is_told_first_and_only_the_merged_window_keeps_timers():
    told = []

    class Told(EventTimeTrigger):
        def on_merge(self, window, ctx):
            told.append(("merge", window))
            super().on_merge(window, ctx)

        def clear(self, window, ctx):
            told.append(("clear", window))
            super().clear(window, ctx)

    h = harness(EventTimeSessionWindows.with_gap(5), SUM, trigger=Told(), allowed_lateness_ms=3)
    h.feed_block([1, 2, 4], [0, 8, 4])
    assert told == [("merge", TimeWindow(0, 13)), ("clear", TimeWindow(0, 5)), ("clear", TimeWindow(8, 13))]
    timers = [timer for group in h.context.timers.snapshot().groups.values() for timer in group["event"]]
    assert sorted(timers) == [(12, "key", TimeWindow(0, 13)), (15, "key", TimeWindow(0, 13))]
    h.end_input()
    assert h.output_with_timestamps == [(7, 12)]
    assert h.context.keyed.snapshot().groups == {}


class Shrinking(MergingWindowAssigner):
    """Merges into a window that ends too early."""

    def assign_windows(self, element, timestamp, context):
        return [TimeWindow(timestamp, timestamp + 50)]

    def merge_windows(self, windows, callback):
        windows = list(windows)
        if len(windows) > 1:
            callback.merge(windows, TimeWindow(0, 5))

    def is_event_time(self):
        return True


def test_s39_a_merge_into_the_past_is_refused():
    h = harness(Shrinking(), SUM)
    h.watermark(10)
    h.feed(1, 11)
    with pytest.raises(InvalidProgram, match="The end timestamp of an event-time window cannot become earlier"):
        h.feed(2, 12)


class Absorbing(Shrinking):
    """Lets the longest of three windows swallow the others."""

    def merge_windows(self, windows, callback):
        windows = list(windows)
        if len(windows) > 2:
            callback.merge(windows, max(windows, key=lambda window: window.end))


def test_s38_a_window_that_swallows_others_keeps_its_own_timers_and_trigger_state():
    for trigger in (EventTimeTrigger(), CountTrigger(3)):
        h = harness(Absorbing(), SUM, trigger=trigger)
        h.feed_block([1, 2, 4], [30, 10, 20])
        h.watermark(79)
        assert h.output_with_timestamps == [(7, 79)]
        assert h.context.keyed.snapshot().groups == {}
        assert h.context.timers.snapshot().groups == {}


def test_s41_a_trigger_that_cannot_merge_is_refused_for_sessions():
    with pytest.raises(InvalidProgram, match="cannot be used with a trigger that does not support merging"):
        harness(EventTimeSessionWindows.with_gap(5), SUM, trigger=DeltaTrigger(1, max))


class OnlyMerges(Trigger):
    """Has what a merge asks for, and does not say so."""

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp())


class NeverMerges(OnlyMerges):
    on_merge = Trigger.on_merge


class ByDefault(EventTimeSessionWindows):
    def __init__(self, trigger):
        super().__init__(5)
        self.trigger = trigger

    def get_default_trigger(self, env):
        return self.trigger


def test_s41_a_default_trigger_need_not_say_that_it_merges():
    h = harness(ByDefault(OnlyMerges()), SUM)
    h.feed_block([1, 2], [10, 12])
    h.watermark(30)
    assert h.output_with_timestamps == [(3, 16)]
    with pytest.raises(InvalidProgram, match="does not support merging"):
        harness(ByDefault(NeverMerges()), SUM)


@both
@pytest.mark.parametrize("kind", ["reduce", "aggregate", "apply"])
def test_s42_a_record_that_bridges_two_sessions_loses_nothing(general, kind):
    total = WindowCall(UserFunction(lambda key, window, elements: [sum(elements)]), CallStyle.APPLY)
    contents, function = {
        "reduce": (SUM, None),
        "aggregate": (Aggregated(UserFunction(Sum())), None),
        "apply": (Elements(), total),
    }[kind]
    h = harness(EventTimeSessionWindows.with_gap(5), contents, function, general=general)
    h.feed_block([10, 200, 3], [0, 8, 4])
    h.end_input()
    assert h.output == [213]


def test_s43_continuous_triggers_go_on_when_sessions_merge():
    h = harness(EventTimeSessionWindows.with_gap(20), SUM, trigger=ContinuousEventTimeTrigger.of(10))
    h.feed_block([1, 2, 4], [1, 31, 15])
    h.watermark(10)
    assert h.output_with_timestamps == [(7, 50)]
    h.watermark(25)
    assert h.output == [7, 7]
    h.end_input()
    assert h.output == [7, 7, 7, 7, 7], "at 30, at 40, and once at 50, which is a multiple and the end"


def test_processing_time_sessions_merge_too():
    h = harness(ProcessingTimeSessionWindows.with_gap(10), SUM)
    h.feed(1)
    h.now = 8
    h.feed(2)
    h.processing_time(17)
    assert h.output == []
    h.processing_time(18)
    assert h.output_with_timestamps == [(3, 17)]
    assert h.context.timers.snapshot().groups == {}
