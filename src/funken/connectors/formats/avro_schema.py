"""Avro, one record per message, without a header: writer and reader have to know the schema (``registry.py`` finds it).

``fastavro`` does the work; it is imported where it is used (``pip install 'funken[avro]'``). ``files/avro_files.py`` reads and
writes files of it, which carry their schema.
"""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import field
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

from funken import extras
from funken.columnar.block import Block
from funken.columnar.expressions import NotVectorizable
from funken.connectors.formats.arrow_columns import columns_of_values, is_held
from funken.connectors.formats.avro_values import own_defaults, with_defaults, writer_of
from funken.connectors.formats.declared import names_of, schema_of_records
from funken.connectors.formats.record_types import RecordShape, as_document, from_documents, shape_of, shape_of_dicts
from funken.connectors.formats.stored_types import StoredLeaves
from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady, InvalidConfiguration, InvalidProgram
from funken.expr.python.objects import BYTES, DATE, DATETIME, DECIMAL
from funken.expr.types import (
    BOOL,
    DICT,
    FLOAT,
    INT,
    STR,
    Atomic,
    Composite,
    ListOf,
    Object,
    Record,
    Type,
    atomic_fields,
)
from funken.types.row import Row, make_row


def fastavro() -> Any:
    """Return the library; raises ``EnvironmentNotReady`` if it is not installed."""
    try:
        return importlib.import_module("fastavro")
    except ImportError:
        raise EnvironmentNotReady("Avro needs fastavro; install it with: pip install 'funken[avro]'") from None


