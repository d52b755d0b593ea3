"""The shell of a ``Task`` in a worker: its connection to the driver, its mailbox, the thread that writes its snapshots.

A worker runs the shell of one task, or those of several (``execution.subtasks-per-worker``): one thread turns their loops
(``spark/worker.py``), the only one for user code. Blocks and orders reach a task through its mailbox; blocks are admitted by
credit, so that a slow operator holds up the reader, Spark's shuffle behind it, and in the end the source. The order of what a
loop does is ``TaskLoop``'s (``runtime/task/task.py``).

A third thread sends heartbeats. A process whose driver is silent ends at once, and so does one that was stopped itself for
so long that the driver has given it up: it closes, saves and writes nothing.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from funken import config
from funken.dataclass import dataclass
from funken.errors import JobExecutionError, TaskLost
from funken.io.storage import open_storage
from funken.plan.nodes import load_program
from funken.runtime.chain.chain import failure_event
from funken.runtime.chain.log_capture import WorkerLogs
from funken.runtime.messages import (
    DumpThreads,
    OperatorWarning,
    SampleStacks,
    TaskCommand,
    TaskEvent,
    TaskId,
    TaskOpening,
    TaskStarted,
)
from funken.runtime.settings import TaskSettings
from funken.runtime.task.stacks import Look, StackSampler, answer_in_thread
from funken.runtime.task.state_manager import TaskStateSnapshot, acknowledgement_of
from funken.runtime.task.task import MEASURE_SECONDS, Task, TaskLoop
from funken.spark.control.channel import Address, ControlClient, Sealer
from funken.spark.control.tls import Credentials
from funken.spark.peers import Feedback
from funken.spark.warm.client import Home
from funken.state.rocksdb.backend import remove_all
from funken.timing.clock import SystemClock, Wakeup

_CREDITS = 4
_WRITE_SECONDS = 600.0
_TELL_SECONDS = 0.5
_GIVEN_UP = 4
_DRIVER_GONE = object()
_WAKE = object()
_CAME_BACK = object()

_monotonic = SystemClock().monotonic


@dataclass(frozen=True)
class Deployment:
    """A job's deployment, sent to every task. ``program`` is the pickled plan with the classes of ``__main__``."""

    program: bytes
    settings: TaskSettings
    address: Address
    credentials: Credentials
    path: tuple[str, ...]
    continuous: bool
    rows: bool = False
    """True if stage 0 is carried by the rows of a DataFrame that the program reads."""
    home: Home | None = None
    """The place where the program runs, if its workers begin elsewhere."""

    def __repr__(self) -> str:
        return "Deployment(...)"  # the key must not reach a log


@dataclass(frozen=True, slots=True)
class InputEnded:
    """The reader's last item in a mailbox when no more blocks come; ``why``: the error that ended it, if any."""

    why: Exception | None = None


class SharedWorker:
    """The shared state of the tasks of a worker."""

    def __init__(self) -> None:
        self.wakeup = Wakeup()
        """Wakes the thread that turns them."""
        self.done = threading.Event()
        self.shared = False
        """True if there is more than one."""
        self.busy = 0.0
        """For how long (s) any of them was turned."""
        self.blocked = 0.0
        """The time (s) that sent blocks were not taken; no other is turned meanwhile."""


