"""A block of rows has the values that its rows have one by one, whatever is NULL, sliced or constant; and they are SQL's.

The first test makes its expressions from the examples of the table of functions: each constant becomes a column of random
values. The others compare kernels over columns with what the standard says, in plain Python.
"""

from __future__ import annotations

import random
import re
from decimal import ROUND_HALF_UP, Context, Decimal
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.expr.evaluate import EvaluationContext, Evaluator, evaluate
from funken.expr.ir import Call, InputRef, Literal, rewrite, walk
from funken.expr.rules import Determinism, EvaluationError, FunctionRule
from funken.expr.sql import patterns
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.types import (
    BooleanType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    IntegralType,
    IntType,
    SymbolType,
    TimeOfDayType,
    YearMonthIntervalType,
    is_bytes,
    is_text,
    is_timestamp,
    parse_type,
)
from funken.expr.sql.values import from_internal, key_of, literal, to_internal
from funken.table.catalog import CatalogManager
from funken.table.sql.binder import Binder

CONTEXT = EvaluationContext(FUNCTIONS, "Europe/Berlin", lambda: 0)
WORDS = (
    "",
    "a",
    "Hello",
    "héllo wörld",
    "12",
    "-3.5",
    "a,b;c",
    "[1, 2]",
    '{"a": 1}',
    "2020-02-29 12:34:56",
    "http://a.org/b?c=1",
    "a_b%",
)
NEVER_SAME = {rule.name for rule in FUNCTIONS if getattr(rule, "determinism", None) is Determinism.NONE}
EXAMPLES = [
    (rule.name, sql)
    for rule in FUNCTIONS
    if isinstance(rule, FunctionRule) and rule.determinism is Determinism.DETERMINISTIC
    for sql, _ in rule.examples
]


def bound(sql, *columns):
    """Return the node of an expression over columns."""
    return Binder(CatalogManager()).expression(sql, list(columns))


def value_of(type_, chance, given):
    """Return a random value of a type, often the given one or NULL."""
    if chance.random() < 0.2:
        return None
    if chance.random() < 0.3:
        return given
    if isinstance(type_, IntegralType):
        return chance.choice(
            (0, 1, -1, 2, 7, -(1 << (type_.bits - 1)), (1 << (type_.bits - 1)) - 1, chance.randrange(-9, 9))
        )
    if isinstance(type_, DecimalType):
        return Decimal(chance.randrange(-(10**type_.precision) + 1, 10**type_.precision)).scaleb(-type_.scale)
    if isinstance(type_, BooleanType):
        return chance.random() < 0.5
    if is_text(type_):
        return chance.choice(WORDS)[: type_.length].ljust(0 if type_.varying else type_.length)
    if is_bytes(type_):
        return chance.choice(WORDS).encode()[: type_.length].ljust(0 if type_.varying else type_.length, b"\0")
    if isinstance(type_, DateType):
        return chance.randrange(-30000, 30000)
    if isinstance(type_, TimeOfDayType):
        return chance.randrange(86_400) * 1000
    if is_timestamp(type_):
        return chance.randrange(-2_000_000_000, 2_000_000_000) * 10**9
    if isinstance(type_, DayTimeIntervalType):
        return chance.randrange(-(10**9), 10**9)
    if isinstance(type_, YearMonthIntervalType):
        return chance.randrange(-100, 100)
    if isinstance(type_, DoubleType):
        return chance.choice((0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), 1e300, 0.1))
    return given


def with_columns(node, columns):
    """Return the expression with a column in the place of every constant that may be one; the columns are added."""

    def change(each):
        if isinstance(each, Call) and each.function in FUNCTIONS:
            args = list(each.args)
            for at, arg in enumerate(args):
                if isinstance(arg, Literal) and not isinstance(arg.type, SymbolType) and arg.value is not None:
                    if (each.function, at) in CONSTANT or each.function in CONSTANTS:
                        continue
                    columns.append((arg.type.nullable(), arg.value))
                    args[at] = InputRef(len(columns) - 1, type=arg.type.nullable())
            return Call(each.function, tuple(args), each.options, type=each.type.nullable(), handle=each.handle)
        return each

    return rewrite(node, change)


CONSTANTS = {"JSON_VALUE", "JSON_QUERY", "JSON_EXISTS", "OBJECT_OF", "OBJECT_UPDATE", "TYPEOF"}
"""Functions of constants: paths, names of classes and fields."""
CONSTANT = {("REPEAT", 1), ("LPAD", 1), ("RPAD", 1), ("MAP", 0)}
"""Counts that make texts of gigabytes; keys, which may not be NULL."""


