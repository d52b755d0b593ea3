"""Avro: defaults of the reader's schema are values of the field's type, one per record; times mean the same on every machine."""

import io
import json
import os
import time as clock
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import fastavro
import pytest

from funken import Configuration, FileSource, Row, StreamExecutionEnvironment, Types
from funken.compat.pyflink.formats import AvroRowDeserializationSchema
from funken.connectors import AvroSchema, ConfluentAvroSchema
from funken.connectors.files.avro_files import AvroFormat
from funken.connectors.formats.registry import SchemaRegistryClient, framed
from funken.errors import InvalidConfiguration
from funken.types import Instant

WRITTEN = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


CENTS = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
ZERO = datetime(1970, 1, 1, tzinfo=UTC)
LOCAL = ZERO.replace(tzinfo=None)
INNER = {"type": "record", "name": "In", "fields": [
    {"name": "raw", "type": "bytes", "default": "\u00fe"}, {"name": "day", "type": logical("int", "date"), "default": 1},
    {"name": "n", "type": "long"},
]}  # fmt: skip
TREE = {"type": "record", "name": "Tree", "fields": [
    {"name": "v", "type": "float", "default": 0}, {"name": "all", "type": {"type": "array", "items": "Tree"}, "default": []},
]}  # fmt: skip
DEFAULTS = [
    ("null", None, None), ("boolean", True, True), ("int", -1, -1), ("long", 2**40, 2**40), ("float", 1, 1.0), ("double", 1,
        1.0),
    ({"type": "double"}, 1, 1.0), ("bytes", "\u00ff\u0001", b"\xff\x01"), ("string", "\u00ff", "\u00ff"), ("bytes", "", b""),
    ({"type": "fixed", "name": "F", "size": 2}, "\u0000\u00ff", b"\x00\xff"),
    ({"type": "enum", "name": "E", "symbols": ["X", "Y"]}, "Y", "Y"),
    (CENTS, "\u0001", Decimal("0.01")),
    (CENTS, "\u00ff", Decimal("-0.01")),
    ({"type": "fixed", "name": "D", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 1}, "\u0000\u000a",
        Decimal("1.0")),
    (logical("int", "date"), 0, date(1970, 1, 1)), (logical("int", "time-millis"), 1500, time(0, 0, 1, 500_000)),
    (logical("long", "time-micros"), 7, time(0, 0, 0, 7)), (logical("long", "timestamp-millis"), 0, ZERO),
    (logical("long", "timestamp-micros"), 1, ZERO + timedelta(microseconds=1)),
    (logical("long", "local-timestamp-millis"), 0, LOCAL),
    (logical("long", "local-timestamp-micros"), 0, LOCAL),
    (logical("string", "uuid"), "12345678-1234-5678-1234-567812345678", UUID("12345678123456781234567812345678")),
    ({"type": "fixed", "name": "L", "size": 12, "logicalType": "duration"}, "\u0001" + "\u0000" * 11, b"\x01" + bytes(11)),
    ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"]), ({"type": "array", "items": "int"}, [], []),
    ({"type": "map", "values": logical("int", "date")}, {"k": 1}, {"k": date(1970, 1, 2)}),
    (INNER, {"n": 5}, {"raw": b"\xfe", "day": date(1970, 1, 2), "n": 5}),
    (INNER, {"n": 5, "raw": "\u0001"}, {"raw": b"\x01", "day": date(1970, 1, 2), "n": 5}),
    (TREE, {"all": [{"v": 1.5}]}, {"v": 0.0, "all": [{"v": 1.5, "all": []}]}),
    (["null", "bytes"], None, None), (["bytes", "null"], "\u00ff", b"\xff"), (["null", "bytes"], "\u00ff", b"\xff"),
    ([logical("int", "date"), "null"], 0, date(1970, 1, 1)),
    (["null", {"type": "array", "items": "bytes"}], ["\u00ff"], [b"\xff"]),
]  # fmt: skip
NAMES = [f"{json.dumps(kind)[:60]} {default!r}" for kind, default, _ in DEFAULTS]


def schema_of(kind, default):
    return json.dumps({**WRITTEN, "fields": [*WRITTEN["fields"], {"name": "b", "type": kind, "default": default}]})


def message_of(value, schema=WRITTEN):
    file = io.BytesIO()
    fastavro.schemaless_writer(file, schema, value)
    return file.getvalue()


class Registry(SchemaRegistryClient):
    def schema(self, schema_id):
        return json.dumps(WRITTEN)


