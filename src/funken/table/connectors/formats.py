"""Formats of messages by their options: JSON, CSV, Avro, protocol buffers, raw values, and the envelopes of change data capture.

A format makes a *decoder*, a ``DeserializationSchema`` whose records are ``Row``s with kinds, and an *encoder*, a
``SerializationSchema`` that takes such rows. The values of rows are by position.
"""

from __future__ import annotations

import codecs
import csv
import difflib
import functools
import importlib
import io
import json
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from funken.columnar.block import Block
from funken.connectors.formats.avro_schema import AvroSchema
from funken.connectors.formats.csv_schema import CsvSchema
from funken.connectors.formats.json_columns import PLAIN_NAME
from funken.connectors.formats.protobuf_schema import ProtobufSchema
from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.table.changelog import ChangelogMode
from funken.table.connectors.json_values import (
    JsonBlocks,
    JsonReader,
    JsonRules,
    JsonWriter,
    avro_type,
    parsed_json,
    text_reader,
    text_writer,
    unchanged,
)
from funken.table.connectors.options import ConnectorOption, OptionValues, boolean, one_of, pem_file, refused, text
from funken.table.connectors.protobuf_rows import ProtobufRows, check_columns
from funken.table.types import LogicalType, RowType, VarCharType
from funken.table.values import to_python
from funken.types.info import Types
from funken.types.row import Row, RowKind

Columns = tuple[tuple[str, LogicalType], ...]
_PLAIN = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "CHAR", "VARCHAR"})
"""Types whose columns are written as text without their values."""
_ADDED = (RowKind.INSERT, RowKind.UPDATE_AFTER)


@dataclass(frozen=True)
class TableFormat:
    """A format with its options, for a table at a path."""

    name: str
    path: str
    options: Mapping[str, Any]
    changelog_mode: ChangelogMode
    """The kinds that the decoder gives and the encoder takes."""
    make_decoder: Callable[[TableFormat, Columns], DeserializationSchema]
    make_encoder: Callable[[TableFormat, Columns], SerializationSchema] | None

    def decoder(self, columns: Columns) -> DeserializationSchema:
        """Return the decoder of messages to columns."""
        return self.make_decoder(self, columns)

    def encoder(self, columns: Columns) -> SerializationSchema:
        """Return the encoder of columns to messages."""
        if self.make_encoder is None:
            raise InvalidProgram(
                f"Table {self.path!r}: format {self.name!r} is read only; choose another one to write."
            )
        return self.make_encoder(self, columns)


# ---- json


def json_rules(format_: TableFormat) -> JsonRules:
    """Return the rules that the options of a format of JSON say; raises ``InvalidProgram`` if they contradict one another."""
    options = format_.options
    rules = JsonRules(
        iso=options["timestamp-format.standard"] == "iso-8601",
        ignores_errors=options["ignore-parse-errors"],
        fails_on_missing=options.get("fail-on-missing-field", False),
        null_keys=options["map-null-key.mode"],
        null_key=options["map-null-key.literal"],
        plain_decimals=options["encode.decimal-as-plain-number"],
        skips_nulls=options["encode.ignore-null-fields"],
    )
    if rules.ignores_errors and rules.fails_on_missing:
        raise InvalidProgram(
            f"Table {format_.path!r}: fail-on-missing-field and ignore-parse-errors shouldn't both be true. Set one of them to "
            "'false'."
        )
    return rules


@dataclass(frozen=True)
class JsonRows(DeserializationSchema, SerializationSchema):
    """JSON objects as rows.

    >>> from funken.table.types import DataTypes
    >>> rows = JsonRows((("word", DataTypes.STRING()), ("n", DataTypes.INT())), JsonRules())
    >>> rows.deserialize_all(b'{"n": "7", "word": 1.50}'), rows.serialize(Row("to", None))
    ([<Row('1.50', 7)>], b'{"word":"to","n":null}')
    """

    columns: Columns
    rules: JsonRules

    never_waits = True

    @functools.cached_property
    def _reader(self) -> JsonReader:
        return JsonReader(self.columns, self.rules)

    @functools.cached_property
    def _writer(self) -> JsonWriter:
        return JsonWriter(self.columns, self.rules)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.columns, self.rules)

    def deserialize_all(self, message: bytes) -> list[Any]:
        """Return the row of an object, or those of an array; none for nothing, or what cannot be read if errors are ignored."""
        if not message:
            return []
        try:
            document = parsed_json(message)
            if document is None:
                raise ValueError("it is null, and no object")
            documents = document if isinstance(document, list) else [document]
            rows = map(self._reader.values, documents)
            return [Row(*values) for values in rows if values is not None]
        except ValueError:
            if self.rules.ignores_errors:
                return []
            raise

    @property
    def makes_blocks(self) -> bool:
        """Return True if the parser can look for all fields."""
        return bool(self.columns) and all(PLAIN_NAME.fullmatch(name) for name, _ in self.columns)

    def lines_to_blocks(self) -> Callable[[bytes], Block | None]:
        """Return what makes blocks of lines."""
        return JsonBlocks(self.columns, self.rules).of_lines

    def serialize(self, value: Any) -> bytes:
        """Write a row as an object."""
        return self._writer.text(value).encode()

    takes_columns = True

    def messages_of(self, block: Any) -> list[bytes]:
        """Write the rows of a table's block."""
        columns = zip(block.batch.columns, self.columns, strict=True)
        texts = self._writer.texts([to_python(column, type_) for column, (_, type_) in columns])
        return [text.encode() for text in texts]


