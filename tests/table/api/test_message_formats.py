"""Formats whose schemas are elsewhere, over a topic: Avro by a schema registry, protocol buffers by a class."""

import datetime
import json
import sys
from decimal import Decimal
from types import ModuleType, SimpleNamespace

import pytest

from funken.connectors import AvroSchema
from funken.connectors.formats.registry import ConfluentAvroSchema, SchemaRegistryClient
from funken.errors import FunkenError, InvalidProgram
from funken.table import EnvironmentSettings, TableEnvironment
from funken.table.connectors.formats import format_options, table_format
from funken.table.connectors.options import ConnectorOption, OptionValues
from funken.table.types import parse_type
from funken.types.row import Row, RowKind
from tests.support.schema_registry import Registry


@pytest.fixture
def broker():
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="install it with: pip install 'funken[kafka]'")
    producer = confluent_kafka.Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0})
    [found] = producer.list_topics(timeout=30).brokers.values()
    return SimpleNamespace(producer=producer, servers=f"{found.host}:{found.port}")


@pytest.fixture
def registry():
    found = Registry()
    yield found
    found.close()


@pytest.fixture
def tables():
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("execution.target", "local").set("parallelism.default", 1)
    return made


def create(tables, name, columns, broker, topic, **options):
    given = {
        "connector": "kafka", "topic": topic, "properties.bootstrap.servers": broker.servers,
        "scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset", **options,
    }  # fmt: skip
    shown = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    tables.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({shown})")


def rows(tables, query):
    with tables.execute_sql(query).collect() as found:
        return [tuple(row) for row in found]


COLUMNS = "id BIGINT NOT NULL, item STRING, price DECIMAL(10, 2), at TIMESTAMP(3), tags ARRAY<STRING>, place ROW<x INT, y STRING>"
NULLS = ", ".join(
    f"CAST(NULL AS {type_})"
    for type_ in ("STRING", "DECIMAL(3, 2)", "TIMESTAMP(3)", "ARRAY<STRING>", "ROW<x INT, y STRING>")
)
VALUES = f"(1, 'tea', 2.50, TIMESTAMP '2026-01-02 03:04:05.678', ARRAY['a', 'b'], ROW(7, 'z')), (2, {NULLS})"


def test_avro_by_a_registry(tables, broker, registry):
    options = {"format": "avro-confluent", "avro-confluent.url": registry.url}
    create(tables, "orders", COLUMNS, broker, "orders", **options)
    tables.execute_sql(
        f"INSERT INTO orders SELECT * FROM (VALUES {VALUES}) AS t(id, item, price, at, tags, place)"
    ).wait()

    found = sorted(
        rows(tables, "SELECT id, item, price, at, tags, place.x, place.y FROM orders"), key=lambda row: row[0]
    )

    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000)  # noqa: DTZ001 - it has no zone
    assert found == [(1, "tea", Decimal("2.50"), at, ["a", "b"], 7, "z"), (2, *[None] * 6)]
    assert list(registry.subjects) == ["orders-value"]
    assert "POST /subjects/orders-value/versions" in registry.asked


def test_avro_is_read_by_the_schema_that_wrote_it(tables, broker, registry):
    old = (
        '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, {"name": "gone", "type": "string"}, '
        '{"name": "item", "type": ["null", "string"]}]}'
    )
    registry.schemas[7] = old
    message = b"\0" + (7).to_bytes(4, "big") + AvroSchema(old).serialize({"id": 3, "gone": "x", "item": "jam"})
    broker.producer.produce("mixed", message)
    broker.producer.flush(30)
    options = {"format": "avro-confluent", "avro-confluent.url": registry.url}
    create(tables, "mixed", "item STRING, id BIGINT", broker, "mixed", **options)

    assert rows(tables, "SELECT id, item FROM mixed") == [(3, "jam")]


def test_keys_and_values_have_subjects_of_their_own(tables, broker, registry):
    options = {
        "key.format": "avro-confluent", "key.fields": "id", "key.avro-confluent.url": registry.url,
        "key.avro-confluent.subject": "ids", "value.format": "avro-confluent", "value.avro-confluent.url": registry.url,
        "value.avro-confluent.subject": "items", "value.fields-include": "EXCEPT_KEY",
    }  # fmt: skip
    create(tables, "keyed", "id BIGINT, item STRING", broker, "keyed", **options)
    tables.execute_sql("INSERT INTO keyed VALUES (1, 'tea'), (2, CAST(NULL AS STRING))").wait()

    assert sorted(rows(tables, "SELECT * FROM keyed")) == [(1, "tea"), (2, None)]
    assert set(registry.subjects) == {"ids", "items"}


