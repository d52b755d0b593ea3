"""MATCH_RECOGNIZE: the results that Flink's documentation gives, each clause, and what is refused."""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass

import cloudpickle
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from funken import DataStream, InvalidProgram, Row, RuntimeExecutionMode, WatermarkStrategy
from funken.cep import AfterMatchSkipStrategy, match_recognize
from funken.cep.row_nfa import RowNfa, RowPlan, compile_rows, parse
from funken.errors import FunkenError, JobExecutionError
from funken.ids import MAX_WATERMARK
from funken.testing import local

BY_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])


def ticks(prices: str) -> DataStream:
    records = [("ACME", at, int(price)) for at, price in enumerate(prices.split())]
    return local(records).assign_timestamps_and_watermarks(BY_TIME)


def found(body: str, prices: str, **options) -> list[tuple]:
    stream = match_recognize(
        f"MATCH_RECOGNIZE (ORDER BY time {body})", ticks(prices), columns=["symbol", "time", "price"], **options
    )
    return [tuple(row) for row in stream.execute_and_collect(limit=99)]


# ---- Flink's documented results

FALLING = """
    MEASURES START.price AS start_price, LAST(DOWN.price) AS bottom, LAST(UP.price) AS end_price
    ONE ROW PER MATCH
    AFTER MATCH SKIP TO LAST UP
    PATTERN (START DOWN+ UP)
    DEFINE
        DOWN AS (LAST(DOWN.price, 1) IS NULL AND DOWN.price < START.price) OR DOWN.price < LAST(DOWN.price, 1),
        UP AS UP.price > LAST(DOWN.price, 1)
"""


def test_a_price_that_falls_and_rises_again():
    assert found(FALLING, "12 17 19 21 25 18 15 14 24 25 19") == [(25, 14, 24)]


def test_an_average_over_what_is_taken_and_the_row_itself():
    body = "MEASURES AVG(A.price) AS a, LAST(B.price) AS b PATTERN (A+ B) DEFINE A AS AVG(A.price) < 15"
    assert found(body, "12 17 13 16 25 2 4 10 15 25 25 30") == [(14.5, 25), (13.5, 30)]


@pytest.mark.parametrize(("quantifier", "expected"), [("*", [(16,)]), ("*?", [(13,), (16,)])])
def test_greedy_and_reluctant(quantifier, expected):
    body = f"MEASURES C.price AS c PATTERN (A B{quantifier} C) DEFINE A AS A.price > 10, B AS B.price < 15, C AS C.price > 12"
    assert found(body, "10 11 12 13 14 16") == expected


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        ("", [26, 17]),
        ("PAST LAST ROW", [26, 17]),
        ("TO NEXT ROW", [26, 24, 25, 22, 17, 7]),  # the last one when the input ends, and no further A can come
    ],
)
def test_after_match(skip, expected):
    after = skip and f"AFTER MATCH SKIP {skip}"
    body = f"MEASURES SUM(A.price) AS total {after} PATTERN (A+ C) DEFINE A AS SUM(A.price) < 30"
    assert [row[0] for row in found(body, "7 9 10 5 10 7 14")] == expected


def test_skip_to_the_last_row_of_a_variable():
    body = """MEASURES SUM(A.price) AS total AFTER MATCH SKIP TO LAST A PATTERN (A{2,} C)
        DEFINE A AS SUM(A.price) < 30"""
    assert found(body, "7 9 10 5 10 7 14") == [(26,), (25,), (17,)]


def test_a_skip_that_would_not_advance_fails():
    body = "MEASURES SUM(A.price) AS a AFTER MATCH SKIP TO FIRST A PATTERN (A+ C) DEFINE A AS SUM(A.price) < 30"
    with pytest.raises(JobExecutionError, match="the match's own first event"):
        found(body, "7 9 10 5 10 7 14")


# ---- clauses


