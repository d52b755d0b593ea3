"""Session windows: as long as a key's records keep coming, however long that is.

A record opens the window ``[t, t + gap)``; windows of a key that overlap or touch become one. The gap is fixed, or
taken from the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from funken.errors import InvalidProgram
from funken.ids import MAX_WATERMARK
from funken.windowing.assigners import MergingWindowAssigner
from funken.windowing.durations import DurationLike, millis
from funken.windowing.windows import TimeWindow


class SessionWindowTimeGapExtractor:
    """Says how long a session stays open after a record; a plain callable does as well."""

    def extract(self, element: Any) -> int:
        """Return the gap in milliseconds."""
        raise NotImplementedError


class _Sessions(MergingWindowAssigner):
    """What all session assigners share."""

    def merge_windows(self, windows: Iterable[TimeWindow], callback: Any) -> None:
        """Merge the windows that overlap or touch."""
        TimeWindow.merge_windows(windows, callback)

    def gap_of(self, element: Any) -> int:
        """Return the gap after this record, in milliseconds."""
        raise NotImplementedError

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        """Return the session that this record alone would make."""
        start = timestamp if self.is_event_time() else context.get_current_processing_time()
        end = start + self.gap_of(element)
        return [TimeWindow(start, end if end < MAX_WATERMARK else MAX_WATERMARK)]


@dataclass(frozen=True)
class _FixedGap(_Sessions):
    gap: int

    def __post_init__(self) -> None:
        if self.gap <= 0:
            raise InvalidProgram(f"{type(self).__name__} parameters must satisfy 0 < gap: the gap is {self.gap} ms.")

    @classmethod
    def with_gap(cls, size: DurationLike) -> Any:
        """Return sessions that end after a silence of ``size``."""
        return cls(millis(size))

    def gap_of(self, element: Any) -> int:
        """Return the fixed gap."""
        return self.gap


@dataclass(frozen=True)
class _DynamicGap(_Sessions):
    extractor: Any

    def __post_init__(self) -> None:
        if not callable(getattr(self.extractor, "extract", self.extractor)):
            raise InvalidProgram(
                f"{type(self).__name__} was given {self.extractor!r}: pass a callable of the record, or an object with "
                "a method extract(element), that returns the gap."
            )

    @classmethod
    def with_dynamic_gap(cls, extractor: SessionWindowTimeGapExtractor | Callable[[Any], DurationLike]) -> Any:
        """Return sessions that stay open after each record for as long as ``extractor`` says."""
        return cls(extractor)

    def gap_of(self, element: Any) -> int:
        """Ask the extractor; a gap that is not above zero fails the job."""
        gap = millis(getattr(self.extractor, "extract", self.extractor)(element))
        if gap <= 0:
            raise InvalidProgram(
                f"Dynamic session time gap must satisfy 0 < gap: {type(self).__name__} got {gap} ms for {element!r}."
            )
        return gap


class DynamicEventTimeSessionWindows(_DynamicGap):
    """Sessions in event time whose gap each record decides."""

    def is_event_time(self) -> bool:
        """Return True."""
        return True


class DynamicProcessingTimeSessionWindows(_DynamicGap):
    """Sessions in processing time whose gap each record decides."""

    def is_event_time(self) -> bool:
        """Return False."""
        return False


class EventTimeSessionWindows(_FixedGap):
    """Sessions in event time.

    >>> EventTimeSessionWindows.with_gap(5).assign_windows("record", 8, None)
    [TimeWindow(start=8, end=13)]
    >>> EventTimeSessionWindows.with_dynamic_gap(lambda record: 2 * record).assign_windows(7, 100, None)
    [TimeWindow(start=100, end=114)]
    """

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[Any], DurationLike],
    ) -> DynamicEventTimeSessionWindows:
        """Return sessions whose gap each record decides."""
        return DynamicEventTimeSessionWindows(extractor)

    def is_event_time(self) -> bool:
        """Return True."""
        return True


class ProcessingTimeSessionWindows(_FixedGap):
    """Sessions in processing time."""

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[Any], DurationLike],
    ) -> DynamicProcessingTimeSessionWindows:
        """Return sessions whose gap each record decides."""
        return DynamicProcessingTimeSessionWindows(extractor)

    def is_event_time(self) -> bool:
        """Return False."""
        return False
