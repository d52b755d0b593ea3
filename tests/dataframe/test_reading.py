"""Frames of files, connectors and catalogs, and back; options as parameters."""

import inspect
import json

import pandas as pd
import pytest

import funken.dataframe as ff

SCHEMA = {"id": ff.DataType.int64(), "name": ff.DataType.string()}


def people():
    return ff.from_records([(1, "ann"), (2, "bob"), (3, "ann")], schema=["id", "name"])


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_files_come_back(tables, tmp_path, form):
    path = str(tmp_path / "people")
    getattr(people(), f"write_{form}")(path, partition_by="name")

    read = getattr(ff, f"read_{form}")(path, schema=SCHEMA, partition_by="name", computed_columns={"twice": "id * 2"})

    assert rows(read) == [(1, "ann", 2), (2, "bob", 4), (3, "ann", 6)]
    assert {folder.name for folder in (tmp_path / "people").iterdir() if folder.is_dir()} >= {"name=ann", "name=bob"}


def test_parquet_is_read_by_pandas(tables, tmp_path):
    people().write_parquet(str(tmp_path / "out"), compression="GZIP")

    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file() and not file.name.startswith((".", "_"))]
    assert sorted(pd.concat(map(pd.read_parquet, files))["id"]) == [1, 2, 3]


def test_a_statement_set_writes_in_one_job(tables, tmp_path):
    tables.execute_sql(
        f"CREATE TABLE sink (id BIGINT, name STRING) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/csv', "
        "'format' = 'csv')"
    )
    both = ff.create_statement_set()
    people().filter("id > 1").write_json(str(tmp_path / "json"), statement_set=both)
    people().filter("id > 1").write_catalog_table("sink", statement_set=both)
    assert not (tmp_path / "json").exists()

    both.execute().wait()

    lines = [line for file in (tmp_path / "json").glob("part*") for line in file.read_text().splitlines()]
    assert sorted(json.loads(line)["id"] for line in lines) == [2, 3]
    assert rows(ff.read_catalog_table("sink")) == [(2, "bob"), (3, "ann")]


def test_a_catalog_table_takes_columns_and_a_watermark(tables, tmp_path):
    tables.execute_sql(
        f"CREATE TABLE t (id BIGINT, name STRING) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    read = ff.read_catalog_table("t", computed_columns={"ts": "TO_TIMESTAMP_LTZ(id, 3)"}, watermark=("ts", "ts"))

    assert "*ROWTIME*" in str(read)
    assert ff.read_catalog_table("t").columns == ["id", "name"]
    tables.create_temporary_view("v", people().to_table())
    with pytest.raises(ValueError, match="is a view"):
        ff.read_catalog_table("v", watermark=("id", "id"))
    with pytest.raises(ValueError, match="nothing"):
        ff.read_catalog_table("nothing")


def written(monkeypatch, write):
    """The options of the table that a write would write."""
    targets = []
    monkeypatch.setattr(ff.DataFrame, "_insert", lambda self, target, *others: targets.append(target))
    write(people())
    return dict(targets[0].options)


def read(monkeypatch, tables, make):
    """The options of the table that a read would read."""
    targets = []
    monkeypatch.setattr(tables, "from_descriptor", lambda target: targets.append(target) or people().to_table())
    make()
    return dict(targets[0].options)


def test_options_of_files(stream_tables, monkeypatch):
    found = written(
        monkeypatch,
        lambda frame: frame.write_parquet(
            "/p", compression="GZIP", rolling_policy_file_size="1mb", sink_parallelism=2, auto_compaction=True,
            sink_shuffle_by_partition=False, connector_options={"a": "b"}, format_options={"c": "d", "parquet.e": "f"},
        ),
    )  # fmt: skip

    assert found == {
        "connector": "filesystem", "path": "/p", "format": "parquet", "a": "b", "sink.rolling-policy.file-size": "1mb",
        "sink.parallelism": "2", "auto-compaction": "true", "sink.shuffle-by-partition.enable": "false", "parquet.c": "d",
        "parquet.e": "f", "parquet.compression": "GZIP",
    }  # fmt: skip


def test_options_of_topics_that_are_read(stream_tables, monkeypatch):
    def topic(**options):
        return read(monkeypatch, stream_tables, lambda: ff.read_kafka("host:9092", schema=SCHEMA, **options))

    assert topic(
        topic=["a", "b"], startup_mode="specific-offsets", startup_specific_offsets={0: 10, 1: 20}, key_format="json",
        key_fields=["id"], key_format_options={"x": "y"}, key_fields_prefix="k_", value_fields_include="EXCEPT_KEY",
        properties={"client.id": "me", "properties.retries": "3"}, bounded_mode="timestamp", bounded_timestamp_millis=7,
        group_id="g", topic_partition_discovery_interval=None, options={"scan.parallelism": "3"},
    ) == {
        "connector": "kafka", "properties.bootstrap.servers": "host:9092", "topic": "a;b", "value.format": "json",
        "key.format": "json", "key.fields": "id", "key.json.x": "y", "key.fields-prefix": "k_",
        "value.fields-include": "EXCEPT_KEY", "properties.client.id": "me", "properties.retries": "3",
        "properties.group.id": "g", "scan.startup.mode": "specific-offsets", "scan.bounded.mode": "timestamp",
        "scan.startup.specific-offsets": "partition:0,offset:10;partition:1,offset:20", "scan.parallelism": "3",
        "scan.bounded.timestamp-millis": "7", "scan.topic-partition-discovery.interval": "0",
    }  # fmt: skip
    assert topic(topic_pattern="a.*", format="json", value_format="csv", format_options={"csv.x": "y"}) == {
        "connector": "kafka", "properties.bootstrap.servers": "host:9092", "topic-pattern": "a.*", "value.format": "csv",
        "value.csv.x": "y", "scan.startup.mode": "group-offsets", "scan.topic-partition-discovery.interval": "5 min",
    }  # fmt: skip


def test_options_of_a_topic_that_is_written(stream_tables, monkeypatch):
    found = written(
        monkeypatch,
        lambda frame: frame.write_kafka(
            "host:9092", topic="t", delivery_guarantee="exactly-once", transactional_id_prefix="p", partitioner="fixed",
            sink_parallelism=3, key_format="json", key_fields=["id", "name"], options={"topic": "t"},
        ),
    )  # fmt: skip

    assert found == {
        "connector": "kafka", "properties.bootstrap.servers": "host:9092", "topic": "t", "value.format": "json",
        "key.format": "json", "key.fields": "id;name", "value.fields-include": "ALL", "sink.partitioner": "fixed",
        "sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "p", "sink.parallelism": "3",
    }  # fmt: skip


def test_parameters_are_in_the_signature():
    parameters = inspect.signature(ff.read_kafka).parameters
    assert list(parameters)[:2] == ["bootstrap_servers", "schema"]
    assert parameters["schema"].kind is inspect.Parameter.KEYWORD_ONLY
    for write in (ff.DataFrame.write_json, ff.DataFrame.write_parquet, ff.DataFrame.write_kafka):
        assert inspect.signature(write).parameters["sink_parallelism"].default is None
