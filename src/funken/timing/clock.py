"""Clocks: the only module that reads the machine's time.

``now`` is processing time (ms since the epoch), ``wall`` the same in seconds with fractions, ``monotonic`` is for
intervals (s) and never steps back. Tests and the simulation use ``ManualClock`` and turn the hands themselves.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the runtime needs of a clock."""

    def now(self) -> int:
        """Return processing time, ms since the epoch."""
        ...

    def wall(self) -> float:
        """Return the same in s."""
        ...

    def monotonic(self) -> float:
        """Return s since some fixed moment."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """Return processing time, ms since the epoch."""
        return time.time_ns() // 1_000_000

    def wall(self) -> float:
        """Return s since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return s since some fixed moment."""
        return time.perf_counter()


class ManualClock:
    """A clock that only moves when it is advanced.

    >>> clock = ManualClock(1000)
    >>> clock.advance(5)
    >>> clock.now(), clock.wall()
    (1005, 1.005)
    """

    def __init__(self, now: int = 0) -> None:
        self._now = now

    def advance(self, millis: int) -> None:
        """Turn the hands forward."""
        self._now += millis

    def set(self, now: int) -> None:
        """Set the hands."""
        self._now = now

    def now(self) -> int:
        """Return the time set."""
        return self._now

    def wall(self) -> float:
        """Return the time set, in s."""
        return self._now / 1000

    def monotonic(self) -> float:
        """Return the time set, in s."""
        return self._now / 1000
