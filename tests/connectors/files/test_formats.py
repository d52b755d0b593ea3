"""Formats of files: what is written is what is read, however it is cut into splits; and what does not fit is said."""

import bz2
import gzip
import lzma
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc, parquet

from funken import BucketAssigner, Encoder, FileSink, FileSource, Row, StreamFormat, Types
from funken.connectors import (
    CommitRequest,
    CommitterContext,
    ConnectorContext,
    CsvSchema,
    DebeziumJsonSchema,
    JsonSchema,
    MalformedRecord,
    MalformedRecordPolicy,
)
from funken.connectors.files.arrow_files import OrcFormat, ParquetFormat
from funken.connectors.files.avro_files import AvroFormat
from funken.connectors.files.csv_files import CsvReaderFormat, infer_csv
from funken.connectors.files.file_format import FileSplit
from funken.connectors.files.line_files import CompressedRows, LineEncoder, LineFormat
from funken.errors import InvalidConfiguration, InvalidProgram, SinkNotWritable, SourceNotReadable
from funken.io.filesystem import FileStatus
from funken.testing import check_sink, check_source


class Sale(NamedTuple):
    item: str
    n: int
    price: float | None = None


@dataclass(frozen=True)
class Dated:
    item: str
    n: int
    price: float | None = None
    day: str = ""


SALES = [Sale(f"tea {n}", n, None if n % 3 else n / 2) for n in range(60)]


def source(format, *paths, **settings):
    builder = FileSource.for_format(format, *paths)
    for name, value in settings.items():
        builder = getattr(builder, name)(value)
    return builder.build()


def sink(format, folder):
    start = FileSink.for_row_format if isinstance(format, Encoder) else FileSink.for_bulk_format
    return start(folder, format).with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def write(format, folder, blocks):
    """Write one part file of so many blocks, and commit it."""
    out = sink(format, folder)
    writer = out.writer(ConnectorContext("out"))
    for block in blocks:
        writer.write(block, None, 0)
    out.committer(CommitterContext("out")).commit(
        [CommitRequest(file) for file in writer.prepare_commit(1, end_of_input=True)]
    )
    writer.close()


def blocks(records, size=7):
    return [records[at : at + size] for at in range(0, len(records), size)]


FORMATS = {
    "parquet": (ParquetFormat(Sale), ParquetFormat(Sale)),
    "orc": (OrcFormat(Sale), OrcFormat(Sale)),
    "avro": (AvroFormat(record_type=Sale), AvroFormat(record_type=Sale)),
    "csv": (CsvReaderFormat(CsvSchema(Sale), header=True).encoder(), CsvReaderFormat(CsvSchema(Sale), header=True)),
    "csv lines": (LineEncoder(CsvSchema(Sale)), LineFormat(CsvSchema(Sale))),
    "json lines": (LineEncoder(JsonSchema()), LineFormat(JsonSchema(Dated))),
    "json lines, zstd": (CompressedRows(LineEncoder(JsonSchema()), "zstd"), LineFormat(JsonSchema(Dated))),
    "csv, gzip": (CompressedRows(CsvReaderFormat(CsvSchema(Sale)).encoder(), "gzip"), CsvReaderFormat(CsvSchema(Sale))),
}


def expected(name):
    return [Dated(*sale) for sale in SALES] if "json" in name else SALES


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_is_read(job, tmp_path, name):
    out, into = FORMATS[name]
    records = [Dated(*sale) for sale in SALES] if "json" in name else SALES
    write(out, tmp_path, blocks(records))

    assert job(source(into, tmp_path)).run() == expected(name)


@pytest.mark.parametrize("name", FORMATS)
def test_sources_of_every_format_keep_the_contract(tmp_path, name):
    out, into = FORMATS[name]
    records = [Dated(*sale) for sale in SALES] if "json" in name else SALES
    for at in range(0, 60, 20):
        write(out, tmp_path, blocks(records[at : at + 20]))

    check_source(source(into, tmp_path, set_split_bytes=200), expected(name), seeds=10)


