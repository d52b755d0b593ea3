"""A worker of a barrier stage: its connections to the driver and to its peers, its threads, and how all of that ends.

The program's ``main(worker, argument)`` runs in the task's own thread. What it starts with ``spawn``, and every thread that
receives, gives a failure to ``fail``: the first one is kept, reported at once, and raised by every ``wait``. A worker waits for
other workers and for the driver only by ``wait``; heartbeats end it when the driver is gone, and the driver ends it when a
peer is gone.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from funken.dataclass import dataclass
from funken.errors import FunkenError, TaskLost
from funken.plan.serialization import load_program
from funken.runtime.chain.failures import failure_event
from funken.runtime.heartbeats import HeartbeatSettings
from funken.runtime.messages import TaskCommand, TaskEvent, TaskFailed, TaskId, TaskOpening, TaskStarted
from funken.spark.barrier.peers import Frame, Peers
from funken.spark.control.channel import Address
from funken.spark.control.client import ControlClient
from funken.spark.control.credentials import Credentials
from funken.spark.warm.home import Home

_LOOK_SECONDS = 0.5
_JOIN_SECONDS = 5.0
_STUCK = 3
_GIVEN_UP = 4


@dataclass(frozen=True)
class BarrierDeployment:
    """What every worker of a stage receives. ``program`` is the pickled ``(main, argument)``."""

    program: bytes
    address: Address
    credentials: Credentials
    path: tuple[str, ...]
    heartbeat: HeartbeatSettings
    cancel_grace: int
    home: Home | None = None
    """Where the program runs, if its workers begin elsewhere."""

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
