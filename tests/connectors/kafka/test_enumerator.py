"""Questions to brokers that cannot answer yet."""

from types import SimpleNamespace

import pytest

from funken.connectors.kafka import enumerator
from funken.connectors.kafka.enumerator import Cluster, KafkaOffsetsInitializer, KafkaTopicPartition
from funken.errors import SourceNotReadable

confluent_kafka = pytest.importorskip("confluent_kafka", reason="install it with: pip install 'funken[kafka]'")
PARTITION = KafkaTopicPartition("new", 0)
NOT_LEADER, LOADING, REFUSED = 6, 14, 29


class Consumer:
    """Answers with errors, one after the other, and then with offset 7."""

    def __init__(self, *codes, of_partition):
        self.codes, self.of_partition, self.asked = list(codes), of_partition, 0

    def offsets_for_times(self, asked, timeout):
        self.asked += 1
        (partition,) = asked
        answer = confluent_kafka.TopicPartition(partition.topic, partition.partition, 7)
        if not self.codes:
            return [answer]
        error = confluent_kafka.KafkaError(self.codes.pop(0))
        if not self.of_partition:
            raise confluent_kafka.KafkaException(error)
        return [type("Answer", (), {"error": error, "topic": "new", "partition": 0, "offset": -1})]

    def close(self):
        pass


@pytest.fixture(params=[True, False], ids=["of a partition", "of the request"])
def ask(request, monkeypatch):
    pauses = []
    monkeypatch.setattr(enumerator, "time", SimpleNamespace(**{**vars(enumerator.time), "sleep": pauses.append}))

    def ask(*codes):
        consumer = Consumer(*codes, of_partition=request.param)
        with Cluster({"bootstrap.servers": "there:1", "group.id": "group"}) as cluster:
            cluster._consumer.close()
            cluster._consumer = consumer
            try:
                return cluster.offsets([PARTITION], KafkaOffsetsInitializer.earliest()), consumer.asked, len(pauses)
            except SourceNotReadable as error:
                return str(error), consumer.asked, len(pauses)

    return ask


def test_partitions_without_a_leader_are_asked_again(ask):
    assert ask() == ({PARTITION: 7}, 1, 0)
    assert ask(NOT_LEADER, LOADING, NOT_LEADER) == ({PARTITION: 7}, 4, 3)


def test_not_for_ever(ask):
    text, asked, pauses = ask(*[NOT_LEADER] * 100)
    assert "does not tell the offsets" in text
    assert (asked, pauses) == (8, 7)
    assert sum(enumerator._PAUSES_S) < 10


def test_what_will_not_pass_is_told_at_once(ask):
    text, asked, pauses = ask(REFUSED)
    assert "authorization" in text.lower()
    assert (asked, pauses) == (1, 0)
