"""CSV and JSON lines as blocks of columns: the records that the rows give, whatever is in the text and wherever it is cut."""

import bz2
import csv
import datetime
import decimal
import gzip
import json
import pickle
import random
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from funken import Configuration, DiscardingSink, FileSource, StreamExecutionEnvironment, Types, WatermarkStrategy
from funken.columnar.expressions import NotVectorizable
from funken.columnar.kernels.columns import Columns
from funken.connectors import ConnectorContext, JsonSchema
from funken.connectors.files import csv_files, line_files, lines
from funken.connectors.files.csv_files import CsvReaderFormat
from funken.connectors.files.line_files import LineFormat
from funken.connectors.formats.arrow_columns import NOT_READ, is_held
from funken.connectors.formats.csv_schema import CsvSchema
from funken.connectors.formats.decoding import MalformedRecord, MalformedRecordPolicy
from funken.connectors.formats.json_schema import parsed
from funken.connectors.formats.record_types import from_documents, shape_of
from funken.errors import FunkenError

UNTIMED = WatermarkStrategy.no_watermarks()
POLICIES = list(MalformedRecordPolicy)
NAMES = ["i", "s", "f", "b", "d"]


class Whole(NamedTuple):
    i: int
    s: str
    f: float
    b: bool
    d: datetime.date


@dataclass
class Part:
    s: str
    f: float | None = 0.5
    i: int = 7
    b: bool | None = None