@pytest.mark.parametrize(("kind", "default", "expected"), DEFAULTS, ids=NAMES)
def test_a_default_is_a_value_of_its_type(tmp_path, kind, default, expected):
    schema, message = schema_of(kind, default), message_of({"a": 1})
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, WRITTEN, [{"a": n} for n in range(3)])
    registry = ConfluentAvroSchema(Registry("http://nowhere"), schema=schema)
    found = [
        AvroSchema(schema, None, json.dumps(WRITTEN)).deserialize(message)["b"],
        registry.deserialize(framed(1, message))["b"],
    ]
    for vectorized in (True, False):
        env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
        source = FileSource.for_format(AvroFormat(schema), str(tmp_path)).build()
        found += env.from_source(source).map(lambda record: record["b"]).execute_and_collect(limit=9)

    assert [(repr(each), type(each)) for each in found] == [(repr(expected), type(expected))] * 8


@pytest.mark.parametrize(("kind", "default", "expected"), DEFAULTS, ids=NAMES)
def test_a_field_that_a_record_lacks_is_written_as_its_default(kind, default, expected):
    schema = AvroSchema(schema_of(kind, default))

    assert schema.deserialize(schema.serialize({"a": 1})) == {"a": 1, "b": expected}


def changed(value):
    if isinstance(value, list):
        value.append("more")
        return value[:-1]
    value["more"] = 1
    return {name: each for name, each in value.items() if name != "more"}


@pytest.mark.parametrize(
    ("kind", "default", "expected"), [each for each in DEFAULTS if isinstance(each[2], list | dict)],
)  # fmt: skip
@pytest.mark.parametrize("around", ["field", "array", "map", "union", "record"])
def test_each_record_has_a_default_of_its_own(around, kind, default, expected):
    new = json.loads(schema_of(kind, default))
    wrap = {
        "field": (lambda of: of, lambda value: value, lambda value: value),
        "array": (lambda of: {"type": "array", "items": of}, lambda value: [value], lambda value: value[0]),
        "map": (lambda of: {"type": "map", "values": of}, lambda value: {"k": value}, lambda value: value["k"]),
        "union": (lambda of: ["null", of], lambda value: value, lambda value: value),
        "record": (
            lambda of: {"type": "record", "name": "Out", "fields": [{"name": "x", "type": of}]},
            lambda value: {"x": value}, lambda value: value["x"],
        ),
    }[around]  # fmt: skip
    old = wrap[0](WRITTEN)
    schema = AvroSchema(json.dumps(wrap[0](new)), None, json.dumps(old))

    for _ in range(3):
        record = wrap[2](schema.deserialize(message_of(wrap[1]({"a": 1}), fastavro.parse_schema(old))))
        assert changed(record["b"]) == expected


@pytest.mark.parametrize(("kind", "default"), [
    ({"type": "fixed", "name": "F", "size": 2}, "\u00ff"), ({"type": "enum", "name": "E", "symbols": ["X"]}, "Z"),
    ({"type": "array", "items": "int"}, ["a"]), (logical("int", "date"), 2**40), (INNER, {}),
])  # fmt: skip
def test_a_default_that_is_none_is_refused_when_the_program_is_built(kind, default):
    with pytest.raises(InvalidConfiguration, match="the default .* of field 'b' is no value of its type"):
        AvroSchema(schema_of(kind, default), None, json.dumps(WRITTEN))


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Kolkata"])
def zone(request, monkeypatch):
    monkeypatch.setitem(os.environ, "TZ", request.param)
    clock.tzset()
    yield request.param
    monkeypatch.undo()
    clock.tzset()


LAST = datetime.fromisoformat("9999-12-31T23:59:59.999999")
SUMMER = datetime.fromisoformat("2024-07-01T12:00:00.001")
EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(("kind", "written", "read"), [
    ("timestamp-millis", SUMMER, SUMMER.replace(tzinfo=UTC)), ("timestamp-micros", SUMMER, SUMMER.replace(tzinfo=UTC)),
    ("timestamp-micros", SUMMER.replace(tzinfo=EAST), SUMMER.replace(tzinfo=UTC) - timedelta(hours=2)),
    ("local-timestamp-millis", SUMMER, SUMMER), ("local-timestamp-micros", SUMMER, SUMMER),
    ("timestamp-micros", Instant(1, 5000), ZERO + timedelta(seconds=1, microseconds=5)),
    ("timestamp-micros", datetime.min.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)),
    ("timestamp-micros", datetime.max.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)),
    ("local-timestamp-micros", LAST, LAST),
])  # fmt: skip
@pytest.mark.parametrize("around", [lambda of: of, lambda of: ["null", of], lambda of: ["null", "string", of]])
def test_times_do_not_depend_on_the_zone_of_the_machine(zone, around, kind, written, read):
    schema = AvroSchema(json.dumps({**WRITTEN, "fields": [{"name": "t", "type": around(logical("long", kind))}]}))

    found = schema.deserialize(schema.serialize({"t": written}))["t"]
    assert (found, found.tzinfo is None) == (read, read.tzinfo is None)


