"""A byte order mark of UTF-8 is no data of CSV and lines, whatever is behind it, and wherever the file is cut."""

import bz2
import json
from dataclasses import replace

import pytest

from funken import Configuration, FileSource, Row, StreamExecutionEnvironment, StreamFormat, Types
from funken.connectors import ByteArraySchema, ConnectorContext, CsvSchema, JsonSchema, SimpleStringSchema
from funken.connectors.files.csv_files import CsvReaderFormat, infer_csv
from funken.connectors.files.file_format import split_file
from funken.connectors.files.line_files import LineFormat
from funken.connectors.formats.csv_schema import HeaderNames
from funken.dataset import ExecutionEnvironment
from funken.io.filesystem import FileStatus

MARK = b"\xef\xbb\xbf"
ROW = Types.ROW_NAMED(["name", "id"], [Types.STRING(), Types.INT()])
CSV = CsvSchema(ROW)
FILES = {
    "plain": (b"tea,1\n", CsvReaderFormat(CSV)),
    "quoted": (b'"tea, green",1\n', CsvReaderFormat(CSV)),
    "header": (b"name,id\ntea,1\n", CsvReaderFormat(CSV, header=True)),
    "quoted header": (b'"name","id"\ntea,1\n', CsvReaderFormat(CSV, header=True)),
    "other order": (b'"id","name"\r\n1,tea\r\n', CsvReaderFormat(CSV, header=True)),
    "matched": (b'"name","id"\ntea,1\n', CsvReaderFormat(CSV, header=True, names=HeaderNames.MATCH)),
    "comment": (b"#a\ntea,1\n", CsvReaderFormat(CsvSchema(ROW, comment="#"))),
    "empty line": (b"\ntea,1\n", CsvReaderFormat(CSV)),
    "line break": (b'"tea\ngreen",1\n', CsvReaderFormat(CSV)),
    "no end": (b"tea,1", CsvReaderFormat(CSV)),
    "nothing": (b"", CsvReaderFormat(CSV)),
    "lines": (b"tea,1\njam,2\n", LineFormat(CSV)),
    "json": (b'{"name": "tea"}\n{"name": "jam"}\n', LineFormat(JsonSchema())),
    "typed json": (b'{"name": "tea"}\n', LineFormat(JsonSchema(ROW))),
    "text": (b"tea\njam\n", LineFormat(SimpleStringSchema())),
    "only lines": (b"", LineFormat(JsonSchema())),
    "within": (b"tea,1\n\xef\xbb\xbfjam,2\n", CsvReaderFormat(CSV)),
}


def records(path, format, vectorized):
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
    return env.from_source(FileSource.for_format(format, str(path)).build()).execute_and_collect(limit=99)


@pytest.mark.parametrize("vectorized", [True, False], ids=["columns", "records"])
@pytest.mark.parametrize("compress", [bytes, bz2.compress], ids=["", "compressed"])
@pytest.mark.parametrize("name", FILES)
def test_a_mark_is_no_data(tmp_path, pieces, name, compress, vectorized):
    data, format = FILES[name]
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    file = "a.bz2" if compress is bz2.compress else "a"
    (tmp_path / "with" / file).write_bytes(compress(MARK + data))
    if not data:
        assert records(tmp_path / "with", format, vectorized) == []
        return
    (tmp_path / "without" / file).write_bytes(compress(data))

    assert records(tmp_path / "with", format, vectorized) == records(tmp_path / "without", format, vectorized)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 100])
def test_ranges_share_a_file_with_a_mark(tmp_path, size):
    (tmp_path / "a").write_bytes(MARK + b"tea,1\njam,2\nrye,3\n")
    source = FileSource.for_format(LineFormat(CSV), str(tmp_path)).set_split_bytes(size).build()
    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)

    assert sorted(env.from_source(source).execute_and_collect(limit=9), key=str) == [
        Row(name=name, id=number) for number, name in ((2, "jam"), (3, "rye"), (1, "tea"))
    ]


def test_positions_count_the_mark(tmp_path):
    path, data = tmp_path / "a", MARK + b"tea,1\njam,2\nrye,3\n"
    path.write_bytes(data)
    [split] = split_file(str(path), FileStatus(str(path), len(data), 0), 100, LineFormat(CSV))
    for taken in range(4):
        with path.open("rb") as file:
            reader = LineFormat(CSV).reader(file, split, ConnectorContext("here"))
            found = list(reader.next())[:taken]
            position = reader.position(taken)
        with path.open("rb") as file:
            rest = LineFormat(CSV).reader(file, replace(split, position=position), ConnectorContext("here"))
            assert [row.name for row in [*found, *rest.next()]] == ["tea", "jam", "rye"]


def test_what_is_not_utf_8_has_no_mark(tmp_path):
    (tmp_path / "a").write_bytes(MARK + b"tea,1\n")
    latin = CsvSchema(ROW, charset="ISO-8859-1")

    for format in (CsvReaderFormat(latin), LineFormat(latin)):
        assert records(tmp_path, format, True) == [Row(name="\u00ef\u00bb\u00bftea", id=1)]
    assert records(tmp_path, LineFormat(ByteArraySchema()), True) == [MARK + b"tea,1"]
    assert records(tmp_path, StreamFormat.text_line_format(), True) == ["\ufefftea,1"]  # as Flink's has it
    assert records(tmp_path, StreamFormat.text_line_format("utf-8-sig"), True) == ["tea,1"]


def test_columns_are_found_behind_a_mark(tmp_path):
    (tmp_path / "a.csv").write_bytes(MARK + b'"name","id"\ntea,1\n')
    (tmp_path / "b.csv").write_bytes(MARK + b"7,1\n")

    assert infer_csv(str(tmp_path / "a.csv")).schema.names == ("name", "id")
    assert str(infer_csv(str(tmp_path / "b.csv"), header=False).schema.record_type) == "RowTypeInfo(f0: Long, f1: Long)"


def test_a_message_may_begin_with_a_mark():
    assert JsonSchema().deserialize(MARK + b'{"n": 1}') == {"n": 1}
    assert JsonSchema(Types.ROW_NAMED(["n"], [Types.INT()])).deserialize(MARK + b'{"n": 1}') == Row(n=1)


@pytest.mark.parametrize("vectorized", [True, False], ids=["columns", "records"])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_data_sets_read_csv_and_json_behind_a_mark(tmp_path, vectorized, parallelism):
    numbers = range(5000)
    (tmp_path / "a.csv").write_bytes(MARK + b"".join(b"%d,t\n" % number for number in numbers))
    (tmp_path / "q.csv").write_bytes(MARK + b'"1","a,b"\n')
    (tmp_path / "a.json").write_bytes(MARK + b"".join(json.dumps({"n": n}).encode() + b"\n" for n in numbers))
    env = ExecutionEnvironment.create_local_environment(parallelism, Configuration({"pipeline.vectorized": vectorized}))

    assert env.read_csv_file(str(tmp_path / "a.csv"), (int, str)).collect() == [(number, "t") for number in numbers]
    assert env.read_csv_file(str(tmp_path / "q.csv"), (int, str)).collect() == [(1, "a,b")]
    assert env.read_json_file(str(tmp_path / "a.json")).collect() == [{"n": number} for number in numbers]
