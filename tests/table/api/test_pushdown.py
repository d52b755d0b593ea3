"""Conditions that connectors use to read less: partitions of files, rows of a database, files of a snapshot; results stay."""

import datetime
import sqlite3
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from funken.connectors.base import ConnectorContext
from funken.connectors.files.arrow_files import _ParquetGroup
from funken.connectors.iceberg import IcebergCatalog, IcebergSource
from funken.connectors.sql.source import SqlSource
from funken.expr.ir import Call, InputRef, Literal
from funken.table import EnvironmentSettings, TableEnvironment
from funken.table.connectors.contract import FieldComparison, SourceCondition, conjuncts
from funken.table.connectors.filesystem import ParquetBatches
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


SALES = (
    "CREATE TABLE sales (item STRING, n INT, day DATE, shop STRING) PARTITIONED BY (day, shop) "
    "WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"
)


@pytest.fixture
def sales(tmp_path):
    """A table by day and shop; of one partition the file is broken, so reading it fails."""
    tables = session()
    tables.execute_sql(SALES.format(path=tmp_path))
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


def test_a_stream_reads_no_partition_that_does_not_count(sales, tmp_path):
    stream = session("streaming")
    stream.execute_sql(SALES.format(path=tmp_path))
    query = "SELECT n FROM sales WHERE day > DATE '2026-01-01' AND shop = 'a b' AND n > 0"

    assert filters(stream, query) == ">(day, 2026-01-01) AND =(shop, _UTF-16LE'a b')"
    assert rows(stream, query) == [(2,)]
    assert rows(stream, "SELECT n FROM sales WHERE day = DATE '2030-01-01'") == []


@pytest.fixture
def groups(tmp_path):
    """A file with four groups of two rows."""
    file = tmp_path / "part-0.parquet"
    days = [datetime.date(2026, 1, day) for day in range(1, 9)]
    names = ["a", "b", "c", "d", "e", "\u00e9", None, None]
    columns = {
        "n": pa.array(range(8), pa.int32()),
        "item": pa.array(names),
        "day": pa.array(days),
        "at": pa.array(
            [datetime.datetime(2026, 1, 1, hour, tzinfo=datetime.UTC) for hour in range(8)], pa.timestamp("us")
        ),
        "price": pa.array([None, None, *range(6)], pa.int64()),
    }
    pq.write_table(pa.table(columns), file, row_group_size=2)
    return tmp_path


READ = [
    ("n >= 6", [6, 7], 1),
    ("n < 2", [0, 1], 1),
    ("n = 3 OR n = 9", [3], 4),  # an OR of equalities is IN, if the planner says so
    ("n IN (0, 7)", [0, 7], 2),
    ("n <> 3 AND n > 3", [4, 5, 6, 7], 2),
    ("4 < n", [5, 6, 7], 2),
    ("item > 'd'", [4, 5], 1),
    ("item = 'b'", [1], 1),
    ("item IS NULL", [6, 7], 1),
    ("day BETWEEN DATE '2026-01-03' AND DATE '2026-01-04'", [2, 3], 1),
    ("`at` > TIMESTAMP '2026-01-01 05:00:00.000001'", [6, 7], 1),
    ("price > 3", [6, 7], 2),
    ("n > 100", [], 0),
    ("CAST(n AS BIGINT) > 5", [6, 7], 4),
]


@pytest.mark.parametrize("kind", ["batch", "streaming"])
@pytest.mark.parametrize(("condition", "wanted", "count"), READ)
def test_groups_of_rows_that_do_not_count_are_not_read(groups, kind, condition, wanted, count, monkeypatch):
    tables, read = session(kind), []
    tables.execute_sql(
        "CREATE TABLE t (n INT, item STRING, day DATE, `at` TIMESTAMP(6), price BIGINT) "
        f"WITH ('connector' = 'filesystem', 'path' = '{groups}', 'format' = 'parquet')"
    )
    batches = _ParquetGroup.batches

    def noted(self, names, rows):
        read.append(self.index)
        return batches(self, names, rows)

    monkeypatch.setattr(_ParquetGroup, "batches", noted)

    assert rows(tables, f"SELECT n FROM t WHERE {condition}") == [(n,) for n in wanted]
    assert len(read) <= count


def test_rows_that_are_not_read_count_for_positions(groups):
    file = SimpleNamespace(path="part-0.parquet", size=(groups / "part-0.parquet").stat().st_size)
    bound = FieldComparison("n", ">", (3,), DataTypes.INT())
    form = ParquetBatches(fields=("n",), comparisons=(bound,))
    with (groups / "part-0.parquet").open("rb") as opened:
        split = SimpleNamespace(start=0, end=file.size, position=0, file=file)
        reader = form.reader(opened, split, None)
        assert [batch.column(0).to_pylist() for batch in reader.next()] == [[4, 5]]
        assert (reader.position(0), reader.position(1)) == (4, 6)
        split.position = 5
        reader = form.reader(opened, split, None)
        assert [batch.column(0).to_pylist() for batch in reader.next()] == [[5]]
        assert [batch.column(0).to_pylist() for batch in reader.next()] == [[6, 7]]
        assert list(reader.next()) == []


