"""Protocol buffers, one per message: the generated class, or a descriptor, says what the bytes mean.

Records are the messages of Google's library, or of a ``record_type`` with the fields' names. A generated class travels to the
tasks by its import path, so the workers need the module; one made of a descriptor travels with its file descriptors.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import field
from operator import attrgetter
from typing import Any, cast

from funken.columnar.block import Block
from funken.columnar.expressions import NotVectorizable
from funken.connectors.formats.arrow_columns import columns_of_values
from funken.connectors.formats.declared import names_of, schema_of_records
from funken.connectors.formats.protobuf_values import declared_of, fields_of, fill
from funken.connectors.formats.record_types import as_document, field_types, from_documents, shape_of
from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady, InvalidProgram
from funken.expr.types import Type, atomic_fields


def _protobuf(module: str) -> Any:
    try:
        return importlib.import_module(f"google.protobuf.{module}")
    except ImportError:
        raise EnvironmentNotReady(
            "protocol buffers need protobuf; install it with: pip install 'funken[protobuf]'"
        ) from None


@dataclass(frozen=True)
class ProtobufSchema(SerializationSchema, DeserializationSchema):
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
    record_type: Any = None
    _class: Any = field(init=False, repr=False, compare=False)
    _make: Callable[[Any], Any] | None = field(init=False, repr=False, compare=False)
    _declared: Any = field(init=False, repr=False, compare=False)

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

    def deserialize(self, message: bytes) -> Any:
        """Read a message; raises ``DecodeError`` of protobuf if the bytes are none."""
        found = self._class.FromString(bytes(message))
        return found if self._make is None else self._make(fields_of(found, self._declared))

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
        """Return what makes columns of messages: of their fields that are numbers, text and bytes, or enums."""
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
    """Return the fields of messages on the way to a leaf of a schema; none if one is not there, or several are."""
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
    """Return where a message is in its file: how deep, and its number on each level; the first of all is a single zero."""
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


__all__ = ["ProtobufSchema", "place_of", "without_place"]
