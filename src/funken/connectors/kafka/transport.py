"""What a Kafka sink is made of, and what it reaches the brokers through: below its writers and its committer, which use both."""

from __future__ import annotations

import difflib
import time
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from funken.connectors.kafka.client import REQUEST_TIMEOUT_S, LastError, confluent, made, message_of
from funken.connectors.kafka.transactions import BrokerTransactionAdmin, TransactionAdmin
from funken.connectors.sink import DeliveryGuarantee
from funken.dataclass import dataclass
from funken.errors import SinkNotWritable

TRANSACTION_TIMEOUT_MS = 3_600_000
"""As in Flink: the brokers' maximum (15 min by default) has to be raised, or this lowered."""


@dataclass(frozen=True)
class Transport:
    """What writers and committers reach the brokers through; the tests have one without brokers."""

    def producer(self, properties: Mapping[str, Any], who: str) -> Any:
        """Make a producer."""
        return made(confluent().Producer, properties, who)

    def transactions(self, servers: str, properties: Mapping[str, Any]) -> TransactionAdmin:
        """Return what commits transactions of other processes."""
        return BrokerTransactionAdmin(servers, properties)

    def leaders(self, settings: SinkSettings, topic: str) -> dict[tuple[str, int], list[int]]:
        """Return which brokers lead which partitions of a topic; an ``OSError`` if that cannot be told."""
        kafka = confluent()
        properties = _connecting(settings.client_properties()) | {"bootstrap.servers": settings.servers}
        admin = made(confluent("confluent_kafka.admin").AdminClient, {**properties, "log_level": 0}, "Kafka sink")
        try:
            cluster = admin.list_topics(topic, timeout=REQUEST_TIMEOUT_S)
        except kafka.KafkaException as error:
            raise ConnectionError(message_of(error)) from error
        found: dict[tuple[str, int], list[int]] = {}
        for number, partition in cluster.topics[topic].partitions.items():
            if partition.leader not in cluster.brokers:
                raise ConnectionError(f"partition {number} of topic {topic!r} has no leader")
            leader = cluster.brokers[partition.leader]
            found.setdefault((leader.host, leader.port), []).append(number)
        return found

    def check(self, settings: SinkSettings) -> None:
        """Raise if the brokers cannot be reached, or cannot do what the sink needs."""
        _BrokerCheck(settings).run()

    def pause(self, seconds: float) -> None:
        """Wait before a request is repeated."""
        time.sleep(seconds)


@dataclass(frozen=True)
class SinkSettings:
    """The fields of a Kafka sink."""

    servers: str = ""
    serializer: Any = None
    guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE
    transactional_id_prefix: str = ""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # there may be passwords in it
    transport: Transport = field(default=Transport(), repr=False, compare=False)

    @property
    def transaction_timeout(self) -> int:
        """Return how long a transaction may be open (ms), from its first record to its commit."""
        return int(self.properties.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))

    def ids_of(self, operator: str) -> str:
        """Return what the transactional ids of an operator begin with (its uid, else its name)."""
        return f"{self.transactional_id_prefix}/{operator}/"

    def client_properties(self) -> dict[str, Any]:
        """Return the properties of a producer."""
        own = {"linger.ms": "5", **self.properties, "bootstrap.servers": self.servers}
        if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return own | {"transaction.timeout.ms": str(self.transaction_timeout)}
        own.pop("transaction.timeout.ms", None)
        if self.guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
            return {"enable.idempotence": "true", **own}
        return own


def _connecting(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of the properties is about connections."""
    return {
        key: value for key, value in properties.items() if key.startswith(("security.", "ssl.", "sasl.", "enable.ssl"))
    }


class _BrokerCheck:
    """Asks the brokers, before anything runs."""

    def __init__(self, sink: SinkSettings) -> None:
        self._sink = sink
        self._last_error = LastError("Kafka sink")

    def run(self) -> None:
        sink, kafka = self._sink, confluent()
        admin_module = confluent("confluent_kafka.admin")
        # A producer knows all properties of the sink; one without a transactional id connects to nothing but brokers.
        own = {key: value for key, value in sink.client_properties().items() if key != "transaction.timeout.ms"}
        made(kafka.Producer, own, "Kafka sink")
        connect = {**_connecting(own), "bootstrap.servers": sink.servers, "error_cb": self._last_error}
        admin = made(admin_module.AdminClient, connect, "Kafka sink")
        try:
            cluster = admin.list_topics(timeout=REQUEST_TIMEOUT_S)
        except kafka.KafkaException as error:
            raise SinkNotWritable(
                f"Kafka sink: no broker of {sink.servers!r} answers: {message_of(error)}{self._last_error.because}; start one, "
                "or correct set_bootstrap_servers(), the credentials or the security.protocol."
            ) from error
        settings = self._settings(admin, admin_module, kafka, str(next(iter(cluster.brokers), "")))
        self._check_topic(cluster.topics, settings.get("auto.create.topics.enable") != "false")
        limit = settings.get("transaction.max.timeout.ms")
        if sink.guarantee is DeliveryGuarantee.EXACTLY_ONCE and limit and sink.transaction_timeout > int(limit):
            raise SinkNotWritable(
                f"Kafka sink: transaction.timeout.ms is {sink.transaction_timeout}, but the brokers allow {limit} "
                "(transaction.max.timeout.ms); raise theirs, or set_property('transaction.timeout.ms', ...) to less. It has to "
                "exceed the time between checkpoints and the longest time that the job may be down."
            )

    @staticmethod
    def _settings(admin: Any, module: Any, kafka: Any, broker: str) -> dict[str, str]:
        """Return the settings of a broker; nothing if this user may not see them."""
        resource = module.ConfigResource(module.ResourceType.BROKER, broker)
        try:
            [found] = admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S).values()
            return {name: entry.value for name, entry in found.result(REQUEST_TIMEOUT_S).items()}
        except (kafka.KafkaException, TimeoutError):
            return {}

    def _check_topic(self, topics: Mapping[str, Any], created: bool) -> None:
        name = self._sink.serializer.topic
        if not isinstance(name, str) or not name or created or name in topics:
            return
        near = difflib.get_close_matches(name, topics, 3)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise SinkNotWritable(
            f"Kafka sink: topic {name!r} does not exist at {self._sink.servers!r}, and the brokers make none by themselves; "
            f"create it, or correct the name.{hint}"
        )


__all__ = ["SinkSettings", "Transport"]
