"""Flow control: the sources of a task pause, limit records in flight, or send larger blocks while records queue behind them.

Spark's buffers bound what is in flight in bytes. Flow control is still theirs; this shortens the queues inside them. The
tasks report which records were late, and by how much (``QueueDelayMonitor``).

* For small records the buffers are a tenth of a second. A source that never had to wait *pauses* for as long as records
  were late, so that the queue drains to the target; records ingested before the pause ended do not measure the queue
  after it (decision 0002).
* Behind a slow function they are many seconds. From what it has read since the late records were born, and how fast these
  come through, a source estimates the length of the queue. If one pause cannot drain it, it keeps a *window*: no more
  records in flight than come through in the time that is aimed at. While nothing is late the window grows exponentially,
  and is then forgotten; a job begins with such a window (decision 0007), which grows with what comes through (``SlowStart``).
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
from collections import deque
from collections.abc import Hashable, Sequence
from math import exp, expm1, isfinite, sqrt

from funken.dataclass import dataclass
from funken.plan.physical import PhysicalPlan
from funken.runtime.exchange.writers import all_flush_soon
from funken.runtime.messages import QueueDelayReported, TaskId, Throttle
from funken.runtime.settings import TaskSettings
from funken.timing.clock import Clock, ThreadUsage

# ---- How long records queue before a task, as it reports to the sources; how these react is in
# ``InFlightWindow``.
#
# A task compares a block's age with the age of blocks that did not queue, which includes the difference between the
# clocks of two machines, and reports the excess over the target. That is the least age it has seen; but the least
# is too much if there was a queue from the first block on, so it begins with a guess, and too little if clocks
# differ by more or drift apart, so it is raised if all blocks that a task had to wait for are older, over some
# seconds.


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
    """Return the interval (s) of a task's reports: all sources take 1000 reports a second, more in very wide jobs.

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
        """Note a block: its birth, and its age when it was handled (s); ``waited``: the task waited for it.

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
        """Return the time (s) from a report to the next: a fast task knows little more ``every`` time.

        >>> queueing = QueueDelayMonitor(0.025)
        >>> for _ in range(4): queueing.on_block(11.0, 0.105)
        >>> queueing.interval(0.01), queueing.interval(0.25)
        (0.04, 0.25)
        """
        return max(every, _MANY_SECONDS) if self._blocks >= _MANY_BLOCKS else every

    def take_excess(self) -> tuple[float, float, float] | None:
        """Return the newest block since the last call that queued too long, and the share of blocks with a wait."""
        if self._late is None:
            return None
        (ingested_at, excess), self._late = self._late, None
        waited, self._blocks, self._idle = self._idle / self._blocks, 0, 0
        return ingested_at, excess, waited


# ---- The window that a job begins with grows with what comes through: as in TCP's slow start, it doubles per round
# trip.
#
# Nobody knows how fast the tasks are. Were the buffers filled before it is known, what is in them could be minutes
# of work; were the first window to grow with time alone, half a second would pass until fast tasks have enough to
# do (decision 0054). So when a job begins every task behind the sources says up to which records all have come
# through (``Beginning``: how long), and a source may have as many in flight as the task that is furthest behind has
# taken by then (``SlowStart``). A queue is as long as the job is old at most. While records are late that queued
# before a task the window stays what it is, unless it is less than what comes through in the time (``DRAINED``)
# that sources are let pause to drain a queue.
#
# A task that says nothing, for it is at its first record still, holds the window to what time alone allows.


FIRST_RECORDS = 100
"""The records that may be in flight before anything is known."""
_LASTS, _AWAITS = 0.5, 5.0
"""Tasks report their throughput for the first time (s) after the first record, and await that for the second."""
_ENDS = 1.0
"""A source asks for no more so long (s) after all had reported."""
_PROVEN, _FRESH = 0.3, 0.1
"""If nothing was late for so long, and all tasks have said so within the second time, the sources need no window. After late
records it does not grow for the second time."""
DRAINED, _MEASURED = 0.2, 0.05
"""The second: the time (s) over which the throughput is measured."""
QUEUED = 0.5
"""A task that had to wait for a larger part of its blocks has no queue: its late records came late."""


class Beginning:
    """The beginning of a job: while it lasts, a task reports its throughput.

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
        """The task has taken a block."""
        if not self._began:
            self._began = True
            self._end = min(self._end, now + _LASTS)

    def lasts(self, now: float) -> bool:
        """Return True if it is the job's beginning still."""
        return self._end - _AWAITS <= now < self._end


