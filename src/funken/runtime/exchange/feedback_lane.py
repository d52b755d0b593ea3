"""The way back into a task that hosts heads of loops: blocks that came back, until the task takes them.

Whatever comes is taken in, so that no tail ever waits for a head: a loop that multiplies its records fills the disk, not its
edges. The task takes what came back before it takes new input, so that loops drain; but only what had come when it last took
new input, so that a loop that never drains holds neither input nor barriers up.
"""

from __future__ import annotations

from typing import Protocol

from funken import config
from funken.io.spill import ByteSpillSpace, SpillingQueue
from funken.runtime.settings import FeedbackSettings


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


__all__ = ["FeedbackLane"]
