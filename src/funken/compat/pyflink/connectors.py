"""Sources and sinks with PyFlink's names: those that Funken has, and those that it will have."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import Any

from funken.compat.pyflink.adoption import not_yet
from funken.connectors import hybrid
from funken.connectors.base import Source
from funken.connectors.datagen import NumberSequenceSource
from funken.connectors.files import compaction, part_files
from funken.connectors.files import sink as file_sink
from funken.connectors.files import source as files
from funken.connectors.files.compaction import FileCompactor
from funken.connectors.files.file_format import FileFormat
from funken.connectors.files.line_files import StreamFormat
from funken.connectors.files.part_files import RollingPolicy
from funken.connectors.files.sink import BucketAssigner
from funken.connectors.kafka import enumerator as offsets
from funken.connectors.kafka import reader as kafka_records
from funken.connectors.kafka import sink as kafka_sink
from funken.connectors.kafka import source as kafka_source
from funken.connectors.kafka.reader import KafkaTopicSelector
from funken.connectors.rabbitmq import server as rabbitmq
from funken.connectors.rabbitmq import sink as rabbitmq_sink
from funken.connectors.rabbitmq import source as rabbitmq_source
from funken.connectors.sink import DeliveryGuarantee, Sink


class InPlace:
    """A builder that may be used without its results: every step changes it, as PyFlink's builders do.

    >>> builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/in")
    >>> _ = builder.monitor_continuously(1000)  # the result is not needed
    >>> builder.build().discovery_interval
    1000
    """

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def __init_subclass__(cls, of: type, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, method in vars(of).items():
            if inspect.isfunction(method) and not name.startswith("_") and name not in vars(cls):
                setattr(cls, name, _step(method))


def _step(method: Any) -> Any:
    @functools.wraps(method)
    def step(self: InPlace, *args: Any, **kwargs: Any) -> Any:
        made = method(self._builder, *args, **kwargs)
        if type(made) is not type(self._builder) or method.__name__ == "build":
            return made
        self._builder = made
        return self

    return step


class FileSourceBuilder(InPlace, of=files.FileSourceBuilder):
    """Describes a file source."""

    def set_file_enumerator(self, file_enumerator: Any) -> FileSourceBuilder:
        """Accept and ignore: the source finds files by itself."""
        return self

    def set_split_assigner(self, split_assigner: Any) -> FileSourceBuilder:
        """Accept and ignore: a subtask that has time gets the next file."""
        return self


class FileSource(files.FileSource):
    """The lines of files."""

    @staticmethod
    def for_record_stream_format(stream_format: FileFormat, *paths: Any) -> Any:
        """Start to describe a source of records."""
        return FileSourceBuilder(files.FileSource.for_record_stream_format(stream_format, *paths))

    @staticmethod
    def for_bulk_file_format(bulk_format: Any, *paths: Any) -> Any:
        """Start to describe a source of files of columns."""
        return FileSourceBuilder(files.FileSource.for_bulk_file_format(bulk_format, *paths))


class RowFormatBuilder(InPlace, of=file_sink.RowFormatBuilder):
    """Describes a file sink."""


class FileSink(file_sink.FileSink):
    """Files of records."""

    RowFormatBuilder = RowFormatBuilder
    BaseBuilder = BulkFormatBuilder = RowFormatBuilder

    @staticmethod
    def for_row_format(base_path: Any, encoder: Any) -> Any:
        """Start to describe a sink that writes record by record."""
        return RowFormatBuilder(file_sink.FileSink.for_row_format(base_path, encoder))

    @staticmethod
    def for_bulk_format(base_path: Any, writer_factory: Any) -> Any:
        """Start to describe a sink of files that are more than one record after the other."""
        start = file_sink.FileSink.for_row_format if isinstance(writer_factory, part_files.Encoder) else None
        return RowFormatBuilder((start or file_sink.FileSink.for_bulk_format)(base_path, writer_factory))


class FileCompactStrategy(compaction.FileCompactStrategy):
    """A rule for the compaction of files.

    >>> FileCompactStrategy.Builder().set_size_threshold(64 << 20).build().size_threshold
    67108864
    """

    Builder = compaction.FileCompactStrategyBuilder


class StreamingFileSinkBuilder(RowFormatBuilder, of=file_sink.RowFormatBuilder):
    """Describes a file sink of PyFlink 1.x."""

    def with_rolling_policy(self, policy: Any) -> StreamingFileSinkBuilder:
        """Decide when a part file is closed before the next checkpoint."""
        self._builder = self._builder.with_rolling_policy(policy)
        return self


class StreamingFileSink(FileSink):
    """PyFlink 1.x's file sink, for ``add_sink``: the same as ``FileSink``.

    >>> builder = StreamingFileSink.for_row_format("/data/out", part_files.Encoder.simple_string_encoder())
    >>> policy = part_files.RollingPolicy.default_rolling_policy(part_size=1 << 20)
    >>> builder.with_rolling_policy(policy=policy).build().rolling_policy.part_size
    1048576
    """

    BaseBuilder = DefaultRowFormatBuilder = DefaultBulkFormatBuilder = StreamingFileSinkBuilder

    @staticmethod
    def for_row_format(base_path: Any, encoder: Any) -> Any:
        """Start to describe a sink that writes record by record."""
        return StreamingFileSinkBuilder(FileSink.for_row_format(base_path, encoder)._builder)

    @staticmethod
    def for_bulk_format(base_path: Any, writer_factory: Any) -> Any:
        """Start to describe a sink of files that are more than one record after the other."""
        return StreamingFileSinkBuilder(FileSink.for_bulk_format(base_path, writer_factory)._builder)


class OutputFileConfigBuilder(InPlace, of=part_files.OutputFileConfig):
    """Describes how part files are named."""

    def __init__(self) -> None:
        super().__init__(OutputFileConfig())


class OutputFileConfig(part_files.OutputFileConfig):
    """The rule for the names of part files.

    >>> config = OutputFileConfig.builder().with_part_prefix("clicks").with_part_suffix(".txt").build()
    >>> config.get_part_prefix(), config.get_part_suffix()
    ('clicks', '.txt')
    >>> builder = OutputFileConfig.OutputFileConfigBuilder()
    >>> _ = builder.with_part_prefix("sales")  # the result is not needed
    >>> builder.build().get_part_prefix()
    'sales'
    """

    OutputFileConfigBuilder = OutputFileConfigBuilder

    @staticmethod
    def builder() -> Any:
        """Start from the defaults."""
        return OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Return the beginning of the names."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """Return the end of the names."""
        return self.part_suffix


class KafkaSourceBuilder(InPlace, of=kafka_source.KafkaSourceBuilder):
    """Describes a Kafka source."""


class KafkaSource(kafka_source.KafkaSource):
    """The records of topics."""

    @staticmethod
    def builder() -> Any:
        """Start to describe a source."""
        return KafkaSourceBuilder(kafka_source.KafkaSource.builder())


class KafkaSinkBuilder(InPlace, of=kafka_sink.KafkaSinkBuilder):
    """Describes a Kafka sink."""


class KafkaSink(kafka_sink.KafkaSink):
    """Writes records to topics."""

    @staticmethod
    def builder() -> Any:
        """Start to describe a sink."""
        return KafkaSinkBuilder(kafka_sink.KafkaSink.builder())


class KafkaRecordSerializationSchemaBuilder(InPlace, of=kafka_records.KafkaRecordSerializationSchemaBuilder):
    """Describes how records become Kafka's."""

    def __init__(self, builder: Any = None) -> None:
        super().__init__(builder or kafka_records.KafkaRecordSerializationSchema.builder())


