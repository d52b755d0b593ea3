"""Kinesis data streams as a source: each shard is a split, and its position the sequence number of the last record.

Records stay in a stream for its retention, so positions in checkpoints are all that exactly-once reading takes. ``LATEST``
becomes the time at which the job began: the service has no position for it, and a restart would skip the records in between.
Shards that a resharding makes are found while the job runs, and read from their beginning. A closed shard ends when it is read.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from funken.connectors.base import Batch, Boundedness, Source, SplitEnumerator
from funken.connectors.context import ConnectorContext
from funken.connectors.kinesis.client import KinesisConnection, code_of, problem
from funken.connectors.reading.decoding import MalformedRecordPolicy, MessageDecoder
from funken.connectors.reading.polled_reader import PolledReader, SplitRecords
from funken.connectors.schemas import DeserializationSchema, SimpleStringSchema, check_schema
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SourceNotReadable
from funken.timing.clock import SystemClock

_DISCOVERY_MS = 10_000
_RECORDS = 1000
_IDLE_S, _THROTTLED_S = 0.25, 1.0
_THROTTLED = ("ProvisionedThroughputExceededException", "LimitExceededException")
_STARTS = ("TRIM_HORIZON", "LATEST")


@dataclass(frozen=True)
class KinesisSource(Source[Any]):
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
    deserialization_schema: DeserializationSchema = SimpleStringSchema()
    start: str | int = "LATEST"
    bounded: bool = False
    malformed: MalformedRecordPolicy = MalformedRecordPolicy.FAIL

    def __post_init__(self) -> None:
        """Check what can be checked without the service."""
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
        """Whether it ends."""
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


class KinesisShards(SplitEnumerator):
    """Deals out shards by their ids, also those that come later."""

    def __init__(self, source: KinesisSource, parallelism: int) -> None:
        self._source, self._parallelism = source, parallelism
        self._seen: set[str] = set()
        self._waiting: list[KinesisShard] = []
        self.discovery_interval = None if source.bounded else _DISCOVERY_MS

    def start(self) -> None:
        """List the shards; of those that are closed, only records from before the job are there."""
        source = self._source
        since = SystemClock().now() if source.start == "LATEST" else source.start
        found = self._listed()
        self._seen = {shard.id for shard, _ in found}
        self._waiting = [
            replace(shard, since=since) if isinstance(since, int) else shard
            for shard, is_open in found
            if is_open or source.start != "LATEST"
        ]

    def discover(self, now: int) -> list[KinesisShard] | None:
        """Return the shards that are new."""
        return [shard for shard, _ in self._listed() if shard.id not in self._seen] or None

    def add_discovered(self, found: list[KinesisShard]) -> bool:
        """Read new shards from their beginning: they were made after the job began."""
        new = [shard for shard in found if shard.id not in self._seen]
        self._seen |= {shard.id for shard in new}
        self._waiting += new
        return bool(new)

    def next_splits(self, subtask: int) -> list[Any] | None:
        """Return the subtask's shards."""
        mine = [shard for shard in self._waiting if zlib.crc32(shard.id.encode()) % self._parallelism == subtask]
        self._waiting = [shard for shard in self._waiting if shard not in mine]
        return mine or (None if self._source.bounded else [])

    def snapshot(self) -> Any:
        """Return the shards that are known, and those not handed out."""
        return sorted(self._seen), list(self._waiting)

    def restore(self, snapshot: Any) -> None:
        """Go on with these."""
        seen, waiting = snapshot
        self._seen, self._waiting = set(seen), list(waiting)

    def _listed(self) -> list[tuple[KinesisShard, bool]]:
        """Return all shards, each with whether it is open."""
        source, found = self._source, []
        client = source.connection.connect()
        try:
            for stream in source.streams:
                for page in client.get_paginator("list_shards").paginate(StreamName=stream):
                    for each in page["Shards"]:
                        shard = KinesisShard(f"{stream}/{each['ShardId']}", stream, each["ShardId"])
                        found.append((shard, "EndingSequenceNumber" not in each["SequenceNumberRange"]))
        except source.connection.errors as error:
            raise SourceNotReadable(
                f"the stream {stream!r} of {source.connection} cannot be read: {problem(error)}"
            ) from error
        finally:
            client.close()
        return found


class KinesisReader(PolledReader):
    """Asks one shard after the other for records."""

    def __init__(self, source: KinesisSource, context: ConnectorContext) -> None:
        super().__init__(context)
        self._source = source
        self._client = source.connection.connect()
        #: by shard, the iterator for the records after the number that stands beside it
        self._iterators: dict[str, tuple[str | None, str]] = {}
        self._decoder = MessageDecoder(
            source.deserialization_schema, source.malformed, context.metrics.counter("malformedRecords"),
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
        values, positions = self._decoder.decode(
            [each["Data"] for each in records],
            lambda index: (
                f"operator {self.context.operator!r}: shard {split.id} number {records[index]['SequenceNumber']}"
            ),
        )
        return Batch(values, times if positions is None else [times[index] for index in positions], split.id)

    def explain(self, error: Exception) -> Exception:
        """Say what the errors of the service mean."""
        if isinstance(error, self._source.connection.errors):
            return self.failure(
                f"{', '.join(self._source.streams)} of {self._source.connection} cannot be read: {problem(error)}"
            )
        return super().explain(error)

    def disconnect(self) -> None:
        """Close the client."""
        self._client.close()


__all__ = ["KinesisReader", "KinesisShard", "KinesisShards", "KinesisSource"]
