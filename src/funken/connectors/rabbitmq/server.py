"""The connection to a server of RabbitMQ, checks before a job runs, and explanations of errors.

How a RabbitMQ server is reached: the description of a connection, with PyFlink's name, and the only import of ``pika``.

It travels to the tasks; a password in it is in no ``repr`` and in no error. ``problem`` explains errors.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from funken import extras
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SinkNotWritable, SourceNotReadable
from funken.io.durations import DurationLike, duration_ms
from funken.timing.clock import pause as wait_for

PREFETCH = 10_000
"""Number of unacknowledged messages that a reader may have by default."""
_MOST_PREFETCH = 65_535
_PORTS = {"amqp": 5672, "amqps": 5671}
_QUERY = ("cacertfile", "certfile", "keyfile", "verify", "server_name_indication")
_STRANGE = (
    "the URI of RabbitMQ begins with amqp:// or amqps:// (it is not shown: there may be a password in it); write "
    "'amqp://user:password@host:5672/virtual-host'."
)


def pika(module: str = "pika") -> Any:
    """Return a module of the client; raises ``EnvironmentNotReady`` if it is not installed."""
    found = extras.required(module, "rabbitmq", "the RabbitMQ connectors need pika")
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
        """Take the URI apart, and check the arguments as far as possible without the server."""
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
        """Return the original URI, with its password; empty if there is none."""
        return self.uri

    def get_network_recovery_interval(self) -> int:
        """Return the longest pause before a lost connection is tried again (ms)."""
        return self.network_recovery_interval

    def is_automatic_recovery(self) -> bool:
        """Return True if a lost connection is made again; if not, the job fails."""
        return self.automatic_recovery

    def is_topology_recovery(self) -> bool:
        """Return True if consumers are made again with a connection; they always are."""
        return self.topology_recovery

    def get_connection_timeout(self) -> int:
        """Return the time limit of connecting (ms)."""
        return self.connection_timeout

    def get_requested_channel_max(self) -> int:
        """Return the most channels of a connection; 0: the server's limit."""
        return self.requested_channel_max

    def get_requested_frame_max(self) -> int:
        """Return the most bytes of a frame; 0: the server's limit."""
        return self.requested_frame_max

    def get_requested_heartbeat(self) -> int:
        """Return the interval of heartbeats of both sides (s)."""
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


# ---- What errors of RabbitMQ mean, what to do about them, and which may go away by themselves.
#
# The server's texts name queues, exchanges, users and virtual hosts, never a password.


FIRST_PAUSE_S = 0.2
_BLOCKED_S = 5.0
_REFUSED, _NOT_FOUND, _PRECONDITION, _NOT_ALLOWED = 403, 404, 406, 530


class Lost(Exception):
    """A connection or a consumer is gone, for a reason that is no error of the client; it is worth another try."""


class NotTaken(Exception):
    """The server cannot do as asked, and trying again does not help; the text names the remedy."""


def errors() -> tuple[type[Exception], ...]:
    """Return the errors that ``problem`` explains."""
    return (pika("pika.exceptions").AMQPError, OSError, Lost, NotTaken)


def root_of(error: BaseException) -> BaseException:
    """Return the error inside those that the client wraps around it.

    >>> root_of(RuntimeError("connecting failed", ConnectionRefusedError("refused")))
    ConnectionRefusedError('refused')
    """
    inner = [getattr(error, "exception", None), *getattr(error, "exceptions", ()), *error.args]
    found = [each for each in inner if isinstance(each, BaseException)]
    return root_of(found[-1]) if found else error


def code_of(error: BaseException) -> tuple[int, str]:
    """Return the server's number and text for closing a connection or a channel; 0 if it closed neither."""
    code, text = getattr(error, "reply_code", 0), getattr(error, "reply_text", "")
    return (code, text) if isinstance(code, int) else (0, "")


def passes(error: BaseException) -> bool:
    """Return True if another try may succeed: the server is away or busy, or the queue is still in another's use."""
    known = pika("pika.exceptions")
    code, text = code_of(error)
    if isinstance(error, (known.ProbableAuthenticationError, known.AuthenticationError, NotTaken)):
        return False
    if isinstance(root_of(error), ssl.SSLCertVerificationError):
        return False
    if isinstance(error, known.ProbableAccessDeniedError) or code == _NOT_ALLOWED:
        return "is down" in str(error)
    if code == _REFUSED:
        return "in exclusive use" in text
    if code == _NOT_FOUND:
        return " down" in text
    if isinstance(error, known.ChannelClosed):
        return code == _PRECONDITION and "timed out" in text
    return True


