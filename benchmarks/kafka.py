"""Records per second from and to Kafka in this process: JSON of 150 bytes, counted per key.

``python benchmarks/kafka.py --records 400000``. It starts a broker of its own, as ``make test-services`` does.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from funken import DiscardingSink, StreamExecutionEnvironment, Types, WatermarkStrategy  # noqa: E402 - not an installed package
from funken.connectors import ByteArraySchema, DeliveryGuarantee, JsonSchema  # noqa: E402
from funken.connectors.kafka import (  # noqa: E402
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from tests.support.kafka import KafkaBroker, jars  # noqa: E402

ORDER = Types.ROW_NAMED(["id", "user", "price", "note"], [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.STRING()])


def messages(count):
    for number in range(count):
        order = {"id": number, "user": f"user-{number % 1000}", "price": number % 97 / 4, "note": ""}
        text = json.dumps(order)
        yield text[:-2] + "x" * (150 - len(text)) + '"}'


def source_of(broker, topic, schema):
    builder = KafkaSource.builder().set_bootstrap_servers(broker.servers).set_topics(topic)
    return builder.set_bounded(KafkaOffsetsInitializer.latest()).set_value_only_deserializer(schema).build()


def sink_of(broker, topic, guarantee):
    serializer = KafkaRecordSerializationSchema.builder().set_topic(topic).set_value_serialization_schema(JsonSchema())
    builder = KafkaSink.builder().set_bootstrap_servers(broker.servers).set_record_serializer(serializer.build())
    return builder.set_delivery_guarantee(guarantee).set_transactional_id_prefix(f"bench-{topic}").build()


def counted(stream):
    pairs = stream.map(lambda order: (order["user"], 1)).key_by(lambda pair: pair[0])
    return pairs.reduce(lambda one, other: (one[0], one[1] + other[1]))


def measure(name, count, build, folder, interval=None):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    if interval is not None:
        env.enable_checkpointing(interval)
        env.get_configuration().set("execution.checkpointing.dir", f"{folder}/{name.replace(' ', '-')}")
    build(env)
    wall, cpu = time.perf_counter(), time.process_time()
    env.execute(name)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name:45} {count / wall:10,.0f} records/s  {cpu / count * 1e6:6.2f} us CPU a record", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int, default=400_000)
    count = arguments.parse_args().records
    libraries, missing = jars()
    if libraries is None:
        sys.exit(missing)
    no_watermarks = WatermarkStrategy.no_watermarks()
    with tempfile.TemporaryDirectory() as folder:
        broker = KafkaBroker(folder, libraries)
        try:
            broker.start()
            topic = broker.topic(partitions=4)
            broker.produce(topic, messages(count))

            def read(schema, program):
                def build(env):
                    orders = env.from_source(source_of(broker, topic, schema), no_watermarks, "orders")
                    program(orders).sink_to(DiscardingSink())

                return build

            def to_kafka(guarantee):
                def build(env):
                    orders = env.from_source(source_of(broker, topic, JsonSchema()), no_watermarks, "orders")
                    counted(orders).sink_to(sink_of(broker, broker.topic(partitions=4), guarantee))

                return build

            measure("bytes", count, read(ByteArraySchema(), lambda orders: orders), folder)
            measure("JSON", count, read(JsonSchema(), lambda orders: orders), folder)
            measure("JSON, keyed count", count, read(JsonSchema(), counted), folder)
            users = read(JsonSchema(ORDER), lambda orders: orders.map(lambda order: order["user"]))
            measure("JSON as columns, one field", count, users, folder)
            measure("JSON as columns, keyed count", count, read(JsonSchema(ORDER), counted), folder)
            measure("to Kafka, at least once, 1 s", count, to_kafka(DeliveryGuarantee.AT_LEAST_ONCE), folder, 1000)
            measure("to Kafka, exactly once, 1 s", count, to_kafka(DeliveryGuarantee.EXACTLY_ONCE), folder, 1000)
            measure("to Kafka, exactly once, 100 ms", count, to_kafka(DeliveryGuarantee.EXACTLY_ONCE), folder, 100)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
