from datetime import timedelta

import pytest

from funken.errors import InvalidProgram
from funken.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from funken.windowing.windows import GlobalWindow, TimeWindow

CONTINUE, FIRE, PURGE, BOTH = TriggerResult
WINDOW = TimeWindow(0, 100)
END = 2**63 - 1


class Reducing:
    def __init__(self, reduce):
        self.reduce, self.held = reduce, None

    def add(self, value):
        self.held = value if self.held is None else self.reduce(self.held, value)

    def get(self):
        return self.held

    value = get

    def update(self, value):
        self.held = value

    def clear(self):
        self.held = None


class Context:
    """One window's surroundings."""

    def __init__(self, watermark=-(2**63), now=0):
        self.watermark, self.now = watermark, now
        self.event, self.processing, self.states, self.others = set(), set(), {}, []
        self.register_event_time_timer = self.event.add
        self.register_processing_time_timer = self.processing.add
        self.delete_event_time_timer = self.event.discard
        self.delete_processing_time_timer = self.processing.discard

    def get_current_watermark(self):
        return self.watermark

    def get_current_processing_time(self):
        return self.now

    def get_partitioned_state(self, descriptor):
        return self.states.setdefault(descriptor.name, Reducing(getattr(descriptor, "reduce", None)))

    def merge_partitioned_state(self, descriptor):
        for other in self.others:
            held = other.get_partitioned_state(descriptor).get()
            if held is not None:
                self.get_partitioned_state(descriptor).add(held)


def test_results_say_what_to_do():
    assert [r.name for r in TriggerResult] == ["CONTINUE", "FIRE", "PURGE", "FIRE_AND_PURGE"]
    assert [r.is_fire() for r in TriggerResult] == [False, True, False, True]
    assert [r.is_purge() for r in TriggerResult] == [False, False, True, True]


def test_s32_event_time_fires_at_the_end_and_at_once_after_it():
    trigger, context = EventTimeTrigger.create(), Context()
    assert trigger.on_element("x", 5, WINDOW, context) is CONTINUE
    assert context.event == {99}
    assert trigger.on_event_time(98, WINDOW, context) is CONTINUE
    assert trigger.on_event_time(99, WINDOW, context) is FIRE
    assert trigger.on_element("x", 5, WINDOW, Context(watermark=99)) is FIRE
    trigger.clear(WINDOW, context)
    assert context.event == set()


def test_s38_event_time_waits_for_the_end_of_the_merged_window_unless_it_has_passed():
    early, late = Context(watermark=98), Context(watermark=99)
    EventTimeTrigger().on_merge(WINDOW, early)
    EventTimeTrigger().on_merge(WINDOW, late)
    assert (early.event, late.event) == ({99}, set())


def test_processing_time_fires_at_the_end():
    trigger, context = ProcessingTimeTrigger.create(), Context()
    assert trigger.on_element("x", 5, WINDOW, context) is CONTINUE
    assert context.processing == {99}
    assert trigger.on_processing_time(99, WINDOW, context) is FIRE
    assert trigger.on_event_time(99, WINDOW, context) is CONTINUE
    trigger.clear(WINDOW, context)
    assert context.processing == set()
    trigger.on_merge(TimeWindow(0, 200), context)
    assert context.processing == {199}


def test_continuous_event_time_fires_at_multiples_and_at_the_end():
    trigger, context = ContinuousEventTimeTrigger.of(timedelta(milliseconds=30)), Context()
    assert trigger.on_element("x", 35, WINDOW, context) is CONTINUE
    assert context.event == {60, 99}
    assert trigger.on_event_time(60, WINDOW, context) is FIRE
    assert context.event >= {90, 99}
    assert trigger.on_event_time(30, WINDOW, context) is CONTINUE, "a timer of another time is not ours"
    assert trigger.on_event_time(99, WINDOW, context) is FIRE
    assert trigger.on_element("x", 35, WINDOW, Context(watermark=99)) is FIRE
    trigger.clear(WINDOW, context)
    assert not context.event & {90, 99}


def test_s43_continuous_event_time_keeps_the_earlier_of_two_pending_times():
    trigger, one, two, merged = ContinuousEventTimeTrigger.of(10), Context(), Context(), Context()
    trigger.on_element("x", 47, TimeWindow(47, 80), one)
    trigger.on_element("x", 25, TimeWindow(25, 60), two)
    merged.others = [one, two]
    trigger.on_merge(TimeWindow(25, 80), merged)
    assert merged.event == {30}


def test_s43_continuous_processing_time_keeps_the_earlier_of_two_pending_times():
    trigger, one, two, merged = ContinuousProcessingTimeTrigger.of(10), Context(now=47), Context(now=25), Context()
    trigger.on_element("x", 0, WINDOW, one)
    trigger.on_element("x", 0, WINDOW, two)
    merged.others = [one, two]
    trigger.on_merge(WINDOW, merged)
    assert merged.processing == {30}
    trigger.clear(WINDOW, merged)
    assert merged.processing == set()


