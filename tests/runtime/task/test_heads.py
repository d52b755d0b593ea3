"""The checkpoints of a head of a loop, and the markers of a loop, in one task."""

import pytest

from funken.checkpoint.machine import Stop
from funken.ids import Millis
from funken.runtime.messages import CheckpointAborted, Savepoint, TriggerCheckpoint
from funken.runtime.task.checkpoint_machine import (
    AddChannelState,
    BarrierProcessed,
    BarrierReceived,
    BarrierRecorded,
    ChannelEnded,
    LoopEnded,
    LoopEnding,
    ReleaseChannels,
    SealSnapshot,
    SnapshotTaken,
    TakeSnapshot,
    TaskCheckpointMachine,
)

HEAD = 3
IN, BACK, MORE = (0, 0), (4, 0), (4, 1)


@pytest.fixture
def machine():
    made = TaskCheckpointMachine({HEAD: [IN]}, feedback={HEAD: ([BACK, MORE], True)})
    yield made
    made.validate()


def tell(machine, event):
    return machine.handle(event, Millis(0))


def taken(checkpoint, savepoint=None):
    return TakeSnapshot(HEAD, checkpoint, savepoint, None, Millis(0), logged=frozenset({BACK, MORE}))


def test_a_head_takes_its_snapshot_by_its_inputs_and_logs_until_the_barrier_is_back(machine):
    assert tell(machine, BarrierProcessed(HEAD, IN, 1)) == [taken(1)]
    assert tell(machine, SnapshotTaken(HEAD, 1)) == [ReleaseChannels(HEAD)]
    assert machine.recording[HEAD].waiting == {BACK, MORE}
    assert not machine.awaits_barriers, "nothing has to be received for it at once"
    assert tell(machine, BarrierRecorded(HEAD, MORE, 1)) == []
    assert tell(machine, BarrierRecorded(HEAD, BACK, 1)) == [AddChannelState(HEAD, 1), SealSnapshot(1, None, ())]


def test_a_barrier_that_comes_back_late_is_of_no_log(machine):
    tell(machine, BarrierProcessed(HEAD, IN, 1))
    tell(machine, SnapshotTaken(HEAD, 1))
    tell(machine, CheckpointAborted(1))
    tell(machine, BarrierProcessed(HEAD, IN, 2))
    tell(machine, SnapshotTaken(HEAD, 2))
    for channel in (BACK, MORE):
        assert tell(machine, BarrierRecorded(HEAD, channel, 1)) == []
    tell(machine, BarrierRecorded(HEAD, BACK, 2))
    assert tell(machine, BarrierRecorded(HEAD, MORE, 2))[0] == AddChannelState(HEAD, 2)


def test_a_root_is_triggered_when_its_inputs_have_ended(machine):
    assert tell(machine, TriggerCheckpoint(1)) == [], "the barrier comes by its inputs"
    assert tell(machine, ChannelEnded(HEAD, IN)) == [taken(1)], "or would have"
    tell(machine, SnapshotTaken(HEAD, 1))
    for channel in (BACK, MORE):
        tell(machine, BarrierRecorded(HEAD, channel, 1))
    assert tell(machine, TriggerCheckpoint(2)) == [taken(2)]
    tell(machine, SnapshotTaken(HEAD, 2))


def test_a_trigger_that_was_aborted_has_no_effect(machine):
    tell(machine, TriggerCheckpoint(1))
    tell(machine, CheckpointAborted(1))
    assert tell(machine, ChannelEnded(HEAD, IN)) == []


def test_a_barrier_that_came_by_the_inputs_is_not_taken_twice(machine):
    tell(machine, TriggerCheckpoint(1))
    assert tell(machine, BarrierProcessed(HEAD, IN, 1)) == [taken(1)]
    tell(machine, SnapshotTaken(HEAD, 1))
    assert tell(machine, ChannelEnded(HEAD, IN)) == []


def test_a_head_that_has_sent_its_end_takes_no_snapshot_and_ends_when_all_is_back(machine):
    tell(machine, ChannelEnded(HEAD, IN))
    tell(machine, LoopEnding(HEAD))
    assert tell(machine, TriggerCheckpoint(1)) == []
    assert not machine.subtasks[HEAD].ended
    tell(machine, LoopEnded(HEAD))
    assert machine.subtasks[HEAD].ended


