"""Protocol buffers: what is read with a record type is written again as the same message, whatever its fields have."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import Row, Types
from funken.connectors import ProtobufSchema
from funken.types import Instant

F = descriptor_pb2.FieldDescriptorProto
PLAIN = {
    "double": F.TYPE_DOUBLE, "float": F.TYPE_FLOAT, "int64": F.TYPE_INT64, "uint64": F.TYPE_UINT64, "int32": F.TYPE_INT32,
    "fixed64": F.TYPE_FIXED64, "fixed32": F.TYPE_FIXED32, "bool": F.TYPE_BOOL, "string": F.TYPE_STRING, "bytes": F.TYPE_BYTES,
    "uint32": F.TYPE_UINT32, "sfixed32": F.TYPE_SFIXED32, "sfixed64": F.TYPE_SFIXED64, "sint32": F.TYPE_SINT32,
    "sint64": F.TYPE_SINT64, "enum": F.TYPE_ENUM,
}  # fmt: skip
GOOGLE = [
    "Timestamp", "Duration", "Struct", "Value", "ListValue", "Any", "FieldMask", "Empty", "DoubleValue", "FloatValue",
    "Int64Value", "UInt64Value", "Int32Value", "UInt32Value", "BoolValue", "StringValue", "BytesValue",
]  # fmt: skip
MODULES = ["timestamp", "duration", "struct", "any", "field_mask", "empty", "wrappers"]


def messages(syntax):
    """A message with fields of all types: alone, optional, repeated, in a map, in a oneof, and within another."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{syntax}_all.proto", package=f"all_{syntax}", syntax=syntax,
        dependency=[f"google/protobuf/{name}.proto" for name in MODULES],
    )  # fmt: skip
    enum = file.enum_type.add(name="Color")
    for number, name in ((0, "RED"), (1, "GREEN"), (-5, "BLUE")):
        enum.value.add(name=name, number=number)
    made = file.message_type.add(name="M")
    kinds = [(name, kind, "") for name, kind in PLAIN.items()]
    kinds += [(name, F.TYPE_MESSAGE, f".google.protobuf.{name}") for name in GOOGLE] + [
        ("inner", F.TYPE_MESSAGE, f".all_{syntax}.M")
    ]
    made.oneof_decl.add(name="one")
    number = 0
    for name, kind, other in kinds:
        of = f".all_{syntax}.Color" if name == "enum" else other
        for form in ("s", "r", "m", "o", "p"):
            number += 1
            field = made.field.add(name=f"{form}_{name}", number=number, type=kind, label=F.LABEL_OPTIONAL)
            if of:
                field.type_name = of
            if form == "r":
                field.label = F.LABEL_REPEATED
            elif form == "o":
                field.oneof_index = 0
            elif form == "p" and syntax == "proto3":
                field.proto3_optional = True
            elif form == "p" and kind != F.TYPE_MESSAGE and name in ("int32", "string"):
                field.default_value = "7"
            elif form == "m":
                entry = made.nested_type.add(name=f"M{name.title()}Entry".replace("_", ""))
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
                value = entry.field.add(name="value", number=2, type=kind, label=F.LABEL_OPTIONAL)
                if of:
                    value.type_name = of
                field.label, field.type = F.LABEL_REPEATED, F.TYPE_MESSAGE
                field.name, field.type_name = f"m{name}", f".all_{syntax}.M.{entry.name}"
                entry.name = "".join(part.capitalize() for part in field.name.split("_")) + "Entry"
                field.type_name = f".all_{syntax}.M.{entry.name}"
    for field in made.field:
        if field.proto3_optional:
            made.oneof_decl.add(name=f"_{field.name}")
            field.oneof_index = len(made.oneof_decl) - 1
    pool = descriptor_pool.DescriptorPool()
    for module in (timestamp_pb2, duration_pb2, struct_pb2, any_pb2, field_mask_pb2, empty_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"all_{syntax}.M"))


CLASSES = {syntax: messages(syntax) for syntax in ("proto2", "proto3")}
NUMBERS = {
    "double": st.floats(width=64), "float": st.floats(width=32), "bool": st.booleans(), "string": st.text(max_size=5),
    "bytes": st.binary(max_size=5), **{name: st.integers(-(2**63), 2**63 - 1) for name in ("int64", "sint64", "sfixed64")},
    **{name: st.integers(-(2**31), 2**31 - 1) for name in ("int32", "sint32", "sfixed32")},
    **{name: st.integers(0, 2**64 - 1) for name in ("uint64", "fixed64")},
    **{name: st.integers(0, 2**32 - 1) for name in ("uint32", "fixed32")},
}  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=6,
)  # fmt: skip