# ---- change data capture in JSON

Change = tuple[RowKind, Any]


def _debezium(event: Any, overlaid: Callable[[Any, Any], Any]) -> list[Change]:
    if "op" not in event and isinstance(event.get("payload"), dict):
        event = event["payload"]
    kind, before, after = event.get("op"), event.get("before"), event.get("after")
    return _with_images({"c": "I", "r": "I", "u": "U", "d": "D"}.get(kind, ""), before, after, kind)


def _ogg(event: Any, overlaid: Callable[[Any, Any], Any]) -> list[Change]:
    kind = event.get("op_type")
    if kind == "T":
        return []
    return _with_images(kind if kind in ("I", "U", "D") else "", event.get("before"), event.get("after"), kind)


def _with_images(kind: str, before: Any, after: Any, written: Any) -> list[Change]:
    if not kind:
        raise ValueError(f"its operation is {written!r}, which is no insertion, update or deletion")
    if kind != "I" and before is None:
        raise ValueError(
            f'its field "before" is null, but a change {written!r} needs it; for PostgreSQL: ALTER TABLE ... REPLICA IDENTITY '
            "FULL"
        )
    if kind == "I":
        return [(RowKind.INSERT, after)]
    return (
        [(RowKind.DELETE, before)] if kind == "D" else [(RowKind.UPDATE_BEFORE, before), (RowKind.UPDATE_AFTER, after)]
    )


def _canal(event: Any, overlaid: Callable[[Any, Any], Any]) -> list[Change]:
    kind, data, old = event.get("type"), event.get("data"), event.get("old")
    if kind in ("CREATE", "QUERY", "ALTER", "TRUNCATE", "ERASE", "RENAME"):
        return []
    if kind not in ("INSERT", "UPDATE", "DELETE") or not isinstance(data, list):
        raise ValueError(f"its type is {kind!r}, which is no INSERT, UPDATE or DELETE with data")
    if kind == "UPDATE":
        if not isinstance(old, list):
            raise ValueError('its field "old" is no array, but an UPDATE needs it')
        pairs = zip(data, old, strict=True)
        return [
            change
            for after, earlier in pairs
            for change in ((RowKind.UPDATE_BEFORE, overlaid(after, earlier)), (RowKind.UPDATE_AFTER, after))
        ]
    return [(RowKind.INSERT if kind == "INSERT" else RowKind.DELETE, one) for one in data]


def _maxwell(event: Any, overlaid: Callable[[Any, Any], Any]) -> list[Change]:
    kind, data = event.get("type"), event.get("data")
    if kind in ("insert", "bootstrap-insert"):
        return [(RowKind.INSERT, data)]
    if kind == "delete":
        return [(RowKind.DELETE, data)]
    if kind == "update":
        if not isinstance(event.get("old"), dict):
            raise ValueError('its field "old" is no object, but an update needs it')
        return [(RowKind.UPDATE_BEFORE, overlaid(data, event["old"])), (RowKind.UPDATE_AFTER, data)]
    if kind in (
        "bootstrap-start",
        "bootstrap-complete",
        "table-create",
        "table-alter",
        "table-drop",
        "database-create",
    ):
        return []
    raise ValueError(f"its type is {kind!r}, which is no insert, update or delete")


_ENVELOPES: dict[str, tuple[Callable[[Any, Callable[[Any, Any], Any]], list[Change]], str, str]] = {
    "debezium-json": (_debezium, '{{"before":null,"after":{0},"op":"c"}}', '{{"before":{0},"after":null,"op":"d"}}'),
    "ogg-json": (_ogg, '{{"before":null,"after":{0},"op_type":"I"}}', '{{"before":{0},"after":null,"op_type":"D"}}'),
    "canal-json": (_canal, '{{"data":[{0}],"type":"INSERT"}}', '{{"data":[{0}],"type":"DELETE"}}'),
    "maxwell-json": (_maxwell, '{{"data":{0},"type":"insert"}}', '{{"data":{0},"type":"delete"}}'),
}
"""The functions that find the changes of an event, and that write a row as an insertion and as a deletion."""


