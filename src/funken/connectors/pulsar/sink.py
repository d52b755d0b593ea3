"""Topics of Pulsar as a sink.

At least once: messages are sent as they come, and at the checkpoint the writer waits for the broker to have all of them.

Exactly once: the client of Python has no transactions, so messages travel in the checkpoint to the driver, which publishes
them. Each attempt of a writer has a producer name of its own and numbers its messages. A commit that is repeated sends the same
numbers under the same name, and the broker, which must have deduplication enabled, takes each number once.
"""

from __future__ import annotations

import enum
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from funken.connectors.base import CommitterContext, ConnectorContext
from funken.connectors.pulsar.connection import REMEDIES, PulsarConnection, pulsar
from funken.connectors.schemas import SerializationSchema, SimpleStringSchema, check_schema
from funken.connectors.sink import CommitRequest, Committer, DeliveryGuarantee, Sink, SinkWriter, StagedWriter
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SinkNotWritable
from funken.types.callables import Generic, RECORD_contra


class TopicRoutingMode(enum.Enum):
    """A rule for the partition of a message."""

    ROUND_ROBIN = 0
    MESSAGE_KEY_HASH = 1
    CUSTOM = 2


class _Outgoing(NamedTuple):
    partition: str
    key: str | None
    time: int | None
    deliver_at: int | None
    data: bytes


class _Publication(NamedTuple):
    """A committable: messages, the producer that sends them, and the number of the first."""

    producer: str
    first: int
    messages: list[_Outgoing]


@dataclass(frozen=True)
class PulsarSink(Sink[RECORD_contra], Generic[RECORD_contra]):
    """Writes records to topics, at least once; with ``EXACTLY_ONCE`` they become visible with the checkpoint.

    ``key(record)`` is the key of a message; with ``MESSAGE_KEY_HASH`` it decides the partition, else messages go round. With
    ``CUSTOM`` the partition is that of ``router(record, partitions)``. ``delay`` (ms) lets brokers deliver messages later.

    >>> broker = PulsarConnection("pulsar://broker.example:6650")
    >>> PulsarSink(broker, "totals", key=lambda total: total["item"]).topics
    ('totals',)
    >>> PulsarSink(broker, "totals", routing=TopicRoutingMode.CUSTOM)
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: PulsarSink: with CUSTOM routing it needs router(record, partitions).
    """

    connection: PulsarConnection
    topics: Sequence[str]
    serialization_schema: SerializationSchema[RECORD_contra] = SimpleStringSchema()
    guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE
    key: Callable[[RECORD_contra], str] | None = None
    routing: TopicRoutingMode = TopicRoutingMode.ROUND_ROBIN
    router: Callable[[RECORD_contra, Sequence[str]], str] | None = None
    producer_name: str = "funken"
    delay: int = 0

    def __post_init__(self) -> None:
        """Check the arguments as far as possible without the cluster."""
        names = (self.topics,) if isinstance(self.topics, str) else tuple(self.topics)
        object.__setattr__(self, "topics", names)
        check_schema(self.serialization_schema, SerializationSchema, "PulsarSink")
        if not names or not all(names):
            raise InvalidConfiguration("PulsarSink: it needs the name of a topic.")
        if self.routing is TopicRoutingMode.CUSTOM and self.router is None:
            raise InvalidConfiguration("PulsarSink: with CUSTOM routing it needs router(record, partitions).")
        if self.routing is TopicRoutingMode.MESSAGE_KEY_HASH and self.key is None:
            raise InvalidConfiguration("PulsarSink: with MESSAGE_KEY_HASH it needs key(record).")

    def check(self) -> None:
        """Find out whether the topics may be written."""
        with self.connection.reached(f"the topic {', '.join(self.topics)}", SinkNotWritable) as client:
            for topic in self.topics:
                client.create_producer(client.get_topic_partitions(topic)[0]).close()

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        exactly = self.guarantee is DeliveryGuarantee.EXACTLY_ONCE
        return _StagingWriter(self, context) if exactly else PulsarWriter(self, context)

    def committer(self, context: CommitterContext) -> Committer | None:
        """Make the committer of exactly once."""
        return PulsarCommitter(self, context) if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE else None


