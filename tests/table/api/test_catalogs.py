"""Catalogs that outlive a session: a folder, SQLite, an Iceberg SQL catalog; by CREATE CATALOG, from one session to the next."""

import json
import sqlite3

import pytest

from funken.errors import InvalidProgram
from funken.table import EnvironmentSettings, TableEnvironment, udf
from funken.table.catalog import CatalogDatabase, CatalogFunction, CatalogModel, InvalidTable, TableColumn
from funken.table.stored_catalogs import (
    _AFFINITIES,
    _PATTERNS,
    FileCatalog,
    IcebergTables,
    column_type,
    document_of,
    object_of,
)
from funken.table.types import DataTypes


def session(create):
    """A new session with a catalog, which is the current one."""
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.get_config().set("execution.target", "local").set("parallelism.default", 1)
    tables.execute_sql(create)
    tables.use_catalog("c")
    return tables


def rows(tables, query):
    with tables.execute_sql(query).collect() as found:
        return sorted((tuple(row) for row in found), key=repr)


# ---- files


def of_files(folder):
    return session(f"CREATE CATALOG c WITH ('type' = 'file', 'path' = '{folder}')")


DEFINITION = """CREATE TABLE `odd ``name` (
  id BIGINT NOT NULL COMMENT 'the key',
  at TIMESTAMP(3),
  twice AS id * 2,
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  detail ROW<a INT, b ARRAY<DECIMAL(10, 2)>>,
  WATERMARK FOR at AS at - INTERVAL '5' SECOND,
  PRIMARY KEY (id) NOT ENFORCED
) COMMENT 'a table' PARTITIONED BY (id) WITH ('connector' = 'kafka', 'topic' = 't')"""


def test_a_table_is_there_in_the_next_session(tmp_path):
    first = of_files(tmp_path)
    first.execute_sql(DEFINITION)
    shown = rows(first, "SHOW CREATE TABLE `odd ``name`")
    described = rows(first, "DESCRIBE `odd ``name`")

    second = of_files(tmp_path)

    assert second.list_tables() == ["odd `name"]
    assert rows(second, "SHOW CREATE TABLE `odd ``name`") == shown
    assert rows(second, "DESCRIBE `odd ``name`") == described


def test_sessions_share_a_folder(tmp_path):
    first, second = of_files(tmp_path), of_files(tmp_path)
    first.execute_sql("CREATE DATABASE sales WITH ('owner' = 'ann')")
    first.execute_sql("CREATE TABLE sales.t (n INT) WITH ('connector' = 'blackhole')")
    first.execute_sql("CREATE VIEW sales.v AS SELECT n + 1 AS m FROM sales.t")

    assert rows(second, "SHOW DATABASES") == [("default",), ("sales",)]
    second.execute_sql("ALTER TABLE sales.t SET ('sink.parallelism' = '2')")
    assert "'sink.parallelism' = '2'" in rows(first, "SHOW CREATE TABLE sales.t")[0][0]
    assert second.from_path("sales.v").get_resolved_schema().get_column_names() == ["m"]

    first.execute_sql("DROP VIEW sales.v")
    assert rows(second, "SHOW TABLES FROM sales") == [("t",)]
    with pytest.raises(InvalidTable, match="not empty"):
        second.execute_sql("DROP DATABASE sales")
    second.execute_sql("DROP DATABASE sales CASCADE")
    assert rows(first, "SHOW DATABASES") == [("default",)]


def test_rows_go_through_a_kept_table(tmp_path):
    data = tmp_path / "data"
    first = of_files(tmp_path / "catalog")
    first.execute_sql(
        f"CREATE TABLE t (n INT, s STRING) WITH ('connector' = 'filesystem', 'path' = '{data}', 'format' = 'csv')"
    )
    first.execute_sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')").wait()

    assert rows(of_files(tmp_path / "catalog"), "SELECT * FROM t WHERE n > 1") == [(2, "b")]


def test_functions_and_models_are_kept(tmp_path):
    of_files(tmp_path).execute_sql("CREATE FUNCTION shorten AS 'textwrap.shorten' LANGUAGE PYTHON")
    of_files(tmp_path).execute_sql("CREATE FUNCTION Joined AS 'posixpath.join' LANGUAGE PYTHON")
    assert of_files(tmp_path).list_user_defined_functions() == ["joined", "shorten"]
    assert of_files(tmp_path).catalogs.function(["joined"]).target == "posixpath.join"
    catalog = FileCatalog(str(tmp_path))
    model = CatalogModel(
        (TableColumn("a", DataTypes.INT()),), (TableColumn("b", DataTypes.STRING()),), (("provider", "python"),)
    )
    catalog.put("default", "model", "m", model)
    assert FileCatalog(str(tmp_path)).get("default", "model", "m") == model