def _overlaid(after: Any, old: Any) -> Any:
    """Return the row before an update: ``old`` has the fields that changed only."""
    return {**after, **old} if isinstance(after, dict) and isinstance(old, dict) else old


@dataclass(frozen=True)
class ChangeRows(DeserializationSchema, SerializationSchema):
    """Changes of a table as a tool of change data capture tells them in JSON; ``envelope`` names the format.

    >>> from funken.table.types import DataTypes
    >>> rows = ChangeRows((("n", DataTypes.INT()),), JsonRules(), "maxwell-json")
    >>> changes = rows.deserialize_all(b'{"type": "update", "data": {"n": 2}, "old": {"n": 1}}')
    >>> [f"{row.get_row_kind()}{tuple(row)}" for row in changes]
    ['-U(1,)', '+U(2,)']
    >>> rows.serialize(Row.of_kind(RowKind.DELETE, 2))
    b'{"data":{"n":2},"type":"delete"}'
    """

    columns: Columns
    rules: JsonRules
    envelope: str
    database: str | None = None
    table: str | None = None

    never_waits = True

    @functools.cached_property
    def _reader(self) -> JsonReader:
        return JsonReader(self.columns, self.rules)

    @functools.cached_property
    def _writer(self) -> JsonWriter:
        return JsonWriter(self.columns, self.rules)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.columns, self.rules, self.envelope, self.database, self.table)

    def deserialize_all(self, message: bytes) -> list[Any]:
        """Return the changes of an event; none for a tombstone or an event of another table."""
        if not message:
            return []
        try:
            return self._changes(parsed_json(message))
        except ValueError:
            if self.rules.ignores_errors:
                return []
            raise

    def _changes(self, event: Any) -> list[Any]:
        if event is None:
            return []
        if not isinstance(event, dict):
            raise ValueError(f"it is no object, but {type(event).__name__}")
        for key, included in (("database", self.database), ("table", self.table)):
            if included is not None and re.fullmatch(included, str(event.get(key))) is None:
                return []
        rows = []
        for kind, document in _ENVELOPES[self.envelope][0](event, _overlaid):
            values = self._reader.values(document)
            if values is None:
                raise ValueError("a row of the event is null")
            rows.append(Row.of_kind(kind, *values))
        return rows

    def serialize(self, value: Any) -> bytes:
        """Write a change: an update as a deletion and an insertion, as Flink does."""
        _, added, removed = _ENVELOPES[self.envelope]
        pattern = added if value.get_row_kind() in _ADDED else removed
        return pattern.format(self._writer.text(value)).encode()


# ---- csv


