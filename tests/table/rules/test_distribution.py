"""Exchanges that would send each row where it is already are left out; EXPLAIN shows them, as Flink does."""

import random

import pytest

from funken import StreamExecutionEnvironment
from funken.table import StreamTableEnvironment, physical
from funken.table.connectors.values import register_rows
from funken.table.runtime.exchange import TableHash
from tests.table.runtime.changelogs import materialized

JOINED = "SELECT a.k AS ak, a.v AS av, b.k AS bk, b.v AS bv FROM a {} JOIN b ON a.k = b.k AND a.v < b.v + 50"


def made(sql):
    """Return the rows that a query leaves, and the number of its exchanges by hash."""
    chance = random.Random(3)
    env = StreamExecutionEnvironment.create_local_environment(2)
    tables = StreamTableEnvironment.create(env)
    for name in "ab":
        rows = [(None if chance.random() < 0.1 else chance.randrange(9), chance.randrange(100)) for _ in range(60)]
        tables.execute_sql(
            f"CREATE TABLE {name} (k INT, v INT) WITH ('connector' = 'values', 'data-id' = '{register_rows(rows)}')"
        )
    stream = tables.to_changelog_stream(tables.sql_query(sql))
    sent = sum(isinstance(given.partitioning, TableHash) for node in env.graph for given in node.inputs)
    rows = stream.execute_and_collect(limit=100_000)
    return materialized([(row.get_row_kind().value, tuple(row)) for row in rows]), sent


@pytest.mark.parametrize(
    ("sql", "sent"),
    [
        (f"SELECT ak, MAX(bv) FROM ({JOINED.format('')}) GROUP BY ak", 2),
        (f"SELECT bk, SUM(av), COUNT(*) FROM ({JOINED.format('')}) GROUP BY bk", 2),
        (f"SELECT ak, COUNT(bv) FROM ({JOINED.format('LEFT')}) GROUP BY ak", 2),
        (f"SELECT bk, COUNT(av) FROM ({JOINED.format('LEFT')}) GROUP BY bk", 3),  # padded rows are elsewhere
        (f"SELECT bk, COUNT(av) FROM ({JOINED.format('RIGHT')}) GROUP BY bk", 2),
        (f"SELECT ak, COUNT(bv) FROM ({JOINED.format('FULL')}) GROUP BY ak", 3),
        (f"SELECT ak, bv, COUNT(*) FROM ({JOINED.format('')}) GROUP BY ak, bv", 3),
        (f"SELECT ak + 0, COUNT(*) FROM ({JOINED.format('')}) GROUP BY ak + 0", 3),
        ("SELECT k, COUNT(*) FROM a WHERE k IN (SELECT k FROM b WHERE v > 30) GROUP BY k", 2),
        (f"""SELECT ak, bv FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY ak ORDER BY bv DESC) AS r
            FROM (SELECT DISTINCT ak, bv FROM ({JOINED.format('')}))) WHERE r = 1""", 4),
        ("SELECT t.k, t.n, b.v FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) t JOIN b ON t.k = b.k", 2),
    ],
)  # fmt: skip
def test_rows_that_are_there_are_not_sent(monkeypatch, sql, sent):
    found, count = made(sql)
    monkeypatch.setattr(physical, "hashed_by", lambda _: frozenset())
    whole, more = made(sql)
    assert found == whole
    assert found
    assert (count, more >= count) == (sent, True)