@pytest.mark.parametrize(("kind", "value"), [
    ("int", 2**31), ("int", 1.5), ("int", True), ("long", 2**63), ("float", 1e39), ("float", "1.5"), ("double", 2**53 + 1),
    ("boolean", 1), ("boolean", "no"), ("string", 5), ("string", b"a"), ("bytes", "a"),
    ({"type": "array", "items": "string"}, "ab"),
    ({"type": "map", "values": "int"}, {1: 1}), (logical("long", "local-timestamp-micros"), ZERO),
    (logical("long", "timestamp-millis"), datetime(2024, 1, 1, 0, 0, 0, 1, UTC)), (logical("int", "date"), ZERO),
    (logical("int", "time-millis"), time(0, 0, 0, 1)), (logical("long", "time-micros"), time(1, tzinfo=UTC)),
    (CENTS, Decimal("0.001")), (CENTS, Decimal("1E+3")),
    (CENTS, Decimal("NaN")), (["null", "int"], "a"), (["null", "int", "string"], 0.5),
    (logical("long", "timestamp-micros"), Instant(1, 1)), (logical("long", "timestamp-micros"), "now"),
])  # fmt: skip
def test_a_value_that_would_come_back_as_another_is_not_written(kind, value):
    schema = AvroSchema(json.dumps({**WRITTEN, "fields": [{"name": "t", "type": kind}]}))

    with pytest.raises(ValueError, match="field 't': "):
        schema.serialize({"t": value})


@pytest.mark.parametrize(("kind", "value"), [
    (["null", "int", "string"], None), (["null", "int", "string"], 5), (["null", "int", "string"], "a"),
    (["float", "double"], 0.1),
    (["int", "long"], 2**40), (["string", "bytes"], b"a"), (["null", INNER, TREE], {"v": 0.5, "all": []}),
    (["null", INNER, {"type": "array", "items": "int"}], [1]), (CENTS, Decimal("1.5000")),
    ({"type": "fixed", "name": "D", "size": 8, "logicalType": "decimal", "precision": 18, "scale": 3},
        Decimal("-999999999999999.999")),
    (["null", logical("long", "timestamp-millis"), "string"], SUMMER.replace(tzinfo=UTC)),
    (TREE, {"v": 1.0, "all": [{"v": 2.0, "all": []}]}),
    ("int", -(2**31)), ("long", 2**63 - 1), ("double", float("inf")), ("string", "\U0001f600\0"),
    (logical("int", "date"), date.max),
    (logical("int", "date"), date.min), (logical("long", "time-micros"), time.max),
    ({"type": "map", "values": ["null", "int"]}, {"": None}),
])  # fmt: skip
def test_what_is_written_is_read(kind, value):
    schema = AvroSchema(json.dumps({**WRITTEN, "fields": [{"name": "t", "type": kind}]}))

    assert schema.deserialize(schema.serialize({"t": value})) == {"t": value}


def test_rows_of_declared_types_and_of_pyflink_have_them_too():
    rows = Types.ROW_NAMED(["i", "n", "t"], [Types.INSTANT(), Types.BIG_INT(), Types.TUPLE([Types.BIG_INT()])])
    schema, row = AvroSchema.of(rows), Row(i=Instant(1, 5000), n=10**37, t=(7,))

    assert repr(schema.deserialize(schema.serialize(row))) == repr(row)
    with pytest.raises(ValueError, match="field 'i': Instant<1, 5> is finer than the microseconds that are kept"):
        schema.serialize(Row(i=Instant(1, 5), n=0, t=None))
    flink = AvroRowDeserializationSchema(avro_schema_string=schema_of("bytes", "\u00ff"))
    assert flink.deserialize(AvroSchema(schema_of("bytes", "\u00ff")).serialize({"a": 1})) == Row(a=1, b=b"\xff")
