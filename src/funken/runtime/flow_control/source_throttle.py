"""One task's part in keeping queues short: it reports how long records queued before it, and throttles its own sources.

The task calls ``on_block`` per block, and ``pause``, ``room`` and ``on_read`` around every poll of its sources; what
runs the task calls ``on_idle``, ``take_report`` and ``min_flush_delay``. The rules are in ``queue_delay.py``,
``in_flight_window.py`` and ``slow_start.py``.
"""

from __future__ import annotations

from funken.plan.physical import PhysicalPlan
from funken.runtime.exchange.flushing import all_flush_soon
from funken.runtime.flow_control.in_flight_window import InFlightWindow
from funken.runtime.flow_control.queue_delay import QueueDelayMonitor, report_interval
from funken.runtime.flow_control.slow_start import Beginning
from funken.runtime.messages import QueueDelayReported, TaskId, Throttle
from funken.runtime.settings import TaskSettings
from funken.timing.clock import Clock


class SourceThrottle:
    """Queue delays of a task, and the throttle of its sources; ``every``: how often (s) ``take_report`` may be called."""

    def __init__(self, plan: PhysicalPlan, task: TaskId, settings: TaskSettings, clock: Clock) -> None:
        self.every = report_interval(plan.widths)
        self._task = task
        self._clock = clock
        self._queue_delay = QueueDelayMonitor(settings.queueing_target / 1000)
        wanted = settings.together and settings.queueing_target > 0
        queues = len(plan.widths) > 1 or plan.has_loop
        windows = wanted and queues and all_flush_soon(plan.edges, settings.buffer_timeout)
        self._window = InFlightWindow(windows, plan.widths[0], self.every, sum(plan.widths[1:]))
        self._beginning = Beginning()
        self._reports_beginning = windows and task.stage > 0
        self._was_idle = False
        #: whether the sources paused when they were to be polled last
        self.pausing = False
        #: when the newest record that was handled was ingested
        self._newest = 0.0

    @property
    def tells_after(self) -> float:
        """How long (s) after a report the next may follow."""
        return self.every if self.begins() else self._queue_delay.interval(self.every)

    def on_start(self) -> None:
        """All tasks are open: sources start to read."""
        if self._reports_beginning:
            self._beginning.start(self._clock.wall())

    def begins(self) -> bool:
        """Return whether the task is to say what comes through, also if it has nothing to do."""
        return self._reports_beginning and self._beginning.lasts(self._clock.wall())

    def on_block(self, ingested_at: float, age: float) -> None:
        """Record a processed block: when its oldest record was ingested, and its age (s)."""
        self._queue_delay.on_block(ingested_at, age, self._was_idle)
        self._was_idle = False
        self._newest = ingested_at
        if self._reports_beginning:
            self._beginning.on_block(ingested_at + age)

    def on_idle(self) -> None:
        """The task was idle: the next block has not queued before it."""
        self._was_idle = True

    def take_report(self, idle: bool) -> QueueDelayReported | None:
        """Return by how much records queued too long, for the sources; ``None`` if they did not, and the job does not begin."""
        late = self._queue_delay.take_excess()
        if late is None:
            came = self._clock.wall() if idle else self._newest
            return QueueDelayReported(self._task, ingested_at=came) if came and self.begins() else None
        ingested_at, excess, waited = late
        return QueueDelayReported(self._task, ingested_at=ingested_at, excess=excess, waited=waited)

    def on_throttle(self, command: Throttle) -> None:
        """Apply the queue delays that tasks reported."""
        now = self._clock.wall()
        for late in command.reports:
            self._window.on_throttle(late.task, late.ingested_at, late.excess, now, late.waited, command.mean_rate)

    def pause(self) -> int:
        """Return how long (ms) the sources have to pause."""
        millis = self._window.pause(self._clock.wall())
        self.pausing = millis > 0
        return millis

    def must_send(self, oldest: float) -> bool:
        """Return whether what was read, first at a time (s), waits too long for a block to fill while the sources pause."""
        return self._clock.wall() - oldest >= self._window.holds

    def room(self, now: float, most: int) -> int:
        """Return how many records may be read."""
        return self._window.room(now, most)

    def on_read(self, ingested_at: float, records: int) -> None:
        """Record how many records were read."""
        self._window.on_read(ingested_at, records)

    def on_poll(self, saturated: bool) -> None:
        """Record whether the sources have more records available."""
        self._window.saturated = saturated

    def min_flush_delay(self) -> float:
        """Return the shortest time (s) between flushes, also if the buffer timeout is shorter."""
        return self._window.min_flush_delay(self._clock.wall())
