"""RabbitMQ as a sink, with PyFlink's name: each record becomes a message, at least once.

Messages are sent as they come. A checkpoint waits until the server has confirmed all before it, so none is lost; after a failure
those since the checkpoint are sent again. A message that reaches no queue, or that the server does not take, fails the job.
"""

from __future__ import annotations

from typing import Any

from funken.connectors.base import ConnectorContext
from funken.connectors.rabbitmq.link import Publisher
from funken.connectors.rabbitmq.records import RMQSinkPublishOptions
from funken.connectors.rabbitmq.server import RMQConnectionConfig, check_target, problem
from funken.connectors.schemas import SerializationSchema, SimpleStringSchema, check_schema
from funken.connectors.sink import Sink, SinkWriter
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SinkNotWritable
from funken.timing.clock import SystemClock
from funken.types.callables import Generic, RECORD_contra

_CONFIRM_S = 180.0
"""A writer's longest wait (s) when no message is confirmed; longer than a link tries to connect again."""


@dataclass(frozen=True)
class RMQSink(Sink[RECORD_contra], Generic[RECORD_contra]):
    """Writes records to a queue, or where ``publish_options`` say: to exchanges, with routing keys and properties.

    The queue has to be there, unless ``declare_queue`` makes it, durable. Messages are persistent.

    Raises ``SinkNotWritable``, before anything runs, if the server, the queue or the exchange is not there, or refuses the user.

    >>> config = RMQConnectionConfig("mq.example")
    >>> RMQSink(config, "totals").publish_options.routing_key
    'totals'
    >>> RMQSink(config, publish_options=RMQSinkPublishOptions("orders", lambda order: f"item.{order}")).queue_name is None
    True
    >>> RMQSink(config)
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: an RMQSink needs either the name of a queue or publish_options.
    """

    connection_config: RMQConnectionConfig
    queue_name: str | None = None
    serialization_schema: SerializationSchema[RECORD_contra] = SimpleStringSchema()
    publish_options: RMQSinkPublishOptions = None  # type: ignore[assignment]
    declare_queue: bool = False

    def __post_init__(self) -> None:
        """Check the schema; make options of the queue."""
        check_schema(self.serialization_schema, SerializationSchema, "RMQSink")
        if bool(self.queue_name) == (self.publish_options is not None):
            raise InvalidConfiguration("an RMQSink needs either the name of a queue or publish_options.")
        if self.queue_name:
            object.__setattr__(self, "publish_options", RMQSinkPublishOptions("", self.queue_name))

    def check(self) -> None:
        """Reach the server, and look whether the queue or the exchange is there and may be written."""
        exchange = self.publish_options.exchange
        fixed = None if callable(exchange) else exchange
        check_target(self.connection_config, fixed, self.queue_name, self.declare_queue)

    def writer(self, context: ConnectorContext) -> RMQWriter:
        """Make a writer."""
        return RMQWriter(self, context)


class RMQWriter(SinkWriter):
    """Sends blocks as they come, and waits for the server's confirmations at checkpoints."""

    def __init__(self, sink: RMQSink[Any], context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._who = f"operator {context.operator!r}"
        self._publisher = Publisher(sink.connection_config, self._who, f"funken {context.operator} {context.subtask}")
        self._monotonic = SystemClock().monotonic
        metrics = context.metrics
        metrics.gauge("unconfirmedMessages", lambda: self._publisher.unconfirmed)
        metrics.gauge("connectionsLost", lambda: self._publisher.lost)

    def open(self) -> None:
        """Connect, in a thread."""
        self._publication = self._sink.publish_options.publication()
        self._publisher.link.start()

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Send a block; waits while too much is not confirmed."""
        bodies = self._sink.serialization_schema.serialize_block(values)
        self._publisher.send([self._publication(value, body) for value, body in zip(values, bodies, strict=True)])
        self.count_sent(len(values), sum(map(len, bodies)))
        self._wait(all_of_them=False)

    def flush(self, end_of_input: bool) -> None:
        """Wait until the server has confirmed all messages."""
        self._wait(all_of_them=True)

    def _wait(self, all_of_them: bool) -> None:
        publisher, confirmed, since = self._publisher, self._publisher.confirmed, self._monotonic()
        while not publisher.wait(all_of_them):
            if publisher.confirmed != confirmed:
                confirmed, since = publisher.confirmed, self._monotonic()
            elif self._monotonic() - since > _CONFIRM_S:
                why = publisher.link.blocked
                raise self._failed(
                    f"no message was confirmed for {_CONFIRM_S:.0f} s, and {publisher.unconfirmed} are not; "
                    + (f"the server takes none: {why}; give it more." if why else "see the server's log.")
                )
        if publisher.error is not None:
            raise self._failed(problem(publisher.error, self._sink.connection_config)) from publisher.error

    def _failed(self, text: str) -> SinkNotWritable:
        self.count_errors(max(1, self._publisher.unconfirmed))
        return self.failure(f"{self._sink.connection_config.shown} cannot be written: {text}")

    def close(self) -> None:
        """Leave the server."""
        self._publisher.link.stop()
