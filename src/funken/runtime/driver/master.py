"""The driver's half of a job: handles the events of tasks, answers with commands, and ends the job.

It has no thread or socket of its own: a runner passes events to it, carries its commands and sets its clock. Calls may come from
several threads (one per connection); one lock makes them one after the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from funken.config import Configuration
from funken.connectors.sink import PreparedCommittable
from funken.errors import JobExecutionError, TaskLost
from funken.ids import OperatorId
from funken.operators.coordinators import Collectors
from funken.plan.physical import PhysicalPlan, Vertex
from funken.runtime.driver.coordinators import Coordinators
from funken.runtime.flow_control import report_interval
from funken.runtime.job.loops import LoopMaster
from funken.runtime.messages import (
    CheckpointAcknowledged,
    CheckpointDeclined,
    CoordinatorEvent,
    FeedbackAddress,
    LoopReported,
    MetricsReport,
    QueueDelayReported,
    StacksSampled,
    StartReading,
    TaskCommand,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskId,
    TaskLogged,
    TaskOpening,
    TaskStarted,
    ThreadsDumped,
    Throttle,
)
from funken.timing.clock import SystemClock

# ---- What becomes of tasks that Spark repeats in a batch job: a task's output counts once, when the task has
# finished.
#
# What an attempt reports is buffered here until then. If the attempt fails, it is discarded, and the cause is kept:
# that is the job's error if Spark stops retrying. What a finished task reports when it is repeated is discarded
# too.


class AttemptOutputs:
    """The events and failures of the tasks of one job; the caller holds the master's lock."""

    def __init__(self) -> None:
        self._held: dict[TaskId, list[CoordinatorEvent]] = {}
        self._failures: dict[TaskId, list[JobExecutionError]] = {}
        self._finished: set[TaskId] = set()

    def hold(self, event: CoordinatorEvent) -> None:
        """Buffer an event until its task has finished."""
        self._held.setdefault(event.task, []).append(event)

    def take(self, task: TaskId) -> list[CoordinatorEvent]:
        """Return the reports of a task's attempt, and forget them."""
        return self._held.pop(task, [])

    def take_all(self) -> list[CoordinatorEvent]:
        """Return the held reports of every task, and forget them."""
        return [event for task in list(self._held) for event in self.take(task)]

    def first_to_finish(self, task: TaskId) -> bool:
        """Return True if no attempt of the task has finished before this one."""
        first = task not in self._finished
        self._finished.add(task)
        return first

    def has_finished(self, task: TaskId) -> bool:
        """Return True if an attempt of the task has finished."""
        return task in self._finished

    def failed(self, task: TaskId, error: JobExecutionError) -> None:
        """Remember why an attempt failed; Spark decides whether there is another."""
        self._failures.setdefault(task, []).append(error)

    def cause(self) -> JobExecutionError | None:
        """Return the newest failure of the task that failed most often: the one that Spark stopped retrying.

        >>> from funken.errors import OperatorFailed
        >>> attempts = AttemptOutputs()
        >>> for task, error in [(0, OperatorFailed("once")), (1, OperatorFailed("twice")), (1, TaskLost("killed"))]:
        ...     attempts.failed(TaskId(0, task), error)
        >>> attempts.cause()
        OperatorFailed('twice')
        """
        if not self._failures:
            return None
        failures = max(self._failures.values(), key=len)
        told = [error for error in failures if not isinstance(error, TaskLost)]
        return (told or failures)[-1]


# ---- What the driver tells the tasks with sources: which tasks records queued before, and how fast all of them
# read.
#
# Every task reports what its sources have read about twice a second. The mean over the tasks goes along with the
# reports of late records (``Throttle.mean_rate``), so that a source that reads much less than the others notices
# (``InFlightWindow``).
#
# Every source gets the reports of every task: 16 tasks, each of which reports four times a second to 16 sources,
# would be 1024 commands a second, and every one wakes three threads. So reports go together, a message to each
# source at most twice in the time that a task waits between its reports.


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
        """Note the records that a task has read since its last report."""
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


Commands = list[tuple[TaskId, TaskCommand]]


class CheckpointObserver(Protocol):
    """Receives the events that concern checkpoints; never called while the master's lock is held."""

    def all_started(self) -> None:
        """Every task is open."""

    def take(self, event: TaskEvent) -> None:
        """A task has snapshotted, could not, or has finished."""

    def tick(self) -> None:
        """Time has passed."""


