"""Files whose records have lists, of values and of records: what programs make of columns is what they make of records."""

import datetime
import io
import json
import random
from dataclasses import dataclass
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from funken import Configuration, FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors import JsonSchema
from funken.connectors.files.arrow_files import OrcFormat, ParquetFormat
from funken.connectors.files.avro_files import AvroFormat
from funken.connectors.files.line_files import LineEncoder, LineFormat
from funken.connectors.formats import arrow as arrow_batches
from funken.connectors.formats.avro_schema import AvroSchema
from funken.errors import OperatorFailed
from tests.support.traced.functions import FunctionWriter
from tests.support.traced.records import SPACE

ITEM = pa.struct([("sku", pa.string()), ("price", pa.float64()), ("n", pa.int64()), ("marks", pa.list_(pa.int64()))])
TABLE = pa.schema([
    ("id", pa.int64()), ("tags", pa.list_(pa.string())), ("items", pa.list_(ITEM)), ("scores", pa.list_(pa.float64())),
    ("flags", pa.list_(pa.bool_())), ("grid", pa.list_(pa.list_(pa.int64()))),
])  # fmt: skip


NARROW = pa.schema([
    ("id", pa.int16()), ("tags", pa.list_(pa.large_string())), ("items", pa.list_(pa.struct([
        ("sku", pa.string()), ("price", pa.float32()), ("n", pa.int8()), ("marks", pa.list_(pa.int32())),
    ]))), ("scores", pa.list_(pa.float64())), ("flags", pa.list_(pa.bool_())), ("grid", pa.list_(pa.list_(pa.int16()))),
])  # fmt: skip


def avro_of(type_):
    if pa.types.is_list(type_):
        return {"type": "array", "items": avro_of(type_.value_type)}
    if pa.types.is_struct(type_):
        return {
            "type": "record",
            "name": "Item",
            "fields": [{"name": each.name, "type": avro_of(each.type)} for each in type_],
        }
    return {pa.int64(): "long", pa.string(): "string", pa.float64(): "double", pa.bool_(): "boolean"}[type_]


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": each.name, "type": avro_of(each.type)} for each in TABLE],
}


def orders(seed, count=120):
    dice = random.Random(seed)

    def several(make):
        return [make() for _ in range(dice.choice((0, 1, 2, 2, 5)))]

    def item():
        return {
            "sku": dice.choice(("tea", "jam", "né", "")), "price": dice.randrange(80) / 8, "n": dice.randrange(-3, 9),
            "marks": several(lambda: dice.randrange(100)),
        }  # fmt: skip

    return [
        {
            "id": number, "tags": several(lambda: dice.choice(("new", "old", "é"))), "items": several(item),
            "scores": several(dice.random), "flags": several(lambda: dice.random() < 0.5),
            "grid": several(lambda: several(lambda: dice.randrange(10))),
        }
        for number in range(count)
    ]  # fmt: skip


def write_json(path, records):
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return FileSource.for_format(LineFormat(JsonSchema()), str(path))


def write_parquet(path, records):
    parquet.write_table(pa.Table.from_pylist(records, TABLE), path, row_group_size=50)
    return FileSource.for_bulk_file_format(ParquetFormat(), str(path))


def write_orc(path, records):
    orc.write_table(pa.Table.from_pylist(records, TABLE), path)
    return FileSource.for_bulk_file_format(OrcFormat(), str(path))


def write_avro_of(path, schema, records):
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(schema), records)
    path.write_bytes(file.getvalue())


def write_avro(path, records):
    write_avro_of(path, AVRO, records)
    return FileSource.for_bulk_file_format(AvroFormat(), str(path))


FORMATS = {"json": write_json, "parquet": write_parquet, "orc": write_orc, "avro": write_avro}


def lines(order):
    for item in order["items"]:
        if item["n"] > 0:
            yield order["id"], item["sku"].upper(), item["price"] * item["n"], len(item["marks"])