def rows_of(node, batch):
    """Return the values of the rows, each computed alone; ``None`` if one of them fails."""
    found = []
    for at in range(batch.num_rows):
        try:
            (column,) = evaluate([node], batch.slice(at, 1), CONTEXT)
        except EvaluationError:
            return None
        found += to_internal(column, node.type)
    return found


@pytest.mark.parametrize(("name", "sql"), EXAMPLES, ids=[f"{name}-{at}" for at, (name, _) in enumerate(EXAMPLES)])
def test_a_block_has_the_values_of_its_rows(name, sql):
    columns = []
    node = with_columns(bound(sql), columns)
    assert NEVER_SAME.isdisjoint(each.function for each in walk(node) if isinstance(each, Call))
    columns = columns or [(IntType(), 1)]
    chance = random.Random(name)
    for _ in range(8):
        arrays = [from_internal([value_of(type_, chance, given) for _ in range(12)], type_) for type_, given in columns]
        batch = pa.RecordBatch.from_arrays(arrays, [str(at) for at in range(len(arrays))]).slice(2)
        wanted = rows_of(node, batch)
        if wanted is None:
            with pytest.raises(EvaluationError):
                evaluate([node], batch, CONTEXT)
            continue
        (found,) = evaluate([node], batch, CONTEXT)
        assert len(found) == batch.num_rows
        assert [key_of(each, node.type) for each in to_internal(found, node.type)] == [
            key_of(each, node.type) for each in wanted
        ]


# ---- kernels over columns against plain Python


def column_of(values, type_):
    return pa.RecordBatch.from_arrays([from_internal(list(each), type_) for each in values], ["a", "b"][: len(values)])


def computed(sql, type_, *values):
    """Return an expression over columns a and b of one type."""
    node = bound(sql, *zip("ab", [type_] * len(values), strict=False))
    (found,) = evaluate([node], column_of(values, type_), CONTEXT)
    return to_internal(found, node.type), node.type


def pairs(values):
    one = st.none() | values
    return st.lists(st.tuples(one, one), min_size=1, max_size=30)


def cut(one, other):
    found = abs(one) // abs(other)
    return found if (one < 0) == (other < 0) else -found


def wrapped(value, bits):
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


@pytest.mark.parametrize("type_", INTEGERS)
@given(st.data())
@settings(max_examples=20, deadline=None)
def test_integers_wrap_around_and_division_cuts(type_, data):
    bits = INTEGERS[type_]
    most = (1 << (bits - 1)) - 1
    given_ = data.draw(pairs(st.integers(-most - 1, most) | st.sampled_from([-most - 1, most, -1, 1])))
    a, b = zip(*given_, strict=True)
    some = [None if None in pair else pair for pair in given_]
    for sign, plain in (("+", lambda x, y: x + y), ("-", lambda x, y: x - y), ("*", lambda x, y: x * y)):
        found, _ = computed(f"a {sign} b", parse_type(type_), a, b)
        assert found == [pair and wrapped(plain(*pair), bits) for pair in some]
    b = [each or 1 if each is not None else None for each in b]
    some = [None if None in pair else pair for pair in zip(a, b, strict=True)]
    assert computed("a / b", parse_type(type_), a, b)[0] == [pair and wrapped(cut(*pair), bits) for pair in some]
    left = [pair and pair[0] - pair[1] * cut(*pair) for pair in some]
    assert computed("a % b", parse_type(type_), a, b)[0] == left
    assert computed("MOD(a, b)", parse_type(type_), a, b)[0] == left
    with pytest.raises(EvaluationError, match="by zero"):
        computed("MOD(a, b)", parse_type(type_), [1, *a], [0, *b])


DECIMALS = st.decimals(-(10**8), 10**8, allow_nan=False, places=2)


@given(pairs(DECIMALS))
@settings(max_examples=40, deadline=None)
def test_decimals_are_exact_and_rounded_half_up(given_):
    type_ = DecimalType(10, 2)
    a, b = zip(*given_, strict=True)
    exact = Context(prec=90, rounding=ROUND_HALF_UP)
    for sign, plain in (("+", exact.add), ("-", exact.subtract), ("*", exact.multiply), ("/", exact.divide)):
        divisors = [each or Decimal(3) if each is not None else None for each in b] if sign == "/" else b
        found, result = computed(f"a {sign} b", type_, a, divisors)
        step = Decimal(1).scaleb(-result.scale)
        wanted = [
            None if x is None or y is None else plain(x, y).quantize(step, context=exact)
            for x, y in zip(a, divisors, strict=True)
        ]
        assert found == wanted


