"""Inside a Spark task: a thread that reads blocks, one that reads orders, and the loop that runs a ``Task``.

The loop is the task's only thread for user code. Blocks and orders reach it through a mailbox; blocks are admitted by
credit, so that a slow operator holds up the reader, Spark's shuffle behind it, and in the end the source.

* *continuous*: the end of the input means that the query was stopped (the end of the data is a block of its own); the
  process then ends, because Spark keeps Python workers whose user code is blocked.
* *batch*: the task returns when all its vertices have ended.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import cloudpickle
import pyarrow as pa
from pyspark import TaskContext

from funken.checkpoint.storage import open_storage
from funken.errors import TaskLost
from funken.runtime.blame import failed
from funken.runtime.messages import Opening, Order, Started, TaskId
from funken.runtime.settings import TaskSettings
from funken.runtime.snapshots import Cuts, report_of
from funken.runtime.task import Task
from funken.spark.control import Address, ControlClient
from funken.spark.transport import Fillers, blocks_of, to_batch
from funken.state.rocksdb.folders import remove_all
from funken.timing.clock import SystemClock

_CREDITS = 4
_MEASURE_SECONDS = 0.5
_QUEUE_SECONDS = 0.005
_INPUT_ENDED = object()
_DRIVER_GONE = object()
_WAKE = object()


@dataclass(frozen=True)
class Deployment:
    """What every task of a job is given. ``program`` is the pickled plan with the classes of ``__main__``."""

    program: bytes
    settings: TaskSettings
    address: Address
    authkey: bytes
    path: tuple[str, ...]
    continuous: bool

    def __repr__(self) -> str:
        return "Deployment(...)"  # the key must not reach a log


Level = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def level_function(deployment: Deployment, level: int) -> Level:
    """Return the function that ``mapInArrow`` runs in every task of a level."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        return TaskShell(deployment, TaskId(level, context.partitionId())).run(batches)

    return run


def program_bytes(plan: Any) -> bytes:
    """Pickle a plan with the classes of ``__main__``, so that their instances can be pickled by reference."""
    main = vars(sys.modules["__main__"])
    classes = {}
    for name, value in main.items():
        if isinstance(value, type) and value.__module__ == "__main__":
            try:
                cloudpickle.dumps(value)
            except Exception:  # noqa: BLE001 - a class that cannot travel is not needed there
                continue
            classes[name] = value
    return bytes(cloudpickle.dumps((plan, classes)))


def load_program(deployment: Deployment) -> Any:
    """Unpickle the plan; make the driver's modules and classes findable first."""
    for place in deployment.path:
        if place not in sys.path and os.path.isdir(place):
            sys.path.append(place)
    plan, classes = cloudpickle.loads(deployment.program)
    main = sys.modules["__main__"]
    for name, value in classes.items():
        setattr(main, name, value)
    return plan


