"""Runner: Funken in continuous mode, from Kafka. Variant ``lambdas``: dicts of ``json``; ``vectorised``: columns of fields."""

from __future__ import annotations

import kafka_common
from funken_python import environment, readings
from protocol import Spec, answer, spec, unsupported, watch

from funken import DataStream, DiscardingSink, StreamExecutionEnvironment, Types, WatermarkStrategy
from funken.connectors import JsonSchema
from funken.connectors.kafka import KafkaOffsetsInitializer, KafkaSource

ORDER = Types.ROW_NAMED(["id", "user", "price", "note"], [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.STRING()])


def build(env: StreamExecutionEnvironment, wanted: Spec, topic: str, bounded: bool) -> DataStream:
    """Add the program."""
    builder = KafkaSource.builder().set_bootstrap_servers(kafka_common.servers()).set_topics(topic)
    builder = builder.set_value_only_deserializer(JsonSchema(ORDER if wanted.variant == "vectorised" else None))
    if bounded:
        builder = builder.set_bounded(KafkaOffsetsInitializer.latest())
    orders = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "orders")
    pairs = orders.map(lambda order: (order["user"], 1)).key_by(lambda pair: pair[0])
    return pairs.reduce(lambda a, b: (a[0], a[1] + b[1]))


def main() -> None:
    """Check, then measure."""
    wanted = spec()
    with build(environment(wanted, "checked"), wanted, kafka_common.CHECKED, True).execute_and_collect() as found:
        number = kafka_common.check(found, wanted.keys)
    results = build(environment(wanted, "measured"), wanted, kafka_common.MEASURED, False)
    results.sink_to(DiscardingSink()).name("discard")
    env = results.get_execution_environment()
    if wanted.variant == "vectorised" and "columns: orders: vectorized" not in env.explain():
        unsupported("the source produces no columns; explain() says why")
    client = env.execute_async("kafka")
    try:
        answer({"checked": number, **watch(lambda: readings(client, "keyed"), wanted, kafka_common.total())})
    finally:
        client.cancel().result(60)


if __name__ == "__main__":
    main()
