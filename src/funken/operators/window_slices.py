"""Sliding windows whose contents may be computed slice by slice and put together when a window fires.

A record is added once, to its slice, and not to each of the ``size / slide`` windows around it. That gives the same
results only if the user's function is *combinable*: associative, indifferent to order, and leaving both of its
arguments as they are (a sum; not a list that is appended to). Nobody can tell from the outside, so the program has to
say so. Within a window, keys fire in the order of their first slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from funken.operators.window_aligned import AlignedWindows
from funken.operators.window_contents import Pane

if TYPE_CHECKING:
    from funken.operators.window import Window


class SlicedWindows(AlignedWindows):
    """Sliding windows over slices; ``_panes`` are the contents of slices here, by their start."""

    def __init__(self, spec: Window) -> None:
        super().__init__(spec)
        self._starts: set[int] = set()

    def _places(self, start: int) -> Sequence[int]:
        """Return the slice itself, unless all windows around it are over."""
        return (start,) if self._windows_of(start) else ()

    def _pane(self, start: int) -> Pane:
        pane = self._panes.get(start)
        if pane is None:
            pane = self._panes[start] = {}
            self._expect_all(self._windows_of(start))
        return pane

    def _expect_all(self, windows: range) -> None:
        self._starts.update(windows)
        self._expect(windows[-1])

    def _waiting(self) -> list[int]:
        return sorted(self._starts)

    def _take(self, start: int) -> Pane:
        """Put a window together, and drop the slices that no later window has."""
        self._starts.remove(start)
        panes, merge = self._panes, self.contents.merge
        whole: Pane = {}
        for at in range(start, start + self._size, self._slice):
            pane = panes.pop(at, None) if at < start + self._slide else panes.get(at)
            for key, stored in (pane or {}).items():
                before = whole.get(key)
                whole[key] = stored if before is None else merge(before, stored)
        return whole

    def snapshot(self) -> Any:
        """Return ``(key, slice start, contents, start of its first window not over)`` by key group."""
        return self._groups.sort(
            (key, start, stored, min(self._starts.intersection(self._windows_of(start))))
            for start, pane in self._panes.items()
            for key, stored in pane.items()
        )

    def restore(self, snapshot: Any) -> None:
        """Take what belongs to this subtask's keys."""
        for key, start, stored, first in self._groups.owned(snapshot):
            self._panes.setdefault(start, {})[key] = stored
            self._expect_all(range(self._windows_of(start)[0], first - 1, -self._slide))
