"""How a RabbitMQ server is reached: the description of a connection, with PyFlink's name, and the only import of ``pika``.

It travels to the tasks; a password in it is in no ``repr`` and in no error. What errors mean is in ``problems.py``.
"""

from __future__ import annotations

import importlib
import logging
import ssl
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady, InvalidConfiguration
from funken.io.durations import DurationLike, duration_ms

PREFETCH = 10_000
"""How many messages a reader may have that are not acknowledged, unless it is said otherwise."""
_MOST_PREFETCH = 65_535
_PORTS = {"amqp": 5672, "amqps": 5671}
_QUERY = ("cacertfile", "certfile", "keyfile", "verify", "server_name_indication")
_STRANGE = (
    "the URI of RabbitMQ begins with amqp:// or amqps:// (it is not shown: there may be a password in it); write "
    "'amqp://user:password@host:5672/virtual-host'."
)


def pika(module: str = "pika") -> Any:
    """Return a module of the client; raises ``EnvironmentNotReady`` if it is not installed."""
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise EnvironmentNotReady(
            f"the RabbitMQ connectors need pika ({error}); install it with: pip install 'funken[rabbitmq]'."
        ) from error
    own = logging.getLogger("pika")
    if own.level == logging.NOTSET:  # it logs every failed attempt as an error, also those that are repeated
        own.setLevel(logging.CRITICAL)
    return found


