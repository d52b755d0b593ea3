"""Runner: Spark Structured Streaming. Variant ``native``: built-in aggregations; ``transform``: transformWithStateInPandas.

Micro-batches of a fixed size follow one another without a pause; how large they are was tuned per program, and a batch's
rows count when it is done. Spark always keeps a checkpoint, so every figure is one with checkpoints. The native keyed
program gives a key's newest count once a batch, not one result per record: that is less work than the others do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import oracle
import pandas as pd
from protocol import Reading, Spec, answer, spec, unsupported, watch
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from funken.spark.java import ensure_java

ROWS = {("native", "grep"): 5_000_000, ("native", "keyed"): 4_000_000, ("native", "windows"): 4_000_000}
ROWS_OF_TRANSFORM = 500_000
CHECK_BATCHES = 5
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class RunningCount(StatefulProcessor):
    """Counts a key's records; one result per record, a data frame at a time."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        count = self.count.get()[0] if self.count.exists() else 0
        for frame in rows:
            yield pd.DataFrame({"k": key[0], "n": range(count + 1, count + len(frame) + 1)})
            count += len(frame)
        self.count.update((count,))

    def close(self) -> None:
        pass


def session(wanted: Spec) -> SparkSession:
    """Start Spark on as many cores as the others have subtasks."""
    ensure_java()
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(wanted.parallelism),
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "2g",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        **({"spark.sql.streaming.stateStore.providerClass": ROCKSDB} if wanted.variant == "transform" else {}),
        **wanted.options,
    }
    builder = SparkSession.builder.master(f"local[{wanted.parallelism}]")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def build(spark: SparkSession, wanted: Spec, rows: int, per_ms: int) -> DataFrame:
    """Make the program."""
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    numbers = numbers.option("numPartitions", wanted.parallelism).load()
    value = sql.col("value")
    if wanted.program == "grep":
        text = sql.concat(sql.lit("line "), value.cast("string"), sql.lit(" of the text"))
        return numbers.select(text.alias("line")).filter(sql.col("line").contains("999 "))
    keyed = numbers.select(
        (value % wanted.keys).alias("k"), sql.timestamp_millis((value / per_ms).cast("long")).alias("ts")
    )
    if wanted.variant == "transform":
        return (
            keyed.select("k")
            .groupBy("k")
            .transformWithStateInPandas(RunningCount(), "k long, n long", "append", "None")
        )
    if wanted.program == "keyed":
        return keyed.groupBy("k").agg(sql.count("*").alias("n"))
    windows = keyed.withWatermark("ts", "0 seconds").groupBy("k", sql.window("ts", "1 second"))
    return windows.agg(sql.count("*").alias("n")).select("k", "n", sql.unix_millis("window.end").alias("end"))


def mode(wanted: Spec) -> str:
    """Return the output mode."""
    return "update" if (wanted.variant, wanted.program) == ("native", "keyed") else "append"


def check(spark: SparkSession, wanted: Spec) -> int:
    """Compare the first batches with the oracle; return the number of results."""
    found: dict[int, list[tuple[Any, ...]]] = {}

    def keep(frame: DataFrame, batch: int) -> None:
        if batch <= CHECK_BATCHES:
            found[batch] = [tuple(row) for row in frame.collect()]

    frame = build(spark, wanted, oracle.CHECKED // CHECK_BATCHES, oracle.CHECKED_PER_MS)
    query = frame.writeStream.foreachBatch(keep).outputMode(mode(wanted))
    running = query.option("checkpointLocation", f"{wanted.folder}/checked").start()
    deadline = time.monotonic() + 120
    while len(found) <= CHECK_BATCHES and time.monotonic() < deadline and running.isActive:
        time.sleep(0.05)
    running.stop()
    if running.exception() is not None:
        raise SystemExit(str(running.exception()))
    if wanted.program == "windows":
        closed = [row for rows in found.values() for row in rows if row[2] <= 2000]
        return oracle.check_part(
            "windows", closed, wanted.keys, oracle.CHECKED, oracle.CHECKED_PER_MS, at_least=2 * wanted.keys
        )
    batches = [found.get(n, []) for n in range(CHECK_BATCHES)]
    if mode(wanted) == "update":
        return oracle.check_newest(batches, wanted.keys, oracle.CHECKED // CHECK_BATCHES)
    results = [row[0] if wanted.program == "grep" else row for rows in batches for row in rows]
    return oracle.check(wanted.program, results, wanted.keys)


def main() -> None:
    """Check, then measure."""
    wanted = spec()
    if (
        wanted.stamped
        or wanted.program == "windows-full"
        or (wanted.variant == "transform" and wanted.program != "keyed")
    ):
        unsupported("this program is not written for it")
    spark = session(wanted)
    number = check(spark, wanted)
    rows = ROWS.get((wanted.variant, wanted.program), ROWS_OF_TRANSFORM)
    stream = build(spark, wanted, rows, wanted.per_ms).writeStream.format("noop").outputMode(mode(wanted))
    query = stream.option("checkpointLocation", f"{wanted.folder}/measured").start()

    def read() -> Reading | None:
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        progress = query.lastProgress
        if not progress:
            return None
        start = pd.Timestamp(progress["timestamp"]).timestamp()
        return start + progress["durationMs"]["triggerExecution"] / 1000, rows * (progress["batchId"] + 1), {}

    try:
        answer({"checked": number, **watch(read, wanted)})
    finally:
        query.stop()
        spark.stop()


if __name__ == "__main__":
    main()
