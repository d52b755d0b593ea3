"""The gate of a vertex: its channels, their watermarks, which of them idle or ended.

Invariants: the watermark told to the operators never decreases and is the minimum over the live channels of all
inputs; idle and ended channels hold nobody back; the end is told once, after ``MAX_WATERMARK``. (Flink's
``StatusWatermarkValve``.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Timestamps, Values


@dataclass(slots=True)
class Channel:
    """One upstream subtask of one edge."""

    input: int
    watermark: int = MIN_TIMESTAMP
    idle: bool = False
    ended: bool = False


class Receiver(Protocol):
    """What stands behind a gate: the head of a chain."""

    def process(self, index: int, values: Values, timestamps: Timestamps) -> None:
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


class Gate:
    """Turns what comes over the channels into what the operators are told."""

    def __init__(self, receiver: Receiver, channels: Iterable[tuple[tuple[int, int], int]]) -> None:
        self._receiver = receiver
        self.channels = {key: Channel(index) for key, index in channels}
        self._inputs = sorted({channel.input for channel in self.channels.values()})
        self._of_input = {i: [c for c in self.channels.values() if c.input == i] for i in self._inputs}
        self._input_watermark = dict.fromkeys(self._inputs, MIN_TIMESTAMP)
        self.combined: int = MIN_TIMESTAMP
        self._idle = False
        self.finished = False

    def data(self, key: tuple[int, int], values: Values, timestamps: Timestamps) -> None:
        """A block of records came."""
        channel = self.channels[key]
        if channel.idle:
            channel.idle = False
            self._advance(channel.input)
        self._receiver.process(channel.input, values, timestamps)

    def watermark(self, key: tuple[int, int], watermark: int) -> None:
        """A channel's watermark came; one that goes back is ignored."""
        channel = self.channels[key]
        if watermark > channel.watermark:
            channel.watermark = watermark
            channel.idle = False
            self._advance(channel.input)

    def idle(self, key: tuple[int, int], idle: bool) -> None:
        """A channel said that it idles, or that it is back."""
        channel = self.channels[key]
        channel.idle = idle
        self._advance(channel.input)

    def end(self, key: tuple[int, int]) -> None:
        """A channel ended."""
        channel = self.channels[key]
        channel.ended = True
        channel.watermark = MAX_WATERMARK
        self._advance(channel.input)
        if all(c.ended for c in self._of_input[channel.input]):
            self._receiver.end_input(channel.input)
        if all(c.ended for c in self.channels.values()):
            self.finished = True
            self._receiver.finish()

    def _advance(self, index: int) -> None:
        live = [c.watermark for c in self._of_input[index] if not c.idle]
        if live:
            watermark = min(live)
            if watermark > self._input_watermark[index]:
                self._input_watermark[index] = watermark
                self._receiver.watermark_input(index, watermark)
        all_live = [c.watermark for c in self.channels.values() if not c.idle]
        if not all_live:
            self._tell_idle(True)
            return
        self._tell_idle(False)
        watermark = min(all_live)
        if watermark > self.combined:
            self.combined = watermark
            self._receiver.watermark(watermark)

    def _tell_idle(self, idle: bool) -> None:
        if idle != self._idle:
            self._idle = idle
            self._receiver.idle(idle)