class _Router:
    """Makes messages of records, each with its partition."""

    def __init__(self, sink: PulsarSink[Any], client: Any, now: Callable[[], int]) -> None:
        self._sink, self._now = sink, now
        self._partitions: list[str] = [each for topic in sink.topics for each in client.get_topic_partitions(topic)]
        self._next = 0

    def route(self, values: list[Any], timestamps: list[int] | None) -> Iterator[_Outgoing]:
        """Yield the messages of a block."""
        sink, partitions = self._sink, self._partitions
        deliver_at = self._now() + sink.delay if sink.delay else None
        for index, data in enumerate(sink.serialization_schema.serialize_block(values)):
            value = values[index]
            key = None if sink.key is None else str(sink.key(value))
            if sink.routing is TopicRoutingMode.CUSTOM:
                assert sink.router is not None
                partition = sink.router(value, tuple(partitions))
            elif sink.routing is TopicRoutingMode.MESSAGE_KEY_HASH:
                partition = partitions[zlib.crc32(str(key).encode()) % len(partitions)]
            else:
                partition = partitions[self._next % len(partitions)]
                self._next += 1
            yield _Outgoing(partition, key, timestamps[index] if timestamps is not None else None, deliver_at, data)


class _Producers:
    """Sends messages by a producer per partition, and keeps the first error of the broker.

    Messages of a named producer are sent one by one: of a batch the broker remembers only the number of the first.
    """

    def __init__(self, client: Any, name: str | None = None) -> None:
        self._client, self._name = client, name
        self.of: dict[str, Any] = {}
        self.errors = 0
        self.problem = ""

    def producer(self, partition: str) -> Any:
        """Return the producer of a partition."""
        found = self.of.get(partition)
        if found is None:
            found = self.of[partition] = self._client.create_producer(
                partition, producer_name=self._name, block_if_queue_full=True, batching_enabled=self._name is None
            )
        return found

    def send(self, message: _Outgoing, number: int | None = None) -> None:
        """Send a message; its answer comes later."""
        self.producer(message.partition).send_async(
            message.data, self._answered, partition_key=message.key, sequence_id=number, event_timestamp=message.time or None,
            deliver_at=message.deliver_at,
        )  # fmt: skip

    def _answered(self, result: Any, message_id: Any) -> None:
        if result != pulsar().Result.Ok:
            self.errors += 1
            self.problem = self.problem or getattr(result, "name", str(result).rpartition(".")[2])

    def flush(self) -> None:
        """Wait for the answers."""
        for producer in self.of.values():
            producer.flush()


