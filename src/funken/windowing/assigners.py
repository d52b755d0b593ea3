"""Assigners: which windows a record belongs to.

An assigner is a declaration: it travels in the plan and holds no data. What it needs to know about the moment
(processing time, and the key's state for those that count) comes through its context. Users may subclass
``WindowAssigner`` and ``MergingWindowAssigner``; sessions are in ``sessions.py``. Sizes, slides and offsets are in
milliseconds, or any duration (``io/durations.py``); windows are aligned to the epoch as Flink's are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol, Self, TypeAlias

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.io.durations import DurationLike, duration_ms
from funken.state.descriptors import ValueStateDescriptor
from funken.types.callables import D, Generic, T_contra, W_co
from funken.windowing.triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from funken.windowing.windows import WINDOW_STATE, CountWindow, GlobalWindow, TimeWindow, Trigger


class WindowAssignerContext(Protocol):
    """An assigner's context."""

    def get_current_processing_time(self) -> int:
        """Return the processing time in milliseconds."""
        ...

    def get_runtime_context(self) -> Any:
        """Return the ``RuntimeContext``; its keyed state is that of the record's key."""
        ...


class MergeCallback(Protocol):
    """A receiver of the merges of a merging assigner."""

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        """Say that ``to_be_merged`` become the one window ``merge_result``."""
        ...


_WindowAssignerContext: TypeAlias = WindowAssignerContext
_MergeCallback: TypeAlias = MergeCallback


class WindowAssigner(Generic[T_contra, W_co]):
    """Assigns zero or more windows to each record; subclass it for windows of your own.

    >>> class Shifts(WindowAssigner):  # a record knows its window
    ...     def assign_windows(self, element, timestamp, context):
    ...         return [TimeWindow(element["from"], element["to"])]
    ...     def is_event_time(self):
    ...         return True
    >>> Shifts().assign_windows({"from": 0, "to": 28_800_000}, 7, None), Shifts().get_default_trigger()
    ([TimeWindow(start=0, end=28800000)], EventTimeTrigger())
    """

    WindowAssignerContext: TypeAlias = _WindowAssignerContext

    def assign_windows(self, element: T_contra, timestamp: int, context: _WindowAssignerContext) -> Collection[W_co]:
        """Return the windows that the record belongs to, in any number; of ``[]``, the record goes to no window."""
        raise NotImplementedError

    def get_default_trigger(self, env: object = None) -> Trigger:
        """Return the trigger to use where the program names none: at the end of the window, in the assigner's time."""
        return EventTimeTrigger() if self.is_event_time() else ProcessingTimeTrigger()

    def get_window_serializer(self) -> Any:
        """Return nothing: windows travel by pickle; PyFlink programs override this, Funken does not call it.

        >>> TumblingEventTimeWindows.of(1000).get_window_serializer()
        """
        return None

    def is_event_time(self) -> bool:
        """Return True if windows end in event time (then records can be late)."""
        raise NotImplementedError


class MergingWindowAssigner(WindowAssigner[T_contra, W_co]):
    """An assigner whose windows may grow together, such as sessions.

    Sessions that end with the day, here one of 100 ms:

    >>> from itertools import groupby
    >>> class Visits(MergingWindowAssigner):
    ...     def assign_windows(self, element, timestamp, context):
    ...         return [TimeWindow(timestamp, min(timestamp + 30, timestamp - timestamp % 100 + 100))]
    ...     def merge_windows(self, windows, callback):
    ...         for _, of_one_day in groupby(sorted(windows), lambda window: window.start // 100):
    ...             TimeWindow.merge_windows(of_one_day, callback)
    ...     def is_event_time(self):
    ...         return True
    >>> from funken import WatermarkStrategy
    >>> from funken.testing import local
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda click, _: click[0])
    >>> clicks = local([(80,), (95,), (110,)]).assign_timestamps_and_watermarks(strategy)
    >>> visits = clicks.key_by(lambda click: "ann").window(Visits())
    >>> visits.reduce(lambda visit, click: visit + click).execute_and_collect(limit=9)
    [(80, 95), (110,)]
    """

    MergeCallback: TypeAlias = _MergeCallback

    def merge_windows(self, windows: Iterable[Any], callback: _MergeCallback) -> None:
        """Call ``callback.merge(windows, result)`` for each group of windows that become one."""
        raise NotImplementedError


