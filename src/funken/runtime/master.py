"""The driver's half of a job: takes what tasks report, answers them, says when the job is over.

It has no thread, socket or clock of its own: a runner feeds it reports and carries its orders. Calls may come from
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
from funken.runtime.alignment import Alignment
from funken.runtime.attempts import Attempts
from funken.runtime.collecting import Collector
from funken.runtime.discovery import Discovery
from funken.runtime.messages import (
    Begin,
    Collected,
    Failed,
    Finished,
    Measured,
    NotSnapshotted,
    Opening,
    Order,
    Prepared,
    Printed,
    Queued,
    Reached,
    Report,
    Snapshotted,
    SplitsFound,
    SplitsWanted,
    Started,
    TaskId,
    Throttle,
)
from funken.runtime.splits import Splits

Orders = list[tuple[TaskId, Order]]


class CheckpointObserver(Protocol):
    """Who is told what concerns checkpoints; never while the master's lock is held."""

    def all_started(self) -> None:
        """Every task is open."""

    def take(self, report: Report) -> None:
        """A task has snapshotted, could not, or has finished."""

    def tick(self) -> None:
        """Time has passed."""


class JobMaster:
    """One attempt of one job, seen from the driver.

    ``send`` carries orders that answer no report; the runner sets it. ``checkpoints`` is told of snapshots, if there are
    any; then it says when the job has ended.
    """

    def __init__(
        self, plan: PhysicalPlan, hold: bool = False, out: TextIO | None = None,
        progress: Callable[[JobMaster], None] | None = None,
    ) -> None:  # fmt: skip
        self.plan = plan
        self.tasks = [TaskId(level, index) for level, width in enumerate(plan.widths) for index in range(width)]
        self.opening: set[TaskId] = set()
        self.started: set[TaskId] = set()
        self.finished: set[TaskId] = set()
        self.error: JobExecutionError | None = None
        self.ended = threading.Event()
        self.over = False
        """Whether everything the job did is safe; with checkpoints that comes after the end of the last task."""
        self.all_started = threading.Event()
        self.metrics: dict[TaskId, Measured] = {}
        self.collectors: dict[str, Collector] = {}
        self.checkpoints: CheckpointObserver | None = None
        self.send: Callable[[TaskId, Order], None] = lambda task, order: None
        self.holds = hold
        self.repeats = False
        """Whether Spark repeats tasks that fail; then a failure ends the job only when Spark gives up."""
        self._attempts = Attempts()
        self._out = out
        self._progress = progress
        self._lock = threading.RLock()
        self._printing = threading.Lock()
        self._cancelled = False
        self._given_up = False
        self._sinks: dict[OperatorId, Sink] = {}
        self._prepared: dict[OperatorId, list[Any]] = {}
        self._alignment = Alignment()
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
        self._splits = Splits(plan.name, enumerators)
        self.discovery = Discovery(plan.name, enumerators, names)

    # ---- life

    def check(self) -> None:
        """Look at every source and sink before anything runs; raise what they raise."""
        self._splits.start()
        for sink in self._sinks.values():
            sink.check()

    def succeed(self) -> None:
        """The job is over: make what its sinks prepared visible, and end the collected streams."""
        for operator, committables in self._prepared.items():
            self._sinks[operator].commit(committables)
        self._prepared.clear()
        self.end_collecting()

    def abandon(self) -> None:
        """The job failed or was cancelled: drop what is not committed."""
        with self._lock:
            void = self._attempts.take_all()
        self._drop(void)
        for operator, committables in self._prepared.items():
            self._sinks[operator].abort(committables)
        self._prepared.clear()

    def cancel(self) -> None:
        """Nobody wants the job any more: let go of whatever waits for a reader, and take no failure for its cause."""
        with self._lock:
            self._cancelled = True
        self.ended.set()
        for collector in self.collectors.values():
            collector.close()

    def give_up(self) -> None:
        """Nothing more of this attempt counts: let go of whatever waits for a reader, who may read another attempt."""
        self._given_up = True
        for collector in self.collectors.values():
            collector.wake()

    def end_collecting(self) -> None:
        """Let readers of collected records see the end."""
        for collector in self.collectors.values():
            collector.end()

    def begin_micro_batch(self, number: int, own: bool) -> bool:
        """Say which rows are to be read; false if the checkpoint that the attempt starts from ends just that batch.

        ``own``: it is a checkpoint of this very job, else the first batch begins. Raises if batches are missing.
        """
        return self._splits.begin_micro_batch(number, own)

    # ---- checkpoints

    def restore_enumerators(self, snapshots: Mapping[OperatorId, Any]) -> None:
        """Let enumerators go on from snapshots instead of from the start; before ``check``."""
        self._splits.restore(snapshots)

    def trigger(self, tasks: Iterable[Any], order: Order) -> dict[OperatorId, Any]:
        """Send an order to tasks and return what the enumerators have not handed out, with nothing in between."""
        with self._lock:
            snapshots = self._splits.snapshot()
            for task in tasks:
                self.send(task, order)
        return snapshots

    def commit(self, operator: OperatorId, committables: list[Any]) -> None:
        """Make visible what a sink prepared; it may have been committed before."""
        self._sinks[operator].commit(committables)

    def tick(self) -> None:
        """Let time pass for whoever takes checkpoints."""
        if self.checkpoints is not None:
            self.checkpoints.tick()

    # ---- reports

    def handle(self, report: Report) -> Orders:
        """Take a report; return what is to be told to whom."""
        match report:
            case Collected() | Printed() | Prepared() if self.holds:
                with self._lock:
                    self._attempts.hold(report)
                return []
            case Collected() | Printed() | Prepared():
                self._deliver(report)
                return []
            case Reached():
                with self._lock:
                    return self._alignment.reached(report)
            case Queued(born=born, excess=excess):
                return [(task, Throttle(report.task, born, excess)) for task in self.tasks if task.level == 0]
            case Finished():
                self._finish(report.task)
                if self.checkpoints is not None:
                    self.checkpoints.take(report)
                return []
            case Snapshotted() | NotSnapshotted():
                if self.checkpoints is not None:
                    self.checkpoints.take(report)
                return []
            case Opening():
                self._open(report.task)
                return []
            case Started():
                return self._start(report.task)
            case Measured():
                self.metrics[report.task] = report
                if self._progress is not None:
                    self._progress(self)
                return []
        with self._lock:
            match report:
                case SplitsWanted():
                    # Sent before the lock is free: what is handed out must not overtake the trigger of a checkpoint.
                    self.send(report.task, self._splits.give(report))
                case Failed() if self.repeats and not (self._cancelled or self.over):
                    self._attempts.failed(report.task, _of_the_job(report.error))
                case Failed():
                    self.fail(report.error, report.secondary)
        return []

    def _open(self, task: TaskId) -> None:
        with self._lock:
            self.opening.add(task)
            read = any(other.level > task.level for other in self.opening)
            if self.holds and read and self._attempts.has_finished(task):
                self.fail(_read_already(task))

    def _finish(self, task: TaskId) -> None:
        with self._lock:
            held = self._attempts.take(task)
            counts = self._attempts.first_to_finish(task)
        if not counts:
            self._drop(held)
        else:
            for report in held:  # without the lock: a slow reader must not hold up what other tasks report
                self._deliver(report)
        with self._lock:
            self.finished.add(task)
            if len(self.finished) == len(self.tasks) and self.checkpoints is None:
                self.end()

    def end(self) -> None:
        """All is done: the tasks have finished, or the job was stopped with a savepoint."""
        self.over = True
        self.ended.set()

    def fail(self, error: BaseException | None, secondary: bool = False) -> None:
        """Remember the first cause; a secondary one (a lost connection, say) only if there is no other."""
        with self._lock:
            if self._cancelled or self.over:  # tasks of a job that was stopped with a savepoint just hang up
                return
            if self.error is None or (isinstance(self.error, TaskLost) and not secondary):
                self.error = _of_the_job(error)
        self.ended.set()

    def gave_up(self) -> None:
        """Spark repeats nothing any more: why the last attempt failed, if one did, is why the job did."""
        with self._lock:
            cause = self._attempts.cause()
        if cause is not None:
            self.fail(cause)

    def _start(self, task: TaskId) -> Orders:
        with self._lock:
            void = self._attempts.take(task)  # of an attempt before
            orders = self._begin(task)
        self._drop(void)
        if orders and self.checkpoints is not None:
            self.checkpoints.all_started()
        return orders

    def _begin(self, task: TaskId) -> Orders:
        if task in self.started and task.level == 0:  # a second attempt
            self._splits.give_again(task.subtask)
        self.started.add(task)
        if len(self.started) < len(self.tasks):
            return []
        self.all_started.set()
        return [(source, Begin()) for source in self.tasks if source.level == 0]

    def _deliver(self, report: Report) -> None:
        match report:
            case Printed(lines=lines):
                out = self._out or sys.stdout
                with self._printing:
                    out.write("".join(line + "\n" for line in lines))
                    out.flush()
            case Collected(sink=sink, records=records):
                self.collectors[sink].put(pickle.loads(records), lambda: self._given_up)
            case Prepared(committables=committables):
                with self._lock:
                    self._prepared.setdefault(OperatorId(report.operator), []).extend(committables)

    def _drop(self, void: list[Report]) -> None:
        """Let sinks drop what an attempt prepared that does not count."""
        for report in void:
            if isinstance(report, Prepared):
                self._sinks[OperatorId(report.operator)].abort(list(report.committables))

    # ---- time

    def discover(self, now: int) -> Orders:
        """Let enumerators look for new splits whose time it is; tell the source tasks of what has been found by now.

        Looks run where ``discovery.run`` says, without the lock: a slow one delays neither reports nor checkpoints.
        """
        orders: Orders = []
        for operator, found in self.discovery.poll(now):
            with self._lock:
                new = self._splits.found(operator, found)
            if new:
                orders += [(task, SplitsFound(operator)) for task in self.tasks if task.level == 0]
        return orders


def _read_already(task: TaskId) -> TaskLost:
    return TaskLost(
        f"Spark repeats {task}, which had finished: its output was lost with its executor. What others have read of it "
        "may differ from what it would write now, so the job cannot go on. Run it again. With Spark's external shuffle "
        "service (spark.shuffle.service.enabled) output outlives its executor.",
        subtask=task.subtask,
    )


def _of_the_job(error: BaseException | None) -> JobExecutionError:
    return error if isinstance(error, JobExecutionError) else JobExecutionError(str(error))
