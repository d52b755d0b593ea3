"""Asynchronous functions in SQL: rows wait for their results in order, and neither others nor barriers wait for them."""

import asyncio
import time

import pytest

from funken.errors import OperatorFailed
from funken.table.connectors.values import register_rows, results_of
from funken.table.environment import EnvironmentSettings, StreamTableEnvironment
from funken.table.udf import AsyncScalarFunction, udf, udtf
from funken.types.row import Row, RowKind


async def _doubled(n):
    await asyncio.sleep(0.05 if n == 1 else 0.001)
    return None if n is None else n * 2


doubled = udf(_doubled, result_type="INT", name="doubled")


class Counting(AsyncScalarFunction):
    """Gives the number of the call, or how many calls there were at once at most."""

    def __init__(self, busy):
        self.busy = busy

    def open(self, function_context):
        self.calls = self.now = self.most = 0

    async def eval(self, n):
        self.calls, self.now = self.calls + 1, self.now + 1
        number, self.most = self.calls, max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1
        return self.most if self.busy else number


class Unsure(AsyncScalarFunction):
    """Fails at first."""

    def open(self, function_context):
        self.failed = 0

    async def eval(self, n):
        if self.failed < 2:
            self.failed += 1
            raise ConnectionError("not yet")
        return n


@udtf(result_types=["INT", "STRING"])
async def parts(n):
    await asyncio.sleep(0.001)
    return [(each, f"{n}.{each}") for each in range(n or 0)]


@pytest.fixture
def tables():
    found = StreamTableEnvironment.create(environment_settings=EnvironmentSettings.in_streaming_mode())
    found.get_config().set("execution.target", "local").set("parallelism.default", 1)
    functions = {"doubled": doubled, "parts": parts}
    functions |= {"called": udf(Counting(False), result_type="INT"), "busy": udf(Counting(True), result_type="INT")}
    for name, function in functions.items():
        found.create_temporary_system_function(name, function)
    rows = register_rows([(1, "a"), (2, "b"), (None, "c"), (3, None), (4, "d")])
    found.execute_sql(f"CREATE TABLE t (n INT, s STRING) WITH ('connector' = 'values', 'data-id' = '{rows}')")
    return found


def rows(tables, query):
    with tables.execute_sql(query).collect() as found:
        return [tuple(row) for row in found]


def test_results_keep_the_order_of_rows(tables):
    assert rows(tables, "SELECT s, doubled(n) + 1 FROM t") == [("a", 3), ("b", 5), ("c", None), (None, 7), ("d", 9)]


@pytest.mark.parametrize(("allowed", "most"), [(2, 2), (1, 1), (100, 5)])
def test_calls_are_made_side_by_side_but_not_more_than_allowed(tables, allowed, most):
    tables.get_config().set("table.exec.async-scalar.max-concurrent-operations", str(allowed))
    assert max(rows(tables, "SELECT busy(n) FROM t")) == (most,)


def test_an_equal_call_is_made_once_and_one_in_another_before_it(tables):
    assert rows(tables, "SELECT called(n), called(n) + 0 FROM t") == [(number, number) for number in range(1, 6)]
    assert rows(tables, "SELECT doubled(n), doubled(n) + n, doubled(doubled(n)) FROM t WHERE n > 2") == [
        (6, 9, 12),
        (8, 12, 16),
    ]


def test_rows_that_other_conditions_drop_are_not_asked_for(tables):
    assert rows(tables, "SELECT n FROM t WHERE s IS NOT NULL AND doubled(n) > 2") == [(2,), (4,)]
    assert rows(tables, "SELECT called(n) FROM t WHERE s IS NOT NULL AND called(n) > 0") == [(1,), (2,), (3,), (4,)]


def test_table_functions_wait_as_well(tables):
    assert rows(tables, "SELECT n, x, y FROM t, LATERAL TABLE(parts(n)) AS f(x, y) WHERE n < 3") == [
        (1, 0, "1.0"),
        (2, 0, "2.0"),
        (2, 1, "2.1"),
    ]
    assert rows(tables, "SELECT n, x FROM t LEFT JOIN LATERAL TABLE(parts(n)) AS f(x, y) ON TRUE WHERE n IS NULL") == [
        (None, None)
    ]
    assert rows(tables, "SELECT n, x FROM t JOIN LATERAL TABLE(parts(n)) AS f(x, y) ON x > 2") == [(4, 3)]


def test_kinds_of_changes_stay(tables):
    changes = [(RowKind.INSERT, 1), (RowKind.UPDATE_BEFORE, 1), (RowKind.UPDATE_AFTER, 5), (RowKind.DELETE, 5)]
    given = register_rows([Row.of_kind(kind, n) for kind, n in changes])
    tables.execute_sql(
        f"CREATE TABLE c (n INT) WITH ('connector' = 'values', 'changelog-mode' = 'I,UB,UA,D', 'data-id' = '{given}')"
    )
    with tables.execute_sql("SELECT doubled(n) FROM c").collect() as found:
        assert [(row.get_row_kind(), row[0]) for row in found] == [
            (RowKind.INSERT, 2),
            (RowKind.UPDATE_BEFORE, 2),
            (RowKind.UPDATE_AFTER, 10),
            (RowKind.DELETE, 10),
        ]


def unsure(tables, attempts):
    tables.get_config().set("table.exec.async-scalar.retry-delay", "1 ms")
    tables.get_config().set("table.exec.async-scalar.max-attempts", str(attempts))
    tables.create_temporary_system_function("unsure", udf(Unsure(), result_type="INT"))
    return rows(tables, "SELECT unsure(n) FROM t WHERE n = 2")


def test_a_call_that_fails_is_made_again(tables):
    assert unsure(tables, 3) == [(2,)]


def test_the_last_failure_is_that_of_the_job(tables):
    with pytest.raises(OperatorFailed, match="not yet"):
        unsure(tables, 2)


RELEASED: list = []


async def _when_released(n):
    while n == 2 and not RELEASED:
        await asyncio.sleep(0.005)
    return n


def endless(result, folder, given):
    tables = StreamTableEnvironment.create(environment_settings=EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("execution.target", "local").set("parallelism.default", 1)
    tables.get_config().set("execution.checkpointing.savepoint-dir", str(folder))
    tables.create_temporary_system_function("released", udf(_when_released, result_type="INT", name="released"))
    tables.execute_sql(f"CREATE TABLE result (n INT) WITH ('connector' = 'values', 'result-id' = '{result}')")
    tables.execute_sql(
        "CREATE TABLE endless (n INT) WITH ('connector' = 'values', 'hold-open' = 'true', "
        f"'data-id' = '{register_rows(given)}')"
    )
    return tables


def arrived(result, count):
    end = time.monotonic() + 30
    while len(results_of(result).changes) < count and time.monotonic() < end:
        time.sleep(0.02)
    return [tuple(row) for row in results_of(result).rows()]


def test_a_savepoint_has_the_rows_that_wait(tmp_path):
    insert = "INSERT INTO result SELECT released(n) FROM endless"
    job = endless("async-first", tmp_path, [(1,), (2,), (3,)]).execute_sql(insert).get_job_client()
    assert arrived("async-first", 1) == [(1,)]
    path = job.stop_with_savepoint(False, str(tmp_path)).result(60)
    RELEASED.append(True)
    tables = endless("async-second", tmp_path, [])
    tables.get_config().set("execution.state-recovery.path", path)
    job = tables.execute_sql(insert).get_job_client()
    assert arrived("async-second", 2) == [(2,), (3,)]
    job.cancel()