@dataclass(frozen=True)
class RMQConnectionConfig:
    """A server, who connects to it, and how; made by ``Builder``, or as it is.

    A ``uri``, ``amqp://user:password@host:port/virtual-host``, takes the place of the parts. ``amqps://`` is over TLS; then
    ``?cacertfile=...`` names the certificates to trust, ``certfile`` and ``keyfile`` those of the client, and
    ``verify=verify_none`` trusts any server. A password is not shown.

    Where a connection is lost, another is tried after a pause that grows up to ``network_recovery_interval`` (ms), unless
    ``automatic_recovery`` is off. ``prefetch_count`` is how many messages a reader may have that are not acknowledged.

    >>> RMQConnectionConfig(uri="amqps://ada:secret@mq.example/shop")
    RMQConnectionConfig('amqps://mq.example:5671/shop')
    >>> RMQConnectionConfig("mq.example", password="secret").get_port()
    5672
    >>> RMQConnectionConfig(uri="mq.example")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: the URI of RabbitMQ begins with amqp:// or amqps:// (it is not shown: there may be a
    password in it); write 'amqp://user:password@host:5672/virtual-host'.
    """

    host: str = ""
    port: int = 5672
    virtual_host: str = "/"
    user_name: str = "guest"
    password: str = field(default="guest", repr=False)
    uri: str = field(default="", repr=False)
    network_recovery_interval: int = 5000
    automatic_recovery: bool = True
    topology_recovery: bool = True
    connection_timeout: int = 10_000
    requested_channel_max: int = 0
    requested_frame_max: int = 0
    requested_heartbeat: int = 60
    prefetch_count: int = PREFETCH
    tls: bool = False
    tls_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Take the URI apart, and check what can be checked without the server."""
        if self.uri:
            self._read(self.uri)
        if not self.host:
            raise InvalidConfiguration(
                "a connection to RabbitMQ has no host; call set_host() or set_uri(), or pass one of them."
            )
        if not 1 <= self.prefetch_count <= _MOST_PREFETCH:
            raise InvalidConfiguration(
                f"a prefetch count is from 1 to {_MOST_PREFETCH}, not {self.prefetch_count}: it bounds how many messages a "
                "reader may have that are not acknowledged."
            )
        for name in ("network_recovery_interval", "connection_timeout", "requested_heartbeat"):
            if getattr(self, name) < 1:
                raise InvalidConfiguration(
                    f"{name} of a connection to RabbitMQ is positive, not {getattr(self, name)}."
                )

    def _read(self, uri: str) -> None:
        try:
            parts = urlsplit(uri)
            port = parts.port
            options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        except ValueError:
            raise InvalidConfiguration(_STRANGE) from None
        if parts.scheme not in _PORTS or not parts.hostname:
            raise InvalidConfiguration(_STRANGE)
        unknown = options.keys() - set(_QUERY)
        if unknown:
            raise InvalidConfiguration(
                f"the URI of RabbitMQ has {', '.join(sorted(unknown))} in its query; there may be {', '.join(_QUERY)}."
            )
        read = {"host": parts.hostname, "port": port or _PORTS[parts.scheme], "tls": parts.scheme == "amqps"}
        read |= {"tls_options": options} if options else {}
        read |= {"virtual_host": unquote(parts.path[1:])} if len(parts.path) > 1 else {}
        read |= {"user_name": unquote(parts.username)} if parts.username else {}
        read |= {"password": unquote(parts.password)} if parts.password else {}
        for name, value in read.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"RMQConnectionConfig({self.shown!r})"

    @property
    def shown(self) -> str:
        """The address without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'amqps' if self.tls else 'amqp'}://{host}:{self.port}/{self.virtual_host.removeprefix('/')}"

    def parameters(self, name: str) -> Any:
        """Return the client's parameters; ``name`` is seen in the list of the server's connections."""
        client, seconds = pika(), self.connection_timeout / 1000
        optional = {"channel_max": self.requested_channel_max, "frame_max": self.requested_frame_max}
        return client.ConnectionParameters(
            host=self.host,
            port=self.port,
            virtual_host=self.virtual_host,
            credentials=client.PlainCredentials(self.user_name, self.password),
            heartbeat=self.requested_heartbeat,
            socket_timeout=seconds,
            stack_timeout=1.5 * seconds,
            blocked_connection_timeout=None,
            ssl_options=client.SSLOptions(self._trust(), self._server_name()) if self.tls else None,
            client_properties={"connection_name": name},
            **{key: value for key, value in optional.items() if value},
        )

    def _server_name(self) -> str:
        return self.tls_options.get("server_name_indication", self.host)

    def _trust(self) -> ssl.SSLContext:
        options = self.tls_options
        try:
            context = ssl.create_default_context(cafile=options.get("cacertfile"))
            if "certfile" in options:
                context.load_cert_chain(options["certfile"], options.get("keyfile"))
        except (OSError, ssl.SSLError) as error:
            raise InvalidConfiguration(
                f"the certificates for {self.shown} cannot be loaded ({error}); correct cacertfile, certfile and keyfile in "
                "the URI."
            ) from error
        if options.get("verify") == "verify_none":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def get_host(self) -> str:
        """Return the host."""
        return self.host

    def get_port(self) -> int:
        """Return the port."""
        return self.port

    def get_virtual_host(self) -> str:
        """Return the virtual host."""
        return self.virtual_host

    def get_user_name(self) -> str:
        """Return the name of the user."""
        return self.user_name

    def get_password(self) -> str:
        """Return the password."""
        return self.password

    def get_uri(self) -> str:
        """Return the URI as it was given, with its password; empty if there is none."""
        return self.uri

    def get_network_recovery_interval(self) -> int:
        """Return the longest pause before a lost connection is tried again (ms)."""
        return self.network_recovery_interval

    def is_automatic_recovery(self) -> bool:
        """Return whether a lost connection is made again; if not, the job fails."""
        return self.automatic_recovery

    def is_topology_recovery(self) -> bool:
        """Return whether consumers are made again with a connection; they always are."""
        return self.topology_recovery

    def get_connection_timeout(self) -> int:
        """Return how long connecting may take (ms)."""
        return self.connection_timeout

    def get_requested_channel_max(self) -> int:
        """Return the most channels of a connection; 0: what the server allows."""
        return self.requested_channel_max

    def get_requested_frame_max(self) -> int:
        """Return the most bytes of a frame; 0: what the server allows."""
        return self.requested_frame_max

    def get_requested_heartbeat(self) -> int:
        """Return how often both sides show that they are there (s)."""
        return self.requested_heartbeat


