"""How records are spread over subtasks of different number; the catalogue (test_programs.py) has the rest."""

import pytest

from funken import MapFunction, NumberSequenceSource, WatermarkStrategy

COUNT = 1200


class Where(MapFunction):
    """Pairs each record with the subtask that handled it."""

    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value):
        return self.subtask, value


def numbers(env, subtasks=1):
    source = NumberSequenceSource(0, COUNT - 1)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").set_parallelism(subtasks)


def by_subtask(pairs):
    found = {}
    for subtask, value in pairs:
        found.setdefault(subtask, []).append(value)
    return found


@pytest.mark.ways("local")
def test_rescale_to_fewer(env, collect):
    stream = numbers(env, 4).rescale().map(Where()).set_parallelism(2)

    shares = by_subtask(collect(stream))

    assert {subtask: (min(share), max(share)) for subtask, share in shares.items()} == {0: (0, 599), 1: (600, 1199)}


@pytest.mark.ways("local")
def test_a_partitioner_is_given_the_parallelism_of_the_next_operator(env, collect):
    asked = numbers(env).partition_custom(lambda key, width: width - 1, lambda number: number)

    assert {subtask for subtask, _ in collect(asked.map(Where()).set_parallelism(3))} == {2}
