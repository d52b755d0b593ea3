"""Sliding windows whose contents may be computed slice by slice and put together when a window fires.

A record is added once, to its slice, and not to each of the ``size / slide`` windows around it. That gives the same
results only if the user's function is *combinable*: associative, indifferent to order, and leaving both of its
arguments as they are (a sum; not a list that is appended to). Nobody can tell from the outside, so the program has to
say so. Within a window, keys fire in the order of their first slices.

A slice does not tell which of its windows have fired, and is not to be saved again whenever one has. So a snapshot says that
apart, per range of key groups: what was several subtasks may have come to different windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from funken.ids import MIN_TIMESTAMP
from funken.operators.base import Output
from funken.operators.context import OperatorContext
from funken.operators.window.aligned import AlignedWindows
from funken.operators.window.contents import Pane
from funken.operators.window.spec import Strategy
from funken.state.delta_tables import DeltaTable
from funken.state.keygroups import key_group_of

if TYPE_CHECKING:
    from funken.operators.window.spec import WindowSpec

FIRED = "(windows fired)"
"""Operator state: ``(first key group, the one after the last, start of the last window that is over)``."""


class SlicedWindows(AlignedWindows):
    """Sliding windows over slices; ``_panes`` are the contents of slices here, by their start."""

    state_name = Strategy.SLICES.state_name

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        self._starts: set[int] = set()
        self._fired: int = MIN_TIMESTAMP
        #: key groups of which windows have fired that are yet to fire for others
        self._ahead: list[tuple[range, int]] = []

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        context.before_snapshot.append(self._snapshot_fired)

    def _snapshot_fired(self) -> None:
        groups = self.store.key_groups
        if self._event_time:  # windows without a record are over too
            self._fired = max(self._fired, self._open_from - self._slide)
        self._ahead = [(part, fired) for part, fired in self._ahead if fired > self._fired]
        parts = [(groups, self._fired), *self._ahead]  # of several about one group the greatest counts
        self.context.operator_state.union[FIRED] = [(part.start, part.stop, fired) for part, fired in parts]

    def _resume(self) -> None:
        """Find out which windows the slices wait for that were restored."""
        groups = self.store.key_groups
        parts = [
            (range(max(start, groups.start), min(stop, groups.stop)), fired)
            for start, stop, fired in self.context.operator_state.union.get(FIRED, ())
            if start < groups.stop and stop > groups.start
        ]
        latest = [max((fired for part, fired in parts if group in part), default=MIN_TIMESTAMP) for group in groups]
        self._fired = min(latest)
        self._ahead = [(part, fired) for part, fired in parts if fired > self._fired]
        for start in self._panes:
            waiting = [at for at in self._windows_of(start) if at > self._fired]
            if waiting:
                self._expect_all(waiting)

    def _places(self, start: int) -> Sequence[int]:
        """Return the slice itself, unless all windows around it are over."""
        return (start,) if self._windows_of(start) else ()

    def _pane(self, start: int) -> DeltaTable:
        pane = self._panes.get(start)
        if pane is None:
            pane = self._panes[start] = DeltaTable()
            self._expect_all(self._windows_of(start))
        return pane

    def _expect_all(self, windows: Sequence[int]) -> None:
        self._starts.update(windows)
        self._expect(windows[-1])

    def _waiting(self) -> list[int]:
        return sorted(self._starts)

    def _take(self, start: int) -> Pane:
        """Put a window together, and drop the slices that no later window has."""
        self._starts.remove(start)
        self._fired = max(self._fired, start)
        panes, merge = self._panes, self.contents.merge
        whole: Pane = {}
        for at in range(start, start + self._size, self._slice):
            if at < start + self._slide:
                pane = self._table.pop(at)
            else:
                layers = panes.get(at)
                pane = {} if layers is None else layers.whole()
            for key, stored in pane.items():
                before = whole.get(key)
                whole[key] = stored if before is None else merge(before, stored)
        over = [groups for groups, fired in self._ahead if fired >= start]
        return self._without(whole, over) if over else whole

    def _without(self, pane: Pane, over: list[range]) -> Pane:
        limit = self.store.max_parallelism
        return {
            key: stored for key, stored in pane.items() if not any(key_group_of(key, limit) in part for part in over)
        }
