"""The client library: the only module that imports ``confluent_kafka``, and what its errors mean.

Properties are librdkafka's; those of Flink's connector and of the Java client that have an equivalent are translated.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from funken import extras
from funken.errors import InvalidConfiguration
from funken.timing.clock import SystemClock

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 30.0
"""The driver's longest wait (s) for an answer of the brokers."""

SOURCE_PROPERTIES = ("partition.discovery.interval.ms", "commit.offsets.on.checkpoint", "client.id.prefix")
"""Properties of Flink's source that the source itself reads."""

_ADVICE = {
    "sasl.jaas.config": "set 'sasl.username' and 'sasl.password'",
    "key.deserializer": "set a deserializer with set_deserializer()",
    "value.deserializer": "set one with set_value_only_deserializer()",
    "key.serializer": "set one in the record serializer",
    "value.serializer": "set one in the record serializer",
    "ssl.truststore.location": "set 'ssl.ca.location' (PEM)",
    "ssl.truststore.password": "set 'ssl.ca.location' (PEM)",
    "enable.auto.commit": "offsets are committed with checkpoints ('commit.offsets.on.checkpoint')",
}
_OTHER_LOGINS = {
    "Krb5": "set 'sasl.kerberos.service.name', 'sasl.kerberos.principal' and 'sasl.kerberos.keytab'",
    "OAuthBearer": "set 'sasl.oauthbearer.method' = 'oidc', and its 'client.id', 'client.secret' and 'token.endpoint.url'",
    "IAM": "the client has no login with IAM: let the brokers take SASL/SCRAM, and set 'sasl.username' and 'sasl.password'",
}
"""What takes the place of a login module of Java, by a part of its name."""
_LOGIN = re.compile(r"[\w.]*\.(?:Plain|Scram)LoginModule\s+required\b(.*);", re.DOTALL)
_LOGIN_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_now = SystemClock().monotonic
_NUMBER = re.compile(r"\d+")
_SECRETS = ("password", "secret", "oauthbearer.config", "key.pem", "ssl.key")


def confluent(module: str = "confluent_kafka") -> Any:
    """Return a module of the client; raises ``EnvironmentNotReady`` if it is not installed."""
    return extras.required(module, "kafka", "the Kafka connectors need confluent-kafka")


def client_properties(properties: Mapping[str, str], who: str) -> dict[str, str]:
    """Return properties for the client; reject what only the Java client knows, and name what takes its place.

    >>> java = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="secret";'
    >>> client_properties({"sasl.mechanism": "PLAIN", "sasl.jaas.config": java}, "Kafka source")
    {'sasl.mechanism': 'PLAIN', 'sasl.username': 'ann', 'sasl.password': 'secret'}
    """
    found: dict[str, str] = {}
    for key, value in properties.items():
        login = _LOGIN.fullmatch(str(value).strip()) if key == "sasl.jaas.config" else None
        given = (
            {} if login is None else {name: first or second for name, first, second in _LOGIN_OPTION.findall(login[1])}
        )
        if {"username", "password"} <= given.keys():
            found |= {"sasl.username": given["username"], "sasl.password": given["password"]}
        elif key in _ADVICE:
            logins = _OTHER_LOGINS.items() if key == "sasl.jaas.config" else ()
            advice = next((text for part, text in logins if f"{part}LoginModule" in value), _ADVICE[key])
            raise InvalidConfiguration(f"{who}: property {key!r} has no meaning here; {advice}.")
        else:
            found[key] = value
    return found


_UNKNOWN_PROPERTY = re.compile('No such configuration property: "(.+)"')
_PROPERTIES = (
    *(
        "acks",
        "auto.offset.reset",
        "batch.size",
        "bootstrap.servers",
        "client.id",
        "compression.type",
        "delivery.timeout.ms",
    ),
    *(
        "enable.auto.commit",
        "enable.idempotence",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "fetch.wait.max.ms",
        "group.id",
    ),
    *(
        "group.instance.id",
        "heartbeat.interval.ms",
        "isolation.level",
        "linger.ms",
        "max.in.flight",
        "max.poll.interval.ms",
    ),
    *(
        "message.max.bytes",
        "partition.assignment.strategy",
        "queue.buffering.max.messages",
        "receive.message.max.bytes",
    ),
    *("request.timeout.ms", "retries", "retry.backoff.ms", "sasl.mechanism", "sasl.password", "sasl.username"),
    *("security.protocol", "session.timeout.ms", "socket.timeout.ms", "ssl.ca.location", "ssl.certificate.location"),
    *("ssl.key.location", "ssl.key.password", "statistics.interval.ms", "transaction.timeout.ms", "transactional.id"),
)
"""The properties that programs set most, to name the one that a misspelt one means."""


def near_property(name: str) -> str | None:
    """Return the property that a misspelt name means; ``None`` if none is like it.

    >>> near_property("bootstrap.server"), near_property("groupid"), near_property("auto.offset.rest"), near_property("x")
    ('bootstrap.servers', 'group.id', 'auto.offset.reset', None)
    """
    return next(iter(get_close_matches(name.lower(), _PROPERTIES, 1, 0.8)), None)


def misspelt(name: str, given: Iterable[str]) -> str:
    """Return the end of a message on a missing property, if one that was set seems to mean it; else ``""``.

    >>> misspelt("group.id", ["groupid"])
    " There is 'groupid': correct its name."
    """
    found = next((key for key in given if key != name and near_property(key) == name), None)
    return "" if found is None else f" There is {found!r}: correct its name."


