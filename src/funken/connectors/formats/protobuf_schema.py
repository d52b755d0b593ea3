"""Protocol buffers, one per message, by a generated class or a descriptor.

Records are the messages of Google's library, or of a ``record_type`` with the fields' names. A generated class travels to the
tasks by its import path, so the workers need the module; one made of a descriptor travels with its file descriptors.
"""

from __future__ import annotations

import base64
import datetime
import importlib
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, is_dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any, cast

from funken import extras
from funken.columnar.block import Block
from funken.columnar.expressions import NotVectorizable
from funken.connectors.formats.arrow_columns import columns_of_values
from funken.connectors.formats.record_types import (
    as_document,
    field_types,
    from_documents,
    names_of,
    schema_of_records,
    shape_of,
)
from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.expr.types import Type, atomic_fields
from funken.types import text as parsing
from funken.types.callables import Generic, T_co
from funken.types.info import MapTypeInfo, OfElements, RowTypeInfo, TupleTypeInfo, TypeOf, Types
from funken.types.row import Instant
from funken.types.text import shown

# ---- Messages of protocol buffers as values of Python, and back, field by field: what is read can be written.
#
# Of Google's own types, ``Struct``, ``ListValue`` and ``Value`` are dicts, lists and plain values, ``Timestamp`` is
# a ``datetime`` in UTC (or what is declared: ``Types.INSTANT()``, ``Types.SQL_TIMESTAMP()``), ``Duration`` a
# ``timedelta``, a wrapper its value. One whose value Python has no exact form for stays a message: a ``Duration``
# finer than microseconds, a ``Value`` that is null. All other messages are dicts of their fields; so are these, if
# a record is declared for them.


Declared = Mapping[str, Any]
NOTHING: Declared = MappingProxyType({})

_GOOGLE = "google.protobuf."
_WRAPPERS = {
    f"{_GOOGLE}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_TIMESTAMP, _DURATION, _STRUCT, _LIST, _VALUE, _ANY, _MASK = (
    f"{_GOOGLE}{name}" for name in ("Timestamp", "Duration", "Struct", "ListValue", "Value", "Any", "FieldMask")
)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NANOS = 10**9


# ---- messages are read


def fields_of(message: Any, declared: Declared = NOTHING) -> dict[str, Any]:
    """Return all fields of a message as values; ``None`` for one that is optional and not set.

    >>> from google.protobuf.struct_pb2 import Struct
    >>> from google.protobuf.timestamp_pb2 import Timestamp
    >>> fields_of(Timestamp(seconds=1))
    {'seconds': 1, 'nanos': 0}
    """
    found = {}
    for each in message.DESCRIPTOR.fields:
        value, of = getattr(message, each.name), declared.get(each.name)
        if each.has_presence and not message.HasField(each.name):
            value = None
        elif _is_map(each):
            kind, of = each.message_type.fields_by_name["value"], _within(of)
            value = {key: _value(item, of) if kind.message_type is not None else item for key, item in value.items()}
        elif each.is_repeated:
            of = _within(of)
            value = [_value(item, of) for item in value] if each.message_type is not None else list(value)
        elif each.message_type is not None:
            value = _value(value, of)
        found[each.name] = value
    return found


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _within(declared: Any) -> Any:
    """Return the declared type of the elements of lists, or the values of maps; ``None`` if it is not known."""
    if isinstance(declared, OfElements):
        return declared.element_type
    if isinstance(declared, MapTypeInfo):
        return declared.value_type
    arguments = typing.get_args(declared)
    return arguments[-1] if typing.get_origin(declared) in (list, dict) else None


def declared_of(record_type: Any, field_types: Callable[[Any], Any]) -> Declared:
    """Return the declared types of the fields of a record type, by their names."""
    names = getattr(record_type, "get_field_names", None)
    if names is None:
        hints = field_types(record_type)
        fields = getattr(record_type, "__dataclass_fields__", getattr(record_type, "_fields", ()))
        return dict(zip(fields, hints, strict=False))
    return dict(zip(names(), record_type.field_types, strict=True))


def _is_record(declared: Any) -> bool:
    return isinstance(declared, RowTypeInfo | TupleTypeInfo) or (
        isinstance(declared, type)
        and (is_dataclass(declared) or hasattr(declared, "_fields"))
        and declared is not Instant
    )


