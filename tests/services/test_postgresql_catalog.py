"""The tables of a real PostgreSQL as a catalog: names, types and keys, read and written without a definition."""

import datetime
import uuid
from decimal import Decimal

import pytest

from funken.table import EnvironmentSettings, TableEnvironment
from funken.table.catalog import InvalidTable

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]


@pytest.fixture
def tables(postgres):
    """A session whose current catalog is the server's, and a schema with a table of each type."""
    schema = f"s_{uuid.uuid4().hex[:8]}"
    postgres.execute(f"CREATE SCHEMA {schema}")
    postgres.execute(
        f"CREATE TABLE {schema}.orders (id BIGINT PRIMARY KEY, item VARCHAR(20) NOT NULL, price NUMERIC(10, 2), at TIMESTAMP, "
        "seen TIMESTAMPTZ, tags TEXT[], place POINT)"
    )
    postgres.execute(f"CREATE TABLE {schema}.plain (a INTEGER, b TEXT, PRIMARY KEY (a))")
    postgres.execute(f"INSERT INTO {schema}.plain VALUES (1, 'x'), (2, NULL)")
    postgres.execute(f"CREATE VIEW {schema}.seen AS SELECT id, item, price, at FROM {schema}.orders")
    session = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    session.get_config().set("execution.target", "local").set("parallelism.default", 1)
    url = f"jdbc:postgresql://127.0.0.1:{postgres.port}"
    session.execute_sql(f"CREATE CATALOG pg WITH ('type' = 'jdbc', 'base-url' = '{url}', 'username' = 'funken')")
    session.use_catalog("pg")
    return session, schema


def rows(session, query):
    with session.execute_sql(query).collect() as found:
        return sorted(tuple(row) for row in found)


def test_tables_and_their_columns(tables):
    session, schema = tables

    assert session.get_current_database() == "postgres"
    assert {f"{schema}.orders", f"{schema}.plain", f"{schema}.seen"} <= set(session.list_tables())
    assert [row[:4] for row in rows(session, f"DESCRIBE `{schema}.plain`")] == [
        ("a", "INT", False, "PRI(a)"),
        ("b", "STRING", True, None),
    ]
    described = [row[:3] for row in rows(session, f"DESCRIBE `{schema}.seen`")]
    assert described == [
        ("at", "TIMESTAMP(6)", True),
        ("id", "BIGINT", True),
        ("item", "VARCHAR(20)", True),
        ("price", "DECIMAL(10, 2)", True),
    ]
    with pytest.raises(InvalidTable, match="place has type 'point'"):
        session.execute_sql(f"SELECT 1 FROM `{schema}.orders`")


def test_rows_are_read_and_written(tables, postgres):
    session, schema = tables
    postgres.execute(
        f"INSERT INTO {schema}.orders (id, item, price, at) VALUES (1, 'tea', 2.50, '2026-01-02 03:04:05.678')"
    )
    assert rows(session, f"SELECT * FROM `{schema}.seen` WHERE price > 2") == [
        (1, "tea", Decimal("2.50"), datetime.datetime(2026, 1, 2, 3, 4, 5, 678000))  # noqa: DTZ001 - it has no zone
    ]

    session.execute_sql(f"INSERT INTO `{schema}.plain` VALUES (2, 'y'), (3, 'z')").wait()

    assert rows(session, f"SELECT * FROM pg.postgres.`{schema}.plain`") == [(1, "x"), (2, "y"), (3, "z")]


def test_the_database_defines_its_tables(tables):
    session, schema = tables

    with pytest.raises(InvalidTable, match="Do it in its database"):
        session.execute_sql(f"DROP TABLE `{schema}.plain`")
    with pytest.raises(InvalidTable, match="Catalog .other. cannot read .*nothing"):
        options = "'type' = 'jdbc', 'base-url' = 'jdbc:postgresql://127.0.0.1:{port}', 'default-database' = 'nothing'"
        session.execute_sql(f"CREATE CATALOG other WITH ({options.format(port=_port(session))})")


def _port(session):
    return session.catalogs.catalog_options["pg"]["base-url"].rsplit(":", 1)[1]
