"""Kinesis: data streams as a source and a sink, Firehose as a sink, and the connections to both.

Connections to Kinesis: the only module of the connector that imports ``boto3``, and what its errors mean.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

from funken import extras
from funken.connectors.base import (
    Batch,
    Boundedness,
    ConnectorContext,
    DiscoveredSplits,
    Service,
    Source,
    SplitEnumerator,
)
from funken.connectors.reading import MalformedRecordPolicy, MessageDecoder, PolledReader, SplitRecords
from funken.connectors.schemas import DeserializationSchema, SerializationSchema, SimpleStringSchema, check_schema
from funken.connectors.sink import Sink, SinkWriter, parts
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SinkNotWritable, SourceNotReadable
from funken.timing.clock import SystemClock
from funken.types.callables import Generic, RECORD_contra, TEXT_co

_TIMEOUT_S = 10
_RETRIES = 5
_REMEDIES = {
    "ResourceNotFoundException": "correct the name of the stream and the region, or create it",
    "AccessDeniedException": "let this user do it",
    "UnrecognizedClientException": "correct the keys",
    "InvalidSignatureException": "correct the keys",
    "ExpiredTokenException": "renew the session token",
    "LimitExceededException": "ask less often, or raise the limit",
}


@dataclass(frozen=True)
class KinesisConnection(Service):
    """The address and credentials of Kinesis: without keys, those of the environment, a profile or the machine's role.

    >>> KinesisConnection("eu-central-1", access_key="AKIA", secret_key="secret")
    KinesisConnection('eu-central-1')
    >>> KinesisConnection("eu-central-1", access_key="AKIA")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: KinesisConnection: access_key and secret_key belong together; give both, or neither.
    """

    region: str
    endpoint_url: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None

    def __post_init__(self) -> None:
        """Keys come in pairs."""
        if not self.region:
            raise InvalidConfiguration("KinesisConnection: there is no region; name one, such as 'eu-central-1'.")
        if (self.access_key is None) != (self.secret_key is None):
            raise InvalidConfiguration(
                "KinesisConnection: access_key and secret_key belong together; give both, or neither."
            )

    def __repr__(self) -> str:
        return f"KinesisConnection({self.region!r}{f', {self.endpoint_url!r}' if self.endpoint_url else ''})"

    def connect(self, service: str = "kinesis") -> Any:
        """Return a client of boto3; it repeats requests that are throttled or not answered."""
        boto3, config = _boto3("boto3"), _boto3("botocore.config")
        session = boto3.Session(
            self.access_key, self.secret_key, self.session_token, self.region, profile_name=self.profile
        )
        options = config.Config(
            retries={"mode": "standard", "total_max_attempts": _RETRIES}, connect_timeout=_TIMEOUT_S,
            read_timeout=6 * _TIMEOUT_S,
        )  # fmt: skip
        return session.client(service, endpoint_url=self.endpoint_url, config=options)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The exceptions of a client."""
        found = _boto3("botocore.exceptions")
        return (found.ClientError, found.BotoCoreError)

    def problem(self, error: Exception) -> str:
        """Return an error as a sentence, with the remedy."""
        code = code_of(error)
        if not code:
            return f"{type(error).__name__}: {error}; correct the region, the endpoint or the credentials."
        message = (getattr(error, "response", None) or {}).get("Error", {}).get("Message", "")
        return f"{code}: {message}; {_REMEDIES.get(code, 'see the message of the service')}."


def code_of(error: Exception) -> str:
    """Return the code of an error of the service, nothing for other errors."""
    response = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def _boto3(module: str) -> Any:
    return extras.required(module, "kinesis", "the Kinesis connectors need boto3")


# ---- Kinesis data streams as a source: each shard is a split, and its position the sequence number of the last
# record.
#
# Records stay in a stream for its retention, so positions in checkpoints are all that exactly-once reading takes.
# ``LATEST`` becomes the time at which the job began: the service has no position for it, and a restart would skip
# the records in between. Shards that a resharding makes are found while the job runs, and read from their
# beginning. A closed shard ends when it is read.


_DISCOVERY_MS = 10_000
_RECORDS = 1000
_IDLE_S, _THROTTLED_S = 0.25, 1.0
_THROTTLED = ("ProvisionedThroughputExceededException", "LimitExceededException")
_STARTS = ("TRIM_HORIZON", "LATEST")


