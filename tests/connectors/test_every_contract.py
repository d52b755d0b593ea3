"""The contract test kit runs against every connector: against which one where, and why not where it cannot."""

import inspect
import pkgutil
import re
import sqlite3
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest

import funken.connectors
from funken import (
    CollectionSource,
    DataGeneratorSource,
    Encoder,
    FileSink,
    FileSource,
    InvalidProgram,
    StreamFormat,
)
from funken.connectors import DeliveryGuarantee, RateLimitedSource, Sink, Source
from funken.connectors.elasticsearch import ElasticsearchSink
from funken.connectors.kafka.enumerator import Subscription
from funken.connectors.kinesis import KinesisSource
from funken.connectors.mongodb import MongoSource
from funken.connectors.pulsar import PulsarSource
from funken.connectors.redis import RedisStreamSource
from funken.connectors.sql import SqliteDatabase, SqlSink, SqlSource
from funken.testing import check_source, local

TESTS = Path(__file__).parents[1]
HERE = "connectors/test_every_contract.py"
TESTED = {
    "CollectionSource": [HERE],
    "DataGeneratorSource": [HERE],
    "DeltaSink": ["connectors/delta/test_delta.py"],
    "DeltaSource": ["connectors/delta/test_delta.py"],
    "ElasticsearchSink": ["connectors/elasticsearch/test_elasticsearch.py"],
    "FileSink": ["connectors/files/test_formats.py", "connectors/files/test_compaction.py"],
    "FileSource": ["connectors/files/test_formats.py", "connectors/files/test_columns.py"],
    "HttpSource": ["connectors/http/test_http.py"],
    "HybridSource": ["connectors/test_hybrid.py"],
    "IcebergSink": ["connectors/iceberg/test_iceberg.py"],
    "IcebergSource": ["connectors/iceberg/test_iceberg.py"],
    "KafkaSink": ["connectors/kafka/test_sink.py", "services/test_kafka_sink.py"],
    "KafkaSource": ["connectors/kafka/test_source.py", "services/test_kafka_source.py"],
    "KinesisSink": ["services/test_kinesis.py"],
    "KinesisSource": ["services/test_kinesis.py"],
    "MongoSink": ["services/test_mongodb.py"],
    "MongoSource": ["services/test_mongodb.py"],
    "MySqlCdcSource": ["services/test_mysql_changes.py"],
    "NumberSequenceSource": ["testing/test_contracts.py"],
    "PostgresCdcSource": ["services/test_postgresql_changes.py"],
    "PostgresSink": ["services/test_postgresql_sink.py"],
    "PulsarSink": ["services/test_pulsar.py"],
    "PulsarSource": ["services/test_pulsar.py"],
    "RMQSink": ["services/test_rabbitmq.py"],
    "RMQSource": ["services/test_rabbitmq.py"],
    "RateLimitedSource": [HERE],
    "RedisSink": ["services/test_redis.py"],
    "RedisStreamSource": ["services/test_redis.py"],
    "SqlSink": ["connectors/sql/test_sql.py"],
    "SqlSource": ["connectors/sql/test_sql.py"],
    "WebhookSink": ["connectors/http/test_http.py"],
}
CANNOT = {
    "DiscardingSink": "there is nothing to be seen of it",
    "FirehoseSink": "it is KinesisSink with another request; test_kinesis.py has a job that writes with it",
    "RowsSource": "Spark passes the rows to the tasks, and a micro-batch is what a checkpoint covers (tests/spark)",
    "SocketSource": "what a peer has sent cannot be read again",
    "SparkSink": "its batch is a whole checkpoint, of which the kit also commits parts; test_spark_sink.py kills and repeats it",
    "StagingSink": "it is FileSink with Parquet in a folder for Spark",
    "WebSocketSource": "what a peer has sent cannot be read again",
}