class KafkaRecordSerializationSchema(kafka_records.KafkaRecordSerializationSchema):
    """A schema that makes Kafka's records of the stream's.

    >>> from funken.compat.pyflink.formats import SimpleStringSchema
    >>> builder = KafkaRecordSerializationSchema.builder()
    >>> _ = builder.set_topic("words")
    >>> builder.set_value_serialization_schema(SimpleStringSchema()).build().serialize("to").value
    b'to'
    """

    @staticmethod
    def builder() -> Any:
        """Start to describe one."""
        return KafkaRecordSerializationSchemaBuilder()


KafkaOffsetsInitializer = offsets.KafkaOffsetsInitializer
KafkaOffsetResetStrategy = offsets.KafkaOffsetResetStrategy
KafkaTopicPartition = offsets.KafkaTopicPartition


class RMQConnectionConfigBuilder(InPlace, of=rabbitmq.RMQConnectionConfigBuilder):
    """Describes a connection to RabbitMQ."""

    def __init__(self) -> None:
        super().__init__(rabbitmq.RMQConnectionConfigBuilder())


class RMQConnectionConfig(rabbitmq.RMQConnectionConfig):
    """A RabbitMQ server, and who connects to it.

    >>> config = RMQConnectionConfig.Builder().set_host("mq.example").set_password("secret").build()
    >>> config, RMQSource(config, "orders", True).declare_queue, RMQSink(config, "totals").declare_queue
    (RMQConnectionConfig('amqp://mq.example:5672/'), True, True)
    """

    Builder = RMQConnectionConfigBuilder


