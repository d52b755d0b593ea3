"""Formats of tables with odd input: each expected row, error and byte is Flink 2.3's."""

import datetime
import io
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from funken.connectors.base import ConnectorContext
from funken.connectors.files.file_format import FileSplit
from funken.errors import InvalidProgram, MessageMalformed
from funken.io.filesystem import FileStatus
from funken.table.connectors.contract import TableContext
from funken.table.connectors.filesystem import FilesystemFactory
from funken.table.connectors.folders import schema_of
from funken.table.connectors.formats import format_options, table_format
from funken.table.connectors.json_values import avro_type
from funken.table.connectors.options import ConnectorOption, OptionValues
from funken.table.runtime.block import TableBlock
from funken.table.types import parse_type
from funken.table.values import from_python, java_row
from funken.types.row import Row

WHEN = datetime.datetime(2020, 1, 2, 3, 4, 5, 120_000)  # noqa: DTZ001 - a TIMESTAMP has no zone
SECOND = datetime.datetime(1970, 1, 1, 0, 0, 1)  # noqa: DTZ001 - a TIMESTAMP has no zone
WRONG = "wrong"
"""A message that cannot be read."""


def columns_of(text):
    return tuple((field.name, field.type) for field in parse_type(f"ROW<{text}>").fields)


def format_of(name, **options):
    given = {"format": name, **{f"{name}.{key}": value for key, value in options.items()}}
    declared = (ConnectorOption("format"), *format_options("t", name))
    return table_format("t", name, OptionValues("t", given, declared))


def shown(rows, columns):
    return [java_row(row, [type_ for _, type_ in columns]) for row in rows]


def read(name, types, message, **options):
    columns = columns_of(types)
    try:
        return shown(format_of(name, **options).decoder(columns).deserialize_all(message), columns)
    except ValueError:
        return WRONG


def read_file(types, data, name="csv", **options):
    columns = columns_of(types)
    given = {"path": "/in", "format": name, **{f"{name}.{key}": value for key, value in options.items()}}
    files = FilesystemFactory().scan(TableContext("t", columns, options=given))._files()
    split = FileSplit("/in", FileStatus("/in/f", len(data), 0), 0, len(data), whole=True)
    try:
        reader = files.reader(io.BytesIO(data), split, ConnectorContext("t"))
        rows = []
        while found := reader.next():
            rows += found
    except (ValueError, MessageMalformed, InvalidProgram):
        return WRONG
    return shown(rows, columns)


JSON_VALUES = [
    ("TINYINT", "1.5", WRONG),
    ("SMALLINT", "1e3", WRONG),
    ("INT", "1.9", "1"),
    ("BIGINT", "1e3", "1000"),
    ("DECIMAL(5, 2)", "12345678.9", "null"),
    ("DECIMAL(5, 2)", '" 1.555 "', "1.56"),
    ("DECIMAL(5, 2)", "1e400", "null"),
    ("DECIMAL(5, 2)", "-0.0", "0.00"),
    ("DOUBLE", '"1d"', "1.0"),
    ("DOUBLE", '"1e400"', "Infinity"),
    ("FLOAT", '"9999999.99"', "1.0E7"),
    ("TIME", '"10:11:12.123456789"', "10:11:12.123"),
    ("TIME", '"12:34"', WRONG),
    ("TIME", '" 12 "', WRONG),
    ("TIME", '"12:34:56Z"', WRONG),
    ("TIME", '"12:34:56"', "12:34:56"),
    ("TIMESTAMP(3)", '"2024-02-03 04:05:06Z"', WRONG),
    ("TIMESTAMP(3)", '"2024-02-03 04:05:06+01:00"', WRONG),
    ("TIMESTAMP(3)", '"2024-02-03 04:05"', WRONG),
    ("TIMESTAMP(3)", '"2024-02-03T04:05:06"', WRONG),
    ("TIMESTAMP_LTZ(3)", '"2024-02-03 04:05:06"', WRONG),
    ("TIMESTAMP_LTZ(3)", '"2024-02-03 04:05:06.5Z"', "2024-02-03T04:05:06.500Z"),
    ("BYTES", '"  "', "[]"),
    ("STRING", '{"q": 1.50, "r": [1, 2]}', '{"q":1.5,"r":[1,2]}'),
    ("STRING", "2.50", "2.50"),
    ("STRING", r'"a\ud83d\\ud83d\ud83d\ude00"', "a?\\ud83d\U0001f600"),
]


