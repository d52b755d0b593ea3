"""CSV and JSON lines as blocks of columns: the records that the rows give, whatever is in the text and wherever it is cut."""

import csv
import datetime
import decimal
import json
import random
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken import DiscardingSink, FileSource, StreamFormat, Types
from funken.columnar.records import NOT_READ
from funken.connectors import JsonSchema
from funken.connectors.files import csv_files
from funken.connectors.files.csv_files import CsvReaderFormat
from funken.connectors.files.line_files import LineFormat
from funken.connectors.formats.csv_schema import CsvSchema
from funken.connectors.formats.texts import JsonTexts
from funken.connectors.reading import MalformedRecord, MalformedRecordPolicy
from funken.expr.types import STR
from tests.support.texts import (
    CALM,
    DECLARED,
    POLICIES,
    UNTIMED,
    Part,
    compared,
    csv_text,
    environment,
    json_text,
    kinds_of,
    outcome,
    saved,
)


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
@given(
    seed=st.integers(0, 2**32), odd=st.sampled_from([b"", b"", b"\xff", b"\xed\xa0\x80", b"\r", b"\0", b"\xef\xbb\xbf"])
)
def test_lines_are_the_same_as_columns_of_texts(pieces, tmp_path_factory, seed, odd):
    dice, folder = random.Random(seed), tmp_path_factory.mktemp("lines")
    for name in range(dice.choice([1, 2])):
        found = [
            "".join(dice.choice(["to be", "", " ", "né", "😀", "\u2028", "x" * 40]) for _ in range(dice.randrange(4)))
            for _ in range(dice.choice([0, 1, 5, 40]))
        ]
        data = dice.choice(["\n", "\n", "\r\n"]).join(found).encode() + dice.choice([b"\n", b""])
        if dice.random() < 0.5 and data:
            at = dice.randrange(len(data))
            data = data[:at] + odd + data[at:]
        saved(folder, dice, data, f"{name}.txt")
    if any(file.stat().st_size for file in folder.iterdir()):
        compared(folder, dice, StreamFormat.text_line_format(), STR)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
DOCUMENTS = st.fixed_dictionaries(
    {"a": st.integers(-9, 9) | JSON, "b": st.text(max_size=3) | JSON, "c": st.floats() | JSON}
)


@CALM
@given(documents=st.lists(DOCUMENTS, min_size=1, max_size=5), odd=st.integers(0, 30), dice=st.randoms())
def test_json_in_texts_is_what_python_makes_of_it(documents, odd, dice):
    like = JsonTexts.like(['{"a": 1, "b": "x", "c": 0.5}'])
    texts = [json.dumps(each, ensure_ascii=dice.random() < 0.5) for each in documents]
    if odd < 5:
        at = dice.randrange(len(texts[0]))
        texts[0] = texts[0][:at] + dice.choice(["{", "\n", " ", '"', "1", "\\"]) + texts[0][at:]
    found = like.parse(texts, None)
    if found is None:
        return
    for text, made in zip(texts, found.to_list(), strict=True):
        parsed = json.loads(text)
        assert repr(made) == repr({name: parsed[name] for name in "abc"})


def test_plain_documents_are_taken():
    like = JsonTexts.like(['{"a": 1, "b": "x", "c": 0.5}'])
    assert like.parse(['{"a": 7, "b": "né", "c": 1.0, "d": [1]}'] * 3, (1,)).to_list()[2]["b"] == "né"


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


class Timed(NamedTuple):
    i: int
    t: datetime.time


class Upper(JsonSchema):
    def deserialize(self, message):
        return super().deserialize(message.upper())


@pytest.mark.parametrize(("schema", "reason"), [
    (JsonSchema(), "there is no file yet whose columns it could know; declare the record type"),
    (Upper(Part), "Upper produces no columns"),
    (CsvSchema(Part, charset="ISO-8859-1"), "reads text that is ISO-8859-1, and not UTF-8"),
    (CsvSchema(Part, delimiter="§"), "has a delimiter that is not ASCII: '§'"),
    (JsonSchema(pa.schema([(r"a\b", pa.int64())])), r"the parser cannot look for its field 'a\\b'"),
    (JsonSchema(Timed), "its field 't' is used, and no column holds a time64[us]"),
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
