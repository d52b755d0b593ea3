import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.errors import StateNotKeyed
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import OutputTag
from funken.operators.process.keyed_operator import TimeDomain
from funken.operators.process.one_input import KeyedProcess, Process
from funken.operators.user_functions import UserFunction
from funken.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from funken.testing import OperatorHarness


class Function:
    """A process function put together from two callables."""

    def __init__(self, process_element=None, on_timer=None):
        if process_element:
            self.process_element = process_element
        if on_timer:
            self.on_timer = on_timer


def unkeyed(process_element, **options):
    return OperatorHarness(Process(UserFunction(Function(process_element))), name="op", **options)


def keyed(process_element, on_timer=None, **options):
    """Make a harness for records ``(key, payload)``."""
    spec = KeyedProcess(UserFunction(Function(process_element, on_timer)), key=UserFunction(lambda value: value[0]))
    return OperatorHarness(spec, keyed=True, name="op", **options)


def register(value, ctx):
    """Register the payload of the record: an event-time timer, or if negative a processing-time one."""
    at = value[1]
    if at >= 0:
        ctx.timer_service().register_event_time_timer(at)
    else:
        ctx.timer_service().register_processing_time_timer(-at)


def tell(timestamp, ctx):
    yield ctx.get_current_key(), timestamp, ctx.time_domain()


EVENT, PROCESSING = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME
SIDE = OutputTag("side")


# ---- records


def test_results_are_none_or_an_iterable():
    op = unkeyed(lambda value, ctx: value)
    for made in (None, [], [1, 2], (3,), iter([4]), (i for i in (5, 6))):
        op.feed(made)
    assert op.output == [1, 2, 3, 4, 5, 6]


def test_s12_results_carry_the_timestamp_of_their_record():
    op = unkeyed(lambda value, ctx: [value] * value)
    op.feed_block([2, 0, 1], [10, 20, MIN_TIMESTAMP])
    op.feed_block([1], None)
    assert op.output_with_timestamps == [(2, 10), (2, 10), (1, None), (1, None)]


def test_a_block_is_emitted_at_once():
    blocks = []
    op = unkeyed(lambda value, ctx: [value])
    op.operator.output.emit = lambda values, timestamps: blocks.append(values)
    op.feed_block([1, 2, 3])
    assert blocks == [[1, 2, 3]]


def test_a_record_without_a_timestamp_has_none():
    op = unkeyed(lambda value, ctx: [ctx.timestamp()])
    op.feed_block(["a", "b"], [5, MIN_TIMESTAMP])
    op.feed("c")
    assert op.output == [5, None, None]


def test_s61_a_tuple_that_begins_with_a_tag_goes_to_a_side_output():
    def split(value, ctx):
        yield value
        yield SIDE, -value
        ctx.output(OutputTag("other"), value * 10)
        yield "pair", value

    op = unkeyed(split)
    op.feed(1, 100)
    op.feed(2)
    assert op.output_with_timestamps == [(1, 100), (("pair", 1), 100), (2, None), (("pair", 2), None)]
    assert op.side_output_with_timestamps(SIDE) == [(-1, 100), (-2, None)]
    assert op.side_output("other") == [10, 20]


@pytest.mark.parametrize("action", ["register", "delete"])
@pytest.mark.parametrize("domain", ["event_time", "processing_time"])
def test_s25_timers_on_a_stream_without_keys_are_refused(action, domain):
    op = unkeyed(lambda value, ctx: getattr(ctx.timer_service(), f"{action}_{domain}_timer")(1))
    message = rf"operator 'op' .*{action.capitalize()} timers is only supported on a keyed stream"
    with pytest.raises(StateNotKeyed, match=message):
        op.feed(1)


def test_time_can_be_asked_for_on_any_stream():
    def times(value, ctx):
        service = ctx.timer_service()
        yield service.current_watermark(), service.current_processing_time()

    for op in (unkeyed(times, now=7), keyed(times, now=7)):
        op.feed(("a", 1))
        op.watermark(20)
        op.processing_time(9)
        op.feed(("a", 1))
        assert op.output == [(MIN_TIMESTAMP, 7), (20, 9)]


def test_the_function_is_opened_and_closed():
    calls = []

    class Rich(Function):
        def open(self, runtime_context):
            calls.append(runtime_context.get_task_name())

        def close(self):
            calls.append("closed")

    with OperatorHarness(Process(UserFunction(Rich(list), rich=True)), name="op"):
        assert calls == ["op"]
    assert calls == ["op", "closed"]


