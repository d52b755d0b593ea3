"""Tables of databases: read, written by key, looked up; and what is refused."""

import datetime
import sqlite3
from contextlib import closing
from decimal import Decimal

import pytest

from funken import Row, RowKind
from funken.connectors.sql.changes import ChangeKind, TableChange
from funken.errors import InvalidProgram
from funken.table.connectors.cdc import ChangesToRows
from funken.table.connectors.contract import TableContext
from funken.table.connectors.factory import lookup_table, scan_table
from funken.table.environment import EnvironmentSettings, TableEnvironment
from funken.table.types import parse_type

COLUMNS = (("id", parse_type("BIGINT NOT NULL")), ("name", parse_type("STRING")))


@pytest.fixture
def shop(tmp_path):
    """A database with an empty table."""
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, price NUMERIC, day TEXT, at TEXT, flag INTEGER)"
        )
    return path


def table(shop, key=", PRIMARY KEY (id) NOT ENFORCED", name="items", **more):
    options = {"connector": "jdbc", "url": f"jdbc:sqlite:{shop}", "table-name": name, **more}
    with_ = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"""
        CREATE TABLE items (id BIGINT, name STRING, price DECIMAL(10, 2), day DATE, at TIMESTAMP(3), flag BOOLEAN{key})
        WITH ({with_})
    """


def tables(batch=True):
    settings = EnvironmentSettings.in_batch_mode() if batch else EnvironmentSettings.in_streaming_mode()
    made = TableEnvironment.create(settings)
    made.get_config().set("execution.target", "local").set("parallelism.default", 1)
    made.get_config().set("table.exec.sink.require-on-conflict", "false")
    return made


def rows(made, query):
    with made.execute_sql(query).collect() as found:
        return [tuple(row) for row in found]


@pytest.mark.parametrize("name", ['"main"."items"', 'main"."items', "main.items", "`items`"])
def test_the_name_of_a_table_may_be_quoted(shop, name):
    made = tables()
    made.execute_sql(table(shop, name=name))
    made.execute_sql("INSERT INTO items (id, name) VALUES (1, 'tea')").wait()
    assert rows(made, "SELECT id, name FROM items") == [(1, "tea")]


@pytest.mark.parametrize("key", [", PRIMARY KEY (id) NOT ENFORCED", ""])
def test_rows_come_back_as_they_were_written(shop, key):
    made = tables()
    made.execute_sql(table(shop, key))
    made.execute_sql("""
        INSERT INTO items VALUES
          (1, 'tea', 1.50, DATE '2024-02-03', TIMESTAMP '2024-02-03 04:05:06.789', TRUE),
          (2, CAST(NULL AS STRING), CAST(NULL AS DECIMAL(10, 2)), CAST(NULL AS DATE), CAST(NULL AS TIMESTAMP(3)), FALSE)
    """).wait()

    at = datetime.datetime(2024, 2, 3, 4, 5, 6, 789000)  # noqa: DTZ001
    assert sorted(rows(made, "SELECT * FROM items")) == [
        (1, "tea", Decimal("1.50"), datetime.date(2024, 2, 3), at, True),
        (2, None, None, None, None, False),
    ]
    assert rows(made, "SELECT name FROM items WHERE id = 1") == [("tea",)]


def test_a_key_lets_rows_be_replaced_and_deleted(shop):
    made = tables(batch=False)
    made.execute_sql(table(shop))
    from funken.table.connectors.values import register_rows

    changes = register_rows([
        Row(1, "tea"), Row(2, "jam"),
        Row.of_kind(RowKind.UPDATE_AFTER, 1, "black tea"), Row.of_kind(RowKind.DELETE, 2, "jam"), Row(3, "oat"),
    ])  # fmt: skip
    made.execute_sql(f"""
        CREATE TABLE changes (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('connector' = 'values', 'data-id' = '{changes}', 'changelog-mode' = 'I,UA,D')
    """)
    made.execute_sql("""
        INSERT INTO items
        SELECT id, name, CAST(NULL AS DECIMAL(10, 2)), CAST(NULL AS DATE), CAST(NULL AS TIMESTAMP(3)), TRUE FROM changes
    """).wait()

    with closing(sqlite3.connect(shop)) as db:
        assert db.execute("SELECT id, name FROM items ORDER BY id").fetchall() == [(1, "black tea"), (3, "oat")]


def test_a_table_is_read_in_ranges(shop):
    with closing(sqlite3.connect(shop)) as db, db:
        db.executemany("INSERT INTO items (id, name) VALUES (?, 'x')", [(number,) for number in range(50)])
    made = tables()
    made.execute_sql(table(shop, **{
        "scan.partition.column": "id", "scan.partition.num": "4", "scan.partition.lower-bound": "0",
        "scan.partition.upper-bound": "49", "scan.fetch-size": "5",
    }))  # fmt: skip

    assert rows(made, "SELECT COUNT(*), SUM(id) FROM items") == [(50, 1225)]


