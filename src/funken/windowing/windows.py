"""Windows: the finite pieces of a stream that are computed on.

A window is a value: hashable, ordered, cheap to make, and equal to any other with the same bounds, because windows are
what state and timers are filed under. A window knows where it ends and nothing of what is in it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, overload

from funken.errors import InvalidProgram
from funken.ids import MAX_WATERMARK
from funken.state.descriptors import StateDescriptor
from funken.types.callables import A, Generic, K, R, S, T_contra, V, W_contra

if TYPE_CHECKING:
    from funken.metrics.registry import MetricGroup
    from funken.state.descriptors import (
        AggregatingStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        ValueStateDescriptor,
    )
    from funken.state.handles import AggregatingState, ListState, MapState, ReducingState, ValueState

WINDOW_STATE = "_window."
"""The beginning of the names of keyed states that hold windows, but for those of the fast logics: ``_windows.``"""


class Window:
    """A finite piece of a stream; subclasses must be hashable, picklable and compare by value.

    >>> from dataclasses import dataclass
    >>> from datetime import UTC, datetime
    >>> @dataclass(frozen=True, order=True)
    ... class Year(Window):
    ...     year: int
    ...     def max_timestamp(self):
    ...         return int(datetime(self.year + 1, 1, 1, tzinfo=UTC).timestamp()) * 1000 - 1
    >>> Year(1970).max_timestamp()
    31535999999
    """

    __slots__ = ()

    def max_timestamp(self) -> int:
        """Return the largest timestamp that still belongs to this window; its results carry it."""
        raise NotImplementedError


class _Bounds(NamedTuple):
    start: int
    end: int


class TimeWindow(_Bounds, Window):
    """The records with ``start <= timestamp < end``, in milliseconds.

    >>> window = TimeWindow(0, 5)
    >>> window, window.max_timestamp(), window < TimeWindow(2, 7)
    (TimeWindow(start=0, end=5), 4, True)
    """

    __slots__ = ()

    def max_timestamp(self) -> int:
        """Return ``end - 1``.

        >>> TimeWindow(-5, 0).max_timestamp()
        -1
        """
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Return True if the windows overlap or touch.

        >>> TimeWindow(0, 5).intersects(TimeWindow(5, 10)), TimeWindow(0, 5).intersects(TimeWindow(6, 10))
        (True, False)
        """
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that contains both.

        >>> TimeWindow(0, 5).cover(TimeWindow(8, 10))
        TimeWindow(start=0, end=10)
        """
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Return the start of the aligned window that a timestamp falls in, negative timestamps included; all in ms.

        Flink's formula, with Python's remainder, which needs no correction below zero.

        >>> TimeWindow.get_window_start_with_offset(-1, 0, 5), TimeWindow.get_window_start_with_offset(-6, 2, 5)
        (-5, -8)
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: Any) -> None:
        """Call ``callback.merge(windows, result)`` for every group of windows that overlap or touch.

        Groups come in the order of time, and so do the windows of a group; a window that stands alone is not reported.
        The sweep over the sorted windows is that of Flink's ``TimeWindow.mergeWindows``.

        >>> from types import SimpleNamespace
        >>> show = SimpleNamespace(merge=lambda windows, result: print(len(windows), "->", result))
        >>> TimeWindow.merge_windows([TimeWindow(8, 9), TimeWindow(3, 6), TimeWindow(0, 3)], show)
        2 -> TimeWindow(start=0, end=6)
        """
        merge: Callable[[list[TimeWindow], TimeWindow], None] = callback.merge
        groups: list[tuple[list[TimeWindow], TimeWindow]] = []
        for window in sorted(set(windows)):
            if groups and groups[-1][1].intersects(window):
                members, result = groups[-1]
                members.append(window)
                groups[-1] = (members, result.cover(window))
            else:
                groups.append(([window], window))
        for members, result in groups:
            if len(members) > 1:
                merge(members, result)


class _Id(NamedTuple):
    id: int


class CountWindow(_Id, Window):
    """The ``id``-th group of records that were counted off; it has no end in time.

    >>> CountWindow(3)
    CountWindow(id=3)
    """

    __slots__ = ()

    def max_timestamp(self) -> int:
        """Return the end of time.

        >>> CountWindow(0).max_timestamp()
        9223372036854775807
        """
        return MAX_WATERMARK


class GlobalWindow(Window):
    """The one window that holds everything; only a trigger can make it fire.

    >>> GlobalWindow.get(), GlobalWindow.get().max_timestamp() == MAX_WATERMARK
    (GlobalWindow(), True)
    """

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """Return the one instance."""
        return _GLOBAL_WINDOW

    def max_timestamp(self) -> int:
        """Return the end of time."""
        return MAX_WATERMARK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    def __hash__(self) -> int:
        return 0

    def __lt__(self, other: GlobalWindow) -> bool:
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        return GlobalWindow.get, ()

    def __repr__(self) -> str:
        return "GlobalWindow()"


_GLOBAL_WINDOW = GlobalWindow()


# ---- The contract between a window and its trigger: what a trigger is told, may ask, and may answer.
#
# A trigger is a declaration, shared by all keys and windows: whatever it remembers is in the partitioned state of
# its context, which is filed under the key and the window, and so are its timers. ``FIRE`` keeps the contents,
# ``PURGE`` drops them and nothing else: trigger state goes when the window is cleaned up, through ``clear``.


class TriggerResult(enum.Enum):
    """The action on a window: its name says whether to fire, to purge, or both.

    >>> [result.name for result in TriggerResult if result.is_fire()]
    ['FIRE', 'FIRE_AND_PURGE']
    >>> [result.name for result in TriggerResult if result.is_purge()]
    ['PURGE', 'FIRE_AND_PURGE']
    """

    CONTINUE = (False, False)
    FIRE = (True, False)
    PURGE = (False, True)
    FIRE_AND_PURGE = (True, True)

    def is_fire(self) -> bool:
        """Return True if the window's function is to run."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Return True if the window's contents are to go."""
        return self.value[1]


class TriggerContext(Protocol):
    """A trigger's context, for the key and window at hand."""

    def get_current_processing_time(self) -> int:
        """Return the processing time in milliseconds."""
        ...

    def get_current_watermark(self) -> int:
        """Return the watermark, ``-2**63`` before there is one."""
        ...

    def get_metric_group(self) -> MetricGroup:
        """Return the operator's metrics."""
        ...

    def register_processing_time_timer(self, time: int) -> None:
        """Ask for ``on_processing_time`` at ``time``."""
        ...

    def register_event_time_timer(self, time: int) -> None:
        """Ask for ``on_event_time`` when the watermark reaches ``time``."""
        ...

    def delete_processing_time_timer(self, time: int) -> None:
        """Take a processing-time timer back."""
        ...

    def delete_event_time_timer(self, time: int) -> None:
        """Take an event-time timer back."""
        ...

    @overload
    def get_partitioned_state(self, state_descriptor: ValueStateDescriptor[S]) -> ValueState[S]: ...
    @overload
    def get_partitioned_state(self, state_descriptor: ListStateDescriptor[S]) -> ListState[S]: ...
    @overload
    def get_partitioned_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]: ...
    @overload
    def get_partitioned_state(self, state_descriptor: ReducingStateDescriptor[S]) -> ReducingState[S]: ...
    @overload
    def get_partitioned_state(
        self, state_descriptor: AggregatingStateDescriptor[S, A, R]
    ) -> AggregatingState[S, R]: ...
    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> object:
        """Return the state of this key and window."""
        ...