def test_s76_state_of_a_stream_without_keys_is_refused():
    class Rich(Function):
        def open(self, runtime_context):
            runtime_context.get_state(ValueStateDescriptor("v"))

    with pytest.raises(StateNotKeyed, match="only accessible by functions executed on a KeyedStream"):
        OperatorHarness(Process(UserFunction(Rich(list), rich=True)))


# ---- keys and state


def test_state_belongs_to_the_key_of_the_record():
    class Count(Function):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

        def process_element(self, value, ctx):
            self.count.update(self.count.value() + 1)
            yield ctx.get_current_key(), self.count.value()

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), self.count.value()

        def close(self):
            pass

    op = OperatorHarness(KeyedProcess(UserFunction(Count(), rich=True), key=UserFunction(str.lower)), keyed=True)
    op.feed_block(["a", "b", "A", "a"])
    assert op.output == [("a", 1), ("b", 1), ("a", 2), ("a", 3)]
    with pytest.raises(StateNotKeyed, match="no key was current"):
        op.operator._function.target.count.value()


# ---- timers


def test_s16_a_timer_is_registered_once_per_key_and_time():
    op = keyed(register, tell)
    op.feed_block([("a", 5), ("a", 5), ("b", 5)])
    op.watermark(5)
    assert op.output == [("a", 5, EVENT), ("b", 5, EVENT)]


def test_s17_the_time_domains_are_distinct():
    op = keyed(register, tell)
    op.feed_block([("a", 5), ("a", -5)])
    op.processing_time(5)
    assert op.output == [("a", 5, PROCESSING)]
    op.watermark(5)
    assert op.output[1:] == [("a", 5, EVENT)]


def test_s18_a_timer_in_the_past_fires_at_the_next_watermark():
    op = keyed(register, tell)
    op.watermark(100)
    op.feed(("a", 50))
    assert op.output == []
    op.watermark(101)
    assert op.output == [("a", 50, EVENT)]


def test_s19_on_timer_may_register_more_timers():
    def rearm(timestamp, ctx):
        if timestamp < 50:
            ctx.timer_service().register_event_time_timer(timestamp + 10)
        yield timestamp

    op = keyed(register, rearm)
    op.feed(("a", 10))
    op.watermark(35)
    assert op.output == [10, 20, 30]
    op.end_input()
    assert op.output == [10, 20, 30, 40, 50]


def test_s19_a_timer_that_never_stops_registering_itself_still_gets_its_results_out():
    emitted = 0

    class Enough(Exception):
        pass

    def count(values, timestamps):
        nonlocal emitted
        emitted += len(values)
        if emitted > 10_000:
            raise Enough

    def rearm(timestamp, ctx):
        ctx.timer_service().register_event_time_timer(timestamp + 1)
        yield timestamp

    op = keyed(register, rearm)
    op.operator.output.emit = count
    op.feed(("a", 0))
    with pytest.raises(Enough):
        op.end_input()


def test_s24_a_timer_can_be_deleted():
    def process(value, ctx):
        timers = ctx.timer_service()
        timers.register_event_time_timer(5)
        timers.register_processing_time_timer(5)
        if value[1] == "delete":
            timers.delete_event_time_timer(5)
            timers.delete_processing_time_timer(5)
        timers.delete_event_time_timer(77)

    op = keyed(process, tell)
    op.feed_block([("a", "delete"), ("b", "keep")])
    op.watermark(5)
    op.processing_time(5)
    assert op.output == [("b", 5, EVENT), ("b", 5, PROCESSING)]


def test_s12_s13_results_of_timers_carry_the_time_of_event_time_timers_only():
    def on_timer(timestamp, ctx):
        yield ctx.timestamp()
        yield SIDE, timestamp
        ctx.output(SIDE, timestamp)

    op = keyed(register, on_timer)
    op.feed_block([("a", 5), ("a", 6), ("a", -7)], [1, 2, 3])
    op.watermark(10)
    op.processing_time(10)
    assert op.output_with_timestamps == [(5, 5), (6, 6), (7, None)]
    assert op.side_output_with_timestamps(SIDE) == [(5, 5), (5, 5), (6, 6), (6, 6), (7, None), (7, None)]


def test_s26_on_timer_may_return_none_or_be_missing():
    for on_timer in (None, lambda timestamp, ctx: None):
        op = keyed(register, on_timer)
        op.feed_block([("a", 5), ("a", -5)])
        op.watermark(5)
        op.processing_time(5)
        assert op.output == []