class JobMaster:
    """One attempt of one job, seen from the driver.

    ``send`` carries commands that answer no event; the runner sets it, and ``now`` (s) if its clock is not the machine's.
    ``checkpoints`` receives the events about snapshots, if there are any, and then decides when the job has ended.
    """

    def __init__(
        self, plan: PhysicalPlan, hold: bool = False, configuration: Configuration | None = None,
        progress: Callable[[JobMaster], None] | None = None, collectors: Collectors | None = None,
    ) -> None:  # fmt: skip
        self.plan = plan
        self.tasks = [TaskId(stage, index) for stage, width in enumerate(plan.widths) for index in range(width)]
        roots = plan.head_tasks(roots=True)
        self.triggered = [task for task in self.tasks if task.stage == 0 or task in roots]
        """The tasks that a checkpoint begins at: those with sources, and with heads of loops, whose inputs may have ended."""
        self.opening: set[TaskId] = set()
        self.started: set[TaskId] = set()
        self.finished: set[TaskId] = set()
        self.error: JobExecutionError | None = None
        self.ended = threading.Event()
        self.over = False
        """True if everything the job did is safe; with checkpoints that comes after the end of the last task."""
        self.all_started = threading.Event()
        self.metrics: dict[TaskId, MetricsReport] = {}
        self.collectors = collectors or Collectors()
        """The targets of the records of collecting sinks: those of the job."""
        self.checkpoints: CheckpointObserver | None = None
        self.send: Callable[[TaskId, TaskCommand], None] = lambda task, command: None
        self.now: Callable[[], float] = SystemClock().monotonic
        self.observe: Callable[[TaskEvent], None] = lambda event: None
        """Called with every event, before it is handled; without the lock."""
        self.buffers_output = hold
        self.spark_retries = False
        """True if Spark retries failed tasks; then a failure ends the job only when Spark stops retrying."""
        self._attempt_outputs = AttemptOutputs()
        self._progress = progress
        self._source_rates = SourceRates(plan.vertices)
        self._queue_delays = QueueDelayReports(report_interval(plan.widths) / 2)
        self._loops = LoopMaster(plan)
        self._lock = threading.RLock()
        self._cancelled = False
        self._stopping = threading.Event()
        self.coordinators = Coordinators(plan, self._lock, self._stopping, self.fail, self._send)
        self.coordinators.configuration = configuration or Configuration()
        self.collectors.share(self.coordinators.shared)

    # ---- life

    def check(self) -> None:
        """Check every source and sink before anything runs; raises their exceptions."""
        self.coordinators.start()

    def succeed(self) -> None:
        """The job has succeeded: commit the output that its sinks prepared, and end the collected streams."""
        for sink in self.coordinators.sinks():
            sink.succeeded()
        self.collectors.end()
        if self.checkpoints is None:
            self.close()

    def close(self) -> None:
        """Release the resources of the coordinators; nothing is committed after it."""
        self.coordinators.close()

    def abandon(self) -> None:
        """The job failed or was cancelled: abort uncommitted output."""
        with self._lock:
            void = self._attempt_outputs.take_all()
        self._drop(void)
        for sink in self.coordinators.sinks():
            sink.abort()
        if self.checkpoints is None:
            self.close()

    def cancel(self) -> None:
        """The job is cancelled: release writers that wait for a reader, and record no later failure as the cause."""
        with self._lock:
            self._cancelled = True
        self._stopping.set()
        self.ended.set()
        self.collectors.close()

    def begin_micro_batch(self, number: int, own: bool) -> bool:
        """Set which rows are to be read; false if the checkpoint that the attempt starts from ends with that batch.

        ``own``: it is a checkpoint of this very job, else the first batch begins. Raises if batches are missing.
        """
        return all([source.begin_micro_batch(number, own) for source in self.coordinators.sources()])

    def _send(self, task: TaskId, command: TaskCommand) -> None:
        self.send(task, command)  # which the runner sets later

    # ---- checkpoints

    def trigger(self, tasks: Iterable[Any], command: TaskCommand, checkpoint: int = 0) -> dict[OperatorId, Any]:
        """Send a command to tasks and return the snapshots of the coordinators; no event is sent in between."""
        with self._lock:
            snapshots = self.coordinators.checkpoint(checkpoint)
            for task in tasks:
                self.send(task, command)
        return snapshots

    def recover(self, operator: OperatorId, prepared: list[PreparedCommittable]) -> None:
        """Commit the output of the checkpoint that the attempt starts from; it may have been committed before."""
        self.coordinators.sink(operator).recover(prepared)

    def commit(self, operator: OperatorId, prepared: list[PreparedCommittable]) -> None:
        """Commit a sink's prepared output of a checkpoint that is complete."""
        self.coordinators.sink(operator).commit(prepared)

    def tick(self) -> None:
        """Tick the checkpoints."""
        if self.checkpoints is not None:
            self.checkpoints.tick()

    # ---- reports

    def handle(self, event: TaskEvent) -> Commands:
        """Handle an event; return the commands to send."""
        self.observe(event)
        match event:
            case CoordinatorEvent(output=True) if self.buffers_output:
                with self._lock:
                    self._attempt_outputs.hold(event)
                return []
            case CoordinatorEvent(output=True):
                self.coordinators.handle_output(event)
                return []
            case QueueDelayReported():
                reports = self._queue_delays.add(event, self.now())
                throttle = Throttle(reports, self._source_rates.mean)
                return [(task, throttle) for task in self.tasks if reports and task.stage == 0]
            case TaskEnded():
                self._finish(event.task)
                if self.checkpoints is not None:
                    self.checkpoints.take(event)
                return []
            case CheckpointAcknowledged() | CheckpointDeclined():
                if self.checkpoints is not None:
                    self.checkpoints.take(event)
                return []
            case TaskLogged() | StacksSampled() | ThreadsDumped():  # for who observes
                return []
            case TaskOpening():
                self._open(event.task)
                return []
            case TaskStarted():
                return self._start(event.task)
            case MetricsReport():
                self.metrics[event.task] = event
                self._source_rates.on_report(event)
                if self._progress is not None:
                    self._progress(self)
                return []
        with self._lock:
            match event:
                case LoopReported() | FeedbackAddress():
                    return self._loops.handle(event)
                case CoordinatorEvent():
                    # Answers are sent before the lock is released: they must not overtake the trigger of a checkpoint.
                    self.coordinators.handle_event(event)
                case TaskFailed() if self.spark_retries and not (self._cancelled or self.over):
                    self._attempt_outputs.failed(event.task, _of_the_job(event.error))
                case TaskFailed():
                    self.fail(event.error, event.secondary)
        return []

    def _open(self, task: TaskId) -> None:
        with self._lock:
            self.opening.add(task)
            read = any(other.stage > task.stage for other in self.opening)
            if self.buffers_output and read and self._attempt_outputs.has_finished(task):
                self.fail(_read_already(task))

    def _finish(self, task: TaskId) -> None:
        with self._lock:
            held = self._attempt_outputs.take(task)
            counts = self._attempt_outputs.first_to_finish(task)
        if not counts:
            self._drop(held)
        else:
            for event in held:  # without the lock: a slow reader must not delay the events of other tasks
                self.coordinators.handle_output(event)
        with self._lock:
            self.finished.add(task)
            if len(self.finished) == len(self.tasks) and self.checkpoints is None:
                self.end()

    def end(self) -> None:
        """The job has ended: its tasks have finished, or it was stopped with a savepoint."""
        self.over = True
        self.ended.set()

    def fail(self, error: BaseException | None, secondary: bool = False) -> None:
        """Record the first cause; a secondary one (such as a lost connection) only if there is no other."""
        with self._lock:
            if self._cancelled or self.over:  # tasks of a job that was stopped with a savepoint just disconnect
                return
            if self.error is None or (isinstance(self.error, TaskLost) and not secondary):
                self.error = _of_the_job(error)
        self._stopping.set()
        self.ended.set()

    def spark_gave_up(self) -> None:
        """Spark has stopped retrying: the job fails with the cause of the last attempt that failed."""
        with self._lock:
            cause = self._attempt_outputs.cause()
        if cause is not None:
            self.fail(cause)

    def _start(self, task: TaskId) -> Commands:
        with self._lock:
            void = self._attempt_outputs.take(task)  # of an attempt before
            commands = self._begin(task)
        self._drop(void)
        if commands and self.checkpoints is not None:
            self.checkpoints.all_started()
        return commands

    def _begin(self, task: TaskId) -> Commands:
        if task in self.started:  # a second attempt
            self.coordinators.subtask_failed(task)
        self.started.add(task)
        if len(self.started) < len(self.tasks):
            return []
        self.all_started.set()
        return [*self._loops.begin(), *((task, StartReading()) for task in self.tasks)]

    def _drop(self, void: list[CoordinatorEvent]) -> None:
        """Discard the output of an attempt that does not count."""
        for event in void:
            self.coordinators.discard_output(event)

    # ---- time

    def advance(self, now: int) -> None:
        """Let processing time (ms) pass for the coordinators and the loops."""
        self.coordinators.tick(now)
        with self._lock:
            for task, command in self._loops.advance(now):
                self.send(task, command)


def _read_already(task: TaskId) -> TaskLost:
    return TaskLost(
        f"Spark repeats {task}, which had finished: its output was lost with its executor. What others have read of it "
        "may differ from what it would write now, so the job cannot go on. Run it again. With Spark's external shuffle "
        "service (spark.shuffle.service.enabled) output outlives its executor.",
        subtask=task.subtask,
    )


def _of_the_job(error: BaseException | None) -> JobExecutionError:
    return error if isinstance(error, JobExecutionError) else JobExecutionError(str(error))
