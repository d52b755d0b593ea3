"""Processing time goes on within a block: the clock, lifetimes and timers between slow records.

The functions here turn the clock themselves: each record takes 10 s.
"""

import asyncio
from datetime import timedelta

import pytest

from funken.operators.async_io.operator import AsyncWait
from funken.operators.process.one_input import KeyedProcess, Process, ResultKind
from funken.operators.process.two_inputs import BroadcastProcess, CoProcess, KeyedCoProcess
from funken.operators.stateless import KeyedMap
from funken.operators.user_functions import UserFunction
from funken.operators.window.contents import CallStyle as WindowShape
from funken.operators.window.spec import Elements, Reduced, WindowCall, WindowSpec
from funken.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from funken.testing import OperatorHarness
from funken.timing.clock import ManualClock
from funken.windowing.assigners import (
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingProcessingTimeWindows,
    TumblingProcessingTimeWindows,
)
from funken.windowing.triggers import ContinuousProcessingTimeTrigger

SELF = UserFunction(lambda value: value)
STATES = (MapStateDescriptor("rules"),)


class Slow:
    """Each record takes 10 s, and wants to be reminded of 5 s after it came."""

    def open(self, runtime_context):
        pass

    def close(self):
        pass

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        at = timers.current_processing_time()
        if self.reminds:
            timers.register_processing_time_timer(at + 5000)
        self.harness.now += 10_000
        yield value, at, timers.current_processing_time()

    process_element1 = process_element2 = process_broadcast_element = process_element

    def on_timer(self, timestamp, ctx):
        yield "timer", timestamp, ctx.timer_service().current_processing_time()


def slow(make, reminds):
    function = Slow()
    function.reminds = reminds
    function.harness = OperatorHarness(make(UserFunction(function, rich=True)), keyed=reminds)
    return function.harness


BETWEEN = [("a", 0, 10_000), ("timer", 5000, 10_000), ("b", 10_000, 20_000), ("timer", 15_000, 20_000)]


@pytest.mark.parametrize(
    "make",
    [
        lambda call: KeyedProcess(call, SELF),
        lambda call: KeyedCoProcess(call, SELF, SELF),
        lambda call: BroadcastProcess(call, STATES, SELF),
    ],
    ids=["process", "co-process", "broadcast"],
)
def test_a_timer_fires_before_the_next_record_once_it_is_due(make):
    op = slow(make, reminds=True)
    op.feed_block(["a", "b"], [1, 2])

    assert op.output == BETWEEN
    assert [at for _, at in op.output_with_timestamps] == [1, None, 2, None]


def test_a_timer_fires_between_records_of_the_second_input():
    op = slow(lambda call: KeyedCoProcess(call, SELF, SELF), reminds=True)
    op.feed_second_block(["a", "b"])

    assert op.output == BETWEEN


def test_a_timer_of_a_keyed_record_fires_between_broadcast_ones():
    op = slow(lambda call: BroadcastProcess(call, STATES, SELF), reminds=True)
    op.operator._function.target.process_broadcast_element = lambda value, ctx: setattr(op, "now", op.now + 4000)
    op.feed("a")
    op.clear_output()
    op.feed("b")
    op.operator._timers.register_processing_time_timer("c", None, 27_000)
    op.feed_second_block([1, 2, 3])

    assert op.output[-1] == ("timer", 27_000, 28_000)
    assert op.now == 32_000


def test_a_timer_that_is_deleted_or_moved_does_not_fire():
    class Moving(Slow):
        def process_element(self, value, ctx):
            ctx.timer_service().delete_processing_time_timer(self.harness.now - 5000)
            yield from super().process_element(value, ctx)

    function = Moving()
    function.reminds = True
    function.harness = op = OperatorHarness(
        KeyedProcess(UserFunction(function, rich=True), UserFunction(lambda value: 0)), keyed=True
    )
    op.feed_block(["a", "b", "c"])

    assert [name for name, _, _ in op.output] == ["a", "timer", "b", "timer", "c", "timer"]


def test_timers_wait_for_the_end_in_batch():
    function = Slow()
    function.reminds = True
    spec = KeyedProcess(UserFunction(function, rich=True), SELF)
    function.harness = op = OperatorHarness(spec, keyed=True, batch=True)
    op.feed_block(["a", "b"])
    assert [name for name, _, _ in op.output] == ["a", "b"]

    op.end_input()
    assert [name for name, _, _ in op.output] == ["a", "b", "timer", "timer"]


@pytest.mark.parametrize("make", [Process, CoProcess, lambda call: BroadcastProcess(call, STATES)])
def test_the_time_that_a_function_is_told_goes_on(make):
    op = slow(make, reminds=False)
    op.feed_block(["a", "b"])
    if make is Process:
        assert op.output == [("a", 0, 10_000), ("b", 10_000, 20_000)]
        return
    op.feed_second_block(["c"])
    assert op.output == [("a", 0, 10_000), ("b", 10_000, 20_000), ("c", 20_000, 30_000)]


