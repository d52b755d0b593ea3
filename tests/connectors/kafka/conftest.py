"""Brokers that librdkafka has for tests, in this process: they know everything but isolation and requests about transactions."""

from types import SimpleNamespace

import pytest

from funken.connectors.librdkafka import messages as native


@pytest.fixture
def mock():
    """A producer with three brokers in it, and their addresses; a topic is made, with four partitions, when it is written."""
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="install it with: pip install 'funken[kafka]'")
    producer = confluent_kafka.Producer({"bootstrap.servers": "", "test.mock.num.brokers": 3, "log_level": 0})
    brokers = producer.list_topics(timeout=30).brokers.values()
    return SimpleNamespace(producer=producer, servers=",".join(f"{broker.host}:{broker.port}" for broker in brokers))


@pytest.fixture(params=["objects", "arrays"])
def taken(request, monkeypatch):
    """How messages are taken out of the client: as its objects, or as arrays by the compiled helper."""
    pytest.importorskip("confluent_kafka", reason="install it with: pip install 'funken[kafka]'")  # loads librdkafka
    if request.param == "objects":
        monkeypatch.setenv("FUNKEN_NATIVE", "0")
    elif native.load() is None:
        pytest.skip("no compiled helper: install a C compiler, and Funken again")
    return request.param
