"""Catalogs as PyFlink shows them."""

import pytest

import funken.compat.pyflink  # noqa: F401 - makes `import pyflink` mean the layer


@pytest.fixture
def t_env():
    from pyflink.table import EnvironmentSettings, TableEnvironment

    return TableEnvironment.create(EnvironmentSettings.in_streaming_mode())


def test_a_table_of_sql_is_one_of_the_catalog(t_env):
    from pyflink.table.catalog import CatalogBaseTable, ObjectPath

    t_env.execute_sql(
        "CREATE TABLE t (a INT NOT NULL, ts TIMESTAMP(3), b AS a + 1, WATERMARK FOR ts AS ts, PRIMARY KEY (a) NOT ENFORCED) "
        "WITH ('connector' = 'datagen')"
    )
    catalog = t_env.get_catalog("default_catalog")
    path = ObjectPath("default_database", "t")
    found = catalog.get_table(path)
    assert found.get_options() == {"connector": "datagen"}
    assert "PRIMARY KEY (`a`)" in str(found.get_unresolved_schema())
    catalog.create_table(ObjectPath("default_database", "copy"), found, False)
    assert t_env.list_tables() == ["copy", "t"]
    assert t_env.from_path("copy").get_resolved_schema().get_column_names() == ["a", "ts", "b"]
    catalog.rename_table(path, "u", False)
    catalog.drop_table(ObjectPath("default_database", "copy"), False)
    assert catalog.list_tables("default_database") == ["u"]
    assert isinstance(found.copy(), CatalogBaseTable)


def test_what_is_there_or_not_raises(t_env):
    from pyflink.table.catalog import CatalogDatabase, ObjectPath
    from pyflink.util.exceptions import (
        DatabaseAlreadyExistException,
        DatabaseNotExistException,
        TableNotExistException,
    )

    catalog = t_env.get_catalog("default_catalog")
    database = CatalogDatabase.create_instance({"k": "v"}, "mine")
    catalog.create_database("d", database, False)
    catalog.create_database("d", database, True)
    assert catalog.get_database("d").get_properties() == {"k": "v"}
    with pytest.raises(DatabaseAlreadyExistException, match="d already exists"):
        catalog.create_database("d", database, False)
    with pytest.raises(TableNotExistException, match="d.t does not exist"):
        catalog.get_table(ObjectPath("d", "t"))
    catalog.drop_database("d", False)
    with pytest.raises(DatabaseNotExistException):
        catalog.list_tables("d")


def test_partitions_have_the_keys_of_their_table(t_env):
    from pyflink.table.catalog import CatalogPartition, CatalogPartitionSpec, ObjectPath
    from pyflink.util.exceptions import PartitionSpecInvalidException, TableNotPartitionedException

    for name, by in (("parts", "PARTITIONED BY (day, hour)"), ("plain", "")):
        t_env.execute_sql(
            f"CREATE TABLE {name} (a INT, day STRING, hour STRING) {by} "
            "WITH ('connector' = 'filesystem', 'path' = '/p', 'format' = 'json')"
        )
    catalog = t_env.get_catalog("default_catalog")
    path, spec = ObjectPath("default_database", "parts"), CatalogPartitionSpec({"day": "1", "hour": "2"})
    catalog.create_partition(path, spec, CatalogPartition.create_instance({}, "first"), False)
    assert t_env.get_catalog("default_catalog").partition_exists(path, spec)
    assert catalog.list_partitions(path, CatalogPartitionSpec({"day": "1"})) == [spec]
    assert catalog.list_partitions(path, CatalogPartitionSpec({"day": "2"})) == []
    with pytest.raises(PartitionSpecInvalidException, match="does not have the keys"):
        catalog.create_partition(path, CatalogPartitionSpec({"day": "1"}), catalog.get_partition(path, spec), False)
    with pytest.raises(TableNotPartitionedException):
        catalog.list_partitions(ObjectPath("default_database", "plain"))
    catalog.drop_partition(path, spec, False)
    assert not catalog.partition_exists(path, spec)


def test_catalogs_of_java_say_what_to_use():
    from pyflink.table.catalog import HiveCatalog, JdbcCatalog

    with pytest.raises(NotImplementedError, match="Read its tables with Spark"):
        HiveCatalog("hive", "default", "/conf")
    with pytest.raises(NotImplementedError, match="CREATE TABLE .. WITH"):
        JdbcCatalog("db", "public", "u", "p", "jdbc:postgresql://host")