def test_objects_of_the_program_are_refused(tmp_path):
    tables = of_files(tmp_path)

    with pytest.raises(InvalidTable, match="cannot keep"):
        tables.create_view("v", tables.from_elements([(1,)], ["a"]))
    with pytest.raises(InvalidTable, match="cannot keep"):
        tables.catalogs.create(["f"], CatalogFunction(definition=udf))
    assert tables.list_tables() == []


def test_documents_hold_no_more_than_was_said(tmp_path):
    of_files(tmp_path).execute_sql("CREATE TABLE t (n INT) WITH ('connector' = 'print')")

    document = json.loads((tmp_path / "default" / "table" / "t.json").read_text())
    assert document == {"kind": "table", "columns": [{"name": "n", "type": "INT"}], "options": [["connector", "print"]]}
    assert document_of(object_of(document), "t") == document


# ---- SQLite


@pytest.fixture
def shop(tmp_path):
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as database:
        database.executescript(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, item VARCHAR(20) NOT NULL, price DECIMAL(10, 2), paid BOOLEAN, "
            "at DATE);"
            "INSERT INTO orders VALUES (1, 'tea', 2.5, 1, '2026-01-02'), (2, 'milk', NULL, 0, NULL);"
            "CREATE VIEW cheap AS SELECT id, item FROM orders WHERE price < 3;"
        )
    return file


def test_tables_of_sqlite(shop):
    tables = session(f"CREATE CATALOG c WITH ('type' = 'jdbc', 'base-url' = 'jdbc:sqlite:{shop}')")

    assert tables.list_databases() == ["main"]
    assert tables.list_tables() == ["cheap", "orders"]
    assert [row[:4] for row in rows(tables, "DESCRIBE orders")] == [
        ("at", "DATE", True, None),
        ("id", "BIGINT", False, "PRI(id)"),
        ("item", "STRING", False, None),
        ("paid", "BOOLEAN", True, None),
        ("price", "DECIMAL(10, 2)", True, None),
    ]
    assert rows(tables, "SELECT item, paid FROM orders") == [("milk", False), ("tea", True)]
    assert rows(tables, "SELECT id FROM c.main.cheap") == [(1,)]


def test_a_table_of_sqlite_is_written(shop):
    tables = session(f"CREATE CATALOG c WITH ('type' = 'jdbc', 'base-url' = 'jdbc:sqlite:{shop}')")

    tables.execute_sql("INSERT INTO orders VALUES (2, 'oat milk', 3.10, TRUE, DATE '2026-02-03')").wait()

    with sqlite3.connect(shop) as database:
        assert database.execute("SELECT item, price FROM orders WHERE id = 2").fetchall() == [("oat milk", 3.1)]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE t (n INT) WITH ('connector' = 'print')",
        "DROP TABLE orders",
        "CREATE DATABASE d",
        "CREATE VIEW v AS SELECT 1 AS a",
        "ALTER TABLE orders SET ('a' = 'b')",
    ],
)
def test_definitions_are_left_to_the_database(shop, statement):
    tables = session(f"CREATE CATALOG c WITH ('type' = 'jdbc', 'base-url' = 'jdbc:sqlite:{shop}')")

    with pytest.raises(InvalidTable, match="Do it in its database"):
        tables.execute_sql(statement)
    tables.execute_sql("CREATE TEMPORARY TABLE t (n INT) WITH ('connector' = 'print')")


def test_types_of_databases():
    of_postgres = {
        "integer": "INT", "numeric": "DECIMAL(38, 18)", "character varying(7)": "VARCHAR(7)", "character(3)": "CHAR(3)",
        "timestamp without time zone": "TIMESTAMP(6)", "timestamp(3) without time zone": "TIMESTAMP(3)",
        "timestamp with time zone": "TIMESTAMP_LTZ(6)", "jsonb": "STRING", "text[]": "ARRAY<STRING>", "bytea": "BYTES",
    }  # fmt: skip
    assert {name: str(column_type(name, _PATTERNS, "c")) for name in of_postgres} == of_postgres
    of_sqlite = {
        "INTEGER": "BIGINT",
        "": "BYTES",
        "VARCHAR(3)": "STRING",
        "NUMERIC": "DOUBLE",
        "DATETIME": "TIMESTAMP(6)",
    }
    assert {name: str(column_type(name, _AFFINITIES, "c")) for name in of_sqlite} == of_sqlite
    with pytest.raises(InvalidTable, match=r"column t\.a has type 'point'.*Create a view"):
        column_type("point", _PATTERNS, "t.a")


# ---- Iceberg


def of_iceberg(folder):
    return session(
        "CREATE CATALOG c WITH ('type' = 'iceberg', 'catalog-type' = 'sql', "
        f"'uri' = 'sqlite:///{folder}/iceberg.db', 'warehouse' = 'file://{folder}/warehouse')"
    )


