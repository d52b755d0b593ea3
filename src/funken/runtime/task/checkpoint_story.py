"""What a task's checkpoint machine tells of itself: what it waits for, its newest events, and its invariants, for tests."""

from __future__ import annotations

from collections import deque

from funken.ids import Millis
from funken.runtime.settings import OperatorSubtaskId
from funken.runtime.task.barriers import Recording, SubtaskBarriers
from funken.runtime.task.checkpoint_events import CheckpointAction, CheckpointEvent

_LINES = 200


class InspectedMachine:
    """The part of ``TaskCheckpointMachine`` that only reads."""

    subtasks: dict[int, SubtaskBarriers]
    unaligned_after: int | None
    recording: dict[int, Recording]
    snapshotted: dict[int, set[int]]
    sealed: dict[int, set[OperatorSubtaskId]]
    stopped: dict[int, int]
    aborted: set[int]
    newest: int

    def __init__(self) -> None:
        self._log: deque[tuple[Millis, CheckpointEvent, list[CheckpointAction]]] = deque(maxlen=_LINES)

    @property
    def deadline(self) -> Millis | None:
        """When the first alignment takes too long (ms), ``None`` if none is under way that may become unaligned."""
        if not self.unaligned_after:
            return None
        after = self.unaligned_after
        due = [Millis(each.since + after) for each in self.subtasks.values() if each.announced and not each.unaligned]
        return min(due, default=None)

    @property
    def awaits_barriers(self) -> bool:
        """Whether an unaligned checkpoint waits for barriers."""
        overtaken = any(each.waiting - self.subtasks[vertex].feedback for vertex, each in self.recording.items())
        return overtaken or (self.unaligned_after is not None and self.aligning)

    @property
    def aligning(self) -> bool:
        """Whether some subtask has some barriers of a checkpoint, and not all."""
        return any(each.aligning is not None or each.counts for each in self.subtasks.values())

    def story(self) -> str:
        """Return the newest events and what was commanded, a line each.

        >>> from funken.runtime.task.checkpoint_machine import TaskCheckpointMachine, TriggerCheckpoint
        >>> machine = TaskCheckpointMachine({7: []})
        >>> _ = machine.handle(TriggerCheckpoint(1), Millis(5))
        >>> print(machine.story())
                   5 ms  TriggerCheckpoint(checkpoint=1, savepoint=None)
                            -> TakeSnapshot(vertex=7, checkpoint=1, savepoint=None, overtaken=None, since=5)
        """
        lines = []
        for now, event, commands in self._log:
            lines.append(f"{now:12} ms  {event}")
            lines += [f"{'':21}-> {command}" for command in commands]
        return "\n".join(lines)

    def validate(self) -> None:
        """Assert the invariants; for tests and the simulation."""
        for each in self.subtasks.values():
            each.validate()
            assert each.aligning is None or each.aligning not in self.aborted, f"{each} aligns what was aborted"
            assert self.aborted.isdisjoint(each.counts), f"{each} counts for what was aborted"
            assert not each.announced or self.unaligned_after is not None, f"{each} may not overtake"
        for vertex, recording in self.recording.items():
            assert recording.waiting or not recording.taken, f"vertex {vertex} has recorded all of {recording}"
            assert recording.waiting.isdisjoint(self.subtasks[vertex].aligned_only)
            assert recording.checkpoint <= self.subtasks[vertex].newest
            assert vertex not in self.snapshotted.get(recording.checkpoint, ())
        for checkpoint, done in self.snapshotted.items():
            assert checkpoint > self.newest, f"{checkpoint} is kept although {self.newest} was sealed"
            assert done and any(not self.subtasks[v].ended for v in self.subtasks.keys() - done)
        assert list(self.sealed) == sorted(self.sealed), "sealed out of order"
        assert all(by not in self.aborted for by in self.stopped.values())
        assert next(iter(self.sealed.values()), {None}), "materialized, and not delivered"
