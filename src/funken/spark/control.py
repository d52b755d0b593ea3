"""The control connection: one authenticated TCP connection per task, reports up, orders down.

The driver listens on loopback, or for a cluster on the address that Spark's driver uses. A peer must prove that it
knows the job's random key before a byte of it is unpickled; the key travels in the task closure, by Spark's own
channels, and is never logged.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import struct
import threading
import traceback
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from typing import Any

from funken.errors import JobExecutionError, TaskLost
from funken.runtime.master import JobMaster
from funken.runtime.messages import Failed, Finished, Opening, Order, Report, Started, TaskId

Address = tuple[str, int]

_LINGER_SECONDS = 1.0
_SEND_SECONDS = 10.0


class ControlServer:
    """The driver's side: feeds the master, carries its orders."""

    def __init__(self, master: JobMaster, host: str = "127.0.0.1", bind: str | None = None) -> None:
        self.authkey = secrets.token_bytes(32)
        self._master = master
        self._listener = Listener((bind or host, 0), family="AF_INET", backlog=256)
        self._bound: Address = self._listener.address
        self.address: Address = (host, self._bound[1])
        self._connections: dict[TaskId, Connection] = {}
        self._newest: dict[TaskId, Any] = {}
        self._lock = threading.Lock()
        self._closing = False
        self._gone = threading.Condition()
        self._served: dict[Any, Opening | None] = {}
        threading.Thread(target=self._accept, name="funken-control", daemon=True).start()

    def _accept(self) -> None:
        while not self._closing:
            try:
                connection = self._listener.accept()
            except OSError:
                continue
            threading.Thread(target=self._serve, args=(connection,), name="funken-task", daemon=True).start()

    def _serve(self, connection: Any) -> None:
        with self._gone:
            self._served[connection] = None
            if self._closing:
                _hang_up(connection, socket.SHUT_RDWR)
        try:
            deliver_challenge(connection, self.authkey)
            answer_challenge(connection, self.authkey)
            with self._gone:
                self._served[connection] = Opening(TaskId(-1, -1))  # until it says which
            self._listen_to(connection)
        except (AuthenticationError, EOFError, OSError):
            return
        finally:
            with self._gone:
                del self._served[connection]
                connection.close()
                self._gone.notify_all()

    def _listen_to(self, connection: Any) -> None:
        """Hand on what a task reports; what goes wrong here fails the job, it must not end in this thread."""
        task: TaskId | None = None
        over = False
        while True:
            try:
                report: Report = connection.recv()
            except (EOFError, OSError):
                replaced = task is not None and self._newest.get(task, connection) is not connection
                if task is not None and not over and not replaced and not self._closing:
                    self._master.handle(Failed(task, error=_lost(task), secondary=True))
                return
            except Exception as error:  # noqa: BLE001 - whatever unpickling what users report may raise
                self._master.fail(_not_handled("a task", error))
                return
            task = report.task
            if isinstance(report, Opening):
                with self._gone:
                    self._served[connection] = report
                    before, self._newest[task] = self._newest.get(task), connection
                    if before in self._served:  # Spark has started the task again: who ran it is not heard any more
                        _hang_up(before, socket.SHUT_RDWR)
            if self._newest.get(task, connection) is not connection:
                return
            if self._closing:
                continue  # only its end is still of interest
            if isinstance(report, Started):
                _bound_sending(connection)
                with self._lock:
                    self._connections[task] = connection
            over = over or isinstance(report, Finished | Failed)
            try:
                orders = self._master.handle(report)
            except Exception as error:  # noqa: BLE001 - a source's enumerator, or printing, may raise anything
                self._master.fail(error if isinstance(error, JobExecutionError) else _not_handled(str(task), error))
                return
            for target, order in orders:
                self.tell(target, order)

    def tell(self, task: TaskId, order: Order) -> None:
        """Send an order; a task that is gone gets none, and one that reads none for long is lost."""
        with self._lock:
            connection = self._connections.get(task)
            if connection is None:
                return
            try:
                connection.send(order)
                return
            except OSError as error:
                self._connections.pop(task, None)
                if not isinstance(error, BlockingIOError):
                    return
        # Without the lock: the master has one of its own, under which others may wait for this one.
        self._master.handle(Failed(task, error=_deaf(task)))
        _hang_up(connection, socket.SHUT_RDWR)  # what was sent of the order is no order

    def wait_gone(self, seconds: float) -> bool:
        """Wait until every task has hung up; tell whether that happened in time."""
        with self._gone:
            return self._gone.wait_for(lambda: not self._served, seconds)

    def kill_local(self) -> None:
        """Kill the workers on this machine that have not hung up: code that keeps the interpreter's lock hears nothing."""
        here = socket.gethostname()
        with self._gone:
            left = [
                opening.pid for opening in self._served.values() if opening and opening.pid and opening.host == here
            ]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Stop listening and hang up: a task hears it, ends, and hangs up too; who is no task yet is not waited for."""
        with self._gone:
            self._closing = True
            for connection, opening in self._served.items():
                _hang_up(connection, socket.SHUT_WR if opening else socket.SHUT_RDWR)
        # A blocked accept() is woken by a connection; closing the socket alone would leave it waiting.
        with contextlib.suppress(OSError):
            socket.create_connection(self._bound, 1).close()
        self._listener.close()


def _hang_up(connection: Any, how: int) -> None:
    """End a connection, or our half, so that a thread that reads it notices: closing the descriptor would not wake it."""
    try:
        duplicate = socket.socket(fileno=os.dup(connection.fileno()))
    except OSError:
        return
    with duplicate:
        try:
            duplicate.shutdown(how)
        except OSError:
            return


def _bound_sending(connection: Any) -> None:
    """Let a send that nobody reads fail after a while; reading is not bounded."""
    bound = struct.pack("ll", int(_SEND_SECONDS), int(_SEND_SECONDS % 1 * 1e6))
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        duplicate.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bound)


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
    """A task's side; ``send`` may be called from several threads."""

    def __init__(self, address: Address, authkey: bytes) -> None:
        self._connection = Client(address, authkey=authkey)
        self._lock = threading.Lock()
        self._listener: threading.Thread | None = None

    def send(self, report: Report) -> None:
        """Send a report; waits if the driver is slow to read."""
        with self._lock:
            self._connection.send(report)

    def listen(self, take: Callable[[Order | Exception | None], None]) -> None:
        """Hand every order to ``take`` in a thread of its own, for one that does not unpickle why; ``None`` at the end."""

        def run() -> None:
            order: Order | Exception | None
            while True:
                try:
                    order = self._connection.recv()
                except (EOFError, OSError):
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
        _hang_up(self._connection, socket.SHUT_WR)
        if self._listener is not None:
            self._listener.join(_LINGER_SECONDS)
        _hang_up(self._connection, socket.SHUT_RDWR)
        self._connection.close()