def test_partitions_and_their_columns():
    records = [("a", 1, 1), ("b", 2, 5), ("a", 3, 9), ("b", 4, 6)]
    stream = local(records).assign_timestamps_and_watermarks(BY_TIME)
    query = """SELECT * FROM t MATCH_RECOGNIZE (
        PARTITION BY name ORDER BY time MEASURES X.n AS x, Y.n AS y, MATCH_ROWTIME() AS at PATTERN (X Y)) AS m"""
    rows = match_recognize(query, stream, columns=["name", "time", "n"]).execute_and_collect(limit=9)
    assert sorted(map(str, rows)) == ["Row(name='a', x=1, y=9, at=3)", "Row(name='b', x=5, y=6, at=4)"]


def test_more_columns_order_rows_of_one_time():
    records = [("a", 1, 3), ("a", 1, 7), ("a", 1, None)]
    stream = local(records).assign_timestamps_and_watermarks(BY_TIME)
    query = "MATCH_RECOGNIZE (ORDER BY time, n DESC MEASURES X.n AS x, Y.n AS y, Z.n AS z PATTERN (X Y Z))"
    rows = match_recognize(query, stream, columns=["name", "time", "n"]).execute_and_collect(limit=9)
    assert list(rows) == [Row(x=7, y=3, z=None)]


def test_a_window():
    body = "MEASURES A.time AS a, B.time AS b PATTERN (A B) WITHIN INTERVAL '2' SECOND DEFINE B AS B.price > A.price"
    late = [("x", 0, 1), ("x", 2000, 2), ("x", 2500, 3)]
    stream = local(late).assign_timestamps_and_watermarks(BY_TIME)
    rows = match_recognize(f"MATCH_RECOGNIZE (ORDER BY time {body})", stream, ["symbol", "time", "price"])
    assert [tuple(row) for row in rows.execute_and_collect(limit=9)] == [(2000, 2500)]


def test_processing_time():
    query = "MATCH_RECOGNIZE (ORDER BY PROCTIME() MEASURES A.n AS a, B.n AS b PATTERN (A B))"
    assert list(match_recognize(query, local([{"n": 1}, {"n": 2}])).execute_and_collect(limit=9)) == [Row(a=1, b=2)]


@dataclass(frozen=True)
class Tick:
    time: int
    price: int


@pytest.mark.parametrize(
    "make", [Tick, lambda time, price: {"time": time, "price": price}, lambda t, p: Row(time=t, price=p)]
)
def test_records_with_names(make):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: 1)
    stream = local([make(1, 4), make(2, 5)]).assign_timestamps_and_watermarks(strategy)
    rows = match_recognize("MATCH_RECOGNIZE (ORDER BY time MEASURES A.price AS a PATTERN (A B))", stream)
    assert list(rows.execute_and_collect(limit=9)) == [Row(a=4)]


def test_alternatives():
    body = """MEASURES COUNT(LOW.*) AS low, COUNT(HIGH.price) AS high, COUNT(*) AS n PATTERN ((LOW | HIGH){3} REST)
        DEFINE LOW AS price < 10, HIGH AS price > 20"""
    assert found(body, "5 30 7 15") == [(2, 1, 4)]
    assert found(body, "5 15 7 15") == []


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("A.price / 2", 3), ("-A.price / 2", -3), ("-A.price % 4", -3), ("A.price / 2.0", 3.5), ("A.price + 1 * 2", 9),
        ("A.price BETWEEN 7 AND 8", True), ("A.price IN (1, 7)", True), ("NOT A.price IN (1, 2)", True),
        ("CASE WHEN A.price > 9 THEN 'high' WHEN A.price > 5 THEN 'mid' END", "mid"), ("ABS(-A.price)", 7),
        ("LAST(A.price, 5)", None), ("LAST(A.price, 5) > 1", None), ("LAST(A.price, 5) > 1 OR A.price = 7", True),
        ("LAST(A.price, 5) > 1 AND A.price = 8", False), ("LAST(A.price, 5) IS NULL", True), ("A.price IS NOT NULL", True),
        ("UPPER(LOWER(A.symbol)) || '!'", "ACME!"), ("COALESCE(LAST(A.price, 5), 3)", 3), ("FIRST(B.price, 1)", 9),
        ("LAST(B.price, 1)", 8), ("MAX(B.price) - MIN(B.price)", 1), ("SUM(price)", 34), ("LAST(price)", 10),
        ("NULL IN (1)", None), ("A.price IN (1, NULL)", None), ("TRUE IS TRUE", True), ("LENGTH(A.symbol)", 4),
        ("A.price <> 7", False), ("A.price <= 7 AND A.price >= 7", True),
    ],
)  # fmt: skip
def test_expressions(expression, expected):
    body = f"MEASURES {expression} AS x PATTERN (A B{{2}} C)"
    assert found(body, "7 8 9 10") == [(expected,)]


