"""The input gate of a subtask: its channels, their watermarks, which are idle or ended, and which are held back.

Invariants: the watermark passed to the operators never decreases and is the minimum over the inputs that are not idle, each
of which has the watermark of its valve (``valve.py``); the end is passed once, after ``MAX_WATERMARK``.

What comes on a *blocked* channel is held back, in order, until ``release``. Which channels are blocked, and what a barrier means,
is decided by the checkpoints of the task (``task/checkpoint_machine.py``): the gate passes barriers and ends to them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from funken import config
from funken.columnar.block import Block
from funken.dataclass import dataclass
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.io.spill import ByteSpillSpace, SpillingQueue
from funken.runtime.exchange.wire import ChannelId
from funken.runtime.exchange.wire import ChannelId as Key
from funken.runtime.settings import FeedbackSettings

# ---- One watermark and one status out of those of several channels: Flink's ``StatusWatermarkValve``.
#
# The watermark is the minimum over the channels that are *aligned*, and never decreases. A channel that becomes
# idle is not aligned any more, and is left out. When it is active again it is ignored until its own watermark has
# caught up with the valve's: else a source that was idle for an hour would stop event time for all until it has
# read an hour's records. When the last channel becomes idle, and it held the minimum, the highest watermark of any
# of them counts.


@dataclass(slots=True)
class InputChannel:
    """One upstream subtask of one edge; ``aligned``: it takes part in the minimum."""

    input: int
    watermark: int = MIN_TIMESTAMP
    idle: bool = False
    aligned: bool = True
    ended: bool = False


class StatusWatermarkValve:
    """The channels of one input.

    >>> slow, fast = InputChannel(0), InputChannel(0)
    >>> valve = StatusWatermarkValve([slow, fast])
    >>> valve.watermark_of(fast, 100), valve.status(slow, idle=True), valve.watermark
    (False, True, 100)
    >>> valve.status(slow, idle=False), valve.watermark_of(slow, 7), valve.watermark_of(fast, 200), valve.watermark
    (False, False, True, 200)
    """

    __slots__ = ("_channels", "idle", "watermark")

    def __init__(self, channels: Iterable[InputChannel]) -> None:
        self._channels = list(channels)
        self.watermark: int = MIN_TIMESTAMP
        self.idle = False

    @property
    def ended(self) -> bool:
        """Whether all channels have ended."""
        return all(channel.ended for channel in self._channels)

    def watermark_of(self, channel: InputChannel, watermark: int) -> bool:
        """The watermark of a channel rose, which is active again if it was idle; return whether the valve's rose."""
        channel.watermark = watermark
        if channel.idle:
            self.status(channel, False)
        elif not channel.aligned:
            channel.aligned = watermark >= self.watermark
        return self._find_minimum()

    def status(self, channel: InputChannel, idle: bool) -> bool:
        """A channel went idle, or is active again; return whether the valve's watermark rose."""
        channel.idle = idle
        if not idle:
            self.idle = False
            channel.aligned = channel.watermark >= self.watermark
            return False
        channel.aligned = False
        self.idle = all(other.idle for other in self._channels)
        if channel.watermark != self.watermark:
            return False
        return self._raise(max(other.watermark for other in self._channels)) if self.idle else self._find_minimum()

    def _find_minimum(self) -> bool:
        aligned = [channel.watermark for channel in self._channels if channel.aligned]
        return bool(aligned) and self._raise(min(aligned))

    def _raise(self, watermark: int) -> bool:
        if watermark <= self.watermark:
            return False
        self.watermark = watermark
        return True


class Receiver(Protocol):
    """The consumer of a gate: the head of a chain."""

    def process(self, index: int, block: Block) -> None:
        """Handle a block of an input."""

    def watermark(self, watermark: int) -> None:
        """The watermark of all inputs together rose."""

    def watermark_input(self, index: int, watermark: int) -> None:
        """The watermark of one input rose."""

    def idle(self, idle: bool) -> None:
        """Everything went idle, or came back."""

    def end_input(self, index: int) -> None:
        """One input ended."""

    def finish(self) -> None:
        """All inputs ended."""

    def pause(self) -> None:
        """All inputs ended for now: there is more to come in another micro-batch."""


class BarrierHandler(Protocol):
    """What is given the barriers and ends that arrive at the gates of a task."""

    def barrier(self, vertex: int, channel: Key, checkpoint: int, unaligned: bool) -> None:
        """A barrier arrived, and everything before it on its channel was processed."""

    def end(self, vertex: int, channel: Key) -> None:
        """A channel has ended."""


class RoundHandler(Protocol):
    """What is given the markers of the rounds of a loop that arrive at the gates of a task."""

    def round(self, vertex: int, channel: Key, number: int) -> None:
        """A marker arrived, and everything before it on its channel was processed."""

    def end(self, vertex: int) -> None:
        """A channel has ended."""


