"""Frames of files, connectors and catalogs, and back; options as parameters."""

import json

import pandas as pd
import pytest

import funken.dataframe as ff
from funken.dataframe.options import file_sink_options, kafka_sink_options, kafka_source_options
from funken.errors import FunkenError

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


@pytest.mark.parametrize(
    ("error", "says", "make"),
    [
        (TypeError, "path must be a string", lambda: ff.read_json(1, schema=SCHEMA)),
        (ValueError, "path must not be empty", lambda: ff.read_json("", schema=SCHEMA)),
        (TypeError, "must have a DataType", lambda: ff.read_json("/p", schema={"a": "INT"})),
        (ValueError, "must not be empty", lambda: ff.read_json("/p", schema={})),
        (ValueError, "parameter of its own", lambda: ff.read_json("/p", schema=SCHEMA, connector_options={"path": "/q"})),
        (ValueError, "format_options", lambda: ff.read_json("/p", schema=SCHEMA, connector_options={"json.a": "b"})),
        (ValueError, "given twice", lambda: ff.read_json("/p", schema=SCHEMA, format_options={"a": "b", "json.a": "b"})),
        (ValueError, "conflicting", lambda: ff.read_json("/p", schema=SCHEMA, ignore_parse_errors=True,
                                                         format_options={"ignore-parse-errors": "false"})),
        (ValueError, "first argument", lambda: ff.read_generic("print", schema=SCHEMA, options={"connector": "a"})),
        (TypeError, "text with a text", lambda: ff.read_generic("print", schema=SCHEMA, options={"a": 1})),
        (ValueError, "connector must not be empty", lambda: ff.read_generic("", schema=SCHEMA, options={})),
        (TypeError, "must be a SQL expression", lambda: ff.read_json("/p", schema=SCHEMA, computed_columns={"a": 1})),
        (TypeError, "tuple", lambda: ff.read_json("/p", schema=SCHEMA, watermark="ts")),
        (FunkenError, "datagn", lambda: ff.read_generic("datagn", schema=SCHEMA, options={}).collect()),
        (ValueError, "mode must be", lambda: people().write_json("/p", mode="replace")),
        (TypeError, "has no parameter 'rolling'", lambda: people().write_json("/p", rolling="1")),
        (TypeError, "must be a StatementSet", lambda: people().write_json("/p", statement_set=1)),
        (ValueError, "duplicate", lambda: people().write_json("/p", partition_by=["id", "id"])),
    ],
)  # fmt: skip
def test_a_mistake_in_a_read_or_write(stream_tables, error, says, make):
    with pytest.raises(error, match=says):
        make()


def test_options_of_files():
    parameters = {"rolling_policy_file_size": "1mb", "sink_parallelism": 2, "auto_compaction": True,
                  "connector_options": {"a": "b"}, "format_options": {"c": "d", "parquet.e": "f"}}  # fmt: skip

    assert file_sink_options("/p", "parquet", {"compression": "GZIP", "utc-timezone": None}, parameters) == {
        "path": "/p", "format": "parquet", "a": "b", "sink.rolling-policy.file-size": "1mb", "sink.parallelism": "2",
        "auto-compaction": "true", "parquet.c": "d", "parquet.e": "f", "parquet.compression": "GZIP",
    }  # fmt: skip


def test_options_of_kafka():
    source = kafka_source_options(
        "host:9092",
        {"topic": ["a", "b"], "startup_mode": "specific-offsets", "startup_specific_offsets": {0: 10, 1: 20},
         "key_format": "json", "key_fields": ["id"], "key_format_options": {"x": "y"}, "properties": {"client.id": "me"}},
    )  # fmt: skip
    assert source == {
        "properties.bootstrap.servers": "host:9092", "topic": "a;b", "value.format": "json", "key.format": "json",
        "key.fields": "id", "key.json.x": "y", "properties.client.id": "me", "scan.startup.mode": "specific-offsets",
        "scan.startup.specific-offsets": "partition:0,offset:10;partition:1,offset:20",
    }  # fmt: skip
    sink = kafka_sink_options("host:9092", "t", {"delivery_guarantee": "exactly-once", "transactional_id_prefix": "p"})
    assert sink["sink.transactional-id-prefix"] == "p"
    for error, says, make in (
        (ValueError, "either 'topic' or 'topic_pattern'", lambda: kafka_source_options("h", {})),
        (
            ValueError,
            "transactional_id_prefix",
            lambda: kafka_sink_options("h", "t", {"delivery_guarantee": "exactly-once"}),
        ),
        (TypeError, "has no parameter 'offset'", lambda: kafka_source_options("h", {"topic": "t", "offset": 1})),
        (ValueError, "conflicting", lambda: kafka_sink_options("h", "t", {"connector_options": {"topic": "u"}})),
    ):
        with pytest.raises(error, match=says):
            make()