def test_the_pattern_can_be_sent_to_tasks():
    stream = match_recognize(f"MATCH_RECOGNIZE (ORDER BY time {FALLING})", ticks("1"), ["symbol", "time", "price"])
    spec = stream.get_execution_environment().compile().vertices[-1].nodes[-1].spec
    assert b"sqlglot" not in cloudpickle.dumps(spec)
    assert repr(pickle.loads(cloudpickle.dumps(spec)).spec.plan) == "PATTERN (START DOWN+ UP)"


# ---- what SQL:2016 has, and Flink has not


def test_groups_and_alternatives_with_quantifiers():
    body = """MEASURES FIRST(UP.time) AS since, LAST(DOWN.time) AS until, COUNT(*) AS n PATTERN ((UP+ DOWN | FLAT DOWN){2,})
        DEFINE UP AS price > PREV(price), DOWN AS price < PREV(price), FLAT AS price = PREV(price)"""
    assert found(body, "5 6 7 3 3 2 9 8 8 9") == [(1, 7, 7)]


def test_a_greedy_variable_gives_back_what_the_next_one_needs():
    body = "MEASURES COUNT(A.*) AS a, B.price AS b PATTERN (A+ B) DEFINE A AS price < 10, B AS price < 5"
    assert found(body, "7 3 8 2 20") == [(3, 2)]


def test_the_last_variable_may_be_greedy():
    body = "MEASURES FIRST(A.price) AS low, COUNT(*) AS n PATTERN (A+) DEFINE A AS price < 10"
    assert found(body, "1 2 30 4 5 6") == [(1, 2), (4, 3)]


def test_an_optional_variable_may_be_reluctant():
    body = "MEASURES COUNT(B.*) AS b, C.price AS c PATTERN (A B?? C) DEFINE A AS price = 1, C AS price > 2"
    assert found(body, "1 3 4 1 2 5") == [(0, 3), (1, 5)]


def test_anchors():
    body = "MEASURES FIRST(A.price) AS a, LAST(A.price) AS z PATTERN ({}) DEFINE A AS price < 10"
    prices = "1 2 30 4 5"
    assert found(body.format("^ A+"), prices) == [(1, 2)]
    assert found(body.format("A+ $"), prices) == [(4, 5)]
    assert found(body.format("^ A+ $"), prices) == []
    assert found(body.format("^ A+ $"), "1 2") == [(1, 2)]
    assert found(body.format("A (A | $)"), "1 2 3") == [(1, 2), (3, 3)]


@pytest.mark.parametrize("batch", [False, True])
def test_the_end_of_a_partition_within_a_window(batch):
    body = "MEASURES FIRST(A.time) AS f, LAST(A.time) AS l PATTERN ({}) WITHIN INTERVAL '3' MILLISECOND DEFINE A AS price < 10"

    def within(pattern: str, prices: str) -> list[tuple]:
        stream = ticks(prices)
        mode = RuntimeExecutionMode.BATCH if batch else RuntimeExecutionMode.STREAMING
        stream.get_execution_environment().set_runtime_mode(mode)
        query = f"MATCH_RECOGNIZE (ORDER BY time {body.format(pattern)})"
        rows = match_recognize(query, stream, ["symbol", "time", "price"]).execute_and_collect(limit=9)
        return [tuple(row) for row in rows]

    assert within("A{2} $", "1 2 3 4") == [(2, 3)]
    assert within("A+ $", "1 2 3 4 5") == [(2, 4)]
    assert within("^ A+ $", "1 2 3 4 5") == []
    assert within("^ A+ $", "1 2 3") == [(0, 2)]
    assert within("A{2} (A $ | B)", "1 2 30 3 4 5") == [(0, 1), (3, 5)]