class SlowStart:
    """A limit of the records of a source in flight while a job begins.

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
        """A task has reported that so many of the source's records have come through, and their delay (s), if any.

        ``waited``: the part of its blocks for which it had to wait. Return whether the window is known, and the job begins still.
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
        """Return True if records were late just now."""
        return now <= self._late + _FRESH

    def _rate(self, through: int, now: float) -> float:
        """Return the records per second that came through lately, 0 if that is not known yet."""
        samples = self._samples
        samples.append((now, through))
        while len(samples) > 1 and samples[1][0] <= now - _MEASURED:
            samples.popleft()
        at, before = samples[0]
        return (through - before) / (now - at) if now - at >= _MEASURED else 0.0

    def proven(self, now: float) -> bool:
        """Return True if the tasks keep up with their input, so that no window is needed."""
        if self._since is None or now < max(self._since, self._late) + _PROVEN:
            return False
        return min(self._heard.values()) > now - _FRESH


# ---- How many records a task handles in one go, so that commands, ticks and flushes need not wait much longer than
# 20 ms for them.
#
# A piece begins small, since nobody knows how slow the records are, doubles while they are fast, and shrinks to
# what would have taken 20 ms if they took longer. On a machine whose cores are busy a call of 8 records takes 30 ms
# as well, of which it waits 27 ms for a core (measured: two sources and four tasks on one core). Smaller pieces do
# not shorten that; they only cost more. So once a call was too slow, what its records are not to blame for is taken
# off, until all is fast again (decision 0030):
#
# * Where the thread has to wait for a core, and gave it up a few times only, it did not wait for something in every record, but
#   for the interpreter's lock, while the thread that had it waited for a core: then only the CPU that it used counts.
# * Where it gave it up often, the time counts in which it was not ready to run.


PIECE_SECONDS = 0.02
_FIRST, _CALM = 16, 200
_GROWS = 0.4
"""A piece doubles if it took less than this share of the time: one of twice the records stays within it."""
_FEW_WAITS, _RECORDS_PER_WAIT = 4, 8
"""A thread that waits for the interpreter's lock does so about once per slice that it has of a core."""
_CROWDED, _LOOK_SECONDS = 0.03, 0.25
"""The cores are busy if the thread waits for one for more than this share of the time since a slow piece, so long ago or more."""


