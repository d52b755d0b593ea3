"""The contract test kit runs against every connector: against which one where, and why not where it cannot."""

import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

import funken.connectors
from funken import CollectionSource, DataGeneratorSource
from funken.connectors import RateLimitedSource, Sink, Source
from funken.testing import check_source

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