def connectors():
    modules = [
        import_module(each.name) for each in pkgutil.walk_packages(funken.connectors.__path__, "funken.connectors.")
    ]
    classes = {one for module in modules for _, one in inspect.getmembers(module, inspect.isclass)}
    return {
        one.__name__
        for one in classes
        if issubclass(one, Source | Sink) and one not in (Source, Sink) and one.__name__[0] != "_"
    }


def test_each_connector_is_tested_or_has_a_reason():
    assert connectors() - TESTED.keys() - CANNOT.keys() == set()
    assert (TESTED.keys() | CANNOT.keys()) - connectors() == set()


@pytest.mark.parametrize("name", TESTED)
def test_the_tests_are_there(name):
    kit = "check_sink(" if name.endswith("Sink") else "check_source("
    for path in TESTED[name]:
        text = (TESTS / path).read_text()
        assert kit in text, path
        assert re.search(rf"\b{name}\b", text), path


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (CollectionSource(list(range(50))), range(50)),
        (DataGeneratorSource(lambda index: index * 2, 50), range(0, 100, 2)),
        (RateLimitedSource(DataGeneratorSource(lambda index: index, 50), 200_000), range(50)),
    ],
)
def test_sources_without_a_server(source, expected):
    check_source(source, expected, seeds=20)


def test_a_text_is_no_server_no_guarantee_and_no_tuple():
    shop = SqliteDatabase("shop.db")
    wrong = {
        "SqlSource.database needs a SqlDatabase, but got 'sqlite:///shop.db'": SqlSource(
            "sqlite:///shop.db", "SELECT 1", "id"
        ),
        "SqlSink.guarantee needs a DeliveryGuarantee.* Give DeliveryGuarantee.EXACTLY_ONCE": SqlSink(
            shop, "t", ("id",), guarantee="exactly-once"
        ),
        r"SqlSink.columns is a tuple, but got the text 'id'. Write \('id',\)": SqlSink(shop, "t", "id"),
        "RedisStreamSource.server needs a RedisServer": RedisStreamSource("redis://localhost", ("s",)),
        "MongoSource.server needs a MongoServer": MongoSource("mongodb://localhost", "d", "c"),
        "KinesisSource.connection needs a KinesisConnection": KinesisSource("s", ("t",)),
        "PulsarSource.connection needs a PulsarConnection": PulsarSource("pulsar://localhost", ("t",), "s"),
        "ElasticsearchSink.server needs an ElasticsearchServer": ElasticsearchSink("http://localhost:9", print),
    }
    for message, connector in wrong.items():
        stream = local([1])
        end = stream.sink_to if isinstance(connector, Sink) else stream.get_execution_environment().from_source
        with pytest.raises(TypeError, match=message):
            end(connector)
    local([1]).sink_to(SqlSink(shop, "t", ("id",), guarantee=DeliveryGuarantee.EXACTLY_ONCE))


REFUSED = {
    "a list of paths": (
        lambda: FileSource.for_format(StreamFormat.text_line_format(), ["a", "b"]),
        "of a list: *paths",
    ),
    "a text as encoder": (lambda: FileSink.for_row_format("out", "utf-8"), "needs an Encoder, but got 'utf-8'"),
    "a count that is a text": (lambda: DataGeneratorSource(int, "3"), "a generator cannot make '3' records"),
    "topics in one text": (lambda: Subscription(topics=("a,b",)), "set_topics('a', 'b')"),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_in_an_argument_is_answered(mistake):
    make, message = REFUSED[mistake]
    with pytest.raises((InvalidProgram, TypeError), match=re.escape(message)):
        make()


def test_a_path_of_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))

    assert FileSink.for_row_format("~/out", Encoder.simple_string_encoder()).build().base_path == f"{tmp_path}/out"


def test_a_query_may_end_with_a_semicolon(tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as db, db:
        db.execute("CREATE TABLE items (id INTEGER PRIMARY KEY)")
        db.execute("INSERT INTO items VALUES (7)")
    source = SqlSource(SqliteDatabase(str(tmp_path / "shop.db")), "SELECT id FROM items; ", "id")

    assert local([]).get_execution_environment().from_source(source).execute_and_collect(limit=2) == [(7,)]