def made(make: Callable[[dict[str, Any]], Any], properties: Mapping[str, Any], who: str) -> Any:
    """Make a client whose lines go to Python's logging; an unknown property is an ``InvalidConfiguration``."""
    try:
        return make({**properties, "logger": ClientLog(who)})
    except (confluent().KafkaException, ValueError, TypeError) as error:
        wrong = _UNKNOWN_PROPERTY.search(message_of(error))
        near = None if wrong is None else near_property(wrong[1])
        if wrong is not None and near is not None:
            raise InvalidConfiguration(
                f"{who}: the client has no property {wrong[1]!r}. Did you mean {near!r}? Correct its name."
            ) from error
        shown = {key: "***" if is_secret(key) else value for key, value in properties.items() if not callable(value)}
        raise InvalidConfiguration(f"{who}: {message_of(error)}; its properties are {shown}. Correct them.") from error


def is_secret(key: str) -> bool:
    """Return True if the value of a property must not be shown."""
    return any(part in key for part in _SECRETS)


def message_of(error: Any) -> str:
    """Return the message of an error of the client."""
    cause = getattr(error, "args", None)
    inner = cause[0] if cause else error
    text = inner.str() if hasattr(inner, "str") else str(error)
    name = inner.name() if hasattr(inner, "name") else type(error).__name__
    return f"{name}: {text}"


class ClientLog:
    """A receiver of the lines of a client, which librdkafka would print: Python's logging gets each kind twice a minute at most.

    A kind is a line without its numbers. librdkafka connects anew without an end, so its errors are warnings here.

    >>> now = [0.0]
    >>> lines = ClientLog("Kafka source", lambda: now[0])
    >>> refused = "FAIL", "consumer-1", "localhost:1: Connection refused (after 2ms in state CONNECT)"
    >>> [lines.accepts(*refused), lines.accepts(*refused), lines.accepts("FAIL", "consumer-1", "no route to host")]
    [True, False, True]
    >>> now[0] = 31.0
    >>> lines.accepts(*refused)
    True
    """

    PAUSE_S = 30.0

    def __init__(self, who: str, now: Callable[[], float] = _now) -> None:
        self._who = who
        self._now = now
        self._next: dict[str, float] = {}

    def log(self, level: int, message: str, *args: Any) -> None:
        """Pass a line on; the client calls this with the arguments of ``logging.Logger.log``."""
        if self.accepts(*args):
            logger.log(min(level, logging.WARNING), f"%s: {message}", self._who, *args)

    def accepts(self, *args: Any) -> bool:
        """Return True for a line of a kind that was not logged lately."""
        kind = _NUMBER.sub("", " ".join(map(str, args)))
        now = self._now()
        if now < self._next.get(kind, now):
            return False
        self._next[kind] = now + self.PAUSE_S
        return True


_PROTOCOLS = {"plaintext", "ssl", "sasl_plaintext", "sasl_ssl"}


def checked_servers(servers: Any, who: str, properties: Iterable[str] = ()) -> str:
    """Return the addresses of brokers; raise ``InvalidConfiguration`` for none, and for such as no client can use.

    >>> checked_servers("http://localhost:9092", "a Kafka source")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: a Kafka source: 'http://localhost:9092' is a URL of 'http'; brokers are named by
    'host:port,host:port' in set_bootstrap_servers().
    """
    if not servers:
        near = misspelt("bootstrap.servers", properties)
        raise InvalidConfiguration(f"{who} has no brokers; call set_bootstrap_servers('host:port').{near}")
    remedy = "brokers are named by 'host:port,host:port' in set_bootstrap_servers()."
    if not isinstance(servers, str):
        raise InvalidConfiguration(f"{who}: {servers!r} is no text; {remedy}")
    for each in servers.split(","):
        protocol, separator, _ = each.strip().partition("://")
        if separator and protocol.lower() not in _PROTOCOLS:
            raise InvalidConfiguration(f"{who}: {each.strip()!r} is a URL of {protocol!r}; {remedy}")
    return servers


_SOON_S = 3.0


def cluster_of(client: Any, timeout: float, servers: str, last_error: LastError, who: str) -> Any:
    """Return the metadata of all topics; while no broker answers, say so before the time (s) is over."""
    try:
        return client.list_topics(timeout=min(timeout, _SOON_S))
    except confluent().KafkaException:
        if timeout <= _SOON_S:
            raise
        client.poll(0)  # the client reports why
        logger.warning(
            "%s: no broker of %r answers yet%s; waiting %g s", who, servers, last_error.because, timeout - _SOON_S
        )
        return client.list_topics(timeout=timeout - _SOON_S)


class LastError:
    """The newest error that a client reported on its own (``error_cb``): it says why a request got no answer."""

    def __init__(self, who: str) -> None:
        self._who = who
        self.text = ""
        self.all_down = False

    def __call__(self, error: Any) -> None:
        """The client reports an error: most of them go away by themselves."""
        text = message_of(error)
        if text != self.text:
            logger.info("%s: %s", self._who, text)
        if not self.text or error.code() != confluent().KafkaError._ALL_BROKERS_DOWN:
            self.text = text
        self.all_down = self.all_down or error.code() == confluent().KafkaError._ALL_BROKERS_DOWN

    @property
    def because(self) -> str:
        """Return the error in brackets, if there is one."""
        return f" ({self.text})" if self.text else ""
