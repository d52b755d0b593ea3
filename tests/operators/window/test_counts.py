"""Count windows, global windows and evictors; where two logics can run it, in both."""

from __future__ import annotations

import pytest

from funken.operators.user_functions import UserFunction
from funken.operators.window.spec import (
    Aggregated,
    CallStyle,
    Elements,
    WindowCall,
)
from funken.windowing.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
)
from funken.windowing.evictors import CountEvictor, Evictor
from funken.windowing.triggers import (
    CountTrigger,
    PurgingTrigger,
)
from funken.windowing.windows import CountWindow, GlobalWindow, TimeWindow
from tests.support.windows import SUM, TEN, Sum, both, harness, parity

TWO = {"assigner": GlobalWindows.create(), "trigger": PurgingTrigger.of(CountTrigger.of(2))}


@both
def test_s45_count_windows_fire_when_full_and_never_before(general):
    h = harness(**TWO, contents=SUM, key=parity, general=general)
    h.feed_block([1, 3, 5, 2], None)
    h.end_input()
    assert h.output == [4]


@both
def test_s45_numbered_count_windows(general):
    h = harness(CountTumblingWindowAssigner.of(2), general=general)
    h.feed_block([1, 2, 3, 4, 5])
    h.end_input()
    assert h.output == [(CountWindow(0), [1, 2]), (CountWindow(1), [3, 4])]


@both
def test_s46_sliding_count_windows_fire_every_slide_with_the_last_ones(general):
    options = {"trigger": CountTrigger.of(2), "evictor": CountEvictor.of(3), "general": general}
    h = harness(GlobalWindows.create(), **options)
    h.feed_block([1, 2, 3, 4, 5])
    assert [elements for _, elements in h.output] == [[1, 2], [2, 3, 4]]


def test_s46_pyflinks_own_fire_only_when_full():
    h = harness(CountSlidingWindowAssigner.of(3, 2))
    h.feed_block([1, 2, 3, 4, 5, 6])
    assert h.output == [(CountWindow(0), [1, 2, 3]), (CountWindow(1), [3, 4, 5])]


@both
def test_s47_full_count_windows_are_freed(general):
    for h in (
        harness(CountTumblingWindowAssigner.of(2), general=general),
        harness(CountSlidingWindowAssigner.of(2, 2)),
        harness(**TWO, general=general),
    ):
        h.feed_block([1, 2])
        stored = [pair for states in h.snapshot()["keyed"].groups.values() for pair in states.items()]
        assert [name for name, _ in stored if "count" not in name] == []
        held = [saved for name, rows in stored if name == "_windows.counts" for *_, saved in rows]
        assert [contents for _, contents in held if contents] == []


def test_s48_global_windows_need_a_trigger():
    h = harness(GlobalWindows.create(), SUM)
    h.feed_block([1, 2], [1, 2])
    h.end_input()
    assert h.output == []


@both
def test_s48_a_purging_count_trigger_gives_three_results_for_seven_records(general):
    h = harness(**TWO, general=general)
    h.feed_block([1, 2, 3, 4, 5, 6, 7])
    h.end_input()
    assert h.output == [(GlobalWindow.get(), pair) for pair in ([1, 2], [3, 4], [5, 6])]


def test_s50_trigger_then_evict_before_then_function_then_evict_after():
    steps = []

    class Told(Evictor):
        def evict_before(self, elements, size, window, ctx):
            steps.append(("before", [(e.value, e.timestamp) for e in elements], size))
            del elements[0]

        def evict_after(self, elements, size, window, ctx):
            steps.append(("after", [e.value for e in elements], ctx.get_current_watermark()))
            return elements[1:]

    def function(key, window, elements):
        steps.append(("function", list(elements)))
        return [list(elements)]

    options = {"evictor": Told(), "trigger": CountTrigger.of(3)}
    h = harness(TEN, Elements(), WindowCall(UserFunction(function), CallStyle.APPLY), **options)
    h.feed_block([1, 2, 3], [1, 2, 3])
    assert steps == [
        ("before", [(1, 1), (2, 2), (3, 3)], 3),
        ("function", [2, 3]),
        ("after", [2, 3], -(2**63)),
    ]
    h.feed_block([4, 5, 6], [4, 5, 6])
    assert h.output == [[2, 3], [4, 5, 6]], "3 was left, and then evicted as the first"


def test_s50_reduce_and_aggregate_see_what_the_evictor_leaves():
    options = {"evictor": CountEvictor.of(2)}
    for contents in (SUM, Aggregated(UserFunction(Sum()))):
        h = harness(TEN, contents, **options)
        h.feed_block([1, 2, 4], [1, 2, 3])
        h.end_input()
        assert h.output == [6]
        assert h.context.keyed.snapshot().groups == {}
    h = harness(TEN, SUM, evictor=CountEvictor.of(0))
    h.feed(1, 1)
    h.end_input()
    assert h.output == [], "nothing is left to reduce"


def test_s50_an_evictor_works_on_sessions():
    h = harness(EventTimeSessionWindows.with_gap(5), evictor=CountEvictor.of(2))
    h.feed_block([1, 2, 3], [0, 8, 4])
    h.end_input()
    assert h.output == [(TimeWindow(0, 13), [2, 3])]


@pytest.mark.parametrize("during_a_snapshot", [False, True])
def test_records_in_windows_that_are_not_full_are_counted(during_a_snapshot):
    told = []
    h = harness(GlobalWindows.create(), SUM, key=lambda n: n % 2, trigger=PurgingTrigger(CountTrigger(4)))
    h.context.warn = lambda kind, text: told.append((kind, text.partition(" records")[0]))
    h.feed_block([1, 2, 3, 4, 5], [0] * 5)
    if during_a_snapshot:
        table = h.operator.windows.table
        rows, _ = table.begin_snapshot(False, lambda row: None)
        next(iter(rows))
    h.operator.finish()

    assert told == [("open windows", "the input ended with 5")]
