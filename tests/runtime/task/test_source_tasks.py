"""A task with sources, by hand: when it reads, what its cuts have, and what a sink has prepared."""

import cloudpickle
import pytest

from funken import DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.checkpoint.incremental import SnapshotOptions
from funken.checkpoint.machine import Stop
from funken.checkpoint.restore import GroupSource, ItemSource, SubtaskRestore
from funken.checkpoint.store.blobs import BlobReader
from funken.io.shapes import load_state
from funken.io.storage import mounted
from funken.runtime.messages import (
    CheckpointAborted,
    CheckpointComplete,
    Savepoint,
    StartReading,
    TaskId,
    TriggerCheckpoint,
)
from funken.runtime.settings import CheckpointPlan, TaskSettings
from funken.runtime.task.state_manager import write_snapshot
from funken.runtime.task.task import Task
from funken.testing.memory_storage import MemoryStorage
from funken.timing.clock import ManualClock
from tests.support.simulation.ledgers import LEDGERS, Ledger, LedgerSink

PLACE = "memory://sources"


@pytest.fixture
def storage():
    storage = MemoryStorage(PLACE)
    with mounted(PLACE, storage):
        yield storage.at("job")


@pytest.fixture
def ledger():
    LEDGERS["sources"] = ledger = Ledger()
    yield ledger
    del LEDGERS["sources"]


class Bench:
    """The one task of a program whose sources write into a ledger."""

    def __init__(self, storage, restores=(), sources=1, together=False):
        env = StreamExecutionEnvironment.create_local_environment(1)
        for number in range(sources):
            source = DataGeneratorSource(lambda i: [i].pop(), 100)  # called, so that a poll gives one record
            numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), f"{number}").uid(f"{number}")
            numbers.sink_to(LedgerSink("sources", number)).uid(f"sink {number}")
        plan = cloudpickle.loads(cloudpickle.dumps(env.compile()))
        checkpoints = CheckpointPlan(storage.uri, SnapshotOptions(), restores=dict(restores))
        settings = TaskSettings(checkpoints=checkpoints, block_records=1, together=together)
        self.cuts = []
        self.task = Task(plan, TaskId(0, 0), settings, ManualClock(0), lambda event: None, deliver=self.cuts.append)
        self.task.open()
        self.sources = {subtask.source.context.operator: subtask.source for subtask in self.task.subtasks.values()}
        if not restores:
            for source in self.sources.values():
                source.add_splits(DataGeneratorSource(lambda i: i, 100).enumerator(1).next_splits(0), no_more=True)

    @property
    def read(self):
        return sum(source.records for source in self.sources.values())

    def prepared(self, checkpoint):
        """Trigger a checkpoint; return how many transactions its cut has."""
        self.task.poll()
        self.task.handle_command(TriggerCheckpoint(checkpoint))
        return sum(
            len(load_state(snapshot.committables))
            for _, snapshot in self.cuts[-1].snapshots.values()
            if snapshot.committables
        )


def test_nothing_is_read_before_all_have_begun(storage, ledger):
    bench = Bench(storage, together=True)
    assert bench.task.poll() > 0
    assert bench.read == 0

    bench.task.handle_command(StartReading())
    bench.task.poll()
    assert bench.read == 1


def test_who_is_cut_for_the_savepoint_that_stops_the_job_reads_on_only_if_it_is_given_up(storage, ledger):
    bench = Bench(storage)
    bench.task.poll()
    bench.task.handle_command(TriggerCheckpoint(1, Savepoint(f"{PLACE}/savepoint", Stop.SUSPEND)))
    bench.task.poll()
    assert bench.read == 1

    bench.task.handle_command(CheckpointAborted(1))
    bench.task.poll()
    assert bench.read == 2


def test_what_a_sink_prepared_is_in_every_cut_until_it_is_committed(storage, ledger):
    bench = Bench(storage)
    assert [bench.prepared(1), bench.prepared(2)] == [1, 2]

    bench.task.handle_command(CheckpointComplete(1))
    assert bench.prepared(3) == 2, "that of 2 and of 3"

    bench.task.handle_command(CheckpointAborted(3))
    assert bench.prepared(4) == 3

    bench.task.handle_command(CheckpointComplete(4))
    assert bench.prepared(5) == 1


def test_a_cut_is_handed_over_when_every_vertex_is_cut(storage, ledger):
    bench = Bench(storage, sources=2)
    bench.task.handle_command(TriggerCheckpoint(1))

    (snapshot,) = bench.cuts
    assert (snapshot.checkpoint, snapshot.finished) == (1, frozenset())
    assert len(snapshot.snapshots) == 4


def test_who_had_ended_keeps_what_its_operators_hold_themselves(storage, ledger):
    bench = Bench(storage)
    bench.task.poll()
    bench.task.handle_command(TriggerCheckpoint(1))
    handles = write_snapshot(bench.cuts[0], storage)
    restores = {
        place: SubtaskRestore(
            storage.uri,
            128,
            keyed=tuple(GroupSource((part,), range(128)) for part in handle.parts),
            items=tuple(ItemSource(handle.own, item) for item in (handle.own.items if handle.own else ())),
            finished=True,
        )
        for place, handle in handles.items()
    }

    ended = Bench(storage, restores)
    ended.task.poll()

    (last,) = ended.cuts
    assert last.final
    place = next(place for place in handles if place[0] == "0")
    saved = write_snapshot(last, storage)[place].own
    positions = [BlobReader(storage, saved).item(item) for item in saved.items if item.name == "operator"]
    assert [split.position for split in positions[0]] == [1]
