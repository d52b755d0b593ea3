"""Files of delimited text and of JSON lines with oddities, and what readers of rows and of columns give of them."""

import bz2
import datetime
import gzip
import pickle
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from hypothesis import HealthCheck, settings

from funken import Configuration, FileSource, StreamExecutionEnvironment, Types, WatermarkStrategy
from funken.columnar.kernels.columns import Columns
from funken.connectors import ConnectorContext
from funken.connectors.reading import MalformedRecordPolicy
from funken.errors import FunkenError
from funken.expr.types import Composite

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
    "o": [
        ['{"x": 1, "y": "a"}', '{"y": "né", "x": -2, "z": [1]}', '{"x": 3, "y": "", "z": {"x": "{"}}'],
        ['{"x": 1.0, "y": "a"}', '{"x": 1}', '{"x": null, "y": "a"}', '{"y": "a", "x": 1, "x": 2}', '{"x": Inf, "y": ""}'],
        ["null", "{}", "5", "[]", '{"x": 1,}'],
    ],
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
    if isinstance(schema, Composite):
        wanted = sorted(dice.sample(range(len(schema)), dice.randrange(len(schema) + 1)))
        some, _ = outcome(source, (schema, wanted), limit)
        assert not isinstance(some, str)
        assert len(some[0]) == len(expected[0])
        assert some[1] == expected[1]
    assert sorted(resumed(source, schema, dice, limit)) == sorted(expected[0])
    return blocks


CALM = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def environment(vectorized):
    options = Configuration({"pipeline.vectorized": vectorized})
    return StreamExecutionEnvironment.create_local_environment(1, options)
