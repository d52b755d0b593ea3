"""The server of a process: one thread, shared by all jobs with the same settings; it lives as long as the process.

The port is bound when the first job begins, so that its address is known at once; the framework is imported by the thread, which
delays no job. Without the extra there is no server, and one line in the log says so.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from funken import config
from funken.config import Configuration
from funken.errors import RestServerFailed
from funken.rest.archive import write_archive
from funken.rest.history import Sampler
from funken.rest.jobs import Jobs, ServedJob
from funken.rest.settings import RestSettings, ServerAddress, register, rest_settings, unregister

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from funken.rest.connections import Server

logger = logging.getLogger(__name__)

_BACKLOG = 4096
_CLOSE_SECONDS = 2.0
_READ_SECONDS = 3.0
"""The dashboard asks once a second, a command five times."""


class RestServer:
    """A server of the jobs of this process or the app of ``make``; raises ``RestServerFailed`` if no port is free."""

    def __init__(
        self, settings: RestSettings, make: Callable[[Jobs, RestSettings], ASGIApp] | None = None, kind: str = "driver"
    ) -> None:
        self.jobs = Jobs(settings.keep_seconds, settings.capacity)
        self._settings = settings
        self._make = make
        self._socket = _bound(settings)
        self.url = settings.url(self._socket.getsockname()[1])
        self._server: Server | None = None
        self._closing = threading.Event()
        address = ServerAddress(os.getpid(), self.url, settings.token_file, settings.certificate, kind)
        self._registered = register(address)
        self._sampler = Sampler(self.jobs)
        self._thread = threading.Thread(target=self._run, name="rest-server", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            from funken.rest.app import application  # noqa: PLC0415 - an extra, and 100 ms that no job waits for
            from funken.rest.connections import server  # noqa: PLC0415 - as above

            context = None
            if self._settings.certificate:
                context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
                context.load_cert_chain(self._settings.certificate, self._settings.key or None)
            self._server = server((self._make or application)(self.jobs, self._settings), context)
            if not self._closing.is_set():
                self._server.run(sockets=[self._socket])
        except Exception:
            logger.exception("The REST server at %s has ended; jobs continue without it.", self.url)
        finally:
            self._socket.close()

    @property
    def serves(self) -> bool:
        """True if the server's thread is there."""
        return self._thread.is_alive()

    def abandon(self) -> None:
        """Close this process's copy of the socket."""
        self._socket.close()

    def close(self) -> None:
        """Stop serving, when clients have read the end of operations that they have begun; waits for a bounded time."""
        if self.serves:
            self.jobs.unread.wait(_READ_SECONDS)
        self._closing.set()
        self._sampler.close()
        unregister(self._registered)
        if self._server is not None:
            self._server.should_exit = True
        self._thread.join(_CLOSE_SECONDS)


def _bound(settings: RestSettings) -> socket.socket:
    error: OSError | None = None
    for port in settings.ports:
        try:
            found = socket.getaddrinfo(settings.bind_address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, _, _, _, address = found[0]
            listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
            # Inherited by connections. Without it the body of a response waits for the client's delayed acknowledgement: 40 ms.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return listener
        except OSError as failure:
            error = failure
    ports = ", ".join(map(str, settings.ports[:5])) + (", ..." if len(settings.ports) > 5 else "")
    raise RestServerFailed(
        f"REST server: cannot listen at port {ports} of {settings.bind_address!r}: {error}. Set {config.REST_PORT.key} to a free "
        f"port or to 0, {config.REST_BIND_ADDRESS.key} to an address of this machine, or {config.REST_ENABLED.key} to false."
    ) from error


class _Servers:
    """The servers of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[RestSettings, RestServer] = {}

    def get(self, settings: RestSettings) -> RestServer:
        with self._lock:
            found = self._running.get(settings)
            if found is None:
                found = self._running[settings] = RestServer(settings)
            return found

    def close(self) -> None:
        with self._lock:
            running, self._running = list(self._running.values()), {}
        for server in running:
            server.close()

    def forget(self) -> None:
        """This process is a fork: its servers have no threads, and are the parent's."""
        running, self._running = list(self._running.values()), {}
        self._lock = threading.Lock()
        for server in running:
            server.abandon()


_servers = _Servers()
atexit.register(_servers.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_servers.forget)


def shown(configuration: Configuration, job: ServedJob, by_default: bool) -> tuple[str, Callable[[], None]]:
    """Show a job at the server of this process, which is started if it is the first one; return the parts of a ``Shown``."""
    server = _servers.get(rest_settings(configuration))
    entry = server.jobs.add(job)
    logger.info("job %r: REST and dashboard at %s", entry.name, server.url)

    def close() -> None:
        server.jobs.close(entry)
        write_archive(configuration, entry, by_default)

    return server.url, close
