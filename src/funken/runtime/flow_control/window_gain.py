"""Whether tasks have to wait for records although records are late: then windows are too small, and grow.

A window that is too large is a queue before the slowest task, which therefore never waits. On a machine whose cores are busy,
records are late however few are in flight, since every step of their way waits for a core. A smaller window then lets fewer
records through, what comes through makes the next window, and so on, down to blocks of a few records, which cost most. But
there every task finds its input empty now and then: that tells the two apart (decision 0022).

So if even the task that waits least has to wait for part of its blocks, the windows are doubled. If that only makes records
later, something else holds them up (Spark, a service that a function calls): it is undone, and not tried again for a while.
Without need the gain is lost, so a machine that has become idle has short queues again.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import exp

_PERIOD, _AGES = 0.5, 2.0
"""A period lasts so many seconds, and so many times the age of the records."""
_WAITS, _WORKS = 0.2, 0.1
"""A task that waits for more than the first part of its blocks lacks records, for less than the second: it has a queue."""
_MORE, _LATER = 1.1, 1.25
"""Doubled windows were in vain if less than so much more came through, and records were so much older than before."""
_NOT_AGAIN = 5.0
_LASTS = 15.0
"""Seconds in which the gain above 1 falls e-fold while there is a queue."""
_MOST = 256.0


class WindowGain:
    """By what the windows of a source are to be multiplied: ``gain``, from 1 to 256.

    >>> window = WindowGain()
    >>> window.begin(0.0, arrived=0)
    >>> window.advance(0.5, "task", arrived=500, age=0.1, waited=0.6); window.gain
    2.0
    >>> window.advance(1.0, "task", arrived=1500, age=0.1, waited=0.4); window.gain
    4.0
    >>> window.advance(1.5, "task", arrived=2500, age=0.15, waited=0.4); window.gain  # as many as before, and later
    2.0
    """

    def __init__(self) -> None:
        self.gain = 1.0
        self._since = self._pause = 0.0
        self._arrived = 0
        #: throughput and age before the windows were doubled
        self._before: tuple[float, float] | None = None
        self._ages: list[float] = []
        self._waited: dict[Hashable, tuple[float, int]] = {}

    def begin(self, now: float, arrived: int) -> None:
        """Begin anew: so many records had come through."""
        self.gain, self._before, self._pause = 1.0, None, 0.0
        self._next_period(now, arrived)

    def _next_period(self, now: float, arrived: int) -> None:
        self._since, self._arrived = now, max(arrived, self._arrived)
        self._ages.clear()
        self._waited.clear()

    def advance(self, now: float, task: Hashable, arrived: int, age: float, waited: float) -> None:
        """Note a report while windows hold the source back.

        So many records had ``arrived``, some were ``age`` s old; the task had to wait for that part of its blocks.
        """
        self._ages.append(max(0.0, age))
        total, count = self._waited.get(task, (0.0, 0))
        self._waited[task] = total + waited, count + 1
        seconds = now - self._since
        if 0 <= seconds < _PERIOD:
            return
        mean = sum(self._ages) / len(self._ages)
        if 0 <= seconds < _AGES * mean:
            return
        waits = min(total / count for total, count in self._waited.values())
        throughput = max(0, arrived - self._arrived) / max(seconds, _PERIOD)
        self._next_period(now, arrived)
        self._judge(now, max(0.0, seconds), throughput, mean, waits)

    def _judge(self, now: float, seconds: float, throughput: float, age: float, waits: float) -> None:
        if self._before is not None:
            before, younger = self._before
            self._before = None
            if throughput < _MORE * before and age > _LATER * younger:
                self.gain = max(1.0, self.gain / 2)
                self._pause = now + _NOT_AGAIN
                return
        if waits < _WORKS:
            self.gain = 1 + (self.gain - 1) * exp(-seconds / _LASTS)
        elif waits > _WAITS and not now < self._pause <= now + _NOT_AGAIN:
            self._before = throughput, age
            self.gain = min(2 * self.gain, _MOST)