def test_the_store_of_an_iceberg_catalog_is_that_of_pyiceberg():
    pytest.importorskip("pyiceberg")
    options = {"catalog-type": "rest", "uri": "http://c", "io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
    store = {"s3.endpoint": "http://minio:9000", "s3.path-style-access": "true"}

    catalog = IcebergTables("lake", options | store)

    assert catalog._catalog.properties["s3.endpoint"] == "http://minio:9000"
    assert catalog._catalog.properties["s3.force-virtual-addressing"] == "false"
    assert catalog._options["catalog.s3.endpoint"] == "http://minio:9000"
    with pytest.raises(InvalidTable, match="'catalog-type' = 'hadoop', a folder without a server.*Use 'rest', 'hive'"):
        IcebergTables("lake", {"catalog-type": "hadoop"})


def test_the_class_of_a_catalog_is_its_type():
    java = {
        "catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog",
        "aws.region": "eu-west-1",
        "warehouse": "s3://lake",
    }
    properties = IcebergTables("lake", java)._catalog.properties

    assert properties["type"] == "glue" and properties["client.region"] == "eu-west-1"
    with pytest.raises(InvalidTable, match="'catalog-impl' = 'com.acme.Tables', a class of Java. Use 'catalog-type'"):
        IcebergTables("lake", {"catalog-impl": "com.acme.Tables"})


def test_tables_of_iceberg(tmp_path):
    pytest.importorskip("pyiceberg")
    first = of_iceberg(tmp_path)
    first.execute_sql("CREATE DATABASE sales")
    first.execute_sql("CREATE TABLE sales.t (id BIGINT, item STRING, day DATE) PARTITIONED BY (day)")
    first.execute_sql("INSERT INTO sales.t VALUES (1, 'tea', DATE '2026-01-02'), (2, 'milk', DATE '2026-01-03')").wait()

    second = of_iceberg(tmp_path)

    assert second.list_databases() == ["default", "sales"]
    assert rows(second, "SHOW TABLES FROM sales") == [("t",)]
    assert rows(second, "SELECT id, item FROM sales.t WHERE id > 1") == [(2, "milk")]
    assert "PARTITIONED BY (`day`)" in rows(second, "SHOW CREATE TABLE sales.t")[0][0]
    second.execute_sql("DROP TABLE sales.t")
    second.execute_sql("DROP DATABASE sales")
    assert first.list_databases() == ["default"]


def test_what_iceberg_cannot_keep_is_refused(tmp_path):
    pytest.importorskip("pyiceberg")
    tables = of_iceberg(tmp_path)

    with pytest.raises(InvalidTable, match="computed column 'b'"):
        tables.execute_sql("CREATE TABLE t (a INT, b AS a + 1)")
    with pytest.raises(InvalidTable, match="a watermark"):
        tables.execute_sql("CREATE TABLE t (a TIMESTAMP(3), WATERMARK FOR a AS a)")
    with pytest.raises(InvalidTable, match="is no table"):
        tables.execute_sql("CREATE VIEW v AS SELECT 1 AS a")


# ---- options


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("'type' = 'fille'", "'fille', which is unknown. Did you mean 'file'"),
        ("'type' = 'hive'", "Available: file, generic_in_memory, iceberg, jdbc, spark"),
        (
            "'type' = 'spark', 'default-databases' = 'x'",
            "this process has no SparkSession. Create one first, or pass one",
        ),
        ("'type' = 'file'", "required options are missing for catalog 'c': path"),
        ("'type' = 'file', 'pth' = '/a', 'path' = '/a'", r"catalog 'c': 'pth' \(did you mean 'path'\?\)"),
        ("'type' = 'generic_in_memory', 'path' = '/a'", "Unsupported options"),
        ("'type' = 'jdbc', 'base-url' = 'jdbc:mysql://host'", "of no database whose tables can be listed"),
    ],
)
def test_a_mistake_in_the_options(options, says):
    tables = TableEnvironment.create()

    with pytest.raises((InvalidTable, InvalidProgram), match=says):
        tables.execute_sql(f"CREATE CATALOG c WITH ({options})")
    assert tables.list_catalogs() == ["default_catalog"]


def test_a_file_that_is_not_there_is_said_at_once(tmp_path):
    tables = TableEnvironment.create()

    with pytest.raises(InvalidTable, match="cannot read jdbc:sqlite:.*no.db: "):
        tables.execute_sql(f"CREATE CATALOG c WITH ('type' = 'jdbc', 'base-url' = 'jdbc:sqlite:{tmp_path}/no.db')")


def test_a_catalog_is_shown_and_described(tmp_path):
    tables = of_files(tmp_path)

    assert f"'path' = '{tmp_path}'" in rows(tables, "SHOW CREATE CATALOG c")[0][0]
    assert ("name", "c") in [row[:2] for row in rows(tables, "DESCRIBE CATALOG c")]
    assert FileCatalog(str(tmp_path)).databases() == {"default": CatalogDatabase()}
    tables.execute_sql("USE CATALOG default_catalog")
    tables.execute_sql("DROP CATALOG c")
    assert tables.list_catalogs() == ["default_catalog"]
