"""The control connection: one authenticated TCP connection per task, reports up, orders down.

The driver listens on loopback, or for a cluster on the address that Spark's driver uses. A peer must prove that it
knows the job's random key before a byte of it is unpickled (``handshake.py``), and costs next to nothing until then
(``acceptor.py``). The key travels in the task closure, by Spark's own channels, and is never logged.

The driver has one thread per authenticated connection, which reads and handles its reports. Orders to one worker never
wait for another worker.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable

from funken.errors import JobExecutionError, MessageTooLarge, TaskLost
from funken.runtime.master import JobMaster
from funken.runtime.messages import Failed, Finished, Opening, Order, Report, Started, TaskId
from funken.spark.acceptor import HANDSHAKE_SECONDS, Acceptor
from funken.spark.channel import Channel, HungUp
from funken.spark.handshake import authenticate
from funken.timing.clock import SystemClock

Address = tuple[str, int]

_LINGER_SECONDS = 1.0
_SEND_SECONDS = 10.0
_CONNECT_SECONDS = 60.0
_RETRY_SECONDS = 0.05, 2.0


class _Worker:
    """What the driver knows of one authenticated connection; ``over``: its last report has come."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.opening: Opening | None = None
        self.over = False

    @property
    def local_pid(self) -> int | None:
        """Its process id, if it is known and of this machine."""
        opening = self.opening
        return opening.pid if opening and opening.pid and opening.host == socket.gethostname() else None


class ControlServer:
    """The driver's side: feeds the master, carries its orders."""

    def __init__(self, master: JobMaster, host: str = "127.0.0.1", bind: str | None = None) -> None:
        self.authkey = secrets.token_bytes(32)
        self._master = master
        self._closing = False
        #: guards all of these; notified when a worker has hung up
        self._changed = threading.Condition()
        self._workers: set[_Worker] = set()
        self._newest: dict[TaskId, _Worker] = {}
        self._started: dict[TaskId, _Worker] = {}
        self._acceptor = Acceptor((bind or host, 0), self.authkey, self._admit)
        self.address: Address = (host, self._acceptor.address[1])

    def _admit(self, connection: socket.socket) -> None:
        """Take an authenticated connection."""
        channel = Channel(connection)
        channel.bound_sending(_SEND_SECONDS)
        worker = _Worker(channel)
        thread = threading.Thread(target=self._serve, args=(worker,), name="funken-task", daemon=True)
        with self._changed:
            self._workers.add(worker)
            if self._closing:
                channel.hang_up()
        try:
            thread.start()
        except RuntimeError:
            self._forget(worker)
            raise

    def _serve(self, worker: _Worker) -> None:
        try:
            self._listen_to(worker)
        finally:
            self._forget(worker)

    def _forget(self, worker: _Worker) -> None:
        worker.channel.close()
        with self._changed:
            self._workers.discard(worker)
            self._changed.notify_all()

    def _listen_to(self, worker: _Worker) -> None:
        """Hand on what a task reports; what goes wrong here fails the job, it must not end in this thread."""
        task: TaskId | None = None
        while True:
            try:
                report: Report = worker.channel.receive()
            except HungUp:
                replaced = task is not None and self._newest.get(task, worker) is not worker
                if task is not None and not worker.over and not replaced and not self._closing:
                    self._master.handle(Failed(task, error=_lost(task), secondary=True))
                return
            except MessageTooLarge as error:
                self._master.fail(error)
                return
            except Exception as error:  # noqa: BLE001 - whatever unpickling what users report may raise
                self._master.fail(_not_handled("a task", error))
                return
            task = report.task
            if isinstance(report, Opening):
                self._opened(worker, report)
            if self._newest.get(task, worker) is not worker:
                return
            if self._closing:
                continue  # only its end is still of interest
            if isinstance(report, Started):
                with self._changed:
                    self._started[task] = worker
            worker.over = worker.over or isinstance(report, Finished | Failed)
            try:
                for target, order in self._master.handle(report):
                    self.tell(target, order)
            except Exception as error:  # noqa: BLE001 - a source's enumerator, or printing, may raise anything
                self._master.fail(error if isinstance(error, JobExecutionError) else _not_handled(str(task), error))
                return

    def _opened(self, worker: _Worker, opening: Opening) -> None:
        with self._changed:
            worker.opening = opening
            before, self._newest[opening.task] = self._newest.get(opening.task), worker
        if before is not None and before is not worker:
            before.channel.hang_up()  # Spark has started the task again: who ran it is not heard any more

    def tell(self, task: TaskId, order: Order) -> None:
        """Send an order; a task that is gone gets none, and one that reads none for long is lost."""
        with self._changed:
            worker = self._started.get(task)
        if worker is None:
            return
        try:
            worker.channel.send(order)
        except OSError as error:
            with self._changed:
                if self._started.get(task) is worker:
                    del self._started[task]
            if isinstance(error, BlockingIOError):
                self._master.handle(Failed(task, error=_deaf(task)))
                worker.channel.hang_up()  # what was sent of the order is no order

    def wait_gone(self, seconds: float) -> bool:
        """Wait until every task has hung up; tell whether that happened in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._workers, seconds)

    def kill_local(self) -> None:
        """Kill the workers on this machine that have not hung up: code that keeps the interpreter's lock hears nothing."""
        with self._changed:
            left = list(self._workers)
        for worker in left:
            _kill(worker)

    def close(self) -> None:
        """Stop listening and hang up: a task hears it, ends, and hangs up too; who is no task yet is not waited for."""
        with self._changed:
            self._closing = True
            workers = list(self._workers)
        self._acceptor.close()
        for worker in workers:
            worker.channel.hang_up(socket.SHUT_WR)