@dataclass(frozen=True)
class TableLines(CsvSchema):
    """Lines of a table, with what Flink allows around their fields.

    >>> lines = TableLines(Types.ROW_NAMED(["a", "b"], [Types.STRING()] * 2), trims=True)
    >>> lines.deserialize(b'  x , " y ", ')
    Row(a='x', b=' y ')
    """

    header_remedy: ClassVar[str] = "set 'csv.ignore-first-line' = 'true'"
    delimiter_remedy: ClassVar[str] = "set 'csv.field-delimiter' = '{}'"
    malformed_remedy: ClassVar[str] = (
        "correct the columns, or set 'csv.ignore-parse-errors' = 'true' to go on without it"
    )

    surplus: str = "empty"
    """What may follow the last column: ``any`` fields, one that is ``empty``, or ``nothing``."""
    trims: bool = False
    """Whether spaces around fields are no data; those within quotes are."""
    pads: bool = False
    """Whether fields that a line lacks are NULL."""

    blank_is_record = True
    reads_empty_lists = True

    def __reduce__(self) -> tuple[Any, ...]:
        kind, given = super().__reduce__()
        return kind, (*given, self.surplus, self.trims, self.pads)

    def rows(self, lines: Iterable[str]) -> Any:
        """Return an iterator over the fields of lines: a blank one has one empty field, or is skipped with the comments."""
        rows = super().rows(map(self._trimmed, lines) if self.trims else self._without_spaces_behind_quotes(lines))
        return map(_unless_blank if self.comment else _or_one_field, rows)

    def record(self, row: Sequence[str]) -> Any:
        """Make a record of the fields of a line."""
        missing = len(self.names) - len(row)
        if missing <= 0 or not self.pads:
            return super().record(row)
        known = [parse(text) for parse, text in zip(self._parsers, row, strict=False)]
        return self._shape.make([*known, *[None] * missing])

    @functools.cached_property
    def _around(self) -> re.Pattern[str]:
        quote = re.escape(self.quote or "\0")
        return re.compile(
            rf"({quote}(?:[^{quote}]|{quote}{quote})*{quote})|[{self._blank}]*({re.escape(self.delimiter)}|\Z)[{self._blank}]*"
        )

    @functools.cached_property
    def _fields(self) -> re.Pattern[str]:
        quote, delimiter, escape = (re.escape(each or "\0") for each in (self.quote, self.delimiter, self.escape))
        quoted = rf"{quote}(?:[^{quote}{escape}]|{escape}.|{quote}{quote})*{quote}"
        return re.compile(
            rf"((?:^|{delimiter})(?:{quoted}(?=[{self._blank}]*(?:{delimiter}|\Z))|[^{delimiter}]*))[{self._blank}]*"
        )

    @property
    def _blank(self) -> str:
        """The spaces and tabs that are no delimiter."""
        return " \t".replace(self.delimiter, "")

    def _without_spaces_behind_quotes(self, lines: Iterable[str]) -> Iterable[str]:
        if self.quote is None:
            return lines
        space, tab = f"{self.quote} ", f"{self.quote}\t"
        return (self._tidied(line) if space in line or tab in line else line for line in lines)

    def _tidied(self, line: str) -> str:
        end = len(line.rstrip("\r\n"))
        return self._fields.sub(r"\1", line[:end]) + line[end:]

    def _trimmed(self, line: str) -> str:
        end = len(line.rstrip("\r\n"))
        return self._around.sub(lambda found: found[1] or found[2], line[:end].lstrip(self._blank)) + line[end:]

    def fitted(self, row: Sequence[str]) -> Sequence[str]:
        """Return the fields of a line that has not as many as there are columns."""
        width = len(self.names)
        if len(row) > width and (
            self.surplus == "any" or (self.surplus == "empty" and len(row) == width + 1 and not row[-1].strip())
        ):
            return row[:width]
        return super().fitted(row)


def _or_one_field(row: list[str]) -> list[str]:
    return row or [""]


def _unless_blank(row: list[str]) -> list[str]:
    return [] if len(row) == 1 and not row[0].strip() else row


@dataclass(frozen=True)
class CsvTableRows(DeserializationSchema, SerializationSchema):
    """Lines of delimited text as rows, without a header.

    >>> from funken.table.types import DataTypes
    >>> rows = CsvTableRows((("word", DataTypes.STRING()), ("at", DataTypes.DATE())), (("delimiter", "|"),), False)
    >>> rows.deserialize_all(b"to|2024-02-03"), rows.serialize(Row("to", None))
    ([<Row('to', datetime.date(2024, 2, 3))>], b'"to"|')
    """

    columns: Columns
    settings: tuple[tuple[str, Any], ...]
    ignores_errors: bool
    plain_decimals: bool = False
    fails_on_missing: bool = False
    """Whether a line with too few fields is wrong where wrong fields are NULL."""
    empty_is_null: bool = False
    skips_first_line: bool = False
    """True if the first line of a file is its header."""

    never_waits = True

    def __reduce__(self) -> tuple[Any, ...]:
        more = (
            self.ignores_errors,
            self.plain_decimals,
            self.fails_on_missing,
            self.empty_is_null,
            self.skips_first_line,
        )
        return type(self), (self.columns, self.settings, *more)

    @functools.cached_property
    def texts(self) -> CsvSchema:
        """The format with all fields as text."""
        names = [name for name, _ in self.columns]
        pads = self.ignores_errors and not self.fails_on_missing
        return TableLines(Types.ROW_NAMED(names, [Types.STRING()] * len(names)), **dict(self.settings), pads=pads)

    @functools.cached_property
    def _readers(self) -> list[Callable[[str], Any]]:
        delimiter = dict(self.settings).get("array_delimiter", ";")
        readers = [text_reader(type_, delimiter, self.ignores_errors) for _, type_ in self.columns]
        return list(map(_null_if_empty, readers)) if self.empty_is_null else readers

    @functools.cached_property
    def _lines(self) -> tuple[CsvSchema, list[Callable[[Any], Any]]]:
        names = [name for name, _ in self.columns]
        pairs = [text_writer(type_, self.plain_decimals) for _, type_ in self.columns]
        return TableLines(Types.ROW_NAMED(names, [kind for kind, _ in pairs]), **dict(self.settings)), [
            write for _, write in pairs
        ]

    def row_of(self, texts: Sequence[str | None]) -> list[Any]:
        """Return the row of the texts of a line."""
        values = []
        for (name, _), read, value in zip(self.columns, self._readers, texts, strict=True):
            try:
                values.append(None if value is None else read(value))
            except (ValueError, ArithmeticError) as error:
                if not self.ignores_errors:
                    raise ValueError(f"field {name!r}: {error}{self.texts.header_hint(texts)}") from None
                values.append(None)
        return [Row(*values)]

    def deserialize_all(self, message: bytes) -> list[Any]:
        """Return the row of the first line of a message."""
        try:
            return self.row_of(tuple(self._first_line(message)))
        except (ValueError, csv.Error) as error:
            if self.ignores_errors:
                return []
            raise error if isinstance(error, ValueError) else ValueError(f"it is no CSV ({error})") from None

    def _first_line(self, message: bytes) -> Any:
        schema = self.texts
        lines = io.StringIO(message.decode("utf-8-sig"), newline="")
        row = next(filter(None, schema.rows(lines)), None) if message else None
        if row is None:
            raise ValueError("it has no line")
        return schema.record(row)

    takes_columns = True

    def messages_of(self, block: Any) -> list[bytes]:
        """Write the rows of a table's block."""
        schema, writers = self._lines
        columns = []
        for column, (_, type_), write in zip(block.batch.columns, self.columns, writers, strict=True):
            plain = write is unchanged and type_.root in _PLAIN
            values = [] if plain else to_python(column, type_)
            columns.append(column if plain else [None if value is None else write(value) for value in values])
        return schema.lines_of(columns)

    def serialize(self, value: Any) -> bytes:
        """Write a row as a line, without its end."""
        schema, writers = self._lines
        return schema.serialize(
            tuple(None if one is None else write(one) for one, write in zip(value, writers, strict=True))
        )


