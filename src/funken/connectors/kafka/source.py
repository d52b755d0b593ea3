"""Topics as a source: PyFlink's ``KafkaSource`` and its builder.

A split is a partition with the offset of the next record. The offsets that matter are those of checkpoints; they are
also committed to the consumer group when a checkpoint is complete, so that other tools see how far the job is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import field, replace
from typing import Any

from funken.columnar.expressions import NotVectorizable
from funken.connectors.base import Boundedness, ConnectorContext, Source, declares
from funken.connectors.formats.texts import text_schema
from funken.connectors.kafka.client import SOURCE_PROPERTIES, checked_servers, client_properties
from funken.connectors.kafka.enumerator import (
    Cluster,
    KafkaEnumerator,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
    Subscription,
)
from funken.connectors.kafka.reader import KafkaReader, KafkaRecordDeserializationSchema
from funken.connectors.reading import MalformedRecordPolicy
from funken.connectors.schemas import DeserializationSchema, SimpleStringSchema, check_schema
from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady, InvalidConfiguration, SourceNotReadable
from funken.expr.types import Type
from funken.io.durations import duration_ms
from funken.types.callables import Generic, S, T_co, check_kind

DISCOVERY_INTERVAL = 300_000
_SAMPLE_S, _SAMPLE_MESSAGES, _SAMPLE_PARTITIONS = 3.0, 1000, 16
"""So long (s) the driver waits for messages to look at, and at so many it looks."""
_DECLARE = "declare the record type of its messages"
NOTHING, EARLIEST = Subscription(), KafkaOffsetsInitializer.earliest()


@dataclass(frozen=True)
class KafkaSource(Source[T_co], Generic[T_co]):
    """The records of topics; made by ``builder()``.

    >>> from funken.connectors import JsonSchema
    >>> builder = KafkaSource.builder().set_bootstrap_servers("localhost:9092").set_topics("orders")
    >>> source = builder.set_value_only_deserializer(JsonSchema()).build()
    >>> source.boundedness.name, source.discovery_interval
    ('CONTINUOUS_UNBOUNDED', 300000)
    """

    servers: str = ""
    subscription: Subscription = NOTHING
    deserializer: Any = None
    starting: KafkaOffsetsInitializer = EARLIEST
    stopping: KafkaOffsetsInitializer | None = None
    boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    malformed: MalformedRecordPolicy = MalformedRecordPolicy.FAIL
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # there may be passwords in it

    @staticmethod
    def builder() -> KafkaSourceBuilder[Any]:
        """Start to describe a source."""
        return KafkaSourceBuilder(KafkaSource())

    @property
    def discovery_interval(self) -> int | None:
        """Return the interval (ms) of the search for new partitions; ``None``: never."""
        if self.stopping is not None:
            return None
        interval = duration_ms(_number(self.properties.get("partition.discovery.interval.ms", DISCOVERY_INTERVAL)))
        return interval if interval > 0 else None

    @property
    def group_id(self) -> str | None:
        """Return the consumer group, if there is one."""
        return self.properties.get("group.id")

    @property
    def commits_offsets(self) -> bool:
        """True if offsets are committed to the group when a checkpoint is complete."""
        wanted = str(self.properties.get("commit.offsets.on.checkpoint", "true")).lower()
        return self.group_id is not None and wanted == "true"

    def client_properties(self, suffix: str) -> dict[str, Any]:
        """Return the properties of a client of this source."""
        own = {key: value for key, value in self.properties.items() if key not in SOURCE_PROPERTIES}
        prefix = self.properties.get("client.id.prefix") or self.group_id or "funken"
        reset = self.starting.reset.value
        return {
            "auto.offset.reset": reset,
            "client.id": f"{prefix}-{suffix}",
            "group.id": "funken",  # the client wants one; nothing is committed to it
            # What waits in the client for a reader that does not read, e.g. one that is throttled, is bounded.
            "queued.max.messages.kbytes": "16384",
            # A partition whose queue was full is asked for again after this time: by default a second, in which a reader idles.
            "fetch.queue.backoff.ms": "5",
            **own,
            "bootstrap.servers": self.servers,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": self.stopping is not None,
        }

    @property
    def never_waits(self) -> bool:
        """True if ``poll`` only computes: a thread of its own fetches."""
        schema = self.deserializer
        return schema.never_waits and declares(schema, "never_waits", "deserialize")

    @property
    def makes_blocks(self) -> bool:
        """Return True if the deserializer makes blocks."""
        return self.deserializer.makes_blocks  # type: ignore[no-any-return]

    def record_schema(self) -> Type:
        """Return the schema of the records, where the deserializer of values makes columns.

        If only messages show their fields, the newest of some partitions are looked at.

        >>> from funken import Types
        >>> from funken.connectors import JsonSchema
        >>> builder = KafkaSource.builder().set_bootstrap_servers("localhost:9092").set_topics("orders")
        >>> orders = JsonSchema(Types.ROW_NAMED(["item", "n"], [Types.STRING(), Types.LONG()]))
        >>> builder.set_value_only_deserializer(orders).build().record_schema()
        Row(item: str, n: int)
        """
        if type(self.deserializer) is SimpleStringSchema:
            return text_schema(self.deserializer.charset, self._texts)
        if self.deserializer.needs_sample:
            return self._schema_of_sample(self._sample())
        schema: Type = self.deserializer.record_schema()
        return schema

    def _texts(self) -> list[str]:
        return [message.decode(errors="replace") for message in self._sample()]

    def _schema_of_sample(self, messages: list[bytes]) -> Type:
        try:
            schema: Type = self.deserializer.schema_of_sample(messages)
        except NotVectorizable:
            raise NotVectorizable(f"its newest messages have no fields in common; {_DECLARE}") from None
        return schema

    def _sample(self) -> list[bytes]:
        """Return values of the newest messages; raise ``NotVectorizable`` if there are none, or they do not come in time."""
        try:
            with Cluster(self.client_properties("sample"), timeout=_SAMPLE_S) as cluster:
                partitions = cluster.partitions(self.subscription, strict=False)[:_SAMPLE_PARTITIONS]
                found = cluster.newest(partitions, _SAMPLE_MESSAGES // max(1, len(partitions)))
        except (SourceNotReadable, EnvironmentNotReady):
            raise NotVectorizable(f"no message can be looked at; {_DECLARE}") from None
        if not found:
            raise NotVectorizable(f"there is no message yet whose fields it could know; {_DECLARE}")
        return found

    def enumerator(self, parallelism: int) -> KafkaEnumerator:
        """Make the enumerator."""
        return KafkaEnumerator(
            self.subscription,
            self.starting,
            self.stopping,
            self.discovery_interval,
            self.client_properties,
            parallelism,
        )

    def reader(self, context: ConnectorContext) -> KafkaReader:
        """Make a reader."""
        return KafkaReader(
            self.client_properties(f"{context.operator_uid or context.operator}-{context.subtask}"),
            self.deserializer,
            self.malformed,
            self.commits_offsets,
            self.boundedness is Boundedness.BOUNDED or self.stopping is not None,
            context,
        )


def _number(value: Any) -> Any:
    text = str(value).strip()
    return int(text) if re.fullmatch(r"-?\d+", text) else value


@dataclass(frozen=True)
class KafkaSourceBuilder(Generic[T_co]):
    """PyFlink's way to describe a Kafka source; each call returns a new builder.

    >>> from funken.connectors import SimpleStringSchema
    >>> builder = (
    ...     KafkaSource.builder()
    ...     .set_bootstrap_servers("localhost:9092")
    ...     .set_topic_pattern("orders-.*")
    ...     .set_group_id("billing")
    ...     .set_starting_offsets(KafkaOffsetsInitializer.committed_offsets())
    ...     .set_bounded(KafkaOffsetsInitializer.latest())
    ...     .set_value_only_deserializer(SimpleStringSchema())
    ... )
    >>> builder.build().boundedness.name
    'BOUNDED'
    >>> KafkaSource.builder().set_bootstrap_servers("localhost:9092").build()
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: a Kafka source has nothing to read; call set_topics(), set_topic_pattern() or
    set_partitions().
    """

    source: KafkaSource[T_co]

    def _with(self, **changes: Any) -> KafkaSourceBuilder[Any]:
        return KafkaSourceBuilder(replace(self.source, **changes))

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder[T_co]:
        """Set the brokers to begin with, ``host:port,...``."""
        return self._with(servers=bootstrap_servers)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder[T_co]:
        """Read all partitions of these topics."""
        return self._with(subscription=Subscription(topics=topics))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder[T_co]:
        """Read all topics whose whole name matches a regular expression, also those that are made later."""
        try:
            re.compile(topic_pattern)
        except re.error as error:
            raise InvalidConfiguration(f"{topic_pattern!r} is no regular expression ({error}); correct it.") from None
        return self._with(subscription=Subscription(pattern=topic_pattern))

    def set_partitions(self, partitions: Collection[KafkaTopicPartition]) -> KafkaSourceBuilder[T_co]:
        """Read these partitions."""
        chosen = tuple(sorted(KafkaTopicPartition(*each) for each in partitions))
        return self._with(subscription=Subscription(partitions=chosen))

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder[T_co]:
        """Set the consumer group that offsets are committed to, and read from by ``committed_offsets()``."""
        return self.set_property("group.id", group_id)

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder[T_co]:
        """Set the beginning of the client ids."""
        return self.set_property("client.id.prefix", prefix)

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder[T_co]:
        """Set where to begin, if the job does not start from a checkpoint; by default at the oldest record."""
        check_kind(
            starting_offsets_initializer,
            KafkaOffsetsInitializer,
            "set_starting_offsets()",
            "See its methods: earliest() ...",
        )
        return self._with(starting=starting_offsets_initializer)

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder[T_co]:
        """End at these offsets, which are asked for when the job starts; the job may run as ``BATCH``."""
        return self._with(stopping=stopping_offsets_initializer, boundedness=Boundedness.BOUNDED)

    def set_unbounded(
        self, stopping_offsets_initializer: KafkaOffsetsInitializer | None = None
    ) -> KafkaSourceBuilder[T_co]:
        """Run as a streaming job; with an argument it ends at these offsets nevertheless."""
        return self._with(stopping=stopping_offsets_initializer, boundedness=Boundedness.CONTINUOUS_UNBOUNDED)

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema[S]) -> KafkaSourceBuilder[S]:
        """Make records of the values by a ``DeserializationSchema``; records without a value are dropped."""
        return self._with(deserializer=deserialization_schema)

    def set_deserializer(self, record_deserializer: KafkaRecordDeserializationSchema[S]) -> KafkaSourceBuilder[S]:
        """Make records by a schema that sees key, headers, timestamp, topic, partition and offset, too."""
        return self._with(deserializer=record_deserializer)

    def set_malformed_record_policy(self, policy: MalformedRecordPolicy) -> KafkaSourceBuilder[T_co]:
        """Decide about messages that the deserializer cannot read; by default they fail the job."""
        return self._with(malformed=policy)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder[T_co]:
        """Set a property of the client (librdkafka's), or one of Flink's source."""
        return self._with(properties={**self.source.properties, key: value})

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder[T_co]:
        """Set several properties."""
        return self._with(properties={**self.source.properties, **props})

    def build(self) -> KafkaSource[T_co]:
        """Return the source; raises ``InvalidConfiguration`` if something is missing."""
        source = self.source
        servers = checked_servers(
            source.servers or source.properties.get("bootstrap.servers", ""), "a Kafka source", source.properties
        )
        if source.subscription == NOTHING:
            raise InvalidConfiguration(
                "a Kafka source has nothing to read; call set_topics(), set_topic_pattern() or set_partitions()."
            )
        if source.deserializer is None:
            raise InvalidConfiguration(
                "a Kafka source has no deserializer; call set_value_only_deserializer() or set_deserializer()."
            )
        if (
            "committed" in {source.starting.kind, source.stopping.kind if source.stopping else ""}
            and not source.group_id
        ):
            raise InvalidConfiguration("committed_offsets() needs a consumer group; call set_group_id().")
        check_schema(source.deserializer, DeserializationSchema, "Kafka source")
        properties = client_properties(source.properties, "Kafka source")
        return replace(source, servers=servers, properties=properties)