def test_a_stopped_head_holds_back_what_comes_back_until_the_savepoint_is_aborted(machine):
    savepoint = Savepoint("somewhere", Stop.SUSPEND)
    machine.savepoints[1] = savepoint
    assert tell(machine, BarrierProcessed(HEAD, IN, 1)) == [taken(1, savepoint)]
    tell(machine, SnapshotTaken(HEAD, 1))
    assert machine.subtasks[HEAD].blocked == {BACK, MORE}
    machine.validate()
    assert ReleaseChannels(HEAD) in tell(machine, CheckpointAborted(1))
    assert machine.subtasks[HEAD].blocked == set()


def test_barriers_may_overtake_at_a_head_too():
    machine = TaskCheckpointMachine({HEAD: [IN, (0, 1)]}, unaligned_after=0, feedback={HEAD: ([BACK], True)})
    (command,) = tell(machine, BarrierReceived(HEAD, IN, 1, unaligned=True))
    assert command.overtaken == {IN, (0, 1)} and command.logged == {BACK}
    assert machine.recording[HEAD].waiting == {IN, (0, 1), BACK}
    tell(machine, SnapshotTaken(HEAD, 1))
    assert machine.awaits_barriers
    for channel in (IN, (0, 1)):
        tell(machine, BarrierRecorded(HEAD, channel, 1))
    assert not machine.awaits_barriers
    assert tell(machine, BarrierRecorded(HEAD, BACK, 1))[0] == AddChannelState(HEAD, 1)
    machine.validate()


def test_a_barrier_that_is_back_before_the_snapshot_blocks_its_channel_and_ends_its_log(machine):
    """Another subtask of the head has taken its snapshot, and sent the barrier round, sooner."""
    assert tell(machine, BarrierProcessed(HEAD, BACK, 1)) == []
    assert machine.subtasks[HEAD].blocked == {BACK}
    (command,) = tell(machine, BarrierProcessed(HEAD, IN, 1))
    assert command.logged == {MORE}
    assert tell(machine, SnapshotTaken(HEAD, 1)) == [ReleaseChannels(HEAD)]
    assert machine.subtasks[HEAD].blocked == set() and machine.recording[HEAD].waiting == {MORE}
    assert tell(machine, BarrierRecorded(HEAD, MORE, 1))[0] == AddChannelState(HEAD, 1)


def test_with_all_barriers_back_before_the_snapshot_nothing_is_logged(machine):
    for channel in (BACK, MORE):
        tell(machine, BarrierProcessed(HEAD, channel, 1))
    (command,) = tell(machine, BarrierProcessed(HEAD, IN, 1))
    assert command.logged == frozenset()
    assert tell(machine, SnapshotTaken(HEAD, 1)) == [SealSnapshot(1, None, ()), ReleaseChannels(HEAD)]


def test_a_channel_that_is_early_is_free_when_the_checkpoint_is_aborted(machine):
    tell(machine, BarrierProcessed(HEAD, BACK, 1))
    assert ReleaseChannels(HEAD) in tell(machine, CheckpointAborted(1))
    assert machine.subtasks[HEAD].blocked == set()
    tell(machine, BarrierProcessed(HEAD, MORE, 1))
    assert machine.subtasks[HEAD].blocked == set(), "nobody waits for that barrier"


def test_a_channel_that_is_early_for_the_next_checkpoint_stays_blocked(machine):
    """The barrier of the first one was aborted upstream, and comes from the inputs all the same."""
    tell(machine, BarrierProcessed(HEAD, BACK, 2))
    tell(machine, BarrierProcessed(HEAD, IN, 1))
    tell(machine, SnapshotTaken(HEAD, 1))
    assert machine.subtasks[HEAD].blocked == {BACK}
    assert machine.recording[HEAD].void, "its barrier cannot come back there any more"
    tell(machine, CheckpointAborted(1))
    assert tell(machine, BarrierProcessed(HEAD, IN, 2))[0].logged == {MORE}
    tell(machine, SnapshotTaken(HEAD, 2))
    assert machine.subtasks[HEAD].blocked == set()


def test_a_head_that_has_sent_its_end_is_not_blocked(machine):
    tell(machine, ChannelEnded(HEAD, IN))
    tell(machine, LoopEnding(HEAD))
    tell(machine, BarrierProcessed(HEAD, BACK, 1))
    assert machine.subtasks[HEAD].blocked == set()
