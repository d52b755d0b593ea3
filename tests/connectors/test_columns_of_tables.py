"""Columns into lake tables, into DataFrames and out of these: what the same records as rows give."""

import datetime
import random
from collections import namedtuple
from decimal import Decimal
from functools import partial

import pyarrow as pa
import pytest
from pyarrow import fs, parquet

from funken import DiscardingSink, NumberSequenceSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.columnar.expressions import NotVectorizable
from funken.columnar.kernels.columns import Columns, columns_of
from funken.columnar.records import NOT_READ, made_of_fields
from funken.connectors.base import ConnectorContext
from funken.connectors.dataframe import RowsSource
from funken.connectors.dataframes import SparkSink
from funken.connectors.formats.arrow_columns import schema_of_type
from funken.connectors.lake import ParquetFiles
from funken.errors import SinkNotWritable, ValueDoesNotFit
from funken.expr.types import DICT, FLOAT, INT, NAMED_TUPLE, ROW, STR, Atomic, Object, Optional, Record
from funken.types.row import Row

SALE = pa.schema([
    ("item", pa.string()), pa.field("n", pa.int32(), nullable=False), ("price", pa.float64()), ("day", pa.date32()),
])  # fmt: skip
Sale = namedtuple("Sale", "item n price day")
KINDS = [STR, INT, FLOAT, Optional(Object("date"))]
VALUES = [["tea", "jam", ""], [1, 0, -7], [0.5, -0.0, float("inf")], [datetime.date(2026, 11, 27), None]]
SHAPES = {
    "tuples": tuple(KINDS),
    "dicts": Record(KINDS, DICT, Sale._fields),
    "named tuples": Record(KINDS, NAMED_TUPLE, Sale._fields, Sale),
    "rows": Record(KINDS, ROW, Sale._fields),
    "in another order": Record(KINDS[::-1], DICT, Sale._fields[::-1]),
    "with a field more": Record([*KINDS, INT], DICT, (*Sale._fields, "more")),
    "with a field less": Record(KINDS[:3], DICT, Sale._fields[:3]),
    "of another type": Record([INT, *KINDS[1:]], DICT, Sale._fields),
    "too great": Record(KINDS, DICT, Sale._fields),
    "one value": INT,
}


def block_of(shape, dice):
    schema = SHAPES[shape]
    values = dict(zip(Sale._fields, VALUES, strict=True)) | {"more": [7]}
    if shape == "of another type":
        values["item"] = [5]
    if shape == "too great":
        values["n"] = [1 << 40]
    names = getattr(schema, "names", Sale._fields)
    rows = [tuple(dice.choice(values[name]) for name in names) for _ in range(dice.choice([1, 5]))]
    if isinstance(schema, Atomic):
        return columns_of([row[1] for row in rows], schema)
    return columns_of(
        made_of_fields(schema, list(map(list, zip(*rows, strict=True)))) if isinstance(schema, Record) else rows, schema
    )


def outcome(add):
    try:
        return add()
    except (ValueDoesNotFit, SinkNotWritable) as error:
        return str(error)


def written(blocks, folder, partition_by):
    folder.mkdir()
    files = ParquetFiles(fs.LocalFileSystem(), str(folder), SALE, partition_by, "the sink")
    for block in blocks:
        files.add(block)
    rows = []
    for each in files.take():
        rows += [{**row, **each.partition} for row in parquet.ParquetFile(folder / each.path).read().to_pylist()]
    return sorted(map(repr, ({name: row[name] for name in SALE.names} for row in rows)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("partition_by", [[], ["item"]])
def test_lake_tables_take_columns_for_what_their_records_are(tmp_path, shape, partition_by):
    dice = random.Random(f"{shape} {partition_by}")
    blocks = [block_of(shape, dice) for _ in range(5)]
    given = {"columns": blocks, "rows": [block.rows()[0] for block in blocks]}
    found = [outcome(partial(written, each, tmp_path / name, partition_by)) for name, each in given.items()]
    assert found[0] == found[1]
    assert isinstance(found[0], str) == (shape in ("with a field less", "of another type", "too great", "one value"))


@pytest.mark.parametrize("schema", [SALE, None], ids=["declared", "open"])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape not in ("of another type", "too great")])
def test_dataframes_are_given_columns_for_what_their_records_are(tmp_path, shape, schema):
    dice = random.Random(shape)
    blocks = [block_of(shape, dice) for _ in range(3)]
    found = []
    for name, given in (("columns", blocks), ("rows", [block.rows()[0] for block in blocks])):
        sink = SparkSink.for_each_batch(lambda frame, batch: None, schema, str(tmp_path / name))

        def add(sink=sink, given=given):
            writer = sink.writer(ConnectorContext("out", 0, 1))
            for each in given:
                writer.write(each, None, now=0)
            (file,) = writer.prepare_commit(1, end_of_input=False)
            table = parquet.ParquetFile(file.hidden).read()
            return table.schema, list(map(repr, table.to_pylist()))

        found.append(outcome(add))
    assert found[0] == found[1]
    if schema is not None:
        assert isinstance(found[0], str) == (shape in ("with a field more", "one value"))


