"""How the sources of a task react to records that queue behind them: pause, limit what is in flight, send larger blocks.

Spark's buffers bound what is in flight in bytes. Flow control is still theirs; this shortens the queues inside them. The
tasks report which records were late, and by how much (``queue_delay.py``).

* For small records the buffers are a tenth of a second. A source that never had to wait *pauses* for as long as records
  were late, so that the queue drains to the target; records ingested before the pause ended do not measure the queue
  after it (decision 0002).
* Behind a slow function they are many seconds. From what it has read since the late records were born, and how fast these
  come through, a source estimates the length of the queue. If one pause cannot drain it, it keeps a *window*: no more
  records in flight than come through in the time that is aimed at. While nothing is late the window grows exponentially,
  and is then forgotten; a job begins with such a window (decision 0007), which grows with what comes through (``slow_start.py``).
* A source that pauses goes on filling its blocks, up to the buffer timeout; under a window not for much of its time (``holds``,
  decision 0068).
* Where sources read few records at a time, and the tasks behind them cannot keep up with so many small blocks, partly filled
  ones wait longer than the buffer timeout: ``min_flush_delay``.

Reports may be late, wrong, duplicated or about the records of other sources, and the clock may be set. Always holds:

* **Liveness.** A source that has records reads at least one within ``LONGEST_WAIT`` of the last: ``pause`` never goes beyond
  that, and ``room`` is never 0.
* **Recovery.** ``RECOVERY`` after the last report there is neither pause nor window. A pause is at most ``_LONGEST_PAUSE`` long,
  and the next one begins only after the source has read again. A window is dropped ``_FORGOTTEN`` after the last report that
  found records of this source in flight; other reports do not count. A clock that is set back lets it begin anew.
* **A window does not shrink by its own effect.** The rate it is made of is measured only while records of this source are in
  flight, so waiting does not lower it. It falls at most e-fold in ``_FALL``, and what it gained while there were no reports it
  keeps: lateness that comes and goes does not close it. One record, and more for its root, is always added.
* **Shares even out.** A source that few reports are about has less than its share of a task, and its window grows faster. One
  that reads much less than the sources read on average, while records of others are late before the same task, may have in
  flight most of what such a source has: its rate would only tell how little it was given (decision 0030).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Hashable
from math import exp, expm1, isfinite, sqrt

from funken.dataclass import dataclass
from funken.runtime.flow_control.slow_start import DRAINED, FIRST_RECORDS, QUEUED, SlowStart
from funken.runtime.flow_control.window_gain import WindowGain

# All in seconds, unless stated.
LONGEST_WAIT = 1.0
"""A source that has records reads at least one this long after the last, whatever was reported."""
RECOVERY = 2.0
"""This long after the last report a source reads as if there had been none."""
_LONGEST_PAUSE = 0.25
_SEEN = 0.1
"""The shortest time over which the rate of records is measured."""
_MEMORY = 0.5
"""Older records do not count."""
_SLACK = 0.05
"""How much more may be in flight than the target and the least age: a window is as old as the report it is made of."""
_GROWTH, _FORGOTTEN = 0.2, 1.5
"""A window without reports grows e-fold in the first time, and is dropped after the second."""
_FALL = 1.0
"""The rate that a window is made of falls at most e-fold in this time."""
_DENSE_PIECE, _DENSE_REPORTS = 0.015, 2
"""Reports further apart than a piece of work takes and so many times what a task waits between them: not all records are late."""
_FEW_RECORDS, _VERY_LATE, _UNPROVEN = 8, 1.0, 4.0
"""Unless fewer records came through than the first, or they were later than the second: a single record may take longer. Then
the window keeps at most so many times what is measured."""
_HELD = 1 / 3
"""What waits for its block to fill is in flight as well, and comes through no sooner: so much of the window's time at most."""
_FAIRNESS = 0.5
"""By how much more the window of a source grows that no report is about."""
_SHARE_SECONDS, _SHARE, _MOST_SHARE, _LONGEST_AGE = 1.0, 1.5, 0.75, 1.0
"""Over the first a source measures its share. It may have in flight what the mean source has (for the last at most), times so
much of the part that it lacks, at most the third. Where every source is at that, queues still get shorter."""
_YOUNG = 0.3
"""What was measured over less may be far too much: the first piece of a block counts for all of it."""
_MOST_RATE = 1e9
"""Records per second."""
_QUANTUM, _LOOK_AGAIN = 0.01, 0.02
"""Sources read on when the first time's worth of records may be read, and look whether at least as often as the second."""
_FIRST_RATE, _FIRST_GROWTH = 5_000.0, 0.1
"""The window at the beginning, if it is not known what comes through: records per second, e-fold in so long."""
_KEPT, _COARSE = 16_384, 0.001
"""How many moments are remembered, and how far they are apart: it has to reach back to the oldest record in flight."""

