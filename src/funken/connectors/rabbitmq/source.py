"""A queue of RabbitMQ as a source, with PyFlink's name: messages are acknowledged when a checkpoint covers them.

A queue has no positions. What is not acknowledged when a reader ends, the server delivers again; so each message is read at least
once with checkpoints, and with ids that producers give, exactly once (``ledger.py``). Then one subtask reads, and nobody else.
"""

from __future__ import annotations

from typing import Any

from funken.connectors.base import Boundedness, Source, SplitEnumerator
from funken.connectors.context import ConnectorContext
from funken.connectors.rabbitmq.checks import check_queue
from funken.connectors.rabbitmq.reader import RMQReader, RMQSplit
from funken.connectors.rabbitmq.records import RMQDeserializationSchema
from funken.connectors.rabbitmq.server import RMQConnectionConfig
from funken.connectors.reading.decoding import MalformedRecordPolicy
from funken.connectors.schemas import DeserializationSchema, SimpleStringSchema, check_schema
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration


@dataclass(frozen=True)
class RMQSource(Source):
    """The messages of a queue, as records of a schema; their ``timestamp``, if all have one, is the event time.

    With checkpoints a message is acknowledged when one is complete that was taken after it was read: each is read at least once.
    With ``use_correlation_id`` too, exactly once: every message needs a correlation id that no other has, the source has one
    subtask, and nobody else may read the queue. Without checkpoints a message is acknowledged as soon as it is read, and lost if
    the job fails after that.

    The queue has to be there, unless ``declare_queue`` makes it, durable. ``malformed`` decides about messages that the schema
    cannot read. ``remember`` is how many ids of acknowledged messages are kept, since a server that is killed may deliver again
    what it had confirmed.

    Raises ``SourceNotReadable``, before anything runs, if the server or the queue is not there, or refuses the user.

    >>> config = RMQConnectionConfig("mq.example")
    >>> RMQSource(config, "orders", use_correlation_id=True).max_parallelism
    1
    >>> RMQSource(config, "")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: an RMQSource needs the name of a queue.
    """

    connection_config: RMQConnectionConfig
    queue_name: str
    use_correlation_id: bool = False
    deserialization_schema: DeserializationSchema | RMQDeserializationSchema = SimpleStringSchema()
    declare_queue: bool = False
    malformed: MalformedRecordPolicy = MalformedRecordPolicy.FAIL
    remember: int = 10_000
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED

    def __post_init__(self) -> None:
        """Check what can be checked without the server."""
        check_schema(self.deserialization_schema, DeserializationSchema, "RMQSource")
        if not self.queue_name:
            raise InvalidConfiguration("an RMQSource needs the name of a queue.")
        if self.remember < 0:
            raise InvalidConfiguration(f"an RMQSource cannot remember {self.remember} messages; pass 0 or more.")

    @property
    def max_parallelism(self) -> int | None:  # type: ignore[override]
        """One subtask reads exactly once; else any number share the messages."""
        return 1 if self.use_correlation_id else None

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator; it looks at the queue when it starts."""
        return _Consumers(self)

    def reader(self, context: ConnectorContext) -> RMQReader:
        """Make a reader."""
        return RMQReader(
            self.connection_config, self.queue_name, self.use_correlation_id, self.deserialization_schema, self.malformed,
            self.remember, context,
        )  # fmt: skip


class _Consumers(SplitEnumerator):
    """Gives each subtask a share of the queue, once; those that were restored do not ask."""

    def __init__(self, source: RMQSource) -> None:
        self._source = source
        self._given: set[int] = set()

    def start(self) -> None:
        """Look at the queue."""
        source = self._source
        check_queue(source.connection_config, source.queue_name, source.declare_queue)

    def next_splits(self, subtask: int) -> list[Any] | None:
        """Return the share of a subtask, once."""
        if subtask in self._given:
            return None
        self._given.add(subtask)
        return [RMQSplit(f"{self._source.queue_name}-{subtask}")]

    def restore(self, snapshot: Any) -> None:
        """Nothing is kept: shares are the same in every attempt."""


__all__ = ["RMQSource"]
