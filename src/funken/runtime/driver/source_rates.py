"""How fast the sources of a job read: the driver tells each of them, since it knows of no other by itself.

Every task reports what its sources have read about twice a second. The mean over the tasks goes along with every report of late
records (``Throttle.mean_rate``), so that a source that reads much less than the others notices (``in_flight_window.py``).
"""

from __future__ import annotations

from collections.abc import Iterable

from funken.plan.physical import Vertex
from funken.runtime.messages import MetricsReport, TaskId

_LEAST_SECONDS = 0.1
"""Reports that are closer together say little."""


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
