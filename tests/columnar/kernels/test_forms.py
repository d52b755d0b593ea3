"""Functions for a block at once give what Python's functions give for each value, or leave the block to them."""

import functools
import gc
import math
import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from funken.columnar.kernels import text as cuts
from funken.columnar.kernels.columns import Column, FallBackToRows, column_of, columns_of
from funken.columnar.kernels.evaluation import computed
from funken.columnar.kernels.rowwise import kernel_of
from funken.columnar.tracing import trace
from funken.expr.python.table import TABLE
from funken.expr.types import FLOAT, INT, NONE, STR

ASCII = st.text("aAbBzZ019 -+.,_=\x1c\x1f\t\n\r\x0b'", max_size=7)
ANY = st.text("aA1 ,=éÉßİ中²\U0001f600\u00a0\u2003ǆ", max_size=6)
WRITTEN = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.floats(allow_nan=False).map(repr),
    st.floats(-1e6, 1e6).map("{:.3f}".format),
    st.text("0123456789-+.eE_ x", min_size=1, max_size=6),
    st.sampled_from(["007", "-0", "+5", " 5", "1e400", "1e-400", "5e-324", "1.", ".5", "0x1f", "inf", "nan", "²", "٣"]),
)
TEXTS = st.one_of(st.lists(ASCII, min_size=1, max_size=6), st.lists(ANY | ASCII, min_size=1, max_size=6))

ALONE = [
    row.name
    for row in TABLE
    if row.texts and row.name.startswith(("str.is", "str.lo", "str.up", "str.ca", "str.ti", "str.sw"))
]
WITH_ONE = {
    "str.strip": ["a", " a", "é"], "str.lstrip": ["a", "-+"], "str.rstrip": ["1", "\n"],
    "str.count": ["a", "aa", "é"], "str.find": ["a", "aa", "é", "1 "], "str.rfind": ["a", "aA", "aa", ","],
    "str.index": ["a"], "str.rindex": ["a"], "str.removeprefix": ["a", "aA", "é", ""], "str.removesuffix": ["1", "é"],
    "str.zfill": [0, 3, 6], "str.ljust": [4], "str.rjust": [5], "format": ["", "5", "<4", ">6", "05", "^5", "s", "5s"],
    "item": [0, -1, 1, -3],
}  # fmt: skip
ONE = [(name, argument) for name, some in WITH_ONE.items() for argument in some]
SLICES = [
    (None, 2, None), (1, None, None), (-2, None, None), (None, -1, None), (1, -1, None), (-3, -1, 1), (3, 1, None), (0, 2, 2),
]  # fmt: skip


def constant(value):
    return Column(NONE, value, True)


def same(values, found):
    return [(type(value), repr(value)) for value in values] == [(type(value), repr(value)) for value in found]


def checked(form, function, values, kind, *arguments):
    """Compare a form with a function; return whether the form computed the values."""
    columns = [column_of(values, kind), *map(constant, arguments)]
    try:
        expected = [function(value, *arguments) for value in values]
    except (ValueError, IndexError, TypeError, ArithmeticError):
        expected = None
    try:
        with np.errstate(all="ignore"):
            found = form(*columns)
    except FallBackToRows:
        found = None
    if found is None:
        return False
    assert expected is not None
    assert same(found.to_list(len(values)), expected), (found.to_list(len(values)), expected)
    return True


@pytest.mark.parametrize("name", [*ALONE, "str.strip", "str.lstrip", "str.rstrip", "ord"])
@settings(max_examples=60)
@given(TEXTS)
def test_functions_of_a_text(name, texts):
    done = checked(kernel_of(name, "texts"), TABLE[name].function, texts, STR)
    plain = all(text.isascii() and not set(text) & set("\x1c\x1f") for text in texts)
    assert done or not plain or name == "ord"


