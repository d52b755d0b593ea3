"""Event-time windows through a whole program; what single windows do is tested with the operator."""

from collections import Counter
from datetime import timedelta

import pytest

from funken import (
    AggregateFunction,
    CollectionSource,
    NumberSequenceSource,
    OutputTag,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WatermarkStrategy,
    WindowFunction,
)

LAST = 999
TEN = timedelta(milliseconds=10)
MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number)


@pytest.fixture
def keyed(env):
    """The numbers 0 to 999 at as many ms, keyed by the remainder of 3."""
    return env.from_source(NumberSequenceSource(0, LAST), MONOTONOUS, "numbers").key_by(lambda number: number % 3)


def contents(size, slide):
    """Oracle: the numbers of each key and window."""
    found = {}
    for number in range(LAST + 1):
        newest = number - number % slide
        for start in range(newest, number - size, -slide):
            found.setdefault((number % 3, start), []).append(number)
    return found


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, tuple(sorted(elements))


class Ends(WindowFunction):
    def apply(self, key, window, inputs):
        yield key, window.start, tuple(sorted(inputs))


def test_tumbling_and_sliding_windows_computed_in_four_ways(keyed, collect):
    tumbling = TumblingEventTimeWindows.of(TEN)
    sliding = SlidingEventTimeWindows.of(TEN, timedelta(milliseconds=4))
    add = lambda a, b: a + b  # noqa: E731 - used twice below
    named = lambda name: lambda key, window, results: [(name, key, window.start, *results)]  # noqa: E731
    streams = [
        keyed.window(tumbling).reduce(add, named("tumbling reduce")),
        keyed.window(sliding).reduce(add, named("sliding reduce")),
        keyed.window(tumbling).aggregate(Sum(), named("tumbling aggregate")),
        keyed.window(sliding).aggregate(Sum(), named("sliding aggregate")),
        keyed.window(tumbling).apply(Ends()).map(lambda result: ("tumbling apply", *result)),
        keyed.window(sliding).process(Contents()).map(lambda result: ("sliding process", *result)),
    ]

    found = {}
    for name, *result in collect(streams[0].union(*streams[1:])):
        found.setdefault(name, []).append(tuple(result))

    expected = {"tumbling": contents(10, 10), "sliding": contents(10, 4)}
    for name, results in found.items():
        kind, how = name.split()
        value = tuple if how in ("apply", "process") else sum
        assert Counter(results) == Counter((*place, value(inside)) for place, inside in expected[kind].items()), name
    assert len(found) == 6


@pytest.mark.ways("local", "batch")
@pytest.mark.parametrize("parallelism", [1, 3])
def test_windows_over_the_whole_stream(env, collect):
    stream = env.from_source(NumberSequenceSource(0, LAST), MONOTONOUS, "numbers")

    sums = collect(
        stream.window_all(TumblingEventTimeWindows.of(timedelta(milliseconds=100))).reduce(lambda a, b: a + b)
    )

    assert sorted(sums) == [sum(range(start, start + 100)) for start in range(0, 1000, 100)]


@pytest.mark.ways("local", "batch")
def test_the_second_assigner_overrides_the_first(env, collect):
    """The first one's watermarks would make every record late for the second's timestamps."""
    ahead = MONOTONOUS.with_timestamp_assigner(lambda number, _: number + 1_000_000)
    stream = env.from_source(NumberSequenceSource(0, LAST), MONOTONOUS, "numbers")
    again = stream.assign_timestamps_and_watermarks(ahead).assign_timestamps_and_watermarks(MONOTONOUS)
    hundreds = again.key_by(lambda _: "all").window(TumblingEventTimeWindows.of(timedelta(milliseconds=100)))

    starts = collect(hundreds.apply(lambda key, window, values: [(window.start, len(list(values)))]))

    assert sorted(starts) == [(start, 100) for start in range(0, 1000, 100)]


@pytest.mark.ways("local", "batch")
def test_a_window_of_windows(keyed, collect):
    """Results carry the last instant of their window, so they fall into the next larger one."""
    small = keyed.window(TumblingEventTimeWindows.of(TEN)).reduce(lambda a, b: a + b)
    large = small.key_by(lambda _: "all").window(TumblingEventTimeWindows.of(timedelta(milliseconds=100)))

    assert sorted(collect(large.reduce(lambda a, b: a + b))) == [sum(range(s, s + 100)) for s in range(0, 1000, 100)]


class Punctuated:
    """A strategy's generator that says after each record that event time is there."""

    def __call__(self):
        from funken import WatermarkGenerator

        class Generator(WatermarkGenerator):
            def on_event(self, event, event_timestamp, output):
                output.emit_watermark(event_timestamp)

        return Generator()


@pytest.mark.ways("local", "batch")
def test_late_records_go_to_their_side_output(env, collect):
    late = OutputTag("late")
    strategy = WatermarkStrategy.for_generator(Punctuated()).with_timestamp_assigner(lambda number, _: number)
    stream = env.from_source(CollectionSource([1, 5, 25, 3, 12, 27]), strategy, "numbers")
    windows = stream.key_by(lambda _: 0).window(TumblingEventTimeWindows.of(TEN)).side_output_late_data(late)
    sums = windows.reduce(lambda a, b: a + b)

    found = collect(sums.map(lambda total: ("sum", total)).union(sums.get_side_output(late).map(lambda n: ("late", n))))

    assert Counter(found) == Counter([("sum", 6), ("sum", 52), ("late", 3), ("late", 12)])


@pytest.mark.ways("local", "batch")
def test_count_windows_drop_a_short_tail(env, collect):
    counted = env.from_collection(range(7)).key_by(lambda _: 0).count_window(2).reduce(lambda a, b: a + b)

    assert sorted(collect(counted)) == [1, 5, 9]