NULLS_FIRST = "LAST(B.price) IS NULL OR price >= LAST(B.price)"
LOOKING_BACK = [
    (NULLS_FIRST, "price > 0"), ("SUM(A.price) > 0", "SUM(B.price) > 0"), ("AVG(A.price) > 0.5", "MAX(B.price) > 0"),
    ("COUNT(A.price) > 0", "FIRST(B.price) > 0"), ("COUNT(A.*) > 0", "MIN(B.price) < 99"), ("SUM(price) > 0", "price > 0"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), LOOKING_BACK)
def test_ways_with_the_same_future_are_one(a, b):
    """Rows that two variables take in any order are not as many partial matches as there are orders."""
    body = (
        f"MEASURES COUNT(*) AS n, COUNT(A.*) AS a PATTERN ((A | B){{21}} C) DEFINE A AS {a}, B AS {b}, C AS price = 9"
    )
    assert found(body, "1 2 3 1 2 3 1 2 3 1 2 3 1 2 3 1 2 3 1 2 3 9") == [(22, 21)]


def test_permutations():
    body = """MEASURES CLASSIFIER() AS last, A.price AS a, B.price AS b, C.price AS c PATTERN (PERMUTE(A, B, C))
        DEFINE A AS price < 10, B AS price BETWEEN 10 AND 20, C AS price > 20"""
    assert found(body, "30 5 11 12 40 6 7 8 9") == [("B", 5, 11, 30), ("A", 6, 12, 40)]


def test_all_rows_of_a_match_but_those_excluded():
    body = """MEASURES CLASSIFIER() AS kind, FINAL LAST(UP.price) AS top, RUNNING COUNT(UP.*) AS so_far, COUNT(*) AS n
        ALL ROWS PER MATCH PATTERN (UP {- UP* -} UP DOWN) DEFINE UP AS price > PREV(price), DOWN AS price < PREV(price)"""
    rows = match_recognize(
        f"MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY time {body})", ticks("5 6 7 8 9 3"), ["symbol", "time", "price"]
    ).execute_and_collect(limit=9)
    assert list(rows) == [
        Row(symbol="ACME", time=1, kind="UP", top=9, so_far=1, n=1, price=6),
        Row(symbol="ACME", time=4, kind="UP", top=9, so_far=4, n=4, price=9),
        Row(symbol="ACME", time=5, kind="DOWN", top=9, so_far=4, n=5, price=3),
    ]


def test_rows_before_the_match():
    body = """MEASURES PREV(A.price) AS p, PREV(A.price, 2) AS pp, PREV(LAST(B.price), 2) AS pb, PREV(FIRST(A.price), 9) AS none
        PATTERN (A B) DEFINE A AS price < PREV(price, 2), B AS PREV(A.price) = 8"""
    assert found(body, "7 9 8 5 6") == [(8, 9, 8, None)]


def test_a_subset_of_variables():
    body = """MEASURES AVG(S.price) AS s, LAST(S.price) AS last AFTER MATCH SKIP TO LAST S PATTERN (A B C)
        SUBSET S = (A, B), T = (B, C) DEFINE C AS price > LAST(T.price, 1)"""
    assert found(body, "2 4 6 8 1") == [(3, 4), (5, 6)]


def test_the_variable_of_a_row_in_a_condition():
    body = """MEASURES CLASSIFIER() AS c, COUNT(*) AS n PATTERN ((A | B)+ C)
        DEFINE B AS CLASSIFIER() = 'B', A AS price > 5, C AS COUNT(A.price) >= 2 AND price = 0"""
    assert found(body, "6 0 7 0 0") == [("C", 5)]


def test_what_the_end_of_the_input_decides_is_decided_in_batch_too():
    for mode in RuntimeExecutionMode:
        stream = ticks("1 2 30 4 5")
        stream.get_execution_environment().set_runtime_mode(mode)
        query = "MATCH_RECOGNIZE (ORDER BY time MEASURES COUNT(*) AS n PATTERN (A+) DEFINE A AS price < 10)"
        rows = match_recognize(query, stream, ["symbol", "time", "price"]).execute_and_collect(limit=9)
        assert [row["n"] for row in rows] == [2, 2], mode


