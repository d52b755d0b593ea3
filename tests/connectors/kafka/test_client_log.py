"""The lines of librdkafka: they go to Python's logging, twice a minute at most, and none is printed."""

import logging
import re

import pytest

from funken.connectors import ConnectorContext, SimpleStringSchema
from funken.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from funken.connectors.kafka.client import LastError, cluster_of, confluent, made
from funken.connectors.kafka.enumerator import Cluster
from funken.errors import SinkNotWritable, SourceNotReadable
from funken.timing.clock import SystemClock, pause

AWAY = "127.0.0.1:1"
SOURCE = (
    KafkaSource.builder().set_bootstrap_servers(AWAY).set_topics("t").set_value_only_deserializer(SimpleStringSchema())
)
pytest.importorskip("confluent_kafka", reason="install it with: pip install 'funken[kafka]'")


def until_refused(caplog, turn):
    """Take turns until the client has reported a refused connection, and some more: it connects about ten times a second."""
    end = SystemClock().monotonic() + 30
    while not refusals(caplog) and SystemClock().monotonic() < end:
        turn()
    for _ in range(10):
        turn()


def refusals(caplog):
    return [each for each in caplog.records if re.search("FAIL .*Connection refused", each.getMessage())]


def consumer(caplog):
    client = made(confluent().Consumer, {"bootstrap.servers": AWAY, "group.id": "g"}, "Kafka source")
    until_refused(caplog, lambda: client.poll(0.05))
    client.close()


def producer(caplog):
    client = made(confluent().Producer, {"bootstrap.servers": AWAY}, "Kafka sink")
    until_refused(caplog, lambda: client.poll(0.05))


def admin(caplog):
    client = made(confluent("confluent_kafka.admin").AdminClient, {"bootstrap.servers": AWAY}, "Kafka sink")
    until_refused(caplog, lambda: client.poll(0.05))


def reader(caplog):
    opened = SOURCE.build().reader(ConnectorContext("orders"))
    opened.open()
    until_refused(caplog, lambda: pause(0.05))  # its thread polls
    opened.close()


@pytest.mark.parametrize("client", [consumer, producer, admin, reader])
def test_the_lines_of_every_client_are_logged_once_and_none_is_printed(client, capfd, caplog):
    with caplog.at_level(logging.DEBUG, "funken.connectors.kafka.client"):
        client(caplog)

    (refused,) = refusals(caplog)
    assert refused.levelno == logging.WARNING
    assert refused.getMessage().startswith(("Kafka source: FAIL", "Kafka sink: FAIL", "operator 'orders': FAIL"))
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


def test_brokers_that_do_not_answer_at_once_are_said_before_the_time_is_over(caplog):
    kafka, asked = confluent(), []

    class Away:
        def list_topics(self, timeout):
            asked.append(timeout)
            if len(asked) == 1:
                raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TRANSPORT))
            return "topics"

        def poll(self, timeout):
            error(kafka.KafkaError(kafka.KafkaError._ALL_BROKERS_DOWN, "Connection refused"))

    error = LastError("Kafka source")
    assert cluster_of(Away(), 30.0, "nowhere:1", error, "Kafka source") == "topics"
    assert asked == [3.0, 27.0]
    assert re.search(r"no broker of 'nowhere:1' answers yet \(.*Connection refused\); waiting 27 s", caplog.text)
