"""Inside a Spark task: a thread that reads blocks, one that reads commands, and the loop that runs a ``Task``.

The loop is the task's only thread for user code. Blocks and orders reach it through a mailbox; blocks are admitted by
credit, so that a slow operator holds up the reader, Spark's shuffle behind it, and in the end the source. The order of what
the loop does is ``TaskLoop``'s (``task/mailbox.py``).

* *continuous*: the end of the input means that the query was stopped (the end of the data is a block of its own); the
  process then ends, because Spark keeps Python workers whose user code is blocked.
* *batch*: the task returns when all its vertices have ended; anything else is a failure, which Spark may repeat.

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
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from funken import config
from funken.dataclass import dataclass
from funken.errors import JobExecutionError, TaskLost
from funken.io.storage import open_storage
from funken.plan.serialization import load_program
from funken.runtime.chain.failures import failure_event
from funken.runtime.chain.log_capture import WorkerLogs
from funken.runtime.collector import collect_rarely
from funken.runtime.messages import TaskCommand, TaskEvent, TaskId, TaskOpening, TaskStarted
from funken.runtime.settings import TaskSettings
from funken.runtime.snapshot.task_state import TaskStateSnapshot, acknowledgement_of
from funken.runtime.task.loop import Task
from funken.runtime.task.mailbox import MEASURE_SECONDS, TaskLoop
from funken.spark.control.channel import Address
from funken.spark.control.client import ControlClient
from funken.spark.control.credentials import Credentials
from funken.spark.control.sealing import Sealer
from funken.spark.feedback import Feedback
from funken.spark.scheduling import schedule
from funken.spark.transport import Fillers, blocks_of, to_batch
from funken.spark.warm.home import Home
from funken.state.rocksdb.folders import remove_all
from funken.timing.clock import SystemClock
from funken.timing.queues import TimedQueue

_CREDITS = 4
_WRITE_SECONDS = 600.0
_READ_SECONDS = 600.0
_TELL_SECONDS = 0.5
_GIVEN_UP = 4
_INPUT_ENDED = object()
_DRIVER_GONE = object()
_WAKE = object()
_CAME_BACK = object()


@dataclass(frozen=True)
class Deployment:
    """What every task of a job receives. ``program`` is the pickled plan with the classes of ``__main__``."""

    program: bytes
    settings: TaskSettings
    address: Address
    credentials: Credentials
    path: tuple[str, ...]
    continuous: bool
    rows: bool = False
    """Whether stage 0 is carried by the rows of a DataFrame that the program reads."""
    home: Home | None = None
    """Where the program runs, if its workers begin elsewhere."""

    def __repr__(self) -> str:
        return "Deployment(...)"  # the key must not reach a log


StageFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def stage_function(deployment: Deployment, stage: int) -> StageFunction:
    """Return the function that ``mapInArrow`` runs in every task of a stage."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        schedule(deployment.settings.cpu_scheduling)
        return TaskShell(deployment, TaskId(stage, context.partitionId())).run(batches)

    return run