@pytest.mark.parametrize(("type_", "value", "expected"), JSON_VALUES)
def test_values_in_json(type_, value, expected):
    found = read("json", f"v {type_}", f'{{"v":{value}}}'.encode())
    assert found == (WRONG if expected is WRONG else [f"+I[{expected}]"])


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b'\xef\xbb\xbf{"a":1,"b":"x"}', ["+I[1, x]"]),
        (b'[{"a":1,"b":"x"},{"a":2,"b":"y"}]', ["+I[1, x]", "+I[2, y]"]),
        (b'{"a":1,"b":"x"}{"a":2,"b":"y"}', ["+I[1, x]"]),
        (b'{"a":1,"b":"x"} junk', ["+I[1, x]"]),
        (b'{"a":1,"b":"x\ty"}', ["+I[1, x\ty]"]),
        (b'{"a":NaN,"b":"x"}', WRONG),
        (b'{"a":1,"b":"x"', WRONG),
        (b'{"a":1,"b":"x\xff"}', WRONG),
        (b"{'a':1}", WRONG),
        (b"5", WRONG),
        (b"null", WRONG),
    ],
)
def test_documents_that_are_more_or_less_than_json(message, expected):
    assert read("json", "a INT, b STRING", message) == expected
    assert read("json", "a INT, b STRING", message, **{"ignore-parse-errors": "true"}) == (
        [] if expected is WRONG else expected
    )


def test_a_wrong_element_is_null_if_errors_are_ignored():
    ignoring = {"ignore-parse-errors": "true"}
    assert read("json", "a ARRAY<INT>, z INT", b'{"a":[1,"q",3],"z":3}', **ignoring) == ["+I[[1, null, 3], 3]"]
    assert read("json", "a MAP<STRING, INT>", b'{"a":{"x":1,"y":"q"}}', **ignoring) == ["+I[{x=1, y=null}]"]
    assert read("json", "a ARRAY<INT>", b'{"a":[1,"q",3]}') == WRONG


@pytest.mark.parametrize(
    ("options", "type_", "value", "expected"),
    [
        ({}, "DOUBLE", float("nan"), '{"x":"NaN"}'),
        ({}, "DOUBLE", float("-inf"), '{"x":"-Infinity"}'),
        ({}, "STRING", "é\U0001f600", '{"x":"é\\uD83D\\uDE00"}'),
        ({}, "STRING", "\x1f\\u001f", '{"x":"\\u001F\\\\u001f"}'),
        ({}, "TIME(3)", datetime.time(10, 11, 12, 100_000), '{"x":"10:11:12.1"}'),
        ({}, "DECIMAL(10, 2)", "100.00", '{"x":1E+2}'),
        ({"encode.decimal-as-plain-number": "true"}, "DECIMAL(10, 2)", "100.00", '{"x":100.00}'),
    ],
)
def test_values_as_json(options, type_, value, expected):
    given = Decimal(value) if type_.startswith("DECIMAL") else value
    assert format_of("json", **options).encoder(columns_of(f"x {type_}")).serialize(Row(given)).decode() == expected


