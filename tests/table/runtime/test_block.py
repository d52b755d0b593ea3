"""Blocks of tables on their way: as bytes, as records, and the keys of both."""

import datetime
import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from funken.columnar.block import RowBlock
from funken.runtime.exchange.gate import BlockKind, decode_records, pack_header
from funken.state.keygroups import key_group_of
from funken.table.runtime.block import TableBlock, as_table, concatenated, plain_array, plain_values
from funken.table.runtime.exchange import KeyOf, key_tuples


def moment(*parts):
    return datetime.datetime(*parts)  # noqa: DTZ001 - a TIMESTAMP has no zone


NESTED = pa.struct([("at", pa.timestamp("us")), ("items", pa.list_(pa.date32()))])
COLUMNS = {
    "n": pa.array([1, None, 3], pa.int32()),
    "at": pa.array([moment(2024, 1, 2, 3, 4, 5, 6), None, moment(1969, 1, 1)], pa.timestamp("us")),
    "nanos": pa.array([1, None, -1], pa.timestamp("ns")),
    "ltz": pa.array([0, 1, None], pa.timestamp("us", tz="UTC")),
    "day": pa.array([0, None, 20_000], pa.date32()),
    "time": pa.array([0, None, 86_399_999], pa.time32("ms")),
    "price": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(10, 2)),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "row": pa.array([{"at": moment(2024, 1, 1), "items": [datetime.date(2024, 1, 1), None]}, None,
                     {"at": None, "items": None}], NESTED),
    "rows": pa.array([[{"at": None, "items": []}], None, []], pa.list_(NESTED)),
    "bytes": pa.array([b"a", None, b""], pa.binary()),
    "x": pa.array([1.5, None, float("inf")], pa.float64()),
}  # fmt: skip
BLOCK = TableBlock(pa.record_batch(COLUMNS), np.array([0, 1, 3], np.int8), np.array([1, 2, 3]))


@pytest.mark.parametrize("name", COLUMNS)
def test_plain_values_make_the_same_column(name):
    column = COLUMNS[name]
    assert plain_array(plain_values(column), column.type).equals(column)
    assert plain_array(plain_values(column[1:]), column.type).equals(column[1:])


def same(one, other):
    assert one.batch.equals(other.batch)
    assert one.kind_list() == other.kind_list()
    assert [*(one.timestamps if one.timestamps is not None else ())] == [
        *(other.timestamps if other.timestamps is not None else ())
    ]


def test_a_part_of_a_block_travels_alone():
    part = BLOCK[1:]
    content = b"\xc1" + pickle.dumps(part, 5)
    arrived = decode_records(pack_header(BlockKind.DATA, 0, 0, 0, 0, 0, 0.0, content))
    same(arrived, part)
    assert len(pickle.dumps(TableBlock(pa.record_batch({"n": list(range(10_000))}))[:1])) < 2_000


def test_blocks_are_put_together():
    same(concatenated([BLOCK[:1], BLOCK[1:2], BLOCK[2:]]), BLOCK)


def test_a_block_that_became_records_is_made_again():
    kept = {name: column for name, column in COLUMNS.items() if name != "nanos"}  # Python's datetimes have microseconds
    block = TableBlock(pa.record_batch(kept), BLOCK.kinds)
    same(as_table(RowBlock(*block.rows()), block.schema), block)


@pytest.mark.parametrize("columns", [(0,), (1, 4), (3,), (6,), (8, 9), (11,)])
def test_a_record_has_the_key_of_its_row(columns):
    keys = key_tuples(BLOCK.batch, columns)
    selector = KeyOf(columns, BLOCK.schema)
    rows, _ = BLOCK.rows()
    assert [selector(row) for row in rows] == keys
    assert all(0 <= key_group_of(key, 128) < 128 for key in keys)