DECLARED = {
    "row": Types.ROW_NAMED(NAMES, [Types.INT(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN(), Types.SQL_DATE()]),
    "tuple": Types.TUPLE([Types.LONG(), Types.STRING(), Types.FLOAT(), Types.BOOLEAN(), Types.BIG_DEC()]),
    "arrow": pa.schema([("f", pa.float64()), ("i", pa.int8()), ("s", pa.string()), ("l", pa.list_(pa.int64()))]),
    "named tuple": Whole,
    "dataclass": Part,
}

#: fields of text, in order of how often they come: of the right type; of a form that one parser knows; wrong
TEXTS = {
    "i": [
        ["1", "-7", "007", "0", "2147483648"], ["+5", " 3 ", "1_0", "0x10", "9" * 19, "9" * 25, "\u0663", "-0"],
        ["", "x", "1.0", "1e3"],
    ],
    "f": [
        ["0.5", "-1.25", "1e9", "2", "1.", ".5", "-0.0"],
        ["nan", "NaN", "inf", "+1.5", " 2.5\t", "1e400", "1_0.5", "nan(1)", "-Infinity"], ["", "x", "0x1p3"],
    ],
    "b": [["true", "false", "1", "0"], ["True", "FALSE", "tRuE", " true"], ["", "yes", "2"]],
    "s": [["tea", "", "a b", "né 😀", "x" * 30], ["a\0b", "null", "-", "'", "\u2028", "0x", "#", "nan(", "\\"], ["a\"b", "\r"]],
    "d": [["2026-11-23", "2024-02-29"], ["20261123", "2026-W47-1"], ["", "2026-13-01", "tea"]],
    "l": [["1;2", "3"], ["1_0;2"], ["", "x;1"]],
    "n": [["0.25", "7"], ["1E+3", "NaN"], ["", "x"]],
}  # fmt: skip


def written_field(dice, kind, quirks):
    level = 0 if dice.random() > quirks else dice.choice([1, 1, 2])
    text = dice.choice(TEXTS[kind][level])
    if dice.random() < 0.3:
        inside = text.replace('"', '""')
        if kind == "s" and dice.random() < 0.3:
            inside = dice.choice(["a,b", 'say ""no""', "two\nlines", "two\r\nlines", '""', "né,"])
        ends = dice.choice(['"', '"', '"', '"x', ""]) if dice.random() < quirks else '"'
        return f'"{inside}{ends}'
    return text


def csv_text(dice, kinds, rows, quirks, breaks):
    found = []
    for _ in range(rows):
        fields = [written_field(dice, kind, quirks) for kind in kinds]
        if not breaks:
            fields = [field.replace("\n", " ").replace("\r ", " ") for field in fields]
        if dice.random() < quirks / 4:
            fields = fields[: dice.randrange(len(fields))] if dice.random() < 0.5 else [*fields, "more"]
        found.append(",".join(fields))
        if dice.random() < quirks / 8:
            found.append(dice.choice(["", "# a comment", " ", '"', "\ufeff1"]))
    end = dice.choice(["\n", "\n", "\r\n"])
    text = end.join(found) + (end if dice.random() < 0.7 else "")
    data = text.encode()
    if dice.random() < quirks / 4 and data:
        at = dice.randrange(len(data))
        data = data[:at] + dice.choice([b"\xff", b"\r", b'"', b"\n"]) + data[at:]
    return data


#: values of documents, as their text
VALUES = {
    "i": [["1", "-7", "0", "2147483648"], ["1.0", "1e3", "-0", "9" * 19, "9" * 25], ["null", "true", '"1"', "01", "NaN"]],
    "f": [
        ["0.5", "-1.25", "1e9", "2.0", "-0.0"],
        ["2", "NaN", "Infinity", "-Infinity", "1E5", "-0", "-NaN", "Inf", "1e400"], ["null", '"1"', "1.", "nan"],
    ],
    "b": [["true", "false"], ["1"], ["null", "True"]],
    "s": [
        ['"tea"', '""', '"né 😀"'], ['"\\ud83d\\ude00"', '"\\ud800"', '"a\\u0000b"', '"{\\"f\\": 1, \\\\"', '"Inf"', '"}"'],
        ["null", "5", '"a\tb"', '"\\x"'],
    ],
    "d": [['"2026-11-23"'], ["5"], ["null", "{}"]],
    "l": [["[1, 2]", "[]"], ['{"f": 1}', "[Inf]"], ["null", "[1,]"]],
    "n": [["5"], ["0.5"], ["null"]],
    "other": [["1", '"x"', '{"f": 3}', "[{}]"], ["Inf", "-NaN", "NaN"], ["tru", "/*x*/1"]],
}  # fmt: skip


def document(dice, names, quirks):
    fields = []
    for name, kind in [*names, ("other", "other")] if dice.random() < 0.3 else names:
        level = 0 if dice.random() > quirks else dice.choice([1, 1, 2])
        key = name if dice.random() > quirks / 4 else f"\\u{ord(name[0]):04x}{name[1:]}"
        if dice.random() > quirks / 4:
            fields.append(f'"{key}":{dice.choice(["", " "])}{dice.choice(VALUES[kind][level])}')
    if dice.random() < quirks / 4 and fields:
        fields.append(dice.choice(fields))
    if dice.random() < 0.3:
        dice.shuffle(fields)
    return "{" + dice.choice([",", ", "]).join(fields) + "}"


def json_text(dice, names, rows, quirks):
    found = []
    for _ in range(rows):
        one = document(dice, names, quirks)
        if dice.random() < quirks / 4:
            one = dice.choice(
                [
                    one + document(dice, names, 0),
                    one.replace(",", ",\n", 1),
                    " " + one,
                    one[:-1],
                    "",
                    "[1]",
                    "null",
                    "\ufeff" + one,
                ]
            )
        found.append(one)
    data = dice.choice(["\n", "\n", "\r\n"]).join(found).encode("utf-8", "surrogatepass")
    if dice.random() < quirks / 4 and data:
        at = dice.randrange(len(data))
        data = data[:at] + dice.choice([b"\xff", b"\r", b"}", b"\n{"]) + data[at:]
    return data + (b"\n" if dice.random() < 0.7 else b"")


def kinds_of(declared):
    if declared is DECLARED["tuple"]:
        return ["i", "s", "f", "b", "n"]
    return {"arrow": ["f", "i", "s", "l"], "dataclass": ["s", "f", "i", "b"]}.get(
        next(name for name, each in DECLARED.items() if each is declared), NAMES
    )


def outcome(source, columns, limit, read=repr):
    context = ConnectorContext("files")
    reader = source.reader(context)
    if columns is not None:
        reader.read_record_columns(*columns)
    splits, found = source.enumerator(2), []
    splits.start()
    blocks = 0
    try:
        while given := splits.next_splits(0):
            reader.add_splits(given)
            while hasattr(got := reader.poll(limit, 0), "values"):
                blocks += isinstance(got.values, Columns)
                found += got.values.to_list() if isinstance(got.values, Columns) else got.values
    except FunkenError:  # which of two faults is found first depends on how much is parsed at a time
        return "failed", 0
    finally:
        reader.close()
    return ([read(one) for one in found], context.metrics.counter("malformedRecords").count), blocks


def resumed(source, schema, dice, limit):
    """Return the records that readers of rows and of columns give, taking turns by their snapshots."""
    splits, found = source.enumerator(2), []
    splits.start()
    pending = []
    while True:
        reader = source.reader(ConnectorContext("files"))
        if dice.random() < 0.7:
            reader.read_record_columns(schema, None)
        reader.add_splits(pickle.loads(pickle.dumps(pending)))
        ended = True
        for _ in range(dice.randrange(1, 6)):
            got = reader.poll(limit, 0)
            if hasattr(got, "values"):
                found += got.values.to_list() if isinstance(got.values, Columns) else got.values
            elif given := splits.next_splits(0):
                reader.add_splits(given)
            else:
                break
        else:
            ended = False
        pending = reader.snapshot_state(1)
        reader.close()
        if ended:
            return [repr(one) for one in found]


@pytest.fixture(params=[1 << 20, 300, 40], ids=["large", "some", "small"])
def pieces(request, monkeypatch):
    """How much is read at a time."""
    monkeypatch.setattr(line_files, "COLUMN_CHUNK", request.param)
    monkeypatch.setattr(csv_files, "COLUMN_CHUNK", request.param)
    monkeypatch.setattr(line_files, "CHUNK", request.param)
    monkeypatch.setattr(lines, "CHUNK", request.param)


def saved(folder, dice, data, name):
    compress = dice.choice([None, None, gzip.compress, bz2.compress])
    ending = {None: "", gzip.compress: ".gz", bz2.compress: ".bz2"}[compress]
    (folder / f"{name}{ending}").write_bytes(compress(data) if compress else data)


def compared(folder, dice, file_format, schema):
    size = dice.choice([None, 25, 150, 1000])
    builder = FileSource.for_format(file_format, folder)
    source = (builder if size is None else builder.set_split_bytes(size)).build()
    limit = dice.choice([3, 1000])
    expected, _ = outcome(source, None, limit)
    found, blocks = outcome(source, (schema, None), limit)
    assert found == expected
    if isinstance(expected, str):
        return blocks
    wanted = sorted(dice.sample(range(len(schema)), dice.randrange(len(schema) + 1)))
    some, _ = outcome(source, (schema, wanted), limit)
    assert not isinstance(some, str)
    assert len(some[0]) == len(expected[0])
    assert some[1] == expected[1]
    assert sorted(resumed(source, schema, dice, limit)) == sorted(expected[0])
    return blocks


CALM = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@CALM
@given(seed=st.integers(0, 2**32), kind=st.sampled_from(sorted(DECLARED)), quirks=st.sampled_from([0, 0.02, 0.3]))
def test_csv_gives_the_same_of_columns_and_of_rows(pieces, tmp_path_factory, seed, kind, quirks):
    dice, folder = random.Random(seed), tmp_path_factory.mktemp("csv")
    declared = DECLARED[kind]
    schema = CsvSchema(
        declared, null_literal=dice.choice([None, None, "null", ""]), quote=dice.choice(['"', '"', None]),
        escape=dice.choice([None, None, "\\"]), comment=dice.choice([None, None, "#"]),
    )  # fmt: skip
    kinds, whole = kinds_of(declared), dice.random() < 0.5
    header = whole and dice.random() < 0.5
    order = list(range(len(kinds)))
    for name in range(dice.choice([1, 2])):
        if header:
            dice.shuffle(order)
        data = csv_text(dice, [kinds[at] for at in order], dice.choice([0, 1, 5, 60]), quirks, whole)
        if header:
            first = ",".join(f'"{schema.names[at]}"' if dice.random() < 0.2 else schema.names[at] for at in order)
            data = (dice.choice(["", "", "\ufeff"]) + first + "\n").encode() + data
        saved(folder, dice, data, f"{name}.csv")
    if not any(file.stat().st_size for file in folder.iterdir()):
        return
    policy = dice.choice(POLICIES)
    skips = dice.random() < 0.2
    file_format = CsvReaderFormat(schema, header, policy, skips) if whole else LineFormat(schema, policy)
    compared(folder, dice, file_format, schema.record_schema())


@CALM
@given(seed=st.integers(0, 2**32), kind=st.sampled_from(sorted(DECLARED)), quirks=st.sampled_from([0, 0.02, 0.3]))
def test_json_lines_give_the_same_of_columns_and_of_rows(pieces, tmp_path_factory, seed, kind, quirks):
    dice, folder = random.Random(seed), tmp_path_factory.mktemp("json")
    schema = JsonSchema(DECLARED[kind])
    names = list(zip(CsvSchema(DECLARED[kind]).names, kinds_of(DECLARED[kind]), strict=True))
    for name in range(dice.choice([1, 2])):
        saved(folder, dice, json_text(dice, names, dice.choice([0, 1, 5, 60]), quirks), f"{name}.json")
    if not any(file.stat().st_size for file in folder.iterdir()):
        return
    compared(folder, dice, LineFormat(schema, dice.choice(POLICIES)), schema.record_schema())


#: what a reader of documents without a type is asked for
_ABSENT = "absent"


@CALM
@given(seed=st.integers(0, 2**32), quirks=st.sampled_from([0, 0.02, 0.3]))
def test_documents_without_a_declared_type_give_the_same_of_the_fields_that_are_read(
    pieces, tmp_path_factory, seed, quirks
):
    dice, folder = random.Random(seed), tmp_path_factory.mktemp("json")
    names = [(name, name) for name in dice.sample(NAMES, dice.randrange(1, 6))]
    saved(folder, dice, json_text(dice, names, dice.choice([1, 5, 60]), quirks), "0.json")
    file_format = LineFormat(JsonSchema(), dice.choice(POLICIES))
    size, limit = dice.choice([None, 25, 150, 1000]), dice.choice([3, 1000])
    builder = FileSource.for_format(file_format, folder)
    source = (builder if size is None else builder.set_split_bytes(size)).build()
    try:
        schema = source.record_schema()
    except NotVectorizable:
        return
    saved(folder, dice, json_text(dice, names, dice.choice([0, 5, 60]), quirks), "1.json")
    assert outcome(source, (schema, None), limit) == outcome(
        source, None, limit
    )  # whole documents are left as they are
    held = [number for number, kind in enumerate(schema) if is_held(kind)]
    wanted = sorted(dice.sample(held, dice.randrange(len(held) + 1)))

    def read(record):
        if not isinstance(record, dict):
            return repr(record)
        return [repr(record.get(schema.names[number], _ABSENT)) for number in wanted]

    expected, _ = outcome(source, None, limit, read)
    found, blocks = outcome(source, (schema, wanted), limit, read)
    assert found == expected
    assert quirks or blocks


def test_a_sample_shows_which_fields_documents_have():
    schema = JsonSchema()
    lines = [
        b'{"a": 1, "b": "x", "c": 1.5, "d": [], "e": null, "f": 1}',
        b'{"b": null, "a": 2, "c": 2, "d": {}, "e": null}',
    ]
    assert repr(schema.schema_of_sample(lines)) == (
        "{a: int, b: str?, c: float or int of JSON, d: dict or list of JSON, e: None of JSON, ...}"
    )
    for lines, reason in [
        ([], "a file does not begin with objects"),
        ([b"[1]"], "a file does not begin with objects"),
        ([b'{"a":'], "a file does not begin with it"),
        ([b'{"a": 1}', b'{"b": 1}'], "have no field in common"),
    ]:
        with pytest.raises(NotVectorizable, match=reason):
            schema.schema_of_sample(lines)


def test_a_sample_is_of_whole_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(line_files, "_SAMPLE_BYTES", 30)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"a": 1}\n\n{"a": 2, "b": 3}\n{"a": null, "b": 4}\n'))
    source = FileSource.for_format(LineFormat(JsonSchema()), tmp_path).build()
    assert repr(source.record_schema()) == "{a: int, ...}"
    monkeypatch.setattr(line_files, "_SAMPLE_BYTES", 8)
    with pytest.raises(NotVectorizable, match="does not begin with objects"):
        source.record_schema()