PROGRAMS = {
    "sums": lambda stream: stream.map(lambda r: (r["id"], sum(i["n"] for i in r["items"]), len(r["tags"]))),
    "conditions": lambda stream: stream.filter(lambda r: any(i["price"] > 5 for i in r["items"]) or "old" in r["tags"]).map(
        lambda r: r["id"]
    ),
    "lists on": lambda stream: stream.map(lambda r: (r["id"], r["tags"], [s * 2 for s in r["scores"] if s < 0.5])),
    "lists of records": lambda stream: stream.map(lambda r: [(i["sku"], i["n"] + r["id"]) for i in r["items"] if i["sku"]]),
    "an item": lambda stream: stream.map(lambda r: r["items"][0]["sku"] if r["items"] else ",".join(r["tags"])),
    "lists of lists": lambda stream: stream.map(
        lambda r: (sum(sum(row) for row in r["grid"]), [len(row) for row in r["grid"]])
    ),
    "bools": lambda stream: stream.map(lambda r: (all(r["flags"]), any(r["flags"]), sum(r["flags"]))),
    "flat map": lambda stream: stream.flat_map(lines),
    "texts": lambda stream: stream.flat_map(lambda r: [(tag, r["id"]) for tag in r["tags"] if tag != "new"]),
    "floats": lambda stream: stream.map(lambda r: (sum(r["scores"], 0.0), sum(i["price"] * i["n"] for i in r["items"]))),
    "keyed": lambda stream: stream.map(lambda r: (r["id"] % 7, len(r["items"]), r["id"]))
    .key_by(lambda t: t[0])
    .reduce(lambda a, b: (a[0], a[1] + b[1], b[2])),
    "another task": lambda stream: stream.map(lambda r: (r["id"] % 3, r["tags"], [i["sku"] for i in r["items"]]))
    .key_by(lambda t: t[0])
    .map(lambda t: (t[1], sorted(t[2]))),
}  # fmt: skip


def outcome(source, program, vectorized, explained=None):
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration().set("pipeline.vectorized", vectorized))
    stream = program(env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "orders"))
    if explained is not None:
        explained.append(env.explain())
    return sorted(map(repr, stream.execute_and_collect()))


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("form", FORMATS)
def test_columns_give_what_records_give(tmp_path, form, program):
    source, explained = FORMATS[form](tmp_path / "orders", orders(program)), []

    assert outcome(source, PROGRAMS[program], True, explained) == outcome(source, PROGRAMS[program], False)
    assert "orders: vectorized" in explained[0], explained[0]


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_explain_says_which_fields_of_items_are_read(tmp_path, form):
    source, explained = FORMATS[form](tmp_path / "orders", orders(1)), []

    outcome(source, lambda stream: stream.map(lambda r: sum(i["n"] for i in r["items"] if i["sku"])), True, explained)
    outcome(source, lambda stream: stream.map(lambda r: (len(r["items"]), r["id"])), True, explained)
    outcome(source, lambda stream: stream.map(lambda r: [i for i in r["items"] if i["n"]]).map(len), True, explained)
    outcome(source, lambda stream: stream.flat_map(lambda r: [(i["n"], r["id"]) for i in r["items"]]), True, explained)

    assert "orders: reads 1 of 6 fields: items (sku, n)" in explained[0]
    assert "orders: reads 2 of 6 fields: id, items ()" in explained[1]
    assert form == "json" or "orders: reads 1 of 6 fields: items\n" in explained[2]  # an object may have other fields
    assert "orders: reads 2 of 6 fields: id, items (n)" in explained[3]


