"""The cuts of a task that are not pickled to their end: a slice at a time, in turn with the records.

At the barrier nothing is done but to fix what belongs to a cut. The task then gives ``turn`` its turn after every block, and
whenever it would wait. A slice takes about ``_SLICE_SECONDS``; while there are records they get as much time as slices do,
so that a cut is through in twice the time that it takes to pickle. Cuts are handed over in the order in which they were
made. An operator's next cut waits for the one before: if that is not through by then, its rest is pickled at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from funken.checkpoint.slices import OpenCut

if TYPE_CHECKING:
    from funken.runtime.snapshots import Cuts

_SLICE_SECONDS = 0.005
_FIRST_ROWS = 500
_MOST_ROWS = 20_000


class Slicing:
    """What is open, per operator and subtask, and what is to be handed over to ``deliver``; ``rows``: per slice, if given."""

    def __init__(
        self, deliver: Callable[[Cuts], None] | None = None, clock: Callable[[], float] = lambda: 0.0, rows: int = 0
    ) -> None:
        self._deliver = deliver
        self._clock = clock
        self._fixed = rows
        self._rows = rows or _FIRST_ROWS
        self._open: dict[tuple[str, int], OpenCut] = {}
        self._waiting: deque[Cuts] = deque()
        self._not_before = 0.0
        #: whether records were handled since the last slice
        self.worked = False

    def add(self, place: tuple[str, int], cut: OpenCut) -> None:
        """Take the rest of a cut; if it is little, that is all."""
        cut.step(self._fixed or _FIRST_ROWS)
        if cut.open:
            self._open[place] = cut

    @property
    def open(self) -> bool:
        """Whether anything is left to pickle."""
        return bool(self._open)

    def deliver(self, cuts: Cuts) -> None:
        """Hand cuts over as soon as they are whole."""
        self._waiting.append(cuts)
        self._hand_over()

    def turn(self) -> None:
        """Pickle a slice, unless it is the records' turn."""
        begin = self._clock()
        if not self._open or (self.worked and begin < self._not_before):
            return
        place, cut = next(iter(self._open.items()))
        cut.step(self._rows)
        end = self._clock()
        if not cut.open:
            del self._open[place]
            self._hand_over()
        elif not self._fixed:
            share = _SLICE_SECONDS / max(end - begin, 1e-6)
            self._rows = max(1, min(int(self._rows * min(share, 2)), _MOST_ROWS))
        self._not_before = end + (end - begin)
        self.worked = False

    def finish(self, place: tuple[str, int] | None = None) -> None:
        """Pickle all that is left, of one operator or of all."""
        for each in list(self._open) if place is None else [place] if place in self._open else []:
            self._open[each].finish()
            del self._open[each]
        self._hand_over()

    def drop(self) -> None:
        """Let go of what is not whole: the task is over. What is held of files goes with it."""
        self._open.clear()
        self._waiting.clear()

    def _hand_over(self) -> None:
        while self._waiting and self._waiting[0].whole:
            cuts = self._waiting.popleft()
            if self._deliver is not None:
                self._deliver(cuts)
