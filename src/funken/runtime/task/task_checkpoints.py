"""A task's part in checkpoints: executes what ``checkpoint_machine.py`` decides.

It turns barriers, ends and the driver's commands into events of the machine, takes and restores the state of the subtasks
(``runtime/snapshot``), sends barriers on, and keeps the records that the machine has recorded. It decides nothing itself.
Commands are executed depth first: a barrier that is sent over an edge within the task is an event of the next subtask before the
first one reports its snapshot. Without checkpoints no barrier arrives, and nothing happens.

It does not attribute failures: the task calls it where an exception is attributed to the operator that raised it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from dataclasses import replace

from funken.checkpoint.machine import Stop
from funken.columnar.block import Block
from funken.ids import MAX_WATERMARK, CheckpointId, Millis
from funken.operators.results import TaskTime
from funken.plan.physical import PhysicalPlan
from funken.runtime.exchange.gate import LoopGate
from funken.runtime.exchange.wire import BlockHeader, BlockKind, ChannelId
from funken.runtime.messages import CheckpointAborted, SubtaskCheckpoint
from funken.runtime.settings import CheckpointPlan
from funken.runtime.task.checkpoint_machine import (
    AddChannelState,
    BarrierProcessed,
    BarrierReceived,
    BarrierRecorded,
    BarrierRelayed,
    ChannelEnded,
    CheckpointEvent,
    DeliverSnapshot,
    DropChannelState,
    DropSnapshot,
    ReleaseChannels,
    SealSnapshot,
    SnapshotSealed,
    SnapshotTaken,
    StateMaterialized,
    TakeSnapshot,
    TaskCheckpointMachine,
)
from funken.runtime.task.state_manager import (
    UNALIGNED,
    ChannelStateWriter,
    Materializer,
    TaskStateManager,
    TaskStateSnapshot,
)
from funken.runtime.task.subtasks import Subtask, TaskBuilder, restore_channel_state
from funken.timing.clock import Clock

QueuedBlock = tuple[Subtask, BlockHeader, Block]
"""A block, or a part of one, that is queued for its subtask."""


class TaskCheckpoints:
    """The checkpoints of one task; ``work`` are its queued blocks."""

    def __init__(
        self, plan: PhysicalPlan, checkpoints: CheckpointPlan | None, subtask: int, builder: TaskBuilder,
        work: Iterable[QueuedBlock], time: TaskTime, clock: Clock, deliver: Callable[[TaskStateSnapshot], None] | None,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._subtasks = builder.subtasks
        self._names = builder.names
        self._work = work
        self._time = time
        self._clock = clock
        self._deliver = deliver
        #: sealed snapshots that are not delivered
        self._sealed: dict[int, TaskStateSnapshot] = {}
        #: the times of the subtasks that have taken their snapshot, by checkpoint
        self._times: dict[int, dict[int, SubtaskCheckpoint]] = {}
        self._state_manager: TaskStateManager | None = None
        self.materializer = Materializer()
        """Materializes the snapshots."""
        align, unaligned_after = True, None
        if checkpoints is not None:
            align, unaligned_after = checkpoints.align, checkpoints.unaligned_after
            self.materializer = Materializer(
                clock.monotonic, checkpoints.options.materialize_rows, lambda place: self.handle(StateMaterialized(place))
            )  # fmt: skip
            self._state_manager = TaskStateManager(checkpoints, plan.stable_ids, subtask, self.materializer)
        channels = {number: tuple(each.gate.channels) if each.gate else () for number, each in self._subtasks.items()}
        aligned_only = [key for each in self._subtasks.values() for key in builder.aligned_only(each.vertex)]
        feedback = {
            number: (each.gate.feedback, each.gate.root)
            for number, each in self._subtasks.items()
            if isinstance(each.gate, LoopGate)
        }
        self.machine = TaskCheckpointMachine(
            channels, aligned_only, align=align, unaligned_after=unaligned_after, feedback=feedback
        )
        """Decides."""
        #: subtasks whose channels are being recorded
        self.recording = self.machine.recording
        for number, hosted in self._subtasks.items():
            if hosted.gate is not None:
                hosted.gate.connect(number, self, self.machine.subtasks[number].blocked)

    # ---- at the start

    def restore(self) -> None:
        """Restore every operator; before they are opened."""
        for subtask in self._subtasks.values():
            if self._state_manager is not None:
                watermark = self._state_manager.restore(subtask.chain)
                if watermark is not None and subtask.gate is not None:
                    subtask.gate.combined = watermark

    def restore_channel_state(self, take: Callable[[Subtask, BlockHeader, Block], None]) -> None:
        """Restore the channel state; once all operators are open."""
        if self._state_manager is not None:
            for subtask in self._subtasks.values():
                restore_channel_state(
                    subtask, self._plan, self._names, self._state_manager.take_channel_state(subtask.chain), take
                )

    # ---- what becomes an event

    def receive_barrier(self, subtask: Subtask | None, head: BlockHeader, details: bytes) -> None:
        """A barrier was received and queued, or relayed (``None``); ``details`` is what it carries besides its number."""
        if self._plan.edges[head.edge].feedback:
            return
        if subtask is None:
            self.handle(BarrierRelayed(head.number, None if details in (b"", UNALIGNED) else pickle.loads(details)))
        elif details or self.machine.unaligned_after is not None:
            unaligned = details == UNALIGNED
            savepoint = pickle.loads(details) if details and not unaligned else None
            channel = head.edge, head.upstream
            self.handle(BarrierReceived(subtask.vertex.id, channel, head.number, unaligned, savepoint))

    def barrier(self, vertex: int, channel: ChannelId, checkpoint: int, unaligned: bool) -> None:
        """A gate was given a barrier."""
        self.handle(BarrierProcessed(vertex, channel, checkpoint, unaligned))

    def end(self, vertex: int, channel: ChannelId) -> None:
        """A gate was given the end of a channel."""
        self.handle(ChannelEnded(vertex, channel))

    def record(self, subtask: Subtask, head: BlockHeader, block: Block) -> None:
        """Record a block that was queued or received, if a barrier has overtaken it."""
        if head.kind >= BlockKind.LATENCY:  # or a marker of a round: neither is part of a snapshot
            return
        recording, channel = self.recording.get(subtask.vertex.id), (head.edge, head.upstream)
        if recording is None or channel not in recording.waiting:
            return
        if head.kind in (BlockKind.BARRIER, BlockKind.END):
            number = head.number if head.kind == BlockKind.BARRIER else None
            self.handle(BarrierRecorded(subtask.vertex.id, channel, number))
        else:
            assert subtask.state_writer is not None
            subtask.state_writer.add(head, block)

    def handle(self, event: CheckpointEvent) -> None:
        """Give an event to the machine, and execute what it commands."""
        for command in self.machine.handle(event, Millis(self._time.latest), self._clock.monotonic()):
            match command:
                case TakeSnapshot(vertex):
                    self._take_snapshot(self._subtasks[vertex], command)
                case ReleaseChannels(vertex):
                    gate = self._subtasks[vertex].gate
                    assert gate is not None
                    gate.release()
                case SealSnapshot():
                    self._seal(command)
                case DeliverSnapshot(checkpoint):
                    self.deliver(self._sealed.pop(checkpoint))
                case AddChannelState(vertex, checkpoint):
                    self._add_channel_state(self._subtasks[vertex], checkpoint)
                case DropChannelState(vertex):
                    self._subtasks[vertex].state_writer = None
                case DropSnapshot(checkpoint):
                    self._times.pop(checkpoint, None)
                    if self._state_manager is not None:
                        self._state_manager.abort(CheckpointId(checkpoint))

    # ---- what the machine commands

    def _take_snapshot(self, subtask: Subtask, command: TakeSnapshot) -> None:
        assert self._state_manager is not None
        checkpoint, savepoint = command.checkpoint, command.savepoint
        state_writer = None
        if command.overtaken is not None or command.logged:
            state_writer = subtask.state_writer = ChannelStateWriter()
            for other, head, block in self._work:
                if other is subtask:
                    self.record(subtask, head, block)
        if savepoint is not None and savepoint.stop is Stop.DRAIN:
            if subtask.gate is None:
                subtask.chain.watermark(MAX_WATERMARK)
            subtask.chain.drain(subtask.gate.inputs if subtask.gate else 0)
        begin = self._clock.monotonic()
        self._state_manager.snapshot(subtask.chain, CheckpointId(checkpoint))
        self._times.setdefault(checkpoint, {})[subtask.vertex.id] = SubtaskCheckpoint(
            command.since,
            0.0 if subtask.gate is None else (begin - command.began) * 1000,
            (self._clock.monotonic() - begin) * 1000,
            unaligned=command.overtaken is not None,
        )
        details = pickle.dumps(savepoint) if savepoint is not None else b""
        if command.overtaken is None:
            state_writer = None  # the barrier overtakes nothing: what is logged comes back later
        for output in subtask.outputs:
            output.barrier(checkpoint, details, state_writer)
        self.handle(SnapshotTaken(subtask.vertex.id, checkpoint))

    def _add_channel_state(self, subtask: Subtask, checkpoint: int) -> None:
        state_writer, subtask.state_writer = subtask.state_writer, None
        assert state_writer is not None and self._state_manager is not None
        found = state_writer.by_operator(self._plan.edges, self._names)
        self._state_manager.add_channel_state(subtask.chain, CheckpointId(checkpoint), found)

    def _seal(self, command: SealSnapshot) -> None:
        assert self._state_manager is not None
        checkpoint = CheckpointId(command.checkpoint)
        for vertex in command.ended:
            self._state_manager.snapshot(self._subtasks[vertex].chain, checkpoint, ended=True)
        times = self._times.pop(checkpoint, {})
        self._times = {later: found for later, found in self._times.items() if later > checkpoint}
        snapshot = self._state_manager.take(checkpoint, command.savepoint)
        self._sealed[checkpoint] = replace(snapshot, times=times, taken=self._clock.monotonic())
        self.handle(SnapshotSealed(checkpoint, snapshot.open if self.materializer.open else frozenset()))

    def deliver(self, snapshot: TaskStateSnapshot) -> None:
        """Pass a snapshot to what writes it."""
        if self._deliver is not None:
            self._deliver(snapshot)

    # ---- besides

    def materialize(self, worked: bool) -> None:
        """Materialize one step; ``worked``: after records."""
        self.materializer.worked |= worked
        self.materializer.step()

    def notify_complete(self, checkpoint: int, is_open: bool = True) -> None:
        """A checkpoint is complete: what sinks prepared for it is committed; notify the operators if they are open."""
        if self._state_manager is not None:
            self._state_manager.notify_complete(CheckpointId(checkpoint))
        for subtask in self._subtasks.values() if is_open else ():
            subtask.chain.notify_checkpoint_complete(checkpoint)

    def abort(self, command: CheckpointAborted, is_open: bool = True) -> None:
        """A checkpoint is aborted: give it up, and notify the operators if they are open."""
        self.handle(command)
        if command.rewrite and self._state_manager is not None:
            self._state_manager.rewrite()
        for subtask in self._subtasks.values() if is_open else ():
            subtask.chain.notify_checkpoint_aborted(command.checkpoint)

    def final_snapshot(self) -> TaskStateSnapshot | None:
        """Take the final snapshot of every subtask, now that all have ended; ``None`` without checkpoints."""
        if self._state_manager is None:
            return None
        checkpoint = self._state_manager.last
        for subtask in self._subtasks.values():
            self._state_manager.snapshot(subtask.chain, checkpoint, final=True)
        self.materializer.finish()  # the task has no other work
        return self._state_manager.take(checkpoint, final=True)

    def close(self) -> None:
        """Drop what was not delivered: the task has ended."""
        self.materializer.cancel()
        self._sealed.clear()