def _value(message: Any, declared: Any) -> Any:
    name = message.DESCRIPTOR.full_name
    if name in (_STRUCT, _LIST, _VALUE):
        try:
            plain = _plain(message)
        except ValueError:
            return message
        return message if plain is None else plain  # null, and not nothing
    if not _is_record(declared):
        if name == _TIMESTAMP:
            return _time(message, declared)
        if name == _DURATION:
            return _duration(message)
        if name in _WRAPPERS:
            return message.value
    return fields_of(message, _declared_within(declared))


def _declared_within(declared: Any) -> Declared:
    if isinstance(declared, RowTypeInfo):
        return dict(zip(declared.get_field_names(), declared.field_types, strict=True))
    return NOTHING


def _plain(message: Any) -> Any:
    """Return the JSON of a struct, a list or a value; raises ``ValueError`` for a value that is not set."""
    name = message.DESCRIPTOR.full_name
    if name == _STRUCT:
        return {key: _plain(item) for key, item in message.fields.items()}
    if name == _LIST:
        return [_plain(item) for item in message.values]
    kind = message.WhichOneof("kind")
    if kind is None:
        raise ValueError("the value has no kind")
    if kind == "null_value":
        return None
    value = getattr(message, kind)
    return _plain(value) if kind in ("struct_value", "list_value") else value


def _time(message: Any, declared: Any) -> Any:
    if not 0 <= message.nanos < _NANOS:
        return message
    instant = Instant(message.seconds, message.nanos)
    if declared in (Types.INSTANT(), Instant):
        return instant
    try:
        found = parsing.datetime_of_instant(instant)
    except ValueError:
        return message
    return found.replace(tzinfo=None) if declared == Types.SQL_TIMESTAMP() else found


def _duration(message: Any) -> Any:
    if message.nanos % 1000 or (message.seconds < 0 < message.nanos) or (message.nanos < 0 < message.seconds):
        return message
    try:
        return datetime.timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    except OverflowError:
        return message


# ---- messages are written


def fill(message: Any, values: Mapping[str, Any]) -> Any:
    """Set the fields of a message; ``None`` sets none. Raises ``ValueError`` for a field, or a value, that it does not have."""
    descriptor = message.DESCRIPTOR
    for name, value in values.items():
        field = descriptor.fields_by_name.get(name) or descriptor.fields_by_camelcase_name.get(name)
        if field is None:
            raise ValueError(
                f"{descriptor.full_name} has no field {name!r}; it has {', '.join(descriptor.fields_by_name)}"
            )
        if value is None:
            continue
        try:
            _set(message, field, value)
        except (ValueError, TypeError) as error:
            raise ValueError(f"field {name!r}: {error}") from None
    return message


def _set(message: Any, field: Any, value: Any) -> None:
    if _is_map(field):
        _set_map(getattr(message, field.name), field.message_type.fields_by_name, value)
    elif field.is_repeated:
        if isinstance(value, str | bytes | dict) or not hasattr(value, "__iter__"):
            raise ValueError(f"{shown(value)} is no list")
        target = getattr(message, field.name)
        for each in value:
            if field.message_type is None:
                target.append(_single(field, each))
            else:
                _set_message(target.add(), each)
    elif field.message_type is not None:
        target = getattr(message, field.name)
        target.SetInParent()
        _set_message(target, value)
    else:
        setattr(message, field.name, _single(field, value))


def _set_map(target: Any, entry: Any, values: Any) -> None:
    if not isinstance(values, Mapping):
        raise ValueError(f"{shown(values)} is no map")
    for key, each in values.items():
        name = _single(entry["key"], key)
        if entry["value"].message_type is None:
            target[name] = _single(entry["value"], each)
        else:
            _set_message(target[name], each)


