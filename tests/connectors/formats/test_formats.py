"""Schemas, and what happens to messages that they cannot read."""

import pickle
from dataclasses import dataclass

import cloudpickle
import pytest

from funken import Row, Types
from funken.columnar.records import default_of
from funken.connectors import (
    ByteArraySchema,
    DeserializationSchema,
    JsonSchema,
    MalformedRecord,
    MalformedRecordPolicy,
    SimpleStringSchema,
)
from funken.connectors.files.line_files import LineEncoder, LineFormat
from funken.connectors.reading import MessageDecoder
from funken.errors import InvalidConfiguration, InvalidProgram, MessageMalformed
from funken.metrics.registry import Counter


@dataclass
class Order:
    item: str
    price: int = 1


def test_a_class_that_was_pickled_by_value_knows_which_of_its_fields_have_defaults():
    # As one of ``__main__`` is: the object that stands for no default is another one then.
    space = {"dataclass": dataclass, "__name__": "__main__"}
    exec("@dataclass\nclass Sale:\n    item: str\n    price: int = 1\n", space)
    copied = cloudpickle.loads(cloudpickle.dumps(space["Sale"]))
    schema = JsonSchema(copied)

    assert repr(schema.deserialize(b'{"item": "tea"}')) == "Sale(item='tea', price=1)"
    assert default_of(copied, "item") is None
    with pytest.raises(ValueError, match="item"):
        schema.deserialize(b'{"price": 2}')


def decode(schema, messages, policy=MalformedRecordPolicy.FAIL):
    decoder = MessageDecoder(schema, policy, Counter())
    return *decoder.decode(messages, lambda index: f"orders-0 offset {index}"), decoder.malformed.count


@pytest.mark.parametrize(
    ("document", "value"),
    [
        (b'{"a": [1, 2.5, "x", true, null]}', {"a": [1, 2.5, "x", True, None]}),
        (b" \n[1] \n", [1]),
        ('"\u00e4\U0001f600"'.encode(), "\u00e4\U0001f600"),
        (b"12345678901234567890123", 12345678901234567890123),
        (b"false", False),
    ],
)
def test_a_document_is_read_as_the_standard_library_reads_it(document, value):
    assert JsonSchema().deserialize(document) == value
    assert decode(JsonSchema(), [document]) == ([value], None, 0)


@pytest.mark.parametrize("document", [b"", b"{", b"1 2", b"1,2", b"[1}", b'{"a":1', b"\xff", b"tru"])
def test_what_is_no_document_is_malformed(document):
    with pytest.raises(ValueError):
        JsonSchema().deserialize(document)
    assert decode(JsonSchema(), [b"1", document, b"3"], MalformedRecordPolicy.SKIP) == ([1, 3], [0, 2], 1)


def test_halves_of_documents_are_not_put_together():
    messages = [b"[1", b"2]", b"3,4"]

    assert decode(JsonSchema(), messages, MalformedRecordPolicy.SKIP) == ([], [], 3)


def test_null_is_no_record():
    assert decode(JsonSchema(), [b"1", b"null", b"3"]) == ([1, 3], [0, 2], 0)


def test_a_field_of_a_dataclass_that_is_missing_has_its_default():
    assert JsonSchema(Order).deserialize(b'{"item": "tea", "other": 1}') == Order("tea")


@pytest.mark.parametrize("document", [b'{"price": 3}', b"[1]", b"3"])
def test_a_document_that_does_not_fit_the_dataclass_is_malformed(document):
    assert decode(JsonSchema(Order), [document], MalformedRecordPolicy.SKIP) == ([], [], 1)


def test_rows_have_the_declared_names():
    schema = JsonSchema(Types.ROW_NAMED(["item", "price"], [Types.STRING(), Types.INT()]))

    assert schema.deserialize(b'{"price": 3, "item": "tea"}') == Row(item="tea", price=3)
    assert schema.serialize(Row(item="tea", price=None)) == b'{"item": "tea", "price": null}'


def test_a_nested_dataclass_is_an_object():
    assert JsonSchema().serialize([Order("tea", 2)]) == b'[{"item": "tea", "price": 2}]'


def test_a_record_that_is_no_json_is_named():
    with pytest.raises(TypeError, match="set is no JSON"):
        JsonSchema().serialize({1})


def test_a_schema_travels():
    schema = pickle.loads(pickle.dumps(JsonSchema(Types.ROW_NAMED(["a"], [Types.INT()]))))

    assert schema.deserialize(b'{"a": 1}') == Row(a=1)


def test_a_type_without_fields_is_rejected():
    with pytest.raises(InvalidProgram, match="pass a dataclass"):
        JsonSchema(int)


def test_the_error_names_message_place_and_remedy():
    with pytest.raises(MessageMalformed) as failure:
        decode(JsonSchema(), [b"1", b"{" * 200])

    text = str(failure.value)
    assert text.startswith("orders-0 offset 1: JsonSchema cannot read the message b'{{{")
    assert "{' ..." in text
    assert "MalformedRecordPolicy.SKIP" in text


def test_a_malformed_message_is_emitted_in_its_place():
    records, positions, count = decode(JsonSchema(), [b"1", b"{", b"3"], MalformedRecordPolicy.EMIT)

    assert (records[0], records[2], positions, count) == (1, 3, None, 1)
    assert isinstance(records[1], MalformedRecord)
    assert (records[1].message, records[1].where) == (b"{", "orders-0 offset 1")
    assert records[1].error.startswith("JSONDecodeError: ")


def test_a_schema_of_single_messages_will_do():
    class Numbers(DeserializationSchema):
        def deserialize(self, message):
            return int(message)

    assert decode(Numbers(), [b"1", b"2"]) == ([1, 2], None, 0)


def test_an_object_that_is_no_schema_is_refused_before_anything_runs():
    class Foreign:
        def deserialize(self, message):
            return int(message)

    with pytest.raises(
        InvalidConfiguration, match="LineFormat: .*Foreign.* is no DeserializationSchema; pass an instance"
    ):
        LineFormat(Foreign())
    with pytest.raises(InvalidConfiguration, match="LineEncoder: .*Foreign.* is no SerializationSchema"):
        LineEncoder(Foreign())


def test_a_schema_that_drops_messages_keeps_positions():
    class Odd(DeserializationSchema):
        def deserialize(self, message):
            return number if (number := int(message)) % 2 else None

    assert decode(Odd(), [b"1", b"2", b"3"]) == ([1, 3], [0, 2], 0)


@pytest.mark.parametrize("schema", [SimpleStringSchema(), ByteArraySchema()])
def test_text_and_bytes_never_fail(schema):
    assert len(decode(schema, [b"", b"\xff", b"x"])[0]) == 3
