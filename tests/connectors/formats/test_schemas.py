"""Schemas of CSV, Avro, protocol buffers and Debezium: both ways, malformed messages, and what travels to the tasks."""

import json
import pickle
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, struct_pb2, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

from funken import Row, Types
from funken.connectors import (
    AvroSchema,
    ChangeRecord,
    CsvSchema,
    DebeziumJsonSchema,
    DeserializationSchema,
    JsonSchema,
    MalformedRecord,
    MalformedRecordPolicy,
    ProtobufSchema,
)
from funken.connectors.kafka import ConsumerRecord, KafkaRecordDeserializationSchema
from funken.connectors.rabbitmq import RMQDeserializationSchema, RMQMessage
from funken.connectors.reading import MessageDecoder
from funken.errors import InvalidConfiguration, InvalidProgram
from funken.metrics.registry import Counter
from funken.types.row import RowKind


class Sale(NamedTuple):
    item: str
    n: int = 1


@dataclass
class Order:
    item: str
    tags: list[str]
    price: float | None = None


NAMED = Types.ROW_NAMED(["item", "n"], [Types.STRING(), Types.INT()])
TEXTS = st.text(st.characters(blacklist_categories=("Cs",)), max_size=8)


@given(st.lists(st.tuples(TEXTS, st.integers()), max_size=6))
@pytest.mark.parametrize("settings", [{}, {"delimiter": "|", "quote": "'"}, {"null_literal": "\0null"}])
def test_csv_brings_back_what_it_wrote(settings, sales):
    schema = CsvSchema(Sale, **settings)
    records = [Sale(*sale) for sale in sales]

    messages = schema.serialize_block(records)
    assert schema.deserialize_block(messages) == records
    assert [schema.deserialize(message) for message in messages] == records


@given(st.lists(st.tuples(TEXTS, st.integers(-(2**63), 2**63 - 1)), max_size=6))
def test_avro_brings_back_what_it_wrote(sales):
    schema = AvroSchema.of(Sale)
    records = [Sale(*sale) for sale in sales]

    assert schema.deserialize_block(schema.serialize_block(records)) == records


def test_csv_gives_fields_their_types():
    schema = CsvSchema(Order, null_literal="")

    assert schema.deserialize(b"tea,a;b,1.5") == Order("tea", ["a", "b"], 1.5)
    assert schema.serialize(Order("tea", ["a", "b"])) == b"tea,a;b,"
    assert CsvSchema(Types.TUPLE([Types.BOOLEAN(), Types.DOUBLE()])).deserialize(b"TRUE,") == (True, None)


@pytest.mark.parametrize(
    ("message", "why"),
    [(b"tea", r"1 field\(s\) and not 2"), (b"tea,x", "field 'n'"), (b'"tea,1', "unexpected end"), (b"\xff,1", "utf-8")],
)
def test_csv_that_does_not_fit_is_malformed_alone(message, why):
    decoder = MessageDecoder(CsvSchema(Sale), MalformedRecordPolicy.EMIT, Counter())

    first, bad, last = decoder.decode([b"tea,1", message, b"jam,2"], str)[0]
    assert (first, last) == (Sale("tea", 1), Sale("jam", 2))
    assert isinstance(bad, MalformedRecord)
    assert why.replace("\\", "") in bad.error


class Numbers(DeserializationSchema):
    def deserialize(self, message):
        READ.append(bytes(message))
        return int(message) or None


READ: list[bytes] = []


def read(message):
    return Numbers().deserialize(getattr(message, "value", None) or message.body)


@pytest.mark.parametrize(
    ("schema", "message_of"),
    [
        (Numbers(), bytes),
        (KafkaRecordDeserializationSchema.of(read), lambda body: ConsumerRecord("orders", 0, 7, None, None, body)),
        (RMQDeserializationSchema.of(read), RMQMessage),
    ],
)
@pytest.mark.parametrize("body", [b"0", b"x"], ids=["dropped", "malformed"])
def test_a_message_without_a_record_lets_no_other_be_read_twice(schema, message_of, body):
    READ.clear()
    decoder = MessageDecoder(schema, MalformedRecordPolicy.SKIP, Counter(), payload=lambda message: body)

    assert decoder.decode([message_of(each) for each in (b"1", body, b"3")], str) == ([1, 3], [0, 2])
    assert [b"1", body, b"3"] == READ
    assert decoder.malformed.count == (body == b"x")


def test_avro_reads_what_an_older_schema_wrote():
    old = AvroSchema('{"type": "record", "name": "Sale", "fields": [{"name": "item", "type": "string"}]}')
    new = AvroSchema.of(Sale)
    message = old.serialize({"item": "tea"})

    assert AvroSchema(new.schema, Sale, old.schema).deserialize(message) == Sale("tea", None)
    with pytest.raises((ValueError, EOFError, IndexError)):
        new.deserialize(message + b"more")


@pytest.mark.parametrize("schema", ["", "{}", '"no type"', '{"type": "record"}'])
def test_what_is_no_schema_of_avro_is_refused(schema):
    with pytest.raises(InvalidConfiguration, match="no schema of Avro"):
        AvroSchema(schema)


