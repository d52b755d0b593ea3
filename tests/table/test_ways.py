"""One job of many queries, in each of the ways that jobs run: the same rows are left, also in batch mode."""

from collections import Counter

import pytest

from funken import Row, RowKind, Types
from funken.table.changelog import ChangelogMode
from funken.table.environment import EnvironmentSettings, StreamTableEnvironment
from funken.table.schema import Schema

ORDERS = [
    (1, "ann", 10, "2024-01-01 00:00:01"),
    (2, "bob", 20, "2024-01-01 00:00:02"),
    (3, "ann", 30, "2024-01-01 00:00:04"),
    (4, None, 40, "2024-01-01 00:00:07"),
    (5, "cid", 5, "2024-01-01 00:00:11"),
    (6, "ann", None, "2024-01-01 00:00:12"),
    (7, "bob", 20, "2024-01-01 00:00:14"),
]
PEOPLE = [
    (RowKind.INSERT, "ann", "Rome"),
    (RowKind.INSERT, "bob", "Oslo"),
    (RowKind.UPDATE_AFTER, "ann", "Paris"),
    (RowKind.INSERT, "dan", "Oslo"),
    (RowKind.DELETE, "bob", "Oslo"),
    (RowKind.INSERT, "bob", "Bern"),
]
QUERIES = {
    "SELECT id + 1, UPPER(name) FROM orders WHERE amount >= 20": [
        (3, "BOB"), (4, "ANN"), (5, None), (8, "BOB"),
    ],
    "SELECT name, COUNT(*), SUM(amount) FROM orders GROUP BY name": [
        ("ann", 3, 40), ("bob", 2, 40), (None, 1, 40), ("cid", 1, 5),
    ],
    "SELECT COUNT(DISTINCT amount), MIN(amount), MAX(amount) FROM orders": [(5, 5, 40)],
    "SELECT COUNT(*) FILTER (WHERE amount > 10) FROM orders": [(4,)],
    "SELECT name FROM orders GROUP BY name HAVING COUNT(*) > 1": [("ann",), ("bob",)],
    "SELECT name, amount, COUNT(*) FROM orders WHERE id < 3 GROUP BY GROUPING SETS ((name), (amount))": [
        ("ann", None, 1), ("bob", None, 1), (None, 10, 1), (None, 20, 1),
    ],
    "SELECT name, COUNT(*) FROM orders WHERE id < 3 GROUP BY GROUPING SETS ((name), (name), ())": [
        ("ann", 1), ("ann", 1), ("bob", 1), ("bob", 1), (None, 2),
    ],
    "SELECT DISTINCT amount FROM orders": [(10,), (20,), (30,), (40,), (5,), (None,)],
    "SELECT city, COUNT(*) FROM people GROUP BY city": [("Paris", 1), ("Bern", 1), ("Oslo", 1)],
    "SELECT o.id, p.city FROM orders AS o JOIN people AS p ON o.name = p.name": [
        (1, "Paris"), (2, "Bern"), (3, "Paris"), (6, "Paris"), (7, "Bern"),
    ],
    "SELECT o.id, p.city FROM orders AS o LEFT JOIN people AS p ON o.name = p.name WHERE o.id > 3": [
        (4, None), (5, None), (6, "Paris"), (7, "Bern"),
    ],
    "SELECT o.id, p.name FROM orders AS o FULL JOIN people AS p ON o.name = p.name AND o.amount > 20": [
        (1, None), (2, None), (3, "ann"), (4, None), (5, None), (6, None), (7, None), (None, "bob"), (None, "dan"),
    ],
    "SELECT name FROM people WHERE name IN (SELECT name FROM orders WHERE amount > 10)": [("ann",), ("bob",)],
    "SELECT name FROM people AS p WHERE NOT EXISTS (SELECT 1 FROM orders AS o WHERE o.name = p.name)": [("dan",)],
    "SELECT name FROM people UNION SELECT name FROM orders": [("ann",), ("bob",), ("cid",), ("dan",), (None,)],
    "SELECT name FROM people INTERSECT SELECT name FROM orders": [("ann",), ("bob",)],
    "SELECT name FROM orders EXCEPT SELECT name FROM people": [("cid",), (None,)],
    "SELECT name FROM people UNION ALL SELECT city FROM people WHERE city = 'Bern'": [
        ("ann",), ("bob",), ("dan",), ("Bern",),
    ],
    "SELECT name, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY id DESC) AS n FROM orders) AS q "
    "WHERE n <= 2": [("ann", 6), ("ann", 3), ("bob", 7), ("bob", 2), (None, 4), ("cid", 5)],
    "SELECT id, n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY amount DESC, id) AS n FROM orders) AS q WHERE n <= 2": [
        (4, 1), (3, 2),
    ],
    "SELECT name, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY at DESC) AS n FROM orders) AS q "
    "WHERE n = 1": [("ann", 6), ("bob", 7), (None, 4), ("cid", 5)],
    "SELECT id FROM orders ORDER BY amount DESC, id LIMIT 3": [(4,), (3,), (2,)],
    "SELECT id, SUM(amount) OVER (PARTITION BY name ORDER BY at ROWS UNBOUNDED PRECEDING) FROM orders": [
        (1, 10), (2, 20), (3, 40), (4, 40), (5, 5), (6, 40), (7, 40),
    ],
    "SELECT CAST(window_start AS STRING), SUM(amount) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '5' SECOND)) "
    "GROUP BY window_start, window_end": [
        ("2024-01-01 00:00:00.000", 60), ("2024-01-01 00:00:05.000", 40), ("2024-01-01 00:00:10.000", 25),
    ],
    "SELECT name, COUNT(*) FROM TABLE(SESSION(TABLE orders PARTITION BY name, DESCRIPTOR(at), INTERVAL '5' SECOND)) "
    "GROUP BY name, window_start, window_end": [("ann", 2), ("ann", 1), ("bob", 1), ("bob", 1), (None, 1), ("cid", 1)],
    "SELECT a.id, b.id FROM orders AS a, orders AS b WHERE a.name = b.name AND b.at BETWEEN a.at AND a.at + "
    "INTERVAL '3' SECOND AND a.id < b.id": [(1, 3)],
    "SELECT name, GROUPING(name), COUNT(*) FROM orders WHERE id < 3 GROUP BY GROUPING SETS ((name))": [
        ("ann", 0, 1), ("bob", 0, 1),
    ],
    "SELECT id, LAG(amount, 1, -1) OVER (PARTITION BY name ORDER BY at) FROM orders WHERE name = 'ann'": [
        (1, -1), (3, 10), (6, 30),
    ],
    "SELECT id, w FROM orders CROSS JOIN UNNEST(ARRAY[1, 2]) AS u(w) WHERE id = 1": [(1, 1), (1, 2)],
    "WITH big AS (SELECT * FROM orders WHERE amount > 15) SELECT COUNT(*) FROM big AS a JOIN big AS b ON a.name = b.name": [
        (5,),
    ],
}  # fmt: skip
SIGNS = {RowKind.INSERT: 1, RowKind.UPDATE_AFTER: 1, RowKind.UPDATE_BEFORE: -1, RowKind.DELETE: -1}


