"""The input gate of the head of a loop: besides its inputs it has feedback channels, on which its own results come back.

What comes back is given to the same operator. It has no part in anything else: the watermark, idleness and the alignment of
barriers are those of the inputs alone. So are the ends, but for a *root*, which has all its inputs outside the loop: when these
have ended it holds the end of event time back, and its own, until it is told that the loop is empty.
"""

from __future__ import annotations

from collections.abc import Iterable

from funken.columnar.block import Block
from funken.ids import MAX_WATERMARK
from funken.runtime.exchange.gate import InputGate, Receiver
from funken.runtime.exchange.wire import ChannelId


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


__all__ = ["LoopGate"]
