"""Runner: Spark Structured Streaming from Kafka, in micro-batches that follow one another without a pause."""

from __future__ import annotations

import time
from dataclasses import replace

import environments
import kafka_common
import pandas as pd
from protocol import Reading, Spec, answer, spec, watch
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from spark_streaming import session

ROWS = 400_000
SCHEMA = "id long, user string, price double, note string"


def build(spark: SparkSession, topic: str, rows: int) -> DataFrame:
    """Make the program."""
    options = {"kafka.bootstrap.servers": kafka_common.servers(), "subscribe": topic, "startingOffsets": "earliest"}
    messages = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=rows).load()
    orders = messages.select(sql.from_json(sql.col("value").cast("string"), SCHEMA).alias("order"))
    return orders.groupBy("order.user").agg(sql.count("*").alias("n"))


def check(spark: SparkSession, wanted: Spec) -> int:
    """Compare the last counts with the oracle."""
    newest: dict[str, int] = {}

    def keep(frame: DataFrame, batch: int) -> None:
        newest.update((user, n) for user, n in frame.collect())

    writing = build(spark, kafka_common.CHECKED, 5000).writeStream.foreachBatch(keep).outputMode("update")
    query = writing.option("checkpointLocation", f"{wanted.folder}/checked").trigger(availableNow=True).start()
    if not query.awaitTermination(120):
        raise SystemExit("the check does not end")
    return kafka_common.check_last(newest, wanted.keys)


def main() -> None:
    """Check, then measure."""
    wanted = spec()
    jars = ",".join(str(path) for path in environments.kafka_jars("spark"))
    spark = session(replace(wanted, options={"spark.jars": jars}))
    number = check(spark, wanted)
    stream = build(spark, kafka_common.MEASURED, ROWS).writeStream.format("noop").outputMode("update")
    query = stream.option("checkpointLocation", f"{wanted.folder}/measured").start()
    rows: dict[int, int] = {}

    def read() -> Reading | None:
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        ended = 0.0
        for progress in query.recentProgress:
            rows[progress["batchId"]] = progress["numInputRows"]
            start = pd.Timestamp(progress["timestamp"]).timestamp()
            ended = max(ended, start + progress["durationMs"]["triggerExecution"] / 1000)
        return (ended or time.time(), sum(rows.values()), {}) if rows else None

    try:
        answer({"checked": number, **watch(read, wanted, kafka_common.total())})
    finally:
        query.stop()
        spark.stop()


if __name__ == "__main__":
    main()
