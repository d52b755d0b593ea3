"""``pyflink.datastream.connectors.pulsar``: its builders make Funken's source and sink, which need no jar."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from funken.compat.pyflink.adoption import NotInFunken
from funken.compat.pyflink.members import ignores, sets
from funken.connectors import pulsar
from funken.connectors.pulsar import PulsarConnection, StartCursor, StopCursor, TopicRoutingMode
from funken.connectors.schemas import DeserializationSchema, SerializationSchema, SimpleStringSchema
from funken.connectors.sink import DeliveryGuarantee
from funken.errors import InvalidConfiguration

_PLUGIN, _PARAMETERS = "pulsar.client.authPluginClassName", "pulsar.client.authParams"
_CERTIFICATES = "pulsar.client.tlsTrustCertsFilePath"
_RESET = "pulsar.source.resetSubscriptionCursor"
_SCOPES = ("pulsar.client.", "pulsar.admin.", "pulsar.source.", "pulsar.consumer.", "pulsar.sink.", "pulsar.producer.")


class _Builder:
    """The base of the builders of source and sink: addresses, authentication, options."""

    def __init__(self) -> None:
        self._service_url = ""
        self._admin_url: str | None = None
        self._topics: tuple[str, ...] = ()
        self._schema: Any = SimpleStringSchema()
        self._config: dict[str, str] = {}

    set_admin_url = sets[str](
        "_admin_url", "admin_url", "Set the address of the REST API, which is asked for the topics of a pattern."
    )
    set_service_url = sets[str]("_service_url", "service_url", "Set the address of the brokers.")

    def set_topics(self, topics: str | list[str]) -> Any:
        """Set the topics."""
        self._topics = (topics,) if isinstance(topics, str) else tuple(topics)
        return self

    def set_authentication(self, auth_plugin_class_name: str, auth_params_string: str | dict[str, str]) -> Any:
        """Set who connects."""
        given = auth_params_string
        text = given if isinstance(given, str) else ",".join(f"{name}:{value}" for name, value in given.items())
        self._config |= {_PLUGIN: auth_plugin_class_name, _PARAMETERS: text}
        return self

    def set_config(self, key: Any, value: Any) -> Any:
        """Set an option; those of authentication, certificates and the subscription have an effect."""
        name = str(getattr(key, "key", key)() if callable(getattr(key, "key", None)) else key)
        if not name.startswith(_SCOPES):
            raise InvalidConfiguration(
                f"Pulsar: there is no option {name!r}; options begin with {', '.join(_SCOPES[:-1])} or {_SCOPES[-1]}."
            )
        self._config[name] = (
            value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
        )
        return self

    def set_properties(self, config: Mapping[str, Any]) -> Any:
        """Set options."""
        for key, value in config.items():
            self.set_config(key, value)
        return self

    def _connection(self) -> PulsarConnection:
        config = self._config
        if not self._service_url:
            raise InvalidConfiguration("Pulsar: there is no service URL; call set_service_url('pulsar://host:6650').")
        return PulsarConnection(
            self._service_url,
            self._admin_url,
            config.get(_PLUGIN),
            config.get(_PARAMETERS, ""),
            config.get(_CERTIFICATES),
        )


class RangeGenerator:
    """The keys of a shared subscription that a source reads; Funken reads partitions as a whole."""

    @staticmethod
    def full() -> RangeGenerator:
        """Read all keys."""
        return RangeGenerator()

    @staticmethod
    def fixed_key(
        support_null_key: bool = False, keys: Any = None, key_bytes: Any = None, ordering_key_bytes: Any = None
    ) -> RangeGenerator:
        """Refuse it: filter the stream by its key instead."""
        raise NotInFunken("RangeGenerator.fixed_key(): subscriptions are exclusive here; filter the stream by its key.")


class PulsarSourceBuilder(_Builder):
    """Describes a source."""

    def __init__(self) -> None:
        super().__init__()
        self._pattern: str | None = None
        self._subscription = ""
        self._consumer: str | None = None
        self._start, self._stop = StartCursor.default_start_cursor(), StopCursor.never()
        self._bounded = False

    set_subscription_name = sets[str](
        "_subscription", "subscription_name", "Set the subscription, which belongs to this job alone."
    )
    set_topic_pattern = sets[str]("_pattern", "topic_pattern", "Read the topics of a namespace whose names match.")

    def set_consumer_name(self, consumer_name: str) -> PulsarSourceBuilder:
        """Set the name of the consumers; ``%s`` in it is left out."""
        self._consumer = re.sub(r"[-_ ]*%s", "", consumer_name)
        return self

    set_range_generator = ignores("range_generator", "Accept ``RangeGenerator.full()``.")
    set_start_cursor = sets[StartCursor]("_start", "start_cursor", "Set where a new subscription begins.")

    def set_unbounded_stop_cursor(self, stop_cursor: StopCursor) -> PulsarSourceBuilder:
        """Set where partitions end, in a job that counts as unbounded."""
        self._stop, self._bounded = stop_cursor, False
        return self

    def set_bounded_stop_cursor(self, stop_cursor: StopCursor) -> PulsarSourceBuilder:
        """Set where partitions end, in a bounded job; with a cursor that never stops the job is unbounded."""
        self._stop, self._bounded = stop_cursor, stop_cursor.kind != "never"
        return self

    set_deserialization_schema = sets[DeserializationSchema](
        "_schema", "deserialization_schema", "Set the schema that makes records of messages."
    )

    def set_config_with_dict(self, config: Mapping[str, Any]) -> PulsarSourceBuilder:
        """Set options."""
        self.set_properties(config)
        return self

    def build(self) -> pulsar.PulsarSource:
        """Return the source."""
        return PulsarSource(
            self._connection(), self._topics, self._subscription, self._schema, self._start, self._stop, self._pattern,
            self._config.get(_RESET, "false") == "true", self._consumer, self._bounded,
        )  # fmt: skip


class PulsarSource(pulsar.PulsarSource):
    """Reads topics; ``builder()`` describes it."""

    @staticmethod
    def builder() -> PulsarSourceBuilder:
        """Return a builder.

        >>> builder = PulsarSource.builder().set_service_url("pulsar://localhost:6650").set_topics("orders")
        >>> builder.set_subscription_name("totals").set_bounded_stop_cursor(StopCursor.latest()).build().topics
        ('orders',)
        """
        return PulsarSourceBuilder()


class MessageDelayer:
    """The delay of brokers before they deliver messages (ms)."""

    def __init__(self, millis: int = 0) -> None:
        self.millis = millis

    @staticmethod
    def never() -> MessageDelayer:
        """Deliver them at once."""
        return MessageDelayer()

    @staticmethod
    def fixed(duration: Any) -> MessageDelayer:
        """Deliver each so much later: a ``Duration``, a ``timedelta`` or milliseconds."""
        if hasattr(duration, "total_seconds"):
            return MessageDelayer(int(duration.total_seconds() * 1000))
        millis = getattr(duration, "to_millis", None)
        return MessageDelayer(int(millis() if millis is not None else duration))


class PulsarSinkBuilder(_Builder):
    """Describes a sink."""

    def __init__(self) -> None:
        super().__init__()
        self._more: dict[str, Any] = {}

    def set_producer_name(self, producer_name: str) -> PulsarSinkBuilder:
        """Set how the names of producers begin that publish exactly once."""
        self._more["producer_name"] = re.sub(r"[-_ ]*%s", "", producer_name)
        return self

    set_delivery_guarantee = sets[DeliveryGuarantee](
        "_more.guarantee", "delivery_guarantee", "Set the delivery guarantee."
    )
    set_topic_routing_mode = ignores(
        "topic_routing_mode",
        "Accept going round; records of PyFlink have no key, so ``MESSAGE_KEY_HASH`` goes round as well.",
    )

    def set_topic_router(self, topic_router_class_name: str) -> PulsarSinkBuilder:
        """Refuse it: a router is a class of Java."""
        raise NotInFunken(
            f"set_topic_router({topic_router_class_name!r}) names a class of Java, and there is none; write with "
            "funken.connectors.pulsar.PulsarSink(router=...), a function of Python."
        )

    set_serialization_schema = sets[SerializationSchema](
        "_schema", "serialization_schema", "Set the schema that makes messages of records."
    )

    def delay_sending_message(self, message_delayer: MessageDelayer) -> PulsarSinkBuilder:
        """Let brokers deliver messages later."""
        self._more["delay"] = message_delayer.millis
        return self

    def build(self) -> pulsar.PulsarSink:
        """Return the sink."""
        return PulsarSink(self._connection(), self._topics, self._schema, **self._more)


class PulsarSink(pulsar.PulsarSink):
    """Writes topics; ``builder()`` describes it."""

    @staticmethod
    def builder() -> PulsarSinkBuilder:
        """Return a builder.

        >>> from funken.connectors.sink import DeliveryGuarantee
        >>> builder = PulsarSink.builder().set_service_url("pulsar://localhost:6650").set_topics(["totals"])
        >>> builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build().guarantee.name
        'EXACTLY_ONCE'
        """
        return PulsarSinkBuilder()


__all__ = ["StartCursor", "StopCursor", "TopicRoutingMode"]