ARRAYS = {
    "word": pa.array(["to", "be", "or"]),
    "n": pa.array([1, 2, 3], pa.int32()),
    "price": pa.array([0.5, 1.5, 2.0], pa.float32()),
    "at": pa.array([0, 1, 2], pa.timestamp("us", "UTC")),
    "of": pa.array([Decimal("1.50")] * 3),
    "tags": pa.array([["a"], [], ["b"]]),
    "maybe": pa.array([1, None, 3]),
    "lines": pa.array([[{"sku": "a", "n": [1]}], [], [{"sku": "b", "n": []}, {"sku": "", "n": [2, 3]}]]),
}
FRAME = Record([schema_of_type(array.type) for array in ARRAYS.values()], ROW, tuple(ARRAYS))


def fed(columns):
    source = RowsSource(tuple(ARRAYS), streaming=False)
    reader, ended = source.reader(ConnectorContext("rows", 0, 1)), []
    if columns is not None:
        reader.read_record_columns(FRAME, columns)
    for _ in range(2):
        reader.feed(list(ARRAYS.values()), lambda: ended.append(True))
    reader.end()
    found = []
    while hasattr(got := reader.poll(2, 0), "values"):
        found.append(got.values)
    assert len(ended) == 2
    return found


@pytest.mark.parametrize("wanted", [[0], [1, 2], [3, 4], [0, 1, 2, 3, 4], [5], [7], [5, 7], []])
def test_rows_of_a_dataframe_stay_columns(wanted):
    rows, blocks = fed(None), fed(wanted)
    assert all(isinstance(block, Columns) for block in blocks)
    assert [len(block) for block in blocks] == [len(each) for each in rows] == [2, 1, 2, 1]
    names = list(ARRAYS)
    for block, some in zip(blocks, rows, strict=True):
        for one, other in zip(block.to_list(), some, strict=True):
            assert type(one) is Row
            assert [repr(one[names[number]]) for number in wanted] == [repr(other[names[number]]) for number in wanted]
            assert all(one[name] is NOT_READ for number, name in enumerate(names) if number not in wanted)


def test_spark_may_leave_out_what_is_not_read():
    reader = RowsSource(tuple(ARRAYS), streaming=False).reader(ConnectorContext("rows", 0, 1))
    reader.read_record_columns(FRAME, [1, 6])
    reader.feed([ARRAYS["n"][:1], ARRAYS["maybe"][:1]], lambda: None)
    reader.feed([ARRAYS["n"], ARRAYS["maybe"]], lambda: None)
    block, rows = reader.poll(9, 0).values, reader.poll(9, 0).values
    assert (isinstance(block, Columns), isinstance(rows, list)) == (True, True)
    for each in (block.to_list(), rows):
        assert all(row["word"] is NOT_READ for row in each)
    assert [(row["n"], row["maybe"]) for row in rows] == [(1, 1), (2, None), (3, 3)]


PLACE = pa.struct([("city", pa.string()), ("zip", pa.int64())])
USER = pa.struct([("id", pa.int64()), ("at", PLACE)])
NESTED = Record((schema_of_type(USER), INT), ROW, ("user", "n"))


@pytest.mark.parametrize("wanted", [None, [0], [1, 3], [3], [0, 1, 2, 3]])
@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("null", [None, "user", "at", "zip"])
def test_structs_of_a_dataframe_are_records_within_rows(wanted, pruned, null):
    users = [{"id": n, "at": {"city": f"c{n}", "zip": n}} for n in range(5)]
    if null == "user":
        users[2] = None
    elif null is not None:
        {"at": users[2], "zip": users[3]["at"]}[null][null] = None
    arrays = [pa.array(users, USER), pa.array(range(5))]
    reader = RowsSource(("user", "n"), streaming=False).reader(ConnectorContext("rows", 0, 1))
    reader.read_record_columns(NESTED, wanted)
    fields = {0, 1} if wanted is None else {0 if number < 3 else 1 for number in wanted}
    fed = fields if pruned else {0, 1}
    reader.feed([arrays[number] for number in sorted(fed)], lambda: None)
    found = reader.poll(9, 0).values

    read = {0, 1, 2, 3} if wanted is None else set(wanted)
    if read & {None: set(), "user": {0, 1, 2}, "at": {1, 2}, "zip": {2}}[null]:
        assert found == [
            Row(user=user if 0 in fed else NOT_READ, n=n if 1 in fed else NOT_READ) for n, user in enumerate(users)
        ]
        return
    assert isinstance(found, Columns)
    for row, user, n in zip(found.to_list(), users, range(5), strict=True):
        within = row["user"]
        leaves = [within["id"], within["at"]["city"], within["at"]["zip"], row["n"]]
        place = (user and user["at"]) or {"city": "", "zip": 0}
        right = [user and user["id"], place["city"], place["zip"], n]
        assert leaves == [right[number] if number in read else NOT_READ for number in range(4)]


def test_a_null_in_a_column_that_is_read_makes_records():
    assert fed([6]) == fed(None)


def test_a_dataframe_without_types_or_with_two_columns_of_a_name_is_read_in_rows():
    for source in (RowsSource(("n",), False), RowsSource(("n", "n"), False, object())):
        with pytest.raises(NotVectorizable, match="two of one name"):
            source.record_schema()


def test_explain_says_that_a_sink_is_given_columns():
    env = StreamExecutionEnvironment.create_local_environment(1)
    numbers = env.from_source(NumberSequenceSource(0, 9), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(lambda n: (n, n % 7)).sink_to(SparkSink.for_each_batch(lambda frame, batch: None)).name("frames")
    numbers.sink_to(DiscardingSink())
    assert "columns: frames: vectorized" in env.explain()