CSV_FILES = [
    ({}, "a INT, b STRING", b"1,x\n\n2,y\n", WRONG),
    ({"ignore-parse-errors": "true"}, "a INT, b STRING", b"1,x\n\n2\n", ["+I[1, x]", "+I[null, null]", "+I[2, null]"]),
    ({}, "a STRING", b"a\n\nb\n", ["+I[a]", "+I[]", "+I[b]"]),
    ({}, "a INT", b"1\n\n2\n", WRONG),
    ({"allow-comments": "true"}, "a INT, b STRING", b"1,x\n  \n#no\n\n2,y\n", ["+I[1, x]", "+I[2, y]"]),
    ({"ignore-parse-errors": "true"}, "a INT, b STRING", b'1,"x\ny"\n2,z\n', ["+I[1, x\ny]", "+I[2, z]"]),
    ({"ignore-parse-errors": "true"}, "a INT, b STRING", b'1,"x"y\n2,z\n', ["+I[2, z]"]),
    ({"ignore-parse-errors": "true"}, "a INT, b STRING", b"1,x\r2,y\r", ["+I[1, x]", "+I[2, y]"]),
    ({}, "v DECIMAL(5, 2), w STRING", b"1e3,z\n", ["+I[null, z]"]),
    ({}, "v DECIMAL(5, 2), w STRING", b" 12 ,z\n", WRONG),
    ({}, "v TIME, w STRING", b"12:34:56.789,z\n12:34,y\n", ["+I[12:34:56, z]", "+I[12:34, y]"]),
    ({}, "v TIME, w STRING", b"12:34:56Z,z\n", WRONG),
    ({}, "v TIMESTAMP(3), w STRING", b"2024-02-03 04:05:06Z,z\n", WRONG),
    ({}, "v ROW<a INT, b STRING>, w STRING", b"1;b;c,z\n", ["+I[+I[1, b], z]"]),
    ({}, "v ROW<a INT, b STRING>, w STRING", b"1,z\n", WRONG),
    ({}, "v ROW<a INT, b STRING>, w STRING", b" ,z\n", ["+I[null, z]"]),
    (
        {"ignore-parse-errors": "true"},
        "v ROW<a INT, b STRING>, w INT",
        b"q;b,1\n2,2\n",
        ["+I[+I[null, b], 1]", "+I[+I[2, null], 2]"],
    ),
    (
        {"ignore-parse-errors": "true"},
        "v ARRAY<INT>, w INT",
        b"1;a;2,1\n1;;2,2\n",
        ["+I[[1, null, 2], 1]", "+I[[1, null, 2], 2]"],
    ),
    ({}, "v ARRAY<INT>, w INT", b" ,1\n,2\n", ["+I[[], 1]", "+I[[], 2]"]),
    ({}, "v ARRAY<ARRAY<INT>>, w INT", b"1,1\n", WRONG),
    ({}, "v DATE, w INT", b" 2020-01-02,1\n", WRONG),
    ({}, "v TIME(3), w INT", b"10:11:12.123456789,1\n", ["+I[10:11:12.123, 1]"]),
    ({}, "v DOUBLE, w FLOAT", b"1e400,1f\n", ["+I[Infinity, 1.0]"]),
    ({}, "v DECIMAL(5, 2), w INT", b"1e400,1\n-0.0,2\n", ["+I[null, 1]", "+I[0.00, 2]"]),
    ({"field-delimiter": "\\t"}, "v STRING, w STRING, x STRING", b'"x"\t"y" \t\n', ["+I[x, y, ]"]),
    ({"field-delimiter": "\\t", "trim-spaces": "true"}, "v STRING, w STRING, x STRING", b'\t"y" \t\n', ["+I[, y, ]"]),
    ({}, "v STRING, w STRING", b'"x"  ,"y, ""z"\t\n', ['+I[x, y, "z]']),
]


@pytest.mark.parametrize(("options", "types", "data", "expected"), CSV_FILES)
def test_lines_of_files_in_csv(options, types, data, expected):
    assert read_file(types, data, **options) == expected


IGNORING = {"ignore-parse-errors": "true"}


