"""A queue of RabbitMQ as a source, with PyFlink's name: messages are acknowledged when a checkpoint covers them.

A queue has no positions. What is not acknowledged when a reader ends, the server delivers again; so each message is read at least
once with checkpoints, and with ids that producers give, exactly once (``ledger.py``). Then one subtask reads, and nobody else.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from funken.connectors.base import (
    NEED_SPLITS,
    Batch,
    Boundedness,
    ConnectorContext,
    NeedSplits,
    Source,
    SourceReader,
    SplitEnumerator,
    Wait,
)
from funken.connectors.rabbitmq.ledger import MessageLedger
from funken.connectors.rabbitmq.link import Consumer, Delivery
from funken.connectors.rabbitmq.records import RMQDeserializationSchema, RMQMessage, message_of
from funken.connectors.rabbitmq.server import RMQConnectionConfig, check_queue, pika, problem
from funken.connectors.reading import MalformedRecordPolicy, MessageDecoder
from funken.connectors.schemas import DeserializationSchema, SimpleStringSchema, check_schema
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration
from funken.types.callables import Generic, TEXT_co

# ---- The reader of a queue in a task: records of messages, and when these are acknowledged.
#
# ``ledger.py`` decides what is new and what may be acknowledged; ``link.py`` talks to the server, in a thread.


logger = logging.getLogger(__name__)

_HEARTBEATS = 3
"""After so many of them the server has given up a connection of a former attempt, and put its messages back."""


@dataclass(frozen=True, slots=True)
class RMQSplit:
    """A share of the queue; ``ids`` are those of messages that were read and that may come again."""

    id: str
    ids: tuple[str, ...] = ()


class RMQReader(SourceReader):
    """Reads a share of a queue."""

    def __init__(
        self, config: RMQConnectionConfig, queue: str, by_id: bool, schema: DeserializationSchema | RMQDeserializationSchema,
        malformed: MalformedRecordPolicy, remember: int, context: ConnectorContext,
    ) -> None:  # fmt: skip
        super().__init__(context)
        self._config, self._queue = config, queue
        self._checkpoints = context.checkpointing
        self._by_id = by_id and self._checkpoints
        self._who = f"operator {context.operator!r}"
        self._of_messages = isinstance(schema, RMQDeserializationSchema)
        metrics = context.metrics.add_group("RabbitMQSourceReader")
        payload = _body if self._of_messages else bytes
        self._decoder = MessageDecoder(schema, malformed, metrics.counter("malformedRecords"), payload)
        self._records, self._bytes = metrics.counter("numRecordsFetched"), metrics.counter("numBytesFetched")
        self._again = metrics.counter("duplicates")
        self._ledger = MessageLedger(remember)
        self._consumer = Consumer(
            config, queue, self._by_id, self._who, context.wake, f"funken {context.operator} {context.subtask}"
        )
        metrics.gauge("unacknowledgedMessages", self._unacknowledged)
        metrics.gauge("pendingMessages", lambda: self._consumer.waiting)
        metrics.gauge("connectionsLost", lambda: self._consumer.lost)
        self._split = ""
        self._epoch = 0
        self._opened_at = 0
        self._told = False

    def open(self) -> None:
        """Look for the client."""
        pika()

    def add_splits(self, splits: Sequence[RMQSplit]) -> None:
        """Read a share; of several, which others read before, one remains."""
        for split in splits:
            self._ledger.restore(split.ids)
            if self._split:
                self.finished.append(split.id)
            else:
                self._split = split.id
                self._consumer.link.start()

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return the records of the messages so far, or acknowledge and wait."""
        if not self._split:
            return NEED_SPLITS
        received = self._consumer.received
        while received:
            taken: list[Delivery] = []
            while received and len(taken) < limit:
                delivery = received.popleft()
                if delivery.method is None:
                    self._reopen(delivery.epoch, now)
                elif delivery.epoch == self._consumer.epoch and self._is_new(delivery, now):
                    taken.append(delivery)
            batch = self._decoded(taken)
            if not self._checkpoints:
                self._ledger.complete_all()
            self._acknowledge()
            if batch.values:
                return batch
        if self._consumer.link.failure is not None:
            error = self._consumer.link.failure
            raise self.failure(
                f"the queue {self._queue!r} at {self._config.shown} cannot be read: {problem(error, self._config)}"
            )
        self._look_for_room()
        return Wait(None)

    def _reopen(self, epoch: int, now: int) -> None:
        self._epoch, self._opened_at = epoch, now
        self._ledger.reopen()

    def _is_new(self, delivery: Delivery, now: int) -> bool:
        method, message_id = delivery.method, None
        if self._by_id:
            message_id = delivery.properties.correlation_id
            if message_id is None:
                raise self.failure(
                    f"a message of the queue {self._queue!r} has no correlation id (exchange {method.exchange!r}, "
                    f"routing key {method.routing_key!r}); set it where messages are produced, a different one for each, or "
                    "pass use_correlation_id=False. This one has to be taken off the queue."
                )
            late = now - self._opened_at >= _HEARTBEATS * self._config.requested_heartbeat * 1000
            if late and not method.redelivered and not self._ledger.settled:
                self._ledger.settle()
        if self._ledger.take(method.delivery_tag, message_id):
            return True
        self._again.inc()
        return False

    def _decoded(self, taken: list[Delivery]) -> Batch:
        messages: list[Any]
        if self._of_messages:
            messages = [message_of(each.method, each.properties, each.body) for each in taken]
        else:
            messages = [each.body for each in taken]
        values, positions = self._decoder.decode(messages, lambda index: self._where(taken[index]))
        self._records.inc(len(taken))
        size = sum(len(delivery.body) for delivery in taken)
        self._bytes.inc(size)
        self.bytes_in.inc(size)
        kept = taken if positions is None else [taken[position] for position in positions]
        timestamps = [each.properties.timestamp for each in kept]
        times = None if None in timestamps else [int(seconds) * 1000 for seconds in timestamps]
        return Batch(values, times, self._split)

    def _where(self, delivery: Delivery) -> str:
        message_id = delivery.properties.correlation_id or delivery.properties.message_id
        return f"{self._who}: queue {self._queue!r}" + (f" message {message_id!r}" if message_id else "")

    # ---- acknowledgements

    def _acknowledge(self) -> None:
        confirmed = self._consumer.confirmed
        while confirmed:
            epoch, number = confirmed.popleft()
            if epoch == self._epoch:
                self._ledger.confirmed(number)
        acks = self._ledger.acknowledge()
        if acks is not None:
            self._consumer.acknowledge(self._epoch, *acks, self._by_id)

    def _unacknowledged(self) -> int:
        return self._ledger.unacknowledged + len(self._consumer.received)

    def _look_for_room(self) -> None:
        full = self._ledger.unacknowledged >= self._config.prefetch_count
        if full and not self._told:
            self._told = True
            logger.warning(
                "%s: %d messages of the queue %r are not acknowledged, as many as the prefetch count allows: no more come before "
                "the next checkpoint is complete. Raise it (set_prefetch_count), or take checkpoints more often.",
                self._who, self._ledger.unacknowledged, self._queue,
            )  # fmt: skip

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the share, with the ids of messages that may come again."""
        self._acknowledge()
        ids = self._ledger.snapshot(checkpoint_id)
        return [RMQSplit(self._split, ids)] if self._split else []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Acknowledge the messages read before it."""
        self._ledger.complete(checkpoint_id)
        self._acknowledge()

    def close(self) -> None:
        """Send the acknowledgements, and leave the server."""
        self._consumer.link.stop()