def _set_message(message: Any, value: Any) -> None:
    name = message.DESCRIPTOR.full_name
    if hasattr(value, "DESCRIPTOR"):
        if value.DESCRIPTOR.full_name != name:
            raise ValueError(f"it is a {value.DESCRIPTOR.full_name}, and not a {name}")
        message.MergeFromString(value.SerializeToString())
    elif name == _VALUE:
        _set_value(message, value)
    elif name == _STRUCT:
        _set_map(message.fields, message.DESCRIPTOR.fields_by_name["fields"].message_type.fields_by_name, value)
    elif name == _LIST:
        _set(message, message.DESCRIPTOR.fields_by_name["values"], value)
    elif name == _TIMESTAMP and not isinstance(value, Mapping):
        _set_time(message, value)
    elif name == _DURATION and isinstance(value, datetime.timedelta):
        micros = value // datetime.timedelta(microseconds=1)
        sign = -1 if micros < 0 else 1
        message.seconds, message.nanos = sign * (abs(micros) // 10**6), sign * (abs(micros) % 10**6) * 1000
    elif name in (_TIMESTAMP, _DURATION, _MASK) and isinstance(value, str):
        message.FromJsonString(value)
    elif name == _MASK and isinstance(value, list | tuple):
        message.paths.extend(value)
    elif name in _WRAPPERS and not (isinstance(value, Mapping) and value.keys() == {"value"}):
        message.value = _single(message.DESCRIPTOR.fields_by_name["value"], value)
    elif name == _ANY and isinstance(value, Mapping) and "@type" in value:
        importlib.import_module("google.protobuf.json_format").ParseDict(dict(value), message)
    elif isinstance(value, Mapping):
        fill(message, value)
    else:
        raise ValueError(f"{shown(value)} is no {name}")


def _set_time(message: Any, value: Any) -> None:
    if isinstance(value, str):
        message.FromJsonString(value)
        return
    if isinstance(value, datetime.datetime):
        value = parsing.instant_of_datetime(value)
    if not isinstance(value, Instant):
        raise ValueError(f"{shown(value)} is no point in time")
    message.seconds, message.nanos = value.seconds, value.nanos


def _set_value(message: Any, value: Any) -> None:
    if value is None:
        message.null_value = 0
    elif isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, int | float):
        if float(value) != value and value == value:  # noqa: PLR0124 - NaN is itself only here
            raise ValueError(f"{value} has more digits than the number of a Value")
        message.number_value = value
    elif isinstance(value, str):
        message.string_value = value
    elif isinstance(value, Mapping):
        message.struct_value.SetInParent()
        _set_message(message.struct_value, value)
    elif isinstance(value, list | tuple):
        message.list_value.SetInParent()
        _set_message(message.list_value, value)
    else:
        raise ValueError(f"{shown(value)} is no value of a Struct")


def _single(field: Any, value: Any) -> Any:
    """Return a value that a field takes as it is; raises ``ValueError`` for one that would be another."""
    kind = field.cpp_type
    if kind == field.CPPTYPE_ENUM:
        return _enum(field.enum_type, value)
    if kind == field.CPPTYPE_STRING:
        return _bytes(value) if field.type == field.TYPE_BYTES else _expect(value, str)
    if kind == field.CPPTYPE_BOOL:
        return _expect(value, bool)
    if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return _real(value, kind == field.CPPTYPE_FLOAT)
    if isinstance(value, str):
        value = parsing.whole_number(None)(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"{shown(value)} is no whole number")
    return value.__index__()


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{shown(value)} is no {kind.__name__}")
    return value


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return base64.b64decode(value, validate=True)
    if not isinstance(value, bytes | bytearray | memoryview):
        raise ValueError(f"{shown(value)} is no bytes")
    return bytes(value)


