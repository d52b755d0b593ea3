"""A few of the random queries; ``scripts/random_table_queries.py`` runs many."""

import pytest

from tests.table.random_queries import TIMED, Case, rendered

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("seed", range(3))
def test_random_queries_leave_the_rows_of_a_database(seed):
    assert list(Case(seed, 4).differences()) == []


def test_windows_and_joins_over_time_leave_the_rows_of_a_database():
    case = Case(1, len(TIMED))
    case.queries = list(TIMED)
    assert list(case.differences()) == []


def test_a_wrong_result_is_seen():
    case = Case(1, 1)
    case.queries = ["SELECT id FROM u{{ WHERE id > 1|}}"]
    assert list(case.differences())


def test_both_sides_of_a_query():
    query = "SELECT a FROM t ORDER BY a ASC{{| NULLS FIRST}}, b {{DESC|ASC}}"
    assert rendered(query, 0) == "SELECT a FROM t ORDER BY a ASC, b DESC"
    assert rendered(query, 1) == "SELECT a FROM t ORDER BY a ASC NULLS FIRST, b ASC"