@pytest.mark.parametrize(("policy", "pushed"), [("always", True), ("never", False)])
def test_conditions_are_left_to_the_database_by_the_policy(shop, policy, pushed):
    made = tables()
    made.execute_sql(table(shop, **{"filter.handling.policy": policy}))
    shown = made.explain_sql("SELECT id FROM items WHERE id = 7")
    assert ("items, filter=[" in shown) is pushed


def test_tables_may_be_joined_by_where(shop):
    with closing(sqlite3.connect(shop)) as db, db:
        db.execute("INSERT INTO items (id, name) VALUES (1, 'tea'), (2, 'jam')")
    made = tables()
    made.execute_sql(table(shop))
    made.execute_sql("CREATE VIEW orders AS SELECT n, PROCTIME() AS proc FROM (VALUES (1), (3)) AS v(n)")

    assert rows(made, """
        SELECT o.n, i.name FROM orders AS o, items FOR SYSTEM_TIME AS OF o.proc AS i WHERE i.id = o.n
    """) == [(1, "tea")]  # fmt: skip


def test_rows_are_looked_up_and_kept_for_a_while(shop):
    with closing(sqlite3.connect(shop)) as db, db:
        db.execute("INSERT INTO items (id, name) VALUES (1, 'tea')")
    options = {"connector": "jdbc", "url": f"jdbc:sqlite:{shop}", "table-name": "items"}
    cached = {**options, "lookup.cache": "PARTIAL", "lookup.partial-cache.expire-after-write": "1 h"}
    plain, kept = (lookup_table(TableContext("t", COLUMNS, options=one), ["id"]) for one in (options, cached))
    for lookup in (plain, kept):
        lookup.open()
        assert lookup.lookup([(1,), (2,), (None,)]) == [[(1, "tea")], [], []]

    with closing(sqlite3.connect(shop)) as db, db:
        db.execute("UPDATE items SET name = 'jam'")

    assert plain.lookup([(1,)]) == [[(1, "jam")]]
    assert kept.lookup([(1,)]) == [[(1, "tea")]]
    plain.close()
    kept.close()


def test_a_lookup_join_reads_the_database(shop):
    with closing(sqlite3.connect(shop)) as db, db:
        db.execute("INSERT INTO items (id, name) VALUES (1, 'tea')")
    made = tables(batch=False)
    made.execute_sql(table(shop))
    from funken.table.connectors.values import register_rows

    orders = register_rows([(1, 3), (2, 4)])
    made.execute_sql(f"""
        CREATE TABLE orders (item BIGINT, n INT, proc AS PROCTIME()) WITH ('connector' = 'values', 'data-id' = '{orders}')
    """)

    assert rows(made, """
        SELECT o.n, i.name FROM orders AS o LEFT JOIN items FOR SYSTEM_TIME AS OF o.proc AS i ON o.item = i.id
    """) == [(3, "tea"), (4, None)]  # fmt: skip


@pytest.mark.parametrize("key", ["o.word", "CASE o.n WHEN 1 THEN 'tea' ELSE 'rye' END", "CAST(o.word AS VARCHAR(9))"])
def test_texts_of_other_lengths_are_keys_of_lookups(shop, key):
    with closing(sqlite3.connect(shop)) as db, db:
        db.execute("INSERT INTO items (id, name) VALUES (1, 'tea'), (2, 'jam')")
    made = tables(batch=False)
    made.execute_sql(table(shop))
    made.execute_sql(
        "CREATE VIEW orders AS SELECT *, PROCTIME() AS proc FROM (VALUES (1, 'tea'), (2, 'rye')) AS v(n, word)"
    )

    assert rows(made, f"""
        SELECT o.n, i.id FROM orders AS o LEFT JOIN items FOR SYSTEM_TIME AS OF o.proc AS i ON i.name = {key}
    """) == [(1, 1), (2, None)]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "jdbc:oracle:thin:@db"}, "is of a database that is unknown here"),
        ({"table-name": None}, "missing for table 't': table-name"),
        ({"user": "ada"}, r"'user' \(did you mean"),
        ({"scan.partition.num": "3"}, "'scan.partition.num' needs the others of scan.partition.column, "),
        ({"lookup.cache": "all"}, "it must be one of none, partial, full"),
        ({"lookup.cache.ttl": "10 s"}, "needs the others of lookup.cache.max-rows, lookup.cache.ttl"),
        ({"lookup.max-retries": "-1"}, "it must be at least 0"),
        ({"sink.max-retries": "-1"}, "it must be at least 0"),
        ({"sink.parallelism": "0"}, "it must be at least 1"),
        ({"connection.max-retry-timeout": "500 ms"}, "it must be at least 1 s"),
        ({"filter.handling.policy": "maybe"}, "it must be one of always, never"),
        (
            {
                "scan.partition.column": "id",
                "scan.partition.num": "2",
                "scan.partition.lower-bound": "5",
                "scan.partition.upper-bound": "2",
            },
            "'scan.partition.lower-bound' = 5 is larger than",
        ),
    ],
)
def test_options_that_do_not_fit_are_named(options, message):
    from funken.testing import local

    given = {"connector": "jdbc", "url": "jdbc:sqlite:/tmp/x", "table-name": "x", **options}
    context = TableContext("t", COLUMNS, options={key: value for key, value in given.items() if value is not None})

    with pytest.raises(InvalidProgram, match=message):
        scan_table(context).stream(local([]).get_execution_environment())


