"""Kinesis data streams and Firehose as sinks: at least once.

The records of a block are sent before ``write`` returns, so a checkpoint covers only what the service has. After a failure they
are sent again. Records that the service throttles are sent again alone, so records of one key may change their order then.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from funken.connectors.context import ConnectorContext
from funken.connectors.kinesis.client import KinesisConnection, problem
from funken.connectors.schemas import SerializationSchema, SimpleStringSchema, check_schema
from funken.connectors.sink import Sink, SinkWriter
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SinkNotWritable

_RECORDS, _BYTES, _RECORD_BYTES = 500, 4 * 2**20, 2**20
_RETRIES, _FIRST_PAUSE_S, _LONGEST_PAUSE_S = 10, 0.1, 5.0
_AGAIN = ("ProvisionedThroughputExceededException", "InternalFailure", "ServiceUnavailableException")


def random_key(record: Any) -> str:
    """Return a key that spreads records over all shards."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class KinesisSink(Sink):
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
    serialization_schema: SerializationSchema = SimpleStringSchema()
    partition_key: Callable[[Any], str] = random_key
    max_records: int = _RECORDS

    def __post_init__(self) -> None:
        """Check what can be checked without the service."""
        name = type(self).__name__
        check_schema(self.serialization_schema, SerializationSchema, name)
        if not self.stream:
            raise InvalidConfiguration(f"{name}: it needs the name of a stream.")
        if not 1 <= self.max_records <= _RECORDS:
            raise InvalidConfiguration(f"{name}: a request has 1 to {_RECORDS} records, and not {self.max_records}.")

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
        client = self.connection.connect(self.service)
        try:
            self.describe(client)
        except self.connection.errors as error:
            raise SinkNotWritable(
                f"the stream {self.stream!r} of {self.connection} cannot be written: {problem(error)}"
            ) from error
        finally:
            client.close()

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        return KinesisWriter(self, context)


@dataclass(frozen=True)
class FirehoseSink(KinesisSink):
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

    def __init__(self, sink: KinesisSink, context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._client = sink.connection.connect(sink.service)

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Send a block."""
        messages = self._sink.serialization_schema.serialize_block(values)
        entries = [self._sink.entry(value, data) for value, data in zip(values, messages, strict=True)]
        for part in self._parts(entries):
            self._send(part)
        self.count_sent(len(values), sum(map(len, messages)))

    def _parts(self, entries: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
        part: list[dict[str, Any]] = []
        size = 0
        for entry in entries:
            length = len(entry["Data"]) + len(entry.get("PartitionKey", ""))
            if length > _RECORD_BYTES:
                raise self.failure(
                    f"a record of {length} bytes is larger than {_RECORD_BYTES}, which the stream {self._sink.stream!r} takes; "
                    "make it smaller in a map() before."
                )
            if part and (len(part) >= self._sink.max_records or size + length > _BYTES):
                yield part
                part, size = [], 0
            part.append(entry)
            size += length
        if part:
            yield part

    def _send(self, entries: list[dict[str, Any]]) -> None:
        pause = _FIRST_PAUSE_S
        for _ in range(_RETRIES):
            try:
                results = self._sink.send(self._client, entries)
            except self._sink.connection.errors as error:
                raise self.failure(f"the stream {self._sink.stream!r} cannot be written: {problem(error)}") from error
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
            f"the stream {self._sink.stream!r} has throttled {len(entries)} record(s) {_RETRIES} times; give it more shards."
        )

    def close(self) -> None:
        """Close the client."""
        self._client.close()


__all__ = ["FirehoseSink", "KinesisSink", "random_key"]
