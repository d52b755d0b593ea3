"""How many records a task handles in one go, so that commands, ticks and flushes need not wait much longer than 20 ms for them.

A piece begins small, since nobody knows how slow the records are, doubles while they are fast, and shrinks to what would have
taken 20 ms if they took longer. On a machine whose cores are busy a call of 8 records takes 30 ms as well, of which it waits
27 ms for a core (measured: two sources and four tasks on one core). Smaller pieces do not shorten that; they only cost more. So
once a call was too slow, what its records are not to blame for is taken off, until all is fast again (decision 0030):

* Where the thread has to wait for a core, and gave it up a few times only, it did not wait for something in every record, but for
  the interpreter's lock, while the thread that had it waited for a core: then only the CPU that it used counts.
* Where it gave it up often, the time counts in which it was not ready to run.
"""

from __future__ import annotations

from funken.timing.clock import Clock, ThreadUsage

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
        """Return when a piece begins (``Clock.monotonic``)."""
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
        """Return how long (s) the records of a piece took by themselves, and whether that is known for sure."""
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