@pytest.mark.parametrize(
    ("options", "message", "expected"),
    [
        ({}, b"", WRONG),
        (IGNORING, b"", []),
        (IGNORING, b'1,"x', []),
        (IGNORING, b'"1"x,y', []),
        ({}, b'1,"x', WRONG),
        ({}, b"1,x\n2,y", ["+I[1, x]"]),
        ({}, b'1,"x\ny"\n2,z', ["+I[1, x\ny]"]),
        ({}, b"\xef\xbb\xbf1,x", ["+I[1, x]"]),
        ({"allow-comments": "true"}, b"#1,x", WRONG),
        ({"allow-comments": "true", **IGNORING}, b" #1,x", []),
    ],
)
def test_messages_in_csv_that_are_no_line_or_several(options, message, expected):
    assert read("csv", "a INT, b STRING", message, **options) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "12300.00|0.0000001|1.50;20.00"),
        ({"write-bigdecimal-in-scientific-notation": "false"}, "12300.00|0.0000001|1.50;20.00"),
        ({"write-bigdecimal-in-scientific-notation": "true"}, '1.23E+4|1E-7|"1.5;2E+1"'),
    ],
)
def test_decimals_in_messages_in_csv(given, expected):
    columns = columns_of("a DECIMAL(10, 2), b DECIMAL(9, 7), c ARRAY<DECIMAL(4, 2)>")
    row = Row(Decimal("12300.00"), Decimal("1E-7"), [Decimal("1.50"), Decimal("20.00")])
    encoder = format_of("csv", **given, **{"field-delimiter": "|", "quote-character": '"'}).encoder(columns)
    assert encoder.serialize(row).decode().replace('"1.50;20.00"', "1.50;20.00") == expected


def test_an_empty_list_in_csv_is_an_empty_field():
    columns = columns_of("a ARRAY<INT>, b TIME(3)")
    rows = format_of("csv")
    written = rows.encoder(columns).serialize(Row([], datetime.time(10, 11, 12, 100_000)))
    assert written == b",10:11:12.1"
    assert shown(rows.decoder(columns).deserialize_all(b",10:11:12.1"), columns) == ["+I[[], 10:11:12.100]"]


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("csv", {"quote-character": "'", "disable-quote-character": "true"}, "contradict one another"),
        ("csv", {"ignore-first-line": "true"}, "Unsupported options"),
        ("raw", {"charset": "nope"}, "no charset of Python"),
    ],
)
def test_options_that_messages_cannot_have(name, options, match):
    with pytest.raises(InvalidProgram, match=match):
        format_of(name, **options).decoder(columns_of("a STRING"))


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("canal-json", b'{"data":[{"id":"1"}],"old":null,"type":"UPDATE"}'),
        ("maxwell-json", b'{"data":{"id":1},"type":"update"}'),
    ],
)
def test_an_update_without_the_fields_before_it(name, event):
    assert read(name, "id INT", event) == WRONG
    assert read(name, "id INT", event, **IGNORING) == []


def test_lines_in_csv_are_written_with_the_quotes_that_flink_writes():
    assert format_of("csv").encoder(columns_of("x STRING, y INT")).serialize(Row("a\\b", 1)) == b'"a\\b",1'
    assert format_of("csv").encoder(columns_of("x STRING")).serialize(Row("")) == b""


@pytest.mark.parametrize(
    ("options", "is_read"),
    [
        ({"database.include": "d.*"}, True),
        ({"table.include": "^t[0-9]$"}, True),
        ({"table.include": "t|t1"}, True),
        ({"table.include": "t"}, False),
        ({"database.include": "x"}, False),
    ],
)
def test_tables_of_canal_are_chosen_by_patterns(options, is_read):
    event = b'{"data":[{"id":"1"}],"type":"INSERT","database":"d1","table":"t1"}'
    assert read("canal-json", "id INT", event, **options) == (["+I[1]"] if is_read else [])


@pytest.mark.parametrize(
    ("type_", "message", "expected"),
    [
        ("BOOLEAN", b"\1", ["+I[true]"]),
        ("BOOLEAN", b"", WRONG),
        ("BOOLEAN", b"\0\1", WRONG),
        ("STRING", b"a\xff", ["+I[a\ufffd]"]),
        ("FLOAT", b"\x3f\x80\0\0", ["+I[1.0]"]),
    ],
)
def test_raw_messages(type_, message, expected):
    assert read("raw", f"x {type_}", message) == expected


def test_empty_lines_are_rows_of_raw():
    assert read_file("a STRING", b"\n\nx\ny", "raw") == ["+I[]", "+I[]", "+I[x]", "+I[y]"]
    assert read_file("a BYTES", b"\nA\n", "raw") == ["+I[[]]", "+I[[65]]"]
    assert read_file("a INT", b'\n{"a":1}\n\n', "json") == ["+I[1]"]