def rows_of(schema, data):
    """Return what the lines give one by one, ``None`` if one of them is malformed."""
    found = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    messages = found if found[-1] else found[:-1]
    try:
        return [repr(schema.deserialize(message)) for message in messages]
    except (ValueError, KeyError, csv.Error, decimal.InvalidOperation):
        return None


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_piece_of_text_becomes_the_records_of_its_lines_or_nothing(form):
    """Few lines with one oddity, so that nothing else hides it."""
    dice, taken, odd = random.Random(7), 0, 0
    for _ in range(6000):
        kind = dice.choice(sorted(DECLARED))
        declared, kinds = DECLARED[kind], kinds_of(DECLARED[kind])
        quirks = dice.choice([0, 0.1, 0.2])
        if form == "csv":
            null, escape = dice.choice([None, None, "null"]), dice.choice([None, None, None, "\\"])
            schema = CsvSchema(declared, null_literal=null, quote=dice.choice(['"', '"', None]), escape=escape)
            data = csv_text(dice, kinds, dice.randrange(1, 3), quirks, dice.random() < 0.2)
        else:
            schema = JsonSchema(declared)
            data = json_text(
                dice, list(zip(CsvSchema(declared).names, kinds, strict=True)), dice.randrange(1, 3), quirks
            )
        columns = schema.lines_to_columns(schema.record_schema(), None)
        block = columns(data) if data else None
        if block is not None:
            taken += 1
            odd += quirks > 0
            assert [repr(record) for record in block.to_list()] == rows_of(schema, data), data
    assert taken > 1000
    assert odd > 300


