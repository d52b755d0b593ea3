"""A task's side of its control connection: reports up, orders down, heartbeats both ways (see ``control.py``)."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable

from funken.errors import TaskLost
from funken.runtime.heartbeats import HeartbeatMonitor, HeartbeatSettings
from funken.runtime.messages import DriverHeartbeat, TaskCommand, TaskEvent, TaskId, WorkerHeartbeat
from funken.spark.control.channel import Address, Channel, HungUp
from funken.spark.control.credentials import Connection, Credentials
from funken.spark.control.handshake import HANDSHAKE_SECONDS, authenticate
from funken.timing.clock import SystemClock

_LINGER_SECONDS = 1.0
_CONNECT_SECONDS = 60.0
_RETRY_SECONDS = 0.05, 2.0
_now = SystemClock().monotonic


class ControlClient:
    """A task's side; ``send`` may be called from several threads.

    Raises ``AuthenticationError`` if one of the two has another key, ``TaskLost`` if the driver cannot be reached.
    """

    def __init__(self, address: Address, credentials: Credentials) -> None:
        self._channel = Channel(connect(address, credentials, "the driver"))
        self._listener: threading.Thread | None = None
        self._monitor: HeartbeatMonitor | None = None
        self._closed = threading.Event()

    def send(self, event: TaskEvent) -> None:
        """Send a report; waits if the driver is slow to read."""
        self._channel.send(event)

    def listen(self, take: Callable[[TaskCommand | Exception | None], None]) -> None:
        """Hand every order to ``take`` in a thread of its own, for one that does not unpickle why; ``None`` at the end."""

        def run() -> None:
            command: TaskCommand | Exception | None
            while True:
                try:
                    command = self._channel.receive()
                except HungUp:
                    command = None
                except Exception as error:  # noqa: BLE001 - whatever unpickling a user's split may raise
                    command = error
                if isinstance(command, DriverHeartbeat):
                    continue
                take(command)
                if command is None:
                    return

        self._listener = threading.Thread(target=run, name="funken-orders", daemon=True)
        self._listener.start()

    def start_heartbeats(
        self, task: TaskId, settings: HeartbeatSettings, stalled: Callable[[], float], silent: Callable[[float], None]
    ) -> None:
        """Send heartbeats from now on; ``silent`` is called with the seconds when the driver has sent none for the timeout.

        ``stalled`` returns for how long the task has been at the same step.
        """
        self._monitor = monitor = HeartbeatMonitor(settings.timeout / 1000, _now())
        driver = monitor.add(_now())
        self._channel.progress = lambda: driver.heard(_now())

        def run() -> None:
            due = 0.0
            while not self._closed.wait(settings.tick_seconds):
                now = _now()
                if monitor.tick(now):
                    silent(driver.silence(now))
                    return
                if now >= due:
                    due = now + settings.send_seconds
                    with contextlib.suppress(OSError, ValueError):  # the driver has hung up, which the listener notices
                        self._channel.send_if_possible(WorkerHeartbeat(task, stalled=stalled()))

        threading.Thread(target=run, name="funken-heartbeat", daemon=True).start()

    @property
    def host(self) -> str:
        """The address of this machine by which it reaches the driver."""
        return self._channel.host

    @property
    def was_stopped(self) -> bool:
        """Whether this process has stood still for the timeout, just now: the driver has given it up."""
        return self._monitor is not None and self._monitor.was_stopped(_now())

    def close(self) -> None:
        """Hang up, once the driver has read what was sent: to close with an order unread would reset the connection."""
        self._closed.set()
        self._channel.hang_up(socket.SHUT_WR)
        if self._listener is not None:
            self._listener.join(_LINGER_SECONDS)
        self._channel.close()


def connect(address: Address, credentials: Credentials, peer: str) -> Connection:
    """Return an authenticated connection; retries if the peer drops it in the handshake because it has too many."""
    limit = _now() + _CONNECT_SECONDS
    pause, longest = _RETRY_SECONDS
    while True:
        try:
            return _connect_once(address, credentials, min(limit, _now() + HANDSHAKE_SECONDS))
        except OSError as error:
            if isinstance(error, ConnectionRefusedError) or _now() + pause >= limit:
                raise TaskLost(
                    f"{peer} cannot be reached at {address[0]}:{address[1]}: {error}. Is the job over? Can this machine "
                    "connect to that one (for the driver: spark.driver.host)?"
                ) from error
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, longest)


def _connect_once(address: Address, credentials: Credentials, deadline: float) -> Connection:
    connection = socket.create_connection(address, max(deadline - _now(), 0.001))
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else events wait up to 40 ms
        authenticate(connection, credentials.key, lambda: deadline - _now())
        connection.settimeout(None)
        return credentials.secure(connection, server=False)
    except BaseException:
        connection.close()
        raise
