"""The operator coordinators of one attempt: made of the plan when they are first needed, each with a worker of its own.

Their methods are called with the job master's lock, but for ``start``, output, commits and ``close``, which may take long.
"""

from __future__ import annotations

import logging
import queue
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from funken.checkpoint.restart_strategy import fault_of
from funken.config import Configuration
from funken.errors import CommitError, JobExecutionError
from funken.ids import OperatorId
from funken.operators.coordinators import (
    CommitCoordinator,
    CommitCounts,
    OperatorCoordinator,
    OperatorCoordinatorContext,
    SourceCoordinator,
)
from funken.operators.user_functions import traits_of
from funken.plan.nodes import Node
from funken.plan.physical import PhysicalPlan, Vertex
from funken.runtime.messages import CoordinatorEvent, OperatorEvent, TaskCommand, TaskId
from funken.runtime.settings import TaskSettings
from funken.timing.clock import SystemClock, came

# ---- Work that may hang, as storage can: done in order in a thread of its own, so that the job and the program do
# not hang.


logger = logging.getLogger(__name__)


class BackgroundWorker:
    """Runs submitted work, one call after the other, in a daemon thread that the first call starts.

    Python waits for the threads of a ``ThreadPoolExecutor`` when the program ends, for ever if one hangs; not for this one.

    >>> background, done = BackgroundWorker("tidying"), []
    >>> background.submit(lambda: done.append("tidied up"))
    >>> background.close(seconds=30), done
    (True, ['tidied up'])
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ended = threading.Event()

    def submit(self, work: Callable[[], None]) -> None:
        """Have work done after earlier work; work after ``close`` is dropped, unless work itself submits it."""
        with self._lock:
            if self._closed and threading.current_thread() is not self._thread:
                return
            self._work.put(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def close(self, seconds: float) -> bool:
        """Wait until all work is done, at most so long; return whether it is."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._work.put(None)
                if self._thread is None:
                    self._ended.set()
        return came(self._ended, seconds)

    def _run(self) -> None:
        try:
            while not (self._closed and self._work.empty()):
                work = self._work.get()
                if work is None:  # closed: what is left is done, and what follows from it
                    continue
                try:
                    work()
                except Exception:
                    logger.exception("%s: a background task failed", self._name)
        finally:
            self._ended.set()


# ---- The worker threads of operator coordinators: I/O with a bound, apart from the threads that carry events.


T = TypeVar("T")

_LOOK_SECONDS = 0.1
_GRACE_SECONDS = 30.0