def _kill(worker: _Worker) -> None:
    if worker.local_pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.local_pid, signal.SIGKILL)


def _deaf(task: TaskId) -> TaskLost:
    return TaskLost(
        f"the worker of {task} has taken no order for {_SEND_SECONDS:g} s, and many wait: it was stopped, or a function keeps "
        "Python's interpreter lock.",
        subtask=task.subtask,
    )


def _lost(task: TaskId) -> TaskLost:
    return TaskLost(
        f"the worker of {task} ended without a word: it was killed (out of memory?) or crashed. See the executor's log; "
        "if memory is short, lower the parallelism or the state kept per key.",
        subtask=task.subtask,
    )


def _not_handled(who: str, error: Exception) -> JobExecutionError:
    return JobExecutionError(
        f"the driver could not handle what {who} reported: {type(error).__name__}: {error}",
        traceback_text="".join(traceback.format_exception(error)),
    )


class ControlClient:
    """A task's side; ``send`` may be called from several threads.

    Raises ``AuthenticationError`` if one of the two does not know the key, ``TaskLost`` if the driver cannot be reached.
    """

    def __init__(self, address: Address, authkey: bytes) -> None:
        self._channel = Channel(_connect(address, authkey))
        self._listener: threading.Thread | None = None

    def send(self, report: Report) -> None:
        """Send a report; waits if the driver is slow to read."""
        self._channel.send(report)

    def listen(self, take: Callable[[Order | Exception | None], None]) -> None:
        """Hand every order to ``take`` in a thread of its own, for one that does not unpickle why; ``None`` at the end."""

        def run() -> None:
            order: Order | Exception | None
            while True:
                try:
                    order = self._channel.receive()
                except HungUp:
                    order = None
                except Exception as error:  # noqa: BLE001 - whatever unpickling a user's split may raise
                    order = error
                take(order)
                if order is None:
                    return

        self._listener = threading.Thread(target=run, name="funken-orders", daemon=True)
        self._listener.start()

    def close(self) -> None:
        """Hang up, once the driver has read what was sent: to close with an order unread would reset the connection."""
        self._channel.hang_up(socket.SHUT_WR)
        if self._listener is not None:
            self._listener.join(_LINGER_SECONDS)
        self._channel.close()


def _connect(address: Address, authkey: bytes) -> socket.socket:
    """Return an authenticated connection; a driver that drops it in the handshake has too many, and is asked again."""
    now = SystemClock().monotonic
    limit = now() + _CONNECT_SECONDS
    pause, longest = _RETRY_SECONDS
    while True:
        try:
            return _connect_once(address, authkey, min(limit, now() + HANDSHAKE_SECONDS))
        except OSError as error:
            if isinstance(error, ConnectionRefusedError) or now() + pause >= limit:
                raise TaskLost(
                    f"the driver cannot be reached at {address[0]}:{address[1]}: {error}. Is the job over? Can this machine "
                    "connect to the driver's (spark.driver.host)?"
                ) from error
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, longest)


def _connect_once(address: Address, authkey: bytes, deadline: float) -> socket.socket:
    now = SystemClock().monotonic
    connection = socket.create_connection(address, max(deadline - now(), 0.001))
    try:
        authenticate(connection, authkey, lambda: deadline - now())
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return connection
