"""Cuts that are pickled while the task goes on: as they were at the barrier, in order, whatever comes meanwhile."""

import pickle
from collections import Counter

import pytest

from funken.checkpoint.machine import Stop
from funken.io.storage import mounted
from funken.runtime.exchange.gate import BlockKind
from funken.runtime.messages import CheckpointAborted, Savepoint
from funken.runtime.task.state_manager import Materializer, write_snapshot
from funken.testing.memory_storage import MemoryStorage
from tests.runtime.snapshot.test_unaligned import Bench, restores_of

KEYS = list(range(10))


@pytest.fixture
def storage():
    storage = MemoryStorage("memory://unaligned")
    with mounted("memory://unaligned", storage):
        yield storage.at("job")


@pytest.fixture
def bench(storage):
    """A task that has counted each key twice, and is in the middle of its first cut."""
    bench = Bench(storage, after=None, slice_rows=1)
    bench.data(0, [*KEYS, *KEYS])
    bench.work()
    barriers(bench, 1)
    assert bench.tasks[0].materializing
    assert bench.cuts == []
    return bench


def barriers(bench, number, details=b""):
    for upstream in (0, 1):
        bench.barrier(upstream, number, details)
    while bench.tasks[0].work:
        bench.tasks[0].step()


def counted(bench, snapshot, width=1):
    """What ``width`` tasks count from what was cut."""
    handles = write_snapshot(snapshot, bench.storage)
    return Bench(bench.storage, restores_of(handles, width)[0].items(), width=width).counts()


def times(count):
    return Counter(dict.fromkeys(KEYS, count))


@pytest.mark.parametrize("width", [1, 2, 3])
def test_records_that_come_meanwhile_are_not_in_it(bench, width):
    bench.data(1, [*KEYS, 3, 3])
    bench.work()

    (snapshot,) = bench.cuts
    assert counted(bench, snapshot, width) == times(2)
    assert bench.counts() == times(3) + Counter({3: 2})


def test_a_task_that_has_nothing_to_do_goes_on_with_it(bench):
    task = bench.tasks[0]
    due = bench.clock.now()
    while task.materializing:
        assert due == bench.clock.now(), "no waiting"
        due = task.advance()
    assert [snapshot.checkpoint for snapshot in bench.cuts] == [1]
    assert due != bench.clock.now()


def test_the_next_barrier_finds_it_finished(bench):
    bench.data(0, KEYS)
    barriers(bench, 2)
    bench.data(0, KEYS)
    bench.work()

    assert [snapshot.checkpoint for snapshot in bench.cuts] == [1, 2]
    assert [counted(bench, snapshot) for snapshot in bench.cuts] == [times(2), times(3)]


def test_what_was_given_up_is_in_the_next(bench):
    bench.tasks[0].handle_command(CheckpointAborted(1))
    bench.data(0, [1])
    barriers(bench, 2)
    bench.data(0, KEYS)
    bench.work()

    assert counted(bench, bench.cuts[-1]) == times(2) + Counter([1])


def test_it_is_handed_over_before_the_final_state(bench):
    bench.data(0, KEYS)
    for upstream in (0, 1):
        bench.block(BlockKind.END, upstream)
    while bench.tasks[0].work:
        bench.tasks[0].step()

    assert [(snapshot.checkpoint, snapshot.final) for snapshot in bench.cuts] == [(1, False), (2, True)]
    assert bench.tasks[0].closed
    assert [counted(bench, snapshot) for snapshot in bench.cuts] == [times(2), times(3)]


@pytest.mark.parametrize("stop", [Stop.SUSPEND, Stop.DRAIN], ids=str)
def test_a_job_may_be_stopped_meanwhile(bench, stop):
    bench.data(0, KEYS)
    barriers(bench, 2, pickle.dumps(Savepoint("memory://unaligned/saved", stop)))
    assert bench.tasks[0].materializing
    bench.work()

    first, last = bench.cuts
    assert counted(bench, first) == times(2)
    handles = write_snapshot(last, bench.storage)
    for found in (handles.checkpoint, handles.savepoint):
        assert found.keys() == {("count", 0)}


def test_who_fails_meanwhile_has_acknowledged_nothing(bench):
    bench.tasks[0].close()
    assert bench.cuts == []


class OpenFor:
    """A cut that takes so many slices, of so many seconds per row."""

    def __init__(self, clock, rows, seconds):
        self.clock, self.rows, self.seconds = clock, rows, seconds
        self.slices = []

    @property
    def open(self):
        return self.rows > 0

    def step(self, rows):
        rows = min(rows, self.rows)
        self.rows -= rows
        self.clock[0] += rows * self.seconds
        self.slices.append(rows * self.seconds)


@pytest.mark.parametrize("seconds", [1e-7, 1e-6, 1e-5, 1e-3])
def test_a_slice_takes_a_few_milliseconds_and_records_have_their_half(seconds):
    clock = [0.0]
    materializer, snapshot = Materializer(clock=lambda: clock[0]), OpenFor(clock, 200_000, seconds)
    materializer.add(("op", 0), snapshot)
    spent = 0.0
    while materializer.open:
        materializer.step()
        clock[0] += 0.0004  # a block
        spent += 0.0004
        materializer.worked = True

    assert max(snapshot.slices[10:]) <= 0.0051
    assert spent >= sum(snapshot.slices[1:]) * 0.9 or max(snapshot.slices) < 0.0004