def no_timestamp(assigner: WindowAssigner) -> InvalidProgram:
    """Return the error for a record that an event-time assigner cannot place."""
    return InvalidProgram(
        f"{assigner!r} got a record without a timestamp. Record has Java Long.MIN_VALUE timestamp (= no timestamp "
        "marker). Call assign_timestamps_and_watermarks(...) with a timestamp assigner before the window, or use "
        "processing-time windows."
    )


def _check_whole(assigner: WindowAssigner, method: str, **lengths: Any) -> None:
    """Raise ``InvalidProgram`` for lengths that are no whole numbers of milliseconds."""
    for name, length in lengths.items():
        if not isinstance(length, int):
            kind = type(assigner).__name__
            raise InvalidProgram(
                f"{kind}: the {name} is {length!r}, not a whole number of ms. {kind}.{method}() takes any "
                "duration, such as '5 s'."
            )


def _window(start: int, size: int) -> TimeWindow:
    """Make a window that ends with time at the latest, so that ``MAX_WATERMARK`` fires it."""
    end = start + size
    return TimeWindow(start, end if end < MAX_WATERMARK else MAX_WATERMARK)


@dataclass(frozen=True)
class _Tumbling(WindowAssigner[object, TimeWindow]):
    """``size`` and ``offset`` are in milliseconds; ``of`` takes any duration."""

    size: int
    offset: int = 0

    def __post_init__(self) -> None:
        _check_whole(self, "of", size=self.size, offset=self.offset)
        if abs(self.offset) >= self.size:
            raise InvalidProgram(
                f"{type(self).__name__} parameters must satisfy abs(offset) < size, and a size is 1 ms or more (a number "
                f"is in ms): the offset is {self.offset} ms, the size {self.size} ms."
            )

    @classmethod
    def of(cls, size: DurationLike, offset: DurationLike | None = None) -> Self:
        """Return windows of a length, from multiples of it on, shifted by ``offset``.

        Raises ``InvalidProgram`` unless ``abs(offset) < size``. A day that begins at midnight in Shanghai:

        >>> from datetime import timedelta
        >>> TumblingEventTimeWindows.of(timedelta(days=1), offset=timedelta(hours=-8))
        TumblingEventTimeWindows(size=86400000, offset=-28800000)
        """
        return cls(duration_ms(size), 0 if offset is None else duration_ms(offset))


class TumblingEventTimeWindows(_Tumbling):
    """Windows of one length, side by side, in event time.

    >>> from funken import WatermarkStrategy
    >>> from funken.testing import local
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda sale, _: sale[1])
    >>> sales = local([("tea", 1), ("tea", 4), ("tea", 5)]).assign_timestamps_and_watermarks(strategy)
    >>> windows = sales.key_by(lambda sale: sale[0]).window(TumblingEventTimeWindows.of(5))
    >>> windows.reduce(lambda a, b: (*a, b[1])).execute_and_collect(limit=9)
    [('tea', 1, 4), ('tea', 5)]
    >>> hours = TumblingEventTimeWindows.of(3_600_000, offset=900_000)
    >>> hours.assign_windows("record", 0, None), hours.is_event_time()
    ([TimeWindow(start=-2700000, end=900000)], True)
    """

    def assign_windows(self, element: object, timestamp: int, context: _WindowAssignerContext) -> list[TimeWindow]:
        """Return the one window around the timestamp; raises ``InvalidProgram`` for a record that has none."""
        if timestamp <= MIN_TIMESTAMP:
            raise no_timestamp(self)
        return [_window(timestamp - (timestamp - self.offset) % self.size, self.size)]

    def is_event_time(self) -> bool:
        """Return True."""
        return True


class TumblingProcessingTimeWindows(_Tumbling):
    """Windows of one length, side by side, in processing time: the record's timestamp plays no part.

    >>> from funken.testing import WindowContext
    >>> windows = TumblingProcessingTimeWindows.of(5_000)
    >>> windows.assign_windows("record", 0, WindowContext(now=7_500)), windows.is_event_time()
    ([TimeWindow(start=5000, end=10000)], False)
    """

    def assign_windows(self, element: object, timestamp: int, context: _WindowAssignerContext) -> list[TimeWindow]:
        """Return the window around the present moment."""
        now = context.get_current_processing_time()
        return [_window(now - (now - self.offset) % self.size, self.size)]

    def is_event_time(self) -> bool:
        """Return False."""
        return False


