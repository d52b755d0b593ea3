"""The history of checkpoints, driven by the coordinator's machine itself."""

from dataclasses import replace

import pytest

from funken.checkpoint.machine import (
    Acknowledged,
    AttemptFailed,
    AttemptStarted,
    CheckpointMachine,
    Committed,
    Declined,
    JobStopped,
    Outcome,
    Policy,
    Stored,
    TaskFinished,
    Tick,
    TriggerRequested,
)
from funken.checkpoint.store.blobs import Blob, SubtaskHandle
from funken.runtime.job.snapshot import CheckpointHistory
from funken.runtime.messages import SubtaskCheckpoint, TaskId
from funken.testing import local

READER, PRINTER = TASKS = (TaskId(0, 0), TaskId(1, 0))
TIMES = {
    TaskId(0, 0): {0: SubtaskCheckpoint(1010, 0.0, 1.5, 7.0)},
    TaskId(1, 0): {1: SubtaskCheckpoint(1025, 4.0, 2.0, 9.0, True)},
}


class Timeline:
    def __init__(self, kept=50, **policy):
        stream = local([1], parallelism=1).uid("reader").rebalance().map(lambda n: n).uid("map")
        stream.for_each(lambda n: None).uid("sink")
        plan = stream.get_execution_environment().compile("numbers")
        self.machine = CheckpointMachine(Policy(**{"interval": 100, "tolerable_failures": 9} | policy))
        self.now = 0
        self.history = CheckpointHistory(plan, "/job", lambda: 1000 + self.now, kept)
        self.tell(AttemptStarted(1, TASKS, (READER,)))

    def tell(self, *events):
        for event in events:
            commands = self.machine.handle(event, self.now)
            self.history.observe(self.machine, event, commands)
        return self.history.snapshot()

    def at(self, now):
        self.now = now
        return self.tell(Tick())

    def ack(self, checkpoint, *tasks):
        for task in tasks:
            names = {0: ["reader"], 1: ["map", "sink"]}[task.stage]
            handle = SubtaskHandle(own=Blob("f", 10, ""))
            self.history.timed(task, checkpoint, TIMES[task])
            self.tell(Acknowledged(1, task, checkpoint, {(name, 0): handle for name in names}))
        return self.history.snapshot()


def test_a_checkpoint_is_in_progress_until_it_is_stored():
    life = Timeline()
    seen = life.at(100)
    assert (seen.in_progress, seen.completed) == (1, 0)
    assert [(each.id, each.status, each.acknowledged, each.tasks) for each in seen.history] == [
        (1, "IN_PROGRESS", 0, 2)
    ]

    life.now = 130
    assert life.ack(1, READER).history[0].acknowledged == 1
    life.ack(1, PRINTER)
    life.now = 150
    seen = life.tell(Stored(1), Committed(1))

    assert (seen.in_progress, seen.completed, seen.failed) == (0, 1, 0)
    newest = seen.latest_completed
    assert (newest.status, newest.triggered, newest.latest_ack, newest.duration) == ("COMPLETED", 1100, 1130, 50)
    assert newest.path == "/job/chk-1"


def test_a_checkpoint_is_held_up_by_those_before_whom_all_have_acknowledged():
    life = Timeline()
    assert life.at(100).history[0].held_up_by == ((0, 0),)  # the barrier has not reached the printer
    assert life.ack(1, READER).history[0].held_up_by == ((1, 0),)
    failed = life.tell(Declined(1, PRINTER, 1, "the disk is full")).history[0]
    assert (failed.status, failed.held_up_by) == ("FAILED", ((1, 0),))


def test_a_checkpoint_that_is_complete_is_held_up_by_nobody():
    life = Timeline()
    life.at(100)
    life.ack(1, READER, PRINTER)
    assert life.tell(Stored(1), Committed(1)).latest_completed.held_up_by == ()


def test_each_subtask_has_its_times_and_the_size_of_its_operators():
    life = Timeline()
    life.now = 5
    life.at(100)
    life.history._open[1].triggered = 1005
    reader, mapper = life.ack(1, READER, PRINTER).history[0].subtasks

    assert (reader.vertex, reader.start_delay, reader.sync_duration, reader.async_duration) == (0, 5, 1.5, 7.0)
    assert (mapper.vertex, mapper.start_delay, mapper.alignment, mapper.unaligned) == (1, 20, 4.0, True)
    assert (reader.size, mapper.size) == (10, 20)


