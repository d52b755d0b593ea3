"""Apache Kafka, by ``confluent-kafka`` (``pip install funken[kafka]``): a source, and a sink that is exactly-once.

Importing this package does not import the client; ``client.py`` does, when it is needed. May import ``connectors``,
``formats`` and what is below.
"""

from funken.connectors.kafka.enumerator import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, KafkaTopicPartition
from funken.connectors.kafka.reader import (
    ConsumerRecord,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaTopicSelector,
    ProducerRecord,
)
from funken.connectors.kafka.sink import KafkaSink, KafkaSinkBuilder
from funken.connectors.kafka.source import KafkaSource, KafkaSourceBuilder
from funken.connectors.sink import DeliveryGuarantee

__all__ = [
    "ConsumerRecord",
    "DeliveryGuarantee",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "ProducerRecord",
]
