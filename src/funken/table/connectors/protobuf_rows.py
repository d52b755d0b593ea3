"""Messages of protocol buffers as the rows of a table, by the rules of Flink's format ``protobuf``.

A column has the name of a field and the type of its kind. Scalars of ``proto3`` that are not set have their defaults, since
their presence is unknown. All else that is not set is NULL, unless ``read-default-values`` asks for defaults.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from funken.connectors.formats.protobuf_schema import ProtobufSchema
from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.table.types import ArrayType, LogicalType, MapType, RowType
from funken.types.row import Row

Columns = Sequence[tuple[str, LogicalType]]
_UNKNOWN = "UNRECOGNIZED"
"""The text of a number that the enum of a message does not know."""


def check_columns(path: str, descriptor: Any, columns: Columns) -> None:
    """Refuse columns that a message has no field for, and those of another type; raises ``InvalidProgram``."""
    for name, type_ in columns:
        field = descriptor.fields_by_name.get(name)
        if field is None:
            raise InvalidProgram(
                f"Table {path!r}: column {name!r} is no field of the message {descriptor.full_name}, which has "
                f"{', '.join(descriptor.fields_by_name)}. Names are compared as they are."
            )
        _check_type(f"Table {path!r}: field {name!r} of the message {descriptor.full_name}", path, field, type_)


def _check_type(place: str, path: str, field: Any, type_: LogicalType) -> None:
    if is_map(field):
        if not isinstance(type_, MapType):
            raise InvalidProgram(f"{place} is a map, but its column has type {type_}. Declare a MAP.")
        entry = field.message_type.fields_by_name
        _check_single(f"{place}, its keys,", path, entry["key"], type_.key)
        _check_single(f"{place}, its values,", path, entry["value"], type_.value)
    elif field.is_repeated:
        if not isinstance(type_, ArrayType):
            raise InvalidProgram(f"{place} is repeated, but its column has type {type_}. Declare an ARRAY.")
        _check_single(place, path, field, type_.element)
    else:
        _check_single(place, path, field, type_)


def _check_single(place: str, path: str, field: Any, type_: LogicalType) -> None:
    if field.message_type is not None:
        if not isinstance(type_, RowType):
            raise InvalidProgram(f"{place} is a message, but its column has type {type_}. Declare a ROW of its fields.")
        check_columns(path, field.message_type, _fields(type_))
        return
    kinds = _kinds(field)
    if type_.root not in kinds:
        raise InvalidProgram(f"{place} needs the type {kinds[0]}, and not {type_}.")


def _kinds(field: Any) -> tuple[str, ...]:
    """Return the types that a column of a scalar field may have."""
    return {
        field.CPPTYPE_INT32: ("INT",),
        field.CPPTYPE_UINT32: ("INT",),
        field.CPPTYPE_INT64: ("BIGINT",),
        field.CPPTYPE_UINT64: ("BIGINT",),
        field.CPPTYPE_BOOL: ("BOOLEAN",),
        field.CPPTYPE_FLOAT: ("FLOAT",),
        field.CPPTYPE_DOUBLE: ("DOUBLE",),
        field.CPPTYPE_ENUM: ("STRING", "VARCHAR", "CHAR", "INT"),
        field.CPPTYPE_STRING: ("BYTES", "VARBINARY", "BINARY")
        if field.type == field.TYPE_BYTES
        else ("STRING", "VARCHAR", "CHAR"),
    }[field.cpp_type]


def _fields(type_: RowType) -> Columns:
    return tuple((each.name, each.type) for each in type_.fields)


def is_map(field: Any) -> bool:
    """Return True if a field is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


# ---- messages are read


def row_reader(descriptor: Any, columns: Columns, defaults: bool) -> Callable[[Any], Row]:
    """Return the reader of messages to rows; ``defaults``: what is not set is no NULL."""
    readers = [_field_reader(descriptor.fields_by_name[name], type_, defaults) for name, type_ in columns]
    return lambda message: Row(*(read(message) for read in readers))


def _field_reader(field: Any, type_: Any, defaults: bool) -> Callable[[Any], Any]:
    name = field.name
    if is_map(field):
        entry = field.message_type.fields_by_name
        key, item = _reader(entry["key"], type_.key, defaults), _reader(entry["value"], type_.value, defaults)

        def read_map(message: Any) -> Any:
            found = getattr(message, name)
            return {key(each): item(found[each]) for each in found} if found or defaults else None

        return read_map
    if field.is_repeated:
        element = _reader(field, type_.element, defaults)

        def read_list(message: Any) -> Any:
            found = getattr(message, name)
            return [element(each) for each in found] if found or defaults else None

        return read_list
    value = _reader(field, type_, defaults)
    if defaults or not field.has_presence or (field.message_type is None and _is_proto3(field.file)):
        return lambda message: value(getattr(message, name))
    return lambda message: value(getattr(message, name)) if message.HasField(name) else None


@functools.cache
def _is_proto3(file: Any) -> bool:
    about = importlib.import_module("google.protobuf.descriptor_pb2").FileDescriptorProto()
    file.CopyToProto(about)
    return bool(about.syntax == "proto3")