@dataclass
class Lists:
    s: str
    n: list = field(default_factory=list)
    i: int = field(default=3, kw_only=True)


def outcome_of(call, *given):
    try:
        return repr(call(*given))
    except ValueError as error:
        return type(error).__name__


@CALM
@given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from([*sorted(DECLARED), "lists"]),
    quirks=st.sampled_from([0, 0.05, 0.3]),
)
def test_records_of_documents_are_those_that_their_dicts_make(seed, kind, quirks):
    dice = random.Random(seed)
    declared = DECLARED.get(kind, Lists)
    names = list(zip(["s", "n", "i"], ["s", "l", "i"], strict=True))
    if kind != "lists":
        names = list(zip(CsvSchema(declared).names, kinds_of(declared), strict=True))
    schema, make = JsonSchema(declared), from_documents(shape_of(declared, "a test"))
    messages = [document(dice, names, quirks).encode("utf-8", "surrogatepass") for _ in range(dice.choice([1, 3, 20]))]
    messages += dice.sample([b"null", b"[1]", b"{", b'{"s": 1} {}', b""], int(dice.random() < quirks))

    def by_dict(message):
        found = parsed(message)
        return found if found is None else make(found)

    for message in messages:
        assert outcome_of(schema.deserialize, message) == outcome_of(by_dict, message)
    expected = outcome_of(lambda: [each for each in map(by_dict, messages) if each is not None])
    found = outcome_of(schema.deserialize_block, messages)
    assert found == expected or (
        found.endswith("Error") and expected.endswith("Error")
    )  # of several, another is found first
    if kind == "lists":
        one, other = schema.deserialize_block([b'{"s": "a"}', b'{"s": "b"}'])
        assert one.n is not other.n