def test_a_checkpoint_that_is_declined_has_failed_with_the_reason():
    life = Timeline()
    life.at(100)
    seen = life.tell(Declined(1, PRINTER, 1, "the disk is full"))

    assert (seen.in_progress, seen.failed) == (0, 1)
    assert "the disk is full" in seen.latest_failed.failure and seen.latest_completed is None


def test_one_that_takes_too_long_names_who_did_not_answer():
    life = Timeline(timeout=50)
    life.at(100)
    life.ack(1, READER)
    life.now = 151
    failed = life.at(151).latest_failed

    assert failed.acknowledged == 1 and "stage 1, task 0" in failed.failure


def test_the_end_of_the_attempt_ends_what_is_under_way():
    life = Timeline()
    life.at(100)
    seen = life.tell(AttemptFailed(1, "a worker was lost"))

    assert seen.in_progress == 0 and "a worker was lost" in seen.latest_failed.failure


def test_the_end_of_the_job_leaves_the_one_that_is_being_stored():
    life = Timeline()
    life.at(100)
    life.ack(1, READER, PRINTER)
    assert life.tell(JobStopped(Outcome.CANCELLED)).in_progress == 1

    assert life.tell(Stored(1)).completed == 1


def test_a_task_that_has_finished_takes_part_without_times():
    life = Timeline()
    life.tell(TaskFinished(1, READER, {("reader", 0): SubtaskHandle(own=Blob("f", 3, ""))}))
    life.tell(TriggerRequested("me", target="/mine"))
    seen = life.ack(1, PRINTER)

    assert [(part.vertex, part.size, part.sync_duration) for part in seen.history[0].subtasks] == [
        (0, 3, 0),
        (1, 20, 2),
    ]
    assert seen.history[0].acknowledged == 2 and seen.history[0].path == "/mine"


def test_the_history_is_bounded_and_the_counts_are_not():
    life = Timeline(kept=3)
    for number in range(1, 8):
        life.at(100 * number)
        life.ack(number, READER, PRINTER)
        seen = life.tell(Stored(number), Committed(number))

    assert [each.id for each in seen.history] == [7, 6, 5]
    assert seen.completed == 7
    assert life.history._times == {}
    assert replace(seen) == seen


def completed(life, *numbers):
    for number in numbers:
        life.at(100 * number)
        life.ack(number, READER, PRINTER)
        life.tell(Stored(number), Committed(number))


def discarded(seen):
    return [each.id for each in seen.history if each.discarded]


def test_checkpoints_that_retention_deletes_are_discarded():
    life = Timeline(retained=2)
    completed(life, 1, 2, 3)

    seen = life.history.snapshot()
    assert discarded(seen) == [1]
    assert not seen.latest_completed.discarded


@pytest.mark.parametrize(
    ("kept_after", "outcome", "left"),
    [
        (frozenset(), Outcome.FINISHED, [2, 1]),
        (frozenset(), Outcome.FAILED, [2, 1]),
        (frozenset({Outcome.FAILED}), Outcome.CANCELLED, [2, 1]),
        (frozenset({Outcome.FAILED}), Outcome.FAILED, [1]),
        (frozenset(Outcome), Outcome.SUSPENDED, [1]),
    ],
)
def test_what_the_end_of_a_job_deletes_is_discarded(kept_after, outcome, left):
    life = Timeline(retained=1, kept_after=kept_after)
    completed(life, 1, 2)
    seen = life.tell(JobStopped(outcome))

    assert discarded(seen) == left
    assert seen.latest_completed.discarded == (2 in left)


def test_a_failed_checkpoint_is_discarded_and_a_savepoint_never():
    life = Timeline(retained=1, kept_after=frozenset())
    life.tell(TriggerRequested("me", target="/savepoints/a"))
    life.ack(1, READER, PRINTER)
    life.tell(Stored(1))
    life.at(100)
    life.tell(Declined(1, READER, 2, "no"))
    completed(life, 3)
    life.tell(JobStopped(Outcome.CANCELLED))
    life.history.folder_removed()

    seen = life.history.snapshot()
    assert [(each.kind, each.status, each.discarded) for each in seen.history] == [
        ("checkpoint", "COMPLETED", True),
        ("checkpoint", "FAILED", True),
        ("savepoint", "COMPLETED", False),
    ]
    assert seen.latest_failed.discarded
    assert not seen.latest_savepoint.discarded
