"""Conditions that connectors use to read less: partitions of files, rows of a database, files of a snapshot; results stay."""

import datetime
import sqlite3

import pytest

from funken.connectors.sql.source import SqlSource
from funken.expr.ir import Call, InputRef, Literal
from funken.table import EnvironmentSettings, TableEnvironment
from funken.table.connectors.contract import FieldComparison, SourceCondition, conjuncts
from funken.table.types import DataTypes


def session(mode="batch"):
    settings = EnvironmentSettings.in_batch_mode() if mode == "batch" else EnvironmentSettings.in_streaming_mode()
    tables = TableEnvironment.create(settings)
    tables.get_config().set("execution.target", "local").set("parallelism.default", 1)
    return tables


def rows(tables, query):
    with tables.execute_sql(query).collect() as found:
        return sorted((tuple(row) for row in found), key=repr)


def filters(tables, query):
    """The conditions that the scan of a query knows, as EXPLAIN shows them."""
    plan = tables.explain_sql(query).partition("== Optimized Physical Plan ==")[2]
    return plan.partition("filter=[")[2].partition("]]")[0]


# ---- files


@pytest.fixture
def sales(tmp_path):
    """A table by day and shop; of one partition the file is broken, so reading it fails."""
    tables = session()
    tables.execute_sql(
        "CREATE TABLE sales (item STRING, n INT, day DATE, shop STRING) PARTITIONED BY (day, shop) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    tables.execute_sql(
        "INSERT INTO sales VALUES ('tea', 1, DATE '2026-01-01', 'a b'), ('jam', 2, DATE '2026-01-02', 'a b'), "
        "('tea', 3, DATE '2026-01-02', 'c'), ('oat', 4, DATE '2026-01-03', CAST(NULL AS STRING))"
    ).wait()
    folder = tmp_path / "day=2025-12-31" / "shop=x"
    folder.mkdir(parents=True)
    (folder / "part-0.csv").write_text("tea,no number\n")
    return tables


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("day = DATE '2026-01-02'", [2, 3]),
        ("day > DATE '2026-01-01' AND shop = 'a b'", [2]),
        ("day >= DATE '2026-01-01' AND (shop = 'c' OR shop IS NULL)", [3, 4]),
        ("DATE '2026-01-02' < day", [4]),
        ("EXTRACT(DAY FROM day) = 1 AND n < 9", [1]),
        ("shop IN ('c', 'd')", [3]),
        ("day BETWEEN DATE '2026-01-02' AND DATE '2026-01-03' AND n > 2", [3, 4]),
        ("day = DATE '2030-01-01'", []),
    ],
)
def test_partitions_that_do_not_count_are_not_read(sales, condition, wanted):
    query = f"SELECT n FROM sales WHERE {condition}"

    assert filters(sales, query)
    assert rows(sales, query) == [(n,) for n in wanted]


def test_a_condition_of_other_columns_stays_with_the_query(sales):
    assert filters(sales, "SELECT n FROM sales WHERE n > 2 AND day > DATE '2026-01-01'") == ">(day, 2026-01-01)"
    assert filters(sales, "SELECT n FROM sales WHERE n > 2 OR day > DATE '2026-01-01'") == ""
    assert filters(sales, "SELECT day FROM sales") == ""


def test_a_scan_that_several_read_is_not_narrowed(sales):
    query = (
        "SELECT n FROM sales WHERE day = DATE '2026-01-01' AND shop = 'a b' UNION ALL "
        "SELECT n FROM sales WHERE day = DATE '2026-01-02' AND shop = 'c'"
    )
    plan = sales.explain_sql(query).partition("== Optimized Physical Plan ==")[2]

    assert plan.count("filter=[") in (0, plan.count("TableSourceScan"))


@pytest.mark.parametrize("form", ["json", "parquet", "orc"])
def test_other_formats_prune_partitions(tmp_path, form):
    tables = session()
    tables.execute_sql(
        f"CREATE TABLE t (n INT, k INT) PARTITIONED BY (k) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', "
        f"'format' = '{form}')"
    )
    tables.execute_sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 30)").wait()

    assert rows(tables, "SELECT n, k FROM t WHERE k > 1 AND n < 9") == [(2, 2), (3, 30)]


def test_a_stream_reads_what_it_always_read(tmp_path):
    tables = session("streaming")
    tables.execute_sql(
        f"CREATE TABLE t (n INT, k INT) PARTITIONED BY (k) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', "
        "'format' = 'csv')"
    )

    assert filters(tables, "SELECT n FROM t WHERE k > 1") == ""


# ---- databases


@pytest.fixture
def shop(tmp_path):
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as database:
        database.executescript(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, price DECIMAL(10, 2), day DATE);"
            "INSERT INTO orders VALUES (1, 'tea', 2.5, '2026-01-02'), (2, 'it''s', NULL, NULL), (3, 'Tea', 3, '2026-01-03');"
        )
    tables = session()
    tables.execute_sql(f"CREATE CATALOG c WITH ('type' = 'jdbc', 'base-url' = 'jdbc:sqlite:{file}')")
    tables.use_catalog("c")
    return tables


@pytest.mark.parametrize(
    ("condition", "known", "wanted"),
    [
        ("id > 1", 1, [2, 3]),
        ("2 >= id AND item = 'tea'", 2, [1]),
        ("item = 'it''s'", 1, [2]),
        ("item IN ('tea', 'no')", 1, [1]),
        ("item <> 'tea'", 0, [2, 3]),
        ("item > 'a'", 0, [1, 2]),
        ("price > 2.4", 0, [1, 3]),
        ("price IS NULL", 1, [2]),
        ("day = DATE '2026-01-02'", 0, [1]),
        ("id + 1 = 3", 0, [2]),
        ("id = 1 OR price > 2.9", 0, [1, 3]),
    ],
)
def test_a_database_leaves_out_rows(shop, condition, known, wanted):
    query = f"SELECT id FROM orders WHERE {condition}"

    found = filters(shop, query)
    assert (found.count(" AND ") + 1 if found else 0) == known
    assert rows(shop, query) == [(one,) for one in wanted]


