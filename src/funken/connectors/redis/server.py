"""How a Redis server is reached, and what its errors mean: the only module that imports ``redis``.

A ``RedisServer`` travels to the tasks; a password in it is in no ``repr`` and in no error. The client retries what may go away
by itself: a connection that is refused or lost, a server that loads its data.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady, InvalidConfiguration

TRIES = 4
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 2.0
_TIMEOUT_S = 10.0
_SCHEMES = ("redis", "rediss", "unix")


def redis(module: str = "redis") -> Any:
    """Return a module of the client; raises ``EnvironmentNotReady`` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EnvironmentNotReady(
            f"the Redis connectors need redis-py ({error}); install it with: pip install 'funken[redis]'."
        ) from error


@dataclass(frozen=True)
class RedisServer:
    """A server by its URL, ``redis://[user:password@]host:port/database``; ``rediss://`` is over TLS, ``unix://`` a socket.

    What redis-py takes as parameters of the URL, it takes here (``?ssl_ca_certs=...``). A password is not shown.

    >>> RedisServer("redis://ada:secret@cache.example:6380/2")
    RedisServer('redis://cache.example:6380/2')
    >>> RedisServer("cache.example:6380")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: the URL of a RedisServer begins with redis://, rediss:// or unix:// (it is not shown:
    there may be a password in it); write 'redis://host:6379/0'.
    """

    url: str = field(repr=False)

    def __post_init__(self) -> None:
        """Check that it is a URL of Redis."""
        try:
            parts = urlsplit(self.url)
            right = parts.scheme in _SCHEMES and (parts.port or True)
        except ValueError:
            right = False
        if not right:
            raise InvalidConfiguration(
                "the URL of a RedisServer begins with redis://, rediss:// or unix:// (it is not shown: there may be a password "
                "in it); write 'redis://host:6379/0'."
            )

    def __repr__(self) -> str:
        return f"RedisServer({self.shown!r})"

    @property
    def shown(self) -> str:
        """The URL without user, password and parameters."""
        parts = urlsplit(self.url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"

    def connect(self, name: str = "funken", tries: int = TRIES) -> Any:
        """Return a client; ``name`` is seen in ``CLIENT LIST``. It connects with the first command."""
        client, errors = redis(), redis("redis.exceptions")
        backoff = redis("redis.backoff").ExponentialBackoff(cap=_LONGEST_PAUSE_S, base=_FIRST_PAUSE_S)
        return client.Redis.from_url(
            self.url,
            client_name="".join(letter if letter.isalnum() or letter in "-_./" else "-" for letter in name),
            socket_timeout=_TIMEOUT_S,
            socket_connect_timeout=_TIMEOUT_S,
            health_check_interval=30,
            retry=redis("redis.retry").Retry(backoff, tries - 1),
            retry_on_error=[errors.ConnectionError, errors.TimeoutError, errors.BusyLoadingError],
        )

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The errors that ``problem`` explains."""
        return (redis("redis.exceptions").RedisError, OSError)

    def problem(self, error: Exception) -> str:
        """Say what an error means, and what to do."""
        errors = redis("redis.exceptions")
        fact = str(error).strip() or type(error).__name__
        known: Sequence[tuple[tuple[type[Exception], ...], str]] = (
            ((errors.AuthenticationError,), "correct user and password in the URL"),
            ((errors.NoPermissionError,), "grant it to this user (ACL SETUSER)"),
            ((errors.ReadOnlyError,), "connect to the primary: this server is a replica"),
            ((errors.OutOfMemoryError,), "raise maxmemory of the server, or let it evict keys"),
            ((errors.BusyLoadingError,), "wait until the server has loaded its data"),
            ((errors.ConnectionError, errors.TimeoutError, OSError), f"start the server, or correct {self.shown}"),
            ((errors.DataError,), "return commands of str, bytes, int and float"),
        )
        remedy = next((text for kinds, text in known if isinstance(error, kinds)), "see what the server says")
        if "WRONGTYPE" in fact:
            remedy = "use another key: this one holds another kind of value"
        return f"{fact}; {remedy}."


__all__ = ["TRIES", "RedisServer", "redis"]
