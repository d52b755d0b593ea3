"""How many records an operator processes before it reads the clock again.

A stride takes about 1 ms at the pace of the one before it, or doubles; a first one is a single record. So between two looks at
the clock there is 1 ms or one record, whatever is longer, as long as the pace does not change.
"""

from __future__ import annotations

from collections.abc import Callable

from funken.timing.clock import Clock

FEW = 64
"""The longest stride while a timer is registered: it may fire so many records late, when slow ones follow fast ones."""

MANY = 1 << 20
"""The longest stride while no timer is registered."""

_MILLIS = 1


class Stride:
    """The length of the next stride.

    >>> stride = Stride()
    >>> lengths = []
    >>> for _ in range(6):
    ...     lengths.append(stride.records)
    ...     stride.took(stride.records, 0, FEW)
    >>> lengths, stride.took(16, 4, FEW), stride.records, stride.took(4, 40_000, FEW), stride.records
    ([1, 2, 4, 8, 16, 32], None, 4, None, 1)
    """

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records = 1

    def took(self, records: int, millis: int, most: int) -> None:
        """Follow a stride of so many records that took so many ms."""
        if millis > _MILLIS:
            self.records = max(1, records * _MILLIS // millis)
        elif records == self.records:
            self.records *= 2
        self.records = min(self.records, most)


class TaskTime:
    """The processing time of a task: ``latest`` is what ``read`` returned last, for what happens often within a stride."""

    __slots__ = ("_now", "latest")

    def __init__(self, clock: Clock) -> None:
        self._now: Callable[[], int] = clock.now
        self.latest = self._now()

    def read(self) -> int:
        """Read the clock (ms since the epoch)."""
        self.latest = now = self._now()
        return now


__all__ = ["FEW", "MANY", "Stride", "TaskTime"]
