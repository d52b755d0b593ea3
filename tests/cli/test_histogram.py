from collections import Counter
from types import SimpleNamespace

import pytest

from funken import CollectionSource
from funken.connectors.base import NEED_SPLITS, Batch, ConnectorContext, Wait
from funken.connectors.rate_limit import RateLimitedSource
from funken.demo import command as histogram
from funken.timing.watermarks import WatermarkOutput


def oracle(lines):
    counts = Counter()
    for number, line in enumerate(lines):
        at = number * 10
        for word in histogram.words(line):
            for start in range(at - at % 1000 - 4000, at + 1, 1000):
                counts[start, word] += 1
    return {(start, word, count) for (start, word), count in counts.items()}


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_the_counts_are_those_of_the_oracle(env, collect, parallelism):
    lines = env.from_source(histogram.TimedLines(histogram.manual_source()), histogram.BY_LINE_NUMBER, "manual")

    counts = collect(histogram.windowed_counts(lines))

    assert len(counts) == len(set(counts))
    assert set(counts) == oracle(histogram.manual())


def reader(lines, per_second=None):
    source = CollectionSource(lines)
    source = histogram.TimedLines(source if per_second is None else RateLimitedSource(source, per_second))
    made = source.reader(ConnectorContext("lines", 0, 1))
    made.open()
    return made, source.enumerator(1)


def test_a_text_is_one_split_and_ends():
    lines, enumerator = reader(["a", "b"])
    enumerator.start()

    lines.add_splits(enumerator.next_splits(0))

    assert lines.poll(10, now=0) == Batch(["a", "b"], [0, 10], "lines")
    assert lines.poll(10, now=0) is NEED_SPLITS
    assert lines.split_finished() == ["lines"]
    assert enumerator.next_splits(0) is None


def test_lines_come_at_their_speed():
    lines, enumerator = reader("abcdef", per_second=100)
    lines.add_splits(enumerator.next_splits(0))

    polled = [lines.poll(10, now=now) for now in (0, 5, 10, 40)]

    assert polled[1] == Wait(5)
    assert [found.values for found in polled if isinstance(found, Batch)] == [["a"], ["b"], ["c", "d", "e"]]


def test_a_reader_goes_on_where_another_stopped():
    first, enumerator = reader(["a", "b", "c"])
    first.add_splits(enumerator.next_splits(0))
    first.poll(2, now=0)

    second, again = reader(["a", "b", "c"])
    second.add_splits(first.snapshot_state(1))
    again.restore(enumerator.snapshot())

    assert second.poll(10, now=0) == Batch(["c"], [20], "lines")
    assert again.next_splits(0) is None


def test_time_goes_on_while_nothing_arrives(monkeypatch):
    clock = SimpleNamespace(now=lambda: 5000)
    monkeypatch.setattr(histogram, "SystemClock", lambda: clock)
    output = WatermarkOutput()

    histogram.ArrivalTime().on_periodic_emit(output)

    assert histogram.arrival_time("line", 0) == 5000
    assert output.watermark == 4999
