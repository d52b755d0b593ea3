"""Tables of a SparkSession as a catalog of SQL."""

import datetime
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

from funken.spark.frames import session as session_of_spark
from funken.table import EnvironmentSettings, TableEnvironment
from funken.table.catalog import InvalidTable
from funken.table.spark_catalog import SparkCatalog
from funken.types.row import Row

pytestmark = pytest.mark.spark
SHOP = "shop_of_catalog"


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    session = session_of_spark()
    folder = tmp_path_factory.mktemp("warehouse")
    session.sql(f"CREATE DATABASE IF NOT EXISTS {SHOP} LOCATION '{folder}'")
    session.sql(f"CREATE TABLE {SHOP}.orders (id BIGINT, item STRING, n INT) USING parquet PARTITIONED BY (n)")
    session.sql(f"INSERT INTO {SHOP}.orders VALUES (1, 'tea', 3), (2, NULL, NULL), (3, 'jam', 4)")
    session.sql(
        f"CREATE OR REPLACE TEMP VIEW typed AS SELECT id, CAST(1.5 AS DECIMAL(10, 2)) AS d, TIMESTAMP_NTZ'2026-01-01 10:00:00' "
        f"AS at, DATE'2026-01-02' AS day, array(1, 2) AS a, map('k', 1) AS m, named_struct('x', 1) AS s FROM {SHOP}.orders"
    )
    yield session
    session.sql("DROP VIEW typed")
    session.sql(f"DROP DATABASE {SHOP} CASCADE")


def session(spark, mode="batch"):
    settings = EnvironmentSettings.in_batch_mode() if mode == "batch" else EnvironmentSettings.in_streaming_mode()
    tables = TableEnvironment.create(settings)
    tables.get_config().set("execution.target", "local").set("parallelism.default", 1)
    tables.register_catalog("lake", SparkCatalog(spark, SHOP))
    tables.use_catalog("lake")
    return tables


def rows(tables, query):
    with tables.execute_sql(query).collect() as found:
        return sorted((tuple(row) for row in found), key=repr)


@pytest.mark.parametrize("way", ["batch", "streaming"])
def test_tables_and_views_are_read_and_joined(spark, way):
    tables = session(spark, way)
    assert set(tables.list_tables()) >= {"orders", "typed"}
    assert SHOP in tables.list_databases()
    assert rows(tables, "SELECT * FROM orders") == [(1, "tea", 3), (2, None, None), (3, "jam", 4)]
    assert rows(tables, "SELECT o.item FROM orders AS o JOIN typed AS t ON o.id = t.id WHERE o.n > 3") == [("jam",)]
    assert rows(tables, "SELECT d, at, day, a, m, s FROM typed WHERE id = 1") == [
        (
            Decimal("1.50"),
            datetime.datetime.fromisoformat("2026-01-01T10:00:00"),
            datetime.date(2026, 1, 2),
            [1, 2],
            {"k": 1},
            Row(x=1),
        )
    ]
    assert len(rows(tables, "SELECT id FROM typed LIMIT 2")) == 2


def test_files_are_read_where_they_are(spark):
    tables = session(spark)
    told = next(iter(tables.execute_sql("SHOW CREATE TABLE orders").collect()))[0]
    assert "'connector' = 'filesystem'" in told
    assert "PARTITIONED BY (`n`)" in told
    assert "filter=[=(n, 4)]" in tables.explain_sql("SELECT id FROM orders WHERE n = 4")


def test_the_running_session_is_a_catalog_by_its_type(spark):
    tables = session(spark)
    create = f"CREATE CATALOG again WITH ('type' = 'spark', 'default-database' = '{SHOP}')"
    with ThreadPoolExecutor(1) as pool:  # where no session is active: each thread has its own
        pool.submit(tables.execute_sql, create).result()
    assert rows(tables, f"SELECT id FROM again.{SHOP}.orders WHERE item = 'tea'") == [(1,)]


def test_spark_defines_its_tables_itself(spark):
    tables = session(spark)
    with pytest.raises(InvalidTable, match="cannot be created or changed by this catalog. Do it in Spark"):
        tables.execute_sql("CREATE TABLE mine (n INT) WITH ('connector' = 'print')")
    with pytest.raises(InvalidTable, match="cannot be dropped by this catalog. Do it in Spark"):
        tables.execute_sql("DROP TABLE orders")
    with pytest.raises(InvalidTable, match="Spark has no database 'nowhere'; it has: .*default"):
        tables.register_catalog("other", SparkCatalog(spark, "nowhere"))
