"""The shape of a job: several sinks, stages of different width, operators chained or not.

What single programs give is in the catalogue (test_programs.py).
"""

from collections import Counter

import pytest

from funken import (
    FlatMapFunction,
    NumberSequenceSource,
    WatermarkStrategy,
)


def numbers(env, last, first=1):
    return env.from_source(NumberSequenceSource(first, last), WatermarkStrategy.no_watermarks(), "numbers")


def test_a_fork_into_several_sinks(env, capsys):
    stream = numbers(env, 4).rebalance().map(lambda number: number).set_parallelism(1)
    stream.print("all").set_parallelism(1)
    stream.filter(lambda number: number > 2).print("large").set_parallelism(1)
    stream.key_by(lambda number: number % 2).sum().set_parallelism(1).print("sums").set_parallelism(1)

    env.execute()

    by_sink = {}
    for line in capsys.readouterr().out.splitlines():
        name, number = line.split("> ")
        by_sink.setdefault(name, []).append(int(number))
    assert sorted(by_sink["all"]) == [1, 2, 3, 4]
    assert sorted(by_sink["large"]) == [3, 4]
    assert max(by_sink["sums"]) == 6
    assert len(by_sink["sums"]) == 4


def test_an_edge_that_skips_levels_is_relayed(env, collect):
    start = numbers(env, 1000)
    far = start
    for _ in range(3):  # three exchanges above the source
        far = far.rebalance().map(lambda number: number)
    near = start.map(lambda number: -number).set_parallelism(3)  # relayed over stages of another width
    both = far.union(near).key_by(abs).reduce(lambda a, b: 0)

    assert Counter(collect(both))[0] == 1000  # each number met its negative


class Twice(FlatMapFunction):
    def flat_map(self, value):
        return [value, value]


@pytest.mark.ways("local")
def test_chaining_does_not_change_results(environment, collect):
    results = []
    for chained in (True, False):
        env = environment({"pipeline.operator-chaining.enabled": chained})
        stream = numbers(env, 200).flat_map(Twice()).map(lambda number: number % 10).filter(lambda digit: digit > 3)
        results.append(Counter(collect(stream.key_by(lambda digit: digit).sum().map(lambda total: total + 1))))

    assert results[0] == results[1]
    assert results[0].total() == 240
