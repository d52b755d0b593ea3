"""The lines of librdkafka: they go to Python's logging, twice a minute at most, and none is printed."""

import logging

import pytest

from funken.connectors import ConnectorContext, SimpleStringSchema
from funken.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from funken.connectors.kafka.client import confluent, made
from funken.connectors.kafka.enumerator import Cluster
from funken.errors import SinkNotWritable, SourceNotReadable
from funken.timing.clock import SystemClock, pause

AWAY = "127.0.0.1:1"
SOURCE = (
    KafkaSource.builder().set_bootstrap_servers(AWAY).set_topics("t").set_value_only_deserializer(SimpleStringSchema())
)
pytest.importorskip("confluent_kafka", reason="install it with: pip install 'funken[kafka]'")


def polled(client):
    end = SystemClock().monotonic() + 0.6  # the client connects about ten times
    while SystemClock().monotonic() < end:
        client.poll(0.05)


def consumer():
    client = made(confluent().Consumer, {"bootstrap.servers": AWAY, "group.id": "g"}, "Kafka source")
    polled(client)
    client.close()


def producer():
    polled(made(confluent().Producer, {"bootstrap.servers": AWAY}, "Kafka sink"))


def admin():
    polled(made(confluent("confluent_kafka.admin").AdminClient, {"bootstrap.servers": AWAY}, "Kafka sink"))


def reader():
    opened = SOURCE.build().reader(ConnectorContext("orders"))
    opened.open()
    pause(0.6)  # its thread polls
    opened.close()


@pytest.mark.parametrize("client", [consumer, producer, admin, reader])
def test_the_lines_of_every_client_are_logged_once_and_none_is_printed(client, capfd, caplog):
    with caplog.at_level(logging.DEBUG, "funken.connectors.kafka.client"):
        client()

    refused = [
        each for each in caplog.records if "Connection refused" in each.getMessage() and "FAIL" in each.getMessage()
    ]
    assert len(refused) == 1 and refused[0].levelno == logging.WARNING
    assert refused[0].getMessage().startswith(("Kafka source: FAIL", "Kafka sink: FAIL", "operator 'orders': FAIL"))
    assert "rdkafka" not in capfd.readouterr().err


def test_who_asks_brokers_that_are_away_gets_an_error_and_nothing_is_printed(capfd, monkeypatch):
    monkeypatch.setattr("funken.connectors.kafka.sink.REQUEST_TIMEOUT_S", 0.3)
    monkeypatch.setattr(Cluster.__init__, "__defaults__", (0.3,))
    schema = (
        KafkaRecordSerializationSchema.builder().set_topic("t").set_value_serialization_schema(SimpleStringSchema())
    )
    sink = KafkaSink.builder().set_bootstrap_servers(AWAY).set_record_serializer(schema.build()).build()

    with pytest.raises(SinkNotWritable, match="no broker of '127.0.0.1:1' answers"):
        sink.check()
    with pytest.raises(SourceNotReadable, match="127.0.0.1:1"):
        SOURCE.build().enumerator(1).start()

    assert capfd.readouterr().err == ""