class TaskShell:
    """One task in this process; unless noted, methods are called by the thread that turns it."""

    def __init__(self, deployment: Deployment, task: TaskId, worker: SharedWorker) -> None:
        self.id = task
        self.stopped = False
        """True if the task is to be turned no more."""
        self.due = 0.0
        """The time of its next turn, if nothing arrives."""
        self._deployment = deployment
        self._continuous = deployment.continuous
        self._worker = worker
        self._inbox: deque[Any] = deque()
        self._credits: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(_CREDITS):
            self._credits.put(None)
        #: blocks that were received and are not worked off
        self._owed = 0
        #: when the loop last turned, once it runs
        self._turned: float | None = None
        #: for how long (s) it was turned
        self._busy = 0.0
        #: when the last turn ended, and for how long the worker had been blocked by then, if there was more to do
        self._ready: tuple[float, float] | None = None
        self.finish_writing: Callable[[], None] = lambda: None
        """Waits until the final snapshot is written; raises ``JobExecutionError`` if that takes too long."""
        self._feedback = Feedback(task, lambda: self.put(_CAME_BACK))
        self._sealer: Sealer | None = None
        self._control: ControlClient | None = None
        self.send: Callable[[TaskEvent], None] = lambda event: None
        """Sends an event to the driver, once the task is connected."""
        self._task: Task | None = None
        self._sampler: StackSampler | None = None
        self._loop: TaskLoop

    # ---- the beginning

    def connect(self) -> None:
        """Connect to the driver, which learns where the task is; from then on both hear whether the other lives."""
        settings = self._deployment.settings
        self._control = control = ControlClient(self._deployment.address, self._deployment.credentials)
        self.send = control.send
        control.send(TaskOpening(self.id, pid=os.getpid(), host=socket.gethostname()))
        control.start_heartbeats(self.id, settings.heartbeat, self.stalled, self.end_without_driver)
        if self._continuous and self._deployment.credentials.certificate:
            self._sealer = Sealer(self._deployment.credentials.key)
        control.listen(self.take_order)

    def open(self, settings: TaskSettings, logs: WorkerLogs) -> None:
        """Make the task and open its operators; then it has started."""
        control = self._control
        assert control is not None
        self.send = logs.before_the_end(control.send)
        self._sampler = StackSampler()
        plan = load_program(self._deployment.program, self._deployment.path, self._deployment.home)
        self._feedback.open(plan, settings.feedback, control, self._deployment.credentials)
        self._task = task = Task(
            plan, self.id, settings, SystemClock(), self.send, lambda: self.put(_WAKE), self.deliver_to(self.send),
            self._feedback.send_back,
        )  # fmt: skip
        task.open()
        self.begin(task, control.send)
        control.send(TaskStarted(self.id, pid=os.getpid(), host=socket.gethostname()))

    def begin(self, task: Task, report: Callable[[TaskEvent], None]) -> None:
        """Make the loop of an open task."""
        self._task = task
        timeout = self._deployment.settings.buffer_timeout / 1000 if self._continuous else -1.0
        mailbox = self._feedback.mailbox(self, task)
        clock = _ShellClock(self._worker, self)
        self._loop = TaskLoop(task, mailbox, report, clock, timeout, reports_delay=self._continuous)

    def deliver_to(self, send: Callable[[TaskEvent], None]) -> Callable[[TaskStateSnapshot], None] | None:
        """Return a consumer of snapshots: a thread writes them one after the other, and reports."""
        settings = self._deployment.settings
        if settings.checkpoints is None:
            return None
        storage = open_storage(settings.checkpoints.folder)
        snapshots: queue.SimpleQueue[TaskStateSnapshot | None] = queue.SimpleQueue()

        def write() -> None:
            while (snapshot := snapshots.get()) is not None:
                event: TaskEvent
                try:
                    event = acknowledgement_of(self.id, settings.attempt, snapshot, storage, SystemClock())
                except Exception as error:  # noqa: BLE001 - reported to the driver, which would wait for the event
                    event = failure_event(self.id, error)
                with contextlib.suppress(OSError):
                    send(event)

        writer = threading.Thread(target=write, name="funken-snapshots", daemon=True)
        writer.start()

        def finish() -> None:
            snapshots.put(None)
            writer.join(_WRITE_SECONDS)
            if writer.is_alive():
                raise JobExecutionError(f"the final state of {self.id} was not saved within {_WRITE_SECONDS:.0f} s")

        self.finish_writing = finish
        return snapshots.put

    # ---- what other threads call

    def put(self, item: Any) -> None:
        """Put something into the mailbox; never waits."""
        self._inbox.append(item)
        self._worker.wakeup.set()

    def admit(self, item: bytes | pa.RecordBatch) -> None:
        """Put an item of the reader into the mailbox; waits until there is room."""
        if self._sealer is not None and isinstance(item, bytes):
            item = self._sealer.opened(item, *self.id)
        self._credits.get()
        self.put(item)

    def take_order(self, command: TaskCommand | Exception | None) -> None:
        """Take an order of the driver; ``None``: it has hung up."""
        if isinstance(command, SampleStacks | DumpThreads):
            self._sample(command)
            return
        if command is not None:
            if not self._feedback.knows(command):
                self.put(command)
            return
        self.end_if_given_up()
        self.put(_DRIVER_GONE)
        self.end_if_stuck()

    def _sample(self, command: Look) -> None:
        """Sample the thread of the task from another one, also while a function does not return."""
        sampler = self._sampler
        if sampler is not None:
            answer_in_thread(sampler, self.id, command, self.send)

    def end_if_stuck(self) -> None:
        """User code that ignores the end of its job is not stopped by Spark: end the process after a grace period."""
        if not self._worker.done.wait(self._deployment.settings.cancel_grace / 1000):
            remove_all()
            os._exit(3)

    def stalled(self) -> float:
        """Return the time (s) that the loop has been at the same step."""
        return 0.0 if self._turned is None else _monotonic() - self._turned

    def end_if_given_up(self) -> None:
        """A process that was stopped finds its connections closed when it runs again: the job continues without it."""
        if self._control is not None and self._control.was_stopped:
            os._exit(_GIVEN_UP)

    def end_without_driver(self, seconds: float) -> None:
        """End this process without its driver: the job may go on elsewhere, so nothing more is to happen here."""
        text = (
            f"funken: the driver has sent no heartbeat to {self.id} for {seconds:.1f} s ({config.HEARTBEAT_TIMEOUT.key}): "
            "it was stopped, its machine is frozen or cannot be reached. This worker ends.\n"
        )
        thread = threading.Thread(target=sys.stderr.write, args=(text,), daemon=True)  # who reads it may be frozen too
        thread.start()
        thread.join(_TELL_SECONDS)
        os._exit(_GIVEN_UP)

    # ---- the loop

    def turn(self) -> Iterator[tuple[bool, list[tuple[int, bytes]]]]:
        """Turn the loop once; yields whether the rows must not be held back on their way, and the rows."""
        task, worker = self._task, self._worker
        assert task is not None
        begin, blocked, waited = _monotonic(), worker.blocked, 0.0
        if self._ready is not None:
            at, before = self._ready
            waited, blocked = begin - at - (blocked - before), before
        elif self._inbox:
            self._handle(task, self._inbox.popleft())
            if self.stopped:
                return
        for urgent in self._loop.turn(1, self._feedback.polls()):
            yield self._continuous and urgent, self._taken(task)
        if task.finished:
            self.stopped = not self._continuous
            yield self._continuous, self._taken(task)
        task.meter.blocked += worker.blocked - blocked
        if worker.shared and waited > 0:
            task.meter.waited(waited)
        self._turned = end = _monotonic()
        self._busy += end - begin
        worker.busy += end - begin
        wait = self._loop.wait / 1000
        self.due = end + min(wait, MEASURE_SECONDS)
        self._ready = None if wait > 0 else (end, worker.blocked)

    def _taken(self, task: Task) -> list[tuple[int, bytes]]:
        rows = task.outbox
        if self._sealer is None:
            taken = list(rows)
        else:
            stage = self.id.stage + 1
            taken = [(target, self._sealer.sealed(block, stage, target)) for target, block in rows]
        rows.clear()
        return taken

    def warn(self, kind: str, text: str) -> None:
        """Warn of the operator that the busiest vertex begins with."""
        assert self._task is not None
        busiest = max(self._task.subtasks.values(), key=lambda each: each.metrics.busy)
        self.send(OperatorWarning(self.id, busiest.vertex.nodes[0].id, self.id.subtask, kind, text))

    def kept(self) -> float:
        """Return the time (s) that the thread has turned other tasks."""
        return self._worker.busy - self._busy

    # ---- the mailbox of the loop

    def empty(self) -> bool:
        """Return True if nothing has arrived."""
        return not self._inbox

    def deliver(self) -> bool:
        """Deliver the oldest to the task; a wake-up lets it advance at once, and fire the ticks that are due."""
        item = self._inbox.popleft()
        if item is not _WAKE:
            assert self._task is not None
            self._handle(self._task, item)
        return item is not _WAKE

    def processed(self) -> None:
        """A block was processed: there is room for another."""
        assert self._task is not None
        self._admit(self._task)

    def flushes(self) -> bool:
        """A task without a source has been given blocks by a flush upstream: it passes them on when idle."""
        return not self._inbox and self._task is not None and not self._task.has_sources

    # ---- what arrives

    def _handle(self, task: Task, item: Any) -> None:
        if isinstance(item, bytes):
            task.receive(item)
            self._owed += 1
            self._admit(task)
        elif isinstance(item, pa.RecordBatch):
            task.feed(item.columns[:-1], lambda: self._credits.put(None))  # the last one names the task
        elif isinstance(item, TaskCommand):
            task.handle_command(item)
        elif item is _WAKE:
            return
        elif item is _CAME_BACK:
            self._feedback.look(task.finished)
        elif isinstance(item, Exception):
            raise JobExecutionError(
                f"an order to {self.id} cannot be read: {type(item).__name__}: {item}. Can the workers import the classes of "
                "the source's splits?"
            ) from item
        elif self._continuous:
            self.stopped = True
        elif item is _DRIVER_GONE:
            if not task.finished:  # to return would tell Spark that the task is done
                raise TaskLost(
                    f"the driver hung up on {self.id}: the job is over, or Spark has started the task again."
                )
        elif self.id.stage == 0:
            task.feed(None, lambda: None)
        elif not task.has_sources and not task.work and not task.finished:
            why = "" if item.why is None else f" ({type(item.why).__name__}: {item.why})"
            raise TaskLost(f"the input of {self.id} ended before its data did: a task before it was lost{why}.")

    def _admit(self, task: Task) -> None:
        """Grant credit for finished blocks, and for all while barriers of an unaligned checkpoint are awaited.

        Those barriers are behind blocks that Spark holds: these are received at once, and become part of the checkpoint.
        """
        most = task.backlog if task.looks_ahead and not task.awaits_barriers else 0
        while self._owed > most:
            self._owed -= 1
            self._credits.put(None)

    # ---- the end

    def report_failure(self, error: BaseException) -> None:
        """Send the failure to the driver, if it still listens."""
        with contextlib.suppress(OSError):
            self.send(failure_event(self.id, error))

    def close_task(self) -> None:
        """Close the operators; an exception is reported."""
        try:
            if self._task is not None:
                self._task.close()
        except BaseException as error:  # noqa: BLE001 - reported to the driver
            self.report_failure(error)

    def hang_up(self) -> None:
        """Leave the driver and the other tasks."""
        self._feedback.close()
        if self._control is not None:
            self._control.close()


class _ShellClock(SystemClock):
    """The clock of a task's loop: while its thread turns other tasks, it is kept from its core as by other threads."""

    def __init__(self, worker: SharedWorker, shell: TaskShell) -> None:
        self._shell = shell

    def run_delay(self) -> float | None:
        """Return the time (s) that the task could have run, but did not."""
        delay = super().run_delay()
        return None if delay is None else delay + self._shell.kept()