@pytest.mark.parametrize(("name", "argument"), ONE)
@settings(max_examples=60)
@given(TEXTS)
def test_functions_of_a_text_and_a_constant(name, argument, texts):
    checked(kernel_of(name, "texts"), TABLE[name].function, texts, STR, argument)


def test_the_forms_of_texts_are_used():
    words = ["abc a1", "a aa1", "xaab"]
    unused = [
        (name, argument)
        for name, argument in ONE
        if not checked(kernel_of(name, "texts"), TABLE[name].function, words, STR, argument)
    ]
    assert unused == [
        ("str.strip", "é"), ("str.removeprefix", ""), ("format", "05"), ("format", "^5"), ("format", "s"), ("format", "5s"),
    ]  # fmt: skip
    for form, texts in (
        (kernel_of("int", "texts"), ["12", "-7", "007"]),
        (kernel_of("float", "texts"), ["1.5", "-2e3", "7"]),
    ):
        assert form(column_of(texts, STR)) is not None


@pytest.mark.parametrize("bounds", SLICES)
@settings(max_examples=60)
@given(TEXTS)
def test_slices(bounds, texts):
    def sliced(text, *_):
        return text[slice(*bounds)]

    done = checked(cuts.sliced, sliced, texts, STR, *bounds)
    assert done == (all(text.isascii() for text in texts) and bounds[2] != 2)


@pytest.mark.parametrize(("name", "of"), [("int", int), ("float", float)])
@settings(max_examples=300)
@given(st.lists(WRITTEN, min_size=1, max_size=3))
def test_numbers_are_read(name, of, texts):
    checked(kernel_of(name, "texts"), of, texts, STR)


@functools.cache
def parts(separator):
    """Functions that take texts apart, traced once."""
    sources = [
        "lambda s: s.split({0!r})[0]", "lambda s: s.split({0!r})[1]", "lambda s: s.split({0!r})[-1]",
        "lambda s: s.split({0!r})[-2]", "lambda s: len(s.split({0!r}))", "lambda s: s.split({0!r}, 1)[0]",
        "lambda s: s.split({0!r}, 1)[-1]", "lambda s: s.split({0!r}, 2)[1]", "lambda s: len(s.split({0!r}, 2))",
        "lambda s: s.rsplit({0!r}, 1)[0]", "lambda s: s.rsplit({0!r}, 1)[-1]", "lambda s: s.rsplit({0!r}, 2)[-2]",
        "lambda s: s.rsplit({0!r})[1]", "lambda s: s.partition({0!r})", "lambda s: s.partition({0!r})[2]",
        "lambda s: s.split()[0]", "lambda s: s.split()[-1]", "lambda s: len(s.split())", "lambda s: s.split({0!r}, 0)[0]",
        "lambda s: s.split({0!r}, -1)[-1]", "lambda s: s[: s.find({0!r})]",
    ]  # fmt: skip
    functions = {source: eval(source.format(separator)) for source in sources}
    return [(source, function, *trace(function, None, 1).typed(STR)) for source, function in functions.items()]


@pytest.mark.parametrize("separator", [",", "=", "aa", "a,", "é", ", ", "aba"])
@settings(max_examples=80)
@given(st.lists(st.text("aab,= éb", max_size=8), min_size=1, max_size=6))
@example(["", "", ""])
@example(["a,", "a", ",a", ""])
def test_parts(separator, texts):
    for source, function, traced, schema in parts(separator):
        try:
            expected = [function(text) for text in texts]
        except IndexError:
            expected = None
        try:
            found = computed(traced.result, schema, columns_of(texts, STR)).to_list()
        except FallBackToRows:
            found = None
        assert found == expected, source


def pair(text):
    one, two = text.split(",")
    return two + one


@given(st.lists(st.text("ab,", max_size=4), min_size=1, max_size=4))
@example(["a,b", "c,d"])
def test_parts_are_unpacked(texts):
    traced, schema = trace(pair, None, 1).typed(STR)
    fits = all(text.count(",") == 1 for text in texts)
    try:
        found = computed(traced.result, schema, columns_of(texts, STR)).to_list()
    except FallBackToRows:
        found = None
    assert found == (list(map(pair, texts)) if fits else None)