class PieceSize:
    """The size of a task's pieces, between 1 and ``most`` records; ``begin`` and ``end`` are called around each.

    >>> from funken.timing.clock import ManualClock
    >>> clock = ManualClock()
    >>> pieces = PieceSize(clock, most=2000)
    >>> for records in (16, 32, 64):  # a millisecond each: slow from the third on
    ...     begin = pieces.begin()
    ...     clock.advance(records // 16)
    ...     _ = pieces.end(begin, records)
    >>> pieces.records
    128
    """

    __slots__ = ("_calm", "_clock", "_crowded", "_delay", "_looked", "_most", "_usage", "_waits", "_watches", "records")

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self.records = min(_FIRST, most)
        self._watches = False
        #: whether the thread waited often in the last piece
        self._waits = False
        self._calm = 0
        #: whether cores are busy, since a piece that took too long ended then (s)
        self._crowded = False
        self._looked: tuple[float, float] | None = None
        self._usage: ThreadUsage | None = None
        self._delay: float | None = None

    def begin(self) -> float:
        """Return the beginning of a piece (``Clock.monotonic``)."""
        if self._watches:
            # Hot: 1 us and where the thread waits often 10, twice a piece, but only in the 200 pieces after one of over 20 ms
            self._usage = self._clock.thread_usage()
            self._delay = self._clock.run_delay() if self._waits or self._usage is None else None
        return self._clock.monotonic()

    def end(self, begin: float, records: int) -> float:
        """A piece of so many records ends; return the seconds that it took, and choose the size of the next."""
        took = self._clock.monotonic() - begin
        seconds, known = took, False
        if took > PIECE_SECONDS:
            self._look(begin + took)
        if self._watches:
            seconds, known = self._to_blame(took, records)
            self._calm = 0 if took > PIECE_SECONDS else self._calm + 1
            self._watches = self._calm < _CALM
        if seconds > PIECE_SECONDS and records > 1:
            shrunk = max(1, int(records * PIECE_SECONDS / seconds))
            # What a piece waited for a core is not known before one was too slow.
            self.records = shrunk if known else max(shrunk, min(self.records, records) // 2)
            self._watches, self._calm = True, 0
        elif records >= self.records < self._most and seconds < PIECE_SECONDS * _GROWS:
            self.records = min(self._most, self.records * 2)
        return took

    def _to_blame(self, took: float, records: int) -> tuple[float, bool]:
        """Return the time (s) that the records of a piece took by themselves, and whether that is known for sure."""
        before, after = self._usage, self._clock.thread_usage()
        if before is not None and after is not None:
            self._waits = after.waits - before.waits > min(_FEW_WAITS, records // _RECORDS_PER_WAIT)
            if not self._waits:
                return min(took, after.seconds - before.seconds) if self._crowded else took, True
        delay = self._clock.run_delay() if self._delay is not None else None
        if self._delay is None or delay is None:
            return took, before is None  # if nobody counts, there is no more to know
        return max(0.0, took - max(0.0, delay - self._delay)), True

    def _look(self, now: float) -> None:
        """Find out whether the cores are busy."""
        delay = self._clock.run_delay()
        if delay is None:
            return
        if self._looked is not None:
            at, before = self._looked
            self._crowded = delay - before > _CROWDED * (now - at)
        if self._looked is None or now > self._looked[0] + _LOOK_SECONDS:
            self._looked = now, delay


# ---- Whether tasks have to wait for records although records are late: then windows are too small, and grow.
#
# A window that is too large is a queue before the slowest task, which therefore never waits. On a machine whose
# cores are busy, records are late however few are in flight, since every step of their way waits for a core. A
# smaller window then lets fewer records through, what comes through makes the next window, and so on, down to
# blocks of a few records, which cost most. But there every task finds its input empty now and then: that tells the
# two apart (decision 0022).
#
# So if even the task that waits least has to wait for part of its blocks, the windows are doubled. If that only
# makes records later, something else holds them up (Spark, a service that a function calls): it is undone, and not
# tried again for a while. Without need the gain is lost, so a machine that has become idle has short queues again.


_GAIN_PERIOD, _AGES = 0.5, 2.0
"""A period lasts so many seconds, and so many times the age of the records."""
_WAITS, _WORKS = 0.2, 0.1
"""A task that waits for more than the first part of its blocks lacks records, for less than the second: it has a queue."""
_MORE, _LATER = 1.1, 1.25
"""Doubled windows were in vain if less than so much more came through, and records were so much older than before."""
_NOT_AGAIN = 5.0
_GAIN_LASTS = 15.0
"""Seconds in which the gain above 1 falls e-fold while there is a queue."""
_MOST = 256.0


class WindowGain:
    """The factor of the windows of a source: ``gain``, from 1 to 256.

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
        if 0 <= seconds < _GAIN_PERIOD:
            return
        mean = sum(self._ages) / len(self._ages)
        if 0 <= seconds < _AGES * mean:
            return
        waits = min(total / count for total, count in self._waited.values())
        throughput = max(0, arrived - self._arrived) / max(seconds, _GAIN_PERIOD)
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
            self.gain = 1 + (self.gain - 1) * exp(-seconds / _GAIN_LASTS)
        elif waits > _WAITS and not now < self._pause <= now + _NOT_AGAIN:
            self._before = throughput, age
            self.gain = min(2 * self.gain, _MOST)


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
"""The time (s) that may be in flight beyond the target and the least age: a window is as old as its report."""
_GROWTH, _FORGOTTEN = 0.2, 1.5
"""A window without reports grows e-fold in the first time, and is dropped after the second."""
_FALL = 1.0
"""The rate that a window is made of falls at most e-fold in this time."""
_DENSE_PIECE, _DENSE_REPORTS = 0.015, 2
"""Reports further apart than a piece of work takes and so many times a task's waits: not all records are late."""
_FEW_RECORDS, _VERY_LATE, _UNPROVEN = 8, 1.0, 4.0
"""Unless fewer records came through than the first, or they were later than the second: a single record may take longer. Then
the window keeps at most so many times what is measured."""
_HELD = 1 / 3
"""Records that wait for their block to fill are in flight as well: so much of the window's time at most."""
_FAIRNESS = 0.5
"""By how much more the window of a source grows that no report is about."""
_SHARE_SECONDS, _SHARE, _MOST_SHARE, _LONGEST_AGE = 1.0, 1.5, 0.75, 1.0
"""Over the first a source measures its share. It may have in flight what the mean source has (for the last at most), times so
much of the part that it lacks, at most the third. Where every source is at that, queues still get shorter."""
_YOUNG = 0.3
"""A measurement over less time may be far too high: the first piece of a block counts for all of it."""
_MOST_RATE = 1e9
"""Records per second."""
_QUANTUM, _LOOK_AGAIN = 0.01, 0.02
"""Sources read on when the first time's worth of records may be read, and look whether at least as often as the second."""
_FIRST_RATE, _FIRST_GROWTH = 5_000.0, 0.1
"""The window at the beginning, if the throughput is not known: records per second, e-fold in so long."""
_KEPT, _COARSE = 16_384, 0.001
"""Number of moments that are remembered, and their distance: it has to reach back to the oldest record in flight."""

_FIRST_FLUSH_DELAY, _MOST_FLUSH_DELAY, _NO_FLUSH_DELAY = 0.0005, 0.005, 0.0001
_DOUBLED, _LOST, _LEFT = 0.1, 1.0, 0.95
"""Patience doubles at most once in the first time, and after each of the second without reports so much of it is left."""


@dataclass(slots=True)
class _Progress:
    """A task's reports: records up to ``arrived`` had come through at ``since``, some were in flight before ``at``."""

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
        """Return the records that have come through and their time (s), the recent ones counting most."""
        seconds = max(0.0, now - max(self.since, in_flight_since))
        kept = max(0.0, 1 - seconds / _MEMORY)
        return self.records * kept + arrived - self.arrived, self.seconds * kept + seconds

    def reported(self, seen: float, now: float, dense: float) -> None:
        """Let the rate fall slowly, down to the measured one, and note the possible gain of time without reports."""
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
        """Return the limit of records read by now, ``gain``: times the measured number."""
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
        """The time (s) that sent records may wait for a full block while sources pause; ``inf``: the buffer timeout."""
        if None in self._limiting:
            return 0.0
        return min((self._progress[task].allowed for task in self._limiting), default=float("inf")) * _HELD

    @property
    def _limited_by_task(self) -> bool:
        return len(self._limiting) > (None in self._limiting)  # not only by the window that a job begins with

    def on_read(self, ingested_at: float, records: int) -> None:
        """Record the number of records read at a time."""
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
        """A task reported while the job begins: the first window is set by the throughput."""
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
        """Begin anew if the clock was set back: the measurements do not hold any more."""
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
        """Return the in-flight limit of a source that has less than its share, by Little's law."""
        if not mean_rate > 0 or now - progress.shared > _SHARE_SECONDS:
            return 0.0
        since = max(now - _SHARE_SECONDS, self._times[0])
        read = self._counts[-1] - self._counts[bisect_right(self._times, since) - 1]
        rate = read / max(now - since, _SEEN)
        lacks = min(max(0.0, _SHARE * (1 - rate / mean_rate)), _MOST_SHARE)
        return lacks * mean_rate * min(max(0.0, age), _LONGEST_AGE)

    def room(self, now: float, most: int) -> int:
        """Return the number of records that may be read now: one at least, ``most`` at most."""
        self._look(now)
        if self._begins:
            most = min(most, FIRST_RECORDS)
        elif self._progress:
            most = max(1, int(min(self._smallest(now)[0], most)))
        self._most = most
        return most

    def pause(self, now: float) -> int:
        """Return the pause (ms), 0 if there is none."""
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


# ---- One task's part in keeping queues short: it reports how long records queued before it, and throttles its own
# sources.
#
# The task calls ``on_block`` per block, and ``pause``, ``room`` and ``on_read`` around every poll of its sources;
# what runs the task calls ``on_idle``, ``take_report`` and ``min_flush_delay``. The rules are in
# ``QueueDelayMonitor``, ``InFlightWindow`` and ``SlowStart``.


class SourceThrottle:
    """Queue delays of a task, and the throttle of its sources; ``every``: the interval (s) of ``take_report``."""

    def __init__(self, plan: PhysicalPlan, task: TaskId, settings: TaskSettings, clock: Clock) -> None:
        self.every = report_interval(plan.widths)
        self._task = task
        self._clock = clock
        self._queue_delay = QueueDelayMonitor(settings.queueing_target / 1000)
        wanted = settings.together and settings.queueing_target > 0
        queues = len(plan.widths) > 1 or plan.has_loop
        windows = wanted and queues and all_flush_soon(plan.edges, settings.buffer_timeout)
        self._window = InFlightWindow(windows, plan.widths[0], self.every, sum(plan.widths[1:]))
        self._beginning = Beginning()
        self._reports_beginning = windows and task.stage > 0
        self._was_idle = False
        #: whether the sources paused when they were to be polled last
        self.pausing = False
        #: when the newest record that was handled was ingested
        self._newest = 0.0

    @property
    def tells_after(self) -> float:
        """The time (s) from a report to the next."""
        return self.every if self.begins() else self._queue_delay.interval(self.every)

    def on_start(self) -> None:
        """All tasks are open: sources start to read."""
        if self._reports_beginning:
            self._beginning.start(self._clock.wall())

    def begins(self) -> bool:
        """Return True if the task reports its throughput, also if it has nothing to do."""
        return self._reports_beginning and self._beginning.lasts(self._clock.wall())

    def on_block(self, ingested_at: float, age: float) -> None:
        """Record a processed block: when its oldest record was ingested, and its age (s)."""
        self._queue_delay.on_block(ingested_at, age, self._was_idle)
        self._was_idle = False
        self._newest = ingested_at
        if self._reports_beginning:
            self._beginning.on_block(ingested_at + age)

    def on_idle(self) -> None:
        """The task was idle: the next block has not queued before it."""
        self._was_idle = True

    def take_report(self, idle: bool) -> QueueDelayReported | None:
        """Return the excess queueing time, for the sources; ``None`` if there is none, and the job does not begin."""
        late = self._queue_delay.take_excess()
        if late is None:
            came = self._clock.wall() if idle else self._newest
            return QueueDelayReported(self._task, ingested_at=came) if came and self.begins() else None
        ingested_at, excess, waited = late
        return QueueDelayReported(self._task, ingested_at=ingested_at, excess=excess, waited=waited)

    def on_throttle(self, command: Throttle) -> None:
        """Apply the queue delays that tasks reported."""
        now = self._clock.wall()
        for late in command.reports:
            self._window.on_throttle(late.task, late.ingested_at, late.excess, now, late.waited, command.mean_rate)

    def pause(self) -> int:
        """Return the pause (ms) of the sources."""
        millis = self._window.pause(self._clock.wall())
        self.pausing = millis > 0
        return millis

    def must_send(self, oldest: float) -> bool:
        """Return True if records read at a time (s) wait too long for a full block while the sources pause."""
        return self._clock.wall() - oldest >= self._window.holds

    def room(self, now: float, most: int) -> int:
        """Return the number of records that may be read."""
        return self._window.room(now, most)

    def on_read(self, ingested_at: float, records: int) -> None:
        """Record the number of read records."""
        self._window.on_read(ingested_at, records)

    def on_poll(self, saturated: bool) -> None:
        """Record whether the sources have more records available."""
        self._window.saturated = saturated

    def min_flush_delay(self) -> float:
        """Return the shortest time (s) between flushes, also if the buffer timeout is shorter."""
        return self._window.min_flush_delay(self._clock.wall())