@pytest.mark.parametrize("values", [
    pa.array([[datetime.date(2026, 11, 27)], []]),
    pa.array([[datetime.datetime(2026, 11, 27, 12)], []], pa.list_(pa.timestamp("ms"))),  # noqa: DTZ001 - it has none
    pa.array([[datetime.datetime(2026, 11, 27, 12, tzinfo=datetime.UTC)], []], pa.list_(pa.timestamp("us", "UTC"))),
    pa.array([[datetime.datetime(2026, 11, 27, 12)], []], pa.list_(pa.timestamp("us", "Europe/Berlin"))),  # noqa: DTZ001
    pa.array([[Decimal("1.50")], []]),
    pa.array([[b"x", b""], []]),
    pa.array([[datetime.timedelta(seconds=3)], []]),
    pa.array([[1, 2**63], []], pa.list_(pa.uint64())),
    pa.array([["a", "b"], []], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)),
    pa.array([[None], []], pa.list_(pa.null())),
    pa.array([[1.5], []], pa.list_(pa.float32())),
])  # fmt: skip
def test_lists_of_other_values_are_the_same(tmp_path, values):
    parquet.write_table(pa.table({"id": [1, 2], "l": values}), tmp_path / "values.parquet")
    source = FileSource.for_bulk_file_format(ParquetFormat(), str(tmp_path / "values.parquet"))

    def program(stream):
        return stream.map(lambda r: (r["id"], r["l"], [str(x) for x in r["l"]]))

    assert outcome(source, program, True) == outcome(source, program, False)


def test_of_items_only_the_fields_that_are_looked_at_are_read(tmp_path, monkeypatch):
    records = [{"user": {"lists": order.pop("items"), "id": 1}, **order} for order in orders(5, 90)]
    more = [
        {**each, "user": {"id": 2, "lists": [{**item, "more": 1} for item in each["user"]["lists"]]}}
        for each in records
    ]
    null = [*records[:40], {**records[40], "user": {"lists": None, "id": 3}}]
    empty = [{**each, "user": {"id": 4, "lists": []}} for each in records]
    for number, made in enumerate((records, more, null, empty)):
        parquet.write_table(pa.Table.from_pylist(made), tmp_path / f"{number}.parquet")
    source, asked, batches = (
        FileSource.for_bulk_file_format(ParquetFormat(), str(tmp_path)),
        [],
        parquet.ParquetFile.iter_batches,
    )

    def recording(self, *given, **options):
        asked.append(options["columns"])
        return batches(self, *given, **options)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", recording)

    def program(stream):
        return stream.map(
            lambda r: (
                sum(len(i["marks"]) + i["n"] for i in r["user"]["lists"]) if r["user"]["lists"] is not None else -1
            )
        )

    expected = outcome(source, program, False)
    asked.clear()
    assert outcome(source, program, True) == expected
    nested = [f"user.lists.list.element.{name}" for name in ("n", "marks.list.element")]
    assert [sorted(each) for each in asked[:3:2]] == [sorted(nested)] * 2
    assert sorted(asked[1]) != sorted(nested)  # its structs have another field
    asked.clear()
    assert outcome(source, lambda stream: stream.map(lambda r: len(r["tags"])), True)
    assert asked[0] == ["tags"]
    outcome(source, lambda stream: stream.map(lambda r: len(r["user"]["lists"] or [])), True)
    assert len(asked[-4]) == 1
    assert asked[-4][0].startswith("user.lists.list.element.")  # one of them tells how many there are


ODD = {
    "a list that is null": lambda order: {**order, "tags": None},
    "a tag that is null": lambda order: {**order, "tags": ["new", None]},
    "an item that is null": lambda order: {**order, "items": [None, *order["items"]]},
    "a name that is null": lambda order: {**order, "items": [{"sku": None, "price": 1.0, "n": 2, "marks": [1]}]},
    "marks that are null": lambda order: {**order, "items": [{"sku": "tea", "price": 1.0, "n": 2, "marks": None}]},
}


def kept(value):
    return value if isinstance(value, list) else []


def careful(r):
    """Written for lists that may be null, and items within that may be: it can be traced in part only."""
    return (
        r["id"],
        r["tags"] is None,
        [str(tag) for tag in kept(r["tags"])],
        [item is None for item in kept(r["items"])],
    )


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("form", ["json", "parquet"])
@pytest.mark.parametrize(
    "program", [lambda stream: stream.map(careful), PROGRAMS["lists on"]], ids=["careful", "lists on"]
)
def test_odd_lists_in_a_later_part_of_a_file_become_records(tmp_path, form, odd, program):
    records = orders(odd, 3000)
    records[2500] = ODD[odd](records[2500])
    source = FORMATS[form](tmp_path / "orders", records)

    assert outcome(source, program, True) == outcome(source, program, False)


