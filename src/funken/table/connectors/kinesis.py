"""Streams of Amazon as tables, by Flink's options: ``kinesis`` reads and appends, ``firehose`` appends."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from funken.connectors.base import ConnectorContext
from funken.connectors.kinesis import (
    FirehoseSink,
    KinesisConnection,
    KinesisReader,
    KinesisShard,
    KinesisSink,
    KinesisSource,
    random_key,
)
from funken.connectors.schemas import DeserializationSchema
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.expr.sql.formats import parse_time
from funken.table.connectors.contract import ScanTable, SinkTable, TableContext
from funken.table.connectors.factory import TableFactory
from funken.table.connectors.formats import format_options, table_format
from funken.table.connectors.options import (
    ConnectorOption,
    OptionValues,
    boolean,
    duration,
    integer,
    memory_bytes,
    one_of,
    positive,
    refused,
    text,
)
from funken.table.values import java_text
from funken.types.row import Row

_TIME_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"
_PROVIDERS = ("auto", "basic", "profile", "env_var")
_ASK = "KinesisConnection takes keys, a profile, or those of the environment and the machine"
_BLOCKS = "records are sent block by block"
_COMMON = (
    ConnectorOption("format"),
    ConnectorOption("aws.region", text, None),
    ConnectorOption("aws.endpoint", text, None),
    ConnectorOption("aws.trust.all.certificates", refused("certificates are checked"), None),
    ConnectorOption("aws.credentials.provider", one_of(*_PROVIDERS), "auto"),
    ConnectorOption("aws.credentials.basic.accesskeyid", text, None),
    ConnectorOption("aws.credentials.basic.secretkey", text, None),
    ConnectorOption("aws.credentials.profile.name", text, None),
    ConnectorOption(
        "aws.credentials.profile.path", refused("set AWS_SHARED_CREDENTIALS_FILE in the environment"), None
    ),
    ConnectorOption("aws.credentials.role.*", text, None),
    ConnectorOption("aws.credentials.webIdentityToken.file", refused(_ASK), None),
    ConnectorOption("aws.credentials.custom.class", refused(_ASK), None),
    ConnectorOption("sink.fail-on-error", boolean, True, unused="a record that the service refuses fails the job"),
    ConnectorOption("sink.batch.max-size", positive, 500),
    ConnectorOption("sink.requests.max-inflight", integer, 50, unused=_BLOCKS),
    ConnectorOption("sink.requests.max-buffered", integer, 10_000, unused=_BLOCKS),
    ConnectorOption("sink.flush-buffer.size", memory_bytes, 5 << 20, unused=_BLOCKS),
    ConnectorOption("sink.flush-buffer.timeout", duration, 5000, unused=_BLOCKS),
    ConnectorOption("sink.parallelism", positive, None),
)
"""The options of both connectors."""
_OPTIONS = (
    ConnectorOption("stream", text, None),
    ConnectorOption("stream.arn", text, None),
    ConnectorOption("source.init.position", one_of("latest", "trim_horizon", "at_timestamp"), None),
    ConnectorOption("source.init.timestamp", text, None),
    ConnectorOption("source.init.timestamp.format", text, _TIME_FORMAT),
    ConnectorOption("source.reader.type", one_of("polling", "efo"), "polling", unused="shards are polled"),
    ConnectorOption("source.shard.discovery.interval", duration, 10_000, unused="shards are listed every 10 s"),
    ConnectorOption("source.shard.get-records.*", text, None, unused="the reader chooses the size of its requests"),
    ConnectorOption("source.efo.*", text, None, unused="shards are polled"),
    ConnectorOption("scan.stream.initpos", one_of("latest", "trim_horizon", "at_timestamp"), "latest"),
    ConnectorOption("scan.stream.initpos-timestamp", text, None),
    ConnectorOption("scan.stream.initpos-timestamp-format", text, _TIME_FORMAT),
    ConnectorOption("scan.stream.recordpublisher", one_of("polling", "efo"), "polling", unused="shards are polled"),
    ConnectorOption("scan.stream.efo.*", text, None, unused="shards are polled"),
    ConnectorOption("scan.shard.*", text, None, unused="the reader chooses the size of its requests"),
    ConnectorOption("scan.bounded", boolean, False),
    ConnectorOption("scan.parallelism", positive, None),
    ConnectorOption("sink.partitioner", one_of("random", "fixed"), None),
    ConnectorOption("sink.partitioner-field-delimiter", text, "|"),
    ConnectorOption(
        "sink.producer.*", text, None, unused="records are written by PutRecords, without Amazon's producer"
    ),
    *_COMMON,
)
_POSITIONS = (
    ("source.init.position", "source.init.timestamp", "source.init.timestamp.format"),
    ("scan.stream.initpos", "scan.stream.initpos-timestamp", "scan.stream.initpos-timestamp-format"),
)
"""The options of the place to begin at: those of today, and those of Flink 1.19 and before."""
_METADATA = {
    "timestamp": "TIMESTAMP_LTZ(3) NOT NULL",
    "shard-id": "VARCHAR(128) NOT NULL",
    "sequence-number": "VARCHAR(128) NOT NULL",
}


@dataclass(frozen=True)
class ShardRows(DeserializationSchema):
    """Rows of the records of a shard, with metadata behind the columns."""

    inner: DeserializationSchema
    metadata: tuple[str, ...]

    @property
    def holds_several(self) -> bool:
        """True: a record may become several rows."""
        return True

    def deserialize_all(self, message: Any) -> list[Any]:
        """Return the rows of a record."""
        about, data = message
        behind = [about[key] for key in self.metadata]
        return [Row.of_kind(row.get_row_kind(), *row, *behind) for row in self.inner.deserialize_all(data)]


@dataclass(frozen=True)
class TableSource(KinesisSource):
    """Reads records with what is known about them."""

    def reader(self, context: ConnectorContext) -> KinesisReader:
        """Make a reader."""
        return TableReader(self, context)


class TableReader(KinesisReader):
    """Hands a record to its schema with its time, its shard and its number."""

    def payload(self, split: KinesisShard, record: Any) -> Any:
        """Return what is known about a record, and its bytes."""
        about = {
            "timestamp": record["ApproximateArrivalTimestamp"].astimezone(datetime.UTC),
            "shard-id": split.shard,
            "sequence-number": record["SequenceNumber"],
        }
        return about, record["Data"]

    def data(self, message: Any) -> bytes:
        """Return the bytes of a message, for errors."""
        return bytes(message[1])


@dataclass(frozen=True)
class FieldsKey:
    """The key of a record's shard: the values of some columns as Java's texts, joined; or one per subtask."""

    fields: tuple[tuple[int, Any], ...]
    delimiter: str

    def __call__(self, row: Any) -> str:
        """Return the key of a row; it has up to 256 characters."""
        shown = ("null" if row[place] is None else java_text(row[place], type_) for place, type_ in self.fields)
        return self.delimiter.join(shown)[:256]


class AmazonTable(SinkTable):
    """The common part of tables of Amazon's streams: options, a format, a connection."""

    def __init__(self, context: TableContext, declared: tuple[ConnectorOption, ...]) -> None:
        name = context.options.get("format")
        declared = (*declared, *(() if name is None else format_options(context.path, name)))
        self._context = context
        self._options = options = OptionValues(context.path, context.options, declared)
        self._format = table_format(context.path, options["format"], options)
        self.changelog_mode = self._format.changelog_mode
        role = [key for key in context.options if key.startswith("aws.credentials.role.")]
        if role:
            raise self._wrong(f"{role[0]!r} is not supported: {_ASK}. Name the role in a profile.")

    def _wrong(self, message: str) -> InvalidProgram:
        return InvalidProgram(f"Table {self._context.path!r}: {message}")

    def _in_region(self, named: str | None = None) -> str:
        """Return the region: that of the option, else one that is ``named`` elsewhere."""
        region = self._options["aws.region"] or named
        if not region:
            raise self._wrong("option 'aws.region' is missing; write 'eu-central-1', for example.")
        return str(region)

    def _connection(self, region: str) -> KinesisConnection:
        options = self._options
        key, secret = (options[f"aws.credentials.basic.{part}"] for part in ("accesskeyid", "secretkey"))
        provider = options["aws.credentials.provider"]
        if provider == "basic" and None in (key, secret):
            raise self._wrong(
                "the provider BASIC needs 'aws.credentials.basic.accesskeyid' and 'aws.credentials.basic.secretkey'."
            )
        profile = options["aws.credentials.profile.name"] or ("default" if provider == "profile" else None)
        return KinesisConnection(region, options["aws.endpoint"], key, secret, profile=profile)

    def _write(self, stream: Any, sink: KinesisSink) -> Any:
        """Write the rows to a sink."""
        made = stream.sink_to(sink).name(self._context.path)
        count = self._options["sink.parallelism"]
        return made if count is None else made.set_parallelism(count)