def test_what_is_open_at_a_time_is_bounded():
    body = """MEASURES COUNT(*) AS n PATTERN ((A | B)+ C)
        DEFINE A AS SUM(A.price) > 0, B AS SUM(B.price) > 0, C AS price < 0"""
    stream = ticks("1 2 3 4 5 6 7 8")
    stream.get_execution_environment().get_configuration().set("pipeline.cep.max-partial-matches", 50)
    rows = match_recognize(f"MATCH_RECOGNIZE (ORDER BY time {body})", stream, ["symbol", "time", "price"])
    with pytest.raises(JobExecutionError, match=r"more than the bound of 50") as failed:
        list(rows.execute_and_collect(limit=9))
    assert "PATTERN ((A | B)+ C)" in str(failed.value)


# ---- PATTERN


@pytest.mark.parametrize(
    ("pattern", "fact"),
    [
        ("A (B", "a ')' is missing"), ("A ) B", "no '('"), ("", "it has no variable"), ("^ $", "it has no variable"),
        ("A{0} B", "allows no row"), ("A{3,2} B", "allows no row"), ("A & B", "'&' is not supported"),
        ("{- A {- B -} -}", "lies within another"), ("{- A", "a '-}' is missing"), ("PERMUTE(A, B", "a ')' is missing"),
        ("PERMUTE(A, B, C, D, E, F, G)", "at most 6"), ("A ^*", "of the anchor ^"),
    ],
)  # fmt: skip
def test_a_pattern_that_is_not_supported_is_refused(pattern, fact):
    with pytest.raises(InvalidProgram, match="PATTERN") as caught:
        parse(pattern)
    assert fact in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "fact"),
    [
        ("A*", "may match no row at all"), ("A | B?", "may match no row at all"), ("^ $ | A", "may match no row at all"),
        ("(A{100}){100}", "more than 5000 states"),
    ],
)  # fmt: skip
def test_a_pattern_that_cannot_be_searched_for_is_refused(pattern, fact):
    with pytest.raises(InvalidProgram, match="PATTERN") as caught:
        compile_rows(parse(pattern), pattern)
    assert fact in str(caught.value)


CLASSES = {"A": "ab", "B": "bc", "C": "a", "D": "abcd"}
QUANTIFIER = st.sampled_from(["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{1,2}?", "{2,}"])
PATTERNS = st.recursive(
    st.sampled_from("ABCD"),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(" ".join),
        st.tuples(inner, QUANTIFIER).map(lambda pair: f"({pair[0]}){pair[1]}"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} | {pair[1]})"),
    ),
    max_leaves=5,
)
ANCHORED = st.tuples(st.sampled_from(["", "", "^ "]), PATTERNS, st.sampled_from(["", "", " $"])).map("".join)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(ANCHORED, st.text("abcd", min_size=1, max_size=8), st.booleans(), st.booleans())
def test_matches_are_those_that_a_regular_expression_prefers(pattern, word, past_last, look_back):
    """Variables are classes of letters, so Python's expressions find the same, and prefer the same."""
    try:
        program = compile_rows(parse(pattern), pattern)
    except InvalidProgram:
        assume(False)
    tests = {name: lambda rows, letters=letters: rows.rows[-1] in letters for name, letters in CLASSES.items()}
    own, others = ({}, tests) if look_back else (tests, {})
    skip = AfterMatchSkipStrategy.skip_past_last_event() if past_last else AfterMatchSkipStrategy.skip_to_next()
    plan = RowPlan(program, own, others, {}, getattr, skip, frozenset(), {}, 0, 0, pattern)
    nfa = RowNfa(plan)
    state, found = nfa.initial, []
    for at, letter in enumerate(word):
        state, matches = nfa.process(state, letter, at, 0)
        found += matches
        state = pickle.loads(pickle.dumps(state)) if state is not nfa.initial else state
    found += nfa.advance(state, MAX_WATERMARK)[1]

    regex = re.compile(
        re.sub("[ABCD]", lambda name: f"[{CLASSES[name[0]]}]", pattern.replace(" ", "")).replace("$", r"\Z")
    )
    expected = regex.finditer(word) if past_last else (regex.match(word, at) for at in range(len(word)))
    if not past_last and pattern.startswith("^"):
        expected = [regex.match(word)]
    assert ["".join(match["rows"]) for match in found] == [match[0] for match in expected if match]


