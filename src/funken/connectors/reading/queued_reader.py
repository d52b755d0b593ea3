"""The part that most readers share: a queue of splits, read from the front.

A split is a frozen dataclass with an ``id``; the position is in the split at the front, which a reader replaces as it
reads on. A split is reported as finished by the poll *after* the one that returned its last record, so that its
watermark still counts while that record is on its way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from funken.connectors.base import SourceReader


class QueuedReader(SourceReader):
    """A reader that needs only ``poll``: it reads ``queue[0]``, keeps the position there and calls ``end_split``."""

    def __init__(self) -> None:
        self.queue: deque[Any] = deque()
        self._ended: list[str] = []

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Read these after those that are there."""
        self.queue.extend(splits)

    def end_split(self) -> None:
        """Drop the split at the front: it is read to its end."""
        self._ended.append(self.queue.popleft().id)

    def split_finished(self) -> list[str]:
        """Return the ids of splits that ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the splits with their positions."""
        return list(self.queue)
