"""Materializes the snapshots of a task: pickles them in steps, in turn with the records.

At the barrier, what belongs to a snapshot is only fixed. The task then calls ``step`` after every block, and whenever
it would wait. A step takes about ``_STEP_SECONDS``; while there are records they get as much time as the steps, so that
a snapshot is materialized in twice the time that it takes to pickle. An operator's next snapshot waits for the one before:
if that is not complete by then, its rest is pickled at once.
"""

from __future__ import annotations

from collections.abc import Callable

from funken.checkpoint.snapshot.materialization import Materialization
from funken.runtime.settings import OperatorSubtaskId

_STEP_SECONDS = 0.005
_FIRST_ROWS = 500
_MOST_ROWS = 20_000


class Materializer:
    """The materializations under way, one per operator; ``rows``: per step, if given.

    ``materialized`` is called with the operator when a materialization that took more than one step is complete.
    """

    def __init__(
        self,
        clock: Callable[[], float] = lambda: 0.0,
        rows: int = 0,
        materialized: Callable[[OperatorSubtaskId], None] = lambda place: None,
    ) -> None:
        self._materialized = materialized
        self._clock = clock
        self._fixed = rows
        self._rows = rows or _FIRST_ROWS
        self.open: dict[OperatorSubtaskId, Materialization] = {}
        """What is left to materialize; read once per block."""
        self._not_before = 0.0
        #: whether records were processed since the last step
        self.worked = False

    def add(self, place: OperatorSubtaskId, snapshot: Materialization) -> None:
        """Add a materialization; a small one is completed at once."""
        snapshot.step(self._fixed or _FIRST_ROWS)
        if snapshot.open:
            self.open[place] = snapshot

    def step(self) -> None:
        """Pickle one step, unless it is the records' turn."""
        begin = self._clock()
        if not self.open or (self.worked and begin < self._not_before):
            return
        place, snapshot = next(iter(self.open.items()))
        snapshot.step(self._rows)
        end = self._clock()
        if not snapshot.open:
            del self.open[place]
            self._materialized(place)
        elif not self._fixed:
            share = _STEP_SECONDS / max(end - begin, 1e-6)
            self._rows = max(1, min(int(self._rows * min(share, 2)), _MOST_ROWS))
        self._not_before = end + (end - begin)
        self.worked = False

    def finish(self, place: OperatorSubtaskId | None = None) -> None:
        """Complete the materialization of one operator or of all."""
        for each in list(self.open) if place is None else [place] if place in self.open else []:
            self.open[each].finish()
            del self.open[each]
            self._materialized(each)

    def cancel(self) -> None:
        """Drop what is not materialized: the task has ended. References to files go with it."""
        self.open.clear()