class Remembering:
    """Shows what is left of earlier records; each takes 10 s."""

    lifetime = StateTtlConfig.new_builder(timedelta(seconds=5)).build()

    def open(self, runtime_context):
        def alive(descriptor):
            descriptor.enable_time_to_live(self.lifetime)
            return descriptor

        self.last = runtime_context.get_state(alive(ValueStateDescriptor("last")))
        self.all = runtime_context.get_list_state(alive(ListStateDescriptor("all")))
        self.counts = runtime_context.get_map_state(alive(MapStateDescriptor("counts")))

    def close(self):
        pass

    def map(self, value):
        self.all.add(value)
        self.counts.put(value, 1)
        before = self.last.value(), list(self.all.get()), list(self.counts.keys())
        self.last.update(value)
        just = self.last.value()
        self.harness.now += self.takes
        return before, just, self.last.value()


@pytest.mark.parametrize(("takes", "second"), [(4999, ("a", ["a", "b"], ["a", "b"])), (5000, (None, ["b"], ["b"]))])
def test_s79_state_expires_within_a_block(takes, second):
    function = Remembering()
    function.takes = takes
    spec = KeyedMap(UserFunction(function, "map", rich=True), UserFunction(lambda value: 0), ResultKind.MAP)
    function.harness = op = OperatorHarness(spec, keyed=True)
    op.feed_block(["a", "b"])

    left = "a" if takes < 5000 else None
    assert op.output == [((None, ["a"], ["a"]), "a", left), (second, "b", left and "b")]


SHOW = WindowCall(UserFunction(lambda key, window, elements: [(window, list(elements))]), WindowShape.APPLY)


def windows(assigner, contents=None, **options):
    """Windows of numbers; each record takes 4 s, as the selector of its key does."""

    def key(value):
        harness.now += 4000
        return 0

    spec = WindowSpec(UserFunction(key), assigner, contents or Elements(), None if contents else SHOW, **options)
    harness = OperatorHarness(spec, keyed=True)
    return harness


@pytest.mark.parametrize("general", [False, True], ids=["chosen", "general"])
def test_a_window_of_processing_time_ends_between_records(general):
    op = windows(TumblingProcessingTimeWindows.of(timedelta(seconds=10)), general=general)
    op.feed_block([1, 2, 3, 4, 5, 6])

    if general:  # a record is in the window of the moment when its key is known
        assert op.output == [((0, 10_000), [1, 2]), ((10_000, 20_000), [3, 4])]
    else:
        assert op.output == [((0, 10_000), [1, 2, 3]), ((10_000, 20_000), [4, 5])]
    assert op.now == 24_000


def test_a_sliding_window_of_processing_time_ends_between_records():
    ten, five = timedelta(seconds=10), timedelta(seconds=5)
    op = windows(SlidingProcessingTimeWindows.of(ten, five), Reduced(UserFunction(lambda a, b: a + b)))
    op.feed_block([1, 2, 3, 4, 5, 6])

    assert op.output == [3, 6, 7, 9]  # of records at 0 4 | 0 4 8 | 8 12 | 12 16


def test_a_session_of_processing_time_ends_between_records():
    op = windows(ProcessingTimeSessionWindows.with_gap(timedelta(seconds=3)))
    op.feed_block([1, 2, 3])

    assert [contents for _, contents in op.output] == [[1], [2]]


def test_a_trigger_of_processing_time_fires_between_records():
    trigger = ContinuousProcessingTimeTrigger.of(timedelta(seconds=5))
    op = windows(GlobalWindows.create(), trigger=trigger)
    op.feed_block([1, 2, 3, 4])

    assert [contents for _, contents in op.output] == [[1, 2], [1, 2, 3], [1, 2, 3, 4]]  # at 8, 12 and 16 s


def test_windows_of_processing_time_wait_for_the_end_in_batch():
    op = OperatorHarness(
        WindowSpec(UserFunction(lambda value: 0), TumblingProcessingTimeWindows.of(10), Elements(), SHOW),
        keyed=True,
        batch=True,
    )
    op.feed_block([1, 2])
    op.now = 100
    op.feed_block([3])
    assert op.output == []

    op.end_input()
    assert op.output == [((0, 10), [1, 2]), ((100, 110), [3])]


def test_a_stride_follows_what_the_one_before_took():
    op = OperatorHarness(
        WindowSpec(UserFunction(lambda value: 0), TumblingProcessingTimeWindows.of(10), Elements(), SHOW), keyed=True
    )
    for _ in range(12):
        op.feed_block([0] * 2000)
    assert op.operator.windows._stride.records >= 2000


def test_an_async_request_waits_from_the_moment_of_its_own_record():
    clock = ManualClock(0)

    class Ask:
        async def async_invoke(self, value):
            await asyncio.Event().wait()

        def timeout(self, value):
            return [f"no answer for {value} at {clock.now()}"]

    with OperatorHarness(AsyncWait(Ask(), 5000, 10, True, clock=clock)) as op:
        enter = op.operator._enter

        def slowly(value, at):
            enter(value, at)
            clock.advance(4000)

        op.operator._enter = slowly
        op.feed_block(["a", "b"])
        assert op.output == ["no answer for a at 8000"]

        clock.advance(999)
        op.operator.tick(0)
        assert len(op.output) == 1
        clock.advance(1)
        op.operator.tick(0)
        assert op.output[1:] == ["no answer for b at 9000"]