def test_continuous_processing_time_fires_at_multiples_and_not_beyond_the_end():
    trigger, context = ContinuousProcessingTimeTrigger.of(30), Context(now=65)
    assert trigger.on_element("x", 0, WINDOW, context) is CONTINUE
    assert trigger.on_element("x", 0, WINDOW, context) is CONTINUE
    assert context.processing == {90}
    assert trigger.on_processing_time(89, WINDOW, context) is CONTINUE
    assert trigger.on_processing_time(90, WINDOW, context) is FIRE
    assert context.processing == {90, 99}


def test_continuous_processing_time_goes_on_in_a_window_that_ended_long_ago():
    """An event-time window of the past, computed today: it must not be due for ever at its own end."""
    trigger, context = ContinuousProcessingTimeTrigger.of(30), Context(now=1005)
    trigger.on_element("x", 0, WINDOW, context)
    assert context.processing == {1020}


def test_s19_continuous_event_time_on_an_endless_window_ends_with_time():
    trigger, context = ContinuousEventTimeTrigger.of(10), Context()
    trigger.on_element("x", 5, GlobalWindow.get(), context)
    assert context.event == {10, END}
    context.watermark = END
    context.event.discard(10)
    assert trigger.on_event_time(10, GlobalWindow.get(), context) is CONTINUE
    assert context.event == {END}
    assert trigger.on_event_time(END, GlobalWindow.get(), context) is FIRE


def test_count_fires_at_every_nth_record():
    trigger, context = CountTrigger.of(2), Context()
    assert [trigger.on_element("x", 0, WINDOW, context) for _ in range(5)] == [CONTINUE, FIRE, CONTINUE, FIRE, CONTINUE]
    other = Context()
    trigger.on_element("x", 0, WINDOW, other)
    merged = Context()
    merged.others = [context, other]
    trigger.on_merge(WINDOW, merged)
    assert trigger.on_element("x", 0, WINDOW, merged) is FIRE
    trigger.clear(WINDOW, other)
    assert trigger.on_element("x", 0, WINDOW, other) is CONTINUE


def test_delta_fires_when_far_from_what_fired_last():
    class Distance:
        def get_delta(self, old, new):
            return abs(new - old)

    for delta in (Distance(), lambda old, new: abs(new - old)):
        trigger, context = DeltaTrigger.of(2, delta), Context()
        results = [trigger.on_element(x, 0, WINDOW, context) for x in (0, 2, 3, 5, 6)]
        assert results == [CONTINUE, CONTINUE, FIRE, CONTINUE, FIRE]
        trigger.clear(WINDOW, context)
        assert trigger.on_element(100, 0, WINDOW, context) is CONTINUE


@pytest.mark.parametrize("inner", TriggerResult)
def test_purging_purges_whenever_the_nested_trigger_fires(inner):
    class Fixed(Trigger):
        def on_element(self, element, timestamp, window, ctx):
            return inner

        on_event_time = on_processing_time = lambda self, time, window, ctx: inner

    trigger = PurgingTrigger.of(Fixed())
    expected = BOTH if inner.is_fire() else inner
    assert trigger.on_element("x", 0, WINDOW, None) is expected
    assert trigger.on_event_time(0, WINDOW, None) is trigger.on_processing_time(0, WINDOW, None) is expected


def test_s41_triggers_say_whether_they_can_merge():
    able = (EventTimeTrigger(), ProcessingTimeTrigger(), CountTrigger(1), ContinuousEventTimeTrigger(1), NeverTrigger())
    assert all(trigger.can_merge() for trigger in able)
    assert PurgingTrigger(CountTrigger(1)).can_merge()
    unable = DeltaTrigger(1, max)
    assert not unable.can_merge()
    assert not PurgingTrigger(unable).can_merge()
    with pytest.raises(InvalidProgram, match="cannot be used with merging windows"):
        unable.on_merge(WINDOW, Context())


def test_s48_never_is_never():
    trigger = NeverTrigger()
    assert trigger.on_element("x", 0, WINDOW, None) is CONTINUE
    assert trigger.on_event_time(END, WINDOW, None) is CONTINUE
    assert trigger.on_processing_time(END, WINDOW, None) is CONTINUE


@pytest.mark.parametrize("make", [lambda: CountTrigger.of(0), lambda: ContinuousEventTimeTrigger.of(0)])
def test_impossible_triggers_are_refused(make):
    with pytest.raises(InvalidProgram):
        make()


def test_the_names_that_pyflink_programs_annotate_with_are_there():
    assert Trigger.TriggerContext.__name__ == "TriggerContext"
    assert Trigger.OnMergeContext.__name__ == "OnMergeContext"