def test_timers_fire_before_the_watermark_goes_on_and_see_it():
    log = []

    def on_timer(timestamp, ctx):
        yield timestamp, ctx.timer_service().current_watermark()

    op = keyed(register, on_timer)
    op.operator.output.emit = lambda values, timestamps: log.append(values)
    op.operator.output.watermark = log.append
    op.feed_block([("a", 5), ("a", 15)])
    op.watermark(10)
    op.watermark(20)
    assert log == [[(5, 10)], 10, [(15, 20)], 20]


def test_s1_the_end_of_input_fires_all_event_time_timers():
    def on_timer(timestamp, ctx):
        yield timestamp, ctx.timer_service().current_watermark()

    op = keyed(register, on_timer)
    op.feed(("a", 10**15))
    op.end_input()
    assert op.output == [(10**15, 9223372036854775807)]
    assert op.watermarks == [MAX_WATERMARK]


def test_s21_processing_time_timers_that_are_not_due_at_the_end_are_dropped():
    op = keyed(register, tell)
    op.feed(("a", -5))
    op.end_input()
    op.close()
    assert op.output == []


def test_s20_s22_in_batch_each_key_fires_event_time_then_processing_time_timers_and_registers_no_more(caplog):
    def on_timer(timestamp, ctx):
        ctx.timer_service().register_event_time_timer(timestamp + 1)
        yield ctx.get_current_key(), timestamp, ctx.time_domain()

    op = keyed(register, on_timer, batch=True)
    op.feed_block([("a", 20), ("b", 7), ("a", -1), ("a", 10)])
    op.watermark(15)
    op.processing_time(100)
    assert op.output == []
    with caplog.at_level(logging.WARNING):
        op.end_input()
    assert op.output_with_timestamps == [
        (("b", 7, EVENT), 7),
        (("a", 10, EVENT), 10),
        (("a", 20, EVENT), 20),
        (("a", 1, PROCESSING), None),
    ]
    assert "are ignored" in caplog.text


def test_state_and_timers_survive_in_a_snapshot():
    class Sum(Function):
        def open(self, runtime_context):
            self.sum = runtime_context.get_state(ValueStateDescriptor("sum", default=0))

        def process_element(self, value, ctx):
            self.sum.update(self.sum.value() + value[1])
            ctx.timer_service().register_event_time_timer(100)
            ctx.timer_service().register_processing_time_timer(100)

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), self.sum.value()

        def close(self):
            pass

    spec = KeyedProcess(UserFunction(Sum(), rich=True), key=UserFunction(lambda value: value[0]))
    before = OperatorHarness(spec, keyed=True)
    before.feed_block([("a", 1), ("a", 2), ("b", 5)])
    after = OperatorHarness.restored(spec, before.snapshot(), keyed=True)
    after.watermark(100)
    after.processing_time(100)
    assert sorted(after.output) == [("a", 3), ("a", 3), ("b", 5), ("b", 5)]


# ---- an oracle


class Gather(Function):
    """Collects payloads and emits them ten after the first one."""

    def open(self, runtime_context):
        self.items = runtime_context.get_list_state(ListStateDescriptor("items"))

    def process_element(self, value, ctx):
        if not self.items.get():
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        self.items.add(value[1])

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), tuple(self.items.get())
        self.items.clear()

    def close(self):
        pass


Record = st.tuples(st.sampled_from("abc"), st.integers(0, 50), st.booleans())


@settings(max_examples=50)
@given(st.lists(Record, max_size=40))
def test_gathering_does_what_an_oracle_says(records):
    op = OperatorHarness(
        KeyedProcess(UserFunction(Gather(), rich=True), key=UserFunction(lambda value: value[0])), keyed=True
    )
    pending, expected, watermark = {}, [], MIN_TIMESTAMP

    def advance(to):
        for due, key in sorted((due, key) for key, (due, _) in pending.items() if due <= to):
            expected.append(((key, tuple(pending.pop(key)[1])), due))

    for key, at, is_watermark in records:
        if is_watermark:
            watermark = max(watermark, at)
            op.watermark(watermark)
            advance(watermark)
        else:
            op.feed((key, at), at)
            pending.setdefault(key, (at + 10, []))[1].append(at)
    op.end_input()
    advance(MAX_WATERMARK)
    assert sorted(op.output_with_timestamps) == sorted(expected)
