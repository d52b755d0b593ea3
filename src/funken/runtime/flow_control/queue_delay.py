"""How long records queue before a task, as it reports to the sources; how these react is in ``in_flight_window.py``.

A task compares a block's age with the age of blocks that did not queue, which includes the difference between
the clocks of two machines, and reports the excess over the target. That is the least age it has seen; but the least is too
much if there was a queue from the first block on, so it begins with a guess, and too little if clocks differ by more or
drift apart, so it is raised if all blocks that a task had to wait for are older, over some seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

_SECONDS, _MOST_SECONDS = 0.01, 0.25
_REPORTS = 1000
"""A task reports once in the first time at most and once in the second at least, while records are late, for sources to take so
many reports a second. 0.005 and 2000 kept two cores 3 % busier, and queues were as long (decision 0052)."""
_MANY_BLOCKS, _MANY_SECONDS = 4, 0.04
"""A task that has worked off the first since its last report waits for the second (decision 0070)."""
_FIRST_GUESS = 0.05
_PERIOD = 5.0
_ENOUGH = 20


def report_interval(widths: Sequence[int]) -> float:
    """Return how often (s) a task may report: all sources together take 1000 reports a second, more in jobs that are very wide.

    >>> report_interval([2, 2]), report_interval([4, 4]), report_interval([16, 16])
    (0.01, 0.032, 0.25)
    """
    return min(max(_SECONDS, sum(widths) * widths[0] / _REPORTS), _MOST_SECONDS)


class QueueDelayMonitor:
    """Measures the queue delay before one task."""

    def __init__(self, target: float) -> None:
        self._target = target
        self._least = _FIRST_GUESS
        #: of the blocks that were waited for since ``_since``: how many, and the least age
        self._waited, self._awaited, self._since = 0, float("inf"), 0.0
        self._late: tuple[float, float] | None = None
        #: since the last report: all blocks, and those that were waited for
        self._blocks = self._idle = 0

    def on_block(self, ingested_at: float, age: float, waited: bool = False) -> None:
        """Note a block: when it was born, and how old it was when it was handled (s); whether the task ``waited`` for it.

        >>> queueing = QueueDelayMonitor(0.025)
        >>> queueing.on_block(10.0, 0.005); queueing.take_excess()
        >>> queueing.on_block(11.0, 0.105); born, excess, waited = queueing.take_excess(); born, round(excess, 3), waited
        (11.0, 0.075, 0.0)
        """
        self._blocks += 1
        self._least = min(self._least, age)
        if waited:
            self._idle += 1
            self._wait(ingested_at, age)
        excess = age - self._least - self._target
        if excess > 0 and self._target > 0:
            self._late = (ingested_at, excess)

    def _wait(self, ingested_at: float, age: float) -> None:
        self._waited += 1
        self._awaited = min(age, self._awaited)
        if ingested_at > self._since + _PERIOD:
            if self._waited >= _ENOUGH:
                self._least = max(self._least, self._awaited)
            self._waited, self._awaited, self._since = 0, float("inf"), ingested_at

    def interval(self, every: float) -> float:
        """Return how long (s) after a report the next may follow: a fast task knows little more ``every`` time.

        >>> queueing = QueueDelayMonitor(0.025)
        >>> for _ in range(4): queueing.on_block(11.0, 0.105)
        >>> queueing.interval(0.01), queueing.interval(0.25)
        (0.04, 0.25)
        """
        return max(every, _MANY_SECONDS) if self._blocks >= _MANY_BLOCKS else every

    def take_excess(self) -> tuple[float, float, float] | None:
        """Return the newest block since the last call that queued too long, and for what part of the blocks the task waited."""
        if self._late is None:
            return None
        (ingested_at, excess), self._late = self._late, None
        waited, self._blocks, self._idle = self._idle / self._blocks, 0, 0
        return ingested_at, excess, waited