def _null_if_empty(read: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: read(text) if text else None


def _csv(format_: TableFormat, columns: Columns) -> CsvTableRows:
    options = format_.options
    quote = options["quote-character"]
    if options["disable-quote-character"] and quote is not None:
        raise InvalidProgram(
            f"Table {format_.path!r}: 'csv.quote-character' and 'csv.disable-quote-character' contradict one another. Set one of "
            "them."
        )
    settings = {
        "delimiter": options["field-delimiter"].encode("latin-1", "backslashreplace").decode("unicode_escape"),
        "quote": None if options["disable-quote-character"] else '"' if quote is None else quote,
        "escape": options["escape-character"],
        "null_literal": options["null-literal"],
        "comment": "#" if options["allow-comments"] else None,
        "array_delimiter": options["array-element-delimiter"],
        "trims": options["trim-spaces"],
        "surplus": "any" if options["ignore-trailing-unmappable"] or options["ignore-extra-fields"]
        else "empty" if options["allow-trailing-comma"] else "nothing",
    }  # fmt: skip
    plain = not options["write-bigdecimal-in-scientific-notation"]
    more = options["fail-on-missing-columns"], options["empty-string-as-null"], options.get("ignore-first-line", False)
    return CsvTableRows(columns, tuple(settings.items()), options["ignore-parse-errors"], plain, *more)


# ---- formats whose schemas make dicts: avro; and protobuf


@dataclass(frozen=True)
class DocumentRows(DeserializationSchema, SerializationSchema):
    """Rows of a schema of Avro, whose records are dicts, by the names of columns.

    >>> from funken.connectors import JsonSchema
    >>> from funken.table.types import DataTypes
    >>> DocumentRows((("n", DataTypes.INT()),), JsonSchema()).deserialize_all(b'{"n": 1, "m": 2}')
    [<Row(1)>]
    """

    columns: Columns
    schema: Any

    @functools.cached_property
    def _reader(self) -> JsonReader:
        return JsonReader(self.columns, JsonRules(of_avro=True))

    @functools.cached_property
    def _needed(self) -> list[int]:
        return [place for place, (_, type_) in enumerate(self.columns) if not type_.is_nullable]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.columns, self.schema)

    def deserialize_all(self, message: bytes) -> list[Any]:
        """Return the rows of a message."""
        return [Row(*self.values(document)) for document in self.schema.deserialize_all(message)]

    def values(self, document: Any) -> list[Any]:
        """Return the values of a record."""
        values = self._reader.read_values(document)
        for place in self._needed:
            if values[place] is None:
                raise ValueError(f"field {self.columns[place][0]!r} has no value, but its column is NOT NULL")
        return values

    def serialize(self, value: Any) -> bytes:
        """Write a row."""
        message: bytes = self.schema.serialize(document_of(value, self.columns))
        return message