class OnMergeContext(TriggerContext, Protocol):
    """A trigger's context when windows were merged."""

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the state of the merged windows into that of the result."""
        ...


_TriggerContext: TypeAlias = TriggerContext
_OnMergeContext: TypeAlias = OnMergeContext


class Trigger(Generic[T_contra, W_contra]):
    """Decides when a window fires; subclass it for a rule of your own, most simply from ``on_element`` alone.

    This one fires at the first record of a window, for an early result, and again at its end:

    >>> from funken import ReducingStateDescriptor, TimeWindow
    >>> SEEN = ReducingStateDescriptor("seen", max)
    >>> class FirstAndLast(Trigger):
    ...     def on_element(self, element, timestamp, window, ctx):
    ...         ctx.register_event_time_timer(window.max_timestamp())
    ...         seen = ctx.get_partitioned_state(SEEN)
    ...         if seen.get():
    ...             return TriggerResult.CONTINUE
    ...         seen.add(True)
    ...         return TriggerResult.FIRE
    ...     def on_event_time(self, time, window, ctx):
    ...         return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE
    ...     def can_merge(self):  # sessions may use it
    ...         return True
    ...     def on_merge(self, window, ctx):
    ...         ctx.merge_partitioned_state(SEEN)
    ...         ctx.register_event_time_timer(window.max_timestamp())
    ...     def clear(self, window, ctx):
    ...         ctx.get_partitioned_state(SEEN).clear()
    ...         ctx.delete_event_time_timer(window.max_timestamp())

    ``funken.testing.WindowContext`` is a window to try it on:

    >>> from funken.testing import WindowContext
    >>> trigger, window = FirstAndLast(), TimeWindow(0, 10)
    >>> ctx = WindowContext(window)
    >>> [trigger.on_element(word, 5, window, ctx).name for word in ("to", "be")], ctx.event_time_timers
    (['FIRE', 'CONTINUE'], [9])
    """

    TriggerContext: TypeAlias = _TriggerContext
    OnMergeContext: TypeAlias = _OnMergeContext

    def on_element(self, element: T_contra, timestamp: int, window: W_contra, ctx: _TriggerContext) -> TriggerResult:
        """Decide after a record was added to the window."""
        raise NotImplementedError

    def on_processing_time(self, time: int, window: W_contra, ctx: _TriggerContext) -> TriggerResult:
        """Decide when a processing-time timer of this window is due; goes on unless overridden.

        >>> from funken.testing import WindowContext
        >>> class AfterOneSecond(Trigger):
        ...     def on_element(self, element, timestamp, window, ctx):
        ...         ctx.register_processing_time_timer(ctx.get_current_processing_time() + 1000)
        ...         return TriggerResult.CONTINUE
        ...     def on_processing_time(self, time, window, ctx):
        ...         return TriggerResult.FIRE_AND_PURGE
        >>> trigger, ctx = AfterOneSecond(), WindowContext(now=500)
        >>> trigger.on_element("record", 0, ctx.window, ctx).name, ctx.processing_time_timers
        ('CONTINUE', [1500])
        >>> trigger.on_processing_time(1500, ctx.window, ctx).name
        'FIRE_AND_PURGE'
        """
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W_contra, ctx: _TriggerContext) -> TriggerResult:
        """Decide when an event-time timer of this window is due; goes on unless overridden."""
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return True if ``on_merge`` is implemented, which merging windows (sessions) need."""
        return False

    def on_merge(self, window: W_contra, ctx: _OnMergeContext) -> None:
        """Carry state and timers over to ``window``, into which others were merged."""
        raise InvalidProgram(f"{self!r} cannot be used with merging windows: implement on_merge and can_merge.")

    def clear(self, window: W_contra, ctx: _TriggerContext) -> None:
        """Drop this window's trigger state and timers."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