@dataclass(frozen=True)
class KinesisSource(Source[TEXT_co], Generic[TEXT_co]):
    """The records of streams; their event time is the time of their arrival in Kinesis, unless one is assigned.

    ``start`` is ``"TRIM_HORIZON"`` (the oldest records), ``"LATEST"`` (those that come after the job began) or a time in ms. With
    ``bounded`` a shard ends when there is nothing more to read. Records that the KPL has aggregated are not taken apart.

    Raises ``SourceNotReadable``, before anything runs, if a stream is not there or may not be read.

    >>> KinesisSource(KinesisConnection("eu-central-1"), "orders").streams
    ('orders',)
    >>> KinesisSource(KinesisConnection("eu-central-1"), "orders", start="earliest")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: KinesisSource: 'earliest' is no place to start from; pass 'TRIM_HORIZON', 'LATEST' or ...
    """

    connection: KinesisConnection
    streams: Sequence[str]
    deserialization_schema: DeserializationSchema[TEXT_co] = SimpleStringSchema()  # type: ignore[assignment]
    start: str | int = "LATEST"
    bounded: bool = False
    malformed: MalformedRecordPolicy = MalformedRecordPolicy.FAIL

    def __post_init__(self) -> None:
        """Check the arguments as far as possible without the service."""
        names = (self.streams,) if isinstance(self.streams, str) else tuple(self.streams)
        object.__setattr__(self, "streams", names)
        if not names or len(set(names)) < len(names):
            raise InvalidConfiguration(f"KinesisSource: it reads one or more different streams, not {list(names)}.")
        check_schema(self.deserialization_schema, DeserializationSchema, "KinesisSource")
        if not isinstance(self.start, int) and self.start not in _STARTS:
            raise InvalidConfiguration(
                f"KinesisSource: {self.start!r} is no place to start from; pass 'TRIM_HORIZON', 'LATEST' or a time in ms."
            )

    @property
    def boundedness(self) -> Boundedness:  # type: ignore[override]
        """The boundedness of the source."""
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator, which lists the shards."""
        return KinesisShards(self, parallelism)

    def reader(self, context: ConnectorContext) -> KinesisReader:
        """Make a reader."""
        return KinesisReader(self, context)


@dataclass(frozen=True, slots=True)
class KinesisShard:
    """A shard; ``last`` is the number of the last record that was read, ``since`` a time (ms) to begin with if there is none."""

    id: str
    stream: str
    shard: str
    last: str | None = None
    since: int | None = None


class KinesisShards(DiscoveredSplits):
    """Deals out shards by their ids, also those that come later."""

    def __init__(self, source: KinesisSource[Any], parallelism: int) -> None:
        super().__init__(parallelism, None if source.bounded else _DISCOVERY_MS)
        self._source = source

    def start(self) -> None:
        """List the shards; of those that are closed, only records from before the job are there."""
        source = self._source
        since = SystemClock().now() if source.start == "LATEST" else source.start
        found = self._listed()
        splits = [
            replace(shard, since=since) if isinstance(since, int) else shard
            for shard, is_open in found
            if is_open or source.start != "LATEST"
        ]
        self.add_discovered(([shard.id for shard, _ in found], splits))

    def discover(self, now: int) -> Any:
        """Return new shards, read from their beginning: they were made after the job began."""
        new = [shard for shard, _ in self._listed() if shard.id not in self.known]
        return ([shard.id for shard in new], new) if new else None

    def _listed(self) -> list[tuple[KinesisShard, bool]]:
        """Return all shards, each with whether it is open."""
        source, found = self._source, []
        for stream in source.streams:
            place = f"the stream {stream!r} of {source.connection}"
            with source.connection.reached(place, SourceNotReadable) as client:
                for page in client.get_paginator("list_shards").paginate(StreamName=stream):
                    for each in page["Shards"]:
                        shard = KinesisShard(f"{stream}/{each['ShardId']}", stream, each["ShardId"])
                        found.append((shard, "EndingSequenceNumber" not in each["SequenceNumberRange"]))
        return found


class KinesisReader(PolledReader):
    """Asks one shard after the other for records."""

    def __init__(self, source: KinesisSource[Any], context: ConnectorContext) -> None:
        super().__init__(context)
        self._source, self.service = source, source.connection
        self.place = f"{', '.join(source.streams)} of {source.connection}"
        self._client = source.connection.connect()
        #: by shard, the iterator for the records after the number that stands beside it
        self._iterators: dict[str, tuple[str | None, str]] = {}
        self._decoder = MessageDecoder(
            source.deserialization_schema, source.malformed, context.metrics.counter("malformedRecords"),
            self.data,
        )  # fmt: skip

    def fetch(self, splits: Sequence[KinesisShard]) -> Sequence[SplitRecords]:
        """Ask each shard once; wait a little if none has anything."""
        blocks = [block for split in splits if (block := self._fetch_shard(split)) is not None]
        if not any(block.records for block in blocks):
            self.fetcher.pause(_IDLE_S)
        return blocks

    def _fetch_shard(self, split: KinesisShard) -> SplitRecords | None:
        try:
            answer = self._client.get_records(ShardIterator=self._iterator(split), Limit=_RECORDS)
        except self._source.connection.errors as error:
            if code_of(error) == "ExpiredIteratorException":
                self._iterators.pop(split.id, None)
                return None
            if code_of(error) in _THROTTLED:
                self.fetcher.pause(_THROTTLED_S)
                return None
            raise
        records, after = answer["Records"], answer.get("NextShardIterator")
        following: KinesisShard | None = self.advance(split, records) if records else split
        if after is None or (self._source.bounded and not records and not answer.get("MillisBehindLatest")):
            following = None
            self._iterators.pop(split.id, None)
        else:
            assert following is not None
            self._iterators[split.id] = following.last, after
        if not records and following is not None:
            return None
        return SplitRecords(split.id, records, following, sum(len(each["Data"]) for each in records))

    def _iterator(self, split: KinesisShard) -> str:
        known = self._iterators.get(split.id)
        if known is not None and known[0] == split.last:
            return known[1]
        if split.last is not None:
            place: dict[str, Any] = {
                "ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": split.last
            }  # fmt: skip
        elif split.since is not None:
            place = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": split.since / 1000}
        else:
            place = {"ShardIteratorType": "TRIM_HORIZON"}
        answer = self._client.get_shard_iterator(StreamName=split.stream, ShardId=split.shard, **place)
        return str(answer["ShardIterator"])

    def advance(self, split: KinesisShard, records: Sequence[Any]) -> KinesisShard:
        """Go on after the last record."""
        return replace(split, last=records[-1]["SequenceNumber"])

    def batch(self, split: KinesisShard, records: Sequence[Any]) -> Batch:
        """Make records of messages, with the times of their arrival."""
        times = [int(each["ApproximateArrivalTimestamp"].timestamp() * 1000) for each in records]
        operator = self.context.operator
        return self._decoder.batch(
            [self.payload(split, each) for each in records], times, split.id,
            lambda index: f"operator {operator!r}: shard {split.id} number {records[index]['SequenceNumber']}",
        )  # fmt: skip

    def payload(self, split: KinesisShard, record: Any) -> Any:
        """Return the part of a record that the schema reads."""
        return record["Data"]

    def data(self, message: Any) -> bytes:
        """Return the bytes of a message, for errors."""
        return bytes(message)

    def disconnect(self) -> None:
        """Close the client."""
        self._client.close()


# ---- Kinesis data streams and Firehose as sinks: at least once.
#
# The records of a block are sent before ``write`` returns, so a checkpoint covers only what the service has. After
# a failure they are sent again. Records that the service throttles are sent again alone, so records of one key may
# change their order then.


_MOST_SENT, _BYTES, _RECORD_BYTES = 500, 4 * 2**20, 2**20
_SEND_RETRIES, _FIRST_PAUSE_S, _LONGEST_PAUSE_S = 10, 0.1, 5.0
_AGAIN = ("ProvisionedThroughputExceededException", "InternalFailure", "ServiceUnavailableException")


def random_key(record: object) -> str:
    """Return a key that spreads records over all shards."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class KinesisSink(Sink[RECORD_contra], Generic[RECORD_contra]):
    """Writes records to a stream; ``partition_key(record)`` decides their shard, by default a random one.

    A request has up to ``max_records`` records. A record that the service refuses fails the job with ``SinkNotWritable``; those
    that it throttles are sent again.

    >>> sink = KinesisSink(KinesisConnection("eu-central-1"), "totals", partition_key=lambda total: total["item"])
    >>> sink.entry({"item": "tea"}, b"7")
    {'Data': b'7', 'PartitionKey': 'tea'}
    >>> KinesisSink(KinesisConnection("eu-central-1"), "totals", max_records=1000)
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: KinesisSink: a request has 1 to 500 records, and not 1000.
    """

    connection: KinesisConnection
    stream: str
    serialization_schema: SerializationSchema[RECORD_contra] = SimpleStringSchema()
    partition_key: Callable[[RECORD_contra], str] = random_key
    max_records: int = _MOST_SENT

    def __post_init__(self) -> None:
        """Check the arguments as far as possible without the service."""
        name = type(self).__name__
        check_schema(self.serialization_schema, SerializationSchema, name)
        if not self.stream:
            raise InvalidConfiguration(f"{name}: it needs the name of a stream.")
        if not 1 <= self.max_records <= _MOST_SENT:
            raise InvalidConfiguration(f"{name}: a request has 1 to {_MOST_SENT} records, and not {self.max_records}.")

    service = "kinesis"

    def entry(self, record: Any, data: bytes) -> dict[str, Any]:
        """Return a record as the service wants it."""
        return {"Data": data, "PartitionKey": str(self.partition_key(record))}

    def describe(self, client: Any) -> None:
        """Ask the service about the stream."""
        client.describe_stream_summary(StreamName=self.stream)

    def send(self, client: Any, entries: list[dict[str, Any]]) -> Sequence[Any]:
        """Send entries; return a result for each."""
        return list(client.put_records(StreamName=self.stream, Records=entries)["Records"])

    def check(self) -> None:
        """Find out whether the stream is there."""
        place = f"the stream {self.stream!r} of {self.connection}"
        with self.connection.reached(place, SinkNotWritable, service=self.service) as client:
            self.describe(client)

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        return KinesisWriter(self, context)