def put(data, message, depth=0):
    """Set some fields of a message to any values that they may have."""
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        message.seconds = data.draw(st.integers(-62135596800, 253402300799))
        message.nanos = data.draw(st.sampled_from([0, 1000, 999_999_000, 1, 999_999_999]))
    elif name == "google.protobuf.Duration":
        message.seconds = data.draw(st.integers(-315576000000, 315576000000))
        sign = -1 if message.seconds < 0 else 1
        message.nanos = sign * data.draw(st.sampled_from([0, 1000, 999_999_000, 1]))
    elif name == "google.protobuf.Struct":
        message.update(data.draw(st.dictionaries(st.text(max_size=3), JSON, max_size=3)))
    elif name == "google.protobuf.ListValue":
        message.extend(data.draw(st.lists(JSON, max_size=3)))
    elif name == "google.protobuf.Value":
        kind = data.draw(
            st.sampled_from(["", "null_value", "number_value", "string_value", "bool_value", "list_value"])
        )
        if kind == "list_value":
            message.list_value.extend(data.draw(st.lists(JSON, max_size=3)))
        elif kind:
            values = {"null_value": st.just(0), "number_value": st.floats(), "string_value": st.text(max_size=3)}
            setattr(message, kind, data.draw(values.get(kind, st.booleans())))
    elif name == "google.protobuf.Any":
        message.type_url, message.value = data.draw(st.text(max_size=3)), data.draw(st.binary(max_size=3))
    elif name == "google.protobuf.FieldMask":
        message.paths.extend(data.draw(st.lists(st.text(max_size=3), max_size=2)))
    else:
        fields = message.DESCRIPTOR.fields
        chosen = fields if len(fields) < 5 else data.draw(st.lists(st.sampled_from(list(fields)), max_size=6))
        for field in chosen:
            put_field(data, message, field, depth)


def put_field(data, message, field, depth):
    entry = field.message_type if field.message_type is not None and field.message_type.GetOptions().map_entry else None
    if entry is not None:
        value = entry.fields_by_name["value"]
        for key in data.draw(st.lists(st.text(max_size=3), max_size=2)):
            if value.message_type is None:
                getattr(message, field.name)[key] = single(data, value, message)
            elif depth < 2:
                put(data, getattr(message, field.name)[key], depth + 1)
    elif field.is_repeated:
        for _ in range(data.draw(st.integers(0, 2))):
            if field.message_type is None:
                getattr(message, field.name).append(single(data, field, message))
            elif depth < 2:
                put(data, getattr(message, field.name).add(), depth + 1)
    elif field.message_type is None:
        setattr(message, field.name, single(data, field, message))
    elif depth < 2:
        getattr(message, field.name).SetInParent()
        put(data, getattr(message, field.name), depth + 1)


def single(data, field, message):
    if field.enum_type is not None:
        is_open = "proto3" in message.DESCRIPTOR.full_name
        return data.draw(st.sampled_from([0, 1, -5, *([99] if is_open else [])]))
    kinds = {kind: name for name, kind in PLAIN.items()}
    return data.draw(NUMBERS[kinds[field.type]])


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(["proto2", "proto3"]), st.booleans())
def test_what_is_read_is_written(data, syntax, copied):
    cls = CLASSES[syntax]
    names = [field.name for field in cls.DESCRIPTOR.fields]
    schema = ProtobufSchema(cls, Types.ROW_NAMED(names, [Types.PICKLED_BYTE_ARRAY()] * len(names)))
    message = cls()
    put(data, message)

    record = schema.deserialize(message.SerializeToString())
    back = cls.FromString(schema.serialize(record.as_dict() if copied else record))
    # NaN is not itself, but its text is.
    assert str(back) == str(message)


def read(**declared):
    cls = CLASSES["proto3"]
    return cls, ProtobufSchema(cls, Types.ROW_NAMED(list(declared), list(declared.values())))


URL = "type.googleapis.com/google.protobuf.Int64Value"
ANY = Types.PICKLED_BYTE_ARRAY()


