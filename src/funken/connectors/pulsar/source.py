"""Topics of Pulsar as a source: each partition is a split, and its position the id of the last message.

A durable subscription keeps the messages of each partition until they are acknowledged, when a checkpoint that has them is
complete. A reader goes on after the position of the checkpoint, whatever was acknowledged. Messages that the broker delivers
again are left out by their ids.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from funken.connectors.base import (
    Batch,
    Boundedness,
    ConnectorContext,
    DiscoveredSplits,
    NeedSplits,
    Source,
    SplitEnumerator,
    Wait,
)
from funken.connectors.pulsar.connection import PulsarConnection, pulsar
from funken.connectors.reading import MalformedRecordPolicy, MessageDecoder, PolledReader, SplitRecords
from funken.connectors.schemas import DeserializationSchema, SimpleStringSchema, check_schema
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SourceNotReadable
from funken.types.callables import Generic, TEXT_co

logger = logging.getLogger(__name__)

_DISCOVERY_MS, _ACKNOWLEDGE_MS = 30_000, 5_000
_MESSAGES, _BYTES, _RECEIVE_MS = 1000, 8 * 2**20, 10
_IDLE_S, _BUSY_S, _BUSY_TRIES = 0.05, 0.5, 120
Position = tuple[int, int, int]
"""Ledger, entry and index within a batch of a message; messages of a partition are ordered by it."""


class PulsarMessage(NamedTuple):
    """A message as a reader holds it, with its time (ms) and its place."""

    data: bytes
    time: int
    position: Position
    id: Any


@dataclass(frozen=True)
class StartCursor:
    """The start of a job without a checkpoint.

    >>> StartCursor.from_publish_time(1_700_000_000_000)
    StartCursor(kind='publish time', millis=1700000000000, message_id=b'', inclusive=True)
    """

    kind: str
    millis: int = 0
    message_id: bytes = b""
    inclusive: bool = True

    @staticmethod
    def default_start_cursor() -> StartCursor:
        """Begin with the oldest messages."""
        return StartCursor.earliest()

    @staticmethod
    def earliest() -> StartCursor:
        """Begin with the oldest messages, or where the subscription is."""
        return StartCursor("earliest")

    @staticmethod
    def latest() -> StartCursor:
        """Begin with the messages that come after the start, or where the subscription is."""
        return StartCursor("latest")

    @staticmethod
    def from_message_id(message_id: Any, inclusive: bool = True) -> StartCursor:
        """Begin with a message, or after it: a ``MessageId`` of the client, or its bytes."""
        return StartCursor("message", message_id=_id_bytes(message_id), inclusive=inclusive)

    @staticmethod
    def from_publish_time(timestamp: int) -> StartCursor:
        """Begin with the messages published since a time (ms)."""
        return StartCursor("publish time", millis=timestamp)


@dataclass(frozen=True)
class StopCursor:
    """The end of a partition: before the first message that is at or after a place.

    >>> stop = StopCursor.at_publish_time(2000)
    >>> stop.kind, stop.inclusive
    ('publish time', False)
    """

    kind: str
    millis: int = 0
    message_id: bytes = b""
    inclusive: bool = False

    @staticmethod
    def default_stop_cursor() -> StopCursor:
        """Never end."""
        return StopCursor.never()

    @staticmethod
    def never() -> StopCursor:
        """Never end."""
        return StopCursor("never")

    @staticmethod
    def latest() -> StopCursor:
        """End with the messages that are there when the job starts."""
        return StopCursor("latest")

    @staticmethod
    def at_message_id(message_id: Any) -> StopCursor:
        """End before a message."""
        return StopCursor("message", message_id=_id_bytes(message_id))

    @staticmethod
    def after_message_id(message_id: Any) -> StopCursor:
        """End with a message."""
        return StopCursor("message", message_id=_id_bytes(message_id), inclusive=True)

    @staticmethod
    def at_publish_time(timestamp: int) -> StopCursor:
        """End before the first message published at a time (ms) or later."""
        return StopCursor("publish time", timestamp)

    @staticmethod
    def after_publish_time(timestamp: int) -> StopCursor:
        """End before the first message published after a time (ms)."""
        return StopCursor("publish time", timestamp, inclusive=True)

    @staticmethod
    def at_event_time(timestamp: int) -> StopCursor:
        """End before the first message with this event time (ms) or a later one."""
        return StopCursor("event time", timestamp)

    @staticmethod
    def after_event_time(timestamp: int) -> StopCursor:
        """End before the first message with a later event time (ms)."""
        return StopCursor("event time", timestamp, inclusive=True)

    def is_before(self, message: Any) -> bool:
        """Return True if a partition ends before a message of the client."""
        own: Any
        place: Any
        if self.kind == "message":
            own, place = _place(message.message_id()), _place(pulsar().MessageId.deserialize(self.message_id))
        elif self.kind in ("publish time", "event time"):
            own = message.publish_timestamp() if self.kind == "publish time" else message.event_timestamp()
            place = self.millis
        else:
            return False
        return bool(own > place if self.inclusive else own >= place)

    def is_reached(self, position: Position | None) -> bool:
        """Return True if nothing is left to read after a position."""
        if self.kind != "message" or not self.inclusive or position is None:
            return False
        return position >= _place(pulsar().MessageId.deserialize(self.message_id))


def _id_bytes(message_id: Any) -> bytes:
    found = message_id if isinstance(message_id, bytes) else message_id.serialize()
    return bytes(found)


def _place(message_id: Any) -> Position:
    return message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()


@dataclass(frozen=True)
class PulsarSource(Source[TEXT_co], Generic[TEXT_co]):
    """The messages of topics; their event time is that of the producer, or else the time of publication.

    ``topics`` are names; ``topic_pattern`` in their place is a regular expression within a namespace. ``subscription`` belongs
    to one job alone. A job without a checkpoint goes on where the subscription is; a new subscription begins at ``start``. With
    ``reset_subscription``, or a stop cursor that bounds the source, it begins at ``start`` in any case.

    Raises ``SourceNotReadable``, before anything runs, if a topic is not there or may not be read.

    >>> broker = PulsarConnection("pulsar://broker.example:6650")
    >>> PulsarSource(broker, "orders", "orders-to-totals", stop=StopCursor.latest()).boundedness
    <Boundedness.BOUNDED: 'bounded'>
    >>> PulsarSource(broker, "orders", "")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: PulsarSource: it needs the name of a subscription, one that no other job has.
    """

    connection: PulsarConnection
    topics: Sequence[str]
    subscription: str
    deserialization_schema: DeserializationSchema[TEXT_co] = SimpleStringSchema()  # type: ignore[assignment]
    start: StartCursor = StartCursor("earliest")
    stop: StopCursor = StopCursor("never")
    topic_pattern: str | None = None
    reset_subscription: bool = False
    consumer_name: str | None = None
    bounded: bool | None = None
    malformed: MalformedRecordPolicy = MalformedRecordPolicy.FAIL

    def __post_init__(self) -> None:
        """Check the arguments as far as possible without the cluster."""
        names = (self.topics,) if isinstance(self.topics, str) else tuple(self.topics)
        object.__setattr__(self, "topics", names)
        if bool(names) == bool(self.topic_pattern) or len(set(names)) < len(names):
            raise InvalidConfiguration(
                f"PulsarSource: it reads one or more different topics, or those of a topic_pattern, not {list(names)}."
            )
        if not self.subscription:
            raise InvalidConfiguration("PulsarSource: it needs the name of a subscription, one that no other job has.")
        check_schema(self.deserialization_schema, DeserializationSchema, "PulsarSource")
        if self.bounded and self.stop.kind == "never":
            raise InvalidConfiguration(
                "PulsarSource: a bounded source needs a stop cursor, such as StopCursor.latest()."
            )

    @property
    def boundedness(self) -> Boundedness:  # type: ignore[override]
        """The boundedness of the source."""
        ends = self.stop.kind != "never" if self.bounded is None else self.bounded
        return Boundedness.BOUNDED if ends else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def place(self) -> str:
        """The topics, or their pattern, for errors."""
        return f"the topic {', '.join(self.topics) or self.topic_pattern}"

    @property
    def seeks(self) -> bool:
        """True if a job without a checkpoint begins at the start cursor, not at the subscription's position."""
        moves = self.start.kind in ("message", "publish time")
        return moves or self.reset_subscription or self.boundedness is Boundedness.BOUNDED

    def subscribe(self, client: Any, partition: str, ahead: int = _MESSAGES) -> Any:
        """Return the consumer of a partition, which makes the subscription; the broker sends so many messages ahead."""
        library = pulsar()
        position = library.InitialPosition
        return client.subscribe(
            partition,
            self.subscription,
            consumer_type=library.ConsumerType.Exclusive,
            consumer_name=self.consumer_name,
            receiver_queue_size=ahead,
            initial_position=position.Latest if self.start.kind == "latest" else position.Earliest,
            batch_receive_policy=library.ConsumerBatchReceivePolicy(_MESSAGES, _BYTES, _RECEIVE_MS),
        )

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator, which lists the partitions."""
        return PulsarPartitions(self, parallelism)

    def reader(self, context: ConnectorContext) -> PulsarReader:
        """Make a reader."""
        return PulsarReader(self, context)


@dataclass(frozen=True, slots=True)
class PulsarSplit:
    """A partition; ``after`` is the place of the last message that was read."""

    id: str
    start: StartCursor | None
    stop: StopCursor
    partition: int = -1
    after: Position | None = None


class PulsarPartitions(DiscoveredSplits):
    """Deals out partitions by their names, also those that come later."""

    def __init__(self, source: PulsarSource[Any], parallelism: int) -> None:
        super().__init__(parallelism, None if source.boundedness is Boundedness.BOUNDED else _DISCOVERY_MS)
        self._source = source

    def start(self) -> None:
        """List the partitions, and subscribe, so that their messages are kept."""
        source = self._source
        with source.connection.reached(source.place, SourceNotReadable) as client:
            found = self._listed(client)
            if not found:
                raise SourceNotReadable(
                    f"{source.connection!r} has no topic that matches {source.topic_pattern!r}; correct it."
                )
            splits = [split for partition in found if (split := self._begin(client, partition)) is not None]
        self.add_discovered((found, splits))

    def _begin(self, client: Any, partition: str) -> PulsarSplit | None:
        """Return the split of a partition; ``None`` if it is bounded and has nothing."""
        source = self._source
        consumer = source.subscribe(client, partition)
        stop, start, after = source.stop, source.start if source.seeks else None, None
        try:
            last = consumer.get_last_message_id()
            if stop.kind == "latest":
                if not self._has_messages(client, partition):
                    return None
                stop = StopCursor.after_message_id(last)
        finally:
            consumer.close()
        if start is not None and start.kind == "latest":  # a restart begins at the same place
            start, after = StartCursor.earliest(), _place(last) if last.entry_id() >= 0 else None
        if start is not None and start.kind == "message" and not start.inclusive:
            after = _place(pulsar().MessageId.deserialize(start.message_id))
        return PulsarSplit(partition, start, stop, _partition_of(partition), after)

    def _has_messages(self, client: Any, partition: str) -> bool:
        """Return True if there are messages from the start cursor on."""
        library, start = pulsar(), self._source.start
        if start.kind == "latest":
            return False
        begin = library.MessageId.earliest
        if start.kind == "message":
            begin = library.MessageId.deserialize(start.message_id)
        reader = client.create_reader(partition, begin, start_message_id_inclusive=start.inclusive)
        try:
            if start.kind == "publish time":
                reader.seek(start.millis)
            return bool(reader.has_message_available())
        finally:
            reader.close()

    def discover(self, now: int) -> Any:
        """Return new partitions, read from their beginning: they were made after the job began."""
        client = self._source.connection.connect()
        try:
            new = [partition for partition in self._listed(client) if partition not in self.known]
        except (self._source.connection.errors, SourceNotReadable) as error:
            logger.warning("new partitions cannot be looked for: %s; looking again in 30 s", error)
            return None
        finally:
            client.close()
        begin, stop = StartCursor.earliest(), self._source.stop
        return (new, [PulsarSplit(each, begin, stop, _partition_of(each)) for each in new]) if new else None

    def _listed(self, client: Any) -> list[str]:
        source = self._source
        if source.topic_pattern is not None:
            return source.connection.topics_of(source.topic_pattern)
        return [partition for topic in source.topics for partition in client.get_topic_partitions(topic)]


def _partition_of(name: str) -> int:
    found = re.search(r"-partition-(\d+)$", name)
    return int(found[1]) if found else -1


class PulsarReader(PolledReader):
    """Asks the consumers of its partitions in turn."""

    def __init__(self, source: PulsarSource[Any], context: ConnectorContext) -> None:
        super().__init__(context)
        self._source, self.service, self.place = source, source.connection, source.place
        self._client = source.connection.connect()
        self._feeds: dict[str, Callable[[], Sequence[Any]]] = {}
        #: of the subscription: they acknowledge
        self._consumers: dict[str, Any] = {}
        self._busy: dict[str, int] = {}
        #: by partition, the client's id of the last message that was emitted: it knows the batch, of which a broker acknowledges
        #: all or nothing; and the same by checkpoint
        self._emitted: dict[str, Any] = {}
        self._read: dict[int, dict[str, Any]] = {}
        self._due: dict[str, Any] = {}
        self._acknowledged_at = 0
        self._decoder = MessageDecoder(
            source.deserialization_schema, source.malformed, context.metrics.counter("malformedRecords")
        )

    # ---- in the thread

    def fetch(self, splits: Sequence[PulsarSplit]) -> Sequence[SplitRecords]:
        """Take the messages of each partition; wait a little if none has any."""
        self._acknowledge()
        blocks = [block for split in splits if (block := self._fetch_partition(split)) is not None]
        if not blocks:
            self.fetcher.pause(_IDLE_S)
        return blocks

    def _fetch_partition(self, split: PulsarSplit) -> SplitRecords | None:
        if split.stop.is_reached(split.after):
            return SplitRecords(split.id, (), None)
        receive = self._feeds.get(split.id) or self._open_feed(split)
        if receive is None:
            return None
        messages: list[PulsarMessage] = []
        ended = False
        for each in receive():
            ended = split.stop.is_before(each)
            if ended:
                break
            message_id = each.message_id()
            position = _place(message_id)
            if split.after is None or position > split.after:
                at = each.event_timestamp() or each.publish_timestamp()
                messages.append(PulsarMessage(each.data(), at, position, message_id))
        if not messages:
            return SplitRecords(split.id, (), None) if ended else None
        following = self.advance(split, messages)
        over = ended or following.stop.is_reached(following.after)
        return SplitRecords(split.id, messages, None if over else following, sum(len(each.data) for each in messages))

    def _open_feed(self, split: PulsarSplit) -> Callable[[], Sequence[Any]] | None:
        """Return a receiver of messages, from the place of the split on.

        From a known place the broker's readers read, of which there may be several: one of an attempt that failed is in nobody's
        way. Without one the subscription's consumer reads; ``None`` while the broker still has that of a former attempt.
        """
        library, start = pulsar(), split.start
        if split.after is None and start is None:
            try:
                consumer = self._consumers[split.id] = self._source.subscribe(self._client, split.id)
            except library.ConsumerBusy:
                tries = self._busy[split.id] = self._busy.get(split.id, 0) + 1
                if tries > _BUSY_TRIES or self.fetcher.pause(_BUSY_S):
                    raise
                return None
            receive: Callable[[], Sequence[Any]] = consumer.batch_receive
        else:
            begin = library.MessageId.earliest
            if split.after is not None:
                ledger, entry, batch = split.after
                begin = library.MessageId(split.partition, ledger, entry, batch)
            elif start is not None and start.kind == "message":
                begin = library.MessageId.deserialize(start.message_id)
            reader = self._client.create_reader(
                split.id, begin, receiver_queue_size=_MESSAGES, start_message_id_inclusive=True
            )
            if split.after is None and start is not None and start.kind == "publish time":
                reader.seek(start.millis)
            receive = partial(_receive, reader)
        self._feeds[split.id] = receive
        return receive

    def advance(self, split: PulsarSplit, records: Sequence[PulsarMessage]) -> PulsarSplit:
        """Go on after the last message."""
        return replace(split, after=records[-1].position)

    def disconnect(self) -> None:
        """Acknowledge due messages, and close the client."""
        try:
            self._acknowledge()
        finally:
            self._client.close()

    def _acknowledge(self) -> None:
        """Acknowledge due messages; a failed acknowledgement is repeated with a later checkpoint."""
        due, self._due = self._due, {}
        for partition, message_id in due.items():
            try:
                consumer = self._consumers.get(partition)
                if consumer is None:
                    consumer = self._consumers[partition] = self._source.subscribe(self._client, partition, 1)
                consumer.acknowledge_cumulative(message_id)
            except self._source.connection.errors as error:
                logger.info("%s: not acknowledged (%s); a later checkpoint does it", partition, type(error).__name__)

    # ---- in the task

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return records of one partition; without checkpoints, acknowledge them from time to time."""
        found = super().poll(limit, now)
        if not self.context.checkpointing and now - self._acknowledged_at > _ACKNOWLEDGE_MS:
            self._acknowledged_at = now
            self._due = dict(self._emitted)
        return found

    def batch(self, split: PulsarSplit, records: Sequence[PulsarMessage]) -> Batch:
        """Make records of messages, with their times."""
        self._emitted[split.id] = records[-1].id
        return self._decoder.batch(
            [each.data for each in records], [each.time for each in records], split.id,
            lambda index: f"operator {self.context.operator!r}: {split.id} message {records[index].position}",
        )  # fmt: skip

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the partitions with their places."""
        if self.context.checkpointing:
            self._read[checkpoint_id] = dict(self._emitted)
        return super().snapshot_state(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Acknowledge the messages of the checkpoint."""
        self._due = self._read.pop(checkpoint_id, self._due)
        self._read = {later: ids for later, ids in self._read.items() if later > checkpoint_id}

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Forget the checkpoint."""
        self._read.pop(checkpoint_id, None)


def _receive(reader: Any) -> list[Any]:
    """Return the messages that a reader of the client has."""
    found: list[Any] = []
    try:
        while len(found) < _MESSAGES:
            found.append(reader.read_next(timeout_millis=1 if found else _RECEIVE_MS))
    except pulsar().Timeout:
        pass
    return found


__all__ = [
    "PulsarMessage",
    "PulsarPartitions",
    "PulsarReader",
    "PulsarSource",
    "PulsarSplit",
    "StartCursor",
    "StopCursor",
]
