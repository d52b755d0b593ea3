"""The metrics of a task: counted per block, timed per block or per turn of its loop, never per record.

Three kinds of time, as in Flink. *Busy*: operators work on a block, a watermark, a barrier or a timer; work of a vertex that is
joined by an edge within the task counts for the vertex before it. *Back-pressured*: the task's output waits until Spark takes
it, or its sources pause because records queue behind them. *Idle* is the rest, which the driver computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from funken.plan.physical import PhysicalPlan
from funken.runtime.chain.contexts import OperatorContexts
from funken.runtime.messages import MetricsReport, OperatorMetrics, TaskId
from funken.runtime.process import process_status
from funken.runtime.task.builder import Subtask
from funken.runtime.task.latency_markers import latency_statistics


class TaskMeter:
    """Keeps the times of one task, and reports its metrics.

    >>> seconds = iter([1.0, 3.5])
    >>> meter = TaskMeter(TaskId(0, 0), {}, lambda: next(seconds))
    >>> meter.hold(); meter.hold(); meter.release(); meter.release()
    >>> meter.held
    2.5
    """

    __slots__ = ("_before", "_clock", "_since", "_subtasks", "_task", "blocked", "held")

    def __init__(self, task: TaskId, subtasks: Mapping[int, Subtask], clock: Callable[[], float]) -> None:
        self._task = task
        self._subtasks = subtasks
        self._clock = clock
        self._since: float | None = None
        #: for how long (s) the vertices had been busy when ``waited`` was last called
        self._before: dict[int, float] = {}
        self.blocked = 0.0
        """How long (s) the output has waited until it was taken."""
        self.held = 0.0
        """How long (s) the sources have paused because of what is behind them."""

    def hold(self) -> None:
        """The sources pause from now on, if they do not yet."""
        if self._since is None:
            self._since = self._clock()

    def release(self) -> None:
        """The sources read on."""
        if self._since is not None:
            self.held += self._clock() - self._since
            self._since = None

    def waited(self, seconds: float) -> None:
        """The task had something to do, but its thread turned other tasks for so long (s), since the last call.

        What it was busy with since then took so much longer, as if the other tasks had had threads of their own.
        """
        before, self._before = self._before, {}
        grown = {number: each.metrics.busy - before.get(number, 0.0) for number, each in self._subtasks.items()}
        total = sum(grown.values())
        for number, subtask in self._subtasks.items():
            if total > 0:
                subtask.metrics.busy += seconds * grown[number] / total
            self._before[number] = subtask.metrics.busy

    def report(self, plan: PhysicalPlan, contexts: OperatorContexts) -> MetricsReport:
        """Return a copy of the current metrics."""
        now = self._clock()
        held = self.held if self._since is None else self.held + now - self._since
        for subtask in self._subtasks.values():
            metrics, gate, source = subtask.metrics, subtask.gate, subtask.source
            metrics.records_out = sum(end.records() for end in subtask.outputs)
            metrics.bytes_out = sum(writer.bytes for writer in subtask.writers)
            metrics.watermark_out = min(op.current_watermark for op in subtask.chain.operators.values())
            metrics.watermark = gate.combined if gate is not None else metrics.watermark_out
            metrics.back_pressured = self.blocked
            if gate is not None:
                metrics.records_in = gate.records
            if source is not None:
                metrics.records_in = source.records
                metrics.back_pressured += held
            counts = subtask.chain.record_counts(metrics.records_in)
            metrics.operators = {plan.stable_ids[number]: found for number, found in counts.items()}
            metrics.markers = {name: latency_statistics(ages) for name, ages in subtask.marker_ages.items()}
            for node in subtask.vertex.nodes:
                group = contexts.metrics[node.id]
                if user := group.snapshot():
                    found = OperatorMetrics(node.name, self._task.subtask, user, group.labels())
                    metrics.user[plan.stable_ids[node.id]] = found
        vertices = {number: subtask.metrics.copy() for number, subtask in self._subtasks.items()}
        return MetricsReport(self._task, vertices=vertices, at=now, process=process_status())
