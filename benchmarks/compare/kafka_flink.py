"""Runner: Flink from Kafka. Variant ``sql``: on the JVM alone; ``process`` and ``thread``: PyFlink's functions on rows.

The JVM parses the JSON in all variants, so that PyFlink pays Python's price only for the user's functions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import environments
import flink
import kafka_common
import pyflink_python
from protocol import Spec, answer, spec, watch
from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.connectors.base import Sink
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pyflink.datastream.formats.json import JsonRowDeserializationSchema
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment

QUERY = "SELECT `user`, COUNT(*) AS n FROM orders GROUP BY `user`"


def jars() -> str:
    """Return the connector's jars as Flink wants them."""
    return ";".join(f"file://{path}" for path in environments.kafka_jars("flink"))


def tables(wanted: Spec, topic: str, bounded: bool, metrics: str = "") -> StreamTableEnvironment:
    """Return an environment with the table of orders."""
    conf = Configuration()
    for key, value in (flink.options(wanted, metrics) | {"pipeline.jars": jars()}).items():
        conf.set_string(key, value)
    tables = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment(conf))
    options = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": kafka_common.servers(),
        "scan.startup.mode": "earliest-offset",
        "format": "json",
    }
    if bounded:
        options["scan.bounded.mode"] = "latest-offset"
    text = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    tables.execute_sql(f"CREATE TABLE orders (id BIGINT, `user` STRING, price DOUBLE, note STRING) WITH ({text})")
    return tables


def sql(wanted: Spec) -> None:
    """Check and measure Flink SQL."""
    query = tables(wanted, kafka_common.CHECKED, True).execute_sql(QUERY)
    with query.collect() as found:
        results = [(row[0], row[1]) for row in found if row.get_row_kind().name in ("INSERT", "UPDATE_AFTER")]
    number = kafka_common.check(results, wanted.keys)
    metrics = f"{wanted.folder}/metrics.jsonl"
    env = tables(wanted, kafka_common.MEASURED, False, metrics)
    env.execute_sql("CREATE TABLE nowhere (k STRING, n BIGINT) WITH ('connector' = 'blackhole')")
    running = env.execute_sql(f"INSERT INTO nowhere {QUERY}")
    try:
        answer({"checked": number, **watch(flink.Metrics(metrics, "orders"), wanted, kafka_common.total())})
    finally:
        client = running.get_job_client()
        if client is not None:
            client.cancel()


def build(env: StreamExecutionEnvironment, topic: str, bounded: bool) -> DataStream:
    """Add PyFlink's program."""
    env.add_jars(*jars().split(";"))
    names, kinds = ["id", "user", "price", "note"], [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.STRING()]
    schema = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(names, kinds)).build()
    builder = KafkaSource.builder().set_bootstrap_servers(kafka_common.servers()).set_topics(topic)
    builder = builder.set_starting_offsets(KafkaOffsetsInitializer.earliest()).set_value_only_deserializer(schema)
    if bounded:
        builder = builder.set_bounded(KafkaOffsetsInitializer.latest())
    orders = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "orders")
    pairs = orders.map(lambda order: (order[1], 1), Types.TUPLE([Types.STRING(), Types.LONG()]))
    return pairs.key_by(lambda pair: pair[0], Types.STRING()).reduce(lambda a, b: (a[0], a[1] + b[1]))


def written(folder: Path) -> list[Any]:
    """Return the results that were written as text: ``(user-7,3)``."""
    lines = [line.strip("()") for path in folder.iterdir() for line in path.read_text().splitlines()]
    return [tuple(line.split(",")) for line in lines]


def python(wanted: Spec) -> None:
    """Check and measure PyFlink."""
    sinks, checked = get_gateway().jvm.bench.Sinks, Path(wanted.folder, "checked")
    checked.mkdir()
    env = pyflink_python.environment(wanted)
    build(env, kafka_common.CHECKED, True).sink_to(Sink(sinks.files(str(checked))))
    env.execute("check")
    number = kafka_common.check(written(checked), wanted.keys)
    metrics = f"{wanted.folder}/metrics.jsonl"
    env = pyflink_python.environment(wanted, metrics)
    build(env, kafka_common.MEASURED, False).sink_to(Sink(sinks.discard()))
    client = env.execute_async("kafka")
    try:
        answer({"checked": number, **watch(flink.Metrics(metrics, "Reduce"), wanted, kafka_common.total())})
    finally:
        client.cancel()


if __name__ == "__main__":
    given = spec()
    sql(given) if given.variant == "sql" else python(given)
