from datetime import timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.errors import InvalidProgram
from funken.windowing.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from funken.windowing.triggers import EventTimeTrigger, NeverTrigger, ProcessingTimeTrigger
from funken.windowing.windows import CountWindow, GlobalWindow, TimeWindow

NO_TIMESTAMP = -(2**63)


def at(now):
    return SimpleNamespace(get_current_processing_time=lambda: now)


def test_s27_tumbling_windows():
    assign = TumblingEventTimeWindows.of(timedelta(milliseconds=5), timedelta(milliseconds=2)).assign_windows
    assert assign("x", -6, None) == [TimeWindow(-8, -3)]
    assert assign("x", 2, None) == [TimeWindow(2, 7)]
    assert TumblingProcessingTimeWindows.of(5).assign_windows("x", NO_TIMESTAMP, at(-1)) == [TimeWindow(-5, 0)]


def test_s28_sliding_windows_come_newest_first():
    assert SlidingEventTimeWindows.of(5, 2).assign_windows("x", 1, None) == [TimeWindow(0, 5), TimeWindow(-2, 3)]
    processing = SlidingProcessingTimeWindows.of(5, 2).assign_windows("x", NO_TIMESTAMP, at(1))
    assert processing == [TimeWindow(0, 5), TimeWindow(-2, 3)]


@given(st.integers(-500, 500), st.integers(1, 40), st.integers(1, 20), st.integers(0, 19))
def test_s28_a_record_is_in_every_aligned_window_around_it(timestamp, size, slide, offset):
    offset %= slide
    starts = [s for s in range(timestamp + 1, timestamp - size, -1) if (s - offset) % slide == 0 and s <= timestamp]
    expected = [TimeWindow(s, s + size) for s in starts]
    assert SlidingEventTimeWindows.of(size, slide, offset).assign_windows("x", timestamp, None) == expected


def test_s29_a_record_in_a_gap_has_no_window():
    assert SlidingEventTimeWindows.of(2, 5).assign_windows("x", 4, None) == []
    assert SlidingEventTimeWindows.of(2, 5).assign_windows("x", 6, None) == [TimeWindow(5, 7)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: TumblingEventTimeWindows.of(5, 5),
        lambda: TumblingEventTimeWindows.of(0),
        lambda: TumblingProcessingTimeWindows.of(timedelta(seconds=-1)),
        lambda: SlidingEventTimeWindows.of(5, 2, 2),
        lambda: SlidingEventTimeWindows.of(0, 2),
        lambda: SlidingProcessingTimeWindows.of(5, 0),
        lambda: EventTimeSessionWindows.with_gap(0),
        lambda: ProcessingTimeSessionWindows.with_gap(-1),
        lambda: CountTumblingWindowAssigner.of(0),
        lambda: CountSlidingWindowAssigner.of(1, 0),
        lambda: EventTimeSessionWindows.with_dynamic_gap("a minute"),
    ],
)
def test_s30_impossible_sizes_are_refused_at_once(make):
    with pytest.raises(InvalidProgram):
        make()


def test_s30_a_dynamic_gap_that_is_not_positive_is_refused_when_it_shows():
    assigner = EventTimeSessionWindows.with_dynamic_gap(lambda gap: gap)
    assert assigner.assign_windows(3, 10, None) == [TimeWindow(10, 13)]
    with pytest.raises(InvalidProgram, match="Dynamic session time gap must satisfy 0 < gap"):
        assigner.assign_windows(0, 10, None)


@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows.of(5), SlidingEventTimeWindows.of(5, 2)])
def test_s31_a_record_without_timestamp_is_refused_with_the_remedy(assigner):
    with pytest.raises(InvalidProgram, match=r"Record has Java Long.MIN_VALUE timestamp .*assign_timestamps_and"):
        assigner.assign_windows("x", NO_TIMESTAMP, None)


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element * 10


def test_s37_a_session_begins_as_the_gap_after_its_record():
    assert EventTimeSessionWindows.with_gap(5).assign_windows("x", 8, None) == [TimeWindow(8, 13)]
    processing = ProcessingTimeSessionWindows.with_gap(timedelta(seconds=1))
    assert processing.assign_windows("x", NO_TIMESTAMP, at(7)) == [TimeWindow(7, 1007)]
    dynamic = ProcessingTimeSessionWindows.with_dynamic_gap(Gap())
    assert dynamic.assign_windows(2, NO_TIMESTAMP, at(7)) == [TimeWindow(7, 27)]
    assert isinstance(dynamic, DynamicProcessingTimeSessionWindows)
    same = DynamicEventTimeSessionWindows.with_dynamic_gap(lambda x: timedelta(seconds=x))
    assert same.assign_windows(2, 0, None) == [TimeWindow(0, 2000)]


def test_a_window_ends_with_time_at_the_latest():
    end = 2**63 - 1
    assert TumblingEventTimeWindows.of(100).assign_windows("x", end, None)[0].end == end
    assert EventTimeSessionWindows.with_gap(100).assign_windows("x", end - 1, None) == [TimeWindow(end - 1, end)]


class Counted:
    """A runtime context with one value state."""

    def __init__(self):
        self.held = None

    def get_runtime_context(self):
        return SimpleNamespace(get_state=lambda descriptor: self)

    def value(self):
        return self.held

    def update(self, value):
        self.held = value


def test_count_windows_count_off():
    context, assigner = Counted(), CountTumblingWindowAssigner.of(2)
    ids = [assigner.assign_windows("x", 0, context)[0].id for _ in range(5)]
    assert ids == [0, 0, 1, 1, 2]


@given(st.integers(1, 6), st.integers(1, 6))
def test_s46_pyflinks_sliding_count_windows_open_every_slide_and_take_size_records(size, slide):
    context, assigner = Counted(), CountSlidingWindowAssigner.of(size, slide)
    for n in range(20):
        expected = [CountWindow(w) for w in range(20, -1, -1) if w * slide <= n < w * slide + size]
        assert assigner.assign_windows("x", 0, context) == expected


def test_every_assigner_knows_its_time_and_its_default_trigger():
    for event_time in (TumblingEventTimeWindows.of(5), SlidingEventTimeWindows.of(5, 1), EventTimeSessionWindows(5)):
        assert event_time.is_event_time()
        assert isinstance(event_time.get_default_trigger(None), EventTimeTrigger)
    for processing_time in (TumblingProcessingTimeWindows.of(5), ProcessingTimeSessionWindows.with_gap(5)):
        assert not processing_time.is_event_time()
        assert isinstance(processing_time.get_default_trigger(), ProcessingTimeTrigger)
    assert isinstance(GlobalWindows.create().get_default_trigger(), NeverTrigger)
    assert GlobalWindows.create().assign_windows("x", 3, None) == [GlobalWindow.get()]


def test_assigners_are_values_and_print_as_they_are_made():
    assert TumblingEventTimeWindows.of(timedelta(seconds=1)) == TumblingEventTimeWindows.of(1000)
    assert TumblingEventTimeWindows.of(1000) != TumblingProcessingTimeWindows.of(1000)
    assert repr(SlidingEventTimeWindows.of(5, 2)) == "SlidingEventTimeWindows(size=5, slide=2, offset=0)"


def test_the_names_that_pyflink_programs_annotate_with_are_there():
    assert WindowAssigner.WindowAssignerContext.__name__ == "WindowAssignerContext"
    assert EventTimeSessionWindows.MergeCallback.__name__ == "MergeCallback"
