"""The checkpoints of one task as a pure state machine: events and the time in, commands out, nothing else.

It decides when a subtask takes its snapshot, which channels are blocked until then, which are recorded after it, when the
snapshots of a task are complete, and in which order they are delivered. ``checkpoints.py`` executes its commands.

*Alignment* (Chandy and Lamport's cut, as in Flink's ``SingleCheckpointBarrierHandler``): the first barrier of checkpoint n
begins it. From then on a channel whose barrier was processed is *blocked*: its gate holds back what follows, in order. When
every channel that has not ended has delivered its barrier, the subtask takes its snapshot, and then what was held back is
processed. So the operators' state at that moment holds exactly what came before the barriers. A barrier of a later checkpoint
ends an earlier alignment; one of an earlier is ignored.

*At least once* (``align`` false): no channel is blocked, so one may deliver the barrier of n + 1 before another that of n. The
barriers of each checkpoint are counted by themselves, and every subtask takes each snapshot. If one left n out, its task
could not acknowledge n, and its final state would stand for it: with results that are in no snapshot of n behind it.

*Unaligned*: the snapshot is taken when the first barrier is received, while records before it may still be queued. Only
channels that are *aligned-only* have to deliver their barriers in order first. What the barrier overtakes is *recorded*, on
each channel up to its own barrier or end, and the snapshot counts when the last recording is complete. With an aligned timeout
an alignment begins aligned, and becomes unaligned when it takes longer. A savepoint is always aligned.

*Loops*: the head of a loop takes its snapshot by the barriers of its inputs alone, since its own comes back only later. What
comes back on a feedback channel before the barrier is recorded, as if that had overtaken it. A barrier that comes back before the
snapshot blocks its channel until then. A head that is stopped keeps its feedback channels blocked: what comes back is in the
savepoint, and nowhere else.

*Delivery*: a checkpoint is sealed when every subtask has its snapshot or has ended, and delivered when its state is materialized,
in the order of sealing. Where all subtasks have ended and the task only relays, a barrier that passes through seals its
checkpoint. Sealing one drops those before it that are not sealed. A subtask that was snapshotted for a savepoint
that stops the job is *stopped* from then on, unless the savepoint is aborted.

``blocked`` and ``recording`` are read per block by those who carry records; they are changed in place, never replaced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import field

from funken.dataclass import dataclass
from funken.ids import Millis
from funken.runtime.exchange.gate import ChannelId
from funken.runtime.messages import CheckpointAborted, Savepoint, TriggerCheckpoint
from funken.runtime.settings import OperatorSubtaskId

# ---- The events of a task's checkpoint machine and its commands: plain data.
#
# The driver's ``TriggerCheckpoint`` and ``CheckpointAborted`` are events, too. A subtask is known by the number of
# its vertex, a channel by its edge and upstream subtask.


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
    """Add recorded blocks to the snapshot of a subtask."""

    vertex: int
    checkpoint: int


@dataclass(frozen=True, slots=True)
class DropChannelState:
    """Forget recorded blocks."""

    vertex: int


@dataclass(frozen=True, slots=True)
class ReleaseChannels:
    """Process the held blocks of the blocked channels of a subtask."""

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


# ---- Where each subtask of a task is with its barriers: what ``checkpoint_machine.py`` keeps per subtask, and
# changes.


_BEGINNING = Millis(0)


@dataclass(slots=True)
class Count:
    """The channels that have delivered the barrier of one checkpoint, and when the first did (ms, monotonic s)."""

    since: Millis
    began: float
    arrived: set[ChannelId] = field(default_factory=set)


@dataclass(slots=True)
class SubtaskBarriers:
    """The barriers of one subtask; without ``channels`` it is a source.

    ``feedback`` are the feedback channels of the head of a loop: no barrier of theirs is waited for. A ``root`` has no input
    from within the loop: when its inputs have ended, the driver triggers it like a source.

    A barrier that another subtask of the head has sent may come back before this one has taken its snapshot. Its channel is
    blocked until then, and has nothing to be logged: ``early`` has the checkpoint of each such channel.
    """

    vertex: int
    channels: tuple[ChannelId, ...]
    aligned_only: frozenset[ChannelId] = frozenset()
    feedback: frozenset[ChannelId] = frozenset()
    root: bool = False
    #: the newest checkpoint that the driver has triggered at the root
    triggered: int = -1
    #: whether the head has sent its end
    ending: bool = False
    early: dict[ChannelId, int] = field(default_factory=dict)
    ended_channels: set[ChannelId] = field(default_factory=set)
    #: whether all its channels have ended, or the source
    ended: bool = False
    #: the newest checkpoint whose alignment began; at least once: whose snapshot was taken
    newest: int = -1
    aligning: int | None = None
    #: when the alignment began: by the clock of the task (ms), and by one that never steps back (s)
    since: Millis = _BEGINNING
    began: float = 0.0
    #: whether the barriers of the alignment overtake records, and whether they may when it takes too long
    unaligned: bool = False
    announced: bool = False
    arrived: set[ChannelId] = field(default_factory=set)
    #: the channels that the gate holds back
    blocked: set[ChannelId] = field(default_factory=set)
    #: the checkpoint whose ``TakeSnapshot`` is being executed
    taking: int | None = None
    #: at least once: by checkpoint, whose barriers have come; nothing is held back, so those of several may come at a time
    counts: dict[int, Count] = field(default_factory=dict)

    @property
    def waiting(self) -> list[ChannelId]:
        """The channels that have neither delivered their barrier nor ended."""
        came = self.ended_channels | self.arrived
        return [channel for channel in self.channels if channel not in came]

    @property
    def inputs_ended(self) -> bool:
        """True if all channels have ended that barriers are waited for."""
        return len(self.ended_channels) == len(self.channels)

    def count(self, channel: ChannelId, checkpoint: int, now: Millis, monotonic: float) -> None:
        """Count a barrier."""
        self.counts.setdefault(checkpoint, Count(now, monotonic)).arrived.add(channel)

    def counted(self) -> list[int]:
        """Return the checkpoints whose barriers every channel has delivered, or has ended instead, in order."""
        rest = set(self.channels) - self.ended_channels
        return sorted(checkpoint for checkpoint, count in self.counts.items() if rest <= count.arrived)

    def begin_counted(self, checkpoint: int) -> None:
        """Begin the snapshot of a checkpoint that was counted; no barrier of it, or of one before it, counts any more."""
        count = self.counts[checkpoint]
        self.newest, self.since, self.began = checkpoint, count.since, count.began
        self.counts = {later: found for later, found in self.counts.items() if later > checkpoint}

    def to_log(self, checkpoint: int) -> tuple[frozenset[ChannelId], bool]:
        """Return the feedback channels that are logged from a snapshot on, and whether the barrier of one comes no more."""
        logged = frozenset(channel for channel in self.feedback if channel not in self.early)
        return logged, any(later > checkpoint for later in self.early.values())

    def forget(self, checkpoint: int) -> bool:
        """Forget an aborted checkpoint; return whether channels were blocked for it that were early."""
        self.counts.pop(checkpoint, None)
        self.triggered = -1 if self.triggered == checkpoint else self.triggered
        found = {channel for channel, early in self.early.items() if early == checkpoint}
        self.early = {channel: early for channel, early in self.early.items() if early != checkpoint}
        self.blocked -= found
        return bool(found)

    def release(self) -> bool:
        """Unblock the channels, but for those that are early for a checkpoint to come; return whether there are any."""
        self.early = {channel: checkpoint for channel, checkpoint in self.early.items() if checkpoint > self.newest}
        found = self.blocked - self.early.keys()
        self.blocked -= found
        return bool(found)

    def end_alignment(self) -> None:
        """Forget the alignment; channels stay blocked until they are released."""
        self.aligning = None
        self.unaligned = self.announced = False
        self.arrived.clear()

    def validate(self) -> None:
        """Assert the invariants."""
        assert self.blocked - self.feedback <= self.arrived or self.taking is not None, f"blocks for nothing: {self}"
        assert self.arrived <= set(self.channels), f"a barrier of an unknown channel: {self}"
        assert not (self.counts and self.ended), f"counts barriers, and has ended: {self}"
        assert all(checkpoint > self.newest for checkpoint in self.counts), f"counts for an older checkpoint: {self}"
        assert not self.counted(), f"counted every barrier, and took no snapshot: {self}"
        if self.aligning is None:
            assert not (self.arrived or self.announced or self.unaligned), f"does not align: {self}"
        else:
            assert self.aligning == self.newest, f"aligns what is not the newest: {self}"
            assert not self.ended, f"aligns, and has ended: {self}"
            assert self.waiting, f"has every barrier, and took no snapshot: {self}"


@dataclass(slots=True)
class Recording:
    """The recording of blocks that one barrier overtakes at one subtask; ``waiting``: channels without the barrier."""

    checkpoint: int
    waiting: set[ChannelId]
    #: whether a later barrier was reached instead: then the checkpoint was aborted upstream
    void: bool = False
    #: whether the snapshot was taken, and the barrier sent on
    taken: bool = False


_LINES = 200


class TaskCheckpointMachine:
    """Decides about the checkpoints of one task; change it through ``handle`` only.

    ``channels`` are those of every subtask that the task hosts, by vertex; none for a source. ``unaligned_after``: after how
    many ms of alignment a barrier becomes unaligned (0: at once), ``None``: never. ``feedback``: of heads of loops, by vertex,
    the feedback channels, and whether it is a root.

    >>> machine = TaskCheckpointMachine({7: [(0, 0), (0, 1)]})
    >>> machine.handle(BarrierProcessed(7, (0, 0), checkpoint=1), now=Millis(5)), machine.subtasks[7].blocked
    ([], {(0, 0)})
    >>> for command in machine.handle(BarrierProcessed(7, (0, 1), checkpoint=1), now=Millis(8)):
    ...     print(command)
    TakeSnapshot(vertex=7, checkpoint=1, savepoint=None, overtaken=None, since=5)
    >>> for command in machine.handle(SnapshotTaken(7, 1), now=Millis(9)):
    ...     print(command)
    SealSnapshot(checkpoint=1, savepoint=None, ended=())
    ReleaseChannels(vertex=7)
    """

    def __init__(
        self,
        channels: Mapping[int, Collection[ChannelId]],
        aligned_only: Collection[ChannelId] = (),
        *,
        align: bool = True,
        unaligned_after: int | None = None,
        feedback: Mapping[int, tuple[Collection[ChannelId], bool]] | None = None,
    ) -> None:
        firm = frozenset(aligned_only)
        self.subtasks = {
            vertex: SubtaskBarriers(vertex, tuple(found), firm.intersection(found))
            for vertex, found in channels.items()
        }
        for vertex, (back, root) in (feedback or {}).items():
            self.subtasks[vertex].feedback, self.subtasks[vertex].root = frozenset(back), root
        self.align = align
        self.unaligned_after = unaligned_after
        #: subtasks whose channels are being recorded
        self.recording: dict[int, Recording] = {}
        #: the subtasks that have their snapshot, by checkpoint, until it is sealed
        self.snapshotted: dict[int, set[int]] = {}
        #: sealed checkpoints that are not delivered, in order, and what is left to materialize of each
        self.sealed: dict[int, set[OperatorSubtaskId]] = {}
        #: subtasks that process nothing any more, by the checkpoint: the savepoint that the job is stopped with
        self.stopped: dict[int, int] = {}
        self.savepoints: dict[int, Savepoint] = {}
        #: aborted checkpoints whose barriers may still come
        self.aborted: set[int] = set()
        #: the newest sealed checkpoint, and the newest whose barrier was relayed
        self.newest = self.relayed = -1
        self._now = Millis(0)
        self._monotonic = 0.0
        self._commands: list[CheckpointAction] = []
        self._log: deque[tuple[Millis, CheckpointEvent, list[CheckpointAction]]] = deque(maxlen=_LINES)

    # ---- events

    def handle(self, event: CheckpointEvent, now: Millis, monotonic: float = 0.0) -> list[CheckpointAction]:
        """Handle an event; return the commands to execute, in order, before the next event of the same subtask.

        ``now`` is the time of the task, ``monotonic`` (s) is for durations.
        """
        self._now, self._monotonic = now, monotonic
        commands: list[CheckpointAction] = []
        self._commands = commands
        match event:
            case BarrierProcessed(vertex, channel, checkpoint, unaligned):
                self._arrive(self.subtasks[vertex], channel, checkpoint, unaligned)
            case SnapshotTaken(vertex, checkpoint):
                self._taken(self.subtasks[vertex], checkpoint)
            case SnapshotSealed(checkpoint, still_open):
                self.sealed[checkpoint] = set(still_open)
                self._deliver()
            case BarrierReceived():
                self._announce(event)
            case BarrierRelayed(checkpoint, savepoint):
                self._relay(checkpoint, savepoint)
            case BarrierRecorded(vertex, channel, checkpoint):
                self._record(vertex, channel, checkpoint)
            case StateMaterialized(place):
                for left in self.sealed.values():
                    left.discard(place)
                self._deliver()
            case ChannelEnded(vertex, channel):
                self._end_channel(self.subtasks[vertex], channel)
            case SourceEnded(vertex) | LoopEnded(vertex):
                self._end(self.subtasks[vertex])
            case LoopEnding(vertex):
                self.subtasks[vertex].ending = True
            case TriggerCheckpoint(checkpoint, savepoint):
                self._trigger(checkpoint, savepoint)
            case CheckpointAborted(checkpoint):
                self._abort(checkpoint)
            case TimePassed():
                self._expire()
        self._log.append((now, event, commands))
        return commands

    # ---- barriers

    def _trigger(self, checkpoint: int, savepoint: Savepoint | None) -> None:
        if savepoint is not None:
            self.savepoints[checkpoint] = savepoint
        for source in self.subtasks.values():
            if not source.channels and not source.ended:
                self._take_first(source, checkpoint)
            elif source.root:
                source.triggered = checkpoint
                self._take_triggered(source)

    def _take_first(self, source: SubtaskBarriers, checkpoint: int) -> None:
        """Take the snapshot of a subtask that no barrier comes to."""
        source.newest, source.since, source.began = checkpoint, self._now, self._monotonic
        unaligned = checkpoint not in self.savepoints and self.unaligned_after == 0
        self._take(source, checkpoint, () if unaligned else None)

    def _take_triggered(self, root: SubtaskBarriers) -> None:
        if root.inputs_ended and root.triggered > root.newest and not root.ending:
            self._take_first(root, root.triggered)

    def _announce(self, event: BarrierReceived) -> None:
        """A barrier was received; one of a savepoint has to wait for its turn."""
        if event.savepoint is not None:
            self.savepoints[event.checkpoint] = event.savepoint
            return
        subtask = self.subtasks[event.vertex]
        if self.unaligned_after is not None and self._begins(subtask, event.checkpoint):
            subtask.announced = True
            subtask.unaligned |= event.unaligned
            self._take_if_all_came(subtask)

    def _arrive(self, subtask: SubtaskBarriers, channel: ChannelId, checkpoint: int, unaligned: bool) -> None:
        if channel in subtask.feedback:
            new = checkpoint > subtask.newest and checkpoint not in self.aborted
            if self.align and new and not subtask.ending:
                subtask.early[channel] = checkpoint
                subtask.blocked.add(channel)
        elif not self.align:
            if checkpoint > subtask.newest and checkpoint not in self.aborted:
                subtask.count(channel, checkpoint, self._now, self._monotonic)
                self._take_counted(subtask)
        elif self._begins(subtask, checkpoint):
            subtask.arrived.add(channel)
            subtask.blocked.add(channel)
            subtask.unaligned |= unaligned
            self._take_if_all_came(subtask)

    def _begins(self, subtask: SubtaskBarriers, checkpoint: int) -> bool:
        """Begin an alignment, or continue it; return whether the barrier is of the current checkpoint."""
        if checkpoint == subtask.aligning:
            return True
        if checkpoint <= subtask.newest:
            return False
        if subtask.aligning is not None:  # a channel that has a later barrier delivers no earlier one any more
            self._give_up(subtask)
        if checkpoint in self.aborted:
            return False
        subtask.aligning = subtask.newest = checkpoint
        subtask.since, subtask.began = self._now, self._monotonic
        return True

    def _take_if_all_came(self, subtask: SubtaskBarriers) -> None:
        checkpoint = subtask.aligning
        assert checkpoint is not None
        waiting = subtask.waiting
        if not waiting or (subtask.unaligned and subtask.aligned_only.isdisjoint(waiting)):
            self._take(subtask, checkpoint, waiting if subtask.unaligned else None)
            subtask.end_alignment()

    def _take_counted(self, subtask: SubtaskBarriers) -> None:
        """Take the snapshots whose barriers have all come; those before them were aborted upstream."""
        for checkpoint in subtask.counted():
            subtask.begin_counted(checkpoint)
            self._take(subtask, checkpoint, None)

    def _take(self, subtask: SubtaskBarriers, checkpoint: int, overtaken: Collection[ChannelId] | None) -> None:
        """Let a subtask take its snapshot; recordings of an earlier checkpoint stay incomplete, and so does that checkpoint."""
        logged, void = subtask.to_log(checkpoint)
        if overtaken is not None or logged or void:
            self.recording[subtask.vertex] = Recording(checkpoint, {*(overtaken or ()), *logged}, void)
        subtask.taking = checkpoint
        savepoint = self.savepoints.get(checkpoint)
        channels = None if overtaken is None else frozenset(overtaken)
        since, began = subtask.since, subtask.began
        self._commands.append(TakeSnapshot(subtask.vertex, checkpoint, savepoint, channels, since, began, logged))

    def _expire(self) -> None:
        for subtask in self.subtasks.values():
            late = self._now - subtask.since >= (self.unaligned_after or 0)
            if self.unaligned_after and subtask.announced and not subtask.unaligned and late:
                subtask.unaligned = True
                self._take_if_all_came(subtask)

    def _give_up(self, subtask: SubtaskBarriers) -> None:
        subtask.end_alignment()
        subtask.counts.clear()
        self._release(subtask)

    def _release(self, subtask: SubtaskBarriers) -> None:
        if subtask.release():
            self._commands.append(ReleaseChannels(subtask.vertex))

    # ---- recordings

    def _record(self, vertex: int, channel: ChannelId, checkpoint: int | None) -> None:
        """A recording has reached a barrier, or the end: no barrier follows that, and it is sent again after a restore."""
        recording = self.recording.get(vertex)
        if recording is None or channel not in recording.waiting:
            return
        if checkpoint is not None and checkpoint < recording.checkpoint:
            return
        recording.waiting.discard(channel)
        recording.void |= checkpoint is not None and checkpoint > recording.checkpoint
        self._complete_recording(vertex, recording)

    def _complete_recording(self, vertex: int, recording: Recording) -> None:
        if recording.waiting or not recording.taken:
            return
        del self.recording[vertex]
        if recording.void:
            self._commands.append(DropChannelState(vertex))
        else:
            self._commands.append(AddChannelState(vertex, recording.checkpoint))
            self._complete(vertex, recording.checkpoint)

    # ---- snapshots

    def _taken(self, subtask: SubtaskBarriers, checkpoint: int) -> None:
        subtask.taking = None
        savepoint = self.savepoints.get(checkpoint)
        if savepoint is not None and savepoint.stop is not None:
            self.stopped[subtask.vertex] = checkpoint
        recording = self.recording.get(subtask.vertex)
        if recording is not None and recording.checkpoint == checkpoint:
            recording.taken = True
            self._complete_recording(subtask.vertex, recording)
        else:
            self._complete(subtask.vertex, checkpoint)
        self._release(subtask)
        if subtask.vertex in self.stopped:
            subtask.blocked |= subtask.feedback

    def _complete(self, vertex: int, checkpoint: int) -> None:
        self.snapshotted.setdefault(checkpoint, set()).add(vertex)
        self._seal()

    def _seal(self) -> None:
        """Seal the checkpoints of which every subtask has its snapshot or has ended."""
        for checkpoint in sorted({*self.snapshotted, max(self.relayed, self.newest)} - {self.newest}):
            done = self.snapshotted.get(checkpoint, ())
            missing = [each for vertex, each in self.subtasks.items() if vertex not in done]
            if all(each.ended for each in missing):
                self._forget(checkpoint)
                ended = tuple(each.vertex for each in missing)
                savepoint = self.savepoints.pop(checkpoint, None)
                self._commands.append(SealSnapshot(checkpoint, savepoint, ended))

    def _relay(self, checkpoint: int, savepoint: Savepoint | None) -> None:
        if checkpoint > max(self.relayed, self.newest) and checkpoint not in self.aborted:
            self.relayed = checkpoint
            if savepoint is not None:
                self.savepoints[checkpoint] = savepoint
            self._seal()

    def _forget(self, checkpoint: int) -> None:
        """Forget the data of a checkpoint that is sealed, and of those before it."""
        self.newest = checkpoint
        for older in [number for number in self.snapshotted if number <= checkpoint]:
            del self.snapshotted[older]
        for older in [number for number in self.savepoints if number < checkpoint]:
            del self.savepoints[older]
        for vertex in [vertex for vertex, each in self.recording.items() if each.checkpoint < checkpoint]:
            del self.recording[vertex]
            self._commands.append(DropChannelState(vertex))
        live = [each.newest for each in self.subtasks.values() if each.channels and not each.ended]
        self.aborted = {number for number in self.aborted if number > min(live, default=checkpoint)}

    def _deliver(self) -> None:
        while self.sealed:
            checkpoint, left = next(iter(self.sealed.items()))
            if left:
                return
            del self.sealed[checkpoint]
            self._commands.append(DeliverSnapshot(checkpoint))

    # ---- ends and aborts

    def _end_channel(self, subtask: SubtaskBarriers, channel: ChannelId) -> None:
        subtask.ended_channels.add(channel)
        if subtask.inputs_ended and not subtask.feedback:
            self._end(subtask)
        elif subtask.aligning is not None:
            self._take_if_all_came(subtask)
        else:
            self._take_counted(subtask)
        if subtask.root:
            self._take_triggered(subtask)

    def _end(self, subtask: SubtaskBarriers) -> None:
        subtask.ended = True
        self._give_up(subtask)
        self._seal()

    def _abort(self, checkpoint: int) -> None:
        """Stop waiting for a checkpoint, even before its barriers come; let stopped subtasks continue."""
        self.savepoints.pop(checkpoint, None)
        self.snapshotted.pop(checkpoint, None)
        self.relayed = -1 if self.relayed == checkpoint else self.relayed
        for vertex in [vertex for vertex, by in self.stopped.items() if by == checkpoint]:
            del self.stopped[vertex]
            if self.subtasks[vertex].feedback:
                self._release(self.subtasks[vertex])
        self._commands.append(DropSnapshot(checkpoint))
        for vertex in [vertex for vertex, each in self.recording.items() if each.checkpoint == checkpoint]:
            del self.recording[vertex]
            self._commands.append(DropChannelState(vertex))
        for subtask in self.subtasks.values():
            if subtask.newest < checkpoint and subtask.channels and not subtask.ended:
                self.aborted.add(checkpoint)
            if subtask.forget(checkpoint):
                self._commands.append(ReleaseChannels(subtask.vertex))
            if subtask.aligning == checkpoint:
                self._give_up(subtask)

    # ---- what it tells of itself

    @property
    def deadline(self) -> Millis | None:
        """The time at which the first alignment takes too long (ms), ``None`` if none can become unaligned."""
        if not self.unaligned_after:
            return None
        after = self.unaligned_after
        due = [Millis(each.since + after) for each in self.subtasks.values() if each.announced and not each.unaligned]
        return min(due, default=None)

    @property
    def awaits_barriers(self) -> bool:
        """True if an unaligned checkpoint waits for barriers."""
        overtaken = any(each.waiting - self.subtasks[vertex].feedback for vertex, each in self.recording.items())
        return overtaken or (self.unaligned_after is not None and self.aligning)

    @property
    def aligning(self) -> bool:
        """True if some subtask has some barriers of a checkpoint, and not all."""
        return any(each.aligning is not None or each.counts for each in self.subtasks.values())

    def story(self) -> str:
        """Return the newest events and their commands, a line each.

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
