"""What the sources of a task do about records that queue behind them: pause, hold less in flight, send larger blocks.

Spark's buffers bound what is in flight in bytes. Flow control is still theirs; this shortens the queues inside them. The
tasks tell which records came too late, and by how much (``queueing.py``).

* For small records the buffers are a tenth of a second. A source that never had to wait *pauses* for as long as records
  came too late, so that the queue drains to the target; what was born before the pause ended says nothing about the queue
  after it (decision 0002).
* Behind a slow function they are many seconds. From what it has read since the late records were born, and how fast these
  come through, a source knows how long the queue is. If that is more than one pause drains, it holds a *window*: no more
  records in flight than come through in the time that is aimed at. While nothing is late the window grows exponentially,
  and is then forgotten; a job begins with such a window (decision 0007).
* Where sources read few records at a time, and the tasks behind them cannot keep up with so many small blocks, partly filled
  ones wait longer than the buffer timeout: ``patience``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from dataclasses import dataclass
from math import expm1

# All in seconds, unless they say something else.
_LONGEST_PAUSE = 0.25
_SEEN = 0.1
"""Reports over at least so long tell how fast records come through."""
_MEMORY = 1.0
"""What came through before that does not count."""
_SLACK = 0.05
"""How much more may be in flight than the target and the least age: a window is as old as the report it is made of."""
_GROWTH, _FORGOTTEN = 0.2, 1.5
"""A window of which nothing is heard grows e-fold in the first time, and is dropped after the second."""
_QUANTUM, _LOOK_AGAIN = 0.01, 0.02
"""Sources read on when the first time's worth of records may be read, and look whether at least as often as the second."""
_FIRST_RECORDS, _FIRST_RATE, _FIRST_GROWTH = 100, 5_000.0, 0.1
"""The window at the beginning: records, records per second, e-fold in so long."""
_KEPT, _COARSE = 16_384, 0.001
"""How many moments are remembered, and how far they are apart: it has to reach back to the oldest record in flight."""

_FIRST_PATIENCE, _MOST_PATIENCE, _NO_PATIENCE = 0.0005, 0.005, 0.0001
_DOUBLED, _LOST, _LEFT = 0.1, 1.0, 0.95
"""Patience doubles at most once in the first time, and after each of the second without reports so much of it is left."""


@dataclass(slots=True)
class _Progress:
    """What a task has told: records up to ``arrived`` were with it at ``since``, the last report came at ``at``."""

    arrived: int
    since: float
    at: float
    allowed: float = 0.0
    records: float = 0.0
    seconds: float = 0.0
    growth: float = _GROWTH
    narrow: bool = False

    @property
    def rate(self) -> float:
        """How many records per second come through, at least one."""
        return max(1.0, self.records) / max(self.seconds, _COARSE)

    def learn(self, arrived: int, now: float) -> None:
        """Note how far the task is."""
        if arrived <= self.arrived and self.narrow:
            return
        seconds = now - self.since
        kept = max(0.0, 1 - seconds / _MEMORY)
        self.records = self.records * kept + max(0, arrived - self.arrived)
        self.seconds = self.seconds * kept + seconds
        self.arrived, self.since = max(arrived, self.arrived), now

    def limit(self, now: float) -> float:
        """Return how many records may have been read by now."""
        silent = max(0.0, now - self.at)
        return self.arrived + self.rate * (self.allowed + self.growth * expm1(min(silent / self.growth, 30.0)))


