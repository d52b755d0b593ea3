"""A task's part in a checkpoint, from the trigger or the first barrier until all its subtasks are snapshotted, or it is aborted.

Each subtask takes its snapshot when its barrier passes; all snapshots are delivered once every subtask has taken one or
has ended, and all of them are materialized. An unaligned barrier has its subtask snapshotted at once, but the snapshot
counts only when its channel state is complete (``record``, ``complete_recorded``). The barriers of a savepoint carry
its target, and a subtask that is snapshotted for one that stops the job is *stopped* from then on, unless it is
aborted. Without checkpoints no barrier arrives, and nothing happens.

It does not attribute failures: the task calls it where an exception is attributed to the operator that raised it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial

from funken.checkpoint.events import Stop
from funken.ids import MAX_WATERMARK, CheckpointId
from funken.operators.base import Timestamps, Values
from funken.plan.physical import PhysicalPlan
from funken.runtime.exchange.wire import BlockHeader, ChannelId
from funken.runtime.messages import Savepoint, SubtaskCheckpoint
from funken.runtime.settings import CheckpointPlan
from funken.runtime.snapshot.channel_state import UNALIGNED, ChannelStateWriter
from funken.runtime.snapshot.materializer import Materializer
from funken.runtime.snapshot.state_manager import TaskStateManager
from funken.runtime.snapshot.task_state import TaskStateSnapshot
from funken.runtime.task.builder import Subtask, TaskBuilder, restore_channel_state

QueuedBlock = tuple[Subtask, BlockHeader, Values, Timestamps]
"""A block, or a part of one, that is queued for its subtask."""


class TaskCheckpoints:
    """The checkpoints of one task; ``work`` are its queued blocks, ``over`` returns whether a subtask has ended."""

    def __init__(
        self, plan: PhysicalPlan, checkpoints: CheckpointPlan | None, subtask: int, builder: TaskBuilder,
        work: Iterable[QueuedBlock], over: Callable[[Subtask], bool], now: Callable[[], int], monotonic: Callable[[], float],
        deliver: Callable[[TaskStateSnapshot], None] | None,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._subtasks = builder.subtasks
        self._names = builder.names
        self._savepoints = builder.savepoints
        self._work = work
        self._has_finished = over
        self.materializer = Materializer()
        """Materializes and delivers the snapshots."""
        self._state_manager: TaskStateManager | None = None
        if checkpoints is not None:
            self.materializer = Materializer(deliver, monotonic, checkpoints.options.materialize_rows)
            self._state_manager = TaskStateManager(checkpoints, plan.stable_ids, subtask, self.materializer)
        self.unaligned_after = None if checkpoints is None else checkpoints.unaligned_after
        """After how many ms of alignment a barrier becomes unaligned (0: at once), ``None``: never."""
        self.snapshotted: dict[int, set[int]] = {}
        """The subtasks that have taken their snapshot, by checkpoint, while others have not."""
        self.recording: list[Subtask] = []
        """Subtasks whose channel state is being written."""
        self.stopped: dict[int, int] = {}
        """Subtasks that process nothing any more, by the checkpoint: the savepoint that the job is stopped with."""
        self._now, self._monotonic = now, monotonic
        #: when (wall clock, ms; monotonic, s) the first barrier of its newest alignment came to a subtask
        self._aligning: dict[int, tuple[int, float]] = {}
        #: the times of the subtasks that have taken their snapshot, by checkpoint
        self._times: dict[int, dict[int, SubtaskCheckpoint]] = {}
        for hosted in self._subtasks.values():
            if self._state_manager is not None:
                if hosted.gate is not None:
                    hosted.gate.on_alignment = partial(self._begin_alignment, hosted.vertex.id)
                hosted.chain.snapshot = partial(self._snapshot, self._state_manager, hosted)
            if self.unaligned_after is not None and hosted.gate is not None:
                aligned_only, overtake = builder.aligned_only(hosted.vertex), partial(self._begin_unaligned, hosted)
                hosted.gate.enable_unaligned(aligned_only, overtake, now, self.unaligned_after)

    # ---- at the start

    def restore(self) -> None:
        """Restore every operator; before they are opened."""
        for subtask in self._subtasks.values():
            if self._state_manager is not None:
                watermark = self._state_manager.restore(subtask.chain)
                if watermark is not None and subtask.gate is not None:
                    subtask.gate.combined = watermark

    def restore_channel_state(self, take: Callable[[Subtask, BlockHeader, Values, Timestamps], None]) -> None:
        """Restore the channel state; once all operators are open."""
        if self._state_manager is not None:
            for subtask in self._subtasks.values():
                restore_channel_state(
                    subtask, self._plan, self._names, self._state_manager.take_channel_state(subtask.chain), take
                )

    # ---- barriers

    @property
    def awaits_barriers(self) -> bool:
        """Whether an unaligned checkpoint waits for barriers."""
        return bool(self.recording) or (
            self.unaligned_after is not None
            and any(subtask.gate is not None and subtask.gate.aligning for subtask in self._subtasks.values())
        )

    def trigger(self, checkpoint: int, savepoint: Savepoint | None, sources: Iterable[Subtask]) -> None:
        """Begin a checkpoint at the sources: each takes its snapshot and emits a barrier."""
        if savepoint is not None:
            self._savepoints[checkpoint] = savepoint
        for subtask in sources:
            if savepoint is not None and savepoint.stop is Stop.DRAIN:
                subtask.chain.watermark(MAX_WATERMARK)
            if savepoint is None and self.unaligned_after == 0:
                self._begin_unaligned(subtask, checkpoint, ())
            subtask.chain.barrier(checkpoint)
        self.complete_recorded()

    def read_barrier(self, checkpoint: int, details: bytes) -> bool:
        """Read what a barrier carries besides its number; return whether it is unaligned."""
        if details == UNALIGNED:
            return True
        if details:
            self._savepoints[checkpoint] = pickle.loads(details)
        return False

    def announce(self, subtask: Subtask, head: BlockHeader, unaligned: bool) -> None:
        """A barrier was received; records before it may still be queued."""
        if self.unaligned_after is not None and head.number not in self._savepoints:
            assert subtask.gate is not None
            subtask.gate.announce((head.edge, head.upstream), head.number, unaligned)
            self.complete_recorded()

    def record(self, subtask: Subtask, head: BlockHeader, values: Values, timestamps: Timestamps) -> None:
        """A block was received while channel state is written: record it if a barrier has overtaken it."""
        if subtask.state_writer is not None:
            subtask.state_writer.take(head, values, timestamps)
            self.complete_recorded()

    def complete_recorded(self) -> None:
        """Complete the snapshots of subtasks whose channel state is complete."""
        for subtask in [each for each in self.recording if each.state_writer and not each.state_writer.waiting]:
            self.recording.remove(subtask)
            state_writer = subtask.state_writer
            assert state_writer is not None and self._state_manager is not None
            if not state_writer.void and self._state_manager.add_channel_state(
                subtask.chain,
                CheckpointId(state_writer.checkpoint),
                state_writer.by_operator(self._plan.edges, self._names),
            ):
                self.snapshotted.setdefault(state_writer.checkpoint, set()).add(subtask.vertex.id)
                self.deliver_if_complete()

    def _begin_unaligned(self, subtask: Subtask, checkpoint: int, waiting: Collection[ChannelId]) -> None:
        """A subtask takes its snapshot before the barriers of these channels were processed, or even received."""
        state_writer = subtask.state_writer = ChannelStateWriter(checkpoint, waiting)
        for other, head, values, timestamps in self._work if waiting else ():
            if other is subtask:
                state_writer.take(head, values, timestamps)
        if subtask not in self.recording:
            self.recording.append(subtask)

    # ---- snapshots

    def _snapshot(self, snapshots: TaskStateManager, subtask: Subtask, checkpoint: int) -> None:
        savepoint = self._savepoints.get(checkpoint)
        if savepoint is not None and savepoint.stop is not None:
            if savepoint.stop is Stop.DRAIN:
                subtask.chain.drain(subtask.gate.inputs if subtask.gate else 0)
            self.stopped[subtask.vertex.id] = checkpoint
        begin = self._monotonic()
        came, aligning = self._aligning.pop(subtask.vertex.id, (self._now(), begin))
        snapshots.snapshot(subtask.chain, CheckpointId(checkpoint))
        self._times.setdefault(checkpoint, {})[subtask.vertex.id] = SubtaskCheckpoint(
            came,
            (begin - aligning) * 1000,
            (self._monotonic() - begin) * 1000,
            unaligned=subtask.state_writer is not None and subtask.state_writer.checkpoint == checkpoint,
        )
        if (
            subtask.state_writer is None or subtask.state_writer.checkpoint != checkpoint
        ):  # else its channel state is not complete
            self.snapshotted.setdefault(checkpoint, set()).add(subtask.vertex.id)
            self.deliver_if_complete()

    def _begin_alignment(self, vertex: int, checkpoint: int) -> None:
        self._aligning[vertex] = self._now(), self._monotonic()

    def deliver_if_complete(self) -> None:
        """Deliver the checkpoints of which every subtask has its snapshot; one that has ended is snapshotted now."""
        for checkpoint, done in sorted(self.snapshotted.items()):
            missing = [subtask for number, subtask in self._subtasks.items() if number not in done]
            if all(self._has_finished(subtask) for subtask in missing):
                assert self._state_manager is not None
                for subtask in missing:
                    self._state_manager.snapshot(subtask.chain, CheckpointId(checkpoint), ended=True)
                for older in [number for number in self.snapshotted if number <= checkpoint]:
                    del self.snapshotted[older]
                savepoint = self._savepoints.get(checkpoint)
                for older in [number for number in self._savepoints if number < checkpoint]:
                    del self._savepoints[older]  # this one is still needed: its barrier has not been emitted
                times = self._times.pop(checkpoint, {})
                self._times = {later: found for later, found in self._times.items() if later > checkpoint}
                taken = self._state_manager.take(CheckpointId(checkpoint), savepoint)
                self.materializer.deliver(replace(taken, times=times, taken=self._monotonic()))

    def materialize(self, worked: bool) -> None:
        """Materialize one step; ``worked``: after records."""
        if self.materializer.open:
            self.materializer.worked |= worked
            self.materializer.step()

    def notify_complete(self, checkpoint: int) -> None:
        """A checkpoint is complete: what sinks prepared for it is committed."""
        if self._state_manager is not None:
            self._state_manager.notify_complete(CheckpointId(checkpoint))

    def abort(self, checkpoint: int) -> None:
        """A checkpoint is aborted: stop waiting for it, and let stopped subtasks continue."""
        self._savepoints.pop(checkpoint, None)
        self._times.pop(checkpoint, None)
        self.stopped = {vertex: by for vertex, by in self.stopped.items() if by != checkpoint}
        self.recording = [
            each for each in self.recording if each.state_writer and each.state_writer.checkpoint != checkpoint
        ]
        if self._state_manager is not None:
            self.snapshotted.pop(checkpoint, None)
            self._state_manager.abort(CheckpointId(checkpoint))
        for subtask in self._subtasks.values():
            if subtask.gate is not None:
                subtask.gate.abort(checkpoint)

    def final_snapshot(self) -> TaskStateSnapshot | None:
        """Take the final snapshot of every subtask, now that all have ended; ``None`` without checkpoints."""
        if self._state_manager is None:
            return None
        self.complete_recorded()  # the end of a channel may complete the channel state
        checkpoint = self._state_manager.last
        for subtask in self._subtasks.values():
            self._state_manager.snapshot(subtask.chain, checkpoint, final=True)
        self.materializer.finish()  # the task has no other work
        return self._state_manager.take(checkpoint, final=True)
