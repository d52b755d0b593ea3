"""``'connector' = 'kafka'`` and ``'upsert-kafka'``: topics as tables.

A row is made of a record's value, of its key if there is a key format, and of metadata. In an upsert table the key of the record
is the primary key of the table, and a record without a value is a deletion.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from funken.connectors.kafka.client import misspelt
from funken.connectors.kafka.enumerator import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, KafkaTopicPartition
from funken.connectors.kafka.reader import (
    ConsumerRecord,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    ProducerRecord,
)
from funken.connectors.kafka.sink import KafkaSink
from funken.connectors.kafka.source import KafkaSource
from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.connectors.sink import DeliveryGuarantee
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.table.changelog import ChangelogMode
from funken.table.connectors.contract import ScanTable, SinkTable, TableContext
from funken.table.connectors.factory import TableFactory
from funken.table.connectors.formats import Columns, RawRows, format_options, table_format
from funken.table.connectors.options import (
    ConnectorOption,
    OptionValues,
    duration,
    integer,
    names,
    one_of,
    positive,
    text,
)
from funken.types.row import Row, RowKind

_STARTS = ("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets")
_ENDS = ("unbounded", *_STARTS[1:])
_KEYS = (
    ConnectorOption("properties.*", text, None),
    ConnectorOption("key.format", text, None),
    ConnectorOption("key.fields", names, ()),
    ConnectorOption("key.fields-prefix", text, ""),
    ConnectorOption("value.fields-include", one_of("all", "except_key"), "all"),
    ConnectorOption("value.format", text, None),
)
_BOUNDS = (
    ConnectorOption("scan.bounded.mode", one_of(*_ENDS), "unbounded"),
    ConnectorOption("scan.bounded.timestamp-millis", integer, None),
    ConnectorOption("scan.bounded.specific-offsets", text, None),
    ConnectorOption("scan.parallelism", positive, None),
)
_SINK = (
    ConnectorOption("sink.delivery-guarantee", one_of("at-least-once", "exactly-once", "none"), "at-least-once"),
    ConnectorOption("sink.transactional-id-prefix", text, None),
    ConnectorOption(
        "sink.transaction-naming-strategy",
        one_of("incrementing", "pooling"),
        "incrementing",
        unused="names of transactions are those of the job's own protocol",
    ),
    ConnectorOption("sink.parallelism", positive, None),
)
_TOPICS = (
    ConnectorOption("topic", names, ()),
    ConnectorOption("topic-pattern", text, None),
    ConnectorOption("scan.topic-partition-discovery.interval", duration, None),
)
_OPTIONS = (
    *_TOPICS,
    ConnectorOption("format", text, None),
    *_KEYS,
    ConnectorOption("scan.startup.mode", one_of(*_STARTS), "group-offsets"),
    ConnectorOption("scan.startup.timestamp-millis", integer, None),
    ConnectorOption("scan.startup.specific-offsets", text, None),
    *_BOUNDS,
    *_SINK,
    ConnectorOption(
        "sink.partitioner",
        one_of("default", "round-robin"),
        "default",
        unused="the producer chooses, by the key if there is one",
    ),
    ConnectorOption("sink.semantic", one_of("at-least-once", "exactly-once", "none"), None),
)
_AT_ONCE = "each change is written when it comes"
_UPSERT_OPTIONS = (
    *_TOPICS,
    *_KEYS,
    *_BOUNDS,
    *_SINK,
    ConnectorOption("sink.buffer-flush.max-rows", integer, 0, unused=_AT_ONCE),
    ConnectorOption("sink.buffer-flush.interval", duration, 0, unused=_AT_ONCE),
)

Metadata = Callable[[ConsumerRecord], Any]


def _instant(record: ConsumerRecord) -> datetime.datetime | None:
    if record.timestamp is None:
        return None
    return datetime.datetime.fromtimestamp(record.timestamp // 1000, datetime.UTC) + datetime.timedelta(
        milliseconds=record.timestamp % 1000
    )


_METADATA: dict[str, tuple[str, Metadata]] = {
    "topic": ("STRING NOT NULL", lambda record: record.topic),
    "partition": ("INT NOT NULL", lambda record: record.partition),
    "headers": ("MAP<STRING NOT NULL, BYTES NOT NULL> NOT NULL", lambda record: dict(record.headers)),
    "leader-epoch": ("INT", lambda record: None),
    "offset": ("BIGINT NOT NULL", lambda record: record.offset),
    "timestamp": ("TIMESTAMP_LTZ(3) NOT NULL", _instant),
    "timestamp-type": (
        "STRING NOT NULL",
        lambda record: "NoTimestampType" if record.timestamp is None else "CreateTime",
    ),
}
_WRITABLE = frozenset(("headers", "timestamp"))


@dataclass(frozen=True)
class TopicRows(KafkaRecordDeserializationSchema):
    """Rows of records: columns of value and key by their places, then metadata."""

    width: int
    value: DeserializationSchema
    value_places: tuple[int, ...]
    key: DeserializationSchema | None
    key_places: tuple[int, ...]
    metadata: tuple[str, ...]
    upsert: bool

    @property
    def never_waits(self) -> bool:  # type: ignore[override]
        """True if no schema asks a registry."""
        return self.value.never_waits and (self.key is None or self.key.never_waits)

    @property
    def holds_several(self) -> bool:
        """True: a record may become several rows."""
        return True

    def deserialize_all(self, record: ConsumerRecord) -> list[Any]:  # type: ignore[override]
        """Return the rows of a record."""
        behind = [_METADATA[key][1](record) for key in self.metadata]
        keys = None
        if self.key is not None and record.key is not None:
            keys = next(iter(self.key.deserialize_all(record.key)), None)
        if record.value is None and not self.upsert and isinstance(self.value, RawRows):
            return [Row(*self._placed((None,), keys), *behind)]
        if record.value is None:
            if not self.upsert or keys is None:
                return []
            return [Row.of_kind(RowKind.DELETE, *self._placed(None, keys), *behind)]
        return [
            Row.of_kind(RowKind.UPDATE_AFTER if self.upsert else row.get_row_kind(), *self._placed(row, keys), *behind)
            for row in self.value.deserialize_all(record.value)
        ]

    def _placed(self, row: Any, keys: Any) -> list[Any]:
        values: list[Any] = [None] * self.width
        for places, part in ((self.value_places, row), (self.key_places, keys)):
            if part is not None:
                for place, value in zip(places, part, strict=True):
                    values[place] = value
        return values


def _message(encoder: SerializationSchema, row: Row) -> bytes | None:
    """Return the message of a row; ``raw`` has none for NULL."""
    return None if isinstance(encoder, RawRows) and row[0] is None else encoder.serialize(row)


@dataclass(frozen=True)
class TopicRecords(KafkaRecordSerializationSchema):
    """Records of rows."""

    value: SerializationSchema | None = None
    value_places: tuple[int, ...] = ()
    key: SerializationSchema | None = None
    key_places: tuple[int, ...] = ()
    headers_place: int | None = None
    timestamp_place: int | None = None
    upsert: bool = False

    def serialize(self, value: Any) -> ProducerRecord | None:
        """Return the record of a row."""
        assert self.value is not None
        assert isinstance(self.topic, str)
        kind = value.get_row_kind()
        if self.upsert and kind is RowKind.UPDATE_BEFORE:
            return None
        key = None
        if self.key is not None:
            key = _message(self.key, Row(*(value[place] for place in self.key_places)))
        message = None
        if not (self.upsert and kind is RowKind.DELETE):
            message = _message(self.value, Row.of_kind(kind, *(value[place] for place in self.value_places)))
        headers = value[self.headers_place] if self.headers_place is not None else None
        at = value[self.timestamp_place] if self.timestamp_place is not None else None
        return ProducerRecord(
            self.topic,
            message,
            key,
            timestamp=None if at is None else round(at.timestamp() * 1000),
            headers=None if headers is None else list(headers.items()),
        )


class TopicTable(ScanTable, SinkTable):
    """A topic, or several to read."""

    takes_watermarks = True

    def __init__(self, context: TableContext, upsert: bool) -> None:
        self._context, self._upsert = context, upsert
        own = _UPSERT_OPTIONS if upsert else _OPTIONS
        given = context.options
        value_prefix = "value." if "value.format" in given else ""
        value_name, key_name = given.get(f"{value_prefix}format"), given.get("key.format")
        declared = list(own)
        if value_name is not None:
            declared += format_options(context.path, value_name, value_prefix)
        if key_name is not None:
            declared += format_options(context.path, key_name, "key.")
        self._options = options = OptionValues(context.path, given, declared)
        self._properties = options.with_prefix("properties.")
        self._check(value_name, key_name)
        topic = {"topic": options["topic"][0] if options["topic"] else ""}
        self._value = table_format(context.path, str(value_name), options, value_prefix, **topic)
        self._key = (
            None if key_name is None else table_format(context.path, key_name, options, "key.", **topic, part="key")
        )
        self._split()
        self._prefix, self._read = value_prefix, context.names
        mode = self._value.changelog_mode
        if upsert:
            mode = ChangelogMode.of(RowKind.UPDATE_AFTER, RowKind.DELETE, key_only_deletes=True)
        self.changelog_mode = mode
        self.deletes_by_key = upsert
        self.bounded = options["scan.bounded.mode"] != "unbounded"

    def _wrong(self, message: str) -> InvalidProgram:
        return InvalidProgram(f"Table {self._context.path!r}: {message}")

    def _check(self, value_name: str | None, key_name: str | None) -> None:
        options, context = self._options, self._context
        if "bootstrap.servers" not in self._properties:
            near = misspelt("bootstrap.servers", self._properties)
            raise self._wrong(f"option 'properties.bootstrap.servers' is missing; write 'host:port'.{near}")
        if value_name is None:
            either = "'value.format'" if self._upsert else "'format' or 'value.format'"
            raise self._wrong(f"a format is missing; set {either}, to 'json' for example.")
        if "format" in options and "value.format" in options:
            raise self._wrong("'format' and 'value.format' are the same option; set one of them.")
        if self._upsert:
            if not context.primary_key:
                raise self._wrong(
                    "'upsert-kafka' requires a primary key, the key of the records; declare PRIMARY KEY (..) NOT ENFORCED."
                )
            if key_name is None:
                raise self._wrong("option 'key.format' is missing; 'upsert-kafka' needs it.")
            if options["key.fields"]:
                raise self._wrong("'key.fields' has no place here: the primary key is the key of the records.")
        elif (key_name is None) != (not options["key.fields"]):
            raise self._wrong("'key.format' and 'key.fields' belong together; set both, or none.")
        if bool(options["topic"]) == (options["topic-pattern"] is not None):
            raise self._wrong("set one of 'topic' and 'topic-pattern'.")

    def _split(self) -> None:
        """Find the columns of key and value, and their places."""
        context, options = self._context, self._options
        all_names = context.names
        keys = context.primary_key if self._upsert else options["key.fields"]
        missing = [name for name in keys if name not in all_names]
        if missing:
            raise self._wrong(
                f"'key.fields' has {missing[0]!r}, which is no column; there are: {', '.join(all_names)}."
            )
        prefix = options["key.fields-prefix"]
        odd = [name for name in keys if not name.startswith(prefix)]
        if odd:
            raise self._wrong(f"column {odd[0]!r} of the key does not begin with 'key.fields-prefix' = {prefix!r}.")
        without = options["value.fields-include"] == "except_key"
        if prefix and not without:
            raise self._wrong("'key.fields-prefix' needs 'value.fields-include' = 'EXCEPT_KEY'.")
        types = dict(context.columns)
        values = [name for name in all_names if not (without and name in keys)]
        self._key_places = tuple(all_names.index(name) for name in keys)
        self._key_columns: Columns = tuple((name[len(prefix) :], types[name]) for name in keys)
        self._value_places = tuple(all_names.index(name) for name in values)
        self._value_columns: Columns = tuple((name, types[name]) for name in values)

    # ---- reading

    def selected(self, names: Sequence[str]) -> ScanTable | None:
        """Return a scan that decodes some columns only; of JSON without a key, whose fields are found by their names."""
        if (
            self._key is not None
            or self._options[f"{self._prefix}format"] != "json"
            or not set(names) <= set(self._read)
        ):
            return None
        found = copy(self)
        found._read = tuple(names)
        return found

    def stream(self, env: Any) -> Any:
        """Return the rows."""
        options, read, every = self._options, self._read, self._context.names
        values = [at for at, place in enumerate(self._value_places) if every[place] in read]
        columns = tuple(self._value_columns[at] for at in values)
        places = tuple(read.index(every[self._value_places[at]]) for at in values)
        metadata = tuple(key for key, _ in self._context.metadata)
        builder = KafkaSource.builder().set_properties(self._properties)
        if self._key is None and not metadata and self._value.name != "raw":  # a row is its value
            in_order = tuple(columns[places.index(place)] for place in range(len(read)))
            builder = builder.set_value_only_deserializer(self._value.decoder(in_order))
        else:
            key = None if self._key is None else self._key.decoder(self._key_columns)
            rows = TopicRows(
                len(read), self._value.decoder(columns), places, key, self._key_places, metadata, self._upsert
            )
            builder = builder.set_deserializer(rows)
        if options["topic-pattern"] is not None:
            builder = builder.set_topic_pattern(options["topic-pattern"])
        else:
            builder = builder.set_topics(*options["topic"])
        start = KafkaOffsetsInitializer.earliest() if self._upsert else self._offsets("startup")
        builder = builder.set_starting_offsets(start)
        interval = options["scan.topic-partition-discovery.interval"]
        if interval is not None:
            builder = builder.set_property("partition.discovery.interval.ms", str(interval))
        if self.bounded:
            builder = builder.set_bounded(self._offsets("bounded"))
        stream = env.from_source(builder.build(), self.watermarks, self._context.path)
        return stream if options["scan.parallelism"] is None else stream.set_parallelism(options["scan.parallelism"])

    def _offsets(self, which: str) -> KafkaOffsetsInitializer:
        options = self._options
        mode = options[f"scan.{which}.mode"]
        if mode == "earliest-offset":
            return KafkaOffsetsInitializer.earliest()
        if mode == "latest-offset":
            return KafkaOffsetsInitializer.latest()
        if mode == "timestamp":
            return KafkaOffsetsInitializer.timestamp(self._needed(f"scan.{which}.timestamp-millis", mode))
        if mode == "specific-offsets":
            return KafkaOffsetsInitializer.offsets(self._specific(f"scan.{which}.specific-offsets", mode))
        if "group.id" not in self._properties:
            raise self._wrong(
                f"'scan.{which}.mode' is 'group-offsets'{' by default' if which == 'startup' else ''}, which needs "
                "'properties.group.id'. Set it, or 'scan.startup.mode' = 'earliest-offset'."
                f"{misspelt('group.id', self._properties)}"
            )
        reset = self._properties.get("auto.offset.reset", "none")
        strategies = {"earliest": KafkaOffsetResetStrategy.EARLIEST, "latest": KafkaOffsetResetStrategy.LATEST}
        return KafkaOffsetsInitializer.committed_offsets(strategies.get(reset, KafkaOffsetResetStrategy.NONE))

    def _needed(self, key: str, mode: str) -> Any:
        if self._options[key] is None:
            raise self._wrong(f"mode {mode!r} needs option {key!r}.")
        return self._options[key]

    def _specific(self, key: str, mode: str) -> dict[KafkaTopicPartition, int]:
        """Return the offsets of a text such as ``partition:0,offset:42;partition:1,offset:300``."""
        written: str = self._needed(key, mode)
        found = {}
        for part in filter(None, map(str.strip, written.split(";"))):
            try:
                pairs = dict(pair.split(":") for pair in part.split(","))
                partition = KafkaTopicPartition(self._options["topic"][0], int(pairs["partition"]))
                found[partition] = int(pairs["offset"])
            except (ValueError, KeyError):
                raise self._wrong(
                    f"{key!r} is {written!r}, but has the form 'partition:0,offset:42;partition:1,offset:300'."
                ) from None
        return found

    # ---- writing

    def sink(self, stream: Any) -> Any:
        """Write the rows."""
        options, asked = self._options, [key for key, _ in self._context.metadata]
        if len(options["topic"]) != 1:
            raise self._wrong("one 'topic' is needed to write, and no pattern.")
        first = len(self._context.names)
        places = {key: first + index for index, key in enumerate(asked)}
        records = TopicRecords(
            topic=options["topic"][0],
            value=self._value.encoder(self._value_columns),
            value_places=self._value_places,
            key=None if self._key is None else self._key.encoder(self._key_columns),
            key_places=self._key_places,
            headers_place=places.get("headers"),
            timestamp_place=places.get("timestamp"),
            upsert=self._upsert,
        )
        wanted = options["sink.delivery-guarantee"]
        if not self._upsert and options["sink.semantic"] is not None:
            wanted = options["sink.semantic"]
        guarantee = DeliveryGuarantee[wanted.replace("-", "_").upper()]
        builder = KafkaSink.builder().set_properties(self._properties).set_record_serializer(records)
        builder = builder.set_delivery_guarantee(guarantee)
        if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            prefix = self._needed("sink.transactional-id-prefix", "exactly-once")
            builder = builder.set_transactional_id_prefix(prefix)
        sink = stream.sink_to(builder.build()).name(self._context.path)
        return sink if options["sink.parallelism"] is None else sink.set_parallelism(options["sink.parallelism"])


class UpsertTopicTable(TopicTable):
    """A topic of upserts as a sink, which takes no rows before an update."""

    def __init__(self, context: TableContext) -> None:
        super().__init__(context, upsert=True)
        self.changelog_mode = ChangelogMode.upsert()


class KafkaFactory(TableFactory):
    """Makes tables of topics."""

    upsert = False
    writable_metadata = _WRITABLE

    def metadata_of(self, context: TableContext) -> dict[str, str]:
        """Return the types of a record's metadata, beside key and value."""
        return {key: type_ for key, (type_, _) in _METADATA.items()}

    def scan(self, context: TableContext) -> ScanTable:
        """Return a scan of topics."""
        return TopicTable(context, self.upsert)

    def sink(self, context: TableContext) -> SinkTable:
        """Return a sink to a topic."""
        return UpsertTopicTable(context) if self.upsert else TopicTable(context, False)


class UpsertKafkaFactory(KafkaFactory):
    """Makes tables of topics whose records replace those with the same key.

    >>> options = {"connector": "upsert-kafka", "topic": "t", "properties.bootstrap.servers": "b:9092"}
    >>> UpsertKafkaFactory().sink(TableContext("t", options={**options, "value.format": "json"}))
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: Table 't': 'upsert-kafka' requires a primary key, the key of the records; declare ...
    """

    upsert = True
