"""What a policy decides about: all that is no record of a file of text, whatever the format and the reason."""

import gzip

import pytest

from funken import Configuration, FileSource, StreamExecutionEnvironment, Types
from funken.connectors import CsvSchema, JsonSchema
from funken.connectors.files.csv_files import CsvReaderFormat
from funken.connectors.files.line_files import LineFormat
from funken.connectors.reading import MalformedRecord, MalformedRecordPolicy
from funken.errors import MessageMalformed, SourceNotReadable

ROW = Types.ROW_NAMED(["s", "n"], [Types.STRING(), Types.LONG()])
NAMED = Types.ROW_NAMED(["s"], [Types.STRING()])
DEEP = b'{"s": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"


def csv(policy):
    return CsvReaderFormat(CsvSchema(ROW), malformed=policy)


def csv_lines(policy):
    return LineFormat(CsvSchema(ROW), policy)


def json(policy):
    return LineFormat(JsonSchema(), policy)


def typed_json(policy):
    return LineFormat(JsonSchema(NAMED), policy)


BAD = {
    "csv charset": (csv, b"caf\xe9,2"), "csv quote": (csv, b'"a"b,2'), "csv number": (csv, b"a,2_0"), "csv fields": (csv, b"a"),
    "csv range": (csv, b"a,9223372036854775808"), "lines charset": (csv_lines, b"caf\xe9,2"),
    "lines quote": (csv_lines, b'"a"b,2'),
    "json charset": (json, b'{"s": "caf\xe9"}'), "json depth": (json, DEEP), "json": (json, b'{"s": '),
    "typed json charset": (typed_json, b'{"s": "caf\xe9"}'), "typed json depth": (typed_json, DEEP),
    "typed json number": (lambda policy: LineFormat(JsonSchema(ROW), policy), b'{"s": "a", "n": "2_0"}'),
}  # fmt: skip


def good(make):
    return [b"a,1", b"b,3"] if make in (csv, csv_lines) else [b'{"s": "a", "n": 1}', b'{"s": "b", "n": 3}']


def read(path, format, vectorized):
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
    return env.from_source(FileSource.for_format(format, str(path)).build()).execute_and_collect(limit=99)


@pytest.mark.parametrize("vectorized", [True, False], ids=["columns", "records"])
@pytest.mark.parametrize("packed", [bytes, gzip.compress], ids=["", "compressed"])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("name", BAD)
def test_a_record_that_is_none_is_left_to_the_policy(tmp_path, name, place, packed, vectorized):
    make, bad = BAD[name]
    lines = good(make)
    lines.insert(place, bad)
    path = tmp_path / ("a.gz" if packed is gzip.compress else "a")
    path.write_bytes(packed(b"\n".join(lines) + b"\n"))
    fields = [record["s"] for record in read(path, make(MalformedRecordPolicy.SKIP), vectorized)]
    emitted = read(path, make(MalformedRecordPolicy.EMIT), vectorized)

    assert fields == ["a", "b"]
    [malformed] = [record for record in emitted if type(record) is MalformedRecord]
    assert emitted.index(malformed) == place
    assert malformed.message.rstrip(b"\n") == bad
    assert malformed.where.startswith(str(path))
    with pytest.raises(MessageMalformed, match=str(path)):
        read(path, make(MalformedRecordPolicy.FAIL), vectorized)


def test_a_header_that_is_none_fails_whatever_the_policy(tmp_path):
    (tmp_path / "a").write_bytes(b"caf\xe9,n\na,1\n")
    format = CsvReaderFormat(CsvSchema(ROW), header=True, malformed=MalformedRecordPolicy.SKIP)

    with pytest.raises(SourceNotReadable, match=r"a cannot be read by CsvReaderFormat: the byte e9 in it is not UTF-8"):
        read(tmp_path, format, True)


def test_positions_count_rows_that_are_none(tmp_path, job):
    (tmp_path / "a").write_bytes(b"".join(b'"a"b,2\n' if n % 3 == 0 else b"s,%d\n" % n for n in range(60)))
    source = FileSource.for_format(csv(MalformedRecordPolicy.SKIP), str(tmp_path)).build()

    for steps in range(0, 30, 3):
        found = job.run_with_crash(source, (1, 2, steps, 1))
        assert sorted(row.n for row in found) == [n for n in range(60) if n % 3]
