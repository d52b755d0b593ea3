"""CSV is written from columns as it is from their records, line by line."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import (
    BucketAssigner,
    Configuration,
    FileSink,
    FileSource,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    Types,
    WatermarkStrategy,
)
from funken.columnar.kernels.columns import Column, Columns, columns_of
from funken.connectors.files.csv_files import CsvReaderFormat
from funken.connectors.files.line_files import LineEncoder
from funken.connectors.formats.csv_schema import CsvSchema, fields_of
from funken.expr.types import BOOL, DATACLASS, DICT, FLOAT, INT, NAMED_TUPLE, ROW, STR, Optional, Record, Tuple
from tests.support.traced.records import Pair, Visit, random_records

FOUR = [Types.LONG(), Types.DOUBLE(), Types.STRING(), Types.BOOLEAN()]
NAMES = ["number", "ratio", "text", "flag"]
KINDS = Tuple((INT, FLOAT, STR, BOOL))
NAMED = Types.ROW_NAMED(NAMES, FOUR)
SHAPES = [
    (KINDS, Types.TUPLE(FOUR)), (KINDS, Types.ROW(FOUR)), (KINDS, NAMED), (Record(KINDS, ROW, tuple(NAMES)), NAMED),
    (Record(KINDS, DICT, tuple(NAMES)), NAMED), (Record(KINDS[::-1], DICT, tuple(NAMES[::-1])), NAMED),
    (Record(KINDS[::-1], ROW, tuple(NAMES[::-1])), NAMED), (Record((INT, *KINDS), DICT, ("more", *NAMES)), NAMED),
    (Record(KINDS, DATACLASS, tuple(NAMES), Visit), Visit),
    (Record((INT, STR), NAMED_TUPLE, Pair._fields, Pair), Pair),
    (Tuple((STR,)), Types.TUPLE([Types.STRING()])),
]  # fmt: skip
CSVS = [{}, {"delimiter": ";", "null_literal": "NULL"}, {"quote": "'", "escape": "\\"}, {"charset": "utf-16-le"}]


@settings(max_examples=200)
@given(st.sampled_from(SHAPES), st.sampled_from(CSVS), st.integers(0, 2**32), st.booleans())
def test_lines_of_columns_are_those_of_their_records(shape, how, seed, wild):
    schema, declared = shape
    records = random_records(random.Random(seed), schema, wild)
    written = CsvSchema(declared, **how)
    block = columns_of(records, schema)
    assert fields_of(block, declared, written.names) is not None
    assert written.messages_of(block) == written.serialize_block(records)


@settings(max_examples=300)
@given(
    st.sampled_from([*CSVS, {"quote": None}, {"quote": None, "escape": "\\"}]),
    st.lists(st.text("""axé,;"' \\\n""", max_size=40) | st.text("ax-é", max_size=40), min_size=1, max_size=4),
    st.lists(
        st.floats() | st.floats(-1e8, 1e8) | st.sampled_from([1e7, 1e-3, 0.0, 9999999.9, 123.0]), min_size=4, max_size=4
    ),
)
def test_text_is_quoted_and_numbers_are_written_as_in_lines_of_records(how, texts, floats):
    written = CsvSchema(Types.TUPLE([Types.STRING(), Types.DOUBLE(), Types.STRING()]), **how)
    records = [(text, number, "same") for text, number in zip(texts, floats, strict=False)]
    try:
        expected = written.serialize_block(records)
    except ValueError as error:
        with pytest.raises(ValueError, match="cannot write") as found:
            written.messages_of(columns_of(records, Tuple((STR, FLOAT, STR))))
        assert str(found.value) == str(error)
        return
    assert written.messages_of(columns_of(records, Tuple((STR, FLOAT, STR)))) == expected


def test_none_and_values_that_are_all_alike_are_written():
    leaves = [
        Column(Optional(INT), np.array([1, None, -(2**63)], object)), Column(Optional(STR), np.array(["a", None, 'n"é'], object)),
        Column(STR, "x,", constant=True),
    ]  # fmt: skip
    declared = Types.ROW_NAMED(["n", "s", "same"], [Types.LONG(), Types.STRING(), Types.STRING()])
    block = Columns(Record((Optional(INT), Optional(STR), STR), DICT, ("n", "s", "same")), leaves, 3)
    assert CsvSchema(declared).messages_of(block) == CsvSchema(declared).serialize_block(block.to_list())


@pytest.mark.parametrize(
    "schema", [Tuple((INT, FLOAT, STR)), Tuple((INT, Tuple((FLOAT,)), STR, BOOL)), Record((INT,), DICT, ("n",))]
)
def test_what_does_not_fit_is_told_as_it_is_of_records(schema):
    records = random_records(random.Random(1), schema, False)
    block, written = columns_of(records, schema), CsvSchema(NAMED)
    assert fields_of(block, NAMED, written.names) is None

    def outcome(write, given):
        try:
            return write(given)
        except Exception as error:  # noqa: BLE001 - whatever it is
            return repr(error)

    assert outcome(written.messages_of, block) == outcome(written.serialize_block, records)


class Loud(CsvSchema):
    def serialize_block(self, values):
        return [line.upper() for line in super().serialize_block(values)]


def test_a_schema_of_a_user_is_given_records():
    assert not Loud(NAMED).takes_columns and not LineEncoder(Loud(NAMED)).takes_columns
    assert Loud(Types.TUPLE([Types.STRING()])).messages_of(columns_of([("a",)], Tuple((STR,)))) == [b"A"]


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_sink_of_csv_takes_columns(tmp_path, monkeypatch, vectorized):
    made, rows = [], Columns.rows
    monkeypatch.setattr(Columns, "rows", lambda self: made.append(self) or rows(self))
    monkeypatch.setattr(
        "funken.operators.columnar.path.CostWatch.sample", lambda self, length: 0
    )  # samples are records
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
    numbers = env.from_source(NumberSequenceSource(0, 999), WatermarkStrategy.no_watermarks(), "numbers")
    records = numbers.map(lambda n: {"number": n, "ratio": n / 2, "text": f"n,{n}", "flag": n % 2 == 1})
    files = CsvReaderFormat(CsvSchema(NAMED))
    sink = FileSink.for_row_format(tmp_path, files.encoder())
    sink = sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    records.sink_to(sink).name("lines")
    assert ("columns: lines: vectorized" in env.explain()) is vectorized
    env.execute()
    assert not made
    env = StreamExecutionEnvironment.create_local_environment(1)
    source = FileSource.for_format(files, tmp_path).build()
    found = env.from_source(source, WatermarkStrategy.no_watermarks(), "in").execute_and_collect(limit=2000)
    assert sorted(map(tuple, found)) == [(n, n / 2, f"n,{n}", n % 2 == 1) for n in range(1000)]
