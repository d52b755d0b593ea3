"""Session windows: as long as a key's records keep coming, however long that is.

A record opens the window ``[t, t + gap)``; windows of a key that overlap or touch become one. The gap is fixed, or
taken from the record. Merging is that of Flink's ``TimeWindow.mergeWindows`` (``windows.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.ids import MAX_WATERMARK
from funken.io.durations import DurationLike, duration_ms
from funken.types.generics import Generic, T_contra
from funken.windowing.assigners import MergingWindowAssigner
from funken.windowing.windows import TimeWindow


class SessionWindowTimeGapExtractor(Generic[T_contra]):
    """Says how long (ms) a session stays open after a record; a plain callable does as well.

    >>> class LongerWithACart(SessionWindowTimeGapExtractor):
    ...     def extract(self, element):
    ...         return 1_800_000 if element["cart"] else 60_000
    >>> sessions = EventTimeSessionWindows.with_dynamic_gap(LongerWithACart())
    >>> sessions.assign_windows({"cart": True}, 0, None), sessions.assign_windows({"cart": False}, 0, None)
    ([TimeWindow(start=0, end=1800000)], [TimeWindow(start=0, end=60000)])
    """

    def extract(self, element: T_contra) -> int:
        """Return the gap in milliseconds."""
        raise NotImplementedError


class _Sessions(MergingWindowAssigner[T_contra, TimeWindow]):
    """What all session assigners share."""

    def merge_windows(self, windows: Iterable[TimeWindow], callback: Any) -> None:
        """Merge the windows that overlap or touch.

        >>> from types import SimpleNamespace
        >>> show = SimpleNamespace(merge=lambda windows, result: print(len(windows), "->", result))
        >>> sessions = EventTimeSessionWindows.with_gap(5)
        >>> sessions.merge_windows([TimeWindow(0, 5), TimeWindow(4, 9), TimeWindow(20, 25)], show)
        2 -> TimeWindow(start=0, end=9)
        """
        TimeWindow.merge_windows(windows, callback)

    def gap_of(self, element: Any) -> int:
        """Return the gap after this record (ms).

        >>> EventTimeSessionWindows.with_gap(5000).gap_of("record")
        5000
        """
        raise NotImplementedError

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        """Return the session that this record alone would make.

        >>> EventTimeSessionWindows.with_gap(5).assign_windows("record", 8, context=None)
        [TimeWindow(start=8, end=13)]
        """
        start = timestamp if self.is_event_time() else context.get_current_processing_time()
        end = start + self.gap_of(element)
        return [TimeWindow(start, end if end < MAX_WATERMARK else MAX_WATERMARK)]


@dataclass(frozen=True)
class _FixedGap(_Sessions[object]):
    gap: int

    def __post_init__(self) -> None:
        if self.gap <= 0:
            raise InvalidProgram(f"{type(self).__name__} parameters must satisfy 0 < gap: the gap is {self.gap} ms.")

    @classmethod
    def with_gap(cls, size: DurationLike) -> Self:
        """Return sessions that end after a silence of ``size``; raises ``InvalidProgram`` if that is not above 0.

        >>> from datetime import timedelta
        >>> ProcessingTimeSessionWindows.with_gap(timedelta(minutes=30))
        ProcessingTimeSessionWindows(gap=1800000)
        """
        return cls(duration_ms(size))

    def gap_of(self, element: Any) -> int:
        """Return the fixed gap (ms).

        >>> ProcessingTimeSessionWindows.with_gap(5000).gap_of("record")
        5000
        """
        return self.gap


@dataclass(frozen=True)
class _DynamicGap(_Sessions[T_contra]):
    extractor: Any

    def __post_init__(self) -> None:
        if not callable(getattr(self.extractor, "extract", self.extractor)):
            raise InvalidProgram(
                f"{type(self).__name__} was given {self.extractor!r}: pass a callable of the record, or an object with "
                "a method extract(element), that returns the gap."
            )

    @classmethod
    def with_dynamic_gap(
        cls, extractor: SessionWindowTimeGapExtractor[T_contra] | Callable[[T_contra], DurationLike]
    ) -> Self:
        """Return sessions that stay open after each record for as long as ``extractor`` says.

        >>> DynamicEventTimeSessionWindows.with_dynamic_gap(len).assign_windows("four", 0, None)
        [TimeWindow(start=0, end=4)]
        """
        return cls(extractor)

    def gap_of(self, element: Any) -> int:
        """Ask the extractor; a gap that is not above zero fails the job with ``InvalidProgram``.

        >>> DynamicEventTimeSessionWindows.with_dynamic_gap(len).gap_of("")
        Traceback (most recent call last):
        ...
        funken.errors.InvalidProgram: Dynamic session time gap must satisfy 0 < gap: DynamicEventTimeSessionWindows
        got 0 ms for ''.
        """
        gap = duration_ms(getattr(self.extractor, "extract", self.extractor)(element))
        if gap <= 0:
            raise InvalidProgram(
                f"Dynamic session time gap must satisfy 0 < gap: {type(self).__name__} got {gap} ms for {element!r}."
            )
        return gap


class DynamicEventTimeSessionWindows(_DynamicGap[T_contra]):
    """Sessions in event time whose gap each record decides.

    >>> sessions = DynamicEventTimeSessionWindows.with_dynamic_gap(lambda click: click["gap"])
    >>> sessions.assign_windows({"gap": 40}, 100, None), sessions.is_event_time()
    ([TimeWindow(start=100, end=140)], True)
    """

    def is_event_time(self) -> bool:
        """Return True."""
        return True


class DynamicProcessingTimeSessionWindows(_DynamicGap[T_contra]):
    """Sessions in processing time whose gap each record decides.

    >>> from funken.testing import WindowContext
    >>> sessions = DynamicProcessingTimeSessionWindows.with_dynamic_gap(lambda click: click["gap"])
    >>> sessions.assign_windows({"gap": 40}, 0, WindowContext(now=100)), sessions.is_event_time()
    ([TimeWindow(start=100, end=140)], False)
    """

    def is_event_time(self) -> bool:
        """Return False."""
        return False


class EventTimeSessionWindows(_FixedGap):
    """Sessions in event time.

    >>> from funken import WatermarkStrategy
    >>> from funken.testing import local
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda click, _: click[1])
    >>> clicks = local([("ann", 0), ("bob", 2), ("ann", 4), ("ann", 20)]).assign_timestamps_and_watermarks(strategy)
    >>> visits = clicks.key_by(lambda click: click[0]).window(EventTimeSessionWindows.with_gap(5))
    >>> visits.reduce(lambda visit, click: (*visit, click[1])).execute_and_collect(limit=9)
    [('bob', 2), ('ann', 0, 4), ('ann', 20)]
    >>> EventTimeSessionWindows.with_dynamic_gap(lambda click: click[1]).is_event_time()
    True
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
    """Sessions in processing time.

    >>> from funken.testing import WindowContext
    >>> sessions = ProcessingTimeSessionWindows.with_gap(5000)
    >>> sessions.assign_windows("record", 0, WindowContext(now=8000)), sessions.is_event_time()
    ([TimeWindow(start=8000, end=13000)], False)
    >>> sessions = ProcessingTimeSessionWindows.with_dynamic_gap(lambda record: record["gap"])
    >>> sessions.assign_windows({"gap": 40}, 0, WindowContext(now=8000))
    [TimeWindow(start=8000, end=8040)]
    """

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[Any], DurationLike],
    ) -> DynamicProcessingTimeSessionWindows:
        """Return sessions whose gap each record decides."""
        return DynamicProcessingTimeSessionWindows(extractor)

    def is_event_time(self) -> bool:
        """Return False."""
        return False
