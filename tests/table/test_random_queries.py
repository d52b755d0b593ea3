"""A few of the random queries; ``scripts/random_table_queries.py`` runs many."""

import random

import pytest

from tests.table.random_queries import rendered, timed_queries
from tests.table.random_runs import Case

pytestmark = pytest.mark.simulation
pytest.importorskip("duckdb", reason="install it with: pip install duckdb")


@pytest.mark.parametrize("seed", range(4))
def test_random_queries_leave_the_rows_of_a_database(seed):
    assert Case(seed, 8).differences() == []


@pytest.mark.parametrize("seed", range(2))
def test_windows_and_joins_over_time_leave_the_rows_of_a_database(seed):
    case = Case(seed)
    case.queries = timed_queries(random.Random(seed))
    case.count = len(case.queries)
    assert case.differences() == []


def test_a_wrong_result_is_seen():
    case = Case(1, 1)
    case.queries = ["SELECT id FROM u{{ WHERE id > 1|}}"]
    assert case.differences()


def test_both_sides_of_a_query():
    query = "SELECT a || 'x' FROM t ORDER BY a ASC{{| NULLS FIRST}}, b {{DESC|{{x|ASC}}}}"
    assert rendered(query, 0) == "SELECT a || 'x' FROM t ORDER BY a ASC, b DESC"
    assert rendered(query, 1) == "SELECT a || 'x' FROM t ORDER BY a ASC NULLS FIRST, b ASC"
