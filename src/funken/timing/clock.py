"""The clocks: the only module that asks the machine what time it is.

``now`` is processing time (ms since the epoch), ``wall`` the same in seconds with fractions, ``monotonic`` is for
intervals (s) and never steps back. Tests and the simulation use ``ManualClock`` and turn the hands themselves.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Protocol

_MOST_CALLS = 16


class Clock(Protocol):
    """What the runtime asks of a clock."""

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


class CoarseClock:
    """Processing time for hot loops: one call in 16 reads a clock, as long as nothing takes time.

    Where more than 1 ms passes between two readings, every call reads it. So the time lags by about 1 ms; and by 16 calls
    when what was fast becomes slow, until the next ``refresh()``, which is due when something else may have taken time.

    >>> hands = ManualClock(1000)
    >>> clock = CoarseClock(hands)
    >>> hands.advance(10), clock.now()
    (None, 1010)
    """

    __slots__ = ("_rest", "now")

    def __init__(self, clock: Clock) -> None:
        self._rest = repeat(0, 0)
        #: return processing time, ms since the epoch; a loop in C that costs what a call of a function does
        self.now: Callable[[], int] = chain.from_iterable(self._readings(clock.now)).__next__

    def _readings(self, read: Callable[[], int]) -> Iterator[Iterator[int]]:
        """Yield each reading as often as it is to be given out."""
        now, calls = read(), 1
        while True:
            before, now = now, read()
            calls = 1 if now - before > 1 else min(2 * calls, _MOST_CALLS)
            self._rest = repeat(now, calls)
            yield self._rest

    def refresh(self) -> None:
        """Read the clock at the next call."""
        deque(self._rest, 0)


class ManualClock:
    """A clock that stands still until told.

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