class KinesisTable(AmazonTable, ScanTable):
    """A stream that is read or appended to."""

    def __init__(self, context: TableContext) -> None:
        super().__init__(context, _OPTIONS)
        self.bounded = self._options["scan.bounded"]
        self._stream, self._region = self._place()

    def _place(self) -> tuple[str, str]:
        """Return the name of the stream, and its region."""
        stream, arn, region = self._options["stream"], self._options["stream.arn"], None
        if (stream is None) == (arn is None):
            raise self._wrong("set one of 'stream.arn' and 'stream'.")
        if arn is not None:
            parts = arn.split(":", 5)
            if len(parts) != 6 or not parts[5].startswith("stream/"):
                raise self._wrong(
                    f"'stream.arn' is {arn!r}, but has the form 'arn:aws:kinesis:region:account:stream/name'."
                )
            stream, region = parts[5].removeprefix("stream/"), parts[3]
        return stream, self._in_region(region)

    def _start(self) -> str | int:
        """Return the place to begin at."""
        options = self._options
        position, key, pattern = _POSITIONS[options["source.init.position"] is None]
        if options[position] != "at_timestamp":
            return str(options[position].upper())
        written, form = options[key], options[pattern]
        if written is None:
            raise self._wrong(f"the position AT_TIMESTAMP needs {key!r}.")
        try:
            return round(float(written) * 1000)  # seconds since 1970
        except ValueError:
            found = parse_time(written, form)
        if found is None:
            raise self._wrong(f"{key!r} is {written!r}, which is no number of seconds and no time by {form!r}.")
        return found[0] // 10**6 - (found[1] or datetime.timedelta(0)) // datetime.timedelta(milliseconds=1)

    def stream(self, env: Any) -> Any:
        """Return the rows."""
        metadata = tuple(key for key, _ in self._context.metadata)
        schema: Any = self._format.decoder(self._context.columns)
        kind: Callable[..., KinesisSource] = KinesisSource
        if metadata:
            schema, kind = ShardRows(schema, metadata), TableSource
        source = kind(self._connection(self._region), self._stream, schema, self._start(), self.bounded)
        stream = env.from_source(source, self.watermarks, self._context.path)
        count = self._options["scan.parallelism"]
        return stream if count is None else stream.set_parallelism(count)

    def sink(self, stream: Any) -> Any:
        """Write the rows."""
        context, options = self._context, self._options
        keys, partitioner = context.partition_keys, options["sink.partitioner"]
        if keys and partitioner is not None:
            raise self._wrong("'sink.partitioner' and PARTITIONED BY contradict one another. Leave out one of them.")
        if partitioner == "fixed":
            raise self._wrong("'sink.partitioner' = 'fixed' is not supported; PARTITIONED BY columns, or leave it out.")
        types = dict(context.columns)
        fields = tuple((context.names.index(key), types[key]) for key in keys)
        key: Callable[[Any], str] = random_key
        if fields:
            key = FieldsKey(fields, options["sink.partitioner-field-delimiter"])
        encoder = self._format.encoder(context.columns)
        connection = self._connection(self._region)
        written = KinesisSink(connection, self._stream, encoder, key, options["sink.batch.max-size"])
        return self._write(stream, written)


