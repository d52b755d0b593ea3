"""``'connector' = 'redis'`` and ``'http'``: streams and hashes of Redis, and pages and hooks of web services."""

from __future__ import annotations

import importlib
import types
from collections.abc import Sequence
from typing import Any

from funken.connectors.http import HttpSource, WebhookSink
from funken.connectors.redis import RedisMessage, RedisServer, RedisSink, RedisStreamSource
from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.table.changelog import ChangelogMode
from funken.table.connectors.contract import LookupTable, ScanTable, SinkTable, TableContext
from funken.table.connectors.factory import TableFactory
from funken.table.connectors.formats import Columns, format_options, table_format
from funken.table.connectors.json_values import JsonRules, text_reader, writer_of
from funken.table.connectors.options import ConnectorOption, OptionValues, boolean, duration, integer, positive, text
from funken.types.row import Row, RowKind

_REDIS = (
    ConnectorOption("url"),
    ConnectorOption("stream", text, None),
    ConnectorOption("key-prefix", text, ""),
    ConnectorOption("scan.startup.mode", text, "earliest"),
    ConnectorOption("scan.bounded", boolean, False),
    ConnectorOption("sink.parallelism", positive, None),
)
_HTTP = (
    ConnectorOption("url"),
    ConnectorOption("format"),
    ConnectorOption("headers.*", text, None),
    ConnectorOption("scan.interval", duration, None),
    ConnectorOption("sink.batch-size", integer, 100),
    ConnectorOption("sink.method", text, "POST"),
    ConnectorOption("sink.parallelism", positive, None),
)

# ---- redis


def _texts(row: Any, columns: Columns) -> dict[str, str]:
    """Return the values of a row as texts, without those that are NULL."""
    rules = JsonRules()
    found = {}
    for value, (name, type_) in zip(row, columns, strict=True):
        if value is not None:
            written = value if isinstance(value, str) else writer_of(type_, rules)(value)
            found[name] = written[1:-1] if written[:1] == '"' and not isinstance(value, str) else written
    return found


def _row(fields: Any, columns: Columns) -> list[Any]:
    values = []
    for name, type_ in columns:
        written = fields.get(name)
        values.append(None if written is None else text_reader(type_)(written))
    return values


@dataclass(frozen=True)
class EntryToRow:
    """Makes rows of entries of streams, by the names of their fields."""

    columns: Columns

    def __call__(self, entry: RedisMessage) -> Row:
        """Return the row."""
        return Row(*_row(entry.fields, self.columns))


@dataclass(frozen=True)
class RowToCommand:
    """Makes commands of changes: an entry of a stream, or a hash that is set or deleted."""

    columns: Columns
    keys: tuple[int, ...]
    prefix: str
    stream: str

    def __call__(self, row: Row) -> Any:
        """Return the command."""
        fields = [part for pair in _texts(row, self.columns).items() for part in pair]
        if not self.keys:
            return ("XADD", self.stream, "*", *fields)
        key = f"{self.prefix}{':'.join(str(row[place]) for place in self.keys)}"
        if row.get_row_kind() in (RowKind.DELETE, RowKind.UPDATE_BEFORE):
            return ("DEL", key)
        return [("DEL", key), ("HSET", key, *fields)]