@given(pairs(st.booleans()))
@settings(max_examples=30, deadline=None)
def test_logic_has_three_values(given_):
    a, b = zip(*given_, strict=True)
    type_ = BooleanType()

    def both(x, y):
        return False if x is False or y is False else None if x is None or y is None else True

    def inverse(x):
        return None if x is None else not x

    assert computed("a AND b", type_, a, b)[0] == [both(x, y) for x, y in given_]
    assert computed("a OR b", type_, a, b)[0] == [inverse(both(inverse(x), inverse(y))) for x, y in given_]
    assert computed("NOT a", type_, a)[0] == [inverse(x) for x in a]
    assert computed("a IS NOT TRUE", type_, a)[0] == [x is not True for x in a]
    assert computed("a IS UNKNOWN", type_, a)[0] == [x is None for x in a]


ANY_TYPE = {
    "INT": st.integers(-3, 3),
    "STRING": st.text("ab", max_size=2),
    "DOUBLE": st.floats(-2, 2),
    "DECIMAL(5, 2)": st.decimals(-3, 3, allow_nan=False, places=1),
    "DATE": st.integers(-2, 2),
    "TIMESTAMP(3)": st.integers(-2, 2).map(lambda each: each * 10**6),
    "BOOLEAN": st.booleans(),
}


@pytest.mark.parametrize("type_", ANY_TYPE)
@given(st.data())
@settings(max_examples=15, deadline=None)
def test_comparisons_and_conditions_of_every_type(type_, data):
    given_ = data.draw(pairs(ANY_TYPE[type_]))
    a, b = zip(*given_, strict=True)
    parsed = parse_type(type_)
    some = [None if None in pair else pair for pair in given_]
    for sign, plain in (("=", "__eq__"), ("<>", "__ne__"), ("<", "__lt__"), (">=", "__ge__")):
        found, _ = computed(f"a {sign} b", parsed, a, b)
        assert found == [pair and getattr(pair[0], plain)(pair[1]) for pair in some]
    assert computed("a IS NOT DISTINCT FROM b", parsed, a, b)[0] == [x == y for x, y in given_]
    assert computed("COALESCE(a, b)", parsed, a, b)[0] == [y if x is None else x for x, y in given_]
    assert computed("CASE WHEN a < b THEN a ELSE b END", parsed, a, b)[0] == [
        pair[0] if pair is not None and pair[0] < pair[1] else y for pair, (_, y) in zip(some, given_, strict=True)
    ]
    assert computed("NULLIF(a, b)", parsed, a, b)[0] == [
        None if pair is not None and pair[0] == pair[1] else x for pair, (x, _) in zip(some, given_, strict=True)
    ]
    assert computed("a IN (b, b)", parsed, a, b)[0] == [pair and pair[0] == pair[1] for pair in some]


@given(pairs(st.integers(-3, 3)))
@settings(max_examples=30, deadline=None)
def test_a_condition_guards_what_would_fail(given_):
    a, b = zip(*given_, strict=True)
    guarded = [None if x is None or not y else cut(x, y) for x, y in given_]

    assert computed("CASE WHEN b <> 0 THEN a / b END", IntType(), a, b)[0] == guarded
    assert computed("IF(b <> 0, a / b, CAST(NULL AS INT))", IntType(), a, b)[0] == guarded
    assert computed("b <> 0 AND a / b > 0", IntType(), a, b)[0] == [
        False if y == 0 else None if value is None else value > 0 for value, y in zip(guarded, b, strict=True)
    ]


@given(pairs(st.integers(-3, 3)))
@settings(max_examples=30, deadline=None)
def test_what_may_fail_is_computed_behind_an_unknown_condition_too(given_):
    a, b = zip(*given_, strict=True)
    for word, decided in (("AND", False), ("OR", True)):
        both = [(None if y is None else y > 0, None if x is None else cut(x, 2) > 0) for x, y in given_]
        assert computed(f"b > 0 {word} a / 2 > 0", IntType(), a, b)[0] == [
            decided if decided in each else None if None in each else not decided for each in both
        ]


