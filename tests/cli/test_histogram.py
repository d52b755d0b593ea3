from collections import Counter
from types import SimpleNamespace

import pytest

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
    counts = collect(histogram.windowed_counts(histogram.timed_lines(env, None, None)))

    assert len(counts) == len(set(counts))
    assert set(counts) == oracle(histogram.manual())


def test_lines_of_several_files_have_times_in_their_order(env, collect, tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(f"a{number}\nb{number}\n")

    timed = histogram.timed_lines(env.set_parallelism(2), str(tmp_path), None)
    found = collect(timed.process(lambda line, ctx: [(ctx.timestamp(), line)]))

    assert sorted(found) == [(0, "a0"), (10, "b0"), (20, "a1"), (30, "b1"), (40, "a2"), (50, "b2")]


def test_lines_are_counted_on_where_another_attempt_stopped():
    emitted = []
    first, second = histogram.NumberLines(), histogram.NumberLines()
    for each in (first, second):
        each.output = SimpleNamespace(emit=lambda values, times: emitted.append((values, times)))

    first.process(["a", "b"], None)
    second.restore(first.snapshot())
    second.process(["c"], None)

    assert emitted == [(["a", "b"], [0, 10]), (["c"], [20])]


def test_time_goes_on_while_nothing_arrives(monkeypatch):
    clock = SimpleNamespace(now=lambda: 5000)
    monkeypatch.setattr(histogram, "SystemClock", lambda: clock)
    output = WatermarkOutput()

    histogram.ArrivalTime().on_periodic_emit(output)

    assert histogram.arrival_time("line", 0) == 5000
    assert output.watermark == 4999
