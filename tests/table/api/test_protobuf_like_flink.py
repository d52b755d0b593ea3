"""Messages of protocol buffers as rows, and back: results noted from Flink 2.3's format."""

import pickle
import sys
from types import ModuleType

import pytest

from funken.errors import InvalidProgram
from funken.table.connectors.formats import format_options, table_format
from funken.table.connectors.options import ConnectorOption, OptionValues
from funken.table.types import parse_type
from funken.table.values import java_text
from funken.types.row import Row

pytest.importorskip("google.protobuf")
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FIELD = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    "i": FIELD.TYPE_INT32, "l": FIELD.TYPE_INT64, "t": FIELD.TYPE_BOOL, "f": FIELD.TYPE_FLOAT, "d": FIELD.TYPE_DOUBLE,
    "s": FIELD.TYPE_STRING, "y": FIELD.TYPE_BYTES, "u": FIELD.TYPE_UINT32, "ul": FIELD.TYPE_UINT64,
}  # fmt: skip


def module_of(syntax):
    """The module that protoc would generate: a message with a field of each kind."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{syntax}_of_table.proto", package=f"of_{syntax}", syntax=syntax)
    here = f".of_{syntax}"
    color = file.enum_type.add(name="Color")
    for name, number in (("NONE", 0), ("RED", 1), ("BLUE", 5)):
        color.value.add(name=name, number=number)
    inner = file.message_type.add(name="Inner")
    all_ = file.message_type.add(name="All")
    for message in (inner, all_):
        deep = message.nested_type.add(name="Deep")
        deep.field.add(name="a", number=1, type=FIELD.TYPE_INT32, label=FIELD.LABEL_OPTIONAL)
    inner.field.add(name="a", number=1, type=FIELD.TYPE_INT32, label=FIELD.LABEL_OPTIONAL)
    inner.field.add(name="b", number=2, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    if syntax == "proto2":
        inner.field[0].default_value, inner.field[1].default_value = "7", "bb"
    for name, kind in SCALARS.items():
        all_.field.add(name=name, number=len(all_.field) + 1, type=kind, label=FIELD.LABEL_OPTIONAL)
    if syntax == "proto2":
        all_.field[0].default_value, all_.field[5].default_value = "10", "def"

    def add(name, kind, label=FIELD.LABEL_OPTIONAL, type_name=None, **more):
        all_.field.add(name=name, number=len(all_.field) + 1, type=kind, label=label, type_name=type_name, **more)

    add("e", FIELD.TYPE_ENUM, type_name=f"{here}.Color")
    add("in", FIELD.TYPE_MESSAGE, type_name=f"{here}.Inner")
    add("xs", FIELD.TYPE_INT32, FIELD.LABEL_REPEATED)
    add("ss", FIELD.TYPE_STRING, FIELD.LABEL_REPEATED)
    add("es", FIELD.TYPE_ENUM, FIELD.LABEL_REPEATED, f"{here}.Color")
    add("ins", FIELD.TYPE_MESSAGE, FIELD.LABEL_REPEATED, f"{here}.Inner")
    for name, kind, type_name in (("m", FIELD.TYPE_INT32, None), ("mi", FIELD.TYPE_MESSAGE, f"{here}.Inner")):
        entry = all_.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
        entry.field.add(name="value", number=2, type=kind, label=FIELD.LABEL_OPTIONAL, type_name=type_name)
        add(name, FIELD.TYPE_MESSAGE, FIELD.LABEL_REPEATED, f"{here}.All.{entry.name}")
    all_.oneof_decl.add(name="pick")
    add("p1", FIELD.TYPE_INT32, oneof_index=0)
    add("p2", FIELD.TYPE_STRING, oneof_index=0)
    if syntax == "proto3":
        all_.oneof_decl.add(name="_oi")
        add("oi", FIELD.TYPE_INT32, oneof_index=1, proto3_optional=True)
    else:
        needed = file.message_type.add(name="Needed")
        needed.field.add(name="i", number=1, type=FIELD.TYPE_INT32, label=FIELD.LABEL_REQUIRED)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    module = ModuleType(f"{syntax}_of_table_pb2")
    for message in file.message_type:
        found = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"of_{syntax}.{message.name}"))
        setattr(module, message.name, found)
    module.All.Deep = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"of_{syntax}.All.Deep"))
    return module


@pytest.fixture(scope="module", autouse=True)
def modules():
    made = {f"{syntax}_of_table_pb2": module_of(syntax) for syntax in ("proto3", "proto2")}
    sys.modules.update(made)
    yield made
    for name in made:
        del sys.modules[name]


def columns_of(text):
    return tuple((field.name, field.type) for field in parse_type(f"ROW<{text}>").fields)


def format_of(message, **options):
    given = {"format": "protobuf", "protobuf.message-class-name": message}
    given |= {f"protobuf.{key.replace('_', '-')}": value for key, value in options.items()}
    declared = (ConnectorOption("format"), *format_options("t", "protobuf"))
    return table_format("t", "protobuf", OptionValues("t", given, declared))


def read(syntax, columns, message, **options):
    if not isinstance(message, bytes):
        message = sys.modules[f"{syntax}_of_table_pb2"].All(**message).SerializePartialToString()
    decoder = format_of(f"{syntax}_of_table_pb2:All", **options).decoder(columns_of(columns))
    rows = pickle.loads(pickle.dumps(decoder)).deserialize_all(message)
    types = [type_ for _, type_ in columns_of(columns)]
    return [", ".join(java_text(value, type_) for value, type_ in zip(row, types, strict=True)) for row in rows]


IN, INS = "`in` ROW<a INT, b STRING>", "ins ARRAY<ROW<a INT, b STRING>>"
MI = "mi MAP<STRING, ROW<a INT, b STRING>>"
ALL = f"i INT, t BOOLEAN, s STRING, e STRING, {IN}, xs ARRAY<INT>, m MAP<STRING, INT>, p1 INT, p2 STRING"


@pytest.mark.parametrize(
    ("syntax", "columns", "message", "expected", "with_defaults"),
    [
        ("proto3", "i INT, l BIGINT, t BOOLEAN, f FLOAT, d DOUBLE, s STRING", {}, "0, 0, false, 0.0, 0.0, ", None),
        ("proto3", "oi INT", {}, "0", None),
        ("proto3", "oi INT", {"oi": 0}, "0", None),
        ("proto3", "p1 INT, p2 STRING", {"p1": 0}, "0, ", None),
        ("proto3", "p1 INT, p2 STRING", {"p2": "x"}, "0, x", None),
        ("proto3", "e STRING, es ARRAY<STRING>", {"e": 5, "es": [1, 0]}, "BLUE, [RED, NONE]", None),
        ("proto3", "e STRING", {}, "NONE", None),
        ("proto3", "e INT", {"e": 5}, "5", None),
        ("proto3", "e STRING, es ARRAY<STRING>", {"e": 99, "es": [77]}, "UNRECOGNIZED, [UNRECOGNIZED]", None),
        ("proto3", "u INT, ul BIGINT", {"u": 2**32 - 1, "ul": 2**64 - 1}, "-1, -1", None),
        ("proto3", "ul BIGINT", {"ul": 2**63}, "-9223372036854775808", None),
        ("proto3", "xs ARRAY<INT>, m MAP<STRING, INT>", {}, "null, null", "[], {}"),
        ("proto3", INS, {"ins": [{"a": 1, "b": "q"}, {}]}, "[+I[1, q], +I[0, ]]", None),
        ("proto3", IN, {}, "null", "+I[0, ]"),
        ("proto3", IN, {"in": {"a": 5}}, "+I[5, ]", None),
        ("proto3", MI, {"mi": {"k": {}}}, "{k=+I[0, ]}", None),
        ("proto2", ALL, {}, "null, null, null, null, null, null, null, null, null",
         "10, false, def, NONE, +I[7, bb], [], {}, 0, "),
        ("proto2", "i INT, s STRING", {"i": 0, "s": ""}, "0, ", None),
        ("proto2", IN, {"in": {}}, "+I[null, null]", "+I[7, bb]"),
        ("proto2", IN, {"in": {"a": 5}}, "+I[5, null]", "+I[5, bb]"),
        ("proto2", INS, {"ins": [{}]}, "[+I[null, null]]", "[+I[7, bb]]"),
        ("proto2", MI, {"mi": {"k": {}}}, "{k=+I[null, null]}", "{k=+I[7, bb]}"),
        ("proto2", "p1 INT, p2 STRING", {"p1": 0}, "0, null", "0, "),
        ("proto3", "i INT", b"\x08\x01\x08\x02", "2", None),
        ("proto3", "i INT", b"\xf8\x3f\x01", "0", None),
    ],
)  # fmt: skip
def test_messages_as_rows(syntax, columns, message, expected, with_defaults):
    assert read(syntax, columns, message) == [expected]
    assert read(syntax, columns, message, read_default_values="true") == [with_defaults or expected]


@pytest.mark.parametrize("message", [b"\xff", b"\x08", b"\x0a\x05a", b"not a message"])
def test_a_message_that_cannot_be_read(message):
    with pytest.raises(Exception, match="Error parsing message"):
        read("proto3", "i INT", message)
    assert read("proto3", "i INT", message, ignore_parse_errors="true") == []


def test_a_message_without_a_required_field():
    decoder = format_of("proto2_of_table_pb2:Needed").decoder(columns_of("i INT"))
    with pytest.raises(ValueError, match="it has no i, which are required"):
        decoder.deserialize_all(b"")


def test_a_number_of_an_enum_that_there_is_not():
    with pytest.raises(ValueError, match="field 'e': 99 is none of of_proto3.Color's numbers"):
        read("proto3", "e INT", {"e": 99})


@pytest.mark.parametrize(
    ("columns", "row", "message"),
    [
        ("i INT, s STRING", Row(None, None), {}),
        ("i INT, s STRING", Row(3, "x"), {"i": 3, "s": "x"}),
        ("e STRING", Row("BLUE"), {"e": 5}),
        ("e STRING", Row("NOPE"), {"e": 0}),
        ("e INT", Row(77), {"e": 0}),
        ("u INT, ul BIGINT", Row(-1, -1), {"u": 2**32 - 1, "ul": 2**64 - 1}),
        ("xs ARRAY<INT>, ss ARRAY<STRING>", Row([1, None], ["a", None]), {"xs": [1, 0], "ss": ["a", "nil"]}),
        ("es ARRAY<STRING>", Row(["RED", None]), {"es": [1, 0]}),
        ("m MAP<STRING, INT>", Row({"a": None}), {"m": {"a": 0}}),
        (INS, Row([None, Row(1, None)]), {"ins": [{}, {"a": 1}]}),
        (MI, Row({"a": None, "b": Row(1, "x")}), {"mi": {"a": {}, "b": {"a": 1, "b": "x"}}}),
        (IN, Row(Row(None, None)), {"in": {}}),
        ("p1 INT, p2 STRING", Row(1, "b"), {"p2": "b"}),
        ("oi INT", Row(0), {"oi": 0}),
    ],
)
def test_rows_as_messages(modules, columns, row, message):
    encoder = format_of("proto3_of_table_pb2:All", write_null_string_literal="nil").encoder(columns_of(columns))
    written = modules["proto3_of_table_pb2"].All.FromString(encoder.serialize(row))
    assert written == modules["proto3_of_table_pb2"].All(**message)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("i BIGINT", "field 'i' of the message of_proto3.All needs the type INT, and not BIGINT"),
        ("d FLOAT", "needs the type DOUBLE, and not FLOAT"),
        ("s BYTES", "needs the type STRING"),
        ("y STRING", "needs the type BYTES"),
        ("u BIGINT", "needs the type INT"),
        ("e TINYINT", "needs the type STRING"),
        ("xs INT", "is repeated, .* Declare an ARRAY"),
        ("xs ARRAY<BIGINT>", "needs the type INT, and not BIGINT"),
        ("m STRING", "is a map, .* Declare a MAP"),
        ("m MAP<INT, INT>", "its keys, needs the type STRING"),
        ("m MAP<STRING, BIGINT>", "its values, needs the type INT"),
        ("`in` STRING", "is a message, .* Declare a ROW"),
        ("`in` ROW<nope INT>", "column 'nope' is no field of the message of_proto3.Inner, which has a, b"),
        ("I INT", "column 'I' is no field"),
    ],
)
def test_columns_that_a_message_does_not_have(columns, says):
    with pytest.raises(InvalidProgram, match=says):
        format_of("proto3_of_table_pb2:All").decoder(columns_of(columns))


def test_a_message_within_another_is_named_with_dots():
    assert format_of("proto3_of_table_pb2:All.Deep").decoder(columns_of("a INT")).deserialize_all(b"") == [Row(0)]
