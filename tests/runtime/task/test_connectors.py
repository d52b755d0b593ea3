"""What a task does with readers and writers: their context, their state, the checkpoints they are notified of."""

from dataclasses import dataclass

import pytest

from funken import Sink, SinkWriter, Source, SourceReader, StreamExecutionEnvironment, WatermarkStrategy
from funken.checkpoint.incremental import SnapshotOptions
from funken.checkpoint.restore import ItemSource, SubtaskRestore
from funken.connectors import NEED_SPLITS, Batch, StaticSplits, Wait
from funken.io.shapes import load_state
from funken.io.storage import mounted
from funken.runtime.messages import CheckpointAborted, CheckpointComplete, TaskId, TriggerCheckpoint
from funken.runtime.settings import CheckpointPlan, TaskSettings
from funken.runtime.task.state_manager import write_snapshot
from funken.runtime.task.task import Task
from funken.testing.memory_storage import MemoryStorage
from funken.timing.clock import ManualClock

PLACE = "memory://connectors"
STORY = []


class Reader(SourceReader):
    def __init__(self, context):
        self.context, self.splits = context, []
        STORY.append(("reader", context))

    def add_splits(self, splits):
        self.splits += splits

    def poll(self, limit, now):
        if not self.splits or self.splits[0] > 3:
            return Wait(None)
        self.splits = [self.splits[0] + 1]
        return Batch([self.splits[0]])

    def snapshot_state(self, checkpoint_id):
        STORY.append(("snapshot reader", checkpoint_id))
        return self.splits

    def notify_checkpoint_complete(self, checkpoint_id):
        STORY.append(("reader complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id):
        STORY.append(("reader aborted", checkpoint_id))


@dataclass(frozen=True)
class Numbers(Source):
    def enumerator(self, parallelism):
        return StaticSplits([0], parallelism)

    def reader(self, context):
        return Reader(context)


class Writer(SinkWriter):
    def __init__(self, context):
        self.rows, self.count = [], 0
        STORY.append(("writer", context))

    def restore_state(self, states):
        STORY.append(("restore writer", states))
        self.count = sum(states)

    def open(self):
        STORY.append(("open writer",))

    def write(self, values, timestamps, now):
        self.rows += values
        self.count += len(values)

    def flush(self, end_of_input):
        STORY.append(("flush", end_of_input))

    def prepare_commit(self, checkpoint_id, end_of_input):
        STORY.append(("prepare", checkpoint_id, end_of_input))
        rows, self.rows = self.rows, []
        return [rows]

    def snapshot_state(self, checkpoint_id):
        STORY.append(("snapshot writer", checkpoint_id))
        return [self.count]

    def notify_checkpoint_complete(self, checkpoint_id):
        STORY.append(("writer complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id):
        STORY.append(("writer aborted", checkpoint_id))


@dataclass(frozen=True)
class Out(Sink):
    def writer(self, context):
        return Writer(context)


@pytest.fixture
def storage():
    STORY.clear()
    storage = MemoryStorage(PLACE)
    with mounted(PLACE, storage):
        yield storage.at("job")


class Bench:
    def __init__(self, storage, restores=None, restored=None, woken=None):
        env = StreamExecutionEnvironment.create_local_environment(1)
        numbers = env.from_source(Numbers(), WatermarkStrategy.no_watermarks(), "numbers").uid("in")
        numbers.sink_to(Out()).name("out").uid("out")
        plan = env.compile()
        checkpoints = CheckpointPlan(
            storage.uri, SnapshotOptions(), True, None, restores or {}, restored, newest=restored or 0
        )
        settings = TaskSettings("nightly", 2, checkpoints=checkpoints)
        self.snapshots = []
        self.task = Task(
            plan, TaskId(0, 0), settings, ManualClock(5), lambda event: None, wake=woken, deliver=self.snapshots.append
        )
        self.task.open()
        (self.source,) = [subtask.source for subtask in self.task.subtasks.values()]
        self.source.add_splits([0], no_more=False)

    def committables(self):
        return [
            committable
            for _, snapshot in self.snapshots[-1].snapshots.values()
            if snapshot.committables
            for committable in load_state(snapshot.committables)
        ]


def told(*kinds):
    return [entry for entry in STORY if entry[0] in kinds]


def test_readers_and_writers_know_where_they_run(storage):
    Bench(storage, restored=7)

    contexts = dict(told("reader", "writer"))
    for kind, name, uid in (("reader", "numbers", "in"), ("writer", "out", "out")):
        context = contexts[kind]
        assert (context.operator, context.operator_uid, context.job_id, context.attempt) == (name, uid, "nightly", 2)
        assert (context.restored_checkpoint_id, context.subtask, context.parallelism) == (7, 0, 1)
        assert context.processing_time() == 5


def test_a_checkpoint_flushes_prepares_and_snapshots_in_this_order(storage):
    bench = Bench(storage)
    bench.task.poll()
    STORY.clear()
    bench.task.handle_command(TriggerCheckpoint(4))

    assert STORY == [
        ("snapshot reader", 4),
        ("flush", False),
        ("prepare", 4, False),
        ("snapshot writer", 4),
    ]
    ((job, checkpoint, subtask, rows),) = bench.committables()
    assert (job, checkpoint, subtask, rows) == ("nightly", 4, 0, [1])


def test_readers_and_writers_are_notified(storage):
    bench = Bench(storage)
    bench.task.handle_command(TriggerCheckpoint(1))
    bench.task.handle_command(TriggerCheckpoint(2))
    bench.task.handle_command(CheckpointAborted(1))
    bench.task.handle_command(CheckpointComplete(2))
    notified = ("reader aborted", "writer aborted", "reader complete", "writer complete")

    assert told(*notified) == [
        ("reader aborted", 1),
        ("writer aborted", 1),
        ("reader complete", 2),
        ("writer complete", 2),
    ]

    STORY.clear()
    bench.task.close()
    bench.task.handle_command(CheckpointComplete(2))
    assert told(*notified) == [], "what is closed is not notified"


def test_the_state_of_a_writer_is_restored_before_it_opens(storage):
    bench = Bench(storage)
    bench.task.poll()
    bench.task.poll()
    bench.task.handle_command(TriggerCheckpoint(1))
    handle = write_snapshot(bench.snapshots[0], storage)["out", 0]
    items = tuple(ItemSource(handle.own, item) for item in handle.own.items)
    STORY.clear()

    Bench(storage, {("out", 0): SubtaskRestore(storage.uri, 128, items=items)})

    assert [entry for entry in STORY if entry[0] in ("restore writer", "open writer")] == [
        ("restore writer", [2]),
        ("open writer",),
    ]


def test_the_last_transaction_of_an_attempt_has_an_id_that_none_before_had(storage):
    """A committer that skips what it has committed by checkpoint id would lose it otherwise."""
    bench = Bench(storage, restored=7)
    bench.source.add_splits([], no_more=True)
    bench.source.reader.poll = lambda limit, now: NEED_SPLITS
    bench.task.poll()

    assert bench.snapshots[-1].final
    assert told("prepare")[-1] == ("prepare", 8, True)


def test_a_reader_that_wakes_the_task_is_not_polled_meanwhile(storage):
    woken = []
    bench = Bench(storage, woken=lambda: woken.append(True))
    while bench.task.poll() == 0:
        pass

    assert bench.task.poll() == 1000
    dict(told("reader"))["reader"].wake()
    assert woken == [True]
    assert Bench(storage).source.poll(1, 0) == 0, "without anything to wake, the task polls"
