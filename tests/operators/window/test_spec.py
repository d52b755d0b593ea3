"""Assigners and triggers that a user wrote, and the choice of the logic."""

from __future__ import annotations

import pytest

from funken.errors import InvalidProgram
from funken.operators.user_functions import UserFunction
from funken.operators.window.spec import (
    Aggregated,
    Elements,
    Strategy,
    WindowSpec,
)
from funken.state.descriptors import ReducingStateDescriptor
from funken.windowing.assigners import (
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from funken.windowing.evictors import CountEvictor
from funken.windowing.triggers import (
    CountTrigger,
    EventTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from funken.windowing.windows import TimeWindow
from tests.support.windows import SUM, TEN, harness, one


class PerDigits(WindowAssigner[int, TimeWindow]):
    """Numbers of as many digits together, until ten of event time later."""

    def assign_windows(self, element, timestamp, context):
        assert context.get_current_processing_time() == 0
        return [] if element < 0 else [TimeWindow(timestamp // 10 * 10, timestamp // 10 * 10 + 10 * len(str(element)))]

    def get_default_trigger(self, env):
        return Full()

    def is_event_time(self):
        return True


class Full(Trigger[int, TimeWindow]):
    """Fires when the elements sum to 100, and at the end."""

    STATE = ReducingStateDescriptor("sum", lambda a, b: a + b)

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp())
        total = ctx.get_partitioned_state(self.STATE)
        total.add(element)
        if total.get() < 100:
            return TriggerResult.CONTINUE
        total.clear()
        ctx.get_metric_group().counter("full").inc()
        return TriggerResult.FIRE_AND_PURGE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.STATE).clear()


def test_an_assigner_and_a_trigger_that_a_user_wrote():
    h = harness(PerDigits())
    h.feed_block([60, -1, 5, 50, 7], [1, 1, 2, 3, 4])
    assert h.output == [(TimeWindow(0, 20), [60, 50])]
    h.feed(30, 9)
    h.watermark(9)
    assert h.output[1:] == [(TimeWindow(0, 10), [5, 7])]
    h.end_input()
    assert h.output[2:] == [(TimeWindow(0, 20), [30])]
    assert h.context.metrics.snapshot()["full"] == 1
    assert h.context.keyed.snapshot().groups == {}


def test_a_faster_logic_is_chosen_only_where_nothing_can_tell():
    def strategy(assigner, **options):
        return WindowSpec(UserFunction(one), assigner, options.pop("contents", SUM), **options).strategy

    class Mine(TumblingEventTimeWindows):
        pass

    class Later(EventTimeTrigger):
        pass

    aligned, sessions, general = Strategy.ALIGNED, Strategy.SESSIONS, Strategy.GENERAL
    assert strategy(TEN) is strategy(TEN, trigger=EventTimeTrigger()) is aligned
    assert strategy(TEN, trigger=PurgingTrigger(EventTimeTrigger())) is aligned
    assert strategy(SlidingEventTimeWindows.of(5, 1)) is aligned
    assert strategy(TumblingProcessingTimeWindows.of(5), allowed_lateness_ms=9) is aligned
    assert strategy(EventTimeSessionWindows.with_gap(5)) is sessions
    assert strategy(CountTumblingWindowAssigner.of(5)) is Strategy.COUNTS
    for options in (
        {"assigner": TEN, "allowed_lateness_ms": 1},
        {"assigner": TEN, "evictor": CountEvictor.of(1)},
        {"assigner": TEN, "trigger": Later()},
        {"assigner": TEN, "trigger": CountTrigger(3)},
        {"assigner": TEN, "general": True},
        {"assigner": Mine(5)},
        {"assigner": EventTimeSessionWindows.with_gap(5), "allowed_lateness_ms": 1},
        {"assigner": ProcessingTimeSessionWindows.with_gap(5)},
        {"assigner": CountTumblingWindowAssigner.of(5), "trigger": PurgingTrigger(CountTrigger(3))},
        {"assigner": GlobalWindows.create(), "trigger": CountTrigger(3)},
        {"assigner": GlobalWindows.create(), "trigger": PurgingTrigger(CountTrigger(3)), "evictor": CountEvictor(1)},
    ):
        assert strategy(**options) is general, options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"allowed_lateness_ms": -1}, "lateness cannot be negative"),
        ({"contents": Elements()}, "needs a function"),
        ({"assigner": EventTimeSessionWindows.with_gap(5), "contents": Aggregated(UserFunction(object()))}, "no merge"),
    ],
)
def test_impossible_windows_are_refused_when_they_are_declared(options, words):
    with pytest.raises(InvalidProgram, match=words):
        WindowSpec(**{"key": UserFunction(one), "assigner": TEN, "contents": SUM, **options})
