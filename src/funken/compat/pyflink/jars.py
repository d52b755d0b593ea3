"""Replacements of Flink's connectors and formats, by the names of their jars."""

from __future__ import annotations

import os
import re

_HERE = "Funken's own {} stands in for it; no jar is needed."
_NONE = (
    "Funken has no connector for it. Write funken.Source or funken.Sink for it, or read it with Spark and from_spark()."
)
_STAND_INS = (
    (r"postgres-cdc", _HERE.format("funken.connectors.postgresql")),
    (r"mysql-cdc", _HERE.format("funken.connectors.mysql (pip install 'funken[mysql]')")),
    (r"-cdc-", _NONE),
    (r"kafka", _HERE.format("KafkaSource and KafkaSink (pip install 'funken[kafka]')")),
    (r"connector-jdbc|postgresql|mysql-connector|mariadb", _HERE.format("JdbcSink, or funken.connectors.sql,")),
    (r"rabbitmq", _HERE.format("RMQSource and RMQSink (pip install 'funken[rabbitmq]')")),
    (r"elasticsearch|opensearch", _HERE.format("Elasticsearch7SinkBuilder (pip install 'funken[elasticsearch]')")),
    (r"kinesis|firehose", _HERE.format("FlinkKinesisConsumer and KinesisStreamsSink (pip install 'funken[kinesis]')")),
    (r"mongodb", _HERE.format("funken.connectors.mongodb (pip install 'funken[mongodb]')")),
    (r"pulsar", _HERE.format("PulsarSource and PulsarSink (pip install 'funken[pulsar]')")),
    (r"iceberg", _HERE.format("funken.connectors.iceberg")),
    (r"delta", _HERE.format("funken.connectors.delta")),
    (r"flink-(sql-)?(json|csv|avro|parquet|orc|protobuf)", _HERE.format("format")),
    (r"connector-files|s3-fs|filesystem|flink-shaded-hadoop|azure-fs|gs-fs", _HERE.format("FileSource and FileSink")),
    (r"flink-python|flink-table|flink-dist|flink-ml|statebackend-rocksdb", "Funken does what it is for in Python."),
    (r"flink-(sql-)?connector-", _NONE),
)


def stand_in(path: str) -> str | None:
    """Return the stand-in for the jar of a connector or format of Flink; ``None`` for another jar.

    >>> stand_in("file:///opt/flink-sql-connector-kafka-3.0.2-1.18.jar")
    "Funken's own KafkaSource and KafkaSink (pip install 'funken[kafka]') stands in for it; no jar is needed."
    >>> stand_in("/opt/flink-connector-cassandra-4.0.jar").split(".")[0], stand_in("/opt/my-functions.jar")
    ('Funken has no connector for it', None)
    """
    name = os.path.basename(path).lower()
    return next((instead for pattern, instead in _STAND_INS if re.search(pattern, name)), None)