def test_a_registry_that_does_not_answer_is_said(tables, broker, registry):
    registry.password = "ann:secret"
    create(
        tables,
        "closed",
        "id BIGINT",
        broker,
        "closed",
        **{"format": "avro-confluent", "avro-confluent.url": registry.url},
    )

    with pytest.raises(FunkenError, match="401|who are you|registry"):
        tables.execute_sql("INSERT INTO closed VALUES (1)").wait()


@pytest.fixture
def order_message():
    """The module that protoc would have generated, with a message of nested and repeated fields."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="order_of_test.proto", package="shop", syntax="proto3")
    place = file.message_type.add(name="Place")
    place.field.add(name="x", number=1, type=field.TYPE_INT32, label=field.LABEL_OPTIONAL)
    order = file.message_type.add(name="Order")
    for number, (name, kind) in enumerate(
        (
            ("id", field.TYPE_INT64),
            ("item", field.TYPE_STRING),
            ("price", field.TYPE_DOUBLE),
            ("paid", field.TYPE_BOOL),
        ),
        1,
    ):
        order.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
    order.field.add(name="tags", number=5, type=field.TYPE_STRING, label=field.LABEL_REPEATED)
    order.field.add(
        name="place", number=6, type=field.TYPE_MESSAGE, type_name=".shop.Place", label=field.LABEL_OPTIONAL
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    module = ModuleType("order_of_test_pb2")
    module.Order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    sys.modules["order_of_test_pb2"] = module
    yield module.Order
    del sys.modules["order_of_test_pb2"]


ORDER = "id BIGINT, item STRING, price DOUBLE, paid BOOLEAN, tags ARRAY<STRING>, place ROW<x INT>"


def test_protocol_buffers(tables, broker, order_message):
    options = {"format": "protobuf", "protobuf.message-class-name": "order_of_test_pb2:Order"}
    create(tables, "orders", ORDER, broker, "proto", **options)
    tables.execute_sql("INSERT INTO orders VALUES (1, 'tea', 2.5, TRUE, ARRAY['a', 'b'], ROW(7))").wait()
    other = order_message(id=2, item="jam", tags=["c"], place={"x": 8})
    broker.producer.produce("proto", other.SerializeToString())
    broker.producer.flush(30)

    found = sorted(rows(tables, "SELECT id, item, price, paid, tags, place.x FROM orders"))

    assert found[0] == (1, "tea", 2.5, True, ["a", "b"], 7)
    assert (found[1][0], found[1][1], found[1][4], found[1][5]) == (2, "jam", ["c"], 8)


def test_broken_messages_are_skipped_if_told(tables, broker, order_message):
    options = {"format": "protobuf", "protobuf.message-class-name": "order_of_test_pb2:Order"}
    broker.producer.produce("broken", b"\xff\xff\xff")
    broker.producer.produce("broken", order_message(id=1).SerializeToString())
    broker.producer.flush(30)
    create(tables, "strict", ORDER, broker, "broken", **options)
    create(tables, "lenient", ORDER, broker, "broken", **options, **{"protobuf.ignore-parse-errors": "true"})

    with pytest.raises(FunkenError):
        rows(tables, "SELECT id FROM strict")
    assert rows(tables, "SELECT id FROM lenient") == [(1,)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"format": "protobuf"}, "message-class-name"),
        (
            {"format": "protobuf", "protobuf.message-class-name": "nothing:Order"},
            "cannot be imported.*'module:Message'",
        ),
        ({"format": "avro-confluent"}, "avro-confluent.url"),
        (
            {"format": "avro-confluent", "avro-confluent.ulr": "u", "avro-confluent.url": "u"},
            "did you mean 'avro-confluent.url'",
        ),
    ],
)
def test_a_mistake_in_the_options(tables, broker, options, says):
    with pytest.raises(InvalidProgram, match=says):
        create(tables, "t", "id BIGINT", broker, "t", **options)
        tables.execute_sql("SELECT * FROM t")


NULLABLE = ["null", "string"]


@pytest.mark.parametrize(
    ("written", "value", "column", "expected"),
    [
        ("int", 5, "BIGINT", 5),
        ("long", 5, "DOUBLE", 5.0),
        ("string", "x", "BYTES", b"x"),
        ("bytes", b"x", "STRING", "x"),
        ("long", 1000, "TIMESTAMP(3)", datetime.datetime(1970, 1, 1, 0, 0, 1)),  # noqa: DTZ001
        ({"type": "string", "logicalType": "uuid"}, "00000000-0000-0000-0000-000000000001", "STRING",
         "00000000-0000-0000-0000-000000000001"),
        (["null", "int", "string"], "q", "STRING", "q"),
        ({"type": "map", "values": NULLABLE}, {"k": None}, "MAP<STRING, STRING>", {"k": None}),
        ("int", 1, "BOOLEAN", "1 is no boolean"),
        (["null", "int"], None, "INT NOT NULL", "field 'x' has no value, but its column is NOT NULL"),
    ],
)  # fmt: skip
def test_values_of_the_schema_that_a_record_was_written_with(registry, written, value, column, expected):
    schema = json.dumps({"type": "record", "name": "row", "fields": [{"name": "x", "type": written}]})
    client = SchemaRegistryClient(registry.url)
    message = ConfluentAvroSchema(client, "rows", schema).serialize({"x": value})
    decoder = avro_confluent(registry.url).decoder((("x", parse_type(column)),))

    try:
        found = decoder.deserialize_all(message)[0][0]
    except ValueError as error:
        found = str(error).removeprefix("field 'x': ")
    assert found == expected


def avro_confluent(url, name="avro-confluent", **options):
    given = {"format": name, f"{name}.url": url, **{f"{name}.{key}": value for key, value in options.items()}}
    declared = (ConnectorOption("format"), *format_options("t", name))
    return table_format("t", name, OptionValues("t", given, declared), topic="orders")


def test_a_token_is_sent_to_the_registry(registry):
    registry.authorization = "Bearer secret"
    columns = (("x", parse_type("INT")),)
    options = {"bearer-auth.credentials-source": "STATIC_TOKEN", "bearer-auth.token": "secret"}
    assert avro_confluent(registry.url, **options).encoder(columns).serialize(Row(1))[:1] == b"\0"
    with pytest.raises(FunkenError, match="401"):
        avro_confluent(registry.url).encoder(columns).serialize(Row(1))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"properties": "a:b"}, "these are of Java's client"),
        ({"ssl.truststore.location": "/store.jks"}, "it is a key store of Java"),
        ({"bearer-auth.credentials-source": "OAUTHBEARER"}, "it must be one of static_token"),
    ],
)
def test_options_of_a_registry_that_there_are_not(options, says):
    with pytest.raises(InvalidProgram, match=says):
        avro_confluent("http://registry:8081", **options)


def test_subjects_of_keys_and_values(tables, broker, registry):
    formats = {f"{part}.{key}": value for part in ("key", "value") for key, value in
               (("format", "avro-confluent"), ("avro-confluent.url", registry.url))}  # fmt: skip
    create(tables, "pairs", "k BIGINT, v STRING", broker, "pairs", **formats, **{"key.fields": "k"})
    tables.execute_sql("INSERT INTO pairs VALUES (1, 'tea')").wait()
    assert sorted(registry.subjects) == ["pairs-key", "pairs-value"]


IMAGE = {"type": "record", "name": "Value", "fields": [{"name": "a", "type": ["null", "int"]}]}
EVENT = {
    "type": "record", "name": "Envelope", "fields": [
        {"name": "before", "type": ["null", IMAGE]}, {"name": "after", "type": ["null", "Value"]},
        {"name": "op", "type": ["null", "string"]}, {"name": "ts_ms", "type": ["null", "long"]},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "operation", "expected"),
    [
        (None, {"a": 1}, "c", "+I(1)"),
        (None, {"a": None}, "r", "+I(None)"),
        ({"a": 1}, {"a": 2}, "u", "-U(1) +U(2)"),
        ({"a": 1}, None, "d", "-D(1)"),
        (None, {"a": 2}, "u", 'its field "before" is null'),
        (None, {"a": 2}, "x", "its operation is 'x'"),
    ],
)
def test_changes_of_debezium_in_avro(registry, before, after, operation, expected):
    written = ConfluentAvroSchema(SchemaRegistryClient(registry.url), "changes", json.dumps(EVENT))
    message = written.serialize({"before": before, "after": after, "op": operation, "ts_ms": 5})
    decoder = avro_confluent(registry.url, "debezium-avro-confluent").decoder((("a", parse_type("INT")),))
    try:
        found = " ".join(f"{row.get_row_kind()}({row[0]})" for row in decoder.deserialize_all(message))
    except ValueError as error:
        found = str(error)
    assert found.startswith(expected)
    assert decoder.deserialize_all(b"") == []


def test_changes_are_written_as_debezium_does(registry):
    columns = (("a", parse_type("INT")),)
    format_ = avro_confluent(registry.url, "debezium-avro-confluent")
    encoder, decoder = format_.encoder(columns), format_.decoder(columns)
    kinds = [RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE]
    messages = [encoder.serialize(Row.of_kind(kind, 7)) for kind in kinds]
    assert [str(row.get_row_kind()) for message in messages for row in decoder.deserialize_all(message)] == [
        "+I", "-D", "+I", "-D",
    ]  # fmt: skip
    schema = json.loads(registry.schemas[registry.subjects["orders-value"]])
    assert schema[0] == "null"
    assert [field["name"] for field in schema[1]["fields"]] == ["before", "after", "op"]
