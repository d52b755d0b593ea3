"""Kernels against Python: for random expressions over random records they agree in value and type, or the block is unfit."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.columnar.expressions import NotVectorizable, schema_of_value
from funken.columnar.kernels.columns import columns_of
from funken.columnar.kernels.evaluation import FallBackToRows, computed
from funken.columnar.tracing import trace
from funken.expr.types import BOOL, FLOAT, INT, STR, Tuple, Type

INTS = st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**54), 2**54)
FLOATS = st.floats() | st.integers(-3, 3).map(float)
TEXTS = st.text("ab\u00e9\u4e2d\U0001f600\x00", max_size=4)
SHAPE: Type = Tuple((INT, INT, FLOAT, STR, BOOL))
RECORDS = st.lists(st.tuples(INTS, INTS, FLOATS, TEXTS, st.booleans()), min_size=1, max_size=6)
SMALL = st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 9), FLOATS, TEXTS, st.booleans()), min_size=1, max_size=6)


def _binary(ops: list[str]) -> Any:
    return lambda sides: st.tuples(sides, st.sampled_from(ops), sides).map(lambda t: f"({t[0]} {t[1]} {t[2]})")


def _sources() -> st.SearchStrategy[str]:
    """Return lambdas' bodies, most of them well typed."""
    ints = st.sampled_from(["r[0]", "r[1]", "0", "1", "-1", "7", "63", "2**40", "len(r[3])"])
    ints = st.recursive(
        ints,
        lambda inner: st.one_of(
            _binary(["+", "-", "*", "//", "%", "&", "|", "^"])(inner),
            st.tuples(inner, st.sampled_from(["<< 3", ">> 2", ">> (r[1] & 7)", "<< (r[0] & 63)"])).map(
                lambda t: f"({t[0]} {t[1]})"
            ),
            inner.map(lambda each: f"(-{each})"),
            inner.map(lambda each: f"(~{each})"),
            inner.map(lambda each: f"abs({each})"),
            st.tuples(inner, inner).map(lambda two: f"min({two[0]}, {two[1]})"),
        ),
        max_leaves=4,
    )
    floats = st.recursive(
        st.sampled_from(["r[2]", "0.0", "1.5", "-0.0"]),
        lambda inner: st.one_of(_binary(["+", "-", "*", "/"])(inner | ints), inner.map(lambda each: f"abs({each})")),
        max_leaves=3,
    )
    texts = st.sampled_from(["r[3]", "'a'", "''", "(r[3] + 'b')", "f'{r[0]}:{r[3]}'", "str(r[1])"])
    tests = st.one_of(
        _binary(["<", "<=", "==", "!=", ">", ">="])(ints | floats),
        _binary(["<", "<=", "==", "!=", ">", ">="])(texts),
        texts.map(lambda each: f"({each}).startswith('a')"),
        texts.map(lambda each: f"({each}).endswith('\u00e9')"),
        st.tuples(st.sampled_from(["'a'", "''", "'\u4e2d'"]), texts).map(lambda two: f"({two[0]} in {two[1]})"),
        ints.map(lambda each: f"({each} not in (1, 2))"),
        texts.map(lambda each: f"({each} in {{'a', 'ab'}})"),
        ints.map(lambda each: f"(-3 < {each} <= 4)"),
        st.just("r[4]"),
    )
    tests = st.recursive(
        tests, lambda inner: _binary(["and", "or"])(inner) | inner.map(lambda each: f"(not {each})"), max_leaves=2
    )
    chosen = st.tuples(ints, tests, ints).map(lambda three: f"({three[0]} if {three[1]} else {three[2]})")
    fields = ints | floats | texts | tests | chosen
    return fields | st.tuples(fields, fields).map(lambda two: f"({two[0]}, {two[1]})")


def exactly(records: list[Any]) -> list[Any]:
    """Return what tells 1, 1.0 and True apart, and 0.0 and -0.0."""
    return [(repr(record), schema_of_value(record)) for record in records]


@settings(max_examples=60, deadline=None)
@given(source=_sources(), records=RECORDS | SMALL)
def test_kernels_give_what_python_gives(source: str, records: list[Any]) -> None:
    function = eval(f"lambda r: {source}")  # the source is this test's own
    try:
        traced, schema = trace(function, None, 1).typed(SHAPE)
    except NotVectorizable:
        return
    try:
        made: list[Any] | None = computed(traced.result, schema, columns_of(records, SHAPE)).to_list()
    except FallBackToRows:
        made = None
    try:
        expected = [function(record) for record in records]
    except (ZeroDivisionError, OverflowError, ValueError, MemoryError):
        assert made is None
        return
    if made is not None:
        assert exactly(made) == exactly(expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda r: (r[0] % 1000, 1),
        lambda r: f"line {r[0]} of the text",
        lambda r: "999 " in f"line {r[0]} of the text",
        lambda r: r[0] // 3 if r[0] > 0 else -r[0],
        lambda r: (r[3], (r[1], r[2])),
        lambda r: r[2] / 4 < 1 or r[4],
        lambda r: 0 < r[0] < 10 and r[3] not in ("a", "b"),
        lambda r: r[1] / r[0],
    ],
    ids=["pair", "text", "search", "choice", "nested", "or", "and", "quotient"],
)
def test_plain_records_are_computed_by_kernels(function: Any) -> None:
    records = [(1, 2, 0.5, "a", True), (5000, -2, -1.0, "bc", False), (999, 0, 0.0, "", True)]
    traced, schema = trace(function, None, 1).typed(SHAPE)
    made = computed(traced.result, schema, columns_of(records, SHAPE))
    assert exactly(made.to_list()) == exactly([function(record) for record in records])


@pytest.mark.parametrize(
    ("function", "records"),
    [
        (lambda r: r[0] + 1, [(2**63 - 1, 0)]),
        (lambda r: r[0] * r[1], [(2**40, 2**40)]),
        (lambda r: r[0] // r[1], [(1, 1), (1, 0)]),
        (lambda r: r[0] % r[1], [(1, 0)]),
        (lambda r: r[0] / r[1], [(2**60 + 1, 3)]),
        (lambda r: r[0] / r[1], [(1, 0)]),
        (lambda r: r[0] << r[1], [(1, -1)]),
        (lambda r: r[0] < r[1] / 2, [(2**60 + 1, 3)]),
        (lambda r: -r[0], [(-(2**63), 0)]),
    ],
    ids=["sum", "product", "floor", "remainder", "inexact", "zero", "shift", "compared", "negative"],
)
def test_a_block_without_a_certain_result_is_unfit(function: Any, records: list[Any]) -> None:
    traced, schema = trace(function, None, 1).typed(Tuple((INT, INT)))
    with pytest.raises(FallBackToRows):
        computed(traced.result, schema, columns_of(records, Tuple((INT, INT))))
