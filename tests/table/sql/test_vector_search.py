"""VECTOR_SEARCH: the nearest rows of a table, for each row of another."""

import pytest

from funken.table.connectors.values import register_rows
from funken.table.environment import EnvironmentSettings, TableEnvironment
from funken.table.sql.statements import InvalidQuery
from funken.types.row import Row

ROWS = [Row("x", [1.0, 0.0]), Row("y", [0.0, 1.0]), Row("both", [1.0, 1.0]), Row("none", None), Row("x", [1.0, 0.0])]
CALL = "SELECT {} FROM q, LATERAL TABLE(VECTOR_SEARCH({}))"


@pytest.fixture
def tables():
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql(
        f"CREATE TABLE d (label STRING, v ARRAY<DOUBLE>) WITH ('connector' = 'values', 'data-id' = "
        f"'{register_rows(ROWS)}', 'enable-vector-search' = 'true')"
    )
    made.execute_sql("CREATE TABLE other (label STRING, v ARRAY<DOUBLE>) WITH ('connector' = 'values')")
    made.execute_sql("CREATE VIEW q AS SELECT * FROM (VALUES (1, ARRAY[2e0, 0e0]), (2, ARRAY[-1e0, 3e0])) AS t (id, v)")
    return made


def found(tables, text):
    with tables.execute_sql(text).collect() as rows:
        return [tuple(row) for row in rows]


def test_the_nearest_rows_come_first_and_equal_ones_once(tables):
    query = CALL.format("id, label, ROUND(score, 3)", "TABLE d, DESCRIPTOR(v), q.v, 2")
    assert found(tables, query) == [(1, "x", 1.0), (1, "both", 0.707), (2, "y", 0.949), (2, "both", 0.447)]


def test_arguments_may_be_named(tables):
    arguments = "COLUMN_TO_QUERY => q.v, SEARCH_TABLE => TABLE d, TOP_K => 1, COLUMN_TO_SEARCH => DESCRIPTOR(v)"
    assert found(tables, CALL.format("id, label", arguments)) == [(1, "x"), (2, "y")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("TABLE d, DESCRIPTOR(w), q.v, 2", "Unknown identifier 'w'"),
        ("TABLE d, DESCRIPTOR(label), q.v, 2", "compares vectors, ARRAY<FLOAT> or ARRAY<DOUBLE>, not STRING"),
        ("TABLE d, DESCRIPTOR(v), q.v, 0", "topK of VECTOR_SEARCH to be a positive INT"),
        ("TABLE d, DESCRIPTOR(v), q.v", "TOP_K is missing"),
        ("TABLE other, DESCRIPTOR(v), q.v, 1", "searches a table whose connector supports it"),
    ],
)
def test_what_cannot_be_searched_is_refused(tables, arguments, message):
    with pytest.raises(InvalidQuery, match=message):
        tables.sql_query(CALL.format("label", arguments))