class RedisTable(ScanTable, SinkTable, LookupTable):
    """A stream, or hashes by their keys."""

    def __init__(self, context: TableContext, options: OptionValues, keys: Sequence[str] = ()) -> None:
        self._context, self._options = context, options
        self._server = RedisServer(options["url"])
        self._columns = context.columns
        self._keys = tuple(keys)
        self._connection: Any = None
        self.bounded = options["scan.bounded"]

    def _stream(self) -> str:
        if self._options["stream"] is None:
            raise InvalidProgram(
                f"Table {self._context.path!r}: option 'stream' is missing; a table without a key needs it."
            )
        stream: str = self._options["stream"]
        return stream

    def stream(self, env: Any) -> Any:
        """Return the entries of the stream."""
        options = self._options
        source = RedisStreamSource(
            self._server,
            [self._stream()],
            start=options["scan.startup.mode"],
            bounded=self.bounded,
            may_be_missing=True,
        )
        return env.from_source(source, None, self._context.path).map(EntryToRow(self._columns)).name("rows")

    def sink(self, stream: Any) -> Any:
        """Write the rows."""
        keys = tuple(map(self._context.names.index, self._context.primary_key))
        name = "" if keys else self._stream()
        command = RowToCommand(self._columns, keys, self._options["key-prefix"], name)
        sink = stream.sink_to(RedisSink(self._server, command)).name(self._context.path)
        count = self._options["sink.parallelism"]
        return sink if count is None else sink.set_parallelism(count)

    def open(self) -> None:
        """Connect."""
        self._connection = self._server.connect("funken lookup")

    def lookup(self, keys: Sequence[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
        """Return the hash of each key."""
        with self._connection.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.hgetall(f"{self._options['key-prefix']}{':'.join(map(str, key))}")
            found = pipeline.execute()
        made = []
        for fields in found:
            texts = {_text(name): _text(value) for name, value in fields.items()}
            made.append([tuple(_row(texts, self._columns))] if texts else [])
        return made

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class RedisUpserts(RedisTable):
    """Hashes as a sink, which takes no rows before an update."""

    changelog_mode = ChangelogMode.upsert()


class RedisAppends(RedisTable):
    """A stream as a sink."""

    changelog_mode = ChangelogMode.insert_only()


class RedisFactory(TableFactory):
    """Makes tables of Redis: with a primary key a hash per row, without one a stream.

    >>> RedisFactory().sink(TableContext("t", options={"connector": "redis"}))
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: One or more required options are missing for table 't': url.
    Set them in its WITH clause: WITH ('url' = '...').
    """

    def scan(self, context: TableContext) -> ScanTable:
        """Return a scan of the stream."""
        return RedisAppends(context, OptionValues(context.path, context.options, _REDIS))

    def sink(self, context: TableContext) -> SinkTable:
        """Return a sink to the stream, or to hashes."""
        kind = RedisUpserts if context.primary_key else RedisAppends
        return kind(context, OptionValues(context.path, context.options, _REDIS))

    def lookup(self, context: TableContext, keys: Sequence[str]) -> LookupTable:
        """Return a lookup of hashes by their key."""
        if tuple(keys) != context.primary_key:
            raise InvalidProgram(
                f"Table {context.path!r}: a hash of Redis is found by its whole primary key ({', '.join(context.primary_key)}), "
                f"but the join has: {', '.join(keys)}."
            )
        return RedisTable(context, OptionValues(context.path, context.options, _REDIS), keys)


# ---- http


@dataclass(frozen=True)
class Page:
    """The one address of a table."""

    url: str

    def __call__(self, cursor: Any) -> str:
        """Return the address."""
        return self.url


@dataclass(frozen=True)
class RowsOfPage:
    """Makes rows of a page: of an array of JSON, or a message per line."""

    decoder: DeserializationSchema

    def __call__(self, body: bytes) -> tuple[list[Any], None]:
        """Return the rows; there is no further page."""
        if body.lstrip()[:1] == b"[":
            parse = importlib.import_module("msgspec.json").decode
            raw = importlib.import_module("msgspec").Raw
            messages = [bytes(one) for one in parse(body, type=types.GenericAlias(list, raw))]
        else:
            messages = [line for line in body.splitlines() if line.strip()]
        return [row for message in messages for row in self.decoder.deserialize_all(message)], None


@dataclass(frozen=True)
class BodyOfRows:
    """Makes the body of a request: an array of JSON, or a message per line."""

    encoder: SerializationSchema
    array: bool

    def __call__(self, rows: Sequence[Any]) -> bytes:
        """Return the body."""
        messages = self.encoder.serialize_block(rows)
        return b"[" + b",".join(messages) + b"]" if self.array else b"\n".join(messages) + b"\n"


class HttpTable(ScanTable, SinkTable):
    """A page that is read once, or again and again; and a hook that rows are sent to."""

    def __init__(self, context: TableContext) -> None:
        self._context = context
        name = context.options.get("format")
        declared = (*_HTTP, *(format_options(context.path, name) if name is not None else ()))
        self._options = OptionValues(context.path, context.options, declared)
        self._format = table_format(context.path, self._options["format"], self._options)
        self.changelog_mode = self._format.changelog_mode
        self.bounded = self._options["scan.interval"] is None

    def stream(self, env: Any) -> Any:
        """Return the rows."""
        options = self._options
        source = HttpSource(
            Page(options["url"]),
            RowsOfPage(self._format.decoder(self._context.columns)),
            interval=options["scan.interval"] or 5000,
            bounded=self.bounded,
            headers=options.with_prefix("headers."),
        )
        return env.from_source(source, None, self._context.path)

    def sink(self, stream: Any) -> Any:
        """Send the rows."""
        options = self._options
        array = self._format.name.endswith("json")
        kind = "application/json" if array else "text/plain"
        sink = WebhookSink(
            options["url"],
            BodyOfRows(self._format.encoder(self._context.columns), array),
            options["sink.batch-size"],
            options["sink.method"].upper(),
            {"Content-Type": kind, **options.with_prefix("headers.")},
        )
        made = stream.sink_to(sink).name(self._context.path)
        return made if options["sink.parallelism"] is None else made.set_parallelism(options["sink.parallelism"])


class HttpFactory(TableFactory):
    """Makes tables of web services.

    >>> HttpFactory().scan(TableContext("t", options={"connector": "http", "url": "https://shop.example/orders"}))
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: One or more required options are missing for table 't': format.
    Set them in its WITH clause: WITH ('format' = '...').
    """

    def scan(self, context: TableContext) -> ScanTable:
        """Return a scan of the page."""
        return HttpTable(context)

    def sink(self, context: TableContext) -> SinkTable:
        """Return a sink that sends rows."""
        return HttpTable(context)
