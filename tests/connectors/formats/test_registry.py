"""The client of a schema registry, against a small one in this process over HTTP: ids, caches, passwords, outages."""

import pickle

import pytest

from funken import Row, Types
from funken.connectors import (
    AvroSchema,
    ConfluentAvroSchema,
    ConfluentJsonSchema,
    ConfluentProtobufSchema,
    MalformedRecordPolicy,
    SchemaRegistryClient,
)
from funken.connectors.formats.registry import framed
from funken.connectors.reading import MessageDecoder
from funken.errors import InvalidConfiguration, SchemaRegistryFailed
from funken.metrics.registry import Counter
from tests.support.schema_registry import Registry

NAMED = Types.ROW_NAMED(["item", "n"], [Types.STRING(), Types.INT()])


@pytest.fixture
def registry():
    found = Registry()
    try:
        yield found
    finally:
        found.close()


def test_messages_name_the_schema_they_were_written_with(registry):
    writer = ConfluentAvroSchema(SchemaRegistryClient(registry.url), "sales-value", AvroSchema.of(NAMED).schema)
    reader = pickle.loads(pickle.dumps(ConfluentAvroSchema(SchemaRegistryClient(registry.url), record_type=NAMED)))

    messages = writer.serialize_block([Row(item="tea", n=3), {"item": "jam", "n": 1}])

    assert [message[:5] for message in messages] == [b"\0\0\0\0\1"] * 2
    assert [reader.deserialize(message) for message in messages] == [Row(item="tea", n=3), Row(item="jam", n=1)]
    writer.serialize({"item": "rum", "n": 1})
    assert registry.asked == ["POST /subjects/sales-value/versions", "GET /schemas/ids/1"]


def test_older_messages_are_read_as_the_schema_that_is_wanted(registry):
    client = SchemaRegistryClient(registry.url)
    old = '{"type": "record", "name": "Record", "fields": [{"name": "item", "type": "string"}]}'
    message = ConfluentAvroSchema(client, "s", old).serialize({"item": "tea"})

    assert ConfluentAvroSchema(client, schema=AvroSchema.of(NAMED).schema).deserialize(message) == {
        "item": "tea",
        "n": None,
    }


def test_without_registering_the_newest_schema_is_written_with(registry):
    client = SchemaRegistryClient(registry.url)
    client.register("s", '"string"')
    schema = ConfluentAvroSchema(client, "s", auto_register=False)

    assert schema.deserialize(schema.serialize("tea")) == "tea"
    with pytest.raises(InvalidConfiguration, match="pass both"):
        ConfluentAvroSchema(client).serialize("tea")


def test_an_unknown_id_is_the_message_s_fault_and_an_outage_is_not(registry):
    decoder = MessageDecoder(
        ConfluentAvroSchema(SchemaRegistryClient(registry.url, tries=2)), MalformedRecordPolicy.SKIP, Counter()
    )
    assert decoder.decode([framed(7, b"x"), b"no"], str) == ([], [])
    assert decoder.malformed.count == 2

    registry.answers = [(503, {})] * 9
    with pytest.raises(SchemaRegistryFailed, match=rf"{registry.url} does not answer GET /schemas/ids/8 .*503"):
        decoder.decode([framed(8, b"x")], str)
    assert registry.asked[-2:] == ["GET /schemas/ids/8"] * 2


def test_a_registry_that_comes_back_is_asked_again(registry):
    registry.schemas[1] = '"string"'
    registry.answers = [(500, {}), (429, {})]

    assert SchemaRegistryClient(registry.url).schema(1) == '"string"'


def test_another_address_is_tried_when_one_does_not_answer(registry):
    registry.schemas[1] = '"string"'

    assert SchemaRegistryClient(f"http://127.0.0.1:9, {registry.url}/").schema(1) == '"string"'


def test_passwords_are_sent_and_never_shown(registry):
    registry.password, registry.schemas[1] = "ada:secret", '"string"'
    client = pickle.loads(pickle.dumps(SchemaRegistryClient(registry.url, "ada", "secret")))

    assert client.schema(1) == '"string"'
    assert "secret" not in repr(client)
    with pytest.raises(SchemaRegistryFailed, match="401 who are you.*; pass the right user and password") as caught:
        SchemaRegistryClient(registry.url, "ada", "wrong-secret").schema(1)
    assert "wrong-secret" not in str(caught.value)
    for address in ("http://ada:secret@host", "ftp://ada:secret@host", "host:80"):
        with pytest.raises(InvalidConfiguration) as refused:
            SchemaRegistryClient(address)
        assert "secret" not in str(refused.value)


def test_nobody_is_sent_elsewhere_with_a_password(registry):
    registry.answers = [(302, {})]

    with pytest.raises(SchemaRegistryFailed, match="302"):
        SchemaRegistryClient(registry.url, "ada", "secret").schema(1)


def test_json_names_the_schema_that_it_was_registered_with(registry):
    text = '{"type": "object", "properties": {"item": {"type": "string"}}}'
    schema = ConfluentJsonSchema(SchemaRegistryClient(registry.url), "sales-value", text, NAMED)
    schema = pickle.loads(pickle.dumps(schema))

    messages = schema.serialize_block([Row(item="tea", n=3), {"item": "jam", "n": None}])
    assert messages == [framed(1, b'{"item": "tea", "n": 3}'), framed(1, b'{"item": "jam", "n": null}')]
    assert [schema.deserialize(message) for message in messages] == [Row(item="tea", n=3), Row(item="jam", n=None)]
    assert registry.asked == ["POST /subjects/sales-value/versions"]
    newest = ConfluentJsonSchema(SchemaRegistryClient(registry.url), "sales-value", auto_register=False)
    assert newest.serialize([1]) == framed(1, b"[1]")
    with pytest.raises(InvalidConfiguration, match="the schema is no JSON"):
        ConfluentJsonSchema(SchemaRegistryClient(registry.url), "sales-value", "{")
    with pytest.raises(
        InvalidConfiguration, match="ConfluentJsonSchema writes under a subject with a schema; pass both"
    ):
        ConfluentJsonSchema(SchemaRegistryClient(registry.url)).serialize(1)
    with pytest.raises(ValueError, match="does not begin with a zero byte"):
        newest.deserialize(b"[1]")


def test_protocol_buffers_say_which_message_of_their_file_they_are(registry):
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

    client = SchemaRegistryClient(registry.url)
    record = Types.ROW_NAMED(["start", "end"], [Types.INT(), Types.INT()])
    text = "message DescriptorProto { message ReservedRange { optional int32 start = 1; optional int32 end = 2; } }"
    nested = ConfluentProtobufSchema(client, DescriptorProto.ReservedRange, "ranges", text, record)
    nested = pickle.loads(pickle.dumps(nested))

    message = nested.serialize(Row(start=1, end=300))
    # Two numbers in zigzag: the third message of the file, and the second in that; then the payload.
    assert message == framed(1, bytes([4, 4, 2]) + b"\x08\x01\x10\xac\x02")
    assert nested.deserialize(message) == Row(start=1, end=300)
    first = ConfluentProtobufSchema(client, FileDescriptorSet, "files", "syntax = 'proto2';")
    assert first.serialize(FileDescriptorSet()) == framed(2, b"\0")
    assert first.deserialize(framed(2, b"\x02\0")) == FileDescriptorSet()
    for cut in (b"", b"\x84", b"\x04\x04"):
        with pytest.raises(ValueError, match="cut off"):
            nested.deserialize(framed(1, cut))
