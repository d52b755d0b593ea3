"""The connections of the REST server: each step of a request has a time limit, and strangers cannot keep known clients out.

| what a peer does not finish | time | then |
|---|---|---|
| TLS handshake | 5 s | the connection is closed |
| request line and headers, from the first byte (of a new connection, from its beginning) | 10 s | 408 |
| body of a request | 20 s | 408, or the connection is closed |
| reading a response: it takes no more than fits into the buffers | 20 s | the connection is closed |
| the next request | 5 s (uvicorn's) | the connection is closed |

Uvicorn has a limit for the last one only, and its limit of connections (``limit_concurrency``) answers everybody with 503 where
strangers hold them. ``Admission`` decides which connection is dropped instead: a peer is known once a request has passed
``Guard``.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from functools import partial
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from funken.dataclass import dataclass
from funken.io.spill import Admission
from funken.rest.app import KNOW

_AT_ONCE = 16
"""So many connections are accepted before any of them is read: a request is read before its connection's turn to be dropped."""
_WAITING = 4096
"""So many may wait in the system until they are accepted; of those beyond, the peer tries again after a second."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The time limits (s) of a peer."""

    handshake: float = 5.0
    headers: float = 10.0
    body: float = 20.0
    reading: float = 20.0
    closing: float = 2.0


class HttpConnection(H11Protocol):
    """A connection of uvicorn whose peer has a time limit for every step."""

    def __init__(self, admission: Admission[Any], limits: Limits, **options: Any) -> None:
        super().__init__(**options)
        self._admission = admission
        self._limits = limits
        self._step = ""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        app = self.app

        async def known(scope: Any, receive: Any, send: Any) -> None:
            scope[KNOW] = partial(admission.know, self)
            await app(scope, receive, send)

        self.app = known

    def abort(self) -> None:
        """Close the connection at once: another one is preferred, or the peer has taken too long."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to count, and to wait for a request."""
        super().connection_made(transport)
        _admit(self._admission, self, transport)
        self._begin("headers", self._limits.headers)

    def data_received(self, data: bytes) -> None:
        """Take the peer's bytes."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for the next request, if there may be one."""
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """Wait for the peer to read."""
        super().pause_writing()
        self._set("reading", self._limits.reading, self.abort)

    def resume_writing(self) -> None:
        """Go on: the peer has read."""
        super().resume_writing()
        self._unset("reading")

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection without a request."""
        super().timeout_keep_alive_handler()
        self._look()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no request."""
        super().send_400_response(msg)
        self._look()

    def shutdown(self) -> None:
        """End, when the response is complete."""
        super().shutdown()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget everything."""
        self._admission.closed(self)
        for name in list(self._timers):
            self._unset(name)
        super().connection_lost(exc)

    def _look(self) -> None:
        """See at which step the peer is; a step's time begins when the step does, not with each byte."""
        if self.transport.is_closing():  # when the peer has read the rest, or does not
            self._begin("", 0)
            if "closing" not in self._timers:
                self._set("closing", self._limits.closing, self.abort)
        elif self.conn.their_state is h11.SEND_BODY:
            self._begin("body", self._limits.body)
        elif self.conn.their_state is h11.IDLE and (self.cycle is None or self.conn.trailing_data[0]):
            self._begin("headers", self._limits.headers)
        else:
            self._begin("", 0)

    def _begin(self, step: str, seconds: float) -> None:
        if step != self._step:
            self._unset("step")
            self._step = step
            if step:
                self._set("step", seconds, self._late)

    def _late(self) -> None:
        if self._step == "body" and self.cycle.response_started:
            self.abort()
            return
        if self._step == "body":
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        self.transport.close()
        self._look()

    def _set(self, name: str, seconds: float, call: Any) -> None:
        self._unset(name)
        self._timers[name] = self.loop.call_later(seconds, call)

    def _unset(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


class TlsHandshake(asyncio.Protocol):
    """A connection whose peer has to do the TLS handshake first; then the protocol of ``make`` has it."""

    def __init__(self, admission: Admission[Any], limits: Limits, context: ssl.SSLContext, make: Any) -> None:
        self._admission = admission
        self._limits = limits
        self._context = context
        self._make = make
        self._http: HttpConnection | None = None
        self._early: list[bytes] = []
        self._transport: Any = None
        self._task: asyncio.Task[None] | None = None

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        """Begin the handshake."""
        self._transport = transport
        transport.pause_reading()
        _admit(self._admission, self, transport)
        self._task = asyncio.get_running_loop().create_task(self._secure())

    async def _secure(self) -> None:
        loop, limits = asyncio.get_running_loop(), self._limits
        secured: Any = None
        with contextlib.suppress(OSError, asyncio.CancelledError):  # no TLS, too slow, gone: nobody is to hear of it
            secured = await loop.start_tls(
                self._transport, self, self._context, server_side=True,
                ssl_handshake_timeout=limits.handshake, ssl_shutdown_timeout=limits.closing,
            )  # fmt: skip
        self._admission.closed(self)
        if secured is None:
            self._transport.abort()
            return
        self._http = self._make()
        self._http.connection_made(secured)
        for data in self._early:
            self._http.data_received(data)

    def data_received(self, data: bytes) -> None:
        """Pass on the peer's bytes; they may come before the handshake is known to be over."""
        if self._http is None:
            self._early.append(data)
        else:
            self._http.data_received(data)

    def pause_writing(self) -> None:
        """Pass it on."""
        if self._http is not None:
            self._http.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        if self._http is not None:
            self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on."""
        self._admission.closed(self)
        if self._http is not None:
            self._http.connection_lost(exc)


def _admit(admission: Admission[Any], connection: Any, transport: Any) -> None:
    peer = transport.get_extra_info("peername")
    dropped = admission.opened(connection, str(peer[0]) if peer else "", asyncio.get_running_loop().time())
    if dropped is not None:
        dropped.abort()


class Server(uvicorn.Server):
    """A server that accepts a few connections at a time, of many that wait."""

    async def startup(self, sockets: Any = None) -> None:
        """Begin to accept."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_WAITING)


def server(app: Any, context: ssl.SSLContext | None, limits: Limits | None = None) -> Server:
    """Return a server for an application; with ``context``, it speaks TLS."""
    admission, limits = Admission[Any](), limits or Limits()

    def make(**options: Any) -> asyncio.Protocol:
        http = partial(HttpConnection, admission, limits, **options)
        return http() if context is None else TlsHandshake(admission, limits, context, http)

    settings = uvicorn.Config(
        app,
        http=make,  # type: ignore[arg-type]  # a class, or what makes its objects
        backlog=_AT_ONCE,
        log_config=None,
        access_log=False,
        lifespan="off",
        loop="asyncio",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    return Server(settings)