@dataclass(frozen=True)
class AvroChanges(DeserializationSchema, SerializationSchema):
    """Changes as Debezium writes them in Avro: records with the rows before and after, and an operation."""

    rows: DocumentRows

    def deserialize_all(self, message: bytes) -> list[Any]:
        """Return the changes of an event; none for a tombstone."""
        events = self.rows.schema.deserialize_all(message) if message else []
        return [
            Row.of_kind(kind, *self.rows.values(document))
            for event in events
            for kind, document in _debezium(event, _overlaid)
        ]

    def serialize(self, value: Any) -> bytes:
        """Write a change: an update as a deletion and an insertion, as Flink does."""
        document, added = document_of(value, self.rows.columns), value.get_row_kind() in _ADDED
        event = {
            "before": None if added else document,
            "after": document if added else None,
            "op": "c" if added else "d",
        }
        message: bytes = self.rows.schema.serialize(event)
        return message


def document_of(row: Any, columns: Columns) -> dict[str, Any]:
    """Return a row as a dict by the names of columns, its rows as well."""
    return {name: _plain(value, type_) for (name, type_), value in zip(columns, row, strict=True)}


def _plain(value: Any, type_: Any) -> Any:
    """Return a value with its rows as dicts."""
    if value is None:
        return None
    if isinstance(type_, RowType):
        return document_of(value, tuple((field.name, field.type) for field in type_.fields))
    if isinstance(value, list):
        return [_plain(item, type_.element) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item, getattr(type_, "value", None)) for key, item in value.items()}
    return value


def _avro(format_: TableFormat, columns: Columns) -> DocumentRows:
    return DocumentRows(
        columns, AvroSchema(json.dumps(avro_type(columns, format_.options["timestamp_mapping.legacy"])))
    )


def _avro_confluent(format_: TableFormat, columns: Columns) -> DocumentRows:
    return _registered(format_, columns, json.dumps(avro_type(columns)))


def _avro_confluent_reader(format_: TableFormat, columns: Columns) -> DocumentRows:
    """Return a reader of records by their writer's schema, which takes the columns by their names."""
    return _registered(format_, columns, None)


def _debezium_avro(format_: TableFormat, columns: Columns) -> AvroChanges:
    image = RowType.of(*columns)
    envelope = (("before", image), ("after", image), ("op", VarCharType()))
    return AvroChanges(_registered(format_, columns, json.dumps(["null", avro_type(envelope)])))


def _debezium_avro_reader(format_: TableFormat, columns: Columns) -> AvroChanges:
    return AvroChanges(_registered(format_, columns, None))


def _registered(format_: TableFormat, columns: Columns, schema: str | None) -> DocumentRows:
    from funken.connectors.formats.registry import ConfluentAvroSchema, SchemaRegistryClient  # noqa: PLC0415 - loads HTTP

    options = format_.options
    user, _, password = (options["basic-auth.user-info"] or ":").partition(":")
    client = SchemaRegistryClient(
        options["url"],
        user or None,
        password or None,
        options["ssl.truststore.location"],
        options["ssl.keystore.location"],
        token=options["bearer-auth.token"],
        key_password=options["ssl.keystore.password"],
    )
    topic = options.get("topic")
    subject = options["subject"] or (topic and f"{topic}-{options.get('part', 'value')}")
    return DocumentRows(columns, ConfluentAvroSchema(client, subject, options["schema"] or schema))


