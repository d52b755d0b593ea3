"""The demo's program: how often each word occurs, in sliding event-time windows of 5 s every 1 s.

``windowed_counts`` is the program; the rest gives it lines with event time. A text has no times of its own, so line *i*
of a text happens at *i* times 10 ms, however fast it is read: the result is the same at every speed, parallelism and
way of running. Lines from a socket happen when they arrive. Workers import this module: it needs nothing but Funken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pydoc_data.topics import topics
from typing import Any, ClassVar

from funken import (
    DataGeneratorSource,
    DataStream,
    SlidingEventTimeWindows,
    Source,
    SourceReader,
    SplitEnumerator,
    TimeWindow,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from funken.connectors.base import NEED_SPLITS, Batch, NeedSplits, QueuedReader, Wait
from funken.connectors.context import ConnectorContext
from funken.connectors.rate_limit import Pace
from funken.dataclass import dataclass
from funken.timing.clock import SystemClock

SIZE = timedelta(seconds=5)
SLIDE = timedelta(seconds=1)
SIZE_MS, SLIDE_MS = (round(duration.total_seconds() * 1000) for duration in (SIZE, SLIDE))
MILLIS_PER_LINE = 10

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")

# ---- the program


def windowed_counts(lines: DataStream) -> DataStream:
    """Count the words of lines: one record ``(window start in ms, word, count)`` per window and word in it."""
    return (
        lines.flat_map(words)
        .map(lambda word: (word, 1))
        .key_by(lambda pair: pair[0])
        .window(SlidingEventTimeWindows.of(SIZE, SLIDE))
        .reduce(lambda one, other: (one[0], one[1] + other[1]), with_window_start)
        .uid("counts")
    )


def words(line: str) -> list[str]:
    """Split a line into words, in lower case.

    >>> words("Don't panic: it's only 42.")
    ["don't", 'panic', "it's", 'only']
    """
    return _WORD.findall(line.lower())


def with_window_start(word: str, window: TimeWindow, counts: list[tuple[str, int]]) -> list[tuple[int, str, int]]:
    """Turn the one count of a window into a result."""
    return [(window.start, word, count) for _, count in counts]


# ---- its text


@cache
def manual() -> list[str]:
    """Return the lines of Python's reference manual, as ``help()`` shows them; every CPython has it."""
    return [line for text in topics.values() for line in text.splitlines()]


def manual_line(index: int) -> str:
    """Return a line of the manual."""
    return manual()[index]


def manual_source() -> Source:
    """Return the manual as a source of lines."""
    return DataGeneratorSource(manual_line, count=len(manual()))


@dataclass(frozen=True, slots=True)
class TimedSplit:
    """The lines left of the wrapped source, and the number of the first of them."""

    lines: tuple[Any, ...]
    number: int = 0
    id: ClassVar[str] = "lines"


@dataclass(frozen=True)
class TimedLines(Source):
    """A bounded source with event time by line number, read by one subtask, at ``per_second`` lines if that is given.

    >>> from funken import CollectionSource
    >>> source = TimedLines(CollectionSource(["a", "b", "c"]), per_second=100)
    >>> reader = source.reader(ConnectorContext("lines", 0, 1))
    >>> reader.open()
    >>> reader.add_splits(source.enumerator(1).next_splits(0))
    >>> reader.poll(10, now=0), reader.poll(10, now=0), reader.poll(10, now=30)
    (Batch(values=['a'], timestamps=[0], split='lines'), Wait(millis=10),
     Batch(values=['b', 'c'], timestamps=[10, 20], split='lines'))
    """

    lines: Source
    per_second: float | None = None
    max_parallelism = 1

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator."""
        return TimedEnumerator(self.lines.enumerator(1))

    def reader(self, context: ConnectorContext) -> SourceReader:
        """Make a reader."""
        return TimedReader(self.lines.reader(context), self.per_second)


class TimedEnumerator(SplitEnumerator):
    """Hands out everything there is as one split, since lines are counted from the first to the last."""

    def __init__(self, lines: SplitEnumerator) -> None:
        self._lines = lines
        self._given = False

    def start(self) -> None:
        """Look at what is to be read."""
        self._lines.start()

    def next_splits(self, subtask: int) -> list[Any] | None:
        """Return the one split, once."""
        if self._given:
            return None
        self._given = True
        splits: list[Any] = []
        while more := self._lines.next_splits(0):
            splits += more
        return [TimedSplit(tuple(splits))]

    def snapshot(self) -> Any:
        """Return whether the split is given, and what it would be made of."""
        return self._given, self._lines.snapshot()

    def restore(self, snapshot: Any) -> None:
        """Resume from a snapshot."""
        self._given, lines = snapshot
        self._lines.restore(lines)


class TimedReader(QueuedReader):
    """Numbers the lines of another reader."""

    def __init__(self, lines: SourceReader, per_second: float | None) -> None:
        super().__init__()
        self._lines = lines
        self._rate = per_second
        self._pace: Pace | None = None

    def open(self) -> None:
        """Open the reader of the lines."""
        self._lines.open()

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Take the split."""
        super().add_splits(splits)
        for split in splits:
            self._lines.add_splits(split.lines)

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return the lines that are due, with their times."""
        if not self.queue:
            return NEED_SPLITS
        if self._rate is not None:
            self._pace = self._pace or Pace(self._rate, now)
            limit = min(limit, self._pace.due(now))
            if limit <= 0:
                return Wait(self._pace.wait(now))
        found = self._lines.poll(limit, now)
        if isinstance(found, NeedSplits):
            self.end_split()
        if not isinstance(found, Batch):
            return found
        split: TimedSplit = self.queue[0]
        end = split.number + len(found.values)
        self.queue[0] = replace(split, number=end)
        if self._pace is not None:
            self._pace.spend(len(found.values))
        times = range(split.number * MILLIS_PER_LINE, end * MILLIS_PER_LINE, MILLIS_PER_LINE)
        return Batch(found.values, list(times), split.id)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the split with the lines left."""
        return [replace(split, lines=tuple(self._lines.snapshot_state(checkpoint_id))) for split in self.queue]

    def close(self) -> None:
        """Close the reader of the lines."""
        self._lines.close()


# ---- its time


class ArrivalTime(WatermarkGenerator):
    """The time of day as watermark: windows close on time even if nothing arrives."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit the time of day."""
        output.emit_watermark(SystemClock().now() - 1)


def arrival_time(line: str, previous: int) -> int:
    """Return the time of day (ms)."""
    return SystemClock().now()


BY_LINE_NUMBER = WatermarkStrategy.for_monotonous_timestamps()
"""For ``TimedLines``."""

BY_ARRIVAL = WatermarkStrategy.for_generator(ArrivalTime).with_timestamp_assigner(arrival_time)
"""For lines that come when they come."""