# ---- refused


@pytest.mark.parametrize(
    ("body", "fact"),
    [
        ("MEASURES A.x AS x PATTERN (A)", "there is no column 'x' among"),
        ("MEASURES Z.price AS x PATTERN (A)", "MEASURES: 'Z.price' is of no variable of PATTERN"),
        ("MEASURES NEXT(A.price) AS x PATTERN (A)", "has not come yet"),
        ("MEASURES PREV(A.price, -1) AS x PATTERN (A)", "is not supported"),
        ("MEASURES PREV(A.price, 1, 2) AS x PATTERN (A)", "is not supported"),
        ("MEASURES MATCH_NUMBER() AS x PATTERN (A)", "is not supported"),
        ("MEASURES RUNNING LAST(A.price) AS x PATTERN (A)", "RUNNING is for ALL ROWS"),
        ("MEASURES S.price AS x PATTERN (A) SUBSET S = (A, Q)", "SUBSET S: it needs"),
        ("MEASURES COUNT(DISTINCT A.price) AS x PATTERN (A)", "is not supported"),
        ("MEASURES A.price PATTERN (A)", "cannot be parsed"),
        ("PATTERN (A)", "MEASURES is missing"),
        ("MEASURES A.price AS x ALL ROWS PER MATCH SHOW EMPTY MATCHES PATTERN (A)", "only ONE ROW and ALL ROWS"),
        ("MEASURES A.price AS x AFTER MATCH SKIP TO LAST Q PATTERN (A)", "Q is no variable of PATTERN"),
        ("MEASURES A.price AS x PATTERN (A* B?)", "may match no row at all"),
        ("MEASURES A.price AS x PATTERN (A) DEFINE Q AS Q.price > 1", "DEFINE: Q is no variable"),
        ("MEASURES A.price AS x PATTERN (A B) WITHIN INTERVAL '1' YEAR", "YEAR is not supported"),
        ("MEASURES A.price AS x PATTERN (A B) WITHIN INTERVAL '0' SECOND", "has room for no row"),
        ("MEASURES A.price AS x PATTERN (A) DEFINE A AS", "cannot be parsed"),
    ],
)
def test_what_is_not_supported_is_refused_with_its_clause(body, fact):
    with pytest.raises(FunkenError) as caught:
        match_recognize(f"MATCH_RECOGNIZE (ORDER BY time {body})", ticks("1"), ["symbol", "time", "price"])
    assert fact in str(caught.value)


@pytest.mark.parametrize(
    ("query", "fact"),
    [
        ("MATCH_RECOGNIZE (MEASURES A.price AS x PATTERN (A))", "ORDER BY is missing"),
        ("MATCH_RECOGNIZE (ORDER BY time DESC MEASURES A.price AS x PATTERN (A))", "only ascends"),
        ("MATCH_RECOGNIZE (PARTITION BY price + 1 ORDER BY time MEASURES A.price AS x PATTERN (A))", "is no column"),
        ("SELECT 1", "takes a MATCH_RECOGNIZE clause"),
        ("SELECT x FROM t MATCH_RECOGNIZE (ORDER BY time MEASURES A.price AS x PATTERN (A))", "SELECT * FROM name"),
        (
            "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY time MEASURES A.price AS x PATTERN (A)) LIMIT 3",
            "SELECT * FROM name",
        ),
    ],
)
def test_a_query_that_is_not_supported_is_refused(query, fact):
    with pytest.raises(InvalidProgram) as caught:
        match_recognize(query, ticks("1"), ["symbol", "time", "price"])
    assert fact in str(caught.value)


def test_a_record_without_the_column_says_so():
    query = "MATCH_RECOGNIZE (ORDER BY time MEASURES A.price AS a PATTERN (A))"
    with pytest.raises(JobExecutionError, match=r"a record has no column 'price'.*columns=\[...\]"):
        list(match_recognize(query, ticks("1")).execute_and_collect(limit=9))
