"""Rate limiting as a wrapper: any source, at most so many records per second.

A rate is kept by elapsed time: the first record comes at once, and a stall is made up for, but for at most one second of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from funken.connectors.base import (
    Batch,
    Boundedness,
    ConnectorContext,
    NeedSplits,
    Source,
    SourceReader,
    SplitEnumerator,
    Wait,
)
from funken.dataclass import dataclass
from funken.errors import InvalidProgram

BURST_MS = 1000
"""After a stall, at most the records that were due in this time (ms) are made up for."""

LONGEST_WAIT_MS = 1000
"""A source is asked again after so long (ms) at the latest; arrivals wake a task that waits."""


class Pace:
    """A limit of records per second, counting the records due; a stall longer than ``BURST_MS`` is not made up for.

    >>> pace = Pace(per_second=2, now=0)
    >>> [pace.due(now) for now in (0, 499, 500, 60_000)]
    [1, 1, 2, 2]
    """

    def __init__(self, per_second: float, now: int) -> None:
        self._rate = per_second
        self._burst = max(1, int(per_second * BURST_MS / 1000))
        self._start = self._last = now
        self._spent = 0

    def due(self, now: int) -> int:
        """Return the number of records that are due; a clock that steps back costs nothing but the step."""
        self._start -= max(0, self._last - now)
        self._last = now
        due = int((now - self._start) * self._rate // 1000) + 1 - self._spent
        if due > self._burst:
            self._spent += due - self._burst
            return self._burst
        return due

    def spend(self, count: int) -> None:
        """Count records as made."""
        self._spent += count

    def wait(self, now: int) -> int:
        """Return the time (ms) until the next record is due: at least 1, at most ``LONGEST_WAIT_MS``."""
        at = self._start + math.ceil(self._spent * 1000 / self._rate)
        return max(1, min(at - now, LONGEST_WAIT_MS))


@dataclass(frozen=True)
class RateLimitedSource(Source):
    """Reads another source, at most ``per_second`` records per second of all subtasks together.

    >>> from funken import CollectionSource
    >>> source = RateLimitedSource(CollectionSource("abc"), per_second=500)
    >>> reader = source.reader(ConnectorContext("letters"))
    >>> reader.open()
    >>> reader.add_splits(source.enumerator(parallelism=1).next_splits(subtask=0))
    >>> reader.poll(10, now=0).values, reader.poll(10, now=0), reader.poll(10, now=9).values
    (['a'], Wait(millis=2), ['b', 'c'])

    Raises ``InvalidProgram`` for a rate that is not positive:

    >>> RateLimitedSource(CollectionSource("abc"), per_second=0)
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: 0 records per second is no rate; pass a positive number.
    """

    source: Source
    per_second: float
    boundedness: Boundedness = field(init=False)
    max_parallelism: int | None = field(init=False)

    def __post_init__(self) -> None:
        """Check the rate."""
        if not 0 < self.per_second < math.inf:
            raise InvalidProgram(f"{self.per_second} records per second is no rate; pass a positive number.")
        object.__setattr__(self, "boundedness", self.source.boundedness)
        object.__setattr__(self, "max_parallelism", self.source.max_parallelism)

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator of the other source."""
        return self.source.enumerator(parallelism)

    def reader(self, context: ConnectorContext) -> SourceReader:
        """Make a reader with an equal share of the rate."""
        return RateLimitedReader(self.source.reader(context), context, self.per_second / context.parallelism)


class RateLimitedReader(SourceReader):
    """Lets another reader read the records that are due."""

    def __init__(self, reader: SourceReader, context: ConnectorContext, per_second: float) -> None:
        super().__init__(context)  # the other reader may be a program's own, which does not know it
        self._reader = reader
        self._rate = per_second
        self._pace: Pace | None = None
        self.pauses_splits = reader.pauses_splits

    def open(self) -> None:
        """Open the other reader."""
        self._reader.open()

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Pass the splits on."""
        self._reader.add_splits(splits)

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return the records that are due."""
        pace = self._pace = self._pace or Pace(self._rate, now)
        due = min(limit, pace.due(now))
        if due <= 0:
            return Wait(pace.wait(now))
        found = self._reader.poll(due, now)
        if isinstance(found, Batch):
            pace.spend(len(found.values))
        return found

    def split_finished(self) -> list[str]:
        """Return the splits that the other reader has finished."""
        return self._reader.split_finished()

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the splits of the other reader: the rate begins anew after a restore."""
        return self._reader.snapshot_state(checkpoint_id)

    def pause_or_resume_splits(self, pause: Sequence[str], resume: Sequence[str]) -> None:
        """Let the other reader pause splits."""
        self._reader.pause_or_resume_splits(pause, resume)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the other reader."""
        self._reader.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the other reader."""
        self._reader.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """Close the other reader."""
        self._reader.close()
