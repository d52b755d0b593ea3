"""Every format and every declared type: values come back exactly, extremes and ``None`` included, or are refused."""

import json

import pytest

from funken import (
    BucketAssigner,
    Configuration,
    FileSink,
    FileSource,
    Row,
    StreamExecutionEnvironment,
    StreamFormat,
    Types,
)
from funken.compat.pyflink import formats as flink
from funken.connectors import ByteArraySchema, CsvSchema, JsonSchema
from funken.connectors.files.arrow_files import OrcFormat, ParquetFormat
from funken.connectors.files.avro_files import AvroFormat
from funken.connectors.files.csv_files import CsvReaderFormat
from funken.connectors.files.line_files import LineEncoder, LineFormat
from funken.errors import InvalidProgram
from tests.support.format_types import FORMS, REFUSED, TYPES

CASES = [(form, *each) for form in FORMS for each in TYPES]
NAMES = [f"{form.name} {name}" for form, name, *_ in CASES]


def exact(value):
    return repr(value), type(value)


def has(form, rows):
    """Whether a format has a type; what it has not it refuses when the program is built."""
    try:
        form.write(rows, [Row(n=1, v=None)])
    except InvalidProgram as error:
        assert "a field of text" in str(error) or "ORC has no times of day" in str(error)
        return False
    return True


@pytest.mark.parametrize(("form", "name", "declared", "values", "wrong"), CASES, ids=NAMES)
def test_values_come_back_as_they_were_or_are_refused(form, name, declared, values, wrong):
    rows = Types.ROW_NAMED(["n", "v"], [Types.INT(), declared])
    if not has(form, rows):
        assert form.name in ("CSV", "ORC")
        return
    for value in [*values, None]:
        reason = REFUSED.get((form.name, name, repr(value)))
        if reason is not None:
            with pytest.raises(Exception, match=reason):
                form.read(rows, form.write(rows, [Row(n=1, v=value)]))
            continue
        [found] = form.read(rows, form.write(rows, [Row(n=1, v=value)]))
        back = found.v
        if isinstance(value, type(None)) or ("BIG_DEC" not in name and "TUPLE" not in name):
            assert exact(back) == exact(value)
        else:  # 1.50 and 1.500 are one number
            assert back == value
    for value in wrong:
        with pytest.raises((ValueError, TypeError), match="v"):
            form.write(rows, [Row(n=1, v=value)])


@pytest.mark.parametrize(("form", "name", "declared", "values", "wrong"), CASES, ids=NAMES)
def test_values_come_back_together(form, name, declared, values, wrong):
    rows = Types.ROW_NAMED(["n", "v"], [Types.INT(), declared])
    if not has(form, rows):
        return
    there = [
        Row(n=number, v=value)
        for number, value in enumerate([*values, None])
        if (form.name, name, repr(value)) not in REFUSED
    ]

    assert repr(form.read(rows, form.write(rows, there))).replace("0" * 16, "") == repr(there).replace(
        "0" * 16, ""
    ) or ("DEC" in name or "TUPLE" in name)


FILES = {
    "parquet": lambda rows: (ParquetFormat(rows), ParquetFormat(rows)), "orc": lambda rows: (OrcFormat(rows), OrcFormat(rows)),
    "avro": lambda rows: (AvroFormat(record_type=rows), AvroFormat(record_type=rows)),
    "json": lambda rows: (LineEncoder(JsonSchema(rows)), LineFormat(JsonSchema(rows))),
    "csv": lambda rows: (CsvReaderFormat(CsvSchema(rows, null_literal="-")).encoder(), CsvReaderFormat(CsvSchema(rows,
        null_literal="-"))),
}  # fmt: skip
ROUND = [each for each in TYPES if "ROW" not in each[0]]


@pytest.mark.parametrize("vectorized", [True, False], ids=["columns", "records"])
@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize(("name", "declared", "values", "wrong"), ROUND, ids=[each[0] for each in ROUND])
def test_jobs_copy_files_without_a_change(tmp_path, kind, name, declared, values, wrong, vectorized):
    rows = Types.ROW_NAMED(["n", "v"], [Types.INT(), declared])
    try:
        out, into = FILES[kind](rows)
        there = [value for value in values if ("ORC", name, repr(value)) not in REFUSED]
        folder = tmp_path / "0"
        records = [Row(n=number, v=value) for number, value in enumerate([*there, None])]
        _copied(None, records, out, folder, vectorized, rows)
    except InvalidProgram:
        assert kind in ("csv", "orc")
        return
    found = _copied(into, None, out, tmp_path / "1", vectorized, rows, folder)
    again = _copied(into, None, None, None, vectorized, rows, tmp_path / "1")

    assert [repr(each.v) for each in found] == [repr(each.v) for each in again]
    if "BIG_DEC" in name or "TUPLE" in name:
        assert [each.v for each in again] == [*there, None]
    else:
        assert [exact(each.v) for each in again] == [exact(value) for value in [*there, None]]


def _copied(into, records, out, folder, vectorized, rows, source=None):
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
    files = None if into is None else FileSource.for_format(into, str(source)).build()
    stream = env.from_collection(records) if files is None else env.from_source(files)
    if out is not None:
        make = FileSink.for_row_format if isinstance(out, LineEncoder) else FileSink.for_bulk_format
        sink = make(str(folder), out).with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
        stream.sink_to(sink)
        env.execute()
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
    if into is None:
        return records
    read = env.from_source(FileSource.for_format(into, str(source)).build())
    return sorted(read.execute_and_collect(limit=999), key=lambda row: row.n)


@pytest.mark.parametrize("schema", [ByteArraySchema(), flink.ByteArraySchema()])
def test_bytes_are_bytes(schema):
    for value in (b"\0\xff", bytearray(b"a"), memoryview(b"")):
        assert schema.deserialize(schema.serialize(value)) == value
    for value in (5, True, [1, 2], "a", None):
        with pytest.raises(TypeError, match="is no bytes"):
            schema.serialize(value)
    with pytest.raises(TypeError, match="5 is no bytes"):
        flink.RowFieldExtractorSchema(0).serialize(Row(5))


def test_a_document_that_is_too_deep_does_not_hinder_planning(tmp_path):
    (tmp_path / "a").write_text("[" * 200_000 + "\n" + '{"n": 1}\n' * 50)
    env = StreamExecutionEnvironment.create_local_environment(1)
    lines = env.from_source(FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).build())

    documents = lines.filter(lambda line: len(line) < 100).map(json.loads).map(lambda record: record["n"])
    assert documents.execute_and_collect(limit=99) == [1] * 50
