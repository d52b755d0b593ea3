"""Records of declared types within records, and lists of these: what columns give is what the rows give."""

import io
import json
import random
from dataclasses import dataclass, field
from typing import NamedTuple

import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet

from funken import Configuration, FileSource, Row, StreamExecutionEnvironment, Types, WatermarkStrategy
from funken.columnar.records import made_of_fields
from funken.connectors import JsonSchema
from funken.connectors.files.arrow_files import ParquetFormat
from funken.connectors.files.avro_files import AvroFormat
from funken.connectors.files.line_files import LineFormat
from funken.connectors.formats.avro_schema import AvroSchema
from funken.connectors.formats.record_types import schema_of_records, shape_of
from funken.expr.types import ListOf


class City(NamedTuple):
    name: str
    code: int


@dataclass
class User:
    id: int
    city: City
    scores: list[int] = field(default_factory=list)


@dataclass
class Line:
    sku: str
    price: float


@dataclass
class Order:
    id: int
    user: User
    lines: list[Line]
    by: User | None = None
    more: list[Line] | None = None


@dataclass
class Priced(Line):
    """It does more than to keep its values."""

    def __post_init__(self):
        self.price *= 2


@dataclass
class Odd:
    id: int
    line: Priced
    lines: list[Priced]


CITY = Types.ROW_NAMED(["name", "code"], [Types.STRING(), Types.LONG()])
ROWS = Types.ROW_NAMED(
    ["id", "user", "lines"],
    [
        Types.LONG(), Types.ROW_NAMED(["id", "city"], [Types.LONG(), CITY]),
        Types.LIST(Types.ROW_NAMED(["sku", "price"], [Types.STRING(), Types.DOUBLE()])),
    ],
)  # fmt: skip


def documents(seed, count=400, odd=()):
    dice = random.Random(seed)
    made = [
        {
            "id": number,
            "user": {
                "id": number % 9, "city": {"name": dice.choice(["Ulm", "é"]), "code": dice.randrange(99)},
                "scores": [1] * (number % 3),
            },
            "lines": [{"sku": dice.choice("ab"), "price": dice.randrange(80) / 8} for _ in range(dice.randrange(4))],
            "by": {"id": 1, "city": {"name": "Ulm", "code": 1}, "scores": []},
            "more": None if number % 3 else [{"sku": "m", "price": 0.5}] * (number % 4),
        }
        for number in range(count)
    ]  # fmt: skip
    for name in odd:
        ODD[name](made[count - 30])
    return made


ODD = {
    "a null record": lambda made: made.update(by=None),
    "more fields within": lambda made: made["user"].update(more=1),
    "a field less within": lambda made: made["user"].pop("scores"),
    "a null within": lambda made: made["user"].update(city=None),
    "a null line": lambda made: made["lines"].append(None),
    "a line with more": lambda made: made["lines"].append({"sku": "c", "price": 0.5, "more": 2}),
    "a needed field less within": lambda made: made["user"].pop("id"),
    "a needed field less in a line": lambda made: made["lines"].append({"sku": "d"}),
    "a needed field less in what may be null": lambda made: made.update(by={"id": 7}),
    "no record within": lambda made: made.update(user=5),
    "no list": lambda made: made.update(lines={"sku": "a", "price": 1.0}),
    "another type within": lambda made: made["user"]["city"].update(code=1.5),
}


def json_source(path, made, declared):
    path.write_text("".join(json.dumps(each) + "\n" for each in made))
    return FileSource.for_format(LineFormat(JsonSchema(declared)), str(path))


def parquet_source(path, made, declared):
    parquet.write_table(pa.Table.from_pylist(made), path, row_group_size=100)
    return FileSource.for_bulk_file_format(ParquetFormat(declared), str(path))


def avro_source(path, made, declared):
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(json.loads(AvroSchema.of(Order).schema)), made)
    path.write_bytes(file.getvalue())
    return FileSource.for_bulk_file_format(AvroFormat(record_type=declared), str(path))