# ---- numbers

FLOATS = st.one_of(
    st.floats(),
    st.floats(-1e6, 1e6),
    st.integers(-10**6, 10**6).map(lambda number: number / 1000),
    st.integers(-10**4, 10**4).map(float),
    st.integers(-10**4, 10**4).map(lambda number: number + 0.5),
    st.sampled_from([0.0, -0.0, 2.675, 0.125, 1.005, -0.001, 1e22, 4503599627370497.5, 1e-5, 9999999999.9, 0.0001]),
)  # fmt: skip
INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-1000, 1000)
OF_FLOATS = [
    "math.sqrt",
    "math.floor",
    "math.ceil",
    "math.trunc",
    "math.fabs",
    "math.isnan",
    "math.isinf",
    "math.isfinite",
]
OF_FLOATS += ["math.degrees", "math.radians", "float.is_integer", "int", "round", "str", "repr"]


@pytest.mark.parametrize("name", OF_FLOATS)
@settings(max_examples=200)
@given(st.lists(FLOATS, min_size=1, max_size=3))
def test_functions_of_floats(name, numbers):
    checked(kernel_of(name, "numbers"), TABLE[name].function, numbers, FLOAT)


@pytest.mark.parametrize("name", ["math.sqrt", "math.degrees", "int.bit_length"])
@given(st.lists(INTS, min_size=1, max_size=3))
def test_functions_of_ints(name, numbers):
    checked(kernel_of(name, "numbers"), TABLE[name].function, numbers, INT)


@pytest.mark.parametrize("digits", [0, 1, 2, 5, 9])
@settings(max_examples=300)
@given(st.lists(FLOATS, min_size=1, max_size=4))
def test_digits_after_the_point(digits, numbers):
    checked(kernel_of("round", "numbers"), round, numbers, FLOAT, digits)
    checked(kernel_of("format", "numbers"), format, numbers, FLOAT, f".{digits}f")


@pytest.mark.parametrize("spec", ["", "d", "5", "08d", "03", ">6", "<7d", "<05", ",", "x", "+d", "0", "5.2"])
@given(st.lists(INTS, min_size=1, max_size=3))
def test_formats_of_ints(spec, numbers):
    checked(kernel_of("format", "numbers"), format, numbers, INT, spec)


@pytest.mark.parametrize("name", ["%", "//"])
@settings(max_examples=300)
@given(st.lists(FLOATS, min_size=1, max_size=3), FLOATS | st.integers(-5, 5))
def test_remainders_of_floats(name, numbers, other):
    function = TABLE[name].function
    checked(kernel_of(name, "numbers"), function, numbers, FLOAT, other)
    if isinstance(other, float) and all(numbers):  # the other way round
        with np.errstate(all="ignore"):
            found = kernel_of(name, "numbers")(constant(other), column_of(numbers, FLOAT))
        if found is not None:
            assert same(found.to_list(len(numbers)), [function(other, number) for number in numbers])


@given(st.lists(INTS, min_size=1, max_size=3), st.integers(-100, 100))
def test_common_divisors(numbers, other):
    checked(kernel_of("math.gcd", "numbers"), math.gcd, numbers, INT, other)


def test_the_forms_of_numbers_are_used():
    floats, ints = [1.5, -2.25, 1234.5678], [3, 40, 500]
    for name in OF_FLOATS:
        assert checked(kernel_of(name, "numbers"), TABLE[name].function, [abs(each) for each in floats], FLOAT), name
    for spec in ("", ".2f", ".0f"):
        assert checked(kernel_of("format", "numbers"), format, floats, FLOAT, spec)
    for spec in ("", "d", "5", "08d", ">6", "<7d"):
        assert checked(kernel_of("format", "numbers"), format, ints, INT, spec)
    assert checked(kernel_of("round", "numbers"), round, floats, FLOAT, 2)
    for name in ("%", "//"):
        assert checked(kernel_of(name, "numbers"), TABLE[name].function, floats, FLOAT, 0.7)