@dataclass(frozen=True)
class RMQConnectionConfigBuilder:
    """PyFlink's way to describe a connection; each call returns a new builder.

    >>> config = RMQConnectionConfigBuilder().set_host("mq.example").set_port(5673).set_virtual_host("shop").build()
    >>> config, config.get_user_name()
    (RMQConnectionConfig('amqp://mq.example:5673/shop'), 'guest')
    >>> RMQConnectionConfigBuilder().set_user_name("ada").build()
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: a connection to RabbitMQ has no host; call set_host() or set_uri(), or pass one of them.
    """

    values: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def _with(self, **values: Any) -> RMQConnectionConfigBuilder:
        return replace(self, values={**self.values, **values})

    def set_host(self, host: str) -> RMQConnectionConfigBuilder:
        """Connect to this host."""
        return self._with(host=host)

    def set_port(self, port: int) -> RMQConnectionConfigBuilder:
        """Connect to this port."""
        return self._with(port=port)

    def set_virtual_host(self, vhost: str) -> RMQConnectionConfigBuilder:
        """Use this virtual host."""
        return self._with(virtual_host=vhost)

    def set_user_name(self, user_name: str) -> RMQConnectionConfigBuilder:
        """Connect as this user."""
        return self._with(user_name=user_name)

    def set_password(self, password: str) -> RMQConnectionConfigBuilder:
        """Connect with this password."""
        return self._with(password=password)

    def set_uri(self, uri: str) -> RMQConnectionConfigBuilder:
        """Take host, port, virtual host, user and password from a URI."""
        return self._with(uri=uri)

    def set_topology_recovery_enabled(self, topology_recovery_enabled: bool) -> RMQConnectionConfigBuilder:
        """Accept it: consumers are always made again with a connection."""
        return self._with(topology_recovery=topology_recovery_enabled)

    def set_requested_heartbeat(self, requested_heartbeat: int) -> RMQConnectionConfigBuilder:
        """Show every so many seconds that this side is there."""
        return self._with(requested_heartbeat=requested_heartbeat)

    def set_requested_frame_max(self, requested_frame_max: int) -> RMQConnectionConfigBuilder:
        """Send no frame of more bytes."""
        return self._with(requested_frame_max=requested_frame_max)

    def set_requested_channel_max(self, requested_channel_max: int) -> RMQConnectionConfigBuilder:
        """Use no more channels."""
        return self._with(requested_channel_max=requested_channel_max)

    def set_network_recovery_interval(self, network_recovery_interval: DurationLike) -> RMQConnectionConfigBuilder:
        """Wait at most so long (a duration, or ms) before a lost connection is tried again."""
        return self._with(network_recovery_interval=duration_ms(network_recovery_interval))

    def set_connection_timeout(self, connection_timeout: DurationLike) -> RMQConnectionConfigBuilder:
        """Wait at most so long (a duration, or ms) for a connection."""
        return self._with(connection_timeout=duration_ms(connection_timeout))

    def set_automatic_recovery(self, automatic_recovery: bool) -> RMQConnectionConfigBuilder:
        """Make a lost connection again, or let the job fail."""
        return self._with(automatic_recovery=automatic_recovery)

    def set_prefetch_count(self, prefetch_count: int) -> RMQConnectionConfigBuilder:
        """Let a reader have so many messages that are not acknowledged."""
        return self._with(prefetch_count=prefetch_count)

    def build(self) -> RMQConnectionConfig:
        """Return the description."""
        return RMQConnectionConfig(**self.values)


__all__ = ["PREFETCH", "RMQConnectionConfig", "RMQConnectionConfigBuilder", "pika"]