class FirehoseTable(AmazonTable):
    """A delivery stream that is appended to."""

    def __init__(self, context: TableContext) -> None:
        super().__init__(context, (ConnectorOption("delivery-stream"), *_COMMON))
        self._connected = self._connection(self._in_region())
        self._stream, self._count = self._options["delivery-stream"], self._options["sink.batch.max-size"]

    def sink(self, stream: Any) -> Any:
        """Write the rows."""
        encoder = self._format.encoder(self._context.columns)
        return self._write(stream, FirehoseSink(self._connected, self._stream, encoder, max_records=self._count))


class KinesisFactory(TableFactory):
    """Makes tables of data streams.

    >>> KinesisFactory().scan(TableContext("t", options={"connector": "kinesis", "format": "json", "stream": "orders"}))
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: Table 't': option 'aws.region' is missing; write 'eu-central-1', for example.
    """

    metadata = _METADATA

    def scan(self, context: TableContext) -> ScanTable:
        """Return a scan of the stream."""
        return KinesisTable(context)

    def sink(self, context: TableContext) -> SinkTable:
        """Return a sink to the stream."""
        return KinesisTable(context)


class FirehoseFactory(TableFactory):
    """Makes tables of delivery streams.

    >>> FirehoseFactory().sink(TableContext("t", options={"connector": "firehose", "format": "json", "delivery-stream": "s"}))
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: Table 't': option 'aws.region' is missing; write 'eu-central-1', for example.
    """

    def sink(self, context: TableContext) -> SinkTable:
        """Return a sink to the delivery stream."""
        return FirehoseTable(context)