@pytest.mark.parametrize("text", [
    "0x10,a", '1,"a"b', "1,a\rb", "1,a,", "1", '1,"a', '1,"a\nb"', "1,a\n\n2,b", "1_0,a", "\u0661,a", "1,\udcff",
    "\ufeff1,a", "1.0,a",
])  # fmt: skip
def test_csv_that_the_parsers_take_differently_is_left_to_rows(text):
    schema = CsvSchema(Types.ROW_NAMED(["i", "s"], [Types.LONG(), Types.STRING()]))
    columns = schema.lines_to_columns(schema.record_schema(), None)
    assert columns(b"1,a\n2,b\n").to_list() == [schema.deserialize(b"1,a"), schema.deserialize(b"2,b")]
    assert columns(text.encode("utf-8", "surrogateescape") + b"\n") is None
    unread = schema.lines_to_columns(schema.record_schema(), [])
    assert unread(text.encode("utf-8", "surrogateescape") + b"\n") is None


@pytest.mark.parametrize("text", [
    '{"f": 1}', '{"f": null}', "{}", '{"f": 0.5}{"f": 0.5}', '{"f": Inf}', '{"f": 0.5, "o": [Inf]}', '{"f": -NaN}', ' {"f": 0.5}',
    '{"f": 2.0, "\\u0066": 1}', '{"f": "0.5"}', '{"f": 0.5,\n"g": 1}', '[0.5]', '{"\\u0066": 1}', '{"f": 0.5, "o": "\udcff"}',
    '{"f": 0.5, "f": 1}', '{"f": 0.5}\n\n{"f": 0.5}', '{"f":\n0.5}\n{"f": 0.5}{"f": 0.5}',
])  # fmt: skip
def test_documents_that_the_parsers_take_differently_are_left_to_rows(text):
    schema = JsonSchema(Types.ROW_NAMED(["f"], [Types.DOUBLE()]))
    columns = schema.lines_to_columns(schema.record_schema(), None)
    assert [row["f"] for row in columns(b'{"f": 2.0, "o": 1}\n{"f": -0.25}\n').to_list()] == [2.0, -0.25]
    assert columns(text.encode("utf-8", "surrogateescape") + b"\n") is None
    others = b'{"f": 0.25}\n' * 3
    assert [row["f"] for row in columns(others + b'{"f": 2.0}\n' + others).to_list()] == [0.25] * 3 + [2.0] + [0.25] * 3
    assert columns(others + text.encode("utf-8", "surrogateescape") + b"\n" + others) is None


