from funken.connectors.base import (
    NEED_SPLITS,
    Batch,
    Boundedness,
    CommitterContext,
    ConnectorContext,
    IndexColumns,
    NeedSplits,
    QueuedReader,
    Source,
    SourceReader,
    SplitEnumerator,
    StaticSplits,
    Wait,
)
from funken.connectors.datagen import RandomField, SequenceField, fields_source
from funken.connectors.formats.avro_schema import AvroSchema
from funken.connectors.formats.csv_schema import CsvSchema
from funken.connectors.formats.debezium import ChangeRecord, DebeziumJsonSchema
from funken.connectors.formats.json_schema import JsonSchema
from funken.connectors.formats.protobuf_schema import ProtobufSchema
from funken.connectors.formats.registry import (
    ConfluentAvroSchema,
    ConfluentJsonSchema,
    ConfluentProtobufSchema,
    SchemaRegistryClient,
)
from funken.connectors.rate_limit import RateLimitedSource
from funken.connectors.reading import MalformedRecord, MalformedRecordPolicy
from funken.connectors.schemas import ByteArraySchema, DeserializationSchema, SerializationSchema, SimpleStringSchema
from funken.connectors.sink import CommitOutcome, CommitRequest, Committer, DeliveryGuarantee, Sink, SinkWriter

__all__ = [
    "NEED_SPLITS",
    "AvroSchema",
    "Batch",
    "Boundedness",
    "ByteArraySchema",
    "ChangeRecord",
    "CommitOutcome",
    "CommitRequest",
    "Committer",
    "CommitterContext",
    "ConfluentAvroSchema",
    "ConfluentJsonSchema",
    "ConfluentProtobufSchema",
    "ConnectorContext",
    "CsvSchema",
    "DebeziumJsonSchema",
    "DeliveryGuarantee",
    "DeserializationSchema",
    "IndexColumns",
    "JsonSchema",
    "MalformedRecord",
    "MalformedRecordPolicy",
    "NeedSplits",
    "ProtobufSchema",
    "QueuedReader",
    "RandomField",
    "RateLimitedSource",
    "SchemaRegistryClient",
    "SequenceField",
    "SerializationSchema",
    "SimpleStringSchema",
    "Sink",
    "SinkWriter",
    "Source",
    "SourceReader",
    "SplitEnumerator",
    "StaticSplits",
    "Wait",
    "fields_source",
]