class Pacing:
    """The sources of one task; times in s by its own clock. ``windows``: whether they may hold less in flight.

    >>> pacing = Pacing(windows=True)
    >>> for i in range(2000):  # 1000 records a millisecond, a hundredth of which come through
    ...     pacing.read(i / 1000, 1000)
    ...     if i > 1800:
    ...         pacing.throttle("slow", born=i / 100_000, excess=i / 1000, now=i / 1000)
    >>> pacing.pause(2.0) > 0, pacing.narrow
    (True, True)
    """

    def __init__(self, windows: bool) -> None:
        #: whether the sources had no need to wait when they were last asked for records
        self.saturated = False
        self._windows = self._begins = windows
        self._resume = 0.0
        self._times: list[float] = []
        self._counts: list[int] = []
        self._progress: dict[Hashable, _Progress] = {}
        self._patience = self._changed = 0.0
        self._most, self._few = 0, False

    @property
    def narrow(self) -> bool:
        """Whether what is in flight is limited in records."""
        return any(progress.narrow for progress in self._progress.values())

    def read(self, born: float, records: int) -> None:
        """Note how many records were read at a time."""
        self._few = records < self._most / 4
        if not records or not self._windows:
            return
        if self._begins:
            self._begins = False
            # in the name of no task
            self._progress[None] = _Progress(0, born, born, 0.0, _FIRST_RATE, 1.0, _FIRST_GROWTH, narrow=True)
        if self._times and born < self._times[-1] + _COARSE:
            self._counts[-1] += records
            return
        if len(self._times) >= _KEPT:
            del self._times[: _KEPT // 2]
            del self._counts[: _KEPT // 2]
        self._times.append(born)
        self._counts.append(records + (self._counts[-1] if self._counts else 0))

    def throttle(self, task: Hashable, born: float, excess: float, now: float) -> None:
        """A task saw records that were born at a time, and came so much too late (s)."""
        if self._windows and self._times:
            self._learn(task, born, excess, now)
        if self.saturated and not self._few:
            limited = any(progress.narrow for task, progress in self._progress.items() if task is not None)
            if born > self._resume and not limited:
                self._resume = now + min(excess, _LONGEST_PAUSE)
        elif now > self._changed + _DOUBLED:
            self._patience = min(max(2 * self._patience, _FIRST_PATIENCE), _MOST_PATIENCE)
            self._changed = now

    def _learn(self, task: Hashable, born: float, excess: float, now: float) -> None:
        arrived = self._counts[max(0, bisect_right(self._times, born) - 1)]
        progress = self._progress.get(task)
        if progress is None or now - progress.at > _FORGOTTEN:
            begins = self._progress.get(None)
            if begins is not None and len(self._progress) == 1:
                begins.at += 1.5 * _SEEN  # the first window does not grow until more is known
            self._progress[task] = _Progress(arrived, now, now)
            return
        progress.at = now
        # the target, the least age, and the way of the report
        allowed = max(0.0, now - born - excess) + _SLACK
        if progress.narrow:
            progress.learn(arrived, now)
            # The least of late: a report that had to wait until this task read it says too much.
            progress.allowed = min(allowed, progress.allowed * 1.05)
        elif now - progress.since >= _SEEN:
            progress.learn(arrived, now)
            progress.allowed = allowed
            progress.narrow = (self._counts[-1] - progress.arrived) / progress.rate > allowed + _LONGEST_PAUSE

    def room(self, now: float, most: int) -> int:
        """Return how many records may be read now: one at least, ``most`` at most."""
        if self._begins:
            most = min(most, _FIRST_RECORDS)
        elif self._progress:
            most = max(1, int(min(self._narrowest(now)[0], most)))
        self._most = most
        return most

    def pause(self, now: float) -> int:
        """Return how long to pause (ms), 0: not at all."""
        left = self._resume - now
        if self._progress:
            room, rate = self._narrowest(now)
            left = max(left, min(max(1.0, rate * _QUANTUM) - room, rate * _LOOK_AGAIN) / rate)
        return max(1, int(left * 1000)) if left > 0 else 0

    def _narrowest(self, now: float) -> tuple[float, float]:
        found = (float("inf"), 1.0)
        read = self._counts[-1] if self._counts else 0
        for task, progress in list(self._progress.items()):
            if now - progress.at > _FORGOTTEN:
                del self._progress[task]
            elif progress.narrow:
                found = min(found, (progress.limit(now) - read, progress.rate))
        return found

    def patience(self, now: float) -> float:
        """Return for how long partly filled blocks are to wait at least (s)."""
        if self._patience and now > self._changed + _LOST:
            self._patience = self._patience * _LEFT if self._patience > _NO_PATIENCE else 0.0
            self._changed = now
        return self._patience
