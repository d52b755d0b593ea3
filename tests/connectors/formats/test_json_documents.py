"""Documents are what ``json.loads`` makes of them, to the type and the last digit, also where msgspec parses them."""

import json
import random
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from funken import (
    BucketAssigner,
    Configuration,
    FileSink,
    FileSource,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from funken.columnar.kernels.columns import Column, Columns, columns_of
from funken.connectors import JsonSchema
from funken.connectors.files.line_files import CompressedRows, LineEncoder, LineFormat
from funken.connectors.formats.json_schema import documents_of
from funken.expr.types import (
    BOOL,
    DATACLASS,
    DICT,
    FLOAT,
    INT,
    NAMED_TUPLE,
    NONE,
    NUMBER,
    ROW,
    STR,
    Optional,
    Record,
    Tuple,
)
from tests.support.traced.records import random_records

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
NUMBERS = st.from_regex(rb"\A-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?\Z")
PIECES = st.lists(
    st.sampled_from(
        [*'{}[]",:01.eE+-\\u \t\r\n', "NaN", "Infinity", "null", "true", '"a"', "\x00", "\x7f", "é", "\ufeff"]
    ),
    max_size=8,
).map(lambda pieces: "".join(pieces).encode())


def outcome(parse, message):
    """Return what is parsed, in a form that tells types apart, or the error."""
    try:
        return repr(parse(message))
    except Exception as error:  # noqa: BLE001 - compared
        return type(error), str(error)


@settings(max_examples=300)
@given(DOCUMENTS.map(lambda document: json.dumps(document).encode()) | NUMBERS | PIECES | st.binary(max_size=6))
@example(b"18446744073709551616")
@example(b"-0")
@example(b'{"a": 1, "a": 2}')
@example(b'"\\ud800"')
@example(b"1e400")
@example(b"[" * 5000)
def test_a_document_is_what_json_makes_of_it(message):
    assert outcome(JsonSchema().deserialize, message) == outcome(
        lambda data: json.loads(data.decode().removeprefix("\ufeff")), message
    )


def test_one_document_that_only_json_takes_changes_nothing_about_its_neighbours():
    assert JsonSchema().deserialize_block([b"1", b"Infinity", b"null", b'{"a": 1.0}']) == [1, float("inf"), {"a": 1.0}]


# ---- of columns


class Pair(NamedTuple):
    number: int
    text: str


@dataclass
class Visit:
    number: int
    ratio: float
    text: str
    flag: bool


WITHIN = Record((FLOAT, Tuple((INT, STR))), DICT, ('a "quoted" {name}', "%s"))
SCHEMAS = [
    INT, STR, FLOAT, BOOL, Tuple((INT,)), Tuple((STR, Tuple((FLOAT, INT)), BOOL)), WITHIN, Tuple((INT, WITHIN)),
    Record((INT, STR), NAMED_TUPLE, Pair._fields, Pair),
    Record((INT, FLOAT, STR, BOOL), DATACLASS, ("number", "ratio", "text", "flag"), Visit),
    Record((INT, WITHIN, Tuple((FLOAT, STR))), ROW, ("number", "within", "both")),
]  # fmt: skip


@settings(max_examples=200)
@given(st.sampled_from(SCHEMAS), st.integers(0, 2**32), st.booleans())
def test_documents_of_columns_are_those_of_their_records(schema, seed, wild):
    records = random_records(random.Random(seed), schema, wild)
    block = columns_of(records, schema)
    assert documents_of(block) == JsonSchema().messages_of(block) == JsonSchema().serialize_block(records)


def test_none_and_values_that_are_all_alike_are_written():
    names = ("n", "s", "none", "same", "both")
    leaves = [
        Column(Optional(INT), np.array([1, None, -(2**63)], object)), Column(Optional(STR), np.array(["a", None, "né"], object)),
        Column(NONE, None, constant=True), Column(STR, "x", constant=True),
        Column(NUMBER, np.array([1, 1.0, float("-inf")], object)),
    ]  # fmt: skip
    block = Columns(Record((Optional(INT), Optional(STR), NONE, STR, NUMBER), DICT, names), leaves, 3)
    assert documents_of(block) == JsonSchema().serialize_block(block.to_list())


@pytest.mark.parametrize("schema", [
    Tuple((INT, Record((INT, STR), NAMED_TUPLE, Pair._fields, Pair))), Record((Tuple((INT, STR)),), ROW, ("both",)),
])  # fmt: skip
def test_other_records_are_written_one_by_one(schema):
    records = random_records(random.Random(1), schema, True)
    block = columns_of(records, schema)
    assert JsonSchema().messages_of(block) == JsonSchema().serialize_block(records)
    assert (documents_of(block) is None) == (schema[0] == INT)


class Loud(JsonSchema):
    def serialize(self, value):
        return super().serialize(value).upper()


def test_a_schema_of_a_user_is_asked_for_each_record():
    assert not Loud().takes_columns and not LineEncoder(Loud()).takes_columns
    assert Loud().messages_of(columns_of(["a"], STR)) == [b'"A"']


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("vectorized", [False, True])
def test_a_sink_of_lines_takes_columns(tmp_path, monkeypatch, compression, vectorized):
    made, rows = [], Columns.rows
    monkeypatch.setattr(Columns, "rows", lambda self: made.append(self) or rows(self))
    monkeypatch.setattr(
        "funken.operators.columnar.path.CostWatch.sample", lambda self, length: 0
    )  # samples are records
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
    numbers = env.from_source(NumberSequenceSource(0, 999), WatermarkStrategy.no_watermarks(), "numbers")
    records = numbers.map(lambda n: {"n": n, "name": f"n{n}", "half": n / 2, "odd": n % 2 == 1})
    encoder = LineEncoder(JsonSchema())
    builder = (
        FileSink.for_row_format(tmp_path, encoder)
        if compression is None
        else FileSink.for_bulk_format(tmp_path, CompressedRows(encoder, compression))
    )
    records.sink_to(builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()).name("lines")
    assert ("columns: lines: vectorized" in env.explain()) is vectorized
    env.execute()
    assert not made
    env = StreamExecutionEnvironment.create_local_environment(1)
    source = FileSource.for_format(LineFormat(JsonSchema()), tmp_path).build()
    found = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").execute_and_collect(limit=1001)
    assert found == [{"n": n, "name": f"n{n}", "half": n / 2, "odd": n % 2 == 1} for n in range(1000)]
