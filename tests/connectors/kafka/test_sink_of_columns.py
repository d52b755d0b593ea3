"""A Kafka sink that is given columns produces what it produces of their records."""

from dataclasses import replace

import numpy as np
import pytest

from funken import NumberSequenceSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.columnar.kernels.columns import columns_of
from funken.connectors import ConnectorContext, DeliveryGuarantee, JsonSchema, SimpleStringSchema
from funken.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from funken.connectors.kafka.sink import Transport
from funken.expr.types import DICT, INT, STR, Record

RECORDS = [{"item": "tea", "n": 3}, {"item": "né", "n": -1}, {"item": "", "n": 0}]
COLUMNS = Record((STR, INT), DICT, ("item", "n"))


class Producer:
    """Keeps what it is given; its queue is full now and then."""

    def __init__(self):
        self.sent = []
        self._full = True

    def produce(self, topic, value=None, key=None, timestamp=0):
        self._full = not self._full
        if self._full:
            raise BufferError
        self.sent.append((topic, value, key, timestamp))

    def poll(self, timeout):
        return 0

    def flush(self, timeout):
        return 0


class Kept(Transport):
    def __init__(self):
        self.made = Producer()

    def producer(self, properties, who):
        return self.made


def sink_of(value, key=None, **more):
    schema = KafkaRecordSerializationSchema.builder().set_topic("sales").set_value_serialization_schema(value)
    if key is not None:
        schema = schema.set_key_serialization_schema(key)
    for name, given in more.items():
        schema = getattr(schema, f"set_{name}")(given)
    builder = KafkaSink.builder().set_bootstrap_servers("model:1").set_record_serializer(schema.build())
    return builder.set_delivery_guarantee(DeliveryGuarantee.NONE).build()


def produced(sink, values, timestamps):
    transport = Kept()
    writer = replace(sink, transport=transport).writer(ConnectorContext("sales", 0))
    writer.open()
    writer.write(values, timestamps, 1_800_000_000_000)
    return transport.made.sent


@pytest.mark.parametrize("key", [None, JsonSchema()])
@pytest.mark.parametrize("stamps", [None, [1_799_999_999_000, 0, -5]])
def test_columns_are_produced_as_their_records(key, stamps):
    sink = sink_of(JsonSchema(), key)
    block = columns_of(RECORDS, COLUMNS)
    block = block if stamps is None else block.stamped(np.array(stamps, np.int64))
    found = produced(sink, block, None if stamps is None else block.timestamps)
    assert found == produced(sink, RECORDS, stamps)
    assert [(value, key is None or message == value) for _, value, message, _ in found] == [
        (message, True) for message in JsonSchema().serialize_block(RECORDS)
    ]


class Renamed(JsonSchema):
    """A schema of a user."""

    def serialize(self, value):
        return b"other"


@pytest.mark.parametrize(("sink", "takes"), [
    (sink_of(JsonSchema()), True), (sink_of(JsonSchema(), JsonSchema()), True), (sink_of(SimpleStringSchema()), False),
    (sink_of(JsonSchema(), SimpleStringSchema()), False), (sink_of(Renamed()), False),
    (sink_of(JsonSchema(), partitioner=lambda value: 0), False), (sink_of(JsonSchema(), header_provider=lambda value: []), False),
    (sink_of(JsonSchema(), topic_selector=lambda value: "x"), False),
])  # fmt: skip
def test_only_messages_of_a_schema_that_takes_columns_are_made_of_them(sink, takes):
    env = StreamExecutionEnvironment.create_local_environment(1)
    numbers = env.from_source(NumberSequenceSource(0, 9), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(lambda n: {"n": n}).sink_to(sink).name("topic")
    assert sink.takes_columns == takes == ("columns: topic: vectorized" in env.explain())
