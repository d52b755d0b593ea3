"""Between Kafka's records and those of the stream: schemas that see key, headers, timestamp and topic, not only the value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration

Headers = Sequence[tuple[str, bytes | None]]


class ConsumerRecord(NamedTuple):
    """A record as it was read; ``timestamp`` is in ms, ``None`` if the topic has none.

    >>> ConsumerRecord("orders", 0, 7, 1000, b"tea", b"3", (("source", b"till"),)).key
    b'tea'
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class KafkaRecordDeserializationSchema(DeserializationSchema):
    """How Kafka's records become those of the stream; subclass it, or use ``of``. ``None`` drops a record.

    >>> schema = KafkaRecordDeserializationSchema.of(lambda record: (record.key.decode(), len(record.value or b"")))
    >>> schema.deserialize(ConsumerRecord("orders", 0, 7, 1000, b"tea", b"three"))
    ('tea', 5)
    """

    def deserialize(self, record: ConsumerRecord) -> Any:  # type: ignore[override]
        """Return the record of the stream."""
        raise NotImplementedError

    @staticmethod
    def of(function: Callable[[ConsumerRecord], Any]) -> KafkaRecordDeserializationSchema:
        """Make a schema of a function."""
        return _Function(function)


@dataclass(frozen=True)
class _Function(KafkaRecordDeserializationSchema):
    function: Callable[[ConsumerRecord], Any]

    def deserialize(self, record: ConsumerRecord) -> Any:  # type: ignore[override]
        return self.function(record)


class ProducerRecord(NamedTuple):
    """A record to be written; without ``partition`` the key decides, without ``timestamp`` it is that of the record.

    >>> ProducerRecord("orders", b"3", key=b"tea")
    ProducerRecord(topic='orders', value=b'3', key=b'tea', partition=None, timestamp=None, headers=None)
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Headers | None = None


class KafkaTopicSelector:
    """Which topic a record goes to; a callable will do as well."""

    def apply(self, data: Any) -> str:
        """Return the topic of a record."""
        raise NotImplementedError


@dataclass(frozen=True)
class KafkaRecordSerializationSchema:
    """How records of the stream become Kafka's; made by ``builder()``, or by a subclass with a ``serialize`` of its own.

    >>> from funken.connectors import SimpleStringSchema
    >>> builder = KafkaRecordSerializationSchema.builder().set_topic("words").set_value_serialization_schema(SimpleStringSchema())
    >>> builder.build().serialize("to")
    ProducerRecord(topic='words', value=b'to', key=None, partition=None, timestamp=None, headers=None)

    >>> class Sharded(KafkaRecordSerializationSchema):
    ...     def serialize(self, value):
    ...         return ProducerRecord("words", value.encode(), partition=len(value) % 4)
    >>> Sharded().serialize("to").partition
    2
    """

    topic: str | Callable[[Any], str] = ""
    value_schema: SerializationSchema | None = None
    key_schema: SerializationSchema | None = None
    headers: Callable[[Any], Headers] | None = None
    partitioner: Callable[[Any], int] | None = None

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Start to describe one."""
        return KafkaRecordSerializationSchemaBuilder(KafkaRecordSerializationSchema())

    def serialize(self, value: Any) -> ProducerRecord | None:
        """Return what is to be written for a record; ``None``: nothing."""
        assert self.value_schema is not None
        return ProducerRecord(
            self.topic if isinstance(self.topic, str) else self.topic(value),
            self.value_schema.serialize(value),
            None if self.key_schema is None else self.key_schema.serialize(value),
            None if self.partitioner is None else self.partitioner(value),
            None,
            None if self.headers is None else self.headers(value),
        )

    @property
    def plain(self) -> bool:
        """Whether nothing but values is written, to one topic: then blocks are serialized at once."""
        return self._of_schemas and self.key_schema is None

    @property
    def takes_columns(self) -> bool:
        """Whether what is written comes of schemas that take columns, and goes to one topic."""
        schemas = (self.value_schema,) if self.key_schema is None else (self.key_schema, self.value_schema)
        return self._of_schemas and all(schema is not None and schema.takes_columns for schema in schemas)

    @property
    def _of_schemas(self) -> bool:
        return (
            type(self) is KafkaRecordSerializationSchema
            and isinstance(self.topic, str)
            and self.headers is None
            and self.partitioner is None
        )


@dataclass(frozen=True)
class KafkaRecordSerializationSchemaBuilder:
    """PyFlink's way to describe the records of a sink; each call returns a new builder.

    >>> from funken.connectors import JsonSchema
    >>> builder = KafkaRecordSerializationSchema.builder().set_topic_selector(lambda order: "large" if order[1] > 9 else "small")
    >>> schema = builder.set_key_serialization_schema(JsonSchema()).set_value_serialization_schema(JsonSchema()).build()
    >>> schema.serialize(["tea", 3]).topic
    'small'
    >>> KafkaRecordSerializationSchema.builder().set_topic("words").build()
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: a Kafka record serializer has no value schema; call set_value_serialization_schema().
    """

    schema: KafkaRecordSerializationSchema

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Write to this topic."""
        return KafkaRecordSerializationSchemaBuilder(replace(self.schema, topic=topic))

    def set_topic_selector(self, topic_selector: Any) -> KafkaRecordSerializationSchemaBuilder:
        """Let a ``KafkaTopicSelector`` or a function choose the topic of each record."""
        select = topic_selector if callable(topic_selector) else topic_selector.apply
        return KafkaRecordSerializationSchemaBuilder(replace(self.schema, topic=select))

    def set_key_serialization_schema(self, key_serialization_schema: Any) -> KafkaRecordSerializationSchemaBuilder:
        """Make keys of the records by a schema."""
        return KafkaRecordSerializationSchemaBuilder(replace(self.schema, key_schema=key_serialization_schema))

    def set_value_serialization_schema(self, value_serialization_schema: Any) -> KafkaRecordSerializationSchemaBuilder:
        """Make values of the records by a schema."""
        return KafkaRecordSerializationSchemaBuilder(replace(self.schema, value_schema=value_serialization_schema))

    def set_header_provider(self, headers: Callable[[Any], Headers]) -> KafkaRecordSerializationSchemaBuilder:
        """Make headers of the records: pairs of a name and bytes."""
        return KafkaRecordSerializationSchemaBuilder(replace(self.schema, headers=headers))

    def set_partitioner(self, partitioner: Callable[[Any], int]) -> KafkaRecordSerializationSchemaBuilder:
        """Choose the partition of each record; without it Kafka does, by the key if there is one."""
        return KafkaRecordSerializationSchemaBuilder(replace(self.schema, partitioner=partitioner))

    def build(self) -> KafkaRecordSerializationSchema:
        """Return the schema."""
        if not self.schema.topic:
            raise InvalidConfiguration(
                "a Kafka record serializer has no topic; call set_topic() or set_topic_selector()."
            )
        if self.schema.value_schema is None:
            raise InvalidConfiguration(
                "a Kafka record serializer has no value schema; call set_value_serialization_schema()."
            )
        return self.schema


__all__ = [
    "ConsumerRecord",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaTopicSelector",
    "ProducerRecord",
]