def test_a_source_with_watermarks_leaves_out_no_rows(tmp_path):
    tables = session("streaming")
    tables.execute_sql(
        "CREATE TABLE t (n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) PARTITIONED BY (n) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet')"
    )

    assert filters(tables, "SELECT ts FROM t WHERE n > 1") == ""


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


@pytest.fixture
def asked(monkeypatch):
    """The queries that go to a database."""
    found, made = [], SqlSource.__init__

    def noted(self, database, query, *args, **options):
        found.append(query)
        made(self, database, query, *args, **options)

    monkeypatch.setattr(SqlSource, "__init__", noted)
    return found


def test_only_rows_that_count_leave_the_database(shop, asked):
    rows(shop, "SELECT item FROM orders WHERE id > 2")

    assert asked[-1].endswith("WHERE `id` > 2")


@pytest.mark.parametrize("kind", ["batch", "streaming"])
def test_a_limit_goes_to_the_database(shop, asked, kind):
    if kind == "streaming":
        shop.get_config().set("execution.runtime-mode", "streaming")
    assert "limit=[2]" in shop.explain_sql("SELECT item FROM orders LIMIT 2")
    assert rows(shop, "SELECT id, item FROM orders LIMIT 2") == [(1, "tea"), (2, "it's")]
    assert asked[-1].endswith("ORDER BY `id` LIMIT 2")
    assert rows(shop, "SELECT id FROM orders WHERE id > 1 LIMIT 5") == [(2,), (3,)]
    assert "LIMIT" not in asked[-1]  # the condition is looked at again first


@pytest.mark.parametrize("kind", ["batch", "streaming"])
def test_rows_without_a_key_are_numbered_before_any_is_left_out(tmp_path, asked, kind):
    file = tmp_path / "k.db"
    with sqlite3.connect(file) as database:
        database.executescript(
            "CREATE TABLE t (n INT, item TEXT); INSERT INTO t VALUES (3, 'c'), (1, 'a'), (2, 'b'), (2, 'b');"
        )
    tables = session(kind)
    tables.execute_sql(
        f"CREATE TABLE t (n INT, item STRING) WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{file}', 'table-name' = 't')"
    )

    assert rows(tables, "SELECT n, item FROM t WHERE n >= 2") == [(2, "b"), (2, "b"), (3, "c")]
    with sqlite3.connect(file) as database:
        assert sorted(database.execute(asked[-1])) == [(2, "b", 2), (2, "b", 3), (3, "c", 4)]
    assert rows(tables, "SELECT n FROM t LIMIT 3") == [(1,), (2,), (2,)]


# ---- Iceberg


@pytest.mark.parametrize("kind", ["batch", "streaming"])
def test_files_of_a_snapshot_are_left_out(tmp_path, kind):
    pytest.importorskip("pyiceberg")
    tables = session(kind)
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


def test_a_split_of_before_is_read_on_by_its_own_rows(tmp_path):
    pytest.importorskip("pyiceberg")
    catalog = IcebergCatalog(
        "c", {"type": "sql", "uri": f"sqlite:///{tmp_path}/i.db", "warehouse": f"file://{tmp_path}/w"}
    )
    catalog.load().create_namespace("d")
    numbers = pa.table({"n": list(range(10))})
    table = catalog.load().create_table("d.t", numbers.schema)
    table.append(numbers)
    source = IcebergSource(catalog, "d.t", row_filter="n > 4")
    [split] = source.list_splits()
    assert split.row_filter == "n > 4"
    whole = replace(split, row_filter="", row=3)  # as a savepoint of before conditions went into streams has it
    for given, wanted in ((replace(split, row=2), [7, 8, 9]), (whole, [3, 4, 5, 6, 7, 8, 9])):
        reader = source.reader(ConnectorContext("t"))
        reader.queue.append(given)
        assert [row["n"] for row in reader.poll(100, 0).values] == wanted


# ---- Delta


@pytest.mark.parametrize("kind", ["batch", "streaming"])
def test_partitions_of_delta_are_left_out(tmp_path, kind):
    deltalake = pytest.importorskip("deltalake")
    days = [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)]
    deltalake.write_deltalake(str(tmp_path), pa.table({"n": [1, 2], "day": days}), partition_by=["day"])
    [first] = (tmp_path / "day=2026-01-01").glob("*.parquet")
    first.write_bytes(b"broken")  # what is left out is not read
    tables = session(kind)
    tables.execute_sql(
        "CREATE TABLE t (n BIGINT, day DATE) PARTITIONED BY (day) "
        f"WITH ('connector' = 'delta', 'table-path' = '{tmp_path}')"
    )

    assert filters(tables, "SELECT n FROM t WHERE day > DATE '2026-01-01' AND n > 0") == ">(day, 2026-01-01)"
    assert rows(tables, "SELECT n FROM t WHERE day > DATE '2026-01-01' AND n > 0") == [(2,)]


# ---- conditions


def test_a_condition_that_is_not_the_same_everywhere_stays_with_the_query(sales):
    assert filters(sales, "SELECT n FROM sales WHERE day < CURRENT_DATE") == ""
    query = "SELECT n FROM sales WHERE day > DATE '2025-12-31' AND day < CURRENT_DATE"
    assert filters(sales, query) == ">(day, 2025-12-31)"
    assert rows(sales, query) == [(1,), (2,), (3,), (4,)]


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
