"""The control connection: one authenticated TCP connection per task, reports up, orders down.

The driver listens on loopback, or for a cluster on the address that Spark's driver uses. A peer must prove that it
knows the job's random key before a byte of it is unpickled; the key travels in the task closure, by Spark's own
channels, and is never logged.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from typing import Any

from funken.errors import TaskLost
from funken.runtime.master import JobMaster
from funken.runtime.messages import Failed, Finished, Order, Report, Started, TaskId

Address = tuple[str, int]


class ControlServer:
    """The driver's side: feeds the master, carries its orders."""

    def __init__(self, master: JobMaster, host: str = "127.0.0.1") -> None:
        self.authkey = secrets.token_bytes(32)
        self._master = master
        self._listener = Listener((host, 0), family="AF_INET", backlog=256)
        self.address: Address = self._listener.address  # type: ignore[assignment]
        self._connections: dict[TaskId, Connection] = {}
        self._lock = threading.Lock()
        self._closing = False
        self._gone = threading.Condition()
        self._live = 0
        threading.Thread(target=self._accept, name="funken-control", daemon=True).start()

    def _accept(self) -> None:
        while not self._closing:
            try:
                connection = self._listener.accept()
            except OSError:
                if self._closing:
                    return
                continue
            threading.Thread(target=self._serve, args=(connection,), name="funken-task", daemon=True).start()

    def _serve(self, connection: Any) -> None:
        task: TaskId | None = None
        over = False
        try:
            deliver_challenge(connection, self.authkey)
            answer_challenge(connection, self.authkey)
        except (AuthenticationError, EOFError, OSError):
            connection.close()
            return
        with self._gone:
            self._live += 1
        try:
            while True:
                report: Report = connection.recv()
                if isinstance(report, Started):
                    task = report.task
                    with self._lock:
                        self._connections[task] = connection
                over = over or isinstance(report, Finished | Failed)
                for target, order in self._master.handle(report):
                    self.tell(target, order)
        except (EOFError, OSError):
            if task is not None and not over and not self._closing:
                self._master.handle(Failed(task, error=_lost(task), secondary=True))
        finally:
            connection.close()
            with self._gone:
                self._live -= 1
                self._gone.notify_all()

    def tell(self, task: TaskId, order: Order) -> None:
        """Send an order; a task that is gone gets none."""
        with self._lock:
            connection = self._connections.get(task)
            if connection is None:
                return
            try:
                connection.send(order)
            except OSError:
                self._connections.pop(task, None)

    def wait_gone(self, seconds: float) -> bool:
        """Wait until every task has hung up; tell whether that happened in time."""
        with self._gone:
            return self._gone.wait_for(lambda: self._live == 0, seconds)

    def close(self) -> None:
        """Stop listening and hang up."""
        self._closing = True
        with self._lock:
            connections = list(self._connections.values())
            self._connections.clear()
        for connection in connections:
            _hang_up(connection)
        # A blocked accept() is woken by a connection; closing the socket alone would leave it waiting.
        try:
            socket.create_connection(self.address, 1).close()
        except OSError:
            pass
        self._listener.close()


def _hang_up(connection: Any) -> None:
    """End a connection so that a thread that reads it notices; closing the descriptor alone would not wake it."""
    try:
        duplicate = socket.socket(fileno=os.dup(connection.fileno()))
    except OSError:
        return
    with duplicate:
        try:
            duplicate.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


def _lost(task: TaskId) -> TaskLost:
    return TaskLost(
        f"the worker of {task} ended without a word: it was killed (out of memory?) or crashed. See the executor's log; "
        "if memory is short, lower the parallelism or the state kept per key.",
        subtask=task.index,
    )


class ControlClient:
    """A task's side; ``send`` may be called from several threads."""

    def __init__(self, address: Address, authkey: bytes) -> None:
        self._connection = Client(address, authkey=authkey)
        self._lock = threading.Lock()

    def send(self, report: Report) -> None:
        """Send a report; waits if the driver is slow to read."""
        with self._lock:
            self._connection.send(report)

    def listen(self, take: Callable[[Order | None], None]) -> None:
        """Hand every order to ``take`` in a thread of its own; ``None`` when the driver hung up."""

        def run() -> None:
            try:
                while True:
                    take(self._connection.recv())
            except (EOFError, OSError):
                take(None)

        threading.Thread(target=run, name="funken-orders", daemon=True).start()

    def close(self) -> None:
        """Hang up."""
        self._connection.close()
