"""The keyed job by hand on bare Spark real-time mode: what Funken's own machinery is measured against.

Two source tasks make ``(i % 1000, 1)`` and spread pickled blocks of 2000 by key; two tasks keep a running sum per key in
a dict. No barriers, watermarks, state backend, metrics or errors: the least that a Python pipeline on Spark costs.

usage: bare_spark.py --rate RECORDS_PER_SECOND (0: full load) --seconds S --timeout MS; prints one JSON line
"""

from __future__ import annotations

import argparse
import json
import pickle
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from funken.spark.java import ensure_java
from funken.spark.session import RUNTIME, STATIC

WIDTH, BLOCK = 2, 2000
WARMUP = 2.0
"""What is measured begins so long (s) after the first block."""


def to_batch(target: int, records: list, flush: bool) -> pa.RecordBatch:
    """Return a block as a row, with a filler behind it if it must not wait."""
    rows = [pickle.dumps(records, 5)] + [b""] * flush
    return pa.RecordBatch.from_arrays(
        [pa.array([target] * len(rows), pa.int32()), pa.array(rows, pa.binary())], ["target", "block"]
    )


def source(rate: float, timeout: float, seconds: float):
    """Return the function of the source tasks."""

    def run(carrier: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ended = threading.Event()

        def drain() -> None:
            try:
                for _ in carrier:
                    pass
            finally:
                ended.set()

        threading.Thread(target=drain, daemon=True).start()
        make, key_of = (lambda i: (i % 1000, 1)), (lambda pair: pair[0])
        count, start = 0, time.time()
        flushed, buffers = start, [[] for _ in range(WIDTH)]
        while not ended.is_set():
            now = time.time()
            if now - start > seconds:
                time.sleep(0.01)
                due = 0
            else:
                due = min(int((now - start) * rate / WIDTH) - count, 4000) if rate else 4000
            for _ in range(due):
                record = make(count)
                key = key_of(record)
                target = hash(key) % WIDTH
                count += 1
                buffers[target].append((key, now, record))
                if len(buffers[target]) >= BLOCK:
                    yield to_batch(target, buffers[target], flush=False)
                    buffers[target] = []
            if now - flushed >= timeout:
                flushed = now
                for target, records in enumerate(buffers):
                    if records or not due:
                        yield to_batch(target, records, flush=True)
                        buffers[target] = []
            if due < 4000:
                time.sleep(0.001)

    return run


def reducer(log: str):
    """Return the function of the keyed tasks."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        join = lambda a, b: (a[0], a[1] + b[1])  # noqa: E731 - an opaque lambda is what is measured
        state, count, latencies, begin, first, last = {}, 0, [], 0.0, 0.0, 0.0
        for batch in batches:
            for data in batch.column(1).to_pylist():
                records = pickle.loads(data) if data else None
                if not records:
                    continue
                last = time.time()
                begin = begin or last + WARMUP
                if last >= begin:
                    first = first or last
                    latencies.append((last - records[0][1]) * 1000)
                for key, _, record in records:
                    old = state.get(key)
                    state[key] = record if old is None else join(old, record)
                if first and last > first:  # as many as came between the first block and the last
                    count += len(records)
        with Path(log).open("a") as out:
            line = {"count": count, "seconds": last - first, "latencies": latencies, "keys": len(state)}
            out.write(json.dumps(line) + "\n")
        yield pa.RecordBatch.from_arrays([pa.array([count])], ["n"])

    return run


def main() -> None:
    """Run and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--timeout", type=float, default=5)
    args = parser.parse_args()
    ensure_java()
    builder = SparkSession.builder.master("local[12]").config("spark.ui.enabled", "false")
    memory = {f"spark.shuffle.streaming.{side}MaxMemory": "262144" for side in ("writer", "reader")}
    for key, value in {**STATIC, **RUNTIME, **memory, "spark.ui.showConsoleProgress": "false"}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    jvm = spark._jvm
    stream = jvm.org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream.apply(
        spark._jsparkSession, WIDTH, jvm.org.apache.spark.sql.Encoders.STRING()
    )
    log = tempfile.mktemp()
    plan = (
        DataFrame(stream.toDF(), spark)
        .mapInArrow(source(args.rate, args.timeout / 1000, args.seconds + WARMUP), "target int, block binary")
        .repartitionById(WIDTH, sql.col("target"))
        .mapInArrow(reducer(log), "n long")
    )
    with tempfile.TemporaryDirectory() as folder:
        query = (
            plan.writeStream.format("noop").outputMode("update").trigger(realTime=f"{int(args.seconds + WARMUP + 12)} seconds")
            .option("checkpointLocation", folder).start()
        )  # fmt: skip
        deadline = time.time() + args.seconds + 60
        while time.time() < deadline and (not Path(log).exists() or len(Path(log).read_text().splitlines()) < WIDTH):
            time.sleep(0.2)
        query.stop()
    lines = [json.loads(line) for line in Path(log).read_text().splitlines()]
    latencies = sorted(value for line in lines for value in line["latencies"])
    assert sum(line["keys"] for line in lines) == 1000, "wrong result: keys are missing"
    figures = {
        "records_per_s": sum(line["count"] / line["seconds"] for line in lines),
        **{f"p{q}": latencies[min(len(latencies) - 1, int(len(latencies) * q / 100))] for q in (50, 90, 99)},
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
