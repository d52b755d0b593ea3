"""Descriptions of RabbitMQ's connections, sources and sinks: what they take, refuse, show and hide."""

import pickle
import ssl

import pytest

from funken.connectors.rabbitmq import (
    RMQConnectionConfig,
    RMQConnectionConfigBuilder,
    RMQMessage,
    RMQSink,
    RMQSinkPublishOptions,
    RMQSource,
)
from funken.errors import InvalidConfiguration

pytest.importorskip("pika", reason="install it with: pip install 'funken[rabbitmq]'")

URI = "amqps://ada%40home:open%2Fsesame@mq.example:5999/a%2Fb?verify=verify_none"


def test_a_uri_is_taken_apart():
    config = RMQConnectionConfig(uri=URI)
    parts = (
        config.get_host(),
        config.get_port(),
        config.get_virtual_host(),
        config.get_user_name(),
        config.get_password(),
    )
    assert parts == ("mq.example", 5999, "a/b", "ada@home", "open/sesame")
    parameters = config.parameters("test")
    assert parameters.ssl_options.context.verify_mode is ssl.CERT_NONE
    assert parameters.credentials.password == "open/sesame"
    plain = RMQConnectionConfig(uri="amqp://mq.example")
    assert (plain.get_port(), plain.get_virtual_host(), plain.get_user_name()) == (5672, "/", "guest")
    assert plain.parameters("test").ssl_options is None
    assert RMQConnectionConfig(uri="amqps://mq.example").get_port() == 5671
    assert RMQConnectionConfig(uri="amqp://[::1]:5999/x").shown == "amqp://[::1]:5999/x"


@pytest.mark.parametrize("text", [repr, str])
def test_a_password_is_not_shown(text):
    config = RMQConnectionConfig(uri=URI)
    shown = [text(each) for each in (config, RMQSource(config, "q"), RMQSink(config, "q"))]
    shown.append(text(RMQConnectionConfigBuilder().set_password("open/sesame")))
    assert not [each for each in shown if "sesame" in each]


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("mq.example:5672", "begins with amqp://"),
        ("http://mq.example", "begins with amqp://"),
        ("amqp://:5672/", "begins with amqp://"),
        ("amqp://ada:sesame@mq.example:port/", "begins with amqp://"),
        ("amqp://ada:sesame@mq.example/?cafile=x", "cafile in its query; there may be cacertfile"),
    ],
)
def test_what_is_no_uri_is_refused(uri, why):
    with pytest.raises(InvalidConfiguration, match=why) as told:
        RMQConnectionConfig(uri=uri)
    assert "sesame" not in str(told.value)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "has no host"),
        ({"host": "mq", "prefetch_count": 0}, "from 1 to 65535, not 0"),
        ({"host": "mq", "prefetch_count": 70_000}, "from 1 to 65535, not 70000"),
        ({"host": "mq", "requested_heartbeat": 0}, "requested_heartbeat of a connection to RabbitMQ is positive"),
    ],
)
def test_what_cannot_be_is_refused(values, why):
    with pytest.raises(InvalidConfiguration, match=why):
        RMQConnectionConfig(**values)


def test_certificates_that_are_not_there_are_told():
    config = RMQConnectionConfig(uri="amqps://mq.example/?cacertfile=/nowhere.pem")
    with pytest.raises(InvalidConfiguration, match="certificates for amqps://mq.example:5671/ cannot be loaded"):
        config.parameters("test")


def test_a_builder_sets_what_the_getters_return():
    values = {
        "host": "mq", "port": 1, "virtual_host": "v", "user_name": "u", "password": "p", "network_recovery_interval": 2,
        "connection_timeout": 3, "requested_channel_max": 4, "requested_frame_max": 5000, "requested_heartbeat": 6,
    }  # fmt: skip
    builder = RMQConnectionConfigBuilder()
    for name, value in values.items():
        builder = getattr(builder, f"set_{name}")(value)
    config = builder.set_automatic_recovery(False).set_topology_recovery_enabled(False).set_prefetch_count(7).build()
    assert {name: getattr(config, f"get_{name}")() for name in values} == values
    assert (config.is_automatic_recovery(), config.is_topology_recovery(), config.prefetch_count) == (False, False, 7)
    parameters = config.parameters("test")
    assert (parameters.heartbeat, parameters.frame_max, parameters.channel_max) == (6, 5000, 4)


def test_sources_and_sinks_travel():
    source = RMQSource(RMQConnectionConfig(uri=URI), "orders", True)
    assert pickle.loads(pickle.dumps(source)) == source
    sink = RMQSink(RMQConnectionConfig(uri=URI), "orders")
    assert pickle.loads(pickle.dumps(sink)) == sink


def test_messages_are_made_of_values_and_functions():
    options = RMQSinkPublishOptions(
        lambda record: record["to"],
        "key",
        lambda record: {"headers": {"n": 1}, "delivery_mode": 1},
        lambda record: False,
    )
    made = options.publication()({"to": "exchange"}, b"body")
    assert (made.exchange, made.routing_key, made.body, made.mandatory) == ("exchange", "key", b"body", False)
    assert (made.properties.headers, made.properties.delivery_mode) == ({"n": 1}, 1)
    fixed = RMQSinkPublishOptions("", "queue", {"content_type": "text/plain"}).publication()
    one, other = fixed(1, b"1"), fixed(2, b"2")
    assert (one.properties.content_type, one.properties.delivery_mode, one.mandatory) == ("text/plain", 2, True)
    assert one.properties is other.properties, "properties that do not change are made once"


def test_properties_that_do_not_exist_are_refused():
    with pytest.raises(InvalidConfiguration, match="no property 'item'; put it into its headers"):
        RMQSinkPublishOptions("", "queue", {"item": "tea"})
    options = RMQSinkPublishOptions("", "queue", lambda record: {"messageid": record})
    with pytest.raises(InvalidConfiguration, match="did you mean 'message_id'"):
        options.publication()(1, b"1")


@pytest.mark.parametrize("options", [{}, {"queue_name": "q", "publish_options": RMQSinkPublishOptions("", "q")}])
def test_a_sink_has_either_a_queue_or_options(options):
    with pytest.raises(InvalidConfiguration, match="either the name of a queue or publish_options"):
        RMQSink(RMQConnectionConfig("mq"), **options)


def test_a_source_with_ids_has_one_subtask():
    config = RMQConnectionConfig("mq")
    assert (RMQSource(config, "q", True).max_parallelism, RMQSource(config, "q").max_parallelism) == (1, None)
    splits = RMQSource(config, "q").enumerator(2)
    assert [split.id for split in splits.next_splits(0) + splits.next_splits(1)] == ["q-0", "q-1"]
    assert splits.next_splits(1) is None
    assert RMQMessage(b"") == RMQMessage(b"", "", "", {}, {}, False)
