"""Windows: the finite pieces of a stream that are computed on.

A window is a value: hashable, ordered, cheap to make, and equal to any other with the same bounds, because windows are
what state and timers are filed under. A window knows where it ends and nothing of what is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from funken.ids import MAX_WATERMARK

WINDOW_STATE = "_window."
"""How the names of keyed states that hold windows begin, but for those of the fast logics: ``_windows.``"""


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
        """Return whether the windows overlap or touch.

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
