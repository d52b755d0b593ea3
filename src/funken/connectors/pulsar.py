"""Pulsar: topics as a source and a sink, and how a cluster is reached.

It is the only module that imports ``pulsar``. A ``PulsarConnection`` travels to the tasks; a token or password in it is in no
``repr`` and in no error.
"""

from __future__ import annotations

import enum
import importlib
import json
import logging
import re
import urllib.error
import urllib.request
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple

from funken.connectors.base import Batch, Boundedness, ConnectorContext, NeedSplits, Source, SplitEnumerator, Wait
from funken.connectors.base import CommitterContext as _CommitterContext
from funken.connectors.reading import MalformedRecordPolicy, MessageDecoder, PolledReader, SplitRecords
from funken.connectors.schemas import DeserializationSchema, SerializationSchema, SimpleStringSchema, check_schema
from funken.connectors.sink import CommitRequest, Committer, DeliveryGuarantee, Sink, SinkWriter, StagedWriter
from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady, InvalidConfiguration, SinkNotWritable, SourceNotReadable

logger = logging.getLogger(__name__)

_TIMEOUT_S = 15
_REMEDIES = {
    "ConnectError": "start a broker, or correct the service URL",
    "Timeout": "start a broker, or correct the service URL",
    "LookupError": "start a broker, or correct the service URL",
    "InvalidUrl": "correct the service URL",
    "AuthenticationError": "correct the token or the password",
    "AuthorizationError": "let this role produce and consume on the topic",
    "TopicNotFound": "create the topic, or correct its name",
    "InvalidTopicName": "correct the name of the topic",
    "ConsumerBusy": "another consumer has this subscription; give each job its own",
    "MessageTooBig": "make the record smaller in a map() before, or raise maxMessageSize of the brokers",
    "ProducerBlockedQuotaExceededException": "let consumers of the topic catch up, or raise its backlog quota",
}
_AUTHENTICATION = "org.apache.pulsar.client.impl.auth."


