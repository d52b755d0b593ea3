"""Formats of tables with odd input: each expected row, error and byte is Flink 2.3's."""

import io
from decimal import Decimal

import pytest

from funken.connectors.base import ConnectorContext
from funken.connectors.files.file_format import FileSplit
from funken.errors import MessageMalformed
from funken.io.filesystem import FileStatus
from funken.table.connectors.contract import TableContext
from funken.table.connectors.filesystem import FilesystemFactory
from funken.table.connectors.formats import format_options, table_format
from funken.table.connectors.options import ConnectorOption, OptionValues
from funken.table.types import parse_type
from funken.table.values import java_row
from funken.types.row import Row

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


def read_file(types, data, **options):
    columns = columns_of(types)
    given = {"path": "/in", "format": "csv", **{f"csv.{key}": value for key, value in options.items()}}
    files = FilesystemFactory().scan(TableContext("t", columns, options=given))._files()
    split = FileSplit("/in", FileStatus("/in/f", len(data), 0), 0, len(data), whole=True)
    try:
        reader = files.reader(io.BytesIO(data), split, ConnectorContext("t"))
        rows = []
        while found := reader.next():
            rows += found
    except (ValueError, MessageMalformed):
        return WRONG
    return shown(rows, columns)


JSON_VALUES = [
    ("TINYINT", "1.5", WRONG),
    ("SMALLINT", "1e3", WRONG),
    ("INT", "1.9", "1"),
    ("BIGINT", "1e3", "1000"),
    ("DECIMAL(5, 2)", "12345678.9", "null"),
    ("DECIMAL(5, 2)", '" 1.555 "', "1.56"),
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
]


@pytest.mark.parametrize(("options", "types", "data", "expected"), CSV_FILES)
def test_lines_of_files_in_csv(options, types, data, expected):
    assert read_file(types, data, **options) == expected


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
    ],
)
def test_raw_messages(type_, message, expected):
    assert read("raw", f"x {type_}", message) == expected


def test_raw_texts_in_utf_16_begin_with_the_greater_byte():
    encoder = format_of("raw", charset="UTF-16").encoder(columns_of("x STRING"))
    assert encoder.serialize(Row("a\u00e9")) == b"\xfe\xff\x00a\x00\xe9"
