"""The driver's half of a job: handles the events of tasks, answers with commands, and ends the job.

It has no thread, socket or clock of its own: a runner passes events to it and carries its commands. Calls may come from
several threads (one per connection); one lock makes them one after the other.
"""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TextIO

from funken.connectors.base import Sink, SplitEnumerator
from funken.errors import JobExecutionError, TaskLost
from funken.ids import OperatorId
from funken.operators.sink import CollectSink, WriterSink
from funken.operators.source import SourceSpec
from funken.plan.physical import PhysicalPlan
from funken.runtime.driver.attempts import AttemptOutputs
from funken.runtime.driver.collecting import Collector
from funken.runtime.driver.discovery import Discovery
from funken.runtime.driver.source_coordinator import SourceCoordinator
from funken.runtime.driver.watermark_alignment import WatermarkAlignment
from funken.runtime.messages import (
    CheckpointAcknowledged,
    CheckpointDeclined,
    Collected,
    CommittablesPrepared,
    MetricsReport,
    Printed,
    QueueDelayExceeded,
    SplitsDiscovered,
    SplitsRequested,
    StartReading,
    TaskCommand,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskId,
    TaskOpening,
    TaskStarted,
    Throttle,
    WatermarkReport,
)

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

    ``send`` carries commands that answer no event; the runner sets it. ``checkpoints`` receives the events about snapshots,
    if there are any, and then decides when the job has ended.
    """

    def __init__(
        self, plan: PhysicalPlan, hold: bool = False, out: TextIO | None = None,
        progress: Callable[[JobMaster], None] | None = None,
    ) -> None:  # fmt: skip
        self.plan = plan
        self.tasks = [TaskId(stage, index) for stage, width in enumerate(plan.widths) for index in range(width)]
        self.opening: set[TaskId] = set()
        self.started: set[TaskId] = set()
        self.finished: set[TaskId] = set()
        self.error: JobExecutionError | None = None
        self.ended = threading.Event()
        self.over = False
        """Whether everything the job did is safe; with checkpoints that comes after the end of the last task."""
        self.all_started = threading.Event()
        self.metrics: dict[TaskId, MetricsReport] = {}
        self.collectors: dict[str, Collector] = {}
        self.checkpoints: CheckpointObserver | None = None
        self.send: Callable[[TaskId, TaskCommand], None] = lambda task, command: None
        self.observe: Callable[[TaskEvent], None] = lambda event: None
        """Called with every event, before it is handled; without the lock."""
        self.buffers_output = hold
        self.spark_retries = False
        """Whether Spark retries failed tasks; then a failure ends the job only when Spark stops retrying."""
        self._attempt_outputs = AttemptOutputs()
        self._out = out
        self._progress = progress
        self._lock = threading.RLock()
        self._printing = threading.Lock()
        self._cancelled = False
        self._abandoned = False
        self._sinks: dict[OperatorId, Sink] = {}
        self._prepared: dict[OperatorId, list[Any]] = {}
        self._alignment = WatermarkAlignment()
        enumerators: dict[OperatorId, SplitEnumerator] = {}
        names: dict[OperatorId, str] = {}
        for vertex in plan.vertices:
            for node in vertex.nodes:
                if isinstance(node.spec, SourceSpec):
                    enumerators[node.id] = node.spec.source.enumerator(vertex.parallelism)
                    names[node.id] = node.name
                elif isinstance(node.spec, WriterSink):
                    self._sinks[node.id] = node.spec.sink
                elif isinstance(node.spec, CollectSink):
                    self.collectors[node.spec.name] = Collector()
        self._sources = SourceCoordinator(plan.name, enumerators)
        self.discovery = Discovery(plan.name, enumerators, names)

    # ---- life

    def check(self) -> None:
        """Check every source and sink before anything runs; raises what they raise."""
        self._sources.start()
        for sink in self._sinks.values():
            sink.check()

    def succeed(self) -> None:
        """The job has succeeded: commit what its sinks prepared, and end the collected streams."""
        for operator, committables in self._prepared.items():
            self._sinks[operator].commit(committables)
        self._prepared.clear()
        self.end_collecting()

    def abandon(self) -> None:
        """The job failed or was cancelled: abort what is not committed."""
        with self._lock:
            void = self._attempt_outputs.take_all()
        self._drop(void)
        for operator, committables in self._prepared.items():
            self._sinks[operator].abort(committables)
        self._prepared.clear()

    def cancel(self) -> None:
        """The job is cancelled: release writers that wait for a reader, and record no later failure as the cause."""
        with self._lock:
            self._cancelled = True
        self.ended.set()
        for collector in self.collectors.values():
            collector.close()

    def abandon_attempt(self) -> None:
        """This attempt is abandoned: release writers that wait for a reader, which may read from another attempt."""
        self._abandoned = True
        for collector in self.collectors.values():
            collector.wake()

    def end_collecting(self) -> None:
        """Notify readers of collected records of the end."""
        for collector in self.collectors.values():
            collector.end()

    def begin_micro_batch(self, number: int, own: bool) -> bool:
        """Set which rows are to be read; false if the checkpoint that the attempt starts from ends with that batch.

        ``own``: it is a checkpoint of this very job, else the first batch begins. Raises if batches are missing.
        """
        return self._sources.begin_micro_batch(number, own)

    # ---- checkpoints

    def restore_enumerators(self, snapshots: Mapping[OperatorId, Any]) -> None:
        """Restore the enumerators from snapshots; call it before ``check``."""
        self._sources.restore(snapshots)

    def trigger(self, tasks: Iterable[Any], command: TaskCommand) -> dict[OperatorId, Any]:
        """Send a command to tasks and return the snapshots of the enumerators; no split is assigned in between."""
        with self._lock:
            snapshots = self._sources.snapshot()
            for task in tasks:
                self.send(task, command)
        return snapshots

    def commit(self, operator: OperatorId, committables: list[Any]) -> None:
        """Commit what a sink prepared; it may have been committed before."""
        self._sinks[operator].commit(committables)

    def tick(self) -> None:
        """Tick the checkpoints."""
        if self.checkpoints is not None:
            self.checkpoints.tick()

    # ---- reports

    def handle(self, event: TaskEvent) -> Commands:
        """Handle an event; return the commands to send."""
        self.observe(event)
        match event:
            case Collected() | Printed() | CommittablesPrepared() if self.buffers_output:
                with self._lock:
                    self._attempt_outputs.hold(event)
                return []
            case Collected() | Printed() | CommittablesPrepared():
                self._deliver(event)
                return []
            case WatermarkReport():
                with self._lock:
                    return self._alignment.reached(event)
            case QueueDelayExceeded(ingested_at=ingested_at, excess=excess):
                return [(task, Throttle(event.task, ingested_at, excess)) for task in self.tasks if task.stage == 0]
            case TaskEnded():
                self._finish(event.task)
                if self.checkpoints is not None:
                    self.checkpoints.take(event)
                return []
            case CheckpointAcknowledged() | CheckpointDeclined():
                if self.checkpoints is not None:
                    self.checkpoints.take(event)
                return []
            case TaskOpening():
                self._open(event.task)
                return []
            case TaskStarted():
                return self._start(event.task)
            case MetricsReport():
                self.metrics[event.task] = event
                if self._progress is not None:
                    self._progress(self)
                return []
        with self._lock:
            match event:
                case SplitsRequested():
                    # Sent before the lock is released: an assignment must not overtake the trigger of a checkpoint.
                    self.send(event.task, self._sources.assign(event))
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
                self._deliver(event)
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
        if task in self.started and task.stage == 0:  # a second attempt
            self._sources.assign_again(task.subtask)
        self.started.add(task)
        if len(self.started) < len(self.tasks):
            return []
        self.all_started.set()
        return [(source, StartReading()) for source in self.tasks if source.stage == 0]

    def _deliver(self, event: TaskEvent) -> None:
        match event:
            case Printed(lines=lines):
                out = self._out or sys.stdout
                with self._printing:
                    out.write("".join(line + "\n" for line in lines))
                    out.flush()
            case Collected(sink=sink, records=records):
                self.collectors[sink].put(pickle.loads(records), lambda: self._abandoned)
            case CommittablesPrepared(committables=committables):
                with self._lock:
                    self._prepared.setdefault(OperatorId(event.operator), []).extend(committables)

    def _drop(self, void: list[TaskEvent]) -> None:
        """Let sinks abort what a discarded attempt prepared."""
        for event in void:
            if isinstance(event, CommittablesPrepared):
                self._sinks[OperatorId(event.operator)].abort(list(event.committables))

    # ---- time

    def discover(self, now: int) -> Commands:
        """Let enumerators look for new splits whose time it is; tell the source tasks of what has been found by now.

        Looks run where ``discovery.run`` says, without the lock: a slow one delays neither reports nor checkpoints.
        """
        commands: Commands = []
        for operator, found in self.discovery.poll(now):
            with self._lock:
                new = self._sources.found(operator, found)
            if new:
                commands += [(task, SplitsDiscovered(operator)) for task in self.tasks if task.stage == 0]
        return commands


def _read_already(task: TaskId) -> TaskLost:
    return TaskLost(
        f"Spark repeats {task}, which had finished: its output was lost with its executor. What others have read of it "
        "may differ from what it would write now, so the job cannot go on. Run it again. With Spark's external shuffle "
        "service (spark.shuffle.service.enabled) output outlives its executor.",
        subtask=task.subtask,
    )


def _of_the_job(error: BaseException | None) -> JobExecutionError:
    return error if isinstance(error, JobExecutionError) else JobExecutionError(str(error))
