"""A task whose subtasks have ended, and that still relays blocks of others, takes part in checkpoints."""

import time

import pytest

from funken import DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.ids import Millis
from funken.runtime.messages import CheckpointAborted, Savepoint
from funken.runtime.task.checkpoint_machine import (
    BarrierProcessed,
    BarrierRelayed,
    ChannelEnded,
    SealSnapshot,
    SnapshotTaken,
    TaskCheckpointMachine,
)

VERTEX, CHANNEL = 3, (0, 0)


@pytest.fixture
def machine():
    made = TaskCheckpointMachine({VERTEX: [CHANNEL]})
    yield made
    made.validate()


def tell(machine, event):
    return machine.handle(event, Millis(0))


def test_a_barrier_that_passes_seals_the_checkpoint_once(machine):
    tell(machine, ChannelEnded(VERTEX, CHANNEL))
    assert tell(machine, BarrierRelayed(1)) == [SealSnapshot(1, None, (VERTEX,))]
    assert tell(machine, BarrierRelayed(1)) == [], "it came on another channel"
    savepoint = Savepoint("somewhere")
    assert tell(machine, BarrierRelayed(2, savepoint)) == [SealSnapshot(2, savepoint, (VERTEX,))]


def test_a_subtask_that_ends_behind_it_seals_it_then(machine):
    assert tell(machine, BarrierRelayed(1)) == []
    assert tell(machine, ChannelEnded(VERTEX, CHANNEL)) == [SealSnapshot(1, None, (VERTEX,))]


def test_a_subtask_that_runs_has_its_own_barrier(machine):
    assert tell(machine, BarrierRelayed(1)) == []
    tell(machine, BarrierProcessed(VERTEX, CHANNEL, 1))
    assert SealSnapshot(1, None, ()) in tell(machine, SnapshotTaken(VERTEX, 1))
    assert tell(machine, BarrierRelayed(1)) == []
    assert tell(machine, ChannelEnded(VERTEX, CHANNEL)) == []


def test_one_that_was_aborted_is_forgotten(machine):
    tell(machine, BarrierRelayed(1))
    tell(machine, CheckpointAborted(1))
    assert tell(machine, ChannelEnded(VERTEX, CHANNEL)) == []


def test_checkpoints_go_on_when_a_source_has_ended_whose_tasks_relay_for_another(tmp_path):
    env = StreamExecutionEnvironment.create_local_environment(1)
    for key, value in {"interval": "10 ms", "dir": str(tmp_path / "checkpoints")}.items():
        env.get_configuration().set(f"execution.checkpointing.{key}", value)
    few = env.from_collection([1, 2]).rebalance().map(abs).rebalance()
    endless = env.from_source(DataGeneratorSource(int, None, 100), WatermarkStrategy.no_watermarks(), "endless")
    few.union(endless.rebalance()).map(abs).for_each(lambda n: None)
    client = env.execute_async("relayed")
    end = time.monotonic() + 60
    while client.snapshot().checkpoints.completed < 3 and time.monotonic() < end:
        time.sleep(0.01)
    completed = client.snapshot().checkpoints.completed
    savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(timeout=60)
    assert completed >= 3 and savepoint