def environment(vectorized):
    options = Configuration({"pipeline.vectorized": vectorized})
    return StreamExecutionEnvironment.create_local_environment(1, options)


def test_programs_read_text_as_columns_and_only_the_fields_that_they_use(tmp_path):
    row = Types.ROW_NAMED(["i", "s", "f"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
    texts = {
        "csv": (LineFormat(CsvSchema(row)), "".join(f'{n},"k{n % 3}",{n / 4}\n' for n in range(5000))),
        "whole": (
            CsvReaderFormat(CsvSchema(row), header=True),
            "f,i,s\n" + "".join(f"{n / 4},{n},k{n % 3}\n" for n in range(5000)),
        ),
        "json": (
            LineFormat(JsonSchema(row)),
            "".join(json.dumps({"i": n, "s": f"k{n % 3}", "f": n / 4}) + "\n" for n in range(5000)),
        ),
    }  # fmt: skip
    for name, (file_format, text) in texts.items():
        (tmp_path / name).write_text(text)
        found = []
        for vectorized in (False, True):
            env = environment(vectorized)
            stream = env.from_source(FileSource.for_format(file_format, tmp_path / name).build(), UNTIMED, "files")
            pairs = stream.filter(lambda r: r["i"] % 7 == 1).map(lambda r: (r["s"], r["i"]))
            pairs.sink_to(DiscardingSink())
            plan = env.explain()
            assert ("columns: files: vectorized" in plan) is vectorized
            assert ("projection: files: reads 2 of 3 fields: i, s" in plan) is vectorized
            found.append(pairs.execute_and_collect(limit=9999))
        assert found[0] == found[1] == [(f"k{n % 3}", n) for n in range(5000) if n % 7 == 1]


LIMIT = 12


@pytest.mark.parametrize(("function", "note"), [
    (lambda r: (r["s"], r["i"]), "vectorized"),
    (lambda r: (r.get("s"), "i" in r), "vectorized"),
    (lambda r: (r["s"], r.get("more", 0)), "per record: calls get('more'), which some documents may have"),
    (lambda r: "more" in r, "per record: tests with 'in' something else than constants"),
    (lambda r: (len(r), r["s"]), "per record: calls len() with {i: int, s: str, f: float, l: list of JSON, ...}"),
    (lambda r: 1 if r else 0, "per record: asks whether a document is true"),
    (lambda r: {**r, "i": 0}, "per record: unpacks {i: int, s: str, f: float, l: list of JSON, ...} with **"),
    (lambda r: (r["s"], r), "per record: hands on whole records, which may have other fields than the documents looked at"),
    (lambda r: r["l"][0], "per record: takes an item of list of JSON"),
    (lambda r: r["f"] > LIMIT, "vectorized"),
])  # fmt: skip
def test_programs_read_documents_without_a_declared_type_as_columns(tmp_path, function, note):
    documents = [{"i": n, "s": f"k{n % 3}", "f": n / 4, "l": [n]} for n in range(3000)]
    documents[2000:] = [{"more": n, **each} for n, each in enumerate(documents[2000:])]
    documents.append({"f": 0.5, "s": "last", "i": 2**70, "l": [None]})
    (tmp_path / "a.json").write_text("".join(json.dumps(each) + "\n" for each in documents))
    found = []
    for vectorized in (False, True):
        env = environment(vectorized)
        stream = env.from_source(FileSource.for_format(LineFormat(JsonSchema()), tmp_path).build(), UNTIMED, "files")
        results = stream.filter(lambda r: r["i"] % 7 != 1).map(function)
        results.sink_to(DiscardingSink())
        if vectorized:
            plan = env.explain()
            assert f"columns: map: {note}" in plan
            source = (
                "vectorized" if note == "vectorized" else "per record: 'map' is given whole records, which may have"
            )
            assert f"columns: files: {source}" in plan
        found.append(results.execute_and_collect(limit=9999))
    assert found[0] == found[1] == [function(each) for each in documents if each["i"] % 7 != 1]


def test_after_a_variable_of_a_function_has_changed_documents_are_read_whole(tmp_path):
    (tmp_path / "a.json").write_text("".join(json.dumps({"i": n, "s": "a", "more": n}) + "\n" for n in range(3)))
    source = FileSource.for_format(LineFormat(JsonSchema()), tmp_path).build()
    schema = source.record_schema()
    columns = JsonSchema().lines_to_columns(schema, [0])
    assert columns(b'{"i": 1, "s": "b"}\n').to_list() == [{"i": 1, "s": NOT_READ, "more": NOT_READ}]
    assert JsonSchema().lines_to_columns(schema, None)(b'{"i": 1, "s": "b", "more": 1}\n') is None


class Upper(JsonSchema):
    def deserialize(self, message):
        return super().deserialize(message.upper())


@pytest.mark.parametrize(("schema", "reason"), [
    (JsonSchema(), "there is no file yet whose columns it could know; declare the record type"),
    (Upper(Part), "Upper makes no columns"),
    (CsvSchema(Part, charset="ISO-8859-1"), "reads text that is ISO-8859-1, and not UTF-8"),
    (CsvSchema(Part, delimiter="§"), "has a delimiter that is not ASCII: '§'"),
    (JsonSchema(pa.schema([(r"a\b", pa.int64())])), r"the parser cannot look for its field 'a\\b'"),
    (JsonSchema(Whole), "its field 'd' is used, and no column holds a date32[day]"),
])  # fmt: skip
def test_explain_says_why_text_is_read_in_rows(tmp_path, schema, reason):
    (tmp_path / "a").write_text("")
    env = environment(True)
    env.from_source(FileSource.for_format(LineFormat(schema), tmp_path).build(), UNTIMED, "files").filter(
        lambda r: r[0] == 1
    ).sink_to(DiscardingSink())
    assert f"columns: files: per record: {reason}" in env.explain()


def test_after_a_doubtful_quote_a_file_is_read_in_rows_and_nothing_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "COLUMN_CHUNK", 500)
    texts = [f"{n},k" for n in range(400)]
    texts[200] = '200,k"'
    (tmp_path / "a.csv").write_text("\n".join(texts))
    file_format = CsvReaderFormat(CsvSchema(Types.ROW_NAMED(["i", "s"], [Types.LONG(), Types.STRING()])))
    source = FileSource.for_format(file_format, tmp_path).build()
    expected, _ = outcome(source, None, 50)
    found, blocks = outcome(source, (source.record_schema(), None), 50)
    assert found == expected
    assert len(found[0]) == 400
    assert 0 < blocks < 8


def test_fields_that_are_not_read_are_checked(tmp_path):
    (tmp_path / "a.csv").write_text("1,a,0.5\n2,b,none\n3,c,0.5\n")
    row = Types.ROW_NAMED(["i", "s", "f"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
    source = FileSource.for_format(LineFormat(CsvSchema(row), MalformedRecordPolicy.EMIT), tmp_path).build()
    (found, malformed), _ = outcome(source, (source.record_schema(), [0]), 50)
    assert malformed == 1
    assert found[1].startswith(MalformedRecord.__name__)
    (tmp_path / "a.csv").write_text("1,a,0.5\n2,b,0.25\n")
    (found, _), blocks = outcome(source, (source.record_schema(), [0]), 50)
    assert found == [f"Row(i={n}, s={NOT_READ!r}, f={NOT_READ!r})" for n in (1, 2)]
    assert blocks == 1
