"""Messages and files of Avro, and messages of protocol buffers, as columns: what their records are one by one."""

import datetime
import json
import random
from dataclasses import dataclass
from decimal import Decimal
from io import BytesIO
from typing import NamedTuple

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from funken import Configuration, DiscardingSink, FileSource, StreamExecutionEnvironment, Types, WatermarkStrategy
from funken.columnar.expressions import NotVectorizable
from funken.columnar.kernels.columns import Columns
from funken.columnar.records import NOT_READ
from funken.connectors import ConnectorContext
from funken.connectors.files.avro_files import AvroFormat
from funken.connectors.files.file_format import BulkWriter
from funken.connectors.files.line_files import LineFormat
from funken.connectors.formats.arrow_columns import is_held
from funken.connectors.formats.avro_schema import AvroSchema
from funken.connectors.formats.protobuf_schema import ProtobufSchema

UTC = datetime.UTC
FIELDS = {
    "i": ("long", [1, -(1 << 40), 0]),
    "s": ("string", ["tea", "", "né"]),
    "f": ("double", [0.5, -0.0, float("inf")]),
    "b": ("boolean", [True, False]),
    "maybe": (["null", "int"], [5, 5, 5, None]),
    "at": ({"type": "long", "logicalType": "timestamp-millis"}, [datetime.datetime(2026, 11, 27, tzinfo=UTC)]),
    "day": ({"type": "int", "logicalType": "date"}, [datetime.date(2026, 11, 27)]),
    "cost": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, [Decimal("1.50")]),
    "raw": ("bytes", [b"", b"\0\xff"]),
    "kind": ({"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, ["A", "B"]),
    "tags": ({"type": "array", "items": "string"}, [[], ["a"]]),
}


@dataclass
class Some:
    s: str
    maybe: int | None
    i: int = 3


class Older(NamedTuple):
    i: int
    s: str
    new: str = "unset"


TYPES = {
    "dicts": None,
    "rows": Types.ROW_NAMED(["s", "i", "f"], [Types.STRING(), Types.INT(), Types.DOUBLE()]),
    "dataclass": Some,
    "with a default": Older,
    "of another type": Types.ROW_NAMED(["i", "s"], [Types.STRING(), Types.STRING()]),
}


def avro_schema(names):
    fields = [{"name": name, "type": FIELDS[name][0]} for name in names]
    return json.dumps({"type": "record", "name": "Sale", "fields": fields})


def drawn(dice, names, count):
    return [{name: dice.choice(FIELDS[name][1]) for name in names} for _ in range(count)]


def names_of(schema, record_type):
    return getattr(schema, "names", None) or [f"f{number}" for number in range(len(schema))]


def the_same(block, rows, schema, wanted):
    """Whether the wanted fields are those of the rows, and the others are not read."""
    assert isinstance(block, Columns)
    for one, other in zip(block.to_list(), rows, strict=True):
        assert type(one) is type(other)
        for number, name in enumerate(schema.names):
            take = (lambda record: record[name]) if isinstance(one, dict) or hasattr(one, "as_dict") else (  # noqa: B023
                lambda record: getattr(record, name)  # noqa: B023
            )  # fmt: skip
            assert repr(take(one)) == repr(take(other)) if number in wanted else take(one) is NOT_READ


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("seed", range(12))
def test_avro_messages_become_columns(kind, seed):
    dice = random.Random(f"{kind} {seed}")
    names = ["i", "s", "f", "maybe", *dice.sample(sorted(set(FIELDS) - {"i", "s", "f", "maybe"}), 3)]
    schema = AvroSchema(avro_schema(names), TYPES[kind])
    writer = AvroSchema(avro_schema(names))
    messages = writer.serialize_block(drawn(dice, names, dice.choice([1, 6])))
    rows, found = schema.deserialize_block(messages), schema.record_schema()
    held = [number for number, each in enumerate(found) if is_held(each)]
    wanted = sorted(dice.sample(held, dice.randrange(len(held) + 1)))
    block = schema.messages_to_columns(found, wanted)(messages)

    wrong = kind == "of another type" and 0 in wanted
    absent = kind == "with a default" and 2 in wanted
    null = kind == "dicts" and 3 in wanted and any(row["maybe"] is None for row in rows)
    assert (block is None) == (wrong or absent or null)
    if block is not None:
        the_same(block, rows, found, wanted)
    assert schema.messages_to_columns(found, wanted)([*messages, messages[0] + b"x"]) is None


def test_a_required_field_that_messages_lack_makes_none_of_them_columns():
    class Required(NamedTuple):
        i: int
        there: str

    schema, writer = AvroSchema(avro_schema(["i"]), Required), AvroSchema(avro_schema(["i"]))
    assert schema.messages_to_columns(schema.record_schema(), [0])([writer.serialize({"i": 1})]) is None
    with pytest.raises(ValueError, match="'there' is missing"):
        schema.deserialize(writer.serialize({"i": 1}))


@pytest.mark.parametrize("schema", ['"long"', '{"type": "array", "items": "long"}', '["null", "long"]'])
def test_values_of_avro_that_are_no_records_have_no_columns(schema):
    with pytest.raises(NotVectorizable, match="no records with fields"):
        AvroSchema(schema).record_schema()


def read(source, columns=None):
    reader = source.reader(ConnectorContext("files"))
    if columns is not None:
        reader.read_record_columns(*columns)
    splits, rows, blocks = source.enumerator(1), [], 0
    splits.start()
    while given := splits.next_splits(0):
        reader.add_splits(given)
        while hasattr(got := reader.poll(500, 0), "values"):
            blocks += isinstance(got.values, Columns)
            rows += got.values.to_list() if isinstance(got.values, Columns) else got.values
    reader.close()
    return rows, blocks


@pytest.mark.parametrize("kind", ["dicts", "dataclass"])
@pytest.mark.parametrize("declared", [False, True])
def test_avro_files_become_columns(tmp_path, kind, declared):
    dice = random.Random(kind)
    names = list(FIELDS)
    text = avro_schema(names)
    records = drawn(dice, names, 4000)
    for each in records[:2500]:
        each["maybe"] = 5
    file = BytesIO()
    writer: BulkWriter = AvroFormat(text).create(file)
    writer.write(records)
    writer.finish()
    (tmp_path / "a.avro").write_bytes(file.getvalue())
    source = FileSource.for_format(AvroFormat(text if declared else None, TYPES[kind]), tmp_path).build()
    schema = source.record_schema()
    wanted = [number for number, each in enumerate(schema) if is_held(each)]
    rows, _ = read(source)
    found, blocks = read(source, (schema, wanted))

    taken = [schema.names[number] for number in wanted]
    get = (lambda each, name: each[name]) if kind == "dicts" else getattr
    assert [[repr(get(each, name)) for name in taken] for each in found] == [
        [repr(get(each, name)) for name in taken] for each in rows
    ]
    assert blocks > 2
    assert any(get(each, taken[-1]) is None for each in rows) == any(get(each, taken[-1]) is None for each in found)


def test_programs_read_avro_as_columns(tmp_path):
    text = avro_schema(["i", "s", "tags"])
    file = BytesIO()
    writer = AvroFormat(text).create(file)
    writer.write([{"i": n, "s": f"k{n % 3}", "tags": []} for n in range(500)])
    writer.finish()
    (tmp_path / "a.avro").write_bytes(file.getvalue())
    env = StreamExecutionEnvironment.create_local_environment(1)
    files = FileSource.for_format(AvroFormat(), tmp_path).build()
    stream = env.from_source(files, WatermarkStrategy.no_watermarks(), "files")
    pairs = stream.filter(lambda sale: sale["i"] % 7 == 1).map(lambda sale: (sale["s"], sale["i"]))
    pairs.sink_to(DiscardingSink())
    assert "projection: files: reads 2 of 3 fields: i, s" in env.explain()
    assert pairs.execute_and_collect(limit=999) == [(f"k{n % 3}", n) for n in range(500) if n % 7 == 1]


def avro_file(path, schema, records):
    with path.open("wb") as file:
        writer: BulkWriter = AvroFormat(json.dumps(schema)).create(file)
        writer.write(records)
        writer.finish()


def record_of(called, /, **fields):
    return {"type": "record", "name": called, "fields": [{"name": each, "type": of} for each, of in fields.items()]}


def test_programs_read_records_within_records_of_avro_as_columns(tmp_path):
    place = record_of("Place", city="string", zip="int")
    user = record_of("User", id="long", at=["null", place])
    records = [{"user": {"id": n, "at": {"city": f"c{n % 5}", "zip": n}}, "n": n} for n in range(900)]
    avro_file(tmp_path / "a.avro", record_of("Visit", user=user, n="int"), records)
    other = record_of("User", id="long", name="string", at=["null", place])
    more = [{"user": {"id": n, "name": "al", "at": {"city": "far", "zip": 1}}, "n": n} for n in range(50)]
    avro_file(tmp_path / "b.avro", record_of("Visit", user=other, n="int"), more)
    nowhere = [{"user": {"id": -1, "at": None}, "n": n} for n in (1, 2)]
    avro_file(tmp_path / "c.avro", record_of("Visit", user=user, n="int"), nowhere)
    everything = records + more + nowhere
    for function in (lambda v: v["user"]["id"], lambda v: v["user"], lambda v: v, lambda v: (v["n"], len(v["user"]))):
        found = []
        for vectorized in (False, True):
            options = Configuration({"pipeline.vectorized": vectorized})
            env = StreamExecutionEnvironment.create_local_environment(1, options)
            files = FileSource.for_format(AvroFormat(), tmp_path).build()
            stream = env.from_source(files, WatermarkStrategy.no_watermarks(), "files")
            made = stream.filter(lambda v: v["user"]["at"] is None or v["user"]["at"]["city"] != "c3").map(function)
            made.sink_to(DiscardingSink())
            if vectorized:
                assert "columns: files: vectorized" in env.explain()
            found.append(made.execute_and_collect(limit=9999))
        assert found[0] == found[1]
        expected = [function(v) for v in everything if not v["user"]["at"] or v["user"]["at"]["city"] != "c3"]
        assert sorted(map(repr, found[0])) == sorted(map(repr, expected))


def test_a_file_with_more_fields_than_the_first_gives_whole_records(tmp_path):
    avro_file(tmp_path / "a.avro", record_of("Sale", n="int"), [{"n": 1}])
    avro_file(tmp_path / "b.avro", record_of("Sale", n="int", item="string"), [{"n": 2, "item": "tea"}])
    env = StreamExecutionEnvironment.create_local_environment(1)
    files = FileSource.for_format(AvroFormat(), tmp_path).build()
    stream = env.from_source(files, WatermarkStrategy.no_watermarks(), "files").filter(lambda sale: sale["n"] > 0)
    assert sorted(map(repr, stream.execute_and_collect(limit=9))) == ["{'n': 1}", "{'n': 2, 'item': 'tea'}"]


def test_lines_of_messages_without_a_form_of_lines_are_read_in_rows(tmp_path):
    (tmp_path / "a").write_text("x\n")
    source = FileSource.for_format(LineFormat(AvroSchema(avro_schema(["i"]))), tmp_path).build()
    with pytest.raises(NotVectorizable, match="AvroSchema produces no columns"):
        source.record_schema()


# ---- protocol buffers


def message_class():
    file = descriptor_pb2.FileDescriptorProto(name="sale.proto", package="test", syntax="proto3")
    message = file.message_type.add(name="Sale")
    kinds = {"i": 3, "s": 9, "f": 1, "b": 8, "raw": 12, "small": 2, "maybe": 5, "tags": 9}
    for number, (name, kind) in enumerate(kinds.items()):
        label = 3 if name == "tags" else 1
        field = message.field.add(name=name, number=number + 1, type=kind, label=label)
        if name == "maybe":
            field.proto3_optional = True
            field.oneof_index = 0
    message.oneof_decl.add(name="_maybe")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.Sale"))


@dataclass
class Sold:
    s: str
    maybe: int | None
    small: float
    raw: bytes
    b: bool
    tags: list[str]
    f: float = 0.0


@pytest.mark.parametrize("seed", range(12))
def test_messages_of_protobuf_become_columns(seed):
    dice, made = random.Random(seed), message_class()
    schema = ProtobufSchema(made, Sold)
    messages = [
        made(
            s=dice.choice(["", "tea"]), small=dice.choice([0.1, 2.0]), b=dice.choice([True, False]), f=0.5, raw=b"\xff",
            tags=dice.choice([["x"], [], ["a", "b"]]), maybe=dice.choice([None, 0, 7]),
        ).SerializeToString()
        for _ in range(dice.choice([1, 5]))
    ]  # fmt: skip
    rows, found = schema.deserialize_block(messages), schema.record_schema()
    held = [number for number, each in enumerate(found) if is_held(each)]
    assert len(held) == 7
    wanted = sorted(dice.sample(held, dice.randrange(7)))
    the_same(schema.messages_to_columns(found, wanted)(messages), rows, found, wanted)
    assert schema.messages_to_columns(found, wanted)([*messages, b"\xff"]) is None


@dataclass
class Place:
    city: str
    code: int


@dataclass
class Shop:
    id: int
    place: Place
    codes: list[int]


def shop_class():
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="test", syntax="proto3")
    place, shop = file.message_type.add(name="Place"), file.message_type.add(name="Shop")
    place.field.add(name="city", number=1, type=9, label=1)
    place.field.add(name="code", number=2, type=5, label=1)
    shop.field.add(name="id", number=1, type=3, label=1)
    shop.field.add(name="place", number=2, type=11, type_name=".test.Place", label=1)
    shop.field.add(name="codes", number=3, type=5, label=3)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.Shop"))


