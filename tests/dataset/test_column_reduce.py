"""Reductions of columns, by key and of everything, against the same record by record."""

import operator
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.columnar.kernels.columns import columns_of, joined
from funken.dataset import Aggregations
from funken.dataset.api.aggregations import FieldAggregator
from funken.dataset.columns.aggregation import ColumnReduce
from funken.dataset.plan.functions import DataSetFunction
from funken.errors import InvalidProgram, OperatorFailed
from funken.expr.types import FLOAT, INT, STR, Tuple
from tests.dataset.programs import TINY, rows_made
from tests.dataset.test_columns import environment

SCHEMA = Tuple((STR, INT, FLOAT, INT))

LIMIT = 3


def clipped(number):
    return number if number < LIMIT else LIMIT


FUNCTIONS = {
    "sum": lambda a, b: (a[0], a[1] + b[1], a[2], b[3]),
    "sum of floats": lambda a, b: (a[0], a[1], a[2] + b[2], b[3]),
    "extremes": lambda a, b: (a[0], min(a[1], b[1]), a[2], max(a[3], b[3])),
    "the greater": lambda a, b: a if a[1] >= b[1] else b,
    "the first of the less": lambda a, b: b if b[3] < a[3] else a,
    "the longer text": lambda a, b: (a[0] if len(a[0]) >= len(b[0]) else b[0], a[1], a[2], a[3]),
    "remainders": lambda a, b: (a[0], b[1], a[2], (a[3] + b[3]) % 97),
    "through a function": lambda a, b: (a[0], clipped(a[1]) + clipped(b[1]), b[2], a[3]),
    "the last": lambda a, b: b,
    "opaque": lambda a, b: (a[0], a[1], a[2], [a, b][1][3]),
}
ASSOCIATIVE = {name: function for name, function in FUNCTIONS.items() if name != "through a function"}
KEYED = {name: function for name, function in ASSOCIATIVE.items() if name != "the longer text"}

records = st.lists(
    st.tuples(
        st.sampled_from(["", "a", "bb", "ü", "long text"]),
        st.one_of(st.integers(-3, 9), st.sampled_from([2**62, -(2**62), 2**63 - 1])),
        st.sampled_from([0.5, -2.0, 1e300, float("nan"), 0.1, 1e-9, 0.0, -0.0]),
        st.integers(0, 50),
    ),
    min_size=1,
    max_size=40,
)


def by_key(function, values):
    groups = {}
    for value in values:
        groups.setdefault(value[0], []).append(value)
    return [reduce(function, group) for group in groups.values()]


@settings(deadline=None, max_examples=200)
@given(records, st.sampled_from(sorted(KEYED)))
def test_by_key(values, name):
    found = ColumnReduce(DataSetFunction(KEYED[name])).by_key(columns_of(values, SCHEMA), [0])

    if found is not None:
        assert repr(sorted(found.to_list(), key=repr)) == repr(sorted(by_key(KEYED[name], values), key=repr))
    else:
        assert name == "opaque" or max(abs(value[1]) for value in values) > 2**50


@settings(deadline=None, max_examples=200)
@given(records, records, st.sampled_from(sorted(ASSOCIATIVE)))
def test_of_all(before, values, name):
    function = ASSOCIATIVE[name]
    made = ColumnReduce(DataSetFunction(function))
    so_far = reduce(function, before)
    first, second = made.of_all(columns_of(values, SCHEMA)), made.of_all(columns_of(values, SCHEMA), so_far)

    assert first is None or repr(first) == repr(reduce(function, values))
    assert second is None or repr(second) == repr(reduce(function, [so_far, *values]))
    assert (first is None) <= (name == "opaque" or max(abs(value[1]) for value in values) > 2**50)


@settings(deadline=None, max_examples=100)
@given(records, records, st.lists(st.tuples(st.sampled_from(Aggregations), st.integers(1, 3)), min_size=1, max_size=3))
def test_built_in_totals(before, values, parts):
    function = FieldAggregator(tuple((how, (place,)) for how, place in parts), "aggregate")
    so_far = reduce(function, before)
    found = ColumnReduce(DataSetFunction(function)).of_all(columns_of(values, SCHEMA), so_far)

    assert found is None or repr(found) == repr(reduce(function, [so_far, *values]))


def data(env):
    numbers = env.generate_sequence(0, 40_000)
    return numbers.map(lambda n: ("even" if n % 2 == 0 else "odd", n % 991, n / 4, (n * 7) % 1013))


PROGRAMS = {
    "sum": lambda d: d.sum(1),
    "several": lambda d: d.min(1).and_(Aggregations.MAX, 2).and_(Aggregations.SUM, 3),
    "filtered away": lambda d: d.filter(lambda r: r[1] < 0).sum(1),
    "count": lambda d: d.map(lambda r: 1).reduce(operator.add),
    "number": lambda d: d.map(lambda r: r[1]).reduce(lambda a, b: a + b),
    **{f"all: {name}": lambda d, f=function: d.reduce(f) for name, function in ASSOCIATIVE.items()},
    **{f"key: {name}": lambda d, f=function: d.group_by(0).reduce(f) for name, function in KEYED.items()},
    "two keys": lambda d: d.group_by(0, 1).reduce(lambda a, b: (a[0], a[1], a[2], a[3] + b[3])),
    "key of ints": lambda d: d.group_by(1).reduce(lambda a, b: a if a[3] > b[3] else b),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("budget", [None, TINY])
def test_programs(name, budget):
    expected = PROGRAMS[name](data(environment(False, 1))).collect()
    for parallelism in (1, 3):
        found = PROGRAMS[name](data(environment(True, parallelism, budget))).collect()
        if "last" not in name and "sum" not in name and name not in ("several", "key: extremes", "all: extremes"):
            assert repr(sorted(found)) == repr(sorted(expected))
        else:  # other fields are those of the last record, which depends on the partitions
            assert len(found) == len(expected)
            if parallelism == 1 and budget is None:
                assert repr(sorted(found)) == repr(sorted(expected))


@pytest.mark.parametrize(
    "name", ["sum", "several", "all: the greater", "key: remainders", "key: the greater", "two keys"]
)
def test_reductions_of_columns_make_no_records(name, monkeypatch):
    program = PROGRAMS[name](data(environment(True, 2)))
    made = rows_made(monkeypatch)

    found = program.collect()

    assert sum(made) <= len(found)


def test_a_key_that_is_changed_is_refused_as_by_records():
    changed = data(environment(True, 2)).group_by(0).reduce(lambda a, b: (a[0] + "!", a[1] + b[1], a[2], a[3]))

    with pytest.raises(InvalidProgram, match=r"the group of the key .*Keep the key fields"):
        changed.collect()


def test_an_error_names_the_record():
    divided = data(environment(True, 2)).reduce(lambda a, b: (a[0], a[1] // (b[1] - b[1]), a[2], a[3]))

    with pytest.raises(OperatorFailed, match="at the record .*ZeroDivisionError"):
        divided.collect()


def test_sums_that_are_merged_again_and_again_stay_columns():
    adding = ColumnReduce(DataSetFunction(lambda one, other: (0, one[1] + other[1])))
    sums = columns_of([(0, 1), (0, 2)], Tuple((INT, INT)))

    for _ in range(200):  # each time, what may be known of the sums without a look at them doubles
        merged = adding.by_key(joined([sums, columns_of([(0, 1)], Tuple((INT, INT)))]), [0])
        assert merged is not None
        sums = merged

    assert sums.to_list() == [(0, 203)]
    assert adding.by_key(columns_of([(0, 2**62), (0, 2**62)], Tuple((INT, INT))), [0]) is None