@dataclass(frozen=True)
class FirehoseSink(KinesisSink[RECORD_contra], Generic[RECORD_contra]):
    """Writes records to a delivery stream of Firehose, which carries them to S3, OpenSearch and other places.

    >>> FirehoseSink(KinesisConnection("eu-central-1"), "to-s3").entry("tea", b"tea")
    {'Data': b'tea'}
    """

    service = "firehose"

    def entry(self, record: Any, data: bytes) -> dict[str, Any]:
        """Return a record as the service wants it."""
        return {"Data": data}

    def describe(self, client: Any) -> None:
        """Ask the service about the delivery stream."""
        client.describe_delivery_stream(DeliveryStreamName=self.stream)

    def send(self, client: Any, entries: list[dict[str, Any]]) -> Sequence[Any]:
        """Send entries; return a result for each."""
        answer = client.put_record_batch(DeliveryStreamName=self.stream, Records=entries)
        return list(answer["RequestResponses"])


class KinesisWriter(SinkWriter):
    """Sends blocks as they come."""

    def __init__(self, sink: KinesisSink[Any], context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._client = sink.connection.connect(sink.service)

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Send a block."""
        messages = self._sink.serialization_schema.serialize_block(values)
        entries = [self._sink.entry(value, data) for value, data in zip(values, messages, strict=True)]
        for part in parts(entries, self._sink.max_records, _BYTES, self._length):
            self._send(part)
        self.count_sent(len(values), sum(map(len, messages)))

    def _length(self, entry: dict[str, Any]) -> int:
        length = len(entry["Data"]) + len(entry.get("PartitionKey", ""))
        if length > _RECORD_BYTES:
            raise self.failure(
                f"a record of {length} bytes is larger than {_RECORD_BYTES}, which the stream {self._sink.stream!r} takes; "
                "make it smaller in a map() before."
            )
        return length

    def _send(self, entries: list[dict[str, Any]]) -> None:
        pause = _FIRST_PAUSE_S
        for _ in range(_SEND_RETRIES):
            with self._sink.connection.explained(f"the stream {self._sink.stream!r} cannot be written", self.failure):
                results = self._sink.send(self._client, entries)
            refused = [result for result in results if result.get("ErrorCode") not in (None, *_AGAIN)]
            if refused:
                self.count_errors(len(refused))
                raise self.failure(
                    f"the stream {self._sink.stream!r} refuses {len(refused)} record(s): {refused[0]['ErrorCode']}: "
                    f"{refused[0].get('ErrorMessage')}; correct them in a map() before."
                )
            entries = [entry for entry, result in zip(entries, results, strict=True) if result.get("ErrorCode")]
            if not entries:
                return
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        raise self.failure(
            f"the stream {self._sink.stream!r} has throttled {len(entries)} record(s) {_SEND_RETRIES} times; give it more shards."
        )

    def close(self) -> None:
        """Close the client."""
        self._client.close()


__all__ = [
    "FirehoseSink",
    "KinesisConnection",
    "KinesisReader",
    "KinesisShard",
    "KinesisShards",
    "KinesisSink",
    "KinesisSource",
    "MalformedRecordPolicy",
    "code_of",
    "random_key",
]