@dataclass(frozen=True)
class AvroSchema(SerializationSchema, DeserializationSchema):
    r"""Single Avro records, both ways, of a schema in JSON; records are dicts, or of ``record_type`` (its fields by their names).

    ``writer_schema`` is what messages were written with, if it is another one: fields that are new have the defaults of
    ``schema``, fields that are gone are dropped. Raises ``InvalidConfiguration`` for what is no schema of Avro.

    >>> schema = AvroSchema('{"type": "record", "name": "Sale", "fields": [{"name": "item", "type": "string"}, '
    ...                     '{"name": "n", "type": "int", "default": 1}]}')
    >>> schema.serialize({"item": "tea", "n": 3}), schema.deserialize(b"\x06tea\x06")
    (b'\x06tea\x06', {'item': 'tea', 'n': 3})

    >>> from typing import NamedTuple
    >>> class Sale(NamedTuple):
    ...     item: str
    ...     n: int
    >>> AvroSchema.of(Sale).deserialize(AvroSchema.of(Sale).serialize(Sale("tea", 3)))
    Sale(item='tea', n=3)
    """

    schema: str
    record_type: Any = None
    writer_schema: str | None = None
    _parsed: Any = field(init=False, repr=False, compare=False)
    _written: Any = field(init=False, repr=False, compare=False)
    _wanted: Any = field(init=False, repr=False, compare=False)
    _own: Callable[[Any], Any] | None = field(init=False, repr=False, compare=False)
    _writer: Callable[[Any], Any] = field(init=False, repr=False, compare=False)
    _make: Callable[[Any], Any] | None = field(init=False, repr=False, compare=False)
    _document: Callable[[Any], Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what is no schema, before the job runs."""
        object.__setattr__(self, "_parsed", parsed(self.schema))
        written = self._parsed if self.writer_schema is None else parsed(self.writer_schema)
        object.__setattr__(self, "_written", written)
        wanted = None if written is self._parsed else readable(self._parsed)
        object.__setattr__(self, "_wanted", wanted)
        object.__setattr__(self, "_own", None if wanted is None else own_defaults(wanted))
        object.__setattr__(self, "_writer", writer_of(self._parsed))
        shape = None if self.record_type is None else avro_shape(self.record_type, "AvroSchema")
        object.__setattr__(self, "_make", None if shape is None else from_documents(shape))
        object.__setattr__(self, "_document", as_document if shape is None else document_maker(shape))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.schema, self.record_type, self.writer_schema)

    @staticmethod
    def of(record_type: Any, name: str | None = None) -> AvroSchema:
        """Make the schema of a record type; raises ``InvalidProgram`` for a type that Avro does not have."""
        return AvroSchema(json.dumps(avro_of(record_type, name)), record_type)

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Take a schema in JSON (PyFlink's name for it)."""
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Read a schema in JSON from a file (``.avsc``); raises ``InvalidConfiguration`` if it cannot be read.

        >>> AvroSchema.parse_file("/nowhere/sale.avsc")
        Traceback (most recent call last):
        ...
        funken.errors.InvalidConfiguration: AvroSchema cannot read '/nowhere/sale.avsc': No such file or directory.
        """
        try:
            return AvroSchema(Path(file_path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidConfiguration(f"AvroSchema cannot read {file_path!r}: {error.strerror}.") from error

    never_waits = True

    def deserialize(self, message: bytes) -> Any:
        """Read a record; raises ``ValueError`` or ``EOFError`` if the bytes are not one."""
        return self.deserialize_block((message,))[0]

    def deserialize_block(self, messages: Sequence[bytes]) -> list[Any]:
        """Read records."""
        records, make = self._documents(messages), self._make
        return records if make is None else [make(record) for record in records]

    def record_schema(self) -> Type:
        """Return the schema of the records."""
        if type(self) is not AvroSchema:
            return super().record_schema()
        return avro_record_schema(self._parsed, self.record_type, "AvroSchema")

    def messages_to_columns(
        self, schema: Type, wanted: Sequence[int] | None
    ) -> Callable[[Sequence[bytes]], Block | None]:
        """Return what makes columns of messages."""
        columns = AvroColumns(
            schema, wanted, None if self.record_type is None else shape_of(self.record_type, "AvroSchema")
        )

        def of_messages(messages: Sequence[bytes]) -> Block | None:
            try:
                return columns.of_documents(self._documents(messages))
            except Exception:  # noqa: BLE001 - found again, message by message
                return None

        return of_messages

    def _documents(self, messages: Sequence[bytes]) -> list[Any]:
        read, written = fastavro().schemaless_reader, self._written
        wanted, own = self._wanted, self._own
        records = []
        for message in messages:
            file = io.BytesIO(message)
            record = read(file, written, wanted)
            if file.read(1):
                raise ValueError("there are bytes after the record; it was written with another schema")
            records.append(record if own is None else own(record))
        return records

    def serialize(self, value: Any) -> bytes:
        """Write a record; raises ``ValueError`` if it does not fit the schema."""
        return self.serialize_block((value,))[0]

    def serialize_block(self, values: Sequence[Any]) -> list[bytes]:
        """Write records."""
        write, parsed_schema, convert, document = (
            fastavro().schemaless_writer,
            self._parsed,
            self._writer,
            self._document,
        )
        messages = []
        for value in values:
            file = io.BytesIO()
            write(file, parsed_schema, convert(document(value)))
            messages.append(file.getvalue())
        return messages


class AvroColumns:
    """Makes columns of what ``fastavro`` reads, which has the same fields in every record.

    >>> columns = AvroColumns(Record((STR, INT), DICT, ("item", "n")), wanted=[1])
    >>> columns.of_documents([{"item": "tea", "n": 3}]).to_list(), columns.of_documents([{"item": "tea", "n": None}])
    ([{'item': <not read>, 'n': 3}], None)
    """

    def __init__(self, schema: Type, wanted: Sequence[int] | None, shape: RecordShape | None = None) -> None:
        assert isinstance(schema, Composite)
        self._schema = schema
        self._names = names_of(schema, shape)
        self._wanted = {
            number: path for number, (path, _) in enumerate(atomic_fields(schema)) if wanted is None or number in wanted
        }
        self._required = (
            None if shape is None else shape.required.union(self._names[path[0]] for path in self._wanted.values())
        )

    def of_documents(self, documents: Sequence[Any]) -> Block | None:
        """Return the records; ``None``: they have to be made one by one."""
        if not documents:
            return None
        there = documents[0]
        if tuple(there) != self._names if self._required is None else not self._required <= there.keys():
            return None
        values = {number: self._values(documents, path) for number, path in self._wanted.items()}
        if None in values.values():
            return None
        return columns_of_values(self._schema, cast(dict[int, list[Any]], values), len(documents))

    def _values(self, documents: Sequence[Any], path: tuple[int, ...]) -> list[Any] | None:
        """Return the values at a path; ``None`` if a record within is null, or has other fields."""
        schema: Any = self._schema[path[0]]
        values = list(map(itemgetter(self._names[path[0]]), documents))
        for number in path[1:]:
            if None in values or tuple(values[0]) != schema.names:
                return None
            values = list(map(itemgetter(schema.names[number]), values))
            schema = schema[number]
        return values


def avro_record_schema(schema: Any, record_type: Any, who: str) -> Type:
    """Return the schema of records that are read by a parsed schema; raise ``NotVectorizable`` if they are none.

    >>> sale = parsed('{"type": "record", "name": "Sale", "fields": [{"name": "item", "type": ["null", "string"]}, '
    ...               '{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}')
    >>> avro_record_schema(sale, None, "an example")
    {item: str, at: datetime}
    """
    if not isinstance(schema, dict) or schema.get("type") != "record" or not schema["fields"]:
        raise NotVectorizable("reads values of Avro that are no records with fields")
    if record_type is not None:
        return schema_of_records(record_type, shape_of(record_type, who))
    return _schema_of_dicts(schema["fields"])


def _schema_of_dicts(fields: Sequence[Any]) -> Record:
    return Record([_schema_of_values(each["type"]) for each in fields], DICT, tuple(each["name"] for each in fields))


def _schema_of_values(schema: Any) -> Type:
    """Return the schema of the values of a type of Avro; a union with null has that of the other type."""
    if isinstance(schema, list):
        there = [each for each in schema if each != "null"]
        return _schema_of_values(there[0]) if len(there) == 1 else Object("union of Avro")
    if isinstance(schema, dict) and schema["type"] == "record" and schema["fields"]:
        return _schema_of_dicts(schema["fields"])
    if isinstance(schema, dict) and schema["type"] == "array":
        found = ListOf(_schema_of_values(schema["items"]))
        return found if is_held(found) else Object("array of Avro")
    name = schema if isinstance(schema, str) else schema.get("logicalType", schema["type"])
    return _KINDS.get(name, Object(f"{name} of Avro")) if isinstance(name, str) else Object("type of Avro")


_KINDS: dict[str, Atomic] = {
    "int": INT, "long": INT, "float": FLOAT, "double": FLOAT, "boolean": BOOL, "string": STR, "bytes": BYTES, "date": DATE,
    "timestamp-millis": DATETIME, "timestamp-micros": DATETIME, "local-timestamp-millis": DATETIME,
    "local-timestamp-micros": DATETIME, "decimal": DECIMAL, "enum": STR,
}  # fmt: skip


def avro_shape(record_type: Any, who: str) -> RecordShape:
    """Return the shape of records of a declared type, as Avro has their values."""
    return shape_of(record_type, who, leaves=StoredLeaves())


def document_maker(shape: RecordShape) -> Callable[[Any], Any]:
    """Return what makes dicts of records of a type; dicts may have fewer fields, or more."""
    names, values, of_dicts = shape.names, shape.values, shape_of_dicts(shape)

    def make(record: Any) -> Any:
        if isinstance(record, dict):
            return of_dicts(as_document(record))
        return dict(zip(names, map(as_document, values(record)), strict=True))

    return make


def readable(schema: Any) -> Any:
    """Return a parsed schema to read by, whose defaults are values; raises ``InvalidConfiguration``."""
    try:
        return with_defaults(schema)
    except ValueError as error:
        raise InvalidConfiguration(f"this schema of Avro cannot be read by: {error}; correct it.") from None


def _real_defaults(schema: Any) -> None:
    """Make defaults of ``float`` and ``double`` that are whole numbers real ones, as ``fastavro`` wants them in some places."""
    if isinstance(schema, list):
        for each in schema:
            _real_defaults(each)
    elif isinstance(schema, dict):
        for part in (schema.get("items"), schema.get("values"), schema.get("type"), schema.get("fields")):
            _real_defaults(part)
        if type(schema.get("default")) is int and _kind_of_default(schema.get("type")) in ("float", "double"):
            schema["default"] = float(schema["default"])


def _kind_of_default(schema: Any) -> Any:
    return _kind_of_default(schema["type"]) if isinstance(schema, dict) else schema


def parsed(schema: str) -> Any:
    """Return the schema as ``fastavro`` wants it; raises ``InvalidConfiguration``."""
    library = fastavro()
    errors = importlib.import_module("fastavro.schema")
    try:
        document = json.loads(schema)
        _real_defaults(document)
        return library.parse_schema(document)
    except (ValueError, KeyError, TypeError, errors.SchemaParseException, errors.UnknownType) as error:
        what = f"{type(error).__name__}: {error}"
        raise InvalidConfiguration(f"this is no schema of Avro ({what}): {schema[:200]}; pass its JSON.") from None


def rows_of(schema: str) -> Callable[[Any], Any]:
    """Return what makes rows of the dicts that records of a schema are read as, those within included.

    >>> inner = '{"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}'
    >>> make = rows_of('{"type": "record", "name": "Out", "fields": [{"name": "all", "type": {"type": "array", "items": '
    ...                + inner + "}}]}")
    >>> make({"all": [{"x": 1}]})
    Row(all=[Row(x=1)])
    """
    return _within(json.loads(schema), _row_maker) or _same


def documents_of(schema: str) -> Callable[[Any], Any]:
    """Return what makes dicts of rows, tuples and dicts: by the names of the schema's fields, or in their order.

    >>> make = documents_of('{"type": "record", "name": "Sale", "fields": [{"name": "item", "type": "string"}, '
    ...                     '{"name": "n", "type": "int"}]}')
    >>> make(("tea", 3)), make(Row(n=1, item="jam"))
    ({'item': 'tea', 'n': 3}, {'n': 1, 'item': 'jam'})
    >>> make(("tea",))
    Traceback (most recent call last):
    ...
    ValueError: ('tea',) has 1 fields, and the schema 2: item, n
    """
    return _within(json.loads(schema), _document_maker) or _same


_Makers = dict[str, Callable[[Any], Any]]


def _within(schema: Any, of_record: Callable[[_Makers], Callable[[Any], Any]]) -> Callable[[Any], Any] | None:
    """Return what converts the records in a value; ``None`` where there are none."""
    if isinstance(schema, list):
        there = [each for each in schema if each != "null"]
        inner = _within(there[0], of_record) if len(there) == 1 else None
        return None if inner is None else _or_none(inner)
    if not isinstance(schema, dict):
        return None
    kind = schema.get("type")
    if kind == "record":
        return of_record({each["name"]: _within(each["type"], of_record) or _same for each in schema["fields"]})
    if kind == "array":
        item = _within(schema["items"], of_record)
        return None if item is None else _of_items(item)
    if kind == "map":
        item = _within(schema["values"], of_record)
        return None if item is None else _of_values(item)
    return _within(kind, of_record) if isinstance(kind, dict | list) else None


def _same(value: Any) -> Any:
    return value


def _or_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _of_values(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: {key: convert(value) for key, value in values.items()}


def _of_items(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: [convert(value) for value in values]


def _row_maker(fields: _Makers) -> Callable[[Any], Any]:
    names = list(fields)
    return lambda record: make_row(names, [make(record[name]) for name, make in fields.items()])


def _document_maker(fields: _Makers) -> Callable[[Any], Any]:
    def make(record: Any) -> Any:
        named = as_document(record) if not isinstance(record, Row) or record._fields is not None else record
        if isinstance(named, dict) and (not isinstance(record, Row) or fields.keys() <= named.keys()):
            return {name: fields[name](value) if name in fields else value for name, value in named.items()}
        values = tuple(record)
        if len(values) != len(fields):
            raise ValueError(f"{record!r} has {len(values)} fields, and the schema {len(fields)}: {', '.join(fields)}")
        return {name: convert(value) for (name, convert), value in zip(fields.items(), values, strict=True)}

    return make


_SIMPLE = {
    "string": "string", "bool": "boolean", "int8": "int", "int16": "int", "int32": "int", "int64": "long", "uint8": "int",
    "uint16": "int", "uint32": "long", "float": "float", "double": "double", "binary": "bytes", "large_string": "string",
}  # fmt: skip
_LOGICAL = {
    "date32[day]": ("int", "date"), "time64[us]": ("long", "time-micros"),
    "timestamp[us]": ("long", "local-timestamp-micros"), "timestamp[us, tz=UTC]": ("long", "timestamp-micros"),
    "timestamp[ms]": ("long", "local-timestamp-millis"), "timestamp[ms, tz=UTC]": ("long", "timestamp-millis"),
}  # fmt: skip


def avro_of(record_type: Any, name: str | None = None) -> Any:
    """Return the schema of a record type as JSON values; every field may be null.

    >>> from funken import Types
    >>> avro_of(Types.ROW_NAMED(["n"], [Types.INT()]))["fields"]
    [{'name': 'n', 'type': ['null', 'int'], 'default': None}]
    """
    if name is None:
        name = record_type.__name__ if isinstance(record_type, type) else "Record"
    return _record_schema(shape_of(record_type, "AvroSchema").types(), name)


def _record_schema(fields: Any, name: str) -> Any:
    declared = [
        {"name": each.name, "type": ["null", _type(each.type, f"{name}_{each.name}")], "default": None}
        for each in fields
    ]
    return {"type": "record", "name": name, "fields": declared}


def _type(kind: Any, name: str) -> Any:
    arrow = extras.load("pyarrow.types")
    if str(kind) in _SIMPLE:
        return _SIMPLE[str(kind)]
    if str(kind) in _LOGICAL:
        base, logical = _LOGICAL[str(kind)]
        return {"type": base, "logicalType": logical}
    if arrow.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if arrow.is_list(kind):
        return {"type": "array", "items": ["null", _type(kind.value_type, name)]}
    if arrow.is_map(kind) and str(kind.key_type) == "string":
        return {"type": "map", "values": ["null", _type(kind.item_type, name)]}
    if arrow.is_struct(kind):
        return _record_schema([kind.field(index) for index in range(kind.num_fields)], name)
    raise InvalidProgram(f"AvroSchema: Avro has no {kind}; declare another type, or pass a schema of Avro.")


__all__ = ["AvroColumns", "AvroSchema", "avro_of", "avro_record_schema", "fastavro", "parsed"]
