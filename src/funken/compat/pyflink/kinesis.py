"""``pyflink.datastream.connectors.kinesis``: its builders make Funken's source and sinks, which need no jar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from funken.compat.pyflink.members import ignores, sets
from funken.connectors.kinesis import FirehoseSink, KinesisConnection, KinesisSink, KinesisSource, random_key
from funken.connectors.schemas import DeserializationSchema, SerializationSchema, SimpleStringSchema
from funken.errors import InvalidConfiguration
from funken.types.callables import Generic, T_co

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

    _key: str | None = None

    def __call__(self, record: object) -> str:
        """Return the key of a record."""
        return self._key or random_key(record)

    @staticmethod
    def fixed() -> PartitionKeyGenerator:
        """Send all records of a subtask to one shard."""
        generator = PartitionKeyGenerator()
        generator._key = "funken"
        return generator

    @staticmethod
    def random() -> PartitionKeyGenerator:
        """Spread records over all shards."""
        return PartitionKeyGenerator()


class FlinkKinesisConsumer(Generic[T_co]):
    """Reads streams as a ``KinesisSource``, beginning at ``flink.stream.initpos``; for ``add_source``.

    >>> consumer = FlinkKinesisConsumer("orders", SimpleStringSchema(), {"aws.region": "eu-central-1"})
    >>> consumer.as_source().start
    'LATEST'
    """

    def __init__(
        self, streams: str | Sequence[str], deserializer: DeserializationSchema[T_co], config_props: Mapping[str, Any]
    ) -> None:
        self._streams = (streams,) if isinstance(streams, str) else tuple(streams)
        self._schema, self._properties = deserializer, dict(config_props)

    set_shard_assigner = ignores("shard_assigner", "Accept and ignore: shards are dealt out evenly.")
    set_periodic_watermark_assigner = ignores(
        "periodic_watermark_assigner", "Accept and ignore; use ``assign_timestamps_and_watermarks``."
    )
    set_watermark_tracker = ignores(
        "watermark_tracker", "Accept and ignore; use ``WatermarkStrategy.with_watermark_alignment``."
    )

    def as_source(self) -> KinesisSource[T_co]:
        """Return the source that it stands for."""
        start: Any = self._properties.get("flink.stream.initpos", "LATEST")
        if start == "AT_TIMESTAMP":
            start = int(float(self._properties["flink.stream.initpos.timestamp"]) * 1000)
        return KinesisSource(connection_of(self._properties), self._streams, self._schema, start)


class _SinkBuilder:
    """Describes a sink of Kinesis or Firehose."""

    _kind: type[KinesisSink[Any]] = KinesisSink

    def __init__(self) -> None:
        self._stream = ""
        self._schema: SerializationSchema = SimpleStringSchema()
        self._properties: Mapping[str, Any] = {}
        self._more: dict[str, Any] = {}

    set_serialization_schema = sets[SerializationSchema](
        "_schema", "serialization_schema", "Set the schema that makes bytes of records."
    )
    set_fail_on_error = ignores(
        "fail_on_error", "Accept and ignore: throttled records are sent again, and any other error fails the job."
    )

    def set_max_batch_size(self, max_batch_size: int) -> Any:
        """Set the most records of a request."""
        self._more["max_records"] = min(max_batch_size, _MOST_RECORDS)
        return self

    set_max_in_flight_requests = ignores(
        "max_in_flight_requests", "Accept and ignore: a subtask has one request in flight."
    )
    set_max_buffered_requests = ignores("max_buffered_requests", "Accept and ignore: records are sent as they come.")
    set_max_batch_size_in_bytes = ignores("max_batch_size_in_bytes", "Accept and ignore: a request has 4 MB at most.")
    set_max_time_in_buffer_ms = ignores("max_time_in_buffer_ms", "Accept and ignore: records are sent as they come.")
    set_max_record_size_in_bytes = ignores(
        "max_record_size_in_bytes", "Accept and ignore: a record has 1 MB at most, as the service has it."
    )

    def build(self) -> KinesisSink:
        """Return the sink."""
        return self._kind(connection_of(self._properties), self._stream, self._schema, **self._more)


class KinesisStreamsSinkBuilder(_SinkBuilder):
    """Describes a sink of a data stream."""

    set_stream_name = sets[str]("_stream", "stream_name", "Set the stream.")
    set_partition_key_generator = sets[object](
        "_more.partition_key",
        "partition_key_generator",
        "Set the maker of keys of records: a ``PartitionKeyGenerator`` or a function.",
    )
    set_kinesis_client_properties = sets[dict[str, str]](
        "_properties", "kinesis_client_properties", "Set region, endpoint and keys."
    )


class KinesisFirehoseSinkBuilder(_SinkBuilder):
    """Describes a sink of Firehose."""

    _kind = FirehoseSink

    set_delivery_stream_name = sets[str]("_stream", "delivery_stream_name", "Set the delivery stream.")
    set_firehose_client_properties = sets[dict[str, str]](
        "_properties", "firehose_client_properties", "Set region, endpoint and keys."
    )


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
