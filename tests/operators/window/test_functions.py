"""Reduce, aggregate and window functions, their contexts and their state; where two logics can run it, in both."""

from __future__ import annotations

import pytest

from funken.errors import StateError, StateNotKeyed
from funken.operators.base import OutputTag
from funken.operators.user_functions import UserFunction
from funken.operators.window.spec import (
    ONE_KEY,
    Aggregated,
    CallStyle,
    Elements,
    WindowCall,
    WindowSpec,
)
from funken.state.descriptors import ListStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from funken.testing.harness import OperatorHarness
from funken.windowing.assigners import EventTimeSessionWindows
from funken.windowing.triggers import (
    CountTrigger,
)
from funken.windowing.windows import TimeWindow
from tests.support.windows import SHOW, SUM, TEN, Sum, both, harness, one, parity


class Counting:
    """Counts firings per window and per key."""

    def process(self, key, context, elements):
        for name, state in (("window", context.window_state()), ("all", context.global_state())):
            count = state.get_state(ValueStateDescriptor(name))
            count.update((count.value() or 0) + 1)
            yield name, key, context.window().start, count.value(), list(elements)

    def clear(self, context):
        context.window_state().get_state(ValueStateDescriptor("window")).clear()


COUNTING = WindowCall(UserFunction(Counting(), "process"), CallStyle.PROCESS)


@both
def test_s40_functions_have_state_per_window_and_per_key(general):
    h = harness(TEN, Elements(), COUNTING, key=parity, general=general)
    h.feed_block([1, 2, 3], [1, 2, 13])
    h.watermark(9)
    h.watermark(19)
    assert h.output == [
        ("window", 1, 0, 1, [1]),
        ("all", 1, 0, 1, [1]),
        ("window", 0, 0, 1, [2]),
        ("all", 0, 0, 1, [2]),
        ("window", 1, 10, 1, [3]),
        ("all", 1, 10, 2, [3]),
    ]
    groups = h.context.keyed.snapshot().groups
    assert {name for states in groups.values() for name in states} == {"all"}, "clear() freed the windows' state"


def test_s40_window_state_lives_as_long_as_the_window():
    h = harness(TEN, Elements(), COUNTING, allowed_lateness_ms=5)
    h.feed(1, 1)
    h.watermark(9)
    h.feed(2, 2)
    assert [result[:4] for result in h.output if result[0] == "window"] == [
        ("window", "key", 0, 1),
        ("window", "key", 0, 2),
    ]


@both
def test_s40_windows_that_merge_have_no_state_of_their_own(general):
    h = harness(EventTimeSessionWindows.with_gap(5), Elements(), COUNTING, general=general)
    h.feed(1, 1)
    with pytest.raises(StateError, match="Per-window state is not allowed when using merging windows"):
        h.end_input()

    class Global:
        def process(self, key, context, elements):
            states = context.global_state()
            states.get_list_state(ListStateDescriptor("list")).add(1)
            states.get_reducing_state(ReducingStateDescriptor("sum", max)).add(5)
            return [states.get_list_state(ListStateDescriptor("list")).get()]

    function = WindowCall(UserFunction(Global(), "process"), CallStyle.PROCESS)
    h = harness(EventTimeSessionWindows.with_gap(5), Elements(), function, general=general)
    h.feed_block([1, 2], [1, 50])
    h.end_input()
    assert h.output == [[1], [1, 1]]


@both
def test_s44_reduce_gives_one_value_per_firing_and_leaves_a_single_record_untouched(general):
    record, h = ["a record"], harness(TEN, SUM, general=general)
    h.feed(record, 1)
    h.end_input()
    assert h.output == [record]
    h = harness(TEN, SUM, SHOW, general=general)
    h.feed_block([1, 2], [1, 2])
    h.end_input()
    assert h.output == [(TimeWindow(0, 10), [3])]


@both
def test_aggregate_with_and_without_a_window_function(general):
    for function, expected in ((None, [3]), (SHOW, [(TimeWindow(0, 10), [3])])):
        h = harness(TEN, Aggregated(UserFunction(Sum())), function, general=general)
        h.feed_block([1, 2], [1, 2])
        h.end_input()
        assert h.output == expected


