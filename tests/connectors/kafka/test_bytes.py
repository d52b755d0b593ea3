"""The metrics ``numBytesIn`` and ``numBytesSend`` of Kafka, on the brokers that librdkafka has for tests."""

import threading
from time import monotonic

import pytest

from funken.connectors import Batch, ConnectorContext, DeliveryGuarantee, SimpleStringSchema
from funken.connectors.kafka import KafkaOffsetsInitializer, KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from funken.connectors.kafka import reader as kafka_reader

WORDS = [f"wörd{number}" for number in range(2000)]
SIZE = sum(len(word.encode()) for word in WORDS)


@pytest.mark.parametrize("by_key", [False, True])
def test_a_sink_counts_keys_and_values(mock, by_key):
    schema = KafkaRecordSerializationSchema.builder().set_topic("bytes-out")
    schema = schema.set_value_serialization_schema(SimpleStringSchema())
    if by_key:
        schema = schema.set_key_serialization_schema(SimpleStringSchema())
    sink = KafkaSink.builder().set_bootstrap_servers(mock.servers).set_record_serializer(schema.build())
    context = ConnectorContext("out")
    writer = sink.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build().writer(context)
    writer.open()
    writer.write(WORDS, None, 0)
    writer.flush(end_of_input=True)
    writer.close()

    assert context.metrics.snapshot() == {"numRecordsSend": 2000, "numBytesSend": 2 * SIZE if by_key else SIZE}


def test_a_source_has_what_the_client_says_it_received(mock, monkeypatch):
    monkeypatch.setattr(kafka_reader, "_STATISTICS_MS", 50)
    for word in WORDS:
        mock.producer.produce("bytes-in", word, partition=0)
    assert mock.producer.flush(30) == 0
    builder = KafkaSource.builder().set_bootstrap_servers(mock.servers).set_topics("bytes-in").set_group_id("g")
    source = builder.set_starting_offsets(KafkaOffsetsInitializer.earliest())
    source = source.set_value_only_deserializer(SimpleStringSchema()).build()
    woken, enumerator = threading.Event(), source.enumerator(1)
    context = ConnectorContext("in", wake=woken.set)
    enumerator.start()
    reader = source.reader(context)
    reader.open()
    count, until = 0, monotonic() + 60
    try:
        reader.add_splits(enumerator.next_splits(0))
        while monotonic() < until and (count < len(WORDS) or context.metrics.snapshot()["numBytesIn"] < SIZE):
            polled = reader.poll(500, now=1)
            if isinstance(polled, Batch):
                count += len(polled.values)
            else:
                woken.wait(0.05)
                woken.clear()
    finally:
        reader.close()

    # What is in the topic, with what the protocol has around each message.
    assert count == len(WORDS)
    assert SIZE <= context.metrics.snapshot()["numBytesIn"] < 3 * SIZE
