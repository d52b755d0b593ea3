"""Lookup joins with a cache against a real PostgreSQL: what is asked, what is not, and what becomes of lookups that fail."""

import contextlib
import threading
import uuid

import pytest

from funken import (
    AsyncDataStream,
    AsyncRetryStrategy,
    CollectionSource,
    DiscardingSink,
    StreamExecutionEnvironment,
    WatermarkStrategy,
    async_retry_predicates,
    blocking,
    cached,
)
from funken.connectors import RateLimitedSource
from funken.connectors.postgresql import PostgresDatabase
from funken.connectors.sql import SqlLookup
from funken.errors import JobExecutionError

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]


class Prices(SqlLookup):
    """Looks up (price, how many queries there were up to this one); an order that waits too long gets no price."""

    def timeout(self, value):
        return [(*value, None, 0)]  # as it is: it is nothing that records share, to be combined with each


@pytest.fixture
def table(postgres):
    """The name of a table of prices, and of a sequence that counts the queries."""
    name = f"prices_{uuid.uuid4().hex[:8]}"
    postgres.execute(f"CREATE SEQUENCE asked_{name}")
    return name


def filled(postgres, table, items):
    with contextlib.closing(postgres.connect()) as connection, connection.transaction():
        connection.execute(f"CREATE TABLE {table} (item text PRIMARY KEY, price int)")
        connection.cursor().executemany(f"INSERT INTO {table} VALUES (%s, %s)", list(items.items()))


def lookup(postgres, table, ttl, threads=4):
    query = f"SELECT price, nextval('asked_{table}') FROM {table} WHERE item = %s"
    prices = Prices(PostgresDatabase(postgres.conninfo), query, lambda order: (order[1],))
    return cached(
        blocking(prices, threads),
        ttl,
        key=lambda order: order[1],
        combine=lambda order, rows: [(*order, *row) for row in rows] or [(*order, None, 0)],
    )


def orders(items, per_second=None):
    source = CollectionSource(list(enumerate(items)))
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    source = source if per_second is None else RateLimitedSource(source, per_second)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")


def test_each_key_is_asked_once_while_its_answer_is_kept(postgres, table):
    items = [f"item{n % 10}" for n in range(300)]
    filled(postgres, table, {f"item{n}": 100 + n for n in range(9)})  # item9 has no price
    priced = AsyncDataStream.ordered_wait(orders(items), lookup(postgres, table, "1 min"), "30 s").uid("lookup")
    with priced.execute_and_collect() as results:
        found = list(results)

    assert [order[:2] for order in found] == list(enumerate(items)), "in order"
    assert {order[1:3] for order in found} == {(f"item{n}", 100 + n) for n in range(9)} | {("item9", None)}
    asked = {order[1:] for order in found}
    assert len(asked) == 10, "of a key, all have the same answer"
    assert sorted(number for _, _, number in asked) == list(range(10)), "9 rows were found, each once"


def test_hits_and_misses_are_counted(postgres, table):
    items = [f"item{n % 10}" for n in range(300)]
    filled(postgres, table, {f"item{n}": n for n in range(10)})
    stream = orders(items)
    AsyncDataStream.unordered_wait(stream, lookup(postgres, table, "1 min"), "30 s").uid("lookup").sink_to(
        DiscardingSink()
    )
    job = stream.get_execution_environment().execute_async()
    job.get_job_execution_result().result(timeout=120)

    [metrics] = [task.metrics.user["lookup"] for vertex in job.snapshot().vertices for task in vertex.subtasks]
    assert (metrics["asyncCacheHits"], metrics["asyncCacheMisses"]) == (290, 10)


def test_an_answer_that_is_too_old_is_asked_for_again(postgres, table):
    filled(postgres, table, {"tea": 3})
    priced = AsyncDataStream.ordered_wait(orders(["tea"] * 80, 40), lookup(postgres, table, "300 ms"), "30 s")
    found = []
    with priced.execute_and_collect() as results:
        for order in results:
            if not found:
                postgres.execute(f"UPDATE {table} SET price = 4")
            found.append(order)

    prices, asked = [order[2] for order in found], {order[3] for order in found}
    assert prices == sorted(prices)
    assert set(prices) == {3, 4}
    assert 2 <= len(asked) <= 8, "2 s, of which an answer is good for 0.3"


def test_a_lookup_that_fails_fails_the_job_and_names_the_remedy(postgres, table):
    priced = AsyncDataStream.ordered_wait(orders(["tea"]), lookup(postgres, table, "1 min"), "30 s")

    with pytest.raises(
        JobExecutionError,
        match=rf"a lookup fails: .*{table}.* does not exist .*; create the table, or correct its name",
    ):
        priced.execute_and_collect(limit=1)


def test_a_lookup_that_fails_is_made_again_as_the_strategy_says_and_its_failure_is_not_kept(postgres, table):
    again = AsyncRetryStrategy.fixed_delay(
        max_attempts=200, backoff_time_millis=50, exception_predicate=async_retry_predicates.has_exception_predicate
    )
    priced = AsyncDataStream.ordered_wait_with_retry(
        orders(["tea", "jam", "tea"]), lookup(postgres, table, "1 min"), "60 s", again
    )
    later = threading.Timer(0.5, filled, (postgres, table, {"tea": 3, "jam": 5}))
    later.start()
    with priced.execute_and_collect() as results:
        found = list(results)
    later.join()

    assert [order[:3] for order in found] == [(0, "tea", 3), (1, "jam", 5), (2, "tea", 3)]
    assert found[0][3] == found[2][3], "asked once, when the table was there"


def test_what_stands_for_an_answer_that_is_late_is_not_kept(postgres, table):
    filled(postgres, table, {"tea": 3})
    priced = AsyncDataStream.ordered_wait(orders(["tea"] * 60, 20), lookup(postgres, table, "1 min", 32), "400 ms")
    found = []
    with contextlib.closing(postgres.connect()) as connection:
        connection.execute("BEGIN")
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        with priced.execute_and_collect() as results:
            for order in results:
                if not found:
                    connection.execute("ROLLBACK")
                found.append(order)

    prices = [order[2] for order in found]
    assert len(prices) == 60
    first = prices.index(3)
    assert first > 0
    assert prices == [None] * first + [3] * (60 - first), "an answer, once there, is kept"