def test_changes_of_postgresql_are_rows_with_kinds():
    before, after = {"id": 1, "name": "tea"}, {"id": 1, "name": "jam"}
    rows_of = ChangesToRows(COLUMNS, upsert=False)

    found = rows_of(TableChange(ChangeKind.UPDATE, "public.items", before, after))
    found += rows_of(TableChange(ChangeKind.DELETE, "public.items", after, None))

    assert [(str(row.get_row_kind()), *row) for row in found] == [("-U", 1, "tea"), ("+U", 1, "jam"), ("-D", 1, "jam")]
    assert len(ChangesToRows(COLUMNS, upsert=True)(TableChange(ChangeKind.UPDATE, "public.items", None, after))) == 1
    with pytest.raises(ValueError, match="ALTER TABLE public.items REPLICA IDENTITY FULL"):
        rows_of(TableChange(ChangeKind.UPDATE, "public.items", None, after))


def test_changes_of_postgresql_need_their_options():
    options = {"connector": "postgres-cdc", "hostname": "db", "username": "ada", "database-name": "shop"}

    with pytest.raises(InvalidProgram, match=r"missing for table 't': slot.name, table-name"):
        scan_table(TableContext("t", COLUMNS, options=options))


def test_changes_of_mysql_have_metadata_and_local_times():
    types = {"at": "TIMESTAMP(3)", "t": "TIME", "long": "STRING", "bits": "BYTES"}
    columns = tuple((name, parse_type(type_)) for name, type_ in types.items())
    rows_of = ChangesToRows(columns, False, ("table_name", "op_ts", "row_kind"), "Europe/Berlin")
    hours = datetime.timedelta(hours=30)
    row = {"at": datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.UTC), "t": hours / 3, "long": -hours, "bits": 257}

    [found] = rows_of(TableChange(ChangeKind.INSERT, "shop.orders", None, row, timestamp=1500))

    assert list(found) == [
        datetime.datetime.fromisoformat("2026-07-01 14:00"), datetime.time(10), "-30:00:00", b"\1\1",
        "orders", datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, datetime.UTC), "+I",
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"the time 1 day, 6:00:00 is not within a day.*declare the column as STRING"):
        rows_of(TableChange(ChangeKind.INSERT, "shop.orders", None, row | {"t": hours}))


def test_a_truncated_table_adds_no_row(caplog):
    assert ChangesToRows(COLUMNS, False)(TableChange(ChangeKind.TRUNCATE, "shop.items", None, None)) == []
    assert "table shop.items was truncated" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table-name": None}, "missing for table 't': table-name"),
        ({"server-id": "many"}, "'server-id' = 'many' is no number or range"),
        ({"server-time-zone": "Mars"}, "'server-time-zone' = 'Mars' is no time zone"),
        ({"scan.startup.mode": "timestamp"}, "needs option 'scan.startup.timestamp-millis'"),
        ({"scan.startup.mode": "specific-offset"}, "needs option 'scan.startup.specific-offset.file'"),
        ({"table-name": "("}, "are regular expressions, but missing \\)"),
    ],
)
def test_options_of_changes_of_mysql_that_do_not_fit_are_named(options, message):
    from funken.testing import local

    given = {
        "connector": "mysql-cdc", "hostname": "db", "username": "ada", "database-name": "shop", "table-name": "orders",
    } | options  # fmt: skip
    context = TableContext("t", COLUMNS, options={key: value for key, value in given.items() if value is not None})

    with pytest.raises(InvalidProgram, match=message):
        scan_table(context).stream(local([]).get_execution_environment())