@dataclass(frozen=True)
class RMQSource(rabbitmq_source.RMQSource):
    """The messages of a queue, which is made if it is not there."""

    declare_queue: bool = True


@dataclass(frozen=True)
class RMQSink(rabbitmq_sink.RMQSink):
    """Writes messages to a queue, which is made if it is not there."""

    declare_queue: bool = True


class StreamTransformer:
    """Changes a stream in front of a sink."""

    def apply(self, ds: Any) -> Any:
        """Return the stream for the sink."""
        raise NotImplementedError


class SupportsPreprocessing:
    """A sink that wants its stream changed first."""


class FileEnumeratorProvider:
    """A finder of files; Funken's source decides by itself."""

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Split large files."""
        return FileEnumeratorProvider()

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Leave files whole."""
        return FileEnumeratorProvider()


class FileSplitAssignerProvider:
    """An assigner of files to readers; Funken's source decides by itself."""

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Prefer near files."""
        return FileSplitAssignerProvider()


class HybridSourceBuilder(InPlace, of=hybrid.HybridSourceBuilder):
    """Describes sources that are read one after the other."""


class HybridSource(hybrid.HybridSource[Any]):
    """Sources that are read one after the other."""

    @staticmethod
    def builder(first_source: Source) -> Any:
        """Start with a source."""
        return HybridSourceBuilder(hybrid.HybridSource.builder(first_source))


DefaultRollingPolicy = OnCheckpointRollingPolicy = RollingPolicy

_BROKER = "read its topics with Spark, or with a subclass of funken.Source."

_REASONS = {
    "write with FileSink.for_row_format().": ("BulkFormat",),
    "write with for_each(function), or with a subclass of funken.Sink.": (
        "CassandraSink", "ClusterBuilder", "CassandraCommitter", "CassandraFailureHandler", "ConsistencyLevel",
        "MapperOptions",
    ),
    _BROKER: (
        "DynamicKafkaSource", "DynamicKafkaSourceBuilder", "KafkaMetadataService", "KafkaRecordDeserializationSchema",
        "KafkaStreamSetSubscriber", "KafkaStreamSubscriber", "SingleClusterTopicMetadataService",
        "StreamPatternSubscriber",
    ),
}  # fmt: skip

for _reason, _names in _REASONS.items():
    for _name in _names:
        globals()[_name] = not_yet(_name, _reason, __name__)

__all__ = [
    "BucketAssigner",
    "DefaultRollingPolicy",
    "DeliveryGuarantee",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "HybridSource",
    "HybridSourceBuilder",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "NumberSequenceSource",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RMQConnectionConfig",
    "RMQSink",
    "RMQSource",
    "RollingPolicy",
    "Sink",
    "Source",
    "StreamFormat",
    "StreamTransformer",
    "StreamingFileSink",
    "SupportsPreprocessing",
]
__all__ += [name for names in _REASONS.values() for name in names]
