"""The driver's side of a barrier stage: starts the Spark job, watches it, ends it, and leaves no worker behind.

All tasks of a barrier stage start together, or none does. The program's half on the driver is a ``StageMaster``: it handles
the events of workers, and sets ``ended`` when the job is over, one way or another.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from funken import config
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import FunkenError, JobCancelled, JobExecutionError, TaskLost, TooFewTaskSlots
from funken.plan.nodes import load_program, program_bytes
from funken.runtime.chain.chain import failure_event
from funken.runtime.messages import TaskCommand, TaskEvent, TaskFailed, TaskId, TaskOpening, TaskStarted
from funken.runtime.process import collect_rarely
from funken.runtime.settings import HeartbeatSettings
from funken.spark import jvm
from funken.spark.control.channel import Address, ControlClient
from funken.spark.control.server import ControlServer, Master
from funken.spark.control.tls import Credentials
from funken.spark.jvm import map_in_arrow
from funken.spark.peers import Frame, Peers
from funken.spark.session import (
    control_host,
    existing,
    home_of_workers,
    living,
    losing,
    session_for,
    slots_of,
    this_python,
)
from funken.spark.submit import unless_gone
from funken.spark.warm.client import Home
from funken.timing.clock import SystemClock, result_of

# ---- A worker of a barrier stage: its connections to the driver and to its peers, its threads, and how all of that
# ends.
#
# The program's ``main(worker, argument)`` runs in the task's own thread. What it starts with ``spawn``, and every
# thread that receives, gives a failure to ``fail``: the first one is kept, reported at once, and raised by every
# ``wait``. A worker waits for other workers and for the driver only by ``wait``; heartbeats end it when the driver
# is gone, and the driver ends it when a peer is gone.


_LOOK_SECONDS = 0.5
_JOIN_SECONDS = 5.0
_STUCK = 3
_GIVEN_UP = 4


@dataclass(frozen=True)
class BarrierDeployment:
    """The deployment of a stage, which every worker receives. ``program`` is the pickled ``(main, argument)``."""

    program: bytes
    address: Address
    credentials: Credentials
    path: tuple[str, ...]
    heartbeat: HeartbeatSettings
    cancel_grace: int
    home: Home | None = None
    """The place where the program runs, if its workers begin elsewhere."""

    def __repr__(self) -> str:
        return "BarrierDeployment(...)"  # the key must not reach a log


class BarrierWorker:
    """One worker, as its program sees it."""

    def __init__(self, deployment: BarrierDeployment, index: int) -> None:
        self.index = index
        self.task = TaskId(0, index)
        self.error: BaseException | None = None
        self.receive: Callable[[int, Frame], None] = self._too_early
        self.take: Callable[[TaskCommand], None] = lambda command: None
        self._deployment = deployment
        self._may_leave = False
        self._aborted = threading.Event()
        self._dismissed = threading.Event()
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._control = ControlClient(deployment.address, deployment.credentials)
        self.peers = Peers(index, self._control.host, deployment.credentials, self._on_frame, self._on_lost_peer)

    def _on_frame(self, peer: int, frame: Frame) -> None:
        self.receive(peer, frame)  # which the program replaces

    def _on_lost_peer(self, error: Exception) -> None:
        if not self._may_leave:  # the driver dismisses all workers, one of them first
            self.fail(error)

    def _too_early(self, peer: int, frame: Frame) -> None:
        raise RuntimeError(f"worker {peer} has sent {frame[:4]} before worker {self.index} was ready")

    # ---- what programs use

    def send(self, event: TaskEvent) -> None:
        """Send an event to the driver."""
        try:
            self._control.send(event)
        except OSError as error:
            raise _driver_gone(self.task) from error

    def spawn(self, name: str, run: Callable[[], None]) -> threading.Thread:
        """Run something in a thread of its own, whose failure fails the worker."""

        def guarded() -> None:
            try:
                run()
            except BaseException as error:  # noqa: BLE001 - raised by the thread of the task
                self.fail(error)

        thread = threading.Thread(target=guarded, name=f"funken-{name}", daemon=True)
        with self._lock:
            self._threads = [each for each in self._threads if each.is_alive()]
            self._threads.append(thread)
            thread.start()
        return thread

    def fail(self, error: BaseException) -> None:
        """Record the first failure, report it, and end all waits; a lost connection counts if there is no other cause."""
        with self._lock:
            counts = self.error is None or (isinstance(self.error, TaskLost) and not isinstance(error, TaskLost))
            if counts:
                self.error = error
        self._aborted.set()
        if counts:  # the thread of the task may be in a function that takes long
            with contextlib.suppress(OSError):
                self._control.send(_failure(self.task, error))

    def check(self) -> None:
        """Raise the failure of this worker, if there is one."""
        if self._aborted.is_set():
            raise self.error or _driver_gone(self.task)

    def wait(self, changed: threading.Condition, ready: Callable[[], Any]) -> None:
        """Wait on a condition that is held until it is ``ready``; raise the failure of the worker."""
        while not ready():
            self.check()
            changed.wait(_LOOK_SECONDS)

    def join(self, thread: threading.Thread) -> None:
        """Wait for a thread that was spawned; not for long if the worker has failed."""
        while thread.is_alive() and not self._aborted.is_set():
            thread.join(_LOOK_SECONDS)
        thread.join(_JOIN_SECONDS)

    def finish(self, event: TaskEvent) -> None:
        """Report the end of the program, and wait until those of all workers are reported: then the driver hangs up."""
        self.check()
        self._may_leave = True
        self.send(event)
        while not self._dismissed.wait(_LOOK_SECONDS):
            self.check()

    # ---- life

    def run(self) -> None:
        """Run the program."""
        try:
            pid, host = os.getpid(), socket.gethostname()
            self._control.send(TaskOpening(self.task, pid=pid, host=host))
            self._control.start_heartbeats(self.task, self._deployment.heartbeat, lambda: 0.0, self._without_driver)
            self._control.listen(self._on_command)
            main, argument = load_program(self._deployment.program, self._deployment.path, self._deployment.home)
            self._control.send(TaskStarted(self.task, pid=pid, host=host))
            main(self, argument)
        except BaseException as error:
            self.fail(error)
            raise
        finally:
            self._close()

    def _on_command(self, command: TaskCommand | Exception | None) -> None:
        if isinstance(command, TaskCommand):
            self.take(command)
        elif command is not None:
            self.fail(command)
        else:
            self._dismissed.set()
            if not self._may_leave:
                self.fail(_driver_gone(self.task))
            if not self._done.wait(self._deployment.cancel_grace / 1000):
                os._exit(_STUCK)  # user code that ignores the end of its job

    def _without_driver(self, seconds: float) -> None:
        os._exit(_GIVEN_UP)

    def _close(self) -> None:
        self._aborted.set()
        self.peers.close()
        limit = time.monotonic() + _JOIN_SECONDS
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, limit - time.monotonic()))
        stuck = any(thread.is_alive() for thread in threads)
        self._done.set()
        self._control.close()
        if stuck:
            os._exit(_STUCK)  # Spark would give the process, with a function that still runs, to another job


def _driver_gone(task: TaskId) -> TaskLost:
    return TaskLost(f"the driver hung up on {task}: the job is over, or was cancelled.")


def _failure(task: TaskId, error: BaseException) -> TaskEvent:
    if isinstance(error, FunkenError):
        with contextlib.suppress(Exception):
            pickle.loads(pickle.dumps(error))
            return TaskFailed(task, error=error, secondary=isinstance(error, TaskLost))
    return failure_event(task, error)


_BEAT_SECONDS = 0.02
_ROOT_CAUSE_SECONDS = 1.0
_EXIT_SECONDS = 2.0
_LEAVE_SECONDS = 30.0
_SCHEMA = "nothing int"


class StageMaster(Master, Protocol):
    """The program's half on the driver."""

    ended: threading.Event
    """Set when all workers have reported their end, or the job has failed."""
    error: BaseException | None
    started: set[int]
    """The workers that have started."""


