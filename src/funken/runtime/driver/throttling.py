"""What the driver tells the tasks with sources: which tasks records queued before, and how fast all of them read.

Every task reports what its sources have read about twice a second. The mean over the tasks goes along with the reports of late
records (``Throttle.mean_rate``), so that a source that reads much less than the others notices (``in_flight_window.py``).

Every source gets the reports of every task: 16 tasks, each of which reports four times a second to 16 sources, would be 1024
commands a second, and every one wakes three threads. So reports go together, a message to each source at most twice in the time
that a task waits between its reports.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from funken.plan.physical import Vertex
from funken.runtime.messages import MetricsReport, QueueDelayReported, TaskId

_LEAST_SECONDS = 0.1
"""Reports that are closer together say little."""
_STALE = 4
"""Reports that waited for so many times the interval would mislead: nothing was late since."""


class SourceRates:
    """The rates of the tasks that have sources, in records per second.

    >>> from funken.testing import local
    >>> stream = local([1])
    >>> _ = stream.print()
    >>> vertices = stream.get_execution_environment().compile().vertices
    >>> from funken.runtime.messages import VertexMetrics
    >>> rates = SourceRates(vertices)
    >>> for at, read in (10.0, 500), (10.5, 750):
    ...     rates.on_report(MetricsReport(TaskId(0, 0), vertices={0: VertexMetrics(records_in=read)}, at=at))
    >>> rates.mean
    500.0
    """

    def __init__(self, vertices: Iterable[Vertex]) -> None:
        self._sources = frozenset(vertex.id for vertex in vertices if vertex.source is not None)
        self._read: dict[TaskId, tuple[float, int]] = {}
        self._rates: dict[TaskId, float] = {}
        #: over all tasks that have reported; 0 if none has
        self.mean = 0.0

    def on_report(self, report: MetricsReport) -> None:
        """Note what a task has read since its last report."""
        counts = [metrics.records_in for vertex, metrics in report.vertices.items() if vertex in self._sources]
        if not counts:
            return
        read = sum(counts)
        at, before = self._read.get(report.task, (report.at, read))
        if 0 < report.at - at < _LEAST_SECONDS:
            return
        self._read[report.task] = report.at, read
        if report.at > at and read >= before:  # else the task has begun anew
            self._rates[report.task] = (read - before) / (report.at - at)
            rates = tuple(self._rates.values())  # other tasks report from other threads
            self.mean = sum(rates) / len(rates)


class QueueDelayReports:
    """Holds reports of late records back, so that they go together; ``interval``: the least time (s) between two messages.

    >>> first, second = QueueDelayReported(TaskId(1, 0), 6.9, 0.05), QueueDelayReported(TaskId(1, 1), 6.9, 0.05)
    >>> reports = QueueDelayReports(0.1)
    >>> len(reports.add(first, now=7.0)), len(reports.add(second, now=7.0))
    (1, 0)
    >>> [report.task.subtask for report in reports.add(first, now=7.2)]
    [1, 0]
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._lock = threading.Lock()  # each task reports from a thread of its own
        self._sent = float("-inf")
        #: by task, in the order in which they came: when, and what it has reported last
        self._held: dict[TaskId, tuple[float, QueueDelayReported]] = {}

    def add(self, report: QueueDelayReported, now: float) -> tuple[QueueDelayReported, ...]:
        """Take a report; return those that are to be sent now (s), maybe none, at most one of each task."""
        with self._lock:
            self._held.pop(report.task, None)
            self._held[report.task] = now, report
            if now - self._sent < self._interval:
                return ()
            found = tuple(held for at, held in self._held.values() if now - at <= _STALE * self._interval)
            self._held.clear()
            self._sent = now
        return found