class PulsarWriter(SinkWriter):
    """Sends records as they come."""

    def __init__(self, sink: PulsarSink[Any], context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._client = sink.connection.connect()
        self._producers = _Producers(self._client)
        self._router: _Router | None = None

    def open(self) -> None:
        """Ask for the partitions."""
        self._try(self._ask)

    def _ask(self) -> None:
        self._router = _Router(self._sink, self._client, self.context.processing_time)

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Send a block."""
        if self._router is None:
            self.open()
        assert self._router is not None
        messages = list(self._router.route(values, timestamps))

        def send() -> None:
            for message in messages:
                self._producers.send(message)

        self._try(send)
        self._check()
        self.count_sent(len(messages), sum(len(each.data) for each in messages))

    def flush(self, end_of_input: bool) -> None:
        """Wait until the broker has all messages."""
        if end_of_input or self._sink.guarantee is not DeliveryGuarantee.NONE:
            self._try(self._producers.flush)
            self._check()

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except self._sink.connection.errors as error:
            raise self._refused(type(error).__name__) from error

    def _check(self) -> None:
        producers = self._producers
        if producers.errors:
            self.count_errors(producers.errors)
            problem, producers.errors, producers.problem = producers.problem, 0, ""
            if self._sink.guarantee is not DeliveryGuarantee.NONE:
                raise self._refused(problem)

    def _refused(self, name: str) -> SinkNotWritable:
        remedy = REMEDIES.get(name, "see the log of the broker")
        return self.failure(
            f"the topic {', '.join(self._sink.topics)} cannot be written: {self._sink.connection!r} answers {name}; {remedy}."
        )

    def close(self) -> None:
        """Close the client, and with it the producers."""
        self._client.close()


class _StagingWriter(StagedWriter):
    """Keeps messages until the checkpoint."""

    def __init__(self, sink: PulsarSink[Any], context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._name = f"{sink.producer_name}-{uuid.uuid4().hex}"
        self._first = 1
        self._router: _Router | None = None

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Keep a block."""
        if self._router is None:
            client = self._sink.connection.connect()
            try:
                self._router = _Router(self._sink, client, self.context.processing_time)
            except self._sink.connection.errors as error:
                raise self.failure(self._sink.connection.problem(error)) from error
            finally:
                client.close()
        messages = list(self._router.route(values, timestamps))
        self.staged += messages
        self.count_sent(len(messages), sum(len(each.data) for each in messages))

    def prepare_commit(self, checkpoint_id: int | None, end_of_input: bool) -> list[Any]:
        """Return the messages, with the name and the numbers under which they are published."""
        staged = super().prepare_commit(checkpoint_id, end_of_input)
        found = [_Publication(self._name, self._first, messages) for messages in staged]
        self._first += sum(map(len, staged))
        return found


class PulsarCommitter(Committer):
    """Publishes the messages that writers prepared; the broker drops those that were published before."""

    def __init__(self, sink: PulsarSink[Any], context: CommitterContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._client = sink.connection.connect()
        self._producers: dict[str, _Producers] = {}
        self._checked: set[str] = set()

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Publish; the broker takes the numbers of a producer in their order."""
        what = f"the topic {', '.join(self._sink.topics)} cannot be written"
        with self._sink.connection.explained(what, self.failure):
            for request in sorted(requests, key=lambda each: each.committable[:2]):
                if not self._publish(_Publication(*request.committable)):
                    request.already_committed()

    def _publish(self, publication: _Publication) -> bool:
        """Send the messages that the broker does not have; return whether there were some."""
        producers = self._producers.get(publication.producer)
        if producers is None:
            producers = self._producers[publication.producer] = _Producers(self._client, publication.producer)
        sent: dict[str, int] = {}
        for number, fields in enumerate(publication.messages, publication.first):
            message = _Outgoing(*fields)
            if number > producers.producer(message.partition).last_sequence_id():
                producers.send(message, number)
                sent[message.partition] = number
        producers.flush()
        if producers.errors:
            problem, producers.errors, producers.problem = producers.problem, 0, ""
            raise self.failure(
                f"{self._sink.connection!r} answers {problem}; {REMEDIES.get(problem, 'see the log of the broker')}."
            )
        for partition in sent.keys() - self._checked:
            self._check_deduplication(producers, partition, sent[partition])
        return bool(sent)

    def _check_deduplication(self, producers: _Producers, partition: str, number: int) -> None:
        """Ask the broker for the last number of a producer: without deduplication it does not know."""
        producers.of.pop(partition).close()
        if producers.producer(partition).last_sequence_id() < number:
            raise self.failure(
                f"{partition} has no deduplication, and exactly once needs it; enable it (pulsar-admin namespaces "
                "set-deduplication --enable) and start the job again, or use AT_LEAST_ONCE."
            )
        self._checked.add(partition)

    def close(self) -> None:
        """Close the client, and with it the producers."""
        self._client.close()


__all__ = ["PulsarCommitter", "PulsarSink", "PulsarWriter", "TopicRoutingMode"]
