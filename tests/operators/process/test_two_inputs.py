import pytest

from funken.errors import StateNotKeyed
from funken.operators.base import OutputTag
from funken.operators.process.two_inputs import CoFlatMap, CoMap, CoProcess, KeyedCoProcess
from funken.operators.user_functions import UserFunction
from funken.state.descriptors import ValueStateDescriptor
from funken.testing import OperatorHarness

FIRST = UserFunction(lambda value: value[0])


def test_s60_a_connected_map_drops_none():
    class Function:
        def map1(self, value):
            return value if value else None

        def map2(self, value):
            return -value

    op = OperatorHarness(CoMap(UserFunction(Function())))
    op.feed_block([0, 1], [10, 20])
    op.feed_second_block([0, 2])
    assert op.output_with_timestamps == [(1, 20), (0, None), (-2, None)]


def test_a_connected_flat_map_gives_any_number_of_records():
    class Function:
        def flat_map1(self, value):
            return [value] * value

        def flat_map2(self, value):
            if value:
                yield from "ab"

    op = OperatorHarness(CoFlatMap(UserFunction(Function())))
    op.feed_block([2, 0], [10, 20])
    op.feed_second_block([0, 1], [30, 40])
    assert op.output_with_timestamps == [(2, 10), (2, 10), ("a", 40), ("b", 40)]


class Joined:
    """Counts records over both inputs, per key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def _seen(self):
        self.count.update(self.count.value() + 1)
        return self.count.value()

    def map1(self, value):
        return "left", value, self._seen()

    def map2(self, value):
        return "right", value, self._seen()

    def process_element1(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1])
        yield "left", ctx.get_current_key(), ctx.timestamp(), self._seen()

    def process_element2(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(value[1])
        yield OutputTag("right"), (ctx.get_current_key(), self._seen())

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, ctx.time_domain().name, self.count.value()

    def close(self):
        pass


def test_a_connected_map_on_keyed_streams_has_keyed_state():
    op = OperatorHarness(CoMap(UserFunction(Joined(), rich=True), FIRST, FIRST), keyed=True)
    op.feed(("a", 1))
    op.feed_second(("a", 2))
    op.feed_second(("b", 3))
    assert op.output == [("left", ("a", 1), 1), ("right", ("a", 2), 2), ("right", ("b", 3), 1)]


def test_a_keyed_co_process_function_shares_state_and_timers_between_its_inputs():
    op = OperatorHarness(KeyedCoProcess(UserFunction(Joined(), rich=True), FIRST, FIRST), keyed=True)
    op.feed(("a", 10), 1)
    op.feed_second(("a", 20), 2)
    assert op.output_with_timestamps == [(("left", "a", 1, 1), 1)]
    assert op.side_output_with_timestamps("right") == [(("a", 2), 2)]
    op.clear_output()
    op.watermark(10)
    op.processing_time(20)
    assert op.output_with_timestamps == [(("a", 10, "EVENT_TIME", 2), 10), (("a", 20, "PROCESSING_TIME", 2), None)]


class Unkeyed:
    def process_element1(self, value, ctx):
        yield "left", value, ctx.timestamp()

    def process_element2(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1)


def test_s25_a_co_process_function_without_keys_has_no_timers():
    op = OperatorHarness(CoProcess(UserFunction(Unkeyed())))
    op.feed("x", 5)
    assert op.output == [("left", "x", 5)]
    with pytest.raises(StateNotKeyed, match="Register timers is only supported on a keyed stream"):
        op.feed_second("y")


def test_s22_in_batch_timers_of_both_inputs_wait_for_the_end():
    op = OperatorHarness(KeyedCoProcess(UserFunction(Joined(), rich=True), FIRST, FIRST), keyed=True, batch=True)
    op.feed_second(("a", 20))
    op.feed(("a", 10))
    op.clear_output()
    op.watermark(50)
    op.processing_time(50)
    assert op.output == []
    op.end_input()
    assert [domain for _, _, domain, _ in op.output] == ["EVENT_TIME", "PROCESSING_TIME"]
