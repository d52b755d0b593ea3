"""Avro, one record per message, without a header: writer and reader have to know the schema (``registry.py`` finds it).

``fastavro`` does the work; it is imported where it is used (``pip install 'funken[avro]'``). ``files/avro_files.py`` reads and
writes files of it, which carry their schema.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import importlib
import io
import json
import numbers
import operator
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

from funken import extras
from funken.columnar.block import Block
from funken.columnar.expressions import NotVectorizable
from funken.connectors.formats.arrow_columns import columns_of_values, is_held
from funken.connectors.formats.record_types import (
    RecordShape,
    StoredLeaves,
    as_document,
    from_documents,
    names_of,
    schema_of_records,
    shape_of,
    shape_of_dicts,
)
from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, InvalidProgram
from funken.expr.python.table import BYTES, DATE, DATETIME, DECIMAL
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
from funken.types import text as parsing
from funken.types.callables import DOC_co, Generic, S
from funken.types.info import TypeOf
from funken.types.row import Instant, Row, make_row
from funken.types.text import shown

# ---- Values of Avro where ``fastavro`` is laxer than the format: defaults, times without a zone, and what does not
# fit a schema.
#
# ``fastavro`` hands the default of a field on as the JSON that it is, and the same object to all records. It writes
# a ``datetime`` without a zone by the zone of the machine, cuts microseconds off, writes any object as a boolean,
# and rounds decimals. Here
#
# * a default is a value of the field's type, logical types included, and each record has its own;
# * a time without a zone is in UTC for ``timestamp-*``, and one with a zone is refused for ``local-timestamp-*``;
# * a value that would be read as another one is refused with ``ValueError``.


Convert = Callable[[Any], Any]
Named = Mapping[str, Any]

_BITS = {"int": 32, "long": 64}
_MUTABLE = (list, dict)


def named_of(schema: Any) -> dict[str, Any]:
    """Return the named types of a schema that ``fastavro`` has parsed."""
    found: dict[str, Any] = {}
    for each in schema if isinstance(schema, list) else [schema]:
        _collect(each, found)
    return found


def _collect(schema: Any, found: dict[str, Any]) -> None:
    if isinstance(schema, list):
        for each in schema:
            _collect(each, found)
    if not isinstance(schema, dict):
        return
    if "name" in schema:
        if schema["name"] in found:
            return
        found[schema["name"]] = schema
    for part in (schema.get("items"), schema.get("values"), *(each["type"] for each in schema.get("fields", ()))):
        _collect(part, found)
    if isinstance(schema.get("type"), dict | list):
        _collect(schema["type"], found)


def kind_of(schema: Any) -> Any:
    """Return the type of a schema, by its name."""
    return "union" if isinstance(schema, list) else schema["type"] if isinstance(schema, dict) else schema


# ---- defaults


def with_defaults(schema: Any) -> Any:
    r"""Return a parsed schema to read by: defaults are values of their fields' types; raises ``ValueError``.

    >>> fields = [{"name": "raw", "type": "bytes", "default": "\u00ff"}, {"name": "x", "type": "double", "default": 1}]
    >>> made = with_defaults({"type": "record", "name": "R", "fields": fields})
    >>> [field["default"] for field in made["fields"]]
    [b'\xff', 1.0]
    """
    made = copy.deepcopy(schema)
    named = named_of(made)
    fields = [each for record in named.values() for each in record.get("fields", ()) if "default" in each]
    found = [(each, _default(each, named)) for each in fields]
    for described, value in found:  # defaults of records within need those of their fields as they are in the schema
        described["default"] = value
    for each in made if isinstance(made, list) else [made]:
        if isinstance(each, dict):  # or fastavro would parse it again, and refuse the defaults
            each.update({"__fastavro_parsed": True, "__named_schemas": named})
    return made


def _default(field: Any, named: Named) -> Any:
    try:
        return value_of(field["type"], field["default"], named)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
        raise ValueError(
            f"the default {shown(field['default'])} of field {field['name']!r} is no value of its type ({error})"
        ) from None


def value_of(schema: Any, default: Any, named: Named) -> Any:
    """Return the value that the JSON of a default means; of a union, of the first branch that has it."""
    if isinstance(schema, list):
        for branch in schema:
            try:
                return value_of(branch, default, named)
            except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
                continue
        raise ValueError("no branch of the union has it")
    if isinstance(schema, dict):
        if isinstance(schema["type"], dict | list):
            return value_of(schema["type"], default, named)
        value = _plain_value(schema, schema["type"], default, named)
        logical = importlib.import_module("fastavro.read").LOGICAL_READERS.get(
            f"{schema['type']}-{schema.get('logicalType')}"
        )
        return value if logical is None else logical(value, schema, schema)
    if schema in named:
        return value_of(named[schema], default, named)
    return _plain_value({}, schema, default, named)


def _plain_value(schema: Any, kind: str, default: Any, named: Named) -> Any:
    if kind in ("record", "error"):
        _expect(default, dict)
        return {
            each["name"]: value_of(each["type"], default.get(each["name"], each.get("default")), named)
            for each in schema["fields"]
        }
    if kind == "array":
        return [value_of(schema["items"], each, named) for each in _expect(default, list)]
    if kind == "map":
        return {key: value_of(schema["values"], each, named) for key, each in _expect(default, dict).items()}
    if kind in ("bytes", "fixed"):
        data = _expect(default, str).encode("latin-1")
        if kind == "fixed" and len(data) != schema["size"]:
            raise ValueError(f"it has {len(data)} bytes, and the type {schema['size']}")
        return data
    if kind == "enum":
        return schema["symbols"][schema["symbols"].index(default)]
    if kind in ("float", "double"):
        number = default if isinstance(default, str) else _expect(default, int | float)
        return float(number)
    if kind in _BITS:
        low, high = parsing.limits(_BITS[kind])
        if not low <= _expect(default, int) <= high:
            raise ValueError(f"it is beyond {kind}")
        return default
    return _expect(default, {"string": str, "boolean": bool, "null": type(None)}[kind])


def _expect(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"it is {type(value).__name__}")
    return value


def own_defaults(schema: Any) -> Convert | None:
    """Return a function that copies defaults for each record; ``None``: none of them can be changed.

    ``schema`` is one of ``with_defaults``. The record is changed in place.

    >>> numbers = {"name": "a", "type": {"type": "array", "items": "int"}, "default": []}
    >>> schema = {"type": "record", "name": "R", "fields": [numbers]}
    >>> shared = schema["fields"][0]["default"]
    >>> own_defaults(schema)({"a": shared})["a"] is shared
    False
    """
    named = named_of(schema)
    changeable = any(
        isinstance(field.get("default"), _MUTABLE) for record in named.values() for field in record.get("fields", ())
    )
    return _owner(schema, named, {}) if changeable else None


def _owner(schema: Any, named: Named, made: dict[str, Convert]) -> Convert:
    kind = kind_of(schema)
    if isinstance(kind, dict | list):
        return _owner(kind, named, made)
    if kind == "union":
        within = [_owner(branch, named, made) for branch in schema]

        def of_union(value: Any) -> Any:
            for convert in within:
                convert(value)
            return value

        return of_union
    if kind in ("array", "map"):
        inner = _owner(schema["items" if kind == "array" else "values"], named, made)

        def of_items(value: Any) -> Any:
            for each in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
                inner(each)
            return value

        return of_items
    name = schema["name"] if kind in ("record", "error") else kind
    if not isinstance(named.get(name), dict) or "fields" not in named[name]:
        return _same
    if name not in made:
        fields: list[tuple[str, Any, Convert]] = []
        made[name] = _of_fields(fields)  # a record may be within itself
        fields += [
            (each["name"], each.get("default"), _owner(each["type"], named, made)) for each in named[name]["fields"]
        ]
    return made[name]


def _of_fields(fields: list[tuple[str, Any, Convert]]) -> Convert:
    def convert(record: Any) -> Any:
        if isinstance(record, dict):
            for name, default, inner in fields:
                value = record.get(name)
                if value is None:
                    continue
                if value is default and isinstance(value, _MUTABLE):
                    record[name] = copy.deepcopy(value)
                else:
                    inner(value)
        return record

    return convert


def _same(value: Any) -> Any:
    return value


# ---- values are written


def writer_of(schema: Any) -> Convert:
    """Return a converter of a parsed schema's values to those of ``fastavro``; it raises ``ValueError``.

    >>> sale = {"type": "record", "name": "Sale", "fields": [{"name": "n", "type": "int", "default": 1}]}
    >>> writer_of(sale)({})
    {'n': 1}
    >>> writer_of(sale)({"n": 2**31})
    Traceback (most recent call last):
    ...
    ValueError: field 'n': 2147483648 is no int
    """
    return _writer(schema, named_of(schema), {})


def _writer(schema: Any, named: Named, made: dict[str, Convert]) -> Convert:
    kind = kind_of(schema)
    if isinstance(kind, dict | list):
        return _writer(kind, named, made)
    if kind == "union":
        return _union(schema, named, made)
    if kind == "array":
        return _array(_writer(schema["items"], named, made))
    if kind == "map":
        return _map(_writer(schema["values"], named, made))
    if kind in ("record", "error") or (kind in named and "fields" in named[kind]):
        record = named.get(kind, schema)
        if record["name"] not in made:
            fields: list[tuple[str, Convert, Any]] = []
            made[record["name"]] = _record(fields, named)
            fields += [(each["name"], _writer(each["type"], named, made), each) for each in record["fields"]]
        return made[record["name"]]
    if kind in named:
        return _writer(named[kind], named, made)
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    special = _LOGICAL.get(f"{kind}-{logical}")
    if special is not None:
        return special
    if logical == "decimal":
        return _decimal(schema)
    return _PLAIN.get(kind, _same)


def _record(fields: list[tuple[str, Convert, Any]], named: Named) -> Convert:
    def convert(record: Any) -> dict[str, Any]:
        if not isinstance(record, dict):
            raise ValueError(f"{shown(record)} is no record")
        try:
            # Hot: all fields are there, and fit.
            return {name: inner(record[name]) for name, inner, _ in fields}
        except (KeyError, ValueError):
            pass  # found again
        found = dict(record)
        for name, inner, described in fields:
            try:
                if name in record:
                    found[name] = inner(record[name])
                elif "default" in described:
                    found[name] = _default(described, named)
            except ValueError as error:
                raise ValueError(f"field {name!r}: {error}") from None
        return found

    return convert


def _array(inner: Convert) -> Convert:
    def convert(values: Any) -> list[Any]:
        if isinstance(values, str | bytes | dict) or not hasattr(values, "__iter__"):
            raise ValueError(f"{shown(values)} is no array")
        return [inner(each) for each in values]

    return convert


def _map(inner: Convert) -> Convert:
    def convert(values: Any) -> dict[str, Any]:
        if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
            raise ValueError(f"{shown(values)} is no map with keys that are text")
        return {key: inner(each) for key, each in values.items()}

    return convert


def _union(schema: list[Any], named: Named, made: dict[str, Convert]) -> Convert:
    branches = [(_name(branch, named), _writer(branch, named, made)) for branch in schema]
    others = [convert for name, convert in branches if name != "null"]
    if len(others) == 1 and len(branches) == 2:
        (only,) = others
        return lambda value: None if value is None else only(value)
    if any(name == "double" for name, _ in branches):
        branches = [each for each in branches if each[0] != "float"]
    records = {
        name: {each["name"] for each in named[name]["fields"]}
        for name, _ in branches
        if "fields" in named.get(name, {})
    }

    def convert(value: Any) -> Any:
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
            return next(((name, inner(value[1])) for name, inner in branches if name == value[0]), value)
        there = branches
        if isinstance(value, dict) and records:
            there = sorted(branches, key=lambda branch: -len(records.get(branch[0], set()) & value.keys()))
        for _, inner in there:
            try:
                return inner(value)
            except ValueError:
                continue
        raise ValueError(f"{shown(value)} is of no branch of {', '.join(str(name) for name, _ in branches)}")

    return convert


def _name(branch: Any, named: Named) -> str:
    kind = kind_of(branch)
    return str(branch["name"] if isinstance(branch, dict) and "name" in branch else kind)


def _checked(kind: type | tuple[type, ...], name: str) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, kind):
            raise ValueError(f"{shown(value)} is no {name}")
        return value

    return convert


def _whole(name: str) -> Convert:
    low, high = parsing.limits(_BITS[name])

    def convert(value: Any) -> int:
        # Hot: what most values are.
        if type(value) is int and low <= value <= high:
            return value
        try:
            number = None if isinstance(value, bool) else operator.index(value)
        except TypeError:
            number = None
        if number is None or not low <= number <= high:
            raise ValueError(f"{shown(value)} is no {name}")
        return number

    return convert


def _real(is_single: bool) -> Convert:
    name = "float" if is_single else "double"

    def convert(value: Any) -> float:
        if type(value) is not float:
            if isinstance(value, bool) or not isinstance(value, numbers.Real):
                raise ValueError(f"{shown(value)} is no {name}")
            try:
                number = float(value)
            except OverflowError:
                raise ValueError(f"{shown(value)} is beyond {name}") from None
            if isinstance(value, numbers.Integral) and number != value:
                raise ValueError(f"{shown(value)} has more digits than a {name}")
            value = number
        return parsing.single(value) if is_single else value

    return convert


def _decimal(schema: Any) -> Convert:
    scale, precision = schema.get("scale", 0), schema["precision"]
    step, context = decimal.Decimal(1).scaleb(-scale), decimal.Context(prec=max(precision, 1), traps=[decimal.Inexact])

    def convert(value: Any) -> Any:
        if isinstance(value, bytes):
            return value
        if isinstance(value, bool) or not isinstance(value, decimal.Decimal | int):
            raise ValueError(f"{shown(value)} is no decimal")
        try:
            made = decimal.Decimal(value).quantize(step, context=context)
        except (decimal.Inexact, decimal.InvalidOperation):
            made = None
        if made is None or not made.is_finite():
            raise ValueError(f"{shown(value)} does not fit decimal({precision}, {scale})")
        return made

    return convert


def _timestamp(is_millis: bool, is_local: bool) -> Convert:
    def convert(value: Any) -> Any:
        if isinstance(value, Instant) and not is_local:
            value = parsing.datetime_of_instant(value)
        if not isinstance(value, datetime.datetime):
            return _LONG(value)
        if is_millis and value.microsecond % 1000:
            raise ValueError(f"{value.isoformat()} has microseconds, and the schema milliseconds; round it")
        if is_local:
            if value.tzinfo is not None:
                raise ValueError(
                    f"{value.isoformat()} has a zone, and local-timestamp-* has none; write timestamp-*, or leave the zone out"
                )
            return value
        return value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)

    return convert


def _time(is_millis: bool) -> Convert:
    whole = _whole("int" if is_millis else "long")

    def convert(value: Any) -> Any:
        if not isinstance(value, datetime.time):
            return whole(value)
        if value.tzinfo is not None:
            raise ValueError(f"{value!r} has a zone, and times of day have none; leave it out")
        if is_millis and value.microsecond % 1000:
            raise ValueError(f"{value.isoformat()} has microseconds, and the schema milliseconds; round it")
        return value

    return convert


def _date(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        raise ValueError(f"{value.isoformat()} is no date; write its date()")
    return value if isinstance(value, datetime.date) else _INT(value)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise ValueError(f"{shown(value)} is no bytes")
    return bytes(value)


_INT, _LONG = _whole("int"), _whole("long")
_PLAIN: dict[str, Convert] = {
    "null": _checked(type(None), "null"), "boolean": _checked(bool, "boolean"), "int": _INT, "long": _LONG, "float": _real(True),
    "double": _real(False), "bytes": _bytes, "fixed": _bytes, "string": _checked(str, "string"), "enum": _checked(str, "enum"),
}  # fmt: skip
_LOGICAL: dict[str, Convert] = {
    "long-timestamp-millis": _timestamp(True, False), "long-timestamp-micros": _timestamp(False, False),
    "long-local-timestamp-millis": _timestamp(True, True), "long-local-timestamp-micros": _timestamp(False, True),
    "int-date": _date, "int-time-millis": _time(True), "long-time-micros": _time(False),
    "string-uuid": _checked((str, uuid.UUID), "uuid"),
}  # fmt: skip


def fastavro() -> Any:
    """Return the library; raises ``EnvironmentNotReady`` if it is not installed."""
    return extras.required("fastavro", "avro", "Avro needs fastavro")


@dataclass(frozen=True)
class AvroSchema(SerializationSchema[object], DeserializationSchema[DOC_co], Generic[DOC_co]):
    r"""Single Avro records, both ways, of a schema in JSON; records are dicts, or of ``record_type`` (its fields by their names).

    ``writer_schema`` is what messages were written with, if it is another one: fields that are new have the defaults of
    ``schema``, fields that are gone are dropped. Raises ``InvalidConfiguration`` for text that is no schema of Avro.

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
    record_type: TypeOf[DOC_co] | None = None
    writer_schema: str | None = None
    _parsed: Any = field(init=False, repr=False, compare=False)
    _written: Any = field(init=False, repr=False, compare=False)
    _wanted: Any = field(init=False, repr=False, compare=False)
    _own: Callable[[Any], Any] | None = field(init=False, repr=False, compare=False)
    _writer: Callable[[Any], Any] = field(init=False, repr=False, compare=False)
    _make: Callable[[Any], Any] | None = field(init=False, repr=False, compare=False)
    _document: Callable[[Any], Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse objects that are no schema, before the job runs."""
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
    def of(record_type: TypeOf[S], name: str | None = None) -> AvroSchema[S]:
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

    def deserialize(self, message: bytes) -> DOC_co:
        """Read a record; raises ``ValueError`` or ``EOFError`` if the bytes are not one."""
        record: DOC_co = self.deserialize_block((message,))[0]
        return record

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
        """Return a function that makes columns of messages."""
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
    """Makes columns of the records of ``fastavro``, which have the same fields in every record.

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
    """Return a function from records of a type to dicts; dicts may have fewer fields, or more."""
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
    """Return a function from a schema's dicts to rows, those within included.

    >>> inner = '{"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}'
    >>> make = rows_of('{"type": "record", "name": "Out", "fields": [{"name": "all", "type": {"type": "array", "items": '
    ...                + inner + "}}]}")
    >>> make({"all": [{"x": 1}]})
    Row(all=[Row(x=1)])
    """
    return _within(json.loads(schema), _row_maker) or _same


def documents_of(schema: str) -> Callable[[Any], Any]:
    """Return a function from rows, tuples and dicts to dicts: by the schema's field names, or in their order.

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
    """Return a converter of the records in a value; ``None`` where there are none."""
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
_LOGICAL_OF_ARROW = {
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
    if str(kind) in _LOGICAL_OF_ARROW:
        base, logical = _LOGICAL_OF_ARROW[str(kind)]
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