class InputGate:
    """Merges the channels of one subtask: records, watermarks, idleness and ends."""

    def __init__(self, receiver: Receiver, channels: Iterable[tuple[Key, int]]) -> None:
        self._receiver = receiver
        self._vertex = 0
        self._handler: BarrierHandler | None = None
        #: of a vertex that is in a loop
        self._rounds: RoundHandler | None = None
        #: the channels that are held back, and what came on them, in order
        self._blocked: set[Key] = set()
        self._held: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self.channels = {key: InputChannel(index) for key, index in channels}
        self._inputs = sorted({channel.input for channel in self.channels.values()})
        self.inputs = len(self._inputs)
        self._valves = {
            i: StatusWatermarkValve(c for c in self.channels.values() if c.input == i) for i in self._inputs
        }
        self.combined: int = MIN_TIMESTAMP
        self.records = 0
        """How many records were passed on."""
        self._idle = False
        self.finished = False
        self._pauses = False

    def connect(self, vertex: int, handler: BarrierHandler, blocked: set[Key]) -> None:
        """Pass barriers and ends to a handler, as those of a vertex; it keeps ``blocked`` up to date."""
        self._vertex, self._handler, self._blocked = vertex, handler, blocked

    def connect_rounds(self, handler: RoundHandler) -> None:
        """Pass the markers of rounds to a handler; after ``connect``."""
        self._rounds = handler

    def data(self, key: Key, block: Block) -> None:
        """A block of records arrived."""
        if key in self._blocked:
            self._held.append((self.data, (key, block)))
            return
        channel = self.channels[key]
        if channel.idle:
            self._advance(channel.input, self._valves[channel.input].status(channel, False))
        self.records += block.records
        self._receiver.process(channel.input, block)

    def watermark(self, key: Key, watermark: int) -> None:
        """A channel's watermark arrived; one that goes back is ignored."""
        if key in self._blocked:
            self._held.append((self.watermark, (key, watermark)))
            return
        channel = self.channels[key]
        if watermark > channel.watermark:
            self._advance(channel.input, self._valves[channel.input].watermark_of(channel, watermark))

    def idle(self, key: Key, idle: bool) -> None:
        """A channel became idle, or active again."""
        if key in self._blocked:
            self._held.append((self.idle, (key, idle)))
            return
        channel = self.channels[key]
        if channel.idle != idle:
            self._advance(channel.input, self._valves[channel.input].status(channel, idle))

    def end(self, key: Key, pauses: bool = False) -> None:
        """A channel ended; ``pauses``: only for this micro-batch, and its watermark stands where it is."""
        if key in self._blocked:
            self._held.append((self.end, (key, pauses)))
            return
        channel = self.channels[key]
        channel.ended = True
        self._pauses |= pauses
        if not pauses:
            valve = self._valves[channel.input]
            if channel.watermark < MAX_WATERMARK:
                self._advance(channel.input, valve.watermark_of(channel, MAX_WATERMARK))
            if valve.ended:
                self._receiver.end_input(channel.input)
        if all(c.ended for c in self.channels.values()):
            self._end_inputs()
        if self._handler is not None:
            self._handler.end(self._vertex, key)
        if self._rounds is not None:
            self._rounds.end(self._vertex)

    def _end_inputs(self) -> None:
        self.finished = True
        if self._pauses:
            self._receiver.pause()
        else:
            self._receiver.finish()

    def barrier(self, key: Key, checkpoint: int, unaligned: bool = False) -> None:
        """A channel's barrier arrived, and everything before it was processed."""
        if key in self._blocked:
            self._held.append((self.barrier, (key, checkpoint, unaligned)))
        elif self._handler is not None:
            self._handler.barrier(self._vertex, key, checkpoint, unaligned)

    def round(self, key: Key, number: int) -> None:
        """The marker of a round of a loop arrived, and everything before it was processed."""
        if key in self._blocked:
            self._held.append((self.round, (key, number)))
        elif self._rounds is not None:
            self._rounds.round(self._vertex, key, number)

    def release(self) -> None:
        """Process what was held back; a barrier among it may block channels anew, and then the rest is held back again."""
        held, self._held = self._held, deque()
        for handle, arguments in held:
            handle(*arguments)

    def _advance(self, index: int, rose: bool) -> None:
        if rose:
            self._receiver.watermark_input(index, self._valves[index].watermark)
        # The last watermark of a valve that goes idle counts before its idleness.
        live = [valve.watermark for i, valve in self._valves.items() if not valve.idle or (rose and i == index)]
        if live:
            self._emit_idle(False)
        watermark = min(live, default=MIN_TIMESTAMP)
        if watermark > self.combined:
            self.combined = watermark
            self._pass_watermark(watermark)
        self._emit_idle(all(valve.idle for valve in self._valves.values()))

    def _pass_watermark(self, watermark: int) -> None:
        self._receiver.watermark(watermark)

    def _emit_idle(self, idle: bool) -> None:
        if idle != self._idle:
            self._idle = idle
            self._receiver.idle(idle)