class TaskShell:
    """Runs one task in this process."""

    def __init__(self, deployment: Deployment, task: TaskId) -> None:
        self._deployment = deployment
        self._id = task
        self._continuous = deployment.continuous
        self._mailbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._credits: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(_CREDITS):
            self._credits.put(None)
        self._done = threading.Event()
        self._stop = False
        self._fillers = Fillers()

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the blocks that the task sends to the next level."""
        control = ControlClient(self._deployment.address, self._deployment.authkey)
        task: Task | None = None
        reader = threading.Thread(target=self._read, args=(batches,), name="funken-input", daemon=True)
        try:
            pid, host = os.getpid(), socket.gethostname()
            control.send(Opening(self._id, pid=pid, host=host))
            # Both threads run before any user code does: they end the process if that never returns.
            control.listen(self._take_order)
            reader.start()
            task = Task(
                load_program(self._deployment), self._id, self._deployment.settings, SystemClock(), control.send,
                wake=lambda: self._mailbox.put(_WAKE), deliver=self._deliver_to(control),
            )  # fmt: skip
            task.open()
            control.send(Started(self._id, pid=pid, host=host))
            yield from self._loop(task, control)
            if not self._continuous and not self._stop:
                reader.join()  # Spark reads on in the same stream
        except GeneratorExit:
            raise
        except BaseException as error:
            self._report_failure(control, error)
            raise
        finally:
            self._close(task, control)

    def _deliver_to(self, control: ControlClient) -> Callable[[Cuts], None] | None:
        """Return what takes cuts: a thread writes them one after the other, and reports."""
        settings = self._deployment.settings
        if settings.checkpoints is None:
            return None
        storage = open_storage(settings.checkpoints.folder)
        cuts: queue.SimpleQueue[Cuts] = queue.SimpleQueue()

        def write() -> None:
            while True:
                report = report_of(self._id, settings.attempt, cuts.get(), storage)
                with contextlib.suppress(OSError):
                    control.send(report)

        threading.Thread(target=write, name="funken-snapshots", daemon=True).start()
        return cuts.put

    # ---- the threads that feed the mailbox

    def _read(self, batches: Iterator[pa.RecordBatch]) -> None:
        try:
            for batch in batches:
                for block in blocks_of(batch) if self._id.level else ():  # what carries level 0 means nothing
                    self._credits.get()
                    self._mailbox.put(block)
        except Exception:  # noqa: BLE001 - stopped, or an upstream task is gone: the same as the end
            pass
        self._mailbox.put(_INPUT_ENDED)
        if self._continuous:
            self._end_if_stuck()

    def _take_order(self, order: Order | None) -> None:
        if order is not None:
            self._mailbox.put(order)
            return
        self._mailbox.put(_DRIVER_GONE)
        self._end_if_stuck()

    def _end_if_stuck(self) -> None:
        """User code that ignores the end of its job is not stopped by Spark: end the process after a grace period."""
        if not self._done.wait(self._deployment.settings.cancel_grace / 1000):
            remove_all()
            os._exit(3)

    # ---- the loop

    def _loop(self, task: Task, control: ControlClient) -> Iterator[pa.RecordBatch]:
        clock = time.perf_counter
        timeout = self._deployment.settings.buffer_timeout / 1000
        flushed = measured = told = clock()
        while not self._stop:
            due = task.advance()
            wait = self._work(task, due, timeout)
            if task.outbox:
                yield to_batch(self._fillers.sent(task.outbox))
                task.outbox.clear()
            now = clock()
            if self._continuous and timeout >= 0:
                # A task without a source has been given blocks by a flush upstream: it passes them on when idle.
                idle = not task.work and not task.has_sources and self._mailbox.empty()
                if idle or now - flushed >= timeout:
                    flushed = now
                    task.flush()
                    rows = self._fillers.flushed(task.outbox)
                    if rows:
                        yield to_batch(rows)
                        task.outbox.clear()
            if self._continuous and now - told >= _QUEUE_SECONDS:
                told = now
                late = task.queued()
                if late is not None:
                    control.send(late)
            if now - measured >= _MEASURE_SECONDS:
                measured = now
                control.send(task.measured())
            if task.finished:
                if not self._continuous:
                    return
                rows = self._fillers.flushed(task.outbox)
                if rows:
                    yield to_batch(rows)
                    task.outbox.clear()
            if wait > 0:
                self._wait(task, wait)

    def _work(self, task: Task, due: int | None, timeout: float) -> float:
        """Do a little; return how long to wait for mail after it (s)."""
        while not self._mailbox.empty() and not task.work:
            item = self._mailbox.get()
            if item is _WAKE:
                return 0.0  # to advance() at once: it ticks whoever has something
            self._handle(task, item)
        if task.work:
            task.step()
            return 0.0
        limit = _MEASURE_SECONDS if due is None else min(_MEASURE_SECONDS, max(0.0, due / 1000 - time.time()))
        if task.has_sources:
            found = task.poll()
            if found is not None:
                limit = min(limit, found / 1000)
                return min(limit, timeout) if timeout > 0 else limit
            return 0.0
        return limit

    def _wait(self, task: Task, seconds: float) -> None:
        try:
            item = self._mailbox.get(timeout=seconds)
        except queue.Empty:
            return
        self._handle(task, item)

    def _handle(self, task: Task, item: Any) -> None:
        if isinstance(item, bytes):
            self._credits.put(None)
            task.receive(item)
        elif isinstance(item, Order):
            task.order(item)
        elif item is _WAKE:
            return
        elif item is _DRIVER_GONE or self._continuous:
            self._stop = True
        elif not task.has_sources and not task.work and not task.finished:
            raise TaskLost(f"the input of {self._id} ended before its data did: a task before it was lost.")

    # ---- the end

    def _report_failure(self, control: ControlClient, error: BaseException) -> None:
        try:
            control.send(failed(self._id, error))
        except OSError:
            return

    def _close(self, task: Task | None, control: ControlClient) -> None:
        try:
            if task is not None:
                task.close()
        except Exception as error:  # noqa: BLE001 - told to the driver
            self._report_failure(control, error)
        self._done.set()
        control.close()
        if self._continuous:
            # The query is over, or fails by this. Leaving by the front door would write to a socket that Spark has closed.
            sys.stdout.flush()
            sys.stderr.flush()
            remove_all()
            os._exit(0)