_FIRST_FLUSH_DELAY, _MOST_FLUSH_DELAY, _NO_FLUSH_DELAY = 0.0005, 0.005, 0.0001
_DOUBLED, _LOST, _LEFT = 0.1, 1.0, 0.95
"""Patience doubles at most once in the first time, and after each of the second without reports so much of it is left."""


@dataclass(slots=True)
class _Progress:
    """What one task has reported: records up to ``arrived`` had come through at ``since``, some were in flight before ``at``."""

    arrived: int
    since: float
    at: float
    allowed: float = 0.0
    rate: float = 1.0
    records: float = 0.0
    seconds: float = 0.0
    growth: float = _GROWTH
    limited: bool = False
    #: when the task saw the late records of the last report, but for a constant
    seen: float = 0.0
    #: by what power of e the rate has grown in time without reports since more records came through
    gained: float = 0.0
    #: how much less than its share of the reports is about this source: 1 if none is, 0 or less if it has its share
    underserved: float = 0.0
    #: when a report was about records of other sources
    shared: float = float("-inf")
    #: how many records it may have in flight for the sake of its share
    owed: float = 0.0

    def measure(self, arrived: int, in_flight_since: float, now: float) -> tuple[float, float]:
        """Return how many records have come through in how many seconds, the recent ones counting most."""
        seconds = max(0.0, now - max(self.since, in_flight_since))
        kept = max(0.0, 1 - seconds / _MEMORY)
        return self.records * kept + arrived - self.arrived, self.seconds * kept + seconds

    def reported(self, seen: float, now: float, dense: float) -> None:
        """Let the rate fall slowly, down to what is measured, and note what time without reports it may have gained."""
        # Reports that had to wait until this task read them come all at once.
        gap = min(max(0.0, seen - self.seen), max(0.0, now - self.at), _FORGOTTEN)
        self.rate = max(1.0, self.rate * exp(-min(gap, dense) / _FALL))
        self.gained += max(0.0, gap - dense) / _GROWTH

    def learn(self, arrived: int, in_flight_since: float, now: float, excess: float, drained: bool = False) -> None:
        """Update the rate: more records have come through; ``drained``: all, nobody knows since when."""
        came, expected = arrived - self.arrived, self.records / max(self.seconds, _COARSE) * (now - self.since)
        young = self.seconds < _YOUNG
        records, seconds = self.measure(arrived, self.since if drained else in_flight_since, now)
        measured = max(1.0, records) / max(seconds, _COARSE)
        if drained and measured < self.rate:  # records that were not sent could not come through
            measured = self.rate
        else:
            self.records, self.seconds = records, seconds
        if self.limited and not young:
            # A task that stood still did not report either, but nothing came through.
            kept = self.rate * exp(min(self.gained, 30.0)) if came >= expected / 2 else self.rate
            if came <= _FEW_RECORDS or excess > _VERY_LATE:
                kept = min(kept, measured * _UNPROVEN)
            measured = max(measured, kept)
        self.gained = 0.0
        self.rate = min(measured, _MOST_RATE)
        self.arrived, self.since = arrived, now

    def limit(self, now: float, gain: float) -> float:
        """Return how many records may have been read by now, ``gain``: times what is measured."""
        silent = max(0.0, now - self.at)
        allowed = self.allowed * (1 + _FAIRNESS * max(0.0, self.underserved))
        window = gain * self.rate * (allowed + self.growth * expm1(min(silent / self.growth, 30.0)))
        window = max(window, self.owed)
        return self.arrived + window + max(1.0, sqrt(window))


