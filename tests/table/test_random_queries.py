"""A few of the random queries; ``scripts/random_table_queries.py`` runs many."""

import random

import pytest

from tests.table.random_queries import rendered, timed_queries
from tests.table.random_runs import Case

# random SQL is told of, and runs
pytestmark = [pytest.mark.simulation, pytest.mark.filterwarnings("ignore::UserWarning")]
pytest.importorskip("duckdb", reason="install it with: pip install duckdb")


@pytest.mark.parametrize("seed", range(4))
def test_random_queries_leave_the_rows_of_a_database(seed):
    assert Case(seed, 8).differences() == []


@pytest.mark.parametrize("seed", range(3))
def test_random_batches_have_the_rows_of_a_database(seed):
    assert Case(seed, 8).batch_differences() == []


@pytest.mark.parametrize("seed", range(2))
def test_windows_and_joins_over_time_leave_the_rows_of_a_database(seed):
    case = Case(seed)
    case.queries = timed_queries(random.Random(seed))
    case.count = len(case.queries)
    assert case.differences() == []


PLACED = (
    "(SELECT id, k, v, ROW_NUMBER() OVER ({}ORDER BY v{{{{| NULLS FIRST}}}}, d{{{{| NULLS FIRST}}}}, id) AS n "
    "FROM {} WHERE id IS NOT NULL) AS {}"
)
"""Rows with their positions, in which they move: by its key a row comes to a position before it has left another."""
TOP, TOP_OF_K, TOP_OF_UPSERTS = (
    PLACED.format("", "p", "x"),
    PLACED.format("PARTITION BY k ", "p", "x"),
    PLACED.format("", "q", "y"),
)


@pytest.mark.parametrize("multi_join", [False, True])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_rows_that_move_between_positions_are_all_there_behind_every_operator(backend, multi_join):
    case = Case(300091, 0)
    case.backend = backend
    case.options["table.optimizer.multi-join.enabled"] = multi_join
    case.queries = [
        f"SELECT id, v, n FROM {TOP} WHERE n <= 2",
        f"SELECT id, n, (SELECT COUNT(k) FROM q) AS c FROM {TOP} WHERE n <= 2",
        f"SELECT id, n, (SELECT SUM(v) FROM t WHERE t.k = x.id) AS c FROM {TOP} WHERE n <= 3",
        *(
            f"SELECT x.id, n, y.v FROM (SELECT * FROM {TOP} WHERE n <= 3) AS x {kind} JOIN q AS y ON x.id = y.id"
            for kind in ("", "LEFT", "RIGHT", "FULL")
        ),
        f"SELECT x.n, x.id, y.id FROM (SELECT * FROM {TOP} WHERE n <= 3) AS x JOIN (SELECT * FROM {TOP_OF_UPSERTS} WHERE n <= 3) "
        "AS y ON x.n = y.n LEFT JOIN p ON x.n = p.id",
        f"SELECT x.id, y.n FROM (SELECT * FROM {TOP_OF_K} WHERE n <= 2) AS x JOIN (SELECT * FROM {TOP_OF_UPSERTS} WHERE n <= 2) "
        "AS y ON x.id = y.id",
        f"SELECT id, n FROM {TOP} WHERE n <= 3 AND id IN (SELECT k FROM t)",
        f"SELECT id, n FROM {TOP} WHERE n <= 3 AND id NOT IN (SELECT k FROM t WHERE k IS NOT NULL)",
        f"SELECT k FROM t WHERE EXISTS (SELECT 1 FROM {TOP} WHERE n BETWEEN 2 AND 3 AND id = t.k)",
        f"SELECT id, COUNT(*), MAX(n) FROM {TOP} WHERE n <= 3 GROUP BY id",
        f"SELECT DISTINCT id, k FROM {TOP_OF_K} WHERE n <= 2",
        f"SELECT id, n, SUM(n) OVER (PARTITION BY k ORDER BY id) AS s FROM {TOP} WHERE n <= 3",
        f"SELECT id, n, m FROM (SELECT id, n, ROW_NUMBER() OVER (ORDER BY id DESC) AS m FROM {TOP} WHERE n <= 3) AS z "
        "WHERE m <= 2",
        f"SELECT id, m FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id) AS m FROM {TOP} WHERE n <= 3) AS z "
        "WHERE m = 1",
        *(
            f"SELECT id, n FROM {TOP} WHERE n <= 2 {kind} SELECT id, n FROM {TOP_OF_UPSERTS} WHERE n <= 3"
            for kind in ("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")
        ),
        f"SELECT a.id, a.n, one.one_s FROM (SELECT *{{{{, PROCTIME() AS now|}}}} FROM {TOP} WHERE n <= 3) AS a "
        "JOIN one {{FOR SYSTEM_TIME AS OF a.now |}}ON a.id = one.one_k",
        f"SELECT id, k, v FROM {TOP_OF_K} WHERE n = 1",
    ]
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


def test_filters_that_are_pushed_onto_ranks_keep_them():
    ranks = "SELECT id, k, v, RANK() OVER (PARTITION BY k ORDER BY v{{| NULLS FIRST}}) AS n FROM t"
    case = Case(300092, 0)
    case.queries = [
        f"SELECT n, c FROM (SELECT n, COUNT(*) AS c FROM ({ranks}) AS x GROUP BY n) AS y WHERE n <= 2",
        f"SELECT x.id, x.n, q.v FROM q JOIN ({ranks}) AS x ON q.id = x.id WHERE x.n <= 2",
        f"SELECT id, n FROM (SELECT id, n FROM ({ranks}) AS x UNION ALL SELECT id, k FROM t) AS y WHERE n <= 2",
    ]
    case.count = len(case.queries)
    assert case.differences() == []