def _reader(field: Any, type_: Any, defaults: bool) -> Callable[[Any], Any]:
    """Return the reader of one value of a field."""
    if field.message_type is not None:
        return row_reader(field.message_type, _fields(type_), defaults)
    if field.cpp_type == field.CPPTYPE_ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        if type_.root != "INT":
            return lambda number: names.get(number, _UNKNOWN)

        def read_number(number: int) -> int:
            if number not in names:
                raise ValueError(f"field {field.name!r}: {number} is none of {field.enum_type.full_name}'s numbers")
            return number

        return read_number
    if field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64):
        return functools.partial(_signed, _bits(field))
    return _same


def _same(value: Any) -> Any:
    return value


def _bits(field: Any) -> int:
    return 32 if field.cpp_type == field.CPPTYPE_UINT32 else 64


def _signed(bits: int, value: int) -> int:
    """Return a number without a sign as SQL's, with one: the greater half is negative."""
    return value - (1 << bits) if value >> (bits - 1) else value


# ---- messages are written


def row_writer(descriptor: Any, columns: Columns, null_text: str) -> Callable[[Any, Any], None]:
    """Return the writer of rows into messages: NULL sets nothing, and in a list or a map it is a default."""
    writers = [_field_writer(descriptor.fields_by_name[name], type_, null_text) for name, type_ in columns]

    def write(message: Any, row: Any) -> None:
        for set_field, value in () if row is None else zip(writers, row, strict=True):
            if value is not None:
                set_field(message, value)

    return write


def _field_writer(field: Any, type_: Any, null_text: str) -> Callable[[Any, Any], None]:
    name = field.name
    if is_map(field):
        return _map_writer(field, type_, null_text)
    if field.message_type is not None:
        fill = row_writer(field.message_type, _fields(type_.element if field.is_repeated else type_), null_text)

        def write_message(message: Any, value: Any) -> None:
            if field.is_repeated:
                for each in value:
                    fill(getattr(message, name).add(), each)
            else:
                getattr(message, name).SetInParent()
                fill(getattr(message, name), value)

        return write_message
    single = _writer(field, null_text)
    if field.is_repeated:
        return lambda message, value: getattr(message, name).extend([single(each) for each in value])
    return lambda message, value: setattr(message, name, single(value))


def _map_writer(field: Any, type_: Any, null_text: str) -> Callable[[Any, Any], None]:
    entry = field.message_type.fields_by_name
    key = _writer(entry["key"], null_text)
    kind = entry["value"].message_type
    if kind is None:
        single = _writer(entry["value"], null_text)

        def write_values(message: Any, value: Any) -> None:
            getattr(message, field.name).update({key(each): single(item) for each, item in value.items()})

        return write_values
    fill = row_writer(kind, _fields(type_.value), null_text)

    def write_messages(message: Any, value: Any) -> None:
        for each, item in value.items():
            fill(getattr(message, field.name)[key(each)], item)

    return write_messages


def _writer(field: Any, null_text: str) -> Callable[[Any], Any]:
    """Return the writer of one scalar; NULL becomes the default of its kind, or the text for it."""
    kind = field.cpp_type
    if kind == field.CPPTYPE_ENUM:
        values = field.enum_type.values
        numbers = {each.name: each.number for each in values} | {each.number: each.number for each in values}
        return lambda value: numbers.get(value, values[0].number)
    if kind == field.CPPTYPE_STRING:
        nothing: Any = b"" if field.type == field.TYPE_BYTES else null_text
        return lambda value: nothing if value is None else value
    if kind in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64):
        mask = (1 << _bits(field)) - 1
        return lambda value: (value or 0) & mask
    return lambda value: 0 if value is None else value


@dataclass(frozen=True)
class ProtobufRows(DeserializationSchema, SerializationSchema):
    r"""Messages as rows.

    >>> from google.protobuf.source_context_pb2 import SourceContext
    >>> from funken.table.types import DataTypes
    >>> rows = ProtobufRows((("file_name", DataTypes.STRING()),), ProtobufSchema(SourceContext))
    >>> rows.serialize(Row("tea")), rows.deserialize_all(b"\n\x03tea"), rows.deserialize_all(b"")
    (b'\n\x03tea', [<Row('tea')>], [<Row('')>])
    """

    columns: tuple[tuple[str, LogicalType], ...]
    schema: ProtobufSchema
    ignores_errors: bool = False
    defaults: bool = False
    null_text: str = ""

    never_waits = True

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.columns, self.schema, self.ignores_errors, self.defaults, self.null_text)

    @functools.cached_property
    def _read(self) -> Callable[[Any], Row]:
        return row_reader(self.schema.message_class.DESCRIPTOR, self.columns, self.defaults)

    @functools.cached_property
    def _write(self) -> Callable[[Any, Any], None]:
        return row_writer(self.schema.message_class.DESCRIPTOR, self.columns, self.null_text)

    def deserialize_all(self, message: bytes) -> list[Any]:
        """Return the row of a message; none if it cannot be read and errors are ignored."""
        try:
            found = self.schema.deserialize(message)
            if not found.IsInitialized():
                raise ValueError(f"it has no {', '.join(found.FindInitializationErrors())}, which are required")
            return [self._read(found)]
        except Exception:
            if self.ignores_errors:  # the library of the format has exceptions of its own
                return []
            raise

    def serialize(self, value: Any) -> bytes:
        """Write a row."""
        message = self.schema.message_class()
        self._write(message, value)
        return self.schema.serialize(message)
