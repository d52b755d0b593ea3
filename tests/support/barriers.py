"""Gates with the machine that decides about their barriers, and as little as possible in the place of a task around them."""

from __future__ import annotations

from funken.ids import Millis
from funken.runtime.exchange.gate import InputGate
from funken.runtime.messages import CheckpointAborted
from funken.runtime.task.checkpoint_machine import (
    BarrierProcessed,
    BarrierReceived,
    ChannelEnded,
    ReleaseChannels,
    SealSnapshot,
    SnapshotSealed,
    SnapshotTaken,
    TakeSnapshot,
    TaskCheckpointMachine,
    TimePassed,
)


class AligningGate(InputGate):
    """The gate of one subtask; ``log`` is what is behind it, and is given barriers and what they overtake."""

    def __init__(self, log, channels, aligned_only=(), align=True, unaligned_after=None):
        super().__init__(log, channels)
        self.log = log
        self.now = 0
        self.machine = TaskCheckpointMachine(
            {0: self.channels}, aligned_only, align=align, unaligned_after=unaligned_after
        )
        handler = type("Handler", (), {"barrier": self.on_barrier, "end": self.on_end})()
        self.connect(0, handler, self.machine.subtasks[0].blocked)

    def on_barrier(self, vertex, channel, checkpoint, unaligned):
        self.tell(BarrierProcessed(vertex, channel, checkpoint, unaligned))

    def on_end(self, vertex, channel):
        self.tell(ChannelEnded(vertex, channel))

    def announce(self, channel, checkpoint, unaligned=False):
        self.tell(BarrierReceived(0, channel, checkpoint, unaligned))

    def abort(self, checkpoint):
        self.tell(CheckpointAborted(checkpoint))

    def advance(self, now):
        """Let time pass; return when an alignment takes too long."""
        self.now = now
        self.tell(TimePassed())
        return self.machine.deadline

    def tell(self, event):
        for command in self.machine.handle(event, Millis(self.now)):
            match command:
                case TakeSnapshot(_, checkpoint, _, overtaken):
                    if overtaken is not None:
                        self.log.overtake(checkpoint, overtaken)
                    self.log.barrier(checkpoint)
                    self.tell(SnapshotTaken(0, checkpoint))
                case SealSnapshot(checkpoint):
                    self.tell(SnapshotSealed(checkpoint))
                case ReleaseChannels():
                    self.release()
        self.machine.validate()