def test_only_rows_that_count_leave_the_database(shop, monkeypatch):
    asked = []
    made = SqlSource.__init__

    def noted(self, database, query, *args, **options):
        asked.append(query)
        made(self, database, query, *args, **options)

    monkeypatch.setattr(SqlSource, "__init__", noted)
    rows(shop, "SELECT item FROM orders WHERE id > 2")

    assert asked[-1].endswith('WHERE "id" > 2')


# ---- Iceberg


def test_files_of_a_snapshot_are_left_out(tmp_path):
    pytest.importorskip("pyiceberg")
    tables = session()
    tables.execute_sql(
        "CREATE CATALOG c WITH ('type' = 'iceberg', 'catalog-type' = 'sql', "
        f"'uri' = 'sqlite:///{tmp_path}/i.db', 'warehouse' = 'file://{tmp_path}/w')"
    )
    tables.use_catalog("c")
    tables.execute_sql("CREATE TABLE t (id BIGINT, item STRING, day DATE)")
    for number, item in ((1, "tea"), (2, "jam")):
        tables.execute_sql(f"INSERT INTO t VALUES ({number}, '{item}', DATE '2026-01-0{number}')").wait()
    first = sorted((tmp_path / "w").rglob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)[0]
    first.write_bytes(b"broken")  # what is left out is not read

    for condition in ("id > 1", "item = 'jam'", "day >= DATE '2026-01-02'", "id IN (2, 3) AND item IS NOT NULL"):
        assert rows(tables, f"SELECT id, item FROM t WHERE {condition}") == [(2, "jam")]


# ---- conditions


def test_comparisons():
    big, text = DataTypes.BIGINT(), DataTypes.STRING()
    names = ("id", "item")
    ref, value = InputRef(0, type=big), Literal(3, type=big)
    less = Call("<", (value, ref), type=DataTypes.BOOLEAN())

    assert SourceCondition(less, names).comparison() == FieldComparison("id", ">", (3,), big)
    both = Call("AND", (less, Call("AND", (less, less), type=less.type)), type=less.type)
    assert conjuncts(both) == [less] * 3
    assert SourceCondition(Call("<", (ref, ref), type=less.type), names).comparison() is None
    assert SourceCondition(Call("=", (ref, Literal(None, type=big)), type=less.type), names).comparison() is None
    assert FieldComparison("item", "=", ("a'b",), text).sql('"item"', True) == "\"item\" = 'a''b'"
    assert FieldComparison("item", "=", ("a\\b",), text).sql('"item"', True) is None
    assert FieldComparison("item", "=", ("a'b",), text).iceberg() is None
    assert FieldComparison("day", "<>", (20455,), DataTypes.DATE()).iceberg() == "day != '2026-01-02'"
    assert FieldComparison("day", "=", (20455,), DataTypes.DATE()).python_values() == [datetime.date(2026, 1, 2)]


# ---- limits


@pytest.fixture(params=["batch", "streaming"])
def long_files(request, tmp_path):
    """A table of two files, of which nothing behind the fifth row of each can be read."""
    for number in (1, 2):
        rows = [f"{number}{row}" for row in range(5)] + ["no number"] * 5000
        (tmp_path / f"part-{number}.csv").write_text("\n".join(rows) + "\n")
    tables = session(request.param)
    tables.execute_sql(
        f"CREATE TABLE long_files (n INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    return tables


def limit(tables, query):
    plan = tables.explain_sql(query).partition("== Optimized Physical Plan ==")[2]
    return plan.partition("limit=[")[2].partition("]")[0]


@pytest.mark.parametrize(
    ("query", "count", "pushed"),
    [
        ("SELECT n FROM long_files LIMIT 3", 3, "3"),
        ("SELECT n * 2 AS m FROM long_files LIMIT 2 OFFSET 1", 2, "3"),
        ("SELECT m FROM (SELECT n + 1 AS m FROM long_files) LIMIT 5", 5, "5"),
    ],
)
def test_a_limit_lets_files_be_read_in_part(long_files, query, count, pushed):
    assert limit(long_files, query) == pushed
    assert len(rows(long_files, query)) == count


@pytest.mark.parametrize(
    "query",
    [
        "SELECT n FROM long_files WHERE n > 3 LIMIT 3",
        "SELECT n FROM long_files ORDER BY n LIMIT 3",
        "SELECT n FROM long_files UNION ALL (SELECT n FROM long_files LIMIT 3)",
        "SELECT COUNT(*) FROM long_files LIMIT 3",
    ],
)
def test_what_needs_all_rows_reads_them(long_files, query):
    assert limit(long_files, query) == ""


@pytest.mark.parametrize("form", ["parquet", "orc", "json"])
def test_a_limit_of_other_formats(tmp_path, form):
    tables = session()
    tables.execute_sql(
        f"CREATE TABLE t (n INT, k INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = '{form}')"
    )
    tables.execute_sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 30), (4, 40)").wait()
    assert limit(tables, "SELECT n FROM t LIMIT 3") == "3"
    assert rows(tables, "SELECT n FROM t LIMIT 3") == [(1,), (2,), (3,)]


def test_changes_in_files_are_all_read(tmp_path):
    tables = session("streaming")
    tables.execute_sql(
        f"CREATE TABLE t (n INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'debezium-json')"
    )
    assert limit(tables, "SELECT n FROM t LIMIT 3") == ""