@both
def test_a_result_of_none_is_nothing(general):
    class Nothing(Sum):
        def get_result(self, accumulator):
            return None

    h = harness(TEN, Aggregated(UserFunction(Nothing())), general=general)
    h.feed(1, 1)
    h.end_input()
    assert h.output == []


@both
def test_functions_are_opened_and_closed(general):
    total, shown = Sum(), Sum()
    shown.apply = lambda key, window, elements: [list(elements)]
    function = WindowCall(UserFunction(shown, "apply", rich=True), CallStyle.APPLY)
    with harness(TEN, Aggregated(UserFunction(total, rich=True)), function, general=general) as h:
        h.feed(1, 1)
    assert total.life == shown.life == ["open", "close"]


@both
@pytest.mark.parametrize(
    ("shape", "function"),
    [
        (CallStyle.PROCESS, lambda key, context, elements: [(key, context.window(), sum(elements))]),
        (CallStyle.APPLY, lambda key, window, elements: [(key, window, sum(elements))]),
        (CallStyle.PROCESS_ALL, lambda context, elements: [("key", context.window(), sum(elements))]),
        (CallStyle.APPLY_ALL, lambda window, elements: [("key", window, sum(elements))]),
    ],
)
def test_every_shape_of_function(general, shape, function):
    h = harness(TEN, Elements(), WindowCall(UserFunction(function), shape), general=general)
    h.feed_block([1, 2], [1, 2])
    h.end_input()
    assert h.output == [("key", TimeWindow(0, 10), 3)]


@both
def test_functions_reach_side_outputs_by_tag_and_may_return_nothing(general):
    tag = OutputTag("odd")

    def split(key, context, elements):
        for element in elements:
            if element == 7:
                context.output(tag, element)
            elif element % 2:
                yield tag, element
            else:
                yield element

    h = harness(TEN, Elements(), WindowCall(UserFunction(split), CallStyle.PROCESS), general=general)
    h.feed_block([1, 2, 7], [1, 2, 3])
    h.end_input()
    assert h.output_with_timestamps == [(2, 9)]
    assert h.side_output_with_timestamps(tag) == [(1, 9), (7, 9)]
    h = harness(TEN, Elements(), WindowCall(UserFunction(lambda key, w, e: None), CallStyle.APPLY), general=general)
    h.feed(1, 1)
    h.end_input()
    assert h.output == []


@both
def test_a_function_may_change_the_elements_it_was_given_and_keep_them(general):
    kept = []

    def drain(key, window, elements):
        kept.append(list(elements))
        elements.clear()

    h = harness(TEN, Elements(), WindowCall(UserFunction(drain), CallStyle.APPLY), general=general)
    h.feed_block([1, 2], [1, 11])
    h.end_input()
    assert kept == [[1], [2]]


def test_what_a_function_does_to_its_elements_does_not_reach_the_window():
    kept = []

    def drain(key, window, elements):
        kept.append(list(elements))
        elements.clear()

    h = harness(TEN, Elements(), WindowCall(UserFunction(drain), CallStyle.APPLY), trigger=CountTrigger(1))
    h.feed_block([1, 2], [1, 2])
    assert kept == [[1], [1, 2]]


def test_the_context_knows_the_time():
    def times(key, context, elements):
        return [(context.current_processing_time(), context.current_watermark())]

    h = harness(TEN, Elements(), WindowCall(UserFunction(times), CallStyle.PROCESS), now=77)
    h.feed(1, 1)
    h.watermark(12)
    assert h.output == [(77, 12)]


@both
def test_s49_window_all_has_one_key(general):
    h = OperatorHarness(WindowSpec(ONE_KEY, TEN, SUM, general=general), keyed=True)
    h.feed_block([1, 2, 3], [1, 2, 3])
    h.end_input()
    assert h.output == [6]


def test_a_window_without_keyed_state_is_refused_where_it_is_set_up():
    with pytest.raises(StateNotKeyed):
        OperatorHarness(WindowSpec(UserFunction(one), TEN, SUM), keyed=False)
