"""The window that a job begins with grows with what comes through: as in TCP's slow start, it doubles per round trip.

Nobody knows how fast the tasks are. Were the buffers filled before it is known, what is in them could be minutes of work; were
the first window to grow with time alone, half a second would pass until fast tasks have enough to do (decision 0054). So when a
job begins every task behind the sources says up to which records all have come through (``Beginning``: how long), and a source
may have as many in flight as the task that is furthest behind has taken by then (``SlowStart``). A queue is as long as the job
is old at most. While records are late that queued before a task the window stays what it is, unless it is less than what comes
through in the time (``DRAINED``) that sources are let pause to drain a queue.

A task that says nothing, for it is at its first record still, holds the window to what time alone allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

FIRST_RECORDS = 100
"""What may be in flight before anything is known."""
_LASTS, _AWAITS = 0.5, 5.0
"""Tasks say what comes through for the first time (s) after the first record, and await that for the second."""
_ENDS = 1.0
"""A source asks for no more so long (s) after all had reported."""
_PROVEN, _FRESH = 0.3, 0.1
"""If nothing was late for so long, and all tasks have said so within the second time, the sources need no window. After late
records it does not grow for the second time."""
DRAINED, _MEASURED = 0.2, 0.05
"""The second: over how many seconds it is measured what comes through."""
QUEUED = 0.5
"""A task that had to wait for a larger part of its blocks has no queue: what is late came late."""


class Beginning:
    """Whether a task is to say what comes through.

    >>> beginning = Beginning()
    >>> beginning.start(10.0); beginning.lasts(14.0), beginning.lasts(16.0)
    (True, False)
    >>> beginning.start(20.0); beginning.on_block(21.0); beginning.lasts(21.4), beginning.lasts(21.6)
    (True, False)
    """

    def __init__(self) -> None:
        self._end = float("-inf")
        self._began = False

    def start(self, now: float) -> None:
        """The sources start to read."""
        self._end = now + _AWAITS
        self._began = False

    def on_block(self, now: float) -> None:
        """The task was given a block."""
        if not self._began:
            self._began = True
            self._end = min(self._end, now + _LASTS)

    def lasts(self, now: float) -> bool:
        """Return whether it is the job's beginning still."""
        return self._end - _AWAITS <= now < self._end


class SlowStart:
    """How many records a source may have in flight while a job begins.

    ``tasks``: how many are behind it, all of which have to report, ``every`` so often (s).

    >>> start = SlowStart(tasks=2)
    >>> start.on_report("one", 100, now=10.0)
    False
    >>> start.on_report("other", 90, now=10.0), start.through, start.window  # as many as came through, and the first ones
    (True, 90, 190)
    >>> for task in "one", "other":
    ...     _ = start.on_report(task, 250, now=10.1, excess=0.03)
    >>> start.through, start.window  # 160 in 0.1 s
    (250, 320)
    """

    def __init__(self, tasks: int, every: float = 0.0) -> None:
        self._tasks = tasks
        self._drained = DRAINED + every
        self._arrived: dict[Hashable, int] = {}
        self._heard: dict[Hashable, float] = {}
        #: since when all have reported; when records were late
        self._since: float | None = None
        self._late = float("-inf")
        #: how many had come through when, back to the newest that is old enough
        self._samples: deque[tuple[float, int]] = deque()
        #: so many of the source's records have come through all tasks
        self.through = 0
        self.window = FIRST_RECORDS

    def on_report(self, task: Hashable, arrived: int, now: float, excess: float = 0.0, waited: float = 0.0) -> bool:
        """A task has said that so many of the source's records have come through, by how much (s) they were late, if they were.

        ``waited``: for what part of its blocks it had to wait. Return whether the window is known, and the job begins still.
        """
        self._arrived[task] = max(arrived, self._arrived.get(task, 0))
        self._heard[task] = now
        if excess > 0 and waited < QUEUED:
            self._late = now
        if len(self._arrived) < self._tasks:
            return False
        if self._since is None:
            self._since = now
        self.through = through = min(self._arrived.values())
        if not self.is_late(now):
            self.window = max(self.window, FIRST_RECORDS + through)
        self.window = max(self.window, int(self._rate(through, now) * self._drained))
        return now < self._since + _ENDS

    def is_late(self, now: float) -> bool:
        """Return whether records were late just now."""
        return now <= self._late + _FRESH

    def _rate(self, through: int, now: float) -> float:
        """Return how many records per second came through lately, 0 if that is not known yet."""
        samples = self._samples
        samples.append((now, through))
        while len(samples) > 1 and samples[1][0] <= now - _MEASURED:
            samples.popleft()
        at, before = samples[0]
        return (through - before) / (now - at) if now - at >= _MEASURED else 0.0

    def proven(self, now: float) -> bool:
        """Return whether the tasks take what comes, so that no window is needed."""
        if self._since is None or now < max(self._since, self._late) + _PROVEN:
            return False
        return min(self._heard.values()) > now - _FRESH
