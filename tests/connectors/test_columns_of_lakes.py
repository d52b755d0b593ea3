"""Tables of Delta and Iceberg as blocks of columns: the rows that there are without, from any row on."""

import random
from datetime import date
from itertools import count

import pytest

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from funken import Configuration, DiscardingSink, StreamExecutionEnvironment, WatermarkStrategy  # noqa: E402
from funken.columnar.expressions import NotVectorizable  # noqa: E402
from funken.columnar.kernels.columns import Columns  # noqa: E402
from funken.connectors import ConnectorContext  # noqa: E402
from funken.connectors.base import Batch  # noqa: E402
from funken.connectors.delta import DeltaSource  # noqa: E402
from funken.connectors.formats.arrow_columns import NOT_READ  # noqa: E402
from funken.connectors.iceberg import IcebergCatalog, IcebergSource  # noqa: E402
from funken.expr.types import atomic_fields  # noqa: E402

PLACE = pa.struct([("city", pa.string()), ("zip", pa.int64())])
SCHEMA = pa.schema([
    ("n", pa.int64()), ("word", pa.string()), ("day", pa.date32()), ("half", pa.float64()), ("place", PLACE),
    ("maybe", pa.int64()), ("tags", pa.list_(pa.string())), ("places", pa.list_(PLACE)),
])  # fmt: skip


def table_of(first, size, nulls=0.0):
    dice = random.Random(first)
    records = [
        {
            "n": n, "word": f"w{n % 5}", "day": date(2026, 11, 1 + n % 3), "half": n / 2,
            "place": {"city": f"c{n % 4}", "zip": n}, "maybe": None if dice.random() < nulls else n,
            "tags": ["a", "é"][: n % 3], "places": [{"city": "x", "zip": z} for z in range(n % 4)],
        }
        for n in range(first, first + size)
    ]  # fmt: skip
    return pa.Table.from_pylist(records, SCHEMA)


@pytest.fixture(params=["delta", "delta, by day", "iceberg"])
def source(request, tmp_path):
    if request.param == "iceberg":
        options = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}"}
        lake = IcebergCatalog("lake", options)
        lake.load().create_namespace("shop")
        table = lake.load().create_table("shop.t", SCHEMA)
        for first in (0, 40):
            table.append(table_of(first, 40, first / 80))
        return IcebergSource(lake, "shop.t")
    path = str(tmp_path / "t")
    deltalake.DeltaTable.create(path, schema=SCHEMA, partition_by=["day"] if "day" in request.param else None)
    for first in (0, 40):
        properties = deltalake.WriterProperties(max_row_group_size=7)
        deltalake.write_deltalake(path, table_of(first, 40, first / 80), mode="append", writer_properties=properties)
    return DeltaSource(path)


def read(source, schema=None, wanted=None, limit=9, start=0):
    """Return the rows, and how many blocks of columns there were; from a row of the first split on."""
    enumerator, reader, found, blocks = source.enumerator(1), source.reader(ConnectorContext("lake", 0)), [], 0
    enumerator.start()
    if schema is not None:
        reader.read_record_columns(schema, wanted)
    for turn in count():
        splits = enumerator.next_splits(0)
        if not splits:
            return found, blocks
        if start and not turn:
            splits = [splits[0].__class__(**{**vars(splits[0]), "row": start}), *splits[1:]]
        reader.add_splits(splits)
        while isinstance(got := reader.poll(limit, 0), Batch):
            blocks += isinstance(got.values, Columns)
            found += got.values.to_list() if isinstance(got.values, Columns) else got.values


@pytest.mark.parametrize("limit", [3, 1000])
@pytest.mark.parametrize("start", [0, 10])
def test_columns_hold_the_rows(source, limit, start):
    schema, (expected, _) = source.record_schema(), read(source, limit=limit, start=start)
    found, blocks = read(source, schema, None, limit, start)
    assert found == expected and len(expected) == 80 - start
    assert blocks
    names = {".".join(schema.names[number] for number in path[:1]) for path, _ in atomic_fields(schema)}
    assert names == {"n", "word", "day", "half", "place", "maybe", "tags", "places"}


