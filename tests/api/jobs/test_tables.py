"""Collected records as Arrow tables and pandas frames."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest

from funken import (
    Configuration,
    DataGeneratorSource,
    InvalidProgram,
    JobExecutionError,
    Row,
    StreamExecutionEnvironment,
    Types,
    WatermarkStrategy,
)
from funken.testing import local
from funken.types.row import Instant


class Word(NamedTuple):
    text: str
    length: int


@dataclass(frozen=True)
class Sale:
    what: str
    price: float | None


@pytest.mark.parametrize(
    ("records", "columns"),
    [
        ([Word("to", 2)], {"text": ["to"], "length": [2]}),
        ([Sale("tea", 1.5), Sale("jam", None)], {"what": ["tea", "jam"], "price": [1.5, None]}),
        ([Row(a=1, b="x")], {"a": [1], "b": ["x"]}),
        ([Row(1, "x")], {"f0": [1], "f1": ["x"]}),
        ([(1, "x"), (2, "y")], {"f0": [1, 2], "f1": ["x", "y"]}),
        ([{"a": 1}, {"b": 2}], {"a": [1, None], "b": [None, 2]}),
        ([1, 2], {"value": [1, 2]}),
        ([], {}),
    ],
    ids=["named tuples", "dataclasses", "rows", "rows without names", "tuples", "dicts", "numbers", "none"],
)
def test_records_become_columns(records, columns):
    stream = local(records or ["none"]).filter(lambda record: record != "none")
    assert stream.to_arrow().to_pydict() == columns
    assert stream.execute_and_collect(as_arrow=True).to_pydict() == columns
    assert stream.execute_and_collect(as_pandas=True).columns.to_list() == list(columns)


def test_a_frame_of_pandas():
    frame = local([Word("to", 2), Word("question", 8)]).to_pandas()
    assert list(frame["length"]) == [2, 8]


def test_values_without_a_common_type_are_refused():
    with pytest.raises(InvalidProgram, match=r"column 'value' of the records cannot be .*map\(\) before"):
        local([1, "x"]).to_arrow()


DECLARED = Types.ROW_NAMED(
    ["word", "n", "at", "tags", "any"],
    [Types.STRING(), Types.INT(), Types.INSTANT(), Types.LIST(Types.SHORT()), Types.PICKLED_BYTE_ARRAY()],
)


@pytest.mark.parametrize("records", [[Row("to", 2, Instant(1, 500_000_000), [1], 2.5)], []], ids=["a record", "none"])
def test_declared_types_are_those_of_the_table(records):
    stream = local(records or [Row("x", 0, Instant(0, 0), [], 0)]).map(lambda row: row, output_type=DECLARED)
    table = stream.filter(lambda row: bool(records)).execute_and_collect(as_arrow=True)

    assert table.column_names == ["word", "n", "at", "tags", "any"]
    assert [str(kind) for kind in table.schema.types[:4]] == [
        "string",
        "int32",
        "timestamp[us, tz=UTC]",
        "list<item: int16>",
    ]
    assert table.num_rows == len(records)
    if records:
        (row,) = table.to_pylist()
        assert (row["word"], row["n"], row["tags"], row["any"]) == ("to", 2, [1], 2.5)
        assert row["at"].timestamp() == 1.5


@pytest.mark.parametrize(("declared", "kind"), [(Types.SHORT(), "int16"), (Types.TUPLE([Types.FLOAT()]), "float")])
def test_a_declared_type_without_names(declared, kind):
    table = local([1]).map(lambda n: n if kind == "int16" else (float(n),), output_type=declared).to_arrow()
    assert [str(each) for each in table.schema.types] == [kind]


@pytest.mark.parametrize(
    ("records", "what"),
    [
        (
            [("a", 1), ("a",)],
            r"\('a', 1\) and \('a',\) do not fit one table: the columns of the one are f0, f1, those of the other f0",
        ),
        ([1, {"a": 1}], r"records 1 and \{'a': 1\} do not fit"),
        ([{"a": 1}, None], r"records \{'a': 1\} and None do not fit"),
        ([2**70], r"column 'value' of the records cannot be a column of a table"),
        (["x" * 200, (1,)], r"records 'xxx.*x\.\.\. and \(1,\)"),
    ],
    ids=["lengths", "a dict", "None", "a large int", "a long one"],
)
def test_records_that_do_not_fit_one_table(records, what):
    with pytest.raises(InvalidProgram, match=what):
        local(records).execute_and_collect(as_arrow=True)


def test_dataclasses_in_records_are_columns_with_fields():
    assert local([{"sale": Sale("tea", 1.5)}]).to_arrow().to_pylist() == [{"sale": {"what": "tea", "price": 1.5}}]


def test_two_forms_at_once_are_refused():
    with pytest.raises(ValueError, match="one form: as_arrow or as_pandas"):
        local([1]).execute_and_collect(as_arrow=True, as_pandas=True)


def test_what_makes_the_job_fail_is_raised():
    with pytest.raises(JobExecutionError, match="division by zero"):
        local([0]).map(lambda n: 1 / n).execute_and_collect(as_arrow=True)


def test_a_stream_without_end_needs_a_limit():
    env = StreamExecutionEnvironment.create_local_environment(1)
    numbers = env.from_source(DataGeneratorSource(lambda n: n), WatermarkStrategy.no_watermarks(), "numbers")
    with pytest.raises(InvalidProgram, match="'numbers' never ends, and a table does"):
        numbers.to_pandas()
    assert numbers.to_arrow(limit=3).num_rows == 3


def numbers(function=None):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    made = DataGeneratorSource(function or (lambda n: n), 10)
    return env.from_source(made, WatermarkStrategy.no_watermarks(), "numbers")


EMPTY = {
    "a number": (lambda s: s, "value: int64"),
    "tuples": (lambda s: s.map(lambda n: (n, n / 2, str(n), n > 3)), "f0: int64, f1: double, f2: string, f3: bool"),
    "dicts": (lambda s: s.map(lambda n: {"n": n, "text": str(n)}), "n: int64, text: string"),
    "sums": (lambda s: s.map(lambda n: (n % 3, n)).key_by(lambda p: p[0]).reduce(lambda a, b: (a[0], a[1] + b[1])),
             "f0: int64, f1: int64"),
    "lists": (lambda s: s.map(lambda n: [n for _ in range(2)]), "value: list<item: int64>"),
    "what cannot be read": (lambda s: s.map(lambda n: [*zip([n])]), ""),
    "a union": (lambda s: s.map(lambda n: (n, n)).union(s.map(lambda n: (n, n))), ""),
}  # fmt: skip


@pytest.mark.parametrize("program", EMPTY)
def test_without_records_the_columns_are_those_that_could_be_traced(program):
    build, columns = EMPTY[program]
    full = build(numbers()).execute_and_collect(as_arrow=True)
    empty = build(numbers().filter(lambda n: n < 0)).execute_and_collect(as_arrow=True)

    assert len(full) > 0 and len(empty) == 0
    assert ", ".join(f"{field.name}: {field.type}" for field in empty.schema) == columns
    assert not columns or empty.schema == full.schema


def test_where_columns_are_off_nothing_is_traced():
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration({"execution.target": "local", "pipeline.vectorized": False})
    )
    stream = env.from_source(DataGeneratorSource(lambda n: n, 0), WatermarkStrategy.no_watermarks(), "numbers")
    assert stream.to_arrow().schema.names == []
