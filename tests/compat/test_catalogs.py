"""Catalogs as PyFlink shows them."""

import datetime

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


def test_databases_partitions_and_modules_are_written_as_pyflink_writes_them(t_env):
    from pyflink.table.catalog import CatalogDatabase, CatalogPartitionSpec

    catalog = t_env.get_catalog("default_catalog")
    catalog.create_database("a", CatalogDatabase.create_instance({}, ""), False)
    assert catalog.list_databases() == ["default_database", "a"]
    assert str(CatalogPartitionSpec({"k": "x", "h": "1"})) == "CatalogPartitionSpec{{k=x, h=1}}"
    assert str(t_env.list_full_modules()[0]) == "ModuleEntry{name='core', used=true}"


def test_the_configuration_of_tables_has_the_options_of_tables_and_of_the_job(t_env):
    config = t_env.get_config()
    config.set("table.exec.state.ttl", "1 h").set("parallelism.default", "3")
    given = config.get_configuration()
    assert (given.get_string("table.exec.state.ttl", ""), given.get_integer("parallelism.default", 0)) == ("1 h", 3)
    given.set_string("table.exec.state.ttl", "2 h").set_string("table.exec.mini-batch.enabled", "true")
    assert (config.get("table.exec.state.ttl"), config.get("table.exec.mini-batch.enabled")) == ("2 h", "true")
    assert given.remove_config("table.exec.state.ttl")
    assert not config.get_configuration().contains_key("table.exec.state.ttl")
    config.set_idle_state_retention(datetime.timedelta(hours=3))
    assert (config.get("table.exec.state.ttl"), len(given.to_dict()) == len(given.key_set())) == ("3 h", True)
