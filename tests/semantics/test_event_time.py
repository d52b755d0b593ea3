"""Statements on watermarks and timestamps, each pinned by a test that names it."""

from funken import (
    MAX_WATERMARK,
    MIN_TIMESTAMP,
    CollectionSource,
    KeyedProcessFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
    WatermarkGenerator,
    WatermarkStrategy,
)
from funken.operators.source import TimestampsAndWatermarks
from funken.runtime.exchange.gate import InputGate
from funken.testing import OperatorHarness, SimulatedJob, local
from funken.timing.watermarks import WatermarkOutput


def stamped(strategy):
    return strategy.with_timestamp_assigner(lambda at, _: at)


def test_s4_bounded_out_of_orderness_lags_by_the_bound_and_one_ms():
    for strategy, expected in [
        (WatermarkStrategy.for_bounded_out_of_orderness(5), 100 - 5 - 1),
        (WatermarkStrategy.for_monotonous_timestamps(), 100 - 1),
    ]:
        op = OperatorHarness(TimestampsAndWatermarks(stamped(strategy)))
        op.feed_block([90, 100, 95])
        op.processing_time(200)
        assert op.watermarks == [expected]


def test_s5_a_watermark_never_goes_back_and_an_equal_one_is_swallowed():
    output = WatermarkOutput()
    for watermark in (5, 3, 5):
        output.emit_watermark(watermark)
        assert output.watermark == 5

    op = OperatorHarness(TimestampsAndWatermarks(stamped(WatermarkStrategy.for_monotonous_timestamps())))
    for now, at in enumerate([100, 50, 100, 101], start=1):
        op.feed(at)
        op.processing_time(now * 200)
    assert op.watermarks == [99, 100]


class Punctuated(WatermarkGenerator):
    """Emits a watermark right behind each record."""

    def on_event(self, event, event_timestamp, output):
        output.emit_watermark(event_timestamp)


def test_s6_an_assigner_drops_watermarks_from_upstream_except_the_last():
    op = OperatorHarness(TimestampsAndWatermarks(stamped(WatermarkStrategy.for_monotonous_timestamps())))

    op.watermark(1000)
    op.feed(7, 1000)
    op.processing_time(200)
    op.watermark(MAX_WATERMARK)

    assert op.watermarks == [6, MAX_WATERMARK]
    assert op.output_with_timestamps == [(7, 7)]


def test_s6_a_second_assigner_overrides_the_timestamps_of_the_first():
    class Stamp(ProcessFunction):
        def process_element(self, value, ctx):
            yield value, ctx.timestamp()

    first, second = (
        WatermarkStrategy.no_watermarks().with_timestamp_assigner(assign)
        for assign in (lambda value, _: value, lambda value, previous: previous + 1000)
    )
    stream = local([1, 2]).assign_timestamps_and_watermarks(first).assign_timestamps_and_watermarks(second)

    assert stream.process(Stamp()).execute_and_collect(limit=2) == [(1, 1001), (2, 1002)]


class Told:
    """A receiver at a gate that only wants to know the watermark."""

    def __init__(self):
        self.watermarks = []

    def watermark(self, watermark):
        self.watermarks.append(watermark)

    def watermark_input(self, index, watermark):
        pass

    def idle(self, idle):
        pass


def test_s7_the_watermark_is_the_least_of_all_inputs_that_are_not_idle():
    told = Told()
    gate = InputGate(told, [((0, 0), 0), ((0, 1), 0), ((1, 0), 1)])

    gate.watermark((0, 0), 10)
    gate.watermark((0, 1), 20)
    assert told.watermarks == [], "an input that never advances holds everything"

    gate.watermark((1, 0), 15)
    assert told.watermarks == [10]

    gate.idle((0, 0), True)
    assert told.watermarks == [10, 15]


def test_s7_an_idle_source_split_does_not_hold_the_watermark():
    strategy = stamped(WatermarkStrategy.for_monotonous_timestamps().with_idleness(1000))
    op = OperatorHarness(TimestampsAndWatermarks(strategy))
    op.feed(5)

    op.processing_time(200)
    assert not op.is_idle

    op.processing_time(1400)
    assert op.is_idle


def test_s8_an_assigner_is_given_min_timestamp_for_a_record_without_one():
    given = []

    def assign(value, record_timestamp):
        given.append(record_timestamp)
        return 0

    op = OperatorHarness(TimestampsAndWatermarks(WatermarkStrategy.no_watermarks().with_timestamp_assigner(assign)))
    op.feed("a")
    op.feed("b", 17)

    assert given == [MIN_TIMESTAMP, 17]


def test_s9_the_context_timestamp_of_a_record_without_one_is_none():
    """As the documentation has it; PyFlink's process mode gives MIN_TIMESTAMP."""

    class Stamp(ProcessFunction):
        def process_element(self, value, ctx):
            yield ctx.timestamp()

    assert local([1]).process(Stamp()).execute_and_collect(limit=1) == [None]


def test_s10_strategies_are_values_and_the_order_of_their_settings_does_not_matter():
    base = WatermarkStrategy.for_monotonous_timestamps()

    def assign(value, _):
        return value

    one = base.with_timestamp_assigner(assign).with_idleness("10 ms")
    other = base.with_idleness("10 ms").with_timestamp_assigner(assign)

    assert one == other
    assert base.assigner is None


def test_s11_the_assigner_of_a_sources_strategy_is_used():
    """PyFlink ignores it silently; Java does not."""

    class Stamp(ProcessFunction):
        def process_element(self, value, ctx):
            yield ctx.timestamp()

    env = StreamExecutionEnvironment.create_local_environment(1)
    stream = env.from_source(CollectionSource([5, 6]), stamped(WatermarkStrategy.no_watermarks()), "numbers")

    assert stream.process(Stamp()).execute_and_collect(limit=2) == [5, 6]


def test_s15_a_watermark_is_not_held_back_until_a_bundle_is_full():
    """PyFlink handles 1000 records or 1 s at a time; here a punctuated watermark is seen by the very next record."""

    class Seen(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield value, ctx.timer_service().current_watermark()

    strategy = stamped(WatermarkStrategy.for_generator(Punctuated))
    stream = local([1, 2, 3]).assign_timestamps_and_watermarks(strategy).key_by(lambda _: 0).process(Seen())

    assert SimulatedJob(stream).run() == [(1, MIN_TIMESTAMP), (2, 1), (3, 2)]
