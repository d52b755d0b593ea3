"""Topics as a sink: PyFlink's ``KafkaSink`` and its builder, with three guarantees.

``NONE`` writes and waits for nothing. ``AT_LEAST_ONCE`` waits at each checkpoint until the brokers have acknowledged
everything. ``EXACTLY_ONCE`` writes each checkpoint's records in one transaction per subtask, which is prepared at the
barrier and committed when the checkpoint is complete (``writer.py``, ``committer.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from funken.connectors.context import CommitterContext, ConnectorContext
from funken.connectors.kafka.client import check_properties
from funken.connectors.kafka.committer import KafkaCommitter
from funken.connectors.kafka.connection import Security
from funken.connectors.kafka.records import KafkaRecordSerializationSchema
from funken.connectors.kafka.transport import SinkSettings
from funken.connectors.kafka.writer import KafkaWriter, TransactionalKafkaWriter
from funken.connectors.schemas import check_schema, of_funken
from funken.connectors.sink import Committer, DeliveryGuarantee, Sink, SinkWriter
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration


@dataclass(frozen=True)
class KafkaSink(SinkSettings, Sink):
    """Writes records to topics; made by ``builder()``.

    >>> from funken.connectors import JsonSchema
    >>> totals = KafkaRecordSerializationSchema.builder().set_topic("totals").set_value_serialization_schema(JsonSchema())
    >>> builder = KafkaSink.builder().set_bootstrap_servers("localhost:9092").set_record_serializer(totals.build())
    >>> builder.build().guarantee
    <DeliveryGuarantee.AT_LEAST_ONCE: 'at-least-once'>
    """

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Start to describe a sink."""
        return KafkaSinkBuilder(KafkaSink())

    @property
    def reads_only(self) -> bool:  # type: ignore[override]
        """Whether a schema of Funken makes the messages: those of users may change records."""
        return self.serializer.plain and of_funken(self.serializer.value_schema)

    @property
    def takes_columns(self) -> bool:  # type: ignore[override]
        """Whether the messages are made of columns: by ``JsonSchema``, to one topic, without headers and partitioner."""
        return bool(self.serializer.takes_columns)

    def check(self) -> None:
        """Reach the brokers, and compare what the sink needs with what they allow."""
        self.transport.check(self)

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        kind = TransactionalKafkaWriter if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE else KafkaWriter
        return kind(self, context)

    def committer(self, context: CommitterContext) -> Committer | None:
        """Make the committer of an exactly-once sink."""
        return KafkaCommitter(self, context) if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE else None


@dataclass(frozen=True)
class KafkaSinkBuilder:
    """PyFlink's way to describe a Kafka sink; each call returns a new builder.

    >>> from funken.connectors import SimpleStringSchema
    >>> words = KafkaRecordSerializationSchema.builder().set_topic("words").set_value_serialization_schema(SimpleStringSchema())
    >>> builder = (
    ...     KafkaSink.builder()
    ...     .set_bootstrap_servers("localhost:9092")
    ...     .set_record_serializer(words.build())
    ...     .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    ...     .set_property("transaction.timeout.ms", "900000")
    ... )
    >>> builder.set_transactional_id_prefix("word-count").build().transaction_timeout
    900000
    >>> builder.build()
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: an exactly-once Kafka sink has no transactional id prefix; call
    set_transactional_id_prefix() with a name that no other job uses on these brokers.
    """

    sink: KafkaSink

    def _with(self, **changes: Any) -> KafkaSinkBuilder:
        return KafkaSinkBuilder(replace(self.sink, **changes))

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Set the brokers to begin with, ``host:port,...``."""
        return self._with(servers=bootstrap_servers)

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        """Set how records become Kafka's."""
        return self._with(serializer=record_serializer)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Set how often a record arrives; at least once by default."""
        return self._with(guarantee=delivery_guarantee)

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """Set what transactional ids begin with; no other job may use the same. An exactly-once sink needs it."""
        return self._with(transactional_id_prefix=transactional_id_prefix)

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Set a property of the client (librdkafka's)."""
        return self._with(properties={**self.sink.properties, key: value})

    def set_properties(self, props: Mapping[str, str]) -> KafkaSinkBuilder:
        """Set several properties."""
        return self._with(properties={**self.sink.properties, **props})

    def build(self) -> KafkaSink:
        """Return the sink; raises ``InvalidConfiguration`` if something is missing."""
        sink = self.sink
        servers = sink.servers or sink.properties.get("bootstrap.servers", "")
        if not servers:
            raise InvalidConfiguration("a Kafka sink has no brokers; call set_bootstrap_servers('host:port').")
        if sink.serializer is None:
            raise InvalidConfiguration("a Kafka sink has no serializer; call set_record_serializer().")
        check_schema(sink.serializer, KafkaRecordSerializationSchema, "Kafka sink")
        check_properties(sink.properties, "Kafka sink")
        if sink.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            if not sink.transactional_id_prefix:
                raise InvalidConfiguration(
                    "an exactly-once Kafka sink has no transactional id prefix; call set_transactional_id_prefix() with a name "
                    "that no other job uses on these brokers."
                )
            if "transactional.id" in sink.properties:
                raise InvalidConfiguration(
                    "property 'transactional.id' is made by the Kafka sink; call set_transactional_id_prefix()."
                )
            Security.of(sink.properties)
        return replace(sink, servers=servers)


__all__ = ["KafkaSink", "KafkaSinkBuilder"]
