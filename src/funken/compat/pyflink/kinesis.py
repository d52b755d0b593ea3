"""``pyflink.datastream.connectors.kinesis``: its builders make Funken's source and sinks, which need no jar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from funken.connectors.kinesis import FirehoseSink, KinesisConnection, KinesisSink, KinesisSource, random_key
from funken.connectors.schemas import DeserializationSchema, SerializationSchema, SimpleStringSchema
from funken.errors import InvalidConfiguration

_KEY, _SECRET = "aws.credentials.provider.basic.accesskeyid", "aws.credentials.provider.basic.secretkey"
_MOST_RECORDS = 500


def connection_of(properties: Mapping[str, Any]) -> KinesisConnection:
    """Return the connection that Flink's properties describe.

    >>> connection_of({"aws.region": "us-east-1", "aws.endpoint": "http://localhost:4567"})
    KinesisConnection('us-east-1', 'http://localhost:4567')
    """
    region = properties.get("aws.region")
    if not region:
        raise InvalidConfiguration("Kinesis: the properties have no 'aws.region'; add it.")
    keys = {str(name).lower(): value for name, value in properties.items()}
    return KinesisConnection(
        str(region), properties.get("aws.endpoint"), keys.get(_KEY), keys.get(_SECRET),
        keys.get("aws.credentials.provider.basic.sessiontoken"), keys.get("aws.credentials.provider.profile.name"),
    )  # fmt: skip


class KinesisShardAssigner:
    """An assigner of shards to readers; Funken deals them out evenly by itself."""

    @staticmethod
    def default_shard_assigner() -> KinesisShardAssigner:
        """Deal them out by their ids."""
        return KinesisShardAssigner()

    @staticmethod
    def uniform_shard_assigner() -> KinesisShardAssigner:
        """Deal them out evenly."""
        return KinesisShardAssigner()


class KinesisDeserializationSchema(DeserializationSchema):
    """A schema of records of Kinesis; its input is their bytes."""


class WatermarkTracker:
    """Aligns subtasks; Funken aligns watermarks by ``WatermarkStrategy.with_watermark_alignment``."""

    @staticmethod
    def job_manager_watermark_tracker(
        aggregate_name: str, log_accumulator_interval_millis: int = -1
    ) -> WatermarkTracker:
        """Return one; it has no effect."""
        return WatermarkTracker()


class PartitionKeyGenerator:
    """Makes partition keys of records.

    >>> PartitionKeyGenerator.fixed()("a") == PartitionKeyGenerator.fixed()("b")
    True
    """

    def __call__(self, record: Any) -> str:
        """Return the key of a record."""
        return random_key(record)

    @staticmethod
    def fixed() -> PartitionKeyGenerator:
        """Send all records of a subtask to one shard."""
        return _FixedKey()

    @staticmethod
    def random() -> PartitionKeyGenerator:
        """Spread records over all shards."""
        return PartitionKeyGenerator()


class _FixedKey(PartitionKeyGenerator):
    def __call__(self, record: Any) -> str:
        return "funken"


class FlinkKinesisConsumer:
    """Reads streams as a ``KinesisSource``, beginning at ``flink.stream.initpos``; for ``add_source``.

    >>> consumer = FlinkKinesisConsumer("orders", SimpleStringSchema(), {"aws.region": "eu-central-1"})
    >>> consumer.as_source().start
    'LATEST'
    """

    def __init__(self, streams: str | Sequence[str], deserializer: Any, config_props: Mapping[str, Any]) -> None:
        self._streams = (streams,) if isinstance(streams, str) else tuple(streams)
        self._schema, self._properties = deserializer, dict(config_props)

    def set_shard_assigner(self, shard_assigner: Any) -> FlinkKinesisConsumer:
        """Accept and ignore: shards are dealt out evenly."""
        return self

    def set_periodic_watermark_assigner(self, periodic_watermark_assigner: Any) -> FlinkKinesisConsumer:
        """Accept and ignore; use ``assign_timestamps_and_watermarks``."""
        return self

    def set_watermark_tracker(self, watermark_tracker: Any) -> FlinkKinesisConsumer:
        """Accept and ignore; use ``WatermarkStrategy.with_watermark_alignment``."""
        return self

    def as_source(self) -> KinesisSource:
        """Return the source that it stands for."""
        start: Any = self._properties.get("flink.stream.initpos", "LATEST")
        if start == "AT_TIMESTAMP":
            start = int(float(self._properties["flink.stream.initpos.timestamp"]) * 1000)
        return KinesisSource(connection_of(self._properties), self._streams, self._schema, start)


class _SinkBuilder:
    """Describes a sink of Kinesis or Firehose."""

    _kind: type[KinesisSink] = KinesisSink

    def __init__(self) -> None:
        self._stream = ""
        self._schema: SerializationSchema = SimpleStringSchema()
        self._properties: Mapping[str, Any] = {}
        self._more: dict[str, Any] = {}

    def set_serialization_schema(self, serialization_schema: Any) -> Any:
        """Set the schema that makes bytes of records."""
        self._schema = serialization_schema
        return self

    def set_fail_on_error(self, fail_on_error: bool) -> Any:
        """Accept and ignore: throttled records are sent again, and any other error fails the job."""
        return self

    def set_max_batch_size(self, max_batch_size: int) -> Any:
        """Set the most records of a request."""
        self._more["max_records"] = min(max_batch_size, _MOST_RECORDS)
        return self

    def set_max_in_flight_requests(self, max_in_flight_requests: int) -> Any:
        """Accept and ignore: a subtask has one request in flight."""
        return self

    def set_max_buffered_requests(self, max_buffered_requests: int) -> Any:
        """Accept and ignore: records are sent as they come."""
        return self

    def set_max_batch_size_in_bytes(self, max_batch_size_in_bytes: int) -> Any:
        """Accept and ignore: a request has 4 MB at most."""
        return self

    def set_max_time_in_buffer_ms(self, max_time_in_buffer_ms: int) -> Any:
        """Accept and ignore: records are sent as they come."""
        return self

    def set_max_record_size_in_bytes(self, max_record_size_in_bytes: int) -> Any:
        """Accept and ignore: a record has 1 MB at most, as the service has it."""
        return self

    def build(self) -> KinesisSink:
        """Return the sink."""
        return self._kind(connection_of(self._properties), self._stream, self._schema, **self._more)


class KinesisStreamsSinkBuilder(_SinkBuilder):
    """Describes a sink of a data stream."""

    def set_stream_name(self, stream_name: str) -> KinesisStreamsSinkBuilder:
        """Set the stream."""
        self._stream = stream_name
        return self

    def set_partition_key_generator(self, partition_key_generator: Any) -> KinesisStreamsSinkBuilder:
        """Set the maker of keys of records: a ``PartitionKeyGenerator`` or a function."""
        self._more["partition_key"] = partition_key_generator
        return self

    def set_kinesis_client_properties(self, kinesis_client_properties: Mapping[str, Any]) -> KinesisStreamsSinkBuilder:
        """Set region, endpoint and keys."""
        self._properties = kinesis_client_properties
        return self


class KinesisFirehoseSinkBuilder(_SinkBuilder):
    """Describes a sink of Firehose."""

    _kind = FirehoseSink

    def set_delivery_stream_name(self, delivery_stream_name: str) -> KinesisFirehoseSinkBuilder:
        """Set the delivery stream."""
        self._stream = delivery_stream_name
        return self

    def set_firehose_client_properties(
        self, firehose_client_properties: Mapping[str, Any]
    ) -> KinesisFirehoseSinkBuilder:
        """Set region, endpoint and keys."""
        self._properties = firehose_client_properties
        return self


class KinesisStreamsSink(KinesisSink):
    """Writes records to a data stream; ``builder()`` describes it."""

    @staticmethod
    def builder() -> KinesisStreamsSinkBuilder:
        """Return a builder.

        >>> properties = {"aws.region": "eu-central-1"}
        >>> builder = KinesisStreamsSink.builder().set_stream_name("orders").set_kinesis_client_properties(properties)
        >>> builder.set_partition_key_generator(PartitionKeyGenerator.fixed()).build().stream
        'orders'
        """
        return KinesisStreamsSinkBuilder()


class KinesisFirehoseSink(FirehoseSink):
    """Writes records to a delivery stream; ``builder()`` describes it."""

    @staticmethod
    def builder() -> KinesisFirehoseSinkBuilder:
        """Return a builder."""
        return KinesisFirehoseSinkBuilder()


__all__ = [
    "FlinkKinesisConsumer",
    "KinesisDeserializationSchema",
    "KinesisFirehoseSink",
    "KinesisFirehoseSinkBuilder",
    "KinesisShardAssigner",
    "KinesisStreamsSink",
    "KinesisStreamsSinkBuilder",
    "PartitionKeyGenerator",
    "WatermarkTracker",
]
