"""The events of a task's checkpoint machine and its commands: plain data.

The driver's ``TriggerCheckpoint`` and ``CheckpointAborted`` are events, too. A subtask is known by the number of its vertex, a
channel by its edge and upstream subtask.
"""

from __future__ import annotations

from dataclasses import field

from funken.dataclass import dataclass
from funken.ids import Millis
from funken.runtime.exchange.wire import ChannelId
from funken.runtime.messages import CheckpointAborted, Savepoint, TriggerCheckpoint
from funken.runtime.settings import OperatorSubtaskId

# ---- events


@dataclass(frozen=True, slots=True)
class BarrierReceived:
    """A barrier was received; records before it may still be queued. Aligned barriers of plain checkpoints need no such event."""

    vertex: int
    channel: ChannelId
    checkpoint: int
    unaligned: bool = False
    savepoint: Savepoint | None = None


@dataclass(frozen=True, slots=True)
class BarrierProcessed:
    """A barrier has reached the gate: everything before it on its channel was processed."""

    vertex: int
    channel: ChannelId
    checkpoint: int
    unaligned: bool = False


@dataclass(frozen=True, slots=True)
class BarrierRecorded:
    """The recording of a channel has reached a barrier; ``None``: the end of the channel."""

    vertex: int
    channel: ChannelId
    checkpoint: int | None


@dataclass(frozen=True, slots=True)
class BarrierRelayed:
    """A barrier has passed through the task on its way to a later stage."""

    checkpoint: int
    savepoint: Savepoint | None = None


@dataclass(frozen=True, slots=True)
class ChannelEnded:
    """A channel has ended, and its end was processed."""

    vertex: int
    channel: ChannelId


@dataclass(frozen=True, slots=True)
class SourceEnded:
    """A subtask without channels has ended."""

    vertex: int


@dataclass(frozen=True, slots=True)
class LoopEnding:
    """A head of a loop has sent its end: it takes no more snapshots."""

    vertex: int


@dataclass(frozen=True, slots=True)
class LoopEnded:
    """Everything that a head of a loop had sent has come back."""

    vertex: int


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """``TakeSnapshot`` was executed, and the barrier was sent on."""

    vertex: int
    checkpoint: int


@dataclass(frozen=True, slots=True)
class SnapshotSealed:
    """``SealSnapshot`` was executed; ``open`` are the operators whose state is not materialized yet."""

    checkpoint: int
    open: frozenset[OperatorSubtaskId] = frozenset()


@dataclass(frozen=True, slots=True)
class StateMaterialized:
    """The newest snapshot of an operator is materialized."""

    place: OperatorSubtaskId


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Alignments may have taken longer than the aligned timeout."""


CheckpointEvent = (
    TriggerCheckpoint
    | CheckpointAborted
    | BarrierReceived
    | BarrierProcessed
    | BarrierRecorded
    | BarrierRelayed
    | ChannelEnded
    | SourceEnded
    | LoopEnding
    | LoopEnded
    | SnapshotTaken
    | SnapshotSealed
    | StateMaterialized
    | TimePassed
)

# ---- commands


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Take the snapshot of a subtask, and send the barrier on; then report ``SnapshotTaken``.

    ``overtaken`` are the channels whose records the barrier has overtaken: they are recorded up to their own barrier, those that
    are queued first. ``None``: the barrier is aligned. ``since`` is when its alignment began (ms), ``began`` the same
    by a clock that never steps back (s). ``logged`` are the feedback channels of the head of a loop: they are recorded, whatever
    the barrier does.
    """

    vertex: int
    checkpoint: int
    savepoint: Savepoint | None
    overtaken: frozenset[ChannelId] | None
    since: Millis
    began: float = field(default=0.0, repr=False, compare=False)
    logged: frozenset[ChannelId] = field(default=frozenset(), repr=False)


@dataclass(frozen=True, slots=True)
class AddChannelState:
    """Add what was recorded to the snapshot of a subtask."""

    vertex: int
    checkpoint: int


@dataclass(frozen=True, slots=True)
class DropChannelState:
    """Forget what was recorded."""

    vertex: int


@dataclass(frozen=True, slots=True)
class ReleaseChannels:
    """Process what the blocked channels of a subtask have held back."""

    vertex: int


@dataclass(frozen=True, slots=True)
class SealSnapshot:
    """Every subtask has its snapshot, except ``ended`` ones: take theirs now, seal all, and report ``SnapshotSealed``."""

    checkpoint: int
    savepoint: Savepoint | None
    ended: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DeliverSnapshot:
    """Deliver a sealed snapshot: it is materialized, and so are those before it."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class DropSnapshot:
    """Drop the snapshots of an aborted checkpoint."""

    checkpoint: int


CheckpointAction = (
    TakeSnapshot | AddChannelState | DropChannelState | ReleaseChannels | SealSnapshot | DeliverSnapshot | DropSnapshot
)