@dataclass(frozen=True)
class _Sliding(WindowAssigner[object, TimeWindow]):
    """``size``, ``slide`` and ``offset`` are in milliseconds; ``of`` takes any duration."""

    size: int
    slide: int
    offset: int = 0

    def __post_init__(self) -> None:
        _check_whole(self, "of", size=self.size, slide=self.slide, offset=self.offset)
        if abs(self.offset) >= self.slide or self.size <= 0:
            raise InvalidProgram(
                f"{type(self).__name__} parameters must satisfy abs(offset) < slide and size > 0: "
                f"the offset is {self.offset} ms, the slide {self.slide} ms, the size {self.size} ms."
            )

    @classmethod
    def of(cls, size: DurationLike, slide: DurationLike, offset: DurationLike | None = None) -> Self:
        """Return windows of a length, one beginning every ``slide``, shifted by ``offset``.

        Raises ``InvalidProgram`` unless ``abs(offset) < slide`` and ``size > 0``.

        >>> from datetime import timedelta
        >>> SlidingEventTimeWindows.of(timedelta(minutes=10), timedelta(minutes=1))
        SlidingEventTimeWindows(size=600000, slide=60000, offset=0)
        """
        return cls(duration_ms(size), duration_ms(slide), 0 if offset is None else duration_ms(offset))

    def _assign(self, at: int) -> list[TimeWindow]:
        last = at - (at - self.offset) % self.slide
        return [_window(start, self.size) for start in range(last, at - self.size, -self.slide)]


class SlidingEventTimeWindows(_Sliding):
    """Windows of one length, one beginning every ``slide``, in event time; newest first.

    With ``slide > size`` there are gaps, and a record in a gap belongs to no window.

    >>> SlidingEventTimeWindows.of(5, 2).assign_windows("record", 1, None)
    [TimeWindow(start=0, end=5), TimeWindow(start=-2, end=3)]
    >>> gaps = SlidingEventTimeWindows.of(2, 5)
    >>> gaps.assign_windows("record", 4, None), gaps.is_event_time()
    ([], True)
    """

    def assign_windows(self, element: object, timestamp: int, context: _WindowAssignerContext) -> list[TimeWindow]:
        """Return all windows around the timestamp; raises ``InvalidProgram`` for a record that has none."""
        if timestamp <= MIN_TIMESTAMP:
            raise no_timestamp(self)
        return self._assign(timestamp)

    def is_event_time(self) -> bool:
        """Return True."""
        return True


class SlidingProcessingTimeWindows(_Sliding):
    """Windows of one length, one beginning every ``slide``, in processing time; newest first.

    >>> from funken.testing import WindowContext
    >>> windows = SlidingProcessingTimeWindows.of(10_000, 5_000)
    >>> windows.assign_windows("record", 0, WindowContext(now=7_500)), windows.is_event_time()
    ([TimeWindow(start=5000, end=15000), TimeWindow(start=0, end=10000)], False)
    """

    def assign_windows(self, element: object, timestamp: int, context: _WindowAssignerContext) -> list[TimeWindow]:
        """Return all windows around the present moment."""
        return self._assign(context.get_current_processing_time())

    def is_event_time(self) -> bool:
        """Return False."""
        return False


@dataclass(frozen=True)
class GlobalWindows(WindowAssigner[object, GlobalWindow]):
    """All records of a key in one window without end; it fires only through a trigger of yours.

    >>> from funken.testing import local
    >>> everything = local([1, 2, 3, 4]).key_by(lambda n: "all").window(GlobalWindows.create())
    >>> everything.trigger(CountTrigger.of(2)).reduce(lambda a, b: a + b).execute_and_collect(limit=9)
    [3, 10]
    >>> windows = GlobalWindows.create()
    >>> windows.assign_windows("record", 0, None), windows.get_default_trigger(), windows.is_event_time()
    ([GlobalWindow()], NeverTrigger(), False)
    """

    @staticmethod
    def create() -> GlobalWindows:
        """Return the assigner."""
        return GlobalWindows()

    def assign_windows(self, element: object, timestamp: int, context: _WindowAssignerContext) -> list[GlobalWindow]:
        """Return the one window."""
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: object = None) -> Trigger:
        """Return a trigger that never fires."""
        return NeverTrigger()

    def is_event_time(self) -> bool:
        """Return False."""
        return False