def _real(value: Any, is_single: bool) -> float:
    if isinstance(value, str):
        value = parsing.real_number(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{shown(value)} is no number")
    number = float(value)
    if isinstance(value, int) and number != value:
        raise ValueError(f"{value} has more digits than the field")
    return parsing.single(number) if is_single else number


def _enum(kind: Any, value: Any) -> int:
    if isinstance(value, str):
        found = kind.values_by_name.get(value)
        if found is None:
            raise ValueError(f"{value!r} is none of {', '.join(kind.values_by_name)}")
        return int(found.number)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{shown(value)} is no value of {kind.name}")
    return value


def _protobuf(module: str) -> Any:
    return extras.required(f"google.protobuf.{module}", "protobuf", "protocol buffers need protobuf")


@dataclass(frozen=True)
class ProtobufSchema(SerializationSchema[object], DeserializationSchema[T_co], Generic[T_co]):
    r"""Protocol buffers, both ways; ``message`` is a generated class or a message descriptor.

    With a ``record_type`` records have its fields, as Python values: an unset field has its default, nested messages are dicts,
    Google's own types plain values (a ``Timestamp`` is a ``datetime``, a ``Struct`` a dict). Without, they are messages. Raises
    ``InvalidProgram`` if ``message`` is neither class nor descriptor.

    >>> from google.protobuf.source_context_pb2 import SourceContext  # stands for a class that protoc generated
    >>> from funken import Types
    >>> schema = ProtobufSchema(SourceContext, Types.ROW_NAMED(["file_name"], [Types.STRING()]))
    >>> schema.deserialize(b"\n\x03tea"), schema.serialize({"file_name": "tea"})
    (Row(file_name='tea'), b'\n\x03tea')
    >>> ProtobufSchema(SourceContext).deserialize(b"\n\x03tea").file_name
    'tea'
    >>> schema.deserialize(b"\xff")
    Traceback (most recent call last):
    ...
    google.protobuf.message.DecodeError: Error parsing message with type 'google.protobuf.SourceContext'...
    """

    message: Any
    record_type: TypeOf[T_co] | None = None
    _class: Any = field(init=False, repr=False, compare=False)
    _make: Callable[[Any], Any] | None = field(init=False, repr=False, compare=False)
    _declared: Any = field(init=False, repr=False, compare=False)

    @property
    def message_class(self) -> Any:
        """The class of the messages."""
        return self._class

    def __post_init__(self) -> None:
        """Find the class, and refuse a record type whose fields the message does not have."""
        descriptor = getattr(self.message, "DESCRIPTOR", self.message)
        if not hasattr(descriptor, "fields_by_name"):
            raise InvalidProgram(
                f"ProtobufSchema cannot read {self.message!r}; pass a class that protoc generated, or its descriptor."
            )
        made = (
            self.message if isinstance(self.message, type) else _protobuf("message_factory").GetMessageClass(descriptor)
        )
        object.__setattr__(self, "_class", made)
        make = None
        if self.record_type is not None:
            shape = shape_of(self.record_type, "ProtobufSchema")
            unknown = [name for name in shape.names if name not in descriptor.fields_by_name]
            if unknown:
                raise InvalidProgram(
                    f"ProtobufSchema: {descriptor.full_name} has no field {unknown[0]!r}; it has "
                    f"{', '.join(descriptor.fields_by_name)}."
                )
            make = from_documents(shape)
        object.__setattr__(self, "_make", make)
        object.__setattr__(self, "_declared", _declared_of(self.record_type))

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self.message, type) and not _is_dynamic(self.message):
            return type(self), (self.message, self.record_type)
        descriptor = getattr(self.message, "DESCRIPTOR", self.message)
        return _rebuilt, (descriptor.full_name, _files(descriptor.file), self.record_type)

    never_waits = True

    def deserialize(self, message: bytes) -> T_co:
        """Read a message; raises ``DecodeError`` of protobuf if the bytes are none."""
        found = self._class.FromString(bytes(message))
        record: T_co = found if self._make is None else self._make(fields_of(found, self._declared))
        return record

    def deserialize_block(self, messages: Sequence[bytes]) -> list[Any]:
        """Read messages."""
        found = map(self._class.FromString, messages)
        make = self._make
        return list(found) if make is None else [make(fields_of(each, self._declared)) for each in found]

    def record_schema(self) -> Type:
        """Return the schema of records of a declared type; others are messages."""
        if type(self) is not ProtobufSchema:
            return super().record_schema()
        if self.record_type is None:
            raise NotVectorizable(
                "gives messages of protobuf; declare the record type: ProtobufSchema(message, record_type)"
            )
        return schema_of_records(self.record_type, shape_of(self.record_type, "ProtobufSchema"))

    def messages_to_columns(
        self, schema: Type, wanted: Sequence[int] | None
    ) -> Callable[[Sequence[bytes]], Block | None]:
        """Return a function that makes columns of messages: of fields that are numbers, text and bytes, or enums."""
        names, leaves = names_of(schema, shape_of(self.record_type, "ProtobufSchema")), atomic_fields(schema)
        fields = {
            number: _fields_at(self._class.DESCRIPTOR, names, schema, leaves[number][0])
            for number in (range(len(leaves)) if wanted is None else wanted)
        }
        alone = all(each and each[-1].message_type is None for each in fields.values())

        def of_messages(messages: Sequence[bytes]) -> Block | None:
            try:
                found = list(map(self._class.FromString, messages))
            except Exception:  # noqa: BLE001 - found again, message by message
                return None
            values = {number: _values_of(each, found) for number, each in fields.items()} if alone else {}
            if not alone or None in values.values():
                return None
            return columns_of_values(schema, cast(dict[int, list[Any]], values), len(found))

        return of_messages

    def serialize(self, value: Any) -> bytes:
        """Write a message; a record becomes one by its fields' names."""
        if not isinstance(value, self._class):
            value = self._filled(value)
        return bytes(value.SerializeToString())

    def _filled(self, value: Any) -> Any:
        document = as_document(value)
        if not isinstance(document, dict) and self.record_type is not None:
            shape = shape_of(self.record_type, "ProtobufSchema")
            document = dict(zip(shape.names, map(as_document, shape.values(value)), strict=True))
        if not isinstance(document, dict):
            raise ValueError(
                f"{type(value).__name__} has no named fields; make a record or a dict of it in a map first"
            )
        return fill(self._class(), document)