SOURCES = {"json": json_source, "parquet": parquet_source, "avro": avro_source}

PROGRAMS = {
    "fields": lambda stream: stream.map(lambda order: (order.id, order.user.city.name, order.user.id)),
    "lists": lambda stream: stream.map(
        lambda order: (sum((line.price for line in order.lines), 0.0), len(order.lines))
    ),
    "records on": lambda stream: stream.map(
        lambda order: (order.user.city, [line for line in order.lines if line.price > 3])
    ),
    "records": lambda stream: stream.filter(lambda order: order.user.id > 3).map(lambda order: order.user),
    "lines": lambda stream: stream.flat_map(lambda order: [(line.sku, order.id) for line in order.lines]),
    "lists that may be null": lambda stream: stream.map(lambda order: (order.id, order.more)),
    "items of those": lambda stream: stream.flat_map(
        lambda order: [sum((line.price for line in order.more), 0.0) if order.more is not None else -1.0]
    ),
    "numbers": lambda stream: stream.map(lambda order: str(order.id)),
    "all": lambda stream: stream.filter(lambda order: order.user.city.code > 50),
}


def outcome(source, program, vectorized, explained=None):
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration().set("pipeline.vectorized", vectorized))
    stream = PROGRAMS[program](env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "orders"))
    if explained is not None:
        explained.append(env.explain())
    return sorted(map(repr, stream.execute_and_collect()))


@pytest.mark.parametrize(
    ("declared", "program"),
    [(Order, each) for each in PROGRAMS]
    + [(ROWS, each) for each in ("fields", "lists", "records on", "records", "lines")],
)
@pytest.mark.parametrize("form", SOURCES)
def test_columns_give_what_records_give(tmp_path, form, declared, program):
    source, explained = SOURCES[form](tmp_path / "orders", documents(program), declared), []

    assert outcome(source, program, True, explained) == outcome(source, program, False)
    assert "orders: vectorized" in explained[0], explained[0]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("program", ["fields", "lists", "records on", "all", "numbers"])
def test_odd_records_are_read_as_rows_are(tmp_path, odd, program):
    source = json_source(tmp_path / "orders", documents(odd, 3000, [odd]), Order)
    found = []
    for vectorized in (True, False):
        try:
            found.append(outcome(source, program, vectorized))
        except Exception as error:  # noqa: BLE001 - the same for both
            found.append(str(error).rpartition("Error: ")[2])

    assert found[0] == found[1]


def test_a_batch_that_becomes_records_may_have_records_within_that_were_not_read(tmp_path):
    made = documents(3)
    made[350]["id"] = None  # not declared as one that may be
    source = parquet_source(tmp_path / "orders", made, Order)
    assert outcome(source, "numbers", True) == outcome(source, "numbers", False)


def test_what_is_within_has_the_form_that_is_declared():
    found = schema_of_records(Order, shape_of(Order, "a test"))

    assert repr(found) == (
        "Order(id: int, user: User(id: int, city: City(name: str, code: int), scores: list of int), "
        "lines: list of Line(sku: str, price: float), by: User(id: int, city: City(name: str, code: int), scores: list of int), "
        "more: list of Line(sku: str, price: float)?)"
    )
    assert made_of_fields(found, [[1], [2], [[]], [None], [None]]) == [Order(1, 2, [], None)]
    rows = schema_of_records(ROWS, shape_of(ROWS, "a test"))
    assert rows[2] == ListOf(rows[2].element)
    assert repr(rows[2].element) == "Row(sku: str, price: float)"
    assert Row(sku="a", price=1.0) == made_of_fields(rows[2].element, [["a"], [1.0]])[0]


def test_what_does_more_than_to_keep_values_has_no_columns():
    found = schema_of_records(Odd, shape_of(Odd, "a test"))

    assert [str(kind) for kind in found] == [
        "int", "struct<sku: string, price: double>", "list<item: struct<sku: string, price: double>>"
    ]  # fmt: skip
