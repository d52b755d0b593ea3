"""MATCH_RECOGNIZE in SQL: what its measures and conditions may say."""

import datetime
from decimal import Decimal

import pytest

from funken.errors import FunkenError
from funken.table import EnvironmentSettings, TableEnvironment
from funken.table.udf import udf

PRICES = [
    ("a", 10),
    ("a", 20),
    ("b", 5),
    ("a", 30),
    ("a", 15),
    ("a", 9),
    ("b", 6),
    ("b", 7),
    ("a", 12),
    ("b", 1),
    ("a", 14),
]


@pytest.fixture(params=["streaming", "batch"])
def tables(request, tmp_path):
    lines = [f"{place},{k},{v},{v / 4:.2f},2024-01-01 00:00:{place:02d}\n" for place, (k, v) in enumerate(PRICES)]
    (tmp_path / "f.csv").write_text("".join(lines))
    settings = (
        EnvironmentSettings.in_batch_mode() if request.param == "batch" else EnvironmentSettings.in_streaming_mode()
    )
    made = TableEnvironment.create(settings)
    made.get_config().set("parallelism.default", "1").set("execution.target", "local")
    made.execute_sql(
        "CREATE TABLE o (id INT, k STRING, v INT, d DECIMAL(5, 2), ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH "
        f"('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    return made


def matches(tables, measures, define, pattern="A B+"):
    query = (
        f"SELECT * FROM o MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES {measures} ONE ROW PER MATCH "
        f"AFTER MATCH SKIP PAST LAST ROW PATTERN ({pattern}) DEFINE {define}) AS t"
    )
    with tables.execute_sql(query).collect() as found:
        return sorted(tuple(row) for row in found)


RISING = "A AS A.v <= 10, B AS B.v > 10"


@pytest.mark.parametrize(
    ("measures", "expected"),
    [
        ("A.id AS a, LAST(B.id) AS b", [("a", 0, 4), ("a", 5, 10)]),
        ("TIMESTAMPDIFF(SECOND, A.ts, LAST(B.ts)) AS s, A.id AS a", [("a", 4, 0), ("a", 5, 5)]),
        ("MAX(TIMESTAMPDIFF(SECOND, TIMESTAMP '2024-01-01 00:00:00', B.ts)) AS s", [("a", 4), ("a", 10)]),
        ("SUM(B.v * 2) AS s, AVG(CAST(B.v AS DOUBLE)) AS m", [("a", 52, 13.0), ("a", 130, 65 / 3)]),
        ("1 AS one, A.id AS all", [("a", 1, 0), ("a", 1, 5)]),
        ("FINAL LAST(B.v) AS f, COUNT(*) AS n", [("a", 14, 3), ("a", 15, 4)]),
        ("CONCAT('x', CAST(LAST(B.v) AS STRING)) AS c, COALESCE(PREV(A.v), -1) AS p", [("a", "x14", 15), ("a", "x15", -1)]),
        ("CASE WHEN MAX(B.v) > 20 THEN 'big' ELSE UPPER(A.k) END AS c", [("a", "A"), ("a", "big")]),
        ("LAST(B.d) * 1.5 AS d", [("a", Decimal("5.250")), ("a", Decimal("5.625"))]),
        ("A.ts + INTERVAL '1' MINUTE AS t, B.v AS `b v`", [
            ("a", datetime.datetime.fromisoformat("2024-01-01T00:01:00"), 15),
            ("a", datetime.datetime.fromisoformat("2024-01-01T00:01:05"), 14),
        ]),
    ],
)  # fmt: skip
def test_measures_are_expressions_of_sql(tables, measures, expected):
    assert matches(tables, measures, RISING) == expected


@pytest.mark.parametrize(
    ("define", "expected"),
    [
        ("A AS A.k LIKE 'a%' AND MOD(A.v, 2) = 0, B AS B.ts < A.ts + INTERVAL '4' SECOND", [("a", 0, 3), ("a", 8, 10)]),
        ("B AS TIMESTAMPDIFF(SECOND, A.ts, B.ts) <= 2 AND B.v > A.v", [("a", 0, 1), ("a", 8, 10), ("b", 6, 7)]),
        ("B AS B.v > CAST(AVG(A.v) AS DOUBLE) * 1.5", [("a", 0, 3)]),
        ("B AS B.d > LAST(A.d) * 1.5 OR B.d > SUM(A.d * 2)", [("a", 0, 3)]),
        ("A AS UPPER(k) IN ('A') AND above(v), B AS B.v < A.v", [("a", 3, 10)]),
    ],
)
def test_conditions_are_expressions_of_sql(tables, define, expected):
    tables.create_temporary_function("above", udf(lambda v: v > 15, result_type="BOOLEAN"))

    assert matches(tables, "A.id AS a, LAST(B.id) AS b", define) == expected


def test_times_of_matches_are_time_attributes(tables):
    with tables.execute_sql(
        "SELECT COUNT(*), MAX(x) FROM (SELECT * FROM o MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES MATCH_ROWTIME() "
        f"AS at, CHAR_LENGTH(A.k) AS x PATTERN (A B) DEFINE {RISING})) GROUP BY TUMBLE(at, INTERVAL '5' SECOND)"
    ).collect() as found:
        assert sorted(map(tuple, found)) == [(1, 1), (1, 1)]
    result = tables.sql_query(
        f"SELECT * FROM o MATCH_RECOGNIZE (ORDER BY ts MEASURES MATCH_PROCTIME() AS at PATTERN (A B) DEFINE {RISING})"
    )
    assert "*PROCTIME*" in str(result.get_resolved_schema())


@pytest.mark.parametrize(
    ("measures", "define", "message"),
    [
        ("SUM(A.v * B.v) AS s", RISING, "over one variable of PATTERN, but this is over 2"),
        ("COUNT(DISTINCT A.v) AS s", RISING, r"COUNT\(DISTINCT ..\) is not supported"),
        ("A.v AS s", "A AS A.v", "DEFINE A takes a condition, but this is of type INT"),
        ("A.nope AS s", RISING, "'nope' not found"),
        ("A.v AS s", "B AS NOPE(B.v) > 1", "No match found for function signature NOPE"),
        ("A.v AS s", "B AS above(A.v + B.v)", "a function of the program takes columns of the current row only"),
    ],
)
def test_what_a_pattern_cannot_say_is_refused(tables, measures, define, message):
    tables.create_temporary_function("above", udf(lambda v: v > 15, result_type="BOOLEAN"))
    with pytest.raises(FunkenError, match=message):
        matches(tables, measures, define)


def test_all_rows_per_match_are_refused(tables):
    with pytest.raises(FunkenError, match="ALL ROWS PER MATCH is not supported"):
        tables.sql_query(
            f"SELECT * FROM o MATCH_RECOGNIZE (ORDER BY ts MEASURES A.v AS v ALL ROWS PER MATCH PATTERN (A B) DEFINE {RISING})"
        )


@pytest.mark.parametrize(
    ("skip", "expected"),
    [("", [1, 2, 3]), ("AFTER MATCH SKIP TO NEXT ROW", [1, 2, 3]), ("AFTER MATCH SKIP PAST LAST ROW", [1, 3])],
)
def test_a_search_goes_on_at_the_next_row_unless_said_otherwise(skip, expected):
    made = TableEnvironment.create()
    made.get_config().set("parallelism.default", "1").set("execution.target", "local")
    made.create_temporary_view("numbers", made.from_elements([(n,) for n in (1, 2, 3, 4)], ["id"]))
    made.execute_sql("CREATE VIEW timed AS SELECT id, PROCTIME() AS at FROM numbers")
    query = (
        f"SELECT * FROM timed MATCH_RECOGNIZE (ORDER BY at MEASURES A.id AS id {skip} PATTERN (A B) "
        "DEFINE B AS B.id > A.id)"
    )
    assert sorted(row[0] for row in made.execute_sql(query).collect()) == expected
