"""Spark's Kafka source in real-time mode, through ``mapInArrow`` into a Python function, beside Funken's reader: rows/s and CPU.

``python benchmarks/kafka_carrier.py --records 2000000 --batch 10000``. It starts a broker of its own; Spark's connector comes
from Maven Central. The function counts rows, and with ``--parse`` it parses them with Arrow, as Funken does. The CPU is that of
all processes but the broker. See decision 0044.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks" / "compare")]
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

import environments  # noqa: E402 - not an installed package
import kafka_common  # noqa: E402
from confluent_kafka import Producer  # noqa: E402

from funken import DiscardingSink, StreamExecutionEnvironment, Types, WatermarkStrategy  # noqa: E402
from funken.connectors import ByteArraySchema, JsonSchema  # noqa: E402
from funken.connectors.kafka import KafkaOffsetsInitializer, KafkaSource  # noqa: E402
from funken.spark.java import ensure_java  # noqa: E402
from tests.support.kafka import KafkaBroker, jars  # noqa: E402

ROW = Types.ROW_NAMED(["id", "user", "price", "note"], [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.STRING()])
PARTITIONS, LIMIT_S, QUIET_S = 4, 180.0, 5.0


def produce(broker: KafkaBroker, count: int) -> str:
    """Write messages of 150 bytes of JSON; return the topic."""
    topic: str = broker.topic(partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 20, "batch.num.messages": 5000})
    for number in range(count):
        key, value = kafka_common.message(number, 1000)
        while True:
            try:
                producer.produce(topic, value, key=key, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0
    return topic


def cpu_seconds() -> float:
    """Return the CPU time of this process and of all that came of it, but for the broker."""
    found: dict[int, tuple[int, float]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            if b"kafka.Kafka" not in (stat.parent / "cmdline").read_bytes():
                found[int(stat.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            continue  # it has ended
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        process = waiting.pop()
        total += found[process][1] if process in found else 0.0
        waiting += [child for child, (parent, _) in found.items() if parent == process]
    return total


def counter(folder: str, parse: bool) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function of the tasks, which notes how many rows there were."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa  # noqa: PLC0415 - in the workers
        from pyarrow import json  # noqa: PLC0415

        with open(f"{folder}/{os.getpid()}.rows", "ab", buffering=0) as out:
            for batch in batches:
                if parse:
                    json.read_json(io.BytesIO(b"\n".join(batch.column(0).to_pylist())))
                out.write(b"%d\n" % batch.num_rows)
        yield pa.RecordBatch.from_arrays([pa.array([0])], ["n"])

    return run


def of_spark(broker: KafkaBroker, topic: str, count: int, batch: int, parse: bool) -> None:
    """Read the topic in real-time mode until there are no more rows; those of a batch that is not full do not come."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    ensure_java()
    conf = {
        "spark.jars": ",".join(map(str, environments.kafka_jars("spark"))),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(batch),
        "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
        "spark.sql.adaptive.enabled": "false",
    }
    builder = SparkSession.builder.master(f"local[{PARTITIONS + 2}]")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    options = {"kafka.bootstrap.servers": broker.servers, "subscribe": topic, "startingOffsets": "earliest"}
    with tempfile.TemporaryDirectory() as folder:
        rows = spark.readStream.format("kafka").options(**options).load().select("value")
        writing = rows.mapInArrow(counter(folder, parse), "n long").writeStream.format("noop").outputMode("update")
        writing = writing.option("checkpointLocation", f"{folder}/checkpoint")
        query = writing.trigger(realTime="365 days").start()  # type: ignore[call-overload]  # missing in the overloads of 4.3
        marks: list[tuple[float, int, float]] = []
        begin = time.perf_counter()
        while query.isActive and time.perf_counter() - begin < LIMIT_S:
            time.sleep(0.2)
            seen = sum(sum(map(int, each.read_text().split())) for each in Path(folder).glob("*.rows"))
            marks.append((time.perf_counter(), seen, cpu_seconds()))
            if seen == count or (seen and seen == marks[max(0, len(marks) - int(QUIET_S / 0.2))][1]):
                break
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        query.stop()
    spark.stop()
    total = marks[-1][1]
    (at, seen, cpu) = next(mark for mark in marks if mark[1])
    (end, _, used) = next(mark for mark in marks if mark[1] == total)
    read = max(1, total - seen)
    print(
        f"Spark in real-time mode, {batch} rows a batch: {read / (end - at):,.0f} rows/s, "
        f"{(used - cpu) / read * 1e6:.2f} us of CPU a row; {total:,} of {count:,} came"
    )


def of_funken(broker: KafkaBroker, topic: str, count: int, parse: bool) -> None:
    """Read the topic in this process, by one task."""
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    builder = KafkaSource.builder().set_bootstrap_servers(broker.servers).set_topics(topic)
    builder = builder.set_bounded(KafkaOffsetsInitializer.latest())
    source = builder.set_value_only_deserializer(JsonSchema(ROW) if parse else ByteArraySchema()).build()
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows")
    (rows.filter(lambda row: row["price"] >= 0) if parse else rows).sink_to(DiscardingSink())
    wall, cpu = time.perf_counter(), time.process_time()
    env.execute()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"Funken, one task: {count / wall:,.0f} rows/s, {cpu / count * 1e6:.2f} us of CPU a row")


def main() -> None:
    """Measure both."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int, default=1_000_000)
    arguments.add_argument("--batch", type=int, default=10_000, help="rows of a batch of Arrow")
    arguments.add_argument("--parse", action="store_true")
    given = arguments.parse_args()
    libraries, missing = jars()
    if libraries is None:
        sys.exit(missing)
    with tempfile.TemporaryDirectory() as folder:
        broker = KafkaBroker(folder, libraries)
        try:
            topic = produce(broker.start(), given.records)
            print(f"load before: {os.getloadavg()[0]:.1f}")
            of_funken(broker, topic, given.records, given.parse)
            of_spark(broker, topic, given.records, given.batch, given.parse)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