def test_lists_of_other_values_than_the_first_documents_had_become_records(tmp_path):
    records = [{"id": number, "tags": ["a"] * (number % 3)} for number in range(3000)]
    records[2000]["tags"] = ["a", 7]
    records[2100] = {"id": 2100, "tags": "no list"}
    path = tmp_path / "odd"
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    source = FileSource.for_format(LineFormat(JsonSchema()), str(path))

    def texts(stream):
        return stream.map(lambda r: [str(tag) for tag in r["tags"]])

    assert outcome(source, texts, True) == outcome(source, texts, False)


def test_documents_whose_lists_are_all_empty_say_nothing_of_their_items(tmp_path):
    source = write_json(tmp_path / "empty", [{"id": 1, "tags": []}, {"id": 2, "tags": []}])
    explained = []

    assert outcome(source, lambda stream: stream.map(lambda r: len(r["tags"])), True, explained) == ["0", "0"]
    assert "list of JSON" in explained[0]


@dataclass
class Order:
    id: int
    tags: list[str]
    scores: list[float] | None = None


def score(order):
    return order.id, len(order.tags), order.scores is None, "old" in order.tags


@pytest.mark.parametrize("form", ["json", "parquet", "avro"])
def test_declared_types_may_have_lists(tmp_path, form):
    records = [
        {"id": number, "tags": ["old"] * (number % 3), "scores": None if number % 2 else [0.5] * (number % 5)}
        for number in range(100)
    ]
    path, explained = tmp_path / "declared", []
    if form == "json":
        path.write_text("".join(json.dumps(each) + "\n" for each in records))
        source = FileSource.for_format(LineFormat(JsonSchema(Order)), str(path))
    elif form == "parquet":
        parquet.write_table(pa.Table.from_pylist(records), path)
        source = FileSource.for_bulk_file_format(ParquetFormat(Order), str(path))
    else:
        write_avro_of(path, json.loads(AvroSchema.of(Order).schema), records)
        source = FileSource.for_bulk_file_format(AvroFormat(record_type=Order), str(path))

    assert outcome(source, lambda stream: stream.map(score), True, explained) == sorted(
        repr((each["id"], len(each["tags"]), each["scores"] is None, "old" in each["tags"])) for each in records
    )
    assert "orders: vectorized" in explained[0], explained[0]


WRITTEN = {
    "lists": lambda r: {
        "id": r["id"],
        "tags": r["tags"],
        "marks": [i["marks"] for i in r["items"]],
        "flags": r["flags"],
    },
    "records in lists": lambda r: {"id": r["id"], "items": [i for i in r["items"] if i["n"]], "scores": r["scores"]},
    "new records": lambda r: {"of": {"id": r["id"]}, "lines": [{"sku": i["sku"], "n": i["n"] * 2} for i in r["items"]]},
    "tuples": lambda r: {"id": r["id"], "pairs": [(i["sku"], i["n"]) for i in r["items"]]},
    "all": lambda r: r,
}


