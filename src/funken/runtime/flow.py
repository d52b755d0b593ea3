"""One task's part in keeping queues short: it tells how long records queued before it, and holds its own sources back.

The task calls ``saw`` per block, and ``pause``, ``room`` and ``read`` around every poll of its sources; what runs the task
calls ``rested``, ``queued`` and ``patience``. The rules are in ``queueing.py`` and ``pacing.py``.
"""

from __future__ import annotations

from funken.plan.physical import PhysicalPlan
from funken.runtime.flushing import all_soon
from funken.runtime.messages import Queued, TaskId, Throttle
from funken.runtime.pacing import Pacing
from funken.runtime.queueing import Queueing, interval
from funken.runtime.settings import TaskSettings
from funken.timing.clock import Clock


class Flow:
    """What a task knows of queues; ``every``: how often (s) ``queued`` may be asked."""

    def __init__(self, plan: PhysicalPlan, task: TaskId, settings: TaskSettings, clock: Clock) -> None:
        self.every = interval(plan.widths)
        self._task = task
        self._clock = clock
        self._queueing = Queueing(settings.queueing_target / 1000)
        wanted = settings.together and settings.queueing_target > 0
        windows = wanted and all_soon(plan.edges, settings.buffer_timeout)
        self._pacing = Pacing(windows, sources=plan.widths[0], every=self.every)
        self._rested = False

    def saw(self, born: float, age: float) -> None:
        """Note a block that was handled: when it was born, and how long ago (s)."""
        self._queueing.saw(born, age, self._rested)
        self._rested = False

    def rested(self) -> None:
        """There was nothing for the task to do: the block that comes next did not queue before it."""
        self._rested = True

    def queued(self) -> Queued | None:
        """Return what the sources should know about how long records queue; ``None``: all is well."""
        late = self._queueing.take()
        return None if late is None else Queued(self._task, born=late[0], excess=late[1])

    def throttle(self, order: Throttle) -> None:
        """Hear what a task told."""
        self._pacing.throttle(order.task, order.born, order.excess, self._clock.wall())

    def pause(self) -> int:
        """Return how long (ms) the sources are to wait."""
        return self._pacing.pause(self._clock.wall())

    @property
    def narrow(self) -> bool:
        """Whether the sources wait for what they have sent: it must not wait for a block to fill."""
        return self._pacing.narrow

    def room(self, now: float, most: int) -> int:
        """Return how many records may be read."""
        return self._pacing.room(now, most)

    def read(self, born: float, records: int) -> None:
        """Note what was read."""
        self._pacing.read(born, records)

    def reads_on(self, saturated: bool) -> None:
        """Note whether the sources have more at once."""
        self._pacing.saturated = saturated

    def patience(self) -> float:
        """Return for how long (s) to wait with a flush even if the buffer timeout is shorter."""
        return self._pacing.patience(self._clock.wall())
