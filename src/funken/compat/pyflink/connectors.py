"""Sources and sinks with PyFlink's names: those that Funken has, and those that it will have."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from funken.compat.pyflink.adoption import not_yet
from funken.compat.pyflink.members import gets, ignores
from funken.connectors import hybrid
from funken.connectors.files import compaction, part_files
from funken.connectors.files import sink as file_sink
from funken.connectors.files import source as files
from funken.connectors.files.part_files import RollingPolicy
from funken.connectors.kafka import reader as kafka_records
from funken.connectors.kafka import sink as kafka_sink
from funken.connectors.kafka import source as kafka_source
from funken.connectors.rabbitmq import server as rabbitmq
from funken.connectors.rabbitmq import sink as rabbitmq_sink
from funken.connectors.rabbitmq import source as rabbitmq_source
from funken.types.callables import S


class InPlace:
    """A builder that may be used without its results: every step changes it, as PyFlink's builders do.

    >>> from funken.connectors.files.line_files import StreamFormat
    >>> builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/in")
    >>> _ = builder.monitor_continuously(1000)  # the result is not needed
    >>> builder.build().discovery_interval
    1000
    """

    _start: Callable[[], Any]
    classes: ClassVar[dict[type, type[InPlace]]] = {}
    """The classes by those of the builders that they change."""

    def __init__(self, builder: Any = None) -> None:
        self._builder = type(self)._start() if builder is None else builder

    def __init_subclass__(cls, of: type, start: Callable[[], Any] | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._start = staticmethod(start or of)
        InPlace.classes.setdefault(of, cls)
        for name, method in vars(of).items():
            if inspect.isfunction(method) and not name.startswith("_") and name not in vars(cls):
                setattr(cls, name, _step(name, method))


def in_place(of: type[S], doc: str, start: Callable[[], Any] | None = None) -> type[S]:
    """Return a class of builders that change in place; without an argument they begin with the result of ``start``."""
    made: Any = type(of.__name__, (InPlace,), {"__doc__": doc, "__module__": __name__}, of=of, start=start)
    builder: type[S] = made
    return builder


def described(native: type, doc: str, **members: Any) -> Any:
    """Return a class like a native one, whose static methods return builders that change in place."""
    found = {"__doc__": doc, "__module__": __name__, **members}
    for name, method in vars(native).items():
        if isinstance(method, staticmethod):
            found[name] = staticmethod(_begun(method.__func__))
    return type(native.__name__, (native,), found)


def _begun(method: Any) -> Any:
    @functools.wraps(method)
    def begin(*args: Any, **kwargs: Any) -> Any:
        made = method(*args, **kwargs)
        return InPlace.classes[type(made)](made) if type(made) in InPlace.classes else made

    return begin


def _step(name: str, method: Any) -> Any:
    @functools.wraps(method)
    def step(self: InPlace, *args: Any, **kwargs: Any) -> Any:
        made = method(self._builder, *args, **kwargs)
        if type(made) is not type(self._builder) or name == "build":
            return made
        self._builder = made
        return self

    return step


class FileSourceBuilder(InPlace, of=files.FileSourceBuilder):
    """Describes a file source."""

    set_file_enumerator = ignores("file_enumerator", "Accept and ignore: the source finds files by itself.")
    set_split_assigner = ignores("split_assigner", "Accept and ignore: a subtask that has time gets the next file.")


FileSource = described(files.FileSource, "The lines of files.")


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

    OutputFileConfigBuilder: ClassVar[type[OutputFileConfig]]

    @staticmethod
    def builder() -> OutputFileConfig:
        """Start from the defaults."""
        return OutputFileConfig.OutputFileConfigBuilder()

    get_part_prefix = gets[str]("part_prefix", "Return the beginning of the names.")
    get_part_suffix = gets[str]("part_suffix", "Return the end of the names.")


OutputFileConfig.OutputFileConfigBuilder = in_place(
    part_files.OutputFileConfig,  # type: ignore[arg-type]  # its build() makes the layer's
    "Describes how part files are named.",
    OutputFileConfig,
)
KafkaSourceBuilder = in_place(
    kafka_source.KafkaSourceBuilder, "Describes a Kafka source.", kafka_source.KafkaSource.builder
)
KafkaSource = described(kafka_source.KafkaSource, "The records of topics.")
KafkaSinkBuilder = in_place(kafka_sink.KafkaSinkBuilder, "Describes a Kafka sink.", kafka_sink.KafkaSink.builder)
KafkaSink = described(kafka_sink.KafkaSink, "Writes records to topics.")
KafkaRecordSerializationSchemaBuilder = in_place(
    kafka_records.KafkaRecordSerializationSchemaBuilder, "Describes how records become Kafka's.",
    kafka_records.KafkaRecordSerializationSchema.builder,
)  # fmt: skip
KafkaRecordSerializationSchema = described(
    kafka_records.KafkaRecordSerializationSchema,
    """A schema that makes Kafka's records of the stream's.

    >>> from funken.compat.pyflink.formats import SimpleStringSchema
    >>> builder = KafkaRecordSerializationSchema.builder()
    >>> _ = builder.set_topic("words")
    >>> builder.set_value_serialization_schema(SimpleStringSchema()).build().serialize("to").value
    b'to'
    """,
)


class RMQConnectionConfig(rabbitmq.RMQConnectionConfig):
    """A RabbitMQ server, and who connects to it.

    >>> config = RMQConnectionConfig.Builder().set_host("mq.example").set_password("secret").build()
    >>> config, RMQSource(config, "orders", True).declare_queue, RMQSink(config, "totals").declare_queue
    (RMQConnectionConfig('amqp://mq.example:5672/'), True, True)
    """

    Builder = in_place(rabbitmq.RMQConnectionConfigBuilder, "Describes a connection to RabbitMQ.")


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


HybridSourceBuilder = in_place(hybrid.HybridSourceBuilder, "Describes sources that are read one after the other.")
HybridSource = described(hybrid.HybridSource, "Sources that are read one after the other.")

DefaultRollingPolicy = OnCheckpointRollingPolicy = RollingPolicy

_CLUSTERS = "read the topics of each cluster with a KafkaSource, and union() the streams."

_REASONS = {
    "write with FileSink.for_row_format().": ("BulkFormat",),
    "write with for_each(function), or with a subclass of funken.Sink.": (
        "CassandraSink", "ClusterBuilder", "CassandraCommitter", "CassandraFailureHandler", "ConsistencyLevel",
        "MapperOptions",
    ),
    _CLUSTERS: (
        "DynamicKafkaSource", "DynamicKafkaSourceBuilder", "KafkaMetadataService", "KafkaRecordDeserializationSchema",
        "KafkaStreamSetSubscriber", "KafkaStreamSubscriber", "SingleClusterTopicMetadataService",
        "StreamPatternSubscriber",
    ),
}  # fmt: skip

for _reason, _names in _REASONS.items():
    for _name in _names:
        globals()[_name] = not_yet(_name, _reason, __name__)

PASSED_ON = {
    "funken.connectors.base": "Source",
    "funken.connectors.datagen": "NumberSequenceSource",
    "funken.connectors.files.compaction": "FileCompactor",
    "funken.connectors.files.line_files": "StreamFormat",
    "funken.connectors.files.part_files": "RollingPolicy",
    "funken.connectors.files.sink": "BucketAssigner",
    "funken.connectors.kafka.enumerator": "KafkaOffsetResetStrategy KafkaOffsetsInitializer KafkaTopicPartition",
    "funken.connectors.kafka.reader": "KafkaTopicSelector",
    "funken.connectors.sink": "DeliveryGuarantee Sink",
}
__all__ = ["DefaultRollingPolicy", "OnCheckpointRollingPolicy"]
