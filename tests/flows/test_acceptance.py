"""Acceptance: word counts in sliding windows over a real text equal an oracle's, however the program is run."""

from collections import Counter
from datetime import timedelta
from pydoc_data.topics import topics

import pytest

from funken import AggregateFunction, DataGeneratorSource, SlidingEventTimeWindows, WatermarkStrategy

SIZE, SLIDE = 5_000, 1_000
MILLIS_PER_LINE = 100
LINES = "\n".join(topics[name] for name in sorted(topics)).splitlines()


def oracle():
    """Ten lines that say what a sliding window is."""
    counts = Counter()
    for number, line in enumerate(LINES):
        at = number * MILLIS_PER_LINE
        newest = at - at % SLIDE
        for start in range(newest, newest - SIZE, -SLIDE):
            for word in line.split():
                counts[word, start] += 1
    return {(word, start, count) for (word, start), count in counts.items()}


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


@pytest.fixture(scope="module")
def expected():
    return oracle()


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_word_counts_in_sliding_windows_equal_the_oracle(env, collect, expected):
    lines = LINES
    source = DataGeneratorSource(lambda number: (number * MILLIS_PER_LINE, lines[number]), count=len(lines))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda line, _: line[0])
    counts = (
        env.from_source(source, strategy, "topics")
        .flat_map(lambda line: line[1].split())
        .key_by(lambda word: word)
        .window(SlidingEventTimeWindows.of(timedelta(milliseconds=SIZE), timedelta(milliseconds=SLIDE)))
        .aggregate(Count(), lambda word, window, counts: [(word, window.start, count) for count in counts])
    )

    found = collect(counts)

    assert len(found) == len(expected)
    assert set(found) == expected