@pytest.mark.parametrize(
    "fields", [["n"], ["word", "day"], ["place.zip", "half"], ["maybe"], ["tags"], ["n", "places"], []]
)
def test_only_what_is_wanted_is_read(source, fields):
    schema = source.record_schema()
    names = []
    for path, _ in atomic_fields(schema):
        inner = schema[path[0]]
        names.append(schema.names[path[0]] + (f".{inner.names[path[1]]}" if len(path) > 1 else ""))
    wanted = [number for number, name in enumerate(names) if name in fields]
    (expected, _), (found, blocks) = read(source), read(source, schema, wanted)

    def taken(row):
        return [row["place"]["zip"] if name == "place.zip" else row[name] for name in sorted(fields)]

    assert [taken(row) for row in found] == [taken(row) for row in expected]
    assert blocks
    if "maybe" not in fields:
        assert all(row["maybe"] is NOT_READ for row in found)


def test_programs_read_tables_as_columns(source):
    found = []
    for vectorized in (False, True):
        env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
        rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "lake")
        pairs = rows.filter(lambda row: row["n"] % 3 == 1).map(lambda row: (row["place"]["city"], row["day"], row["n"]))
        pairs.sink_to(DiscardingSink())
        if vectorized:
            plan = env.explain()
            assert "columns: lake: vectorized" in plan
            assert any(
                f"reads 3 of 9 fields: {fields}" in plan for fields in ("n, day, place.city", "n, place.city, day")
            )
        found.append(pairs.execute_and_collect(limit=99))
    assert found[0] == found[1]
    assert len(found[0]) == 27


def test_once_all_fields_are_read_reading_goes_on_at_the_next_row(source):
    """A function has changed, and looks at others from then on."""
    schema, (expected, _) = source.record_schema(), read(source)
    enumerator, reader, found = source.enumerator(1), source.reader(ConnectorContext("lake", 0)), []
    enumerator.start()
    reader.read_record_columns(schema, [0])
    while splits := enumerator.next_splits(0):
        reader.add_splits(splits)
        while isinstance(got := reader.poll(3, 0), Batch):
            found += got.values.to_list() if isinstance(got.values, Columns) else got.values
            if len(found) == 6:
                reader.read_record_columns(schema, None)
    assert [row["n"] for row in found] == [row["n"] for row in expected]
    assert found[6:] == expected[6:] and all(row["word"] is NOT_READ for row in found[:6])


def test_files_of_before_a_column_was_added_give_rows(tmp_path):
    path = str(tmp_path / "t")
    for n in range(3):
        more = {"more": ["x"]} if n == 2 else {}
        deltalake.write_deltalake(path, pa.table({"n": [n], **more}), mode="append", schema_mode="merge")
    source = DeltaSource(path)
    schema, (expected, _) = source.record_schema(), read(source)
    assert schema.names == ("n", "more")
    assert read(source, schema) == (expected, 1)
    assert sorted(expected, key=lambda row: row["n"]) == [{"n": 0}, {"n": 1}, {"n": 2, "more": "x"}]
    found, blocks = read(source, schema, [0])
    assert sorted(row["n"] for row in found) == [0, 1, 2] and blocks == 1


def test_a_table_that_is_not_there_has_no_columns(tmp_path):
    with pytest.raises(NotVectorizable, match="cannot be inspected"):
        DeltaSource(str(tmp_path / "none")).record_schema()
    lake = IcebergCatalog(
        "lake", {"type": "sql", "uri": f"sqlite:///{tmp_path}/l.db", "warehouse": f"file://{tmp_path}"}
    )
    with pytest.raises(NotVectorizable, match="cannot be inspected"):
        IcebergSource(lake, "shop.none").record_schema()