def test_arms_of_case_that_go_value_by_value_are_computed_for_their_rows_alone(monkeypatch):
    asked = []
    search = re.compile("b+")
    spied = SimpleNamespace(groups=0, search=lambda text: asked.append(text) or search.search(text))
    monkeypatch.setattr(patterns, "valid_expression", lambda pattern: spied)
    batch = pa.record_batch({"a": ["abb", "x", None, "bc"], "b": [True, False, True, None]})
    node = bound(
        "CASE WHEN b THEN REGEXP_INSTR(a, 'b+') ELSE -1 END", ("a", parse_type("STRING")), ("b", BooleanType())
    )

    [found] = evaluate([node], batch, CONTEXT)

    assert found.to_pylist() == [2, -1, None, -1]
    assert asked == ["abb"]


@pytest.mark.parametrize(("deterministic", "seen"), [(True, [1, 2, 3]), (False, [1, 2, 3, 2, 3])])
def test_what_a_condition_has_computed_is_not_computed_for_its_arm(deterministic, seen):
    called = []
    handle = SimpleNamespace(
        deterministic=deterministic,
        evaluate=lambda node, over: called.extend(over.column(node.args[0]).to_pylist()) or over.column(node.args[0]),
    )
    call = Call("f", (InputRef(0, type=IntType()),), type=IntType(), handle=handle)
    test = FUNCTIONS.call(">", [call, Literal(1, type=IntType())])
    node = FUNCTIONS.call("CASE", [test, call, Literal(0, type=IntType())])

    [found] = evaluate([node], pa.record_batch({"a": pa.array([1, 2, 3], pa.int32())}), CONTEXT)

    assert found.to_pylist() == [0, 2, 3]
    assert called == seen


def test_what_all_rows_have_is_not_computed_for_some_again():
    columns = [("a", IntType()), ("b", IntType())]
    total, more, chance = (bound(sql, *columns) for sql in ("a + b", "(a + b) * 2", "RAND() + a"))
    batch = pa.record_batch({"a": pa.array([1, 2, 3], pa.int32()), "b": pa.array([10, 20, None], pa.int32())})
    whole = Evaluator(batch, CONTEXT)
    whole.value(total), whole.value(chance)
    some = whole.under(pa.array([False, True, True]))
    again = some.under(pa.array([False, True]))

    assert some.computed(total).to_pylist() == [22, None]
    assert some.column(more).to_pylist() == [44, None]
    assert again.column(more).to_pylist() == [None]
    assert some.computed(chance) is None  # it is another one each time
    assert [each.rows for each in (some, again, whole.under(None))] == [2, 1, 3]
    assert whole.under(None).column(more).to_pylist() == [22, 44, None]


@pytest.mark.parametrize("pattern", ["b+", "(b)(c)?", "("])
def test_a_constant_expression_means_what_one_per_row_means(pattern):
    texts = ["abbc", "", None, "bcbc", "x"] * 20
    batch = pa.record_batch({"a": texts, "p": [pattern] * len(texts)})
    columns = [("a", parse_type("STRING")), ("p", parse_type("STRING"))]
    for call in (
        "REGEXP_EXTRACT(a, {}, 0)", "REGEXP_EXTRACT(a, {}, 2)", "REGEXP_EXTRACT_ALL(a, {}, 1)", "REGEXP_COUNT(a, {})",
        "REGEXP_INSTR(a, {})", "REGEXP_SUBSTR(a, {})", "REGEXP_REPLACE(a, {}, '-')",
    ):  # fmt: skip
        nodes = [bound(call.format(each), *columns) for each in (f"'{pattern}'", "p")]
        one, other = (column.to_pylist() for column in evaluate(nodes, batch, CONTEXT))
        assert one == other


@given(
    st.lists(st.none() | st.text("a/é-", max_size=8), max_size=12),
    st.sampled_from(["/", "--", "/-", "é", "/-/", "", "a-é"]),
    st.integers(-1, 4),
    st.integers(0, 3),
)
@settings(max_examples=200, deadline=None)
def test_parts_of_texts_are_those_of_each_text(texts, separator, index, left_out):
    column = pa.array(texts, pa.string()).slice(min(left_out, len(texts)))
    batch = pa.record_batch({"a": column, "p": [separator] * len(column)})
    columns = [("a", parse_type("STRING")), ("p", parse_type("STRING"))]
    nodes = [bound(f"SPLIT_INDEX(a, {each}, {index})", *columns) for each in (f"'{separator}'", "p")]

    one, other = evaluate(nodes, batch, CONTEXT)

    assert one.to_pylist() == other.to_pylist()
    one.validate(full=True)


