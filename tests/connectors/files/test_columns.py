"""Files of columns as blocks of columns: the same results as of records, at any cut; only the fields that are used are read."""

import datetime
import pickle
import random
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyarrow import orc, parquet

from funken import (
    AggregateFunction,
    BucketAssigner,
    Configuration,
    DiscardingSink,
    FileSink,
    FileSource,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    Types,
    WatermarkStrategy,
)
from funken.columnar.kernels.columns import Columns, columns_of
from funken.columnar.records import NOT_READ
from funken.connectors import ConnectorContext
from funken.connectors.files.arrow_files import OrcFormat, ParquetFormat
from funken.errors import JobExecutionError, OperatorFailed
from funken.expr.types import DICT, INT, Object, Optional, Record
from funken.testing import check_source
from tests.support import fields

UNTIMED = WatermarkStrategy.no_watermarks()
TIMED = WatermarkStrategy.for_bounded_out_of_orderness(5)
FACTOR = 3


class Totals(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value["i"]

    def get_result(self, accumulator):
        return accumulator


class Whole(NamedTuple):
    i: int
    f: float
    s: str


@dataclass
class Part:
    s: str
    i: int
    f: float | None = None


TYPES = {
    "i": [pa.int64(), pa.int8(), pa.int32(), pa.uint16(), pa.uint64()],
    "f": [pa.float64(), pa.float32()],
    "b": [pa.bool_()],
    "s": [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    "l": [pa.list_(pa.int64())],
    "t": [pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.date32(), pa.time64("us")],
    "o": [
        pa.struct([("x", pa.int64()), ("y", pa.string()), ("z", pa.struct([("w", pa.float64())]))]),
        pa.struct([("y", pa.string()), ("z", pa.struct([("w", pa.float64()), ("v", pa.int8())])), ("x", pa.int32())]),
    ],
}
ORC_TYPES = TYPES | {"i": TYPES["i"][:3], "s": TYPES["s"][:1], "t": [pa.date32()]}
VALUES = {
    "i": lambda dice: dice.randrange(100),
    "f": lambda dice: dice.choice([0.0, -0.0, 0.5, float("nan"), 1e9, float(dice.randrange(9))]),
    "b": lambda dice: dice.random() < 0.5,
    "s": lambda dice: dice.choice(["", "a", "be", "né", "a\0b"]),
    "l": lambda dice: [dice.randrange(9) for _ in range(dice.randrange(3))],
    "o": lambda dice: {
        "x": dice.randrange(9) if dice.random() < 0.98 else None,
        "y": dice.choice(["a", "né"]),
        "z": {"w": dice.randrange(9) / 4},
    },
    "t": lambda dice: datetime.datetime(2026, 11, 1 + dice.randrange(20)),  # noqa: DTZ001 - as Arrow returns it
}

#: steps over dicts of all fields, and what ends a program
KEEPING = [
    lambda r: r["i"] % 3 != 1,
    lambda r: r["b"],
    lambda r: r["s"] in ("a", "né") or r["f"] > 1,
    lambda r: r["i"] * FACTOR > 20,
    lambda r: r["f"] is not None,
    lambda r: len(r["l"]) > 0,
    lambda r: r["o"]["x"] != 3,
    lambda r: r["o"] is None or r["o"]["z"]["w"] < 2,
    lambda r: r["o"] is not None,
    lambda r: True if r["o"] else r["i"] > 50,
]
ENDS = [
    lambda s: s.map(lambda r: (r["s"], r["i"] + 1)),
    lambda s: s.map(lambda r: {"half": r["f"] / 2, "b": not r["b"]}),
    lambda s: s.map(lambda r: (r["t"], r["i"])),
    lambda s: s.map(lambda r: 1),
    lambda s: s.map(lambda r: (r["o"]["y"], r["o"]["z"]["w"] + 1, r["i"])),
    lambda s: s.map(lambda r: (r["o"]["z"], len(r["o"]))),
    lambda s: s.map(lambda r: ("x" in r["o"], r["i"])),
    lambda s: s.map(lambda r: (isinstance(r["o"], dict), r["i"])),
    lambda s: s.map(lambda r: (r["o"].get("more", 4), r["i"])),
    lambda s: s.map(lambda r: (r["i"] if r["i"] is not None else -1, r["s"])),
    lambda s: s.map(lambda r: (r["l"], r["i"])),
    lambda s: s.map(lambda r: r),
    lambda s: s,
    lambda s: s.key_by(lambda r: r["s"]).map(lambda r: (r["s"], r["i"])),
    lambda s: s.map(lambda r: (r["i"] % 4, r["i"])).key_by(lambda p: p[0]).sum(1),
    lambda s: (
        s.assign_timestamps_and_watermarks(TIMED.with_timestamp_assigner(lambda r, at: r["i"]))
        .key_by(lambda r: r["s"])
        .window(TumblingEventTimeWindows.of(1000))
        .aggregate(Totals())
    ),
    lambda s: s.map(lambda r: (r["t"].isoformat(), r["i"])),
    lambda s: s.map(lambda r: (str(r["t"]), r["t"])),
    lambda s: s.map(lambda r: (r["t"].year, r["t"].weekday(), r["i"])),
    lambda s: s.map(lambda r: (r["o"]["x"], r["s"])),
]


def table_of(dice, names, types, rows, nulls):
    columns = []
    for name in names:
        type_ = dice.choice(types[name])
        values = [None if name in nulls and dice.random() < 0.2 else VALUES[name](dice) for _ in range(rows)]
        if pa.types.is_date(type_):
            values = [value and value.date() for value in values]
        elif pa.types.is_time(type_):
            values = [value and datetime.time(value.day) for value in values]
        columns.append(pa.array(values, type_))
    return pa.table(dict(zip(names, columns, strict=True)))


def written(dice, folder, kind):
    """Write one or two files of random columns, the second perhaps with others."""
    names = list(TYPES)
    dice.shuffle(names)
    for number in range(dice.choice([1, 1, 2])):
        if number and dice.random() < 0.3:
            dice.shuffle(names)
        nulls = set(dice.sample(names, dice.choice([0, 0, 1, 3])))
        table = table_of(dice, names, ORC_TYPES if kind == "orc" else TYPES, dice.randrange(1, 60), nulls)
        if kind == "orc":
            orc.write_table(table, folder / f"{number}.orc", stripe_size=1, batch_size=dice.choice([1, 7, 50]))
        else:
            parquet.write_table(table, folder / f"{number}.parquet", row_group_size=dice.choice([1, 7, 50]))


def environment(vectorized, parallelism=1):
    options = {"pipeline.vectorized": vectorized, "execution.block.records": 5}
    return StreamExecutionEnvironment.create_local_environment(parallelism, Configuration(options))


def outcome(stream):
    """Return the records as text, or the kind of the failure."""
    try:
        with stream.execute_and_collect() as records:
            return Counter(repr(record) for record in records)
    except (OperatorFailed, JobExecutionError) as error:
        return type(error).__name__, type(error.__cause__).__name__


def source(format, folder, size=None):
    builder = FileSource.for_format(format, folder)
    return (builder if size is None else builder.set_split_bytes(size)).build()


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(seed=398684201, kind="parquet")  # null structs, and a branch that is taken for those only
@example(seed=495194522, kind="parquet")  # a struct of which nothing but a name is asked for
@example(seed=438, kind="orc")  # a field that only `is not None` looks at has nulls
@given(seed=st.integers(0, 2**32), kind=st.sampled_from(["parquet", "orc"]))
def test_random_programs_give_the_same_of_columns_and_of_records(tmp_path_factory, seed, kind):
    dice = random.Random(seed)
    folder = tmp_path_factory.mktemp("columns")
    written(dice, folder, kind)
    format = (ParquetFormat if kind == "parquet" else OrcFormat)()
    size = dice.choice([None, 300, 5000])
    steps = dice.sample(KEEPING, dice.randrange(3))
    end, parallelism = dice.choice(ENDS), dice.choice([1, 1, 2])
    outcomes = []
    for vectorized in (False, True):
        stream = environment(vectorized, parallelism).from_source(source(format, folder, size), UNTIMED, "files")
        for step in steps:
            stream = stream.filter(step)
        outcomes.append(outcome(end(stream)))
    expected, found = outcomes
    if end is ENDS[14] and parallelism > 1:  # a running sum shows the order in which two subtasks' records came
        expected, found = (each if isinstance(each, tuple) else sum(each.values()) for each in (expected, found))
    assert found == expected


@pytest.mark.parametrize("kind", ["parquet", "orc"])
@pytest.mark.parametrize(
    "declared",
    [
        Whole, Part, Types.TUPLE([Types.LONG(), Types.DOUBLE(), Types.STRING()]),
        Types.ROW_NAMED(["s", "i"], [Types.STRING(), Types.LONG()]), pa.schema([("f", pa.float64()), ("i", pa.int64())]),
    ],
    ids=["named tuple", "dataclass", "tuple", "row", "arrow"],
)  # fmt: skip
@pytest.mark.parametrize("nulls", [False, True])
def test_records_of_a_declared_type_are_the_same(tmp_path, kind, declared, nulls):
    rows = [{"f": n / 2, "i": None if nulls and n == 17 else n, "s": f"k{n % 3}"} for n in range(40)]
    if isinstance(declared, type(Types.TUPLE([]))):
        rows = [{"f0": row["i"], "f1": row["f"], "f2": row["s"]} for row in rows]
    table = pa.Table.from_pylist(rows)
    write = parquet.write_table if kind == "parquet" else orc.write_table
    write(table, tmp_path / f"a.{kind}")
    format = (ParquetFormat if kind == "parquet" else OrcFormat)(declared)
    number = (lambda r: r[0]) if declared is Whole or not hasattr(declared, "names") else (lambda r: r["i"])
    if declared is Part:
        number = lambda r: r.i  # noqa: E731
    elif type(declared) is type(Types.ROW([])):
        number = lambda r: r["i"]  # noqa: E731
    elif isinstance(declared, type(Types.TUPLE([]))):
        number = lambda r: r[0]  # noqa: E731
    outcomes = {}
    for program in (lambda s: s.filter(lambda r: True), lambda s: s.map(number), lambda s: s.map(lambda r: r)):
        expected, found = (
            outcome(program(environment(vectorized).from_source(source(format, tmp_path), UNTIMED, "files")))
            for vectorized in (False, True)
        )
        assert found == expected
        outcomes |= found
    assert sum(isinstance(each, str) for each in outcomes)


PLACE = Types.ROW_NAMED(["city", "zip"], [Types.STRING(), Types.LONG()])


class Place(NamedTuple):
    city: str
    zip: int


@dataclass
class Visit:
    n: int
    place: Place


@pytest.mark.parametrize("declared", [
    Types.ROW_NAMED(["n", "place"], [Types.LONG(), PLACE]), Types.TUPLE([Types.LONG(), PLACE]), Visit,
    pa.schema([("n", pa.int64()), ("place", pa.struct([("city", pa.string()), ("zip", pa.int64())]))]),
])  # fmt: skip
def test_declared_records_within_records_stay_what_they_are(tmp_path, declared):
    """Those of an Arrow schema are dicts; others are made of their types."""
    records = [{"n": n, "place": {"city": f"c{n % 3}", "zip": n}} for n in range(60)]
    if isinstance(declared, type(Types.TUPLE([]))):
        records = [{"f0": each["n"], "f1": each["place"]} for each in records]
    parquet.write_table(pa.Table.from_pylist(records), tmp_path / "a.parquet")
    place = (lambda r: r.place) if declared is Visit else (lambda r: r[1])
    if isinstance(declared, pa.Schema | type(Types.ROW([]))):
        place = lambda r: r["place"]  # noqa: E731
    for program in (lambda s: s.map(place), lambda s: s.map(lambda r: place(r)[0]), lambda s: s.filter(lambda r: True)):
        expected, found = (
            outcome(program(environment(on).from_source(source(ParquetFormat(declared), tmp_path), UNTIMED, "files")))
            for on in (False, True)
        )
        assert found == expected
    notes = explained(lambda s: s.map(place), ParquetFormat(declared), tmp_path)
    assert "columns: files: vectorized" in notes


def explained(program, format, folder):
    env = environment(True)
    stream = program(env.from_source(source(format, folder), UNTIMED, "files"))
    stream.sink_to(DiscardingSink())
    return {line.strip() for line in env.explain().splitlines()}


def test_explain_says_which_fields_are_read(tmp_path):
    of = pa.array([{"a": 1}], pa.map_(pa.string(), pa.int64()))
    table = pa.table({"i": [1], "f": [0.5], "s": ["a"], "l": of, "u": pa.array([None], pa.int64())})
    parquet.write_table(table, tmp_path / "a.parquet")
    format = ParquetFormat()
    one = explained(lambda s: s.filter(lambda r: r["f"] > 0).map(lambda r: r["i"]), format, tmp_path)
    assert {"columns: files: vectorized", "projection: files: reads 2 of 5 fields: i, f"} <= one
    none = explained(lambda s: s.map(lambda r: 1), format, tmp_path)
    assert "projection: files: reads 0 of 5 fields" in none
    helper = explained(lambda s: s.key_by(lambda r: r["s"]).sum("i"), format, tmp_path)
    assert any("columns: files: per record" in line for line in helper)
    whole = explained(lambda s: s.filter(lambda r: r["i"] > 0), format, tmp_path)
    refused = "columns: files: per record: its field 'l' is used, and no column holds a map<string, int64"
    assert any(line.startswith(refused) for line in whole)
    null = explained(lambda s: s.map(lambda r: r["u"] + 1).name("added"), format, tmp_path)
    assert "columns: added: per record: computes int? + int" in null
    flat = explained(lambda s: s.filter(lambda r: r["i"] > 0), ParquetFormat(fields=("i", "s")), tmp_path)
    assert {"columns: files: vectorized", "projection: files: reads all fields"} <= flat


@pytest.mark.parametrize("format", [ParquetFormat(), ParquetFormat(fields=("user", "n"))])
def test_of_a_struct_only_the_fields_that_are_used_are_read(tmp_path, monkeypatch, format):
    users = [{"id": n, "at": {"city": f"c{n % 3}", "zip": n}, "more": "x"} for n in range(40)]
    parquet.write_table(pa.table({"user": users, "n": range(40)}), tmp_path / "0.parquet")
    parquet.write_table(
        pa.table({"user": [each | {"new": 1} for each in users], "n": range(40)}), tmp_path / "1.parquet"
    )
    parquet.write_table(pa.table({"user": [*users[:9], {"id": 9, "at": None}], "n": range(10)}), tmp_path / "2.parquet")
    program = lambda s: s.map(lambda r: (r["user"]["at"]["city"] if r["n"] != 9 else "", r["n"]))  # noqa: E731
    expected = outcome(program(environment(False).from_source(source(format, tmp_path), UNTIMED, "files")))
    asked, batches = [], parquet.ParquetFile.iter_batches

    def recording(self, *given, **options):
        asked.append(tuple(options["columns"]))
        return batches(self, *given, **options)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", recording)
    found = outcome(program(environment(True).from_source(source(format, tmp_path), UNTIMED, "files")))
    assert found == expected
    assert sorted(asked) == [("user", "n"), ("user.at.city", "n"), ("user.at.city", "n")]


def test_a_column_that_only_a_later_file_has_is_read_of_that_file(tmp_path):
    parquet.write_table(pa.table({"n": range(9)}), tmp_path / "0.parquet")
    parquet.write_table(pa.table({"n": range(9), "more": ["x"] * 9}), tmp_path / "1.parquet")
    program = lambda s: s.map(lambda r: (r["n"], r.get("more", "none"), "more" in r))  # noqa: E731
    expected, found = (
        outcome(program(environment(on).from_source(source(ParquetFormat(), tmp_path), UNTIMED, "files")))
        for on in (False, True)
    )
    assert found == expected


def test_what_a_branch_that_no_record_of_the_schema_takes_looks_at_is_read(tmp_path):
    """A struct that is null where none was known to be: the function is called, and takes that branch."""
    users = [{"id": 1, "name": "a"}, None]
    parquet.write_table(pa.table({"user": users[:1], "n": [1], "s": ["a"]}), tmp_path / "0.parquet")
    parquet.write_table(pa.table({"user": users, "n": [2, 3], "s": ["b", "c"]}), tmp_path / "1.parquet")
    for program in (
        lambda s: s.map(lambda r: r["user"]["id"] if r["user"] else r["n"]),
        lambda s: s.map(lambda r: r if r["user"] is None else {"id": r["user"]["id"]}),
        lambda s: s.map(lambda r: ("name" in r["user"], len(r["user"])) if r["n"] < 3 else r["s"]),
        lambda s: s.filter(lambda r: True if r["user"] else r["n"] > 2).map(lambda r: r["s"]),
    ):
        expected, found = (
            outcome(program(environment(on).from_source(source(ParquetFormat(), tmp_path), UNTIMED, "files")))
            for on in (False, True)
        )
        assert found == expected


def test_times_are_written_as_they_were_read(tmp_path):
    """They stay numbers all the way, but the records are the same."""
    (tmp_path / "in").mkdir()
    days = [datetime.date(2024, 2, 29) + datetime.timedelta(days=n) for n in range(40)]
    moments = [datetime.datetime(2024, 2, 29, 23, 59, 59, 999_000 + n, datetime.UTC) for n in range(40)]
    schema = pa.schema([("day", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us"))])
    local = [each.replace(tzinfo=None) for each in moments]
    parquet.write_table(pa.table({"day": days, "at": moments, "local": local}, schema), tmp_path / "in" / "a.parquet")
    for vectorized in (False, True):
        env, out = environment(vectorized), tmp_path / str(vectorized)
        stream = env.from_source(source(ParquetFormat(), tmp_path / "in"), UNTIMED, "files")
        kept = stream.filter(lambda r: r["at"] >= datetime.datetime(2024, 2, 29, 23, 59, 59, 999_010, datetime.UTC))
        sink = FileSink.for_bulk_format(out, ParquetFormat(schema))
        kept.sink_to(sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
        env.execute()
    read = [parquet.read_table(tmp_path / str(vectorized)) for vectorized in (False, True)]
    assert read[0].equals(read[1])
    assert len(read[0]) == 30


def test_explain_names_fields_of_structs(tmp_path):
    user = pa.struct(
        [("id", pa.int64()), ("at", pa.struct([("city", pa.string())])), ("tags", pa.map_(pa.string(), pa.int64()))]
    )
    users = pa.array([{"id": 1, "at": {"city": "Ulm"}, "tags": {}}] * 3, user)
    parquet.write_table(pa.table({"user": users, "n": [1, 2, 3]}), tmp_path / "a.parquet")
    format = ParquetFormat()
    some = explained(lambda s: s.map(lambda r: (r["user"]["at"]["city"], r["n"])), format, tmp_path)
    assert {"columns: files: vectorized", "projection: files: reads 2 of 4 fields: user.at.city, n"} <= some
    inner = explained(lambda s: s.map(lambda r: r["user"]["at"]), format, tmp_path)
    assert "projection: files: reads 1 of 4 fields: user.at.city" in inner
    tags = explained(lambda s: s.map(lambda r: r["user"]), format, tmp_path)
    refused = "columns: files: per record: its field 'user.tags' is used, and no column holds a map<string, int64"
    assert any(line.startswith(refused) for line in tags)


@pytest.mark.parametrize("reason", [
    "no file can be inspected (SourceNotReadable)",
    "there is no file yet whose columns it could know; declare the record type",
    "adds fields of folders to its records",
    "an object of Checked may do more than to keep values",
    "reads rows whose fields have no names",
])  # fmt: skip
def test_explain_says_why_a_source_makes_records(tmp_path, reason):
    @dataclass
    class Checked:
        i: int

        def __post_init__(self):
            pass

    builder = FileSource.for_format(ParquetFormat(), tmp_path)
    if "folders" in reason:
        builder = builder.set_partition_fields({"day": str})
    elif "Checked" in reason:
        builder = FileSource.for_format(ParquetFormat(Checked), tmp_path)
    elif "rows" in reason:
        builder = FileSource.for_format(ParquetFormat(Types.ROW([Types.INT()])), tmp_path)
    elif "yet" in reason:
        builder = builder.monitor_continuously(1000)
    env = environment(True)
    env.from_source(builder.build(), UNTIMED, "files").map(lambda r: r["i"]).sink_to(DiscardingSink())
    assert f"columns: files: per record: {reason}" in env.explain()


@pytest.mark.parametrize("wanted", [None, (1,), ()])
@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_reader_of_columns_keeps_the_contract_and_goes_on_within_a_group_of_rows(tmp_path, kind, wanted):
    rows = [{"s": f"k{n % 3}", "i": n} for n in range(300)]
    for number in range(2):
        table = pa.Table.from_pylist(rows[number * 150 : number * 150 + 150])
        if kind == "parquet":
            parquet.write_table(table, tmp_path / f"{number}.parquet", row_group_size=40)
        else:
            orc.write_table(table, tmp_path / f"{number}.orc", stripe_size=1, batch_size=40)
    format = (ParquetFormat if kind == "parquet" else OrcFormat)()
    of_columns = InColumns(source(format, tmp_path, 500), wanted)
    expected = [
        {"s": row["s"] if wanted is None else NOT_READ, "i": NOT_READ if wanted == () else row["i"]} for row in rows
    ]
    check_source(of_columns, [repr(record) for record in expected], seeds=15)
    assert of_columns.blocks > 0


class InColumns:
    """A source of files whose readers make columns, seen through the eyes of who takes records."""

    blocks = 0

    def __init__(self, inner, wanted):
        self._inner, self._wanted = inner, wanted
        self._schema = inner.record_schema()

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def reader(self, context):
        reader = self._inner.reader(context)
        reader.read_record_columns(self._schema, self._wanted)
        poll = reader.poll

        def polled(limit, now):
            got = poll(limit, now)
            if isinstance(getattr(got, "values", None), Columns):
                self.blocks += 1
                got.values = got.values.to_list()
            if hasattr(got, "values"):
                got.values = [repr(record) for record in got.values]
            return got

        reader.poll = polled
        return reader


def test_a_position_of_columns_is_one_of_records(tmp_path):
    parquet.write_table(pa.table({"i": list(range(100))}), tmp_path / "a.parquet", row_group_size=30)
    files = source(ParquetFormat(), tmp_path)
    splits = files.enumerator(1)
    splits.start()
    columns, records = (files.reader(ConnectorContext("files")) for _ in range(2))
    columns.read_record_columns(files.record_schema(), None)
    columns.add_splits(splits.next_splits(0))
    first = [columns.poll(37, 0).values for _ in range(2)]
    assert [type(block) for block in first] == [Columns, Columns]
    records.add_splits(pickle.loads(pickle.dumps(columns.snapshot_state(1))))
    rest = []
    while hasattr(got := records.poll(50, 0), "values"):
        rest += got.values
    assert [
        row["i"] for block in (*first, rest) for row in (block if isinstance(block, list) else block.to_list())
    ] == [*range(100)]
    # In the middle of the split the wanted fields change: nothing is lost or repeated.
    columns.read_record_columns(files.record_schema(), ())
    found = 0
    while hasattr(got := columns.poll(50, 0), "values"):
        found += len(got.values)
    assert found == len(rest)
    columns.close()
    records.close()


def test_the_types_of_a_file_are_not_those_of_a_block_that_has_none(tmp_path):
    schema = Record([INT, Optional(Object("date"))], DICT, ("n", "day"))
    blocks = [[{"n": 1, "day": None}], [{"n": 2, "day": datetime.date(2026, 11, 27)}]]
    with (tmp_path / "a.parquet").open("wb") as file:
        writer = ParquetFormat().create(file)
        for block in blocks:
            writer.write(columns_of(block, schema))
        writer.finish()
    assert parquet.read_table(tmp_path / "a.parquet").to_pylist() == [row for block in blocks for row in block]


def test_a_function_that_changes_gets_the_fields_that_it_asks_for(tmp_path, monkeypatch):
    parquet.write_table(pa.table({"i": list(range(40)), "j": [-n for n in range(40)]}), tmp_path / "a.parquet")
    found = []
    for vectorized in (True, False):
        monkeypatch.setattr(fields, "FIELD", "i")
        stream = environment(vectorized).from_source(source(ParquetFormat(), tmp_path), UNTIMED, "files")
        stream = stream.map(fields.field).name("field")
        said = stream.get_execution_environment().explain()
        assert ("columns: field: vectorized" in said) is vectorized
        assert ("projection: files: reads 1 of 2 fields: i" in said) is vectorized
        with stream.map(fields.changing).execute_and_collect() as records:
            found.append(list(records))
    assert found[0][:21] == found[1][:21] == [*range(21)]
    assert found[0][-1] == found[1][-1] == -39


@pytest.mark.parametrize("declared", [None, Whole, Types.ROW_NAMED(["s", "i"], [Types.STRING(), Types.INT()])])
@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_sinks_write_the_same_of_columns(tmp_path, kind, declared):
    table = pa.table({"i": list(range(200)), "f": [n / 3 for n in range(200)], "s": [f"né {n}" for n in range(200)]})
    parquet.write_table(table, tmp_path / "in.parquet", row_group_size=30)
    make = ParquetFormat if kind == "parquet" else OrcFormat
    tables = []
    for vectorized in (False, True):
        out = tmp_path / str(vectorized)
        env = environment(vectorized)
        stream = env.from_source(source(ParquetFormat(Whole), tmp_path / "in.parquet"), UNTIMED, "files")
        kept = stream.filter(lambda r: r.i % 3 > 0)
        if declared is None:
            kept = kept.map(lambda r: {"s": r.s, "i": r.i * 2})
        elif declared is not Whole:
            kept = kept.map(lambda r: (r.s, r.i))
        builder = FileSink.for_bulk_format(out, make(declared))
        kept.sink_to(builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()).name("out")
        assert ("columns: out: vectorized" in env.explain()) is vectorized
        env.execute()
        (file,) = out.glob(f"part-*.{kind}")
        tables.append(parquet.read_table(file) if kind == "parquet" else orc.read_table(file))
    assert tables[0].equals(tables[1])
    assert tables[0].schema.equals(tables[1].schema)


def test_a_value_that_a_column_of_the_file_has_no_place_for_fails_alike(tmp_path):
    parquet.write_table(pa.table({"i": [1, 300]}), tmp_path / "in.parquet")
    declared = Types.ROW_NAMED(["i"], [Types.BYTE()])
    messages = []
    for vectorized in (False, True):
        env = environment(vectorized)
        stream = env.from_source(source(ParquetFormat(), tmp_path / "in.parquet"), UNTIMED, "files")
        stream.map(lambda r: (r["i"],)).sink_to(
            FileSink.for_bulk_format(tmp_path / "out", ParquetFormat(declared)).build()
        )
        with pytest.raises(JobExecutionError, match="does not fit the columns of the file") as caught:
            env.execute()
        messages.append(type(caught.value))
    assert messages[0] is messages[1]


def test_buckets_by_record_take_columns(tmp_path):
    class ByKey(BucketAssigner):
        def get_bucket_id(self, element, context):
            return f"k={element['k']}"

    parquet.write_table(pa.table({"i": list(range(9))}), tmp_path / "in.parquet")
    env = environment(True)
    stream = env.from_source(source(ParquetFormat(), tmp_path / "in.parquet"), UNTIMED, "files")
    sink = FileSink.for_bulk_format(tmp_path / "out", ParquetFormat()).with_bucket_assigner(ByKey()).build()
    stream.map(lambda r: {"k": r["i"] % 2, "i": r["i"]}).sink_to(sink)
    env.execute()
    found = {
        folder.name: [
            row["i"] for file in folder.glob("part-*") for row in parquet.ParquetFile(file).read().to_pylist()
        ]
        for folder in (tmp_path / "out").iterdir()
    }
    assert found == {"k=0": [0, 2, 4, 6, 8], "k=1": [1, 3, 5, 7]}


def test_text_that_is_none_fails_on_both_paths(tmp_path):
    bad = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe"))
    parquet.write_table(pa.table({"s": bad}), tmp_path / "a.parquet")
    outcomes = [
        outcome(environment(v).from_source(source(ParquetFormat(), tmp_path), UNTIMED, "f").map(lambda r: r["s"]))
        for v in (False, True)
    ]
    assert outcomes[0] == outcomes[1]
    assert isinstance(outcomes[0], tuple)