def problem(error: BaseException, config: RMQConnectionConfig) -> str:
    """Return the meaning of an error, and the remedy."""
    known = pika("pika.exceptions")
    code, text = code_of(error)
    root = root_of(error)
    if isinstance(error, (known.ProbableAuthenticationError, known.AuthenticationError)):
        return f"the server refuses the user {config.user_name!r} with this password; correct them."
    if isinstance(error, known.ProbableAccessDeniedError) or code == _NOT_ALLOWED:
        why = "is not there" if "not found" in str(error) else f"is refused to the user {config.user_name!r}"
        remedy = "correct its name, or grant it (rabbitmqctl set_permissions)."
        return f"the virtual host {config.virtual_host!r} {why}; {remedy}"
    if isinstance(root, ssl.SSLError):
        remedy = "name the certificate to trust (?cacertfile=...), or correct the port and the scheme, amqp or amqps."
        return f"no connection over TLS ({root}); {remedy}"
    if code == _REFUSED and "exclusive" in text:
        return (
            f"{text}; another job or program reads the queue. With use_correlation_id a job needs it for itself: stop the "
            "other, or give each a queue of its own."
        )
    if code == _REFUSED:
        return f"{text}; grant it to this user (rabbitmqctl set_permissions)."
    if code == _NOT_FOUND:
        return f"{text}; correct the name, or declare it (a queue: declare_queue=True)."
    if code == _PRECONDITION and "timed out" in text:
        return (
            f"{text}; messages were not acknowledged for longer than the server's consumer_timeout: take checkpoints more "
            "often, lower the prefetch count of a slow job, or raise the timeout."
        )
    if code:
        return f"{text} ({code})."
    if isinstance(error, known.ConnectionBlockedTimeout):
        return "the server accepts no messages: it is short of memory or disk space (rabbitmqctl list_alarms); give it more."
    if isinstance(error, (Lost, NotTaken)):
        return str(error)
    fact = str(root).strip() or type(root).__name__
    return f"{fact}; start the server, or correct {config.shown}."


def blocking(config: RMQConnectionConfig, name: str, tries: int = 3) -> Any:
    """Return a connection for a few questions; tries again where that may help, and raises the last error."""
    client = pika()
    pause = FIRST_PAUSE_S
    for left in range(tries - 1, -1, -1):
        try:
            parameters = config.parameters(name)
            # A server that is short of something reads nothing more from a client that publishes, not even a question.
            parameters.blocked_connection_timeout = _BLOCKED_S
            return client.BlockingConnection(parameters)
        except errors() as error:
            if not left or not passes(error):
                raise
            wait_for(pause)
            pause *= 2
    raise AssertionError("a connection is made, or an error raised")


# ---- What is looked at before a job runs: the server, the user, a queue and an exchange, and what may be done with
# them.
#
# Nothing is read and nothing is written. The server looks at permissions before anything else, so it is asked for
# what it has to refuse in any case: a consumer with an argument of a wrong type, and a message in a transaction
# that is rolled back.


_NAME = "funken check"


def check_queue(config: RMQConnectionConfig, queue: str, declare: bool) -> None:
    """Look whether a queue can be read; raises ``SourceNotReadable``."""
    try:
        connection = blocking(config, _NAME)
        try:
            _find_queue(connection, queue, declare)
            _try(connection, lambda channel: channel.basic_consume(queue, _ignore, arguments={"x-priority": "none"}))
        finally:
            _close(connection)
    except errors() as error:
        raise SourceNotReadable(
            f"the queue {queue!r} at {config.shown} cannot be read: {problem(error, config)}"
        ) from error


def check_target(config: RMQConnectionConfig, exchange: str | None, queue: str | None, declare: bool) -> None:
    """Check that messages can be sent to an exchange and a queue; a name chosen by a function is ``None``."""
    where = f"the exchange {exchange!r}" if exchange else f"the queue {queue!r}" if queue else "the server"

    def publish(channel: Any) -> None:
        channel.tx_select()
        channel.basic_publish(exchange, queue or "", b"", mandatory=False)
        channel.tx_rollback()

    try:
        connection = blocking(config, _NAME)
        try:
            if queue is not None:
                _find_queue(connection, queue, declare)
            if exchange:
                connection.channel().exchange_declare(exchange, passive=True)
            if exchange is not None:
                _try(connection, publish)
        finally:
            _close(connection)
    except errors() as error:
        raise SinkNotWritable(f"{where} at {config.shown} cannot be written: {problem(error, config)}") from error


def _find_queue(connection: Any, queue: str, declare: bool) -> None:
    try:
        connection.channel().queue_declare(queue, passive=True)
    except pika("pika.exceptions").ChannelClosedByBroker as error:
        if not declare or code_of(error)[0] != _NOT_FOUND:
            raise
        connection.channel().queue_declare(queue, durable=True)


def _try(connection: Any, attempt: Callable[[Any], Any]) -> None:
    """Try something that does not go through; raises only if it is refused or its object is not there."""
    try:
        attempt(connection.channel())
    except pika("pika.exceptions").ChannelClosedByBroker as error:
        if code_of(error)[0] in (_REFUSED, _NOT_FOUND):
            raise


def _ignore(*delivered: Any) -> None:
    """Take no message: the consumer is refused."""


def _close(connection: Any) -> None:
    if connection.is_open:
        connection.close()