def tables_of(env, settings=None):
    """Return an environment with the two tables."""
    tables = StreamTableEnvironment.create(env, settings)
    tables.get_config().set("table.local-time-zone", "UTC")
    kinds = Types.ROW_NAMED(
        ["id", "name", "amount", "text"], [Types.INT(), Types.STRING(), Types.INT(), Types.STRING()]
    )
    orders = (
        Schema.new_builder()
        .column("id", "INT").column("name", "STRING").column("amount", "INT").column("text", "STRING")
        .column_by_expression("at", "CAST(`text` AS TIMESTAMP(3))")
        .watermark("at", "`at` - INTERVAL '1' SECOND")
        .build()
    )  # fmt: skip
    tables.create_temporary_view("orders", tables.from_data_stream(env.from_collection(ORDERS, kinds), orders))
    people = Schema.new_builder().column("name", "STRING NOT NULL").column("city", "STRING").primary_key("name").build()
    changes = env.from_collection([Row.of_kind(*change) for change in PEOPLE])
    tables.create_temporary_view("people", tables.from_changelog_stream(changes, people, ChangelogMode.upsert(False)))
    return tables


def left(rows):
    found = {}
    for place, sign, row in rows:
        found.setdefault(place, Counter())[row] += sign
    return {place: {row: count for row, count in rows.items() if count} for place, rows in found.items()}


@pytest.mark.parametrize("parallelism", [2])
def test_the_rows_of_queries_in_each_way(env, collect):
    tables = tables_of(env)
    streams = [
        tables.to_changelog_stream(tables.sql_query(query)).map(
            lambda row, place=place: (place, SIGNS[row.get_row_kind()], tuple(row))
        )
        for place, query in enumerate(QUERIES)
    ]
    found = left(collect(streams[0].union(*streams[1:])))
    for place, (query, expected) in enumerate(QUERIES.items()):
        assert found.get(place, {}) == dict(Counter(expected)), query


@pytest.mark.ways("local")
@pytest.mark.parametrize("query", [query for query in QUERIES if "people" not in query])
def test_the_rows_of_queries_in_batch_mode(env, query):
    tables = tables_of(env, EnvironmentSettings.in_batch_mode())
    with tables.sql_query(query).execute().collect() as rows:
        assert Counter(tuple(row) for row in rows) == Counter(QUERIES[query])
