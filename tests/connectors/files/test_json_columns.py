"""JSON lines as blocks of columns, of declared types and without: the records that the rows give."""

import gzip
import json
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken import DiscardingSink, FileSource, Types
from funken.columnar.expressions import NotVectorizable
from funken.columnar.records import NOT_READ
from funken.connectors import JsonSchema
from funken.connectors.files import line_files
from funken.connectors.files import line_files as lines
from funken.connectors.files.line_files import LineFormat
from funken.connectors.formats.arrow_columns import is_held
from funken.connectors.formats.csv_schema import CsvSchema
from funken.connectors.formats.json_columns import JsonColumns
from funken.connectors.formats.json_types import JsonLeaves, parsed_exactly
from funken.connectors.formats.record_types import from_documents, shape_of
from funken.errors import OperatorFailed
from funken.expr.types import atomic_fields, name_of
from tests.support import fields
from tests.support.texts import (
    CALM,
    DECLARED,
    NAMES,
    POLICIES,
    UNTIMED,
    compared,
    document,
    environment,
    json_text,
    kinds_of,
    outcome,
    saved,
)


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
    names = [(name, name) for name in dice.sample([*NAMES, "o"], dice.randrange(1, 7))]
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
    leaves = atomic_fields(schema)
    held = [number for number, (_, kind) in enumerate(leaves) if is_held(kind)]
    wanted = sorted(dice.sample(held, dice.randrange(len(held) + 1)))

    def read(record):
        if not isinstance(record, dict):
            return repr(record)
        return [repr(at(record, name_of(schema, leaves[number][0]))) for number in wanted]

    def at(record, path):
        for name in path.split("."):
            record = record.get(name, _ABSENT) if isinstance(record, dict) else _ABSENT
        return record

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
        "{a: int, b: str?, c: int or float, d: dict or list of JSON, e: None of JSON, ...}"
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
    monkeypatch.setattr(lines, "_SAMPLE_BYTES", 30)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"a": 1}\n\n{"a": 2, "b": 3}\n{"a": null, "b": 4}\n'))
    source = FileSource.for_format(LineFormat(JsonSchema()), tmp_path).build()
    assert repr(source.record_schema()) == "{a: int, ...}"
    monkeypatch.setattr(lines, "_SAMPLE_BYTES", 8)
    with pytest.raises(NotVectorizable, match="does not begin with objects"):
        source.record_schema()


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
    schema, make = JsonSchema(declared), from_documents(shape_of(declared, "a test", leaves=JsonLeaves()))
    messages = [document(dice, names, quirks).encode("utf-8", "surrogatepass") for _ in range(dice.choice([1, 3, 20]))]
    messages += dice.sample([b"null", b"[1]", b"{", b'{"s": 1} {}', b""], int(dice.random() < quirks))

    def by_dict(message):
        found = parsed_exactly(message)
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
    '{"f": null}', "{}", '{"f": 0.5}{"f": 0.5}', '{"f": Inf}', '{"f": 0.5, "o": [Inf]}', '{"f": -NaN}', ' {"f": 0.5}',
    '{"f": 1e400}', '{"f": "0.5"}', '{"f": 0.5,\n"g": 1}', '[0.5]', '{"f": 0.5, "o": "\udcff"}',
    '{"f": 0.5}\n\n{"f": 0.5}', '{"f":\n0.5}\n{"f": 0.5}{"f": 0.5}',
])  # fmt: skip
def test_documents_that_the_parsers_take_differently_are_left_to_rows(text):
    schema = JsonSchema(Types.ROW_NAMED(["f"], [Types.DOUBLE()]))
    columns = schema.lines_to_columns(schema.record_schema(), None)
    assert [row["f"] for row in columns(b'{"f": 2.0, "o": 1}\n{"f": -0.25}\n').to_list()] == [2.0, -0.25]
    assert columns(text.encode("utf-8", "surrogateescape") + b"\n") is None
    others = b'{"f": 0.25}\n' * 3
    assert [row["f"] for row in columns(others + b'{"f": 2.0}\n' + others).to_list()] == [0.25] * 3 + [2.0] + [0.25] * 3
    assert columns(others + text.encode("utf-8", "surrogateescape") + b"\n" + others) is None


LIMIT = 12