def test_googles_types_are_plain_values():
    cls, schema = read(
        s_Timestamp=ANY, s_Duration=ANY, s_Int64Value=ANY, s_Struct=ANY, s_ListValue=ANY, s_Value=ANY, r_Timestamp=ANY
    )
    message = cls()
    message.s_Timestamp.FromSeconds(1)
    message.s_Duration.FromMilliseconds(-1500)
    message.s_Int64Value.value = 5
    message.s_Struct.update({"k": [1, None, {"a": True}]})
    message.s_ListValue.extend(["a", 0.5])
    message.s_Value.string_value = "v"
    message.r_Timestamp.add(nanos=1000)

    assert schema.deserialize(message.SerializeToString()).as_dict() == {
        "s_Timestamp": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "s_Duration": timedelta(seconds=-1.5), "s_Int64Value": 5,
        "s_Struct": {"k": [1.0, None, {"a": True}]}, "s_ListValue": ["a", 0.5], "s_Value": "v",
        "r_Timestamp": [datetime(1970, 1, 1, 0, 0, 0, 1, UTC)],
    }  # fmt: skip


def test_a_timestamp_is_what_is_declared():
    seconds = Types.ROW_NAMED(["seconds", "nanos"], [Types.LONG(), Types.INT()])
    cls = CLASSES["proto3"]
    message = cls()
    message.s_Timestamp.seconds, message.s_Timestamp.nanos = 1, 2000
    data = message.SerializeToString()

    for declared, expected in (
        (Types.INSTANT(), Instant(1, 2000)), (Types.SQL_TIMESTAMP(), datetime.fromisoformat("1970-01-01T00:00:01.000002")),
        (seconds, Row(seconds=1, nanos=2000)),
    ):  # fmt: skip
        _, schema = read(s_Timestamp=declared)
        record = schema.deserialize(data)
        assert repr(record.s_Timestamp) == repr(expected)
        assert schema.serialize(record) == data


@pytest.mark.parametrize(("name", "given", "read_as"), [
    ("s_Timestamp", "1970-01-01T00:00:01Z", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    ("s_Timestamp", datetime.fromisoformat("1970-01-01T00:00:01"), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    ("s_Timestamp", {"seconds": 1}, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)), ("s_Duration", "1.5s", timedelta(seconds=1.5)),
    ("s_FieldMask", ["a", "b"], {"paths": ["a", "b"]}), ("s_enum", "GREEN", 1), ("s_enum", 99, 99), ("s_int64", "5", 5),
    ("s_bytes", "aGk=", b"hi"), ("s_double", "NaN", float("nan")), ("s_Int64Value", {"value": 5}, 5), ("s_StringValue", "", ""),
    ("mint64", {"a": 1}, {"a": 1}), ("r_string", ("a",), ["a"]), ("s_inner", {"s_int32": 1}, None),
    ("s_Any", {"@type": URL, "value": "5"}, {"type_url": URL, "value": b"\x08\x05"}),
])  # fmt: skip
def test_other_forms_are_written_too(name, given, read_as):
    _, schema = read(**{name: ANY})
    found = schema.deserialize(schema.serialize({name: given}))[name]

    assert repr(found) == repr(read_as) if read_as is not None else found["s_int32"] == 1


@pytest.mark.parametrize(("name", "value"), [
    ("s_int32", 2**31), ("s_int32", 1.5), ("s_int32", True), ("s_uint32", -1), ("s_int64", "1_0"), ("s_float", 1e39),
    ("s_double", 2**53 + 1),
    ("s_double", "nan"), ("s_bool", 1), ("s_string", b"a"), ("s_string", 5), ("s_bytes", 5), ("s_enum", "PINK"),
    ("s_Timestamp", 5),
    ("s_Duration", 5), ("s_Struct", [1]), ("s_Struct", {"k": Decimal(1)}),
    ("s_Struct", {"k": 2**53 + 1}),
    ("s_ListValue", "ab"), ("s_Value", b"a"), ("r_int32", "12"), ("r_int32", [None]), ("mint64", [1]), ("s_inner", 5),
    ("s_inner", {"nothing": 1}),
    ("s_Int32Value", 2**31), ("s_BoolValue", "yes"), ("s_Timestamp", wrappers_pb2.Int64Value(value=5)),
])  # fmt: skip
def test_a_value_that_would_come_back_as_another_is_not_written(name, value):
    _, schema = read(**{name: ANY})

    with pytest.raises(ValueError, match=f"field '{name}': "):
        schema.serialize({name: value})


def test_a_field_that_the_message_does_not_have_is_an_error():
    _, schema = read(s_int32=ANY)

    with pytest.raises(ValueError, match="has no field 'nothing'; it has s_double"):
        schema.serialize({"nothing": 1})
    with pytest.raises(ValueError, match="int has no named fields"):
        ProtobufSchema(CLASSES["proto3"]).serialize(5)
