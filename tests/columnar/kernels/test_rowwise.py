"""Functions that are called for each value: the same with runs of one value, for which they are called once."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.columnar.kernels import rowwise
from funken.columnar.kernels.columns import Column, FallBackToRows, column_of, columns_of
from funken.columnar.kernels.evaluation import computed
from funken.columnar.tracing import trace
from funken.expr.python.table import DATETIME, TABLE, TEXTS, OperationRule
from funken.expr.types import FLOAT, INT, STR

DAY = Column(STR, "%Y-%m-%d", constant=True)
TIMES = [datetime(2024, 2, day, tzinfo=UTC) for day in (27, 28, 29)]
CASES = {
    "repr": (FLOAT, STR, st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")])),
    "chr": (INT, STR, st.integers(0, 5)),
    "datetime.fromtimestamp": (FLOAT, DATETIME, st.sampled_from([0.0, 0.25, 1709164770.123])),
    "datetime.isoformat": (DATETIME, STR, st.sampled_from(TIMES)),
    "str.title": (STR, STR, st.sampled_from(["a", "b"])),
}


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
def test_runs_give_what_each_value_gives(name, data):
    kind, result, values = CASES[name]
    runs = data.draw(st.lists(st.tuples(values, st.integers(1, 90)), min_size=1, max_size=8))
    every = [value for value, count in runs for _ in range(count)]
    found = rowwise.rowwise(name, [column_of(every, kind)], result, len(every)).to_list(len(every))
    assert [(type(value), repr(value)) for value in found] == [
        (type(value), repr(value)) for value in map(TABLE[name].function, every)
    ]


@pytest.fixture
def calls(monkeypatch):
    """The first arguments that functions are called with."""
    made = []

    class Counted:
        def __getitem__(self, name):
            row = TABLE[name]

            def counted(*arguments):
                made.append(arguments[0])
                return row.function(*arguments)

            return replace(row, function=counted)

    monkeypatch.setattr(rowwise, "TABLE", Counted())
    return made


def test_a_run_takes_one_call_and_so_does_what_is_computed_of_its_result(calls):
    at = column_of([float(second) for second in range(100) for _ in range(9)], FLOAT)
    zone = Column("timezone", timezone(timedelta(hours=1)), constant=True)
    times = rowwise.rowwise("datetime.fromtimestamp", [at, zone], DATETIME, 900)
    days = rowwise.rowwise("datetime.strftime", [times, DAY], STR, 900)
    assert days.to_list(900) == ["1970-01-01"] * 900
    assert len(calls) == 200


def test_without_runs_every_value_takes_a_call(calls):
    rowwise.rowwise("chr", [column_of(list(range(32, 232)), INT)], STR, 200)
    late = [*range(32, 96), *[96] * 10]
    rowwise.rowwise("chr", [column_of(late, INT)], STR, len(late))
    assert calls == [*range(32, 232), *late]


def test_two_columns_are_not_looked_at_for_runs(calls):
    ones, twos = column_of([1] * 200, INT), column_of([2] * 200, INT)
    assert rowwise.rowwise("math.atan2", [ones, twos], FLOAT, 200).to_list(200) == [math.atan2(1, 2)] * 200
    assert len(calls) == 200


def test_lists_are_not_shared_between_records(monkeypatch):
    table = {"split": OperationRule("split", lambda value: [str(value)])}
    monkeypatch.setattr(rowwise, "TABLE", table)
    found = rowwise.rowwise("split", [column_of([7] * 200, INT)], TEXTS, 200).to_list(200)
    assert len(set(map(id, found))) == 200


def test_what_raises_in_a_run_makes_rows_of_the_block():
    with pytest.raises(FallBackToRows):
        rowwise.rowwise("chr", [column_of([65] * 100 + [-1] * 100, INT)], STR, 200)


def folders(text):
    parts = text.split("/")
    return parts[0], parts[2], parts[2].split(",")[1]


def test_a_text_is_split_once_into_what_is_taken_of_it(calls, monkeypatch):
    from funken.columnar.kernels import text as cuts

    split = []
    separated = cuts.Separated
    monkeypatch.setattr(cuts, "Separated", lambda texts, part: split.append(part) or separated(texts, part))
    texts = ["a/b/c,d", "é/f//g/,h", "//i,"] * 2
    with pytest.raises(IndexError):
        list(map(folders, texts))
    traced, schema = trace(folders, None, 1).typed(STR)
    with pytest.raises(FallBackToRows):
        computed(traced.result, schema, columns_of(texts, STR))

    texts = ["a/b/c,d", "é/f/,h/,i", "//i,"] * 2
    split.clear()
    assert computed(traced.result, schema, columns_of(texts, STR)).to_list() == list(map(folders, texts))
    assert (split, calls) == (["/", ","], [])


def dropped(text):
    parts = text.split("")  # noqa: F841 - what it raises is what matters
    return len(text)


def test_a_split_that_raises_raises_even_if_nothing_is_taken_of_it():
    traced, schema = trace(dropped, None, 1).typed(STR)
    with pytest.raises(FallBackToRows):
        computed(traced.result, schema, columns_of(["a", "b"], STR))