def test_raw_texts_in_utf_16_begin_with_the_greater_byte():
    encoder = format_of("raw", charset="UTF-16").encoder(columns_of("x STRING"))
    assert encoder.serialize(Row("a\u00e9")) == b"\xfe\xff\x00a\x00\xe9"
    assert encoder.deserialize_all(b"\0a") == [Row("a")]
    assert encoder.deserialize_all(b"\xff\xfea\0") == [Row("a")]


@pytest.mark.parametrize(
    ("types", "legacy", "row", "expected"),
    [
        ("v MULTISET<STRING>", "true", Row({"a": 2}), "020202610204" + "00"),
        ("v TIMESTAMP(3)", "true", Row(SECOND), "02d00f"),
        ("v TIMESTAMP(3)", "false", Row(SECOND), "02d00f"),
        ("v TIMESTAMP_LTZ(3)", "false", Row(SECOND.replace(tzinfo=datetime.UTC)), "02d00f"),
    ],
)
def test_messages_in_avro(types, legacy, row, expected):
    columns = columns_of(types)
    both = format_of("avro", **{"timestamp_mapping.legacy": legacy})
    assert both.encoder(columns).serialize(row).hex() == expected
    assert both.decoder(columns).deserialize_all(bytes.fromhex(expected)) == [row]


@pytest.mark.parametrize(("legacy", "expected"), [(True, "timestamp-millis"), (False, "local-timestamp-millis")])
def test_the_type_of_timestamps_in_avro(legacy, expected):
    [field] = avro_type(columns_of("v TIMESTAMP(3)"), legacy)["fields"]
    assert field["type"][1]["logicalType"] == expected
    [zoned] = avro_type(columns_of("v TIMESTAMP_LTZ(3)"), legacy)["fields"]
    assert zoned["type"][1]["logicalType"] == "timestamp-millis"


# ---- files of columns: Flink reads timestamps within other values as INT96 only


def parquet_types(types, rows, **options):
    columns = columns_of(types)
    given = {"path": "/out", "format": "parquet", **{f"parquet.{key}": value for key, value in options.items()}}
    sink = FilesystemFactory().sink(TableContext("t", columns, options=given))
    file = io.BytesIO()
    writer = sink._bulk_format(columns).create(file)
    arrays = [from_python(values, type_) for values, (_, type_) in zip(zip(*rows, strict=True), columns, strict=True)]
    writer.write(TableBlock(pa.RecordBatch.from_arrays(arrays, schema=schema_of(columns).arrow)))
    writer.finish()
    schema = parquet.ParquetFile(file).schema
    return [(schema.column(at).physical_type, schema.column(at).logical_type.type) for at in range(len(schema))]


@pytest.mark.parametrize(
    ("types", "value", "options", "expected"),
    [
        ("v TIMESTAMP(3)", WHEN, {}, ("INT64", "TIMESTAMP")),
        ("v TIMESTAMP(3)", WHEN, {"write.int64.timestamp": "false"}, ("INT96", "NONE")),
        ("v ROW<a TIMESTAMP(3)>", Row(WHEN), {}, ("INT96", "NONE")),
        ("v ARRAY<TIMESTAMP(3)>", [WHEN], {}, ("INT96", "NONE")),
        ("v ARRAY<TIMESTAMP(3)>", [WHEN], {"write.int64.timestamp": "true"}, ("INT64", "TIMESTAMP")),
        ("v TIME", datetime.time(1), {}, ("INT32", "TIME")),
    ],
)
def test_types_of_times_in_parquet(types, value, options, expected):
    assert parquet_types(types, [(value,)], **options) == [expected]


def test_the_spaces_that_orc_fills_a_char_with_are_no_data():
    file = io.BytesIO()
    orc.write_table(pa.table({"v": ["ab ", "a b"]}), file)
    columns = columns_of("v CHAR(3)")
    files = FilesystemFactory().scan(TableContext("t", columns, options={"path": "/in", "format": "orc"}))._files()
    size = len(file.getvalue())
    split = FileSplit("/in", FileStatus("/in/f", size, 0), 0, size, whole=True)
    [batch] = files.reader(file, split, ConnectorContext("t")).next()
    assert batch["v"].to_pylist() == ["ab", "a b"]