class TaskShell:
    """Runs one task in this process."""

    def __init__(self, deployment: Deployment, task: TaskId) -> None:
        self._deployment = deployment
        self._id = task
        self._continuous = deployment.continuous
        self._mailbox: TimedQueue[Any] = TimedQueue()
        self._credits: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(_CREDITS):
            self._credits.put(None)
        #: blocks that were received and are not worked off
        self._owed = 0
        self._done = threading.Event()
        self._stop = False
        #: when the loop last turned, once it runs
        self._turned: float | None = None
        self._given_up: Callable[[], bool] = lambda: False
        #: why no more blocks could be received, if there was something
        self._unread: Exception | None = None
        self._finish_writing: Callable[[], None] = lambda: None
        self._fillers = Fillers()
        self._feedback = Feedback(task, lambda: self._mailbox.put(_CAME_BACK))
        self._sealer: Sealer | None = None
        self._logs: WorkerLogs | None = None
        self._task: Task

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the blocks that the task sends to the next stage."""
        control = ControlClient(self._deployment.address, self._deployment.credentials)
        task: Task | None = None
        reader = threading.Thread(target=self._read, args=(batches,), name="funken-input", daemon=True)
        try:
            pid, host = os.getpid(), socket.gethostname()
            spark = TaskContext.get()
            assert spark is not None
            control.send(TaskOpening(self._id, pid=pid, host=host))
            # Both threads run before any user code does: they end the process if that never returns.
            settings = self._deployment.settings
            control.start_heartbeats(self._id, settings.heartbeat, self._stalled, self._end_without_driver)
            self._given_up = lambda: control.was_stopped
            if self._continuous and self._deployment.credentials.certificate:
                self._sealer = Sealer(self._deployment.credentials.key)
            control.listen(self._take_order)
            reader.start()
            if not self._continuous and not settings.pausing:
                settings = replace(settings, attempt=spark.attemptNumber())
            self._logs = WorkerLogs(self._id, settings, host, control.send)
            plan = load_program(self._deployment.program, self._deployment.path, self._deployment.home)
            self._feedback.open(plan, settings.feedback, control, self._deployment.credentials)
            task = Task(
                plan, self._id, settings, SystemClock(), self._logs.send, lambda: self._mailbox.put(_WAKE),
                self._deliver_to(self._logs.send), self._feedback.send_back,
            )  # fmt: skip
            task.open()
            collect_rarely()
            control.send(TaskStarted(self._id, pid=pid, host=host))
            yield from self._loop(task, control)
            if not self._continuous and not self._stop:
                self._finish_writing()
                self._read_on(reader)
        except GeneratorExit:
            raise
        except BaseException as error:
            self._report_failure(control, error)
            raise
        finally:
            self._close(task, control)

    def _deliver_to(self, send: Callable[[TaskEvent], None]) -> Callable[[TaskStateSnapshot], None] | None:
        """Return what takes snapshots: a thread writes them one after the other, and reports."""
        settings = self._deployment.settings
        if settings.checkpoints is None:
            return None
        storage = open_storage(settings.checkpoints.folder)
        snapshots: queue.SimpleQueue[TaskStateSnapshot | None] = queue.SimpleQueue()

        def write() -> None:
            while (snapshot := snapshots.get()) is not None:
                event: TaskEvent
                try:
                    event = acknowledgement_of(self._id, settings.attempt, snapshot, storage, SystemClock())
                except Exception as error:  # noqa: BLE001 - reported to the driver, which would wait for the event
                    event = failure_event(self._id, error)
                with contextlib.suppress(OSError):
                    send(event)

        writer = threading.Thread(target=write, name="funken-snapshots", daemon=True)
        writer.start()

        def finish() -> None:
            snapshots.put(None)
            writer.join(_WRITE_SECONDS)
            if writer.is_alive():
                raise JobExecutionError(f"the final state of {self._id} was not saved within {_WRITE_SECONDS:.0f} s")

        self._finish_writing = finish
        return snapshots.put

    # ---- the threads that feed the mailbox

    def _read(self, batches: Iterator[pa.RecordBatch]) -> None:
        try:
            for batch in batches:
                for item in self._items(batch):
                    self._credits.get()
                    self._mailbox.put(item)
        except Exception as error:  # noqa: BLE001 - stopped, or an upstream task is gone: the same as the end
            self._unread = error
        self._end_if_given_up()
        self._mailbox.put(_INPUT_ENDED)
        if self._continuous:
            self._end_if_stuck()

    def _read_on(self, reader: threading.Thread) -> None:
        """Wait until the reader is through, for Spark reads on in the same stream; after the last record little is left."""
        reader.join(_READ_SECONDS)
        if reader.is_alive():
            raise TaskLost(
                f"the input of {self._id} did not end within {_READ_SECONDS:.0f} s after its last record. The log of Spark's "
                "executor says whether its shuffle waits for another machine."
            )

    def _items(self, batch: pa.RecordBatch) -> Iterable[Any]:
        if self._id.stage:
            blocks = blocks_of(batch)
            if self._sealer is None:
                return blocks
            return [self._sealer.opened(block, *self._id) for block in blocks]
        return [batch] if self._deployment.rows else ()  # what carries stage 0 means nothing by itself

    def _take_order(self, command: TaskCommand | Exception | None) -> None:
        if command is not None:
            if not self._feedback.knows(command):
                self._mailbox.put(command)
            return
        self._end_if_given_up()
        self._mailbox.put(_DRIVER_GONE)
        self._end_if_stuck()

    def _end_if_stuck(self) -> None:
        """User code that ignores the end of its job is not stopped by Spark: end the process after a grace period."""
        if not self._done.wait(self._deployment.settings.cancel_grace / 1000):
            remove_all()
            os._exit(3)

    def _stalled(self) -> float:
        return 0.0 if self._turned is None else time.perf_counter() - self._turned

    def _end_if_given_up(self) -> None:
        """A process that was stopped finds its connections closed when it runs again: the job goes on without it."""
        if self._given_up():
            os._exit(_GIVEN_UP)

    def _end_without_driver(self, seconds: float) -> None:
        """Whether the job goes on elsewhere is not known here, so nothing more is to happen in this process."""
        text = (
            f"funken: the driver has sent no heartbeat to {self._id} for {seconds:.1f} s ({config.HEARTBEAT_TIMEOUT.key}): "
            "it was stopped, its machine is frozen or cannot be reached. This worker ends.\n"
        )
        thread = threading.Thread(target=sys.stderr.write, args=(text,), daemon=True)  # who reads it may be frozen too
        thread.start()
        thread.join(_TELL_SECONDS)
        os._exit(_GIVEN_UP)

    # ---- the loop

    def _loop(self, task: Task, control: ControlClient) -> Iterator[pa.RecordBatch]:
        """Turn the task until the query is stopped, or it has finished."""
        settings = self._deployment.settings
        timeout = settings.buffer_timeout / 1000 if self._continuous else -1.0
        mailbox = self._feedback.mailbox(self, task)
        loop = TaskLoop(task, mailbox, control.send, SystemClock(), timeout, reports_delay=self._continuous)
        self._task = task
        while not self._stop:
            for urgent in loop.turn(1, self._feedback.polls()):
                hasten = self._continuous and urgent
                yield from self._emit(task, (self._fillers.flushed if hasten else self._fillers.sent)(task.outbox))
            self._turned = time.perf_counter()
            if task.finished:
                if not self._continuous:
                    return
                yield from self._emit(task, self._fillers.flushed(task.outbox))
            if loop.wait > 0:
                self._wait(min(loop.wait / 1000, MEASURE_SECONDS))

    def _emit(self, task: Task, rows: list[Any]) -> Iterator[pa.RecordBatch]:
        """Yield what is to be sent; until Spark asks for more, the task is back-pressured."""
        if rows:
            if self._sealer is not None:
                rows = [(target, self._sealer.sealed(block, self._id.stage + 1, target)) for target, block in rows]
            batch, begin = to_batch(rows), time.perf_counter()
            yield batch
            task.outbox.clear()
            task.meter.blocked += time.perf_counter() - begin

    def _wait(self, seconds: float) -> None:
        with contextlib.suppress(queue.Empty):
            self._handle(self._task, self._mailbox.get(timeout=seconds))

    # ---- the mailbox of the loop

    def empty(self) -> bool:
        """Whether nothing has arrived."""
        return self._mailbox.empty()

    def deliver(self) -> bool:
        """Give the oldest to the task; what wakes it lets it advance at once, and tick the operators that are due."""
        item = self._mailbox.get()
        if item is not _WAKE:
            self._handle(self._task, item)
        return item is not _WAKE

    def processed(self) -> None:
        """A block was processed: there is room for another."""
        self._admit(self._task)

    def flushes(self) -> bool:
        """A task without a source has been given blocks by a flush upstream: it passes them on when idle."""
        return not self._task.has_sources and self._mailbox.empty()

    # ---- what arrives

    def _handle(self, task: Task, item: Any) -> None:
        if isinstance(item, bytes):
            task.receive(item)
            self._owed += 1
            self._admit(task)
        elif isinstance(item, pa.RecordBatch):
            rows = [column.to_pylist() for column in item.columns[:-1]]  # the last one names the task
            task.feed(rows, lambda: self._credits.put(None))
        elif isinstance(item, TaskCommand):
            task.handle_command(item)
        elif item is _WAKE:
            return
        elif item is _CAME_BACK:
            self._feedback.look(task.finished)
        elif isinstance(item, Exception):
            raise JobExecutionError(
                f"an order to {self._id} cannot be read: {type(item).__name__}: {item}. Can the workers import the classes of "
                "the source's splits?"
            ) from item
        elif self._continuous:
            self._stop = True
        elif item is _DRIVER_GONE:
            if not task.finished:  # to return would tell Spark that the task is done
                raise TaskLost(
                    f"the driver hung up on {self._id}: the job is over, or Spark has started the task again."
                )
        elif self._id.stage == 0:
            task.feed(None, lambda: None)
        elif not task.has_sources and not task.work and not task.finished:
            why = "" if self._unread is None else f" ({type(self._unread).__name__}: {self._unread})"
            raise TaskLost(f"the input of {self._id} ended before its data did: a task before it was lost{why}.")

    def _admit(self, task: Task) -> None:
        """Give credit for blocks that are worked off, and for all while barriers of an unaligned checkpoint are awaited.

        Those barriers are behind what Spark holds: that is received at once, and becomes part of the checkpoint.
        """
        most = task.backlog if task.looks_ahead and not task.awaits_barriers else 0
        while self._owed > most:
            self._owed -= 1
            self._credits.put(None)

    # ---- the end

    def _report_failure(self, control: ControlClient, error: BaseException) -> None:
        try:
            send = control.send if self._logs is None else self._logs.send
            send(failure_event(self._id, error))
        except OSError:
            return

    def _close(self, task: Task | None, control: ControlClient) -> None:
        try:
            if task is not None:
                task.close()
        except BaseException as error:  # noqa: BLE001 - reported to the driver
            self._report_failure(control, error)
        if self._logs is not None:
            self._logs.close()
        self._done.set()
        self._feedback.close()
        control.close()
        if self._continuous:
            # The query is over, or fails by this. Leaving by the front door would write to a socket that Spark has closed.
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            remove_all()
            os._exit(0)