@pytest.mark.parametrize(
    ("form", "what"),
    [*(("json", what) for what in WRITTEN), *(("parquet", what) for what in WRITTEN if what != "tuples")],
)
def test_lists_are_written_as_those_of_records_are(tmp_path, form, what):
    source, found = write_parquet(tmp_path / "orders", orders(what, 200)), {}
    for vectorized in (True, False):
        env = StreamExecutionEnvironment.create_local_environment(
            1, Configuration().set("pipeline.vectorized", vectorized)
        )
        stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "orders").map(WRITTEN[what])
        folder = tmp_path / f"{form} {vectorized}"
        if form == "json":
            sink = FileSink.for_row_format(str(folder), LineEncoder(JsonSchema()))
        else:
            sink = FileSink.for_bulk_format(str(folder), ParquetFormat())
        stream.sink_to(sink.build()).name("out")
        assert not vectorized or "out: vectorized" in env.explain()
        env.execute("write")
        files = sorted(each for each in folder.rglob("*") if each.is_file() and not each.name.startswith((".", "_")))
        if form == "json":
            found[vectorized] = [line for each in files for line in each.read_text().splitlines()]
        else:
            found[vectorized] = [row for each in files for row in parquet.ParquetFile(each).read().to_pylist()]

    assert len(found[True]) == 200
    assert found[True] == found[False]


KNOWN = {
    "int": ["r['id']", "len(r['items'])", "sum(i['n'] for i in r['items'])", "r['items'][0]['n']"],
    "float": ["sum((i['price'] * i['n'] for i in r['items'] if i['sku']), 0.5)", "max(r['scores'])"],
    "str": ["r['tags'][0]", "','.join(r['tags'])", "r['items'][-1]['sku']"],
    "bool": ["any(r['flags'])", "bool(r['items'])", "any('j' in i['sku'] for i in r['items'])", "('old' in r['tags'])"],
    "ints": [
        "[i['n'] for i in r['items']]",
        "[sum(i['marks']) for i in r['items']]",
        "[m for i in r['items'] for m in i['marks']]",
    ],
    "floats": ["r['scores']", "[i['price'] for i in r['items'] if i['n'] > 0]"],
    "strs": ["r['tags']", "[i['sku'] for i in r['items']]"],
}


@pytest.mark.parametrize("types", [TABLE, NARROW], ids=["as they are", "narrow"])
def test_files_of_declared_columns_are_written_from_columns(tmp_path, types, monkeypatch):
    source, asked, found = write_parquet(tmp_path / "orders", orders("declared", 200)), [], {}
    monkeypatch.setattr(arrow_batches, "_array_of_lists", recording(arrow_batches._array_of_lists, asked))
    for vectorized in (True, False):
        env = StreamExecutionEnvironment.create_local_environment(
            1, Configuration().set("pipeline.vectorized", vectorized)
        )
        stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "orders").filter(
            lambda r: r["id"] >= 0
        )
        stream.sink_to(FileSink.for_bulk_format(str(tmp_path / str(vectorized)), ParquetFormat(types)).build())
        env.execute("write")
        files = [each for each in (tmp_path / str(vectorized)).rglob("*.parquet*") if each.is_file()]
        found[vectorized] = pa.concat_tables([parquet.ParquetFile(each).read() for each in files])
        assert bool(asked) is True

    assert found[True].equals(found[False])
    assert None not in asked


def recording(function, results):
    def called(*given):
        results.append(function(*given))
        return results[-1]

    return called


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_give_what_they_give_of_records(tmp_path, seed):
    dice = random.Random(seed)
    records = orders(seed, 300)
    for number in dice.sample(
        range(1, 300), dice.choice((0, 0, 2))
    ):  # the first document tells what they all should be
        records[number] = ODD[dice.choice(list(ODD))](records[number])
    form = dice.choice(("json", "parquet") if any(each["tags"] is None for each in records) else list(FORMATS))
    try:
        source = FORMATS[form](tmp_path / "orders", records)
    except (TypeError, ValueError, AttributeError):  # Avro has no nulls here
        source = write_json(tmp_path / "json", records)
    space = dict(SPACE)
    exec(FunctionWriter(dice, KNOWN).function(), space)
    kind, found = dice.choice(("map", "filter", "flat_map")), []
    for vectorized in (True, False):
        try:
            found.append(outcome(source, lambda stream: getattr(stream, kind)(space["f"]), vectorized))
        except OperatorFailed as error:
            found.append(
                str(error).partition("The traceback")[0].rpartition("Error: ")[2]
            )  # fields may be <not read> before it

    assert found[0] == found[1]