def _body(message: RMQMessage) -> bytes:
    return message.body


@dataclass(frozen=True)
class RMQSource(Source[TEXT_co], Generic[TEXT_co]):
    """The messages of a queue, as records of a schema; their ``timestamp``, if all have one, is the event time.

    With checkpoints a message is acknowledged when one is complete that was taken after it was read: each is read at least once.
    With ``use_correlation_id`` too, exactly once: every message needs a correlation id that no other has, the source has one
    subtask, and nobody else may read the queue. Without checkpoints a message is acknowledged as soon as it is read, and lost if
    the job fails after that.

    The queue has to be there, unless ``declare_queue`` makes it, durable. ``malformed`` decides about messages that the schema
    cannot read. ``remember`` is how many ids of acknowledged messages are kept, since a server that is killed may deliver again
    the messages that it had confirmed.

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
    deserialization_schema: DeserializationSchema[TEXT_co] = SimpleStringSchema()  # type: ignore[assignment]
    declare_queue: bool = False
    malformed: MalformedRecordPolicy = MalformedRecordPolicy.FAIL
    remember: int = 10_000
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED

    def __post_init__(self) -> None:
        """Check the arguments as far as possible without the server."""
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
    """Assigns each subtask a share of the queue, once; those that were restored do not ask."""

    def __init__(self, source: RMQSource[Any]) -> None:
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
