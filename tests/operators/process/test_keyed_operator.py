"""Operators of one's own on keyed streams: keys, timers, state, by hand and in jobs."""

import pytest

from funken import OutputTag, ValueStateDescriptor, WatermarkStrategy
from funken.sdk import KeyedOperator, copied_block, immutable
from funken.testing import OperatorHarness

LATE = OutputTag("late")


class Pair(KeyedOperator):
    """Sums up both inputs of a key until event time reaches 10, or 100 ms of processing time have passed."""

    def open(self):
        self.sum = self.state(ValueStateDescriptor("sum", default=0))

    def process_element(self, value, timestamp):
        self.sum.update(self.sum.value() + value[1])
        self.register_event_time_timer(10)
        if value[1] < 0:
            self.emit_side(LATE, value)

    def process_element2(self, value, timestamp):
        self.sum.update(self.sum.value() + 100 * value[1])
        self.register_processing_time_timer(self.context.processing_time() + 100)
        if value[1] == 0:
            self.delete_event_time_timer(10)

    def on_event_time(self, timestamp):
        self.emit((self.current_key, self.sum.value()))

    def on_processing_time(self, timestamp):
        self.emit((self.current_key, "at", timestamp))


def first(pair):
    return pair[0]


@pytest.fixture
def harness():
    return OperatorHarness(Pair, keys=[first, first])


def test_both_inputs_share_the_state_of_a_key(harness):
    harness.feed(("a", 1), 1)
    harness.feed_second(("a", 2), 2)
    harness.feed_second(("b", 3), 2)
    harness.watermark(9)
    assert harness.output == []

    harness.watermark(10)
    assert harness.output_with_timestamps == [(("a", 201), 10)]


def test_timers_of_processing_time_fire(harness):
    harness.feed_second(("a", 2))
    harness.processing_time(100)

    assert harness.output_with_timestamps == [(("a", "at", 100), None)]


def test_a_deleted_timer_does_not_fire(harness):
    harness.feed(("a", 1))
    harness.feed_second(("a", 0))
    harness.watermark(10)

    assert harness.output == []


def test_a_side_output_has_the_timestamp_of_its_record(harness):
    harness.feed(("a", -1), 3)
    harness.feed(("a", -2))

    assert harness.side_output_with_timestamps(LATE) == [(("a", -1), 3), (("a", -2), None)]


def test_state_and_timers_are_restored_by_key(harness):
    for key in "abcdef":
        harness.feed((key, 1), 1)
    snapshot = harness.snapshot()
    found = []
    for subtask in range(2):
        again = OperatorHarness.restored(Pair, snapshot, keys=[first, first], subtask=subtask, parallelism=2)
        again.watermark(10)
        assert again.output
        found += again.output

    assert sorted(found) == [(key, 1) for key in "abcdef"]


@pytest.mark.parametrize("runtime_mode", ["STREAMING", "BATCH"])
def test_it_runs_in_every_way(env, runtime_mode):
    env.get_configuration().set("execution.runtime-mode", runtime_mode)
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: 5)
    left = env.from_collection([(key, n) for n in range(1, 4) for key in "ab"]).assign_timestamps_and_watermarks(
        by_time
    )
    right = env.from_collection([("a", 1)]).assign_timestamps_and_watermarks(by_time)
    sums = left.connect(right).key_by(first, first).transform("pair", Pair).set_parallelism(2)

    found = [pair for pair in sums.execute_and_collect() if "at" not in pair]
    assert sorted(found) == [("a", 106), ("b", 6)]


class Blocks(KeyedOperator):
    """Handles whole blocks: counts the records of a key, and gives a function's results for them."""

    def __init__(self, function):
        self.function = function

    def open(self):
        self.counts = self.state(ValueStateDescriptor("count", default=0))

    def process(self, values, timestamps):
        for value, at in zip(values, timestamps, strict=True):
            self.current_key = value[0]
            self.counts.update(self.counts.value() + 1)
            self.register_event_time_timer(at + 10)
            self.emit_results(self.function(value), at)
        self.flush()

    def watermark(self, watermark):
        while self.event_times and self.event_times[0] <= watermark:
            self.fire_event_time_timers(self.event_times[0])
        self.flush()
        self.output.watermark(watermark)

    def on_event_time(self, timestamp):
        self.emit_result((self.current_key, self.counts.value()))


def test_an_operator_of_blocks_has_keys_state_and_timers():
    harness = OperatorHarness(Blocks(lambda value: [value]), keys=[first])
    harness.feed_block([("a", 1), ("b", 2), ("a", 3)], [1, 2, 3])
    assert harness.output == [("a", 1), ("b", 2), ("a", 3)]

    harness.watermark(12)

    assert harness.output_with_timestamps[3:] == [(("a", 2), 11), (("b", 1), 12)]
    assert harness.watermarks == [12]


def test_results_of_a_function_go_to_their_outputs_as_they_were():
    kept = []

    def function(value):
        kept.append(value[1])
        return [kept, (LATE, kept)]

    harness = OperatorHarness(Blocks(function), keys=[first])
    harness.feed_block([("a", 1), ("a", 2)], [1, 2])

    assert harness.output_with_timestamps == [([1], 1), ([1, 2], 2)]
    assert harness.side_output_with_timestamps(LATE) == [([1], 1), ([1, 2], 2)]


class Endless(KeyedOperator):
    """A timer that registers the next one, ten thousand times."""

    def process_element(self, value, timestamp):
        self.register_event_time_timer(0)

    def on_event_time(self, timestamp):
        self.emit(timestamp)
        if timestamp < 10_000:
            self.register_event_time_timer(timestamp + 1)


def test_results_of_many_timers_are_sent_on_before_the_last_has_fired():
    harness = OperatorHarness(Endless, keys=[first])
    blocks = []
    harness.operator.output.emit = lambda values, timestamps: blocks.append(len(values))
    harness.feed(("a", 1), 1)
    harness.watermark(20_000)

    assert sum(blocks) == 10_001
    assert len(blocks) > 1


def test_what_is_immutable_is_not_copied():
    class Point:
        def __init__(self, x):
            self.x = x

    point = Point(1)
    assert copied_block([point])[0] is not point

    immutable(Point)

    assert copied_block([point])[0] is point