def run_stage(
    configuration: Configuration, given: Any, name: str, width: int, program: tuple[Any, Any], master: StageMaster
) -> None:
    """Run ``program``, which is ``(main, argument)``, in a stage of so many workers; raise its failure.

    The session is the given one, the active one, or a new one. This runs in a thread of its own: Ctrl-C must not cut a call
    to the JVM in two.
    """
    chosen = living(given) or existing()
    over: Future[None] = Future()

    def run() -> None:
        try:
            spark = session_for(configuration, chosen, 0 if chosen is not None else width)
            with losing(spark):
                _Stage(spark, configuration, name, width, program, master).run()
            over.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised where the job was started
            over.set_exception(error)

    thread = threading.Thread(target=run, name="funken-spark", daemon=True)
    thread.start()
    try:
        result_of(over)
    except BaseException:
        if not over.done():  # the exception is that of a signal
            master.fail(JobCancelled(f"job {name!r} was cancelled"))  # type: ignore[arg-type]
            thread.join(_LEAVE_SECONDS)
        raise


class _Stage:
    def __init__(
        self, spark: SparkSession, configuration: Configuration, name: str, width: int, program: tuple[Any, Any],
        master: StageMaster,
    ) -> None:  # fmt: skip
        if width > (available := slots_of(spark)):
            raise TooFewTaskSlots(
                f"job {name!r} needs {width} task slots at the same time, one per subtask, but the session has {available}. "
                f"Lower the parallelism, or give the session more (.master('local[{width}]'), or more executors)."
            )
        self._spark = spark
        self._configuration = configuration
        self._name = name
        self._width = width
        self._program = program
        self._master = master
        self._failure: Exception | None = None

    def run(self) -> None:
        heartbeat = HeartbeatSettings.of(self._configuration)
        grace = self._configuration.get(config.CANCEL_GRACE)
        encrypted = self._configuration.get(config.SSL_INTERNAL_ENABLED)
        server = ControlServer(self._master, *control_host(self._spark), heartbeat, encrypted)
        group = f"funken-batch-{id(self)}"
        thread: threading.Thread | None = None
        try:
            program = program_bytes(self._program)
            place = (tuple(sys.path), heartbeat, grace, home_of_workers(self._spark))
            deployment = BarrierDeployment(program, server.address, server.credentials, *place)
            thread = threading.Thread(target=self._submit, args=(deployment, group), name="funken-batch", daemon=True)
            thread.start()
            self._watch(thread, server)
        finally:
            server.close()
            if thread is not None:
                self._leave(thread, server, group, grace / 1000)
        if self._master.error is not None:
            raise self._master.error

    def _submit(self, deployment: BarrierDeployment, group: str) -> None:
        context = self._spark.sparkContext
        context.setJobGroup(group, self._name, interruptOnCancel=True)
        try:
            with this_python(self._spark):
                rows = self._spark.range(0, self._width, 1, self._width)
                frame = map_in_arrow(rows, _worker_function(deployment), _SCHEMA, barrier=True)
            frame.write.format("noop").mode("overwrite").save()
        except Exception as error:  # noqa: BLE001 - raised by the watching thread
            self._failure = error

    def _watch(self, thread: threading.Thread, server: ControlServer) -> None:
        clock = SystemClock()
        master = self._master
        limit = clock.monotonic() + self._configuration.get(config.START_TIMEOUT) / 1000
        while not master.ended.wait(_BEAT_SECONDS):
            if not thread.is_alive():
                master.ended.wait(_ROOT_CAUSE_SECONDS)  # a report may still be on its way
                if not master.ended.is_set():
                    master.fail(
                        JobExecutionError(f"Spark ended job {self._name!r}: {self._failure or 'it ended early'}")
                    )
            elif clock.monotonic() > limit and len(master.started) < self._width:
                missing = sorted(set(range(self._width)) - master.started)
                master.fail(
                    JobExecutionError(
                        f"{len(missing)} of {self._width} workers of job {self._name!r} did not start in time: {missing[:5]}. "
                        f"Is the cluster busy, or can its workers not reach the driver at {server.address[0]}? Raise "
                        f"{config.START_TIMEOUT.key}, or set spark.driver.host."
                    )
                )
        if isinstance(master.error, TaskLost):  # another worker may know better why
            server.kill_silent()
            threading.Event().wait(_ROOT_CAUSE_SECONDS / 4)

    def _leave(self, thread: threading.Thread, server: ControlServer, group: str, grace: float) -> None:
        """Wait until the workers have gone, and end those that do not go."""
        failed = self._master.error is not None or not self._master.ended.is_set()
        if failed:
            unless_gone(lambda: self._spark.sparkContext.cancelJobGroup(group))
        if not server.wait_gone(grace + _EXIT_SECONDS):
            server.kill_local()
            server.wait_gone(_EXIT_SECONDS)
        thread.join(_EXIT_SECONDS)
        if thread.is_alive():
            unless_gone(lambda: self._spark.sparkContext.cancelJobGroup(group))
            thread.join(_LEAVE_SECONDS)
        if thread.is_alive() and jvm.lives(self._spark.sparkContext):
            raise JobExecutionError(f"Spark does not end job {self._name!r}; its log says why.")


def _worker_function(deployment: BarrierDeployment) -> Any:
    """Return the function that runs in every task."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:  # one row, which means nothing
            pass
        context = TaskContext.get()
        assert context is not None
        collect_rarely()
        BarrierWorker(deployment, context.partitionId()).run()
        yield from ()

    return run