def _next_count(context: Any, descriptor: ValueStateDescriptor) -> int:
    state = context.get_runtime_context().get_state(descriptor)
    count: int = state.value() or 0
    state.update(count + 1)
    return count


TUMBLING_COUNT = ValueStateDescriptor(f"{WINDOW_STATE}tumbling-count")
_SLIDING_COUNT = ValueStateDescriptor(f"{WINDOW_STATE}sliding-count")


@dataclass(frozen=True)
class CountTumblingWindowAssigner(WindowAssigner[object, CountWindow]):
    """Each key's records in groups of ``size``, in the order of arrival; an incomplete last group never fires.

    Raises ``InvalidProgram`` if the size is not above 0. ``count_window(size)`` gives the same results.

    >>> from funken.testing import WindowContext, local
    >>> pairs = local([1, 2, 3, 4, 5]).key_by(lambda n: "all").window(CountTumblingWindowAssigner.of(2))
    >>> pairs.reduce(lambda a, b: a + b).execute_and_collect(limit=9)
    [3, 7]
    >>> assigner, ctx = CountTumblingWindowAssigner.of(2), WindowContext()
    >>> [assigner.assign_windows(n, 0, ctx) for n in (1, 2, 3)]
    [[CountWindow(id=0)], [CountWindow(id=0)], [CountWindow(id=1)]]
    >>> assigner.get_default_trigger(), assigner.is_event_time()
    (PurgingTrigger(CountTrigger(2)), False)
    """

    size: int

    def __post_init__(self) -> None:
        if self.size <= 0:
            raise InvalidProgram(f"a count window needs a size above 0, but got {self.size}.")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """Return windows of so many records."""
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(self, element: object, timestamp: int, context: _WindowAssignerContext) -> list[CountWindow]:
        """Count the record and return its group."""
        return [CountWindow(_next_count(context, TUMBLING_COUNT) // self.size)]

    def get_default_trigger(self, env: object = None) -> Trigger:
        """Return a trigger that fires when a group is full, and frees it: no record can join it any more."""
        return PurgingTrigger(CountTrigger(self.size))

    def is_event_time(self) -> bool:
        """Return False."""
        return False


@dataclass(frozen=True)
class CountSlidingWindowAssigner(WindowAssigner[object, CountWindow]):
    """Groups of ``size`` records of a key, one beginning every ``slide`` records, that fire when full (PyFlink's way).

    Flink itself, and so ``count_window(size, slide)`` here, fires after every ``slide`` records with the last ``size``
    or fewer instead. Raises ``InvalidProgram`` if size or slide is not above 0.

    >>> from funken.testing import WindowContext, local
    >>> threes = local([1, 2, 3, 4, 5]).key_by(lambda n: "all").window(CountSlidingWindowAssigner.of(3, 1))
    >>> threes.reduce(lambda a, b: a + b).execute_and_collect(limit=9)
    [6, 9, 12]
    >>> assigner, ctx = CountSlidingWindowAssigner.of(3, 2), WindowContext()
    >>> [[window.id for window in assigner.assign_windows(n, 0, ctx)] for n in range(5)]
    [[0], [0], [1, 0], [1], [2, 1]]
    >>> assigner.get_default_trigger(), assigner.is_event_time()
    (PurgingTrigger(CountTrigger(3)), False)
    """

    size: int
    slide: int

    def __post_init__(self) -> None:
        if self.size <= 0 or self.slide <= 0:
            raise InvalidProgram(
                f"a sliding count window needs size and slide above 0, but got {self.size} and {self.slide}."
            )

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """Return windows of ``window_size`` records, one beginning every ``window_slide`` records."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(self, element: object, timestamp: int, context: _WindowAssignerContext) -> list[CountWindow]:
        """Count the record and return the groups it is in, newest first."""
        count = _next_count(context, _SLIDING_COUNT)
        newest = count // self.slide
        oldest = max(0, -((self.size - 1 - count) // self.slide))
        return [CountWindow(id_) for id_ in range(newest, oldest - 1, -1)]

    def get_default_trigger(self, env: object = None) -> Trigger:
        """Return a trigger that fires when a group is full, and frees it."""
        return PurgingTrigger(CountTrigger(self.size))

    def is_event_time(self) -> bool:
        """Return False."""
        return False


# ---- Session windows: as long as a key's records keep coming, however long that is.
#
# A record opens the window ``[t, t + gap)``; windows of a key that overlap or touch become one. The gap is fixed,
# or taken from the record. Merging is that of Flink's ``TimeWindow.mergeWindows`` (``windows.py``).


class SessionWindowTimeGapExtractor(Generic[T_contra]):
    """Returns the time (ms) that a session stays open after a record; a plain callable does as well.

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
    """The base of all session assigners."""

    def merge_windows(self, windows: Iterable[TimeWindow], callback: _MergeCallback) -> None:
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

    def assign_windows(self, element: object, timestamp: int, context: _WindowAssignerContext) -> list[TimeWindow]:
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
        _check_whole(self, "with_gap", gap=self.gap)
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
    extractor: SessionWindowTimeGapExtractor[T_contra] | Callable[[T_contra], DurationLike]

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
        extract: Any = getattr(self.extractor, "extract", self.extractor)
        gap = duration_ms(extract(element))
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
        extractor: SessionWindowTimeGapExtractor[D] | Callable[[D], DurationLike],
    ) -> DynamicEventTimeSessionWindows[D]:
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
        extractor: SessionWindowTimeGapExtractor[D] | Callable[[D], DurationLike],
    ) -> DynamicProcessingTimeSessionWindows[D]:
        """Return sessions whose gap each record decides."""
        return DynamicProcessingTimeSessionWindows(extractor)

    def is_event_time(self) -> bool:
        """Return False."""
        return False