def pulsar(module: str = "pulsar") -> Any:
    """Return a module of the client; raises ``EnvironmentNotReady`` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EnvironmentNotReady(
            f"the Pulsar connectors need pulsar-client ({error}); install it with: pip install 'funken[pulsar]'."
        ) from error


@dataclass(frozen=True)
class PulsarConnection:
    """A cluster by its URL, ``pulsar://host:6650`` or ``pulsar+ssl://host:6651``, and who connects to it.

    ``admin_url`` (``http://host:8080``) is asked for the topics of a pattern only. ``authentication`` has the name of a plugin as
    Pulsar calls it (``token``, ``tls``, ``basic``, ``oauth2``, or a class of Java's client), ``parameters`` what it takes.

    >>> PulsarConnection("pulsar://broker.example:6650", authentication="token", parameters="secret")
    PulsarConnection('pulsar://broker.example:6650')
    >>> PulsarConnection("broker.example:6650")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: PulsarConnection: 'broker.example:6650' is no service URL; write 'pulsar://host:6650'.
    """

    service_url: str
    admin_url: str | None = None
    authentication: str | None = None
    parameters: str = field(default="", repr=False)
    tls_trust_certs: str | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without the cluster."""
        if not re.match(r"(pulsar|pulsar\+ssl|http|https)://\S", self.service_url):
            raise InvalidConfiguration(
                f"PulsarConnection: {self.service_url!r} is no service URL; write 'pulsar://host:6650'."
            )
        if self.plugin not in ("", "token", "tls", "basic", "oauth2"):
            raise InvalidConfiguration(
                f"PulsarConnection: there is no authentication {self.authentication!r}; pass 'token', 'tls', 'basic' or 'oauth2'."
            )

    def __repr__(self) -> str:
        return f"PulsarConnection({self.service_url!r})"

    @property
    def plugin(self) -> str:
        """The short name of the authentication; empty if there is none."""
        name = (self.authentication or "").removeprefix(_AUTHENTICATION)
        return name.removeprefix("oauth2.").removeprefix("Authentication").lower()

    def _authentication(self, client: Any) -> Any:
        given = self.parameters
        pairs = dict(part.split(":", 1) for part in given.split(",") if ":" in part)
        if self.plugin == "token":
            return client.AuthenticationToken(given.removeprefix("token:"))
        if self.plugin == "tls":
            return client.AuthenticationTLS(pairs["tlsCertFile"], pairs["tlsKeyFile"])
        if self.plugin == "basic":
            pairs = (
                json.loads(given)
                if given.startswith("{")
                else {"userId": given.partition(":")[0], "password": given.partition(":")[2]}
            )
            return client.AuthenticationBasic(pairs["userId"], pairs["password"])
        return client.AuthenticationOauth2(given) if self.plugin else None

    def connect(self) -> Any:
        """Return a client; it connects when it is used."""
        client = pulsar()
        try:
            return client.Client(
                self.service_url,
                authentication=self._authentication(client),
                operation_timeout_seconds=_TIMEOUT_S,
                tls_trust_certs_file_path=self.tls_trust_certs,
                logger=client.ConsoleLogger(client.LoggerLevel.Error),
            )
        except (KeyError, ValueError) as error:
            raise InvalidConfiguration(
                f"{self!r}: the parameters of authentication {self.plugin!r} (they are not shown) cannot be read: "
                f"{type(error).__name__}; correct them."
            ) from None

    @property
    def errors(self) -> Any:
        """What a client raises."""
        return pulsar().PulsarException

    def problem(self, error: Exception) -> str:
        """Return an error of the client as a sentence, with what to do."""
        name = type(error).__name__
        return f"{self!r} answers {name}; {_REMEDIES.get(name, 'see the log of the broker')}."

    def topics_of(self, pattern: str) -> list[str]:
        """Ask the REST API for the topics that match a pattern, partitioned ones by their partitions."""
        bare = pattern.removeprefix("persistent://")
        tenant, namespace, local = bare.split("/", 2) if bare.count("/") >= 2 else ("public", "default", bare)
        if self.admin_url is None:
            raise SourceNotReadable(
                f"{self!r}: the topics of a pattern need the address of the REST API; pass admin_url."
            )
        address = f"{self.admin_url.rstrip('/')}/admin/v2/persistent/{tenant}/{namespace}"
        headers = (
            {"Authorization": f"Bearer {self.parameters.removeprefix('token:')}"} if self.plugin == "token" else {}
        )
        try:
            with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=_TIMEOUT_S) as answer:
                found = json.loads(answer.read())
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise SourceNotReadable(
                f"the topics of {address} cannot be listed: {error}; correct admin_url, or the namespace."
            ) from None
        start = f"persistent://{tenant}/{namespace}/"
        whole = re.compile(local)
        return sorted(
            topic for topic in found
            if topic.startswith(start) and whole.fullmatch(re.sub(r"-partition-\d+$", "", topic[len(start) :]))
        )  # fmt: skip


# ---- Topics as a source: each partition is a split, and its position the id of the last message.
#
# Each partition has an exclusive consumer of a durable subscription, which keeps messages until they are acknowledged. A reader
# goes on after the position of the checkpoint, whatever was acknowledged. Messages that the broker delivers again are left out
# by their ids. Messages are acknowledged when a checkpoint that has them is complete.


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
    """Where a job without a checkpoint begins.

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
    """Where a partition ends: before the first message that is at or after a place.

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
        """Whether a partition ends before a message of the client."""
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
        """Whether nothing is left to read after a position."""
        if self.kind != "message" or not self.inclusive or position is None:
            return False
        return position >= _place(pulsar().MessageId.deserialize(self.message_id))


def _id_bytes(message_id: Any) -> bytes:
    found = message_id if isinstance(message_id, bytes) else message_id.serialize()
    return bytes(found)


def _place(message_id: Any) -> Position:
    return message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()


@dataclass(frozen=True)
class PulsarSource(Source[Any]):
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
    deserialization_schema: DeserializationSchema = SimpleStringSchema()
    start: StartCursor = StartCursor("earliest")
    stop: StopCursor = StopCursor("never")
    topic_pattern: str | None = None
    reset_subscription: bool = False
    consumer_name: str | None = None
    bounded: bool | None = None
    malformed: MalformedRecordPolicy = MalformedRecordPolicy.FAIL

    def __post_init__(self) -> None:
        """Check what can be checked without the cluster."""
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
        """Whether it ends."""
        ends = self.stop.kind != "never" if self.bounded is None else self.bounded
        return Boundedness.BOUNDED if ends else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def seeks(self) -> bool:
        """Whether a job without a checkpoint begins at the start cursor, wherever the subscription is."""
        moves = self.start.kind in ("message", "publish time")
        return moves or self.reset_subscription or self.boundedness is Boundedness.BOUNDED

    def subscribe(self, client: Any, partition: str) -> Any:
        """Return the consumer of a partition; it makes the subscription."""
        library = pulsar()
        position = library.InitialPosition
        return client.subscribe(
            partition,
            self.subscription,
            consumer_type=library.ConsumerType.Exclusive,
            consumer_name=self.consumer_name,
            initial_position=position.Latest if self.start.kind == "latest" else position.Earliest,
            start_message_id_inclusive=True,
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


class PulsarPartitions(SplitEnumerator):
    """Deals out partitions by their names, also those that come later."""

    def __init__(self, source: PulsarSource, parallelism: int) -> None:
        self._source, self._parallelism = source, parallelism
        self._seen: set[str] = set()
        self._waiting: list[PulsarSplit] = []
        self.discovery_interval = None if source.boundedness is Boundedness.BOUNDED else _DISCOVERY_MS

    def start(self) -> None:
        """List the partitions, and subscribe, so that their messages are kept."""
        source = self._source
        client = source.connection.connect()
        try:
            found = self._listed(client)
            if not found:
                raise SourceNotReadable(
                    f"{source.connection!r} has no topic that matches {source.topic_pattern!r}; correct it."
                )
            for partition in found:
                split = self._begin(client, partition)
                if split is not None:
                    self._waiting.append(split)
        except source.connection.errors as error:
            names = ", ".join(source.topics) or source.topic_pattern
            raise SourceNotReadable(f"the topic {names} cannot be read: {source.connection.problem(error)}") from error
        finally:
            client.close()
        self._seen = set(found)

    def _begin(self, client: Any, partition: str) -> PulsarSplit | None:
        """Return the split of a partition; ``None`` if it is bounded and has nothing."""
        source = self._source
        consumer = source.subscribe(client, partition)
        stop, start = source.stop, source.start if source.seeks else None
        try:
            if stop.kind == "latest":
                if not self._has_messages(client, partition):
                    return None
                stop = StopCursor.after_message_id(consumer.get_last_message_id())
        finally:
            consumer.close()
        after = None
        if start is not None and start.kind == "message" and not start.inclusive:
            after = _place(pulsar().MessageId.deserialize(start.message_id))
        return PulsarSplit(partition, start, stop, _partition_of(partition), after)

    def _has_messages(self, client: Any, partition: str) -> bool:
        """Whether there are messages from the start cursor on."""
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

    def discover(self, now: int) -> list[str] | None:
        """Return the partitions that are new."""
        client = self._source.connection.connect()
        try:
            return [partition for partition in self._listed(client) if partition not in self._seen] or None
        except (self._source.connection.errors, SourceNotReadable) as error:
            logger.warning("new partitions cannot be looked for: %s; looking again in 30 s", error)
            return None
        finally:
            client.close()

    def add_discovered(self, found: list[str]) -> bool:
        """Read new partitions from their beginning: they were made after the job began."""
        new = [partition for partition in found if partition not in self._seen]
        self._seen |= set(new)
        self._waiting += [
            PulsarSplit(partition, StartCursor.earliest(), self._source.stop, _partition_of(partition))
            for partition in new
        ]
        return bool(new)

    def next_splits(self, subtask: int) -> list[Any] | None:
        """Return the subtask's partitions."""
        mine = [split for split in self._waiting if zlib.crc32(split.id.encode()) % self._parallelism == subtask]
        self._waiting = [split for split in self._waiting if split not in mine]
        return mine or (None if self.discovery_interval is None else [])

    def snapshot(self) -> Any:
        """Return the partitions that are known, and those not handed out."""
        return sorted(self._seen), list(self._waiting)

    def restore(self, snapshot: Any) -> None:
        """Go on with these."""
        seen, waiting = snapshot
        self._seen, self._waiting = set(seen), list(waiting)

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

    def __init__(self, source: PulsarSource, context: ConnectorContext) -> None:
        super().__init__(context)
        self._source = source
        self._client = source.connection.connect()
        self._consumers: dict[str, Any] = {}
        self._busy: dict[str, int] = {}
        #: by partition, the client's id of the last message that was emitted: it knows the batch, of which a broker acknowledges
        #: all or nothing; and the same by checkpoint
        self._emitted: dict[str, Any] = {}
        self._read: dict[int, dict[str, Any]] = {}
        self._acknowledged_at = 0
        self._decoder = MessageDecoder(
            source.deserialization_schema, source.malformed, context.metrics.counter("malformedRecords")
        )

    # ---- in the thread

    def fetch(self, splits: Sequence[PulsarSplit]) -> Sequence[SplitRecords]:
        """Take what each consumer has; wait a little if none has anything."""
        blocks = [block for split in splits if (block := self._fetch_partition(split)) is not None]
        if not blocks:
            self.fetcher.pause(_IDLE_S)
        return blocks

    def _fetch_partition(self, split: PulsarSplit) -> SplitRecords | None:
        if split.stop.is_reached(split.after):
            return SplitRecords(split.id, (), None)
        consumer = self._consumers.get(split.id) or self._subscribe(split)
        if consumer is None:
            return None
        try:
            received = consumer.batch_receive()
        except pulsar().Timeout:
            return None
        messages: list[PulsarMessage] = []
        ended = False
        for each in received:
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

    def _subscribe(self, split: PulsarSplit) -> Any:
        """Return the consumer, at its place; ``None`` while the broker still has the one of a former attempt."""
        library = pulsar()
        try:
            consumer = self._source.subscribe(self._client, split.id)
        except library.ConsumerBusy:
            tries = self._busy[split.id] = self._busy.get(split.id, 0) + 1
            if tries > _BUSY_TRIES or self.fetcher.pause(_BUSY_S):
                raise
            return None
        start = split.start
        if split.after is not None:
            ledger, entry, batch = split.after
            consumer.seek(library.MessageId(split.partition, ledger, entry, batch))
        elif start is not None and start.kind == "publish time":
            consumer.seek(start.millis)
        elif start is not None and start.kind == "message":
            consumer.seek(library.MessageId.deserialize(start.message_id))
        elif start is not None:
            consumer.seek(library.MessageId.latest if start.kind == "latest" else library.MessageId.earliest)
        self._consumers[split.id] = consumer
        return consumer

    def advance(self, split: PulsarSplit, records: Sequence[PulsarMessage]) -> PulsarSplit:
        """Go on after the last message."""
        return replace(split, after=records[-1].position)

    def explain(self, error: Exception) -> Exception:
        """Say what the errors of the client mean."""
        if isinstance(error, self._source.connection.errors):
            names = ", ".join(self._source.topics) or self._source.topic_pattern
            return self.failure(f"the topic {names} cannot be read: {self._source.connection.problem(error)}")
        return super().explain(error)

    def disconnect(self) -> None:
        """Close the client, and with it the consumers."""
        self._client.close()

    # ---- in the task

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return records of one partition; without checkpoints, acknowledge them from time to time."""
        found = super().poll(limit, now)
        if not self.context.checkpointing and now - self._acknowledged_at > _ACKNOWLEDGE_MS:
            self._acknowledged_at = now
            self._acknowledge(self._emitted)
        return found

    def batch(self, split: PulsarSplit, records: Sequence[PulsarMessage]) -> Batch:
        """Make records of messages, with their times."""
        self._emitted[split.id] = records[-1].id
        times = [each.time for each in records]
        values, positions = self._decoder.decode(
            [each.data for each in records],
            lambda index: f"operator {self.context.operator!r}: {split.id} message {records[index].position}",
        )
        return Batch(values, times if positions is None else [times[index] for index in positions], split.id)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the partitions with their places."""
        if self.context.checkpointing:
            self._read[checkpoint_id] = dict(self._emitted)
        return super().snapshot_state(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Acknowledge what the checkpoint has."""
        self._acknowledge(self._read.pop(checkpoint_id, {}))
        self._read = {later: ids for later, ids in self._read.items() if later > checkpoint_id}

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Forget the checkpoint."""
        self._read.pop(checkpoint_id, None)

    def _acknowledge(self, ids: Mapping[str, Any]) -> None:
        for partition, message_id in ids.items():
            consumer = self._consumers.get(partition)
            if consumer is not None:
                try:
                    consumer.acknowledge_cumulative(message_id)
                except self._source.connection.errors as error:
                    logger.info("%s: not acknowledged (%s); a later checkpoint does it", partition, error)


# ---- Topics as a sink.
#
# At least once: messages are sent as they come, and at the checkpoint the writer waits for the broker to have all of them.
#
# Exactly once: the client of Python has no transactions, so messages travel in the checkpoint to the driver, which publishes
# them. Each attempt of a writer has a producer name of its own and numbers its messages. A commit that is repeated sends the same
# numbers under the same name, and the broker, which must have deduplication enabled, takes each number once.


class TopicRoutingMode(enum.Enum):
    """How the partition of a message is chosen."""

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
class PulsarSink(Sink):
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
    serialization_schema: SerializationSchema = SimpleStringSchema()
    guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE
    key: Callable[[Any], str] | None = None
    routing: TopicRoutingMode = TopicRoutingMode.ROUND_ROBIN
    router: Callable[[Any, Sequence[str]], str] | None = None
    producer_name: str = "funken"
    delay: int = 0

    def __post_init__(self) -> None:
        """Check what can be checked without the cluster."""
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
        client = self.connection.connect()
        try:
            for topic in self.topics:
                client.create_producer(client.get_topic_partitions(topic)[0]).close()
        except self.connection.errors as error:
            raise SinkNotWritable(
                f"the topic {', '.join(self.topics)} cannot be written: {self.connection.problem(error)}"
            ) from error
        finally:
            client.close()

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        exactly = self.guarantee is DeliveryGuarantee.EXACTLY_ONCE
        return _StagingWriter(self, context) if exactly else PulsarWriter(self, context)

    def committer(self, context: _CommitterContext) -> Committer | None:
        """Make the committer of exactly once."""
        return PulsarCommitter(self, context) if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE else None


class _Router:
    """Makes messages of records, each with its partition."""

    def __init__(self, sink: PulsarSink, client: Any, now: Callable[[], int]) -> None:
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

    def __init__(self, sink: PulsarSink, context: ConnectorContext) -> None:
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
        remedy = _REMEDIES.get(name, "see the log of the broker")
        return self.failure(
            f"the topic {', '.join(self._sink.topics)} cannot be written: {self._sink.connection!r} answers {name}; {remedy}."
        )

    def close(self) -> None:
        """Close the client, and with it the producers."""
        self._client.close()


class _StagingWriter(StagedWriter):
    """Keeps messages until the checkpoint."""

    def __init__(self, sink: PulsarSink, context: ConnectorContext) -> None:
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
    """Publishes what writers prepared; the broker drops what was published before."""

    def __init__(self, sink: PulsarSink, context: _CommitterContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._client = sink.connection.connect()
        self._producers: dict[str, _Producers] = {}
        self._checked: set[str] = set()

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Publish; the broker takes the numbers of a producer in their order."""
        try:
            for request in sorted(requests, key=lambda each: each.committable[:2]):
                if not self._publish(_Publication(*request.committable)):
                    request.already_committed()
        except self._sink.connection.errors as error:
            raise self.failure(
                f"the topic {', '.join(self._sink.topics)} cannot be written: {self._sink.connection.problem(error)}"
            ) from error

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
                f"{self._sink.connection!r} answers {problem}; {_REMEDIES.get(problem, 'see the log of the broker')}."
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


__all__ = [
    "MalformedRecordPolicy",
    "PulsarCommitter",
    "PulsarConnection",
    "PulsarMessage",
    "PulsarPartitions",
    "PulsarReader",
    "PulsarSink",
    "PulsarSource",
    "PulsarSplit",
    "PulsarWriter",
    "StartCursor",
    "StopCursor",
    "TopicRoutingMode",
]
