"""The windows of one key that may merge, and where the contents of each are.

Merging must not move contents about with every record, so windows and contents have separate names: ``mapping`` leads
from each window in flight to its *state window*, the name its contents are filed under, which is that of some window
it grew from. Growing a window changes the mapping only; contents move only if two windows with contents become one.

Invariant: no two windows of the mapping are mergeable, and no two share a state window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from funken.windowing.assigners import MergingWindowAssigner

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

    >>> from funken.windowing.sessions import EventTimeSessionWindows
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