# ---- The windows of one key that may merge, and where the contents of each are.
#
# Merging must not move contents about with every record, so windows and contents have separate names: ``mapping``
# leads from each window in flight to its *state window*, the name its contents are filed under, which is that of
# some window it grew from. Growing a window changes the mapping only; contents move only if two windows with
# contents become one.
#
# Invariant: no two windows of the mapping are mergeable, and no two share a state window.


Merged = Callable[[Any, list[Any], Any, list[Any]], None]
"""``(result, merged windows, state window of the result, state windows to merge into it)``."""


class _Collect:
    """Remembers the merges that an assigner reports."""

    __slots__ = ("merges",)

    def __init__(self) -> None:
        self.merges: list[tuple[Any, list[Any]]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.merges.append((merge_result, list(to_be_merged)))


class MergingWindowSet:
    """One key's windows in flight; ``changed`` tells whether the mapping must be stored again.

    >>> from funken.windowing.assigners import EventTimeSessionWindows
    >>> from funken.windowing.windows import TimeWindow
    >>> sessions = MergingWindowSet(EventTimeSessionWindows.with_gap(5), {})
    >>> sessions.add(TimeWindow(0, 5), print)
    TimeWindow(start=0, end=5)
    >>> sessions.add(TimeWindow(3, 8), lambda result, merged, *state: print(merged, "->", result))
    [TimeWindow(start=0, end=5)] -> TimeWindow(start=0, end=8)
    TimeWindow(start=0, end=8)
    >>> sessions.mapping
    {TimeWindow(start=0, end=8): TimeWindow(start=0, end=5)}
    """

    __slots__ = ("_assigner", "changed", "mapping")

    def __init__(self, assigner: MergingWindowAssigner, mapping: dict[Any, Any]) -> None:
        self._assigner = assigner
        self.mapping = mapping
        self.changed = False

    def add(self, window: Any, merged: Merged) -> Any:
        """Add a window and return the window it became part of.

        ``merged`` is called for each merge in which a window that was there before takes part and does not stay as it
        is; it must move the trigger's state and timers, and the contents.
        """
        mapping = self.mapping
        if window in mapping:
            return window
        collect = _Collect()
        self._assigner.merge_windows([*mapping, window], collect)
        became = window
        joined = False
        for result, windows in collect.merges:
            before = [candidate for candidate in windows if candidate in mapping]
            if window in windows:
                joined = True
                became = result
            if not before:  # only the new window, under another name
                mapping[result] = result
                self.changed = True
                continue
            if before == [result]:  # the new window lies inside an old one
                continue
            state_windows = [mapping.pop(candidate) for candidate in before]
            mapping[result] = state_windows[0]
            self.changed = True
            merged(result, before, state_windows[0], state_windows[1:])
        if not joined:
            mapping[window] = window
            self.changed = True
        return became

    def state_window(self, window: Any) -> Any | None:
        """Return the name of a window's contents, ``None`` if the window is not in flight (any more)."""
        return self.mapping.get(window)

    def retire(self, window: Any) -> None:
        """Forget a window."""
        del self.mapping[window]
        self.changed = True