_ITEMS = ["a", "b", "é", ".", "[^a]", "[ab]", r"\d", r"\W", r"\s", "[^ ]", "^", r"\z", "$", r"\b", "(?=a)"]
_EXPRESSIONS = st.recursive(
    st.sampled_from(_ITEMS),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        inner.map(lambda each: f"({each})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,2}?"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=6,
)  # fmt: skip


@given(_EXPRESSIONS, st.lists(st.none() | st.text("abé1_ \n\x0b", max_size=6), min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_expressions_find_on_columns_what_they_find_in_each_text(pattern, texts):
    batch = pa.record_batch({"a": pa.array(texts, pa.string()), "p": [pattern] * len(texts)})
    columns = [("a", parse_type("STRING")), ("p", parse_type("STRING"))]
    for call in (
        *(f"REGEXP_EXTRACT(a, {{}}, {group})" for group in (0, 1, 2)), "REGEXP(a, {})", "REGEXP_COUNT(a, {})",
        "REGEXP_SUBSTR(a, {})", "REGEXP_REPLACE(a, {}, '\\\\1-')",
    ):  # fmt: skip
        nodes = [bound(call.format(each), *columns) for each in (f"'{pattern}'", "p")]
        one, other = (column.to_pylist() for column in evaluate(nodes, batch, CONTEXT))
        assert one == other, (call, patterns.linear_pattern(patterns.regular_expression(pattern)))


@pytest.mark.parametrize(
    ("pattern", "group"), [("(&|^)id=([^&]*)", 2), ("a+?b{2,3}", 0), (r"(\w+)\s(\d|x)", 1), (r"a\z", 0)]
)
def test_usual_expressions_go_to_columns(pattern, group):
    assert patterns.linear_pattern(patterns.regular_expression(pattern), group)


PATTERNS = st.tuples(st.sampled_from(["", "%", "_"]), st.text("ab.", max_size=2), st.sampled_from(["", "%", "_", "%b"]))


@given(
    st.lists(st.none() | st.text("ab%_.", max_size=5), min_size=1, max_size=20),
    PATTERNS.map("".join) | st.text("ab%_.", max_size=4),
)
@settings(max_examples=150, deadline=None)
def test_like_is_a_regular_expression(texts, pattern):
    node = bound(f"a LIKE '{pattern}'", ("a", parse_type("STRING")))
    (found,) = evaluate([node], column_of([texts], parse_type("STRING")), CONTEXT)
    expression = re.compile("".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in pattern), re.DOTALL)

    assert found.to_pylist() == [None if each is None else bool(expression.fullmatch(each)) for each in texts]


NESTED = {
    "ARRAY<INT>": st.lists(st.none() | st.integers(-9, 9), max_size=3),
    "MAP<STRING, INT>": st.dictionaries(st.text("ab", max_size=2), st.integers(-9, 9), max_size=3).map(
        lambda found: list(found.items())
    ),
    "ROW<a INT, b ARRAY<STRING>>": st.tuples(
        st.none() | st.integers(-9, 9), st.none() | st.lists(st.none() | st.text("ab", max_size=2), max_size=2)
    ),
    "ARRAY<ROW<a DECIMAL(4, 1), t TIMESTAMP(9)>>": st.lists(
        st.none() | st.tuples(st.none() | st.decimals(-9, 9, places=1), st.none() | st.integers(-9, 9)), max_size=3
    ),
    "BITMAP": st.just(((1, 3), (7, 7))),
}


@pytest.mark.parametrize("type_", NESTED)
@given(st.data(), st.integers(0, 4), st.integers(0, 8))
@settings(max_examples=30, deadline=None)
def test_values_come_back_from_slices_of_columns(type_, data, start, size):
    values = data.draw(st.lists(st.none() | NESTED[type_], min_size=1, max_size=8))
    parsed = parse_type(type_)
    column = from_internal(values, parsed)

    assert to_internal(column, parsed) == values
    assert to_internal(column.slice(start, size), parsed) == values[start : start + size]


def test_a_literal_is_a_column_of_itself():
    (found,) = evaluate([literal(5)], pa.RecordBatch.from_arrays([pa.array([1, 2])], ["a"]), CONTEXT)

    assert found.to_pylist() == [5, 5]
