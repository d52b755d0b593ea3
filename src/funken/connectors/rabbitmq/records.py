"""Between RabbitMQ's messages and records: schemas that see headers and properties too, and where a sink's messages go."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, NamedTuple

from funken.connectors.rabbitmq.server import pika
from funken.connectors.schemas import DeserializationSchema
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration
from funken.types.callables import Generic, OUT_co, R

PROPERTIES = (
    "app_id", "cluster_id", "content_encoding", "content_type", "correlation_id", "delivery_mode", "expiration", "headers",
    "message_id", "priority", "reply_to", "timestamp", "type", "user_id",
)  # fmt: skip
_PERSISTENT = 2


class RMQMessage(NamedTuple):
    """A message as it was read; ``properties`` has those that it bears, by AMQP's names, headers apart.

    >>> message = RMQMessage(b"3", "", "orders", {"item": "tea"}, {"correlation_id": "order-7"})
    >>> message.headers["item"], message.properties["correlation_id"]
    ('tea', 'order-7')
    """

    body: bytes
    exchange: str = ""
    routing_key: str = ""
    headers: Mapping[str, Any] = {}
    properties: Mapping[str, Any] = {}
    redelivered: bool = False


class RMQDeserializationSchema(DeserializationSchema[OUT_co], Generic[OUT_co]):
    """A schema that makes records of RabbitMQ's messages; subclass it, or use ``of``. ``None`` drops a message.

    >>> schema = RMQDeserializationSchema.of(lambda message: (message.routing_key, len(message.body)))
    >>> schema.deserialize(RMQMessage(b"three", routing_key="orders"))
    ('orders', 5)
    """

    def deserialize(self, message: RMQMessage) -> OUT_co | None:  # type: ignore[override]
        """Return the record of the stream."""
        raise NotImplementedError

    @staticmethod
    def of(function: Callable[[RMQMessage], R | None]) -> RMQDeserializationSchema[R]:
        """Make a schema of a function."""
        return _Function(function)


@dataclass(frozen=True)
class _Function(RMQDeserializationSchema[OUT_co], Generic[OUT_co]):
    function: Callable[[RMQMessage], OUT_co | None]

    def deserialize(self, message: RMQMessage) -> OUT_co | None:  # type: ignore[override]
        return self.function(message)


def message_of(method: Any, properties: Any, body: bytes) -> RMQMessage:
    """Return a delivery of the client as a message."""
    bears = {name: value for name in PROPERTIES if (value := getattr(properties, name)) is not None}
    headers = bears.pop("headers", {})
    return RMQMessage(body, method.exchange, method.routing_key, headers, bears, method.redelivered)


class Publication(NamedTuple):
    """A message to be written; ``properties`` are the client's."""

    exchange: str
    routing_key: str
    body: bytes
    properties: Any
    mandatory: bool


@dataclass(frozen=True)
class RMQSinkPublishOptions:
    """The targets and properties of messages; each of these is a value, or a function of the record.

    ``properties`` are a mapping of AMQP's names (``headers``, ``correlation_id``, ``expiration``, ...); messages are persistent
    unless ``delivery_mode`` says otherwise. A ``mandatory`` message that reaches no queue fails the job.

    >>> options = RMQSinkPublishOptions("orders", lambda order: f"item.{order[0]}", {"content_type": "text/plain"})
    >>> options.routing_key(("tea", 3))
    'item.tea'
    >>> RMQSinkPublishOptions("orders", "", {"corelation_id": "7"})
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: a message has no property 'corelation_id'; did you mean 'correlation_id'?
    """

    exchange: str | Callable[[Any], str] = ""
    routing_key: str | Callable[[Any], str] = ""
    properties: Mapping[str, Any] | Callable[[Any], Mapping[str, Any]] = field(default_factory=dict)
    mandatory: bool | Callable[[Any], bool] = True

    def __post_init__(self) -> None:
        """Check the names of properties."""
        if isinstance(self.properties, Mapping):
            _checked(self.properties)

    def publication(self) -> Callable[[Any, bytes], Publication]:
        """Return a function from a record and its body to the message."""
        properties = pika().BasicProperties

        def made(bears: Mapping[str, Any]) -> Any:
            return properties(**{"delivery_mode": _PERSISTENT, **_checked(bears)})

        exchange, key, mandatory = _function(self.exchange), _function(self.routing_key), _function(self.mandatory)
        choose = self.properties
        bear = _function(made(choose)) if isinstance(choose, Mapping) else lambda record: made(choose(record))
        return lambda record, body: Publication(exchange(record), key(record), body, bear(record), mandatory(record))


def _function(value: Any) -> Callable[[Any], Any]:
    return value if callable(value) else lambda record: value


def _checked(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in properties:
        if name not in PROPERTIES:
            near = difflib.get_close_matches(str(name), PROPERTIES, 1)
            raise InvalidConfiguration(
                f"a message has no property {name!r}; "
                + (f"did you mean {near[0]!r}?" if near else "put it into its headers: {'headers': {...}}.")
            )
    return properties
