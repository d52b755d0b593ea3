import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.connectors.base import NEED_SPLITS, Batch, Boundedness, ConnectorContext, Wait
from funken.connectors.datagen import DataGeneratorSource, NumberSequenceSource
from funken.connectors.rate_limit import BURST_MS
from funken.errors import InvalidProgram

# Parallelism, limit of a batch, steps before a crash, parallelism after it.
SCHEDULES = st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(0, 30), st.integers(1, 4))


def start(source, parallelism=1):
    enumerator = source.enumerator(parallelism)
    readers = [source.reader(ConnectorContext("numbers", subtask, parallelism)) for subtask in range(parallelism)]
    for subtask, reader in enumerate(readers):
        reader.add_splits(enumerator.next_splits(subtask) or [])
    return readers


def count_at(reader, now, limit=10_000):
    """How many records come at this moment."""
    count = 0
    while isinstance(got := reader.poll(limit, now), Batch):
        count += len(got.values)
    return count


def test_a_sequence_includes_both_ends(job):
    assert job(NumberSequenceSource(-2, 3)).run() == [-2, -1, 0, 1, 2, 3]
    assert job(NumberSequenceSource(7, 7)).run() == [7]


def test_a_reader_of_several_splits_saves_them_all():
    source = DataGeneratorSource(lambda index: index, 40)
    reader = source.reader(ConnectorContext("numbers", 0, 1))
    enumerator = source.enumerator(4)
    reader.add_splits([split for subtask in range(4) for split in enumerator.next_splits(subtask)])
    read = reader.poll(3, 0).values

    again = source.reader(ConnectorContext("numbers", 0, 1))
    again.add_splits(reader.snapshot_state(1))

    rest = [value for _ in range(4) for value in again.poll(100, 0).values]
    assert sorted(read + rest) == list(range(40))


def test_a_sequence_is_cut_into_ranges_of_about_the_same_size():
    readers = start(NumberSequenceSource(1, 10), parallelism=3)

    assert [reader.poll(99, 0).values for reader in readers] == [[1, 2, 3], [4, 5, 6], [7, 8, 9, 10]]


def test_more_subtasks_than_numbers_leave_some_without():
    readers = start(NumberSequenceSource(1, 2), parallelism=3)

    assert readers[2].poll(9, 0) is NEED_SPLITS


def test_a_backward_sequence_is_refused():
    with pytest.raises(InvalidProgram, match="from 2 to 1 is empty; pass start <= end"):
        NumberSequenceSource(2, 1)


@given(st.integers(-50, 50), st.integers(0, 40), SCHEDULES)
def test_a_sequence_survives_a_restart_at_any_parallelism(job, first, more, schedule):
    read = job.run_with_crash(NumberSequenceSource(first, first + more), schedule)

    assert sorted(read) == list(range(first, first + more + 1))


@given(st.integers(0, 40), st.sampled_from([None, 0.5, 10, 333.3, 5000]), SCHEDULES)
def test_a_generator_survives_a_restart_at_any_parallelism(job, count, rate, schedule):
    read = job.run_with_crash(DataGeneratorSource(lambda index: -index, count, rate), schedule)

    assert sorted(read) == sorted(-index for index in range(count))


def test_subtasks_advance_through_the_indices_side_by_side():
    readers = start(DataGeneratorSource(lambda index: index), parallelism=3)

    assert [reader.poll(3, 0).values for reader in readers] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


def test_without_a_count_it_does_not_end():
    source = DataGeneratorSource(lambda index: index)
    (reader,) = start(source)

    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert [reader.poll(1000, 0).values[-1] for _ in range(5)] == [999, 1999, 2999, 3999, 4999]


def test_a_generator_may_be_an_object_with_map():
    class Squares:
        def map(self, index):
            return index * index

    (reader,) = start(DataGeneratorSource(Squares(), count=4))

    assert reader.poll(9, 0).values == [0, 1, 4, 9]


def test_a_function_that_raises_stop_iteration_does_not_cut_the_records_short():
    (reader,) = start(DataGeneratorSource(lambda index: next(iter([])), count=4))

    with pytest.raises(StopIteration):
        reader.poll(9, 0)


def test_the_rate_is_kept_from_the_first_record_on():
    (reader,) = start(DataGeneratorSource(lambda index: index, rate_per_second=100))

    assert [count_at(reader, now) for now in (5000, 5009, 5010, 5035, 5999, 6000)] == [1, 0, 1, 2, 96, 1]


def test_the_rate_is_shared_by_the_subtasks():
    readers = start(DataGeneratorSource(lambda index: index, rate_per_second=1000), parallelism=4)

    first = [count_at(reader, 0) for reader in readers]

    assert first == [1, 1, 1, 1]
    assert [count_at(reader, 1000) for reader in readers] == [250, 250, 250, 250]


def test_the_rate_stays_when_one_subtask_takes_over_all_splits(job):
    run = job(DataGeneratorSource(lambda index: index, rate_per_second=1000), parallelism=4)
    for _ in range(8):
        run.step()
    run.crash(parallelism=1)

    (reader,) = run.readers
    count_at(reader, 10_000)

    assert count_at(reader, 11_000) == 1000


def test_a_long_stall_is_made_up_for_only_in_part():
    (reader,) = start(DataGeneratorSource(lambda index: index, rate_per_second=200))
    count_at(reader, 0)

    assert count_at(reader, 3_600_000) == 200 * BURST_MS // 1000
    assert count_at(reader, 3_600_100) == 20


def test_a_short_stall_is_made_up_for_entirely():
    (reader,) = start(DataGeneratorSource(lambda index: index, rate_per_second=200))

    assert count_at(reader, 0) + count_at(reader, 900) + count_at(reader, 1000) == 201


def test_a_clock_that_steps_back_does_not_stop_the_source():
    (reader,) = start(DataGeneratorSource(lambda index: index, rate_per_second=100))
    count_at(reader, 1_000_000)

    assert count_at(reader, 10) == 0
    assert count_at(reader, 110) == 10


def test_the_wait_reaches_to_the_next_record_but_not_far():
    (often,) = start(DataGeneratorSource(lambda index: index, rate_per_second=250))
    (seldom,) = start(DataGeneratorSource(lambda index: index, rate_per_second=0.1))
    often.poll(9, 0), seldom.poll(9, 0)

    assert often.poll(9, 0) == Wait(4)
    assert often.poll(9, 3) == Wait(1)
    assert seldom.poll(9, 0) == Wait(1000)
    assert seldom.poll(9, 10_000).values == [1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"generator_function": 5}, "5 generates nothing"),
        ({"count": -1}, "cannot make -1 records"),
        ({"rate_per_second": 0}, "0 records per second is no rate"),
        ({"rate_per_second": float("nan")}, "nan records per second is no rate"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(InvalidProgram, match=message):
        DataGeneratorSource(**{"generator_function": str} | arguments)
