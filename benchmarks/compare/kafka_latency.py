"""Runner: Funken from Kafka to Kafka at a fixed rate; latency from a producer to a ``read_committed`` consumer.

Producer and consumer are processes of their own. A message carries when it was due (us), and each result that of its message.
Until the first result is there, one message a second is sent: what would wait for the start of the job is not measured.
With exactly-once delivery a result is visible when its checkpoint is complete, so the interval between checkpoints is in the
latency.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from pathlib import Path

import kafka_common
from funken_python import environment
from protocol import LatestLine, Reading, Spec, answer, bucket_of, spec, watch

from funken import StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors import DeliveryGuarantee, JsonSchema
from funken.connectors.kafka import KafkaOffsetsInitializer, KafkaRecordSerializationSchema, KafkaSink, KafkaSource

GUARANTEES = {"at-least-once": DeliveryGuarantee.AT_LEAST_ONCE, "exactly-once": DeliveryGuarantee.EXACTLY_ONCE}


def build(env: StreamExecutionEnvironment, guarantee: str, come: str, go: str) -> None:
    """Add the program."""
    servers = kafka_common.servers()
    builder = KafkaSource.builder().set_bootstrap_servers(servers).set_topics(come)
    builder = builder.set_starting_offsets(KafkaOffsetsInitializer.earliest()).set_value_only_deserializer(JsonSchema())
    orders = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "orders").uid("orders")
    triples = orders.map(lambda order: (order["user"], 1, order["at"])).key_by(lambda triple: triple[0])
    counts = triples.reduce(lambda a, b: (a[0], a[1] + b[1], b[2])).uid("counts")
    serializer = KafkaRecordSerializationSchema.builder().set_topic(go).set_value_serialization_schema(JsonSchema())
    sink = KafkaSink.builder().set_bootstrap_servers(servers).set_record_serializer(serializer.build())
    sink = sink.set_delivery_guarantee(GUARANTEES[guarantee]).set_transactional_id_prefix(f"bench-{go}")
    counts.sink_to(sink.build()).uid("results")


def message(number: int, due: float, keys: int) -> tuple[str, int]:
    """Return a message that is due at a time (s), and its partition."""
    text = f'{{"at": {int(due * 1e6)}, "user": "user-{number % keys}", "note": "'
    return text + "x" * (kafka_common.BYTES - len(text) - 2) + '"}', number % keys % kafka_common.PARTITIONS


def produce(topic: str, rate: float, keys: int, results: Path) -> None:
    """Send messages at a rate, from the first result on, until killed."""
    from confluent_kafka import Producer  # noqa: PLC0415 - a part of the extra

    producer = Producer({"bootstrap.servers": kafka_common.servers(), "linger.ms": 1})

    def send(number: int, due: float) -> None:
        value, partition = message(number, due, keys)
        while True:
            try:
                producer.produce(topic, value, partition=partition)
                return
            except BufferError:  # the broker stalls; how late the messages are then is in their latency
                producer.poll(0.01)

    sent = 0
    while not results.exists() or not results.stat().st_size:
        send(sent, time.time())
        sent += 1
        producer.poll(1)
    start, made = time.time(), 0
    while True:
        due = int((time.time() - start) * rate)
        for number in range(made, due):
            send(number, start + number / rate)
        made = max(made, due)
        producer.poll(0.001)


def consume(topic: str, path: str) -> None:
    """Write down how many results there are and how late they came, until killed."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition  # noqa: PLC0415 - the same

    settings = {
        "group.id": "bench",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 5,
    }
    consumer = Consumer({"bootstrap.servers": kafka_common.servers(), **settings})
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(kafka_common.PARTITIONS)])
    count, written, latency = 0, 0.0, dict[int, int]()
    with open(path, "w") as file:
        while True:
            messages = consumer.consume(1000, 0.005)
            now = time.time()
            for message in messages:
                if message.error() is None:
                    count += 1
                    bucket = bucket_of(int(now * 1e6) - json.loads(message.value())[2])
                    latency[bucket] = latency.get(bucket, 0) + 1
            if messages and now - written > 0.1:
                written = now
                print(json.dumps({"t": now, "count": count, "latency": latency}), file=file, flush=True)


def main() -> None:
    """Measure; that nothing is lost is the affair of ``make exactly-once``."""
    wanted = spec()
    if sys.argv[2:]:
        if sys.argv[2] == "produce":
            produce(sys.argv[3], wanted.rate, wanted.keys, Path(sys.argv[4]))
        consume(sys.argv[3], sys.argv[4])
    from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415 - the same

    come, go = (f"latency-{part}-{uuid.uuid4().hex[:8]}" for part in ("in", "out"))
    admin = AdminClient({"bootstrap.servers": kafka_common.servers()})
    for made in admin.create_topics([NewTopic(topic, kafka_common.PARTITIONS, 1) for topic in (come, go)]).values():
        made.result(60)
    plain = Spec(**{**wanted.__dict__, "options": {}, "buffer_timeout": 5})
    env = environment(plain, "measured")
    build(env, wanted.options["guarantee"], come, go)
    client = env.execute_async("kafka latency")
    path = f"{wanted.folder}/latency.jsonl"
    command = [sys.executable, "-W", "ignore", __file__, wanted.dump()]
    others = [
        subprocess.Popen([*command, "produce", come, path]),
        subprocess.Popen([*command, "consume", go, path]),
    ]
    latest = LatestLine(path)

    def read() -> Reading | None:
        if client.get_job_execution_result().done():
            client.get_job_execution_result().result()
        line = latest()
        return line and (line["t"], line["count"], {int(bucket): n for bucket, n in line["latency"].items()})

    try:
        answer(watch(read, wanted))
    finally:
        for process in others:
            process.kill()
        for process in others:
            process.wait(30)
        client.cancel().result(60)


if __name__ == "__main__":
    main()