def _protobuf(format_: TableFormat, columns: Columns) -> ProtobufRows:
    name, options = format_.options["message-class-name"], format_.options
    module, _, kind = name.partition(":") if ":" in name else name.rpartition(".")
    try:
        message = functools.reduce(getattr, kind.split("."), importlib.import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidProgram(
            f"Table {format_.path!r}: message class {name!r} cannot be imported: {error}. Write 'module:Message', a class that "
            "protoc has generated for Python."
        ) from None
    schema = ProtobufSchema(message)
    check_columns(format_.path, schema.message_class.DESCRIPTOR, columns)
    more = options["ignore-parse-errors"], options["read-default-values"], options["write-null-string-literal"]
    return ProtobufRows(columns, schema, *more)


# ---- raw

_NUMBERS = {
    "TinyIntType": "b",
    "SmallIntType": "h",
    "IntType": "i",
    "BigIntType": "q",
    "FloatType": "f",
    "DoubleType": "d",
}


@dataclass(frozen=True)
class RawRows(DeserializationSchema, SerializationSchema):
    """A message that is the one column: text, bytes, a number or a boolean.

    >>> from funken.table.types import DataTypes
    >>> RawRows(DataTypes.INT(), "UTF-8", ">").deserialize_all(bytes([0, 0, 0, 7]))
    [<Row(7)>]
    """

    type: LogicalType
    charset: str = "UTF-8"
    order: str = ">"

    never_waits = True

    @property
    def _encoding(self) -> str:
        """The charset; of UTF-16 Java writes the greater byte first."""
        return "utf-16-be" if codecs.lookup(self.charset).name == "utf-16" else self.charset

    @property
    def _code(self) -> str | None:
        code = _NUMBERS.get(type(self.type).__name__)
        return None if code is None else self.order + code

    def deserialize_all(self, message: bytes) -> list[Any]:
        """Return the row of a message."""
        name = type(self.type).__name__
        if self._code is not None:
            if len(message) != struct.calcsize(self._code):
                raise ValueError(f"it has {len(message)} bytes, but {self.type} has {struct.calcsize(self._code)}")
            return [Row(struct.unpack(self._code, message)[0])]
        if name == "BooleanType":
            if len(message) != 1:
                raise ValueError(f"it has {len(message)} bytes, but BOOLEAN has 1")
            return [Row(message != b"\0")]
        is_text = name in ("CharType", "VarCharType")
        has_mark = message[:2] in (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)
        return [
            Row(message.decode(self.charset if has_mark else self._encoding, "replace") if is_text else bytes(message))
        ]

    def serialize(self, value: Any) -> bytes:
        """Write the value of a row; NULL is an empty message."""
        [only] = value
        if only is None:
            return b""
        if self._code is not None:
            return struct.pack(self._code, only)
        if isinstance(only, bool):
            return b"\1" if only else b"\0"
        if not isinstance(only, str):
            return bytes(only)
        mark = codecs.BOM_UTF16_BE if self._encoding != self.charset else b""
        return mark + only.encode(self._encoding, "replace")


def _raw(format_: TableFormat, columns: Columns) -> RawRows:
    names = {*_NUMBERS, "BooleanType", "CharType", "VarCharType", "BinaryType", "VarBinaryType"}
    if len(columns) != 1 or type(columns[0][1]).__name__ not in names:
        raise InvalidProgram(
            f"Table {format_.path!r}: the 'raw' format only supports a single physical column of a number, text, bytes or "
            f"BOOLEAN, but the table has: {', '.join(f'{name} {type_}' for name, type_ in columns)}."
        )
    options = format_.options
    try:
        codecs.lookup(options["charset"])
    except LookupError:
        raise InvalidProgram(
            f"Table {format_.path!r}: 'raw.charset' is {options['charset']!r}, which is no charset of Python. Write 'UTF-8' or "
            "'ISO-8859-1', for example."
        ) from None
    return RawRows(columns[0][1], options["charset"], "<" if options["endianness"] == "little-endian" else ">")


# ---- the registry

_TIMES = (
    ConnectorOption("encode.ignore-null-fields", boolean, False),
    ConnectorOption("ignore-parse-errors", boolean, False),
    ConnectorOption("timestamp-format.standard", one_of("sql", "iso-8601"), "sql"),
    ConnectorOption("map-null-key.mode", one_of("fail", "drop", "literal"), "fail"),
    ConnectorOption("map-null-key.literal", text, "null"),
    ConnectorOption("encode.decimal-as-plain-number", boolean, False),
)
_REGISTRY = (
    ConnectorOption("url"),
    ConnectorOption("subject", text, None),
    ConnectorOption("schema", text, None),
    ConnectorOption("basic-auth.credentials-source", one_of("user_info", "url"), None),
    ConnectorOption("basic-auth.user-info", text, None),
    ConnectorOption("bearer-auth.credentials-source", one_of("static_token"), None),
    ConnectorOption("bearer-auth.token", text, None),
    ConnectorOption("ssl.truststore.location", pem_file, None),
    ConnectorOption("ssl.truststore.password", text, None, unused="a file of PEM with certificates has none"),
    ConnectorOption("ssl.keystore.location", pem_file, None),
    ConnectorOption("ssl.keystore.password", text, None),
    ConnectorOption("properties", refused("these are of Java's client; use the options of this format"), None),
)
_OPTIONS: dict[str, tuple[ConnectorOption, ...]] = {
    "json": (
        *_TIMES,
        ConnectorOption("fail-on-missing-field", boolean, False),
        ConnectorOption("decode.json-parser.enabled", boolean, True, unused="there is one parser"),
    ),
    "csv": (
        ConnectorOption("field-delimiter", text, ","),
        ConnectorOption("disable-quote-character", boolean, False),
        ConnectorOption("quote-character", text, None),
        ConnectorOption("allow-comments", boolean, False),
        ConnectorOption("ignore-parse-errors", boolean, False),
        ConnectorOption("array-element-delimiter", text, ";"),
        ConnectorOption("ignore-extra-fields", boolean, False),
        ConnectorOption("escape-character", text, None),
        ConnectorOption("null-literal", text, None),
        ConnectorOption("write-bigdecimal-in-scientific-notation", boolean, None),
        ConnectorOption("trim-spaces", boolean, False),
        ConnectorOption("ignore-trailing-unmappable", boolean, False),
        ConnectorOption("allow-trailing-comma", boolean, True),
        ConnectorOption("fail-on-missing-columns", boolean, False),
        ConnectorOption("empty-string-as-null", boolean, False),
    ),
    "avro": (
        ConnectorOption("codec", text, None, unused="messages are not compressed one by one"),
        ConnectorOption("encoding", one_of("binary"), "binary"),
        ConnectorOption("timestamp_mapping.legacy", boolean, True),
    ),
    "avro-confluent": _REGISTRY,
    "debezium-avro-confluent": _REGISTRY,
    "protobuf": (
        ConnectorOption("message-class-name"),
        ConnectorOption("ignore-parse-errors", boolean, False),
        ConnectorOption("read-default-values", boolean, False),
        ConnectorOption("write-null-string-literal", text, ""),
    ),
    "raw": (
        ConnectorOption("charset", text, "UTF-8"),
        ConnectorOption("endianness", one_of("big-endian", "little-endian"), "big-endian"),
    ),
    "debezium-json": (
        *_TIMES,
        ConnectorOption("schema-include", boolean, False, unused="the payload is read by the columns of the table"),
    ),
    "canal-json": (
        *_TIMES,
        ConnectorOption("database.include", text, None),
        ConnectorOption("table.include", text, None),
    ),
    "maxwell-json": _TIMES,
    "ogg-json": _TIMES,
}


def _json(format_: TableFormat, columns: Columns) -> JsonRows:
    return JsonRows(columns, json_rules(format_))


def _changes(format_: TableFormat, columns: Columns) -> ChangeRows:
    options = format_.options
    return ChangeRows(
        columns,
        json_rules(format_),
        format_.name,
        options.get("database.include"),
        options.get("table.include"),
    )


_MAKERS: dict[str, Callable[[TableFormat, Columns], Any]] = {
    "json": _json,
    "csv": _csv,
    "avro": _avro,
    "avro-confluent": _avro_confluent,
    "debezium-avro-confluent": _debezium_avro,
    "protobuf": _protobuf,
    "raw": _raw,
    **dict.fromkeys(_ENVELOPES, _changes),
}


_READERS: dict[str, Callable[[TableFormat, Columns], Any]] = {
    "avro-confluent": _avro_confluent_reader,
    "debezium-avro-confluent": _debezium_avro_reader,
}
"""The readers of messages, of formats that do not read them as they write them."""


def format_names() -> list[str]:
    """Return the names of the formats of messages, sorted."""
    return sorted(_MAKERS)


def check_format(path: str, name: str, known: Sequence[str]) -> None:
    """Refuse a format that there is not; raises ``InvalidProgram``."""
    if name not in known:
        near = difflib.get_close_matches(name, known, 1, 0.6)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InvalidProgram(
            f"Table {path!r} has format {name!r}, which is unknown here.{hint} Available: {', '.join(known)}."
        )


def format_options(path: str, name: str, prefix: str = "") -> tuple[ConnectorOption, ...]:
    """Return the options of a format as a table has them: ``json.ignore-parse-errors``, behind a prefix such as ``key.``.

    >>> [option.key for option in format_options("t", "raw", "value.")]
    ['value.raw.charset', 'value.raw.endianness']
    """
    check_format(path, name, format_names())
    return tuple(
        ConnectorOption(f"{prefix}{name}.{option.key}", option.parse, option.default, option.unused)
        for option in _OPTIONS[name]
    )


def table_format(path: str, name: str, options: OptionValues, prefix: str = "", **more: Any) -> TableFormat:
    """Return a format with its options."""
    check_format(path, name, format_names())
    values = {option.key: options[f"{prefix}{name}.{option.key}"] for option in _OPTIONS[name]}
    mode = (
        ChangelogMode.all() if name in _ENVELOPES or name == "debezium-avro-confluent" else ChangelogMode.insert_only()
    )
    return TableFormat(name, path, {**values, **more}, mode, _READERS.get(name, _MAKERS[name]), _MAKERS[name])