@pytest.mark.parametrize("name", FORMATS)
def test_sinks_of_every_format_keep_the_contract(tmp_path, job, name):
    _, into = FORMATS[name]

    def make(seed):
        folder = tmp_path / str(seed)
        out = FORMATS[name][0]
        if name == "json lines":
            out = LineEncoder(JsonSchema())
        return Numbered(sink(out, folder)), lambda: [str(record.n) for record in job(source(into, folder)).run()] if any(
            path.is_file() and not path.name.startswith(".") for path in folder.rglob("*")
        ) else []  # fmt: skip

    check_sink(make, seeds=6)


class Numbered:
    """A sink of sales that the kit gives numbers."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def writer(self, context):
        inner = self._inner.writer(context)
        write = inner.write
        inner.write = lambda values, timestamps, now: write([Sale("x", int(n)) for n in values], timestamps, now)
        return inner


@settings(max_examples=10, deadline=None)
@given(size=st.integers(500, 4000), groups=st.integers(1, 9))
@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_every_row_is_in_one_split(job, tmp_path_factory, kind, size, groups):
    folder = tmp_path_factory.mktemp("splits")
    table = pa.Table.from_pylist([sale._asdict() for sale in SALES], schema=pa.schema(
        [("item", pa.string()), ("n", pa.int64()), ("price", pa.float64())]
    ))  # fmt: skip
    if kind == "parquet":
        parquet.write_table(table, folder / "a.parquet", row_group_size=groups)
        format = ParquetFormat(Sale)
    elif kind == "orc":
        orc.write_table(table, folder / "a.orc", stripe_size=1, batch_size=groups)
        format = OrcFormat(Sale)
    else:
        import fastavro

        schema = AvroFormat(record_type=Sale)
        with open(folder / "a.avro", "wb") as file:
            from funken.connectors.formats.avro_schema import avro_of

            fastavro.writer(file, avro_of(Sale), [sale._asdict() for sale in SALES], sync_interval=groups * 10)
        format = schema

    assert sorted(job(source(format, folder, set_split_bytes=size), parallelism=2).run()) == sorted(SALES)


def test_only_the_wanted_columns_are_read_and_missing_ones_have_their_defaults(job, tmp_path):
    write(ParquetFormat(Sale), tmp_path, [SALES[:2]])

    assert job(source(ParquetFormat(fields=("n",)), tmp_path)).run() == [{"n": 0}, {"n": 1}]
    assert job(source(ParquetFormat(Dated), tmp_path)).run()[1] == Dated("tea 1", 1, None, "")
    row = Types.ROW_NAMED(["n", "gone"], [Types.DOUBLE(), Types.STRING()])
    assert job(source(ParquetFormat(row), tmp_path)).run()[1] == Row(n=1.0, gone=None)


@pytest.mark.parametrize("format", [ParquetFormat, OrcFormat])
def test_a_column_that_became_another_type_fails_with_its_name(job, tmp_path, format):
    write(format(), tmp_path, [[{"item": "tea", "n": "many"}]])

    with pytest.raises(SourceNotReadable, match="column 'n' is string, and was declared as int64"):
        job(source(format(Sale), tmp_path)).run()


def test_a_required_column_that_is_not_there_fails_with_its_name(job, tmp_path):
    write(ParquetFormat(), tmp_path, [[{"item": "tea"}]])

    with pytest.raises(SourceNotReadable, match="it has no column 'n', but 'item'"):
        job(source(ParquetFormat(Sale), tmp_path)).run()


@pytest.mark.parametrize("format", [ParquetFormat(Sale), OrcFormat(Sale), AvroFormat(record_type=Sale)])
def test_a_file_of_another_kind_or_cut_off_is_named(job, tmp_path, format):
    (tmp_path / "bad").write_bytes(b"this is nothing of that kind")

    with pytest.raises(SourceNotReadable, match=rf"{tmp_path}/bad cannot be read"):
        job(source(format, tmp_path)).run()


def test_records_that_do_not_fit_the_columns_fail_the_sink(tmp_path):
    writer = sink(ParquetFormat(Sale), tmp_path).writer(ConnectorContext("out"))
    writer.write([Sale("tea", "many")], None, 0)

    with pytest.raises(SinkNotWritable, match=r"^out: ParquetFormat: a record does not fit the columns"):
        writer.prepare_commit(1, end_of_input=True)
    writer.close()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_many_types_survive_each_format(job, tmp_path):
    declared = Types.ROW_NAMED(
        ["day", "at", "price", "tags", "raw", "yes"],
        [
            Types.SQL_DATE(), Types.SQL_TIMESTAMP(), Types.BIG_DEC(), Types.LIST(Types.INT()),
            Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.BOOLEAN(),
        ],
    )  # fmt: skip
    there = Row("day", "at", "price", "tags", "raw", "yes")
    rows = [
        there(
            date(2026, 11, 22),
            datetime.fromisoformat("2026-11-22T01:02:03.004"),
            Decimal("1.500000000000000000"),
            [1, 2],
            b"\0\n",
            True,
        ),
        there(None, None, None, None, None, None),
    ]
    for number, (out, into) in enumerate(
        (
            (ParquetFormat(declared), ParquetFormat(declared)),
            (AvroFormat(record_type=declared), AvroFormat(record_type=declared)),
            (LineEncoder(CsvSchema(declared)), LineFormat(CsvSchema(declared))),
        )
    ):
        folder = tmp_path / str(number)
        write(out, folder, [rows])

        assert job(source(into, folder)).run() == rows


@pytest.mark.parametrize("format", ["parquet", "avro"])
def test_maps_are_dicts_wherever_they_are(job, tmp_path, format):
    counts = Types.MAP(Types.STRING(), Types.LONG())
    declared = Types.ROW_NAMED(
        ["counts", "listed", "nested"],
        [counts, Types.LIST(counts), Types.MAP(Types.STRING(), counts)],
    )
    there = Row("counts", "listed", "nested")
    rows = [
        there({"a": 1, "b": 2}, [{"c": 3}, {}], {"x": {"d": 4}}),
        there({}, [], {}),
        there(None, None, None),
    ]
    made = ParquetFormat(declared) if format == "parquet" else AvroFormat(record_type=declared)
    write(made, tmp_path, [rows])

    assert job(source(made, tmp_path)).run() == rows
    undeclared = ParquetFormat() if format == "parquet" else AvroFormat()
    first, *_ = job(source(undeclared, tmp_path)).run()
    assert (first["counts"], first["listed"]) == ({"a": 1, "b": 2}, [{"c": 3}, {}])
    assert first["nested"] == {"x": {"d": 4}}


@dataclass
class Tree:
    n: int
    left: "Tree | None" = None


class Item(NamedTuple):
    name: str
    n: int


@dataclass
class Order:
    id: int
    first: Item | None
    items: list[Item]
    by_name: dict[str, Item]


ROWS = Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.LONG()])
ORDERS = Types.ROW_NAMED(
    ["id", "first", "items", "by_name"], [Types.LONG(), ROWS, Types.LIST(ROWS), Types.MAP(Types.STRING(), ROWS)]
)


@pytest.mark.parametrize("name", ["parquet", "orc", "avro", "json"])
@pytest.mark.parametrize("kind", ["classes", "rows"])
def test_records_within_records_are_of_their_types(job, tmp_path, name, kind):
    declared = Order if kind == "classes" else ORDERS
    outer, inner = (Order, Item) if kind == "classes" else (Row(*ORDERS.get_field_names()), Row("name", "n"))
    orders = [outer(1, inner("tea", 3), [inner("jam", 1)], {"x": inner("oil", 2)}), outer(2, None, [], {})]
    into = {
        "parquet": lambda: ParquetFormat(declared),
        "orc": lambda: OrcFormat(declared),
        "avro": lambda: AvroFormat(record_type=declared),
        "json": lambda: LineFormat(JsonSchema(declared)),
    }[name]()
    write(LineEncoder(JsonSchema(declared)) if name == "json" else into, tmp_path, [orders])

    assert job(source(into, tmp_path)).run() == orders


def test_a_record_within_one_of_its_own_type_stays_a_dict():
    assert JsonSchema(Tree).deserialize(b'{"n": 1, "left": {"n": 2}}') == Tree(1, {"n": 2})


# ---- rows of text


def test_quoted_line_breaks_comments_and_null_literals(job, tmp_path):
    (tmp_path / "a.csv").write_text('# it\'s "here\ntea|"1\n#2"\n\n#no\njam|NA\n')
    schema = CsvSchema(Types.TUPLE([Types.STRING(), Types.STRING()]), "|", comment="#", null_literal="NA")

    assert job(source(CsvReaderFormat(schema), tmp_path)).run() == [("tea", "1\n#2"), ("jam", None)]


@pytest.mark.parametrize("format", ["csv", "lines"])
def test_malformed_rows_are_failed_skipped_or_emitted(job, tmp_path, format):
    (tmp_path / "a.csv").write_text("tea,3,\njam,x,\n\nmilk\nrum,1,\n")
    where = {"csv": ("row 2", "row 4"), "lines": ("at byte 7", "at byte 15")}[format]

    def reading(policy):
        return (CsvReaderFormat if format == "csv" else LineFormat)(CsvSchema(Sale), malformed=policy)

    with pytest.raises(Exception, match=rf"a.csv {where[0]}: .*field 'n': 'x' is no whole number"):
        job(source(reading(MalformedRecordPolicy.FAIL), tmp_path)).run()
    good = [Sale("tea", 3), Sale("rum", 1)]
    assert job(source(reading(MalformedRecordPolicy.SKIP), tmp_path)).run() == good
    found = job(source(reading(MalformedRecordPolicy.EMIT), tmp_path)).run()
    bad = [record for record in found if isinstance(record, MalformedRecord)]
    assert [record for record in found if isinstance(record, Sale)] == good
    assert [(record.message, record.where.removeprefix(f"{tmp_path}/a.csv ")) for record in bad] == [
        (b"jam,x,", where[0]), (b"milk", where[1]),
    ]  # fmt: skip


def test_a_header_finds_columns_by_their_names(job, tmp_path):
    (tmp_path / "a.csv").write_text("\ufeffprice,more,n,item\n0.5,x,3,tea\n")
    (tmp_path / "b.csv").write_text("price,item\n")
    format = CsvReaderFormat(CsvSchema(Sale), header=True)

    assert job(source(format, tmp_path / "a.csv")).run() == [Sale("tea", 3, 0.5)]
    with pytest.raises(SourceNotReadable, match="its header has no column 'n', but 'price', 'item'"):
        job(source(format, tmp_path / "b.csv")).run()


def test_malformed_lines_in_large_files_cost_no_others(tmp_path):
    lines = [b'{"item": "x", "n": %d}' % n if n % 7 else b"{" for n in range(200)]
    (tmp_path / "a.json").write_bytes(b"\n\n".join(lines) + b"\n")
    into = source(LineFormat(JsonSchema(Sale), MalformedRecordPolicy.SKIP), tmp_path, set_split_bytes=300)

    check_source(into, [Sale("x", n) for n in range(200) if n % 7], seeds=20)


def test_a_line_with_several_records_is_never_read_twice(tmp_path):
    change = '{"op": "u", "before": {"n": %d}, "after": {"n": %d}}\n{}\n'
    (tmp_path / "a.json").write_text("".join(change % (n, n + 1000) for n in range(40)))
    into = source(LineFormat(Numbers(), MalformedRecordPolicy.SKIP), tmp_path, set_split_bytes=500)

    check_source(into, [*range(40), *range(1000, 1040)], seeds=30)


class Numbers(DebeziumJsonSchema):
    def deserialize_all(self, message):
        return [change.value["n"] for change in super().deserialize_all(message)]


def test_the_columns_of_a_file_are_found_out(job, tmp_path):
    text = "id,n,price,ok,day,at,empty\n007,1,2,true,2026-11-22,2026-11-22T01:02:03,\n008,,2.5,false,2026-11-23,,\n"
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    found = infer_csv(tmp_path / "a.csv.gz")

    kinds = ["String", "Long", "Double", "Boolean", "DateTypeInfo", "TimestampTypeInfo", "String"]
    assert list(map(repr, found.schema.record_type.get_field_types())) == kinds
    assert job(source(found, tmp_path)).run()[0][0] == "007"
    (tmp_path / "none.csv").touch()
    with pytest.raises(SourceNotReadable, match=r"none.csv' cannot be determined: it has no rows; declare them"):
        infer_csv(tmp_path / "none.csv")


# ---- paths


def test_every_compression_is_undone(job, tmp_path):
    text = "".join(f"{n}\n" for n in range(1000)).encode()
    (tmp_path / "a.gz").write_bytes(gzip.compress(text))
    (tmp_path / "b.bz2").write_bytes(bz2.compress(text))
    (tmp_path / "c.xz").write_bytes(lzma.compress(text))
    with pa.OSFile(str(tmp_path / "d.zst"), "wb") as file, pa.CompressedOutputStream(file, "zstd") as stream:
        stream.write(text)

    assert job(source(StreamFormat(), tmp_path)).run() == [str(n) for n in range(1000)] * 4


def test_a_zstandard_file_that_is_cut_off_fails(job, tmp_path):
    stream = pa.BufferOutputStream()
    with pa.CompressedOutputStream(stream, "zstd") as compressed:
        compressed.write(bytes(range(256)) * 999)
    (tmp_path / "a.zst").write_bytes(stream.getvalue().to_pybytes()[:-9])

    with pytest.raises(SourceNotReadable, match=r"a\.zst cannot be read: .*[Tt]runcated"):
        job(source(StreamFormat("latin-1"), tmp_path)).run()


def test_patterns_choose_files(job, tmp_path):
    for name in ("dt=1/a.txt", "dt=2/b.txt", "dt=2/deep/c.txt", "x=1/d.txt", "[e].txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")

    def read(pattern):
        return sorted(job(source(StreamFormat(), f"{tmp_path}/{pattern}")).run())

    assert read("dt=*") == ["dt=1/a.txt", "dt=2/b.txt", "dt=2/deep/c.txt"]
    assert read("dt=?/*.txt") == ["dt=1/a.txt", "dt=2/b.txt"]
    assert read("**/c.txt") == ["dt=2/deep/c.txt"]
    assert read("[e].txt") == ["[e].txt"]
    with pytest.raises(SourceNotReadable, match="holds no files"):
        read("none-*")


@pytest.mark.parametrize("kind", ["dict", "row", "dataclass"])
def test_folders_give_fields(job, tmp_path, kind):
    write(ParquetFormat(Sale), tmp_path / "day=mon/hour=07", [SALES[:1]])
    types = {"dict": None, "row": Types.ROW_NAMED(["n"], [Types.INT()]), "dataclass": Dated}[kind]
    fields = {"day": Types.STRING()} if kind == "dataclass" else {"day": str, "hour": Types.INT()}
    (found,) = job(source(ParquetFormat(types), tmp_path, set_partition_fields=fields)).run()

    assert (
        found
        == {
            "dict": {"item": "tea 0", "n": 0, "price": 0.0, "day": "mon", "hour": 7},
            "row": Row(n=0, day="mon", hour=7),
            "dataclass": Dated("tea 0", 0, 0.0, "mon"),
        }[kind]
    )


def test_fields_that_are_not_in_the_path_or_no_field_are_refused(job, tmp_path):
    write(ParquetFormat(Sale), tmp_path / "hour=x", [SALES[:1]])

    for fields, message in (({"dt": str}, r"no folder dt=\.\.\."), ({"hour": int}, "folder hour=x has no value")):
        with pytest.raises(SourceNotReadable, match=message):
            job(source(ParquetFormat(), tmp_path, set_partition_fields=fields)).run()
    with pytest.raises(InvalidProgram, match="a field in a path cannot be"):
        source(ParquetFormat(), tmp_path, set_partition_fields={"dt": list})


def test_what_cannot_work_is_refused_when_it_is_described(tmp_path):
    for wrong in (
        lambda: ParquetFormat(Sale, fields=("n",)),
        lambda: ParquetFormat(int),
        lambda: CsvSchema(Types.ROW_NAMED(["a"], [Types.MAP(Types.INT(), Types.INT())])),
        lambda: CsvSchema(Sale, delimiter="||"),
        lambda: AvroFormat("{}"),
    ):
        with pytest.raises(InvalidProgram):
            wrong()
    with pytest.raises(InvalidConfiguration, match="pass schema or record_type"):
        sink(AvroFormat(), tmp_path).writer(ConnectorContext("out")).write([{"n": 1}], None, 0)


def test_a_split_of_avro_between_two_markers_is_empty(tmp_path):
    write(AvroFormat(record_type=Sale), tmp_path, [SALES])
    (path,) = tmp_path.iterdir()
    size = path.stat().st_size
    with open(path, "rb") as file:
        reader = AvroFormat().reader(
            file, FileSplit("", FileStatus(str(path), size, 0), size - 40, size - 30), ConnectorContext("in")
        )
        assert list(reader.next()) == []