class CoordinatorWorker:
    """The worker of one coordinator; its thread begins with the first call.

    ``stopping`` is set when the attempt has failed or the job is cancelled: pauses end, and calls get 30 s more. With
    ``threaded=False`` everything runs in the calling thread, and pauses take no time.

    >>> worker = CoordinatorWorker("commits", threading.Event(), threading.RLock(), print)
    >>> worker.call(lambda: threading.current_thread().name, 10.0, "a test")
    'commits'
    >>> worker.close()
    """

    def __init__(
        self, name: str, stopping: threading.Event, lock: threading.RLock, fail: Callable[[BaseException], None],
        threaded: bool = True,
    ) -> None:  # fmt: skip
        self._stopping = stopping
        self._lock = lock
        self._fail = fail
        self._name = name
        self._thread = BackgroundWorker(name) if threaded else None

    def call(self, work: Callable[[], T], seconds: float, what: str) -> T:
        """Run work on the worker thread and wait for its result."""
        if self._thread is None:
            return work()
        result: Future[T] = Future()

        def run() -> None:
            try:
                result.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                result.set_exception(error)

        self._thread.submit(run)
        now = SystemClock().monotonic
        end, stopping = now() + seconds, False
        while not result.done() and now() < end:
            wait([result], _LOOK_SECONDS)
            if self._stopping.is_set() and not stopping:
                stopping, end = True, min(end, now() + _GRACE_SECONDS)
        if not result.done():
            raise CommitError(f"{what} has not returned within {seconds:.0f} s. Is its destination reachable?")
        return result.result()

    def call_async(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run work on the worker thread, then ``done`` with its result under the lock."""

        def run() -> None:
            try:
                found = work()
                with self._lock:
                    done(found)
            except Exception as error:  # noqa: BLE001 - it fails the job
                self._fail(error)

        if self._thread is None:
            run()
        else:
            self._thread.submit(run)

    def pause(self, seconds: float) -> bool:
        """Wait; false at once when the attempt has ended."""
        if self._thread is None:
            return True
        return not came(self._stopping, seconds)

    def close(self) -> None:
        """End the thread; its present work is not waited for. Later work gets another one."""
        if self._thread is not None:
            self._thread.close(0)
            self._thread = BackgroundWorker(self._name)


class Coordinators:
    """The coordinators of an attempt, by operator.

    ``settings`` are those of the attempt, to be set before anything is called: coordinators learn its number from them, and
    what it starts from. With ``threaded=False`` their work runs in the calling thread, as a simulation needs it.
    """

    def __init__(
        self, plan: PhysicalPlan, lock: threading.RLock, stopping: threading.Event, fail: Callable[[BaseException], None],
        send: Callable[[TaskId, TaskCommand], None],
    ) -> None:  # fmt: skip
        self.settings = TaskSettings()
        self.configuration = Configuration()
        self.threaded = True
        self._plan = plan
        self._lock = lock
        self._stopping = stopping
        self._fail = fail
        self._send = send
        self.shared: dict[str, Any] = {}
        self.commits = CommitCounts()
        self._workers: list[CoordinatorWorker] = []
        self._made: dict[OperatorId, OperatorCoordinator] = {}
        self._declared = {
            node.id: (vertex, node)
            for vertex in plan.vertices
            for node in vertex.nodes
            if traits_of(node.spec).coordinator is not None
        }

    def _find(self, operator: OperatorId) -> OperatorCoordinator:
        with self._lock:
            if operator not in self._made:
                self._made[operator] = self._make(*self._declared[operator])
            return self._made[operator]

    def _make(self, vertex: Vertex, node: Node) -> OperatorCoordinator:
        settings, uid = self.settings, self._plan.stable_ids[node.id]

        def send(subtask: int, payload: Any) -> None:
            if not 0 <= subtask < vertex.parallelism:
                raise JobExecutionError(
                    f"the coordinator of operator {node.name!r} sends an event to subtask {subtask}, but the operator has "
                    f"subtasks 0 to {vertex.parallelism - 1}.",
                    operator=node.name,
                )
            with self._lock:
                self._send(TaskId(vertex.stage, subtask), OperatorEvent(node.id, subtask, payload))

        worker = CoordinatorWorker(
            f"funken-{uid}", self._stopping, self._lock, partial(self._failed, node.id), self.threaded
        )
        self._workers.append(worker)
        context = OperatorCoordinatorContext(
            operator=node.name,
            parallelism=vertex.parallelism,
            job_name=self._plan.name,
            job_id=settings.job_id,
            operator_uid=uid,
            attempt=settings.attempt,
            restored_checkpoint_id=None
            if settings.checkpoints is None
            else settings.checkpoints.restored_checkpoint_id,
            send_event=send,
            worker=worker,
            shared=self.shared,
            configuration=self.configuration,
            commits=self.commits,
        )
        make = traits_of(node.spec).coordinator
        assert make is not None
        return make(context)

    def _all(self) -> Iterator[tuple[OperatorId, OperatorCoordinator]]:
        for operator in self._declared:
            yield operator, self._find(operator)

    # ---- life

    def restore(self, snapshots: Mapping[OperatorId, Any]) -> None:
        """Reset coordinators to their state in the checkpoint that the attempt starts from."""
        checkpoints = self.settings.checkpoints
        restored = None if checkpoints is None else checkpoints.restored_checkpoint_id
        for operator, coordinator in self._all():
            if operator in snapshots:
                coordinator.reset_to_checkpoint(restored, snapshots[operator])

    def start(self) -> None:
        """Start every coordinator; raises their exceptions."""
        for _, coordinator in self._all():
            coordinator.start()

    def close(self) -> None:
        """Close those that were made, and end their threads."""
        for operator, coordinator in list(self._made.items()):
            try:
                coordinator.close()
            except Exception as error:  # noqa: BLE001 - what it was for is done
                name = self._declared[operator][1].name
                logger.warning(
                    "the coordinator of operator %r cannot be closed: %s: %s", name, type(error).__name__, error
                )
        for worker in self._workers:
            worker.close()

    # ---- sinks

    def sink(self, operator: OperatorId) -> CommitCoordinator:
        """Return the coordinator of a sink."""
        found = self._find(operator)
        assert isinstance(found, CommitCoordinator)
        return found

    def sinks(self) -> list[CommitCoordinator]:
        """Return the coordinators of sinks that were made."""
        return [found for found in self._made.values() if isinstance(found, CommitCoordinator)]

    def sources(self) -> list[SourceCoordinator]:
        """Return the coordinators of sources."""
        return [found for _, found in self._all() if isinstance(found, SourceCoordinator)]

    def metrics(self) -> dict[str, Mapping[str, Any]]:
        """Return the metrics of each that was made, by the stable id of its operator."""
        found: dict[str, Mapping[str, Any]] = {}
        for operator, coordinator in self._made.items():
            try:
                metrics: Mapping[str, Any] = coordinator.metrics()
            except Exception as error:  # noqa: BLE001 - as of a gauge that raises
                metrics = {"metrics": f"{type(error).__name__}: {error}"}
            if metrics:
                found[self._plan.stable_ids[operator]] = metrics
        return found

    # ---- output; without the lock

    def handle_output(self, event: CoordinatorEvent) -> None:
        """Hand output of a subtask to its coordinator; may wait."""
        with self._attributed(OperatorId(event.operator)):
            self._addressed(event).handle_output(event.subtask, event.payload)

    def discard_output(self, event: CoordinatorEvent) -> None:
        """Drop output of an attempt of a task that does not count."""
        with self._attributed(OperatorId(event.operator)):
            self._addressed(event).discard_output(event.subtask, event.payload)

    def abandon(self) -> None:
        """Let threads return that wait in a coordinator."""
        for coordinator in list(self._made.values()):
            coordinator.abandon()

    # ---- events; the caller holds the lock, except for the notifications and ticks

    def handle_event(self, event: CoordinatorEvent) -> None:
        """Hand an event of a subtask to its coordinator."""
        with self._attributed(OperatorId(event.operator)):
            self._addressed(event).handle_event(event.subtask, event.payload)

    def _addressed(self, event: CoordinatorEvent) -> OperatorCoordinator:
        operator = OperatorId(event.operator)
        if operator not in self._declared:
            names = [node.name for vertex in self._plan.vertices for node in vertex.nodes if node.id == operator]
            raise JobExecutionError(
                f"operator {names[0]!r} sends an event, but has no coordinator; give its spec a method coordinator(context).",
                operator=names[0],
            )
        return self._find(operator)

    @contextmanager
    def _attributed(self, operator: OperatorId) -> Iterator[None]:
        """Fail the attempt with a coordinator's exception, and name its operator."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - user code
            self._failed(operator, error)

    def _failed(self, operator: OperatorId, error: BaseException) -> None:
        if not isinstance(error, JobExecutionError):
            name = self._declared[operator][1].name
            told = f"the coordinator of operator {name!r} failed: {type(error).__name__}: {error}"
            failure = JobExecutionError(told, operator=name, traceback_text="".join(traceback.format_exception(error)))
            failure.__cause__ = error
            failure.fault = fault_of(error)
            error = failure
        self._fail(error)

    def checkpoint(self, checkpoint_id: int) -> dict[OperatorId, Any]:
        """Return the states of those that have one."""
        states = {operator: coordinator.checkpoint(checkpoint_id) for operator, coordinator in self._all()}
        return {operator: state for operator, state in states.items() if state is not None}

    def subtask_failed(self, task: TaskId) -> None:
        """A task begins again while the others run on."""
        for operator, coordinator in self._all():
            if self._declared[operator][0].stage == task.stage:
                coordinator.subtask_failed(task.subtask)

    def notify_complete(self, checkpoint_id: int) -> None:
        """Notify all that a checkpoint is complete."""
        with self._lock:
            for operator, coordinator in self._all():
                with self._attributed(operator):
                    coordinator.notify_checkpoint_complete(checkpoint_id)

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Notify all that a checkpoint is aborted."""
        with self._lock:
            for operator, coordinator in self._all():
                with self._attributed(operator):
                    coordinator.notify_checkpoint_aborted(checkpoint_id)

    def tick(self, now: int) -> None:
        """Let processing time pass (ms)."""
        if self._declared:
            with self._lock:
                for operator, coordinator in self._all():
                    with self._attributed(operator):
                        coordinator.tick(now)