@pytest.mark.parametrize(("function", "note"), [
    (lambda r: (r["s"], r["i"]), "vectorized"),
    (lambda r: (r.get("s"), "i" in r), "vectorized"),
    (lambda r: (r["s"], r.get("more", 0)), "per record: calls get('more'), which some documents may have"),
    (lambda r: "more" in r, "per record: tests with 'in' something else than constants"),
    (lambda r: (len(r), r["s"]), "per record: calls len() with {i: int, s: str, f: float, l: list of int, ...}"),
    (lambda r: 1 if r else 0, "per record: asks whether a document is true"),
    (lambda r: {**r, "i": 0}, "per record: unpacks {i: int, s: str, f: float, l: list of int, ...} with **"),
    (lambda r: (r["s"], r), "per record: hands on whole records, which may have other fields than the documents looked at"),
    (lambda r: r["l"][0], "vectorized"),
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


@pytest.mark.parametrize(("function", "note"), [
    (lambda r: (r["user"]["id"], r["user"]["at"]["city"]), "vectorized"),
    (lambda r: r.get("user").get("id", 7) + r["n"], "vectorized"),
    (lambda r: "id" in r["user"], "vectorized"),
    (lambda r: r["user"].get("more"), "per record: calls get('more'), which some documents may have"),
    (lambda r: r["user"], "per record: hands on whole records, which may have other fields than the documents looked at"),
    (lambda r: r["user"]["tags"], "per record: its field 'user.tags' is used, and no column holds a list of JSON"),
    (lambda r: r["none"], "per record: its field 'none' is used, and no column holds a dict of JSON"),
])  # fmt: skip
def test_fields_of_objects_within_documents_have_columns(tmp_path, function, note):
    documents = [
        {"user": {"id": n, "at": {"city": f"c{n % 7}", "zip": n}, "tags": []}, "n": n / 2, "none": {}}
        for n in range(900)
    ]
    documents += [{**each, "user": {"more": n, **each["user"]}} for n, each in enumerate(documents)]
    documents += [{"user": {"id": 2**70, "at": {"city": "far"}, "tags": [1]}, "n": 0.5, "none": {}}] * 2
    (tmp_path / "a.json").write_text("".join(json.dumps(each) + "\n" for each in documents))
    found = []
    for vectorized in (False, True):
        env = environment(vectorized)
        source = FileSource.for_format(LineFormat(JsonSchema()), tmp_path).build()
        results = (
            env.from_source(source, UNTIMED, "files").filter(lambda r: r["user"]["at"]["city"] != "c3").map(function)
        )
        results.sink_to(DiscardingSink())
        if vectorized:
            assert f": {note}" in env.explain()
        found.append(results.execute_and_collect(limit=9999))
    assert found[0] == found[1] == [function(each) for each in documents if each["user"]["at"]["city"] != "c3"]


@pytest.mark.parametrize(("function", "note"), [
    (lambda r: (r["n"], r["price"]), "vectorized"),
    (lambda r: r["price"] / 3, "vectorized"),
    (lambda r: float(r["price"]) if r["price"] else -0.5, "vectorized"),
    (lambda r: r["price"] * 1.5 - r["half"], "vectorized"),
    (lambda r: r["price"] == r["n"], "vectorized"),
    (lambda r: r["price"] is None, "vectorized"),
    (lambda r: r["price"] + 1, "per record: computes int or float + int"),
    (lambda r: str(r["price"]), "per record: calls str() with int or float"),
    (lambda r: -r["price"], "per record: computes - of int or float"),
    (lambda r: isinstance(r["price"], int), "per record: computes with a int or float"),
    (lambda r: r["price"] if r["n"] else 0, "per record: gives sometimes int or float and sometimes int"),
])  # fmt: skip
@pytest.mark.parametrize("large", [0, 2**53 + 1, 10**400, True])
def test_numbers_of_which_some_are_ints_and_some_floats_have_a_column(tmp_path, function, note, large):
    documents = [{"n": n, "price": n // 2 if n % 4 else n / 4, "half": n / 2} for n in range(2000)]
    documents[1500]["price"] = large
    (tmp_path / "a.json").write_text("".join(json.dumps(each) + "\n" for each in documents))
    found = []
    for vectorized in (False, True):
        env = environment(vectorized)
        source = FileSource.for_format(LineFormat(JsonSchema()), tmp_path).build()
        results = env.from_source(source, UNTIMED, "files").filter(lambda r: 12 <= r["price"] < 600).map(function)
        results.sink_to(DiscardingSink())
        if vectorized:
            assert f"columns: map: {note}" in env.explain()
        found.append(results.execute_and_collect(limit=9999))
    expected = [function(each) for each in documents if 12 <= each["price"] < 600]
    assert list(map(repr, found[0])) == list(map(repr, found[1])) == list(map(repr, expected))


@pytest.mark.parametrize("price", ["12", None, [12]])
def test_what_is_no_number_is_none_in_columns_either(tmp_path, price):
    """NumPy would make a float of a text."""
    documents = [{"price": 1}, {"price": 1.5}] * 600 + [{"price": price}]
    (tmp_path / "a.json").write_text("".join(json.dumps(each) + "\n" for each in documents))
    source = FileSource.for_format(LineFormat(JsonSchema()), tmp_path).build()
    results = environment(True).from_source(source, UNTIMED, "files").filter(lambda r: r["price"] > 1).name("dear")
    with pytest.raises(OperatorFailed, match="not supported between"):
        results.map(lambda r: r["price"]).execute_and_collect(limit=9999)


def test_a_block_function_is_given_such_numbers_as_objects(tmp_path):
    (tmp_path / "a.json").write_text('{"n": 1}\n{"n": 1.5}\n')
    env = environment(True)
    source = FileSource.for_format(LineFormat(JsonSchema()), tmp_path).build()
    numbers = env.from_source(source, UNTIMED, "files").map(lambda r: (r["n"],))
    assert numbers.map_batches(lambda block: [repr(each) for each in block[0]]).execute_and_collect(limit=3) == [
        "1",
        "1.5",
    ]


@pytest.mark.parametrize("function", [
    lambda r: r["user"] is not None, lambda r: bool(r["user"]), lambda r: isinstance(r["user"], dict),
    lambda r: "id" in (r["user"] or "x"),
])  # fmt: skip
def test_an_object_within_that_is_null_is_seen_by_who_looks_at_no_field_of_it(tmp_path, function):
    documents = [{"n": n, "user": {"tags": [], "id": n}} for n in range(1200)]
    documents[1100]["user"] = None
    (tmp_path / "a.json").write_text("".join(json.dumps(each) + "\n" for each in documents))
    source = FileSource.for_format(LineFormat(JsonSchema()), tmp_path).build()
    for vectorized in (True, False):
        results = environment(vectorized).from_source(source, UNTIMED, "files").map(lambda r: (r["n"], function(r)))
        assert results.execute_and_collect(limit=9999) == [(each["n"], function(each)) for each in documents]


def test_only_the_fields_that_are_read_are_made(tmp_path, monkeypatch):
    """Of all fields of undeclared documents there once were no columns, although ``explain()`` promised them."""
    line = b'{"a": 1, "user": {"id": 2, "name": "al"}}\n'
    (tmp_path / "a.json").write_bytes(line * 50)
    made, of_lines = [], JsonColumns.of_lines

    def spied(self, data):
        made.append(of_lines(self, data))
        return made[-1]

    monkeypatch.setattr(JsonColumns, "of_lines", spied)
    for function, note, record in [
        (lambda r: (r["a"], r["user"]["id"]), "reads 2 of 3 fields: a, user.id", {"user": {"id": 2, "name": NOT_READ}, "a": 1}),
        (lambda r: (r["a"], r["user"]["id"], r["user"]["name"]), "reads 3 of 3 fields", json.loads(line)),
    ]:  # fmt: skip
        env = environment(True)
        source = FileSource.for_format(LineFormat(JsonSchema()), tmp_path).build()
        results = env.from_source(source, UNTIMED, "files").map(function)
        results.sink_to(DiscardingSink())
        assert f"projection: files: {note}" in env.explain()
        assert results.execute_and_collect(limit=99) == [function(json.loads(line))] * 50
        assert made.pop().to_list() == [record] * 50


def test_after_a_variable_of_a_function_has_changed_documents_are_read_whole(tmp_path, monkeypatch):
    """The function looks at another field from then on, which nobody had read."""
    (tmp_path / "a.json").write_text("".join(json.dumps({"i": n, "j": -n}) + "\n" for n in range(200)))
    monkeypatch.setattr(line_files, "COLUMN_CHUNK", 400)
    found = []
    for vectorized in (True, False):
        monkeypatch.setattr(fields, "FIELD", "i")
        source = FileSource.for_format(LineFormat(JsonSchema()), tmp_path).build()
        stream = environment(vectorized).from_source(source, UNTIMED, "files").map(fields.field).name("field")
        said = stream.get_execution_environment().explain()
        assert ("projection: files: reads 1 of 2 fields: i" in said) is vectorized
        found.append(stream.map(fields.changing).execute_and_collect(limit=200))
    assert found[0][:21] == found[1][:21] == [*range(21)]
    assert found[0][-1] == found[1][-1] == -199
