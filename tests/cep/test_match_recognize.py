"""MATCH_RECOGNIZE: the results that Flink's documentation gives, each clause, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import cloudpickle
import pytest

from funken import DataStream, InvalidProgram, Row, WatermarkStrategy
from funken.cep import match_recognize
from funken.cep.sql.row_patterns import Element, parse
from funken.errors import FunkenError, JobExecutionError
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
        ("TO NEXT ROW", [26, 24, 25, 22, 17]),
        ("TO LAST A", [26, 25, 17]),
    ],
)
def test_after_match(skip, expected):
    after = skip and f"AFTER MATCH SKIP {skip}"
    body = f"MEASURES SUM(A.price) AS total {after} PATTERN (A+ C) DEFINE A AS SUM(A.price) < 30"
    assert [row[0] for row in found(body, "7 9 10 5 10 7 14")] == expected


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
    assert pickle.loads(cloudpickle.dumps(spec)).pattern.names() == ["START", "DOWN", "UP"]


# ---- PATTERN


def test_patterns_are_read():
    assert parse("A B+ (C|D){2,3}? (E F?) G{,4} H{5} I{6,}") == [
        Element(("A",)), Element(("B",), 1, None), Element(("C", "D"), 2, 3, greedy=False), Element(("E",)),
        Element(("F",), 0, 1), Element(("G",), 0, 4), Element(("H",), 5, 5), Element(("I",), 6, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "fact"),
    [
        ("(A B)+ C", "a group is not supported"), ("A (B C | D)", "an alternative is one variable"),
        ("^ A", "the anchor ^"), ("A $", "the anchor $"), ("A {- B -} C", "exclusion"), ("PERMUTE(A, B)", "PERMUTE"),
        ("A B A", "A stands in it twice"), ("A (B", "')' is missing"), ("A ) B", "no '('"), ("", "it is empty"),
        ("A{0} B", "allows no row"), ("A{3,2} B", "allows no row"),
    ],
)  # fmt: skip
def test_a_pattern_that_is_not_supported_is_refused(pattern, fact):
    with pytest.raises(InvalidProgram, match="PATTERN") as caught:
        parse(pattern)
    assert fact in str(caught.value)


# ---- refused


@pytest.mark.parametrize(
    ("body", "fact"),
    [
        ("MEASURES A.x AS x PATTERN (A)", "there is no column 'x' among"),
        ("MEASURES Z.price AS x PATTERN (A)", "MEASURES: 'Z.price' is of no variable of PATTERN"),
        ("MEASURES CLASSIFIER() AS x PATTERN (A)", "MEASURES: 'CLASSIFIER()' is not supported"),
        ("MEASURES PREV(A.price) AS x PATTERN (A)", "is not supported"),
        ("MEASURES COUNT(DISTINCT A.price) AS x PATTERN (A)", "is not supported"),
        ("MEASURES A.price PATTERN (A)", "cannot be parsed"),
        ("PATTERN (A)", "MEASURES is missing"),
        ("MEASURES A.price AS x ALL ROWS PER MATCH PATTERN (A)", "only ONE ROW PER MATCH"),
        ("MEASURES A.price AS x AFTER MATCH SKIP TO LAST Q PATTERN (A)", "Q is no variable of PATTERN"),
        ("MEASURES A.price AS x PATTERN (A B+)", "the last variable B is greedy"),
        ("MEASURES A.price AS x PATTERN (A* B?)", "may match no row at all"),
        ("MEASURES A.price AS x PATTERN (A B?? C)", "'??' is not supported"),
        ("MEASURES A.price AS x PATTERN (A+ B* C)", "preceded by a greedy pattern"),
        ("MEASURES A.price AS x PATTERN (A) DEFINE Q AS Q.price > 1", "DEFINE: Q is no variable"),
        ("MEASURES A.price AS x PATTERN ((A | B) C) DEFINE A AS SUM(A.price) > 1", "its own row only"),
        ("MEASURES A.price AS x PATTERN (A B) WITHIN INTERVAL '1' YEAR", "YEAR is not supported"),
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
