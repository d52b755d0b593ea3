"""The input gate of a subtask: its channels, their watermarks, which are idle or ended, and the alignment of barriers.

Invariants: the watermark passed to the operators never decreases and is the minimum over the inputs that are not idle, each
of which has the watermark of its valve (``valve.py``); the end is passed once, after ``MAX_WATERMARK``.

Barriers (Chandy and Lamport's cut, as in Flink's ``SingleCheckpointBarrierHandler``): the first barrier of checkpoint n
begins an alignment. From then on a channel whose barrier came is *blocked*: what follows on it is held back, in order.
When every channel that has not ended has delivered its barrier, the operators take their snapshot, and then what was
buffered is processed. So the operators' state at that moment holds exactly what came before the barriers. With
``align`` false (at least once) nothing is buffered. A barrier of a later checkpoint aborts an earlier alignment; one of
an earlier is ignored.

An unaligned barrier is *announced* as soon as it is received, while records of its channel may still wait before the gate.
Then the operators take their snapshot without waiting, except for the barriers of *aligned-only* channels, whose records are
not overtaken (``runtime/snapshot/channel_state.py``). An alignment
that is announced becomes unaligned if it takes longer than the aligned timeout.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Timestamps, Values, record_count
from funken.runtime.exchange.valve import InputChannel, StatusWatermarkValve
from funken.runtime.exchange.wire import ChannelId as Key


class Receiver(Protocol):
    """The consumer of a gate: the head of a chain."""

    def process(self, index: int, values: Values, timestamps: Timestamps) -> None:
        """Handle a block of an input."""

    def watermark(self, watermark: int) -> None:
        """The watermark of all inputs together rose."""

    def watermark_input(self, index: int, watermark: int) -> None:
        """The watermark of one input rose."""

    def idle(self, idle: bool) -> None:
        """Everything went idle, or came back."""

    def barrier(self, checkpoint: int) -> None:
        """Every channel has delivered its barrier: take the snapshot, and pass the barrier on."""

    def end_input(self, index: int) -> None:
        """One input ended."""

    def finish(self) -> None:
        """All inputs ended."""

    def pause(self) -> None:
        """All inputs ended for now: there is more to come in another micro-batch."""


class InputGate:
    """Merges the channels of one subtask: records, watermarks, idleness, barriers and ends."""

    def __init__(self, receiver: Receiver, channels: Iterable[tuple[Key, int]], align: bool = True) -> None:
        self._receiver = receiver
        self._align = align
        self._aligned_only: frozenset[Key] = frozenset()
        self._begin_unaligned: Callable[[int, Collection[Key]], None] = lambda checkpoint, waiting: None
        self._now: Callable[[], int] = lambda: 0
        self._aligned_timeout = 0
        #: when the alignment began (ms), and whether its barriers overtake
        self._since = 0
        self._unaligned = False
        self._announced: set[Key] = set()
        self._aligning: int | None = None
        self._newest = -1
        self._aborted: set[int] = set()
        self._arrived: set[Key] = set()
        #: the channels to be held back; a subset of ``_arrived``, empty unless aligning
        self._blocked: set[Key] = set()
        #: what came on blocked channels, in order
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
        self.on_alignment: Callable[[int], None] = lambda checkpoint: None
        """Called when the alignment of a checkpoint begins."""
        self._idle = False
        self.finished = False
        self._pauses = False

    def data(self, key: Key, values: Values, timestamps: Timestamps) -> None:
        """A block of records arrived."""
        if key in self._blocked:
            self._held.append((self.data, (key, values, timestamps)))
            return
        channel = self.channels[key]
        if channel.idle:
            self._advance(channel.input, self._valves[channel.input].status(channel, False))
        self.records += record_count(values)
        self._receiver.process(channel.input, values, timestamps)

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
            self.finished = True
            if self._pauses:
                self._receiver.pause()
            else:
                self._receiver.finish()
        elif self._aligning is not None:
            self._complete_if_all_came()

    def enable_unaligned(
        self, aligned_only: Collection[Key], overtake: Callable[[int, Collection[Key]], None], now: Callable[[], int],
        min_flush_delay: int,
    ) -> None:  # fmt: skip
        """Enable unaligned barriers: at once, or after so many ms of alignment."""
        self._aligned_only, self._begin_unaligned, self._now, self._aligned_timeout = (
            frozenset(aligned_only),
            overtake,
            now,
            min_flush_delay,
        )

    def barrier(self, key: Key, checkpoint: int, unaligned: bool = False) -> None:
        """A channel's barrier arrived, and everything before it was processed."""
        if key in self._blocked:
            self._held.append((self.barrier, (key, checkpoint, unaligned)))
            return
        if not self._begin(checkpoint):
            return
        self._arrived.add(key)
        if self._align:
            self._blocked.add(key)
        self._unaligned |= unaligned
        self._complete_if_all_came()

    def announce(self, key: Key, checkpoint: int, unaligned: bool) -> None:
        """A channel's barrier was received; records before it may still wait to be processed."""
        if self._begin(checkpoint):
            self._announced.add(key)
            self._unaligned |= unaligned
            self._complete_if_all_came()

    @property
    def aligning(self) -> bool:
        """Whether an alignment is under way."""
        return self._aligning is not None

    def advance(self, now: int) -> int | None:
        """Become unaligned if the alignment takes too long; return when to check again (ms), ``None`` if none is under way."""
        if self._unaligned or not self._aligned_timeout or not self._announced:  # savepoints are not announced
            return None
        if now < self._since + self._aligned_timeout:
            return self._since + self._aligned_timeout
        self._unaligned = True
        self._complete_if_all_came()
        return None

    def abort(self, checkpoint: int | None = None) -> None:
        """Abort an alignment, of ``checkpoint`` if one is given, even before its barriers arrive; process what was buffered."""
        if checkpoint is not None and checkpoint > self._newest:
            self._aborted.add(checkpoint)
        if self._aligning is None or (checkpoint is not None and checkpoint != self._aligning):
            return
        self._forget()
        self._release()

    def _begin(self, checkpoint: int) -> bool:
        """Begin an alignment, or continue it; return whether the barrier is of the current checkpoint."""
        if self._aligning is not None and checkpoint > self._aligning:
            self.abort()  # a buffered barrier may have begun this very checkpoint
        if checkpoint == self._aligning:
            return True
        if checkpoint <= self._newest or checkpoint in self._aborted:
            return False
        self._aborted = {later for later in self._aborted if later > checkpoint}
        self._aligning = self._newest = checkpoint
        self._since = self._now()
        self.on_alignment(checkpoint)
        return True

    def _forget(self) -> None:
        self._aligning = None
        self._unaligned = False
        self._arrived.clear()
        self._announced.clear()

    def _complete_if_all_came(self) -> None:
        checkpoint = self._aligning
        assert checkpoint is not None
        waiting = [key for key, channel in self.channels.items() if not channel.ended and key not in self._arrived]
        if waiting and not (self._unaligned and self._aligned_only.isdisjoint(waiting)):
            return
        unaligned = self._unaligned
        self._forget()
        if unaligned:
            self._begin_unaligned(checkpoint, waiting)
        self._receiver.barrier(checkpoint)
        self._release()

    def _release(self) -> None:
        self._blocked.clear()
        held, self._held = self._held, deque()
        for (
            handle,
            arguments,
        ) in held:  # a barrier among them may begin the next alignment: then the rest is buffered again
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
            self._receiver.watermark(watermark)
        self._emit_idle(all(valve.idle for valve in self._valves.values()))

    def _emit_idle(self, idle: bool) -> None:
        if idle != self._idle:
            self._idle = idle
            self._receiver.idle(idle)
