"""What a task has snapshotted for one checkpoint, and how it is written and acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace

from funken.checkpoint.snapshot.incremental import IncrementalSnapshots, OperatorSnapshot
from funken.checkpoint.store.handles import StopHandles, SubtaskHandle, TaskHandles
from funken.dataclass import dataclass
from funken.errors import JobExecutionError, StorageFailed
from funken.ids import CheckpointId
from funken.io.storage import Storage, open_storage
from funken.runtime.messages import (
    CheckpointAcknowledged,
    CheckpointDeclined,
    Savepoint,
    SubtaskCheckpoint,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskId,
)
from funken.runtime.settings import OperatorSubtaskId
from funken.timing.clock import Clock


@dataclass(frozen=True)
class TaskStateSnapshot:
    """What a task has snapshotted for a checkpoint or savepoint; ``final``: it has ended, and this is its last one.

    ``finished`` are those whose subtask had ended before its barrier could arrive: they do not run again. ``times`` are those of
    the subtasks, by vertex, and ``taken`` is when (monotonic, s) the last of them was snapshotted.
    """

    checkpoint: CheckpointId
    snapshots: Mapping[OperatorSubtaskId, tuple[IncrementalSnapshots, OperatorSnapshot]]
    final: bool = False
    savepoint: Savepoint | None = None
    finished: frozenset[OperatorSubtaskId] = frozenset()
    times: Mapping[int, SubtaskCheckpoint] = field(default_factory=dict)
    taken: float = 0.0

    @property
    def open(self) -> frozenset[OperatorSubtaskId]:
        """The operators whose state is not materialized yet."""
        return frozenset(place for place, (_, snapshot) in self.snapshots.items() if not snapshot.materialized)


def write_snapshot(
    snapshots: TaskStateSnapshot, storage: Storage, storage_at: Callable[[str], Storage] = open_storage
) -> TaskHandles | StopHandles:
    """Write a snapshot; raises ``StorageFailed``, and then its changes are part of the next write."""

    def marked(handles: Iterable[tuple[OperatorSubtaskId, SubtaskHandle]]) -> TaskHandles:
        return {place: replace(handle, finished=place in snapshots.finished) for place, handle in handles}

    target = None if snapshots.savepoint is None else storage_at(snapshots.savepoint.target)
    if target is None or snapshots.savepoint is None or snapshots.savepoint.stop is None:
        return marked(
            (place, incremental.write(snapshot, storage, target))
            for place, (incremental, snapshot) in snapshots.snapshots.items()
        )
    both = [
        (place, *incremental.write_both(snapshot, storage, target))
        for place, (incremental, snapshot) in snapshots.snapshots.items()
    ]
    return StopHandles(marked((at, handle) for at, handle, _ in both), marked((at, handle) for at, _, handle in both))


def acknowledgement_of(
    task: TaskId, attempt: int, snapshot: TaskStateSnapshot, storage: Storage, clock: Clock | None = None
) -> TaskEvent:
    """Write a snapshot and return its acknowledgement; the coordinator counts attempts from 1."""
    attempt += 1
    try:
        handles = write_snapshot(snapshot, storage)
    except StorageFailed as error:
        if snapshot.final:
            return TaskFailed(task, error=JobExecutionError(f"the final state of {task} cannot be saved: {error}"))
        return CheckpointDeclined(task, attempt=attempt, checkpoint=snapshot.checkpoint, reason=str(error))
    if snapshot.final and not isinstance(handles, StopHandles):
        return TaskEnded(task, attempt=attempt, handles=handles)
    written = 0.0 if clock is None else (clock.monotonic() - snapshot.taken) * 1000
    times = {vertex: found._replace(written=written) for vertex, found in snapshot.times.items()}
    return CheckpointAcknowledged(
        task, attempt=attempt, checkpoint=snapshot.checkpoint, handles=handles, subtasks=times
    )
