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

from funken.columnar.block import Block
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.runtime.exchange.valve import InputChannel, StatusWatermarkValve
from funken.runtime.exchange.wire import ChannelId as Key


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