class InFlightWindow:
    """The sources of one task; times in s by its own clock. ``windows``: whether they may hold less in flight.

    ``sources``: how many tasks have such sources, ``tasks``: how many are behind them and report how a job begins; ``every``: how
    often one reports at most (s).

    >>> pacing = InFlightWindow(windows=True)
    >>> for i in range(2000):  # 1000 records a millisecond, a hundredth of which come through
    ...     pacing.on_read(i / 1000, 1000)
    ...     if i > 1800:
    ...         pacing.on_throttle("slow", ingested_at=i / 100_000, excess=i / 1000, now=i / 1000)
    >>> pacing.pause(2.0) > 0, pacing.holds < 0.1
    (True, True)
    """

    def __init__(self, windows: bool, sources: int = 1, every: float = 0.005, tasks: int = 0) -> None:
        #: whether the sources had records available when they were last polled
        self.saturated = False
        self._windows = self._begins = windows
        self._sources, self._tasks, self._every = sources, tasks, every
        self._start = SlowStart(tasks, every)
        self._dense = _DENSE_PIECE + _DENSE_REPORTS * every
        self._now = self._last_read = self._resume = 0.0
        self._times = array("d")
        self._counts = array("q")
        self._progress: dict[Hashable, _Progress] = {}
        #: the tasks whose progress limits what is in flight
        self._limiting: set[Hashable] = set()
        #: how many records may have been read, and the rate of the task that says so; and when that was found out
        self._limit, self._limit_rate, self._limit_at = float("inf"), 1.0, float("-inf")
        self._gain = WindowGain()
        self._min_flush_delay = self._changed = 0.0
        self._most, self._few = 0, False

    @property
    def holds(self) -> float:
        """How long (s) what was sent may wait for a block to fill while the sources pause; ``inf``: for its buffer timeout."""
        if None in self._limiting:
            return 0.0
        return min((self._progress[task].allowed for task in self._limiting), default=float("inf")) * _HELD

    @property
    def _limited_by_task(self) -> bool:
        return len(self._limiting) > (None in self._limiting)  # not only by the window that a job begins with

    def on_read(self, ingested_at: float, records: int) -> None:
        """Record how many records were read at a time."""
        self._look(ingested_at)
        self._few = records < self._most / 4
        if records:
            self._last_read = ingested_at
        if not records or not self._windows:
            return
        if self._begins:
            self._begins = False
            self._start = SlowStart(self._tasks, self._every)
            # in the name of no task
            self._progress[None] = _Progress(
                0, ingested_at, ingested_at, rate=_FIRST_RATE, growth=_FIRST_GROWTH, limited=True
            )
            self._limiting.add(None)
            self._limit_at = float("-inf")
        if self._times and ingested_at < self._times[-1] + _COARSE:
            self._counts[-1] += records
            return
        if len(self._times) >= _KEPT:
            del self._times[: _KEPT // 2]
            del self._counts[: _KEPT // 2]
        self._times.append(ingested_at)
        self._counts.append(records + (self._counts[-1] if self._counts else 0))

    def on_throttle(
        self, task: Hashable, ingested_at: float, excess: float, now: float, waited: float = 0.0, mean_rate: float = 0.0
    ) -> None:
        """A task received records ingested at a time, so much (s) too late, or in time (0).

        ``waited``: for what part of its blocks it had to wait. ``mean_rate``: how many records per second the sources read on
        average, 0 if nobody knows.
        """
        self._look(now)
        if not (isfinite(ingested_at) and 0 <= excess < float("inf")):
            return
        self._limit_at = float("-inf")
        if self._tasks and None in self._progress and self._times:
            self._begin(task, ingested_at, excess, now, waited)
            if waited >= QUEUED or self._start.through >= self._counts[-1]:
                return  # there is no queue
        if not excess:
            return
        if self._windows and self._times:
            self._learn(task, ingested_at, excess, now, waited, mean_rate)
        if self.saturated and not self._few:
            # A clock elsewhere may be ahead: records were born before they queued, and this source's before it read last.
            if min(ingested_at, now - excess, self._last_read) > self._resume and not self._limited_by_task:
                self._resume = now + min(excess, _LONGEST_PAUSE)
        elif now > self._changed + _DOUBLED:
            self._min_flush_delay = min(max(2 * self._min_flush_delay, _FIRST_FLUSH_DELAY), _MOST_FLUSH_DELAY)
            self._changed = now

    def _begin(self, task: Hashable, ingested_at: float, excess: float, now: float, waited: float) -> None:
        """A task reported while the job begins: the first window is what comes through allows."""
        start, window = self._start, self._progress[None]
        if start.on_report(task, self._read_by(ingested_at), now, excess, waited):
            records = float(start.window)
            if not start.is_late(now):  # reports that are rare do not close the window that time has opened
                records = max(records, window.limit(now, 1.0) - start.through)
            window.arrived, window.at = start.through, now
            window.rate, window.allowed = records / DRAINED, DRAINED
            if start.through >= self._counts[-1]:
                self._resume = min(self._resume, now)
        if start.proven(now):
            self._drop(None)
        if not excess:
            self._drop(task)

    def _drop(self, task: Hashable) -> None:
        self._progress.pop(task, None)
        self._limiting.discard(task)

    def _read_by(self, at: float) -> int:
        return self._counts[max(0, bisect_right(self._times, at) - 1)]

    def _look(self, now: float) -> None:
        """Begin anew if the clock was set back: what is known says nothing about what comes."""
        if now < self._now:
            del self._times[:]
            del self._counts[:]
            self._progress.clear()
            self._limiting.clear()
            self._limit_at = float("-inf")
            self._last_read = self._resume = self._changed = now
            self._begins = self._windows
        self._now = now

    def _learn(
        self, task: Hashable, ingested_at: float, excess: float, now: float, waited: float, mean_rate: float
    ) -> None:
        position = max(0, bisect_right(self._times, ingested_at) - 1)
        own = 0 <= ingested_at - self._times[position] < _COARSE
        read = self._counts[-1]
        progress = self._progress.get(task)
        if progress is None or now - progress.at > _FORGOTTEN:
            begins = self._progress.get(None)
            if begins is not None and len(self._progress) == 1:
                begins.at += 1.5 * _SEEN  # the first window does not grow until more is known
            self._progress[task] = _Progress(self._counts[position], now, now)
            self._limiting.discard(task)
            return
        if not own:
            progress.shared = now
        progress.owed = self._owed(progress, now, now - ingested_at, mean_rate)
        arrived = max(self._counts[position], progress.arrived)
        in_flight_since = self._times[min(bisect_right(self._counts, progress.arrived), len(self._times) - 1)]
        if arrived >= read:
            if arrived > progress.arrived:
                if progress.limited:
                    progress.learn(arrived, in_flight_since, now, excess, drained=True)
                progress.arrived, progress.since, progress.at = arrived, now, now
            return
        limited = self._limited_by_task
        if limited:
            self._gain.advance(now, task, arrived, now - ingested_at, waited)
        # the target, the least age, and the way of the report
        allowed = max(0.0, now - ingested_at - excess) + _SLACK
        if not progress.limited:
            if now - progress.since >= _SEEN:
                progress.learn(arrived, in_flight_since, now, excess)
                progress.allowed = allowed
                progress.limited = (read - arrived) / progress.rate > allowed + _LONGEST_PAUSE
                if progress.limited:
                    self._limiting.add(task)
                    if not limited:
                        self._gain.begin(now, arrived)
        else:
            progress.reported(ingested_at + excess, now, self._dense)
            if arrived > progress.arrived:
                progress.learn(arrived, in_flight_since, now, excess)
            # The least of recent values: a report that waited to be read overstates the delay.
            progress.allowed = min(allowed, progress.allowed * 1.05)
        weight = min(max(0.0, now - progress.at), 1.0)
        progress.underserved += (1 - self._sources * own - progress.underserved) * weight / (1 + weight)
        progress.at, progress.seen = now, ingested_at + excess

    def _owed(self, progress: _Progress, now: float, age: float, mean_rate: float) -> float:
        """Return how many records of a source that has less than its share may be in flight, by Little's law."""
        if not mean_rate > 0 or now - progress.shared > _SHARE_SECONDS:
            return 0.0
        since = max(now - _SHARE_SECONDS, self._times[0])
        read = self._counts[-1] - self._counts[bisect_right(self._times, since) - 1]
        rate = read / max(now - since, _SEEN)
        lacks = min(max(0.0, _SHARE * (1 - rate / mean_rate)), _MOST_SHARE)
        return lacks * mean_rate * min(max(0.0, age), _LONGEST_AGE)

    def room(self, now: float, most: int) -> int:
        """Return how many records may be read now: one at least, ``most`` at most."""
        self._look(now)
        if self._begins:
            most = min(most, FIRST_RECORDS)
        elif self._progress:
            most = max(1, int(min(self._smallest(now)[0], most)))
        self._most = most
        return most

    def pause(self, now: float) -> int:
        """Return how long to pause (ms), 0 if not at all."""
        self._look(now)
        left = self._resume - now
        if left > _LONGEST_PAUSE:
            left, self._resume = 0.0, now
        if self._progress:
            room, rate = self._smallest(now)
            left = max(left, min(max(1.0, rate * _QUANTUM) - room, rate * _LOOK_AGAIN) / rate)
        left = min(left, self._last_read + LONGEST_WAIT - now)
        return max(1, int(left * 1000)) if left > 0 else 0

    def _smallest(self, now: float) -> tuple[float, float]:
        # Hot: twice per poll, over every task; with 16 it was a tenth of what a source did (decision 0051)
        if not self._limit_at <= now < self._limit_at + _COARSE:
            self._limit_at = now
            found = (float("inf"), 1.0)
            for task, progress in list(self._progress.items()):
                if not -2 * _SEEN < now - progress.at <= _FORGOTTEN:
                    self._drop(task)
                elif progress.limited:
                    found = min(found, (progress.limit(now, self._gain.gain), max(1.0, progress.rate)))
            self._limit, self._limit_rate = found
        read = self._counts[-1] if self._counts else 0
        return self._limit - read, self._limit_rate

    def min_flush_delay(self, now: float) -> float:
        """Return the shortest time between flushes of partly filled blocks (s)."""
        if self._min_flush_delay and now > self._changed + _LOST:
            self._min_flush_delay = self._min_flush_delay * _LEFT if self._min_flush_delay > _NO_FLUSH_DELAY else 0.0
            self._changed = now
        return self._min_flush_delay
