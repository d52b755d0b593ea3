"""One watermark and one status out of those of several channels: Flink's ``StatusWatermarkValve``.

The watermark is the minimum over the channels that are *aligned*, and never decreases. A channel that becomes idle is not
aligned any more, and is left out. When it is active again it is ignored until its own watermark has caught up with the
valve's: else a source that was idle for an hour would stop event time for all until it has read an hour's records. When
the last channel becomes idle, and it held the minimum, the highest watermark of any of them counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from funken.dataclass import dataclass
from funken.ids import MIN_TIMESTAMP


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