# ---- The input gate of the head of a loop: besides its inputs it has feedback channels, on which its own results
# come back.
#
# What comes back is given to the same operator. It has no part in anything else: the watermark, idleness and the
# alignment of barriers are those of the inputs alone. So are the ends, but for a *root*, which has all its inputs
# outside the loop: when these have ended it holds the end of event time back, and its own, until it is told that
# the loop is empty.


class LoopGate(InputGate):
    """Merges the inputs and the feedback channels of one subtask of a head."""

    def __init__(
        self, receiver: Receiver, channels: Iterable[tuple[ChannelId, int]], feedback: Iterable[ChannelId], root: bool
    ) -> None:
        super().__init__(receiver, channels)
        self.feedback = tuple(feedback)
        self.root = root
        self.inputs_ended = False
        self.came_back = 0
        """How many records came back since the last round."""
        self.too_late = 0
        """How many came back when the loop had ended."""
        self.over = False
        """Whether the subtask had finished when the checkpoint was made that it starts from: its operators do not run."""
        self._feedback = set(self.feedback)
        self._event_time_ends = False

    @property
    def closed(self) -> bool:
        """Whether the loop has ended, and everything that could come back has come."""
        return self.finished and not self._feedback

    def waits_for(self) -> set[ChannelId]:
        """Return the feedback channels that have not ended."""
        return self._feedback

    def data(self, key: ChannelId, block: Block) -> None:
        """A block arrived, by an input or back."""
        if key in self.channels or key in self._blocked:
            super().data(key, block)
        elif self.finished or self.over:
            self.too_late += block.records
        else:
            self.came_back += block.records
            self.records += block.records
            self._receiver.process(0, block)
            if self._idle:  # who gets the records takes the head for active, and would wait for its watermark
                self._receiver.idle(True)

    def end(self, key: ChannelId, pauses: bool = False) -> None:
        """A channel ended."""
        if key in self.channels or key in self._blocked:
            super().end(key, pauses)
            return
        self._feedback.discard(key)
        if self._rounds is not None:
            self._rounds.end(self._vertex)

    def _pass_watermark(self, watermark: int) -> None:
        if self.root and watermark == MAX_WATERMARK:
            self._event_time_ends = True
        else:
            super()._pass_watermark(watermark)

    def _end_inputs(self) -> None:
        self.inputs_ended = True
        if not self.root:
            super()._end_inputs()

    def end_event_time(self) -> None:
        """The loop is empty: let event time end in it."""
        if self._event_time_ends:
            self._event_time_ends = False
            super()._pass_watermark(MAX_WATERMARK)

    def finish(self) -> None:
        """The loop is empty, and stays so: end it."""
        self.end_event_time()
        super()._end_inputs()


# ---- The way back into a task that hosts heads of loops: blocks that came back, until the task takes them.
#
# Whatever comes is taken in, so that no tail ever waits for a head: a loop that multiplies its records fills the
# disk, not its edges. The task takes what came back before it takes new input, so that loops drain; but only what
# had come when it last took new input, so that a loop that never drains holds neither input nor barriers up.


class FeedbackQueue(Protocol):
    """Where blocks wait: first in, first out."""

    def __len__(self) -> int: ...

    def put(self, block: bytes) -> None:
        """Append a block."""

    def get(self) -> bytes:
        """Remove and return the oldest block."""


class FeedbackLane:
    """What has come back for one task; ``put`` may be called by any thread.

    >>> lane = FeedbackLane(SpillingQueue(100, ByteSpillSpace(), "head"))
    >>> lane.put(b"one")
    >>> lane.turn()  # new input was taken
    >>> lane.put(b"two")
    >>> lane.take(), lane.due, len(lane)
    (b'one', 0, 1)
    """

    __slots__ = ("_queue", "due")

    def __init__(self, queue: FeedbackQueue) -> None:
        self._queue = queue
        self.due = 0
        """How many blocks are taken before new input is."""

    @staticmethod
    def of(settings: FeedbackSettings, head: str) -> FeedbackLane:
        """Make the lane of a task; ``head`` is the operator to name when the disk is full."""
        space = ByteSpillSpace(settings.directories)
        space.remedy = f"raise {config.FEEDBACK_MEMORY.key}"
        return FeedbackLane(SpillingQueue(settings.memory, space, head))

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, block: bytes) -> None:
        """A block has come back."""
        self._queue.put(block)

    def take(self) -> bytes:
        """Remove and return the oldest block."""
        self.due = max(0, self.due - 1)
        return self._queue.get()

    def turn(self) -> None:
        """New input was taken, or there is none: what has come back by now is next."""
        self.due = len(self._queue)


__all__ = [
    "BarrierHandler",
    "FeedbackLane",
    "InputChannel",
    "InputGate",
    "LoopGate",
    "Receiver",
    "RoundHandler",
    "StatusWatermarkValve",
]