@pytest.mark.parametrize("wanted", [[0], [1], [2], [1, 2], [0, 2, 3], [3], [0, 1, 2, 3]])
def test_messages_within_messages_of_protobuf_become_columns(wanted):
    made = shop_class()
    schema = ProtobufSchema(made, Shop)
    shops = [made(id=n, place={"city": f"c{n}", "code": n % 3}, codes=range(n % 4)) for n in range(9)]
    messages, found = [each.SerializeToString() for each in shops], schema.record_schema()
    rows = schema.deserialize_block(messages)
    assert repr(found) == "Shop(id: int, place: Place(city: str, code: int), codes: list of int)"

    block = schema.messages_to_columns(found, wanted)(messages)

    if wanted == [0, 1, 2, 3]:
        assert block.to_list() == rows
    for one, other in zip(block.to_list(), rows, strict=True):
        values = [(each.id, each.place.city, each.place.code, each.codes) for each in (one, other)]
        assert [values[0][number] for number in wanted] == [values[1][number] for number in wanted]
        assert all(values[0][number] is NOT_READ for number in range(4) if number not in wanted)
    without = [*messages, made(id=7).SerializeToString()]  # its place is None
    assert (schema.messages_to_columns(found, wanted)(without) is None) is bool({1, 2} & set(wanted))


def test_messages_of_protobuf_without_a_record_type_stay_messages():
    with pytest.raises(NotVectorizable, match=r"declare the record type: ProtobufSchema\(message, record_type\)"):
        ProtobufSchema(message_class()).record_schema()