def test_the_middle_between_two_numbers_is_left_to_python():
    middles = [number + 0.5 for number in range(20)] + [2.675, 1.005] + [0.1] * 40
    assert checked(kernel_of("round", "numbers"), round, middles, FLOAT, 0)
    assert checked(kernel_of("format", "numbers"), format, middles, FLOAT, ".0f")
    assert checked(kernel_of("round", "numbers"), round, [2.675, 1.005, 0.1, 0.2, 0.3], FLOAT, 2)
    assert kernel_of("round", "numbers")(column_of(middles[:20], FLOAT), constant(0)) is None
    assert (
        struct.pack("d", kernel_of("round", "numbers")(column_of([-0.001, 1.0], FLOAT), constant(2)).data[0])[7] == 0x80
    )


# ---- tables

CODES, SIZES, NAMES = (
    {"a": 1, "é": 2, "": 3},
    {1: "one", -(2**63): "low", 2**63 - 1: "high"},
    frozenset(["a", "b", "ab"]),
)


@pytest.mark.parametrize("times", [1, 20])
@given(
    st.lists(st.sampled_from(["a", "é", "", "b", "ab"]), min_size=1, max_size=5), st.lists(INTS, min_size=1, max_size=5)
)
def test_tables(times, texts, numbers):
    """Also in blocks that are long enough to look all keys up at once."""
    lookups = [
        (STR, texts, lambda s: CODES.get(s, 0)), (STR, texts, lambda s: s in CODES), (STR, texts, lambda s: s not in NAMES),
        (STR, texts, lambda s: CODES[s]), (STR, texts, lambda s: CODES[s] + 1 if s in CODES else -1),
        (STR, texts, lambda s: CODES.get(s) is None), (INT, numbers, lambda i: SIZES.get(i, "none")),
        (INT, numbers, lambda i: i in SIZES), (INT, numbers, lambda i: SIZES[i]), (STR, texts, lambda s: (CODES.get(s), 1)),
    ]  # fmt: skip
    for kind, values, function in lookups:
        many = values * times
        traced, schema = trace(function, None, 1).typed(kind)
        try:
            expected = list(map(function, many))
        except KeyError:
            expected = None
        try:
            found = computed(traced.result, schema, columns_of(many, kind)).to_list()
        except FallBackToRows:
            found = None
        assert found == expected


def test_keys_are_looked_up_without_a_call_for_each(monkeypatch):
    from funken.columnar.kernels import rowwise

    monkeypatch.setattr(rowwise, "_called", None)
    traced, schema = trace(lambda s: CODES.get(s, 0), None, 1).typed(STR)
    assert computed(traced.result, schema, columns_of(["a", "b"] * 20, STR)).to_list() == [1, 0] * 20


@pytest.mark.parametrize("function", [
    lambda s: (s.split(",")[0], s.split(",", 1)[-1]), lambda s: s.partition(",")[2], lambda s: len(s.split()),
    lambda s: s.upper() if len(s) > 2 else s.lower(), lambda s: CODES.get(s, 0), lambda s: f"<{s}>",
])  # fmt: skip
def test_a_block_is_freed_without_the_cyclic_collector(function):
    """A program whose blocks wait for it took twice the memory, and more time."""
    traced, schema = trace(function, None, 1).typed(STR)
    block = columns_of(["a,b", "c,d e"] * 40, STR)
    computed(traced.result, schema, block).to_list()
    gc.collect()
    gc.disable()
    try:
        computed(traced.result, schema, block).to_list()
        assert gc.collect() == 0
    finally:
        gc.enable()
