"""How many records a task handles in one go, so that commands, ticks and flushes need not wait much longer than 20 ms for them.

A piece begins small, since nobody knows how slow the records are, doubles while they are fast, and shrinks to what would have
taken 20 ms if they took longer. On a machine whose cores are busy a call of 8 records takes 30 ms as well, of which it waits
27 ms for a core (measured: two sources and four tasks on one core). Smaller pieces do not shorten that; they only cost more. So
once a call was too slow, the time in which the thread was ready to run but had no core is taken off, until all is fast again
(decision 0030).
"""

from __future__ import annotations

from funken.timing.clock import Clock

PIECE_SECONDS = 0.02
_FIRST, _CALM = 16, 200


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

    __slots__ = ("_calm", "_clock", "_delay", "_most", "_watches", "records")

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self.records = min(_FIRST, most)
        self._watches = False
        self._calm = 0
        self._delay: float | None = None

    def begin(self) -> float:
        """Return when a piece begins (``Clock.monotonic``)."""
        if self._watches:
            self._delay = self._clock.run_delay()
        return self._clock.monotonic()

    def end(self, begin: float, records: int) -> float:
        """A piece of so many records ends; return the seconds that it took, and choose the size of the next."""
        took = self._clock.monotonic() - begin
        seconds = took
        if self._watches:
            # Hot: 20 us a piece, but only in the 200 pieces after one of over 20 ms
            after = self._clock.run_delay()
            if self._delay is not None and after is not None:
                seconds = max(0.0, took - max(0.0, after - self._delay))
            self._calm = 0 if took > PIECE_SECONDS else self._calm + 1
            self._watches = self._calm < _CALM
        if seconds > PIECE_SECONDS and records > 1:
            shrunk = max(1, int(records * PIECE_SECONDS / seconds))
            # What a piece waited for a core is not known before one was too slow.
            self.records = shrunk if self._watches else max(shrunk, min(self.records, records) // 2)
            self._watches, self._calm = True, 0
        elif records >= self.records < self._most and seconds < PIECE_SECONDS / 4:
            self.records = min(self._most, self.records * 2)
        return took