def made_message():
    """A message whose class nobody generated."""
    file = descriptor_pb2.FileDescriptorProto(name="sale.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Sale")
    kinds = descriptor_pb2.FieldDescriptorProto
    for number, (name, kind, label) in enumerate(
        [
            ("item", kinds.TYPE_STRING, 1),
            ("n", kinds.TYPE_INT64, 1),
            ("tags", kinds.TYPE_STRING, 3),
            ("raw", kinds.TYPE_BYTES, 1),
        ]
    ):
        message.field.add(name=name, number=number + 1, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool.FindMessageTypeByName("shop.Sale")


def test_protocol_buffers_of_a_descriptor_travel_with_it():
    declared = Types.ROW_NAMED(
        ["n", "tags", "raw"], [Types.LONG(), Types.LIST(Types.STRING()), Types.PRIMITIVE_ARRAY(Types.BYTE())]
    )
    schema = pickle.loads(pickle.dumps(ProtobufSchema(made_message(), declared)))
    message = schema.serialize(Row(n=2**40, tags=["a"], raw=b"\0\xff"))

    assert schema.deserialize_block([message]) == [Row(n=2**40, tags=["a"], raw=b"\0\xff")]
    assert ProtobufSchema(made_message()).deserialize(message).tags == ["a"]


def test_protocol_buffers_of_a_generated_class_travel_by_name():
    schema = pickle.loads(pickle.dumps(ProtobufSchema(timestamp_pb2.Timestamp)))

    assert schema.deserialize(schema.serialize(timestamp_pb2.Timestamp(seconds=7))).seconds == 7
    nested = ProtobufSchema(struct_pb2.ListValue, Types.ROW_NAMED(["values"], [Types.LIST(Types.STRING())]))
    there = struct_pb2.ListValue(values=[struct_pb2.Value(bool_value=True)])
    assert nested.deserialize(there.SerializeToString()).values[0] is True


@pytest.mark.parametrize("wrong", [lambda: ProtobufSchema(int), lambda: ProtobufSchema(timestamp_pb2.Timestamp, Sale)])
def test_what_is_no_message_or_has_other_fields_is_refused(wrong):
    with pytest.raises(InvalidProgram, match="ProtobufSchema"):
        wrong()


@pytest.mark.parametrize("wrapped", [False, True])
def test_changes_of_a_table(wrapped):
    def event(kind, before, after):
        envelope = {
            "op": kind,
            "before": before and {"item": "tea", "n": before},
            "after": after and {"item": "tea", "n": after},
        }
        return json.dumps({"schema": {}, "payload": envelope} if wrapped else envelope).encode()

    schema = DebeziumJsonSchema(NAMED)
    decoder = MessageDecoder(schema, MalformedRecordPolicy.FAIL, Counter())
    messages = [event("r", None, 1), event("u", 1, 2), b"null", event("d", 2, None), b""]
    changes, positions = decoder.decode(messages, str)

    assert [(str(change.kind), change.value.n) for change in changes] == [("+I", 1), ("-U", 1), ("+U", 2), ("-D", 2)]
    assert positions == [0, 1, 1, 3]
    assert [change.value.get_row_kind() for change in changes] == [change.kind for change in changes]


def test_a_change_that_cannot_be_read_costs_only_itself():
    decoder = MessageDecoder(DebeziumJsonSchema(), MalformedRecordPolicy.SKIP, Counter())

    assert decoder.decode(
        [b'{"op": "t"}', b"[]", b'{"op": "c", "after": {"n": 1}}', b'{"op": "u", "after": {}}'], str
    ) == (
        [ChangeRecord(RowKind.INSERT, {"n": 1})],
        [2],
    )
    assert decoder.malformed.count == 3


def test_changes_are_written_so_that_they_can_be_read():
    schema = DebeziumJsonSchema()
    changes = [ChangeRecord(kind, {"n": 1}) for kind in RowKind]

    deleted = Row(n=1)
    deleted.set_row_kind(RowKind.DELETE)
    read = [schema.deserialize(message) for message in schema.serialize_block(changes)]
    assert [str(change.kind) for change in read] == ["+I", "-D", "+I", "-D"]
    assert schema.deserialize(schema.serialize(deleted)).kind is RowKind.DELETE
    with pytest.raises(TypeError, match="no change"):
        schema.serialize({"n": 1})


@pytest.mark.parametrize(
    "schema",
    [
        CsvSchema(NAMED, "|", null_literal="-"), AvroSchema.of(NAMED), DebeziumJsonSchema(NAMED), JsonSchema(NAMED),
        JsonSchema(Sale), ProtobufSchema(timestamp_pb2.Timestamp),
    ],
)  # fmt: skip
def test_schemas_travel_and_compare(schema):
    assert pickle.loads(pickle.dumps(schema)) == schema


def test_json_makes_named_tuples_and_writes_them_as_objects():
    assert JsonSchema(Sale).deserialize(b'{"item": "tea", "more": 1}') == Sale("tea", 1)
    assert JsonSchema().serialize(Sale("tea", 2)) == b'{"item": "tea", "n": 2}'