def _declared_of(record_type: Any) -> Any:
    return {} if record_type is None else declared_of(record_type, field_types)


def _fields_at(descriptor: Any, names: Sequence[str], schema: Any, path: tuple[int, ...]) -> list[Any]:
    """Return the fields of messages on the way to a field of a schema; none if one is not there, or several are."""
    found: list[Any] = []
    messages, fields = descriptor, tuple(names)
    for number in path:
        repeated = bool(found) and found[-1].is_repeated
        if messages is None or repeated or fields[number] not in messages.fields_by_name:
            return []
        found.append(messages.fields_by_name[fields[number]])
        schema, messages = schema[number], found[-1].message_type
        fields = getattr(schema, "names", ())
    return found


def _values_of(path: list[Any], messages: list[Any]) -> list[Any] | None:
    """Return the values of a field without fields of its own; ``None`` for one that is optional and not set.

    It may be in messages within these; if one of them is not set, there are none.
    """
    *around, field = path
    for each in around:
        name = each.name
        if not all(one.HasField(name) for one in messages):
            return None
        messages = list(map(attrgetter(name), messages))
    values = list(map(attrgetter(field.name), messages))
    if field.is_repeated:
        return list(map(list, values))
    if field.has_presence:
        name = field.name
        return [value if one.HasField(name) else None for value, one in zip(values, messages, strict=True)]
    return values


def _is_dynamic(message: type) -> bool:
    module = importlib.import_module("sys").modules.get(message.__module__)
    return getattr(module, message.__qualname__.split(".")[0], None) is None


def _files(file: Any) -> list[bytes]:
    """Return a file's descriptor and those it depends on, in an order in which they can be added to a pool."""
    found: dict[str, bytes] = {}

    def add(one: Any) -> None:
        for other in one.dependencies:
            add(other)
        found.setdefault(one.name, one.serialized_pb)

    add(file)
    return list(found.values())


def _rebuilt(name: str, files: list[bytes], record_type: Any) -> ProtobufSchema:
    pool = _protobuf("descriptor_pool").DescriptorPool()
    for each in files:
        pool.AddSerializedFile(each)
    return ProtobufSchema(pool.FindMessageTypeByName(name), record_type)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number that is never negative, written in zigzag, and where it ends; raises ``ValueError`` if it does not."""
    found = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("the place of its message within the schema is cut off")
        found |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return found >> 1, at


def without_place(payload: bytes) -> bytes:
    r"""Return a payload without the place of its message before it.

    >>> without_place(b"\x04\x02\x00tea"), without_place(b"\x00tea")
    (b'tea', b'tea')
    """
    count, at = _varint(payload, 0)
    for _ in range(count):
        _, at = _varint(payload, at)
    return payload[at:]


def place_of(descriptor: Any) -> bytes:
    """Return a message's place in its file: depth, and its number on each level; the first of all is a zero."""
    path: list[int] = []
    while descriptor is not None:
        outer = descriptor.containing_type
        beside = (
            list(descriptor.file.message_types_by_name) if outer is None else [one.name for one in outer.nested_types]
        )
        path.insert(0, beside.index(descriptor.name))
        descriptor = outer
    found = bytearray()
    for number in [0] if path == [0] else [len(path), *path]:
        left = number << 1
        while left > 0x7F:
            found.append(left & 0x7F | 0x80)
            left >>= 7
        found.append(left)
    return bytes(found)
