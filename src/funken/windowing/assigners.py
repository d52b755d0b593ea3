"""Assigners: which windows a record belongs to.

An assigner is a declaration: it travels in the plan and holds no data. What it needs to know about the moment
(processing time, and the key's state for those that count) comes through its context. Users may subclass
``WindowAssigner`` and ``MergingWindowAssigner``; sessions are in ``sessions.py``. Sizes, slides and offsets are in
milliseconds, or any duration (``io/durations.py``); windows are aligned to the epoch as Flink's are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, ClassVar, Protocol, Self

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.io.durations import DurationLike, duration_ms
from funken.state.descriptors import ValueStateDescriptor
from funken.types.generics import Generic, T_contra, W_co
from funken.windowing.firing import Trigger
from funken.windowing.triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from funken.windowing.windows import WINDOW_STATE, CountWindow, GlobalWindow, TimeWindow


class WindowAssignerContext(Protocol):
    """What an assigner may ask."""

    def get_current_processing_time(self) -> int:
        """Return the processing time in milliseconds."""
        ...

    def get_runtime_context(self) -> Any:
        """Return the ``RuntimeContext``; its keyed state is that of the record's key."""
        ...


class MergeCallback(Protocol):
    """What a merging assigner reports its merges to."""

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        """Say that ``to_be_merged`` become the one window ``merge_result``."""
        ...


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

    WindowAssignerContext: ClassVar[type] = WindowAssignerContext

    def assign_windows(self, element: T_contra, timestamp: int, context: Any) -> Collection[W_co]:
        """Return the windows that the record belongs to, in any number; of ``[]``, the record goes to no window."""
        raise NotImplementedError

    def get_default_trigger(self, env: Any = None) -> Trigger:
        """Return the trigger to use where the program names none: at the end of the window, in the assigner's time."""
        return EventTimeTrigger() if self.is_event_time() else ProcessingTimeTrigger()

    def get_window_serializer(self) -> Any:
        """Return nothing: windows travel by pickle; PyFlink programs override this, Funken does not call it.

        >>> TumblingEventTimeWindows.of(1000).get_window_serializer()
        """
        return None

    def is_event_time(self) -> bool:
        """Return whether windows end in event time (then records can be late) or not."""
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

    MergeCallback: ClassVar[type] = MergeCallback

    def merge_windows(self, windows: Iterable[Any], callback: Any) -> None:
        """Call ``callback.merge(windows, result)`` for each group of windows that become one."""
        raise NotImplementedError


def no_timestamp(assigner: WindowAssigner) -> InvalidProgram:
    """Return the error for a record that an event-time assigner cannot place."""
    return InvalidProgram(
        f"{assigner!r} got a record without a timestamp. Record has Java Long.MIN_VALUE timestamp (= no timestamp "
        "marker). Call assign_timestamps_and_watermarks(...) with a timestamp assigner before the window, or use "
        "processing-time windows."
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
        if abs(self.offset) >= self.size:
            raise InvalidProgram(
                f"{type(self).__name__} parameters must satisfy abs(offset) < size: "
                f"the offset is {self.offset} ms, the size {self.size} ms."
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

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
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

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
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

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
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

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
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

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[GlobalWindow]:
        """Return the one window."""
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: Any = None) -> Trigger:
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

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[CountWindow]:
        """Count the record and return its group."""
        return [CountWindow(_next_count(context, TUMBLING_COUNT) // self.size)]

    def get_default_trigger(self, env: Any = None) -> Trigger:
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

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[CountWindow]:
        """Count the record and return the groups it is in, newest first."""
        count = _next_count(context, _SLIDING_COUNT)
        newest = count // self.slide
        oldest = max(0, -((self.size - 1 - count) // self.slide))
        return [CountWindow(id_) for id_ in range(newest, oldest - 1, -1)]

    def get_default_trigger(self, env: Any = None) -> Trigger:
        """Return a trigger that fires when a group is full, and frees it."""
        return PurgingTrigger(CountTrigger(self.size))

    def is_event_time(self) -> bool:
        """Return False."""
        return False
