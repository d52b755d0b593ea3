"""A channel that is kept: a thread runs the client's loop, answers heartbeats, and connects again when a connection is lost.

The client may be used by one thread only. So everything that is done with the channel runs there: what the ``LinkUser`` is called
with, and what is passed to ``call``. The pauses between tries grow, and their sum is bounded; what trying again cannot mend ends
the link at once. Either way ``failure`` has the error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from funken.connectors.rabbitmq.problems import FIRST_PAUSE_S, Lost, passes
from funken.connectors.rabbitmq.server import RMQConnectionConfig, pika

AWAY_S = 120.0
"""The sum of the pauses after which a server that is away fails the job."""
_CLOSE_S, _JOIN_S = 5.0, 20.0


class LinkUser(Protocol):
    """What is told of the channel; every call comes in the link's thread."""

    def opened(self, channel: Any) -> None:
        """There is a channel; what was done with the one before it is lost."""
        ...

    def trouble(self, error: BaseException, again: bool) -> None:
        """The channel is lost, or none can be had; unless there is another try, this is the end."""
        ...


class Link:
    """One connection with one channel, for as long as it is used."""

    def __init__(self, config: RMQConnectionConfig, name: str, user: LinkUser) -> None:
        self._config, self._name, self._user = config, name, user
        self._lock = threading.Lock()
        self._loop: Any = None
        self._connection: Any = None
        self._lost: BaseException | None = None
        self._paused = 0.0
        self._pause = FIRST_PAUSE_S
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"funken-{name}", daemon=True)
        self.worked = True
        """Whether the channel did what it is for, before it was lost."""
        self.failure: BaseException | None = None
        """What has ended the link."""
        self.blocked = ""
        """Why the server takes no messages at present."""

    def start(self) -> None:
        """Connect, in the thread."""
        pika()  # says what to install
        self._thread.start()

    def call(self, work: Callable[[], None]) -> None:
        """Run something in the thread; nothing happens if there is no connection."""
        with self._lock:
            if self._loop is not None:
                self._loop.add_callback_threadsafe(work)

    def works(self) -> None:
        """The channel does what it is for: pauses begin from the first again."""
        self._paused, self._pause = 0.0, FIRST_PAUSE_S
        self.worked = True

    def end_channel(self, error: BaseException) -> None:
        """Give the connection up, in the thread, for a reason that is not the client's."""
        self._lost = self._lost or error
        if self._connection is not None and self._connection.is_open:
            self._connection.close()

    def stop(self) -> None:
        """Send what was called, close, and end the thread."""
        self._stopped.set()
        self.call(self._close)
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)

    # ---- in the thread

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._session()
                lost = self._lost or Lost("the connection was closed")
            except Exception as error:  # noqa: BLE001 - told to the reader or writer
                lost = error
            if self._stopped.is_set():
                return
            again = self._config.automatic_recovery and passes(lost) and self._paused < AWAY_S
            if not again:
                self.failure = lost
            self._user.trouble(lost, again)
            self.worked = False
            if not again or self._stopped.wait(self._pause):
                return
            self._paused += self._pause
            self._pause = min(2 * self._pause, self._config.network_recovery_interval / 1000)

    def _session(self) -> None:
        """Connect, and run the loop until the connection is closed."""
        self._lost, self.blocked = None, ""
        connection = pika().SelectConnection(
            self._config.parameters(self._name), self._on_open, self._on_closed, self._on_closed
        )
        loop = connection.ioloop
        with self._lock:
            self._connection, self._loop = connection, loop
        if self._stopped.is_set():  # ``stop`` may have found no loop
            loop.add_callback_threadsafe(self._close)
        try:
            loop.start()
        finally:
            with self._lock:
                self._connection = self._loop = None
            loop.close()

    def _on_open(self, connection: Any) -> None:
        connection.add_on_connection_blocked_callback(self._on_blocked)
        connection.add_on_connection_unblocked_callback(self._on_unblocked)
        connection.channel(on_open_callback=self._on_channel)

    def _on_channel(self, channel: Any) -> None:
        channel.add_on_close_callback(self._on_channel_closed)
        self._user.opened(channel)

    def _on_channel_closed(self, channel: Any, reason: BaseException) -> None:
        self.end_channel(reason)

    def _on_closed(self, connection: Any, reason: BaseException) -> None:
        self._lost = self._lost or reason
        connection.ioloop.stop()

    def _on_blocked(self, connection: Any, frame: Any) -> None:
        self.blocked = str(frame.method.reason) or "it is short of memory or disk space"

    def _on_unblocked(self, connection: Any, frame: Any) -> None:
        self.blocked = ""

    def _close(self) -> None:
        connection = self._connection
        # A server that takes no messages does not answer this either. The client has no public way to hang up.
        connection.ioloop.call_later(_CLOSE_S, lambda: connection._terminate_stream(Lost("the server is silent")))
        if not connection.is_closing and not connection.is_closed:
            connection.close()


__all__ = ["AWAY_S", "Link", "LinkUser"]
