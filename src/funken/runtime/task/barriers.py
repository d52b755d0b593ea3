"""Where each subtask of a task is with its barriers: what ``checkpoint_machine.py`` keeps per subtask, and changes."""

from __future__ import annotations

from dataclasses import field

from funken.dataclass import dataclass
from funken.ids import Millis
from funken.runtime.exchange.wire import ChannelId

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
        """Whether all channels have ended that barriers are waited for."""
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
    """The recording of what one barrier overtakes at one subtask; ``waiting``: the channels whose barrier was not reached."""

    checkpoint: int
    waiting: set[ChannelId]
    #: whether a later barrier was reached instead: then the checkpoint was aborted upstream
    void: bool = False
    #: whether the snapshot was taken, and the barrier sent on
    taken: bool = False
